//! The terminal: prose goes to standard output, everything beside it to standard error, and what stands on the last line
//! for a moment is taken away before anything else is written. What is written is gathered, then put out at once.

use crate::out::print::{width, write_stderr, write_stdout};
use anstyle::Style;
use piton_core::hidden;

const DIM: Style = Style::new().dimmed();

/// What is to be written, and what stands there.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pieces: Vec<Piece>,
    /// Prose of which the next piece may say more.
    coming: hidden::Pieces,
    /// Whether the cursor stands behind prose that did not end its line.
    mid_line: bool,
    /// Characters of what can be taken away again: the waiting line, or a prompt.
    drawn: usize,
}

/// Text for one of the two streams.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Out(String),
    Err(String),
}

impl Screen {
    /// Whether the cursor stands behind prose.
    pub(super) fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Prose, as it comes.
    pub(super) fn prose(&mut self, text: &str) {
        let mut shown = String::with_capacity(text.len());
        self.coming.push(text, &mut shown);
        self.mid_line = !text.ends_with('\n');
        self.pieces.push(Piece::Out(shown));
    }

    /// Prose is over.
    pub(super) fn end_prose(&mut self) {
        let mut rest = String::new();
        std::mem::take(&mut self.coming).finish(&mut rest);
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
        self.end_line();
        self.pieces.push(Piece::Err(format!("{line}\n")));
    }

    /// A line that may be taken away again, in the place of the one before.
    pub(super) fn wait(&mut self, text: &str) {
        // It must fit on one line of the terminal as wide as it is now, or it could not be drawn over.
        let text: String = text.chars().take(columns().saturating_sub(1)).collect();
        self.drawn = text.chars().count();
        self.pieces.push(Piece::Err(format!("\r\x1b[K{DIM}{text}{DIM:#}")));
    }

    /// A prompt that may be taken away again.
    pub(super) fn prompt(&mut self, text: &str) {
        self.clear();
        self.drawn = text.chars().count();
        self.pieces.push(Piece::Err(text.to_owned()));
    }

    /// Nothing has to be taken away any more.
    pub(super) fn line_was_ended(&mut self) {
        self.drawn = 0;
    }

    /// Takes the waiting line or the prompt away, all rows of it.
    pub(super) fn clear(&mut self) {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn > 0 {
            let above = (drawn - 1) / columns();
            self.pieces.push(Piece::Err(format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(above))));
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

/// Columns of the terminal behind standard error.
fn columns() -> usize {
    const USUAL: usize = 80;
    width(std::io::stderr()).unwrap_or(USUAL).max(2)
}
