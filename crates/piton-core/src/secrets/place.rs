//! Where something stands in a text.

use super::Span;

/// Whether no word goes on from before. `\n` before it in JSON is no word.
pub(super) fn begins_word(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| text[at]) else { return true };
    let is_escape = at >= 2 && text[at - 2] == b'\\' && matches!(before, b'n' | b't' | b'r');
    is_escape || !(before.is_ascii_alphanumeric() || before == b'_' || before == b'-')
}

pub(super) fn span(text: &[u8], start: usize, end: usize, name: &str) -> Span {
    let value = text[start..end].to_vec();
    Span { start, end, name: name.to_owned(), value, is_new: true, is_open: end >= text.len() }
}
