//! The turn machine as specifications: scenarios by subject, each in its file, and what they share.

mod budgets;
mod calls;
mod compactions;
mod gates;
mod messages;
mod orders;
mod resumes;
mod retries;
mod rewinds;
mod shells;
mod steps;
mod tasks;
mod todos;

use super::*;
use crate::branch;
use crate::budget::Budget;
use crate::call::{Access, BackgroundAgent, CallInput, CallKind, Delegated, Effects, Planned, TaskBegan, TaskNews};
use crate::event::{Author, Canceller, ChangedBy, Configure, Direction, Restore, Sampled, TitledBy, Touched, Verdict};
use crate::hook::Gates;
use crate::ids::MessageId;
use crate::limits::MAX_PAUSED_REPLIES;
use crate::permission::{Action, PermissionMode};
use crate::policy::{HookPolicy, StepPolicy};
use crate::question::Decision;
use crate::task::Task;
use expect_test::{Expect, expect};
use serde_json::json;
use std::fmt::Write;

mod late;
mod stops;

/// A driver without IO: it answers instantaneous wishes itself and hands the rest to the scenario.
struct Bench {
    session: State,
    log: Vec<Record>,
    policy: Policy,
    compact_at: Option<u64>,
    fallbacks: Vec<String>,
    now_ms: TimeMs,
}

impl Bench {
    fn with(mut policy: Policy) -> Self {
        policy.retry.usual.jitter = crate::retry::Jitter::None;
        let mut bench =
            Self { session: State::new(), log: Vec::new(), policy, compact_at: None, fallbacks: vec![], now_ms: 0 };
        bench.record(Event::SessionStarted {
            session: SessionId::from("ses_1"),
            workspace: "/w".into(),
            version: "0".into(),
            parent: None,
        });
        bench
    }

    fn record(&mut self, event: Event) {
        let record = Record { seq: self.log.len() as Seq + 1, at_ms: self.now_ms, event };
        self.session.apply(&record);
        let is_moved = matches!(&record.event, Event::RewindFinished { rewind, .. } if rewind.to.is_some());
        self.log.push(record);
        if is_moved {
            self.session = State::fold(&self.log);
        }
    }

    /// Records an event and all that follows from it without anything from outside.
    fn happen(&mut self, event: Event) {
        self.record(event);
        self.settle_down();
    }

    fn settle_down(&mut self) {
        loop {
            if self.session.wanted().contains(&Job::StartTurn) {
                self.record(Event::TurnStarted {
                    turn: self.session.turn() + 1,
                    model: "fake/model".into(),
                    fallbacks: self.fallbacks.clone(),
                    policy: Box::new(self.policy.clone()),
                    compact_at_tokens: self.compact_at,
                    this_turn_only: false,
                });
            } else if let [Job::SwitchModel { reason }, ..] = self.session.wanted().as_slice() {
                self.record(switch(&self.session, reason.clone()));
            } else if let Some(event) = self.session.due(self.now_ms) {
                self.record(event);
            } else {
                break;
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.speak(text, Delivery::Steer);
    }

    fn speak(&mut self, text: &str, delivery: Delivery) {
        let message = MessageId(format!("m{}", self.log.len()));
        self.happen(Event::UserSpoke {
            message,
            parts: vec![Part::text(text)],
            delivery,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    }

    fn reply(&mut self, reply: Reply) {
        let event = self.session.replied(1, reply, Some(10), self.now_ms, 0);
        self.happen(event);
    }

    fn answer(&mut self, text: &str) {
        self.reply(reply(vec![Part::text(text)], FinishReason::Stop));
    }

    /// The model calls these tools; rules allow them.
    fn calls(&mut self, tools: &[&str]) {
        self.reply(reply(tools.iter().map(|tool| call(tool)).collect(), FinishReason::ToolCalls));
        self.judge();
    }

    fn judge(&mut self) {
        for job in self.session.wanted() {
            if let Job::JudgeCall(call) = job {
                let effects = effects_of(&call.name);
                let verdict = match action(&self.session, &call.name) {
                    Action::Allow => Verdict::Allow,
                    Action::Ask => Verdict::Ask,
                    Action::Deny => Verdict::Deny("a rule forbids it".into()),
                };
                self.happen(Event::requested(call.id.clone(), effects, verdict));
            }
        }
    }

    fn finish(&mut self, call: &str) {
        self.finish_with(call, Outcome::ok(format!("result of {call}")));
    }

    fn finish_with(&mut self, call: &str, outcome: Outcome) {
        self.happen(Event::CallSettled { call: CallId::from(call), outcome });
    }

    fn cancel(&mut self) {
        self.happen(Event::CancelRequested { by: Canceller::User });
    }

    fn fail(&mut self, attempt: u32, kind: ModelErrorKind) {
        let error = ModelError::new(kind, format!("{kind:?}"));
        let event = self.session.failed(attempt, error, Usage::default(), vec![], self.now_ms, 0);
        self.happen(event);
    }

    fn approve(&mut self, subject: Subject, decision: Decision) {
        self.happen(Event::approval(subject, decision));
    }

    fn wanted(&self) -> String {
        self.session.wanted().iter().map(show_job).collect::<Vec<_>>().join(" ")
    }

    /// The transcript and how the last turn ended, one line each; and every invariant.
    fn show(&self) -> String {
        check_invariants(&self.session, &self.log);
        let mut text = String::new();
        for message in self.session.transcript() {
            show_message(&mut text, message);
        }
        let ended = self.log.iter().rev().find_map(|record| match &record.event {
            Event::TurnEnded { end, detail, .. } => Some((end, detail)),
            _ => None,
        });
        if let Some((end, detail)) = ended.filter(|_| !self.session.is_in_turn()) {
            let end = serde_json::to_value(end).expect("an end is JSON");
            let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            writeln!(text, "end        {}{detail}", end.as_str().unwrap_or_default()).expect("a string");
        } else {
            writeln!(text, "{:<10} {}", self.session.phase_name(), self.wanted()).expect("a string");
        }
        text
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an inline snapshot is written where it is used")]
fn check(scenario: impl FnOnce(&mut Bench), expected: Expect) {
    check_with(Policy::piton(), scenario, &expected);
}

fn check_with(mut policy: Policy, scenario: impl FnOnce(&mut Bench), expected: &Expect) {
    if policy.permission.0.is_empty() {
        policy.permission.push("*", Action::Allow);
    }
    let mut bench = Bench::with(policy);
    scenario(&mut bench);
    expected.assert_eq(&bench.show());
}

fn reply(parts: Vec<Part>, finish: FinishReason) -> Reply {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    Reply { usage, ..Reply::new(parts, finish) }
}

fn call(tool: &str) -> Part {
    call_with(tool, json!({"of": tool}))
}

fn call_with(tool: &str, input: serde_json::Value) -> Part {
    Part::ToolCall(ToolCall {
        id: CallId::from(""),
        provider_id: None,
        name: tool.into(),
        spelling: None,
        input: CallInput::from_value(input),
        opaque: None,
    })
}

/// What the rules say of a call of a tool.
fn action(session: &State, tool: &str) -> Action {
    let access = match effects_of(tool) {
        Effects::READ => Access::Read("/w/a".into()),
        _ => Access::Use(tool.into()),
    };
    session.judge(tool, &[access]).action
}

fn effects_of(tool: &str) -> Effects {
    match tool {
        "read" | "grep" => Effects::READ,
        "edit" => Effects::WRITE,
        _ => Effects::OPAQUE,
    }
}

fn show_message(text: &mut String, message: &Message) {
    let mark = if message.interrupted { " (interrupted)" } else { "" };
    let (mut words, mut lines) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text { text, .. } => words.push(text.clone()),
            Part::Note { text, .. } => words.push(format!("[{}…]", text.split_at(20).0)),
            Part::ToolCall(call) => words.push(format!("{}#{}", call.name, call.id)),
            Part::ToolResult { call, outcome, .. } => {
                let status = serde_json::to_value(outcome.status).expect("a status is JSON");
                lines.push(format!("result     #{call} {}", status.as_str().unwrap_or_default()));
            }
            Part::Reasoning { text, .. } => words.push(format!("({text})")),
            Part::Image { media_type, .. } => words.push(format!("<{media_type}>")),
        }
    }
    if !words.is_empty() {
        let role = format!("{:?}", message.role).to_lowercase();
        lines.insert(0, format!("{role:<10} {}{mark}", words.join(" ")));
    }
    for line in lines {
        writeln!(text, "{line}").expect("a string");
    }
}

fn show_job(job: &Job) -> String {
    match job {
        Job::StartTurn => "start_turn".into(),
        Job::CallModel { step, attempt } => format!("call_model({step}, {attempt})"),
        Job::SwitchModel { reason } => format!("switch_model({reason})"),
        Job::Wait { until_ms, .. } => format!("wait({until_ms})"),
        Job::WatchDeadline { at_ms } => format!("deadline({at_ms})"),
        Job::JudgeCall(call) => format!("judge({})", call.id),
        Job::AskApproval(subject) => format!("ask({subject:?})"),
        Job::RunTool(call) => format!("run({})", call.id),
        Job::StopTool(call) => format!("stop({})", call.id),
        Job::Snapshot(moment) => format!("snapshot({moment:?})"),
        Job::Compact(trigger) => format!("compact({trigger:?})"),
        Job::Pass(gate) => format!("pass({gate:?})"),
        Job::WatchTask(task) => format!("watch({task})"),
        Job::AwaitAnswer { until_ms, .. } => format!("answer_until({until_ms})"),
    }
}

/// What must hold after every event, whatever the order.
fn check_invariants(session: &State, log: &[Record]) {
    let messages: Vec<&Message> = session.transcript().map(|message| &**message).collect();
    let open = session.batch().is_some();
    let complete = if open { &messages[..messages.len() - 1] } else { &messages[..] };
    assert_eq!(malformed(complete.iter().copied()), None, "phase {}, log {log:#?}", session.phase_name());
    if !session.is_in_turn() {
        let idle_jobs = session.wanted();
        let of_a_person = |job: &Job| match job {
            Job::Pass(Gate::BeforeCompaction(_)) | Job::Compact(_) => session.is_compacting_at_rest(),
            Job::WatchTask(task) => session.tasks().find(task).is_some_and(Task::is_running),
            Job::RunTool(call) | Job::StopTool(call) => session.shell().find(&call.id).is_some(),
            Job::Snapshot(Moment::Before) => session.shell().is_open(),
            Job::Snapshot(Moment::After) => session.shell().is_unsealed(),
            job => *job == Job::StartTurn,
        };
        assert!(idle_jobs.iter().all(of_a_person), "a job after the end: {idle_jobs:?}");
        match session.due(0) {
            None => {}
            Some(Event::CallStarted { call } | Event::CallSettled { call, .. }) => {
                assert!(session.shell().find(&call).is_some(), "a call after the end: {call}");
            }
            Some(other) => panic!("due after the end: {other:?}"),
        }
    }
    assert_eq!(State::fold(log), *session, "the fold of the log is not the live state");
}

/// What hooks say when they are asked whether the turn may end.
fn asked(sent_back: Option<&str>, stopped: Option<&str>) -> Event {
    Event::HooksRan {
        step: 1,
        point: HookPoint::Stop,
        call: None,
        runs: vec![HookRun::new("ci", 1)],
        notes: sent_back.iter().map(|_| "not yet".to_owned()).collect(),
        system: None,
        tools: None,
        input: None,
        verdict: None,
        sent_back: sent_back.map(str::to_owned),
        stopped: stopped.map(str::to_owned),
    }
}

fn gated<const N: usize>(points: [HookPoint; N]) -> HookPolicy {
    HookPolicy { gates: Gates::of(points), demands: vec![] }
}

/// Hooks have passed this gate, and changed nothing.
fn passed(gate: &Gate) -> Event {
    let mut event = asked(None, None);
    if let Event::HooksRan { point, call, .. } = &mut event {
        (*point, *call) = (gate.point(), gate.call().cloned());
    }
    event
}

fn abandoned(rewind: Rewind) -> Event {
    Event::RewindAbandoned { rewind, error: "no snapshot".into(), touches: Touched::default() }
}

fn finished(trigger: Trigger, upto_seq: Seq, tokens_before: u64, tokens_after: u64) -> Event {
    let summary = "what happened so far".to_owned();
    Event::CompactionFinished { trigger, upto_seq, summary, tokens_before, tokens_after, note: None, asked: None }
}

fn cut_reply(text: &str) -> Reply {
    reply(vec![Part::text(text)], FinishReason::Length)
}

fn said(text: &str) -> Event {
    Event::UserSpoke {
        message: MessageId::from("m"),
        parts: vec![Part::text(text)],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

fn switch(session: &State, reason: String) -> Event {
    let model = session.fallbacks().next().expect("another model").to_owned();
    Event::ModelSwitched { step: session.step(), model, reason, compact_at_tokens: None }
}

fn snapshot(moment: Moment) -> Event {
    Event::SnapshotTaken { step: 1, moment, tree: Some("t".into()), notices: vec![] }
}

fn files_only(direction: Direction) -> Rewind {
    let files = vec![Restore { from: "b".into(), to: "a".into() }];
    Rewind { direction, turns: 1, to: None, files, overwrite: false }
}

fn moved(session: &State, direction: Direction, to: Seq) -> Event {
    assert!(session.is_at_rest());
    let rewind = Rewind { direction, turns: 1, to: Some(to), files: vec![], overwrite: false };
    Event::RewindFinished { rewind, left: vec![], back: None }
}
