//! `piton session compact`: room is made between turns, and the summary is shown and may be changed.

use crate::cassettes::CASSETTES;
use crate::cli::{CompactArgs, Format};
use crate::commands::sessions::find;
use crate::commands::undo;
use crate::editor::Editor;
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::view::{self, Look, thousands};
use crate::run::input::Input;
use crate::run::opening;
use crate::run::order::{Order, Place};
use crate::run::shown::Shown;
use crate::run::talk;
use crate::settings;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::client::{Compact, Compacted, Configure, Published, Request};
use piton_core::ids::SessionId;
use piton_core::turn;
use piton_engine::assemble::{Wishes, bare};
use piton_engine::compaction::CompactError;
use piton_engine::engine::{Engine, Handle, Resumed};
use piton_engine::store::Summary;
use piton_tools::regular;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What a person writes themselves, or changes.
struct Wish {
    focus: Option<String>,
    /// A text to take instead of asking the model.
    summary: Option<String>,
    edit: bool,
}

/// Obeys `piton session compact`. Where the model alone writes the summary, that is `/compact` in the session.
pub(crate) async fn compact(args: CompactArgs, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    let id = find::meant(&engine, around, args.id.as_deref())?;
    if args.show {
        let text =
            summary(&engine, &id).await?.with_context(|| format!("{id} has no summary: it was never compacted"))?;
        view::write_stdout(&format!("{}\n", view::clean(text.trim())));
        return Ok(0);
    }
    let had = engine.store().summary(&id).await?;
    let wishes = Wishes {
        flags: args.layers(),
        had: Configure { model: had.model.clone(), ..opening::had(&engine, &id).await? },
        is_watched: around.person.is_some(),
        cassettes: CASSETTES,
        ..Wishes::default()
    };
    if args.summary.is_none() && !args.edit {
        let order = Order {
            hears_subagents: false,
            place: Place::Resumed { id, here: PathBuf::from(had.workspace), is_named: false },
            input: Input::asking(Some(Request::Compact(Compact::about(args.focus)))),
            shown: Shown::new(Format::Text, Look::of(around)),
            asks: None,
            wishes,
            command: None,
            only_here: None,
        };
        return talk::talk(order, &engine, around).await;
    }
    let text = args.summary.as_deref().map(read).transpose()?;
    let wish = Wish { focus: args.focus.clone(), summary: text, edit: args.edit };
    let mut upkeep = Upkeep::new(&engine, around)?;
    let code = by_hand(&engine, &had, &wish, &wishes, around, &mut upkeep).await;
    upkeep.done().await;
    code
}

async fn summary(engine: &Engine, id: &SessionId) -> Result<Option<String>> {
    let records = engine.records(id).await?;
    Ok(turn::State::fold(&records).context().summary().map(|(text, _)| text.to_owned()))
}

fn read(path: &Path) -> Result<String> {
    let text = match path.to_str() {
        Some("-") => {
            regular::text_of(std::io::stdin(), regular::SETTINGS_BYTES).context("cannot read standard input")?
        }
        _ => {
            regular::named(path, regular::SETTINGS_BYTES).with_context(|| format!("cannot read {}", path.display()))?
        }
    };
    ensure!(!text.trim().is_empty(), "the summary in {} is empty; nothing was changed", path.display());
    Ok(text)
}

/// Makes room by a text that a person writes or changes: they have to have the session for that.
async fn by_hand(
    engine: &Engine,
    had: &Summary,
    wish: &Wish,
    wishes: &Wishes,
    around: &Surroundings,
    upkeep: &mut Upkeep<'_>,
) -> Result<u8> {
    let workspace = PathBuf::from(&had.workspace);
    let settings = match wish.summary {
        None => settings::of_session(around, &workspace, wishes).await?,
        Some(_) => bare::for_upkeep(had.model.as_deref().unwrap_or_default(), &around.machine, &workspace),
    };
    let snapshots = settings.snapshots.clone();
    let session = Box::pin(engine.resume(&had.id, settings)).await?;
    upkeep.opened(&session, snapshots);
    let done = in_session(&session, wish, around).await;
    session.close().await;
    done
}

async fn in_session(session: &Handle, wish: &Wish, around: &Surroundings) -> Result<u8> {
    let no_room = || format!("{} was not compacted", session.id());
    ensure!(
        session.resumed() == Resumed::AtRest,
        "{0} was not compacted: its last turn was cut off; `piton run --resume {0}` ends it, and compacts by itself \
         where it must",
        session.id()
    );
    // Before anything is asked and paid for.
    let editor = wish.edit.then(|| editor(around)).transpose()?;
    let how = match &wish.summary {
        Some(summary) => Compact::text(summary),
        None => {
            view::write_stderr("asking for a summary…\n");
            Compact::about(wish.focus.clone())
        }
    };
    let heard = heard(session, how).await;
    undo::tell_given_up(session, session.opened_at()).await;
    let mut done = match heard {
        // What there is may still be changed.
        Err(CompactError::Nothing) if wish.edit && current(session).await?.is_some() => None,
        done => Some(done.with_context(no_room)?),
    };
    if let Some(editor) = editor {
        let before = match &done {
            Some(done) => done.summary.clone(),
            None => current(session).await?.unwrap_or_default(),
        };
        let changed = change(session, &before, &editor, around).await;
        // What the model wrote is paid for, and the session goes on from it.
        done = changed.with_context(|| format!("the summary of {} is in force unchanged", session.id()))?.or(done);
    }
    match &done {
        Some(done) => tell(done),
        None => view::write_stderr("nothing was changed\n"),
    }
    Ok(0)
}

/// Puts what a person makes of a summary in its place; `None` where they left it as it is.
async fn change(session: &Handle, before: &str, editor: &Editor, around: &Surroundings) -> Result<Option<Compacted>> {
    let (after, file) = edited(before, editor, around)?;
    if after.trim().is_empty() {
        bail!("the text was left empty");
    }
    if after.trim() == before.trim() {
        return Ok(None);
    }
    match session.compact(Compact::replacing(after.trim())).await {
        Ok(done) => Ok(Some(done)),
        Err(error) => Err(Failure::from(error).context(kept(file))),
    }
}

/// The editor that the environment names.
fn editor(around: &Surroundings) -> Result<Editor> {
    Editor::named(around).context("nothing was asked or changed (--summary FILE takes a text without an editor)")
}

/// Makes room, and says what keeps the model's answer waiting.
async fn heard(session: &Handle, how: Compact) -> Result<Compacted, CompactError> {
    // What is recorded need not be heard.
    let mut heard = session.subscribe(u64::MAX);
    let done = session.compact(how);
    tokio::pin!(done);
    loop {
        tokio::select! {
            biased;
            done = &mut done => return done,
            Ok(Some(published)) = heard.next() => {
                let trouble = if let Published::Live(live) = published { view::trouble(&live) } else { None };
                trouble.into_iter().for_each(|words| view::write_stderr(&format!("{words}\n")));
            }
            else => return done.await,
        }
    }
}

async fn current(session: &Handle) -> Result<Option<String>> {
    let records = session.records().await?;
    Ok(turn::State::fold(&records).context().summary().map(|(text, _)| text.to_owned()))
}

fn tell(done: &Compacted) {
    view::write_stdout(&format!("{}\n", view::clean(done.summary.trim())));
    view::write_stderr(&format!(
        "events 1 to {} are replaced by this summary for the model: about {} tokens instead of {}\n",
        done.upto_seq,
        thousands(done.tokens_after),
        thousands(done.tokens_before)
    ));
}

/// The text as a person leaves it in their editor, in a file that is theirs alone. The file stays until the text is in
/// force, or was left as it is.
fn edited(text: &str, editor: &Editor, around: &Surroundings) -> Result<(String, NamedTempFile)> {
    let file = tempfile::Builder::new().prefix("piton-summary-").suffix(".md").tempfile_in(&around.temp_dir);
    let mut file = file.with_context(|| format!("cannot write in {}", around.temp_dir.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.path().display()))?;
    if let Err(error) = editor.open(file.path()) {
        let is_untouched = regular::text(file.path(), regular::SETTINGS_BYTES).is_ok_and(|now| now == text);
        return Err(if is_untouched { error } else { error.context(kept(file)) });
    }
    // By its name: many editors put a new file in its place.
    let after = regular::text(file.path(), regular::SETTINGS_BYTES);
    let after = after.with_context(|| format!("cannot read {}", file.path().display()))?;
    Ok((after, file))
}

/// Leaves the file where it is, and says where.
fn kept(file: NamedTempFile) -> String {
    let path = file.path().display().to_string();
    match file.keep() {
        Ok(_) => format!("what you wrote is kept in {path}"),
        Err(error) => format!("what you wrote could not be kept in {path} ({error})"),
    }
}
