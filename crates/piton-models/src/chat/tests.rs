//! What the recordings do not cover: requests, and odd ways to stream calls.

use super::*;
use crate::protocol::{Progress, Protocol};
use crate::samples::{self, event, message, request_without_tools as request};
use expect_test::{Expect, expect};
use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::message::{FinishReason, Message, Part, Role, prose};
use piton_core::model::{ModelErrorKind, Request};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

fn call(id: &str, provider_id: Option<&str>) -> Part {
    samples::call(id, provider_id, None)
}

fn result(id: &str, text: &str) -> Part {
    samples::result(id, Outcome::ok(text))
}

fn conversation() -> Vec<Arc<Message>> {
    let echoed = Some(json!({ "field": "reasoning_content" }));
    vec![
        message(Role::User, vec![Part::text("hi"), Part::note("go on")]),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning { text: "hm".into(), opaque: echoed },
                call("c1_0", Some("x")),
                call("c1_1", Some("x")),
            ],
        ),
        message(Role::Tool, vec![result("c1_0", "A"), result("c1_1", "B")]),
        message(Role::Assistant, vec![Part::Reasoning { text: "lost".into(), opaque: None }]),
        message(Role::Assistant, vec![Part::text("done")]),
    ]
}

#[test]
fn a_conversation_is_encoded_with_unique_ids_and_without_empty_messages() {
    let body = encode(&request(conversation()), Dialect::Compatible);
    let mut lines = String::new();
    for line in body["messages"].as_array().unwrap() {
        writeln!(lines, "{line}").unwrap();
    }
    expect![[r#"
        {"role":"system","content":"sys"}
        {"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"go on"}]}
        {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"x","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"c1_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}
        {"role":"tool","tool_call_id":"x","content":"A"}
        {"role":"tool","tool_call_id":"c1_1","content":"B"}
        {"role":"assistant","content":"done"}
    "#]]
    .assert_eq(&lines);
}

#[test]
fn one_more_message_only_adds_bytes() {
    let all = conversation();
    let mut before = String::from("[");
    for end in 0..=all.len() {
        let body = encode(&request(all[..end].to_vec()), Dialect::Compatible)["messages"].to_string();
        let open = before.trim_end_matches(']').to_owned();
        assert!(body.starts_with(&open), "{body}\ndoes not begin with\n{open}");
        before = body;
    }
}

#[test]
fn only_openai_gets_the_renamed_limit_and_a_cache_key() {
    let mut request = request(Vec::new());
    request.max_output_tokens = Some(9);
    let openai = encode(&request, Dialect::OpenAi);
    let other = encode(&request, Dialect::Compatible);
    assert_eq!((&openai["max_completion_tokens"], &openai["prompt_cache_key"]), (&json!(9), &json!("ses_1")));
    assert_eq!((&other["max_tokens"], other.get("prompt_cache_key")), (&json!(9), None));
    assert_eq!(other.get("tools"), None);
    assert_eq!(other.get("tool_choice"), None);
}

#[test]
fn tools_are_functions() {
    let mut request = request(Vec::new());
    request.tools = Arc::new([ToolSpec {
        name: "read".into(),
        description: "Reads.".into(),
        schema: json!({ "type": "object" }),
        effects: Effects::READ,
    }]);
    let function = json!({ "name": "read", "description": "Reads.", "parameters": { "type": "object" } });
    let body = encode(&request, Dialect::Compatible);
    assert_eq!(body["tools"], json!([{ "type": "function", "function": function }]));
}

/// Feeds deltas of choice 0 and a finish reason, and shows the calls that come out.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(deltas: &[Value], expected: Expect) {
    let mut reply = ChatReply::default();
    let mut feed = |chunk: Value| {
        reply.event(&event(&chunk)).unwrap();
    };
    for delta in deltas {
        feed(json!({ "choices": [{ "index": 0, "delta": delta }] }));
        feed(json!({ "choices": [{ "index": 1, "delta": { "content": "another choice" } }] }));
    }
    feed(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }));
    let mut shown = String::new();
    for part in reply.finish().unwrap().parts {
        match part {
            Part::ToolCall(call) => {
                writeln!(shown, "{} {} {:?}", call.provider_id.as_deref().unwrap_or("-"), call.name, call.input)
                    .unwrap();
            }
            other => writeln!(shown, "{other:?}").unwrap(),
        }
    }
    expected.assert_eq(&shown);
}

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn part_of(entry: Value) -> Value {
    json!({ "tool_calls": [entry] })
}

#[test]
fn interleaved_calls_are_told_apart_by_index() {
    check(
        &[
            part_of(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{\"k\"" } })),
            part_of(json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": "{}" } })),
            part_of(json!({ "index": 0, "function": { "arguments": ":1}" } })),
        ],
        expect![[r#"
            a x Json(Object {"k": Number(1)})
            b y Json(Object {})
        "#]],
    );
}

#[test]
fn ids_and_names_repeated_in_each_chunk_are_not_joined() {
    check(
        &[
            part_of(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{\"k\"" } })),
            part_of(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": ":1" } })),
            part_of(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "}" } })),
        ],
        expect![[r#"
            a x Json(Object {"k": Number(1)})
        "#]],
    );
}

#[test]
fn a_new_id_at_a_used_index_is_a_new_call() {
    check(
        &[
            part_of(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{}" } })),
            part_of(json!({ "index": 0, "id": "b", "function": { "name": "x", "arguments": "{\"n\":2}" } })),
        ],
        expect![[r#"
            a x Json(Object {})
            b x Json(Object {"n": Number(2)})
        "#]],
    );
}

#[test]
fn whole_calls_without_index_or_id_are_calls_each() {
    check(
        &[
            part_of(json!({ "function": { "name": "x", "arguments": { "n": 1 } } })),
            part_of(json!({ "function": { "name": "x", "arguments": { "n": 2 } } })),
            part_of(json!({ "function": { "name": "y", "arguments": null } })),
            part_of(json!({ "type": "function", "function": {} })),
        ],
        expect![[r#"
            - x Json(Object {"n": Number(1)})
            - x Json(Object {"n": Number(2)})
            - y Json(Object {})
        "#]],
    );
}

#[test]
fn arguments_that_come_before_the_name_are_kept() {
    check(
        &[
            part_of(json!({ "index": 3, "function": { "arguments": "{\"k\":" } })),
            part_of(json!({ "index": 3, "id": "a", "function": { "name": "x", "arguments": "1}" } })),
        ],
        expect![[r#"
            a x Json(Object {"k": Number(1)})
        "#]],
    );
}

#[test]
fn reasoning_under_two_names_is_read_once_and_marked_for_echo() {
    check(
        &[
            json!({ "reasoning_content": "hm", "reasoning": "hm" }),
            json!({ "reasoning": "lone" }),
            json!({ "content": "hi" }),
        ],
        expect![[r#"
            Reasoning { text: "hmlone", opaque: Some(Object {"field": String("reasoning_content")}) }
            Text { text: "hi", opaque: None }
        "#]],
    );
}

#[test]
fn a_limit_wins_over_calls_and_done_alone_is_an_end() {
    let finish = |reason: Option<&str>| {
        let mut reply = ChatReply::default();
        let entry = json!({ "index": 0, "id": "a", "function": { "name": "x" } });
        let chunk = json!({ "choices": [{ "delta": { "tool_calls": [entry] }, "finish_reason": reason }] });
        reply.event(&event(&chunk)).unwrap();
        reply.event(&event("[DONE]")).unwrap();
        reply.finish().unwrap().finish
    };
    assert_eq!(finish(Some("length")), FinishReason::Length);
    assert_eq!(finish(Some("stop")), FinishReason::ToolCalls);
    assert_eq!(finish(None), FinishReason::ToolCalls);
    assert_eq!(ChatReply::default().finish().unwrap_err().kind, ModelErrorKind::CutStream);
}

#[test]
fn mistral_gets_ids_of_nine_letters_or_digits_and_no_two_alike() {
    let ids = |messages| {
        let body = encode(&request(messages), Dialect::Mistral)["messages"].to_string();
        let ids = body.split("\"id\":\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned());
        ids.collect::<Vec<String>>()
    };
    let calls = vec![
        call("c1_0", Some("D681PevKs")),
        call("c1_1", Some("D681PevKs")),
        call("c1_2", Some("call_abc")),
        call("c11_", None),
        call("c1_1_", None),
    ];
    let all = vec![message(Role::Assistant, calls.clone()), message(Role::Assistant, vec![call("c2_0", None)])];
    let sent = ids(all.clone());
    assert_eq!(sent[..3], ["D681PevKs", "c11000000", "c12000000"]);
    assert!(sent.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())), "{sent:?}");
    assert_eq!(sent.iter().collect::<std::collections::HashSet<_>>().len(), 6, "{sent:?}");
    assert_eq!(ids(all[..1].to_vec()), sent[..5]);
}

#[test]
fn blocks_of_reasoning_are_put_together_and_go_back_whole() {
    let mut reply = ChatReply::default();
    let pieces = [
        json!({ "type": "reasoning.text", "text": "a ", "index": 0, "format": "f" }),
        json!({ "type": "reasoning.text", "text": "b", "index": 0, "format": "f" }),
        json!({ "type": "reasoning.text", "signature": "S+/=", "index": 0, "format": "f" }),
        json!({ "type": "reasoning.encrypted", "data": "E1", "index": 0 }),
        json!({ "type": "reasoning.encrypted", "data": "E2", "index": 0 }),
    ];
    for piece in pieces {
        let delta = json!({ "reasoning": piece.get("text"), "reasoning_details": [piece] });
        let data = json!({ "choices": [{ "delta": delta }] }).to_string();
        reply.event(&event(&data)).unwrap();
    }
    let end = json!({ "choices": [{ "delta": { "content": "yes" }, "finish_reason": "stop" }] });
    reply.event(&event(&end)).unwrap();
    let body = encode(&request(vec![message(Role::Assistant, reply.finish().unwrap().parts)]), Dialect::Compatible);
    let details = json!([
        { "type": "reasoning.text", "text": "a b", "index": 0, "format": "f", "signature": "S+/=" },
        { "type": "reasoning.encrypted", "data": "E1", "index": 0 },
        { "type": "reasoning.encrypted", "data": "E2", "index": 0 },
    ]);
    assert_eq!(body["messages"][1]["reasoning_details"], details);
}

#[test]
fn chunks_that_come_as_bare_lines_are_no_whole_answer() {
    let mut body = crate::wire::ResponseBody::new(Box::<ChatReply>::default());
    body.push(b"{\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n").unwrap();
    assert_eq!(body.finish().unwrap_err().kind, ModelErrorKind::CutStream);
}

/// Perplexity's whole answers have both, and its chunks repeat the answer so far in `message`.
#[test]
fn a_whole_answer_is_its_message_even_beside_a_delta() {
    let read = |documents: &[Value]| {
        let mut reply = ChatReply::default();
        documents.iter().for_each(|document| drop(reply.document(document).unwrap()));
        prose(&reply.finish().unwrap().parts).into_owned()
    };
    let choice = |delta: Value, message: &str| {
        let message = json!({ "role": "assistant", "content": message });
        json!({ "choices": [{ "index": 0, "delta": delta, "message": message, "finish_reason": "stop" }] })
    };
    for silent in
        [json!({}), json!({ "role": "assistant", "content": "" }), json!({ "content": null, "tool_calls": [] })]
    {
        assert_eq!(read(&[choice(silent, "hello")]), "hello");
    }
    let chunks = [choice(json!({ "content": "hel" }), "hel"), choice(json!({ "content": "lo" }), "hello")];
    assert_eq!(read(&chunks), "hello");
    assert_eq!(read(&[chunks[0].clone(), chunks[1].clone(), choice(json!({ "content": "" }), "hello")]), "hello");
}

#[test]
fn calls_wrapped_into_one_are_the_calls_meant() {
    let uses = json!([
        { "recipient_name": "functions.read", "parameters": { "path": "a" } },
        { "recipient_name": "grep" },
    ]);
    let function = json!({ "name": "multi_tool_use.parallel", "arguments": json!({ "tool_uses": uses }).to_string() });
    let message = json!({ "tool_calls": [{ "id": "x", "function": function }] });
    let mut reply = ChatReply::default();
    reply.document(&json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] })).unwrap();
    let parts = reply.finish().unwrap().parts;
    let calls: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some((call.name.as_str(), call.input.clone())),
            _ => None,
        })
        .collect();
    let json = |value| CallInput::Json(value);
    assert_eq!(calls, [("read", json(json!({ "path": "a" }))), ("grep", json(json!({})))]);
}

#[test]
fn servers_that_insist_on_reasoning_get_some_in_every_message() {
    let all = vec![message(Role::Assistant, vec![call("c1_0", None)]), message(Role::Assistant, vec![Part::text("a")])];
    let sent = encode(&request(all.clone()), Dialect::Echoing);
    for at in [1, 2] {
        assert_eq!(sent["messages"][at]["reasoning_content"], " ");
    }
    assert_eq!(encode(&request(all), Dialect::Compatible)["messages"][1].get("reasoning_content"), None);
}

#[test]
fn openrouter_is_told_what_anthropic_shall_keep_and_other_models_are_left_alone() {
    let note = Part::note("Working folder: /w");
    let result = |id: &str| Part::ToolResult { call: id.into(), tool: "read".into(), outcome: Outcome::ok(id) };
    let messages = vec![
        message(Role::User, vec![note, Part::text("hi")]),
        message(Role::Assistant, vec![call("c1_0", None), call("c1_1", None)]),
        message(Role::Tool, vec![result("c1_0"), result("c1_1")]),
        message(Role::User, vec![Part::text("faster")]),
    ];
    let mut request = Request { model: "anthropic/claude-sonnet-5".into(), system: "sys".into(), ..request(messages) };
    let mut lines = String::new();
    for message in encode(&request, Dialect::OpenRouter)["messages"].as_array().unwrap() {
        writeln!(lines, "{}", message["content"]).unwrap();
    }
    expect![[r#"
        [{"type":"text","text":"sys","cache_control":{"type":"ephemeral"}}]
        [{"type":"text","text":"Working folder: /w","cache_control":{"type":"ephemeral"}},{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]
        null
        [{"type":"text","text":"c1_0"}]
        [{"type":"text","text":"c1_1"}]
        [{"type":"text","text":"faster","cache_control":{"type":"ephemeral"}}]
    "#]].assert_eq(&lines);
    request.model = "openai/gpt-5.5".into();
    assert_eq!(encode(&request, Dialect::OpenRouter), encode(&request, Dialect::Compatible));
}

#[test]
fn a_reason_to_stop_counts_for_what_came_before_it() {
    let heard = |pieces: &[(&str, Option<&str>)], end: &str| {
        let mut reply = ChatReply::default();
        for (text, reason) in pieces {
            let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": reason });
            reply.event(&event(&json!({ "choices": [choice] }))).unwrap();
        }
        if !end.is_empty() {
            reply.event(&event(end)).unwrap();
        }
        let progress = reply.progress();
        (progress, reply.finish().map(|reply| prose(&reply.parts).into_owned()).map_err(|error| error.kind))
    };
    let stop = Some("stop");
    assert_eq!(heard(&[("a", None), ("b", stop), ("", None)], ""), (Progress::Finished, Ok("ab".into())));
    assert_eq!(heard(&[("a", stop), ("b", stop)], ""), (Progress::Speaking, Ok("ab".into())));
    assert_eq!(heard(&[("a", stop), ("b", None)], ""), (Progress::Speaking, Err(ModelErrorKind::CutStream)));
    assert_eq!(heard(&[("", stop), ("a", None)], ""), (Progress::Speaking, Err(ModelErrorKind::CutStream)));
    assert_eq!(heard(&[("a", stop), ("b", None)], "[DONE]"), (Progress::Complete, Ok("ab".into())));
}
