//! What a single act on files and SQLite ran into. On its way out it becomes a [`StoreError`], which says where it
//! happened and what is safe.

use crate::store::error::{Holder, Kept, StoreError};
use piton_core::ids::Seq;
use std::io;
use std::path::{Path, PathBuf};

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

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Os { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// The error as the caller sees it. `db` is the database at work, `kept` the last durable event.
    pub(crate) fn explain(self, db: &Path, kept: Seq) -> StoreError {
        let kept = Kept(kept);
        match self {
            Self::Sqlite(error) => explain_sqlite(error, db, kept),
            Self::Os { path, source } => explain_os(source, shown(&path), kept),
            Self::Busy { pid } => StoreError::Busy { holder: holder(pid) },
            Self::Fenced => StoreError::Fenced { kept },
            Self::NoLocks { path } => StoreError::NoLocks { at: shown(&path) },
            Self::NotFound => StoreError::NotFound { at: format!("in {}", db.parent().unwrap_or(db).display()) },
            Self::Damaged { path, why } => StoreError::Damaged { at: shown(path.as_deref().unwrap_or(db)), why },
            Self::Newer { found, ours } => StoreError::Newer { found, ours },
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// For `map_err`: what the system said of a file.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError {
    let at = shown(path);
    move |source| explain_os(source, at.clone(), Kept(0))
}

/// A process as it is named to people.
pub(super) fn holder(pid: Option<u32>) -> Holder {
    Holder(pid.map(|pid| format!("process {pid}")))
}

fn explain_sqlite(error: rusqlite::Error, db: &Path, kept: Kept) -> StoreError {
    use rusqlite::ErrorCode;
    let at = shown(db);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { at, kept },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { at, kept },
        Some(ErrorCode::FileLockingProtocolFailed) => StoreError::NoLocks { at },
        Some(ErrorCode::SystemIoFailure) if cannot_lock(&error) => StoreError::NoLocks { at },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { at, why: error.to_string() }
        }
        _ if is_misshapen(&error) || lacks_table(&error) => StoreError::Damaged { at, why: error.to_string() },
        // SQLite's own errors are not our enum: the rest have nothing in common that a caller could act on.
        Some(_) | None => StoreError::Io { at, kept, source: Box::new(error) },
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

fn explain_os(source: io::Error, at: String, kept: Kept) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { at, kept },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly { at, kept },
        _ => StoreError::Io { at, kept, source: Box::new(source) },
    }
}
