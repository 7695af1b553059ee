//! What a repository brings along that grants or runs something, on the whole screen: a list, and below it all of what is chosen. A
//! person trusts each thing in its current form, or takes that back. What trust means is not known here.

use crate::blocks;
use crate::text;
use crate::theme::Theme;
use ratatui_core::text::{Line, Span};

/// One thing that a repository brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// What it is, such as `MCP server`.
    pub kind: String,
    /// Its file, as people write it.
    pub path: String,
    /// Which form of it is shown.
    pub hash: String,
    /// How the person stands to it.
    pub standing: Standing,
    /// What it does once it is trusted, in one sentence.
    pub does: String,
    /// All of it; of what was trusted in another form, the difference to that.
    pub text: String,
}

/// How a person stands to what a repository brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is in force.
    Trusted,
    /// It was trusted in another form, and is not in force.
    Changed,
    /// It was never trusted.
    Unknown,
    /// It cannot be read, and so not be trusted; the text says why.
    Unreadable,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Changed => "changed",
            Self::Unknown => "not trusted",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What a key came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// It was taken, or meant nothing.
    Taken,
    /// Trust it in this form, or take that back.
    Trust(Brought, bool),
}

/// The list on the screen.
#[derive(Debug)]
pub(crate) struct Trusting {
    items: Vec<Brought>,
    chosen: usize,
    /// The first row of the text that is shown.
    top: usize,
    /// Of each, whether its end was on the screen.
    was_read: Vec<bool>,
    hint: Option<&'static str>,
}

impl Trusting {
    pub(crate) fn new(items: Vec<Brought>) -> Self {
        let first = items.iter().position(|item| item.standing != Standing::Trusted).unwrap_or(0);
        let was_read = vec![false; items.len()];
        Self { items, chosen: first, top: 0, was_read, hint: None }
    }

    /// The same place in what is known now.
    pub(crate) fn again(self, items: Vec<Brought>) -> Self {
        let path = self.items.get(self.chosen).map(|item| item.path.clone());
        let chosen = items.iter().position(|item| Some(&item.path) == path.as_ref()).unwrap_or(0);
        let hint = Some("it counts from the next session on: /new");
        Self { chosen, top: self.top, hint, ..Self::new(items) }
    }

    pub(crate) fn go(&mut self, by: isize) {
        let chosen = self.chosen.saturating_add_signed(by).min(self.items.len().saturating_sub(1));
        if chosen != self.chosen {
            (self.chosen, self.top) = (chosen, 0);
        }
        self.hint = None;
    }

    pub(crate) fn scroll(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by);
        self.hint = None;
    }

    /// What a letter does.
    pub(crate) fn press(&mut self, letter: char) -> Pressed {
        self.hint = None;
        let Some(item) = self.items.get(self.chosen) else { return Pressed::Taken };
        match (letter, item.standing) {
            ('t', Standing::Trusted) => self.hint = Some("it is trusted already · u takes that back"),
            ('t', Standing::Unreadable) => self.hint = Some("what cannot be read cannot be trusted"),
            ('t', _) if !self.was_read[self.chosen] => self.hint = Some("read it to its end first: PgDn"),
            ('t', _) => return Pressed::Trust(item.clone(), true),
            // Of what is trusted in an older form, that form is forgotten.
            ('u', Standing::Trusted | Standing::Changed) => return Pressed::Trust(item.clone(), false),
            ('u', _) => self.hint = Some("it is not trusted"),
            _ => {}
        }
        Pressed::Taken
    }

    /// Its rows on a screen of this size.
    pub(crate) fn screen(&mut self, columns: usize, rows: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (columns, high) = (columns.max(1), rows.max(4) - 1);
        let listed = self.items.len().min((high / 3).max(1));
        let first = (self.chosen + 1).saturating_sub(listed);
        let mut screen: Vec<Line<'static>> = Vec::new();
        for (number, item) in self.items.iter().enumerate().skip(first).take(listed) {
            let is_chosen = number == self.chosen;
            let style = if is_chosen { theme.chosen } else { theme.text };
            let mark = if is_chosen { "▸ " } else { "  " };
            let row = format!("{:<11}  {:<10}  {}", item.standing.word(), item.kind, blocks::one_line(&item.path));
            let row = Line::from(vec![Span::styled(mark, theme.accent), Span::styled(row, style)]);
            screen.push(text::fit(&row, columns));
        }
        screen.push(Line::styled("─".repeat(columns), theme.dim));
        let detail = self.items.get(self.chosen).map(|item| detail(item, columns, theme)).unwrap_or_default();
        let room = high.saturating_sub(screen.len());
        self.top = self.top.min(detail.len().saturating_sub(room));
        if self.top + room >= detail.len()
            && let Some(was_read) = self.was_read.get_mut(self.chosen)
        {
            *was_read = true;
        }
        let last = (self.top + room).min(detail.len());
        let all = detail.len();
        screen.extend(detail.into_iter().skip(self.top).take(room));
        screen.resize(high, Line::default());
        let foot = match (self.hint, self.items.is_empty()) {
            (Some(hint), _) => hint.to_owned(),
            (None, true) => "This repository brings nothing along that needs trust · Esc".to_owned(),
            (None, false) => format!("↑↓ choose · PgUp PgDn read ({last} of {all}) · t trust · u take it back · Esc"),
        };
        screen.push(text::fit(&Line::from(Span::styled(foot, theme.chosen)), columns));
        screen
    }

    /// All of it, as lines.
    pub(crate) fn spoken(&self) -> Vec<String> {
        let said = |item: &Brought| {
            format!("{}: {} {}. {}\n{}", item.standing.word(), item.kind, item.path, item.does, item.text)
        };
        let mut lines = vec!["What this repository brings along. `piton trust` in a shell trusts it.".to_owned()];
        lines.extend(self.items.iter().map(said).flat_map(|said| text::clean_lines(&said)));
        lines
    }
}

fn detail(item: &Brought, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let about = match item.standing {
        Standing::Trusted => "In force as it is.",
        Standing::Changed => "Not in force: it has changed since you trusted it.",
        Standing::Unknown => "Not in force: you have not trusted it.",
        Standing::Unreadable => "Not in force: it cannot be read.",
    };
    let mut rows = text::wrap(&Line::styled(format!("{} {about}", item.does), theme.dim), columns, 0);
    rows.push(Line::default());
    let is_diff = item.standing == Standing::Changed;
    for line in text::clean_lines(&item.text) {
        let style = match line.as_bytes().first() {
            Some(b'+') if is_diff => theme.added,
            Some(b'-') if is_diff => theme.removed,
            _ => theme.text,
        };
        rows.extend(text::wrap(&Line::styled(line, style), columns, 2));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn brought(kind: &str, path: &str, standing: Standing, text: &str) -> Brought {
        let (kind, path, text) = (kind.to_owned(), path.to_owned(), text.to_owned());
        Brought { kind, path, hash: "h".to_owned(), standing, does: "It starts its command.".to_owned(), text }
    }

    fn screen(trusting: &mut Trusting, columns: usize, rows: usize) -> String {
        let rows = trusting.screen(columns, rows, &Theme::none());
        assert!(rows.iter().all(|row| text::line_width(row) <= columns), "{rows:?}");
        rows.iter().map(|row| format!("{}\n", row.to_string().trim_end())).collect()
    }

    #[test]
    fn each_thing_is_listed_with_its_standing_and_shown_whole_or_as_a_difference() {
        let mut trusting = Trusting::new(vec![
            brought("settings", ".piton/config.toml", Standing::Trusted, "model = \"a/b\""),
            brought("MCP server", ".mcp.json (words)", Standing::Changed, "@@ -1 +1 @@\n-uvx words\n+uvx \u{1b}evil"),
        ]);
        expect![[r#"
              trusted      settings    .piton/config.toml
            ▸ changed      MCP server  .mcp.json (words)
            ────────────────────────────────────────────────────────────────────────────────
            It starts its command. Not in force: it has changed since you trusted it.

            @@ -1 +1 @@
            -uvx words
            +uvx \u{1b}evil


            ↑↓ choose · PgUp PgDn read (5 of 5) · t trust · u take it back · Esc
        "#]]
        .assert_eq(&screen(&mut trusting, 80, 11));
        for columns in [1, 20, 40] {
            screen(&mut trusting, columns, 8);
        }
        assert!(screen(&mut Trusting::new(Vec::new()), 80, 6).contains("nothing along"));
    }

    #[test]
    fn what_does_not_fit_the_screen_is_read_to_its_end_before_it_is_trusted() {
        let long: String = (0..40).map(|number| format!("run {number}\n")).collect();
        let item = brought("hooks", ".claude/settings.json", Standing::Unknown, &long);
        let mut trusting = Trusting::new(vec![item.clone()]);
        screen(&mut trusting, 80, 12);
        assert_eq!(trusting.press('t'), Pressed::Taken);
        assert!(screen(&mut trusting, 80, 12).contains("read it to its end first"));
        trusting.scroll(isize::MAX);
        assert!(screen(&mut trusting, 80, 12).contains("run 39"));
        assert_eq!(trusting.press('t'), Pressed::Trust(item.clone(), true));
        let trusted = Brought { standing: Standing::Trusted, ..item };
        let mut trusting = trusting.again(vec![trusted.clone()]);
        assert!(screen(&mut trusting, 80, 12).contains("from the next session on"));
        assert_eq!(trusting.press('t'), Pressed::Taken);
        assert_eq!(trusting.press('u'), Pressed::Trust(trusted, false));
    }
}
