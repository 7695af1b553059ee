//! Hooks as an embedder writes them: what they see, what they change, and that none of them can break the loop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::Home;
use async_trait::async_trait;
use expect_test::expect;
use futures_util::StreamExt;
use piton_core::call::{Outcome, Status};
use piton_core::client::{Compact, Prompt, Reply as Answered, Report, Request as Asked, Scope, Stage};
use piton_core::event::{Direction, Event, Record, Subject, TurnEnd};
use piton_core::hook::{HookEnd, HookPoint, HookRun};
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_engine::engine::{Attendance, Engine, EngineError, Handle, Settings};
use piton_engine::hooks::{
    CallChange, Hook, HookContext, HookError, HookResult, HookVerdict, ModelAnswer, ModelCall, ModelChange,
    OutcomeChange, Points, PromptChange, SessionStart, StepDone, Stop, StopChange, TurnDone, Words,
};
use piton_engine::store::sqlite;
use piton_engine::store::sqlite::SessionDir;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// A home with two files in its workspace.
fn home() -> Home {
    let home = Home::new();
    std::fs::write(home.workspace.path().join("a.txt"), "alpha\n").unwrap();
    std::fs::write(home.workspace.path().join("b.txt"), "beta\n").unwrap();
    home
}

/// A model that replies by a list, and keeps what it was asked.
#[derive(Default)]
struct Scripted {
    replies: Mutex<VecDeque<Vec<Part>>>,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    fn new(replies: Vec<Vec<Part>>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into()), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        "test/scripted"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.asked.lock().unwrap().push(request);
        let parts = self.replies.lock().unwrap().pop_front().unwrap_or_else(|| says("nothing more"));
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        let deltas: Vec<ModelEvent> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text, .. } => Some(text.split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>()),
                _ => None,
            })
            .flatten()
            .map(|text| ModelEvent::Delta(Delta::Text { text }))
            .collect();
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        let reply = Reply { usage, ..Reply::new(parts, finish) };
        let all = deltas.into_iter().chain([ModelEvent::Done(Box::new(reply))]).map(Ok);
        futures_util::stream::iter(all).boxed()
    }
}

fn says(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

fn calls(name: &str, input: &Value) -> Vec<Part> {
    let input = piton_core::call::CallInput::from_value(input.clone());
    vec![Part::ToolCall(ToolCall {
        id: "".into(),
        provider_id: None,
        name: name.into(),
        spelling: None,
        input,
        opaque: None,
    })]
}

fn reads(path: &str) -> Vec<Part> {
    calls("read", &json!({"path": path}))
}

fn settings(model: &Arc<Scripted>, hooks: Vec<Arc<dyn Hook>>) -> Settings {
    let mut settings = Settings::new(model.clone());
    settings.policy.permission.push("*", Action::Allow);
    settings.hooks = hooks;
    settings
}

fn journal_of(session: &Handle) -> Vec<Record> {
    sqlite::read_session(&SessionDir::of(session.store(), session.id())).unwrap()
}

fn runs(session: &Handle) -> Vec<(HookPoint, HookRun)> {
    let ran = |record: &Record| match &record.event {
        Event::HooksRan { point, runs, .. } => runs.iter().map(|run| (*point, run.clone())).collect(),
        _ => Vec::new(),
    };
    journal_of(session).iter().flat_map(ran).collect()
}

/// What the model reads of tool results and notes, as a resumed session has it.
fn folded(session: &Handle) -> Vec<String> {
    let session = piton_core::turn::State::fold(&journal_of(session));
    let words = |part: &Part| match part {
        Part::ToolResult { outcome, .. } => Some(format!("result: {}", outcome.text.trim())),
        Part::Note { text, .. } => Some(format!("note: {text}")),
        Part::Text { text, .. } => Some(text.clone()),
        Part::ToolCall(call) => Some(format!("call: {} {}", call.name, json!(call.input))),
        _ => None,
    };
    session.transcript().flat_map(|message| message.parts.iter().filter_map(words).collect::<Vec<_>>()).collect()
}

/// Writes down everything it sees.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> String {
        self.0.lock().unwrap().join("\n") + "\n"
    }
}

#[async_trait]
impl Hook for Log {
    fn name(&self) -> &str {
        "log"
    }

    async fn on_session_start(&self, _: &HookContext, start: SessionStart) -> HookResult<Words> {
        self.note(format!("session start {start:?}"));
        Ok(Words::default())
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        self.note(format!("prompt {text}"));
        Ok(PromptChange::default())
    }

    async fn before_model_call(&self, cx: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        self.note(format!("before model, step {}, {} messages", cx.step, call.messages.len()));
        Ok(ModelChange::default())
    }

    async fn on_text_delta(&self, _: &HookContext, text: &str) -> HookResult {
        // Slower than the model: it must get all of it all the same, and in order.
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.note(format!("text {text:?}"));
        Ok(())
    }

    async fn after_model_call(&self, _: &HookContext, answer: &ModelAnswer) -> HookResult {
        self.note(format!("after model, {:?}", answer.result.as_ref().map(|reply| reply.finish)));
        Ok(())
    }

    async fn on_message(&self, _: &HookContext, message: &Message) -> HookResult {
        self.note(format!("message {:?}", message.role));
        Ok(())
    }

    async fn on_tool_use(&self, _: &HookContext, call: &ToolCall) -> HookResult {
        self.note(format!("tool use {}", call.name));
        Ok(())
    }

    async fn before_tool_call(&self, _: &HookContext, call: &ToolCall) -> HookResult<CallChange> {
        self.note(format!("before tool {}", call.id));
        Ok(CallChange::default())
    }

    async fn on_approval(&self, _: &HookContext, _: &Subject, call: &ToolCall) -> HookResult<Option<Decision>> {
        self.note(format!("approval {}", call.name));
        Ok(Some(Decision::Approve))
    }

    async fn after_tool_call(&self, _: &HookContext, _: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        self.note(format!("after tool {:?}", outcome.status));
        Ok(OutcomeChange::default())
    }

    async fn on_step(&self, _: &HookContext, step: &StepDone) -> HookResult {
        assert!(step.started_ms > 0 && step.ended_ms >= step.started_ms);
        self.note(format!("step, {} tokens", step.usage.total()));
        Ok(())
    }

    async fn on_stop(&self, _: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        self.note(format!("stop {}", stop.text));
        Ok(StopChange::default())
    }

    async fn on_turn(&self, _: &HookContext, turn: &TurnDone) -> HookResult {
        assert!(turn.started_ms > 0 && turn.ended_ms >= turn.started_ms);
        self.note(format!("turn {:?}, {} tokens", turn.end, turn.spent.usage.total()));
        Ok(())
    }

    async fn on_session_end(&self, _: &HookContext) -> HookResult {
        self.note("session end");
        Ok(())
    }
}

#[tokio::test]
async fn every_point_is_passed_in_the_order_of_a_turn() {
    let home = home();
    let model = Scripted::new(vec![calls("write", &json!({"path": "c.txt", "content": "x"})), says("all is done")]);
    let log = Arc::new(Log::default());
    let mut settings = settings(&model, vec![log.clone()]);
    settings.policy.permission = piton_core::permission::Rules::default();
    let session = home.create(settings).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    session.close().await;
    expect![[r#"
        session start New
        prompt go
        before model, step 1, 1 messages
        after model, Ok(ToolCalls)
        message Assistant
        tool use write
        before tool c1_0
        approval write
        after tool Ok
        message Tool
        step, 10 tokens
        before model, step 2, 3 messages
        text "all "
        text "is "
        text "done"
        after model, Ok(Stop)
        message Assistant
        step, 10 tokens
        stop all is done
        turn Completed, 20 tokens
        session end
    "#]]
    .assert_eq(&log.lines());
}

/// A hook of one point.
struct One<F> {
    name: &'static str,
    points: Points,
    required: bool,
    rounds: usize,
    act: F,
}

fn at<F>(name: &'static str, point: HookPoint, act: F) -> One<F> {
    One { name, points: Points::of([point]), required: false, rounds: 2, act }
}

/// What it does there.
enum Act {
    Model(ModelChange),
    Call(CallChange),
    Outcome(OutcomeChange),
    Prompt(PromptChange),
    Stop(StopChange),
    Fail,
    Panic,
    Hang,
}

#[async_trait]
impl<F: Fn(&str) -> Act + Send + Sync> Hook for One<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn points(&self) -> Points {
        self.points
    }

    fn required(&self) -> bool {
        self.required
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn stop_rounds(&self) -> usize {
        self.rounds
    }

    async fn on_text_delta(&self, _: &HookContext, text: &str) -> HookResult {
        misbehave((self.act)(text)).await
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        match (self.act)(text) {
            Act::Prompt(change) => Ok(change),
            other => misbehave(other).await,
        }
    }

    async fn before_model_call(&self, _: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        match (self.act)(&call.system) {
            Act::Model(change) => Ok(change),
            other => misbehave(other).await,
        }
    }

    async fn before_tool_call(&self, _: &HookContext, call: &ToolCall) -> HookResult<CallChange> {
        match (self.act)(&json!(call.input).to_string()) {
            Act::Call(change) => Ok(change),
            other => misbehave(other).await,
        }
    }

    async fn after_tool_call(&self, _: &HookContext, _: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        match (self.act)(&outcome.text) {
            Act::Outcome(change) => Ok(change),
            other => misbehave(other).await,
        }
    }

    async fn on_step(&self, _: &HookContext, _: &StepDone) -> HookResult {
        misbehave((self.act)("")).await
    }

    async fn on_stop(&self, _: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        match (self.act)(&stop.text) {
            Act::Stop(change) => Ok(change),
            other => misbehave(other).await,
        }
    }
}

async fn misbehave<T>(act: Act) -> HookResult<T> {
    match act {
        Act::Panic => panic!("a hook that panics"),
        Act::Hang => std::future::pending().await,
        _ => Err(HookError("the linter is not installed".into())),
    }
}

#[tokio::test]
async fn each_sees_the_changes_of_the_one_before_and_the_journal_has_them() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("done")]);
    let adds = |letter: &'static str| {
        move |system: &str| {
            let notes = vec![format!("a word of {letter}")];
            let words = Words { notes, ..Words::default() };
            Act::Model(ModelChange { system: Some(format!("{system}{letter}")), words, tools: None })
        }
    };
    let other_file = |input: &str| {
        assert!(input.contains("a.txt"));
        Act::Call(CallChange { input: Some(json!({"path": "b.txt"})), ..CallChange::default() })
    };
    let shouts = |text: &str| {
        Act::Outcome(OutcomeChange { outcome: Some(Outcome::ok(text.to_uppercase())), words: Words::default() })
    };
    let hooks: Vec<Arc<dyn Hook>> = vec![
        Arc::new(at("one", HookPoint::BeforeModel, adds("A"))),
        Arc::new(at("two", HookPoint::BeforeModel, adds("B"))),
        Arc::new(at("path", HookPoint::BeforeTool, other_file)),
        Arc::new(at("shout", HookPoint::AfterTool, shouts)),
    ];
    let session = home.create(settings(&model, hooks)).await;
    session.prompt("go").await.unwrap();
    session.close().await;
    let asked = model.asked();
    assert!(asked.iter().all(|request| request.system.ends_with("AB")), "{:?}", asked[0].system);
    let session = Engine::open(home.data.path())
        .resume(&piton_core::ids::SessionId::from(asked[0].session.as_str()), Settings::new(model))
        .await
        .unwrap();
    let results: Vec<String> = folded(&session);
    expect![[r#"
        go
        note: a word of A
        note: a word of B
        call: read {"json":{"path":"a.txt"}}
        result: BETA
        note: a word of A
        note: a word of B
        done
    "#]]
    .assert_eq(&(results.join("\n") + "\n").replace("1: ", ""));
    let sent: Vec<_> = asked[1].messages.iter().map(|message| message.role).collect();
    assert_eq!(sent, [Role::User, Role::User, Role::Assistant, Role::Tool, Role::User]);
    assert_eq!(piton_core::turn::malformed(asked[1].messages.iter().map(AsRef::as_ref)), None);
    let systems = journal_of(&session)
        .iter()
        .filter(|record| match &record.event {
            Event::HooksRan { system, .. } => system.is_some(),
            _ => false,
        })
        .count();
    assert_eq!(systems, 1, "the same system prompt is told once");
    let changed = journal_of(&session).iter().any(|record| match &record.event {
        Event::CallRequested { input, .. } => *input == Some(json!({"path": "b.txt"})),
        _ => false,
    });
    assert!(changed);
    session.close().await;
}

#[tokio::test]
async fn a_hook_that_hangs_costs_its_time_once_and_one_that_panics_costs_nothing() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), reads("b.txt"), says("done")]);
    let hooks: Vec<Arc<dyn Hook>> = vec![
        Arc::new(at("hangs", HookPoint::BeforeTool, |_: &str| Act::Hang)),
        Arc::new(at("panics", HookPoint::AfterTool, |_: &str| Act::Panic)),
        Arc::new(at("fails", HookPoint::Step, |_: &str| Act::Fail)),
    ];
    let session = home.create(settings(&model, hooks)).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, &*report.text), (TurnEnd::Completed, "done"));
    session.clone().close().await;
    let runs = runs(&session);
    let of = |name: &str| runs.iter().filter(|(_, run)| run.hook == name).map(|(_, run)| run).collect::<Vec<_>>();
    assert_eq!(of("hangs").len(), 1);
    assert_eq!(of("hangs")[0].end, HookEnd::TimedOut);
    assert!(of("hangs")[0].detail.as_deref().unwrap().contains("not run again"), "{runs:?}");
    assert!(of("panics").len() == 2 && of("panics").iter().all(|run| run.end == HookEnd::Panicked));
    assert_eq!(of("fails").len(), 3);
    assert_eq!(of("fails")[0].detail.as_deref(), Some("the linter is not installed"));
    assert!(of("fails")[2].detail.as_deref().unwrap().contains("not run again"));
}

#[tokio::test]
async fn a_required_hook_that_fails_ends_the_turn_before_anything_acts() {
    let home = home();
    for (act, word) in [
        ((|_: &str| Act::Fail) as fn(&str) -> Act, "the linter is not installed"),
        (|_: &str| Act::Hang, "longer than 0.2 s"),
        (|_: &str| Act::Panic, "panicked"),
    ] {
        let model = Scripted::new(vec![calls("write", &json!({"path": "never.txt", "content": "x"})), says("done")]);
        let hook = One { required: true, ..at("guard", HookPoint::BeforeTool, act) };
        let session = home.create(settings(&model, vec![Arc::new(hook)])).await;
        let report = session.prompt("go").await.unwrap();
        assert_eq!(report.end, TurnEnd::HookStopped);
        assert!(report.detail.as_deref().unwrap().contains(word), "{report:?}");
        assert!(!home.workspace.path().join("never.txt").exists());
        session.close().await;
    }
}

#[tokio::test]
async fn a_required_hook_that_only_watches_ends_the_turn_too() {
    let home = home();
    let model = Scripted::new(vec![says("done")]);
    let hook = One { required: true, ..at("auditor", HookPoint::TextDelta, |_: &str| Act::Fail) };
    let session = home.create(settings(&model, vec![Arc::new(hook)])).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!(report.end, TurnEnd::HookStopped, "{report:?}");
    assert!(report.detail.as_deref().unwrap().contains("the linter is not installed"), "{report:?}");
    session.close().await;
}

#[tokio::test]
async fn a_refused_call_is_answered_and_a_refused_prompt_is_not_on_record() {
    let home = home();
    let model = Scripted::new(vec![calls("bash", &json!({"command": "rm -rf x"})), says("I will not")]);
    let no = |_: &str| {
        let verdict = Some(HookVerdict::Refuse("rm is not for you".into()));
        Act::Call(CallChange { verdict, ..CallChange::default() })
    };
    let no_secrets = |text: &str| {
        let refuse = text.contains("secret").then(|| "it has a secret in it".to_owned());
        Act::Prompt(PromptChange { refuse, words: Words::default() })
    };
    let hooks: Vec<Arc<dyn Hook>> =
        vec![Arc::new(at("no", HookPoint::BeforeTool, no)), Arc::new(at("filter", HookPoint::Prompt, no_secrets))];
    let session = home.create(settings(&model, hooks)).await;
    let error = session.prompt("my secret is 1234").await.unwrap_err();
    assert!(matches!(&error, EngineError::PromptRefused { hook, .. } if hook == "filter"), "{error}");
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.turn, &*report.text), (1, "I will not"));
    session.clone().close().await;
    assert!(folded(&session).iter().any(|line| line.contains("rm is not for you")));
    assert!(!format!("{:?}", journal_of(&session)).contains("1234"));
}

#[tokio::test]
async fn a_stop_hook_sends_the_model_back_to_work_so_often_and_no_more() {
    let home = home();
    let model = Scripted::new(vec![says("done"), says("done now"), says("green")]);
    let until_green = |text: &str| {
        let send_back = (text != "green").then(|| "checks not green yet".to_owned());
        Act::Stop(StopChange { send_back, ..StopChange::default() })
    };
    let hook = || Arc::new(at("ci", HookPoint::Stop, until_green));
    let session = home.create(settings(&model, vec![hook()])).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, &*report.text, report.spent.steps), (TurnEnd::Completed, "green", 3));
    session.clone().close().await;
    assert_eq!(
        folded(&session),
        ["go", "done", "note: checks not green yet", "done now", "note: checks not green yet", "green"]
    );

    let model = Scripted::new(vec![says("done"), says("done"), says("done"), says("green")]);
    let session = home.create(settings(&model, vec![hook()])).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, report.spent.steps), (TurnEnd::HookStopped, 3));
    assert_eq!(report.detail.as_deref(), Some("ci: checks not green yet (the model was sent back 2 times)"));
    session.close().await;
}

#[tokio::test]
async fn a_tool_that_a_hook_takes_away_is_neither_offered_nor_run() {
    let home = home();
    let model = Scripted::new(vec![calls("bash", &json!({"command": "touch x"})), says("done")]);
    struct NoShell;
    #[async_trait]
    impl Hook for NoShell {
        fn name(&self) -> &str {
            "no shell"
        }
        async fn before_model_call(&self, _: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
            let tools = call.tools.iter().filter(|tool| tool.name != "bash").cloned().collect();
            Ok(ModelChange { tools: Some(tools), ..ModelChange::default() })
        }
    }
    let session = home.create(settings(&model, vec![Arc::new(NoShell)])).await;
    session.prompt("go").await.unwrap();
    session.clone().close().await;
    assert!(model.asked().iter().all(|request| request.tools.iter().all(|tool| tool.name != "bash")));
    assert!(folded(&session).iter().any(|line| line.starts_with("result: Tool bash not found")));
}

/// A model of another name that is not there to answer.
struct Away;

impl Model for Away {
    fn name(&self) -> &str {
        "test/away"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, _: Request) -> ModelStream {
        let error = ModelError::new(ModelErrorKind::Overloaded, "too many people");
        futures_util::stream::iter([Err(error)]).boxed()
    }
}

#[tokio::test]
async fn the_next_model_of_the_chain_is_asked_through_the_gate_as_well() {
    let home = home();
    let model = Scripted::new(vec![says("here I am")]);
    #[derive(Default)]
    struct Names(Mutex<Vec<String>>);
    #[async_trait]
    impl Hook for Names {
        fn name(&self) -> &str {
            "names"
        }
        fn points(&self) -> Points {
            Points::of([HookPoint::BeforeModel])
        }
        async fn before_model_call(&self, cx: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
            self.0.lock().unwrap().push(format!("{} attempt {}", cx.model, call.attempt));
            let words = Words { notes: vec!["be brief".into()], ..Words::default() };
            Ok(ModelChange { words, ..ModelChange::default() })
        }
    }
    let names = Arc::new(Names::default());
    let mut settings = settings(&model, vec![names.clone()]);
    settings.model = Arc::new(Away);
    settings.fallbacks = vec![model.clone()];
    settings.policy.retry.usual.per_call = Some(0);
    let session = home.create(settings).await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, &*report.text), (TurnEnd::Completed, "here I am"));
    session.clone().close().await;
    assert_eq!(*names.0.lock().unwrap(), ["test/away attempt 1", "test/scripted attempt 1"]);
    assert_eq!(folded(&session), ["go", "note: be brief", "here I am"], "what was added once is there");
}

/// A hook that stands still at one point until it is dropped.
struct Standing {
    points: Points,
    here: Notify,
    gone: Notify,
}

impl Standing {
    fn at(point: HookPoint) -> Arc<Self> {
        Arc::new(Self { points: Points::of([point]), here: Notify::new(), gone: Notify::new() })
    }

    async fn stand<T>(&self) -> T {
        struct Gone<'h>(&'h Notify);
        impl Drop for Gone<'_> {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let _gone = Gone(&self.gone);
        self.here.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl Hook for Standing {
    fn name(&self) -> &str {
        "standing"
    }

    fn points(&self) -> Points {
        self.points
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(3_600)
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        if text.contains("wait") { self.stand().await } else { Ok(PromptChange::default()) }
    }

    async fn before_tool_call(&self, _: &HookContext, _: &ToolCall) -> HookResult<CallChange> {
        self.stand().await
    }

    async fn after_tool_call(&self, _: &HookContext, _: &ToolCall, _: &Outcome) -> HookResult<OutcomeChange> {
        self.stand().await
    }
}

/// Says something, and goes on meanwhile.
fn saying(session: &Handle, text: &'static str) -> tokio::task::JoinHandle<Report> {
    let session = session.clone();
    tokio::spawn(async move { session.prompt(text).await.unwrap() })
}

#[tokio::test]
async fn cancelling_does_not_wait_for_a_hook() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("done")]);
    let standing = Standing::at(HookPoint::BeforeTool);
    let mut settings = settings(&model, vec![standing.clone()]);
    settings.attendance = Attendance::Attended;
    let session = home.create(settings).await;
    let turn = saying(&session, "go");
    standing.here.notified().await;
    drop(session.cancel());
    assert_eq!(turn.await.unwrap().end, TurnEnd::Canceled);
    session.close().await;
}

#[tokio::test]
async fn cancelling_drops_the_hook_behind_a_call_and_keeps_what_came_of_the_call() {
    for (call, came) in [(reads("a.txt"), Status::Ok), (calls("fly", &json!({})), Status::Failed)] {
        let home = home();
        let model = Scripted::new(vec![call, says("never")]);
        let standing = Standing::at(HookPoint::AfterTool);
        let session = home.create(settings(&model, vec![standing.clone()])).await;
        let turn = saying(&session, "go");
        standing.here.notified().await;
        drop(session.cancel());
        assert_eq!((turn.await.unwrap().end, model.asked().len()), (TurnEnd::Canceled, 1));
        standing.gone.notified().await;
        session.clone().close().await;
        let settled = |record: &Record| match &record.event {
            Event::CallSettled { outcome, .. } => Some(outcome.status),
            _ => None,
        };
        assert_eq!(journal_of(&session).iter().filter_map(settled).collect::<Vec<_>>(), [came]);
    }
}

#[tokio::test]
async fn cancelling_drops_the_hook_at_a_prompt_which_is_not_heard() {
    let home = home();
    let model = Scripted::new(vec![says("here")]);
    let standing = Standing::at(HookPoint::Prompt);
    let session = home.create(settings(&model, vec![standing.clone()])).await;
    let turn = saying(&session, "wait");
    standing.here.notified().await;
    drop(session.cancel());
    let report = turn.await.unwrap();
    assert_eq!((report.turn, report.end), (0, TurnEnd::Canceled), "no turn began");
    standing.gone.notified().await;
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.turn, &*report.text), (1, "here"));
    session.clone().close().await;
    assert_eq!(folded(&session), ["go", "here"]);
}

/// Sees that a session begins for as long as it is kept there, and lets no prompt in.
#[derive(Default)]
struct Strict {
    begun: Notify,
    go: Notify,
}

#[async_trait]
impl Hook for Strict {
    fn name(&self) -> &str {
        "strict"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::SessionStart, HookPoint::Prompt])
    }

    async fn on_session_start(&self, _: &HookContext, _: SessionStart) -> HookResult<Words> {
        self.begun.notify_one();
        self.go.notified().await;
        Ok(Words::default())
    }

    async fn on_prompt(&self, _: &HookContext, _: &str) -> HookResult<PromptChange> {
        Ok(PromptChange { refuse: Some("not today".to_owned()), ..PromptChange::default() })
    }
}

/// The session as a killed process leaves it, in another place.
fn as_if_killed(session: &Handle) -> Home {
    let copy = home();
    let to = copy.data.path().join("sessions").join(session.id().as_str());
    std::fs::create_dir_all(&to).unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(SessionDir::of(session.store(), session.id()).root().join(name), to.join(name)).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_resumed_turn_waits_for_the_hooks_at_the_sessions_start_whatever_is_asked_first() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("done")]);
    let standing = Standing::at(HookPoint::BeforeTool);
    let session = home.create(settings(&model, vec![standing.clone()])).await;
    drop(saying(&session, "go"));
    standing.here.notified().await;
    let copy = as_if_killed(&session);
    let (model, strict) = (Scripted::new(vec![says("done")]), Arc::new(Strict::default()));
    let engine = Engine::open(copy.data.path());
    let resumed = engine.resume(session.id(), settings(&model, vec![strict.clone()])).await.unwrap();
    let phase = || async {
        match resumed.ask(Asked::Look {}).next().await.unwrap() {
            Answered::Seen(now) => now.phase,
            other => panic!("{other:?}"),
        }
    };
    // Neither a prompt nor a wish to go on: the turn goes on all the same.
    phase().await;
    strict.begun.notified().await;
    assert_eq!(phase().await, Stage::Working);
    assert_eq!(model.asked().len(), 0);
    assert!(!journal_of(&resumed).iter().any(|record| matches!(record.event, Event::CallStarted { .. })));
    strict.go.notify_one();
    assert_eq!(&*resumed.go_on().await.unwrap().text, "done");
    assert_eq!(model.asked().len(), 1);
    let kinds: Vec<&str> = journal_of(&resumed).iter().map(|record| record.event.kind()).collect();
    let at = |kind: &str| kinds.iter().rposition(|of| *of == kind);
    assert!(at("turn_resumed") < at("hooks_ran") && at("hooks_ran") < at("call_started"), "{kinds:?}");
    resumed.close().await;
    session.close().await;
}

#[tokio::test]
async fn a_prompt_is_vetted_though_hooks_are_seeing_just_then_that_a_turn_goes_on() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("done")]);
    let standing = Standing::at(HookPoint::BeforeTool);
    let session = home.create(settings(&model, vec![standing.clone()])).await;
    drop(saying(&session, "go"));
    standing.here.notified().await;
    let copy = as_if_killed(&session);
    let strict = Arc::new(Strict::default());
    let settings = settings(&Scripted::new(vec![says("done")]), vec![strict.clone()]);
    let resumed = Engine::open(copy.data.path()).resume(session.id(), settings).await.unwrap();
    let turn = tokio::spawn({
        let resumed = resumed.clone();
        async move { resumed.go_on().await }
    });
    strict.begun.notified().await;
    let said = resumed.prompt("and this");
    strict.go.notify_one();
    let refused = said.await;
    assert!(matches!(&refused, Err(EngineError::PromptRefused { hook, .. }) if hook == "strict"), "{refused:?}");
    assert_eq!(turn.await.unwrap().unwrap().end, TurnEnd::Completed);
    resumed.clone().close().await;
    assert!(!folded(&resumed).contains(&"and this".to_owned()), "what was refused is not on record");
    session.close().await;
}

#[tokio::test]
async fn what_was_said_before_a_cancel_starts_nothing_after_it() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("here")]);
    let (tool, prompt) = (Standing::at(HookPoint::BeforeTool), Standing::at(HookPoint::Prompt));
    let session = home.create(settings(&model, vec![tool.clone(), prompt.clone()])).await;
    let first = saying(&session, "go");
    tool.here.notified().await;
    let second = saying(&session, "wait, and then this");
    prompt.here.notified().await;
    drop(session.cancel());
    assert_eq!(first.await.unwrap().end, TurnEnd::Canceled);
    assert_eq!(second.await.unwrap().end, TurnEnd::Canceled);
    assert_eq!(model.asked().len(), 1);
    let report = session.prompt("on").await.unwrap();
    assert_eq!((report.turn, &*report.text), (2, "here"));
    session.close().await;
}

/// A hook that lets what is said pass and has the turn cancelled in the same moment.
struct Hasty(Mutex<Option<Handle>>);

#[async_trait]
impl Hook for Hasty {
    fn name(&self) -> &str {
        "hasty"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::Prompt])
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        if text == "second"
            && let Some(session) = self.0.lock().unwrap().take()
        {
            drop(session.cancel());
        }
        Ok(PromptChange::default())
    }
}

#[tokio::test]
async fn what_hooks_let_pass_while_a_cancel_comes_starts_nothing() {
    for _ in 0..20 {
        let home = home();
        let model = Scripted::new(vec![reads("a.txt"), says("here")]);
        let (tool, hasty) = (Standing::at(HookPoint::BeforeTool), Arc::new(Hasty(Mutex::default())));
        let session = home.create(settings(&model, vec![tool.clone(), hasty.clone()])).await;
        *hasty.0.lock().unwrap() = Some(session.clone());
        let first = saying(&session, "go");
        tool.here.notified().await;
        let second = session.prompt("second").await.unwrap();
        assert_eq!((first.await.unwrap().end, second.end), (TurnEnd::Canceled, TurnEnd::Canceled));
        assert_eq!(session.prompt("on").await.unwrap().turn, 2, "held or not heard, it began no turn");
        assert_eq!(model.asked().len(), 2);
        session.close().await;
    }
}

#[tokio::test]
async fn a_cancel_while_hooks_look_at_a_prompt_ends_its_turn_before_anything_is_asked() {
    let home = home();
    let model = Scripted::new(vec![says("never")]);
    let pass = |_: &str| Act::Prompt(PromptChange::default());
    let session = home.create(settings(&model, vec![Arc::new(at("looks", HookPoint::Prompt, pass))])).await;
    let (report, ()) = tokio::join!(session.prompt("stop"), async { drop(session.cancel().await) });
    assert_eq!((report.unwrap().end, model.asked().len()), (TurnEnd::Canceled, 0));
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, &*report.text), (TurnEnd::Completed, "never"));
    session.close().await;
}

#[tokio::test]
async fn without_hooks_nothing_of_them_is_on_record() {
    let home = home();
    let model = Scripted::new(vec![reads("a.txt"), says("done")]);
    let session = home.create(settings(&model, Vec::new())).await;
    session.prompt("go").await.unwrap();
    session.clone().close().await;
    assert!(runs(&session).is_empty());
}

/// Counts how often the session began, and lets no prompt pass before it is let go.
#[derive(Default)]
struct Doorkeeper {
    starts: Mutex<usize>,
    seen: tokio::sync::Notify,
    go: tokio::sync::Notify,
}

#[async_trait]
impl Hook for Doorkeeper {
    fn name(&self) -> &str {
        "doorkeeper"
    }

    async fn on_session_start(&self, _: &HookContext, _: SessionStart) -> HookResult<Words> {
        *self.starts.lock().unwrap() += 1;
        Ok(Words::default())
    }

    async fn on_prompt(&self, _: &HookContext, _: &str) -> HookResult<PromptChange> {
        self.seen.notify_one();
        self.go.notified().await;
        Ok(PromptChange::default())
    }
}

#[tokio::test]
async fn a_cancel_while_hooks_look_at_a_prompt_does_not_begin_the_session_again() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Arc::new(Doorkeeper::default());
    let model = Scripted::new(vec![says("hello")]);
    let engine = Engine::open(folder.path().join("data"));
    let session = engine.create(folder.path(), settings(&model, vec![hook.clone()])).await.unwrap();
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("one").await }
    });
    hook.seen.notified().await;
    session.cancel().await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().turn, 0, "it is not on record");
    hook.go.notify_one();
    assert_eq!(&*session.prompt("two").await.unwrap().text, "hello");
    assert_eq!(*hook.starts.lock().unwrap(), 1);
}

#[tokio::test]
async fn the_hooks_at_a_sessions_start_run_once_and_before_its_first_prompt_whatever_was_asked_before() {
    let home = home();
    let model = Scripted::new(vec![says("one"), says("two"), says("three")]);
    let session = home.create(settings(&model, Vec::new())).await;
    let id = session.id().clone();
    session.prompt("first").await.unwrap();
    session.close().await;
    let log = Arc::new(Log::default());
    let session = home.engine().resume(&id, settings(&model, vec![log.clone()])).await.unwrap();
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert!(!log.lines().contains("session start"), "neither needs them: {}", log.lines());
    session.prompt("second").await.unwrap();
    session.prompt("third").await.unwrap();
    session.close().await;
    let order: Vec<String> = log
        .lines()
        .lines()
        .filter(|line| line.starts_with("session start") || line.starts_with("prompt"))
        .map(str::to_owned)
        .collect();
    assert_eq!(order, ["session start New", "prompt second", "prompt third"], "what was undone is not there any more");
}

/// Gives the model another system prompt at each step.
struct Renamer(AtomicUsize);

#[async_trait]
impl Hook for Renamer {
    fn name(&self) -> &str {
        "renamer"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::BeforeModel])
    }

    async fn before_model_call(&self, _: &HookContext, _: &ModelCall) -> HookResult<ModelChange> {
        let system = format!("system {}", self.0.fetch_add(1, Ordering::SeqCst) + 1);
        Ok(ModelChange { system: Some(system), ..ModelChange::default() })
    }
}

#[tokio::test]
async fn after_an_undo_and_a_redo_the_model_is_asked_with_what_hooks_had_left_there() {
    for (redoes, system) in [(false, "system 2"), (true, "system 3")] {
        let home = home();
        let long = |word: &str| says(&word.repeat(400));
        let model = Scripted::new(vec![long("one "), long("two "), long("three "), says("a summary")]);
        let session = home.create(settings(&model, vec![Arc::new(Renamer(AtomicUsize::new(0)))])).await;
        for prompt in ["first", "second", "third"] {
            session.prompt(prompt).await.unwrap();
        }
        let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
        session.rewind(plan.rewind).await.unwrap();
        if redoes {
            let plan = session.plan_rewind(Direction::Redo, 1, Scope::Chat).await.unwrap();
            session.rewind(plan.rewind).await.unwrap();
        }
        // Whoever writes the summary is asked as the session's own requests begin.
        session.compact(Compact::about(None)).await.unwrap();
        assert_eq!(&*model.asked().last().unwrap().system, system, "redo: {redoes}");
        session.close().await;
    }
}

#[tokio::test]
async fn a_prompt_of_another_process_has_its_images_what_was_piped_in_and_the_files_it_refers_to() {
    let home = home();
    let model = Scripted::new(vec![says("hello"), says("seen")]);
    let session = home.create(settings(&model, Vec::new())).await;
    // From its first word on, others find it.
    session.prompt("hello").await.unwrap();
    let there = home.engine().join(session.id()).await.unwrap().unwrap();
    assert!(there.elsewhere().is_some());
    let image = Part::Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
    let prompt = Prompt {
        beside: Some("piped in, with @b.txt".to_owned()),
        parts: vec![image.clone()],
        wait: true,
        ..Prompt::new("what is in @a.txt?")
    };
    let report = there.say(prompt).await.unwrap().ended().await.unwrap();
    assert_eq!((report.end, &*report.text), (TurnEnd::Completed, "seen"));
    let sent = model.asked().remove(1);
    let parts: Vec<&Part> = sent.messages.iter().flat_map(|message| &message.parts).collect();
    assert!(parts.contains(&&image), "{parts:?}");
    let all = serde_json::to_string(&parts).unwrap();
    assert!(all.contains("what is in @a.txt?") && all.contains("piped in, with @b.txt"), "{all}");
    assert!(all.contains("alpha"), "what it refers to is read where the session runs: {all}");
    assert!(!all.contains("beta"), "in what was piped in, `@` refers to nothing: {all}");
    drop(there);
    session.close().await;
}
