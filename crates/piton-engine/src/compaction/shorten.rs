//! Requests for a summary of a conversation that does not fit: first without long outputs, then without the middle.
//! Whatever is left is well formed: a result never stays without its call.

use piton_core::call::CallInput;
use piton_core::compact::{Family, of_message};
use piton_core::message::{Message, Part, Role};
use piton_core::model::Request;
use serde_json::Value;
use std::sync::Arc;

/// Bytes of an output that stay of a long one.
const OUTPUT_BYTES: usize = 2_000;

/// Bytes of a long text that stay: of words, of what was read into them, of what a call writes.
const TEXT_BYTES: usize = 8_000;

/// Tokens of the conversation, and the most that a request may have.
pub(super) struct Capacity {
    pub(super) family: Family,
    /// Tokens of the conversation.
    pub(super) used: u64,
    /// The most that the messages of a request may have, where anybody knows.
    pub(super) most: Option<u64>,
}

/// The requests to try, in order, and of each whether it is the conversation as it is. Where that is known not to fit, it
/// is not tried; empty where nothing fits.
pub(super) fn requests(whole: &Request, last: &Part, capacity: &Capacity, is_too_long: bool) -> Vec<(Request, bool)> {
    let with = |messages: Vec<Arc<Message>>| {
        let mut request = Request { messages, ..whole.clone() };
        request.messages.push(Arc::new(Message::new(Role::User, vec![last.clone()])));
        request
    };
    let tokens =
        |request: &Request| request.messages.iter().map(|message| of_message(capacity.family, message)).sum::<u64>();
    let fits = |request: &Request| capacity.most.is_none_or(|most| tokens(request) <= most);
    let used = capacity.most.map_or(capacity.used, |most| capacity.used.min(most));
    let mut all = Vec::new();
    let as_it_is = with(whole.messages.clone());
    if !is_too_long && fits(&as_it_is) {
        all.push((as_it_is, true));
    }
    let clipped: Vec<Arc<Message>> = whole.messages.iter().map(clipped).collect();
    let shorter = [60, 30].map(|percent| with(without_middle(&clipped, capacity.family, used * percent / 100)));
    all.extend(shorter.into_iter().filter(fits).map(|request| (request, false)));
    all
}

/// The message with its long outputs and texts cut and its pictures named.
fn clipped(message: &Arc<Message>) -> Arc<Message> {
    let is_long = |part: &Part| match part {
        Part::ToolResult { outcome, .. } => outcome.text.len() > OUTPUT_BYTES,
        Part::Image { .. } => true,
        Part::Text { text, .. } | Part::Note { text, .. } => text.len() > TEXT_BYTES,
        Part::ToolCall(call) => matches!(&call.input, CallInput::Json(input) if has_long_text(input)),
        Part::Reasoning { .. } => false,
    };
    if !message.parts.iter().any(is_long) {
        return Arc::clone(message);
    }
    let mut message = Message::clone(message);
    for part in &mut message.parts {
        match part {
            Part::ToolResult { outcome, .. } => cut(&mut outcome.text, OUTPUT_BYTES),
            Part::Text { text, .. } | Part::Note { text, .. } => cut(text, TEXT_BYTES),
            Part::ToolCall(call) => {
                if let CallInput::Json(input) = &mut call.input {
                    cut_texts(input);
                }
            }
            Part::Image { media_type, .. } => *part = Part::text(format!("[a picture, {media_type}]")),
            Part::Reasoning { .. } => {}
        }
    }
    Arc::new(message)
}

fn cut(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let at = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let left_out = text.len() - at;
    text.truncate(at);
    text.push_str(&format!("\n[… {left_out} bytes left out]"));
}

fn has_long_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > TEXT_BYTES,
        Value::Array(items) => items.iter().any(has_long_text),
        Value::Object(fields) => fields.values().any(has_long_text),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => cut(text, TEXT_BYTES),
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(fields) => fields.values_mut().for_each(cut_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first message, and the newest that fit.
fn without_middle(messages: &[Arc<Message>], family: Family, most: u64) -> Vec<Arc<Message>> {
    let sizes: Vec<u64> = messages.iter().map(|message| of_message(family, message)).collect();
    if sizes.iter().sum::<u64>() <= most || messages.len() < 3 {
        return messages.to_vec();
    }
    let (mut left, mut from) = (most.saturating_sub(sizes[0]), messages.len());
    for place in (1..messages.len()).rev() {
        if sizes[place] > left {
            break;
        }
        left -= sizes[place];
        if messages[place].role != Role::Tool {
            from = place;
        }
    }
    let gap = format!("[{} messages are left out here; this is not all of the conversation.]", from - 1);
    let gap = Arc::new(Message::new(Role::User, vec![Part::note(gap)]));
    // The first is the user's, or the summary of before: nobody answers to it.
    let first = messages.iter().take(1).filter(|first| first.role == Role::User).cloned();
    first.chain([gap]).chain(messages[from..].iter().cloned()).collect()
}
