//! The answer of Responses: numbered items that begin, grow and end. What an item says at its end counts; what it said
//! on the way is for people to watch. Items are told apart by their number, since some servers change ids midway.
//!
//! The provider's own tools (web search and its kin) are noted and left alone: there is nothing to run here.

use super::request::{ANNOTATIONS, CUSTOM};
use crate::draft::ReplyDraft;
use crate::errors;
use crate::protocol::{EventError, Progress, Protocol, arguments, count_at, cut_stream, event_json, text_at};
use piton_core::message::{FinishReason, Usage};
use piton_core::model::{Delta, ModelError, Reply};
use piton_http::sse::SseEvent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An answer in the making.
#[derive(Debug, Default)]
pub struct ResponsesReply {
    draft: ReplyDraft,
    items: BTreeMap<u64, Item>,
    is_refused: bool,
    /// `completed`, `incomplete:max_output_tokens`, …: seen at the end only.
    finish_raw: Option<String>,
    usage: Usage,
    response_id: Option<String>,
}

/// Where in the draft an item of the stream goes.
#[derive(Debug)]
struct Item {
    id: Option<String>,
    place: Place,
    is_done: bool,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Message(usize),
    Reasoning(usize),
    Call(usize),
    /// A call whose input is free text, or an action of the provider's own shape: known at its end.
    WholeCall(usize),
    Elsewhere,
}

impl Protocol for ResponsesReply {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError> {
        let Some(value) = event_json(event)? else { return Ok(Vec::new()) };
        let mut deltas = Vec::new();
        let kind = text_at(&value, "type").unwrap_or(&event.event);
        let index = self.number(&value, kind);
        let more = text_at(&value, "delta").unwrap_or_default();
        match kind {
            "response.created" | "response.in_progress" => self.begin(&value["response"]),
            "response.output_item.added" => self.open(index, &value["item"], &mut deltas),
            "response.output_item.done" => self.close(index, &value["item"], &mut deltas),
            "response.output_text.delta" => self.say(index, more, &mut deltas),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.say(index, more, &mut deltas);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(index, more, &mut deltas);
            }
            "response.function_call_arguments.delta" => {
                if let Some(Place::Call(call)) = self.place(index) {
                    self.draft.extend_call(call, more, &mut deltas);
                }
            }
            "response.function_call_arguments.done" => {
                if let Some(Place::Call(call)) = self.place(index) {
                    self.draft.settle_call(call, text_at(&value, "arguments").unwrap_or_default(), &mut deltas);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.end(&value["response"], kind.trim_start_matches("response."), &mut deltas)?;
            }
            "error" => return Err(errors::from_stream(value.get("error").unwrap_or(&value)).into()),
            // Parts that begin and end, the steps of the provider's own tools, and whatever is invented next.
            _ => errors::check_stream(&value)?,
        }
        Ok(deltas)
    }

    fn document(&mut self, document: &Value) -> Result<Vec<Delta>, ModelError> {
        let mut deltas = Vec::new();
        if document.get("output").is_none() {
            return Err(errors::not_an_answer(document, "a response"));
        }
        self.end(document, "completed", &mut deltas)?;
        Ok(deltas)
    }

    /// What an item says at its end makes up for what was lost on the way.
    fn gap(&mut self, _: &str) {
        self.draft.gap();
    }

    fn progress(&self) -> Progress {
        if self.finish_raw.is_some() { Progress::Complete } else { Progress::Speaking }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        let Some(raw) = self.finish_raw.take() else { return Err(cut_stream()) };
        let finish = if self.is_refused { FinishReason::ContentFilter } else { finish_reason(&raw) };
        let reply = std::mem::take(&mut self.draft).into_reply(finish);
        Ok(Reply { finish_raw: Some(raw), usage: self.usage, response_id: self.response_id.take(), ..reply })
    }
}

fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "completed" => FinishReason::Stop,
        "incomplete:max_output_tokens" | "incomplete:max_tokens" | "incomplete" => FinishReason::Length,
        "incomplete:content_filter" => FinishReason::ContentFilter,
        "cancelled" => FinishReason::Error,
        _ => FinishReason::Other,
    }
}

impl ResponsesReply {
    fn begin(&mut self, response: &Value) {
        if self.response_id.is_none() {
            self.response_id = text_at(response, "id").map(ToOwned::to_owned);
        }
    }

    /// Which item an event is about. Servers that do not number their items (llama.cpp) name them, most of the time.
    fn number(&self, event: &Value, kind: &str) -> u64 {
        if let Some(index) = event.get("output_index").and_then(Value::as_u64) {
            return index;
        }
        let last = self.items.last_key_value();
        let next = last.map_or(0, |(index, _)| index.saturating_add(1));
        if kind == "response.output_item.added" {
            return next;
        }
        let id = text_at(event, "item_id").or_else(|| event.get("item").and_then(id));
        let named = self.items.iter().rev().find(|(_, item)| item.id.is_some() && item.id.as_deref() == id);
        let open = last.filter(|(_, item)| !item.is_done);
        named.or(open).map_or(next, |(index, _)| *index)
    }

    fn place(&self, index: u64) -> Option<Place> {
        self.items.get(&index).filter(|item| !item.is_done).map(|item| item.place)
    }

    fn open(&mut self, index: u64, item: &Value, deltas: &mut Vec<Delta>) {
        let place = match text_at(item, "type").unwrap_or_default() {
            "message" => {
                let phase = item.get("phase").filter(|phase| phase.is_string());
                Place::Message(self.draft.open_text(phase.map(|phase| json!({ "phase": phase }))))
            }
            "reasoning" => Place::Reasoning(self.draft.open_reasoning(None)),
            "function_call" => Place::Call(self.open_call(item, "name", deltas)),
            "custom_tool_call" => Place::WholeCall(self.open_call(item, "name", deltas)),
            kind if action(kind).is_some() => Place::WholeCall(self.open_call(item, "type", deltas)),
            _ => Place::Elsewhere,
        };
        self.items.insert(index, Item { id: id(item).map(ToOwned::to_owned), place, is_done: false });
    }

    fn open_call(&mut self, item: &Value, name_key: &str, deltas: &mut Vec<Delta>) -> usize {
        let position = self.draft.open_call();
        if let Some(call) = self.draft.call_mut(position) {
            call.id = text_at(item, "call_id").map(ToOwned::to_owned);
        }
        self.draft.name_call(position, text_at(item, name_key).unwrap_or_default(), deltas);
        position
    }

    fn say(&mut self, index: u64, text: &str, deltas: &mut Vec<Delta>) {
        match self.place(index) {
            Some(Place::Message(place)) => self.draft.extend(place, text, deltas),
            // A server that forgot to begin its item meant to.
            None if !self.items.contains_key(&index) => {
                self.open(index, &json!({ "type": "message" }), deltas);
                self.say(index, text, deltas);
            }
            Some(Place::Reasoning(_) | Place::Call(_) | Place::WholeCall(_) | Place::Elsewhere) | None => {}
        }
    }

    fn think(&mut self, index: u64, text: &str, deltas: &mut Vec<Delta>) {
        if let Some(Place::Reasoning(place)) = self.place(index) {
            self.draft.extend(place, text, deltas);
        }
    }

    /// Takes an item as it is in the end, whether or not its beginning was seen.
    fn close(&mut self, index: u64, item: &Value, deltas: &mut Vec<Delta>) {
        if !self.items.contains_key(&index) {
            self.open(index, item, deltas);
        }
        let Some(place) = self.place(index) else { return };
        match place {
            Place::Message(place) => {
                self.is_refused |= pieces(item, "content").any(|piece| text_at(piece, "refusal").is_some());
                self.draft.settle_text(place, &said(item, "content"), deltas);
                self.attach(place, item);
            }
            Place::Reasoning(place) => {
                let whole = format!("{}{}", said(item, "summary"), said(item, "content"));
                self.draft.settle_text(place, &whole, deltas);
                if let Some(opaque) = self.draft.opaque_mut(place) {
                    *opaque = text_at(item, "encrypted_content").map(|_| json!({ "item": item }));
                }
            }
            Place::Call(call) => {
                self.name_late(call, item, deltas);
                self.draft.settle_call(call, &arguments(item.get("arguments")), deltas);
            }
            Place::WholeCall(call) => self.close_whole(call, item, deltas),
            Place::Elsewhere => self.note_server_tool(item),
        }
        if let Some(item) = self.items.get_mut(&index) {
            item.is_done = true;
        }
    }

    /// The phase and the sources of a message. Sources count characters, hence are good for one piece of text only.
    fn attach(&mut self, place: usize, item: &Value) {
        let Some(opaque) = self.draft.opaque_mut(place) else { return };
        let pieces: Vec<&Value> = pieces(item, "content").collect();
        let sources = match pieces.as_slice() {
            [only] => only.get(ANNOTATIONS).filter(|list| list.as_array().is_some_and(|list| !list.is_empty())),
            _ => None,
        };
        let phase = item.get("phase").filter(|phase| phase.is_string());
        for (key, value) in [("phase", phase), (ANNOTATIONS, sources)] {
            if let Some(value) = value {
                opaque.get_or_insert_with(|| json!({}))[key] = value.clone();
            }
        }
    }

    fn name_late(&mut self, position: usize, item: &Value, deltas: &mut Vec<Delta>) {
        self.draft.name_call(position, text_at(item, "name").unwrap_or_default(), deltas);
        if let Some(call) = self.draft.call_mut(position) {
            call.id = call.id.take().or_else(|| text_at(item, "call_id").map(ToOwned::to_owned));
        }
    }

    fn close_whole(&mut self, position: usize, item: &Value, deltas: &mut Vec<Delta>) {
        self.name_late(position, item, deltas);
        let kind = text_at(item, "type").unwrap_or_default();
        let input = match action(kind) {
            Some(key) => item[key].to_string(),
            None => json!({ CUSTOM: item["input"].as_str().unwrap_or_default() }).to_string(),
        };
        self.draft.settle_call(position, &input, deltas);
        if let Some(call) = self.draft.call_mut(position) {
            call.opaque = Some(json!({ "kind": kind }));
        }
    }

    /// What has no words of its own but belongs to the answer is kept beside it, as an attachment without a text.
    fn note(&mut self, opaque: Value, is_worth_it: bool) {
        if is_worth_it {
            self.draft.open_reasoning(Some(opaque));
        }
    }

    fn note_server_tool(&mut self, item: &Value) {
        let kind = text_at(item, "type").unwrap_or_default();
        if kind == "compaction" {
            return self.note(json!({ "item": item }), true);
        }
        let mut opaque = json!({ "server_tool": { "type": kind, "name": item["name"] } });
        // Of these, only searches may go back without the id under which the server stored them.
        if kind == "web_search_call" {
            opaque["item"] = item.clone();
        }
        self.note(opaque, kind.ends_with("_call"));
    }

    /// Takes from the final list what the stream left open or never told. The list may be shorter than what was
    /// streamed, and counts without gaps; then it adds nothing.
    fn complete(&mut self, output: &[Value], deltas: &mut Vec<Delta>) {
        if output.len() < self.items.len() {
            return;
        }
        let seen: Vec<u64> = self.items.keys().copied().collect();
        let fresh = seen.last().map_or(0, |last| last.saturating_add(1));
        for (index, item) in seen.into_iter().chain(fresh..=u64::MAX).zip(output) {
            self.close(index, item, deltas);
        }
    }

    /// Takes the response as it is in the end. `told` is the status by the event that brings it: some leave it out of the
    /// response itself.
    fn end(&mut self, response: &Value, told: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        self.begin(response);
        let status = text_at(response, "status").unwrap_or(told);
        if [status, told].contains(&"failed") || !response["error"].is_null() {
            return Err(errors::from_stream(&response["error"]));
        }
        self.complete(response.get("output").and_then(Value::as_array).map_or(&[][..], Vec::as_slice), deltas);
        if response["usage"].is_object() {
            self.usage = usage(&response["usage"]);
        }
        let reason = response.get("incomplete_details").and_then(|details| text_at(details, "reason"));
        self.finish_raw = Some(reason.map_or_else(|| status.to_owned(), |reason| format!("{status}:{reason}")));
        Ok(())
    }
}

/// The member that holds what is asked for, of calls in shapes of the provider's own that the client runs.
fn action(kind: &str) -> Option<&'static str> {
    match kind {
        "shell_call" | "local_shell_call" | "computer_call" => Some("action"),
        "apply_patch_call" => Some("operation"),
        _ => None,
    }
}

fn id(item: &Value) -> Option<&str> {
    text_at(item, "id").or_else(|| text_at(item, "call_id"))
}

fn pieces<'v>(item: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    item.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn said(item: &Value, key: &str) -> String {
    pieces(item, key).filter_map(|piece| text_at(piece, "text").or_else(|| text_at(piece, "refusal"))).collect()
}

fn usage(counts: &Value) -> Usage {
    Usage {
        input_tokens: count_at(counts, &["input_tokens"]),
        output_tokens: count_at(counts, &["output_tokens"]),
        cache_read_tokens: count_at(counts, &["input_tokens_details", "cached_tokens"]),
        cache_write_tokens: count_at(counts, &["input_tokens_details", "cache_write_tokens"]),
        reasoning_tokens: count_at(counts, &["output_tokens_details", "reasoning_tokens"]),
    }
}
