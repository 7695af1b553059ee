//! Which old tool outputs go, and what stands in their place.

use super::rules::Prune;
use crate::ids::Seq;

/// An output as pruning sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunableOutput<'a> {
    /// The tool.
    pub tool: &'a str,
    /// How much it is.
    pub tokens: u64,
    /// How many turns have begun since.
    pub turns_since: u32,
    /// Whether the call failed.
    pub failed: bool,
    /// Whether it went already.
    pub pruned: bool,
}

/// Which of these outputs go: their places in the list, which has the newest first. What is older than one that went
/// has been looked at already. Empty where too little would be freed.
pub fn select<'a>(rule: &Prune, newest_first: impl IntoIterator<Item = PrunableOutput<'a>>) -> Vec<usize> {
    let (mut seen, mut freed, mut chosen) = (0_u64, 0_u64, Vec::new());
    if !rule.on {
        return chosen;
    }
    for (place, output) in newest_first.into_iter().enumerate() {
        if output.turns_since < rule.protect_turns {
            continue;
        }
        if output.pruned {
            break;
        }
        if (output.failed && !rule.failed_too) || rule.protect_tools.iter().any(|tool| tool == output.tool) {
            continue;
        }
        seen += output.tokens;
        if seen > rule.protect_tokens {
            freed += output.tokens;
            chosen.push(place);
        }
    }
    if freed >= rule.minimum_tokens { chosen } else { Vec::new() }
}

/// What the model reads in place of an output.
pub fn stub(tool: &str, bytes: usize, seq: Seq) -> String {
    format!(
        "[The output of this call to {tool}, {bytes} bytes, was cleared to make room. It is event {seq} of the journal: \
         `history` with seq {seq} reads it.]"
    )
}

/// Beginning and end of an output that is too long for the window, about so many bytes of it.
pub fn clip(text: &str, to_bytes: usize, seq: Seq) -> String {
    let (head, from) = ends(text, to_bytes);
    let left_out = from - head;
    format!(
        "{}\n[… {left_out} bytes are left out here to make room. It is event {seq} of the journal: `history` with seq {seq} \
         reads all of it …]\n{}",
        &text[..head],
        &text[from..]
    )
}

/// Where the beginning of a text ends of which so many bytes stay, and where its end begins.
pub(super) fn ends(text: &str, to_bytes: usize) -> (usize, usize) {
    let (head, tail) = (to_bytes / 3 * 2, to_bytes / 3);
    let head = (0..=head.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let from = text.len().saturating_sub(tail).max(head);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (head, from)
}
