//! A text that has the whole screen: it is scrolled, and searched with `/`.

use crate::ansi::{self, Links};
use crate::blocks;
use crate::keys::Action;
use crate::prompt::Prompt;
use crate::text;
use crate::theme::Theme;
use ratatui_core::text::{Line, Span};
use std::fmt::Write as _;

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    lines: Vec<Line<'static>>,
    /// The lines as rows of a screen so wide, and the width.
    rows: Vec<Line<'static>>,
    /// The rows with which its parts begin, for `{` and `}`.
    parts: Vec<usize>,
    columns: usize,
    top: usize,
    /// What is being searched, while it is typed.
    search: Option<Prompt>,
    found: String,
}

impl Page {
    pub(crate) fn new(title: &str, lines: Vec<Line<'static>>) -> Self {
        Self {
            title: title.to_owned(),
            lines,
            rows: Vec::new(),
            parts: Vec::new(),
            columns: 0,
            top: 0,
            search: None,
            found: String::new(),
        }
    }

    pub(crate) fn of_text(title: &str, words: &str) -> Self {
        Self::new(title, text::clean_lines(words).into_iter().map(Line::from).collect())
    }

    /// Begins at its end.
    pub(crate) fn at_end(mut self) -> Self {
        self.top = usize::MAX;
        self
    }

    pub(crate) fn is_searched(&self) -> bool {
        self.search.is_some()
    }

    pub(crate) fn begin_search(&mut self) {
        self.search = Some(Prompt::default());
    }

    /// A key while it is typed: it is edited like any line, and over when more is deleted than was typed.
    pub(crate) fn edit_search(&mut self, action: Action) {
        match &mut self.search {
            Some(search) if action == Action::Backspace && search.is_empty() => self.search = None,
            Some(search) => {
                search.apply(&action);
            }
            None => {}
        }
    }

    /// Pasted text belongs to the search, while that is typed.
    pub(crate) fn paste(&mut self, text: &str) {
        self.search.iter_mut().for_each(|search| search.insert_str(&line_of(text)));
    }

    /// Ends the typing of the search; goes to the first place where it stands.
    pub(crate) fn end_search(&mut self, is_meant: bool) {
        let Some(search) = self.search.take() else { return };
        if is_meant {
            self.found = search.text().to_lowercase();
            self.find(true);
        }
    }

    /// Goes to the next place of what was searched, or the one before.
    pub(crate) fn find(&mut self, is_forward: bool) {
        if self.found.is_empty() {
            return;
        }
        let holds = |row: &Line<'static>| row.to_string().to_lowercase().contains(&self.found);
        let found = match is_forward {
            true => self.rows.iter().skip(self.top + 1).position(holds).map(|at| self.top + 1 + at),
            false => self.rows.iter().take(self.top).rposition(holds),
        };
        self.top = found.unwrap_or(self.top);
    }

    /// Goes to the next part, or the one before.
    pub(crate) fn jump(&mut self, is_forward: bool) {
        let to = match is_forward {
            true => self.parts.iter().find(|row| **row > self.top),
            false => self.parts.iter().rev().find(|row| **row < self.top),
        };
        self.top = to.copied().unwrap_or(if is_forward { self.top } else { 0 });
    }

    /// All of it, as lines.
    pub(crate) fn spoken(&self) -> impl Iterator<Item = String> {
        let lines = self.lines.iter().filter_map(|line| crate::linear::without_pictures(&line.to_string()));
        std::iter::once(format!("{}:", self.title)).chain(lines)
    }

    pub(crate) fn go(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by);
    }

    /// Its rows on a screen of this size, the last of which says where one is.
    pub(crate) fn screen(&mut self, columns: usize, rows: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (columns, rows) = (columns.max(1), rows.max(2));
        if self.columns != columns {
            self.lay_out(columns);
        }
        let high = rows - 1;
        self.top = self.top.min(self.rows.len().saturating_sub(high));
        let mut screen: Vec<Line<'static>> = self.rows.iter().skip(self.top).take(high).cloned().collect();
        screen.resize(high, Line::default());
        let last = (self.top + high).min(self.rows.len());
        let foot = match &self.search {
            Some(search) => format!("/{}", marked(search)),
            None => self.foot(last, columns),
        };
        screen.push(text::fit(&Line::from(Span::styled(foot, theme.chosen)), columns));
        screen
    }

    /// Where one is, and as many of the keys as fit, the most needed first.
    fn foot(&self, last: usize, columns: usize) -> String {
        let parts = if self.parts.len() > 1 { " { }" } else { "" };
        let search = if self.found.is_empty() { "/ search" } else { "n N / search" };
        if self.top == 0 && last == self.rows.len() {
            return format!("{} · {search} · q", blocks::one_line(&self.title));
        }
        let at =
            format!("{} · {}–{last} of {}", blocks::one_line(&self.title), (self.top + 1).min(last), self.rows.len());
        let keys = [
            format!("↑↓ PgUp PgDn g G{parts} · {search} · q"),
            format!("↑↓ PgUp PgDn{parts} · {search} · q"),
            format!("PgDn{parts} · / · q"),
        ];
        let mut feet = keys.iter().map(|keys| format!("{at} · {keys}"));
        feet.find(|foot| text::width(foot) <= columns).unwrap_or(at)
    }

    fn lay_out(&mut self, columns: usize) {
        self.columns = columns;
        self.rows.clear();
        self.parts.clear();
        for line in &self.lines {
            if begins_part(line) {
                self.parts.push(self.rows.len());
            }
            self.rows.extend(text::wrap(line, columns, 0));
        }
    }
}

/// A line with a bar where the cursor stands in it: there is no cursor on a page.
fn marked(line: &Prompt) -> String {
    let (before, behind) = line.shown().split_at(line.cursor());
    if behind.is_empty() { before.to_owned() } else { format!("{before}▏{behind}") }
}

/// What of a paste goes into a line that is typed.
pub(crate) fn line_of(pasted: &str) -> String {
    /// Nobody looks for more.
    const MOST_CHARS: usize = 200;
    pasted.chars().filter(|char| !char.is_control()).take(MOST_CHARS).collect()
}

/// Whether a part of a text begins here: a prompt or a turn of a session, or a heading.
fn begins_part(line: &Line<'_>) -> bool {
    let text = line.to_string();
    let is_heading = text.len() > 3 && text.chars().all(|char| char.is_ascii_uppercase() || char == ' ');
    is_heading || ["you: ", "turn "].iter().any(|begins| text.starts_with(begins))
}

/// The bytes that put these rows on the alternate screen; at once, where the terminal `syncs`.
pub(crate) fn draw(rows: &[Line<'static>], links: &Links, syncs: bool) -> String {
    let mut out = String::from(if syncs { ansi::SYNC.0 } else { "" });
    out.push_str("\x1b[?25l\x1b[H");
    for (number, row) in rows.iter().enumerate() {
        let _ = write!(out, "\x1b[{};1H", number + 1);
        ansi::line(row, links, &mut out);
        out.push_str("\x1b[K");
    }
    out.push_str(if syncs { ansi::SYNC.1 } else { "" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_marked_only_for_a_terminal_that_knows_that() {
        let rows = [Line::raw("a"), Line::raw("b")];
        let (plain, synced) = (draw(&rows, &Links::default(), false), draw(&rows, &Links::default(), true));
        assert!(!plain.contains("\x1b[?2026"), "{plain:?}");
        assert_eq!(synced, format!("{}{plain}{}", ansi::SYNC.0, ansi::SYNC.1));
    }

    #[test]
    fn braces_go_from_part_to_part_and_say_so() {
        let words = "ses_1\n\nyou: one\nlong\nlong\nlong\nlong\nyou: two\nmore\nmore\nmore\nmore\nmore";
        let mut page = Page::of_text("the whole session", words);
        let top = |page: &mut Page| {
            let rows = page.screen(60, 4, &Theme::none());
            assert!(rows[3].to_string().contains("{ }"), "{rows:?}");
            rows[0].to_string()
        };
        assert_eq!(top(&mut page), "ses_1");
        page.jump(true);
        assert_eq!(top(&mut page), "you: one");
        page.jump(true);
        assert_eq!(top(&mut page), "you: two");
        page.jump(true);
        assert_eq!(top(&mut page), "you: two", "there is no other");
        page.jump(false);
        page.jump(false);
        assert_eq!(top(&mut page), "ses_1");
        let rows = Page::of_text("prose", "a\nb").screen(60, 4, &Theme::none());
        assert!(!rows[3].to_string().contains("{ }"));
    }
}
