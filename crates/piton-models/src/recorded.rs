//! Cassettes: a model's replies in a file that people can write, and a recorder that writes one.
//!
//! A cassette is JSON lines, one reply each; empty lines and lines that begin with `#` or `//` are skipped:
//!
//! ```text
//! {"cassette":1,"about":"reads a file, then says so","window_tokens":8192}
//! {"reasoning":"Let me look.","calls":[{"name":"read","input":{"path":"a.txt"}}]}
//! {"text":"par","error":{"kind":"cut_stream","message":"the line went dead"}}
//! {"text":"The file says hello.","finish":"stop","usage":{"input_tokens":20,"output_tokens":5},"delay_ms":30}
//! ```
//!
//! The first line is optional; its `over` is what is said when there are no more replies. `delay_ms` waits before each delta of that reply. `parts` (the core's own form) takes
//! the place of `reasoning`, `text` and `calls` where their order or an attachment matters. `raw` in place of `input`
//! is text that need not be JSON.
//!
//! Which reply is next is told by the transcript: a request with three assistant messages in it gets the fourth
//! reply, so a resumed session goes on at the right place. Lines with an error are attempts at the reply that follows
//! them, each failing once.

use crate::history;
use crate::model::{Model, ModelLimits, ModelStream, Price};
use futures_util::stream::{self, StreamExt};
use piton_core::call::CallInput;
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A cassette being played.
#[derive(Debug)]
pub struct Recorded {
    name: String,
    limits: ModelLimits,
    /// What is said when there are no more replies.
    over: Option<String>,
    slots: Vec<Slot>,
}

/// A reply and the attempts that fail before it.
#[derive(Debug, Default)]
struct Slot {
    failures: Vec<Line>,
    failed: AtomicUsize,
    reply: Option<Line>,
}

/// Why a cassette cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the cassette: {reason}")]
pub struct CassetteError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    cassette: u32,
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    window_tokens: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u32>,
    images: Option<bool>,
    #[serde(default)]
    over: Option<String>,
}

/// One line: a reply, or an attempt at one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Line {
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<FinishReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl Recorded {
    /// Reads a cassette.
    pub fn parse(text: &str) -> Result<Self, CassetteError> {
        let mut recorded = Self {
            name: "recorded/cassette".to_owned(),
            limits: ModelLimits::default(),
            over: None,
            slots: Vec::new(),
        };
        let mut slot = Slot::default();
        let mut is_first = true;
        for (number, line) in (1..).zip(text.trim_start_matches('\u{FEFF}').lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
                continue;
            }
            let is_header = std::mem::replace(&mut is_first, false) && line.contains("\"cassette\"");
            if is_header
                && let Some(Header { window_tokens, max_output_tokens, images, over, .. }) = header(line, number)?
            {
                recorded.limits = ModelLimits { window_tokens, max_output_tokens, images };
                recorded.over = over;
                continue;
            }
            let line: Line = serde_json::from_str(line)
                .map_err(|error| CassetteError { line: number, reason: error.to_string() })?;
            if line.error.is_some() {
                slot.failures.push(line);
            } else {
                slot.reply = Some(line);
                recorded.slots.push(std::mem::take(&mut slot));
            }
        }
        if !slot.failures.is_empty() {
            recorded.slots.push(slot);
        }
        Ok(recorded)
    }

    /// The same cassette under another name, `provider/model`.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many replies it holds.
    pub fn replies(&self) -> usize {
        self.slots.iter().filter(|slot| slot.reply.is_some()).count()
    }

    /// The line that answers this request.
    fn line(&self, request: &Request) -> Result<&Line, ModelError> {
        let slot = self.slots.get(history::replies(&request.messages));
        let next = slot.and_then(|slot| {
            let attempt = slot.failed.fetch_add(1, Ordering::Relaxed);
            slot.failures.get(attempt).or(slot.reply.as_ref())
        });
        next.ok_or_else(|| {
            let message = self.over.clone();
            let message =
                message.unwrap_or_else(|| format!("the cassette has no more replies (it has {})", self.replies()));
            ModelError::new(ModelErrorKind::InvalidRequest, message)
        })
    }
}

/// The header; `None` if the line is a reply that merely mentions the word.
fn header(line: &str, number: usize) -> Result<Option<Header>, CassetteError> {
    let failed = |reason: String| CassetteError { line: number, reason };
    let value: Value = serde_json::from_str(line).map_err(|error| failed(error.to_string()))?;
    if value.get("cassette").is_none() {
        return Ok(None);
    }
    let header: Header = serde_json::from_value(value).map_err(|error| failed(error.to_string()))?;
    if header.cassette != 1 {
        return Err(failed(format!("version {} of the format is not known, only 1", header.cassette)));
    }
    Ok(Some(header))
}

impl Model for Recorded {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn price(&self) -> Option<Price> {
        Some(Price::FREE)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let line = match self.line(&request) {
            Ok(line) => line.clone(),
            Err(error) => return Box::pin(stream::iter([Err(error)])),
        };
        let parts = line.parts();
        let delay = line.delay_ms.map(Duration::from_millis);
        let deltas = stream::iter(deltas(&parts)).then(move |delta| async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            Ok(ModelEvent::Delta(delta))
        });
        let end = line.end(parts);
        Box::pin(deltas.chain(stream::iter([end])))
    }
}

impl Line {
    fn parts(&self) -> Vec<Part> {
        if !self.parts.is_empty() {
            return self.parts.clone();
        }
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            parts.push(Part::Reasoning { text: self.reasoning.clone(), opaque: None });
        }
        if !self.text.is_empty() {
            parts.push(Part::text(&self.text));
        }
        parts.extend(self.calls.iter().map(|call| Part::ToolCall(call.tool_call())));
        parts
    }

    fn end(self, parts: Vec<Part>) -> Result<ModelEvent, ModelError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let usual = if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        Ok(ModelEvent::Done(Box::new(Reply {
            parts,
            finish: self.finish.unwrap_or(usual),
            finish_raw: self.finish_raw,
            usage: self.usage.unwrap_or_default(),
            response_id: self.response_id,
            warnings: Vec::new(),
        })))
    }

    /// The line for a reply: in the simple form where that says it all.
    fn of(reply: &Reply) -> Self {
        let mut line = Self {
            finish: Some(reply.finish),
            finish_raw: reply.finish_raw.clone(),
            usage: Some(reply.usage),
            response_id: reply.response_id.clone(),
            ..Self::default()
        };
        for part in &reply.parts {
            match part {
                Part::Text { text, .. } => line.text.push_str(text),
                Part::Reasoning { text, opaque: _ } => line.reasoning.push_str(text),
                Part::ToolCall(call) => line.calls.push(Call::of(call)),
                Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
            }
        }
        if line.parts() != reply.parts {
            line.text.clear();
            line.reasoning.clear();
            line.calls.clear();
            line.parts.clone_from(&reply.parts);
        }
        line
    }
}

impl Call {
    fn tool_call(&self) -> ToolCall {
        let input = match (&self.raw, &self.input) {
            (Some(raw), _) => CallInput::parse(raw),
            (None, input) => CallInput::from_value(input.clone().unwrap_or_default()),
        };
        ToolCall {
            id: CallId(String::new()),
            provider_id: self.id.clone(),
            name: self.name.clone(),
            spelling: None,
            input,
            opaque: None,
        }
    }

    fn of(call: &ToolCall) -> Self {
        let (input, raw) = match &call.input {
            CallInput::Json(value) => (Some(value.clone()), None),
            CallInput::Invalid { raw, error: _ } => (None, Some(raw.clone())),
        };
        Self { name: call.spelling().to_owned(), input, raw, id: call.provider_id.clone() }
    }
}

fn deltas(parts: &[Part]) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut calls = 0..;
    for part in parts {
        match part {
            Part::Text { text, .. } => deltas.extend(pieces(text).map(|text| Delta::Text { text })),
            Part::Reasoning { text, opaque: _ } => deltas.extend(pieces(text).map(|text| Delta::Reasoning { text })),
            Part::ToolCall(call) => {
                let index = calls.next().unwrap_or_default();
                let json = match &call.input {
                    CallInput::Json(value) => value.to_string(),
                    CallInput::Invalid { raw, error: _ } => raw.clone(),
                };
                deltas.push(Delta::CallBegan { index, name: call.name.clone() });
                deltas.push(Delta::CallInput { index, json });
            }
            Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
        }
    }
    deltas
}

/// Text as a model streams it: a few words at a time.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    const PIECE_CHARS: usize = 16;
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

/// A model whose replies are written down as a cassette while they are used.
pub struct Recorder<M> {
    model: M,
    tape: Arc<Mutex<dyn Write + Send>>,
}

impl<M: Model> Recorder<M> {
    /// Records this model. Each reply is one line, written when it is whole; one that nobody waited for is not.
    pub fn new(model: M, tape: impl Write + Send + 'static) -> Self {
        Self { model, tape: Arc::new(Mutex::new(tape)) }
    }
}

impl<M: Model> Model for Recorder<M> {
    crate::model::described_by_its_model!();

    fn stream(&self, request: Request) -> ModelStream {
        let tape = Arc::clone(&self.tape);
        Box::pin(self.model.stream(request).map(move |item| {
            let line = match &item {
                Ok(ModelEvent::Delta(_)) => return item,
                Ok(ModelEvent::Done(reply)) => Line::of(reply),
                Err(error) => Line { error: Some(error.clone()), ..Line::default() },
            };
            match append(&tape, &line) {
                Ok(()) => item,
                Err(error) => Err(ModelError::new(
                    ModelErrorKind::InvalidRequest,
                    format!("the cassette cannot be written: {error}"),
                )),
            }
        }))
    }
}

fn append(tape: &Mutex<dyn Write + Send>, line: &Line) -> std::io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
    tape.write_all(text.as_bytes())?;
    tape.flush()
}

#[cfg(test)]
mod tests;
