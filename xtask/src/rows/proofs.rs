//! What stands for each row: `tests/rows.txt`, and the tests that it names, found in the tree.

use crate::sources::sources;
use crate::tests_run::Place;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const LIST: &str = "tests/rows.txt";
const ACCEPTANCE: &str = "crates/piton-testkit/tests/acceptance";

/// What a row can wait for, as `tests/rows.txt` calls it.
pub(super) const CAPABILITIES: [(&str, &str); 6] = [
    ("agents", "agents, subagents, plan mode, skills, commands, plugins"),
    ("tools", "rules that read commands, modes, and the full tool set"),
    ("terminal", "the terminal interface"),
    ("mcp", "the MCP client"),
    ("server", "a server, and other machines"),
    ("keys", "several keys of one provider, and aliases of models"),
];

/// Tests, by the row that they name.
type ByRow = BTreeMap<String, Vec<Test>>;

/// What stands for a row.
#[derive(Debug, Default)]
pub(super) struct Proof {
    pub(super) tests: Vec<Test>,
    pub(super) suites: Vec<String>,
    pub(super) otherwise: Option<String>,
    pub(super) waits: Option<String>,
}

/// A test as a row names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    /// As much of its path as tells it from others.
    pub(super) name: String,
    pub(super) place: Place,
}

/// What stands for each row, by its id. Every test and suite that is named is there.
pub(super) fn read() -> anyhow::Result<BTreeMap<String, Proof>> {
    let (all, by_row) = tests()?;
    let (mut proofs, mut faults) = (BTreeMap::new(), Vec::new());
    let text = super::read(LIST)?;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (id, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut proof = proof(id, rest, &all, &mut faults);
        proof.tests.splice(0..0, by_row.get(id).cloned().unwrap_or_default());
        if proof.tests.is_empty() && proof.suites.is_empty() && proof.waits.is_none() {
            faults.push(format!("{id}: neither a test nor a reason to wait"));
        }
        if proofs.insert(id.to_owned(), proof).is_some() {
            faults.push(format!("{id} stands there twice"));
        }
    }
    faults.extend(
        by_row.keys().filter(|id| !proofs.contains_key(*id)).map(|id| format!("a test names {id}, which is no row")),
    );
    ensure!(faults.is_empty(), "{LIST}:\n  {}", faults.join("\n  "));
    Ok(proofs)
}

/// `= tests @ suites ~ otherwise ! waits`, each optional.
fn proof(id: &str, rest: &str, all: &[Place], faults: &mut Vec<String>) -> Proof {
    let mut proof = Proof::default();
    for (mark, words) in marked(rest) {
        match mark {
            "=" => {
                for word in words.split(' ').filter(|word| !word.is_empty()) {
                    match find(word, all) {
                        Ok(place) => proof.tests.push(Test { name: word.to_owned(), place }),
                        Err(why) => faults.push(format!("{id}: {why}")),
                    }
                }
            }
            "@" => proof.suites = words.split(' ').map(str::to_owned).collect(),
            "~" => proof.otherwise = Some(words),
            _ => match waits(&words) {
                Some(words) => proof.waits = Some(words),
                None => faults.push(format!("{id}: waits for no capability that is known: {words}")),
            },
        }
    }
    let absent = |suite: &&String| !Path::new("tests/cases").join(format!("{suite}.json")).is_file();
    faults.extend(proof.suites.iter().filter(absent).map(|suite| format!("{id}: there is no suite {suite}")));
    proof
}

/// The words behind each mark.
fn marked(rest: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for word in rest.split(' ') {
        match word {
            "=" | "@" | "~" | "!" => found.push((word, Vec::new())),
            word => found.last_mut().into_iter().for_each(|(_, words)| words.push(word)),
        }
    }
    found.into_iter().map(|(mark, words)| (mark, words.join(" "))).collect()
}

/// `capability` or `capability: what of the row is there, or is not`.
fn waits(words: &str) -> Option<String> {
    let (name, more) = words.split_once(": ").unwrap_or((words, ""));
    let (_, title) = CAPABILITIES.iter().find(|(known, _)| *known == name)?;
    Some(if more.is_empty() { (*title).to_owned() } else { format!("{title} ({more})") })
}

/// The one test that is meant.
fn find(test: &str, all: &[Place]) -> Result<Place, String> {
    let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
    let ending = format!("/{module}");
    let is_there = |place: &&Place| module.is_empty() || place.file.ends_with(&ending);
    let mut found = all.iter().filter(|place| place.name == name).filter(is_there);
    match (found.next(), found.next()) {
        (Some(place), None) => Ok(place.clone()),
        (None, _) => Err(format!("there is no test {test}")),
        (Some(_), Some(_)) => Err(format!("several tests are called {test}; name more of the path")),
    }
}

/// Every test of the tree, and those of the acceptance folder by the rows that their doc comments name.
fn tests() -> anyhow::Result<(Vec<Place>, ByRow)> {
    let (mut all, mut by_row) = (Vec::new(), ByRow::new());
    for file in sources(Path::new("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.with_extension("").display().to_string();
        let (mut is_test, mut ids) = (false, Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(doc) = line.strip_prefix("/// ") {
                let named = doc.split(':').next().unwrap_or_default();
                ids.extend(named.split(' ').filter(|word| is_id(word)).map(str::to_owned));
            } else if line.starts_with("#[") {
                is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test");
            } else if let Some(name) = function(line).filter(|_| is_test) {
                let place = Place { file: stem.clone(), name: name.to_owned() };
                all.push(place.clone());
                if file.starts_with(ACCEPTANCE) {
                    let test = Test { name: format!("acceptance::{name}"), place };
                    ids.drain(..).for_each(|id| by_row.entry(id).or_default().push(test.clone()));
                }
                (is_test, ids) = (false, Vec::new());
            } else {
                (is_test, ids) = (false, Vec::new());
            }
        }
    }
    Ok((all, by_row))
}

/// `S0-001`, `N4-08`, `C-30`.
pub(super) fn is_id(word: &str) -> bool {
    let Some((document, number)) = word.split_once('-') else { return false };
    let is_document = matches!(document, "S0" | "S1" | "S2" | "S3" | "S4" | "N0" | "N1" | "N3" | "N4" | "C");
    is_document && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split('(').next()
}
