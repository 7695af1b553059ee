//! The list of sessions: a cache over the sessions' own journals, one row each, so that a list need not open them all.
//!
//! The folders are the truth. A session that was read while nobody had it open is *sealed* (`seal`), and is not looked at
//! again before somebody opens it to write. Of the others, and of the newest, which are what people see, the stamps (size
//! and time of the database files) are compared with those noted; what has changed is read again, and what is gone
//! forgotten. The folder of the sessions is read where it has changed. So a session that was killed, copied in or removed by
//! hand is listed as it is. After a restart of the machine every session is looked at. A damaged index is moved aside and
//! made again; where none can be written, the list is made in memory.
//!
//! `stamp` looks at the folders, `naming` finds the session that somebody means.

mod naming;
mod stamp;
#[cfg(test)]
mod tests;

use super::error::Fault;
use super::lock;
use super::{SessionDir, reader, seal, unborn};
use crate::clock::World;
use crate::store::{StoreError, Summary};
use piton_core::ids::{SessionId, TimeMs};
use piton_tools::private;
use rusqlite::{Connection, OptionalExtension, ToSql, TransactionBehavior, params};
use stamp::Entry;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Sessions without a word that are looked past for one with words.
const MOST_EMPTY: usize = 20;

/// The shape of the tables and of what is in them. Another one found is thrown away and made again.
const FORMAT: u32 = 4;

/// While it is made nothing is synced: what a power cut leaves of it then is made again.
const SETTINGS: &str = "PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; PRAGMA mmap_size=0;";

/// Losing the newest rows to a power cut costs nothing but reading those sessions again.
const ONCE_MADE: &str = "PRAGMA synchronous=NORMAL;";

/// What was said lies apart, so that a plain list does not pass over it.
const TABLES: &str = "DROP TABLE IF EXISTS session; DROP TABLE IF EXISTS listed; DROP TABLE IF EXISTS said;
    DROP TABLE IF EXISTS unlisted; DROP TABLE IF EXISTS folder;
    CREATE TABLE listed (
        id         TEXT PRIMARY KEY,
        stamp      INTEGER NOT NULL,
        inode      INTEGER NOT NULL, -- of its folder: another one of this name is another session
        sealed     INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        workspace  TEXT    NOT NULL,
        is_child   INTEGER NOT NULL, -- a subagent's, which is found through the session that it works for
        summary    TEXT    NOT NULL
    ) STRICT;
    CREATE INDEX listed_by_folder ON listed (id, stamp, inode, sealed);
    CREATE INDEX listed_unsealed ON listed (id) WHERE sealed = 0;
    -- What lies there and cannot be read, or has nothing to list. It is looked at each time.
    CREATE TABLE unlisted (id TEXT PRIMARY KEY) STRICT;
    -- The folder of the sessions as it was read, and in which boot.
    CREATE TABLE folder (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, stamp INTEGER) STRICT;
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
    /// Those in whose title, folder or prompts, or a subagent's, each of these occurs, in whatever case.
    pub words: Vec<String>,
    /// Those in which something happened since.
    pub since_ms: Option<TimeMs>,
    /// At most so many of the newest.
    pub limit: Option<usize>,
    /// Those of subagents, too.
    pub with_children: bool,
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
        Self::in_boot(data_dir, World::system().boot_id())
    }

    /// The same in this boot of the machine. Where that is not known, no seal counts.
    fn in_boot(data_dir: &Path, boot: Option<&str>) -> Result<Self, IndexError> {
        let sessions_dir = data_dir.join("sessions");
        let on_disk = if sessions_dir.exists() { on_disk(&data_dir.join("index.db")) } else { None };
        let boot = boot.filter(|_| on_disk.is_some());
        let conn = on_disk.map_or_else(in_memory, Ok)?;
        let mut index = Self { conn, sessions_dir, unreadable: Vec::new() };
        index.refresh(boot)?;
        Ok(index)
    }

    /// The list of the sessions in some other folder; it is made each time.
    pub fn of_folder(sessions_dir: &Path) -> Result<Self, IndexError> {
        let mut index = Self { conn: in_memory()?, sessions_dir: sessions_dir.to_owned(), unreadable: Vec::new() };
        index.refresh(None)?;
        Ok(index)
    }

    /// Sessions but those of subagents, newest first; with a workspace, only those that work in exactly it.
    pub fn list(&self, workspace: Option<&Path>, limit: usize) -> Result<Vec<Summary>, IndexError> {
        let sql = "SELECT summary FROM listed WHERE is_child = 0 AND (?1 IS NULL OR workspace = ?1) \
                   ORDER BY updated_ms DESC, id DESC LIMIT ?2";
        let workspace = workspace.map(Path::to_string_lossy);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.summaries(sql, params![workspace, limit])?)
    }

    /// The sessions that fit, newest first.
    pub fn select(&self, query: &Query) -> Result<Vec<Summary>, IndexError> {
        let mut sql = "SELECT summary FROM listed".to_owned();
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        if !query.words.is_empty() && query.with_children {
            sql.push_str(" JOIN said USING (id)");
        }
        sql.push_str(if query.with_children { " WHERE true" } else { " WHERE is_child = 0" });
        let said = " AND instr(said.text, ?) > 0".repeat(query.words.len());
        if query.with_children {
            sql.push_str(&said);
        } else if !query.words.is_empty() {
            // Or those whose subagents have them: up from each session with the words.
            sql.push_str(&format!(
                " AND id IN (WITH RECURSIVE up(id) AS (SELECT id FROM said WHERE true{said}
                    UNION SELECT json_extract(listed.summary, '$.parent.session') FROM up JOIN listed USING (id) WHERE is_child = 1)
                    SELECT id FROM up)"
            ));
        }
        values.extend(query.words.iter().map(|word| Box::new(word.to_lowercase()) as Box<dyn ToSql>));
        if let Some(project) = &query.project {
            let path = project.to_string_lossy().into_owned();
            let below = format!("{}/", path.trim_end_matches('/'));
            sql.push_str(" AND (workspace = ? OR substr(workspace, 1, length(?)) = ?)");
            values.extend([path, below.clone(), below].map(|text| Box::new(text) as Box<dyn ToSql>));
        }
        if let Some(since_ms) = query.since_ms {
            sql.push_str(" AND updated_ms >= ?");
            values.push(Box::new(i64::try_from(since_ms).unwrap_or(i64::MAX)));
        }
        sql.push_str(" ORDER BY updated_ms DESC, id DESC LIMIT ?");
        values.push(Box::new(query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)));
        Ok(self.summaries(&sql, rusqlite::params_from_iter(values))?)
    }

    /// The session of this workspace that was worked on last. One in which nothing was said, since its first words were refused,
    /// stands behind those in which something was.
    pub fn newest(&self, workspace: &Path) -> Result<Option<SessionId>, IndexError> {
        let mut newest = self.list(Some(workspace), MOST_EMPTY)?;
        let is_used = |summary: &Summary| summary.turns > 0 || !summary.title.is_empty();
        let at = newest.iter().position(is_used).unwrap_or_default();
        Ok((at < newest.len()).then(|| newest.swap_remove(at).id))
    }

    /// How many sessions are listed.
    pub fn count(&self) -> Result<usize, IndexError> {
        Ok(self.conn.query_row("SELECT count(*) FROM listed", [], |row| row.get(0)).map_err(Fault::from)?)
    }

    /// Sessions that lie there and cannot be read, each with why.
    pub fn unreadable(&self) -> &[(SessionId, StoreError)] {
        &self.unreadable
    }

    fn summaries(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Summary>, Fault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(values, |row| row.get::<_, String>(0))?;
        let texts = rows.collect::<Result<Vec<_>, _>>()?;
        // `note` wrote each of them, in this format.
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// Brings the list up to what lies there. Without a boot no seal is trusted, and none is cleared.
    fn refresh(&mut self, boot: Option<&str>) -> Result<(), Fault> {
        // Before anything is looked at: what changes from here on is found the next time.
        let folder = stamp::of_folder(&self.sessions_dir);
        if boot.is_some() {
            self.note_broken_seals()?;
        }
        let (noted_boot, noted_folder) = self.noted_folder()?;
        let is_same_boot = boot.is_some() && noted_boot.as_deref() == boot;
        let is_as_noted = is_same_boot && folder.is_some() && folder == noted_folder;
        let (looks, gone) = if is_as_noted {
            (self.in_doubt()?, Vec::new())
        } else {
            self.compared(stamp::entries(&self.sessions_dir)?, is_same_boot)?
        };
        let looks = self.changed(looks);
        if is_as_noted && looks.is_empty() {
            return Ok(());
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for look in looks {
            if let Some((id, error)) = look.again(&tx, &self.sessions_dir)? {
                self.unreadable.push((id, error));
            }
        }
        for id in gone {
            forget(&tx, &id)?;
            tx.execute("DELETE FROM unlisted WHERE id = ?", [id.as_str()])?;
        }
        if let Some(boot) = boot {
            tx.execute("INSERT OR REPLACE INTO folder (one, boot, stamp) VALUES (1, ?, ?)", params![boot, folder])?;
        }
        Ok(tx.commit()?)
    }

    /// In this order: who dies in between leaves a session that is looked at, and no broken seal is lost.
    fn note_broken_seals(&self) -> Result<(), Fault> {
        let broken = seal::broken(&self.sessions_dir)?;
        for id in &broken {
            self.conn.execute("UPDATE listed SET sealed = 0 WHERE id = ?", [id.as_str()])?;
        }
        broken.iter().for_each(|id| seal::clear(&self.sessions_dir, id));
        Ok(())
    }

    fn noted_folder(&self) -> Result<(Option<String>, Option<i64>), Fault> {
        let mut statement = self.conn.prepare("SELECT boot, stamp FROM folder")?;
        let noted = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        Ok(noted.unwrap_or_default())
    }

    /// Where no session has come or gone: those that are not sealed, those that are not listed, and the newest.
    fn in_doubt(&self) -> Result<Vec<Look>, Fault> {
        let sql = "SELECT id, stamp, inode, sealed FROM listed WHERE sealed = 0
                   UNION SELECT * FROM (SELECT id, stamp, inode, sealed FROM listed
                                        ORDER BY updated_ms DESC, id DESC LIMIT ?)
                   UNION SELECT id, NULL, NULL, 0 FROM unlisted";
        let mut statement = self.conn.prepare(sql)?;
        let looks = statement.query_map([NEWEST], |row| {
            let noted = Noted::from_row(row)?;
            Ok(Look { id: SessionId(row.get(0)?), inode: noted.as_ref().map(|noted| noted.inode), noted })
        })?;
        Ok(looks.collect::<Result<_, _>>()?)
    }

    /// Where some may have: those that are to be looked at, and those that are gone.
    fn compared(&self, entries: Vec<Entry>, trusts_seals: bool) -> Result<(Vec<Look>, Vec<SessionId>), Fault> {
        let mut statement = self.conn.prepare("SELECT id, stamp, inode, sealed FROM listed")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, Noted::from_row(row)?)))?;
        let mut all = rows.collect::<Result<HashMap<_, _>, _>>()?;
        let newest: HashSet<String> = self.in_doubt()?.into_iter().map(|look| look.id.0).collect();
        let mut looks = Vec::new();
        for Entry { id, inode } in entries {
            let noted = all.remove(id.as_str()).flatten();
            let is_sealed = noted.as_ref().is_some_and(|noted| trusts_seals && noted.sealed && noted.inode == inode);
            if !is_sealed || newest.contains(id.as_str()) {
                looks.push(Look { id, inode: Some(inode), noted });
            }
        }
        let mut statement = self.conn.prepare("SELECT id FROM unlisted")?;
        let unlisted = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        let there: HashSet<&str> = looks.iter().map(|look| look.id.as_str()).collect();
        let gone = all.into_keys().chain(unlisted.into_iter().filter(|id| !there.contains(id.as_str())));
        let gone = gone.map(SessionId).collect();
        Ok((looks, gone))
    }

    /// Without those that are sealed and as they were noted.
    fn changed(&self, looks: Vec<Look>) -> Vec<Look> {
        let databases = stamp::databases(&self.sessions_dir, &looks, |look| &look.id);
        let is_as_noted = |look: &Look, database| {
            let Some(noted) = look.noted.as_ref().filter(|noted| noted.sealed && Some(noted.inode) == look.inode)
            else {
                return false;
            };
            noted.stamp == stamp::without_log(database)
                || noted.stamp == stamp::with_log(&self.sessions_dir, &look.id, database)
        };
        let all = looks.into_iter().zip(databases);
        all.filter(|(look, database)| !is_as_noted(look, *database)).map(|(look, _)| look).collect()
    }
}

/// So many of the newest sessions are looked at each time, sealed or not: what a person sees has been looked at, also
/// where somebody has changed it by hand.
const NEWEST: usize = 30;

/// What is noted of a session.
#[derive(Debug)]
struct Noted {
    stamp: i64,
    inode: i64,
    sealed: bool,
}

impl Noted {
    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let (stamp, inode): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let sealed = row.get(3)?;
        Ok(stamp.zip(inode).map(|(stamp, inode)| Self { stamp, inode, sealed }))
    }
}

/// A session that is to be looked at.
#[derive(Debug)]
struct Look {
    id: SessionId,
    /// Of its folder; `None` where that is not read now.
    inode: Option<i64>,
    noted: Option<Noted>,
}

impl Look {
    /// Reads the session again where it is not as it was noted, and seals it where nobody has it open. Answers what cannot
    /// be read. Another process may do the same at once; what it notes is the same or newer.
    fn again(self, conn: &Connection, sessions_dir: &Path) -> Result<Option<(SessionId, StoreError)>, Fault> {
        let Self { id, noted, .. } = self;
        let dir = SessionDir::new(sessions_dir, &id);
        // Before it is read: who opens it after this breaks the seal anew.
        let is_open = lock::is_held(&dir);
        let inode = self.inode.or_else(|| stamp::inode(dir.root()));
        let look = || stamp::of(sessions_dir, &id);
        let stamp = look();
        if let Some(noted) = noted.filter(|noted| noted.stamp == stamp && Some(noted.inode) == inode) {
            if noted.sealed == is_open {
                conn.execute("UPDATE listed SET sealed = ? WHERE id = ?", params![!is_open, id.as_str()])?;
            }
            return Ok(None);
        }
        let read = reader::summary_and_prompts(&dir);
        let unreadable = match read {
            Ok((mut summary, prompts)) => {
                // A copy tells of the session that it was.
                summary.id = id.clone();
                let sealed = !is_open && look() == stamp;
                note(conn, stamp, inode.unwrap_or_default(), sealed, &summary, &prompts)?;
                conn.execute("DELETE FROM unlisted WHERE id = ?", [id.as_str()])?;
                return Ok(None);
            }
            // Removed since, or cut off before its first commit: there is nothing to list.
            Err(StoreError::NotFound { .. }) => None,
            // Killed between making the file and writing to it: what is empty, and has nothing beside it, never was a session.
            Err(_) if unborn::has_run_nothing(&dir) && unborn::is_unborn(&dir) => None,
            Err(error) => Some(error),
        };
        forget(conn, &id)?;
        conn.execute("INSERT OR IGNORE INTO unlisted (id) VALUES (?)", [id.as_str()])?;
        Ok(unreadable.map(|error| (id, error)))
    }
}

fn forget(conn: &Connection, id: &SessionId) -> Result<(), Fault> {
    conn.execute("DELETE FROM listed WHERE id = ?", [id.as_str()])?;
    conn.execute("DELETE FROM said WHERE id = ?", [id.as_str()])?;
    Ok(())
}

fn note(
    conn: &Connection,
    stamp: i64,
    inode: i64,
    sealed: bool,
    summary: &Summary,
    prompts: &str,
) -> Result<(), Fault> {
    let json = serde_json::to_string(summary).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = "INSERT OR REPLACE INTO listed (id, stamp, inode, sealed, updated_ms, workspace, is_child, summary) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let id = summary.id.as_str();
    let is_child = summary.parent.as_ref().is_some_and(|parent| parent.call.is_some());
    let values = params![id, stamp, inode, sealed, summary.updated_ms, summary.workspace, is_child, json];
    conn.prepare_cached(sql)?.execute(values)?;
    let said = format!("{}\n{}\n{prompts}", summary.title, summary.workspace).to_lowercase();
    conn.prepare_cached("INSERT OR REPLACE INTO said (id, text) VALUES (?, ?)")?.execute([id, &said])?;
    Ok(())
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
