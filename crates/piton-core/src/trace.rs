//! The loop trace: for each step one record of what went in, who was asked and how often, what came back after how
//! long, what it cost, what was run, and why the loop went on or stopped.
//!
//! It is read off the journal, so every session has one, also one that was killed. Nothing is recorded for it alone but
//! how long the first piece of a reply took.
//!
//! This module must not know: how a trace is shown or sent.

use crate::cache::{CacheLedger, Reading, Segment};
use crate::call::Status;
use crate::event::{Canceller, Decision, Event, Record, StepKind, Subject, Trigger, TurnEnd};
use crate::hook::{HookPoint, HookRun};
use crate::ids::{CallId, Seq, TimeMs};
use crate::message::{FinishReason, Part, Usage};
use crate::model::ModelErrorKind;
use serde::Serialize;

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepTrace {
    /// Where it begins in the journal.
    pub seq: Seq,
    /// Its turn.
    pub turn: u32,
    /// Counts the session's steps from 1.
    pub step: u32,
    /// What kind of step.
    pub kind: StepKind,
    /// When it began, in milliseconds since the Unix epoch.
    pub began_ms: TimeMs,
    /// When it was over; where it was cut, when the last of it happened.
    pub ended_ms: TimeMs,
    /// What the model was sent, where it replied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// Every time the model was asked, in order.
    pub asked: Vec<Asked>,
    /// How long its calls waited until the workspace was put down, in milliseconds, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ms: Option<u64>,
    /// The calls of its reply, in order.
    pub calls: Vec<CallTrace>,
    /// The hooks that ran, each with its point and its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRun>,
    /// What followed.
    pub next: Next,
}

/// What the model was sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// Pieces that were there, in the same bytes, in the request before.
    pub kept: usize,
    /// The pieces behind these, each with its hash and the most tokens it can be.
    pub new: Vec<Segment>,
    /// What the provider's cache did for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reading>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    /// Where its end is recorded.
    pub seq: Seq,
    /// `provider/model`.
    pub model: String,
    /// From 1, in this step and with this model.
    pub attempt: u32,
    /// When it was made.
    pub at_ms: TimeMs,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// How long until the first piece of the reply, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// What came of it.
    pub result: AskResult,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in millionths of a US dollar, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The provider's id for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

/// What came of a call of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum AskResult {
    /// A reply.
    Replied {
        /// Why it stopped.
        finish: FinishReason,
        /// The provider's own word for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// None.
    Failed {
        /// What kind of failure.
        kind: ModelErrorKind,
        /// In words.
        message: String,
        /// How long was waited before the next attempt, in milliseconds; `None`: there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
    },
    /// It was cut off by us.
    Cut,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTrace {
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// When it began to act; `None`: it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<TimeMs>,
    /// How long it acted, in milliseconds.
    pub took_ms: u64,
    /// What a person said, and after how many milliseconds, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<(Decision, u64)>,
    /// How it ended; `None`: its end is not on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// One short line for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Characters that the model read of its output.
    pub output_chars: usize,
}

/// Why the loop went on or stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum Next {
    /// Another step: the model has results of tools to read, or a person's word.
    Step {
        /// What kind.
        kind: StepKind,
        /// Whether there were calls to answer.
        after_calls: bool,
    },
    /// Room in the context had to be made first.
    Compaction {
        /// Why.
        trigger: Trigger,
    },
    /// The turn was over.
    Ended {
        /// Why.
        end: TurnEnd,
        /// More words about why.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Somebody stopped it.
    Stopped {
        /// Who.
        by: Canceller,
    },
    /// The turns it belongs to were taken back, or nothing more is on record: it goes on still, or was cut off.
    Open,
}

/// Reads the trace off the events of a session, from the first on.
#[derive(Debug, Default)]
pub struct Tracer {
    ledger: CacheLedger,
    turn: u32,
    model: String,
    step: Option<StepTrace>,
    /// When the model was asked last.
    asked_ms: TimeMs,
    /// The questions that are open, and when they were asked.
    questions: Vec<(Subject, TimeMs)>,
    stopped_by: Option<Canceller>,
}

/// The trace of a whole journal.
pub fn trace(records: &[Record]) -> Vec<StepTrace> {
    let mut tracer = Tracer::default();
    let mut steps: Vec<StepTrace> = records.iter().filter_map(|record| tracer.apply(record)).collect();
    steps.extend(tracer.step);
    steps
}

impl Tracer {
    /// Takes one event in; gives the step that is complete now, if one is.
    pub fn apply(&mut self, record: &Record) -> Option<StepTrace> {
        let reading = self.ledger.apply(record);
        let at_ms = record.at_ms;
        let ended = self.ended_by(&record.event);
        match &record.event {
            Event::TurnStarted { turn, model, .. } => {
                (self.turn, self.stopped_by) = (*turn, None);
                self.model.clone_from(model);
            }
            Event::TurnResumed { model, .. } | Event::ModelSwitched { model, .. } => {
                self.model.clone_from(model);
                self.asked_ms = at_ms;
            }
            Event::StepStarted { step, kind, .. } => {
                self.asked_ms = at_ms;
                self.step = Some(StepTrace {
                    seq: record.seq,
                    turn: self.turn,
                    step: *step,
                    kind: *kind,
                    began_ms: at_ms,
                    ended_ms: at_ms,
                    input: None,
                    asked: Vec::new(),
                    snapshot_ms: None,
                    calls: Vec::new(),
                    hooks: Vec::new(),
                    next: Next::Open,
                });
            }
            Event::HooksRan { point, runs, .. } => self.hooks_ran(*point, runs, at_ms),
            Event::BackoffPassed { .. } => self.backoff_passed(at_ms),
            Event::ContextPruned { .. } | Event::CompactionFinished { .. } | Event::CompactionFailed { .. } => {
                self.asked_ms = at_ms;
            }
            Event::CancelRequested { by } => self.stopped_by = Some(by.clone()),
            Event::MessageFinished { .. } | Event::ModelFailed { .. } | Event::MessageCut { .. } => {
                self.model_answered(record, reading);
            }
            Event::SnapshotTaken { .. } => {
                if let Some(step) = &mut self.step {
                    // It is asked for when the event before is on record, whichever that is.
                    *step.snapshot_ms.get_or_insert(0) += at_ms.saturating_sub(step.ended_ms);
                }
            }
            event => self.about_a_call(event, at_ms),
        }
        if let Some(step) = &mut self.step {
            step.ended_ms = at_ms;
        }
        ended
    }

    /// The step that this event follows.
    fn ended_by(&mut self, event: &Event) -> Option<StepTrace> {
        let next = match event {
            Event::StepStarted { kind, .. } => {
                let after_calls = self.step.as_ref().is_some_and(|step| !step.calls.is_empty());
                Next::Step { kind: *kind, after_calls }
            }
            // Forced, it is part of the step: the same step asks again.
            Event::CompactionStarted { trigger: Trigger::Ordinary, .. } => {
                Next::Compaction { trigger: Trigger::Ordinary }
            }
            Event::TurnEnded { end, detail, .. } => match self.stopped_by.take() {
                Some(by) if *end == TurnEnd::Canceled => Next::Stopped { by },
                _ => Next::Ended { end: *end, detail: detail.clone() },
            },
            Event::RewindFinished { .. } | Event::TurnStarted { .. } => Next::Open,
            _ => return None,
        };
        let step = self.step.take()?;
        Some(StepTrace { next, ..step })
    }

    fn hooks_ran(&mut self, at: HookPoint, runs: &[HookRun], at_ms: TimeMs) {
        if at == HookPoint::BeforeModel {
            self.asked_ms = at_ms;
        }
        let Some(step) = &mut self.step else { return };
        let told = runs.iter().map(|run| HookRun { point: run.point.or(Some(at)), evidence: None, ..run.clone() });
        step.hooks.extend(told);
    }

    fn backoff_passed(&mut self, at_ms: TimeMs) {
        let failed = self.step.as_mut().and_then(|step| step.asked.last_mut());
        if let Some(Asked { at_ms: began, took_ms, result: AskResult::Failed { waited_ms, .. }, .. }) = failed {
            *waited_ms = Some(at_ms.saturating_sub(*began + *took_ms));
        }
        self.asked_ms = at_ms;
    }

    fn model_answered(&mut self, record: &Record, reading: Option<Reading>) {
        let Some(step) = &mut self.step else { return };
        let mut asked = Asked {
            seq: record.seq,
            model: self.model.clone(),
            attempt: 1,
            at_ms: self.asked_ms,
            took_ms: record.at_ms.saturating_sub(self.asked_ms),
            first_ms: None,
            result: AskResult::Cut,
            usage: Usage::default(),
            cost_micros: None,
            response_id: None,
        };
        match &record.event {
            Event::MessageFinished { attempt, reply, cost_micros, prompt, first_ms, .. } => {
                (asked.attempt, asked.first_ms, asked.cost_micros) = (*attempt, *first_ms, *cost_micros);
                asked.usage = reply.usage;
                asked.response_id.clone_from(&reply.response_id);
                asked.result = AskResult::Replied { finish: reply.finish, raw: reply.finish_raw.clone() };
                step.input = prompt.as_deref().map(|prompt| Input {
                    kept: prompt.kept,
                    new: prompt.new.clone(),
                    cache: reading,
                });
                step.calls = reply.parts.iter().filter_map(CallTrace::of).collect();
            }
            Event::ModelFailed { attempt, error, usage, cost_micros, .. } => {
                (asked.attempt, asked.usage, asked.cost_micros) = (*attempt, *usage, *cost_micros);
                let (kind, message) = (error.kind, error.message.clone());
                asked.result = AskResult::Failed { kind, message, waited_ms: None };
            }
            _ => {}
        }
        step.asked.push(asked);
        // Asked again, without a wait, by the next model of a chain or after room was made.
        self.asked_ms = record.at_ms;
    }

    fn about_a_call(&mut self, event: &Event, at_ms: TimeMs) {
        let Some(step) = &mut self.step else { return };
        match event {
            Event::ApprovalAsked { subject } => self.questions.push((subject.clone(), at_ms)),
            Event::ApprovalGiven { subject, decision } => {
                let asked = self.questions.iter().find(|(about, _)| about == subject).map(|(_, at_ms)| *at_ms);
                if let (Subject::Call(call), Some(asked_ms)) = (subject, asked)
                    && let Some(call) = step.call(call)
                {
                    call.approval = Some((decision.clone(), at_ms.saturating_sub(asked_ms)));
                }
                self.questions.retain(|(about, _)| about != subject);
            }
            Event::CallStarted { call } => {
                if let Some(call) = step.call(call) {
                    call.started_ms = Some(at_ms);
                }
            }
            Event::CallSettled { call, outcome } => {
                if let Some(call) = step.call(call) {
                    (call.status, call.took_ms) = (Some(outcome.status), outcome.duration_ms);
                    call.output_chars = outcome.text.chars().count();
                    call.title.clone_from(&outcome.title);
                }
            }
            _ => {}
        }
    }
}

impl StepTrace {
    fn call(&mut self, id: &CallId) -> Option<&mut CallTrace> {
        self.calls.iter_mut().find(|call| call.call == *id)
    }
}

impl CallTrace {
    fn of(part: &Part) -> Option<Self> {
        let Part::ToolCall(call) = part else { return None };
        Some(Self {
            call: call.id.clone(),
            tool: call.name.clone(),
            started_ms: None,
            took_ms: 0,
            approval: None,
            status: None,
            title: String::new(),
            output_chars: 0,
        })
    }
}
