//! The loop, as a machine without IO: events in, wishes out.
//!
//! [`Session::apply`] folds one event into the state. What should happen next is then *read off* the state:
//! [`Session::due`] names an event that only needs writing down, [`Session::wanted`] names the jobs that should be under
//! way. A driver starts what is wanted and missing, drops what is no longer wanted, and appends whatever happens. There
//! is no other control state, hence no resume code: after a crash the same fold gives the same wishes.
//!
//! ```text
//!   Idle ──user spoke──► Due ──turn started──► NextStep ──step started──► CallingModel ◄─────────┐
//!    ▲                    ▲                     ▲   ▲  │                   │  │   │   └─failed─► BackingOff
//!    │                  (more                   │   │  └─room needed─┐     │  │   └─does not fit─► Compacting
//!    │                  waiting)                │   │                ▼     │  │
//!    │                    │                     │   └────────── Compacting  │  └─calls─► RunningTools
//!    │                    │                     │                          │                 │ all settled
//!    └──turn ended── Ending ◄──── over ──── StepOver ◄─────── no calls ────┴─────────────────┘
//!                      ▲                        │ the same call again and again
//!                      └── no ── AskingToGoOn ◄─┘
//! ```
//!
//! `Held` is `Idle` with messages waiting: after a turn that did not complete, they wait for the user's next word.
//! A cancel or a deadline leads to `Ending` from everywhere, through `RunningTools` where tools must first stop.
//!
//! This module must not know: tokio, files, the clock, the environment, any provider's wire format. Time comes in with
//! the records, dice and clock with the questions (`retry_at`).

use crate::batch::Batch;
use crate::call::{CallInput, Outcome, Status};
use crate::event::{Canceller, Decision, Delivery, Event, Origin, Record, Spent, StepKind, Subject, Trigger, TurnEnd};
use crate::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use crate::limits::{LastStep, MAX_CUT_REPLIES, Policy};
use crate::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use crate::model::{ModelError, ModelErrorKind, Reply};
use crate::permission::{Action, Rule, Rules};
use crate::progress::{self, Seen};
use crate::retry;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// A conversation with its state: the fold of its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    phase: Phase,
    work: Work,
}

/// What the session waits for. What is valid in one phase only lives in that phase.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Nobody wants anything.
    Idle,
    /// Messages wait, but the last turn did not complete: the user's next word releases them.
    Held,
    /// A message waits to be taken up.
    Due,
    /// The next step may start.
    NextStep(StepKind),
    /// The model is being asked.
    CallingModel { attempt: u32 },
    /// The provider is given time.
    BackingOff { attempt: u32, until_ms: TimeMs },
    /// Tool calls are open.
    RunningTools(Batch, After),
    /// The step's work is done.
    StepOver(After),
    /// The model repeats itself; the question whether it may go on is not yet asked.
    Stuck(CallId),
    /// A person is asked whether it may go on.
    AskingToGoOn(CallId),
    /// Room is needed in the context.
    RoomNeeded(Trigger, AfterCompaction),
    /// Room is being made.
    Compacting(Trigger, AfterCompaction),
    /// The turn is over but for the record of it.
    Ending(Ending),
}

/// Something that should be under way.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Start a turn for the message waiting: append [`Event::TurnStarted`] with the model and policy in force.
    StartTurn,
    /// Ask the model. Ends in `MessageFinished` or `ModelFailed`.
    CallModel {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Wait out the back-off. Ends in `BackoffPassed`.
    Wait {
        /// The step that waits.
        step: u32,
        /// Until when.
        until_ms: TimeMs,
    },
    /// Watch the turn's wall clock. Ends in `DeadlinePassed`.
    WatchDeadline {
        /// When the time is up.
        at_ms: TimeMs,
    },
    /// Let hooks and permission rules see a call. Ends in `CallRequested`.
    JudgeCall(Arc<ToolCall>),
    /// Put a question to a person. Ends in `ApprovalGiven`.
    AskApproval(Subject),
    /// Run a call whose start is on record; in a process that did not start it, settle it. Ends in `CallSettled`.
    RunTool(Arc<ToolCall>),
    /// Make a running call stop. It still ends in `CallSettled`.
    StopTool(Arc<ToolCall>),
    /// Make room in the context. Ends in `CompactionFinished` or `CompactionFailed`.
    Compact(Trigger),
}

/// What follows a step.
#[derive(Debug, Clone, PartialEq)]
enum After {
    /// The model must see the results.
    GoOn,
    /// The reply was cut at the output limit: let it go on.
    Continue,
    /// The model has said all it wanted; only a waiting message keeps the turn alive.
    Answered,
    /// Room is needed before anything else.
    MakeRoom,
    /// The turn ends.
    End(Ending),
}

/// What follows a compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
enum AfterCompaction {
    AskAgain,
    StartStep(StepKind),
}

/// Why a turn ends, with more words for people.
#[derive(Debug, Clone, PartialEq)]
struct Ending {
    end: TurnEnd,
    detail: Option<String>,
}

/// What outlives a phase.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    id: SessionId,
    workspace: String,
    parent: Option<Origin>,
    transcript: Vec<Entry>,
    heard: HashSet<MessageId>,
    waiting: VecDeque<Waiting>,
    /// Tools the user approved for the whole session.
    granted: Vec<Rule>,
    turns: u32,
    steps: u32,
    /// Tokens of the conversation as the provider last counted them.
    context_tokens: u64,
    turn: TurnWork,
}

/// What belongs to the turn under way, or to the last one.
#[derive(Debug, Clone, PartialEq)]
struct TurnWork {
    model: String,
    policy: Arc<Policy>,
    compact_at_tokens: Option<u64>,
    started_ms: TimeMs,
    steps: u32,
    kind: StepKind,
    spent: Spent,
    failures: u32,
    compactions: u32,
    cut_replies: u32,
    denials_in_a_row: u32,
    /// Tools that were refused because nobody was there to approve them.
    unattended: Vec<String>,
    recent: Vec<Seen>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    seq: Seq,
    message: Arc<Message>,
}

#[derive(Debug, Clone, PartialEq)]
struct Waiting {
    message: Message,
    delivery: Delivery,
    spoken: Spoken,
}

/// When a waiting message was spoken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spoken {
    /// While the turn was going on, or between turns.
    Before,
    /// When the turn was already bound to end: it is the user's word after that.
    WhileEnding,
}

impl Session {
    /// A session before its first event.
    pub fn new() -> Self {
        let turn = TurnWork::new(String::new(), Arc::new(Policy::piton()), None, 0);
        let work = Work {
            id: SessionId::from(""),
            workspace: String::new(),
            parent: None,
            transcript: Vec::new(),
            heard: HashSet::new(),
            waiting: VecDeque::new(),
            granted: Vec::new(),
            turns: 0,
            steps: 0,
            context_tokens: 0,
            turn,
        };
        Self { phase: Phase::Idle, work }
    }

    /// The fold of a journal.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut session = Self::new();
        for record in records {
            session.apply(record);
        }
        session
    }

    /// Takes one event in. Every event is accepted in every phase; one that comes too late changes nothing.
    pub fn apply(&mut self, record: &Record) {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        self.phase = phase.step(&mut self.work, record);
    }

    /// The event that should be written down next, where nothing from outside is needed for it.
    pub fn due(&self, now_ms: TimeMs) -> Option<Event> {
        let work = &self.work;
        match &self.phase {
            Phase::NextStep(kind) => Some(work.step_started(*kind)),
            Phase::RunningTools(batch, _) => batch.due(),
            Phase::StepOver(_) => Some(Event::StepFinished { step: work.steps }),
            Phase::Stuck(call) => Some(Event::ApprovalAsked { subject: Subject::GoOn(call.clone()) }),
            Phase::RoomNeeded(trigger, _) => Some(Event::CompactionStarted { trigger: *trigger }),
            Phase::Ending(ending) => Some(work.turn_ended(ending, now_ms)),
            Phase::Idle
            | Phase::Held
            | Phase::Due
            | Phase::CallingModel { .. }
            | Phase::BackingOff { .. }
            | Phase::AskingToGoOn(_)
            | Phase::Compacting(..) => None,
        }
    }

    /// The jobs that should be under way.
    pub fn wanted(&self) -> Vec<Job> {
        let step = self.work.steps;
        let mut jobs = match &self.phase {
            Phase::Due => vec![Job::StartTurn],
            Phase::CallingModel { attempt } => vec![Job::CallModel { step, attempt: *attempt }],
            Phase::BackingOff { until_ms, .. } => vec![Job::Wait { step, until_ms: *until_ms }],
            Phase::RunningTools(batch, _) => batch.wanted(),
            Phase::AskingToGoOn(call) => vec![Job::AskApproval(Subject::GoOn(call.clone()))],
            Phase::Compacting(trigger, _) => vec![Job::Compact(*trigger)],
            Phase::Idle
            | Phase::Held
            | Phase::NextStep(_)
            | Phase::StepOver(_)
            | Phase::Stuck(_)
            | Phase::RoomNeeded(..)
            | Phase::Ending(_) => vec![],
        };
        if let Some(at_ms) = self.deadline_ms().filter(|_| self.is_in_turn()) {
            jobs.push(Job::WatchDeadline { at_ms });
        }
        jobs
    }

    /// Whether a turn is under way.
    pub fn is_in_turn(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Held | Phase::Due)
    }

    /// Whether nothing is under way and nothing is about to be.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Held)
    }

    /// The word for the phase, as clients and traces show it.
    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "idle",
            Phase::Held => "held",
            Phase::Due => "due",
            Phase::NextStep(_) => "next_step",
            Phase::CallingModel { .. } => "calling_model",
            Phase::BackingOff { .. } => "backing_off",
            Phase::RunningTools(..) => "running_tools",
            Phase::StepOver(_) => "step_over",
            Phase::Stuck(_) => "stuck",
            Phase::AskingToGoOn(_) => "asking_to_go_on",
            Phase::RoomNeeded(..) => "room_needed",
            Phase::Compacting(..) => "compacting",
            Phase::Ending(_) => "ending",
        }
    }

    /// The session's id; empty before the first event.
    pub fn id(&self) -> &SessionId {
        &self.work.id
    }

    /// The folder the session works in.
    pub fn workspace(&self) -> &str {
        &self.work.workspace
    }

    /// Where the session comes from, if from another.
    pub fn parent(&self) -> Option<&Origin> {
        self.work.parent.as_ref()
    }

    /// What the model sees of the conversation, in order.
    pub fn transcript(&self) -> impl ExactSizeIterator<Item = &Arc<Message>> {
        self.work.transcript.iter().map(|entry| &entry.message)
    }

    /// Messages that wait to be taken up.
    pub fn waiting(&self) -> impl Iterator<Item = (&Message, Delivery)> {
        self.work.waiting.iter().map(|waiting| (&waiting.message, waiting.delivery))
    }

    /// The model of the turn under way, or of the last one: `provider/model`. Empty before the first turn.
    pub fn model(&self) -> &str {
        &self.work.turn.model
    }

    /// The turn under way, or the last one; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.work.turns
    }

    /// The step under way, or the last one; counts over the whole session.
    pub fn step(&self) -> u32 {
        self.work.steps
    }

    /// What kind of step is under way.
    pub fn step_kind(&self) -> StepKind {
        self.work.turn.kind
    }

    /// What the turn under way, or the last one, has used. Its duration is filled in at its end.
    pub fn spent(&self) -> &Spent {
        &self.work.turn.spent
    }

    /// The rules of the turn under way, or of the last one.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.work.turn.policy
    }

    /// The permission rules in force: the turn's, then what the user has granted since.
    pub fn rules(&self) -> Rules {
        let mut rules = self.work.turn.policy.permission.clone();
        rules.0.extend(self.work.granted.iter().cloned());
        rules
    }

    /// An open call by its id.
    pub fn open_call(&self, id: &CallId) -> Option<&Arc<ToolCall>> {
        match &self.phase {
            Phase::RunningTools(batch, _) => batch.call(id),
            _ => None,
        }
    }

    /// Turns a provider's reply into the event to record: gives its calls ids of ours and tells an empty answer from a
    /// real one. `now_ms` and `dice` (0..=1000) are for the retry of an empty answer.
    pub fn replied(
        &self,
        attempt: u32,
        mut reply: Reply,
        cost_micros: Option<u64>,
        now_ms: TimeMs,
        dice: u64,
    ) -> Event {
        let step = self.work.steps;
        let ends_well = matches!(reply.finish, FinishReason::Stop | FinishReason::Other | FinishReason::ToolCalls);
        if ends_well && !has_substance(&reply.parts) {
            let error = ModelError::new(ModelErrorKind::EmptyReply, "the model sent an empty answer");
            return self.failed(attempt, error, reply.usage, Vec::new(), now_ms, dice);
        }
        let mut position = 0;
        for part in &mut reply.parts {
            if let Part::ToolCall(call) = part {
                call.id = CallId(format!("c{step}_{position}"));
                position += 1;
            }
        }
        Event::MessageFinished { step, attempt, reply, cost_micros }
    }

    /// Turns a failed model call into the event to record, deciding whether and when it is made again.
    pub fn failed(
        &self,
        attempt: u32,
        error: ModelError,
        usage: Usage,
        abandoned: Vec<Part>,
        now_ms: TimeMs,
        dice: u64,
    ) -> Event {
        let turn = &self.work.turn;
        let wait_ms = retry::wait_ms(&turn.policy.retry, &error, attempt, turn.failures + 1, dice);
        let retry_at_ms = wait_ms.map(|wait| now_ms.saturating_add(wait));
        Event::ModelFailed { step: self.work.steps, attempt, error, usage, abandoned, retry_at_ms }
    }

    fn deadline_ms(&self) -> Option<TimeMs> {
        let turn = &self.work.turn;
        let most = turn.policy.budget.wall_clock_ms?;
        let under_way = match &self.phase {
            Phase::RunningTools(_, After::End(_)) | Phase::StepOver(After::End(_)) | Phase::Ending(_) => false,
            _ => self.is_in_turn(),
        };
        under_way.then(|| turn.started_ms.saturating_add(most))
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Phase {
    /// The one transition function.
    fn step(self, work: &mut Work, record: &Record) -> Self {
        use Phase::{
            AskingToGoOn, BackingOff, CallingModel, Compacting, Due, Ending, NextStep, RoomNeeded, RunningTools,
            StepOver, Stuck,
        };
        match (self, &record.event) {
            (phase, Event::SessionStarted { session, workspace, parent, .. }) => {
                work.begin(session, workspace, parent.as_ref());
                phase
            }
            (phase, Event::WriterOpened { .. } | Event::WriterClosed {}) => phase,
            (phase, Event::UserSpoke { message, parts, delivery }) => work.hear(phase, message, parts, *delivery),
            (phase, Event::CancelRequested { by }) => phase.stop(work, &canceled(by), record.seq),
            (phase @ (Phase::Idle | Phase::Held | Due), Event::DeadlinePassed {}) => phase,
            (phase, Event::DeadlinePassed {}) => phase.stop(work, &Self::out_of_time(work), record.seq),

            (Due, Event::TurnStarted { model, policy, compact_at_tokens, .. }) => work.start_turn(
                TurnWork::new(model.clone(), Arc::new((**policy).clone()), *compact_at_tokens, record.at_ms),
                record.seq,
            ),
            (NextStep(_), Event::StepStarted { kind, note, .. }) => work.start_step(*kind, note.as_deref(), record.seq),
            (CallingModel { .. }, Event::MessageFinished { reply, cost_micros, .. }) => {
                work.accept(reply, *cost_micros, record.seq)
            }
            (CallingModel { attempt }, Event::ModelFailed { error, usage, retry_at_ms, .. }) => {
                work.retry_or_fail(attempt, error, usage, *retry_at_ms)
            }
            (BackingOff { attempt, .. }, Event::BackoffPassed { .. }) => CallingModel { attempt },
            (
                RunningTools(batch, after),
                event @ (Event::CallRequested { .. }
                | Event::ApprovalAsked { .. }
                | Event::ApprovalGiven { .. }
                | Event::CallStarted { .. }
                | Event::CallSettled { .. }),
            ) => {
                work.remember_grant(&batch, event);
                work.settle(batch.apply(event), after, record.seq)
            }
            (StepOver(after), Event::StepFinished { .. }) => work.after_step(after),
            (Stuck(call), Event::ApprovalAsked { subject: Subject::GoOn(_) }) => AskingToGoOn(call),
            (AskingToGoOn(_), Event::ApprovalGiven { subject: Subject::GoOn(_), decision }) => work.go_on(decision),
            (RoomNeeded(trigger, then), Event::CompactionStarted { .. }) => Compacting(trigger, then),
            (Compacting(_, then), Event::CompactionFinished { upto_seq, summary, tokens_after, .. }) => {
                work.compacted(then, *upto_seq, summary, *tokens_after)
            }
            (Compacting(trigger, then), Event::CompactionFailed { error, .. }) => {
                work.not_compacted(trigger, then, error)
            }
            (phase @ Ending(_), Event::MessageCut { parts, .. }) => {
                work.keep_cut(parts, record.seq);
                phase
            }
            (Ending(ending), Event::TurnEnded { .. }) => work.end_turn(ending.end),

            // Late answers, one by one: a new event does not compile until someone decides what it means here.
            (
                phase,
                Event::TurnStarted { .. }
                | Event::StepStarted { .. }
                | Event::MessageFinished { .. }
                | Event::ModelFailed { .. }
                | Event::BackoffPassed { .. }
                | Event::MessageCut { .. }
                | Event::CallRequested { .. }
                | Event::ApprovalAsked { .. }
                | Event::ApprovalGiven { .. }
                | Event::CallStarted { .. }
                | Event::CallSettled { .. }
                | Event::StepFinished { .. }
                | Event::CompactionStarted { .. }
                | Event::CompactionFinished { .. }
                | Event::CompactionFailed { .. }
                | Event::TurnEnded { .. },
            ) => phase,
        }
    }

    /// Leads to the turn's end from wherever it is.
    fn stop(self, work: &mut Work, ending: &self::Ending, seq: Seq) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Held | Self::Due => Self::Held,
            Self::NextStep(_)
            | Self::CallingModel { .. }
            | Self::BackingOff { .. }
            | Self::Stuck(_)
            | Self::AskingToGoOn(_)
            | Self::RoomNeeded(..)
            | Self::Compacting(..) => Self::Ending(ending.clone()),
            Self::StepOver(After::End(ending)) => Self::StepOver(After::End(ending)),
            Self::StepOver(_) => Self::StepOver(After::End(ending.clone())),
            Self::RunningTools(batch, after) => {
                let unrun = Outcome::new(Status::Cancelled, "The call was not run: the turn was stopped first.");
                let after = match after {
                    After::End(first) => After::End(first),
                    After::GoOn | After::Continue | After::Answered | After::MakeRoom => After::End(ending.clone()),
                };
                work.settle(batch.stop(&unrun), after, seq)
            }
            Self::Ending(first) => Self::Ending(first),
        }
    }

    fn out_of_time(work: &Work) -> self::Ending {
        let most_ms = work.turn.policy.budget.wall_clock_ms.unwrap_or_default();
        self::Ending::new(TurnEnd::Budget, format!("the time budget of {} s is used up", most_ms / 1000))
    }
}

impl Work {
    fn begin(&mut self, session: &SessionId, workspace: &str, parent: Option<&Origin>) {
        self.id = session.clone();
        self.workspace = workspace.to_owned();
        self.parent = parent.cloned();
    }

    fn hear(&mut self, phase: Phase, id: &MessageId, parts: &[Part], delivery: Delivery) -> Phase {
        if !self.heard.insert(id.clone()) {
            return phase;
        }
        let message = Message { id: Some(id.clone()), role: Role::User, parts: parts.to_vec(), interrupted: false };
        let spoken = match &phase {
            Phase::Ending(_) | Phase::StepOver(After::End(_)) | Phase::RunningTools(_, After::End(_)) => {
                Spoken::WhileEnding
            }
            _ => Spoken::Before,
        };
        self.waiting.push_back(Waiting { message, delivery, spoken });
        match phase {
            Phase::Idle | Phase::Held => Phase::Due,
            busy => busy,
        }
    }

    fn start_turn(&mut self, turn: TurnWork, seq: Seq) -> Phase {
        self.turns += 1;
        self.turn = turn;
        if let Some(first) = self.waiting.pop_front() {
            self.push(seq, first.message);
        }
        match self.turn.policy.max_turns {
            Some(most) if self.turns > most => {
                Phase::Ending(Ending::new(TurnEnd::MaxTurns, format!("the session's limit of {most} turns is reached")))
            }
            _ => self.next_step(StepKind::Ordinary),
        }
    }

    /// The next step, unless a limit stands in its way.
    fn next_step(&mut self, kind: StepKind) -> Phase {
        let turn = &self.turn;
        if let Some(detail) = turn.budget_spent() {
            return Phase::Ending(Ending::new(TurnEnd::Budget, detail));
        }
        let limit = turn.policy.max_steps;
        if let Some(most) = limit.filter(|most| turn.steps >= *most) {
            return Phase::Ending(Ending::new(TurnEnd::MaxSteps, format!("the limit of {most} steps is reached")));
        }
        let is_last = limit == Some(turn.steps + 1) && turn.policy.last_step == LastStep::WrapUp;
        let kind = if is_last { StepKind::WrapUp } else { kind };
        let full = turn.compact_at_tokens.is_some_and(|at| self.context_tokens >= at);
        if full && turn.compactions < turn.policy.max_compactions {
            return Phase::RoomNeeded(Trigger::Ordinary, AfterCompaction::StartStep(kind));
        }
        Phase::NextStep(kind)
    }

    fn step_started(&self, kind: StepKind) -> Event {
        let note = match kind {
            StepKind::Ordinary => None,
            StepKind::WrapUp => Some(
                "This is the last step of this turn: no tools are available any more. Sum up what is done, what is \
                 not, and what should come next."
                    .to_owned(),
            ),
            StepKind::Continue => Some(
                "Your last reply was cut at the output limit. Go on exactly where it stopped; do not repeat it."
                    .to_owned(),
            ),
        };
        Event::StepStarted { step: self.steps + 1, kind, note }
    }

    fn start_step(&mut self, kind: StepKind, note: Option<&str>, seq: Seq) -> Phase {
        self.steps += 1;
        self.turn.steps += 1;
        self.turn.kind = kind;
        let (steering, later): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| waiting.delivery == Delivery::Steer);
        self.waiting = later.into();
        for waiting in steering {
            self.push(seq, waiting.message);
        }
        if let Some(text) = note {
            let parts = vec![Part::Note { text: text.to_owned() }];
            self.push(seq, Message { id: None, role: Role::User, parts, interrupted: false });
        }
        Phase::CallingModel { attempt: 1 }
    }

    fn accept(&mut self, reply: &Reply, cost_micros: Option<u64>, seq: Seq) -> Phase {
        self.turn.spend(&reply.usage, cost_micros);
        self.turn.spent.steps += 1;
        if reply.usage.total() > 0 {
            self.context_tokens = reply.usage.total();
        }
        let message = Message { id: None, role: Role::Assistant, parts: reply.parts.clone(), interrupted: false };
        let calls: Vec<_> = message.calls().cloned().map(Arc::new).collect();
        if !message.parts.is_empty() {
            self.push(seq, message);
        }
        if reply.finish != FinishReason::Length {
            self.turn.cut_replies = 0;
        }
        if calls.is_empty() {
            return Phase::StepOver(self.after_answer(reply));
        }
        let batch = Batch::new(calls, self.turn.policy.max_calls_per_step);
        let (batch, after) = self.open_batch(batch, reply);
        self.settle(batch, after, seq)
    }

    /// What follows a reply without calls.
    fn after_answer(&mut self, reply: &Reply) -> After {
        match reply.finish {
            FinishReason::ContentFilter => After::End(filtered(reply)),
            FinishReason::Error => After::End(provider_error(reply)),
            FinishReason::Length => self.after_cut_reply(),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => match self.turn.kind {
                StepKind::WrapUp => After::End(self.turn.out_of_steps()),
                StepKind::Ordinary | StepKind::Continue => After::Answered,
            },
        }
    }

    fn after_cut_reply(&mut self) -> After {
        let full = self.turn.compact_at_tokens.is_some_and(|at| self.context_tokens >= at);
        if full && self.turn.compactions < self.turn.policy.max_compactions {
            return After::MakeRoom;
        }
        self.turn.cut_replies += 1;
        if self.turn.cut_replies > MAX_CUT_REPLIES {
            let detail = "the model's replies were cut at its output limit again and again";
            return After::End(Ending::new(TurnEnd::ContextLimit, detail));
        }
        After::Continue
    }

    /// The calls of a reply, some of them perhaps answered already, and what follows them.
    fn open_batch(&self, batch: Batch, reply: &Reply) -> (Batch, After) {
        let not_run = |batch: Batch, why: &str, ending: Ending| {
            let unrun = Outcome::new(Status::Cancelled, format!("The call was not run: {why}."));
            (batch.stop(&unrun), After::End(ending))
        };
        match reply.finish {
            FinishReason::ContentFilter => {
                not_run(batch, "the reply was cut by the provider's filter", filtered(reply))
            }
            FinishReason::Error => not_run(batch, "the provider reported an error", provider_error(reply)),
            _ if self.turn.kind == StepKind::WrapUp => {
                not_run(batch, "this was the last step of the turn", self.turn.out_of_steps())
            }
            _ if self.turn.budget_spent().is_some() => {
                let detail = self.turn.budget_spent().unwrap_or_default();
                not_run(batch, "the budget is used up", Ending::new(TurnEnd::Budget, detail))
            }
            FinishReason::Length => {
                let text = "The call was not run: your reply was cut at the output limit before the call was complete. \
                            Make it again, smaller.";
                (batch.refuse_last(Outcome::failed(text)), After::GoOn)
            }
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => (batch, After::GoOn),
        }
    }

    fn retry_or_fail(&mut self, attempt: u32, error: &ModelError, usage: &Usage, retry_at: Option<TimeMs>) -> Phase {
        self.turn.spend(usage, None);
        self.turn.failures += 1;
        let policy = &self.turn.policy;
        let may_retry =
            error.kind.is_retryable() && retry::within(&policy.retry, error.kind, attempt, self.turn.failures);
        if error.kind == ModelErrorKind::WindowExceeded && self.turn.compactions < policy.max_compactions {
            return Phase::RoomNeeded(Trigger::Forced, AfterCompaction::AskAgain);
        }
        match (retry_at.filter(|_| may_retry), error.kind) {
            (Some(until_ms), _) => Phase::BackingOff { attempt: attempt + 1, until_ms },
            (None, ModelErrorKind::WindowExceeded) => {
                Phase::Ending(Ending::new(TurnEnd::ContextLimit, error.message.clone()))
            }
            (None, ModelErrorKind::ContentFilter) => {
                Phase::Ending(Ending::new(TurnEnd::ContentFilter, error.message.clone()))
            }
            (None, _) => Phase::Ending(Ending::new(TurnEnd::ApiError, error.message.clone())),
        }
    }

    /// Moves on when every call is answered.
    fn settle(&mut self, batch: Batch, after: After, seq: Seq) -> Phase {
        let results = match batch.into_results() {
            Err(open) => return Phase::RunningTools(open, after),
            Ok(results) => results,
        };
        self.push(seq, Message { id: None, role: Role::Tool, parts: results.parts, interrupted: false });
        let turn = &mut self.turn;
        turn.spent.calls += results.ran;
        let compare = turn.policy.no_progress.compare;
        for (call, outcome) in &results.settled {
            turn.recent.push(Seen::new(compare, &call.name, &call.input, Some(outcome)));
            turn.denials_in_a_row = if outcome.status == Status::Denied { turn.denials_in_a_row + 1 } else { 0 };
        }
        let denied = turn.denials_in_a_row >= turn.policy.max_denials_in_a_row;
        Phase::StepOver(match after {
            After::GoOn if denied => {
                let detail = format!("{} calls in a row were refused", turn.denials_in_a_row);
                After::End(Ending::new(TurnEnd::ToolDenied, detail))
            }
            after => after,
        })
    }

    fn after_step(&mut self, after: After) -> Phase {
        match after {
            After::End(ending) => Phase::Ending(ending),
            After::Continue => self.next_step(StepKind::Continue),
            After::MakeRoom => Phase::RoomNeeded(Trigger::Forced, AfterCompaction::StartStep(StepKind::Continue)),
            After::GoOn => match self.repeated_call() {
                Some(call) => Phase::Stuck(call),
                None => self.next_step(StepKind::Ordinary),
            },
            After::Answered if self.has_steering() => self.next_step(StepKind::Ordinary),
            After::Answered => Phase::Ending(self.turn.answered()),
        }
    }

    /// The newest call, if it is one repetition too many.
    fn repeated_call(&self) -> Option<CallId> {
        if !progress::is_stuck(self.turn.policy.no_progress, &self.turn.recent) {
            return None;
        }
        self.transcript.last()?.message.parts.iter().rev().find_map(|part| match part {
            Part::ToolResult { call, .. } => Some(call.clone()),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } | Part::Image { .. } => {
                None
            }
        })
    }

    fn go_on(&mut self, decision: &Decision) -> Phase {
        self.turn.recent.clear();
        match decision {
            Decision::Approve | Decision::ApproveForSession => self.next_step(StepKind::Ordinary),
            Decision::Deny(_) | Decision::Unattended => {
                let repeats = self.turn.policy.no_progress.repeats;
                let detail = format!("the same call with the same result {repeats} times in a row");
                Phase::Ending(Ending::new(TurnEnd::NoProgress, detail))
            }
        }
    }

    fn remember_grant(&mut self, batch: &Batch, event: &Event) {
        let Event::ApprovalGiven { subject: Subject::Call(id), decision } = event else { return };
        let Some(call) = batch.call(id) else { return };
        match decision {
            Decision::ApproveForSession => {
                self.granted.push(Rule { tool: call.name.clone(), action: Action::Allow });
            }
            Decision::Unattended => {
                if !self.turn.unattended.contains(&call.name) {
                    self.turn.unattended.push(call.name.clone());
                }
            }
            Decision::Approve | Decision::Deny(_) => {}
        }
    }

    fn compacted(&mut self, then: AfterCompaction, upto: Seq, summary: &str, tokens_after: u64) -> Phase {
        self.turn.compactions += 1;
        self.context_tokens = tokens_after;
        let kept = self.transcript.iter().position(|entry| entry.seq > upto).unwrap_or(self.transcript.len());
        let parts = vec![Part::Note { text: summary.to_owned() }];
        let message = Arc::new(Message { id: None, role: Role::User, parts, interrupted: false });
        self.transcript.splice(..kept, [Entry { seq: upto, message }]);
        self.resume_after_compaction(then)
    }

    fn not_compacted(&mut self, trigger: Trigger, then: AfterCompaction, error: &str) -> Phase {
        self.turn.compactions += 1;
        match trigger {
            Trigger::Ordinary => self.resume_after_compaction(then),
            Trigger::Forced => Phase::Ending(Ending::new(TurnEnd::ContextLimit, error)),
        }
    }

    fn resume_after_compaction(&self, then: AfterCompaction) -> Phase {
        match then {
            AfterCompaction::AskAgain => Phase::CallingModel { attempt: 1 },
            AfterCompaction::StartStep(kind) => Phase::NextStep(kind),
        }
    }

    fn keep_cut(&mut self, parts: &[Part], seq: Seq) {
        if has_substance(parts) {
            let message = Message { id: None, role: Role::Assistant, parts: parts.to_vec(), interrupted: true };
            self.push(seq, message);
        }
    }

    fn turn_ended(&self, ending: &Ending, now_ms: TimeMs) -> Event {
        let mut spent = self.turn.spent;
        spent.duration_ms = now_ms.saturating_sub(self.turn.started_ms);
        Event::TurnEnded { turn: self.turns, end: ending.end, detail: ending.detail.clone(), spent }
    }

    fn end_turn(&mut self, end: TurnEnd) -> Phase {
        let released = self.waiting.iter().any(|waiting| waiting.spoken == Spoken::WhileEnding);
        match end {
            _ if self.waiting.is_empty() => Phase::Idle,
            TurnEnd::Completed => Phase::Due,
            _ if released => Phase::Due,
            _ => Phase::Held,
        }
    }

    fn has_steering(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.delivery == Delivery::Steer)
    }

    fn push(&mut self, seq: Seq, message: Message) {
        self.transcript.push(Entry { seq, message: Arc::new(message) });
    }
}

impl TurnWork {
    fn new(model: String, policy: Arc<Policy>, compact_at_tokens: Option<u64>, started_ms: TimeMs) -> Self {
        Self {
            model,
            policy,
            compact_at_tokens,
            started_ms,
            steps: 0,
            kind: StepKind::Ordinary,
            spent: Spent::default(),
            failures: 0,
            compactions: 0,
            cut_replies: 0,
            denials_in_a_row: 0,
            unattended: Vec::new(),
            recent: Vec::new(),
        }
    }

    fn spend(&mut self, usage: &Usage, cost_micros: Option<u64>) {
        self.spent.usage.add(usage);
        if let Some(cost) = cost_micros {
            *self.spent.cost_micros.get_or_insert(0) += cost;
        }
    }

    fn budget_spent(&self) -> Option<String> {
        self.policy.budget.spent(self.spent.usage.total(), self.spent.cost_micros.unwrap_or(0))
    }

    fn out_of_steps(&self) -> Ending {
        Ending::new(TurnEnd::MaxSteps, format!("the limit of {} steps is reached", self.steps))
    }

    /// The end of a turn whose model has said its last word.
    fn answered(&self) -> Ending {
        if self.unattended.is_empty() {
            return Ending { end: TurnEnd::Completed, detail: None };
        }
        let tools = self.unattended.join(", ");
        Ending::new(
            TurnEnd::ToolDenied,
            format!("calls of {tools} were refused, since nobody was there to approve them"),
        )
    }
}

impl Ending {
    fn new(end: TurnEnd, detail: impl Into<String>) -> Self {
        Self { end, detail: Some(detail.into()) }
    }
}

fn canceled(by: &Canceller) -> Ending {
    match by {
        Canceller::User => Ending { end: TurnEnd::Canceled, detail: None },
        Canceller::Hook(reason) => Ending::new(TurnEnd::HookStopped, reason.clone()),
    }
}

fn filtered(reply: &Reply) -> Ending {
    let raw = reply.finish_raw.as_deref().unwrap_or("content_filter");
    Ending::new(TurnEnd::ContentFilter, format!("the provider stopped the reply ({raw})"))
}

fn provider_error(reply: &Reply) -> Ending {
    let raw = reply.finish_raw.as_deref().unwrap_or("error");
    Ending::new(TurnEnd::ApiError, format!("the provider ended the reply with an error ({raw})"))
}

/// Whether there is anything to act on or to show.
fn has_substance(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::Image { .. } | Part::ToolResult { .. } | Part::Note { .. } => true,
        Part::Reasoning { .. } => false,
    })
}

/// Whether a conversation is one that every provider accepts: each call answered exactly once, in order, right after
/// the message that made it. Names the first fault.
pub fn malformed<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Option<String> {
    let mut open: Vec<CallId> = Vec::new();
    let mut seen = HashSet::new();
    for message in messages {
        if message.role == Role::Tool {
            let answered: Vec<_> = message.parts.iter().filter_map(answered_call).cloned().collect();
            if answered != open {
                return Some(format!("calls {open:?} are answered by {answered:?}"));
            }
            open.clear();
            continue;
        }
        if !open.is_empty() {
            return Some(format!("calls {open:?} are not answered"));
        }
        open = message.calls().map(|call| call.id.clone()).collect();
        if let Some(twice) = open.iter().find(|id| !seen.insert((*id).clone())) {
            return Some(format!("call {twice} appears twice"));
        }
        if message.calls().any(|call| matches!(&call.input, CallInput::Json(value) if !value.is_object())) {
            return Some("a call's input is not an object".to_owned());
        }
    }
    (!open.is_empty()).then(|| format!("calls {open:?} are not answered"))
}

fn answered_call(part: &Part) -> Option<&CallId> {
    match part {
        Part::ToolResult { call, .. } => Some(call),
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } | Part::Image { .. } => None,
    }
}

#[cfg(test)]
mod tests;
