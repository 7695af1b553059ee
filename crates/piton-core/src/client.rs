//! What clients send to a session and receive from it: one list of verbs for all clients, in this process or another.
//!
//! ```text
//!   Request ──► whoever runs the session ──► Reply
//!                        └──► Published: records as they become durable, live fragments between them
//! ```
//!
//! Plain data that goes over a socket as it is. Nothing here knows which process runs the session or how to reach it.

mod now;
mod wanted;

pub use now::{Now, Stage};
pub use wanted::{Answer, Want, Wanted};

use crate::call::Outcome;
use crate::changes::Restored;
pub use crate::configure::Configure;
use crate::ending::{TurnEnd, Why};
use crate::event::{Answerer, Delivery, Direction, Event, Record, Rewind, Spent, Subject};
use crate::ids::{CallId, MessageId, Seq, SessionId};
use crate::message::{Message, NoteKind, Part, Role, joined, prose};
use crate::model::Delta;
use crate::policy::{Policy, SandboxMode};
use crate::question::Decision;
use crate::turn::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// The key of a structured answer in a turn's evidence.
pub const STRUCTURED: &str = "structured";

/// The version of this vocabulary. It increases when an older client could misread a newer writer.
pub const PROTOCOL: u32 = 2;

/// What a client asks for. The driver answers each: one without its arm there does not compile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Send a prompt. Answered when it is durable and, if requested, again when its turn is over.
    Prompt(Prompt),
    /// Continue an interrupted turn. Answered when it is over.
    GoOn {},
    /// Stop the current turn. Answered when it is over. Queued messages stay queued until the next prompt.
    Cancel {},
    /// Take back queued messages that no step has read. Refused if the named message is not queued.
    Unqueue {
        /// Which one; by default all that users sent and that can be taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
    },
    /// Give a queued message another place in the queue. Refused if it is not queued.
    Move {
        /// Which.
        message: MessageId,
        /// The queued message that is read after it; without one, it is read last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<MessageId>,
    },
    /// Finish the running call and start nothing new.
    Pause {},
    /// Continue after a pause.
    Continue {},
    /// Compact the conversation, between turns: a summary replaces all but the newest steps. Answered when the summary is made.
    Compact(Compact),
    /// Answer an open question. The first durable answer counts.
    Answer(Answer),
    /// Report what a rewind would do. Changes nothing.
    Plan {
        /// Undo or redo.
        direction: Direction,
        /// How many turns.
        turns: u32,
        /// Whether to include the conversation, the files, or both.
        scope: Scope,
    },
    /// Undo or redo turns as planned.
    Rewind {
        /// The plan's rewind.
        rewind: Rewind,
    },
    /// Rename the session; an empty title restores the one made from its first prompt.
    Rename {
        /// The title.
        title: String,
    },
    /// Revoke what was allowed for the rest of the session.
    Revoke {
        /// The tools; empty for all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<String>,
    },
    /// Change the model, the permission mode, the effort or the tools. Mode and effort apply from the next step on, the rest
    /// from the next turn on ([`Configure::split`]). Answered when it is durable.
    Configure(Configure),
    /// Run a command of the user's own, between turns or beside one ([`crate::shell`]). It needs no approval; only a rule can
    /// deny it. Answered when it is over.
    Shell {
        /// The command.
        command: String,
        /// Whether to hide it from the model.
        #[serde(default)]
        keep_from_model: bool,
        /// Whether it gets a terminal of its own, into which [`Request::Type`] types.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminal: bool,
    },
    /// Type into a running command that has a terminal: the user's own, or a `bash` call with `pty`. Answered when the command has it.
    Type {
        /// The call.
        call: CallId,
        /// The keys, as a terminal sends them.
        keys: String,
    },
    /// Move running commands to the background: their calls are settled, the turn goes on. Answered at once; the journal
    /// records what happens.
    Background {
        /// The call; by default every running `bash`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
    },
    /// Create a session that continues from a point in this one.
    Fork {
        /// The end of a turn; by default the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Seq>,
    },
    /// Report the session's current state, with its open questions.
    Look {},
    /// Ask something of a subagent of the session, or of one of its subagents: a prompt for its next step, an answer, a cancel, a look,
    /// or what concerns its queue. On the wire, and in stream input, this is that request with the field `session`
    /// ([`Request::of_line`]).
    Subagent {
        /// The subagent's session.
        session: SessionId,
        /// What is asked of it.
        request: Box<Request>,
    },
}

impl Request {
    /// Reads a request of a line. One that names a `session` is for that session of the tree.
    pub fn of_line(mut value: Value) -> Result<Self, serde_json::Error> {
        let session = match value.as_object_mut() {
            Some(fields) if fields.get("request").is_none() => {
                fields.remove("session").filter(|session| !session.is_null())
            }
            _ => None,
        };
        let request = serde_json::from_value(value)?;
        match session {
            Some(session) => {
                Ok(Self::Subagent { session: serde_json::from_value(session)?, request: Box::new(request) })
            }
            None => Ok(request),
        }
    }
}

/// What a client sends over a connection besides requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Line {
    /// The first line of a client.
    Hello {
        /// The version of the vocabulary that it uses.
        protocol: u32,
    },
    /// Send everything from this position of the journal on.
    Follow {
        /// The first position; 1 is the beginning.
        #[serde(default = "beginning")]
        from: Seq,
        /// Whether to send what subagents record, too, each line with [`Of`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tree: bool,
    },
    /// Say whether this client can answer the session's questions; valid as long as the connection follows.
    Attend {
        /// Whether it can.
        attends: bool,
    },
}

fn beginning() -> Seq {
    1
}

/// A user message, as a client sends it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// The user's text, in which `@` refers to files; with a command, the text after its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// A slash command of the repository or the user, by name: its template expands the text into the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Accompanying text in which `@` has no meaning, such as piped input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Other parts, such as images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// When the model reads it.
    #[serde(default)]
    pub delivery: When,
    /// The queued message in whose place it stands: that is taken back first. Refused if it is not queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<MessageId>,
    /// The client's id for it. A repeated message with the same id is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Whether to report the end of the turn that answers it.
    #[serde(default)]
    pub wait: bool,
}

impl Prompt {
    /// A prompt for the next step.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Its approximate size.
    pub fn bytes(&self) -> usize {
        let parts =
            if self.parts.is_empty() { 0 } else { serde_json::to_string(&self.parts).map_or(0, |text| text.len()) };
        self.text.len() + self.beside.as_ref().map_or(0, String::len) + parts
    }

    /// The message that the model gets; with a command, what follows the part that its template makes.
    pub fn message_parts(&self) -> Vec<Part> {
        let text = Some(&self.text).filter(|text| !text.is_empty() && self.command.is_none());
        text.into_iter().chain(&self.beside).map(Part::text).chain(self.parts.iter().cloned()).collect()
    }
}

/// How to compact the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compact {
    /// What the model's summary should emphasize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// A text to use instead of asking the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether that text replaces the whole existing summary, and not only the model's part of the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

impl Compact {
    /// Ask the model for a summary, with an emphasis if given.
    pub fn about(focus: Option<String>) -> Self {
        Self { focus, ..Self::default() }
    }

    /// Use this text as the model's part of the summary.
    pub fn text(summary: impl Into<String>) -> Self {
        Self { summary: Some(summary.into()), ..Self::default() }
    }

    /// Replace the whole existing summary.
    pub fn replacing(summary: impl Into<String>) -> Self {
        Self { replace: true, ..Self::text(summary) }
    }
}

/// What to undo: the conversation, the files, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Conversation and files.
    Both,
    /// Files only; the model is told.
    Files,
    /// The conversation only; the files stay.
    Chat,
}

/// What a rewind would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The rewind itself, for [`Request::Rewind`].
    pub rewind: Rewind,
    /// The user's prompt in each of the turns, oldest first.
    pub prompts: Vec<String>,
    /// Queued prompts, which are taken back with these turns.
    pub waiting: Vec<String>,
    /// What would happen to files.
    pub files: Restored,
    /// The changed files that somebody else, or a command that outlived Piton, may have changed while one of the turns was
    /// interrupted.
    pub doubtful: Vec<PathBuf>,
    /// Changes of these turns stay, since no snapshots were taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsaved: bool,
}

impl Plan {
    /// Paths that somebody has changed since, so that they are in neither of the two states. Files that git ignores do not
    /// count: every build changes them.
    pub fn conflicts(&self) -> Vec<PathBuf> {
        self.files.conflicts.iter().filter(|conflict| !conflict.ignored).map(|conflict| conflict.path.clone()).collect()
    }
}

/// When the model should read a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At the next step.
    #[default]
    Steer,
    /// After the turn, as a turn of its own.
    FollowUp,
    /// At once: the current turn is stopped for it.
    Interrupt,
}

impl When {
    /// How the message is delivered, once the interrupted turn has stopped.
    pub fn delivery(self) -> Delivery {
        match self {
            Self::Steer | Self::Interrupt => Delivery::Steer,
            Self::FollowUp => Delivery::FollowUp,
        }
    }
}

/// The answers of the process that runs the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// The first line of every connection.
    Hello {
        /// The version of the vocabulary in use.
        protocol: u32,
        /// The session that this process runs.
        session: SessionId,
        /// The process.
        pid: u32,
    },
    /// A prompt is durable.
    Accepted(Accepted),
    /// The turn that the client waited for or cancelled has ended.
    Ended {
        /// The prompt that it answers; none if it was cancelled or continued.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// How it went.
        #[serde(flatten)]
        report: Report,
    },
    /// Messages were taken out of the queue.
    Unqueued {
        /// Each of them, oldest first; none if nothing was queued.
        messages: Vec<Unqueued>,
    },
    /// The message has its new place.
    Moved {
        /// The position of the change in the journal.
        seq: Seq,
    },
    /// Whether the session is paused now.
    State {
        /// Whether anything new is held back.
        paused: bool,
    },
    /// The answer counts.
    Answered {
        /// Its position in the journal.
        seq: Seq,
    },
    /// The question is not open: this answer has no effect.
    NotOpen {
        /// Which question.
        subject: Subject,
        /// The answer that counted, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given: Option<Decision>,
        /// Who gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// The conversation was compacted.
    Compacted(Compacted),
    /// What a rewind would do.
    Planned(Box<Plan>),
    /// The rewind is done.
    Rewound(Rewound),
    /// The session has the new title.
    Renamed {
        /// The position of the change in the journal.
        seq: Seq,
    },
    /// The "always" answers are revoked: Piton asks again.
    Revoked {
        /// The position of the change in the journal.
        seq: Seq,
    },
    /// The settings have changed.
    Configured(Configured),
    /// A user's own command has ended.
    Ran {
        /// Its call.
        call: CallId,
        /// Its outcome.
        outcome: Box<Outcome>,
    },
    /// The command has the keys.
    Typed {
        /// The call.
        call: CallId,
    },
    /// These calls were asked to move their commands to the background.
    Leaving {
        /// The calls; empty if no command was running.
        calls: Vec<CallId>,
    },
    /// The fork exists.
    Forked {
        /// The new session.
        session: SessionId,
    },
    /// The current state of the session.
    Seen(Box<Now>),
    /// There is no turn to stop or to wait for.
    AtRest {},
    /// The request was malformed or refused, or the session cannot go on.
    Refused(Refusal),
}

/// A prompt that is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Which.
    pub message: MessageId,
    /// Its position in the journal.
    pub seq: Seq,
}

/// A message that was taken out of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unqueued {
    /// Which.
    pub message: MessageId,
    /// The user's text and images, without Piton's notes. Known secrets are redacted, as in every record.
    pub parts: Vec<Part>,
    /// When the model would have read it.
    pub delivery: Delivery,
    /// The position of its removal in the journal; `None` if the message itself was not recorded yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The whole summary, as the model reads it.
    pub summary: String,
    /// The last event that the summary covers.
    pub upto_seq: Seq,
    /// Estimated tokens of the context before.
    pub tokens_before: u64,
    /// Estimated tokens of the context now.
    pub tokens_after: u64,
}

/// What a change of the settings did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// The position of the change in the journal.
    pub seq: Seq,
    /// The new values, with the model's full name.
    pub changed: Configure,
    /// Whether a turn is in progress and already follows the parts that apply during a turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Whether other parts wait for the end of that turn.
    pub after_turn: bool,
    /// Remarks on the model, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// What a rewind did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewound {
    /// What happened to files.
    pub files: Restored,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The refused prompt, if the request was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The reason, for people.
    pub error: String,
}

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Published {
    /// An event that is durable in the journal.
    Recorded(Arc<Record>),
    /// A fragment. It is not in the journal.
    Live(Arc<Live>),
    /// The state of the session as of the last record that was sent. Later records and fragments continue from it.
    Now(Box<Now>),
    /// All earlier records have been sent; from here on, everything is sent as it happens.
    CaughtUp,
    /// The subscriber was too slow and missed fragments. [`Published::Now`] follows, with the part of them that still counts.
    Missed {
        /// How many at most.
        fragments: u64,
    },
    /// The session wants something from its clients. Also sent to clients that subscribe later.
    Wanted(Wanted),
    /// The question is no longer open: it was answered, or nothing waits for it.
    Withdrawn(Subject),
    /// The last message of a subscription.
    Closed(Closed),
}

/// Which subagent a record or fragment is of, where a session is heard with its subagents. On a line it is the field `of`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    /// The subagent's session.
    pub session: SessionId,
    /// The call of its caller that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

impl Of {
    /// A line with this in it; `None`: it is no object.
    pub fn on(&self, line: &str) -> Option<String> {
        let fields = line.trim_end().strip_suffix('}')?;
        Some(format!("{fields},\"of\":{}}}", serde_json::to_string(self).ok()?))
    }
}

/// Why a subscription has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Closed {
    /// The process that ran the session has closed it normally.
    Left,
    /// The journal cannot be written. What is recorded is safe.
    Broken {
        /// What went wrong and what was kept.
        error: String,
    },
    /// The process that ran the session is gone, or the connection to it broke.
    Lost,
}

/// What a subscriber receives besides records and fragments, as a line of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Mark {
    /// [`Published::Now`].
    Now(Box<Now>),
    /// [`Published::CaughtUp`].
    CaughtUp {},
    /// [`Published::Missed`].
    Missed {
        /// How many at most.
        fragments: u64,
    },
    /// [`Published::Wanted`].
    Wanted(Wanted),
    /// [`Published::Withdrawn`].
    Withdrawn {
        /// The question that is no longer open.
        subject: Subject,
    },
    /// [`Published::Closed`].
    Closed(Closed),
}

impl Mark {
    /// The line for anything that is neither a record nor a fragment.
    pub fn of(published: &Published) -> Option<Self> {
        match published {
            Published::Recorded(_) | Published::Live(_) => None,
            Published::Now(now) => Some(Self::Now(now.clone())),
            Published::CaughtUp => Some(Self::CaughtUp {}),
            Published::Missed { fragments } => Some(Self::Missed { fragments: *fragments }),
            Published::Wanted(wanted) => Some(Self::Wanted(wanted.clone())),
            Published::Withdrawn(subject) => Some(Self::Withdrawn { subject: subject.clone() }),
            Published::Closed(closed) => Some(Self::Closed(closed.clone())),
        }
    }
}

impl From<Mark> for Published {
    fn from(mark: Mark) -> Self {
        match mark {
            Mark::Now(now) => Self::Now(now),
            Mark::CaughtUp {} => Self::CaughtUp,
            Mark::Missed { fragments } => Self::Missed { fragments },
            Mark::Wanted(wanted) => Self::Wanted(wanted),
            Mark::Withdrawn { subject } => Self::Withdrawn(subject),
            Mark::Closed(closed) => Self::Closed(closed),
        }
    }
}

/// A fragment of something in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Live {
    /// The model's reply has grown.
    ModelDelta {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1: fragments of an attempt that fails are abandoned.
        attempt: u32,
        /// The new fragment.
        delta: Delta,
    },
    /// The model has been silent for this long.
    ModelSilent {
        /// The session's step.
        step: u32,
        /// Milliseconds since its last sign of life.
        silent_ms: u64,
    },
    /// A model is asked for a summary of the conversation.
    SummaryAsked {
        /// `provider/model`.
        model: String,
        /// The number of this attempt, from 1.
        attempt: u32,
    },
    /// The model gave no summary.
    SummaryFailed {
        /// `provider/model`.
        model: String,
        /// Which attempt.
        attempt: u32,
        /// Why.
        error: String,
        /// Milliseconds until the next attempt; `None` if there is none.
        retry_ms: Option<u64>,
    },
    /// A running tool has produced output.
    ToolOutput {
        /// Which call.
        call: CallId,
        /// The new text, readable.
        text: String,
    },
    /// A subagent is at work.
    ChildOpened {
        /// Its session.
        session: SessionId,
        /// The call that it answers.
        call: CallId,
        /// Which agent.
        agent: String,
        /// The work in a few words.
        title: String,
    },
    /// The model has finished, and the turn waits for subagents in the background.
    SubagentsAwaited {
        /// How many.
        subagents: usize,
    },
    /// A snapshot of the workspace takes long enough to be noticed; `snapshot_taken` ends it.
    SnapshotSlow {},
    /// The session was paused or continued. While it is paused, running calls finish and nothing new starts.
    Paused {
        /// Which of the two.
        paused: bool,
    },
    /// The state of an MCP server has changed. Lists all servers.
    Servers {
        /// Each with its state, by name.
        servers: Vec<ServerNow>,
    },
    /// The session cannot go on: its journal cannot be written. What is recorded is safe.
    Broken {
        /// What went wrong and what was kept.
        error: String,
    },
}

/// The current state of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerNow {
    /// Its name.
    pub name: String,
    /// `known`, `starting`, `ready`, `failed` or `needs_login`.
    pub state: String,
    /// The number of its known tools.
    pub tools: usize,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it offers and Piton leaves out, with the reason: a tool whose schema is invalid, a name that is there twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// How a turn went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts the session's turns from 1; 0 if no turn began, because the hooks had not accepted the prompt.
    pub turn: u32,
    /// How it ended.
    pub end: TurnEnd,
    /// Which limit or fault it was, if `end` does not say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Details for people.
    pub detail: Option<String>,
    /// What it used.
    pub spent: Spent,
    /// The model's last message; empty if there is none.
    pub text: Arc<str>,
    /// Whether it has changed the workspace, so that `piton undo` can revert something.
    #[serde(default)]
    pub changed_files: bool,
    /// The last run of each check before the turn ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// The answer as JSON, if a schema was set and the answer matches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
    /// What the model's commands could reach; `None` if no turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<SandboxUsed>>,
    /// What the preset's loop returns: `text`, or the preset's own sentence in its place.
    #[serde(default)]
    pub result: Arc<str>,
}

impl Report {
    /// The report on a prompt for which no turn began.
    pub fn not_begun(end: TurnEnd, why: impl Into<String>) -> Self {
        Self {
            turn: 0,
            end,
            why: None,
            detail: Some(why.into()),
            spent: Spent::default(),
            text: Arc::default(),
            changed_files: false,
            checks: Vec::new(),
            structured: None,
            sandbox: None,
            result: Arc::default(),
        }
    }

    /// The report on the turn that this event ended; `None` for other events. The session must have applied the event.
    pub fn of(session: &State, event: &Event) -> Option<Self> {
        let Event::TurnEnded { turn, end, why, detail, spent } = event else { return None };
        let replies = last_replies(session);
        let text: Arc<str> = together(&replies).into();
        let evidence = || session.evidence().iter().filter_map(|run| run.evidence.as_ref());
        let checks = evidence().filter_map(CheckRun::of).collect();
        let structured = evidence().find_map(|found| found.get(STRUCTURED)).cloned().map(Box::new);
        let returned = session.policy().replies.words.returned(&replies);
        let result = session.policy().replies.words.result(*end, *why, detail.as_deref(), &returned);
        let result = if *result == *text { Arc::clone(&text) } else { result.into() };
        let (turn, end, why, detail, spent) = (*turn, *end, *why, detail.clone(), *spent);
        let changed_files = session.changed_files();
        let sandbox = Some(Box::new(SandboxUsed::by(session.policy())));
        Some(Self { turn, end, why, detail, spent, text, changed_files, checks, structured, sandbox, result })
    }
}

/// What a turn's commands could reach, according to its policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxUsed {
    /// What they could change.
    pub mode: SandboxMode,
    /// The name of the backend that enforced it; `None` if nothing did.
    pub backend: Option<String>,
    /// The hosts that were open to them, one rule each. Empty without a sandbox, where every host is open.
    pub net: Vec<String>,
}

impl SandboxUsed {
    fn by(policy: &Policy) -> Self {
        let Policy { sandbox: mode, sandbox_backend: backend, net, .. } = policy;
        Self { mode: *mode, backend: backend.clone(), net: net.clone() }
    }
}

/// The result of a check: the evidence in the journal and in a turn's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The command.
    pub check: String,
    /// Whether it passed.
    pub passed: bool,
    /// Its exit code; `None` if it was killed or took too long.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Which round this was, from 1.
    pub round: usize,
    /// The end of its output.
    pub output: String,
}

impl CheckRun {
    /// Reads a piece of evidence; `None` if it is not that of a check.
    pub fn of(evidence: &Value) -> Option<Self> {
        serde_json::from_value(evidence.clone()).ok()
    }
}

/// The model's last message, if it replied after the user's. A reply that was cut and continued counts as one.
pub fn last_words(session: &State) -> String {
    together(&last_replies(session)).into_owned()
}

fn together<'t>(replies: &'t [Cow<'_, str>]) -> Cow<'t, str> {
    joined(replies.iter().map(|piece| &**piece))
}

/// The same, in the pieces of a continued reply.
fn last_replies(session: &State) -> Vec<Cow<'_, str>> {
    let messages: Vec<&Message> = session.transcript().map(Arc::as_ref).collect();
    let mut backwards = messages.iter().rev().skip_while(|message| message.role == Role::Tool).peekable();
    let goes_on = |message: &Message| {
        message.parts.iter().any(|part| matches!(part, Part::Note { kind: NoteKind::Continue, .. }))
    };
    let mut replies = Vec::new();
    while let Some(reply) = backwards.next_if(|message| message.role == Role::Assistant) {
        replies.insert(0, prose(&reply.parts));
        // Between the pieces are Piton's own notes, which have no id.
        let mut is_continued = false;
        while let Some(note) = backwards.next_if(|message| message.role == Role::User && message.id.is_none()) {
            is_continued |= goes_on(note);
        }
        if !is_continued {
            break;
        }
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Question;
    use serde_json::json;

    #[test]
    fn a_request_needs_no_more_words_than_it_has_something_to_say() {
        let read = |value| serde_json::from_value::<Request>(value).unwrap();
        assert_eq!(read(json!({"do": "prompt", "text": "hi"})), Request::Prompt(Prompt::new("hi")));
        assert_eq!(
            read(json!({"do": "compact", "focus": "the API"})),
            Request::Compact(Compact { focus: Some("the API".into()), ..Compact::default() })
        );
        assert_eq!(read(json!({"do": "cancel"})), Request::Cancel {});
        let answer = json!({"do": "answer", "subject": {"call": "c1_0"}, "decision": "approve"});
        let subject = Subject::Call("c1_0".into());
        assert_eq!(read(answer), Request::Answer(Answer::unseen(subject, Decision::Approve)));
    }

    #[test]
    fn what_is_wanted_names_its_kind() {
        let question = Question::new("Run this command?", Vec::new(), Vec::new());
        let subject = Subject::Call("c1_0".into());
        let wanted = Wanted { subject: subject.clone(), want: Want::Approval(Box::new(question.clone())) };
        let line = serde_json::to_value(Mark::Wanted(wanted.clone())).unwrap();
        assert_eq!((&line["type"], &line["subject"]), (&json!("wanted"), &json!({"call": "c1_0"})));
        assert_eq!(line["approval"]["title"], "Run this command?");
        assert_eq!(serde_json::from_value::<Mark>(line).unwrap(), Mark::Wanted(wanted.clone()));
        assert_eq!(wanted.answer(Decision::Approve).shown, Some(question.shown));
        let closed = serde_json::to_value(Mark::Closed(Closed::Broken { error: "full".into() })).unwrap();
        assert_eq!(closed, json!({"type": "closed", "why": "broken", "error": "full"}));
    }
}
