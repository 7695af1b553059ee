//! A unified diff as people read it: a number and a sign for each line, and within a changed line the words that changed.
//!
//! ```text
//!   1   def add(a, b):
//!   2 −     return a - b
//!   2 +     return a + b
//!   ⋯
//!  40   print(add(1, 2))
//! ```
//! What is no part of a hunk stands there as it is. This module must not know where the diff came from.

mod hunk;
mod words;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use crate::highlight::{self, Language};
use crate::text;
use crate::theme::Theme;
use hunk::{Part, Row, Sign};

/// Columns from which [`split`] shows two columns.
pub const SPLIT_COLUMNS: usize = 140;
/// Digits of the line numbers, unless they are longer.
const DIGITS: usize = 3;
/// Columns of a line behind which it is cut: nobody reads on, and a line of a megabyte would be rows without end.
const MOST_COLUMNS: usize = 4_000;
/// Between the two columns of [`split`].
const BETWEEN: &str = " │ ";

/// The diff in rows of at most so many columns. `path` says which language it is.
pub fn lines(unified: &str, path: &str, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    drawn(unified, path, columns, theme, |pen, rows, texts| {
        rows.iter().zip(texts).flat_map(|(row, text)| pen.numbered(row, text, columns)).collect()
    })
}

/// The diff with what was at the left and what is at the right, where there are [`SPLIT_COLUMNS`]; else as [`lines`].
pub fn split(unified: &str, path: &str, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    if columns < SPLIT_COLUMNS {
        return lines(unified, path, columns, theme);
    }
    let half = (columns - text::width(BETWEEN)) / 2;
    drawn(unified, path, columns, theme, |pen, rows, texts| {
        let side = |at: Option<usize>, sign| {
            at.map(|at| pen.numbered(&rows[at].seen_as(sign), &texts[at], half)).unwrap_or_default()
        };
        let pairs = hunk::pairs(rows).into_iter();
        pairs
            .flat_map(|(left, right)| beside(&side(left, Sign::Removed), &side(right, Sign::Added), half, theme))
            .collect()
    })
}

/// The diff with its hunks as `hunk` draws them from their rows and highlighted texts.
fn drawn(
    unified: &str,
    path: &str,
    columns: usize,
    theme: &Theme,
    hunk: impl Fn(&Pen<'_>, &[Row<'_>], &[Vec<Span<'static>>]) -> Vec<Line<'static>>,
) -> Vec<Line<'static>> {
    let parts = hunk::parts(unified);
    let pen = Pen::new(&parts, path, theme);
    let mut out = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Said(line) => out.push(pen.said(line, columns)),
            Part::Hunk(rows) => {
                if follows_hunk(&parts, at) {
                    out.push(pen.left_out(columns));
                }
                out.extend(hunk(&pen, rows, &pen.texts(rows)));
            }
        }
    }
    out
}

/// How many lines a diff adds, and how many it removes.
pub fn counts(unified: &str) -> (usize, usize) {
    let (mut added, mut removed) = (0, 0);
    for part in hunk::parts(unified) {
        if let Part::Hunk(rows) = part {
            added += rows.iter().filter(|row| row.sign == Sign::Added).count();
            removed += rows.iter().filter(|row| row.sign == Sign::Removed).count();
        }
    }
    (added, removed)
}

fn follows_hunk(parts: &[Part<'_>], at: usize) -> bool {
    at > 0 && matches!(parts[at - 1], Part::Hunk(_))
}

/// Rows of two columns beside each other.
fn beside(left: &[Line<'static>], right: &[Line<'static>], half: usize, theme: &Theme) -> Vec<Line<'static>> {
    let rows = (0..left.len().max(right.len())).map(|at| {
        let mut line = left.get(at).cloned().unwrap_or_default();
        line.spans.push(Span::raw(" ".repeat(half.saturating_sub(text::line_width(&line)))));
        let right = right.get(at).cloned().unwrap_or_default();
        line.spans.push(Span::styled(BETWEEN, theme.dim));
        line.spans.extend(right.spans);
        text::trimmed(line.spans)
    });
    rows.collect()
}

/// What draws the lines of one diff.
struct Pen<'a> {
    theme: &'a Theme,
    language: Option<Language>,
    digits: usize,
}

impl<'a> Pen<'a> {
    fn new(parts: &[Part<'_>], path: &str, theme: &'a Theme) -> Self {
        let rows = parts.iter().flat_map(|part| match part {
            Part::Said(_) => [].iter(),
            Part::Hunk(rows) => rows.iter(),
        });
        let most = rows.map(|row| row.number).max().unwrap_or(0);
        Self { theme, language: highlight::language(path), digits: most.to_string().len().max(DIGITS) }
    }

    fn said(&self, line: &str, columns: usize) -> Line<'static> {
        text::fit(&Line::styled(shown(line), self.theme.dim), columns)
    }

    /// Lines between two hunks.
    fn left_out(&self, columns: usize) -> Line<'static> {
        text::fit(&Line::styled(format!("{:>1$}", '⋯', self.digits), self.theme.dim), columns)
    }

    /// The lines of a hunk in colours, with marks where words changed.
    fn texts(&self, rows: &[Row<'_>]) -> Vec<Vec<Span<'static>>> {
        let shown = shown_rows(rows);
        let changed = words::changed(rows, &shown);
        let (mut before, mut after) = (highlight::State::default(), highlight::State::default());
        let lines = rows.iter().zip(&shown).zip(changed).map(|((row, text), changed)| {
            let code = |state: &mut highlight::State| match self.language {
                Some(language) => highlight::line(language, state, text, self.theme),
                None => vec![Span::styled(text.clone(), self.theme.text)],
            };
            let (spans, line, word) = match row.sign {
                Sign::Kept => {
                    code(&mut before);
                    return code(&mut after);
                }
                Sign::Removed => (code(&mut before), self.theme.removed, self.theme.removed_word),
                Sign::Added => (code(&mut after), self.theme.added, self.theme.added_word),
            };
            // Two colours of letters would say two things. Where the change is shown by what is behind them, they keep theirs.
            let spans = if line.bg.is_some() { spans } else { vec![Span::raw(text.clone())] };
            marked(&spans, &changed, line, word)
        });
        lines.collect()
    }

    /// A line with its number and sign, in as many rows as it needs.
    fn numbered(&self, row: &Row<'_>, text: &[Span<'static>], columns: usize) -> Vec<Line<'static>> {
        let gutter = format!("{:>1$} ", row.number, self.digits);
        let (sign, style) = match row.sign {
            Sign::Kept => (' ', self.theme.dim),
            Sign::Removed => ('−', self.theme.removed),
            Sign::Added => ('+', self.theme.added),
        };
        let width = self.digits + 3;
        let wrapped = text::wrap(&Line::from(text.to_vec()), columns.saturating_sub(width).max(1), 0);
        let rows = wrapped.into_iter().enumerate().map(|(at, row)| {
            let mut spans = match at {
                0 => vec![Span::styled(gutter.clone(), self.theme.dim), Span::styled(sign.to_string(), style)],
                _ => vec![Span::raw(" ".repeat(width - 1))],
            };
            spans.push(Span::raw(" "));
            spans.extend(row.spans);
            text::fit(&text::trimmed(spans), columns)
        });
        rows.collect()
    }
}

/// A line of data as it is shown, no longer than it is of use.
fn shown(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let end = line.char_indices().nth(MOST_COLUMNS).map(|(at, _)| at);
    let clean = text::clean(&line[..end.unwrap_or(line.len())]).replace('\n', "\\n");
    let mut shown = text::without_tabs(&clean).into_owned();
    if let Some(end) = end {
        shown.push_str(&format!("{} ({} bytes more)", text::CUT, line.len() - end));
    }
    shown
}

/// The rows of a hunk as they are shown. Where a change is one of tabs, blanks or line ends, these are shown, too.
fn shown_rows(rows: &[Row<'_>]) -> Vec<String> {
    let mut all: Vec<String> = rows.iter().map(|row| shown(row.text)).collect();
    for (removed, added) in hunk::pairs(rows) {
        let (Some(removed), Some(added)) = (removed, added) else { continue };
        if all[removed] == all[added] && rows[removed].text != rows[added].text {
            for at in [removed, added] {
                all[at] = shown(&rows[at].text.replace('\t', "→\t").replace('\r', "␍"));
            }
        }
    }
    for (row, shown) in rows.iter().zip(&mut all).filter(|(row, _)| row.sign != Sign::Kept) {
        let kept = if row.text.ends_with([' ', '\t']) { shown.trim_end_matches(' ').len() } else { shown.len() };
        let blanks = shown.len() - kept;
        shown.truncate(kept);
        shown.extend(std::iter::repeat_n('·', blanks));
    }
    all
}

/// The text in the style of its line, and where it changed in that of changed words.
fn marked(spans: &[Span<'static>], changed: &[std::ops::Range<usize>], line: Style, word: Style) -> Vec<Span<'static>> {
    let (mut out, mut at) = (Vec::new(), 0);
    for span in spans {
        let end = at + span.content.len();
        let mut from = at;
        while from < end {
            let inside = changed.iter().find(|range| range.contains(&from));
            let next = changed.iter().map(|range| range.start).find(|start| *start > from);
            let to = inside.map_or(next.unwrap_or(end), |range| range.end).min(end);
            let style = match inside {
                Some(_) => word,
                // The colour of the code, if it has one, before what is behind the line.
                None if line.bg.is_some() => line.patch(Style { bg: None, ..span.style }),
                None => line,
            };
            out.push(Span::styled(span.content[from - at..to - at].to_owned(), style));
            from = to;
        }
        at = end;
    }
    out
}

#[cfg(test)]
mod tests;
