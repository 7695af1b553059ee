//! The prompt: text that is edited, with chips for what is too large to be shown in it. Actions go in, lines come out.
//! It knows no terminal and no session.
//!
//! - A paste of more than ten lines or a thousand characters is a chip, `[Paste 150 lines]`; a picture is another,
//!   `[Picture 1]`. A chip is one character to the cursor. A paste is sent whole; a picture's label stays in the text.
//! - A chip is chosen, and drawn so, when the cursor moves onto it. [`Action::Send`] opens a chosen paste: its text takes
//!   the chip's place. Behind a chip, or after typing before it, the same key sends.
//! - Text is data: whatever is pasted is kept as it is but for carriage returns, which are line feeds, and is drawn with
//!   marks where a terminal would act upon it.

mod buffer;
mod kill;
mod layout;
#[cfg(test)]
mod tests;
mod undo;
mod vi;
mod words;

pub use buffer::Picture;
pub use vi::Mode;

use crate::keys::Action;
use crate::theme::Theme;
use buffer::{Chip, Fragment, with_line_feeds};
use kill::Side;
use layout::Rows;
use ratatui_core::text::Line;
use std::cell::RefCell;
use std::ops::Range;
use undo::{Edit, Kind, Undo};
use vi::Vi;

/// A paste of more lines is a chip.
const MOST_PASTED_LINES: usize = 10;
/// A paste of more characters is a chip.
const MOST_PASTED_CHARS: usize = 1_000;

/// What became of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It was done here.
    Yes,
    /// It is not the prompt's.
    No,
    /// The prompt is to be sent: [`Prompt::take`] it. So for [`Action::Send`] and [`Action::FollowUp`].
    Submit,
    /// Up, in the first row.
    AtTop,
    /// Down, in the last row.
    AtBottom,
}

/// What was in the prompt when it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The text, with pastes whole and the labels of pictures.
    pub text: String,
    /// Where in it pastes stand that were chips.
    pub pastes: Vec<Range<usize>>,
    /// The pictures, in the order of their labels.
    pub pictures: Vec<Picture>,
}

/// Some rows of the prompt, as many as fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The rows, at least one.
    pub lines: Vec<Line<'static>>,
    /// Row and column of the cursor, within them.
    pub cursor: (usize, usize),
    /// Whether rows before them are left out.
    pub more_above: bool,
    /// Whether rows behind them are left out.
    pub more_below: bool,
}

/// Text that is edited.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    text: Fragment,
    /// Always where a character begins, or at the end.
    cursor: usize,
    undo: Undo,
    kills: Vec<Fragment>,
    last: Last,
    /// Pictures that were attached since the prompt was sent.
    pictures: usize,
    rows: RefCell<Rows>,
    /// With vi's keys.
    vi: Option<Box<Vi>>,
}

/// What the action before was, as far as it matters to the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Kill,
    /// What was put back stands here, and it is this one of the kills, counted from the newest.
    Yank(Range<usize>, usize),
    /// Up or Down, from this column.
    Vertical(usize),
    /// The cursor moved onto a chip.
    Chosen,
}

/// From row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Prompt {
    /// Does what a key asks for.
    pub fn apply(&mut self, action: &Action) -> Handled {
        let Some(mut vi) = self.vi.take() else { return self.act(action) };
        let handled = self.apply_vi(&mut vi, action);
        self.vi = Some(vi);
        handled
    }

    /// Does it as in readline.
    fn act(&mut self, action: &Action) -> Handled {
        let last = std::mem::take(&mut self.last);
        match action {
            Action::Insert(char) => self.type_char(*char),
            Action::NewLine => self.type_char('\n'),
            Action::Send => return self.send(&last),
            Action::FollowUp => return Handled::Submit,
            Action::Leave if self.is_empty() => return Handled::No,
            Action::Delete | Action::Leave => self.delete(),
            Action::Backspace => self.backspace(),
            Action::Up => return self.vertical(&last, Way::Up),
            Action::Down => return self.vertical(&last, Way::Down),
            Action::Left => self.move_to(self.text.previous(self.cursor)),
            Action::Right => self.move_to(self.text.next(self.cursor)),
            Action::WordLeft => self.move_to(words::start_before(&self.text, self.cursor)),
            Action::WordRight => self.move_to(words::end_behind(&self.text, self.cursor)),
            Action::Home => self.move_to(self.line_start(self.cursor)),
            Action::End => self.move_to(self.line_end(self.cursor)),
            Action::BufferStart => self.move_to(0),
            Action::BufferEnd => self.move_to(self.text.len()),
            Action::KillWord => self.kill(words::start_before(&self.text, self.cursor), Side::Before, &last),
            Action::KillToBlank => self.kill(words::blank_before(&self.text, self.cursor), Side::Before, &last),
            Action::KillWordForward => self.kill(words::end_behind(&self.text, self.cursor), Side::Behind, &last),
            Action::KillToEnd => self.kill_to_end(&last),
            Action::KillToStart => self.kill_to_start(&last),
            Action::Yank => self.yank(),
            Action::YankPop => self.yank_pop(&last),
            Action::Undo => self.step_back(),
            Action::Redo => self.step_forth(),
            Action::Transpose => self.transpose(),
            Action::Alt(_)
            | Action::TakeBack
            | Action::Escape
            | Action::Interrupt
            | Action::Suspend
            | Action::CycleMode
            | Action::Complete
            | Action::Details
            | Action::Panel
            | Action::HistorySearch
            | Action::ExternalEditor
            | Action::PasteClipboard
            | Action::Background
            | Action::TypeInto
            | Action::Redraw
            | Action::Help
            | Action::Rename
            | Action::Trash
            | Action::PageUp
            | Action::PageDown => {
                self.last = last;
                return Handled::No;
            }
        }
        Handled::Yes
    }

    /// Puts pasted text at the cursor, as a chip if it is large. Returns the text of that chip.
    pub fn paste(&mut self, text: &str) -> Option<String> {
        let text = with_line_feeds(text);
        let is_large = text.lines().count() > MOST_PASTED_LINES
            || text.chars().take(MOST_PASTED_CHARS + 1).count() > MOST_PASTED_CHARS;
        self.last = Last::Other;
        match is_large {
            true => self.put(&chip_of(&text)),
            false => self.put(&Fragment::plain(&text)),
        }
        is_large.then_some(text)
    }

    /// Puts a picture at the cursor.
    pub fn attach(&mut self, picture: Picture) {
        self.pictures += 1;
        let label = format!("[Picture {}]", self.pictures);
        self.last = Last::Other;
        self.put(&Fragment::chip(label, Chip::Picture(self.pictures, picture)));
    }

    /// Puts a picture in the place of this text, where it stands last; nothing where it does not stand there any more. The
    /// cursor stays where it is in the text.
    pub fn attach_for(&mut self, text: &str, picture: Picture) {
        let Some(at) = self.shown().rfind(text).filter(|_| !text.is_empty()) else { return };
        let (end, cursor) = (at + text.len(), self.cursor);
        self.pictures += 1;
        let chip = Fragment::chip(format!("[Picture {}]", self.pictures), Chip::Picture(self.pictures, picture));
        let len = chip.len();
        self.last = Last::Other;
        self.edit(at..end, &chip, Kind::Single);
        self.cursor = self.text.snapped(match cursor {
            cursor if cursor <= at => cursor,
            cursor => at + len + cursor.saturating_sub(end),
        });
        self.settle();
    }

    /// Puts text at the cursor, as it is.
    pub fn insert_str(&mut self, text: &str) {
        self.last = Last::Other;
        self.put(&Fragment::plain(text));
    }

    /// Puts text in the place of a range of [`Prompt::shown`], such as [`Prompt::word_before`] gives it. The cursor stands
    /// behind it. A character or chip that the range cuts is replaced whole.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        let start = range.start.min(self.text.len());
        let start =
            if self.text.snapped(start) == start { start } else { self.text.previous(self.text.snapped(start)) };
        let end = self.text.snapped(range.end).max(start);
        self.last = Last::Other;
        self.edit(start..end, &Fragment::plain(text), Kind::Single);
        self.settle();
    }

    /// Replaces everything. It can be undone.
    pub fn set(&mut self, text: &str) {
        self.last = Last::Other;
        self.edit(0..self.text.len(), &Fragment::plain(text), Kind::Single);
        self.settle();
    }

    /// The same, with a chip for each of these ranges of the text.
    pub fn set_with(&mut self, text: &str, pastes: &[Range<usize>]) {
        let (mut all, mut at) = (Fragment::default(), 0);
        for paste in pastes {
            let (Some(before), Some(pasted)) = (text.get(at..paste.start), text.get(paste.clone())) else { break };
            all.append(&Fragment::plain(before));
            all.append(&chip_of(pasted));
            at = paste.end;
        }
        all.append(&Fragment::plain(&text[at..]));
        self.last = Last::Other;
        self.edit(0..self.text.len(), &all, Kind::Single);
        self.settle();
    }

    /// The text with pastes whole.
    pub fn text(&self) -> String {
        self.text.expanded()
    }

    /// The text with the labels of chips.
    pub fn shown(&self) -> &str {
        self.text.text()
    }

    /// The cursor, as a byte of [`Prompt::shown`].
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes everything out, to be sent. What was killed can still be put back, nothing can be undone.
    pub fn take(&mut self) -> Sent {
        let mut numbers = Vec::new();
        let mut pictures = Vec::new();
        for placed in self.text.chips() {
            if let Chip::Picture(number, picture) = placed.chip.as_ref()
                && !numbers.contains(number)
            {
                numbers.push(*number);
                pictures.push(picture.clone());
            }
        }
        let (text, pastes) = (self.text(), self.text.pastes());
        let vi = self.vi.take().map(|vi| Box::new(vi.afresh()));
        *self = Self { kills: std::mem::take(&mut self.kills), vi, ..Self::default() };
        Sent { text, pastes, pictures }
    }

    /// What stands between the cursor and the blank or chip before it, and where: what `@` and `/` complete.
    pub fn word_before(&self) -> (Range<usize>, &str) {
        let range = words::name_before(&self.text, self.cursor);
        (range.clone(), &self.text.text()[range])
    }

    /// All of the text before the cursor.
    pub fn before_cursor(&self) -> String {
        self.text.text()[..self.cursor].to_owned()
    }

    /// All rows for a terminal that gives so many columns, and the cursor as row and column.
    pub fn lines(&self, columns: usize, theme: &Theme) -> (Vec<Line<'static>>, (usize, usize)) {
        let window = self.window(columns, usize::MAX, theme);
        (window.lines, window.cursor)
    }

    /// At most so many rows, those around the cursor. It scrolls no further than it must, and costs no more than what is
    /// shown, however long the text is.
    pub fn window(&self, columns: usize, most: usize, theme: &Theme) -> Window {
        let mut rows = self.rows.borrow_mut();
        rows.fit(columns);
        let row = rows.row_of(&self.text, self.cursor);
        let column = rows.column_of(&self.text, row, self.cursor).min(columns.saturating_sub(1));
        let most = most.max(1);
        let mut top = rows.top.clamp((row + 1).saturating_sub(most), row);
        while top > 0 && !rows.has_row(&self.text, top.saturating_add(most - 1)) {
            top -= 1;
        }
        rows.top = top;
        let chosen = self.chosen();
        let mut lines = Vec::new();
        while lines.len() < most && rows.has_row(&self.text, top + lines.len()) {
            lines.push(rows.line(&self.text, top + lines.len(), &chosen, theme));
        }
        let more_below = rows.has_row(&self.text, top + lines.len());
        Window { lines, cursor: (row - top, column), more_above: top > 0, more_below }
    }

    /// How many rows there are for so many columns.
    pub fn rows(&self, columns: usize) -> usize {
        let mut rows = self.rows.borrow_mut();
        rows.fit(columns);
        rows.count(&self.text)
    }

    /// What is drawn as chosen: a selection, or the chip that the cursor moved onto.
    fn chosen(&self) -> Range<usize> {
        if let Some(selection) = self.selection() {
            return selection;
        }
        match &self.last {
            Last::Chosen => self.text.chip_at(self.cursor).map_or(0..0, |placed| placed.range.clone()),
            Last::Other | Last::Kill | Last::Yank(..) | Last::Vertical(_) => 0..0,
        }
    }

    fn send(&mut self, last: &Last) -> Handled {
        if *last == Last::Chosen
            && let Some(placed) = self.text.chip_at(self.cursor)
            && let Chip::Paste(paste) = placed.chip.as_ref()
        {
            let (range, paste) = (placed.range.clone(), Fragment::plain(paste));
            self.edit(range.clone(), &paste, Kind::Single);
            self.cursor = self.text.snapped(range.start);
            return Handled::Yes;
        }
        let before = self.text.previous(self.cursor);
        if &self.text.text()[before..self.cursor] == "\\" {
            self.edit(before..self.cursor, &Fragment::plain("\n"), Kind::Single);
            return Handled::Yes;
        }
        Handled::Submit
    }

    fn type_char(&mut self, char: char) {
        let mut bytes = [0; 4];
        self.edit(self.cursor..self.cursor, &Fragment::plain(char.encode_utf8(&mut bytes)), Kind::Typing);
    }

    fn put(&mut self, fragment: &Fragment) {
        self.edit(self.cursor..self.cursor, fragment, Kind::Single);
        self.settle();
    }

    fn delete(&mut self) {
        self.edit(self.cursor..self.text.next(self.cursor), &Fragment::default(), Kind::Deleting);
    }

    fn backspace(&mut self) {
        self.edit(self.text.previous(self.cursor)..self.cursor, &Fragment::default(), Kind::Deleting);
    }

    /// The one way the text changes, undo and redo apart. The cursor stands behind what is new.
    fn edit(&mut self, range: Range<usize>, new: &Fragment, kind: Kind) -> Fragment {
        let (at, before) = (range.start, self.cursor);
        if range.is_empty() && new.is_empty() {
            return Fragment::default();
        }
        let removed = self.splice(range, new);
        self.cursor = self.text.snapped(at + new.len());
        self.undo.note(Edit { at, removed: removed.clone(), inserted: new.clone() }, kind, before, self.cursor);
        removed
    }

    fn splice(&mut self, range: Range<usize>, new: &Fragment) -> Fragment {
        self.rows.get_mut().forget_from(range.start);
        self.text.splice(range, new)
    }

    fn step_back(&mut self) {
        let Some(step) = self.undo.undo().cloned() else { return };
        for edit in step.edits.iter().rev() {
            self.splice(edit.at..edit.at + edit.inserted.len(), &edit.removed);
        }
        self.cursor = self.text.snapped(step.before);
    }

    fn step_forth(&mut self) {
        let Some(step) = self.undo.redo().cloned() else { return };
        for edit in &step.edits {
            self.splice(edit.at..edit.at + edit.removed.len(), &edit.inserted);
        }
        self.cursor = self.text.snapped(step.after);
    }

    fn move_to(&mut self, place: usize) {
        self.undo.close();
        self.cursor = place;
        if self.text.chip_at(place).is_some() {
            self.last = Last::Chosen;
        }
    }

    fn vertical(&mut self, last: &Last, way: Way) -> Handled {
        let rows = self.rows.get_mut();
        let row = rows.row_of(&self.text, self.cursor);
        let to = match way {
            Way::Up if row == 0 => return Handled::AtTop,
            Way::Up => row - 1,
            Way::Down if !rows.has_row(&self.text, row + 1) => return Handled::AtBottom,
            Way::Down => row + 1,
        };
        let column = match last {
            Last::Vertical(column) => *column,
            Last::Other | Last::Kill | Last::Yank(..) | Last::Chosen => rows.column_of(&self.text, row, self.cursor),
        };
        let place = rows.place_at(&self.text, to, column);
        self.move_to(place);
        if self.last != Last::Chosen {
            self.last = Last::Vertical(column);
        }
        Handled::Yes
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.text()[..at].rfind('\n').map_or(0, |found| found + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.text.text()[at..].find('\n').map_or(self.text.len(), |found| at + found)
    }
}

/// The chip of a large paste.
fn chip_of(text: &str) -> Fragment {
    let lines = text.lines().count();
    let label = match lines > MOST_PASTED_LINES {
        true => format!("[Paste {} lines]", grouped(lines)),
        false => format!("[Paste {} characters]", grouped(text.chars().count())),
    };
    Fragment::chip(label, Chip::Paste(text.to_owned()))
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
