//! A question to the person: how it is drawn, and what a key answers.
//!
//! A key counts as an answer only when the question has been on the screen for a while and nobody was typing: what was
//! typed before it appeared was not meant for it. Questions of the model's own are answered one by one, by keys or in words
//! ([`inquiry`]).

mod inquiry;

use crate::blocks;
use crate::keys::Action;
use crate::prompt::Prompt;
use crate::theme::Theme;
use crate::{diff, markdown, text};
use piton_core::client::{Answer, Wanted};
use piton_core::hidden;
use piton_core::question::{About, Choice, Decision, Fact, Lasting, Mark, Question, QuestionBlock};
use ratatui_core::style::Modifier;
use ratatui_core::text::{Line, Span};
use serde_json::Value;
use std::cell::Cell;

/// How long it must have been on the screen, and nobody have typed, in milliseconds.
pub(crate) const GUARD_MS: u64 = 300;
/// Rows of a change, text or data that are shown in the question; the key for details shows all of it.
const MOST_ROWS: usize = 24;

/// The question on the screen.
#[derive(Debug)]
pub(crate) struct Asked {
    wanted: Wanted,
    /// Since when it is on the screen; `None`: it is not yet.
    shown_ms: Option<u64>,
    /// What is being typed for it.
    typing: Option<Typing>,
    /// Whether the person wants "always", and is asked for how long.
    how_long: bool,
    /// Whether it was answered, and nobody has said yet that it counts.
    is_answered: bool,
    /// Whether not all of it fitted the screen, and whether it was looked at whole since.
    is_cut: Cell<bool>,
    was_viewed: bool,
    /// What was answered so far, where it is questions of the model's own.
    given: inquiry::Given,
}

/// How long "always" can be: the key, the decision, in words.
const HOW_LONG: [(char, Decision, &str); 3] = [
    ('s', Decision::ApproveForSession, "in this session"),
    ('f', Decision::ApproveLasting(Lasting::Folder), "in this folder, always"),
    ('e', Decision::ApproveLasting(Lasting::Everywhere), "everywhere, always"),
];

#[derive(Debug)]
struct Typing {
    what: Typed,
    prompt: Prompt,
}

#[derive(Debug, Clone, PartialEq)]
enum Typed {
    /// Why not, or what to do instead.
    Words,
    /// The answer to a question of the model's own.
    Answer,
    /// The text that takes the place of this field of the input.
    Field(&'static str, Value),
}

/// What a key came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Pressed {
    /// It was not for the question.
    Not,
    /// It was taken.
    Taken,
    /// The whole of it is to be shown.
    Details,
    /// The plan that it is about is to be edited.
    EditPlan,
    /// That is the answer.
    Answer(Answer),
}

impl Asked {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            shown_ms: None,
            typing: None,
            how_long: false,
            is_answered: false,
            is_cut: Cell::new(false),
            was_viewed: false,
            given: inquiry::Given::default(),
        }
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// The answer does not count: it is asked as before.
    pub(crate) fn ask_again(&mut self) {
        (self.is_answered, self.how_long, self.shown_ms) = (false, false, None);
        self.given = inquiry::Given::default();
    }

    /// What was being typed for it, to be put elsewhere.
    pub(crate) fn words(&mut self) -> Option<String> {
        let Typing { what: Typed::Words | Typed::Answer, mut prompt } = self.typing.take()? else { return None };
        Some(prompt.take().text).filter(|words| !words.trim().is_empty())
    }

    /// That is the answer. It stays, out of sight, until it counts.
    fn answer(&mut self, decision: Decision) -> Answer {
        self.is_answered = true;
        self.wanted.answer(decision)
    }

    /// It is on the screen from now on.
    pub(crate) fn was_shown(&mut self, now_ms: u64) {
        self.shown_ms.get_or_insert(now_ms);
    }

    /// For how long it has been on the screen, in milliseconds.
    pub(crate) fn shown_for(&self, now_ms: u64) -> u64 {
        self.shown_ms.map_or(0, |shown| now_ms.saturating_sub(shown))
    }

    /// What is typed for it, if anything is.
    pub(crate) fn typing(&mut self) -> Option<&mut Prompt> {
        self.typing.as_mut().map(|typing| &mut typing.prompt)
    }

    /// Whether something is typed for it.
    pub(crate) fn is_typed(&self) -> bool {
        self.typing.is_some()
    }

    /// The words that are typed for it, if any are.
    pub(crate) fn typed_words(&self) -> Option<String> {
        self.typing.as_ref().map(|typing| typing.prompt.shown().to_owned())
    }

    pub(crate) fn stop_typing(&mut self) -> bool {
        self.typing.take().is_some()
    }

    /// What was typed is the answer.
    pub(crate) fn typed(&mut self) -> Option<Answer> {
        let Typing { what, mut prompt } = self.typing.take()?;
        let words = prompt.take().text;
        let decision = match what {
            Typed::Words => Decision::Deny(Some(words.trim().to_owned()).filter(|words| !words.is_empty())),
            Typed::Answer => return self.take_words(&words),
            Typed::Field(field, mut input) => {
                input.as_object_mut()?.insert(field.to_owned(), Value::String(words));
                Decision::ApproveChanged(input)
            }
        };
        Some(self.answer(decision))
    }

    /// What a key means, pressed so long after the one before. `input` is what the call would run with.
    pub(crate) fn press(&mut self, action: Action, now_ms: u64, idle_ms: u64, input: Option<&Value>) -> Pressed {
        let Some(question) = self.wanted.question() else { return Pressed::Not };
        if self.how_long {
            return self.press_how_long(action);
        }
        let is_meant = self.shown_for(now_ms) >= GUARD_MS && idle_ms >= GUARD_MS;
        if !is_meant {
            return Pressed::Not;
        }
        if question.inquiry.is_some() {
            return self.press_inquiry(action);
        }
        match action {
            Action::Complete => self.begin(Typed::Words, ""),
            Action::Insert('v') => {
                self.was_viewed = true;
                Pressed::Details
            }
            Action::Insert('e') => self.edit(input),
            Action::Insert(letter) => {
                let letter = letter.to_ascii_lowercase();
                let Some(choice) = first_choices(question).find(|choice| choice.name.starts_with(letter)) else {
                    return Pressed::Not;
                };
                match choice.decision.clone() {
                    // What did not fit is looked at before it is allowed.
                    decision if !matches!(decision, Decision::Deny(_)) && self.is_cut.get() && !self.was_viewed => {
                        self.was_viewed = true;
                        Pressed::Details
                    }
                    Decision::Deny(None) => self.begin(Typed::Words, ""),
                    Decision::ApproveForSession if lasts(question) => {
                        self.how_long = true;
                        Pressed::Taken
                    }
                    decision => Pressed::Answer(self.answer(decision)),
                }
            }
            _ => Pressed::Not,
        }
    }

    /// The person is choosing: every key is for that.
    fn press_how_long(&mut self, action: Action) -> Pressed {
        let offered = |decision: &Decision| {
            let question = self.wanted.question();
            question.is_some_and(|question| question.choices.iter().any(|choice| choice.decision == *decision))
        };
        let Action::Insert(letter) = action else {
            self.how_long = false;
            return Pressed::Taken;
        };
        let chosen = HOW_LONG.into_iter().find(|(key, decision, _)| *key == letter && offered(decision));
        chosen.map_or(Pressed::Taken, |(_, decision, _)| Pressed::Answer(self.answer(decision)))
    }

    /// The command, or what else is one text in the input, is changed before it runs.
    fn edit(&mut self, input: Option<&Value>) -> Pressed {
        let (Some((field, now)), Some(input)) = (input.and_then(editable), input) else { return Pressed::Not };
        let now = now.to_owned();
        self.begin(Typed::Field(field, input.clone()), &now)
    }

    fn begin(&mut self, what: Typed, text: &str) -> Pressed {
        let mut prompt = Prompt::default();
        prompt.set(text);
        self.typing = Some(Typing { what, prompt });
        Pressed::Taken
    }

    /// All of what it is about, for a page.
    pub(crate) fn details(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let Some(question) = self.wanted.question() else { return Vec::new() };
        let plan = plan(question, columns, theme);
        if plan.is_empty() { body(question, columns, theme, usize::MAX) } else { plan }
    }

    /// Its rows, so many at most, and where the cursor stands in them while something is typed for it. `others`: how many
    /// wait behind it. `input`: what the call would run with.
    pub(crate) fn rows(
        &self,
        columns: usize,
        most: usize,
        theme: &Theme,
        others: usize,
        input: Option<&Value>,
    ) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
        let Some(question) = self.wanted.question() else { return (Vec::new(), None) };
        let within = columns.saturating_sub(2).max(1);
        let (title, whole) = match self.asking() {
            Some(asking) => {
                let mut rows = plan(question, within, theme);
                rows.extend(asking.body(within, theme));
                (asking.title(theme), rows)
            }
            None => {
                let title = Span::styled(blocks::one_line(&question.title), theme.strong);
                (Line::from(title), body(question, within, theme, MOST_ROWS))
            }
        };
        let mut rows = vec![framed("╭ ", title, theme)];
        // The title, a row or two of choices and the hints stand around it.
        let fitting = most.saturating_sub(5).max(1);
        self.is_cut.set(whole.len() > fitting);
        rows.extend(cut(whole, fitting, theme).into_iter().map(|row| framed("│ ", row, theme)));
        let mut cursor = None;
        if let Some(typing) = &self.typing {
            let (lines, (row, column)) = typing.prompt.lines(within.saturating_sub(2).max(1), theme);
            cursor = Some((rows.len() + row, column + 4));
            for (number, line) in lines.into_iter().enumerate() {
                let sign = if number == 0 { "› " } else { "  " };
                let mut spans = vec![Span::styled(sign, theme.accent)];
                spans.extend(line.spans);
                rows.push(framed("│ ", Line::from(spans), theme));
            }
        } else {
            let offered = match self.asking() {
                Some(asking) => asking.offered(theme),
                None if self.how_long => how_long(question, theme),
                None => choices(question, input.and_then(editable).is_some(), theme),
            };
            rows.extend(text::wrap(&offered, within, 2).into_iter().map(|row| framed("│ ", row, theme)));
        }
        let mut hints = vec![match &self.typing {
            None if self.is_about_a_plan() => format!("v all of it · e edit it · {}", self.given.hint()),
            None if question.inquiry.is_some() => self.given.hint(),
            None if self.how_long => "Esc back".to_owned(),
            None => "Tab: no, and what to do instead · v all of it · Esc stop the turn".to_owned(),
            Some(Typing { what: Typed::Answer, .. }) => "Enter: that is the answer · Esc back".to_owned(),
            Some(Typing { what: Typed::Words, .. }) => "Enter: no, with these words · Esc back".to_owned(),
            Some(Typing { what: Typed::Field(field, _), .. }) => format!("Enter: run it with this {field} · Esc back"),
        }];
        hints.extend((others > 0).then(|| format!("{} more", blocks::plural(others as u64, "question"))));
        let hints = text::fit(&Line::from(Span::styled(hints.join(" · "), theme.dim)), within);
        rows.push(framed("╰ ", hints, theme));
        (rows.iter().map(|row| text::fit(row, columns)).collect(), cursor)
    }
}

/// The text of an input that can be changed before it runs, with the name of its field.
fn editable(input: &Value) -> Option<(&'static str, &str)> {
    const FIELDS: [&str; 3] = ["command", "url", "content"];
    FIELDS.into_iter().find_map(|field| Some((field, input.get(field)?.as_str()?)))
}

fn framed(frame: &'static str, row: Line<'static>, theme: &Theme) -> Line<'static> {
    let mut spans = vec![Span::styled(frame, theme.warn)];
    spans.extend(row.spans);
    Line::from(spans)
}

/// Whether "always" can be for more than the session.
fn lasts(question: &Question) -> bool {
    question.choices.iter().any(|choice| matches!(choice.decision, Decision::ApproveLasting(_)))
}

/// The choices that are offered at once. How long "always" is comes behind it.
fn first_choices(question: &Question) -> impl Iterator<Item = &Choice> {
    question.choices.iter().filter(|choice| !matches!(choice.decision, Decision::ApproveLasting(_)))
}

/// `y yes   a always bash(git push *)   e edit   n no`.
fn choices(question: &Question, is_editable: bool, theme: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for choice in first_choices(question) {
        let is_always = choice.decision == Decision::ApproveForSession && !choice.grants.is_empty();
        let rules = || choice.grants.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let label = if is_always && lasts(question) { rules() } else { choice.label.clone() };
        if choice.decision == Decision::Deny(None) && is_editable {
            offer("e", "edit", "", theme, &mut spans);
        }
        let key: String = choice.name.chars().take(1).collect();
        offer(&key, &choice.name, &label, theme, &mut spans);
    }
    Line::from(spans)
}

/// `s in this session   f in this folder, always   e everywhere, always`.
fn how_long(question: &Question, theme: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (key, decision, words) in HOW_LONG {
        if question.choices.iter().any(|choice| choice.decision == decision) {
            offer(&key.to_string(), words, "", theme, &mut spans);
        }
    }
    Line::from(spans)
}

fn offer(key: &str, name: &str, label: &str, theme: &Theme, spans: &mut Vec<Span<'static>>) {
    if !spans.is_empty() {
        spans.push(Span::raw("   "));
    }
    spans.push(Span::styled(key.to_owned(), theme.accent.add_modifier(Modifier::BOLD)));
    spans.push(Span::raw(format!(" {}", blocks::one_line(name))));
    if !label.is_empty() {
        spans.push(Span::styled(format!(" {}", blocks::one_line(label)), theme.dim));
    }
}

/// The plan that it is about, and where that is kept.
fn plan(question: &Question, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(plan) = question.inquiry.as_ref().and_then(|inquiry| inquiry.plan.as_deref()) else { return Vec::new() };
    let mut rows = markdown::render(&plan.text, columns, theme);
    let kept = plan.file.iter().map(|file| Line::styled(format!("kept in {}", blocks::one_line(file)), theme.dim));
    rows.extend(kept.flat_map(|line| text::wrap(&line, columns, 2)));
    rows.push(Line::default());
    rows
}

fn body(question: &Question, columns: usize, theme: &Theme, most: usize) -> Vec<Line<'static>> {
    let plain = |words: &str| {
        let lines = text::clean_lines(words);
        lines.iter().flat_map(|line| text::wrap(&Line::from(line.clone()), columns, 0)).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for block in &question.body {
        match block {
            QuestionBlock::Text { text } | QuestionBlock::Note { text } => rows.extend(cut(plain(text), most, theme)),
            QuestionBlock::Json { json } => rows.extend(cut(plain(json), most, theme)),
            // A command is always shown whole.
            QuestionBlock::Command { command, marks } => {
                rows.extend(script(command, marks, theme).iter().flat_map(|line| text::wrap(line, columns, 2)));
            }
            QuestionBlock::Facts { facts } => {
                rows.extend(facts.iter().flat_map(|fact| text::wrap(&told(fact, theme), columns, 2)));
            }
            QuestionBlock::Diff { path, unified } => {
                rows.extend(cut(diff::lines(unified, path, columns, theme), most, theme));
            }
        }
    }
    rows
}

fn cut(mut rows: Vec<Line<'static>>, most: usize, theme: &Theme) -> Vec<Line<'static>> {
    let more = rows.len().saturating_sub(most);
    if more > 0 {
        let mark = format!("… {} (v shows all) …", blocks::plural(more as u64, "more row"));
        rows.splice(most / 2..most / 2 + more, [Line::from(Span::styled(mark, theme.warn))]);
    }
    rows
}

/// A script as it will run: what asked is marked, and what misleads is there to be seen.
fn script(command: &str, marks: &[Mark], theme: &Theme) -> Vec<Line<'static>> {
    let marked = theme.strong.add_modifier(Modifier::UNDERLINED);
    let inside = |mark: &&Mark| command.get(mark.from..mark.to).is_some();
    let mut pieces = Vec::new();
    let mut at = 0;
    for Mark { from, to } in marks.iter().filter(inside) {
        pieces.push((command.get(at..*from).unwrap_or_default(), theme.text));
        pieces.push((command.get(*from..*to).unwrap_or_default(), marked));
        at = *to;
    }
    pieces.push((command.get(at..).unwrap_or_default(), theme.text));
    let mut lines = vec![Line::default()];
    for (piece, style) in pieces {
        for (number, words) in hidden::plainly(piece).split('\n').enumerate() {
            if number > 0 {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut().filter(|_| !words.is_empty()) {
                line.spans.push(Span::styled(words.to_owned(), style));
            }
        }
    }
    lines
}

/// A fact in a line.
fn told(fact: &Fact, theme: &Theme) -> Line<'static> {
    let about = match fact.about {
        About::Asked => "why ",
        About::Folder => "in ",
        About::Link => "link ",
        About::Place => "runs ",
        About::Reach => "access ",
        About::Hidden => "invisible ",
    };
    Line::from(vec![Span::styled(about, theme.dim), Span::raw(hidden::visible_line(&fact.text))])
}
