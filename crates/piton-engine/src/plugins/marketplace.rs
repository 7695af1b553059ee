//! A marketplace: a folder with `.claude-plugin/marketplace.json`, which lists plugins by name and says where each is. Those that lie in the
//! folder are read there; nothing is fetched.

use super::manifest::{FOLDERS, within};
use crate::front_matter::line;
use piton_core::hidden;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Its file, in one of [`FOLDERS`].
pub const FILE: &str = "marketplace.json";

/// The most plugins that are read of one.
const MOST: usize = 1_000;
const NAME_CHARS: usize = 64;

/// A marketplace that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Marketplace {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
    /// Below that, the folder that plugins are relative to.
    base: PathBuf,
    /// What it says of each plugin.
    entries: Vec<Value>,
}

/// Where a plugin of a marketplace is.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In a folder here, with what the marketplace says of it.
    Here(PathBuf, Value),
    /// Elsewhere: what `piton plugin add` takes.
    Elsewhere(String),
}

/// The file of the marketplace in a folder, if that is one.
pub fn file_in(root: &Path) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| root.join(folder).join(FILE)).find(|file| file.is_file())
}

impl Marketplace {
    /// Reads that of a folder.
    pub fn read(root: &Path) -> Result<Self, String> {
        let shown = hidden::visible_line(&root.display().to_string());
        let file =
            file_in(root).ok_or_else(|| format!("{shown} is no marketplace: it has no .claude-plugin/{FILE}"))?;
        let text =
            regular::text(&file, SETTINGS_BYTES).map_err(|error| format!("{shown}: {FILE} cannot be read: {error}"))?;
        let said: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {FILE} is not valid JSON: {error}"))?;
        let name = said["name"].as_str().ok_or_else(|| format!("{shown}: {FILE} has no name"))?;
        let entries = said["plugins"].as_array().ok_or_else(|| format!("{shown}: {FILE} lists no plugins"))?;
        let base = said["metadata"]["pluginRoot"].as_str().unwrap_or_default();
        let base = within(base).ok_or_else(|| format!("{shown}: pluginRoot leads out of the marketplace"))?;
        let entries = entries.iter().take(MOST).cloned().collect();
        Ok(Self { name: line(name, NAME_CHARS), root: root.to_owned(), base, entries })
    }

    /// The names of its plugins.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry["name"].as_str())
    }

    /// Where the plugin of this name is.
    pub fn find(&self, name: &str) -> Result<Place, String> {
        let Some(entry) = self.entries.iter().find(|entry| entry["name"].as_str() == Some(name)) else {
            return Err(format!("the marketplace {} has no plugin {}", self.name, line(name, NAME_CHARS)));
        };
        match &entry["source"] {
            Value::String(path) => {
                let below = within(path)
                    .ok_or_else(|| format!("the marketplace {} puts {name} outside of its folder", self.name))?;
                // Claude Code takes a bare name as one below `pluginRoot`.
                let folder = if path.starts_with("./") { below } else { self.base.join(below) };
                Ok(Place::Here(self.root.join(folder), entry.clone()))
            }
            source => match address(source) {
                Some(address) => Ok(Place::Elsewhere(address)),
                None => Err(format!("the marketplace {} does not say where {name} is", self.name)),
            },
        }
    }
}

/// Where a source says that something is, as `piton plugin add` takes it.
pub fn address(source: &Value) -> Option<String> {
    let text = |key: &str| source[key].as_str().map(|text| line(text, 500));
    let at = match source["source"].as_str()? {
        "github" => format!("https://github.com/{}.git", text("repo")?),
        _ => text("url")?,
    };
    let reference = text("ref").or_else(|| text("sha"));
    Some(reference.map_or(at.clone(), |reference| format!("{at}#{reference}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn read(said: &Value) -> (tempfile::TempDir, Result<Marketplace, String>) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".claude-plugin")).unwrap();
        fs::write(root.path().join(".claude-plugin/marketplace.json"), said.to_string()).unwrap();
        let read = Marketplace::read(root.path());
        (root, read)
    }

    #[test]
    fn plugins_lie_below_it_or_elsewhere() {
        let said = json!({"name": "m", "metadata": {"pluginRoot": "./plugins"}, "plugins": [
            {"name": "a", "source": "./a"}, {"name": "b", "source": "b"},
            {"name": "c", "source": {"source": "github", "repo": "o/r", "ref": "v1"}},
            {"name": "d", "source": {"source": "url", "url": "https://example.org/d.git"}},
            {"name": "e", "source": "../e"}, {"name": "f", "source": {"source": "npm", "package": "f"}},
        ]});
        let (root, market) = read(&said);
        let market = market.unwrap();
        let here = |name: &str| match market.find(name).unwrap() {
            Place::Here(folder, _) => folder.strip_prefix(root.path()).unwrap().display().to_string(),
            Place::Elsewhere(address) => address,
        };
        let found = ["a", "b", "c", "d"].map(here);
        assert_eq!(found, ["a", "plugins/b", "https://github.com/o/r.git#v1", "https://example.org/d.git"]);
        assert!(market.find("e").unwrap_err().contains("outside of its folder"));
        assert!(market.find("f").unwrap_err().contains("does not say where"));
        assert!(market.find("g").unwrap_err().contains("has no plugin g"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (said, words) in [
            (json!([]), "has no name"),
            (json!({"name": "m"}), "lists no plugins"),
            (json!({"name": "m", "plugins": [], "metadata": {"pluginRoot": "/"}}), "leads out"),
        ] {
            let error = read(&said).1.unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(Marketplace::read(Path::new("/nowhere")).unwrap_err().contains("is no marketplace"));
    }
}
