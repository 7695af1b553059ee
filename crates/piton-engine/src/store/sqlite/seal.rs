//! Which sessions a list need not look at again.
//!
//! In the list a session is *sealed* when it was read while nobody had it open. Who opens it to write breaks the seal
//! first: a file of the session's name in a folder beside the sessions. So what may have changed is found by reading that
//! folder, which is nearly always empty, instead of by ten thousand looks.
//!
//! ```text
//!   writer:  take the lock ─▶ break the seal ─▶ write ─▶ leave
//!   list:    note which seals are broken ─▶ clear them ─▶ does somebody have it open? ─▶ read it ─▶ sealed, if not
//! ```
//!
//! Whoever opens a session behind the list's back breaks the seal anew, or is seen to have it open. Nothing of this is
//! synced: after a restart of the machine the list takes no seal for granted.

use super::dir::SessionDir;
use super::error::Fault;
use piton_core::ids::SessionId;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Beside the folder of the sessions.
const FOLDER: &str = "opened";

/// Says that the session may change from here on. For who holds its lock.
pub(super) fn break_seal(dir: &SessionDir) -> Result<(), Fault> {
    let (Some(sessions), Some(name)) = (dir.root().parent(), dir.root().file_name()) else { return Ok(()) };
    let folder = folder(sessions);
    let mark = folder.join(name);
    let make = || File::options().write(true).create(true).truncate(false).mode(0o600).open(&mark);
    let made = make().or_else(|error| match error.kind() {
        ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            make()
        }
        _ => Err(error),
    });
    made.map(drop).map_err(Fault::os(&mark))
}

/// The sessions whose seals are broken.
pub(super) fn broken(sessions_dir: &Path) -> Result<Vec<SessionId>, Fault> {
    let folder = folder(sessions_dir);
    let entries = match fs::read_dir(&folder) {
        // Nobody has opened one yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Fault::os(&folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<std::io::Result<_>>().map_err(Fault::os(&folder))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).map(SessionId).collect())
}

/// Clears a broken seal. Where it cannot be cleared, the session is looked at again the next time.
pub(super) fn clear(sessions_dir: &Path, id: &SessionId) {
    let _ = fs::remove_file(folder(sessions_dir).join(id.as_str()));
}

fn folder(sessions_dir: &Path) -> PathBuf {
    sessions_dir.with_file_name(FOLDER)
}
