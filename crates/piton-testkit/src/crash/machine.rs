//! The machine that crashes: its power, its disk, the processes beside Piton, and the world outside that remembers.
//!
//! Everything that can be the last thing before a crash is a *point*: each write, sync, cut and delete of SQLite, each
//! step of a tool and of a model's answer, each change that an undo makes to the workspace. Points are counted; a [`Crash`] names the one at which it happens. From then
//! on nothing that the process does has any effect: its writes fail, its tools stand still.

use super::disk::Disk;
use piton_core::event::Record;
use piton_core::ids::Seq;
use piton_engine::store::{Kept, StoreError};
use piton_tools::snapshot::{FaultPoint, Operation};
use rusqlite::ffi;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What goes wrong, at which point of one life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed, and what it started lives on or dies with it.
    Kill {
        /// The point, from 1.
        at: u64,
    },
    /// The machine loses its power, and all that was not synced with it.
    PowerCut {
        /// The point, from 1.
        at: u64,
    },
    /// From this point on the disk refuses every change, and the process lives.
    Refusal {
        /// The point, from 1.
        at: u64,
        /// What the disk says.
        how: Refusal,
    },
}

/// What a disk says when it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No space left.
    Full,
    /// Input/output error.
    Broken,
    /// It was mounted read-only.
    ReadOnly,
}

/// What SQLite is about to do to a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed<'b> {
    Write { at: usize, bytes: &'b [u8] },
    Cut { len: usize },
    Sync,
    Delete,
}

/// Whether the disk does as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncs {
    Kept,
    /// A negative control: it says that it has synced, and has not.
    Lied,
}

#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    syncs: Syncs,
    state: Mutex<State>,
    died: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    is_off: bool,
    points: u64,
    crash: Option<Crash>,
    disk: Disk,
    /// What the tools did to the world: one line each time.
    pub(super) ledger: Vec<String>,
    /// What listeners heard of as recorded.
    pub(super) heard: BTreeMap<Seq, Record>,
    /// Attempts that failed so far, by step.
    pub(super) failures: HashMap<usize, u32>,
    /// How often SQLite has waited for the disk.
    pub(super) syncs: u64,
    /// How often it had, each time the model was asked.
    pub(super) syncs_when_asked: Vec<u64>,
    /// What was seen that must not be.
    pub(super) violations: Vec<String>,
}

impl Machine {
    pub(super) fn new(root: &Path, syncs: Syncs) -> Arc<Self> {
        Arc::new(Self { root: root.to_owned(), syncs, state: Mutex::default(), died: Notify::new() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power is on and the process starts; it will crash like this.
    pub(super) fn start(&self, crash: Option<Crash>) {
        let mut state = self.state();
        (state.is_off, state.points, state.crash) = (false, 0, crash);
    }

    /// Points passed since the process started.
    pub(super) fn points(&self) -> u64 {
        self.state().points
    }

    /// Whether the process is dead.
    pub(super) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// A point of a tool or a model: never returns when it is the last.
    pub(super) async fn point(&self) {
        if self.pass().is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// A point before a commit behind `head`, which a store may refuse.
    pub(super) async fn commit_point(&self, head: Seq) -> Result<(), StoreError> {
        match self.pass() {
            Ok(None) => Ok(()),
            Ok(Some(how)) => Err(how.of_store(head)),
            Err(Dead) => std::future::pending().await,
        }
    }

    /// Waits for the process's death.
    pub(super) async fn death(&self) {
        let notified = self.died.notified();
        if !self.is_off() {
            notified.await;
        }
    }

    /// Somebody opened a file.
    pub(super) fn opened(&self, path: &Path) {
        self.state().disk.opened(path);
    }

    /// SQLite is about to do this. An error says that it does not happen.
    pub(super) fn deed(&self, path: &Path, deed: Deed<'_>) -> Result<(), c_int> {
        let refused = match self.pass() {
            Ok(refusal) => refusal,
            Err(Dead) => return Err(ffi::SQLITE_IOERR),
        };
        if let Some(how) = refused {
            return Err(how.code(deed));
        }
        let mut state = self.state();
        state.syncs += u64::from(matches!(deed, Deed::Sync));
        let disk = &mut state.disk;
        match deed {
            Deed::Write { at, bytes } => disk.write(path, at, bytes),
            Deed::Cut { len } => disk.cut(path, len),
            Deed::Delete => disk.delete(path),
            Deed::Sync if self.syncs == Syncs::Kept => disk.sync(path),
            Deed::Sync => {}
        }
        Ok(())
    }

    /// A tool changes the world.
    pub(super) fn leave_line(&self, line: &str) {
        self.state().ledger.push(line.to_owned());
    }

    /// Something happened that must not.
    pub(super) fn accuse(&self, violation: impl Into<String>) {
        self.state().violations.push(violation.into());
    }

    /// What a power cut does to SQLite's files.
    pub(super) fn lose_power(&self, dice: &mut fastrand::Rng) -> std::io::Result<()> {
        self.state().disk.lose_power(dice)
    }

    /// Passes a point. A disk may refuse there, a process may die.
    fn pass(&self) -> Result<Option<Refusal>, Dead> {
        let mut state = self.state();
        if state.is_off {
            return Err(Dead);
        }
        state.points += 1;
        match state.crash {
            Some(Crash::Refusal { at, how }) if state.points >= at => Ok(Some(how)),
            Some(Crash::Kill { at } | Crash::PowerCut { at }) if state.points >= at => {
                state.is_off = true;
                self.died.notify_waiters();
                Err(Dead)
            }
            Some(_) | None => Ok(None),
        }
    }
}

/// A restore changes the workspace. Where it does so from several threads, which of their changes a point is differs from
/// run to run.
impl FaultPoint for Machine {
    fn before(&self, _: Operation, _: &Path) -> io::Result<()> {
        match self.pass() {
            Ok(None) => Ok(()),
            Ok(Some(how)) => Err(how.kind().into()),
            Err(Dead) => Err(io::Error::other("the process is dead")),
        }
    }
}

/// The process is dead.
struct Dead;

impl Crash {
    /// What happens, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kill { .. } => "killed",
            Self::PowerCut { .. } => "power cut",
            Self::Refusal { how: Refusal::Full, .. } => "disk full",
            Self::Refusal { how: Refusal::Broken, .. } => "disk broken",
            Self::Refusal { how: Refusal::ReadOnly, .. } => "read-only",
        }
    }
}

impl Refusal {
    fn kind(self) -> io::ErrorKind {
        match self {
            Self::Full => io::ErrorKind::StorageFull,
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Self::Broken => io::ErrorKind::Other,
        }
    }

    fn of_store(self, head: Seq) -> StoreError {
        let (at, kept) = ("the store".to_owned(), Kept(head));
        match self {
            Self::Full => StoreError::Full { at, kept },
            Self::ReadOnly => StoreError::ReadOnly { at, kept },
            Self::Broken => StoreError::Io { at, kept, source: io::Error::from(self.kind()).into() },
        }
    }

    fn code(self, deed: Deed<'_>) -> c_int {
        match (self, deed) {
            (Self::Full, _) => ffi::SQLITE_FULL,
            (Self::ReadOnly, _) => ffi::SQLITE_READONLY,
            (Self::Broken, Deed::Sync) => ffi::SQLITE_IOERR_FSYNC,
            (Self::Broken, _) => ffi::SQLITE_IOERR_WRITE,
        }
    }
}
