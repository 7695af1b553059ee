//! Hooks: code of an embedder, or commands of the configuration, that watch the loop and change what it does.
//!
//! A [`Hook`] is asked at the [points](HookPoint) it names, in the order of a turn:
//!
//! ```text
//!  session start ─ prompt ─┬─ before model ─ chunk, text, reasoning ─ after model ─ message ─ tool use ─┐
//!                          │                                                                           │
//!                          ├── step ─ message ─ after tool ─ (tool) ─ approval ─ before tool ◄─────────┘
//!                          │
//!                          └── stop ─ turn ─ session end            (before compaction, compacted: in between)
//! ```
//!
//! Hooks run one after the other, in the order of [`crate::engine::Settings::hooks`], and each sees the changes of the
//! one before. None can hold up or break the loop: a hook that fails, panics or takes longer than its time is as if it
//! had not run, and the journal says so ([`piton_core::event::Event::HooksRan`]). One that is [`Hook::required`] ends the
//! turn instead. One that took too long, or failed three times in a row, is not run again in this process.
//!
//! What hooks change is on record before it acts, so that a session that is resumed has the same transcript.

mod check;
mod command;
mod handler;
mod runner;
mod schema;
mod settings;
mod wire;

pub use check::{Check, ROUNDS as CHECK_ROUNDS, TIMEOUT as CHECK_TIMEOUT};
pub use command::CommandHook;
pub(crate) use command::Guard;
pub use handler::{Handler, Matcher};
pub(crate) use runner::{Gated, Hooks, Ran, WatchedEvent};
pub use schema::{OutputSchema, SchemaError};
pub use settings::{HookTable, ReadHooks, SettingsError};

use async_trait::async_trait;
use piton_core::call::{Outcome, ToolSpec};
use piton_core::event::{Spent, Subject, Trigger, TurnEnd};
pub use piton_core::hook::HookVerdict;
use piton_core::hook::{Demand, HookPoint};
use piton_core::ids::{SessionId, TimeMs};
use piton_core::message::{Message, ToolCall, Usage};
use piton_core::model::{ModelError, Reply};
use piton_core::question::Decision;
use piton_tools::spawn::Confinement;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time of a hook that names none.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a hook that names no number may send the model back to work in one turn.
pub const STOP_ROUNDS: usize = 8;

/// Something that watches the loop, or changes what it does. Implement what is needed; everything else does nothing.
///
/// A method must not block its thread for long: on a runtime with one thread nothing else could run then, the watch on
/// its time included. It may be dropped at any `await`, when it took too long or is no longer wanted.
#[async_trait]
pub trait Hook: Send + Sync {
    /// What people and the journal call it.
    fn name(&self) -> &str;

    /// The points at which it is asked. Fewer cost less.
    fn points(&self) -> Points {
        Points::ALL
    }

    /// Whether the turn ends (`hook_stopped`) when it fails or takes too long.
    fn required(&self) -> bool {
        false
    }

    /// How long it may take at one point.
    fn timeout(&self) -> Duration {
        HOOK_TIMEOUT
    }

    /// How often it may send the model back to work in one turn. Once more, and the turn ends (`hook_stopped`).
    fn stop_rounds(&self) -> usize {
        STOP_ROUNDS
    }

    /// What of it is recorded with a turn, so that it holds in another process, too, which goes on with that turn and has
    /// no such hook. Only a check and the schema of an answer can be put down so.
    fn demand(&self) -> Option<Demand> {
        None
    }

    /// Whether it is asked in the session of a subagent, or in any other.
    fn serves(&self, _is_subagent: bool) -> bool {
        true
    }

    /// Whether it is asked about calls of this tool.
    fn concerns(&self, _tool: &str) -> bool {
        true
    }

    /// Whether [`Hook::after_tool_call`] is also asked about a call that was never run: refused, or asked for wrongly.
    fn sees_unrun_calls(&self) -> bool {
        true
    }

    /// The session was opened, asked before the first prompt in this process; or its context was compacted, asked before
    /// the model is.
    async fn on_session_start(&self, _cx: &HookContext, _start: SessionStart) -> HookResult<Words> {
        Ok(Words::default())
    }

    /// Somebody said something. It is not yet on record, and will not be if it is refused.
    async fn on_prompt(&self, _cx: &HookContext, _text: &str) -> HookResult<PromptChange> {
        Ok(PromptChange::default())
    }

    /// The model is about to be asked; once for every attempt.
    async fn before_model_call(&self, _cx: &HookContext, _call: &ModelCall) -> HookResult<ModelChange> {
        Ok(ModelChange::default())
    }

    /// A raw piece of the answer, as its server sent it, known to us or not. `request` is the same within one request
    /// and new for each.
    async fn on_chunk(&self, _cx: &HookContext, _request: &str, _chunk: &str) -> HookResult {
        Ok(())
    }

    /// A piece of prose. Pieces come in order, and the next is read when this one was taken.
    async fn on_text_delta(&self, _cx: &HookContext, _text: &str) -> HookResult {
        Ok(())
    }

    /// A piece of reasoning.
    async fn on_reasoning(&self, _cx: &HookContext, _text: &str) -> HookResult {
        Ok(())
    }

    /// The model has replied, or has failed to.
    async fn after_model_call(&self, _cx: &HookContext, _answer: &ModelAnswer) -> HookResult {
        Ok(())
    }

    /// A message of the model, or the results of its calls, joined the transcript.
    async fn on_message(&self, _cx: &HookContext, _message: &Message) -> HookResult {
        Ok(())
    }

    /// The model wants to use a tool.
    async fn on_tool_use(&self, _cx: &HookContext, _call: &ToolCall) -> HookResult {
        Ok(())
    }

    /// A call is about to be judged by the rules. What they forbid stays forbidden.
    async fn before_tool_call(&self, _cx: &HookContext, _call: &ToolCall) -> HookResult<CallChange> {
        Ok(CallChange::default())
    }

    /// A question to a person is open; `call` is what it is about. An answer spares the person the question.
    async fn on_approval(
        &self,
        _cx: &HookContext,
        _subject: &Subject,
        _call: &ToolCall,
    ) -> HookResult<Option<Decision>> {
        Ok(None)
    }

    /// A call has its outcome, a refused one too (see [`Hook::sees_unrun_calls`]). The model reads what the last hook leaves of it.
    async fn after_tool_call(
        &self,
        _cx: &HookContext,
        _call: &ToolCall,
        _outcome: &Outcome,
    ) -> HookResult<OutcomeChange> {
        Ok(OutcomeChange::default())
    }

    /// A step is over.
    async fn on_step(&self, _cx: &HookContext, _step: &StepDone) -> HookResult {
        Ok(())
    }

    /// The model has said all it wanted, and the turn would end `completed`.
    async fn on_stop(&self, _cx: &HookContext, _stop: &Stop) -> HookResult<StopChange> {
        Ok(StopChange::default())
    }

    /// A turn is over.
    async fn on_turn(&self, _cx: &HookContext, _turn: &TurnDone) -> HookResult {
        Ok(())
    }

    /// The context is about to be compacted.
    async fn before_compaction(&self, _cx: &HookContext, _trigger: Trigger) -> HookResult<CompactionChange> {
        Ok(CompactionChange::default())
    }

    /// The context was compacted; this is what stands for the older messages now.
    async fn on_compacted(&self, _cx: &HookContext, _trigger: Trigger, _summary: &str) -> HookResult {
        Ok(())
    }

    /// The session is being left. All hooks together have five seconds.
    async fn on_session_end(&self, _cx: &HookContext) -> HookResult {
        Ok(())
    }
}

/// What a hook returns.
pub type HookResult<T = ()> = Result<T, HookError>;

/// Why a hook could not do what it does, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError(pub String);

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for HookError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A set of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Points(u32);

impl Points {
    /// Every point there is.
    pub const ALL: Self = Self(u32::MAX);
    /// None of them.
    pub const NONE: Self = Self(0);

    /// These points.
    pub fn of(points: impl IntoIterator<Item = HookPoint>) -> Self {
        Self(points.into_iter().fold(0, |set, point| set | 1 << point as u32))
    }

    /// Whether this one is among them.
    pub fn contains(self, point: HookPoint) -> bool {
        self.0 & 1 << point as u32 != 0
    }

    /// These and those.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// Where a hook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookContext {
    /// The session.
    pub session: SessionId,
    /// Its folder on disk; the journal is `journal.db` in it.
    pub session_dir: PathBuf,
    /// The folder it works in.
    pub workspace: PathBuf,
    /// How what the model wrote is confined when it is run.
    pub confinement: Confinement,
    /// The turn under way, or the last one.
    pub turn: u32,
    /// The step under way, or the last one.
    pub step: u32,
    /// `provider/model`.
    pub model: String,
    /// What is run without asking.
    pub unasked: Unasked,
    /// The agent that the session is run by, where it is a subagent's.
    pub subagent: Option<String>,
}

/// What is run without asking, besides reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// Nothing, and what would change anything is refused.
    Reading,
    /// Nothing, or not everything of one kind.
    Nothing,
    /// Whatever changes files.
    Edits,
    /// Everything that no rule forbids.
    Everything,
}

/// How a session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStart {
    /// It is new.
    New,
    /// It was there before.
    Resumed,
    /// It goes on with a summary in the place of what was before.
    Compacted,
}

/// What every hook that is waited for can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// What it tells the model, each a note of its own.
    pub notes: Vec<String>,
    /// What it tells people.
    pub remark: Option<String>,
    /// Why the turn shall end (`hook_stopped`).
    pub stop: Option<String>,
}

/// What a hook does to a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptChange {
    /// Why it shall not be heard at all.
    pub refuse: Option<String>,
    /// What else. Its notes stand beside the prompt.
    pub words: Words,
}

/// A model call that is about to be made.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The system prompt, as the hooks before this one left it.
    pub system: Arc<str>,
    /// The tools on offer, as the hooks before this one left them.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation. It is on record and cannot be changed, only added to, with notes.
    pub messages: Arc<[Arc<Message>]>,
}

/// What a hook does to a model call. Another system prompt and other tools cost the provider's cache, where they are not
/// the same at every call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelChange {
    /// Another system prompt, for this call.
    pub system: Option<String>,
    /// Other tools, for this call. A tool that is not on offer is not run either.
    pub tools: Option<Vec<ToolSpec>>,
    /// What else. Its notes stand at the end of the conversation, and stay there.
    pub words: Words,
}

/// What came of a model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The reply, or why there was none.
    pub result: Result<Reply, ModelError>,
}

/// What a hook does to a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallChange {
    /// Another input: a whole JSON object.
    pub input: Option<Value>,
    /// What it says of the call; of several hooks the strictest counts.
    pub verdict: Option<HookVerdict>,
    /// What else.
    pub words: Words,
}

/// What a hook does to an outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutcomeChange {
    /// Another outcome.
    pub outcome: Option<Outcome>,
    /// What else.
    pub words: Words,
}

/// What a hook says of a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactionChange {
    /// Why there shall be none. Where the conversation does not fit without it, the turn ends.
    pub refuse: Option<String>,
    /// What else.
    pub words: Words,
}

/// A step that is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepDone {
    /// What its model call used.
    pub usage: Usage,
    /// Since when it ran.
    pub started_ms: TimeMs,
    /// When it was over.
    pub ended_ms: TimeMs,
}

/// A turn that would end.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop {
    /// The model's last words.
    pub text: String,
    /// How often this hook has sent it back in this turn.
    pub rounds: usize,
}

/// Whether the turn may end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopChange {
    /// What is still to be done: the model reads this, and goes on.
    pub send_back: Option<String>,
    /// What the hook found out, for programs: an object.
    pub evidence: Option<Value>,
    /// What else.
    pub words: Words,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnDone {
    /// Why it ended.
    pub end: TurnEnd,
    /// More words about why.
    pub detail: Option<String>,
    /// What it used.
    pub spent: Spent,
    /// Since when it ran.
    pub started_ms: TimeMs,
    /// When it was over.
    pub ended_ms: TimeMs,
    /// The model's last words.
    pub text: String,
}
