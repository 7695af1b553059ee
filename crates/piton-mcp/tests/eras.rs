//! Both eras of the protocol over stdio: which one a server speaks, and what only the modern one has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Place, call, python, server};
use piton_core::call::Status;
use piton_mcp::Era;
use piton_tools::servers::Servers as _;
use serde_json::{Value, json};

fn modern(place: &Place, args: &[&str]) -> piton_mcp::Entry {
    let file = place.file("tasks").display().to_string();
    let args: Vec<&str> = args.iter().copied().chain([file.as_str()]).collect();
    python("s", "modern.py", &args)
}

#[tokio::test]
async fn the_era_of_a_server_is_found_out_and_remembered() {
    let place = Place::new();
    for _ in 0..2 {
        let report = piton_mcp::test(modern(&place, &[]), place.surroundings()).await;
        assert_eq!((report.error, report.era), (None, Some(Era::Modern)));
        assert_eq!((report.version.as_str(), report.server.instructions.as_str()), ("2026-07-28", "be modern"));
        let names: Vec<&str> = report.server.tools.iter().map(|tool| tool.own_name.as_str()).collect();
        assert_eq!(names, ["asks", "long_task", "loops", "task", "works"]);
        assert!(report.server.problems[0].contains("the tool broken was left out"), "{:?}", report.server.problems);
    }
    let old = || python("old", "hostile.py", &["ignores_discover"]);
    for _ in 0..2 {
        let report = piton_mcp::test(old(), place.surroundings()).await;
        assert_eq!((report.error, report.era), (None, Some(Era::Legacy)));
        assert_eq!((report.version.as_str(), report.called.as_str()), ("2024-11-05", "old 0"));
    }
    let kept = std::fs::read_dir(place.file("mcp/manifests")).unwrap();
    let mut eras: Vec<Value> = kept
        .map(|file| {
            serde_json::from_slice::<Value>(&std::fs::read(file.unwrap().path()).unwrap()).unwrap()["era"].take()
        })
        .collect();
    eras.sort_by_key(Value::to_string);
    assert_eq!(eras, [json!("legacy"), json!("modern")]);
}

#[tokio::test]
async fn a_server_that_has_changed_its_era_is_asked_anew() {
    let place = Place::new();
    assert_eq!(piton_mcp::test(modern(&place, &[]), place.surroundings()).await.era, Some(Era::Modern));
    let mut other = python("s", "hostile.py", &["ignores_discover"]);
    other.start_timeout = std::time::Duration::from_secs(60);
    other.hash = modern(&place, &[]).hash;
    let entry = python("s", "hostile.py", &["large"]);
    let report = piton_mcp::test(entry, place.surroundings()).await;
    assert_eq!((report.error, report.era), (None, Some(Era::Legacy)), "it refuses what the manifest promised");
}

#[tokio::test]
async fn a_modern_server_that_starts_slowly_is_a_modern_one() {
    let place = Place::new();
    let report = piton_mcp::test(modern(&place, &["slow"]), place.surroundings()).await;
    assert_eq!((report.error, report.era), (None, Some(Era::Modern)));
}

#[tokio::test]
async fn what_an_answer_asks_for_is_given_and_its_state_comes_back_untouched() {
    let place = Place::new();
    let client = place.client([modern(&place, &[])]);
    let outcome = place.call(&client, "s", "asks", "").await;
    let said: Value = serde_json::from_str(&outcome.text).unwrap();
    let expected = json!(["opaque é \"state\"", {"action": "accept", "content": {"name": "Ada"}}, 1]);
    assert_eq!(said, expected, "{outcome:?}");
    let endless = place.call(&client, "s", "loops", "").await;
    assert_eq!(endless.status, Status::Failed, "{endless:?}");
    assert_eq!(place.call(&client, "s", "works", "").await.text, "it works");
    client.close().await;
}

#[tokio::test]
async fn a_task_is_recorded_before_it_is_looked_at_and_waited_for() {
    let place = Place::new();
    let client = place.client([modern(&place, &[])]);
    let outcome = place.call(&client, "s", "task", "").await;
    assert_eq!((outcome.status, outcome.text.as_str()), (Status::Ok, "done for Ada"));
    let handles = place.person.tasks.lock().unwrap().clone();
    assert_eq!(handles, [json!({"server": "s", "tool": "task", "task": "t1", "poll_ms": 100})]);
    assert!(place.said.lock().unwrap().contains("look 1\n"));
    client.close().await;

    // Another process goes on with what this one has recorded.
    let client = place.client([modern(&place, &[])]);
    let outcome = client.resume_task("s", handles[0].clone(), place.context()).await;
    assert_eq!((outcome.status, outcome.text.as_str()), (Status::Ok, "done for Ada"));
    let gone = json!({"server": "s", "tool": "task", "task": "unknown"});
    let outcome = client.resume_task("s", gone, place.context()).await;
    assert!(outcome.status == Status::Failed && outcome.text.contains("no such task"), "{outcome:?}");
    client.close().await;
}

#[tokio::test]
async fn a_task_outlives_the_connection_that_it_began_on() {
    let place = Place::new();
    let client = place.client([modern(&place, &[])]);
    let outcome = place.call(&client, "s", "task", "die").await;
    assert_eq!((outcome.status, outcome.text.as_str()), (Status::Ok, "done for Ada"));
    client.close().await;
}

#[tokio::test]
async fn a_task_that_is_stopped_is_told_to_the_server() {
    let place = Place::new();
    let client = place.client([modern(&place, &[])]);
    let context = place.context();
    let (cancel, person) = (context.cancel.clone(), place.person.clone());
    let stop = async {
        while person.tasks.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(client.call(call("s", "task", ""), context), stop);
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(common::written(&place.file("tasks.cancelled")).await, "t1");
    assert_eq!(server(&client, "s").name, "s");
    client.close().await;
}
