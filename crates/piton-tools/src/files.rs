//! The files of a session: the port behind `read`, `write` and `edit`, behind what a message refers to with `@`, the
//! instruction files of a project, and the ledger of what the model has seen.
//!
//! [`crate::disk::Disk`] is the machine's disk; an editor's buffers can stand in, so that a model reads what a person sees
//! before it is saved. `piton_testkit::files` holds what every implementation must keep. `grep` and `glob` search the disk:
//! no other place can be searched as fast, and what is unsaved is a handful of files. Which file a model means, and whether
//! it may change it, is not known here.

mod withheld;

pub use withheld::Withheld;

use crate::regular::Beginning;
use piton_core::ids::CallId;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files by their absolute paths. Its methods may block.
pub trait Files: Send + Sync {
    /// The file itself, through all links, whether or not it exists yet: the one name by which it is known.
    fn real(&self, path: &Path) -> io::Result<PathBuf>;

    /// What is there; `None`: nothing.
    fn look(&self, path: &Path) -> io::Result<Option<Found>>;

    /// The content of a file, from its beginning. Must not wait, and refuses what is no regular file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// By what a file is taken for unchanged without being read; `None` where that cannot be said.
    fn stamp(&self, path: &Path) -> Option<Stamp>;

    /// The names in a folder, in no order, and which are folders; of a huge folder no more than so many.
    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>>;

    /// Visits what is below a folder: by name, each folder before what is in it, without `.git` and what `.gitignore` and
    /// `.ignore` files ignore. Links are named and not followed; a folder that cannot be read is an error, and passed over.
    fn walk(&self, folder: &Path, visit: &mut Visit<'_>);

    /// Notes durably what a call is about to replace, for [`Files::begun`] to tell. It takes the place of what the same call
    /// noted before.
    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()>;

    /// Puts a new content in place for a call, with the folders it needs, or removes the file where there is none: whole or
    /// not at all, durably. The call has begun it.
    fn put(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()>;

    /// What a call had begun to replace in a process that is gone, in its order. What its attempt left unfinished is removed.
    fn begun(&self, call: &CallId) -> Vec<Replacement>;

    /// Puts a new content in place for a call that changes nothing else, and not before [`Files::begun`] would tell of it.
    fn replace(&self, call: &CallId, change: &Replacement, content: &[u8]) -> io::Result<()> {
        self.begin(call, std::slice::from_ref(change))?;
        self.put(call, change, Some(content))
    }

    /// The rights of a file, as [`Replacement::rights`] has them; `None`: there is none, or that cannot be said.
    fn rights(&self, path: &Path) -> Option<u32> {
        let _ = path;
        None
    }

    /// How many other names (hard links) a file has. They keep the old content when it is replaced.
    fn other_names(&self, path: &Path) -> u64 {
        let _ = path;
        0
    }

    /// The first `most` bytes of a file.
    fn beginning(&self, path: &Path, most: usize) -> io::Result<Beginning> {
        let size = match self.look(path)? {
            Some(Found::File { bytes }) => bytes,
            Some(Found::Folder) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Found::Other) => return Err(io::Error::other("it is not a regular file")),
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Beginning::read(self.open(path)?, size, most)
    }
}

/// Hears of each thing on a walk, and says how it goes on.
pub type Visit<'v> = dyn FnMut(io::Result<(&Path, Found)>) -> Next + 'v;

/// How a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Into the folder, where it is one, and on.
    GoOn,
    /// On, but not into the folder.
    PassOver,
    /// Not at all.
    Stop,
}

/// The state of a file, to be compared with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its size.
    pub bytes: u64,
    /// When it was changed last, or any other number that a change makes another one.
    pub version: u128,
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

impl Found {
    /// What a disk tells of it.
    pub(crate) fn of(meta: &Metadata) -> Self {
        match meta {
            meta if meta.is_dir() => Self::Folder,
            meta if meta.is_file() => Self::File { bytes: meta.len() },
            _ => Self::Other,
        }
    }
}

/// A change of a file's content. Its hashes tell, whenever somebody looks, whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The file, through all links.
    pub path: PathBuf,
    /// The hash of the content that goes; `None`: there was no file.
    pub before: Option<String>,
    /// The hash of the content that comes; `None`: there is no file then.
    pub after: Option<String>,
    /// The rights that the file has then (the lower nine bits of a mode). Without it those of the file that is there, or the
    /// usual ones of a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<u32>,
}
