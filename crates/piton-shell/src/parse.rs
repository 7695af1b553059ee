//! The grammar of bash: from a text to its simple commands. A recursive descent that refuses what it does not know.
//!
//! Nothing is built but a flat list: where a command stands (a branch, a loop, a function's body, a substitution) makes no
//! difference to what it could do. A text that is not understood to its end is [`UnknowableKind::Syntax`]; what had been
//! found until there is kept, so that a `deny` sees it.

mod arithmetic;
mod compound;
mod document;
mod quotes;
mod words;

use crate::hidden;
use crate::limits::{FREE_STEPS, MOST_NESTING, MOST_NODES, STEPS_PER_BYTE};
use crate::reading::UnknowableKind;
use crate::syntax::{Assignment, Direction, Found, Piece, Redirect, Simple, Word};
use document::Pending;
use std::ops::Range;

/// Why the parser gave up, and where.
#[derive(Debug)]
pub(crate) struct Stop {
    what: UnknowableKind,
    at: usize,
}

type Parsed<T> = Result<T, Stop>;

/// Where a text stands in the command that a person sees.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// For code in a string: the bytes of the word that holds it. All spans are this one.
    pub(crate) within: Option<Range<usize>>,
    /// How deep the text already stands in others.
    pub(crate) depth: usize,
    /// Whether its commands read a pipe or a file.
    pub(crate) fed: bool,
}

/// Reads `source` and adds what it holds to `found`.
pub(crate) fn parse(source: &str, place: Place, found: &mut Found) {
    let mut parser = Parser {
        source,
        at: 0,
        end: source.len(),
        steps: source.len() * STEPS_PER_BYTE + FREE_STEPS,
        depth: place.depth,
        fed: place.fed,
        piped: false,
        is_simple: false,
        pending: Vec::new(),
        held: false,
        inside: 0,
        within: place.within,
        found,
    };
    let stop = match parser.list(&[]) {
        Ok(()) if parser.at < parser.end || !parser.pending.is_empty() => parser.stop(UnknowableKind::Syntax),
        Ok(()) if parser.steps > 0 => return,
        Ok(()) => parser.stop(UnknowableKind::TooLarge),
        Err(stop) => stop,
    };
    let what = if parser.steps == 0 { UnknowableKind::TooLarge } else { stop.what };
    let span = parser.span(stop.at.min(source.len())..source.len());
    let rest = source.get(stop.at..).unwrap_or_default();
    parser.found.cannot_know(what, rest, span);
}

struct Parser<'s, 'f> {
    source: &'s str,
    at: usize,
    /// Where the text that is read ends; the body of a here-document is read by itself.
    end: usize,
    /// How many more times a character may be looked at.
    steps: usize,
    depth: usize,
    fed: bool,
    /// Whether a pipe from a simple command is right in front.
    piped: bool,
    /// Whether the last command of a pipeline was a simple one.
    is_simple: bool,
    /// Here-documents whose bodies begin after the next end of line.
    pending: Vec<Pending>,
    /// Whether bodies are pending outside of the substitution that is read.
    held: bool,
    /// How many substitutions of the form `$( … )` are open. Bash 5.2 prints what is in one, and reads that again.
    inside: usize,
    within: Option<Range<usize>>,
    found: &'f mut Found,
}

impl Parser<'_, '_> {
    /// Commands up to the end, a `)`, a `;;`, or one of the reserved words. None of these is consumed.
    fn list(&mut self, until: &[&str]) -> Parsed<()> {
        loop {
            self.newlines()?;
            match self.peek() {
                None | Some(b')') => return Ok(()),
                Some(b';') if matches!(self.second(), Some(b';' | b'&')) => return Ok(()),
                Some(_) => {}
            }
            if !until.is_empty() && self.reserved().is_some_and(|word| until.contains(&word.as_str())) {
                return Ok(());
            }
            self.and_or()?;
            self.blanks()?;
            match (self.peek(), self.second()) {
                (None | Some(b')' | b'\n'), _) | (Some(b';'), Some(b';' | b'&')) => {}
                (Some(b';' | b'&'), _) => self.at += 1,
                (Some(_), _) => return Err(self.stop(UnknowableKind::Syntax)),
            }
        }
    }

    fn and_or(&mut self) -> Parsed<()> {
        loop {
            self.pipeline()?;
            self.blanks()?;
            match (self.peek(), self.second()) {
                (Some(b'&'), Some(b'&')) | (Some(b'|'), Some(b'|')) => {
                    self.take(2);
                    self.newlines()?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn pipeline(&mut self) -> Parsed<()> {
        let fed = self.fed;
        while let Some(word @ ("!" | "time")) = self.reserved().as_deref() {
            let time = word == "time";
            self.skip_reserved();
            while time && matches!(self.reserved().as_deref(), Some("-p" | "--")) {
                self.skip_reserved();
            }
            if time && matches!(self.peek(), None | Some(b';' | b'\n' | b')' | b'&' | b'|')) {
                return Ok(());
            }
        }
        loop {
            self.command()?;
            self.blanks()?;
            match (self.peek(), self.second()) {
                (Some(b'|'), Some(b'|')) | (None, _) => break,
                (Some(b'|'), second) => {
                    self.take(if second == Some(b'&') { 2 } else { 1 });
                    self.newlines()?;
                    self.fed = true;
                    self.piped = self.is_simple;
                }
                (Some(_), _) => break,
            }
        }
        self.fed = fed;
        Ok(())
    }

    /// A simple command, or the definition of a function, which begins like one.
    fn simple(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut simple = Simple {
            span: start..start,
            text: String::new(),
            assignments: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
            fed: self.fed,
            piped: std::mem::take(&mut self.piped),
        };
        loop {
            self.blanks()?;
            if let Some(redirect) = self.redirect()? {
                simple.fed |= redirect.input;
                simple.redirects.push(redirect);
            } else if let Some(assignment) = self.assignment(&simple.words)? {
                simple.assignments.push(assignment);
            } else if matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')')) {
                break;
            } else {
                let word = self.word(false)?;
                self.count()?;
                // In a substitution bash 5.2 prints the command and reads it again, with the redirections behind: a word that is
                // no reserved one here is one then, and `$(>f ! rm x)` runs `rm`.
                let moved = simple.words.is_empty() && !simple.redirects.is_empty();
                if moved && word.bare().is_some_and(compound::is_reserved) {
                    return Err(self.stop(UnknowableKind::Syntax));
                }
                simple.words.push(word);
            }
        }
        if self.peek() == Some(b'(') {
            return self.function(&simple);
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        simple.text = self.source[start..self.at].trim_end().to_string();
        simple.span = self.span(start..start + simple.text.len());
        self.found.simples.push(simple);
        self.is_simple = true;
        Ok(())
    }

    /// The rest of `name()`, of which the name has been read as the first word of a command.
    fn function(&mut self, simple: &Simple) -> Parsed<()> {
        let name = match (simple.words.as_slice(), simple.assignments.len() + simple.redirects.len()) {
            ([word], 0) => word.literal(),
            _ => None,
        };
        let Some(name) = name else { return Err(self.stop(UnknowableKind::Syntax)) };
        self.take(1);
        self.blanks()?;
        self.expect(b')')?;
        let span = self.span(simple.words[0].span.clone());
        self.found.functions.push((name, span));
        self.newlines()?;
        self.command()
    }

    /// The redirection that begins here, if one does: `2>&1`, `&>file`, `{fd}<file`, `<<EOF`.
    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let start = self.at;
        let descriptor = self.descriptor();
        let operator = self.operator();
        let Some((operator, length)) = operator else {
            self.at = start;
            return Ok(None);
        };
        self.names_descriptor(start, descriptor.as_deref());
        self.take(length);
        self.count()?;
        let strip = operator == "<<" && self.peek() == Some(b'-');
        if strip {
            self.take(1);
        }
        self.blanks()?;
        let before = self.at;
        let target = match (operator, self.peek()) {
            // The dash that closes a descriptor ends there: `2>&-rm x` runs `rm`.
            ("<&" | ">&", Some(b'-')) => {
                self.take(1);
                Word { pieces: vec![Piece::Bare("-".to_string())], span: before..self.at }
            }
            _ => self.word(false)?,
        };
        if self.at == before {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        let input =
            matches!(operator, "<" | "<>" | "<&" | "<<" | "<<<") && matches!(descriptor.as_deref(), None | Some("0"));
        let direction = match operator {
            "<" => Direction::Read,
            "<>" => Direction::ReadWrite,
            "<&" | ">&" => Direction::Duplicate,
            "<<<" => Direction::HereString,
            "<<" => Direction::HereDocument(self.begin_document(&target, strip)?),
            _ => Direction::Write,
        };
        Ok(Some(Redirect { direction, target, input }))
    }

    /// Digits or `{name}` directly in front of a redirection. Consumes them; the caller goes back where none follows.
    fn descriptor(&mut self) -> Option<String> {
        let (word, end) = self.bare_ahead();
        let number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let named = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        if number || named.is_some_and(is_name) {
            self.at = end;
            return Some(word);
        }
        None
    }

    /// Notes the variable that gets the number of a descriptor: `{fd}<file`, and `{array[0]}<file`, which was read as a word.
    fn names_descriptor(&mut self, start: usize, descriptor: Option<&str>) {
        let before = &self.source[..start];
        let braced = match descriptor {
            Some(word) => word.strip_prefix('{').and_then(|word| word.strip_suffix('}')),
            None => before.strip_suffix('}').and_then(|before| before.rsplit_once('{')).map(|(_, braced)| braced),
        };
        let name = braced.and_then(|braced| braced.split('[').next()).filter(|name| is_name(name));
        if let Some(name) = name.map(ToString::to_string) {
            self.found.set.push((name, self.span(start..self.at)));
        }
    }

    fn operator(&mut self) -> Option<(&'static str, usize)> {
        let first = self.peek()?;
        let second = self.second();
        let third = self.third();
        Some(match (first, second, third) {
            (b'<' | b'>', Some(b'('), _) => return None,
            (b'&', Some(b'>'), Some(b'>')) => ("&>", 3),
            (b'&', Some(b'>'), _) => ("&>", 2),
            (b'<', Some(b'<'), Some(b'<')) => ("<<<", 3),
            (b'<', Some(b'<'), _) => ("<<", 2),
            (b'<', Some(b'>'), _) => ("<>", 2),
            (b'<', Some(b'&'), _) => ("<&", 2),
            (b'<', _, _) => ("<", 1),
            (b'>', Some(b'&'), _) => (">&", 2),
            (b'>', Some(b'>' | b'|'), _) => (">", 2),
            (b'>', _, _) => (">", 1),
            _ => return None,
        })
    }

    /// `NAME=…`, `NAME+=…`, `NAME[…]=…` where an assignment may stand: in front, and after `export` and its like.
    fn assignment(&mut self, words: &[Word]) -> Parsed<Option<Assignment>> {
        let declares = words.first().and_then(Word::bare).is_some_and(is_declaration);
        if !words.is_empty() && !declares {
            return Ok(None);
        }
        let start = self.at;
        let name = self.name();
        if name.is_empty() {
            self.at = start;
            return Ok(None);
        }
        let before = self.at;
        let mut is_plain = self.peek() != Some(b'[');
        if self.peek() == Some(b'[') && !self.subscript()? {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        // In front, a subscript is one word, whatever is in it; behind `export` it is what it is in any word.
        let is_one_word = !self.source[before..self.at].contains([' ', '\t', '\n', ';', '&', '|', '<', '>']);
        if !is_one_word && declares {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        if self.peek() == Some(b'+') && self.second() == Some(b'=') {
            is_plain = false;
            self.take(1);
        }
        if self.peek() != Some(b'=') {
            if !is_one_word {
                return Err(self.stop(UnknowableKind::Syntax));
            }
            self.at = start;
            return Ok(None);
        }
        self.take(1);
        self.count()?;
        is_plain &= self.peek() != Some(b'(');
        let value = if self.peek() == Some(b'(') { self.array()? } else { self.word(false)? };
        let span = self.span(start..self.at);
        if value.literal().is_none() {
            self.found.filled.push((name.clone(), span));
        }
        Ok(Some(Assignment { name, value, is_plain }))
    }

    /// `(a b [k]=c)`: the pieces of all elements in one word.
    fn array(&mut self) -> Parsed<Word> {
        let start = self.at;
        self.take(1);
        let mut all = Word::default();
        loop {
            self.newlines()?;
            match self.peek() {
                Some(b')') => break,
                Some(b'[') => {
                    self.subscript()?;
                    all.pieces.extend(self.word(false)?.pieces);
                }
                Some(_) => {
                    let before = self.at;
                    all.pieces.extend(self.word(false)?.pieces);
                    if self.at == before {
                        return Err(self.stop(UnknowableKind::Syntax));
                    }
                }
                None => return Err(self.stop(UnknowableKind::Syntax)),
            }
            self.count()?;
        }
        self.take(1);
        all.span = start..self.at;
        Ok(all)
    }

    /// Blanks, and a comment if one begins.
    fn blanks(&mut self) -> Parsed<()> {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
        let begins = self.at == 0
            || matches!(self.source.as_bytes()[self.at - 1], b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')');
        if self.peek() == Some(b'#') && begins {
            let rest = &self.source[self.at..self.end];
            let comment = &rest[..rest.find('\n').unwrap_or(rest.len())];
            self.visible(comment)?;
            self.at += comment.len();
        }
        Ok(())
    }

    /// Blanks, comments and ends of lines; after an end of line the bodies of here-documents.
    fn newlines(&mut self) -> Parsed<()> {
        loop {
            self.blanks()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            if self.held {
                return Err(self.stop(UnknowableKind::Syntax));
            }
            self.at += 1;
            self.documents()?;
        }
    }

    /// The next byte, after any line continuation.
    fn peek(&mut self) -> Option<u8> {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return None;
        }
        self.at = self.past_continuation(self.at);
        self.byte(self.at)
    }

    fn second(&self) -> Option<u8> {
        self.byte(self.past_continuation(self.at + 1))
    }

    fn third(&self) -> Option<u8> {
        self.byte(self.past_continuation(self.past_continuation(self.at + 1) + 1))
    }

    /// Consumes so many bytes, and the continuations between them.
    fn take(&mut self, bytes: usize) {
        for _ in 0..bytes {
            self.at = self.past_continuation(self.at) + 1;
        }
    }

    fn past_continuation(&self, mut at: usize) -> usize {
        while self.byte(at) == Some(b'\\') && self.byte(at + 1) == Some(b'\n') {
            at += 2;
        }
        at
    }

    fn byte(&self, at: usize) -> Option<u8> {
        if at < self.end { self.source.as_bytes().get(at).copied() } else { None }
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.peek() != Some(byte) {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        self.at += 1;
        Ok(())
    }

    /// A name of a variable, empty where none stands.
    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek() {
            let fits = byte == b'_' || byte.is_ascii_alphabetic() || (byte.is_ascii_digit() && !name.is_empty());
            if !fits {
                break;
            }
            name.push(char::from(byte));
            self.at += 1;
        }
        name
    }

    /// The text outside of quotes that stands here, and where it ends. Empty where it is a part of a longer word.
    fn bare_ahead(&mut self) -> (String, usize) {
        let start = self.at;
        let mut text = String::new();
        let mut end = start;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' | b'\'' | b'"' | b'`' | b'$' => {
                    text.clear();
                    break;
                }
                _ if text.len() >= 32 || !byte.is_ascii() => {
                    text.clear();
                    break;
                }
                _ => text.push(char::from(byte)),
            }
            self.at += 1;
            end = self.at;
        }
        self.at = start;
        (text, end)
    }

    /// The word that stands here, where it could be a reserved one.
    fn reserved(&mut self) -> Option<String> {
        Some(self.bare_ahead().0).filter(|word| !word.is_empty())
    }

    fn skip_reserved(&mut self) {
        let (_, end) = self.bare_ahead();
        self.at = end;
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn count(&mut self) -> Parsed<()> {
        self.found.nodes += 1;
        if self.found.nodes > MOST_NODES { Err(self.stop(UnknowableKind::TooLarge)) } else { Ok(()) }
    }

    /// Runs `inner` one level deeper, or stops where that is too deep.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MOST_NESTING {
            return Err(self.stop(UnknowableKind::TooLarge));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Stops where a text outside of quotes holds characters that mislead whoever reads it.
    fn visible(&self, text: &str) -> Parsed<()> {
        match text.char_indices().find(|(_, c)| hidden::misleads(*c)) {
            Some((offset, '\u{fffd}')) => Err(Stop { what: UnknowableKind::Encoding, at: self.at + offset }),
            Some((offset, _)) => Err(Stop { what: UnknowableKind::Hidden, at: self.at + offset }),
            None => Ok(()),
        }
    }

    fn stop(&self, what: UnknowableKind) -> Stop {
        let mut at = self.at.min(self.source.len());
        while !self.source.is_char_boundary(at) {
            at -= 1;
        }
        Stop { what, at }
    }

    fn span(&self, own: Range<usize>) -> Range<usize> {
        self.within.clone().unwrap_or(own)
    }
}

/// Whether bash takes this text for the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Builtins whose arguments may be assignments.
fn is_declaration(word: &str) -> bool {
    matches!(word, "export" | "declare" | "typeset" | "local" | "readonly")
}
