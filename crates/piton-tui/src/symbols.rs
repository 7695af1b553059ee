//! Definitions in the files of the workspace, for `@`. A thread reads the files and hands over what it finds, within bounds of time
//! and size; a search works for a few milliseconds and goes on where it stopped when it is asked again.
//!
//! What is a definition is told from single lines, by the words of the language ([`scan`]). A miss is only one fewer to choose from.

mod scan;
#[cfg(test)]
mod tests;

use crate::workspace::{entries, name};
use ignore::DirEntry;
use std::cmp::Reverse;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// So many definitions are kept.
const MOST: usize = 100_000;
/// Larger files are made, not written.
const MOST_FILE_BYTES: u64 = 256 << 10;
/// Read in all.
const MOST_BYTES: u64 = 64 << 20;
/// What is not found by then is not.
const MOST_TIME: Duration = Duration::from_secs(20);
/// How long one call of a search works.
const SLICE: Duration = Duration::from_millis(2);
/// Names between two looks at the clock.
const NAMES_A_LOOK: usize = 256;

/// Something that is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// The word that defines it: `fn`, `class`.
    pub(crate) keyword: &'static str,
    /// The file, from the workspace's folder on.
    pub(crate) path: Arc<str>,
    /// Its lines, counted from 1 and included.
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// The definitions of a workspace.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// What the thread has found; `None` once it is over.
    reading: Option<Receiver<Vec<Symbol>>>,
    found: Vec<Symbol>,
    needle: String,
    /// All before this one were compared with the needle.
    looked_at: usize,
    /// Those that fit best, with how well.
    best: Vec<(Rank, usize)>,
}

/// How well a name fits: the whole of it, its beginning or a part; then in the same case; then shortness.
type Rank = (u8, bool, Reverse<usize>);

impl Symbols {
    /// Begins to read. The thread ends with the files, at its bounds, or soon after this is dropped.
    pub(crate) fn start(root: &Path) -> Self {
        let (sender, receiver) = channel();
        let root = root.to_owned();
        let thread = std::thread::Builder::new().name("symbols".to_owned());
        // Without a thread there is nothing to choose from, and nothing else is wrong.
        let reading = thread.spawn(move || read(&root, &sender)).ok().map(|_| receiver);
        Self { reading, found: Vec::new(), needle: String::new(), looked_at: 0, best: Vec::new() }
    }

    /// Those that fit best among those that were looked at, the best first.
    pub(crate) fn search(&mut self, needle: &str, most: usize) -> Vec<&Symbol> {
        self.take_over();
        if needle != self.needle {
            needle.clone_into(&mut self.needle);
            (self.looked_at, self.best) = (0, Vec::new());
        }
        let until = Instant::now() + SLICE;
        while let Some(symbol) = self.found.get(self.looked_at) {
            if let Some(rank) = rank(&symbol.name, needle) {
                self.best.push((rank, self.looked_at));
            }
            self.looked_at += 1;
            if self.looked_at.is_multiple_of(NAMES_A_LOOK) {
                self.keep(most);
                if Instant::now() >= until {
                    break;
                }
            }
        }
        self.keep(most);
        self.best.iter().filter_map(|(_, index)| self.found.get(*index)).collect()
    }

    /// Whether another call of the same search would find the same.
    pub(crate) fn is_settled(&self) -> bool {
        self.reading.is_none() && (self.needle.is_empty() || self.looked_at == self.found.len())
    }

    fn keep(&mut self, most: usize) {
        // Of those that fit as well, the one that was found first.
        self.best.sort_by_key(|(rank, index)| (Reverse(*rank), *index));
        self.best.truncate(most);
    }

    fn take_over(&mut self) {
        while let Some(reading) = &self.reading {
            match reading.try_recv() {
                Ok(found) => self.found.extend(found),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.reading = None,
            }
        }
    }
}

fn rank(name: &str, needle: &str) -> Option<Rank> {
    let (bytes, sought) = (name.as_bytes(), needle.as_bytes());
    if sought.is_empty() || sought.len() > bytes.len() {
        return None;
    }
    let at = bytes.windows(sought.len()).position(|part| part.eq_ignore_ascii_case(sought))?;
    let place = match at {
        0 if bytes.len() == sought.len() => 2,
        0 => 1,
        _ => 0,
    };
    Some((place, &bytes[at..at + sought.len()] == sought, Reverse(bytes.len())))
}

/// Hands over what the files of the workspace define, file by file, until that is all, there is too much, or nobody takes it any
/// more.
fn read(root: &Path, to: &Sender<Vec<Symbol>>) {
    let until = Instant::now() + MOST_TIME;
    let (mut bytes, mut symbols) = (0, 0);
    for entry in entries(root).flatten() {
        if bytes > MOST_BYTES || symbols > MOST || Instant::now() > until {
            return;
        }
        let Some((path, text)) = source(root, &entry) else { continue };
        bytes += text.len() as u64;
        let found = scan::definitions(&path, &text);
        symbols += found.len();
        if !found.is_empty() && to.send(found).is_err() {
            return;
        }
    }
}

/// A file in a language that is known, and its text.
fn source(root: &Path, entry: &DirEntry) -> Option<(Arc<str>, String)> {
    let path = name(root, entry)?;
    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
    // Such a name cannot be written in a prompt.
    let is_odd = path.contains(|char: char| char.is_control() || char == '"');
    if !is_file || is_odd || !scan::is_known(&path) || entry.metadata().ok()?.len() > MOST_FILE_BYTES {
        return None;
    }
    let mut text = String::new();
    // It may have grown since.
    File::open(entry.path()).ok()?.take(MOST_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some((path.into(), text))
}
