//! The loop trace: for each step one record of what went in, who was asked and how often, what came back after how
//! long, what it cost, what was run, and why the loop went on or stopped; and a record of what has no step: summaries
//! for a compaction, hooks at the beginning and the end, a title.
//!
//! It is read off the blocks of the story, so every session has one, also one that was killed. Nothing is recorded for it
//! alone but how long the first piece of a reply took.
//!
//! This module must not know: how a trace is shown or sent.

mod tracer;

use crate::cache::Reading;
use crate::call::Status;
use crate::event::{Canceller, StepKind, Trigger, TurnEnd, Verdict};
use crate::hook::{HookEnd, HookPoint};
use crate::ids::{CallId, Seq, TimeMs};
use crate::message::{FinishReason, Usage};
use crate::model::ModelErrorKind;
use crate::permission::Judged;
use crate::prompt::SegmentKind;
use crate::question::Decision;
use serde::Serialize;
pub use tracer::trace;

/// One record of the trace, in the order of the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "trace", rename_all = "snake_case")]
pub enum Trace {
    /// A step.
    Step(Box<StepTrace>),
    /// A compaction between steps or between turns.
    Compaction(Box<CompactionTrace>),
    /// What belongs to no step: hooks, and the end of a turn that had none.
    Outside(OutsideTrace),
    /// A model named the session.
    Title(TitleTrace),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepTrace {
    /// Where it begins in the journal.
    pub seq: Seq,
    /// Its turn.
    pub turn: u32,
    /// Counts the session's steps from 1.
    pub step: u32,
    /// What kind of step.
    pub kind: StepKind,
    /// When it began, in milliseconds since the Unix epoch.
    pub began_ms: TimeMs,
    /// When it was over; where it was cut, when the last of it happened.
    pub ended_ms: TimeMs,
    /// What the model was sent last, where it replied or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ModelInput>,
    /// Every time the model was asked, in order.
    pub asked: Vec<ModelCall>,
    /// Compactions within it, since the provider said that the conversation does not fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<CompactionTrace>,
    /// How long its calls waited until the workspace was put down, in milliseconds, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ms: Option<u64>,
    /// The calls of its reply, in order.
    pub calls: Vec<CallTrace>,
    /// The hooks that ran, each with its point and its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookTrace>,
    /// What followed.
    pub next: Next,
    /// Whether somebody spoke during it.
    #[serde(skip)]
    spoke: bool,
}

/// A compaction, or the attempt of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionTrace {
    /// Where it begins in the journal.
    pub seq: Seq,
    /// The turn under way, or the last one.
    pub turn: u32,
    /// Why it was wanted.
    pub trigger: Trigger,
    /// When it began.
    pub began_ms: TimeMs,
    /// When it was over; where it was cut, when the last of it happened.
    pub ended_ms: TimeMs,
    /// Calls whose outputs are represented by stubs from here on.
    pub pruned_calls: usize,
    /// The model that was asked for a summary, where one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<SummaryAsked>,
    /// Tries of processes that were killed meanwhile: nobody knows what came of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_tries: u32,
    /// Estimated tokens of the context before and after; `None` where none was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<(u64, u64)>,
    /// Why no summary was made, where none could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The hooks that ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookTrace>,
    /// What followed; of a compaction within a step, that step tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// A model that was asked for a summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryAsked {
    /// Where the end of it is recorded.
    pub seq: Seq,
    /// `provider/model`.
    pub model: String,
    /// How often it was asked.
    pub attempts: u32,
    /// When it was asked first.
    pub at_ms: TimeMs,
    /// How long all of that took, in milliseconds.
    pub took_ms: u64,
    /// Whether it made one.
    pub replied: bool,
    /// What all these calls used.
    pub usage: Usage,
    /// What they cost, in millionths of a US dollar, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// What it was sent, where that began as the session's own requests do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ModelInput>,
}

/// What belongs to no step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutsideTrace {
    /// Where it begins in the journal.
    pub seq: Seq,
    /// The turn under way, or the last one; 0 before the first.
    pub turn: u32,
    /// When the first of it happened.
    pub began_ms: TimeMs,
    /// When the last of it happened.
    pub ended_ms: TimeMs,
    /// The hooks that ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookTrace>,
    /// The end of the turn, where it ended without a step before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// A model that named the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TitleTrace {
    /// Where the title is recorded.
    pub seq: Seq,
    /// The turn after which it was asked for.
    pub turn: u32,
    /// `provider/model`.
    pub model: String,
    /// When it was asked.
    pub at_ms: TimeMs,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What it used. Not part of any turn.
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// What the model was sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelInput {
    /// Pieces that were there, in the same bytes, in the request before.
    pub kept: usize,
    /// The pieces behind these.
    pub new: Vec<InputPart>,
    /// What the provider's cache did for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reading>,
}

/// A piece of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputPart {
    /// What it is.
    pub kind: SegmentKind,
    /// Equal for equal content.
    pub hash: String,
    /// The most tokens it can be: its bytes, for no token is less than a byte.
    pub at_most_tokens: u64,
}

/// A hook's part at one point of the loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookTrace {
    /// The hook's name.
    pub hook: String,
    /// Where it ran.
    pub point: HookPoint,
    /// The call that it was about, if one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// How often.
    pub times: u32,
    /// How long that took in all, in milliseconds.
    pub duration_ms: u64,
    /// How it ended.
    pub end: HookEnd,
    /// More words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it did; empty: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub did: Vec<String>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelCall {
    /// Where its end is recorded.
    pub seq: Seq,
    /// `provider/model`.
    pub model: String,
    /// From 1, in this step and with this model.
    pub attempt: u32,
    /// When it was made.
    pub at_ms: TimeMs,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// How long until the first piece of the reply, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// What came of it.
    pub result: AskResult,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The provider's id for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

/// What came of a call of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum AskResult {
    /// A reply.
    Replied {
        /// Why it stopped.
        finish: FinishReason,
        /// The provider's own word for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// None.
    Failed {
        /// What kind of failure.
        kind: ModelErrorKind,
        /// In words.
        message: String,
        /// How long was waited before the next attempt, in milliseconds; `None`: there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
    },
    /// It was cut off by us.
    Cut,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTrace {
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// When it began to act; `None`: it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<TimeMs>,
    /// How long it acted, in milliseconds.
    pub took_ms: u64,
    /// What a person said, and after how many milliseconds, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<(Decision, u64)>,
    /// What the permission rules said of it, once they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The same of each of its parts, with the rule, the mode and where it was to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Judged>>,
    /// Who refused it, where it was never run for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedBy>,
    /// How it ended; `None`: its end is not on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// One short line for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Characters that the model read of its output.
    pub output_chars: usize,
    /// The model calls that its server asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<SampledTrace>,
}

/// A model call that an MCP server asked for while a call of its tool ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledTrace {
    /// Where its end is recorded.
    pub seq: Seq,
    /// `provider/model`.
    pub model: String,
    /// When it was asked.
    pub at_ms: TimeMs,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Whether it replied.
    pub replied: bool,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Who refused a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", content = "name", rename_all = "snake_case")]
pub enum RefusedBy {
    /// A rule of the permissions.
    Rule,
    /// This hook.
    Hook(String),
    /// Piton: there is no such tool, or no call of the turn is allowed any more.
    Piton,
}

/// Why another step follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The model has results of its calls to read.
    Results,
    /// Somebody spoke.
    Spoke,
    /// A hook, or a check, sent the model back to work.
    SentBack(String),
    /// The reply was cut at the output limit.
    Cut,
    /// The provider paused the reply.
    Paused,
    /// The reply ended, and nobody knows why: perhaps the model is not done.
    Unclear,
    /// A compaction has ended, or failed.
    Compacted,
}

/// Why the loop went on or stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum Next {
    /// Another step.
    Step {
        /// What kind.
        kind: StepKind,
        /// Why.
        cause: Cause,
    },
    /// The context had to be compacted first.
    Compaction {
        /// Why.
        trigger: Trigger,
    },
    /// The turn was over.
    Ended {
        /// Why.
        end: TurnEnd,
        /// More words about why.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Somebody stopped it.
    Stopped {
        /// Who.
        by: Canceller,
    },
    /// The turns it belongs to were taken back, or nothing more is on record: it goes on still, or was cut off.
    Open,
}

impl StepTrace {
    fn call(&mut self, id: &CallId) -> Option<&mut CallTrace> {
        self.calls.iter_mut().find(|call| call.call == *id)
    }
}

impl CompactionTrace {
    /// Whether the end of it is on record.
    fn is_over(&self) -> bool {
        self.tokens.is_some() || self.error.is_some()
    }

    /// Whether nothing follows it: it was made between turns.
    fn is_last(&self) -> bool {
        self.is_over() && matches!(self.trigger, Trigger::Asked | Trigger::Edited)
    }
}

impl Trace {
    /// Where it begins in the journal.
    pub fn seq(&self) -> Seq {
        match self {
            Self::Step(step) => step.seq,
            Self::Compaction(compaction) => compaction.seq,
            Self::Outside(outside) => outside.seq,
            Self::Title(title) => title.seq,
        }
    }

    /// Its turn.
    pub fn turn(&self) -> u32 {
        match self {
            Self::Step(step) => step.turn,
            Self::Compaction(compaction) => compaction.turn,
            Self::Outside(outside) => outside.turn,
            Self::Title(title) => title.turn,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
