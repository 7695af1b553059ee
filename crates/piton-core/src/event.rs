//! Everything that can happen to a session. A session *is* its list of events: [`crate::turn::State`] folds them, the
//! journal stores them, clients read them. What is not in this list did not happen.
//!
//! Fragments that stream by (text, reasoning, tool output) are not events: see [`crate::model::Delta`].

use crate::budget::Bound;
use crate::call::{Effects, Outcome, Planned};
pub use crate::configure::{ChangedBy, Configure};
pub use crate::ending::{TurnEnd, Why};
use crate::hook::{HookPoint, HookRun, HookVerdict};
use crate::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use crate::limits::REWIND_PATHS;
use crate::message::{Part, Usage};
use crate::model::{ModelError, Reply};
use crate::permission::{Grant, Judged};
use crate::policy::Policy;
use crate::prompt::PromptContents;
use crate::question::{Decision, Question};
use crate::subtask::Subtask;
use crate::todo::TodoItem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of this vocabulary. It increases when an older Piton could misread a newer event; a reader upgrades older
/// events as it reads them and refuses newer ones. Every event is stored with the version that it needs
/// ([`Event::since`]), so that an older Piton can read sessions in which nothing newer has happened.
pub const SCHEMA_VERSION: u32 = 4;

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its position in the journal, from 1.
    pub seq: Seq,
    /// When it was appended.
    pub at_ms: TimeMs,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// The session was created. Always the first event.
    SessionStarted {
        /// Its id.
        session: SessionId,
        /// The folder it works in, absolute.
        workspace: String,
        /// The Piton that made it.
        version: String,
        /// The session and position it was forked from, or was called from, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Origin>,
    },
    /// A process took the session's lock. Events of older epochs than the newest are never appended after this.
    WriterOpened {
        /// One more than the epoch before.
        epoch: u64,
        /// The process.
        pid: u32,
        /// The machine's boot id, if known: after another boot, no earlier process is alive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot_id: Option<String>,
    },
    /// The writer closed the session normally.
    WriterClosed {},
    /// Piton read something that the model gets with the next event: a file that the user's message refers to,
    /// instructions, a reminder. The text itself is in that event.
    ContextGiven {
        /// The items, in order.
        items: Vec<Given>,
    },
    /// A user message. It is durable before the client is told that it was accepted.
    UserSpoke {
        /// The client's id for it; a repeated one is ignored.
        message: MessageId,
        /// The content.
        parts: Vec<Part>,
        /// When the model reads it.
        delivery: Delivery,
        /// What the person typed, if a command's template expanded it: `/fix 12`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        typed: Option<String>,
        /// What that command or skill allows until the end of the turn that reads the message, as rules.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allows: Vec<String>,
        /// Model, effort and agent of the turn that begins with the message, if its command asks for others than the session's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_turn: Option<Box<Configure>>,
        /// The work that its command gives to a subagent, in place of words for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subtask: Option<Box<Subtask>>,
    },
    /// A queued message was taken back. No step has read it, and none will.
    MessageUnqueued {
        /// Which.
        message: MessageId,
    },
    /// A queued message has another place in the queue.
    MessageMoved {
        /// Which.
        message: MessageId,
        /// The queued message that it stands before now; `None`: it is the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<MessageId>,
    },
    /// A turn began, for the first message waiting.
    TurnStarted {
        /// Counts the session's turns from 1.
        turn: u32,
        /// `provider/model`.
        model: String,
        /// Fallback models, asked in order when it gives no reply: `provider/model` each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fallbacks: Vec<String>,
        /// The rules this turn runs by.
        policy: Box<Policy>,
        /// Tokens of context at which the conversation is compacted before a step; `None`: never automatically.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compact_at_tokens: Option<u64>,
        /// Whether model and rules are those of this turn alone, as the command asks that it begins with.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        this_turn_only: bool,
    },
    /// Another process continues an interrupted turn, by its own rules.
    TurnResumed {
        /// `provider/model` from here on.
        model: String,
        /// Fallback models, asked in order when it gives no reply.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fallbacks: Vec<String>,
        /// The rules from here on. The wall clock of the budget starts again; what was spent stays spent.
        policy: Box<Policy>,
        /// As in `turn_started`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        this_turn_only: bool,
    },
    /// A step began: queued steering has joined the transcript, and the model is about to be called.
    StepStarted {
        /// Counts the session's steps from 1.
        step: u32,
        /// What kind of step.
        kind: StepKind,
        /// Piton's note to the model at its start, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The model replied in full.
    MessageFinished {
        /// The step it belongs to.
        step: u32,
        /// Which attempt succeeded, from 1.
        attempt: u32,
        /// The reply; its calls carry our ids.
        reply: Reply,
        /// What it cost, in millionths of a US dollar, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
        /// What it used at most, where the provider did not say what it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<Bound>,
        /// What the request was made of, for the cache ledger. Absent in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Box<PromptContents>>,
        /// Milliseconds from the call to the first piece of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_ms: Option<u64>,
    },
    /// An attempt to get a reply failed.
    ModelFailed {
        /// The step it belongs to.
        step: u32,
        /// Which attempt, from 1.
        attempt: u32,
        /// Why.
        error: ModelError,
        /// What it used: even an empty reply is billed.
        #[serde(default)]
        usage: Usage,
        /// What that cost, in millionths of a US dollar, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
        /// The most it can have used, if it may be billed and its usage is unknown. Counts against the budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<Bound>,
        /// What the request was made of, for the trace. Absent in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Box<PromptContents>>,
        /// What had streamed before it failed. Shown as abandoned; the model never sees it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        abandoned: Vec<Part>,
        /// When to retry; `None` if never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at_ms: Option<TimeMs>,
    },
    /// The model gave no reply, or its window is too small: the next model of the chain takes over for the rest of the
    /// turn.
    ModelSwitched {
        /// The step it belongs to.
        step: u32,
        /// `provider/model` from here on.
        model: String,
        /// Why the previous one failed, in words.
        reason: String,
        /// Tokens of context at which the conversation is compacted for this model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compact_at_tokens: Option<u64>,
    },
    /// The wait before a retry is over.
    BackoffPassed {
        /// The step that waited.
        step: u32,
    },
    /// Piton cut the reply off (a cancel, a deadline). What had streamed stays in the transcript, marked as cut.
    MessageCut {
        /// The step it belongs to.
        step: u32,
        /// What had streamed: text and reasoning, no calls.
        parts: Vec<Part>,
        /// The most the call can have used: it may be billed, and its usage is unknown. Counts against the budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<Bound>,
    },
    /// A call passed the hooks and the permission rules. This event is the only source of what it may do.
    CallRequested {
        /// Which call.
        call: CallId,
        /// The input it will run with, in the tool's own field names. Journals before version 4 have it only where a
        /// hook changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// Who wrote that input.
        #[serde(default = "Author::of_older_inputs")]
        author: Author,
        /// What it may do; decides what may run beside it and what resuming may do with it.
        #[serde(alias = "class")]
        effects: Effects,
        /// The verdict of the rules.
        verdict: Verdict,
        /// The tool's plan for it; absent if there is no such tool, or it cannot parse the input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<Box<Planned>>,
        /// How rules, mode and reach judged each of its parts; absent in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        judged: Option<Box<Judged>>,
    },
    /// A person's approval no longer applied when the call was about to act: a link, or a file that it changes, differed from
    /// what the question showed. The call has not acted, and is judged again.
    ApprovalVoided {
        /// What it was about.
        subject: Subject,
        /// What has changed.
        why: String,
    },
    /// A person was asked a question; the turn waits for the answer.
    ApprovalAsked {
        /// What it is about.
        subject: Subject,
        /// The question as people see it. Absent in journals before version 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Box<Question>>,
    },
    /// The question was answered. Durable before anything acts on it.
    ApprovalGiven {
        /// What it was about.
        subject: Subject,
        /// The answer.
        decision: Decision,
        /// Who answered. Absent in journals before version 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// A snapshot of the workspace was taken, for undo.
    SnapshotTaken {
        /// The step it was taken in, or after.
        step: u32,
        /// Before a step's first change, or after the turn's last.
        moment: Moment,
        /// The id to restore it by; `None` if no snapshot could be taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// What it does not cover, or why there is none, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
    },
    /// A call is about to act. Durable before it does: from here on it is never run a second time.
    CallStarted {
        /// Which call.
        call: CallId,
    },
    /// A call is carried out by a subagent, in a session of its own. Durable before that session is created, so that it is
    /// never created twice, and before the call begins to wait for it.
    Delegated {
        /// Which call.
        call: CallId,
        /// The session that carries it out: a new one, or an existing one that is continued.
        child: SessionId,
        /// The agent that runs it.
        agent: String,
    },
    /// A server goes on with a call as a task. Durable before the task is asked for the first time, so that whoever goes on with
    /// the session finds out how it ended instead of calling again.
    ServerTask {
        /// Which call.
        call: CallId,
        /// What the server and its client know the task by.
        handle: Value,
    },
    /// A server asked a model (MCP sampling) while a call of its tool ran. Durable before the server gets the answer.
    ServerSampled {
        /// Which call.
        call: CallId,
        /// The server.
        server: String,
        /// What was asked, and what it used.
        sampled: Box<Sampled>,
    },
    /// A call has its one result.
    CallSettled {
        /// Which call.
        call: CallId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The user runs a command themselves. It is a call of `bash` that no model made; it starts and is settled like any call
    /// ([`crate::shell`]).
    UserRan {
        /// The call's id.
        call: CallId,
        /// The command.
        command: String,
        /// Whether it is hidden from the model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep_from_model: bool,
        /// Between turns: its number among the turns, so that it can be undone like one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// Whether a snapshot of the workspace is taken before it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        snapshot: bool,
        /// The message that it is run for, whose template includes the output. The model reads it there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Whether it has a terminal of its own, into which the user can type.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminal: bool,
    },
    /// A background command or subagent has ended. Recorded once, by whichever process has the session when that becomes
    /// known.
    TaskEnded {
        /// Which: the call that started it.
        task: CallId,
        /// Its outcome; the text is the end of the output.
        outcome: Outcome,
    },
    /// Hooks ran. If the turn waits for them ([`crate::policy::HookPolicy::gates`]), this event is what it waits for, even if no
    /// hook applied. An outcome that they changed is in the call's own event, and text that they added to a prompt in the prompt.
    HooksRan {
        /// The step under way, or the last one.
        step: u32,
        /// Where in the loop. Watching hooks are recorded together, and then each run has its own point.
        point: HookPoint,
        /// Which call it was about, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The items, in order.
        runs: Vec<HookRun>,
        /// Their notes to the model.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
        /// The system prompt as they changed it, if it differs from before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// The names of the tools that they left, if they differ from before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Vec<String>>,
        /// At [`HookPoint::BeforeTool`]: the call's input as they changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// At [`HookPoint::BeforeTool`]: their verdict on the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<HookVerdict>,
        /// At [`HookPoint::Stop`]: the hook that sends the model back to work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_back: Option<String>,
        /// Why the turn must end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<String>,
    },
    /// The model's todo list changed. Recorded with the outcome of the call that changed it.
    Todo {
        /// All of them, in order.
        items: Vec<TodoItem>,
    },
    /// A step is over: the model has replied and every call is answered.
    StepFinished {
        /// Which step.
        step: u32,
    },
    /// The size of the model's window became known: a local server reports it only with its first reply.
    WindowLearned {
        /// Tokens of context at which the conversation is compacted from here on.
        compact_at_tokens: u64,
    },
    /// A compaction began, or began again in another process.
    CompactionStarted {
        /// Why.
        trigger: Trigger,
        /// What the user wants the summary to focus on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// The most that an attempt of a lost process may have used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<Bound>,
    },
    /// From here on, some tool outputs are represented by stubs, or by their beginning and end. Nothing is deleted.
    ContextPruned {
        /// The calls whose outputs these are.
        calls: Vec<CallId>,
        /// How many bytes of each remain; absent if a stub represents it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to_bytes: Option<u64>,
        /// Estimated tokens of the context before.
        tokens_before: u64,
        /// Estimated tokens of the context now.
        tokens_after: u64,
        /// Whether that suffices, so that no summary is needed.
        suffices: bool,
    },
    /// From here on, a summary represents older messages. Nothing is deleted.
    CompactionFinished {
        /// Why it was made.
        trigger: Trigger,
        /// The summary covers the messages up to this position.
        upto_seq: Seq,
        /// What the model reads in their place.
        summary: String,
        /// Estimated tokens of the context before.
        tokens_before: u64,
        /// Estimated tokens of the context now.
        tokens_after: u64,
        /// Piton's note beside it: the environment and the current instructions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The model that wrote it; absent if a person wrote it, and in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Box<SummaryCall>>,
    },
    /// The compaction failed; the conversation is unchanged.
    CompactionFailed {
        /// Why it was wanted.
        trigger: Trigger,
        /// The reason as a type, if there is one. Absent in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
        /// What went wrong, for people.
        error: String,
        /// The model that was asked for it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Box<SummaryCall>>,
    },
    /// Files are about to be restored. Durable before any is: a process that finds this event without its end restores them
    /// again, which changes nothing that was already done.
    RewindStarted {
        /// What will be done.
        rewind: Rewind,
        /// The workspace as it was just before.
        was: String,
        /// The files that will change.
        #[serde(default, skip_serializing_if = "Touched::is_empty")]
        touches: Touched,
    },
    /// Turns were undone or redone. Undone turns stay in the journal, as a branch of their own.
    RewindFinished {
        /// What was done.
        rewind: Rewind,
        /// Files that were skipped, relative to the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<String>,
        /// From the workspace as it is now to as it was before, to reverse this rewind. `None`: files stayed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        back: Option<Restore>,
    },
    /// A rewind that had begun was abandoned: the snapshots to restore its files from are gone or unusable. It is not tried
    /// again, and the conversation stays where it was.
    RewindAbandoned {
        /// The rewind.
        rewind: Rewind,
        /// The reason, for people.
        error: String,
        /// The files that it would have changed. Each is either as before or as it should be, never a mix.
        #[serde(default, skip_serializing_if = "Touched::is_empty")]
        touches: Touched,
    },
    /// A client asked for the turn to be canceled.
    CancelRequested {
        /// Who.
        by: Canceller,
    },
    /// The turn's wall-clock budget is used up.
    DeadlinePassed {},
    /// The rest of the budget does not cover the worst case of the next model call. The call was not made.
    BudgetShort {
        /// The step it would have belonged to.
        step: u32,
        /// Which budget is short. Absent in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
        /// What the call would have needed and what is left, for people.
        detail: String,
    },
    /// The session's title changed.
    TitleGiven {
        /// One line; empty for the title made from the first prompt. If a model was asked and gave no title, it is empty too:
        /// then the event only records the usage, and the title stays as it is.
        title: String,
        /// Who chose it.
        by: TitledBy,
    },
    /// A person revoked what they had allowed for the rest of the session.
    GrantsRevoked {
        /// The tools concerned; empty for all of them.
        tools: Vec<String>,
    },
    /// A person answered a question of a subagent with "always", which holds for all of the session.
    GrantsShared {
        /// The subagent's session.
        from: SessionId,
        /// What is allowed by that.
        grants: Vec<Grant>,
    },
    /// The session's settings changed, from its next turn on. During a turn, mode and effort apply at once.
    SettingsChanged {
        /// The new values, with full model names.
        changed: Configure,
        /// Who changed the settings.
        by: ChangedBy,
        /// Whether a turn was in progress that follows it from here on. Absent in older journals, where a turn kept its
        /// settings.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_once: bool,
    },
    /// The session's folder changed: the previous one was moved or deleted.
    WorkspaceMoved {
        /// The folder, absolute.
        workspace: String,
    },
    /// Stands for an event that could not be read when the session was repaired. Whatever was in progress has ended.
    EventLost {},
    /// The turn is over.
    TurnEnded {
        /// Which turn.
        turn: u32,
        /// How it ended.
        end: TurnEnd,
        /// Which limit or fault it was. Absent if `end` says enough, and in sessions of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
        /// Details for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// What it used.
        spent: Spent,
    },
}

/// A file or note that Piton read for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// What it is.
    pub kind: GivenKind,
    /// Its source: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The hash of the whole file, if the model now knows the file as it is on disk (or, for a changed file, knows that it
    /// has changed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its size in tokens, by Piton's own estimate.
    pub tokens: u64,
    /// Its size in bytes of text, for instructions.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub bytes: usize,
    /// A remark for people: it was truncated, it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_none_at_all(bytes: &usize) -> bool {
    *bytes == 0
}

impl Given {
    /// Something of so many tokens that is no file, and of which nothing is to be said.
    pub fn new(kind: GivenKind, tokens: u64) -> Self {
        Self { kind, path: None, hash: None, tokens, bytes: 0, notice: None }
    }

    /// The same, of its text.
    pub fn of(kind: GivenKind, text: &str) -> Self {
        Self::new(kind, crate::tokens::estimate(text))
    }
}

/// The kinds of files and notes that Piton reads for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenKind {
    /// The environment: folder, system, date.
    Environment,
    /// A file of instructions.
    Instructions,
    /// A file that the user's message refers to.
    Reference,
    /// A file that the model has read has changed.
    FileChanged,
    /// The budget is nearly used up.
    BudgetNear,
    /// Few steps are left.
    StepsNear,
    /// A background command or subagent has ended.
    TaskEnded,
    /// The model's todo list, because items are open or a compaction removed it.
    Todo,
    /// The session is in plan mode.
    PlanMode,
    /// The session left plan mode without an approved plan.
    PlanModeOver,
    /// MCP servers that came, went, or have other tools than the model was told.
    Servers,
    /// Skills and agents whose files have changed since the session was opened.
    EntriesChanged,
}

impl GivenKind {
    /// The first version of the vocabulary that knows it.
    fn since(self) -> u32 {
        match self {
            Self::Environment
            | Self::Instructions
            | Self::Reference
            | Self::FileChanged
            | Self::BudgetNear
            | Self::StepsNear
            | Self::TaskEnded => 3,
            Self::Todo | Self::PlanMode | Self::PlanModeOver | Self::Servers | Self::EntriesChanged => 4,
        }
    }
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The other session.
    pub session: SessionId,
    /// The position in it.
    pub seq: Seq,
    /// The call that it carries out, for a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// Who chose a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitledBy {
    /// A person.
    User,
    /// A small model, after the first turn.
    Model {
        /// `provider/model`.
        model: String,
        /// What it used. Not part of any turn.
        #[serde(default)]
        usage: Usage,
        /// What it cost, in millionths of a US dollar, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
        /// The most it can have used, if it may be billed and its usage is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<Bound>,
    },
}

impl TitledBy {
    /// Whether the session is called that from here on.
    pub fn names(&self, title: &str) -> bool {
        *self == Self::User || !title.is_empty()
    }
}

/// When the model reads a message that arrives during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// At the next step.
    Steer,
    /// After the turn, as a turn of its own.
    FollowUp,
}

/// What kind of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Any step but the last allowed one.
    Ordinary,
    /// The last one the limit allows: the model is told to wrap up and gets no tools.
    WrapUp,
    /// The previous reply was cut at the output limit: the model is told to continue it.
    Continue,
}

/// The verdict of the rules on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask a person.
    Ask,
    /// A hook wants a person to be asked, whatever the rules say; the text tells the person why.
    AskFirst(String),
    /// A rule forbids it; the text tells the model.
    Deny(String),
    /// It cannot be run at all (no such tool, a hook refused it); the text tells the model.
    Refuse(String),
}

/// What a question to a person is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// May this call run?
    Call(CallId),
    /// The model repeats itself: let it go on? Names the last of the repeated calls.
    GoOn(CallId),
    /// May a running command reach this host?
    Host {
        /// The call that the command belongs to.
        call: CallId,
        /// The host, with its port unless it is one of the web's: `pypi.org`, `example.org:8443`.
        host: String,
    },
    /// A subagent's question, as its caller's session passes it to clients. In no journal: the question is recorded in the
    /// subagent's session.
    Child {
        /// The subagent's session.
        session: SessionId,
        /// The question's subject there.
        subject: Box<Subject>,
    },
    /// What an MCP server asks while a call of its tool runs. On record together with its answer.
    Elicited {
        /// The call.
        call: CallId,
        /// Counts what is asked during it, from 1.
        number: u32,
    },
}

impl Subject {
    /// The call that it is about, in the session that asks.
    pub fn call(&self) -> &CallId {
        match self {
            Self::Call(call) | Self::GoOn(call) | Self::Host { call, .. } | Self::Elicited { call, .. } => call,
            Self::Child { subject, .. } => subject.call(),
        }
    }
}

/// Who wrote the input of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The model.
    Model,
    /// A hook, replacing the model's; or the user, who edited a plan.
    Hook,
}

impl Author {
    /// Journals before version 4 have an input only where a hook wrote it.
    pub fn of_older_inputs() -> Self {
        Self::Hook
    }
}

/// Who answered a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// A person, at any client.
    User,
    /// A hook, instead of a person.
    Hook,
    /// The rules, which now allow what they had asked about.
    Rules,
    /// Nobody was there to answer.
    Nobody,
}

/// What triggered a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The context has grown to the set size.
    Ordinary,
    /// The provider said the conversation does not fit.
    Forced,
    /// A person asked for it, between turns.
    Asked,
    /// A person changed the summary, between turns.
    Edited,
}

/// The model that was asked for a summary, and the usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryCall {
    /// `provider/model`.
    pub model: String,
    /// The number of attempts.
    pub attempts: u32,
    /// Tokens of all these calls.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost, in millionths of a US dollar, where the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The most that those of unknown usage can have used, if they may be billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Bound>,
    /// What the request was made of, if it began like the session's own requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Box<PromptContents>>,
}

/// A model call that an MCP server asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// `provider/model`.
    pub model: String,
    /// The prompt, as people are shown it.
    pub prompt: String,
    /// What the model replied; empty if it failed or was cut off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// Tokens.
    #[serde(default)]
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The most it can have used, if it may be billed and its usage is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Bound>,
    /// How long the model took, in milliseconds; 0 if that is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_ms: u64,
}

impl Sampled {
    /// Whether it was or may have been billed.
    pub fn may_be_billed(&self) -> bool {
        self.usage.total() > 0 || self.at_most.is_some()
    }
}

/// What an event can move, in the machine of [`crate::turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// What the session remembers. A turn stays where it is.
    Session,
    /// A call of the step, or the snapshot before it: where calls run, they take it.
    Calls,
    /// The turn, in the phases that wait for it.
    Turn,
}

/// When a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first call of a step that may change files.
    Before,
    /// At the end of a turn that may have changed some.
    After,
}

/// An undo or a redo of turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    /// Which of the two.
    pub direction: Direction,
    /// How many turns.
    pub turns: u32,
    /// The event that the next one will follow; `None` if the conversation stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Seq>,
    /// What happens to files, in order; empty if they stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Restore>,
    /// Whether to overwrite files that somebody has changed since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}

/// The files that a rewind changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The first of them, relative to the workspace.
    pub paths: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

impl Touched {
    /// Keeps the first [`REWIND_PATHS`] and counts the rest.
    pub fn of(mut paths: Vec<String>) -> Self {
        let more = paths.len().saturating_sub(REWIND_PATHS);
        paths.truncate(REWIND_PATHS);
        Self { paths, more: u32::try_from(more).unwrap_or(u32::MAX) }
    }

    /// None is known.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// Undo or redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Turns are undone.
    Undo,
    /// Undone turns are redone.
    Redo,
}

/// From one state of the workspace to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// The tree expected in the workspace.
    pub from: String,
    /// The tree to restore.
    pub to: String,
}

/// Who canceled a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Canceller {
    /// A person or a client.
    User,
    /// A hook, with its reason.
    Hook(String),
}

/// What a turn consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Model replies.
    pub steps: u32,
    /// Of these, the ones that count toward the step limit: Neovate's `turnsCount`, where tool rounds do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted_steps: u32,
    /// Tool calls that ran.
    pub calls: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Money, in millionths of a US dollar; `None` when no call had a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Model calls that were or may have been billed at an unknown cost: with any, `cost_micros` is a lower bound.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u32,
    /// From the turn's start to its end, in milliseconds.
    pub duration_ms: u64,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

impl Event {
    /// A reply to a step's first attempt, of a model whose price is not known.
    pub fn replied(step: u32, reply: Reply) -> Self {
        Self::MessageFinished {
            step,
            attempt: 1,
            reply,
            cost_micros: None,
            at_most: None,
            prompt: None,
            first_ms: None,
        }
    }

    /// A call that was judged with the input the model wrote, by no tool's plan.
    pub fn requested(call: CallId, effects: Effects, verdict: Verdict) -> Self {
        Self::CallRequested { call, input: None, author: Author::Model, effects, verdict, plan: None, judged: None }
    }

    /// An answer to a question, by whomever.
    pub fn approval(subject: Subject, decision: Decision) -> Self {
        Self::ApprovalGiven { subject, decision, by: None }
    }

    /// The first version of the vocabulary that knows this event, with what it says.
    pub fn since(&self) -> u32 {
        match self {
            // A Piton that does not wait at these gates would go on without the hooks.
            Self::TurnStarted { policy, .. } | Self::TurnResumed { policy, .. } if !policy.hooks.gates.is_empty() => 4,
            // What a turn must still come to is not for a Piton to pass over that does not know of it.
            Self::TurnStarted { policy, .. } | Self::TurnResumed { policy, .. } if !policy.hooks.demands.is_empty() => {
                3
            }
            // It would go on with another model, or give a subagent's work to no one.
            Self::UserSpoke { for_turn: Some(_), .. } | Self::UserSpoke { subtask: Some(_), .. } => 4,
            Self::ContextGiven { items } => {
                items.iter().map(|item| item.kind.since()).fold(self.kind_since(), u32::max)
            }
            Self::ApprovalAsked { subject: Subject::Host { .. } | Subject::Elicited { .. }, .. }
            | Self::ApprovalGiven { subject: Subject::Host { .. } | Subject::Elicited { .. }, .. } => 4,
            Self::CompactionStarted { trigger: Trigger::Asked | Trigger::Edited, .. }
            | Self::CompactionFinished { trigger: Trigger::Asked | Trigger::Edited, .. }
            | Self::CompactionFailed { trigger: Trigger::Asked | Trigger::Edited, .. } => 3,
            _ => self.kind_since(),
        }
    }

    /// The first version that knows its kind.
    fn kind_since(&self) -> u32 {
        match self {
            Self::SessionStarted { .. }
            | Self::WriterOpened { .. }
            | Self::WriterClosed {}
            | Self::UserSpoke { .. }
            | Self::TurnStarted { .. }
            | Self::TurnResumed { .. }
            | Self::StepStarted { .. }
            | Self::MessageFinished { .. }
            | Self::ModelFailed { .. }
            | Self::ModelSwitched { .. }
            | Self::BackoffPassed { .. }
            | Self::MessageCut { .. }
            | Self::ApprovalAsked { .. }
            | Self::ApprovalGiven { .. }
            | Self::CallStarted { .. }
            | Self::CallSettled { .. }
            | Self::StepFinished { .. }
            | Self::CompactionStarted { .. }
            | Self::CompactionFinished { .. }
            | Self::CompactionFailed { .. }
            | Self::CancelRequested { .. }
            | Self::DeadlinePassed {}
            | Self::TurnEnded { .. } => 1,
            Self::SnapshotTaken { .. }
            | Self::RewindStarted { .. }
            | Self::RewindFinished { .. }
            | Self::BudgetShort { .. }
            | Self::TitleGiven { .. }
            | Self::WorkspaceMoved { .. }
            | Self::EventLost {} => 2,
            Self::ContextGiven { .. }
            | Self::HooksRan { .. }
            | Self::WindowLearned { .. }
            | Self::ContextPruned { .. }
            | Self::RewindAbandoned { .. } => 3,
            Self::Todo { .. }
            | Self::ApprovalVoided { .. }
            | Self::CallRequested { .. }
            | Self::Delegated { .. }
            | Self::ServerTask { .. }
            | Self::ServerSampled { .. }
            | Self::GrantsRevoked { .. }
            | Self::GrantsShared { .. }
            | Self::MessageUnqueued { .. }
            | Self::MessageMoved { .. }
            | Self::SettingsChanged { .. }
            | Self::TaskEnded { .. }
            | Self::UserRan { .. } => 4,
        }
    }

    /// What model calls used by it: what is known, and the worst of what is not.
    pub fn at_most(&self) -> Bound {
        let (usage, cost_micros, at_most) = match self {
            Self::MessageFinished { reply, cost_micros, at_most, .. } => (reply.usage, *cost_micros, *at_most),
            Self::ModelFailed { usage, cost_micros, at_most, .. }
            | Self::TitleGiven { by: TitledBy::Model { usage, cost_micros, at_most, .. }, .. } => {
                (*usage, *cost_micros, *at_most)
            }
            Self::MessageCut { at_most, .. } => (Usage::default(), None, *at_most),
            Self::ServerSampled { sampled, .. } => (sampled.usage, sampled.cost_micros, sampled.at_most),
            Self::CompactionFinished { asked: Some(asked), .. } | Self::CompactionFailed { asked: Some(asked), .. } => {
                (asked.usage, asked.cost_micros, asked.at_most)
            }
            Self::CompactionStarted { lost, .. } => (Usage::default(), None, *lost),
            Self::CallSettled { outcome: Outcome { delegated: Some(delegated), .. }, .. }
            | Self::TaskEnded { outcome: Outcome { delegated: Some(delegated), .. }, .. } => return delegated.at_most,
            _ => return Bound::default(),
        };
        let mut used = Bound { tokens: usage.total(), cost_micros };
        at_most.iter().for_each(|most| used.add(most));
        used
    }

    /// What it can move.
    pub fn concerns(&self) -> Concern {
        match self {
            Self::SessionStarted { .. }
            | Self::WriterClosed {}
            | Self::ContextGiven { .. }
            | Self::Todo { .. }
            | Self::UserRan { .. }
            | Self::TitleGiven { .. }
            | Self::GrantsRevoked { .. }
            | Self::GrantsShared { .. }
            | Self::WorkspaceMoved { .. }
            | Self::RewindStarted { .. } => Concern::Session,
            Self::SnapshotTaken { .. }
            | Self::CallRequested { .. }
            | Self::ApprovalAsked { .. }
            | Self::ApprovalGiven { .. }
            | Self::ApprovalVoided { .. }
            | Self::CallStarted { .. }
            | Self::Delegated { .. }
            | Self::ServerTask { .. }
            | Self::ServerSampled { .. }
            | Self::CallSettled { .. } => Concern::Calls,
            Self::WriterOpened { .. }
            | Self::UserSpoke { .. }
            | Self::MessageUnqueued { .. }
            | Self::MessageMoved { .. }
            | Self::SettingsChanged { .. }
            | Self::TurnStarted { .. }
            | Self::TurnResumed { .. }
            | Self::StepStarted { .. }
            | Self::MessageFinished { .. }
            | Self::ModelFailed { .. }
            | Self::ModelSwitched { .. }
            | Self::BackoffPassed { .. }
            | Self::MessageCut { .. }
            | Self::TaskEnded { .. }
            | Self::HooksRan { .. }
            | Self::StepFinished { .. }
            | Self::CompactionStarted { .. }
            | Self::WindowLearned { .. }
            | Self::ContextPruned { .. }
            | Self::CompactionFinished { .. }
            | Self::CompactionFailed { .. }
            | Self::BudgetShort { .. }
            | Self::RewindFinished { .. }
            | Self::RewindAbandoned { .. }
            | Self::EventLost {}
            | Self::CancelRequested { .. }
            | Self::DeadlinePassed {}
            | Self::TurnEnded { .. } => Concern::Turn,
        }
    }

    /// Whether it can occur while a compaction is under way.
    pub fn is_about_compaction(&self) -> bool {
        matches!(
            self,
            Self::CompactionStarted { .. }
                | Self::ContextPruned { .. }
                | Self::CompactionFinished { .. }
                | Self::CompactionFailed { .. }
                | Self::BudgetShort { .. }
        )
    }

    /// The `type` this event has in JSON and in the journal's `kind` column.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}
