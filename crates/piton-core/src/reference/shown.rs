//! What was read for a reference, as the model reads it.

use super::{LineRange, Style};
use crate::limits;
use crate::tokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much of a file an `@` reference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferenceSizes {
    /// The largest file, in bytes.
    pub file_bytes: u64,
    /// Lines of a file.
    pub lines: usize,
    /// Characters of a line.
    pub line_chars: usize,
}

impl ReferenceSizes {
    pub(crate) fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ReferenceSizes {
    fn default() -> Self {
        Self {
            file_bytes: limits::REFERENCE_FILE_BYTES,
            lines: limits::REFERENCE_LINES,
            line_chars: limits::REFERENCE_LINE_CHARS,
        }
    }
}

/// One file of the section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFile {
    /// Its path, relative to the workspace.
    pub path: String,
    /// How much of it is here.
    pub metadata: String,
    /// That much of it.
    pub content: String,
    /// Whether that is all of it, as it is.
    pub is_whole: bool,
    /// Whether fewer lines are shown than were asked for: the file is longer than the limit, or ends before the range.
    pub is_short: bool,
}

impl ShownFile {
    /// Its element of the section: what it is sent as.
    pub fn element(&self) -> String {
        let Self { path, metadata, content, .. } = self;
        // What would close the element is no part of any sensible name.
        let path = path.replace('<', "&lt;");
        let content = content.replace("]]>", "]]]]><![CDATA[>");
        format!(
            "\n      <file>\n        <path>{path}</path>\n        <metadata>{metadata}</metadata>\n        \
             <content><![CDATA[{content}]]></content>\n      </file>"
        )
    }
}

/// The section that holds these files; `None` without any.
pub fn files(blocks: &[ShownFile]) -> Option<String> {
    let mut text = "<files>This section contains the contents of the repository's files.\n".to_owned();
    blocks.iter().for_each(|block| text.push_str(&block.element()));
    text.push_str("\n</files>");
    (!blocks.is_empty()).then_some(text)
}

/// Of a file's text what is shown: so many lines of it, each of so many characters, and no more tokens than there is
/// room for. In our own style lines are what `read` takes for lines, whatever they end in.
pub fn content(
    path: &str,
    text: &str,
    range: Option<LineRange>,
    (most_tokens, sizes): (u64, &ReferenceSizes),
    style: Style,
) -> ShownFile {
    let is_ours = style == Style::Piton;
    // Neovate counts what stands behind the end of the last line as one more.
    let total = if is_ours { text.lines().count() } else { text.split('\n').count() };
    let (start, end) = match range {
        Some(LineRange { start, end }) => (start.min(end).max(1), start.max(end).min(total)),
        None => (1, total),
    };
    let mut content = String::new();
    let (mut last, mut tokens, mut is_cut) = (start.saturating_sub(1), 0, false);
    for line in text.split('\n').take(end).skip(start - 1).take(sizes.lines) {
        let line = line.strip_suffix('\r').filter(|_| is_ours).unwrap_or(line);
        let cut = line.char_indices().nth(sizes.line_chars).map(|(at, _)| &line[..at]);
        tokens += tokens::estimate(cut.unwrap_or(line)) + 1;
        if tokens > most_tokens && last >= start {
            break;
        }
        if last >= start {
            content.push('\n');
        }
        content.push_str(cut.unwrap_or(line));
        if cut.is_some() {
            content.push_str("... [truncated]");
            is_cut = true;
        }
        last += 1;
    }
    let metadata = match range {
        _ if is_ours => how_much(range.is_some(), start, last, total),
        Some(_) if start > total => {
            format!("Lines {start}-{end} are beyond the end: {total} total lines", end = end.max(start))
        }
        Some(_) => format!("Lines {start}-{last} of {total} total lines"),
        None if last < total => format!("Showing first {last} lines of {total} total lines"),
        None => format!("Complete file ({total} lines)"),
    };
    let is_whole = range.is_none() && last == total && !is_cut;
    let is_short = range.map_or(last < total, |_| start > total);
    ShownFile { path: path.to_owned(), metadata, content, is_whole, is_short }
}

/// How much of a file is shown, in our own words: from one line to another where a range was asked for, else from the
/// first.
fn how_much(is_range: bool, start: usize, last: usize, total: usize) -> String {
    let lines = if total == 1 { "1 line".to_owned() } else { format!("{total} lines") };
    match is_range {
        true if start > total => format!("There is no line {start}: the file has {lines}"),
        true if start == last => format!("Line {start} of {total}"),
        true => format!("Lines {start}-{last} of {total}"),
        false if last < total => format!("The first {last} of {lines}"),
        false => format!("Complete file ({lines})"),
    }
}

/// A file of so many bytes whose text is not shown: it is too large, or no text.
pub fn unread(path: &str, size: u64, sizes: &ReferenceSizes, style: Style) -> ShownFile {
    let megabytes = (size + (1 << 19)) >> 20;
    let is_ours = style == Style::Piton;
    let (metadata, content) = match size > sizes.file_bytes {
        true if is_ours => (format!("Too large to show: {megabytes} MB"), ""),
        false if is_ours => (format!("Not shown: a binary file of {size} bytes"), ""),
        true => (format!("File size: {megabytes}MB (skipped)"), "// File too large to display"),
        false => (format!("Binary file: {size} bytes (skipped)"), "// Binary file, not shown"),
    };
    ShownFile { path: path.to_owned(), metadata, content: content.to_owned(), is_whole: false, is_short: false }
}

/// Paths as a list that fits a page: each of them, or where there are too many, how many lie in each folder.
pub fn tree(paths: &[String]) -> String {
    /// More lines are not read.
    const MOST_LINES: usize = 200;
    if paths.len() <= MOST_LINES {
        return paths.join("\n");
    }
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        *folders.entry(path.rsplit_once('/').map_or(".", |(folder, _)| folder)).or_default() += 1;
    }
    let mut lines: Vec<String> =
        folders.iter().take(MOST_LINES).map(|(folder, files)| format!("{folder}/ ({files} files)")).collect();
    if let Some(more) = folders.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
        lines.push(format!("and {more} more folders"));
    }
    lines.join("\n")
}
