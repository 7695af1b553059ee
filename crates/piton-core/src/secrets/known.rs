//! Values that are known, found in every form.

use super::compare::{Compared, compare, start_of, with_neighbours};
use super::firewall::Depth;
use super::forms::{Form, forms};
use super::sieve::{Windows, window_at};
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
    /// The most bytes of a text that one of them takes.
    longest: usize,
}

/// A value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) value: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether all of it is there.
    pub(super) is_whole: bool,
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
            for first in form.first_windows() {
                self.windows.add(first, entry);
            }
            self.longest = self.longest.max(form.longest_text());
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
        let entries = self.windows.entries(window_at(text, at)?);
        if entries.is_empty() {
            return None;
        }
        let found = entries.iter().filter_map(|entry| {
            let (form, value) = &self.forms[*entry as usize];
            let at = start_of(form.kind, text, at);
            let (end, is_whole) = match compare(form, text, at) {
                Compared::Whole(end) => (end, true),
                Compared::Cut { end, same }
                    if depth == Depth::Everything && same >= LEAST_PIECE.max(form.bytes.len() / 3) =>
                {
                    (end, false)
                }
                Compared::Cut { .. } | Compared::Other => return None,
            };
            let (start, end) = with_neighbours(form, text, at, end);
            Some(Match { value: *value, start, end, is_whole })
        });
        found.max_by_key(|found| (found.end, found.is_whole))
    }

    /// From where on the end of a text may be the beginning of a value.
    pub(super) fn unfinished_from(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(self.longest);
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
