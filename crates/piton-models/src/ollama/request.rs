//! The request body of Ollama. Same request, same bytes; one more message only adds bytes to `messages`, and
//! what may change from step to step stands behind them.

use super::reply::THINKING;
use crate::history::{self, IdRule, WireIds, function_tools, sent_input, sent_name, speaks};
use piton_core::message::{Message, Part, Role};
use piton_core::model::Request;
use serde_json::{Map, Value, json};

/// The body that asks this request as a stream. No window larger than the model's is asked for, where that is known.
pub fn encode(request: &Request, window_tokens: Option<u64>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    if let Some(tools) = function_tools(request) {
        body.insert("tools".into(), tools);
    }
    body.insert("messages".into(), messages(request).into());
    let mut options = json!({ "num_ctx": window(request, &body, window_tokens) });
    if let Some(tokens) = request.max_output_tokens {
        options["num_predict"] = tokens.into();
    }
    body.insert("options".into(), options);
    body.insert("stream".into(), true.into());
    Value::Object(body)
}

/// The window to ask for. The server cuts what does not fit its usual few thousand tokens, from the front and without
/// a word: system prompt and task go first. A window takes memory, and another one loads the model anew, so it is what
/// the request needs, and grows by doubling.
fn window(request: &Request, body: &Map<String, Value>, window_tokens: Option<u64>) -> u64 {
    /// Room for a few steps before the first growth.
    const LEAST_TOKENS: u64 = 16_384;
    /// Room for an answer whose length nobody limited.
    const ANSWER_TOKENS: u64 = 4_096;
    /// Code has about four bytes to a token, other languages and JSON fewer.
    const BYTES_PER_TOKEN: u64 = 3;
    /// What the server makes of an image, about; its bytes say nothing.
    const IMAGE_TOKENS: u64 = 1_024;
    let mut bytes = 0;
    let mut images = 0;
    for message in body.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let pictures = message.get("images").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let picture_bytes: usize = pictures.iter().filter_map(Value::as_str).map(str::len).sum();
        images += pictures.len() as u64;
        bytes += message.to_string().len().saturating_sub(picture_bytes) as u64;
    }
    bytes += body.get("tools").map_or(0, |tools| tools.to_string().len() as u64);
    let answer = request.max_output_tokens.map_or(ANSWER_TOKENS, u64::from);
    let needed = bytes / BYTES_PER_TOKEN + images * IMAGE_TOKENS + answer;
    needed.max(LEAST_TOKENS).next_power_of_two().min(window_tokens.unwrap_or(u64::MAX))
}

fn messages(request: &Request) -> Vec<Value> {
    let ids = WireIds::of(&request.messages, IdRule::Free);
    let mut list = Vec::new();
    if !request.system.is_empty() {
        list.push(json!({ "role": "system", "content": request.system }));
    }
    for message in &request.messages {
        match message.role {
            Role::User => list.extend(user(message)),
            Role::Assistant if speaks(message) => list.push(assistant(message, &ids)),
            Role::Assistant => {}
            Role::Tool => {
                for answer in history::answers(message) {
                    let id = ids.get(answer.call);
                    list.push(json!({ "role": "tool", "content": answer.outcome.text, "tool_name": answer.tool,
                        "tool_call_id": id }));
                    let images: Vec<&str> = answer.images.iter().map(|(_, data)| *data).collect();
                    if !images.is_empty() {
                        list.push(json!({ "role": "user", "content": "", "images": images }));
                    }
                }
            }
        }
    }
    list
}

/// Words and images stand apart here, so the words are joined.
fn user(message: &Message) -> Option<Value> {
    let mut words: Vec<&str> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, .. } | Part::Note { text, .. } if !text.is_empty() => words.push(text),
            Part::Image { media_type: _, data } => images.push(data),
            Part::Text { .. }
            | Part::Note { .. }
            | Part::Reasoning { .. }
            | Part::ToolCall(_)
            | Part::ToolResult { .. } => {}
        }
    }
    let mut body = json!({ "role": "user", "content": words.join("\n\n") });
    if !images.is_empty() {
        body["images"] = images.clone().into();
    }
    (!words.is_empty() || !images.is_empty()).then_some(body)
}

fn assistant(message: &Message, ids: &WireIds) -> Value {
    let mut body = json!({ "role": "assistant", "content": message.prose() });
    let thinking = history::echoed(&message.parts, THINKING);
    if !thinking.is_empty() {
        body[THINKING] = thinking.into();
    }
    let calls: Vec<Value> = message
        .calls()
        .map(|call| {
            let function = json!({ "name": sent_name(call.spelling()), "arguments": sent_input(&call.input) });
            json!({ "id": ids.get(&call.id), "function": function })
        })
        .collect();
    if !calls.is_empty() {
        body["tool_calls"] = calls.into();
    }
    body
}
