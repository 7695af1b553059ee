//! The trace of a session: as words, as JSON, and as OpenTelemetry spans that a collector is sent.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

/// A call that fails once, then a tool, then an answer.
fn stage() -> Stage {
    Stage::new(json!([
        {"status": 529, "error": "busy"},
        {"tools": [{"name": "bash", "args": {"command": "echo made > file; exit 3"}}]},
        {"text": "Done."},
    ]))
}

/// A collector on this machine: each request as headers and body.
fn collector(status: u16) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
            let (head, body) = loop {
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&seen).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .to_lowercase()
                    .split("content-length: ")
                    .nth(1)
                    .map_or(0, |rest| rest.split_whitespace().next().unwrap().parse::<usize>().unwrap());
                if body.len() >= length || read == 0 {
                    break (head.to_owned(), serde_json::from_str(body).unwrap_or_default());
                }
            };
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            stream.write_all(answer.as_bytes()).unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn spans(body: &Value) -> Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().unwrap();
    attributes.iter().find(|attribute| attribute["key"] == key).map_or(Value::Null, |found| found["value"].clone())
}

#[test]
fn each_step_says_what_went_in_what_came_of_it_and_why_it_went_on() {
    let stage = stage();
    stage.run(&["make it"]).expect_code(0);
    let text = Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0).stdout;
    for words in [
        "step 1 of turn 1",
        "new: system prompt with tools, 1 user message",
        "failed after",
        "overloaded",
        "; waited ",
        "attempt 2 replied in",
        "its first piece after",
        "(exit 3",
        "then     on: the model reads the results",
        "2 pieces as before, new: 1 reply, 1 result message",
        "then     the turn was over: completed",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = Ran::of(stage.piton(&["session", "trace", "last", "--json", "--step", "1"])).expect_code(0).stdout;
    let step: Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(step["asked"][0]["result"]["result"], "failed");
    assert!(step["asked"][1]["first_ms"].is_u64(), "{step}");
    assert_eq!(step["input"]["new"].as_array().unwrap().len(), 2, "{step}");
    assert_eq!(step["calls"][0]["status"], "failed");
    assert_eq!(step["next"], json!({"next": "step", "kind": "ordinary", "cause": "results"}));
    assert_eq!(step["trace"], "step");
    assert_eq!(step["input"]["new"][0]["kind"], "frame");
    assert!(
        step["input"]["new"][0]["hash"].is_string() && step["input"]["new"][0]["at_most_tokens"].is_u64(),
        "{step}"
    );
    Ran::of(stage.piton(&["session", "trace", "last", "--step", "7"])).expect_code(1).expect_said(&["has no step 7"]);
}

#[test]
fn a_session_is_drawn_as_lanes_of_time_as_its_context_and_as_what_the_cache_gave() {
    let stage = stage();
    stage.run(&["make it"]).expect_code(0);
    let shown = |args: &[&str]| Ran::of(stage.piton(args)).expect_code(0).stdout;
    let has = |text: &str, all: &[&str]| all.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
    has(
        &shown(&["session", "trace", "last", "--lanes"]),
        &[
            "turn 1 · ",
            "  model     ×",
            "  tools ",
            "▓",
            "step 1: before asking again",
            "bash echo made > file; exit 3 (exit 3",
        ],
    );
    has(
        &shown(&["session", "context", "last"]),
        &["15 tokens", "▣ system prompt", "◧ tools", "The largest results:", "bash echo made > file; exit 3"],
    );
    has(&shown(&["session", "cache", "last"]), &["turn 1\n", "step 1      0 %  ▒", "step 2      0 %  ▒", "  15\n"]);
}

#[test]
fn a_collector_is_sent_each_turn_as_spans_without_a_word_of_what_was_said() {
    let stage = stage();
    let (url, requests) = collector(200);
    let mut command = stage.run_command(&["a secret task"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b");
    command.env("OTEL_RESOURCE_ATTRIBUTES", "team=blue").env("OTEL_SERVICE_NAME", "agents");
    Ran::of(command).expect_code(0);
    let (head, body) = requests.recv().unwrap();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("x-key: a b"), "{head}");
    let resource = &body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), json!({"stringValue": "agents"}));
    assert_eq!(attribute(resource, "team"), json!({"stringValue": "blue"}));
    let spans = spans(&body);
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["invoke_agent piton", "chat test-model", "chat test-model", "execute_tool bash", "chat test-model"]
    );
    let root = &spans[0];
    assert!(spans.iter().skip(1).all(|span| span["parentSpanId"] == root["spanId"]), "{spans:?}");
    assert!(
        spans.iter().all(|span| span["traceId"] == root["traceId"] && span["traceId"].as_str().unwrap().len() == 32)
    );
    assert_eq!(attribute(&spans[1], "error.type"), json!({"stringValue": "overloaded"}));
    assert_eq!(attribute(&spans[3], "error.type"), json!({"stringValue": "failed"}));
    assert_eq!(
        attribute(&spans[2], "gen_ai.response.finish_reasons")["arrayValue"]["values"][0]["stringValue"],
        "tool_calls"
    );
    for span in &spans {
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }
    let all = body.to_string();
    assert!(!all.contains("secret task") && !all.contains("Done.") && !all.contains("echo made"), "{all}");
    // The same turn, sent by hand, is the same trace.
    let again = Ran::of(stage.piton(&["session", "trace", "last", "--otlp", "-"])).expect_code(0).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(self::spans(&again), spans);
}

#[test]
fn a_collector_that_fails_does_not_fail_the_run() {
    let stage = stage();
    let (url, requests) = collector(500);
    let mut command = stage.run_command(&["go"]);
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &url);
    Ran::of(command).expect_code(0).expect_said(&["the trace was not sent", "HTTP 500", "--otlp"]);
    drop(requests);
    let mut command = stage.piton(&["session", "trace", "last", "--otlp", "http://127.0.0.1:1/v1/traces"]);
    command.env("NO_PROXY", "*");
    Ran::of(command).expect_code(1);
}

#[test]
fn tools_do_not_see_the_collectors_key() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "env"}}]}, {"text": "Done."}]));
    let (url, _requests) = collector(200);
    let mut command = stage.run_command(&["go"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=seen");
    Ran::of(command).expect_code(0);
    let result = stage.last_messages().pop().unwrap().to_string();
    assert!(result.contains("PATH=") && !result.contains("OTEL_") && !result.contains("x-key"), "{result}");
}

#[test]
fn a_log_has_what_happened_and_bodies_only_where_they_are_asked_for() {
    let stage = stage();
    let log = stage.home.path().join("piton.log");
    let path = log.to_str().unwrap();
    stage.run(&["a task", "--log-file", path]).expect_code(0);
    let text = std::fs::read_to_string(&log).unwrap();
    let spans = "turn{turn=1}:step{step=1}:model_call{step=1 attempt=2}";
    for words in ["session{id=", spans, "tool=\"bash\"", "session_started", "turn_ended", "close time.busy"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("a task") && !text.contains("echo made"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&log).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let stage = Stage::new(json!([
        {"status": 529, "body": {"error": {"message": "too busy, sk-test-openai"}}},
        {"tools": [{"name": "bash", "args": {"command": "echo made > file; exit 3"}}]},
        {"text": "Done."},
    ]));
    let log = stage.home.path().join("piton.log");
    let path = log.to_str().unwrap();
    stage.run(&["my task", "--log-file", path, "--debug", "requests"]).expect_code(0);
    let text = std::fs::read_to_string(&log).unwrap();
    let raw = ["\n{\"", "\"role\":\"user\"", "refusal, ", "{\"error\":{\"message\":\"too busy, "];
    for words in ["POST http://127.0.0.1", "my task", "status=529", "echo made"].into_iter().chain(raw) {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("sk-test-openai"), "{text}");
    // Before the command or behind it, together or not.
    let stage = Stage::new(json!([{"text": "Done.", "repeat": true}]));
    let place = stage.workspace.path().join("other-log");
    let other = place.to_str().unwrap();
    for (before, behind) in
        [(["--log-file", other], ["--debug", "requests"]), (["--debug", "requests"], ["--log-file", other])]
    {
        let args = [&before[..], &["run", "--model", "openai-chat/m"], &behind, &["x"]].concat();
        Ran::of(stage.piton(&args)).expect_code(0);
        assert!(std::fs::read_to_string(&place).unwrap().contains("POST"), "{args:?}");
        std::fs::remove_file(&place).unwrap();
    }
    let ran = stage.run(&["x", "--log-file", "/dev/full"]).expect_code(0);
    assert_eq!(ran.stderr.matches("the log cannot be written").count(), 1, "{}", ran.stderr);
    stage.run(&["x", "--debug", "requests"]).expect_code(2).expect_said(&["--log-file"]);
    stage.run(&["x", "--log-file", "/no/such/folder/log"]).expect_code(1).expect_said(&["cannot write the log"]);
}

#[test]
fn a_run_that_is_steered_is_sent_to_the_collector_too() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let (url, requests) = collector(200);
    stage.home.write("stdin", "{\"do\":\"prompt\",\"text\":\"go\"}\n");
    let mut command = stage.run_command(&["--input-format", "stream-json"]);
    command.stdin(std::fs::File::open(stage.home.path().join("stdin")).unwrap());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    Ran::of(command).expect_code(0);
    let (_, body) = requests.recv_timeout(std::time::Duration::from_secs(5)).unwrap();
    assert_eq!(spans(&body).len(), 2);
}

#[test]
fn a_summary_between_turns_has_a_record_a_span_and_is_sent() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([{"text": answer}, {"text": "## Next step\nthe changelog"}]));
    stage.run(&["never touch the schema"]).expect_code(0);
    let (url, requests) = collector(200);
    let mut command = stage.piton(&["session", "compact", "last"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    Ran::of(command).expect_code(0);
    let (_, body) = requests.recv_timeout(std::time::Duration::from_secs(5)).unwrap();
    let summary = spans(&body).into_iter().find(|span| attribute(span, "piton.purpose")["stringValue"] == "summary");
    assert_eq!(summary.expect("it is a call of a model")["name"], format!("chat {}", model(&stage)));
    Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0).expect_stdout(&[
        "making room after turn 1: ",
        ", asked for a summary, replied after ",
        "compact  somebody asked for it; about ",
    ]);
}

/// The model of the only session, as its provider knows it.
fn model(stage: &Stage) -> String {
    let started = stage.journal().into_iter().find(|event| event["type"] == "turn_started").unwrap();
    started["model"].as_str().unwrap().split_once('/').unwrap().1.to_owned()
}

#[test]
fn hooks_beside_the_steps_and_refused_calls_and_checks_are_in_the_trace() {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "rm -rf x"}}]}, {"text": "a"}, {"text": "b"}]);
    let config = "[[hooks.SessionStart]]\ncommand = \"cat >/dev/null\"\n\
                  [[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"cat >/dev/null; echo no >&2; exit 2\"\n";
    let stage = Stage::new(script).with_config(config);
    stage.run(&["go", "--check", "test -e ok || { touch ok; false; }"]).expect_code(0);
    Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0).expect_stdout(&[
        "before the first turn: ",
        " at session start in ",
        "not run: refused by the hook ",
        " sent the model back to work",
    ]);
}

#[test]
fn what_the_rules_said_of_a_call_is_in_the_trace() {
    let call = |command: &str| json!({"tools": [{"name": "bash", "args": {"command": command}}]});
    let stage = Stage::new(json!([call("touch a"), call("rm -rf x; ls"), {"text": "done"}]));
    stage.run(&["--sandbox", "off", "--deny", "bash(rm *)", "--allow", "bash(touch *)", "go"]);
    let trace = ["session", "trace", "last"];
    Ran::of(stage.piton(&trace)).expect_code(0).expect_stdout(&[
        "  rules    allowed, mode auto, unconfined: ",
        "  rules    denied, mode auto, unconfined: `rm -rf x` (by the rule bash(rm *) of --deny)",
    ]);
    let json = Ran::of(stage.piton(&["session", "trace", "last", "--json"])).expect_code(0).events();
    let calls: Vec<&Value> = json.iter().flat_map(|step| step["calls"].as_array().into_iter().flatten()).collect();
    assert_eq!(calls[0]["verdict"], "allow", "{calls:?}");
    let parts = calls[1]["judged"]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["action"] == "deny"), "{calls:?}");
}

#[test]
fn an_attempt_that_ends_the_turn_says_what_it_was_sent() {
    let stage = Stage::new(json!([{"status": 401, "error": "no"}]));
    stage.run(&["go"]).expect_code(10);
    Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0).expect_stdout(&[
        "sent     new: system prompt with tools, 1 user message",
        "then     the turn was over: no reply",
    ]);
}

#[test]
fn a_silent_collector_is_named() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = stage.run_command(&["go"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", silent.local_addr().unwrap()));
    Ran::of(command).expect_code(0).expect_said(&["the trace was not sent: the collector sent nothing for 3 s"]);
}
