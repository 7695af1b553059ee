//! Folders by what they are and not by their names: each name on the way is opened within the one before, and none may be a link. Who
//! puts a link in the way while a file is written gets an error, and nothing is written where the link leads.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// What is opened is what was named.
const AS_NAMED: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Something open, which is reached by its descriptor.
#[derive(Debug)]
pub struct Opened(OwnedFd);

impl Opened {
    /// A name that leads to just this, as long as it is open.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// What is at an absolute path in which no name is a link.
pub(super) fn at(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat2(CWD, path, flags, Mode::empty(), AS_NAMED).map(Opened).map_err(by_link)
}

/// The folder at an absolute path in which no name is a link.
pub fn there(path: &Path) -> io::Result<Opened> {
    walk(path, &mut |_, _| Err(Errno::NOENT))
}

/// The same, made where it is not there, with those above it.
pub(super) fn made(path: &Path) -> io::Result<Opened> {
    walk(path, &mut |above, name| match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    })
}

/// Goes down name by name; `missing` makes what is not there, or says why not.
fn walk(path: &Path, missing: &mut dyn FnMut(&OwnedFd, &Path) -> Result<(), Errno>) -> io::Result<Opened> {
    let mut folder = step(CWD, Path::new("/"))?;
    for part in path.components() {
        let Component::Normal(name) = part else { continue };
        let name = Path::new(name);
        folder = match step(&folder, name) {
            Err(Errno::NOENT) => {
                missing(&folder, name)?;
                step(&folder, name).map_err(by_link)?
            }
            other => other.map_err(by_link)?,
        };
    }
    Ok(Opened(folder))
}

fn step(within: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    match openat2(&within, name, FOLDER, Mode::empty(), AS_NAMED) {
        // Kernels before 5.6, and containers that do not know the call. For a single name the older one does as much.
        Err(Errno::NOSYS | Errno::PERM) => openat(&within, name, FOLDER, Mode::empty()),
        other => other,
    }
}

/// A link where none was a moment ago: the newer call says so, the older one that it is no folder.
fn by_link(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::new(io::ErrorKind::PermissionDenied, "a link was put in its way while it was opened"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Disk;
    use super::*;
    use crate::files::{Files as _, Replacement};
    use rustix::fs::{RenameFlags, renameat_with};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_folder_that_is_swapped_for_a_link_while_it_writes_leads_no_write_out() {
        /// So many that a write by name would be led out some dozen times.
        const TRIES: usize = 300;
        /// So many more until one was met by a swap and one was not, whatever else the machine is at.
        const MOST_TRIES: usize = 300_000;
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        for name in ["workspace/sub", "outside", "calls"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        symlink(path("outside"), path("workspace/link")).unwrap();
        let disk = Disk::new(path("calls"));
        let change = Replacement { path: path("workspace/sub/new"), before: None, after: None, rights: None };
        let is_over = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (sub, link) = (path("workspace/sub"), path("workspace/link"));
                    renameat_with(CWD, &sub, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let (mut written, mut tries) = (0, 0);
            while tries < TRIES || (tries < MOST_TRIES && (written == 0 || written == tries)) {
                let text: Option<&[u8]> = if tries % 2 == 0 { Some(b"new") } else { None };
                written += usize::from(disk.put(&"c1_0".into(), &change, text).is_ok());
                tries += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            (written, tries)
        });
        assert_eq!(fs::read_dir(path("outside")).unwrap().count(), 0, "a write was led out");
        let (written, tries) = written;
        assert!(written > 0 && written < tries, "{written} of {tries}: it was swapped while it wrote");
    }

    #[test]
    fn folders_are_made_on_the_way_and_none_is_made_to_remove() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let disk = Disk::new(root.join("calls"));
        let change = Replacement { path: root.join("a/b/c"), before: None, after: None, rights: None };
        disk.put(&"c1_0".into(), &change, None).unwrap();
        assert!(!root.join("a").exists());
        disk.put(&"c1_0".into(), &change, Some(b"new")).unwrap();
        assert_eq!(fs::read(root.join("a/b/c")).unwrap(), b"new");
    }
}
