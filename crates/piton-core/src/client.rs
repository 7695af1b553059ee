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
use crate::message::{Message, NoteKind, Part, Role};
use crate::model::Delta;
use crate::policy::{Policy, SandboxMode};
use crate::question::Decision;
use crate::turn::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The key of a structured answer in a turn's evidence.
pub const STRUCTURED: &str = "structured";

/// The version of this vocabulary. It increases when an older client could misread a newer writer.
pub const PROTOCOL: u32 = 2;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[non_exhaustive]
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
    /// Finish the running call and start nothing new.
    Pause {},
    /// Continue after a pause.
    Continue {},
    /// Compact the conversation, between turns: a summary replaces all but the newest steps. Answered when it is made.
    Compact(Compact),
    /// Answer an open question. The first durable answer counts.
    Answer(Answer),
    /// Report what a rewind would do. Changes nothing.
    Plan {
        /// Undo or redo.
        direction: Direction,
        /// How many.
        turns: u32,
        /// What of them.
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
        /// The tools; none for all of them.
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
    /// Ask something of a subagent of the session, or of one of its subagents: an answer, a cancel or an unqueue. On the wire, and
    /// in stream input, this is that request with the field `session` ([`Request::of_line`]).
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
    },
    /// Say whether this client can answer the session's questions; valid as long as the connection follows.
    Attend {
        /// Whether somebody is.
        attends: bool,
    },
}

fn beginning() -> Seq {
    1
}

/// A prompt in a session.
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

    /// Use this text as the model's part of it.
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
    /// Queued prompts, which go with them.
    pub waiting: Vec<String>,
    /// What would happen to files.
    pub files: Restored,
    /// Those of these files that changed while one of the turns was interrupted: by somebody else, or by a command that
    /// outlived Piton.
    pub doubtful: Vec<PathBuf>,
}

impl Plan {
    /// Paths that somebody changed since, so that they are in neither of the two states. Ignored ones do not count: every
    /// build changes them.
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
    /// How it is delivered, once what it interrupts is stopped.
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
    /// The turn that was waited for, or cancelled, has ended.
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
    /// Room was made in the context.
    Compacted(Compacted),
    /// What a rewind would do.
    Planned(Box<Plan>),
    /// A rewind is done.
    Rewound(Rewound),
    /// The session has the title.
    Renamed {
        /// Its position in the journal.
        seq: Seq,
    },
    /// What was allowed is asked about again.
    Revoked {
        /// The position of that in the journal.
        seq: Seq,
    },
    /// The session is run otherwise.
    Configured(Configured),
    /// A command of the user's is over.
    Ran {
        /// The call that it was.
        call: CallId,
        /// What came of it.
        outcome: Box<Outcome>,
    },
    /// These calls were asked to let their commands go on in the background.
    Leaving {
        /// Each of them; none where no command runs.
        calls: Vec<CallId>,
    },
    /// There is a new session.
    Forked {
        /// Which.
        session: SessionId,
    },
    /// Where the session is.
    Seen(Box<Now>),
    /// There is no turn to stop, or to wait for.
    AtRest {},
    /// A request could not be understood or was refused, or nothing more can be done in this session.
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
    /// What was said, without what Piton put beside it: text and images. Known secrets are taken out of it, as of all
    /// that is on record.
    pub parts: Vec<Part>,
    /// When the model would have read it.
    pub delivery: Delivery,
    /// Where it is on record that it was taken back; none where the message itself was not on record yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

/// Room that was made in the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The whole summary, as the model reads it.
    pub summary: String,
    /// The last event that it stands for.
    pub upto_seq: Seq,
    /// Tokens of the context before, roughly.
    pub tokens_before: u64,
    /// Tokens of the context now, roughly.
    pub tokens_after: u64,
}

/// How a session is run from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// The position of the change in the journal.
    pub seq: Seq,
    /// What was changed; the model by its whole name.
    pub changed: Configure,
    /// Whether a turn is under way that goes by what it can of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Whether some of it waits for the end of that turn.
    pub after_turn: bool,
    /// What a person should know of the model.
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
    /// The prompt that was refused, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Why, in words.
    pub error: String,
}

/// Something a listener hears.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Published {
    /// An event that is durable in the journal.
    Recorded(Arc<Record>),
    /// A fragment. Not in the journal.
    Live(Arc<Live>),
    /// Where the session is, at the last record that was told. What comes next continues it.
    Now(Box<Now>),
    /// Everything from before is told; from here on it is told as it happens.
    CaughtUp,
    /// The listener was too slow and missed fragments. [`Published::Now`] follows, with all that still counts of them.
    Missed {
        /// How many at most.
        fragments: u64,
    },
    /// The session wants something of its clients. Told again to who comes late.
    Wanted(Wanted),
    /// It is not wanted any more: it was answered, or nothing waits for it.
    Withdrawn(Subject),
    /// The last there is to hear.
    Closed(Closed),
}

/// Why there is nothing more to hear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Closed {
    /// Who ran the session has left it in good order.
    Left,
    /// The journal cannot be written. What is recorded is safe.
    Broken {
        /// What went wrong and what was kept.
        error: String,
    },
    /// Who ran the session is gone, or the connection to it.
    Lost,
}

/// What a listener hears besides records and fragments, as a line of a connection.
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
        /// What is not wanted any more.
        subject: Subject,
    },
    /// [`Published::Closed`].
    Closed(Closed),
}

impl Mark {
    /// The line of something that is neither a record nor a fragment.
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

/// A fragment of something under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Live {
    /// The model is speaking.
    ModelDelta {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1: fragments of an attempt that fails are abandoned.
        attempt: u32,
        /// The new piece.
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
        /// How often it was asked by now, this time included.
        attempt: u32,
    },
    /// It gave none.
    SummaryFailed {
        /// `provider/model`.
        model: String,
        /// Which attempt.
        attempt: u32,
        /// Why.
        error: String,
        /// When it is asked again, in milliseconds; `None`: not at all.
        retry_ms: Option<u64>,
    },
    /// A running tool has output.
    ToolOutput {
        /// Which call.
        call: CallId,
        /// The new piece, readable text.
        text: String,
    },
    /// The model has said all it wanted, and the turn waits for subagents that it has left at work.
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
    /// MCP servers, all of them, since one has another state than before.
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

/// An MCP server, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerNow {
    /// Its name.
    pub name: String,
    /// `known`, `starting`, `ready`, `failed` or `needs_login`.
    pub state: String,
    /// How many tools it has, as far as is known.
    pub tools: usize,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a turn went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts the session's turns from 1; 0 where none began: hooks had not let pass what was said.
    pub turn: u32,
    /// How it ended.
    pub end: TurnEnd,
    /// Which limit or fault it was, where the end does not say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Details for people.
    pub detail: Option<String>,
    /// What it used.
    pub spent: Spent,
    /// The model's last words; empty if it said none.
    pub text: String,
    /// Whether it left the workspace other than it found it: then `piton undo` takes that back.
    #[serde(default)]
    pub changed_files: bool,
    /// The checks that were run last before it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// The answer as a schema wanted it, where one was given and it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
    /// What the model's commands could reach; none where no turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<SandboxUsed>>,
    /// What the loop of the preset returns: those words, or the sentence that stands for them where the preset has one.
    #[serde(default)]
    pub result: String,
}

impl Report {
    /// The report for who said something that no turn began for.
    pub fn not_begun(end: TurnEnd, why: impl Into<String>) -> Self {
        Self {
            turn: 0,
            end,
            why: None,
            detail: Some(why.into()),
            spent: Spent::default(),
            text: String::new(),
            changed_files: false,
            checks: Vec::new(),
            structured: None,
            sandbox: None,
            result: String::new(),
        }
    }

    /// The report of the turn that just ended, where this is the event that ended it; the session has applied it.
    pub fn of(session: &State, event: &Event) -> Option<Self> {
        let Event::TurnEnded { turn, end, why, detail, spent } = event else { return None };
        let replies = last_replies(session);
        let text = replies.concat();
        let evidence = || session.evidence().iter().filter_map(|run| run.evidence.as_ref());
        let checks = evidence().filter_map(CheckRun::of).collect();
        let structured = evidence().find_map(|found| found.get(STRUCTURED)).cloned().map(Box::new);
        let returned = session.policy().replies.words.returned(&replies);
        let result = session.policy().replies.words.result(*end, *why, detail.as_deref(), &returned);
        let (turn, end, why, detail, spent) = (*turn, *end, *why, detail.clone(), *spent);
        let changed_files = session.changed_files();
        let sandbox = Some(Box::new(SandboxUsed::by(session.policy())));
        Some(Self { turn, end, why, detail, spent, text, changed_files, checks, structured, sandbox, result })
    }
}

/// What a turn's commands could reach, as its policy has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxUsed {
    /// What they could change.
    pub mode: SandboxMode,
    /// What held them to that, by its word; none where nothing did.
    pub backend: Option<String>,
    /// The hosts that were open to them, a rule each. Without a sandbox all are, and this is empty.
    pub net: Vec<String>,
}

impl SandboxUsed {
    fn by(policy: &Policy) -> Self {
        let Policy { sandbox: mode, sandbox_backend: backend, net, .. } = policy;
        Self { mode: *mode, backend: backend.clone(), net: net.clone() }
    }
}

/// How a check went: the evidence in the journal, and in a turn's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The command.
    pub check: String,
    /// Whether it passed.
    pub passed: bool,
    /// Its exit code; none where it was killed or took too long.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Which round this was, from 1.
    pub round: usize,
    /// The end of its output.
    pub output: String,
}

impl CheckRun {
    /// The check behind a piece of evidence, if it is one.
    pub fn of(evidence: &Value) -> Option<Self> {
        serde_json::from_value(evidence.clone()).ok()
    }
}

/// What the model said last, if it spoke after the user did. A reply that was cut and continued is one.
pub fn last_words(session: &State) -> String {
    last_replies(session).concat()
}

/// The same in the pieces that it came in.
fn last_replies(session: &State) -> Vec<String> {
    let messages: Vec<&Arc<Message>> = session.transcript().collect();
    let mut backwards = messages.iter().rev().skip_while(|message| message.role == Role::Tool).peekable();
    let goes_on = |message: &Message| {
        message.parts.iter().any(|part| matches!(part, Part::Note { kind: NoteKind::Continue, .. }))
    };
    let mut replies = Vec::new();
    while let Some(reply) = backwards.next_if(|message| message.role == Role::Assistant) {
        replies.insert(0, reply.prose());
        // Between the pieces stand notes of ours, which have no id.
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
