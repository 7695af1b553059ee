//! `docs/events.md`: every event and every fragment with its fields, read off the sources of `piton-core` with the comments
//! that stand there. The sources are as rustfmt leaves them, which is all that the reading here relies on.

use anyhow::{Context, ensure};
use std::collections::BTreeSet;

/// Where it is published.
const FILE: &str = "docs/events.md";
/// Where what a client can ask for is described.
const VERBS: &str = "docs/control.md";
/// The sources in which the types are looked for, in this order.
const SOURCES: &[&str] = &[
    "event",
    "question",
    "inquiry",
    "todo",
    "call",
    "message",
    "model",
    "hook",
    "prompt",
    "budget",
    "policy",
    "permission",
    "effort",
    "configure",
    "progress",
    "retry",
    "words",
    "client",
];
/// Types whose JSON is said at their first use and needs no section.
const PLAIN: &[(&str, &str)] = &[
    ("u16", "number"),
    ("u32", "number"),
    ("u64", "number"),
    ("i32", "number"),
    ("usize", "number"),
    ("f64", "number"),
    ("bool", "boolean"),
    ("String", "string"),
    ("Value", "any JSON"),
    ("Seq", "number"),
    ("TimeMs", "number"),
    ("SessionId", "string"),
    ("MessageId", "string"),
    ("CallId", "string"),
    // In JSON: kind, hash, bytes.
    ("Segment", "list of a kind, a hash and a number of bytes"),
];

const HEAD: &str = "# Events

`cargo xtask schema` generates this page from the sources; edit those. A **record** is an event with `seq`, its position in the
journal from 1, `at_ms`, the time of recording in milliseconds since the Unix epoch, `type`, and the fields below. A **fragment** has
`type` and fields but no `seq`: the journal does not contain it. *Optional* fields may be absent. Ignore types and fields that you do not know.
";

/// A type with its documentation.
struct Type {
    name: String,
    doc: String,
    /// Whether its variants are told apart by a field, and which.
    tag: Option<String>,
    /// How the names of variants are written in JSON, if not as they stand.
    case: Option<char>,
    shape: Shape,
}

enum Shape {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

struct Variant {
    name: String,
    doc: String,
    /// Unnamed content, if it has some.
    content: Option<String>,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    doc: String,
    kind: String,
    optional: bool,
}

/// Writes it.
pub(crate) fn write() -> anyhow::Result<()> {
    std::fs::write(FILE, page()?)?;
    println!("{FILE} is written");
    Ok(())
}

/// Whether what is published is what the code says.
pub(crate) fn check() -> anyhow::Result<()> {
    let published = std::fs::read_to_string(FILE).unwrap_or_default();
    ensure!(published == page()?, "{FILE} is not what the code says; make it with cargo xtask schema");
    verbs()
}

/// Whether what a client can ask for is described, all of it.
fn verbs() -> anyhow::Result<()> {
    let described = std::fs::read_to_string(VERBS)?;
    let types = types_of(&std::fs::read_to_string("crates/piton-core/src/client.rs")?);
    for name in ["Request", "Line"] {
        let Some(Shape::Enum(variants)) = types.iter().find(|known| known.name == name).map(|known| &known.shape)
        else {
            anyhow::bail!("piton_core::client::{name} is no enum")
        };
        // A request to a subagent is that request, with its session.
        for verb in variants.iter().map(|variant| lower(&variant.name, '_')).filter(|verb| verb != "subagent") {
            ensure!(
                described.contains(&format!("{{\"do\":\"{verb}\"")),
                "{VERBS} does not describe the request `{verb}`"
            );
        }
    }
    Ok(())
}

fn page() -> anyhow::Result<String> {
    let mut types = Vec::new();
    for source in SOURCES {
        let path = format!("crates/piton-core/src/{source}.rs");
        // A vocabulary that is not there has no types.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        types.extend(types_of(&text));
    }
    let find = |name: &str| types.iter().find(|known| known.name == name);
    let mut text = HEAD.to_owned();
    let mut open: Vec<String> = Vec::new();
    for (title, name) in [("Records", "Event"), ("Fragments", "Live")] {
        let root = find(name).with_context(|| format!("{name} is not in the sources"))?;
        let Shape::Enum(variants) = &root.shape else { anyhow::bail!("{name} is no enum") };
        text.push_str(&format!("\n## {title}\n"));
        for variant in variants {
            text.push_str(&format!("\n### `{}`\n\n{}\n", lower(&variant.name, '_'), variant.doc));
            text.push_str(&table(&variant.fields, &mut open));
        }
    }
    text.push_str("\n## Types\n");
    let mut told: BTreeSet<String> = BTreeSet::new();
    let mut at = 0;
    while let Some(name) = open.get(at).cloned() {
        at += 1;
        match find(&name) {
            Some(known) if told.insert(name.clone()) => text.push_str(&section(known, &mut open)),
            Some(_) => {}
            None => text = text.replace(&link(&name), &name),
        }
    }
    Ok(text)
}

fn section(known: &Type, open: &mut Vec<String>) -> String {
    let mut text = format!("\n### {}\n\n{}\n", known.name, known.doc);
    match &known.shape {
        Shape::Struct(fields) => text.push_str(&table(fields, open)),
        Shape::Enum(variants) => {
            text.push_str(
                &known.tag.as_ref().map(|tag| format!("The field `{tag}` names the variant.\n")).unwrap_or_default(),
            );
            text.push('\n');
            for variant in variants {
                let name = known.case.map_or(variant.name.clone(), |between| lower(&variant.name, between));
                let content = match (&variant.content, &known.tag) {
                    (Some(content), None) => format!("`{{\"{name}\": …}}` with {}", shown(content, open)),
                    (Some(content), Some(_)) => format!("`{name}` with the fields of {}", shown(content, open)),
                    (None, None) if !variant.fields.is_empty() => format!("`{{\"{name}\": {{…}}}}`"),
                    (None, _) => format!("`{name}`"),
                };
                text.push_str(&format!("- {content}: {}\n", variant.doc));
                for field in &variant.fields {
                    let optional = if field.optional { ", optional" } else { "" };
                    let kind = shown(&field.kind, open);
                    text.push_str(&format!("  - `{}` ({kind}{optional}): {}\n", field.name, field.doc));
                }
            }
        }
    }
    text
}

fn table(fields: &[Field], open: &mut Vec<String>) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut text = "\n| field | JSON | |\n| --- | --- | --- |\n".to_owned();
    for field in fields {
        let optional = if field.optional { ", optional" } else { "" };
        let doc = field.doc.replace('|', "\\|");
        text.push_str(&format!("| `{}` | {}{optional} | {doc} |\n", field.name, shown(&field.kind, open)));
    }
    text
}

/// A type as readers of JSON call it; one that has a section is linked, and noted as open.
fn shown(kind: &str, open: &mut Vec<String>) -> String {
    let inner = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>').map(str::to_owned);
    if let Some(kind) = ["Box<", "Option<", "Arc<"].iter().find_map(|outer| inner(outer)) {
        return shown(&kind, open);
    }
    if let Some(kind) = inner("Vec<") {
        return format!("list of {}", shown(&kind, open));
    }
    if let Some(kinds) = kind.strip_prefix('(').and_then(|kinds| kinds.strip_suffix(')')) {
        let kinds: Vec<String> = kinds.split(", ").map(|kind| shown(kind, open)).collect();
        return format!("list of {}", kinds.join(", "));
    }
    let name = kind.rsplit("::").next().unwrap_or(kind);
    if let Some((_, plain)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
        return (*plain).to_owned();
    }
    open.push(name.to_owned());
    link(name)
}

fn link(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

/// The public types of a source.
fn types_of(text: &str) -> Vec<Type> {
    let lines: Vec<&str> = text.lines().collect();
    let mut types = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let head = ["pub struct ", "pub enum "].iter().find_map(|kind| line.strip_prefix(kind));
        let Some(name) = head.and_then(|head| head.strip_suffix(" {")) else { continue };
        let body = lines[at + 1..].iter().take_while(|line| **line != "}").copied().collect::<Vec<_>>();
        let (doc, attributes) = above(&lines, at);
        let tag = attributes.split_once("tag = \"").and_then(|(_, rest)| rest.split('"').next()).map(str::to_owned);
        let case = [("snake_case", '_'), ("kebab-case", '-')].into_iter().find(|(word, _)| attributes.contains(word));
        let case = case.map(|(_, between)| between);
        let shape = match line.starts_with("pub struct") {
            true => Shape::Struct(fields(&body, 4)),
            false => Shape::Enum(variants(&body)),
        };
        types.push(Type { name: name.to_owned(), doc, tag, case, shape });
    }
    types
}

fn variants(body: &[&str]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (at, line) in body.iter().enumerate() {
        let Some(head) = line.strip_prefix("    ").filter(|head| head.starts_with(|c: char| c.is_ascii_uppercase()))
        else {
            continue;
        };
        let name: String = head.chars().take_while(char::is_ascii_alphanumeric).collect();
        let rest = &head[name.len()..];
        let content = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix("),")).map(str::to_owned);
        let inside: Vec<&str> = match rest == " {" {
            true => body[at + 1..].iter().take_while(|line| **line != "    },").copied().collect(),
            false => Vec::new(),
        };
        let (doc, _) = above(body, at);
        variants.push(Variant { name, doc, content, fields: fields(&inside, 8) });
    }
    variants
}

fn fields(body: &[&str], indent: usize) -> Vec<Field> {
    let mut fields = Vec::new();
    for (at, line) in body.iter().enumerate() {
        let own = line.trim_start();
        let is_field = line.len() - own.len() == indent && !own.starts_with(['/', '#', '}']);
        let own = own.strip_prefix("pub ").unwrap_or(own);
        let Some((name, kind)) = own.strip_suffix(',').and_then(|own| own.split_once(": ")).filter(|_| is_field) else {
            continue;
        };
        let (doc, attributes) = above(body, at);
        if attributes.contains("flatten") || attributes.contains("serde(skip)") {
            continue;
        }
        let name = name.strip_prefix("r#").unwrap_or(name).to_owned();
        let optional = kind.starts_with("Option<") || attributes.contains("skip_serializing_if");
        fields.push(Field { name, doc, kind: kind.to_owned(), optional });
    }
    fields
}

/// The documentation and the attributes that stand above a line.
fn above(lines: &[&str], at: usize) -> (String, String) {
    let own = |line: &&&str| line.trim_start().starts_with(['/', '#']);
    let mut above: Vec<&str> = lines[..at].iter().rev().take_while(own).map(|line| line.trim_start()).collect();
    above.reverse();
    let doc: Vec<&str> = above.iter().filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    let attributes: Vec<&str> = above.iter().filter(|line| line.starts_with('#')).copied().collect();
    (plain(&doc.join(" ")), attributes.join(" "))
}

/// A comment without the links that only rustdoc follows.
fn plain(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").unwrap_or((link, ""));
        let name = name.rsplit("::").next().unwrap_or(name);
        text.push_str(&format!("{before}`{name}`"));
        rest = after;
    }
    text + rest
}

/// `TurnStarted` as `turn_started`, with this between the words.
fn lower(name: &str, between: char) -> String {
    let mut text = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            text.push(between);
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}
