//! What a line begins, by its first characters; none of this knows what came before.

/// Names of elements whose tags begin a block of HTML.
const ELEMENTS: [&str; 30] = [
    "article",
    "aside",
    "blockquote",
    "body",
    "center",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "head",
    "header",
    "html",
    "iframe",
    "li",
    "ol",
    "p",
    "pre",
    "script",
    "section",
    "summary",
    "table",
    "ul",
];

/// What a line begins.
pub(super) enum Start<'a> {
    Quote(&'a str),
    Heading(&'a str),
    Fence { mark: char, length: usize, indent: usize, info: &'a str },
    Rule,
    Item { mark: char, number: u64, indent: usize, rest: &'a str },
    Html,
    Indented,
}

/// What a line begins; `interrupts`: a paragraph would go on otherwise.
pub(super) fn start(line: &str, interrupts: bool) -> Option<Start<'_>> {
    let (indent, words) = indented(line);
    if indent >= 4 {
        return (!interrupts).then_some(Start::Indented);
    }
    let char = words.chars().next()?;
    match char {
        '>' => Some(Start::Quote(behind_quote(&line[indent..]))),
        '#' => heading(words).map(Start::Heading),
        '`' | '~' => fence(words, char).map(|(length, info)| Start::Fence { mark: char, length, indent, info }),
        '<' => is_html(words, interrupts).then_some(Start::Html),
        '-' | '*' | '_' | '+' if is_rule(words, char) => Some(Start::Rule),
        '-' | '*' | '+' | '0'..='9' => item(line, indent, interrupts),
        _ => None,
    }
}

fn heading(words: &str) -> Option<&str> {
    let text = words.trim_start_matches('#');
    let level = words.len() - text.len();
    if level > 6 || !(text.is_empty() || text.starts_with(' ')) {
        return None;
    }
    let text = text.trim();
    let open = text.trim_end_matches('#');
    Some(if open.is_empty() || open.ends_with(' ') { open.trim_end() } else { text })
}

fn fence(words: &str, mark: char) -> Option<(usize, &str)> {
    let info = words.trim_start_matches(mark);
    let length = words.len() - info.len();
    (length >= 3 && (mark == '~' || !info.contains('`'))).then(|| (length, info.trim()))
}

pub(super) fn closes_fence(words: &str, mark: char, length: usize) -> bool {
    words.len() >= length && words.chars().all(|char| char == mark)
}

fn is_rule(words: &str, mark: char) -> bool {
    mark != '+'
        && words.chars().all(|char| char == mark || char == ' ')
        && words.chars().filter(|char| *char == mark).count() >= 3
}

pub(super) fn is_underline(words: &str) -> bool {
    words.bytes().all(|byte| byte == b'=') || words.bytes().all(|byte| byte == b'-')
}

/// What stands behind the mark of a bullet.
pub(super) fn bullet(words: &str) -> Option<&str> {
    let rest = words.strip_prefix(['-', '*', '+'])?;
    (rest.is_empty() || rest.starts_with(' ')).then_some(rest)
}

fn item(line: &str, indent: usize, interrupts: bool) -> Option<Start<'_>> {
    let words = &line[indent..];
    let digits = words.bytes().take_while(u8::is_ascii_digit).count();
    let mark = words[digits..].chars().next()?;
    let rest = match (digits, mark) {
        (0, _) => bullet(words)?,
        (1..=9, '.' | ')') => &words[digits + 1..],
        _ => return None,
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let number = words[..digits].parse().unwrap_or(0);
    if interrupts && (is_blank(rest) || (digits > 0 && number != 1)) {
        return None;
    }
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let blanks = if is_blank(rest) || blanks > 4 { 1 } else { blanks };
    let inner = rest.get(blanks..).unwrap_or("");
    Some(Start::Item { mark, number, indent: indent + digits + 1 + blanks, rest: inner })
}

/// Whether a line begins a block of HTML: a comment, the tag of a block, or a tag that is all of it.
fn is_html(words: &str, interrupts: bool) -> bool {
    let Some(rest) = words.strip_prefix('<') else { return false };
    if rest.starts_with(['!', '?']) {
        return true;
    }
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '-').unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    let is_element = ELEMENTS.iter().any(|element| element.eq_ignore_ascii_case(name));
    let is_ended = behind.is_empty() || behind.starts_with([' ', '>']) || behind.starts_with("/>");
    let is_all = behind.find('>') == Some(behind.len().wrapping_sub(1));
    (is_element && is_ended) || (!interrupts && !name.is_empty() && is_ended && is_all)
}

pub(super) fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| byte == b' ')
}

/// How many blanks a line begins with, and what stands behind them.
pub(super) fn indented(line: &str) -> (usize, &str) {
    let words = line.trim_start_matches(' ');
    (line.len() - words.len(), words.trim_end_matches(' '))
}

pub(super) fn behind_quote(words: &str) -> &str {
    let rest = words.strip_prefix('>').unwrap_or(words);
    rest.strip_prefix(' ').unwrap_or(rest)
}
