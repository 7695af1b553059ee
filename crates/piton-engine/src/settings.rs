//! How a session is to be run: by which model, with which tools, under which rules. Whoever embeds Piton fills this in;
//! [`crate::assemble`] makes it of a machine's configuration.

use crate::context;
use crate::history::default_tools;
use crate::hooks::Hook;
use piton_core::call::ToolSpec;
use piton_core::policy::{Policy, ToolFields};
use piton_models::model::Model;
use piton_models::text_tools::{CallsRead, Mode};
use piton_tools::runner::RunnerCommand;
use piton_tools::snapshot::Snapshots;
use piton_tools::tool::ToolLimits;
use piton_tools::toolset::ToolSet;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// Called when a summary has taken the place of a conversation, with the workspace. What it returns is told to the
/// model beside the summary: instructions and skills in force, read anew.
pub type AfterCompaction = Arc<dyn Fn(&Path) -> Option<String> + Send + Sync>;

/// How a session is to be run: by which model, with which tools, under which rules.
#[derive(Clone)]
pub struct Settings {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Who is asked in its place, in order, when it gives no reply after all retries.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The tools on offer.
    pub tools: ToolSet,
    /// Limits and permission rules; recorded with each turn.
    pub policy: Policy,
    /// Whether somebody is there to approve calls.
    pub attendance: Attendance,
    /// The system prompt.
    pub system: Arc<str>,
    /// How to start this program as a runner; without it, shell commands cannot be run.
    pub runner: Option<RunnerCommand>,
    /// The environment that tools' processes get. Keys do not belong in it.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// Limits of the tools.
    pub tool_limits: ToolLimits,
    /// Whether anything else runs on this tokio runtime that must not wait for the disk. Where nothing does, a step is
    /// some tenths of a millisecond shorter without the way to another thread and back.
    pub shares_runtime: bool,
    /// Where the workspace is put down before it is changed, so that turns can be taken back; without it, they cannot.
    pub snapshots: Option<Arc<Snapshots>>,
    /// Who names a session when its first turn is over; without one, nobody is asked and the first prompt's words do.
    pub titles: Option<Arc<dyn Model>>,
    /// Who sums up a conversation that has become too long; without one, or where that is too small, the session's own
    /// model.
    pub compaction_model: Option<Arc<dyn Model>>,
    /// What the model is told anew after that, beside the summary.
    pub after_compaction: Option<AfterCompaction>,
    /// What watches the loop and may change what it does, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Words in front of the first message in a workspace, for the model only.
    pub environment_note: Option<String>,
    /// Where instruction files are looked for, for the model; without it, none are read.
    pub instructions: Option<context::Instructions>,
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
            policy: Policy::piton(),
            attendance: Attendance::Unattended,
            system,
            runner: None,
            env: Arc::default(),
            tool_limits: ToolLimits::default(),
            shares_runtime: true,
            snapshots: None,
            titles: None,
            compaction_model: None,
            after_compaction: None,
            hooks: Vec::new(),
            environment_note: None,
            instructions: None,
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

    /// The tools that the model is told of: what the rules forbid in any case is not offered.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        let specs = self.tools.specs();
        let is_offered = |spec: &&ToolSpec| !self.policy.permission.forbid(&spec.name);
        match self.policy.calls.tool_fields {
            ToolFields::Piton if specs.iter().all(|spec| is_offered(&spec)) => specs,
            fields => specs.iter().filter(is_offered).map(|spec| fields.tell(spec)).collect(),
        }
    }

    pub(crate) fn fallback_names(&self) -> Vec<String> {
        self.fallbacks.iter().map(|model| model.name().to_owned()).collect()
    }
}
