//! The request body of Chat Completions. Same request, same bytes; one more message only adds bytes to `messages`, and
//! what may change from step to step stands behind them.

use crate::history::{self, IdRule, WireIds, function_tools, sent_input, sent_name, speaks};
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use serde_json::{Map, Value, json};

/// Whose Chat Completions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's own server, which renamed fields that all others kept.
    OpenAi,
    /// Mistral's, which is particular about ids.
    Mistral,
    /// DeepSeek's and Moonshot's: once a model thinks, each of its messages must come back with reasoning.
    Echoing,
    /// OpenRouter's, which hands the cache marks of Anthropic's models on.
    OpenRouter,
    /// Everybody else.
    Compatible,
}

/// The body that asks this request as a stream.
pub fn encode(request: &Request, dialect: Dialect) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    if let Some(tools) = function_tools(request) {
        body.insert("tools".into(), tools);
    }
    let mut list = messages(request, dialect);
    if dialect == Dialect::OpenRouter && request.model.starts_with("anthropic/") {
        mark_cached(&mut list, request);
    }
    body.insert("messages".into(), list.into());
    if !request.tools.is_empty() && !request.may_call {
        body.insert("tool_choice".into(), "none".into());
    }
    if let Some(tokens) = request.max_output_tokens {
        let key = match dialect {
            Dialect::OpenAi => "max_completion_tokens",
            Dialect::Mistral | Dialect::Echoing | Dialect::OpenRouter | Dialect::Compatible => "max_tokens",
        };
        body.insert(key.into(), tokens.into());
    }
    if dialect == Dialect::OpenAi && !request.session.is_empty() {
        body.insert("prompt_cache_key".into(), request.session.clone().into());
    }
    body.insert("stream".into(), true.into());
    // Mistral refuses to be asked for counts, and sends them.
    if dialect != Dialect::Mistral {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    Value::Object(body)
}

fn messages(request: &Request, dialect: Dialect) -> Vec<Value> {
    let rule = match dialect {
        Dialect::Mistral => IdRule::Nine,
        Dialect::OpenAi | Dialect::Echoing | Dialect::OpenRouter | Dialect::Compatible => IdRule::Free,
    };
    let ids = WireIds::of(&request.messages, rule);
    let mut list = Vec::new();
    if !request.system.is_empty() {
        list.push(json!({ "role": "system", "content": request.system }));
    }
    for message in &request.messages {
        match message.role {
            Role::User => list.extend(user(&message.parts)),
            Role::Assistant if speaks(message) => list.push(assistant(message, &ids, dialect)),
            Role::Assistant => {}
            Role::Tool => {
                list.extend(message.parts.iter().filter_map(|part| tool_result(part, &ids)));
                // A tool's answer holds text only, so its images follow in the person's place.
                let images = message.parts.iter().filter(|part| matches!(part, Part::Image { .. }));
                list.extend(user(images));
            }
        }
    }
    list
}

/// Marks what Anthropic's cache is to keep, at the places of [`crate::anthropic::encode`]. Only a block can carry a
/// mark, so every text becomes one, whether it is marked now or not: a mark that moves on changes nothing else.
fn mark_cached(list: &mut [Value], request: &Request) {
    for message in list.iter_mut().filter(|message| message["role"] != "assistant") {
        if let Value::String(text) = &message["content"] {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
    }
    let is_heard = |message: &Value| message["role"] == "user" || message["role"] == "tool";
    // What stands between two replies is one message there.
    let ends: Vec<usize> = (0..list.len())
        .rev()
        .filter(|&at| is_heard(&list[at]) && list.get(at + 1).is_none_or(|next| !is_heard(next)))
        .take(2)
        .collect();
    let system = list.first().filter(|first| first["role"] == "system").map(|_| 0);
    for at in ends.into_iter().chain(system) {
        list[at]["content"]
            .as_array_mut()
            .and_then(|blocks| blocks.last_mut())
            .map(history::mark_cached)
            .unwrap_or_default();
    }
    let first = list.get_mut(usize::from(system.is_some()));
    if let Some(block) = first.and_then(|first| first["content"].get_mut(history::context_end(request)?)) {
        history::mark_cached(block);
    }
}

/// A user message: a plain string, or blocks as soon as there is an image. Nothing to say, no message.
fn user<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Option<Value> {
    let blocks: Vec<Value> = parts.into_iter().filter_map(user_block).collect();
    match blocks.as_slice() {
        [] => None,
        [only] if only["type"] == "text" => Some(json!({ "role": "user", "content": only["text"] })),
        _ => Some(json!({ "role": "user", "content": blocks })),
    }
}

fn user_block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, .. } | Part::Note { text, .. } => {
            (!text.is_empty()).then(|| json!({ "type": "text", "text": text }))
        }
        Part::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
    }
}

fn assistant(message: &Message, ids: &WireIds, dialect: Dialect) -> Value {
    let mut body = Map::new();
    let prose = message.prose();
    body.insert("role".into(), "assistant".into());
    body.insert("content".into(), if prose.is_empty() { Value::Null } else { prose.into() });
    let reasoning = history::echoed(&message.parts, ECHOED_FIELD);
    if !reasoning.is_empty() {
        body.insert(ECHOED_FIELD.into(), reasoning.into());
    } else if dialect == Dialect::Echoing {
        // Nothing is refused, and so is the empty text: what another model said, or was said before thinking began.
        body.insert(ECHOED_FIELD.into(), " ".into());
    }
    let details = message.parts.iter().find_map(|part| match part {
        Part::Reasoning { text: _, opaque } => opaque.as_ref()?.get(DETAILS_FIELD),
        _ => None,
    });
    if let Some(details) = details {
        body.insert(DETAILS_FIELD.into(), details.clone());
    }
    let calls: Vec<Value> = message.calls().map(|call| tool_call(call, ids)).collect();
    if !calls.is_empty() {
        body.insert("tool_calls".into(), calls.into());
    }
    Value::Object(body)
}

/// The one reasoning field that servers want back: DeepSeek and Kimi refuse a tool turn without it.
pub(super) const ECHOED_FIELD: &str = "reasoning_content";

/// OpenRouter's blocks of reasoning, signed or encrypted, which it wants back as they came.
pub(super) const DETAILS_FIELD: &str = "reasoning_details";

fn tool_call(call: &ToolCall, ids: &WireIds) -> Value {
    let function = json!({ "name": sent_name(call.spelling()), "arguments": sent_input(&call.input).to_string() });
    let mut body = json!({ "id": ids.get(&call.id), "type": "function", "function": function });
    if let Some(extra) = call.opaque.as_ref().and_then(|opaque| opaque.get("extra_content")) {
        body["extra_content"] = extra.clone();
    }
    body
}

fn tool_result(part: &Part, ids: &WireIds) -> Option<Value> {
    match part {
        Part::ToolResult { call, tool: _, outcome } => {
            Some(json!({ "role": "tool", "tool_call_id": ids.get(call), "content": outcome.text }))
        }
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } | Part::Image { .. } => None,
    }
}
