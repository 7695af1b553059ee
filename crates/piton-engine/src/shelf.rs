//! Sessions as things: named, thrown away and brought back, taken in from a file, repaired.
//!
//! ```text
//!   <data>/sessions/ses_…/   what is listed
//!          trash/ses_…/      what was thrown away, whole, until the trash is emptied
//! ```
//!
//! Whatever is moved or renamed is held meanwhile: a session that is open somewhere is left alone.

use crate::engine::{Engine, new_session_id, now_ms, opening};
use crate::index::{Index, IndexError};
use crate::journal::{self, Journal, JournalError, Salvage, SessionDir};
use piton_core::event::{Event, Origin, Record, TitledBy};
use piton_core::ids::{Seq, SessionId};
use piton_core::turn::{Job, Session};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// Its journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The trash could not be listed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There is a session of this id already.
    #[error("there is a session {id} already; nothing was changed")]
    Taken {
        /// That id.
        id: SessionId,
    },
    /// Nothing of a damaged journal can be read.
    #[error("nothing of {id} can be read; it was left as it is")]
    NothingLeft {
        /// The session.
        id: SessionId,
    },
    /// A folder could not be moved or removed.
    #[error("cannot {act} {}", path.display())]
    Files {
        /// What was tried.
        act: &'static str,
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What a repair made.
#[derive(Debug)]
pub struct Repaired {
    /// The new session.
    pub id: SessionId,
    /// What was found in the damaged one.
    pub salvage: Salvage,
}

/// Gives a session a title; an empty one stands for the words of its first prompt.
pub fn rename(engine: &Engine, id: &SessionId, title: &str) -> Result<(), ShelfError> {
    let (mut journal, _) = Journal::open(&engine.session_dir(id), opening())?;
    journal.stage(now_ms(), Event::TitleGiven { title: title.to_owned(), by: TitledBy::User });
    journal.commit()?;
    journal.close(now_ms());
    Ok(())
}

/// Where sessions lie that were thrown away.
pub fn trash_dir(engine: &Engine) -> PathBuf {
    engine.data_dir().join("trash")
}

/// The list of what was thrown away.
pub fn trash(engine: &Engine) -> Result<Index, ShelfError> {
    Ok(Index::of_folder(&trash_dir(engine))?)
}

/// Folders in the trash that are named like a session's and have no journal: of a session that was never begun, or lost it.
pub fn empty_in_trash(engine: &Engine) -> Vec<SessionId> {
    // No trash, or one that cannot be read: then listing it says so.
    let entries = fs::read_dir(trash_dir(engine)).into_iter().flatten().flatten();
    let is_one = |entry: &fs::DirEntry| entry.path().is_dir() && SessionDir::at(&entry.path()).is_none();
    let names = entries.filter(is_one).filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<SessionId> = names.filter(|name| name.starts_with("ses_")).map(SessionId).collect();
    ids.sort();
    ids
}

/// Moves a session to the trash.
pub fn throw_away(engine: &Engine, id: &SessionId) -> Result<(), ShelfError> {
    let trash = trash_dir(engine);
    fs::create_dir_all(&trash).map_err(failed("make the folder", &trash))?;
    shift(&engine.session_dir(id), &SessionDir::new(&trash, id), id)
}

/// Brings a session back from the trash.
pub fn bring_back(engine: &Engine, id: &SessionId) -> Result<(), ShelfError> {
    let sessions = engine.sessions_dir();
    fs::create_dir_all(&sessions).map_err(failed("make the folder", &sessions))?;
    shift(&SessionDir::new(&trash_dir(engine), id), &engine.session_dir(id), id)
}

/// Removes a session from the trash for good.
pub fn destroy(engine: &Engine, id: &SessionId) -> Result<(), ShelfError> {
    let dir = SessionDir::new(&trash_dir(engine), id);
    let held = journal::hold(&dir, std::process::id())?;
    fs::remove_dir_all(dir.root()).map_err(failed("remove", dir.root()))?;
    drop(held);
    Ok(())
}

/// Bytes of all files of a session.
pub fn size(dir: &SessionDir) -> u64 {
    fn below(path: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(path) else { return 0 };
        let sizes = entries.flatten().map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => below(&entry.path()),
            Ok(meta) => meta.len(),
            // Gone since it was listed.
            Err(_) => 0,
        });
        sizes.sum()
    }
    below(dir.root())
}

/// Makes a session of events that were written down elsewhere, under the id they name or, where that is taken, a new
/// one. A call that had begun and was not over is none of this session's: its end is unknown here.
pub fn take_in(engine: &Engine, mut records: Vec<Record>) -> Result<SessionId, ShelfError> {
    let last = records.last().map_or(0, |record| record.seq);
    let Some(Record { event: Event::SessionStarted { session, parent, .. }, .. }) = records.first_mut() else {
        return Err(ShelfError::NothingLeft { id: SessionId::from("") });
    };
    let in_trash = SessionDir::new(&trash_dir(engine), session);
    if engine.session_dir(session).root().exists() || in_trash.root().exists() {
        (*session, *parent) = come_from(session, last);
    }
    let id = session.clone();
    let folded = Session::fold(&records);
    let has_begun = |job: &Job| matches!(job, Job::RunTool(_) | Job::StopTool(_));
    if folded.wanted().iter().any(has_begun) {
        records.push(Record { seq: last + 1, at_ms: now_ms(), event: Event::EventLost {} });
    }
    adopt(engine, &id, records)?;
    Ok(id)
}

/// Makes a new session of what can be read of a damaged one, which stays as it is.
pub fn repair(engine: &Engine, id: &SessionId) -> Result<Repaired, ShelfError> {
    let dir = engine.session_dir(id);
    let held = journal::hold(&dir, std::process::id())?;
    let scratch = engine.data_dir().join(format!("repair-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(failed("make the folder", &scratch))?;
    let salvaged = journal::salvage(&dir, &scratch);
    fs::remove_dir_all(&scratch).map_err(failed("remove", &scratch))?;
    drop(held);
    let Some(salvage) = salvaged? else { return Err(ShelfError::NothingLeft { id: id.clone() }) };
    let mut records = salvage.records.clone();
    if let Some(Record { event: Event::SessionStarted { session, parent, .. }, .. }) = records.first_mut() {
        // What the event names may be damaged too.
        (*session, *parent) = come_from(id, salvage.records.len() as Seq);
    }
    let id = take_in(engine, records)?;
    Ok(Repaired { id, salvage })
}

fn come_from(session: &SessionId, seq: Seq) -> (SessionId, Option<Origin>) {
    (new_session_id(), Some(Origin { session: session.clone(), seq }))
}

fn adopt(engine: &Engine, id: &SessionId, records: Vec<Record>) -> Result<(), ShelfError> {
    let dir = engine.session_dir(id);
    Journal::adopt(&dir, opening(), records).inspect_err(|_| {
        // The folder is ours and holds nothing that is not elsewhere.
        let _ = fs::remove_dir_all(dir.root());
    })?;
    Ok(())
}

fn shift(from: &SessionDir, to: &SessionDir, id: &SessionId) -> Result<(), ShelfError> {
    let held = journal::hold(from, std::process::id())?;
    if to.root().exists() {
        return Err(ShelfError::Taken { id: id.clone() });
    }
    fs::rename(from.root(), to.root()).map_err(failed("move", from.root()))?;
    drop(held);
    Ok(())
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ShelfError {
    let path = path.to_owned();
    move |source| ShelfError::Files { act, path, source }
}
