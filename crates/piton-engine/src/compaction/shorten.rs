//! Requests for a summary of a conversation that does not fit: first without long outputs, then without the middle.
//! Whatever is left is well formed: a result never stays without its call.

use piton_core::compact::{Family, of_message};
use piton_core::message::{Message, Part, Role};
use piton_core::model::Request;
use std::sync::Arc;

/// Bytes of an output that stay of a long one.
const OUTPUT_BYTES: usize = 2_000;

/// The requests to try, in order. Where the conversation is known not to fit, it is not tried as it is.
pub(super) fn requests(whole: &Request, last: &Part, family: Family, used: u64, is_too_long: bool) -> Vec<Request> {
    let with = |messages: Vec<Arc<Message>>| {
        let mut request = Request { messages, ..whole.clone() };
        request.messages.push(Arc::new(Message::new(Role::User, vec![last.clone()])));
        request
    };
    let clipped: Vec<Arc<Message>> = whole.messages.iter().map(clipped).collect();
    let mut all = Vec::new();
    if !is_too_long {
        all.push(with(whole.messages.clone()));
    }
    all.extend([60, 30].map(|percent| with(without_middle(&clipped, family, used * percent / 100))));
    all
}

/// The message with its long outputs cut and its pictures named.
fn clipped(message: &Arc<Message>) -> Arc<Message> {
    let is_long = |part: &Part| match part {
        Part::ToolResult { outcome, .. } => outcome.text.len() > OUTPUT_BYTES,
        Part::Image { .. } => true,
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } => false,
    };
    if !message.parts.iter().any(is_long) {
        return Arc::clone(message);
    }
    let mut message = Message::clone(message);
    for part in &mut message.parts {
        match part {
            Part::ToolResult { outcome, .. } if outcome.text.len() > OUTPUT_BYTES => {
                let cut = (0..=OUTPUT_BYTES).rev().find(|at| outcome.text.is_char_boundary(*at)).unwrap_or(0);
                let left_out = outcome.text.len() - cut;
                outcome.text.truncate(cut);
                outcome.text.push_str(&format!("\n[… {left_out} bytes left out]"));
            }
            Part::Image { media_type, .. } => *part = Part::text(format!("[a picture, {media_type}]")),
            _ => {}
        }
    }
    Arc::new(message)
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
    let gap = Arc::new(Message::new(Role::User, vec![Part::Note { text: gap }]));
    // The first is the user's, or the summary of before: nobody answers to it.
    let first = messages.iter().take(1).filter(|first| first.role == Role::User).cloned();
    first.chain([gap]).chain(messages[from..].iter().cloned()).collect()
}
