//! Faults of the provider that are not in the robustness suite, over all protocols; the table of `docs/exit-codes.md`.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

const ALL: [&str; 5] = ["openai-chat", "anthropic", "openai-responses", "google", "ollama-native"];

/// Those in which a call comes in pieces that are not told again.
const BOTH: [&str; 2] = ["openai-chat", "anthropic"];

fn stage(protocol: &'static str, script: Value) -> Stage {
    let stage = Stage::speaking(protocol, script);
    let config = format!("[providers.ollama-native]\nbase_url = {:?}\n", stage.provider.url());
    stage.with_config(&config)
}

fn run(stage: &Stage, args: &[&str]) -> Ran {
    let mut command = stage.run_command(args);
    command.env("GEMINI_API_KEY", "k").env("GEMINI_BASE_URL", stage.provider.url());
    Ran::of(command)
}

/// How often the model was asked: a server of one's own is asked for its window, too.
fn asked(stage: &Stage) -> usize {
    stage.provider.requests().iter().filter(|request| request.method == "POST" && request.path != "/api/show").count()
}

#[test]
fn what_passes_is_waited_out() {
    let faults = [
        json!({"status": 429, "body": {"error": {"message": "slow down"}}}),
        json!({"status": 429, "headers": {"retry-after": "0"}, "body": {"error": {"message": "slow down"}}}),
        json!({"status": 500, "body": {"error": {"message": "oops"}}}),
        json!({"status": 503, "body": "unavailable"}),
        json!({"status": 529, "body": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}),
        json!({"text": "par", "drop": true}),
        json!({"text": "par", "malformed": true, "end_early": true}),
        json!({"text": "par", "end_early": true}),
        json!({"finish": "stop"}),
    ];
    for protocol in ALL {
        for fault in &faults {
            let stage = stage(protocol, json!([fault, {"text": "recovered"}]));
            let ran = run(&stage, &["go"]).expect_code(0);
            assert_eq!(ran.result()["text"], "recovered", "{protocol}: {fault}");
            assert_eq!(asked(&stage), 2, "{protocol}: {fault}");
        }
    }
}

#[test]
fn an_event_that_cannot_be_read_is_left_out_and_told_of() {
    for protocol in BOTH {
        let stage = Stage::speaking(protocol, json!([{"text": "whole", "malformed": true}]));
        let ran = stage.run(&["go"]).expect_code(0);
        assert_eq!(ran.result()["text"], "whole", "{protocol}");
        let warnings = &ran.all("message_finished")[0]["reply"]["warnings"];
        assert!(warnings[0].as_str().unwrap().ends_with(r#"{"garbage": tru"#), "{protocol}: {warnings}");
        assert_eq!(stage.provider.requests().len(), 1, "{protocol}");
    }
}

#[test]
fn a_call_that_may_have_lost_a_piece_is_answered_not_run() {
    for protocol in BOTH {
        let gapped =
            json!({"tools": [{"name": "write", "args": {"path": "x", "content": "one two ".repeat(9)}}], "garble": 2});
        let stage = Stage::speaking(protocol, json!([gapped, {"text": "done"}]));
        let ran = stage.run(&["go"]).expect_code(0);
        assert!(!stage.workspace.has("x"), "{protocol}");
        let outcome = &ran.all("call_settled")[0]["outcome"];
        assert!(outcome["text"].as_str().unwrap().contains("lost on the way"), "{protocol}: {outcome}");
    }
}

#[test]
fn cut_tool_arguments_are_answered_not_run() {
    for protocol in BOTH {
        let cut = json!({"tools": [{"name": "write", "raw": "{\"path\": \"x\", \"content\": \"half"}]});
        let stage = Stage::speaking(protocol, json!([cut, {"text": "done"}]));
        stage.run(&["go"]).expect_code(0);
        assert!(!stage.workspace.has("x"), "{protocol}");
    }
}

#[test]
fn a_wait_that_the_provider_wants_is_kept_and_one_that_is_too_long_is_for_a_person_to_decide() {
    let asked = |seconds: &str| json!({"status": 429, "headers": {"retry-after": seconds}, "body": {"error": {"message": "slow down"}}});
    let stage = Stage::new(json!([asked("1"), {"text": "ok"}]));
    let ran = stage.run(&["go"]).expect_code(0);
    let failed = &ran.all("model_failed")[0];
    let wait_ms = failed["retry_at_ms"].as_u64().unwrap() - failed["at_ms"].as_u64().unwrap();
    assert!((900..=1100).contains(&wait_ms), "{wait_ms} ms");

    let stage = Stage::new(json!([asked("3600"), {"text": "never"}]));
    let ran = stage.run(&["go"]);
    assert_eq!(ran.end(), "api_error");
    assert_eq!(stage.provider.requests().len(), 1);
}

#[test]
fn the_provider_may_say_when_its_limit_ends_and_whether_to_ask_again() {
    let fault = |status: u16, name: &str, value: &str| json!({"status": status, "headers": {name: value}, "body": {"error": {"message": "no"}}});
    let stage = Stage::new(json!([fault(429, "x-ratelimit-reset-requests", "1s"), {"text": "ok"}]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.all("model_failed")[0]["error"]["retry_after_ms"], 1_000);
    let stage = Stage::new(json!([fault(500, "x-should-retry", "false"), {"text": "never"}]));
    assert_eq!(stage.run(&["go"]).end(), "api_error");
    assert_eq!(stage.provider.requests().len(), 1);
    let stage = Stage::new(json!([fault(400, "x-should-retry", "true"), {"text": "ok"}]));
    stage.run(&["go"]).expect_code(0);
    // No wait is no wish: it would be refused at once again.
    let stage = Stage::new(json!([fault(429, "retry-after", "0"), {"text": "ok"}]));
    let failed = &stage.run(&["go"]).expect_code(0).all("model_failed")[0];
    assert!(failed["retry_at_ms"].as_u64() > failed["at_ms"].as_u64(), "{failed}");
}

#[test]
fn a_responses_stream_that_failed_is_no_answer_whatever_its_response_says() {
    let said = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "half an ans"});
    let failed =
        json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "it broke"}}});
    let body = format!("data: {said}\n\ndata: {failed}\n\n");
    let stage = Stage::speaking("openai-responses", json!([{"status": 200, "body": body}, {"text": "whole"}]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.result()["text"], "whole");
    assert_eq!(ran.all("model_failed")[0]["error"]["message"], "it broke");
}

#[test]
fn what_does_not_pass_is_not_tried_again() {
    let cases = [
        (401, json!({"error": {"message": "invalid x-api-key"}}), "api_error"),
        (404, json!({"error": {"message": "model: nope"}}), "api_error"),
        (400, json!({"error": {"message": "bad request"}}), "api_error"),
        (
            400,
            json!({"error": {"message": "prompt is too long: 250000 tokens > 200000 maximum", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
            "context_limit",
        ),
        (402, json!({"error": {"message": "insufficient credits"}}), "api_error"),
        (301, json!(null), "api_error"),
    ];
    for protocol in ALL {
        for (status, body, end) in &cases {
            let stage = stage(protocol, json!([{"status": status, "body": body}, {"text": "never"}]));
            let ran = run(&stage, &["go"]);
            assert_eq!(ran.end(), *end, "{protocol} {status}");
            assert_eq!(asked(&stage), 1, "{protocol} {status}");
            // The session can go on.
            run(&stage, &["--continue", "again"]).expect_code(0);
        }
    }
}

#[test]
fn where_one_model_of_a_chain_gives_no_reply_the_next_is_asked_for_the_rest_of_the_turn() {
    let refused = json!({"status": 401, "body": {"error": {"message": "invalid key"}}});
    let call = json!({"tools": [{"name": "bash", "args": {"command": "echo hi"}}]});
    let stage = Stage::new(json!([refused, call, {"text": "from the second"}, {"text": "from the first"}]));
    let chain = "openai-chat/first,anthropic/second";
    let run = |args: &[&str]| {
        Ran::of(stage.piton(&[&["run", "--yes", "--format", "stream-json"], args].concat())).expect_code(0)
    };
    let ran = run(&["--model", chain, "go"]);
    assert_eq!(ran.result()["text"], "from the second");
    let switched = &ran.all("model_switched")[0];
    assert_eq!(switched["model"], "anthropic/second");
    assert!(switched["reason"].as_str().unwrap().contains("invalid key"), "{switched}");

    // A session remembers its chain, and a new turn begins at its head.
    assert_eq!(run(&["--continue", "and now"]).result()["text"], "from the first");
    let asked: Vec<_> = stage.provider.requests().iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(asked, ["first", "second", "second", "first"]);
}

#[test]
fn a_prompt_that_one_model_of_a_chain_cannot_read_goes_to_the_next() {
    let refused = json!({"status": 400, "body": {"error": {"message": "prompt is too long: 9 > 1", "code": "context_length_exceeded"}}});
    let small = "[models.\"openai-chat/first\"]\nwindow = 6000\n";
    let long = "word ".repeat(7_000);
    // The server says so, our own count says so, and the task alone is too long already.
    for (script, config, task, models) in [
        (json!([refused, {"text": "read"}]), "", "go", &["first", "second"][..]),
        (json!([{"text": "read"}]), small, &long[..25_000], &["second"]),
        (json!([{"text": "read"}]), small, &long, &["second"]),
    ] {
        let stage = Stage::new(script).with_config(config);
        let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/first,openai-chat/second", task]));
        let ran = ran.expect_code(0).expect_stdout(&["read"]).expect_said(&["; asking openai-chat/second"]);
        assert!(!ran.stderr.contains("no summary was made"), "the switch says it: {}", ran.stderr);
        let asked: Vec<_> = stage.provider.requests().iter().map(|request| request.body["model"].clone()).collect();
        assert_eq!(asked, models);
        let last = stage.last_messages().last().unwrap().to_string();
        assert!(last.contains(task.trim()), "it reads all of it");
        let switched = stage.journal().into_iter().find(|event| event["type"] == "model_switched").unwrap();
        assert!(switched["reason"].as_str().unwrap().contains("it cannot be summarized"), "{switched}");
    }
    let stage = Stage::new(json!([])).with_config(small);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/first", &long])).expect_code(1);
    ran.expect_said(&["openai-chat/first reads 6,000 at most. Nothing was sent"]);
}

#[test]
fn a_chain_with_an_unknown_link_is_refused_before_anything_is_asked() {
    let stage = Stage::new(json!([{"text": "hi"}]));
    let ran = Ran::of(stage.piton(&["run", "--model", "openai-chat/a,nobody/b", "go"]));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no provider `nobody`"), "{}", ran.stderr);
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn a_conversation_that_does_not_fit_is_said_once_and_ends_with_the_way_on() {
    let said = json!({"error": {"message": "prompt is too long: 250000 tokens > 200000 maximum", "code": "context_length_exceeded"}});
    let refused = json!({"status": 400, "body": said});
    let stage = Stage::new(json!([refused]));
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(8);
    let ran = ran.expect_said(&["it cannot be summarized", "Everything is kept", "larger window", "piton run -c"]);
    assert!(!ran.stderr.contains("session compact"), "that cannot help: {}", ran.stderr);
    assert_eq!(ran.stderr.matches("window is full").count(), 1, "{}", ran.stderr);

    // A summary is asked for, before the step and when it is refused, and refused as well.
    let mut script = vec![json!({"text": "as you wish ".repeat(1_500)})];
    script.extend(vec![refused; 9]);
    let stage = Stage::new(json!(script)).with_config("[models.\"openai-chat/m\"]\nwindow = 8000\n");
    let run = |args: &[&str]| Ran::of(stage.piton(&[&["run", "--yes", "--model", "openai-chat/m"], args].concat()));
    run(&["go"]).expect_code(0);
    let ran = run(&["--continue", &"and this ".repeat(600)]).expect_code(8);
    let ran = ran.expect_said(&["Everything is kept", "`piton session compact last", "larger window", "piton run -c"]);
    for once in ["asking for a summary", "prompt is too long"] {
        assert_eq!(ran.stderr.matches(once).count(), 1, "{once}: {}", ran.stderr);
    }
}
