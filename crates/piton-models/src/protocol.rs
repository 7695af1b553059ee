//! What the wire protocols have in common: the machine that each of them is, and what it reads events with.
//!
//! A protocol takes events or documents and ends in a reply. Who cuts bytes into events is in [`crate::wire`].

use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply};
use piton_http::sse::SseEvent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProtocolName")]
pub enum WireProtocol {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's own.
    Ollama,
}

/// One protocol's answer in the making.
pub trait Protocol: Send {
    /// Takes one event of a stream.
    fn event(&mut self, event: &SseEvent) -> Result<Vec<Delta>, EventError>;

    /// Takes one JSON document: a whole answer, or the next piece where the protocol streams documents.
    fn document(&mut self, document: &Value) -> Result<Vec<Delta>, ModelError>;

    /// Something was lost here that nobody can read, as it came. What is unfinished may miss a piece of it: no call whose
    /// arguments may be incomplete is ever run, and no signature over lost words goes back.
    fn gap(&mut self, lost: &str);

    /// How far the answer is.
    fn progress(&self) -> Progress;

    /// The answer, or [`ModelErrorKind::CutStream`] where its end was not seen.
    fn finish(&mut self) -> Result<Reply, ModelError>;
}

/// Why an event was not taken.
#[derive(Debug)]
pub enum EventError {
    /// It cannot be read. The answer may still be a good one without it.
    Garbled {
        /// Why, with its beginning.
        why: String,
        /// All of it.
        text: String,
    },
    /// It ends the answer.
    Failed(ModelError),
}

impl From<ModelError> for EventError {
    fn from(error: ModelError) -> Self {
        Self::Failed(error)
    }
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The model is still speaking.
    Speaking,
    /// The reason for its stop was seen; only counts should follow. Where words do, it is speaking again.
    Finished,
    /// The protocol's own end mark was seen; nothing follows.
    Complete,
}

/// Reads the data of one event. `None`: noise such as `[DONE]` or a keep-alive word.
pub(crate) fn event_json(event: &SseEvent) -> Result<Option<Value>, EventError> {
    let data = event.data.trim();
    if !data.contains(['{', '}', '"']) {
        return Ok(None);
    }
    if event.is_damaged {
        return Err(garbled(&"it is not UTF-8", data));
    }
    serde_json::from_str(data).map(Some).map_err(|error| garbled(&error, data))
}

pub(crate) fn garbled(why: &dyn std::fmt::Display, text: &str) -> EventError {
    EventError::Garbled { why: format!("{why}: {}", beginning(text)), text: text.to_owned() }
}

/// The stream ended before the model did.
pub(crate) fn cut_stream() -> ModelError {
    ModelError::new(ModelErrorKind::CutStream, "the stream ended in the middle of the answer")
}

/// An event that spoke of a call was lost, and the reason to stop does not tell that one is missing.
pub(crate) fn lost_call() -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, "the answer is damaged: a call in it could not be read")
}

/// A string member that is present and not empty.
pub(crate) fn text_at<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A count; missing, null and odd values are 0, which is unknown.
pub(crate) fn count_at(value: &Value, path: &[&str]) -> u64 {
    /// Nobody counts so many tokens: it is a mistake, most often one of arithmetic.
    const MOST: u64 = 1 << 40;
    let found = path.iter().try_fold(value, |at, key| at.get(key));
    let count = found.and_then(|count| count.as_u64().or_else(|| count.as_f64().map(|float| float as u64)));
    count.filter(|count| *count <= MOST).unwrap_or(0)
}

/// A call's arguments as text, whether they came as text or as JSON.
pub(crate) fn arguments(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Enough to recognise a login page, a gateway's error, or what an event was about.
const SHOWN_CHARS: usize = 80;

pub(crate) fn beginning(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_CHARS).collect()
}
