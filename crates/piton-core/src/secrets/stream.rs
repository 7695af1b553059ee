//! A text that comes in pieces: what may be the beginning of a secret is held back until it is known what it is.

use super::classify::is_base64;
use super::firewall::{Depth, Firewall};
use super::sieve::{self, WINDOW};
use super::{Found, Secrets, assigned, inner, shapes};

/// The most that is held back, in bytes. A secret that is longer is let go in two pieces, each taken for one.
const MOST_HELD: usize = 128 << 10;
/// So much of what was let go is looked at again: a name before a value, a letter before a word.
const CONTEXT: usize = 160;

/// Cleans a text that comes in pieces.
#[derive(Debug)]
pub struct TextStream {
    firewall: Firewall,
    depth: Depth,
    /// What is held back, behind what was let go last.
    held: Vec<u8>,
    /// How much of it was let go.
    done: usize,
    has_found: bool,
}

impl Firewall {
    /// For a text that comes in pieces.
    pub fn stream(&self, depth: Depth) -> TextStream {
        TextStream { firewall: self.clone(), depth, held: Vec::new(), done: 0, has_found: false }
    }
}

impl TextStream {
    /// Takes the next piece; returns what can be let go. A character that is cut in two stays together.
    pub fn push(&mut self, piece: &str) -> String {
        String::from_utf8_lossy(&self.push_bytes(piece.as_bytes())).into_owned()
    }

    /// The same, of bytes.
    pub fn push_bytes(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.firewall.is_off() {
            return piece.to_vec();
        }
        self.held.extend_from_slice(piece);
        let (depth, held) = (self.depth, &self.held);
        let looked = self.firewall.with(|secrets| look(secrets, held, depth)).unwrap_or_default();
        let (found, mut until) = looked;
        if self.held.len() - self.done > MOST_HELD + piece.len() {
            until = self.held.len();
        }
        self.let_go(&found, until)
    }

    /// Nothing more comes: returns the rest.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&self.finish_bytes()).into_owned()
    }

    /// The same, of bytes.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let found = self.firewall.find(&self.held, self.depth);
        let rest = self.let_go(&found, self.held.len());
        self.held.clear();
        self.done = 0;
        rest
    }

    /// Whether there was a secret in what was let go.
    pub fn has_found(&self) -> bool {
        self.has_found
    }

    fn let_go(&mut self, found: &[Found], until: usize) -> Vec<u8> {
        let until = until.max(self.done);
        let mut gone = Vec::with_capacity(until - self.done);
        let mut from = self.done;
        for Found { start, end, placeholder } in
            found.iter().filter(|found| found.start < until && found.end > self.done)
        {
            if *end > from {
                gone.extend_from_slice(&self.held[from..(*start).max(from)]);
                gone.extend_from_slice(placeholder.as_bytes());
                self.has_found = true;
                from = *end;
            }
        }
        // A secret goes as a whole.
        let until = until.max(from);
        gone.extend_from_slice(&self.held[from..until]);
        let forget = until.saturating_sub(CONTEXT);
        self.held.drain(..forget);
        self.done = until - forget;
        gone
    }
}

/// What is found, and up to where nothing of it can change by what follows.
fn look(secrets: &mut Secrets, text: &[u8], depth: Depth) -> (Vec<Found>, usize) {
    let spans = secrets.spans(text, depth);
    let open = spans.iter().filter(|span| span.is_open).map(|span| span.start).min();
    let unfinished = secrets.known.unfinished_from(text);
    // In base64 the character before belongs to it, too.
    let is_base64_before = unfinished < text.len() && unfinished > 0 && is_base64(text[unfinished - 1]);
    let mut until = open.unwrap_or(text.len()).min(unfinished - usize::from(is_base64_before));
    if depth == Depth::Everything {
        until = until.min(unfinished_word(secrets, text));
    }
    (spans.into_iter().map(|span| secrets.named(span)).collect(), until)
}

/// Where a word at the end begins to look like a secret, or a name whose value is still to come.
fn unfinished_word(secrets: &Secrets, text: &[u8]) -> usize {
    let from = text.len().saturating_sub(MOST_HELD);
    let word = text[from..].iter().rposition(u8::is_ascii_whitespace).map_or(from, |at| from + at + 1);
    let mut first = text.len();
    sieve::candidates(&text[word..], secrets.known.windows(), |at| {
        // Three letters may become anything, but most texts do not end there for long.
        if at + WINDOW <= text.len() - word {
            first = first.min(word + at);
        }
    });
    let line = text.len().saturating_sub(CONTEXT);
    sieve::candidates(&text[line..], secrets.known.windows(), |at| {
        if assigned::is_unfinished(text, line + at) || shapes::is_unfinished(text, line + at) {
            first = first.min(line + at);
        }
    });
    let unfinished = unfinished_anchor(text).max(inner::unfinished(text));
    first.min(text.len() - unfinished)
}

/// How many of the last bytes could be the beginning of an anchor: up to three letters of a word.
fn unfinished_anchor(text: &[u8]) -> usize {
    let is_word = |byte: &u8| !byte.is_ascii_whitespace();
    text.iter().rev().take(WINDOW - 1).take_while(|byte| is_word(byte)).count()
}
