//! Folders in which something is less than the rest, for a kernel that can only allow.

use crate::mount::{Access, Mount, Source};
use std::fs;
use std::path::PathBuf;

/// A folder of which something is less than the rest: in its place stands what is in it, as deep as it has to be.
pub(crate) struct Split<'l> {
    /// What is less, and what it is.
    pub(crate) less: &'l [(PathBuf, Access)],
    /// The folders that were split, to be compared later.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) mounts: Vec<Mount>,
}

impl Split<'_> {
    /// Grants a path. Whatever is found at a link is granted where it lies, or not at all.
    pub(crate) fn grant(&mut self, path: PathBuf, write: bool) {
        let write = match self.less.iter().find(|(less, _)| *less == path) {
            Some((_, Access::None)) => return,
            Some((_, Access::Read)) => false,
            Some((_, Access::Write)) | None => write,
        };
        let is_less = |access: &Access| *access == Access::None || write && *access == Access::Read;
        let is_split =
            self.less.iter().any(|(less, access)| is_less(access) && *less != path && less.starts_with(&path));
        if !is_split {
            let source = Source::Machine { from: path.clone(), write };
            self.mounts.push(Mount { at: path, source });
            return;
        }
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
                self.grant(entry.path(), write);
            }
        }
        self.folders.push(path.clone());
        self.mounts.push(Mount { at: path, source: Source::Names });
    }
}
