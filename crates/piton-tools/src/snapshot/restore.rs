//! Bringing a workspace from one snapshot to another.
//!
//! ```text
//!   plan      each path's start and goal beside what is there now: done already, to do, or a conflict
//!   remove    what is to go, from the inside out
//!   make      folders, from the outside in
//!   write     each file under another name beside its own, and onto the disk
//!   rename    each in one step: a file is as it was or as it shall be, never half
//!   permit    permissions of folders, from the inside out
//! ```
//!
//! A restore that was cut off is repeated with the same snapshots: what is done already is seen to be, and what is half
//! done is told from what somebody else did meanwhile (see `route`). One path's failure is reported and stops no other.

use super::compare::Difference;
use super::ignored;
use super::object::{Node, ObjectKind};
use super::route::{Goal, Routes, Tree, is_folder, is_half_done, is_same, is_untouched, since};
use super::scan::{in_parallel, split};
use super::store::Store;
use super::workspace::Workspace;
use super::{ChangeKind, Conflict, EntryKind, Leg, RestoreFailure, Restored, SnapshotError, TreeId, path_of};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// They wait for the disk, which makes many files durable in one go as well as a single one.
const SYNCING_THREADS: usize = 8;

/// How a restore goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestorePolicy {
    /// What to do with what the user changed since.
    pub conflicts: Conflicts,
    /// The workspace as it was when the restore was begun for the first time. `None` where it begins now: then nothing
    /// that is there can be its own.
    pub began: Option<TreeId>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What to do with paths that are in neither of the two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// If there is one that is not ignored, nothing at all is touched; ignored ones stay as they are.
    Stop,
    /// They stay as they are; everything else is restored.
    Skip,
    /// They are restored like everything else. A folder that has something unknown in it stays all the same.
    Overwrite,
}

/// A path that is to be changed.
struct Step {
    path: Vec<u8>,
    start: Option<Node>,
    now: Option<Node>,
    goal: Option<Node>,
    /// What is told of it.
    difference: Difference,
}

struct Restore<'r> {
    store: &'r Store,
    workspace: Workspace,
    report: Restored,
    failed: BTreeSet<Vec<u8>>,
}

pub(super) fn restore(
    store: &Store,
    root: &Path,
    workspace: Workspace,
    legs: &[Leg],
    policy: RestorePolicy,
) -> Result<Restored, SnapshotError> {
    let routes = Routes::of(store, legs)?;
    let not_covered = routes.not_covered.iter().map(|path| path_of(path)).collect();
    let report = Restored { not_covered, ..Restored::default() };
    let mut restore = Restore { store, workspace, report, failed: BTreeSet::new() };
    let steps = restore.plan(root, &routes, policy)?;
    let is_stopping = |conflict: &Conflict| !conflict.ignored;
    let stopped = policy.conflicts == Conflicts::Stop && restore.report.conflicts.iter().any(is_stopping);
    if !policy.dry_run && !stopped {
        restore.clear(&routes);
        restore.remove(&steps);
        restore.make(&steps);
        restore.write(&steps)?;
        restore.permit(&steps);
        restore.sync(&steps)?;
    }
    if !stopped || policy.dry_run {
        for step in &steps {
            let kept = restore.report.kept.contains(&path_of(&step.path));
            if !kept && !restore.failed.contains(&step.path) {
                restore.report.changes.extend(step.difference.change(store));
            }
        }
    }
    restore.report.failures.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(restore.report)
}

impl Restore<'_> {
    /// What is to be done, sorted by path.
    fn plan(&mut self, root: &Path, routes: &Routes, policy: RestorePolicy) -> Result<Vec<Step>, SnapshotError> {
        let mut began = policy.began.map(|tree| Tree::new(self.store, tree));
        let mut steps = Vec::new();
        let mut blocked: Vec<&[u8]> = Vec::new();
        for (path, legs) in &routes.paths {
            // Below a folder that is not to be made, nothing is.
            let is_below = |above: &&[u8]| path.strip_prefix(*above).is_some_and(|rest| rest.starts_with(b"/"));
            if blocked.iter().any(is_below) {
                continue;
            }
            let now = match self.workspace.node(path) {
                Ok(now) => now,
                Err(error) => {
                    self.fail(path, &error);
                    continue;
                }
            };
            let recorded = began.as_mut().map(|tree| tree.node(path)).transpose()?;
            let is_known = |node: &Option<Node>| node.is_none_or(|node| node.kind != EntryKind::NotCovered);
            let start = recorded.filter(is_known).unwrap_or(now);
            let overwrite = policy.conflicts == Conflicts::Overwrite;
            let goal = Goal::of(legs, start, overwrite);
            let is_done = is_same(goal.node, now);
            let is_ours = is_done || is_untouched(start, goal.node, now) || is_half_done(start, goal.node, now);
            let by_others = goal.since.or_else(|| (!is_ours).then(|| since(start, now)));
            if let Some(since) = by_others {
                self.conflict(root, path, since);
                if !overwrite && is_folder(legs.last().and_then(|leg| leg.after)) && !is_folder(now) {
                    blocked.push(path);
                }
            }
            if !is_done && (is_ours || overwrite) {
                let before = legs.first().and_then(|leg| leg.before);
                let difference = Difference { path: path.clone(), before, after: goal.node };
                steps.push(Step { path: path.clone(), start, now, goal: goal.node, difference });
            }
        }
        Ok(steps)
    }

    fn conflict(&mut self, root: &Path, path: &[u8], since: ChangeKind) {
        let path = path_of(path);
        let ignored = ignored::is_ignored(root, &path);
        self.report.conflicts.push(Conflict { path, since, ignored });
    }

    /// Removes what an attempt that was cut off had written and not named, also where that is not wanted any more.
    fn clear(&self, routes: &Routes) {
        for path in routes.paths.keys() {
            // What is in the way of a file that is to be written is an error then.
            let _ = self.workspace.remove_unfinished(path);
        }
    }

    /// Removes what is to go or to become something else, the innermost first.
    fn remove(&mut self, steps: &[Step]) {
        // A folder may have lost the permission that emptying or filling it takes.
        for step in steps.iter().filter(|step| step.is(EntryKind::Folder) && is_folder(step.start)) {
            let wanted = step.goal.map_or(0, |node| node.permissions);
            if step.was(EntryKind::Folder) && wanted & 0o300 == 0o300 {
                self.attempt(step, |this| this.workspace.set_permissions(&step.path, wanted));
            }
        }
        for step in steps.iter().rev() {
            let Some(now) = step.now else { continue };
            let stays = step.was(EntryKind::Folder) == step.is(EntryKind::Folder);
            if step.goal.is_some() && stays {
                continue;
            }
            match self.workspace.remove(&step.path, now.kind) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && step.goal.is_none() => {
                    self.report.kept.push(path_of(&step.path));
                }
                Err(error) => self.fail(&step.path, &error),
            }
        }
        self.report.kept.reverse();
    }

    /// Makes folders, the outermost first.
    fn make(&mut self, steps: &[Step]) {
        for step in steps.iter().filter(|step| step.is(EntryKind::Folder) && !step.was(EntryKind::Folder)) {
            self.attempt(step, |this| this.workspace.make_folder(&step.path));
        }
    }

    /// Writes files and links, and then gives them their names.
    fn write(&mut self, steps: &[Step]) -> Result<(), SnapshotError> {
        let has_content = |step: &&Step| step.is(EntryKind::File) || step.is(EntryKind::Link);
        let open = steps.iter().filter(has_content).filter(|step| !self.failed.contains(&step.path));
        let open: Vec<_> = open.collect();
        let next = AtomicUsize::new(0);
        let results = {
            let this: &Self = self;
            in_parallel(SYNCING_THREADS.min(open.len()), &|| {
                let mut results = Vec::new();
                while let Some(step) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    results.push((*step, this.write_beside(step)));
                }
                Ok(results)
            })?
        };
        for (step, written) in results {
            let named = written.and_then(|written| match written {
                Written::Beside => self.workspace.name(&step.path),
                Written::NotNeeded => Ok(()),
            });
            if let Err(error) = named {
                self.fail(&step.path, &error);
            }
        }
        Ok(())
    }

    /// Writes the content under another name and onto the disk; or only sets permissions where that is all.
    fn write_beside(&self, step: &Step) -> io::Result<Written> {
        let Some(node) = step.goal else { return Ok(Written::NotNeeded) };
        if step.now.is_some_and(|now| now.kind == node.kind && now.oid == node.oid) {
            self.workspace.set_permissions(&step.path, node.permissions)?;
            return Ok(Written::NotNeeded);
        }
        let content = self.store.get(node.oid, ObjectKind::Blob).map_err(io::Error::other)?;
        self.workspace.write_beside(&step.path, node, &content)?;
        Ok(Written::Beside)
    }

    /// Sets the permissions of folders, the innermost first.
    fn permit(&mut self, steps: &[Step]) {
        for step in steps.iter().rev().filter(|step| step.is(EntryKind::Folder)) {
            let Some(node) = step.goal else { continue };
            self.attempt(step, |this| this.workspace.set_permissions(&step.path, node.permissions));
        }
    }

    /// Makes the new names durable. Where this cannot be done the files are in their places all the same.
    fn sync(&self, steps: &[Step]) -> Result<(), SnapshotError> {
        let folders: BTreeSet<&[u8]> = steps.iter().map(|step| split(&step.path).0).collect();
        let folders = Vec::from_iter(folders);
        let next = AtomicUsize::new(0);
        in_parallel(SYNCING_THREADS.min(folders.len()), &|| {
            while let Some(path) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                let _ = self.workspace.sync_folder(path);
            }
            Ok(Vec::<()>::new())
        })?;
        Ok(())
    }

    fn attempt(&mut self, step: &Step, act: impl FnOnce(&Self) -> io::Result<()>) {
        if self.failed.contains(&step.path) {
            return;
        }
        if let Err(error) = act(self) {
            self.fail(&step.path, &error);
        }
    }

    fn fail(&mut self, path: &[u8], error: &io::Error) {
        if self.failed.insert(path.to_vec()) {
            self.report.failures.push(RestoreFailure { path: path_of(path), error: error.to_string() });
        }
    }
}

enum Written {
    Beside,
    /// The content was there.
    NotNeeded,
}

impl Step {
    /// Whether it is to become this.
    fn is(&self, kind: EntryKind) -> bool {
        self.goal.is_some_and(|node| node.kind == kind)
    }

    /// Whether this is what is there now.
    fn was(&self, kind: EntryKind) -> bool {
        self.now.is_some_and(|node| node.kind == kind)
    }
}
