//! Edits of one content, one after the other, all or none. Texts in, text out: the file is not known here.

use super::closest::closest;
use super::find::{Hit, Miss, Way, find};
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

/// One replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'e> {
    /// What goes.
    pub old: &'e str,
    /// What comes.
    pub new: &'e str,
    /// Wherever it is.
    pub all: bool,
}

/// What came of all edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The new content.
    pub content: Vec<u8>,
    /// How many places changed.
    pub places: usize,
    /// The edits whose text was not there as written.
    pub inexact: Vec<Inexact>,
}

/// An edit whose text was not there as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inexact {
    /// Its number, from 0.
    pub edit: usize,
    /// How its text was found.
    pub way: Way,
    /// The first and the last line of each place, from 1, in the content as this edit found it.
    pub lines: Vec<(usize, usize)>,
}

/// The first edit that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its number, from 0.
    pub edit: usize,
    /// Why.
    pub why: Why,
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It would change nothing.
    Same,
    /// It names nothing that could be replaced.
    Empty,
    /// Its text is nowhere; what comes closest, in words.
    Nowhere(String),
    /// Its text may be on any of these lines.
    Several {
        /// The first line of each place.
        lines: Vec<usize>,
        /// How they were found.
        way: Way,
    },
    /// What fits is far larger than its text: from a line to a line.
    TooLarge(usize, usize),
}

/// Makes all edits, each in what the one before it left.
pub fn replace(content: &[u8], edits: &[Edit<'_>]) -> Result<Edited, Refused> {
    let (mut now, mut places, mut inexact) = (Cow::Borrowed(content), 0, Vec::new());
    for (number, edit) in edits.iter().enumerate() {
        let refused = |why| Refused { edit: number, why };
        if edit.old == edit.new {
            return Err(refused(Why::Same));
        }
        if edit.old.is_empty() {
            return Err(refused(Why::Empty));
        }
        let (hit, new) = located(&now, *edit).map_err(refused)?;
        if hit.way != Way::Exact {
            let lines = hit.places.iter().map(|place| lines_of(&now, place)).collect();
            inexact.push(Inexact { edit: number, way: hit.way, lines });
        }
        places += hit.places.len();
        now = Cow::Owned(splice(&now, &hit.places, &new));
    }
    Ok(Edited { content: now.into_owned(), places, inexact })
}

/// Where an edit goes, and what it puts there: with the file's line ends, or as it is. Models see and write plain newlines.
fn located(content: &[u8], edit: Edit<'_>) -> Result<(Hit, Vec<u8>), Why> {
    let crlf = memmem::find_iter(content, b"\r\n").count();
    let lf = memchr::memchr_iter(b'\n', content).count() - crlf;
    let plain = (edit.old.as_bytes().to_vec(), edit.new.as_bytes().to_vec());
    let converted = || (with_crlf(edit.old), with_crlf(edit.new));
    let readings = match (crlf, crlf > lf) {
        (0, _) => vec![plain],
        (_, true) => vec![converted(), plain],
        (_, false) => vec![plain, converted()],
    };
    // As it is written in either reading comes before whatever is only like it.
    for (old, new) in &readings {
        if memmem::find(content, old).is_some() {
            return match find(content, old, edit.all) {
                Ok(hit) => Ok((hit, new.clone())),
                Err(miss) => Err(why(content, edit, miss)),
            };
        }
    }
    let (old, new) = readings.into_iter().next().unwrap_or_default();
    match find(content, &old, edit.all) {
        Ok(hit) => Ok((hit, new)),
        Err(miss) => Err(why(content, edit, miss)),
    }
}

fn why(content: &[u8], edit: Edit<'_>, miss: Miss) -> Why {
    match miss {
        Miss::Nowhere => Why::Nowhere(closest(&String::from_utf8_lossy(content), edit.old)),
        Miss::Several { places, way } => {
            Why::Several { lines: places.iter().map(|place| lines_of(content, place).0).collect(), way }
        }
        Miss::TooLarge { place } => {
            let (first, last) = lines_of(content, &place);
            Why::TooLarge(first, last)
        }
    }
}

fn with_crlf(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

fn splice(content: &[u8], places: &[Range<usize>], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut from = 0;
    for place in places {
        result.extend_from_slice(&content[from..place.start]);
        result.extend_from_slice(new);
        from = place.end;
    }
    result.extend_from_slice(&content[from..]);
    result
}

/// The first and the last line of a place, from 1.
fn lines_of(content: &[u8], place: &Range<usize>) -> (usize, usize) {
    let count = |range: Range<usize>| memchr::memchr_iter(b'\n', &content[range]).count();
    let first = count(0..place.start) + 1;
    let last = first + count(place.start..place.end.max(place.start + 1) - 1);
    (first, last)
}
