//! What a disk still has after the power went: all that was synced, and of the rest whatever it likes.
//!
//! A write that was not synced may be there, may be missing, and may be torn at the edge of a sector; a name that was
//! never synced may be gone, and a deleted one may be back. A process that is killed loses none of this: the system
//! that it asked to write lives on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The files of SQLite on one machine.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: HashMap<PathBuf, Kept>,
}

/// One file: what is safe, and what was done to it since.
#[derive(Debug, Default)]
struct Kept {
    /// `None`: not even its name is safe.
    durable: Option<Vec<u8>>,
    pending: Vec<Change>,
}

/// Something done to a file that is not synced yet.
#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut { len: usize },
    Delete,
}

/// How much of what was not synced a power cut spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spares {
    Nothing,
    /// The first so many changes, the last of them torn.
    Prefix,
    /// Any sectors of any changes.
    Anything,
}

impl Disk {
    pub(super) fn write(&mut self, path: &Path, at: usize, bytes: &[u8]) {
        self.change(path, Change::Write { at, bytes: bytes.to_vec() });
    }

    pub(super) fn cut(&mut self, path: &Path, len: usize) {
        self.change(path, Change::Cut { len });
    }

    pub(super) fn delete(&mut self, path: &Path) {
        self.change(path, Change::Delete);
    }

    pub(super) fn sync(&mut self, path: &Path) {
        let kept = self.files.entry(path.to_owned()).or_default();
        let mut content = Some(kept.durable.take().unwrap_or_default());
        for change in kept.pending.drain(..) {
            content = change.done_to(content);
        }
        kept.durable = content;
    }

    /// Puts the files on the real disk into a state that a power cut may leave.
    pub(super) fn lose_power(&mut self, dice: &mut fastrand::Rng) -> std::io::Result<()> {
        let sector = if dice.bool() { 512 } else { 4096 };
        let spares = [Spares::Nothing, Spares::Prefix, Spares::Anything][dice.usize(0..3)];
        let mut files: Vec<_> = self.files.iter_mut().collect();
        files.sort_by(|a, b| a.0.cmp(b.0));
        for (path, kept) in files {
            match kept.spared(spares, sector, dice) {
                Some(content) => {
                    // A folder that was removed comes back with its file: nobody synced that.
                    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                    std::fs::write(path, &content)?;
                }
                None if path.exists() => std::fs::remove_file(path)?,
                None => {}
            }
            // What WAL mode keeps in memory is a file only by name.
            if dice.bool() {
                let shared = PathBuf::from(format!("{}-shm", path.display()));
                std::fs::remove_file(shared).ok();
            }
        }
        self.files.clear();
        Ok(())
    }

    /// Somebody opened a file: what is in it now is the ground that later changes are done to.
    pub(super) fn opened(&mut self, path: &Path) {
        let content = std::fs::read(path).ok().filter(|content| !content.is_empty());
        self.files.entry(path.to_owned()).or_insert(Kept { durable: content, pending: Vec::new() });
    }

    fn change(&mut self, path: &Path, change: Change) {
        self.files.entry(path.to_owned()).or_default().pending.push(change);
    }
}

impl Kept {
    fn spared(&mut self, spares: Spares, sector: usize, dice: &mut fastrand::Rng) -> Option<Vec<u8>> {
        let pending = std::mem::take(&mut self.pending);
        let prefix = dice.usize(0..=pending.len());
        let mut content = self.durable.take();
        for (position, change) in pending.into_iter().enumerate() {
            let is_torn = match spares {
                Spares::Nothing => break,
                Spares::Prefix if position >= prefix => break,
                Spares::Prefix => position + 1 == prefix,
                Spares::Anything => true,
            };
            content = if is_torn { change.torn(content, sector, dice) } else { change.done_to(content) };
        }
        content
    }
}

impl Change {
    fn done_to(self, content: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Self::Write { at, bytes } => Some(put(content.unwrap_or_default(), at, &bytes)),
            Self::Cut { len } => {
                let mut content = content.unwrap_or_default();
                content.resize(len, 0);
                Some(content)
            }
            Self::Delete => None,
        }
    }

    /// Done by halves: sector for sector, or not at all.
    fn torn(self, content: Option<Vec<u8>>, sector: usize, dice: &mut fastrand::Rng) -> Option<Vec<u8>> {
        let Self::Write { at, bytes } = self else {
            return if dice.bool() { self.done_to(content) } else { content };
        };
        let mut content = content;
        let mut begin = 0;
        while begin < bytes.len() {
            // To the next edge of a sector of the disk, not of the write.
            let end = bytes.len().min(((at + begin) / sector + 1) * sector - at);
            if dice.bool() {
                content = Some(put(content.unwrap_or_default(), at + begin, &bytes[begin..end]));
            }
            begin = end;
        }
        content
    }
}

fn put(mut content: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_power_cut(seed: u64, before: impl FnOnce(&mut Disk, &Path)) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut disk = Disk::default();
        before(&mut disk, &path);
        disk.lose_power(&mut fastrand::Rng::with_seed(seed)).unwrap();
        std::fs::read(path).ok()
    }

    #[test]
    fn what_was_synced_is_there_whatever_the_seed() {
        for seed in 0..200 {
            let content = after_a_power_cut(seed, |disk, path| {
                disk.write(path, 0, &[1; 5000]);
                disk.sync(path);
                disk.write(path, 5000, &[2; 5000]);
            });
            assert_eq!(content.unwrap()[..5000], [1; 5000], "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_synced_may_be_there_or_missing_or_torn() {
        let seen: Vec<Option<Vec<u8>>> =
            (0..200).map(|seed| after_a_power_cut(seed, |disk, path| disk.write(path, 0, &[1; 8192]))).collect();
        let is_whole = |content: &Option<Vec<u8>>| content.as_deref() == Some(&[1; 8192]);
        let is_torn = |content: &Option<Vec<u8>>| content.is_some() && !is_whole(content);
        assert!(seen.iter().any(Option::is_none) && seen.iter().any(is_whole) && seen.iter().any(is_torn));
    }
}
