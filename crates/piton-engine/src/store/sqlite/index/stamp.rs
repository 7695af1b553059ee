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
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Fewer than this are not worth another thread.
const FEW: usize = 500;

/// A session's folder, as the folder of all of them names it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: SessionId,
    pub(super) inode: i64,
}

/// How long ago a folder must have changed for its time to tell: clocks of file systems tick, and what happens twice
/// within a tick looks like once.
const SETTLED: Duration = Duration::from_secs(2);

/// Size and time of the database of each session, if there is one.
pub(super) fn databases<T: Sync>(
    sessions_dir: &Path,
    of: &[T],
    id: impl Fn(&T) -> &SessionId + Sync,
) -> Vec<Option<u64>> {
    let Ok(folder) = open(sessions_dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
        // Gone since it was listed.
        return vec![None; of.len()];
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = of.len().div_ceil(cores).max(FEW);
    let looked = |of: &[T]| of.iter().map(|one| at(&folder, format!("{}/journal.db", id(one)))).collect::<Vec<_>>();
    let looked = &looked;
    std::thread::scope(|scope| {
        let others: Vec<_> = of.chunks(share).skip(1).map(|chunk| scope.spawn(move || looked(chunk))).collect();
        let mut databases = looked(&of[..of.len().min(share)]);
        for other in others {
            // Looking at files does not panic; if it did, so would we.
            databases.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        databases
    })
}

/// The stamp of a session after a look at all of it.
pub(super) fn of(sessions_dir: &Path, id: &SessionId) -> i64 {
    with_log(sessions_dir, id, at(CWD, sessions_dir.join(id.as_str()).join("journal.db")))
}

/// The stamp of the folder of all sessions, which changes when one comes or goes; `None` where it changed just now.
pub(super) fn of_folder(sessions_dir: &Path) -> Option<i64> {
    let found = fs::metadata(sessions_dir).ok()?;
    let age = SystemTime::now().duration_since(found.modified().ok()?).ok()?;
    (age >= SETTLED).then(|| hash((found.ino(), found.mtime(), found.mtime_nsec())).cast_signed())
}

/// Which folder it is, whatever its name.
pub(super) fn inode(folder: &Path) -> Option<i64> {
    fs::metadata(folder).ok().map(|found| found.ino().cast_signed())
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
    Ok(entries(sessions_dir)?.into_iter().map(|entry| entry.id).collect())
}

/// All that lies there, readable or not.
pub(super) fn entries(sessions_dir: &Path) -> Result<Vec<Entry>, Fault> {
    let failed = |source| Fault::os(sessions_dir)(source);
    let folder = match fs::read_dir(sessions_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in folder {
        let entry = entry.map_err(failed)?;
        let id =
            entry.file_name().to_str().filter(|name| name.starts_with("ses_")).map(|name| SessionId(name.to_owned()));
        found.extend(id.map(|id| Entry { id, inode: entry.ino().cast_signed() }));
    }
    Ok(found)
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
