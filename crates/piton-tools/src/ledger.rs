//! The ledger of files that the model has read or written, by the hash of their content.
//!
//! `edit` and `write` ask it before they change a file that exists, so that the model never overwrites content it
//! has not read, or that somebody has changed since. The hashes come back from the journal after a restart (see
//! [`FileLedger::restore`]); the contents, kept only to show what changed, do not.

use crate::files::{Files, Found, Stamp};
use crate::limits::{REMEMBERED_BYTES, REMEMBERED_FILE_BYTES, TRACKED_BYTES};
use crate::regular::Beginning;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Path by path, the state in which the model last saw a file. Paths are canonical.
#[derive(Debug, Default)]
pub struct FileLedger(Mutex<Known>);

/// What the ledger says about a file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// The model never saw it.
    Never,
    /// The model saw exactly this.
    AsItIs,
    /// The model saw something else.
    Changed {
        /// What it saw, if that is still known.
        before: Option<Arc<[u8]>>,
    },
}

/// A file that is not as the model saw it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalChange {
    /// The file.
    pub path: PathBuf,
    /// The hash of its content now; `None`: it is gone.
    pub hash: Option<String>,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<PathBuf, Entry>,
    /// Paths with content, the oldest first.
    order: VecDeque<PathBuf>,
    bytes: usize,
    /// By what was asked: the hash of the answer, and how often it has been given.
    answers: HashMap<String, (blake3::Hash, u32)>,
}

#[derive(Debug)]
struct Entry {
    hash: String,
    content: Option<Arc<[u8]>>,
    /// The file when its content was last found to be this.
    stamp: Option<Stamp>,
    /// What the model was last told that the file has become: a hash, or empty for gone.
    told: Option<String>,
}

impl FileLedger {
    /// The model has now seen this content, whose hash is `hash`.
    pub fn note(&self, path: &Path, hash: &str, content: Option<&[u8]>) {
        let content = content.filter(|content| content.len() <= REMEMBERED_FILE_BYTES).map(Arc::from);
        self.known().put(path, Entry { hash: hash.to_owned(), content, stamp: None, told: None });
    }

    /// The model had seen content of this hash, before a restart. Later calls win.
    pub fn restore(&self, path: &Path, hash: &str) {
        self.note(path, hash, None);
    }

    /// The model knows that the file is gone: it removed it itself.
    pub fn removed(&self, path: &Path) {
        self.known().take(path);
    }

    /// How often the model has now been given this answer to this question. An answer that differs counts from 1.
    pub fn times_answered(&self, question: &str, answer: &str) -> u32 {
        let hash = blake3::hash(answer.as_bytes());
        let mut known = self.known();
        let (known_hash, times) = known.answers.entry(question.to_owned()).or_insert((hash, 0));
        *times = if *known_hash == hash { *times + 1 } else { 1 };
        *known_hash = hash;
        *times
    }

    /// The model has seen nothing: what it saw was taken back.
    pub fn forget(&self) {
        *self.known() = Known::default();
    }

    /// How the file, whose content now has the hash `now`, compares with what the model saw.
    pub fn compare(&self, path: &Path, now: &str) -> FileState {
        match self.known().files.get(path) {
            None => FileState::Never,
            Some(entry) if entry.hash == now => FileState::AsItIs,
            Some(entry) => FileState::Changed { before: entry.content.clone() },
        }
    }

    /// The files that have changed since the model saw them, without those that it was told of already. By name.
    pub fn changes(&self, files: &dyn Files) -> Vec<ExternalChange> {
        let mut changes = Vec::new();
        for (path, entry) in &mut self.known().files {
            let now = files.stamp(path);
            if now.is_some() && now == entry.stamp {
                continue;
            }
            let most = usize::try_from(TRACKED_BYTES).unwrap_or(usize::MAX);
            let found = match files.look(path) {
                Ok(Some(Found::File { bytes })) if bytes <= TRACKED_BYTES => {
                    let content = files.beginning(path, most).ok().filter(Beginning::is_whole);
                    content.map(|content| hash_of(&content.bytes))
                }
                Ok(None) => Some(String::new()),
                // What cannot be looked at is not said to have changed.
                Ok(Some(_)) | Err(_) => None,
            };
            match found {
                Some(found) if found == entry.hash => entry.stamp = now,
                Some(found) if entry.told.as_ref() != Some(&found) => {
                    let hash = Some(found).filter(|found| !found.is_empty());
                    changes.push(ExternalChange { path: path.clone(), hash });
                }
                Some(_) | None => {}
            }
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }

    /// The model was told that a file has become this, or is gone. It has still not seen it.
    pub fn told(&self, path: &Path, hash: Option<&str>) {
        if let Some(entry) = self.known().files.get_mut(path) {
            entry.told = Some(hash.unwrap_or_default().to_owned());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is complete before anything can panic, so a poisoned ledger is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn take(&mut self, path: &Path) {
        if let Some(content) = self.files.remove(path).and_then(|old| old.content) {
            self.bytes -= content.len();
            self.order.retain(|known| known != path);
        }
    }

    fn put(&mut self, path: &Path, entry: Entry) {
        let size = entry.content.as_ref().map(|content| content.len());
        self.take(path);
        self.files.insert(path.to_path_buf(), entry);
        if let Some(size) = size {
            self.bytes += size;
            self.order.push_back(path.to_path_buf());
        }
        while self.bytes > REMEMBERED_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            let content = self.files.get_mut(&oldest).and_then(|entry| entry.content.take());
            self.bytes -= content.map_or(0, |content| content.len());
        }
    }
}

/// The hash by which contents are compared, as hex.
pub fn hash_of(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;

    #[test]
    fn a_file_is_known_as_it_was_seen_last() {
        let ledger = FileLedger::default();
        let path = Path::new("/w/a");
        assert_eq!(ledger.compare(path, "1"), FileState::Never);
        ledger.note(path, "1", Some(b"one"));
        assert_eq!(ledger.compare(path, "1"), FileState::AsItIs);
        assert_eq!(ledger.compare(path, "2"), FileState::Changed { before: Some(Arc::from(*b"one")) });
    }

    #[test]
    fn a_restored_file_is_known_by_its_hash_only() {
        let ledger = FileLedger::default();
        ledger.restore(Path::new("/w/a"), "1");
        assert_eq!(ledger.compare(Path::new("/w/a"), "1"), FileState::AsItIs);
        assert_eq!(ledger.compare(Path::new("/w/a"), "2"), FileState::Changed { before: None });
    }

    #[test]
    fn a_change_is_found_once_and_again_when_there_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let write = |text: &str| std::fs::write(&path, text).expect("a file");
        let change =
            |text: Option<&str>| ExternalChange { path: path.clone(), hash: text.map(|text| hash_of(text.as_bytes())) };
        let ledger = FileLedger::default();
        let disk = Disk::new(folder.path().join("calls"));
        write("one");
        ledger.note(&path, &hash_of(b"one"), None);
        assert_eq!(ledger.changes(&disk), []);
        write("two!");
        assert_eq!(ledger.changes(&disk), [change(Some("two!"))]);
        ledger.told(&path, Some(&hash_of(b"two!")));
        assert_eq!(ledger.changes(&disk), [], "once is enough");
        assert!(matches!(ledger.compare(&path, &hash_of(b"two!")), FileState::Changed { .. }), "told is not seen");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(ledger.changes(&disk), [change(None)]);
        ledger.told(&path, None);
        assert_eq!(ledger.changes(&disk), []);
        write("two!");
        ledger.note(&path, &hash_of(b"two!"), None);
        assert_eq!(ledger.changes(&disk), []);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_contents_go_first() {
        let ledger = FileLedger::default();
        let content = vec![b'x'; REMEMBERED_FILE_BYTES];
        for number in 0..100 {
            ledger.note(Path::new(&format!("/w/{number}")), "1", Some(&content));
            ledger.note(Path::new(&format!("/w/{number}")), "1", Some(&content));
        }
        assert_eq!(ledger.compare(Path::new("/w/0"), "2"), FileState::Changed { before: None });
        assert!(matches!(ledger.compare(Path::new("/w/99"), "2"), FileState::Changed { before: Some(_) }));
        assert!(ledger.known().bytes <= REMEMBERED_BYTES);
        let large = vec![b'x'; REMEMBERED_FILE_BYTES + 1];
        ledger.note(Path::new("/w/large"), "1", Some(&large));
        assert_eq!(ledger.compare(Path::new("/w/large"), "2"), FileState::Changed { before: None });
    }
}
