//! The files of this machine's disk.
//!
//! Before a change an intent is written beside the session's calls: the hash of the file as it was and as it is to be. After
//! a crash the file's own hash tells whether the change happened.

mod atomic;
mod confined;
mod folder;

pub use confined::ConfinedDisk;
pub use folder::{Opened, there};

use crate::files::{Files, Found, Replacement, Stamp, Visit};
use crate::ledger::hash_of;
use crate::private;
use crate::regular;
use crate::walk;
use piton_core::ids::CallId;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

/// The disk, as one session changes it.
#[derive(Debug, Clone)]
pub struct Disk {
    calls_dir: PathBuf,
}

impl Disk {
    /// The disk for a session whose calls keep their intents in this folder.
    pub fn new(calls_dir: PathBuf) -> Self {
        Self { calls_dir }
    }

    /// The disk for whoever only reads.
    pub fn to_read() -> Self {
        Self::new(PathBuf::new())
    }

    fn intent(&self, call: &CallId) -> PathBuf {
        self.calls_dir.join(format!("{call}.intent"))
    }

    /// Names a call among all sessions: call ids alone repeat.
    fn key(&self, call: &CallId) -> String {
        let mut key = hash_of(self.intent(call).as_os_str().as_encoded_bytes());
        key.truncate(12);
        key
    }

    /// Puts a new content at a path that is resolved, or removes what is there. No link is followed that came to that path since.
    fn put_at(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        let name = change.path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let above = change.path.parent().unwrap_or(Path::new("/"));
        match content {
            Some(content) => {
                atomic::replace(&folder::made(above)?.path().join(name), content, &self.key(call), change.rights)
            }
            None => match folder::there(above) {
                Ok(folder) => atomic::remove(&folder.path().join(name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            },
        }
    }
}

/// An intent as it is kept: those of earlier versions are of one file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Intent {
    Several(Vec<Replacement>),
    One(Replacement),
}

impl Files for Disk {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        real(path)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        match fs::metadata(path) {
            Ok(meta) => Ok(Some(Found::of(&meta))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(regular::open(path)?))
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let meta = fs::metadata(path).ok()?;
        let changed = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Stamp { bytes: meta.len(), version: changed.as_nanos() })
    }

    fn walk(&self, folder: &Path, visit: &mut Visit<'_>) {
        walk::in_order(folder, visit);
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        let named = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let found = fs::metadata(entry.path()).map_or(Found::Other, |meta| Found::of(&meta));
            Ok((entry.file_name().to_string_lossy().into_owned(), found))
        };
        fs::read_dir(folder)?.take(most).map(named).collect()
    }

    fn other_names(&self, path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).map_or(0, |meta| if meta.is_file() { meta.nlink().saturating_sub(1) } else { 0 })
    }

    fn rights(&self, path: &Path) -> Option<u32> {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|meta| meta.mode() & atomic::RIGHTS)
    }

    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()> {
        private::make_folder(&self.calls_dir)?;
        let mut file = private::create(&self.intent(call))?;
        file.write_all(&serde_json::to_vec(changes)?)?;
        file.sync_all()?;
        File::open(&self.calls_dir)?.sync_all()
    }

    fn put(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        self.put_at(call, change, content)
    }

    fn begun(&self, call: &CallId) -> Vec<Replacement> {
        // An intent that is missing or cut short was never durable, and the change comes after that.
        let Ok(intent) = fs::read(self.intent(call)) else { return Vec::new() };
        let changes: Vec<Replacement> = match serde_json::from_slice(&intent) {
            Ok(Intent::Several(changes)) => changes,
            Ok(Intent::One(change)) => vec![change],
            Err(_) => Vec::new(),
        };
        for change in &changes {
            // If it stays, the change itself is none the worse.
            let folder = change.path.parent().map_or_else(|| folder::there(Path::new("/")), folder::there);
            let _ = folder.and_then(|folder| atomic::clear(&folder.path().join("it"), &self.key(call)));
        }
        changes
    }
}

fn real(path: &Path) -> io::Result<PathBuf> {
    /// As many links in a row as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match std::fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return missing(&path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Where a file that does not exist would be: what exists of its path, then the rest.
fn missing(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(last)) = (path.parent(), path.components().next_back()) else {
        return Ok(path.to_path_buf());
    };
    let mut folder = real(parent)?;
    match last {
        Component::Normal(name) => folder.push(name),
        Component::ParentDir => drop(folder.pop()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
    }
    Ok(folder)
}
