//! The turn machine as specifications: scenarios, the transition table, and 100,000 random orders of events.

use super::*;
use crate::branch;
use crate::budget::Budget;
use crate::call::{Access, CallInput, Effects, Kind, Planned};
use crate::event::{Author, Canceller, Direction, Restore, TitledBy, Touched, Verdict};
use crate::hook::Gates;
use crate::ids::MessageId;
use crate::limits::MAX_PAUSED_REPLIES;
use crate::permission::Action;
use crate::policy::{HookPolicy, StepPolicy};
use crate::question::Decision;
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
        self.happen(Event::UserSpoke { message, parts: vec![Part::text(text)], delivery });
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
    Reply { parts, finish, finish_raw: None, usage, response_id: None, warnings: Vec::new() }
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
    session.judge(&Ask { tool, accesses: &[access] }).action
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
    }
}

/// What must hold after every event, whatever the order.
fn check_invariants(session: &State, log: &[Record]) {
    let messages: Vec<&Message> = session.transcript().map(|message| &**message).collect();
    let open = matches!(session.phase, Phase::RunningTools(..));
    let complete = if open { &messages[..messages.len() - 1] } else { &messages[..] };
    assert_eq!(malformed(complete.iter().copied()), None, "phase {}, log {log:#?}", session.phase_name());
    if !session.is_in_turn() {
        let idle_jobs = session.wanted();
        assert!(idle_jobs.iter().all(|job| *job == Job::StartTurn), "a job after the end: {idle_jobs:?}");
        assert_eq!(session.due(0), None);
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

#[test]
fn hooks_are_asked_before_a_turn_ends_and_may_send_the_model_back() {
    let mut bench = Bench::with(Policy { hooks: gated([HookPoint::Stop]), ..Policy::piton() });
    bench.say("go");
    bench.answer("done");
    assert_eq!(bench.session.phase_name(), "checking");
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::End { step: 1 })]);
    bench.happen(asked(Some("ci"), None));
    assert_eq!((bench.session.phase_name(), bench.session.times_sent_back("ci")), ("calling_model", 1));
    let last = bench.session.transcript().last().expect("a note").parts.clone();
    assert_eq!(last, [Part::note("not yet")]);
    bench.answer("done now");
    bench.happen(asked(None, None));
    assert_eq!(bench.session.phase_name(), "idle");
    assert_eq!(bench.session.evidence().len(), 1);
    assert_eq!(State::fold(&bench.log), bench.session);

    // What the user says meanwhile goes first, and then they are asked again.
    bench.say("more");
    bench.answer("done");
    bench.say("wait");
    assert_eq!(bench.session.phase_name(), "calling_model");
    bench.happen(asked(None, None));
    assert_eq!(bench.session.phase_name(), "calling_model", "an answer that comes too late changes nothing");
    bench.answer("done");
    bench.happen(asked(None, Some("it will never pass")));
    let Some(Event::TurnEnded { end, detail, .. }) = bench.log.last().map(|record| &record.event) else {
        panic!("the turn is over")
    };
    assert_eq!((*end, detail.as_deref()), (TurnEnd::HookStopped, Some("it will never pass")));
}

#[test]
fn a_call_waits_at_each_of_its_gates() {
    let hooks = gated([HookPoint::BeforeTool, HookPoint::Approval, HookPoint::AfterTool]);
    let mut bench = Bench::with(Policy { hooks, ..Policy::piton() });
    let (id, subject) = (CallId::from("c1_0"), Subject::Call(CallId::from("c1_0")));
    let before_tool = Gate::BeforeTool(id.clone());
    bench.say("go");
    bench.reply(reply(vec![call("bash")], FinishReason::ToolCalls));
    assert_eq!(bench.session.wanted(), [Job::Pass(before_tool.clone())]);
    let judged = |verdict| Event::CallRequested {
        call: id.clone(),
        input: None,
        author: Author::Model,
        effects: Effects::OPAQUE,
        verdict,
        plan: None,
    };
    bench.happen(judged(Verdict::Allow));
    assert_eq!(bench.session.wanted(), [Job::Pass(before_tool.clone())], "no rule overtakes the hooks");
    let mut event = passed(&before_tool);
    if let Event::HooksRan { input, verdict, .. } = &mut event {
        (*input, *verdict) = (Some(json!({"of": "a hook"})), Some(HookVerdict::Ask("hmm".into())));
    }
    bench.happen(event);
    assert!(
        matches!(&bench.session.wanted()[..], [Job::JudgeCall(call)] if call.input.value() == Some(&json!({"of": "a hook"})))
    );
    assert_eq!(bench.session.hook_verdict(&id), Some(&HookVerdict::Ask("hmm".into())));
    bench.happen(judged(Verdict::AskFirst("hmm".into())));
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::Question(subject.clone()))]);
    assert!(bench.session.is_open(&subject), "a person may answer before the hooks have");
    bench.happen(passed(&Gate::Question(subject.clone())));
    assert_eq!(bench.session.wanted(), [Job::AskApproval(subject.clone())]);
    bench.approve(subject, Decision::Deny(None));
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::AfterTool(id.clone()))]);
    assert_eq!(bench.session.unrun(&id).map(|outcome| outcome.status), Some(crate::call::Status::Denied));
    assert_eq!(State::fold(&bench.log), bench.session);
    let mut canceled = bench.session.clone();
    canceled.apply(&Record { seq: 99, at_ms: 0, event: Event::CancelRequested { by: Canceller::User } });
    assert_eq!(canceled.wanted(), [], "a cancel does not wait for hooks");
    bench.happen(passed(&Gate::AfterTool(id)));
    assert_eq!(bench.session.phase_name(), "calling_model");
}

#[test]
fn a_call_belongs_to_the_writer_that_started_it() {
    let mut bench = Bench::with(Policy::piton());
    bench.happen(Event::WriterOpened { epoch: 1, pid: 1, boot_id: None });
    bench.policy.permission.push("*", Action::Allow);
    bench.say("go");
    bench.calls(&["read"]);
    let id = CallId::from("c1_0");
    assert!(bench.session.is_started_here(&id));
    bench.happen(Event::WriterOpened { epoch: 2, pid: 2, boot_id: None });
    assert!(!bench.session.is_started_here(&id));
    assert_eq!(bench.wanted(), "run(c1_0)", "it is settled by whoever goes on");
}

#[test]
fn what_hooks_tell_the_model_waits_until_every_call_is_answered() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.calls(&["read", "read"]);
    let mut ran = asked(None, None);
    if let Event::HooksRan { point, notes, .. } = &mut ran {
        (*point, *notes) = (HookPoint::AfterTool, vec!["mind the style".to_owned()]);
    }
    bench.happen(ran);
    bench.finish("c1_0");
    bench.finish("c1_1");
    let messages: Vec<_> = bench.session.transcript().map(|message| (**message).clone()).collect();
    assert_eq!(malformed(&messages), None);
    assert_eq!(messages.last().map(|last| last.parts.clone()), Some(vec![Part::note("mind the style")]));
}

#[test]
fn a_plain_answer_completes_the_turn() {
    check(
        |b| {
            b.say("hi");
            b.answer("hello");
        },
        expect![[r#"
            user       hi
            assistant  hello
            end        completed
        "#]],
    );
}

#[test]
fn results_stand_in_the_order_of_the_calls_whatever_order_they_came_in() {
    check(
        |b| {
            b.say("look");
            b.calls(&["read", "grep", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0) run(c1_1) run(c1_2)");
            b.finish("c1_2");
            b.finish("c1_0");
            b.finish("c1_1");
            b.answer("done");
        },
        expect![[r#"
            user       look
            assistant  read#c1_0 grep#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn a_write_waits_for_the_calls_before_it_and_holds_up_those_after_it() {
    check(
        |b| {
            b.say("fix");
            b.calls(&["read", "edit", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0)");
            b.finish("c1_0");
            assert_eq!(b.wanted(), "run(c1_1)");
            b.finish("c1_1");
            assert_eq!(b.wanted(), "run(c1_2)");
        },
        expect![[r#"
            user       fix
            assistant  read#c1_0 edit#c1_1 bash#c1_2
            running_tools run(c1_2)
        "#]],
    );
}

#[test]
fn cancelling_keeps_what_finished_and_answers_the_rest() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "bash", "edit"]);
            b.finish("c1_0");
            b.cancel();
            assert_eq!(b.wanted(), "stop(c1_1)");
            b.finish_with("c1_1", Outcome::new(Status::Cancelled, "stopped after 2 s"));
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1 edit#c1_2
            result     #c1_0 ok
            result     #c1_1 cancelled
            result     #c1_2 cancelled
            end        canceled
        "#]],
    );
}

#[test]
fn cancelling_while_the_model_speaks_keeps_its_words_marked() {
    check(
        |b| {
            b.say("go");
            b.record(Event::CancelRequested { by: Canceller::User });
            assert_eq!(b.wanted(), "");
            b.happen(Event::MessageCut { step: 1, parts: vec![Part::text("partial")], at_most: None });
        },
        expect![[r#"
            user       go
            assistant  partial (interrupted)
            end        canceled
        "#]],
    );
}

#[test]
fn steering_joins_at_the_next_step_and_a_follow_up_waits_for_the_turns_end() {
    check(
        |b| {
            b.say("go");
            b.speak("later", Delivery::FollowUp);
            b.speak("also this", Delivery::Steer);
            b.calls(&["read"]);
            b.finish("c1_0");
            b.answer("first");
            b.answer("second");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            user       also this
            assistant  first
            user       later
            assistant  second
            end        completed
        "#]],
    );
}

#[test]
fn steering_that_arrives_with_the_last_answer_is_still_answered_in_the_same_turn() {
    check(
        |b| {
            b.say("go");
            b.record(Event::UserSpoke {
                message: MessageId::from("late"),
                parts: vec![Part::text("wait, also")],
                delivery: Delivery::Steer,
            });
            b.answer("first");
            b.answer("second");
            assert_eq!(b.session.turn(), 1);
        },
        expect![[r#"
            user       go
            assistant  first
            user       wait, also
            assistant  second
            end        completed
        "#]],
    );
}

#[test]
fn messages_that_waited_when_a_turn_was_cancelled_wait_for_the_next_word() {
    check(
        |b| {
            b.say("go");
            b.speak("later", Delivery::FollowUp);
            b.cancel();
            assert_eq!(b.session.phase_name(), "held");
            b.say("now");
            b.answer("ok");
        },
        expect![[r#"
            user       go
            user       later
            user       now
            assistant  ok
            end        completed
        "#]],
    );
}

#[test]
fn a_repeated_message_is_heard_once() {
    check(
        |b| {
            for _ in 0..2 {
                let message = MessageId::from("same");
                b.happen(Event::UserSpoke { message, parts: vec![Part::text("hi")], delivery: Delivery::Steer });
            }
            b.answer("hello");
        },
        expect![[r#"
            user       hi
            assistant  hello
            end        completed
        "#]],
    );
}

#[test]
fn a_failed_call_of_the_model_is_made_again_after_a_wait() {
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Overloaded);
            assert_eq!(b.wanted(), "wait(2000)");
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.wanted(), "call_model(1, 2)");
            b.fail(2, ModelErrorKind::CutStream);
            assert_eq!(b.wanted(), "wait(4000)");
            b.happen(Event::BackoffPassed { step: 1 });
            b.answer("hello");
        },
        expect![[r#"
            user       hi
            assistant  hello
            end        completed
        "#]],
    );
}

#[test]
fn what_the_user_says_during_a_wait_is_part_of_the_next_attempt() {
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Overloaded);
            b.say("in German, please");
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.wanted(), "call_model(2, 1)");
            b.answer("hallo");
        },
        expect![[r#"
            user       hi
            user       in German, please
            assistant  hallo
            end        completed
        "#]],
    );
}

#[test]
fn retries_are_bounded_and_hopeless_errors_are_not_retried() {
    check(
        |b| {
            b.say("hi");
            for attempt in 1..=6 {
                b.fail(attempt, ModelErrorKind::Network);
                b.happen(Event::BackoffPassed { step: 1 });
            }
        },
        expect![[r#"
            user       hi
            end        api_error: Network
        "#]],
    );
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Auth);
        },
        expect![[r#"
            user       hi
            end        api_error: Auth
        "#]],
    );
}

#[test]
fn an_empty_answer_is_asked_again_twice_and_then_an_error() {
    check(
        |b| {
            b.say("hi");
            for attempt in 1..=3 {
                let event = b.session.replied(attempt, reply(vec![], FinishReason::Stop), None, 0, 0);
                b.happen(event);
                b.happen(Event::BackoffPassed { step: 1 });
            }
            assert_eq!(b.session.spent().usage.input_tokens, 300, "empty answers are billed too");
        },
        expect![[r#"
            user       hi
            end        api_error: the model sent an empty answer
        "#]],
    );
}

#[test]
fn the_last_step_wraps_up_and_runs_no_tools() {
    let policy = Policy { steps: StepPolicy { max: Some(2), ..StepPolicy::default() }, ..Policy::piton() };
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            b.finish("c1_0");
            assert_eq!(b.session.step_kind(), StepKind::WrapUp);
            b.calls(&["bash"]);
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 ok
            user       [This is the last ste…]
            assistant  bash#c2_0
            result     #c2_0 cancelled
            end        max_steps: the limit on steps, 2, is reached
        "#]],
    );
}

#[test]
fn broken_arguments_are_answered_and_never_run() {
    check(
        |b| {
            b.say("go");
            let broken = Part::ToolCall(ToolCall {
                id: CallId::from(""),
                provider_id: None,
                name: "read".into(),
                spelling: None,
                input: CallInput::parse("{\"path\": "),
                opaque: None,
            });
            b.reply(reply(vec![broken, call("read")], FinishReason::ToolCalls));
            assert_eq!(b.wanted(), "judge(c1_1)");
            b.judge();
            b.finish("c1_1");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 read#c1_1
            result     #c1_0 failed
            result     #c1_1 ok
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn a_reply_cut_at_the_limit_goes_on_and_its_last_call_is_not_run() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![call("read"), call("bash")], FinishReason::Length));
            b.judge();
            b.finish("c1_0");
            b.reply(reply(vec![Part::text("half a")], FinishReason::Length));
            b.answer("nd the rest");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1
            result     #c1_0 ok
            result     #c1_1 failed
            assistant  half a
            user       [Your last reply was …]
            assistant  nd the rest
            end        completed
        "#]],
    );
}

#[test]
fn a_paused_reply_goes_on_where_it_was_in_a_step_of_its_own_but_not_for_ever() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![Part::text("let me ")], FinishReason::Paused));
            b.answer("see");
        },
        expect![[r#"
            user       go
            assistant  let me 
            assistant  see
            end        completed
        "#]],
    );
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    for _ in 0..=MAX_PAUSED_REPLIES {
        bench.reply(reply(vec![Part::text("hm")], FinishReason::Paused));
    }
    assert!(bench.show().ends_with("end        api_error: the provider paused its reply again and again\n"));
}

#[test]
fn a_person_approves_or_denies_and_one_approval_may_last_for_the_session() {
    let mut policy = Policy::piton();
    policy.permission.push("read", Action::Allow);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash", "web", "bash"]);
            assert!(b.wanted().contains("ask"));
            b.approve(Subject::Call(CallId::from("c1_0")), Decision::ApproveForSession);
            b.approve(Subject::Call(CallId::from("c1_1")), Decision::Deny(Some("use the docs".into())));
            b.approve(Subject::Call(CallId::from("c1_2")), Decision::Approve);
            b.finish("c1_0");
            b.finish("c1_2");
            b.calls(&["bash"]);
            assert_eq!(b.wanted(), "run(c2_0)");
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0 web#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 denied
            result     #c1_2 ok
            assistant  bash#c2_0
            running_tools run(c2_0)
        "#]],
    );
}

#[test]
fn with_nobody_to_ask_the_model_may_finish_but_the_turn_does_not_count_as_completed() {
    let mut policy = Policy::piton();
    policy.permission.push("read", Action::Allow);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            b.approve(Subject::Call(CallId::from("c1_0")), Decision::Unattended);
            b.answer("I would have run it");
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 denied
            assistant  I would have run it
            end        tool_denied: calls of bash were refused, since nobody was there to approve them
        "#]],
    );
}

#[test]
fn three_refusals_in_a_row_end_the_turn() {
    let mut policy = Policy::piton();
    policy.permission.push("bash", Action::Deny);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash", "bash"]);
            b.calls(&["bash"]);
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0 bash#c1_1
            result     #c1_0 denied
            result     #c1_1 denied
            assistant  bash#c2_0
            result     #c2_0 denied
            end        tool_denied: 3 calls in a row were refused
        "#]],
    );
}

#[test]
fn the_same_call_with_the_same_result_three_times_asks_and_without_an_answer_ends() {
    check(
        |b| {
            b.say("go");
            for step in 1..=3 {
                b.calls(&["read"]);
                b.finish_with(&format!("c{step}_0"), Outcome::ok("same"));
            }
            assert_eq!(b.wanted(), "ask(GoOn(c3_0))");
            b.approve(Subject::GoOn(CallId::from("c3_0")), Decision::Unattended);
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  read#c3_0
            result     #c3_0 ok
            end        no_progress: the same call with the same result 3 times in a row
        "#]],
    );
}

#[test]
fn the_same_call_many_times_in_one_reply_is_one_try() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "read", "read", "read"]);
            for call in 0..4 {
                b.finish_with(&format!("c1_{call}"), Outcome::ok("same"));
            }
            assert_eq!(b.wanted(), "call_model(2, 1)");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 read#c1_1 read#c1_2 read#c1_3
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            result     #c1_3 ok
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn an_unusable_answer_is_asked_again_however_often_the_provider_was_overloaded_before() {
    use ModelErrorKind::{EmptyReply, Malformed, Overloaded};
    let retries = |kinds: &[ModelErrorKind]| {
        let mut b = Bench::with(Policy::piton());
        b.say("go");
        let after = (1..).zip(kinds).map(|(attempt, kind)| {
            b.fail(attempt, *kind);
            if b.session.wanted().is_empty() {
                return false;
            }
            b.happen(Event::BackoffPassed { step: 1 });
            true
        });
        after.collect::<Vec<_>>()
    };
    assert_eq!(retries(&[Overloaded, Overloaded, Overloaded, Malformed, EmptyReply]), [true; 5]);
    assert_eq!(retries(&[Malformed, Overloaded, EmptyReply, Malformed]), [true, true, true, false]);
    assert_eq!(retries(&[EmptyReply, EmptyReply, Malformed]), [true, true, false]);
}

#[test]
fn where_a_model_gives_no_reply_the_next_of_the_chain_is_asked_for_the_rest_of_the_turn() {
    check(
        |b| {
            b.policy.retry.usual.per_call = Some(1);
            b.fallbacks = vec!["fake/second".into(), "fake/third".into()];
            b.say("go");
            b.fail(1, ModelErrorKind::Overloaded);
            b.happen(Event::BackoffPassed { step: 1 });
            b.fail(2, ModelErrorKind::Overloaded);
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.fail(1, ModelErrorKind::Auth);
            assert_eq!(b.session.model(), "fake/third");
            b.calls(&["read"]);
            b.finish("c1_0");
            b.answer("done");
            b.say("and now");
            assert_eq!(b.session.model(), "fake/model", "the next turn begins with the first again");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  done
            user       and now
            calling_model call_model(3, 1)
        "#]],
    );
}

#[test]
fn where_no_room_can_be_made_for_one_model_the_next_of_the_chain_is_asked() {
    let no_room = |trigger| Event::CompactionFailed { trigger, why: None, error: "nothing left".into(), asked: None };
    check(
        |b| {
            b.fallbacks = vec!["fake/second".into(), "fake/third".into()];
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
            assert_eq!(b.wanted(), "compact(Forced)", "room is made where it can be");
            b.happen(no_room(Trigger::Forced));
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(no_room(Trigger::Forced));
            assert_eq!(b.session.model(), "fake/third");
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(no_room(Trigger::Forced));
        },
        expect![[r#"
            user       go
            end        context_limit: nothing left
        "#]],
    );
    check(
        |b| {
            (b.compact_at, b.fallbacks) = (Some(1), vec!["fake/second".into()]);
            b.say("go");
            assert_eq!(b.wanted(), "compact(Ordinary)", "before the first step");
            b.happen(no_room(Trigger::Forced));
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.answer("done");
        },
        expect![[r#"
            user       go
            assistant  done
            end        completed
        "#]],
    );
    let mut by_hand = Policy::piton();
    by_hand.compaction.rules.auto = false;
    check_with(
        by_hand,
        |b| {
            (b.compact_at, b.fallbacks) = (Some(1), vec!["fake/second".into()]);
            b.say("go");
            assert_eq!(b.session.model(), "fake/second");
            b.fail(1, ModelErrorKind::WindowExceeded);
        },
        &expect![[r#"
            user       go
            end        context_limit: WindowExceeded
        "#]],
    );
}

#[test]
fn what_is_wrong_with_the_conversation_is_not_tried_on_another_model() {
    for kind in [ModelErrorKind::ContentFilter, ModelErrorKind::InvalidRequest] {
        let mut b = Bench::with(Policy::piton());
        b.fallbacks = vec!["fake/second".into()];
        b.say("go");
        b.fail(1, kind);
        assert!(b.session.is_at_rest(), "{kind:?}");
    }
}

#[test]
fn the_workspace_is_put_down_before_a_step_changes_it_and_when_the_turn_is_over() {
    check(
        |b| {
            b.policy.snapshots = true;
            b.policy.permission.push("*", Action::Allow);
            b.say("go");
            b.calls(&["read", "bash", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0) snapshot(Before)", "what only reads need not wait");
            b.happen(snapshot(Moment::Before));
            assert_eq!(b.wanted(), "run(c1_0) run(c1_1) run(c1_2)");
            for call in ["c1_0", "c1_1", "c1_2"] {
                b.finish(call);
            }
            b.calls(&["read"]);
            b.finish("c2_0");
            b.answer("done");
            assert_eq!(b.wanted(), "snapshot(After)");
            b.happen(snapshot(Moment::After));
            b.say("what is in it?");
            b.calls(&["read"]);
            b.finish("c4_0");
            b.answer("nothing");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  done
            user       what is in it?
            assistant  read#c4_0
            result     #c4_0 ok
            assistant  nothing
            end        completed
        "#]],
    );
}

#[test]
fn a_turn_that_was_taken_back_leaves_no_trace_in_the_conversation_and_can_be_brought_back() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            b.say("two");
            b.answer("second");
            let started: Vec<Seq> = branch::turns(&b.log).iter().map(|span| span.started).collect();
            b.happen(moved(&b.session, Direction::Undo, started[1] - 1));
            assert_eq!(b.session.transcript().len(), 2);
            b.happen(moved(&b.session, Direction::Undo, started[0] - 1));
            assert_eq!((b.session.transcript().len(), b.session.turn()), (0, 2), "its number stays given out");
            for left in [1, 0] {
                let rewind = b.session.redo().expect("something to bring back");
                b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
                assert_eq!(b.session.redo().map_or(0, |_| 1), left);
            }
            assert_eq!(b.session.transcript().len(), 4);
            b.happen(moved(&b.session, Direction::Undo, started[1] - 1));
            b.say("another two");
            assert_eq!(b.session.redo(), None, "who goes on has let go of what was taken back");
            b.answer("third");
            let follows: Vec<_> =
                branch::turns(&b.log).iter().map(|span| (span.turn, span.follows, span.on_path)).collect();
            assert_eq!(follows, [(1, None, true), (2, Some(1), false), (3, Some(1), true)]);
        },
        expect![[r#"
            user       one
            assistant  first
            user       another two
            assistant  third
            end        completed
        "#]],
    );
}

#[test]
fn what_waited_when_a_turn_was_taken_back_waits_again_when_it_is_brought_back() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.speak("later", Delivery::FollowUp);
    b.cancel();
    let waiting = |b: &Bench| b.session.waiting().map(|(message, _)| message.prose()).collect::<Vec<_>>();
    assert_eq!((b.session.phase_name(), waiting(&b)), ("held", vec!["later".to_owned()]));
    let started = branch::turns(&b.log)[0].started;
    b.happen(moved(&b.session, Direction::Undo, started - 1));
    assert_eq!((b.session.phase_name(), waiting(&b)), ("idle", vec![]));
    let rewind = b.session.redo().expect("something to bring back");
    b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
    assert_eq!((b.session.phase_name(), waiting(&b)), ("held", vec!["later".to_owned()]));
    b.say("next");
    b.answer("done");
    b.answer("that, too");
    let said: Vec<String> = b.session.transcript().map(|message| message.prose()).collect();
    assert!(said.contains(&"later".to_owned()) && waiting(&b).is_empty(), "{said:?}");
}

#[test]
fn a_compaction_is_taken_back_with_its_turn() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    b.compact_at = Some(1);
    b.say("two");
    let upto_seq = b.log.len() as Seq;
    b.happen(Event::CompactionFinished {
        trigger: Trigger::Ordinary,
        upto_seq,
        summary: "they said one".into(),
        tokens_before: 2,
        tokens_after: 0,
        note: None,
        asked: None,
    });
    b.answer("second");
    assert!(b.session.is_at_rest() && b.session.transcript().len() == 2, "a summary and an answer");
    let second = branch::turns(&b.log)[1].started;
    b.happen(moved(&b.session, Direction::Undo, second - 1));
    assert_eq!(b.session.transcript().map(|message| message.prose()).collect::<Vec<_>>(), ["one", "first"]);
}

#[test]
fn the_model_is_told_of_files_that_were_taken_back_without_the_words() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            b.happen(Event::RewindStarted {
                rewind: files_only(Direction::Undo),
                was: "w".into(),
                touches: Touched::default(),
            });
            assert!(b.session.rewinding().is_some());
            b.happen(Event::RewindFinished { rewind: files_only(Direction::Undo), left: vec![], back: None });
            assert!(b.session.rewinding().is_none());
        },
        expect![[r#"
            user       one
            assistant  first
            user       [The user took back a…]
            end        completed
        "#]],
    );
}

#[test]
fn who_goes_on_with_a_turn_has_rules_of_their_own() {
    check(
        |b| {
            b.policy.permission.push("*", Action::Allow);
            b.say("go");
            // The write waits behind the command, allowed by the rules so far.
            b.calls(&["bash", "edit"]);
            let mut policy = b.policy.clone();
            policy.permission.push("edit", Action::Deny);
            b.policy = policy.clone();
            b.happen(Event::TurnResumed { model: "fake/other".into(), fallbacks: vec![], policy: Box::new(policy) });
            assert_eq!(b.wanted(), "run(c1_0) judge(c1_1)");
            b.judge();
            b.finish_with("c1_0", Outcome::ok("done"));
        },
        expect![[r#"
            user       go
            assistant  bash#c1_0 edit#c1_1
            result     #c1_0 ok
            result     #c1_1 denied
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn a_clock_that_was_set_back_does_not_lengthen_a_wait() {
    const HOUR_MS: TimeMs = 3_600_000;
    let mut b = Bench::with(Policy::piton());
    b.now_ms = HOUR_MS;
    b.say("go");
    b.fail(1, ModelErrorKind::Overloaded);
    assert_eq!(b.wanted(), format!("wait({})", HOUR_MS + 2_000));
    b.now_ms = 5;
    b.happen(Event::TurnResumed { model: "fake/model".into(), fallbacks: vec![], policy: Box::new(b.policy.clone()) });
    assert_eq!(b.wanted(), "wait(2005)");
}

#[test]
fn always_answers_questions_and_lifts_no_ban() {
    let mut b = Bench::with(Policy::piton());
    b.say("go");
    b.calls(&["bash"]);
    b.approve(Subject::Call(CallId::from("c1_0")), Decision::ApproveForSession);
    assert_eq!(action(&b.session, "bash"), Action::Allow);
    let mut policy = b.policy.clone();
    policy.permission.push("bash", Action::Deny);
    b.happen(Event::TurnResumed { model: "fake/model".into(), fallbacks: vec![], policy: Box::new(policy) });
    assert_eq!(action(&b.session, "bash"), Action::Deny);
}

#[test]
fn polling_something_that_changes_is_progress() {
    check(
        |b| {
            b.say("go");
            for step in 1..=4 {
                b.calls(&["read"]);
                b.finish_with(&format!("c{step}_0"), Outcome::ok(format!("line {step}")));
            }
            assert_eq!(b.wanted(), "call_model(5, 1)");
            b.answer("done");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  read#c3_0
            result     #c3_0 ok
            assistant  read#c4_0
            result     #c4_0 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn a_token_budget_ends_the_turn_before_the_next_tool_call() {
    let budget = Budget { tokens: Some(200), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            b.calls(&["read"]);
        },
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 cancelled
            end        budget: 220 of 200 tokens used
        "#]],
    );
}

#[test]
fn a_call_that_the_budget_may_not_cover_is_not_made() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            assert_eq!(b.wanted(), "call_model(2, 1)");
            b.happen(Event::BudgetShort {
                step: 2,
                why: None,
                detail: "the next call can cost $1, and $0.5 is left".into(),
            });
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            end        budget: the next call can cost $1, and $0.5 is left
        "#]],
    );
}

#[test]
fn a_failed_attempt_counts_with_the_worst_it_can_have_cost() {
    let budget = Budget { cost_micros: Some(1_000), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            let error = ModelError::new(ModelErrorKind::CutStream, "cut");
            let mut event = b.session.failed(1, error, Usage::default(), vec![], 0, 0);
            if let Event::ModelFailed { at_most, .. } = &mut event {
                *at_most = Some(Bound { tokens: 700, cost_micros: Some(995) });
            }
            b.happen(event);
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.session.used(), Bound { tokens: 700, cost_micros: Some(995) });
            b.calls(&["read"]);
            assert_eq!(b.session.spent().cost_micros, Some(10), "what is known is told apart from what may be");
            assert_eq!(b.session.spent().unpriced_calls, 1);
        },
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 cancelled
            end        budget: $0.0010 of $0.0010 spent
        "#]],
    );
}

#[test]
fn the_wall_clock_stops_running_tools() {
    let budget = Budget { wall_clock_ms: Some(5_000), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            assert_eq!(b.wanted(), "run(c1_0) deadline(5000)");
            b.happen(Event::DeadlinePassed {});
            assert_eq!(b.wanted(), "stop(c1_0)");
            b.finish_with("c1_0", Outcome::new(Status::Cancelled, "stopped"));
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 cancelled
            end        budget: the time budget of 5 s is used up
        "#]],
    );
}

#[test]
fn a_lost_event_ends_what_was_under_way_and_answers_its_calls() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "bash"]);
            b.finish("c1_0");
            b.happen(Event::EventLost {});
            assert_eq!(b.wanted(), "", "nothing of it goes on");
            b.finish("c1_1");
            b.answer("too late to be understood");
            b.say("and now?");
            b.answer("fine");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1
            result     #c1_0 ok
            result     #c1_1 interrupted
            user       and now?
            assistant  fine
            end        completed
        "#]],
    );
}

#[test]
fn steps_and_turns_count_on_from_what_is_on_record() {
    let mut bench = Bench::with(Policy::piton());
    bench.record(said("go"));
    let turn = |turn| Event::TurnStarted {
        turn,
        model: "m".into(),
        fallbacks: vec![],
        policy: Box::new(Policy::piton()),
        compact_at_tokens: None,
    };
    bench.record(turn(4));
    bench.record(Event::StepStarted { step: 17, kind: StepKind::Ordinary, note: None });
    assert_eq!((bench.session.turn(), bench.session.step()), (4, 17));
    bench.calls(&["read"]);
    assert_eq!(bench.wanted(), "run(c17_0)", "no call is named like one of the lost steps");
}

#[test]
fn a_session_has_the_title_and_the_folder_it_was_given_last() {
    let mut bench = Bench::with(Policy::piton());
    assert!(bench.session.is_new_here());
    bench.record(said("go"));
    assert!(!bench.session.is_new_here());
    for title in ["one", "two"] {
        bench.record(Event::TitleGiven { title: title.into(), by: TitledBy::User });
    }
    // A model that found none.
    let model = TitledBy::Model { model: "p/m".into(), usage: Usage::default(), cost_micros: None, at_most: None };
    bench.record(Event::TitleGiven { title: String::new(), by: model });
    assert_eq!(bench.session.title(), Some("two"));
    bench.record(Event::TitleGiven { title: String::new(), by: TitledBy::User });
    assert_eq!(bench.session.title(), None);
    bench.record(Event::WorkspaceMoved { workspace: "/elsewhere".into() });
    assert_eq!(bench.session.workspace(), "/elsewhere");
    assert!(bench.session.is_new_here(), "the model must be told of the new place");
}

#[test]
fn a_title_and_a_folder_hold_on_every_branch_and_the_model_is_told_of_the_folder_again() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    bench.record(Event::TitleGiven { title: "mine".into(), by: TitledBy::User });
    bench.record(Event::WorkspaceMoved { workspace: "/elsewhere".into() });
    bench.say("here");
    bench.answer("there");
    assert!(!bench.session.is_new_here());
    let start = bench.log.iter().find(|record| matches!(record.event, Event::TurnStarted { turn: 1, .. }));
    let to = start.map(|record| record.seq - 1);
    let rewind = Rewind { direction: Direction::Undo, turns: 2, to, files: vec![], overwrite: false };
    bench.record(Event::RewindFinished { rewind, left: vec![], back: None });
    let folded = State::fold(&bench.log);
    assert_eq!((folded.title(), folded.workspace()), (Some("mine"), "/elsewhere"));
    assert_eq!(folded.transcript().len(), 0);
    assert!(folded.is_new_here(), "what told the model of it was taken back");
}

#[test]
fn where_the_end_of_a_rewind_is_lost_it_is_not_done_again() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    let files = vec![Restore { from: "a".into(), to: "b".into() }];
    let rewind = Rewind { direction: Direction::Undo, turns: 1, to: Some(2), files, overwrite: false };
    bench.record(Event::RewindStarted { rewind, was: "c".into(), touches: Touched::default() });
    assert!(bench.session.rewinding().is_some());
    bench.record(Event::EventLost {});
    assert_eq!(bench.session.rewinding(), None);
}

fn abandoned(rewind: Rewind) -> Event {
    Event::RewindAbandoned { rewind, error: "no snapshot".into(), touches: Touched::default() }
}

#[test]
fn a_rewind_that_is_given_up_leaves_the_conversation_and_tells_the_model() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            let rewind = Rewind { to: Some(2), ..files_only(Direction::Undo) };
            b.happen(Event::RewindStarted { rewind: rewind.clone(), was: "w".into(), touches: Touched::default() });
            b.happen(abandoned(rewind));
            assert!(b.session.rewinding().is_none() && b.session.redo().is_none() && b.session.is_at_rest());
            let told = format!("{:?}", b.session.transcript().last());
            assert!(told.contains("take back the last turn") && told.contains("(no snapshot)"), "{told}");
        },
        expect![[r#"
            user       one
            assistant  first
            user       [The user wanted to t…]
            end        completed
        "#]],
    );
}

#[test]
fn who_goes_on_has_let_go_of_a_rewind_that_was_cut_off() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    let rewind = files_only(Direction::Undo);
    bench.record(Event::RewindStarted { rewind, was: "c".into(), touches: Touched::default() });
    bench.say("more");
    assert_eq!(bench.session.rewinding(), None, "to do it now would take back what was said since");
}

#[test]
fn a_full_context_is_compacted_before_the_step_and_a_failed_try_does_not_stop_the_work() {
    check(
        |b| {
            b.compact_at = Some(100);
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            assert_eq!(b.wanted(), "compact(Ordinary)");
            let upto_seq = b.log.len() as Seq;
            b.happen(Event::CompactionFinished {
                trigger: Trigger::Ordinary,
                upto_seq,
                summary: "what happened so far".into(),
                tokens_before: 110,
                tokens_after: 20,
                note: None,
                asked: None,
            });
            b.calls(&["read"]);
            b.finish("c2_0");
            b.happen(Event::CompactionFailed {
                trigger: Trigger::Ordinary,
                why: None,
                error: "no".into(),
                asked: None,
            });
            b.answer("done");
        },
        expect![[r#"
            user       [what happened so far…]
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn a_conversation_that_does_not_fit_is_compacted_and_asked_again_or_ends_there() {
    check(
        |b| {
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
            assert_eq!(b.wanted(), "compact(Forced)");
            b.happen(Event::CompactionFinished {
                trigger: Trigger::Forced,
                upto_seq: 0,
                summary: "an empty conversation".into(),
                tokens_before: 110,
                tokens_after: 20,
                note: None,
                asked: None,
            });
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(Event::CompactionFailed {
                trigger: Trigger::Forced,
                why: None,
                error: "nothing left to drop".into(),
                asked: None,
            });
        },
        expect![[r#"
            user       [an empty conversatio…]
            user       go
            end        context_limit: nothing left to drop
        "#]],
    );
}

fn finished(trigger: Trigger, upto_seq: Seq, tokens_before: u64, tokens_after: u64) -> Event {
    let summary = "what happened so far".to_owned();
    Event::CompactionFinished { trigger, upto_seq, summary, tokens_before, tokens_after, note: None, asked: None }
}

#[test]
fn a_compaction_that_frees_too_little_ends_the_turn_and_says_so() {
    check(
        |b| {
            b.compact_at = Some(100);
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            let upto_seq = b.log.len() as Seq;
            b.happen(finished(Trigger::Ordinary, upto_seq, 110, 105));
        },
        expect![[r#"
            user       [what happened so far…]
            end        context_limit: making room freed too little: about 105 of 110 tokens are left, and they are needed
        "#]],
    );
}

#[test]
fn a_pruned_output_names_the_event_that_has_it_and_the_turn_goes_on() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(100);
    b.say("go");
    b.calls(&["read"]);
    b.finish("c1_0");
    let calls = vec![CallId::from("c1_0")];
    b.happen(Event::ContextPruned { calls, to_bytes: None, tokens_before: 110, tokens_after: 20, suffices: true });
    assert_eq!(b.session.phase_name(), "calling_model");
    let settled = b.log.iter().find(|record| matches!(record.event, Event::CallSettled { .. })).expect("it settled");
    let result = b.session.transcript().last().expect("a result").parts[0].clone();
    let Part::ToolResult { outcome, .. } = result else { panic!("not a result") };
    assert!(outcome.text.contains(&format!("event {} of the journal", settled.seq)), "{}", outcome.text);
    assert!(b.session.room().is_pruned(&CallId::from("c1_0")));
    assert_eq!(b.session, State::fold(&b.log), "a fold makes the same of it");
}

#[test]
fn without_automatic_compaction_a_conversation_that_does_not_fit_ends_the_turn() {
    let mut policy = Policy::piton();
    policy.compaction.rules.auto = false;
    check_with(
        policy,
        |b| {
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
        },
        &expect![[r#"
            user       go
            end        context_limit: WindowExceeded
        "#]],
    );
}

#[test]
fn where_a_person_alone_makes_room_a_full_context_ends_the_turn_but_not_by_the_rules_of_other_loops() {
    let mut policy = Policy::piton();
    policy.compaction.rules.auto = false;
    let full = |b: &mut Bench| {
        b.compact_at = Some(100);
        b.say("go");
        b.calls(&["read"]);
        b.finish("c1_0");
    };
    check_with(
        policy,
        full,
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            end        context_limit: about 121 tokens are in the context, it counts as full from 100 on, and [compaction] auto is off
        "#]],
    );
    // S0-018: a long history, and no request for a summary.
    let mut policy = Policy::preset("neovate").expect("one of the presets");
    policy.compaction.rules.auto = false;
    let mut bench = Bench::with(policy);
    full(&mut bench);
    assert_eq!(bench.session.phase_name(), "calling_model");
}

#[test]
fn what_waits_for_a_turn_of_its_own_does_not_fill_this_one() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(2_000);
    b.say("go");
    b.speak(&"later ".repeat(5_000), Delivery::FollowUp);
    b.calls(&["read"]);
    b.finish("c1_0");
    assert_eq!(b.session.phase_name(), "calling_model");
    b.calls(&["read"]);
    b.say(&"now ".repeat(5_000));
    b.finish("c2_0");
    assert_eq!(b.wanted(), "compact(Ordinary)", "steering is part of the next request");
    assert!(b.session.room().held_tokens() < 1_000 && b.session.room().used_tokens() > 2_000);
}

fn cut_reply(text: &str) -> Reply {
    reply(vec![Part::text(text)], FinishReason::Length)
}

#[test]
fn a_cut_reply_that_is_the_answer_is_checked_like_any_other() {
    let mut bench = Bench::with(Policy {
        hooks: gated([HookPoint::Stop]),
        ..Policy::preset("etcode").expect("one of the presets")
    });
    bench.say("go");
    bench.reply(cut_reply("half of"));
    assert_eq!(bench.session.phase_name(), "checking");
    bench.happen(asked(Some("ci"), None));
    bench.reply(cut_reply("half of it"));
    bench.happen(asked(None, None));
    let Some(Event::TurnEnded { end, detail, .. }) = bench.log.last().map(|record| &record.event) else {
        panic!("the turn is over")
    };
    let detail = detail.as_deref().unwrap_or_default();
    assert_eq!((*end, detail), (TurnEnd::Completed, "the reply was cut at the model's output limit"));
}

#[test]
fn the_limits_hold_after_room_was_made() {
    for wrapped_up in [true, false] {
        let mut policy = Policy::piton();
        policy.steps.max = Some(2);
        let mut b = Bench::with(policy);
        b.say("go");
        b.calls(&["read"]);
        b.finish("c1_0");
        if !wrapped_up {
            // What has the last step be an ordinary one: the limit is lowered by whoever goes on.
            b.happen(Event::TurnResumed {
                model: "fake/model".into(),
                fallbacks: vec![],
                policy: Box::new(Policy {
                    steps: StepPolicy { max: Some(1), ..StepPolicy::default() },
                    ..Policy::piton()
                }),
            });
        }
        b.happen(Event::WindowLearned { compact_at_tokens: 100 });
        b.reply(cut_reply("to sum "));
        let ended =
            matches!(b.log.last().map(|record| &record.event), Some(Event::TurnEnded { end: TurnEnd::MaxSteps, .. }));
        assert!(ended, "{}", b.show());
    }
    let mut b = Bench::with(Policy { steps: StepPolicy { max: Some(2), ..StepPolicy::default() }, ..Policy::piton() });
    b.compact_at = Some(100);
    b.say("go");
    b.reply(cut_reply("half of "));
    assert_eq!(b.wanted(), "compact(Forced)");
    let upto_seq = b.log.len() as Seq;
    b.happen(finished(Trigger::Forced, upto_seq, 110, 20));
    assert_eq!(b.session.step_kind(), StepKind::WrapUp, "the last step is one without tools after a compaction too");
}

#[test]
fn a_summary_that_was_paid_for_is_taken_though_words_came_meanwhile() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    let upto_seq = b.log.len() as Seq;
    b.record(Event::UserSpoke { message: "m9".into(), parts: vec![Part::text("two")], delivery: Delivery::Steer });
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(b.session.room().summary(), Some(("what happened so far", upto_seq)));
    assert_eq!(b.session.transcript().len(), 2, "the summary and the new words");
}

#[test]
fn what_we_cut_off_ourselves_counts_with_the_worst_it_can_have_cost() {
    let most = Bound { tokens: 900, cost_micros: Some(70) };
    let mut b = Bench::with(Policy::piton());
    b.say("go");
    b.record(Event::CancelRequested { by: Canceller::User });
    b.happen(Event::MessageCut { step: 1, parts: vec![], at_most: Some(most) });
    assert_eq!((b.session.used(), b.session.spent().unpriced_calls), (most, 1));
    assert_eq!(b.session.transcript().len(), 1, "it had said nothing");
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(1);
    b.say("go");
    assert_eq!(b.wanted(), "compact(Ordinary)");
    b.record(Event::CancelRequested { by: Canceller::User });
    let asked = crate::event::Asked {
        model: "fake/model".into(),
        attempts: 1,
        usage: Usage::default(),
        cost_micros: None,
        at_most: Some(most),
        prompt: None,
    };
    let (trigger, error) = (Trigger::Ordinary, "it was stopped".to_owned());
    b.happen(Event::CompactionFailed { trigger, why: None, error, asked: Some(Box::new(asked)) });
    assert_eq!(b.session.used(), most);
}

#[test]
fn of_an_output_that_is_too_long_beginning_and_end_stay() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(100);
    b.say("go");
    b.calls(&["read"]);
    b.finish_with("c1_0", Outcome::ok(format!("first {} last", "ä".repeat(5_000))));
    let calls = vec![CallId::from("c1_0")];
    b.happen(Event::ContextPruned { calls, to_bytes: Some(99), tokens_before: 110, tokens_after: 20, suffices: true });
    let result = b.session.transcript().last().expect("a result").parts[0].clone();
    let Part::ToolResult { outcome, .. } = result else { panic!("not a result") };
    assert!(outcome.text.starts_with("first ä") && outcome.text.ends_with("ä last"), "{}", outcome.text);
    assert!(outcome.text.contains("`history` with seq") && outcome.text.len() < 400, "{}", outcome.text);
    let call = CallId::from("c1_0");
    assert!(b.session.room().is_clipped(&call) && !b.session.room().is_pruned(&call));
    assert_eq!(b.session, State::fold(&b.log), "a fold makes the same of it");
}

#[test]
fn between_turns_a_person_may_compact_and_change_the_summary() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    let upto_seq = b.log.len() as Seq;
    b.happen(finished(Trigger::Ordinary, upto_seq, 110, 20));
    assert_eq!(b.session.transcript().len(), 2, "nobody asked for this one");
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(
        (b.session.transcript().len(), b.session.room().summary()),
        (1, Some(("what happened so far", upto_seq)))
    );
    b.happen(Event::CompactionFinished {
        trigger: Trigger::Edited,
        upto_seq,
        summary: "shorter".to_owned(),
        tokens_before: 20,
        tokens_after: 20,
        note: None,
        asked: None,
    });
    assert_eq!(b.session.room().summary(), Some(("shorter", upto_seq)));
    assert_eq!(b.session.room().dropped(0).words, [(2, "one".to_owned())], "what the user said is not forgotten");
    b.say("two");
    assert_eq!(b.session.phase_name(), "calling_model");
}

#[test]
fn a_summary_knows_the_files_of_calls_as_their_tools_planned_them() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.reply(reply(vec![call("edit"), call("grep")], FinishReason::ToolCalls));
    let planned = |id: &str, kind, access| Event::CallRequested {
        call: id.into(),
        input: Some(json!({})),
        author: Author::Model,
        effects: Effects::READ,
        verdict: Verdict::Allow,
        plan: Some(Box::new(Planned { kind, title: "it".into(), accesses: vec![access] })),
    };
    b.happen(planned("c1_0", Kind::Edit, Access::Write("/w/src/a.rs".into())));
    b.happen(planned("c1_1", Kind::Search, Access::Read("/w".into())));
    let files = b.session.room().dropped(2).files;
    let named: Vec<_> = files.iter().map(|(path, used)| (path.as_str(), used.changed)).collect();
    assert_eq!(named, [("src/a.rs", true)]);
}

#[test]
fn what_is_kept_never_begins_with_a_result() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.calls(&["read"]);
    let upto_seq = b.log.iter().find(|record| matches!(record.event, Event::MessageFinished { .. })).expect("it").seq;
    b.finish("c1_0");
    b.answer("first");
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(malformed(b.session.transcript().map(|message| &**message)), None);
    assert_eq!(b.session.transcript().len(), 2, "the summary and the answer");
}

#[test]
fn a_filtered_reply_ends_the_turn_and_its_calls_are_answered() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![Part::text("well"), call("bash")], FinishReason::ContentFilter));
        },
        expect![[r#"
            user       go
            assistant  well bash#c1_0
            result     #c1_0 cancelled
            end        content_filter: the provider stopped the reply (content_filter)
        "#]],
    );
}

#[test]
fn a_hook_stops_the_turn_under_its_own_name() {
    check(
        |b| {
            b.say("go");
            b.happen(Event::CancelRequested { by: Canceller::Hook("not on a Friday".into()) });
        },
        expect![[r#"
            user       go
            end        hook_stopped: not on a Friday
        "#]],
    );
}

#[test]
fn beyond_the_limit_of_turns_nothing_is_asked() {
    check_with(
        Policy { steps: StepPolicy { max_turns: Some(0), ..StepPolicy::default() }, ..Policy::piton() },
        |b| b.say("go"),
        &expect![[r#"
            user       go
            end        max_turns: the session's limit of 0 turns is reached
        "#]],
    );
}

/// One session in each phase, by the shortest way there.
fn one_of_each_phase() -> Vec<Bench> {
    let allow = || {
        let mut policy = Policy::piton();
        policy.permission.push("*", Action::Allow);
        Bench::with(policy)
    };
    let speak = |b: &mut Bench| {
        let parts = vec![Part::text("go")];
        b.record(Event::UserSpoke { message: MessageId::from("m"), parts, delivery: Delivery::FollowUp });
    };
    let mut all = vec![allow()];
    for (wanted, steps) in [
        ("held", 0),
        ("due", 0),
        ("next_step", 1),
        ("before_model", 2),
        ("calling_model", 2),
        ("backing_off", 2),
        ("given_up", 2),
        ("running_tools", 2),
        ("step_over", 2),
        ("stuck", 3),
        ("asking_to_go_on", 3),
        ("room_needed", 2),
        ("before_compaction", 2),
        ("compacting", 2),
        ("compacted", 2),
        ("checking", 2),
        ("sealing", 2),
        ("ending", 2),
    ] {
        let mut b = allow();
        if wanted == "stuck" || wanted == "asking_to_go_on" {
            b.policy.stuck.repeats = 1;
        }
        let gate = match wanted {
            "before_model" => Some(HookPoint::BeforeModel),
            "before_compaction" => Some(HookPoint::BeforeCompaction),
            "compacted" => Some(HookPoint::SessionStart),
            "checking" => Some(HookPoint::Stop),
            _ => None,
        };
        b.policy.hooks.gates = Gates::of(gate);
        b.policy.snapshots = wanted == "sealing";
        speak(&mut b);
        if steps >= 1 {
            let policy = Box::new(b.policy.clone());
            let fallbacks = if wanted == "given_up" { vec!["m2".to_owned()] } else { vec![] };
            b.record(Event::TurnStarted { turn: 1, model: "m".into(), fallbacks, policy, compact_at_tokens: None });
        }
        if steps >= 2 {
            b.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
        }
        match wanted {
            "held" => b.record(Event::CancelRequested { by: Canceller::User }),
            "backing_off" => {
                let error = ModelError::new(ModelErrorKind::Server, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
            }
            "given_up" => {
                let error = ModelError::new(ModelErrorKind::QuotaSpent, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
            }
            "running_tools" => {
                b.record(b.session.replied(1, reply(vec![call("bash")], FinishReason::ToolCalls), None, 0, 0));
            }
            "step_over" => b.record(b.session.replied(1, reply(vec![Part::text("x")], FinishReason::Stop), None, 0, 0)),
            "checking" => {
                b.record(b.session.replied(1, reply(vec![Part::text("x")], FinishReason::Stop), None, 0, 0));
                b.record(Event::StepFinished { step: 1 });
            }
            "stuck" | "asking_to_go_on" => {
                b.record(b.session.replied(1, reply(vec![call("read")], FinishReason::ToolCalls), None, 0, 0));
                let id = CallId::from("c1_0");
                b.record(Event::requested(id.clone(), Effects::READ, Verdict::Refuse("no".into())));
                b.record(Event::CallSettled { call: id.clone(), outcome: Outcome::failed("no") });
                b.record(Event::StepFinished { step: 1 });
                if wanted == "asking_to_go_on" {
                    b.record(Event::ApprovalAsked { subject: Subject::GoOn(id), question: None });
                }
            }
            "room_needed" | "before_compaction" | "compacting" | "compacted" => {
                let error = ModelError::new(ModelErrorKind::WindowExceeded, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
                if wanted != "room_needed" {
                    b.record(Event::CompactionStarted { trigger: Trigger::Forced, focus: None, lost: None });
                }
                if wanted == "compacted" {
                    b.record(finished(Trigger::Forced, 0, 110, 20));
                }
            }
            "sealing" => {
                b.record(b.session.replied(1, reply(vec![call("bash")], FinishReason::ToolCalls), None, 0, 0));
                b.record(snapshot(Moment::Before));
                b.settle_down();
                b.cancel();
            }
            "ending" => b.record(Event::CancelRequested { by: Canceller::User }),
            _ => {}
        }
        assert_eq!(b.session.phase_name(), wanted);
        all.push(b);
    }
    all
}

fn said(text: &str) -> Event {
    Event::UserSpoke { message: MessageId::from("m"), parts: vec![Part::text(text)], delivery: Delivery::Steer }
}

fn call_id_of_first() -> CallId {
    CallId::from("c1_0")
}

/// One event of every kind, all about the first step's first call.
fn one_of_each_event() -> Vec<Event> {
    let call_id = CallId::from("c1_0");
    vec![
        Event::WriterOpened { epoch: 2, pid: 1, boot_id: None },
        Event::WriterClosed {},
        Event::UserSpoke { message: MessageId::from("new"), parts: vec![Part::text("x")], delivery: Delivery::Steer },
        Event::TurnStarted {
            turn: 1,
            model: "m".into(),
            fallbacks: vec![],
            policy: Box::new(Policy::piton()),
            compact_at_tokens: None,
        },
        Event::TurnResumed { model: "m".into(), fallbacks: vec![], policy: Box::new(Policy::piton()) },
        Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None },
        Event::MessageFinished {
            first_ms: None,
            step: 1,
            attempt: 1,
            reply: reply(vec![Part::text("x")], FinishReason::Stop),
            cost_micros: None,
            at_most: None,
            prompt: None,
        },
        Event::ModelFailed {
            step: 1,
            attempt: 1,
            error: ModelError::new(ModelErrorKind::Server, "x"),
            usage: Usage::default(),
            cost_micros: None,
            at_most: None,
            prompt: None,
            abandoned: vec![],
            retry_at_ms: Some(1),
        },
        Event::ModelSwitched { step: 1, model: "m2".into(), reason: "x".into(), compact_at_tokens: None },
        Event::BackoffPassed { step: 1 },
        Event::MessageCut { step: 1, parts: vec![Part::text("x")], at_most: None },
        Event::requested(call_id.clone(), Effects::READ, Verdict::Deny("x".into())),
        Event::ApprovalAsked { subject: Subject::Call(call_id.clone()), question: None },
        Event::ApprovalAsked { subject: Subject::GoOn(call_id.clone()), question: None },
        Event::approval(Subject::Call(call_id.clone()), Decision::Approve),
        Event::approval(Subject::GoOn(call_id.clone()), Decision::Approve),
        snapshot(Moment::Before),
        Event::RewindStarted { rewind: files_only(Direction::Undo), was: "w".into(), touches: Touched::default() },
        Event::RewindFinished { rewind: files_only(Direction::Undo), left: vec![], back: None },
        abandoned(files_only(Direction::Undo)),
        Event::CallStarted { call: call_id.clone() },
        Event::CallSettled { call: call_id, outcome: Outcome::ok("x") },
        asked(None, None),
        asked(Some("ci"), None),
        passed(&Gate::Compacted { step: 1 }),
        passed(&Gate::BeforeModel { step: 1, attempt: 1 }),
        passed(&Gate::BeforeTool(call_id_of_first())),
        passed(&Gate::Question(Subject::GoOn(call_id_of_first()))),
        passed(&Gate::AfterTool(call_id_of_first())),
        passed(&Gate::BeforeCompaction(Trigger::Forced)),
        Event::StepFinished { step: 1 },
        Event::CompactionStarted { trigger: Trigger::Forced, focus: None, lost: None },
        Event::WindowLearned { compact_at_tokens: 100 },
        Event::ContextPruned {
            calls: vec![call_id_of_first()],
            to_bytes: None,
            tokens_before: 2,
            tokens_after: 1,
            suffices: true,
        },
        Event::CompactionFinished {
            trigger: Trigger::Forced,
            upto_seq: 0,
            summary: "s".into(),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        },
        Event::CompactionFailed { trigger: Trigger::Forced, why: None, error: "x".into(), asked: None },
        Event::CancelRequested { by: Canceller::User },
        Event::DeadlinePassed {},
        Event::BudgetShort { step: 1, why: None, detail: "it is short".into() },
        Event::TitleGiven { title: "x".into(), by: TitledBy::User },
        Event::WorkspaceMoved { workspace: "/v".into() },
        Event::EventLost {},
        Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent: Spent::default() },
    ]
}

#[test]
fn the_transition_table() {
    let mut table = String::new();
    for bench in one_of_each_phase() {
        let from = bench.session.phase_name();
        writeln!(table, "{from}").expect("a string");
        for event in one_of_each_event() {
            let kind = match &event {
                Event::ApprovalAsked { subject: Subject::GoOn(_), .. } => "approval_asked(go_on)",
                Event::ApprovalGiven { subject: Subject::GoOn(_), .. } => "approval_given(go_on)",
                Event::HooksRan { sent_back: Some(_), .. } => "hooks_ran(sent_back)",
                Event::HooksRan { point, .. } => &format!("hooks_ran({point:?})"),
                other => other.kind(),
            };
            let mut session = bench.session.clone();
            session.apply(&Record { seq: 99, at_ms: 0, event });
            if session.phase != bench.session.phase {
                writeln!(table, "    {kind:<24} -> {}", session.phase_name()).expect("a string");
            }
        }
    }
    expect_test::expect_file!["transitions.txt"].assert_eq(&table);
}

/// What the world could do next, drawn at random: mostly what is wanted, sometimes anything at all.
fn random_event(bench: &Bench, dice: &mut fastrand::Rng) -> Event {
    if dice.u8(..10) < 3 {
        let events = one_of_each_event();
        return match dice.usize(..=events.len()) {
            0 => speech(bench, dice),
            at => events[at - 1].clone(),
        };
    }
    let wanted = bench.session.wanted();
    let Some(job) = dice.choice(wanted) else { return speech(bench, dice) };
    match job {
        Job::StartTurn => Event::TurnStarted {
            turn: bench.session.turn() + 1,
            model: "m".into(),
            fallbacks: vec!["m2".to_owned(); dice.usize(..3)],
            policy: Box::new(bench.policy.clone()),
            compact_at_tokens: dice.bool().then_some(100),
        },
        Job::CallModel { attempt, .. } => random_reply(bench, attempt, dice),
        Job::SwitchModel { reason } => switch(&bench.session, reason),
        Job::Wait { step, .. } => Event::BackoffPassed { step },
        Job::WatchDeadline { .. } => Event::DeadlinePassed {},
        Job::JudgeCall(call) => Event::CallRequested {
            call: call.id.clone(),
            input: dice.bool().then(|| json!({"changed": true})),
            author: dice.choice([Author::Model, Author::Hook]).expect("two"),
            effects: dice.choice([Effects::READ, Effects::WRITE, Effects::OPAQUE]).expect("three"),
            plan: None,
            verdict: dice
                .choice([
                    Verdict::Allow,
                    Verdict::Ask,
                    Verdict::AskFirst("a".into()),
                    Verdict::Deny("d".into()),
                    Verdict::Refuse("r".into()),
                ])
                .expect("four"),
        },
        Job::AskApproval(subject) => {
            let answers = [Decision::Approve, Decision::ApproveForSession, Decision::Deny(None), Decision::Unattended];
            Event::approval(subject, dice.choice(answers).expect("four"))
        }
        Job::RunTool(call) | Job::StopTool(call) => {
            Event::CallSettled { call: call.id.clone(), outcome: Outcome::ok(format!("{}", dice.u8(..2))) }
        }
        Job::Snapshot(moment) => snapshot(moment),
        Job::Compact(_) if dice.u8(..3) == 0 => {
            let calls = vec![call_id_of_first()];
            Event::ContextPruned { calls, to_bytes: None, tokens_before: 2, tokens_after: 1, suffices: dice.bool() }
        }
        Job::Pass(gate) => random_pass(&gate, dice),
        Job::Compact(found) if dice.bool() => {
            let trigger = dice.choice([found, Trigger::Forced]).expect("two");
            Event::CompactionFailed { trigger, why: None, error: "e".into(), asked: None }
        }
        Job::Compact(trigger) => Event::CompactionFinished {
            trigger,
            upto_seq: bench.log.len() as Seq,
            summary: "a summary of the above".into(),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        },
    }
}

fn random_pass(gate: &Gate, dice: &mut fastrand::Rng) -> Event {
    let mut event = passed(gate);
    if let Event::HooksRan { notes, system, input, verdict, sent_back, stopped, .. } = &mut event {
        notes.extend(dice.bool().then(|| "a note of a hook".to_owned()));
        *system = dice.bool().then(|| "another prompt".to_owned());
        *stopped = (dice.u8(..8) == 0).then(|| "never".to_owned());
        *sent_back = (matches!(gate, Gate::End { .. }) && dice.bool()).then(|| "ci".to_owned());
        if let Gate::BeforeTool(_) = gate {
            *input = dice.bool().then(|| json!({"wrapped": true}));
            *verdict = dice.bool().then_some(HookVerdict::Ask("hmm".to_owned()));
        }
    }
    event
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

fn speech(bench: &Bench, dice: &mut fastrand::Rng) -> Event {
    let message = MessageId(format!("m{}", bench.log.len()));
    let delivery = if dice.bool() { Delivery::Steer } else { Delivery::FollowUp };
    Event::UserSpoke { message, parts: vec![Part::text("x")], delivery }
}

fn random_reply(bench: &Bench, attempt: u32, dice: &mut fastrand::Rng) -> Event {
    use ModelErrorKind::{Auth, ContentFilter, EmptyReply, RateLimited, WindowExceeded};
    if dice.u8(..4) == 0 {
        let kind = dice.choice([Auth, ContentFilter, EmptyReply, RateLimited, WindowExceeded]).expect("five");
        return bench.session.failed(attempt, ModelError::new(kind, "x"), Usage::default(), vec![], 0, 500);
    }
    let finish = dice
        .choice([
            FinishReason::Stop,
            FinishReason::ToolCalls,
            FinishReason::ToolCalls,
            FinishReason::Length,
            FinishReason::ContentFilter,
            FinishReason::Error,
            FinishReason::Other,
            FinishReason::Paused,
        ])
        .expect("eight");
    let mut parts = vec![Part::text("x")];
    for _ in 0..dice.usize(..5) {
        parts.push(match dice.u8(..6) {
            0 => Part::ToolCall(ToolCall {
                id: CallId::from("dup"),
                provider_id: Some("same".into()),
                name: "read".into(),
                spelling: None,
                input: CallInput::parse("{"),
                opaque: None,
            }),
            _ => call(dice.choice(["read", "bash", "edit"]).expect("three")),
        });
    }
    bench.session.replied(attempt, reply(parts, finish), Some(1), 0, 500)
}

/// Runs the session to its rest, answering everything; a turn must always end.
fn run_to_rest(bench: &mut Bench, dice: &mut fastrand::Rng) {
    for _ in 0..5_000 {
        bench.settle_down();
        if bench.session.is_at_rest() {
            return;
        }
        let event = loop {
            let event = random_event(bench, dice);
            if !matches!(event, Event::UserSpoke { .. }) {
                break event;
            }
        };
        bench.record(event);
    }
    panic!("the turn does not end: {}", bench.session.phase_name());
}

#[test]
fn one_hundred_thousand_random_orders_keep_every_invariant() {
    for seed in 0..100_000_u64 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut policy = Policy::piton();
        policy.steps.max = Some(dice.u32(1..6));
        policy.calls.max_per_step = dice.usize(1..5);
        policy.retry.usual.per_call = Some(dice.u32(..3));
        policy.stuck.repeats = dice.u32(..4);
        policy.snapshots = dice.bool();
        let gates = [
            HookPoint::SessionStart,
            HookPoint::BeforeModel,
            HookPoint::BeforeTool,
            HookPoint::Approval,
            HookPoint::AfterTool,
            HookPoint::BeforeCompaction,
            HookPoint::Stop,
        ];
        policy.hooks.gates = Gates::of(gates.into_iter().filter(|_| dice.bool()));
        policy.budget.tokens = dice.bool().then_some(250);
        policy.budget.wall_clock_ms = dice.bool().then_some(1_000);
        let mut bench = Bench::with(policy);
        for _ in 0..dice.usize(4..24) {
            let event = random_event(&bench, &mut dice);
            bench.record(event);
            if dice.bool() {
                bench.settle_down();
            }
        }
        check_invariants(&bench.session, &bench.log);
        run_to_rest(&mut bench, &mut dice);
        check_invariants(&bench.session, &bench.log);
        // A `TurnStarted` that came at the wrong time started no turn, and is no place to go back to.
        let is_rest = |span: &branch::TurnSpan| !State::fold(&bench.log[..span.started as usize - 1]).is_in_turn();
        if let Some(span) = dice.choice(branch::turns(&bench.log)).filter(is_rest) {
            bench.record(moved(&bench.session, Direction::Undo, span.started - 1));
            check_invariants(&bench.session, &bench.log);
        }
        bench.say("and now");
        assert!(bench.session.is_in_turn(), "seed {seed}: a session at rest did not take up a new message");
    }
}
