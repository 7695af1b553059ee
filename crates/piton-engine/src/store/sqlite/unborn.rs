//! What a process leaves that dies between making a session's folder and its first commit: a folder in which nothing is
//! recorded. It is no session, its id is free, and in time it is swept away.
//!
//! A session that is taken in from elsewhere is made in a folder beside the others and moved to its place when it is
//! whole, so what is left there is never one.

use super::error::{Fault, failed};
use super::lock::{self, Lock};
use super::reader::Reader;
use super::{SessionDir, schema};
use crate::store::StoreError;
use piton_core::ids::SessionId;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long the remains of a session that was taken in are left alone: its process may just not have come to its lock.
const INCOMING_KEPT: Duration = Duration::from_secs(3_600);
/// How long a folder without events is left alone: what synchronises folders may bring the log after the database.
const UNBORN_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// All that may lie in one.
const FILES: [&str; 5] = ["journal.db-wal", "journal.db-shm", "journal.db", "control.sock", "lock"];

/// Where sessions lie that are being taken in from elsewhere.
fn incoming(data_dir: &Path) -> PathBuf {
    data_dir.join("incoming")
}

/// Where a session is made that is taken in, if its id is free. What a process left there that died is gone.
pub(super) fn make_way(data_dir: &Path, dir: &SessionDir, id: &SessionId) -> Result<SessionDir, StoreError> {
    let made = SessionDir::new(&incoming(data_dir), id);
    let is_taken = dir.root().exists() && (lock::is_held(dir) || sweep_one(dir).is_err() || dir.root().exists());
    if is_taken || lock::is_held(&made) {
        return Err(StoreError::Taken { id: id.clone() });
    }
    if made.root().exists() {
        fs::remove_dir_all(made.root()).map_err(failed(made.root()))?;
    }
    Ok(made)
}

/// Moves a session that is whole to its place, durably.
pub(super) fn place(made: &SessionDir, dir: &SessionDir, id: &SessionId) -> Result<(), StoreError> {
    let sessions = dir.root().parent().unwrap_or(dir.root());
    piton_tools::private::make_folder(sessions).map_err(failed(sessions))?;
    match fs::rename(made.root(), dir.root()) {
        Ok(()) => fs::File::open(sessions).and_then(|folder| folder.sync_all()).map_err(failed(sessions)),
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            Err(StoreError::Taken { id: id.clone() })
        }
        Err(error) => Err(failed(dir.root())(error)),
    }
}

/// Whether nothing is recorded in this folder. Its lock says whether something is about to be.
pub(super) fn is_unborn(dir: &SessionDir) -> bool {
    let db = dir.journal_db();
    match (fs::metadata(&db), schema::has_log(&db)) {
        (Err(error), false) => error.kind() == ErrorKind::NotFound,
        (Ok(found), false) if found.len() == 0 => true,
        (Ok(_) | Err(_), _) => Reader::open(dir).is_ok_and(|reader| reader.is_unborn().is_ok_and(|is| is)),
    }
}

/// Whether no call has ever begun in this folder, and no reply: then there is nothing in it beside the journal itself.
pub fn has_run_nothing(dir: &SessionDir) -> bool {
    let names = fs::read_dir(dir.root()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().all(|name| FILES.iter().any(|file| name == *file))
}

/// Removes the files of such a folder but its lock, for who holds that and makes a session there.
pub(super) fn clear(dir: &SessionDir, _held: &Lock) -> Result<(), Fault> {
    let files = FILES.iter().filter(|name| **name != "lock").map(|name| dir.root().join(name));
    files.into_iter().try_for_each(|path| remove(&path).map_err(Fault::os(&path)))
}

/// Removes a folder that its holder could not make into a session. Best effort: what is left is swept away in time.
pub(super) fn remove_all(dir: &SessionDir, held: Lock) {
    let removed = FILES.iter().try_for_each(|name| remove(&dir.root().join(name)));
    let _ = removed.and_then(|()| fs::remove_dir(dir.root()));
    drop(held);
}

/// Removes what was left for long and holds nothing: folders without events, and sessions that never came in whole.
/// Best effort. Answers how many folders went.
pub fn sweep(data_dir: &Path) -> usize {
    let unborn = folders(&data_dir.join("sessions"), UNBORN_KEPT).filter(|dir| has_run_nothing(dir) && is_unborn(dir));
    let unborn = unborn.filter(|dir| sweep_one(dir).is_ok()).count();
    let cut_off = folders(&incoming(data_dir), INCOMING_KEPT).filter(|dir| !lock::is_held(dir));
    unborn + cut_off.filter(|dir| fs::remove_dir_all(dir.root()).is_ok()).count()
}

fn sweep_one(dir: &SessionDir) -> Result<(), StoreError> {
    let held = lock::hold(dir, std::process::id())?;
    // Somebody may have been faster than we were.
    if is_unborn(dir) {
        let removed = FILES.iter().try_for_each(|name| remove(&dir.root().join(name)));
        removed.and_then(|()| fs::remove_dir(dir.root())).map_err(failed(dir.root()))?;
    }
    drop(held);
    Ok(())
}

/// The sessions' folders here that nothing has happened in for so long.
fn folders(folder: &Path, kept: Duration) -> impl Iterator<Item = SessionDir> + use<> {
    let entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let folder = folder.to_owned();
    let is_old = move |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age >= kept)
    };
    entries.into_iter().filter(is_old).filter_map(move |entry| {
        let name = entry.file_name().to_str().filter(|name| name.starts_with("ses_"))?.to_owned();
        Some(SessionDir::new(&folder, &SessionId(name)))
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Opening;
    use crate::store::sqlite::Journal;
    use piton_core::event::{Event, Record};

    const OLD: Duration = Duration::from_secs(40 * 24 * 3_600);

    struct Place(tempfile::TempDir);

    impl Place {
        fn dir(&self, below: &str, name: &str) -> SessionDir {
            SessionDir::new(&self.0.path().join(below), &SessionId(format!("ses_{name}")))
        }

        /// As nothing happened in it for long.
        fn age(dir: &SessionDir) {
            let then = SystemTime::now() - OLD;
            fs::File::open(dir.root()).and_then(|folder| folder.set_modified(then)).expect("a folder");
        }
    }

    fn opening() -> Opening {
        Opening { pid: 1, boot_id: None, now_ms: 1, shares_runtime: false }
    }

    fn started(dir: &SessionDir) -> Record {
        let session = SessionId(dir.root().file_name().expect("a name").to_string_lossy().into_owned());
        let event = Event::SessionStarted { session, workspace: "/w".into(), version: "0.1".into(), parent: None };
        Record { seq: 1, at_ms: 1, event }
    }

    #[test]
    fn what_never_came_to_be_is_swept_away_and_nothing_else() {
        let place = Place(tempfile::tempdir().expect("a folder"));
        let dirs = ["dropped", "empty", "held", "young", "begun", "other"].map(|name| place.dir("sessions", name));
        let [dropped, empty, held, young, begun, other] = &dirs;
        for dir in [dropped, young, other] {
            drop(Journal::create(dir, opening()).expect("a new session"));
        }
        fs::create_dir(empty.root()).expect("a folder");
        let writer = Journal::create(held, opening()).expect("a new session");
        Journal::adopt(begun, opening(), vec![started(begun)]).expect("a session");
        fs::create_dir(other.root().join("calls")).expect("a folder");
        dirs.iter().filter(|dir| *dir != young).for_each(Place::age);

        assert_eq!(sweep(place.0.path()), 2);
        let left = |dir: &&SessionDir| dir.root().exists();
        let names: Vec<_> = dirs.iter().filter(left).map(|dir| dir.root().file_name().expect("a name")).collect();
        assert_eq!(names, ["ses_held", "ses_young", "ses_begun", "ses_other"]);
        drop(writer);
        Place::age(held);
        assert_eq!((sweep(place.0.path()), sweep(place.0.path())), (1, 0));
    }

    #[test]
    fn a_session_that_was_taken_in_by_half_is_none_and_is_in_nobodys_way() {
        let place = Place(tempfile::tempdir().expect("a folder"));
        let (half, dir) = (place.dir("incoming", "x"), place.dir("sessions", "x"));
        // Killed when it was whole, and not moved yet.
        Journal::adopt(&half, opening(), vec![started(&half)]).expect("a session");
        assert!(!dir.root().exists());
        let id = SessionId("ses_x".to_owned());
        let made = make_way(place.0.path(), &dir, &id).expect("the id is free");
        Journal::adopt(&made, opening(), vec![started(&made)]).expect("a session");
        self::place(&made, &dir, &id).expect("it is whole");
        assert!(!made.root().exists() && !is_unborn(&dir));
        let again = make_way(place.0.path(), &dir, &id);
        assert!(matches!(again, Err(StoreError::Taken { .. })), "{again:?}");

        Journal::adopt(&half, opening(), vec![started(&half)]).expect("a session");
        assert_eq!(sweep(place.0.path()), 0, "somebody may be at it");
        Place::age(&half);
        assert_eq!(sweep(place.0.path()), 1);
        assert!(!half.root().exists() && dir.root().exists());
    }
}
