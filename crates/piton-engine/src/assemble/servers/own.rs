//! The user's own file of servers, `mcp.json` beside the configuration: what `piton mcp add`, `remove`, `enable` and `disable` change.

use super::super::jsonc;
use super::super::machine::Machine;
use super::super::trouble::{Context, Trouble};
use super::read;
use crate::list_file::{ListFile, Lock};
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where servers stand in it.
const SERVERS: &str = "mcpServers";
/// Names of servers, wherever they are configured, that the user has switched off.
const DISABLED: &str = "disabled";

/// Where it lies.
pub fn own_file(machine: &Machine) -> Option<PathBuf> {
    machine.config_file.parent().map(|folder| folder.join("mcp.json"))
}

/// What is in it.
#[derive(Debug)]
pub struct OwnFile {
    path: PathBuf,
    /// Held until it is written, by whoever changes it.
    lock: Option<Lock>,
    whole: Map<String, Value>,
    /// Whether nothing is lost where it is written anew.
    is_plain: bool,
}

impl OwnFile {
    /// Reads it; there need not be one yet.
    pub fn read(machine: &Machine) -> Result<Self, Trouble> {
        Self::of(own_file(machine).context("there is no folder for mcp.json")?)
    }

    /// Reads it to change it: whoever else wants to waits until this is dropped.
    pub fn to_change(machine: &Machine) -> Result<Self, Trouble> {
        let path = own_file(machine).context("there is no folder for mcp.json")?;
        let lock = ListFile::new(path.clone()).lock();
        let lock = lock.map_err(|why| Trouble::new(format!("{} {why}", path.display())))?;
        Ok(Self { lock: Some(lock), ..Self::of(path)? })
    }

    fn of(path: PathBuf) -> Result<Self, Trouble> {
        let text = match regular::text(&path, SETTINGS_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        if text.trim().is_empty() {
            return Ok(Self { path, lock: None, whole: Map::new(), is_plain: true });
        }
        let is_plain = serde_json::from_str::<Value>(&text).is_ok();
        match jsonc::parse(&text) {
            Ok(Value::Object(whole)) => Ok(Self { path, lock: None, whole, is_plain }),
            Ok(_) => Err(Trouble::new(format!("{} is not a JSON object", path.display()))),
            Err(why) => Err(Trouble::new(format!("{}: {why}", path.display()))),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The servers that are switched off.
    pub fn disabled(&self) -> BTreeSet<String> {
        let all = self.whole.get(DISABLED).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Switches a server on or off. Whether that changes anything.
    pub fn switch(&mut self, name: &str, is_on: bool) -> bool {
        let mut off = self.disabled();
        let changes = if is_on { off.remove(name) } else { off.insert(name.to_owned()) };
        match off.is_empty() {
            true => drop(self.whole.remove(DISABLED)),
            false => drop(self.whole.insert(DISABLED.to_owned(), off.into_iter().map(Value::from).collect())),
        }
        changes
    }

    /// Adds a server. The error says why it cannot be one, or that there is one of that name.
    pub fn add(&mut self, name: &str, entry: Value, replaces: bool) -> Result<(), String> {
        let fits = read::name(name)?;
        if fits != name {
            return Err(format!("`{}` is not a valid server name; `{fits}` is", super::file::shown(name)));
        }
        let servers = self.whole.entry(SERVERS).or_insert_with(|| Value::Object(Map::new()));
        let servers = servers.as_object_mut().ok_or(format!("`{SERVERS}` of your mcp.json is no object"))?;
        if servers.contains_key(name) && !replaces {
            return Err(format!(
                "there is a server {name} in your mcp.json already; `piton mcp remove {name}` removes it"
            ));
        }
        servers.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Whether it has a server of this name.
    pub fn has(&self, name: &str) -> bool {
        self.whole.get(SERVERS).and_then(|servers| servers.get(name)).is_some()
    }

    /// Removes a server. Whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let servers = self.whole.get_mut(SERVERS).and_then(Value::as_object_mut);
        servers.and_then(|servers| servers.remove(name)).is_some()
    }

    /// Writes it, whole or not at all, where it was read [to be changed](Self::to_change). It may hold keys: only the user may read it.
    pub fn write(&self) -> Result<(), Trouble> {
        let shown = self.path.display();
        if self.lock.is_none() {
            return Err(Trouble::new(format!("{shown} was read to be looked at")));
        }
        if !self.is_plain {
            return Err(Trouble::new(format!("{shown} has comments, which would be lost; change it in an editor")));
        }
        let what = || format!("cannot write {shown}");
        let mut text = serde_json::to_string_pretty(&self.whole).with_context(what)?;
        text.push('\n');
        // A link stays one.
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(what)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(what)?;
        file.write_all(text.as_bytes()).with_context(what)?;
        file.persist(&path).with_context(what).map(drop)
    }
}
