//! How to run a session: with which model, which tools and which rules. Programs that embed Piton fill this in;
//! [`crate::assemble`] builds it from a machine's configuration.

use crate::agents::{Agent, AgentParts, Agents};
pub use crate::answers::Sampling;
use crate::commands::Commands;
use crate::context::{self, servers_now};
use crate::history::default_tools;
use crate::hooks::Hook;
use crate::skills::Skills;
use crate::standing::Standing;
use piton_core::call::ToolSpec;
use piton_core::client::ServerNow;
use piton_core::configure::{Configure, PLAN, is_every};
use piton_core::effort::Effort;
use piton_core::inquiry::planning;
use piton_core::permission::PermissionMode;
use piton_core::policy::{Policy, RetryPolicies, ToolFields};
use piton_core::stream_json::Offer;
use piton_http::egress::Egress;
use piton_models::generation::writes_patches;
use piton_models::model::Model;
use piton_models::text_tools::{CallsRead, Mode};
use piton_sandbox::{Carried, Limits, Network, Reach, Write};
use piton_tools::after_edit::AfterEdit;
use piton_tools::backend::{Backend, Local};
use piton_tools::runner::RunnerCommand;
use piton_tools::servers::Servers;
use piton_tools::servers::joined::JoinedServers;
use piton_tools::snapshot::Snapshots;
use piton_tools::spawn::{Confined, Confinement};
use piton_tools::subagent;
use piton_tools::tool::ToolLimits;
use piton_tools::toolset::ToolSet;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Called with the workspace when a summary has replaced a conversation. The model gets its result beside the summary:
/// the current instructions and skills, read again.
pub type AfterCompaction = Arc<dyn Fn(&Path) -> Option<String> + Send + Sync>;

/// Called to store a plan: returns the folder for it, if the user trusts the repository.
pub type PlanFolder = Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>;

/// Which models get `apply_patch` instead of `edit` and `write`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Patches {
    /// Those that were trained on its format.
    #[default]
    ByModel,
    /// All.
    Always,
    /// None.
    Never,
}

/// How to run a session: with which model, which tools and which rules.
#[derive(Clone)]
pub struct Settings {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Fallback models, in order, for when it gives no reply after all retries.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The tools that the model gets.
    pub tools: ToolSet,
    /// The agents that the tool [`piton_tools::subagent`] can call, if the model has it.
    pub agents: Arc<Agents>,
    /// Finds the slash commands that prompts name; without it, there are none.
    pub commands: Option<Arc<dyn Commands>>,
    /// The agent that runs the session; its instructions, tools, rules and steps narrow these settings. Its mode and its model
    /// are already in `policy` and `model`.
    pub agent: Arc<Agent>,
    /// The mode and models that the agent's own replaced.
    pub displaced: Displaced,
    /// The hooks and MCP servers that agents bring along.
    pub agent_parts: Arc<AgentParts>,
    /// The MCP servers that the agent of this session brings along; they are among those of `tools`. The session finds them itself.
    pub own_servers: Option<OwnServers>,
    /// The skills that the tool [`piton_tools::skill`] loads, if the model has it, and that a person can start.
    pub skills: Arc<Skills>,
    /// Which models change files with patches.
    pub patches: Patches,
    /// Limits and permission rules; recorded with each turn.
    pub policy: Policy,
    /// Whether somebody is there to approve calls.
    pub attendance: Attendance,
    /// Whether the model gets `ask_user`. If nobody answers a question, its defaults count; leave it off in sessions in which
    /// nobody ever will.
    pub asks_people: bool,
    /// The system prompt.
    pub system: Arc<str>,
    /// Where calls act. The default is this machine without a runner, which cannot run shell commands.
    pub backend: Arc<dyn Backend>,
    /// What the model's commands can reach; without it, everything that the user can.
    pub sandbox: Option<SandboxSettings>,
    /// The environment of tool processes. It must not contain keys.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// The known secrets, and whether they are redacted in what is stored, shown and sent.
    pub secrets: SecretSettings,
    /// Limits of the tools.
    pub tool_limits: ToolLimits,
    /// Commands to run on files that tools have changed.
    pub after_edits: Arc<[AfterEdit]>,
    /// Whether anything else runs on this tokio runtime that must not wait for the disk. If not, a step saves some tenths of
    /// a millisecond by not switching to another thread and back.
    pub shares_runtime: bool,
    /// Where snapshots of the workspace are stored, so that turns can be undone; without it, they cannot.
    pub snapshots: Option<Arc<Snapshots>>,
    /// Whether to take a snapshot before anything that may change files. If not, undo reverts only what earlier turns changed.
    pub takes_snapshots: bool,
    /// The agent that runs the session, if another session's call created it.
    pub subagent: Option<String>,
    /// The model that titles a session after its first turn; without one, the title comes from the first prompt.
    pub titles: Option<Arc<dyn Model>>,
    /// The model that summarizes a conversation that has become too long; without one, or if its window is too small, the
    /// session's own model.
    pub compaction_model: Option<Arc<dyn Model>>,
    /// Where to store the plans of plan mode; without it, or if it says so, in the session's folder.
    pub plan_folder: Option<PlanFolder>,
    /// What the model gets again after a compaction, beside the summary.
    pub after_compaction: Option<AfterCompaction>,
    /// Hooks that watch the loop and may change what it does, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// A note before the first message in a workspace, for the model only.
    pub environment_note: Option<String>,
    /// Where to look for instruction files; without it, none are read.
    pub instructions: Option<context::Instructions>,
    /// Looks for skills and agents that have changed; without it, the model is not told of them.
    pub entries_changed: Option<context::EntriesChanged>,
    /// Where to store rules that outlive a session; without it, "always" applies to the session only.
    pub standing: Option<Arc<Standing>>,
    /// The effort that a client has switched the session to; without one, each model has its own.
    pub effort: Option<Effort>,
    /// Opens the models that a client switches the session to; without it, the session keeps these.
    pub model_source: Option<Arc<dyn ModelSource>>,
    /// Whether turns are sent to an OpenTelemetry collector: then MCP servers are told the span of each call.
    pub is_traced: bool,
}

/// What to restore when another agent takes over a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Displaced {
    /// The permission mode; none: the agent has not changed it.
    pub mode: Option<PermissionMode>,
    /// The names of the models; none: the agent has not changed them.
    pub models: Option<String>,
}

/// The MCP servers that an agent brings along, in force as long as it runs the session.
#[derive(Debug, Clone)]
pub struct OwnServers {
    /// The agent.
    pub agent: String,
    /// Its servers.
    pub servers: Arc<dyn Servers>,
    /// The session's tools without those of these servers.
    pub before: ToolSet,
}

/// The secrets that a session knows from its start. Values that look like secrets are found in any case.
#[derive(Clone)]
pub struct SecretSettings {
    /// Whether to redact secrets.
    pub redact: bool,
    /// Names and values, in addition to those in the workspace's `.env*` files and in the environment of tool processes.
    pub values: Arc<[(String, String)]>,
    /// Files with credentials. Missing ones are skipped.
    pub files: Vec<PathBuf>,
}

impl Default for SecretSettings {
    fn default() -> Self {
        Self { redact: true, values: Arc::default(), files: Vec::new() }
    }
}

/// Opens models by their names, for clients that switch a session to them ([`piton_core::client::Request::Configure`]).
pub trait ModelSource: Send + Sync {
    /// Opens the models of these names (`a/x,b/y`), whose answers are made as `answers` says, or says why they are not
    /// available. May block its thread.
    fn open(&self, names: &str, answers: Sampling) -> Result<OpenedModels, String>;
}

/// Opened models, and what goes with them.
#[derive(Clone)]
pub struct OpenedModels {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Fallback models, in order.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The system prompt for that model, if it differs.
    pub system: Option<Arc<str>>,
    /// The environment of tool processes without the keys of these models, if it differs.
    pub env: Option<Arc<BTreeMap<OsString, OsString>>>,
    /// How often failed calls of these models are retried, if it differs.
    pub retry: Option<RetryPolicies>,
    /// What a person should know about them.
    pub notices: Vec<String>,
}

impl OpenedModels {
    /// This model, and nothing else that changes with it.
    pub fn only(model: Arc<dyn Model>) -> Self {
        Self { model, fallbacks: Vec::new(), system: None, env: None, retry: None, notices: Vec::new() }
    }

    /// Only the effort is another one: nothing else goes with them.
    pub(crate) fn keep_surroundings(&mut self) {
        (self.system, self.env, self.retry) = (None, None, None);
    }

    /// Their names: `a/x,b/y`.
    pub(crate) fn names(&self) -> String {
        let all = std::iter::once(&self.model).chain(&self.fallbacks);
        all.map(|model: &Arc<dyn Model>| model.name()).collect::<Vec<_>>().join(",")
    }
}

/// What the model's commands can reach in any session. The rest follows from the workspace, the tools' `PATH` and the
/// session's own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// The backend that enforces it.
    pub backend: piton_sandbox::Backend,
    /// Whether they may change the workspace.
    pub write: Write,
    /// The user's home, which is hidden from them.
    pub home: PathBuf,
    /// Other folders that they may read.
    pub read: Vec<PathBuf>,
    /// Folders that they never see, wherever they are.
    pub hidden: Vec<PathBuf>,
    /// The user's settings that apply, as files of their own home.
    pub carried: Vec<Carried>,
    /// How much of the machine they may use.
    pub limits: Limits,
    /// The hosts that are open to them; without it, none.
    pub egress: Option<Arc<Egress>>,
    /// Creates the sandbox.
    pub by: RunnerCommand,
}

impl SandboxSettings {
    /// The sandbox of commands in this workspace, with home, `/tmp` and caches in the folder `private`, more that they may read, and a way
    /// out where there is one.
    pub fn confinement(
        &self,
        workspace: &Path,
        private: PathBuf,
        path: &OsStr,
        read: impl IntoIterator<Item = PathBuf>,
        egress: Option<Arc<Egress>>,
    ) -> Confinement {
        let reach = Reach {
            backend: self.backend,
            workspace: workspace.to_path_buf(),
            write: self.write,
            home: self.home.clone(),
            private,
            path: std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect(),
            read: self.read.iter().cloned().chain(read).collect(),
            keep: Vec::new(),
            hidden: self.hidden.clone(),
            carried: self.carried.clone(),
            approved: Vec::new(),
            limits: self.limits,
            network: if egress.is_some() { Network::Proxy } else { Network::None },
        };
        Confinement::Sandbox(Arc::new(Confined { reach, by: self.by.clone(), egress }))
    }
}

/// Whether somebody is there to approve calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// Somebody will come: questions stay open until [`Handle::answer`](crate::handle::Handle::answer).
    Attended,
    /// Anything that needs a question is refused, unless a client is connected that can answer
    /// ([`Subscription::attend`](crate::handle::Subscription::attend)).
    Unattended,
}

impl Settings {
    /// Settings with the built-in tools, the default limits, and nobody there to approve anything.
    pub fn new(model: Arc<dyn Model>) -> Self {
        let system = context::system_prompt(model.name()).into();
        Self {
            model,
            fallbacks: Vec::new(),
            tools: default_tools(),
            agents: Arc::default(),
            commands: None,
            agent: Arc::new(Agent::build()),
            agent_parts: Arc::default(),
            own_servers: None,
            displaced: Displaced::default(),
            skills: Arc::default(),
            patches: Patches::default(),
            policy: Policy::piton(),
            attendance: Attendance::Unattended,
            asks_people: false,
            system,
            backend: Arc::new(Local::default()),
            sandbox: None,
            env: Arc::default(),
            secrets: SecretSettings::default(),
            tool_limits: ToolLimits::default(),
            after_edits: Arc::default(),
            shares_runtime: true,
            snapshots: None,
            takes_snapshots: true,
            subagent: None,
            titles: None,
            compaction_model: None,
            after_compaction: None,
            plan_folder: None,
            hooks: Vec::new(),
            environment_note: None,
            instructions: None,
            entries_changed: None,
            standing: None,
            effort: None,
            model_source: None,
            is_traced: false,
        }
    }

    /// The same by the rules of a preset, with the model asked the way that it wants. `None`: there is no such preset.
    pub fn by_preset(name: &str, model: Arc<dyn Model>) -> Option<Self> {
        let policy = Policy::preset(name)?;
        let model = match Mode::of_policy(&policy) {
            Some(mode) => mode.around(model, "", None, CallsRead::Perhaps),
            None => model,
        };
        Some(Self { policy, ..Self::new(model) })
    }

    /// The tools that the model is told of: what the rules forbid in any case is not offered, nor what is not enabled.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        let specs = self.tools.specs();
        let Policy { permission, .. } = &self.narrowed();
        let calls = &self.policy.calls;
        let plans = self.plans();
        let takes_patches = match self.patches {
            Patches::ByModel => writes_patches(self.model.name()),
            Patches::Always => true,
            Patches::Never => false,
        };
        let takes_patches = takes_patches && !permission.forbid("apply_patch");
        // Who names the tools gets those. There is one way to change files; a model with two wavers between them.
        let is_chosen = |name: &str| match name {
            "apply_patch" => takes_patches,
            "ask_user" => self.asks_people,
            planning::TOOL => plans,
            // Without commands there are none in the background.
            "bash_output" | "bash_kill" => !permission.forbid("bash"),
            // Nor without subagents.
            subagent::OUTPUT | subagent::STOP => self.agent.takes(subagent::NAME) && !permission.forbid(subagent::NAME),
            "edit" | "write" => !takes_patches || specs.iter().all(|spec| spec.name != "apply_patch"),
            _ => true,
        };
        let is_offered = |spec: &&ToolSpec| {
            let is_wanted = if calls.enabled.is_some() { calls.enables(&spec.name) } else { is_chosen(&spec.name) };
            let is_plan = spec.name == planning::TOOL && plans;
            (is_plan || (is_wanted && self.agent.takes(&spec.name))) && !permission.forbid(&spec.name)
        };
        match self.policy.calls.tool_fields {
            ToolFields::Piton if specs.iter().all(|spec| is_offered(&spec)) => specs,
            fields => specs.iter().filter(is_offered).map(|spec| fields.tell(spec)).collect(),
        }
    }

    /// Its MCP servers, as they are now.
    pub fn servers(&self) -> Vec<ServerNow> {
        self.tools.servers().map(|servers| servers_now(&**servers)).unwrap_or_default()
    }

    /// What is in force in it, by name.
    pub fn offer(&self) -> Offer {
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        // One that is disabled does neither.
        let agents = self.agents.iter().filter(|agent| agent.is_primary || agent.is_subagent);
        Offer {
            agents: sorted(agents.map(|agent| agent.name.clone()).collect()),
            skills: sorted(self.skills.iter().map(|skill| skill.name().to_owned()).collect()),
            commands: sorted(self.commands.as_ref().map(|commands| commands.names()).unwrap_or_default()),
        }
    }

    /// The rules of its turns, with what its agent takes from them.
    pub(crate) fn narrowed(&self) -> Policy {
        let mut policy = self.policy.clone();
        self.agent.narrow(&mut policy, &self.tools.specs());
        if let Some(enabled) = policy.calls.enabled.as_mut().filter(|_| self.plans()) {
            enabled.push(planning::TOOL.to_owned());
        }
        policy
    }

    /// Whether the session is in plan mode, in which a person decides about a plan. An agent of a mode `plan` of its own, such as one
    /// that reviews, only reads; nothing follows that, so that it has nothing to ask for.
    pub(crate) fn plans(&self) -> bool {
        let is_reader = self.agent.mode == Some(PermissionMode::Plan) && self.agent.name != PLAN;
        self.policy.mode == PermissionMode::Plan && !is_reader && self.tools.get(planning::TOOL).is_some()
    }

    /// Has the MCP servers of its agent among its tools, and those of no other. Within a tokio runtime.
    pub(crate) fn bring_servers(&mut self) {
        let agent = self.subagent.as_ref().unwrap_or(&self.agent.name);
        if self.own_servers.as_ref().is_some_and(|own| own.agent == *agent) {
            return;
        }
        let open = self.agent_parts.get(agent).and_then(|parts| parts.servers.clone());
        let agent = agent.clone();
        if let Some(own) = self.own_servers.take() {
            self.tools = own.before;
        }
        let Some(open) = open else { return };
        let (servers, before) = (open(), self.tools.clone());
        let joined = JoinedServers::of(before.servers().cloned(), Arc::clone(&servers));
        self.tools = before.clone().with_servers(joined);
        self.own_servers = Some(OwnServers { agent, servers, before });
    }

    /// The words of its agent, with those of the skills that this has from the beginning.
    pub(crate) fn words_of_agent(&self) -> String {
        let skills = self.skills.of_agent(&self.agent.skills).0.into_iter().map(|skill| skill.given.told(""));
        let words = std::iter::once(self.agent.prompt.clone()).chain(skills).filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join("\n\n")
    }

    /// The system prompt, with its agent's words behind it.
    pub(crate) fn system_of_agent(&self) -> Arc<str> {
        match self.agent.prompt.as_str() {
            "" => Arc::clone(&self.system),
            words => format!("{}\n\n{words}", self.system.trim_end()).into(),
        }
    }

    /// The agent that this changes to, if it does.
    fn agent_of(&self, changed: &Configure) -> Option<Arc<Agent>> {
        self.agents.of_session(changed.agent.as_deref()?).ok()
    }

    /// A change with what the agent that it names brings along: its mode, where that is stricter.
    pub(crate) fn with_agents(&self, changed: Configure) -> Configure {
        let Some(agent) = self.agent_of(&changed) else { return changed };
        let own = self.displaced.mode.unwrap_or(self.policy.mode);
        let mode = Some(agent.mode_within(changed.mode.unwrap_or(own))).filter(|mode| *mode != self.policy.mode);
        Configure { mode: mode.or(changed.mode), agent_hash: agent.hash.clone(), ..changed }
    }

    /// The names of the models that are to be opened for a change, and how their answers are made.
    pub(crate) fn opens_for(&self, changed: &Configure) -> Option<(String, Sampling)> {
        let effort = changed.effort.or(self.effort);
        let agent = self.agent_of(changed);
        // A temperature is the agent's own, whatever model it has.
        let own = agent.as_ref().unwrap_or(&self.agent).sampling();
        let answers = Sampling { effort, ..own };
        if let Some(names) = &changed.model {
            return Some((names.clone(), answers));
        }
        let Some(agent) = agent else { return changed.effort.map(|_| (self.model_names(), answers)) };
        let named = agent.own_model().map(str::to_owned).or(self.displaced.models.clone());
        let is_other = named.is_some() || own != self.agent.sampling() || changed.effort.is_some();
        let answers = Sampling { effort: changed.effort.or(agent.effort).or(effort), ..own };
        is_other.then(|| (named.unwrap_or_else(|| self.model_names()), answers))
    }

    /// What the mode will stand in the place of, when this is changed.
    pub(crate) fn displaced_by(&self, changed: &Configure) -> Option<PermissionMode> {
        let brings_mode = self.agent_of(changed).is_some_and(|agent| agent.mode.is_some());
        match (&changed.agent, changed.mode) {
            (Some(_), Some(mode)) if brings_mode => {
                Some(self.displaced.mode.unwrap_or(self.policy.mode)).filter(|displaced| *displaced != mode)
            }
            (_, Some(_)) => None,
            (_, None) => self.displaced.mode,
        }
    }

    /// Changes what a client wants changed, whose models are open. The tools are among those there are, and so is the agent.
    pub(crate) fn configure(&mut self, changed: &Configure, opened: Option<OpenedModels>) {
        let Configure { model, mode, effort, tools, agent: _, agent_hash: _, mode_before: _ } = changed;
        self.displaced.mode = self.displaced_by(changed);
        if let Some(agent) = self.agent_of(changed) {
            let own = agent.own_model().filter(|_| model.is_none() && opened.is_some());
            let before = self.displaced.models.take();
            self.displaced.models = own.map(|_| before.unwrap_or_else(|| self.model_names()));
            self.agent = agent;
        } else if model.is_some() {
            self.displaced.models = None;
        }
        self.policy.mode = mode.unwrap_or(self.policy.mode);
        self.effort = effort.or(self.effort);
        if let Some(tools) = tools {
            self.policy.calls.enabled = Some(tools.clone()).filter(|tools| !is_every(tools));
        }
        if let Some(OpenedModels { model, fallbacks, system, env, retry, notices: _ }) = opened {
            (self.model, self.fallbacks) = (model, fallbacks);
            self.system = system.unwrap_or_else(|| Arc::clone(&self.system));
            self.env = env.unwrap_or_else(|| Arc::clone(&self.env));
            self.policy.retry = retry.unwrap_or_else(|| self.policy.retry.clone());
        }
    }

    /// The names of its models: `a/x,b/y`.
    pub(crate) fn model_names(&self) -> String {
        std::iter::once(self.model.name().to_owned()).chain(self.fallback_names()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn fallback_names(&self) -> Vec<String> {
        self.fallbacks.iter().map(|model| model.name().to_owned()).collect()
    }
}
