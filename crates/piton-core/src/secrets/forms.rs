//! The forms in which a value turns up: as it is, escaped for JSON, addresses and pages, in base64, in hex, backwards, and as `od`,
//! `hexdump` and `xxd` print it, in digits of two, eight, ten or sixteen.

use super::sieve::WINDOW;
use std::collections::BTreeSet;

/// One form of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: FormKind,
}

/// How a form is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FormKind {
    /// Capitals and small letters are the same.
    Folded,
    /// To the letter. The characters beside it hold a few bits of the value, where so said.
    Base64 { before: bool, after: bool },
    /// Pairs of digits, perhaps with separators between pairs.
    Hex,
    /// Any of its characters may stand as an escape: `%51`, `=51`, `\x51`, `\u0051`, `\121`, `&#81;`.
    Escaped,
    /// Words of so many digits, with blanks between them. Those beside it hold bytes of the value, where so said.
    Words { digits: usize, before: bool, after: bool },
    /// Its characters, with blanks between them.
    Letters,
    /// The numbers of its bytes, with a sign and blanks between them.
    Numbers,
}

impl Form {
    /// The most bytes of a text that it takes, with what stands beside it in a dump.
    pub(super) fn longest_text(&self) -> usize {
        /// `&#x0051;`, or a character's part of a line of `xxd` or `od -c`.
        const OF_A_CHARACTER: usize = 8;
        /// Of a digit, with offsets and what is printed beside them.
        const OF_A_DIGIT: usize = 4;
        let length = self.bytes.len();
        match self.kind {
            // Each byte may stand on a line of its own.
            FormKind::Folded | FormKind::Base64 { .. } => length * 2,
            // A digit is one of eight, or of four with what stands between them.
            FormKind::Words { digits: BINARY, .. } | FormKind::Numbers => length * OF_A_DIGIT / 2,
            FormKind::Hex | FormKind::Words { .. } => length * OF_A_DIGIT,
            FormKind::Escaped | FormKind::Letters => length * OF_A_CHARACTER,
        }
    }

    /// The first four bytes of it, in each way in which they may be written.
    pub(super) fn first_windows(&self) -> Vec<[u8; WINDOW]> {
        let bytes = &self.bytes;
        let Some(first) = bytes.first_chunk::<WINDOW>() else { return Vec::new() };
        let [a, b, c, _] = *first;
        match self.kind {
            FormKind::Folded | FormKind::Base64 { .. } => vec![*first],
            FormKind::Hex => {
                // The second pair may be on the next line of a dump, behind an offset.
                let apart = [*first, [a, b, b',', b' '], [a, b, b',', b'0'], [a, b, b' ', b' '], [a, b, b'0', b'0']];
                apart.into_iter().chain(SEPARATORS.map(|between| [a, b, between, c])).collect()
            }
            FormKind::Words { digits: 3, .. } => vec![[a, b, c, b' '], [a, b, c, b'0']],
            FormKind::Words { .. } => vec![*first],
            FormKind::Letters => vec![[a, b' ', b' ', b' '], [a, b' ', b, b' '], [a, b'0', b'0', b'0']],
            // The next may be on another line, behind an offset; or a blank more may stand before it.
            FormKind::Numbers if c.is_ascii_digit() => vec![*first, [a, b, c, b'0'], [a, b, c, b',']],
            FormKind::Numbers => vec![*first, [a, b, c, b' '], [a, b, b'0', b'0'], [a, b, b',', b' ']],
            FormKind::Escaped => {
                let mut windows = escaped_windows(*first);
                windows.extend(UNSEEN.map(|[x, y, z]| [a, x, y, z]));
                // Of some of them the first bytes are the same.
                windows.extend([UNSEEN[0], UNSEEN[3], UNSEEN[4]].map(|[x, y, _]| [a, b, x, y]));
                windows.extend([UNSEEN[0], UNSEEN[4]].map(|[x, ..]| [a, b, c, x]));
                windows
            }
        }
    }
}

/// Digits of a byte in a dump of bits.
const BINARY: usize = 8;
/// Characters without width, which copied text may have between any two others.
pub(super) const UNSEEN: [[u8; 3]; 5] =
    [*b"\xe2\x80\x8b", *b"\xe2\x80\x8c", *b"\xe2\x80\x8d", *b"\xe2\x81\xa0", *b"\xef\xbb\xbf"];

/// What tools put between the bytes of a dump.
pub(super) const SEPARATORS: [u8; 4] = [b' ', b':', b'-', b','];

/// How four characters may begin of which any is escaped.
fn escaped_windows(first: [u8; WINDOW]) -> Vec<[u8; WINDOW]> {
    let [a, b, c, _] = first;
    let hex = |byte: u8| <[u8; 2]>::try_from(format!("{byte:02x}").as_bytes()).unwrap_or_default();
    let octal = |byte: u8| <[u8; 3]>::try_from(format!("{byte:03o}").as_bytes()).unwrap_or_default();
    let ([high, low], [next_high, next_low]) = (hex(a), hex(b));
    let ([o, p, q], [next_o, next_p, _]) = (octal(a), octal(b));
    let number = |byte: u8| format!("{byte:02}").into_bytes();
    let (own, next) = (number(a), number(b));
    vec![
        first,
        [b'=', high, low, b'='],
        [b'=', high, low, b],
        [a, b'=', next_high, next_low],
        [a, b, b'=', hex(c)[0]],
        [a, b, c, b'='],
        [b'%', high, low, b'%'],
        [b'%', high, low, b],
        [a, b'%', next_high, next_low],
        [a, b, b'%', hex(c)[0]],
        [a, b, c, b'%'],
        [b'\\', b'x', high, low],
        [a, b'\\', b'x', next_high],
        [a, b, b'\\', b'x'],
        [a, b'\\', b'u', b'0'],
        [a, b'\\', b'u', b'{'],
        [a, b, b'\\', b'u'],
        [a, b'\\', b'\\', b'x'],
        [a, b'\\', b'\\', b'u'],
        [a, b, b'\\', b'\\'],
        [b'\\', o, p, q],
        [a, b'\\', next_o, next_p],
        [a, b, b'\\', octal(c)[0]],
        [a, b, c, b'\\'],
        // Where the same four begin every such escape, what follows them is looked for.
        [b'0', b'0', high, low],
        [b'{', high, low, b'}'],
        [b'&', b'#', own[0], own[1]],
        [b'&', b'#', b'x', high],
        [a, b'&', b'#', next[0]],
        [a, b'&', b'#', b'x'],
        [a, b, b'&', b'#'],
        [a, b, c, b'&'],
    ]
}

/// Every form of a value, each once.
pub(super) fn forms(value: &[u8]) -> Vec<Form> {
    let folded = |bytes: Vec<u8>| Form { bytes, kind: FormKind::Folded };
    let mut all = BTreeSet::new();
    all.insert(folded(value.to_vec()));
    if let Ok(text) = std::str::from_utf8(value) {
        let json = serde_json::Value::from(text).to_string();
        let json = json[1..json.len() - 1].to_owned();
        all.insert(folded(json.replace('/', "\\/").into_bytes()));
        all.insert(folded(json.replace('\\', "\\\\").replace('"', "\\\"").into_bytes()));
        all.insert(folded(json.into_bytes()));
        all.insert(folded(text.chars().rev().collect::<String>().into_bytes()));
        all.insert(folded(html(text).into_bytes()));
    }
    all.insert(folded(percent(value, |byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))));
    all.insert(folded(percent(value, |byte| byte.is_ascii_graphic() && !b"\"#%<>?`{}".contains(&byte))));
    let plus = percent(value, |byte| byte.is_ascii_alphanumeric() || b"-_.~ ".contains(&byte));
    all.insert(folded(plus.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect()));
    all.insert(Form { bytes: hex(value), kind: FormKind::Hex });
    all.insert(Form { bytes: value.to_vec(), kind: FormKind::Escaped });
    if value.iter().all(u8::is_ascii_graphic) {
        all.insert(Form { bytes: value.to_vec(), kind: FormKind::Letters });
    }
    let bit = |byte: u8, place: usize| b'0' + (byte >> (BINARY - 1 - place) & 1);
    let bits = value.iter().flat_map(|byte| (0..BINARY).map(move |place| bit(*byte, place))).collect();
    all.insert(Form { bytes: bits, kind: FormKind::Words { digits: BINARY, before: false, after: false } });
    for between in [b' ', b','] {
        all.insert(Form { bytes: numbers(value, between), kind: FormKind::Numbers });
    }
    let octal = value.iter().flat_map(|byte| format!("{byte:03o}").into_bytes()).collect();
    all.insert(Form { bytes: octal, kind: FormKind::Words { digits: 3, before: false, after: false } });
    for size in [2, 4] {
        all.extend(
            (0..size).map(|skipped| words(value, size, skipped, |word| format!("{word:0width$x}", width = size * 2))),
        );
    }
    all.extend((0..2).map(|skipped| words(value, 2, skipped, |word| format!("{word:06o}"))));
    for alphabet in [STANDARD, FOR_ADDRESSES] {
        all.extend((0..3).map(|offset| base64(value, offset, alphabet)));
    }
    all.into_iter().filter(|form| form.bytes.len() >= WINDOW).collect()
}

fn percent(value: &[u8], stays: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len());
    for byte in value {
        match stays(*byte) {
            true => encoded.push(*byte),
            false => encoded.extend(format!("%{byte:02X}").bytes()),
        }
    }
    encoded
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

fn numbers(value: &[u8], between: u8) -> Vec<u8> {
    let mut all = Vec::with_capacity(value.len() * 4);
    for byte in value {
        let digits = [byte / 100, byte / 10 % 10, byte % 10];
        let zeros = digits.iter().take(2).take_while(|digit| **digit == 0).count();
        all.extend(digits[zeros..].iter().map(|digit| b'0' + digit));
        all.push(between);
    }
    all.pop();
    all
}

fn hex(value: &[u8]) -> Vec<u8> {
    value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// Words of so many bytes, the least first, where so many bytes of the value are in the word before.
fn words(value: &[u8], size: usize, skipped: usize, written: impl Fn(u64) -> String) -> Form {
    let rest = value.get(skipped..).unwrap_or_default();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let (digits, after) = (written(0).len(), !rest.len().is_multiple_of(size));
    let bytes = rest.chunks_exact(size).flat_map(|bytes| written(word(bytes)).into_bytes()).collect();
    Form { bytes, kind: FormKind::Words { digits, before: skipped > 0, after } }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_ADDRESSES: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The characters of base64 that only the value decides, where so many bytes modulo three stand before it.
fn base64(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Form {
    let (first_bit, bits) = (offset * 8, (offset + value.len()) * 8);
    let (from, to) = (first_bit.div_ceil(6), bits / 6);
    let bit = |at: usize| at.checked_sub(first_bit).map_or(0, |at| value[at / 8] >> (7 - at % 8) & 1);
    let digit = |at: usize| (0..6).fold(0_u8, |digit, next| digit << 1 | bit(at * 6 + next));
    let bytes = (from..to).map(|at| alphabet[usize::from(digit(at))]).collect();
    Form { bytes, kind: FormKind::Base64 { before: first_bit % 6 != 0, after: bits % 6 != 0 } }
}
