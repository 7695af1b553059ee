//! How messages name paths, and why a file cannot be read.

use piton_core::hidden;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A path on one line: a file may be called anything.
pub(super) fn line(path: &Path) -> String {
    hidden::visible_line(&path.to_string_lossy())
}

/// A path for people and models: relative where it lies in the workspace.
pub(super) fn shown(path: &Path, workspace: &Path) -> String {
    match path.strip_prefix(workspace) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => line(inside),
        Err(_) => line(path),
    }
}

/// Why a file cannot be read, in words.
pub(super) fn why(error: &io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::LOOP) => "its symbolic links lead in a circle".to_owned(),
        Some(rustix::io::Errno::ACCESS) => "it may not be read (permission denied)".to_owned(),
        _ => match error.kind() {
            io::ErrorKind::NotFound => "it is not there".to_owned(),
            _ => error.to_string(),
        },
    }
}

/// Whether an absolute path begins with something that is there; words may begin with `/`, too.
pub(super) fn begins_with_a_folder(path: &Path) -> bool {
    let first: PathBuf = plain(path).components().take(2).collect();
    path.is_absolute() && first.exists()
}

/// The path without `.` and `..`, links not looked at.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
