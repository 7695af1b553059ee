//! A home, a configuration and a repository in a temporary folder, for tests.

use super::machine::Machine;
use std::fs;
use std::path::PathBuf;

/// The folder. The repository is `repo`, with a folder `sub`; the home is `home`, the configuration in `config`.
pub(super) struct Tree(pub(super) tempfile::TempDir);

impl Tree {
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir_all(tree.path("repo/.git")).expect("made");
        fs::create_dir_all(tree.path("repo/sub")).expect("made");
        for (name, text) in files {
            let path = tree.path(name);
            fs::create_dir_all(path.parent().expect("below a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        tree
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub(super) fn machine(&self) -> Machine {
        let vars = [("HOME".into(), self.path("home").into()), ("KEY".into(), "k-1".into())];
        Machine {
            vars: vars.into(),
            data_dir: self.path("data"),
            config_file: self.path("config/config.toml"),
            ..Machine::default()
        }
    }
}
