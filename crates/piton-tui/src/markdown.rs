//! Markdown as a terminal shows it, while it streams and when it is whole.
//!
//! ```text
//! pieces ─▶ lines without hidden characters ─▶ blocks (blocks.rs) ─▶ rows in colours (draw.rs, table.rs, inline.rs)
//! ```
//! A reply comes in pieces that end anywhere. A line is read once, when its line feed has come, and never again; what it
//! settles ([`blocks::Block`]) is given out and can be written where it is not drawn anew. What a block means does not
//! depend on what follows it, but for the one that is open: a paragraph that may become a heading, a table whose columns
//! grow. So [`render`] is a [`Flow`] that was given everything at once, and both draw the same.
//!
//! This module must not know where rows are written, nor who speaks.

mod blocks;
mod draw;
mod inline;
mod starts;
mod table;

use std::cell::RefCell;

use piton_core::hidden::Pieces;
use ratatui_core::text::Line;

use crate::text;
use crate::theme::Theme;
use blocks::{Block, Blocks};
use draw::Drawer;

/// Bytes of a line, or of a paragraph, that are read as one. What goes on behind them is read as a block of its own, so that
/// what is open stays quick to draw. The paragraphs of a book are shorter.
const MOST_OPEN: usize = 4 * 1024;
/// The same for a table, whose head stands above each part.
const MOST_TABLE: usize = 16 * 1024;

/// A whole text in rows of at most so many columns.
pub fn render(text: &str, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut flow = Flow::default();
    flow.push(text);
    flow.finish();
    flow.closed(columns, theme)
}

/// A text that comes in pieces.
#[derive(Debug, Default)]
pub struct Flow {
    pieces: Pieces,
    /// What has come of the line that is not over.
    line: String,
    /// Whether the beginning of that line was read already, since it is long.
    is_rest: bool,
    blocks: Blocks,
    closed: Vec<Block>,
    drawer: Drawer,
    seen: RefCell<Option<Seen>>,
}

/// What was drawn last of what is open.
#[derive(Debug)]
struct Seen {
    columns: usize,
    theme: Theme,
    lines: Vec<Line<'static>>,
}

impl Flow {
    /// Takes what came, however it was cut.
    pub fn push(&mut self, piece: &str) {
        self.pieces.push(piece, &mut self.line);
        self.read_lines();
    }

    /// Nothing more comes: all that is open is closed.
    pub fn finish(&mut self) {
        self.pieces.finish(&mut self.line);
        self.read_lines();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.blocks.read(&text::without_tabs(&line), self.is_rest, &mut self.closed);
        }
        self.is_rest = false;
        self.blocks.finish(&mut self.closed);
    }

    /// The rows that can never change and were not given out yet.
    pub fn closed(&mut self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let blocks = std::mem::take(&mut self.closed);
        if !blocks.is_empty() {
            self.seen.take();
        }
        self.drawer.draw(&blocks, columns, theme)
    }

    /// The rows of what may still change. They stand behind those that [`Flow::closed`] gives.
    pub fn open(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut seen = self.seen.borrow_mut();
        match seen.as_ref() {
            Some(seen) if seen.columns == columns && seen.theme == *theme => seen.lines.clone(),
            Some(_) | None => {
                let lines = self.draw_open(columns, theme);
                *seen = Some(Seen { columns, theme: theme.clone(), lines: lines.clone() });
                lines
            }
        }
    }

    /// What is open, as it would stand there if nothing more came.
    fn draw_open(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (mut blocks, mut drawer) = (self.blocks.clone(), self.drawer.clone());
        // Blocks that are closed and not drawn decide what stands before these.
        drawer.draw(&self.closed, columns, theme);
        let mut open = Vec::new();
        if !self.line.is_empty() {
            blocks.read(&text::without_tabs(&self.line), self.is_rest, &mut open);
        }
        blocks.finish(&mut open);
        drawer.draw(&open, columns, theme)
    }

    /// Reads each line that is over, and of one that is too long what may be read alone.
    fn read_lines(&mut self) {
        self.seen.take();
        let mut from = 0;
        while let Some((end, is_over)) = end_of_line(&self.line[from..]) {
            let line = self.line[from..from + end].trim_end_matches('\n');
            self.blocks.read(&text::without_tabs(line), self.is_rest, &mut self.closed);
            if !is_over {
                self.blocks.cut(&mut self.closed);
            }
            self.is_rest = !is_over;
            from += end;
        }
        self.line.drain(..from);
    }
}

/// Where the first line ends behind its line feed, and whether it is over there; `None` while that is not known. It depends
/// on the first [`MOST_OPEN`] bytes only, so that it is the same however the text comes.
fn end_of_line(text: &str) -> Option<(usize, bool)> {
    let most = text.floor_char_boundary(MOST_OPEN);
    match text.as_bytes()[..most].iter().position(|byte| *byte == b'\n') {
        Some(at) => Some((at + 1, true)),
        None if text.len() < MOST_OPEN => None,
        None => {
            let half = text.floor_char_boundary(MOST_OPEN / 2);
            Some((text[half..most].rfind(' ').map_or(most, |at| half + at + 1), false))
        }
    }
}

#[cfg(test)]
mod tests;
