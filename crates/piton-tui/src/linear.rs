//! The surface for a screen reader: lines that are appended, and nothing that is drawn again. What is typed is echoed as it comes.
//!
//! ```text
//!   You: fix the test                     written once
//!   Question: Run this command?           said once, as a sentence
//!   > yes, and then _                     echoed; changed elsewhere than at its end, it is said anew
//! ```

use crate::text;
use ratatui_core::text::Line;
use unicode_segmentation::UnicodeSegmentation;

/// What stands before what is typed.
const PROMPT: &str = "> ";

/// What is to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spoken {
    /// Lines that were not there before.
    pub lines: Vec<String>,
    /// What is being typed.
    pub typed: String,
    /// Whether more lines are about to come: where nothing is typed, nobody waits for that.
    pub goes_on: bool,
}

/// What was written so far, as far as it matters for what comes.
#[derive(Debug, Default)]
pub struct Linear {
    /// What of the line that is typed in stands there.
    typed: String,
    has_prompt: bool,
}

impl Linear {
    /// The bytes that append what is new; none where nothing is.
    pub fn draw(&mut self, spoken: &Spoken) -> String {
        let mut out = String::new();
        let typed = text::clean(&spoken.typed).replace('\n', " ");
        if spoken.goes_on && typed.is_empty() && (!self.has_prompt || !spoken.lines.is_empty()) {
            out.push_str(&self.end());
            out.extend(spoken.lines.iter().map(|line| text::clean(line) + "\r\n"));
            return out;
        }
        if spoken.lines.is_empty() && self.has_prompt {
            if let Some(more) = typed.strip_prefix(self.typed.as_str()) {
                out.push_str(more);
            } else if let Some(less) = self.typed.strip_prefix(typed.as_str()) {
                let columns: usize = less.graphemes(true).map(text::width).sum();
                out.extend(std::iter::repeat_n("\x08 \x08", columns));
            } else {
                out.push_str(&format!("\r\n{PROMPT}{typed}"));
            }
        } else {
            if self.has_prompt {
                out.push_str("\r\n");
            }
            for line in &spoken.lines {
                out.push_str(&text::clean(line));
                out.push_str("\r\n");
            }
            out.push_str(&format!("{PROMPT}{typed}"));
        }
        (self.typed, self.has_prompt) = (typed, true);
        out
    }

    /// The line that is typed in is over.
    pub fn end(&mut self) -> String {
        self.typed.clear();
        if std::mem::take(&mut self.has_prompt) { "\r\n".to_owned() } else { String::new() }
    }
}

/// A row of the screen as something to be heard: words for signs, and no frames.
pub(crate) fn heard(row: &Line<'_>) -> Option<String> {
    const SIGNS: [(&str, &str); 12] = [
        ("› ", "You: "),
        ("● ! ", "You ran: "),
        ("● !! ", "You ran: "),
        ("● ", "Done: "),
        ("✗ ", "Failed: "),
        ("– ", "Stopped: "),
        ("∴ ", "Thought: "),
        ("✓ ", "Passed: "),
        ("• ", "- "),
        ("↶ ", ""),
        ("↳ ", ""),
        ("│ ", ""),
    ];
    let whole = row.to_string();
    // Frames and bars.
    let is_frame = |char: char| matches!(char, '\u{2500}'..='\u{259f}');
    let bare = whole.trim_start();
    let words = match SIGNS.iter().find_map(|(sign, word)| Some(format!("{word}{}", bare.strip_prefix(sign)?))) {
        Some(words) => words,
        None => bare.to_owned(),
    };
    // In a table, a frame stands between cells.
    let words: String = words.chars().map(|char| if is_frame(char) { ' ' } else { char }).collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    // What a program or a model has indented keeps that, as far as it is heard at all.
    let indent = if bare.len() < whole.len() && words == bare.trim_end() { whole.len() - bare.len() } else { 0 };
    (!words.is_empty()).then(|| format!("{}{words}", " ".repeat(indent)))
}

/// A line of a page without what is drawn in it; `None` where nothing else stands there.
pub(crate) fn without_pictures(line: &str) -> Option<String> {
    let is_drawn = |char: char| {
        matches!(char, '\u{2580}'..='\u{259f}' | '▣' | '◧' | '◨' | '◩' | '◫' | '◆' | '◈' | '■' | '▤' | '▥' | '▦' | '◪')
    };
    if !line.contains(is_drawn) {
        return Some(line.to_owned());
    }
    let words = line.split(|char: char| char.is_whitespace() || is_drawn(char)).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join(" ");
    words.contains(char::is_alphanumeric).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(lines: &[&str], typed: &str) -> Spoken {
        let lines = lines.iter().map(ToString::to_string).collect();
        Spoken { lines, typed: typed.to_owned(), goes_on: false }
    }

    #[test]
    fn nothing_stands_between_the_lines_of_an_answer_that_streams() {
        let mut linear = Linear::default();
        let mut all = linear.draw(&spoken(&["Ready."], ""));
        for (lines, typed, goes_on) in [
            (&["You: go"][..], "", true),
            (&["def a():"], "", true),
            (&[], "", true),
            (&["    return 1"], "", true),
            (&[], "wait", true),
            (&["More."], "wait", true),
            (&["Ready."], "", false),
        ] {
            all.push_str(&linear.draw(&Spoken { goes_on, ..spoken(lines, typed) }));
        }
        let expected =
            "Ready.\r\n> \r\nYou: go\r\ndef a():\r\n    return 1\r\n> wait\r\nMore.\r\n> wait\r\nReady.\r\n> ";
        assert_eq!(all, expected);
    }

    #[test]
    fn keys_are_echoed_and_lines_appended_and_nothing_is_drawn_again() {
        let mut linear = Linear::default();
        let mut all = String::new();
        for (lines, typed) in [
            (&["Ready."][..], ""),
            (&[], "h"),
            (&[], "hi漢"),
            (&[], "hi"),
            (&["Working."], "hi"),
            (&[], "hi"),
            (&[], "other"),
        ] {
            all.push_str(&linear.draw(&spoken(lines, typed)));
        }
        all.push_str(&linear.end());
        let erased = "\x08 \x08".repeat(2);
        assert_eq!(all, format!("Ready.\r\n> hi漢{erased}\r\nWorking.\r\n> hi\r\n> other\r\n"));
        assert!(!all.contains('\x1b'), "nothing moves the cursor up");
    }

    #[test]
    fn nothing_of_a_text_reaches_the_terminal_but_text() {
        let mut linear = Linear::default();
        let bytes = linear.draw(&spoken(&["a\x1b[2Jb\rc"], "x\x1b[A"));
        assert!(!bytes.contains('\x1b') && !bytes.contains("b\rc"), "{bytes:?}");
    }

    #[test]
    fn bars_and_grids_of_a_page_are_left_out_and_their_numbers_are_not() {
        let heard = |line: &str| without_pictures(line);
        assert_eq!(heard("  turn 1  $0.0100  ████████  fix it").as_deref(), Some("turn 1 $0.0100 fix it"));
        assert_eq!(heard("  ■ your words       41   2 %").as_deref(), Some("your words 41 2 %"));
        assert_eq!(heard("  ▣ ▣ ■ · ×"), None);
        assert_eq!(heard("  a  table   stays").as_deref(), Some("  a  table   stays"));
    }

    #[test]
    fn signs_are_words_and_frames_are_left_out() {
        let heard = |row: &str| heard(&Line::raw(row.to_owned()));
        assert_eq!(heard("● bash cargo test (exit 0)").as_deref(), Some("Done: bash cargo test (exit 0)"));
        assert_eq!(heard("✗ bash x").as_deref(), Some("Failed: bash x"));
        assert_eq!(heard("╭ Run this command?").as_deref(), Some("Run this command?"));
        assert_eq!(heard("│ a │ b │").as_deref(), Some("a b"));
        assert_eq!(heard("────────"), None);
        assert_eq!(heard("  turn 1  $0.0100  ██████▌ fix it").as_deref(), Some("turn 1 $0.0100 fix it"));
        assert_eq!(heard("    indented").as_deref(), Some("    indented"));
    }
}
