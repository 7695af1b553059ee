//! Agents: who does the work, with which words, tools, rules and model. A session is run by one; the tool `task` calls others,
//! each in a session of its own.

pub mod file;

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
use piton_tools::subagent::GENERAL;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Who does the work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agent {
    /// What it is called by.
    pub name: String,
    /// What it is for, in a sentence for the model that may call it.
    pub description: String,
    /// Its own words in the system prompt, behind those that every session has; none: only those.
    pub prompt: String,
    /// The tools that it is offered, by our names; `None`: those of its caller.
    pub tools: Option<Vec<String>>,
    /// Those that it is not offered.
    pub without: Vec<String>,
    /// What it may do less than its caller.
    pub rules: Rules,
    /// The mode that its calls are judged in, where that is stricter than its caller's.
    pub mode: Option<PermissionMode>,
    /// Its model, as a person would name it; `None`: its caller's.
    pub model: Option<String>,
    /// How much that thinks.
    pub effort: Option<Effort>,
    /// Its most steps in one turn.
    pub max_steps: Option<u32>,
    /// Whether a call of it returns at once, and it works in the background.
    pub background: bool,
    /// Whether it works in a git worktree of its own.
    pub worktree: bool,
    /// The skills that it is given from the beginning, by their names.
    pub skills: Vec<String>,
    /// Hooks that run only where it works, as its file has them.
    pub hooks: HookTable,
    /// MCP servers for it alone, as its file has them.
    pub servers: Map<String, Value>,
    /// MCP servers of the session that its file names.
    pub named_servers: Vec<String>,
    /// Whether it can be called.
    pub is_subagent: bool,
    /// Whether a session can be run by it.
    pub is_primary: bool,
    /// The file that it is from; none: it is built in.
    pub file: Option<PathBuf>,
    /// A BLAKE3 hash of that file, in hexadecimal.
    pub hash: Option<String>,
}

impl Agent {
    /// The agent of a session of which nothing else is said. It adds nothing.
    pub fn build() -> Self {
        Self {
            name: BUILD.to_owned(),
            description: "Does what you ask. The default.".to_owned(),
            is_primary: true,
            ..Self::default()
        }
    }

    /// Its model, where that is not its caller's or, of a session's agent, the configured one.
    pub fn own_model(&self) -> Option<&str> {
        self.model.as_deref().filter(|model| *model != "inherit")
    }

    /// Whether it is offered a tool, as far as it is up to the agent.
    pub fn takes(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| server_tool::is_chosen(tools, tool))
            && !self.without.iter().any(|name| server_tool::is_meant(name, tool))
    }

    /// The mode that calls are judged in where it is at work: its own only where that is stricter.
    pub fn mode_within(&self, mode: PermissionMode) -> PermissionMode {
        self.mode.map_or(mode, |own| stricter(own, mode))
    }

    /// Takes from what a policy allows: rules, tools and steps. `tools` are all that there are. The mode is not narrowed here.
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
                policy.permission.0.push(Rule { voice: Voice::Repository, ..Rule::of(tool.as_str(), Action::Deny) });
            }
        }
        policy.steps.max = [policy.steps.max, self.max_steps].into_iter().flatten().min();
    }
}

/// Adds what an agent may do less than its caller. Its rules are no words of the user's: they lift none of these. A question that
/// stands beside a ban on the same tool is left out, since it could be more particular than that.
fn narrow(rules: &mut Rules, own: &Rules) {
    let is_banned = |tool: &str| rules.0.iter().any(|rule| rule.action == Action::Deny && rule.names(tool));
    let narrower: Vec<Rule> = own
        .0
        .iter()
        .filter(|rule| rule.action == Action::Deny || (rule.action == Action::Ask && !is_banned(&rule.tool)))
        .map(|rule| Rule { voice: Voice::Repository, ..rule.clone() })
        .collect();
    rules.0.extend(narrower);
}

/// Which of the two lets less happen unasked.
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

/// Everybody who can run a session or be called.
#[derive(Debug, Clone, PartialEq)]
pub struct Agents(Vec<Arc<Agent>>);

impl Default for Agents {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Agents {
    /// Those that are always there.
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

    /// These and another; it takes the place of one of the same name.
    #[must_use]
    pub fn with(mut self, agent: Agent) -> Self {
        self.0.retain(|other| other.name != agent.name);
        self.0.push(Arc::new(agent));
        self.0.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// The same, where the agents of a plugin name its skills without its name.
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

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.0.iter()
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.0.iter().find(|agent| agent.name == name)
    }

    /// Those that a session can be run by.
    pub fn primary(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.0.iter().filter(|agent| agent.is_primary)
    }

    /// The one of this name, if a session can be run by it; otherwise why not, in words.
    pub fn of_session(&self, name: &str) -> Result<Arc<Agent>, String> {
        let known = || self.primary().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        match self.get(name) {
            Some(agent) if agent.is_primary => Ok(Arc::clone(agent)),
            Some(_) => {
                Err(format!("the agent `{name}` can only be called by others; a session is run by one of {}", known()))
            }
            None => Err(format!(
                "there is no agent `{}`; a session is run by one of {}",
                hidden::visible_line(name),
                known()
            )),
        }
    }

    /// Name and description of those that the tool `task` can call.
    pub fn subagents(&self) -> Vec<(String, String)> {
        let callable = self.0.iter().filter(|agent| agent.is_subagent);
        callable.map(|agent| (agent.name.clone(), agent.description.clone())).collect()
    }
}
