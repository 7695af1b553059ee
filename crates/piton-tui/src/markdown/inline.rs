//! The text of a paragraph, a heading or a cell: emphasis, code, links.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::theme::Theme;

/// Stands for a line feed within a heading. No text has it, since it is a hidden character.
const BREAK: char = '\u{2028}';
/// Stands behind a text that ends in `#`, which would be taken for the end of a heading.
const END: &str = " \u{2029}";

/// The text in its lines, in styles upon `base`.
pub(super) fn lines(text: &str, base: Style, theme: &Theme) -> Vec<Line<'static>> {
    if !text.contains(is_mark) {
        return text.split('\n').map(|line| with_addresses(vec![Span::styled(line.to_owned(), base)], theme)).collect();
    }
    // Within a heading nothing is a block.
    let end = if text.ends_with('#') { END } else { "" };
    let source = format!("# {}{end}", text.replace('\n', "\u{2028}"));
    let mut words = Words { theme, styles: vec![base], lines: vec![Vec::new()], links: Vec::new() };
    for event in Parser::new_ext(&source, Options::ENABLE_STRIKETHROUGH) {
        words.take(event);
    }
    words.lines.into_iter().map(|spans| with_addresses(spans, theme)).collect()
}

/// The spans as a line, in which addresses that stand in text look as links do.
fn with_addresses(spans: Vec<Span<'static>>, theme: &Theme) -> Line<'static> {
    let mut merged: Vec<Span<'static>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.style == span.style => last.content.to_mut().push_str(&span.content),
            Some(_) | None => merged.push(span),
        }
    }
    if !merged.iter().any(|span| span.content.contains("://")) {
        return Line::from(merged);
    }
    let mut line = Vec::new();
    for span in merged {
        let link = span.style.patch(theme.link);
        let is_code = theme.code != theme.text && span.style == span.style.patch(theme.code);
        if is_code || span.style == link {
            line.push(span);
            continue;
        }
        let mut rest = span.content.as_ref();
        while let Some(address) = address(rest) {
            line.push(Span::styled(rest[..address.start].to_owned(), span.style));
            line.push(Span::styled(rest[address.clone()].to_owned(), link));
            rest = &rest[address.end..];
        }
        line.push(Span::styled(rest.to_owned(), span.style));
    }
    line.retain(|span| !span.content.is_empty());
    Line::from(line)
}

/// Where the first web address stands in a text, without the punctuation of the sentence behind it.
fn address(text: &str) -> Option<Range<usize>> {
    let mut from = 0;
    loop {
        let colon = from + text[from..].find("://")?;
        let scheme = ["https", "http"].into_iter().find(|scheme| text[..colon].ends_with(scheme));
        let ends = |char: char| {
            char.is_whitespace()
                || matches!(char, '<' | '>' | '"' | '`' | '、' | '。' | '，' | '）' | '」' | '』' | '】')
        };
        let end = text[colon..].find(ends).map_or(text.len(), |at| colon + at);
        let start = colon - scheme.map_or(0, str::len);
        let is_alone = !text[..start].ends_with(|char: char| char.is_ascii_alphanumeric());
        let mut address = &text[start..end];
        while let Some(last) = address.chars().next_back() {
            let opened = |open| address.matches(open).count() >= address.matches(last).count();
            let belongs = match last {
                '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' => false,
                ')' => opened('('),
                ']' => opened('['),
                _ => true,
            };
            if belongs {
                break;
            }
            address = &address[..address.len() - last.len_utf8()];
        }
        if scheme.is_some() && is_alone && start + address.len() > colon + 3 {
            return Some(start..start + address.len());
        }
        from = colon + 3;
    }
}

/// Whether a character may be, or begin, more than itself.
fn is_mark(char: char) -> bool {
    matches!(char, '*' | '_' | '`' | '[' | ']' | '<' | '&' | '\\' | '~' | '!' | '#')
}

struct Words<'a> {
    theme: &'a Theme,
    styles: Vec<Style>,
    lines: Vec<Vec<Span<'static>>>,
    /// The address of each open link, and its text so far.
    links: Vec<(String, String)>,
}

impl Words<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => drop(self.styles.pop()),
            Event::End(TagEnd::Link | TagEnd::Image) => self.end_link(),
            Event::Code(code) => {
                // Where code has no colour, its marks say it.
                let mark = if self.theme.code == self.theme.text { "`" } else { "" };
                let text = code.replace(BREAK, " ");
                let style = self.style().patch(self.theme.code);
                self.say(&format!("{mark}{text}{mark}"), style);
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.say(&text, self.style()),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.say(&text, self.style()),
            Event::FootnoteReference(name) => self.say(&format!("[^{name}]"), self.style()),
            Event::SoftBreak | Event::HardBreak => self.say(" ", self.style()),
            Event::End(_) | Event::Rule | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let modifier = match tag {
            Tag::Strong => Modifier::BOLD,
            Tag::Emphasis => Modifier::ITALIC,
            Tag::Strikethrough => Modifier::CROSSED_OUT,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                return self.links.push((dest_url.into_string(), String::new()));
            }
            _ => return,
        };
        self.styles.push(self.style().add_modifier(modifier));
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn say(&mut self, text: &str, style: Style) {
        for (_, said) in &mut self.links {
            said.push_str(text);
        }
        for (at, part) in text.trim_end_matches(END).split(BREAK).enumerate() {
            if at > 0 {
                self.lines.push(Vec::new());
            }
            if let Some(line) = self.lines.last_mut().filter(|_| !part.is_empty()) {
                line.push(Span::styled(part.to_owned(), style));
            }
        }
    }

    /// The address stands behind the text, or is the text.
    fn end_link(&mut self) {
        let Some((address, said)) = self.links.pop() else { return };
        let (style, link) = (self.style(), self.style().patch(self.theme.link));
        let said = said.trim_matches('`');
        let is_said = said == address || address.strip_prefix("mailto:") == Some(said);
        let Some(line) = self.lines.last_mut() else { return };
        if is_said && !said.is_empty() && self.links.is_empty() {
            let mut left = said.len();
            while left > 0
                && let Some(span) = line.pop()
            {
                left = left.saturating_sub(span.content.len());
            }
            line.push(Span::styled(address, link));
        } else if !address.is_empty() {
            let before = if said.is_empty() { "(" } else { " (" };
            line.extend([Span::styled(before, style), Span::styled(address, link), Span::styled(")", style)]);
        }
    }
}
