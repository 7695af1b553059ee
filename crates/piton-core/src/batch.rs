//! The tool calls of one step, each with its state.
//!
//! ```text
//! New ─► MustAsk ─► Asking ─► Ready ─► Running ──► Settled
//!  │                  │                   │           ▲
//!  ├──────────────────┼──── Ready         └─ Stopping ┤
//!  └── refused ───────┴── denied ───────── Answered ──┘
//! ```
//!
//! Every call is settled by one event of its own, whether a tool ran or not: a step is over when each has its outcome,
//! in the order of the calls. Calls run side by side as their [`Effects`] let them: one that writes files waits for those
//! before it and holds up those after it, since a model that edits and then tests in one breath means that order.

use crate::call::{CallInput, Effects, Outcome, Planned, Status};
use crate::event::{Author, Event, Moment, Subject, Verdict};
use crate::ids::CallId;
use crate::message::{Part, ToolCall};
use crate::permission::Rules;
use crate::policy::Words;
use crate::question::{Block, Decision, Question};
use crate::turn::Job;
use serde_json::{Value, json};
use std::sync::Arc;

/// The calls of one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Batch {
    calls: Vec<Entry>,
    snapshot: Snapshot,
    words: Words,
}

/// Whether the workspace has to be put down before a call may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// No: undo is off, or it was done.
    NotNeeded,
    /// As soon as a call that may change it is ready to.
    Needed,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    call: Arc<ToolCall>,
    /// The call as the model made it, where a hook or a person changed its input.
    made: Option<Arc<ToolCall>>,
    /// What its tool says of it, once it was judged.
    plan: Option<Box<Planned>>,
    /// The rules that an "always" adds, once a person was asked.
    grants: Option<Rules>,
    state: CallState,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq)]
enum CallState {
    /// Hooks and rules have not seen it yet.
    New,
    /// A person must be asked.
    MustAsk(Effects, AskedBy),
    /// A person is being asked.
    Asking(Effects, AskedBy),
    /// It may run as soon as its turn comes.
    Ready(Effects, AllowedBy),
    /// It has begun; only an outcome ends this.
    Running(Effects),
    /// It has begun and shall stop.
    Stopping(Effects),
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
pub(crate) struct Results {
    /// One result per call, in order.
    pub(crate) parts: Vec<Part>,
    /// The last call in a few words.
    pub(crate) last: String,
    /// The calls, in order.
    pub(crate) calls: Vec<Arc<ToolCall>>,
    /// How many calls a tool really ran.
    pub(crate) ran: u32,
}

impl Batch {
    /// The calls of a reply. Calls whose input could not be read, and those beyond `most`, are answered, not run.
    pub(crate) fn new(calls: Vec<Arc<ToolCall>>, most: usize, snapshot: Snapshot, words: Words) -> Self {
        let calls = calls.into_iter().enumerate().map(|(position, call)| {
            let state = match &call.input {
                CallInput::Invalid { error, .. } => CallState::Answered(Outcome::failed(format!(
                    "The call was not run: its arguments are {error}. Call {} again with a complete JSON object.",
                    call.name
                ))),
                CallInput::Json(_) if position >= most => CallState::Answered(Outcome::failed(format!(
                    "The call was not run: at most {most} calls are accepted in one reply."
                ))),
                CallInput::Json(_) => CallState::New,
            };
            Entry { call, made: None, plan: None, grants: None, state }
        });
        Self { calls: calls.collect(), snapshot, words }
    }

    /// Answers every call that has not begun with this outcome, and makes those that have begun stop.
    pub(crate) fn stop(mut self, unrun: &Outcome) -> Self {
        for entry in &mut self.calls {
            entry.state = match std::mem::replace(&mut entry.state, CallState::New) {
                CallState::New | CallState::MustAsk(..) | CallState::Asking(..) | CallState::Ready(..) => {
                    CallState::Answered(unrun.clone())
                }
                CallState::Running(effects) | CallState::Stopping(effects) => CallState::Stopping(effects),
                done @ (CallState::Answered(_) | CallState::Settled { .. }) => done,
            };
        }
        self
    }

    /// Settles every open call with this outcome, whatever it was doing.
    pub(crate) fn give_up(mut self, outcome: &Outcome) -> Self {
        for entry in &mut self.calls {
            if !matches!(entry.state, CallState::Settled { .. }) {
                entry.state = CallState::Settled { outcome: outcome.clone(), ran: false };
            }
        }
        self
    }

    /// Lets the rules see every call again that has not begun, except those that a person has allowed: who goes on with
    /// the turn has rules and hooks of its own. They see what the model wrote, not what hooks before them made of it.
    pub(crate) fn judge_again(mut self) -> Self {
        for entry in &mut self.calls {
            if let CallState::MustAsk(..) | CallState::Asking(..) | CallState::Ready(_, AllowedBy::Rule) = entry.state {
                entry.state = CallState::New;
                entry.call = entry.made.take().unwrap_or_else(|| Arc::clone(&entry.call));
            }
        }
        self
    }

    /// Answers the last call, if it has not begun.
    pub(crate) fn refuse_last(mut self, outcome: Outcome) -> Self {
        if let Some(entry) = self.calls.last_mut().filter(|entry| entry.state == CallState::New) {
            entry.state = CallState::Answered(outcome);
        }
        self
    }

    /// Takes an event about one call. Events that come too late for the call's state change nothing.
    pub(crate) fn apply(mut self, event: &mut Event) -> Self {
        match event {
            Event::SnapshotTaken { .. } => self.snapshot = Snapshot::NotNeeded,
            Event::CallRequested { call, input, author, effects, verdict, plan } => {
                self.change(call, |entry| {
                    if entry.state == CallState::New {
                        entry.plan = plan.take();
                        entry.request(input.as_ref(), *author, *effects, verdict);
                    }
                });
            }
            Event::ApprovalAsked { subject: Subject::Call(call), question } => self.change(call, |entry| {
                if let CallState::MustAsk(effects, by) = entry.state {
                    entry.grants = question.as_ref().map(|question| question.grants(&Decision::ApproveForSession));
                    entry.state = CallState::Asking(effects, by);
                }
            }),
            Event::ApprovalGiven { subject: Subject::Call(call), decision, .. } => {
                let words = self.words;
                self.change(call, |entry| entry.decide(decision, words));
            }
            Event::CallStarted { call } => self.change(call, |entry| {
                if let CallState::Ready(effects, _) = entry.state {
                    entry.state = CallState::Running(effects);
                }
            }),
            Event::CallSettled { call, outcome } => self.change(call, |entry| {
                let ran = matches!(entry.state, CallState::Running(_) | CallState::Stopping(_));
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
    pub(crate) fn into_results(self) -> Result<Results, Self> {
        if !self.calls.iter().all(|entry| matches!(entry.state, CallState::Settled { .. })) {
            return Err(self);
        }
        let last = self.calls.last().map(Entry::in_words).unwrap_or_default();
        let mut results = Results { parts: Vec::new(), last, calls: Vec::new(), ran: 0 };
        for Entry { call, made, state, .. } in self.calls {
            let CallState::Settled { mut outcome, ran } = state else { continue };
            if let CallInput::Json(input) = &call.input
                && made.is_some()
            {
                outcome.note_input(input.clone());
            }
            results.ran += u32::from(ran);
            let tool = call.spelling().to_owned();
            results.parts.push(Part::ToolResult { call: call.id.clone(), tool, outcome });
            results.calls.push(call);
        }
        Ok(results)
    }

    /// What should be recorded next, without anything from outside.
    pub(crate) fn due(&self) -> Option<Event> {
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
            | CallState::Asking(..)
            | CallState::Ready(..)
            | CallState::Running(_)
            | CallState::Stopping(_)
            | CallState::Settled { .. } => None,
        })
    }

    /// What should be under way.
    pub(crate) fn wanted(&self) -> Vec<Job> {
        let job = |entry: &Entry| match entry.state {
            CallState::New => Some(Job::JudgeCall(entry.call.clone())),
            CallState::Asking(..) => Some(Job::AskApproval(Subject::Call(entry.call.id.clone()))),
            CallState::Running(_) => Some(Job::RunTool(entry.call.clone())),
            CallState::Stopping(_) => Some(Job::StopTool(entry.call.clone())),
            CallState::MustAsk(..) | CallState::Ready(..) | CallState::Answered(_) | CallState::Settled { .. } => None,
        };
        let mut jobs: Vec<Job> = self.calls.iter().filter_map(job).collect();
        let waits = |(position, entry): (usize, &Entry)| match entry.state {
            CallState::Ready(effects, _) => self.waits_for_snapshot(effects) && self.is_free(position, effects),
            _ => false,
        };
        if self.calls.iter().enumerate().any(waits) {
            jobs.push(Job::Snapshot(Moment::Before));
        }
        jobs
    }

    /// The call with this id.
    pub(crate) fn call(&self, id: &CallId) -> Option<&Arc<ToolCall>> {
        self.calls.iter().map(|entry| &entry.call).find(|call| call.id == *id)
    }

    /// What is on record of the call with this id, once it was judged and until it is answered.
    pub(crate) fn effects(&self, id: &CallId) -> Option<Effects> {
        match self.calls.iter().find(|entry| entry.call.id == *id)?.state {
            CallState::MustAsk(effects, _)
            | CallState::Asking(effects, _)
            | CallState::Ready(effects, _)
            | CallState::Running(effects)
            | CallState::Stopping(effects) => Some(effects),
            CallState::New | CallState::Answered(_) | CallState::Settled { .. } => None,
        }
    }

    /// The rules that an "always" to the call with this id adds, where the question says so.
    pub(crate) fn offered_grants(&self, id: &CallId) -> Option<&Rules> {
        self.calls.iter().find(|entry| entry.call.id == *id)?.grants.as_ref()
    }

    /// What its tool says of the call with this id, once it was judged.
    pub(crate) fn plan(&self, id: &CallId) -> Option<&Planned> {
        self.calls.iter().find(|entry| entry.call.id == *id)?.plan.as_deref()
    }

    /// Whether a hook wants a person to be asked about this call, whatever the rules say.
    pub(crate) fn is_asked_by_hook(&self, id: &CallId) -> bool {
        let by_hook = |state: &CallState| {
            matches!(state, CallState::MustAsk(_, AskedBy::Hook) | CallState::Asking(_, AskedBy::Hook))
        };
        self.calls.iter().any(|entry| entry.call.id == *id && by_hook(&entry.state))
    }

    fn change(&mut self, id: &CallId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.calls.iter_mut().find(|entry| entry.call.id == *id) {
            change(entry);
        }
    }

    fn waits_for_snapshot(&self, effects: Effects) -> bool {
        self.snapshot == Snapshot::Needed && effects.need_snapshot()
    }

    /// Whether nothing before this call holds it up.
    fn is_free(&self, position: usize, effects: Effects) -> bool {
        self.calls[..position].iter().all(|earlier| match earlier.state {
            CallState::Answered(_) | CallState::Settled { .. } => true,
            CallState::New => false,
            CallState::MustAsk(other, _)
            | CallState::Asking(other, _)
            | CallState::Ready(other, _)
            | CallState::Running(other)
            | CallState::Stopping(other) => effects.beside.may_run_with(other.beside),
        })
    }
}

impl Entry {
    fn request(&mut self, input: Option<&Value>, author: Author, effects: Effects, verdict: &Verdict) {
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
            Verdict::Deny(text) => CallState::Answered(denied(text, "rule")),
            Verdict::Refuse(text) => CallState::Answered(Outcome::failed(text)),
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
        Question::may_run(format!("Use {}?", self.call.name), vec![Block::Json { json }], "", Rules::default())
    }

    fn change_input(&mut self, input: &Value) {
        self.made.get_or_insert_with(|| Arc::clone(&self.call));
        Arc::make_mut(&mut self.call).input = CallInput::Json(input.clone());
    }

    fn decide(&mut self, decision: &Decision, words: Words) {
        let CallState::Asking(effects, _) = self.state else { return };
        self.state = match decision {
            Decision::Approve | Decision::ApproveForSession => CallState::Ready(effects, AllowedBy::Person),
            Decision::ApproveChanged(input) if input.is_object() => {
                self.change_input(input);
                CallState::Ready(effects, AllowedBy::Person)
            }
            Decision::ApproveChanged(_) => CallState::Answered(Outcome::failed(
                "The call was not run: what the user has made of its arguments is no JSON object.",
            )),
            Decision::Deny(said) => {
                let said = said.as_deref().map_or(String::new(), |said| format!(" They said: {said}"));
                let text = words.denied(format!("The user did not allow this call; it was not run.{said}"));
                CallState::Answered(denied(text, "user"))
            }
            Decision::Unattended => {
                let text = words.denied(format!(
                    "The call was not run: {} needs an approval and nobody is there to give it. Do what can be done \
                     without it, or say what you would have done.",
                    self.call.name
                ));
                CallState::Answered(denied(text, "nobody"))
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
        };
        [requested, Event::ApprovalAsked { subject: Subject::Call(id), question: None }]
            .iter_mut()
            .fold(Batch::new(vec![Arc::new(call)], 8, Snapshot::NotNeeded, Words::Piton), Batch::apply)
    }

    fn input(batch: &Batch) -> Value {
        batch.call(&CallId::from("c1_0")).map(|call| json!(call.input)["json"]["command"].clone()).unwrap_or_default()
    }

    #[test]
    fn a_call_that_is_judged_again_is_what_the_model_made() {
        let batch = asked(Verdict::Ask);
        assert_eq!(input(&batch), "echo wrapped; real");
        let again = batch.clone().judge_again();
        assert_eq!(input(&again), "real");
        assert!(matches!(again.wanted()[..], [Job::JudgeCall(_)]));
        let decision = Decision::Approve;
        let subject = Subject::Call(CallId::from("c1_0"));
        let approved = batch.apply(&mut Event::approval(subject, decision)).judge_again();
        assert_eq!(input(&approved), "echo wrapped; real", "what a person has seen and allowed is what runs");
    }

    #[test]
    fn a_hooks_question_is_known_as_one() {
        let id = CallId::from("c1_0");
        assert!(asked(Verdict::AskFirst("hmm".into())).is_asked_by_hook(&id));
        assert!(!asked(Verdict::Ask).is_asked_by_hook(&id));
    }
}
