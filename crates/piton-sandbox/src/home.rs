//! The session's own home, as it is furnished from outside: links to the user's toolchains, and what is carried from the user's
//! settings. Commands may change all of this folder at the same moment, so nothing is reached through a link.

use crate::carried::Carried;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Opens the home.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, FOLDER, Mode::empty())?)
}

/// Makes a link in the home and folders above it. What is there already stays.
pub(crate) fn link(home: &OwnedFd, below: &Path, to: &Path) -> io::Result<()> {
    Ok(symlinkat(to, folder_of(home, below)?, below.file_name().unwrap_or_default())?)
}

/// Writes a file in the home, with the folders above it. A file or link of that name is replaced; nobody sees half of it.
pub(crate) fn write(home: &OwnedFd, Carried { at, text }: &Carried) -> io::Result<()> {
    let folder = folder_of(home, at)?;
    let new = format!(".carried-{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let written = openat(&folder, &new, flags, Mode::from_raw_mode(0o600))
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).write_all(text.as_bytes()))
        .and_then(|()| Ok(renameat(&folder, &new, &folder, at.file_name().unwrap_or_default())?));
    if written.is_err() {
        // Of a process that had our number and was killed, or ours: the next start writes it anew.
        let _ = unlinkat(&folder, &new, AtFlags::empty());
    }
    written
}

/// The folder that something below the home is to be in, made where it is not there.
fn folder_of(home: &OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    let mut folder = home.try_clone()?;
    for part in below.parent().unwrap_or(Path::new("")) {
        match mkdirat(&folder, part, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = openat(&folder, part, FOLDER, Mode::empty())?;
    }
    Ok(folder)
}
