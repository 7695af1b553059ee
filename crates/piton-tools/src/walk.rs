//! Walking a workspace as ripgrep does: `.gitignore` counts, in and out of repositories; hidden files are seen, `.git` is
//! not. The walker of the `ignore` crate is used for its threads only: files of patterns are read by [`crate::ignored`].

use crate::files::{Found, Next, Visit};
use crate::ignored::SearchRules;
use ignore::{WalkBuilder, WalkParallel};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Everything below `root` that is not ignored, by several threads and in no order.
pub(crate) fn parallel(root: &Path) -> WalkParallel {
    /// Walking waits for the disk more than it computes; more threads only get into each other's way.
    const MOST_THREADS: usize = 4;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let rules = FolderRules::below(root);
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).threads(threads);
    walk.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !(is_gits(entry.file_name()) || rules.ignore(entry.path(), is_folder))
    });
    walk.build_parallel()
}

/// The rules of the folders that were come by.
struct FolderRules {
    root: PathBuf,
    above: SearchRules,
    known: Mutex<HashMap<PathBuf, SearchRules>>,
}

impl FolderRules {
    fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), above: SearchRules::above(root), known: Mutex::default() }
    }

    fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        path.parent().is_some_and(|folder| self.of(folder).ignore(path, is_folder))
    }

    fn of(&self, folder: &Path) -> SearchRules {
        if let Some(rules) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(folder) {
            return rules.clone();
        }
        // Not under the lock: another thread may do the same, which is no harm.
        let above = match folder.parent() {
            Some(parent) if folder != self.root => self.of(parent),
            Some(_) | None => self.above.clone(),
        };
        let rules = above.within(folder);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned(), rules.clone());
        rules
    }
}

/// See [`crate::files::Files::walk`].
pub(crate) fn in_order(folder: &Path, visit: &mut Visit<'_>) {
    let rules = SearchRules::above(folder).within(folder);
    let mut open = match names(folder) {
        Ok(names) => vec![(names, rules)],
        Err(error) => {
            visit(Err(error));
            return;
        }
    };
    while let Some((names, rules)) = open.last_mut() {
        let Some(entry) = names.next() else {
            open.pop();
            continue;
        };
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if rules.ignore(&path, is_folder) {
            continue;
        }
        let found = match fs::metadata(&path) {
            // A folder behind a link is somewhere else.
            Ok(meta) if meta.is_dir() && !is_folder => Found::Other,
            Ok(meta) => Found::of(&meta),
            Err(_) => Found::Other,
        };
        match visit(Ok((&path, found))) {
            Next::GoOn if is_folder => {}
            Next::GoOn | Next::PassOver => continue,
            Next::Stop => return,
        }
        let inner = rules.clone().within(&path);
        match names_of(&path, visit) {
            Ok(names) => open.push((names, inner)),
            Err(Next::Stop) => return,
            Err(Next::GoOn | Next::PassOver) => {}
        }
    }
}

fn names_of(folder: &Path, visit: &mut Visit<'_>) -> Result<std::vec::IntoIter<DirEntry>, Next> {
    names(folder).map_err(|error| visit(Err(error)))
}

/// What is in a folder, by name.
fn names(folder: &Path) -> io::Result<std::vec::IntoIter<DirEntry>> {
    let mut names: Vec<DirEntry> =
        fs::read_dir(folder)?.flatten().filter(|entry| !is_gits(&entry.file_name())).collect();
    names.sort_by_key(DirEntry::file_name);
    Ok(names.into_iter())
}

fn is_gits(name: &OsStr) -> bool {
    name == ".git"
}
