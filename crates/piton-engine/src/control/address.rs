//! The path of the control socket, within the length limit of a socket address.

use crate::store::Store;
use piton_core::ids::SessionId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a path that every system takes as a socket's address: Linux has room for 107, macOS for 103.
const LONGEST: usize = 103;

/// Its name in the session's scratch folder.
const SOCKET: &str = "control.sock";

/// Where a session's writer listens to other processes.
pub(super) fn socket(store: &dyn Store, session: &SessionId) -> PathBuf {
    store.scratch(session).join(SOCKET)
}

/// A path to the socket, for as long as this lives.
pub(super) struct Address {
    path: PathBuf,
    /// The folder behind the path, where the path goes through it.
    _folder: Option<File>,
}

impl Address {
    /// The address of a session's socket. One whose path is too long is reached through an open folder where the system
    /// has a name for that (Linux); elsewhere such a session cannot be reached.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= LONGEST {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        through_folder(socket)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn through_folder(socket: &Path) -> io::Result<Address> {
    use std::os::fd::AsRawFd;
    let folder = File::open(socket.parent().unwrap_or(socket))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET);
    Ok(Address { path, _folder: Some(folder) })
}

#[cfg(not(target_os = "linux"))]
fn through_folder(socket: &Path) -> io::Result<Address> {
    let text = format!("{} is too long a path for a socket; keep sessions in a shorter one", socket.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
