//! Words: what stands outside of quotes, and the expansions.

use super::{Parsed, Parser, Place, Stop};
use crate::reading::UnknowableKind;
use crate::syntax::{Piece, Word};

impl Parser<'_, '_> {
    /// One word; empty where none begins. Inside of `[[ … ]]` (`test`) parentheses, pipes and angles belong to words.
    pub(super) fn word(&mut self, test: bool) -> Parsed<Word> {
        let start = self.at;
        let mut pieces = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' => break,
                b'<' | b'>' if self.second() == Some(b'(') => pieces.push(self.process()?),
                b'(' | b')' | b'|' | b'<' | b'>' => {
                    if !test {
                        break;
                    }
                    self.at += 1;
                    push(&mut pieces, Piece::Bare(char::from(byte).to_string()));
                }
                b'\\' => {
                    self.at += 1;
                    let c = self.character();
                    self.visible(c.unwrap_or("\\"))?;
                    push(&mut pieces, Piece::Quoted(c.unwrap_or("\\").to_string()));
                    self.at += c.map_or(0, str::len);
                }
                b'\'' => {
                    let text = self.single_quotes()?;
                    push(&mut pieces, Piece::Quoted(text));
                }
                b'"' => self.double_quotes(&mut pieces)?,
                b'`' => pieces.push(self.backticks(false)?),
                b'$' => {
                    let next = self.second();
                    if next == Some(b'"') {
                        self.take(1);
                        self.double_quotes(&mut pieces)?;
                    } else {
                        let piece = self.dollar(false)?;
                        push(&mut pieces, piece);
                    }
                }
                _ => {
                    let text = self.bare_run()?;
                    push(&mut pieces, Piece::Bare(text));
                }
            }
        }
        Ok(Word { pieces, span: start..self.at })
    }

    /// Characters that mean nothing but themselves.
    fn bare_run(&mut self) -> Parsed<String> {
        let rest = &self.source[self.at..self.end];
        let length = rest
            .find([' ', '\t', '\n', ';', '&', '(', ')', '|', '<', '>', '\\', '\'', '"', '`', '$'])
            .unwrap_or(rest.len());
        let text = &rest[..length];
        self.visible(text)?;
        self.at += length;
        self.steps = self.steps.saturating_sub(length);
        Ok(text.to_string())
    }

    /// The character that stands here.
    fn character(&self) -> Option<&str> {
        let rest = self.source.get(self.at..self.end)?;
        rest.chars().next().map(|c| &rest[..c.len_utf8()])
    }

    /// What begins with `$`.
    pub(super) fn dollar(&mut self, quoted: bool) -> Parsed<Piece> {
        let start = self.at;
        self.take(1);
        match self.peek() {
            Some(b'(') => {
                let arithmetic = self.second() == Some(b'(') && self.deeper(Self::arithmetic_or_back)?;
                if !arithmetic {
                    self.take(1);
                    self.substitution()?;
                }
            }
            Some(b'{') => {
                self.take(1);
                self.deeper(|parser| parser.braces(quoted))?;
            }
            Some(b'[') => {
                self.take(1);
                self.deeper(|parser| parser.evaluated(b']'))?;
                self.expect(b']')?;
            }
            Some(b'\'') if !quoted => return self.ansi_c(),
            Some(byte) if byte == b'_' || byte.is_ascii_alphabetic() => {
                self.name();
            }
            Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' | b'0'..=b'9') => self.at += 1,
            _ => return Ok(if quoted { Piece::Quoted("$".to_string()) } else { Piece::Bare("$".to_string()) }),
        }
        Ok(Piece::Open { text: self.source[start..self.at].to_string(), quoted })
    }

    /// The commands up to a `)`, which is consumed.
    fn substitution(&mut self) -> Parsed<()> {
        let pending = std::mem::take(&mut self.pending);
        let held = self.held;
        self.held |= !pending.is_empty();
        self.inside += 1;
        self.deeper(|parser| parser.list(&[]))?;
        self.inside -= 1;
        if !self.pending.is_empty() {
            return Err(self.stop(UnknowableKind::Syntax));
        }
        self.expect(b')')?;
        self.pending = pending;
        self.held = held;
        Ok(())
    }

    /// `<( … )` and `>( … )`.
    fn process(&mut self) -> Parsed<Piece> {
        let start = self.at;
        let fed = self.fed;
        self.fed |= self.peek() == Some(b'>');
        self.take(2);
        self.substitution()?;
        self.fed = fed;
        Ok(Piece::Open { text: self.source[start..self.at].to_string(), quoted: true })
    }

    /// A substitution in the old form: its text is unescaped first, and then read as a text of its own.
    pub(super) fn backticks(&mut self, quoted: bool) -> Parsed<Piece> {
        let start = self.at;
        self.at += 1;
        let mut inner = String::new();
        let bytes = self.source.as_bytes();
        let mut from = self.at;
        loop {
            match self.byte(self.at) {
                None => return Err(self.stop(UnknowableKind::Syntax)),
                Some(b'`') => break,
                Some(b'\\') => {
                    let escaped = self.byte(self.at + 1);
                    // A continuation goes before anything else is unescaped.
                    if escaped == Some(b'\n') {
                        inner.push_str(&self.source[from..self.at]);
                        from = self.at + 2;
                    } else if matches!(escaped, Some(b'`' | b'\\' | b'$')) || (quoted && escaped == Some(b'"')) {
                        inner.push_str(&self.source[from..self.at]);
                        from = self.at + 1;
                    }
                    self.at += 1 + usize::from(escaped.is_some_and(|byte| byte.is_ascii()));
                }
                Some(_) => self.at += 1,
            }
        }
        inner.push_str(&self.source[from..self.at]);
        debug_assert_eq!(bytes.get(self.at), Some(&b'`'));
        self.at += 1;
        self.steps = self.steps.saturating_sub(inner.len());
        let place = Place { within: Some(self.span(start..self.at)), depth: self.depth + 1, fed: self.fed };
        if place.depth > crate::limits::MOST_NESTING {
            return Err(Stop { what: UnknowableKind::TooLarge, at: start });
        }
        super::parse(&inner, place, self.found);
        Ok(Piece::Open { text: self.source[start..self.at].to_string(), quoted })
    }

    /// The inside of `${ … }`, with its end.
    fn braces(&mut self, quoted: bool) -> Parsed<()> {
        let start = self.at;
        match self.peek() {
            // `${ list; }` and `${| list; }` of bash 5.3 run commands.
            None | Some(b' ' | b'\t' | b'\n' | b'|' | b'(') => return Err(self.stop(UnknowableKind::Syntax)),
            Some(b'!' | b'#') => self.at += 1,
            Some(_) => {}
        }
        let indirect = self.source.as_bytes()[start] == b'!';
        let mut name = self.name();
        if name.is_empty() {
            while let Some(byte @ (b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) = self.peek() {
                name.push(char::from(byte));
                self.at += 1;
            }
        }
        let operator = self.at;
        let (first, second) = (self.peek(), self.second());
        if first == Some(b'@') && matches!(second, Some(b'P' | b'p')) {
            return Err(Stop { what: UnknowableKind::Code, at: start });
        }
        self.brace_text(quoted)?;
        let span = self.span(start..self.at);
        let text = &self.source[operator..self.at];
        let element = first == Some(b'[') && (text.contains("]=") || text.contains("]:="));
        let assigns = element || first == Some(b'=') || (first == Some(b':') && second == Some(b'='));
        if assigns {
            // Of `${!x:=y}` the name is in another variable.
            let name = if indirect { String::new() } else { name.clone() };
            self.found.set.push((name, span.clone()));
        }
        if indirect {
            self.found.evaluated.push((name, span.clone()));
        }
        let offset = first == Some(b':') && !matches!(second, Some(b'-' | b'=' | b'+' | b'?'));
        if first == Some(b'[') || offset {
            let text = self.source[operator..self.at].to_string();
            self.evaluates(&text, span);
        }
        Ok(())
    }

    fn brace_text(&mut self, quoted: bool) -> Parsed<()> {
        loop {
            match self.peek() {
                None => return Err(self.stop(UnknowableKind::Syntax)),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.at += self.character().map_or(0, str::len);
                }
                // Whether it quotes depends on the operator.
                Some(b'\'') if quoted => return Err(self.stop(UnknowableKind::Syntax)),
                Some(b'\'') => drop(self.single_quotes()?),
                Some(b'"') => self.double_quotes(&mut Vec::new())?,
                Some(b'`') => drop(self.backticks(quoted)?),
                Some(b'<' | b'>') if !quoted && self.second() == Some(b'(') => drop(self.process()?),
                Some(b'$') if !quoted && self.second() == Some(b'"') => self.take(1),
                Some(b'$') => drop(self.dollar(quoted)?),
                Some(_) => self.at += 1,
            }
        }
    }
}

/// Adds a piece, joined with the last one where that is of its kind.
pub(super) fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (Some(Piece::Bare(last)), Piece::Bare(text)) | (Some(Piece::Quoted(last)), Piece::Quoted(text)) => {
            last.push_str(&text);
        }
        (_, piece) => pieces.push(piece),
    }
}
