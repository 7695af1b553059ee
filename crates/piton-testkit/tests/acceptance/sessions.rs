//! What the documents say of sessions: which of them a cancel is for, how each end leaves them, what is told of their
//! requests, and what a tool and a rule know.

use super::*;
use async_trait::async_trait;
use piton_core::call::{Effects, Status, ToolSpec};
use piton_core::client::Live;
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::hooks::{HookContext, HookResult};
use piton_engine::store::memory::MemoryStore;
use piton_http::HttpOptions;
use piton_models::provider::{self, ProviderSpec};
use piton_testkit::FakeProvider;
use piton_tools::tool::{Tool, ToolContext};
use std::sync::Mutex;

/// Does this on a runtime of its own, over an engine of its own.
fn with_engine<F: Future<Output = ()>>(work: impl FnOnce(Engine) -> F) {
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(Engine::open(data.path())));
}

fn settings(preset: &str, lines: Vec<Line>) -> Settings {
    let mut settings = Settings::by_preset(preset, Script::new(lines)).unwrap();
    settings.shares_runtime = false;
    settings.policy.permission.push("*", Action::Allow);
    settings
}

/// Waits until an event of this kind is on record.
async fn recorded(session: &Handle, kind: &str) {
    let mut heard = session.subscribe(1);
    while let Ok(Some(published)) = heard.next().await {
        if matches!(&published, Published::Recorded(record) if record.event.kind() == kind) {
            return;
        }
    }
}

/// S3-003 S3-025 S4-003: each session has its own cancel: of two that run side by side, the other goes on.
#[test]
fn s3_025_a_cancel_is_of_one_session() {
    with_engine(|engine| async move {
        let (one, two) = (TempWorkspace::new(), TempWorkspace::new());
        let never = || vec![hangs("half"), says("again")];
        let first = engine.create(&one.path(), settings("etcode", never())).await.unwrap();
        let second = engine.create(&two.path(), settings("etcode", never())).await.unwrap();
        let (stopped, ()) = tokio::join!(first.prompt("go"), async {
            let other = second.prompt("go");
            tokio::pin!(other);
            tokio::select! {
                ended = &mut other => panic!("nobody cancelled the second: {ended:?}"),
                () = async {
                    recorded(&first, "step_started").await;
                    recorded(&second, "step_started").await;
                    drop(first.cancel());
                    // Meanwhile the second has the time of a whole turn to end by mistake.
                    recorded(&first, "turn_ended").await;
                } => {}
            }
            drop(second.cancel());
            assert_eq!(other.await.unwrap().end, TurnEnd::Canceled);
        });
        assert_eq!(stopped.unwrap().end, TurnEnd::Canceled);
        // Each has a cancel that can be used again.
        assert_eq!(first.prompt("more").await.unwrap().end, TurnEnd::Completed);
        first.close().await;
        second.close().await;
    });
}

/// S4-001 S4-003: an id begins with `ses_` and sorts by the time it was made; a session is resumed by it, and goes on.
#[test]
fn s4_001_a_session_is_found_by_an_id_that_sorts() {
    with_engine(|engine| async move {
        let workspace = TempWorkspace::new();
        let mut ids: Vec<SessionId> = Vec::new();
        for _ in 0..20 {
            let session = engine.create(&workspace.path(), settings("opencode", vec![says("one")])).await.unwrap();
            session.prompt("first").await.unwrap();
            ids.push(session.id().clone());
            session.close().await;
        }
        assert!(ids.iter().all(|id| id.0.starts_with("ses_")) && ids.is_sorted(), "{ids:?}");
        let again = engine.resume(&ids[0], settings("opencode", vec![says("two")])).await.unwrap();
        assert_eq!((again.id(), again.prompt("second").await.unwrap().turn), (&ids[0], 2));
        again.close().await;
    });
}

/// S3-011: whoever goes on with a session may name another model; its requests go there, and its words are its own.
#[test]
fn s3_011_another_model_goes_on() {
    with_engine(|engine| async move {
        let workspace = TempWorkspace::new();
        let session = engine.create(&workspace.path(), settings("etcode", vec![says("one")])).await.unwrap();
        session.prompt("first").await.unwrap();
        let id = session.id().clone();
        session.close().await;
        let other = Script::with(vec![says("two")], "other", "", None);
        let model = other.clone();
        let session = engine.resume(&id, Settings { model, ..settings("etcode", vec![]) }).await.unwrap();
        session.prompt("second").await.unwrap();
        assert_eq!(other.requests().len(), 1);
        let records = session.records().await.unwrap();
        let models: Vec<Option<String>> =
            piton_core::turn::State::fold(&records).transcript().map(|message| message.model.clone()).collect();
        let (first, second) = (Some("prov/mod".to_owned()), Some("prov/other".to_owned()));
        assert_eq!(models, [None, first, None, second]);
        session.close().await;
    });
}

/// S3-103: two processes write at once, each its own sessions, and both are in the list.
#[test]
fn s3_103_two_writers_at_once() {
    let data = tempfile::tempdir().unwrap();
    let write = |name: &'static str| {
        let data = data.path().to_owned();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let workspace = TempWorkspace::new();
            runtime.block_on(async {
                let engine = Engine::open(data);
                for _ in 0..10 {
                    let session = engine.create(&workspace.path(), settings("etcode", vec![says(name)])).await.unwrap();
                    assert_eq!(&*session.prompt("go").await.unwrap().text, name);
                    session.close().await;
                    engine.index().unwrap().list(None, 100).unwrap();
                }
            });
        })
    };
    let writers = [write("one"), write("two")];
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(Engine::open(data.path()).index().unwrap().count().unwrap(), 20);
}

/// S4-005: whichever way a turn ends, the session is at rest and takes the next prompt.
#[test]
fn s4_005_every_end_leaves_a_session_that_can_be_used() {
    let change = |change: fn(&mut Settings)| -> Change { Box::new(change) };
    let nothing = || change(|_| {});
    let same = || calls("", &[("echo", json!({"same": 1}))]);
    for (end, first, change) in [
        (TurnEnd::Completed, vec![says("one")], nothing()),
        (TurnEnd::ApiError, vec![fails(400)], nothing()),
        (TurnEnd::ContentFilter, vec![finishes("", FinishReason::ContentFilter)], nothing()),
        (TurnEnd::Canceled, vec![hangs("half")], nothing()),
        (TurnEnd::NoProgress, vec![same(), same(), same()], nothing()),
        (TurnEnd::MaxSteps, rounds(2), change(|settings| settings.policy.steps.max = Some(2))),
        (TurnEnd::Budget, rounds(1), change(|settings| settings.policy.budget.tokens = Some(1))),
        (
            TurnEnd::ToolDenied,
            rounds(1),
            change(|settings| {
                settings.attendance = Attendance::Unattended;
                settings.policy.permission.push("*", Action::Ask);
            }),
        ),
    ] {
        let mut lines = first;
        lines.push(says("again"));
        let mut lab = Lab::new("opencode", lines).prompts(&["first", "second"]);
        lab.changes.push(change);
        let ran = lab.run();
        let ends: Vec<TurnEnd> = ran
            .records()
            .iter()
            .filter_map(|record| if let Event::TurnEnded { end, .. } = &record.event { Some(*end) } else { None })
            .collect();
        assert_eq!(ends[0], end);
        if end == TurnEnd::Budget {
            continue;
        }
        assert_eq!((ends[1], &*ran.report().text), (TurnEnd::Completed, "again"), "after {end:?}");
        assert!(piton_core::turn::State::fold(&ran.records()).is_at_rest());
    }
}

/// S0-006 S1-007: the loop needs what it is given and nothing else: no folder for sessions, no hooks; it writes nothing.
#[test]
fn s0_006_nothing_is_written_where_sessions_are_kept_in_memory() {
    let (place, workspace) = (tempfile::tempdir().unwrap(), TempWorkspace::with([("a.txt", "alpha\n")]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kinds: Vec<&str> = runtime.block_on(async {
        let nowhere = place.path().join("nowhere");
        let engine = Engine::over(Arc::new(MemoryStore::new(&nowhere)), &nowhere);
        let lines = vec![calls("", &[("echo", json!({}))]), says("done")];
        let mut settings = settings("etcode", lines);
        settings.tools = ToolSet::empty().with(prop("echo"));
        let session = engine.create(&workspace.path(), settings).await.unwrap();
        assert_eq!(&*session.prompt("go").await.unwrap().text, "done");
        let kinds = session.records().await.unwrap().iter().map(|record| record.event.kind()).collect();
        session.close().await;
        kinds
    });
    assert!(!kinds.contains(&"hooks_ran"), "{kinds:?}");
    let files: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["a.txt"]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// S4-056 S4-010: every request has the instructions, the tools, the model and the messages of its round.
#[test]
fn s4_056_every_request_has_all_that_the_model_needs() {
    let mut lines = rounds(2);
    lines.push(says("done"));
    let ran = Lab::new("opencode", lines)
        .model("big")
        .tools(ToolSet::builtin())
        .change(|settings| settings.system = "Be good.".into())
        .run();
    for (number, request) in ran.requests.iter().enumerate() {
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((request.system.as_str(), request.model.as_str()), ("Be good.", "big"));
        assert_eq!(
            names,
            ["bash", "bash_kill", "bash_output", "echo", "edit", "glob", "grep", "list", "read", "todo", "write"]
        );
        assert!(request.tools.iter().all(|tool| tool.schema["type"] == "object" && !tool.description.is_empty()));
        assert_eq!((request.messages.len(), request.may_call), (1 + 2 * number, true));
        let session = &ran.records()[0].event;
        assert!(matches!(session, Event::SessionStarted { session, .. } if session.0 == request.session));
    }
}

/// Keeps each raw piece with the id of its request.
#[derive(Default)]
struct Chunks(Mutex<Vec<(String, String)>>);

#[async_trait]
impl Hook for Chunks {
    fn name(&self) -> &str {
        "chunks"
    }

    async fn on_chunk(&self, _: &HookContext, request: &str, chunk: &str) -> HookResult {
        self.0.lock().unwrap().push((request.to_owned(), chunk.to_owned()));
        Ok(())
    }
}

/// S0-023: every raw piece is told as the server sent it, of a kind that nobody knows too, with one id for each request.
#[test]
fn s0_023_every_raw_piece_is_told_with_the_id_of_its_request() {
    let call = json!({"name": "read", "args": {"path": "a.txt"}});
    let server =
        FakeProvider::start(json!([{"text": "one", "tools": [call]}, {"pieces": ["tw", "o"], "keep_alives": 1}]));
    let spec = ProviderSpec {
        provider: "anthropic".into(),
        model: Some("m".into()),
        base_url: Some(server.url()),
        key: Some("sk-test-key".into()),
        ..ProviderSpec::default()
    };
    let model = provider::open(&spec, &HttpOptions::default()).ok().unwrap();
    let chunks = Arc::new(Chunks::default());
    let hook = chunks.clone();
    with_engine(|engine| async move {
        let workspace = TempWorkspace::with([("a.txt", "alpha\n")]);
        let mut settings = Settings { model, tools: ToolSet::builtin(), ..settings("etcode", vec![]) };
        settings.hooks.push(hook);
        let session = engine.create(&workspace.path(), settings).await.unwrap();
        assert_eq!(&*session.prompt("go").await.unwrap().text, "two");
        session.close().await;
    });
    let chunks = chunks.0.lock().unwrap();
    let mut requests: Vec<&str> = chunks.iter().map(|(request, _)| request.as_str()).collect();
    requests.dedup();
    assert_eq!(requests.len(), 2, "one id for all pieces of a request, another for the next: {requests:?}");
    assert_ne!(requests[0], requests[1]);
    let of = |request: &str| {
        chunks.iter().filter(|(of, _)| of == request).map(|(_, chunk)| chunk.as_str()).collect::<Vec<_>>().join("\n")
    };
    assert!(of(requests[0]).contains("\"one\"") && !of(requests[0]).contains("\"tw\""));
    assert!(of(requests[1]).contains("\"tw\"") && of(requests[1]).contains("message_stop"), "{}", of(requests[1]));
    assert!(of(requests[1]).contains("ping"), "a piece that says nothing is one too: {}", of(requests[1]));
}

/// Writes down what it is told of itself.
#[derive(Default)]
struct Curious(Mutex<Vec<(String, std::path::PathBuf, bool)>>);

#[async_trait]
impl Tool for Curious {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "curious".into(), description: "Looks.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, _: Value, context: &ToolContext) -> Outcome {
        let known = (context.call.to_string(), context.workspace.clone(), context.cancel.is_cancelled());
        self.0.lock().unwrap().push(known);
        context.output.push("half way\n");
        Outcome::ok("looked")
    }
}

/// S3-042: a tool knows which call it is, where it works and whether it shall stop, and what it says meanwhile is told.
#[test]
fn s3_042_a_tool_knows_its_call_its_place_and_its_listeners() {
    let curious = Arc::new(Curious::default());
    let lab = Lab::new("etcode", vec![calls("", &[("curious", json!({}))]), says("done")]);
    let place = lab.workspace.path();
    let ran = lab.tools(ToolSet::empty().with(curious.clone())).run();
    let started: Vec<String> = ran
        .records()
        .iter()
        .filter_map(
            |record| if let Event::CallStarted { call } = &record.event { Some(call.to_string()) } else { None },
        )
        .collect();
    assert_eq!(*curious.0.lock().unwrap(), [(started[0].clone(), place, false)]);
    let told = ran.played.heard.iter().any(|heard| match heard {
        Published::Live(live) => matches!(&**live, Live::ToolOutput { text, .. } if text.contains("half way")),
        _ => false,
    });
    assert!(told, "what a tool says while it runs is told");
}

/// S0-026 S2-062: without an approver, what rules would ask about is refused, and a command is asked about by default.
#[test]
fn s0_026_without_an_approver_nothing_that_must_be_asked_is_run() {
    for (preset, command) in [("neovate", "rm -rf x"), ("coder-mvp", "git push"), ("piton", "rm -rf x")] {
        let call = json!({"command": command});
        let first = if preset == "neovate" { says(&use_tool("bash", &call)) } else { calls("", &[("bash", call)]) };
        let ran = Lab::new(preset, vec![first, says("done")])
            .tools(ToolSet::builtin())
            .files(&[("x/kept.txt", "kept\n")])
            .change(|settings| settings.policy.permission = piton_core::permission::Rules::default())
            .run();
        assert_eq!((ran.outcomes()[0].status, ran.report().spent.calls), (Status::Denied, 0), "{preset}");
        assert_eq!(ran.end(), TurnEnd::ToolDenied, "{preset}");
    }
}

/// S4-060 S4-061 S4-063: rules are asked about every call of any tool by its name, and the last that fits wins.
#[test]
fn s4_060_rules_are_asked_about_every_call_and_the_last_wins() {
    let inputs = [
        ("bash", json!({"command": "echo hi"})),
        ("edit", json!({"path": "a.txt", "old_string": "alpha", "new_string": "omega"})),
        ("glob", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "alpha"})),
        ("read", json!({"path": "a.txt"})),
        ("write", json!({"path": "b.txt", "content": "b"})),
        ("echo", json!({})),
    ];
    for (name, input) in inputs {
        let run = |rules: [(&'static str, Action); 2]| {
            let lines = vec![calls("", &[(name, input.clone())]), says("done")];
            let ran = Lab::new("opencode", lines)
                .tools(ToolSet::builtin())
                .change(move |settings| {
                    for (tool, action) in rules {
                        settings.policy.permission.push(tool, action);
                    }
                })
                .run();
            ran.outcomes()[0].status
        };
        assert_eq!(run([(name, Action::Allow), (name, Action::Deny)]), Status::Denied, "{name}");
        assert_ne!(run([(name, Action::Deny), (name, Action::Allow)]), Status::Denied, "{name}");
        assert_eq!(run([("*", Action::Allow), (name, Action::Deny)]), Status::Denied, "{name}");
        assert_eq!(
            run([(name, Action::Deny), ("*", Action::Allow)]),
            Status::Denied,
            "{name}: the more particular wins"
        );
    }
}

/// S0-118 S0-066: a session is a log of its own: its id, each request by step and attempt, and every message, in order.
#[test]
fn s0_118_a_session_is_a_log_of_requests_and_messages() {
    let ran = Lab::new("etcode", vec![fails(429), rounds(1).remove(0), says("done")]).run();
    let records = ran.records();
    let named: Vec<(&str, u32, u32)> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ModelFailed { step, attempt, .. } => Some(("failed", *step, *attempt)),
            Event::MessageFinished { step, attempt, .. } => Some(("replied", *step, *attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(named, [("failed", 1, 1), ("replied", 1, 2), ("replied", 2, 1)]);
    assert!(matches!(&records[0].event, Event::SessionStarted { session, .. } if session.0.starts_with("ses_")));
    assert!(records.iter().map(|record| record.seq).eq(1..=records.len() as u64), "no number is missing");
    assert_eq!(ran.played.transcript().len(), 4);
}

/// Puts something else in the place of a secret.
struct Mask;

#[async_trait]
impl Hook for Mask {
    fn name(&self) -> &str {
        "mask"
    }

    async fn after_tool_call(
        &self,
        _: &HookContext,
        _: &ToolCall,
        outcome: &Outcome,
    ) -> HookResult<piton_engine::hooks::OutcomeChange> {
        let outcome = Some(Outcome { text: outcome.text.replace("sk-123", "***"), ..outcome.clone() });
        Ok(piton_engine::hooks::OutcomeChange { outcome, ..Default::default() })
    }
}

/// S1-035 S1-036: a hook masks a secret, and neither the model nor the session ever has it.
#[test]
fn s1_036_a_hook_masks_what_nobody_shall_read() {
    let leaky = Arc::new(Prop { name: "echo".into(), says: Some("key sk-123".into()), ..Prop::default() });
    let ran = Lab::new("pulse", vec![rounds(1).remove(0), says("done")]).props(vec![leaky]).hook(Arc::new(Mask)).run();
    let kept = serde_json::to_string(&ran.records()).unwrap();
    assert!(ran.words(1).contains("key ***") && !ran.words(1).contains("sk-123"), "{}", ran.words(1));
    assert!(!kept.contains("sk-123"), "{kept}");
}

/// S3-102: a field that nobody here knows is passed over, in an event and in a message.
#[test]
fn s3_102_unknown_fields_are_passed_over() {
    let ran = Lab::new("etcode", vec![rounds(1).remove(0), says("done")]).run();
    for record in ran.records() {
        let mut newer = serde_json::to_value(&record).unwrap();
        let known = newer.clone();
        newer["of_tomorrow"] = json!({"a": 1});
        if let Some(parts) = newer.pointer_mut("/reply/parts/0") {
            parts["of_tomorrow"] = json!([1]);
        }
        let read: Record = serde_json::from_value(newer).unwrap_or_else(|error| panic!("{error}: {known}"));
        assert_eq!(serde_json::to_value(read).unwrap(), known);
    }
}

/// N0-04: what a person says with a no reaches the model.
#[test]
fn n0_04_the_reason_of_a_refusal_reaches_the_model() {
    let lines = vec![rounds(1).remove(0), says("then otherwise")];
    let ran = Lab::new("piton", lines).asking(Decision::Deny(Some("use the other tool".into()))).run();
    assert!(ran.words(1).contains("use the other tool"), "{}", ran.words(1));
    assert_eq!(ran.outcomes()[0].status, Status::Denied);
}
