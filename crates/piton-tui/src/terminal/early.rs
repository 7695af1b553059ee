//! The first moments at a terminal: it is asked what it can do, and what is typed meanwhile is not lost.
//!
//! The questions are written all at once; the last is one that every terminal answers. Until it has, or the time is up,
//! bytes are read here: answers are told from keys, which could not be given back to a library that reads them itself.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Keys told apart, frames shown at once, colour behind the text, name, and what every terminal answers.
pub(super) const QUERIES: &str = "\x1b[?u\x1b[?2026$p\x1b]11;?\x1b\\\x1b[>q\x1b[c";

/// What a terminal says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It tells keys apart that older ones cannot.
    Kitty,
    /// It shows frames at once where it is told when they begin and end.
    Sync,
    /// The colour behind the text: red, green, blue.
    Background((u8, u8, u8)),
    /// Its name and version.
    Version(String),
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Key(KeyEvent),
    Paste(String),
    Answer(Answer),
    /// The last question is answered.
    Over,
}

/// Bytes that are not understood yet.
#[derive(Debug, Default)]
pub(super) struct Early {
    bytes: Vec<u8>,
}

/// What stands at the beginning of some bytes.
enum First {
    /// So many bytes, which say this, if anything.
    Said(usize, Option<Said>),
    /// More must come before that can be said.
    Partial,
}

impl Early {
    /// What these bytes say, with those that came before.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.bytes.extend_from_slice(bytes);
        let mut all = Vec::new();
        while !self.bytes.is_empty() {
            match first(&self.bytes) {
                First::Said(taken, said) => {
                    self.bytes.drain(..taken);
                    all.extend(said);
                }
                First::Partial => break,
            }
        }
        all
    }

    /// Whether a paste has begun and is not over.
    pub(super) fn is_in_paste(&self) -> bool {
        self.bytes.starts_with(b"\x1b[200~")
    }

    /// Nothing more comes: what began and did not end was a key for itself.
    pub(super) fn finish(&mut self) -> Vec<Said> {
        let is_escape = self.bytes == [0x1b];
        self.bytes.clear();
        if is_escape { vec![key(KeyCode::Esc, KeyModifiers::NONE)] } else { Vec::new() }
    }
}

/// Keys that were pressed while the terminal still worked line by line: there, Enter is a line feed.
pub(super) fn enter_as_key(typed_before: &mut [u8]) {
    typed_before.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Said {
    Said::Key(KeyEvent::new(code, modifiers))
}

fn first(bytes: &[u8]) -> First {
    match bytes {
        [0x1b] => First::Partial,
        [0x1b, b'[', rest @ ..] => csi(rest, bytes),
        [0x1b, b']', ..] => string(bytes, |text| text.strip_prefix("11;").and_then(background)),
        [0x1b, b'P', ..] => string(bytes, |text| Some(Answer::Version(text.strip_prefix(">|")?.to_owned()))),
        [0x1b, b'O', letter, ..] => First::Said(3, arrow(*letter)),
        [0x1b, b'O'] => First::Partial,
        [0x1b, b'\r', ..] => First::Said(2, Some(key(KeyCode::Enter, KeyModifiers::ALT))),
        [0x1b, 0x7f, ..] => First::Said(2, Some(key(KeyCode::Backspace, KeyModifiers::ALT))),
        [0x1b, letter @ 0x20..0x7f, ..] => {
            First::Said(2, Some(key(KeyCode::Char(char::from(*letter)), KeyModifiers::ALT)))
        }
        [0x1b, ..] => First::Said(1, Some(key(KeyCode::Esc, KeyModifiers::NONE))),
        [b'\r', ..] => First::Said(1, Some(key(KeyCode::Enter, KeyModifiers::NONE))),
        [b'\t', ..] => First::Said(1, Some(key(KeyCode::Tab, KeyModifiers::NONE))),
        [0x7f, ..] => First::Said(1, Some(key(KeyCode::Backspace, KeyModifiers::NONE))),
        [control @ 1..=0x1a, ..] => {
            First::Said(1, Some(key(KeyCode::Char(char::from(control + 0x60)), KeyModifiers::CONTROL)))
        }
        // As crossterm names them: Ctrl-\ to Ctrl-_.
        [control @ 0x1c..=0x1f, ..] => {
            First::Said(1, Some(key(KeyCode::Char(char::from(control - 0x1c + b'4')), KeyModifiers::CONTROL)))
        }
        [0..0x20, ..] => First::Said(1, None),
        _ => character(bytes),
    }
}

fn character(bytes: &[u8]) -> First {
    let most = bytes.len().min(4);
    for end in 1..=most {
        if let Ok(text) = std::str::from_utf8(&bytes[..end]) {
            return First::Said(end, text.chars().next().map(|char| key(KeyCode::Char(char), KeyModifiers::NONE)));
        }
    }
    // A character may be cut; what can be none is dropped.
    let is_lead = matches!(bytes[0], 0xc2..=0xf4);
    if is_lead && most < 4 { First::Partial } else { First::Said(1, None) }
}

/// What follows `CSI`.
fn csi(rest: &[u8], bytes: &[u8]) -> First {
    const PASTE: (&[u8], &[u8]) = (b"200~", b"\x1b[201~");
    if let Some(pasted) = rest.strip_prefix(PASTE.0) {
        let end = pasted.windows(PASTE.1.len()).position(|window| window == PASTE.1);
        return end.map_or(First::Partial, |end| {
            let text = String::from_utf8_lossy(&pasted[..end]).into_owned();
            First::Said(bytes.len() - pasted.len() + end + PASTE.1.len(), Some(Said::Paste(text)))
        });
    }
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else { return First::Partial };
    let (inner, last) = (&rest[..end], rest[end]);
    let said = match (inner, last) {
        ([b'?', ..], b'u') => Some(Said::Answer(Answer::Kitty)),
        // 1 and 2: it is set, or not; 0 and 4 mean that it never can be.
        (b"?2026;1$" | b"?2026;2$", b'y') => Some(Said::Answer(Answer::Sync)),
        ([b'?', ..], b'c') => Some(Said::Over),
        ([], letter) => arrow(letter),
        (b"3", b'~') => Some(key(KeyCode::Delete, KeyModifiers::NONE)),
        _ => None,
    };
    First::Said(2 + end + 1, said)
}

fn arrow(letter: u8) -> Option<Said> {
    let code = match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'Z' => return Some(key(KeyCode::BackTab, KeyModifiers::SHIFT)),
        _ => return None,
    };
    Some(key(code, KeyModifiers::NONE))
}

/// An answer that is a string: it ends with BEL or ST.
fn string(bytes: &[u8], read: impl Fn(&str) -> Option<Answer>) -> First {
    /// No answer is longer: then it is none.
    const MOST: usize = 512;
    for at in 2..bytes.len().min(MOST) {
        let end = match bytes[at..] {
            [0x07, ..] => at + 1,
            [0x1b, b'\\', ..] => at + 2,
            _ => continue,
        };
        let text = std::str::from_utf8(&bytes[2..at]).unwrap_or_default();
        return First::Said(end, read(text).map(Said::Answer));
    }
    if bytes.len() < MOST { First::Partial } else { First::Said(2, None) }
}

/// `rgb:1e1e/1e1e/1e1e`: the first two digits of each, where it has so many.
fn background(text: &str) -> Option<Answer> {
    let mut parts = text.strip_prefix("rgb:")?.split('/');
    let mut part = || u8::from_str_radix(parts.next()?.get(..2)?, 16).ok();
    Some(Answer::Background((part()?, part()?, part()?)))
}
