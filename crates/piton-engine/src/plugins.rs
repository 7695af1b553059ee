//! Plugins: folders that bring agents, skills, commands, hooks and servers along, in the form that Claude Code reads. What one holds is
//! read here; where plugins come from and which count, [`crate::assemble::plugins`] knows.
//!
//! A plugin is its files as they were when it was read: each is hashed, and one that has changed since is not used. Links are not
//! followed.

pub mod added;
pub mod manifest;
pub mod marketplace;
pub mod source;

use crate::hooks::HookTable;
use crate::skills;
use crate::tree::{Most, Node, Tree};
use manifest::{Manifest, Part, SERVERS};
use piton_core::hidden;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a plugin may hold.
const MOST: Most = Most { files: 2_000, bytes: 64 << 20, depth: 12 };

/// The variables that name a plugin's folder, and the folder for what it keeps.
pub const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";
/// See [`ROOT_VARIABLE`].
pub const DATA_VARIABLE: &str = "CLAUDE_PLUGIN_DATA";

/// A plugin that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// What its manifest says.
    pub manifest: Manifest,
    /// Its folder.
    pub root: PathBuf,
    /// Where it may keep what outlives an update.
    pub data: PathBuf,
    files: Arc<Tree>,
}

impl Plugin {
    /// Reads the plugin in a folder. `given` is what a marketplace says of it, which counts where the folder has no manifest of its own.
    /// `data_dir` is Piton's data folder.
    pub fn read(root: &Path, given: Option<&Value>, data_dir: &Path) -> Result<Self, String> {
        let manifest = Manifest::of_folder(root, given)?;
        let files = Self::tree(root)?;
        let data = data_dir.join("plugins/data").join(&manifest.name);
        Ok(Self { manifest, root: root.to_owned(), data, files: Arc::new(files) })
    }

    /// The same, of a repository: what it keeps lies apart from what a plugin of the user's with its name keeps, whose hooks run
    /// outside of the sandbox and may run what they have kept.
    #[must_use]
    pub(crate) fn of_repository(self, data_dir: &Path) -> Self {
        let root = blake3::hash(self.root.as_os_str().as_encoded_bytes()).to_hex();
        let data = data_dir.join("plugins/of-repositories").join(&root[..16]).join(&self.manifest.name);
        Self { data, ..self }
    }

    /// What it is called by; whatever it brings is called `NAME:name`.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// The file that stands for it in lists: its manifest, or its folder where it has none.
    pub fn file(&self) -> PathBuf {
        manifest::file_in(&self.root).unwrap_or_else(|| self.root.clone())
    }

    /// A BLAKE3 hash over all its files, in hexadecimal.
    pub fn hash(&self) -> String {
        blake3::hash(self.files.lines().as_bytes()).to_hex().to_string()
    }

    /// Its files, with their hashes.
    pub(crate) fn files(&self) -> &Tree {
        &self.files
    }

    /// What trust in it covers, for people to read: what it runs by itself, then every file with its hash.
    pub fn covered(&self) -> String {
        let mut text = format!("plugin {}: {}\n", self.name(), self.brings());
        for (what, said) in [("hooks", self.hooks_text()), ("MCP servers", self.servers_text())] {
            if let Ok(Some(said)) = said {
                let _ = write!(text, "\nIts {what}:\n{}\n", said.trim_end());
            }
        }
        let _ = write!(text, "\nIts files:\n{}", self.files.lines());
        text
    }

    /// What it brings along, in words.
    pub fn brings(&self) -> String {
        let count = |kind: PartKind| {
            let files = self.entry_files(kind).len();
            (files > 0).then(|| format!("{files} {}", kind.words(files)))
        };
        let mut parts: Vec<String> = PartKind::ALL.into_iter().filter_map(count).collect();
        parts.extend(self.hooks_text().ok().flatten().map(|_| "hooks".to_owned()));
        parts.extend(self.servers_text().ok().flatten().map(|_| "MCP servers".to_owned()));
        if parts.is_empty() { "nothing that is used here".to_owned() } else { parts.join(", ") }
    }

    /// Where entries of a kind lie: folders, or single files.
    pub fn folders(&self, kind: PartKind) -> Vec<PathBuf> {
        let (usual, more) = match kind {
            PartKind::Agents => ("agents", &self.manifest.agents),
            PartKind::Commands => ("commands", &self.manifest.commands),
            PartKind::Skills => ("skills", &self.manifest.skills),
        };
        let mut folders = vec![self.root.join(usual)];
        folders.extend(more.iter().map(|path| self.root.join(path)).filter(|path| *path != self.root.join(usual)));
        folders
    }

    /// The files of entries of a kind, each with the folder that its name counts from.
    pub fn entry_files(&self, kind: PartKind) -> Vec<(PathBuf, PathBuf)> {
        let mut all = Vec::new();
        for folder in self.folders(kind) {
            let below =
                self.files.iter().map(|(path, _)| self.root.join(path)).filter(|path| path.starts_with(&folder));
            let base = if folder.is_file() { folder.parent().unwrap_or(&self.root) } else { &folder };
            all.extend(below.filter(|path| kind.is_file_of(path)).map(|path| (base.to_owned(), path)));
        }
        all
    }

    /// Whether any file of it was changed, added or removed since it was read.
    pub(crate) fn has_changed(&self) -> bool {
        Self::tree(&self.root).map_or(true, |now| now != *self.files)
    }

    fn tree(root: &Path) -> Result<Tree, String> {
        Tree::read(root, MOST, &|name| name == Path::new(".git"))
    }

    /// What is in one of its files, with its folders in the place of the variables that name them.
    pub fn text(&self, file: &Path) -> Result<String, String> {
        Ok(self.filled(&self.raw(file)?))
    }

    /// What is in one of its files. One that is not as it was when the plugin was read is refused.
    fn raw(&self, file: &Path) -> Result<String, String> {
        let within = file.strip_prefix(&self.root).unwrap_or(file);
        let hash = match self.files.get(within) {
            Some(Node::File { hash, .. }) => hash,
            Some(Node::Link(_)) => return Err("it is a link, which is not followed in a plugin".to_owned()),
            None => return Err("it is no file of the plugin".to_owned()),
        };
        let bytes =
            regular::whole_unlinked(file, SETTINGS_BYTES).map_err(|error| format!("it cannot be read: {error}"))?;
        if blake3::hash(&bytes) != *hash {
            return Err("it was changed since the plugin was read".to_owned());
        }
        String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())
    }

    /// A text with its folders in the place of `${CLAUDE_PLUGIN_ROOT}` and `${CLAUDE_PLUGIN_DATA}`.
    pub fn filled(&self, text: &str) -> String {
        let text = text.replace(&format!("${{{ROOT_VARIABLE}}}"), &self.root.to_string_lossy());
        text.replace(&format!("${{{DATA_VARIABLE}}}"), &self.data.to_string_lossy())
    }

    /// Its hooks; nothing where it has none. In their commands the shell fills in the plugin's folders, which are in their environment.
    pub fn hooks(&self) -> Result<Option<HookTable>, String> {
        let Some(text) = self.hooks_text()? else { return Ok(None) };
        let table = HookTable::of_settings(&text).map_err(|error| with_causes(&error))?;
        Ok(Some(table).filter(|table| !table.is_empty()))
    }

    fn hooks_text(&self) -> Result<Option<String>, String> {
        self.part_text(&self.manifest.hooks, "hooks/hooks.json", |said| serde_json::json!({ "hooks": said }))
    }

    /// Its MCP servers, as `.mcp.json` has them, with its folders filled in; nothing where it has none.
    pub fn servers(&self) -> Result<Option<Value>, String> {
        let Some(text) = self.servers_text()? else { return Ok(None) };
        let mut value: Value = serde_json::from_str(&text).map_err(|error| format!("it is not valid JSON: {error}"))?;
        self.fill(&mut value);
        Ok(Some(value))
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.filled(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.fill(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn servers_text(&self) -> Result<Option<String>, String> {
        self.part_text(&self.manifest.servers, SERVERS, |said| serde_json::json!({ "mcpServers": said }))
    }

    /// A part that lies in a file of its own, or stands in the manifest.
    fn part_text(&self, part: &Part, usual: &str, wrapped: fn(&Value) -> Value) -> Result<Option<String>, String> {
        let file = match part {
            Part::Inline(value) => return Ok(Some(wrapped(value).to_string())),
            Part::File(path) => path.as_path(),
            Part::Usual if self.files.get(Path::new(usual)).is_none() => return Ok(None),
            Part::Usual => Path::new(usual),
        };
        let text = self.raw(&self.root.join(file));
        text.map(Some).map_err(|why| format!("{}: {why}", hidden::visible_line(&file.display().to_string())))
    }
}

/// The kinds of entries that plugins bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// See [`crate::agents`].
    Agents,
    /// See [`crate::skills`].
    Skills,
    /// See [`crate::commands`].
    Commands,
}

impl PartKind {
    const ALL: [Self; 3] = [Self::Agents, Self::Skills, Self::Commands];

    fn is_file_of(self, path: &Path) -> bool {
        match self {
            Self::Skills => path.file_name().is_some_and(|name| name == skills::file::FILE),
            Self::Agents | Self::Commands => path.extension().is_some_and(|end| end == "md"),
        }
    }

    fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Agents, 1) => "agent",
            (Self::Agents, _) => "agents",
            (Self::Skills, 1) => "skill",
            (Self::Skills, _) => "skills",
            (Self::Commands, 1) => "command",
            (Self::Commands, _) => "commands",
        }
    }
}

/// An error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = write!(words, ": {cause}");
        next = cause.source();
    }
    words
}
