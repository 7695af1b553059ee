//! Why the journal could not do what was asked. Inside, a [`Fault`] is what a single act ran into; on its way out it
//! becomes a [`JournalError`], which says where it happened and what is safe.

use piton_core::ids::Seq;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the journal could not do what was asked. One variant per thing the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process is the writer: follow it, or try again later.
    #[error("the session is in use by another Piton{}", process(*pid))]
    Busy {
        /// That process, where it has said who it is.
        pid: Option<u32>,
    },
    /// Another process became the writer while this one was not looking: stop, and do nothing more for this session.
    #[error("another Piton has taken over the session; {kept}")]
    Fenced {
        /// What is safe.
        kept: Kept,
    },
    /// There is no such session.
    #[error("there is no session in {}", path.display())]
    NotFound {
        /// The session's folder.
        path: PathBuf,
    },
    /// A file is not what it should be. Nothing was changed; it can be repaired, or forked up to the damage.
    #[error("{} is damaged: {why}; the file was left as it is", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A newer Piton wrote this: use that one.
    #[error("the session was written by a newer Piton (format {found}, this one knows {ours}); it was left as it is")]
    Newer {
        /// The version in the file.
        found: u32,
        /// The newest version this Piton knows.
        ours: u32,
    },
    /// The disk or the quota is full: make room, then commit again. What was staged is still staged.
    #[error("no space left to write {}; {kept}", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
        /// What is safe.
        kept: Kept,
    },
    /// The files may not be written.
    #[error("{} may not be written; {kept}", path.display())]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
        /// What is safe.
        kept: Kept,
    },
    /// The file system knows no locks, so two processes could write the same session: keep sessions elsewhere.
    #[error("the file system of {} cannot lock files, and without a lock two Pitons could write the same session; nothing was changed", path.display())]
    NoLocks {
        /// The file that should be locked.
        path: PathBuf,
    },
    /// Anything else between us and the disk. What was staged is still staged.
    #[error("{} could not be read or written; {kept}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What is safe.
        kept: Kept,
        /// What the system or the database said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<io::Error> for JournalError {
    /// For what went wrong around the journal rather than in it (a thread that could not be had).
    fn from(source: io::Error) -> Self {
        explain_os(source, PathBuf::from("the journal"), Kept(0))
    }
}

/// The last event known to be durable; 0 when there is none, or when nothing was being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept(pub Seq);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("nothing was changed"),
            seq => write!(f, "everything up to event {seq} is safe"),
        }
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// What one act ran into.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Os {
        path: PathBuf,
        source: io::Error,
    },
    Busy {
        pid: Option<u32>,
    },
    Fenced,
    NotFound,
    NoLocks {
        path: PathBuf,
    },
    /// Without a path it is the database that is damaged.
    Damaged {
        path: Option<PathBuf>,
        why: String,
    },
    Newer {
        found: u32,
        ours: u32,
    },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged { path: None, why: why.into() }
    }

    /// For `map_err`: an operating system error about this file.
    pub(crate) fn os(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Os { path, source }
    }

    /// The error as the caller sees it. `db` is the database at work, `kept` the last durable event.
    pub(crate) fn explain(self, db: &Path, kept: Seq) -> JournalError {
        let kept = Kept(kept);
        match self {
            Self::Sqlite(error) => explain_sqlite(error, db, kept),
            Self::Os { path, source } => explain_os(source, path, kept),
            Self::Busy { pid } => JournalError::Busy { pid },
            Self::Fenced => JournalError::Fenced { kept },
            Self::NoLocks { path } => JournalError::NoLocks { path },
            Self::NotFound => JournalError::NotFound { path: db.parent().unwrap_or(db).to_owned() },
            Self::Damaged { path, why } => JournalError::Damaged { path: path.unwrap_or_else(|| db.to_owned()), why },
            Self::Newer { found, ours } => JournalError::Newer { found, ours },
        }
    }
}

fn explain_sqlite(error: rusqlite::Error, db: &Path, kept: Kept) -> JournalError {
    use rusqlite::ErrorCode;
    let path = db.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => JournalError::Full { path, kept },
        Some(ErrorCode::ReadOnly) => JournalError::ReadOnly { path, kept },
        Some(ErrorCode::FileLockingProtocolFailed) => JournalError::NoLocks { path },
        Some(ErrorCode::SystemIoFailure) if cannot_lock(&error) => JournalError::NoLocks { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            JournalError::Damaged { path, why: error.to_string() }
        }
        _ if is_misshapen(&error) || lacks_table(&error) => JournalError::Damaged { path, why: error.to_string() },
        // SQLite's own errors are not our enum: the rest have nothing in common that a caller could act on.
        Some(_) | None => JournalError::Io { path, kept, source: Box::new(error) },
    }
}

/// Whether SQLite failed where it locks, or shares memory between processes.
fn cannot_lock(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi;
    let at_locks =
        [ffi::SQLITE_IOERR_LOCK, ffi::SQLITE_IOERR_RDLOCK, ffi::SQLITE_IOERR_SHMLOCK, ffi::SQLITE_IOERR_SHMMAP];
    error.sqlite_extended_error_code().is_some_and(|code| at_locks.contains(&code))
}

/// Whether a value is not of the shape that we write.
pub(super) fn is_misshapen(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::FromSqlConversionFailure(..)
            | E::Utf8Error(..)
            | E::IntegralValueOutOfRange(..)
            | E::InvalidColumnType(..)
            | E::QueryReturnedNoRows
    )
}

/// Whether SQLite does not understand our SQL, which is right for the tables that we make.
fn lacks_table(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_ERROR)
}

fn explain_os(source: io::Error, path: PathBuf, kept: Kept) -> JournalError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full { path, kept },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => JournalError::ReadOnly { path, kept },
        _ => JournalError::Io { path, kept, source: Box::new(source) },
    }
}
