//! What a store keeps: the snapshots it is told to, the last one (the cache is about it), and those that others have
//! taken and perhaps not told anybody of yet.

use super::EntryKind;
use super::object::{ObjectKind, Oid, TreeId};
use super::pack::PackIndex;
use super::store::{Store, store_error};
use super::{Cache, SnapshotError};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How much room a store takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes on the disk that would be free without the store.
    pub own_bytes: u64,
    /// Bytes that the user's repository has too, so that they take no room of their own for now.
    pub shared_bytes: u64,
    /// Objects in files of their own.
    pub objects: usize,
}

/// The snapshots that were taken in one place, on record for as long as it is open.
#[derive(Debug, Default)]
pub(super) struct Live(Mutex<Option<(PathBuf, File)>>);

impl Live {
    /// Keeps a snapshot from being pruned until this is dropped.
    pub(super) fn note(&self, store: &Store, id: TreeId) -> Result<(), SnapshotError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = store.path("live");
        let failed = |error| store_error(&folder)(error);
        let (path, mut file) = match open.take() {
            Some(open) if open.0.exists() => open,
            Some(_) | None => new_record(&folder).map_err(failed)?,
        };
        // At once: a hash would be written byte by byte.
        let written = file.write_all(format!("{id}\n").as_bytes());
        *open = Some((path, file));
        written.map_err(|error| store_error(&folder)(error))
    }

    /// Whoever took them says from now on which ones are kept.
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A file with a name of its own, locked until it is closed. The store is held, so nobody else makes one just now.
fn new_record(folder: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0.. {
        let path = folder.join(format!("{}-{number}", std::process::id()));
        match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                return Ok((path, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// What living processes took. The records of dead ones are removed.
fn taken_by_the_living(store: &Store) -> Result<Vec<TreeId>, SnapshotError> {
    let mut taken = Vec::new();
    for path in files_in(&store.path("live"))? {
        let file = File::open(&path).map_err(store_error(&path))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_file(&path).map_err(store_error(&path))?;
            continue;
        }
        let ids = fs::read_to_string(&path).map_err(store_error(&path))?;
        taken.extend(ids.lines().filter_map(|id| id.parse::<TreeId>().ok()));
    }
    Ok(taken)
}

pub(super) fn prune(store: &Store, keep: &[TreeId], live: &Live) -> Result<Usage, SnapshotError> {
    let mut needed = HashSet::new();
    for id in keep {
        store.root_tree(*id)?;
    }
    live.forget();
    let living = taken_by_the_living(store)?;
    for id in keep.iter().copied().chain(living).chain(Cache::load(store).root()) {
        reach(store, id.0, &mut needed)?;
    }
    for pack in store.packs() {
        drop_pack(store, pack, &needed)?;
    }
    store.commit()?;
    for path in loose_objects(store)? {
        let oid = oid_of(&path);
        if oid
            .is_none_or(|oid| !needed.contains(&(oid, ObjectKind::Blob)) && !needed.contains(&(oid, ObjectKind::Tree)))
        {
            fs::remove_file(&path).map_err(store_error(&path))?;
        }
    }
    Usage::of(store)
}

/// Everything that a folder is made of.
fn reach(store: &Store, tree: Oid, needed: &mut HashSet<(Oid, ObjectKind)>) -> Result<(), SnapshotError> {
    if !needed.insert((tree, ObjectKind::Tree)) {
        return Ok(());
    }
    for entry in store.tree(tree)? {
        match entry.node.kind {
            EntryKind::Folder => reach(store, entry.node.oid, needed)?,
            EntryKind::File | EntryKind::Link => drop(needed.insert((entry.node.oid, ObjectKind::Blob))),
            EntryKind::NotCovered => {}
        }
    }
    Ok(())
}

/// Drops a pack from which nothing is needed; and one that the user's repository has dropped, after taking what is
/// needed out of it: as long as the user has it too, it takes no room.
fn drop_pack(store: &Store, index: &PackIndex, needed: &HashSet<(Oid, ObjectKind)>) -> Result<(), SnapshotError> {
    let pack = index.path.with_extension("pack");
    let shared = fs::metadata(&pack).map_err(store_error(&pack))?.nlink() > 1;
    let of_it: Vec<_> = needed.iter().filter(|(oid, _)| index.has(*oid) && !store.loose(*oid).exists()).collect();
    if shared && !of_it.is_empty() {
        return Ok(());
    }
    for (oid, kind) in of_it {
        let content = store.get(*oid, *kind)?;
        store.put_loose(*oid, *kind, &content)?;
    }
    store.commit()?;
    // The index first: a pack without one is not looked at.
    [&index.path, &pack].into_iter().try_for_each(|path| fs::remove_file(path).map_err(store_error(path)))
}

impl Usage {
    pub(super) fn of(store: &Store) -> Result<Self, SnapshotError> {
        let mut usage = Self::default();
        let objects = loose_objects(store)?;
        usage.objects = objects.len();
        let others = [files_in(&store.path("objects/pack"))?, files_in(&store.path(""))?].concat();
        for path in objects.into_iter().chain(others) {
            let found = fs::metadata(&path).map_err(store_error(&path))?;
            // A block has 512 bytes here, whatever the file system's have.
            let bytes = found.blocks() * 512;
            if found.nlink() > 1 { usage.shared_bytes += bytes } else { usage.own_bytes += bytes }
        }
        Ok(usage)
    }
}

/// The files of all objects that are not in packs.
fn loose_objects(store: &Store) -> Result<Vec<PathBuf>, SnapshotError> {
    let objects = store.path("objects");
    let mut found = Vec::new();
    for entry in fs::read_dir(&objects).map_err(store_error(&objects))? {
        let entry = entry.map_err(store_error(&objects))?;
        if entry.file_name().len() == 2 {
            found.extend(files_in(&entry.path())?);
        }
    }
    Ok(found)
}

fn oid_of(path: &Path) -> Option<Oid> {
    let (folder, file) = (path.parent()?.file_name()?, path.file_name()?);
    format!("{}{}", folder.to_str()?, file.to_str()?).parse().ok()
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(store_error(folder))? {
        let entry = entry.map_err(store_error(folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.push(entry.path());
        }
    }
    Ok(files)
}
