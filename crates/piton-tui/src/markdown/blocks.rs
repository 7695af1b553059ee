//! Lines to blocks, by CommonMark's rules for what a line begins, goes on with, or ends; each line is read once.
//!
//! Quotes and list items contain; paragraphs, code and tables are leaves. A leaf is given out when it is over, of code and
//! HTML each line. What CommonMark decides by what comes later is decided here by what came before: an empty row stands
//! between two items where one stands in the text. Definitions of links are text.
//! Not as in CommonMark, since models and people write it so: a line of a paragraph stays a line, and a bullet indented by two
//! under a numbered item belongs to it.

use super::starts::behind_quote;
use super::starts::{Start, bullet, closes_fence, indented, is_blank, is_underline, start};
use super::table::{self, Table};
use super::{MOST_OPEN, MOST_TABLE};
use crate::highlight::{self, Language};
use crate::text;

/// Something to draw, in rows of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    /// What stands in the empty row before it, if there is one.
    pub gap: Option<Vec<Margin>>,
    /// What stands before its first row.
    pub first: Vec<Margin>,
    /// What stands before its other rows, of the same width.
    pub rest: Vec<Margin>,
    pub body: Body,
}

/// What stands at the left of a row for a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Margin {
    Quote,
    Mark(String),
    Blank(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    /// Lines of text with marks of emphasis, code, links.
    Paragraph(String),
    Heading(String),
    /// A line of HTML.
    Html(String),
    /// A line of code.
    Code {
        text: String,
        language: Option<Language>,
        is_first: bool,
    },
    Table(Table),
    Rule,
    /// An item without text.
    Empty,
}

/// What is read so far: the containers that are open, and the leaf.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks {
    containers: Vec<Container>,
    leaf: Leaf,
    /// The list that an item at the left edge goes on with.
    list: Option<List>,
    /// Whether an empty line came behind what was given out last.
    is_blank: bool,
    last: Option<Last>,
    containers_made: u32,
}

#[derive(Debug, Clone)]
struct Container {
    id: u32,
    kind: Kind,
    /// What stands before its first row, until that is given out.
    mark: Option<String>,
    /// Columns of its margin.
    width: usize,
    /// The list that an item in it goes on with.
    list: Option<List>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Quote,
    /// An item, whose text is indented by so many columns.
    Item {
        indent: usize,
        is_numbered: bool,
        is_bare: bool,
    },
}

/// The mark of a list's items, and the next number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct List {
    mark: char,
    next: u64,
}

#[derive(Debug, Clone, Default)]
enum Leaf {
    #[default]
    None,
    /// The text, and where its last line begins.
    Paragraph {
        text: String,
        last_line: usize,
    },
    Fence {
        mark: char,
        length: usize,
        indent: usize,
        language: Option<Language>,
        is_first: bool,
    },
    /// Indented code, and the empty lines that belong to it if it goes on.
    Indented {
        blanks: usize,
    },
    Html,
    /// A table. Its head was given out before, if it is so long that it is given out in parts.
    Table {
        table: Table,
        bytes: usize,
        is_rest: bool,
    },
}

/// What was given out last.
#[derive(Debug, Clone)]
struct Last {
    sort: Sort,
    is_listed: bool,
    containers: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sort {
    Prose,
    Heading,
    Other,
}

impl Blocks {
    /// Reads a line without its line feed and without tabs. `is_rest`: what was read last was its beginning.
    pub(super) fn read(&mut self, line: &str, is_rest: bool, out: &mut Vec<Block>) {
        if is_rest {
            return self.read_rest(line, out);
        }
        let (matched, rest) = self.matched(line);
        let is_lazy = matches!(self.leaf, Leaf::Paragraph { .. })
            && !is_blank(rest)
            && matches!(start(rest, false), None | Some(Start::Indented));
        if matched < self.containers.len() {
            if is_lazy {
                return self.add_words(rest, out);
            }
            self.close_to(matched, out);
        } else if self.goes_on(rest, out) {
            return;
        }
        self.begin(rest, out);
    }

    /// The line that was read last goes on, and is too long to be kept: its paragraph is given out.
    pub(super) fn cut(&mut self, out: &mut Vec<Block>) {
        if matches!(self.leaf, Leaf::Paragraph { .. }) {
            self.close_leaf(out);
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, out: &mut Vec<Block>) {
        self.close_to(0, out);
        self.list = None;
    }

    /// How many containers the line is in, and what it holds behind their marks.
    fn matched<'a>(&self, line: &'a str) -> (usize, &'a str) {
        let mut rest = line;
        for (at, container) in self.containers.iter().enumerate() {
            let (indent, words) = indented(rest);
            match container.kind {
                Kind::Quote if indent <= 3 && words.starts_with('>') => rest = behind_quote(words),
                Kind::Quote => return (at, rest),
                Kind::Item { is_bare, .. } if words.is_empty() => {
                    if is_bare && matches!(self.leaf, Leaf::None) {
                        return (at, rest);
                    }
                }
                Kind::Item { indent: wanted, .. } if indent >= wanted => rest = &rest[wanted..],
                Kind::Item { is_numbered: true, .. } if indent >= 2 && bullet(words).is_some() => rest = words,
                Kind::Item { .. } => return (at, rest),
            }
        }
        (self.containers.len(), rest)
    }

    /// Whether the line, which is in all containers, belongs to the leaf or is empty. The leaf is over if not.
    fn goes_on(&mut self, rest: &str, out: &mut Vec<Block>) -> bool {
        let (indent, words) = indented(rest);
        match &mut self.leaf {
            Leaf::Fence { mark, length, .. } if indent <= 3 && closes_fence(words, *mark, *length) => {
                self.leaf = Leaf::None;
            }
            Leaf::Fence { indent: fence, .. } => {
                let line = rest[indent.min(*fence)..].to_owned();
                self.give_code(line, out);
            }
            Leaf::Indented { blanks } if words.is_empty() => *blanks += 1,
            Leaf::Indented { blanks } if indent >= 4 => {
                let blanks = std::mem::take(blanks);
                (0..blanks).for_each(|_| self.give_code(String::new(), out));
                self.give_code(rest[4..].to_owned(), out);
            }
            Leaf::Html if !words.is_empty() => self.give(Sort::Prose, Body::Html(rest.to_owned()), out),
            Leaf::Table { table, bytes, .. } if !words.is_empty() && start(rest, true).is_none() => {
                *bytes += rest.len();
                table.add_row(words);
                if *bytes > MOST_TABLE {
                    self.part_table(out);
                }
            }
            Leaf::Paragraph { text, last_line } if !words.is_empty() => {
                if indent <= 3 && is_underline(words) {
                    let text = text.trim_end().to_owned();
                    self.leaf = Leaf::None;
                    self.give(Sort::Heading, Body::Heading(text), out);
                } else if let Some(table) = table::begin(&text[*last_line..], words) {
                    let before = text[..*last_line].trim_end().to_owned();
                    self.leaf = Leaf::None;
                    if !before.is_empty() {
                        self.give(Sort::Prose, Body::Paragraph(before), out);
                    }
                    self.leaf = Leaf::Table { table, bytes: 0, is_rest: false };
                } else if start(rest, true).is_none() {
                    self.add_words(rest, out);
                } else {
                    self.close_leaf(out);
                    return false;
                }
            }
            Leaf::None | Leaf::Indented { .. } | Leaf::Html | Leaf::Table { .. } | Leaf::Paragraph { .. } => {
                self.close_leaf(out);
                self.is_blank |= words.is_empty();
                return words.is_empty();
            }
        }
        true
    }

    /// Begins what the line begins: containers one in the other, then a leaf.
    fn begin(&mut self, line: &str, out: &mut Vec<Block>) {
        let mut rest = line;
        loop {
            if is_blank(rest) {
                self.is_blank |= rest.len() == line.len();
                return;
            }
            if let Some(Kind::Item { is_bare, .. }) = self.containers.last_mut().map(|container| &mut container.kind) {
                *is_bare = false;
            }
            let started = start(rest, false);
            if !matches!(started, Some(Start::Item { .. })) {
                *self.list_here() = None;
            }
            match started {
                Some(Start::Quote(inner)) => {
                    self.contain(Kind::Quote, None, 2);
                    rest = inner;
                }
                Some(Start::Item { mark, number, indent, rest: inner }) => {
                    self.begin_item(mark, number, indent, is_blank(inner));
                    rest = inner;
                }
                Some(Start::Heading(words)) => return self.give(Sort::Heading, Body::Heading(words.to_owned()), out),
                Some(Start::Rule) => return self.give(Sort::Other, Body::Rule, out),
                Some(Start::Fence { mark, length, indent, info }) => {
                    let language = highlight::language(info.split([' ', ',', '{']).next().unwrap_or(info));
                    self.leaf = Leaf::Fence { mark, length, indent, language, is_first: true };
                    return;
                }
                Some(Start::Indented) => {
                    self.give(Sort::Other, code(rest[4..].to_owned(), None, true), out);
                    self.leaf = Leaf::Indented { blanks: 0 };
                    return;
                }
                Some(Start::Html) => {
                    self.leaf = Leaf::Html;
                    return self.give(Sort::Prose, Body::Html(rest.to_owned()), out);
                }
                None => return self.add_words(rest, out),
            }
        }
    }

    /// The rest of a line whose beginning was read: it goes on with the leaf, and begins nothing.
    fn read_rest(&mut self, rest: &str, out: &mut Vec<Block>) {
        match self.leaf {
            Leaf::Fence { .. } | Leaf::Indented { .. } => self.give_code(rest.to_owned(), out),
            Leaf::Html => self.give(Sort::Prose, Body::Html(rest.to_owned()), out),
            Leaf::Table { .. } => {
                self.close_leaf(out);
                self.add_words(rest, out);
            }
            Leaf::None | Leaf::Paragraph { .. } => self.add_words(rest, out),
        }
    }

    fn begin_item(&mut self, mark: char, number: u64, indent: usize, is_bare: bool) {
        let is_numbered = matches!(mark, '.' | ')');
        let list = self.list_here();
        let number = match *list {
            Some(List { mark: same, next }) if same == mark => number.max(next),
            Some(_) | None => number,
        };
        *list = Some(List { mark, next: number.saturating_add(1) });
        let shown = if is_numbered { format!("{number}{mark} ") } else { "• ".to_owned() };
        let width = text::width(&shown);
        self.contain(Kind::Item { indent, is_numbered, is_bare }, Some(shown), width);
    }

    fn contain(&mut self, kind: Kind, mark: Option<String>, width: usize) {
        self.containers_made = self.containers_made.wrapping_add(1);
        self.containers.push(Container { id: self.containers_made, kind, mark, width, list: None });
    }

    /// The list that an item goes on with that begins here.
    fn list_here(&mut self) -> &mut Option<List> {
        match self.containers.last_mut() {
            Some(container) => &mut container.list,
            None => &mut self.list,
        }
    }

    /// Adds a line to the paragraph, or begins one.
    fn add_words(&mut self, line: &str, out: &mut Vec<Block>) {
        let words = line.trim_start();
        match &mut self.leaf {
            Leaf::Paragraph { text, last_line } => {
                let end = text.trim_end_matches(' ').len() - usize::from(ends_in_backslash(text));
                text.truncate(end);
                text.push('\n');
                *last_line = text.len();
                text.push_str(words);
                if text.len() > MOST_OPEN {
                    self.close_leaf(out);
                }
            }
            _ => self.leaf = Leaf::Paragraph { text: words.to_owned(), last_line: 0 },
        }
    }

    /// Gives a table out that is long; what comes of it stands under its head once more.
    fn part_table(&mut self, out: &mut Vec<Block>) {
        if let Leaf::Table { table, bytes, is_rest } = &mut self.leaf {
            (*bytes, *is_rest) = (0, true);
            let rest = table.without_rows();
            let part = std::mem::replace(table, rest);
            self.give(Sort::Other, Body::Table(part), out);
        }
    }

    fn close_leaf(&mut self, out: &mut Vec<Block>) {
        match std::mem::take(&mut self.leaf) {
            Leaf::Paragraph { text, .. } => {
                let text = self.without_box(text.trim_end());
                self.give(Sort::Prose, Body::Paragraph(text), out);
            }
            Leaf::Table { table, is_rest, .. } if !is_rest || table.has_rows() => {
                self.give(Sort::Other, Body::Table(table), out);
            }
            Leaf::Indented { blanks } => self.is_blank |= blanks > 0,
            Leaf::None | Leaf::Fence { .. } | Leaf::Html | Leaf::Table { .. } => {}
        }
    }

    /// The text of a paragraph. The box of a task is the mark of its item.
    fn without_box(&mut self, text: &str) -> String {
        let Some(item) = self.containers.last_mut() else { return text.to_owned() };
        let boxed = ["[ ] ", "[x] ", "[X] "].into_iter().find(|mark| text.starts_with(mark));
        match (boxed, item.mark.as_deref()) {
            (Some(mark), Some("• ")) => {
                item.mark = Some(mark.to_lowercase());
                item.width = mark.len();
                text[mark.len()..].to_owned()
            }
            _ => text.to_owned(),
        }
    }

    /// Closes the leaf, and the containers but for so many.
    fn close_to(&mut self, kept: usize, out: &mut Vec<Block>) {
        self.close_leaf(out);
        if self.containers[kept..].iter().any(|container| container.mark.is_some()) {
            self.give(Sort::Prose, Body::Empty, out);
        }
        self.containers.truncate(kept);
    }

    fn give_code(&mut self, text: String, out: &mut Vec<Block>) {
        let (language, is_first) = match &mut self.leaf {
            Leaf::Fence { language, is_first, .. } => (*language, std::mem::take(is_first)),
            _ => (None, false),
        };
        self.give(Sort::Other, code(text, language, is_first), out);
    }

    fn give(&mut self, sort: Sort, body: Body, out: &mut Vec<Block>) {
        let is_first = !matches!(&body, Body::Code { is_first: false, .. });
        let gap = (is_first && self.is_apart(sort, &body)).then(|| self.gap());
        let mut first = Vec::new();
        for container in &mut self.containers {
            let mark = container.mark.take();
            first.push(mark.map_or_else(|| container.margin(), Margin::Mark));
        }
        let rest = self.containers.iter().map(Container::margin).collect();
        out.push(Block { gap, first, rest, body });
        self.is_blank = false;
        let containers = self.containers.iter().map(|container| container.id).collect();
        self.last = Some(Last { sort, is_listed: self.is_listed(), containers });
    }

    fn is_listed(&self) -> bool {
        self.containers.iter().any(|container| container.kind != Kind::Quote)
    }

    /// Whether an empty row stands before what is given out. In lists the text decides.
    fn is_apart(&self, sort: Sort, body: &Body) -> bool {
        let Some(last) = &self.last else { return false };
        let is_same = self.containers.last().map(|container| container.id) == last.containers.last().copied();
        match (last.is_listed, self.is_listed()) {
            _ if self.is_blank => true,
            (true, true) => false,
            (false, true) => last.sort == Sort::Other,
            (true, false) => true,
            (false, false) if is_same && *body != Body::Rule => match (last.sort, sort) {
                (Sort::Prose | Sort::Heading, Sort::Prose) => false,
                (Sort::Prose | Sort::Heading | Sort::Other, Sort::Prose | Sort::Heading | Sort::Other) => true,
            },
            (false, false) => true,
        }
    }

    /// What stands in the row between two blocks: the margins of the containers that both are in.
    fn gap(&self) -> Vec<Margin> {
        let before = self.last.iter().flat_map(|last| &last.containers);
        let both = self.containers.iter().zip(before).take_while(|(container, id)| container.id == **id);
        both.map(|(container, _)| container.margin()).collect()
    }
}

impl Container {
    fn margin(&self) -> Margin {
        match self.kind {
            Kind::Quote => Margin::Quote,
            Kind::Item { .. } => Margin::Blank(self.width),
        }
    }
}

fn code(text: String, language: Option<Language>, is_first: bool) -> Body {
    Body::Code { text, language, is_first }
}

fn ends_in_backslash(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}
