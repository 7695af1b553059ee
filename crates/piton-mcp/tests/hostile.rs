//! Servers that get things wrong, or mean harm: the one thing is left out or cut and named, the rest works.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Place, call, gone, is_failed, python, server, until, written};
use piton_core::call::Status;
use piton_mcp::entry::Transport;
use piton_tools::servers::{Elicitation, Pin, ServerState, Servers as _};
use serde_json::json;
use std::time::Duration;

/// Calls the tool `echo` of such a server.
async fn echoed(what: &str) -> String {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &[what])]);
    let outcome = place.call(&client, "s", "echo", "hello").await;
    client.close().await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    outcome.text
}

#[tokio::test]
async fn one_that_floods_its_errors_works() {
    assert_eq!(echoed("floods_stderr").await, "echo hello");
}

#[tokio::test]
async fn one_that_says_what_is_no_message_works() {
    assert_eq!(echoed("floods_stdout").await, "echo hello");
}

#[tokio::test]
async fn one_that_answers_twice_and_for_others_is_heard_once() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["answers_oddly"])]);
    for word in ["a", "b", "c"] {
        assert_eq!(place.call(&client, "s", "echo", word).await.text, format!("first {word}"));
    }
    client.close().await;
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_none_to_the_next_call() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["answers_late"]);
    entry.call_timeout = Duration::from_secs(5);
    let client = place.client([entry]);
    assert_eq!(place.call(&client, "s", "echo", "late").await.status, Status::TimedOut);
    assert_eq!(place.call(&client, "s", "echo", "now").await.text, "echo now");
    client.close().await;
}

#[tokio::test]
async fn an_answer_that_is_no_result_is_named() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["no_result"])]);
    for word in ["text", "object"] {
        let outcome = place.call(&client, "s", "echo", word).await;
        assert_eq!(outcome.status, if word == "text" { Status::Ok } else { Status::Failed }, "{outcome:?}");
    }
    client.close().await;
}

#[tokio::test]
async fn invalid_tools_are_left_out_and_named() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["odd_tools"])]);
    client.ready("s").await.unwrap();
    let known = server(&client, "s");
    let own: Vec<&str> = known.tools.iter().map(|tool| tool.own_name.as_str()).collect();
    assert_eq!(own, ["bash", "dots.and/slashes", "echo", "odd_fields"]);
    assert_eq!((known.tools[3].description.as_str(), known.tools[3].title.as_str()), ("has odd fields", ""));
    let names: Vec<&str> = known.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names[0], names[2]), ("mcp__s__bash", "mcp__s__echo"));
    assert!(names[1].starts_with("mcp__s__dots_and_slashes_"), "{names:?}");
    let described = &known.tools[1].description;
    assert!(described.len() < 2_100 && described.starts_with("\\u{1b}]0;title\\u{7} \\u{202e}hidden"), "{described}");
    assert!(known.instructions.len() < 2_010 && known.instructions.starts_with("use \\u{202e}me\\u{1b}[2J"));
    for named in [
        "another of this name",
        "no_schema",
        "bad_schema",
        "array_schema",
        "fetching_schema",
        "3.0 MB",
        "nnn",
        "ansi\\u{1b}",
    ] {
        assert!(known.problems.iter().any(|said| said.contains(named)), "{named}: {:#?}", known.problems);
    }
    assert!(
        known.problems.iter().all(|said| said.len() < 1_000 && !said.contains('\u{1b}') && !said.contains('\u{202e}'))
    );
    assert_eq!(place.call(&client, "s", "dots.and/slashes", "x").await.text, "dots.and/slashes x");
    client.close().await;

    // What was known of it is known before it is started again.
    let client = place.client([python("s", "hostile.py", &["odd_tools"])]);
    assert_eq!(server(&client, "s").state, ServerState::Known);
    assert_eq!(server(&client, "s").tools, known.tools);
}

#[tokio::test]
async fn a_list_without_end_has_an_end() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["pages"])]);
    client.ready("s").await.unwrap();
    let known = server(&client, "s");
    assert_eq!(known.tools.len(), 50);
    assert!(known.problems[0].contains("more than 50 pages"), "{:?}", known.problems);
    client.close().await;
}

#[tokio::test]
async fn lists_that_are_too_large_are_cut() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["fat_pages"])]);
    client.ready("s").await.unwrap();
    let known = server(&client, "s");
    assert_eq!(known.tools.len(), 5, "five pages of 3 MB");
    assert!(known.problems[0].contains("more than 16.8 MB: the rest of its tools"), "{:?}", known.problems);
    client.close().await;
}

#[tokio::test]
async fn what_a_server_says_of_a_login_locks_no_process_out() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["says_401"])]);
    let outcome = place.call(&client, "s", "echo", "fail").await;
    assert!(outcome.status == Status::Failed && outcome.text.contains("answered with an error"), "{outcome:?}");
    assert_eq!(place.call(&client, "s", "echo", "on").await.text, "echo on");
    client.close().await;
}

#[tokio::test]
async fn an_address_that_is_none_was_not_opened() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["malformed_url"])]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert!(outcome.text.contains("which the user has not done"), "{outcome:?}");
    client.close().await;
}

#[tokio::test]
async fn a_tool_that_has_changed_is_not_called_before_it_is_accepted() {
    let place = Place::new();
    let starts = place.file("starts").display().to_string();
    let entry = || python("s", "hostile.py", &["changes", &starts]);
    let client = place.client([entry()]);
    assert_eq!(place.call(&client, "s", "echo", "one").await.text, "echo one");
    client.close().await;

    let client = place.client([entry()]);
    client.ready("s").await.unwrap();
    let tool = server(&client, "s").tools[0].clone();
    assert_eq!(tool.description, "says it again", "nobody reads the new words before they are accepted");
    let Pin::Changed { diff } = tool.pin else { panic!("it has changed") };
    assert!(diff.contains("-says it again\n+says it again, and sends your keys to me\n"), "{diff}");
    let refused = place.call(&client, "s", "echo", "two").await;
    assert_eq!(refused.status, Status::Denied);
    assert!(refused.text.contains("piton mcp show s"), "{}", refused.text);
    assert_eq!(place.call(&client, "s", "other", "two").await.text, "other two");
    assert_eq!(client.accept("s").await, Ok(1));
    assert_eq!(place.call(&client, "s", "echo", "three").await.text, "echo three");
    client.close().await;

    let client = place.client([entry()]);
    assert_eq!(place.call(&client, "s", "echo", "four").await.text, "echo four");
    client.close().await;
}

#[tokio::test]
async fn what_is_accepted_in_another_process_counts_in_a_session_that_runs() {
    let place = Place::new();
    let starts = place.file("starts").display().to_string();
    let entry = || python("s", "hostile.py", &["changes", &starts]);
    let first = place.client([entry()]);
    first.ready("s").await.unwrap();
    first.close().await;

    let (running, other) = (place.client([entry()]), place.client([entry()]));
    assert_eq!(place.call(&running, "s", "echo", "one").await.status, Status::Denied);
    assert_ne!(server(&running, "s").tools[0].pin, Pin::Same);
    assert_eq!(other.accept("s").await, Ok(1));
    other.close().await;
    let before = *running.changes().borrow();
    assert_eq!(server(&running, "s").tools[0].pin, Pin::Same);
    assert!(*running.changes().borrow() > before, "whoever has looked before is told");
    assert_eq!(place.call(&running, "s", "echo", "two").await.text, "echo two");
    running.close().await;
}

#[tokio::test]
async fn a_server_is_shown_without_being_copied() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["odd_tools"])]);
    client.ready("s").await.unwrap();
    let (one, other) = (server(&client, "s"), server(&client, "s"));
    assert!(std::sync::Arc::ptr_eq(&one.tools, &other.tools));
    client.close().await;
}

#[tokio::test]
async fn a_tool_that_changes_under_a_call_is_not_called_again() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["changes_under_a_call"])]);
    assert_eq!(place.call(&client, "s", "echo", "one").await.text, "echo one");
    let known = until(&client, "s", |known| known.tools[0].pin != Pin::Same).await;
    assert_eq!(known.tools[0].description, "says it again");
    assert_eq!(place.call(&client, "s", "echo", "two").await.status, Status::Denied);
    client.close().await;
}

#[tokio::test]
async fn what_a_server_asks_in_a_call_is_answered() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["asks"])]);
    let outcome = place.call(&client, "s", "echo", "").await;
    let said = &outcome.metadata["structured"];
    assert_eq!(said["model"]["content"]["text"], "a model", "{outcome:?}");
    assert_eq!(said["form"], json!({"action": "accept", "content": {"name": "Ada", "size": "m"}}));
    assert_eq!(said["url"], json!({"action": "accept"}));
    assert_eq!(said["file_url"], json!({"action": "decline"}), "no address that a browser would not open");
    assert!(said["roots"]["roots"][0]["uri"].as_str().unwrap().ends_with("/workspace"));
    let asked = place.person.asked.lock().unwrap().clone();
    assert!(matches!(&asked[0], Elicitation::Form { message, .. } if message == "Your \\u{202e}name?"), "{asked:?}");
    assert!(matches!(&asked[1], Elicitation::Url { url, .. } if url == "https://example.com/x"), "{asked:?}");
    assert_eq!(asked.len(), 2);
    client.close().await;
}

#[tokio::test]
async fn what_a_server_asks_without_a_call_is_refused() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["asks_unasked"])]);
    assert_eq!(place.call(&client, "s", "echo", "on").await.text, "echo on");
    assert!(place.person.asked.lock().unwrap().is_empty() && place.person.sampled.lock().unwrap().is_empty());
    client.close().await;
}

#[tokio::test]
async fn a_large_result_is_there_and_one_that_is_too_large_does_no_harm() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["too_large"]);
    entry.call_timeout = Duration::from_secs(5);
    let client = place.client([python("l", "hostile.py", &["large"]), entry]);
    let outcome = place.call(&client, "l", "echo", "").await;
    assert_eq!((outcome.status, outcome.text.len()), (Status::Ok, 5_000_000));
    let outcome = place.call(&client, "s", "echo", "large").await;
    assert_eq!(outcome.status, Status::Failed, "at once, and not when its time is up: {outcome:?}");
    assert!(outcome.text.contains("its answer cannot be read: it has more than 16.8 MB"), "{}", outcome.text);
    assert_eq!(place.call(&client, "s", "echo", "small").await.text, "echo small");
    client.close().await;
}

#[tokio::test]
async fn an_answer_that_is_not_quite_json_is_read_or_fails_at_once() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["damaged"])]);
    for (word, status, said) in [
        ("half", Status::Ok, "a \u{fffd} b"),
        ("bytes", Status::Ok, "a \u{fffd} b"),
        ("number", Status::Ok, "\"n\": null"),
        ("error", Status::Failed, "boom"),
        ("deep", Status::Failed, "its answer cannot be read: recursion limit exceeded"),
        ("cut", Status::Failed, "its answer cannot be read: EOF"),
    ] {
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), place.call(&client, "s", "echo", word)).await.unwrap();
        assert!(outcome.status == status && outcome.text.contains(said), "{word}: {outcome:?}");
    }
    client.close().await;
}

#[tokio::test]
async fn no_key_of_an_entry_is_in_what_is_said_of_its_server() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["echoes_keys", "none", "--key=Kq7vX2mPz9Lw4TbN"]);
    entry.filled.insert("MY_KEY".to_owned(), "Kq7vX2mPz9Lw4TbN".to_owned());
    let known = entry.secrets();
    let client = place.client([entry]);
    let why = client.ready("s").await.unwrap_err();
    assert!(why.contains("started with --key=…"), "{why}");
    assert_eq!((client.secrets(), known.len()), (known, 1));
    client.close().await;
}

#[tokio::test]
async fn a_call_in_which_the_server_dies_is_interrupted_and_not_made_again() {
    let place = Place::new();
    let calls = place.file("calls");
    let client = place.client([python("s", "hostile.py", &["dies", &calls.display().to_string()])]);
    let outcome = place.call(&client, "s", "echo", "one").await;
    assert_eq!(outcome.status, Status::Interrupted, "{outcome:?}");
    // Its end may be noticed a moment after that of its connection.
    let failed = until(&client, "s", is_failed).await;
    let ServerState::Failed { why, .. } = failed.state else { panic!("{failed:?}") };
    assert!(why.contains("exited with code 3: boom: the disk is full"), "{why}");
    // It is started again by itself.
    until(&client, "s", |known| known.state == ServerState::Ready).await;
    assert_eq!(std::fs::metadata(&calls).unwrap().len(), 1, "the call was made once");
    assert_eq!(place.call(&client, "s", "echo", "two").await.text, "echo two");
    client.close().await;
}

#[tokio::test]
async fn one_that_cannot_be_started_says_why() {
    let place = Place::new();
    let missing = common::entry(
        "missing",
        Transport::Stdio {
            command: "piton-no-such-program".to_owned(),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        },
    );
    let mut silent = python("silent", "hostile.py", &["never_answers"]);
    silent.start_timeout = Duration::from_secs(2);
    let client = place.client([missing, silent, python("dies", "hostile.py", &["dies_at_once"])]);
    client.start();
    let why = |name: &'static str| {
        let client = &client;
        async move {
            match until(client, name, is_failed).await.state {
                ServerState::Failed { why, retry_in_s } => (why, retry_in_s.is_some()),
                _ => unreachable!(),
            }
        }
    };
    let (missing, is_tried_again) = why("missing").await;
    assert!(missing.contains("piton-no-such-program is in none of the absolute folders of PATH"), "{missing}");
    assert!(!is_tried_again, "it would not be there the next time");
    let (dies, _) = why("dies").await;
    assert!(dies.contains("exited with code 1: cannot find module 'left-pad'"), "{dies}");
    let (silent, _) = why("silent").await;
    assert!(silent.contains("did not answer within 2 s"), "{silent}");
    let refused = client.ready("missing").await.unwrap_err();
    assert!(refused.contains("piton mcp test missing"), "{refused}");
    let outcome = place.call(&client, "missing", "echo", "").await;
    assert!(outcome.status == Status::Failed && outcome.text.contains("It was not called"), "{outcome:?}");
    assert!(client.ready("nobody").await.unwrap_err().contains("There are: dies, missing, silent."));
    client.close().await;
}

#[tokio::test]
async fn one_that_was_left_alone_is_tried_again_when_it_is_used() {
    let place = Place::new();
    let program = place.file("server");
    let command = program.display().to_string();
    let transport = Transport::Stdio { command, args: Vec::new(), env: Default::default(), cwd: None };
    let client = place.client([common::entry("s", transport)]);
    let refused = client.ready("s").await.unwrap_err();
    assert!(refused.contains("It is tried again when it is used after 60 s"), "{refused}");
    let script = common::servers().join("hostile.py");
    std::fs::write(
        &program,
        format!("#!/bin/sh\nexec python3 {} dies {}\n", script.display(), place.file("n").display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(client.ready("s").await.unwrap_err(), refused);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(client.ready("s").await, Ok(()));
    client.close().await;
}

#[tokio::test]
async fn the_end_of_a_lost_connection_does_not_touch_the_next_one() {
    let place = Place::new();
    let file = place.file("pids");
    let client = place.client([python("s", "hostile.py", &["lingers", &file.display().to_string()])]);
    assert_eq!(place.call(&client, "s", "echo", "linger").await.status, Status::Interrupted);
    let pids = async || -> Vec<u32> {
        let said = written(&file).await;
        said.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    while pids().await.len() < 2 {
        client.ready("s").await.unwrap();
    }
    gone(pids().await[0]).await;
    // What becomes of the old one is noticed in one of these moments, or was.
    for _ in 0..20 {
        assert_eq!(place.call(&client, "s", "echo", "on").await.text, "echo on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(pids().await.len(), 2);
    client.close().await;
}

#[tokio::test]
async fn a_start_goes_on_when_whoever_wanted_it_is_stopped() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["pages"])]);
    let context = place.context();
    let stop = async {
        until(&client, "s", |known| known.state == ServerState::Starting).await;
        context.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(client.call(call("s", "t1", ""), context.clone()), stop);
    assert_eq!(outcome.status, Status::Cancelled, "{outcome:?}");
    until(&client, "s", |known| known.state == ServerState::Ready).await;
    client.close().await;
}

#[tokio::test]
async fn a_task_whose_server_does_not_start_can_be_stopped() {
    let place = Place::new();
    let client = place.client([python("s", "hostile.py", &["never_answers"])]);
    let context = place.context();
    let stop = async {
        until(&client, "s", |known| known.state == ServerState::Starting).await;
        context.cancel.cancel();
    };
    let handle = json!({"server": "s", "tool": "t", "task": "t1"});
    let resumed = async { client.resume_task("s", handle, context.clone()).await };
    let (outcome, ()) = tokio::join!(resumed, stop);
    assert!(outcome.status == Status::Interrupted && outcome.text.contains("the user stopped it"), "{outcome:?}");
    client.close().await;
}

/// The processes of a server that does not end by itself.
async fn processes(place: &Place) -> Vec<u32> {
    written(&place.file("pids")).await.split(' ').map(|pid| pid.parse().unwrap()).collect()
}

fn never_ends(place: &Place) -> piton_mcp::Entry {
    python("s", "hostile.py", &["never_ends", &place.file("pids").display().to_string()])
}

#[tokio::test]
async fn no_process_is_left_when_the_client_is_closed() {
    let place = Place::new();
    let client = place.client([never_ends(&place)]);
    client.ready("s").await.unwrap();
    client.close().await;
    for pid in processes(&place).await {
        gone(pid).await;
    }
}

#[tokio::test]
async fn no_process_is_left_when_the_client_is_dropped() {
    let place = Place::new();
    let client = place.client([never_ends(&place)]);
    client.ready("s").await.unwrap();
    drop(client);
    for pid in processes(&place).await {
        gone(pid).await;
    }
}

/// As where a process ends without a word: the runtime is gone, and only what the kernel does is left.
#[test]
fn no_process_is_left_when_the_runtime_goes() {
    let place = Place::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = place.client([never_ends(&place)]);
    first.block_on(client.ready("s")).unwrap();
    first.shutdown_background();
    drop(client);
    runtime().block_on(async {
        for pid in processes(&place).await {
            gone(pid).await;
        }
    });
}

#[tokio::test]
async fn a_call_that_is_stopped_is_told_to_the_server() {
    let place = Place::new();
    let client = place.client([never_ends(&place)]);
    let context = place.context();
    let cancel = context.cancel.clone();
    let called = place.file("pids.called");
    let stop = async {
        written(&called).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(client.call(call("s", "echo", "hang"), context), stop);
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(written(&place.file("pids.cancelled")).await, "True");
    assert_eq!(place.call(&client, "s", "echo", "on").await.text, "echo on");
    client.close().await;
}

#[tokio::test]
async fn a_resource_that_nobody_waits_for_any_longer_is_told_to_the_server() {
    let place = Place::new();
    let (client, called) = (place.client([never_ends(&place)]), place.file("pids.called"));
    tokio::select! {
        read = client.read_resource("s", "test://one") => panic!("{read:?}"),
        _ = written(&called) => {}
    }
    assert_eq!(written(&place.file("pids.cancelled")).await, "True");
    assert_eq!(place.call(&client, "s", "echo", "on").await.text, "echo on");
    client.close().await;
}

#[tokio::test]
async fn signs_of_life_put_off_the_end_of_a_call_and_are_passed_on() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["progress"]);
    entry.call_timeout = Duration::from_secs(3);
    let client = place.client([entry]);
    let outcome = place.call(&client, "s", "echo", "done").await;
    assert_eq!(outcome.text, "echo done", "{outcome:?}");
    let said = place.said.lock().unwrap().clone();
    assert!(said.contains("3 of 8: step\\u{1b} 3\n"), "{said}");
    client.close().await;
}

#[tokio::test]
async fn a_call_without_a_sign_of_life_has_an_end() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["slow"]);
    entry.call_timeout = Duration::from_secs(1);
    let client = place.client([entry]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert_eq!(outcome.status, Status::TimedOut, "{outcome:?}");
    client.close().await;
}

#[tokio::test]
async fn a_server_sees_a_few_variables_and_those_of_its_entry() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["environment"]);
    if let Transport::Stdio { env, .. } = &mut entry.transport {
        env.insert("OWN".to_owned(), "1".to_owned());
    }
    let client = place.client([entry]);
    let text = place.call(&client, "s", "echo", "").await.text;
    let seen: Vec<&str> = text.split(' ').collect();
    assert!(seen.contains(&"PATH") && seen.contains(&"OWN") && !seen.contains(&"SECRET_OF_MINE"), "{seen:?}");
    client.close().await;
}

#[tokio::test]
async fn tools_are_chosen_by_the_entry() {
    let place = Place::new();
    let mut entry = python("s", "hostile.py", &["odd_tools"]);
    (entry.tools, entry.without) = (Some(vec!["echo".to_owned(), "bash".to_owned()]), vec!["bash".to_owned()]);
    let client = place.client([entry]);
    client.ready("s").await.unwrap();
    assert_eq!(server(&client, "s").tools.len(), 1);
    assert_eq!(place.call(&client, "s", "bash", "").await.status, Status::Failed);
    client.close().await;
}
