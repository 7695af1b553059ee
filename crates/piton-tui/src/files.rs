//! The files and folders of the workspace, for `@`. A thread walks it and hands over names; a search takes those that are
//! there, works for a few milliseconds, and goes on where it stopped when it is asked again. So the first hits come at
//! once, in a workspace of any size, and a picker asks anew until [`Files::is_settled`].
//!
//! Names are kept in one text, one behind the other. When the needle grows only what fitted before is looked at.

#[cfg(test)]
mod tests;
mod walk;

use crate::fuzzy::Fuzzy;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// So many files and folders are found; what comes behind is left out.
pub const MOST_FILES: usize = 500_000;
/// How long one call of a search works. A key that comes meanwhile waits for it.
const SLICE: Duration = Duration::from_millis(5);
/// How long one call takes over what the walk has found.
const TAKING: Duration = Duration::from_millis(3);
/// Names between two looks at the clock.
const NAMES_A_LOOK: usize = 128;
/// A search hands back no more.
const MOST_HITS: usize = 200;

/// A file or folder that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// From the workspace's folder on, with slashes; a folder ends in one.
    pub path: String,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The bytes of the path at which the characters begin that fit.
    pub positions: Vec<usize>,
}

/// The files and folders of a workspace.
#[derive(Debug)]
pub struct Files {
    /// What the walk has found; `None` once it is over.
    walk: Option<Receiver<Names>>,
    names: Names,
    search: Option<Search>,
}

/// Names, one behind the other.
#[derive(Debug, Default)]
struct Names {
    text: String,
    /// Where each ends.
    ends: Vec<u32>,
}

/// A search, and how far it has come.
#[derive(Debug)]
struct Search {
    needle: String,
    /// What fitted a shorter needle and is still to be looked at, the next one last.
    narrow: Vec<u32>,
    /// All names before this one were looked at, or are in `narrow`.
    looked_at: usize,
    /// What fits.
    fitting: Vec<u32>,
    /// What fits best; the worst of it on top.
    best: BinaryHeap<Reverse<Rank>>,
}

/// How well a name fits: score, shortness, place in the walk.
type Rank = (u32, Reverse<usize>, Reverse<usize>);

impl Files {
    /// Begins to walk. The thread ends with the walk, or soon after the files are dropped.
    pub fn start(root: &Path) -> Files {
        let (sender, receiver) = channel();
        let root = root.to_owned();
        let thread = std::thread::Builder::new().name("files".to_owned());
        // Without a thread there are no files to choose from, and nothing else is wrong.
        let walk = thread.spawn(move || walk::walk(&root, &sender)).ok().map(|_| receiver);
        Self { walk, names: Names::default(), search: None }
    }

    /// The files and folders that fit best among those that were looked at, at most 200, best first. An empty needle fits
    /// all; those with the shortest way come first.
    pub fn search(&mut self, needle: &str, most: usize) -> Vec<Found> {
        self.take_over();
        let mut search = match self.search.take() {
            Some(search) if search.needle == needle => search,
            Some(search) if search.can_narrow_to(needle) => search.narrowed_to(needle),
            Some(_) | None => Search::new(needle),
        };
        let mut fuzzy = Fuzzy::for_paths(needle);
        search.go_on(&self.names, &mut fuzzy, Instant::now() + SLICE);
        let mut best: Vec<_> = search.best.iter().map(|Reverse(rank)| *rank).collect();
        best.sort_unstable_by_key(|rank| Reverse(*rank));
        best.truncate(most);
        self.search = Some(search);
        best.into_iter().map(|(_, _, Reverse(index))| self.found(index, &mut fuzzy)).collect()
    }

    /// Whether the walk is over and all it found is here.
    pub fn is_whole(&self) -> bool {
        self.walk.is_none()
    }

    /// Whether another call of the same search would find the same.
    pub fn is_settled(&self) -> bool {
        let is_done = |search: &Search| search.narrow.is_empty() && search.looked_at == self.len();
        self.is_whole() && self.search.as_ref().is_none_or(is_done)
    }

    /// How many files and folders are known.
    pub fn len(&self) -> usize {
        self.names.ends.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.names.ends.is_empty()
    }

    fn take_over(&mut self) {
        let until = Instant::now() + TAKING;
        while let Some(walk) = &self.walk
            && Instant::now() < until
        {
            match walk.try_recv() {
                Ok(names) => self.names.append(&names),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.walk = None,
            }
        }
    }

    fn found(&self, index: usize, fuzzy: &mut Fuzzy) -> Found {
        let path = self.names.get(index);
        Found { path: path.to_owned(), is_folder: path.ends_with('/'), positions: fuzzy.positions(path) }
    }
}

impl Names {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(end(&self.text));
    }

    fn append(&mut self, other: &Names) {
        let before = end(&self.text);
        self.text.push_str(&other.text);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    fn get(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }
}

/// [`walk`] finds no more text than that.
fn end(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

impl Search {
    fn new(needle: &str) -> Self {
        let (narrow, fitting, best) = (Vec::new(), Vec::new(), BinaryHeap::new());
        Self { needle: needle.to_owned(), narrow, looked_at: 0, fitting, best }
    }

    /// Whether all that fits this needle fits ours. A backslash takes a blank its meaning.
    fn can_narrow_to(&self, needle: &str) -> bool {
        needle.starts_with(&self.needle) && !needle.contains('\\')
    }

    /// A search for a longer needle: whatever fits it fits ours.
    fn narrowed_to(self, needle: &str) -> Self {
        let mut narrow = self.fitting;
        narrow.extend(self.narrow);
        narrow.sort_unstable_by_key(|index| Reverse(*index));
        Self { narrow, looked_at: self.looked_at, ..Self::new(needle) }
    }

    /// Looks at names until all were looked at or it is time.
    fn go_on(&mut self, names: &Names, fuzzy: &mut Fuzzy, until: Instant) {
        for looks in 1_usize.. {
            let index = match self.narrow.pop() {
                Some(index) => index,
                None if self.looked_at < names.ends.len() => {
                    self.looked_at += 1;
                    // There are no more than MOST_FILES.
                    u32::try_from(self.looked_at - 1).unwrap_or(u32::MAX)
                }
                None => return,
            };
            self.look(index, names.get(index as usize), fuzzy);
            if looks.is_multiple_of(NAMES_A_LOOK) && Instant::now() >= until {
                return;
            }
        }
    }

    fn look(&mut self, index: u32, name: &str, fuzzy: &mut Fuzzy) {
        let Some(rank) = rank(index, name, &self.needle, fuzzy) else { return };
        self.fitting.push(index);
        if self.best.len() < MOST_HITS {
            self.best.push(Reverse(rank));
        } else if let Some(mut worst) = self.best.peek_mut()
            && rank > worst.0
        {
            *worst = Reverse(rank);
        }
    }
}

fn rank(index: u32, name: &str, needle: &str, fuzzy: &mut Fuzzy) -> Option<Rank> {
    let index = Reverse(index as usize);
    if fuzzy.is_empty() {
        let depth = name.trim_end_matches('/').bytes().filter(|byte| *byte == b'/').count();
        return Some((0, Reverse(depth), index));
    }
    let score = fuzzy.score(name)?;
    Some((score + last_name_bonus(name, needle), Reverse(name.len()), index))
}

/// People mean the name more often than a folder on the way to it.
fn last_name_bonus(path: &str, needle: &str) -> u32 {
    /// About what a match at the beginning of a word is worth to nucleo.
    const BONUS: u32 = 8;
    let path = path.trim_end_matches('/').as_bytes();
    let last = path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..]);
    let needle = needle.as_bytes();
    let is_there = |at: &[u8]| at.eq_ignore_ascii_case(needle);
    match last.windows(needle.len()).position(is_there) {
        Some(0) => 2 * BONUS,
        Some(_) => BONUS,
        None => 0,
    }
}
