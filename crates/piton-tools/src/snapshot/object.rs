//! What a store consists of: contents and folders by the hash of what is in them, in git's own format, so that a store
//! shares objects with the repository of the workspace and `git --git-dir STORE ls-tree -r TREE` shows a snapshot.
//!
//! Two things are said in a tree that git itself would not write: all nine permission bits, and empty folders. What a
//! snapshot does not cover is there too, as the entry git uses for a submodule, so that "not covered" is never taken
//! for "not there".

use super::EntryKind;
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The bits of a mode that are covered: who may read, write and execute.
pub(super) const PERMISSIONS: u32 = 0o777;

/// An object's name: the SHA-1 of its kind, size and content, as git counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Oid(pub(super) [u8; 20]);

impl Oid {
    /// The name in the place of an object that there is none of.
    pub(super) const NONE: Self = Self([0; 20]);

    pub(super) fn of(kind: ObjectKind, content: &[u8]) -> Self {
        let hash = Sha1::new().chain_update(kind.header(content.len())).chain_update(content).finalize();
        Self(hash.into())
    }

    /// `ab` and the other 38 digits, which is where the object lies.
    pub(super) fn folder_and_file(self) -> (String, String) {
        let mut hex = self.to_string();
        let file = hex.split_off(2);
        (hex, file)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Oid {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let mut oid = Self::NONE;
        if text.len() != 2 * oid.0.len() || !text.is_ascii() {
            return Err(NotAnId(text.to_owned()));
        }
        for (place, byte) in oid.0.iter_mut().enumerate() {
            let digits = &text[2 * place..2 * place + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAnId(text.to_owned()))?;
        }
        Ok(oid)
    }
}

/// Which state of the workspace: the same state has the same id. Written as forty hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TreeId(pub(super) Oid);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TreeId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        text.parse().map(Self)
    }
}

impl From<TreeId> for String {
    fn from(id: TreeId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for TreeId {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        text.parse()
    }
}

/// The text is not the id of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a snapshot id (40 hexadecimal digits)")]
pub struct NotAnId(String);

/// The two kinds of object there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ObjectKind {
    /// A file's content, or where a symbolic link points.
    Blob,
    /// A folder.
    Tree,
}

impl ObjectKind {
    /// What stands before the content in an object.
    pub(super) fn header(self, size: usize) -> String {
        let word = match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
        };
        format!("{word} {size}\0")
    }
}

/// Something with a name in a folder, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: EntryKind,
    /// Zero for what has none of its own.
    pub(super) permissions: u32,
    pub(super) oid: Oid,
}

impl Node {
    pub(super) const NOT_COVERED: Self = Self { kind: EntryKind::NotCovered, permissions: 0, oid: Oid::NONE };

    fn mode(self) -> u32 {
        match self.kind {
            EntryKind::File => 0o100_000 | self.permissions,
            EntryKind::Link => 0o120_000,
            EntryKind::Folder => 0o040_000 | self.permissions,
            EntryKind::NotCovered => 0o160_000,
        }
    }
}

/// A name in a folder and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) node: Node,
}

/// A folder as the content of an object.
pub(super) fn write_tree(mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_unstable_by(git_order);
    let mut tree = Vec::with_capacity(entries.iter().map(|entry| entry.name.len() + 28).sum());
    for Entry { name, node } in &entries {
        // Nodes that are not covered have a hash too, or git would not list them.
        let oid = if node.kind == EntryKind::NotCovered { Oid([0xee; 20]) } else { node.oid };
        tree.extend_from_slice(format!("{:o} ", node.mode()).as_bytes());
        tree.extend_from_slice(name);
        tree.push(0);
        tree.extend_from_slice(&oid.0);
    }
    tree
}

/// The entries of a folder, sorted by name; `None` if the content is not a tree.
pub(super) fn read_tree(mut content: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let end = memchr::memchr(0, content)?;
        let (head, rest) = (&content[..end], content.get(end + 1..)?);
        let space = memchr::memchr(b' ', head)?;
        let mode = u32::from_str_radix(std::str::from_utf8(&head[..space]).ok()?, 8).ok()?;
        let oid = Oid(rest.get(..20)?.try_into().ok()?);
        let permissions = mode & PERMISSIONS;
        let node = match mode & 0o170_000 {
            0o100_000 => Node { kind: EntryKind::File, permissions, oid },
            0o120_000 => Node { kind: EntryKind::Link, permissions: 0, oid },
            0o040_000 => Node { kind: EntryKind::Folder, permissions, oid },
            0o160_000 => Node::NOT_COVERED,
            _ => return None,
        };
        let name = &head[space + 1..];
        // A name that would lead elsewhere is never written; one that is read means damage, or worse.
        if name.is_empty() || name == b"." || name == b".." || name == b".git" || name.contains(&b'/') {
            return None;
        }
        entries.push(Entry { name: name.to_vec(), node });
        content = &rest[20..];
    }
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Some(entries)
}

/// By name, where a folder's name ends in a slash.
fn git_order(left: &Entry, right: &Entry) -> Ordering {
    let slash = |entry: &Entry| (entry.node.kind == EntryKind::Folder).then_some(b'/');
    left.name.iter().copied().chain(slash(left)).cmp(right.name.iter().copied().chain(slash(right)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_git_names_them() {
        assert_eq!(Oid::of(ObjectKind::Blob, b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(Oid::of(ObjectKind::Tree, b"").to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }

    #[test]
    fn a_tree_reads_back_with_every_permission_bit() {
        let entry = |name: &str, kind, permissions| Entry {
            name: name.into(),
            node: Node { kind, permissions, oid: Oid::of(ObjectKind::Blob, name.as_bytes()) },
        };
        let mut entries = vec![
            entry("a", EntryKind::Folder, 0o700),
            entry("a.txt", EntryKind::File, 0o640),
            entry("b\n\u{e9}", EntryKind::Link, 0),
        ];
        entries.push(Entry { name: b"node_modules".to_vec(), node: Node::NOT_COVERED });
        assert_eq!(read_tree(&write_tree(entries.clone())), Some(entries));
    }

    #[test]
    fn a_tree_whose_names_lead_elsewhere_is_damaged() {
        for name in [&b".."[..], b".", b"", b"a/b", b".git"] {
            let node = Node { kind: EntryKind::File, permissions: 0o644, oid: Oid::NONE };
            let tree = write_tree(vec![Entry { name: name.to_vec(), node }]);
            assert_eq!(read_tree(&tree), None, "{}", String::from_utf8_lossy(name));
        }
        assert_eq!(read_tree(b"100644 cut"), None);
    }

    #[test]
    fn an_id_is_forty_digits() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        assert_eq!(id.parse::<TreeId>().unwrap().to_string(), id);
        for text in ["", "4b82", "4b825dc642cb6eb9a060e54bf8d69288fbee490g", "é"] {
            text.parse::<TreeId>().unwrap_err();
        }
    }
}
