//! The prompt as in vi: a normal and a visual mode beside the one that types.
//!
//! Keys gather until they are a command ([`command::parse`]); a command is run on the text. What `.` does again is the last
//! command that changed something, with what was typed after it; what was pasted meanwhile is not. There is one register.
//! In normal mode Up, Down, `k` and `j` go by rows as they are drawn and hand the edges to the caller, as everywhere.

mod change;
mod command;
mod motion;
#[cfg(test)]
mod tests;

use super::buffer::Fragment;
use super::{Handled, Last, Prompt};
use crate::keys::Action;
use command::{Command, Direction, Extent, Find, Motion, Object, Operator, Parsed, Target, What, Words};
use motion::{Span, line_end, line_start};
use std::ops::Range;

/// In which mode the prompt is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Keys type.
    #[default]
    Insert,
    /// Keys are commands.
    Normal,
    /// Text is selected.
    Visual,
    /// Lines are selected.
    VisualLines,
}

/// What vi remembers from key to key.
#[derive(Debug, Clone, Default)]
pub(super) struct Vi {
    mode: Mode,
    /// A command that is not finished.
    keys: String,
    register: Register,
    find: Option<Find>,
    /// What `.` does again.
    change: Option<Change>,
    /// The command that led to insert mode, and what was done there.
    inserting: Option<Change>,
    /// Where the selection began.
    anchor: usize,
}

#[derive(Debug, Clone, Default)]
struct Register {
    text: Fragment,
    is_lines: bool,
}

#[derive(Debug, Clone)]
struct Change {
    command: Command,
    typed: Vec<Action>,
}

/// Text that a command works on.
struct Area {
    range: Range<usize>,
    is_lines: bool,
}

impl Vi {
    /// As it is when a prompt was sent: what was yanked stays.
    pub(super) fn afresh(self) -> Self {
        Self { mode: Mode::Insert, keys: String::new(), inserting: None, ..self }
    }
}

impl Prompt {
    /// Switches to vi's keys, in insert mode, or back.
    pub fn set_vi(&mut self, is_on: bool) {
        self.undo.release();
        self.vi = is_on.then(|| Box::new(self.vi.take().map_or_else(Vi::default, |vi| vi.afresh())));
    }

    /// The mode, to be shown; `None` without vi's keys.
    pub fn mode(&self) -> Option<Mode> {
        self.vi.as_ref().map(|vi| vi.mode)
    }

    /// What is selected, in visual mode.
    pub(super) fn selection(&self) -> Option<Range<usize>> {
        self.selection_in(self.vi.as_ref()?)
    }

    /// Puts the cursor where the mode allows it, after an edit that no key made.
    pub(super) fn settle(&mut self) {
        if let Some(vi) = self.vi.take() {
            self.stay_on_line(&vi);
            self.vi = Some(vi);
        }
    }

    /// Does what a key asks for, where vi's keys are on.
    pub(super) fn apply_vi(&mut self, vi: &mut Vi, action: &Action) -> Handled {
        if let Action::Alt(char) = action {
            self.apply_vi(vi, &Action::Escape);
            return self.apply_vi(vi, &Action::Insert(*char));
        }
        if vi.mode == Mode::Insert {
            return self.insert_mode(vi, action);
        }
        // Another key than a character ends a command that is not finished.
        let was_unfinished = !vi.keys.is_empty();
        let letter = match action {
            Action::Insert(char) => *char,
            _ if was_unfinished => {
                vi.keys.clear();
                return Handled::Yes;
            }
            Action::Left | Action::Backspace => 'h',
            Action::Right => 'l',
            Action::NewLine => 'j',
            Action::Home => '0',
            Action::End => '$',
            Action::Delete => 'x',
            Action::Escape if vi.mode == Mode::Normal => return Handled::No,
            Action::Escape => {
                vi.mode = Mode::Normal;
                return Handled::Yes;
            }
            // Ctrl-R is redo here.
            Action::HistorySearch | Action::Redo => {
                self.step_forth();
                self.stay_on_line(vi);
                return Handled::Yes;
            }
            action => {
                let handled = self.act(action);
                self.stay_on_line(vi);
                return handled;
            }
        };
        vi.keys.push(letter);
        match command::parse(&vi.keys, vi.mode != Mode::Normal) {
            Parsed::Unfinished => return Handled::Yes,
            Parsed::Nothing => vi.keys.clear(),
            Parsed::Command(command) => {
                vi.keys.clear();
                let handled = self.run(vi, command);
                self.stay_on_line(vi);
                return handled;
            }
        }
        Handled::Yes
    }

    fn insert_mode(&mut self, vi: &mut Vi, action: &Action) -> Handled {
        if *action == Action::Escape {
            self.end_insert(vi);
            return Handled::Yes;
        }
        let handled = self.act(action);
        if let (Handled::Yes, Some(inserting)) = (handled, &mut vi.inserting) {
            inserting.typed.push(*action);
        }
        handled
    }

    /// Back to normal mode. With a count, what was typed is typed again.
    fn end_insert(&mut self, vi: &mut Vi) {
        if let Some(change) = vi.inserting.take() {
            let is_insert = matches!(change.command.what, What::Insert(_));
            let times = change.command.count.filter(|_| is_insert).unwrap_or(1);
            for _ in 1..times {
                self.type_again(&change.typed);
            }
            vi.change = Some(change);
        }
        self.undo.release();
        vi.mode = Mode::Normal;
        let start = line_start(&self.text, self.cursor);
        self.cursor = self.text.previous(self.cursor).max(start);
        self.stay_on_line(vi);
    }

    fn type_again(&mut self, typed: &[Action]) {
        for action in typed {
            self.act(action);
        }
    }

    /// In normal mode the cursor stands on a character, not behind the last one.
    fn stay_on_line(&mut self, vi: &Vi) {
        self.cursor = self.text.snapped(self.cursor);
        let (start, end) = (line_start(&self.text, self.cursor), line_end(&self.text, self.cursor));
        if vi.mode == Mode::Normal && self.cursor == end && end > start {
            self.cursor = self.text.previous(end);
        }
    }

    fn run(&mut self, vi: &mut Vi, command: Command) -> Handled {
        self.undo.close();
        let times = command.count.unwrap_or(1);
        if !matches!(command.what, What::Move(_)) {
            self.last = Last::Other;
        }
        match command.what {
            What::Move(motion) => return self.go(vi, motion, command.count),
            What::Undo => (0..times).for_each(|_| self.step_back()),
            What::Repeat => self.repeat(vi, command.count),
            What::Select(extent) => self.select(vi, extent),
            What::OtherEnd => std::mem::swap(&mut vi.anchor, &mut self.cursor),
            What::SelectObject(object) => self.select_object(vi, object),
            What::Operate(Operator::Yank, target) => {
                if let Some(area) = self.area(vi, Operator::Yank, target, command.count) {
                    self.yank_area(vi, &area);
                }
            }
            What::Operate(..) | What::Insert(_) | What::Replace(_) | What::SwapCase | What::Join | What::Put(_) => {
                self.change(vi, command);
            }
        }
        Handled::Yes
    }

    /// Runs a command that changes the text, and keeps it for `.`.
    fn change(&mut self, vi: &mut Vi, command: Command) {
        let kept = self.as_kept(vi, command);
        self.undo.hold();
        let is_done = match command.what {
            What::Operate(operator, target) => self.operate(vi, operator, target, command.count),
            What::Insert(place) => self.open_at(vi, place),
            What::Replace(char) => self.replace_chars(vi, char, command.count.unwrap_or(1)),
            What::SwapCase => self.swap_case(vi, command.count.unwrap_or(1)),
            What::Join => self.join(vi, command.count.unwrap_or(2)),
            What::Put(side) => self.put_register(vi, side, command.count.unwrap_or(1)),
            What::Move(_) | What::Undo | What::Repeat | What::Select(_) | What::OtherEnd | What::SelectObject(_) => {
                false
            }
        };
        let change = is_done.then_some(Change { command: kept, typed: Vec::new() });
        if vi.mode == Mode::Insert {
            vi.inserting = change;
        } else {
            self.undo.release();
            vi.mode = Mode::Normal;
            vi.change = change.or(vi.change.take());
        }
    }

    /// A change of what is selected is kept as one of as much text.
    fn as_kept(&self, vi: &Vi, command: Command) -> Command {
        let (What::Operate(operator, Target::Selection), Some(range)) = (command.what, self.selection_in(vi)) else {
            return command;
        };
        let target = if vi.mode == Mode::VisualLines {
            Target::Lines(self.text.text()[range].lines().count())
        } else {
            Target::Characters(
                std::iter::successors(Some(range.start), |at| Some(self.text.next(*at)))
                    .take_while(|at| *at < range.end)
                    .count(),
            )
        };
        Command { count: None, what: What::Operate(operator, target) }
    }

    fn repeat(&mut self, vi: &mut Vi, count: Option<usize>) {
        let Some(change) = vi.change.clone() else { return };
        let command = Command { count: count.or(change.command.count), ..change.command };
        self.change(vi, command);
        if vi.mode == Mode::Insert {
            self.type_again(&change.typed);
            if let Some(inserting) = &mut vi.inserting {
                inserting.typed = change.typed;
            }
            self.end_insert(vi);
        }
    }

    fn go(&mut self, vi: &mut Vi, motion: Motion, count: Option<usize>) -> Handled {
        if count.is_none() && matches!(motion, Motion::Up | Motion::Down) {
            return self.act(if motion == Motion::Up { &Action::Up } else { &Action::Down });
        }
        if let Some((to, _)) = self.target(vi, motion, count) {
            self.last = Last::Other;
            self.move_to(to);
        }
        Handled::Yes
    }

    fn target(&self, vi: &mut Vi, motion: Motion, count: Option<usize>) -> Option<(usize, Span)> {
        let motion = match motion {
            Motion::FindAgain(again) => {
                let find = vi.find?;
                let direction = match (again, find.direction) {
                    (Direction::Forward, direction) => direction,
                    (Direction::Backward, Direction::Forward) => Direction::Backward,
                    (Direction::Backward, Direction::Backward) => Direction::Forward,
                };
                Motion::Find(Find { direction, ..find })
            }
            Motion::Find(find) => {
                vi.find = Some(find);
                motion
            }
            motion => motion,
        };
        motion::target(&self.text, self.cursor, motion, count)
    }

    fn select(&mut self, vi: &mut Vi, extent: Extent) {
        let mode = match extent {
            Extent::Characters => Mode::Visual,
            Extent::Lines => Mode::VisualLines,
        };
        if vi.mode == Mode::Normal {
            vi.anchor = self.cursor;
        }
        vi.mode = if vi.mode == mode { Mode::Normal } else { mode };
    }

    fn select_object(&mut self, vi: &mut Vi, object: Object) {
        if let Some(range) = motion::object(&self.text, self.cursor, object).filter(|range| !range.is_empty()) {
            vi.anchor = vi.anchor.min(range.start);
            if vi.anchor == self.cursor {
                vi.anchor = range.start;
            }
            self.cursor = self.text.previous(range.end);
        }
    }

    /// What an operator works on.
    fn area(&self, vi: &mut Vi, operator: Operator, target: Target, count: Option<usize>) -> Option<Area> {
        match target {
            Target::Selection => {
                let range = self.selection_in(vi)?;
                Some(Area { range, is_lines: vi.mode == Mode::VisualLines })
            }
            Target::Object(object) => {
                let range = motion::object(&self.text, self.cursor, object)?;
                Some(Area { range, is_lines: false })
            }
            Target::Lines(lines) => {
                let below = count.unwrap_or(lines).saturating_sub(1);
                let last = (0..below).fold(self.cursor, |at, _| self.text.next(line_end(&self.text, at)));
                Some(self.lines_between(self.cursor, last))
            }
            Target::Characters(chars) => {
                let end = (0..count.unwrap_or(chars)).fold(self.cursor, |at, _| self.text.next(at));
                Some(Area { range: self.cursor..end, is_lines: false })
            }
            Target::Motion(motion) => self.moved_over(vi, operator, motion, count),
        }
    }

    fn moved_over(&self, vi: &mut Vi, operator: Operator, motion: Motion, count: Option<usize>) -> Option<Area> {
        let is_on_word = !self.text.text()[self.cursor..].starts_with(char::is_whitespace);
        let motion = match (operator, motion) {
            // For ages `cw` has left the blanks behind the word alone.
            (Operator::Change, Motion::Word(words)) if is_on_word => return Some(self.to_word_end(words, count)),
            (_, motion) => motion,
        };
        let (to, span) = self.target(vi, motion, count)?;
        let (start, end) = (self.cursor.min(to), self.cursor.max(to));
        let range = match span {
            Span::Lines => return Some(self.lines_between(start, end)),
            Span::Inclusive => start..self.text.next(end),
            Span::Exclusive if matches!(motion, Motion::Word(_)) => start..self.without_line_feed(start, end),
            Span::Exclusive => start..end,
        };
        Some(Area { range, is_lines: false })
    }

    /// To the end of the word under the cursor, even if it stands on its last character.
    fn to_word_end(&self, words: Words, count: Option<usize>) -> Area {
        let object = Object { kind: command::ObjectKind::Word(words), reach: command::Reach::Inner };
        let first = motion::object(&self.text, self.cursor, object).map_or(self.cursor, |range| range.end);
        let mut end = first;
        for _ in 1..count.unwrap_or(1) {
            let last = self.text.previous(end);
            let next = motion::target(&self.text, last, Motion::WordEnd(words), None);
            end = next.map_or(end, |(to, _)| self.text.next(to));
        }
        Area { range: self.cursor..end, is_lines: false }
    }

    /// A word that is the last of its line ends with the line.
    fn without_line_feed(&self, start: usize, end: usize) -> usize {
        let taken = &self.text.text()[start..end];
        let words = taken.trim_end().len();
        taken[words..].find('\n').map_or(end, |found| start + words + found)
    }

    fn lines_between(&self, one: usize, other: usize) -> Area {
        let end = line_end(&self.text, other);
        Area { range: line_start(&self.text, one)..self.text.next(end), is_lines: true }
    }

    fn selection_in(&self, vi: &Vi) -> Option<Range<usize>> {
        let (start, last) = (vi.anchor.min(self.cursor), vi.anchor.max(self.cursor));
        match vi.mode {
            Mode::Insert | Mode::Normal => None,
            Mode::Visual => Some(start..self.text.next(last)),
            Mode::VisualLines => Some(self.lines_between(start, last).range),
        }
    }
}
