//! The output of a command on disk: all of it up to a limit, and beyond that its end. Memory stays small whatever comes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of the end that are kept when the limit is passed.
const TAIL_BYTES: usize = 1024 * 1024;
/// How often the file is made durable while the command runs.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Takes the output of one command.
pub(crate) struct Spool {
    path: PathBuf,
    limit: u64,
    file: Option<File>,
    /// Bytes in the file.
    kept: u64,
    /// Bytes that came.
    total: u64,
    tail: VecDeque<u8>,
    error: Option<String>,
    synced: Instant,
}

impl Spool {
    pub(crate) fn new(path: PathBuf, limit: u64) -> Self {
        let tail = VecDeque::new();
        Self { path, limit, file: None, kept: 0, total: 0, tail, error: None, synced: Instant::now() }
    }

    /// Takes a piece. A disk that is full costs output, never the command.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = usize::try_from(self.limit.saturating_sub(self.kept)).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        if self.error.is_none() && !head.is_empty() {
            match self.append(head) {
                Ok(()) => self.kept += head.len() as u64,
                Err(error) => self.error = Some(format!("the output could not be kept: {error}")),
            }
        }
        if !rest.is_empty() {
            let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
            let surplus = (self.tail.len() + rest.len()).saturating_sub(TAIL_BYTES);
            self.tail.drain(..surplus);
            self.tail.extend(rest);
        }
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync();
        }
    }

    /// Writes what is left and makes it durable. Returns the bytes that came and what went wrong, if anything.
    pub(crate) fn finish(mut self) -> (u64, Option<String>) {
        if !self.tail.is_empty() {
            let lost = self.total - self.kept - self.tail.len() as u64;
            let mut end = if lost > 0 { format!("\n[… {lost} bytes not kept …]\n").into_bytes() } else { Vec::new() };
            end.extend(self.tail.iter());
            if let Err(error) = self.append(&end) {
                self.error.get_or_insert(format!("the output could not be kept: {error}"));
            }
        }
        self.sync();
        (self.total, self.error)
    }

    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        file.write_all(bytes)
    }

    fn sync(&mut self) {
        self.synced = Instant::now();
        if let Some(Err(error)) = self.file.as_ref().map(File::sync_data) {
            self.error.get_or_insert(format!("the output could not be kept: {error}"));
        }
    }
}
