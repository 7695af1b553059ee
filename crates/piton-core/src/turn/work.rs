//! What the turn machine keeps between phases, and what each transition does to it. The transitions themselves, and the
//! picture of them, are in [`crate::turn`]: each arm there names a method here.

use super::Phase;
use super::batch::Batch;
use super::clock::Clock;
use super::context::{Context, TranscriptEntry};
use crate::budget::{Bound, Short, Used};
use crate::call::{Access, Outcome, REFUSED, Status};
use crate::compact::Family;
use crate::configure::Configure;
use crate::ending::Why;
use crate::event::{
    Canceller, Delivery, Direction, Event, GivenKind, Moment, Origin, Record, Restore, Rewind, Spent, StepKind,
    Subject, Touched, Trigger, TurnEnd,
};
use crate::hook::{HookPoint, HookRun};
use crate::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use crate::limits::{MAX_CUT_REPLIES, MAX_PAUSED_REPLIES, MAX_UNKNOWN_REPLIES};
use crate::message::{FinishReason, Message, NoteKind, Part, Role, Usage};
use crate::model::{ModelError, ModelErrorKind, Reply};
use crate::permission::{Action, Ask, Grant, NET, Rule, Rules};
use crate::policy::{CallsTaken, DenialsCounted, LastStep, OnLength, OnUnknown, Policy, StepsCounted};
use crate::progress::{self, Circle, Compare, NoProgress, Seen, Stuck};
use crate::question::Decision;
use crate::question::{Choice, Question, QuestionBlock};
use crate::retry::{self, Failures};
use crate::shell::{self, ShellCommand, ShellCommands};
use crate::skill;
use crate::subtask::{GO_ON, Subtask};
use crate::task::Tasks;
use crate::todo::TodoList;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// What the model is told when its reply ended for a reason that nobody knows.
const UNKNOWN_NOTE: &str =
    "Your last reply ended for no reason that could be understood. Go on if anything is left to do; if not, say so.";

/// What the model is told when its reply was cut at the output limit.
const CONTINUE_NOTE: &str =
    "Your last reply was cut at the output limit. Go on exactly where it stopped; do not repeat it.";

/// What a process has done with a session since it opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SinceOpened {
    Nothing,
    /// Something was said, or a turn gone on with.
    Used,
    /// The same, and the hooks at a session's start have run.
    Begun,
}

/// What follows a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum After {
    /// The model must see the results.
    GoOn,
    /// The reply was cut at the output limit: let it go on.
    Continue,
    /// The provider paused the reply: let it go on.
    Resume,
    /// The model has said all it wanted; only a waiting message keeps the turn alive.
    Answered,
    /// The context must be compacted before anything else.
    Compact,
    /// The turn ends.
    End(Ending),
}

/// What follows once the context fits, after a compaction or with another model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AfterCompaction {
    AskAgain,
    StartStep(StepKind),
    /// Nothing: a person wants it between turns.
    Rest,
}

/// Why a turn ends, with more words for people.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ending {
    pub(super) end: TurnEnd,
    pub(super) why: Option<Why>,
    pub(super) detail: Option<String>,
}

/// What outlives a phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    pub(super) id: SessionId,
    pub(super) workspace: String,
    pub(super) parent: Option<Origin>,
    /// What a person or a model has called it.
    pub(super) title: Option<String>,
    /// Nothing was said yet since it works in this folder.
    pub(super) is_new_here: bool,
    pub(super) transcript: Vec<TranscriptEntry>,
    /// Every message that was ever said here, and where it is on record.
    pub(super) heard: HashMap<MessageId, Seq>,
    pub(super) waiting: VecDeque<Waiting>,
    /// What was taken out of it again.
    pub(super) unqueued: HashSet<MessageId>,
    /// What hooks and the user's own commands tell the model at the next step's beginning.
    pub(super) notes: Vec<String>,
    /// What the user has allowed for the whole session.
    pub(super) grants: Vec<Grant>,
    /// What was done since the process that has the session opened it.
    pub(super) since_opened: SinceOpened,
    /// What clients have changed of how the session is run.
    pub(super) configured: Configure,
    /// What hooks left of the frame that the model was last asked with.
    pub(super) offered: Offered,
    /// The compaction that hooks are told of before the model is asked again.
    pub(super) untold: Option<Trigger>,
    /// Of the process that has the session.
    pub(super) epoch: u64,
    /// Of the first process that had it in the boot of the machine that is up now.
    pub(super) boot_epoch: u64,
    /// That boot, where it is known.
    pub(super) boot_id: Option<String>,
    pub(super) turns: u32,
    pub(super) steps: u32,
    /// The sessions of all its subagents, those of turns that were taken back included.
    pub(super) called: BTreeSet<SessionId>,
    /// What all model calls used at most, those of turns that were taken back and those of no turn included.
    pub(super) bill: Bound,
    /// What was taken back and can be brought back, the newest last. A new turn ends that.
    pub(super) undone: Vec<Undone>,
    /// A rewind that was begun and has no end on record.
    pub(super) rewinding: Option<Rewinding>,
    /// What the summary shall dwell on that a person has asked for and that is being made.
    pub(super) focus: Option<String>,
    /// Commands in the background.
    pub(super) tasks: Tasks,
    /// Commands that the user runs themselves.
    pub(super) shell: ShellCommands,
    /// How full the context is, and what is not in the transcript any more.
    pub(super) context: Context,
    /// What the model has set itself to do.
    pub(super) todo: TodoList,
    pub(super) turn: TurnWork,
}

/// What belongs to the turn under way, or to the last one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnWork {
    pub(super) model: String,
    /// How that model counts: asked of every message, and a name is long to look through.
    pub(super) family: Family,
    /// Who is asked next when that model gives no reply.
    pub(super) fallbacks: VecDeque<String>,
    pub(super) policy: Arc<Policy>,
    pub(super) compact_at_tokens: Option<u64>,
    pub(super) started_ms: TimeMs,
    /// What the budget of time counts.
    pub(super) clock: Clock,
    pub(super) steps: u32,
    /// Of these, those whose calls were answered.
    pub(super) rounds: u32,
    pub(super) kind: StepKind,
    pub(super) spent: Spent,
    /// The same, and the most of what nobody knows.
    pub(super) used: Bound,
    /// What skills and commands allow until it ends.
    pub(super) grants: Vec<Grant>,
    /// What the command asks that it begins with.
    pub(super) for_turn: Option<Box<Configure>>,
    /// What commands have subagents do, before the model is asked.
    pub(super) subtasks: Vec<Subtask>,
    /// The calls by which a person asks an agent by its name.
    pub(super) asked_by_name: Vec<CallId>,
    /// Whether the model has yet to be told to go on after such work.
    pub(super) has_delegated: bool,
    /// Its calls that subagents answer.
    pub(super) delegated: u32,
    /// Steps of these subagents, as far as they are over.
    pub(super) delegated_steps: u32,
    pub(super) failures: u32,
    /// Attempts at the call under way that brought an answer nobody can use.
    pub(super) unusable_replies: u32,
    pub(super) compactions: u32,
    pub(super) cut_replies: u32,
    /// Replies in a row that ended for a reason nobody knows.
    pub(super) unknown_replies: u32,
    pub(super) paused_replies: u32,
    pub(super) denials_in_a_row: u32,
    /// Tools that were refused because nobody was there to approve them.
    pub(super) unattended: Vec<String>,
    /// Why a subagent did not finish whose calls were refused.
    pub(super) refused_below: Option<String>,
    pub(super) recent: Vec<Seen>,
    /// The last call that was settled, in a few words.
    pub(super) last_call: String,
    /// The hooks that have sent the model back to work, once for each time.
    pub(super) sent_back: Vec<String>,
    /// What the hooks found that were asked last whether the turn may end.
    pub(super) evidence: Vec<HookRun>,
    /// The workspace before the newest step that may have changed it.
    pub(super) snapshot: Option<String>,
    /// The workspace before the first of them, where one was to be made.
    pub(super) first_snapshot: Option<Option<String>>,
    /// Whether it was another one after the last.
    pub(super) changed_files: bool,
    /// Whether the model was kept from ending it with open todos.
    pub(super) has_recalled_todos: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waiting {
    pub(super) message: Message,
    pub(super) delivery: Delivery,
    pub(super) spoken: Spoken,
    /// Whether it is the one that tells the model of the folder.
    pub(super) is_first_here: bool,
    /// How many of its parts, the first, are what hooks said at the session's start.
    pub(super) hook_notes: usize,
    /// What was typed, where a command made its words.
    pub(super) typed: Option<String>,
    /// What that allows until the end of the turn that reads it.
    pub(super) grants: Vec<Grant>,
    /// What it asks of the turn that begins with it.
    pub(super) for_turn: Option<Box<Configure>>,
    /// What it has a subagent do.
    pub(super) subtask: Option<Box<Subtask>>,
}

/// What stands before the words that a session starts with, whichever they are by then.
struct Start {
    /// What hooks said at the session's start.
    hook_notes: Vec<Part>,
    /// What is to be known of the folder, with what hooks said of the words that it came with.
    folder_notes: Vec<Part>,
    is_first_here: bool,
}

impl Waiting {
    fn take_start(&mut self) -> Start {
        let is_first_here = std::mem::take(&mut self.is_first_here);
        let hook_notes = self.message.parts.drain(..std::mem::take(&mut self.hook_notes)).collect();
        let is_note = |part: &&Part| matches!(part, Part::Note { .. });
        let told = self.message.parts.iter().take_while(is_note).count();
        let folder_notes = self.message.parts.drain(..if is_first_here { told } else { 0 }).collect();
        Start { hook_notes, folder_notes, is_first_here }
    }

    fn begin_with(&mut self, start: Start) {
        let Start { hook_notes, folder_notes, is_first_here } = start;
        self.is_first_here |= is_first_here;
        self.message.parts.splice(self.hook_notes..self.hook_notes, folder_notes);
        self.hook_notes += hook_notes.len();
        self.message.parts.splice(0..0, hook_notes);
    }
}

/// A rewind that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewinding {
    /// What shall be done.
    pub rewind: Rewind,
    /// The workspace as it was before.
    pub was: String,
    /// The files that differ from what they shall be.
    pub touches: Touched,
}

/// A rewind that can be taken back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Undone {
    /// Where the head was.
    pub(super) from: Seq,
    pub(super) rewind: Rewind,
    pub(super) back: Option<Restore>,
}

/// What hooks left of the system prompt and the tools that the model is asked with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// The system prompt, where they changed it.
    pub system: Option<String>,
    /// The names of the tools that are left, where they changed these.
    pub tools: Option<Vec<String>>,
}

impl Offered {
    /// What is not told is as it was.
    pub(super) fn change(&mut self, system: Option<String>, tools: Option<Vec<String>>) {
        self.system = system.or(self.system.take());
        self.tools = tools.or(self.tools.take());
    }
}

/// When a waiting message was spoken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spoken {
    /// While the turn was going on, or between turns.
    Before,
    /// When the turn was already bound to end, or while the context was compacted between turns: it is the user's word after
    /// that.
    WhileEnding,
}
impl Work {
    /// Takes in something said, which is on record at `seq`. What was said before is not said again.
    pub(super) fn hear(&mut self, phase: Phase, said: &mut Event, (seq, at_ms): (Seq, TimeMs)) -> Phase {
        let Event::UserSpoke { message: id, parts, delivery, typed, allows, for_turn, subtask } = said else {
            return phase;
        };
        if self.heard.get(id) != Some(&seq) {
            return phase;
        }
        let delivery = *delivery;
        let is_first_here = std::mem::take(&mut self.is_new_here);
        // What hooks say at a session's start stands before the words that it starts with.
        let mut hook_notes = 0;
        if matches!(phase, Phase::Idle | Phase::Held) {
            hook_notes = self.notes.len();
            parts.splice(0..0, self.notes.drain(..).map(Part::note));
        }
        let message = Message { id: Some(id.clone()), ..Message::new(Role::User, std::mem::take(parts)) };
        let spoken = match &phase {
            Phase::Sealing(_)
            | Phase::Ending(_)
            | Phase::StepOver(After::End(_))
            | Phase::RunningTools(_, After::End(_))
            | Phase::BeforeCompaction(_, AfterCompaction::Rest)
            | Phase::Compacting(_, AfterCompaction::Rest) => Spoken::WhileEnding,
            _ => Spoken::Before,
        };
        let (typed, grants) = (typed.take(), skill::granted_by_person(allows, at_ms));
        let (for_turn, subtask) = (for_turn.take(), subtask.take());
        let waiting =
            Waiting { message, delivery, spoken, is_first_here, hook_notes, typed, grants, for_turn, subtask };
        self.waiting.push_back(waiting);
        match phase {
            Phase::Idle | Phase::Held => Phase::Due,
            // What is found out now would be of yesterday.
            Phase::Checking | Phase::AwaitingSubagents if delivery == Delivery::Steer => {
                self.next_step(StepKind::Ordinary)
            }
            busy => busy,
        }
    }

    /// Takes a message out of the queue again, where no step reads it yet.
    pub(super) fn unqueue(&mut self, phase: Phase, message: &MessageId) -> Phase {
        if !self.may_unqueue(&phase, message) {
            return phase;
        }
        let place = self.waiting.iter().position(|waiting| waiting.message.id.as_ref() == Some(message));
        let Some(mut taken) = place.and_then(|place| self.waiting.remove(place)) else { return phase };
        // What came with it comes with the next.
        let start = taken.take_start();
        match self.waiting.front_mut() {
            Some(next) => next.begin_with(start),
            None => {
                self.is_new_here |= start.is_first_here;
                let notes = start.hook_notes.into_iter().filter_map(|part| match part {
                    Part::Note { text, .. } => Some(text),
                    _ => None,
                });
                self.notes.splice(0..0, notes);
            }
        }
        match phase {
            Phase::Held | Phase::Due if self.waiting.is_empty() => Phase::Idle,
            phase => phase,
        }
    }

    /// Gives a message that waits another place: before this one, if that waits too, or the last.
    pub(super) fn move_waiting(&mut self, phase: Phase, message: &MessageId, before: Option<&MessageId>) -> Phase {
        let place_of = |waiting: &VecDeque<Waiting>, id: &MessageId| {
            waiting.iter().position(|waiting| waiting.message.id.as_ref() == Some(id))
        };
        let Some(from) = place_of(&self.waiting, message) else { return phase };
        let start = self.waiting.front_mut().map(Waiting::take_start);
        if let Some(moved) = self.waiting.remove(from) {
            let place = before.and_then(|before| place_of(&self.waiting, before)).unwrap_or(self.waiting.len());
            self.waiting.insert(place, moved);
        }
        if let (Some(first), Some(start)) = (self.waiting.front_mut(), start) {
            first.begin_with(start);
        }
        phase
    }

    /// Whether a message can be taken out of the queue. A step that starts because it waits needs it: without it the model
    /// would be asked to answer its own answer.
    pub(super) fn may_unqueue(&self, phase: &Phase, message: &MessageId) -> bool {
        let Some(waiting) = self.waiting.iter().find(|waiting| waiting.message.id.as_ref() == Some(message)) else {
            return false;
        };
        let is_answered = self.transcript.last().is_some_and(|entry| entry.message.role == Role::Assistant);
        let is_answered = is_answered && phase.next_step().is_some_and(|kind| kind != StepKind::Continue);
        let mut steering = self.waiting.iter().filter(|waiting| waiting.delivery == Delivery::Steer);
        !is_answered || waiting.delivery != Delivery::Steer || steering.nth(1).is_some()
    }

    /// Numbers are never given out twice, even where some are missing: turns were taken back, or events were lost.
    pub(super) fn start_turn(&mut self, number: u32, turn: TurnWork, seq: Seq) -> Phase {
        self.turns = number.max(self.turns + 1);
        self.turn = turn;
        // What the user's own commands change from here on is covered by the turn's last snapshot.
        self.turn.first_snapshot = self.shell.join_turn();
        if let Some(mut first) = self.waiting.pop_front() {
            self.turn.for_turn = first.for_turn.take();
            self.read(seq, first);
        }
        let phase = match self.turn.policy.steps.max_turns {
            Some(most) if self.turns - self.shell.numbered().min(self.turns) > most => {
                self.end(Ending::new(TurnEnd::MaxTurns, format!("the session's limit of {most} turns is reached")))
            }
            _ => self.next_step(StepKind::Ordinary),
        };
        self.open(phase)
    }

    /// A message is read by the turn, and what it allows is allowed until that ends.
    fn read(&mut self, seq: Seq, waiting: Waiting) {
        self.turn.grants.extend(waiting.grants);
        self.turn.subtasks.extend(waiting.subtask.map(|subtask| *subtask));
        self.push(seq, waiting.message);
    }

    /// Starts the next step, unless a limit forbids it; a full context is compacted first.
    pub(super) fn next_step(&mut self, kind: StepKind) -> Phase {
        match self.limited(kind) {
            Ok(kind) if self.is_full() => Phase::CompactionNeeded(Trigger::Ordinary, AfterCompaction::StartStep(kind)),
            Ok(kind) => Phase::NextStep(kind),
            Err(ending) => self.end_or_switch(ending, AfterCompaction::StartStep(kind)),
        }
    }

    /// What kind of step the limits leave, or the end that they lead to.
    fn limited(&self, kind: StepKind) -> Result<StepKind, Ending> {
        let turn = &self.turn;
        if let Some(short) = self.budget_spent() {
            return Err(Ending::short(short));
        }
        let (limits, counted) = (&turn.policy.steps, turn.counted_steps());
        if let Some((why, detail)) = limits.reached(counted, turn.steps) {
            return Err(Ending::reached(why, detail));
        }
        if let Some(ending) = self.full_by_hand() {
            return Err(ending);
        }
        let is_last = limits.max == Some(counted + 1) && limits.last == LastStep::WrapUp;
        Ok(if is_last { StepKind::WrapUp } else { kind })
    }

    pub(super) fn step_started(&self, kind: StepKind) -> Event {
        let note = match kind {
            StepKind::Ordinary => None,
            StepKind::WrapUp => Some(
                "This is the last step of this turn: no tools are available any more. Sum up what is done, what is \
                 not, and what should come next."
                    .to_owned(),
            ),
            StepKind::Continue if self.turn.unknown_replies > 0 => Some(UNKNOWN_NOTE.to_owned()),
            StepKind::Continue => Some(CONTINUE_NOTE.to_owned()),
        };
        Event::StepStarted { step: self.steps + 1, kind, note }
    }

    pub(super) fn start_step(&mut self, step: u32, kind: StepKind, note: Option<&str>, seq: Seq) -> Phase {
        self.steps = step.max(self.steps + 1);
        self.turn.steps += 1;
        self.turn.kind = kind;
        self.todo.step_started();
        let (steering, later): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| waiting.delivery == Delivery::Steer);
        self.waiting = later.into();
        for waiting in steering {
            self.read(seq, waiting);
        }
        if std::mem::take(&mut self.turn.has_delegated) {
            self.push(seq, Message::new(Role::User, vec![Part::note(GO_ON)]));
        }
        self.push_notes(seq);
        self.tasks.tell();
        if let Some(text) = note {
            let kind = if kind == StepKind::Continue { NoteKind::Continue } else { NoteKind::Plain };
            self.push(seq, Message::new(Role::User, vec![Part::Note { kind, text: text.to_owned() }]));
        }
        if !self.has_gate(HookPoint::BeforeModel) {
            self.offered = Offered::default();
        }
        self.call_model(1)
    }

    /// The model is to be asked; hooks come first where there are some.
    pub(super) fn call_model(&mut self, attempt: u32) -> Phase {
        // No model is asked.
        if !self.turn.subtasks.is_empty() {
            return Phase::CallingModel { attempt };
        }
        match self.untold.take() {
            Some(_) if self.has_gate(HookPoint::SessionStart) => Phase::Compacted { attempt },
            _ => self.pass_before_model(attempt),
        }
    }

    /// Hooks know that the context was compacted.
    pub(super) fn pass_before_model(&self, attempt: u32) -> Phase {
        if self.has_gate(HookPoint::BeforeModel) {
            Phase::BeforeModel { attempt }
        } else {
            Phase::CallingModel { attempt }
        }
    }

    /// The context is to be compacted.
    pub(super) fn start_compaction(&self, trigger: Trigger, then: AfterCompaction) -> Phase {
        if self.has_gate(HookPoint::BeforeCompaction) {
            Phase::BeforeCompaction(trigger, then)
        } else {
            Phase::Compacting(trigger, then)
        }
    }

    /// The turn starts or goes on in this phase; where that is the first that this process does, hooks come first.
    pub(super) fn open(&self, phase: Phase) -> Phase {
        if self.has_gate(HookPoint::SessionStart) && self.since_opened < SinceOpened::Begun {
            Phase::Opening(Box::new(phase))
        } else {
            phase
        }
    }

    /// Whether the turn waits for hooks at this point.
    pub(super) fn has_gate(&self, point: HookPoint) -> bool {
        self.turn.policy.hooks.gates.has(point)
    }

    /// The turn is over. Where there was a snapshot before its first change, there is one after its last.
    pub(super) fn end(&self, ending: Ending) -> Phase {
        if self.turn.first_snapshot.is_some() { Phase::Sealing(ending) } else { Phase::Ending(ending) }
    }

    /// The model is not asked, since something is used up. A step that was one too many does not count.
    pub(super) fn not_asked(&mut self, why: Option<Why>, detail: &str) -> Phase {
        if why == Some(Why::Steps) {
            self.turn.steps = self.turn.steps.saturating_sub(1);
        }
        self.end(short(why, detail))
    }

    /// The last snapshot of the turn was taken.
    pub(super) fn sealed(&mut self, ending: Ending, tree: Option<&String>) -> Phase {
        let turn = &mut self.turn;
        turn.changed_files = matches!((&turn.first_snapshot, tree), (Some(Some(first)), Some(last)) if first != last);
        Phase::Ending(ending)
    }

    /// The model has replied, or the call has failed.
    pub(super) fn answered(&mut self, attempt: u32, event: &mut Event, seq: Seq, at_ms: TimeMs) -> Phase {
        match event {
            Event::MessageFinished { reply, .. } => self.accept(reply, seq),
            Event::ModelFailed { error, retry_at_ms, .. } => self.retry_or_fail(attempt, error, *retry_at_ms, at_ms),
            _ => Phase::CallingModel { attempt },
        }
    }

    /// The model's reply; what is kept of it is taken out of it.
    pub(super) fn accept(&mut self, reply: &mut Reply, seq: Seq) -> Phase {
        self.turn.spent.steps += 1;
        // The user's own calls.
        let subtasks = std::mem::take(&mut self.turn.subtasks);
        self.turn.has_delegated = !subtasks.is_empty();
        self.context.counted(&reply.usage, self.turn.policy.compaction.rules.counts_replies());
        let mut parts = std::mem::take(&mut reply.parts);
        if self.turn.policy.calls.taken == CallsTaken::First {
            let first = parts.iter().position(|part| matches!(part, Part::ToolCall(_)));
            parts.truncate(first.map_or(parts.len(), |first| first + 1));
        }
        let message = Message { model: Some(self.turn.model.clone()), ..Message::new(Role::Assistant, parts) };
        let calls: Vec<_> = message.calls().cloned().map(Arc::new).collect();
        let by_name = subtasks.iter().zip(&calls).filter(|(subtask, _)| subtask.by_name);
        self.turn.asked_by_name.extend(by_name.map(|(_, call)| call.id.clone()));
        if !message.parts.is_empty() {
            self.push(seq, message);
        }
        if reply.finish != FinishReason::Length {
            self.turn.cut_replies = 0;
        }
        if reply.finish != FinishReason::Other {
            self.turn.unknown_replies = 0;
        }
        if reply.finish != FinishReason::Paused {
            self.turn.paused_replies = 0;
        }
        if calls.is_empty() {
            return Phase::StepOver(self.after_answer(reply));
        }
        let batch = Batch::new(calls, &self.turn.policy);
        let (batch, after) = self.open_batch(batch, reply);
        self.settle(batch, after, seq)
    }

    /// What follows a reply without calls.
    pub(super) fn after_answer(&mut self, reply: &Reply) -> After {
        match reply.finish {
            FinishReason::ContentFilter => After::End(filtered(reply)),
            FinishReason::Error => After::End(provider_error(reply)),
            FinishReason::Length => self.after_cut_reply(&reply.usage),
            FinishReason::Other if self.turn.policy.replies.on_unknown == OnUnknown::GoOn => self.after_unknown_reply(),
            FinishReason::Paused => self.after_paused_reply(),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => match self.turn.kind {
                StepKind::WrapUp => After::End(self.turn.out_of_steps()),
                StepKind::Ordinary | StepKind::Continue => After::Answered,
            },
        }
    }

    pub(super) fn after_cut_reply(&mut self, usage: &Usage) -> After {
        if self.turn.kind == StepKind::WrapUp {
            return After::End(self.turn.out_of_steps());
        }
        let on_length = self.turn.policy.replies.on_length;
        let is_by_window = match on_length {
            OnLength::GoOn | OnLength::End => self.is_full(),
            OnLength::Compact => self.is_cut_by_window(usage),
        };
        if is_by_window && self.may_compact() {
            return After::Compact;
        }
        if is_by_window {
            let detail = "the reply was cut at the end of the window, and the context cannot be compacted further";
            return After::End(Ending::new(TurnEnd::ContextLimit, detail));
        }
        self.turn.cut_replies += 1;
        if self.turn.policy.replies.on_length == OnLength::End {
            return After::Answered;
        }
        if self.turn.cut_replies > MAX_CUT_REPLIES {
            let detail = "the model's replies were cut at its output limit again and again";
            return After::End(Ending::new(TurnEnd::ContextLimit, detail).because(Why::OutputLimit));
        }
        After::Continue
    }

    /// The reply ended, and nobody knows why: perhaps the model is not done.
    fn after_unknown_reply(&mut self) -> After {
        self.turn.unknown_replies += 1;
        let may_go_on = self.turn.unknown_replies <= MAX_UNKNOWN_REPLIES && self.turn.kind != StepKind::WrapUp;
        if may_go_on { After::Continue } else { After::Answered }
    }

    /// The budget is checked before the reply goes on, as before any other call.
    pub(super) fn after_paused_reply(&mut self) -> After {
        self.turn.paused_replies += 1;
        if self.turn.kind == StepKind::WrapUp {
            return After::End(self.turn.out_of_steps());
        }
        if self.turn.paused_replies > MAX_PAUSED_REPLIES {
            return After::End(Ending::new(TurnEnd::ApiError, "the provider paused its reply again and again"));
        }
        After::Resume
    }

    /// The calls of a reply, some of them perhaps answered already, and what follows them.
    pub(super) fn open_batch(&self, batch: Batch, reply: &Reply) -> (Batch, After) {
        let not_run = |batch: Batch, why: &str, ending: Ending| {
            let unrun = Outcome::new(Status::Cancelled, format!("The call was not run: {why}."));
            (batch.stop(&unrun), After::End(ending))
        };
        let spent = self.budget_spent();
        match reply.finish {
            FinishReason::ContentFilter => {
                not_run(batch, "the reply was cut by the provider's filter", filtered(reply))
            }
            FinishReason::Error => not_run(batch, "the provider reported an error", provider_error(reply)),
            _ if self.turn.kind == StepKind::WrapUp => {
                not_run(batch, "this was the last step of the turn", self.turn.out_of_steps())
            }
            _ if spent.is_some() => {
                not_run(batch, "the budget is used up", spent.map_or_else(|| self.turn.out_of_steps(), Ending::short))
            }
            FinishReason::Length => {
                let text = "The call was not run: your reply was cut at the output limit before the call was complete. \
                            Make it again, smaller.";
                (batch.refuse_last(Outcome::failed(text)), After::GoOn)
            }
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Paused | FinishReason::Other => {
                (batch, After::GoOn)
            }
        }
    }

    pub(super) fn retry_or_fail(
        &mut self,
        attempt: u32,
        error: &ModelError,
        retry_at: Option<TimeMs>,
        at_ms: TimeMs,
    ) -> Phase {
        let failures = self.turn.with_failure(attempt, error.kind);
        self.turn.unusable_replies = failures.unusable;
        // Our own death is not the provider's fault.
        self.turn.failures += u32::from(error.kind != ModelErrorKind::Interrupted);
        let failures = Failures { turn: self.turn.failures, ..failures };
        let policy = &self.turn.policy;
        let patience = policy.retry.of_model(&self.turn.model);
        let may_retry = patience.on.holds(error) && retry::within(patience, error.kind, failures);
        let said = policy.replies.words.model_error(&error.message, self.turn.failures, patience.per_turn);
        let may_compact = policy.compaction.on_error && self.may_compact();
        if error.kind == ModelErrorKind::WindowExceeded && may_compact {
            return Phase::CompactionNeeded(Trigger::Forced, AfterCompaction::AskAgain);
        }
        match (retry_at.filter(|_| may_retry), error.kind) {
            (Some(until_ms), _) => Phase::BackingOff { attempt: attempt + 1, since_ms: at_ms, until_ms },
            (None, ModelErrorKind::WindowExceeded) => self.end_or_switch(
                Ending::new(TurnEnd::ContextLimit, said).because(Why::ModelError),
                AfterCompaction::AskAgain,
            ),
            (None, ModelErrorKind::ContentFilter) => self.end(Ending::new(TurnEnd::ContentFilter, said)),
            (None, kind) if kind.is_of_provider() && !self.turn.fallbacks.is_empty() => {
                Phase::GivenUp { reason: error.message.clone(), then: AfterCompaction::AskAgain }
            }
            (None, _) => self.end(Ending::new(TurnEnd::ApiError, said).because(Why::ModelError)),
        }
    }

    /// Ends the turn; but where only the model's window is too small, the next of the chain may read more.
    pub(super) fn end_or_switch(&self, ending: Ending, then: AfterCompaction) -> Phase {
        match ending {
            Ending { end: TurnEnd::ContextLimit, detail: Some(reason), .. } if !self.turn.fallbacks.is_empty() => {
                Phase::GivenUp { reason, then }
            }
            ending => self.end(ending),
        }
    }

    /// Asks again. What the user said meanwhile joins first, as a step of its own.
    pub(super) fn ask_again(&mut self, attempt: u32) -> Phase {
        match self.has_steering() {
            true => self.next_step(self.turn.kind),
            false => self.call_model(attempt),
        }
    }

    /// Moves on when every call is answered.
    pub(super) fn settle(&mut self, batch: Batch, after: After, seq: Seq) -> Phase {
        let results = match batch.into_results() {
            Err(open) => return Phase::RunningTools(open, after),
            Ok(results) => results,
        };
        let turn = &mut self.turn;
        turn.spent.calls += results.ran;
        turn.rounds += 1;
        turn.last_call = results.last;
        let compare = turn.policy.stuck.compare;
        let before = turn.recent.len();
        let outcomes = results.parts.iter().filter_map(|part| match part {
            Part::ToolResult { outcome, .. } => Some(outcome),
            _ => None,
        });
        for (call, outcome) in results.calls.iter().zip(outcomes) {
            let seen = Seen::new(compare, &call.name, &call.input, Some(outcome));
            // Calls that went out together are one try: the model had not yet seen the result of the first.
            if compare == Compare::Input || !turn.recent[before..].contains(&seen) {
                turn.recent.push(seen);
            }
            let counts = match turn.policy.calls.denials_counted {
                DenialsCounted::All => outcome.status == Status::Denied,
                DenialsCounted::Questions => outcome.status == Status::Denied && outcome.metadata["by"] != "rule",
            };
            turn.denials_in_a_row = if counts { turn.denials_in_a_row + 1 } else { 0 };
        }
        let denied = turn.policy.calls.max_denials.is_some_and(|most| turn.denials_in_a_row >= most);
        self.push(seq, Message::new(Role::Tool, results.parts));
        Phase::StepOver(match after {
            After::GoOn if denied => {
                let detail = match self.turn.denials_in_a_row {
                    1 => "a call was refused".to_owned(),
                    many => format!("{many} calls in a row were refused"),
                };
                After::End(Ending::new(TurnEnd::ToolDenied, detail))
            }
            after => after,
        })
    }

    pub(super) fn after_step(&mut self, after: After) -> Phase {
        match after {
            After::End(ending) => self.end(ending),
            After::Continue => self.next_step(StepKind::Continue),
            After::Resume => self.next_step(StepKind::Ordinary),
            After::Compact => match self.limited(StepKind::Continue) {
                Ok(kind) => Phase::CompactionNeeded(Trigger::Forced, AfterCompaction::StartStep(kind)),
                Err(ending) => self.end(ending),
            },
            After::GoOn => match self.repeated_call() {
                Some(_) if self.turn.policy.stuck.then == Stuck::End => self.end(self.turn.stuck()),
                Some(call) => Phase::Stuck(call),
                None => self.next_step(StepKind::Ordinary),
            },
            After::Answered if self.has_steering() => self.next_step(StepKind::Ordinary),
            After::Answered if self.must_recall_todos() => {
                self.turn.has_recalled_todos = true;
                self.todo.recall();
                self.next_step(StepKind::Ordinary)
            }
            After::Answered => self.await_subagents(),
        }
    }

    /// The model has said all it wanted. Where the turn has to, it waits for the subagents in the background, and the model is told
    /// of their ends if a step is left for that.
    pub(super) fn await_subagents(&mut self) -> Phase {
        if self.turn.policy.waits_for_subagents {
            if self.tasks.subagents_at_work().next().is_some() {
                return Phase::AwaitingSubagents;
            }
            let is_untold = self.tasks.untold().any(|task| task.subagent.is_some());
            if is_untold && self.limited(StepKind::Ordinary) == Ok(StepKind::Ordinary) {
                return self.next_step(StepKind::Ordinary);
            }
        }
        match self.turn.answered() {
            Ending { end: TurnEnd::Completed, .. } if self.has_gate(HookPoint::Stop) => Phase::Checking,
            ending => self.end(ending),
        }
    }

    /// Something in the background is over. What a subagent used counts in the turn that is under way.
    pub(super) fn task_ended(&mut self, phase: Phase, event: &Event) -> Phase {
        if phase.is_between_turns() {
            return phase;
        }
        self.turn.pay(event);
        match phase {
            Phase::AwaitingSubagents => self.await_subagents(),
            phase => phase,
        }
    }

    /// Takes in what happened to the list of todos at the head.
    pub(super) fn note_todos(&mut self, event: &Event) {
        match event {
            Event::Todo { items } => self.todo.replace(items),
            Event::ContextGiven { items } if items.iter().any(|item| item.kind == GivenKind::Todo) => self.todo.told(),
            _ => {}
        }
    }

    /// Whether the turn would complete with open todos of which the model has yet to be told, and a step is left for that.
    fn must_recall_todos(&self) -> bool {
        !self.turn.has_recalled_todos
            && self.todo.has_open()
            && self.turn.answered().end == TurnEnd::Completed
            && self.limited(StepKind::Ordinary) == Ok(StepKind::Ordinary)
    }

    /// The hooks have said whether the turn may end.
    pub(super) fn checked(&mut self, sent_back: Option<String>) -> Phase {
        let must_go_on = sent_back.is_some() || self.has_steering();
        self.turn.sent_back.extend(sent_back);
        match must_go_on {
            true => self.next_step(StepKind::Ordinary),
            false => self.end(self.turn.answered()),
        }
    }

    /// A snapshot was taken that no call of a step waits for: of the user's own commands.
    pub(super) fn put_down(&mut self, phase: Phase, event: &Event) -> Phase {
        match event {
            Event::SnapshotTaken { moment, tree, .. } if phase.is_between_turns() => {
                self.shell.take_snapshot(*moment == Moment::After, tree.as_ref());
            }
            Event::SnapshotTaken { moment: Moment::Before, .. } => self.turn.note_snapshot(event),
            _ => {}
        }
        phase
    }

    /// A command of the user's is over: what the model reads of it stands before its next request.
    pub(super) fn ran(&mut self, command: &ShellCommand, outcome: &Outcome) {
        if !command.is_private {
            self.notes.push(shell::told(command, outcome));
            self.tasks.read(outcome);
        }
    }

    /// What hooks tell the model, as a message of its own.
    pub(super) fn push_notes(&mut self, seq: Seq) {
        let notes: Vec<Part> = self.notes.drain(..).map(Part::note).collect();
        if !notes.is_empty() {
            self.push(seq, Message::new(Role::User, notes));
        }
    }

    /// The newest call, if it is one repetition too many.
    pub(super) fn repeated_call(&self) -> Option<CallId> {
        progress::circle(self.turn.policy.stuck, &self.turn.recent)?;
        self.transcript.last()?.message.parts.iter().rev().find_map(|part| match part {
            Part::ToolResult { call, .. } => Some(call.clone()),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } | Part::Image { .. } => {
                None
            }
        })
    }

    pub(super) fn go_on(&mut self, decision: &Decision) -> Phase {
        let stuck = self.turn.stuck();
        self.turn.recent.clear();
        match decision {
            Decision::Approve
            | Decision::ApproveForSession
            | Decision::ApproveLasting(_)
            | Decision::ApproveChanged(_) => self.next_step(StepKind::Ordinary),
            Decision::Deny(_) | Decision::Answered(_) | Decision::Unattended | Decision::Expired => self.end(stuck),
        }
    }

    /// A call of this tool that accesses this, in this session.
    pub(super) fn ask<'a>(&'a self, tool: &'a str, accesses: &'a [Access]) -> Ask<'a> {
        let Policy { reach, sandbox, .. } = &*self.turn.policy;
        Ask { tool, accesses, workspace: &self.workspace, is_confined: !sandbox.is_off(), reach }
    }

    /// A person has allowed what these rules cover, when asked about this.
    fn grant(&mut self, tool: &str, accesses: &[Access], rules: Rules, at_ms: TimeMs) {
        let policy = &self.turn.policy;
        let held = if tool == NET { policy.permission.about_hosts() } else { policy.permission.clone() };
        let ask = self.ask(tool, accesses);
        let grant = |rule| Grant { asked_by: held.asked_by(policy.mode, &ask, &rule), rule, at_ms };
        let grants: Vec<Grant> = rules.0.into_iter().map(grant).collect();
        self.grants.extend(grants);
    }

    pub(super) fn remember_grant(&mut self, batch: &Batch, event: &Event, at_ms: TimeMs) {
        let (id, decision) = match event {
            Event::ApprovalGiven { subject: Subject::Call(id), decision, .. } => (id, decision),
            Event::ApprovalGiven { subject: Subject::Host { call, host }, decision, .. } => {
                if let Some(question) = batch.question_of_host(call, host) {
                    self.grant(NET, &[Access::Reach(host.clone())], question.grants(decision), at_ms);
                }
                return;
            }
            _ => return,
        };
        let Some(call) = batch.call(id) else { return };
        match decision {
            Decision::ApproveForSession | Decision::ApproveLasting(_) => {
                // Journals before version 4 leave unsaid what that grants.
                let whole_tool = || Rules(vec![Rule::of(&*call.name, Action::Allow)]);
                let rules = batch.offered_grants(id).unwrap_or_else(whole_tool);
                let accesses = batch.plan(id).map(|plan| plan.accesses.as_slice()).unwrap_or_default();
                self.grant(&call.name, accesses, rules, at_ms);
            }
            // What the model asks a person is no call that needs a yes.
            _ if batch.is_inquiry(id) => {}
            Decision::Unattended | Decision::Expired => {
                if !self.turn.unattended.contains(&call.name) {
                    self.turn.unattended.push(call.name.clone());
                }
            }
            Decision::Approve | Decision::ApproveChanged(_) | Decision::Answered(_) | Decision::Deny(_) => {}
        }
    }

    pub(super) fn resume_after_compaction(&mut self, then: AfterCompaction) -> Phase {
        match then {
            AfterCompaction::AskAgain => self.call_model(1),
            // Not `next_step`: whether the context fits is decided already.
            AfterCompaction::StartStep(kind) => {
                self.limited(kind).map_or_else(|ending| self.end_or_switch(ending, then), Phase::NextStep)
            }
            AfterCompaction::Rest => self.rest(),
        }
    }

    /// A compaction between turns is over. What was said meanwhile is taken up.
    pub(super) fn rest(&mut self) -> Phase {
        self.focus = None;
        let is_released = self.waiting.iter().any(|waiting| waiting.spoken == Spoken::WhileEnding);
        self.waiting.iter_mut().for_each(|waiting| waiting.spoken = Spoken::Before);
        match self.waiting.is_empty() {
            true => Phase::Idle,
            false if is_released => Phase::Due,
            false => Phase::Held,
        }
    }

    /// What a reply said that was cut off.
    pub(super) fn keep_cut(&mut self, event: &mut Event, seq: Seq) {
        if let Event::MessageCut { parts, .. } = event
            && has_substance(parts)
        {
            let message = Message {
                interrupted: true,
                model: Some(self.turn.model.clone()),
                ..Message::new(Role::Assistant, std::mem::take(parts))
            };
            self.push(seq, message);
        }
    }

    pub(super) fn turn_ended(&self, ending: &Ending, now_ms: TimeMs) -> Event {
        let mut spent = self.turn.spent;
        spent.counted_steps = self.turn.counted_steps();
        spent.duration_ms = now_ms.saturating_sub(self.turn.started_ms);
        let policy = &self.turn.policy;
        let detail = policy.replies.words.ending(ending.end, ending.why, policy, ending.detail.clone());
        Event::TurnEnded { turn: self.turns, end: ending.end, why: ending.why, detail, spent }
    }

    pub(super) fn end_turn(&mut self, end: TurnEnd) -> Phase {
        self.shell.outlive_turn(self.turn.first_snapshot.as_ref());
        let released = self.waiting.iter().any(|waiting| waiting.spoken == Spoken::WhileEnding);
        match end {
            _ if self.waiting.is_empty() => Phase::Idle,
            TurnEnd::Completed => Phase::Due,
            _ if released => Phase::Due,
            _ => Phase::Held,
        }
    }

    /// What was used, and by whom beside the session itself.
    fn keep_account(&mut self, event: &Event) {
        self.bill.add(&event.at_most());
        if let Event::Delegated { child, .. } = event {
            self.called.insert(child.clone());
        }
    }

    /// Another process has the session.
    fn opened(&mut self, epoch: u64, boot_id: Option<&str>) {
        // Its hooks hear that the session is opened again.
        (self.epoch, self.untold) = (epoch, None);
        // What was allowed in a subagent is on its caller's record, where it can be revoked.
        if self.parent.as_ref().is_some_and(|parent| parent.call.is_some()) {
            self.grants.clear();
        }
        if boot_id.is_none() || self.boot_id.as_deref() != boot_id {
            (self.boot_epoch, self.boot_id) = (epoch, boot_id.map(str::to_owned));
            self.tasks.machine_was_restarted();
        }
        self.turn.clock.stop();
    }

    /// Keeps track of what holds wherever the head is: what was taken back, how the session is called and where it works.
    pub(super) fn remember(&mut self, record: &Record) {
        self.keep_account(&record.event);
        self.tasks.hear(record);
        self.turns = self.turns.max(self.shell.hear(&record.event, self.epoch));
        self.since_opened = match &record.event {
            Event::WriterOpened { .. } => SinceOpened::Nothing,
            Event::HooksRan { point: HookPoint::SessionStart, .. } => SinceOpened::Begun,
            Event::HooksRan { .. }
            | Event::UserSpoke { .. }
            | Event::UserRan { .. }
            | Event::TurnStarted { .. }
            | Event::TurnResumed { .. } => self.since_opened.max(SinceOpened::Used),
            _ => self.since_opened,
        };
        match &record.event {
            Event::SessionStarted { session, workspace, parent, .. } => {
                self.id = session.clone();
                self.workspace.clone_from(workspace);
                self.parent.clone_from(parent);
            }
            Event::UserSpoke { message, .. } => {
                self.heard.entry(message.clone()).or_insert(record.seq);
                self.context.note_words(message, record.seq);
            }
            Event::MessageUnqueued { message } => drop(self.unqueued.insert(message.clone())),
            Event::TitleGiven { title, by } if by.names(title) => {
                self.title = Some(title.clone()).filter(|title| !title.is_empty());
            }
            Event::GrantsRevoked { tools } => {
                self.grants.retain(|grant| !tools.is_empty() && !tools.iter().any(|name| grant.rule.is_called(name)));
            }
            Event::GrantsShared { grants, .. } => self.grants.extend(grants.iter().cloned()),
            Event::SettingsChanged { changed, .. } => self.configured.change(changed),
            Event::WorkspaceMoved { workspace } => {
                (self.workspace, self.is_new_here) = (workspace.clone(), true);
            }
            Event::WriterOpened { epoch, boot_id, .. } => self.opened(*epoch, boot_id.as_deref()),
            // Whether a rewind came to its end is not known; to do it again later could take back what came after it.
            Event::EventLost {} => self.rewinding = None,
            // Nor where more was said or run since.
            Event::TurnStarted { .. } | Event::UserRan { .. } => {
                self.undone.clear();
                self.rewinding = None;
            }
            Event::RewindStarted { rewind, was, touches } => {
                let (rewind, was, touches) = (rewind.clone(), was.clone(), touches.clone());
                self.rewinding = Some(Rewinding { rewind, was, touches });
            }
            Event::RewindAbandoned { .. } => self.rewinding = None,
            Event::RewindFinished { rewind, back, .. } => {
                self.rewinding = None;
                match rewind.direction {
                    Direction::Undo => {
                        // A rewind with files is announced first, and the announcement follows the head.
                        let from = record.seq - 1;
                        self.undone.push(Undone { from, rewind: rewind.clone(), back: back.clone() });
                    }
                    Direction::Redo => drop(self.undone.pop()),
                }
            }
            _ => {}
        }
    }

    /// The conversation is where it was before the turns that were taken back, or only files are: the model is told what
    /// it could not know.
    pub(super) fn rewound(&mut self, rewind: &Rewind, seq: Seq) -> Phase {
        let turns = if rewind.turns == 1 { "turn".to_owned() } else { format!("{} turns", rewind.turns) };
        let text = match (rewind.direction, rewind.to.is_some(), rewind.files.is_empty()) {
            (Direction::Undo, false, false) => {
                format!(
                    "The user took back all changes to files of the last {turns}; the files are as they were before."
                )
            }
            (Direction::Redo, false, false) => {
                format!("The user brought back the changes to files of the last {turns}.")
            }
            // Conversation and files went together: nothing to tell.
            _ => String::new(),
        };
        // What waited when a turn was taken back waits again when it is brought back.
        if rewind.to.is_some() && rewind.direction == Direction::Undo {
            self.is_new_here |= self.waiting.drain(..).any(|waiting| waiting.is_first_here);
        }
        if !text.is_empty() {
            self.push(seq, Message::new(Role::User, vec![Part::note(text)]));
        }
        if self.waiting.is_empty() { Phase::Idle } else { Phase::Held }
    }

    /// Files may be at one place or the other, and the model has to know.
    pub(super) fn not_rewound(&mut self, phase: Phase, rewind: &Rewind, error: &str, seq: Seq) -> Phase {
        let turns = if rewind.turns == 1 { "turn".to_owned() } else { format!("{} turns", rewind.turns) };
        let wanted = match rewind.direction {
            Direction::Undo => "take back",
            Direction::Redo => "bring back",
        };
        let text = format!(
            "The user wanted to {wanted} the last {turns}, and that was cut off ({error}). Some files that they changed \
             may be as they were before, others not: look at a file again before you rely on it."
        );
        self.push(seq, Message::new(Role::User, vec![Part::note(text)]));
        phase
    }

    pub(super) fn used(&self) -> Used {
        Used { turn: self.turn.used, session: self.bill, steps: self.turn.counted_steps() }
    }

    fn budget_spent(&self) -> Option<Short> {
        self.turn.policy.budget.spent(&self.used())
    }

    pub(super) fn has_steering(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.delivery == Delivery::Steer)
    }

    pub(super) fn push(&mut self, seq: Seq, message: Message) {
        self.context.add(self.turn.family, &message);
        self.transcript.push(TranscriptEntry { seq, message: Arc::new(message) });
    }
}

impl TurnWork {
    /// Another process goes on, by its own rules.
    pub(super) fn resume(&mut self, model: &str, fallbacks: &[String], policy: &Policy, now_ms: TimeMs) {
        self.ask(model);
        self.fallbacks = fallbacks.to_vec().into();
        self.policy = Arc::new(policy.clone());
        self.clock.resume(now_ms);
    }

    /// Another model goes on; the one before had its chances.
    pub(super) fn switch(&mut self, model: &str, compact_at_tokens: Option<u64>) {
        self.fallbacks.pop_front();
        self.ask(model);
        self.compact_at_tokens = compact_at_tokens;
        self.failures = 0;
    }

    /// What has failed when this attempt has, too.
    pub(super) fn with_failure(&self, attempt: u32, kind: ModelErrorKind) -> Failures {
        let unusable = if attempt > 1 { self.unusable_replies } else { 0 };
        Failures { call: attempt.saturating_sub(1), unusable, turn: self.failures }.and(kind)
    }

    fn ask(&mut self, model: &str) {
        model.clone_into(&mut self.model);
        self.family = Family::of(model);
    }

    pub(super) fn new(
        model: &str,
        fallbacks: &[String],
        policy: &Policy,
        compact_at_tokens: Option<u64>,
        started_ms: TimeMs,
    ) -> Self {
        Self {
            model: model.to_owned(),
            family: Family::of(model),
            fallbacks: fallbacks.to_vec().into(),
            policy: Arc::new(policy.clone()),
            compact_at_tokens,
            started_ms,
            clock: Clock::started(started_ms),
            steps: 0,
            rounds: 0,
            kind: StepKind::Ordinary,
            spent: Spent::default(),
            used: Bound::default(),
            grants: Vec::new(),
            for_turn: None,
            subtasks: Vec::new(),
            asked_by_name: Vec::new(),
            has_delegated: false,
            delegated: 0,
            delegated_steps: 0,
            failures: 0,
            unusable_replies: 0,
            compactions: 0,
            cut_replies: 0,
            unknown_replies: 0,
            paused_replies: 0,
            denials_in_a_row: 0,
            unattended: Vec::new(),
            refused_below: None,
            recent: Vec::new(),
            last_call: String::new(),
            sent_back: Vec::new(),
            evidence: Vec::new(),
            snapshot: None,
            first_snapshot: None,
            changed_files: false,
            has_recalled_todos: false,
        }
    }

    /// The workspace before a step that may change it.
    pub(super) fn note_snapshot(&mut self, event: &Event) {
        if let Event::SnapshotTaken { tree, .. } = event {
            self.snapshot.clone_from(tree);
            self.first_snapshot.get_or_insert_with(|| tree.clone());
        }
    }

    /// Takes note of what an event about calls says of the turn: its snapshots, what it used, which calls subagents answer.
    pub(super) fn note_of_calls(&mut self, event: &Event) {
        self.note_snapshot(event);
        self.pay(event);
        self.delegated += u32::from(matches!(event, Event::Delegated { .. }));
    }

    /// Counts what a call used, whichever way it ended.
    pub(super) fn pay(&mut self, event: &Event) {
        self.used.add(&event.at_most());
        match event {
            Event::MessageFinished { reply, cost_micros, at_most, .. } => {
                self.spend(&reply.usage, *cost_micros, at_most.is_some());
            }
            Event::ModelFailed { usage, cost_micros, at_most, .. } => {
                self.spend(usage, *cost_micros, at_most.is_some());
            }
            Event::MessageCut { at_most: Some(_), .. } => self.spend(&Usage::default(), None, true),
            Event::ServerSampled { sampled, .. } => {
                self.spend(&sampled.usage, sampled.cost_micros, sampled.at_most.is_some());
            }
            Event::CallSettled { outcome: Outcome { delegated: Some(delegated), metadata, .. }, .. }
            | Event::TaskEnded { outcome: Outcome { delegated: Some(delegated), metadata, .. }, .. } => {
                if let Some(refused) = metadata.get(REFUSED).and_then(Value::as_str) {
                    self.refused_below = Some(refused.to_owned());
                }
                self.delegated_steps = self.delegated_steps.saturating_add(delegated.steps);
                self.spent.usage.add(&delegated.usage);
                self.spent.unpriced_calls += delegated.unpriced_calls;
                if let Some(cost) = delegated.cost_micros {
                    *self.spent.cost_micros.get_or_insert(0) += cost;
                }
            }
            Event::CompactionFinished { asked: Some(asked), .. }
            | Event::CompactionFailed { asked: Some(asked), .. } => {
                self.spend(&asked.usage, asked.cost_micros, asked.at_most.is_some());
            }
            _ => {}
        }
    }

    fn spend(&mut self, usage: &Usage, cost_micros: Option<u64>, is_open: bool) {
        self.spent.usage.add(usage);
        match cost_micros {
            Some(cost) => *self.spent.cost_micros.get_or_insert(0) += cost,
            None => self.spent.unpriced_calls += u32::from(usage.total() > 0 || is_open),
        }
    }

    /// The replies that count for the limit, with those of subagents that are over.
    fn counted_steps(&self) -> u32 {
        let own = match self.policy.steps.counted {
            StepsCounted::All => self.steps,
            StepsCounted::WithoutCalls => self.steps.saturating_sub(self.rounds),
        };
        own.saturating_add(self.delegated_steps)
    }

    /// Steps until the nearer of the two limits; a step that turns out to be free does not count for the first.
    pub(super) fn steps_left(&self) -> Option<u32> {
        let counted = self.policy.steps.max.map(|most| most.saturating_sub(self.counted_steps()));
        let of_any_kind = self.policy.steps.max_replies.map(|most| most.saturating_sub(self.steps));
        counted.into_iter().chain(of_any_kind).min()
    }

    /// Whether a model that goes round in circles may go on.
    pub(super) fn may_go_on(&self) -> Question {
        let title = "The model repeats itself. Let it go on?";
        let body = vec![QuestionBlock::Text { text: format!("{}: the same result each time", self.last_call) }];
        let choices = vec![Choice::new("yes", Decision::Approve), Choice::new("no", Decision::Deny(None))];
        Question::new(title, body, choices)
    }

    /// The end of a turn whose model goes round in circles.
    fn stuck(&self) -> Ending {
        let NoProgress { repeats, compare, .. } = self.policy.stuck;
        let what = match (progress::circle(self.policy.stuck, &self.recent), compare) {
            (Some(Circle::Two), _) => "the same two calls by turns, with the same results,",
            (_, Compare::Input) => "the same call",
            (_, Compare::InputAndResult) => "the same call with the same result",
        };
        Ending::new(TurnEnd::NoProgress, format!("{what} {repeats} times in a row"))
    }

    pub(super) fn out_of_steps(&self) -> Ending {
        Ending::reached(Why::Steps, format!("the limit on steps, {}, is reached", self.steps))
    }

    /// The end of a turn whose model has said its last word.
    pub(super) fn answered(&self) -> Ending {
        if let Some(detail) = self.refused_below.as_ref().filter(|_| self.unattended.is_empty()) {
            return Ending::new(TurnEnd::ToolDenied, format!("in a subagent, {detail}"));
        }
        if self.unattended.is_empty() {
            let is_cut = self.cut_replies > 0 && self.policy.replies.on_length == OnLength::End;
            let detail = is_cut.then(|| "the reply was cut at the model's output limit".to_owned());
            return Ending { end: TurnEnd::Completed, why: is_cut.then_some(Why::OutputLimit), detail };
        }
        let (tools, need) = (self.unattended.join(", "), if self.unattended.len() == 1 { "needs" } else { "need" });
        Ending::new(TurnEnd::ToolDenied, format!("{tools} {need} approval, and no terminal is attached"))
    }
}

impl Ending {
    pub(super) fn new(end: TurnEnd, detail: impl Into<String>) -> Self {
        Self { end, why: None, detail: Some(detail.into()) }
    }

    pub(super) fn because(self, why: Why) -> Self {
        Self { why: Some(why), ..self }
    }

    /// A limit is reached.
    pub(super) fn reached(why: Why, detail: impl Into<String>) -> Self {
        Self { end: why.end(), why: Some(why), detail: Some(detail.into()) }
    }

    pub(super) fn short(short: Short) -> Self {
        Self::reached(short.why, short.detail)
    }
}

pub(super) fn short(why: Option<Why>, detail: &str) -> Ending {
    // In journals from before there was a reason, it is the budget.
    Ending { why, ..Ending::new(why.map_or(TurnEnd::Budget, Why::end), detail) }
}

pub(super) fn canceled(by: &Canceller) -> Ending {
    match by {
        Canceller::User => Ending { end: TurnEnd::Canceled, why: None, detail: None },
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
pub(super) fn has_substance(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text { text, .. } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::Image { .. } | Part::ToolResult { .. } | Part::Note { .. } => true,
        Part::Reasoning { .. } => false,
    })
}
