//! Files and folders that Piton keeps: their owner's alone from the start, whatever the umask. What lies in a workspace
//! is made as any program makes it.

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a folder, and those it lies in, where they are not there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a file, or empties the one that is there.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).truncate(true).open(path)
}

/// Opens a file to write at its end, and makes it if it is not there.
pub fn append(path: &Path) -> io::Result<File> {
    options().append(true).open(path)
}

/// Writes a file anew. What is no file there is an error: a pipe would wait for somebody to read it.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    regular(path)?.write_all(content)
}

/// The same, and on the disk when this returns.
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = regular(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Sees to it that a file is there and its owner's alone, also one that an older Piton made. Does not open it: closing it
/// again would drop the locks that SQLite holds on it in this process.
pub fn ensure(path: &Path) -> io::Result<()> {
    match mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) if std::fs::metadata(path)?.permissions().mode() & 0o077 == 0 => Ok(()),
        Err(Errno::EXIST) => std::fs::set_permissions(path, Permissions::from_mode(0o600)),
        Err(error) => Err(error.into()),
    }
}

fn regular(path: &Path) -> io::Result<File> {
    // That of a regular file is not blocked by anything.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = options().write(true).truncate(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}
