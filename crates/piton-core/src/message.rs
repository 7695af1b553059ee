//! What a conversation is made of: messages and their parts, usage, and why a model stopped.

use crate::call::{CallInput, Outcome};
use crate::ids::{CallId, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Set for what a user said; a model's messages are named by their step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// True when the model was cut off while it spoke: what it said is kept, and marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Who said it, as `provider/model`; set for what a model said. Attachments of one provider mean nothing to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Prose.
    Text {
        /// The prose itself.
        text: String,
        /// The provider's own attachment (citations, a phase, an item's id), replayed unchanged to the one that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// What the model thought aloud. `opaque` is whatever the provider wants back byte for byte (a signature, an
    /// encrypted item): kept as it came, never read.
    Reasoning {
        /// The visible reasoning; may be empty where the provider hides it.
        text: String,
        /// The provider's own attachment, replayed unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// The answer to one tool call.
    ToolResult {
        /// Which call this answers.
        call: CallId,
        /// The tool's name, since some protocols want it repeated.
        tool: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// Words of Piton's own, shown to the model and marked as such to people (wrap up, go on, …).
    Note {
        /// What the note is for.
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

/// What a note of Piton's is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Something that the model should know.
    #[default]
    Plain,
    /// The reply before was cut: the model is asked to continue it.
    Continue,
    /// The summary that stands for older messages.
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
    /// The tool's name: ours, once the reply was taken and where there is such a tool.
    pub name: String,
    /// The name as the model wrote it, where that is another: what the model and its provider read.
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

/// Tokens of one model call, as the provider counted them. Unknown counts are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All prompt tokens, those read from or written to the provider's cache included.
    pub input_tokens: u64,
    /// All generated tokens, reasoning included.
    pub output_tokens: u64,
    /// Of the input: read from the cache.
    pub cache_read_tokens: u64,
    /// Of the input: written to the cache.
    pub cache_write_tokens: u64,
    /// Of the output: reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Of the input: what touched no cache.
    pub fn fresh_input_tokens(&self) -> u64 {
        self.input_tokens.saturating_sub(self.cache_read_tokens.saturating_add(self.cache_write_tokens))
    }

    /// Whether it was told: a count of the prompt, and one of the words if any were said.
    pub fn is_told(&self, has_spoken: bool) -> bool {
        self.input_tokens > 0 && (self.output_tokens > 0 || !has_spoken)
    }

    /// What is of the prompt is no more than it, where the prompt was counted: some servers tell counts that cannot be.
    pub fn bound_cached(&mut self) {
        if self.input_tokens > 0 {
            self.cache_read_tokens = self.cache_read_tokens.min(self.input_tokens);
            self.cache_write_tokens = self.cache_write_tokens.min(self.input_tokens - self.cache_read_tokens);
        }
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Usage) {
        for (mine, theirs) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }
}

/// Why the model stopped speaking, normalised over providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It said all it wanted to.
    Stop,
    /// It wants its tool calls answered.
    ToolCalls,
    /// It ran into the output limit or the end of its window.
    Length,
    /// The provider's filter cut it, or it refused.
    ContentFilter,
    /// The provider paused it, since its own tools take long: asked again, it goes on from there.
    Paused,
    /// The provider reported a failure after it had begun.
    Error,
    /// Anything else, a missing reason included.
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
        prose(&self.parts)
    }
}

/// All prose among some parts, joined.
pub fn prose(parts: &[Part]) -> String {
    let mut all = String::new();
    for part in parts {
        if let Part::Text { text, .. } = part {
            all.push_str(text);
        }
    }
    all
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
