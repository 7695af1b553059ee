//! Taking back what was said and no step has read.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::{Home, call, cassette, says, with_gate};
use async_trait::async_trait;
use piton_core::client::{Prompt, Reply, Request, Unqueued, When};
use piton_core::event::{Delivery, Event, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use piton_core::message::Part;
use piton_core::story::{Body, Story};
use piton_core::turn::State;
use piton_engine::engine::{EngineError, Handle, UnqueueError};
use piton_engine::hooks::{Hook, HookContext, HookResult, Points, PromptChange};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

fn prompt(id: &str, delivery: When) -> Prompt {
    Prompt { message: Some(MessageId::from(id)), delivery, ..Prompt::new(format!("words of {id}")) }
}

/// Of each message taken back its id, words and delivery.
fn told(taken: &[Unqueued]) -> Vec<(&str, Vec<Part>, Delivery)> {
    taken.iter().map(|one| (one.message.as_str(), one.parts.clone(), one.delivery)).collect()
}

fn words(id: &str) -> Vec<Part> {
    vec![Part::text(format!("words of {id}"))]
}

async fn refusal(session: &Handle, id: &str) -> EngineError {
    session.unqueue(Some(MessageId::from(id))).await.unwrap_err()
}

/// What users said, as the story has it: the words and whether they wait.
async fn users(session: &Handle) -> Vec<(String, bool)> {
    let story = Story::of(&session.records().await.unwrap());
    let said = story.blocks().filter_map(|block| match &block.body {
        Body::User { text, waiting, .. } => Some((text.clone(), *waiting)),
        _ => None,
    });
    said.collect()
}

#[tokio::test]
async fn a_message_that_waits_comes_back_with_its_words_and_whoever_waits_for_its_answer_is_told() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("done"), says("more")]));
    let session = home.create(settings).await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    let later = session.say(Prompt { wait: true, ..prompt("later", When::FollowUp) }).await.unwrap();
    session.say(prompt("steer", When::Steer)).await.unwrap();
    // As another process does it.
    let there = home.engine().join(session.id()).await.unwrap().unwrap();
    let taken = there.unqueue(Some(MessageId::from("later"))).await.unwrap();
    assert_eq!(told(&taken), [("later", words("later"), Delivery::FollowUp)]);
    let records = session.records().await.unwrap();
    let at = taken[0].seq.unwrap();
    assert_eq!(records[at as usize - 1].event, Event::MessageUnqueued { message: MessageId::from("later") });
    assert!(matches!(later.ended().await, Err(EngineError::TakenBack)));
    assert!(matches!(refusal(&session, "later").await, EngineError::Unqueue(UnqueueError::TakenBack)));
    assert!(matches!(refusal(&session, "never").await, EngineError::Unqueue(UnqueueError::Unknown)));
    let elsewhere = there.unqueue(Some(MessageId::from("never"))).await.unwrap_err();
    assert_eq!(elsewhere.to_string(), UnqueueError::Unknown.to_string());
    assert!(
        matches!(session.say(prompt("later", When::Steer)).await, Err(EngineError::TakenBack)),
        "it is not heard twice"
    );
    assert_eq!(users(&session).await, [("go".to_owned(), false), ("words of steer".to_owned(), true)]);
    gate.go.notify_one();
    assert_eq!(&*first.await.unwrap().unwrap().text, "done");
    assert!(matches!(refusal(&session, "steer").await, EngineError::Unqueue(UnqueueError::Read)));
    session.close().await;
}

#[tokio::test]
async fn a_cancel_and_the_queue_behind_it_leave_nothing_that_waits() {
    let home = Home::new();
    let (settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("after")]));
    let session = home.create(settings).await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    session.say(prompt("one", When::Steer)).await.unwrap();
    session.say(prompt("two", When::FollowUp)).await.unwrap();
    let (stopped, taken) = (session.cancel(), session.unqueue(None));
    assert_eq!(
        told(&taken.await.unwrap()),
        [("one", words("one"), Delivery::Steer), ("two", words("two"), Delivery::FollowUp)]
    );
    assert_eq!(stopped.await.unwrap().unwrap().end, TurnEnd::Canceled);
    assert_eq!(first.await.unwrap().unwrap().end, TurnEnd::Canceled);
    assert_eq!(session.unqueue(None).await.unwrap(), [], "nothing waits");
    let Reply::Seen(now) = session.ask(Request::Look {}).next().await.unwrap() else { panic!("another answer") };
    assert_eq!((now.queue.len(), now.phase), (0, piton_core::client::Stage::AtRest));
    assert_eq!(&*session.prompt("again").await.unwrap().text, "after");
    let story = Story::of(&session.records().await.unwrap());
    assert!(!story.session().busy);
    assert_eq!(users(&session).await, [("go".to_owned(), false), ("again".to_owned(), false)]);
}

#[tokio::test]
async fn of_a_paused_session_that_has_nothing_else_to_do_nobody_waits_for_a_turn() {
    let home = Home::new();
    let session = home.create(cassette(&[says("later")])).await;
    session.pause().await.unwrap();
    session.say(prompt("one", When::Steer)).await.unwrap();
    let mut turn = session.ask(Request::GoOn {});
    session.unqueue(Some(MessageId::from("one"))).await.unwrap();
    assert!(matches!(turn.next().await, Err(EngineError::AtRest)));
    session.unpause().await.unwrap();
    assert_eq!(session.prompt("now").await.unwrap().turn, 1);
}

/// Looks at prompts that say "wait" for ever.
struct Slow {
    here: Notify,
}

#[async_trait]
impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::Prompt])
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        if text.contains("wait") {
            self.here.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(PromptChange::default())
    }
}

#[tokio::test]
async fn a_prompt_that_hooks_look_at_comes_back_and_those_behind_it_move_up() {
    let home = Home::new();
    let slow = Arc::new(Slow { here: Notify::new() });
    let mut settings = cassette(&[says("done")]);
    settings.hooks = vec![slow.clone()];
    let session = home.create(settings).await;
    let mut waiting = session.ask(Request::Prompt(Prompt { text: "wait".to_owned(), ..prompt("one", When::Steer) }));
    slow.here.notified().await;
    let mut behind = session.ask(Request::Prompt(Prompt { wait: true, ..prompt("two", When::Steer) }));
    let taken = session.unqueue(Some(MessageId::from("one"))).await.unwrap();
    assert_eq!((told(&taken), taken[0].seq), (vec![("one", vec![Part::text("wait")], Delivery::Steer)], None));
    assert!(matches!(waiting.next().await, Err(EngineError::TakenBack)));
    assert!(matches!(behind.next().await.unwrap(), Reply::Accepted(_)));
    let Reply::Ended { report, .. } = behind.next().await.unwrap() else { panic!("another answer") };
    assert_eq!(&*report.text, "done");
    assert_eq!(users(&session).await, [("words of two".to_owned(), false)]);
}

/// Lets prompts wait until told, and refuses those that say "bad".
struct Strict {
    here: Notify,
    go: Notify,
}

#[async_trait]
impl Hook for Strict {
    fn name(&self) -> &str {
        "strict"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::Prompt])
    }

    async fn on_prompt(&self, _: &HookContext, text: &str) -> HookResult<PromptChange> {
        if text.contains("instead") {
            self.here.notify_one();
            self.go.notified().await;
        }
        let refuse = text.contains("bad").then(|| "it is bad".to_owned());
        Ok(PromptChange { refuse, ..PromptChange::default() })
    }
}

#[tokio::test]
async fn a_message_is_replaced_when_hooks_have_let_in_what_replaces_it() {
    let home = Home::new();
    let strict = Arc::new(Strict { here: Notify::new(), go: Notify::new() });
    let (mut settings, gate) = with_gate(cassette(&[call("gate", &json!({})), says("done"), says("more")]));
    settings.hooks = vec![strict.clone()];
    let session = home.create(settings).await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    gate.began.notified().await;
    session.say(prompt("one", When::Steer)).await.unwrap();
    session.say(prompt("two", When::Steer)).await.unwrap();
    let instead = |id: &str, of: &str, text: &str| {
        let replaces = Some(MessageId::from(of));
        session.ask(Request::Prompt(Prompt { replaces, text: text.to_owned(), ..prompt(id, When::Steer) }))
    };
    let waiting = async || -> Vec<String> {
        users(&session).await.into_iter().filter(|(_, waits)| *waits).map(|(text, _)| text).collect()
    };

    let mut bad = instead("three", "one", "bad instead");
    strict.here.notified().await;
    assert_eq!(waiting().await, ["words of one", "words of two"], "it stands until it is replaced");
    strict.go.notify_one();
    assert!(matches!(bad.next().await, Err(EngineError::PromptRefused { .. })));
    assert_eq!(waiting().await, ["words of one", "words of two"]);

    let mut good = instead("four", "one", "good instead");
    strict.here.notified().await;
    strict.go.notify_one();
    assert!(matches!(good.next().await.unwrap(), Reply::Accepted(_)));
    let Reply::Seen(now) = session.ask(Request::Look {}).next().await.unwrap() else { panic!("another answer") };
    let queue: Vec<&str> = now.queue.iter().map(MessageId::as_str).collect();
    assert_eq!(queue, ["four", "two"], "in its place");

    let mut late = instead("five", "two", "late instead");
    strict.here.notified().await;
    gate.go.notify_one();
    first.await.unwrap().unwrap();
    strict.go.notify_one();
    assert!(matches!(late.next().await, Err(EngineError::Unqueue(UnqueueError::Read))));
    let said: Vec<String> = users(&session).await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(said.iter().filter(|text| text.contains("late") || text.contains("bad")).count(), 0, "{said:?}");
    session.close().await;
}

#[tokio::test]
async fn what_replaces_the_first_message_tells_the_model_of_the_folder() {
    let home = Home::new();
    let mut settings = cassette(&[says("done")]);
    settings.environment_note = Some("Working folder: here".into());
    let session = home.create(settings).await;
    session.pause().await.unwrap();
    for id in ["one", "two"] {
        session.say(prompt(id, When::FollowUp)).await.unwrap();
    }
    let replaces = Some(MessageId::from("one"));
    session.say(Prompt { replaces, ..prompt("three", When::FollowUp) }).await.unwrap();
    let folded = State::fold(&session.records().await.unwrap());
    let waiting: Vec<String> = folded.waiting().map(|(message, _)| format!("{:?}", message.parts)).collect();
    let [three, two] = &waiting[..] else { panic!("{waiting:?}") };
    assert!(three.contains("words of three") && three.contains("Working folder: here"), "{three}");
    assert!(two.contains("words of two") && !two.contains("Working folder"), "{two}");
    session.close().await;
}
