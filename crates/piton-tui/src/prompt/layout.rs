//! How the text is laid out in rows: where each begins, and what stands in it.
//!
//! Rows are computed from the beginning as far as they are wanted, and an edit forgets those behind it. So a key costs
//! what stands on the screen, however long the text is.

use super::buffer::Fragment;
use crate::theme::Theme;
use piton_core::hidden;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use std::borrow::Cow;
use std::ops::Range;
use unicode_width::UnicodeWidthStr;

/// Columns from one tab stop to the next.
const TAB_COLUMNS: usize = 4;

/// Where rows begin.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// How many columns a row has: one less than the terminal gives, for the cursor behind the last character.
    width: usize,
    /// The first byte of each row that is known. Never empty.
    starts: Vec<usize>,
    /// Whether all rows are known.
    is_whole: bool,
    /// The first row that is shown.
    pub(super) top: usize,
}

impl Default for Rows {
    fn default() -> Self {
        Self { width: usize::MAX, starts: vec![0], is_whole: false, top: 0 }
    }
}

/// What is drawn for one character.
struct Cell<'a> {
    text: Cow<'a, str>,
    width: usize,
    kind: CellKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Plain,
    /// A row may end behind it.
    Blank,
    /// A row may end before it and behind it.
    Wide,
    /// A mark for what is not shown itself.
    Mark,
    Chip,
}

impl Rows {
    /// Lays out for a terminal of so many columns.
    pub(super) fn fit(&mut self, columns: usize) {
        let width = columns.saturating_sub(1).max(1);
        if width != self.width {
            *self = Self { width, ..Self::default() };
        }
    }

    /// Forgets what an edit at this place may have changed. The row before is among it: a word that is shorter now may fit
    /// there. So is the character before the edit: how wide its mark is may be decided by the one behind it.
    pub(super) fn forget_from(&mut self, at: usize) {
        let behind = self.starts.partition_point(|start| *start < at.max(1));
        self.starts.truncate(behind.saturating_sub(1).max(1));
        self.is_whole = false;
    }

    /// The row in which this place stands.
    pub(super) fn row_of(&mut self, text: &Fragment, at: usize) -> usize {
        while !self.is_whole && self.starts.last().is_none_or(|start| *start <= at) {
            self.extend(text);
        }
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Whether there is such a row.
    pub(super) fn has_row(&mut self, text: &Fragment, row: usize) -> bool {
        while !self.is_whole && self.starts.len() <= row {
            self.extend(text);
        }
        row < self.starts.len()
    }

    /// How many rows there are in all.
    pub(super) fn count(&mut self, text: &Fragment) -> usize {
        while !self.is_whole {
            self.extend(text);
        }
        self.starts.len()
    }

    /// The column of a place within its row.
    pub(super) fn column_of(&self, text: &Fragment, row: usize, at: usize) -> usize {
        let (mut column, mut place) = (0, self.starts[row]);
        while place < at {
            let next = text.next(place);
            column += self.cell(text, place..next, column).width;
            place = next;
        }
        column
    }

    /// The place in a row that is nearest to a column, not behind it.
    pub(super) fn place_at(&mut self, text: &Fragment, row: usize, column: usize) -> usize {
        let end = self.end_of(text, row);
        let (mut reached, mut place) = (0, self.starts[row]);
        while place < end {
            let next = text.next(place);
            reached += self.cell(text, place..next, reached).width;
            // The end of a row that is not the end of a line is the beginning of the next row.
            let ends_row = next == end && self.starts.get(row + 1) == Some(&end);
            if reached > column || ends_row {
                break;
            }
            place = next;
        }
        place
    }

    /// Where the text of a row ends, its line feed not counted.
    pub(super) fn end_of(&mut self, text: &Fragment, row: usize) -> usize {
        if !self.has_row(text, row + 1) {
            return text.len();
        }
        let next = self.starts[row + 1];
        if text.text()[..next].ends_with('\n') { next - 1 } else { next }
    }

    /// One row as it is drawn; what is within `chosen` is drawn as such.
    pub(super) fn line(&mut self, text: &Fragment, row: usize, chosen: &Range<usize>, theme: &Theme) -> Line<'static> {
        let end = self.end_of(text, row);
        let (mut column, mut place) = (0, self.starts[row]);
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut piece = (String::new(), theme.text);
        let mut put = |text: &str, style: Style| {
            if piece.1 != style && !piece.0.is_empty() {
                spans.push(Span::styled(std::mem::take(&mut piece.0), piece.1));
            }
            piece.0.push_str(text);
            piece.1 = style;
        };
        while place < end {
            let next = text.next(place);
            let cell = self.cell(text, place..next, column);
            let style = match cell.kind {
                _ if chosen.contains(&place) => theme.chosen,
                CellKind::Chip => theme.accent,
                CellKind::Mark => theme.warn,
                CellKind::Plain | CellKind::Blank | CellKind::Wide => theme.text,
            };
            put(&cell.text, style);
            column += cell.width;
            place = next;
        }
        // An empty line that is chosen is seen as one blank.
        if chosen.contains(&end) && text.text()[end..].starts_with('\n') {
            put(" ", theme.chosen);
        }
        if !piece.0.is_empty() {
            spans.push(Span::styled(piece.0, piece.1));
        }
        Line::from(spans)
    }

    /// Finds where the next row begins.
    fn extend(&mut self, text: &Fragment) {
        let start = self.starts.last().copied().unwrap_or_default();
        match self.row_end(text, start) {
            Some(next) => self.starts.push(next),
            None => self.is_whole = true,
        }
    }

    /// Where the row behind the one that begins at `start` begins; `None` behind the last one.
    fn row_end(&self, text: &Fragment, start: usize) -> Option<usize> {
        if self.width == usize::MAX {
            return text.text()[start..].find('\n').map(|found| start + found + 1);
        }
        let (mut column, mut place) = (0, start);
        let mut last_break = None;
        while place < text.len() {
            if text.text().as_bytes()[place] == b'\n' {
                return Some(place + 1);
            }
            let next = text.next(place);
            let cell = self.cell(text, place..next, column);
            if column > 0 && cell.kind == CellKind::Wide {
                last_break = Some(place);
            }
            if column > 0 && column + cell.width > self.width {
                let keeps_word = if cell.kind == CellKind::Blank { None } else { last_break };
                return Some(keeps_word.unwrap_or(place));
            }
            column += cell.width;
            if matches!(cell.kind, CellKind::Blank | CellKind::Wide) {
                last_break = Some(next);
            }
            place = next;
        }
        None
    }

    fn cell<'a>(&self, text: &'a Fragment, range: Range<usize>, column: usize) -> Cell<'a> {
        let shown = &text.text()[range.clone()];
        if let [byte @ b' '..=b'~'] = shown.as_bytes() {
            let kind = if *byte == b' ' { CellKind::Blank } else { CellKind::Plain };
            return Cell { text: Cow::Borrowed(shown), width: 1, kind };
        }
        let cell = if text.chip_at(range.start).is_some() {
            Cell { text: Cow::Borrowed(shown), width: shown.width(), kind: CellKind::Chip }
        } else if shown == "\t" {
            let width = TAB_COLUMNS - column % TAB_COLUMNS;
            Cell { text: Cow::Owned(" ".repeat(width)), width, kind: CellKind::Blank }
        } else if shown == "\n" {
            Cell { text: Cow::Borrowed(""), width: 0, kind: CellKind::Plain }
        } else {
            character(text, range)
        };
        if cell.width <= self.width { cell } else { cell.cut(self.width) }
    }
}

/// A character that is not plain ASCII. What people would not see is drawn as a mark.
fn character(text: &Fragment, range: Range<usize>) -> Cell<'_> {
    let shown = &text.text()[range.clone()];
    if !shown.chars().any(hidden::is_hidden) {
        let width = shown.width();
        if width == 0 {
            // An accent without a letter would stand on whatever is left of it.
            return Cell { text: Cow::Owned(format!("◌{shown}")), width: 1, kind: CellKind::Mark };
        }
        let kind = match width {
            1 if shown.starts_with(char::is_whitespace) => CellKind::Blank,
            1 => CellKind::Plain,
            _ => CellKind::Wide,
        };
        return Cell { text: Cow::Borrowed(shown), width, kind };
    }
    // Whether a joiner at its end is needed is decided by the letter behind it.
    let behind = text.text()[range.end..].chars().next().filter(|char| !hidden::is_hidden(*char));
    let together: String = shown.chars().chain(behind).collect();
    let mut visible = hidden::visible(&together).into_owned();
    if let Some(behind) = behind {
        visible.truncate(visible.len() - behind.len_utf8());
    }
    let kind = if visible == shown { CellKind::Plain } else { CellKind::Mark };
    Cell { width: visible.width(), text: Cow::Owned(visible), kind }
}

impl Cell<'_> {
    /// No wider than a row is.
    fn cut(self, width: usize) -> Self {
        let mut text = String::new();
        let mut used = 1;
        for char in self.text.chars() {
            let columns = unicode_width::UnicodeWidthChar::width(char).unwrap_or(0);
            if used + columns > width {
                break;
            }
            used += columns;
            text.push(char);
        }
        text.push('…');
        Self { text: Cow::Owned(text), width: used, kind: self.kind }
    }
}
