//! Where the socket is, in the few bytes that a socket's address has.

use crate::journal::SessionDir;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a path that every system takes as a socket's address: Linux has room for 107, macOS for 103.
const LONGEST: usize = 103;

/// A path to the socket, for as long as this lives.
pub(super) struct Address {
    path: PathBuf,
    /// The folder behind the path, where the path goes through it.
    _folder: Option<File>,
}

impl Address {
    /// The address of a session's socket. One whose path is too long is reached through an open folder where the system
    /// has a name for that (Linux); elsewhere such a session cannot be reached.
    pub(super) fn of(dir: &SessionDir) -> io::Result<Self> {
        let path = dir.control_sock();
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path, _folder: None });
        }
        through_folder(dir)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn through_folder(dir: &SessionDir) -> io::Result<Address> {
    use std::os::fd::AsRawFd;
    let folder = File::open(dir.root())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join("control.sock");
    Ok(Address { path, _folder: Some(folder) })
}

#[cfg(not(target_os = "linux"))]
fn through_folder(dir: &SessionDir) -> io::Result<Address> {
    let text = format!("{} is too long a path for a socket; keep sessions in a shorter one", dir.root().display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
