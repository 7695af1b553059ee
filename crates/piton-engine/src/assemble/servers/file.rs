//! The files that name servers, and where in them these stand.

use super::super::jsonc;
use super::{MOST_IN_FILE, Origin, Raw};
use crate::assemble::plugins::From;
use crate::plugins::{DATA_VARIABLE, Plugin, ROOT_VARIABLE};
use piton_core::hidden;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where servers stand.
pub(super) struct Source {
    /// The file; for JSON on a command line, nothing; for a plugin, its folder.
    pub(super) file: PathBuf,
    pub(super) format: Format,
    pub(super) origin: Origin,
    /// What it holds, if that is known already: JSON of a command line, or what a plugin says.
    pub(super) said: Option<Result<String, String>>,
}

/// How they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// Below `mcpServers`, as in `.mcp.json`.
    Servers,
    /// Below `projects` and a folder, as `claude mcp add` keeps them for one project.
    ClaudeProject(PathBuf),
    /// Below `mcp`, as in `opencode.json`.
    OpenCode,
}

impl Source {
    /// What a flag names: JSON, or a file.
    pub(super) fn said(said: &str, workspace: &Path) -> Self {
        let (file, said) = match said.trim_start().starts_with('{') {
            true => (PathBuf::new(), Some(Ok(said.to_owned()))),
            false => (workspace.join(said), None),
        };
        Self { file, format: Format::Servers, origin: Origin::Flag, said }
    }

    /// The servers of a plugin, each called `plugin_PLUGIN_SERVER`, as Claude Code calls them in the names of tools.
    pub(super) fn of_plugin(plugin: &Plugin, from: &From) -> Option<Self> {
        let said = match plugin.servers() {
            Ok(None) => return None,
            Ok(Some(servers)) => Ok(named(plugin, servers).to_string()),
            Err(why) => Err(why),
        };
        let origin = Origin::Plugin { is_own: !matches!(from, From::Settings { is_own: false, .. }) };
        Some(Self { file: plugin.root.clone(), format: Format::Servers, origin, said: Some(said) })
    }
}

/// What a plugin says of its servers, with their names here, and its folders in the environment of their processes.
fn named(plugin: &Plugin, mut servers: Value) -> Value {
    let inner = if servers.get("mcpServers").is_some() { servers["mcpServers"].take() } else { servers };
    let Value::Object(inner) = inner else { return json!({ "mcpServers": inner }) };
    let folders = [(ROOT_VARIABLE, &plugin.root), (DATA_VARIABLE, &plugin.data)];
    let one = |(name, mut entry): (String, Value)| {
        if entry.get("command").is_some() {
            let env = entry.as_object_mut().map(|entry| entry.entry("env").or_insert_with(|| json!({})));
            if let Some(env) = env.and_then(Value::as_object_mut) {
                for (variable, folder) in folders {
                    env.entry(variable).or_insert_with(|| json!(folder));
                }
            }
        }
        (format!("plugin_{}_{name}", plugin.name()), entry)
    };
    json!({ "mcpServers": inner.into_iter().map(one).collect::<Map<_, _>>() })
}

/// The entries of a file, as many as are looked at; none where it has no place for them. The error says why nothing can be read.
pub(super) fn entries_of(text: &str, source: &Source) -> Result<Option<Vec<Raw>>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let whole = jsonc::parse(text)?;
    let Value::Object(whole) = whole else { return Err("it is not a JSON object".to_owned()) };
    let (place, servers) = match &source.format {
        Format::Servers => ("mcpServers", whole.get("mcpServers")),
        Format::OpenCode => ("mcp", whole.get("mcp")),
        Format::ClaudeProject(workspace) => {
            let projects = whole.get("projects").and_then(Value::as_object);
            let of = |folder: &Path| projects?.get(folder.to_str()?)?.get("mcpServers");
            ("projects", workspace.ancestors().find_map(of))
        }
    };
    match servers {
        None | Some(Value::Null) => match looks_like_servers(&whole, source) {
            true => Ok(Some(raw(&whole, text, ""))),
            false if source.origin == Origin::Flag => Err(format!("it has no `{place}`")),
            false => Ok(None),
        },
        Some(Value::Object(servers)) => Ok(Some(raw(servers, text, place))),
        Some(_) => Err(format!("`{place}` is no object of servers")),
    }
}

/// A file of servers and nothing else, without the name around them.
fn looks_like_servers(whole: &Map<String, Value>, source: &Source) -> bool {
    let is_server = |value: &Value| value.get("command").is_some() || value.get("url").is_some();
    source.format == Format::Servers
        && (source.origin == Origin::Flag || source.file.ends_with(".mcp.json"))
        && !whole.is_empty()
        && whole.values().all(is_server)
}

fn raw(servers: &Map<String, Value>, text: &str, place: &str) -> Vec<Raw> {
    let from = if place.is_empty() { 0 } else { text.find(&format!("\"{place}\"")).unwrap_or(0) };
    // OpenCode can switch a server of another file on and off, which is no server.
    let is_switch = |value: &Value| {
        place == "mcp" && value.as_object().is_some_and(|entry| entry.keys().all(|key| key == "enabled"))
    };
    let all = servers.iter().filter(|(_, value)| !is_switch(value)).take(MOST_IN_FILE);
    all.map(|(name, value)| Raw { name: name.clone(), value: value.clone(), line: line_of(name, text, from) }).collect()
}

/// The line on which a key stands, from this byte on.
fn line_of(key: &str, text: &str, from: usize) -> Option<usize> {
    let quoted = Value::from(key).to_string();
    let mut at = from;
    loop {
        at += text.get(at..)?.find(&quoted)?;
        if text[at + quoted.len()..].trim_start().starts_with(':') {
            return Some(text[..at].matches('\n').count() + 1);
        }
        at += quoted.len();
    }
}

/// A word of a file, as it may be shown.
pub(super) fn shown(word: &str) -> String {
    hidden::visible_name(word)
}
