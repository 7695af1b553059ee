//! The workspace as a restore changes it, one operation of the file system at a time. Every path is walked folder by
//! folder without following a link, so whatever is put in its way meanwhile, nothing outside of the workspace is touched.
//!
//! What must not be known here: snapshots, plans, the order of things. See `restore`.

use super::entry::Stamp;
use super::object::{Node, ObjectKind, Oid};
use super::scan::{read_file_in, split};
use super::{EntryKind, FaultPoint, Operation, SnapshotError, path_of};
use crate::limits::SNAPSHOT_FILE_BYTES;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chmod, fchmod, fchown, mkdirat, open, openat, readlinkat, renameat,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// What a folder is made with: it is nobody else's until it is filled.
const MADE: u32 = 0o700;

pub(super) struct Workspace {
    root: OwnedFd,
    faults: Option<Arc<dyn FaultPoint>>,
}

impl Workspace {
    pub(super) fn open(path: &Path, faults: Option<Arc<dyn FaultPoint>>) -> Result<Self, SnapshotError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, flags, Mode::empty()).map_err(|_| SnapshotError::WorkspaceGone(path.to_owned()))?;
        Ok(Self { root, faults })
    }

    /// What is at a path. The hash of a folder is not asked for.
    pub(super) fn node(&self, path: &[u8]) -> io::Result<Option<Node>> {
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

    /// Removes a file, a link, or a folder that is empty.
    pub(super) fn remove(&self, path: &[u8], kind: EntryKind) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.folder(folder)?;
        self.point(Operation::Remove, path)?;
        let flags = if kind == EntryKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(folder, name, flags)?)
    }

    /// Makes a folder that nobody else may enter.
    pub(super) fn make_folder(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.folder(folder)?;
        self.point(Operation::MakeFolder, path)?;
        Ok(mkdirat(folder, name, Mode::from_raw_mode(MADE))?)
    }

    /// Writes a file or a link under a name of ours beside its own, and onto the disk.
    pub(super) fn write_beside(&self, path: &[u8], node: Node, content: &[u8]) -> io::Result<()> {
        let written = self.write_unfinished(path, node, content);
        if written.is_err() {
            // Best effort: the first error is the one that matters.
            let _ = self.remove_unfinished(path);
        }
        written
    }

    /// Gives what was written beside a path its name.
    pub(super) fn name(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.folder(folder)?;
        self.point(Operation::Rename, path)?;
        let renamed = renameat(&folder, unfinished_name(path), &folder, name);
        if renamed.is_err() {
            // Best effort: the first error is the one that matters.
            let _ = self.remove_unfinished(path);
        }
        Ok(renamed?)
    }

    /// Removes what was written beside a path and did not get its name.
    pub(super) fn remove_unfinished(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = (self.folder(split(path).0)?, unfinished_name(path));
        statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.point(Operation::Remove, path)?;
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Sets the permissions of a file or folder, and never of what a link points at.
    pub(super) fn set_permissions(&self, path: &[u8], permissions: u32) -> io::Result<()> {
        let (folder, name) = split(path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(self.folder(folder)?, name, flags, Mode::empty())?;
        let stat = statat(&found, "", AtFlags::EMPTY_PATH)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        self.point(Operation::Permit, path)?;
        // The one way to change what was opened without a right to read it.
        Ok(chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::from_raw_mode(permissions))?)
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync_folder(&self, path: &[u8]) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(self.folder(path)?, ".", flags, Mode::empty())?;
        self.point(Operation::Sync, path)?;
        File::from(folder).sync_all()
    }

    fn write_unfinished(&self, path: &[u8], node: Node, content: &[u8]) -> io::Result<()> {
        let (folder, name) = split(path);
        let (folder, unfinished) = (self.folder(folder)?, unfinished_name(path));
        self.point(Operation::Create, path)?;
        if node.kind == EntryKind::Link {
            return Ok(symlinkat(content, &folder, unfinished)?);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, unfinished, flags, Mode::RUSR | Mode::WUSR)?);
        self.point(Operation::Write, path)?;
        file.write_all(content)?;
        if let Ok(old) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            && FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
        {
            // Only root may give a file away; for anybody else it becomes theirs, as with any editor.
            let _ = fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        }
        fchmod(&file, Mode::from_raw_mode(node.permissions))?;
        self.point(Operation::Sync, path)?;
        file.sync_all()
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

    fn point(&self, operation: Operation, path: &[u8]) -> io::Result<()> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults.before(operation, &path_of(path)))
    }
}

/// Whether it is a folder as [`Workspace::make_folder`] leaves it, whatever the umask took away.
pub(super) fn is_just_made(node: Node) -> bool {
    node.kind == EntryKind::Folder && node.permissions & !MADE == 0
}

/// The same at every attempt, so that nothing stays behind, and a name that no snapshot covers.
fn unfinished_name(path: &[u8]) -> String {
    format!(".piton-{}.tmp", Oid::of(ObjectKind::Blob, path))
}
