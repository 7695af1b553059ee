//! Looking at a workspace: every file's stamp, and the content of those whose stamp is new.
//!
//! ```text
//!   walk       all folders, in parallel; lstat only          ┐
//!   ignored    the ignored ones among them, within a budget  ├─▶ Folder, Folder, …
//!   read       what the cache does not know, in parallel     ┘
//! ```
//!
//! Nothing here follows a symbolic link, waits for a pipe or leaves the file system. `.git` is left out wherever it is,
//! so a repository within the workspace is covered like any folder, without its history.

use super::EntryKind;
use super::cache::Cache;
use super::entry::{Folder, Item, Seen, Stamp};
use super::object::{ObjectKind, Oid};
use super::seed::Seed;
use super::share::Budget;
use super::store::Store;
use super::{NotCovered, SnapshotError, Uncovered, path_of};
use crate::ignored::Rules;
use crate::limits::{SNAPSHOT_ENTRIES, SNAPSHOT_FILE_BYTES};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, open, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Sorted by path, so a folder comes before what is in it.
    pub(super) folders: Vec<Folder>,
    pub(super) notices: Vec<Uncovered>,
    /// How many files the cache did not know.
    pub(super) read: usize,
    /// How many it knew.
    pub(super) known: usize,
}

/// What a scan goes by.
#[derive(Debug)]
pub(super) struct Scanner<'s> {
    pub(super) workspace: &'s Path,
    pub(super) store: &'s Store,
    pub(super) cache: &'s Cache,
    /// Folders that are none of the workspace's business, from the workspace.
    pub(super) left_out: &'s [Vec<u8>],
    pub(super) seed: Option<&'s Seed>,
    /// Where something else is mounted, from the workspace.
    pub(super) mounts: HashSet<Vec<u8>>,
    /// Bytes of files that are covered.
    pub(super) most_bytes: u64,
    pub(super) progress: &'s AtomicU64,
}

impl Scanner<'_> {
    pub(super) fn scan(&self) -> Result<Scan, SnapshotError> {
        let root = std::fs::metadata(self.workspace).ok().filter(std::fs::Metadata::is_dir);
        let device = root.map(|root| std::os::unix::fs::MetadataExt::dev(&root));
        let device = device.ok_or_else(|| SnapshotError::WorkspaceGone(self.workspace.to_owned()))?;
        let mut walked = Walk::new(self, device).run()?;
        self.cover_ignored(&mut walked, device);
        walked.folders.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        let mut scan = Scan { folders: walked.folders, notices: walked.notices, ..Scan::default() };
        scan.leave_out_the_largest(self.most_bytes);
        self.read_all(&mut scan)?;
        scan.notices.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(scan)
    }

    /// Lists one folder.
    fn look(&self, path: &[u8], rules: Option<&Rules>, device: u64, walked: &mut Walked) -> io::Result<Vec<Task>> {
        let absolute = self.workspace.join(path_of(path));
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        // The workspace itself may be reached by a link.
        let flags = if path.is_empty() { flags - OFlags::NOFOLLOW } else { flags };
        let mut dir = Dir::new(open(&absolute, flags, Mode::empty())?)?;
        let mut found = Vec::new();
        while let Some(entry) = dir.read() {
            let name = entry?.file_name().to_bytes().to_vec();
            if !is_ours_or_gits(&name) {
                found.push(name);
            }
        }
        found.sort_unstable();
        let rules = rules.map(|rules| match found.binary_search_by(|name| name.as_slice().cmp(b".gitignore")) {
            Ok(_) => rules.clone().with(&absolute, &absolute.join(".gitignore")),
            Err(_) => rules.clone(),
        });
        let mut cached = self.cache.files_in(path).peekable();
        let mut folder = Folder { path: path.to_vec(), items: Vec::with_capacity(found.len()) };
        let mut tasks = Vec::new();
        for name in found {
            self.progress.fetch_add(1, Ordering::Relaxed);
            // Not even looked at: the server behind it may be gone.
            if !self.mounts.is_empty() && self.mounts.contains(&join(path, &name)) {
                walked.note(&join(path, &name), NotCovered::OtherFileSystem);
                folder.items.push(Item::not_covered(name));
                continue;
            }
            let Ok(stat) = statat(dir.fd()?, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let stamp = Stamp::of(&stat);
            if stamp.kind == EntryKind::NotCovered {
                continue;
            }
            while cached.next_if(|file| file.name < &*name).is_some() {}
            let known = cached.next_if(|file| file.name == name).filter(|file| file.stamp == stamp);
            let ignored = rules.as_ref().is_some_and(|rules| {
                !rules.is_empty() && rules.ignore(&absolute.join(path_of(&name)), stamp.kind == EntryKind::Folder)
            });
            let mut item = Item::new(name, stamp, known.map(|file| file.oid));
            let inner = join(&folder.path, &item.name);
            if self.left_out.contains(&inner) {
                item.leave_out();
            } else if stamp.kind == EntryKind::Folder && stat.st_dev != device {
                item.leave_out();
                walked.note(&inner, NotCovered::OtherFileSystem);
            } else if stamp.kind == EntryKind::File && stamp.bytes > SNAPSHOT_FILE_BYTES {
                item.leave_out();
                walked.note(&inner, NotCovered::LargeFile { bytes: stamp.bytes });
            } else if ignored {
                walked.ignored.push(inner);
            } else if stamp.kind == EntryKind::Folder {
                tasks.push(Task { path: inner, rules: rules.clone() });
            }
            folder.items.push(item);
        }
        walked.folders.push(folder);
        Ok(tasks)
    }

    /// Takes in what the budget allows of the ignored paths, and leaves out the others.
    fn cover_ignored(&self, walked: &mut Walked, device: u64) {
        let mut ignored = std::mem::take(&mut walked.ignored);
        ignored.sort_unstable();
        walked.folders.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        // Only these have ignored items; what is added below has none.
        let walked_folders = walked.folders.len();
        let mut budget = Budget::new();
        for path in ignored {
            let (parent, name) = split(&path);
            let folders = &mut walked.folders[..walked_folders];
            let Ok(place) = folders.binary_search_by(|folder| folder.path.as_slice().cmp(parent)) else { continue };
            let items = &mut folders[place].items;
            let Ok(at) = items.binary_search_by(|item| item.name.as_slice().cmp(name)) else { continue };
            let stamp_bytes = items[at].stamp.map_or(0, |stamp| stamp.bytes);
            let is_folder = items[at].node.kind == EntryKind::Folder;
            let mut inner = Walked::default();
            let mut share = budget.share();
            let mut fits = share.spend(stamp_bytes);
            let mut tasks = if is_folder { vec![Task { path: path.clone(), rules: None }] } else { Vec::new() };
            while let Some(task) = tasks.pop().filter(|_| fits) {
                match self.look(&task.path, None, device, &mut inner) {
                    Ok(more) => tasks.extend(more),
                    Err(error) => inner.cannot_open(&task.path, &error),
                }
                let looked = inner.folders.last().into_iter().flat_map(|folder| &folder.items);
                fits = looked.map(|item| item.stamp.map_or(0, |stamp| stamp.bytes)).all(|bytes| share.spend(bytes));
            }
            if fits {
                share.keep();
                walked.folders.append(&mut inner.folders);
                walked.notices.append(&mut inner.notices);
            } else {
                walked.folders[place].items[at].leave_out();
                walked
                    .note(&path, if is_folder { NotCovered::LargeIgnoredFolder } else { NotCovered::LargeIgnoredFile });
            }
        }
    }

    /// Reads the content of what the cache does not know.
    fn read_all(&self, scan: &mut Scan) -> Result<(), SnapshotError> {
        let mut jobs = Vec::new();
        for (place, folder) in scan.folders.iter().enumerate() {
            for (at, item) in folder.items.iter().enumerate() {
                match item.seen {
                    Seen::Unread => jobs.push((place, at)),
                    Seen::Known if item.stamp.is_some() => scan.known += 1,
                    Seen::Known | Seen::Gone => {}
                }
            }
        }
        scan.read = jobs.len();
        let next = AtomicUsize::new(0);
        let folders = &scan.folders;
        let work = || {
            let mut done = Vec::new();
            while let Some(&(place, at)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let item = &folders[place].items[at];
                let path = self.workspace.join(path_of(&join(&folders[place].path, &item.name)));
                self.progress.fetch_add(1, Ordering::Relaxed);
                done.push((place, at, self.read(&path, item.node.kind)?));
            }
            Ok(done)
        };
        let done = in_parallel(threads_for(jobs.len()), &work)?;
        for (place, at, content) in done {
            let folder = &mut scan.folders[place];
            let item = &mut folder.items[at];
            let why = match content {
                Content::Object(oid) => {
                    (item.node.oid, item.seen) = (oid, Seen::Known);
                    continue;
                }
                Content::Gone => {
                    item.seen = Seen::Gone;
                    continue;
                }
                Content::Large(bytes) => NotCovered::LargeFile { bytes },
                Content::Unreadable(error) => NotCovered::Unreadable { error },
            };
            item.leave_out();
            scan.notices.push(Uncovered { path: path_of(&join(&folder.path, &item.name)), why });
        }
        scan.folders.iter_mut().for_each(|folder| folder.items.retain(|item| item.seen != Seen::Gone));
        Ok(())
    }

    fn read(&self, path: &Path, kind: EntryKind) -> Result<Content, SnapshotError> {
        let content = match kind {
            EntryKind::Link => readlinkat(CWD, path, Vec::new()).map(CString::into_bytes).map_err(io::Error::from),
            EntryKind::File | EntryKind::Folder | EntryKind::NotCovered => read_file(path),
        };
        let content = match content {
            Ok(content) => content,
            Err(error) if is_something_else_now(&error) => return Ok(Content::Gone),
            Err(error) => return Ok(Content::Unreadable(error.to_string())),
        };
        if content.len() as u64 > SNAPSHOT_FILE_BYTES {
            return Ok(Content::Large(content.len() as u64));
        }
        let oid = Oid::of(ObjectKind::Blob, &content);
        if !self.store.has(oid) && !self.seed.is_some_and(|seed| seed.give(self.store, oid)) {
            self.store.put(oid, ObjectKind::Blob, &content)?;
        }
        Ok(Content::Object(oid))
    }
}

impl Scan {
    /// Leaves out the largest files, so that the others have no more bytes than this. Which ones these are follows from the
    /// sizes alone, and it is told in one notice.
    fn leave_out_the_largest(&mut self, most: u64) {
        let mut sizes: Vec<u64> =
            self.folders.iter().flat_map(|folder| folder.items.iter().filter_map(Item::file_bytes)).collect();
        if sizes.iter().sum::<u64>() <= most {
            return;
        }
        sizes.sort_unstable();
        let mut sum = 0;
        let too_large = sizes.into_iter().find(|bytes| {
            sum += bytes;
            sum > most
        });
        let (mut files, mut bytes, mut within) = (0, 0, None::<Vec<u8>>);
        for folder in &mut self.folders {
            for item in &mut folder.items {
                let Some(size) = item.file_bytes().filter(|size| Some(*size) >= too_large) else { continue };
                item.leave_out();
                files += 1;
                bytes += size;
                let first = within.get_or_insert_with(|| folder.path.clone());
                while !first.is_empty()
                    && *first != folder.path
                    && !folder.path.starts_with(&[first.as_slice(), b"/"].concat())
                {
                    *first = split(first).0.to_vec();
                }
            }
        }
        let path = path_of(&within.unwrap_or_default());
        self.notices.push(Uncovered { path, why: NotCovered::BeyondLimit { files, bytes, most } });
    }
}

enum Content {
    Object(Oid),
    Gone,
    Large(u64),
    Unreadable(String),
}

/// A folder to look at.
struct Task {
    path: Vec<u8>,
    /// `None` where everything is ignored.
    rules: Option<Rules>,
}

#[derive(Debug, Default)]
struct Walked {
    folders: Vec<Folder>,
    notices: Vec<Uncovered>,
    ignored: Vec<Vec<u8>>,
}

impl Walked {
    fn note(&mut self, path: &[u8], why: NotCovered) {
        self.notices.push(Uncovered { path: path_of(path), why });
    }

    /// A folder that went away is nothing to tell; its parent will have no object for it and leave it out.
    fn cannot_open(&mut self, path: &[u8], error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.note(path, NotCovered::Unreadable { error: error.to_string() });
        }
    }
}

/// So many folders are walked by one thread before others help.
const FEW_FOLDERS: usize = 32;

/// The parallel part of a scan: a stack of folders, and threads that take from it until nobody can add to it.
struct Walk<'w> {
    scanner: &'w Scanner<'w>,
    device: u64,
    todo: Mutex<Todo>,
    changed: Condvar,
    entries: AtomicUsize,
}

struct Todo {
    tasks: Vec<Task>,
    at_work: usize,
}

impl<'w> Walk<'w> {
    fn new(scanner: &'w Scanner<'w>, device: u64) -> Self {
        let root = Task { path: Vec::new(), rules: Some(Rules::above(scanner.workspace)) };
        let todo = Mutex::new(Todo { tasks: vec![root], at_work: 0 });
        Self { scanner, device, todo, changed: Condvar::new(), entries: AtomicUsize::new(0) }
    }

    fn run(&self) -> Result<Walked, SnapshotError> {
        // Most workspaces are walked sooner than a thread is started.
        let first = self.work(Some(FEW_FOLDERS))?;
        let left = self.todo().tasks.len();
        let mut parts = match left {
            0 => Vec::new(),
            _ => in_parallel(threads_for(usize::MAX), &|| self.work(None).map(|walked| vec![walked]))?,
        };
        parts.push(first);
        if self.entries.load(Ordering::Relaxed) > SNAPSHOT_ENTRIES {
            return Err(SnapshotError::TooManyFiles { most: SNAPSHOT_ENTRIES });
        }
        let mut all = Walked::default();
        for mut part in parts {
            all.folders.append(&mut part.folders);
            all.notices.append(&mut part.notices);
            all.ignored.append(&mut part.ignored);
        }
        Ok(all)
    }

    /// Walks all there is, or at most so many folders.
    fn work(&self, most: Option<usize>) -> Result<Walked, SnapshotError> {
        let mut walked = Walked::default();
        while most.is_none_or(|most| walked.folders.len() < most)
            && let Some(task) = self.take()
        {
            let looked = self.scanner.look(&task.path, task.rules.as_ref(), self.device, &mut walked);
            let new = match looked {
                Ok(new) => new,
                Err(error) if task.path.is_empty() => {
                    self.give(Vec::new());
                    return Err(SnapshotError::Workspace { path: self.scanner.workspace.to_owned(), source: error });
                }
                Err(error) => {
                    walked.cannot_open(&task.path, &error);
                    self.give(Vec::new());
                    continue;
                }
            };
            let more = walked.folders.last().map_or(0, |folder| folder.items.len());
            let entries = self.entries.fetch_add(more, Ordering::Relaxed) + more;
            self.give(if entries > SNAPSHOT_ENTRIES { Vec::new() } else { new });
        }
        Ok(walked)
    }

    fn take(&self) -> Option<Task> {
        let mut todo = self.todo();
        loop {
            if let Some(task) = todo.tasks.pop() {
                todo.at_work += 1;
                return Some(task);
            }
            if todo.at_work == 0 {
                return None;
            }
            todo = self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, new: Vec<Task>) {
        let mut todo = self.todo();
        todo.at_work -= 1;
        // Most folders have no folders in them: then there is nobody to wake, until all is done.
        let wake = !new.is_empty() || todo.at_work == 0;
        todo.tasks.extend(new);
        drop(todo);
        if wake {
            self.changed.notify_all();
        }
    }

    fn todo(&self) -> MutexGuard<'_, Todo> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many threads are worth it for so many jobs that keep a core busy.
fn threads_for(jobs: usize) -> usize {
    /// More only wait for the same disk.
    const MOST_THREADS: usize = 8;
    /// A thread is not worth fewer jobs.
    const FEW: usize = 4;
    /// Asking costs six files of the kernel.
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    let wanted = jobs.div_ceil(FEW).min(MOST_THREADS);
    if wanted <= 1 { 1 } else { wanted.min(*CORES) }
}

/// Does the same on some threads, this one among them, and gives all results, or one of the errors.
pub(super) fn in_parallel<T: Send>(
    threads: usize,
    work: &(dyn Fn() -> Result<Vec<T>, SnapshotError> + Sync),
) -> Result<Vec<T>, SnapshotError> {
    if threads <= 1 {
        return work();
    }
    std::thread::scope(|scope| {
        // Where there is no room for more threads, fewer do the same.
        let others: Vec<_> =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut all = work()?;
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// The path of a name in a folder.
pub(super) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// The folder of a path, and its name there.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// A file's content, and one byte more than is covered if it is too large.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    read_open(File::from(open(path, flags, Mode::empty())?))
}

/// As [`read_file`], in a folder that is open.
pub(super) fn read_file_in(folder: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    read_open(File::from(openat(folder, name, flags, Mode::empty())?))
}

/// A link where a file was, or nothing: it changed while we looked, and the next look will see it.
fn is_something_else_now(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::NotFound || matches!(errno, Some(Errno::LOOP | Errno::INVAL | Errno::NOTDIR))
}

fn read_open(file: File) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut content = Vec::with_capacity(found.len().min(SNAPSHOT_FILE_BYTES) as usize + 1);
    file.take(SNAPSHOT_FILE_BYTES + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Names that no snapshot has: git's, and files that a tool of ours is just writing.
pub(super) fn is_ours_or_gits(name: &[u8]) -> bool {
    let unfinished = name.starts_with(b".piton-") && name.ends_with(b".tmp");
    unfinished || matches!(name, b"." | b".." | b".git")
}

/// The store and whatever else is to be left out, as paths from the workspace.
pub(super) fn within(workspace: &Path, folders: &[PathBuf]) -> Vec<Vec<u8>> {
    let real = folders.iter().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone()));
    let inner = real.filter_map(|folder| Some(folder.strip_prefix(workspace).ok()?.to_owned()));
    inner.map(|inner| std::os::unix::ffi::OsStrExt::as_bytes(inner.as_os_str()).to_vec()).collect()
}
