//! The objects that the user's repository has already: they are taken over as hard links, so the first snapshot of a
//! large repository stores next to nothing, and no `git gc` of the user's can take anything from a snapshot.
//!
//! The repository is only looked at: no git runs in it, its configuration is not read, and what its index says is not
//! believed. A file is known by its content, so whatever a filter made of it on its way into the repository, the file
//! comes back as it was.

use super::object::Oid;
use super::store::Store;
use crate::regular;
use crate::repository::Repository;
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

fn objects_of(workspace: &Path) -> Option<PathBuf> {
    Repository::around(workspace).map(|repository| repository.common.join("objects"))
}

fn with_borrowed(objects: &Path, folders: &mut Vec<PathBuf>) {
    /// As many as git follows.
    const MOST: usize = 6;
    /// More than the paths of so many.
    const MOST_BYTES: usize = 64 << 10;
    if folders.iter().any(|folder| folder == objects) || folders.len() >= MOST || !objects.is_dir() {
        return;
    }
    let borrowed = regular::text(&objects.join("info/alternates"), MOST_BYTES).unwrap_or_default();
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
