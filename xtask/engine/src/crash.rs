//! `cargo xtask crash`: the crash harness over all scenarios, with `--slow` over real processes, and with `--slow --tree` over those
//! of sessions with subagents. What it counted
//! goes into `docs/dev/crash.md`, each half in its own place.

use anyhow::{Context, bail, ensure};
use piton_core::call::Status;
use piton_testkit::crash::slow::{self, Program, Tally, Victim};
use piton_testkit::crash::{self, Medium, Planted, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

const PAGE: &str = "docs/dev/crash.md";
/// Seeds of the fast half.
const SEEDS: u64 = 4;

/// What was asked for.
struct Wanted {
    slow: bool,
    /// For real processes: with subagents.
    tree: bool,
    /// `--store sqlite` or `--store memory`; without it, both.
    medium: Option<Medium>,
    /// For real processes: `--sandbox`, as Piton has it.
    sandbox: String,
    runs: u64,
    seed: u64,
}

/// Runs one half and writes its table.
pub(crate) fn crash(words: &[&str]) -> anyhow::Result<()> {
    let wanted = Wanted::parse(words)?;
    if wanted.slow { with_processes(&wanted) } else { in_memory(&wanted) }
}

impl Wanted {
    fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut wanted =
            Self { slow: false, tree: false, medium: None, sandbox: "workspace-write".to_owned(), runs: 300, seed: 1 };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--slow" => wanted.slow = true,
                "--tree" => wanted.tree = true,
                "--store" => {
                    wanted.medium = Some(match *words.next().context("--store sqlite|memory")? {
                        "sqlite" => Medium::Sqlite,
                        "memory" => Medium::Memory,
                        other => bail!("no store of the harness: {other}"),
                    });
                }
                "--sandbox" => wanted.sandbox = (*words.next().context("--sandbox MODE")?).to_owned(),
                "--runs" => wanted.runs = number(words.next())?,
                "--seed" => wanted.seed = number(words.next())?,
                _ => bail!("not an option of crash: {word}"),
            }
        }
        Ok(wanted)
    }
}

fn number(word: Option<&&str>) -> anyhow::Result<u64> {
    word.and_then(|word| word.parse().ok()).context("a number is wanted")
}

fn in_memory(wanted: &Wanted) -> anyhow::Result<()> {
    let all = [("fast", Medium::Sqlite), ("memory", Medium::Memory)];
    for (place, medium) in all.into_iter().filter(|(_, medium)| wanted.medium.is_none_or(|wanted| wanted == *medium)) {
        over(wanted, place, medium)?;
    }
    Ok(())
}

/// All scenarios over one store, and its table.
fn over(wanted: &Wanted, place: &str, medium: Medium) -> anyhow::Result<()> {
    let began = Instant::now();
    let (mut rows, mut violations) = (Vec::new(), Vec::new());
    for seed in wanted.seed..wanted.seed + SEEDS {
        for scenario in crash::scenarios(seed) {
            let sweep = crash::sweep_over(medium, &scenario, seed, Planted::Nothing);
            rows.extend(sweep.rows);
            violations.extend(sweep.violations);
        }
        println!("{medium:?}, seed {seed}: {} violations", violations.len());
    }
    let table = scenario_table(&rows, began.elapsed().as_secs());
    println!("{table}");
    violations.iter().take(20).for_each(|violation| println!("{violation}"));
    write_between(place, &table)?;
    ensure!(violations.is_empty(), "{} violations", violations.len());
    Ok(())
}

fn scenario_table(rows: &[Row], seconds: u64) -> String {
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.crash).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut scenarios: Vec<&str> = Vec::new();
    rows.iter().for_each(|row| {
        if !scenarios.contains(&row.scenario) {
            scenarios.push(row.scenario);
        }
    });
    let mut table = format!("| scenario | {} | starts | violations |\n|---|", kinds.join(" | "));
    table.push_str(&"--:|".repeat(kinds.len() + 2));
    table.push('\n');
    for scenario in scenarios {
        let of = |row: &&Row| row.scenario == scenario;
        let runs = kinds.iter().map(|kind| {
            let runs: usize = rows.iter().filter(of).filter(|row| row.crash == *kind).map(|row| row.runs).sum();
            runs.to_string()
        });
        let starts: u32 = rows.iter().filter(of).map(|row| row.lives).sum();
        let violated: usize = rows.iter().filter(of).map(|row| row.violated).sum();
        let runs: Vec<String> = runs.collect();
        let _ = writeln!(table, "| {scenario} | {} | {starts} | {violated} |", runs.join(" | "));
    }
    let statuses = outcomes(rows.iter().flat_map(|row| row.statuses.iter().copied()));
    let runs: usize = rows.iter().map(|row| row.runs).sum();
    let _ = write!(table, "\n{runs} runs in {seconds} s. Opaque calls: {statuses}.");
    table
}

fn with_processes(wanted: &Wanted) -> anyhow::Result<()> {
    let status = Command::new("cargo").args(["build", "--quiet", "--package", "piton-cli"]).status()?;
    ensure!(status.success(), "piton cannot be built");
    let program = Program {
        piton: std::path::absolute("target/debug/piton")?,
        search_path: std::env::var_os("PATH").context("there is no PATH")?,
        sandbox: wanted.sandbox.clone(),
    };
    let began = Instant::now();
    let mut tallies = Vec::new();
    for seed in wanted.seed..wanted.seed + wanted.runs {
        let tally = if wanted.tree { slow::run_tree(&program, seed) } else { slow::run(&program, seed) };
        tally.violations.iter().for_each(|violation| println!("--seed {seed}: {violation}"));
        tallies.push(tally);
    }
    let table = process_table(&tallies, &wanted.sandbox, began.elapsed().as_secs());
    println!("{table}");
    write_between(if wanted.tree { "tree" } else { "slow" }, &table)?;
    let violated = tallies.iter().filter(|tally| !tally.violations.is_empty()).count();
    ensure!(violated == 0, "{violated} runs with violations; the same with `--runs 1 --seed S` runs one again");
    Ok(())
}

fn process_table(tallies: &[Tally], sandbox: &str, seconds: u64) -> String {
    let kills = |victim| tallies.iter().flat_map(|tally| &tally.kills).filter(|hit| **hit == victim).count();
    let with = |invariant: &str| {
        let is = |violation: &&String| violation.starts_with(invariant);
        tallies.iter().flat_map(|tally| &tally.violations).filter(is).count()
    };
    let all: usize = tallies.iter().map(|tally| tally.violations.len()).sum();
    let requests: usize = tallies.iter().map(|tally| tally.requests).sum();
    let statuses = outcomes(tallies.iter().flat_map(|tally| tally.statuses.iter().copied()));
    let others = ["I1", "I2", "I3", "I4", "I7", "I8"].map(with).into_iter().sum::<usize>();
    let rows: [(&str, String); 13] = [
        ("runs", format!("{} in {seconds} s, `--sandbox {sandbox}`", tallies.len())),
        ("kills of Piton alone", kills(Victim::Piton).to_string()),
        ("kills of its runners alone", kills(Victim::Runners).to_string()),
        ("kills of Piton and its runners", kills(Victim::Both).to_string()),
        ("kills of all of them", kills(Victim::Everything).to_string()),
        ("cancels", kills(Victim::Turn).to_string()),
        ("requests the provider saw", requests.to_string()),
        ("shell commands", statuses),
        ("run twice (I1)", with("I1").to_string()),
        ("lost, or said to be what they were not (I3, I4, I7)", (with("I3") + with("I4") + with("I7")).to_string()),
        ("malformed conversations (I2)", with("I2").to_string()),
        ("processes left (I8)", with("I8").to_string()),
        ("anything else", (all - others).to_string()),
    ];
    let mut table = "| what | count |\n|---|--:|".to_owned();
    rows.iter().for_each(|(what, count)| {
        let _ = write!(table, "\n| {what} | {count} |");
    });
    table
}

fn outcomes(statuses: impl Iterator<Item = Status>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    statuses.for_each(|status| *counts.entry(format!("{status:?}")).or_default() += 1);
    let words: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    words.join(", ")
}

/// Puts a table where the page has its place.
fn write_between(name: &str, table: &str) -> anyhow::Result<()> {
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("\n<!-- end of {name} -->"));
    let (head, rest) = page.split_once(&begin).with_context(|| format!("{PAGE} has no place for {name}"))?;
    let (_, tail) = rest.split_once(&end).with_context(|| format!("{PAGE} has no end of {name}"))?;
    std::fs::write(PAGE, format!("{head}{begin}{table}{end}{tail}"))?;
    Ok(())
}
