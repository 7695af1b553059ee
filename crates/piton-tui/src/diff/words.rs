//! Which words of a change's lines are changed.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::hunk::{Row, Sign, change};

/// Bytes of a change, before or after, above which it is not looked into: that many words are no longer compared by eye.
const MOST_BYTES: usize = 64 * 1024;
/// Percent of a line's letters that must have stayed, for the others to be marked. Below that it is another line.
const LEAST_KEPT: usize = 35;

/// The parts of a line that changed, in bytes of the text that is shown.
type Marks = Vec<Range<usize>>;

/// Of each line the parts that changed; none in a line that is new or gone as a whole.
pub(super) fn changed(rows: &[Row<'_>], shown: &[String]) -> Vec<Marks> {
    let mut all = vec![Vec::new(); rows.len()];
    let mut at = 0;
    while at < rows.len() {
        if rows[at].sign == Sign::Kept {
            at += 1;
            continue;
        }
        let (removed, added) = change(rows, at);
        at = added.end;
        let bytes = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
        let (before, after) = (&shown[removed.clone()], &shown[added.clone()]);
        if removed.is_empty() || added.is_empty() || bytes(before).max(bytes(after)) > MOST_BYTES {
            continue;
        }
        let (left, right) = compared(before, after);
        removed.zip(left).chain(added.zip(right)).for_each(|(row, ranges)| all[row] = ranges);
    }
    all
}

/// What changed in the lines before and in those after.
fn compared(before: &[String], after: &[String]) -> (Vec<Marks>, Vec<Marks>) {
    let mut input = InternedInput::<&str>::default();
    input.update_before(before.iter().flat_map(|line| tokens(line)));
    input.update_after(after.iter().flat_map(|line| tokens(line)));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    (ranges(before, |token| diff.is_removed(token)), ranges(after, |token| diff.is_added(token)))
}

fn ranges(lines: &[String], is_changed: impl Fn(u32) -> bool) -> Vec<Marks> {
    let mut token = 0;
    let of_line = lines.iter().map(|line| {
        let (mut ranges, mut at): (Marks, usize) = (Vec::new(), 0);
        for word in tokens(line) {
            let end = (at + word.len()).min(line.len());
            if is_changed(token) && end > at {
                match ranges.last_mut() {
                    // Blanks between two changed words belong to them.
                    Some(last) if line[last.end..at].trim().is_empty() => last.end = end,
                    Some(_) | None => ranges.push(at..end),
                }
            }
            (at, token) = (end, token + 1);
        }
        let letters = |text: &str| text.chars().filter(|char| !char.is_whitespace()).count();
        let gone: usize = ranges.iter().map(|range| letters(&line[range.clone()])).sum();
        let all = letters(line);
        if (all - gone) * 100 < all * LEAST_KEPT { Vec::new() } else { ranges }
    });
    of_line.collect()
}

/// A line's words, runs of blanks, and other characters one by one; at its end a line feed.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let sort = sort(first);
        let end = match sort {
            Sort::Other => first.len_utf8(),
            Sort::Word | Sort::Blank => rest.find(|char| self::sort(char) != sort).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
    .chain(["\n"])
}

#[derive(PartialEq)]
enum Sort {
    Word,
    Blank,
    Other,
}

fn sort(char: char) -> Sort {
    match char {
        '_' => Sort::Word,
        _ if char.is_alphanumeric() => Sort::Word,
        _ if char.is_whitespace() => Sort::Blank,
        _ => Sort::Other,
    }
}
