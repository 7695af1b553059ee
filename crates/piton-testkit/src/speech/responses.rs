//! A scripted answer in the words of OpenAI's Responses.

use super::{Events, named, pieces, scripted};
use crate::script::Answer;
use serde_json::{Value, json};

pub(super) fn events(answer: &Answer, model: &str, turn: usize) -> Events {
    let mut script = Script { turn, output: Vec::new() };
    let response = json!({ "id": format!("resp_{turn}"), "object": "response", "model": model,
        "status": "in_progress", "output": [] });
    let mut opening = vec![event("response.created", json!({ "response": response }))];
    if let Some(text) = &answer.reasoning {
        let empty = json!({ "type": "reasoning", "summary": [], "encrypted_content": "" });
        opening.push(script.added(&empty));
        opening.push(script.delta("response.reasoning_summary_text.delta", text));
        let summary = json!([{ "type": "summary_text", "text": text }]);
        let secret = format!("sealed-{turn}");
        opening.push(script.done(json!({ "type": "reasoning", "summary": summary, "encrypted_content": secret })));
    }
    let (mut prose, mut rest) = (Vec::new(), Vec::new());
    let texts = answer.text_deltas();
    if !texts.is_empty() {
        prose.push(script.added(&json!({ "type": "message", "role": "assistant", "content": [] })));
        prose.extend(texts.iter().map(|text| script.delta("response.output_text.delta", text)));
        let content = json!([{ "type": "output_text", "text": texts.concat(), "annotations": [] }]);
        rest.push(script.done(json!({ "type": "message", "role": "assistant", "content": content })));
    }
    for (number, tool) in answer.tools.iter().enumerate() {
        let call_id = tool.id.clone().unwrap_or_else(|| format!("call_{turn}_{number}"));
        let item = |arguments: &str| json!({ "type": "function_call", "call_id": call_id, "name": tool.name, "arguments": arguments });
        rest.push(script.added(&item("")));
        let cut = pieces(&tool.json());
        rest.extend(cut.iter().map(|piece| script.delta("response.function_call_arguments.delta", piece)));
        rest.push(script.done(item(&tool.json())));
    }
    rest.push(end(answer, response, script.output));
    Events { opening, prose, rest }
}

/// The items told so far; the next one has the number of them.
struct Script {
    turn: usize,
    output: Vec<Value>,
}

impl Script {
    fn id(&self) -> String {
        format!("item_{}_{}", self.turn, self.output.len())
    }

    fn added(&self, item: &Value) -> String {
        let mut item = item.clone();
        item["id"] = self.id().into();
        event("response.output_item.added", json!({ "output_index": self.output.len(), "item": item }))
    }

    fn delta(&self, kind: &str, text: &str) -> String {
        event(kind, json!({ "output_index": self.output.len(), "item_id": self.id(), "delta": text }))
    }

    fn done(&mut self, mut item: Value) -> String {
        item["id"] = self.id().into();
        item["status"] = "completed".into();
        let told = event("response.output_item.done", json!({ "output_index": self.output.len(), "item": item }));
        self.output.push(item);
        told
    }
}

fn event(kind: &str, mut value: Value) -> String {
    value["type"] = kind.into();
    named(kind, &value)
}

fn end(answer: &Answer, mut response: Value, output: Vec<Value>) -> String {
    let (status, reason) = match answer.finish.as_deref() {
        None | Some("stop" | "tool_calls") => ("completed", None),
        Some("length") => ("incomplete", Some("max_output_tokens")),
        Some(other) => ("incomplete", Some(other)),
    };
    response["status"] = status.into();
    if let Some(reason) = reason {
        response["incomplete_details"] = json!({ "reason": reason });
    }
    response["output"] = output.into();
    response["usage"] = usage(answer.usage.as_ref());
    event(&format!("response.{status}"), json!({ "response": response }))
}

fn usage(usage: Option<&Value>) -> Value {
    if let Some(usage) = usage.filter(|usage| usage.get("input_tokens").is_some()) {
        return usage.clone();
    }
    let count = |key: &str, otherwise: u64| scripted(usage, key).unwrap_or(otherwise);
    let (input, output) = (count("input", 10), count("output", 5));
    json!({
        "input_tokens": input,
        "output_tokens": output,
        "total_tokens": input + output,
        "input_tokens_details": { "cached_tokens": count("cached", 0), "cache_write_tokens": count("cache_write", 0) },
        "output_tokens_details": { "reasoning_tokens": count("reasoning", 0) },
    })
}
