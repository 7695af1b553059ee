//! The answer of Chat Completions. Which chunk belongs to which call is the one hard question here: servers omit the
//! index, reuse it, repeat ids and names, or send none. See [`ChatReply::place`].

use super::quick;
use super::request::{DETAILS_FIELD, ECHOED_FIELD};
use crate::draft::ReplyDraft;
use crate::errors;
use crate::protocol::{EventError, Progress, Protocol, arguments, count_at, cut_stream, event_json, text_at};
use crate::stop::StopReason;
use piton_core::message::{FinishReason, Usage};
use piton_core::model::{Delta, ModelError, Reply};
use piton_http::sse::SseEvent;
use serde_json::{Map, Value, json};

/// An answer in the making.
#[derive(Debug, Default)]
pub struct ChatReply {
    draft: ReplyDraft,
    /// The index under which the server last spoke of each call, by position among the calls.
    indexes: Vec<Option<u64>>,
    /// OpenRouter's reasoning in blocks, signatures included, put together from its pieces.
    details: Vec<Value>,
    /// Whether a piece of them may be missing: half a signature is refused.
    details_lost: bool,
    /// Where the answer is from, by the member that says it.
    sources: Map<String, Value>,
    stop: StopReason,
    is_refused: bool,
    /// Whether a chunk was seen: the first one has the answer's id in it.
    has_begun: bool,
    is_done: bool,
    usage: Usage,
    response_id: Option<String>,
}

impl Protocol for ChatReply {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError> {
        if event.data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(Vec::new());
        }
        if let Some(piece) = (self.has_begun && !event.is_damaged).then(|| quick::read(&event.data)).flatten() {
            let mut deltas = Vec::with_capacity(1);
            self.draft.think(&piece.reasoning_content.unwrap_or_default(), Some(ECHOED_FIELD), &mut deltas);
            self.draft.say(&piece.content.unwrap_or_default(), &mut deltas);
            if !deltas.is_empty() {
                self.stop.said_more();
            }
            return Ok(deltas);
        }
        match event_json(event)? {
            Some(chunk) => Ok(self.chunk(&chunk)?),
            None => Ok(Vec::new()),
        }
    }

    fn document(&mut self, document: &Value) -> Result<Vec<Delta>, ModelError> {
        let choices = document.get("choices").and_then(Value::as_array);
        if choices.is_none() && !self.has_begun {
            return Err(errors::not_an_answer(document, "a completion"));
        }
        // Some servers send their chunks as bare lines. Those hold a delta, a whole answer holds a message; with both,
        // Perplexity's answer is whole and its delta says nothing.
        let is_named_chunk = text_at(document, "object") == Some("chat.completion.chunk");
        let is_chunk = |choice: &Value| match choice.get("delta") {
            None => false,
            Some(delta) => is_named_chunk || self.has_begun || !choice["message"].is_object() || says_something(delta),
        };
        self.is_done = choices.is_some() && !choices.into_iter().flatten().any(is_chunk);
        self.chunk(document)
    }

    fn gap(&mut self, _: &str) {
        self.draft.gap();
        if self.draft.may_be_reasoning() {
            self.details_lost = true;
        }
    }

    fn progress(&self) -> Progress {
        if self.is_done { Progress::Complete } else { self.stop.progress() }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        if !self.is_done && !self.stop.is_end() {
            return Err(cut_stream());
        }
        let finish_raw = self.stop.take();
        let named = finish_raw.as_deref().map_or(FinishReason::Other, finish_reason);
        let finish = if self.is_refused { FinishReason::ContentFilter } else { named };
        self.attach_details();
        self.draft.attach_sources(std::mem::take(&mut self.sources));
        let reply = std::mem::take(&mut self.draft).into_reply(finish);
        Ok(Reply { finish_raw, usage: self.usage, response_id: self.response_id.take(), ..reply })
    }
}

/// Whether a delta holds more than the role.
fn says_something(delta: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    delta.as_object().is_some_and(|delta| delta.iter().any(|(key, value)| key != "role" && !is_empty(value)))
}

/// Gateways to other protocols shout theirs: `MAX_TOKENS`.
fn finish_reason(raw: &str) -> FinishReason {
    match raw.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "eos" | "stop_sequence" => FinishReason::Stop,
        "tool_calls" | "tool_use" | "function_call" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => FinishReason::Length,
        "content_filter" | "sensitive" | "refusal" | "safety" => FinishReason::ContentFilter,
        "error" | "network_error" => FinishReason::Error,
        _ => FinishReason::Other,
    }
}

impl ChatReply {
    fn chunk(&mut self, chunk: &Value) -> Result<Vec<Delta>, ModelError> {
        errors::check_stream(chunk)?;
        self.has_begun = true;
        if self.response_id.is_none() {
            self.response_id = text_at(chunk, "id").map(ToOwned::to_owned);
        }
        let mut deltas = Vec::new();
        let choices = chunk.get("choices").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for choice in choices {
            if count_at(choice, &["index"]) == 0 {
                self.choice(choice, &mut deltas)?;
            }
        }
        self.collect_sources(chunk, "citations");
        let usages = [chunk.get("usage"), chunk.pointer("/x_groq/usage"), chunk.pointer("/choices/0/usage")];
        if let Some(counts) = usages.into_iter().flatten().find(|counts| counts.is_object()) {
            self.usage = usage(counts);
        }
        Ok(deltas)
    }

    fn choice(&mut self, choice: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        errors::check_stream(choice)?;
        // In the chunks of some servers, the message repeats the answer so far.
        let keys = if self.is_done { ["message", "delta"] } else { ["delta", "message"] };
        let delta = keys.iter().find_map(|key| choice.get(key).filter(|value| value.is_object()));
        if let Some(delta) = delta {
            let before = deltas.len();
            self.reasoning(delta, deltas);
            self.content(&delta["content"], deltas);
            self.collect_sources(delta, ANNOTATIONS);
            if let Some(refusal) = text_at(delta, "refusal") {
                self.is_refused = true;
                self.draft.say(refusal, deltas);
            }
            let calls = delta.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            calls.iter().for_each(|entry| self.call(entry, deltas));
            // The old form of a call. Some servers send it beside the new one, and it is the same call.
            let function = delta.get("function_call").filter(|function| function.is_object() && calls.is_empty());
            if let Some(function) = function {
                self.call(&json!({ "index": 0, "function": function }), deltas);
            }
            if deltas.len() > before {
                self.stop.said_more();
            }
        }
        if let Some(reason) = text_at(choice, "finish_reason") {
            self.stop.because(reason, finish_reason(reason), self.draft.is_empty());
        }
        Ok(())
    }

    /// Visible reasoning goes by several names, and some servers send it under two of them at once.
    fn reasoning(&mut self, delta: &Value, deltas: &mut Vec<Delta>) {
        for detail in delta.get(DETAILS_FIELD).and_then(Value::as_array).into_iter().flatten() {
            self.collect_detail(detail);
        }
        if let Some(text) = text_at(delta, ECHOED_FIELD) {
            self.draft.think(text, Some(ECHOED_FIELD), deltas);
        } else if let Some(text) = text_at(delta, "reasoning").or_else(|| text_at(delta, "thinking")) {
            self.draft.think(text, None, deltas);
        } else {
            for detail in delta.get(DETAILS_FIELD).and_then(Value::as_array).into_iter().flatten() {
                let text = text_at(detail, "text").or_else(|| text_at(detail, "summary")).unwrap_or_default();
                self.draft.think(text, None, deltas);
            }
        }
    }

    /// Adds a piece to the block it goes on with, or as a new one.
    fn collect_detail(&mut self, piece: &Value) {
        let Some(block) = self.details.last_mut().filter(|block| goes_on(block, piece)) else {
            if piece.as_object().is_some_and(|piece| !piece.is_empty()) {
                self.details.push(piece.clone());
            }
            return;
        };
        for (key, more) in piece.as_object().into_iter().flatten() {
            match (key.as_str(), block.get(key).and_then(Value::as_str), more.as_str()) {
                ("text" | "summary" | "signature", Some(so_far), Some(more)) => {
                    block[key] = format!("{so_far}{more}").into();
                }
                _ if block.get(key).is_none_or(Value::is_null) => block[key] = more.clone(),
                _ => {}
            }
        }
    }

    /// A list of sources grows from chunk to chunk, or is said again in each.
    fn collect_sources(&mut self, from: &Value, key: &str) {
        for source in from.get(key).and_then(Value::as_array).into_iter().flatten() {
            let known = self.sources.entry(key).or_insert_with(|| json!([]));
            if let Some(known) = known.as_array_mut().filter(|known| !known.contains(source)) {
                known.push(source.clone());
            }
        }
    }

    fn attach_details(&mut self) {
        if self.details.is_empty() || self.details_lost {
            return;
        }
        let place = self.draft.first_reasoning().unwrap_or_else(|| self.draft.open_reasoning(None));
        if let Some(opaque) = self.draft.opaque_mut(place) {
            opaque.get_or_insert_with(|| json!({}))[DETAILS_FIELD] = std::mem::take(&mut self.details).into();
        }
    }

    /// Prose is a string, or (Mistral) a list of blocks among which there is reasoning.
    fn content(&mut self, content: &Value, deltas: &mut Vec<Delta>) {
        if let Some(text) = content.as_str() {
            self.draft.say(text, deltas);
        }
        for block in content.as_array().into_iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("thinking") => {
                    for piece in block.get("thinking").and_then(Value::as_array).into_iter().flatten() {
                        self.draft.think(text_at(piece, "text").unwrap_or_default(), None, deltas);
                    }
                    self.draft.think(text_at(block, "thinking").unwrap_or_default(), None, deltas);
                }
                _ => self.draft.say(text_at(block, "text").unwrap_or_default(), deltas),
            }
        }
    }

    fn call(&mut self, entry: &Value, deltas: &mut Vec<Delta>) {
        let entry = Entry::read(entry);
        if entry.is_empty() {
            return;
        }
        let (position, is_repetition) = match self.place(&entry) {
            Some(position) => (position, self.repeats(position, &entry)),
            None => {
                self.indexes.push(entry.index);
                (self.draft.open_call(), false)
            }
        };
        if is_repetition {
            return;
        }
        if let Some(call) = self.draft.call_mut(position) {
            call.id = call.id.take().or_else(|| entry.id.map(ToOwned::to_owned));
            if let Some(extra) = entry.extra {
                call.opaque = Some(json!({ "extra_content": extra }));
            }
        }
        self.draft.name_call(position, entry.name.unwrap_or_default(), deltas);
        self.draft.extend_call(position, &entry.json, deltas);
    }

    /// The call this entry goes on with; `None` where it begins one.
    ///
    /// An index names the last call that had it, unless a new id comes with a name. Without an index an id names its
    /// call. With neither, a name begins a call, and mere arguments go on with the last one. Whatever names a call
    /// whose arguments are whole and brings a name and new arguments begins another one.
    fn place(&self, entry: &Entry<'_>) -> Option<usize> {
        let found = match (entry.index, entry.id) {
            (Some(index), _) => self.indexes.iter().rposition(|&seen| seen == Some(index)),
            (None, Some(id)) => (0..self.draft.calls())
                .rev()
                .find(|&at| self.draft.call(at).and_then(|call| call.id.as_deref()) == Some(id)),
            (None, None) => self.draft.calls().checked_sub(1),
        }?;
        let call = self.draft.call(found)?;
        let Some(name) = entry.name else { return Some(found) };
        let has_other_id = matches!((entry.id, call.id.as_deref()), (Some(new), Some(old)) if new != old);
        let has_other_name = entry.id.is_none() && !call.name.is_empty() && call.name != name;
        let is_vague = entry.id.is_none() || (entry.index.is_none() && call.json != entry.json);
        let starts_over = is_vague && entry.json.trim_start().starts_with('{') && call.is_whole();
        (!has_other_id && !has_other_name && !starts_over).then_some(found)
    }

    /// Whether the server says the same call once more, as some do in their last chunk.
    fn repeats(&self, position: usize, entry: &Entry<'_>) -> bool {
        self.draft.call(position).is_some_and(|call| {
            entry.id.is_some()
                && entry.name.is_some()
                && !call.json.is_empty()
                && call.json == entry.json
                && call.is_whole()
        })
    }
}

/// Whether a piece of reasoning belongs to this block. What is encrypted comes whole.
fn goes_on(block: &Value, piece: &Value) -> bool {
    let is_same = |key: &str| block.get(key).filter(|value| !value.is_null()) == piece.get(key);
    is_same("type") && is_same("index") && piece.get("data").is_none()
}

/// The member of a message that names its sources. No server takes it back.
const ANNOTATIONS: &str = "annotations";

/// One entry of `tool_calls`, read leniently.
struct Entry<'v> {
    index: Option<u64>,
    id: Option<&'v str>,
    name: Option<&'v str>,
    json: String,
    extra: Option<&'v Value>,
}

impl<'v> Entry<'v> {
    fn read(entry: &'v Value) -> Self {
        let function = &entry["function"];
        Self {
            index: entry.get("index").and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok())),
            id: text_at(entry, "id"),
            name: text_at(function, "name").or_else(|| text_at(entry, "name")),
            json: arguments(function.get("arguments").or_else(|| entry.get("arguments"))),
            extra: entry.get("extra_content").filter(|extra| extra.is_object()),
        }
    }

    fn is_empty(&self) -> bool {
        self.id.is_none() && self.name.is_none() && self.json.is_empty() && self.extra.is_none()
    }
}

fn usage(counts: &Value) -> Usage {
    let first = |paths: &[&[&str]]| paths.iter().map(|path| count_at(counts, path)).find(|&n| n > 0).unwrap_or(0);
    let input_tokens = count_at(counts, &["prompt_tokens"]);
    let reasoning_tokens = first(&[&["completion_tokens_details", "reasoning_tokens"], &["reasoning_tokens"]]);
    let said_tokens = count_at(counts, &["completion_tokens"]);
    let with_reasoning_tokens = said_tokens.saturating_add(reasoning_tokens);
    // xAI counts reasoning beside the completion, which only the total tells.
    let is_beside = reasoning_tokens > 0
        && count_at(counts, &["total_tokens"]) == input_tokens.saturating_add(with_reasoning_tokens);
    Usage {
        input_tokens,
        output_tokens: if is_beside { with_reasoning_tokens } else { said_tokens },
        cache_read_tokens: first(&[
            &["prompt_tokens_details", "cached_tokens"],
            &["prompt_cache_hit_tokens"],
            &["cached_tokens"],
            &["num_cached_tokens"],
        ]),
        cache_write_tokens: first(&[
            &["prompt_tokens_details", "cache_write_tokens"],
            &["prompt_tokens_details", "cache_creation_tokens"],
        ]),
        reasoning_tokens,
    }
}
