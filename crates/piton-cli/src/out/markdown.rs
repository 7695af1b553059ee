//! Markdown as a terminal shows it: headings, lists, code, emphasis and tables, in lines that end at words.
//!
//! A reply comes in pieces that end anywhere, and what half of a block means is not known. [`Blocks`] gives out those that
//! are whole, [`render`] draws one. This module must not know where anything is written.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

const CODE: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();
/// Columns below which a table's column is not narrowed.
const NARROWEST: usize = 6;
/// Between two columns of a table.
const GAP: &str = "  ";

/// What has come of a reply, and is not shown yet.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pending: String,
}

impl Blocks {
    /// Takes a piece. The blocks that are whole by now.
    pub(crate) fn push(&mut self, text: &str) -> Vec<String> {
        self.pending.push_str(text);
        let mut whole = Vec::new();
        while let Some(end) = end_of_first(&self.pending) {
            let rest = self.pending.split_off(end);
            whole.push(std::mem::replace(&mut self.pending, rest));
        }
        whole.retain(|block| !block.trim().is_empty());
        whole
    }

    /// What is not whole yet.
    pub(crate) fn pending(&self) -> &str {
        &self.pending
    }

    /// The rest, when nothing more comes.
    pub(crate) fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.pending)).filter(|rest| !rest.trim().is_empty())
    }
}

/// Where the first block ends: behind an empty line, once the line after it shows that the block does not go on.
fn end_of_first(text: &str) -> Option<usize> {
    let is_list = is_item(text.trim_start_matches('\n'));
    let (mut at, mut fence, mut empty): (usize, Option<&str>, bool) = (0, None, false);
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        // How far a line that is not over is indented may not be known yet.
        let is_begun = !words.is_empty();
        if empty && is_begun && fence.is_none() && !(is_list && line.starts_with([' ', '\t'])) {
            return Some(at);
        }
        if !line.ends_with('\n') {
            return None;
        }
        match fence {
            Some(mark) if words.starts_with(mark) && words.trim_start_matches(&mark[..1]).is_empty() => fence = None,
            None if words.starts_with("```") => fence = Some("```"),
            None if words.starts_with("~~~") => fence = Some("~~~"),
            Some(_) | None => {}
        }
        at += line.len();
        empty = words.is_empty() && at > line.len();
    }
    None
}

fn is_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = rest.len() < line.len() && rest.starts_with([')', '.']);
    let rest = if is_numbered { &rest[1..] } else { line.trim_start_matches(['-', '*', '+']) };
    let mark = line.len() - rest.len();
    rest.starts_with([' ', '\n']) && (is_numbered || mark == 1)
}

/// Draws a block in lines of at most so many columns, where its words allow that.
pub(crate) fn render(block: &str, columns: usize) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page { columns, ..Page::default() };
    for event in Parser::new_ext(block, options) {
        page.take(event);
    }
    page.end_paragraph();
    page.out
}

/// Text of one style. Spaces in it end words, line feeds end lines.
type Piece = (Style, String);

/// A block as it is drawn.
#[derive(Default)]
struct Page {
    columns: usize,
    out: String,
    /// What stands before each line, of every list and quote around it: of the next line, and of those behind it.
    margins: Vec<(String, String)>,
    /// The next numbers of lists; `None` where they have none.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    /// The paragraph that is read.
    words: Vec<Piece>,
    /// The addresses of links, and where the text of each begins in the paragraph.
    links: Vec<(String, usize)>,
    is_code: bool,
    table: Vec<Vec<Vec<Piece>>>,
    /// Whether an empty line is due before what comes next.
    is_apart: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code => text.lines().for_each(|line| self.line(&format!("  {line}"))),
            Event::Text(text) | Event::InlineHtml(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.say(&text);
            }
            Event::Html(text) => self.say(&text),
            Event::Code(text) => self.words.push((CODE, text.into_string())),
            Event::FootnoteReference(name) => self.say(&format!("[{name}]")),
            Event::SoftBreak => self.say(" "),
            Event::HardBreak => self.say("\n"),
            Event::Rule => {
                self.separate();
                self.line(&format!("{DIM}{}{DIM:#}", "─".repeat(self.width().min(40))));
            }
            Event::TaskListMarker(is_done) => self.say(if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.separate();
                self.styles.push(Style::new().bold());
            }
            Tag::Paragraph | Tag::HtmlBlock | Tag::Table(_) => self.separate(),
            Tag::CodeBlock(_) => {
                self.end_paragraph();
                self.separate();
                self.is_code = true;
            }
            Tag::BlockQuote(_) => {
                self.end_paragraph();
                self.separate();
                let bar = format!("{DIM}│{DIM:#} ");
                self.margins.push((bar.clone(), bar));
            }
            Tag::List(first) => {
                self.end_paragraph();
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::TableHead => {
                self.styles.push(Style::new().bold());
                self.table.push(Vec::new());
            }
            Tag::TableRow => self.table.push(Vec::new()),
            Tag::Strong => self.styles.push(Style::new().bold()),
            Tag::Emphasis => self.styles.push(Style::new().italic()),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.words.len()));
                self.styles.push(Style::new().underline());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_paragraph();
                self.is_apart = true;
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_paragraph();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => (self.is_code, self.is_apart) = (false, true),
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                self.margins.pop();
                self.is_apart = true;
            }
            TagEnd::Item => {
                self.end_paragraph();
                self.margins.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.is_apart = self.lists.is_empty();
            }
            TagEnd::TableHead => drop(self.styles.pop()),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.words);
                self.table.last_mut().into_iter().for_each(|row| row.push(cell.clone()));
            }
            TagEnd::Table => {
                self.draw_table();
                self.is_apart = true;
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn item(&mut self) {
        self.end_paragraph();
        self.separate();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number += 1;
                mark
            }
            Some(None) | None => "• ".to_owned(),
        };
        let rest = " ".repeat(mark.width());
        self.margins.push((mark, rest));
    }

    /// The address stands behind a link, unless the link says it.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, from)) = self.links.pop() else { return };
        let said: String = self.words.iter().skip(from).map(|(_, text)| text.as_str()).collect();
        if !address.contains(said.as_str()) || said.is_empty() {
            self.words.push((Style::new(), " ".to_owned()));
            self.words.push((DIM, format!("({address})")));
        }
    }

    fn say(&mut self, text: &str) {
        let style =
            self.styles.iter().fold(Style::new(), |all, style| all.effects(all.get_effects() | style.get_effects()));
        self.words.push((style, text.to_owned()));
    }

    /// Columns between the margins and the edge.
    fn width(&self) -> usize {
        let margins: usize = self.margins.iter().map(|(_, rest)| plain_width(rest)).sum();
        self.columns.saturating_sub(margins).max(NARROWEST)
    }

    fn separate(&mut self) {
        if std::mem::take(&mut self.is_apart) {
            self.line("");
        }
    }

    fn line(&mut self, text: &str) {
        let mut line = String::new();
        for (next, rest) in &mut self.margins {
            line.push_str(if text.is_empty() { rest } else { next });
            if !text.is_empty() {
                next.clone_from(rest);
            }
        }
        line.push_str(text);
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn end_paragraph(&mut self) {
        let words = std::mem::take(&mut self.words);
        for line in wrapped(&words, self.width()) {
            self.line(&line);
        }
    }

    fn draw_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell_width = |cell: &Vec<Piece>| cell.iter().map(|(_, text)| text.width()).sum::<usize>();
        let of_column = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(cell_width).max().unwrap_or(0);
        let widths = fitted((0..columns).map(of_column).collect(), self.width());
        for (at, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<String>> = row.iter().zip(&widths).map(|(cell, width)| wrapped(cell, *width)).collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let text = cells.iter().zip(&widths).map(|(cell, width)| {
                    let text = cell.get(line).map(String::as_str).unwrap_or_default();
                    format!("{text}{}", " ".repeat(width.saturating_sub(plain_width(text))))
                });
                let text = text.collect::<Vec<_>>().join(GAP);
                self.line(&text);
            }
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.line(&format!("{DIM}{}{DIM:#}", rules.join(GAP)));
            }
        }
    }
}

/// Widths of columns that fit side by side, the widest made narrower first.
fn fitted(mut widths: Vec<usize>, most: usize) -> Vec<usize> {
    let most = most.saturating_sub(GAP.len() * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > most {
        match widths.iter_mut().max().filter(|width| **width > NARROWEST) {
            Some(width) => *width -= 1,
            None => break,
        }
    }
    widths
}

/// Columns that a text takes, whatever its colours.
fn plain_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
}

/// The words in lines of at most so many columns. A word that is longer has a line of its own.
fn wrapped(pieces: &[Piece], width: usize) -> Vec<String> {
    let mut wrap = Wrap { width, ..Wrap::default() };
    for (style, text) in pieces {
        for run in text.split_inclusive([' ', '\n']) {
            let part = run.trim_end_matches([' ', '\n']);
            if !part.is_empty() {
                wrap.word.push_str(&format!("{style}{part}{style:#}"));
                wrap.word_width += part.width();
            }
            if part.len() < run.len() {
                wrap.end_word();
            }
            if run.ends_with('\n') {
                wrap.end_line();
            }
        }
    }
    wrap.end_word();
    if wrap.used > 0 {
        wrap.end_line();
    }
    wrap.lines
}

/// Lines that are being filled.
#[derive(Default)]
struct Wrap {
    width: usize,
    lines: Vec<String>,
    line: String,
    used: usize,
    word: String,
    word_width: usize,
}

impl Wrap {
    fn end_word(&mut self) {
        if self.word_width == 0 {
            return;
        }
        if self.used > 0 && self.used + 1 + self.word_width > self.width {
            self.end_line();
        }
        if self.used > 0 {
            self.line.push(' ');
            self.used += 1;
        }
        self.line.push_str(&std::mem::take(&mut self.word));
        self.used += std::mem::take(&mut self.word_width);
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.used = 0;
    }
}

/// The end of a text that is not drawn yet, as it came, in as many lines as fit; for whoever watches it grow.
pub(crate) fn tail(text: &str, columns: usize, rows: usize) -> Vec<String> {
    let plain = |line: &str| (Style::new(), line.to_owned());
    let lines: Vec<String> = text
        .trim_start_matches('\n')
        .lines()
        .flat_map(|line| match line.trim() {
            "" => vec![String::new()],
            _ => wrapped(&[plain(line)], columns),
        })
        .collect();
    let fits = |line: &String| line.width() <= columns;
    let from = lines.iter().rposition(|line| !fits(line)).map_or(0, |at| at + 1);
    lines[from.max(lines.len().saturating_sub(rows))..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(markdown: &str, columns: usize, drawn: &Expect) {
        let mut blocks = Blocks::default();
        let mut whole: Vec<String> = markdown.chars().flat_map(|char| blocks.push(&char.to_string())).collect();
        whole.extend(blocks.finish());
        let drawn_blocks: Vec<String> = whole.iter().map(|block| render(block, columns)).collect();
        drawn.assert_eq(&anstream::adapter::strip_str(&drawn_blocks.join("\n")).to_string());
    }

    #[test]
    fn words_wrap_and_marks_are_drawn() {
        check(
            "# The fix\n\nI **changed** `sum` in [the parser](src/parse.rs), since it *dropped* the last digit.\n\n> quoted words that go on",
            24,
            &expect![[r#"
                The fix

                I changed sum in the
                parser (src/parse.rs),
                since it dropped the
                last digit.

                │ quoted words that go
                │ on
            "#]],
        );
    }

    #[test]
    fn lists_keep_their_depth_and_code_its_lines() {
        check(
            "Steps:\n- one that is longer than the line\n  - inner\n- [x] two\n\n3. three\n\n   ```sh\n   cargo test --workspace --all\n\n   exit\n   ```\n4. four\n\nDone.",
            20,
            &expect![[r#"
                Steps:

                • one that is longer
                  than the line
                  • inner
                • [x] two

                3. three

                     cargo test --workspace --all

                     exit

                4. four

                Done.
            "#]],
        );
    }

    #[test]
    fn a_table_fits_and_what_is_no_markdown_stays() {
        check(
            "| name | what it is |\n|---|---|\n| a | short |\n| `b` | rather long words |\n\n2 ** 3 and a_b_c <stdin>\n",
            22,
            &expect![[r#"
                name  what it is
                ────  ────────────────
                a     short
                b     rather long
                      words

                2 ** 3 and a_b_c
                <stdin>
            "#]],
        );
    }

    #[test]
    fn what_grows_is_shown_by_its_end() {
        assert_eq!(tail("\none two\nthree four five", 10, 2), ["three four", "five"]);
        assert_eq!(tail("a b\nthis-is-a-word-that-does-not-fit\nend", 10, 5), ["end"]);
    }
}
