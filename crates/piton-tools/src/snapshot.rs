//! Snapshots of a workspace, so that whatever changed its files can be taken back: a tool, a shell command, anything.
//!
//! ```text
//!   take ──▶ scan: lstat every file ─▶ what the cache knows is not read again
//!               │                      what is new is read, hashed, and stored once
//!               ▼
//!            trees, bottom up ─▶ one id for the state of the whole workspace
//!
//!   restore(from, to) ──▶ compare the two trees ─▶ for each difference: is the workspace still as in `from`?
//!                            yes: put it as it is in `to`      no: somebody changed it, a conflict
//!                            half of both, by a restore that was cut off: go on
//! ```
//!
//! Objects are git's (see `object`), in a repository of our own outside of the workspace (see `store`). The user's
//! repository is never written, asked or configured by: its index, stash, refs and hooks are not even read, and what is
//! taken over from its objects is known by content (see `seed`). A snapshot says what it does not cover, and what is
//! not covered is never touched.
//!
//! What must not be known here: sessions, steps, the journal. Everything blocks; the engine calls it on a thread where
//! that does no harm. Modules in reading order.

mod object;
mod store;
mod pack;
mod git;
mod seed;
mod share;
mod entry;
mod cache;
mod scan;
mod compare;
mod mounts;
mod route;
mod workspace;
mod restore;
mod prune;

pub use object::{NotAnId, TreeId};
pub use piton_core::changes::{ChangeKind, Conflict, EntryKind, Lines, PathChange, RestoreFailure, Restored};
pub use prune::Usage;
pub use restore::{Conflicts, RestorePolicy};

use crate::ignored;
use crate::limits::{SNAPSHOT_BYTES, SNAPSHOT_PATIENCE};
use cache::Cache;
use object::{Entry, ObjectKind, Oid, write_tree};
use prune::Live;
use scan::{Scan, Scanner};
use seed::Seed;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use store::{Hold, Store};

/// The snapshots of one workspace. Any number of processes may share a store; they wait for each other.
#[derive(Debug, Clone)]
pub struct Snapshots {
    folder: PathBuf,
    workspace: PathBuf,
    git: Option<PathBuf>,
    left_out: Vec<PathBuf>,
    faults: Option<Arc<dyn FaultPoint>>,
    live: Arc<Live>,
    most_bytes: u64,
    /// Whether the workspace is on a file system that may stop answering.
    is_remote: bool,
    /// How many folders and files were looked at, and whether that was left behind once.
    progress: Arc<AtomicU64>,
    is_hung: Arc<AtomicBool>,
}

/// What snapshots need to know beside the two folders.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The git binary, as an absolute path. Without it nothing is shared with the user's repository, and a store
    /// needs as much room as the workspace, compressed.
    pub git: Option<PathBuf>,
    /// Folders that are never covered, should they lie in the workspace: Piton's own data.
    pub left_out: Vec<PathBuf>,
    /// Who may stop a restore at any of its changes; nobody, but where that is tried out.
    pub faults: Option<Arc<dyn FaultPoint>>,
}

/// Where a restore is made to fail, or its process to die: called before each change of the workspace, from any thread.
/// With an error the change is not made, and the error is what the system would have said.
pub trait FaultPoint: fmt::Debug + Send + Sync {
    /// What is about to be done, to which path of the workspace.
    fn before(&self, operation: Operation, path: &Path) -> io::Result<()>;
}

/// A change of a file system that is seen as a whole or not at all; a [`Operation::Write`] may be torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// A file, a link or a folder goes.
    Remove,
    /// An empty folder comes to be.
    MakeFolder,
    /// A link, or an empty file, comes to be beside its place.
    Create,
    /// The file is filled.
    Write,
    /// A file or the names in a folder become durable.
    Sync,
    /// What was written beside its place takes it.
    Rename,
    /// A file or folder gets its permissions.
    Permit,
}

/// A stretch of the way that a restore goes: between two snapshots between which nobody else changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// What the workspace is expected to be.
    pub from: TreeId,
    /// What it shall be.
    pub to: TreeId,
}

/// A state of the workspace that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The state.
    pub id: TreeId,
    /// What is not in it, sorted by path. Most are the same at each snapshot of a workspace.
    pub notices: Vec<Uncovered>,
}

/// Something that a snapshot does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncovered {
    /// From the workspace.
    pub path: PathBuf,
    /// Why.
    pub why: NotCovered,
}

/// Why something is not covered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotCovered {
    /// See [`crate::limits::SNAPSHOT_FILE_BYTES`].
    LargeFile {
        /// How large it is, or was when reading it stopped.
        bytes: u64,
    },
    /// An ignored folder beyond [`crate::limits::SNAPSHOT_IGNORED_ENTRIES`] or
    /// [`crate::limits::SNAPSHOT_IGNORED_BYTES`], or after all ignored paths' limits were used up.
    LargeIgnoredFolder,
    /// An ignored file beyond [`crate::limits::SNAPSHOT_IGNORED_BYTES`], or after the limits were used up.
    LargeIgnoredFile,
    /// It could not be read.
    Unreadable {
        /// In the system's words.
        error: String,
    },
    /// Something else is mounted there.
    OtherFileSystem,
    /// The workspace's files have more bytes than snapshots may: its largest files are left out. The path is that of the
    /// folder they are all in.
    BeyondLimit {
        /// How many.
        files: usize,
        /// What they have together.
        bytes: u64,
        /// What snapshots may have.
        most: u64,
    },
}

impl fmt::Display for NotCovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargeFile { bytes } => write!(f, "a file of {} MB", bytes / 1_000_000),
            Self::LargeIgnoredFolder => f.write_str("ignored, and large"),
            Self::LargeIgnoredFile => f.write_str("an ignored file, and large"),
            Self::Unreadable { error } => write!(f, "unreadable: {error}"),
            Self::OtherFileSystem => f.write_str("on another file system"),
            Self::BeyondLimit { files, bytes, most } => write!(
                f,
                "{files} of the largest files ({} MB), with which it would be more than {} MB",
                bytes / 1_000_000,
                most / 1_000_000
            ),
        }
    }
}

/// Why there is no snapshot, or nothing to tell of one.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Moved, removed, or not mounted.
    #[error("the workspace {} does not exist", .0.display())]
    WorkspaceGone(PathBuf),
    /// Looking at all of it would take too long.
    #[error("the workspace has more than {most} files and folders")]
    TooManyFiles {
        /// See [`crate::limits::SNAPSHOT_ENTRIES`].
        most: usize,
    },
    /// It is on a server, or behind a program, that does not answer.
    #[error("the workspace's file system has not answered for {seconds} s")]
    NoAnswer {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The workspace's own folder cannot be listed.
    #[error("cannot read {}", .path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What was stored before is whole; nothing of the new snapshot counts.
    #[error("no space left for snapshots: cannot write {}", .path.display())]
    StoreFull {
        /// What could not be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The store's folder cannot be used.
    #[error("cannot use {}", .path.display())]
    Store {
        /// The file in question.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It was pruned, or is of another store.
    #[error("there is no snapshot {0}")]
    Unknown(TreeId),
    /// The store lost something that a snapshot needs.
    #[error("snapshot object {object} is missing or damaged")]
    Damaged {
        /// Its name, by which git knows it too.
        object: String,
        /// What is wrong with it.
        source: io::Error,
    },
}

impl Snapshots {
    /// Opens the store in `folder`, which is made if it is not there and is for this workspace alone.
    pub fn open(folder: &Path, workspace: &Path, options: Options) -> Result<Self, SnapshotError> {
        let gone = |_| SnapshotError::WorkspaceGone(workspace.to_owned());
        let workspace = workspace.canonicalize().map_err(gone)?;
        Store::create(folder)?;
        let folder = folder.canonicalize().map_err(store::store_error(folder))?;
        let Options { git, mut left_out, faults } = options;
        left_out.push(folder.clone());
        Ok(Self {
            is_remote: mounts::is_remote(&workspace),
            folder,
            workspace,
            git,
            left_out,
            faults,
            live: Arc::default(),
            most_bytes: SNAPSHOT_BYTES,
            progress: Arc::default(),
            is_hung: Arc::default(),
        })
    }

    /// Snapshots from here on cover so many bytes of files; the largest are left out first.
    pub fn set_most_bytes(&mut self, most: u64) {
        self.most_bytes = most;
    }

    /// Takes a snapshot of the workspace as it is. An unchanged workspace gives the same id again.
    pub fn take(&self) -> Result<Snapshot, SnapshotError> {
        if !self.is_remote {
            return self.take_here();
        }
        let unanswered = || SnapshotError::NoAnswer { seconds: SNAPSHOT_PATIENCE.as_secs() };
        // Whoever was left behind may still hold the store.
        if self.is_hung.load(Ordering::Relaxed) {
            return Err(unanswered());
        }
        let there = self.clone();
        mounts::unless_it_hangs(&self.progress, SNAPSHOT_PATIENCE, move || there.take_here()).unwrap_or_else(|_| {
            self.is_hung.store(true, Ordering::Relaxed);
            Err(unanswered())
        })
    }

    fn take_here(&self) -> Result<Snapshot, SnapshotError> {
        if !self.workspace.is_dir() {
            return Err(SnapshotError::WorkspaceGone(self.workspace.clone()));
        }
        Store::create(&self.folder)?;
        let store = self.hold(Hold::Change)?;
        if self.has_repository() {
            store.note_repository()?;
        }
        let began = SystemTime::now();
        let cache = Cache::load(&store);
        let seed = match (&self.git, cache.root()) {
            (Some(_), None) => Some(Seed::plant(&store, &self.workspace)),
            (Some(_), Some(_)) | (None, _) => None,
        };
        let left_out = scan::within(&self.workspace, &self.left_out);
        let scanner = Scanner {
            workspace: &self.workspace,
            store: &store,
            cache: &cache,
            left_out: &left_out,
            seed: seed.as_ref(),
            mounts: mounts::within(&self.workspace),
            most_bytes: self.most_bytes,
            progress: &self.progress,
        };
        let scan = scanner.scan()?;
        let trees = put_trees(&store, &cache, &scan)?;
        let id = TreeId(trees.last().map_or_else(|| Oid::of(ObjectKind::Tree, b""), |(_, tree)| *tree));
        store.commit()?;
        self.live.note(&store, id)?;
        if cache.root() != Some(id) || scan.read > 0 || scan.known != cache.files() {
            let folders: Vec<_> = trees.iter().map(|(place, tree)| (&scan.folders[*place], *tree)).collect();
            Cache::save(&store, id, began, &folders)?;
        }
        Ok(Snapshot { id, notices: scan.notices })
    }

    /// What changed from `before` to `after`, sorted by path.
    pub fn diff(&self, before: TreeId, after: TreeId) -> Result<Vec<PathChange>, SnapshotError> {
        let store = self.hold(Hold::Read)?;
        let comparison = compare::Comparison::of(&store, before, after)?;
        Ok(comparison.differences.iter().filter_map(|difference| difference.change(&store)).collect())
    }

    /// What a snapshot holds of a file; `None` where it has no regular file there.
    pub fn file(&self, tree: TreeId, path: &Path) -> Result<Option<Vec<u8>>, SnapshotError> {
        let store = self.hold(Hold::Read)?;
        let mut entries = store.root_tree(tree)?;
        let mut names = path.components().map(|name| name.as_os_str().as_bytes()).peekable();
        while let Some(name) = names.next() {
            let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
            match (names.peek().is_some(), entry.node.kind) {
                (true, EntryKind::Folder) => entries = store.tree(entry.node.oid)?,
                (false, EntryKind::File) => return store.get(entry.node.oid, ObjectKind::Blob).map(Some),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Brings the workspace along these legs. Touches only what their snapshots have differently, and none of it that is
    /// not as it is expected. Done again after it was cut off, with the same legs and [`RestorePolicy::began`], it is finished.
    pub fn restore(&self, legs: &[Leg], policy: RestorePolicy) -> Result<Restored, SnapshotError> {
        let store = self.hold(Hold::Read)?;
        let workspace = workspace::Workspace::open(&self.workspace, self.faults.clone())?;
        let mut report = restore::restore(&store, &self.workspace, workspace, legs, policy)?;
        if !self.has_repository() && store.had_repository() {
            // Said once: from here on it is known.
            report.not_covered.insert(0, PathBuf::from(".git"));
            if !policy.dry_run {
                store.forget_repository();
            }
        }
        Ok(report)
    }

    /// Whether the workspace is a repository's uppermost folder.
    fn has_repository(&self) -> bool {
        fs::symlink_metadata(self.workspace.join(".git")).is_ok()
    }

    /// Removes what a restore that is given up had written beside these paths and not named. Best effort.
    pub fn clear<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) {
        if let Ok(workspace) = workspace::Workspace::open(&self.workspace, self.faults.clone()) {
            paths.into_iter().for_each(|path| drop(workspace.remove_unfinished(path.as_os_str().as_bytes())));
        }
    }

    /// Those of these snapshots that are here: others were dropped before, or are another store's.
    pub fn known(&self, ids: impl IntoIterator<Item = TreeId>) -> Result<Vec<TreeId>, SnapshotError> {
        let store = self.hold(Hold::Read)?;
        Ok(ids.into_iter().filter(|id| store.has(id.0)).collect())
    }

    /// When a file or link of the workspace was changed last, in milliseconds since 1970. `None` where none is there, or
    /// one that git ignores.
    pub fn changed_ms(&self, path: &Path) -> Option<u64> {
        let there = fs::symlink_metadata(self.workspace.join(path)).ok().filter(|there| !there.is_dir())?;
        let ms = there.ctime().checked_mul(1_000)?.checked_add(there.ctime_nsec() / 1_000_000)?;
        (!ignored::is_ignored(&self.workspace, path)).then_some(u64::try_from(ms).ok()?)
    }

    /// Drops every snapshot but these, the last one taken, and those that others took and which are still open. Says
    /// what is left. What was taken with this same value is dropped too unless it is named.
    pub fn prune(&self, keep: &[TreeId]) -> Result<Usage, SnapshotError> {
        let store = self.hold(Hold::Change)?;
        prune::prune(&store, keep, &self.live)
    }

    /// How much room the store takes.
    pub fn usage(&self) -> Result<Usage, SnapshotError> {
        Usage::of(&self.hold(Hold::Read)?)
    }

    fn hold(&self, hold: Hold) -> Result<Store, SnapshotError> {
        Store::hold(&self.folder, self.git.as_deref(), hold)
    }
}

/// Makes the folders' objects, the innermost first and the workspace's last, beside their places in the scan.
fn put_trees(store: &Store, cache: &Cache, scan: &Scan) -> Result<Vec<(usize, Oid)>, SnapshotError> {
    let of_folder = |notice: &&Uncovered| !matches!(notice.why, NotCovered::BeyondLimit { .. });
    let unreadable: HashSet<&Path> =
        scan.notices.iter().filter(of_folder).map(|notice| notice.path.as_path()).collect();
    let mut trees: HashMap<Vec<u8>, Oid> = HashMap::with_capacity(scan.folders.len());
    let mut order = Vec::with_capacity(scan.folders.len());
    for (place, folder) in scan.folders.iter().enumerate().rev() {
        let mut entries = Vec::with_capacity(folder.items.len());
        for item in &folder.items {
            let mut node = item.node;
            if node.kind == EntryKind::Folder {
                let path = scan::join(&folder.path, &item.name);
                node = match trees.get(&path) {
                    Some(&oid) => object::Node { oid, ..node },
                    None if unreadable.contains(path_of(&path).as_path()) => object::Node::NOT_COVERED,
                    // It went away between the two looks.
                    None => continue,
                };
            }
            entries.push(Entry { name: item.name.clone(), node });
        }
        let content = write_tree(entries);
        let oid = Oid::of(ObjectKind::Tree, &content);
        if cache.tree(&folder.path) != Some(oid) {
            store.put(oid, ObjectKind::Tree, &content)?;
        }
        trees.insert(folder.path.clone(), oid);
        order.push((place, oid));
    }
    Ok(order)
}

/// A path as the system has it, whatever bytes it is made of.
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
