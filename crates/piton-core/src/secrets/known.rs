//! Values that are known, found in every form.

use super::classify::is_base64;
use super::firewall::Depth;
use super::forms::{Form, FormKind, forms};
use super::sieve::{WINDOW, Windows, window_at};
use std::collections::HashMap;

/// Values longer than this are looked for by their beginning, in bytes: a file of keys, not a key.
const LONGEST: usize = 8 << 10;
/// What is cut off of a value is found from so many bytes on.
const LEAST_PIECE: usize = 8;

/// Values, and the forms in which they turn up.
#[derive(Default)]
pub(super) struct Known {
    values: Vec<(String, Vec<u8>)>,
    by_value: HashMap<Vec<u8>, usize>,
    /// Each form, and of which value.
    forms: Vec<(Form, usize)>,
    windows: Windows,
    /// The longest form, in bytes.
    longest: usize,
}

/// A value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) value: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// How a form compares with a text from some position on.
enum Compared {
    /// All of it stands there, up to here.
    Whole(usize),
    /// The text, or its line, is cut there after so much of it.
    Cut {
        end: usize,
        same: usize,
    },
    Other,
}

impl Known {
    /// Adds a value, if it is not there. The first name stays.
    pub(super) fn add(&mut self, name: &str, value: &[u8]) {
        let value = &value[..value.len().min(LONGEST)];
        if self.has(value) {
            return;
        }
        let number = self.values.len();
        self.values.push((name.to_owned(), value.to_vec()));
        self.by_value.insert(value.to_vec(), number);
        for form in forms(value) {
            let entry = u32::try_from(self.forms.len()).unwrap_or(u32::MAX);
            for first in first_windows(&form) {
                self.windows.add(first, entry);
            }
            self.longest = self.longest.max(form.bytes.len());
            self.forms.push((form, number));
        }
    }

    pub(super) fn has(&self, value: &[u8]) -> bool {
        self.by_value.contains_key(value)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn value(&self, number: usize) -> (&str, &[u8]) {
        let (name, value) = &self.values[number];
        (name, value)
    }

    pub(super) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The longest known value that begins here, in any form. Of what the model writes a beginning is none (`depth`): else it
    /// could guess a value letter by letter, and see by what becomes of its words whether it is right.
    pub(super) fn at(&self, text: &[u8], at: usize, depth: Depth) -> Option<Match> {
        let first = window_at(text, at)?;
        let found = self.windows.entries(first).iter().filter_map(|entry| {
            let (form, value) = &self.forms[*entry as usize];
            let end = match compare(form, text, at) {
                Compared::Whole(end) => end,
                Compared::Cut { end, same }
                    if depth == Depth::Everything && same >= LEAST_PIECE.max(form.bytes.len() / 3) =>
                {
                    end
                }
                Compared::Cut { .. } | Compared::Other => return None,
            };
            let (start, end) = with_neighbours(form.kind, text, at, end);
            Some(Match { value: *value, start, end })
        });
        found.max_by_key(|found| found.end)
    }

    /// From where on the end of a text may be the beginning of a value.
    pub(super) fn unfinished_from(&self, text: &[u8]) -> usize {
        // Each byte may stand on a line of its own.
        let from = text.len().saturating_sub(self.longest.saturating_mul(2));
        let may_go_on = |at: usize| {
            match window_at(text, at) {
            Some(first) => self.windows.entries(first).iter().any(|entry| {
                matches!(compare(&self.forms[*entry as usize].0, text, at), Compared::Cut { end, .. } if end == text.len())
            }),
            None => self.forms.iter().any(|(form, _)| {
                matches!(compare(form, text, at), Compared::Cut { end, same } if end == text.len() && same > 0)
            }),
        }
        };
        (from..text.len()).find(|at| may_go_on(*at)).unwrap_or(text.len())
    }
}

/// The first four bytes of a form, in each way in which they may be written.
fn first_windows(form: &Form) -> Vec<[u8; WINDOW]> {
    let bytes = &form.bytes;
    let Some(first) = bytes.first_chunk::<WINDOW>() else { return Vec::new() };
    match form.kind {
        FormKind::Folded | FormKind::Base64 { .. } => vec![*first],
        FormKind::Hex => {
            let [a, b, c, _] = *first;
            std::iter::once(*first).chain(SEPARATORS.iter().map(|between| [a, b, *between, c])).collect()
        }
    }
}

/// What tools put between the bytes of a dump.
const SEPARATORS: [u8; 4] = [b' ', b':', b'-', b','];

/// Compares a form with a text; ends of lines in the text are passed over.
fn compare(form: &Form, text: &[u8], at: usize) -> Compared {
    let is_same = |a: u8, b: u8| match form.kind {
        FormKind::Folded | FormKind::Hex => a.eq_ignore_ascii_case(&b),
        FormKind::Base64 { .. } => a == b,
    };
    let (mut here, mut same) = (at, 0);
    // Where what is the same ends, without line ends behind it.
    let mut end = at;
    while let Some(wanted) = form.bytes.get(same) {
        let Some(byte) = text.get(here) else { return Compared::Cut { end: here, same } };
        let is_between = FormKind::Hex == form.kind && same % 2 == 0 && same > 0 && SEPARATORS.contains(byte);
        if is_same(*byte, *wanted) {
            (here, same) = (here + 1, same + 1);
            end = here;
        } else if same > 0 && (is_line_end(*byte) || is_between) {
            here += 1;
        } else if let Some(length) = colour(&text[here..]).filter(|_| same > 0) {
            here += length;
        } else if same > 0
            && (here > end || text[here..].starts_with("…".as_bytes()) || text[here..].starts_with(b"..."))
        {
            return Compared::Cut { end, same };
        } else {
            return Compared::Other;
        }
    }
    Compared::Whole(end)
}

/// How long the escape sequence of a terminal is that stands here: `grep` colours what it found, in the middle of a word.
fn colour(text: &[u8]) -> Option<usize> {
    const MOST: usize = 20;
    let inner = text.strip_prefix(b"\x1b[")?;
    Some(inner.iter().take(MOST).position(u8::is_ascii_alphabetic)? + 3)
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// The characters beside base64 that hold bits of the value go with it.
fn with_neighbours(kind: FormKind, text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let FormKind::Base64 { before, after } = kind else { return (start, end) };
    let is_there = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|byte| is_base64(*byte));
    let start = if before && is_there(start.checked_sub(1)) { start - 1 } else { start };
    let end = if after && is_there(Some(end)) { end + 1 } else { end };
    (start, end)
}
