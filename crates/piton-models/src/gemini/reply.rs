//! The answer of Gemini: documents with parts, the same whether they come as events, as an array or as one. A part is
//! whole when it comes. There is no end mark: the reason to stop is the end, and the connection closes after it, save where
//! a gateway gives the reason too early ([`StopReason`]).

use crate::draft::ReplyDraft;
use crate::errors;
use crate::protocol::{
    EventError, Progress, Protocol, arguments, count_at, cut_stream, event_json, lost_call, text_at,
};
use crate::stop::StopReason;
use piton_core::message::{FinishReason, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply};
use piton_http::sse::SseEvent;
use serde_json::{Map, Value, json};

/// An answer in the making.
#[derive(Debug, Default)]
pub struct GeminiReply {
    draft: ReplyDraft,
    stop: StopReason,
    /// All counts seen so far; what comes later replaces what came before.
    counts: Map<String, Value>,
    /// Where the answer is from: what the provider looked up, and whom it quotes.
    sources: Map<String, Value>,
    response_id: Option<String>,
    /// Whether an event that spoke of a call could not be read.
    is_call_lost: bool,
}

impl Protocol for GeminiReply {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError> {
        match event_json(event)? {
            Some(chunk) => Ok(self.chunk(&chunk)?),
            None => Ok(Vec::new()),
        }
    }

    fn document(&mut self, document: &Value) -> Result<Vec<Delta>, ModelError> {
        const MEMBERS: [&str; 5] = ["candidates", "promptFeedback", "usageMetadata", "responseId", "modelVersion"];
        match MEMBERS.iter().any(|member| document.get(member).is_some()) {
            true => self.chunk(document),
            false => Err(errors::not_an_answer(document, "a piece of content")),
        }
    }

    /// A call comes whole, in one event.
    fn gap(&mut self, lost: &str) {
        self.draft.gap();
        self.is_call_lost |= lost.contains("functionCall");
    }

    fn progress(&self) -> Progress {
        self.stop.progress()
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        let is_end = self.stop.is_end();
        let Some(raw) = self.stop.take().filter(|_| is_end) else { return Err(cut_stream()) };
        if self.is_call_lost {
            return Err(lost_call());
        }
        self.draft.attach_sources(std::mem::take(&mut self.sources));
        let reply = std::mem::take(&mut self.draft).into_reply(finish_reason(&raw));
        Ok(Reply {
            finish_raw: Some(raw),
            usage: usage(&Value::Object(std::mem::take(&mut self.counts))),
            response_id: self.response_id.take(),
            ..reply
        })
    }
}

fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE" => FinishReason::Error,
        _ => FinishReason::Other,
    }
}

/// Parts that are not kept where they cannot be read: an image of the model's own is large and goes nowhere.
const SHOWN: &[&str] = &["text", "functionCall", "inlineData"];

impl GeminiReply {
    fn chunk(&mut self, chunk: &Value) -> Result<Vec<Delta>, ModelError> {
        errors::check_stream(chunk)?;
        if let Some(reason) = chunk.get("promptFeedback").and_then(|feedback| text_at(feedback, "blockReason")) {
            let words = format!("the provider blocked the prompt ({reason})");
            return Err(ModelError::new(ModelErrorKind::ContentFilter, words));
        }
        if self.response_id.is_none() {
            self.response_id = text_at(chunk, "responseId").map(ToOwned::to_owned);
        }
        let mut deltas = Vec::new();
        let candidates = chunk.get("candidates").and_then(Value::as_array).into_iter().flatten();
        for candidate in candidates.filter(|candidate| count_at(candidate, &["index"]) == 0) {
            let parts = candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten();
            let before = deltas.len();
            parts.for_each(|part| self.part(part, &mut deltas));
            if deltas.len() > before {
                self.stop.said_more();
            }
            for key in ["groundingMetadata", "citationMetadata"] {
                if let Some(found) = candidate.get(key).filter(|found| found.as_object().is_some_and(|f| !f.is_empty()))
                {
                    self.sources.insert(key.into(), found.clone());
                }
            }
            if let Some(reason) = text_at(candidate, "finishReason") {
                self.stop.because(reason, finish_reason(reason), self.draft.is_empty());
            }
        }
        let counts = chunk.get("usageMetadata").and_then(Value::as_object).into_iter().flatten();
        for (name, count) in counts.filter(|(_, count)| !count.is_null()) {
            self.counts.insert(name.clone(), count.clone());
        }
        Ok(deltas)
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) {
        let signature = text_at(part, "thoughtSignature").map(|signature| json!({ "thoughtSignature": signature }));
        if let Some(function) = part.get("functionCall").filter(|function| function.get("name").is_some()) {
            self.call(function, signature, deltas);
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            match signature {
                // A signed part goes back as it came, hence apart from its neighbours.
                Some(signature) if part["thought"] != true => {
                    let place = self.draft.open_text(Some(signature));
                    self.draft.extend(place, text, deltas);
                }
                signature if part["thought"] == true => {
                    self.draft.think(text, None, deltas);
                    // Thoughts do not go back, but what is signed of them does, right behind them.
                    if signature.is_some() {
                        self.draft.open_reasoning(signature);
                    }
                }
                _ => self.draft.say(text, deltas),
            }
        } else if part
            .as_object()
            .is_some_and(|part| !part.is_empty() && !SHOWN.iter().any(|key| part.contains_key(*key)))
        {
            // The provider's own tools, and whatever is invented next.
            self.draft.open_reasoning(Some(json!({ "part": part })));
        }
    }

    fn call(&mut self, function: &Value, signature: Option<Value>, deltas: &mut Vec<Delta>) {
        let position = self.draft.open_call();
        if let Some(call) = self.draft.call_mut(position) {
            call.id = text_at(function, "id").map(ToOwned::to_owned);
            call.opaque = signature;
        }
        self.draft.name_call(position, text_at(function, "name").unwrap_or_default(), deltas);
        self.draft.extend_call(position, &arguments(function.get("args")), deltas);
    }
}

/// What the provider's own tools brought in is part of the prompt; thoughts are counted beside the answer.
fn usage(counts: &Value) -> Usage {
    let count = |key: &str| count_at(counts, &[key]);
    let reasoning_tokens = count("thoughtsTokenCount");
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(reasoning_tokens),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        reasoning_tokens,
    }
}
