//! What all request encoders need to know about a transcript: the ids its calls have on the wire, and which messages
//! are worth sending. Everything is decided front to back, so a longer transcript never changes its beginning.

use piton_core::call::{CallInput, NO_OUTPUT, Outcome};
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role};
use piton_core::model::Request;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which ids a protocol lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Anything.
    Free,
    /// `^[a-zA-Z0-9_-]+$`, at most 64 characters.
    Word,
    /// Mistral's: exactly nine letters or digits.
    Nine,
}

/// The tools of a request as Chat Completions has them, and who followed it; `None`: there are none.
pub(crate) fn function_tools(request: &Request) -> Option<Value> {
    let tools = request.tools.iter().map(|tool| {
        let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
        json!({ "type": "function", "function": function })
    });
    (!request.tools.is_empty()).then(|| tools.collect())
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
            let mut number = ids.len();
            while taken.contains(&id) {
                id = rule.another(&id, number);
                number += 1;
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
        !id.is_empty()
            && match self {
                Self::Free => true,
                Self::Word => id.len() <= WORD_CHARS && id.bytes().all(is_word_byte),
                Self::Nine => id.len() == NINE_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            }
    }

    fn fit(self, id: &str) -> String {
        let is_word = |c: char| u8::try_from(c).is_ok_and(is_word_byte);
        match self {
            Self::Free => id.to_owned(),
            Self::Word => id.chars().take(WORD_CHARS).map(|c| if is_word(c) { c } else { '_' }).collect(),
            Self::Nine => {
                let bare: String = id.chars().filter(char::is_ascii_alphanumeric).take(NINE_CHARS).collect();
                format!("{bare:0<NINE_CHARS$}")
            }
        }
    }

    /// Another id than this one, which is taken. `number` differs from call to call.
    fn another(self, id: &str, number: usize) -> String {
        match self {
            Self::Free | Self::Word => format!("{}_", id.get(..WORD_CHARS - 1).unwrap_or(id)),
            Self::Nine => format!("{number:0>NINE_CHARS$}"),
        }
    }
}

const WORD_CHARS: usize = 64;
const NINE_CHARS: usize = 9;

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

/// A tool's answer with the images that belong to it: those that stand behind it in the message.
pub(crate) struct ToolAnswer<'m> {
    pub(crate) call: &'m CallId,
    pub(crate) tool: &'m str,
    pub(crate) outcome: &'m Outcome,
    /// Media type and base64.
    pub(crate) images: Vec<(&'m str, &'m str)>,
}

/// The answers of a tool message, in order.
pub(crate) fn answers(message: &Message) -> Vec<ToolAnswer<'_>> {
    let mut answers: Vec<ToolAnswer<'_>> = Vec::new();
    for part in &message.parts {
        match part {
            Part::ToolResult { call, tool, outcome } => {
                answers.push(ToolAnswer { call, tool, outcome, images: Vec::new() });
            }
            Part::Image { media_type, data } => {
                if let Some(answer) = answers.last_mut() {
                    answer.images.push((media_type, data));
                }
            }
            Part::Text { .. } | Part::Note { .. } | Part::Reasoning { .. } | Part::ToolCall(_) => {}
        }
    }
    answers
}

impl ToolAnswer<'_> {
    /// What the tool said; some servers refuse an answer without words.
    pub(crate) fn text(&self) -> &str {
        if self.outcome.text.trim().is_empty() { NO_OUTPUT } else { &self.outcome.text }
    }
}

/// Whether an assistant message says anything that can be sent: prose, a call, or what the provider's own tools did.
/// Reasoning alone cannot.
pub(crate) fn speaks(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Text { text, .. } | Part::Note { text, .. } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::ToolResult { .. } | Part::Image { .. } => true,
        Part::Reasoning { text: _, opaque } => opaque.as_ref().is_some_and(|opaque| opaque.get("block").is_some()),
    })
}

/// Puts a mark of Anthropic's cache on a block: what was sent up to here is to be kept.
pub(crate) fn mark_cached(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}

/// Which block of the first message ends what is known before the user's words: the last of our notes in front of
/// them, or, where there are none, the message's last.
pub(crate) fn context_end(request: &Request) -> Option<usize> {
    let first = request.messages.first().filter(|message| message.role == Role::User)?;
    let is_sent =
        |part: &&Part| !matches!(part, Part::Text { text, .. } | Part::Note { text, .. } if text.trim().is_empty());
    let sent = first.parts.iter().filter(is_sent);
    let notes = sent.clone().take_while(|part| matches!(part, Part::Note { .. })).count();
    let blocks = if notes > 0 { notes } else { sent.count() };
    blocks.checked_sub(1)
}

/// The reasoning that came under this field of the wire's message, for servers that want it back there.
pub(crate) fn echoed(parts: &[Part], field: &str) -> String {
    let mut all = String::new();
    for part in parts {
        if let Part::Reasoning { text, opaque: Some(opaque) } = part
            && opaque.get("field").and_then(Value::as_str) == Some(field)
        {
            all.push_str(text);
        }
    }
    all
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
