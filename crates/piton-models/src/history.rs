//! What both request encoders need to know about a transcript: the ids its calls have on the wire, and which messages
//! are worth sending. Everything is decided front to back, so a longer transcript never changes its beginning.

use piton_core::call::CallInput;
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which ids a protocol lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Anything.
    Free,
    /// `^[a-zA-Z0-9_-]+$`.
    Word,
}

/// The id each call has on the wire: the provider's own where it is usable and was not used before, else ours.
pub(crate) struct WireIds(HashMap<CallId, String>);

impl WireIds {
    pub(crate) fn of(messages: &[Arc<Message>], rule: IdRule) -> Self {
        let mut taken = HashSet::new();
        let mut ids = HashMap::new();
        for call in messages.iter().flat_map(|message| message.calls()) {
            let offered = call.provider_id.as_deref().filter(|id| rule.allows(id) && !taken.contains(*id));
            let mut id = offered.map_or_else(|| rule.fit(call.id.as_str()), ToOwned::to_owned);
            while taken.contains(&id) {
                id.push('_');
            }
            taken.insert(id.clone());
            ids.insert(call.id.clone(), id);
        }
        Self(ids)
    }

    /// The call's id; one that no message made keeps its own.
    pub(crate) fn get<'s>(&'s self, call: &'s CallId) -> &'s str {
        self.0.get(call).map_or(call.as_str(), String::as_str)
    }
}

impl IdRule {
    fn allows(self, id: &str) -> bool {
        !id.is_empty() && (self == Self::Free || id.bytes().all(is_word_byte))
    }

    fn fit(self, id: &str) -> String {
        match self {
            Self::Free => id.to_owned(),
            Self::Word => id.chars().map(|c| if u8::try_from(c).is_ok_and(is_word_byte) { c } else { '_' }).collect(),
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The arguments as an object every server can read back. What the model got wrong stays visible to it.
pub(crate) fn sent_input(input: &CallInput) -> Value {
    match input {
        CallInput::Json(value) => value.clone(),
        CallInput::Invalid { raw, error: _ } => json!({ "invalid_arguments": raw }),
    }
}

/// A tool's name as every server takes it back. Models invent names that servers then refuse in the history.
pub(crate) fn sent_name(name: &str) -> String {
    const MOST_CHARS: usize = 64;
    match name {
        "" => "unknown".to_owned(),
        name => IdRule::Word.fit(name).chars().take(MOST_CHARS).collect(),
    }
}

/// Whether an assistant message says anything that can be sent: prose or a call. Reasoning alone cannot.
pub(crate) fn speaks(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Text { text } | Part::Note { text } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::ToolResult { .. } | Part::Image { .. } => true,
        Part::Reasoning { .. } => false,
    })
}

/// The number of replies a transcript holds.
pub(crate) fn replies(messages: &[Arc<Message>]) -> usize {
    messages.iter().filter(|message| message.role == Role::Assistant).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_model_made_up_goes_back_in_a_form_that_servers_take() {
        assert_eq!(sent_name("read"), "read");
        assert_eq!(sent_name("functions.read file"), "functions_read_file");
        assert_eq!(sent_name(""), "unknown");
        assert_eq!(sent_name(&"x".repeat(100)).len(), 64);
    }
}
