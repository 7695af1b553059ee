//! Agents: instructions, tools, rules and a model under a name. One agent runs the session; the tool `task` calls others,
//! each in a session of its own.

pub mod file;

use crate::answers::Sampling;
use crate::hooks::{Hook, HookTable};
use crate::skills::Skills;
use piton_core::call::ToolSpec;
use piton_core::configure::{BUILD, PLAN};
use piton_core::effort::Effort;
use piton_core::hidden;
use piton_core::permission::{Action, PermissionMode, Rule, Rules, Voice};
use piton_core::policy::Policy;
use piton_core::server_tool;
use piton_tools::servers::Servers;
use piton_tools::subagent::{GENERAL, ours};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// An agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence for the model that may call it.
    pub description: String,
    /// Its instructions, which follow the system prompt of every session; may be empty.
    pub prompt: String,
    /// The tools that it gets, by Piton's names; `None` for those of its caller.
    pub tools: Option<Vec<String>>,
    /// The tools that it does not get.
    pub without: Vec<String>,
    /// Rules that restrict it beyond its caller's.
    pub rules: Rules,
    /// Its permission mode, which applies if it is stricter than its caller's.
    pub mode: Option<PermissionMode>,
    /// Its model, as a person would name it; `None` for its caller's.
    pub model: Option<String>,
    /// The model's reasoning effort.
    pub effort: Option<Effort>,
    /// The model's sampling temperature.
    pub temperature: Option<f64>,
    /// The share of the likeliest tokens that the model draws from.
    pub top_p: Option<f64>,
    /// What stands before the first message of a session that it runs, for the model.
    pub initial_prompt: Option<String>,
    /// Its step limit in one turn.
    pub max_steps: Option<u32>,
    /// Whether it works in the background, so that a call of it returns at once.
    pub background: bool,
    /// Whether it works in a git worktree of its own.
    pub worktree: bool,
    /// The skills that are part of its instructions, by name.
    pub skills: Vec<String>,
    /// Hooks that run only where it works, as its file has them.
    pub hooks: HookTable,
    /// MCP servers for it alone, as its file has them.
    pub servers: Map<String, Value>,
    /// MCP servers of the session that its file names.
    pub named_servers: Vec<String>,
    /// Whether it can be called.
    pub is_subagent: bool,
    /// Whether it can run a session.
    pub is_primary: bool,
    /// Its file; `None` if it is built in.
    pub file: Option<PathBuf>,
    /// A BLAKE3 hash of that file, in hexadecimal.
    pub hash: Option<String>,
}

impl Agent {
    /// The default agent of a session. It adds nothing.
    pub fn build() -> Self {
        Self {
            name: BUILD.to_owned(),
            description: "Does what you ask. The default.".to_owned(),
            is_primary: true,
            ..Self::default()
        }
    }

    /// Its own model; `None` if it uses its caller's or, for a session's agent, the configured one.
    pub fn own_model(&self) -> Option<&str> {
        self.model.as_deref().filter(|model| *model != "inherit")
    }

    /// How its model's answers are made.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { effort: self.effort, temperature: self.temperature, top_p: self.top_p }
    }

    /// Whether the agent's own settings let it have this tool.
    pub fn takes(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| server_tool::is_chosen(tools, tool))
            && !self.without.iter().any(|name| server_tool::is_meant(name, tool))
    }

    /// The permission mode in effect: its own if that is stricter.
    pub fn mode_within(&self, mode: PermissionMode) -> PermissionMode {
        self.mode.map_or(mode, |own| stricter(own, mode))
    }

    /// Restricts the rules, tools and steps of a policy. `tools` are all existing tools. Does not restrict the mode.
    pub(crate) fn narrow(&self, policy: &mut Policy, tools: &[ToolSpec]) {
        narrow(&mut policy.permission, &self.rules);
        if self.tools.is_some() || !self.without.is_empty() {
            let is_of_server = |name: &&String| name.starts_with(server_tool::PREFIX);
            let own = tools.iter().map(|spec| &spec.name).filter(|name| !is_of_server(name));
            // Tools of servers are not all known yet: they are chosen by what names them.
            let of_servers = self.tools.as_ref().or(policy.calls.enabled.as_ref()).into_iter().flatten();
            let all = own.chain(of_servers.filter(is_of_server));
            let left = all.filter(|name| self.takes(name) && policy.calls.enables(name)).cloned().collect();
            policy.calls.enabled = Some(left);
            for tool in self.without.iter().filter(is_of_server) {
                policy.permission.0.push(Rule { voice: Voice::Agent, ..Rule::of(tool.as_str(), Action::Deny) });
            }
        }
        policy.steps.max = [policy.steps.max, self.max_steps].into_iter().flatten().min();
    }
}

/// Adds an agent's restrictions. Its rules are not the user's and override none of these. An `ask` beside a `deny` for
/// the same tool is left out, since it could be more specific.
fn narrow(rules: &mut Rules, own: &Rules) {
    let is_banned = |tool: &str| rules.0.iter().any(|rule| rule.action == Action::Deny && rule.names(tool));
    let narrower: Vec<Rule> = own
        .0
        .iter()
        .filter(|rule| rule.action == Action::Deny || (rule.action == Action::Ask && !is_banned(&rule.tool)))
        .map(|rule| Rule { voice: Voice::Agent, ..rule.clone() })
        .collect();
    rules.0.extend(narrower);
}

/// The stricter of the two.
pub(crate) fn stricter(one: PermissionMode, other: PermissionMode) -> PermissionMode {
    let rank = |mode| match mode {
        PermissionMode::Plan => 0,
        PermissionMode::Ask => 1,
        PermissionMode::AcceptEdits => 2,
        PermissionMode::Auto => 3,
    };
    if rank(one) <= rank(other) { one } else { other }
}

/// Opens the MCP servers that an agent's file has, anew for each of its sessions.
pub type OpenServers = Arc<dyn Fn() -> Arc<dyn Servers> + Send + Sync>;

/// What agents bring along that runs, by their names. It is in force only where the agent works.
pub type AgentParts = BTreeMap<String, Parts>;

/// What one agent brings along that runs.
#[derive(Clone, Default)]
pub struct Parts {
    /// Its hooks.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Its MCP servers.
    pub servers: Option<OpenServers>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hooks, has_servers) = (self.hooks.len(), self.servers.is_some());
        f.debug_struct("Parts").field("hooks", &hooks).field("has_servers", &has_servers).finish()
    }
}

/// All agents.
#[derive(Debug, Clone, PartialEq)]
pub struct Agents(Vec<Arc<Agent>>);

impl Default for Agents {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Agents {
    /// The built-in agents.
    pub fn built_in() -> Self {
        let explore = Agent {
            name: "explore".to_owned(),
            description: "Finds things out in the workspace and changes nothing: where something is, how it works."
                .to_owned(),
            prompt:
                "You find things out for another agent and change nothing. Answer with what you found: files with line \
                     numbers, and what it means. Say what you did not find."
                    .to_owned(),
            mode: Some(PermissionMode::Plan),
            without: ["edit", "write", "apply_patch"].map(str::to_owned).to_vec(),
            is_subagent: true,
            ..Agent::default()
        };
        let general = Agent {
            name: GENERAL.to_owned(),
            description: "Does any piece of work that can be described on its own.".to_owned(),
            is_subagent: true,
            ..Agent::default()
        };
        let plan = Agent {
            name: PLAN.to_owned(),
            description: "Finds out and plans, and changes nothing until you have approved of the plan.".to_owned(),
            mode: Some(PermissionMode::Plan),
            is_primary: true,
            ..Agent::default()
        };
        Self([Agent::build(), explore, general, plan].map(Arc::new).into())
    }

    /// Adds an agent, which replaces one of the same name.
    #[must_use]
    pub fn with(mut self, agent: Agent) -> Self {
        self.0.retain(|other| other.name != agent.name);
        self.0.push(Arc::new(agent));
        self.0.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// The same agents, with full names for skills that a plugin's agents name without the plugin's name.
    #[must_use]
    pub fn with_skills_of_plugins(mut self, skills: &Skills) -> Self {
        for agent in &mut self.0 {
            let Some((plugin, _)) = agent.name.split_once(':') else { continue };
            let own = |name: &String| Some(format!("{plugin}:{name}")).filter(|name| skills.get(name).is_some());
            let named = agent.skills.iter().map(|name| own(name).unwrap_or_else(|| name.clone())).collect();
            Arc::make_mut(agent).skills = named;
        }
        self
    }

    /// All agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.0.iter()
    }

    /// The agent of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.0.iter().find(|agent| agent.name == name)
    }

    /// The agent that a call means: of this name, or of ours for one of Claude Code's.
    pub fn called(&self, name: &str) -> Option<&Arc<Agent>> {
        let callable = |name: &str| self.get(name).filter(|agent| agent.is_subagent);
        callable(name).or_else(|| callable(ours(name)))
    }

    /// The agents that can run a session.
    pub fn primary(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.0.iter().filter(|agent| agent.is_primary)
    }

    /// The agent of this name, if it can run a session; otherwise the reason why not.
    pub fn of_session(&self, name: &str) -> Result<Arc<Agent>, String> {
        let known = || self.primary().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        // As Claude Code calls them.
        let own = if name == "Plan" { PLAN } else { ours(name) };
        match self.get(name).or_else(|| self.get(own)) {
            Some(agent) if agent.is_primary => Ok(Arc::clone(agent)),
            Some(agent) => {
                let name = &agent.name;
                Err(format!("the agent `{name}` can only be called by others; a session is run by one of {}", known()))
            }
            None => Err(format!(
                "there is no agent `{}`; a session is run by one of {}",
                hidden::visible_line(name),
                known()
            )),
        }
    }

    /// Name and description of the agents that the tool `task` can call.
    pub fn subagents(&self) -> Vec<(String, String)> {
        let callable = self.0.iter().filter(|agent| agent.is_subagent);
        callable.map(|agent| (agent.name.clone(), agent.description.clone())).collect()
    }
}
