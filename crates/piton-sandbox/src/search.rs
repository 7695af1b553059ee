//! Looks through a workspace for what a program outside would run or believe: protected names and repositories, at any depth
//! below its top. A plan does so before a command runs, an inspection when it is dead.
//!
//! Whatever lies there may be a link: no link is followed, and each folder is opened beneath the one above it.

use crate::open::{SLICE, names_from, open_below, plainly};
use crate::tables;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, fstat, readlinkat, statat};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
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
    pub(crate) came: Came,
}

/// Whether what was found, or a folder around it, came to its place since the search that this one is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Came {
    No,
    /// It lies where only repositories are looked for, and this one was not found there before.
    Perhaps,
    Yes,
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

/// How far one search goes before it is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    entries: usize,
    time: Duration,
}

impl Limit {
    /// While somebody waits for a call, who feels it: some hundred milliseconds on a slow disk, and more entries than most
    /// repositories have.
    pub(crate) const SHORT: Self = Self { entries: 50_000, time: Duration::from_millis(400) };

    /// As long as it takes, or so long.
    pub(crate) fn within(time: Option<Duration>) -> Self {
        Self { entries: usize::MAX, time: time.unwrap_or(Duration::MAX) }
    }
}

/// What builds and package managers fill: there is a lot in it, and nobody works there. Only repositories near its top are looked
/// for.
const SKIPPED: [&str; 2] = ["target", "node_modules"];
/// Folders below one of these in which repositories are looked for: `target/package/x`, `node_modules/@scope/x`.
const SKIPPED_DEPTH: usize = 1;

/// A folder that is to be looked at.
struct Next {
    path: PathBuf,
    came: Came,
    looked_for: LookedFor,
    /// Where in a wide folder it goes on.
    from: Option<i64>,
}

/// What of a folder counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookedFor {
    Everything,
    /// The same, in a repository that lies in a skipped folder.
    Repository,
    /// Repositories alone, so many folders deep.
    Repositories(usize),
}

/// Looks at everything below `root`, which lies at `base`. Of the top only names in large letters are found: the others are looked
/// at one by one.
pub(crate) fn search(root: &OwnedFd, base: &Path, earlier: Option<Earlier<'_>>, limit: Limit) -> Search {
    let started = Instant::now();
    let mut search = Search::default();
    let mut entries = 0;
    let top = Next { path: PathBuf::new(), came: Came::No, looked_for: LookedFor::Everything, from: None };
    let mut queue = Queue { root, base, next: VecDeque::from([top]), repositories: HashSet::new() };
    // What is nearest to the top is looked at first.
    while let Some(mut at) = queue.next.pop_front() {
        if entries > limit.entries || started.elapsed() > limit.time {
            search.is_cut = true;
            break;
        }
        let is_for_all = !matches!(at.looked_for, LookedFor::Repositories(_));
        let Some(folder) = open_below(root, &at.path) else {
            if is_for_all {
                search.found.push(Found { path: at.path, kind: Kind::Unreadable, came: at.came });
            }
            continue;
        };
        if is_for_all && at.from.is_none() {
            let Ok(own) = fstat(&folder) else { continue };
            search.folders.push(own.st_ino);
            at.came = at.came.max(earlier.map_or(Came::No, |earlier| came(&own, earlier, at.looked_for)));
        }
        let (names, rest) = names_from(&folder, at.from);
        entries += names.len();
        match at.looked_for {
            LookedFor::Repositories(deeper) => queue.add_repositories(&at, &folder, &names, deeper),
            LookedFor::Everything | LookedFor::Repository => search.look(&at, &folder, &names, &mut queue),
        }
        // A wide folder goes on behind the others.
        if rest.is_some() {
            queue.next.push_back(Next { from: rest, ..at });
        }
    }
    search
}

fn came(own: &rustix::fs::Stat, earlier: Earlier<'_>, looked_for: LookedFor) -> Came {
    match looked_for {
        _ if earlier.folders.contains(&own.st_ino) => Came::No,
        _ if mark(own) >= earlier.began => Came::Yes,
        LookedFor::Repository => Came::Perhaps,
        LookedFor::Everything | LookedFor::Repositories(_) => Came::No,
    }
}

/// What is still to be looked at.
struct Queue<'r> {
    root: &'r OwnedFd,
    base: &'r Path,
    next: VecDeque<Next>,
    /// Repositories in skipped folders, which may be found in several ways.
    repositories: HashSet<PathBuf>,
}

impl Queue<'_> {
    /// What has a name that says nothing.
    fn add_plain(&mut self, at: &Next, folder: &OwnedFd, name: &OsStr, kind: FileType) {
        match kind {
            FileType::Directory => self.add(at.path.join(name), at.came, folder),
            FileType::Symlink => self.add_linked(at, folder, name),
            _ => {}
        }
    }

    /// A folder in one that is looked at.
    fn add(&mut self, path: PathBuf, came: Came, folder: &OwnedFd) {
        let name = path.file_name().unwrap_or_default();
        match is_skipped(name) {
            true if holds_git(folder, Path::new(name)) => self.add_repository(path, came),
            true => self.push(path, came, LookedFor::Repositories(SKIPPED_DEPTH)),
            false => self.push(path, came, LookedFor::Everything),
        }
    }

    fn add_repository(&mut self, path: PathBuf, came: Came) {
        if self.repositories.insert(path.clone()) {
            self.push(path, came, LookedFor::Repository);
        }
    }

    fn add_repositories(&mut self, at: &Next, folder: &OwnedFd, names: &[(OsString, FileType)], deeper: usize) {
        let is_of_packages = at.path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("node_modules"));
        for (name, _) in names.iter().filter(|(_, kind)| *kind == FileType::Directory) {
            let is_worth_it = !is_of_packages || name.as_bytes().starts_with(b"@");
            if holds_git(folder, Path::new(name)) {
                self.add_repository(at.path.join(name), at.came);
            } else if deeper > 0 && is_worth_it {
                self.push(at.path.join(name), at.came, LookedFor::Repositories(deeper - 1));
            }
        }
    }

    /// The repository in a skipped folder of the workspace that a link leads to.
    fn add_linked(&mut self, at: &Next, folder: &OwnedFd, name: &OsStr) {
        let Ok(to) = readlinkat(folder, name, Vec::new()) else { return };
        let to = plainly(&self.base.join(&at.path).join(OsStr::from_bytes(to.as_bytes())));
        let Ok(path) = to.strip_prefix(self.base) else { return };
        if path.iter().any(is_skipped) && open_below(self.root, path).is_some_and(|to| holds_git(&to, Path::new(""))) {
            self.add_repository(path.to_path_buf(), at.came);
        }
    }

    fn push(&mut self, path: PathBuf, came: Came, looked_for: LookedFor) {
        self.next.push_back(Next { path, came, looked_for, from: None });
    }
}

fn is_skipped(name: &OsStr) -> bool {
    SKIPPED.iter().any(|skipped| name.eq_ignore_ascii_case(skipped))
}

fn holds_git(folder: &OwnedFd, below: &Path) -> bool {
    statat(folder, below.join(".git"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

impl Search {
    fn look(&mut self, at: &Next, folder: &OwnedFd, names: &[(OsString, FileType)], queue: &mut Queue<'_>) {
        let Next { path, came, .. } = at;
        let is_top = path.as_os_str().is_empty();
        if !is_top && at.from.is_none() && is_bare(folder, names) {
            self.found.push(Found { path: path.clone(), kind: Kind::Git, came: *came });
        }
        for (name, kind) in names {
            // Most are told at a glance.
            if !begins_as_known(name) {
                queue.add_plain(at, folder, name, *kind);
                continue;
            }
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
                queue.add_plain(at, folder, name, *kind);
                continue;
            };
            // At the top the names themselves are looked at one by one; a file system may not tell large letters from small
            // ones, so that others mean the same there. A path of a plan is text.
            let is_looked_at = is_top && name.to_string_lossy() == lower;
            if !is_looked_at && whole.to_str().is_some() {
                self.found.push(Found { path: whole, kind: found, came: *came });
            }
        }
    }
}

/// Whether a name begins as one that is looked for, all of which do with a letter of ASCII or a dot.
fn begins_as_known(name: &OsStr) -> bool {
    let known = || tables::PROTECTED.iter().chain(tables::PROTECTED_AT_TOP);
    let is_so = |first: &u8| {
        *first == b'.' || !first.is_ascii() || known().any(|name| name.as_bytes()[0].eq_ignore_ascii_case(first))
    };
    name.as_bytes().first().is_some_and(is_so)
}

/// What of a protected name lies below the one that was found; empty for the name itself.
fn below<'k>(known: &'k str, found: &str) -> Option<&'k str> {
    known.strip_prefix(found).and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') })
}

/// Whether git takes a folder, in which these names are, for a repository. Of a wide one the names are not all.
fn is_bare(folder: &OwnedFd, names: &[(OsString, FileType)]) -> bool {
    let is_there = |wanted: &str| statat(folder, wanted, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let is_wide = names.len() >= SLICE;
    let has =
        |wanted: &str| names.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted)) || is_wide && is_there(wanted);
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::open::open_as_named;
    use std::fs;

    #[test]
    fn a_wide_folder_holds_up_no_other_and_is_looked_at_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        for wide in ["a", "b", "z"] {
            fs::create_dir(base.join(wide)).unwrap();
            (0..3 * SLICE).for_each(|number| drop(fs::File::create(base.join(wide).join(number.to_string())).unwrap()));
            fs::create_dir_all(base.join(wide).join("last/.vscode")).unwrap();
        }
        fs::create_dir_all(base.join("m/n/.idea")).unwrap();
        let root = open_as_named(&base).unwrap();
        let found = |limit| {
            let search = search(&root, &base, None, limit);
            (search.found.into_iter().map(|found| found.path).collect::<HashSet<_>>(), search.is_cut)
        };
        let short = Limit { entries: 6 * SLICE + 50, time: Duration::MAX };
        let (paths, is_cut) = found(short);
        assert!(is_cut && paths.contains(Path::new("m/n/.idea")), "{paths:?}");
        let (paths, is_cut) = found(Limit::within(None));
        assert!(!is_cut && paths.len() == 4, "{paths:?}");
    }
}
