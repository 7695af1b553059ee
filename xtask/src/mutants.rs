//! `cargo xtask mutants`: does a test of a row fail when the row is broken? `tests/mutants.txt` has changes to the code, each
//! with the rows that claim it. A copy of the tree gets all of them, each behind a switch, and is built once; then the
//! tests of its rows run for each, with its switch on. The switch is a file with the mutant's number: tests choose the environment
//! of the binaries that they start.

use crate::rows;
use crate::tests_run::{self, Executable, Place, Verdict};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIST: &str = "tests/mutants.txt";
const PAGE: &str = "docs/dev/audit/mutants.md";
/// The switch: a file with the number of the mutant that is on.
const SWITCH: &str = "target/mutants/switch";
/// Where the tests are that may be named.
const TESTED: [(&str, &str); 8] = [
    ("piton-core", "lib"),
    ("piton-shell", "rules"),
    ("piton-tools", "edits"),
    ("piton-tools", "tools"),
    ("piton-engine", "engine"),
    ("piton-testkit", "acceptance"),
    ("piton-testkit", "scenarios"),
    ("piton-cli", "program"),
];

/// One change, with the rows that claim that it would be seen.
#[derive(Debug, Default)]
struct Mutant {
    name: String,
    rows: Vec<String>,
    file: String,
    /// What stands there, and what stands there instead.
    changes: Vec<(String, String)>,
}

/// Runs those of these names, or all, and writes the page if it was all.
pub(crate) fn mutants(names: &[&str]) -> anyhow::Result<()> {
    let mutants = read()?;
    let wanted = |mutant: &Mutant| names.is_empty() || names.contains(&mutant.name.as_str());
    ensure!(mutants.iter().any(wanted), "no mutant is called {}", names.join(" or "));
    let (of, tree) = (rows::commit()?, copy()?);
    for (number, mutant) in (1..).zip(&mutants) {
        plant(&tree, number, mutant).with_context(|| mutant.name.clone())?;
    }
    let tests = rows::Tests::read()?;
    let rows: Vec<String> =
        mutants.iter().filter(|mutant| wanted(mutant)).flat_map(|mutant| mutant.rows.clone()).collect();
    let executables = build(&tree, &tests.of(&rows)?)?;
    let mut lines = Vec::new();
    let mut survivors = Vec::new();
    for (number, mutant) in (1..).zip(&mutants).filter(|(_, mutant)| wanted(mutant)) {
        let killers = killers(&executables, number, &tests.of(&mutant.rows)?)?;
        match killers.first() {
            Some(killer) => println!("{number:>3} {} caught by {killer}", mutant.name),
            None => println!("{number:>3} {} SURVIVES {}", mutant.name, mutant.rows.join(" ")),
        }
        if killers.is_empty() {
            survivors.push(mutant.name.clone());
        }
        let said = killers.iter().map(|killer| format!("`{killer}`")).collect::<Vec<_>>().join(", ");
        lines.push(format!("| {} | {} | {said} |", mutant.name.replace('_', " "), mutant.rows.join(" ")));
    }
    ensure!(survivors.is_empty(), "{} of {} survive: {}", survivors.len(), lines.len(), survivors.join(", "));
    println!("all {} are caught", lines.len());
    if names.is_empty() {
        std::fs::write(PAGE, page(&of, &lines))?;
    }
    Ok(())
}

/// Whether each of them still fits the tree, and has tests that could catch it.
pub(crate) fn check() -> anyhow::Result<()> {
    let (tests, mut faults) = (rows::Tests::read()?, Vec::new());
    for Mutant { name, rows, file, changes } in read()? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("{name}: cannot read {file}"))?;
        let fits = |(old, _): &&(String, String)| find(&text, old).len() == 1;
        if !changes.iter().all(|change| fits(&change)) {
            faults.push(format!("{name} does not fit {file} any more: write down what breaks the row today"));
        }
        if tests.of(&rows)?.is_empty() {
            faults.push(format!("{name}: no test stands for {}", rows.join(" ")));
        }
    }
    ensure!(faults.is_empty(), "{LIST}:\n  {}", faults.join("\n  "));
    Ok(())
}

fn read() -> anyhow::Result<Vec<Mutant>> {
    let text = std::fs::read_to_string(LIST).with_context(|| format!("cannot read {LIST}"))?;
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut was_new = false;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "mutant" {
            let (name, rows) = rest.split_once(": ").with_context(|| format!("{LIST}: {line} names no row"))?;
            let rows = rows.split(' ').map(str::to_owned).collect();
            mutants.push(Mutant { name: name.to_owned(), rows, ..Mutant::default() });
            continue;
        }
        let mutant = mutants.last_mut().with_context(|| format!("{LIST}: {line} belongs to no mutant"))?;
        match mark {
            "file" => rest.clone_into(&mut mutant.file),
            "-" if was_new || mutant.changes.is_empty() => mutant.changes.push((rest.to_owned(), String::new())),
            "-" | "+" => {
                let (old, new) =
                    mutant.changes.last_mut().with_context(|| format!("{LIST}: {line} replaces nothing"))?;
                let side = if mark == "-" { old } else { new };
                if !side.is_empty() {
                    side.push('\n');
                }
                side.push_str(rest);
            }
            _ => anyhow::bail!("{LIST}: what is {line}?"),
        }
        was_new = mark == "+";
    }
    Ok(mutants)
}

/// A copy of the tree in `target/mutants`.
fn copy() -> anyhow::Result<PathBuf> {
    let tree = std::env::current_dir()?.join("target/mutants/tree");
    if tree.exists() {
        std::fs::remove_dir_all(&tree)?;
    }
    std::fs::create_dir_all(&tree)?;
    let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
    for file in listed.stdout.split(|byte| *byte == 0).filter(|file| !file.is_empty()) {
        let file = Path::new(std::str::from_utf8(file)?);
        let to = tree.join(file);
        std::fs::create_dir_all(to.parent().unwrap_or(&tree))?;
        // With its time: what is as it was is not built again.
        if file.is_file() {
            std::fs::copy(file, &to)?;
            let was = std::fs::metadata(file)?.modified()?;
            std::fs::File::options().write(true).open(&to)?.set_modified(was)?;
        }
    }
    Ok(tree)
}

/// Puts one mutant into the copy, behind its switch.
fn plant(tree: &Path, number: usize, mutant: &Mutant) -> anyhow::Result<()> {
    let path = tree.join(&mutant.file);
    let mut text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", mutant.file))?;
    let switch = format!("crate::is_mutant({number})");
    for (old, new) in &mutant.changes {
        // Lines may stand at any depth.
        let found = find(&text, old);
        ensure!(found.len() == 1, "{} places in {} have\n{old}", found.len(), mutant.file);
        let is_whole = new.contains("$M") || mutant.changes.len() > 1 || old.ends_with(',');
        let new = match is_whole {
            true => new.replace("$M", &switch),
            false => format!("(if {switch} {{ {new} }} else {{ {old} }})"),
        };
        text.replace_range(found[0].clone(), &new);
    }
    std::fs::write(&path, text)?;
    let crate_root = mutant.file.split("/src/").next().unwrap_or_default();
    let root = tree.join(crate_root).join("src/lib.rs");
    let lib = std::fs::read_to_string(&root)?;
    if !lib.contains("fn is_mutant") {
        let switch = std::env::current_dir()?.join(SWITCH);
        std::fs::write(&root, format!("{lib}\n{}", SWITCHED.replace("$SWITCH", &switch.display().to_string())))?;
    }
    Ok(())
}

const SWITCHED: &str = r#"
/// Whether this mutant was asked for.
pub(crate) fn is_mutant(number: usize) -> bool {
    static ASKED: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let asked = || std::fs::read_to_string("$SWITCH").ok().and_then(|number| number.parse().ok()).unwrap_or_default();
    *ASKED.get_or_init(asked) == number
}
"#;

/// Where these lines stand, whatever stands before each of them.
fn find(text: &str, lines: &str) -> Vec<std::ops::Range<usize>> {
    let mut wanted = lines.lines();
    let Some(first) = wanted.next().map(str::trim_start) else { return Vec::new() };
    let rest: Vec<&str> = wanted.map(str::trim_start).collect();
    let ranges = text.match_indices(first).filter_map(|(start, _)| {
        let mut end = start + first.len();
        for line in &rest {
            let after = text[end..].strip_prefix('\n')?.trim_start_matches(' ');
            end = text.len() - after.strip_prefix(line)?.len();
        }
        Some(start..end)
    });
    ranges.collect()
}

/// Builds the executables of these tests, in a place of its own: to cargo, crates at the same place in two trees are the same.
fn build(tree: &Path, tests: &[&Place]) -> anyhow::Result<Vec<Executable>> {
    let target = std::env::current_dir()?.join("target/mutants/built");
    let mut args = Vec::new();
    for (package, test) in TESTED {
        let folder = match test {
            "lib" => format!("crates/{package}/src/"),
            test => format!("crates/{package}/tests/{test}"),
        };
        if !tests.iter().any(|place| place.file.starts_with(&folder)) {
            continue;
        }
        args.extend(["-p", package]);
        match test {
            "lib" => args.push("--lib"),
            test => args.extend(["--test", test]),
        }
    }
    let executables = tests_run::build(tree, Some(&target), &args)?;
    Ok(executables.into_iter().filter(|built| TESTED.iter().any(|tested| built.is(*tested))).collect())
}

/// The tests of its rows that fail with it.
fn killers(executables: &[Executable], number: usize, tests: &[&Place]) -> anyhow::Result<Vec<String>> {
    let mut killers = BTreeSet::new();
    for executable in executables {
        let named: Vec<String> =
            executable.tests()?.into_iter().filter(|name| is_named(executable, name, tests)).collect();
        for name in named {
            if kills(executable, &name, number)? {
                killers.insert(name.rsplit("::").next().unwrap_or(&name).to_owned());
            }
        }
    }
    Ok(killers.into_iter().collect())
}

/// Whether a test fails with a mutant, and without one does not.
fn kills(executable: &Executable, name: &str, number: usize) -> anyhow::Result<bool> {
    let passes = |number: usize| -> anyhow::Result<bool> {
        std::fs::write(SWITCH, number.to_string())?;
        Ok(executable.run_alone(name)? == Verdict::Passed)
    };
    if passes(number)? {
        return Ok(false);
    }
    ensure!(passes(0)?, "{name} fails without a mutant, too");
    Ok(true)
}

fn is_named(executable: &Executable, name: &str, tests: &[&Place]) -> bool {
    tests.iter().any(|place| executable.has(name, place))
}

fn page(of: &str, lines: &[String]) -> String {
    format!(
        "# What breaks when a row is broken\n\nA row that nobody would miss is not proved. `cargo xtask mutants` changes the code in {} \
         ways ([tests/mutants.txt](../../../tests/mutants.txt)), and for each runs the tests that stand for the rows it breaks \
         ([source-loops.md](source-loops.md)): one has to fail. It builds a copy of the tree in `target/mutants`, which takes longer \
         than a check in CI may, so that it is run by hand when the code or its tests change. A change that no longer fits the code is \
         an error.\n\nRun at {of}: all are caught.\n\n| the code, changed | rows | caught by |\n| --- | --- | --- |\n{}\n",
        lines.len(),
        lines.join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_at_any_depth() {
        let text = "fn a() {\n    if x {\n        y();\n    }\n}\n";
        let found: Vec<&str> = find(text, "if x {\n    y();").into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["if x {\n        y();"]);
        assert_eq!(find(text, "y();\nz();"), []);
    }
}
