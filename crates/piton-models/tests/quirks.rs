//! The 54 quirks of real providers, by number: what they send, and what is made of it. Each body is read whole and byte
//! by byte. Where a quirk is about more than the wire, the rest of it is tested where it lives; `docs/dev/wire-quirks.md`
//! lists every test.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::needless_pass_by_value, reason = "`json!(…)` reads better at the call than `&json!(…)`")]

use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, prose};
use piton_core::model::{ModelError, ModelErrorKind as Kind, Reply, Request};
use piton_models::chat::Dialect;
use piton_models::errors::{self, HttpRefusal};
use piton_models::protocol::WireProtocol::{self, Anthropic, Chat, Gemini, Ollama, Responses};
use piton_models::wire::{self, ResponseBody};
use piton_models::{anthropic, chat, gemini, responses};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;

/// Reads an answer whole and byte by byte, which must come to the same.
fn read(protocol: WireProtocol, answer: impl AsRef<[u8]>) -> Result<Reply, ModelError> {
    let answer = answer.as_ref();
    let in_chunks = |chunk_bytes: usize| {
        let mut body = ResponseBody::new(wire::protocol(protocol));
        answer.chunks(chunk_bytes).try_for_each(|chunk| body.push(chunk).map(drop))?;
        body.finish().map(|(_, reply)| reply)
    };
    let whole = in_chunks(answer.len().max(1));
    assert_eq!(in_chunks(1), whole);
    whole
}

fn sse<'e>(events: impl IntoIterator<Item = &'e Value>) -> String {
    events.into_iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// The chunks of Chat Completions with these deltas, then `finish`, then `[DONE]`.
fn chat_stream(deltas: &[Value], finish: Value) -> String {
    let chunk =
        |delta: &Value, finish: &Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let said: Vec<Value> = deltas.iter().map(|delta| chunk(delta, &Value::Null)).collect();
    format!("{}{}data: [DONE]\n\n", sse(&said), sse([&chunk(&json!({}), &finish)]))
}

fn chat_reply(deltas: &[Value]) -> Reply {
    read(Chat, chat_stream(deltas, "stop".into())).unwrap()
}

/// A delta with one entry of `tool_calls`.
fn entry(entry: Value) -> Value {
    json!({ "tool_calls": [entry] })
}

fn named(index: Option<u64>, id: Option<&str>, name: &str, arguments: Value) -> Value {
    let mut call = json!({ "function": { "name": name, "arguments": arguments } });
    if let Some(index) = index {
        call["index"] = index.into();
    }
    if let Some(id) = id {
        call["id"] = id.into();
    }
    entry(call)
}

/// Each call as `name arguments`, or `name invalid`.
fn calls(reply: &Reply) -> Vec<String> {
    let all = reply.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    let shown = all.map(|call| match &call.input {
        CallInput::Json(input) => format!("{} {input}", call.name),
        CallInput::Invalid { .. } => format!("{} invalid", call.name),
    });
    shown.collect()
}

fn anthropic_stream(events: &[Value], stop_reason: &str) -> String {
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "usage": { "input_tokens": 3 } } });
    let end =
        json!({ "type": "message_delta", "delta": { "stop_reason": stop_reason }, "usage": { "output_tokens": 5 } });
    let stop = json!({ "type": "message_stop" });
    sse([&start].into_iter().chain(events).chain([&end, &stop]))
}

fn text_block(text: &str) -> [Value; 3] {
    [
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
        json!({ "type": "content_block_stop", "index": 0 }),
    ]
}

fn gemini_answer(candidate: Value) -> String {
    sse([&json!({ "candidates": [candidate] })])
}

fn refused(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    errors::from_response(&HttpRefusal { status, headers, body }, SystemTime::UNIX_EPOCH)
}

/// A request whose history is what the model said, its calls answered.
fn request(mut parts: Vec<Part>) -> Request {
    let mut answers = Vec::new();
    for (number, part) in parts.iter_mut().enumerate() {
        if let Part::ToolCall(call) = part {
            call.id = format!("c1_{number}").as_str().into();
            let outcome = Outcome::ok("done");
            answers.push(Part::ToolResult { call: call.id.clone(), tool: call.name.clone(), outcome });
        }
    }
    let mut messages = vec![Message::user("msg_1".into(), "go"), Message::new(Role::Assistant, parts)];
    if !answers.is_empty() {
        messages.push(Message::new(Role::Tool, answers));
    }
    Request {
        session: "ses_1".into(),
        model: "m".into(),
        system: String::new(),
        tools: Arc::new([]),
        may_call: true,
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: Some(9),
    }
}

fn call(provider_id: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: String::new().as_str().into(),
        provider_id: Some(provider_id.into()),
        name: "read".into(),
        spelling: None,
        input: CallInput::parse("{}"),
        opaque: None,
    })
}

#[test]
fn quirk_01_the_last_chunk_has_counts_and_no_choices() {
    let counts = json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9 } });
    let answer = chat_stream(&[json!({ "content": "a" })], "stop".into());
    let reply = read(Chat, answer.replace("data: [DONE]", &format!("{}data: [DONE]", sse([&counts])))).unwrap();
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (7, 2));
}

#[test]
fn quirk_02_counts_in_every_chunk_are_not_summed() {
    let chunk = |output: u64, finish: Value| {
        json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": finish }],
            "usage": { "prompt_tokens": 7, "completion_tokens": output } })
    };
    let reply = read(Chat, sse(&[chunk(1, Value::Null), chunk(2, Value::Null), chunk(3, "stop".into())])).unwrap();
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (7, 3));
}

#[test]
fn quirk_03_counts_stand_under_the_providers_name() {
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }],
        "x_groq": { "usage": { "prompt_tokens": 4, "completion_tokens": 1 } } });
    assert_eq!(read(Chat, sse([&end])).unwrap().usage.input_tokens, 4);
}

#[test]
fn quirk_04_no_counts_at_all_are_unknown_and_no_failure() {
    assert_eq!(chat_reply(&[json!({ "content": "a" })]).usage.total(), 0);
    // Nor are counts that nobody can mean.
    for count in [json!(u64::MAX), json!(1e300), json!(-1), json!("many"), json!(1_u64 << 50)] {
        let end =
            json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": { "completion_tokens": count } });
        assert_eq!(read(Chat, sse([&end])).unwrap().usage.output_tokens, 0, "{count}");
    }
}

#[test]
fn quirk_05_reasoning_is_counted_beside_the_answer() {
    let usage = |total: u64| {
        let counts = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": total,
            "completion_tokens_details": { "reasoning_tokens": 20 } });
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": counts });
        read(Chat, sse([&end])).unwrap().usage.output_tokens
    };
    assert_eq!((usage(35), usage(15)), (25, 5));
}

#[test]
fn quirk_06_calls_without_an_index_are_told_apart_by_id_else_by_place() {
    let by_id = [
        named(None, Some("a"), "read", "{\"x\":".into()),
        named(None, Some("b"), "grep", "{\"y\":2}".into()),
        entry(json!({ "id": "a", "function": { "arguments": "1}" } })),
    ];
    assert_eq!(calls(&chat_reply(&by_id)), [r#"read {"x":1}"#, r#"grep {"y":2}"#]);
    let by_place = [
        named(None, None, "read", "{\"x\":".into()),
        entry(json!({ "function": { "arguments": "1}" } })),
        named(None, None, "grep", "{\"y\":2}".into()),
    ];
    assert_eq!(calls(&chat_reply(&by_place)), [r#"read {"x":1}"#, r#"grep {"y":2}"#]);
}

#[test]
fn quirk_07_an_index_is_used_again_and_indexes_have_gaps() {
    let reused = [
        named(Some(0), Some("a"), "read", "{}".into()),
        named(Some(0), Some("b"), "grep", "{\"y\":2}".into()),
        named(Some(7), Some("c"), "bash", "{}".into()),
    ];
    assert_eq!(calls(&chat_reply(&reused)), ["read {}", r#"grep {"y":2}"#, "bash {}"]);
}

#[test]
fn quirk_08_id_and_name_come_with_every_chunk() {
    let piece = |arguments: &str| named(Some(0), Some("a"), "read", arguments.into());
    assert_eq!(calls(&chat_reply(&[piece("{\"x\""), piece(":"), piece("1}")])), [r#"read {"x":1}"#]);
}

#[test]
fn quirk_08_the_old_form_of_a_call_beside_the_new_one_is_no_second_piece() {
    let pieces = ["{\"comm", "and\": \"e", "cho\"}"].map(|piece| {
        let function = json!({ "name": "bash", "arguments": piece });
        json!({ "function_call": function, "tool_calls": [{ "index": 0, "id": "a", "function": function }] })
    });
    assert_eq!(calls(&chat_reply(&pieces)), [r#"bash {"command":"echo"}"#]);
    let old = [json!({ "tool_calls": [], "function_call": { "name": "bash", "arguments": "{}" } })];
    assert_eq!(calls(&chat_reply(&old)), ["bash {}"]);
}

#[test]
fn quirk_09_calls_without_an_id_are_answered_under_one_of_ours() {
    let reply = chat_reply(&[named(Some(0), None, "read", "{}".into()), named(Some(1), Some(""), "grep", "{}".into())]);
    let body = chat::encode(&request(reply.parts), Dialect::Compatible);
    let [_, said, first, second] = body["messages"].as_array().unwrap().as_slice() else { panic!("{body}") };
    let ids = [&said["tool_calls"][0]["id"], &said["tool_calls"][1]["id"]];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids, [&first["tool_call_id"], &second["tool_call_id"]]);
    assert!(ids.iter().all(|id| id.as_str().is_some_and(|id| !id.is_empty())));
}

#[test]
fn quirk_10_arguments_come_as_an_object() {
    assert_eq!(calls(&chat_reply(&[named(Some(0), Some("a"), "read", json!({ "x": 1 }))])), [r#"read {"x":1}"#]);
    let line = json!({ "message": { "tool_calls": [{ "function": { "name": "read", "arguments": { "x": 1 } } }] },
        "done": true, "done_reason": "stop" });
    assert_eq!(calls(&read(Ollama, line.to_string()).unwrap()), [r#"read {"x":1}"#]);
}

#[test]
fn quirk_11_no_arguments_are_spelled_in_many_ways() {
    for nothing in [json!(""), json!("null"), Value::Null, json!("{}")] {
        let spelled = chat_reply(&[named(Some(0), Some("a"), "now", nothing.clone())]);
        assert_eq!(calls(&spelled), ["now {}"], "{nothing}");
    }
    let missing = chat_reply(&[entry(json!({ "index": 0, "id": "a", "function": { "name": "now" } }))]);
    assert_eq!(calls(&missing), ["now {}"]);
}

#[test]
fn quirk_12_an_entry_with_nothing_in_it_is_no_call() {
    let reply = chat_reply(&[json!({ "content": "a" }), entry(json!({ "index": 0, "function": { "arguments": "" } }))]);
    assert_eq!((calls(&reply).len(), reply.finish), (0, FinishReason::Stop));
}

#[test]
fn quirk_13_arguments_that_were_cut_are_not_runnable() {
    let cut = [named(Some(0), Some("a"), "write", "{\"path\":\"a\",\"content\":\"ha".into())];
    let reply = read(Chat, chat_stream(&cut, "length".into())).unwrap();
    assert_eq!((calls(&reply), reply.finish), (vec!["write invalid".to_owned()], FinishReason::Length));
}

#[test]
fn quirk_14_arguments_that_parse_already_are_not_the_end_of_them() {
    let pieces = [
        named(Some(0), Some("a"), "read", "{}".into()),
        entry(json!({ "index": 0, "function": { "arguments": "x" } })),
    ];
    assert_eq!(calls(&chat_reply(&pieces)), ["read invalid"]);
    // Whole arguments in a stream without an end are no call either.
    let unfinished = json!({ "choices": [{ "delta": pieces[0] }] });
    assert_eq!(read(Chat, sse([&unfinished])).unwrap_err().kind, Kind::CutStream);
}

#[test]
fn quirk_15_a_missing_or_unknown_reason_to_stop_is_told_by_the_content() {
    for reason in [Value::Null, json!(""), json!("eos"), json!("whatever")] {
        let reply = read(Chat, chat_stream(&[named(Some(0), Some("a"), "now", "{}".into())], reason.clone())).unwrap();
        assert_eq!(reply.finish, FinishReason::ToolCalls, "{reason}");
    }
    let of_text = |reason: &str| read(Chat, chat_stream(&[json!({ "content": "a" })], reason.into())).unwrap().finish;
    assert_eq!((of_text("eos"), of_text("MAX_TOKENS")), (FinishReason::Stop, FinishReason::Length));
}

#[test]
fn quirk_16_stop_is_said_although_there_are_calls() {
    assert_eq!(chat_reply(&[named(Some(0), Some("a"), "now", "{}".into())]).finish, FinishReason::ToolCalls);
    let block = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "tool_use", "id": "t", "name": "now", "input": {} } });
    assert_eq!(read(Anthropic, anthropic_stream(&[block], "end_turn")).unwrap().finish, FinishReason::ToolCalls);
    let part = json!({ "functionCall": { "name": "now", "args": {} } });
    let answer = gemini_answer(json!({ "content": { "parts": [part] }, "finishReason": "STOP" }));
    assert_eq!(read(Gemini, answer).unwrap().finish, FinishReason::ToolCalls);
}

#[test]
fn quirk_17_the_end_mark_is_missing() {
    let answer = chat_stream(&[json!({ "content": "a" })], "stop".into()).replace("data: [DONE]\n\n", "");
    assert_eq!(prose(&read(Chat, &answer).unwrap().parts), "a");
    let cut = answer.split_inclusive("\n\n").next().unwrap();
    assert_eq!(read(Chat, cut).unwrap_err().kind, Kind::CutStream);
}

#[test]
fn quirk_18_the_end_mark_of_another_protocol_means_nothing() {
    let answer = format!("data: [DONE]\n\n{}data: [DONE]\n\n", anthropic_stream(&text_block("a"), "end_turn"));
    assert_eq!(prose(&read(Anthropic, answer).unwrap().parts), "a");
    let end = json!({ "type": "response.completed", "response": { "status": "completed", "output": [] } });
    let said = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "a" });
    let answer = format!("{}data: [DONE]\n\n{}data: [DONE]\n\n", sse([&said]), sse([&end]));
    assert_eq!(prose(&read(Responses, answer).unwrap().parts), "a");
}

#[test]
fn quirk_19_comments_keep_the_connection_alive() {
    let answer = chat_stream(&[json!({ "content": "a" }), json!({ "content": "b" })], "stop".into());
    let answer = answer.replace("\n\n", "\n\n: OPENROUTER PROCESSING\n\n");
    assert_eq!(prose(&read(Chat, answer).unwrap().parts), "ab");
}

#[test]
fn quirk_20_lines_end_and_begin_in_every_way() {
    let answer = chat_stream(&[json!({ "content": "a" }), json!({ "content": "b" })], "stop".into());
    for (from, to) in [("\n", "\r\n"), ("\n", "\r"), ("data: ", "data:"), (",\"delta\"", ",\ndata: \"delta\"")] {
        let spelled = format!("\u{feff}{}", answer.replace(from, to));
        assert_eq!(prose(&read(Chat, &spelled).unwrap().parts), "ab", "{from:?} as {to:?}");
    }
}

#[test]
fn quirk_21_a_character_is_cut_in_two() {
    // `read` cuts every one of them.
    assert_eq!(
        prose(&chat_reply(&[json!({ "content": "grüße " }), json!({ "content": "🐍日本" })]).parts),
        "grüße 🐍日本"
    );
}

#[test]
fn quirk_22_the_last_event_does_not_end() {
    let answer = anthropic_stream(&text_block("a"), "end_turn");
    for missing in 1..=2 {
        assert_eq!(prose(&read(Anthropic, &answer[..answer.len() - missing]).unwrap().parts), "a");
    }
    let last = json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": "stop" }] });
    assert_eq!(prose(&read(Chat, format!("data: {last}")).unwrap().parts), "a");
}

#[test]
fn quirk_23_padding_stands_behind_and_within() {
    let answer = anthropic_stream(&text_block("a"), "end_turn").replace("}\n\n", "}       \n\n");
    assert_eq!(prose(&read(Anthropic, answer).unwrap().parts), "a");
    let chunk = json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": "stop" }], "obfuscation": "xK3" });
    assert_eq!(prose(&read(Chat, sse([&chunk])).unwrap().parts), "a");
}

#[test]
fn quirk_24_pings_and_kinds_that_nobody_knows_do_no_harm() {
    let mut events = vec![
        json!({ "type": "ping" }),
        json!({ "type": "invented_event", "index": 0 }),
        json!({ "type": "content_block_start", "index": 3, "content_block": { "type": "advisor", "note": "n" } }),
        json!({ "type": "content_block_delta", "index": 3, "delta": { "type": "advisor_delta", "note": "m" } }),
        json!({ "type": "content_block_stop", "index": 3 }),
    ];
    events.extend(text_block("a"));
    events.insert(6, json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "invented_delta" } }));
    let reply = read(Anthropic, anthropic_stream(&events, "end_turn")).unwrap();
    assert_eq!(prose(&reply.parts), "a");
    // The block goes back as it came.
    let body = anthropic::encode(&request(reply.parts), 1);
    assert_eq!(body["messages"][1]["content"][0], json!({ "type": "advisor", "note": "n" }));
}

#[test]
fn quirk_25_an_error_comes_within_the_stream() {
    for (kind, wanted) in [("overloaded_error", Kind::Overloaded), ("api_error", Kind::Server)] {
        let error = json!({ "type": "error", "error": { "type": kind, "message": "Sorry" } });
        let answer = format!("{}event: error\n{}", sse(&text_block("a")), sse([&error]));
        let error = read(Anthropic, answer).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (wanted, "Sorry"));
        assert!(error.kind.is_retryable());
    }
}

#[test]
fn quirk_26_an_error_is_a_chunk_or_part_of_a_choice() {
    let error = json!({ "message": "Rate limit reached", "code": 429 });
    for chunk in [json!({ "error": error }), json!({ "choices": [{ "delta": {}, "error": error }] })] {
        let answer = format!("{}{}", sse([&json!({ "choices": [{ "delta": { "content": "a" } }] })]), sse([&chunk]));
        assert_eq!(read(Chat, answer).unwrap_err().kind, Kind::RateLimited, "{chunk}");
    }
}

#[test]
fn quirk_27_an_answer_begins_twice() {
    let begin = |id: &str| json!({ "type": "message_start", "message": { "id": id } });
    let with = |id: &str| {
        let mut events = vec![begin(id)];
        events.extend(text_block("a"));
        read(Anthropic, anthropic_stream(&events, "end_turn"))
    };
    assert_eq!(prose(&with("msg_1").unwrap().parts), "a");
    assert_eq!(with("msg_2").unwrap_err().kind, Kind::Malformed);
}

#[test]
fn quirk_28_the_real_counts_come_at_the_end() {
    let start = json!({ "type": "message_start", "message": { "id": "m", "usage": { "input_tokens": 0, "output_tokens": 0 } } });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
        "usage": { "input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 9, "cache_creation_input_tokens": null } });
    let usage = read(Anthropic, sse([&start, &end, &json!({ "type": "message_stop" })])).unwrap().usage;
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (25, 5, 9));
}

#[test]
fn quirk_29_signed_and_sealed_thoughts_go_back_byte_for_byte_and_in_order() {
    let block =
        |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let mut events = vec![
        block(1, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(1, json!({ "type": "thinking_delta", "thinking": " hm\n" })),
        delta(1, json!({ "type": "signature_delta", "signature": "EqQB+/" })),
        delta(1, json!({ "type": "signature_delta", "signature": "x==" })),
        block(2, json!({ "type": "redacted_thinking", "data": "sealed+/=" })),
        block(3, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(3, json!({ "type": "signature_delta", "signature": "only" })),
    ];
    events.extend(text_block("a"));
    let reply = read(Anthropic, anthropic_stream(&events, "end_turn")).unwrap();
    let body = anthropic::encode(&request(reply.parts), 1);
    let said = json!([
        { "type": "thinking", "thinking": " hm\n", "signature": "EqQB+/x==" },
        { "type": "redacted_thinking", "data": "sealed+/=" },
        { "type": "thinking", "thinking": "", "signature": "only" },
        { "type": "text", "text": "a" },
    ]);
    assert_eq!(body["messages"][1]["content"].to_string(), said.to_string());
}

#[test]
fn quirk_30_reasoning_goes_back_where_a_tool_turn_is_refused_without_it() {
    let reply = chat_reply(&[json!({ "reasoning_content": "hm" }), named(Some(0), Some("a"), "now", "{}".into())]);
    let body = chat::encode(&request(reply.parts), Dialect::Echoing);
    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
    // What another model said had none, and must have some.
    let body = chat::encode(&request(vec![call("a")]), Dialect::Echoing);
    assert_eq!(body["messages"][1]["reasoning_content"], " ");
}

#[test]
fn quirk_31_reasoning_goes_by_many_names_and_is_read_once() {
    let details = json!([{ "type": "reasoning.text", "text": "hm" }]);
    let mistral = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }, { "type": "text", "text": "a" }]);
    for delta in [
        json!({ "reasoning_content": "hm", "content": "a" }),
        json!({ "reasoning": "hm", "content": "a" }),
        json!({ "reasoning": "hm", "reasoning_content": "hm", "content": "a" }),
        json!({ "reasoning": "hm", "reasoning_details": details, "content": "a" }),
        json!({ "reasoning_details": details, "content": "a" }),
        json!({ "content": mistral }),
    ] {
        let reply = chat_reply(std::slice::from_ref(&delta));
        let thought: Vec<&str> = reply.parts.iter().filter_map(thought).collect();
        assert_eq!((thought, &*prose(&reply.parts)), (vec!["hm"], "a"), "{delta}");
    }
}

fn thought(part: &Part) -> Option<&str> {
    match part {
        Part::Reasoning { text, opaque: _ } => Some(text),
        _ => None,
    }
}

#[test]
fn quirk_32_signatures_of_calls_go_back() {
    let signed = json!({ "functionCall": { "name": "now", "args": {} }, "thoughtSignature": "sig+/=" });
    let reply =
        read(Gemini, gemini_answer(json!({ "content": { "parts": [signed] }, "finishReason": "STOP" }))).unwrap();
    assert_eq!(gemini::encode(&request(reply.parts))["contents"][1]["parts"][0]["thoughtSignature"], "sig+/=");
    let extra = json!({ "google": { "thought_signature": "sig+/=" } });
    let reply =
        chat_reply(&[entry(json!({ "index": 0, "id": "a", "extra_content": extra, "function": { "name": "now" } }))]);
    let body = chat::encode(&request(reply.parts), Dialect::Compatible);
    assert_eq!(body["messages"][1]["tool_calls"][0]["extra_content"], extra);
}

#[test]
fn quirk_33_an_array_comes_instead_of_events() {
    let first = json!({ "candidates": [{ "content": { "parts": [{ "text": "a" }] } }] });
    let last = json!({ "candidates": [{ "content": { "parts": [{ "text": "b" }] }, "finishReason": "STOP" }] });
    assert_eq!(prose(&read(Gemini, format!("[{first}\n,\r\n{last}]")).unwrap().parts), "ab");
}

#[test]
fn quirk_34_an_answer_is_empty_or_blocked() {
    let usage = json!({ "usageMetadata": { "promptTokenCount": 3 } });
    let end = json!({ "candidates": [{ "finishReason": "STOP" }] });
    assert_eq!(read(Gemini, sse([&usage, &end])).unwrap().parts, []);
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" } });
    assert_eq!(read(Gemini, sse([&blocked])).unwrap_err().kind, Kind::ContentFilter);
}

#[test]
fn quirk_35_a_call_that_the_provider_could_not_read_is_a_failure() {
    for raw in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let reply = read(Gemini, gemini_answer(json!({ "finishReason": raw }))).unwrap();
        assert_eq!((reply.finish, reply.finish_raw.as_deref()), (FinishReason::Error, Some(raw)));
    }
}

#[test]
fn quirk_36_schemas_are_sent_where_plain_json_schema_is_understood() {
    let schema = json!({ "type": "object", "additionalProperties": false, "properties": { "x": { "type": ["string", "null"] } } });
    let spec = ToolSpec { name: "now".into(), description: "d".into(), schema: schema.clone(), effects: Effects::READ };
    let body = gemini::encode(&Request { tools: Arc::new([spec]), ..request(Vec::new()) });
    let declared = &body["tools"][0]["functionDeclarations"][0];
    assert_eq!((&declared["parametersJsonSchema"], declared.get("parameters")), (&schema, None));
}

#[test]
fn quirk_37_ids_are_of_the_form_that_each_provider_takes() {
    let history = || request(vec![call("functions.read:0"), call("toolu_1")]);
    let body = chat::encode(&history(), Dialect::Mistral);
    for (number, id) in ["tool_call_id"; 2].iter().enumerate() {
        let sent = body["messages"][2 + number][id].as_str().unwrap();
        assert!(sent.len() == 9 && sent.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{sent}");
        assert_eq!(body["messages"][1]["tool_calls"][number]["id"], sent);
    }
    let content = anthropic::encode(&history(), 1)["messages"][1]["content"].clone();
    let ids: Vec<&str> = content.as_array().unwrap().iter().filter_map(|block| block["id"].as_str()).collect();
    assert!(ids[0].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{ids:?}");
    assert_eq!(ids[1], "toolu_1");
}

#[test]
fn quirk_38_calls_in_the_text_of_hosted_models_stay_text() {
    let text = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let reply = chat_reply(&[json!({ "content": text })]);
    assert_eq!((&*prose(&reply.parts), calls(&reply).len()), (text, 0));
}

#[test]
fn quirk_39_filter_results_come_before_and_among_the_words() {
    let first =
        json!({ "choices": [], "prompt_filter_results": [{ "prompt_index": 0, "content_filter_results": {} }] });
    let answer = chat_stream(&[json!({ "content": "a" })], "content_filter".into());
    let reply = read(Chat, format!("{}{answer}", sse([&first]))).unwrap();
    assert_eq!((&*prose(&reply.parts), reply.finish), ("a", FinishReason::ContentFilter));
}

#[test]
fn quirk_40_chunks_have_no_object_and_other_ids_each_time() {
    let chunk = |id: &str, finish: Value| json!({ "id": id, "choices": [{ "delta": { "content": id }, "finish_reason": finish }] });
    assert_eq!(prose(&read(Chat, sse(&[chunk("a", Value::Null), chunk("b", "stop".into())])).unwrap().parts), "ab");
    let event = |kind: &str, id: &str| {
        json!({ "type": kind, "output_index": 0, "item_id": id, "delta": id,
        "item": { "type": "message", "id": id, "content": [{ "type": "output_text", "text": "xy" }] } })
    };
    let end = json!({ "type": "response.completed", "response": { "status": "completed" } });
    let answer = sse(&[
        event("response.output_item.added", "w"),
        event("response.output_text.delta", "x"),
        event("response.output_text.delta", "y"),
        event("response.output_item.done", "z"),
        end,
    ]);
    assert_eq!(prose(&read(Responses, answer).unwrap().parts), "xy");
}

/// The events of Responses for one message.
fn message_events(told: &str, whole: &str, phase: &str) -> [Value; 3] {
    let item =
        |text: &str| json!({ "type": "message", "phase": phase, "content": [{ "type": "output_text", "text": text }] });
    [
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item("") }),
        json!({ "type": "response.output_text.delta", "output_index": 0, "delta": told }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item(whole) }),
    ]
}

fn response_end(kind: &str, response: Value) -> Value {
    json!({ "type": format!("response.{kind}"), "response": response })
}

#[test]
fn quirk_41_the_end_lists_nothing_of_what_was_said() {
    let end = response_end("completed", json!({ "status": "completed", "output": [] }));
    let answer = sse(message_events("a", "a", "final_answer").iter().chain([&end]));
    assert_eq!(prose(&read(Responses, answer).unwrap().parts), "a");
}

#[test]
fn quirk_42_the_final_words_differ_from_the_streamed_ones_and_have_a_phase() {
    let end = response_end("completed", json!({ "status": "completed" }));
    let answer = sse(message_events("draft", "final", "commentary").iter().chain([&end]));
    let reply = read(Responses, answer).unwrap();
    assert_eq!(prose(&reply.parts), "final");
    assert_eq!(responses::encode(&request(reply.parts))["input"][1]["phase"], "commentary");
}

#[test]
fn quirk_43_an_answer_ends_incomplete_or_failed() {
    let incomplete = json!({ "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" } });
    let said = message_events("a", "a", "final_answer");
    let reply = read(Responses, sse(said.iter().chain([&response_end("incomplete", incomplete)]))).unwrap();
    assert_eq!(reply.finish, FinishReason::Length);
    let failed = json!({ "status": "failed", "error": { "code": "server_error", "message": "Sorry" } });
    let error = read(Responses, sse(said.iter().chain([&response_end("failed", failed)]))).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (Kind::Server, "Sorry"));
    // Some leave the status to the event.
    let incomplete = json!({ "incomplete_details": { "reason": "max_output_tokens" } });
    let reply = read(Responses, sse(said.iter().chain([&response_end("incomplete", incomplete)]))).unwrap();
    assert_eq!(reply.finish, FinishReason::Length);
    for (event, status) in [("failed", None), ("failed", Some("completed")), ("completed", Some("completed"))] {
        let mut failed = json!({ "error": { "code": "server_error", "message": "Sorry" } });
        failed["status"] = status.into();
        let error = read(Responses, sse(said.iter().chain([&response_end(event, failed)]))).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::Server, "Sorry"), "{event} {status:?}");
    }
}

#[test]
fn quirk_44_sealed_reasoning_goes_back_whole_without_the_id_of_a_store_that_has_nothing() {
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA+/==" });
    let function = json!({ "type": "function_call", "id": "fc_1", "call_id": "c", "name": "now", "arguments": "{}" });
    let answer = json!({ "status": "completed", "output": [reasoning, function] });
    let body = responses::encode(&request(read(Responses, answer.to_string()).unwrap().parts));
    assert_eq!(body["input"][1], json!({ "type": "reasoning", "summary": [], "encrypted_content": "gAAA+/==" }));
    assert_eq!(body["input"][2].get("id"), None);
    assert_eq!((&body["store"], &body["include"]), (&json!(false), &json!(["reasoning.encrypted_content"])));
    // Reasoning without what follows from it is refused.
    let alone = json!({ "status": "completed", "output": [reasoning] });
    let mut parts = read(Responses, alone.to_string()).unwrap().parts;
    parts.insert(0, Part::text("a"));
    assert_eq!(responses::encode(&request(parts))["input"].as_array().unwrap().len(), 2);
}

#[test]
fn quirk_45_a_document_or_a_page_comes_instead_of_a_stream() {
    let document =
        json!({ "object": "chat.completion", "choices": [{ "message": { "content": "a" }, "finish_reason": "stop" }] });
    assert_eq!(prose(&read(Chat, document.to_string()).unwrap().parts), "a");
    let error = read(Chat, "<!DOCTYPE html><title>Sign in</title>").unwrap_err();
    assert_eq!(error.kind, Kind::Malformed);
    // A document that is no answer is an error without its status, or nobody knows what.
    for protocol in [Chat, Gemini, Ollama, Anthropic, Responses] {
        let unknown = json!({ "object": "error", "message": "The model `m` does not exist", "code": 404 });
        let error = read(protocol, unknown.to_string()).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (Kind::NotFound, "The model `m` does not exist"),
            "{protocol:?}"
        );
        let error = read(protocol, r#"{"hello": "world"}"#).unwrap_err();
        assert_eq!(error.kind, Kind::Malformed, "{protocol:?}");
        assert!(error.message.ends_with(r#"{"hello":"world"}"#), "{protocol:?}: {error}");
        let error = read(protocol, r#"{"error": {"message": "slow", "code": 429}}"#).unwrap_err();
        assert_eq!(error.kind, Kind::RateLimited, "{protocol:?}");
    }
}

#[test]
fn quirk_46_a_wait_is_asked_for_in_many_ways() {
    let wait = |headers: &[(&str, &str)], body: &str| refused(429, headers, body).retry_after_ms;
    assert_eq!(wait(&[("Retry-After", "2")], ""), Some(2_000));
    assert_eq!(wait(&[("retry-after", "2"), ("retry-after-ms", "150")], ""), Some(150));
    assert_eq!(wait(&[("retry-after", "Thu, 01 Jan 1970 00:00:07 GMT")], ""), Some(7_000));
    assert_eq!(wait(&[], r#"{"error":{"message":"Please try again in 1.4s."}}"#), Some(1_400));
    let google = r#"[{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"9.5s"}]}}]"#;
    assert_eq!(wait(&[], google), Some(9_500));
    assert_eq!(wait(&[("x-ratelimit-reset-requests", "6m0s")], ""), Some(360_000));
    assert_eq!(wait(&[("anthropic-ratelimit-requests-reset", "1970-01-01T00:00:05Z")], ""), Some(5_000));
    assert!(!refused(500, &[("x-should-retry", "false")], "").is_retryable());
    assert!(refused(400, &[("x-should-retry", "true")], "").is_retryable());
}

#[test]
fn quirk_47_a_limit_that_is_no_limit_but_an_empty_account_is_not_waited_out() {
    let error =
        refused(429, &[], r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#);
    assert_eq!((error.kind, error.kind.is_retryable()), (Kind::QuotaSpent, false));
}

#[test]
fn quirk_48_a_prompt_that_does_not_fit_is_told_in_many_words() {
    for (status, words) in [
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."),
        (400, "prompt is too long: 250000 tokens > 200000 maximum"),
        (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "Please reduce the length of the messages or completion."),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        (422, "Input is too long for requested model."),
        (400, "Invalid request: Your request exceeded model token limit: 131072"),
        (413, "Request Entity Too Large"),
        (500, "Context size has been exceeded."),
    ] {
        let body = json!({ "error": { "message": words } }).to_string();
        assert_eq!(refused(status, &[], &body).kind, Kind::WindowExceeded, "{words}");
    }
    let local = r#"{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#;
    assert_eq!(refused(400, &[], local).kind, Kind::WindowExceeded);
}

/// The time-outs themselves are tested over HTTP, see the list.
#[test]
fn quirk_49_keep_alives_bring_nothing_to_watch() {
    for (protocol, alive) in [
        (Chat, ": PROCESSING\n\n"),
        (Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"),
        (Anthropic, "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        (Responses, "data: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n"),
    ] {
        let mut body = ResponseBody::new(wire::protocol(protocol));
        assert_eq!(body.push(alive.repeat(3).as_bytes()).unwrap(), [], "{alive}");
    }
}

#[test]
fn quirk_50_fields_go_to_those_who_take_them() {
    let body = |dialect| chat::encode(&request(Vec::new()), dialect);
    assert_eq!(body(Dialect::OpenAi)["max_completion_tokens"], 9);
    for dialect in [Dialect::Mistral, Dialect::Echoing, Dialect::Compatible] {
        let body = body(dialect);
        assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&json!(9), None));
        assert_eq!(body.get("prompt_cache_key"), None);
    }
    assert_eq!(body(Dialect::Mistral).get("stream_options"), None, "Mistral answers 422 to it");
    assert_eq!(body(Dialect::Compatible)["stream_options"], json!({ "include_usage": true }));
    for field in ["parallel_tool_calls", "temperature", "tool_choice"] {
        assert_eq!(body(Dialect::OpenAi).get(field), None, "{field} is refused by some, and said to nobody");
    }
}

#[test]
fn quirk_51_refusals_are_shown_and_pauses_are_told() {
    let reply = chat_reply(&[json!({ "refusal": "I cannot" })]);
    assert_eq!((&*prose(&reply.parts), reply.finish), ("I cannot", FinishReason::ContentFilter));
    let finish = |reason: &str| {
        let reply = read(Anthropic, anthropic_stream(&text_block("a"), reason)).unwrap();
        (reply.finish, reply.finish_raw.unwrap())
    };
    assert_eq!(finish("refusal"), (FinishReason::ContentFilter, "refusal".to_owned()));
    assert_eq!(finish("pause_turn"), (FinishReason::Paused, "pause_turn".to_owned()));
}

#[test]
fn quirk_52_a_call_that_wraps_calls_is_those_calls() {
    let uses = json!([{ "recipient_name": "functions.read", "parameters": { "x": 1 } }, { "recipient_name": "now", "parameters": {} }]);
    let wrapper = json!({ "tool_uses": uses }).to_string();
    let reply = chat_reply(&[named(Some(0), Some("a"), "multi_tool_use.parallel", wrapper.into())]);
    assert_eq!(calls(&reply), [r#"read {"x":1}"#, "now {}"]);
}

#[test]
fn quirk_53_a_server_fails_on_what_its_model_wrote() {
    let error = refused(500, &[], r#"{"error":{"code":500,"message":"Failed to parse input at pos 12: <tool_call>"}}"#);
    assert_eq!((error.kind, error.kind.is_retryable()), (Kind::Server, true));
}

#[test]
fn quirk_54_only_the_first_of_several_choices_is_the_answer() {
    let chunk = |index: u64, text: &str, finish: Value| json!({ "choices": [{ "index": index, "delta": { "content": text }, "finish_reason": finish }] });
    let answer = sse(&[
        chunk(1, "no", Value::Null),
        chunk(0, "a", Value::Null),
        chunk(1, "no", "length".into()),
        chunk(0, "b", "stop".into()),
    ]);
    let reply = read(Chat, answer).unwrap();
    assert_eq!((&*prose(&reply.parts), reply.finish), ("ab", FinishReason::Stop));
}

/// Beyond the list: where the words are from is kept, however often it is said.
#[test]
fn sources_of_an_answer_are_kept_once() {
    let source = json!({ "type": "url_citation", "url_citation": { "url": "https://a", "title": "A" } });
    let deltas = [json!({ "content": "so it is", "annotations": [source] }), json!({ "annotations": [source] })];
    let reply = chat_reply(&deltas);
    let [Part::Text { text, opaque: Some(opaque) }] = reply.parts.as_slice() else { panic!("{:?}", reply.parts) };
    assert_eq!((text.as_str(), opaque), ("so it is", &json!({ "annotations": [source] })));
    let sent = chat::encode(&request(reply.parts), Dialect::OpenAi);
    assert_eq!(sent["messages"][1], json!({ "role": "assistant", "content": "so it is" }), "no server takes them back");
}

/// Beyond the list: who always says `STOP` does not say that a call is missing.
#[test]
fn an_answer_that_has_lost_a_call_is_none() {
    let said = json!({ "candidates": [{ "content": { "parts": [{ "text": "I look." }] } }] });
    let call = json!({ "candidates": [{ "content": { "parts": [{ "functionCall": { "name": "read", "args": { "path": "a" } } }] } }] });
    let end = json!({ "candidates": [{ "content": { "parts": [] }, "finishReason": "STOP" }] });
    let cut = call.to_string().replace("\"a\"}}}]}}]}", "\"a");
    let answer = format!("data: {said}\n\ndata: {cut}\n\ndata: {end}\n\n");
    assert_eq!(read(Gemini, answer).unwrap_err().kind, Kind::Malformed);
    let chunk = |message: Value, done: bool| json!({ "message": message, "done": done, "done_reason": "stop" });
    let call = json!({ "tool_calls": [{ "function": { "name": "read", "arguments": { "path": "a" } } }] });
    let cut = chunk(call, false).to_string().replace("\"a\"}", "\"a");
    let answer = format!("{}\n{cut}\n{}\n", chunk(json!({ "content": "I look." }), false), chunk(json!({}), true));
    assert_eq!(read(Ollama, answer).unwrap_err().kind, Kind::Malformed);
}
