//! Assignments: what stands behind a name of a secret, in files of variables, JSON, YAML, TOML, addresses, options, XML.

use super::Span;
use super::classify::{is_dummy, is_place, is_strong};
use super::names::{is_password_name, is_secret_name};

/// Pieces of such names, of three or more letters.
const ANCHORS: [&[u8; 4]; 16] = [
    b"pass", b"secr", b"toke", b"apik", b"api_", b"api-", b"_key", b"-key", b"sske", b"teke", b"ntke", b"onke",
    b"cred", b"pwd=", b"pwd:", b"pwd\"",
];

/// Longer names are none.
const NAME_BYTES: usize = 64;
/// Longer values are cut off by whoever shows them.
const VALUE_BYTES: usize = 4_096;

pub(super) fn anchors() -> impl Iterator<Item = &'static [u8]> {
    ANCHORS.into_iter().map(<[u8; 4]>::as_slice)
}

/// How a value stands there.
enum Written {
    Quoted,
    Bare,
    /// Behind an option, a space between: `--password x`.
    Spaced,
}

/// The secret that is assigned to the name around this position.
pub(super) fn assigned(text: &[u8], at: usize) -> Option<Span> {
    if !is_anchor(text, at) {
        return None;
    }
    // Most such words are assigned nothing; to look at their names would take longer.
    let behind = at + of_name(text[at..].iter());
    let (start, how) = value_start(text, at, behind)?;
    let name = name_around(text, at, behind)?;
    if !is_secret_name(name) {
        return None;
    }
    let end = value_end(text, start, &how);
    let value = &text[start..end];
    if !is_secret(name, value, &how, &text[end..]) {
        return None;
    }
    let is_open = end >= text.len();
    Some(Span { start, end, name: name.to_owned(), value: value.to_vec(), is_new: true, is_open })
}

/// Whether a piece of such a name stands here, in any case.
fn is_anchor(text: &[u8], at: usize) -> bool {
    let Some(first) = text.get(at..).and_then(<[u8]>::first_chunk::<4>) else { return false };
    let mut lowered = *first;
    lowered.make_ascii_lowercase();
    ANCHORS.iter().any(|anchor| lowered == **anchor)
}

/// From where on the end of a text may be an assignment whose value comes with the next piece.
pub(super) fn is_unfinished(text: &[u8], at: usize) -> bool {
    if !is_anchor(text, at) {
        return false;
    }
    let behind = at + of_name(text[at..].iter());
    if name_around(text, at, behind).is_none() {
        return false;
    }
    let rest = &text[behind..];
    rest.len() < 16 && rest.iter().all(|byte| b"\"'\\:= \t>".contains(byte))
}

/// How many of these bytes may be a name's, at most one more than those of the longest.
fn of_name<'t>(bytes: impl Iterator<Item = &'t u8>) -> usize {
    bytes.take(NAME_BYTES + 1).take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)).count()
}

/// The name that ends there. A name is looked at once: at its last anchor.
fn name_around(text: &[u8], at: usize, end: usize) -> Option<&str> {
    let start = at - of_name(text[..at].iter().rev());
    if end - start > NAME_BYTES {
        return None;
    }
    let name = std::str::from_utf8(&text[start..end]).ok()?;
    // Of a placeholder.
    let front = &text[..start];
    let may_be_opening = front.last().is_some_and(|last| *last == b':' || !last.is_ascii());
    if may_be_opening && ["‹", "‹secret:"].iter().any(|opening| front.ends_with(opening.as_bytes())) {
        return None;
    }
    // An escaped line end or tab of JSON is no letter of it.
    let is_escaped = start > 0 && text[start - 1] == b'\\';
    let name = if is_escaped { name.get(1..)? } else { name };
    Some(name.trim_matches('-'))
}

/// Where the value begins behind a name, and how it is written.
fn value_start(text: &[u8], at: usize, behind: usize) -> Option<(usize, Written)> {
    let spaces =
        |from: usize| from + text[from..].iter().take(32).take_while(|byte| **byte == b' ' || **byte == b'\t').count();
    let quote = |from: usize| match text.get(from..) {
        Some([b'\\', b'"' | b'\'', ..]) => Some(from + 2),
        Some([b'"' | b'\'' | b'`', ..]) => Some(from + 1),
        _ => None,
    };
    let is_quoted_name = quote(behind).is_some();
    let mut next = quote(behind).unwrap_or(behind);
    if text.get(next) == Some(&b']') && is_quoted_name {
        next += 1;
    }
    if text.get(next) == Some(&b'>') && text[..at].iter().rev().take(NAME_BYTES).any(|byte| *byte == b'<') {
        return Some((next + 1, Written::Bare));
    }
    let gap = spaces(next);
    let sign = match text.get(gap..)? {
        [b':', b'=', ..] | [b'=', b'>', ..] => 2,
        [b'=', b'=', ..] | [b':', b':', ..] | [b'=', b'~', ..] => return None,
        [b':' | b'=', ..] => 1,
        _ if gap > next && is_option(text, at) => {
            return Some(quote(gap).map_or((gap, Written::Spaced), |at| (at, Written::Quoted)));
        }
        _ => return None,
    };
    let start = spaces(gap + sign);
    Some(quote(start).map_or((start, Written::Bare), |start| (start, Written::Quoted)))
}

/// Whether the name is an option of a command: `--password`.
fn is_option(text: &[u8], at: usize) -> bool {
    let name =
        text[..at].iter().rev().take(NAME_BYTES).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-');
    let start = at - name.count();
    text[start..].starts_with(b"--")
}

fn value_end(text: &[u8], start: usize, how: &Written) -> usize {
    let rest = &text[start..text.len().min(start + VALUE_BYTES)];
    let ends = |(at, byte): (usize, &u8)| match how {
        Written::Quoted => match byte {
            b'\n' | b'\r' => true,
            // The quote that it began with, escaped where that one was.
            b'"' | b'\'' | b'`' => *byte == quote_before(text, start),
            b'\\' => is_escaped_quote(text, start) && rest.get(at + 1) == Some(&quote_before(text, start)),
            _ => false,
        },
        Written::Bare | Written::Spaced => {
            byte.is_ascii_whitespace()
                || b"\"'`,;&<>|()".contains(byte)
                || rest[at..].starts_with(b"\\n")
                || rest[at..].starts_with(b"\\\"")
        }
    };
    start + rest.iter().enumerate().position(ends).unwrap_or(rest.len())
}

fn quote_before(text: &[u8], start: usize) -> u8 {
    start.checked_sub(1).map_or(b'"', |at| text[at])
}

fn is_escaped_quote(text: &[u8], start: usize) -> bool {
    start >= 2 && text[start - 2] == b'\\'
}

/// Whether what is assigned is a secret, and no code, word or stand-in.
fn is_secret(name: &str, value: &[u8], how: &Written, behind: &[u8]) -> bool {
    const LEAST: usize = 6;
    let Ok(text) = std::str::from_utf8(value) else { return false };
    if text.len() < LEAST
        || (matches!(how, Written::Bare) && is_code(text, behind))
        || is_dummy(value)
        || is_place(text)
    {
        return false;
    }
    let is_variable = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let is_password = is_password_name(name);
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    match how {
        Written::Quoted if text.contains(' ') => is_password && has_digit,
        Written::Quoted if is_variable || is_password => {
            has_digit || is_strong(text) || (is_variable || !starts_like_title(text)) && is_word(text)
        }
        Written::Quoted => (has_digit && has_letter && text.len() >= 8) || is_strong(text),
        Written::Bare if is_variable => !text.contains("::"),
        Written::Bare | Written::Spaced => {
            (has_digit && has_letter && text.len() >= 8 && !is_code(text, behind))
                || (is_strong(text) && text.len() >= 20 && !is_name(text))
        }
    }
}

fn starts_like_title(text: &str) -> bool {
    text.starts_with(|first: char| first.is_uppercase())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A name of something in a program.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_.:-".contains(&byte))
}

/// What programs write behind a name: a call, a path, a type, another name.
fn is_code(text: &str, behind: &[u8]) -> bool {
    let parts = || text.split('.');
    let is_identifier = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_dotted = || parts().count() > 1 && parts().all(is_identifier) && parts().all(|part| part.len() < 24);
    let has_code = || text.contains(['[', ']', '{', '}']) || ["::", "->", "??"].iter().any(|sign| text.contains(sign));
    let is_generic = behind.starts_with(b"<") && !behind.starts_with(b"</");
    let is_called = behind.starts_with(b"(") || is_generic || text.starts_with(['&', '*', '!', '?']);
    is_called || is_dotted() || (has_code() && !text.contains(['#', '%', '^']))
}
