//! A list to choose from: it is narrowed by typing.

use crate::blocks;
use crate::fuzzy;
use crate::keys::Action;
use crate::page::line_of;
use crate::prompt::Prompt;
use crate::text;
use crate::theme::Theme;
use ratatui_core::text::{Line, Span};

/// Rows of a list that are shown.
const ROWS: usize = 10;

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
    /// Whether to send a message that is larger than the model's context, or ends in a command.
    Unsent,
    /// What to do where no model can be asked yet.
    Setup,
    /// Settings, each with who says it.
    Setting,
    /// Themes, which are looked at as one goes through them.
    Theme,
    /// Subagents and commands that work beside the conversation.
    Work,
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
    filter: Prompt,
    /// The items that match, the best first.
    hits: Vec<usize>,
    chosen: usize,
    /// The new name of what is chosen, while it is typed.
    renamed: Option<Prompt>,
    /// Whether the trash was meant once.
    is_asked: bool,
}

impl Picker {
    pub(crate) fn new(purpose: Purpose, title: &str, items: Vec<Item>) -> Self {
        let hits = (0..items.len()).collect();
        Self {
            purpose,
            title: title.to_owned(),
            items,
            filter: Prompt::default(),
            hits,
            chosen: 0,
            renamed: None,
            is_asked: false,
        }
    }

    /// Edits what is typed: to narrow the list, or for a name.
    pub(crate) fn edit(&mut self, action: Action) {
        self.change(|line| {
            line.apply(&action);
        });
    }

    pub(crate) fn pasted(&mut self, text: &str) {
        self.change(|line| line.insert_str(&line_of(text)));
    }

    fn change(&mut self, change: impl FnOnce(&mut Prompt)) {
        self.is_asked = false;
        let Some(name) = &mut self.renamed else {
            let before = self.filter.text();
            change(&mut self.filter);
            // Who only moves the cursor stays at the row they have chosen.
            if self.filter.text() != before {
                self.narrow();
            }
            return;
        };
        change(name);
    }

    fn narrow(&mut self) {
        self.chosen = 0;
        self.hits = match self.filter.is_empty() {
            true => (0..self.items.len()).collect(),
            false => {
                let names: Vec<String> =
                    self.items.iter().map(|item| format!("{} {}", item.label, item.detail)).collect();
                let hits = fuzzy::best(self.filter.shown(), names.iter().map(String::as_str), self.items.len());
                hits.into_iter().map(|hit| hit.index).collect()
            }
        };
    }

    pub(crate) fn go(&mut self, by: isize) {
        (self.renamed, self.is_asked) = (None, false);
        let most = self.hits.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(most);
    }

    pub(crate) fn chosen(&self) -> Option<&Item> {
        self.hits.get(self.chosen).and_then(|index| self.items.get(*index))
    }

    /// Begins to type a new name for what is chosen.
    pub(crate) fn rename(&mut self) {
        self.is_asked = false;
        let name = |item: &Item| {
            let mut name = Prompt::default();
            name.set(&item.label);
            name
        };
        self.renamed = self.chosen().map(name);
    }

    pub(crate) fn is_renaming(&self) -> bool {
        self.renamed.is_some()
    }

    pub(crate) fn stop_renaming(&mut self) {
        self.renamed = None;
    }

    /// What is chosen, and the new name that was typed for it. The row shows it at once.
    pub(crate) fn renamed(&mut self) -> Option<(String, String)> {
        let name = self.renamed.take()?.text();
        let index = *self.hits.get(self.chosen)?;
        let item = self.items.get_mut(index)?;
        item.label.clone_from(&name);
        Some((item.value.clone(), name))
    }

    /// What is to be thrown away: what is chosen, by the second press.
    pub(crate) fn throw_away(&mut self) -> Option<String> {
        let index = *self.hits.get(self.chosen)?;
        if !std::mem::replace(&mut self.is_asked, true) {
            return None;
        }
        self.is_asked = false;
        let item = self.items.remove(index);
        let chosen = self.chosen;
        self.narrow();
        self.go(isize::try_from(chosen).unwrap_or(0));
        Some(item.value)
    }

    /// What keys do here.
    fn keys(&self) -> &'static str {
        match (self.purpose, &self.renamed, self.is_asked) {
            (_, Some(_), _) => "  Enter renames · Esc",
            (Purpose::Work, None, true) => "  again: stop it · any other key: not",
            (_, None, true) => "  again: into the trash · any other key: not",
            (Purpose::Work, ..) => "  ↑↓ · Enter what it did · Ctrl-X stop · Esc",
            (Purpose::Session, ..) => {
                "  ↑↓ · type to narrow · Enter · Ctrl-O look · F2 rename · Ctrl-X trash · Ctrl-R folder, all · Esc"
            }
            _ => "  ↑↓ choose · type to narrow · Enter · Esc",
        }
    }

    /// What it offers, and what of it is chosen, as sentences.
    pub(crate) fn spoken(&self) -> (String, String) {
        let offered = format!("{}: {} to choose from, by the arrow keys, or by typing.", self.title, self.hits.len());
        let Some(item) = self.chosen() else { return (offered, "Nothing is called that.".to_owned()) };
        if self.renamed.is_some() {
            return (offered, "Type the new name. Enter renames, Escape does not.".to_owned());
        }
        if self.is_asked && self.purpose == Purpose::Work {
            return (offered, format!("Again stops {}.", item.label));
        }
        if self.is_asked {
            return (offered, format!("Again moves {} to the trash.", item.label));
        }
        let detail = if item.detail.is_empty() { String::new() } else { format!(", {}", item.detail) };
        (offered, format!("{} of {}: {}{detail}", self.chosen + 1, self.hits.len(), item.label))
    }

    /// What is typed to find one, or its new name.
    fn line(&self) -> &Prompt {
        self.renamed.as_ref().unwrap_or(&self.filter)
    }

    /// The same as text.
    pub(crate) fn filter(&self) -> &str {
        self.line().shown()
    }

    /// The column of the cursor in the first of its rows.
    pub(crate) fn cursor(&self) -> usize {
        let before = &self.filter()[..self.line().cursor()];
        text::width(&blocks::one_line(&self.title)) + 2 + text::width(&blocks::one_line(before))
    }

    /// Its rows, so many at most, and never fewer than what is typed and what is chosen.
    pub(crate) fn rows(&self, columns: usize, most: usize, theme: &Theme) -> Vec<Line<'static>> {
        let title = vec![
            Span::styled(blocks::one_line(&self.title), theme.strong),
            Span::styled(format!("  {}", blocks::one_line(self.filter())), theme.accent),
            Span::styled(self.keys(), theme.dim),
        ];
        let mut rows = vec![text::fit(&Line::from(title), columns)];
        // The title, and how many more there are, stand around them.
        let high = ROWS.min(most.saturating_sub(2)).max(1);
        let first = self.chosen.saturating_sub(high - 1);
        for (number, index) in self.hits.iter().enumerate().skip(first).take(high) {
            let Some(item) = self.items.get(*index) else { continue };
            rows.push(row(item, number == self.chosen, columns, theme));
        }
        let hidden = self.hits.len().saturating_sub(first + high);
        if self.hits.is_empty() {
            rows.push(Line::from(Span::styled("  nothing matches", theme.dim)));
        } else if hidden > 0 && most > 2 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_renamed_in_its_row_and_thrown_away_by_two_presses() {
        let item = |name: &str| Item { label: name.into(), detail: String::new(), value: format!("id of {name}") };
        let items = vec![item("one"), item("two"), item("three")];
        let mut picker = Picker::new(Purpose::Session, "Go on with", items);
        picker.go(1);
        picker.rename();
        picker.edit(Action::Insert('!'));
        picker.edit(Action::Backspace);
        picker.pasted(" of\n mine");
        picker.edit(Action::Home);
        picker.edit(Action::Insert('#'));
        assert_eq!(picker.renamed(), Some(("id of two".to_owned(), "#two of mine".to_owned())));
        assert_eq!(picker.chosen().unwrap().label, "#two of mine");
        assert_eq!(picker.renamed(), None, "nothing is typed any more");
        assert_eq!(picker.throw_away(), None);
        picker.go(1);
        picker.go(-1);
        assert_eq!(picker.throw_away(), None, "another key came between");
        assert_eq!(picker.throw_away().as_deref(), Some("id of two"));
        assert_eq!(picker.chosen().unwrap().label, "three", "the cursor stays where it was");
    }
}
