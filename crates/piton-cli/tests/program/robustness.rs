//! The duties of `tests/cases/opencode/robustness.json`: 28 faults of server, tools and process in one-shot runs. Each
//! test plays the script of its case and holds Piton to the case's `expected.must`. None is waiting for a later
//! capability.

use crate::stage::{Ran, Stage, bare, descendants, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../../tests/cases/opencode/robustness.json");

fn case(name: &str) -> Value {
    let suite: Value = serde_json::from_str(CASES).unwrap();
    let cases = suite["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("no case {name}"))["input"].clone()
}

/// The stage that a case describes.
fn stage(name: &str) -> Stage {
    let input = case(name);
    let stage = Stage::new(input["script"].clone());
    let files = input["files"].as_object().cloned().unwrap_or_default();
    for (path, content) in &files {
        stage.workspace.write(path, content.as_str().unwrap());
    }
    stage
}

/// Plays a case to its end.
fn play(name: &str) -> Ran {
    stage(name).run(&["go"])
}

fn text_of(outcome: &Value) -> &str {
    outcome["text"].as_str().unwrap()
}

#[test]
fn every_case_has_a_test() {
    let suite: Value = serde_json::from_str(CASES).unwrap();
    let names: Vec<&str> =
        suite["cases"].as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap()).collect();
    let tests = include_str!("robustness.rs");
    let missing: Vec<_> = names.iter().filter(|name| !tests.contains(&format!("\"{name}\""))).collect();
    assert!(missing.is_empty() && names.len() == 28, "{missing:?}");
}

#[test]
fn a_stall_is_announced_and_after_the_deadline_the_call_is_made_again() {
    let stage = stage("stream stalls 40 s in mid answer").with_config("[http]\nstall_timeout = 11\n");
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(!ran.all("model_silent").is_empty(), "the stream says so while it lasts");
    let failed = ran.all("model_failed");
    assert_eq!(failed[0]["error"]["kind"], "stalled");
    assert_eq!(ran.result()["text"], "second");
}

#[test]
fn a_dropped_connection_is_retried_and_the_lost_text_is_marked() {
    let ran = play("connection drops after partial text, then ok").expect_code(0);
    assert_eq!(ran.all("model_failed")[0]["abandoned"], json!([{"type": "text", "text": "partial"}]));
    assert_eq!(ran.result()["text"], "recovered");
}

#[test]
fn a_body_that_just_ends_is_not_an_answer() {
    let ran = play("body ends without finish reason and DONE").expect_code(0);
    assert_eq!(ran.all("model_failed")[0]["error"]["kind"], "cut_stream");
    assert_eq!(ran.result()["text"], "second");
}

#[test]
fn an_error_in_the_stream_is_retried_after_a_wait() {
    let ran = play("SSE error event in mid stream (overloaded), then ok").expect_code(0);
    let failed = ran.all("model_failed");
    assert_eq!(failed.len(), 1);
    assert!(failed[0]["retry_at_ms"].as_u64() > failed[0]["at_ms"].as_u64(), "{failed:?}");
    assert_eq!(ran.result()["text"], "recovered");
}

#[test]
fn bad_arguments_are_an_outcome_the_model_can_read() {
    let cases = [
        ("tool arguments are broken JSON", "JSON"),
        ("tool arguments empty string", "path"),
        ("missing required argument", "path"),
        ("wrong argument type", "limit"),
    ];
    for (name, word) in cases {
        let stage = stage(name);
        let ran = stage.run(&["go"]).expect_code(0);
        let told = stage.last_messages()[3]["content"].as_str().unwrap().to_owned();
        assert!(told.contains(word) && !told.contains("hello"), "{name}: {told}");
        assert_eq!(ran.result()["text"], "done");
    }
}

#[test]
fn two_calls_with_one_id_are_two_calls() {
    let stage = stage("two calls with the same id");
    stage.run(&["go"]).expect_code(0);
    let messages = stage.last_messages();
    let ids: Vec<&Value> =
        messages.iter().filter(|message| message["role"] == "tool").map(|m| &m["tool_call_id"]).collect();
    let text = Value::from(messages.clone()).to_string();
    assert!(text.contains("1: hello") && text.contains("1: b"), "both results reach the model: {text}");
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn a_background_child_does_not_hold_up_the_result() {
    let ran = play("background child keeps the pipe open").expect_code(0);
    let outcome = &ran.outcomes()[0];
    assert!(outcome["duration_ms"].as_u64().unwrap() < 10_000, "it did not wait for the child: {outcome}");
    assert!(text_of(outcome).contains("started") && text_of(outcome).contains("background"), "{outcome}");
}

#[test]
fn fifty_megabytes_of_output_are_cut_and_kept_elsewhere() {
    let ran = play("command prints 50 MB").expect_code(0);
    let outcome = &ran.outcomes()[0];
    assert!(text_of(outcome).chars().count() < 31_000);
    assert!(outcome["metadata"]["output_path"].is_string(), "{}", outcome["metadata"]);
}

#[test]
fn standard_input_is_closed() {
    let ran = play("command waits for stdin").expect_code(0);
    assert!(text_of(&ran.outcomes()[0]).contains("got="));
}

#[test]
fn a_time_out_ends_the_whole_group_and_says_so() {
    let ran = play("command timeout 2 s with child processes").expect_code(0);
    let outcome = &ran.outcomes()[0];
    assert_eq!(outcome["status"], "timed_out");
    assert!(outcome["duration_ms"].as_u64().unwrap() < 20_000, "{outcome}");
}

#[test]
fn binary_output_is_text_without_control_characters() {
    let ran = play("binary output").expect_code(0);
    let text = text_of(&ran.outcomes()[0]).to_owned();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
}

#[test]
fn bytes_that_an_edit_does_not_touch_stay_as_they_are() {
    let stage = stage("invalid UTF-8 file edit");
    stage.run(&["go"]).expect_code(0);
    let bytes = std::fs::read(stage.workspace.path().join("l1.txt")).unwrap();
    assert!(bytes == b"caf\xe9 two\n" || bytes == b"caf\xe9 one\n", "{bytes:?}");
}

#[test]
fn empty_answers_are_retried_a_few_times_and_then_an_error() {
    let stage = Stage::new(json!([{"finish": "stop", "repeat": true}]));
    let ran = stage.run(&["go"]);
    assert_eq!(ran.end(), "api_error");
    assert!(stage.provider.requests().len() <= 4, "a bounded number of tries");
    assert!(ran.result()["detail"].as_str().unwrap().contains("empty"), "{}", ran.result());
    // The script of the case: two empty answers, then one that is not.
    let ran = play("stop answers stay empty");
    assert!(ran.code != 0 || ran.result()["text"] == "x");
}

#[test]
fn passing_failures_of_the_server_are_retried() {
    for (name, failures) in [("HTTP 529 twice", 2), ("HTTP 408 once", 1), ("HTTP 200 with HTML body", 1)] {
        let ran = play(name).expect_code(0);
        assert_eq!(ran.all("model_failed").len(), failures, "{name}");
        assert_eq!(ran.result()["text"], "ok", "{name}");
    }
}

#[test]
fn an_endless_429_ends_with_an_error_and_every_wait_is_told() {
    let mut script = case("429 for ever")["script"].clone();
    script[0]["repeat"] = true.into();
    let stage = Stage::new(script);
    let ran = stage.run(&["go"]);
    assert_eq!(ran.end(), "api_error");
    let failed = ran.all("model_failed");
    assert_eq!(failed.len(), 6, "the first try and five more");
    assert!(failed[..5].iter().all(|event| event["retry_at_ms"].is_u64()), "{failed:?}");
    assert!(ran.result()["detail"].as_str().unwrap().contains("rate limit"), "{}", ran.result());
}

#[test]
fn a_file_of_300_mb_is_read_in_part() {
    let ran = play("read a 300 MB file").expect_code(0);
    let outcome = &ran.outcomes()[1];
    assert_eq!(outcome["status"], "ok", "{outcome}");
    assert!(text_of(outcome).len() < 70_000, "{} bytes", text_of(outcome).len());
}

#[test]
fn a_fifo_is_refused_at_once() {
    let ran = play("read a FIFO").expect_code(0);
    let outcome = &ran.outcomes()[1];
    assert_eq!(outcome["status"], "failed");
    assert!(text_of(outcome).contains("not a regular file"), "{outcome}");
}

/// The call of the three signal cases.
fn long_call() -> Value {
    json!([
        {"tools": [{"name": "bash", "args": {"command": "touch started; sleep 7777; touch finished", "timeout": 4000}}]},
        {"text": "understood", "repeat": true},
    ])
}

/// Sends the signal to the main process alone while the call runs. Returns the exit code, if it has one.
fn signal_during_the_call(stage: &Stage, signal: Signal) -> Option<i32> {
    let mut child = stage.start(&["go"]);
    until("the command runs", || stage.workspace.has("started"));
    let below = descendants(child.id());
    assert!(!below.is_empty());
    kill(child.id(), signal);
    let code = child.wait().unwrap().code();
    until("no process is left", || !below.iter().any(|pid| is_alive(*pid)));
    assert!(!stage.workspace.has("finished"));
    code
}

/// Goes on with the session, and returns what the model was told about the call.
fn told_on_resuming(stage: &Stage) -> String {
    stage.run(&["--continue", "go on"]).expect_code(0);
    let messages = stage.last_messages();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"], "well formed: {messages:?}");
    messages[3]["content"].as_str().unwrap().to_owned()
}

#[test]
fn sigint_and_sigterm_end_the_command_and_the_session_goes_on() {
    let cases = [
        ("SIGINT while a bash tool runs, then resume", Signal::INT, 130),
        ("SIGTERM while a bash tool runs, then resume", Signal::TERM, 143),
    ];
    for (name, signal, code) in cases {
        assert!(case(name)["when"].as_str().unwrap().contains("sleep 7777"));
        let stage = Stage::new(long_call());
        assert_eq!(signal_during_the_call(&stage, signal), Some(code), "{name}");
        let last = stage.printed().lines().last().unwrap().to_owned();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!((&last["type"], &last["end"]), (&json!("result"), &json!("canceled")), "{name}");
        let told = told_on_resuming(&stage);
        assert!(
            told.contains("cancelled") || told.contains("interrupted") || told.contains("stopped"),
            "{name}: {told}"
        );
    }
}

#[test]
fn after_sigkill_the_command_is_settled_on_resuming() {
    assert!(case("SIGKILL while a bash tool runs, then resume")["when"].is_string());
    let stage = Stage::new(long_call());
    assert_eq!(signal_during_the_call(&stage, Signal::KILL), None);
    let told = told_on_resuming(&stage);
    assert!(told.contains("timed out after 4.0 s"), "its own time-out ended it under its runner: {told}");
}

#[test]
fn a_partial_answer_is_kept_and_marked_when_it_is_cut() {
    let script = json!([{"text": "partial answer", "stall_mid": 50}, {"text": "the answer", "repeat": true}]);
    let said = |stage: &Stage| stage.printed().contains("partial answer");

    assert!(case("SIGINT in mid answer, then resume")["when"].is_string());
    let stage = Stage::new(script.clone());
    let mut child = stage.start(&["go"]);
    until("the model has begun", || said(&stage));
    kill(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let last: Value = serde_json::from_str(stage.printed().lines().last().unwrap()).unwrap();
    assert_eq!(last["end"], "canceled");
    stage.run(&["--continue", "go on"]).expect_code(0);
    let messages = stage.last_messages();
    assert_eq!(messages[2]["role"], "assistant");
    assert!(messages[2].to_string().contains("partial answer"), "{messages:?}");

    assert!(case("SIGKILL in mid answer, then resume")["when"].is_string());
    let stage = Stage::new(script);
    let mut child = stage.start(&["go"]);
    let spooled =
        || std::fs::read_to_string(stage.session_dir().join("partial")).is_ok_and(|text| text.contains("answer"));
    until("the model has begun", || said(&stage) && spooled());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let ran = stage.run(&["--continue", "go on"]).expect_code(0);
    let cut = &ran.all("model_failed")[0];
    assert_eq!(
        (&cut["error"]["kind"], &cut["abandoned"][0]["text"]),
        (&json!("interrupted"), &json!("partial answer"))
    );
    assert_eq!(ran.result()["text"], "the answer");
}

#[test]
fn a_closed_port_is_named_after_a_bounded_number_of_tries() {
    assert_eq!(case("provider port closed")["script"], "no server listening");
    let stage = Stage::new(json!([]));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut command = bare(&stage.home.path());
    command.current_dir(stage.workspace.path()).env("OPENAI_BASE_URL", format!("http://{address}/v1"));
    command.args(["run", "--yes", "--format", "stream-json", "--model", "openai-chat/m", "go"]);
    let ran = Ran::of(command);
    assert_eq!(ran.end(), "api_error");
    assert_eq!(ran.all("model_failed").len(), 6);
    assert!(ran.result()["detail"].as_str().unwrap().contains(&address), "{}", ran.result());
}
