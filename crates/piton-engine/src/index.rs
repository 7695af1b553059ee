//! The list of sessions: a cache over the sessions' own journals, one row each, so that a list need not open them all.
//!
//! The folders are the truth. Opening the index compares every session's stamp (size and time of its database files)
//! with the one noted, reads again what has changed, and forgets what is gone. So a session that was killed, copied in
//! or removed by hand is listed as it is. A damaged index is moved aside and made again; where none can be written, the
//! list is made in memory.

use crate::journal::{self, JournalError, SessionDir, Summary};
use piton_core::ids::SessionId;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// `NORMAL`: losing the newest rows to a power cut costs nothing but reading those sessions again.
const TABLES: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=0;
    CREATE TABLE IF NOT EXISTS session (
        id         TEXT PRIMARY KEY,
        stamp      TEXT    NOT NULL,
        workspace  TEXT    NOT NULL,
        updated_ms INTEGER NOT NULL,
        summary    TEXT    NOT NULL
    ) STRICT;";

/// The sessions under one data folder.
#[derive(Debug)]
pub struct Index {
    conn: Connection,
    sessions_dir: PathBuf,
    unreadable: Vec<(SessionId, JournalError)>,
}

/// Why a session could not be found in the list, or the list could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// No session's id begins like this.
    #[error("no session begins with `{prefix}`")]
    NoSuch {
        /// What was looked for.
        prefix: String,
    },
    /// More than one session's id begins like this.
    #[error("{count} sessions begin with `{prefix}`; write more of the id")]
    Ambiguous {
        /// What was looked for.
        prefix: String,
        /// How many there are.
        count: usize,
    },
    /// The folder of the sessions cannot be listed.
    #[error("{} cannot be read", path.display())]
    Folder {
        /// That folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database failed while it was in use; the sessions are not touched by this.
    #[error("the list of sessions could not be read")]
    Database(#[from] rusqlite::Error),
}

impl Index {
    /// Opens the index of a data folder and brings it up to what lies there. Nothing is created where there are no
    /// sessions.
    pub fn open(data_dir: &Path) -> Result<Self, IndexError> {
        let sessions_dir = data_dir.join("sessions");
        let conn = if sessions_dir.exists() { on_disk(&data_dir.join("index.db")) } else { None };
        let conn = conn.map_or_else(in_memory, Ok)?;
        let mut index = Self { conn, sessions_dir, unreadable: Vec::new() };
        index.refresh()?;
        Ok(index)
    }

    /// Sessions, newest first; with a workspace, only those that work in it.
    pub fn list(&self, workspace: Option<&Path>, limit: usize) -> Result<Vec<Summary>, IndexError> {
        let sql =
            "SELECT summary FROM session WHERE ?1 IS NULL OR workspace = ?1 ORDER BY updated_ms DESC, id DESC LIMIT ?2";
        let workspace = workspace.map(Path::to_string_lossy);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(params![workspace, limit], |row| row.get::<_, String>(0))?;
        let texts = rows.collect::<Result<Vec<_>, _>>()?;
        // `refresh` has read each of them already.
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// The session of this workspace that was worked on last.
    pub fn newest(&self, workspace: &Path) -> Result<Option<SessionId>, IndexError> {
        Ok(self.list(Some(workspace), 1)?.pop().map(|summary| summary.id))
    }

    /// The session whose id begins like this, readable or not.
    pub fn find(&self, prefix: &str) -> Result<SessionId, IndexError> {
        let fits = |id: &SessionId| {
            let id = id.as_str();
            id.starts_with(prefix) || id.strip_prefix("ses_").is_some_and(|rest| rest.starts_with(prefix))
        };
        let mut found: Vec<SessionId> = session_ids(&self.sessions_dir)?.into_iter().filter(fits).collect();
        match (found.pop(), found.len()) {
            (Some(id), 0) => Ok(id),
            (Some(_), more) => Err(IndexError::Ambiguous { prefix: prefix.to_owned(), count: more + 1 }),
            (None, _) => Err(IndexError::NoSuch { prefix: prefix.to_owned() }),
        }
    }

    /// Sessions that lie there and cannot be read, each with why.
    pub fn unreadable(&self) -> &[(SessionId, JournalError)] {
        &self.unreadable
    }

    fn refresh(&mut self) -> Result<(), IndexError> {
        // At once the only one: who reads first and writes then is refused when another has written in between.
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut noted = noted_stamps(&tx)?;
        for id in session_ids(&self.sessions_dir)? {
            let dir = SessionDir::new(&self.sessions_dir, &id);
            let stamp = stamp(&dir);
            if noted.remove(id.as_str()).is_some_and(|noted| noted == stamp) {
                continue;
            }
            match journal::summary(&dir) {
                Ok(summary) => note(&tx, &stamp, &summary)?,
                // A session that was cut off before its first commit: there is nothing to list.
                Err(JournalError::NotFound { .. }) => {}
                Err(error) => {
                    noted.insert(id.as_str().to_owned(), stamp);
                    self.unreadable.push((id, error));
                }
            }
        }
        for gone in noted.keys() {
            tx.execute("DELETE FROM session WHERE id = ?", [gone])?;
        }
        Ok(tx.commit()?)
    }
}

fn note(conn: &Connection, stamp: &str, summary: &Summary) -> Result<(), IndexError> {
    let json = serde_json::to_string(summary).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = "INSERT OR REPLACE INTO session (id, stamp, workspace, updated_ms, summary) VALUES (?, ?, ?, ?, ?)";
    let values = params![summary.id.as_str(), stamp, summary.workspace, summary.updated_ms, json];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn noted_stamps(conn: &Connection) -> Result<HashMap<String, String>, IndexError> {
    let mut statement = conn.prepare("SELECT id, stamp, summary FROM session")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))?;
    let mut stamps = HashMap::new();
    for row in rows {
        let (id, stamp, summary): (String, String, String) = row?;
        // A row of another version of Piton counts as changed.
        let readable = serde_json::from_str::<Summary>(&summary).is_ok();
        stamps.insert(id, if readable { stamp } else { String::new() });
    }
    Ok(stamps)
}

/// Changes whenever the journal does: every commit lengthens or rewrites one of the two files.
fn stamp(dir: &SessionDir) -> String {
    let db = dir.journal_db();
    let wal = db.with_file_name("journal.db-wal");
    let of = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((meta.len(), since.as_nanos()))
    };
    format!("{:?} {:?}", of(&db), of(&wal))
}

fn session_ids(sessions_dir: &Path) -> Result<Vec<SessionId>, IndexError> {
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

/// The database on disk; `None` where there cannot be one.
fn on_disk(path: &Path) -> Option<Connection> {
    match sound(path) {
        Ok(conn) => Some(conn),
        Err(error) if is_damage(&error) => {
            for file in ["index.db-wal", "index.db-shm"] {
                let _ = fs::remove_file(path.with_file_name(file));
            }
            fs::rename(path, path.with_file_name("index.db.damaged")).ok()?;
            sound(path).ok()
        }
        Err(_) => None,
    }
}

fn sound(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute_batch(TABLES)?;
    // Fails where the file may be read but not written, and where it is damaged further in.
    conn.execute("DELETE FROM session WHERE id = ''", [])?;
    conn.query_row("SELECT id FROM session WHERE updated_ms < 0", [], |_| Ok(())).optional()?;
    Ok(conn)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown | ErrorCode::TypeMismatch)
    )
}

fn in_memory() -> rusqlite::Result<Connection> {
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(TABLES)?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journal, Opening};
    use piton_core::event::{Delivery, Event};
    use piton_core::ids::MessageId;
    use piton_core::message::Part;

    fn opening(now_ms: u64) -> Opening {
        Opening { pid: 1, boot_id: None, now_ms }
    }

    /// A session as a killed process leaves it: committed, not closed.
    fn session(data: &Path, id: &str, workspace: &str, at_ms: u64) {
        let dir = SessionDir::new(&data.join("sessions"), &SessionId(id.to_owned()));
        let mut journal = Journal::create(&dir, opening(at_ms)).expect("a new session");
        let started = Event::SessionStarted {
            session: SessionId(id.to_owned()),
            workspace: workspace.to_owned(),
            version: "0".to_owned(),
            parent: None,
        };
        journal.stage(at_ms, started);
        journal.commit().expect("room on the disk");
    }

    fn ids(index: &Index, workspace: Option<&str>) -> Vec<String> {
        let list = index.list(workspace.map(Path::new), usize::MAX).expect("a sound index");
        list.into_iter().map(|summary| summary.id.to_string()).collect()
    }

    #[test]
    fn sessions_are_found_on_disk_newest_first_and_by_workspace() {
        let data = tempfile::tempdir().expect("a folder");
        assert!(ids(&Index::open(data.path()).expect("no sessions"), None).is_empty());
        session(data.path(), "ses_a", "/one", 10);
        session(data.path(), "ses_b", "/two", 20);
        session(data.path(), "ses_c", "/one", 30);
        let index = Index::open(data.path()).expect("three sessions");
        assert_eq!(ids(&index, None), ["ses_c", "ses_b", "ses_a"]);
        assert_eq!(ids(&index, Some("/one")), ["ses_c", "ses_a"]);
        assert_eq!(index.newest(Path::new("/two")).expect("sound"), Some(SessionId("ses_b".to_owned())));
        assert_eq!(index.newest(Path::new("/three")).expect("sound"), None);
    }

    #[test]
    fn what_changes_on_disk_changes_in_the_list() {
        let data = tempfile::tempdir().expect("a folder");
        session(data.path(), "ses_a", "/one", 10);
        session(data.path(), "ses_b", "/one", 20);
        drop(Index::open(data.path()).expect("two sessions"));
        let dir = SessionDir::new(&data.path().join("sessions"), &SessionId("ses_a".to_owned()));
        let (mut journal, _) = Journal::open(&dir, opening(30)).expect("a session");
        let (message, parts) = (MessageId("msg_1".to_owned()), vec![Part::text("hello there")]);
        journal.stage(40, Event::UserSpoke { message, parts, delivery: Delivery::Steer });
        journal.commit().expect("room on the disk");
        fs::remove_dir_all(data.path().join("sessions/ses_b")).expect("a folder");
        let index = Index::open(data.path()).expect("one session");
        assert_eq!(ids(&index, None), ["ses_a"]);
        assert_eq!(index.list(None, 1).expect("sound")[0].title, "hello there");
    }

    #[test]
    fn a_damaged_index_is_moved_aside_and_made_again() {
        let data = tempfile::tempdir().expect("a folder");
        session(data.path(), "ses_a", "/one", 10);
        for garbage in [b"not a database at all, but long enough to look like one".repeat(40), vec![0; 5000]] {
            fs::write(data.path().join("index.db"), garbage).expect("a file");
            assert_eq!(ids(&Index::open(data.path()).expect("made again"), None), ["ses_a"]);
            assert!(data.path().join("index.db.damaged").exists());
        }
    }

    #[test]
    fn an_id_may_be_shortened_as_long_as_it_is_the_only_one() {
        let data = tempfile::tempdir().expect("a folder");
        session(data.path(), "ses_ab1", "/", 1);
        session(data.path(), "ses_ab2", "/", 2);
        let index = Index::open(data.path()).expect("two sessions");
        assert_eq!(index.find("ses_ab1").expect("one").as_str(), "ses_ab1");
        assert_eq!(index.find("ab2").expect("one").as_str(), "ses_ab2");
        assert!(matches!(index.find("ses_a"), Err(IndexError::Ambiguous { count: 2, .. })));
        assert!(matches!(index.find("ses_b"), Err(IndexError::NoSuch { .. })));
    }

    #[test]
    fn a_session_that_cannot_be_read_is_named_and_does_not_hide_the_others() {
        let data = tempfile::tempdir().expect("a folder");
        session(data.path(), "ses_a", "/", 1);
        session(data.path(), "ses_b", "/", 2);
        fs::write(data.path().join("sessions/ses_b/journal.db"), b"garbage".repeat(1000)).expect("a file");
        let index = Index::open(data.path()).expect("one session");
        assert_eq!(ids(&index, None), ["ses_a"]);
        assert!(matches!(index.unreadable(), [(id, JournalError::Damaged { .. })] if id.as_str() == "ses_b"));
        assert_eq!(index.find("ses_b").expect("it lies there").as_str(), "ses_b");
    }
}
