//! Cutting tool output to what a model should read. Always on character boundaries, always saying how much is gone.

use serde::{Deserialize, Serialize};

/// How a tool's output is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputCut {
    /// Head and tail of so many characters together.
    HeadTail {
        /// Unicode scalar values kept.
        max_chars: usize,
    },
    /// Whole lines from the beginning, up to either limit.
    WholeLines {
        /// Lines kept.
        max_lines: usize,
        /// Bytes kept, newlines between them included.
        max_bytes: usize,
    },
}

impl OutputCut {
    /// The text as the model reads it, with a notice of what is gone; `None` when it fits as it is.
    pub fn cut(self, text: &str) -> Option<String> {
        match self {
            Self::HeadTail { max_chars } => {
                let cut = head_tail(text, max_chars);
                (cut.removed_chars > 0).then_some(cut.text)
            }
            Self::WholeLines { max_lines, max_bytes } => {
                let cut = whole_lines(text, max_lines, max_bytes, KeepEnd::Head)?;
                Some(format!("{}\n\n...{} {} truncated...", cut.preview, cut.removed, cut.unit))
            }
        }
    }
}

/// A text cut in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadTail {
    /// The text to show: unchanged, or head, a line that says what is missing, and tail.
    pub text: String,
    /// Characters (Unicode scalar values) left out; 0 when nothing was cut.
    pub removed_chars: usize,
}

/// Keeps the first and the last half of `max_chars` characters and says between them how many are gone.
/// The notice comes on top of `max_chars`.
pub fn head_tail(text: &str, max_chars: usize) -> HeadTail {
    // A text of at most `max_chars` bytes has at most as many characters: the usual case costs no count.
    let total = if text.len() <= max_chars { 0 } else { text.chars().count() };
    if total <= max_chars {
        return HeadTail { text: text.to_owned(), removed_chars: 0 };
    }
    let head = max_chars / 2;
    let removed = total - 2 * head;
    let text = format!(
        "{}\n\n... [truncated {removed} characters] ...\n\n{}",
        &text[..byte_of_char(text, head)],
        &text[byte_of_char(text, total - head)..]
    );
    HeadTail { text, removed_chars: removed }
}

/// Which end of an output is worth keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepEnd {
    /// The beginning: listings, files.
    Head,
    /// The end: builds, logs.
    Tail,
}

/// A text cut at whole lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutLines {
    /// The lines kept, joined by `\n`.
    pub preview: String,
    /// How much is gone.
    pub removed: usize,
    /// Whether `removed` counts `"lines"` or `"bytes"`: whichever limit was hit.
    pub unit: &'static str,
}

/// Keeps whole lines from one end, at most `max_lines` of them and at most `max_bytes` bytes (joining newlines
/// included); `None` when the text fits. This is OpenCode's rule (its `truncate.ts`), used by that preset.
pub fn whole_lines(text: &str, max_lines: usize, max_bytes: usize, keep: KeepEnd) -> Option<CutLines> {
    let lines: Vec<&str> = text.split('\n').collect();
    if lines.len() <= max_lines && text.len() <= max_bytes {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut bytes = 0;
    let mut hit_bytes = false;
    for index in 0..lines.len().min(max_lines) {
        let line = match keep {
            KeepEnd::Head => lines[index],
            KeepEnd::Tail => lines[lines.len() - 1 - index],
        };
        let size = line.len() + usize::from(index > 0);
        if bytes + size > max_bytes {
            hit_bytes = true;
            break;
        }
        bytes += size;
        kept.push(line);
    }
    if keep == KeepEnd::Tail {
        kept.reverse();
    }
    let (removed, unit) = if hit_bytes { (text.len() - bytes, "bytes") } else { (lines.len() - kept.len(), "lines") };
    Some(CutLines { preview: kept.join("\n"), removed, unit })
}

/// The byte offset of the `index`th character, or the end.
fn byte_of_char(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_within_the_limit_is_left_alone() {
        assert_eq!(head_tail("héllo", 5), HeadTail { text: "héllo".into(), removed_chars: 0 });
    }

    #[test]
    fn head_and_tail_are_kept_and_the_gap_is_named() {
        let cut = head_tail(&"0123456789".repeat(10), 20);
        assert_eq!(cut.text, "0123456789\n\n... [truncated 80 characters] ...\n\n0123456789");
        assert_eq!(cut.removed_chars, 80);
    }

    #[test]
    fn cuts_never_split_a_character() {
        let cut = head_tail(&"é😀".repeat(50), 11);
        assert!(cut.text.starts_with("é😀é😀é"));
        assert!(cut.text.ends_with("😀é😀é😀"));
        assert_eq!(cut.removed_chars, 90);
    }
}
