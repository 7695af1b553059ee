//! The full-screen surface: the transcript above, the tail below it, on the terminal's other screen. It is drawn from the same frames as
//! the inline one, so either can take over from the other at any time. Rows that become final while it is shown are handed out when it
//! is left: then they belong into the scrollback.

use crate::ansi::{self, Links};
use crate::inline::Frame;
use crate::text;
use ratatui_core::text::Line;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Rows of the transcript that can be scrolled back to; older ones are in the terminal's own scrollback, or in `/transcript`.
const MOST_ROWS: usize = 5_000;

/// What stands on the other screen, and what it is drawn from.
#[derive(Debug)]
pub struct Full {
    columns: usize,
    rows: usize,
    /// The newest final rows.
    kept: VecDeque<Line<'static>>,
    /// Rows that became final while this is shown.
    unwritten: Vec<Line<'static>>,
    is_shown: bool,
    /// How many rows above its end the transcript is looked at.
    back: usize,
    drawn: Vec<Line<'static>>,
    /// Where the cursor was put, if it was.
    cursor: Option<Option<(usize, usize)>>,
    /// Whether frames are wrapped so that the terminal shows them at once.
    pub syncs: bool,
    /// Where names of files in the text lead.
    pub links: Links,
}

impl Full {
    /// Nothing is shown yet.
    pub fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.max(1), rows.max(1));
        let (kept, unwritten, drawn) = (VecDeque::new(), Vec::new(), Vec::new());
        let links = Links::default();
        Self { columns, rows, kept, unwritten, is_shown: false, back: 0, drawn, cursor: None, syncs: false, links }
    }

    /// Whether it is on the screen.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// It takes the screen, which is empty.
    pub fn enter(&mut self) {
        (self.is_shown, self.back) = (true, 0);
        self.redraw();
    }

    /// It is left: the rows that belong into the scrollback.
    pub fn leave(&mut self) -> Vec<Line<'static>> {
        self.is_shown = false;
        std::mem::take(&mut self.unwritten)
    }

    /// The screen has another size, and nothing of what was drawn stands there.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns.max(1), rows.max(1));
        self.redraw();
    }

    /// Everything is drawn anew with the next frame.
    pub fn redraw(&mut self) {
        self.cursor = None;
        self.drawn.clear();
    }

    /// Looks so many screens further back, or forward.
    pub fn scroll(&mut self, screens: isize) {
        let by = isize::try_from(self.rows / 2).unwrap_or(1).max(1) * screens;
        self.back = self.back.saturating_add_signed(by).min(self.kept.len());
    }

    /// Keeps rows that are final, whoever writes them.
    pub fn keep(&mut self, rows: &[Line<'static>]) {
        // Who looks back goes on looking at the same rows.
        if self.back > 0 {
            self.back += rows.len();
        }
        self.kept.extend(rows.iter().cloned());
        let over = self.kept.len().saturating_sub(MOST_ROWS);
        self.kept.drain(..over);
        self.back = self.back.min(self.kept.len());
        if self.is_shown {
            self.unwritten.extend_from_slice(rows);
        }
    }

    /// The bytes that make the screen show this; none where it does already.
    pub fn draw(&mut self, frame: Frame) -> String {
        let Frame { commit, mut tail, cursor } = frame;
        self.keep(&commit);
        let over = tail.len().saturating_sub(self.rows);
        tail.drain(..over);
        let high = self.rows - tail.len();
        let rows = self.screen(high, &tail);
        let mut out = String::new();
        for (number, row) in rows.iter().enumerate() {
            if self.drawn.get(number) != Some(row) {
                let _ = write!(out, "\x1b[{};1H", number + 1);
                ansi::line(row, &self.links, &mut out);
                out.push_str("\x1b[K");
            }
        }
        let is_changed = !out.is_empty();
        self.drawn = rows;
        let place = |(row, column): (usize, usize)| {
            (high + row.saturating_sub(over).min(tail.len().saturating_sub(1)) + 1, column + 1)
        };
        let cursor = cursor.map(place);
        if self.cursor.replace(cursor) == Some(cursor) && !is_changed {
            return out;
        }
        match cursor {
            Some((row, column)) => out.push_str(&format!("\x1b[{row};{column}H\x1b[?25h")),
            None => out.push_str("\x1b[?25l"),
        }
        match is_changed {
            true if self.syncs => format!("{}\x1b[?25l{out}{}", ansi::SYNC.0, ansi::SYNC.1),
            true => format!("\x1b[?25l{out}"),
            false => out,
        }
    }

    /// The rows of the transcript that fit above the tail, and the tail.
    fn screen(&self, high: usize, tail: &[Line<'static>]) -> Vec<Line<'static>> {
        let last = self.kept.len() - self.back;
        let mut above: VecDeque<Line<'static>> = VecDeque::new();
        for row in self.kept.iter().take(last).rev() {
            if above.len() >= high {
                break;
            }
            // They were made for another width, perhaps.
            text::wrap(row, self.columns, 0).into_iter().rev().for_each(|row| above.push_front(row));
        }
        let over = above.len().saturating_sub(high);
        let mut rows: Vec<Line<'static>> = vec![Line::default(); high.saturating_sub(above.len())];
        rows.extend(above.into_iter().skip(over));
        rows.extend(tail.iter().map(|row| text::fit(row, self.columns)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;

    fn frame(commit: &[&str], tail: &[&str]) -> Frame {
        let lines = |rows: &[&str]| rows.iter().map(|row| Line::raw((*row).to_owned())).collect();
        Frame { commit: lines(commit), tail: lines(tail), cursor: Some((0, 2)) }
    }

    fn shown(bytes: &str, columns: u16, rows: u16) -> Vec<String> {
        let size = |number| NonZero::new(number).unwrap();
        let mut terminal = vt100::Parser::new(size(rows), size(columns), 0);
        terminal.process(bytes.as_bytes());
        terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect()
    }

    #[test]
    fn the_newest_rows_stand_above_the_tail_and_older_ones_are_scrolled_to() {
        let mut full = Full::new(20, 5);
        full.enter();
        let mut bytes = full.draw(frame(&["one", "two", "three", "four"], &["> p", "status"]));
        assert_eq!(shown(&bytes, 20, 5), ["two", "three", "four", "> p", "status"]);
        full.scroll(1);
        bytes.push_str(&full.draw(frame(&[], &["> p", "status"])));
        assert_eq!(shown(&bytes, 20, 5), ["", "one", "two", "> p", "status"]);
        bytes.push_str(&full.draw(frame(&["five"], &["> p", "status"])));
        assert_eq!(shown(&bytes, 20, 5), ["", "one", "two", "> p", "status"], "who looks back is not moved");
        full.scroll(-9);
        bytes.push_str(&full.draw(frame(&[], &["> p", "status"])));
        assert_eq!(shown(&bytes, 20, 5), ["three", "four", "five", "> p", "status"]);
    }

    #[test]
    fn what_becomes_final_meanwhile_is_handed_out_once_when_it_is_left() {
        let mut full = Full::new(20, 5);
        full.keep(&[Line::raw("before")]);
        full.enter();
        full.draw(frame(&["during"], &["> "]));
        assert_eq!(full.leave(), [Line::raw("during")]);
        full.keep(&[Line::raw("after")]);
        full.enter();
        assert_eq!(full.leave(), [], "that is in the scrollback already");
    }

    #[test]
    fn only_rows_that_are_different_are_written() {
        let mut full = Full::new(20, 5);
        full.enter();
        full.draw(frame(&["a", "b"], &["> ", "status"]));
        let bytes = full.draw(frame(&[], &["> x", "status"]));
        assert!(bytes.contains("> x") && !bytes.contains("status") && !bytes.contains('b'), "{bytes:?}");
        assert_eq!(full.draw(frame(&[], &["> x", "status"])), "", "no byte where nothing is different");
        assert!(!bytes.contains("\x1b[?2026"), "the terminal has not said that it knows that: {bytes:?}");
        full.syncs = true;
        let bytes = full.draw(frame(&[], &["> y", "status"]));
        assert!(bytes.starts_with(ansi::SYNC.0) && bytes.ends_with(ansi::SYNC.1), "{bytes:?}");
    }

    #[test]
    fn any_size_is_drawn_on() {
        for (columns, rows) in [(1, 1), (2, 2), (200, 1), (3, 50)] {
            let mut full = Full::new(columns, rows);
            full.enter();
            full.draw(frame(&["a long row of words", "漢字漢字"], &["> prompt", "status"]));
            full.scroll(3);
            full.resize(rows, columns);
            full.draw(frame(&["more"], &["> prompt", "status", "and more"]));
            assert!(full.drawn.iter().all(|row| text::line_width(row) <= rows.max(1)));
        }
    }

    #[test]
    fn long_sessions_keep_the_newest_rows_only() {
        let mut full = Full::new(20, 5);
        for number in 0..12_000 {
            full.keep(&[Line::raw(number.to_string())]);
        }
        assert_eq!((full.kept.len(), full.kept.back().map(ToString::to_string)), (MOST_ROWS, Some("11999".to_owned())));
    }
}
