//! What is read in the first moments: answers are told from keys, however the bytes are cut.

use super::early::{Answer, Early, Said};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn key(code: KeyCode) -> Said {
    Said::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// What xterm's relatives answer, with keys of a person between the answers.
const BYTES: &[u8] =
    b"h\x1b[?0u\xc3\xa9\x1b[?2026;2$y\x1b]11;rgb:1e1e/2020/ffff\x1b\\\x1b[A\x1bP>|tmux 3.5a\x1b\\\r\x1b[?62;4c";

fn expected() -> Vec<Said> {
    vec![
        key(KeyCode::Char('h')),
        Said::Answer(Answer::Kitty),
        key(KeyCode::Char('é')),
        Said::Answer(Answer::Sync),
        Said::Answer(Answer::Background((0x1e, 0x20, 0xff))),
        key(KeyCode::Up),
        Said::Answer(Answer::Version("tmux 3.5a".to_owned())),
        key(KeyCode::Enter),
        Said::Over,
    ]
}

#[test]
fn answers_are_told_from_keys() {
    assert_eq!(Early::default().feed(BYTES), expected());
}

#[test]
fn it_does_not_matter_where_the_bytes_are_cut() {
    for first in 0..BYTES.len() {
        for second in first..BYTES.len() {
            let mut early = Early::default();
            let mut all = early.feed(&BYTES[..first]);
            all.extend(early.feed(&BYTES[first..second]));
            all.extend(early.feed(&BYTES[second..]));
            assert_eq!(all, expected(), "cut at {first} and {second}");
        }
    }
}

#[test]
fn a_paste_is_data() {
    let said = Early::default().feed(b"\x1b[200~ls\r\x1b[31mrm\x1b[201~x");
    assert_eq!(said, [Said::Paste("ls\r\u{1b}[31mrm".to_owned()), key(KeyCode::Char('x'))]);
}

#[test]
fn a_key_that_looks_like_the_beginning_of_more_is_not_lost() {
    let mut early = Early::default();
    assert_eq!(early.feed(b"\x1b"), []);
    assert_eq!(early.finish(), [key(KeyCode::Esc)]);
    assert_eq!(early.feed(b"\x03"), [Said::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))]);
}

#[test]
fn any_bytes_are_read_to_their_end() {
    for seed in 0..2_000 {
        fastrand::seed(seed);
        let mut early = Early::default();
        let bytes: Vec<u8> = (0..fastrand::usize(..200)).map(|_| fastrand::u8(..)).collect();
        bytes.chunks(fastrand::usize(1..40)).for_each(|chunk| drop(early.feed(chunk)));
        early.finish();
        assert_eq!(early.feed(b"x"), [key(KeyCode::Char('x'))], "seed {seed}");
    }
}
