//! Here-documents: their bodies begin after the line in which they are announced.

use super::{Parsed, Parser};
use crate::reading::UnknowableKind;
use crate::syntax::{Piece, Word};

/// A here-document that was announced.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    delimiter: String,
    /// Whether the delimiter was quoted: then nothing in the body is expanded.
    quoted: bool,
    /// Whether tabs in front of each line are dropped (`<<-`).
    strip: bool,
    /// Its place in the list of bodies.
    index: usize,
}

impl Parser<'_, '_> {
    /// Notes a here-document; its body comes after this line. The answer is the place of that body.
    pub(super) fn begin_document(&mut self, target: &Word, strip: bool) -> Parsed<usize> {
        let Some(delimiter) = target.literal().filter(|delimiter| !delimiter.contains('\n')) else {
            return Err(self.stop(UnknowableKind::Syntax));
        };
        let quoted = target.pieces.iter().any(|piece| matches!(piece, Piece::Quoted(_)));
        let index = self.found.bodies.len();
        self.found.bodies.push(None);
        self.pending.push(Pending { delimiter, quoted, strip, index });
        Ok(index)
    }

    /// Reads the bodies of what is pending, at the beginning of a line.
    pub(super) fn documents(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending) {
            self.document(&pending)?;
        }
        Ok(())
    }

    fn document(&mut self, pending: &Pending) -> Parsed<()> {
        let start = self.at;
        let mut body = String::new();
        loop {
            if self.at >= self.end {
                // Bash warns and takes the rest; a person does not expect that.
                return Err(self.stop(UnknowableKind::Syntax));
            }
            let line_start = self.at;
            let line = self.line(pending.quoted);
            self.steps = self.steps.saturating_sub(line.len());
            let line = if pending.strip { line.trim_start_matches('\t') } else { line.as_str() };
            if line == pending.delimiter {
                let after = self.at;
                if !pending.quoted {
                    let open = self.expansions(start, line_start)?;
                    self.at = after;
                    self.found.bodies[pending.index] = (!open).then(|| unescape(&body));
                } else {
                    self.found.bodies[pending.index] = Some(body);
                }
                return Ok(());
            }
            body.push_str(line);
            body.push('\n');
        }
    }

    /// The next line without its end. Where the delimiter was not quoted, a backslash at its end joins the next one.
    fn line(&mut self, quoted: bool) -> String {
        let mut line = String::new();
        loop {
            let rest = &self.source[self.at..self.end];
            let length = rest.find('\n').unwrap_or(rest.len());
            let (piece, ended) = (&rest[..length], length == rest.len());
            self.at += if ended { length } else { length + 1 };
            line.push_str(piece);
            let escapes = piece.bytes().rev().take_while(|byte| *byte == b'\\').count();
            if quoted || ended || escapes % 2 == 0 {
                return line;
            }
            line.pop();
        }
    }

    /// Reads the expansions between two places; whether there are any.
    fn expansions(&mut self, from: usize, to: usize) -> Parsed<bool> {
        let end = std::mem::replace(&mut self.end, to);
        self.at = from;
        let mut open = false;
        let result = loop {
            match self.peek() {
                None if self.at < to => break Err(self.stop(UnknowableKind::TooLarge)),
                None => break Ok(()),
                Some(b'\\') => self.at += 2,
                Some(b'$') => match self.dollar(true) {
                    Ok(piece) => open |= matches!(piece, Piece::Open { .. }),
                    Err(stop) => break Err(stop),
                },
                Some(b'`') => match self.backticks(true) {
                    Ok(_) => open = true,
                    Err(stop) => break Err(stop),
                },
                Some(_) => self.at += 1,
            }
        };
        self.end = end;
        result.map(|()| open)
    }
}

fn unescape(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body.chars().peekable();
    while let Some(c) = rest.next() {
        match rest.peek() {
            Some(next @ ('$' | '`' | '\\')) if c == '\\' => {
                text.push(*next);
                rest.next();
            }
            _ => text.push(c),
        }
    }
    text
}
