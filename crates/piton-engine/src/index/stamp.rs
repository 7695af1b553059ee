//! What lies in the folder of the sessions, and whether it has changed, found by as many threads as there are cores,
//! since ten thousand sessions are listed while somebody waits.
//!
//! A stamp is made of size and time of the database and of the log beside it, and its lowest bit says whether there is
//! a log. Where there was none, the database alone tells of a change: who opens a session to write touches it
//! ([`crate::journal`]), and from then on there is a log. That is one look at the disk instead of two.

use super::IndexError;
use piton_core::ids::SessionId;
use rustix::fs::{AtFlags, Mode, OFlags, open, statat};
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Fewer than this are not worth another thread.
const FEW: usize = 500;

/// Every session with its stamp. The stamps that were noted last save looking twice.
pub(super) fn of_all(sessions_dir: &Path, noted: &HashMap<String, i64>) -> Result<Vec<(SessionId, i64)>, IndexError> {
    let ids = session_ids(sessions_dir)?;
    let Ok(folder) = open(sessions_dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
        // Gone since it was listed.
        return Ok(Vec::new());
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = ids.len().div_ceil(cores).max(FEW);
    let of = |id: &SessionId| of(&folder, id, noted.get(id.as_str()).copied());
    let stamped = |ids: &[SessionId]| ids.iter().map(of).collect::<Vec<i64>>();
    let stamps: Vec<i64> = std::thread::scope(|scope| {
        let others: Vec<_> = ids.chunks(share).skip(1).map(|chunk| scope.spawn(move || stamped(chunk))).collect();
        let mut stamps = stamped(&ids[..ids.len().min(share)]);
        for other in others {
            // Looking at files does not panic; if it did, so would we.
            stamps.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        stamps
    });
    Ok(ids.into_iter().zip(stamps).collect())
}

/// The ids of all that lies there, readable or not.
pub(super) fn session_ids(sessions_dir: &Path) -> Result<Vec<SessionId>, IndexError> {
    let failed = |source| IndexError::Folder { path: sessions_dir.to_owned(), source };
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

/// Changes whenever the journal does: every commit lengthens or rewrites one of the two files.
fn of(sessions: &OwnedFd, id: &SessionId, noted: Option<i64>) -> i64 {
    let look = |file: &str| {
        let seen = statat(sessions, format!("{id}/{file}"), AtFlags::empty()).ok();
        seen.map(|file| hash((file.st_size, file.st_mtime, file.st_mtime_nsec)))
    };
    let database = look("journal.db");
    let without_log = stamp(database, None);
    if noted == Some(without_log) { without_log } else { stamp(database, look("journal.db-wal")) }
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
