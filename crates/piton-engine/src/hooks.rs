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
//! previous one. A hook cannot block or break the loop: if it fails, panics or exceeds its time limit, it counts as not run,
//! and the journal says so ([`piton_core::event::Event::HooksRan`]). If it is [`Hook::required`], the turn ends instead. A hook
//! that took too long, or failed three times in a row, does not run again in this process.
//!
//! Changes by hooks are recorded before they take effect, so that a resumed session has the same transcript.

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
pub(crate) use runner::{Gated, Hooks, Ran, Suspicions, WatchedEvent};
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
use piton_core::todo::TodoItem;
use piton_tools::spawn::Confinement;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The default time limit of a hook.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a hook may send the model back to work in one turn by default.
pub const STOP_ROUNDS: usize = 8;

/// Watches the loop, or changes what it does. Implement the methods that you need; the defaults do nothing.
///
/// A method must not block its thread for long: on a single-threaded runtime, nothing else could run meanwhile, not even its
/// time limit. Its future may be dropped at any `await`, if it took too long or is no longer wanted.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Its name, for people and the journal.
    fn name(&self) -> &str;

    /// The points at which it runs. Fewer cost less.
    fn points(&self) -> Points {
        Points::ALL
    }

    /// Whether the turn ends (`hook_stopped`) if it fails or takes too long.
    fn required(&self) -> bool {
        false
    }

    /// Its time limit at one point.
    fn timeout(&self) -> Duration {
        HOOK_TIMEOUT
    }

    /// How often it may send the model back to work in one turn. One more time ends the turn (`hook_stopped`).
    fn stop_rounds(&self) -> usize {
        STOP_ROUNDS
    }

    /// What of it is recorded with a turn, so that it holds in another process, too, which goes on with that turn and has
    /// no such hook. Only a check and the schema of an answer can be put down so.
    fn demand(&self) -> Option<Demand> {
        None
    }

    /// Whether it runs in this session: a subagent's, or any other.
    fn serves(&self, _is_subagent: bool) -> bool {
        true
    }

    /// Whether it runs for calls of this tool.
    fn concerns(&self, _tool: &str) -> bool {
        true
    }

    /// Whether [`Hook::after_tool_call`] also runs for calls that never ran, because they were refused or malformed.
    fn sees_unrun_calls(&self) -> bool {
        true
    }

    /// The session was opened (runs before the first prompt in this process), or its conversation was compacted (runs
    /// before the next model call).
    async fn on_session_start(&self, _cx: &HookContext, _start: SessionStart) -> HookResult<Words> {
        Ok(Words::default())
    }

    /// A prompt arrived. It is not recorded yet, and will not be if the hook refuses it.
    async fn on_prompt(&self, _cx: &HookContext, _text: &str) -> HookResult<PromptChange> {
        Ok(PromptChange::default())
    }

    /// A model call is about to start; runs for every attempt.
    async fn before_model_call(&self, _cx: &HookContext, _call: &ModelCall) -> HookResult<ModelChange> {
        Ok(ModelChange::default())
    }

    /// A raw chunk of the answer, as the server sent it, even of an unknown kind. `request` identifies the request.
    async fn on_chunk(&self, _cx: &HookContext, _request: &str, _chunk: &str) -> HookResult {
        Ok(())
    }

    /// A fragment of prose. Fragments come in order; the next one is read when this call has returned.
    async fn on_text_delta(&self, _cx: &HookContext, _text: &str) -> HookResult {
        Ok(())
    }

    /// A fragment of reasoning.
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

    /// The rules are about to judge a call. The hook cannot allow what they forbid.
    async fn before_tool_call(&self, _cx: &HookContext, _call: &ToolCall) -> HookResult<CallChange> {
        Ok(CallChange::default())
    }

    /// A question to a person about `call` is open. The hook may answer it in the person's place.
    async fn on_approval(
        &self,
        _cx: &HookContext,
        _subject: &Subject,
        _call: &ToolCall,
    ) -> HookResult<Option<Decision>> {
        Ok(None)
    }

    /// A call has an outcome, possibly a refusal (see [`Hook::sees_unrun_calls`]). The model reads the outcome that the
    /// last hook returns.
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

    /// The model has finished, and the turn would end `completed`.
    async fn on_stop(&self, _cx: &HookContext, _stop: &Stop) -> HookResult<StopChange> {
        Ok(StopChange::default())
    }

    /// A turn is over.
    async fn on_turn(&self, _cx: &HookContext, _turn: &TurnDone) -> HookResult {
        Ok(())
    }

    /// The conversation is about to be compacted.
    async fn before_compaction(&self, _cx: &HookContext, _trigger: Trigger) -> HookResult<CompactionChange> {
        Ok(CompactionChange::default())
    }

    /// The conversation was compacted; the argument is the summary.
    async fn on_compacted(&self, _cx: &HookContext, _trigger: Trigger, _summary: &str) -> HookResult {
        Ok(())
    }

    /// The session is closing. All hooks together have five seconds.
    async fn on_session_end(&self, _cx: &HookContext) -> HookResult {
        Ok(())
    }
}

/// What a hook returns.
pub type HookResult<T = ()> = Result<T, HookError>;

/// Why a hook failed, for people.
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
    /// All points.
    pub const ALL: Self = Self(u32::MAX);
    /// No points.
    pub const NONE: Self = Self(0);

    /// These points.
    pub fn of(points: impl IntoIterator<Item = HookPoint>) -> Self {
        Self(points.into_iter().fold(0, |set, point| set | 1 << point as u32))
    }

    /// Whether this point is one of them.
    pub fn contains(self, point: HookPoint) -> bool {
        self.0 & 1 << point as u32 != 0
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// The situation in which a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookContext {
    /// The session.
    pub session: SessionId,
    /// Its folder on disk; the journal is `journal.db` in it.
    pub session_dir: PathBuf,
    /// The folder it works in.
    pub workspace: PathBuf,
    /// How code that the model wrote is confined when it runs.
    pub confinement: Confinement,
    /// The turn in progress, or the last one.
    pub turn: u32,
    /// The step in progress, or the last one.
    pub step: u32,
    /// `provider/model`.
    pub model: String,
    /// What runs without a question.
    pub unasked: Unasked,
    /// The agent that runs the session, if it is a subagent's.
    pub subagent: Option<String>,
    /// The model's list of todos.
    pub todos: Vec<TodoItem>,
}

/// What runs without a question, besides reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// Nothing: changes are refused.
    Reading,
    /// Nothing, or only some calls of a kind.
    Nothing,
    /// Changes to files.
    Edits,
    /// Everything that no rule forbids.
    Everything,
}

/// How a session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStart {
    /// The session is new.
    New,
    /// The session was resumed.
    Resumed,
    /// The session continues with a summary of its older messages.
    Compacted,
}

/// What every deciding hook can add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// Notes to the model, one each.
    pub notes: Vec<String>,
    /// A message to people.
    pub remark: Option<String>,
    /// Ends the turn (`hook_stopped`), with this reason.
    pub stop: Option<String>,
}

/// A hook's changes to a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptChange {
    /// Refuses the prompt, with this reason.
    pub refuse: Option<String>,
    /// Notes and messages. The notes are added to the prompt.
    pub words: Words,
}

/// A model call that is about to start.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The system prompt, as the hooks before this one left it.
    pub system: Arc<str>,
    /// The offered tools, as the hooks before this one left them.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation. It is recorded and cannot be changed; hooks can only add notes.
    pub messages: Arc<[Arc<Message>]>,
}

/// A hook's changes to a model call. If system prompt or tools differ from call to call, the provider's cache does not
/// help.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelChange {
    /// Another system prompt, for this call.
    pub system: Option<String>,
    /// Other tools, for this call. A tool that is not on offer is not run either.
    pub tools: Option<Vec<ToolSpec>>,
    /// Notes and messages. The notes are appended to the conversation and stay there.
    pub words: Words,
}

/// The result of a model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The reply, or the reason why there is none.
    pub result: Result<Reply, ModelError>,
}

/// A hook's changes to a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallChange {
    /// A replacement for the input: a complete JSON object.
    pub input: Option<Value>,
    /// Its verdict on the call; the strictest verdict of all hooks counts.
    pub verdict: Option<HookVerdict>,
    /// Notes and messages.
    pub words: Words,
}

/// A hook's changes to an outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutcomeChange {
    /// A replacement for the outcome.
    pub outcome: Option<Outcome>,
    /// Notes and messages.
    pub words: Words,
}

/// A hook's decision on a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactionChange {
    /// Prevents the compaction, with this reason. If the conversation does not fit without it, the turn ends.
    pub refuse: Option<String>,
    /// Notes and messages.
    pub words: Words,
}

/// A step that is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepDone {
    /// What its model call used.
    pub usage: Usage,
    /// When it started.
    pub started_ms: TimeMs,
    /// When it ended.
    pub ended_ms: TimeMs,
}

/// A turn that is about to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop {
    /// The model's last message.
    pub text: String,
    /// How often this hook has sent the model back in this turn.
    pub rounds: usize,
}

/// A hook's decision on the end of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopChange {
    /// Sends the model back to work with this message.
    pub send_back: Option<String>,
    /// The hook's findings for programs: an object.
    pub evidence: Option<Value>,
    /// Notes and messages.
    pub words: Words,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnDone {
    /// Why it ended.
    pub end: TurnEnd,
    /// Details.
    pub detail: Option<String>,
    /// What it used.
    pub spent: Spent,
    /// When it started.
    pub started_ms: TimeMs,
    /// When it ended.
    pub ended_ms: TimeMs,
    /// The model's last message.
    pub text: String,
}
