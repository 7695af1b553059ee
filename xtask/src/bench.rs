//! `cargo xtask bench`: what Piton itself costs, measured on the release binary with the fake provider for a model.
//!
//! A measure plays a script a number of times, each time in a fresh workspace with a fresh data folder and the
//! journal's default durability, and gives rows: a number beside its limit. It is a measurement and not a test: a
//! missed limit is said, and the command succeeds all the same.

mod launch;
mod machine;
mod measures;
mod page;
mod play;

use anyhow::{Context, bail, ensure};
use measures::{MEASURES, Stage};
use std::path::PathBuf;
use std::process::Command;

/// Where the table goes when everything was measured.
const PAGE: &str = "docs/bench.md";
/// What is measured, from the root of the repository.
const BINARY: &str = "target/release/piton";

/// Runs the named measures and prints them; or runs all and writes the page too. `--date YYYY-MM-DD` dates the page.
pub(crate) fn bench(words: &[&str]) -> anyhow::Result<()> {
    if let ["--launch", report, program, args @ ..] = words {
        return launch::launch(report, program, args);
    }
    let (names, date) = read(words)?;
    build()?;
    let stage = Stage::new(PathBuf::from(BINARY).canonicalize().context("the build gave no binary")?)?;
    let mut rows = Vec::new();
    for (name, measure) in MEASURES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        eprintln!("measuring {name}");
        rows.extend(measure(&stage).with_context(|| format!("cannot measure {name}"))?);
    }
    if !names.is_empty() {
        println!("{}", page::table(&rows));
        return Ok(());
    }
    let date = date.map_or_else(machine::today, |date| Ok(date.to_owned()))?;
    let page = page::page(&rows, &machine::facts()?, &date);
    println!("{page}");
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))
}

/// The names and the date that were said.
fn read<'w>(words: &[&'w str]) -> anyhow::Result<(Vec<&'w str>, Option<&'w str>)> {
    let (mut names, mut date) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--date" => date = Some(*words.next().context("--date wants YYYY-MM-DD")?),
            name if MEASURES.iter().any(|(known, _)| *known == name) => names.push(name),
            other => {
                let known: Vec<&str> = MEASURES.iter().map(|(name, _)| *name).collect();
                bail!("nothing to measure is called {other}; there are {}", known.join(", "));
            }
        }
    }
    Ok((names, date))
}

fn build() -> anyhow::Result<()> {
    let args = ["build", "--release", "--quiet", "--package", "piton-cli"];
    let status = Command::new("cargo").args(args).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
