//! What a conversation is made of: messages and their parts, usage, and why a model stopped.

use crate::call::{CallInput, Outcome};
use crate::ids::{CallId, MessageId};
pub use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, or a note that Piton adds in the person's place (see [`Part::Note`]).
    User,
    /// The model.
    Assistant,
    /// The results of one step's tool calls, in the order of the calls.
    Tool,
}

/// One entry of the transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Set for a user's message; a model's messages are identified by their step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// Who speaks.
    pub role: Role,
    /// The content, in order.
    pub parts: Vec<Part>,
    /// True if the model was cut off: the text so far is kept, and marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The author of a model's message, as `provider/model`. Attachments of one provider mean nothing to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Prose.
    Text {
        /// The text.
        text: String,
        /// The provider's own attachment (citations, a phase, an item's id), replayed unchanged to the one that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// The model's reasoning. `opaque` is what the provider wants back byte for byte (a signature, an encrypted item):
    /// stored as it came, never read.
    Reasoning {
        /// The visible reasoning; may be empty if the provider hides it.
        text: String,
        /// The provider's own attachment, replayed unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// The result of one tool call.
    ToolResult {
        /// Which call this answers.
        call: CallId,
        /// The tool's name, since some protocols want it repeated.
        tool: String,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A text that Piton adds for the model, and that people see marked as Piton's (wrap up, go on, …).
    Note {
        /// The purpose of the note.
        #[serde(default, skip_serializing_if = "NoteKind::is_plain")]
        kind: NoteKind,
        /// The note as the model reads it.
        text: String,
    },
    /// An image, base64.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Base64 without line breaks.
        data: String,
    },
}

/// The purpose of a note.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Something that the model should know.
    #[default]
    Plain,
    /// The previous reply was cut: it asks the model to continue.
    Continue,
    /// The summary of older messages.
    Summary,
}

impl NoteKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// A tool call as the model made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id: unique in the session, safe as a file name.
    pub id: CallId,
    /// The provider's id, echoed back to it. Not trusted to be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name: Piton's own name, once the reply is recorded and if there is such a tool.
    pub name: String,
    /// The name as the model wrote it, if it differs: the model and its provider get this one back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelling: Option<String>,
    /// The arguments.
    pub input: CallInput,
    /// The provider's own attachment (Gemini's thought signature), replayed unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

impl ToolCall {
    /// The tool's name as the model wrote it.
    pub fn spelling(&self) -> &str {
        self.spelling.as_deref().unwrap_or(&self.name)
    }

    /// Calls the tool by its own name and keeps the model's spelling of it.
    pub fn rename(&mut self, name: &str) {
        if self.name != name {
            let written = std::mem::replace(&mut self.name, name.to_owned());
            self.spelling.get_or_insert(written);
        }
    }
}

/// Why the model stopped, normalized over providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had finished.
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// It reached the output limit or the end of its window.
    Length,
    /// The provider's filter cut it, or it refused.
    ContentFilter,
    /// The provider paused it because the provider's own tools take long; it continues when asked again.
    Paused,
    /// The provider reported a failure after the reply had begun.
    Error,
    /// Anything else, or no reason given.
    Other,
}

impl Message {
    /// A message of no particular id or model.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { id: None, role, parts, interrupted: false, model: None }
    }

    /// A user message of plain text.
    pub fn user(id: MessageId, text: impl Into<String>) -> Self {
        Self { id: Some(id), ..Self::new(Role::User, vec![Part::text(text)]) }
    }

    /// The tool calls of this message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::ToolResult { .. }
            | Part::Note { .. }
            | Part::Image { .. } => None,
        })
    }

    /// All prose of this message, joined.
    pub fn prose(&self) -> String {
        prose(&self.parts).into_owned()
    }
}

/// All prose among some parts, joined.
pub fn prose(parts: &[Part]) -> Cow<'_, str> {
    joined(parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    }))
}

/// Texts one after the other. One alone is lent: an answer may have megabytes.
pub fn joined<'t>(texts: impl IntoIterator<Item = &'t str>) -> Cow<'t, str> {
    let mut all = Cow::default();
    for text in texts {
        // An empty one in front takes the next as it is.
        all += text;
    }
    all
}

/// The person's own parts of a user message, without Piton's notes before them and the text of references after them.
pub fn said(parts: &[Part]) -> &[Part] {
    let is_note = |part: &Part| matches!(part, Part::Note { .. });
    let first = parts.iter().position(|part| !is_note(part)).unwrap_or(parts.len());
    let said = &parts[first..];
    &said[..said.iter().position(is_note).unwrap_or(said.len())]
}

impl Part {
    /// A note that the model should know.
    pub fn note(text: impl Into<String>) -> Self {
        Self::Note { kind: NoteKind::Plain, text: text.into() }
    }

    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), opaque: None }
    }
}
