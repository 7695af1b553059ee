//! Opens what a hostile tree may have links in: what lies at a path, or nothing.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
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
    let named = entries.filter_map(|entry| {
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
    });
    named.collect()
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
