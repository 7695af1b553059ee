//! What a walk of the workspace sees: folders, the entries in them, and by which stamp an entry is taken as unchanged.

use super::EntryKind;
use super::object::{Node, Oid, PERMISSIONS};
use rustix::fs::{FileType, Stat};

/// By what a file's content is taken to be the same as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) kind: EntryKind,
    pub(super) permissions: u32,
    pub(super) bytes: u64,
    pub(super) inode: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, u32),
    pub(super) changed: (i64, u32),
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::NotCovered,
        };
        Self {
            kind,
            permissions: if kind == EntryKind::Link { 0 } else { stat.st_mode & PERMISSIONS },
            bytes: stat.st_size.try_into().unwrap_or(0),
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }
}

/// A folder that was looked at.
#[derive(Debug)]
pub(super) struct Folder {
    /// From the workspace; empty for the workspace itself.
    pub(super) path: Vec<u8>,
    /// Sorted by name.
    pub(super) items: Vec<Item>,
}

/// A name in it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: Vec<u8>,
    /// The object of a folder is not known yet.
    pub(super) node: Node,
    /// For files and links.
    pub(super) stamp: Option<Stamp>,
    pub(super) seen: Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The object is known, or there is none to know.
    Known,
    /// The content is to be read.
    Unread,
    /// It went away meanwhile.
    Gone,
}

impl Item {
    pub(super) fn new(name: Vec<u8>, stamp: Stamp, known: Option<Oid>) -> Self {
        let node = Node { kind: stamp.kind, permissions: stamp.permissions, oid: known.unwrap_or(Oid::NONE) };
        match stamp.kind {
            EntryKind::File | EntryKind::Link => {
                let seen = if known.is_some() { Seen::Known } else { Seen::Unread };
                Self { name, node, stamp: Some(stamp), seen }
            }
            EntryKind::Folder | EntryKind::NotCovered => Self { name, node, stamp: None, seen: Seen::Known },
        }
    }

    /// A name of which nothing more is to be known.
    pub(super) fn not_covered(name: Vec<u8>) -> Self {
        Self { name, node: Node::NOT_COVERED, stamp: None, seen: Seen::Known }
    }

    /// The size of a file that is covered.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.stamp.filter(|stamp| stamp.kind == EntryKind::File).map(|stamp| stamp.bytes)
    }

    pub(super) fn leave_out(&mut self) {
        (self.node, self.stamp, self.seen) = (Node::NOT_COVERED, None, Seen::Known);
    }
}
