//! `@path` in an instruction file: another file that belongs to it. In code they mean something else and are passed over.

use crate::reference::{self, Reference, Style};
use std::borrow::Cow;

/// How far imports lead: a file that an instruction file imports is one hop away.
pub const MAX_HOPS: usize = 4;

/// What a file of Markdown imports, in order, each once.
pub fn imports(markdown: &str) -> Vec<Reference> {
    reference::extract(&without_code(markdown), Style::Piton)
}

/// The text with code, in fences and between backticks, and comments left out.
fn without_code(markdown: &str) -> String {
    let mut fences = Fences::default();
    let prose: String = markdown.split_inclusive('\n').filter(|line| !fences.hold(line)).collect();
    without_spans(&without_comments(&prose))
}

/// The text without the comments that begin a line and stand in no code: Claude Code keeps them from the model.
pub fn without_block_comments(markdown: &str) -> Cow<'_, str> {
    if !markdown.contains(COMMENT.0) {
        return Cow::Borrowed(markdown);
    }
    let (mut kept, mut fences, mut is_in_comment) = (String::new(), Fences::default(), false);
    for line in markdown.split_inclusive('\n') {
        let is_first = !is_in_comment && !fences.hold(line) && line.trim_start().starts_with(COMMENT.0);
        if !is_in_comment && !is_first {
            kept.push_str(line);
            continue;
        }
        let end = line.split_once(COMMENT.1);
        is_in_comment = end.is_none();
        kept.push_str(end.map_or("", |(_, behind)| behind.trim_start()));
    }
    Cow::Owned(kept)
}

const COMMENT: (&str, &str) = ("<!--", "-->");

/// The fence that a text is in, line by line.
#[derive(Default)]
struct Fences<'t>(Option<&'t str>);

impl<'t> Fences<'t> {
    /// Whether this line belongs to one.
    fn hold(&mut self, line: &'t str) -> bool {
        let trimmed = line.trim();
        let Some(open) = self.0 else {
            self.0 = opening(trimmed);
            return self.0.is_some();
        };
        // A fence ends with at least as many of what it began with, and nothing else.
        if trimmed.starts_with(open) && trimmed.trim_start_matches(&open[..1]).is_empty() {
            self.0 = None;
        }
        true
    }
}

/// The backticks or tildes that open a fence.
fn opening(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|char| *char == '`' || *char == '~')?;
    let length = line.len() - line.trim_start_matches(mark).len();
    // Backticks behind it make it a span of code on one line.
    let is_fence = length >= 3 && !(mark == '`' && line[length..].contains('`'));
    is_fence.then(|| &line[..length])
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(COMMENT.0) {
        kept.push_str(before);
        kept.push(' ');
        rest = behind.split_once(COMMENT.1).map_or("", |(_, behind)| behind);
    }
    kept + rest
}

/// A span of code ends with as many backticks as it began with.
fn without_spans(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let length = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let inside = &rest[start + length..];
        kept.push_str(&rest[..start]);
        rest = match end_of_span(inside, length) {
            // In its place stands what no path begins behind.
            Some(end) => {
                kept.push('x');
                &inside[end..]
            }
            None => inside,
        };
    }
    kept + rest
}

fn end_of_span(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == length {
            return Some(start + run);
        }
        at = start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        imports(text).into_iter().map(|reference| reference.path).collect()
    }

    #[test]
    fn imports_stand_in_prose_and_not_in_code() {
        let text = "@docs/a.md\n- see @b.md\n```sh\nnpx @scope/tool\n```\n`@not.md` and ``a ` @nor.md`` but @c.md\n\
                    ~~~~\n@in.md\n~~~\n@still.md\n~~~~\n@d.md\n<!-- @hidden.md\n --> @e.md `open @f.md\n";
        assert_eq!(paths(text), ["docs/a.md", "b.md", "c.md", "d.md", "e.md", "f.md"]);
    }

    #[test]
    fn comments_that_begin_a_line_are_no_text() {
        let text = "a\n<!-- one -->\n  <!-- two\n```\n--> b\nc <!-- kept -->\n```\n<!-- code -->\n```\n<!-- open\nd\n";
        assert_eq!(without_block_comments(text), "a\nb\nc <!-- kept -->\n```\n<!-- code -->\n```\n");
        assert!(matches!(without_block_comments("a --> b"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_open_fence_swallows_the_rest() {
        assert_eq!(paths("@a.md\n```\n@b.md\n"), ["a.md"]);
        assert_eq!(paths("```not a fence``` @a.md"), ["a.md"]);
    }
}
