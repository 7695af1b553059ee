//! Every limit of the loop, each with its unit, its reason and who feels it. Named sets of them are in [`crate::preset`].

use crate::budget::Bound;
use crate::compact::Compaction;
use crate::hook::{Demand, Gates};
use crate::permission::Rules;
use crate::progress::{Compare, NoProgress, Stuck};
use crate::reference::Style;
use crate::retry::{BackoffBy, BeyondCap, Jitter, RetryOn, RetryPolicy};
use crate::truncate::OutputCut;
use crate::words::Words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Model replies in one turn. A task that needs more is better split; the model is told to wrap up on the last one.
pub const MAX_STEPS: u32 = 250;
/// Tool calls in one reply. More is a model gone wild (small local models do it): the rest is answered, not run.
pub const MAX_CALLS_PER_STEP: usize = 64;
/// Compactions in one turn. Where three do not make room, a fourth will not.
pub const MAX_COMPACTIONS: u32 = 3;
/// Identical calls (tool, input and result) in a row before a person is asked, or a headless turn ends.
pub const NO_PROGRESS_REPEATS: u32 = 3;
/// Calls refused in a row before the turn ends: the model has understood by then, or never will.
pub const MAX_DENIALS_IN_A_ROW: u32 = 3;
/// Replies in a row cut at the model's output limit that are continued; then the turn ends, saying so.
pub const MAX_CUT_REPLIES: u32 = 2;
/// Replies in a row that ended for a reason nobody knows and after which the model is asked to go on, where it is at all.
pub const MAX_UNKNOWN_REPLIES: u32 = 2;
/// Replies in a row that the provider pauses and that are continued; one that pauses more often gets nowhere.
pub const MAX_PAUSED_REPLIES: u32 = 10;
/// Characters of one tool's output that the model reads; head and tail, the rest stays in a file.
pub const TOOL_OUTPUT_CHARS: usize = 30_000;
/// Retries of one model call.
pub const RETRIES_PER_CALL: u32 = 5;
/// First wait before a retry, in milliseconds; it doubles.
pub const RETRY_FIRST_MS: u64 = 2_000;
/// Longest wait of our own choosing, in milliseconds.
pub const RETRY_CAP_MS: u64 = 30_000;
/// Longest wait a provider may ask for, in milliseconds: ten minutes. Beyond it a person should decide.
pub const RETRY_PROVIDER_CAP_MS: u64 = 600_000;
/// Silence of a provider, in milliseconds, before its stream counts as stalled.
pub const STREAM_STALL_MS: u64 = 60_000;
/// Time in which a stream says nothing but "I am still here", in milliseconds, before it counts as stalled too. Models
/// that hide their thoughts ping for minutes; a gateway that lost its model pings for ever.
pub const STREAM_KEEP_ALIVE_MS: u64 = 600_000;
/// Time a shell command gets when the model names none, in milliseconds.
pub const BASH_DEFAULT_MS: u64 = 120_000;
/// The most time a model may give a shell command, in milliseconds.
pub const BASH_MAX_MS: u64 = 600_000;
/// The longest that leaving a session waits for its title, in milliseconds: a small model mostly has it by then.
pub const TITLE_GRACE_MS: u64 = 2_000;

/// Tokens of reply that a budget must leave for a call to be worth making: room for an edit or an answer.
pub const MIN_REPLY_TOKENS: u32 = 1_000;
/// Tokens of reply that a model can write of which nothing is known: as many as the largest windows hold.
pub const UNKNOWN_REPLY_TOKENS: u32 = 1_048_576;
/// Tokens of reply that such a model is asked for when a budget cannot leave it the whole of that. More than most small
/// servers allow would be refused.
pub const REPLY_TOKENS_NEAR_LIMIT: u32 = 8_192;

/// The largest file that an `@` reference shows, in bytes. Larger ones are named with their size.
pub const REFERENCE_FILE_BYTES: u64 = 10 << 20;
/// Lines of a file that an `@` reference shows.
pub const REFERENCE_LINES: usize = 2_000;
/// Characters of a line that an `@` reference shows.
pub const REFERENCE_LINE_CHARS: usize = 2_000;
/// The share of a model's window, in percent, that the folders one message refers to may fill. The rest is listed.
pub const REFERENCE_FOLDER_PERCENT: u64 = 25;
/// The share of a model's window, in percent, that all references of one message may fill.
pub const REFERENCE_PERCENT: u64 = 50;
/// The window, in tokens, that a model is taken to have of which nothing is known, where references are weighed.
pub const UNKNOWN_WINDOW_TOKENS: u64 = 128_000;
/// Pictures that one message may refer to.
pub const REFERENCE_IMAGES: usize = 20;
/// The largest picture that is sent, in bytes: what the strictest provider takes, before base64 makes it longer.
pub const IMAGE_BYTES: u64 = 3_750_000;
/// What is read of one instruction file, in bytes. Longer ones are cut, with a notice: they are paid for in every call.
pub const INSTRUCTION_FILE_BYTES: usize = 32 << 10;
/// What is read of all instruction files together, in bytes.
pub const INSTRUCTIONS_BYTES: usize = 64 << 10;
/// Names of files that are kept with a rewind under way, to be told should it never be finished. The rest is counted.
pub const REWIND_PATHS: usize = 100;
/// The share of a budget, in percent, from which on the model is told that it is nearly spent.
pub const BUDGET_NEARLY_SPENT_PERCENT: u64 = 80;
/// Steps before the last one at which the model is told how many are left.
pub const STEPS_NEARLY_SPENT: u32 = 5;

/// The rules one turn runs by. Recorded in the event that starts the turn, so that a resumed turn decides as the first
/// run would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The preset it started from.
    pub preset: String,
    /// Model replies in one turn; `None` for no limit.
    pub max_steps: Option<u32>,
    /// Which replies count for that.
    #[serde(default)]
    pub steps_counted: StepsCounted,
    /// Model replies of any kind in one turn, where `max_steps` does not count them all; `None` for no limit.
    #[serde(default)]
    pub max_replies: Option<u32>,
    /// What happens on the last of them.
    pub last_step: LastStep,
    /// Turns in one session; `None` for no limit.
    pub max_turns: Option<u32>,
    /// Tool calls in one reply.
    pub max_calls_per_step: usize,
    /// Which calls of a reply are taken up.
    #[serde(default)]
    pub calls_taken: CallsTaken,
    /// How tools are offered to the model, where nothing else is said of it.
    #[serde(default)]
    pub tools_by: ToolsBy,
    /// Patience with the provider.
    pub retry: RetryPolicy,
    /// The same with single providers, by name, where it differs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retry_of: BTreeMap<String, RetryPolicy>,
    /// Compactions in one turn.
    pub max_compactions: u32,
    /// Whether room is made when the provider says that the conversation does not fit; else that ends the turn.
    #[serde(default = "yes")]
    pub compact_on_error: bool,
    /// When and how room is made in the context.
    #[serde(default)]
    pub compaction: Compaction,
    /// When repetition counts as no progress.
    pub no_progress: NoProgress,
    /// How a tool's output is cut to what the model reads.
    pub output_cut: OutputCut,
    /// Refused calls in a row before the turn ends; `None`: it goes on whatever is refused.
    pub max_denials_in_a_row: Option<u32>,
    /// Which refusals count for that.
    #[serde(default)]
    pub denials_counted: DenialsCounted,
    /// What follows a reply that was cut at the model's output limit.
    #[serde(default)]
    pub on_length: OnLength,
    /// What follows a reply that ended for a reason nobody knows.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// What follows an empty reply.
    #[serde(default)]
    pub on_empty: OnEmpty,
    /// The sentences in which the turn's end is told.
    #[serde(default)]
    pub words: Words,
    /// What one turn may spend.
    pub budget: Budget,
    /// What may run without asking.
    pub permission: Rules,
    /// Whether the workspace is put down before each step that may change it, so that the turn can be undone.
    #[serde(default)]
    pub snapshots: bool,
    /// Where hooks are asked before the turn goes on.
    #[serde(default, alias = "stop_hooks", skip_serializing_if = "Gates::is_empty")]
    pub gates: Gates,
    /// What must hold before a turn ends `completed`, whoever goes on with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<Demand>,
    /// By whose rules `@` references are found and shown.
    #[serde(default)]
    pub references: Style,
    /// How much of a file they show.
    #[serde(default, skip_serializing_if = "ReferenceSizes::are_usual")]
    pub reference_sizes: ReferenceSizes,
}

/// How much of a file an `@` reference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferenceSizes {
    /// The largest file, in bytes.
    pub file_bytes: u64,
    /// Lines.
    pub lines: usize,
    /// Characters of a line.
    pub line_chars: usize,
}

impl ReferenceSizes {
    fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ReferenceSizes {
    fn default() -> Self {
        Self { file_bytes: REFERENCE_FILE_BYTES, lines: REFERENCE_LINES, line_chars: REFERENCE_LINE_CHARS }
    }
}

/// What the last allowed step is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastStep {
    /// The model is told to wrap up and is offered no tools.
    WrapUp,
    /// As any other; the turn just ends after it.
    Plain,
}

/// Which replies count as steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsCounted {
    /// Every one.
    #[default]
    All,
    /// Those without tool calls: rounds of tools are free.
    WithoutCalls,
}

/// Which calls of a reply are taken up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsTaken {
    /// All of them.
    #[default]
    All,
    /// The first; what the model said after it is dropped.
    First,
}

/// How tools are offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsBy {
    /// By the provider's own calls where the model has them.
    #[default]
    Model,
    /// As `<use_tool>` in plain text, whatever the model can.
    Text,
}

/// Which refusals count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialsCounted {
    /// All of them.
    #[default]
    All,
    /// Those of a question, answered or not; what a rule forbids is an error that the model reads.
    Questions,
}

/// What follows a reply that was cut at the model's output limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLength {
    /// The model is asked to go on where it stopped, [`MAX_CUT_REPLIES`] times in a row.
    #[default]
    GoOn,
    /// It is the answer, marked as cut.
    End,
    /// Told apart by the prompt. Where that takes most of what the model reads ([`crate::compact::cut_at`]), the window is
    /// full: room is made, and where none can be made the reply is the answer. Else the reply was only long, and the model
    /// is asked to go on.
    Compact,
}

/// What follows a reply that ended for a reason nobody knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It is the answer.
    #[default]
    End,
    /// The model is asked to go on, [`MAX_UNKNOWN_REPLIES`] times in a row.
    GoOn,
}

/// What follows an empty reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnEmpty {
    /// The model is asked again, a bounded number of times.
    #[default]
    AskAgain,
    /// It is the answer.
    Accept,
}

/// What one turn may spend; `None` for no limit. A model call is made only if it fits at its worst
/// ([`crate::budget`]); tool calls are run while anything is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Input and output tokens, cache reads included.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar. A model whose price is not known is not asked.
    pub cost_micros: Option<u64>,
    /// Wall-clock time since the turn started, in milliseconds.
    pub wall_clock_ms: Option<u64>,
}

impl Policy {
    /// The default preset.
    pub fn piton() -> Self {
        Self {
            preset: "piton".to_owned(),
            max_steps: Some(MAX_STEPS),
            steps_counted: StepsCounted::All,
            max_replies: None,
            last_step: LastStep::WrapUp,
            max_turns: None,
            max_calls_per_step: MAX_CALLS_PER_STEP,
            calls_taken: CallsTaken::All,
            tools_by: ToolsBy::Model,
            retry: RetryPolicy {
                first_ms: RETRY_FIRST_MS,
                cap_ms: RETRY_CAP_MS,
                cap_answered_ms: RETRY_CAP_MS,
                provider_cap_ms: RETRY_PROVIDER_CAP_MS,
                beyond_cap: BeyondCap::GiveUp,
                per_call: Some(RETRIES_PER_CALL),
                per_turn: None,
                jitter: Jitter::Full,
                on: RetryOn::Any,
                backoff_by: BackoffBy::Call,
            },
            retry_of: BTreeMap::new(),
            max_compactions: MAX_COMPACTIONS,
            compact_on_error: true,
            compaction: Compaction::piton(),
            no_progress: NoProgress {
                repeats: NO_PROGRESS_REPEATS,
                compare: Compare::InputAndResult,
                then: Stuck::Ask,
            },
            output_cut: OutputCut::HeadTail { max_chars: TOOL_OUTPUT_CHARS },
            max_denials_in_a_row: Some(MAX_DENIALS_IN_A_ROW),
            denials_counted: DenialsCounted::All,
            on_length: OnLength::GoOn,
            on_unknown: OnUnknown::End,
            on_empty: OnEmpty::AskAgain,
            words: Words::Piton,
            budget: Budget::default(),
            permission: Rules::default(),
            snapshots: false,
            gates: Gates::default(),
            demands: Vec::new(),
            references: Style::Piton,
            reference_sizes: ReferenceSizes::default(),
        }
    }
}

impl Policy {
    /// The patience with the provider of a model (`provider/model`).
    pub fn retry_for(&self, model: &str) -> &RetryPolicy {
        let provider = model.split('/').next().unwrap_or_default();
        self.retry_of.get(provider).unwrap_or(&self.retry)
    }
}

impl Budget {
    /// Which part of the budget is used up, in words, or `None`. Time is watched by a timer of its own.
    pub fn spent(&self, used: &Bound) -> Option<String> {
        let Bound { tokens, cost_micros } = *used;
        if let Some(most) = self.tokens.filter(|most| tokens >= *most) {
            return Some(format!("{tokens} of {most} tokens used"));
        }
        let cost = cost_micros.unwrap_or(0);
        let most = self.cost_micros.filter(|most| cost >= *most)?;
        Some(format!("${} of ${} spent", dollars(cost), dollars(most)))
    }
}

fn yes() -> bool {
    true
}

/// Millionths of a dollar as `1.2345`.
pub fn dollars(micros: u64) -> String {
    format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}
