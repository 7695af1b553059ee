//! The request body of Responses. Same request, same bytes; one more message only adds bytes to `input`, and what
//! may change from step to step stands behind it.

use crate::generation;
use crate::history::{self, IdRule, ToolAnswer, WireIds, sent_input, sent_name, speaks};
use crate::protocol::text_at;
use piton_core::call::CallInput;
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The member under which a custom tool's free text stands in a call's arguments.
pub(super) const CUSTOM: &str = "input";

/// The member of a text that names its sources, there and back.
pub(super) const ANNOTATIONS: &str = "annotations";

/// The body that asks this request as a stream.
pub fn encode(request: &Request) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    if !request.system.is_empty() {
        body.insert("instructions".into(), request.system.clone().into());
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            // Strict is the default here, and refuses most schemas.
            json!({ "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema, "strict": false })
        });
        body.insert("tools".into(), tools.collect());
    }
    body.insert("input".into(), input(request).into());
    if !request.tools.is_empty() && !request.may_call {
        body.insert("tool_choice".into(), "none".into());
    }
    if let Some(tokens) = request.max_output_tokens {
        body.insert("max_output_tokens".into(), tokens.into());
    }
    if !request.session.is_empty() {
        body.insert("prompt_cache_key".into(), request.session.clone().into());
    }
    // OpenAI refuses to be asked for the sealed reasoning of models that have none.
    if generation::openai_thinks(&request.model) != Some(false) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("store".into(), false.into());
    body.insert("stream".into(), true.into());
    Value::Object(body)
}

fn input(request: &Request) -> Vec<Value> {
    let ids = WireIds::of(&request.messages, IdRule::Word);
    let calls = request.messages.iter().flat_map(|message| message.calls());
    let customs: HashSet<&CallId> = calls.filter(|call| is_custom(call)).map(|call| &call.id).collect();
    let mut list = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::User => list.extend(user(message)),
            Role::Assistant if speaks(message) => list.extend(assistant(message, &ids)),
            Role::Assistant => {}
            Role::Tool => {
                let answers = history::answers(message);
                list.extend(answers.iter().map(|answer| result(answer, customs.contains(answer.call), &ids)));
            }
        }
    }
    list
}

fn user(message: &Message) -> Option<Value> {
    let blocks: Vec<Value> = message.parts.iter().filter_map(user_block).collect();
    (!blocks.is_empty()).then(|| json!({ "type": "message", "role": "user", "content": blocks }))
}

fn user_block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, .. } | Part::Note { text, .. } => (!text.is_empty()).then(|| input_text(text)),
        Part::Image { media_type, data } => Some(input_image(media_type, data)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
    }
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn input_image(media_type: &str, data: &str) -> Value {
    json!({ "type": "input_image", "image_url": format!("data:{media_type};base64,{data}") })
}

fn assistant(message: &Message, ids: &WireIds) -> Vec<Value> {
    let mut items = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, opaque } if !text.is_empty() => items.push(said(text, opaque.as_ref())),
            Part::Note { text, .. } if !text.is_empty() => items.push(said(text, None)),
            Part::Reasoning { text: _, opaque: Some(opaque) } => items.extend(opaque.get("item").map(unnamed)),
            Part::ToolCall(call) => items.push(tool_call(call, ids)),
            Part::Text { .. }
            | Part::Note { .. }
            | Part::Reasoning { text: _, opaque: None }
            | Part::ToolResult { .. }
            | Part::Image { .. } => {}
        }
    }
    // Reasoning that led to nothing is refused.
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    items
}

fn said(text: &str, opaque: Option<&Value>) -> Value {
    let mut piece = json!({ "type": "output_text", "text": text });
    if let Some(sources) = opaque.and_then(|opaque| opaque.get(ANNOTATIONS)) {
        piece[ANNOTATIONS] = sources.clone();
    }
    let mut item = json!({ "type": "message", "role": "assistant", "content": [piece] });
    if let Some(phase) = opaque.and_then(|opaque| opaque.get("phase")) {
        item["phase"] = phase.clone();
    }
    item
}

/// The item as it came, but for the id under which the server would look for it in a store that has nothing.
fn unnamed(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(item) = item.as_object_mut() {
        item.shift_remove("id");
        // A search has to say that it is over.
        if item["type"] != "web_search_call" {
            item.shift_remove("status");
        }
    }
    item
}

fn is_custom(call: &ToolCall) -> bool {
    call.opaque.as_ref().is_some_and(|opaque| opaque["kind"] == "custom_tool_call")
}

/// A call in a shape of the provider's own goes back as an ordinary one: it was answered like one.
fn tool_call(call: &ToolCall, ids: &WireIds) -> Value {
    let call_id = ids.get(&call.id);
    match &call.input {
        CallInput::Json(input) if is_custom(call) => {
            json!({ "type": "custom_tool_call", "call_id": call_id, "name": sent_name(call.spelling()), "input": text_at(input, CUSTOM).unwrap_or_default() })
        }
        CallInput::Json(_) | CallInput::Invalid { .. } => {
            let arguments = sent_input(&call.input).to_string();
            json!({ "type": "function_call", "call_id": call_id, "name": sent_name(call.spelling()), "arguments": arguments })
        }
    }
}

fn result(answer: &ToolAnswer<'_>, is_custom: bool, ids: &WireIds) -> Value {
    let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
    let output: Value = if answer.images.is_empty() {
        answer.outcome.text.clone().into()
    } else {
        let images = answer.images.iter().map(|(media_type, data)| input_image(media_type, data));
        std::iter::once(input_text(answer.text())).chain(images).collect()
    };
    json!({ "type": kind, "call_id": ids.get(answer.call), "output": output })
}
