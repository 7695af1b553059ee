//! What every [`Files`] keeps, as one suite; and [`Memory`], which keeps it without a disk.

use piton_core::ids::CallId;
use piton_tools::files::{Files, Found, Replacement};
use piton_tools::ledger::hash_of;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs the whole suite in an empty folder. `restarted`: the same files, seen by the next process of the session. Panics
/// at the first promise that is not kept, and names it.
pub fn conforms(files: &dyn Files, restarted: &dyn Files, folder: &Path) {
    let (path, call) = (folder.join("a/b.txt"), CallId("c1_0".to_owned()));
    assert_eq!(files.look(&path).unwrap(), None, "nothing is there");
    assert_eq!(files.real(&folder.join("a/../a/./b.txt")).unwrap(), path, "a file that is not there has a name, too");
    assert_eq!(files.open(&path).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound), "and no content");
    assert_eq!(files.begun(&call), None, "nothing was begun");

    let first = change(&path, None, b"one\n");
    files.replace(&call, &first, b"one\n").unwrap();
    assert_eq!(content(files, &path), b"one\n", "a new file, with the folder that it needs");
    assert_eq!(files.look(&path).unwrap(), Some(Found::File { bytes: 4 }), "a file of four bytes");
    assert_eq!(files.look(&folder.join("a")).unwrap(), Some(Found::Folder), "in a folder");
    assert_eq!(restarted.begun(&call), Some(first), "what a call began is known to the next process");

    let second = change(&path, Some(b"one\n"), b"two, and longer\n");
    files.replace(&CallId("c1_1".to_owned()), &second, b"two, and longer\n").unwrap();
    assert_eq!(content(restarted, &path), b"two, and longer\n", "the new content in the place of the old, all of it");
    assert_eq!(hash_of(&content(files, &path)), second.after, "whose hash tells that the change happened");
    assert_eq!(restarted.begun(&CallId("c1_1".to_owned())), Some(second), "each call has its own");

    let aside = folder.join("c");
    files.replace(&CallId("c1_2".to_owned()), &change(&aside, None, b""), b"").unwrap();
    let mut listed = files.list(folder, 10).unwrap();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("a".to_owned(), Found::Folder), ("c".to_owned(), Found::File { bytes: 0 })];
    assert_eq!(listed, expected, "what is in a folder, and nothing that a change left behind");
    assert_eq!(files.list(folder, 1).unwrap().len(), 1, "no more than asked for");
    let on_a_folder = change(&folder.join("a"), None, b"no");
    files.replace(&CallId("c1_3".to_owned()), &on_a_folder, b"no").expect_err("a folder is no file");
    assert_eq!(content(files, &path), b"two, and longer\n", "a change that fails changes nothing");
}

fn change(path: &Path, before: Option<&[u8]>, after: &[u8]) -> Replacement {
    Replacement { path: path.to_path_buf(), before: before.map(hash_of), after: hash_of(after) }
}

fn content(files: &dyn Files, path: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    files.open(path).unwrap().read_to_end(&mut content).unwrap();
    content
}

/// Files without a disk, links or devices, as an editor's buffers are.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<PathBuf, Vec<u8>>,
    begun: HashMap<CallId, Replacement>,
}

impl Memory {
    /// Puts a file there.
    pub fn put(&self, path: &Path, content: &[u8]) {
        self.kept().files.insert(path.to_path_buf(), content.to_vec());
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn look(&self, path: &Path) -> Option<Found> {
        match self.files.get(path) {
            Some(content) => Some(Found::File { bytes: content.len() as u64 }),
            None => self.files.keys().any(|file| file.starts_with(path)).then_some(Found::Folder),
        }
    }
}

impl Files for Memory {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(real.pop()),
                Component::Normal(_) | Component::RootDir | Component::Prefix(_) => real.push(part),
            }
        }
        Ok(real)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        Ok(self.kept().look(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let content = self.kept().files.get(path).cloned();
        Ok(Box::new(Cursor::new(content.ok_or(io::ErrorKind::NotFound)?)))
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        let kept = self.kept();
        let below = kept.files.keys().filter_map(|file| file.strip_prefix(folder).ok()?.components().next());
        let names: BTreeSet<&Path> = below.map(|name| Path::new(name.as_os_str())).collect();
        let named = |name: &Path| Some((name.to_string_lossy().into_owned(), kept.look(&folder.join(name))?));
        Ok(names.into_iter().take(most).filter_map(named).collect())
    }

    fn replace(&self, call: &CallId, change: &Replacement, content: &[u8]) -> io::Result<()> {
        let mut kept = self.kept();
        if kept.look(&change.path) == Some(Found::Folder) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        kept.begun.insert(call.clone(), change.clone());
        kept.files.insert(change.path.clone(), content.to_vec());
        Ok(())
    }

    fn begun(&self, call: &CallId) -> Option<Replacement> {
        self.kept().begun.get(call).cloned()
    }
}
