//! Texts with secrets in them, and texts that only look so.

use super::{clean, firewall};
use crate::secrets::{Firewall, Secrets};

const POSITIVES: &str = include_str!("../corpus/positives.txt");
const NEGATIVES: &str = include_str!("../corpus/negatives.txt");

fn lines(corpus: &'static str) -> impl Iterator<Item = String> {
    let lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.enumerate().map(|(number, line)| expanded(line, number as u64))
}

/// Puts random characters in the place of stand-ins: nothing in the tree looks like a key to those who search it for keys.
fn expanded(line: &str, seed: u64) -> String {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('{') {
        let stand_in = behind.split_once('}').and_then(|(name, rest)| {
            let (kind, count) = (name.chars().next()?, name.get(1..)?.parse::<usize>().ok()?);
            Some((kind, count, rest))
        });
        text.push_str(before);
        let Some((kind, count, after)) = stand_in else {
            text.push('{');
            rest = behind;
            continue;
        };
        let alphabet: Vec<char> = match kind {
            'a' => ('a'..='z').chain('A'..='Z').chain('0'..='9').collect(),
            'b' => ('a'..='z').chain('A'..='Z').chain('0'..='9').chain(['+', '/']).collect(),
            'c' => ('A'..='Z').chain('2'..='7').collect(),
            'h' => ('a'..='f').chain('0'..='9').collect(),
            'd' => ('0'..='9').collect(),
            other => panic!("no stand-in: {other}"),
        };
        text.extend((0..count).map(|_| alphabet[chance.usize(..alphabet.len())]));
        rest = after;
    }
    (text + rest).replace('␤', "\n")
}

#[test]
fn every_secret_of_the_corpus_goes_and_what_is_around_it_stays() {
    let mut missed = Vec::new();
    let mut count = 0;
    for line in lines(POSITIVES) {
        let (before, rest) = line.split_once('⟦').expect("a secret");
        let (secret, behind) = rest.split_once('⟧').expect("its end");
        let cleaned = clean(&firewall(), &format!("{before}{secret}{behind}"));
        let is_around = cleaned.starts_with(before) && cleaned.ends_with(behind);
        let is_gone = !pieces(secret).iter().any(|piece| cleaned.contains(piece.as_str()));
        count += 1;
        if !is_around || !is_gone || !cleaned.contains("‹secret:") {
            missed.push(format!("{line}\n    {cleaned}"));
        }
    }
    assert!(missed.is_empty(), "{} of {count}:\n{}", missed.len(), missed.join("\n"));
    assert!(count >= 150, "{count}");
}

/// Pieces of a secret that must not be left: its halves, without what every secret of its kind has.
fn pieces(secret: &str) -> Vec<String> {
    let longest = secret.split(|letter: char| letter.is_whitespace()).max_by_key(|word| word.len()).unwrap_or_default();
    let half = longest.char_indices().nth(longest.chars().count() / 2).map_or(0, |(at, _)| at);
    vec![longest[half..].to_owned(), longest.to_owned()]
}

#[test]
fn what_is_no_secret_stays_as_it_is() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in lines(NEGATIVES) {
        let cleaned = clean(&firewall(), &line);
        count += 1;
        if cleaned != line {
            wrong.push(format!("{line}\n    {cleaned}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 150, "{count}");
}

#[test]
fn this_corpus_of_clean_text_learns_nothing() {
    let mut secrets = Secrets::new(super::tag());
    for line in lines(NEGATIVES) {
        secrets.find(line.as_bytes(), crate::secrets::Depth::Everything);
    }
    assert!(secrets.is_empty());
    assert!(Firewall::new(secrets).find(b"nothing", crate::secrets::Depth::Everything).is_empty());
}
