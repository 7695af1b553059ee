//! A folder with some files in it, gone when the test is.

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
