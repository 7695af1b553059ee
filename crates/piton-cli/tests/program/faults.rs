//! Faults of the provider that are not in the robustness suite, over both protocols.

use crate::stage::{Ran, Stage};
use serde_json::json;

const BOTH: [&str; 2] = ["openai-chat", "anthropic"];

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
    for protocol in BOTH {
        for fault in &faults {
            let stage = Stage::speaking(protocol, json!([fault, {"text": "recovered"}]));
            let ran = stage.run(&["go"]).expect_code(0);
            assert_eq!(ran.result()["text"], "recovered", "{protocol}: {fault}");
            assert_eq!(stage.provider.requests().len(), 2, "{protocol}: {fault}");
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
    ];
    for protocol in BOTH {
        for (status, body, end) in &cases {
            let stage = Stage::speaking(protocol, json!([{"status": status, "body": body}, {"text": "never"}]));
            let ran = stage.run(&["go"]);
            assert_eq!(ran.end(), *end, "{protocol} {status}");
            assert_eq!(stage.provider.requests().len(), 1, "{protocol} {status}");
            // The session can go on.
            stage.run(&["--continue", "again"]).expect_code(0);
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
fn a_chain_with_an_unknown_link_is_refused_before_anything_is_asked() {
    let stage = Stage::new(json!([{"text": "hi"}]));
    let ran = Ran::of(stage.piton(&["run", "--model", "openai-chat/a,nobody/b", "go"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no provider \"nobody\""), "{}", ran.stderr);
    assert!(stage.provider.requests().is_empty());
}
