//! Text in columns: how wide it is, where it is cut, how it wraps.
//!
//! Columns are counted by what people see as one character (a grapheme): an emoji of five code points is two columns, a
//! letter with three accents is one. This module knows neither colours nor where anything is drawn.

use std::borrow::Cow;

use piton_core::hidden;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns between two tab stops. Code indented by tabs is deep, and a terminal is narrow: eight is too many.
pub const TAB: usize = 4;
/// What stands where text was cut off. One column.
pub const CUT: &str = "…";

/// Columns of a text on one line.
pub fn width(text: &str) -> usize {
    if is_printable_ascii(text) { text.len() } else { text.graphemes(true).map(UnicodeWidthStr::width).sum() }
}

/// Columns of a line.
pub fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

/// Data as it may be shown: no character in it moves the cursor, changes the order of letters, or is invisible. Line feeds
/// and tabs stay.
pub fn clean(text: &str) -> String {
    hidden::visible(text).into_owned()
}

/// The same in lines, with tabs as the blanks they stand for.
pub fn clean_lines(text: &str) -> Vec<String> {
    hidden::visible(text).lines().map(|line| without_tabs(line).into_owned()).collect()
}

/// A line with blanks up to the next stop in place of each tab.
pub fn without_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let (mut out, mut column) = (String::with_capacity(line.len() + 2 * TAB), 0);
    for (at, part) in line.split('\t').enumerate() {
        if at > 0 {
            let blanks = TAB - column % TAB;
            out.extend(std::iter::repeat_n(' ', blanks));
            column += blanks;
        }
        out.push_str(part);
        column += width(part);
    }
    Cow::Owned(out)
}

/// The text, or as much of it as fits before a `…`. Reads no further than it must.
pub fn cut(text: &str, columns: usize) -> String {
    match cut_at(text, columns) {
        None => text.to_owned(),
        Some(_) if columns == 0 => String::new(),
        Some(end) => format!("{}{CUT}", &text[..end]),
    }
}

/// The line, or as much of it as fits before a `…`.
pub fn fit(line: &Line<'static>, columns: usize) -> Line<'static> {
    let (mut spans, mut used) = (Vec::new(), 0);
    for (at, span) in line.spans.iter().enumerate() {
        let more = line.spans[at + 1..].iter().any(|span| width(&span.content) > 0);
        let wide = width_up_to(&span.content, columns - used);
        match wide {
            Some(wide) if used + wide < columns || !more => {
                used += wide;
                spans.push(span.clone());
            }
            Some(_) | None if used == columns => break,
            Some(_) | None => {
                let end = end_before(&span.content, (columns - used).saturating_sub(1));
                spans.push(Span::styled(format!("{}{CUT}", &span.content[..end]), span.style));
                break;
            }
        }
    }
    Line { spans, ..line.clone_style() }
}

/// The line in rows of at most so many columns. Rows end at blanks, which are left out there, and around wide characters;
/// a word longer than a row is broken where the row is full. Rows after the first are indented by `hang` columns, or by as
/// many as leave half of the row. A character that is wider than a row has a row to itself.
pub fn wrap(line: &Line<'static>, columns: usize, hang: usize) -> Vec<Line<'static>> {
    let columns = columns.max(1);
    let hang = if columns < 4 { 0 } else { hang.min(columns / 2) };
    let mut rows = Rows { columns, hang, ..Rows::default() };
    for span in &line.spans {
        if is_printable_ascii(&span.content) {
            rows.take_ascii(&span.content, span.style);
        } else {
            span.content.graphemes(true).for_each(|grapheme| rows.take(grapheme, span.style));
        }
    }
    rows.finish().into_iter().map(|spans| Line { spans, ..line.clone_style() }).collect()
}

/// A row without blanks at its end: they would be copied with it.
pub fn trimmed(mut spans: Vec<Span<'static>>) -> Line<'static> {
    while let Some(last) = spans.last_mut() {
        let kept = last.content.trim_end_matches(' ').len();
        if kept == last.content.len() && kept > 0 {
            break;
        }
        last.content.to_mut().truncate(kept);
        if kept > 0 {
            break;
        }
        spans.pop();
    }
    Line::from(spans)
}

trait CloneStyle {
    fn clone_style(&self) -> Line<'static>;
}

impl CloneStyle for Line<'static> {
    /// A line without text, as this one is otherwise.
    fn clone_style(&self) -> Line<'static> {
        Line { style: self.style, alignment: self.alignment, spans: Vec::new() }
    }
}

fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Columns of a text, unless they are more than these.
fn width_up_to(text: &str, columns: usize) -> Option<usize> {
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += grapheme.width();
        if used > columns {
            return None;
        }
    }
    Some(used)
}

/// Where the part of a text ends that fits into so many columns.
fn end_before(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme.width();
        if used > columns {
            return at;
        }
    }
    text.len()
}

/// Where a text is cut so that it and a `…` fit; `None` if it fits whole.
fn cut_at(text: &str, columns: usize) -> Option<usize> {
    width_up_to(text, columns).is_none().then(|| end_before(text, columns.saturating_sub(1)))
}

/// Text of several styles, with its width.
#[derive(Default)]
struct Run {
    spans: Vec<Span<'static>>,
    width: usize,
}

impl Run {
    fn push(&mut self, text: &str, style: Style) {
        self.width += width(text);
        match self.spans.last_mut() {
            Some(span) if span.style == style => span.content.to_mut().push_str(text),
            Some(_) | None => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn append(&mut self, other: Self) {
        for span in other.spans {
            match self.spans.last_mut() {
                Some(last) if last.style == span.style => last.content.to_mut().push_str(&span.content),
                Some(_) | None => self.spans.push(span),
            }
        }
        self.width += other.width;
    }
}

/// Rows that are being filled.
#[derive(Default)]
struct Rows {
    columns: usize,
    hang: usize,
    done: Vec<Vec<Span<'static>>>,
    row: Run,
    /// Columns of the row before its text: the indent of all rows but the first.
    indent: usize,
    /// What stands between the row and the word, and is dropped if the row ends there.
    blanks: Run,
    word: Run,
    /// The word did not fit into a whole row: what comes of it is put into rows at once.
    is_broken: bool,
    /// The last character of the word.
    last: Option<(char, usize)>,
}

impl Rows {
    /// Takes words of ASCII, each at once.
    fn take_ascii(&mut self, text: &str, style: Style) {
        let mut rest = text;
        while !rest.is_empty() {
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            if blanks > 0 {
                self.end_word();
                self.blanks.push(&rest[..blanks], style);
            }
            let words = &rest[blanks..];
            let (word, behind) = words.split_at(words.find(' ').unwrap_or(words.len()));
            rest = behind;
            if word.is_empty() {
                continue;
            }
            if self.is_broken || self.last.is_some() || self.word.width + word.len() > self.columns - self.hang {
                (0..word.len()).for_each(|at| self.take(&word[at..=at], style));
            } else {
                self.word.push(word, style);
                self.last = word.chars().next_back().map(|char| (char, 1));
            }
        }
    }

    fn take(&mut self, grapheme: &str, style: Style) {
        let Some(first) = grapheme.chars().next() else { return };
        if first.is_whitespace() && first != '\u{a0}' && first != '\u{202f}' {
            self.end_word();
            self.blanks.push(if first.is_control() { " " } else { grapheme }, style);
            return;
        }
        let wide = grapheme.width();
        if self.last.is_some_and(|last| may_break(last, (first, wide))) {
            self.end_word();
        }
        self.last = Some((first, wide));
        if self.is_broken {
            self.put(grapheme, style);
            return;
        }
        self.word.push(grapheme, style);
        if self.word.width > self.columns - self.hang {
            self.break_word();
        }
    }

    /// Columns that are free in the row.
    fn room(&self) -> usize {
        self.columns.saturating_sub(self.row.width)
    }

    fn is_empty(&self) -> bool {
        self.row.width <= self.indent
    }

    fn end_word(&mut self) {
        self.last = None;
        self.is_broken = false;
        let word = std::mem::take(&mut self.word);
        if word.spans.is_empty() {
            return;
        }
        self.place_blanks(word.width);
        self.row.append(word);
    }

    /// The blanks before a word, if it fits behind them; else the row ends here.
    fn place_blanks(&mut self, wide: usize) {
        let blanks = std::mem::take(&mut self.blanks);
        if blanks.width + wide <= self.room() {
            self.row.append(blanks);
        } else if !self.is_empty() {
            self.end_row();
        }
    }

    fn break_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        self.place_blanks(1);
        self.is_broken = true;
        for span in &word.spans {
            for grapheme in span.content.graphemes(true) {
                self.put(grapheme, span.style);
            }
        }
    }

    fn put(&mut self, grapheme: &str, style: Style) {
        if grapheme.width() > self.room() && !self.is_empty() {
            self.end_row();
        }
        self.row.push(grapheme, style);
    }

    fn end_row(&mut self) {
        self.done.push(std::mem::take(&mut self.row).spans);
        self.indent = self.hang;
        if self.hang > 0 {
            self.row.push(&" ".repeat(self.hang), Style::new());
        }
    }

    fn finish(mut self) -> Vec<Vec<Span<'static>>> {
        self.end_word();
        self.done.push(self.row.spans);
        self.done
    }
}

/// Whether a row may end between two characters of a word, of which the widths are given: at wide ones, but not before
/// what closes nor behind what opens.
fn may_break((last, last_width): (char, usize), (next, next_width): (char, usize)) -> bool {
    let opens = |char| matches!(char, '（' | '［' | '｛' | '「' | '『' | '【' | '〔' | '〈' | '《');
    let closes = |char| {
        matches!(
            char,
            '）' | '］'
                | '｝'
                | '」'
                | '』'
                | '】'
                | '〕'
                | '〉'
                | '》'
                | '、'
                | '。'
                | '，'
                | '．'
                | '！'
                | '？'
                | '：'
                | '；'
                | 'ー'
                | '々'
        )
    };
    let splits = |char: char, wide: usize| wide == 2 || char.is_alphanumeric();
    (last_width == 2 || next_width == 2)
        && splits(last, last_width)
        && splits(next, next_width)
        && !opens(last)
        && !closes(next)
}

#[cfg(test)]
mod tests;
