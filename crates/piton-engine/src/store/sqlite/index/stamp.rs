//! What lies in the folder of the sessions, and whether it has changed, found by as many threads as there are cores,
//! since ten thousand sessions are listed while somebody waits.
//!
//! A stamp is made of size and time of the database and of the log beside it, and its lowest bit says whether there is
//! a log. Where there was none, the database alone tells of a change: who opens a session to write touches it
//! ([`crate::store::sqlite`]), and from then on there is a log. That is one look at the disk instead of two.

use super::Fault;
use piton_core::ids::SessionId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, statat};
use rustix::path::Arg;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::Path;

/// Fewer than this are not worth another thread.
const FEW: usize = 500;

/// What one look at a session showed.
pub(super) struct Seen {
    pub(super) id: SessionId,
    /// Size and time of its database, if there is one.
    pub(super) database: Option<u64>,
}

/// Looks at the database of every session.
pub(super) fn look(sessions_dir: &Path) -> Result<Vec<Seen>, Fault> {
    let ids = session_ids(sessions_dir)?;
    let Ok(folder) = open(sessions_dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
        // Gone since it was listed.
        return Ok(Vec::new());
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = ids.len().div_ceil(cores).max(FEW);
    let looked = |ids: &[SessionId]| ids.iter().map(|id| at(&folder, format!("{id}/journal.db"))).collect::<Vec<_>>();
    let databases: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = ids.chunks(share).skip(1).map(|chunk| scope.spawn(move || looked(chunk))).collect();
        let mut databases = looked(&ids[..ids.len().min(share)]);
        for other in others {
            // Looking at files does not panic; if it did, so would we.
            databases.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        databases
    });
    Ok(ids.into_iter().zip(databases).map(|(id, database)| Seen { id, database }).collect())
}

/// The stamp of a session that has no log.
pub(super) fn without_log(database: Option<u64>) -> i64 {
    stamp(database, None)
}

/// The stamp after a look at its log.
pub(super) fn with_log(sessions_dir: &Path, id: &SessionId, database: Option<u64>) -> i64 {
    stamp(database, at(CWD, sessions_dir.join(id.as_str()).join("journal.db-wal")))
}

/// The ids of all that lies there, readable or not.
pub(super) fn session_ids(sessions_dir: &Path) -> Result<Vec<SessionId>, Fault> {
    let failed = |source| Fault::os(sessions_dir)(source);
    let folder = match fs::read_dir(sessions_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder.map_err(failed)?,
    };
    let mut ids = Vec::new();
    for entry in folder {
        let name = entry.map_err(failed)?.file_name();
        ids.extend(name.to_str().filter(|name| name.starts_with("ses_")).map(|name| SessionId(name.to_owned())));
    }
    Ok(ids)
}

/// Size and time of a file; changes whenever it does.
fn at(folder: impl AsFd, file: impl Arg) -> Option<u64> {
    let seen = statat(folder, file, AtFlags::empty()).ok();
    seen.map(|file| hash((file.st_size, file.st_mtime, file.st_mtime_nsec)))
}

fn stamp(database: Option<u64>, log: Option<u64>) -> i64 {
    let both = hash((database, log)).cast_signed();
    if log.is_some() { both | 1 } else { both & !1 }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
