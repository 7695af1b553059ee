//! Where motions lead and what text objects take in.

use super::command::{Direction, Find, Motion, Object, ObjectKind, Reach, Stop, Words};
use crate::prompt::buffer::Fragment;
use crate::prompt::words::{skip, skip_back};
use std::ops::Range;

/// What of the text between the cursor and the place that a motion leads to an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// The character at the end is left out.
    Exclusive,
    Inclusive,
    /// Whole lines.
    Lines,
}

/// Where a motion leads, and what it takes with an operator. `None` if it leads nowhere.
pub(super) fn target(text: &Fragment, at: usize, motion: Motion, count: Option<usize>) -> Option<(usize, Span)> {
    let times = count.unwrap_or(1);
    let repeat = |step: &dyn Fn(usize) -> usize| (0..times).try_fold(at, |at, _| Some(step(at)).filter(|to| *to != at));
    let far = |step: &dyn Fn(usize) -> usize| (0..times).fold(at, |at, _| step(at));
    let to = match motion {
        Motion::Left => {
            let start = line_start(text, at);
            (far(&|at| text.previous(at).max(start)), Span::Exclusive)
        }
        Motion::Right => {
            let end = line_end(text, at);
            (far(&|at| text.next(at).min(end)), Span::Exclusive)
        }
        Motion::Up => (repeat(&|at| line_above(text, at))?, Span::Lines),
        Motion::Down => (repeat(&|at| line_below(text, at))?, Span::Lines),
        Motion::Word(words) => (far(&|at| next_word(text, at, words)), Span::Exclusive),
        Motion::Back(words) => (far(&|at| word_back(text, at, words)), Span::Exclusive),
        Motion::WordEnd(words) => (far(&|at| word_end(text, at, words)), Span::Inclusive),
        Motion::LineStart => (line_start(text, at), Span::Exclusive),
        Motion::FirstNonBlank => (first_non_blank(text, at), Span::Exclusive),
        Motion::LineEnd => (line_end(text, at), Span::Exclusive),
        Motion::Find(find) => found(text, at, find, times)?,
        // The caller knows what was found before.
        Motion::FindAgain(_) => return None,
        Motion::FirstLine => (first_non_blank(text, nth_line(text, count.unwrap_or(1))), Span::Lines),
        Motion::LastLine => {
            let line = count.map_or_else(|| line_start(text, text.len()), |count| nth_line(text, count));
            (first_non_blank(text, line), Span::Lines)
        }
    };
    Some(to)
}

/// The text that an object takes in around the cursor.
pub(super) fn object(text: &Fragment, at: usize, object: Object) -> Option<Range<usize>> {
    match object.kind {
        ObjectKind::Word(words) => word_object(text, at, words, object.reach),
        ObjectKind::Quote(quote) => quoted(text, at, quote, object.reach),
        ObjectKind::Brackets(open, close) => bracketed(text, at, open, close, object.reach),
    }
}

pub(super) fn line_start(text: &Fragment, at: usize) -> usize {
    text.text()[..at].rfind('\n').map_or(0, |found| found + 1)
}

pub(super) fn line_end(text: &Fragment, at: usize) -> usize {
    text.text()[at..].find('\n').map_or(text.len(), |found| at + found)
}

pub(super) fn first_non_blank(text: &Fragment, at: usize) -> usize {
    let (start, end) = (line_start(text, at), line_end(text, at));
    skip(text, start, |text, place| place < end && kind(text, place, Words::Large) == Kind::Blank)
}

/// What a character is to words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Sign,
    Letter,
    /// A word by itself.
    Chip,
}

fn kind(text: &Fragment, at: usize, words: Words) -> Kind {
    if text.chip_at(at).is_some() {
        return Kind::Chip;
    }
    match text.text()[at..].chars().next() {
        None => Kind::Blank,
        Some(char) if char.is_whitespace() => Kind::Blank,
        Some(char) if char.is_alphanumeric() || char == '_' || words == Words::Large => Kind::Letter,
        Some(_) => Kind::Sign,
    }
}

/// Whether the characters at these places, one behind the other, are of one word.
fn is_one_word(text: &Fragment, one: usize, other: usize, words: Words) -> bool {
    let (one, other) = (kind(text, one, words), kind(text, other, words));
    one == other && one != Kind::Chip
}

fn is_empty_line(text: &Fragment, at: usize) -> bool {
    text.text()[at..].starts_with('\n') && (at == 0 || text.text()[..at].ends_with('\n'))
}

fn is_break(text: &Fragment, at: usize) -> bool {
    text.text()[at..].starts_with('\n')
}

fn next_word(text: &Fragment, at: usize, words: Words) -> usize {
    let mut place = at;
    if at < text.len() && kind(text, at, words) != Kind::Blank {
        place = text.next(run_end(text, at, words));
    } else if at < text.len() && is_empty_line(text, at) {
        place = text.next(at);
    }
    skip(text, place, |text, place| kind(text, place, words) == Kind::Blank && !is_empty_line(text, place))
}

fn word_end(text: &Fragment, at: usize, words: Words) -> usize {
    let begin = skip(text, text.next(at), |text, place| kind(text, place, words) == Kind::Blank);
    if begin < text.len() { run_end(text, begin, words) } else { text.previous(text.len()).max(at) }
}

fn word_back(text: &Fragment, at: usize, words: Words) -> usize {
    let begin =
        skip_back(text, at, |text, place| kind(text, place, words) == Kind::Blank && !is_empty_line(text, place));
    if begin == 0 {
        return 0;
    }
    run_start(text, text.previous(begin), words)
}

/// The last character of the run of one kind that this one is in.
fn run_end(text: &Fragment, at: usize, words: Words) -> usize {
    let mut place = at;
    loop {
        let next = text.next(place);
        if next >= text.len() || is_break(text, next) || !is_one_word(text, place, next, words) {
            return place;
        }
        place = next;
    }
}

fn run_start(text: &Fragment, at: usize, words: Words) -> usize {
    let mut place = at;
    while place > 0 {
        let previous = text.previous(place);
        if is_break(text, previous) || !is_one_word(text, previous, place, words) {
            break;
        }
        place = previous;
    }
    place
}

fn line_above(text: &Fragment, at: usize) -> usize {
    let start = line_start(text, at);
    if start == 0 { at } else { line_start(text, start - 1) }
}

fn line_below(text: &Fragment, at: usize) -> usize {
    let end = line_end(text, at);
    if end == text.len() { at } else { end + 1 }
}

fn nth_line(text: &Fragment, number: usize) -> usize {
    (1..number.max(1)).fold(0, |at, _| line_below(text, at))
}

fn found(text: &Fragment, at: usize, find: Find, times: usize) -> Option<(usize, Span)> {
    let fits = |place: usize| text.chip_at(place).is_none() && text.text()[place..].starts_with(find.char);
    let mut place = at;
    for _ in 0..times {
        loop {
            let next = match find.direction {
                Direction::Forward => text.next(place),
                Direction::Backward => text.previous(place),
            };
            if next == place || next >= text.len() || is_break(text, next) {
                return None;
            }
            place = next;
            if fits(place) {
                break;
            }
        }
    }
    Some(match (find.direction, find.stop) {
        (Direction::Forward, Stop::On) => (place, Span::Inclusive),
        (Direction::Forward, Stop::Before) => (text.previous(place), Span::Inclusive),
        (Direction::Backward, Stop::On) => (place, Span::Exclusive),
        (Direction::Backward, Stop::Before) => (text.next(place), Span::Exclusive),
    })
}

fn word_object(text: &Fragment, at: usize, words: Words, reach: Reach) -> Option<Range<usize>> {
    if at >= text.len() || is_break(text, at) {
        return None;
    }
    let (start, end) = (run_start(text, at, words), text.next(run_end(text, at, words)));
    if reach == Reach::Inner {
        return Some(start..end);
    }
    if kind(text, at, words) == Kind::Blank {
        let has_word = end < text.len() && !is_break(text, end);
        return Some(start..if has_word { text.next(run_end(text, end, words)) } else { end });
    }
    Some(with_blanks(text, start..end))
}

/// With the blanks behind it, or if there are none, with those before it.
fn with_blanks(text: &Fragment, range: Range<usize>) -> Range<usize> {
    let is_blank = |text: &Fragment, place| kind(text, place, Words::Large) == Kind::Blank && !is_break(text, place);
    let end = skip(text, range.end, is_blank);
    if end > range.end { range.start..end } else { skip_back(text, range.start, is_blank)..range.end }
}

/// Between two quotes of the line: those around the cursor, or the next ones.
fn quoted(text: &Fragment, at: usize, quote: char, reach: Reach) -> Option<Range<usize>> {
    let (mut place, end) = (line_start(text, at), line_end(text, at));
    let mut quotes = Vec::new();
    while place < end {
        let next = text.next(place);
        if text.text()[place..].starts_with('\\') {
            place = text.next(next);
            continue;
        }
        if text.chip_at(place).is_none() && text.text()[place..].starts_with(quote) {
            quotes.push(place..next);
        }
        place = next;
    }
    let pair = quotes.chunks_exact(2).find(|pair| at < pair[1].end)?;
    Some(match reach {
        Reach::Inner => pair[0].end..pair[1].start,
        Reach::Around => with_blanks(text, pair[0].start..pair[1].end),
    })
}

fn bracketed(text: &Fragment, at: usize, open: char, close: char, reach: Reach) -> Option<Range<usize>> {
    let is = |place: usize, char| text.chip_at(place).is_none() && text.text()[place..].starts_with(char);
    let mut start = at;
    let mut depth = 0;
    while !(is(start, open) && depth == 0) {
        if is(start, open) {
            depth -= 1;
        }
        if start == 0 {
            return None;
        }
        start = text.previous(start);
        if is(start, close) {
            depth += 1;
        }
    }
    let mut end = text.next(start);
    let mut depth = 0;
    while end < text.len() && !(is(end, close) && depth == 0) {
        if is(end, open) {
            depth += 1;
        } else if is(end, close) {
            depth -= 1;
        }
        end = text.next(end);
    }
    if end >= text.len() {
        return None;
    }
    Some(match reach {
        Reach::Inner => text.next(start)..end,
        Reach::Around => start..text.next(end),
    })
}
