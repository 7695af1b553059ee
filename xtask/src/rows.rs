//! The checklist of the source documents: what stands for each row, and what came of it when it was last run.
//!
//! ```text
//!   docs/dev/audit/requirements.md   the rows as they were written, each with its number and its check
//!   tests/rows.txt               the tests and suites that stand for a row, or what differs, or what it waits for
//!   tests/rows.ran               what became of these tests and suites in the newest run, and at which commit
//!   docs/dev/audit/source-loops.md   the page that is made of the three
//! ```
//!
//! A status comes from `tests/rows.ran` alone, and that file from a run alone: `cargo xtask rows` makes it, and `cargo xtask
//! ci` fails where its own run says anything else.

mod page;
mod proofs;
mod ran;
mod requirements;

use self::proofs::Proof;
use self::ran::Ran;
pub(crate) use self::ran::commit;
use self::requirements::Requirement;
use crate::as_from_a_shell;
use crate::tests_run::{self, Ended, Place};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::process::Command;

const TABLE: &str = "docs/dev/audit/source-loops.md";
const RAN: &str = "tests/rows.ran";

/// A row with what stands for it.
struct Row {
    required: Requirement,
    proof: Proof,
}

/// Where a row stands. A row has one status, so that the counts add up to the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    /// Every test and suite that stands for it was run, and passed.
    Proved,
    /// The same, for something other than the row asks for.
    Otherwise(String),
    /// It is not there, or only a part is.
    Waits(String),
    /// A test or suite of it failed, or was not in the run.
    Open(Vec<String>),
}

/// Runs every test and suite that a row names, writes down what came of it, and makes the page.
pub(crate) fn run() -> anyhow::Result<()> {
    let rows = rows()?;
    let named: Vec<_> = rows.iter().flat_map(|row| row.proof.tests.iter().map(|test| test.place.clone())).collect();
    let ended = tests_run::run(Some(&named))?;
    let ran = Ran::of(&rows, &ended, &suites()?)?;
    std::fs::write(RAN, ran.text()?)?;
    write_page(&rows, &ran)
}

/// Makes the page of the newest run again: rows, reasons and places may have changed since. A test that was not in it is open.
pub(crate) fn page() -> anyhow::Result<()> {
    write_page(&rows()?, &Ran::read(RAN)?)
}

fn write_page(rows: &[Row], ran: &Ran) -> anyhow::Result<()> {
    std::fs::write(TABLE, page::markdown(rows, ran)?)?;
    let open = rows.iter().filter(|row| matches!(row.status(ran), Status::Open(_))).count();
    println!("{TABLE} is written, {open} rows are open");
    Ok(())
}

/// Whether every row has a proof or a reason, every test that is named is there, and the page says what the newest run said.
pub(crate) fn check() -> anyhow::Result<()> {
    let rows = rows()?;
    let ran = Ran::read(RAN)?;
    let written = std::fs::read_to_string(TABLE).unwrap_or_default();
    ensure!(
        written == page::markdown(&rows, &ran)?,
        "{TABLE} is not what {RAN} says; make it again with cargo xtask rows --page, or run cargo xtask rows"
    );
    Ok(())
}

/// Whether a run of all tests says the same as the newest run that the page was made of.
pub(crate) fn check_run(ended: &[Ended]) -> anyhow::Result<()> {
    let rows = rows()?;
    let written = Ran::read(RAN)?;
    let now = Ran::of(&rows, ended, &suites()?)?;
    let differ = now.differences(&written);
    ensure!(differ.is_empty(), "{RAN} is of another run, run cargo xtask rows:\n  {}", differ.join("\n  "));
    Ok(())
}

/// The tests that stand for each row.
pub(crate) struct Tests(BTreeMap<String, Proof>);

impl Tests {
    pub(crate) fn read() -> anyhow::Result<Self> {
        Ok(Self(proofs::read()?))
    }

    /// Those that stand for any of these rows.
    pub(crate) fn of(&self, ids: &[String]) -> anyhow::Result<Vec<&Place>> {
        let mut tests = Vec::new();
        for id in ids {
            let proof = self.0.get(id).with_context(|| format!("there is no row {id}"))?;
            tests.extend(proof.tests.iter().map(|test| &test.place));
        }
        Ok(tests)
    }
}

fn rows() -> anyhow::Result<Vec<Row>> {
    let required = requirements::read()?;
    let mut proofs = proofs::read()?;
    let mut faults = Vec::new();
    let mut rows = Vec::new();
    for required in required {
        match proofs.remove(&required.id) {
            Some(proof) => rows.push(Row { required, proof }),
            None => faults.push(format!("{}: neither a test nor a reason to wait", required.id)),
        }
    }
    faults.extend(proofs.keys().map(|id| format!("{id} is no row of {}", requirements::LIST)));
    ensure!(faults.is_empty(), "{}:\n  {}", proofs::LIST, faults.join("\n  "));
    Ok(rows)
}

impl Row {
    fn status(&self, ran: &Ran) -> Status {
        let open = ran.open(&self.proof);
        match (&self.proof.otherwise, &self.proof.waits) {
            _ if !open.is_empty() => Status::Open(open),
            (_, Some(waits)) => Status::Waits(waits.clone()),
            (Some(otherwise), None) => Status::Otherwise(otherwise.clone()),
            (None, None) => Status::Proved,
        }
    }
}

/// How the cases of each suite ended, by `system/suite`, as `cargo xtask cases` tells it: `17 of 20, 2 wait`.
fn suites() -> anyhow::Result<Vec<(String, String)>> {
    let mut command = Command::new("cargo");
    as_from_a_shell(&mut command);
    let out = command.args(["run", "--quiet", "--package", "xtask-engine", "--", "cases", "tests/cases"]).output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    let suites = said.lines().filter_map(|line| line.split_once(": ")).filter(|(name, _)| !name.starts_with(' '));
    Ok(suites.map(|(name, counts)| (name.to_owned(), counts.to_owned())).collect())
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}
