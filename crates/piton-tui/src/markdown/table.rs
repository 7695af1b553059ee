//! Tables: how wide each column is, and rows of wrapped cells.

use ratatui_core::style::Modifier;
use ratatui_core::text::{Line, Span};

use super::inline;
use crate::text;
use crate::theme::Theme;

/// Columns below which a table's column is not narrowed.
const NARROWEST: usize = 6;
/// Columns between two columns of a table.
const GAP: usize = 2;

/// A table as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    head: Vec<String>,
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

/// Where the text of a column stands in it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Left,
    Middle,
    Right,
}

/// The table that two lines begin, if the second is the rule below the first.
pub(super) fn begin(head: &str, rule: &str) -> Option<Table> {
    if !rule.contains('-') || !(rule.contains('|') || head.contains('|')) {
        return None;
    }
    let sides: Vec<Side> = cells(rule).iter().map(|cell| side(cell)).collect::<Option<_>>()?;
    let head = cells(head);
    (head.len() == sides.len()).then_some(Table { head, sides, rows: Vec::new() })
}

fn side(cell: &str) -> Option<Side> {
    let (left, right) = (cell.starts_with(':'), cell.ends_with(':'));
    let dashes = cell.trim_start_matches(':').trim_end_matches(':');
    let is_rule = !dashes.is_empty()
        && dashes.bytes().all(|byte| byte == b'-')
        && cell.len() - dashes.len() == usize::from(left) + usize::from(right);
    is_rule.then_some(match (left, right) {
        (true, true) => Side::Middle,
        (false, true) => Side::Right,
        (true | false, false) => Side::Left,
    })
}

/// The cells of a line, between bars that no backslash stands before.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let Some(cell) = cells.last_mut() else { break };
        match char {
            '\\' if chars.peek() == Some(&'|') => {
                cell.push('|');
                chars.next();
            }
            '\\' => {
                cell.push('\\');
                cell.extend(chars.next());
            }
            '|' => cells.push(String::new()),
            _ => cell.push(char),
        }
    }
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

type Cell = Vec<Line<'static>>;

impl Table {
    pub(super) fn add_row(&mut self, line: &str) {
        let mut row = cells(line);
        if row.len() > self.head.len() {
            let last = row.split_off(self.head.len() - 1).join(" | ");
            row.push(last);
        }
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    pub(super) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// A table with the same head.
    pub(super) fn without_rows(&self) -> Self {
        Self { head: self.head.clone(), sides: self.sides.clone(), rows: Vec::new() }
    }

    pub(super) fn draw(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let bold = theme.text.add_modifier(Modifier::BOLD);
        let head: Vec<Cell> = self.head.iter().map(|cell| inline::lines(cell, bold, theme)).collect();
        let rows: Vec<Vec<Cell>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| inline::lines(cell, theme.text, theme)).collect())
            .collect();
        let widest = |at: usize| rows.iter().chain([&head]).map(|row| cell_width(&row[at])).max().unwrap_or(0);
        let natural: Vec<usize> = (0..head.len()).map(widest).collect();
        let Some(widths) = fitted(&natural, columns) else { return listed(&head, &rows, columns) };
        let mut out = self.draw_row(&head, &widths);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        out.push(Line::styled(rule.join(&" ".repeat(GAP)), theme.dim));
        for row in &rows {
            out.extend(self.draw_row(row, &widths));
        }
        out
    }

    fn draw_row(&self, row: &[Cell], widths: &[usize]) -> Vec<Line<'static>> {
        let wrapped: Vec<Cell> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| cell.iter().flat_map(|line| text::wrap(line, *width, 0)).collect())
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let rows = (0..height).map(|at| {
            let (mut spans, mut gap) = (Vec::new(), 0);
            for ((cell, width), side) in wrapped.iter().zip(widths).zip(&self.sides) {
                let line = cell.get(at).cloned().unwrap_or_default();
                let free = width.saturating_sub(text::line_width(&line));
                let before = match side {
                    Side::Left => 0,
                    Side::Middle => free / 2,
                    Side::Right => free,
                };
                if gap + before > 0 && !line.spans.is_empty() {
                    spans.push(Span::raw(" ".repeat(gap + before)));
                    gap = 0;
                }
                let used = if line.spans.is_empty() { gap + width } else { free - before };
                spans.extend(line.spans);
                gap = used + GAP;
            }
            Line::from(spans)
        });
        rows.collect()
    }
}

fn cell_width(cell: &Cell) -> usize {
    cell.iter().map(text::line_width).max().unwrap_or(0).max(1)
}

/// The widths of the columns, the widest narrowed until all fit; `None` if that makes them too narrow to read.
fn fitted(natural: &[usize], columns: usize) -> Option<Vec<usize>> {
    let room = columns.checked_sub(GAP * natural.len().saturating_sub(1))?;
    if natural.iter().map(|width| (*width).min(NARROWEST)).sum::<usize>() > room {
        return None;
    }
    // No column is wider than this, unless all fit.
    let sum = |most: usize| natural.iter().map(|width| (*width).min(most)).sum::<usize>();
    let (mut fits, mut too_wide) = (NARROWEST, natural.iter().max().map_or(NARROWEST, |width| width + 1));
    while fits + 1 < too_wide {
        let middle = fits.midpoint(too_wide);
        if sum(middle) <= room { fits = middle } else { too_wide = middle }
    }
    let mut left = room - sum(fits);
    let widths = natural.iter().map(|width| {
        let more = usize::from(*width > fits && left > 0);
        left -= more;
        (*width).min(fits) + more
    });
    Some(widths.collect())
}

/// Where the columns do not fit beside each other: a line for each cell, with the name of its column.
fn listed(head: &[Cell], rows: &[Vec<Cell>], columns: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let rows: &[Vec<Cell>] = if rows.is_empty() { &[head.to_vec()] } else { rows };
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push(Line::default());
        }
        for (name, cell) in head.iter().zip(row) {
            let mut spans: Vec<Span<'static>> = name.iter().flat_map(|line| line.spans.clone()).collect();
            if !std::ptr::eq(name, cell) {
                spans.push(Span::raw(": "));
                spans.extend(cell.iter().flat_map(|line| line.spans.clone()));
            }
            out.extend(text::wrap(&Line::from(spans), columns, 2));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_share_what_there_is() {
        assert_eq!(fitted(&[4, 10], 20), Some(vec![4, 10]));
        assert_eq!(fitted(&[4, 30], 22), Some(vec![4, 16]));
        assert_eq!(fitted(&[30, 31, 4], 30), Some(vec![11, 11, 4]));
        assert_eq!(fitted(&[30, 30], 13), None);
        assert_eq!(fitted(&[3; 20], 40), None);
    }

    #[test]
    fn cells_end_at_bars() {
        assert_eq!(cells("| a | b \\| c | `d` |"), ["a", "b | c", "`d`"]);
        assert_eq!(cells("a|b||"), ["a", "b", ""]);
        assert!(begin("a | b", "--|:-:").is_some());
        assert!(begin("a | b", "--|x").is_none() && begin("a", "---").is_none() && begin("a|b", "---").is_none());
    }
}
