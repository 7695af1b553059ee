//! What the screen shall show: rows that are final, and the tail below them.

use super::{Face, Facts, Input};
use crate::blocks::{self, Sketch};
use crate::inline::Frame;
use crate::keys::Action;
use crate::picker;
use crate::question::GUARD_MS;
use crate::signals::{Doing, Standing};
use crate::text;
use piton_core::event::Delivery;
use piton_core::permission::PermissionMode;
use piton_core::story::{Block, Body};
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// What is shown in the place of the spinner where nothing shall move.
const STILL: char = '…';
/// Messages that wait, each in a row; how many more wait stands in the last.
const MOST_QUEUED: usize = 5;
/// Cells of the picture of how full the context is.
const CELLS: u64 = 6;

/// How much a part of the status line matters, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Danger,
    ToDo,
    Cost,
    AtWork,
    Who,
    Context,
    Help,
    Cache,
}

/// The parts that fit, in their order. The one that matters most stays, if only as far as it fits.
fn fitting(mut parts: Vec<(Rank, String)>, columns: usize) -> Vec<String> {
    let width = |parts: &[(Rank, String)]| parts.iter().map(|(_, words)| text::width(words)).sum::<usize>();
    while parts.len() > 1 && width(&parts) > columns {
        let least = parts.iter().map(|(rank, _)| *rank).max();
        let at = parts.iter().rposition(|(rank, _)| Some(*rank) == least);
        at.map(|at| parts.remove(at));
    }
    parts.into_iter().map(|(_, words)| words).collect()
}

impl Face {
    /// What the screen shall show now. Rows that became final are handed out once.
    pub fn frame(&mut self, now_ms: u64) -> Frame {
        self.now_ms = self.now_ms.max(now_ms);
        self.look();
        let (columns, rows) = self.size;
        let mut commit = std::mem::take(&mut self.notes);
        commit.extend(self.transcript.commit(columns, &self.theme));
        let (foot, cursor) = self.foot();
        // What streams has what is left of two thirds of the screen, and never less than a row where there is one.
        let most = (rows * 2 / 3).saturating_sub(foot.len()).max(usize::from(rows > foot.len()));
        let mut tail =
            self.transcript.open(columns, &self.theme, (self.spinner(), self.typed_into.as_ref()), self.now_ms);
        let over = tail.len().saturating_sub(most);
        tail.drain(..over);
        let above = tail.len();
        tail.extend(foot);
        let now_ms = self.now_ms;
        if let Some(asked) = self.asked_mut() {
            asked.was_shown(now_ms);
        }
        let fits = |line: Line<'static>| text::fit(&line, columns);
        Frame {
            commit: commit.into_iter().map(fits).collect(),
            tail: tail.into_iter().map(fits).collect(),
            cursor: cursor.map(|(row, column)| (row + above, column.min(columns.saturating_sub(1)))),
        }
    }

    /// The last frame: what was open is final, as far as it came, and there is no tail.
    pub fn last_frame(&mut self, now_ms: u64) -> Frame {
        self.now_ms = self.now_ms.max(now_ms);
        let (columns, _) = self.size;
        self.close();
        let commit = std::mem::take(&mut self.notes).into_iter().map(|line| text::fit(&line, columns)).collect();
        Frame { commit, ..Frame::default() }
    }

    /// The rows of the page that has the whole screen, if one has.
    pub fn page(&mut self) -> Option<Vec<Line<'static>>> {
        let (columns, rows) = self.size;
        match (self.help.as_mut().or(self.page.as_mut()), &mut self.review, &mut self.rewind) {
            (Some(page), ..) => Some(page.screen(columns, rows, &self.theme)),
            (None, Some(review), _) => Some(review.screen(columns, rows, &self.theme)),
            (None, None, Some(rewind)) => Some(rewind.screen(columns, rows, &self.theme)),
            (None, None, None) => Some(self.trusting.as_mut()?.screen(columns, rows, &self.theme)),
        }
    }

    /// What goes on, for somebody who looks elsewhere.
    pub fn standing(&self) -> Standing {
        let title = &self.transcript.story().session().title;
        let folder = self.facts.as_ref().map(|facts| facts.folder.as_str()).unwrap_or_default();
        let about = if title.is_empty() { folder } else { title }.to_owned();
        let doing = match self.asked() {
            Some(asked) => {
                Doing::Asks(asked.wanted().question().map(|question| question.title.clone()).unwrap_or_default())
            }
            None if self.is_busy() => Doing::Works,
            None => Doing::Rests,
        };
        Standing { about, doing }
    }

    fn spinner(&self) -> char {
        if self.is_still { STILL } else { SPINNER[self.spins % SPINNER.len()] }
    }

    /// Everything below what streams: what waits, a question, the prompt, the status; and the cursor in it. All of it, with a row of what
    /// streams, has two thirds of the screen; only a question may have more, which must be seen whole.
    fn foot(&self) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
        let (columns, screen) = self.size;
        let most = screen * 2 / 3;
        let (below, cursor) = self.entry(most);
        let mut asked = (Vec::new(), None);
        if let Some(question) = self.asked() {
            let room = screen.saturating_sub(below.len()).max(4);
            let input = self.transcript.input_of(&question.wanted().subject);
            asked = question.rows(columns, room, &self.theme, self.questions.len() - 1, input);
        }
        let (question, in_question) = asked;
        let mut rows = self.beside(most.saturating_sub(below.len() + question.len() + 1));
        let in_question = in_question.map(|(row, column)| (rows.len() + row, column));
        rows.extend(question);
        let cursor = cursor.map(|(row, column)| (rows.len() + row, column));
        rows.extend(below);
        // In a list, what is typed is the list's.
        (rows, if self.picker.is_some() { cursor } else { in_question.or(cursor) })
    }

    /// What is worked on beside the conversation, and what waits: so many rows at most, and rather what waits.
    fn beside(&self, most: usize) -> Vec<Line<'static>> {
        let queue = self.queue(most.min(MOST_QUEUED));
        let agents = self.shortened(self.agent_rows(), most - queue.len());
        let mut rows = Vec::new();
        if self.shows_panel {
            let sketch = Sketch { columns: self.size.0, theme: &self.theme, folds: true, typed_into: None };
            rows = self.shortened(sketch.todos(&self.todos), most - queue.len() - agents.len());
        }
        rows.extend(agents);
        rows.extend(queue);
        rows
    }

    /// The first of these rows, and how many more there are.
    fn shortened(&self, mut rows: Vec<Line<'static>>, most: usize) -> Vec<Line<'static>> {
        if rows.len() > most {
            let more = rows.len() - most.saturating_sub(1);
            rows.truncate(most.saturating_sub(1));
            let words = format!("  … {}", blocks::plural(more as u64, "more row"));
            rows.extend((most > 0).then(|| Line::styled(words, self.theme.dim)));
        }
        rows
    }

    /// Where something is typed, with what is offered for it, and the status below: so many rows at most, where there are five.
    fn entry(&self, most: usize) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
        let (columns, screen) = self.size;
        let theme = &self.theme;
        let mut status = self.status();
        status.truncate(most.saturating_sub(4).max(1));
        // A row of what streams stands above it.
        let room = most.saturating_sub(status.len() + 1);
        if let Some(picker) = &self.picker {
            let mut rows = picker.rows(columns, room, theme);
            rows.extend(status);
            return (rows, Some((0, picker.cursor())));
        }
        let mut rows = Vec::new();
        // On the smallest screens something else is wanted more than a rule.
        if room > 1 {
            rows.push(Line::styled("─".repeat(columns), theme.dim));
        }
        let high = (screen / 3).min(room.saturating_sub(rows.len())).max(1);
        let window = self.prompt.window(columns.saturating_sub(2).max(1), high, theme);
        let (row, column) = window.cursor;
        let cursor = (rows.len() + row, column + 2);
        let first = if self.is_shell() { "! " } else { "› " };
        for (number, line) in window.lines.into_iter().enumerate() {
            let sign = if number == 0 { first } else { "  " };
            let mut spans = vec![Span::styled(sign, theme.accent)];
            spans.extend(line.spans);
            rows.push(Line::from(spans));
        }
        let offered = room.saturating_sub(rows.len());
        let from = (self.menu.chosen + 1).saturating_sub(offered);
        for (number, item) in self.menu.items.iter().enumerate().skip(from).take(offered) {
            rows.push(picker::row(item, number == self.menu.chosen, columns, theme));
        }
        rows.extend(status);
        (rows, Some(cursor))
    }

    /// What waits, in the order in which the model will read it, each with when; so many rows at most.
    fn queue(&self, most: usize) -> Vec<Line<'static>> {
        let waiting = self.transcript.waiting();
        let mut turns = 0;
        let row = |block: &&Block| {
            let Body::User { text, delivery, .. } = &block.body else { return Line::default() };
            let when = match delivery {
                _ if !self.is_busy() => "waits for your next message".to_owned(),
                Delivery::Steer => "at the next step".to_owned(),
                Delivery::FollowUp => {
                    turns += 1;
                    if turns == 1 { "next turn".to_owned() } else { format!("in {turns} turns") }
                }
            };
            Line::styled(format!("  ↳ {when}: {}", blocks::first_line(text)), self.theme.dim)
        };
        let mut rows: Vec<Line<'static>> = waiting.iter().map(row).collect();
        let is_cut = rows.len() > most;
        if is_cut {
            rows.truncate(most.saturating_sub(1));
            let more = waiting.len() - rows.len();
            let words =
                if rows.is_empty() { format!("  ↳ {more} wait") } else { format!("  ↳ and {more} more wait") };
            rows.extend((most > 0).then(|| Line::styled(words, self.theme.dim)));
        }
        if let Some(last) = rows.last_mut() {
            let it = if is_cut { "the last" } else { "it" };
            let back = format!("   {} takes {it} back", self.keys.name_of(Action::TakeBack));
            let room = self.size.0.saturating_sub(text::width(&back));
            *last = text::fit(last, room);
            last.spans.push(Span::styled(back, self.theme.dim));
        }
        rows
    }

    fn is_shell(&self) -> bool {
        self.prompt.shown().starts_with('!')
    }

    /// `ask · sonnet-5.5 · 41k/200k ▓▓░░░░ 20 % · cache 96 % · $0.12 of $2.00 · ? keys`.
    fn status(&self) -> Vec<Line<'static>> {
        let theme = &self.theme;
        if self.typed_into.is_some() {
            return vec![Line::styled("your keys go to the command · Esc or Ctrl-\\ leaves it", theme.warn)];
        }
        if let Some(hint) = &self.hint {
            return vec![Line::styled(hint.clone(), theme.warn)];
        }
        let Some(facts) = &self.facts else { return vec![Line::styled("starting …", theme.dim)] };
        if !self.status_lines.is_empty() {
            return self.status_by_script(facts);
        }
        vec![self.own_status(facts)]
    }

    /// What the person's script says. The permission mode stands before it, and that nothing holds commands: what they mean is not
    /// for a script to hide.
    fn status_by_script(&self, facts: &Facts) -> Vec<Line<'static>> {
        let line = |words: &String| Line::styled(text::cut(&blocks::one_line(words), self.size.0), self.theme.dim);
        let mut lines: Vec<Line<'static>> = self.status_lines.iter().map(line).collect();
        let behind = if facts.is_unconfined() { " · unconfined · " } else { " · " };
        let mode =
            [Span::styled(facts.mode.to_string(), self.style_of(facts.mode)), Span::styled(behind, self.theme.dim)];
        lines[0].spans.splice(0..0, mode);
        lines
    }

    fn style_of(&self, mode: PermissionMode) -> Style {
        match mode {
            PermissionMode::Ask => self.theme.good,
            PermissionMode::AcceptEdits | PermissionMode::Plan => self.theme.accent,
            PermissionMode::Auto => self.theme.warn,
        }
    }

    fn own_status(&self, facts: &Facts) -> Line<'static> {
        let mode = facts.mode.to_string();
        let room = self.size.0.saturating_sub(text::width(&mode));
        let mut spans = vec![Span::styled(mode, self.style_of(facts.mode))];
        let parts = fitting(self.status_parts(facts), room);
        spans.extend(parts.into_iter().map(|words| Span::styled(words, self.theme.dim)));
        Line::from(spans)
    }

    /// What stands behind the mode, each with how soon it is left out where the line is too short: the last of [`Rank`] first.
    fn status_parts(&self, facts: &Facts) -> Vec<(Rank, String)> {
        let mut parts = Vec::new();
        let mut add = |rank: Rank, words: String| parts.push((rank, format!(" · {words}")));
        // Who plans is there by the mode's name.
        if !facts.agent.is_empty() && facts.agent != facts.mode.to_string() {
            add(Rank::Who, blocks::one_line(&facts.agent));
        }
        if facts.model.is_empty() {
            add(Rank::ToDo, "no model yet: /model".to_owned());
        } else {
            let (_, name) = facts.model.split_once('/').unwrap_or(("", &facts.model));
            add(Rank::Who, blocks::one_line(name));
        }
        if self.meter.context_tokens > 0 {
            add(Rank::Context, full(self.meter.context_tokens, facts.window));
        }
        if let Some(percent) = self.meter.cache_percent {
            add(Rank::Cache, format!("cache {percent} %"));
        }
        let spent = self.transcript.story().session().cost_micros.filter(|micros| *micros > 0);
        if let Some(spent) = spent.map(blocks::dollars) {
            let budget = facts.budget_micros.map(|budget| format!(" of {}", blocks::dollars(budget)));
            add(Rank::Cost, spent + &budget.unwrap_or_default());
        }
        if facts.is_unconfined() {
            add(Rank::Danger, "unconfined".to_owned());
        }
        match self.tasks.subagents_at_work().count() {
            0 => {}
            agents => add(Rank::AtWork, blocks::plural(agents as u64, "agent")),
        }
        match self.tasks.commands().count() {
            0 => {}
            commands => add(Rank::AtWork, format!("{commands} in background")),
        }
        if self.leaves_after {
            add(Rank::ToDo, "leaves when the turn is over, Esc stops".to_owned());
        } else if self.is_busy() {
            add(Rank::ToDo, "Esc stops".to_owned());
        } else if self.transcript.is_interrupted() {
            add(Rank::ToDo, "interrupted: /continue resumes, Esc ends the turn".to_owned());
        } else {
            add(Rank::Help, "? keys".to_owned());
        }
        parts
    }

    /// Takes notice of how the next turn will be run; the first time, that is said.
    pub(super) fn introduce(&mut self, facts: Facts) {
        if !self.is_introduced && !facts.model.is_empty() {
            self.is_introduced = true;
            let theme = &self.theme;
            let about = [facts.folder.as_str(), &facts.sandbox].map(blocks::one_line);
            let about: Vec<_> = about.into_iter().filter(|words| !words.is_empty()).collect();
            let about = about.join(" · ");
            let line = Line::from(vec![
                Span::styled("piton", theme.strong),
                Span::styled(
                    format!("  {} · {about} · mode {}", blocks::one_line(&facts.model), facts.mode),
                    theme.dim,
                ),
            ]);
            self.notes.extend(text::wrap(&line, self.size.0, 2));
        }
        if self.facts.as_ref().is_none_or(|before| before.workspace != facts.workspace) {
            self.at = None;
            self.history.set_folder(&facts.workspace.to_string_lossy());
        }
        self.facts = Some(facts);
    }
}

/// `41k/200k ▓▓░░░░ 20 %`.
fn full(tokens: u64, window: Option<u64>) -> String {
    let Some(window) = window.filter(|window| *window > 0) else { return format!("{} tokens", blocks::short(tokens)) };
    let percent = (tokens * 100 / window).min(100);
    let filled = (percent * CELLS).div_ceil(100).min(CELLS);
    let cells: String = (0..CELLS).map(|cell| if cell < filled { '▓' } else { '░' }).collect();
    format!("{}/{} {cells} {percent} %", blocks::short(tokens), blocks::short(window))
}

impl super::Asked {
    /// Whether it has been on the screen for long enough to be answered.
    pub(super) fn is_ready(&self, now_ms: u64) -> bool {
        self.shown_for(now_ms) >= GUARD_MS
    }
}

impl Input {
    /// Whether it should be on the screen at once, and not with the next frame in its turn.
    pub fn is_of_person(&self) -> bool {
        matches!(
            self,
            Self::Key(_)
                | Self::Paste(_)
                | Self::Pasted(_)
                | Self::Picture(_)
                | Self::Dropped(..)
                | Self::Resize(..)
                | Self::Edited(_)
        )
    }
}
