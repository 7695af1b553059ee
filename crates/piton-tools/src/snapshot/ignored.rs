//! What is ignored, and how much of it is covered all the same: a `.env` is, `node_modules` is not.

use super::seed::Repository;
use crate::limits::{
    SNAPSHOT_IGNORED_BYTES, SNAPSHOT_IGNORED_ENTRIES, SNAPSHOT_IGNORED_LOOKS, SNAPSHOT_IGNORED_TOTAL_BYTES,
};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The `.gitignore` files that count in a folder: its own and those above it.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules(Option<Arc<Layer>>);

#[derive(Debug)]
struct Layer {
    own: Gitignore,
    above: Rules,
}

impl Rules {
    /// The rules above a workspace: those of the repository it lies in. What a person ignores everywhere does not
    /// count, it would need their configuration.
    pub(super) fn above(workspace: &Path) -> Self {
        let Some(repository) = Repository::around(workspace) else { return Self::default() };
        let mut rules = Self::default().with(&repository.root, &repository.common.join("info/exclude"));
        let mut between: Vec<&Path> = workspace.ancestors().skip(1).collect();
        between.reverse();
        for folder in between.into_iter().filter(|folder| folder.starts_with(&repository.root)) {
            rules = rules.with(folder, &folder.join(".gitignore"));
        }
        rules
    }

    /// With the rules of a file, which count below `folder`.
    pub(super) fn with(self, folder: &Path, file: &Path) -> Self {
        /// What is longer is no list of patterns; what is no regular file might never end.
        const MOST_BYTES: u64 = 1 << 20;
        if !fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES) {
            return self;
        }
        let mut builder = GitignoreBuilder::new(folder);
        // A pattern that is none is passed over, as git does.
        let _ = builder.add(file);
        match builder.build() {
            Ok(own) if !own.is_empty() => Self(Some(Arc::new(Layer { own, above: self }))),
            Ok(_) | Err(_) => self,
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the nearest rule that says something about the path ignores it.
    pub(super) fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let mut rules = self;
        while let Some(layer) = &rules.0 {
            match layer.own.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = &layer.above,
            }
        }
        false
    }
}

/// Whether a path of a workspace is ignored, or a folder that it lies in.
pub(super) fn is_ignored(workspace: &Path, path: &Path) -> bool {
    let mut rules = Rules::above(workspace).with(workspace, &workspace.join(".gitignore"));
    let mut folders: Vec<&Path> = path.ancestors().skip(1).filter(|folder| *folder != Path::new("")).collect();
    folders.reverse();
    for folder in folders {
        let folder = workspace.join(folder);
        if rules.ignore(&folder, true) {
            return true;
        }
        rules = rules.with(&folder, &folder.join(".gitignore"));
    }
    rules.ignore(&workspace.join(path), workspace.join(path).is_dir())
}

/// What may still be covered of all that is ignored. Spent in the order of the paths, so that the same workspace always
/// comes out the same.
#[derive(Debug)]
pub(super) struct Budget {
    looks: usize,
    bytes: u64,
}

/// What one ignored file or folder may use, and has.
#[derive(Debug)]
pub(super) struct Share<'b> {
    budget: &'b mut Budget,
    entries: usize,
    bytes: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { looks: SNAPSHOT_IGNORED_LOOKS, bytes: SNAPSHOT_IGNORED_TOTAL_BYTES }
    }

    pub(super) fn share(&mut self) -> Share<'_> {
        Share { budget: self, entries: 0, bytes: 0 }
    }
}

impl Share<'_> {
    /// Looks at another entry of this size; false if that is too much.
    #[must_use]
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let left = self.budget.looks > 0;
        self.budget.looks = self.budget.looks.saturating_sub(1);
        left && self.entries <= SNAPSHOT_IGNORED_ENTRIES
            && self.bytes <= SNAPSHOT_IGNORED_BYTES
            && self.bytes <= self.budget.bytes
    }

    /// It is covered.
    pub(super) fn keep(self) {
        self.budget.bytes -= self.bytes;
    }
}
