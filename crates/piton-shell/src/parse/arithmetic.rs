//! Arithmetic. What it computes does not matter; that it runs the substitutions in it, and those in the values of its variables, does.

use super::document::Pending;
use super::{Parsed, Parser};
use crate::reading::UnknowableKind;
use crate::syntax::Mark;
use std::ops::Range;

/// Where the parser stood before it tried something.
struct Checkpoint {
    at: usize,
    inside: usize,
    fed: bool,
    held: bool,
    pending: Vec<Pending>,
    found: Mark,
}

impl Parser<'_, '_> {
    fn checkpoint(&self) -> Checkpoint {
        let (pending, found) = (self.pending.clone(), self.found.mark());
        Checkpoint { at: self.at, inside: self.inside, fed: self.fed, held: self.held, pending, found }
    }

    /// Goes back; the steps that it took remain taken.
    fn back(&mut self, to: Checkpoint) {
        (self.at, self.inside, self.fed, self.held) = (to.at, to.inside, to.fed, to.held);
        self.pending = to.pending;
        self.found.back_to(&to.found);
    }

    /// `(( … ))`, from the first parenthesis on. Where it turns out to be a subshell in a subshell, the parser goes back,
    /// and the answer is `false`.
    pub(super) fn arithmetic_or_back(&mut self) -> Parsed<bool> {
        let here = self.checkpoint();
        self.take(2);
        match self.evaluated(b')') {
            Ok(()) if self.peek() == Some(b')') && self.second() == Some(b')') => {
                self.take(2);
                Ok(true)
            }
            Ok(()) | Err(_) if self.steps > 0 => {
                self.back(here);
                Ok(false)
            }
            Ok(()) => Err(self.stop(UnknowableKind::TooLarge)),
            Err(stop) => Err(stop),
        }
    }

    /// `[ … ]` behind the name of an array, both brackets included. Whether it is closed within its word.
    pub(super) fn subscript(&mut self) -> Parsed<bool> {
        let here = self.checkpoint();
        self.take(1);
        match self.deeper(|parser| parser.evaluated(b']')) {
            Ok(()) if self.peek() == Some(b']') => {
                self.take(1);
                Ok(true)
            }
            Ok(()) | Err(_) => {
                self.back(here);
                Ok(false)
            }
        }
    }

    /// An expression up to a closing byte at its own level, which stays. Brackets of another kind need not match, as for bash.
    pub(super) fn evaluated(&mut self, close: u8) -> Parsed<()> {
        let start = self.at;
        let open = if close == b')' { b'(' } else { b'[' };
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return Err(self.stop(UnknowableKind::Syntax)),
                Some(byte) if depth == 0 && byte == close => break,
                Some(byte) if byte == open || byte == close => {
                    depth = if byte == open { depth + 1 } else { depth - 1 };
                    self.at += 1;
                }
                Some(b'$') => drop(self.dollar(true)?),
                Some(b'`') => drop(self.backticks(true)?),
                Some(b'"') => self.double_quotes(&mut Vec::new())?,
                Some(b'\'') => drop(self.single_quotes()?),
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        let text = self.source[start..self.at].to_string();
        let span = self.span(start..self.at);
        self.evaluates(&text, span);
        Ok(())
    }

    /// Notes every variable that an expression names, and that a substitution in it is evaluated like a number.
    pub(super) fn evaluates(&mut self, text: &str, span: Range<usize>) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let length = bytes[at..].iter().take_while(|byte| **byte == b'_' || byte.is_ascii_alphanumeric()).count();
            if length == 0 {
                at += 1;
                continue;
            }
            let name = &text[at..at + length];
            let parameter = at > 0 && matches!(bytes[at - 1], b'$' | b'{');
            if super::is_name(name) || parameter {
                self.found.evaluated.push((name.to_string(), span.clone()));
                if assigns(text, at, length) {
                    self.found.set.push((name.to_string(), span.clone()));
                }
            }
            at += length;
        }
        let substitutes = text.match_indices("$(").any(|(at, _)| !text[at + 2..].starts_with('('));
        if substitutes || text.contains('`') {
            self.found.evaluated.push((String::new(), span));
        }
    }
}

/// Whether an expression assigns to the name that stands at `at` in it, or to an element of it.
fn assigns(text: &str, at: usize, length: usize) -> bool {
    let steps = ["++", "--"].iter().any(|sign| text[..at].trim_end().ends_with(sign));
    let behind = text[at + length..].trim_start();
    // Where the subscript ends is not counted: any bracket may be its end.
    let ends = behind.starts_with('[').then(|| behind.match_indices(']').map(|(end, _)| &behind[end + 1..]));
    let assigned = |rest: &str| {
        let rest = rest.trim_start();
        rest.starts_with('=') && !rest.starts_with("==")
            || ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"]
                .iter()
                .any(|sign| rest.starts_with(sign))
    };
    steps || assigned(behind) || ends.is_some_and(|mut ends| ends.any(assigned))
}
