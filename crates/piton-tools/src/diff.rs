//! Unified diffs, for people and models.

use crate::limits::DIFF_LINES;
use imara_diff::{Algorithm, BasicLineDiffPrinter, InternedInput, UnifiedDiffConfig};

/// What changed in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diff {
    /// A unified diff without file names, at most [`DIFF_LINES`] long.
    pub(crate) text: String,
    /// Lines added.
    pub(crate) added: usize,
    /// Lines removed.
    pub(crate) removed: usize,
    /// Whether lines, or the ends of long lines, were left out.
    pub(crate) is_cut: bool,
}

/// Compares two contents, line by line.
pub(crate) fn diff(before: &[u8], after: &[u8]) -> Diff {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let input = InternedInput::new(&*before, &*after);
    let diff = compared(&input);
    let unified = printed(&diff, &input);
    let (added, removed) = (diff.count_additions() as usize, diff.count_removals() as usize);
    let (text, is_cut) = shorten(&unified);
    Diff { text, added, removed, is_cut }
}

/// All of a unified diff without file names, as it is.
pub(crate) fn unified(before: &[u8], after: &[u8]) -> String {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let input = InternedInput::new(&*before, &*after);
    printed(&compared(&input), &input)
}

/// Lines added and lines removed.
pub(crate) fn count(before: &[u8], after: &[u8]) -> (usize, usize) {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = compared(&InternedInput::new(&*before, &*after));
    (diff.count_additions() as usize, diff.count_removals() as usize)
}

/// How alike two short texts are, letter by letter: 0 for nothing in common, 1 for the same.
pub(crate) fn likeness(a: &str, b: &str) -> f32 {
    let mut input = InternedInput::default();
    input.update_before(a.chars());
    input.update_after(b.chars());
    let (before, after) = (input.before.len() as f32, input.after.len() as f32);
    if before + after == 0.0 {
        return 1.0;
    }
    let diff = imara_diff::Diff::compute(Algorithm::Myers, &input);
    2.0 * (before - diff.count_removals() as f32) / (before + after)
}

fn printed(diff: &imara_diff::Diff, input: &InternedInput<&str>) -> String {
    let mut config = UnifiedDiffConfig::default();
    config.context_len(2);
    diff.unified_diff(&BasicLineDiffPrinter(&input.interner), config, input).to_string()
}

fn compared(input: &InternedInput<&str>) -> imara_diff::Diff {
    let mut diff = imara_diff::Diff::compute(Algorithm::Histogram, input);
    diff.postprocess_lines(input);
    diff
}

/// Lines end in plain newlines, are not endless, and not too many.
fn shorten(unified: &str) -> (String, bool) {
    /// A line of a minified file would be all one sees.
    const LINE_CHARS: usize = 300;
    let total = unified.lines().count();
    let (mut text, mut is_cut) = (String::new(), total > DIFF_LINES);
    for line in unified.lines().take(DIFF_LINES) {
        let visible = line.chars().filter(|char| *char == '\t' || !char.is_control());
        text.extend(visible.take(LINE_CHARS));
        if line.chars().count() > LINE_CHARS {
            text.push('…');
            is_cut = true;
        }
        text.push('\n');
    }
    if total > DIFF_LINES {
        text.push_str(&format!("… {} more lines of diff\n", total - DIFF_LINES));
    }
    (text, is_cut)
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
