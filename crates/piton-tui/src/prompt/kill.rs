//! Killing text and putting it back, as in readline.

use super::buffer::Fragment;
use super::undo::Kind;
use super::{Last, Prompt};
use std::ops::Range;

/// How many kills can be put back.
const MOST_KILLS: usize = 60;

/// To which side something is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Behind,
}

impl Prompt {
    /// Kills from the cursor to this place. Kills that follow each other are one.
    pub(super) fn kill(&mut self, to: usize, side: Side, last: &Last) {
        let range = self.cursor.min(to)..self.cursor.max(to);
        if range.is_empty() {
            self.last = last.clone();
            return;
        }
        self.undo.close();
        let killed = self.edit(range, &Fragment::default(), Kind::Single);
        match self.kills.last_mut().filter(|_| *last == Last::Kill) {
            Some(kill) if side == Side::Behind => kill.append(&killed),
            Some(kill) => {
                let behind = std::mem::replace(kill, killed);
                kill.append(&behind);
            }
            None => self.kills.push(killed),
        }
        if self.kills.len() > MOST_KILLS {
            self.kills.remove(0);
        }
        self.last = Last::Kill;
    }

    /// At the end of a line the line feed is killed, as everywhere.
    pub(super) fn kill_to_end(&mut self, last: &Last) {
        let end = self.line_end(self.cursor);
        let end = if end == self.cursor { self.text.next(end) } else { end };
        self.kill(end, Side::Behind, last);
    }

    pub(super) fn kill_to_start(&mut self, last: &Last) {
        let start = self.line_start(self.cursor);
        let start = if start == self.cursor { self.text.previous(start) } else { start };
        self.kill(start, Side::Before, last);
    }

    pub(super) fn yank(&mut self) {
        if let Some(kill) = self.kills.last().cloned() {
            self.put_back(self.cursor..self.cursor, &kill, 0);
        }
    }

    pub(super) fn yank_pop(&mut self, last: &Last) {
        let Last::Yank(range, back) = last else { return };
        let back = (back + 1) % self.kills.len().max(1);
        if let Some(kill) = self.kills.iter().rev().nth(back).cloned() {
            self.put_back(range.clone(), &kill, back);
        }
    }

    fn put_back(&mut self, range: Range<usize>, kill: &Fragment, back: usize) {
        let start = range.start;
        self.edit(range, kill, Kind::Single);
        self.last = Last::Yank(start..start + kill.len(), back);
    }

    /// At the end of a line the two characters before the cursor are swapped.
    pub(super) fn transpose(&mut self) {
        let at_end = self.line_end(self.cursor) == self.cursor;
        let middle = if at_end { self.text.previous(self.cursor) } else { self.cursor };
        let (start, end) = (self.text.previous(middle), self.text.next(middle));
        let within = self.line_start(middle)..=self.line_end(middle);
        if start == middle || !within.contains(&start) || !within.contains(&end) {
            return;
        }
        let mut swapped = self.text.copy(middle..end);
        swapped.append(&self.text.copy(start..middle));
        self.edit(start..end, &swapped, Kind::Single);
    }
}
