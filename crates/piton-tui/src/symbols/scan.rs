//! What a line defines, told by its first words, and where that ends, told by the indentation behind it.

use super::Symbol;
use std::sync::Arc;

/// Lines of a definition that are taken along.
const MOST_LINES: usize = 200;
/// Longer lines are made, not written.
const MOST_LINE_BYTES: usize = 400;

/// How a language defines.
struct Words {
    endings: &'static [&'static str],
    /// Words that a name follows.
    defining: &'static [&'static str],
    /// Words that may stand before those.
    before: &'static [&'static str],
    /// Whether a line that is not indented and has a name before its first `(` defines a function.
    has_bare_functions: bool,
}

const LANGUAGES: [Words; 9] = [
    Words {
        endings: &["rs"],
        defining: &["fn", "struct", "enum", "trait", "type", "mod", "const", "static", "union", "macro_rules!"],
        before: &["pub", "async", "unsafe", "const", "extern", "default", "mut"],
        has_bare_functions: false,
    },
    Words { endings: &["py", "pyi"], defining: &["def", "class"], before: &["async"], has_bare_functions: false },
    Words {
        endings: &["js", "jsx", "mjs", "cjs", "ts", "tsx"],
        defining: &["function", "function*", "class", "interface", "type", "enum", "namespace", "const", "let", "var"],
        before: &["export", "default", "declare", "abstract", "async", "const"],
        has_bare_functions: false,
    },
    Words { endings: &["go"], defining: &["func", "type", "const", "var"], before: &[], has_bare_functions: false },
    Words {
        endings: &["java", "kt", "kts", "cs", "scala", "swift"],
        defining: &[
            "class",
            "interface",
            "enum",
            "record",
            "object",
            "trait",
            "struct",
            "fun",
            "func",
            "def",
            "protocol",
        ],
        before: &[
            "public",
            "private",
            "protected",
            "internal",
            "static",
            "final",
            "abstract",
            "sealed",
            "open",
            "data",
            "override",
            "inline",
            "suspend",
            "partial",
            "case",
            "async",
            "mutating",
            "readonly",
            "companion",
        ],
        has_bare_functions: false,
    },
    Words {
        endings: &["c", "h", "cc", "cpp", "cxx", "hpp", "hh"],
        defining: &["struct", "class", "enum", "union", "namespace", "#define", "class"],
        before: &["typedef", "static", "inline", "template", "constexpr"],
        has_bare_functions: true,
    },
    Words { endings: &["rb"], defining: &["def", "class", "module"], before: &["private"], has_bare_functions: false },
    Words {
        endings: &["php"],
        defining: &["function", "class", "interface", "trait", "enum"],
        before: &["public", "private", "protected", "static", "final", "abstract", "readonly"],
        has_bare_functions: false,
    },
    Words { endings: &["sh", "bash"], defining: &["function"], before: &[], has_bare_functions: true },
];

/// Whether the file's language is known.
pub(super) fn is_known(path: &str) -> bool {
    words_of(path).is_some()
}

fn words_of(path: &str) -> Option<&'static Words> {
    let (_, ending) = path.rsplit_once('.')?;
    LANGUAGES.iter().find(|words| words.endings.contains(&ending))
}

/// What a file defines, in its order.
pub(super) fn definitions(path: &Arc<str>, text: &str) -> Vec<Symbol> {
    let Some(words) = words_of(path) else { return Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.len() <= MOST_LINE_BYTES) {
        if let Some((keyword, name)) = words.defined(line) {
            let (name, path) = (name.to_owned(), Arc::clone(path));
            found.push(Symbol { name, keyword, path, first: at + 1, last: end(&lines, at) + 1 });
        }
    }
    found
}

impl Words {
    /// The word that defines, and the name.
    fn defined<'l>(&self, line: &'l str) -> Option<(&'static str, &'l str)> {
        let mut rest = line.trim_start();
        loop {
            let word = &rest[..rest.find(|char: char| char.is_whitespace() || char == '(').unwrap_or(rest.len())];
            let behind = &rest[word.len()..];
            if let Some(keyword) = self.defining.iter().find(|keyword| **keyword == word)
                && let Some(name) = name_at_start(self.without_receiver(behind))
                && !self.before.contains(&name)
                && !self.defining.contains(&name)
            {
                // A value within a function is no definition to refer to.
                let is_value = matches!(*keyword, "let" | "var" | "const" | "static");
                return (!is_value || !line.starts_with(char::is_whitespace)).then_some((*keyword, name));
            }
            if !self.before.contains(&word) && !self.defining.contains(&word) {
                break;
            }
            // `pub(crate)`, `extern "C"`.
            rest = match behind.strip_prefix('(') {
                Some(within) => within.split_once(')')?.1,
                None => behind,
            };
            rest = rest.trim_start();
            if let Some(quoted) = rest.strip_prefix('"') {
                rest = quoted.split_once('"')?.1.trim_start();
            }
        }
        self.has_bare_functions.then(|| bare_function(line)).flatten().map(|name| ("function", name))
    }

    /// Go's methods have theirs before the name.
    fn without_receiver<'l>(&self, behind: &'l str) -> &'l str {
        let behind = behind.trim_start();
        match behind.strip_prefix('(').and_then(|within| within.split_once(')')) {
            Some((_, name)) if self.endings.contains(&"go") => name.trim_start(),
            _ => behind,
        }
    }
}

/// The name at the beginning of a text.
fn name_at_start(text: &str) -> Option<&str> {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
    let name = &text[..text.find(|char| !is_part(char)).unwrap_or(text.len())];
    (!name.is_empty() && !name.starts_with(|char: char| char.is_ascii_digit())).then_some(name)
}

/// `int main(int argc, char **argv) {`, `build() {`.
fn bare_function(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once('(')?;
    let is_indented = line.starts_with(char::is_whitespace);
    let is_told_from_a_call = behind.trim_end().ends_with(['{', ')', ',']) && !before.contains(['=', '#', '/', '"']);
    if is_indented || !is_told_from_a_call {
        return None;
    }
    let start = before.rfind(|char: char| !char.is_alphanumeric() && char != '_').map_or(0, |at| at + 1);
    // In C a type stands before it; in a shell its body begins on the line.
    let is_defined = start > 0 || behind.trim_start().starts_with(')');
    name_at_start(before.get(start..)?)
        .filter(|name| is_defined && !["if", "for", "while", "switch", "return"].contains(name))
}

/// The last line of what begins at a line.
fn end(lines: &[&str], at: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some(first) = lines.get(at) else { return at };
    if first.trim_end().ends_with([';', '}']) {
        return at;
    }
    let mut last = at;
    for (index, line) in lines.iter().enumerate().skip(at + 1).take(MOST_LINES - 1) {
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        if indent(line) > indent(first) {
            last = index;
            continue;
        }
        // `) -> Result<()> {`, `where`, `{`: the body is still to come.
        let is_before_body = |line: &&str| matches!(line.trim(), "where" | "{");
        let opens = text.ends_with('{') || lines.get(index + 1).is_some_and(is_before_body);
        if text.starts_with([')', '{']) && opens || text == "where" {
            last = index;
            continue;
        }
        let closes = text.starts_with(['}', ')', ']']) || text == "end";
        return if closes { index } else { last };
    }
    last
}
