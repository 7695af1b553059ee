//! How a session is to be run: by which model, with which tools, under which rules. Whoever embeds Piton fills this in;
//! [`crate::assemble`] makes it of a machine's configuration.

use crate::agents::{Agent, Agents};
use crate::commands::Commands;
use crate::context;
use crate::history::default_tools;
use crate::hooks::Hook;
use crate::skills::Skills;
use crate::standing::Standing;
use piton_core::call::ToolSpec;
use piton_core::configure::{Configure, PLAN, is_every};
use piton_core::effort::Effort;
use piton_core::inquiry::planning;
use piton_core::permission::PermissionMode;
use piton_core::policy::{Policy, RetryPolicies, ToolFields};
use piton_http::egress::Egress;
use piton_models::generation::writes_patches;
use piton_models::model::Model;
use piton_models::text_tools::{CallsRead, Mode};
use piton_sandbox::{Carried, Limits, Network, Write};
use piton_tools::after_edit::AfterEdit;
use piton_tools::backend::{Backend, Local};
use piton_tools::runner::RunnerCommand;
use piton_tools::snapshot::Snapshots;
use piton_tools::subagent;
use piton_tools::tool::ToolLimits;
use piton_tools::toolset::ToolSet;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Called when a summary has taken the place of a conversation, with the workspace. What it returns is told to the
/// model beside the summary: instructions and skills in force, read anew.
pub type AfterCompaction = Arc<dyn Fn(&Path) -> Option<String> + Send + Sync>;

/// Called when a plan is to be kept: the folder for it, where the repository is one that the user trusts.
pub type PlanFolder = Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>;

/// Which models are offered `apply_patch`, in the place of `edit` and `write`.
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

/// How a session is to be run: by which model, with which tools, under which rules.
#[derive(Clone)]
pub struct Settings {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Who is asked in its place, in order, when it gives no reply after all retries.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The tools on offer.
    pub tools: ToolSet,
    /// Who can be called by the tool [`piton_tools::subagent`], where that is on offer.
    pub agents: Arc<Agents>,
    /// Who knows the slash commands that prompts say; without it, there are none.
    pub commands: Option<Arc<dyn Commands>>,
    /// Who the session is run by: whose words, tools, rules and steps narrow all of this. Its mode and its model stand in `policy`
    /// and `model` already.
    pub agent: Arc<Agent>,
    /// What that agent's mode and models stand in the place of.
    pub displaced: Displaced,
    /// The skills of the tool [`piton_tools::skill`], where that is on offer, and those that a person starts.
    pub skills: Arc<Skills>,
    /// Which models change files by patches.
    pub patches: Patches,
    /// Limits and permission rules; recorded with each turn.
    pub policy: Policy,
    /// Whether somebody is there to approve calls.
    pub attendance: Attendance,
    /// Whether the model is told that it can ask the person (`ask_user`). Where nobody answers a question after all, its defaults
    /// count; this is for sessions in which nobody ever will.
    pub asks_people: bool,
    /// The system prompt.
    pub system: Arc<str>,
    /// Where calls act. The default is this machine without a runner: shell commands cannot be run.
    pub backend: Arc<dyn Backend>,
    /// What the commands of the model can reach; without it, all that the user can.
    pub sandbox: Option<SandboxSettings>,
    /// The environment that tools' processes get. Keys do not belong in it.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// Which secrets are known, and whether they are taken out of what is kept, shown and sent.
    pub secrets: SecretSettings,
    /// Limits of the tools.
    pub tool_limits: ToolLimits,
    /// What runs on files that tools have changed.
    pub after_edits: Arc<[AfterEdit]>,
    /// Whether anything else runs on this tokio runtime that must not wait for the disk. Where nothing does, a step is
    /// some tenths of a millisecond shorter without the way to another thread and back.
    pub shares_runtime: bool,
    /// Where the workspace is put down before it is changed, so that turns can be taken back; without it, they cannot.
    pub snapshots: Option<Arc<Snapshots>>,
    /// Whether a snapshot is taken before what may change files. Without, an undo takes back what earlier turns changed.
    pub takes_snapshots: bool,
    /// The agent that runs the session, where another session's call has made it.
    pub subagent: Option<String>,
    /// Who names a session when its first turn is over; without one, nobody is asked and the first prompt's words do.
    pub titles: Option<Arc<dyn Model>>,
    /// Who sums up a conversation that has become too long; without one, or where that is too small, the session's own
    /// model.
    pub compaction_model: Option<Arc<dyn Model>>,
    /// Where the plans of plan mode are kept; without it, or where that says so, in the session's folder.
    pub plan_folder: Option<PlanFolder>,
    /// What the model is told anew after that, beside the summary.
    pub after_compaction: Option<AfterCompaction>,
    /// What watches the loop and may change what it does, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Words in front of the first message in a workspace, for the model only.
    pub environment_note: Option<String>,
    /// Where instruction files are looked for, for the model; without it, none are read.
    pub instructions: Option<context::Instructions>,
    /// Where rules are kept that hold beyond a session; without it, an "always" is for the session.
    pub standing: Option<Arc<Standing>>,
    /// The effort that a client has switched the session to; without one, each model has its own.
    pub effort: Option<Effort>,
    /// Who opens the models that a client switches the session to; without it, the session keeps these.
    pub model_source: Option<Arc<dyn ModelSource>>,
}

/// What holds again when a session is run by another agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Displaced {
    /// The permission mode; none: the agent has not changed it.
    pub mode: Option<PermissionMode>,
    /// The names of the models; none: the agent has not changed them.
    pub models: Option<String>,
}

/// Which secrets are known to a session from its beginning. What looks like one is found in any case.
#[derive(Clone)]
pub struct SecretSettings {
    /// Whether secrets are taken out.
    pub redact: bool,
    /// Names and values, beside those of `.env*` files of the workspace and of the environment of tools' processes.
    pub values: Arc<[(String, String)]>,
    /// Files that hold credentials. One that is not there is passed over.
    pub files: Vec<PathBuf>,
}

impl Default for SecretSettings {
    fn default() -> Self {
        Self { redact: true, values: Arc::default(), files: Vec::new() }
    }
}

/// Opens models by their names, for clients that switch a session to them ([`piton_core::client::Request::Configure`]).
pub trait ModelSource: Send + Sync {
    /// Opens the models of these names (`a/x,b/y`), which think as much as is said, if it is; or says why they cannot be
    /// asked. May block its thread.
    fn open(&self, names: &str, effort: Option<Effort>) -> Result<OpenedModels, String>;
}

/// Models that were opened, and what goes with them.
#[derive(Clone)]
pub struct OpenedModels {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Who is asked in its place, in order.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The system prompt for that model, where it is another.
    pub system: Option<Arc<str>>,
    /// The environment of tools' processes, without the keys of these models, where it is another.
    pub env: Option<Arc<BTreeMap<OsString, OsString>>>,
    /// How often failed calls of these models are made again, where that is another number.
    pub retry: Option<RetryPolicies>,
    /// What a person should know of them.
    pub notices: Vec<String>,
}

impl OpenedModels {
    /// This model, and nothing else that changes with it.
    pub fn only(model: Arc<dyn Model>) -> Self {
        Self { model, fallbacks: Vec::new(), system: None, env: None, retry: None, notices: Vec::new() }
    }

    /// Their names: `a/x,b/y`.
    pub(crate) fn names(&self) -> String {
        let all = std::iter::once(&self.model).chain(&self.fallbacks);
        all.map(|model: &Arc<dyn Model>| model.name()).collect::<Vec<_>>().join(",")
    }
}

/// What the commands of the model can reach, whichever session they are of. The rest follows from the workspace, the `PATH` of
/// the tools and the session's own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What holds them to it.
    pub backend: piton_sandbox::Backend,
    /// Whether they may change the workspace.
    pub write: Write,
    /// The user's home, which is not there for them.
    pub home: PathBuf,
    /// Folders that they may read besides.
    pub read: Vec<PathBuf>,
    /// Folders that they never see, wherever these lie.
    pub hidden: Vec<PathBuf>,
    /// Of the user's settings, as files of their own home.
    pub carried: Vec<Carried>,
    /// What they may use of the machine.
    pub limits: Limits,
    /// The hosts that are open to them; without it, none is.
    pub egress: Option<Arc<Egress>>,
    /// Who makes the sandbox.
    pub by: RunnerCommand,
}

/// What follows from the hosts that are open for the sandbox itself.
pub(crate) fn network(egress: Option<&Egress>) -> Network {
    if egress.is_some() { Network::Proxy } else { Network::None }
}

/// Whether somebody is there to approve calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// Somebody will come: questions stay open until [`Handle::answer`](crate::handle::Handle::answer).
    Attended,
    /// Whatever would have to be asked is refused, unless somebody listens who can answer
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
            standing: None,
            effort: None,
            model_source: None,
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

    /// The names of the models that are to be opened for a change, and how much they think.
    pub(crate) fn opens_for(&self, changed: &Configure) -> Option<(String, Option<Effort>)> {
        let effort = changed.effort.or(self.effort);
        if let Some(names) = &changed.model {
            return Some((names.clone(), effort));
        }
        let Some(agent) = self.agent_of(changed) else { return changed.effort.map(|_| (self.model_names(), effort)) };
        let own = agent.own_model().map(str::to_owned).or(self.displaced.models.clone());
        let is_other = own.is_some() || agent.effort != self.agent.effort || changed.effort.is_some();
        is_other.then(|| (own.unwrap_or_else(|| self.model_names()), changed.effort.or(agent.effort).or(effort)))
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
        let Configure { model, mode, effort, tools, agent: _, agent_hash: _ } = changed;
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
