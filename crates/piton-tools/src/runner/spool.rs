//! Where a command's output goes: the beginning to `<base>.out` as it comes, of the rest only the end, from memory,
//! when the command is over. A command can write for hours and cost neither disk nor memory beyond the two limits.

use crate::limits::{SPOOL_TAIL_BYTES, SYNC_EVERY};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Instant;

/// The output of one command. A disk that fails does not stop the command: it is noted, and the end is still kept.
pub(super) struct Spool {
    file: Option<File>,
    /// Bytes that may still be written as they come.
    head_left: u64,
    head_written: u64,
    tail: VecDeque<u8>,
    total: u64,
    /// Bytes in the file.
    written: u64,
    unsynced: bool,
    synced: Instant,
    error: Option<String>,
}

/// What became of an output.
pub(super) struct Spooled {
    /// Bytes the command wrote.
    pub(super) total: u64,
    /// Bytes in the file, with the notice of what is missing.
    pub(super) kept: u64,
    /// What is wrong with those.
    pub(super) error: Option<String>,
}

impl Spool {
    pub(super) fn create(path: &Path, head_bytes: u64) -> Self {
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let mut spool = Self {
            file: None,
            head_left: head_bytes,
            head_written: 0,
            tail: VecDeque::new(),
            total: 0,
            written: 0,
            unsynced: false,
            synced: Instant::now(),
            error: None,
        };
        match opened {
            Ok(file) => spool.file = Some(file),
            Err(error) => spool.failed(&error),
        }
        spool
    }

    /// Takes what the command wrote.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let head = usize::try_from(self.head_left).unwrap_or(usize::MAX).min(bytes.len());
        let written = self.append(&bytes[..head]);
        self.head_left = self.head_left.saturating_sub(written as u64);
        self.head_written += written as u64;
        self.keep_end(&bytes[written..]);
    }

    /// When [`Spool::sync_if_due`] has something to do next.
    pub(super) fn next_sync(&self) -> Option<Instant> {
        self.unsynced.then(|| self.synced + SYNC_EVERY)
    }

    /// Makes the output durable, now and then.
    pub(super) fn sync_if_due(&mut self) {
        if self.next_sync().is_some_and(|due| due <= Instant::now()) {
            self.sync();
        }
    }

    /// Appends the end of the output. It is not made durable once more: that would cost every command as much as its
    /// claim, and the exit record tells how much there should be.
    pub(super) fn finish(&mut self) -> Spooled {
        let lost = self.total - self.head_written - self.tail.len() as u64;
        if lost > 0 {
            self.append(format!("\n[… {lost} bytes not kept …]\n").as_bytes());
        }
        let tail = std::mem::take(&mut self.tail);
        let (first, second) = tail.as_slices();
        self.append(first);
        self.append(second);
        Spooled { total: self.total, kept: self.written, error: self.error.take() }
    }

    /// The bytes written; fewer than asked only after a failure, which is noted.
    fn append(&mut self, bytes: &[u8]) -> usize {
        let Some(file) = &mut self.file else { return 0 };
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed(&error);
                    break;
                }
            }
        }
        self.unsynced |= written > 0;
        self.written += written as u64;
        written
    }

    fn failed(&mut self, error: &io::Error) {
        // From here on only the end is kept: what comes later must not be written after a gap.
        self.head_left = 0;
        self.error.get_or_insert_with(|| format!("output could not be stored: {error}"));
    }

    fn keep_end(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(SPOOL_TAIL_BYTES)..];
        let beyond = (self.tail.len() + bytes.len()).saturating_sub(SPOOL_TAIL_BYTES);
        self.tail.drain(..beyond);
        self.tail.extend(bytes);
    }

    fn sync(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.unsynced)
            && let Err(error) = file.sync_data()
        {
            self.failed(&error);
        }
        self.unsynced = false;
        self.synced = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spooled(head_bytes: u64, pieces: &[&[u8]]) -> (Vec<u8>, u64, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c1.out");
        let mut spool = Spool::create(&path, head_bytes);
        pieces.iter().for_each(|piece| spool.take(piece));
        let Spooled { total, kept, error } = spool.finish();
        let content = std::fs::read(path).unwrap();
        assert_eq!(kept, content.len() as u64);
        (content, total, error)
    }

    #[test]
    fn a_short_output_is_kept_as_it_is() {
        assert_eq!(spooled(100, &[b"one\n", b"two\n"]), (b"one\ntwo\n".to_vec(), 8, None));
        assert_eq!(spooled(6, &[b"one\n", b"two\n"]), (b"one\ntwo\n".to_vec(), 8, None));
    }

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_kept_and_the_gap_is_named() {
        let piece = vec![b'x'; 64 << 10];
        let mut pieces: Vec<&[u8]> = vec![b"begin"];
        pieces.extend(std::iter::repeat_n(piece.as_slice(), 40));
        pieces.push(b"end");
        let (kept, total, error) = spooled(5, &pieces);
        let lost = 40 * (64 << 10) + 3 - SPOOL_TAIL_BYTES;
        assert_eq!((total, error), (8 + 40 * (64 << 10), None));
        assert!(kept.starts_with(format!("begin\n[… {lost} bytes not kept …]\nxxx").as_bytes()));
        assert!(kept.ends_with(b"xend"));
    }

    #[test]
    fn a_full_disk_is_noted_and_does_not_stop_anything() {
        let mut spool = Spool::create(Path::new("/dev/full"), 100);
        spool.take(b"one");
        spool.take(b"two");
        let Spooled { total, kept, error } = spool.finish();
        assert_eq!((total, kept), (6, 0));
        assert!(error.unwrap().starts_with("output could not be stored: No space left"));
    }
}
