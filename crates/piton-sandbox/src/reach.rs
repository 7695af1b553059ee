//! What a command may reach: plain data, made by whoever knows the machine and the session.

use crate::carried::Carried;
use crate::home;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What a command may reach. Paths are absolute and real: no link leads on from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// What holds it to all this.
    pub backend: Backend,
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
    /// Folders outside of the workspace that it may change: what a plugin's hooks keep.
    #[serde(default)]
    pub keep: Vec<PathBuf>,
    /// What it must not see, wherever it lies: the session's journal, keys, the list of trust.
    pub hidden: Vec<PathBuf>,
    /// Of the user's settings: files of its own home, put there once, and again when they are others.
    pub carried: Vec<Carried>,
    /// Protected files that a person lets Piton's own tools change, this once. No command goes by it.
    pub approved: Vec<PathBuf>,
    /// What it may use of the machine.
    pub limits: Limits,
    /// What it reaches of the network.
    pub network: Network,
}

impl Reach {
    /// Where the command's home, `/tmp` and the like are: what its environment has to say.
    pub(crate) fn settle(&self, env: &mut Vec<(OsString, OsString)>) {
        /// Folders and a file of the user's, which are elsewhere in the sandbox or not there.
        const ELSEWHERE: [&str; 6] = [
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
            "GIT_CONFIG_GLOBAL",
        ];
        env.retain(|(name, _)| !ELSEWHERE.iter().any(|other| name == other));
        let (home, tmp) = match self.backend {
            Backend::Namespaces => (self.home.clone(), PathBuf::from("/tmp")),
            // Nothing can be put in the place of something else.
            Backend::Landlock => (self.private.join("home"), self.private.join("tmp")),
        };
        let mut set = |name: &str, value: OsString| {
            env.retain(|(other, _)| other != name);
            env.push((name.into(), value));
        };
        set("HOME", home.into());
        set("TMPDIR", tmp.into());
        // Nobody else's files can be made in it, and an archive must not fail for that.
        if rustix::process::getuid().is_root() {
            set("TAR_OPTIONS", "--no-same-owner".into());
        }
    }

    /// Makes the folders of the session's own, readable by their owner alone.
    pub fn make_private(&self) -> io::Result<()> {
        for name in ["root", "home", "tmp"] {
            make_folder(&self.private.join(name))?;
        }
        self.furnish()
    }

    /// Puts what is carried into the command's own home. What was put there already is the session's to change.
    fn furnish(&self) -> io::Result<()> {
        for carried in &self.carried {
            // No command reaches this one.
            let put = self.private.join("carried").join(&carried.at);
            if fs::read(&put).is_ok_and(|text| text == carried.text.as_bytes()) {
                continue;
            }
            // It is a comfort; what a command has put in the way stays.
            let _ = home::open(&self.private.join("home")).and_then(|home| home::write(&home, carried));
            make_folder(put.parent().unwrap_or(&self.private))?;
            fs::write(&put, &carried.text)?;
        }
        Ok(())
    }
}

/// A folder with those above it, readable by its owner alone.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// What holds a command to its reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Namespaces of its own, in which what it does not reach does not exist; Landlock and seccomp besides.
    Namespaces,
    /// Landlock and seccomp alone, where namespaces cannot be had. What is not granted is there, and refused; there are no
    /// sockets, and a git folder is read-only.
    Landlock,
}

impl Backend {
    /// All, the stronger first.
    pub const ALL: [Self; 2] = [Self::Namespaces, Self::Landlock];

    /// Its word, as in files and flags.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
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

/// The TCP port of that socket, at 127.0.0.1 of the sandbox, and below the ports that a kernel gives out by itself. Where sandboxes
/// share a network and one has it, the next has a port that the kernel gives out.
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
