//! A list in a JSON file of the data folder, which several processes change: locked from reading to writing, and replaced as a
//! whole. What goes wrong is said as the end of a sentence about the list.

use piton_tools::{private, regular};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Where a list is kept.
#[derive(Debug)]
pub(crate) struct ListFile(PathBuf);

/// Held from reading a list until it is written: what two processes are told at once must both be on it.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "open, it is held")] File);

impl ListFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Waits for whoever has it.
    pub(crate) fn lock(&self) -> Result<Lock, String> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        let locked = private::make_folder(folder)
            .and_then(|()| private::create(&self.0.with_extension("lock")))
            .and_then(|file| file.lock().map(|()| Lock(file)));
        locked.map_err(|error| format!("cannot be locked: {error}"))
    }

    /// What is in it; `None`: there is none yet. That a data folder is none is found out by whoever needs to write there.
    pub(crate) fn bytes(&self) -> Result<Option<Vec<u8>>, String> {
        match regular::whole(&self.0, regular::SETTINGS_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }

    /// Puts a new list in its place. Nobody else writes there: whoever calls this has the lock.
    pub(crate) fn write(&self, list: &impl Serialize, _: &Lock) -> Result<(), String> {
        let json = serde_json::to_vec_pretty(list).map_err(|error| error.to_string())?;
        let unfinished = self.0.with_extension("tmp");
        let written = private::create(&unfinished).and_then(|mut file| {
            file.write_all(&json)?;
            file.sync_all()?;
            std::fs::rename(&unfinished, &self.0)
        });
        written.map_err(|error| format!("cannot be written: {error}"))
    }
}
