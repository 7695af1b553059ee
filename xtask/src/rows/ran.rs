//! What became of the tests and suites that rows name: `tests/rows.ran`.

use super::Row;
use super::proofs::Proof;
use crate::tests_run::{Ended, Place};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

const HEAD: &str = "# What became of the tests and suites that tests/rows.txt names. `cargo xtask rows` writes this; nobody else does.\n";

/// One run.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// Of which commit, as it is shown.
    pub(super) of: String,
    tests: BTreeMap<String, String>,
    suites: BTreeMap<String, String>,
}

impl Ran {
    /// What of a run concerns rows.
    pub(super) fn of(rows: &[Row], ended: &[Ended], suites: &[(String, String)]) -> anyhow::Result<Self> {
        let proofs = || rows.iter().map(|row| &row.proof);
        let tests = proofs().flat_map(|proof| &proof.tests).map(|test| {
            let word = ended.iter().find(|ended| ended.is(&test.place)).map_or("missing", |ended| ended.word());
            (key(&test.place), word.to_owned())
        });
        let counted = |suite: &String| suites.iter().find(|(name, _)| name == suite).map(|(_, counts)| counts.as_str());
        let suites = proofs().flat_map(|proof| &proof.suites).map(|suite| {
            let word = counted(suite).map_or("missing".to_owned(), in_words);
            (suite.clone(), word)
        });
        Ok(Self { of: commit()?, tests: tests.collect(), suites: suites.collect() })
    }

    /// The newest run.
    pub(super) fn read(path: &str) -> anyhow::Result<Self> {
        let mut ran = Self::default();
        for line in super::read(path)?.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (name, word) = rest.split_once(": ").unwrap_or((rest, ""));
            match kind {
                "commit" => rest.clone_into(&mut ran.of),
                "test" => drop(ran.tests.insert(name.to_owned(), word.to_owned())),
                "suite" => drop(ran.suites.insert(name.to_owned(), word.to_owned())),
                _ => anyhow::bail!("{path}: what is {line}?"),
            }
        }
        Ok(ran)
    }

    pub(super) fn text(&self) -> anyhow::Result<String> {
        let mut text = format!("{HEAD}commit {}\n", self.of);
        for (name, word) in &self.tests {
            writeln!(text, "test {name}: {word}")?;
        }
        for (name, word) in &self.suites {
            writeln!(text, "suite {name}: {word}")?;
        }
        Ok(text)
    }

    /// What of this row did not pass.
    pub(super) fn open(&self, proof: &Proof) -> Vec<String> {
        let tests = proof.tests.iter().filter_map(|test| match self.tests.get(&key(&test.place)).map(String::as_str) {
            Some("ok") => None,
            word => Some(format!("`{}` {}", test.name, word.unwrap_or("was not run"))),
        });
        let suites = proof.suites.iter().filter_map(|suite| match self.suite(suite) {
            word if word.ends_with(", 0 failed") => None,
            word => Some(format!("suite `{suite}` {word}")),
        });
        tests.chain(suites).collect()
    }

    /// The counts of a suite, in words.
    pub(super) fn suite(&self, name: &str) -> &str {
        self.suites.get(name).map_or("was not run", String::as_str)
    }

    /// How many tests and suites were run.
    pub(super) fn numbers(&self) -> (usize, usize) {
        (self.tests.len(), self.suites.len())
    }

    /// Where the results of this run are not those of another.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let part = |now: &BTreeMap<String, String>, then: &BTreeMap<String, String>| -> Vec<String> {
            let names: std::collections::BTreeSet<&String> = now.keys().chain(then.keys()).collect();
            let differs = names.into_iter().filter(|name| now.get(*name) != then.get(*name));
            let shown = |word: Option<&String>| word.map_or("not there", String::as_str).to_owned();
            differs
                .map(|name| format!("{name}: {} now, {} there", shown(now.get(name)), shown(then.get(name))))
                .collect()
        };
        [part(&self.tests, &other.tests), part(&self.suites, &other.suites)].concat()
    }
}

/// `17 of 20, 2 wait` as passed, waiting and failed.
fn in_words(counts: &str) -> String {
    let numbers: Vec<usize> =
        counts.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [passed, all, ref rest @ ..] = numbers[..] else { return counts.to_owned() };
    let waiting = rest.first().copied().unwrap_or(0);
    format!("{passed} passed, {waiting} waiting, {} failed", all - passed - waiting)
}

/// A test by its crate and its name: it may move within the crate.
fn key(place: &Place) -> String {
    let package = place.file.split('/').nth(1).unwrap_or_default();
    format!("{package} {}", place.name)
}

/// The commit that is checked out, and whether anything differs from it.
pub(crate) fn commit() -> anyhow::Result<String> {
    let git = |args: &[&str]| -> anyhow::Result<String> {
        let out = Command::new("git").args(args).output().context("cannot run git")?;
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "tests/cases", "tests/rows.txt"])?;
    let mark = if changed.is_empty() { "" } else { " with changes" };
    Ok(format!("{}{mark}", git(&["rev-parse", "--short=12", "HEAD"])?))
}
