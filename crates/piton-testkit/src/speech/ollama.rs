//! A scripted answer in the words of Ollama's own protocol: one JSON document a line.

use super::{Events, scripted};
use crate::script::Answer;
use serde_json::{Value, json};

pub(super) fn events(answer: &Answer, model: &str, turn: usize) -> Events {
    let say = |message: Value| {
        let mut message = message;
        message["role"] = "assistant".into();
        line(&json!({ "model": model, "message": message, "done": false }))
    };
    let thought = answer.reasoning.iter().map(|text| say(json!({ "content": "", "thinking": text })));
    let prose = answer.text_deltas().into_iter().map(|text| say(json!({ "content": text }))).collect();
    let mut rest = Vec::new();
    for (number, tool) in answer.tools.iter().enumerate() {
        let id = tool.id.clone().unwrap_or_else(|| format!("call_{turn}_{number}"));
        let arguments = serde_json::from_str(&tool.json()).unwrap_or_else(|_| Value::from(tool.json()));
        let function = json!({ "index": number, "name": tool.name, "arguments": arguments });
        rest.push(say(json!({ "content": "", "tool_calls": [{ "id": id, "function": function }] })));
    }
    let count = |key: &str, otherwise: u64| scripted(answer.usage.as_ref(), key).unwrap_or(otherwise);
    let reason = answer.finish.as_deref().filter(|finish| *finish != "tool_calls").unwrap_or("stop");
    rest.push(line(&json!({ "model": model, "message": { "role": "assistant", "content": "" }, "done": true,
        "done_reason": reason, "prompt_eval_count": count("input", 10), "eval_count": count("output", 5) })));
    Events { opening: thought.collect(), prose, rest }
}

pub(super) fn line(value: &Value) -> String {
    format!("{value}\n")
}
