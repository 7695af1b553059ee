//! Lines as the bytes that a terminal draws them from.

mod links;

pub use links::Links;

use crate::text;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use std::fmt::Write as _;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// Begins a frame that is shown at once, and ends it (synchronized output).
pub(crate) const SYNC: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");
/// Takes all colours and attributes back.
const RESET: &str = "\x1b[0m";

/// The columns that a line takes.
pub(crate) fn width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| text::width(&span.content)).sum()
}

fn graphemes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.grapheme_indices(true)
}

/// Appends the bytes of a line: its spans from the left, without a line's end.
pub(crate) fn line(line: &Line<'_>, links: &Links, out: &mut String) {
    line_from(line, 0, links, out);
}

/// Appends what of a line stands from this column on.
pub(crate) fn line_from(line: &Line<'_>, column: usize, links: &Links, out: &mut String) {
    let mut at = 0;
    for span in &line.spans {
        let wide = text::width(&span.content);
        let shown = if at >= column { &*span.content } else { behind(&span.content, column - at) };
        at += wide;
        if shown.is_empty() {
            continue;
        }
        let style = line.style.patch(span.style);
        let codes = sgr(style);
        if !codes.is_empty() {
            let _ = write!(out, "\x1b[{codes}m");
        }
        match link(&Span::styled(shown, style)) {
            Some(address) => {
                let _ = write!(out, "\x1b]8;;{address}\x1b\\{shown}\x1b]8;;\x1b\\");
            }
            None => linked(shown, &links.find(&span.content), span.content.len() - shown.len(), out),
        }
        if !codes.is_empty() {
            out.push_str(RESET);
        }
    }
}

/// Appends the end of a text, from this byte on, with what of it are links.
fn linked(shown: &str, links: &[(Range<usize>, String)], from: usize, out: &mut String) {
    let mut at = 0;
    for (range, address) in links {
        let (start, end) = (range.start.saturating_sub(from), range.end.saturating_sub(from));
        if end > at {
            out.push_str(&shown[at..start]);
            let _ = write!(out, "\x1b]8;;{address}\x1b\\{}\x1b]8;;\x1b\\", &shown[start..end]);
            at = end;
        }
    }
    out.push_str(&shown[at..]);
}

/// The text behind this many columns; none where a wide character stands across them.
fn behind(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, grapheme) in graphemes(text) {
        if used >= columns {
            return &text[at..];
        }
        used += text::width(grapheme);
    }
    ""
}

/// The columns from the left in which two lines look the same; the whole width of both where they are equal.
pub(crate) fn same_columns(one: &Line<'_>, other: &Line<'_>) -> usize {
    let (mut ones, mut others) = (cells(one), cells(other));
    let mut same = 0;
    loop {
        match (ones.next(), others.next()) {
            (Some((a, style)), Some((b, other))) if a == b && style == other => same += text::width(a),
            _ => return same,
        }
    }
}

fn cells<'l>(line: &'l Line<'_>) -> impl Iterator<Item = (&'l str, Style)> {
    let base = line.style;
    line.spans.iter().flat_map(move |span| {
        let style = base.patch(span.style);
        graphemes(&span.content).map(move |(_, grapheme)| (grapheme, style))
    })
}

/// An underlined address is a link.
fn link(span: &Span<'_>) -> Option<String> {
    let text = &*span.content;
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    (span.style.add_modifier.contains(Modifier::UNDERLINED) && is_address && is_plain).then(|| text.to_owned())
}

/// The codes of a style, as they stand between `CSI` and `m`; empty where it has none.
fn sgr(style: Style) -> String {
    let mut codes = Vec::new();
    const CODES: [(Modifier, &str); 6] = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    let set = CODES.iter().filter(|(modifier, _)| style.add_modifier.contains(*modifier));
    codes.extend(set.map(|(_, code)| (*code).to_owned()));
    codes.extend(style.fg.and_then(|colour| coloured(colour, 30)));
    codes.extend(style.bg.and_then(|colour| coloured(colour, 40)));
    codes.join(";")
}

/// The code of a colour: `base` is 30 for text, 40 for what is behind it.
fn coloured(colour: Color, base: u8) -> Option<String> {
    let plain = |number: u8| Some((base + number).to_string());
    let bright = |number: u8| Some((base + 60 + number).to_string());
    match colour {
        Color::Reset => None,
        Color::Black => plain(0),
        Color::Red => plain(1),
        Color::Green => plain(2),
        Color::Yellow => plain(3),
        Color::Blue => plain(4),
        Color::Magenta => plain(5),
        Color::Cyan => plain(6),
        Color::Gray => plain(7),
        Color::DarkGray => bright(0),
        Color::LightRed => bright(1),
        Color::LightGreen => bright(2),
        Color::LightYellow => bright(3),
        Color::LightBlue => bright(4),
        Color::LightMagenta => bright(5),
        Color::LightCyan => bright(6),
        Color::White => bright(7),
        Color::Indexed(index) => Some(format!("{};5;{index}", base + 8)),
        Color::Rgb(red, green, blue) => Some(format!("{};2;{red};{green};{blue}", base + 8)),
    }
}
