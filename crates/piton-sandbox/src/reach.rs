//! What a command may reach: plain data, made by whoever knows the machine and the session.

use serde::{Deserialize, Serialize};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// What a command may reach. Paths are absolute and real: no link leads on from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The folder that it works in.
    pub workspace: PathBuf,
    /// Whether it may change the workspace.
    pub write: Write,
    /// The user's home. It is not there for the command, but for toolchains, caches and the workspace in it.
    pub home: PathBuf,
    /// A folder of the session, for whoever runs commands alone: the command's own home, `/tmp` and what it writes to caches.
    pub private: PathBuf,
    /// Folders that programs are found in.
    pub path: Vec<PathBuf>,
    /// More that it may read.
    pub read: Vec<PathBuf>,
    /// What it must not see, wherever it lies: the session's journal, keys, the list of trust.
    pub hidden: Vec<PathBuf>,
    /// What it may use of the machine.
    pub limits: Limits,
    /// What it reaches of the network.
    pub network: Network,
}

impl Reach {
    /// Makes the folders of the session's own, readable by their owner alone.
    pub fn make_private(&self) -> io::Result<()> {
        for name in ["root", "home", "tmp"] {
            DirBuilder::new().recursive(true).mode(0o700).create(self.private.join(name))?;
        }
        Ok(())
    }
}

/// Whether a command may change the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Write {
    /// It may.
    Workspace,
    /// It may change nothing but its own home and `/tmp`.
    Nothing,
}

/// What a command reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Nothing but its own `lo`.
    None,
    /// Besides, whatever accepts connections at a socket that listens on [`PROXY_PORT`] of `lo`. It is handed out when the
    /// sandbox is ready ([`crate::Sandbox::wait_until_ready`]); no process in the sandbox holds it.
    Proxy,
}

/// The TCP port of that socket, at 127.0.0.1 of the sandbox. Every sandbox has a `lo` of its own, so it is always free, and it is
/// below the ports that a kernel gives out by itself.
pub const PROXY_PORT: u16 = 21_128;

/// What a command may use of the machine; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Bytes of address space of one process.
    pub memory_bytes: Option<u64>,
    /// Bytes of one file.
    pub file_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: Some(512), memory_bytes: None, file_bytes: None }
    }
}
