//! What stands where in a sandbox: the entries of a [`crate::Plan`].

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Something at a path of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where: an absolute path without links.
    pub at: PathBuf,
    /// What.
    pub source: Source,
}

/// What may be done with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it is not there.
    None,
    /// It may be read.
    Read,
    /// It may be read and changed.
    Write,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// What is at this path of the machine, and whether it may be changed.
    Machine {
        /// The path.
        from: PathBuf,
        /// Whether it may be changed.
        write: bool,
    },
    /// The same for reading; what is written to it ends with the sandbox.
    Cache {
        /// The path.
        from: PathBuf,
    },
    /// A link that leads here.
    Link(PathBuf),
    /// An empty folder that cannot be written to.
    EmptyFolder,
    /// An empty file that cannot be written to.
    EmptyFile,
    /// The processes of the sandbox.
    Processes,
    /// Devices that every program may use.
    Devices,
    /// The names in a folder; what may be done with each of them is said for itself. Only under [`crate::Backend::Landlock`].
    Names,
}
