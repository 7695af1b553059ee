//! The loop, as a machine without IO: events in, wishes out.
//!
//! [`State::apply`] folds one event into the state. What should happen next is then *read off* the state:
//! [`State::due`] names an event that only needs writing down, [`State::wanted`] names the jobs that should be under
//! way. A driver starts what is wanted and missing, drops what is no longer wanted, and appends whatever happens. So
//! the loop needs no resume code: after a crash the same fold gives the same wishes.
//!
//! ```text
//!   Idle ──user spoke──► Due ──turn started──► NextStep ──step started──► CallingModel ◄─────────┐
//!    ▲                    ▲                     ▲   ▲  │                   │  │   │   └─failed─► BackingOff
//!    │                  (more                   │   │  └─context full┐     │  │   └─does not fit─► Compacting
//!    │                  waiting)                │   │                ▼     │  │
//!    │                    │                     │   └────────── Compacting  │  └─calls─► RunningTools
//!    │                    │                     │                          │                 │ all settled
//!    └──turn ended── Ending ◄──── over ──── StepOver ◄─────── no calls ────┴─────────────────┘
//!                      ▲                        │ the same call again and again
//!                      └── no ── AskingToGoOn ◄─┘
//! ```
//!
//! Where hooks may change what comes next ([`Gate`]), a phase of its own waits for them, if the turn's policy says that
//! there are such hooks: `Compacted` and `BeforeModel` stand before `CallingModel`, `BeforeCompaction` before `Compacting`,
//! and `Checking` before an `Ending` that completes the turn: from there hooks may lead back to `NextStep`. Calls have
//! their gates in `batch.rs`.
//! `AwaitingSubagents` stands before both where the turn's policy says so, as long as subagents in the background are at work:
//! their ends lead back to `NextStep`.
//! `Opening` stands before any phase of a turn, the first that a process starts or resumes: nothing of it moves before the
//! hooks at a session's start have run there.
//! `Sealing` stands before `Ending` where the workspace was put down in the turn and has to be once more.
//! `BeforeCompaction` and `Compacting` also follow `Idle` and `Held`, where a person wants the context compacted between turns;
//! what is said meanwhile is `Due` behind it.
//! `Held` is `Idle` with messages waiting: after a turn that did not complete, they wait for the user's next word.
//! `GivenUp` is where a failed call leads, and a conversation that compaction cannot make fit, when the turn has another
//! model to ask: that one is then called instead.
//! A cancel or a deadline leads to `Ending` from everywhere, through `RunningTools` where tools must first stop.
//!
//! This module must not know: tokio, files, the clock, the environment, any provider's wire format. Time comes in with
//! the records, dice and clock with the questions (`retry_at`).

mod batch;
mod clock;
mod compaction;
mod context;
mod gate;
mod job;
mod work;

pub use self::compaction::ContextUsage;
pub use self::context::TranscriptEntry;
pub use self::gate::Gate;
pub use self::job::Job;
pub use self::work::{Offered, Rewinding};

use self::batch::Batch;
use self::context::Context;
use self::gate::Askee;
use self::work::{After, AfterCompaction, Ending, SinceOpened, TurnWork, Work, canceled, has_substance};
use crate::branch::Path;
use crate::budget::{Bound, Used};
use crate::call::{Access, CallInput, Effects, Outcome, Planned, Status};
use crate::configure::Configure;
use crate::ending::Why;
use crate::event::{
    Concern, Delivery, Direction, Event, Moment, Origin, Record, Rewind, Spent, StepKind, Subject, Trigger, TurnEnd,
};
use crate::hook::{HookPoint, HookRun, HookVerdict};
use crate::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use crate::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use crate::model::{ModelError, ModelErrorKind, Reply};
use crate::permission::{Grant, Judgement, PermissionMode};
use crate::policy::{OnEmpty, Policy};
use crate::question::{Question, Target};
use crate::retry;
use crate::shell::{ShellCommands, ShellWish};
use crate::subtask::Subtask;
use crate::task::Tasks;
use crate::todo::TodoList;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// A conversation with its state: the fold of its events.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    phase: Phase,
    work: Work,
}

/// What the session waits for. What is valid in one phase only lives in that phase.
#[derive(Debug, Clone, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum Phase {
    /// Nobody wants anything.
    Idle,
    /// Messages wait, but the last turn did not complete: the user's next word releases them.
    Held,
    /// A message waits to be taken up.
    Due,
    /// The turn starts or goes on in this phase once the hooks at a session's start have run in this process.
    Opening(Box<Phase>),
    /// The next step may start.
    NextStep(StepKind),
    /// The model is about to be asked; hooks are told that the context was compacted.
    Compacted { attempt: u32 },
    /// The model is about to be asked; hooks may change what it reads.
    BeforeModel { attempt: u32 },
    /// The model is being asked.
    CallingModel { attempt: u32 },
    /// The provider is given time.
    BackingOff { attempt: u32, since_ms: TimeMs, until_ms: TimeMs },
    /// The model gave no reply, or reads too little, and another one is there to be asked.
    GivenUp { reason: String, then: AfterCompaction },
    /// Tool calls are open.
    RunningTools(Batch, After),
    /// The step's work is done.
    StepOver(After),
    /// The model repeats itself; the question whether it may go on is not yet asked.
    Stuck(CallId),
    /// A person is asked whether it may go on.
    AskingToGoOn(CallId, Askee),
    /// The context is too full; compaction is about to be recorded.
    CompactionNeeded(Trigger, AfterCompaction),
    /// The context is about to be compacted; hooks may refuse it.
    BeforeCompaction(Trigger, AfterCompaction),
    /// The context is being compacted.
    Compacting(Trigger, AfterCompaction),
    /// The model has said all it wanted; subagents in the background are still at work, and the turn waits for them.
    AwaitingSubagents,
    /// The model has said all it wanted, and hooks are asked whether the turn may end.
    Checking,
    /// The turn is over but for a last snapshot of the workspace.
    Sealing(Ending),
    /// The turn is over but for the record of it.
    Ending(Ending),
}

impl State {
    /// A session before its first event.
    pub fn new() -> Self {
        let turn = TurnWork::new("", &[], &Policy::piton(), None, 0);
        let work = Work {
            id: SessionId::from(""),
            workspace: String::new(),
            parent: None,
            called: BTreeSet::new(),
            title: None,
            is_new_here: true,
            transcript: Vec::new(),
            heard: HashMap::new(),
            waiting: VecDeque::new(),
            unqueued: HashSet::new(),
            notes: Vec::new(),
            grants: Vec::new(),
            since_opened: SinceOpened::Nothing,
            configured: Configure::default(),
            offered: Offered::default(),
            untold: None,
            epoch: 0,
            boot_epoch: 0,
            boot_id: None,
            turns: 0,
            steps: 0,
            bill: Bound::default(),
            undone: Vec::new(),
            rewinding: None,
            focus: None,
            tasks: Tasks::default(),
            shell: ShellCommands::default(),
            context: Context::default(),
            todo: TodoList::default(),
            turn,
        };
        Self { phase: Phase::Idle, work }
    }

    /// The fold of a journal, from its first event on: of those events that lead to its head.
    pub fn fold(records: &[Record]) -> Self {
        let path = Path::of(records);
        let mut session = Self::new();
        records.iter().for_each(|record| session.apply_along(&path, &mut record.clone()));
        session
    }

    /// Takes the next event of a journal with this path to its head.
    pub fn apply_along(&mut self, path: &Path, record: &mut Record) {
        match path.contains(record.seq) {
            true => self.take(record),
            false => self.pass_over(record),
        }
    }

    /// An event of another branch: numbers and ids that were given out stay given out, and what is said of the session
    /// as a whole holds on every branch.
    fn pass_over(&mut self, record: &Record) {
        self.work.remember(record);
        match &record.event {
            Event::TurnStarted { turn, .. } => self.work.turns = self.work.turns.max(*turn),
            Event::StepStarted { step, .. } => self.work.steps = self.work.steps.max(*step),
            _ => {}
        }
    }

    /// Takes one event in. Every event is accepted in every phase; one that comes too late changes nothing. After an
    /// event that moves the head ([`Event::RewindFinished`] with a `to`) the state is [`State::fold`] of the journal.
    pub fn apply(&mut self, record: &Record) {
        self.take(&mut record.clone());
    }

    /// The same with a record that nobody needs any more: what the session keeps of it is moved and not copied.
    pub fn take(&mut self, record: &mut Record) {
        let ran = match &record.event {
            Event::CallSettled { call, .. } => self.work.shell.find(call).cloned(),
            _ => None,
        };
        self.work.remember(record);
        if let (Some(command), Event::CallSettled { outcome, .. }) = (ran, &record.event) {
            self.work.ran(&command, outcome);
        }
        self.work.turn.clock.hear(record.at_ms);
        self.work.note_todos(&record.event);
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        self.phase = phase.apply(&mut self.work, record);
    }

    /// The event that should be written down next, where nothing from outside is needed for it.
    pub fn due(&self, now_ms: TimeMs) -> Option<Event> {
        let work = &self.work;
        let of_user = work.shell.due(self.may_start_shell(), self.covers_shell());
        if of_user.is_some() {
            return of_user;
        }
        match &self.phase {
            Phase::NextStep(kind) => Some(work.step_started(*kind)),
            Phase::RunningTools(batch, _) => batch.due(),
            Phase::StepOver(_) => Some(Event::StepFinished { step: work.steps }),
            Phase::Stuck(call) => Some(Event::ApprovalAsked {
                subject: Subject::GoOn(call.clone()),
                question: Some(Box::new(work.turn.may_go_on())),
            }),
            Phase::CompactionNeeded(trigger, _) => {
                Some(Event::CompactionStarted { trigger: *trigger, focus: None, lost: None })
            }
            Phase::Ending(ending) => Some(work.turn_ended(ending, now_ms)),
            Phase::Idle
            | Phase::Held
            | Phase::Due
            | Phase::Opening(_)
            | Phase::Compacted { .. }
            | Phase::BeforeModel { .. }
            | Phase::CallingModel { .. }
            | Phase::BackingOff { .. }
            | Phase::GivenUp { .. }
            | Phase::AskingToGoOn(..)
            | Phase::BeforeCompaction(..)
            | Phase::Compacting(..)
            | Phase::AwaitingSubagents
            | Phase::Checking
            | Phase::Sealing(_) => None,
        }
    }

    /// The jobs that should be under way.
    pub fn wanted(&self) -> Vec<Job> {
        let step = self.work.steps;
        let mut jobs = match &self.phase {
            Phase::Due => vec![Job::StartTurn],
            Phase::Opening(_) => vec![Job::Pass(Gate::Opened)],
            Phase::Compacted { .. } => vec![Job::Pass(Gate::Compacted { step })],
            Phase::BeforeModel { attempt } => vec![Job::Pass(Gate::BeforeModel { step, attempt: *attempt })],
            Phase::CallingModel { attempt } => vec![Job::CallModel { step, attempt: *attempt }],
            Phase::BackingOff { until_ms, .. } => vec![Job::Wait { step, until_ms: *until_ms }],
            Phase::GivenUp { reason, .. } => vec![Job::SwitchModel { reason: reason.clone() }],
            Phase::RunningTools(batch, _) => batch.wanted(),
            Phase::AskingToGoOn(call, Askee::Hooks) => vec![Job::Pass(Gate::Question(Subject::GoOn(call.clone())))],
            Phase::AskingToGoOn(call, Askee::Person) => vec![Job::AskApproval(Subject::GoOn(call.clone()))],
            Phase::BeforeCompaction(trigger, _) => vec![Job::Pass(Gate::BeforeCompaction(*trigger))],
            Phase::Compacting(trigger, _) => vec![Job::Compact(*trigger)],
            Phase::Checking => vec![Job::Pass(Gate::End { step })],
            Phase::Sealing(_) => vec![Job::Snapshot(Moment::After)],
            Phase::Idle
            | Phase::Held
            | Phase::NextStep(_)
            | Phase::StepOver(_)
            | Phase::Stuck(_)
            | Phase::CompactionNeeded(..)
            // Each is watched below.
            | Phase::AwaitingSubagents
            | Phase::Ending(_) => vec![],
        };
        jobs.extend(self.shell_job());
        jobs.extend(self.work.tasks.running().map(|task| Job::WatchTask(task.id.clone())));
        if let Some(at_ms) = self.deadline_ms().filter(|_| self.is_in_turn()) {
            jobs.push(Job::WatchDeadline { at_ms });
        }
        jobs
    }

    /// What the user's own commands want to be under way.
    fn shell_job(&self) -> Option<Job> {
        let shell = &self.work.shell;
        match shell.wanted(self.may_start_shell(), self.covers_shell()) {
            Some(ShellWish::Snapshot) => Some(Job::Snapshot(Moment::Before)),
            Some(ShellWish::Run(call)) => Some(Job::RunTool(call)),
            Some(ShellWish::Stop(call)) => Some(Job::StopTool(call)),
            None => {
                let is_over = !shell.is_open() && shell.is_unsealed();
                let is_between = !self.is_in_turn() && self.phase != Phase::Due;
                (is_over && is_between).then_some(Job::Snapshot(Moment::After))
            }
        }
    }

    /// Whether a command of the user's may begin: not while a turn's last snapshot is taken, of which it would be half.
    fn may_start_shell(&self) -> bool {
        !matches!(self.phase.opened(), Phase::Sealing(_) | Phase::Ending(_))
    }

    /// Whether the workspace before such a command is known by the turn under way.
    fn covers_shell(&self) -> bool {
        self.is_in_turn() && self.work.turn.first_snapshot.is_some()
    }

    /// Whether a turn is under way.
    pub fn is_in_turn(&self) -> bool {
        !self.phase.is_between_turns()
    }

    /// Whether anything was said, or a turn gone on with, since the process that has the session opened it.
    pub fn is_used_here(&self) -> bool {
        self.work.since_opened > SinceOpened::Nothing
    }

    /// Whether the hooks of that process have run that run at a session's start.
    pub fn is_begun_here(&self) -> bool {
        self.work.since_opened == SinceOpened::Begun
    }

    /// Whether the context is compacted between turns, because a person wants it.
    pub fn is_compacting_at_rest(&self) -> bool {
        self.phase.is_compaction_at_rest()
    }

    /// What the summary shall dwell on that is made between turns.
    pub fn focus(&self) -> Option<&str> {
        self.work.focus.as_deref()
    }

    /// Whether nothing is under way and nothing is about to be.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Held)
    }

    /// The word for the phase, as clients and traces show it.
    pub fn phase_name(&self) -> &'static str {
        (&self.phase).into()
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

    /// The title it was given, by a person or a model.
    pub fn title(&self) -> Option<&str> {
        self.work.title.as_deref()
    }

    /// Whether nothing was said yet since it works in this folder: the model knows nothing of the place.
    pub fn is_new_here(&self) -> bool {
        self.work.is_new_here
    }

    /// What the model sees of the conversation, in order.
    pub fn transcript(&self) -> impl ExactSizeIterator<Item = &Arc<Message>> {
        self.work.transcript.iter().map(|entry| &entry.message)
    }

    /// The same with the place of each message in the journal.
    pub fn entries(&self) -> &[TranscriptEntry] {
        &self.work.transcript
    }

    /// How full the context is, and what a summary would have to say.
    pub fn context(&self) -> ContextUsage<'_> {
        ContextUsage::of(&self.work)
    }

    /// Messages that wait to be taken up.
    pub fn waiting(&self) -> impl Iterator<Item = (&Message, Delivery)> {
        self.work.waiting.iter().map(|waiting| (&waiting.message, waiting.delivery))
    }

    /// What was typed for a message that waits, where a command made its words.
    pub fn typed(&self, message: &MessageId) -> Option<&str> {
        let mut waiting = self.work.waiting.iter();
        waiting.find(|waiting| waiting.message.id.as_ref() == Some(message))?.typed.as_deref()
    }

    /// The message that the turn about to start begins with, and what its command asks of that turn alone.
    pub fn asked_of_next_turn(&self) -> Option<(&MessageId, &Configure)> {
        let first = self.work.waiting.front().filter(|_| self.phase == Phase::Due)?;
        Some((first.message.id.as_ref()?, first.for_turn.as_deref()?))
    }

    /// What a command asks of the turn under way alone.
    pub fn asked_of_turn(&self) -> Option<&Configure> {
        self.work.turn.for_turn.as_deref().filter(|_| self.is_in_turn())
    }

    /// What commands have subagents do in the step under way, for which no model is asked.
    pub fn subtasks(&self) -> &[Subtask] {
        &self.work.turn.subtasks
    }

    /// Whether a person asks an agent by its name with this call: no rule for the tool counts then.
    pub fn is_asked_by_name(&self, call: &CallId) -> bool {
        self.work.turn.asked_by_name.contains(call)
    }

    /// Whether this message can be taken out of the queue: it waits, and the step that is about to start is not there for
    /// it alone.
    pub fn may_unqueue(&self, message: &MessageId) -> bool {
        self.work.may_unqueue(&self.phase, message)
    }

    /// Whether this message was taken out of the queue.
    pub fn was_unqueued(&self, message: &MessageId) -> bool {
        self.work.unqueued.contains(message)
    }

    /// Whether nobody has said anything yet.
    pub fn has_heard_nothing(&self) -> bool {
        self.work.heard.is_empty()
    }

    /// Whether a message with this id was heard before, taken up or not.
    pub fn has_heard(&self, message: &MessageId) -> bool {
        self.heard_at(message).is_some()
    }

    /// Where a message with this id is on record, if it was heard before.
    pub fn heard_at(&self, message: &MessageId) -> Option<Seq> {
        self.work.heard.get(message).copied()
    }

    /// Whether whoever said this has the answer that there will be: its turn is over, or none will take it up. Asked at
    /// a turn's end.
    pub fn has_answered(&self, message: &MessageId) -> bool {
        let is_waiting = self.waiting().any(|(waiting, _)| waiting.id.as_ref() == Some(message));
        self.has_heard(message) && (self.is_at_rest() || !is_waiting)
    }

    /// The model of the turn under way, or of the last one: `provider/model`. Empty before the first turn.
    pub fn model(&self) -> &str {
        &self.work.turn.model
    }

    /// Who is asked, in order, when that model gives no reply.
    pub fn fallbacks(&self) -> impl Iterator<Item = &str> {
        self.work.turn.fallbacks.iter().map(String::as_str)
    }

    /// The turn under way, or the last one; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.work.turns
    }

    /// The step under way, or the last one; counts over the whole session.
    pub fn step(&self) -> u32 {
        self.work.steps
    }

    /// How many steps the limit on them leaves the turn under way; `None`: there is none.
    pub fn steps_left(&self) -> Option<u32> {
        self.work.turn.steps_left()
    }

    /// What kind of step is under way.
    pub fn step_kind(&self) -> StepKind {
        self.work.turn.kind
    }

    /// What the turn under way, or the last one, has used. Its duration is filled in at its end.
    pub fn spent(&self) -> &Spent {
        &self.work.turn.spent
    }

    /// What the hooks found that were asked last, in the turn under way or the last one, whether it may end.
    pub fn evidence(&self) -> &[HookRun] {
        &self.work.turn.evidence
    }

    /// How often this hook has sent the model back to work in the turn under way, or the last one.
    pub fn times_sent_back(&self, hook: &str) -> usize {
        self.work.turn.sent_back.iter().filter(|by| *by == hook).count()
    }

    /// A rewind that was begun and has no end on record: it has to be done again before anything else.
    pub fn rewinding(&self) -> Option<&Rewinding> {
        self.work.rewinding.as_ref()
    }

    /// The commands in the background, those that are over included.
    pub fn tasks(&self) -> &Tasks {
        &self.work.tasks
    }

    /// The commands that the user runs themselves and that have no result yet.
    pub fn shell(&self) -> &ShellCommands {
        &self.work.shell
    }

    /// The event that begins a command of the user's.
    pub fn user_ran(
        &self,
        command: String,
        keep_from_model: bool,
        snapshot: bool,
        message: Option<MessageId>,
        terminal: bool,
    ) -> Event {
        let shell = &self.work.shell;
        // One that runs while another does belongs to that one.
        let is_first = !self.is_in_turn() && !shell.is_open() && !shell.is_unsealed();
        let turn = is_first.then_some(self.work.turns + 1);
        Event::UserRan { call: shell.next_id(), command, keep_from_model, turn, snapshot, message, terminal }
    }

    /// What would bring back what was taken back last, if nothing was said since.
    pub fn redo(&self) -> Option<Rewind> {
        let undone = self.work.undone.last()?;
        Some(Rewind {
            direction: Direction::Redo,
            turns: undone.rewind.turns,
            to: undone.rewind.to.map(|_| undone.from),
            files: undone.back.iter().cloned().collect(),
            overwrite: false,
        })
    }

    /// The workspace before the newest step that may have changed it, in the turn under way or the last one.
    pub fn snapshot(&self) -> Option<&str> {
        self.work.turn.snapshot.as_deref()
    }

    /// Whether the last turn left the workspace other than it found it, as far as snapshots cover it.
    pub fn changed_files(&self) -> bool {
        self.work.turn.changed_files
    }

    /// What the turn under way, or the last one, has used at most, and what all of the session has: what is known, and the
    /// worst of what is not.
    pub fn used(&self) -> Used {
        self.work.used()
    }

    /// How long the turn under way, or the last one, was worked on, by all processes that had it.
    pub fn time_used_ms(&self, now_ms: TimeMs) -> u64 {
        self.work.turn.clock.used_ms(now_ms)
    }

    /// The rules of the turn under way, or of the last one.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.work.turn.policy
    }

    /// What the rules of the turn, what the user has granted and what skills of this turn allow say of a call.
    pub fn judge(&self, tool: &str, accesses: &[Access]) -> Judgement {
        self.judge_with(tool, accesses, &[])
    }

    /// The same, where more is granted: to sessions that work together with this one.
    pub fn judge_with(&self, tool: &str, accesses: &[Access], more: &[Grant]) -> Judgement {
        let policy = &self.work.turn.policy;
        let ask = self.work.ask(tool, accesses);
        let grants = match (self.work.turn.grants.as_slice(), more) {
            ([], []) => Cow::Borrowed(&self.work.grants),
            (of_turn, more) => Cow::Owned([&self.work.grants, of_turn, more].concat()),
        };
        policy.permission.judge_in(policy.mode, &grants, &ask)
    }

    /// What a person has allowed for the rest of the session.
    pub fn grants(&self) -> &[Grant] {
        &self.work.grants
    }

    /// What clients have changed of how the session is run, all in all.
    pub fn configured(&self) -> &Configure {
        &self.work.configured
    }

    /// The model's list of todos.
    pub fn todo(&self) -> &TodoList {
        &self.work.todo
    }

    /// An open call by its id.
    pub fn open_call(&self, id: &CallId) -> Option<&Arc<ToolCall>> {
        let of_user = self.work.shell.find(id).map(|command| &command.call);
        of_user.or_else(|| self.batch()?.call(id))
    }

    /// What this open call may do, once it was judged.
    pub fn effects(&self, id: &CallId) -> Option<Effects> {
        match self.work.shell.find(id) {
            Some(_) => Some(Effects::OPAQUE),
            None => self.batch()?.effects(id),
        }
    }

    /// What its tool says of this open call, once it was judged.
    pub fn plan(&self, id: &CallId) -> Option<&Planned> {
        self.batch()?.plan(id)
    }

    /// The subagent's session that answers this open call, once that is on record, or that this call has left at work.
    pub fn child(&self, id: &CallId) -> Option<&SessionId> {
        let left = || {
            let task = self.work.tasks.find(id).filter(|task| task.is_running())?;
            task.subagent.as_ref().map(|subagent| &subagent.session)
        };
        self.batch().and_then(|batch| batch.child(id)).or_else(left)
    }

    /// The subagents' sessions that are at work: for open calls, and in the background.
    pub fn children(&self) -> impl Iterator<Item = &SessionId> {
        let left = self.work.tasks.subagents_at_work().map(|(_, subagent)| &subagent.session);
        self.batch().into_iter().flat_map(Batch::children).chain(left)
    }

    /// How many subagents the turn waits for that have been left at work.
    pub fn awaited_subagents(&self) -> usize {
        match self.phase.opened() {
            Phase::AwaitingSubagents => self.work.tasks.subagents_at_work().count(),
            _ => 0,
        }
    }

    /// Whether a call of this session was ever answered by this subagent's session, or is to be.
    pub fn has_called(&self, child: &SessionId) -> bool {
        self.work.called.contains(child)
    }

    /// Calls of the turn under way, or of the last one, that subagents have answered or are answering.
    pub fn delegated_in_turn(&self) -> u32 {
        self.work.turn.delegated
    }

    /// What the yes of a person to this call is bound to: what it would access, and the files as they were.
    pub fn bound(&self, id: &CallId) -> Option<(&Planned, &[Target])> {
        self.batch()?.bound(id)
    }

    /// Whether a person was asked about this open call.
    pub fn was_asked(&self, id: &CallId) -> bool {
        self.batch().is_some_and(|batch| batch.was_asked(id))
    }

    /// Whether a hook wants a person to be asked about this open call, whatever the rules say.
    pub fn is_asked_by_hook(&self, id: &CallId) -> bool {
        self.batch().is_some_and(|batch| batch.is_asked_by_hook(id))
    }

    /// What hooks say of this open call, which the rules have yet to judge.
    pub fn hook_verdict(&self, id: &CallId) -> Option<&HookVerdict> {
        self.batch()?.hook_verdict(id)
    }

    /// The input of this open call as hooks changed it.
    pub fn changed_input(&self, id: &CallId) -> Option<&Value> {
        self.batch()?.changed_input(id)
    }

    /// The answer of this open call, which hooks have yet to see and no tool was run for.
    pub fn unrun(&self, id: &CallId) -> Option<&Outcome> {
        self.batch()?.unrun(id)
    }

    /// Whether the writer who has the session now has started this call, and no other before.
    pub fn is_started_here(&self, id: &CallId) -> bool {
        self.started_in(id) == Some(self.work.epoch)
    }

    fn started_in(&self, id: &CallId) -> Option<u64> {
        self.work.shell.started_in(id).or_else(|| self.batch()?.started_in(id))
    }

    /// Whether the machine has been up ever since this call was started: then whatever was written for it is still there.
    pub fn is_started_in_this_boot(&self, id: &CallId) -> bool {
        self.started_in(id).is_some_and(|epoch| epoch >= self.work.boot_epoch)
    }

    /// The question that waits for its answer under this name, as people see it.
    pub fn question(&self, subject: &Subject) -> Option<Question> {
        match (&self.phase, subject) {
            (Phase::RunningTools(batch, _), Subject::Call(call)) => batch.question(call),
            (Phase::RunningTools(batch, _), Subject::Host { call, host }) => {
                batch.question_of_host(call, host).cloned()
            }
            (Phase::AskingToGoOn(open, _), Subject::GoOn(call)) if open == call => Some(self.work.turn.may_go_on()),
            _ => None,
        }
    }

    /// What hooks have left of the system prompt and the tools that the model was last asked with.
    pub fn offered(&self) -> &Offered {
        &self.work.offered
    }

    fn batch(&self) -> Option<&Batch> {
        match self.phase.opened() {
            Phase::RunningTools(batch, _) => Some(batch),
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
        let may_be_empty = self.work.turn.policy.replies.on_empty == OnEmpty::Accept;
        if ends_well && !may_be_empty && !has_substance(&reply.parts) {
            let error = ModelError::new(ModelErrorKind::EmptyReply, "the model sent an empty answer");
            let mut event = self.failed(attempt, error, reply.usage, Vec::new(), now_ms, dice);
            if let Event::ModelFailed { cost_micros: cost, .. } = &mut event {
                *cost = cost_micros;
            }
            return event;
        }
        let mut position = 0;
        for part in &mut reply.parts {
            if let Part::ToolCall(call) = part {
                call.id = CallId(format!("c{step}_{position}"));
                position += 1;
            }
        }
        Event::MessageFinished { step, attempt, reply, cost_micros, at_most: None, prompt: None, first_ms: None }
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
        let failures = turn.with_failure(attempt, error.kind);
        let wait_ms = retry::wait_ms(turn.policy.retry.of_model(&turn.model), &error, failures, dice);
        let retry_at_ms = wait_ms.map(|wait| now_ms.saturating_add(wait));
        Event::ModelFailed {
            step: self.work.steps,
            attempt,
            error,
            usage,
            cost_micros: None,
            at_most: None,
            prompt: None,
            abandoned,
            retry_at_ms,
        }
    }

    fn deadline_ms(&self) -> Option<TimeMs> {
        let turn = &self.work.turn;
        let most = turn.policy.budget.wall_clock_ms?;
        let under_way = match self.phase.opened() {
            Phase::RunningTools(_, After::End(_))
            | Phase::StepOver(After::End(_))
            | Phase::Sealing(_)
            | Phase::Ending(_) => false,
            _ => self.is_in_turn(),
        };
        turn.clock.deadline_ms(most).filter(|_| under_way)
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl Phase {
    /// The phase that the turn is in, whether or not hooks have seen that it starts or goes on.
    fn opened(&self) -> &Self {
        if let Self::Opening(phase) = self { phase } else { self }
    }

    /// The kind of the step that is about to start.
    fn next_step(&self) -> Option<StepKind> {
        match self.opened() {
            Self::NextStep(kind)
            | Self::GivenUp { then: AfterCompaction::StartStep(kind), .. }
            | Self::CompactionNeeded(_, AfterCompaction::StartStep(kind))
            | Self::BeforeCompaction(_, AfterCompaction::StartStep(kind))
            | Self::Compacting(_, AfterCompaction::StartStep(kind)) => Some(*kind),
            _ => None,
        }
    }

    fn is_compaction_at_rest(&self) -> bool {
        matches!(self, Self::BeforeCompaction(_, AfterCompaction::Rest) | Self::Compacting(_, AfterCompaction::Rest))
    }

    fn is_between_turns(&self) -> bool {
        matches!(self, Self::Idle | Self::Held | Self::Due) || self.is_compaction_at_rest()
    }

    /// Takes an event. Where the turn waits for the hooks at a session's start, the phase that it is in takes it all the same:
    /// in journals from before this gate it moved without them.
    fn apply(self, work: &mut Work, record: &mut Record) -> Self {
        let Self::Opening(phase) = self else { return self.step(work, record) };
        let is_passed = ends_opening(&record.event);
        let phase = phase.apply(work, record);
        if is_passed || phase.is_between_turns() { phase } else { Self::Opening(Box::new(phase)) }
    }

    /// The one transition function.
    fn step(self, work: &mut Work, record: &mut Record) -> Self {
        use Phase::{
            AskingToGoOn, BackingOff, CallingModel, Compacting, CompactionNeeded, Due, Ending, GivenUp, NextStep,
            RunningTools, Sealing, StepOver, Stuck,
        };
        match (self, &mut record.event) {
            (phase, event) if event.concerns() == Concern::Session => phase,
            (phase, event @ Event::TaskEnded { .. }) => work.task_ended(phase, event),
            (phase, Event::WindowLearned { compact_at_tokens }) => work.learn(phase, *compact_at_tokens),
            (phase, Event::EventLost {}) => phase.break_off(work, record.seq),
            (Phase::Idle | Phase::Held | Due, Event::RewindFinished { rewind, .. }) => work.rewound(rewind, record.seq),
            (phase @ (Phase::Idle | Phase::Held | Due), Event::RewindAbandoned { rewind, error, .. }) => {
                work.not_rewound(phase, rewind, error, record.seq)
            }
            (phase, said @ Event::UserSpoke { .. }) => work.hear(phase, said, (record.seq, record.at_ms)),
            (phase, Event::SettingsChanged { changed, at_once, .. }) => match changed.mode.filter(|_| *at_once) {
                Some(mode) => phase.in_mode(work, mode),
                None => phase,
            },
            (phase, Event::MessageUnqueued { message }) => work.unqueue(phase, message),
            (phase, Event::MessageMoved { message, before }) => work.move_waiting(phase, message, before.as_ref()),
            (phase, Event::CancelRequested { by }) => phase.stop(work, &canceled(by), record.seq),
            (phase, Event::DeadlinePassed {} | Event::TurnResumed { .. }) if phase.is_between_turns() => phase,
            (phase, Event::DeadlinePassed {}) => phase.stop(work, &Self::out_of_time(work), record.seq),
            (phase, Event::TurnResumed { model, fallbacks, policy, .. }) => {
                work.turn.resume(model, fallbacks, policy, record.at_ms);
                phase.gone_on_with(work, record.at_ms)
            }

            (Due, Event::TurnStarted { turn: number, model, fallbacks, policy, compact_at_tokens, .. }) => {
                let turn = TurnWork::new(model, fallbacks, policy, *compact_at_tokens, record.at_ms);
                work.start_turn(*number, turn, record.seq)
            }
            (NextStep(_), Event::StepStarted { step, kind, note }) => {
                work.start_step(*step, *kind, note.as_deref(), record.seq)
            }
            (CallingModel { attempt }, event @ (Event::MessageFinished { .. } | Event::ModelFailed { .. })) => {
                work.turn.pay(event);
                work.answered(attempt, event, record.seq, record.at_ms)
            }
            (CallingModel { .. }, Event::BudgetShort { why, detail, .. }) => work.not_asked(*why, detail),
            (BackingOff { attempt, .. }, Event::BackoffPassed { .. }) => work.ask_again(attempt),
            (GivenUp { then, .. }, Event::ModelSwitched { model, compact_at_tokens, .. }) => {
                work.switched(model, *compact_at_tokens, then)
            }
            (RunningTools(batch, after), event) if event.concerns() == Concern::Calls => {
                work.remember_grant(&batch, event, record.at_ms);
                work.note_call(event, &batch, record.seq, record.at_ms);
                work.turn.note_of_calls(event);
                work.settle(batch.apply(event, work.epoch, record.at_ms), after, record.seq)
            }
            (phase, event @ Event::SnapshotTaken { .. }) if !matches!(phase, Sealing(_)) => work.put_down(phase, event),
            (phase, event @ Event::HooksRan { .. }) => phase.hooked(work, event, record.seq, record.at_ms),
            (StepOver(after), Event::StepFinished { .. }) => work.after_step(after),
            (Stuck(call), Event::ApprovalAsked { subject: Subject::GoOn(_), .. }) => {
                AskingToGoOn(call, Askee::first(&work.turn.policy.hooks.gates))
            }
            (AskingToGoOn(..), Event::ApprovalGiven { subject: Subject::GoOn(_), decision, .. }) => {
                work.go_on(decision)
            }
            (CompactionNeeded(trigger, then), Event::CompactionStarted { .. }) => work.start_compaction(trigger, then),
            (phase, event) if phase.is_compaction_at_rest() => phase.step_at_rest(work, event),
            (Compacting(trigger, then), event) if event.is_about_compaction() => {
                work.take_compaction(trigger, then, event)
            }
            (phase @ (Phase::Idle | Phase::Held | Due), event @ Event::CompactionFinished { .. }) => {
                work.sum_up(phase, event)
            }
            (phase @ (Sealing(_) | Ending(_)), event @ (Event::MessageCut { .. } | Event::CompactionFailed { .. })) => {
                work.turn.pay(event);
                work.keep_cut(event, record.seq);
                phase
            }
            (Sealing(ending), Event::SnapshotTaken { tree, .. }) => work.sealed(ending, tree.as_ref()),
            (Ending(ending), Event::TurnEnded { .. }) => work.end_turn(ending.end),

            (phase, event) => phase.step_at_rest(work, event),
        }
    }

    /// The same where a person wants the context compacted between turns, or another process goes on with the calls.
    fn step_at_rest(self, work: &mut Work, event: &Event) -> Self {
        match (self, event) {
            (Self::Idle | Self::Held, Event::CompactionStarted { trigger: trigger @ Trigger::Asked, focus, .. }) => {
                work.start_compaction_at_rest(*trigger, focus.as_ref())
            }
            (Self::RunningTools(batch, after), Event::WriterOpened { .. }) => {
                Self::RunningTools(batch.without_hosts(), after)
            }
            // Nobody waits for it any more who had asked for it there.
            (phase, Event::WriterOpened { .. }) if phase.is_compaction_at_rest() => work.rest(),
            (phase, event) if phase.is_compaction_at_rest() => work.take_compaction_at_rest(phase, event),
            // Late, or for another phase.
            (phase, _) => phase,
        }
    }

    /// Hooks have run: what they tell the model joins the transcript where nothing stands open in it, they may end the
    /// turn, and where it waited for them, it goes on.
    fn hooked(self, work: &mut Work, event: &mut Event, seq: Seq, at_ms: TimeMs) -> Self {
        let Event::HooksRan { point, runs, notes, system, tools, sent_back, stopped, .. } = event else { return self };
        work.notes.append(notes);
        if let Self::Compacted { .. } | Self::BeforeModel { .. } | Self::CallingModel { .. } = self {
            work.push_notes(seq);
        }
        match point {
            HookPoint::Stop => work.turn.evidence = std::mem::take(runs),
            HookPoint::BeforeModel => work.offered.change(system.take(), tools.take()),
            _ => {}
        }
        if let Some(reason) = stopped {
            return self.stop(work, &self::Ending::new(TurnEnd::HookStopped, std::mem::take(reason)), seq);
        }
        match (self, point) {
            (Self::Compacted { attempt }, HookPoint::SessionStart) => work.pass_before_model(attempt),
            (Self::BeforeModel { attempt }, HookPoint::BeforeModel) => Self::CallingModel { attempt },
            (Self::BeforeCompaction(trigger, then), HookPoint::BeforeCompaction) => Self::Compacting(trigger, then),
            (Self::AskingToGoOn(call, Askee::Hooks), HookPoint::Approval) => Self::AskingToGoOn(call, Askee::Person),
            (Self::Checking, HookPoint::Stop) => work.checked(sent_back.take()),
            (Self::RunningTools(batch, after), _) => Self::RunningTools(batch.apply(event, work.epoch, at_ms), after),
            (phase, _) => phase,
        }
    }

    /// The turn goes on in another permission mode: what the rules allowed in the one before, and has not begun, is judged
    /// again. A question that is open stays open.
    fn in_mode(self, work: &mut Work, mode: PermissionMode) -> Self {
        if self.is_between_turns() || work.turn.policy.mode == mode {
            return self;
        }
        Arc::make_mut(&mut work.turn.policy).mode = mode;
        match self {
            Self::RunningTools(batch, after) => Self::RunningTools(batch.judge_allowed_again(), after),
            phase => phase,
        }
    }

    /// Where another process finds it, with rules and models of its own: what the old ones led to is decided anew.
    fn gone_on_with(self, work: &mut Work, now_ms: TimeMs) -> Self {
        let phase = match self {
            Self::GivenUp { then, .. } => work.resume_after_compaction(then),
            Self::RunningTools(batch, after) => {
                Self::RunningTools(batch.judge_again(&work.turn.policy.hooks.gates), after)
            }
            Self::AskingToGoOn(call, _) => Self::Stuck(call),
            // Its hooks hear that the session is opened again.
            Self::Compacted { attempt } => work.pass_before_model(attempt),
            Self::AwaitingSubagents => work.await_subagents(),
            // The clock was set back: the wait is as long as it was meant to be, whatever the hour.
            Self::BackingOff { attempt, since_ms, until_ms } if now_ms < since_ms => {
                let until_ms = now_ms.saturating_add(until_ms.saturating_sub(since_ms));
                Self::BackingOff { attempt, since_ms: now_ms, until_ms }
            }
            phase => phase,
        };
        work.open(phase)
    }

    /// Leads to the turn's end from wherever it is.
    fn stop(self, work: &mut Work, ending: &self::Ending, seq: Seq) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Held | Self::Due => Self::Held,
            phase if phase.is_compaction_at_rest() => work.rest(),
            Self::Opening(phase) => phase.stop(work, ending, seq),
            Self::NextStep(_)
            | Self::Compacted { .. }
            | Self::BeforeModel { .. }
            | Self::CallingModel { .. }
            | Self::BackingOff { .. }
            | Self::GivenUp { .. }
            | Self::Stuck(_)
            | Self::AskingToGoOn(..)
            | Self::CompactionNeeded(..)
            | Self::BeforeCompaction(..)
            | Self::Compacting(..)
            | Self::AwaitingSubagents
            | Self::Checking => work.end(ending.clone()),
            Self::StepOver(After::End(ending)) => Self::StepOver(After::End(ending)),
            Self::StepOver(_) => Self::StepOver(After::End(ending.clone())),
            Self::RunningTools(batch, after) => {
                let unrun = Outcome::new(Status::Cancelled, "The call was not run: the turn was stopped first.");
                let after = match after {
                    After::End(first) => After::End(first),
                    After::GoOn | After::Continue | After::Resume | After::Answered | After::Compact => {
                        After::End(ending.clone())
                    }
                };
                work.settle(batch.stop(&unrun), after, seq)
            }
            over @ (Self::Sealing(_) | Self::Ending(_)) => over,
        }
    }

    /// What is under way cannot be known to its end: its calls are answered so, and nothing of it goes on.
    fn break_off(self, work: &mut Work, seq: Seq) -> Self {
        if let Self::RunningTools(batch, _) = self {
            let text = "[interrupted] What came of this call was lost when the session's journal was damaged.";
            work.settle(batch.give_up(&Outcome::new(Status::Interrupted, text)), After::Answered, seq);
        } else if matches!(self, Self::Due | Self::Held) {
            return self;
        }
        if work.waiting.is_empty() { Self::Idle } else { Self::Held }
    }

    fn out_of_time(work: &Work) -> self::Ending {
        let most_ms = work.turn.policy.budget.wall_clock_ms.unwrap_or_default();
        self::Ending::reached(Why::Time, format!("the time budget of {} s is used up", most_ms / 1000))
    }
}

/// Whether a turn waits no longer for the hooks at a session's start: they have run, it is stopped, or another process has it.
fn ends_opening(event: &Event) -> bool {
    matches!(
        event,
        Event::HooksRan { point: HookPoint::SessionStart, .. }
            | Event::HooksRan { stopped: Some(_), .. }
            | Event::CancelRequested { .. }
            | Event::DeadlinePassed {}
            | Event::TurnResumed { .. }
    )
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
