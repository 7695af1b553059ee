//! The way of each path through the states that a restore leads it: where it starts, and where it shall be.
//!
//! ```text
//!   legs    from ─▶ to, from ─▶ to, …      one for each stretch in which nobody else changed anything
//!   start   what was there when the restore began, on its first attempt
//!   goal    what shall be there: through each leg whose `from` it is in; where somebody changed it, it stays
//! ```
//!
//! Start and goal follow from snapshots alone, so a restore that was cut off has the same when it is done again, and what
//! is there then is the start, the goal, something of ours between the two, or somebody else's.

use super::compare::{Comparison, Difference};
use super::object::{Entry, Node};
use super::scan::split;
use super::store::Store;
use super::workspace::is_just_made;
use super::{ChangeKind, EntryKind, Leg, SnapshotError, TreeId};
use std::collections::{BTreeMap, HashMap};

/// What the legs have differently, by path, and the paths of which one of the snapshots knows nothing.
pub(super) struct Routes {
    pub(super) paths: BTreeMap<Vec<u8>, Vec<Difference>>,
    pub(super) not_covered: Vec<Vec<u8>>,
}

impl Routes {
    pub(super) fn of(store: &Store, legs: &[Leg]) -> Result<Self, SnapshotError> {
        let mut routes = Self { paths: BTreeMap::new(), not_covered: Vec::new() };
        for leg in legs {
            let comparison = Comparison::of(store, leg.from, leg.to)?;
            for difference in comparison.differences {
                routes.paths.entry(difference.path.clone()).or_default().push(difference);
            }
            routes.not_covered.extend(comparison.not_covered);
        }
        routes.not_covered.sort();
        routes.not_covered.dedup();
        Ok(routes)
    }
}

/// Where a path is led.
pub(super) struct Goal {
    pub(super) node: Option<Node>,
    /// What somebody did to it, so that a leg did not find what it expects.
    pub(super) since: Option<ChangeKind>,
}

impl Goal {
    /// Where these legs lead what is there at the start. With `overwrite` they do so whatever that is.
    pub(super) fn of(legs: &[Difference], start: Option<Node>, overwrite: bool) -> Self {
        let mut goal = Self { node: start, since: None };
        for leg in legs.iter() {
            if is_as(leg, goal.node, leg.after) {
                continue;
            }
            let is_expected = is_as(leg, goal.node, leg.before);
            if !is_expected {
                goal.since = goal.since.or(Some(since(leg.before, goal.node)));
            }
            if is_expected || overwrite {
                goal.node = leg.after;
            }
        }
        goal
    }
}

/// Whether this is there. What is in a folder is not asked.
pub(super) fn is_same(node: Option<Node>, now: Option<Node>) -> bool {
    match (node, now) {
        (Some(node), Some(now)) if node.kind == EntryKind::Folder && now.kind == EntryKind::Folder => {
            node.permissions == now.permissions
        }
        _ => node == now,
    }
}

/// Whether what is there is still as it was at the start, for somebody who is about to make it the goal. What becomes of
/// a folder's permissions does not matter where the folder goes.
pub(super) fn is_untouched(start: Option<Node>, goal: Option<Node>, now: Option<Node>) -> bool {
    is_same(start, now) || is_folder(start) && is_folder(now) && !is_folder(goal)
}

/// Whether what is there is what a restore leaves that is cut off between the two: where a file becomes a folder, or the
/// other way round, nothing is there for a while, and then a folder that has its permissions still to come.
pub(super) fn is_half_done(start: Option<Node>, goal: Option<Node>, now: Option<Node>) -> bool {
    match now {
        None => start.is_some() && goal.is_some() && is_folder(start) != is_folder(goal),
        Some(now) => is_just_made(now) && is_folder(goal) && !is_folder(start),
    }
}

/// What was done to a path that was as in the snapshot.
pub(super) fn since(before: Option<Node>, now: Option<Node>) -> ChangeKind {
    match (before, now) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Deleted,
        (Some(before), Some(now)) if before.kind != now.kind => ChangeKind::Replaced,
        (Some(before), Some(now)) if before.oid == now.oid || now.kind == EntryKind::Folder => ChangeKind::Permissions,
        (Some(_), Some(_)) => ChangeKind::Modified,
    }
}

/// Whether a path is as one of a leg's two snapshots has it. A folder's permissions count only where these differ in
/// nothing else: whoever made the folder again, or filled it, need not have guessed them.
fn is_as(leg: &Difference, there: Option<Node>, node: Option<Node>) -> bool {
    let only_permissions = is_folder(leg.before) && is_folder(leg.after);
    is_same(node, there) || is_folder(node) && is_folder(there) && !only_permissions
}

pub(super) fn is_folder(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.kind == EntryKind::Folder)
}

/// A snapshot that is asked path by path.
pub(super) struct Tree<'s> {
    store: &'s Store,
    id: TreeId,
    folders: HashMap<Vec<u8>, Folder>,
}

enum Folder {
    Entries(Vec<Entry>),
    NotCovered,
}

impl<'s> Tree<'s> {
    pub(super) fn new(store: &'s Store, id: TreeId) -> Self {
        Self { store, id, folders: HashMap::new() }
    }

    /// What the snapshot has at a path.
    pub(super) fn node(&mut self, path: &[u8]) -> Result<Option<Node>, SnapshotError> {
        let (folder, name) = split(path);
        if !self.folders.contains_key(folder) {
            let found = self.look(folder)?;
            self.folders.insert(folder.to_vec(), found);
        }
        Ok(match self.folders.get(folder) {
            Some(Folder::Entries(entries)) => {
                let place = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
                place.ok().map(|place| entries[place].node)
            }
            Some(Folder::NotCovered) => Some(Node::NOT_COVERED),
            None => None,
        })
    }

    fn look(&mut self, folder: &[u8]) -> Result<Folder, SnapshotError> {
        if folder.is_empty() {
            return self.store.root_tree(self.id).map(Folder::Entries);
        }
        Ok(match self.node(folder)? {
            Some(node) if node.kind == EntryKind::Folder => Folder::Entries(self.store.tree(node.oid)?),
            Some(node) if node.kind == EntryKind::NotCovered => Folder::NotCovered,
            Some(_) | None => Folder::Entries(Vec::new()),
        })
    }
}
