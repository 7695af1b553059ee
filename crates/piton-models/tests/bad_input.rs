//! Answers that nobody should send: a sound reading or a clear error, never a panic, and no more memory than was sent.

#![allow(clippy::unwrap_used, reason = "a test")]

use piton_core::call::CallInput;
use piton_core::message::{Part, prose};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use piton_models::protocol::WireProtocol::{self, Anthropic, Chat, Gemini, Ollama, Responses};
use piton_models::wire::{self, ResponseBody};
use serde_json::{Value, json};

const ALL: [WireProtocol; 5] = [Chat, Responses, Anthropic, Gemini, Ollama];

/// What a socket gives at a time.
const READ_BYTES: usize = 16 << 10;

fn read(protocol: WireProtocol, answer: &[u8]) -> Result<Reply, ModelError> {
    let mut body = ResponseBody::new(wire::protocol(protocol));
    answer.chunks(READ_BYTES).try_for_each(|chunk| body.push(chunk).map(drop))?;
    body.finish().map(|(_, reply)| reply)
}

/// The same words, and the same calls, as each protocol says them.
fn answer(protocol: WireProtocol, text: &str, calls: &[(&str, &str)]) -> Vec<u8> {
    let args = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_else(|_| json.into());
    let events: Vec<Value> = match protocol {
        Chat => {
            let entries: Vec<Value> = (0..).zip(calls).map(|(index, (id, json))| {
                json!({ "index": index, "id": id, "function": { "name": "write", "arguments": json } })
            }).collect();
            let delta = json!({ "content": text, "tool_calls": entries });
            vec![json!({ "choices": [{ "delta": delta, "finish_reason": "stop" }] })]
        }
        Responses => {
            let mut output = vec![json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] })];
            output.extend(calls.iter().map(
                |(id, json)| json!({ "type": "function_call", "call_id": id, "name": "write", "arguments": json }),
            ));
            vec![json!({ "type": "response.completed", "response": { "status": "completed", "output": output } })]
        }
        Anthropic => {
            let start = |index: usize, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
            let mut events = vec![start(0, json!({ "type": "text", "text": text }))];
            for (index, (id, json)) in (1..).zip(calls) {
                events.push(start(index, json!({ "type": "tool_use", "id": id, "name": "write", "input": {} })));
                let delta = json!({ "type": "input_json_delta", "partial_json": json });
                events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
            }
            events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }));
            events
        }
        Gemini => {
            let mut parts = vec![json!({ "text": text })];
            parts.extend(
                calls
                    .iter()
                    .map(|(id, json)| json!({ "functionCall": { "id": id, "name": "write", "args": args(json) } })),
            );
            vec![json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] })]
        }
        Ollama => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|(id, json)| json!({ "id": id, "function": { "name": "write", "arguments": args(json) } }))
                .collect();
            let message = json!({ "content": text, "tool_calls": calls });
            vec![json!({ "message": message, "done": true, "done_reason": "stop" })]
        }
    };
    let lines = events.iter().map(|event| match protocol {
        Ollama => format!("{event}\n"),
        Chat | Responses | Anthropic | Gemini => format!("data: {event}\n\n"),
    });
    lines.collect::<String>().into_bytes()
}

fn inputs(reply: &Reply) -> Vec<&CallInput> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(&call.input),
        _ => None,
    });
    calls.collect()
}

#[test]
fn seven_megabytes_in_one_line_are_read() {
    let text = "0123456".repeat(1 << 20);
    for protocol in ALL {
        let reply = read(protocol, &answer(protocol, &text, &[])).unwrap();
        assert!(prose(&reply.parts) == text, "{protocol:?}");
    }
}

#[test]
fn an_endless_line_is_an_error_and_not_kept() {
    let chunk = [b'x'; 1 << 20];
    for opening in ["data: {\"a\":\"", "{\"a\":\"", ": "] {
        let mut body = ResponseBody::new(wire::protocol(Chat));
        body.push(opening.as_bytes()).unwrap();
        let error = (0..100).find_map(|_| body.push(&chunk).err()).unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Endless, "the answer is one endless event"));
    }
}

/// Enough of them that anything done for each with all before it would take hours.
#[test]
fn a_hundred_thousand_empty_deltas_are_nothing() {
    const AT_ONCE: usize = 10_000;
    for (protocol, times, empty) in [
        (Chat, 10, "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"),
        (
            Anthropic,
            2,
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n",
        ),
        (Ollama, 2, "{\"message\":{\"content\":\"\"},\"done\":false}\n"),
    ] {
        let mut body = ResponseBody::new(wire::protocol(protocol));
        let many = empty.repeat(AT_ONCE);
        for _ in 0..times {
            assert_eq!(body.push(many.as_bytes()).unwrap(), []);
        }
        body.push(&answer(protocol, "a", &[])).unwrap();
        assert_eq!(body.finish().unwrap().1.parts, [Part::text("a")], "{protocol:?}");
    }
}

#[test]
fn a_megabyte_of_arguments_is_an_argument() {
    let input = json!({ "content": "0123456789".repeat(100 << 10) });
    let json = input.to_string();
    for protocol in ALL {
        let reply = read(protocol, &answer(protocol, "", &[("a", &json)])).unwrap();
        assert!(inputs(&reply) == [&CallInput::Json(input.clone())], "{protocol:?}");
    }
    // In pieces of a few bytes, none of which is looked at more than once or twice.
    let piece = |json: &str| json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "function": { "arguments": json } }] } }] });
    let begin = json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "write" } }] } }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
    let bytes: Vec<char> = json.chars().collect();
    let pieces = bytes.chunks(64).map(|chunk| piece(&chunk.iter().collect::<String>()));
    let stream: String =
        [begin].into_iter().chain(pieces).chain([end]).map(|event| format!("data: {event}\n\n")).collect();
    assert!(inputs(&read(Chat, stream.as_bytes()).unwrap()) == [&CallInput::Json(input)]);
}

#[test]
fn calls_of_the_same_id_are_as_many_calls() {
    for protocol in ALL {
        let reply = read(protocol, &answer(protocol, "", &[("same", "{\"a\":1}"), ("same", "{\"a\":2}")])).unwrap();
        let wanted = [CallInput::Json(json!({ "a": 1 })), CallInput::Json(json!({ "a": 2 }))];
        assert_eq!(inputs(&reply), wanted.iter().collect::<Vec<_>>(), "{protocol:?}");
    }
}

#[test]
fn counts_that_are_no_counts_are_unknown() {
    for odd in [json!(-5), json!("many"), json!(null), json!({}), json!(-1e300)] {
        let usage = json!({ "prompt_tokens": odd, "completion_tokens": odd, "total_tokens": odd,
            "prompt_tokens_details": odd, "completion_tokens_details": { "reasoning_tokens": odd } });
        let end = json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": "stop" }], "usage": usage });
        let reply = read(Chat, format!("data: {end}\n\n").as_bytes()).unwrap();
        assert_eq!(reply.usage.total(), 0, "{odd}");
    }
    // Nor is as many as there are numbers.
    let most = json!({ "input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX, "output_tokens": u64::MAX });
    let whole = json!({ "content": [{ "type": "text", "text": "a" }], "stop_reason": "end_turn", "usage": most });
    assert_eq!(read(Anthropic, whole.to_string().as_bytes()).unwrap().usage.total(), 0);
}

#[test]
fn bytes_that_are_no_text_never_reach_a_call() {
    let json = "{\"path\":\"grXXn\"}";
    for protocol in ALL {
        let text = String::from_utf8(answer(protocol, "words", &[("a", json)])).unwrap();
        let (before, after) = text.split_once("XX").unwrap();
        let damaged = [before.as_bytes(), b"\xFF\xC3", after.as_bytes()].concat();
        // The call was lost with its event, or is known to lack its arguments; what is lost with the end is the answer.
        match read(protocol, &damaged) {
            Ok(reply) => {
                assert!(inputs(&reply).iter().all(|input| matches!(input, CallInput::Invalid { .. })), "{protocol:?}");
                assert_eq!(reply.warnings.len(), 1, "{protocol:?}");
            }
            Err(error) => assert_eq!(error.kind, ModelErrorKind::Malformed, "{protocol:?}: {error}"),
        }
    }
}

#[test]
fn an_answer_of_nothing_but_garbage_is_given_up() {
    let mut body = ResponseBody::new(wire::protocol(Chat));
    let garbage = "data: {\"a\n\n".repeat(1_000);
    let error = body.push(garbage.as_bytes()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.len() < 300, "{error}");
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let mut body = ResponseBody::new(wire::protocol(Chat));
    let keep_alives = format!(": {}\n\n", "x".repeat(1 << 10)).repeat(1 << 10);
    let error = (0..200).find_map(|_| body.push(keep_alives.as_bytes()).err()).unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Endless, "the answer has no end"));
}

#[test]
fn words_without_an_end_are_given_up_long_before_memory_is() {
    for delta in [json!({ "content": "x".repeat(1 << 10) }), json!({ "reasoning_content": "x".repeat(1 << 10) })] {
        let mut body = ResponseBody::new(wire::protocol(Chat));
        let event = format!("data: {}\n\n", json!({ "choices": [{ "delta": delta }] })).repeat(1 << 10);
        let pushed = (0..200).find_map(|at| body.push(event.as_bytes()).err().map(|error| (at, error)));
        let (megabytes, error) = pushed.unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Endless, "the answer has no end"));
        assert!(megabytes <= 8, "{megabytes}");
        assert!(!error.kind.is_retryable(), "it would be as long again");
    }
}
