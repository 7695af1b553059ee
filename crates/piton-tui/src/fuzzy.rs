//! Finding names by some of their letters, as in every picker. The matching is nucleo's; here is what a picker needs of it.

#[cfg(test)]
mod tests;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::cmp::Reverse;
use unicode_segmentation::UnicodeSegmentation;

/// A name that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Which of the names it is.
    pub index: usize,
    /// How well it fits: more is better.
    pub score: u32,
    /// The bytes of the name at which the characters begin that fit, in their order.
    pub positions: Vec<usize>,
}

/// The names that fit best, best first; of two that fit as well the shorter one. The letters of each word of `needle` must
/// be in the name, in their order; without a capital letter capitals do not matter, without an accent accents do not. An
/// empty `needle` fits all names, in their order.
pub fn best<'a>(needle: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Vec<Hit> {
    let mut fuzzy = Fuzzy::new(needle);
    let mut fitting: Vec<_> = names
        .enumerate()
        .filter_map(|(index, name)| {
            Some((fuzzy.score(name)?, if fuzzy.is_empty() { 0 } else { name.len() }, index, name))
        })
        .collect();
    fitting.sort_by_key(|(score, length, index, _)| (Reverse(*score), *length, *index));
    fitting.truncate(most);
    let hit = |(score, _, index, name)| Hit { index, score, positions: fuzzy.positions(name) };
    fitting.into_iter().map(hit).collect()
}

/// A needle that is looked for in many names.
pub(crate) struct Fuzzy {
    pattern: Pattern,
    matcher: Matcher,
    chars: Vec<char>,
}

impl Fuzzy {
    /// For names of any kind.
    pub(crate) fn new(needle: &str) -> Self {
        Self::with(needle, Config::DEFAULT)
    }

    /// For paths: what begins behind a slash counts more.
    pub(crate) fn for_paths(needle: &str) -> Self {
        Self::with(needle, Config::DEFAULT.match_paths())
    }

    fn with(needle: &str, config: Config) -> Self {
        let pattern = Pattern::new(needle, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
        Self { pattern, matcher: Matcher::new(config), chars: Vec::new() }
    }

    /// Whether everything fits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pattern.atoms.is_empty()
    }

    /// How well a name fits; `None` if it does not.
    pub(crate) fn score(&mut self, name: &str) -> Option<u32> {
        self.pattern.score(Utf32Str::new(name, &mut self.chars), &mut self.matcher)
    }

    /// See [`Hit::positions`].
    pub(crate) fn positions(&mut self, name: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let name_chars = Utf32Str::new(name, &mut self.chars);
        let is_ascii = name_chars.is_ascii();
        self.pattern.indices(name_chars, &mut self.matcher, &mut found);
        found.sort_unstable();
        found.dedup();
        let found = found.into_iter().filter_map(|index| usize::try_from(index).ok());
        if is_ascii {
            return found.collect();
        }
        let starts: Vec<usize> = name.grapheme_indices(true).map(|(start, _)| start).collect();
        found.filter_map(|index| starts.get(index).copied()).collect()
    }
}
