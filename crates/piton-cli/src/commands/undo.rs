//! `piton undo` and `piton redo`: turns are taken back, words and files, and brought back.

use crate::cli::{RedoArgs, UndoArgs};
use crate::commands::sessions::find;
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_core::client::{Plan, Scope};
use piton_core::event::{Direction, Event, Record};
use piton_core::ids::{Seq, SessionId, TimeMs};
use piton_core::turn::State;
use piton_engine::assemble::bare;
use piton_engine::engine::{Engine, Handle, Resumed};
use piton_engine::rewind::{self, RewindError};
use piton_tools::snapshot::{PathChange, Restored, SnapshotError, Snapshots};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many lines a list has at most.
const MOST_LISTED: usize = 30;
/// More changes than this in one folder of the workspace are told in one line: it is a build's output, mostly.
const MOST_IN_FOLDER: usize = 10;

/// What was asked for.
struct Wish {
    direction: Direction,
    turns: u32,
    scope: Scope,
    dry_run: bool,
    overwrite: bool,
}

/// Takes turns back.
pub(crate) async fn undo(args: UndoArgs, around: &Surroundings) -> Result<u8> {
    let scope = match (args.files_only, args.chat_only) {
        (true, _) => Scope::Files,
        (_, true) => Scope::Chat,
        (false, false) => Scope::Both,
    };
    let UndoArgs { turns, dry_run, overwrite, .. } = args;
    let wish = Wish { direction: Direction::Undo, turns, scope, dry_run, overwrite };
    rewind(args.session.as_deref(), &wish, around).await
}

/// Brings back what was taken back last.
pub(crate) async fn redo(args: RedoArgs, around: &Surroundings) -> Result<u8> {
    let RedoArgs { dry_run, overwrite, .. } = args;
    let wish = Wish { direction: Direction::Redo, turns: 1, scope: Scope::Both, dry_run, overwrite };
    rewind(args.session.as_deref(), &wish, around).await
}

async fn rewind(session: Option<&str>, wish: &Wish, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    let id = match session {
        Some(session) => find::find(&engine, around, session)?,
        None => newest_here(&engine, around)?,
    };
    let summary = engine.store().summary(&id).await?;
    let workspace = PathBuf::from(&summary.workspace);
    ensure!(workspace.is_dir(), "the folder that {id} works in, {}, is not there", workspace.display());
    let settings = bare::for_upkeep(summary.model.as_deref().unwrap_or_default(), &around.machine, &workspace);
    let done = if wish.dry_run {
        preview(&engine, &id, settings.snapshots, wish, &workspace, around.now_ms).await
    } else {
        let session = match engine.join(&id).await? {
            Some(there) => there,
            None => engine.resume(&id, settings).await?,
        };
        let done = take_back(&session, wish, &workspace).await;
        session.close().await;
        done
    };
    let has_begun = |error: &Failure| matches!(error.find(), Some(RewindError::Abandoned(_)));
    let is_nothing = |error: &Failure| matches!(error.find(), Some(RewindError::NothingToRedo));
    let is_dropped = |error: &Failure| matches!(error.find(), Some(RewindError::Snapshot(SnapshotError::Unknown(_))));
    match done {
        Err(error) if has_begun(&error) => Err(error),
        Err(error) if is_nothing(&error) => bail!("nothing to redo in {id}"),
        Err(error) if is_dropped(&error) => Err(error).with_context(|| {
            format!(
                "nothing was changed in {id}: its snapshots are not here, as after an import, a move or a long rest; \
                 --chat-only takes back the words alone"
            )
        }),
        done => done.with_context(|| format!("nothing was changed in {id}")),
    }
}

/// Says what was given up half-way from this position on: an undo of before that was found unfinished, or one of now.
/// Returns where to go on.
pub(crate) async fn tell_given_up(session: &Handle, from: Seq) -> Seq {
    // Who cannot read it hears of that from what comes next.
    let records = session.store().of_kinds(session.id(), &["rewind_abandoned"]).await.unwrap_or_default();
    let mut next = from;
    for record in records.iter().filter(|record| record.seq >= from) {
        next = record.seq + 1;
        if let Event::RewindAbandoned { rewind, error, touches } = &record.event {
            view::write_stderr(&format!("{}\n", view::given_up(rewind, error, touches)));
        }
    }
    next
}

/// Brings what was left half-way to its end, and says so. No model is asked, and no turn goes on.
pub(crate) async fn finish_begun(session: &Handle) {
    // Any question does: it is answered when that is done.
    drop(session.plan_rewind(Direction::Undo, 1, Scope::Chat).await);
    tell_given_up(session, session.opened_at()).await;
    if let Some(done) = finished_now(session).await {
        view::write_stderr(&format!("{done}\n"));
    }
}

/// What was left half-way before, and was brought to its end when the session was opened.
async fn finished_now(session: &Handle) -> Option<String> {
    // Who cannot read it hears of that from what comes next.
    let records = session.store().of_kinds(session.id(), &["rewind_finished"]).await.unwrap_or_default();
    let since = records.iter().filter(|record| record.seq >= session.opened_at());
    let words = |record: &Record| match &record.event {
        Event::RewindFinished { rewind, left, .. } => Some(view::finished_late(rewind, left)),
        _ => None,
    };
    since.filter_map(words).next_back()
}

fn newest_here(engine: &Engine, around: &Surroundings) -> Result<SessionId> {
    let here = around.workspace(None)?;
    let none = || format!("no session has worked in {}; name one with --session ID", here.display());
    engine.index()?.newest(&here)?.with_context(none)
}

/// Says what would be done, and opens nothing.
async fn preview(
    engine: &Engine,
    id: &SessionId,
    snapshots: Option<Arc<Snapshots>>,
    wish: &Wish,
    workspace: &Path,
    now_ms: TimeMs,
) -> Result<u8> {
    let records = engine.records(id).await?;
    let session = State::fold(&records);
    if let Some(begun) = session.rewinding() {
        let what = match begun.rewind.direction {
            Direction::Undo => "undo",
            Direction::Redo => "redo",
        };
        view::write_stderr(&format!("would finish the interrupted {what}, and go no further\n"));
        return Ok(0);
    }
    if session.is_in_turn() {
        view::write_stderr("the last turn was interrupted; it would be ended first\n");
    }
    let (direction, turns, scope) = (wish.direction, wish.turns, wish.scope);
    let plan = move || rewind::preview(records, snapshots.as_deref(), direction, turns, scope, now_ms);
    let mut plan = tokio::task::spawn_blocking(plan).await??;
    show(&mut plan, wish, workspace)?;
    Ok(0)
}

async fn take_back(session: &Handle, wish: &Wish, workspace: &Path) -> Result<u8> {
    if let (Resumed::MidTurn, Some(pid)) = (session.resumed(), session.elsewhere()) {
        bail!("a turn is under way in process {pid}; stop it first: piton session cancel {}", session.id());
    }
    if session.resumed() == Resumed::MidTurn {
        view::write_stderr("the last turn was interrupted; ending it first\n");
        drop(session.cancel());
        // What it ends with is on record, and that it has ended is all that counts here.
        drop(session.go_on().await);
    }
    let plan = session.plan_rewind(wish.direction, wish.turns, wish.scope).await;
    let told = tell_given_up(session, session.opened_at()).await;
    if let Some(done) = finished_now(session).await {
        view::write_stderr(&format!("{done}; run the same command again to undo or redo another\n"));
        return Ok(0);
    }
    let mut plan = plan?;
    show(&mut plan, wish, workspace)?;
    let done = session.rewind(plan.rewind.clone()).await;
    tell_given_up(session, told).await;
    let done = done?;
    let failed = problems(&done.files, workspace);
    let next = match wish.direction {
        Direction::Undo => "`piton redo` restores it",
        Direction::Redo => "`piton undo` undoes it again",
    };
    view::write_stderr(&format!("done; {next}\n"));
    Ok(u8::from(failed))
}

/// Says what will be done, or what stops it.
fn show(plan: &mut Plan, wish: &Wish, workspace: &Path) -> Result<()> {
    if wish.dry_run {
        announce(plan, wish, workspace);
    }
    let conflicts = plan.conflicts();
    if !conflicts.is_empty() && !wish.overwrite {
        view::write_stderr("changed since by someone else:\n");
        list(conflicts.iter().map(|path| view::path(path)));
        bail!("--overwrite takes these back too (`redo` would bring them back); --chat-only leaves all files alone");
    }
    if !plan.doubtful.is_empty() && !wish.overwrite {
        view::write_stderr("changed after the turn was interrupted, by you or by a command that outlived Piton:\n");
        list(plan.doubtful.iter().map(|path| view::path(path)));
        bail!("--overwrite takes these back too (`redo` would bring them back); --chat-only leaves all files alone");
    }
    plan.rewind.overwrite = wish.overwrite;
    if !wish.dry_run {
        announce(plan, wish, workspace);
    }
    Ok(())
}

/// What will be done, before it is.
fn announce(plan: &Plan, wish: &Wish, workspace: &Path) {
    let verb = match (wish.direction, wish.dry_run) {
        (Direction::Undo, false) => "undoing",
        (Direction::Undo, true) => "would undo",
        (Direction::Redo, false) => "redoing",
        (Direction::Redo, true) => "would redo",
    };
    let what = match (plan.rewind.to.is_some(), plan.rewind.files.is_empty()) {
        (true, false) => "",
        (true, true) if wish.scope == Scope::Chat || plan.is_unsaved => ", the conversation only",
        (true, true) => ", which changed no files",
        (false, _) => ", the files only",
    };
    view::write_stderr(&format!("{verb} {}{what}\n", view::plural(u64::from(plan.rewind.turns), "turn")));
    for prompt in &plan.prompts {
        view::write_stderr(&format!("  “{}”\n", view::first_line(prompt)));
    }
    for said in &plan.waiting {
        view::write_stderr(&format!("  “{}”, which was not taken up yet\n", view::first_line(said)));
    }
    if plan.is_unsaved {
        view::write_stderr(&format!("  {}\n", view::UNSAVED));
    }
    list(changes(&plan.files).into_iter());
    for path in plan.conflicts().iter().filter(|_| wish.overwrite) {
        view::write_stderr(&format!("  {}  changed since by someone else, overwritten\n", view::path(path)));
    }
    for path in &plan.files.not_covered {
        let stays = if workspace.join(path).exists() { "stays as it is" } else { "does not come back" };
        view::write_stderr(&format!("  {} {stays}: no snapshot covers it\n", view::path(path)));
    }
}

fn list(lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    for line in lines.iter().take(MOST_LISTED) {
        view::write_stderr(&format!("  {line}\n"));
    }
    if lines.len() > MOST_LISTED {
        view::write_stderr(&format!("  and {} more\n", lines.len() - MOST_LISTED));
    }
}

/// A line per change, or one for a folder with many.
fn changes(report: &Restored) -> Vec<String> {
    let mut folders: BTreeMap<&OsStr, Vec<&PathChange>> = BTreeMap::new();
    for change in &report.changes {
        folders.entry(change.path.iter().next().unwrap_or_default()).or_default().push(change);
    }
    let lines = folders.into_iter().flat_map(|(folder, changes)| match changes.len() {
        0..=MOST_IN_FOLDER => changes.into_iter().map(line).collect(),
        many => vec![format!("{}/  {many} files and folders", view::path(Path::new(folder)))],
    });
    lines.collect()
}

/// `src/lib.rs  changed  +3 −1`.
fn line(change: &PathChange) -> String {
    let lines = change.lines.map(|lines| format!("  +{} −{}", lines.added, lines.removed)).unwrap_or_default();
    format!("{}  {}{lines}", view::path(&change.path), change.kind)
}

/// Says what could not be done. Whether there was anything.
fn problems(report: &Restored, workspace: &Path) -> bool {
    for failure in &report.failures {
        view::write_stderr(&format!("{} stays as it is: {}\n", view::path(&failure.path), failure.error));
    }
    for kept in &report.kept {
        let folder = view::path(&workspace.join(kept));
        view::write_stderr(&format!("{folder} stays: something else is in it\n"));
    }
    !report.failures.is_empty()
}
