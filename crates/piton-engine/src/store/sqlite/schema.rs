//! The database itself: how it is opened, what its tables are, and how an older one becomes a current one.

use super::error::Fault;
use super::projection;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `Pitn`: says that a file is ours, to us and to `file(1)`.
const APPLICATION_ID: i32 = 0x5069_746e;

/// How long one of our processes waits for another's transaction; they last milliseconds.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Of who makes a session.
pub(super) const FIRST_EPOCH: u64 = 1;

/// One page of the smallest size that SQLite knows, in bytes.
pub(super) const SMALLEST_DATABASE: u64 = 512;

/// For every connection. `mmap_size=0`: a read error must be an error, not a `SIGBUS`.
const EVERY_CONNECTION: &str = "PRAGMA mmap_size=0; PRAGMA foreign_keys=ON;";

/// For the writer. `FULL` makes a commit one fsync of the log. A checkpoint is 4000 pages (16 MiB) away, so that few
/// turns ever pay for one; closing does it in peace. `fullfsync` matters on macOS only.
const WRITER: &str = "PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; PRAGMA journal_size_limit=16777216; \
                      PRAGMA wal_autocheckpoint=4000;";

/// For a new file, which is nobody's yet: nothing is synced.
const NEW_FILE: &str = "PRAGMA synchronous=OFF;";

/// One step from a version to the next; its place in the list is the version it leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// What changes in the tables. Rows of `event` are never touched: older ones are upgraded as they are read.
    pub(super) sql: &'static str,
    /// What becomes of the projections.
    pub(super) projections: Projections,
}

/// What a migration means for the projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Projections {
    /// They are as the new version wants them.
    Keep,
    /// They have to be made again from the events.
    #[cfg_attr(not(test), allow(dead_code, reason = "the first version has nothing to rebuild"))]
    Rebuild,
}

/// From nothing to the current version. A new version is one more entry.
pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { sql: include_str!("schema_v1.sql"), projections: Projections::Keep }];

/// What a database turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A session that was created and has no event.
    Unborn,
    /// A journal of this version.
    Version(u32),
}

/// Creates the database file, which keeps a log, and all tables in that log. Nothing of it is durable before the first
/// commit, which syncs the log; of the database itself nothing is needed before the log is folded into it (see `wal`).
pub(super) fn create(path: &Path) -> Result<Connection, Fault> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    drop(options.open(path).map_err(Fault::os(path))?);
    let mut conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.execute_batch(NEW_FILE)?;
    keep_log(&conn, path)?;
    make_tables(&mut conn)?;
    Ok(conn)
}

/// From here on a commit is synced.
pub(super) fn settle(conn: &Connection) -> Result<(), Fault> {
    Ok(conn.execute_batch(WRITER)?)
}

fn make_tables(conn: &mut Connection) -> Result<(), Fault> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrate(&tx, None, 0, MIGRATIONS)?;
    tx.execute("INSERT INTO writer (one, epoch, last_seq) VALUES (1, ?, 0)", [FIRST_EPOCH])?;
    Ok(tx.commit()?)
}

/// Turns on WAL mode. SQLite writes the file only after it has answered, and says by its next word whether it could; a
/// statement that is dropped after its first row never hears it.
fn keep_log(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let mut statement = conn.prepare("PRAGMA journal_mode=WAL")?;
    let mut rows = statement.query([])?;
    let mut mode = String::new();
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    let error = || std::io::Error::other(format!("SQLite stays in {mode} mode where it was told to keep a log"));
    if mode == "wal" { Ok(()) } else { Err(Fault::os(path)(error())) }
}

/// A database in memory, ready to be written.
pub(super) fn create_in_memory() -> Result<Connection, Fault> {
    let mut conn = Connection::open_in_memory()?;
    conn.execute_batch(EVERY_CONNECTION)?;
    make_tables(&mut conn)?;
    Ok(conn)
}

/// Opens an existing database to write, and looks at what it is. Until [`fold_on_close`] says that it is sound, nothing
/// changes it, not even the checkpoint that SQLite does when it closes one.
pub(super) fn open_to_write(path: &Path, migrations: &[Migration]) -> Result<(Connection, Found), Fault> {
    must_hold_something(path)?;
    let conn = connect_and_keep_log(path)?;
    let found = inspect(&conn, path, migrations)?;
    conn.execute_batch(WRITER)?;
    Ok((conn, found))
}

/// From here on, closing the database folds the log into it.
pub(super) fn fold_on_close(conn: &Connection) -> Result<(), Fault> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

/// Opens an existing database to read, beside a writer or without one. SQLite may write if it can, so that it removes
/// the files of WAL mode where there were none before; we may not.
pub(super) fn open_to_read(path: &Path) -> Result<(Connection, Found), Fault> {
    must_hold_something(path)?;
    let opened = connect_and_keep_log(path).and_then(|conn| look(conn, path));
    match opened {
        Err(Fault::Sqlite(error)) if may_be_immutable(&error, path) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            connect(&immutable(path), flags).and_then(|conn| look(conn, path))
        }
        Ok(_) | Err(_) => opened,
    }
}

/// Brings a database to the current version, in one transaction, with a copy of the old one beside it first.
pub(super) fn upgrade(
    conn: &mut Connection,
    path: &Path,
    blobs: Option<&Path>,
    from: u32,
    migrations: &[Migration],
) -> Result<(), Fault> {
    if from == version(migrations) {
        return Ok(());
    }
    back_up(conn, path, from)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrate(&tx, blobs, from, migrations)?;
    Ok(tx.commit()?)
}

/// Runs the migrations that are missing, within the caller's transaction.
pub(super) fn migrate(
    tx: &Transaction<'_>,
    blobs: Option<&Path>,
    from: u32,
    migrations: &[Migration],
) -> Result<(), Fault> {
    let missing = migrations.get(from as usize..).unwrap_or_default();
    for migration in missing {
        tx.execute_batch(migration.sql)?;
    }
    if missing.iter().any(|migration| migration.projections == Projections::Rebuild) {
        projection::rebuild(tx, blobs)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", version(migrations))?;
    Ok(())
}

/// The version that this list of migrations leads to.
pub(super) fn version(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(40);
    conn.execute_batch(EVERY_CONNECTION)?;
    Ok(conn)
}

/// Where there is a log, it stays as it is. Where there is none, nothing can be folded, and closing removes the empty
/// one that SQLite makes.
fn connect_and_keep_log(path: &Path) -> Result<Connection, Fault> {
    let keep = has_log(path);
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(conn)
}

pub(super) fn has_log(path: &Path) -> bool {
    fs::metadata(log_of(path)).is_ok_and(|meta| meta.len() > 0)
}

/// Where SQLite keeps the log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whether nothing was ever recorded in it. One made by an older Piton has no tables before its first commit.
pub(super) fn is_unborn(conn: &Connection) -> Result<bool, Fault> {
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let nothing = "SELECT last_seq = 0 AND NOT EXISTS (SELECT 1 FROM event) FROM writer";
    Ok(tables == 0 || conn.query_row(nothing, [], |row| row.get(0))?)
}

fn look(conn: Connection, path: &Path) -> Result<(Connection, Found), Fault> {
    conn.execute_batch("PRAGMA query_only=ON")?;
    let found = inspect(&conn, path, MIGRATIONS)?;
    Ok((conn, found))
}

/// SQLite takes an empty file (and one of a single byte) for a new database and would throw away the log beside it. The
/// file is not opened for this: closing it again would drop the locks that SQLite holds on it in this process.
fn must_hold_something(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(meta) if meta.len() == 0 => Err(Fault::damaged("the file is empty")),
        Ok(meta) if meta.len() < SMALLEST_DATABASE => Err(Fault::damaged("it is too short for a database")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Fault::NotFound),
        Err(error) => Err(Fault::os(path)(error)),
    }
}

fn inspect(conn: &Connection, path: &Path, migrations: &[Migration]) -> Result<Found, Fault> {
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found: i32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && found == 0 && tables == 0 {
        return Ok(Found::Unborn);
    }
    let page_bytes: u64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let is_cut = |meta: fs::Metadata| !meta.len().is_multiple_of(page_bytes);
    // With a log beside it the end may be there, not yet folded in.
    if !has_log(path) && fs::metadata(path).is_ok_and(is_cut) {
        return Err(Fault::damaged("its end is cut off"));
    }
    let ours = version(migrations);
    match u32::try_from(found) {
        Ok(found) if application == APPLICATION_ID && found > ours => Err(Fault::Newer { found, ours }),
        Ok(found) if application == APPLICATION_ID && found > 0 => {
            Ok(if is_unborn(conn)? { Found::Unborn } else { Found::Version(found) })
        }
        Ok(_) | Err(_) => Err(Fault::damaged("it is a database, but not one of Piton's")),
    }
}

fn back_up(conn: &Connection, path: &Path, version: u32) -> Result<(), Fault> {
    let copy = path.with_added_extension(format!("v{version}.bak"));
    let unfinished = copy.with_added_extension("tmp");
    // A backup that was cut off is of no use; SQLite would try to write into it.
    let _ = fs::remove_file(&unfinished);
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(&unfinished).map_err(Fault::os(&unfinished))?;
    conn.backup(rusqlite::MAIN_DB, &unfinished, None::<fn(rusqlite::backup::Progress)>)?;
    file.sync_all().map_err(Fault::os(&unfinished))?;
    fs::rename(&unfinished, &copy).map_err(Fault::os(&copy))?;
    path.parent().map_or(Ok(()), super::blobs::sync_folder)
}

/// In a folder that may not be written SQLite cannot make the files that WAL mode wants. Where there is no log there is
/// no writer either, and the file can be read as it is.
fn may_be_immutable(error: &rusqlite::Error, path: &Path) -> bool {
    use rusqlite::ErrorCode;
    let refused = matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    refused && !has_log(path)
}

fn immutable(path: &Path) -> PathBuf {
    let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    PathBuf::from(format!("file:{name}?immutable=1"))
}
