//! Compares one form of a value with a text. Ends of lines, colours, and what tools print between and beside the bytes of a dump are
//! passed over; a character may stand as an escape.

use super::classify::is_base64;
use super::forms::{Form, FormKind, SEPARATORS, UNSEEN};
use std::ops::RangeInclusive;

/// How a form compares with a text from some position on.
pub(super) enum Compared {
    /// All of it stands there, up to here.
    Whole(usize),
    /// The text, or its line, is cut there after so much of it.
    Cut {
        end: usize,
        same: usize,
    },
    Other,
}

/// What stands at some place of a text.
enum Unit {
    /// The next bytes of the form, so many, in so many bytes of the text.
    Same {
        length: usize,
        bytes: usize,
    },
    /// The text ends in the middle of it.
    Unfinished,
    Other,
}

/// Backslashes of one escape: in a string within a string each is escaped again.
const MOST_SLASHES: usize = 4;

/// Where a form begins that is looked for at a position: `\u00` begins the escape of every character.
pub(super) fn start_of(kind: FormKind, text: &[u8], at: usize) -> usize {
    let is_escape = kind == FormKind::Escaped && text[..at].ends_with(b"\\u");
    let slashes = text[..at].iter().rev().skip(1).take(MOST_SLASHES).take_while(|byte| **byte == b'\\').count();
    if is_escape { at - 1 - slashes } else { at }
}

/// Compares a form with a text from a position on.
pub(super) fn compare(form: &Form, text: &[u8], at: usize) -> Compared {
    let (mut here, mut same) = (at, 0);
    // Where what is the same ends, without line ends behind it.
    let mut end = at;
    // Whether the text of a dump may stand behind its digits.
    let mut is_dump = false;
    while same < form.bytes.len() {
        let rest = &text[here..];
        if rest.is_empty() {
            return Compared::Cut { end: here, same };
        }
        match unit(form, same, rest) {
            Unit::Same { length, bytes } => {
                (here, same) = (here + length, same + bytes);
                end = here;
                continue;
            }
            Unit::Unfinished => return Compared::Cut { end: text.len(), same },
            Unit::Other if same == 0 => return Compared::Other,
            Unit::Other => {}
        }
        let between = between(form, same, rest);
        if let Between::Unfinished = between {
            return Compared::Cut { end: text.len(), same };
        }
        if let Between::Gutter(length) = between {
            is_dump = true;
            here += length;
        } else if let Between::Separator(length) = between {
            here += length;
        } else if is_line_end(rest[0]) {
            here += 1;
        } else if let Some(length) = colour(rest).or_else(|| soft_break(rest)).or_else(|| unseen(rest)) {
            here += length;
        } else if here > end || rest.starts_with("…".as_bytes()) || rest.starts_with(b"...") {
            return Compared::Cut { end, same };
        } else {
            return Compared::Other;
        }
    }
    Compared::Whole(if is_dump { end_of_line(text, end) } else { end })
}

fn unit(form: &Form, same: usize, rest: &[u8]) -> Unit {
    let wanted = &form.bytes[same..];
    if form.kind == FormKind::Escaped {
        match escape(rest) {
            Escape::Of(character, length) => {
                let mut buffer = [0; 4];
                let bytes = match character {
                    Character::Byte(byte) => {
                        buffer[0] = byte;
                        &buffer[..1]
                    }
                    Character::Char(c) => c.encode_utf8(&mut buffer).as_bytes(),
                };
                if wanted.get(..bytes.len()).is_some_and(|wanted| wanted.eq_ignore_ascii_case(bytes)) {
                    return Unit::Same { length, bytes: bytes.len() };
                }
            }
            Escape::Unfinished => return Unit::Unfinished,
            Escape::None => {}
        }
    }
    // Their gap may be the end of a line, behind a comma.
    if form.kind == FormKind::Numbers && wanted[0] == b' ' && wanted.get(1) == Some(&rest[0]) {
        return Unit::Same { length: 0, bytes: 1 };
    }
    let is_same = match form.kind {
        FormKind::Base64 { .. } => rest[0] == wanted[0],
        FormKind::Folded
        | FormKind::Hex
        | FormKind::Escaped
        | FormKind::Words { .. }
        | FormKind::Letters
        | FormKind::Numbers => rest[0].eq_ignore_ascii_case(&wanted[0]),
    };
    if is_same { Unit::Same { length: 1, bytes: 1 } } else { Unit::Other }
}

/// What stands between two bytes of a dump.
enum Between {
    Nothing,
    Separator(usize),
    /// What is printed beside the bytes, the end of the line, and the offset of the next one.
    Gutter(usize),
    /// The text ends in it.
    Unfinished,
}

fn between(form: &Form, same: usize, rest: &[u8]) -> Between {
    let digits = match form.kind {
        FormKind::Hex => 2,
        FormKind::Words { digits, .. } => digits,
        FormKind::Letters => 1,
        FormKind::Numbers => return between_numbers(form, same, rest),
        FormKind::Folded | FormKind::Base64 { .. } | FormKind::Escaped => return Between::Nothing,
    };
    if !same.is_multiple_of(digits) {
        return Between::Nothing;
    }
    let wanted = &form.bytes[same..(same + digits).min(form.bytes.len())];
    let goes_on_after = |skipped: usize| {
        let next = rest.get(skipped + blanks(&rest[skipped..])..).unwrap_or_default();
        next.get(..wanted.len()).is_some_and(|next| next.eq_ignore_ascii_case(wanted))
    };
    match gutter(rest, form.kind != FormKind::Letters) {
        Between::Gutter(length) if goes_on_after(length) || !goes_on_after(0) => return Between::Gutter(length),
        Between::Unfinished if !goes_on_after(0) => return Between::Unfinished,
        _ => {}
    }
    let blanks = blanks(rest);
    let is_hex = form.kind == FormKind::Hex;
    match rest[0] {
        b' ' => Between::Separator(blanks),
        byte if is_hex && SEPARATORS.contains(&byte) => Between::Separator(1),
        b'0' if is_hex && rest.get(1).is_some_and(|x| x.eq_ignore_ascii_case(&b'x')) => Between::Separator(2),
        _ => Between::Nothing,
    }
}

/// The same of numbers, which have a blank between them in the form.
fn between_numbers(form: &Form, same: usize, rest: &[u8]) -> Between {
    let is_gap = form.bytes[same] == b' ';
    let is_behind_gap = same > 0 && form.bytes[same - 1] == b' ';
    match rest[0] {
        b' ' if is_behind_gap => Between::Separator(blanks(rest)),
        b',' | b';' if is_gap => Between::Separator(1),
        _ if is_gap => gutter(rest, false),
        _ => Between::Nothing,
    }
}

fn blanks(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| **byte == b' ').count()
}

/// From the end of the bytes of a line of a dump to those of the next: perhaps the same as text, the end of the line, an offset.
fn gutter(rest: &[u8], has_text: bool) -> Between {
    /// Sixteen characters, and a mark before and behind them.
    const TEXT: usize = 18;
    /// An offset has so many digits.
    const OFFSET: RangeInclusive<usize> = 6..=16;
    let blanks = blanks(rest);
    let text = match rest.iter().take(blanks + TEXT + 1).position(|byte| is_line_end(*byte)) {
        Some(0) => 0,
        Some(length) if blanks == length || (has_text && blanks >= 2) => length,
        Some(_) => return Between::Nothing,
        None if rest.len() <= blanks + TEXT && has_text && blanks >= 2 => return Between::Unfinished,
        None => return Between::Nothing,
    };
    let line = &rest[text..];
    let line_end = line.iter().take(2).take_while(|byte| is_line_end(**byte)).count();
    let digits = line[line_end..].iter().take(*OFFSET.end() + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let after = &line[line_end + digits..];
    let colon = usize::from(after.first() == Some(&b':'));
    match after.get(colon) {
        None => Between::Unfinished,
        Some(b' ') if OFFSET.contains(&digits) => Between::Gutter(text + line_end + digits + colon),
        Some(_) => Between::Nothing,
    }
}

/// The end of a line that is as long as one of a dump.
fn end_of_line(text: &[u8], at: usize) -> usize {
    const LONGEST: usize = 80;
    let rest = text[at..].iter().take(LONGEST).position(|byte| is_line_end(*byte));
    at + rest.unwrap_or_else(|| (text.len() - at).min(LONGEST))
}

/// A character, or a byte of one, that stands as an escape.
enum Character {
    Byte(u8),
    Char(char),
}

/// What a number stands for, and the sign behind it.
#[derive(Debug, Clone, Copy)]
enum Closed {
    Byte,
    Char,
    By(u8),
}

enum Escape {
    Of(Character, usize),
    Unfinished,
    None,
}

/// The escape that stands here, with its length.
fn escape(rest: &[u8]) -> Escape {
    match rest[0] {
        b'%' | b'=' => numbered(rest, 1, 2..=2, 16, Closed::Byte),
        b'&' => match rest.get(1..3) {
            Some([b'#', b'x' | b'X']) => numbered(rest, 3, 1..=6, 16, Closed::By(b';')),
            Some([b'#', _]) => numbered(rest, 2, 1..=7, 10, Closed::By(b';')),
            Some(_) => Escape::None,
            None => Escape::Unfinished,
        },
        b'\\' => {
            let slashes = rest.iter().take(MOST_SLASHES).take_while(|byte| **byte == b'\\').count();
            match rest.get(slashes..) {
                None | Some([]) => Escape::Unfinished,
                Some([b'x' | b'X', ..]) => numbered(rest, slashes + 1, 2..=2, 16, Closed::Byte),
                Some([b'u' | b'U', b'{', ..]) => numbered(rest, slashes + 2, 1..=6, 16, Closed::By(b'}')),
                Some([b'u', ..]) => numbered(rest, slashes + 1, 4..=4, 16, Closed::Char),
                Some([b'U', ..]) => numbered(rest, slashes + 1, 8..=8, 16, Closed::Char),
                Some([b'0'..=b'3', ..]) => numbered(rest, slashes, 3..=3, 8, Closed::Byte),
                Some(_) => Escape::None,
            }
        }
        _ => Escape::None,
    }
}

/// The number that begins there, with so many digits of this radix: of a byte, or of a character with its closing sign.
fn numbered(rest: &[u8], from: usize, digits: RangeInclusive<usize>, radix: u32, closed: Closed) -> Escape {
    let found = rest.get(from..).unwrap_or_default();
    let count = found.iter().take(*digits.end()).take_while(|byte| char::from(**byte).is_digit(radix)).count();
    if !digits.contains(&count) {
        return if from + count >= rest.len() { Escape::Unfinished } else { Escape::None };
    }
    let number = std::str::from_utf8(&found[..count]).ok().and_then(|number| u32::from_str_radix(number, radix).ok());
    let character = number.and_then(|number| match closed {
        Closed::Byte => u8::try_from(number).ok().map(Character::Byte),
        Closed::Char | Closed::By(_) => char::from_u32(number).map(Character::Char),
    });
    let end = usize::from(matches!(closed, Closed::By(sign) if found.get(count) == Some(&sign)));
    character.map_or(Escape::None, |character| Escape::Of(character, from + count + end))
}

/// How long the escape sequence of a terminal is that stands here: `grep` colours what it found, in the middle of a word.
fn colour(text: &[u8]) -> Option<usize> {
    const MOST: usize = 20;
    let inner = text.strip_prefix(b"\x1b[")?;
    Some(inner.iter().take(MOST).position(u8::is_ascii_alphabetic)? + 3)
}

/// How long the sign is that ends a line of quoted-printable text in the middle of a word.
fn soft_break(text: &[u8]) -> Option<usize> {
    (text[0] == b'=' && text.get(1).is_some_and(|next| is_line_end(*next))).then_some(1)
}

/// How long the character is that stands here and that nobody sees.
fn unseen(text: &[u8]) -> Option<usize> {
    UNSEEN.iter().find(|unseen| text.starts_with(*unseen)).map(|unseen| unseen.len())
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// What stands beside a form and holds bits of the value goes with it: characters of base64, words of a dump.
pub(super) fn with_neighbours(form: &Form, text: &[u8], start: usize, end: usize) -> (usize, usize) {
    match form.kind {
        FormKind::Base64 { before, after } => {
            let is_there = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|byte| is_base64(*byte));
            let start = if before && is_there(start.checked_sub(1)) { start - 1 } else { start };
            let end = if after && is_there(Some(end)) { end + 1 } else { end };
            (start, end)
        }
        FormKind::Words { digits, before, after } => {
            let is_digit = |byte: &&u8| byte.is_ascii_hexdigit();
            let word_before = || {
                let blanks = text[..start].iter().rev().take_while(|byte| **byte == b' ').count();
                blanks + text[..start - blanks].iter().rev().take(digits).take_while(is_digit).count()
            };
            let word_after = || {
                let gap = match gutter(&text[end..], true) {
                    Between::Gutter(length) => length,
                    Between::Nothing | Between::Separator(_) | Between::Unfinished => 0,
                };
                let gap = gap + blanks(&text[end + gap..]);
                gap + text[end + gap..].iter().take(digits).take_while(is_digit).count()
            };
            let start = if before { start - word_before() } else { start };
            let end = if after { end + word_after() } else { end };
            (start, end)
        }
        FormKind::Folded | FormKind::Hex | FormKind::Escaped | FormKind::Letters | FormKind::Numbers => (start, end),
    }
}
