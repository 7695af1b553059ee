//! The inline surface: what is finished is written once, into the terminal's own scrollback; only the rows below it, the
//! tail, are ever drawn again.
//!
//! ```text
//!   committed rows      written once: the terminal scrolls, searches and copies them
//!   ───────────────
//!   tail                what streams, the question, the prompt, the status: at most the height of the screen
//! ```
//!
//! All movement is relative to the row that the cursor was left in, so nothing need be known of what stands above. A frame
//! says which rows become final and what the tail is then; the surface compares both with the rows that are there and
//! writes the difference. Rows of the tail that become final as they are cost no byte. Rows that are pushed down, such as
//! the prompt below a reply that grows, are moved by the terminal (`IL`, `DL`) and not written again.
//!
//! A change of width is the one thing that it cannot take back for certain: most terminals break the rows anew, some cut
//! them ([`Inline::reflows`]).

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::shown;

use crate::ansi::{self, Links};
use ratatui_core::text::Line;
use std::fmt::Write as _;

/// What the screen shall show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// Rows that are final from here on, from the top.
    pub commit: Vec<Line<'static>>,
    /// The rows below these.
    pub tail: Vec<Line<'static>>,
    /// Where the cursor stands in the tail: row and column; `None`: nowhere, it is hidden.
    pub cursor: Option<(usize, usize)>,
}

/// The tail as it was drawn last, and where the cursor was left in it.
#[derive(Debug)]
pub struct Inline {
    columns: usize,
    rows: usize,
    drawn: Vec<Line<'static>>,
    /// The row of the tail that the cursor is in; it is in column `column`.
    row: usize,
    column: usize,
    is_hidden: bool,
    /// Whether frames are wrapped so that the terminal shows them at once.
    pub syncs: bool,
    /// Whether the terminal breaks rows anew that do not fit a new width. Else it cuts them.
    pub reflows: bool,
    /// Where names of files in the text lead.
    pub links: Links,
}

impl Inline {
    /// A tail of no rows, at the cursor, which stands in the first column.
    pub fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.max(1), rows.max(1));
        let (drawn, links) = (Vec::new(), Links::default());
        Self { columns, rows, drawn, row: 0, column: 0, is_hidden: false, syncs: false, reflows: true, links }
    }

    /// Columns and rows of the screen.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// The bytes that make the screen show this; none where it does already. A tail that is higher than the screen keeps its
    /// last rows; no row is wider than the screen.
    pub fn draw(&mut self, frame: Frame) -> String {
        let Frame { mut commit, mut tail, cursor } = frame;
        let over = tail.len().saturating_sub(self.rows);
        tail.drain(..over);
        let cursor = cursor.map(|(row, column)| (row.saturating_sub(over).min(tail.len().saturating_sub(1)), column));
        let committed = commit.len();
        commit.append(&mut tail);
        let rows = commit;
        let mut out = String::new();
        if rows.len() > self.rows || self.drawn.len() > self.rows {
            self.write_anew(&rows, &mut out);
        } else {
            self.write_changes(&rows, &mut out);
        }
        // What is final is not ours any more. The cursor stays in the tail, be it empty: then it begins in the row below.
        let is_below = rows.len() == committed && committed > 0;
        if is_below {
            self.go(rows.len() - 1, &mut out);
            out.push_str("\r\n");
            self.row = rows.len();
            self.column = 0;
        }
        let aim = cursor.map_or((rows.len().saturating_sub(1).max(committed), 0), |(row, column)| {
            (committed + row, column.min(self.columns - 1))
        });
        self.go(aim.0, &mut out);
        if self.column != aim.1 {
            self.go_across(aim.1, &mut out);
        }
        self.drawn = rows;
        self.drawn.drain(..committed);
        self.row -= committed.min(self.row);
        if self.is_hidden != cursor.is_none() {
            self.is_hidden = cursor.is_none();
            out.push_str(if self.is_hidden { "\x1b[?25l" } else { "\x1b[?25h" });
        }
        self.wrapped(out)
    }

    /// The same rows, though the screen may show anything: `Ctrl-L`, and after something else has had the screen.
    pub fn redraw(&mut self) -> String {
        let mut out = String::new();
        let rows = std::mem::take(&mut self.drawn);
        let (row, column) = (self.row, self.column);
        self.go(0, &mut out);
        self.write_anew(&rows, &mut out);
        self.go(row, &mut out);
        self.go_across(column, &mut out);
        self.drawn = rows;
        self.wrapped(out)
    }

    /// Takes the tail away: the cursor stands where it began.
    pub fn clear(&mut self) -> String {
        let mut out = String::new();
        self.go(0, &mut out);
        self.erase_below(&mut out);
        self.drawn.clear();
        if std::mem::take(&mut self.is_hidden) {
            out.push_str("\x1b[?25h");
        }
        out
    }

    /// The screen has another size. Takes the tail away, as far as it can be found; the next frame draws it.
    pub fn resize(&mut self, columns: usize, rows: usize) -> String {
        let (columns, rows) = (columns.max(1), rows.max(1));
        if (columns, rows) == (self.columns, self.rows) {
            return String::new();
        }
        // Rows above the cursor's, as the terminal shows them now.
        let high = |line| if self.reflows { ansi::width(line).max(1).div_ceil(columns) } else { 1 };
        let above: usize = self.drawn.iter().take(self.row).map(high).sum();
        let within = if self.reflows { self.column / columns } else { 0 };
        (self.columns, self.rows) = (columns, rows);
        let mut out = String::new();
        // What has left the screen at its top cannot be reached.
        let up = (above + within).min(rows - 1);
        if up > 0 {
            let _ = write!(out, "\x1b[{up}A");
        }
        self.erase_below(&mut out);
        self.row = 0;
        self.drawn.clear();
        self.wrapped(out)
    }

    /// The simple way: all rows below the beginning of the tail are written again, and may scroll off the screen.
    fn write_anew(&mut self, rows: &[Line<'static>], out: &mut String) {
        self.go(0, out);
        self.erase_below(out);
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            ansi::line(row, &self.links, out);
        }
        self.row = rows.len().saturating_sub(1);
        self.column = rows.last().map_or(0, ansi::width);
        self.settle_column(out);
    }

    /// The cheap way: what is equal at both ends stays, what is between is written.
    fn write_changes(&mut self, rows: &[Line<'static>], out: &mut String) {
        let drawn = std::mem::take(&mut self.drawn);
        let head = drawn.iter().zip(rows).take_while(|(before, now)| before == now).count();
        let most = drawn.len().min(rows.len()) - head;
        let foot =
            drawn.iter().rev().zip(rows.iter().rev()).take(most).take_while(|(before, now)| before == now).count();
        let (before, now) = (drawn.len() - head - foot, rows.len() - head - foot);
        let kept = before.min(now);
        if now > before && drawn.is_empty() {
            return self.write_anew(rows, out);
        }
        if now > before {
            // Rows are made below, and what stays there is moved down into them.
            let more = now - before;
            self.go(drawn.len() - 1, out);
            out.push('\r');
            (0..more).for_each(|_| out.push('\n'));
            (self.row, self.column) = (drawn.len() - 1 + more, 0);
            if foot > 0 {
                self.go(head + kept, out);
                // Whether this moves the cursor to the first column differs between terminals.
                let _ = write!(out, "\x1b[{more}L\r");
                self.column = 0;
            }
        } else if before > now {
            let fewer = before - now;
            self.go(head + kept, out);
            let _ = write!(out, "\x1b[{fewer}M\r");
            self.column = 0;
        }
        for (number, row) in rows.iter().enumerate().take(head + now).skip(head) {
            let before = drawn.get(number).filter(|_| number < head + kept);
            let from = before.map_or(0, |before| ansi::same_columns(before, row));
            let (was, is) = (before.map_or(0, ansi::width), ansi::width(row));
            if before.is_some() && from == was && from == is {
                continue;
            }
            self.go(number, out);
            self.go_across(from, out);
            ansi::line_from(row, from, &self.links, out);
            self.column = is;
            self.settle_column(out);
            if was > is {
                out.push_str("\x1b[K");
            }
        }
    }

    /// Behind the last column a terminal waits with the line's end: the cursor is brought to a place that all agree on.
    fn settle_column(&mut self, out: &mut String) {
        if self.column >= self.columns {
            out.push('\r');
            self.column = 0;
        }
    }

    /// Erases the row of the cursor and all below it. The rows are deleted: asked to erase from the screen's first cell on (`ED`), tmux
    /// puts all that stands there into the scrollback.
    fn erase_below(&mut self, out: &mut String) {
        let _ = write!(out, "\r\x1b[{}M", self.rows);
        self.column = 0;
    }

    /// Moves to a row of what is drawn, and keeps the column.
    fn go(&mut self, row: usize, out: &mut String) {
        let _ = match (row.checked_sub(self.row), self.row.checked_sub(row)) {
            (Some(0), _) => Ok(()),
            (Some(down), _) => write!(out, "\x1b[{down}B"),
            (_, Some(up)) => write!(out, "\x1b[{up}A"),
            (None, None) => Ok(()),
        };
        self.row = row;
    }

    fn go_across(&mut self, column: usize, out: &mut String) {
        if column == self.column {
            return;
        }
        self.column = column;
        if column == 0 {
            out.push('\r');
        } else {
            let _ = write!(out, "\x1b[{}G", column + 1);
        }
    }

    fn wrapped(&self, out: String) -> String {
        match (out.is_empty(), self.syncs) {
            (true, _) | (false, false) => out,
            (false, true) => format!("{}{out}{}", ansi::SYNC.0, ansi::SYNC.1),
        }
    }
}
