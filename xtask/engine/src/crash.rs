//! `cargo xtask crash`: the crash harness over all scenarios, with `--slow` over real processes, and with `--slow --tree` over those
//! of sessions with subagents. What it counted
//! goes into `docs/dev/crash.md`, each half in its own place.

use crate::bench::machine;
use anyhow::{Context, bail, ensure};
use piton_core::call::Status;
use piton_testkit::crash::slow::{self, Program, Tally, Victim};
use piton_testkit::crash::{self, Medium, Planted, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// For real processes: cargo's profile that Piton is built with.
    profile: String,
    /// For real processes: runs at a time. More than there are processors are a load.
    jobs: usize,
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
        let (sandbox, profile) = ("workspace-write".to_owned(), "dev".to_owned());
        let mut wanted = Self { slow: false, tree: false, medium: None, sandbox, profile, jobs: 1, runs: 300, seed: 1 };
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
                "--profile" => wanted.profile = (*words.next().context("--profile wants one of cargo's")?).to_owned(),
                "--jobs" => wanted.jobs = usize::try_from(number(words.next())?)?.max(1),
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
    let profile = &wanted.profile;
    let status =
        Command::new("cargo").args(["build", "--quiet", "--package", "piton-cli", "--profile", profile]).status()?;
    ensure!(status.success(), "piton cannot be built");
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = Program {
        piton: std::path::absolute(format!("target/{folder}/piton"))?,
        search_path: std::env::var_os("PATH").context("there is no PATH")?,
        sandbox: wanted.sandbox.clone(),
    };
    let began = Instant::now();
    let tallies = tallies(wanted, &program);
    let table = process_table(&tallies, &what_ran(wanted, began.elapsed().as_secs())?);
    println!("{table}");
    write_between(if wanted.tree { "tree" } else { "slow" }, &table)?;
    let violated = tallies.iter().filter(|tally| !tally.violations.is_empty()).count();
    ensure!(violated == 0, "{violated} runs with violations; the same with `--runs 1 --seed S` runs one again");
    Ok(())
}

/// Every run, so many at a time.
fn tallies(wanted: &Wanted, program: &Program) -> Vec<Tally> {
    let (next, all) = (AtomicU64::new(wanted.seed), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= wanted.seed + wanted.runs {
                return;
            }
            let tally = if wanted.tree { slow::run_tree(program, seed) } else { slow::run(program, seed) };
            tally.violations.iter().for_each(|violation| println!("--seed {seed}: {violation}"));
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(tally);
            if all.len().is_multiple_of(50) {
                println!("{} of {} runs", all.len(), wanted.runs);
            }
        }
    };
    std::thread::scope(|scope| (0..wanted.jobs).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The run in words: how many, of what, when.
fn what_ran(wanted: &Wanted, seconds: u64) -> anyhow::Result<String> {
    let said = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output()?;
    let (commit, date) = (String::from_utf8(said.stdout)?, machine::today()?);
    let Wanted { runs, sandbox, profile, jobs, .. } = wanted;
    let load = if *jobs > 1 { format!(", {jobs} at a time") } else { String::new() };
    Ok(format!("{runs} in {seconds} s{load}, `--sandbox {sandbox}`, profile {profile}, {date} at {}", commit.trim()))
}

fn process_table(tallies: &[Tally], what_ran: &str) -> String {
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
        ("runs", what_ran.to_owned()),
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
