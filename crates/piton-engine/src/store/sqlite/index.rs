//! The list of sessions: a cache over the sessions' own journals, one row each, so that a list need not open them all.
//!
//! The folders are the truth. Opening the index compares every session's stamp (size and time of its database files)
//! with the one noted, reads again what has changed, and forgets what is gone. So a session that was killed, copied in
//! or removed by hand is listed as it is. A damaged index is moved aside and made again; where none can be written, the
//! list is made in memory.
//!
//! `stamp` looks at the folders, `naming` finds the session that somebody means.

mod naming;
mod stamp;
#[cfg(test)]
mod tests;

use super::error::Fault;
use super::{SessionDir, reader};
use crate::store::{StoreError, Summary};
use piton_core::ids::{SessionId, TimeMs};
use piton_tools::private;
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use stamp::Seen;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The shape of the tables and of what is in them. Another one found is thrown away and made again.
const FORMAT: u32 = 2;

/// While it is made nothing is synced: what a power cut leaves of it then is made again.
const SETTINGS: &str = "PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; PRAGMA mmap_size=0;";

/// Losing the newest rows to a power cut costs nothing but reading those sessions again.
const ONCE_MADE: &str = "PRAGMA synchronous=NORMAL;";

/// What was said lies apart, so that a plain list does not pass over it.
const TABLES: &str = "DROP TABLE IF EXISTS session; DROP TABLE IF EXISTS listed; DROP TABLE IF EXISTS said;
    CREATE TABLE listed (
        id         TEXT PRIMARY KEY,
        stamp      INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        workspace  TEXT    NOT NULL,
        summary    TEXT    NOT NULL
    ) STRICT;
    CREATE INDEX listed_by_stamp ON listed (id, stamp);
    CREATE INDEX listed_by_time ON listed (updated_ms DESC, id DESC);
    CREATE TABLE said (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;";

/// The sessions under one data folder.
#[derive(Debug)]
pub struct Index {
    conn: Connection,
    sessions_dir: PathBuf,
    unreadable: Vec<(SessionId, StoreError)>,
}

/// Which sessions to list. Everything that is said must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Those that work in this folder or below it.
    pub project: Option<PathBuf>,
    /// Those in whose title, folder or prompts each of these occurs, in whatever case.
    pub words: Vec<String>,
    /// Those in which something happened since.
    pub since_ms: Option<TimeMs>,
    /// At most so many of the newest.
    pub limit: Option<usize>,
}

fn too_few(place: usize, there_are: usize, project: &Path) -> String {
    let project = project.display();
    match there_are {
        0 => format!("{project} has no session yet"),
        1 => format!("{project} has one session, so there is no -{place}"),
        _ => format!("{project} has {there_are} sessions, so there is no -{place}"),
    }
}

/// Why a session could not be found in the list, or the list could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// No session's id begins like this, and none has this title.
    #[error("no session has `{name}` as its title or as the start of its id")]
    NoSuch {
        /// What was looked for.
        name: String,
    },
    /// More than one session may be meant.
    #[error("`{name}` matches {} sessions", found.len())]
    Ambiguous {
        /// What was looked for.
        name: String,
        /// Those that it fits, newest first.
        found: Vec<SessionId>,
    },
    /// A place in the list was named that the list does not have.
    #[error("{}", too_few(*place, *there_are, project))]
    TooFew {
        /// The place, from 1 for the newest.
        place: usize,
        /// How many there are.
        there_are: usize,
        /// The folder whose sessions are counted.
        project: PathBuf,
    },
    /// The list failed while it was in use, or what it lists cannot be looked at. The sessions are not touched by this.
    #[error("the list of sessions could not be read")]
    Store(#[source] StoreError),
}

impl From<Fault> for IndexError {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.explain(Path::new("index.db"), 0))
    }
}

impl Index {
    /// Opens the index of a data folder and brings it up to what lies there. Nothing is created where there are no
    /// sessions.
    pub fn open(data_dir: &Path) -> Result<Self, IndexError> {
        Self::over(&data_dir.join("sessions"), &data_dir.join("index.db"))
    }

    /// The list of the sessions in some other folder; it is made each time.
    pub fn of_folder(sessions_dir: &Path) -> Result<Self, IndexError> {
        let mut index = Self { conn: in_memory()?, sessions_dir: sessions_dir.to_owned(), unreadable: Vec::new() };
        index.refresh(HashMap::new(), stamp::look(sessions_dir)?)?;
        Ok(index)
    }

    /// Sessions, newest first; with a workspace, only those that work in exactly it.
    pub fn list(&self, workspace: Option<&Path>, limit: usize) -> Result<Vec<Summary>, IndexError> {
        let sql =
            "SELECT summary FROM listed WHERE ?1 IS NULL OR workspace = ?1 ORDER BY updated_ms DESC, id DESC LIMIT ?2";
        let workspace = workspace.map(Path::to_string_lossy);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.summaries(sql, params![workspace, limit])?)
    }

    /// The sessions that fit, newest first.
    pub fn select(&self, query: &Query) -> Result<Vec<Summary>, IndexError> {
        let mut sql = "SELECT summary FROM listed".to_owned();
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        if !query.words.is_empty() {
            sql.push_str(" JOIN said USING (id)");
        }
        sql.push_str(" WHERE true");
        if let Some(project) = &query.project {
            let path = project.to_string_lossy().into_owned();
            let below = format!("{}/", path.trim_end_matches('/'));
            sql.push_str(" AND (workspace = ? OR substr(workspace, 1, length(?)) = ?)");
            values.extend([path, below.clone(), below].map(|text| Box::new(text) as Box<dyn ToSql>));
        }
        for word in &query.words {
            sql.push_str(" AND instr(said.text, ?) > 0");
            values.push(Box::new(word.to_lowercase()));
        }
        if let Some(since_ms) = query.since_ms {
            sql.push_str(" AND updated_ms >= ?");
            values.push(Box::new(i64::try_from(since_ms).unwrap_or(i64::MAX)));
        }
        sql.push_str(" ORDER BY updated_ms DESC, id DESC LIMIT ?");
        values.push(Box::new(query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)));
        Ok(self.summaries(&sql, rusqlite::params_from_iter(values))?)
    }

    /// The session of this workspace that was worked on last.
    pub fn newest(&self, workspace: &Path) -> Result<Option<SessionId>, IndexError> {
        Ok(self.list(Some(workspace), 1)?.pop().map(|summary| summary.id))
    }

    /// How many sessions are listed.
    pub fn count(&self) -> Result<usize, IndexError> {
        Ok(self.conn.query_row("SELECT count(*) FROM listed", [], |row| row.get(0)).map_err(Fault::from)?)
    }

    /// Sessions that lie there and cannot be read, each with why.
    pub fn unreadable(&self) -> &[(SessionId, StoreError)] {
        &self.unreadable
    }

    fn over(sessions_dir: &Path, db: &Path) -> Result<Self, IndexError> {
        std::thread::scope(|scope| {
            // Beside the opening of the database: with thousands of sessions, either takes its time.
            let looking = scope.spawn(|| stamp::look(sessions_dir));
            let conn = if sessions_dir.exists() { on_disk(db) } else { None };
            let conn = conn.map_or_else(in_memory, Ok)?;
            let noted = noted_stamps(&conn)?;
            let seen = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let mut index = Self { conn, sessions_dir: sessions_dir.to_owned(), unreadable: Vec::new() };
            index.refresh(noted, seen)?;
            Ok(index)
        })
    }

    fn summaries(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Summary>, Fault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(values, |row| row.get::<_, String>(0))?;
        let texts = rows.collect::<Result<Vec<_>, _>>()?;
        // `note` wrote each of them, in this format.
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// Reads again what is not as it was noted. Another process may do the same at once; the rows are the same.
    fn refresh(&mut self, mut noted: HashMap<String, i64>, seen: Vec<Seen>) -> Result<(), Fault> {
        let tx = self.conn.transaction()?;
        for Seen { id, database } in seen {
            let noted_before = noted.remove(id.as_str());
            if noted_before == Some(stamp::without_log(database)) {
                continue;
            }
            let stamp = stamp::with_log(&self.sessions_dir, &id, database);
            if noted_before == Some(stamp) {
                continue;
            }
            let dir = SessionDir::new(&self.sessions_dir, &id);
            match reader::summary_and_prompts(&dir) {
                Ok((summary, prompts)) => note(&tx, stamp, &summary, &prompts)?,
                // A session that was cut off before its first commit: there is nothing to list.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    noted.insert(id.as_str().to_owned(), stamp);
                    self.unreadable.push((id, error));
                }
            }
        }
        for gone in noted.keys() {
            tx.execute("DELETE FROM listed WHERE id = ?", [gone])?;
            tx.execute("DELETE FROM said WHERE id = ?", [gone])?;
        }
        Ok(tx.commit()?)
    }
}

fn note(conn: &Connection, stamp: i64, summary: &Summary, prompts: &str) -> Result<(), Fault> {
    let json = serde_json::to_string(summary).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = "INSERT OR REPLACE INTO listed (id, stamp, updated_ms, workspace, summary) VALUES (?, ?, ?, ?, ?)";
    let id = summary.id.as_str();
    conn.prepare_cached(sql)?.execute(params![id, stamp, summary.updated_ms, summary.workspace, json])?;
    let said = format!("{}\n{}\n{prompts}", summary.title, summary.workspace).to_lowercase();
    conn.prepare_cached("INSERT OR REPLACE INTO said (id, text) VALUES (?, ?)")?.execute([id, &said])?;
    Ok(())
}

fn noted_stamps(conn: &Connection) -> Result<HashMap<String, i64>, Fault> {
    let mut statement = conn.prepare("SELECT id, stamp FROM listed")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
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
    // It has titles and what was said. SQLite gives its other files the same permissions, and says what is wrong with this.
    let _ = private::ensure(path);
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute_batch(SETTINGS)?;
    make_tables(&conn)?;
    conn.execute_batch(ONCE_MADE)?;
    // Fails where the file may be read but not written, and where it is damaged further in.
    conn.execute("DELETE FROM listed WHERE id = ''", [])?;
    conn.query_row("SELECT id FROM listed WHERE updated_ms < 0", [], |_| Ok(())).optional()?;
    Ok(conn)
}

fn make_tables(conn: &Connection) -> rusqlite::Result<()> {
    let format: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format == FORMAT {
        return Ok(());
    }
    // Two that find an old one at once must not both make it new.
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={FORMAT}; COMMIT;"))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown | ErrorCode::TypeMismatch)
    )
}

fn in_memory() -> Result<Connection, Fault> {
    let conn = Connection::open_in_memory()?;
    make_tables(&conn)?;
    Ok(conn)
}
