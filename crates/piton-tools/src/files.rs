//! The files that tools read and change: the port behind `read`, `write` and `edit`.
//!
//! [`crate::disk::Disk`] is the machine's disk; an editor's buffers can stand in, so that a model reads what a person sees
//! before it is saved. `piton_testkit::files` holds what every implementation must keep. `grep` and `glob` search the disk:
//! no other place can be searched as fast, and what is unsaved is a handful of files. Which file a model means, and whether
//! it may change it, is not known here.

use piton_core::ids::CallId;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files by their absolute paths. Its methods may block.
pub trait Files: Send + Sync {
    /// The file itself, through all links, whether or not it exists yet: the one name by which it is known.
    fn real(&self, path: &Path) -> io::Result<PathBuf>;

    /// What is there; `None`: nothing.
    fn look(&self, path: &Path) -> io::Result<Option<Found>>;

    /// The content of a file, from its beginning. Must not wait where the file has become a pipe.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// The names in a folder, in no order, and which are folders; of a huge folder no more than so many.
    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>>;

    /// Puts a new content in place for a call, with the folders it needs: whole or not at all, durably, and not before
    /// [`Files::begun`] would tell of it.
    fn replace(&self, call: &CallId, change: &Replacement, content: &[u8]) -> io::Result<()>;

    /// What a call had begun to replace in a process that is gone. What its attempt left unfinished is removed.
    fn begun(&self, call: &CallId) -> Option<Replacement>;
}

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A file of this many bytes.
    File {
        /// How many.
        bytes: u64,
    },
    /// A folder.
    Folder,
    /// A device, pipe or socket, or a link that leads nowhere.
    Other,
}

/// A change of a file's content. Its hashes tell, whenever somebody looks, whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The file, through all links.
    pub path: PathBuf,
    /// The hash of the content that goes; `None`: there was no file.
    pub before: Option<String>,
    /// The hash of the content that comes.
    pub after: String,
}
