//! The part of a file that one `read` shows, taken from a stream of bytes: a file of any size, with lines of any
//! length, costs no more memory than what is shown.
//!
//! It ends at a whole line, before the cut that the output of every tool is subject to: the model reads all lines that the
//! notice names.

use crate::limits::{READ_BYTES, READ_LINE_CHARS};
use piton_core::truncate::OutputCut;

/// Numbered lines from a stream.
pub(super) struct Window {
    first: usize,
    most_lines: usize,
    /// The number of the line being read, from 1.
    line: usize,
    /// Its beginning, as much as can be shown.
    head: Vec<u8>,
    /// Whether there was more of it than that.
    is_long: bool,
    /// Whether any byte of it was seen: a file's last newline does not begin a line.
    is_begun: bool,
    text: String,
    /// Its characters.
    chars: usize,
    /// The most that it may have.
    room: Room,
    /// Lines shown.
    shown: usize,
    is_full: bool,
    is_lossy: bool,
}

/// How much fits.
#[derive(Clone, Copy)]
struct Room {
    lines: usize,
    chars: usize,
    bytes: usize,
}

impl Room {
    /// What a cut leaves whole, with the notices below the lines.
    fn within(cut: OutputCut) -> Self {
        /// There are two notices at most, of a line each.
        const NOTICE_LINES: usize = 2;
        const NOTICE_BYTES: usize = 250;
        let all = Self { lines: usize::MAX, chars: usize::MAX, bytes: READ_BYTES };
        match cut {
            OutputCut::HeadTail { max_chars } => Self { chars: max_chars.saturating_sub(NOTICE_BYTES), ..all },
            OutputCut::WholeLines { max_lines, max_bytes } => Self {
                lines: max_lines.saturating_sub(NOTICE_LINES),
                bytes: max_bytes.saturating_sub(NOTICE_BYTES).min(READ_BYTES),
                ..all
            },
        }
    }
}

/// What was seen.
pub(super) struct View {
    /// `N: text` lines, each ending in a newline.
    pub(super) text: String,
    /// How many of them.
    pub(super) lines: usize,
    /// Lines of the stream up to where it was followed.
    pub(super) seen_lines: usize,
    /// Something shown was not UTF-8.
    pub(super) is_lossy: bool,
}

impl Window {
    /// `most_lines` lines from line `first` on, as far as they fit.
    pub(super) fn new(first: usize, most_lines: usize, cut: OutputCut) -> Self {
        Self {
            first,
            most_lines,
            line: 1,
            head: Vec::new(),
            is_long: false,
            is_begun: false,
            text: String::new(),
            chars: 0,
            room: Room::within(cut),
            shown: 0,
            is_full: most_lines == 0,
            is_lossy: false,
        }
    }

    /// Whether everything to be shown has been seen.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            self.part(&bytes[..at]);
            self.end_line();
            bytes = &bytes[at + 1..];
        }
        if !bytes.is_empty() {
            self.part(bytes);
        }
    }

    /// The stream is over, or was followed far enough.
    pub(super) fn finish(mut self) -> View {
        if self.is_begun {
            self.end_line();
        }
        View { text: self.text, lines: self.shown, seen_lines: self.line - 1, is_lossy: self.is_lossy }
    }

    fn part(&mut self, bytes: &[u8]) {
        /// No character is longer in UTF-8; one more tells whether the line goes on.
        const MOST_BYTES: usize = READ_LINE_CHARS * 4 + 1;
        self.is_begun = true;
        if self.is_full || self.line < self.first {
            return;
        }
        let room = MOST_BYTES - self.head.len();
        self.is_long |= bytes.len() > room;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        if !self.is_full && self.line >= self.first {
            self.show_line();
        }
        self.head.clear();
        self.is_long = false;
        self.is_begun = false;
        self.line += 1;
    }

    fn show_line(&mut self) {
        let bytes =
            if self.line == 1 { self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.head) } else { &self.head };
        let bytes = if self.is_long { bytes } else { bytes.strip_suffix(b"\r").unwrap_or(bytes) };
        let line = String::from_utf8_lossy(bytes);
        let is_lossy = !self.is_long && matches!(line, std::borrow::Cow::Owned(_));
        let mut shown: String = line.chars().take(READ_LINE_CHARS).map(visible).collect();
        if self.is_long || line.chars().nth(READ_LINE_CHARS).is_some() {
            shown.push_str("... (line truncated)");
        }
        let shown = format!("{}: {shown}\n", self.line);
        let (chars, room) = (self.chars + shown.chars().count(), self.room);
        let fits = chars <= room.chars && self.text.len() + shown.len() <= room.bytes && self.shown < room.lines;
        // One line is always shown, or there would be no way on.
        if self.shown > 0 && !fits {
            self.is_full = true;
            return;
        }
        self.is_lossy |= is_lossy;
        self.chars = chars;
        self.text.push_str(&shown);
        self.shown += 1;
        self.is_full = self.shown == self.most_lines;
    }
}

/// Control characters as the little pictures Unicode has for them: seen, and harmless.
fn visible(char: char) -> char {
    match char {
        '\t' => '\t',
        '\u{7f}' => '\u{2421}',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(char)).unwrap_or(char::REPLACEMENT_CHARACTER),
        _ if char.is_control() => char::REPLACEMENT_CHARACTER,
        _ => char,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(content: &[u8], first: usize, most_lines: usize) -> View {
        view_within(OutputCut::HeadTail { max_chars: 1 << 20 }, content, first, most_lines)
    }

    fn view_within(cut: OutputCut, content: &[u8], first: usize, most_lines: usize) -> View {
        let mut window = Window::new(first, most_lines, cut);
        content.chunks(3).for_each(|chunk| window.push(chunk));
        window.finish()
    }

    #[test]
    fn lines_are_numbered_and_a_last_newline_begins_none() {
        assert_eq!(view(b"a\r\nb\n", 1, 9).text, "1: a\n2: b\n");
        assert_eq!(view(b"a\n\nb", 1, 9).text, "1: a\n2: \n3: b\n");
        assert_eq!(view(b"\xef\xbb\xbfa\n", 1, 9).text, "1: a\n");
        let part = view(b"a\nb\nc\nd\n", 2, 2);
        assert_eq!((part.text.as_str(), part.lines, part.seen_lines), ("2: b\n3: c\n", 2, 4));
    }

    #[test]
    fn long_lines_are_cut_and_what_is_no_text_is_made_visible() {
        let long = "é".repeat(READ_LINE_CHARS + 1);
        let text = view(long.as_bytes(), 1, 9).text;
        assert_eq!(text.chars().count(), "1: ... (line truncated)\n".len() + READ_LINE_CHARS);
        let odd = view(b"caf\xe9 \x1b[1m\n", 1, 9);
        assert_eq!(odd.text, "1: caf\u{fffd} ␛[1m\n");
        assert!(odd.is_lossy);
        assert!(!view("é\n".repeat(9).as_bytes(), 1, 9).is_lossy);
    }

    #[test]
    fn the_whole_stays_within_its_limit() {
        let content = format!("{}\n", "x".repeat(1_000)).repeat(100);
        let view = view(content.as_bytes(), 1, 100);
        assert!(view.text.len() <= READ_BYTES);
        assert_eq!((view.lines, view.seen_lines), (49, 100));
    }
}
