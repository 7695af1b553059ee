//! Import circles: modules of one crate that import each other, directly or through others.
//!
//! A *unit* is a file together with its private child modules: those are its inside, and nobody else can name them. A
//! child that others can name (`pub`, `pub(crate)`) is a unit of its own. Tests are left out, and so is the root, which
//! only lists modules.
//!
//! Inside a unit, a module and its children are one subject and may name each other; siblings may not go in a circle. A name
//! that a parent hands on (`pub use child::Name`) counts as the child's.

use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Units by name, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The code of each module of a crate, by its name.
type Texts = BTreeMap<String, String>;

/// Reports each unit in a circle, and each sibling within one.
pub(super) fn check(krate: &str, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let texts = read(&Path::new("crates").join(krate).join("src"))?;
    let circles = circles(&texts).into_iter();
    faults.extend(
        circles.map(|circle| format!("{krate}: {} is in an import circle: {}", circle[0], circle.join(" -> "))),
    );
    Ok(())
}

/// For each module in a circle, the shortest way back to it.
fn circles(texts: &Texts) -> Vec<Vec<String>> {
    let by_file = imports(texts);
    let between_units = |name: &str, other: &str| Some((unit(name, texts), unit(other, texts)));
    let within_units = |name: &str, other: &str| siblings(name, other, texts);
    let levels = [merged(&by_file, between_units), merged(&by_file, within_units)];
    levels.iter().flat_map(|imports| imports.keys().filter_map(|from| circle(from, imports))).collect()
}

/// The imports between what `ends` makes of two modules.
fn merged(by_file: &Imports, ends: impl Fn(&str, &str) -> Option<(String, String)>) -> Imports {
    let mut merged = Imports::new();
    for (name, others) in by_file {
        for (from, to) in others.iter().filter_map(|other| ends(name, other)).filter(|(from, to)| from != to) {
            merged.entry(from).or_default().insert(to);
        }
    }
    merged
}

/// The private siblings in which two modules of one unit stand, where neither is above the other.
fn siblings(name: &str, other: &str, texts: &Texts) -> Option<(String, String)> {
    let (one, two): (Vec<_>, Vec<_>) = (name.split("::").collect(), other.split("::").collect());
    let same = one.iter().zip(&two).take_while(|(one, two)| one == two).count();
    let sibling = |path: &[&str]| path.get(..=same).map(|path| path.join("::"));
    let ends = (sibling(&one)?, sibling(&two)?);
    (same > 0 && is_private(&ends.0, texts) && is_private(&ends.1, texts)).then_some(ends)
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

/// The modules of a crate.
fn read(src: &Path) -> anyhow::Result<Texts> {
    let mut texts = Texts::new();
    for file in crate::sources::sources(src)? {
        let below = file.strip_prefix(src)?.with_extension("");
        let path: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        let name = path.join("::");
        if !["lib", "main"].contains(&name.as_str()) && path.last().is_none_or(|last| last != "tests") {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            texts.insert(name, code(&text));
        }
    }
    Ok(texts)
}

/// What the modules of a crate import of each other.
fn imports(texts: &Texts) -> Imports {
    let handed_on: BTreeMap<&str, _> =
        texts.iter().map(|(name, text)| (name.as_str(), handed_on(text, name))).collect();
    let mut imports = Imports::new();
    for (name, text) in texts {
        let own = imports.entry(name.clone()).or_default();
        for path in paths(text, name) {
            let Some(module) = module(&path, texts) else { continue };
            // Who names a parent's name names the child from which the parent has it.
            let item = path.get(module.split("::").count());
            let child = item.and_then(|item| handed_on.get(module.as_str())?.get(item));
            own.insert(child.cloned().unwrap_or(module));
        }
    }
    imports
}

/// The names that a module has from its children, each with the child.
fn handed_on(text: &str, name: &str) -> BTreeMap<String, String> {
    let mut handed_on = BTreeMap::new();
    for (at, _) in text.match_indices("use ").filter(|(at, _)| !text[..*at].ends_with(is_inside_of_a_path)) {
        let mut rest = text[at + "use ".len()..].trim_start();
        rest = rest.strip_prefix("self::").unwrap_or(rest);
        let mut found = Vec::new();
        tree(&mut rest, &[], &mut found);
        for path in found {
            if let [child, .., item] = path.as_slice()
                && children(text).any(|known| known == child)
            {
                handed_on.insert(item.clone(), format!("{name}::{child}"));
            }
        }
    }
    handed_on
}

/// The modules that a module declares.
fn children(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod ")).map(|(_, child)| child)
}

/// Whether nobody but its parent and what lies below that can name a module.
fn is_private(name: &str, texts: &Texts) -> bool {
    let declared = |(parent, child): (&str, &str)| {
        let text = texts.get(parent).map(String::as_str).unwrap_or_default();
        text.lines().any(|line| line.trim() == format!("mod {child};"))
    };
    name.rsplit_once("::").is_some_and(declared)
}

/// The nearest module, from this one up, that others can name.
fn unit(name: &str, texts: &Texts) -> String {
    let mut unit = name;
    let mut at = name;
    while let Some((parent, _)) = at.rsplit_once("::") {
        if is_private(at, texts) {
            unit = parent;
        }
        at = parent;
    }
    unit.to_owned()
}

/// The deepest module that a path names.
fn module(path: &[String], texts: &Texts) -> Option<String> {
    (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|name| texts.contains_key(name))
}

/// The source without comments, strings and tests.
fn code(text: &str) -> String {
    // Tests within the file are its end; those in a file of their own are a line of it.
    let is_within =
        |(at, mark): &(usize, &str)| text[at + mark.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    let tests = text.match_indices("\n#[cfg(test)]\nmod ").find(is_within);
    let text = &text[..tests.map_or(text.len(), |(at, _)| at)];
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
    let named = children(text).filter(|child| begins_with(text, child));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Vec<String> {
        let texts = files.into_iter().map(|(name, text)| (name.to_owned(), code(text))).collect();
        circles(&texts).iter().map(|circle| circle.join(" -> ")).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_a_circle() {
        let found = circles_of([("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "fn c() { crate::a::x() }")]);
        assert_eq!(found, ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"]);
        assert_eq!(circles_of([("a", "use crate::b;"), ("b", "// crate::a")]), [""; 0]);
    }

    #[test]
    fn private_siblings_that_import_each_other_are_a_circle() {
        let parent = ("a", "mod b;\nmod c;\nuse self::b::B;");
        let found = circles_of([parent, ("a::b", "use super::c::C;"), ("a::c", "use super::b::{self, X};")]);
        assert_eq!(found, ["a::b -> a::c -> a::b", "a::c -> a::b -> a::c"]);
        let found = circles_of([parent, ("a::b", "use super::c::C;"), ("a::c", "use crate::a::B;")]);
        assert_eq!(found, ["a::b -> a::c -> a::b", "a::c -> a::b -> a::c"], "by a name that the parent hands on");
        let found = circles_of([
            parent,
            ("a::b", "mod d;"),
            ("a::b::d", "fn d() { super::super::c::x() }"),
            ("a::c", "use super::b::X;"),
        ]);
        assert_eq!(found, ["a::b -> a::c -> a::b", "a::c -> a::b -> a::c"], "from further below");
    }

    #[test]
    fn a_module_and_its_children_may_name_each_other() {
        let found = circles_of([
            ("a", "mod b;\nmod c;\npub use b::{B};\npub use c::C;\npub struct A;"),
            ("a::b", "use super::{A, C};"),
            ("a::c", "use super::A;"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
