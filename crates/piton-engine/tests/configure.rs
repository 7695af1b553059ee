//! Changing how an open session is run: permission mode and effort at once, another model and tools from its next turn on.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::{Gate, Home, call, recorded, says};
use piton_core::client::{Configure, Reply, Request};
use piton_core::effort::Effort;
use piton_core::event::{ChangedBy, Event, TurnEnd};
use piton_core::permission::{Action, PermissionMode};
use piton_core::story::{Body, Story};
use piton_engine::engine::{
    ConfigureError, EngineError, Handle, ModelSource, OpenedModels, Patches, Sampling, Settings,
};
use piton_models::model::Model;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

fn model(name: &str, lines: &[Value]) -> Arc<dyn Model> {
    Arc::new(recorded(lines).named(name.to_owned()))
}

/// Opens `b/second` alone, once it is let go.
struct Second {
    go: Mutex<Receiver<()>>,
    /// What the first one was opened with, each time that it was opened again.
    efforts: Arc<Mutex<Vec<Option<Effort>>>>,
}

impl ModelSource for Second {
    fn open(&self, names: &str, answers: Sampling) -> Result<OpenedModels, String> {
        self.go.lock().unwrap_or_else(PoisonError::into_inner).recv().map_err(|_| "nobody lets it go".to_owned())?;
        match names {
            "second" => Ok(OpenedModels::only(model(
                "b/second",
                &[says("of the second"), says("of the second"), says("of the second")],
            ))),
            "a/first" => {
                self.efforts.lock().unwrap_or_else(PoisonError::into_inner).push(answers.effort);
                Ok(OpenedModels::only(model("a/first", &[says("not asked for this"), says("thought over")])))
            }
            other => Err(format!("there is no {other}")),
        }
    }
}

fn settings(lines: &[Value]) -> (Settings, Sender<()>) {
    let (go, gone) = channel();
    let mut settings = Settings::new(model("a/first", lines));
    settings.policy.permission.push("*", Action::Allow);
    settings.model_source = Some(Arc::new(Second { go: Mutex::new(gone), efforts: Arc::default() }));
    (settings, go)
}

fn to_model(name: &str) -> Configure {
    Configure { model: Some(name.to_owned()), ..Configure::default() }
}

fn to_mode(mode: PermissionMode) -> Configure {
    Configure { mode: Some(mode), ..Configure::default() }
}

fn to_tools(tools: &[&str]) -> Configure {
    Configure { tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()), ..Configure::default() }
}

/// The models by which turns were started.
async fn models(session: &Handle) -> Vec<String> {
    let started = |event| match event {
        Event::TurnStarted { model, .. } => Some(model),
        _ => None,
    };
    session.records().await.unwrap().into_iter().filter_map(|record| started(record.event)).collect()
}

async fn outcomes(session: &Handle) -> Vec<String> {
    let settled = |event| match event {
        Event::CallSettled { outcome, .. } => Some(outcome.text),
        _ => None,
    };
    session.records().await.unwrap().into_iter().filter_map(|record| settled(record.event)).collect()
}

#[tokio::test]
async fn words_behind_a_switch_are_answered_by_the_new_model_however_long_it_takes_to_open() {
    let home = Home::new();
    let (settings, go) = settings(&[says("of the first")]);
    let session = home.create(settings).await;
    assert_eq!(&*session.prompt("one").await.unwrap().text, "of the first");
    let mut switching = session.ask(Request::Configure(to_model("second")));
    let answer = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("two").await }
    });
    // The session is not held up by it.
    session.rename("both").await.unwrap();
    assert_eq!(models(&session).await, ["a/first"]);
    go.send(()).unwrap();
    let Reply::Configured(done) = switching.next().await.unwrap() else { panic!("another answer") };
    assert_eq!((done.changed, done.after_turn), (to_model("b/second"), false));
    assert_eq!(&*answer.await.unwrap().unwrap().text, "of the second");
    assert_eq!(models(&session).await, ["a/first", "b/second"]);
    let records = session.records().await.unwrap();
    let changed = &records.iter().find(|record| record.seq == done.seq).unwrap().event;
    assert_eq!(*changed, Event::SettingsChanged { changed: to_model("b/second"), by: ChangedBy::User, at_once: false });
    let story = Story::of(&records);
    assert!(story.blocks().any(|block| matches!(&block.body, Body::Configured { .. })));
    assert_eq!(session.store().summary(session.id()).await.unwrap().model.as_deref(), Some("b/second"));
    assert_eq!(home.engine().configured(session.id()).await.unwrap(), to_model("b/second"));
}

#[tokio::test]
async fn a_turn_keeps_its_model_and_the_answer_says_so() {
    let home = Home::new();
    let gate = Arc::new(Gate::default());
    let (mut settings, go) = settings(&[call("gate", &json!({})), says("of the first")]);
    settings.tools = ToolSet::builtin().with(gate.clone());
    let session = home.create(settings).await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("one").await }
    });
    gate.began.notified().await;
    go.send(()).unwrap();
    let done = session.configure(to_model("second")).await.unwrap();
    assert!(done.after_turn);
    assert!(!done.at_once, "nothing of it holds yet");
    let done = session.configure(to_mode(PermissionMode::Plan)).await.unwrap();
    assert!(done.at_once && !done.after_turn);
    gate.go.notify_one();
    assert_eq!(&*first.await.unwrap().unwrap().text, "of the first");
    assert_eq!(&*session.prompt("two").await.unwrap().text, "of the second");
    assert_eq!(models(&session).await, ["a/first", "b/second"]);
    let records = session.records().await.unwrap();
    let modes = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted { policy, .. } => Some(policy.mode),
        _ => None,
    });
    assert_eq!(modes.collect::<Vec<_>>(), [PermissionMode::Ask, PermissionMode::Plan]);
}

/// A turn whose first call waits and whose second writes a file; `mode` is set between the two. The outcomes of both.
async fn in_mid_turn(from: PermissionMode, to: PermissionMode) -> (Vec<String>, bool, Vec<Event>) {
    let home = Home::new();
    let gate = Arc::new(Gate::default());
    let write = json!({"path": "a.txt", "content": "x"});
    let (mut settings, _go) = settings(&[call("gate", &json!({})), call("write", &write), says("done")]);
    settings.policy.permission = piton_core::permission::Rules::default();
    settings.policy.permission.push("gate", Action::Allow);
    settings.policy.mode = from;
    settings.tools = ToolSet::builtin().with(gate.clone());
    let session = home.create(settings).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    let done = session.configure(to_mode(to)).await.unwrap();
    assert!(done.at_once && !done.after_turn);
    gate.go.notify_one();
    turn.await.unwrap().unwrap();
    let records = session.records().await.unwrap();
    assert_eq!(
        piton_core::turn::State::fold(&records).policy().mode,
        to,
        "who resumes it decides as the running one did"
    );
    let said = records.into_iter().map(|record| record.event);
    let is_about_the_mode = |event: &Event| matches!(event, Event::SettingsChanged { .. });
    (outcomes(&session).await, home.workspace.path().join("a.txt").exists(), said.filter(is_about_the_mode).collect())
}

#[tokio::test]
async fn a_mode_that_is_set_in_mid_turn_judges_the_next_call() {
    let (outcomes, is_written, events) = in_mid_turn(PermissionMode::Ask, PermissionMode::AcceptEdits).await;
    assert!(is_written, "{outcomes:?}");
    let changed = to_mode(PermissionMode::AcceptEdits);
    assert_eq!(events, [Event::SettingsChanged { changed, by: ChangedBy::User, at_once: true }]);
    let (outcomes, is_written, _) = in_mid_turn(PermissionMode::AcceptEdits, PermissionMode::Plan).await;
    assert!(!is_written && outcomes[1].contains("permission mode plan"), "{outcomes:?}");
}

#[tokio::test]
async fn an_effort_is_asked_for_from_the_next_step_on_and_kept_with_another_model() {
    let home = Home::new();
    let gate = Arc::new(Gate::default());
    let (mut settings, go) = settings(&[call("gate", &json!({})), says("not thought over")]);
    let efforts = Arc::new(Mutex::default());
    let (let_go, gone) = channel();
    settings.model_source = Some(Arc::new(Second { go: Mutex::new(gone), efforts: Arc::clone(&efforts) }));
    drop(go);
    settings.tools = ToolSet::builtin().with(gate.clone());
    let session = home.create(settings).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    let_go.send(()).unwrap();
    let high = Configure { effort: Some(Effort::High), ..Configure::default() };
    let done = session.configure(high.clone()).await.unwrap();
    assert_eq!((done.changed, done.at_once, done.after_turn), (high.clone(), true, false));
    gate.go.notify_one();
    assert_eq!(&*turn.await.unwrap().unwrap().text, "thought over");
    assert_eq!(*efforts.lock().unwrap(), [Some(Effort::High)]);
    assert_eq!(models(&session).await, ["a/first"]);
    assert_eq!(home.engine().configured(session.id()).await.unwrap(), high, "whoever resumes it has it");
    let_go.send(()).unwrap();
    session.configure(to_model("a/first")).await.unwrap();
    assert_eq!(*efforts.lock().unwrap(), [Some(Effort::High); 2], "another model is opened with it");
}

#[tokio::test]
async fn in_plan_nothing_is_changed_and_the_model_is_told_why() {
    let home = Home::new();
    let write = json!({"path": "a.txt", "content": "x"});
    let (settings, _go) = settings(&[call("write", &write), says("planned"), call("write", &write), says("done")]);
    let session = home.create(settings).await;
    session.configure(to_mode(PermissionMode::Plan)).await.unwrap();
    assert_eq!(session.prompt("write it").await.unwrap().end, TurnEnd::Completed);
    assert!(outcomes(&session).await[0].contains("permission mode plan"), "{:?}", outcomes(&session).await);
    assert!(!home.workspace.path().join("a.txt").exists());
    session.configure(to_mode(PermissionMode::AcceptEdits)).await.unwrap();
    session.prompt("now do it").await.unwrap();
    assert!(home.workspace.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_tool_that_is_not_enabled_is_neither_offered_nor_run() {
    let home = Home::new();
    let write = json!({"path": "a.txt", "content": "x"});
    let (settings, _go) = settings(&[call("write", &write), says("no"), call("write", &write), says("yes")]);
    let session = home.create(settings).await;
    let refused = session.configure(to_tools(&["read", "wriet"])).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Configure(ConfigureError::NoSuchTool { name, .. }) if name == "wriet"));
    session.configure(to_tools(&["read", "grep"])).await.unwrap();
    session.prompt("write it").await.unwrap();
    assert_eq!(outcomes(&session).await, ["Tool write not found. The tools are: grep, read."]);
    session.configure(to_tools(&["*"])).await.unwrap();
    session.prompt("write it").await.unwrap();
    assert!(home.workspace.path().join("a.txt").exists());
}

#[tokio::test]
async fn what_cannot_be_changed_is_refused_and_nothing_is_on_record() {
    let home = Home::new();
    let (mut settings, go) = settings(&[says("still the first")]);
    let session = home.create(settings.clone()).await;
    go.send(()).unwrap();
    let refused = session.configure(to_model("third")).await.unwrap_err();
    assert_eq!(refused.to_string(), "the model was not changed: there is no third");
    let refused = session.configure(Configure::default()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Configure(ConfigureError::Nothing)));
    assert_eq!(&*session.prompt("one").await.unwrap().text, "still the first");
    assert!(home.engine().configured(session.id()).await.unwrap().is_empty());
    settings.model_source = None;
    let fixed = home.create(settings).await;
    let refused = fixed.configure(to_model("second")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Configure(ConfigureError::NoSource)));
}

#[tokio::test]
async fn another_process_changes_it_by_the_same_verb() {
    let home = Home::new();
    let (settings, go) = settings(&[says("of the first")]);
    let session = home.create(settings).await;
    session.prompt("one").await.unwrap();
    let there = home.engine().join(session.id()).await.unwrap().unwrap();
    go.send(()).unwrap();
    let done = there.configure(to_model("second")).await.unwrap();
    assert_eq!(done.changed, to_model("b/second"));
    assert_eq!(&*there.prompt("two").await.unwrap().text, "of the second");
    let refused = there.configure(to_tools(&["nothing"])).await.unwrap_err();
    assert!(refused.to_string().contains("there is no tool `nothing`"), "{refused}");
}

#[tokio::test]
async fn a_model_that_writes_patches_gets_its_tool_when_the_session_is_switched_to_it() {
    let (mut settings, _) = settings(&[says("done")]);
    let offered = |settings: &Settings| {
        let names = ["apply_patch", "edit", "write"];
        let specs = settings.offered();
        names.map(|name| specs.iter().any(|spec| spec.name == name))
    };
    assert_eq!(offered(&settings), [false, true, true]);
    settings.model = model("openai/gpt-5.4", &[]);
    assert_eq!(offered(&settings), [true, false, false]);
    settings.patches = Patches::Never;
    assert_eq!(offered(&settings), [false, true, true]);
    (settings.patches, settings.model) = (Patches::Always, model("a/first", &[]));
    assert_eq!(offered(&settings), [true, false, false]);
    settings.policy.permission.push("write", Action::Deny);
    assert_eq!(offered(&settings), [false, true, false], "what may not be used is replaced by what may");
    settings.policy.calls.enabled = Some(vec!["edit".into(), "read".into()]);
    assert_eq!(offered(&settings), [false, true, false], "who names the tools gets those");
}
