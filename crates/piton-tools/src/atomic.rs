//! Replacing a file's content at once and for good: a reader sees the old or the new, a power cut leaves one of them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes to a new file beside the old one, makes it durable, and puts it in its place. The mode is kept.
pub(crate) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Created with what a new file of the user's would get: the umask applies.
    let open_to_umask = fs::Permissions::from_mode(0o666);
    let mut draft = tempfile::Builder::new().prefix(".piton-").permissions(open_to_umask).tempfile_in(folder)?;
    draft.write_all(content)?;
    if let Ok(old) = fs::metadata(path) {
        draft.as_file().set_permissions(old.permissions())?;
    }
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}
