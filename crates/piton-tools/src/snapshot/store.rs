//! A store's folder: objects as git lays them out, and the lock around them.
//!
//! ```text
//!   lock         whoever changes the store holds it alone, whoever reads it holds it with others
//!   objects/     ab/cdef… one object a file, and pack/ with the packs taken over from the user's repository
//!   incoming/    objects that are not on the disk yet
//!   cache        what the last snapshot saw of each file (see `cache`)
//!   live/        what the processes that are running have taken (see `prune`)
//!   repository   the workspace had a `.git` when a snapshot was taken
//!   HEAD, config, refs/   so that git takes it for a repository
//! ```
//!
//! An object gets its name only when it is safely on the disk: a name that is there can be relied on after a power cut.
//! What is read is hashed again, so a damaged object is an error and never a wrong file.

use super::SnapshotError;
use super::git::CatFile;
use super::object::{Entry, ObjectKind, Oid, TreeId, read_tree};
use super::pack::PackIndex;
use crate::limits::SNAPSHOT_OBJECT_BYTES;
use crate::private;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rustix::fs::{FlockOperation, flock, syncfs};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What a store is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Others may read at the same time.
    Read,
    /// Nobody else is there.
    Change,
}

/// A store, held until it is dropped.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    git: Option<PathBuf>,
    packs: OnceLock<Vec<PackIndex>>,
    /// Git, once an object of a pack was asked for.
    reader: Mutex<Option<CatFile>>,
    /// Objects that have no name yet, and where they are.
    incoming: Mutex<HashMap<Oid, PathBuf>>,
    _lock: File,
}

impl Store {
    /// Makes the folder if it is not there.
    pub(super) fn create(root: &Path) -> Result<(), SnapshotError> {
        // What lies here is what lies in the workspace: not for others to read.
        let make = |name: &str| {
            let folder = root.join(name);
            private::make_folder(&folder).map_err(store_error(&folder))
        };
        ["objects/pack", "incoming", "live", "refs"].into_iter().try_for_each(make)?;
        for (name, text) in [("HEAD", "ref: refs/heads/none\n"), ("config", CONFIG)] {
            let path = root.join(name);
            if !path.exists() {
                private::write(&path, text.as_bytes()).map_err(store_error(&path))?;
            }
        }
        Ok(())
    }

    /// Waits until the store is free for this.
    pub(super) fn hold(root: &Path, git: Option<&Path>, hold: Hold) -> Result<Self, SnapshotError> {
        let path = root.join("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(store_error(&path))?;
        let operation = match hold {
            Hold::Read => FlockOperation::LockShared,
            Hold::Change => FlockOperation::LockExclusive,
        };
        rustix::io::retry_on_intr(|| flock(&lock, operation)).map_err(|error| store_error(&path)(error.into()))?;
        let store = Self {
            root: root.to_owned(),
            git: git.map(Path::to_owned),
            packs: OnceLock::new(),
            reader: Mutex::default(),
            incoming: Mutex::default(),
            _lock: lock,
        };
        if hold == Hold::Change {
            store.drop_unnamed()?;
        }
        Ok(store)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Keeps in mind that the workspace has a `.git`, which no snapshot covers.
    pub(super) fn note_repository(&self) -> Result<(), SnapshotError> {
        let path = self.path("repository");
        if path.exists() { Ok(()) } else { private::write(&path, b"").map_err(store_error(&path)) }
    }

    /// Whether the workspace had a `.git` when a snapshot was taken.
    pub(super) fn had_repository(&self) -> bool {
        self.path("repository").exists()
    }

    pub(super) fn forget_repository(&self) {
        // Otherwise it is said again.
        let _ = fs::remove_file(self.path("repository"));
    }

    /// Whether the object can be had from here.
    pub(super) fn has(&self, oid: Oid) -> bool {
        lock(&self.incoming).contains_key(&oid) || self.loose(oid).exists() || self.has_packed(oid)
    }

    fn has_packed(&self, oid: Oid) -> bool {
        self.packs().iter().any(|pack| pack.has(oid))
    }

    /// The packs that were taken over, none where there is no git to read them.
    pub(super) fn packs(&self) -> &[PackIndex] {
        self.packs.get_or_init(|| match self.git {
            Some(_) => PackIndex::all_in(&self.path("objects/pack")),
            None => Vec::new(),
        })
    }

    /// Where an object lies that is not in a pack.
    pub(super) fn loose(&self, oid: Oid) -> PathBuf {
        let (folder, file) = oid.folder_and_file();
        self.root.join("objects").join(folder).join(file)
    }

    /// Keeps an object from [`Store::commit`] on.
    pub(super) fn put(&self, oid: Oid, kind: ObjectKind, content: &[u8]) -> Result<(), SnapshotError> {
        if self.has(oid) { Ok(()) } else { self.put_loose(oid, kind, content) }
    }

    /// The same, even if the object is in a pack.
    pub(super) fn put_loose(&self, oid: Oid, kind: ObjectKind, content: &[u8]) -> Result<(), SnapshotError> {
        // Two threads may bring the same object; both write the same to a place of their own.
        let thread = format!("{:?}", std::thread::current().id());
        let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
        let path = self.root.join("incoming").join(format!("{oid}.{digits}"));
        write_object(&path, kind, content).map_err(store_error(&path))?;
        lock(&self.incoming).insert(oid, path);
        Ok(())
    }

    /// Takes an object over from another repository on the same file system, if it has it.
    pub(super) fn link(&self, oid: Oid, objects: &Path) -> bool {
        let (folder, file) = oid.folder_and_file();
        let theirs = objects.join(&folder).join(file);
        // An empty file is what a power cut may have left there.
        if !fs::symlink_metadata(&theirs).is_ok_and(|theirs| theirs.is_file() && theirs.len() > 0) {
            return false;
        }
        let _ = private::make_folder(&self.path("objects").join(folder));
        fs::hard_link(theirs, self.loose(oid)).is_ok()
    }

    /// Gives what was put its names, once it is on the disk.
    pub(super) fn commit(&self) -> Result<(), SnapshotError> {
        /// With more files than this, one sync of the whole file system is quicker.
        const FEW: usize = 64;
        let incoming = std::mem::take(&mut *lock(&self.incoming));
        let few = incoming.len() <= FEW;
        if incoming.is_empty() {
            return Ok(());
        }
        if few {
            incoming.values().try_for_each(|path| sync(path))?;
        } else {
            self.sync_everything()?;
        }
        let mut folders = BTreeSet::new();
        for (oid, path) in incoming {
            let named = self.loose(oid);
            let folder = named.parent().unwrap_or(&self.root).to_owned();
            if folders.insert(folder.clone()) {
                private::make_folder(&folder).map_err(store_error(&folder))?;
            }
            fs::rename(&path, &named).map_err(store_error(&named))?;
        }
        if few { folders.iter().try_for_each(|folder| sync(folder)) } else { self.sync_everything() }
    }

    /// The content of an object.
    pub(super) fn get(&self, oid: Oid, kind: ObjectKind) -> Result<Vec<u8>, SnapshotError> {
        let content = match read_object(&self.loose(oid), kind) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.has_packed(oid) => self.get_packed(oid, kind),
            other => other,
        };
        let content = content.map_err(|source| SnapshotError::Damaged { object: oid.to_string(), source })?;
        if Oid::of(kind, &content) == oid {
            return Ok(content);
        }
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not what its name says");
        Err(SnapshotError::Damaged { object: oid.to_string(), source })
    }

    /// The entries of a folder, sorted by name.
    pub(super) fn tree(&self, oid: Oid) -> Result<Vec<Entry>, SnapshotError> {
        let entries = read_tree(&self.get(oid, ObjectKind::Tree)?);
        entries.ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidData, "it is not a folder");
            SnapshotError::Damaged { object: oid.to_string(), source }
        })
    }

    /// The entries of a snapshot's uppermost folder.
    pub(super) fn root_tree(&self, id: TreeId) -> Result<Vec<Entry>, SnapshotError> {
        if self.has(id.0) { self.tree(id.0) } else { Err(SnapshotError::Unknown(id)) }
    }

    fn get_packed(&self, oid: Oid, kind: ObjectKind) -> io::Result<Vec<u8>> {
        let mut reader = lock(&self.reader);
        let git = self.git.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let mut open = match reader.take() {
            Some(open) => open,
            None => CatFile::start(git, &self.root)?,
        };
        let content = open.read(oid, kind)?;
        // Only a reader that answered is asked again.
        *reader = Some(open);
        Ok(content)
    }

    /// Removes what a process that died had not given a name.
    fn drop_unnamed(&self) -> Result<(), SnapshotError> {
        let folder = self.path("incoming");
        for entry in fs::read_dir(&folder).map_err(store_error(&folder))? {
            let path = entry.map_err(store_error(&folder))?.path();
            fs::remove_file(&path).map_err(store_error(&path))?;
        }
        Ok(())
    }

    fn sync_everything(&self) -> Result<(), SnapshotError> {
        let folder = File::open(&self.root).map_err(store_error(&self.root))?;
        syncfs(&folder).map_err(|error| store_error(&self.root)(error.into()))
    }
}

/// Enough for git to take the folder for a repository.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";

/// Says what could not be done with the store's files.
pub(super) fn store_error(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError + '_ {
    |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SnapshotError::StoreFull { path: path.to_owned(), source }
        }
        _ => SnapshotError::Store { path: path.to_owned(), source },
    }
}

fn sync(path: &Path) -> Result<(), SnapshotError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(store_error(path))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change under these locks is one call, so what a panic left is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_object(path: &Path, kind: ObjectKind, content: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o400).open(path)?;
    // In one write, which is all that most objects need.
    let mut packed = ZlibEncoder::new(Vec::with_capacity(content.len() / 2 + 64), Compression::fast());
    packed.write_all(kind.header(content.len()).as_bytes())?;
    packed.write_all(content)?;
    (&file).write_all(&packed.finish()?)
}

fn read_object(path: &Path, kind: ObjectKind) -> io::Result<Vec<u8>> {
    let mut object = Vec::new();
    ZlibDecoder::new(File::open(path)?).take(SNAPSHOT_OBJECT_BYTES).read_to_end(&mut object)?;
    let start = memchr::memchr(0, &object).map_or(0, |end| end + 1);
    if object[..start] != *kind.header(object.len() - start).as_bytes() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not begin as an object does"));
    }
    object.drain(..start);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(root: &Path) -> Store {
        Store::create(root).unwrap();
        Store::hold(root, None, Hold::Change).unwrap()
    }

    #[test]
    fn an_object_has_no_name_before_it_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let oid = Oid::of(ObjectKind::Blob, b"text");
        let first = store(folder.path());
        first.put(oid, ObjectKind::Blob, b"text").unwrap();
        assert!(!first.loose(oid).exists());
        drop(first);
        let second = store(folder.path());
        assert!(!second.has(oid), "what a dead process left does not count");
        second.put(oid, ObjectKind::Blob, b"text").unwrap();
        second.commit().unwrap();
        assert_eq!(second.get(oid, ObjectKind::Blob).unwrap(), b"text");
    }

    #[test]
    fn a_damaged_object_is_an_error_and_never_a_wrong_content() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let (right, other) = (Oid::of(ObjectKind::Blob, b"right"), Oid::of(ObjectKind::Blob, b"other"));
        store.put(other, ObjectKind::Blob, b"other").unwrap();
        store.commit().unwrap();
        fs::create_dir_all(store.loose(right).parent().unwrap()).unwrap();
        fs::copy(store.loose(other), store.loose(right)).unwrap();
        assert!(matches!(store.get(right, ObjectKind::Blob), Err(SnapshotError::Damaged { .. })));
        fs::remove_file(store.loose(other)).unwrap();
        fs::write(store.loose(other), "").unwrap();
        assert!(matches!(store.get(other, ObjectKind::Blob), Err(SnapshotError::Damaged { .. })));
    }

    #[test]
    fn a_full_disk_is_said_to_be_one() {
        for (kind, full) in
            [(io::ErrorKind::StorageFull, true), (io::ErrorKind::QuotaExceeded, true), (io::ErrorKind::NotFound, false)]
        {
            let error = store_error(Path::new("/store/objects"))(kind.into());
            assert_eq!(matches!(error, SnapshotError::StoreFull { .. }), full, "{error}");
        }
    }
}
