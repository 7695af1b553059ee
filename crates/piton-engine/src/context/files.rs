//! Reading files that somebody else has written, and that may be anything.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The beginning of a file, or all of it.
pub(super) struct Beginning {
    pub(super) bytes: Vec<u8>,
    /// Of the whole file.
    pub(super) size: u64,
}

impl Beginning {
    /// Whether it is all of the file.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() as u64 >= self.size
    }

    /// Its text; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Whether it is no text: a zero byte is in none.
    pub(super) fn is_binary(&self) -> bool {
        self.bytes.contains(&0)
    }
}

/// The first `most` bytes of a regular file. Devices, pipes and folders are refused and never waited for.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Beginning> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(most).min(most));
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok(Beginning { size: meta.len().max(bytes.len() as u64), bytes })
}

/// A path on one line: a file may be called anything.
pub(super) fn line(path: &Path) -> String {
    let name = path.to_string_lossy();
    name.chars().map(|char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char }).collect()
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
