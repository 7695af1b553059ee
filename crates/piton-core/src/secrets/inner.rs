//! Tokens that no prefix tells: what is fixed stands in their middle, or their first characters are encoded digits.

use super::Span;
use super::place::{begins_word, span};

/// What stands in the middle of such a token.
const MIDDLES: [&[u8]; 5] = [b":AA", b"JQQJ99", b"7Q~", b"8Q~", b".atlasv1."];

/// What a candidate begins with: the fixed piece, and for bots of Discord the base64 of three digits.
pub(super) fn anchors() -> impl Iterator<Item = Vec<u8>> {
    let digits = (0..1_000_u16).map(|number| {
        let text = format!("{number:03}");
        let bits = text.bytes().fold(0_u32, |bits, byte| bits << 8 | u32::from(byte));
        (0..4).map(|at| BASE64[(bits >> (18 - 6 * at) & 63) as usize]).collect()
    });
    MIDDLES.into_iter().map(<[u8]>::to_vec).chain(digits)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The token around this position.
pub(super) fn around(text: &[u8], at: usize) -> Option<Span> {
    let rest = &text[at..];
    match rest.first()? {
        b':' if rest.starts_with(b":AA") => telegram(text, at),
        b'J' if rest.starts_with(b"JQQJ99") => azure_key(text, at),
        b'7' | b'8' if rest[1..].starts_with(b"Q~") => azure_client_secret(text, at),
        b'.' if rest.starts_with(b".atlasv1.") => terraform(text, at),
        b'M' | b'N' | b'O' => discord_bot(text, at),
        _ => None,
    }
}

/// How much of the end of a text may be the first half of such a token: a word of letters and digits that are not over.
pub(super) fn unfinished(text: &[u8]) -> usize {
    /// Shorter ones are words.
    const LEAST: usize = 12;
    /// No first half is longer.
    const MOST: usize = 60;
    let run = text.iter().rev().take(MOST).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count();
    if (LEAST..MOST).contains(&run) { run } else { 0 }
}

fn is_address(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_".contains(&byte)
}

/// How many bytes before and from a position on fit.
fn before(text: &[u8], at: usize, fits: impl Fn(u8) -> bool) -> usize {
    text[..at].iter().rev().take(MOST_RUN).take_while(|byte| fits(**byte)).count()
}

fn from(text: &[u8], at: usize, fits: impl Fn(u8) -> bool) -> usize {
    text[at.min(text.len())..].iter().take(MOST_RUN).take_while(|byte| fits(**byte)).count()
}

/// Longer than each of them.
const MOST_RUN: usize = 200;

/// `123456789:AA…`.
fn telegram(text: &[u8], at: usize) -> Option<Span> {
    let digits = before(text, at, |byte| byte.is_ascii_digit());
    let run = from(text, at + 1, is_address);
    ((8..=11).contains(&digits) && (33..=40).contains(&run)).then(|| span(text, at - digits, at + 1 + run, "telegram"))
}

/// Of Azure's services and of Azure DevOps: 84 letters and digits, `JQQJ99` behind the first 52.
fn azure_key(text: &[u8], at: usize) -> Option<Span> {
    const WHOLE: usize = 84;
    const FRONT: usize = 52;
    let (front, rest) =
        (before(text, at, |byte| byte.is_ascii_alphanumeric()), from(text, at, |byte| byte.is_ascii_alphanumeric()));
    (front == FRONT && front + rest == WHOLE).then(|| span(text, at - front, at + rest, "azure"))
}

/// Of an application in Entra: `abc8Q~…`.
fn azure_client_secret(text: &[u8], at: usize) -> Option<Span> {
    const FRONT: usize = 3;
    let fits = |byte: u8| is_address(byte) || b".~".contains(&byte);
    let (front, rest) = (before(text, at, fits), from(text, at + 3, fits));
    (front == FRONT && (31..=37).contains(&rest)).then(|| span(text, at - front, at + 3 + rest, "azure"))
}

/// Of Terraform Cloud: `….atlasv1.…`.
fn terraform(text: &[u8], at: usize) -> Option<Span> {
    let behind = at + b".atlasv1.".len();
    let (front, rest) = (
        before(text, at, |byte| byte.is_ascii_alphanumeric()),
        from(text, behind, |byte| is_address(byte) || byte == b'='),
    );
    (front == 14 && (60..=75).contains(&rest)).then(|| span(text, at - front, behind + rest, "terraform"))
}

/// Of a bot: the number of its user in base64, and two parts more.
fn discord_bot(text: &[u8], at: usize) -> Option<Span> {
    let number = from(text, at, |byte| byte.is_ascii_alphanumeric());
    if !begins_word(text, at) || !(23..=28).contains(&number) || !is_number(&text[at..at + number]) {
        return None;
    }
    let middle = from(text, at + number + 1, is_address);
    let last = at + number + 1 + middle;
    let rest = from(text, last + 1, is_address);
    let has_dots = text.get(at + number) == Some(&b'.') && text.get(last) == Some(&b'.');
    (has_dots && middle == 6 && (27..=45).contains(&rest)).then(|| span(text, at, last + 1 + rest, "discord"))
}

/// Whether this is base64 of digits.
fn is_number(encoded: &[u8]) -> bool {
    let mut bits = 0_u32;
    let mut count = 0_u32;
    for byte in encoded {
        let Some(value) = BASE64.iter().position(|known| known == byte) else { return false };
        bits = (bits << 6 | u32::try_from(value).unwrap_or_default()) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            let decoded = u8::try_from(bits >> count & 0xff).unwrap_or_default();
            if !decoded.is_ascii_digit() {
                return false;
            }
        }
    }
    true
}
