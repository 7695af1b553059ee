//! Files that a program may open though it is not known that it does: words whose role no table tells, and code for an interpreter.

use crate::expand::Field;
use crate::interpreters::takes_orders;
use crate::judged::Judged;
use std::collections::BTreeSet;

/// Names that are looked at. More of them are in no command that a person would say yes to by a rule.
const MOST: usize = 256;
/// Names of hosts that are looked at.
const MOST_HOSTS: usize = 4_096;

/// What may be hosts in a text: names with a dot, in small letters, `%2e` for a dot, too.
pub(crate) fn hosts(text: &str, found: &mut BTreeSet<String>) {
    if !text.contains('.') && !text.contains('%') {
        return;
    }
    let plain = text.to_lowercase().replace("%2e", ".").replace("%2d", "-").replace(['\u{3002}', '\u{ff0e}'], ".");
    for name in plain.split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-')) {
        let name = name.trim_matches(['.', '-']);
        if found.len() < MOST_HOSTS && name.contains('.') && name.len() < MOST {
            found.insert(name.to_string());
        }
    }
}

/// What may be paths in these arguments and this code, without those that are known to be read or written.
pub(crate) fn paths(name: &str, arguments: &[Field], code: Option<&str>, judged: &Judged) -> Vec<Field> {
    let mut all: Vec<Field> = Vec::new();
    let mut wild: Vec<Field> = Vec::new();
    let expands = takes_orders(name);
    let mut add = |text: &str, home: bool| {
        let known = judged.reads.iter().chain(&judged.writes).any(|field| field.text == text);
        let odd = text.is_empty() || text.starts_with('-') || text.len() > 1_024 || text.contains("://");
        if !known && !odd && all.len() < MOST && !all.iter().any(|field| field.text == text) {
            all.push(Field { home, ..Field::literal(text) });
        }
    };
    for field in arguments.iter().filter(|field| !field.is_open() || field.only_wildcards) {
        let text = field.text.as_str();
        if text.contains(char::is_whitespace) {
            continue;
        }
        if field.is_open() {
            wild.push(field.clone());
            continue;
        }
        add(text, field.home);
        // `--file=x`, `if=x`, `name=@x`, `HEAD:x`.
        for piece in text.split(['=', '@', ':', ',']).skip(1) {
            add(piece, false);
        }
    }
    let in_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '~' | '+' | '@' | '%');
    // Editors expand wildcards in their commands.
    for piece in
        code.filter(|_| expands).unwrap_or_default().split(|c| !in_path(c) && !matches!(c, '*' | '?' | '[' | ']'))
    {
        if let Some(at) = piece.find(['*', '?', '[']).filter(|_| piece.contains(['.', '/'])) {
            wild.push(Field { known: Some(at), only_wildcards: true, ..Field::literal(piece) });
        }
    }
    let mut before = ' ';
    for piece in code.unwrap_or_default().split_inclusive(|c| !in_path(c)) {
        let text = piece.trim_end_matches(|c| !in_path(c));
        let quoted = matches!(before, '"' | '\'' | '`');
        if quoted || text.contains(['/', '.']) {
            add(text, text.starts_with('~'));
        }
        before = piece.chars().last().unwrap_or(' ');
    }
    all.extend(wild.into_iter().take(MOST));
    all
}
