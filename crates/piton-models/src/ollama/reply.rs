//! The answer of Ollama: one JSON document a line, or a single one. Calls come whole, with their arguments as an object.

use crate::draft::ReplyDraft;
use crate::errors;
use crate::protocol::{
    EventError, Progress, Protocol, arguments, count_at, cut_stream, event_json, lost_call, text_at,
};
use piton_core::message::{FinishReason, Usage};
use piton_core::model::{Delta, ModelError, Reply};
use piton_http::sse::SseEvent;
use serde_json::Value;

/// The field of a message that holds reasoning, there and back.
pub(super) const THINKING: &str = "thinking";

/// An answer in the making.
#[derive(Debug, Default)]
pub struct OllamaReply {
    draft: ReplyDraft,
    finish_raw: Option<String>,
    is_done: bool,
    usage: Usage,
    /// Whether an event that spoke of a call could not be read.
    is_call_lost: bool,
}

impl Protocol for OllamaReply {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError> {
        match event_json(event)? {
            Some(chunk) => Ok(self.document(&chunk)?),
            None => Ok(Vec::new()),
        }
    }

    fn document(&mut self, chunk: &Value) -> Result<Vec<Delta>, ModelError> {
        errors::check_stream(chunk)?;
        if !chunk["message"].is_object() && chunk.get("done").is_none() {
            return Err(errors::not_an_answer(chunk, "a message"));
        }
        let mut deltas = Vec::new();
        let message = &chunk["message"];
        self.draft.think(text_at(message, THINKING).unwrap_or_default(), Some(THINKING), &mut deltas);
        self.draft.say(text_at(message, "content").unwrap_or_default(), &mut deltas);
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, &mut deltas);
        }
        if chunk["done"] == true {
            self.is_done = true;
            self.finish_raw = text_at(chunk, "done_reason").map(ToOwned::to_owned);
            self.usage = Usage {
                input_tokens: count_at(chunk, &["prompt_eval_count"]),
                output_tokens: count_at(chunk, &["eval_count"]),
                ..Usage::default()
            };
        }
        Ok(deltas)
    }

    /// A call comes whole, in one event.
    fn gap(&mut self, lost: &str) {
        self.draft.gap();
        self.is_call_lost |= lost.contains("tool_calls");
    }

    fn progress(&self) -> Progress {
        if self.is_done { Progress::Complete } else { Progress::Speaking }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        if !self.is_done {
            return Err(cut_stream());
        }
        if self.is_call_lost {
            return Err(lost_call());
        }
        let finish = self.finish_raw.as_deref().map_or(FinishReason::Other, finish_reason);
        let reply = std::mem::take(&mut self.draft).into_reply(finish);
        Ok(Reply { finish_raw: self.finish_raw.take(), usage: self.usage, ..reply })
    }
}

fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        // `load` and `unload` among them: the model was not asked anything.
        _ => FinishReason::Other,
    }
}

impl OllamaReply {
    fn call(&mut self, entry: &Value, deltas: &mut Vec<Delta>) {
        let function = &entry["function"];
        let json = arguments(function.get("arguments"));
        let name = text_at(function, "name").unwrap_or_default();
        if name.is_empty() && json.is_empty() {
            return;
        }
        let position = self.draft.open_call();
        if let Some(call) = self.draft.call_mut(position) {
            call.id = text_at(entry, "id").map(ToOwned::to_owned);
        }
        self.draft.name_call(position, name, deltas);
        self.draft.extend_call(position, &json, deltas);
    }
}
