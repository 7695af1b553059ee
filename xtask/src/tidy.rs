//! The house rules that no lint knows. Each names the place and the rule.

mod circles;
mod links;

use crate::sources::sources;
use anyhow::{Context, ensure};
use std::path::Path;

/// Lines a function may have; a flat table or match may be longer, and is then listed in [`LONG_FUNCTIONS`].
const MOST_LINES: usize = 70;
/// Functions that are longer, with the most lines they may have: a ratchet, it only goes down.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[("crates/piton-core/src/turn.rs", "step", 90)];
/// Fields that a struct of the driver may have: one with more hides a second machine.
const MOST_FIELDS: usize = 12;
/// Where such structs are.
const DRIVER: &str = "crates/piton-engine/src/driver";
/// Which crates of ours a crate may use: only such as stand above it here, so that there is no circle of crates.
const LAYERS: &[(&str, &[&str])] = &[
    ("piton-shell", &[]),
    ("piton-core", &["piton-shell"]),
    ("piton-http", &["piton-core"]),
    ("piton-sandbox", &[]),
    ("piton-models", &["piton-core", "piton-http"]),
    ("piton-tools", &["piton-core", "piton-http", "piton-sandbox", "piton-shell"]),
    ("piton-mcp", &["piton-core", "piton-http", "piton-sandbox", "piton-tools"]),
    ("piton-engine", &["piton-core", "piton-http", "piton-mcp", "piton-models", "piton-sandbox", "piton-tools"]),
    ("piton-tui", &["piton-core"]),
    (
        "piton-cli",
        &[
            "piton-core",
            "piton-http",
            "piton-mcp",
            "piton-models",
            "piton-sandbox",
            "piton-tools",
            "piton-engine",
            "piton-tui",
        ],
    ),
    (
        "piton-testkit",
        &["piton-core", "piton-http", "piton-mcp", "piton-models", "piton-sandbox", "piton-tools", "piton-engine"],
    ),
];
/// What `piton-core` may use: nothing that does IO.
const CORE_DEPENDENCIES: &[&str] = &["memchr", "piton-shell", "serde", "serde_json", "strum", "thiserror"];
/// Words in `piton-core` that would break its wall.
const CORE_TABOOS: &[&str] =
    &["std::fs", "std::net", "std::env", "std::process", "std::thread", "SystemTime", "Instant", "async fn"];

/// Checks them all and reports every fault.
pub(crate) fn tidy() -> anyhow::Result<()> {
    let mut faults = Vec::new();
    layers(&mut faults)?;
    for (name, _) in LAYERS {
        circles::check(name, &mut faults)?;
    }
    for file in sources(Path::new("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.to_string_lossy().into_owned();
        module_doc(&name, &text, &mut faults);
        function_length(&name, &text, &mut faults);
        core_wall(&name, &text, &mut faults);
        field_count(&name, &text, &mut faults);
    }
    links::check(&mut faults)?;
    for check in [crate::rows::check, crate::mutants::check] {
        if let Err(error) = check() {
            faults.push(format!("{error:#}"));
        }
    }
    faults.iter().for_each(|fault| println!("  {fault}"));
    ensure!(faults.is_empty(), "{} things are not tidy", faults.len());
    Ok(())
}

fn layers(faults: &mut Vec<String>) -> anyhow::Result<()> {
    for dir in std::fs::read_dir("crates")? {
        let name = dir?.file_name();
        if !LAYERS.iter().any(|(listed, _)| name == *listed) {
            faults.push(format!("crates/{}: say in tidy's LAYERS what it may use", name.to_string_lossy()));
        }
    }
    for (at, (name, allowed)) in LAYERS.iter().enumerate() {
        for used in allowed.iter().filter(|used| !LAYERS[..at].iter().any(|(above, _)| above == *used)) {
            faults
                .push(format!("{name} may not use {used}, which does not stand above it: crates would go in a circle"));
        }
        let path = format!("crates/{name}/Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let own = text.split("[dev-dependencies]").next().unwrap_or(&text);
        for line in own.split("[dependencies]").nth(1).unwrap_or_default().lines() {
            let Some(used) = line.split(['.', ' ', '=']).next().filter(|used| !used.is_empty()) else { continue };
            if used.starts_with("piton-") && !allowed.contains(&used) {
                faults.push(format!("{path}: {name} must not use {used}"));
            }
            if *name == "piton-core" && !used.starts_with(['[', '#']) && !CORE_DEPENDENCIES.contains(&used) {
                faults.push(format!("{path}: {used} is not among the few things the core may use"));
            }
            if used.starts_with('[') {
                break;
            }
        }
    }
    Ok(())
}

fn module_doc(name: &str, text: &str, faults: &mut Vec<String>) {
    if !text.starts_with("//!") {
        faults.push(format!("{name}: a file opens with what it is (//! …)"));
    }
}

fn core_wall(name: &str, text: &str, faults: &mut Vec<String>) {
    if !name.starts_with("crates/piton-core/src") {
        return;
    }
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    for (number, line) in code {
        for taboo in CORE_TABOOS.iter().filter(|taboo| line.contains(*taboo)) {
            faults.push(format!("{name}:{}: the core knows no {taboo}", number + 1));
        }
    }
}

fn field_count(name: &str, text: &str, faults: &mut Vec<String>) {
    if !name.starts_with(DRIVER) {
        return;
    }
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("struct ") && line.ends_with('{')) {
        let field = format!("{}    ", &line[..line.len() - line.trim_start().len()]);
        let body = lines[start + 1..].iter().take_while(|line| line.is_empty() || line.starts_with(&field));
        let is_field = |line: &&&str| {
            let own = line.strip_prefix(&field).filter(|own| own.starts_with(|first: char| first.is_alphabetic()));
            own.is_some_and(|own| own.contains(": "))
        };
        let fields = body.filter(is_field).count();
        if fields > MOST_FIELDS {
            let place = format!("{name}:{}", start + 1);
            faults.push(format!("{place}: a struct of the driver has {fields} fields, and {MOST_FIELDS} are the most"));
        }
    }
}

fn function_length(name: &str, text: &str, faults: &mut Vec<String>) {
    if !name.contains("/src/") || name.ends_with("tests.rs") || name.contains("/tests/") {
        return;
    }
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let Some(function) = function_name(line) else { continue };
        // A trait's function without a body ends with its signature.
        let signature = lines[start..].iter().find(|line| line.ends_with(['{', ';', '}']));
        if signature.is_some_and(|end| end.ends_with(';')) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = lines[start..].iter().position(|line| *line == format!("{indent}}}"));
        let length = end.map_or(1, |end| end + 1);
        let most =
            LONG_FUNCTIONS.iter().find(|long| (long.0, long.1) == (name, function)).map_or(MOST_LINES, |long| long.2);
        if length > most {
            faults.push(format!("{name}:{}: {function} has {length} lines, {most} are enough", start + 1));
        }
    }
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}
