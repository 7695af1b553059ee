//! Random values in every form, in random text, in random pieces.

use super::{clean, firewall, knowing};
use crate::secrets::{Depth, Firewall};
use fastrand::Rng;

const SIGNS: &str = "!#$%&()*+,-./:;=?@[]^_{|}~";

fn value(chance: &mut Rng) -> String {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let signs: Vec<char> = SIGNS.chars().chain(['"', '\\', ' ', 'é', '€']).collect();
    let letter = |chance: &mut Rng| {
        if chance.u8(..10) == 0 { signs[chance.usize(..signs.len())] } else { letters[chance.usize(..62)] }
    };
    let inner: String = (0..chance.usize(12..60)).map(|_| letter(chance)).collect();
    format!("q7{inner}Z4x")
}

fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0_u32, |number, at| number << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn wrapped(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(width).map(String::from_iter).collect::<Vec<_>>().join("\n")
}

/// A form of a value among other text, and what of it must not be left.
fn hidden(chance: &mut Rng, value: &str) -> (String, String) {
    let before: String = (0..chance.usize(..7)).map(|_| chance.alphabetic()).collect();
    let form = match chance.u8(..9) {
        0 => value.to_owned(),
        1 => serde_json::Value::from(value).to_string(),
        2 => percent(value),
        3 => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        4 => value.bytes().map(|byte| format!("{byte:02X}")).collect(),
        5 => value.chars().rev().collect(),
        6 => value.to_uppercase().replace('É', "é"),
        7 => value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join([" ", ":"][chance.usize(..2)]),
        // In base64 of more, at whichever alignment.
        _ => {
            let whole = base64(format!("{before}{value}tail").as_bytes());
            let own = base64(value.as_bytes());
            let middle = if before.len().is_multiple_of(3) { own[..own.len() - 8].to_owned() } else { String::new() };
            return (whole, middle);
        }
    };
    let own = form.trim_matches('"').to_owned();
    match chance.u8(..4) {
        0 => (wrapped(&form, chance.usize(1..40)), own),
        _ => (form, own),
    }
}

#[test]
fn a_known_value_is_found_in_every_form_however_it_is_wrapped() {
    for seed in 0..4_000 {
        let mut chance = Rng::with_seed(seed);
        let value = value(&mut chance);
        let (form, own) = hidden(&mut chance, &value);
        let firewall = knowing(&[("CANARY", &value), ("OTHER", "another7value8here")]);
        let text = format!("some words\n{form}\nand more");
        let cleaned = clean(&firewall, &text);
        let joined = cleaned.replace('\n', "");
        assert!(cleaned.contains("‹secret:CANARY:"), "{seed}: {value}\n{text}\n{cleaned}");
        assert!(own.is_empty() || !joined.contains(&own), "{seed}: {value}\n{text}\n{cleaned}");
        assert!(cleaned.starts_with("some words\n") && cleaned.ends_with("and more"), "{seed}: {cleaned}");
    }
}

#[test]
fn a_text_in_pieces_is_cleaned_as_it_is_in_one() {
    for seed in 0..3_000 {
        let mut chance = Rng::with_seed(seed);
        let value = value(&mut chance);
        let mut text = String::new();
        for _ in 0..chance.usize(1..6) {
            let (form, _) = hidden(&mut chance, &value);
            let more = [
                "compiling piton v0.1.0\n".to_owned(),
                format!("DB_PASSWORD=hunter{}\n", chance.u32(10..99_999)),
                format!(" ghp_{}\n", (0..36).map(|_| chance.alphanumeric()).collect::<String>()),
                "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n".to_owned(),
                "token = parse_token(x);\n".to_owned(),
            ];
            text.push_str(&more[chance.usize(..more.len())]);
            text.push_str(&format!("{form}\n"));
        }
        let known = || knowing(&[("CANARY", &value)]);
        let whole = clean(&known(), &text);
        let pieces = streamed(&known(), &text, &mut chance);
        // What is learned late is not looked for in what has gone already: so compare what a value gives away.
        for gone in [value.as_str(), "hunter", "ghp_", "MIIEvQ"] {
            assert_eq!(
                pieces.contains(gone),
                whole.contains(gone),
                "{seed}: {gone}\n{text}\n--\n{pieces}\n--\n{whole}"
            );
        }
        assert_eq!(pieces, whole, "{seed}\n{text}");
    }
}

fn streamed(firewall: &Firewall, text: &str, chance: &mut Rng) -> String {
    let mut stream = firewall.stream(Depth::Everything);
    let letters: Vec<char> = text.chars().collect();
    let (mut at, mut all) = (0, String::new());
    while at < letters.len() {
        let next = (at + chance.usize(1..50)).min(letters.len());
        all.push_str(&stream.push(&letters[at..next].iter().collect::<String>()));
        at = next;
    }
    all + &stream.finish()
}

#[test]
fn random_texts_and_bytes_are_never_a_panic() {
    let pieces = [
        "password",
        "=",
        "\"",
        "\\",
        "‹secret:API_KEY:ab12›",
        "›",
        "sk-",
        "eyJ",
        "://",
        ":",
        "@",
        "\n",
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "Bearer ",
        "a1B2c3D4e5",
        "é",
    ];
    for seed in 0..20_000 {
        let mut chance = Rng::with_seed(seed);
        let text: String = (0..chance.usize(..40)).map(|_| pieces[chance.usize(..pieces.len())]).collect();
        let firewall = firewall();
        let once = clean(&firewall, &text);
        // What stands around a placeholder may give it another name, so this need not be the same.
        drop(clean(&firewall, &once));
        let mut stream = firewall.stream(Depth::Everything);
        let bytes: Vec<u8> = (0..chance.usize(..60)).map(|_| chance.u8(..)).collect();
        drop((stream.push_bytes(&bytes), stream.finish_bytes()));
    }
}

#[test]
fn what_streams_is_not_held_for_ever() {
    let firewall = knowing(&[("CANARY", super::CANARY)]);
    let mut stream = firewall.stream(Depth::Everything);
    assert_eq!(stream.push("building…\n"), "building…\n");
    assert_eq!(stream.push("done 1 of 3 \n"), "done 1 of 3 \n");
    assert_eq!(stream.push("kanari9X"), "", "it may be the beginning of the value");
    assert_eq!(stream.push(" is a bird\n"), "kanari9X is a bird\n");
    let endless = "sk-".to_owned() + &"a1".repeat(200_000);
    assert!(!stream.push(&endless).is_empty());
}
