//! Which files of repositories the user has put in force. A file is trusted as it is: after any change it is not.
//!
//! A repository's configuration can allow commands and run hooks, and an agent can write it. So what is trusted is a
//! path *and* the hash of what was read there, and what is used are the very bytes that were hashed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a repository has its configuration, below its root.
pub const PROJECT_FILE: &str = ".piton/config.toml";

/// The list of what is trusted, in the user's data folder.
#[derive(Debug)]
pub struct Trust {
    file: PathBuf,
}

/// Why the list could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the list of trusted files, {file}, {what}", file = file.display())]
pub struct TrustError {
    /// The list.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    /// Each file with the BLAKE3 hash of its contents, in hexadecimal.
    trusted: BTreeMap<PathBuf, String>,
}

impl Trust {
    /// The list in this data folder. There need not be one yet.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { file: data_dir.join("trust.json") }
    }

    /// Whether the user trusts this file with these contents.
    pub fn holds(&self, path: &Path, contents: &[u8]) -> Result<bool, TrustError> {
        Ok(self.read()?.trusted.get(path).is_some_and(|hash| *hash == hash_of(contents)))
    }

    /// From now on the user does.
    pub fn give(&self, path: &Path, contents: &[u8]) -> Result<(), TrustError> {
        let mut list = self.read()?;
        list.trusted.insert(path.to_owned(), hash_of(contents));
        self.write(&list)
    }

    /// From now on the user does not. Whether this changes anything.
    pub fn take_back(&self, path: &Path) -> Result<bool, TrustError> {
        let mut list = self.read()?;
        let had = list.trusted.remove(path).is_some();
        if had {
            self.write(&list)?;
        }
        Ok(had)
    }

    fn read(&self) -> Result<List, TrustError> {
        match std::fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                self.error(format!("cannot be understood ({error}). Remove it, and trust again what should be trusted"))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(List::default()),
            Err(error) => Err(self.error(format!("cannot be read: {error}"))),
        }
    }

    fn write(&self, list: &List) -> Result<(), TrustError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let json = serde_json::to_vec_pretty(list).map_err(|error| self.error(error.to_string()))?;
        let unfinished = self.file.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&unfinished, &json))
            .and_then(|()| std::fs::rename(&unfinished, &self.file))
            .map_err(|error| self.error(format!("cannot be written: {error}")))
    }

    fn error(&self, what: String) -> TrustError {
        TrustError { file: self.file.clone(), what }
    }
}

/// The configuration of the repository that a folder is in: in the folder itself or above it, up to the folder that has
/// `.git`. Without such a folder, only in the folder itself.
pub fn project_file(workspace: &Path) -> Option<PathBuf> {
    let root = workspace.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(workspace);
    let within = workspace.ancestors().take_while(|dir| dir.starts_with(root));
    within.map(|dir| dir.join(PROJECT_FILE)).find(|file| file.is_file())
}

fn hash_of(contents: &[u8]) -> String {
    blake3::hash(contents).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_trusted_as_it_is_and_not_after_a_change() {
        let dir = tempfile::tempdir().expect("a folder");
        let (trust, path) = (Trust::in_folder(&dir.path().join("data")), dir.path().join("config.toml"));
        assert!(!trust.holds(&path, b"a").expect("no list yet"));
        trust.give(&path, b"a").expect("written");
        assert!(trust.holds(&path, b"a").expect("read"));
        assert!(!trust.holds(&path, b"b").expect("read"), "it was changed");
        assert!(!trust.holds(&dir.path().join("other.toml"), b"a").expect("read"), "another file with the same words");
        assert!(trust.take_back(&path).expect("written"));
        assert!(!trust.holds(&path, b"a").expect("read"));
        assert!(!trust.take_back(&path).expect("read"));
    }

    #[test]
    fn a_list_that_cannot_be_understood_trusts_nothing_and_is_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("trust.json"), "{").expect("written");
        let trust = Trust::in_folder(dir.path());
        assert!(trust.holds(Path::new("x"), b"a").is_err());
        assert!(trust.give(Path::new("x"), b"a").is_err());
        assert_eq!(fs::read(dir.path().join("trust.json")).expect("still there"), b"{");
    }

    #[test]
    fn the_nearest_file_of_the_repository_counts_and_none_outside_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |below: &str| {
            let file = dir.path().join(below).join(PROJECT_FILE);
            fs::create_dir_all(file.parent().expect("below a folder")).expect("made");
            fs::write(&file, "").expect("written");
            file
        };
        let (outside, root) = (file(""), file("repo"));
        let deep = dir.path().join("repo/a/b");
        fs::create_dir_all(&deep).expect("made");
        assert_eq!(project_file(&deep), None, "without a repository only the folder itself is looked at");
        fs::create_dir(dir.path().join("repo/.git")).expect("made");
        assert_eq!(project_file(&deep), Some(root));
        let nearer = file("repo/a");
        assert_eq!(project_file(&deep), Some(nearer));
        assert_eq!(project_file(dir.path()), Some(outside));
    }
}
