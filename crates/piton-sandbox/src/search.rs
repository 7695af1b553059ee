//! Looks through a workspace for what a program outside would run or believe: protected names and repositories, at any depth
//! below its top. A plan does so before a command runs, an inspection when it is dead.
//!
//! Whatever lies there may be a link: no link is followed, and each folder is opened beneath the one above it.

use crate::open::{names, open_below};
use crate::tables;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, fstat, statat};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A time as the kernel marks files with: seconds and nanoseconds. Nobody can set such a mark, but for whoever sets the clock.
pub(crate) type Mark = (i64, i64);

/// What a file would be marked with that is changed now.
pub(crate) fn now() -> Mark {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// When something was last changed: its content, its name or its rights.
pub(crate) fn changed_at(folder: &OwnedFd, name: &OsStr) -> Option<Mark> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(mark(&found))
}

#[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap, reason = "the width of these is the platform's")]
fn mark(found: &rustix::fs::Stat) -> Mark {
    (found.st_ctime as i64, found.st_ctime_nsec as i64)
}

/// What was found, by its path in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// Whether a folder around it came to its place since the search that this one is compared with.
    pub(crate) is_moved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name of [`tables::PROTECTED`].
    Protected,
    /// A git folder: a `.git`, or a bare repository.
    Git,
    /// A `.git` that is something else: a file that names one, or a link.
    GitLink,
    /// A folder that cannot be listed.
    Unreadable,
}

/// A search that is over.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) found: Vec<Found>,
    /// The inodes of the folders that were looked at.
    pub(crate) folders: Vec<u64>,
    /// Whether a limit ended it before everything was looked at.
    pub(crate) is_cut: bool,
}

/// An earlier search, and when what followed it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Earlier<'f> {
    pub(crate) folders: &'f HashSet<u64>,
    pub(crate) began: Mark,
}

/// Entries of folders that one search looks at: some hundred milliseconds on a slow disk, more than most repositories have.
const MOST_ENTRIES: usize = 50_000;
/// How long one search takes at most; whoever waits for the result of a call feels it.
const LONGEST: Duration = Duration::from_millis(400);
/// What builds and package managers fill: there is a lot in it, and nobody works there.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

/// Looks at everything below `root`. Of the top only names in large letters are found: the others are looked at one by one.
pub(crate) fn search(root: &OwnedFd, earlier: Option<Earlier<'_>>) -> Search {
    let started = Instant::now();
    let mut search = Search::default();
    let mut entries = 0;
    let mut next = VecDeque::from([(PathBuf::new(), false)]);
    // What is nearest to the top is looked at first.
    while let Some((path, is_moved)) = next.pop_front() {
        if entries > MOST_ENTRIES || started.elapsed() > LONGEST {
            search.is_cut = true;
            break;
        }
        let Some(folder) = open_below(root, &path) else {
            search.found.push(Found { path, kind: Kind::Unreadable, is_moved });
            continue;
        };
        let Ok(own) = fstat(&folder) else { continue };
        search.folders.push(own.st_ino);
        let is_new = |earlier: Earlier<'_>| mark(&own) >= earlier.began && !earlier.folders.contains(&own.st_ino);
        let here = Folder { path, folder, is_moved: is_moved || earlier.is_some_and(is_new) };
        let names = names(&here.folder);
        entries += names.len();
        search.look(&here, &names, &mut next);
    }
    search
}

/// One that is open.
struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    is_moved: bool,
}

impl Search {
    fn look(&mut self, here: &Folder, names: &[(OsString, FileType)], next: &mut VecDeque<(PathBuf, bool)>) {
        let Folder { path, folder, is_moved } = here;
        let is_top = path.as_os_str().is_empty();
        if !is_top && is_bare(names) {
            self.found.push(Found { path: path.clone(), kind: Kind::Git, is_moved: *is_moved });
        }
        for (name, kind) in names {
            let lower = name.to_string_lossy().to_lowercase();
            let is_known_at_top = is_top && tables::PROTECTED_AT_TOP.contains(&lower.as_str());
            let (found, whole) = if is_known_at_top {
                (Kind::Protected, PathBuf::from(name))
            } else if lower == ".git" {
                (if *kind == FileType::Directory { Kind::Git } else { Kind::GitLink }, path.join(name))
            } else if let Some(inner) = tables::PROTECTED.iter().find_map(|known| below(known, &lower)) {
                let whole = if inner.is_empty() { PathBuf::from(name) } else { Path::new(name).join(inner) };
                if statat(folder, &whole, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                    continue;
                }
                (Kind::Protected, path.join(whole))
            } else {
                if *kind == FileType::Directory && !SKIPPED.contains(&lower.as_str()) {
                    next.push_back((path.join(name), *is_moved));
                }
                continue;
            };
            // At the top the names themselves are looked at one by one; a file system may not tell large letters from small
            // ones, so that others mean the same there. A path of a plan is text.
            let is_looked_at = is_top && name.to_string_lossy() == lower;
            if !is_looked_at && whole.to_str().is_some() {
                self.found.push(Found { path: whole, kind: found, is_moved: *is_moved });
            }
        }
    }
}

/// What of a protected name lies below the one that was found; empty for the name itself.
fn below<'k>(known: &'k str, found: &str) -> Option<&'k str> {
    known.strip_prefix(found).and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') })
}

/// Whether git takes a folder with these names in it for a repository.
fn is_bare(names: &[(OsString, FileType)]) -> bool {
    let has = |wanted: &str| names.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
