//! Shapes: what tokens of known providers look like, private keys, and secrets that what stands before them tells.

use super::Span;
use super::classify::{is_base64, is_dummy, is_mixed, is_random};
use super::inner;
use super::place::{begins_word, span};
use super::tokens::{ANY, Alphabet, SHAPES, Shape};
use std::sync::OnceLock;

/// Tokens of many providers that begin with these; such names exist for other things, so that the rest has to look random.
const GENERIC: [&str; 6] = ["sk-", "sk_", "rk-", "rk_", "pk-", "pk_"];

const BEGIN_KEY: &[u8] = b"-----BEGIN ";
const END_KEY: &[u8] = b"-----END ";
const WORDS: [&[u8]; 5] = [b"eyJ", b"://", b"bearer ", b"basic ", BEGIN_KEY];

/// What a candidate begins with.
pub(super) fn anchors() -> impl Iterator<Item = &'static [u8]> {
    let prefixes = SHAPES.iter().map(|shape| shape.prefix).chain(GENERIC);
    prefixes.map(str::as_bytes).chain(WORDS)
}

/// The secret by its shape that begins here.
pub(super) fn shaped(text: &[u8], at: usize) -> Option<Span> {
    let rest = &text[at..];
    match rest.first()? {
        b'e' if rest.starts_with(b"eyJ") => web_token(text, at),
        b'-' if rest.starts_with(BEGIN_KEY) => private_key(text, at),
        b':' if rest.starts_with(b"://") => password_of_address(text, at),
        b'b' | b'B' => of_header(text, at),
        _ => None,
    }
    .or_else(|| token(text, at))
    .or_else(|| inner::around(text, at))
}

fn token(text: &[u8], at: usize) -> Option<Span> {
    static BY_FIRST: OnceLock<Vec<Vec<&'static Shape>>> = OnceLock::new();
    let by_first = BY_FIRST.get_or_init(|| {
        let of = |first: usize| SHAPES.iter().filter(move |shape| usize::from(shape.prefix.as_bytes()[0]) == first);
        (0..256).map(|first| of(first).collect()).collect()
    });
    if !begins_word(text, at) {
        return None;
    }
    let rest = &text[at..];
    let second = rest.get(1).copied()?;
    let begins = |prefix: &str| prefix.as_bytes()[1] == second && rest.starts_with(prefix.as_bytes());
    let shape = by_first[usize::from(rest[0])].iter().find(|shape| begins(shape.prefix));
    if let Some(shape) = shape {
        let run = run(&rest[shape.prefix.len()..], shape.alphabet);
        let end = at + shape.prefix.len() + run;
        let body = &text[at + shape.prefix.len()..end];
        let is_random = !matches!(shape.alphabet, Alphabet::Mixed) || is_random(body);
        let fits = (shape.least..=shape.most).contains(&run) && is_random && !is_dummy(body) && varies(body);
        return fits.then(|| span(text, at, end, shape.name));
    }
    let prefix = GENERIC.iter().find(|prefix| begins(prefix))?;
    let run = run(&rest[prefix.len()..], Alphabet::Address);
    let body = &rest[prefix.len()..prefix.len() + run];
    let fits = run >= 16 && is_mixed(body) && !is_dummy(body) && varies(body);
    fits.then(|| span(text, at, at + prefix.len() + run, "token"))
}

/// Not one character again and again, as in what stands for a token in a text about tokens.
fn varies(body: &[u8]) -> bool {
    let mut seen = [false; 256];
    body.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() >= 5
}

fn run(text: &[u8], alphabet: Alphabet) -> usize {
    let fits = |byte: &u8| match alphabet {
        Alphabet::Alphanumeric => byte.is_ascii_alphanumeric(),
        Alphabet::Address | Alphabet::Mixed => byte.is_ascii_alphanumeric() || b"-_".contains(byte),
        Alphabet::Dotted => byte.is_ascii_alphanumeric() || b"-_.".contains(byte),
        Alphabet::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        Alphabet::Hex => byte.is_ascii_hexdigit(),
        Alphabet::Base64 => is_base64(*byte),
        Alphabet::Escaped => is_base64(*byte) || *byte == b'%',
        Alphabet::Path => is_base64(*byte) || *byte == b'@',
    };
    let run = text.iter().take(ANY + 1).take_while(|byte| fits(byte)).count();
    // A full stop ends a sentence.
    run - text[..run].iter().rev().take_while(|byte| **byte == b'.').count()
}

/// Three parts of base64, the first of which is an object.
fn web_token(text: &[u8], at: usize) -> Option<Span> {
    const LEAST: usize = 10;
    if !begins_word(text, at) {
        return None;
    }
    let mut end = at;
    for part in 0..3 {
        if part > 0 {
            end += text.get(end).filter(|byte| **byte == b'.').map(|_| 1)?;
        }
        let run =
            text[end..].iter().take(ANY * 4).take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        let run = run.count();
        // Of an unsigned one the last is empty.
        if run < if part == 2 { 0 } else { LEAST } {
            return None;
        }
        end += run;
    }
    Some(span(text, at, end, "jwt"))
}

/// From its first line to its last, or, where that is cut off, as far as it looks like one.
fn private_key(text: &[u8], at: usize) -> Option<Span> {
    /// More than any key has.
    const MOST: usize = 64 << 10;
    let rest = &text[at..text.len().min(at + MOST)];
    let kind = &rest[BEGIN_KEY.len()..];
    let kind = &kind[..find(&kind[..kind.len().min(60)], b"-----")?];
    find(kind, b"PRIVATE KEY")?;
    let first = BEGIN_KEY.len() + kind.len() + 5;
    let last = find(&rest[first..], END_KEY).map(|last| first + last);
    let line_end =
        |from: usize| from + rest[from..].iter().position(|byte| *byte == b'\n').unwrap_or(rest.len() - from);
    let (body_end, end) = match last {
        Some(last) => {
            let closing = last + END_KEY.len();
            let line = line_end(closing);
            (last, find(&rest[closing..line], b"-----").map_or(line, |dashes| closing + dashes + 5))
        }
        None => {
            let lines = rest[first..].split_inclusive(|byte| *byte == b'\n').take_while(|line| is_of_key(line));
            let end = first + lines.map(<[u8]>::len).sum::<usize>();
            (end, end)
        }
    };
    let mut span = span(text, at, at + end, "PRIVATE_KEY");
    let may_go_on = !text[at + end..].contains(&b'\n') && !rest[..end].ends_with(b"-----");
    span.is_open |= may_go_on;
    // By its content alone: what shows files puts numbers in front of lines.
    let words =
        |line: &[u8]| line.rsplit(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default().to_vec();
    let body = &rest[first..body_end];
    let lines: Vec<Vec<u8>> = body.split(|byte| *byte == b'\n').map(words).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() || is_dummy(&lines.concat()) {
        return None;
    }
    span.value = lines.join(&b'\n');
    Some(span)
}

/// Whether a key begins here of which so little has come that it cannot be told from something else.
pub(super) fn is_unfinished(text: &[u8], at: usize) -> bool {
    const LITTLE: usize = 100;
    let rest = &text[at..];
    let Some(kind) = rest.strip_prefix(BEGIN_KEY) else { return BEGIN_KEY.starts_with(rest) };
    match find(kind, b"-----") {
        None => !kind.contains(&b'\n'),
        Some(end) => {
            find(&kind[..end], b"PRIVATE KEY").is_some() && kind.len() - end < LITTLE && find(kind, END_KEY).is_none()
        }
    }
}

fn is_of_key(line: &[u8]) -> bool {
    let longest = line.split(|byte| !is_base64(*byte)).map(<[u8]>::len).max().unwrap_or(0);
    longest >= 16
        || line.trim_ascii().is_empty()
        || find(line, b"Proc-Type").is_some()
        || find(line, b"DEK-Info").is_some()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

/// `scheme://user:password@host`.
fn password_of_address(text: &[u8], at: usize) -> Option<Span> {
    const LEAST: usize = 3;
    let before = at.checked_sub(1).map(|at| text[at])?;
    if !before.is_ascii_alphanumeric() {
        return None;
    }
    let from = at + 3;
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/\"'`<>\\?#".contains(byte);
    let rest = &text[from..text.len().min(from + 1_024)];
    let authority = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    let host = authority.iter().rposition(|byte| *byte == b'@');
    let colon = authority.iter().position(|byte| *byte == b':')?;
    // An address that is cut off in its password.
    let is_cut = host.is_none() && from + authority.len() == text.len();
    let host = host.or(is_cut.then_some(authority.len())).filter(|host| *host > colon)?;
    let password = &authority[colon + 1..host];
    let is_port = password.iter().all(u8::is_ascii_digit) && is_cut;
    if password.len() < LEAST || is_dummy(password) || is_port {
        return None;
    }
    let mut span = span(text, from + colon + 1, from + host, "URL_PASSWORD");
    span.is_open = is_cut;
    (!is_cut || super::is_strong(&String::from_utf8_lossy(password))).then_some(span)
}

/// `Bearer …`, `Basic …`.
fn of_header(text: &[u8], at: usize) -> Option<Span> {
    let rest = &text[at..];
    let is = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (name, least, skipped) = if is(b"bearer ") {
        ("BEARER", 16, 7)
    } else if is(b"basic ") {
        ("BASIC", 12, 6)
    } else {
        return None;
    };
    if !begins_word(text, at) {
        return None;
    }
    let start = at + skipped + rest[skipped..].iter().take(8).take_while(|byte| **byte == b' ').count();
    let fits = |byte: &u8| is_base64(*byte) || b"._~".contains(byte);
    let end = start + text[start..].iter().take(ANY).take_while(|byte| fits(byte)).count();
    let token = &text[start..end];
    let is_token = token.len() >= least && is_mixed(token) && !is_dummy(token);
    is_token.then(|| span(text, start, end, name))
}
