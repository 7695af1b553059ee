//! Colours of code: comments, strings, keywords and numbers, told apart without knowing the grammar.
//!
//! A scanner reads each line once, by the table of its language ([`languages`]); what a line leaves open (a comment, a string)
//! goes on in the next, in a [`State`]. It must never fail: what it does not know is text. Being wrong about a line colours
//! that line wrongly, and what is shown is the text of the line in every case.

mod languages;
mod markup;

use std::ops::Range;

use ratatui_core::style::Style;
use ratatui_core::text::Span;

use crate::theme::Theme;
use languages::{Keys, Rules};
pub use languages::{Language, language};

/// What the lines before a line left open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State(Open);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    /// A comment: which of the language's, and how many are open in one another.
    Comment { which: usize, depth: usize },
    /// A string: which of the language's.
    String(usize),
    /// A raw string of Rust, with so many `#`.
    Raw(usize),
    /// A tag of HTML, and the mark of a string in it.
    Tag(Option<char>),
    /// A comment of HTML.
    TagComment,
}

/// A line, without its line feed, in the colours of its language.
pub fn line(language: Language, state: &mut State, text: &str, theme: &Theme) -> Vec<Span<'static>> {
    let mut paint = Paint { text, theme, parts: Vec::new() };
    match language {
        Language::Html => markup::scan(&mut state.0, &mut paint),
        Language::Diff => paint.push(0..text.len(), diff_style(text, theme)),
        Language::Rust
        | Language::Python
        | Language::Script
        | Language::Go
        | Language::C
        | Language::Java
        | Language::Shell
        | Language::Json
        | Language::Toml
        | Language::Yaml
        | Language::Css
        | Language::Sql => Scanner { rules: languages::rules(language), at: 0, paint: &mut paint }.scan(&mut state.0),
    }
    paint.spans()
}

fn diff_style(text: &str, theme: &Theme) -> Style {
    match text.as_bytes().first() {
        Some(b'+') => theme.added,
        Some(b'-') => theme.removed,
        Some(b'@') => theme.keyword,
        Some(_) | None => theme.text,
    }
}

/// The parts of a line and their styles, in order, without a hole.
struct Paint<'a> {
    text: &'a str,
    theme: &'a Theme,
    parts: Vec<(usize, Style)>,
}

impl Paint<'_> {
    /// A part begins where the one before it ends.
    fn push(&mut self, part: Range<usize>, style: Style) {
        match self.parts.last_mut() {
            _ if part.is_empty() => {}
            Some((end, last)) if *last == style => *end = part.end,
            Some(_) | None => self.parts.push((part.end, style)),
        }
    }

    fn spans(self) -> Vec<Span<'static>> {
        let mut from = 0;
        let spans = self.parts.iter().map(|(end, style)| {
            let span = Span::styled(self.text[from..*end].to_owned(), *style);
            from = *end;
            span
        });
        spans.collect()
    }
}

struct Scanner<'a, 'b> {
    rules: &'static Rules,
    at: usize,
    paint: &'a mut Paint<'b>,
}

impl Scanner<'_, '_> {
    fn scan(mut self, open: &mut Open) {
        match *open {
            Open::Nothing | Open::Tag(_) | Open::TagComment => self.key_of_line(),
            Open::Comment { which, depth } => *open = self.comment(which, depth, self.at),
            Open::String(which) => *open = self.string(which, self.at),
            Open::Raw(hashes) => *open = self.raw(hashes, self.at),
        }
        while self.at < self.paint.text.len() {
            *open = self.next();
        }
    }

    fn rest(&self) -> &str {
        &self.paint.text[self.at..]
    }

    /// Takes all up to there, in a style.
    fn take(&mut self, end: usize, style: Style) {
        self.paint.push(self.at..end, style);
        self.at = end;
    }

    /// Takes what stands next. What it leaves open at the end of the line.
    fn next(&mut self) -> Open {
        let rest = self.rest();
        let Some(char) = rest.chars().next() else { return Open::Nothing };
        if self.rules.line_comments.iter().any(|mark| rest.starts_with(mark)) && self.may_comment(char) {
            self.take(self.paint.text.len(), self.paint.theme.comment);
            return Open::Nothing;
        }
        if let Some(which) = self.rules.comments.iter().position(|(begin, _)| rest.starts_with(begin)) {
            let begin = self.rules.comments[which].0.len();
            return self.comment(which, 1, self.at + begin);
        }
        if self.rules.is_rust {
            if let Some((hashes, length)) = raw_begin(rest).filter(|_| !self.follows_word()) {
                return self.raw(hashes, self.at + length);
            }
            if char == '\'' {
                let end = self.at + char_literal(rest).unwrap_or(1);
                let is_literal = end > self.at + 1;
                let theme = self.paint.theme;
                self.take(end, if is_literal { theme.string } else { theme.text });
                return Open::Nothing;
            }
        }
        if let Some(which) = self.rules.strings.iter().position(|string| rest.starts_with(string.mark)) {
            return self.string(which, self.at + self.rules.strings[which].mark.len());
        }
        self.word(char);
        Open::Nothing
    }

    /// In a shell and in YAML `#` begins a comment only where a word may begin.
    fn may_comment(&self, mark: char) -> bool {
        mark != '#'
            || self.paint.text[..self.at]
                .chars()
                .next_back()
                .is_none_or(|before| before.is_whitespace() || before == ';')
    }

    fn follows_word(&self) -> bool {
        self.paint.text[..self.at].chars().next_back().is_some_and(is_word)
    }

    /// A comment that began before `from`.
    fn comment(&mut self, which: usize, mut depth: usize, from: usize) -> Open {
        let (begin, end) = self.rules.comments[which];
        let text = self.paint.text;
        let mut at = from;
        while at < text.len() {
            let rest = &text[at..];
            if rest.starts_with(end) {
                at += end.len();
                depth -= 1;
                if depth == 0 {
                    self.take(at, self.paint.theme.comment);
                    return Open::Nothing;
                }
            } else if self.rules.is_rust && rest.starts_with(begin) {
                at += begin.len();
                depth += 1;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        self.take(text.len(), self.paint.theme.comment);
        Open::Comment { which, depth }
    }

    /// A string whose mark stands before `from`.
    fn string(&mut self, which: usize, from: usize) -> Open {
        let string = &self.rules.strings[which];
        let text = self.paint.text;
        let (mut at, mut is_open) = (from, true);
        while at < text.len() && is_open {
            let rest = &text[at..];
            if rest.starts_with(string.mark) {
                at += string.mark.len();
                is_open = false;
            } else {
                let escaped = string.escapes && rest.starts_with('\\');
                at += rest.chars().take(1 + usize::from(escaped)).map(char::len_utf8).sum::<usize>();
            }
        }
        let is_key = !is_open && self.rules.keys == Keys::Strings && text[at..].trim_start().starts_with(':');
        let theme = self.paint.theme;
        self.take(at, if is_key { theme.keyword } else { theme.string });
        // A line of Rust or C goes on behind a backslash.
        let goes_on = string.goes_on || (self.rules.goes_on && text.ends_with('\\'));
        if is_open && goes_on { Open::String(which) } else { Open::Nothing }
    }

    /// A raw string whose mark stands before `from`.
    fn raw(&mut self, hashes: usize, from: usize) -> Open {
        let text = self.paint.text;
        let mark = format!("\"{}", "#".repeat(hashes));
        let end = text[from..].find(&mark).map(|at| from + at + mark.len());
        self.take(end.unwrap_or(text.len()), self.paint.theme.string);
        if end.is_none() { Open::Raw(hashes) } else { Open::Nothing }
    }

    /// A word, a number, or another character.
    fn word(&mut self, first: char) {
        let (text, theme) = (self.paint.text, self.paint.theme);
        let before = text[..self.at].chars().next_back();
        if !is_word(first) {
            return self.take(self.at + first.len_utf8(), theme.text);
        }
        if first.is_ascii_digit() {
            return self.take(self.at + number_length(self.rest()), theme.number);
        }
        let rest = self.rest();
        let word = &rest[..rest.find(|char| !is_word(char)).unwrap_or(rest.len())];
        let is_name = match before {
            Some('.') => !self.rules.is_rust,
            Some('-') => self.rules.has_options,
            Some('$' | '@' | '\\') => true,
            Some(_) | None => false,
        };
        let style = match word {
            _ if is_name => theme.text,
            _ if self.rules.is_keyword(word) => theme.keyword,
            _ if self.rules.is_constant(word) => theme.number,
            _ => theme.text,
        };
        self.take(self.at + word.len(), style);
    }

    /// The name before a `:` or `=` at the beginning of a line, and a section in brackets.
    fn key_of_line(&mut self) {
        let text = self.paint.text;
        let mark = match self.rules.keys {
            Keys::None | Keys::Strings => return,
            Keys::Before(mark) => mark,
        };
        let begin = text.len() - text.trim_start_matches([' ', '\t', '-', '{']).len();
        let is_name =
            |char: char| is_word(char) || matches!(char, '-' | '.' | '"' | '\'' | ' ' | '/' | '$' | '[' | ']');
        let rest = &text[begin..];
        let length = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
        let name = rest[..length].trim_end();
        let is_section = mark == '=' && name.starts_with('[') && name.ends_with(']');
        if !name.is_empty() && (rest[length..].starts_with(mark) || is_section) {
            self.take(begin, self.paint.theme.text);
            self.take(begin + name.len(), self.paint.theme.keyword);
        }
    }
}

fn is_word(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

/// Bytes of the number that a text begins with: `1_000u64`, `0xff`, `1.5`, but of `1..2` and `1.max(2)` the `1`.
fn number_length(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let is_point = char == '.' && chars.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        if !is_word(char) && !is_point {
            return at;
        }
    }
    text.len()
}

/// The `#`s of the raw string that begins here, and the bytes of its mark.
fn raw_begin(text: &str) -> Option<(usize, usize)> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let behind = rest.trim_start_matches('#');
    let hashes = rest.len() - behind.len();
    behind.starts_with('"').then(|| (hashes, text.len() - behind.len() + 1))
}

/// Bytes of the character in quotes that begins here; `None` if it is a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    if first == '\\' {
        let behind = inner.get(2..)?;
        return behind.find('\'').filter(|at| *at <= 10).map(|at| at + 4);
    }
    inner[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

#[cfg(test)]
mod tests;
