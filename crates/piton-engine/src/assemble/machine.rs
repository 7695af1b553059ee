//! What a process finds on its machine: the environment, its own binary, its folders, the date. The binary reads it once
//! and hands it in; nothing below asks the system again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Values of the machine that a process runs on.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The environment.
    pub vars: BTreeMap<OsString, OsString>,
    /// This program, to be started again as a runner of shell commands.
    pub exe: PathBuf,
    /// Where sessions are kept.
    pub data_dir: PathBuf,
    /// The user's own configuration file.
    pub config_file: PathBuf,
    /// Whether a variable names that file, so that it has to be there.
    pub config_is_named: bool,
    /// Today's date, for the model.
    pub today: String,
}

impl Machine {
    /// An environment variable that is set, not empty, and text.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set.
    pub fn any(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.var(name)).map(str::to_owned)
    }

    /// The program that this name starts.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.var("PATH")?;
        path.split(':').map(|dir| Path::new(dir).join(name)).find(|path| path.is_file())
    }
}
