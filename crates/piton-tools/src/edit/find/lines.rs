//! A text as lines, to be compared with other lines.

use memchr::memmem;
use std::ops::Range;

/// The lines of a text. A line is known by its range, without the characters that end it.
pub(super) struct Lines<'t> {
    text: &'t [u8],
    ranges: Vec<Range<usize>>,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl<'t> Lines<'t> {
    /// A byte order mark belongs to no line, and what follows the last line's end is none.
    pub(super) fn of(text: &'t [u8]) -> Self {
        let mut start = if text.starts_with(BOM) { BOM.len() } else { 0 };
        let mut ranges = Vec::new();
        for newline in memchr::memchr_iter(b'\n', text) {
            let end = if newline > start && text[newline - 1] == b'\r' { newline - 1 } else { newline };
            ranges.push(start..end);
            start = newline + 1;
        }
        if start < text.len() || ranges.is_empty() {
            ranges.push(start..text.len());
        }
        Self { text, ranges }
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn line(&self, at: usize) -> &'t [u8] {
        &self.text[self.ranges[at].clone()]
    }

    /// The first lines of all windows of this height whose lines are all alike. `is_alike` is asked about a line and its
    /// number in the window.
    pub(super) fn windows(&self, height: usize, is_alike: impl Fn((usize, usize)) -> bool) -> Vec<usize> {
        let starts = 0..(self.len() + 1).saturating_sub(height);
        starts.filter(|start| (0..height).all(|row| is_alike((start + row, row)))).collect()
    }

    /// Where windows of this height are; with their last line's end where it is wanted and there is one.
    pub(super) fn ranges(&self, starts: Vec<usize>, height: usize, with_end: bool) -> Vec<Range<usize>> {
        starts.into_iter().map(|start| self.range(start, start + height - 1, with_end)).collect()
    }

    /// From a line to another.
    pub(super) fn range(&self, first: usize, last: usize, with_end: bool) -> Range<usize> {
        let next = self.ranges.get(last + 1).map_or(self.text.len(), |line| line.start);
        self.ranges[first].start..if with_end { next } else { self.ranges[last].end }
    }

    /// Whether the lines from `start` differ from these by one indentation only.
    pub(super) fn is_shifted(&self, start: usize, wanted: &Lines<'_>) -> bool {
        let rows = 0..wanted.len();
        let own = common_indent(rows.clone().map(|row| self.line(start + row)));
        let theirs = common_indent(rows.clone().map(|row| wanted.line(row)));
        let mut rows = rows.filter(|row| !trim(wanted.line(*row)).is_empty());
        rows.all(|row| self.line(start + row).get(own..) == wanted.line(row).get(theirs..))
    }

    /// Places with the same words in as many lines; of a single line, in a part of a line, too.
    pub(super) fn by_words(&self, wanted: &Lines<'_>, with_end: bool) -> Vec<Range<usize>> {
        let words: Vec<&[u8]> = (0..wanted.len()).flat_map(|row| words(wanted.line(row))).collect();
        let Some(longest) = words.iter().max_by_key(|word| word.len()) else { return Vec::new() };
        let height = wanted.len();
        let is_same =
            |start: &usize| (*start..start + height).flat_map(|at| words_of(self, at)).eq(words.iter().copied());
        if height > 1 {
            // A window begins with the first word: all others are passed over at once.
            let starts = (0..(self.len() + 1).saturating_sub(height)).filter(is_same).collect();
            return self.ranges(starts, height, with_end);
        }
        let finder = memmem::Finder::new(longest);
        let lines = (0..self.len()).filter(|at| finder.find(self.line(*at)).is_some());
        lines
            .flat_map(|at| if is_same(&at) { vec![self.range(at, at, with_end)] } else { self.runs(at, &words) })
            .collect()
    }

    /// The parts of a line that hold these words in a row.
    fn runs(&self, at: usize, words: &[&[u8]]) -> Vec<Range<usize>> {
        let (line, offset) = (self.line(at), self.ranges[at].start);
        let (Some(first), mut runs, mut from) = (words.first(), Vec::new(), 0) else { return Vec::new() };
        while let Some(found) = line.get(from..).and_then(|rest| memmem::find(rest, first)) {
            let start = from + found;
            match run_end(line, start, words) {
                Some(end) if is_of_whole_words(line, &(start..end)) => {
                    runs.push(offset + start..offset + end);
                    from = end;
                }
                _ => from = start + 1,
            }
        }
        runs
    }
}

/// Whether a place neither begins nor ends within a word.
pub(super) fn is_of_whole_words(text: &[u8], place: &Range<usize>) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let is_within = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        before.is_some_and(is_word) && text.get(at).is_some_and(is_word)
    };
    !is_within(place.start) && !is_within(place.end)
}

/// Where these words end, which begin at `start` with white space between them.
fn run_end(line: &[u8], start: usize, words: &[&[u8]]) -> Option<usize> {
    let mut at = start;
    for (number, word) in words.iter().enumerate() {
        let blanks = line[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if number > 0 && blanks == 0 {
            return None;
        }
        at += if number > 0 { blanks } else { 0 };
        at += line[at..].starts_with(word).then_some(word.len())?;
    }
    Some(at)
}

fn words_of<'t>(lines: &Lines<'t>, at: usize) -> impl Iterator<Item = &'t [u8]> {
    words(lines.line(at))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn common_indent<'l>(lines: impl Iterator<Item = &'l [u8]>) -> usize {
    let filled = lines.filter(|line| !trim(line).is_empty());
    filled.map(|line| line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()).min().unwrap_or(0)
}

/// Without the white space around it: that of Unicode where it is text.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
    // Most text begins and ends with ASCII: nothing more has to be looked at.
    if !(edge(text.first()) || edge(text.last())) {
        return text;
    }
    std::str::from_utf8(text)
        .map_or(text, |text| text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').as_bytes())
}
