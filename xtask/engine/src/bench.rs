//! `cargo xtask bench`: what Piton itself costs, measured on the binary that is shipped (profile `dist`) with the fake
//! provider for a model.
//!
//! A measure plays a script a number of times, each time in a fresh workspace with a fresh data folder and the
//! journal's default durability, and gives rows: a number beside its limit. It is a measurement and not a test: a
//! missed limit is said, and the command succeeds all the same.

mod face;
mod launch;
pub(crate) mod machine;
mod measures;
mod page;
mod play;

use anyhow::{Context, bail, ensure};
use measures::{Measure, Row, Stage};
use std::path::Path;

/// Where the table goes when everything was measured.
const PAGE: &str = "docs/dev/bench.md";
/// How often each of two checkouts is measured, by turns: what the machine does meanwhile meets both.
const ROUNDS: usize = 3;

/// All measures by name, in the order of the page.
fn measures() -> impl Iterator<Item = &'static (&'static str, Measure)> {
    measures::MEASURES.iter().chain(face::MEASURES)
}

/// What is wanted.
struct Wanted<'w> {
    /// The measures; all where none is named.
    names: Vec<&'w str>,
    /// For the page.
    date: Option<&'w str>,
    /// An older checkout to compare with.
    against: Option<&'w str>,
    /// Of cargo. Without one: what the checkout ships.
    profile: Option<&'w str>,
}

/// Runs the named measures and prints them; or runs all and writes the page too. `--date YYYY-MM-DD` dates the page.
/// `--against DIR` measures another checkout by turns with this one and prints the ratios; `--profile NAME` measures what
/// that profile of cargo makes.
pub(crate) fn bench(words: &[&str]) -> anyhow::Result<()> {
    if let ["--launch", report, program, args @ ..] = words {
        return launch::launch(report, program, args);
    }
    let wanted = Wanted::read(words)?;
    let mut stage = Stage::new(Path::new("."), wanted.profile)?;
    if let Some(other) = wanted.against {
        let mut before = Stage::new(Path::new(other), wanted.profile)?;
        let ratios = wanted.compare(&mut before, &mut stage)?;
        println!("Before: profile {}; now: profile {}\n\n{ratios}", before.profile(), stage.profile());
        return Ok(());
    }
    let (rows, failed) = wanted.measure_each(&stage);
    if !wanted.names.is_empty() || !failed.is_empty() {
        println!("Profile: {}\n\n{}", stage.profile(), page::table(&rows));
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        return Ok(());
    }
    let date = wanted.date.map_or_else(machine::today, |date| Ok(date.to_owned()))?;
    let page = page::page(&rows, &machine::facts(stage.profile())?, &date);
    println!("{page}");
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))
}

impl<'w> Wanted<'w> {
    fn read(words: &[&'w str]) -> anyhow::Result<Self> {
        let mut wanted = Self { names: Vec::new(), date: None, against: None, profile: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--date" => wanted.date = Some(*words.next().context("--date wants YYYY-MM-DD")?),
                "--profile" => wanted.profile = Some(*words.next().context("--profile wants one of cargo's")?),
                "--against" => wanted.against = Some(*words.next().context("--against wants a checkout")?),
                name if measures().any(|(known, _)| *known == name) => wanted.names.push(name),
                other => {
                    let known: Vec<&str> = measures().map(|(name, _)| *name).collect();
                    bail!("nothing to measure is called {other}; there are {}", known.join(", "));
                }
            }
        }
        Ok(wanted)
    }

    /// All rows, and what failed: an hour of other rows is not lost for it.
    fn measure_each(&self, stage: &Stage) -> (Vec<Row>, Vec<String>) {
        let is_wanted = |name: &str| self.names.is_empty() || self.names.contains(&name);
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for (name, measure) in measures().filter(|(name, _)| is_wanted(name)) {
            eprintln!("measuring {name}");
            match measure(stage) {
                Ok(measured) => rows.extend(measured),
                Err(error) => failed.push(format!("cannot measure {name}: {error:#}")),
            }
        }
        (rows, failed)
    }

    fn measure(&self, stage: &Stage) -> anyhow::Result<Vec<Row>> {
        let (rows, failed) = self.measure_each(stage);
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(rows)
    }

    /// Measures both by turns, each measure of the one right after that of the other. What one of them cannot measure is
    /// said and left out: an older checkout does not know every measure of today.
    fn compare(&self, before: &mut Stage, now: &mut Stage) -> anyhow::Result<String> {
        let (mut older, mut newer) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            eprintln!("round {round} of {ROUNDS}");
            before.forget();
            now.forget();
            older.push(Vec::new());
            newer.push(Vec::new());
            for (name, _) in measures().filter(|(name, _)| self.names.is_empty() || self.names.contains(name)) {
                let one = Wanted { names: vec![name], date: None, against: None, profile: None };
                match one.measure(before).and_then(|was| Ok((was, one.measure(now)?))) {
                    Ok((was, is)) => {
                        older[round - 1].extend(was);
                        newer[round - 1].extend(is);
                    }
                    Err(error) => eprintln!("not compared: {error:#}"),
                }
            }
        }
        page::ratios(&older, &newer)
    }
}
