//! Secrets: what they look like, how they are found in a text, and what stands in their place. The one module that knows.
//!
//! ```text
//!   values that are known (name, value) ─► forms ──┐
//!   shapes of tokens ──────────────────────────────┼─► sieve ─► candidates ─► spans ─► ‹secret:NAME:ab12›
//!   assignments to names of secrets ───────────────┘
//! ```
//!
//! A text is read once. Each position is looked up by its next four bytes in a small bitmap; only where something may begin
//! there is it compared. So clean text costs about a nanosecond per byte, whatever is known, and nothing has to be compiled
//! before the first request. What a shape or an assignment gives away is remembered: its other forms are found from there on.
//!
//! This module must not know: where values come from, and where texts go. It has no IO: the tag of a placeholder is made by
//! whoever has the machine's key.

mod assigned;
mod classify;
mod compare;
mod env_file;
mod event_text;
mod firewall;
mod forms;
mod inner;
mod known;
mod names;
mod place;
mod placeholder;
mod shapes;
mod sieve;
mod stream;
mod tokens;

#[cfg(test)]
mod tests;

pub use event_text::Voice;
pub use firewall::{Depth, Firewall, NotRestored, View};
pub use names::{is_secret_name, is_secret_variable};
pub use placeholder::{Placeholder, placeholders};
pub use stream::TextStream;

use self::assigned::assigned;
use self::classify::is_strong;
use self::known::{Known, Match};
use self::shapes::shaped;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Makes the tag of a value: the same for the same value on one machine, and of no use without the machine's key.
pub type Tag = Arc<dyn Fn(&[u8]) -> u32 + Send + Sync>;

/// How often a text is read again since it gave away values: their other forms may stand before them.
const MOST_ROUNDS: usize = 3;
/// So many values are remembered because a text gave them away. More are still found where they are given away.
const MOST_LEARNED: usize = 2_000;

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What stands in its place.
    pub placeholder: String,
}

/// What is known of secrets, and how they are found.
pub struct Secrets {
    known: Known,
    /// Values that the model wrote itself: it knows them, and files that it makes keep them.
    own: HashSet<Vec<u8>>,
    /// By tag: which value has it, where two could have the same.
    tags: BTreeMap<String, Vec<u8>>,
    tag: Tag,
    learned: usize,
}

/// Something that was found, before it has a placeholder.
struct Span {
    start: usize,
    end: usize,
    name: String,
    /// By what it is known and named.
    value: Vec<u8>,
    /// Whether its other forms should be found from here on.
    is_new: bool,
    /// Whether it reaches the end of the text, so that more of it may follow.
    is_open: bool,
}

impl Secrets {
    /// Knows no values yet. Shapes and assignments are found from the beginning.
    pub fn new(tag: Tag) -> Self {
        Self { known: Known::default(), own: HashSet::new(), tags: BTreeMap::new(), tag, learned: 0 }
    }

    /// Adds a value that a person or a configuration keeps secret. Values that are words (`postgres`, `true`) are found only
    /// where they are assigned: they would be found everywhere. Returns whether it is looked for from here on.
    pub fn know(&mut self, name: &str, value: &str) -> bool {
        let value = value.trim();
        if !is_strong(value) {
            return false;
        }
        for (name, line) in lines_of(name, value) {
            self.known.add(&name, line.as_bytes());
        }
        true
    }

    /// Adds a key that is in use: looked for even where it looks like a word.
    pub fn know_key(&mut self, name: &str, key: &str) {
        /// Shorter ones would be found everywhere.
        const LEAST: usize = 8;
        if key.len() >= LEAST {
            self.known.add(name, key.as_bytes());
        }
    }

    /// Adds what is secret of a file of variables or credentials: `.env`, `.netrc`, `credentials`. Returns how many values.
    pub fn know_file(&mut self, text: &str) -> usize {
        env_file::secrets_of(text).into_iter().filter(|(name, value)| self.know(name, value)).count()
    }

    /// How many values are looked for.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no value is looked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The secrets in a text, in order, none overlapping another. What shapes and assignments give away is remembered.
    pub fn find(&mut self, text: &[u8], depth: Depth) -> Vec<Found> {
        let spans = self.spans(text, depth);
        spans.into_iter().map(|span| self.named(span)).collect()
    }

    fn spans(&mut self, text: &[u8], depth: Depth) -> Vec<Span> {
        for _ in 1..MOST_ROUNDS {
            let spans = self.look(text, depth);
            if !self.remember(&spans) {
                return spans;
            }
        }
        self.look(text, depth)
    }

    fn named(&mut self, span: Span) -> Found {
        let Span { start, end, name, value, .. } = span;
        Found { start, end, placeholder: self.placeholder(&name, &value) }
    }

    /// The same text without the secrets; `None`: there is none in it.
    pub fn clean(&mut self, text: &str, depth: Depth) -> Option<String> {
        let found = self.find(text.as_bytes(), depth);
        (!found.is_empty()).then(|| String::from_utf8_lossy(&replaced(text.as_bytes(), &found)).into_owned())
    }

    /// What stands in the place of a value.
    pub fn placeholder(&mut self, name: &str, value: &[u8]) -> String {
        let mut tag = format!("{:08x}", (self.tag)(value));
        let short = tag[..4].to_owned();
        match self.tags.get(&short) {
            Some(other) if other != value => {}
            Some(_) => tag = short,
            None => {
                self.tags.insert(short.clone(), value.to_vec());
                tag = short;
            }
        }
        placeholder::written(name, &tag)
    }

    /// The model wrote this: what looks like a secret in it and is not known is the model's own, as in a test's fixture.
    pub fn own(&mut self, text: &[u8]) {
        for span in self.look(text, Depth::Everything).into_iter().filter(|span| span.is_new) {
            self.own.insert(span.value);
        }
    }

    /// Looks for what shapes and assignments give away, and for what is known.
    fn look(&self, text: &[u8], depth: Depth) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut free_from = 0;
        sieve::candidates(text, self.known.windows(), |at| {
            // What lies within a secret that was found is not looked at again, but a longer one may begin at its place.
            if at < free_from && spans.last().is_none_or(|last| last.start < at) {
                return;
            }
            let mut best: Option<Span> = None;
            let mut offer = |span: Span| {
                if best.as_ref().is_none_or(|best| (span.end, span.is_new) > (best.end, best.is_new)) {
                    best = Some(span);
                }
            };
            if let Some(known) = self.known.at(text, at, depth) {
                offer(self.of_known(text, &known));
            }
            if depth == Depth::Everything {
                let begins = self.known.windows().begins(text, at);
                let shaped = begins.shape.then(|| shaped(text, at)).flatten();
                let assigned = begins.name.then(|| assigned(text, at)).flatten();
                for span in [shaped, assigned].into_iter().flatten().filter(|span| !self.is_own(&span.value)) {
                    offer(self.known_in(text, &span, depth).unwrap_or(span));
                }
            }
            let Some(found) = best.filter(|found| !placeholder::is_within(text, found.start, found.end)) else {
                return;
            };
            free_from = free_from.max(found.end);
            join(&mut spans, found);
        });
        spans
    }

    fn of_known(&self, text: &[u8], found: &Match) -> Span {
        let Match { value, start, end, .. } = *found;
        let (name, value) = self.known.value(value);
        Span { start, end, name: name.to_owned(), value: value.to_vec(), is_new: false, is_open: end >= text.len() }
    }

    /// The value that is known, where nothing but a sign follows it: `cat -A` puts `$` or `^M$` behind each line.
    fn known_in(&self, text: &[u8], span: &Span, depth: Depth) -> Option<Span> {
        let known = self.known.at(text, span.start, depth).filter(|known| known.is_whole)?;
        let rest = text.get(known.end..span.end).filter(|rest| !rest.is_empty())?;
        let rest = rest.strip_prefix(b"^M").unwrap_or(rest);
        (!rest.iter().any(u8::is_ascii_alphanumeric)).then(|| self.of_known(text, &known))
    }

    fn is_own(&self, value: &[u8]) -> bool {
        self.own.contains(value)
    }

    /// Whether there was something new to remember.
    fn remember(&mut self, spans: &[Span]) -> bool {
        let mut is_new = false;
        for span in spans.iter().filter(|span| span.is_new) {
            let Ok(value) = std::str::from_utf8(&span.value) else { continue };
            let has_room = self.learned < MOST_LEARNED && !self.known.has(&span.value);
            if has_room && self.know(&span.name, value) {
                self.learned += 1;
                is_new = true;
            }
        }
        is_new
    }
}

/// A value of many lines (a private key) is looked for line by line, too: what shows files puts numbers in front of lines.
fn lines_of<'v>(name: &str, value: &'v str) -> Vec<(String, &'v str)> {
    /// Shorter lines are no secrets of their own.
    const LEAST_LINE: usize = 24;
    let whole = (name.to_owned(), value);
    let lines = value.lines().map(str::trim);
    let lines = lines.filter(|line| line.len() >= LEAST_LINE && !line.starts_with("---") && is_strong(line));
    match value.contains('\n') {
        true => std::iter::once(whole).chain(lines.map(|line| (name.to_owned(), line))).collect(),
        false => vec![whole],
    }
}

/// Adds a span among the others, which are in order. Those that overlap become one, named like the longest.
fn join(spans: &mut Vec<Span>, mut found: Span) {
    let from = spans.iter().rposition(|span| span.end <= found.start).map_or(0, |at| at + 1);
    let met = spans[from..].iter().take_while(|span| span.start < found.end).count();
    for other in spans.drain(from..from + met).collect::<Vec<_>>() {
        let (start, end) = (found.start.min(other.start), found.end.max(other.end));
        let is_open = found.is_open || other.is_open;
        let longest = if other.end - other.start >= found.end - found.start { other } else { found };
        found = Span { start, end, is_open, ..longest };
    }
    spans.insert(from, found);
}

/// The text with placeholders where secrets were.
pub fn replaced(text: &[u8], found: &[Found]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut from = 0;
    for Found { start, end, placeholder } in found {
        result.extend_from_slice(&text[from..*start]);
        result.extend_from_slice(placeholder.as_bytes());
        from = *end;
    }
    result.extend_from_slice(&text[from..]);
    result
}
