//! `@` references: what in a user's words names a file or a folder, and how what was read of it is shown to the model.
//! The reading itself is the engine's (`piton_engine::context`).
//!
//! There are three styles. Piton's own asks for less than a regular expression can: an `@` in the middle of a word is
//! none (`me@host`), a line's end ends a path, and of several readings (`@a.rs:3`, `@a.rs.`) the one that exists counts.
//! The other two are those of Neovate, to the letter.
//!
//! This module must not know: files, the workspace.

mod shown;

pub use self::shown::{ReferenceSizes, ShownFile, content, files, tree, unread};

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Bytes of the longest path that there can be.
const MOST_PATH_BYTES: usize = 4096;
/// Characters of a sentence that may stand around a path.
const MOST_BEHIND: usize = 16;

/// By whose rules references are found and shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Piton's.
    #[default]
    Piton,
    /// Neovate's of October 2025: folders with all their files, no line ranges.
    Neovate,
    /// Neovate's of version 0.28: line ranges, no folders.
    #[serde(rename = "neovate_0_28")]
    Neovate028,
}

impl Style {
    /// Whether a folder stands for the files in it.
    pub fn reads_folders(self) -> bool {
        self != Self::Neovate028
    }

    /// Whether a name that is found nowhere, or cannot be read, is passed over in silence.
    pub fn is_silent(self) -> bool {
        self != Self::Piton
    }
}

/// What stands behind an `@`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The path as it was written, without quotes and escapes.
    pub path: String,
    /// Of it, only these lines.
    pub lines: Option<LineRange>,
}

/// Lines from `start` to `end`, both counted from 1 and included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineRange {
    /// The first.
    pub start: usize,
    /// The last.
    pub end: usize,
}

/// The references in a text, in order, each once.
pub fn extract(text: &str, style: Style) -> Vec<Reference> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for Written { path, range } in written(text, style) {
        let reference = match style {
            Style::Piton | Style::Neovate => Reference { path, lines: None },
            Style::Neovate028 => match range {
                Some(range) => Reference { path, lines: Some(range) },
                None => ranged(&path).unwrap_or(Reference { path, lines: None }),
            },
        };
        let reference = if style == Style::Piton { Reference { lines: range, ..reference } } else { reference };
        if seen.insert(reference.clone()) {
            found.push(reference);
        }
    }
    found
}

impl Reference {
    /// What may be meant, the likeliest first: the path as it stands, a path with a range of lines, either of them
    /// without the punctuation of the sentence around it.
    pub fn readings(&self) -> Vec<Self> {
        /// What ends a sentence or closes what was opened before the reference.
        const BEHIND: &[char] =
            &['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '"', '`', '*', '…', '。', '，'];
        let mut readings = vec![self.clone()];
        let mut path = self.path.as_str();
        if self.lines.is_some() || !self.can_be_a_path() {
            return readings;
        }
        for _ in 0..MOST_BEHIND {
            readings.extend(ranged(path));
            let Some(shorter) = path.strip_suffix(BEHIND).filter(|shorter| !shorter.is_empty()) else { break };
            // `..` is the folder above, and never this one with a full stop.
            if path.ends_with('.') && shorter.ends_with('.') && shorter.chars().all(|char| char == '.') {
                break;
            }
            path = shorter;
            readings.push(Self { path: path.to_owned(), lines: None });
        }
        readings
    }

    /// Whether anything on a disk can be called so.
    pub fn can_be_a_path(&self) -> bool {
        !self.path.is_empty() && self.path.len() <= MOST_PATH_BYTES && !self.path.contains('\0')
    }

    /// What stands behind a colon where a range of lines would, with the path before it, if it is none: `a.rs:5-`.
    pub fn broken_range(&self) -> Option<(&str, &str)> {
        let (path, range) = self.path.rsplit_once(':').filter(|_| self.lines.is_none())?;
        let is_none = !path.is_empty() && !range.is_empty() && range_of(range).is_none();
        is_none.then_some((path, range))
    }
}

/// `a.rs:10-40` as path and range.
fn ranged(path: &str) -> Option<Reference> {
    let (path, range) = path.rsplit_once(':')?;
    Some(Reference { path: path.to_owned(), lines: Some(range_of(range)?) }).filter(|found| !found.path.is_empty())
}

/// `10` or `10-40`.
fn range_of(text: &str) -> Option<LineRange> {
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(usize::MAX))
    };
    let (start, end) = match text.split_once('-') {
        Some((start, end)) => (number(start)?, number(end)?),
        None => (number(text)?, number(text)?),
    };
    Some(LineRange { start, end })
}

/// A path as it was written, and the range that stood behind its quotes.
struct Written {
    path: String,
    range: Option<LineRange>,
}

fn written(text: &str, style: Style) -> Vec<Written> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('@') {
        let sign = at + next;
        let behind = &text[sign + 1..];
        at = sign + 1;
        if style == Style::Piton && !may_begin(&text[..sign]) {
            continue;
        }
        let Some((written, length)) = quoted(behind, style).or_else(|| plain(behind, style)) else { continue };
        at += length;
        found.push(written);
    }
    found
}

/// Whether a reference can begin behind this text: at its beginning, after a space or after what opens something.
fn may_begin(before: &str) -> bool {
    before.chars().next_back().is_none_or(|char| char.is_whitespace() || "([{<\"'`,;:=*|、，（「".contains(char))
}

/// A quoted path, and how long it is in the text.
fn quoted(text: &str, style: Style) -> Option<(Written, usize)> {
    let mark = text.chars().next().filter(|mark| *mark == '"' || (*mark == '\'' && style == Style::Piton))?;
    let inside = &text[1..];
    let end = inside.find(mark).filter(|end| *end > 0)?;
    let path = &inside[..end];
    if style == Style::Piton && path.contains('\n') {
        return None;
    }
    let behind = &inside[end + 1..];
    let digits = behind.strip_prefix(':').unwrap_or_default();
    let range = &digits[..digits.find(|char: char| !char.is_ascii_digit() && char != '-').unwrap_or(digits.len())];
    // `"a":3-` is line 3, and a dash.
    let range = range_of(range).map(|lines| (lines, range.len())).or_else(|| {
        let range = range.split('-').next()?;
        range_of(range).map(|lines| (lines, range.len()))
    });
    let (range, length) = match range.filter(|_| style != Style::Neovate) {
        Some((lines, digits)) => (Some(lines), end + 2 + 1 + digits),
        None => (None, end + 2),
    };
    Some((Written { path: path.to_owned(), range }, length))
}

/// A path that ends where a space stands without a `\` before it.
fn plain(text: &str, style: Style) -> Option<(Written, usize)> {
    let mut path = String::new();
    let mut length = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.next_if_eq(&' ').is_some() => {
                path.push(' ');
                length += 2;
            }
            '\\' | ' ' => break,
            _ if style == Style::Piton && char.is_whitespace() => break,
            _ => {
                path.push(char);
                length += char.len_utf8();
            }
        }
    }
    if length == 0 {
        return None;
    }
    let is_quoted = style != Style::Piton && path.starts_with('"') && path.ends_with('"');
    if is_quoted {
        // An opening quote that is a closing one too leaves nothing.
        path = path.get(1..path.len() - 1).unwrap_or_default().to_owned();
    }
    Some((Written { path, range: None }, length))
}

#[cfg(test)]
mod tests;
