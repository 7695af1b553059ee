//! What differs between two snapshots. Folders with the same object are not even opened, so this takes as long as there
//! are differences.

use super::EntryKind;
use super::object::{Node, ObjectKind, Oid, TreeId};
use super::scan::join;
use super::store::Store;
use super::{ChangeKind, Lines, PathChange, SnapshotError, path_of};
use crate::diff;
use crate::limits::SNAPSHOT_COUNTED_BYTES;

/// A path where two snapshots differ, and what stands there in each.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) path: Vec<u8>,
    pub(super) before: Option<Node>,
    pub(super) after: Option<Node>,
}

/// All differences, sorted by path, so a folder comes before what is in it; and the paths of which one of the two
/// snapshots knows nothing.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) differences: Vec<Difference>,
    pub(super) not_covered: Vec<Vec<u8>>,
}

impl Comparison {
    pub(super) fn of(store: &Store, before: TreeId, after: TreeId) -> Result<Self, SnapshotError> {
        let mut comparison = Self::default();
        // An id that is unknown is said to be, whatever the other one is.
        store.root_tree(before)?;
        store.root_tree(after)?;
        comparison.folders(store, &[], Some(before.0), Some(after.0))?;
        comparison.differences.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(comparison)
    }

    fn folders(
        &mut self,
        store: &Store,
        path: &[u8],
        before: Option<Oid>,
        after: Option<Oid>,
    ) -> Result<(), SnapshotError> {
        if before == after {
            return Ok(());
        }
        let entries = |oid: Option<Oid>| oid.map_or(Ok(Vec::new()), |oid| store.tree(oid));
        let (before, after) = (entries(before)?, entries(after)?);
        let (mut left, mut right) = (before.into_iter().peekable(), after.into_iter().peekable());
        loop {
            let name = match (left.peek(), right.peek()) {
                (None, None) => return Ok(()),
                (Some(only), None) | (None, Some(only)) => only.name.clone(),
                (Some(one), Some(other)) => one.name.clone().min(other.name.clone()),
            };
            let before = left.next_if(|entry| entry.name == name).map(|entry| entry.node);
            let after = right.next_if(|entry| entry.name == name).map(|entry| entry.node);
            if before != after {
                self.nodes(store, join(path, &name), before, after)?;
            }
        }
    }

    fn nodes(
        &mut self,
        store: &Store,
        path: Vec<u8>,
        before: Option<Node>,
        after: Option<Node>,
    ) -> Result<(), SnapshotError> {
        let is = |node: Option<Node>, kind| node.is_some_and(|node| node.kind == kind);
        if is(before, EntryKind::NotCovered) || is(after, EntryKind::NotCovered) {
            self.not_covered.push(path);
            return Ok(());
        }
        let tree = |node: Option<Node>| node.filter(|node| node.kind == EntryKind::Folder).map(|node| node.oid);
        self.folders(store, &path, tree(before), tree(after))?;
        let both_folders = is(before, EntryKind::Folder) && is(after, EntryKind::Folder);
        if !both_folders || before.map(|node| node.permissions) != after.map(|node| node.permissions) {
            self.differences.push(Difference { path, before, after });
        }
        Ok(())
    }
}

impl Difference {
    /// The difference as people are told of it; `None` for a folder that is there because something is in it.
    pub(super) fn change(&self, store: &Store) -> Option<PathChange> {
        let filled = |node: Option<Node>| {
            node.is_some_and(|node| node.kind == EntryKind::Folder && node.oid != Oid::of(ObjectKind::Tree, b""))
        };
        let kind = match (self.before, self.after) {
            (None, after) if filled(after) => return None,
            (before, None) if filled(before) => return None,
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            (Some(before), Some(after)) if before.kind != after.kind => ChangeKind::Replaced,
            (Some(before), Some(after)) if before.oid == after.oid || after.kind == EntryKind::Folder => {
                ChangeKind::Permissions
            }
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        let what = self.after.or(self.before).map_or(EntryKind::NotCovered, |node| node.kind);
        let path = path_of(&self.path);
        Some(PathChange { path, kind, what, lines: self.lines(store) })
    }

    /// Lines added and removed; `None` where nobody counts them.
    fn lines(&self, store: &Store) -> Option<Lines> {
        let is_text = |content: &[u8]| content.len() <= SNAPSHOT_COUNTED_BYTES && memchr::memchr(0, content).is_none();
        let content = |node: Option<Node>| match node {
            // What is damaged is told by who needs it; a count is not worth failing for.
            Some(node) if node.kind == EntryKind::File => store.get(node.oid, ObjectKind::Blob).ok(),
            Some(_) | None => Some(Vec::new()),
        };
        let is_file = |node: Option<Node>| node.is_some_and(|node| node.kind == EntryKind::File);
        if !is_file(self.before) && !is_file(self.after) {
            return None;
        }
        let (before, after) = (content(self.before)?, content(self.after)?);
        let (added, removed) = (is_text(&before) && is_text(&after)).then(|| diff::count(&before, &after))?;
        Some(Lines { added, removed })
    }
}
