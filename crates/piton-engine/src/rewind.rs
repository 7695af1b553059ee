//! Undo and redo of turns: the conversation and the files together.
//!
//! ```text
//!   plan     which turns, which files, and what of them somebody changed since      (changes nothing)
//!   rewind   RewindStarted ─ on disk ─▶ files ─▶ RewindFinished, which moves the head
//! ```
//!
//! Files go back by snapshots of the workspace, so it does not matter what changed them. A rewind that was cut off is
//! done again when the session is next opened: restoring is idempotent. Where that cannot be done, because its snapshots
//! are gone, it is ended as it is ([`Event::RewindAbandoned`]): what is half done is told once, and not left pending.

pub use crate::error::RewindError;

use piton_core::branch::{self, Trees, TurnSpan};
use piton_core::client::{Plan, Scope};
use piton_core::event::{Direction, Event, Moment, Record, Restore, Rewind, Touched};
use piton_core::ids::{Seq, TimeMs};
use piton_core::turn::State;
use piton_tools::snapshot::{Conflict, Conflicts, Leg, RestorePolicy, Restored, Snapshots};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How long after the last that is known of a cut-off turn a change still counts as its own, in milliseconds: a call
/// takes its time to begin, and a change to be seen.
const SILENCE_GRACE_MS: TimeMs = 1_000;
/// By how much the time that the system gives a file may lie before the clock's, in milliseconds, with room to spare.
const CLOCK_STEP_MS: TimeMs = 20;

/// What taking back the last `turns` turns would do, or bringing back what was taken back last, in a session at rest.
pub(crate) fn plan(
    records: &[Record],
    session: &State,
    snapshots: Option<&Snapshots>,
    direction: Direction,
    turns: u32,
    scope: Scope,
) -> Result<Plan, RewindError> {
    let (rewind, prompts, is_unsaved) = match direction {
        Direction::Undo => undo(records, turns, scope)?,
        Direction::Redo => {
            let rewind = session.redo().ok_or(RewindError::NothingToRedo)?;
            let prompts = brought_back(records, &rewind);
            (rewind, prompts, false)
        }
    };
    let files = match (rewind.files.is_empty(), snapshots) {
        (true, _) => Restored::default(),
        (false, None) => return Err(RewindError::NoStore),
        (false, Some(snapshots)) => foresee(snapshots, &rewind)?,
    };
    let doubtful = match (direction, snapshots) {
        (Direction::Undo, Some(snapshots)) => doubtful(snapshots, &files, &silences(records, turns)),
        (Direction::Undo | Direction::Redo, _) => Vec::new(),
    };
    let goes = direction == Direction::Undo && rewind.to.is_some();
    let said = session.waiting().filter(|_| goes).map(|(message, _)| message.prose());
    let waiting = said.filter(|said| !prompts.contains(said)).collect();
    Ok(Plan { rewind, prompts, waiting, files, doubtful, is_unsaved })
}

/// What a rewind would do, from the journal alone: the session is not opened, nothing is recorded, and a turn that was cut
/// off is taken as it would be if it were ended now.
pub fn preview(
    mut records: Vec<Record>,
    snapshots: Option<&Snapshots>,
    direction: Direction,
    turns: u32,
    scope: Scope,
    now_ms: TimeMs,
) -> Result<Plan, RewindError> {
    let session = State::fold(&records);
    if session.is_in_turn() {
        let has_changed = branch::turns(&records).last().is_some_and(|span| span.files.is_some());
        let tree = snapshots.filter(|_| has_changed).map(Snapshots::take).transpose()?;
        let tree = tree.map(|taken| taken.id.to_string());
        let since = [
            Event::WriterOpened { epoch: 0, pid: 0, boot_id: None },
            Event::SnapshotTaken { step: session.step(), moment: Moment::After, tree, notices: Vec::new() },
        ];
        let next = records.len() as Seq + 1;
        records.extend((next..).zip(since).map(|(seq, event)| Record { seq, at_ms: now_ms, event }));
    }
    plan(&records, &session, snapshots, direction, turns, scope)
}

/// When each of the last turns lay cut off: from the last that is known of it to where somebody went on. A command may
/// have gone on by itself meanwhile, and its changes cannot be told from those of a person who took the turn for dead.
fn silences(records: &[Record], turns: u32) -> Vec<(TimeMs, TimeMs)> {
    let spans: Vec<TurnSpan> = branch::turns(records).into_iter().filter(|span| span.on_path).collect();
    let back = spans.len().saturating_sub(usize::try_from(turns).unwrap_or(usize::MAX));
    let is_in = |seq: Seq| spans[back..].iter().any(|span| span.started < seq && seq <= span.last);
    let opened = records.windows(2).filter(|pair| matches!(pair[1].event, Event::WriterOpened { .. }));
    let cut_off = opened.filter(|pair| is_in(pair[1].seq));
    cut_off.map(|pair| (pair[0].at_ms.saturating_add(SILENCE_GRACE_MS), pair[1].at_ms)).collect()
}

fn doubtful(snapshots: &Snapshots, files: &Restored, silences: &[(TimeMs, TimeMs)]) -> Vec<PathBuf> {
    let is_in_silence = |path: &PathBuf| {
        let ms = snapshots.changed_ms(path);
        ms.is_some_and(|ms| silences.iter().any(|(from, to)| *from < ms && ms.saturating_add(CLOCK_STEP_MS) < *to))
    };
    let changed = files.changes.iter().map(|change| &change.path);
    let paths: BTreeSet<&PathBuf> = changed.filter(|path| !silences.is_empty() && is_in_silence(path)).collect();
    paths.into_iter().cloned().collect()
}

/// The rewind, the prompts that it takes back, and whether there are changes that it cannot take back.
fn undo(records: &[Record], turns: u32, scope: Scope) -> Result<(Rewind, Vec<String>, bool), RewindError> {
    let spans: Vec<TurnSpan> = branch::turns(records).into_iter().filter(|span| span.on_path).collect();
    let there = u32::try_from(spans.len()).unwrap_or(u32::MAX);
    let many = usize::try_from(turns).unwrap_or(usize::MAX);
    if turns == 0 || many > spans.len() {
        return Err(RewindError::NotSoMany { wanted: turns, there });
    }
    let back = &spans[spans.len() - many..];
    let files = if scope == Scope::Chat { Vec::new() } else { files_of(back)? };
    let to: Option<Seq> = (scope != Scope::Files).then(|| back[0].started - 1);
    let prompts = back.iter().map(|span| span.prompt.clone()).collect();
    let is_unsaved = scope != Scope::Chat && back.iter().any(|span| span.is_unsaved);
    Ok((Rewind { direction: Direction::Undo, turns, to, files, overwrite: false }, prompts, is_unsaved))
}

/// The states that the files go through, the newest turn first. Where nobody changed anything between two turns, they
/// are one way.
fn files_of(back: &[TurnSpan]) -> Result<Vec<Restore>, RewindError> {
    let mut way: Vec<Restore> = Vec::new();
    for span in back.iter().rev() {
        let Some(trees) = &span.files else { continue };
        let Trees { before: Some(before), after: Some(after) } = trees else {
            return Err(RewindError::NoSnapshot { turn: span.turn });
        };
        match way.last_mut().filter(|last| last.to == *after) {
            Some(last) => last.to.clone_from(before),
            None => way.push(Restore { from: after.clone(), to: before.clone() }),
        }
    }
    Ok(way)
}

/// What the user had said in the turns that a redo brings back.
fn brought_back(records: &[Record], redo: &Rewind) -> Vec<String> {
    let Some(to) = redo.to else { return Vec::new() };
    // They lead to the place where the head goes, and not to where it is.
    let upto = usize::try_from(to).unwrap_or(usize::MAX).min(records.len());
    let there = branch::turns(&records[..upto]).into_iter().filter(|span| span.on_path);
    let here: Vec<u32> = branch::turns(records).iter().filter(|span| span.on_path).map(|span| span.turn).collect();
    there.filter(|span| !here.contains(&span.turn)).map(|span| span.prompt).collect()
}

/// Work that waits for the disk, on a thread where that holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RewindError> + Send + 'static,
) -> Result<T, RewindError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RewindError::Closed))
}

/// What a rewind would do to the files as they are now.
pub(crate) fn foresee(snapshots: &Snapshots, rewind: &Rewind) -> Result<Restored, RewindError> {
    Ok(snapshots.restore(&legs(rewind)?, RestorePolicy { conflicts: conflicts(rewind), began: None, dry_run: true })?)
}

/// Brings the files to where the rewind wants them, now or after it was cut off; the workspace was like this when it was
/// put on record. What somebody changed since stays, unless it is to be overwritten.
pub(crate) fn restore(snapshots: &Snapshots, rewind: &Rewind, was: &str) -> Result<Restored, RewindError> {
    let policy = RestorePolicy { conflicts: conflicts(rewind), began: Some(was.parse()?), dry_run: false };
    Ok(snapshots.restore(&legs(rewind)?, policy)?)
}

fn legs(rewind: &Rewind) -> Result<Vec<Leg>, RewindError> {
    rewind.files.iter().map(|way| Ok(Leg { from: way.from.parse()?, to: way.to.parse()? })).collect()
}

fn conflicts(rewind: &Rewind) -> Conflicts {
    if rewind.overwrite { Conflicts::Overwrite } else { Conflicts::Skip }
}

/// The files that a rewind changes, by what a dry run of it says.
pub(crate) fn touched(report: &Restored) -> Touched {
    Touched::of(report.changes.iter().map(|change| change.path.to_string_lossy().into_owned()).collect())
}

/// An error with what it comes of, in one line.
pub(crate) fn in_words(error: &RewindError) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}

/// What was not brought to where it should be, as text.
pub(crate) fn left(rewind: &Rewind, report: &Restored) -> Vec<String> {
    let is_left = |conflict: &&Conflict| !conflict.ignored && !rewind.overwrite;
    let conflicts = report.conflicts.iter().filter(is_left).map(|conflict| &conflict.path);
    let failures = report.failures.iter().map(|failure| &failure.path);
    let paths = conflicts.chain(failures).chain(&report.kept);
    paths.map(|path| path.to_string_lossy().into_owned()).collect()
}
