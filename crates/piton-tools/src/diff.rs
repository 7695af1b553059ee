//! Differences as people and models read them.

use crate::limits::{DIFF_LINES, DIFF_TIME};
use similar::{ChangeTag, TextDiff};

/// What changed in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diff {
    /// A unified diff without file names, at most [`DIFF_LINES`] long.
    pub(crate) text: String,
    /// Lines added.
    pub(crate) added: usize,
    /// Lines removed.
    pub(crate) removed: usize,
}

/// Compares two contents, line by line.
pub(crate) fn diff(before: &[u8], after: &[u8]) -> Diff {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&*before, &*after);
    let (added, removed) = counted(&diff);
    let unified = diff.unified_diff().context_radius(2).to_string();
    Diff { text: shorten(&unified), added, removed }
}

/// Lines added and lines removed.
pub(crate) fn count(before: &[u8], after: &[u8]) -> (usize, usize) {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    counted(&TextDiff::configure().timeout(DIFF_TIME).diff_lines(&*before, &*after))
}

fn counted(diff: &TextDiff<'_, '_, str>) -> (usize, usize) {
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// Lines end in plain newlines, are not endless, and not too many.
fn shorten(unified: &str) -> String {
    /// A line of a minified file would be all one sees.
    const LINE_CHARS: usize = 300;
    let total = unified.lines().count();
    let mut text = String::new();
    for line in unified.lines().take(DIFF_LINES) {
        let visible = line.chars().filter(|char| *char == '\t' || !char.is_control());
        text.extend(visible.take(LINE_CHARS));
        if line.chars().count() > LINE_CHARS {
            text.push('…');
        }
        text.push('\n');
    }
    if total > DIFF_LINES {
        text.push_str(&format!("… {} more lines of diff\n", total - DIFF_LINES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_short_and_counts_lines() {
        let diff = diff(b"a\nb\nc\n", b"a\nB\nc\nd\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(diff.text, "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
    }

    #[test]
    fn a_long_diff_says_how_much_is_left_out() {
        let before: String = (0..200).map(|line| format!("{line}\n")).collect();
        let diff = diff(before.as_bytes(), b"");
        assert_eq!(diff.removed, 200);
        assert_eq!(diff.text.lines().count(), DIFF_LINES + 1);
        assert!(diff.text.ends_with("… 141 more lines of diff\n"), "{}", diff.text);
    }
}
