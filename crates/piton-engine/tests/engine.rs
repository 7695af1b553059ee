//! The engine as an embedder sees it: sessions, prompts, listeners, approvals, resuming. Models are cassettes and
//! closures, everything else is real.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::{Gate, Home, call, cassette, says, with_gate};
use async_trait::async_trait;
use futures_util::StreamExt;
use piton_core::call::{Effects, Outcome, ToolSpec, Touches};
use piton_core::client::{self, Answer, Closed, Live, Prompt, Published, Scope, Stage, Wanted, When};
use piton_core::event::{Delivery, Direction, Event, Moment, Record, Subject, Touched, TurnEnd};
use piton_core::message::{Message, Part, Role};
use piton_core::model::{ModelEvent, Reply, Request};
use piton_core::question::Decision;
use piton_engine::engine::{Attendance, EngineError, Handle, Resumed, Settings, Subscription};
use piton_engine::rewind::RewindError;
use piton_engine::store::StoreError;
use piton_engine::store::sqlite;
use piton_engine::store::sqlite::SessionDir;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use piton_tools::plan::{Look, Plan};
use piton_tools::tool::{Tool, ToolContext};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Everything that is recorded until the session is closed.
async fn recorded(mut subscription: Subscription) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some(published) = subscription.next().await.unwrap() {
        if let Published::Recorded(record) = published {
            records.push((*record).clone());
        }
    }
    records
}

fn transcript(session: &Handle) -> Vec<Arc<Message>> {
    let records = sqlite::read_session(&SessionDir::of(session.store(), session.id())).unwrap();
    piton_core::turn::State::fold(&records).transcript().cloned().collect()
}

#[tokio::test]
async fn who_listens_late_hears_everything_once_and_in_order() {
    let home = Home::new();
    let session =
        home.create(cassette(&[call("glob", &json!({"pattern": "*"})), says("nothing here"), says("again")])).await;
    let early = session.subscribe(1);
    session.prompt("look").await.unwrap();
    let late = session.subscribe(1);
    let from_five = session.subscribe(5);
    session.prompt("again").await.unwrap();
    let dir = SessionDir::of(session.store(), session.id());
    session.close().await;
    let journal = sqlite::read_session(&dir).unwrap();
    assert_eq!(recorded(early).await, journal);
    assert_eq!(recorded(late).await, journal);
    assert_eq!(recorded(from_five).await, journal[4..]);
}

#[tokio::test]
async fn a_listener_that_falls_behind_loses_fragments_but_no_event() {
    let home = Home::new();
    let model = Chatter::new(20_000);
    let session = home.create(Settings::new(Arc::new(model))).await;
    let slow = session.subscribe(1);
    session.prompt("talk").await.unwrap();
    let dir = SessionDir::of(session.store(), session.id());
    session.close().await;
    let journal = sqlite::read_session(&dir).unwrap();
    assert_eq!(recorded(slow).await, journal);
}

#[tokio::test]
async fn who_was_too_slow_is_told_so_and_begins_again_with_where_the_session_is() {
    let home = Home::new();
    let session = home.create(Settings::new(Arc::new(Chatter::new(20_000)))).await;
    let mut slow = session.subscribe(1);
    session.prompt("talk").await.unwrap();
    let mut heard = Vec::new();
    while !slow.is_drained() {
        heard.extend(slow.next().await.unwrap());
    }
    let missed = heard.iter().position(|one| matches!(one, Published::Missed { fragments } if *fragments > 1_000));
    let after = &heard[missed.expect("the ring is smaller")..];
    let [_, Published::Now(now), Published::CaughtUp, rest @ ..] = after else { panic!("{after:?}") };
    assert!(now.partial.is_empty() && rest.is_empty(), "no fragment after the record that ends it: {rest:?}");
    assert_eq!(now.phase, Stage::AtRest);
    session.close().await;
}

#[tokio::test]
async fn a_session_has_one_driver_however_many_attach_in_this_process_or_another() {
    let home = Home::new();
    let says_twice = || cassette(&[says("one"), says("two"), says("three")]);
    let engine = home.engine();
    let first = engine.create(&home.folder(), says_twice()).await.unwrap();
    let second = engine.attach(first.id(), says_twice()).await.unwrap();
    let said = second.say(Prompt { wait: true, ..Prompt::new("go") }).await.unwrap();
    assert_eq!(&*said.ended().await.unwrap().text, "one");
    // Another engine knows nothing of this one, like another process.
    let elsewhere = home.engine();
    let third = elsewhere.attach(first.id(), says_twice()).await.unwrap();
    assert_eq!((first.elsewhere(), third.elsewhere()), (None, Some(std::process::id())));
    let mut heard = third.subscribe(1);
    assert_eq!(&*third.prompt("and now?").await.unwrap().text, "two");
    assert!(third.cancel().await.unwrap().is_none(), "it is at rest");
    assert!(third.pause().await.unwrap() && !third.unpause().await.unwrap());
    let refused = third.answer(Answer::unseen(Subject::Call("c9_9".into()), Decision::Approve)).await;
    assert!(matches!(refused, Err(EngineError::NotOpen { given: None, .. })), "{refused:?}");
    third.rename("A name").await.unwrap();
    let fork = third.fork(None).await.unwrap();
    let plan = third.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    assert_eq!(plan.prompts, ["and now?"]);
    third.rewind(plan.rewind).await.unwrap();
    let told = third.plan_rewind(Direction::Undo, 7, Scope::Chat).await.unwrap_err();
    assert!(told.to_string().contains("7 turns"), "{told}");
    assert_eq!(first.prompt("again").await.unwrap().end, TurnEnd::Completed);
    let id = first.id().clone();
    drop((second, third));
    first.close().await;
    let mut records = Vec::new();
    while let Some(published) = heard.next().await.unwrap() {
        if let Published::Recorded(record) = published {
            records.push((*record).clone());
        }
    }
    assert_eq!(records, home.engine().records(&id).await.unwrap(), "the other process heard all of it");
    assert!(elsewhere.session_dir(&fork).journal_db().is_file());
}

#[tokio::test]
async fn so_many_messages_wait_and_no_more() {
    let home = Home::new();
    let session = home.create(cassette(&[call("no_such_tool", &json!({}))])).await;
    drop(session.pause());
    for _ in 0..64 {
        session.say(Prompt::new("more")).await.unwrap();
    }
    let late = session.say(Prompt::new("too many")).await;
    assert!(matches!(late, Err(EngineError::TooMany { most: 64 })));
    let large = session.say(Prompt::new("x".repeat(17 << 20))).await;
    assert!(matches!(large, Err(EngineError::TooLarge { .. })));
    session.close().await;
}

/// Says the same many times.
struct Chatter {
    deltas: usize,
    delta: String,
}

impl Chatter {
    fn new(deltas: usize) -> Self {
        Self { deltas, delta: "x".to_owned() }
    }
}

impl Model for Chatter {
    fn name(&self) -> &str {
        "test/chatter"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        Some(Price { input: 1.0, output: 2.0, cache_read: 0.0, cache_write: 0.0, long: None })
    }

    fn stream(&self, _request: Request) -> ModelStream {
        use piton_core::message::{FinishReason, Usage};
        let text = self.delta.clone();
        let delta = move || ModelEvent::Delta(piton_core::model::Delta::Text { text: text.clone() });
        let usage = Usage { input_tokens: 3, output_tokens: 5, ..Usage::default() };
        let parts = vec![Part::text(self.delta.repeat(self.deltas))];
        let reply = Reply { usage, ..Reply::new(parts, FinishReason::Stop) };
        let done = ModelEvent::Done(Box::new(reply));
        let deltas = std::iter::repeat_with(delta).take(self.deltas).chain([done]).map(Ok);
        futures_util::stream::iter(deltas).boxed()
    }
}

#[tokio::test]
async fn what_a_turn_costs_is_known_where_the_price_is() {
    let home = Home::new();
    let session = home.create(Settings::new(Arc::new(Chatter::new(1)))).await;
    assert_eq!(session.prompt("talk").await.unwrap().spent.cost_micros, Some(13));
    session.close().await;
}

#[tokio::test]
async fn steering_joins_the_next_step_and_a_follow_up_waits_for_the_end() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("steered"), says("followed up")]));
    let session = home.create(settings).await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    gate.began.notified().await;
    let steering = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("the other way").await.unwrap() }
    });
    let follow_up = tokio::spawn({
        let session = session.clone();
        async move { session.send(vec![Part::text("and then this")], Delivery::FollowUp).await.unwrap() }
    });
    tokio::task::yield_now().await;
    gate.go.notify_one();
    let (first, steering, follow_up) = (first.await.unwrap(), steering.await.unwrap(), follow_up.await.unwrap());
    assert_eq!((first.turn, &*first.text), (1, "steered"));
    assert_eq!(steering, first, "the same turn answers both");
    assert_eq!((follow_up.turn, &*follow_up.text), (2, "followed up"));
    let words: Vec<(Role, String)> = transcript(&session).iter().map(|m| (m.role, m.prose())).collect();
    let user: Vec<&str> = words.iter().filter(|(role, _)| *role == Role::User).map(|(_, text)| text.as_str()).collect();
    assert_eq!(user, ["go", "the other way", "and then this"]);
    session.close().await;
}

#[tokio::test]
async fn cancelling_answers_what_runs_and_leaves_a_session_that_goes_on() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("back again")]));
    let session = home.create(settings).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    gate.began.notified().await;
    drop(session.cancel());
    assert_eq!(turn.await.unwrap().end, TurnEnd::Canceled);
    assert_eq!(&*session.prompt("go on").await.unwrap().text, "back again");
    session.close().await;
}

/// A tool that never answers: its future hangs, and so does a thread that it blocks.
struct Hung {
    touches: Touches,
    began: Arc<Notify>,
    thread: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}

#[async_trait]
impl Tool for Hung {
    fn spec(&self) -> ToolSpec {
        let effects = Effects { touches: self.touches, ..Effects::READ };
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "hung".into(), description: "Hangs.".into(), schema, effects }
    }

    async fn run(&self, _input: Value, _: &ToolContext) -> Outcome {
        self.began.notify_one();
        let thread = self.thread.lock().unwrap().take();
        match thread {
            // Until the test lets it go: a runtime waits for its threads.
            Some(thread) => drop(tokio::task::spawn_blocking(move || thread.recv()).await),
            None => std::future::pending().await,
        }
        Outcome::ok("it answered after all")
    }
}

#[tokio::test]
async fn a_tool_that_hangs_is_abandoned_when_its_turn_is_canceled() {
    for (touches, blocks_thread, said) in [
        (Touches::Nothing, true, "Cancelled. It did not stop when it was asked to and was abandoned."),
        (Touches::Nothing, false, "It changes nothing."),
        (
            Touches::Workspace,
            true,
            "[interrupted] It did not stop when it was asked to and was abandoned. Its effect is unknown",
        ),
    ] {
        let home = Home::new();
        let (let_go, thread) = std::sync::mpsc::channel();
        let began = Arc::new(Notify::new());
        let hung = Hung { touches, began: began.clone(), thread: Mutex::new(blocks_thread.then_some(thread)) };
        let mut settings = cassette(&[call("hung", &json!({})), says("back again")]);
        settings.tools = ToolSet::builtin().with(Arc::new(hung));
        let session = home.create(settings).await;
        let turn = tokio::spawn({
            let session = session.clone();
            async move { session.prompt("go").await.unwrap() }
        });
        began.notified().await;
        let canceled = tokio::time::timeout(Duration::from_secs(30), session.cancel()).await.expect("a cancel ends");
        assert_eq!(canceled.unwrap().expect("a turn was under way").end, TurnEnd::Canceled);
        assert_eq!(turn.await.unwrap().end, TurnEnd::Canceled);
        assert_eq!(&*session.prompt("go on").await.unwrap().text, "back again");
        let told = format!("{:?}", transcript(&session));
        assert!(told.contains(said), "{told}");
        session.close().await;
        drop(let_go);
    }
}

#[tokio::test]
async fn a_paused_session_finishes_what_runs_and_starts_nothing_else() {
    let home = Home::new();
    let (settings, gate) =
        with_gate(cassette(&[call("gate", &json!({})), call("gate", &json!({"n": 2})), says("done")]));
    let session = home.create(settings).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    gate.began.notified().await;
    let mut events = session.subscribe(1);
    drop(session.pause());
    gate.go.notify_one();
    loop {
        if let Some(Published::Recorded(record)) = events.next().await.unwrap()
            && let Event::CallSettled { .. } = &record.event
        {
            break;
        }
    }
    // Whatever would be started could be by now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!turn.is_finished());
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1);
    drop(session.unpause());
    gate.began.notified().await;
    // A cancel needs no leave.
    drop(session.pause());
    drop(session.cancel());
    assert_eq!(turn.await.unwrap().end, TurnEnd::Canceled);
    session.close().await;
}

#[tokio::test]
async fn a_person_is_asked_once_for_what_is_always_allowed() {
    let home = Home::new();
    let (mut settings, gate) = with_gate(cassette(&[
        json!({"calls": [{"name": "gate", "input": {}}, {"name": "gate", "input": {"n": 2}}]}),
        call("gate", &json!({"n": 3})),
        says("done"),
    ]));
    settings.policy.permission = piton_core::permission::Rules::default();
    settings.attendance = Attendance::Attended;
    let session = home.create(settings).await;
    let mut events = session.subscribe(1);
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    let mut answered = 0;
    while !turn.is_finished() {
        gate.go.notify_one();
        let Ok(Ok(Some(published))) = tokio::time::timeout(std::time::Duration::from_millis(20), events.next()).await
        else {
            continue;
        };
        if let Published::Wanted(wanted) = published
            && answered == 0
        {
            drop(session.answer(wanted.answer(Decision::ApproveForSession)));
            answered += 1;
        }
    }
    assert_eq!(turn.await.unwrap().end, TurnEnd::Completed);
    assert_eq!(gate.runs.load(Ordering::SeqCst), 3, "the questions still open were answered by the new rule");
    session.close().await;
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_cannot_run() {
    let home = Home::new();
    let bad = json!({"calls": [
        {"name": "bash", "input": {"cmd": "ls"}},
        {"name": "bash", "input": {"command": " "}},
        {"name": "write", "input": {"path": "a"}},
    ]});
    let mut settings = cassette(&[bad, says("I see")]);
    settings.policy.permission = piton_core::permission::Rules::default();
    settings.attendance = Attendance::Attended;
    let session = home.create(settings).await;
    let events = session.subscribe(1);
    assert_eq!(session.prompt("go").await.unwrap().end, TurnEnd::Completed);
    let told = format!("{:?}", transcript(&session));
    session.close().await;
    let asked = |record: &Record| matches!(record.event, Event::ApprovalAsked { .. });
    assert!(!recorded(events).await.iter().any(asked));
    for why in ["missing field `command`", "`command` is empty", "missing field `content`"] {
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn what_the_model_asks_is_answered_in_words_and_a_yes_takes_the_defaults() {
    let home = Home::new();
    let asks = |default: &str| {
        call("ask_user", &json!({"questions": [{"question": "Which?", "options": ["a", "b"], "default": default}]}))
    };
    let mut settings = cassette(&[asks("a"), asks("b"), says("fine")]);
    settings.policy.permission = piton_core::permission::Rules::default();
    settings.policy.mode = piton_core::permission::PermissionMode::Auto;
    let session = home.create(settings).await;
    let mut person = session.subscribe(1);
    person.attend(true);
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    let first = wanted(&mut person).await;
    assert_eq!(first.question().unwrap().inquiry.as_ref().unwrap().questions[0].default, ["a"]);
    let no = |decision: Decision| session.answer(first.answer(decision));
    let words = vec![vec!["a".to_owned(), "b".to_owned()]];
    assert!(no(Decision::Answered(words)).await.unwrap_err().to_string().contains("takes 1 at most"));
    assert!(no(Decision::Expired).await.is_err() && no(Decision::ApproveChanged(json!({}))).await.is_err());
    session.answer(first.answer(Decision::Answered(vec![vec!["neither".to_owned()]]))).await.unwrap();
    let second = wanted(&mut person).await;
    session.answer(second.answer(Decision::Approve)).await.unwrap();
    assert_eq!(turn.await.unwrap().end, TurnEnd::Completed);
    let told = format!("{:?}", transcript(&session));
    assert!(told.contains("→ neither") && told.contains("→ b (the default)"), "{told}");
    session.close().await;
}

/// A session with a call that has to be asked about, and nobody who is said to come.
async fn asked(home: &Home, script: &[Value]) -> (Handle, Arc<Gate>) {
    let (mut settings, gate) = with_gate(cassette(script));
    settings.policy.permission = piton_core::permission::Rules::default();
    (home.create(settings).await, gate)
}

/// What is wanted next.
async fn wanted(events: &mut Subscription) -> Wanted {
    loop {
        if let Published::Wanted(wanted) = events.next().await.unwrap().unwrap() {
            return wanted;
        }
    }
}

#[tokio::test]
async fn who_can_answer_is_asked_and_who_comes_late_too_and_nobody_once_they_are_gone() {
    let home = Home::new();
    let (session, gate) = asked(&home, &[call("gate", &json!({})), call("gate", &json!({"n": 2})), says("fine")]).await;
    let mut person = session.subscribe(1);
    person.attend(true);
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    let first = wanted(&mut person).await;
    let mut late = session.subscribe(u64::MAX);
    assert_eq!(wanted(&mut late).await, first);
    assert_eq!(
        session
            .answer(Answer { shown: Some("something else".into()), ..first.answer(Decision::Approve) })
            .await
            .unwrap_err()
            .to_string(),
        "this answer is for an older question about c1_0. Answer the open one"
    );
    session.answer(first.answer(Decision::Deny(None))).await.unwrap();
    while !matches!(late.next().await.unwrap().unwrap(), Published::Withdrawn(subject) if subject == first.subject) {}
    wanted(&mut person).await;
    drop(person);
    let report = turn.await.unwrap();
    assert_eq!((report.end, gate.runs.load(Ordering::SeqCst)), (TurnEnd::ToolDenied, 0), "who is gone says nothing");
    session.close().await;
    while !matches!(late.next().await.unwrap().unwrap(), Published::Closed(Closed::Left)) {}
    assert_eq!(late.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_person_may_say_no_and_why() {
    let home = Home::new();
    let (session, gate) = asked(&home, &[call("gate", &json!({})), says("all right")]).await;
    let mut events = session.subscribe(1);
    events.attend(true);
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await.unwrap() }
    });
    let wanted = wanted(&mut events).await;
    // An answer to something else changes nothing.
    drop(session.answer(Answer::unseen(Subject::Call("c9_9".into()), Decision::Approve)));
    drop(session.answer(wanted.answer(Decision::Deny(Some("not on a Friday".into())))));
    assert_eq!(turn.await.unwrap().end, TurnEnd::Completed);
    assert_eq!(gate.runs.load(Ordering::SeqCst), 0);
    let told = format!("{:?}", transcript(&session));
    assert!(told.contains("not on a Friday"), "{told}");
    session.close().await;
}

/// Panics.
struct Bomb;

#[async_trait]
impl Tool for Bomb {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bomb".into(),
            description: "Panics.".into(),
            schema: json!({"type": "object"}),
            effects: Effects::READ,
        }
    }

    async fn run(&self, _input: Value, _cx: &ToolContext) -> Outcome {
        panic!("boom");
    }
}

impl Model for Bomb {
    fn name(&self) -> &str {
        "test/bomb"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, _request: Request) -> ModelStream {
        futures_util::stream::once(async { panic!("boom") }).boxed()
    }
}

#[tokio::test]
async fn a_tool_or_model_that_panics_does_not_take_the_session_with_it() {
    let home = Home::new();
    let mut settings = cassette(&[call("bomb", &json!({})), says("it failed")]);
    settings.tools = ToolSet::builtin().with(Arc::new(Bomb));
    let session = home.create(settings).await;
    assert_eq!(&*session.prompt("go").await.unwrap().text, "it failed");
    session.close().await;

    let mut settings = Settings::new(Arc::new(Bomb));
    (settings.policy.retry.usual.first_ms, settings.policy.retry.usual.cap_ms) = (1, 1);
    let session = home.create(settings).await;
    assert_eq!(session.prompt("go").await.unwrap().end, TurnEnd::ApiError);
    session.close().await;
}

#[tokio::test]
async fn a_long_outcome_of_any_tool_is_cut_for_the_model_and_kept_whole_in_a_file() {
    struct Flood;
    #[async_trait]
    impl Tool for Flood {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: "flood".into(),
                description: "Talks.".into(),
                schema: json!({"type": "object"}),
                effects: Effects::READ,
            }
        }
        async fn run(&self, _input: Value, _cx: &ToolContext) -> Outcome {
            Outcome::ok("ü".repeat(200_000))
        }
    }
    let home = Home::new();
    let mut settings = cassette(&[call("flood", &json!({})), says("a lot")]);
    settings.tools = ToolSet::empty().with(Arc::new(Flood));
    let session = home.create(settings).await;
    session.prompt("go").await.unwrap();
    let messages = transcript(&session);
    let Some(Part::ToolResult { outcome, .. }) = messages[2].parts.first() else { panic!("{messages:?}") };
    assert!(outcome.text.chars().count() < 31_000);
    let path = outcome.metadata["output_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap().chars().count(), 200_000);
    session.close().await;
}

#[tokio::test]
async fn resuming_remembers_what_was_said_and_which_files_were_read() {
    let home = Home::new();
    std::fs::write(home.workspace.path().join("a.txt"), "one\n").unwrap();
    let lines = [
        call("read", &json!({"path": "a.txt"})),
        says("read it"),
        call("edit", &json!({"path": "a.txt", "old_string": "one", "new_string": "two"})),
        says("changed it"),
    ];
    let session = home.create(cassette(&lines)).await;
    session.prompt("read").await.unwrap();
    let id = session.id().clone();
    session.close().await;

    let session = home.engine().resume(&id, cassette(&lines)).await.unwrap();
    assert_eq!(session.resumed(), Resumed::AtRest);
    assert!(matches!(session.go_on().await, Err(EngineError::AtRest)));
    assert_eq!(&*session.prompt("change").await.unwrap().text, "changed it");
    assert_eq!(std::fs::read_to_string(home.workspace.path().join("a.txt")).unwrap(), "two\n");
    session.close().await;
}

#[tokio::test]
async fn a_turn_that_was_cut_off_goes_on_by_the_rules_of_who_resumes_it() {
    let home = Home::new();
    let lines = [call("gate", &json!({})), says("done")];
    let (mut settings, gate) = with_gate(cassette(&lines));
    settings.policy.permission = piton_core::permission::Rules::default();
    settings.attendance = Attendance::Attended;
    let session = home.create(settings).await;
    let mut events = session.subscribe(1);
    let asking = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    loop {
        if let Some(Published::Recorded(record)) = events.next().await.unwrap()
            && matches!(record.event, Event::ApprovalAsked { .. })
        {
            break;
        }
    }
    // As if killed: the state of the folder while the question is open, in another place.
    let copy = Home::new();
    let to = copy.data.path().join("sessions").join(session.id().as_str());
    std::fs::create_dir_all(&to).unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(SessionDir::of(session.store(), session.id()).root().join(name), to.join(name)).unwrap();
    }
    let (settings, other_gate) = with_gate(cassette(&lines));
    let resumed = copy.engine().resume(session.id(), settings).await.unwrap();
    assert_eq!(resumed.resumed(), Resumed::MidTurn);
    other_gate.go.notify_one();
    assert_eq!(&*resumed.go_on().await.unwrap().text, "done", "allowed now, so nobody is asked");
    assert_eq!((gate.runs.load(Ordering::SeqCst), other_gate.runs.load(Ordering::SeqCst)), (0, 1));
    resumed.close().await;
    session.close().await;
    assert_eq!(asking.await.unwrap().unwrap().end, TurnEnd::Canceled);
}

#[tokio::test]
async fn a_session_has_one_writer_and_is_free_when_the_last_handle_is_dropped() {
    let home = Home::new();
    let session = home.create(cassette(&[says("hi"), says("hi")])).await;
    session.prompt("hello").await.unwrap();
    let id = session.id().clone();
    let second = home.engine().resume(&id, cassette(&[says("hi")])).await;
    assert!(matches!(second, Err(EngineError::Journal(StoreError::Busy { .. }))));
    let mut events = session.subscribe(1);
    drop(session);
    while events.next().await.unwrap().is_some() {}
    let resumed = home.engine().resume(&id, cassette(&[says("hi"), says("hi")])).await.unwrap();
    assert_eq!(resumed.prompt("hello").await.unwrap().turn, 2);
    resumed.close().await;
}

#[tokio::test]
async fn fragments_are_told_as_they_come_and_are_not_in_the_journal() {
    let home = Home::new();
    let session = home.create(cassette(&[says("word by word")])).await;
    let mut events = session.subscribe(1);
    session.prompt("go").await.unwrap();
    session.close().await;
    let said = Mutex::new(String::new());
    while let Some(published) = events.next().await.unwrap() {
        if let Published::Live(live) = published
            && let Live::ModelDelta { delta: piton_core::model::Delta::Text { text }, .. } = &*live
        {
            said.lock().unwrap().push_str(text);
        }
    }
    assert_eq!(*said.lock().unwrap(), "word by word");
}

#[tokio::test]
async fn of_a_very_long_reply_only_the_beginning_streams_and_all_of_it_is_recorded() {
    const SAID: usize = 3 << 20;
    const DELTA: usize = 64 << 10;
    let home = Home::new();
    let deltas = Chatter { deltas: SAID / DELTA, delta: "x".repeat(DELTA) };
    let session = home.create(Settings::new(Arc::new(deltas))).await;
    let mut events = session.subscribe(1);
    let report = session.prompt("go").await.unwrap();
    session.close().await;
    let mut told = 0;
    while let Some(published) = events.next().await.unwrap() {
        if let Published::Live(live) = published
            && let Live::ModelDelta { delta, .. } = &*live
        {
            told += delta.bytes();
        }
    }
    assert_eq!((told, report.text.len()), (piton_core::limits::STREAMED_BYTES, SAID));
}

/// A model that looks, when it is asked, at what is on record.
struct Onlooker {
    model: Arc<dyn Model>,
    sessions: PathBuf,
    /// For each request, the kinds of the events that are durable.
    recorded: Arc<Mutex<Vec<Vec<&'static str>>>>,
}

impl Model for Onlooker {
    fn name(&self) -> &str {
        "test/onlooker"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        let (model, sessions, recorded) = (Arc::clone(&self.model), self.sessions.clone(), Arc::clone(&self.recorded));
        let look = async move {
            let session = sessions.read_dir().unwrap().next().unwrap().unwrap().file_name();
            let dir = SessionDir::new(&sessions, &session.to_str().unwrap().into());
            let records = sqlite::read_session(&dir).unwrap();
            recorded.lock().unwrap().push(records.iter().map(|record| record.event.kind()).collect());
            model.stream(request)
        };
        futures_util::stream::once(look).flatten().boxed()
    }
}

#[tokio::test]
async fn the_model_is_asked_while_the_disk_works_and_nobody_hears_it_before() {
    let home = Home::new();
    let recorded = Arc::new(Mutex::default());
    let mut settings = cassette(&[call("history", &json!({"query": "go"})), says("done")]);
    let (sessions, model) = (home.engine().sessions_dir(), Arc::clone(&settings.model));
    settings.model = Arc::new(Onlooker { model, sessions, recorded: Arc::clone(&recorded) });
    settings.shares_runtime = false;
    let session = home.create(settings).await;
    let mut events = session.subscribe(1);
    session.prompt("go").await.unwrap();
    session.close().await;
    let asked = std::mem::take(&mut *recorded.lock().unwrap());
    let [first, second] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(first.last(), Some(&"step_started"), "a person's words are durable before anybody is asked");
    assert!(
        second.contains(&"call_requested") && !second.contains(&"call_settled"),
        "the second need not wait: {second:?}"
    );
    let mut told = Vec::new();
    while let Some(published) = events.next().await.unwrap() {
        match published {
            Published::Recorded(record) => told.push(record.event.kind()),
            Published::Live(live) if matches!(*live, Live::ModelDelta { .. }) => told.push("delta"),
            _ => {}
        }
    }
    let at = |kind: &str| told.iter().rposition(|told| *told == kind).unwrap();
    assert!(at("call_settled") < at("step_started"), "{told:?}");
    assert!(at("step_started") < at("delta") && at("delta") < at("message_finished"), "{told:?}");
}

#[tokio::test]
async fn dropping_the_last_handle_in_mid_turn_cancels_it_once() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("never")]));
    let session = home.create(settings).await;
    let dir = SessionDir::of(session.store(), session.id());
    let events = session.subscribe(1);
    let turn = tokio::spawn(async move { session.prompt("go").await.map(|report| report.end) });
    gate.began.notified().await;
    turn.abort();
    let records = recorded(events).await;
    let cancels = records.iter().filter(|record| matches!(record.event, Event::CancelRequested { .. })).count();
    assert_eq!(cancels, 1);
    assert!(matches!(records.last().unwrap().event, Event::WriterClosed {}));
    assert_eq!(sqlite::read_session(&dir).unwrap(), records);
}

#[tokio::test]
async fn a_prompt_that_is_repeated_interrupts_nothing() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("done")]));
    let session = home.create(settings).await;
    let prompt = || {
        let message = Some(piton_core::ids::MessageId("m1".into()));
        client::Request::Prompt(Prompt { message, delivery: When::Interrupt, wait: true, ..Prompt::new("go") })
    };
    let first = session.ask(prompt());
    gate.began.notified().await;
    let again = session.ask(prompt());
    gate.go.notify_one();
    for mut asking in [first, again] {
        let ended = loop {
            if let client::Reply::Ended { report, .. } = asking.next().await.unwrap() {
                break report;
            }
        };
        assert_eq!((ended.turn, ended.end), (1, TurnEnd::Completed));
    }
    session.close().await;
}

#[tokio::test]
async fn closing_does_not_wait_for_what_was_said_too_late() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("never")]));
    let session = home.create(settings).await;
    let speak = |text: &'static str| {
        let session = session.clone();
        tokio::spawn(async move { session.prompt(text).await })
    };
    let first = speak("go");
    gate.began.notified().await;
    drop(session.cancel());
    let late = speak("one more thing");
    tokio::task::yield_now().await;
    session.close().await;
    assert_eq!(first.await.unwrap().unwrap().end, TurnEnd::Canceled);
    assert!(matches!(late.await.unwrap(), Err(EngineError::Closed) | Ok(_)));
}

#[tokio::test]
async fn a_call_whose_tool_is_gone_is_interrupted_on_resuming() {
    let home = Home::new();
    let lines = [call("gate", &json!({})), says("I see")];
    let (settings, gate) = with_gate(cassette(&lines));
    let session = home.create(settings).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    let copy = Home::new();
    let to = copy.data.path().join("sessions").join(session.id().as_str());
    std::fs::create_dir_all(&to).unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(SessionDir::of(session.store(), session.id()).root().join(name), to.join(name)).unwrap();
    }
    let resumed = copy.engine().resume(session.id(), cassette(&lines)).await.unwrap();
    assert_eq!(&*resumed.go_on().await.unwrap().text, "I see");
    assert!(format!("{:?}", transcript(&resumed)).contains("this one does not"));
    resumed.close().await;
    session.close().await;
    turn.await.unwrap().unwrap();
}

/// With snapshots of the workspace.
fn undoing(home: &Home, lines: &[Value]) -> Settings {
    let workspace = home.folder();
    let snapshots = home.engine().snapshots(&workspace, piton_tools::snapshot::Options::default()).unwrap();
    Settings { snapshots: Some(Arc::new(snapshots)), ..cassette(lines) }
}

/// A session whose only turn has written `two` into the files `a` and `b`, where `one` was, and into a new one, `c`.
async fn changing(home: &Home) -> Handle {
    for name in ["a", "b"] {
        std::fs::write(home.workspace.path().join(name), "one").unwrap();
    }
    let write = |name: &str| json!({"name": "write", "input": {"path": name, "content": "two"}});
    let script = [json!({"calls": [write("a"), write("b"), write("c")]}), says("done")];
    let session = home.create(undoing(home, &script)).await;
    session.prompt("change them").await.unwrap();
    session
}

/// Holds up whoever compares files with snapshots, for as long as it lives.
fn snapshots_held(home: &Home) -> std::fs::File {
    let mut stores = std::fs::read_dir(home.data.path().join("snapshots")).unwrap();
    let lock = std::fs::File::open(stores.next().unwrap().unwrap().path().join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[tokio::test]
async fn while_a_rewind_looks_at_files_the_session_hears_what_else_is_asked_and_a_cancel_stops_it() {
    let home = Home::new();
    let session = changing(&home).await;
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Both).await.unwrap();
    let look = client::Request::Plan { direction: Direction::Undo, turns: 1, scope: Scope::Both };
    for request in [look, client::Request::Rewind { rewind: plan.rewind.clone() }] {
        let held = snapshots_held(&home);
        let mut asked = session.ask(request);
        session.rename("named meanwhile").await.unwrap();
        assert_eq!(session.cancel().await.unwrap(), None);
        let stopped = asked.next().await;
        assert!(matches!(stopped, Err(EngineError::Rewind(RewindError::Stopped))), "{stopped:?}");
        drop(held);
    }
    let kinds: Vec<&str> = session.records().await.unwrap().iter().map(|record| record.event.kind()).collect();
    assert!(!kinds.contains(&"rewind_started"), "{kinds:?}");
    session.rewind(plan.rewind).await.unwrap();
    assert!(!home.workspace.path().join("c").exists());
    session.close().await;
}

#[tokio::test]
async fn a_close_stops_a_look_at_a_rewind_and_waits_for_one_that_has_begun() {
    let home = Home::new();
    let session = changing(&home).await;
    let (dir, id) = (SessionDir::of(session.store(), session.id()), session.id().clone());
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Both).await.unwrap();
    let held = snapshots_held(&home);
    drop(session.ask(client::Request::Plan { direction: Direction::Undo, turns: 1, scope: Scope::Both }));
    tokio::time::timeout(Duration::from_secs(60), session.close()).await.expect("it waits for no look");
    drop(held);

    let session = home.engine().resume(&id, undoing(&home, &[])).await.unwrap();
    let mut heard = session.subscribe(1);
    let mut asked = session.ask(client::Request::Rewind { rewind: plan.rewind });
    let begun =
        |heard: &Published| matches!(heard, Published::Recorded(record) if record.event.kind() == "rewind_started");
    while !begun(&heard.next().await.unwrap().unwrap()) {}
    session.close().await;
    assert!(matches!(asked.next().await, Ok(client::Reply::Rewound(_))));
    let kinds: Vec<&str> = sqlite::read_session(&dir).unwrap().iter().map(|record| record.event.kind()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["rewind_started", "rewind_finished", "writer_closed"]);
    assert!(!home.workspace.path().join("c").exists());
}

#[tokio::test]
async fn an_undo_that_was_cut_off_is_ended_when_the_session_is_next_opened() {
    let home = Home::new();
    let file = |name: &str| home.workspace.path().join(name);
    let session = changing(&home).await;
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Both).await.unwrap();
    let (dir, id) = (SessionDir::of(session.store(), session.id()), session.id().clone());
    session.close().await;

    // What a process leaves that is killed half-way: the announcement, and one file of three.
    let opening = || piton_engine::store::Opening { pid: 1, boot_id: None, now_ms: 1, shares_runtime: false };
    let (mut journal, _) = piton_engine::store::sqlite::Journal::open(&dir, opening()).unwrap();
    let was = plan.rewind.files[0].from.clone();
    journal.stage(1, Event::RewindStarted { rewind: plan.rewind, was, touches: Touched::default() });
    journal.commit().unwrap();
    drop(journal);
    std::fs::write(file("a"), "one").unwrap();

    let session = home.engine().resume(&id, undoing(&home, &[says("fresh")])).await.unwrap();
    session.prompt("something else").await.unwrap();
    assert_eq!(std::fs::read_to_string(file("b")).unwrap(), "one");
    assert!(!file("c").exists());
    let said: Vec<String> = transcript(&session).iter().map(|message| message.prose()).collect();
    assert_eq!(said, ["something else", "fresh"]);
    session.close().await;
}

#[tokio::test]
async fn snapshots_of_sessions_that_are_gone_go_too_and_the_others_stay() {
    let home = Home::new();
    let workspace = home.folder();
    let snapshots = Arc::new(home.engine().snapshots(&workspace, piton_tools::snapshot::Options::default()).unwrap());
    let mut trees = Vec::new();
    for content in ["one", "two"] {
        let script = [call("write", &json!({"path": content, "content": content})), says("done")];
        let settings = Settings { snapshots: Some(Arc::clone(&snapshots)), ..cassette(&script) };
        let session = home.create(settings).await;
        session.prompt("write").await.unwrap();
        let plan = session.plan_rewind(Direction::Undo, 1, Scope::Both).await.unwrap();
        trees.push((session.id().clone(), plan.rewind.files[0].clone()));
        session.close().await;
    }
    drop(snapshots);
    std::fs::remove_dir_all(home.engine().session_dir(&trees[0].0).root()).unwrap();
    // As one has that was imported, or worked on in another folder.
    let now_ms = 1_000 + u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let opening = piton_engine::store::Opening { pid: 1, boot_id: None, now_ms, shares_runtime: false };
    let (mut journal, _) =
        piton_engine::store::sqlite::Journal::open(&home.engine().session_dir(&trees[1].0), opening).unwrap();
    let tree = Some("0123456789abcdef0123456789abcdef01234567".to_owned());
    journal.stage(now_ms, Event::SnapshotTaken { step: 9, moment: Moment::Before, tree, notices: vec![] });
    journal.commit().unwrap();
    drop(journal);
    let snapshots = home.engine().snapshots(&workspace, piton_tools::snapshot::Options::default()).unwrap();
    assert!(home.engine().prune_snapshots(&workspace, &snapshots, now_ms).unwrap());
    let is_there =
        |way: &piton_core::event::Restore| snapshots.diff(way.from.parse().unwrap(), way.to.parse().unwrap()).is_ok();
    assert!(!is_there(&trees[0].1), "its session is gone");
    assert!(is_there(&trees[1].1));
    assert!(!home.engine().prune_snapshots(&workspace, &snapshots, now_ms).unwrap(), "once a day is enough");
}

/// A tool that panics before it runs.
struct Broken;

#[async_trait]
impl Tool for Broken {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "broken".into(), description: "Breaks.".into(), schema, effects: Effects::READ }
    }

    fn plan(&self, _input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        panic!("no plan")
    }

    fn canonical(&self, _input: Value) -> Value {
        panic!("no names")
    }

    async fn run(&self, _input: Value, _cx: &ToolContext) -> Outcome {
        Outcome::ok("it ran")
    }
}

#[tokio::test]
async fn a_tool_that_panics_while_it_plans_has_failed_and_the_session_goes_on() {
    let home = Home::new();
    let mut settings = cassette(&[call("broken", &json!({"a": 1})), says("I see")]);
    settings.tools = ToolSet::builtin().with(Arc::new(Broken));
    let session = home.create(settings).await;
    assert_eq!(session.prompt("break it").await.unwrap().end, TurnEnd::Completed);
    let records = session.records().await.unwrap();
    let outcome = records.iter().find_map(|record| match &record.event {
        Event::CallSettled { outcome, .. } => Some(outcome.text.clone()),
        _ => None,
    });
    assert_eq!(outcome.unwrap(), "The tool failed inside Piton: it panicked; this is a bug.");
}

#[tokio::test]
async fn who_leaves_when_answered_leaves_where_the_last_prompt_is_refused() {
    let home = Home::new();
    let session = home.create(cassette(&[says("hello")])).await;
    let mut heard = session.subscribe(1);
    session.leave_when_answered();
    let large = Prompt::new("x".repeat(17 << 20));
    assert!(matches!(session.say(large).await, Err(EngineError::TooLarge { .. })));
    let left = async { while heard.next().await.unwrap() != Some(Published::Closed(Closed::Left)) {} };
    tokio::time::timeout(Duration::from_secs(60), left).await.expect("it leaves by itself");
}
