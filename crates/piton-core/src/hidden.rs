//! Characters that a model reads and a person does not see: how instructions are smuggled into a file, and how a command
//! looks like another one. What a model reads is freed of them ([`strip`]); what a person reads shows them ([`visible`]).

use std::borrow::Cow;

/// Whether nobody sees this character, or it changes the order in which others are seen.
pub fn is_hidden(char: char) -> bool {
    match char {
        '\n' | '\t' | '\r' => false,
        _ => char.is_control() || piton_shell::is_invisible(char),
    }
}

/// The text without them, and how many there were. A byte order mark at its beginning is not counted, nor are joiners
/// between letters that need them and the one mark behind an emoji: these stay.
pub fn strip(text: &str) -> (Cow<'_, str>, usize) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.chars().any(is_hidden) {
        return (Cow::Borrowed(text), 0);
    }
    let mut kept = String::with_capacity(text.len());
    let mut hidden = 0;
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if stays(char, before, chars.peek().copied()) {
            kept.push(char);
        } else {
            hidden += 1;
        }
        before = Some(char);
    }
    (Cow::Owned(kept), hidden)
}

/// The text as people may be shown it, wherever it comes from: what they would not see, or what moves a terminal's cursor
/// or turns the order of letters, stands there as `\u{202e}`. Lines end in a line feed.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|char| char == '\r' || is_hidden(char)) {
        return Cow::Borrowed(text);
    }
    let (mut pieces, mut shown) = (Pieces::default(), String::with_capacity(text.len()));
    pieces.push(text, &mut shown);
    pieces.finish(&mut shown);
    Cow::Owned(shown)
}

/// A piece of a script as people may be shown it: tabs, blanks at the ends of lines, and more blanks and empty lines than
/// one takes in at a glance are there to be seen, too. What pushes the rest out of sight is counted.
pub fn plainly(text: &str) -> String {
    /// So many blanks in a row push what follows out of sight.
    const MANY_BLANKS: usize = 16;
    /// So many ends of lines in a row do, too.
    const MANY_LINES: usize = 4;
    let mut shown = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let run = rest.chars().take_while(|other| *other == char).count();
        let bytes = run * char.len_utf8();
        match char {
            ' ' if run >= MANY_BLANKS => shown.push_str(&format!(" ⟨{run} blanks⟩ ")),
            '\n' if run >= MANY_LINES => shown.push_str(&format!("\n⟨{} empty lines⟩\n", run - 1)),
            '\t' => shown.push_str(&"→ ".repeat(run)),
            ' ' if rest[bytes..].starts_with('\n') => shown.push_str(&"·".repeat(run)),
            _ => shown.push_str(&rest[..bytes]),
        }
        rest = &rest[bytes..];
    }
    visible(&shown).into_owned()
}

/// The same on one line, for names: a file may be called anything.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// A name in a line: on one line, and no longer than it is of use.
pub fn visible_name(name: &str) -> String {
    /// Of a longer one, half of these from each end.
    const MOST_CHARS: usize = 200;
    let line = visible_line(name);
    let chars = line.chars().count();
    if chars <= MOST_CHARS {
        return line;
    }
    let head: String = line.chars().take(MOST_CHARS / 2).collect();
    let tail: String = line.chars().skip(chars - MOST_CHARS / 2).collect();
    format!("{head}…{tail}")
}

/// Text that comes in pieces, as people may be shown it. What the next piece decides is held back.
#[derive(Debug, Default)]
pub struct Pieces {
    before: Option<char>,
    /// A joiner, or a carriage return.
    held: Option<char>,
}

impl Pieces {
    /// Adds a piece to what is shown.
    pub fn push(&mut self, piece: &str, shown: &mut String) {
        for char in piece.chars() {
            self.settle(Some(char), shown);
            match char {
                '\r' | '\u{200c}' | '\u{200d}' => self.held = Some(char),
                _ => self.show(char, stays(char, self.before, None), shown),
            }
        }
    }

    /// Adds what was held back.
    pub fn finish(&mut self, shown: &mut String) {
        self.settle(None, shown);
    }

    fn settle(&mut self, after: Option<char>, shown: &mut String) {
        match self.held.take() {
            // The line feed says it.
            Some('\r') if after == Some('\n') => {}
            Some('\r') => self.show('\r', false, shown),
            Some(joiner) => self.show(joiner, stays(joiner, self.before, after), shown),
            None => {}
        }
    }

    fn show(&mut self, char: char, stays: bool, shown: &mut String) {
        if stays {
            shown.push(char);
        } else {
            shown.extend(char.escape_unicode());
        }
        self.before = Some(char);
    }
}

/// Whether a character is left where it is, between these.
fn stays(char: char, before: Option<char>, after: Option<char>) -> bool {
    match char {
        '\u{200c}' | '\u{200d}' => before.is_some_and(is_joined) && after.is_some_and(is_joined),
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|before| is_joined(before) && before != char),
        _ => !is_hidden(char),
    }
}

/// Whether it is of those that joiners and variation marks are for: not ASCII, and seen; or the mark of an emoji.
fn is_joined(char: char) -> bool {
    char == '\u{fe0f}' || (!char.is_ascii() && !is_hidden(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_taken_out_and_counted() {
        let tagged: String = "run rm".chars().filter_map(|char| char::from_u32(0xe0000 + char as u32)).collect();
        for (text, kept, hidden) in [
            ("plain\n\ttext\r\n", "plain\n\ttext\r\n", 0),
            ("\u{feff}mark", "mark", 0),
            ("zero\u{200b}width", "zerowidth", 1),
            ("a\u{202e}b\u{202c}", "ab", 2),
            ("esc\u{1b}[31m", "esc[31m", 1),
            (&format!("nice{tagged}"), "nice", 6),
            ("x\u{200d}y", "xy", 1),
            ("x\u{fe0f}\u{fe0f}", "x", 2),
        ] {
            assert_eq!(strip(text), (Cow::Borrowed(kept), hidden), "{text:?}");
        }
    }

    #[test]
    fn scripts_and_emoji_keep_what_they_need() {
        for text in ["نمی\u{200c}خواهم", "👩\u{200d}💻", "❤\u{fe0f}", "👁\u{fe0f}\u{200d}🗨\u{fe0f}"]
        {
            assert_eq!(strip(text).1, 0, "{text}");
            assert_eq!(strip(text).0, text);
        }
    }

    #[test]
    fn what_nobody_sees_is_shown() {
        for (text, shown) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("echo safe \u{202e}; touch x\u{2066} \u{200b}", "echo safe \\u{202e}; touch x\\u{2066} \\u{200b}"),
            ("esc\u{1b}[2K\rgone", "esc\\u{1b}[2K\\u{d}gone"),
            ("two\r\nlines\r", "two\nlines\\u{d}"),
            ("c1 \u{9b}31m, tag \u{e0041}", "c1 \\u{9b}31m, tag \\u{e0041}"),
            ("👩\u{200d}💻 x\u{200d}y", "👩\u{200d}💻 x\\u{200d}y"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
            let (mut pieces, mut whole) = (Pieces::default(), String::new());
            text.chars().for_each(|char| pieces.push(&char.to_string(), &mut whole));
            pieces.finish(&mut whole);
            assert_eq!(whole, shown, "in pieces: {text:?}");
        }
        assert_eq!(visible_line("a\nb\tc\u{7}"), "a\\nb\\tc\\u{7}");
        assert_eq!(visible_name("a\nb"), "a\\nb");
        assert_eq!(visible_name(&"é".repeat(8_000)).chars().count(), 201);
    }
}
