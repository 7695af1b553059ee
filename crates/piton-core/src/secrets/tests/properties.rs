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

/// Each character as it is, or escaped in one of the ways of addresses, pages and programs.
fn escaped(chance: &mut Rng, value: &str, seldom: bool) -> String {
    let way = chance.u8(..9);
    let mut escaped = String::new();
    for c in value.chars() {
        let bytes = c.to_string().into_bytes();
        let each = |of: &dyn Fn(u8) -> String| bytes.iter().map(|byte| of(*byte)).collect::<String>();
        escaped.push_str(&match way {
            _ if seldom && chance.u8(..3) > 0 && c.is_ascii_alphanumeric() => c.to_string(),
            0 => each(&|byte| format!("%{byte:02x}")),
            1 => each(&|byte| format!("\\x{byte:02X}")),
            2 => each(&|byte| format!("\\{byte:03o}")),
            3 => format!("\\u{:04x}", u32::from(c)),
            4 => format!("\\u{{{:x}}}", u32::from(c)),
            5 => format!("\\\\u{:04X}", u32::from(c)),
            6 => format!("&#{};", u32::from(c)),
            // Quoted-printable, with a line that ends in the middle now and then.
            7 if chance.u8(..6) == 0 && escaped.len() > 8 && c != '=' => format!("=\n{c}"),
            7 => each(&|byte| format!("={byte:02X}")),
            _ => format!("&#x{:x};", u32::from(c)),
        });
    }
    escaped
}

#[test]
fn a_known_value_is_found_whichever_of_its_characters_are_escaped() {
    for seed in 0..4_000 {
        let mut chance = Rng::with_seed(seed);
        let value = value(&mut chance);
        let seldom = chance.bool();
        let form = escaped(&mut chance, &value, seldom);
        let firewall = knowing(&[("CANARY", &value), ("OTHER", "another7value8here")]);
        let text = format!("some words {form} and more");
        let cleaned = clean(&firewall, &text);
        assert!(
            cleaned.starts_with("some words ‹secret:CANARY:") && cleaned.ends_with("› and more"),
            "{seed}: {value}\n{text}\n{cleaned}"
        );
        let mut stream = firewall.stream(Depth::Everything);
        let middle = chance.usize(..text.len());
        let middle = (0..=middle).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let in_two = stream.push(&text[..middle]) + &stream.push(&text[middle..]) + &stream.finish();
        assert!(in_two.contains("‹secret:CANARY:") && !in_two.contains(&form[8..]), "{seed}: {text}\n{in_two}");
    }
}

/// What a tool prints of some bytes: sixteen in a line, or six of those whose bits it prints.
fn dumped(way: u8, bytes: &[u8]) -> String {
    let mut dump = String::new();
    let in_line = if way == 13 { 6 } else { 16 };
    for (line, bytes) in bytes.chunks(in_line).enumerate() {
        let at = line * in_line;
        let word = |two: &[u8]| u16::from(two[0]) | u16::from(two.get(1).copied().unwrap_or_default()) << 8;
        let words = |of: &dyn Fn(u16) -> String| bytes.chunks(2).map(|two| of(word(two))).collect::<String>();
        let each = |of: &dyn Fn(u8) -> String| bytes.iter().map(|byte| of(*byte)).collect::<String>();
        let text = each(&|byte| if byte.is_ascii_graphic() { char::from(byte).into() } else { ".".to_owned() });
        let line = match way {
            // `od`, `od -x`, `od -An -x`, `od -b`, `od -c`, `od -tx1`, `od -tx4`
            0 => format!("{at:07o}{}", words(&|word| format!(" {word:06o}"))),
            1 => format!("{at:07o}{}", words(&|word| format!(" {word:04x}"))),
            2 => words(&|word| format!(" {word:04x}")),
            3 => format!("{at:07o}{}", each(&|byte| format!(" {byte:03o}"))),
            4 => format!("{at:07o}{}", each(&|byte| format!("   {}", char::from(byte)))),
            5 => format!("{at:07o}{}", each(&|byte| format!(" {byte:02x}"))),
            6 => {
                let four = |four: &[u8]| four.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
                format!("{at:07o}{}", bytes.chunks(4).map(|bytes| format!(" {:08x}", four(bytes))).collect::<String>())
            }
            // `xxd`, `xxd -i`, `hexdump -C`, `xxd -p`
            7 => {
                let pairs: String = bytes
                    .chunks(2)
                    .map(|two| two.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + " ")
                    .collect();
                format!("{at:08x}: {pairs:<40} {text}")
            }
            8 => each(&|byte| format!("0x{byte:02x}, ")),
            9 => {
                let half = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
                let (first, second) = bytes.split_at(bytes.len().min(8));
                format!("{at:08x}  {:<24} {:<24} |{text}|", half(first), half(second))
            }
            // `od -tu1`, `od -An -tu1`, what Python and JavaScript print, `xxd -b`
            10 => format!("{at:07o}{}", each(&|byte| format!(" {byte:3}"))),
            11 => each(&|byte| format!(" {byte:3}")),
            12 => each(&|byte| format!("{byte}, ")),
            13 => format!("{at:08x}: {:<53}  {text}", each(&|byte| format!("{byte:08b} "))),
            14 => each(&|byte| format!("{byte},")),
            _ => each(&|byte| format!("{byte:02x}")),
        };
        dump.push_str(line.trim_end());
        dump.push('\n');
    }
    dump
}

#[test]
fn a_known_value_is_found_in_every_dump_wherever_it_lies() {
    for seed in 0..4_000 {
        let mut chance = Rng::with_seed(seed);
        let value: String = value(&mut chance).chars().filter(char::is_ascii_graphic).collect();
        let way = chance.u8(..16);
        let whole =
            format!("{}{value} and so on", "some words before it".get(chance.usize(..20)..).unwrap_or_default());
        let dump = dumped(way, whole.as_bytes());
        let firewall = knowing(&[("CANARY", &value), ("OTHER", "another7value8here")]);
        let cleaned = clean(&firewall, &dump);
        assert!(cleaned.contains("‹secret:CANARY:"), "{seed}, {way}: {value}\n{dump}\n{cleaned}");
        // Six characters in a row are too many, in either column.
        let digits = |bytes: &[u8]| {
            dumped(way, bytes).lines().map(|line| line.trim_start_matches(|c| c != ' ')).collect::<String>()
        };
        for six in value.as_bytes().windows(6).skip(3) {
            let shown = String::from_utf8_lossy(six).into_owned();
            assert!(!cleaned.contains(&shown), "{seed}, {way}: {shown} of {value}\n{dump}\n{cleaned}");
            if matches!(way, 3..=5 | 10 | 11) {
                assert!(!cleaned.contains(digits(six).trim()), "{seed}, {way}: {shown} of {value}\n{dump}\n{cleaned}");
            }
        }
        let mut stream = firewall.stream(Depth::Everything);
        let middle = chance.usize(..dump.len());
        let in_two = stream.push(&dump[..middle]) + &stream.push(&dump[middle..]) + &stream.finish();
        assert!(in_two.contains("‹secret:CANARY:"), "{seed}, {way}: {dump}\n{in_two}");
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

#[test]
fn a_known_value_is_found_with_what_nobody_sees_between_its_characters() {
    for seed in 0..2_000 {
        let mut chance = Rng::with_seed(seed);
        let value: String = value(&mut chance).chars().filter(char::is_ascii_graphic).collect();
        let unseen = ["\u{200b}", "\u{200c}", "\u{200d}", "\u{2060}", "\u{feff}"];
        let seldom = chance.bool();
        let mut form = String::new();
        for c in value.chars() {
            form.push(c);
            if !seldom || chance.u8(..4) == 0 {
                form.push_str(unseen[chance.usize(..unseen.len())]);
            }
        }
        let firewall = knowing(&[("CANARY", &value), ("OTHER", "another7value8here")]);
        let cleaned = clean(&firewall, &format!("some words {form} and more"));
        assert!(cleaned.starts_with("some words ‹secret:CANARY:"), "{seed}: {value}\n{form:?}\n{cleaned:?}");
    }
}
