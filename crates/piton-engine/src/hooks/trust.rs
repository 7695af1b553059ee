//! Which folders' own hooks may run. A repository can bring hooks along, and those are commands: they run only where the
//! user has said so, and only as they were then. What is remembered is a hash of the hooks as they are written down.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What is remembered of folders that were trusted.
#[derive(Debug, Clone)]
pub struct TrustedHooks {
    file: PathBuf,
}

/// Whether the hooks of a folder may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// As they are now.
    Granted,
    /// As they were once; they have changed since.
    Changed,
    /// Nobody has said so.
    Unknown,
}

#[derive(Default, Serialize, Deserialize)]
struct Remembered(BTreeMap<PathBuf, String>);

impl TrustedHooks {
    /// What lies in this data folder.
    pub fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("trusted-hooks.json") }
    }

    /// Whether these hooks of this folder may run.
    pub fn trust(&self, folder: &Path, hooks: &str) -> Trust {
        match self.read().0.get(folder) {
            Some(known) if *known == hash(hooks) => Trust::Granted,
            Some(_) => Trust::Changed,
            None => Trust::Unknown,
        }
    }

    /// Remembers that they may.
    pub fn grant(&self, folder: &Path, hooks: &str) -> io::Result<()> {
        let mut known = self.read();
        known.0.insert(folder.to_owned(), hash(hooks));
        if let Some(dir) = self.file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let new = self.file.with_extension("json.new");
        std::fs::write(&new, serde_json::to_vec_pretty(&known)?)?;
        std::fs::rename(new, &self.file)
    }

    /// A file that cannot be read trusts nobody.
    fn read(&self) -> Remembered {
        let text = std::fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

fn hash(hooks: &str) -> String {
    blake3::hash(hooks.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_a_folder_and_for_the_hooks_as_they_were() {
        let dir = tempfile::tempdir().expect("a folder");
        let (trusted, repo) = (TrustedHooks::of(dir.path()), Path::new("/repo"));
        assert_eq!(trusted.trust(repo, "{}"), Trust::Unknown);
        trusted.grant(repo, "{}").expect("a file can be written");
        assert_eq!(trusted.trust(repo, "{}"), Trust::Granted);
        assert_eq!(trusted.trust(repo, "{ }"), Trust::Changed);
        assert_eq!(trusted.trust(Path::new("/other"), "{}"), Trust::Unknown);
        std::fs::write(dir.path().join("trusted-hooks.json"), "garbage").expect("a file can be written");
        assert_eq!(trusted.trust(repo, "{}"), Trust::Unknown);
    }
}
