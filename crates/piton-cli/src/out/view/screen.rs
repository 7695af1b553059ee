//! The terminal: prose goes to standard output, everything beside it to standard error, and what stands on the last line
//! for a moment is taken away before anything else is written. What is written is gathered, then put out at once.

use crate::out::markdown::{self, Blocks};
use crate::out::print::{width, write_stderr, write_stdout};
use anstyle::Style;
use piton_core::hidden;
use unicode_width::UnicodeWidthChar;

const DIM: Style = Style::new().dimmed();
/// Lines of prose that are no longer can be read on the widest terminal.
const MOST_COLUMNS: usize = 100;
/// Rows of prose that is not drawn yet; with the line above it, fewer than the smallest terminal has.
const TAIL_ROWS: usize = 12;

/// What is to be written, and what stands there.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pieces: Vec<Piece>,
    /// Prose of which the next piece may say more.
    coming: hidden::Pieces,
    /// Whether the cursor stands behind prose that did not end its line, or prose is shown that is not drawn yet.
    mid_line: bool,
    /// Rows of what can be taken away again: the waiting line, a prompt, or prose that is not a whole block yet.
    drawn: usize,
    /// Where prose is drawn as Markdown: on a terminal.
    page: Option<Page>,
}

/// Prose that is drawn block by block.
#[derive(Debug, Default)]
struct Page {
    blocks: Blocks,
    /// Whether what is no whole block yet is shown as it comes.
    shows_tail: bool,
    /// Whether a block stands above the next.
    is_below: bool,
}

/// Text for one of the two streams.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Out(String),
    Err(String),
}

impl Screen {
    /// One on which prose is drawn as Markdown; `shows_tail` where lines can be taken away again.
    pub(super) fn of_pages(shows_tail: bool) -> Self {
        Self { page: Some(Page { shows_tail, ..Page::default() }), ..Self::default() }
    }

    /// Whether the cursor stands behind prose.
    pub(super) fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Prose, as it comes.
    pub(super) fn prose(&mut self, text: &str) {
        let mut shown = String::with_capacity(text.len());
        self.coming.push(text, &mut shown);
        let Some(page) = &mut self.page else {
            self.mid_line = !text.ends_with('\n');
            return self.pieces.push(Piece::Out(shown));
        };
        let whole = page.blocks.push(&shown);
        self.clear();
        whole.iter().for_each(|block| self.block(block));
        self.show_tail();
    }

    /// Draws a block.
    fn block(&mut self, block: &str) {
        let Some(page) = &mut self.page else { return };
        let apart = if std::mem::replace(&mut page.is_below, true) { "\n" } else { "" };
        self.pieces.push(Piece::Out(format!("{apart}{}", markdown::render(block, columns().min(MOST_COLUMNS)))));
    }

    /// Shows what is no whole block yet, as it came, until it is one.
    fn show_tail(&mut self) {
        let Some(page) = &self.page else { return };
        let pending = page.blocks.pending();
        self.mid_line = !pending.trim().is_empty();
        if !page.shows_tail || !self.mid_line {
            return;
        }
        let lines = markdown::tail(pending, columns().min(MOST_COLUMNS).saturating_sub(1), TAIL_ROWS);
        // Above it stands an empty line where the block will have one.
        let lines = if page.is_below { [vec![String::new()], lines].concat() } else { lines };
        self.drawn = lines.len();
        self.pieces.push(Piece::Err(lines.join("\n")));
    }

    /// Draws what there is: the last block is over, whatever comes next.
    pub(super) fn end_block(&mut self) {
        let Some(page) = &mut self.page else { return };
        let rest = page.blocks.finish();
        self.mid_line = false;
        self.clear();
        rest.iter().for_each(|block| self.block(block));
        self.page.iter_mut().for_each(|page| page.is_below = false);
    }

    /// Prose is over.
    pub(super) fn end_prose(&mut self) {
        let mut rest = String::new();
        std::mem::take(&mut self.coming).finish(&mut rest);
        if let Some(page) = &mut self.page {
            let whole = page.blocks.push(&rest);
            whole.iter().for_each(|block| self.block(block));
            return self.end_block();
        }
        if !rest.is_empty() {
            self.pieces.push(Piece::Out(rest));
        }
        if std::mem::take(&mut self.mid_line) {
            self.pieces.push(Piece::Out("\n".to_owned()));
        }
    }

    /// Whatever stands on the last line is over, or taken away.
    pub(super) fn end_line(&mut self) {
        self.clear();
        self.end_prose();
    }

    /// A line of its own, beside the prose.
    pub(super) fn line(&mut self, line: &str) {
        match self.page {
            // Prose goes on below it.
            Some(_) => self.clear(),
            None => self.end_line(),
        }
        self.pieces.push(Piece::Err(format!("{line}\n")));
        if self.mid_line {
            self.show_tail();
        }
    }

    /// A line that may be taken away again, in the place of the one before.
    pub(super) fn wait(&mut self, text: &str) {
        // It must fit on one line of the terminal as wide as it is now, or it could not be drawn over.
        let text = within(text, columns().saturating_sub(1));
        self.drawn = 1;
        self.pieces.push(Piece::Err(format!("\r\x1b[K{DIM}{text}{DIM:#}")));
    }

    /// A prompt that may be taken away again.
    pub(super) fn prompt(&mut self, text: &str) {
        self.clear();
        // In lines of our own, so that they end at words and can be counted; what is typed stands behind a space.
        let lines = markdown::tail(text, columns().saturating_sub(1), usize::MAX);
        self.drawn = lines.len();
        self.pieces.push(Piece::Err(format!("{} ", lines.join("\n"))));
    }

    /// Nothing has to be taken away any more.
    pub(super) fn line_was_ended(&mut self) {
        self.drawn = 0;
    }

    /// Takes the waiting line or the prompt away, all rows of it.
    pub(super) fn clear(&mut self) {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn > 0 {
            self.pieces.push(Piece::Err(format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(drawn - 1))));
        }
    }

    /// What is to be written; the caller writes it.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Writes it.
    pub(super) fn flush(&mut self) {
        for piece in self.take() {
            match piece {
                Piece::Out(text) => write_stdout(&text),
                Piece::Err(text) => write_stderr(&text),
            }
        }
    }
}

/// As much of it as so many columns hold.
fn within(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |char: &char| {
        used += char.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

/// Columns of the terminal behind standard error.
fn columns() -> usize {
    const USUAL: usize = 80;
    width(std::io::stderr()).unwrap_or(USUAL).max(2)
}
