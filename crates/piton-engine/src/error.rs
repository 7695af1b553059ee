//! Why a session could not be opened, or a request not be obeyed.

use crate::store::{Holder, StoreError};
use piton_core::client::{Refusal, Report};
use piton_core::event::{Answerer, Subject};
use piton_core::ids::{Seq, SessionId};
use piton_core::question::Decision;
use piton_tools::snapshot::{NotAnId, SnapshotError};
use std::io;
use std::sync::Arc;

/// Why a session could not be opened or driven.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The journal could not be written while the session ran; nothing more is done in it. It can be resumed.
    #[error(transparent)]
    Broken(Arc<StoreError>),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
    /// A hook refused what was said. It is not on record.
    #[error("{}: {reason}", if hook.is_empty() { "the prompt was refused".to_owned() } else { format!("the hook {hook} refused the prompt") })]
    PromptRefused {
        /// Its name.
        hook: String,
        /// What it says.
        reason: String,
    },
    /// What was said with a command, or to an agent, and no words came of it. It is not on record.
    #[error("{name}: {reason}")]
    CommandRefused {
        /// Its name as it was typed: `/fix`, or `@explore` of an agent.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// There is no turn to go on with.
    #[error("no turn is under way; there is nothing to resume")]
    AtRest,
    /// The prompt was cancelled before hooks accepted it. Nothing was recorded.
    #[error("{}", .0.detail.as_deref().unwrap_or("the prompt was cancelled before hooks accepted it; nothing was recorded"))]
    NotBegun(Box<Report>),
    /// The question is not open: it was never asked, or has its answer.
    #[error("this question is not open")]
    NotOpen {
        /// Which question.
        subject: Box<Subject>,
        /// The answer that counts, where one was given.
        given: Option<Decision>,
        /// Who gave it.
        by: Option<Answerer>,
    },
    /// The answer is to another question than the one that is open under that name.
    #[error("this answer is for an older question about {}. Answer the open one", name_of(subject))]
    OtherQuestion {
        /// Which question is open.
        subject: Subject,
    },
    /// What was sent is no answer to the question, for this reason. It is still open.
    #[error("this does not answer the question: {0}")]
    NoAnswer(String),
    /// What was allowed for longer than the session could not be kept. The question is still open.
    #[error("this cannot be kept beyond the session: {0}. Answer yes, or always for the session")]
    NotKept(String),
    /// So many messages wait already that this one was not taken.
    #[error("{most} messages are already queued; this one was not accepted")]
    TooMany {
        /// How many may wait.
        most: usize,
    },
    /// A message is larger than any model reads. It was not taken.
    #[error("the message is {} MB; the limit is {} MB", bytes >> 20, most >> 20)]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The process that runs the session refused it.
    #[error("{}", .0.error)]
    Refused(Refusal),
    /// The process that runs the session cannot be reached.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The session could not be forked.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// No turn was taken back or brought back.
    #[error(transparent)]
    Rewind(#[from] RewindError),
    /// No room was made.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// The session is run as before.
    #[error(transparent)]
    Configure(#[from] ConfigureError),
    /// The user's command was not run.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The message goes on waiting, or never waited.
    #[error(transparent)]
    Unqueue(#[from] UnqueueError),
    /// The message was taken out of the queue before any step had read it.
    #[error("the message was taken back before the model read it")]
    TakenBack,
    /// It is no subagent of this session, or asks nothing any more.
    #[error("{0} is not a running subagent of this session")]
    NotAtWork(SessionId),
    /// It is no request for a subagent.
    #[error("only `prompt`, `answer`, `cancel`, `unqueue`, `move` and `look` can name the session of a subagent")]
    NotForSubagents,
    /// A subagent has one turn, that of its call.
    #[error(
        "a subagent reads messages at its next step: send this with the delivery `steer`, or use `cancel` to stop it"
    )]
    OnlySteers,
}

/// Why a message was not taken out of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnqueueError {
    /// Nothing was said under this id.
    #[error("this session has no message with that id")]
    Unknown,
    /// A step has read it.
    #[error("the message is not queued any more: the model has read it, or it was undone")]
    Read,
    /// It was taken out before.
    #[error("the message has already been taken back")]
    TakenBack,
    /// A command of its template runs.
    #[error("a command of its template is running for this message; cancel stops both")]
    Filling,
    /// The step that is about to start is there for it.
    #[error("the next step is already starting with this message; stop the turn to take it back")]
    NextStep,
}

/// Why a command of the user's own was not run. Nothing of it is on record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// It cannot be run at all.
    #[error("{0}")]
    Unrunnable(String),
    /// A rule forbids it, or it would touch what no call may.
    #[error("the command was not run: {0}")]
    Forbidden(String),
    /// This session has no tool that runs commands.
    #[error("this session cannot run commands: it has no `bash` tool")]
    NoShell,
    /// It is over, or was started without a terminal.
    #[error("this command has ended, or has no terminal to type into")]
    NoTerminal,
    /// Room is being made in the context.
    #[error("the context is being compacted; run the command when that is done")]
    Compacting,
    /// Turns are being taken back or brought back.
    #[error("files are being restored; run the command when that is done")]
    Rewinding,
    /// So many wait already that this one was not taken.
    #[error("{most} commands are already waiting; this one was not accepted")]
    TooMany {
        /// How many may wait.
        most: usize,
    },
}

/// Why a session is run as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigureError {
    /// The request names nothing.
    #[error("nothing to change: name a model, a mode, an effort, an agent or tools")]
    Nothing,
    /// There is no such tool.
    #[error("there is no tool `{name}`; the tools are {known}")]
    NoSuchTool {
        /// The name that was said.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// No session can be run by it.
    #[error("{0}")]
    NoSuchAgent(String),
    /// Whoever runs the session opens no other models.
    #[error("the program that runs this session cannot switch models")]
    NoSource,
    /// The model cannot be asked.
    #[error("the model was not changed: {0}")]
    Model(String),
}

fn name_of(subject: &Subject) -> &str {
    subject.call().as_str()
}

/// Why a session that somebody runs could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its writer has no socket, or does not answer there.
    #[error("the session is in use by another Piton{holder}, which cannot be reached")]
    Unreachable {
        /// That process, where it has said who it is.
        holder: Holder,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its writer is of another version.
    #[error(
        "the session is run by another version of Piton (process {pid}), which speaks protocol {protocol}: wait until it \
         has left, or use that version"
    )]
    OtherProtocol {
        /// That process.
        pid: u32,
        /// What it speaks.
        protocol: u32,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] StoreError),
}

/// Why a session cannot be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The journal could not be read, or the new one not be written.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// A fork in the middle of a turn would have to know what its open calls did.
    #[error("cannot fork at event {at}: a fork starts where a turn ended, here {}", list(.ends))]
    NotAtRest {
        /// Where the fork was wanted.
        at: Seq,
        /// Where one can be.
        ends: Vec<Seq>,
    },
    /// No turn has ended yet.
    #[error("no turn has ended yet: there is nothing to fork")]
    NothingYet,
}

fn list(ends: &[Seq]) -> String {
    let ends: Vec<String> = ends.iter().map(Seq::to_string).collect();
    ends.join(", ")
}

/// Why no room was made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CompactError {
    /// A turn is under way, or was cut off.
    #[error("a turn is under way: compact between turns; a full context is compacted automatically")]
    MidTurn,
    /// There is nothing to sum up.
    #[error("there is nothing to summarize: the conversation is as short as it can be")]
    Nothing,
    /// There is no summary to change.
    #[error("the conversation has no summary to edit yet")]
    NoSummary,
    /// The text for it is empty.
    #[error("the summary is empty; the conversation is unchanged")]
    Empty,
    /// The model made none.
    #[error("compaction failed; the conversation is unchanged: {0}")]
    Failed(String),
    /// The journal could not be written; nothing more is done in the session. It can be resumed.
    #[error(transparent)]
    Broken(Arc<StoreError>),
    /// The process that runs the session refused it.
    #[error("{0}")]
    Refused(String),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
}

/// Why nothing was taken back. Nothing was changed then, but for [`RewindError::Abandoned`].
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    /// A turn is under way.
    #[error("a turn is under way; stop it first")]
    MidTurn,
    /// A command of the user's own runs, or the workspace is put down after one.
    #[error("a command of yours is still running; stop it first")]
    Shell,
    /// It was cancelled before anything was changed.
    #[error("it was stopped before anything was changed")]
    Stopped,
    /// There are not so many turns.
    #[error("{}", not_so_many(*.wanted, *.there))]
    NotSoMany {
        /// How many were wanted.
        wanted: u32,
        /// How many there are.
        there: u32,
    },
    /// Nothing was taken back, or something was said since.
    #[error("nothing to redo: nothing was undone since the last prompt")]
    NothingToRedo,
    /// A turn has no snapshot, or only half of them.
    #[error("the files of turn {turn} cannot be restored: they have no snapshot")]
    NoSnapshot {
        /// The turn.
        turn: u32,
    },
    /// The journal names a snapshot in a way that none is named.
    #[error(transparent)]
    BadName(#[from] NotAnId),
    /// The workspace has no store of snapshots here.
    #[error("this Piton keeps no snapshots")]
    NoStore,
    /// The snapshots cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// It had begun. Files may be at one place or the other, and the journal has that it was given up.
    #[error("the undo or redo began but could not be completed")]
    Abandoned(#[source] Box<RewindError>),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The journal could not be written; nothing more is done in the session. It can be resumed.
    #[error(transparent)]
    Broken(Arc<StoreError>),
    /// The process that runs the session refused it.
    #[error("{0}")]
    Refused(String),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
}

fn not_so_many(wanted: u32, there: u32) -> String {
    match there {
        0 => "there is no turn to take back".to_owned(),
        1 => format!("cannot undo {wanted} turns: there is one"),
        _ => format!("cannot undo {wanted} turns: there are {there}"),
    }
}

impl From<EngineError> for CompactError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Compact(error) => error,
            EngineError::Broken(error) => Self::Broken(error),
            EngineError::Refused(refusal) => Self::Refused(refusal.error),
            _ => Self::Closed,
        }
    }
}

impl From<EngineError> for RewindError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rewind(error) => error,
            EngineError::Broken(error) => Self::Broken(error),
            EngineError::Refused(refusal) => Self::Refused(refusal.error),
            _ => Self::Closed,
        }
    }
}
