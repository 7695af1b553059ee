//! Characters that a model reads and a person does not see: how instructions are smuggled into a file.

use std::borrow::Cow;

/// Whether nobody sees this character, or it changes the order in which others are seen.
pub fn is_hidden(char: char) -> bool {
    match char {
        '\n' | '\t' | '\r' => false,
        // Soft hyphen, fillers, zero width, marks and overrides of direction, invisible operators, byte order mark.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => char.is_control(),
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
        let mut between = || before.is_some_and(is_joined) && chars.peek().copied().is_some_and(is_joined);
        let stays = match char {
            '\u{200c}' | '\u{200d}' => between(),
            '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|before| is_joined(before) && before != char),
            _ => !is_hidden(char),
        };
        if stays {
            kept.push(char);
        } else {
            hidden += 1;
        }
        before = Some(char);
    }
    (Cow::Owned(kept), hidden)
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
}
