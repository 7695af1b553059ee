//! Finds the piece of a file that a model means: exactly as written, else as much like it as is safe to take for it.
//!
//! The ways are tried in the order of [`Way`]; the first that finds anything decides. One place is a hit. Several are
//! refused, unless all are wanted: a text that fits twice is no name of a place. All of it works on bytes, since a file need
//! not be UTF-8. What is done with the place is not known here.

mod anchors;
mod lines;

use lines::{Lines, trim};
use memchr::memmem;
use std::ops::Range;

/// How a text was found, the strictest way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Byte for byte.
    Exact,
    /// But for one indentation that all lines have more or less of.
    Indentation,
    /// But for blanks at the ends of lines.
    LineEnds,
    /// The first and the last line, and most of what is between them.
    Anchors,
    /// But for how much white space is between words.
    Whitespace,
    /// With `\n`, `\t`, `\"` and their like for what they stand for.
    Escapes,
    /// But for white space around the whole.
    Boundary,
}

/// Where a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Byte ranges in order, which do not overlap.
    pub places: Vec<Range<usize>>,
    /// How.
    pub way: Way,
}

/// Why no place is meant for sure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// It is nowhere.
    Nowhere,
    /// It may be any of these.
    Several {
        /// Byte ranges in order.
        places: Vec<Range<usize>>,
        /// How they were found.
        way: Way,
    },
    /// What fits is so much larger than what was asked for that more would go than was meant.
    TooLarge {
        /// It.
        place: Range<usize>,
    },
}

impl Way {
    /// What was passed over, for people and models.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "exactly as written",
            Self::Indentation => "with another indentation",
            Self::LineEnds => "with other blanks at the ends of lines",
            Self::Anchors => "by its first and last line; lines between them differ",
            Self::Whitespace => "with other white space between words",
            Self::Escapes => "with its escapes (\\n, \\t, \\\") resolved",
            Self::Boundary => "without the white space around it",
        }
    }
}

/// Finds `old`; with `all`, every place of the way that finds it first.
pub fn find(content: &[u8], old: &[u8], all: bool) -> Result<Hit, Miss> {
    if old.is_empty() {
        return Err(Miss::Nowhere);
    }
    if let Some(found) = one_of(exact(content, old, all), Way::Exact, all) {
        return found;
    }
    // White space alone names a place only as it is.
    if trim(old).is_empty() {
        return Err(Miss::Nowhere);
    }
    let (file, wanted) = (Lines::of(content), Lines::of(old));
    let trimmed = file.windows(wanted.len(), |at| trim(file.line(at.0)) == trim(wanted.line(at.1)));
    let shifted: Vec<usize> = trimmed.iter().copied().filter(|at| file.is_shifted(*at, &wanted)).collect();
    let ends_in_line = old.ends_with(b"\n");
    let ranges = |starts: Vec<usize>| file.ranges(starts, wanted.len(), ends_in_line);
    // Of several places the one whose lines stand to each other as written is the one that is meant.
    let by_lines = match (shifted.len(), trimmed.len()) {
        (0, _) => one_of(ranges(trimmed), Way::LineEnds, all),
        (1, _) => one_of(ranges(shifted), Way::Indentation, all),
        (_, _) => one_of(ranges(trimmed), Way::Indentation, all),
    };
    if let Some(found) = by_lines {
        return found;
    }
    if let Some(found) = anchors::find(&file, &wanted, ends_in_line) {
        return found.and_then(|hit| bounded(hit, content, old));
    }
    if let Some(found) = one_of(file.by_words(&wanted, ends_in_line), Way::Whitespace, all) {
        return found.and_then(|hit| bounded(hit, content, old));
    }
    if let Some(plain) = unescaped(old)
        && let Some(found) = one_of(exact(content, &plain, all), Way::Escapes, all)
    {
        return found;
    }
    let inner = trim(old);
    let whole =
        || exact(content, inner, all).into_iter().filter(|place| lines::is_of_whole_words(content, place)).collect();
    let inner = if inner == old { None } else { one_of(whole(), Way::Boundary, all) };
    inner.unwrap_or(Err(Miss::Nowhere))
}

/// Where it stands. Unless all places are wanted, those that overlap count as several: any of them may be meant.
fn exact(content: &[u8], old: &[u8], all: bool) -> Vec<Range<usize>> {
    /// More only fill the window.
    const SHOWN: usize = 50;
    if all {
        return memmem::find_iter(content, old).map(|at| at..at + old.len()).collect();
    }
    let finder = memmem::Finder::new(old);
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(at) = finder.find(&content[from..]).filter(|_| places.len() < SHOWN) {
        places.push(from + at..from + at + old.len());
        from += at + 1;
    }
    places
}

/// One place, or all that are wanted; `None` where there is nothing at all.
fn one_of(mut places: Vec<Range<usize>>, way: Way, all: bool) -> Option<Result<Hit, Miss>> {
    match places.len() {
        0 => None,
        1 => Some(Ok(Hit { places, way })),
        _ if all => {
            // Of places that overlap the first is taken, as an exact search does.
            let mut free_from = 0;
            places.retain(|place| {
                let is_free = place.start >= free_from;
                free_from = if is_free { place.end } else { free_from };
                is_free
            });
            Some(Ok(Hit { places, way }))
        }
        _ => Some(Err(Miss::Several { places, way })),
    }
}

/// Refuses what is much larger than the text that was asked for.
fn bounded(hit: Hit, content: &[u8], old: &[u8]) -> Result<Hit, Miss> {
    const MORE_LINES: usize = 3;
    const MORE_BYTES: usize = 500;
    const TIMES_BYTES: usize = 4;
    let count = |text: &[u8]| memchr::memchr_iter(b'\n', text).count() + 1;
    let (lines, bytes) = (count(old), trim(old).len());
    let is_larger = |place: &Range<usize>| {
        let found = &content[place.clone()];
        count(found) >= (lines + MORE_LINES).max(lines * 2)
            || trim(found).len() > (bytes + MORE_BYTES).max(bytes * TIMES_BYTES)
    };
    match hit.places.iter().find(|place| is_larger(place)) {
        Some(place) => Err(Miss::TooLarge { place: place.clone() }),
        None => Ok(hit),
    }
}

/// The text with its escapes resolved; `None` if it has none.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let (mut plain, mut rest, mut is_changed) = (Vec::with_capacity(text.len()), text, false);
    while let Some((byte, after)) = rest.split_first() {
        let escaped = match (byte, after.first()) {
            (b'\\', Some(b'n' | b'\n')) => Some(b'\n'),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(plain @ (b'\'' | b'"' | b'`' | b'\\' | b'$'))) => Some(*plain),
            _ => None,
        };
        is_changed |= escaped.is_some();
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[1..] } else { after };
    }
    is_changed.then_some(plain)
}

#[cfg(test)]
mod tests;
