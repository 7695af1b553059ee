//! The agents of a session: those of the project, as far as the user trusts them, the user's own, and those that are built in.

use super::entries::{self, At, Entry, Files, Places, State};
use super::hooks::Env;
use super::notice::Notice;
use super::scope::Scope;
use super::servers;
use super::trouble::Trouble;
use crate::agents::file::{self, Read};
use crate::agents::{Agent, AgentParts, Agents, Parts};
use crate::config::Config;
use crate::config::trust::{Kind, repository};
use crate::hooks::{CommandHook, Handler, Hook};
use crate::plugins::PartKind;
use piton_core::hidden;
use piton_tools::servers::Servers;
use piton_tools::spawn::Confinement;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where agents are from that a flag describes.
const FLAG: &str = "--agents";

/// An agent that was found, and whether it counts.
pub type Found = entries::Found<Read>;

impl Entry for Read {
    const PLACES: Places = Places {
        kind: Kind::Agent,
        of_repository: &[
            ".piton/agents",
            ".agents/agents",
            ".claude/agents",
            ".opencode/agents",
            ".opencode/agent",
            ".piton/agent",
        ],
        beside_config: &["agents"],
        of_home: &[".agents/agents", ".claude/agents", ".config/opencode/agents", ".config/opencode/agent"],
        files: Files::Markdown,
        // `mode` is what OpenCode called it first.
        tables: &["agent", "mode"],
        of_plugin: PartKind::Agents,
    };

    fn read(at: &At, text: &str) -> Result<Self, String> {
        let Some(name) = &at.part else { return file::read(&at.file, text) };
        let said: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        file::of_table(&at.file, name, &said)
    }

    fn name(&self) -> &str {
        &self.agent.name
    }

    fn of_plugin(mut self, plugin: &str) -> Self {
        self.agent.name = format!("{plugin}:{}", self.agent.name);
        // As in Claude Code: what a plugin runs, it says where its trust shows that by itself.
        if !std::mem::take(&mut self.agent.hooks).is_empty() {
            self.unknown.push("hooks".to_owned());
        }
        if !std::mem::take(&mut self.agent.servers).is_empty() {
            self.unknown.push("mcpServers".to_owned());
        }
        self
    }
}

/// All agents that there are for a session, in the order in which they count: first those that a flag describes.
pub fn look(scope: &Scope) -> Result<Vec<Found>, Trouble> {
    let built_in = Agents::built_in();
    let built_in = built_in.iter().map(|agent| Read { agent: Agent::clone(agent), unknown: Vec::new() });
    let mut all = entries::look(scope, built_in)?;
    for found in &mut all {
        let is_described = |read: &Read| scope.agents.iter().any(|other| other.agent.name == read.agent.name);
        if found.state == State::InForce && found.read.as_ref().is_ok_and(is_described) {
            found.state = State::Shadowed;
        }
    }
    let at = |read: &Read| At { folder: PathBuf::new(), file: FLAG.into(), part: Some(read.agent.name.clone()) };
    let described =
        scope.agents.iter().map(|read| Found { at: Some(at(read)), read: Ok(read.clone()), state: State::InForce });
    Ok(described.chain(all).collect())
}

/// Those that count. What does not, though it came with the repository, is named.
pub fn of_session(scope: &Scope, notices: &mut Vec<Notice>) -> Result<Agents, Trouble> {
    let all = entries::in_force(look(scope)?, notices);
    Ok(all.into_iter().fold(Agents::built_in(), |agents, read| agents.with(read.agent)))
}

/// The hooks and MCP servers that agents bring along, in the environment of hooks, their processes confined as those of the
/// session's servers are. `known` are those.
pub(super) fn parts_of(
    agents: &Agents,
    scope: &Scope,
    (config, env): (&Config, &Env),
    (known, confinement): (Option<&Arc<dyn Servers>>, &Confinement),
    notices: &mut Vec<Notice>,
) -> Result<AgentParts, Trouble> {
    let mut all = AgentParts::new();
    let known: Vec<String> =
        known.into_iter().flat_map(|servers| servers.servers()).map(|server| server.name).collect();
    let root = repository(&scope.workspace);
    for agent in agents.iter() {
        for name in agent.named_servers.iter().filter(|name| !known.contains(name)) {
            let (agent, name) = (hidden::visible_name(&agent.name), hidden::visible_name(name));
            notices.push(Notice::new(format!("the agent {agent} names the MCP server {name}, which is not in force")));
        }
        // It was read without a mistake.
        let handlers = agent.hooks.read(false).map(|read| read.handlers).unwrap_or_default();
        let is_of_repository = agent.file.as_ref().is_some_and(|file| file.starts_with(root));
        let handlers = handlers.into_iter().flat_map(Handler::of_agent);
        let handlers = handlers.map(|handler| if is_of_repository { handler.confined() } else { handler });
        let command = |handler: Handler| Arc::new(CommandHook::new(handler, Arc::clone(env))) as Arc<dyn Hook>;
        let hooks: Vec<Arc<dyn Hook>> = handlers.map(command).collect();
        let servers = match agent.servers.is_empty() {
            true => None,
            false => servers::of_agent(agent, scope, config, confinement, notices)?,
        };
        if !hooks.is_empty() || servers.is_some() {
            all.insert(agent.name.clone(), Parts { hooks, servers });
        }
    }
    Ok(all)
}

/// The agents that a flag describes, as JSON: each by its name, with the fields of its file and its words as `prompt`.
pub fn described(json: &str) -> Result<Vec<Read>, String> {
    let said: Value = serde_json::from_str(json).map_err(|error| format!("it is not valid JSON: {error}"))?;
    let Value::Object(all) = said else { return Err("a list of agents by their names is wanted".to_owned()) };
    let read = |(name, said): (&String, &Value)| {
        file::of_table(Path::new(FLAG), name, said).map_err(|why| format!("{}: {why}", hidden::visible_line(name)))
    };
    all.iter().map(read).collect()
}
