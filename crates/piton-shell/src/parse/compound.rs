//! Groups, conditions, loops, `case`, `[[ … ]]`, functions and coprocesses.

use super::{Parsed, Parser};
use crate::reading::UnknowableKind;
use crate::syntax::{Direction, Word};

/// Words that begin a command other than a simple one.
const OPENERS: &[&str] = &["{", "if", "while", "until", "for", "select", "case", "[[", "function", "coproc"];

/// Words that end one, or go on with it.
const CLOSERS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];

/// Whether a word is reserved where a command begins.
pub(super) fn is_reserved(word: &str) -> bool {
    OPENERS.contains(&word) || CLOSERS.contains(&word) || matches!(word, "!" | "time" | "in")
}

impl Parser<'_, '_> {
    /// One command of a pipeline.
    pub(super) fn command(&mut self) -> Parsed<()> {
        self.blanks()?;
        let piped = std::mem::take(&mut self.piped);
        if self.peek() == Some(b'(') {
            self.deeper(Self::parenthesis)?;
            self.is_simple = false;
            return Ok(());
        }
        let Some(word) = self.reserved() else {
            self.piped = piped;
            return self.simple();
        };
        if !OPENERS.contains(&word.as_str()) {
            // A reserved word in the wrong place is no program.
            let closes = CLOSERS.contains(&word.as_str());
            self.piped = piped;
            return if closes { Err(self.stop(UnknowableKind::Syntax)) } else { self.simple() };
        }
        let from = self.found.simples.len();
        self.skip_reserved();
        self.deeper(|parser| match word.as_str() {
            "{" => parser.list(&["}"]).and_then(|()| parser.reserved_word("}")),
            "if" => parser.condition(),
            "while" | "until" => parser.list(&["do"]).and_then(|()| parser.body()),
            "for" | "select" => parser.loop_over(),
            "case" => parser.case(),
            "[[" => parser.test(),
            "function" => parser.function_word(),
            _ => parser.coprocess(),
        })?;
        self.is_simple = false;
        self.redirects_of(from)
    }

    /// `( … )` or `(( … ))`.
    fn parenthesis(&mut self) -> Parsed<()> {
        let from = self.found.simples.len();
        if self.second() == Some(b'(') && self.arithmetic_or_back()? {
            return self.redirects_of(from);
        }
        self.take(1);
        self.list(&[])?;
        self.expect(b')')?;
        self.redirects_of(from)
    }

    /// The redirections behind a compound command. They stand for themselves; an input feeds all that is inside.
    fn redirects_of(&mut self, from: usize) -> Parsed<()> {
        let start = self.at;
        let mut redirects = Vec::new();
        self.blanks()?;
        while let Some(redirect) = self.redirect()? {
            redirects.push(redirect);
            self.blanks()?;
        }
        if redirects.is_empty() {
            return Ok(());
        }
        let fed = redirects.iter().any(|redirect| redirect.input);
        self.found.simples[from..].iter_mut().for_each(|simple| simple.fed |= fed);
        let text = self.source[start..self.at].trim();
        let span = self.span(start..self.at);
        let only_descriptors = redirects.iter().all(|redirect| redirect.direction == Direction::Duplicate);
        if !only_descriptors || fed {
            self.found.stand_alone(text, span, redirects);
        }
        Ok(())
    }

    fn reserved_word(&mut self, expected: &str) -> Parsed<()> {
        self.newlines()?;
        if self.reserved().as_deref() != Some(expected) {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        self.skip_reserved();
        Ok(())
    }

    fn condition(&mut self) -> Parsed<()> {
        self.list(&["then"])?;
        self.reserved_word("then")?;
        loop {
            self.list(&["elif", "else", "fi"])?;
            match self.reserved().as_deref() {
                Some("elif") => {
                    self.skip_reserved();
                    self.list(&["then"])?;
                    self.reserved_word("then")?;
                }
                Some("else") => self.skip_reserved(),
                _ => return self.reserved_word("fi"),
            }
        }
    }

    /// `do … done`, or the `{ … }` that bash takes as well.
    fn body(&mut self) -> Parsed<()> {
        self.newlines()?;
        let (open, close) = if self.reserved().as_deref() == Some("{") { ("{", "}") } else { ("do", "done") };
        self.reserved_word(open)?;
        self.list(&[close])?;
        self.reserved_word(close)
    }

    fn loop_over(&mut self) -> Parsed<()> {
        self.blanks()?;
        if self.peek() == Some(b'(') {
            if self.second() != Some(b'(') || !self.arithmetic_or_back()? {
                return Err(self.stop(UnknowableKind::Syntax));
            }
        } else {
            let start = self.at;
            let name = self.name();
            let span = self.span(start..self.at);
            if name.is_empty() {
                return Err(self.stop(UnknowableKind::Syntax));
            }
            self.found.set.push((name.clone(), span.clone()));
            self.newlines()?;
            let mut known = false;
            if self.reserved().as_deref() == Some("in") {
                self.skip_reserved();
                let words = self.values()?;
                let is_known = |word: &Word| word.literal().is_some_and(|text| !text.contains(['*', '?', '[']));
                known = words.iter().all(is_known);
                self.found.loops.push((name.clone(), words));
            }
            if !known {
                self.found.filled.push((name, span));
            }
        }
        self.blanks()?;
        if self.peek() == Some(b';') {
            self.take(1);
        }
        self.body()
    }

    /// The words that a loop runs over.
    fn values(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.blanks()?;
            if matches!(self.peek(), None | Some(b'\n' | b';')) {
                return Ok(words);
            }
            let before = self.at;
            let word = self.word(false)?;
            if self.at == before {
                return Err(self.stop(UnknowableKind::Syntax));
            }
            self.count()?;
            words.push(word);
        }
    }

    fn case(&mut self) -> Parsed<()> {
        self.blanks()?;
        self.word(false)?;
        self.reserved_word("in")?;
        loop {
            self.newlines()?;
            if self.reserved().as_deref() == Some("esac") {
                return self.reserved_word("esac");
            }
            if self.peek() == Some(b'(') {
                self.take(1);
            }
            loop {
                self.blanks()?;
                let before = self.at;
                self.word(false)?;
                self.count()?;
                if self.at == before {
                    return Err(self.stop(UnknowableKind::Syntax));
                }
                self.blanks()?;
                if self.peek() != Some(b'|') {
                    break;
                }
                self.take(1);
            }
            self.expect(b')')?;
            self.list(&["esac"])?;
            match (self.peek(), self.second()) {
                (Some(b';'), Some(b';')) => {
                    self.take(2);
                    if self.peek() == Some(b'&') {
                        self.take(1);
                    }
                }
                (Some(b';'), Some(b'&')) => self.take(2),
                _ => {}
            }
        }
    }

    /// The inside of `[[ … ]]`. Only its expansions matter, and which variables it evaluates as numbers.
    fn test(&mut self) -> Parsed<()> {
        let start = self.at;
        let (mut words, mut numbers) = (Vec::new(), false);
        loop {
            self.newlines()?;
            match (self.peek(), self.second()) {
                (None | Some(b';'), _) => return Err(self.stop(UnknowableKind::Syntax)),
                (Some(b'&'), Some(b'&')) => self.take(2),
                (Some(b'&'), _) => return Err(self.stop(UnknowableKind::Syntax)),
                _ => {
                    let word = self.word(true)?;
                    self.count()?;
                    match word.bare() {
                        Some("]]") => break,
                        Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v") => numbers = true,
                        _ => words.push(word),
                    }
                }
            }
        }
        if numbers {
            let span = self.span(start..self.at);
            for word in &words {
                let text = self.source[word.span.clone()].to_string();
                self.evaluates(&text, span.clone());
            }
        }
        Ok(())
    }

    fn function_word(&mut self) -> Parsed<()> {
        self.blanks()?;
        let word = self.word(false)?;
        let Some(name) = word.literal().filter(|name| !name.is_empty()) else {
            return Err(self.stop(UnknowableKind::Syntax));
        };
        let span = self.span(word.span);
        self.found.functions.push((name, span));
        self.blanks()?;
        if self.peek() == Some(b'(') && self.second() == Some(b')') {
            self.take(2);
        }
        self.newlines()?;
        self.command()
    }

    fn coprocess(&mut self) -> Parsed<()> {
        self.blanks()?;
        let start = self.at;
        let fed = std::mem::replace(&mut self.fed, true);
        let (name, end) = self.bare_ahead();
        if super::is_name(&name) && !OPENERS.contains(&name.as_str()) {
            self.at = end;
            self.blanks()?;
            let compound =
                self.peek() == Some(b'(') || self.reserved().is_some_and(|word| OPENERS.contains(&word.as_str()));
            if compound {
                self.found.set.push((name, self.span(start..end)));
            } else {
                self.at = start;
            }
        }
        let compound =
            self.peek() == Some(b'(') || self.reserved().is_some_and(|word| OPENERS.contains(&word.as_str()));
        if !compound && self.inside > 0 {
            // It is printed as `coproc COPROC aa`, and then runs a program of that name.
            return Err(self.stop(UnknowableKind::Syntax));
        }
        let result = self.command();
        self.fed = fed;
        result
    }
}
