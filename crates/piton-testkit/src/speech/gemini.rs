//! A scripted answer in the words of Gemini.

use super::{Events, data, scripted};
use crate::script::Answer;
use serde_json::{Value, json};

pub(super) fn events(answer: &Answer, model: &str, turn: usize) -> Events {
    let chunk = |parts: &Value, finish: Option<&str>| {
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        let mut chunk = json!({ "responseId": format!("gemini-{turn}"), "modelVersion": model });
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
            chunk["usageMetadata"] = usage(answer.usage.as_ref());
        }
        chunk["candidates"] = json!([candidate]);
        data(&chunk)
    };
    let thought = answer.reasoning.iter().map(|text| chunk(&json!([{ "text": text, "thought": true }]), None));
    let prose = answer.text_deltas().into_iter().map(|text| chunk(&json!([{ "text": text }]), None)).collect();
    let mut rest = Vec::new();
    for (number, tool) in answer.tools.iter().enumerate() {
        // What is no JSON cannot be told as it is; some gateways put text there.
        let args = serde_json::from_str(&tool.json()).unwrap_or_else(|_| Value::from(tool.json()));
        let mut function = json!({ "name": tool.name, "args": args });
        if let Some(id) = &tool.id {
            function["id"] = id.clone().into();
        }
        let mut part = json!({ "functionCall": function });
        if number == 0 {
            part["thoughtSignature"] = format!("sig-{turn}").into();
        }
        rest.push(chunk(&json!([part]), None));
    }
    rest.push(chunk(&json!([{ "text": "" }]), Some(finish(answer))));
    Events { opening: thought.collect(), prose, rest }
}

fn finish(answer: &Answer) -> &str {
    match answer.finish.as_deref() {
        None | Some("stop" | "tool_calls") => "STOP",
        Some("length") => "MAX_TOKENS",
        Some("content_filter") => "SAFETY",
        Some(other) => other,
    }
}

fn usage(usage: Option<&Value>) -> Value {
    if let Some(usage) = usage.filter(|usage| usage.get("promptTokenCount").is_some()) {
        return usage.clone();
    }
    let count = |key: &str, otherwise: u64| scripted(usage, key).unwrap_or(otherwise);
    let (input, output, thoughts) = (count("input", 10), count("output", 5), count("reasoning", 0));
    json!({
        "promptTokenCount": input,
        "candidatesTokenCount": output.saturating_sub(thoughts),
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": count("cached", 0),
        "totalTokenCount": input + output,
    })
}
