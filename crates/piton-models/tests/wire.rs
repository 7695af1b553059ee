//! Conformance: every recorded answer of both protocols, cut in three ways, must decode to what an independent decoder
//! made of it (`tests/wire/README.md` says where the recordings are from and what `expected.json` holds).

#![allow(clippy::unwrap_used, reason = "a test")]

use piton_core::call::CallInput;
use piton_core::message::{FinishReason, Part, prose};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use piton_models::anthropic::AnthropicReply;
use piton_models::chat::ChatReply;
use piton_models::errors::{self, Refusal};
use piton_models::wire::{Body, Protocol};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

struct Case {
    name: String,
    meta: Value,
    expected: Value,
    body: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let mut metas: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.to_str().unwrap().ends_with(".meta.json"))
        .collect();
    metas.sort();
    metas.iter().map(|meta| load(meta)).collect()
}

fn load(meta_path: &Path) -> Case {
    let meta = json_file(meta_path);
    let stem = meta_path.to_str().unwrap().strip_suffix(".meta.json").unwrap().to_owned();
    let folder = meta_path.parent().unwrap();
    Case {
        name: stem.rsplit('/').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/"),
        expected: json_file(Path::new(&format!("{stem}.expected.json"))),
        body: std::fs::read(folder.join(meta["body_file"].as_str().unwrap())).unwrap(),
        meta,
    }
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn decode(case: &Case, chunk_bytes: usize) -> Result<Reply, ModelError> {
    let status = u16::try_from(case.meta["status"].as_u64().unwrap()).unwrap();
    if status != 200 {
        let headers: Vec<(&str, &str)> = case.meta["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
            .collect();
        let body = String::from_utf8_lossy(&case.body);
        return Err(errors::from_response(&Refusal { status, headers: &headers, body: &body }, SystemTime::now()));
    }
    let protocol: Box<dyn Protocol> = match case.meta["api"].as_str() {
        Some("anthropic") => Box::new(AnthropicReply::default()),
        _ => Box::new(ChatReply::default()),
    };
    let mut body = Body::new(protocol);
    for chunk in case.body.chunks(chunk_bytes) {
        body.push(chunk)?;
    }
    body.finish().map(|(_, reply)| reply)
}

/// A reply in the terms of `expected.json`.
fn described(reply: &Reply) -> Value {
    let mut reasoning = String::new();
    let mut attachments = [0, 0];
    let mut calls = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Reasoning { text, opaque } => {
                reasoning.push_str(text);
                let has = |key: &str| opaque.as_ref().is_some_and(|opaque| opaque.get(key).is_some());
                attachments[0] += i32::from(has("signature"));
                attachments[1] += i32::from(has("redacted_thinking"));
            }
            Part::ToolCall(call) => calls.push(match &call.input {
                CallInput::Json(value) => json!([call.provider_id, call.name, value]),
                CallInput::Invalid { raw, error: _ } => {
                    json!([call.provider_id, call.name, raw.chars().take(100).collect::<String>(), "invalid"])
                }
            }),
            Part::Text { .. } | Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
        }
    }
    let usage = reply.usage;
    json!({
        "text": prose(&reply.parts),
        "reasoning": squeezed(&reasoning),
        "signatures": attachments[0],
        "redacted": attachments[1],
        "calls": calls,
        "finish": reply.finish,
        "finish_raw": reply.finish_raw,
        "usage": [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens, usage.reasoning_tokens],
    })
}

/// The expectation in the same terms. Refusals are shown as text here; what is unknown counts 0.
fn expectation(case: &Case) -> Value {
    let expected = &case.expected;
    let text = |key: &str| expected[key].as_str().unwrap_or_default();
    let calls: Vec<Value> = expected["tool_calls"].as_array().unwrap().iter().map(expected_call).collect();
    let finish = match expected["finish_reason"].as_str() {
        Some("stop") => FinishReason::Stop,
        Some("tool_calls") => FinishReason::ToolCalls,
        Some("length") => FinishReason::Length,
        Some("content_filter" | "refusal") => FinishReason::ContentFilter,
        Some("error") => FinishReason::Error,
        // No reason was given, which the calls make up for.
        None | Some("") if !calls.is_empty() => FinishReason::ToolCalls,
        _ => FinishReason::Other,
    };
    let count = |key: &str| expected["usage"][key].as_u64().unwrap_or(0);
    let is_anthropic = case.meta["api"] == "anthropic";
    let attached = |key: &str| expected[key].as_u64().filter(|_| is_anthropic).unwrap_or(0);
    json!({
        "text": format!("{}{}", text("text"), if is_anthropic { "" } else { text("refusal") }),
        "reasoning": squeezed(text("reasoning")),
        "signatures": attached("signatures"),
        "redacted": attached("redacted_thinking"),
        "calls": calls,
        "finish": finish,
        "finish_raw": expected["finish_reason_raw"].as_str().filter(|raw| !raw.is_empty()),
        "usage": [count("input"), count("cached"), count("cache_write"), count("output"), count("reasoning")],
    })
}

fn expected_call(call: &Value) -> Value {
    // An empty id is none.
    let id = call["id"].as_str().filter(|id| !id.is_empty());
    if call["invalid_json"] == true {
        let raw: String = call["arguments_raw"].as_str().unwrap().chars().take(100).collect();
        return json!([id, call["name"], raw, "invalid"]);
    }
    json!([id, call["name"], call["arguments"]])
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

fn kind(name: &str) -> ModelErrorKind {
    match name {
        "rate_limit" => ModelErrorKind::RateLimited,
        "overloaded" => ModelErrorKind::Overloaded,
        "quota" => ModelErrorKind::QuotaSpent,
        "context_length" => ModelErrorKind::WindowExceeded,
        "auth" => ModelErrorKind::Auth,
        "not_found" => ModelErrorKind::NotFound,
        "server" => ModelErrorKind::Server,
        _ => ModelErrorKind::InvalidRequest,
    }
}

/// What differs, in words; empty where all is as expected.
fn differences(case: &Case, chunk_bytes: usize) -> Vec<String> {
    let decoded = decode(case, chunk_bytes);
    match (&case.expected["error"], decoded) {
        (Value::Null, Ok(reply)) => {
            let (seen, wanted) = (described(&reply), expectation(case));
            let keys = wanted.as_object().unwrap().keys();
            keys.filter(|key| seen[*key] != wanted[*key])
                .map(|key| format!("{key}: {} instead of {}", seen[key], wanted[key]))
                .collect()
        }
        (Value::Null, Err(error)) => vec![format!("failed: {error}")],
        (error, Ok(_)) => vec![format!("an answer instead of {error}")],
        (error, Err(seen)) => {
            let wanted = kind(error["kind"].as_str().unwrap());
            let is_told = error["message"].as_str().is_none_or(|message| {
                let words: Vec<&str> = message.split_whitespace().take(5).collect();
                seen.message.contains(&words.join(" "))
            });
            let mut found = Vec::new();
            if seen.kind != wanted {
                found.push(format!("error {:?} instead of {wanted:?}", seen.kind));
            }
            if !is_told {
                found.push(format!("error says {:?} instead of {}", seen.message, error["message"]));
            }
            found
        }
    }
}

#[test]
fn every_recording_decodes_as_the_reference_decoder_does_in_any_cut() {
    let cases = cases();
    let mut failures = Vec::new();
    for case in &cases {
        for chunk_bytes in [1, 7, case.body.len().max(1)] {
            let found = differences(case, chunk_bytes);
            if !found.is_empty() {
                failures.push(format!("{} in chunks of {chunk_bytes}:\n    {}", case.name, found.join("\n    ")));
                break;
            }
        }
    }
    assert!(cases.len() > 300, "the recordings are missing");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
