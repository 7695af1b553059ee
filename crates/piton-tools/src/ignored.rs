//! Which files are ignored: by `.gitignore` files, by a repository's `info/exclude`, and in searches by `.ignore` files.
//!
//! Every such file is read here and by nobody else: a repository may hold one that is a pipe or leads to `/dev/zero`. What
//! a person ignores everywhere does not count, it would need their configuration.

use crate::regular;
use crate::repository::Repository;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::Path;
use std::sync::Arc;

/// The files of patterns that count in a folder: its own and those above it.
#[derive(Debug, Clone, Default)]
pub struct Rules(Option<Arc<Layer>>);

#[derive(Debug)]
struct Layer {
    own: Gitignore,
    above: Rules,
}

impl Rules {
    /// The rules above a workspace: those of the repository it lies in.
    pub(crate) fn above(workspace: &Path) -> Self {
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
    pub(crate) fn with(self, folder: &Path, file: &Path) -> Self {
        /// What is longer is no list of patterns.
        const MOST_BYTES: usize = 1 << 20;
        match regular::whole_unlinked(file, MOST_BYTES) {
            Ok(patterns) => self.and(folder, &patterns),
            Err(_) => self,
        }
    }

    /// With these patterns, which count below `folder`.
    pub fn and(self, folder: &Path, patterns: &[u8]) -> Self {
        let mut builder = GitignoreBuilder::new(folder);
        for line in String::from_utf8_lossy(patterns).trim_start_matches('\u{feff}').lines() {
            // A pattern that is none is passed over, as git does.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Self(Some(Arc::new(Layer { own, above: self }))),
            Ok(_) | Err(_) => self,
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the nearest rule that says something about the path ignores it.
    pub fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        self.says(path, is_folder).unwrap_or(false)
    }

    /// Whether the nearest rule that says something about the path ignores it; `None` where none does.
    fn says(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let mut rules = self;
        while let Some(layer) = &rules.0 {
            match layer.own.matched(path, is_folder) {
                Match::Ignore(_) => return Some(true),
                Match::Whitelist(_) => return Some(false),
                Match::None => rules = &layer.above,
            }
        }
        None
    }
}

/// Whether a path of a workspace is ignored, or a folder that it lies in.
pub(crate) fn is_ignored(workspace: &Path, path: &Path) -> bool {
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

/// The rules of a search: git's, and before them those of `.ignore` files.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchRules {
    git: Rules,
    search: Rules,
}

impl SearchRules {
    /// The rules above a folder. Those of git count without a repository, too, but end where another one begins.
    pub(crate) fn above(folder: &Path) -> Self {
        let mut above: Vec<&Path> = folder.ancestors().skip(1).collect();
        above.reverse();
        above.into_iter().fold(Self::default(), Self::within)
    }

    /// With the rules of a folder itself.
    pub(crate) fn within(self, folder: &Path) -> Self {
        let git = match Repository::at(folder) {
            Some(repository) => Rules::default().with(folder, &repository.common.join("info/exclude")),
            None => self.git,
        };
        Self {
            git: git.with(folder, &folder.join(".gitignore")),
            search: self.search.with(folder, &folder.join(".ignore")),
        }
    }

    /// Whether a file or folder is passed over.
    pub(crate) fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        self.search.says(path, is_folder).unwrap_or_else(|| self.git.ignore(path, is_folder))
    }
}
