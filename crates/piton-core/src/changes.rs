//! What happens to the files of a workspace when it is brought from one state to another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What a restore did to files, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// What was changed, as seen from the state before the restore. Sorted by path, like the others.
    pub changes: Vec<PathChange>,
    /// What the user changed since, whether it was overwritten or not.
    pub conflicts: Vec<Conflict>,
    /// What could not be done.
    pub failures: Vec<RestoreFailure>,
    /// Folders that were to go and stayed, because something else is in them.
    pub kept: Vec<PathBuf>,
    /// What was left alone because one of the snapshots does not cover it.
    pub not_covered: Vec<PathBuf>,
}

/// A path that is not as it was expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// From the workspace.
    pub path: PathBuf,
    /// What was done to it since.
    pub since: ChangeKind,
    /// Whether it is ignored: the output of a build, mostly, which nobody would call their work.
    pub ignored: bool,
}

/// A path that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFailure {
    /// From the workspace.
    pub path: PathBuf,
    /// Why, in the system's words.
    pub error: String,
}

/// A path that two snapshots have differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// From the workspace.
    pub path: PathBuf,
    /// What happened.
    pub kind: ChangeKind,
    /// What is there now, or was before it was deleted.
    pub what: EntryKind,
    /// Of a text file; `None` for what is binary, large, damaged, or no file.
    pub lines: Option<Lines>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there.
    Created,
    /// It is not there any more.
    Deleted,
    /// It has another content.
    Modified,
    /// The same content with other permissions.
    Permissions,
    /// It is something else now: a file became a link, a link a folder.
    Replaced,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Deleted => "deleted",
            Self::Modified => "changed",
            Self::Permissions => "permissions changed",
            Self::Replaced => "replaced",
        })
    }
}

/// How many lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Lines that only the later content has.
    pub added: usize,
    /// Lines that only the earlier content has.
    pub removed: usize,
}

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A folder.
    Folder,
    /// Something that the snapshot does not cover: it may be there or not.
    NotCovered,
}
