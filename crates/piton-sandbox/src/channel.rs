//! What runner and first process tell each other, a line of JSON each, over a pair of sockets.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A command that is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The program as an absolute path in the sandbox, or a name to be found in `PATH`; then its arguments.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
}

/// How a command ended, or that it could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// It could not be started: whether its program was not found, and why.
    NotStarted {
        /// There is no such program.
        not_found: bool,
        /// Why.
        error: String,
    },
}

/// What the first process says while it sets up.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setup {
    /// All layers hold.
    Ready,
    /// One does not.
    Failed(String),
}

/// Longest message: an environment and a command line that the kernel takes.
const MOST_BYTES: usize = 16 << 20;

/// Sends a message.
pub(crate) fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Waits for the next message; `None`: the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let mut piece = [0; 4_096];
    // Nobody says two things before the other has answered, so what comes ends with a line.
    while line.last() != Some(&b'\n') {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&piece[..read]);
        if line.len() > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
