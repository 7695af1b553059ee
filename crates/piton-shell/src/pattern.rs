//! Patterns of rules for commands: `git push *`, `git diff:*`.

use crate::reading::Part;
use crate::{flags, spelling, wrappers};
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
        behind_wrappers(part).any(|candidate| self.matches_as_written(&candidate))
    }

    /// Whether the pattern could cover the part, with anything in place of what is known only when it runs, and whatever
    /// options stand between its words. This is what a `deny` and an `ask` need.
    pub fn could_match(&self, part: &Part) -> bool {
        // A star between words may stand for none of them: `sed * -i` is `sed -i`, too.
        let without = letters_of(&self.text.replace(" * ", " "));
        let pattern = self.letters();
        behind_wrappers(part).flat_map(Candidate::respelled).any(|candidate| {
            let words = candidate.letters(true);
            let fits = |pattern: &[Letter]| {
                covers(pattern, &words, Any::IsAnything)
                    || self.open_end && covers(&with_more(pattern), &words, Any::IsAnything)
            };
            fits(&pattern) || without != pattern && fits(&without) || self.means(&candidate)
        })
    }

    /// Whether the pattern means the command with its options in another order or by other names, or, of a program like `make`, with
    /// its operands in another order.
    fn means(&self, candidate: &Candidate<'_>) -> bool {
        let (options, plain): (Vec<&str>, Vec<&str>) = self.text.split(' ').partition(|word| flags::is_flag(word));
        let is_any_order = flags::is_any_order(candidate.words[0]) && plain.len() > 1;
        if options.is_empty() && !is_any_order || !flags::have_all(&candidate.words, &options) {
            return false;
        }
        let words = candidate.operands();
        if is_any_order {
            let is_there = |word: &&str| candidate.words[1..].contains(word);
            return plain[0] == candidate.words[0] && plain[1..].iter().all(is_there);
        }
        let pattern = letters_of(&plain.join(" "));
        covers(&pattern, &words, Any::IsAnything)
            || self.open_end && covers(&with_more(&pattern), &words, Any::IsAnything)
    }

    /// Whether an `allow` with this pattern covers the part: it matches, it names every [risky](Part::risky) word literally,
    /// and behind a wrapper it names the program, too. Only what is there to run something in a place of its own (`sudo`,
    /// `npx`, `docker exec`) may be named without that.
    pub fn permits(&self, part: &Part) -> bool {
        let named: Vec<&str> = self.text.split(' ').collect();
        let literal = named.iter().take_while(|word| !word.contains('*')).count();
        let names_program = |candidate: &Candidate<'_>| {
            let strict = candidate.through.iter().any(|wrapper| !wrappers::is_place(wrapper));
            !strict || literal > candidate.through.iter().map(|wrapper| wrapper.split(' ').count()).sum()
        };
        part.risky.iter().all(|word| named.contains(&word.as_str()))
            && behind_wrappers(part).any(|candidate| names_program(&candidate) && self.matches_as_written(&candidate))
    }

    fn matches_as_written(&self, candidate: &Candidate<'_>) -> bool {
        let words: Vec<Spelled> = candidate.letters(false);
        let pattern = self.letters();
        covers(&pattern, &words, Any::IsItself) || self.open_end && covers(&with_more(&pattern), &words, Any::IsItself)
    }

    fn letters(&self) -> Vec<Letter> {
        letters_of(&self.text)
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

/// What is open in a command stands for, to a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Any {
    /// Any text that fits.
    IsAnything,
    /// Only what `*` covers.
    IsItself,
}

/// A command as a pattern may mean it: the wrappers that it names, and the words.
#[derive(Debug, Clone)]
struct Candidate<'p> {
    through: &'p [String],
    words: Vec<&'p str>,
    unresolved: &'p [usize],
}

/// A word, with the blank before it, and how many words from it on a pattern may leave out.
#[derive(Debug)]
struct Spelled {
    letters: Vec<Letter>,
    skips: &'static [usize],
}

/// The command under each name of its program, alone and behind its wrappers.
fn behind_wrappers(part: &Part) -> impl Iterator<Item = Candidate<'_>> {
    let rest = part.words.get(1..).unwrap_or_default();
    part.names.iter().flat_map(move |name| {
        let words: Vec<&str> = std::iter::once(name.as_str()).chain(rest.iter().map(String::as_str)).collect();
        (0..=part.through.len()).map(move |outer| Candidate {
            through: &part.through[outer..],
            words: words.clone(),
            unresolved: &part.unresolved,
        })
    })
}

impl<'p> Candidate<'p> {
    /// The command, and each other spelling of it: `git-push`, `python -m pip install`, `npm i`.
    fn respelled(self) -> Vec<Self> {
        let mut all: Vec<Self> = spelling::others(&self.words)
            .into_iter()
            .map(|words| {
                // Where words are taken out the places of what is open are others; the command itself has them.
                let unresolved = if words.len() == self.words.len() { self.unresolved } else { &[] };
                Self { through: self.through, words, unresolved }
            })
            .collect();
        all.push(self);
        all
    }

    /// Its words with blanks between, without options. A word behind one may be its value, and be left out.
    fn operands(&self) -> Vec<Spelled> {
        let outer = self.through.len();
        let end = self.words.iter().position(|word| *word == "--").unwrap_or(self.words.len());
        let is_option = |at: usize| at > 0 && at <= end && self.words[at].len() > 1 && self.words[at].starts_with('-');
        let spelled = self.letters(true).into_iter().enumerate().filter_map(|(at, spelled)| {
            let Some(own) = at.checked_sub(outer) else { return Some(spelled) };
            let is_value = own > 1 && is_option(own - 1) && own - 1 < end;
            let skips: &[usize] = if is_value { &[1] } else { &[] };
            (!is_option(own)).then_some(Spelled { skips, ..spelled })
        });
        spelled.collect()
    }

    /// Its words with blanks between. A word that is not resolved is open; with `may_skip` so is the blank before it, for the word
    /// may be none, and options may be left out.
    fn letters(&self, may_skip: bool) -> Vec<Spelled> {
        let outer = self.through.iter().map(|wrapper| (wrapper.as_str(), false, &[][..]));
        let own = self.words.iter().enumerate().map(|(at, word)| {
            let skips = if may_skip { spelling::skips(&self.words, at) } else { &[] };
            (*word, self.unresolved.contains(&at), skips)
        });
        let spelled = outer.chain(own).enumerate().map(|(at, (word, is_open, skips))| {
            let blank = (at > 0 && !(is_open && may_skip)).then_some(Letter::Char(' '));
            let text: Vec<Letter> = if is_open { vec![Letter::Any] } else { word.chars().map(Letter::Char).collect() };
            Spelled { letters: blank.into_iter().chain(text).collect(), skips }
        });
        spelled.collect()
    }
}

fn letters_of(pattern: &str) -> Vec<Letter> {
    pattern.chars().map(|c| if c == '*' { Letter::Any } else { Letter::Char(c) }).collect()
}

/// The pattern with more words behind it.
fn with_more(pattern: &[Letter]) -> Vec<Letter> {
    [pattern, &[Letter::Char(' '), Letter::Any]].concat()
}

/// Whether a pattern covers a command.
fn covers(pattern: &[Letter], words: &[Spelled], any: Any) -> bool {
    // Row by row over the words: `rows[k][i]` says that the first `i` letters of the pattern are used up before word `k`.
    let mut rows = vec![vec![false; pattern.len() + 1]; words.len() + 1];
    rows[0][0] = true;
    skip_stars(pattern, &mut rows[0]);
    for (at, word) in words.iter().enumerate() {
        let row = std::mem::take(&mut rows[at]);
        if !row.contains(&true) {
            continue;
        }
        for skip in word.skips.iter().filter(|skip| at + **skip <= words.len()) {
            merge(&mut rows[at + skip], &row);
        }
        let next = word.letters.iter().fold(row, |row, letter| step(pattern, &row, *letter, any));
        merge(&mut rows[at + 1], &next);
    }
    rows[words.len()][pattern.len()]
}

fn merge(into: &mut [bool], row: &[bool]) {
    into.iter_mut().zip(row).for_each(|(to, from)| *to |= from);
}

/// Where a pattern may be after one more letter of the text.
fn step(pattern: &[Letter], reached: &[bool], letter: Letter, any: Any) -> Vec<bool> {
    let mut next = vec![false; pattern.len() + 1];
    for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
        if letter == Letter::Any && any == Any::IsAnything {
            next[at..].fill(true);
            break;
        }
        match (letter, pattern.get(at)) {
            (_, Some(Letter::Any)) => next[at] = true,
            (Letter::Char(c), Some(Letter::Char(p))) => next[at + 1] |= c == *p,
            (Letter::Char(_), None) | (Letter::Any, _) => {}
        }
    }
    skip_stars(pattern, &mut next);
    next
}

/// A star may stand for nothing.
fn skip_stars(pattern: &[Letter], reached: &mut [bool]) {
    for (at, letter) in pattern.iter().enumerate() {
        if reached[at] && *letter == Letter::Any {
            reached[at + 1] = true;
        }
    }
}
