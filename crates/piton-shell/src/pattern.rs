//! Patterns of rules for commands: `git push *`, `git diff:*`.

use crate::reading::Part;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// A pattern for a simple command: words, with `*` for any text. A last ` *` or `:*` also stands for no arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandPattern {
    /// As it was written.
    source: String,
    /// Text with `*`, one blank between words.
    text: String,
    /// Whether a last ` *` was taken off: any arguments may follow, or none.
    open_end: bool,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError;

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pattern for commands has at least one word")
    }
}

impl std::error::Error for PatternError {}

impl CommandPattern {
    /// Reads a pattern. Blanks between words count once.
    pub fn parse(source: &str) -> Result<Self, PatternError> {
        let text = source.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return Err(PatternError);
        }
        let front = text.strip_suffix(" *").or_else(|| text.strip_suffix(":*")).filter(|front| !front.is_empty());
        Ok(Self { source: source.to_string(), open_end: front.is_some(), text: front.unwrap_or(&text).to_string() })
    }

    /// The text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the pattern covers the part for certain: what is known only when it runs is covered by `*` alone. This is
    /// what an `allow` needs, but not all of it ([`CommandPattern::permits`]).
    pub fn matches(&self, part: &Part) -> bool {
        self.candidates(part).iter().any(|words| {
            let text: Vec<Letter> = letters(words, &part.unresolved, part.words.len(), false);
            self.covers(&text, false)
        })
    }

    /// Whether the pattern could cover the part, with anything in place of what is known only when it runs. This is what
    /// a `deny` and an `ask` need.
    pub fn could_match(&self, part: &Part) -> bool {
        self.candidates(part).iter().any(|words| {
            let text: Vec<Letter> = letters(words, &part.unresolved, part.words.len(), true);
            self.covers(&text, true)
        })
    }

    /// Whether an `allow` with this pattern covers the part: it matches, and names every [risky](Part::risky) word literally.
    pub fn permits(&self, part: &Part) -> bool {
        let named: Vec<&str> = self.text.split(' ').collect();
        part.risky.iter().all(|word| named.contains(&word.as_str())) && self.matches(part)
    }

    /// Whether one is more particular than the other: it has more that is literal, then less that is open. A total order up to
    /// spelling, so that of two rules always the same one wins.
    pub fn is_more_particular(&self, other: &Self) -> bool {
        self.particular().cmp(&other.particular()).then_with(|| other.text.cmp(&self.text)) == Ordering::Greater
    }

    fn particular(&self) -> (usize, bool, usize) {
        let literal = self.text.chars().filter(|c| *c != '*').count();
        (literal, !self.open_end, usize::MAX - self.text.matches('*').count())
    }

    /// The command under each name of its program, alone and behind its wrappers.
    fn candidates(&self, part: &Part) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        let named = |name: &String| [std::slice::from_ref(name), part.words.get(1..).unwrap_or_default()].concat();
        for words in part.names.iter().map(named) {
            for outer in 0..part.through.len() {
                all.push([&part.through[outer..], &words].concat());
            }
            all.push(words);
        }
        all
    }

    fn covers(&self, text: &[Letter], open_is_any: bool) -> bool {
        let mut pattern: Vec<Letter> =
            self.text.chars().map(|c| if c == '*' { Letter::Any } else { Letter::Char(c) }).collect();
        if covers(&pattern, text, open_is_any) {
            return true;
        }
        pattern.extend([Letter::Char(' '), Letter::Any]);
        self.open_end && covers(&pattern, text, open_is_any)
    }
}

impl TryFrom<String> for CommandPattern {
    type Error = PatternError;

    fn try_from(source: String) -> Result<Self, PatternError> {
        Self::parse(&source)
    }
}

impl From<CommandPattern> for String {
    fn from(pattern: CommandPattern) -> Self {
        pattern.source
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Char(char),
    /// In a pattern: any text. In a command: a text that is known only when it runs.
    Any,
}

/// The words with blanks between. An unresolved word is open; with `vanishes` so is the blank before it, for it may be none.
fn letters(words: &[String], unresolved: &[usize], own: usize, vanishes: bool) -> Vec<Letter> {
    let before = words.len() - own.min(words.len());
    let mut text = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let open = at >= before && unresolved.contains(&(at - before));
        if at > 0 && !(open && vanishes) {
            text.push(Letter::Char(' '));
        }
        if open {
            text.push(Letter::Any);
        } else {
            text.extend(word.chars().map(Letter::Char));
        }
    }
    text
}

/// Whether a pattern covers a text. Where `open_is_any`, what is open in the text stands for any text that fits.
fn covers(pattern: &[Letter], text: &[Letter], open_is_any: bool) -> bool {
    // Row by row over the text: `reached[i]` says that the first `i` letters of the pattern are used up.
    let mut reached: Vec<bool> = vec![false; pattern.len() + 1];
    reached[0] = true;
    skip_stars(pattern, &mut reached);
    for letter in text {
        let mut next = vec![false; pattern.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            match (letter, pattern.get(at)) {
                (_, Some(Letter::Any)) => next[at] = true,
                (Letter::Char(c), Some(Letter::Char(p))) => next[at + 1] |= c == p,
                (Letter::Char(_), None) => {}
                (Letter::Any, _) if open_is_any => next[at..].fill(true),
                (Letter::Any, _) => {}
            }
            if *letter == Letter::Any && open_is_any {
                next[at..].fill(true);
                break;
            }
        }
        skip_stars(pattern, &mut next);
        reached = next;
    }
    reached[pattern.len()]
}

/// A star may stand for nothing.
fn skip_stars(pattern: &[Letter], reached: &mut [bool]) {
    for (at, letter) in pattern.iter().enumerate() {
        if reached[at] && *letter == Letter::Any {
            reached[at + 1] = true;
        }
    }
}
