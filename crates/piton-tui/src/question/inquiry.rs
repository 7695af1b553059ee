//! Questions of the model's own: one after the other, each answered by the number of an option, by several, or in words.

use super::{Asked, Pressed, Typed, offer};
use crate::blocks;
use crate::keys::Action;
use crate::text;
use crate::theme::Theme;
use piton_core::client::Answer;
use piton_core::inquiry::InquiryQuestion;
use piton_core::question::Decision;
use ratatui_core::text::{Line, Span};
use serde_json::json;

/// What was answered so far.
#[derive(Debug, Default)]
pub(super) struct Given {
    answers: Vec<Vec<String>>,
    /// The options that are marked, where several may be.
    marked: Vec<usize>,
    /// Why what was typed is no answer.
    slip: Option<String>,
}

/// The question that is answered next.
pub(super) struct Asking<'a> {
    question: &'a InquiryQuestion,
    marked: &'a [usize],
    at: usize,
    of: usize,
}

impl Given {
    pub(super) fn hint(&self) -> String {
        let hint = "Tab: your own words · Esc stop the turn";
        self.slip.as_ref().map_or_else(|| hint.to_owned(), |slip| format!("{slip} · {hint}"))
    }
}

impl Asked {
    pub(super) fn asking(&self) -> Option<Asking<'_>> {
        let questions = &self.wanted.question()?.inquiry.as_ref()?.questions;
        let at = self.given.answers.len();
        Some(Asking { question: questions.get(at)?, marked: &self.given.marked, at, of: questions.len() })
    }

    /// Whether there is a plan to read, which may not fit the screen.
    pub(super) fn is_about_a_plan(&self) -> bool {
        self.plan().is_some()
    }

    /// The plan that it is about.
    pub(crate) fn plan(&self) -> Option<&str> {
        let inquiry = self.wanted.question()?.inquiry.as_ref()?;
        Some(&inquiry.plan.as_ref()?.text)
    }

    /// The person has changed the plan: they are asked about what they have made of it. `None`: there is nothing to ask about.
    pub(crate) fn change_plan(&mut self, text: &str) -> Option<Answer> {
        let text = text.trim_end();
        let is_another = !text.trim().is_empty() && self.plan().is_some_and(|plan| plan.trim_end() != text);
        is_another.then(|| self.answer(Decision::ApproveChanged(json!({ "plan": text }))))
    }

    pub(super) fn press_inquiry(&mut self, action: Action) -> Pressed {
        let Some(Asking { question, .. }) = self.asking() else { return Pressed::Not };
        let (options, several) = (question.options.len(), question.several);
        match action {
            Action::Complete => self.begin(Typed::Answer, ""),
            Action::Send if !self.given.marked.is_empty() => {
                let mut marked = std::mem::take(&mut self.given.marked);
                marked.sort_unstable();
                let words =
                    marked.iter().filter_map(|at| Some(self.asking()?.question.options.get(*at)?.label.clone()));
                let words = words.collect();
                self.take(words)
            }
            Action::Send => {
                let default = question.default.clone();
                // Where there is nothing to choose, it begins the answer.
                if default.is_empty() { self.begin(Typed::Answer, "") } else { self.take(default) }
            }
            Action::Insert('v') if self.is_about_a_plan() => {
                self.was_viewed = true;
                Pressed::Details
            }
            Action::Insert('e') if self.is_about_a_plan() => Pressed::EditPlan,
            // What did not fit is looked at before it is approved.
            Action::Insert('1'..='9') if self.is_about_a_plan() && self.is_cut.get() && !self.was_viewed => {
                self.was_viewed = true;
                Pressed::Details
            }
            Action::Insert('n') => self.take(Vec::new()),
            Action::Insert(digit @ '1'..='9') => {
                let at = digit.to_digit(10).and_then(|number| usize::try_from(number).ok()).unwrap_or(1) - 1;
                if at >= options {
                    return Pressed::Not;
                }
                if several {
                    match self.given.marked.iter().position(|marked| *marked == at) {
                        Some(marked) => drop(self.given.marked.swap_remove(marked)),
                        None => self.given.marked.push(at),
                    }
                    return Pressed::Taken;
                }
                let words = question.options.iter().skip(at).take(1).map(|option| option.label.clone()).collect();
                self.take(words)
            }
            _ => Pressed::Not,
        }
    }

    /// What was typed is the answer, as far as it can be one.
    pub(super) fn take_words(&mut self, line: &str) -> Option<Answer> {
        match self.asking()?.question.read(line) {
            Ok(words) => match self.take(words) {
                Pressed::Answer(answer) => Some(answer),
                _ => None,
            },
            Err(slip) => {
                self.given.slip = Some(slip);
                self.begin(Typed::Answer, line);
                None
            }
        }
    }

    /// Takes the answer to one question; with the last of them, all are answered.
    fn take(&mut self, words: Vec<String>) -> Pressed {
        self.given.answers.push(words);
        (self.given.marked, self.given.slip) = (Vec::new(), None);
        if self.asking().is_some() {
            // The next one has to be there for a while, too.
            self.shown_ms = None;
            return Pressed::Taken;
        }
        let answers = std::mem::take(&mut self.given.answers);
        Pressed::Answer(self.answer(Decision::Answered(answers)))
    }
}

impl Asking<'_> {
    pub(super) fn title(&self, theme: &Theme) -> Line<'static> {
        let header = if self.question.header.is_empty() { "The model asks" } else { &self.question.header };
        let mut spans = vec![Span::styled(blocks::one_line(header), theme.strong)];
        if self.of > 1 {
            spans.push(Span::styled(format!(" ({} of {})", self.at + 1, self.of), theme.dim));
        }
        Line::from(spans)
    }

    pub(super) fn body(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let lines = text::clean_lines(&self.question.question);
        let mut rows: Vec<Line<'static>> =
            lines.iter().flat_map(|line| text::wrap(&Line::from(line.clone()), columns, 0)).collect();
        for (at, option) in self.question.options.iter().enumerate() {
            let mark = match (self.question.several, self.marked.contains(&at)) {
                (false, _) => "",
                (true, true) => "[x] ",
                (true, false) => "[ ] ",
            };
            let mut spans = vec![
                Span::styled(format!("{} ", at + 1), theme.accent),
                Span::raw(format!("{mark}{}", blocks::one_line(&option.label))),
            ];
            if !option.description.is_empty() {
                spans.push(Span::styled(format!("  {}", blocks::one_line(&option.description)), theme.dim));
            }
            rows.extend(text::wrap(&Line::from(spans), columns, 2));
        }
        rows
    }

    /// `1-3 choose   Enter SQLite   n no answer`.
    pub(super) fn offered(&self, theme: &Theme) -> Line<'static> {
        let mut spans = Vec::new();
        let (options, several) = (self.question.options.len(), self.question.several);
        match options {
            0 => {}
            1 => offer("1", if several { "mark" } else { "choose" }, "", theme, &mut spans),
            many => offer(&format!("1-{many}"), if several { "mark" } else { "choose" }, "", theme, &mut spans),
        }
        match (self.marked.is_empty(), self.question.default.as_slice()) {
            (false, _) => offer("Enter", "these", "", theme, &mut spans),
            (true, []) => offer("Enter", "answer in words", "", theme, &mut spans),
            (true, default) => offer("Enter", &default.join(", "), "", theme, &mut spans),
        }
        offer("n", "no answer", "", theme, &mut spans);
        Line::from(spans)
    }
}
