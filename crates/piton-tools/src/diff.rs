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
    let (unified, added, removed) = compare(before, after);
    let (text, is_cut) = shorten(&unified);
    Diff { text, added, removed, is_cut }
}

/// All of a unified diff without file names, as it is.
pub fn unified(before: &[u8], after: &[u8]) -> String {
    compare(before, after).0
}

/// A unified diff without file names, lines added, lines removed.
fn compare(before: &[u8], after: &[u8]) -> (String, usize, usize) {
    let apart = Apart::of(before, after);
    let inner = |text: &'_ [u8]| String::from_utf8_lossy(&text[apart.start..text.len() - apart.end]).into_owned();
    let (before, after) = (inner(before), inner(after));
    let input = InternedInput::new(&*before, &*after);
    let diff = compared(&input);
    let unified = apart.numbered(&printed(&diff, &input));
    (unified, diff.count_additions() as usize, diff.count_removals() as usize)
}

/// Where two contents differ: most of a large file is the same before and after an edit, and need not be compared.
struct Apart {
    /// Bytes at the beginning that are the same, in whole lines.
    start: usize,
    /// Lines in them.
    lines: usize,
    /// Bytes at the end that are the same, in whole lines.
    end: usize,
}

impl Apart {
    /// Lines that are the same and compared nevertheless: context, and what makes a change stand where people expect it.
    const AROUND: usize = 50;

    fn of(before: &[u8], after: &[u8]) -> Self {
        let same = equal(before.chunks(CHUNK), after.chunks(CHUNK), before.iter(), after.iter());
        let start = memchr::memrchr_iter(b'\n', &before[..same]).nth(Self::AROUND).map_or(0, |newline| newline + 1);
        let most = before.len().min(after.len()) - same;
        let (before_end, after_end) = (&before[before.len() - most..], &after[after.len() - most..]);
        let same =
            equal(before_end.rchunks(CHUNK), after_end.rchunks(CHUNK), before_end.iter().rev(), after_end.iter().rev());
        let tail = &before[before.len() - same..];
        let end = memchr::memchr_iter(b'\n', tail).nth(Self::AROUND).map_or(0, |newline| tail.len() - newline - 1);
        Self { start, lines: memchr::memchr_iter(b'\n', &before[..start]).count(), end }
    }

    /// A diff of what differs, with the numbers that its lines have in the whole.
    fn numbered(&self, unified: &str) -> String {
        if self.lines == 0 {
            return unified.to_owned();
        }
        let moved = |range: &str| {
            let (first, count) = range.split_once(',')?;
            Some(format!("{},{count}", first.parse::<usize>().ok()? + self.lines))
        };
        let header = |line: &str| {
            let (before, after) = line.strip_prefix("@@ -")?.strip_suffix(" @@\n")?.split_once(" +")?;
            Some(format!("@@ -{} +{} @@\n", moved(before)?, moved(after)?))
        };
        unified.split_inclusive('\n').map(|line| header(line).unwrap_or_else(|| line.to_owned())).collect()
    }
}

/// Bytes that are compared at once.
const CHUNK: usize = 4096;

/// How many bytes are the same from one end on, by chunks and then one by one.
fn equal<'c>(
    mut before: impl Iterator<Item = &'c [u8]>,
    mut after: impl Iterator<Item = &'c [u8]>,
    before_bytes: impl Iterator<Item = &'c u8>,
    after_bytes: impl Iterator<Item = &'c u8>,
) -> usize {
    let chunks = std::iter::from_fn(|| before.next().zip(after.next()));
    let whole = chunks.take_while(|(a, b)| a.len() == CHUNK && a == b).count() * CHUNK;
    whole + before_bytes.zip(after_bytes).skip(whole).take_while(|(a, b)| a == b).count()
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
    fn what_is_the_same_at_both_ends_changes_no_number() {
        let lines = |changed: &[usize]| {
            let line = |n: usize| if changed.contains(&n) { format!("NEW {n}\n") } else { format!("{n}\n") };
            (1..=5_000).map(line).collect::<String>()
        };
        for changed in [&[1][..], &[5_000], &[2_500], &[30, 2_500, 4_990], &[51], &[52, 4_949]] {
            let (before, after) = (lines(&[]), lines(changed));
            let whole = {
                let input = InternedInput::new(&*before, &*after);
                printed(&compared(&input), &input)
            };
            assert_eq!(unified(before.as_bytes(), after.as_bytes()), whole, "{changed:?}");
        }
        assert_eq!(diff(b"a\nb\n", b"a\nb\n").text, "");
        assert_eq!(diff(b"a", b"ab").text, "@@ -1,1 +1,1 @@\n-a\n+ab\n");
        let repeated = "x\n".repeat(10_000);
        let longer = diff(repeated.as_bytes(), (repeated.clone() + "x\n").as_bytes());
        assert_eq!((longer.added, longer.removed), (1, 0));
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
