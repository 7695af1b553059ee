//! The three kinds of quotes: `'…'`, `"…"` and `$'…'`.

use super::words::push;
use super::{Parsed, Parser};
use crate::reading::UnknowableKind;
use crate::syntax::Piece;

impl Parser<'_, '_> {
    /// The text between single quotes.
    pub(super) fn single_quotes(&mut self) -> Parsed<String> {
        self.at += 1;
        let rest = &self.source[self.at..self.end];
        let Some(length) = rest.find('\'') else { return Err(self.stop(UnknowableKind::Syntax)) };
        self.at += length + 1;
        self.steps = self.steps.saturating_sub(length);
        Ok(rest[..length].to_string())
    }

    /// The pieces between double quotes.
    pub(super) fn double_quotes(&mut self, pieces: &mut Vec<Piece>) -> Parsed<()> {
        self.at += 1;
        push(pieces, Piece::Quoted(String::new()));
        loop {
            match self.peek() {
                None => return Err(self.stop(UnknowableKind::Syntax)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let escaped = self.byte(self.at + 1);
                    let special = matches!(escaped, Some(b'$' | b'`' | b'"' | b'\\'));
                    let from = if special { self.at + 1 } else { self.at };
                    let to = self.at + if special { 2 } else { 1 };
                    push(pieces, Piece::Quoted(self.source[from..to].to_string()));
                    self.at = to;
                }
                Some(b'`') => pieces.push(self.backticks(true)?),
                Some(b'$') => {
                    let piece = self.dollar(true)?;
                    push(pieces, piece);
                }
                Some(_) => {
                    let rest = &self.source[self.at..self.end];
                    let length = rest.find(['"', '\\', '`', '$']).unwrap_or(rest.len());
                    push(pieces, Piece::Quoted(rest[..length].to_string()));
                    self.at += length;
                    self.steps = self.steps.saturating_sub(length);
                }
            }
        }
    }

    /// The text of `$'…'`; the `$` has been consumed.
    pub(super) fn ansi_c(&mut self) -> Parsed<Piece> {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        let mut cut = false;
        loop {
            let Some(byte) = self.byte(self.at) else { return Err(self.stop(UnknowableKind::Syntax)) };
            self.at += 1;
            match byte {
                b'\'' => break,
                b'\\' => {
                    let escaped = self.escape()?;
                    // Bash ends the text at a NUL.
                    cut |= escaped.as_slice() == [0];
                    if !cut {
                        bytes.extend(escaped);
                    }
                }
                byte if !cut => bytes.push(byte),
                _ => {}
            }
        }
        self.steps = self.steps.saturating_sub(self.at - start);
        String::from_utf8(bytes).map(Piece::Quoted).or_else(|_| {
            let span = self.span(start..self.at);
            self.found.cannot_know(UnknowableKind::Encoding, &self.source[start..self.at], span);
            Ok(Piece::Open { text: self.source[start..self.at].to_string(), quoted: true })
        })
    }

    /// The bytes of an escape in `$'…'`; the backslash has been consumed.
    fn escape(&mut self) -> Parsed<Vec<u8>> {
        let Some(byte) = self.byte(self.at) else { return Err(self.stop(UnknowableKind::Syntax)) };
        self.at += 1;
        Ok(match byte {
            b'a' => vec![7],
            b'b' => vec![8],
            b'e' | b'E' => vec![27],
            b'f' => vec![12],
            b'n' => vec![b'\n'],
            b'r' => vec![b'\r'],
            b't' => vec![b'\t'],
            b'v' => vec![11],
            b'\\' | b'\'' | b'"' | b'?' => vec![byte],
            b'0'..=b'7' => {
                self.at -= 1;
                vec![self.digits(8, 3).unwrap_or(0).to_le_bytes()[0]]
            }
            // `\x{…}` is a corner that is not read.
            b'x' if self.byte(self.at) == Some(b'{') => return Err(self.stop(UnknowableKind::Syntax)),
            b'x' => self.digits(16, 2).map_or(b"\\x".to_vec(), |value| vec![value.to_le_bytes()[0]]),
            b'u' | b'U' => {
                let most = if byte == b'u' { 4 } else { 8 };
                match self.digits(16, most) {
                    Some(value) => {
                        let Some(c) = char::from_u32(value) else { return Err(self.stop(UnknowableKind::Encoding)) };
                        c.to_string().into_bytes()
                    }
                    None => vec![b'\\', byte],
                }
            }
            b'c' => {
                let Some(control) = self.byte(self.at) else { return Err(self.stop(UnknowableKind::Syntax)) };
                if !control.is_ascii() || control == b'\\' {
                    return Err(self.stop(UnknowableKind::Syntax));
                }
                self.at += 1;
                vec![control.to_ascii_uppercase() & 0x1f]
            }
            byte => vec![b'\\', byte],
        })
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let mut value: Option<u32> = None;
        for _ in 0..most {
            let Some(digit) = self.byte(self.at).and_then(|byte| char::from(byte).to_digit(radix)) else { break };
            value = Some(value.unwrap_or(0).wrapping_mul(radix).wrapping_add(digit));
            self.at += 1;
        }
        value
    }
}
