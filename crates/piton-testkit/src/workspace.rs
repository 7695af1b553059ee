//! A folder with some files in it, gone when the test is.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A temporary workspace.
#[derive(Debug)]
pub struct TempWorkspace {
    folder: TempDir,
}

impl TempWorkspace {
    /// An empty one.
    pub fn new() -> Self {
        Self { folder: tempfile::Builder::new().prefix("piton-").tempdir().unwrap() }
    }

    /// One with these files: relative path and content.
    pub fn with<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        let workspace = Self::new();
        for (path, content) in files {
            workspace.write(path, content);
        }
        workspace
    }

    /// Where it is, free of symbolic links.
    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Writes a file, and the folders it needs.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A file's content; invalid UTF-8 is replaced.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path().join(path)).unwrap()).into_owned()
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path().join(path).exists()
    }
}

impl Default for TempWorkspace {
    fn default() -> Self {
        Self::new()
    }
}

/// Everything that lies in a folder by its path from there, what Piton failed to clear away too: what it is, its
/// permissions, and its content or where it points.
pub fn state(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut state = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(open) = folders.pop() {
        for entry in std::fs::read_dir(open).unwrap() {
            let path = entry.unwrap().path();
            let found = std::fs::symlink_metadata(&path).unwrap();
            let mode = found.mode() & 0o777;
            let line = if found.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if found.is_dir() {
                folders.push(path.clone());
                format!("folder {mode:o}")
            } else {
                format!("file {mode:o} {:?}", String::from_utf8_lossy(&std::fs::read(&path).unwrap()))
            };
            state.insert(path.strip_prefix(folder).unwrap().to_owned(), line);
        }
    }
    state
}
