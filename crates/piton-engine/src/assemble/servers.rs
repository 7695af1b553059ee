//! MCP servers that people keep in files: where these are looked for, in which order they count, and whether the user trusts those
//! that came with a repository.
//!
//! Of several of one name the first counts, whole: flags, then the repository's files, nearest folder first, then the user's own, then
//! those of plugins.
//! What is not trusted takes no name away from what is. A mistake costs the one entry that it is in.

pub mod complete;
mod file;
pub mod import;
mod own;
mod prompt;
mod read;
mod session;
mod variables;

pub use self::own::{OwnFile, own_file};
pub(super) use self::prompt::prompt;
pub use self::read::ReadEntry;
pub use self::session::surroundings;
pub(super) use self::session::{of_agent, of_session};

use self::file::{Format, Source, entries_of};
use super::entries::{State, Trustable};
use super::machine::Machine;
use super::notice::Notice;
use super::scope::{Program, Scope};
use super::trouble::{Context, Trouble};
use crate::agents::Agent;
use crate::config::trust::{Item, Kind, Standing, Trust, repository};
use piton_core::hidden;
use piton_mcp::entry::Entry;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Servers of one file that are looked at; more are no configuration.
const MOST_IN_FILE: usize = 200;

/// A server that was found, and whether it counts.
#[derive(Debug, Clone)]
pub struct FoundServer {
    /// Its name, as models and rules know it.
    pub name: String,
    /// The file that it stands in, or the plugin's folder; empty: a flag.
    pub file: PathBuf,
    /// The line there, where it is known.
    pub line: Option<usize>,
    /// Who says so.
    pub origin: Origin,
    /// The entry, with its variables filled in; or why there is none.
    pub entry: Result<ReadEntry, String>,
    /// Whether it counts.
    pub state: ServerState,
}

/// Who says that there is a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// The repository.
    Project,
    /// The user.
    User,
    /// A plugin.
    Plugin {
        /// Whether it is the user's own: the processes of others run in the sandbox.
        is_own: bool,
    },
}

impl Origin {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Project => "project",
            Self::User => "user",
            Self::Plugin { .. } => "plugin",
        }
    }
}

/// Whether an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It counts, or does not, as any entry.
    As(State),
    /// It would count, and is switched off.
    Disabled,
}

impl ServerState {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::As(state) => state.word(),
            Self::Disabled => "disabled",
        }
    }

    /// Whether it counts.
    pub fn is_in_force(self) -> bool {
        self == Self::As(State::InForce)
    }
}

impl FoundServer {
    /// Where it stands, for people.
    pub fn place(&self) -> String {
        if self.origin == Origin::Flag && self.file.as_os_str().is_empty() {
            return "--mcp-config".to_owned();
        }
        let file = hidden::visible_line(&self.file.display().to_string());
        self.line.map_or(file.clone(), |line| format!("{file}:{line}"))
    }
}

/// One entry of a file, as it stands there.
struct Raw {
    name: String,
    value: Value,
    line: Option<usize>,
}

/// All servers that there are for a session, in the order in which they count. `flags` are files or JSON.
pub fn look(scope: &Scope, flags: &[String]) -> Result<Vec<FoundServer>, Trouble> {
    let Scope { machine, trusted, .. } = scope;
    let disabled = OwnFile::read(machine).map(|own| own.disabled()).unwrap_or_default();
    let sources = sources(scope, flags);
    let trust = Trust::in_folder(&machine.data_dir);
    let is_of_project = |source: &Source| source.origin == Origin::Project && source.file.exists();
    let standing = sources.iter().any(is_of_project).then(|| trust.standings());
    let standing = standing.transpose().with_context(|| "the trust of MCP servers cannot be looked up")?;
    let is_trusted = |item: &Item| {
        trusted.contains(item) || standing.as_ref().is_some_and(|standing| standing(item) == Standing::Trusted)
    };
    let mut all = Vec::new();
    let mut names: BTreeMap<String, (String, String)> = BTreeMap::new();
    for source in sources {
        let raw = match source.text().and_then(|text| entries_of(&text, &source)) {
            Ok(raw) => raw.unwrap_or_default(),
            // Whoever types it wants it now.
            Err(why) if source.origin == Origin::Flag => {
                let said = if source.said.is_some() { String::new() } else { format!(" {}", source.file.display()) };
                return Err(Trouble::new(hidden::visible_line(&format!("--mcp-config{said}: {why}"))));
            }
            Err(why) => {
                let (name, line) = (String::new(), None);
                let state = ServerState::As(State::Broken);
                all.push(FoundServer { name, file: source.file, line, origin: source.origin, entry: Err(why), state });
                continue;
            }
        };
        for raw in raw {
            let name = read::name(&raw.name).unwrap_or_else(|_| hidden::visible_name(&raw.name));
            // What nobody trusts is not even filled in.
            let counts = source.origin != Origin::Project || is_trusted(&item(&source, &raw).0);
            let mut entry = read::entry(&raw, &source, machine, counts);
            if let Some((said, place)) = names.get(&name).filter(|(said, _)| counts && *said != raw.name) {
                entry = Err(same_name(&name, said, place));
            }
            let is_disabled = disabled.contains(&name) || entry.as_ref().is_ok_and(|read| read.is_disabled);
            let state = match &entry {
                Err(_) => ServerState::As(State::Broken),
                Ok(_) if !counts => ServerState::As(State::Untrusted),
                Ok(_) if names.contains_key(&name) => ServerState::As(State::Shadowed),
                Ok(_) if is_disabled => ServerState::Disabled,
                Ok(_) => ServerState::As(State::InForce),
            };
            let (file, origin) = (source.file.clone(), source.origin);
            let line = raw.line.filter(|_| !matches!(origin, Origin::Plugin { .. }));
            let found = FoundServer { name, file, line, origin, entry, state };
            if !matches!(state, ServerState::As(State::Broken | State::Untrusted | State::Shadowed)) {
                names.insert(found.name.clone(), (raw.name, found.place()));
            }
            all.push(found);
        }
    }
    Ok(all)
}

/// Why a server is left out whose name comes to that of another one.
fn same_name(name: &str, said: &str, place: &str) -> String {
    format!(
        "in the names of tools it would be called {name}, as `{}` of {place} is; rename one of them",
        file::shown(said)
    )
}

/// The servers that an agent's file has, as they would be found in a file of servers beside it.
fn in_agent(agent: &Agent, scope: &Scope) -> Vec<FoundServer> {
    let file = agent.file.clone().unwrap_or_default();
    let is_brought = file.starts_with(repository(&scope.workspace));
    let origin = if is_brought { Origin::Project } else { Origin::User };
    let said = serde_json::json!({ "mcpServers": agent.servers }).to_string();
    let source = Source { file, format: Format::Servers, origin, said: None };
    let all = entries_of(&said, &source).ok().flatten().unwrap_or_default();
    let found = |raw: Raw| {
        let entry = read::entry(&raw, &source, &scope.machine, true);
        let state = match &entry {
            Err(_) => ServerState::As(State::Broken),
            Ok(read) if read.is_disabled => ServerState::Disabled,
            Ok(_) => ServerState::As(State::InForce),
        };
        let name = hidden::visible_name(&raw.name);
        FoundServer { name, file: source.file.clone(), line: None, origin, entry, state }
    };
    all.into_iter().map(found).collect()
}

/// Those that count, by name. What is broken is named in a notice, and what is not trusted is counted.
pub fn in_force(all: Vec<FoundServer>, notices: &mut Vec<Notice>) -> Vec<Entry> {
    let (mut entries, mut untrusted) = (Vec::new(), 0);
    for found in all {
        let place = found.place();
        match (found.state, found.entry) {
            (ServerState::As(State::InForce), Ok(read)) => entries.push(read.entry),
            (ServerState::As(State::Untrusted), Ok(_)) => untrusted += 1,
            (ServerState::As(State::Broken), Err(why)) if found.name.is_empty() => {
                notices.push(Notice::new(format!("the MCP servers of {place} are left out: {why}")));
            }
            (ServerState::As(State::Broken), Err(why)) => {
                notices.push(Notice::new(format!("the MCP server {} of {place} is left out: {why}", found.name)));
            }
            _ => {}
        }
    }
    if untrusted > 0 {
        notices.push(Notice::Ignored(untrusted));
    }
    entries.sort_by(|one: &Entry, other: &Entry| one.name.cmp(&other.name));
    entries
}

/// What came with the repository, as something to trust, each with the file and the name.
pub(super) fn brought(workspace: &Path) -> Vec<(PathBuf, Trustable)> {
    let mut all = Vec::new();
    for source in of_repository(workspace) {
        match source.text().and_then(|text| entries_of(&text, &source)) {
            Ok(None) => {}
            Err(why) => all.push((source.file, Err(why))),
            Ok(Some(raw)) => all.extend(raw.iter().map(|raw| {
                let (item, text) = item(&source, raw);
                (item.path.clone(), Ok((item, text)))
            })),
        }
    }
    all
}

/// An entry as something to trust, and all that trust in it covers: `FILE#NAME`.
fn item(source: &Source, raw: &Raw) -> (Item, String) {
    let covered = read::covered(raw);
    let mut path = source.file.clone().into_os_string();
    path.push(format!("#{}", raw.name));
    (Item::new(Kind::Server, Path::new(&path), covered.as_bytes()), covered)
}

fn sources(scope: &Scope, flags: &[String]) -> Vec<Source> {
    let Scope { machine, workspace, plugins, .. } = scope;
    let said = flags.iter().map(|said| Source::said(said, workspace));
    let of_plugins = plugins.in_force().filter_map(|(plugin, from)| Source::of_plugin(plugin, from));
    let of_files = of_repository(workspace).into_iter().chain(of_user(machine, workspace));
    said.chain(of_files.filter(|source| scope.reads(Kind::Server, source.program()))).chain(of_plugins).collect()
}

fn of_repository(workspace: &Path) -> Vec<Source> {
    const NAMES: [(&str, Format); 4] = [
        (".piton/mcp.json", Format::Servers),
        (".mcp.json", Format::Servers),
        ("opencode.json", Format::OpenCode),
        ("opencode.jsonc", Format::OpenCode),
    ];
    let root = repository(workspace);
    let folders = workspace.ancestors().take_while(|folder| folder.starts_with(root));
    let all = folders.flat_map(|folder| NAMES.iter().map(move |(name, format)| (folder.join(name), format.clone())));
    all.map(|(file, format)| Source { file, format, origin: Origin::Project, said: None }).collect()
}

fn of_user(machine: &Machine, workspace: &Path) -> Vec<Source> {
    let mut all: Vec<(PathBuf, Format)> = own_file(machine).map(|file| (file, Format::Servers)).into_iter().collect();
    if let Some(home) = machine.var("HOME").map(Path::new) {
        let claude = home.join(".claude.json");
        all.push((claude.clone(), Format::ClaudeProject(workspace.to_owned())));
        all.push((claude, Format::Servers));
        all.push((home.join(".config/opencode/opencode.json"), Format::OpenCode));
        all.push((home.join(".config/opencode/opencode.jsonc"), Format::OpenCode));
    }
    all.into_iter().map(|(file, format)| Source { file, format, origin: Origin::User, said: None }).collect()
}

impl Source {
    /// Whose file it is.
    fn program(&self) -> Program {
        match &self.format {
            Format::OpenCode => Program::OpenCode,
            Format::ClaudeProject(_) => Program::Claude,
            Format::Servers if self.file.ends_with(".mcp.json") || self.file.ends_with(".claude.json") => {
                Program::Claude
            }
            Format::Servers => Program::Ours,
        }
    }

    /// What is in it; none where there is no such file.
    fn text(&self) -> Result<String, String> {
        if let Some(said) = &self.said {
            return said.clone();
        }
        match regular::text(&self.file, self.most_bytes()) {
            Ok(text) => Ok(text),
            Err(error)
                if self.origin != Origin::Flag
                    && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(String::new())
            }
            Err(error) => Err(format!("it cannot be read: {error}")),
        }
    }

    /// What other programs keep beside their servers may be long.
    fn most_bytes(&self) -> usize {
        match self.origin {
            Origin::User if self.file.ends_with(".claude.json") => 16 * SETTINGS_BYTES,
            Origin::User | Origin::Flag | Origin::Project | Origin::Plugin { .. } => SETTINGS_BYTES,
        }
    }
}

#[cfg(test)]
mod tests;
