//! The request body of Messages. Same request, same bytes; one more message only adds bytes to `messages`, the cache
//! marks aside. There may be four: at the end of tools and system, at the end of the project's context in the first
//! message, and on the newest two user messages. The last two move along, which the provider's cache does not mind.
//!
//! What may change from step to step stands behind the messages. To the provider's cache `tool_choice` stands before
//! them all the same: a step that forbids calls reads tools and system only.

use super::reply::CITATIONS;
use crate::history::{self, IdRule, ToolAnswer, WireIds, mark_cached, sent_input, sent_name, speaks};
use piton_core::message::{Message, Part, Role};
use piton_core::model::Request;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Asked for where neither the request nor the model's limits say more: every current model allows this much.
pub const DEFAULT_MAX_TOKENS: u32 = 8_192;

/// The body that asks this request as a stream. `max_tokens` stands in where the request names no limit.
pub fn encode(request: &Request, max_tokens: u32) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema }))
        .collect();
    let has_tools = !tools.is_empty();
    if let Some(last) = tools.last_mut() {
        // The mark on the system prompt covers the tools: they stand before it.
        if request.system.is_empty() {
            mark_cached(last);
        }
        body.insert("tools".into(), tools.into());
    }
    if !request.system.is_empty() {
        let mut block = json!({ "type": "text", "text": request.system });
        mark_cached(&mut block);
        body.insert("system".into(), vec![block].into());
    }
    body.insert("messages".into(), messages(request).into());
    body.insert("max_tokens".into(), request.max_output_tokens.unwrap_or(max_tokens).into());
    if has_tools && !request.may_call {
        body.insert("tool_choice".into(), json!({ "type": "none" }));
    }
    body.insert("stream".into(), true.into());
    Value::Object(body)
}

/// Takes a wish for so many tokens of thought out of a body that would be refused with it: within a turn of calls one thinks
/// from its first reply on or not at all, and another model, a cut or a new wish may have begun it without. A model that
/// decides itself (`adaptive`) may begin at any time.
pub(crate) fn without_late_thoughts(body: &mut Value) {
    let Some(list) = body["messages"].as_array().filter(|_| body["thinking"]["type"] == "enabled") else { return };
    let kind =
        |message: &Value| message.pointer("/content/0/type").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Results come first in a message, so one that begins otherwise is a person's.
    let asked = list.iter().rposition(|message| message["role"] == "user" && kind(message) != "tool_result");
    let first = list.iter().skip(asked.map_or(0, |at| at + 1)).find(|message| message["role"] == "assistant");
    if first.is_some_and(|first| !["thinking", "redacted_thinking"].contains(&kind(first).as_str()))
        && let Some(body) = body.as_object_mut()
    {
        body.shift_remove("thinking");
    }
}

fn messages(request: &Request) -> Vec<Value> {
    let ids = WireIds::of(&request.messages, IdRule::Word);
    let left = LeftOpen::of(&request.messages);
    let mut turns: Vec<Turn> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::User => Turn::hear(&mut turns, message.parts.iter().filter_map(user_block).collect()),
            Role::Tool => {
                let answers = history::answers(message);
                Turn::hear(&mut turns, answers.iter().map(|answer| tool_result(answer, &ids)).collect());
            }
            Role::Assistant if speaks(message) => {
                let mut blocks = assistant_blocks(message, &ids);
                blocks.retain(|block| !left.holds(at, message, block));
                if !blocks.is_empty() {
                    turns.push(Turn { role: "assistant", blocks });
                }
            }
            Role::Assistant => {}
        }
    }
    for turn in turns.iter_mut().rev().filter(|turn| turn.role == "user").take(2) {
        turn.blocks.last_mut().map(mark_cached).unwrap_or_default();
    }
    if let Some(block) = turns.first_mut().and_then(|first| first.blocks.get_mut(history::context_end(request)?)) {
        mark_cached(block);
    }
    turns.into_iter().map(|turn| json!({ "role": turn.role, "content": turn.blocks })).collect()
}

/// The provider's own tool calls that its pause left open and that nobody will finish, since the user spoke instead. They
/// are refused. Those of a reply that is asked to go on, or waits for results of ours, are not among them.
struct LeftOpen<'m> {
    /// Where the user spoke last.
    before: usize,
    /// The calls that have a result.
    closed: HashSet<&'m str>,
}

impl<'m> LeftOpen<'m> {
    fn of(messages: &'m [Arc<Message>]) -> Self {
        let before = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let parts = messages.iter().flat_map(|message| &message.parts);
        let closed = parts.filter_map(|part| match part {
            Part::Reasoning { text: _, opaque } => opaque.as_ref()?.pointer("/block/tool_use_id")?.as_str(),
            Part::Text { .. }
            | Part::ToolCall(_)
            | Part::ToolResult { .. }
            | Part::Note { .. }
            | Part::Image { .. } => None,
        });
        Self { before, closed: closed.collect() }
    }

    fn holds(&self, at: usize, message: &Message, block: &Value) -> bool {
        let is_theirs = block["type"].as_str().is_some_and(|kind| kind.ends_with("_tool_use"));
        let is_closed = || block["id"].as_str().is_some_and(|id| self.closed.contains(id));
        at < self.before && is_theirs && message.calls().next().is_none() && !is_closed()
    }
}

/// A message of the wire. Roles alternate there, so neighbours of ours are merged.
struct Turn {
    role: &'static str,
    blocks: Vec<Value>,
}

impl Turn {
    /// Adds to the user's turn, or begins it. Tool results must come before anything else in it.
    fn hear(turns: &mut Vec<Self>, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if turns.last().is_none_or(|turn| turn.role != "user") {
            turns.push(Self { role: "user", blocks: Vec::new() });
        }
        if let Some(turn) = turns.last_mut() {
            turn.blocks.extend(blocks);
            turn.blocks.sort_by_key(|block| block["type"] != "tool_result");
        }
    }
}

fn user_block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, .. } | Part::Note { text, .. } => text_block(text),
        Part::Image { media_type, data } => Some(image_block(media_type, data)),
        Part::ToolResult { .. } | Part::Reasoning { .. } | Part::ToolCall(_) => None,
    }
}

fn image_block(media_type: &str, data: &str) -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
}

fn tool_result(answer: &ToolAnswer<'_>, ids: &WireIds) -> Value {
    let content: Value = if answer.images.is_empty() {
        answer.text().into()
    } else {
        let images = answer.images.iter().map(|(media_type, data)| image_block(media_type, data));
        std::iter::once(json!({ "type": "text", "text": answer.text() })).chain(images).collect()
    };
    let mut block = json!({ "type": "tool_result", "tool_use_id": ids.get(answer.call), "content": content });
    if answer.outcome.status.is_error() {
        block["is_error"] = true.into();
    }
    block
}

fn assistant_blocks(message: &Message, ids: &WireIds) -> Vec<Value> {
    message.parts.iter().filter_map(|part| assistant_block(part, ids)).collect()
}

fn assistant_block(part: &Part, ids: &WireIds) -> Option<Value> {
    match part {
        Part::Text { text, opaque } => {
            let mut block = text_block(text)?;
            if let Some(sources) = opaque.as_ref().and_then(|opaque| opaque.get(CITATIONS)) {
                block[CITATIONS] = sources.clone();
            }
            Some(block)
        }
        Part::Note { text, .. } => text_block(text),
        Part::Reasoning { text, opaque } => thinking_block(text, opaque.as_ref()?),
        Part::ToolCall(call) => {
            let input = sent_input(&call.input);
            Some(
                json!({ "type": "tool_use", "id": ids.get(&call.id), "name": sent_name(call.spelling()), "input": input }),
            )
        }
        Part::ToolResult { .. } | Part::Image { .. } => None,
    }
}

/// Blank text is refused by the provider.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

/// Reasoning goes back only as it was signed, and what only the provider understands as it came.
fn thinking_block(text: &str, opaque: &Value) -> Option<Value> {
    if let Some(data) = opaque.get("redacted_thinking") {
        return Some(json!({ "type": "redacted_thinking", "data": data }));
    }
    if let Some(block) = opaque.get("block") {
        return Some(block.clone());
    }
    let signature = opaque.get("signature")?;
    Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
}
