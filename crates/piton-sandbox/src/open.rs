//! Opens what a hostile tree may have links in: what lies at a path, or nothing.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// What lies at a path of the machine, reached through no link.
pub(crate) fn open_as_named(path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// A folder below another, reached through no link.
pub(crate) fn open_below(root: &OwnedFd, path: &Path) -> Option<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags, Mode::empty(), strict).ok()
}

/// What is in a folder, and of what kind; a link is a link.
pub(crate) fn names(folder: &OwnedFd) -> Vec<(OsString, FileType)> {
    let entries = Dir::read_from(folder).ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| named(folder, &entry)).collect()
}

/// Entries of a folder that are read at once.
pub(crate) const SLICE: usize = 4_096;

/// The same of one slice of a folder, from its beginning or where an earlier slice ended; and where this one did, if there is more.
pub(crate) fn names_from(folder: &OwnedFd, from: Option<i64>) -> (Vec<(OsString, FileType)>, Option<i64>) {
    let mut found = Vec::new();
    let Ok(mut entries) = Dir::read_from(folder) else { return (found, None) };
    if from.is_some_and(|from| entries.seek(from).is_err()) {
        return (found, None);
    }
    while let Some(Ok(entry)) = entries.read() {
        found.extend(named(folder, &entry));
        if found.len() >= SLICE {
            return (found, Some(entry.offset()));
        }
    }
    (found, None)
}

fn named(folder: &OwnedFd, entry: &DirEntry) -> Option<(OsString, FileType)> {
    let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
    let kind = match entry.file_type() {
        // Not every file system says it here.
        FileType::Unknown => {
            let found = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            FileType::from_raw_mode(found.st_mode)
        }
        kind => kind,
    };
    (name != "." && name != "..").then_some((name, kind))
}

/// A path without `.` and `..`, as it reads.
pub(crate) fn plainly(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}
