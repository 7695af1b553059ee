//! The rules of one turn, as data: what it may use, when it ends, what follows a reply that is cut, empty or repeated.
//!
//! A [`Policy`] is recorded in the event that starts a turn, so a resumed turn decides as the first run would have. In
//! Rust the rules are grouped by what they are about; in JSON they are one flat object, as journals have always had them.
//! The defaults are the `piton` preset; [`crate::preset`] has the others, and [`crate::limits`] the reasons of the numbers.
//!
//! This module must not know: events, the machine, where a value was configured.

use crate::budget::Budget;
use crate::compact::Compaction;
use crate::ending::Why;
use crate::hook::{Demand, Gates};
use crate::limits;
use crate::permission::{PermissionMode, Reach, Rules};
use crate::progress::NoProgress;
use crate::reference::{ReferenceSizes, Style};
use crate::retry::RetryPolicy;
use crate::server_tool;
use crate::truncate::OutputCut;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The preset that these rules started from.
    pub preset: String,
    /// How many steps and turns there may be.
    #[serde(flatten)]
    pub steps: StepPolicy,
    /// Which tool calls run, and what the model reads of their results.
    #[serde(flatten)]
    pub calls: CallPolicy,
    /// What follows a reply that did not end as it should.
    #[serde(flatten)]
    pub replies: ReplyPolicy,
    /// How often a failed model call is made again.
    #[serde(flatten)]
    pub retry: RetryPolicies,
    /// When and how the context is compacted.
    #[serde(flatten)]
    pub compaction: CompactionPolicy,
    /// When repetition counts as no progress.
    #[serde(rename = "no_progress")]
    pub stuck: NoProgress,
    /// The budget of the turn.
    pub budget: Budget,
    /// The permission rules.
    pub permission: Rules,
    /// What calls may reach without a question.
    #[serde(default, skip_serializing_if = "Reach::is_empty")]
    pub reach: Reach,
    /// What the model's commands can reach, independent of the rules.
    #[serde(default, skip_serializing_if = "SandboxMode::is_off")]
    pub sandbox: SandboxMode,
    /// The name of the backend that enforces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_backend: Option<String>,
    /// The hosts that are open to those commands: `example.org`, `*.example.org`, `example.org:8443`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<String>,
    /// The permission mode: decides about calls that no rule matches.
    #[serde(default, rename = "permission_mode", skip_serializing_if = "is_usual")]
    pub mode: PermissionMode,
    /// Whether secrets were recorded and sent without redaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unredacted: bool,
    /// Whether the turn waits for the session's background subagents before it ends, because the session closes after
    /// the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_subagents: bool,
    /// Whether Piton takes a snapshot before each step that may change the workspace, so that the turn can be undone.
    #[serde(default)]
    pub snapshots: bool,
    /// Where hooks have a say.
    #[serde(flatten)]
    pub hooks: HookPolicy,
    /// How `@` references are read.
    #[serde(flatten)]
    pub references: ReferencePolicy,
}

/// What the model's commands can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// They can read the system and change the workspace; no network, and nothing else in the home folder.
    WorkspaceWrite,
    /// The same, but they cannot change the workspace.
    ReadOnly,
    /// Everything that the user can reach.
    #[default]
    Off,
}

impl SandboxMode {
    /// Their words, as in flags, files and the journal.
    pub const WORDS: [&str; 3] = ["workspace-write", "read-only", "off"];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::WorkspaceWrite => Self::WORDS[0],
            Self::ReadOnly => Self::WORDS[1],
            Self::Off => Self::WORDS[2],
        }
    }

    /// Whether there is none.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_usual(mode: &PermissionMode) -> bool {
    *mode == PermissionMode::default()
}

/// How many steps and turns there may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepPolicy {
    /// Model replies in one turn; `None`: no limit.
    #[serde(rename = "max_steps")]
    pub max: Option<u32>,
    /// Which replies count as steps.
    #[serde(rename = "steps_counted")]
    pub counted: StepsCounted,
    /// Model replies of any kind in one turn, for the case that `max` does not count them all; `None`: no limit.
    pub max_replies: Option<u32>,
    /// The form of the last allowed step.
    #[serde(rename = "last_step")]
    pub last: LastStep,
    /// Turns in one session; `None`: no limit.
    pub max_turns: Option<u32>,
}

/// Which tool calls run, and what the model reads of their results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallPolicy {
    /// Tool calls in one reply that are run.
    #[serde(rename = "max_calls_per_step")]
    pub max_per_step: usize,
    /// Which calls of a reply are run.
    #[serde(rename = "calls_taken")]
    pub taken: CallsTaken,
    /// How tools are offered to the model, unless the configuration names a way for that model.
    pub tools_by: ToolsBy,
    /// Whose field names the tool schemas use for the model.
    pub tool_fields: ToolFields,
    /// How a tool's output is shortened for the model.
    pub output_cut: OutputCut,
    /// The tools that the model is offered, by name; `None`: all there are.
    #[serde(rename = "tools_enabled", skip_serializing_if = "Option::is_none")]
    pub enabled: Option<Vec<String>>,
    /// Refused calls in a row that end the turn; `None`: refusals never end it.
    #[serde(rename = "max_denials_in_a_row")]
    pub max_denials: Option<u32>,
    /// Which refusals count.
    pub denials_counted: DenialsCounted,
}

/// What follows a reply that did not end as it should.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplyPolicy {
    /// What follows a reply that was cut at the model's output limit.
    pub on_length: OnLength,
    /// What follows a reply that ended for an unknown reason.
    pub on_unknown: OnUnknown,
    /// What follows an empty reply.
    pub on_empty: OnEmpty,
    /// The sentences that tell people how the turn ended.
    pub words: Wording,
}

/// How often a failed model call is made again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicies {
    /// With any provider that has no rules of its own.
    #[serde(rename = "retry")]
    pub usual: RetryPolicy,
    /// With single providers, by name.
    #[serde(rename = "retry_of", skip_serializing_if = "BTreeMap::is_empty")]
    pub of_provider: BTreeMap<String, RetryPolicy>,
}

/// When and how the context is compacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionPolicy {
    /// Compactions in one turn.
    #[serde(rename = "max_compactions")]
    pub max: u32,
    /// Whether the context is compacted when the provider says that it does not fit. Otherwise that ends the turn.
    #[serde(rename = "compact_on_error")]
    pub on_error: bool,
    /// When the context counts as full, and what is kept or summarized.
    #[serde(rename = "compaction")]
    pub rules: Compaction,
}

/// Where hooks have a say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookPolicy {
    /// Where hooks are asked before the turn goes on.
    #[serde(alias = "stop_hooks", skip_serializing_if = "Gates::is_empty")]
    pub gates: Gates,
    /// What must hold before a turn ends `completed`, whichever process continues it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<Demand>,
}

/// How `@` references are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferencePolicy {
    /// Whose grammar and layout.
    #[serde(rename = "references")]
    pub style: Style,
    /// How much of a file a reference shows.
    #[serde(rename = "reference_sizes", skip_serializing_if = "ReferenceSizes::are_usual")]
    pub sizes: ReferenceSizes,
}

/// The form of the last allowed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastStep {
    /// The model is told to wrap up and gets no tools.
    WrapUp,
    /// Like any other step; the turn ends after it.
    Plain,
}

/// Which replies count as steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsCounted {
    /// Every reply.
    #[default]
    All,
    /// Replies without tool calls: rounds of tools are free.
    WithoutCalls,
}

/// Which calls of a reply are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsTaken {
    /// All of them.
    #[default]
    All,
    /// The first; everything the model wrote after it is dropped.
    First,
}

/// How tools are offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsBy {
    /// Natively, if the model supports tool calls.
    #[default]
    Model,
    /// As `<use_tool>` in plain text, whether or not the model supports tool calls.
    Text,
}

/// Whose names the fields of tools have in what the model is told of them. Tools understand them all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFields {
    /// Piton's: `path`, `old_string`.
    #[default]
    Piton,
    /// OpenCode's: `filePath`, `oldString`.
    Opencode,
}

/// Which refusals count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialsCounted {
    /// All of them.
    #[default]
    All,
    /// Refused questions, answered or not. A call that a rule forbids is an error that the model reads.
    Questions,
}

/// What follows a reply that was cut at the model's output limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLength {
    /// The model is asked to continue, at most [`limits::MAX_CUT_REPLIES`] times in a row.
    #[default]
    GoOn,
    /// The reply is the answer, marked as cut.
    End,
    /// If the prompt takes most of what the model can read ([`crate::compact::cut_at`]), the window is full: the context
    /// is compacted, and if that frees nothing the reply is the answer. Otherwise the reply was only long, and the model
    /// is asked to continue.
    Compact,
}

/// What follows a reply that ended for an unknown reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The reply is the answer.
    #[default]
    End,
    /// The model is asked to continue, at most [`limits::MAX_UNKNOWN_REPLIES`] times in a row.
    GoOn,
}

/// What follows an empty reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnEmpty {
    /// The model is asked again, a bounded number of times.
    #[default]
    AskAgain,
    /// The empty reply is the answer.
    Accept,
}

/// Whose sentences tell people how a turn ended ([`crate::words`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    /// Piton's: what happened, and with which number.
    #[default]
    Piton,
    /// Neovate's (S0-030, S0-034, S0-036).
    Neovate,
    /// Pulse's, from both of its documents (S1-050…S1-060, S2-017…S2-023).
    Pulse,
}

impl Policy {
    /// The default preset.
    pub fn piton() -> Self {
        Self {
            preset: "piton".to_owned(),
            steps: StepPolicy::default(),
            calls: CallPolicy::default(),
            replies: ReplyPolicy::default(),
            retry: RetryPolicies::default(),
            compaction: CompactionPolicy::default(),
            stuck: NoProgress::default(),
            budget: Budget::default(),
            permission: Rules::default(),
            reach: Reach::default(),
            sandbox: SandboxMode::Off,
            sandbox_backend: None,
            unredacted: false,
            waits_for_subagents: false,
            net: Vec::new(),
            mode: PermissionMode::default(),
            snapshots: false,
            hooks: HookPolicy::default(),
            references: ReferencePolicy::default(),
        }
    }
}

impl Default for StepPolicy {
    fn default() -> Self {
        let (max, last) = (Some(limits::MAX_STEPS), LastStep::WrapUp);
        Self { max, counted: StepsCounted::All, max_replies: None, last, max_turns: None }
    }
}

impl StepPolicy {
    /// Which limit leaves no further step, after so many that count and so many replies of any kind.
    pub fn reached(&self, steps: u32, replies: u32) -> Option<(Why, String)> {
        if let Some(most) = self.max.filter(|most| steps >= *most) {
            return Some((Why::Steps, format!("the limit of {most} steps is reached")));
        }
        let most = self.max_replies.filter(|most| replies >= *most)?;
        Some((Why::Replies, format!("the limit of {most} replies is reached")))
    }
}

impl CallPolicy {
    /// Whether the model is offered this tool, as far as that was chosen.
    pub fn enables(&self, tool: &str) -> bool {
        self.enabled.as_ref().is_none_or(|tools| server_tool::is_chosen(tools, tool))
    }
}

impl Default for CallPolicy {
    fn default() -> Self {
        Self {
            max_per_step: limits::MAX_CALLS_PER_STEP,
            taken: CallsTaken::All,
            tools_by: ToolsBy::Model,
            tool_fields: ToolFields::Piton,
            output_cut: OutputCut::HeadTail { max_chars: limits::TOOL_OUTPUT_CHARS },
            enabled: None,
            max_denials: Some(limits::MAX_DENIALS_IN_A_ROW),
            denials_counted: DenialsCounted::All,
        }
    }
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self { max: limits::MAX_COMPACTIONS, on_error: true, rules: Compaction::piton() }
    }
}

impl RetryPolicies {
    /// The rules for the provider of a model (`provider/model`).
    pub fn of_model(&self, model: &str) -> &RetryPolicy {
        let provider = model.split('/').next().unwrap_or_default();
        self.of_provider.get(provider).unwrap_or(&self.usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_steps_or_replies_is_reached_at_its_number() {
        let limits = StepPolicy { max: Some(3), max_replies: Some(5), ..StepPolicy::default() };
        let why = |steps, replies| limits.reached(steps, replies).map(|(why, _)| why);
        assert_eq!((why(2, 4), why(3, 4), why(2, 5)), (None, Some(Why::Steps), Some(Why::Replies)));
        let none = StepPolicy { max: None, ..StepPolicy::default() };
        assert_eq!(none.reached(u32::MAX, u32::MAX), None);
    }
}
