//! `@path` in an instruction file: another file that belongs to it. In code they mean something else and are passed over.

use crate::reference::{self, Reference, Style};

/// How far imports lead: a file that an instruction file imports is one hop away.
pub const MAX_HOPS: usize = 4;

/// What a file of Markdown imports, in order, each once.
pub fn imports(markdown: &str) -> Vec<Reference> {
    reference::extract(&without_code(markdown), Style::Piton)
}

/// The text with code, in fences and between backticks, and comments left out.
fn without_code(markdown: &str) -> String {
    let mut prose = String::new();
    let mut fence: Option<&str> = None;
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        match fence {
            // A fence ends with at least as many of what it began with, and nothing else.
            Some(open) => {
                if trimmed.starts_with(open) && trimmed.trim_end().trim_start_matches(&open[..1]).is_empty() {
                    fence = None;
                }
            }
            None => match opening(trimmed) {
                Some(open) => fence = Some(open),
                None => {
                    prose.push_str(line);
                    prose.push('\n');
                }
            },
        }
    }
    without_spans(&without_comments(&prose))
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
    while let Some((before, behind)) = rest.split_once("<!--") {
        kept.push_str(before);
        kept.push(' ');
        rest = behind.split_once("-->").map_or("", |(_, behind)| behind);
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
    fn an_open_fence_swallows_the_rest() {
        assert_eq!(paths("@a.md\n```\n@b.md\n"), ["a.md"]);
        assert_eq!(paths("```not a fence``` @a.md"), ["a.md"]);
    }
}
