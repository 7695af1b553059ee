//! What the recordings do not cover: requests, replaying what came, and odd streams.

use super::*;
use crate::protocol::Protocol;
use crate::samples::{conversation, kept, lines, message, only_adds_bytes, request, thought};
use crate::wire::ResponseBody;
use expect_test::expect;
use piton_core::call::CallInput;
use piton_core::message::{FinishReason, Part, Role};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use serde_json::{Value, json};

fn stream(events: &[Value]) -> Result<Reply, ModelError> {
    let mut body = ResponseBody::new(Box::<ResponsesReply>::default());
    for event in events {
        body.push(format!("data: {event}\n\n").as_bytes())?;
    }
    body.finish().map(|(_, reply)| reply)
}

#[test]
fn a_request_asks_without_storage_and_answers_each_call() {
    expect![[r#"
        model: "gpt-5.4"
        instructions: "sys"
        tools: [{"type":"function","name":"read","description":"d","parameters":{"type":"object"},"strict":false}]
          {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"},{"type":"input_text","text":"go on"}]}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"let me see"}]}
          {"type":"function_call","call_id":"x","name":"read","arguments":"{\"path\":\"a\"}"}
          {"type":"function_call","call_id":"c1_1","name":"grep","arguments":"{\"invalid_arguments\":\"{\\\"a\"}"}
          {"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":"A"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"}]}
          {"type":"function_call_output","call_id":"c1_1","output":"no"}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}
        max_output_tokens: 77
        prompt_cache_key: "ses_1"
        include: ["reasoning.encrypted_content"]
        store: false
        stream: true
    "#]]
    .assert_eq(&lines(&encode(&request("gpt-5.4", conversation())), "input"));
}

#[test]
fn one_more_message_only_adds_bytes() {
    assert!(only_adds_bytes(encode, "input"));
}

#[test]
fn models_without_reasoning_are_not_asked_for_it() {
    for (model, asks) in [("gpt-4.1", false), ("openai/gpt-4o", false), ("o3", true), ("grok-4", true)] {
        assert_eq!(encode(&request(model, Vec::new())).get("include").is_some(), asks, "{model}");
    }
}

#[test]
fn what_came_is_replayed_as_it_came_but_for_ids() {
    let output = json!([
        { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }],
          "content": [], "encrypted_content": "gAAA+/==" },
        { "type": "message", "id": "msg_1", "role": "assistant",
          "content": [{ "type": "output_text", "text": "Let me see." }], "phase": "commentary" },
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": "q" } },
        { "type": "message", "id": "msg_2", "role": "assistant", "content": [{ "type": "output_text", "text": "Seen.",
          "annotations": [{ "type": "url_citation", "url": "https://a", "start_index": 0, "end_index": 5 }] }],
          "phase": "final_answer" },
        { "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{\"a\":1}" },
        { "type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "patch", "input": "*** Begin" },
    ]);
    let mut reply = ResponsesReply::default();
    reply.document(&json!({ "id": "resp_1", "status": "completed", "output": output })).unwrap();
    let parts = kept(reply.finish().unwrap().parts);
    let body = encode(&request("m", vec![message(Role::Assistant, parts)]));
    let mut wanted = output;
    for item in wanted.as_array_mut().unwrap() {
        item.as_object_mut().unwrap().shift_remove("id");
    }
    assert_eq!(body["input"].to_string(), wanted.to_string());
}

#[test]
fn reasoning_that_led_to_nothing_is_left_out() {
    let sealed = thought(json!({ "item": { "type": "reasoning", "encrypted_content": "e" } }));
    let body = encode(&request("m", vec![message(Role::Assistant, vec![Part::text("a"), sealed])]));
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
}

#[test]
fn items_that_only_the_end_tells_of_are_read() {
    let item = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "read", "arguments": "{}" });
    let reply = stream(&[
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item("a") }),
        json!({ "type": "response.completed", "response": { "output": [item("a"), item("b")] } }),
    ]);
    let reply = reply.unwrap();
    assert_eq!((reply.parts.len(), reply.finish), (2, FinishReason::ToolCalls));
}

#[test]
fn words_without_a_beginning_are_words() {
    let reply = stream(&[
        json!({ "type": "response.output_text.delta", "output_index": u64::MAX, "delta": "a" }),
        json!({ "type": "response.output_text.delta", "output_index": u64::MAX, "delta": "b" }),
        json!({ "type": "response.completed", "response": { "status": "completed", "output": [{}, {}, {}] } }),
    ]);
    assert_eq!(reply.unwrap().parts, [Part::text("ab")]);
}

#[test]
fn a_call_that_was_cut_is_never_whole() {
    let call = json!({ "type": "function_call", "call_id": "a", "name": "read", "arguments": "" });
    let begun = [
        json!({ "type": "response.output_item.added", "output_index": 0, "item": call }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"path\":" }),
    ];
    assert_eq!(stream(&begun).unwrap_err().kind, ModelErrorKind::CutStream);
    let details = json!({ "reason": "max_output_tokens" });
    let end =
        json!({ "type": "response.incomplete", "response": { "status": "incomplete", "incomplete_details": details } });
    let reply = stream(&[&begun[..], &[end]].concat()).unwrap();
    assert_eq!(reply.finish, FinishReason::Length);
    assert!(matches!(&reply.parts[..], [Part::ToolCall(call)] if matches!(call.input, CallInput::Invalid { .. })));
}

#[test]
fn failures_and_refusals_have_their_kinds() {
    let error = json!({ "code": "rate_limit_exceeded", "message": "Try again in 2s." });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": error } });
    let error = stream(&[failed]).unwrap_err();
    assert_eq!((error.kind, error.retry_after_ms), (ModelErrorKind::RateLimited, Some(2_000)));
    let flat = json!({ "type": "error", "code": "server_error", "message": "oops" });
    assert_eq!(stream(&[flat]).unwrap_err().kind, ModelErrorKind::Server);
    let details = json!({ "reason": "content_filter" });
    let filtered =
        json!({ "type": "response.incomplete", "response": { "status": "incomplete", "incomplete_details": details } });
    assert_eq!(stream(&[filtered]).unwrap().finish, FinishReason::ContentFilter);
}

/// As llama.cpp does it: no numbers, and the ends of all items after the last of them.
#[test]
fn items_without_numbers_are_told_apart_by_their_ids() {
    let item = |id: &str, arguments: &str| json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read", "arguments": arguments });
    let added = |id: &str| json!({ "type": "response.output_item.added", "item": item(id, "") });
    let delta = |id: &str, more: &str| json!({ "type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"), "delta": more });
    let done = |id: &str, arguments: &str| json!({ "type": "response.output_item.done", "item": item(id, arguments) });
    let output = json!([item("a", "{\"n\":1}"), item("b", "{\"n\":2}")]);
    let reply = stream(&[
        added("a"),
        delta("a", "{\"n\":1}"),
        added("b"),
        delta("b", "{\"n\":"),
        done("a", "{\"n\":1}"),
        done("b", "{\"n\":2}"),
        json!({ "type": "response.completed", "response": { "status": "completed", "output": output } }),
    ]);
    let inputs: Vec<Value> = reply
        .unwrap()
        .parts
        .into_iter()
        .map(|part| match part {
            Part::ToolCall(call) => serde_json::to_value(call.input).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(inputs, [json!({ "json": { "n": 1 } }), json!({ "json": { "n": 2 } })]);
}
