//! The blocks of a story: what each kind of them shows.

use crate::budget::Bound;
use crate::cache::Reading;
use crate::call::{CallInput, CallKind, Outcome};
use crate::event::{
    Canceller, ChangedBy, Configure, Delivery, Given, Moment, Rewind, Sampled, Spent, StepKind, Subject, SummaryCall,
    TitledBy, Touched, Trigger, TurnEnd, Verdict,
};
use crate::hook::{HookPoint, HookRun};
use crate::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use crate::message::{FinishReason, Usage};
use crate::model::ModelError;
use crate::permission::Judged;
use crate::prompt::PromptContents;
use crate::question::{Decision, Question};
use crate::todo::TodoItem;
use std::fmt;

/// Where the parts of a reply begin among the blocks of the record that led to it.
pub(super) const PARTS: u32 = 1 << 16;

/// A piece of the story.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its name: the same in every face, and whenever the session is read.
    pub id: BlockId,
    /// Where it stands among the others.
    pub order: Order,
    /// The record that made it; of what streams, the record that it follows.
    pub seq: Seq,
    /// When that was recorded.
    pub at_ms: TimeMs,
    /// The newest record that is about it.
    pub changed_seq: Seq,
    /// When that was recorded.
    pub changed_ms: TimeMs,
    /// The turn under way, or the last one; 0 before the first.
    pub turn: u32,
    /// Whether an undo took it back.
    pub taken_back: bool,
    /// What it shows.
    pub body: Body,
}

/// A block's name, which is stable: the same records give the same names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BlockId {
    /// The session itself.
    Session,
    /// What a user said.
    User(MessageId),
    /// A turn, where it begins.
    Turn(u32),
    /// A turn's end.
    TurnEnd(u32),
    /// A step, where it begins.
    Step(u32),
    /// One time that the model was asked in a step.
    Model {
        /// The step.
        step: u32,
        /// Which time, from 1, whichever model it was.
        tried: u32,
    },
    /// Words or thoughts of a reply.
    Words {
        /// The step.
        step: u32,
        /// Which time the model was asked in it, from 1.
        tried: u32,
        /// Its place among what that reply shows, from 0.
        part: u32,
    },
    /// A tool call.
    Call(CallId),
    /// A question to a person.
    Question(Subject),
    /// Anything else: the record it was made by, and which of that record's it is.
    Mark {
        /// The record.
        seq: Seq,
        /// From 0.
        part: u32,
    },
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => f.write_str("session"),
            Self::User(message) => message.fmt(f),
            Self::Turn(turn) => write!(f, "t{turn}"),
            Self::TurnEnd(turn) => write!(f, "t{turn}.end"),
            Self::Step(step) => write!(f, "s{step}"),
            Self::Model { step, tried } => write!(f, "s{step}.{tried}"),
            Self::Words { step, tried, part } => write!(f, "s{step}.{tried}.{part}"),
            Self::Call(call) => call.fmt(f),
            Self::Question(Subject::Call(call)) => write!(f, "q.{call}"),
            Self::Question(Subject::GoOn(call)) => write!(f, "q.{call}.on"),
            Self::Question(Subject::Host { call, host }) => write!(f, "q.{call}.{host}"),
            Self::Question(Subject::Elicited { call, number }) => write!(f, "q.{call}.{number}"),
            Self::Question(Subject::Child { session, subject }) => {
                write!(f, "{session}.{}", Self::Question(Subject::clone(subject)))
            }
            Self::Mark { seq, part: 0 } => write!(f, "k{seq}"),
            Self::Mark { seq, part } => write!(f, "k{seq}.{part}"),
        }
    }
}

/// Where a block stands: first by the record that it follows or is made by, then by its place among those of that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// The record.
    pub seq: Seq,
    /// Its place among the blocks of that record.
    pub part: u32,
}

/// What a block shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The session.
    Session(Box<SessionBlock>),
    /// A user said something.
    User {
        /// The words.
        text: String,
        /// How many images came with them.
        images: usize,
        /// When the model hears it.
        delivery: Delivery,
        /// Whether no step has read it yet: it stands in the queue.
        waiting: bool,
    },
    /// Piton told the model something.
    Note {
        /// What.
        text: String,
    },
    /// Something was put before the model beside the conversation.
    Given {
        /// Each of them.
        items: Vec<Given>,
    },
    /// A turn began.
    Turn {
        /// Counts from 1.
        turn: u32,
        /// `provider/model`.
        model: String,
    },
    /// A step began.
    Step {
        /// Counts the session's steps from 1.
        step: u32,
        /// What kind of step.
        kind: StepKind,
        /// Whether it is over.
        finished: bool,
    },
    /// The model was asked.
    Model(Box<ModelBlock>),
    /// The model said something.
    Words {
        /// What.
        text: String,
        /// How it came out.
        state: WordsState,
    },
    /// The model thought aloud.
    Thought {
        /// What.
        text: String,
        /// How it came out.
        state: WordsState,
    },
    /// The model called a tool.
    Call(Box<CallBlock>),
    /// A person was asked.
    Question {
        /// What about.
        subject: Subject,
        /// The question as a person sees it; `None` in journals before version 4.
        question: Option<Box<Question>>,
        /// The answer; `None` while it is open, where it was withdrawn, or where the session was cut off.
        answer: Option<Decision>,
        /// Nobody needs to answer any more: its call or its turn ended without it.
        withdrawn: bool,
    },
    /// The model's list of todos is another one.
    Todo {
        /// All of them, in order.
        items: Vec<TodoItem>,
    },
    /// A snapshot of the workspace was taken, for undo.
    Snapshot {
        /// Before a step's first change, or after the turn's last.
        moment: Moment,
        /// What it does not cover, or why there is none.
        notices: Vec<String>,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A command in the background is over.
    TaskEnd {
        /// The call that started it.
        task: CallId,
        /// What came of it; its text is the end of the output.
        outcome: Box<Outcome>,
    },
    /// Hooks ran.
    Hooks {
        /// Where in the loop.
        point: HookPoint,
        /// Which call it was about, if one.
        call: Option<CallId>,
        /// Each of them.
        runs: Vec<HookRun>,
        /// The hook that sent the model back to work, if one did.
        sent_back: Option<String>,
    },
    /// A compaction, under way or over.
    Compaction(Box<CompactionBlock>),
    /// Old outputs were shortened for the model, or taken out of what it reads.
    Pruned {
        /// How many.
        calls: usize,
        /// How many bytes of each stay; `None`: a stub.
        to_bytes: Option<u64>,
        /// Estimated tokens of the context before and after.
        tokens: (u64, u64),
        /// Whether that was room enough.
        suffices: bool,
    },
    /// Another model is asked for the rest of the turn.
    Switched {
        /// Who gave no reply: `provider/model`.
        from: String,
        /// Who is asked: `provider/model`.
        model: String,
        /// What the one before failed with.
        reason: String,
    },
    /// Turns are taken back or brought back.
    Rewind {
        /// What is done.
        rewind: Rewind,
        /// How far it came.
        state: RewindState,
    },
    /// The session has another title, or a model was asked for one in vain.
    Title {
        /// The title; may be empty.
        title: String,
        /// Who chose it.
        by: TitledBy,
    },
    /// The session went on in another folder.
    Moved {
        /// That folder.
        workspace: String,
    },
    /// How the session is run was changed.
    Configured {
        /// What was changed.
        changed: Configure,
        /// Who changed it.
        by: ChangedBy,
        /// Whether a turn was under way that goes by it from there on, as far as [`Configure::split`] says.
        at_once: bool,
    },
    /// Events could not be read when the session was repaired.
    Lost {
        /// How many.
        events: usize,
    },
    /// Somebody stops the turn.
    Stopping {
        /// Who.
        by: Canceller,
    },
    /// A turn ended.
    TurnEnd {
        /// Which.
        turn: u32,
        /// Why.
        end: TurnEnd,
        /// More words about why.
        detail: Option<String>,
        /// What it used.
        spent: Spent,
    },
}

/// What is known of the session as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionBlock {
    /// Its id; empty before the first record.
    pub id: String,
    /// The folder it works in.
    pub workspace: String,
    /// `provider/model` that is asked, or was asked last; may be empty.
    pub model: String,
    /// Its title; empty where it has none of its own.
    pub title: String,
    /// When it began.
    pub started_ms: TimeMs,
    /// What it cost so far in millionths of a US dollar, what was taken back included; `None` where that is not known.
    pub cost_micros: Option<u64>,
    /// The turns so far.
    pub turns: u32,
    /// The steps so far.
    pub steps: u32,
    /// Whether something is under way or about to be; where nobody runs the session, it was cut off.
    pub busy: bool,
}

/// How words came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordsState {
    /// They are being said.
    Streaming,
    /// To their end.
    Whole,
    /// Cut off, and kept.
    Cut,
    /// The attempt failed: the model never sees them again.
    Abandoned,
}

/// One time that the model was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelBlock {
    /// The step.
    pub step: u32,
    /// Which attempt, from 1, in this step and with this model.
    pub attempt: u32,
    /// `provider/model`.
    pub model: String,
    /// When it was asked.
    pub asked_ms: TimeMs,
    /// When the answer was recorded, or the end without one.
    pub answered_ms: TimeMs,
    /// What came of it.
    pub state: ModelState,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where that is known.
    pub cost_micros: Option<u64>,
    /// What it used at most, where it may be billed and nobody said what it used.
    pub at_most: Option<Bound>,
    /// How long until the first piece of the reply, in milliseconds.
    pub first_ms: Option<u64>,
    /// What the request was made of.
    pub prompt: Option<Box<PromptContents>>,
    /// What the provider's cache did for it, where it replied.
    pub cache: Option<Reading>,
}

impl ModelBlock {
    /// A call of which nothing but its state is known.
    pub(super) fn new(step: u32, attempt: u32, model: &str, at_ms: TimeMs, state: ModelState) -> Self {
        Self {
            step,
            attempt,
            model: model.to_owned(),
            asked_ms: at_ms,
            answered_ms: at_ms,
            state,
            usage: Usage::default(),
            cost_micros: None,
            at_most: None,
            first_ms: None,
            prompt: None,
            cache: None,
        }
    }
}

/// What came of asking the model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelState {
    /// It is asked.
    Asked,
    /// It replied.
    Replied {
        /// Why it stopped.
        finish: FinishReason,
        /// The provider's own word for it.
        raw: Option<String>,
        /// The provider's id for the answer.
        response_id: Option<String>,
        /// What was odd about the answer.
        warnings: Vec<String>,
    },
    /// It gave no reply.
    Failed {
        /// Why.
        error: ModelError,
        /// When it is asked again; `None`: not at all.
        retry_at_ms: Option<TimeMs>,
        /// When the wait for that was over, where it was.
        waited_to_ms: Option<TimeMs>,
    },
    /// It was cut off by us.
    Cut,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallBlock {
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// Who called it.
    pub caller: Caller,
    /// What kind of thing it does.
    pub kind: CallKind,
    /// What it is about: the command, the path, the pattern, or all of its input.
    pub about: String,
    /// The files it names.
    pub places: Vec<String>,
    /// The change it makes, as lines of a unified diff, where it is a change and known.
    pub diff: Option<String>,
    /// What it runs with.
    pub input: CallInput,
    /// What may be done with it, once that is judged.
    pub verdict: Option<Verdict>,
    /// What rules, mode and reach said of each of its parts, where that is on record.
    pub judged: Option<Box<Judged>>,
    /// When it began to act; `None`: it has not.
    pub started_ms: Option<TimeMs>,
    /// The subagent's session that answers it.
    pub child: Option<SessionId>,
    /// The model calls that its server asked for.
    pub sampled: Vec<SampledCall>,
    /// How far it is.
    pub stage: CallStage,
}

/// A model call that a server asked for while a call of its tool ran.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledCall {
    /// Where its end is recorded.
    pub seq: Seq,
    /// When that was.
    pub ended_ms: TimeMs,
    /// What was asked, and what it used.
    pub sampled: Sampled,
}

/// Who called a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caller {
    /// The model.
    #[default]
    Model,
    /// The user, and the model reads what came of it.
    User,
    /// The user, and the model never hears of it.
    UserAlone,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub enum CallStage {
    /// The model is writing its arguments; what there is of them.
    Writing(String),
    /// It is on record, and has not begun.
    Ready,
    /// It acts; what it has printed, as far as that was heard.
    Running(String),
    /// It has its one result.
    Settled(Outcome),
}

/// A compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionBlock {
    /// Why it is wanted.
    pub trigger: Trigger,
    /// Whether it is made between turns.
    pub between_turns: bool,
    /// What came of it; `None` while it is under way.
    pub end: Option<CompactionEnd>,
    /// Tries of processes that are gone.
    pub lost: Vec<LostTry>,
    /// Who was asked for a summary, if anybody was.
    pub asked: Option<Box<SummaryCall>>,
    /// When that was.
    pub asked_ms: TimeMs,
    /// What the provider's cache did for that request.
    pub cache: Option<Reading>,
}

/// A try to sum up whose process is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct LostTry {
    /// Where that is recorded.
    pub seq: Seq,
    /// `provider/model`.
    pub model: String,
    /// What it may have used.
    pub at_most: Bound,
}

/// What came of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub enum CompactionEnd {
    /// Shortening old outputs was enough.
    Pruned,
    /// Older messages are represented by a summary.
    Summary {
        /// That summary.
        text: String,
        /// Estimated tokens of the context before and after.
        tokens: (u64, u64),
    },
    /// The conversation is as it was.
    Failed {
        /// Why.
        error: String,
    },
}

/// How far a rewind came.
#[derive(Debug, Clone, PartialEq)]
pub enum RewindState {
    /// Files are being brought back.
    Started,
    /// It is done.
    Finished {
        /// Files that were left as they are.
        left: Vec<String>,
    },
    /// It was given up half-way.
    Abandoned {
        /// What was in the way.
        error: String,
        /// The files in question.
        touches: Touched,
    },
}

impl SessionBlock {
    /// Its id.
    pub fn session(&self) -> SessionId {
        SessionId(self.id.clone())
    }
}

impl Block {
    /// The first block of every story.
    pub(super) fn of_session() -> Self {
        Self {
            id: BlockId::Session,
            order: Order { seq: 0, part: 0 },
            seq: 0,
            at_ms: 0,
            changed_seq: 0,
            changed_ms: 0,
            turn: 0,
            taken_back: false,
            body: Body::Session(Box::default()),
        }
    }

    /// Whether it belongs to what was said before a turn began.
    pub(super) fn is_of_prompt(&self) -> bool {
        match &self.body {
            Body::User { .. } | Body::Note { .. } | Body::Given { .. } => true,
            Body::Hooks { point, .. } => *point == HookPoint::Prompt,
            _ => false,
        }
    }

    /// Whether it may stand between the words that a turn answers.
    pub(super) fn is_beside_prompt(&self) -> bool {
        self.is_of_prompt() || matches!(self.body, Body::Hooks { .. } | Body::Title { .. } | Body::Snapshot { .. })
    }
}

impl CallBlock {
    /// The tool as people see it: what they run themselves begins with what they typed.
    pub fn name(&self) -> &str {
        match self.caller {
            Caller::Model => &self.tool,
            Caller::User => "!",
            Caller::UserAlone => "!!",
        }
    }

    /// What came of it, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.stage {
            CallStage::Settled(outcome) => Some(outcome),
            CallStage::Writing(_) | CallStage::Ready | CallStage::Running(_) => None,
        }
    }
}
