//! The forms in which a value turns up: as it is, escaped for JSON and addresses, in base64, in hex, backwards.

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
    /// Pairs of digits, perhaps with one separator between pairs.
    Hex,
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
    for alphabet in [STANDARD, FOR_ADDRESSES] {
        all.extend((0..3).map(|offset| base64(value, offset, alphabet)));
    }
    all.into_iter().filter(|form| form.bytes.len() >= super::sieve::WINDOW).collect()
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

fn hex(value: &[u8]) -> Vec<u8> {
    value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
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
