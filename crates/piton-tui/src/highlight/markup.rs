//! HTML and XML: names of elements, strings in tags, comments.

use super::{Open, Paint, is_word};

pub(super) fn scan(open: &mut Open, paint: &mut Paint<'_>) {
    let (text, theme) = (paint.text, paint.theme);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let up_to = |mark: &str| rest.find(mark).map(|found| at + found + mark.len());
        let (end, style, next) = match *open {
            Open::TagComment => match up_to("-->") {
                Some(end) => (end, theme.comment, Open::Nothing),
                None => (text.len(), theme.comment, Open::TagComment),
            },
            Open::Tag(Some(mark)) => match up_to(mark.encode_utf8(&mut [0; 4])) {
                Some(end) => (end, theme.string, Open::Tag(None)),
                None => (text.len(), theme.string, *open),
            },
            Open::Tag(None) => match rest.chars().next() {
                Some('>') => (at + 1, theme.keyword, Open::Nothing),
                Some(mark @ ('"' | '\'')) => (at + 1, theme.string, Open::Tag(Some(mark))),
                first => (at + first.map_or(1, char::len_utf8), theme.text, Open::Tag(None)),
            },
            Open::Nothing | Open::Comment { .. } | Open::String(_) | Open::Raw(_) => in_text(text, at, paint),
        };
        paint.push(at..end, style);
        (at, *open) = (end, next);
    }
}

/// What stands next outside of tags: where it ends, its style, and what it leaves open.
fn in_text(text: &str, at: usize, paint: &Paint<'_>) -> (usize, ratatui_core::style::Style, Open) {
    let (rest, theme) = (&text[at..], paint.theme);
    if rest.starts_with("<!--") {
        return (at + 4, theme.comment, Open::TagComment);
    }
    if let Some(inner) = rest.strip_prefix('<') {
        let begin = inner.trim_start_matches(['/', '!', '?']);
        let is_name = |char: char| is_word(char) || matches!(char, '-' | ':' | '.');
        if begin.starts_with(is_name) {
            let name = begin.find(|char| !is_name(char)).unwrap_or(begin.len());
            return (text.len() - begin.len() + name, theme.keyword, Open::Tag(None));
        }
        return (at + 1, theme.text, Open::Nothing);
    }
    if let Some(inner) = rest.strip_prefix('&') {
        let name = inner.find(|char: char| !is_word(char) && char != '#').unwrap_or(inner.len());
        let is_entity = inner[name..].starts_with(';');
        let style = if is_entity { theme.number } else { theme.text };
        return (at + 1 + name + usize::from(is_entity), style, Open::Nothing);
    }
    let end = rest.find(['<', '&']).map_or(text.len(), |end| at + end);
    (end, theme.text, Open::Nothing)
}
