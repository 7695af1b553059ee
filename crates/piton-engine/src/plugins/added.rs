//! Plugins that the user has added: copied below the data folder and pinned to a hash of all their files. One whose copy is no longer what
//! was added is not used.
//!
//! ```text
//!   plugins.json                       the list: where each is from, its hash, whether it is used
//!   plugins/installed/NAME-HASH/       the copies
//!   plugins/data/NAME/                 what they keep themselves, which outlives updates
//! ```

use super::manifest::{self, FOLDERS};
use super::marketplace::{self, Marketplace, Place};
use super::source::Source;
use super::{MOST, Plugin};
use crate::list_file::ListFile;
use crate::tree::{Node, Tree};
use piton_tools::{private, regular};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A plugin on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Where it is from.
    pub source: String,
    /// Its name in the marketplace that it is from, where it is from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_marketplace: Option<String>,
    /// The commit that was cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The hash of all its files.
    pub hash: String,
    /// Whether it is used.
    pub enabled: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    plugins: BTreeMap<String, Added>,
}

/// The list, and the folders beside it. Errors are whole sentences.
#[derive(Debug)]
pub struct AddedPlugins {
    file: ListFile,
    data_dir: PathBuf,
}

/// A plugin that was copied and is not on the list yet.
#[derive(Debug)]
pub struct Staged {
    /// It, in a folder that goes away with this.
    pub plugin: Plugin,
    added: Added,
    _scratch: tempfile::TempDir,
}

/// A file that an update changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path in the plugin.
    pub path: PathBuf,
    /// What it was, where it was text; `None`: it was not there.
    pub before: Option<String>,
    /// What it becomes.
    pub after: Option<String>,
}

impl AddedPlugins {
    /// Those in this data folder. There need not be any.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { file: ListFile::new(data_dir.join("plugins.json")), data_dir: data_dir.to_owned() }
    }

    /// All of them, by name.
    pub fn list(&self) -> Result<BTreeMap<String, Added>, String> {
        Ok(self.read()?.plugins)
    }

    /// The copy of one.
    pub fn folder(&self, name: &str, added: &Added) -> PathBuf {
        let hash = added.hash.get(..16).unwrap_or(&added.hash);
        self.data_dir.join("plugins/installed").join(format!("{name}-{hash}"))
    }

    /// Reads the copy of one, if it is what was added.
    pub fn open(&self, name: &str, added: &Added) -> Result<Plugin, String> {
        let plugin = Plugin::read(&self.folder(name, added), None, &self.data_dir)?;
        match plugin.name() == name && plugin.hash() == added.hash {
            true => Ok(plugin),
            false => {
                Err(format!("its files are not those that you added; `piton plugin update {name}` fetches it anew"))
            }
        }
    }

    /// Copies the plugin of a source. `wanted` is its name where the source is a marketplace.
    pub fn stage(
        &self,
        source: &Source,
        wanted: Option<&str>,
        vars: &BTreeMap<OsString, OsString>,
    ) -> Result<Staged, String> {
        let folder = self.data_dir.join("plugins");
        private::make_folder(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let scratch = tempfile::Builder::new().prefix("new-").tempdir_in(&folder);
        let scratch = scratch.map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
        let (root, commit) = source.fetch(scratch.path(), vars)?;
        let (root, given, of_marketplace) = chosen(&root, wanted)?;
        let said = Plugin::read(&root, given.as_ref(), &self.data_dir)?;
        let copy = scratch.path().join(said.name());
        copied(&said, &root, &copy)?;
        if let Some(given) = given.filter(|_| manifest::file_in(&root).is_none()) {
            let file = copy.join(FOLDERS[1]).join(manifest::FILE);
            private::make_folder(&copy.join(FOLDERS[1]))
                .and_then(|()| fs::write(&file, given.to_string()))
                .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        }
        let plugin = Plugin::read(&copy, None, &self.data_dir)?;
        let added = Added { source: source.said(), of_marketplace, commit, hash: plugin.hash(), enabled: true };
        Ok(Staged { plugin, added, _scratch: scratch })
    }

    /// Puts a copy in its place, and on the list. One of the same name that was there goes.
    pub fn put(&self, staged: &Staged) -> Result<Added, String> {
        let lock = self.file.lock().map_err(|what| self.error(&what))?;
        let mut list = self.read()?;
        let name = staged.plugin.name().to_owned();
        let before = list.plugins.get(&name).cloned();
        let enabled = before.as_ref().is_none_or(|before| before.enabled);
        let added = Added { enabled, ..staged.added.clone() };
        let target = self.folder(&name, &added);
        let parent = target.parent().unwrap_or(&self.data_dir);
        // One that is there may have been changed.
        let gone = if target.exists() { fs::remove_dir_all(&target) } else { private::make_folder(parent) };
        gone.and_then(|()| fs::rename(&staged.plugin.root, &target))
            .map_err(|error| format!("{} cannot be put in its place: {error}", target.display()))?;
        list.plugins.insert(name.clone(), added.clone());
        self.file.write(&list, &lock).map_err(|what| self.error(&what))?;
        if let Some(before) = before.map(|before| self.folder(&name, &before)).filter(|folder| *folder != target) {
            // What is left of it is not used.
            let _ = fs::remove_dir_all(before);
        }
        Ok(added)
    }

    /// Has one used, or not.
    pub fn enable(&self, name: &str, enabled: bool) -> Result<(), String> {
        let lock = self.file.lock().map_err(|what| self.error(&what))?;
        let mut list = self.read()?;
        list.plugins.get_mut(name).ok_or_else(|| not_added(name))?.enabled = enabled;
        self.file.write(&list, &lock).map_err(|what| self.error(&what))
    }

    /// Takes one off the list, with its copy. What it keeps in its data folder stays.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let lock = self.file.lock().map_err(|what| self.error(&what))?;
        let mut list = self.read()?;
        let added = list.plugins.remove(name).ok_or_else(|| not_added(name))?;
        self.file.write(&list, &lock).map_err(|what| self.error(&what))?;
        let _ = fs::remove_dir_all(self.folder(name, &added));
        Ok(())
    }

    fn read(&self) -> Result<List, String> {
        let Some(bytes) = self.file.bytes().map_err(|what| self.error(&what))? else { return Ok(List::default()) };
        serde_json::from_slice(&bytes).map_err(|error| self.error(&format!("cannot be understood ({error})")))
    }

    fn error(&self, what: &str) -> String {
        format!("the list of plugins, {}, {what}", self.file.path().display())
    }
}

impl Staged {
    /// Whether it is what is there already.
    pub fn is(&self, added: &Added) -> bool {
        self.added.hash == added.hash
    }

    /// The commit that was cloned.
    pub fn commit(&self) -> Option<&str> {
        self.added.commit.as_deref()
    }
}

/// What a plugin was and what it becomes, file by file.
pub fn changes(before: &Plugin, after: &Plugin) -> Vec<Change> {
    let paths: BTreeSet<&Path> = before.files().iter().chain(after.files().iter()).map(|(path, _)| path).collect();
    let changed = paths.into_iter().filter(|path| before.files().get(path) != after.files().get(path));
    let change = |path: &Path| Change { path: path.to_owned(), before: shown(before, path), after: shown(after, path) };
    changed.map(change).collect()
}

/// A file for people to read; `None` where it is not there.
fn shown(plugin: &Plugin, path: &Path) -> Option<String> {
    match plugin.files().get(path)? {
        Node::Link(target) => Some(format!("a link to {}\n", target.display())),
        Node::File { bytes, hash } => {
            let text = regular::text(&plugin.root.join(path), regular::SETTINGS_BYTES);
            Some(text.unwrap_or_else(|_| format!("{bytes} bytes that are no text, BLAKE3 {}\n", hash.to_hex())))
        }
    }
}

fn not_added(name: &str) -> String {
    format!("`{}` is no plugin that you added; `piton plugin list` names them", crate::front_matter::line(name, 64))
}

/// The folder of the plugin that is wanted, what a marketplace says of it, and its name there.
fn chosen(root: &Path, wanted: Option<&str>) -> Result<(PathBuf, Option<Value>, Option<String>), String> {
    let is_marketplace = marketplace::file_in(root).is_some();
    if wanted.is_none() && (manifest::file_in(root).is_some() || !is_marketplace) {
        return Ok((root.to_owned(), None, None));
    }
    let market = Marketplace::read(root)?;
    let names: Vec<&str> = market.names().collect();
    let name = match (wanted, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => {
            return Err(format!("it is a marketplace: name one of its plugins behind it: {}", names.join(", ")));
        }
    };
    match market.find(name)? {
        Place::Here(folder, given) => Ok((folder, Some(given), Some(name.to_owned()))),
        Place::Elsewhere(address) => Err(format!("{name} lies elsewhere: `piton plugin add {address}`")),
    }
}

/// Copies a plugin's files as they were read.
fn copied(plugin: &Plugin, root: &Path, copy: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{} cannot be copied: {error}", path.display());
    private::make_folder(copy).map_err(|error| failed(copy, error))?;
    let files: &Tree = plugin.files();
    for (path, node) in files.iter() {
        let (from, to) = (root.join(path), copy.join(path));
        let folder = to.parent().unwrap_or(copy);
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        match node {
            Node::Link(target) => {
                let leads = path.parent().unwrap_or(Path::new("")).join(target);
                if target.is_absolute() || !stays_within(&leads) {
                    return Err(format!("the link {} leads out of the plugin", path.display()));
                }
                symlink(target, &to).map_err(|error| failed(&from, error))?;
            }
            Node::File { hash, .. } => {
                let bytes = regular::whole_unlinked(&from, MOST.bytes).map_err(|error| failed(&from, error))?;
                if blake3::hash(&bytes) != *hash {
                    return Err(format!("{} was changed while it was read", from.display()));
                }
                fs::write(&to, bytes).map_err(|error| failed(&to, error))?;
                let is_program = fs::metadata(&from).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0);
                let mode = fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 });
                fs::set_permissions(&to, mode).map_err(|error| failed(&to, error))?;
            }
        }
    }
    Ok(())
}

/// Whether a path never climbs above where it starts.
fn stays_within(path: &Path) -> bool {
    let mut depth = 0_i32;
    path.components().all(|part| {
        depth += match part {
            std::path::Component::Normal(_) => 1,
            std::path::Component::ParentDir => -1,
            _ => 0,
        };
        depth >= 0
    })
}
