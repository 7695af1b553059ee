//! The objects that the user's repository has already: they are taken over as hard links, so the first snapshot of a
//! large repository stores next to nothing, and no `git gc` of the user's can take anything from a snapshot.
//!
//! The repository is only looked at: no git runs in it, its configuration is not read, and what its index says is not
//! believed. A file is known by its content, so whatever a filter made of it on its way into the repository, the file
//! comes back as it was.

use super::object::Oid;
use super::store::Store;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the user's objects are: the repository's, and what it borrows from others.
#[derive(Debug, Default)]
pub(super) struct Seed {
    folders: Vec<PathBuf>,
}

impl Seed {
    /// Links the packs of the workspace's repository into the store. Where there is no repository, or it lies on
    /// another file system, the seed is empty and the store gets its own copies.
    pub(super) fn plant(store: &Store, workspace: &Path) -> Self {
        let mut folders = Vec::new();
        if let Some(objects) = objects_of(workspace) {
            with_borrowed(&objects, &mut folders);
        }
        folders.retain(|folder| link_packs(folder, &store.path("objects/pack")));
        Self { folders }
    }

    /// Takes the object over if the user has it.
    pub(super) fn give(&self, store: &Store, oid: Oid) -> bool {
        self.folders.iter().any(|folder| store.link(oid, folder))
    }
}

/// The repository around a folder: where its own files are (for a worktree) and where its shared ones are.
pub(super) struct Repository {
    /// The topmost folder of its files.
    pub(super) root: PathBuf,
    /// `.git`, or what a worktree's or submodule's `.git` file points at, or the repository this one is a worktree of.
    pub(super) common: PathBuf,
}

impl Repository {
    /// The nearest one at or above the folder.
    pub(super) fn around(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(|root| Some(Self { root: root.to_owned(), common: common(root)? }))
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

fn objects_of(workspace: &Path) -> Option<PathBuf> {
    Repository::around(workspace).map(|repository| repository.common.join("objects"))
}

/// The only line of a small file, or the first.
fn line_of(path: &Path) -> Option<String> {
    /// Longer than any path.
    const MOST_BYTES: u64 = 8 << 10;
    if fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len() > MOST_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

fn with_borrowed(objects: &Path, folders: &mut Vec<PathBuf>) {
    /// As many as git follows.
    const MOST: usize = 6;
    if folders.iter().any(|folder| folder == objects) || folders.len() >= MOST || !objects.is_dir() {
        return;
    }
    let borrowed = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
    folders.push(objects.to_owned());
    for line in borrowed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        with_borrowed(&objects.join(line), folders);
    }
}

/// Whether this could be done.
fn link_packs(objects: &Path, into: &Path) -> bool {
    let Ok(entries) = fs::read_dir(objects.join("pack")) else { return true };
    for index in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let pack = index.with_extension("pack");
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        if index.extension().is_none_or(|extension| extension != "idx") || !is_file(&index) || !is_file(&pack) {
            continue;
        }
        // The index last: a pack counts when its index is there.
        for file in [&pack, &index] {
            let linked = file.file_name().map(|name| fs::hard_link(file, into.join(name)));
            match linked {
                Some(Err(error)) if error.kind() != std::io::ErrorKind::AlreadyExists => return false,
                Some(_) | None => {}
            }
        }
    }
    true
}
