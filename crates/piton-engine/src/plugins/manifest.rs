//! The manifest of a plugin: `.claude-plugin/plugin.json`, or `.piton-plugin/plugin.json`. A field that means nothing here is passed over
//! and named; one that is known and wrong leaves the plugin out.

use crate::front_matter::line;
use piton_core::hidden;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The folders that a manifest or a marketplace lies in, the first wins.
pub const FOLDERS: [&str; 2] = [".piton-plugin", ".claude-plugin"];
/// The manifest there.
pub const FILE: &str = "plugin.json";
/// Where a plugin's servers are, unless its manifest says otherwise.
pub const SERVERS: &str = ".mcp.json";

/// Characters of a name, and of other fields.
const NAME_CHARS: usize = 64;
const FIELD_CHARS: usize = 500;
/// The most paths of a kind.
const MOST_PATHS: usize = 100;

/// What a plugin says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its version, as it says it.
    pub version: String,
    /// Where agents lie beside the usual folder.
    pub agents: Vec<PathBuf>,
    /// Where commands do.
    pub commands: Vec<PathBuf>,
    /// Where skills do.
    pub skills: Vec<PathBuf>,
    /// Its hooks.
    pub hooks: Part,
    /// Its MCP servers.
    pub servers: Part,
    /// The fields that mean nothing here.
    pub unknown: Vec<String>,
}

/// Where a part of a plugin is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Part {
    /// In the usual file, if that is there.
    #[default]
    Usual,
    /// In this file below the plugin's folder.
    File(PathBuf),
    /// In the manifest.
    Inline(Value),
}

/// The manifest in a folder, if it has one.
pub fn file_in(root: &Path) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| root.join(folder).join(FILE)).find(|file| file.is_file())
}

impl Manifest {
    /// That of a folder. Where it has none, what a marketplace says counts; and where that says nothing, the folder's name.
    pub fn of_folder(root: &Path, given: Option<&Value>) -> Result<Self, String> {
        if !root.is_dir() {
            return Err(format!("there is no folder {}", hidden::visible_line(&root.display().to_string())));
        }
        for folder in FOLDERS {
            let file = root.join(folder).join(FILE);
            match regular::text(&file, SETTINGS_BYTES) {
                Ok(text) => {
                    let said: Value =
                        serde_json::from_str(&text).map_err(|error| format!("it is not valid JSON: {error}"))?;
                    return Self::read(&said).map_err(|why| format!("{folder}/{FILE}: {why}"));
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(format!("{folder}/{FILE} cannot be read: {error}")),
            }
        }
        match given {
            Some(given) => Self::read(given),
            None => {
                let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                Self::read(&serde_json::json!({ "name": name }))
            }
        }
    }

    /// Reads one.
    pub fn read(said: &Value) -> Result<Self, String> {
        let Value::Object(fields) = said else { return Err("it is not a list of fields".to_owned()) };
        let mut manifest = Self { name: name(fields)?, ..Self::default() };
        for (field, value) in fields {
            match field.as_str() {
                "name" => {}
                "description" => manifest.description = text(field, value)?,
                "version" => manifest.version = text(field, value)?,
                "agents" => manifest.agents = paths(field, value)?,
                "commands" => manifest.commands = paths(field, value)?,
                "skills" => manifest.skills = paths(field, value)?,
                "hooks" => manifest.hooks = part(field, value, "hooks")?,
                "mcpServers" => manifest.servers = part(field, value, "mcpServers")?,
                "author" | "homepage" | "repository" | "license" | "keywords" | "$schema" | "source" | "category"
                | "tags" | "strict" | "displayName" => {}
                other => manifest.unknown.push(line(other, NAME_CHARS)),
            }
        }
        Ok(manifest)
    }
}

fn name(fields: &Map<String, Value>) -> Result<String, String> {
    let name = fields.get("name").and_then(Value::as_str).ok_or("it has no name")?;
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let is_name =
        name.starts_with(char::is_alphanumeric) && name.chars().count() <= NAME_CHARS && name.chars().all(fits);
    let shown = || line(name, NAME_CHARS);
    match is_name {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "`{}` is not a valid plugin name: up to {NAME_CHARS} letters, digits, - _ and . are allowed",
            shown()
        )),
    }
}

fn text(field: &str, value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some(text) => Ok(line(text, FIELD_CHARS)),
        None => Err(format!("{field}: a text is wanted")),
    }
}

/// One path or several.
fn paths(field: &str, value: &Value) -> Result<Vec<PathBuf>, String> {
    let said = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(all) => all,
        _ => return Err(format!("{field}: a path is wanted, or a list of paths")),
    };
    said.iter().take(MOST_PATHS).map(|path| path_of(field, path)).collect()
}

fn path_of(field: &str, value: &Value) -> Result<PathBuf, String> {
    let said = value.as_str().ok_or_else(|| format!("{field}: a path is wanted"))?;
    within(said).ok_or_else(|| format!("{field}: `{}` does not lie below the plugin's folder", line(said, NAME_CHARS)))
}

/// A path that stays below the folder that it is relative to.
pub(crate) fn within(said: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in Path::new(said).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => path.push(part),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// A file, or what it would hold. Files wrap it in a field of its own, manifests may.
fn part(field: &str, value: &Value, wrapped: &str) -> Result<Part, String> {
    match value {
        Value::String(_) => path_of(field, value).map(Part::File),
        Value::Object(fields) => Ok(Part::Inline(fields.get(wrapped).unwrap_or(value).clone())),
        _ => Err(format!("{field}: a path is wanted, or what such a file holds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_of_claude_code_is_read() {
        let said = json!({
            "name": "tools", "version": "1.2.0", "description": "Helps\u{1b}[2J", "author": {"name": "x"},
            "commands": ["./more/", "./one.md"], "agents": "./people", "hooks": {"Stop": []},
            "mcpServers": "./servers.json", "outputStyles": "./styles",
        });
        let read = Manifest::read(&said).unwrap();
        assert_eq!((read.name.as_str(), read.version.as_str()), ("tools", "1.2.0"));
        assert_eq!(read.commands, [PathBuf::from("more"), PathBuf::from("one.md")]);
        assert_eq!((read.agents, read.servers), (vec!["people".into()], Part::File("servers.json".into())));
        assert_eq!(read.hooks, Part::Inline(json!({"Stop": []})));
        assert_eq!(read.unknown, ["outputStyles"]);
        assert!(!read.description.contains('\u{1b}'));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (said, words) in [
            (json!([]), "not a list of fields"),
            (json!({}), "no name"),
            (json!({"name": "a:b"}), "is not a valid plugin name"),
            (json!({"name": "x".repeat(10_000)}), "is not a valid plugin name"),
            (json!({"name": "x", "commands": "../up"}), "`../up` does not lie below"),
            (json!({"name": "x", "agents": "/etc"}), "`/etc` does not lie below"),
            (json!({"name": "x", "skills": 3}), "a path is wanted"),
            (json!({"name": "x", "hooks": []}), "hooks: a path is wanted"),
            (json!({"name": "x", "version": 1}), "version: a text is wanted"),
        ] {
            let error = Manifest::read(&said).unwrap_err();
            assert!(error.contains(words) && error.len() < 400, "{said}: {error}");
        }
    }
}
