//! Bodies that are too large for the database, each in a file named by its BLAKE3 hash. Written once, never changed:
//! the name is the proof of the content, and the event that names it is in the hash chain.

use super::error::Fault;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Keeps `content` and returns its name. Durable when it returns.
pub(super) fn put(blobs: &Path, content: &[u8]) -> Result<String, Fault> {
    let name = blake3::hash(content).to_hex().to_string();
    make_folder(blobs)?;
    let path = blobs.join(&name);
    let there = fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64);
    if !there {
        let unfinished = blobs.join(format!("{name}.tmp"));
        write_durably(&unfinished, content).map_err(Fault::os(&unfinished))?;
        fs::rename(&unfinished, &path).map_err(Fault::os(&path))?;
    }
    sync_folder(blobs)?;
    Ok(name)
}

/// The content under this name, as it lies there.
pub(super) fn get(blobs: &Path, name: &str) -> Result<Vec<u8>, Fault> {
    let path = blobs.join(name);
    fs::read(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Fault::Damaged { path: Some(path), why: "the file is missing".to_owned() },
        _ => Fault::Os { path, source },
    })
}

/// Creates a folder that only its owner can enter, and makes its name durable. Fine if it is there.
fn make_folder(path: &Path) -> Result<(), Fault> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_folder),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Fault::os(path)(error)),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), Fault> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Fault::os(path))
}

fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
