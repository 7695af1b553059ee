//! How many tokens a conversation is, roughly: what no provider has counted yet of a journal of any length. By bytes,
//! since those are known without a look at the text, which [`crate::tokens`] takes and is the better for it.

use crate::call::CallInput;
use crate::message::{Message, Part};
use crate::tokens::Family;
use serde_json::Value;

/// Tokens that stand around a part: roles, ids, brackets.
const AROUND_PART_TOKENS: u64 = 6;
/// What a picture counts for; most providers scale it to about this.
const IMAGE_TOKENS: u64 = 1_600;

impl Family {
    /// Tokens of a text of so many bytes.
    pub fn of_bytes(self, bytes: usize) -> u64 {
        let tokens_per_kilobyte = match self {
            Self::OpenAi | Self::Gemini => 250,
            Self::Open => 280,
            Self::Anthropic | Self::Small => 300,
        };
        (bytes as u64 * tokens_per_kilobyte).div_ceil(1_000)
    }
}

/// Tokens of a message.
pub fn of_message(family: Family, message: &Message) -> u64 {
    message.parts.iter().map(|part| AROUND_PART_TOKENS + of_part(family, part)).sum()
}

fn of_part(family: Family, part: &Part) -> u64 {
    match part {
        Part::Text { text, opaque } | Part::Reasoning { text, opaque } => {
            family.of_bytes(text.len()) + opaque.as_ref().map_or(0, |value| of_value(family, value))
        }
        Part::Note { text, .. } => family.of_bytes(text.len()),
        Part::ToolCall(call) => match &call.input {
            CallInput::Json(value) => family.of_bytes(call.name.len()) + of_value(family, value),
            CallInput::Invalid { raw, .. } => family.of_bytes(raw.len()),
        },
        Part::ToolResult { tool, outcome, .. } => family.of_bytes(tool.len() + outcome.text.len()),
        Part::Image { .. } => IMAGE_TOKENS,
    }
}

/// Tokens of a JSON value.
pub fn of_value(family: Family, value: &Value) -> u64 {
    family.of_bytes(bytes(value))
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 6,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| bytes(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(key, item)| key.len() + 4 + bytes(item)).sum::<usize>() + 2,
    }
}
