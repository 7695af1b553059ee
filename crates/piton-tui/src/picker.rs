//! A list to choose from: it is narrowed by typing.

use crate::blocks;
use crate::fuzzy;
use crate::text;
use crate::theme::Theme;
use ratatui_core::text::{Line, Span};

/// Rows of a list that are shown.
const ROWS: usize = 10;

/// Characters of a paste that narrow a list.
const MOST_PASTED: usize = 200;

/// What a list is about; says what becomes of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Sessions to go on with.
    Session,
    /// Models to ask.
    Model,
    /// Agents to run the session.
    Agent,
    /// Turns to go back to.
    Rewind,
    /// Prompts from before.
    History,
    /// How to leave while a turn runs.
    Leaving,
    /// What to do where no model can be asked yet.
    Setup,
}

/// One thing to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is called.
    pub label: String,
    /// What else there is to know of it.
    pub detail: String,
    /// What is handed on when it is chosen.
    pub value: String,
}

/// A list on the screen.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) purpose: Purpose,
    title: String,
    items: Vec<Item>,
    filter: String,
    /// The items that match, the best first.
    hits: Vec<usize>,
    chosen: usize,
}

impl Picker {
    pub(crate) fn new(purpose: Purpose, title: &str, items: Vec<Item>) -> Self {
        let hits = (0..items.len()).collect();
        Self { purpose, title: title.to_owned(), items, filter: String::new(), hits, chosen: 0 }
    }

    pub(crate) fn typed(&mut self, char: char) {
        self.filter.push(char);
        self.narrow();
    }

    pub(crate) fn pasted(&mut self, text: &str) {
        self.filter.extend(text.chars().filter(|char| !char.is_control()).take(MOST_PASTED));
        self.narrow();
    }

    pub(crate) fn backspace(&mut self) {
        self.filter.pop();
        self.narrow();
    }

    fn narrow(&mut self) {
        self.chosen = 0;
        self.hits = match self.filter.is_empty() {
            true => (0..self.items.len()).collect(),
            false => {
                let names: Vec<String> =
                    self.items.iter().map(|item| format!("{} {}", item.label, item.detail)).collect();
                let hits = fuzzy::best(&self.filter, names.iter().map(String::as_str), self.items.len());
                hits.into_iter().map(|hit| hit.index).collect()
            }
        };
    }

    pub(crate) fn go(&mut self, by: isize) {
        let most = self.hits.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(most);
    }

    pub(crate) fn chosen(&self) -> Option<&Item> {
        self.hits.get(self.chosen).and_then(|index| self.items.get(*index))
    }

    /// What it offers, and what of it is chosen, as sentences.
    pub(crate) fn spoken(&self) -> (String, String) {
        let offered = format!("{}: {} to choose from, by the arrow keys, or by typing.", self.title, self.hits.len());
        let Some(item) = self.chosen() else { return (offered, "Nothing is called that.".to_owned()) };
        let detail = if item.detail.is_empty() { String::new() } else { format!(", {}", item.detail) };
        (offered, format!("{} of {}: {}{detail}", self.chosen + 1, self.hits.len(), item.label))
    }

    /// What is typed to find one.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    pub(crate) fn rows(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let title = vec![
            Span::styled(blocks::one_line(&self.title), theme.strong),
            Span::styled(format!("  {}", blocks::one_line(&self.filter)), theme.accent),
            Span::styled("  ↑↓ choose · type to narrow · Enter · Esc", theme.dim),
        ];
        let mut rows = vec![text::fit(&Line::from(title), columns)];
        let first = self.chosen.saturating_sub(ROWS - 1);
        for (number, index) in self.hits.iter().enumerate().skip(first).take(ROWS) {
            let Some(item) = self.items.get(*index) else { continue };
            rows.push(row(item, number == self.chosen, columns, theme));
        }
        let hidden = self.hits.len().saturating_sub(first + ROWS);
        if self.hits.is_empty() {
            rows.push(Line::from(Span::styled("  nothing matches", theme.dim)));
        } else if hidden > 0 {
            rows.push(Line::from(Span::styled(format!("  … {hidden} more"), theme.dim)));
        }
        rows
    }
}

/// A row of a list.
pub(crate) fn row(item: &Item, is_chosen: bool, columns: usize, theme: &Theme) -> Line<'static> {
    let (sign, style) = if is_chosen { ("▸ ", theme.chosen) } else { ("  ", theme.text) };
    let spans = vec![
        Span::styled(sign, theme.accent),
        Span::styled(blocks::one_line(&item.label), style),
        Span::styled(format!("  {}", blocks::one_line(&item.detail)), theme.dim),
    ];
    text::fit(&Line::from(spans), columns)
}
