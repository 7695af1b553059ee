//! Import circles: modules of one crate that import each other, directly or through others.
//!
//! A *unit* is a file together with its private child modules: those are its inside, and nobody else can name them. A
//! child that others can name (`pub`, `pub(crate)`) is a unit of its own. Tests are left out, and so is the root, which
//! only lists modules.

use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Units by name, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reports each unit in a circle.
pub(super) fn check(krate: &str, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let imports = imports(&Path::new("crates").join(krate).join("src"))?;
    let circles = imports.keys().filter_map(|unit| Some((unit, circle(unit, &imports)?)));
    faults.extend(
        circles.map(|(unit, circle)| format!("{krate}: {unit} is in an import circle: {}", circle.join(" -> "))),
    );
    Ok(())
}

/// The shortest way from a unit back to itself.
fn circle(start: &str, imports: &Imports) -> Option<Vec<String>> {
    let mut ways: Vec<Vec<&str>> = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().copied().unwrap_or(start);
            for next in imports.get(last).into_iter().flatten() {
                let way = [way.as_slice(), &[next.as_str()]].concat();
                if next == start {
                    return Some(way.into_iter().map(str::to_owned).collect());
                }
                if seen.insert(next.as_str()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// What the units of a crate import of each other.
fn imports(src: &Path) -> anyhow::Result<Imports> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for file in crate::sources::sources(src)? {
        let below = file.strip_prefix(src)?.with_extension("");
        let path: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        let name = path.join("::");
        if !["lib", "main"].contains(&name.as_str()) && path.last().is_none_or(|last| last != "tests") {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            texts.insert(name, code(&text));
        }
    }
    let mut imports = Imports::new();
    for (name, text) in &texts {
        let unit = unit(name, &texts);
        let own = imports.entry(unit.clone()).or_default();
        let named = paths(text, name).into_iter().filter_map(|path| module(&path, &texts));
        own.extend(named.map(|module| self::unit(&module, &texts)).filter(|other| *other != unit));
    }
    Ok(imports)
}

/// The nearest module, from this one up, that others can name.
fn unit(name: &str, texts: &BTreeMap<String, String>) -> String {
    let mut unit = name;
    let mut at = name;
    while let Some((parent, child)) = at.rsplit_once("::") {
        let declared = texts.get(parent).map(String::as_str).unwrap_or_default();
        if declared.lines().any(|line| line.trim() == format!("mod {child};")) {
            unit = parent;
        }
        at = parent;
    }
    unit.to_owned()
}

/// The deepest module that a path names.
fn module(path: &[String], texts: &BTreeMap<String, String>) -> Option<String> {
    (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|name| texts.contains_key(name))
}

/// The source without comments, strings and tests.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().map(|line| match line.find("//") {
        Some(at) if line[..at].matches('"').count().is_multiple_of(2) => &line[..at],
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path that begins in this crate, from its root, as written in the module of this name.
fn paths(text: &str, name: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = name.split("::").map(str::to_owned).collect();
    let mut found = Vec::new();
    let starts = ["crate::", "super::", "self::"].into_iter().flat_map(|start| text.match_indices(start));
    for (at, _) in starts.filter(|(at, _)| !text[..*at].ends_with(is_inside_of_a_path)) {
        let mut from = own.clone();
        let mut rest = &text[at..];
        loop {
            rest = match rest {
                _ if rest.starts_with("crate::") => {
                    from.clear();
                    &rest["crate::".len()..]
                }
                _ if rest.starts_with("self::") => &rest["self::".len()..],
                _ if rest.starts_with("super::") => {
                    from.pop();
                    &rest["super::".len()..]
                }
                _ => break,
            };
        }
        tree(&mut rest, &from, &mut found);
    }
    // A parent also names its children without saying where they are.
    let children =
        text.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod ")).map(|(_, child)| child);
    let named = children.filter(|child| begins_with(text, child));
    found.extend(named.map(|child| own.iter().cloned().chain([child.to_owned()]).collect()));
    found
}

/// Whether a text has a path that begins with this word.
fn begins_with(text: &str, word: &str) -> bool {
    text.match_indices(&format!("{word}::")).any(|(at, _)| !text[..at].ends_with(is_inside_of_a_path))
}

fn is_inside_of_a_path(c: char) -> bool {
    c == ':' || c == '_' || c.is_alphanumeric()
}

/// Reads `a::{b, c::d}` and adds what it names.
fn tree(rest: &mut &str, from: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = from.to_vec();
    loop {
        *rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner;
            while !rest.trim_start().is_empty() && !rest.trim_start().starts_with('}') {
                let before = rest.len();
                tree(rest, &path, found);
                *rest = rest.trim_start().trim_start_matches(',');
                if rest.len() == before {
                    return;
                }
            }
            *rest = rest.trim_start().trim_start_matches('}');
            return;
        }
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        if end > 0 && &rest[..end] != "self" {
            path.push(rest[..end].to_owned());
        }
        *rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(more) => *rest = more,
            None => break,
        }
    }
    if let Some(alias) = rest.trim_start().strip_prefix("as ") {
        let end = alias.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(alias.len());
        *rest = &alias[end..];
    }
    found.push(path);
}
