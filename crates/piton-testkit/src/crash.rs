//! The crash harness: the real engine, driver, journal and SQLite on a machine that is made to crash at every point
//! where something becomes durable, and is then resumed until all is done. In memory, thousands of times a minute.
//!
//! ```text
//!   scenario ──▶ client ──▶ engine ──▶ journal ──▶ SQLite ──▶ vfs ──┐
//!                             │ tools ──▶ runner files              ├──▶ machine: points, power, disk, ledger
//!                             │ undo ──▶ restore ──▶ fault point    │
//!                             └ model                      ─────────┘
//!   then: resume, run to the end, check the invariants
//! ```
//!
//! The same runs go over the store in memory ([`Medium`]), with points before and behind each commit.
//!
//! What is simulated: the model, the user, the disk below SQLite (see [`disk`]), and the process beside Piton that an
//! opaque call runs in; its claim, its exit record and how they are settled are the product's own. A crash is said by
//! three numbers (seed, point, what happens), and the same three give the same crash again. Real processes and real
//! kills are in [`slow`].
//!
//! A harness that cannot fail proves nothing: [`Planted`] names the bugs it is shown to find.

mod check;
mod client;
mod disk;
mod hooks;
mod machine;
mod memory;
mod model;
mod scenario;
mod servers;
pub mod slow;
mod sweep;
mod tools;
mod tree;
mod vfs;

pub use machine::{Crash, Refusal};
pub use scenario::{Scenario, one_subagent, penniless, scenarios, trees};
pub use sweep::{Row, Sweep, points, sweep, sweep_over};

use client::{Life, Stage};
use machine::{Machine, Syncs};
use memory::PointedStore;
use piton_core::call::Status;
use piton_engine::engine::Engine;
use piton_engine::store::StoreError;
use piton_engine::store::sqlite::SqliteStore;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tools::{Rule, Runners};

/// A bug that is there on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// None.
    Nothing,
    /// A runner acts without its claim.
    NoClaim,
    /// A call without a result is run again.
    RunAgain,
    /// The disk says that it has synced, and has not.
    NoSync,
    /// After a power cut Piton takes what it finds for all that was written, as if the machine had been up all the time.
    SameBoot,
    /// Calls are run, and turns end, without their hooks.
    NoHooks,
    /// From its second life on Piton goes by another purse than it began with.
    OtherPurse,
}

/// What keeps the sessions of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// SQLite, over a disk that is simulated.
    Sqlite,
    /// The store in memory, which outlives every process, and knows no power cut.
    Memory,
}

/// What came of one run.
#[derive(Debug)]
pub struct Report {
    /// What must not be; empty when all is well.
    pub violations: Vec<String>,
    /// How often the process was started.
    pub lives: u32,
    /// Points that its first life passed.
    pub points: u64,
    /// How the opaque calls came out.
    pub statuses: Vec<Status>,
    /// How often SQLite has waited for the disk, in all lives.
    pub syncs: u64,
    /// How often it had, each time the model was asked.
    pub syncs_when_asked: Vec<u64>,
}

/// How long one life may take before it counts as stuck. None takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many lives are enough for any story.
const MOST_LIVES: u32 = 8;

/// From this life on nothing crashes any more. Otherwise one run in sixteen thousand would be unlucky in every life,
/// and be taken for one that never ends.
const QUIET_FROM: u32 = 5;

/// Plays a scenario over SQLite with this crash in its first life, and sometimes one more in a later one.
pub fn run(scenario: &Scenario, seed: u64, crash: Option<Crash>, planted: Planted) -> Report {
    run_over(Medium::Sqlite, scenario, seed, crash, planted)
}

/// The same over either store.
pub fn run_over(medium: Medium, scenario: &Scenario, seed: u64, crash: Option<Crash>, planted: Planted) -> Report {
    run_with(medium, scenario, seed, (crash, None), planted)
}

/// Plays a scenario over SQLite with a crash in its first life and one in its second.
pub fn run_twice(scenario: &Scenario, seed: u64, first: Crash, second: Crash) -> Report {
    run_with(Medium::Sqlite, scenario, seed, (Some(first), Some(second)), Planted::Nothing)
}

fn run_with(
    medium: Medium,
    scenario: &Scenario,
    seed: u64,
    (crash, second): (Option<Crash>, Option<Crash>),
    planted: Planted,
) -> Report {
    let folder = in_memory();
    let (data, workspace) = (folder.path().join("data"), folder.path().join("workspace"));
    tree::plant(&workspace);
    let machine = Machine::new(&data, if planted == Planted::NoSync { Syncs::Lied } else { Syncs::Kept });
    vfs::plug_in(&machine);
    let rule = match planted {
        Planted::Nothing | Planted::NoSync | Planted::SameBoot | Planted::NoHooks | Planted::OtherPurse => Rule::Kept,
        Planted::NoClaim => Rule::NoClaim,
        Planted::RunAgain => Rule::RunAgain,
    };
    let stage = Stage {
        machine: &machine,
        store: match medium {
            Medium::Sqlite => Arc::new(SqliteStore::new(&data)),
            Medium::Memory => Arc::new(PointedStore::new(&machine)),
        },
        runners: Runners::default(),
        scenario,
        rule,
        has_hooks: scenario.hooked && planted != Planted::NoHooks,
        workspace: &workspace,
        planted: crate::state(&workspace),
        session: None,
        boot: 1,
        forgets: false,
    };
    let run = Run { stage, dice: fastrand::Rng::with_seed(mixed(seed, crash)), second, points: 0, planted, medium };
    let report = run.play(crash);
    vfs::unplug(&machine);
    report
}

struct Run<'s> {
    stage: Stage<'s>,
    dice: fastrand::Rng,
    /// What is to happen in the second life; otherwise the dice say.
    second: Option<Crash>,
    points: u64,
    planted: Planted,
    medium: Medium,
}

impl Run<'_> {
    fn play(mut self, first: Option<Crash>) -> Report {
        let mut lives = 0;
        let mut crash = first;
        loop {
            lives += 1;
            self.stage.machine.start(crash);
            let life = self.live();
            if lives == 1 {
                self.points = self.stage.machine.points();
            }
            match (life, crash) {
                (Life::Finished, _) => break,
                (Life::Died, Some(Crash::PowerCut { .. })) => self.power_cut(),
                (Life::Died, _) => self.leave_runners(),
                (Life::Stopped(error), Some(Crash::Refusal { how, .. })) => {
                    self.check_words(&error, how);
                    self.leave_runners();
                }
                (Life::Stopped(error), _) => {
                    self.stage.machine.accuse(format!("I4: the session cannot be gone on with: {error}"));
                    break;
                }
            }
            if lives == MOST_LIVES {
                self.stage.machine.accuse("it never comes to an end".to_owned());
                break;
            }
            self.stage.forgets = self.planted == Planted::OtherPurse;
            crash = if lives + 1 < QUIET_FROM { self.next_crash() } else { None };
        }
        self.finish_runners();
        let violations = check::violations(&self.stage);
        let session = self.stage.session.as_ref();
        let read = |id| check::waited(self.stage.store.read(id, 1, usize::MAX)).ok();
        let records = session.and_then(read).unwrap_or_default();
        let state = self.stage.machine.state();
        let (syncs, syncs_when_asked) = (state.syncs, state.syncs_when_asked.clone());
        Report { violations, lives, points: self.points, statuses: check::statuses(&records), syncs, syncs_when_asked }
    }

    /// One life in a runtime of its own; with it ends everything the process had in hand.
    fn live(&mut self) -> Life {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let life = runtime.block_on(async { tokio::time::timeout(PATIENCE, self.stage.live()).await });
        drop(runtime);
        life.unwrap_or_else(|_| {
            self.stage.machine.accuse("it is stuck".to_owned());
            Life::Finished
        })
    }

    /// One crash in four is followed by another, while the first is being recovered from.
    fn next_crash(&mut self) -> Option<Crash> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let at = self.dice.u64(1..60);
        let is_cut = self.dice.bool() && self.medium == Medium::Sqlite;
        let crash = if is_cut { Crash::PowerCut { at } } else { Crash::Kill { at } };
        (self.dice.u8(0..4) == 0).then_some(crash)
    }

    fn power_cut(&mut self) {
        self.stage.runners.take();
        self.stage.machine.lose_power(&mut self.dice).unwrap();
        if let Some(id) = &self.stage.session {
            let calls = Engine::open(self.stage.machine.root()).session_dir(id).calls();
            tools::lose_marks(&calls, &mut self.dice).unwrap();
        }
        self.stage.boot += u32::from(self.planted != Planted::SameBoot);
    }

    /// Piton is gone. Of the runners that it leaves some die, some go on, and some are late.
    fn leave_runners(&mut self) {
        for runner in self.stage.runners.take() {
            match self.dice.u8(0..3) {
                0 => {}
                1 if tools::lock(&runner).is_on_its_way() => self.stage.runners.push(runner),
                _ => while tools::lock(&runner).go_on(self.stage.machine) {},
            }
        }
    }

    /// Those that were late arrive.
    fn finish_runners(&mut self) {
        for runner in self.stage.runners.take() {
            while tools::lock(&runner).go_on(self.stage.machine) {}
        }
    }

    /// A disk that refuses is named as what it is.
    fn check_words(&self, error: &StoreError, how: Refusal) {
        let fits = match how {
            Refusal::Full => matches!(error, StoreError::Full { .. }),
            Refusal::ReadOnly => matches!(error, StoreError::ReadOnly { .. }),
            Refusal::Broken => matches!(error, StoreError::Io { .. }),
        };
        if !fits {
            self.stage.machine.accuse(format!("{how:?} is reported as: {error}"));
        }
    }
}

/// A folder that costs no disk, where there is one.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("piton-crash-");
    if memory.is_dir() { builder.tempdir_in(memory).unwrap() } else { builder.tempdir().unwrap() }
}

fn mixed(seed: u64, crash: Option<Crash>) -> u64 {
    let (kind, at) = match crash {
        None => (0, 0),
        Some(Crash::Kill { at }) => (1, at),
        Some(Crash::PowerCut { at }) => (2, at),
        Some(Crash::Refusal { at, how }) => (3 + how as u64, at),
    };
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (at << 8) ^ kind
}
