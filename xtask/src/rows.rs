//! The checklist of the source documents: which test stands for which row. The rows are `tests/rows.txt`; the tests are
//! found in the tree, by the rows that the doc comments in `tests/acceptance` name and by the names in that file.

use crate::sources::sources;
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const ROWS: &str = "tests/rows.txt";
const TABLE: &str = "docs/audit/source-loops.md";
const ACCEPTANCE: &str = "crates/piton-testkit/tests/acceptance";

/// The documents, by the beginning of their rows' ids.
const DOCUMENTS: [(&str, &str); 9] = [
    ("S0", "Neovate's `runLoop` (preset `neovate`)"),
    ("S1", "the loop kernel of Pulse Coder (preset `pulse`)"),
    ("S2", "the plan to reform that loop (preset `coder-mvp`)"),
    ("S3", "etcode's agent loop (preset `etcode`)"),
    ("S4", "OpenCode's `loop` (preset `opencode`)"),
    ("N0", "newer Neovate"),
    ("N1", "newer Pulse Coder"),
    ("N3", "newer etcode"),
    ("N4", "newer OpenCode"),
];

/// Tests, by the row that they name.
type ByRow = BTreeMap<String, Vec<String>>;

/// One row, with what stands for it.
#[derive(Debug, Default)]
struct Row {
    id: String,
    statement: String,
    tests: Vec<String>,
    suites: Vec<String>,
    otherwise: Option<String>,
    waits: Option<String>,
}

/// Writes the table.
pub(crate) fn write() -> anyhow::Result<()> {
    std::fs::write(TABLE, table()?)?;
    println!("{TABLE} is written");
    Ok(())
}

/// Whether every row has a test or a reason, every test that is named is there, and the table says so.
pub(crate) fn check() -> anyhow::Result<()> {
    let written = std::fs::read_to_string(TABLE).unwrap_or_default();
    ensure!(written == table()?, "{TABLE} is not what the tree says; make it with cargo xtask rows");
    Ok(())
}

fn table() -> anyhow::Result<String> {
    let text = std::fs::read_to_string(ROWS).with_context(|| format!("cannot read {ROWS}"))?;
    let mut rows: Vec<Row> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(row).collect();
    let (all, by_row) = tests()?;
    let mut faults = Vec::new();
    for row in &mut rows {
        faults.extend(row.tests.iter().filter_map(|test| missing(test, &all).map(|why| format!("{}: {why}", row.id))));
        row.tests.splice(0..0, by_row.get(&row.id).cloned().unwrap_or_default());
        let absent = |suite: &&String| !Path::new("tests/cases").join(format!("{suite}.json")).is_file();
        faults.extend(row.suites.iter().filter(absent).map(|suite| format!("{}: there is no suite {suite}", row.id)));
        if row.tests.is_empty() && row.suites.is_empty() && row.otherwise.is_none() && row.waits.is_none() {
            faults.push(format!("{}: neither a test nor a reason to wait", row.id));
        }
    }
    let known: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let strange = by_row.keys().filter(|id| !known.contains(id.as_str()) && !id.starts_with("C-"));
    faults.extend(strange.map(|id| format!("a test names {id}, which is no row")));
    ensure!(faults.is_empty(), "{ROWS}:\n  {}", faults.join("\n  "));
    Ok(markdown(&rows))
}

/// `ID statement = tests @ suites ~ otherwise ! waits`, all but the first two optional.
fn row(line: &str) -> Row {
    let (id, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut row = Row { id: id.to_owned(), ..Row::default() };
    let mut kind = ' ';
    let mut words: Vec<&str> = Vec::new();
    for word in rest.split(' ').chain(["="]) {
        let is_mark = matches!(word, "=" | "@" | "~" | "!");
        if !is_mark {
            words.push(word);
            continue;
        }
        let text = std::mem::take(&mut words);
        let list = || text.iter().map(|word| (*word).to_owned()).collect();
        match kind {
            '=' => row.tests = list(),
            '@' => row.suites = list(),
            '~' => row.otherwise = Some(text.join(" ")),
            '!' => row.waits = Some(text.join(" ")),
            _ => row.statement = text.join(" "),
        }
        kind = word.chars().next().unwrap_or(' ');
    }
    row
}

/// Every test of the tree as `path::name`, and those of the acceptance folder by the rows they name.
fn tests() -> anyhow::Result<(Vec<String>, ByRow)> {
    let (mut all, mut by_row) = (Vec::new(), ByRow::new());
    for file in sources(Path::new("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.with_extension("");
        let (mut is_test, mut ids) = (false, Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(doc) = line.strip_prefix("/// ") {
                let named = doc.split(':').next().unwrap_or_default();
                ids.extend(named.split(' ').filter(|word| is_id(word)).map(str::to_owned));
            } else if line.starts_with("#[") {
                is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test");
            } else if let Some(name) = function(line).filter(|_| is_test) {
                all.push(format!("{}::{name}", stem.display()));
                if file.starts_with(ACCEPTANCE) {
                    let test = format!("acceptance::{name}");
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

fn is_id(word: &str) -> bool {
    let Some((document, number)) = word.split_once('-') else { return false };
    let is_document = document == "C" || DOCUMENTS.iter().any(|(known, _)| *known == document);
    is_document && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split('(').next()
}

/// Why a test that is named cannot be meant.
fn missing(test: &str, all: &[String]) -> Option<String> {
    let ending = format!("/{test}");
    match all.iter().filter(|path| path.ends_with(&ending)).count() {
        1 => None,
        0 => Some(format!("there is no test {test}")),
        _ => Some(format!("several tests are called {test}; name more of the path")),
    }
}

fn markdown(rows: &[Row]) -> String {
    let waiting = |row: &&Row| row.waits.is_some() && row.tests.is_empty() && row.suites.is_empty();
    let otherwise = |row: &&Row| row.otherwise.is_some();
    let (waits, differs) = (rows.iter().filter(waiting).count(), rows.iter().filter(otherwise).count());
    let mut text = format!(
        "# The loops of the source documents\n\nFive documents describe five loops. This is their checklist, row by row, with what \
         stands for each: a test of `{ACCEPTANCE}` that names the row and runs under its preset ([presets.md](../presets.md)), a test \
         elsewhere, or a suite of `tests/cases` ([cases.md](cases.md)). The statements are ours.\n\nMade by `cargo xtask rows` from \
         `{ROWS}` and the tests found in the tree; the CI fails where a row has neither a test nor a reason, or a test that is named \
         is not there.\n\n**{} rows: {} with a test, {differs} done otherwise, {waits} waiting.**\n",
        rows.len(),
        rows.iter().filter(|row| !row.tests.is_empty() || !row.suites.is_empty()).count(),
    );
    for (prefix, title) in DOCUMENTS {
        let _ = write!(
            text,
            "\n## {prefix}: {title}\n\n| row | what | stands for it | status |\n| --- | --- | --- | --- |\n"
        );
        for row in rows.iter().filter(|row| row.id.split('-').next() == Some(prefix)) {
            let tests = row.tests.iter().map(|test| format!("`{test}`"));
            let suites = row.suites.iter().map(|suite| format!("suite `{suite}`"));
            let proof: Vec<String> = tests.chain(suites).collect();
            let status = match (&row.otherwise, &row.waits) {
                (Some(otherwise), _) => format!("otherwise: {otherwise}"),
                (None, Some(waits)) => format!("waits for: {waits}"),
                (None, None) => "passing".to_owned(),
            };
            let _ = writeln!(text, "| {} | {} | {} | {status} |", row.id, row.statement, proof.join(", "));
        }
    }
    text
}
