//! Files without those that a search may not open: nobody named them, so no rule was asked about each.

use super::{Files, Found, Replacement, Stamp, Visit};
use piton_core::ids::CallId;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Says of a path whether its file may not be opened.
type IsWithheld = dyn Fn(&Path) -> bool + Send + Sync;

/// Other files, of which some cannot be opened. Their names are there.
pub struct Withheld {
    files: Arc<dyn Files>,
    is_withheld: Box<IsWithheld>,
}

impl Withheld {
    /// These files, without the ones of which `is_withheld` says so by their real paths.
    pub fn new(files: Arc<dyn Files>, is_withheld: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self { files, is_withheld: Box::new(is_withheld) }
    }
}

impl fmt::Debug for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withheld").finish_non_exhaustive()
    }
}

impl Files for Withheld {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.real(path)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        self.files.look(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        if (self.is_withheld)(path) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a rule forbids to read it"));
        }
        self.files.open(path)
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.files.stamp(path)
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        self.files.list(folder, most)
    }

    fn walk(&self, folder: &Path, visit: &mut Visit<'_>) {
        self.files.walk(folder, visit);
    }

    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()> {
        self.files.begin(call, changes)
    }

    fn put(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        self.files.put(call, change, content)
    }

    fn begun(&self, call: &CallId) -> Vec<Replacement> {
        self.files.begun(call)
    }

    fn rights(&self, path: &Path) -> Option<u32> {
        self.files.rights(path)
    }

    fn other_names(&self, path: &Path) -> u64 {
        self.files.other_names(path)
    }
}
