//! What the last snapshot saw of each file, so that the next one reads only what changed: git's index, for our purposes.
//!
//! A file whose stamp is the same has the same content. The stamp has the time of change (ctime), which no program can
//! set, and a file that changed just before it was looked at is left out, so that a second change within the clock's
//! tick is not overlooked. The cache is a cache: where it is damaged or gone, everything is read again.

use super::EntryKind;
use super::SnapshotError;
use super::entry::{Folder, Stamp};
use super::object::{Oid, TreeId};
use super::store::{Store, store_error};
use crate::private;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, SystemTime};

const MAGIC: &[u8] = b"piton snapshot cache 1\n";
const HASH: usize = blake3::OUT_LEN;

/// The cache as it lies on the disk, and where in it each folder is.
#[derive(Debug, Default)]
pub(super) struct Cache {
    bytes: Vec<u8>,
    folders: HashMap<Vec<u8>, CachedFolder>,
    root: Option<Oid>,
    files: usize,
}

#[derive(Debug, Clone, Copy)]
struct CachedFolder {
    tree: Oid,
    start: usize,
    end: usize,
}

/// A file or link that was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedFile<'c> {
    pub(super) name: &'c [u8],
    pub(super) stamp: Stamp,
    pub(super) oid: Oid,
}

impl Cache {
    /// The store's cache; empty if there is none that can be used.
    pub(super) fn load(store: &Store) -> Self {
        fs::read(store.path("cache")).ok().and_then(Self::parse).unwrap_or_default()
    }

    /// The snapshot that it was written after: all that it names is in there.
    pub(super) fn root(&self) -> Option<TreeId> {
        self.root.map(TreeId)
    }

    /// How many files and links it knows.
    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// The object of a folder.
    pub(super) fn tree(&self, path: &[u8]) -> Option<Oid> {
        self.folders.get(path).map(|folder| folder.tree)
    }

    /// The files of a folder, sorted by name.
    pub(super) fn files_in(&self, path: &[u8]) -> impl Iterator<Item = CachedFile<'_>> {
        let found = self.folders.get(path);
        let mut reader = Reader(found.map_or(&[], |folder| &self.bytes[folder.start..folder.end]));
        std::iter::from_fn(move || reader.file())
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let (hash, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(HASH)?;
        if blake3::hash(body).as_bytes() != hash {
            return None;
        }
        let mut reader = Reader(body);
        let root = Some(reader.oid()?);
        let (mut folders, mut files) = (HashMap::new(), 0);
        while !reader.0.is_empty() {
            let length = reader.u32()? as usize;
            let path = reader.take(length)?.to_vec();
            let tree = reader.oid()?;
            files += reader.u32()? as usize;
            let length = reader.u32()? as usize;
            let start = bytes.len() - reader.0.len();
            reader.take(length)?;
            folders.insert(path, CachedFolder { tree, start, end: start + length });
        }
        Some(Self { bytes, folders, root, files })
    }

    /// Writes what was seen at a snapshot that began at `began`, for the next one.
    pub(super) fn save(
        store: &Store,
        root: TreeId,
        began: SystemTime,
        folders: &[(&Folder, Oid)],
    ) -> Result<(), SnapshotError> {
        let mut body = root.0.0.to_vec();
        for (folder, tree) in folders {
            let mut files = Vec::new();
            let mut count: u32 = 0;
            for item in &folder.items {
                let Some(stamp) = item.stamp.filter(|stamp| stamp.is_settled(began)) else { continue };
                if item.node.kind == EntryKind::NotCovered {
                    continue;
                }
                write_file(&mut files, &item.name, &stamp, item.node.oid);
                count += 1;
            }
            body.extend((folder.path.len() as u32).to_le_bytes());
            body.extend(&folder.path);
            body.extend(tree.0);
            body.extend(count.to_le_bytes());
            body.extend((files.len() as u32).to_le_bytes());
            body.extend(files);
        }
        let hash = blake3::hash(&body);
        let (unfinished, path) = (store.path("cache.new"), store.path("cache"));
        let written = private::write(&unfinished, &[MAGIC, hash.as_bytes(), &body].concat());
        written.and_then(|()| fs::rename(&unfinished, &path)).map_err(store_error(&path))
    }
}

impl Stamp {
    /// Whether a change after `began` would show: the file's last one was clearly before.
    fn is_settled(&self, began: SystemTime) -> bool {
        /// The kernel's clock for files may lag this much.
        const TICK: Duration = Duration::from_millis(20);
        /// Some file systems count in whole seconds, or in two.
        const COARSE_TICK: Duration = Duration::from_secs(3);
        let (seconds, nanos) = self.changed;
        let tick = if nanos == 0 { COARSE_TICK } else { TICK };
        let Ok(seconds) = u64::try_from(seconds) else { return true };
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) + tick < began
    }
}

fn write_file(bytes: &mut Vec<u8>, name: &[u8], stamp: &Stamp, oid: Oid) {
    bytes.extend((name.len() as u32).to_le_bytes());
    bytes.extend(name);
    bytes.push(u8::from(stamp.kind == EntryKind::Link));
    bytes.extend(stamp.permissions.to_le_bytes());
    bytes.extend(stamp.bytes.to_le_bytes());
    bytes.extend(stamp.inode.to_le_bytes());
    for (seconds, nanos) in [stamp.modified, stamp.changed] {
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanos.to_le_bytes());
    }
    bytes.extend(oid.0);
}

/// Takes numbers and names off the front; `None` where there is not enough.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn time(&mut self) -> Option<(i64, u32)> {
        Some((i64::from_le_bytes(self.array()?), self.u32()?))
    }

    fn oid(&mut self) -> Option<Oid> {
        self.array().map(Oid)
    }

    fn file(&mut self) -> Option<CachedFile<'b>> {
        let length = self.u32()? as usize;
        let name = self.take(length)?;
        let kind = if self.array()? == [0] { EntryKind::File } else { EntryKind::Link };
        let permissions = self.u32()?;
        let bytes = u64::from_le_bytes(self.array()?);
        let inode = u64::from_le_bytes(self.array()?);
        let (modified, changed) = (self.time()?, self.time()?);
        let stamp = Stamp { kind, permissions, bytes, inode, modified, changed };
        Some(CachedFile { name, stamp, oid: self.oid()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_cache_is_no_cache() {
        let mut bytes = [MAGIC, blake3::hash(&[7; 20]).as_bytes(), &[7; 20]].concat();
        assert_eq!(Cache::parse(bytes.clone()).and_then(|cache| cache.root), Some(Oid([7; 20])));
        *bytes.last_mut().unwrap() = 8;
        assert!(Cache::parse(bytes).is_none());
        assert!(Cache::parse(b"".to_vec()).is_none());
        assert!(Cache::parse(MAGIC.to_vec()).is_none());
    }

    #[test]
    fn a_file_that_changed_just_now_is_not_trusted() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_millis(10_500);
        let at = |seconds, nanos| Stamp {
            kind: EntryKind::File,
            permissions: 0o644,
            bytes: 1,
            inode: 1,
            modified: (0, 0),
            changed: (seconds, nanos),
        };
        assert!(at(10, 1).is_settled(began));
        assert!(!at(10, 490_000_000).is_settled(began));
        assert!(!at(11, 1).is_settled(began), "the clock may have been set back");
        assert!(!at(10, 0).is_settled(began), "perhaps the file system counts seconds");
        assert!(at(5, 0).is_settled(began));
    }
}
