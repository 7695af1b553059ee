//! Replacing a file's content whole or not at all, durably. Readers see the old content or the new, never half of one,
//! and after a power cut too.
//!
//! What is not kept: hard links (the name gets a new file), access control lists, extended attributes.

use rustix::fs::{Gid, Uid, fchown};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A new content does not run as another user, as after any write.
pub(super) const RIGHTS: u32 = 0o777;

/// Puts `content` at `target`, which is not a link. Mode and owner of a file that is there are kept, the mode unless there
/// are `rights` for the new one. `key` names the
/// unfinished file: the same key again replaces what a first attempt may have left.
pub(super) fn replace(target: &Path, content: &[u8], key: &str, rights: Option<u32>) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let unfinished = unfinished(folder, key);
    remove_if_there(&unfinished)?;
    // What came to its name meanwhile may be a link: nothing of what it leads to is taken over.
    let there = fs::symlink_metadata(target).ok().filter(fs::Metadata::is_file);
    let replaced =
        write_new(&unfinished, content, there.as_ref(), rights).and_then(|()| fs::rename(&unfinished, target));
    if let Err(error) = replaced {
        // Best effort: the first error is the one that matters.
        let _ = remove_if_there(&unfinished);
        return Err(error);
    }
    sync_folder(folder)
}

/// Makes the names in a folder durable. What its rights do not let us open was changed all the same.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(()),
        folder => folder?.sync_all(),
    }
}

/// Removes a file. One that is not there was removed before.
pub(super) fn remove(target: &Path) -> io::Result<()> {
    remove_if_there(target)?;
    sync_folder(target.parent().unwrap_or(Path::new("/")))
}

/// Removes what an attempt under this key may have left beside `target`.
pub(super) fn clear(target: &Path, key: &str) -> io::Result<()> {
    remove_if_there(&unfinished(target.parent().unwrap_or(Path::new("/")), key))
}

fn unfinished(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!(".piton-{key}.tmp"))
}

fn write_new(path: &Path, content: &[u8], like: Option<&fs::Metadata>, rights: Option<u32>) -> io::Result<()> {
    /// As any program creates files; the process's umask takes its part.
    const MODE: u32 = 0o666;
    // What takes the place of a file is for no more eyes than that, from the start.
    let mode = if like.is_some() || rights.is_some() { 0o600 } else { MODE };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    if let Some(like) = like {
        let ours = file.metadata()?;
        if (ours.uid(), ours.gid()) != (like.uid(), like.gid()) {
            // Only root may give a file away; for anybody else it becomes theirs, as with any editor.
            let _ = fchown(&file, Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid())));
        }
    }
    if let Some(mode) = rights.or(like.map(fs::Metadata::mode)) {
        file.set_permissions(Permissions::from_mode(mode & RIGHTS))?;
    }
    file.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_content_keeps_the_mode_and_leaves_nothing_else_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sh");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(unfinished(folder.path(), "c1"), "left by a first attempt").unwrap();
        replace(&path, b"new", "c1", None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_old_content_and_no_unfinished_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        replace(&path, b"new", "c1", None).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
