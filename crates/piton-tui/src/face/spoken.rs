//! The face for somebody who hears it: what is new as lines, each once; what may change is said when it does.

use super::Face;
use crate::linear::{Spoken, heard};
use crate::theme::Theme;
use ratatui_core::text::Line;

/// Rows are as long as what stands in them: a screen reader breaks them itself.
const COLUMNS: usize = 2_000;
/// Rows of a question: all of it is said, so all of it was looked at.
const ROWS: usize = 10_000;

/// What was said of what may change.
#[derive(Debug, Default)]
pub(super) struct Said {
    question: String,
    offered: String,
    chosen: String,
    hint: String,
    waiting: usize,
    is_busy: bool,
}

/// What is said now, where it is another thing than before.
fn news(before: &mut String, now: String, lines: &mut Vec<String>) {
    if *before != now {
        lines.extend(now.lines().map(str::to_owned));
        *before = now;
    }
}

impl Face {
    /// What is to be heard now. Each line is handed out once.
    pub fn spoken(&mut self, now_ms: u64) -> Spoken {
        self.now_ms = self.now_ms.max(now_ms);
        self.look();
        let theme = Theme::none();
        let mut rows = std::mem::take(&mut self.notes);
        rows.extend(self.transcript.commit(COLUMNS, &theme));
        let mut lines: Vec<String> = rows.iter().filter_map(heard).collect();
        for page in [self.help.take(), self.page.take()].into_iter().flatten() {
            lines.extend(page.spoken());
        }
        if let Some(review) = self.review.take() {
            lines.extend(review.spoken());
        }
        if let Some(trusting) = self.trusting.take() {
            lines.extend(trusting.spoken());
        }
        let mut said = std::mem::take(&mut self.said);
        self.say_what_changed(&mut said, &theme, &mut lines);
        self.said = said;
        let typed = match (self.asked().and_then(super::Asked::typed_words), &self.picker) {
            (Some(words), _) => words,
            (None, Some(picker)) => picker.filter().to_owned(),
            (None, None) => self.prompt.shown().to_owned(),
        };
        let goes_on = self.is_busy() && self.asked().is_none() && self.picker.is_none();
        Spoken { lines, typed, goes_on }
    }

    fn say_what_changed(&mut self, said: &mut Said, theme: &Theme, lines: &mut Vec<String>) {
        let is_busy = self.is_busy();
        if is_busy && !std::mem::replace(&mut said.is_busy, is_busy) {
            lines.push("Working. Escape stops it.".to_owned());
        } else if !is_busy && std::mem::replace(&mut said.is_busy, is_busy) {
            lines.push("Ready.".to_owned());
        }
        let waiting = self.transcript.waiting().len();
        if waiting > said.waiting {
            lines.push(format!("Queued: {} waiting.", crate::blocks::plural(waiting as u64, "message")));
        }
        said.waiting = waiting;
        let (offered, chosen) = match (&self.rewind, &self.picker, self.menu.items.get(self.menu.chosen)) {
            (Some(rewind), ..) => rewind.spoken(),
            (None, Some(picker), _) => picker.spoken(),
            (None, None, Some(item)) => (String::new(), format!("Tab completes: {}, {}", item.label, item.detail)),
            (None, None, None) => (String::new(), String::new()),
        };
        news(&mut said.offered, offered, lines);
        news(&mut said.chosen, chosen, lines);
        let question = self.question_in_words(theme);
        let now_ms = self.now_ms;
        if let Some(asked) = self.asked_mut() {
            asked.was_shown(now_ms);
        }
        news(&mut said.question, question, lines);
        news(&mut said.hint, self.hint.clone().unwrap_or_default(), lines);
    }

    /// The question that is to be answered next, and the keys for it.
    fn question_in_words(&self, theme: &Theme) -> String {
        let Some(asked) = self.asked() else { return String::new() };
        if asked.typed_words().is_some() {
            return "Type your words. Enter sends them, Escape takes you back.".to_owned();
        }
        let input = self.transcript.input_of(&asked.wanted().subject);
        let (rows, _) = asked.rows(COLUMNS, ROWS, theme, self.questions.len() - 1, input);
        let rows: Vec<String> = rows.iter().filter_map(|row: &Line<'_>| heard(row)).collect();
        let (keys, about) = (rows.len().saturating_sub(2), &rows);
        let about = about.iter().enumerate().map(|(number, row)| match number {
            0 => format!("Question: {row}"),
            number if number == keys => format!("Press: {row}."),
            _ => row.clone(),
        });
        about.collect::<Vec<_>>().join("\n")
    }

    /// What is to be heard at the end: what was open stays as far as it came.
    pub fn last_spoken(&mut self, now_ms: u64) -> Spoken {
        let mut spoken = self.spoken(now_ms);
        self.close();
        spoken.lines.extend(std::mem::take(&mut self.notes).iter().filter_map(heard));
        spoken.typed.clear();
        spoken
    }
}
