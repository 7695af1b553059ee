//! The answer of Messages: numbered blocks that begin, grow and end. Events of unknown kinds are let pass. Blocks of
//! unknown kinds, the provider's own tools among them, are kept whole and go back: there is nothing to run here.

use crate::draft::ReplyDraft;
use crate::errors;
use crate::protocol::{EventError, Progress, Protocol, count_at, cut_stream, event_json, text_at};
use piton_core::message::{FinishReason, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply};
use piton_http::sse::SseEvent;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The member of a text block that names its sources, there and back.
pub(super) const CITATIONS: &str = "citations";

/// An answer in the making.
#[derive(Debug, Default)]
pub struct AnthropicReply {
    draft: ReplyDraft,
    blocks: HashMap<u64, Block>,
    stop_reason: Option<String>,
    is_stopped: bool,
    /// All counts seen so far; what comes later and is not null replaces what came before.
    counts: Map<String, Value>,
    /// Whether what was written was counted: what the beginning says of that is a guess.
    is_output_counted: bool,
    response_id: Option<String>,
}

/// Where in the draft a block of the stream goes.
#[derive(Debug)]
enum Block {
    Text {
        place: usize,
    },
    Thinking {
        place: usize,
        is_whole: bool,
    },
    ToolUse {
        call: usize,
        given: Value,
    },
    /// A block that only the provider understands; its own tools among them.
    Foreign {
        place: usize,
        json: String,
    },
    Ignored,
}

impl Protocol for AnthropicReply {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError> {
        let Some(value) = event_json(event)? else { return Ok(Vec::new()) };
        let mut deltas = Vec::new();
        let index = count_at(&value, &["index"]);
        match text_at(&value, "type").unwrap_or(&event.event) {
            "message_start" => self.begin(&value["message"])?,
            "content_block_start" => self.open(index, &value["content_block"], &mut deltas),
            "content_block_delta" => self.grow(index, &value["delta"], &mut deltas),
            "content_block_stop" => self.close(index, &mut deltas),
            "message_delta" => {
                self.count(&value["usage"]);
                self.is_output_counted |= value["usage"]["output_tokens"].is_number();
                self.stop(&value["delta"]);
            }
            "message_stop" => self.is_stopped = true,
            "error" => return Err(errors::from_stream(value.get("error").unwrap_or(&value)).into()),
            // `ping`, and whatever is invented next.
            _ => errors::check_stream(&value)?,
        }
        Ok(deltas)
    }

    fn document(&mut self, document: &Value) -> Result<Vec<Delta>, ModelError> {
        let Some(blocks) = document.get("content").and_then(Value::as_array) else {
            return Err(errors::not_an_answer(document, "a message"));
        };
        let mut deltas = Vec::new();
        self.begin(document)?;
        for (index, block) in (0..).zip(blocks) {
            self.open(index, block, &mut deltas);
            self.close(index, &mut deltas);
        }
        self.stop(document);
        self.is_output_counted = true;
        self.is_stopped = true;
        Ok(deltas)
    }

    /// Thoughts that miss a word do not fit their signature any more, and are refused with it.
    fn gap(&mut self, _: &str) {
        self.draft.gap();
        for block in self.blocks.values_mut() {
            if let Block::Thinking { place, is_whole } = block {
                *is_whole = false;
                self.draft.opaque_mut(*place).map(Option::take);
            }
        }
    }

    fn progress(&self) -> Progress {
        if self.is_stopped {
            Progress::Complete
        } else if self.stop_reason.is_some() {
            Progress::Finished
        } else {
            Progress::Speaking
        }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        if self.progress() == Progress::Speaking {
            return Err(cut_stream());
        }
        // A server that forgot to end a block meant to.
        let mut open: Vec<u64> = self.blocks.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|index| self.close(index, &mut Vec::new()));
        let finish = self.stop_reason.as_deref().map_or(FinishReason::Other, finish_reason);
        if !self.is_output_counted {
            self.counts.shift_remove("output_tokens");
        }
        let reply = std::mem::take(&mut self.draft).into_reply(finish);
        Ok(Reply {
            finish_raw: self.stop_reason.take(),
            usage: usage(&Value::Object(std::mem::take(&mut self.counts))),
            response_id: self.response_id.take(),
            ..reply
        })
    }
}

fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" | "stop" => FinishReason::Stop,
        "tool_use" | "tool_calls" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" | "length" => FinishReason::Length,
        "refusal" | "content_filter" => FinishReason::ContentFilter,
        "pause_turn" => FinishReason::Paused,
        _ => FinishReason::Other,
    }
}

impl AnthropicReply {
    fn begin(&mut self, message: &Value) -> Result<(), ModelError> {
        let id = text_at(message, "id").map(ToOwned::to_owned);
        if self.response_id.is_some() && id.is_some() && self.response_id != id {
            return Err(ModelError::new(ModelErrorKind::Malformed, "a second answer began within the first"));
        }
        self.response_id = id.or_else(|| self.response_id.take());
        self.count(&message["usage"]);
        Ok(())
    }

    fn open(&mut self, index: u64, block: &Value, deltas: &mut Vec<Delta>) {
        let opened = match text_at(block, "type") {
            Some("text") => {
                let citations =
                    block.get("citations").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
                let place = self.draft.open_text(citations.map(|list| json!({ CITATIONS: list })));
                self.draft.extend(place, text_at(block, "text").unwrap_or_default(), deltas);
                Block::Text { place }
            }
            Some("thinking") => {
                let signature = text_at(block, "signature").map(|signature| json!({ "signature": signature }));
                let place = self.draft.open_reasoning(signature);
                self.draft.extend(place, text_at(block, "thinking").unwrap_or_default(), deltas);
                Block::Thinking { place, is_whole: true }
            }
            Some("redacted_thinking") => {
                self.draft.open_reasoning(Some(json!({ "redacted_thinking": block["data"] })));
                Block::Ignored
            }
            Some("tool_use") => {
                let call = self.draft.open_call();
                if let Some(draft) = self.draft.call_mut(call) {
                    draft.id = text_at(block, "id").map(ToOwned::to_owned);
                }
                self.draft.name_call(call, text_at(block, "name").unwrap_or_default(), deltas);
                Block::ToolUse { call, given: block["input"].clone() }
            }
            Some(_) => Block::Foreign {
                place: self.draft.open_reasoning(Some(json!({ "block": block }))),
                json: String::new(),
            },
            None => Block::Ignored,
        };
        self.blocks.insert(index, opened);
    }

    fn grow(&mut self, index: u64, delta: &Value, deltas: &mut Vec<Delta>) {
        match (self.blocks.get_mut(&index), text_at(delta, "type")) {
            (Some(Block::Text { place }), Some("text_delta")) => {
                self.draft.extend(*place, text_at(delta, "text").unwrap_or_default(), deltas);
            }
            (Some(Block::Text { place }), Some("citations_delta")) => {
                if let Some(opaque) = self.draft.opaque_mut(*place) {
                    let opaque = opaque.get_or_insert_with(|| json!({ CITATIONS: [] }));
                    opaque[CITATIONS]
                        .as_array_mut()
                        .map(|list| list.push(delta["citation"].clone()))
                        .unwrap_or_default();
                }
            }
            (Some(Block::Thinking { place, .. }), Some("thinking_delta")) => {
                self.draft.extend(*place, text_at(delta, "thinking").unwrap_or_default(), deltas);
            }
            (Some(Block::Thinking { place, is_whole: true }), Some("signature_delta")) => {
                let more = text_at(delta, "signature").unwrap_or_default();
                if let Some(opaque) = self.draft.opaque_mut(*place) {
                    let so_far = opaque.as_ref().and_then(|opaque| text_at(opaque, "signature")).unwrap_or_default();
                    *opaque = Some(json!({ "signature": format!("{so_far}{more}") }));
                }
            }
            (Some(Block::ToolUse { call, given: _ }), Some("input_json_delta")) => {
                self.draft.extend_call(*call, text_at(delta, "partial_json").unwrap_or_default(), deltas);
            }
            (Some(Block::Foreign { place: _, json }), Some("input_json_delta")) => {
                json.push_str(text_at(delta, "partial_json").unwrap_or_default());
            }
            (Some(Block::Foreign { place, json: _ }), Some("compaction_delta")) => {
                if let Some(Some(opaque)) = self.draft.opaque_mut(*place) {
                    opaque["block"]["content"] = delta["content"].clone();
                }
            }
            // A server that forgot to begin its text block meant to.
            (None, Some("text_delta")) => self.draft.say(text_at(delta, "text").unwrap_or_default(), deltas),
            // Deltas of kinds or blocks we do not know.
            (Some(_) | None, _) => {}
        }
    }

    /// Ends a block. Arguments that came whole with the block's beginning count if none came after it.
    fn close(&mut self, index: u64, deltas: &mut Vec<Delta>) {
        match self.blocks.remove(&index) {
            Some(Block::ToolUse { call, given }) => {
                let is_empty = self.draft.call(call).is_some_and(|draft| draft.json.is_empty());
                if is_empty && given.as_object().is_some_and(|given| !given.is_empty()) {
                    self.draft.extend_call(call, &given.to_string(), deltas);
                }
            }
            Some(Block::Foreign { place, json }) => {
                let input = serde_json::from_str::<Value>(&json).ok();
                if let (Some(Some(opaque)), Some(input)) = (self.draft.opaque_mut(place), input) {
                    opaque["block"]["input"] = input;
                }
            }
            Some(Block::Text { .. } | Block::Thinking { .. } | Block::Ignored) | None => {}
        }
    }

    fn stop(&mut self, delta: &Value) {
        if let Some(reason) = text_at(delta, "stop_reason") {
            self.stop_reason = Some(reason.to_owned());
        }
    }

    fn count(&mut self, counts: &Value) {
        for (name, count) in counts.as_object().into_iter().flatten().filter(|(_, count)| !count.is_null()) {
            self.counts.insert(name.clone(), count.clone());
        }
    }
}

/// The provider counts cached input apart; we count it in.
fn usage(counts: &Value) -> Usage {
    let cache_read_tokens = count_at(counts, &["cache_read_input_tokens"]);
    let cache_write_tokens = count_at(counts, &["cache_creation_input_tokens"]);
    Usage {
        input_tokens: count_at(counts, &["input_tokens"])
            .saturating_add(cache_read_tokens)
            .saturating_add(cache_write_tokens),
        output_tokens: count_at(counts, &["output_tokens"]),
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens: count_at(counts, &["output_tokens_details", "thinking_tokens"]),
    }
}
