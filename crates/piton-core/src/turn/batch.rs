//! The tool calls of one step, each with its state.
//!
//! ```text
//! New ─► Seen ─► MustAsk ─► Asking ─► Ready ─► Running ──► Settled
//!         │                    │                   │           ▲
//!         ├────────────────────┼──── Ready         └─ Stopping ┤
//!         └── refused ─────────┴── denied ── Unrun ─ Answered ─┘
//! ```
//!
//! `New` and `Unrun` wait for hooks, and so does `Asking` at first; where the turn has no such gate, they are passed over.
//!
//! Every call is settled by one event of its own, whether a tool ran or not: a step is over when each has its outcome,
//! in the order of the calls. Calls run side by side as their [`Effects`] let them: one that writes files waits for those
//! before it and holds up those after it, since a model that edits and then tests in one breath means that order.

use super::gate::{Askee, Gate};
use super::job::Job;
use crate::call::{Access, CallInput, Effects, Outcome, Picture, Planned, Status};
use crate::event::{Answerer, Author, Event, Moment, Subject, Verdict};
use crate::hook::{Gates, HookPoint, HookVerdict};
use crate::ids::{CallId, SessionId, TimeMs};
use crate::limits::MAX_CALLS_SIDE_BY_SIDE;
use crate::message::{Part, ToolCall};
use crate::permission::{Action, Rules};
use crate::policy::{Policy, Wording};
use crate::question::{Decision, Question, QuestionBlock, Target};
use serde_json::{Value, json};
use std::sync::Arc;

/// The calls of one step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    calls: Vec<CallEntry>,
    snapshot: SnapshotNeed,
    words: Wording,
    gates: Gates,
}

/// Whether the workspace has to be put down before a call may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnapshotNeed {
    /// No: undo is off, or it was done.
    NotNeeded,
    /// As soon as a call that may change it is ready to.
    Needed,
}

#[derive(Debug, Clone, PartialEq)]
struct CallEntry {
    call: Arc<ToolCall>,
    /// The call as the model made it, where a hook or a person changed its input.
    made: Option<Arc<ToolCall>>,
    /// Whether a person did, who is asked about it as they have made it.
    is_edited: bool,
    /// What its tool says of it, once it was judged.
    plan: Option<Box<Planned>>,
    /// Where a person alone can allow it: why.
    each_time: Option<Protection>,
    /// What a person was asked, where the journal says so.
    asked: Option<Box<Question>>,
    /// When that was.
    asked_ms: TimeMs,
    /// Whether a person said yes to it as it was asked.
    is_as_asked: bool,
    /// What hooks have said of it.
    said: Option<HookVerdict>,
    /// The subagent's session that answers it.
    child: Option<SessionId>,
    /// Hosts that its command waits for, each with what a person is asked about it.
    hosts: Vec<(String, Box<Question>)>,
    state: CallState,
}

/// Why a person alone can allow a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// The sandbox keeps it from what it wants.
    BySandbox,
    /// There is no sandbox.
    Other,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq)]
enum CallState {
    /// Hooks have not seen it yet.
    New,
    /// The rules have not judged it yet; this is what hooks say.
    Seen(Option<HookVerdict>),
    /// A person must be asked.
    MustAsk(Effects, AskedBy),
    /// A person is being asked.
    Asking(Effects, AskedBy, Askee),
    /// It may run as soon as its turn comes.
    Ready(Effects, AllowedBy),
    /// It has begun, in the epoch of this writer; only an outcome ends this.
    Running(Effects, u64),
    /// It has begun and shall stop.
    Stopping(Effects, u64),
    /// It will not run, and hooks have not seen its answer yet.
    Unrun(Outcome),
    /// It will not run: this is its answer, not yet on record.
    Answered(Outcome),
    /// It has its result. `ran` tells whether a tool was involved.
    Settled { outcome: Outcome, ran: bool },
}

/// Who wants a person to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedBy {
    /// The rules in force: when these change, nobody need be asked any more.
    Rule,
    /// A hook, whatever the rules say.
    Hook,
}

/// Why a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedBy {
    /// The rules in force say so.
    Rule,
    /// A person said so.
    Person,
}

/// What a finished step's calls came to.
pub(super) struct Results {
    /// One result per call, in order.
    pub(super) parts: Vec<Part>,
    /// The last call in a few words.
    pub(super) last: String,
    /// The calls, in order.
    pub(super) calls: Vec<Arc<ToolCall>>,
    /// How many calls a tool really ran.
    pub(super) ran: u32,
}

impl Batch {
    /// The calls of a reply. Calls whose input could not be read, and those beyond `most`, are answered, not run.
    pub(super) fn new(calls: Vec<Arc<ToolCall>>, policy: &Policy) -> Self {
        let (most, words, gates) = (policy.calls.max_per_step, policy.replies.words, &policy.hooks.gates);
        let calls = calls.into_iter().enumerate().map(|(position, call)| {
            let state = match &call.input {
                CallInput::Invalid { error, .. } => CallState::answered(
                    Outcome::failed(format!(
                        "The call was not run: its arguments are {error}. Call {} again with a complete JSON object.",
                        call.name
                    )),
                    gates,
                ),
                CallInput::Json(_) if position >= most => CallState::answered(
                    Outcome::failed(format!("The call was not run: at most {most} calls are accepted in one reply.")),
                    gates,
                ),
                CallInput::Json(_) => CallState::first(gates),
            };
            CallEntry {
                call,
                made: None,
                is_edited: false,
                plan: None,
                each_time: None,
                asked: None,
                asked_ms: 0,
                is_as_asked: false,
                said: None,
                child: None,
                hosts: Vec::new(),
                state,
            }
        });
        let calls = calls.collect();
        let snapshot = if policy.snapshots { SnapshotNeed::Needed } else { SnapshotNeed::NotNeeded };
        Self { calls, snapshot, words, gates: gates.clone() }
    }

    /// Answers every call that has not begun with this outcome, and makes those that have begun stop.
    pub(super) fn stop(mut self, unrun: &Outcome) -> Self {
        for entry in &mut self.calls {
            entry.state = match std::mem::replace(&mut entry.state, CallState::New) {
                CallState::New
                | CallState::Seen(_)
                | CallState::MustAsk(..)
                | CallState::Asking(..)
                | CallState::Ready(..) => CallState::Answered(unrun.clone()),
                CallState::Running(class, epoch) | CallState::Stopping(class, epoch) => {
                    CallState::Stopping(class, epoch)
                }
                // Who stops a turn does not wait for hooks.
                CallState::Unrun(outcome) => CallState::Answered(outcome),
                done @ (CallState::Answered(_) | CallState::Settled { .. }) => done,
            };
        }
        self
    }

    /// Settles every open call with this outcome, whatever it was doing.
    pub(super) fn give_up(mut self, outcome: &Outcome) -> Self {
        for entry in &mut self.calls {
            if !matches!(entry.state, CallState::Settled { .. }) {
                entry.state = CallState::Settled { outcome: outcome.clone(), ran: false };
            }
        }
        self
    }

    /// Lets the rules see every call again that has not begun, except those that a person has allowed: who goes on with
    /// the turn has rules and hooks of its own. They see what the model or a person wrote, not what hooks before them made of it.
    pub(super) fn judge_again(mut self, gates: &Gates) -> Self {
        self.gates = gates.clone();
        for entry in &mut self.calls {
            if let CallState::New
            | CallState::Seen(_)
            | CallState::MustAsk(..)
            | CallState::Asking(..)
            | CallState::Ready(_, AllowedBy::Rule) = entry.state
            {
                entry.state = CallState::first(gates);
                entry.said = None;
                if !entry.is_edited {
                    entry.call = entry.made.take().unwrap_or_else(|| Arc::clone(&entry.call));
                }
            }
        }
        self
    }

    /// Lets the rules see every call again that they have let pass and that has not begun. What hooks said of it counts still.
    pub(super) fn judge_allowed_again(mut self) -> Self {
        for entry in &mut self.calls {
            if let CallState::MustAsk(_, AskedBy::Rule) | CallState::Ready(_, AllowedBy::Rule) = entry.state {
                entry.plan = None;
                entry.state = CallState::Seen(entry.said.clone());
            }
        }
        self
    }

    /// Answers the last call, if it has not begun.
    pub(super) fn refuse_last(mut self, outcome: Outcome) -> Self {
        let is_unjudged = |entry: &&mut CallEntry| matches!(entry.state, CallState::New | CallState::Seen(_));
        if let Some(entry) = self.calls.last_mut().filter(is_unjudged) {
            entry.state = CallState::answered(outcome, &self.gates);
        }
        self
    }

    /// Takes an event about one call, recorded by the writer of this epoch at this time. Events that come too late for the
    /// call's state change nothing.
    pub(super) fn apply(mut self, event: &mut Event, epoch: u64, at_ms: TimeMs) -> Self {
        match event {
            Event::SnapshotTaken { .. } => self.snapshot = SnapshotNeed::NotNeeded,
            Event::HooksRan { point, call: Some(call), input, verdict, .. } => {
                self.change(call, |entry, _, _| entry.pass(*point, input.as_ref(), verdict.take()));
            }
            Event::CallRequested { call, input, author, effects, verdict, plan, judged } => {
                let each_time = judged.as_deref().filter(|judged| judged.each_time);
                let each_time = each_time.map(|judged| match judged.confined {
                    true => Protection::BySandbox,
                    false => Protection::Other,
                });
                self.change(call, |entry, _, gates| {
                    if let CallState::Seen(_) = entry.state {
                        (entry.plan, entry.each_time) = (plan.take(), each_time);
                        entry.request(input.as_ref(), *author, *effects, verdict, gates);
                    }
                });
            }
            Event::ApprovalAsked { subject: Subject::Call(call), question } => self.change(call, |entry, _, gates| {
                if let CallState::MustAsk(effects, by) = entry.state {
                    (entry.asked, entry.asked_ms) = (question.take(), at_ms);
                    entry.state = CallState::Asking(effects, by, Askee::first(gates));
                }
            }),
            Event::ApprovalGiven { subject: Subject::Call(call), decision, by } => {
                self.change(call, |entry, words, gates| match (&*decision, by) {
                    (Decision::ApproveChanged(input), Some(Answerer::User)) if entry.is_about_a_plan() => {
                        entry.ask_about(input);
                    }
                    _ => entry.decide(decision, words, gates),
                });
            }
            Event::ApprovalAsked { subject: Subject::Host { call, host }, question } => {
                self.change(call, |entry, _, _| {
                    if let (CallState::Running(..), Some(question)) = (&entry.state, question.take()) {
                        entry.hosts.push((host.clone(), question));
                    }
                });
            }
            Event::ApprovalGiven { subject: Subject::Host { call, host }, .. } => {
                self.change(call, |entry, _, _| entry.hosts.retain(|(open, _)| open != host));
            }
            Event::CallStarted { call } => self.change(call, |entry, _, _| {
                if let CallState::Ready(effects, _) = entry.state {
                    entry.state = CallState::Running(effects, epoch);
                }
            }),
            Event::Delegated { call, child, .. } => self.change(call, |entry, _, _| {
                entry.child = Some(child.clone());
            }),
            Event::ApprovalVoided { subject: Subject::Call(call), .. } => self.change(call, |entry, _, _| {
                if let CallState::Running(..) = entry.state {
                    entry.asked = None;
                    entry.plan = None;
                    entry.state = CallState::Seen(None);
                }
            }),
            Event::CallSettled { call, outcome } => self.change(call, |entry, _, _| {
                let ran = matches!(entry.state, CallState::Running(..) | CallState::Stopping(..));
                if ran || matches!(entry.state, CallState::Answered(_)) {
                    let taken = Outcome::new(outcome.status, "");
                    entry.state = CallState::Settled { outcome: std::mem::replace(outcome, taken), ran };
                }
            }),
            _ => {}
        }
        self
    }

    /// Every result in the order of the calls, or the batch back while one is open.
    pub(super) fn into_results(self) -> Result<Results, Self> {
        if !self.calls.iter().all(|entry| matches!(entry.state, CallState::Settled { .. })) {
            return Err(self);
        }
        let last = self.calls.last().map(CallEntry::in_words).unwrap_or_default();
        // A session keeps the parts of each step: room for more than there are would be half of its memory.
        let (parts, calls) = (Vec::with_capacity(self.calls.len()), Vec::with_capacity(self.calls.len()));
        let mut results = Results { parts, last, calls, ran: 0 };
        for CallEntry { call, made, state, .. } in self.calls {
            let CallState::Settled { mut outcome, ran } = state else { continue };
            if let CallInput::Json(input) = &call.input
                && made.is_some()
            {
                outcome.note_input(input.clone());
            }
            results.ran += u32::from(ran);
            let tool = call.spelling().to_owned();
            let pictures = std::mem::take(&mut outcome.pictures);
            results.parts.push(Part::ToolResult { call: call.id.clone(), tool, outcome });
            // They stand behind the result that they belong to.
            let picture = |Picture { media_type, data }| Part::Image { media_type, data };
            results.parts.extend(pictures.into_iter().map(picture));
            results.calls.push(call);
        }
        Ok(results)
    }

    /// What should be recorded next, without anything from outside.
    pub(super) fn due(&self) -> Option<Event> {
        self.calls.iter().enumerate().find_map(|(position, entry)| match &entry.state {
            CallState::MustAsk(..) => Some(Event::ApprovalAsked {
                subject: Subject::Call(entry.call.id.clone()),
                question: Some(Box::new(entry.question())),
            }),
            CallState::Ready(effects, _) if self.is_free(position, *effects) && !self.waits_for_snapshot(*effects) => {
                Some(Event::CallStarted { call: entry.call.id.clone() })
            }
            CallState::Answered(outcome) => {
                Some(Event::CallSettled { call: entry.call.id.clone(), outcome: outcome.clone() })
            }
            CallState::New
            | CallState::Seen(_)
            | CallState::Asking(..)
            | CallState::Ready(..)
            | CallState::Running(..)
            | CallState::Stopping(..)
            | CallState::Unrun(_)
            | CallState::Settled { .. } => None,
        })
    }

    /// What should be under way.
    pub(super) fn wanted(&self) -> Vec<Job> {
        let job = |entry: &CallEntry| match entry.state {
            CallState::New => Some(Job::Pass(Gate::BeforeTool(entry.call.id.clone()))),
            CallState::Seen(_) => Some(Job::JudgeCall(entry.call.clone())),
            CallState::Asking(_, _, Askee::Hooks) => {
                Some(Job::Pass(Gate::Question(Subject::Call(entry.call.id.clone()))))
            }
            CallState::Asking(_, _, Askee::Person) => Some(Job::AskApproval(Subject::Call(entry.call.id.clone()))),
            CallState::Running(..) => Some(Job::RunTool(entry.call.clone())),
            CallState::Stopping(..) => Some(Job::StopTool(entry.call.clone())),
            CallState::Unrun(_) => Some(Job::Pass(Gate::AfterTool(entry.call.id.clone()))),
            CallState::MustAsk(..) | CallState::Ready(..) | CallState::Answered(_) | CallState::Settled { .. } => None,
        };
        let mut jobs: Vec<Job> = self.calls.iter().filter_map(job).collect();
        jobs.extend(self.calls.iter().filter_map(CallEntry::time_to_answer));
        jobs.extend(self.calls.iter().flat_map(CallEntry::hosts_to_ask_about));
        let waits = |(position, entry): (usize, &CallEntry)| match entry.state {
            CallState::Ready(effects, _) => self.waits_for_snapshot(effects) && self.is_free(position, effects),
            _ => false,
        };
        if self.calls.iter().enumerate().any(waits) {
            jobs.push(Job::Snapshot(Moment::Before));
        }
        jobs
    }

    /// The call with this id.
    pub(super) fn call(&self, id: &CallId) -> Option<&Arc<ToolCall>> {
        self.entry(id).map(|entry| &entry.call)
    }

    /// What hooks say of this call, which the rules have yet to judge.
    pub(super) fn hook_verdict(&self, id: &CallId) -> Option<&HookVerdict> {
        match &self.entry(id)?.state {
            CallState::Seen(verdict) => verdict.as_ref(),
            _ => None,
        }
    }

    /// The input of this call as somebody changed it.
    pub(super) fn changed_input(&self, id: &CallId) -> Option<&Value> {
        self.entry(id).filter(|entry| entry.made.is_some())?.call.input.value()
    }

    /// The answer of this call that hooks have yet to see.
    pub(super) fn unrun(&self, id: &CallId) -> Option<&Outcome> {
        match &self.entry(id)?.state {
            CallState::Unrun(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The epoch of the writer that started this call.
    pub(super) fn started_in(&self, id: &CallId) -> Option<u64> {
        match self.entry(id)?.state {
            CallState::Running(_, epoch) | CallState::Stopping(_, epoch) => Some(epoch),
            _ => None,
        }
    }

    /// Whether the question about this call waits for its answer.
    pub(super) fn is_asking(&self, id: &CallId) -> bool {
        self.entry(id).is_some_and(|entry| matches!(entry.state, CallState::Asking(..)))
    }

    /// What is on record of the call with this id, once it was judged and until it is answered.
    pub(super) fn effects(&self, id: &CallId) -> Option<Effects> {
        match self.entry(id)?.state {
            CallState::MustAsk(effects, _)
            | CallState::Asking(effects, _, _)
            | CallState::Ready(effects, _)
            | CallState::Running(effects, _)
            | CallState::Stopping(effects, _) => Some(effects),
            CallState::New
            | CallState::Seen(_)
            | CallState::Unrun(_)
            | CallState::Answered(_)
            | CallState::Settled { .. } => None,
        }
    }

    /// The rules that an "always" to the call with this id adds, where the question says so.
    pub(super) fn offered_grants(&self, id: &CallId) -> Option<Rules> {
        Some(self.entry(id)?.asked.as_ref()?.grants(&Decision::ApproveForSession))
    }

    /// What a person's yes to the call with this id is bound to, where the journal says so and they did not change the call.
    pub(super) fn bound(&self, id: &CallId) -> Option<(&Planned, &[Target])> {
        let entry = self.entry(id)?;
        let question = entry.asked.as_deref()?;
        let plan = entry.plan.as_deref()?;
        entry.is_as_asked.then_some((plan, question.bound.as_slice()))
    }

    /// Whether a person was asked about this call.
    pub(super) fn was_asked(&self, id: &CallId) -> bool {
        self.entry(id).is_some_and(|entry| entry.asked.is_some())
    }

    /// Whether the call with this id puts questions of the model's own to a person.
    pub(super) fn is_inquiry(&self, id: &CallId) -> bool {
        let asked = self.entry(id).and_then(|entry| entry.asked.as_deref());
        asked.is_some_and(|question| question.inquiry.is_some())
    }

    /// The question about the call with this id, where one waits for its answer.
    pub(super) fn question(&self, id: &CallId) -> Option<Question> {
        let entry = self.entry(id).filter(|_| self.is_asking(id))?;
        Some(entry.asked.as_deref().cloned().unwrap_or_else(|| entry.question()))
    }

    /// The question about a host that the command of this call waits for.
    pub(super) fn question_of_host(&self, id: &CallId, host: &str) -> Option<&Question> {
        let entry = self.entry(id).filter(|entry| matches!(entry.state, CallState::Running(..)))?;
        entry.hosts.iter().find(|(open, _)| open == host).map(|(_, question)| &**question)
    }

    /// Another process goes on with the session: what connections waited for is gone with them.
    pub(super) fn without_hosts(mut self) -> Self {
        self.calls.iter_mut().for_each(|entry| entry.hosts.clear());
        self
    }

    /// What its tool says of the call with this id, once it was judged.
    pub(super) fn plan(&self, id: &CallId) -> Option<&Planned> {
        self.entry(id)?.plan.as_deref()
    }

    /// The subagents' sessions that answer open calls.
    pub(super) fn children(&self) -> impl Iterator<Item = &SessionId> {
        let open = self.calls.iter().filter(|entry| !matches!(entry.state, CallState::Settled { .. }));
        open.filter_map(|entry| entry.child.as_ref())
    }

    /// The subagent's session that answers this open call.
    pub(super) fn child(&self, id: &CallId) -> Option<&SessionId> {
        self.entry(id)?.child.as_ref()
    }

    /// Whether a hook wants a person to be asked about this call, whatever the rules say.
    pub(super) fn is_asked_by_hook(&self, id: &CallId) -> bool {
        let by_hook = |state: &CallState| {
            matches!(state, CallState::MustAsk(_, AskedBy::Hook) | CallState::Asking(_, AskedBy::Hook, _))
        };
        self.entry(id).is_some_and(|entry| by_hook(&entry.state))
    }

    fn entry(&self, id: &CallId) -> Option<&CallEntry> {
        self.calls.iter().find(|entry| entry.call.id == *id)
    }

    fn change(&mut self, id: &CallId, change: impl FnOnce(&mut CallEntry, Wording, &Gates)) {
        if let Some(entry) = self.calls.iter_mut().find(|entry| entry.call.id == *id) {
            change(entry, self.words, &self.gates);
        }
    }

    fn waits_for_snapshot(&self, effects: Effects) -> bool {
        self.snapshot == SnapshotNeed::Needed && effects.need_snapshot()
    }

    /// Whether nothing before this call holds it up, and there is room beside those that run.
    fn is_free(&self, position: usize, effects: Effects) -> bool {
        let runs = |entry: &&CallEntry| matches!(entry.state, CallState::Running(..) | CallState::Stopping(..));
        let has_room = self.calls.iter().filter(runs).count() < MAX_CALLS_SIDE_BY_SIDE;
        has_room
            && self.calls[..position].iter().all(|earlier| match earlier.state {
                CallState::Unrun(_) | CallState::Answered(_) | CallState::Settled { .. } => true,
                CallState::New | CallState::Seen(_) => false,
                CallState::MustAsk(other, _)
                | CallState::Asking(other, _, _)
                | CallState::Ready(other, _)
                | CallState::Running(other, _)
                | CallState::Stopping(other, _) => effects.beside.may_run_with(other.beside),
            })
    }
}

impl CallState {
    /// Where a call begins.
    fn first(gates: &Gates) -> Self {
        if gates.has(HookPoint::BeforeTool) { Self::New } else { Self::Seen(None) }
    }

    /// The call has an answer without a tool.
    fn answered(outcome: Outcome, gates: &Gates) -> Self {
        if gates.has(HookPoint::AfterTool) { Self::Unrun(outcome) } else { Self::Answered(outcome) }
    }
}

impl CallEntry {
    /// Hooks have seen it, where it waits for them.
    fn pass(&mut self, point: HookPoint, input: Option<&Value>, verdict: Option<HookVerdict>) {
        self.state = match (std::mem::replace(&mut self.state, CallState::New), point) {
            (CallState::New, HookPoint::BeforeTool) => {
                if let Some(input) = input {
                    self.change_input(input);
                }
                self.said.clone_from(&verdict);
                CallState::Seen(verdict)
            }
            (CallState::Asking(effects, by, Askee::Hooks), HookPoint::Approval) => {
                CallState::Asking(effects, by, Askee::Person)
            }
            (CallState::Unrun(outcome), HookPoint::AfterTool) => CallState::Answered(outcome),
            (state, _) => state,
        };
    }

    fn request(&mut self, input: Option<&Value>, author: Author, effects: Effects, verdict: &Verdict, gates: &Gates) {
        match (input, author) {
            (Some(input), Author::Hook) => self.change_input(input),
            // The model's own, in the tool's field names.
            (Some(input), Author::Model) if self.call.input.value() != Some(input) => {
                Arc::make_mut(&mut self.call).input = CallInput::Json(input.clone());
            }
            (_, Author::Model) | (None, Author::Hook) => {}
        }
        self.state = match verdict {
            Verdict::Allow => CallState::Ready(effects, AllowedBy::Rule),
            Verdict::Ask => CallState::MustAsk(effects, AskedBy::Rule),
            Verdict::AskFirst(_) => CallState::MustAsk(effects, AskedBy::Hook),
            Verdict::Deny(text) => CallState::answered(denied(text, "rule"), gates),
            Verdict::Refuse(text) => CallState::answered(Outcome::failed(text), gates),
        };
    }

    /// The call in a few words: `bash cargo test`.
    fn in_words(&self) -> String {
        let title = self.plan.as_ref().map(|plan| plan.title.as_str()).unwrap_or_default();
        format!("{} {title}", self.call.name).trim_end().to_owned()
    }

    /// What is asked where nobody has worded it: in a journal that was cut off before version 4.
    fn question(&self) -> Question {
        let json = self.call.input.value().map(Value::to_string).unwrap_or_default();
        let mut remember = Rules::default();
        remember.push(&self.call.name, Action::Allow);
        Question::may_run(format!("Use {}?", self.call.name), vec![QuestionBlock::Json { json }], remember)
    }

    /// The rule by which a user would open the hosts that this call would reach, where it would.
    fn opening(&self) -> String {
        match self.each_time {
            Some(Protection::BySandbox) => {
                return " No rule and no mode allows it: a person is asked each time. Start Piton in a terminal to be asked, or run \
                        everything without the sandbox (`--sandbox off`)."
                    .to_owned();
            }
            Some(Protection::Other) => {
                return " No rule and no mode allows it: a person is asked each time. Start Piton in a terminal to be asked."
                    .to_owned();
            }
            None => {}
        }
        let accesses = self.plan.as_ref().map(|plan| plan.accesses.as_slice()).unwrap_or_default();
        let hosts = accesses.iter().filter_map(|access| match access {
            Access::Reach(host) => Some(format!("`--allow 'net(domain:{host})'`")),
            _ => None,
        });
        match hosts.collect::<Vec<_>>().as_slice() {
            // Of a command there is more to allow than its hosts.
            [] => String::new(),
            _ if accesses.iter().any(|access| matches!(access, Access::Run(_))) => String::new(),
            hosts => format!(" Whoever starts Piton can allow it by {}.", hosts.join(" ")),
        }
    }

    fn change_input(&mut self, input: &Value) {
        self.made.get_or_insert_with(|| Arc::clone(&self.call));
        Arc::make_mut(&mut self.call).input = CallInput::Json(input.clone());
    }

    /// The wait for the end of the time in which a person may answer, where there is one.
    fn time_to_answer(&self) -> Option<Job> {
        let CallState::Asking(_, _, Askee::Person) = self.state else { return None };
        let seconds = self.asked.as_ref()?.inquiry.as_ref()?.seconds?;
        let until_ms = self.asked_ms.saturating_add(u64::from(seconds) * 1000);
        Some(Job::AwaitAnswer { subject: Subject::Call(self.call.id.clone()), until_ms })
    }

    /// What a person is asked while the command runs.
    fn hosts_to_ask_about(&self) -> impl Iterator<Item = Job> {
        let open = if matches!(self.state, CallState::Running(..)) { &self.hosts[..] } else { &[] };
        open.iter().map(|(host, _)| Job::AskApproval(Subject::Host { call: self.call.id.clone(), host: host.clone() }))
    }

    fn is_about_a_plan(&self) -> bool {
        let inquiry = self.asked.as_ref().and_then(|question| question.inquiry.as_ref());
        matches!(self.state, CallState::Asking(..)) && inquiry.is_some_and(|inquiry| inquiry.plan.is_some())
    }

    /// A person has changed the plan: they are asked about what they have made of it.
    fn ask_about(&mut self, input: &Value) {
        self.change_input(input);
        (self.is_edited, self.asked, self.plan) = (true, None, None);
        self.state = CallState::Seen(self.said.clone());
    }

    fn decide(&mut self, decision: &Decision, words: Wording, gates: &Gates) {
        let CallState::Asking(effects, _, _) = self.state else { return };
        if let Some(inquiry) = self.asked.as_ref().and_then(|question| question.inquiry.as_ref()) {
            self.state = CallState::answered(inquiry.outcome(decision.given()), gates);
            return;
        }
        self.is_as_asked = decision.is_yes();
        self.state = match decision {
            Decision::Approve | Decision::ApproveForSession | Decision::ApproveLasting(_) => {
                CallState::Ready(effects, AllowedBy::Person)
            }
            Decision::ApproveChanged(input) if input.is_object() => {
                self.change_input(input);
                CallState::Ready(effects, AllowedBy::Person)
            }
            Decision::ApproveChanged(_) => {
                let text = "The call was not run: what the user has made of its arguments is no JSON object.";
                CallState::answered(Outcome::failed(text), gates)
            }
            Decision::Deny(said) => {
                let said = said.as_deref().map_or(String::new(), |said| format!(" They said: {said}"));
                let text = words.denied(format!("The user did not allow this call; it was not run.{said}"));
                CallState::answered(denied(text, "user"), gates)
            }
            Decision::Answered(_) => {
                let text = "The call was not run: the question whether it may was answered by neither yes nor no.";
                CallState::answered(Outcome::failed(text), gates)
            }
            Decision::Unattended | Decision::Expired => {
                let text = words.denied(format!(
                    "The call was not run: {} needs an approval and nobody is there to give it.{} Do what can be done \
                     without it, or say what you would have done.",
                    self.call.name,
                    self.opening()
                ));
                CallState::answered(denied(text, "nobody"), gates)
            }
        };
    }
}

/// A refused call, with who refused it.
fn denied(text: impl Into<String>, by: &str) -> Outcome {
    Outcome::new(Status::Denied, text).with(json!({ "by": by }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::{Inquiry, InquiryQuestion};

    /// A batch of one call whose input a hook has changed, about which a person is asked.
    fn asked(verdict: Verdict) -> Batch {
        let id = CallId::from("c1_0");
        let input = CallInput::Json(json!({"command": "real"}));
        let call =
            ToolCall { id: id.clone(), provider_id: None, name: "bash".into(), spelling: None, input, opaque: None };
        let wrapped = json!({"command": "echo wrapped; real"});
        let requested = Event::CallRequested {
            call: id.clone(),
            input: Some(wrapped),
            author: Author::Hook,
            effects: Effects::OPAQUE,
            verdict,
            plan: None,
            judged: None,
        };
        [requested, Event::ApprovalAsked { subject: Subject::Call(id), question: None }]
            .iter_mut()
            .fold(Batch::new(vec![Arc::new(call)], &Policy::piton()), |batch, event| batch.apply(event, 1, 0))
    }

    fn input(batch: &Batch) -> Value {
        batch.call(&CallId::from("c1_0")).map(|call| json!(call.input)["json"]["command"].clone()).unwrap_or_default()
    }

    #[test]
    fn a_call_that_is_judged_again_is_what_the_model_made() {
        let batch = asked(Verdict::Ask);
        assert_eq!(input(&batch), "echo wrapped; real");
        let again = batch.clone().judge_again(&Gates::default());
        assert_eq!(input(&again), "real");
        assert!(matches!(again.wanted()[..], [Job::JudgeCall(_)]));
        let decision = Decision::Approve;
        let subject = Subject::Call(CallId::from("c1_0"));
        let approved = batch.apply(&mut Event::approval(subject, decision), 1, 0).judge_again(&Gates::default());
        assert_eq!(input(&approved), "echo wrapped; real", "what a person has seen and allowed is what runs");
    }

    #[test]
    fn what_the_model_asks_is_answered_in_words_and_no_tool_runs() {
        let id = CallId::from("c1_0");
        let subject = || Subject::Call(id.clone());
        let asked_at_7_s = |seconds| {
            let question = InquiryQuestion {
                question: "Which?".into(),
                default: vec!["the first".into()],
                ..InquiryQuestion::default()
            };
            let question = Question::inquire(Inquiry { questions: vec![question], seconds, plan: None }, None);
            let asks = |event: &mut Event, batch: Batch| batch.apply(event, 1, 7_000);
            let requested = Event::CallRequested {
                call: id.clone(),
                input: None,
                author: Author::Model,
                effects: Effects::READ,
                verdict: Verdict::Ask,
                plan: None,
                judged: None,
            };
            let input = CallInput::Json(json!({}));
            let call = ToolCall {
                id: id.clone(),
                provider_id: None,
                name: "ask_user".into(),
                spelling: None,
                input,
                opaque: None,
            };
            let new = Batch::new(vec![Arc::new(call)], &Policy::piton());
            let mut events =
                [requested, Event::ApprovalAsked { subject: subject(), question: Some(Box::new(question)) }];
            events.iter_mut().fold(new, |batch, event| asks(event, batch))
        };
        assert_eq!(asked_at_7_s(None).wanted(), [Job::AskApproval(subject())]);
        let batch = asked_at_7_s(Some(5));
        let waits = Job::AwaitAnswer { subject: subject(), until_ms: 12_000 };
        assert_eq!(batch.wanted(), [Job::AskApproval(subject()), waits]);
        let settled = |decision: Decision| {
            let answered = batch.clone().apply(&mut Event::approval(subject(), decision), 1, 8_000);
            assert_eq!(answered.wanted(), [], "nothing more is under way");
            match answered.due() {
                Some(Event::CallSettled { outcome, .. }) => (outcome.status, outcome.text),
                other => panic!("not settled: {other:?}"),
            }
        };
        let (status, text) = settled(Decision::Answered(vec![vec!["the second".into()]]));
        assert_eq!((status, text.as_str()), (Status::Ok, "The user answered.\n\nWhich?\n→ the second"));
        let (status, text) = settled(Decision::Expired);
        assert_eq!(status, Status::Ok);
        assert!(text.starts_with("Nobody answered within 5 s.") && text.contains("the first (the default)"), "{text}");
        assert_eq!(settled(Decision::Deny(None)).0, Status::Denied);
        let ordinary = asked(Verdict::Ask).apply(&mut Event::approval(subject(), Decision::Answered(vec![])), 1, 0);
        assert!(matches!(ordinary.due(), Some(Event::CallSettled { outcome, .. }) if outcome.status == Status::Failed));
    }

    #[test]
    fn a_host_is_asked_about_while_its_command_runs_and_no_longer() {
        let id = CallId::from("c1_0");
        let apply = |batch: Batch, mut event: Event| batch.apply(&mut event, 1, 0);
        let host = || Subject::Host { call: id.clone(), host: "new.test".into() };
        let question = || Question::may_run("Let this command reach new.test?", Vec::new(), Rules::default());
        let asks = || Event::ApprovalAsked { subject: host(), question: Some(Box::new(question())) };
        let ready = apply(asked(Verdict::Ask), Event::approval(Subject::Call(id.clone()), Decision::Approve));
        assert!(apply(ready.clone(), asks()).question_of_host(&id, "new.test").is_none(), "nothing runs yet");
        let running = apply(ready, Event::CallStarted { call: id.clone() });
        let waits = apply(running, asks());
        assert!(matches!(&waits.wanted()[..], [Job::RunTool(_), Job::AskApproval(subject)] if *subject == host()));
        assert!(waits.question_of_host(&id, "new.test").is_some());
        let runs_alone = |batch: &Batch| matches!(batch.wanted()[..], [Job::RunTool(_)]);
        assert!(runs_alone(&apply(waits.clone(), Event::approval(host(), Decision::Approve))));
        assert!(runs_alone(&waits.clone().without_hosts()), "who goes on with the session has none of its connections");
        let stopped = waits.clone().stop(&Outcome::failed("stopped"));
        assert!(matches!(stopped.wanted()[..], [Job::StopTool(_)]));
        let settled = Event::CallSettled { call: id.clone(), outcome: Outcome::ok("") };
        assert!(apply(waits, settled).wanted().is_empty());
    }

    #[test]
    fn a_hooks_question_is_known_as_one() {
        let id = CallId::from("c1_0");
        assert!(asked(Verdict::AskFirst("hmm".into())).is_asked_by_hook(&id));
        assert!(!asked(Verdict::Ask).is_asked_by_hook(&id));
    }
}
