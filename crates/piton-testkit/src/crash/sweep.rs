//! Every point of a scenario, one crash each, on all cores.

use super::machine::{Crash, Refusal};
use super::scenario::Scenario;
use super::{Medium, Planted, Report, run_over};
use piton_core::call::Status;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a sweep over a scenario came to.
#[derive(Debug)]
pub struct Sweep {
    /// What must not be, each with what gives it again.
    pub violations: Vec<String>,
    /// One row per kind of crash.
    pub rows: Vec<Row>,
}

/// The runs of one scenario with one kind of crash.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which scenario.
    pub scenario: &'static str,
    /// Which kind.
    pub crash: &'static str,
    /// How many runs.
    pub runs: usize,
    /// How often the process was started in them.
    pub lives: u32,
    /// How the opaque calls came out.
    pub statuses: Vec<Status>,
    /// Runs with a violation.
    pub violated: usize,
}

/// How many points a scenario has when nothing goes wrong. Panics if something does: then no crash is to blame.
pub fn points(medium: Medium, scenario: &Scenario, seed: u64) -> u64 {
    let report = run_over(medium, scenario, seed, None, Planted::Nothing);
    assert!(report.violations.is_empty(), "{} without a crash: {:#?}", scenario.name, report.violations);
    report.points
}

/// Plays the scenario over SQLite, once for each point and each kind of crash.
pub fn sweep(scenario: &Scenario, seed: u64, planted: Planted) -> Sweep {
    sweep_over(Medium::Sqlite, scenario, seed, planted)
}

/// The same over either store. Memory has no power to lose.
pub fn sweep_over(medium: Medium, scenario: &Scenario, seed: u64, planted: Planted) -> Sweep {
    let points = points(medium, scenario, seed);
    // Where only a subagent's journal cannot be written, its caller goes on and says so: that is another story.
    let is_known = |crash: &Crash| match crash {
        Crash::Kill { .. } => true,
        Crash::PowerCut { .. } => medium == Medium::Sqlite,
        Crash::Refusal { .. } => scenario.subagents.is_empty(),
    };
    let crashes: Vec<Crash> = (1..=points).flat_map(|at| crashes_at(at, seed)).filter(is_known).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(crash) = crashes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = run_over(medium, scenario, seed, Some(*crash), planted);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((*crash, report));
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    count(scenario, seed, &done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A kill and a power cut at every point; a disk that refuses at every third, each time for another reason.
fn crashes_at(at: u64, seed: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::Kill { at }, Crash::PowerCut { at }];
    let refusals = [Refusal::Full, Refusal::Broken, Refusal::ReadOnly];
    if (at + seed).is_multiple_of(3) {
        let how = refusals[usize::try_from((at + seed) / 3).unwrap_or(0) % refusals.len()];
        crashes.push(Crash::Refusal { at, how });
    }
    crashes
}

fn count(scenario: &Scenario, seed: u64, done: &[(Crash, Report)]) -> Sweep {
    let mut sweep = Sweep { violations: Vec::new(), rows: Vec::new() };
    for (crash, report) in done {
        let at = sweep.rows.iter().position(|row| row.crash == crash.word()).unwrap_or_else(|| {
            sweep.rows.push(Row {
                scenario: scenario.name,
                crash: crash.word(),
                runs: 0,
                lives: 0,
                statuses: Vec::new(),
                violated: 0,
            });
            sweep.rows.len() - 1
        });
        let row = &mut sweep.rows[at];
        row.runs += 1;
        row.lives += report.lives;
        row.statuses.extend(&report.statuses);
        row.violated += usize::from(!report.violations.is_empty());
        let name = scenario.name;
        let again = |violation: &String| format!("{name}, seed {seed}, {crash:?}: {violation}");
        sweep.violations.extend(report.violations.iter().map(again));
    }
    sweep.rows.sort_by_key(|row| row.crash);
    sweep
}
