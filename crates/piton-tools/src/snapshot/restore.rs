//! Bringing a workspace from one snapshot to another.
//!
//! ```text
//!   plan      each difference beside what is there now: done already, to do, or a conflict
//!   remove    what is to go, from the inside out
//!   make      folders, from the outside in
//!   write     each file under another name beside its own, and onto the disk
//!   rename    each in one step: a file is as it was or as it shall be, never half
//!   permit    permissions of folders, from the inside out
//! ```
//!
//! A restore that was cut is repeated with the same two snapshots: what is done already is seen to be. One path's
//! failure is reported and stops no other. Every path is walked folder by folder without following a link, so whatever
//! is put in its way meanwhile, nothing outside of the workspace is touched.

use super::EntryKind;
use super::compare::{Comparison, Difference};
use super::entry::Stamp;
use super::ignored;
use super::object::{Node, ObjectKind, Oid, TreeId};
use super::scan::{in_parallel, read_file_in, split};
use super::store::Store;
use super::{ChangeKind, Conflict, Failure, Restored, SnapshotError, path_of};
use crate::limits::SNAPSHOT_FILE_BYTES;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chmod, fchmod, fchown, mkdirat, open, openat, readlinkat, renameat,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// They wait for the disk, which makes many files durable in one go as well as a single one.
const SYNCING_THREADS: usize = 8;

/// How a restore goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What to do with what the user changed since.
    pub conflicts: Conflicts,
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

/// A difference that is to be made, and what is there now.
struct Step<'d> {
    difference: &'d Difference,
    now: Option<Node>,
}

struct Restore<'r> {
    store: &'r Store,
    root: OwnedFd,
    report: Restored,
    failed: BTreeSet<Vec<u8>>,
}

pub(super) fn restore(
    store: &Store,
    workspace: &Path,
    from: TreeId,
    to: TreeId,
    policy: Policy,
) -> Result<Restored, SnapshotError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(workspace, flags, Mode::empty());
    let root = root.map_err(|_| SnapshotError::WorkspaceGone(workspace.to_owned()))?;
    let comparison = Comparison::of(store, from, to)?;
    let not_covered = comparison.not_covered.iter().map(|path| path_of(path)).collect();
    let report = Restored { not_covered, ..Restored::default() };
    let mut restore = Restore { store, root, report, failed: BTreeSet::new() };
    let steps = restore.plan(workspace, &comparison.differences, policy.conflicts);
    let is_stopping = |conflict: &Conflict| !conflict.ignored;
    let stopped = policy.conflicts == Conflicts::Stop && restore.report.conflicts.iter().any(is_stopping);
    if !policy.dry_run && !stopped {
        restore.remove(&steps);
        restore.make(&steps);
        restore.write(&steps)?;
        restore.permit(&steps);
        restore.sync(&steps)?;
    }
    if !stopped || policy.dry_run {
        for step in &steps {
            let kept = restore.report.kept.contains(&path_of(&step.difference.path));
            if !kept && !restore.failed.contains(&step.difference.path) {
                restore.report.changes.extend(step.difference.change(store));
            }
        }
    }
    restore.report.failures.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(restore.report)
}

impl Restore<'_> {
    /// What is to be done, sorted by path.
    fn plan<'d>(&mut self, workspace: &Path, differences: &'d [Difference], conflicts: Conflicts) -> Vec<Step<'d>> {
        let mut steps = Vec::new();
        let mut blocked: Option<&[u8]> = None;
        for difference in differences {
            let path = difference.path.as_slice();
            // Below a folder that is not to be made, nothing is.
            if blocked.is_some_and(|above| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"))) {
                continue;
            }
            let now = match self.state(path) {
                Ok(now) => now,
                Err(error) => {
                    self.fail(path, &error);
                    continue;
                }
            };
            if is_as(difference, now, difference.after) {
                continue;
            }
            if !is_as(difference, now, difference.before) {
                let since = since(difference.before, now);
                let path_there = path_of(path);
                let ignored = ignored::is_ignored(workspace, &path_there);
                self.report.conflicts.push(Conflict { path: path_there, since, ignored });
                if conflicts != Conflicts::Overwrite {
                    let was_to_be_made = difference.after.is_some_and(|node| node.kind == EntryKind::Folder);
                    blocked = was_to_be_made.then_some(path).or(blocked);
                    continue;
                }
            }
            steps.push(Step { difference, now });
        }
        steps
    }

    /// What is at a path now. The hash of a folder is not asked for.
    fn state(&self, path: &[u8]) -> io::Result<Option<Node>> {
        let (folder, name) = split(path);
        let folder = match self.folder(folder) {
            Ok(folder) => folder,
            // A folder on the way is gone, or is none any more.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stamp = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Stamp::of(&stat),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let oid = match stamp.kind {
            EntryKind::File if stamp.bytes <= SNAPSHOT_FILE_BYTES => {
                Oid::of(ObjectKind::Blob, &read_file_in(&folder, name)?)
            }
            EntryKind::Link => Oid::of(ObjectKind::Blob, readlinkat(&folder, name, Vec::new())?.as_bytes()),
            EntryKind::File | EntryKind::Folder | EntryKind::NotCovered => Oid::NONE,
        };
        Ok(Some(Node { kind: stamp.kind, permissions: stamp.permissions, oid }))
    }

    /// Removes what is to go or to become something else, the innermost first.
    fn remove(&mut self, steps: &[Step<'_>]) {
        // A folder may have lost the permission that emptying or filling it takes.
        for step in steps.iter().filter(|step| step.is(EntryKind::Folder) && step.was(EntryKind::Folder)) {
            let wanted = step.difference.after.map_or(0, |node| node.permissions);
            if wanted & 0o300 == 0o300 {
                self.attempt(step, |this| this.set_permissions(&step.difference.path, wanted));
            }
        }
        for step in steps.iter().rev().filter(|step| step.now.is_some()) {
            let stays = step.was(EntryKind::Folder) == step.is(EntryKind::Folder);
            if step.difference.after.is_some() && stays {
                continue;
            }
            let flags = if step.was(EntryKind::Folder) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let (folder, name) = split(&step.difference.path);
            let removed = self.folder(folder).and_then(|folder| unlinkat(folder, name, flags));
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) if step.difference.after.is_none() => {
                    self.report.kept.push(path_of(&step.difference.path));
                }
                Err(error) => self.fail(&step.difference.path, &error.into()),
            }
        }
        self.report.kept.reverse();
    }

    /// Makes folders, the outermost first.
    fn make(&mut self, steps: &[Step<'_>]) {
        for step in steps.iter().filter(|step| step.is(EntryKind::Folder) && !step.was(EntryKind::Folder)) {
            self.attempt(step, |this| {
                let (folder, name) = split(&step.difference.path);
                // Nobody else's until it is filled.
                Ok(mkdirat(this.folder(folder)?, name, Mode::RWXU)?)
            });
        }
    }

    /// Writes files and links, and then gives them their names.
    fn write(&mut self, steps: &[Step<'_>]) -> Result<(), SnapshotError> {
        let has_content = |step: &&Step<'_>| step.is(EntryKind::File) || step.is(EntryKind::Link);
        let open: Vec<_> = steps.iter().filter(has_content).collect();
        let open: Vec<_> = open.into_iter().filter(|step| !self.failed.contains(&step.difference.path)).collect();
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
                Written::Beside(unfinished) => self.name(&step.difference.path, &unfinished),
                Written::NotNeeded => Ok(()),
            });
            if let Err(error) = named {
                self.fail(&step.difference.path, &error);
            }
        }
        Ok(())
    }

    fn name(&self, path: &[u8], unfinished: &str) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.folder(folder)?;
        let renamed = renameat(&folder, unfinished, &folder, name);
        if renamed.is_err() {
            // Best effort: the first error is the one that matters.
            let _ = unlinkat(&folder, unfinished, AtFlags::empty());
        }
        Ok(renamed?)
    }

    /// Writes the content under another name and onto the disk; or only sets permissions where that is all.
    fn write_beside(&self, step: &Step<'_>) -> io::Result<Written> {
        let path = step.difference.path.as_slice();
        let Some(node) = step.difference.after else { return Ok(Written::NotNeeded) };
        if step.now.is_some_and(|now| now.kind == node.kind && now.oid == node.oid) {
            self.set_permissions(path, node.permissions)?;
            return Ok(Written::NotNeeded);
        }
        let content = self.store.get(node.oid, ObjectKind::Blob).map_err(io::Error::other)?;
        let (folder, name) = split(path);
        let folder = self.folder(folder)?;
        let unfinished = unfinished_name(path);
        match unlinkat(&folder, &unfinished, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if node.kind == EntryKind::Link {
            symlinkat(&*content, &folder, &unfinished)?;
            return Ok(Written::Beside(unfinished));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &unfinished, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(&content).and_then(|()| {
            if let Ok(old) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                && FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
            {
                // Only root may give a file away; for anybody else it becomes theirs, as with any editor.
                let _ = fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
            }
            fchmod(&file, Mode::from_raw_mode(node.permissions))?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(Written::Beside(unfinished)),
            Err(error) => {
                // Best effort: the first error is the one that matters.
                let _ = unlinkat(&folder, &unfinished, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Sets the permissions of folders, the innermost first.
    fn permit(&mut self, steps: &[Step<'_>]) {
        for step in steps.iter().rev().filter(|step| step.is(EntryKind::Folder)) {
            let Some(node) = step.difference.after else { continue };
            self.attempt(step, |this| this.set_permissions(&step.difference.path, node.permissions));
        }
    }

    /// Makes the new names durable. Where this cannot be done the files are in their places all the same.
    fn sync(&self, steps: &[Step<'_>]) -> Result<(), SnapshotError> {
        let folders: BTreeSet<&[u8]> = steps.iter().map(|step| split(&step.difference.path).0).collect();
        let folders = Vec::from_iter(folders);
        let next = AtomicUsize::new(0);
        in_parallel(SYNCING_THREADS.min(folders.len()), &|| {
            while let Some(path) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let opened = self.folder(path).and_then(|folder| openat(folder, ".", flags, Mode::empty()));
                let _ = opened.map(File::from).map(|folder| folder.sync_all());
            }
            Ok(Vec::<()>::new())
        })?;
        Ok(())
    }

    /// Opens a folder of the workspace without following a link. It is good for `*at` calls only.
    fn folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(&self.root, ".", flags, Mode::empty())?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            folder = openat(&folder, name, flags, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Sets the permissions of a file or folder, and never of what a link points at.
    fn set_permissions(&self, path: &[u8], permissions: u32) -> io::Result<()> {
        let (folder, name) = split(path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(self.folder(folder)?, name, flags, Mode::empty())?;
        let stat = statat(&found, "", AtFlags::EMPTY_PATH)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        // The one way to change what was opened without a right to read it.
        Ok(chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::from_raw_mode(permissions))?)
    }

    fn attempt(&mut self, step: &Step<'_>, act: impl FnOnce(&Self) -> io::Result<()>) {
        if self.failed.contains(&step.difference.path) {
            return;
        }
        if let Err(error) = act(self) {
            self.fail(&step.difference.path, &error);
        }
    }

    fn fail(&mut self, path: &[u8], error: &io::Error) {
        if self.failed.insert(path.to_vec()) {
            self.report.failures.push(Failure { path: path_of(path), error: error.to_string() });
        }
    }
}

enum Written {
    Beside(String),
    /// The content was there.
    NotNeeded,
}

impl Step<'_> {
    /// Whether it is to become this.
    fn is(&self, kind: EntryKind) -> bool {
        self.difference.after.is_some_and(|node| node.kind == kind)
    }

    /// Whether this is what is there now.
    fn was(&self, kind: EntryKind) -> bool {
        self.now.is_some_and(|node| node.kind == kind)
    }
}

/// Whether what is there now is what one of the snapshots has. A folder's permissions count only where the snapshots
/// differ in nothing else.
fn is_as(difference: &Difference, now: Option<Node>, node: Option<Node>) -> bool {
    let is_folder = |node: Option<Node>| node.is_some_and(|node| node.kind == EntryKind::Folder);
    if !is_folder(now) || !is_folder(node) {
        return now == node;
    }
    let only_permissions = is_folder(difference.before) && is_folder(difference.after);
    !only_permissions || now.map(|now| now.permissions) == node.map(|node| node.permissions)
}

/// What was done to a path that was as in the snapshot.
fn since(before: Option<Node>, now: Option<Node>) -> ChangeKind {
    match (before, now) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Deleted,
        (Some(before), Some(now)) if before.kind != now.kind => ChangeKind::Replaced,
        (Some(before), Some(now)) if before.oid == now.oid || now.kind == EntryKind::Folder => ChangeKind::Permissions,
        (Some(_), Some(_)) => ChangeKind::Modified,
    }
}

/// The same at every attempt, so that nothing stays behind, and a name that no snapshot covers.
fn unfinished_name(path: &[u8]) -> String {
    format!(".piton-{}.tmp", Oid::of(ObjectKind::Blob, path))
}
