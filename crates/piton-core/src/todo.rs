//! The list of todos that a model keeps for longer work: its items, and when the model is reminded of them.
//!
//! The tool `todo` replaces the whole list; the event that says so (`todo`) is recorded together with the
//! outcome of its call. The list is part of the session's state, so it survives a resume and a fork, and an undo takes it
//! back with the branch.

use crate::call::{Outcome, Status};
use crate::limits::{TODO_ITEMS, TODO_QUIET_STEPS, TODO_TEXT_CHARS};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The tool that changes the list.
pub const TOOL: &str = "todo";

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// The text, on one line.
    pub text: String,
    /// Its state.
    pub status: TodoStatus,
}

/// The state of a todo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress; at most one entry is.
    InProgress,
    /// Finished.
    Done,
    /// Dropped.
    Dropped,
}

impl TodoStatus {
    /// Whether something is left to do.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }

    /// Its mark in a list.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[>]",
            Self::Done => "[x]",
            Self::Dropped => "[-]",
        }
    }
}

impl fmt::Display for TodoItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.mark(), self.text)
    }
}

/// What is wrong with a list, in words for the model.
pub fn fault(items: &[TodoItem]) -> Option<String> {
    let in_progress = items.iter().filter(|item| item.status == TodoStatus::InProgress).count();
    if items.len() > TODO_ITEMS {
        return Some(format!("{} items are too many; at most {TODO_ITEMS}", items.len()));
    }
    if items.iter().any(|item| item.text.is_empty()) {
        return Some("an item has no text".to_owned());
    }
    if let Some(long) = items.iter().find(|item| item.text.chars().count() > TODO_TEXT_CHARS) {
        let begin: String = long.text.chars().take(40).collect();
        return Some(format!("the item \"{begin}…\" is longer than {TODO_TEXT_CHARS} characters"));
    }
    (in_progress > 1).then(|| format!("{in_progress} items are in_progress; at most one may be"))
}

/// How far a list is, in a few words: `1 of 3 done: write the tests`.
pub fn summary(items: &[TodoItem]) -> String {
    let done = items.iter().filter(|item| !item.status.is_open()).count();
    let current = items.iter().find(|item| item.status == TodoStatus::InProgress);
    let current = current.map_or(String::new(), |item| format!(": {}", item.text));
    format!("{done} of {} done{current}", items.len())
}

/// The list that a call of this tool came to, if it changed the list.
pub fn changed(tool: &str, outcome: &Outcome) -> Option<Vec<TodoItem>> {
    let items = outcome.metadata.get(TOOL).filter(|_| tool == TOOL && outcome.status == Status::Ok)?;
    let items: Vec<TodoItem> = Vec::deserialize(items).ok()?;
    fault(&items).is_none().then_some(items)
}

/// The list of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TodoList {
    items: Vec<TodoItem>,
    /// Steps that began since the list changed or the model was told of it.
    quiet_steps: u32,
    /// The turn was about to end with open items, and the model has yet to hear of them.
    recalled: bool,
}

impl TodoList {
    /// Its items, in order.
    pub fn items(&self) -> &[TodoItem] {
        &self.items
    }

    /// Whether an item is open.
    pub fn has_open(&self) -> bool {
        self.items.iter().any(|item| item.status.is_open())
    }

    /// What the model is reminded of at the next step's beginning; `is_forgotten`: what it knew of the list was compacted.
    pub fn reminder(&self, is_forgotten: bool) -> Option<String> {
        let list: Vec<String> = self.items.iter().map(TodoItem::to_string).collect();
        let list = list.join("\n");
        if self.recalled && self.has_open() {
            return Some(format!(
                "The turn was about to end, but your todos have open items:\n{list}\nGo on with them. If they cannot or \
                 should not be done now, bring the list up to date with todo, and tell the user what is left and why."
            ));
        }
        if is_forgotten && !self.items.is_empty() {
            return Some(format!("Your todos as they are now:\n{list}"));
        }
        (self.has_open() && self.quiet_steps >= TODO_QUIET_STEPS).then(|| {
            format!(
                "Your todos have not changed for {} steps:\n{list}\nBring them up to date with todo if they are not.",
                self.quiet_steps
            )
        })
    }

    /// The model replaces it.
    pub(crate) fn replace(&mut self, items: &[TodoItem]) {
        (self.items, self.quiet_steps) = (items.to_vec(), 0);
    }

    /// The model was told of it.
    pub(crate) fn told(&mut self) {
        self.quiet_steps = 0;
    }

    /// A step has begun: what was to be said at its beginning is said.
    pub(crate) fn step_started(&mut self) {
        self.recalled = false;
        if self.has_open() {
            self.quiet_steps = self.quiet_steps.saturating_add(1);
        }
    }

    /// The turn is kept from its end, so that the model hears of what is open.
    pub(crate) fn recall(&mut self) {
        self.recalled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(text: &str, status: TodoStatus) -> TodoItem {
        TodoItem { text: text.to_owned(), status }
    }

    #[test]
    fn a_list_has_one_item_in_progress_at_most_and_texts_that_can_be_read() {
        use TodoStatus::{Done, InProgress, Pending};
        assert_eq!(fault(&[item("a", InProgress), item("b", Done), item("c", Pending)]), None);
        assert_eq!(fault(&[]), None, "an empty list clears it");
        let two = fault(&[item("a", InProgress), item("b", InProgress)]);
        assert_eq!(two.as_deref(), Some("2 items are in_progress; at most one may be"));
        assert_eq!(fault(&[item("", Pending)]).as_deref(), Some("an item has no text"));
        assert!(fault(&[item(&"x".repeat(TODO_TEXT_CHARS), Pending)]).is_none());
        assert!(fault(&[item(&"x".repeat(TODO_TEXT_CHARS + 1), Pending)]).is_some());
        assert!(fault(&vec![item("a", Done); TODO_ITEMS]).is_none());
        assert!(fault(&vec![item("a", Done); TODO_ITEMS + 1]).is_some());
    }

    #[test]
    fn only_the_tool_itself_changes_the_list() {
        let outcome = Outcome::ok("").with(json!({"todo": [{"text": "a", "status": "done"}]}));
        let items = vec![item("a", TodoStatus::Done)];
        assert_eq!(changed("todo", &outcome), Some(items));
        assert_eq!(changed("mcp__x", &outcome), None);
        assert_eq!(changed("todo", &Outcome { status: Status::Failed, ..outcome }), None);
        assert_eq!(changed("todo", &Outcome::ok("").with(json!({"todo": [{"text": ""}]}))), None);
    }

    #[test]
    fn a_reminder_comes_after_steps_without_a_change_while_something_is_open() {
        let mut list = TodoList::default();
        list.replace(&[item("a", TodoStatus::Pending)]);
        (1..TODO_QUIET_STEPS).for_each(|_| list.step_started());
        assert_eq!(list.reminder(false), None);
        list.step_started();
        assert!(list.reminder(false).is_some_and(|text| text.contains("not changed for 10 steps:\n[ ] a\n")));
        list.replace(&[item("a", TodoStatus::Done)]);
        (0..=TODO_QUIET_STEPS).for_each(|_| list.step_started());
        assert_eq!(list.reminder(false), None, "nothing is open");
        assert_eq!(list.reminder(true).as_deref(), Some("Your todos as they are now:\n[x] a"));
    }
}
