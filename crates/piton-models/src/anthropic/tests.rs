//! What the recordings do not cover: requests, and replaying what came.

use super::*;
use crate::protocol::Protocol;
use crate::samples::{event as sse, message, request_without_tools as request};
use expect_test::expect;
use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

fn call(id: &str, provider_id: &str, raw: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        provider_id: Some(provider_id.into()),
        name: "read".into(),
        spelling: None,
        input: CallInput::parse(raw),
        opaque: None,
    })
}

fn conversation() -> Vec<Arc<Message>> {
    let result = |id: &str, outcome| Part::ToolResult { call: id.into(), tool: "read".into(), outcome };
    let unsigned = Part::Reasoning { text: "unsigned".into(), opaque: None };
    let signed = Part::Reasoning { text: "hm".into(), opaque: Some(json!({ "signature": "S+/=" })) };
    let hidden = Part::Reasoning { text: String::new(), opaque: Some(json!({ "redacted_thinking": "R" })) };
    vec![
        message(Role::User, vec![Part::text("hi")]),
        message(Role::Assistant, vec![unsigned.clone()]),
        message(Role::User, vec![Part::note("go on")]),
        message(Role::Assistant, vec![signed, hidden, unsigned, call("c1_0", "a:b", "{"), call("c1_1", "t1", "")]),
        message(Role::Tool, vec![result("c1_0", Outcome::failed("bad")), result("c1_1", Outcome::ok(" "))]),
        message(Role::User, vec![Part::text("more"), Part::text("  ")]),
    ]
}

#[test]
fn neighbours_are_merged_results_come_first_and_reasoning_needs_its_signature() {
    let body = encode(&request(conversation()), DEFAULT_MAX_TOKENS);
    let mut lines = String::new();
    for line in body["messages"].as_array().unwrap() {
        writeln!(lines, "{}", line["role"]).unwrap();
        for block in line["content"].as_array().unwrap() {
            writeln!(lines, "  {block}").unwrap();
        }
    }
    expect![[r#"
        "user"
          {"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}
          {"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}
        "assistant"
          {"type":"thinking","thinking":"hm","signature":"S+/="}
          {"type":"redacted_thinking","data":"R"}
          {"type":"tool_use","id":"c1_0","name":"read","input":{"invalid_arguments":"{"}}
          {"type":"tool_use","id":"t1","name":"read","input":{}}
        "user"
          {"type":"tool_result","tool_use_id":"c1_0","content":"bad","is_error":true}
          {"type":"tool_result","tool_use_id":"t1","content":"(no output)"}
          {"type":"text","text":"more","cache_control":{"type":"ephemeral"}}
    "#]]
    .assert_eq(&lines);
}

#[test]
fn the_cache_is_marked_behind_tools_and_system_behind_the_context_and_on_the_newest_two_messages() {
    let note = Part::note("Working folder: /w");
    let mut messages = vec![message(Role::User, vec![note, Part::text("hi")])];
    for step in ["c1_0", "c2_0", "c3_0"] {
        messages.push(message(Role::Assistant, vec![call(step, step, "")]));
        let result = Part::ToolResult { call: step.into(), tool: "read".into(), outcome: Outcome::ok("A") };
        messages.push(message(Role::Tool, vec![result]));
    }
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        schema: json!({ "type": "object" }),
        effects: Effects::READ,
    };
    let mut request = Request { tools: Arc::new([spec("a"), spec("b")]), system: "sys".into(), ..request(messages) };
    assert_eq!(
        marked(&encode(&request, 1)),
        ["/system/0", "/messages/0/content/0", "/messages/4/content/0", "/messages/6/content/0"]
    );
    request.system.clear();
    assert_eq!(marked(&encode(&request, 1))[0], "/tools/1", "without a system prompt the tools are marked themselves");
}

/// Where the marks are, as JSON pointers.
fn marked(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), body)];
    while let Some((at, value)) = open.pop() {
        if value.get("cache_control") == Some(&json!({ "type": "ephemeral" })) {
            found.push(at.clone());
        }
        match value {
            Value::Array(list) => {
                open.extend(list.iter().enumerate().map(|(n, item)| (format!("{at}/{n}"), item)).rev());
            }
            Value::Object(map) => open.extend(map.iter().map(|(key, item)| (format!("{at}/{key}"), item)).rev()),
            _ => {}
        }
    }
    found
}

#[test]
fn one_more_message_only_adds_bytes_apart_from_the_cache_marks() {
    let all = conversation();
    let mut before = String::from("[");
    for end in 1..=all.len() {
        let body = encode(&request(all[..end].to_vec()), 1)["messages"].to_string();
        let body = body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        let open = before.trim_end_matches(['}', ']']).to_owned();
        assert!(body.starts_with(&open), "{body}\ndoes not begin with\n{open}");
        before = body;
    }
}

#[test]
fn what_came_is_replayed_as_it_came() {
    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "EqQB+/==" },
        { "type": "redacted_thinking", "data": "xyz" },
        { "type": "thinking", "thinking": "", "signature": "only" },
        { "type": "text", "text": "Let me see." },
        { "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a" } },
    ]);
    let mut reply = AnthropicReply::default();
    reply.document(&json!({ "id": "msg", "content": content, "stop_reason": "end_turn" })).unwrap();
    let mut parts = reply.finish().unwrap().parts;
    for part in &mut parts {
        if let Part::ToolCall(call) = part {
            call.id = "c1_0".into();
        }
    }
    let body = encode(&request(vec![message(Role::Assistant, parts)]), 1);
    let echoed: &Value = &body["messages"][0]["content"];
    assert_eq!(echoed.to_string(), content.to_string());
}

#[test]
fn an_image_stands_within_the_answer_it_belongs_to() {
    let image = Part::Image { media_type: "image/png".into(), data: "QUJD".into() };
    let result = |id: &str| Part::ToolResult { call: id.into(), tool: "read".into(), outcome: Outcome::ok("A") };
    let body = encode(&request(vec![message(Role::Tool, vec![result("c1_0"), image, result("c1_1")])]), 1);
    let content = &body["messages"][0]["content"];
    assert_eq!(content[0]["content"][0], json!({ "type": "text", "text": "A" }));
    assert_eq!(content[0]["content"][1]["source"]["data"], "QUJD");
    assert_eq!(content[1]["content"], "A");
}

#[test]
fn blocks_of_the_providers_own_tools_go_back_as_they_came() {
    let content = json!([
        { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "q" } },
        { "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{ "encrypted_content": "E==" }] },
        { "type": "text", "text": "found" },
    ]);
    let mut reply = AnthropicReply::default();
    reply.document(&json!({ "id": "msg", "content": content, "stop_reason": "end_turn" })).unwrap();
    let body = encode(&request(vec![message(Role::Assistant, reply.finish().unwrap().parts)]), 1);
    assert_eq!(body["messages"][0]["content"], content);
}

#[test]
fn citations_go_back_with_the_words_they_belong_to() {
    let source = |title: &str| json!({ "type": "web_search_result_location", "url": "https://a", "title": title, "encrypted_index": "E+/=" });
    let mut reply = AnthropicReply::default();
    for event in [
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "", "citations": [] } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "It is so." } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta", "citation": source("b") } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta", "citation": source("a") } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
    ] {
        reply.event(&sse(&event)).unwrap();
    }
    let block = json!({ "type": "text", "text": "It is so.", "citations": [source("b"), source("a")] });
    let body = encode(&request(vec![message(Role::Assistant, reply.finish().unwrap().parts)]), 1);
    assert_eq!(body["messages"][0]["content"].to_string(), json!([block]).to_string());
}

/// A pause leaves a call of the provider's own open. It goes back while the reply is to go on, and never after that.
#[test]
fn a_call_of_the_providers_that_a_pause_left_open_goes_back_only_to_be_finished() {
    let call = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [] });
    let said = |content: Value, why: &str| {
        let mut reply = AnthropicReply::default();
        reply.document(&json!({ "id": "msg", "content": content, "stop_reason": why })).unwrap();
        message(Role::Assistant, reply.finish().unwrap().parts)
    };
    let user = |text: &str| message(Role::User, vec![Part::text(text)]);
    let sent = |messages: Vec<Arc<Message>>| {
        let body = encode(&request(messages), 1);
        let kinds = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|message| message["content"].as_array().unwrap().clone());
        kinds.map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let paused = || said(json!([{ "type": "text", "text": "hm" }, call]), "pause_turn");
    assert_eq!(sent(vec![user("go"), paused()]), "text text server_tool_use");
    assert_eq!(
        sent(vec![user("go"), paused(), said(json!([result]), "end_turn"), user("on")]),
        "text text server_tool_use web_search_tool_result text"
    );
    assert_eq!(sent(vec![user("go"), paused(), user("stop that")]), "text text text");
}

#[test]
fn a_turn_of_calls_that_began_without_thoughts_goes_on_without() {
    let asked = |thinking: &Value, messages: Value| {
        let mut body = json!({ "thinking": thinking, "messages": messages });
        without_late_thoughts(&mut body);
        body.get("thinking").is_some()
    };
    let counting = json!({ "type": "enabled", "budget_tokens": 2_000 });
    let said = |kind: &str| json!({ "role": "user", "content": [{ "type": kind }] });
    let replied = |kinds: &[&str]| {
        let blocks: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
        json!({ "role": "assistant", "content": blocks })
    };
    let (person, result, call) = (said("text"), said("tool_result"), replied(&["tool_use"]));
    let thought = replied(&["redacted_thinking", "tool_use"]);
    assert!(!asked(&counting, json!([person, call, result])), "another model began it");
    assert!(!asked(&counting, json!([person, thought, result, person, call, result, thought, result])));
    assert!(asked(&counting, json!([person, thought, result])));
    assert!(asked(&counting, json!([person, thought, result, call, result])), "one thinks once in a turn");
    assert!(asked(&counting, json!([person, call, result, call, person])), "a new turn may think");
    assert!(asked(&json!({ "type": "adaptive" }), json!([person, call, result])), "who decides itself may always");
}
