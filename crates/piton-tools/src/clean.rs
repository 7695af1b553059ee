//! Terminal output as plain text: no escape sequences, no control characters but newline and tab, valid UTF-8, and of
//! a line that a progress bar wrote over and over only the last state.

use std::mem;

/// What a carriage return within a line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwriting {
    /// The line begins anew; what it said before is gone. For a text that is there as a whole.
    Replaces,
    /// A new line begins, for text that is already shown.
    AddsLine,
}

/// A stream of output being cleaned. Pieces may end anywhere, within a character or an escape sequence too.
#[derive(Debug)]
pub(crate) struct Cleaner {
    overwriting: Overwriting,
    state: State,
    /// The beginning of a character whose rest has not come yet.
    partial: Vec<u8>,
    /// A carriage return came, and nothing visible since.
    returned: bool,
    /// Where the current line begins in the text being written.
    line_start: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// After ESC.
    Escape,
    /// After ESC and a character that takes one more.
    OneMore,
    /// In a control sequence (`ESC [ …`), up to its final letter.
    Control,
    /// In a string for the terminal (a title, a link), up to BEL or `ESC \`.
    Command,
    /// In such a string, after ESC.
    CommandEscape,
}

/// Cleans a whole output.
pub fn clean(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut cleaner = Cleaner::new(Overwriting::Replaces);
    cleaner.push(bytes, &mut text);
    cleaner.finish(&mut text);
    text
}

impl Cleaner {
    pub(crate) fn new(overwriting: Overwriting) -> Self {
        Self { overwriting, state: State::Text, partial: Vec::new(), returned: false, line_start: 0 }
    }

    /// Appends to `text` what can be said of this piece.
    pub(crate) fn push(&mut self, bytes: &[u8], text: &mut String) {
        let mut joined = mem::take(&mut self.partial);
        let bytes = match joined.is_empty() {
            true => bytes,
            false => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|char| self.char(char, text));
            at += chunk.valid().len() + chunk.invalid().len();
            let is_cut =
                at == bytes.len() && std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
            if is_cut {
                self.partial = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                self.char(char::REPLACEMENT_CHARACTER, text);
            }
        }
    }

    /// The output is over.
    pub(crate) fn finish(&mut self, text: &mut String) {
        if !mem::take(&mut self.partial).is_empty() {
            self.char(char::REPLACEMENT_CHARACTER, text);
        }
    }

    fn char(&mut self, char: char, text: &mut String) {
        self.state = match (self.state, char) {
            // Nothing spans lines: a sequence that was never ended must not swallow the rest.
            (_, '\n') | (State::Text, _) => self.text(char, text),
            (State::Escape, '[') => State::Control,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Command,
            (State::Escape, ' ' | '#' | '%' | '(' | ')' | '*' | '+') => State::OneMore,
            (State::Escape, '\u{1b}') => State::Escape,
            (State::Escape | State::OneMore, _) => State::Text,
            (State::Control, ' '..='?') => State::Control,
            (State::Control, '@'..='~') => State::Text,
            (State::Control, _) => self.text(char, text),
            (State::Command, '\u{7}' | '\u{9c}') => State::Text,
            (State::Command, '\u{1b}') => State::CommandEscape,
            (State::Command, _) => State::Command,
            (State::CommandEscape, '[') => State::Control,
            (State::CommandEscape, '\u{1b}') => State::CommandEscape,
            (State::CommandEscape, _) => State::Text,
        };
    }

    fn text(&mut self, char: char, text: &mut String) -> State {
        match char {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return State::Control,
            '\r' => self.returned = true,
            '\n' => {
                self.returned = false;
                text.push('\n');
                self.line_start = text.len();
            }
            '\u{8}' => self.backspace(text),
            '\t' => self.visible(char, text),
            _ if char.is_control() => {}
            _ => self.visible(char, text),
        }
        State::Text
    }

    fn visible(&mut self, char: char, text: &mut String) {
        if mem::take(&mut self.returned) {
            match self.overwriting {
                Overwriting::Replaces => text.truncate(self.line_start),
                Overwriting::AddsLine => text.push('\n'),
            }
        }
        text.push(char);
    }

    fn backspace(&self, text: &mut String) {
        if self.overwriting == Overwriting::Replaces && text.len() > self.line_start {
            text.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_are_gone() {
        assert_eq!(
            clean(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b(B\0\x07!"),
            "red alink!"
        );
        assert_eq!(clean(b"N\x08NA\x08AM\x08ME\x08E"), "NAME");
        assert_eq!(clean(b"\x1b]0;never ended\nnext"), "\nnext");
    }

    #[test]
    fn of_a_progress_line_only_the_last_state_is_left() {
        assert_eq!(clean(b"start\n 10%\r 50%\r\x1b[K100%\r\nend\r"), "start\n100%\nend");
        assert_eq!(clean(b"a\r\nb\r\r\nc"), "a\nb\nc");
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        assert_eq!(clean(b"caf\xe9 \xf0\x9f\x98\x80 \xff\xc3"), "caf\u{fffd} 😀 \u{fffd}\u{fffd}");
    }

    #[test]
    fn pieces_may_end_anywhere() {
        let bytes = "a\u{1b}[31mé😀\u{1b}[0m\r\nb\u{1b}]0;t\u{1b}\\c\n".as_bytes();
        for cut in 0..bytes.len() {
            for overwriting in [Overwriting::AddsLine, Overwriting::Replaces] {
                let (mut cleaner, mut text) = (Cleaner::new(overwriting), String::new());
                cleaner.push(&bytes[..cut], &mut text);
                cleaner.push(&bytes[cut..], &mut text);
                cleaner.finish(&mut text);
                assert_eq!(text, "aé😀\nbc\n");
            }
        }
    }

    #[test]
    fn live_text_is_never_taken_back() {
        let (mut cleaner, mut text) = (Cleaner::new(Overwriting::AddsLine), String::new());
        cleaner.push(b"10%\r50%\r", &mut text);
        assert_eq!(text, "10%\n50%");
    }
}
