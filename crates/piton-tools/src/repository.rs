//! Finding the git repository around a folder. It is only looked at: no git runs in it, and what is in it is not believed.

use crate::regular;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository around a folder: where its own files are (for a worktree) and where its shared ones are.
pub(crate) struct Repository {
    /// The topmost folder of its files.
    pub(crate) root: PathBuf,
    /// `.git`, or what a worktree's or submodule's `.git` file points at, or the repository this one is a worktree of.
    pub(crate) common: PathBuf,
}

impl Repository {
    /// The nearest one at or above the folder.
    pub(crate) fn around(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::at)
    }

    /// The one whose files lie in this folder.
    pub(crate) fn at(root: &Path) -> Option<Self> {
        Some(Self { root: root.to_owned(), common: common(root)? })
    }
}

fn common(root: &Path) -> Option<PathBuf> {
    let dot = root.join(".git");
    let own = match fs::symlink_metadata(&dot).ok()? {
        found if found.is_file() => root.join(line_of(&dot)?.strip_prefix("gitdir: ")?),
        _ => dot,
    };
    let common = line_of(&own.join("commondir")).map(|common| own.join(common));
    Some(common.unwrap_or(own)).filter(|common| common.join("objects").is_dir())
}

/// The only line of a small file, or the first.
fn line_of(path: &Path) -> Option<String> {
    /// Longer than any path.
    const MOST_BYTES: usize = 8 << 10;
    regular::text(path, MOST_BYTES).ok()?.lines().next().map(str::to_owned)
}
