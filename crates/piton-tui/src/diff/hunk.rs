//! The text of a unified diff to lines with numbers.

/// A part of a diff.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    /// A line outside of hunks.
    Said(&'a str),
    Hunk(Vec<Row<'a>>),
}

/// A line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row<'a> {
    pub sign: Sign,
    /// Its number in the text before if it was removed, else in the text after.
    pub number: usize,
    /// The number of a kept line in the text before.
    before: usize,
    pub text: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sign {
    Kept,
    Removed,
    Added,
}

impl Row<'_> {
    /// The row with the number it has in the text before or after.
    pub(super) fn seen_as(self, side: Sign) -> Self {
        match (self.sign, side) {
            (Sign::Kept, Sign::Removed) => Self { number: self.before, ..self },
            (Sign::Kept | Sign::Removed | Sign::Added, Sign::Kept | Sign::Removed | Sign::Added) => self,
        }
    }
}

/// The parts of a diff. The numbers of a hunk's head say where it ends, so that a line `--- a` in it is a removed one; a
/// line that can be none of a hunk ends it as well.
pub(super) fn parts(unified: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut left = Left::default();
    for line in unified.split_terminator('\n') {
        if let Some(head) = head(line).filter(|_| left.is_over() || !line.starts_with([' ', '+', '-'])) {
            left = head;
            parts.push(Part::Hunk(Vec::new()));
            continue;
        }
        match (left.take(line), parts.last_mut()) {
            (Some(row), Some(Part::Hunk(rows))) => rows.push(row),
            // That the last line has no line feed.
            (None, _) if line.starts_with('\\') => {}
            (Some(_) | None, _) => {
                left = Left::default();
                parts.push(Part::Said(line));
            }
        }
    }
    parts.retain(|part| *part != Part::Hunk(Vec::new()));
    parts
}

/// What a hunk still has: the next numbers, and how many lines before and after.
#[derive(Default)]
struct Left {
    before: (usize, usize),
    after: (usize, usize),
}

impl Left {
    fn is_over(&self) -> bool {
        self.before.1 == 0 && self.after.1 == 0
    }

    fn take<'a>(&mut self, line: &'a str) -> Option<Row<'a>> {
        let (sign, text) = match line.as_bytes().first() {
            Some(b'+') if self.after.1 > 0 => (Sign::Added, &line[1..]),
            Some(b'-') if self.before.1 > 0 => (Sign::Removed, &line[1..]),
            Some(b' ') if self.before.1 > 0 && self.after.1 > 0 => (Sign::Kept, &line[1..]),
            // The blank of an empty line is easily lost.
            None | Some(b'\r') if self.before.1 > 0 && self.after.1 > 0 => (Sign::Kept, line),
            Some(_) | None => return None,
        };
        let mut number = 0;
        let before = self.before.0;
        for (side, counts) in [(&mut self.before, sign != Sign::Added), (&mut self.after, sign != Sign::Removed)] {
            if counts {
                number = side.0;
                *side = (side.0.saturating_add(1), side.1 - 1);
            }
        }
        Some(Row { sign, number, before, text })
    }
}

/// `@@ -1,3 +1,4 @@`, and what may stand behind it.
fn head(line: &str) -> Option<Left> {
    let (numbers, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (before, after) = numbers.split_once(" +")?;
    Some(Left { before: range(before)?, after: range(after)? })
}

fn range(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((first, count)) => Some((first.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// Which rows stand beside each other: kept ones with themselves, and the lines of a change in their order.
pub(super) fn pairs(rows: &[Row<'_>]) -> Vec<(Option<usize>, Option<usize>)> {
    let (mut pairs, mut at) = (Vec::new(), 0);
    while at < rows.len() {
        if rows[at].sign == Sign::Kept {
            pairs.push((Some(at), Some(at)));
            at += 1;
            continue;
        }
        let (removed, added) = change(rows, at);
        let count = removed.len().max(added.len());
        pairs.extend((0..count).map(|nth| (removed.clone().nth(nth), added.clone().nth(nth))));
        at = added.end;
    }
    pairs
}

/// The lines of the change that begins here: those removed, and those added behind them.
pub(super) fn change(rows: &[Row<'_>], from: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let end =
        |from: usize, sign| rows[from..].iter().position(|row| row.sign != sign).map_or(rows.len(), |at| from + at);
    let middle = end(from, Sign::Removed);
    (from..middle, middle..end(middle, Sign::Added))
}
