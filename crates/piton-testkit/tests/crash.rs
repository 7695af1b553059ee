//! Nothing lost, nothing twice: every scenario, crashed at every point, resumed and run to its end. And the bugs that
//! this must find, planted one by one.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_engine::engine::{Engine, EngineError, Settings};
use piton_engine::store::StoreError;
use piton_models::recorded::Recorded;
use piton_testkit::crash::{self, Crash, Medium, Planted, Refusal, Scenario, Sweep};
use std::sync::Arc;

/// Seeds of a run of the CI: with them the scenarios have more than ten thousand crashes.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
const LEAST_RUNS: usize = 10_000;
/// Of one seed; a commit has two points there, and a write to a file none.
const LEAST_RUNS_IN_MEMORY: usize = 500;

/// Of the trees of one seed, beside [`TREE`].
const LEAST_RUNS_OF_TREES: usize = 1_000;

const TREE: &str = "a tree of subagents";

fn scenario(name: &str) -> Scenario {
    crash::scenarios(1).into_iter().find(|scenario| scenario.name == name).unwrap()
}

fn sweeps_with(planted: Planted, names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| crash::sweep(&scenario(name), 1, planted).violations).collect()
}

fn check_found(violations: &[String], invariants: &[&str]) {
    for invariant in invariants {
        let found = violations.iter().any(|violation| violation.contains(&format!(": {invariant}:")));
        assert!(found, "no {invariant} among {violations:#?}");
    }
}

#[test]
fn whatever_crashes_wherever_nothing_is_lost_and_nothing_happens_twice() {
    // A tree has as many points as all others together, and a test of its own.
    let sweeps: Vec<Sweep> = SEEDS
        .flat_map(|seed| crash::scenarios(seed).into_iter().map(move |scenario| (seed, scenario)))
        .filter(|(_, scenario)| scenario.name != TREE)
        .map(|(seed, scenario)| crash::sweep(&scenario, seed, Planted::Nothing))
        .collect();
    let violations: Vec<&String> = sweeps.iter().flat_map(|sweep| &sweep.violations).collect();
    assert!(violations.is_empty(), "{} violations: {:#?}", violations.len(), &violations[..violations.len().min(10)]);
    let runs: usize = sweeps.iter().flat_map(|sweep| &sweep.rows).map(|row| row.runs).sum();
    assert!(runs >= LEAST_RUNS, "only {runs} runs");
}

#[test]
fn of_a_tree_every_subagent_is_called_once_and_answers_once_wherever_it_crashes() {
    let sweep = crash::sweep(&scenario(TREE), 1, Planted::Nothing);
    let violations = &sweep.violations;
    assert!(violations.is_empty(), "{} violations: {:#?}", violations.len(), &violations[..violations.len().min(10)]);
    let runs: usize = sweep.rows.iter().map(|row| row.runs).sum();
    assert!(runs >= 200, "only {runs} runs");
}

/// With the tree of the test above these are at least 1,200 crashes of trees.
#[test]
fn trees_with_an_open_question_or_little_left_in_the_purse_lose_nothing_either() {
    let sweeps: Vec<Sweep> = crash::trees().iter().map(|tree| crash::sweep(tree, 1, Planted::Nothing)).collect();
    let violations: Vec<&String> = sweeps.iter().flat_map(|sweep| &sweep.violations).collect();
    assert!(violations.is_empty(), "{} violations: {:#?}", violations.len(), &violations[..violations.len().min(10)]);
    let runs: usize = sweeps.iter().flat_map(|sweep| &sweep.rows).map(|row| row.runs).sum();
    assert!(runs >= LEAST_RUNS_OF_TREES, "only {runs} runs");
}

#[test]
fn a_process_that_goes_by_another_purse_than_it_began_with_is_found_out() {
    check_found(&crash::sweep_over(Medium::Memory, &crash::penniless(), 1, Planted::OtherPurse).violations, &["P"]);
}

/// What a killed process wrote and never synced is there until the machine loses its power: nothing may rest on it before.
#[test]
fn what_a_killed_subagent_left_unsynced_is_durable_before_its_caller_has_its_answer() {
    let one = crash::one_subagent();
    let points = crash::points(Medium::Sqlite, &one, 1);
    for at in points / 2..=points {
        for cut in (8..40).step_by(8) {
            let report = crash::run_twice(&one, 1, Crash::Kill { at }, Crash::PowerCut { at: cut });
            assert_eq!(report.violations, Vec::<String>::new(), "killed at {at}, then a power cut at {cut}");
        }
    }
}

#[test]
fn over_the_store_in_memory_nothing_is_lost_and_nothing_happens_twice_either() {
    let sweeps: Vec<Sweep> = crash::scenarios(1)
        .iter()
        .map(|scenario| crash::sweep_over(Medium::Memory, scenario, 1, Planted::Nothing))
        .collect();
    let violations: Vec<&String> = sweeps.iter().flat_map(|sweep| &sweep.violations).collect();
    assert!(violations.is_empty(), "{} violations: {:#?}", violations.len(), &violations[..violations.len().min(10)]);
    let runs: usize = sweeps.iter().flat_map(|sweep| &sweep.rows).map(|row| row.runs).sum();
    assert!(runs >= LEAST_RUNS_IN_MEMORY, "only {runs} runs");
}

#[test]
fn a_call_that_is_run_again_is_found_out_over_the_store_in_memory_too() {
    check_found(&crash::sweep_over(Medium::Memory, &scenario("one tool"), 1, Planted::RunAgain).violations, &["I1"]);
}

#[test]
fn a_run_with_one_reply_waits_for_four_syncs_one_of_them_before_its_request() {
    let report = crash::run(&scenario("plain answer"), 1, None, Planted::Nothing);
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!((report.syncs_when_asked, report.syncs), (vec![1], 4), "what was said, the reply, and two to leave");
}

#[test]
fn a_step_with_a_command_waits_for_one_sync_before_it_and_none_before_the_next_request() {
    let report = crash::run(&scenario("one tool"), 1, None, Planted::Nothing);
    assert_eq!(report.violations, Vec::<String>::new());
    // What was said; the reply with the start of its call; the outcome is synced while the model is asked again.
    assert_eq!((report.syncs_when_asked, report.syncs), (vec![1, 2], 6));
}

#[test]
fn a_disk_that_fails_at_the_very_first_write_is_named_as_what_it_is() {
    let first_write = Crash::Refusal { at: 1, how: Refusal::Broken };
    let report = crash::run(&scenario("plain answer"), 1, Some(first_write), Planted::Nothing);
    assert_eq!(report.violations, Vec::<String>::new());
}

#[test]
fn a_runner_that_acts_without_its_claim_is_found_out() {
    let violations = sweeps_with(Planted::NoClaim, &["eight parallel tools"]);
    check_found(&violations, &["I3"]);
}

#[test]
fn a_call_that_is_run_again_is_found_out() {
    check_found(&sweeps_with(Planted::RunAgain, &["one tool"]), &["I1"]);
}

#[test]
fn a_call_that_is_run_and_a_turn_that_ends_without_their_hooks_are_found_out() {
    let violations = sweeps_with(Planted::NoHooks, &["hooks at every gate"]);
    check_found(&violations, &["I11"]);
}

#[test]
fn a_disk_that_only_says_it_has_synced_is_found_out() {
    check_found(&sweeps_with(Planted::NoSync, &["plain answer"]), &["I4"]);
}

#[test]
fn a_claim_that_a_power_cut_took_and_that_is_missed_as_if_it_never_was_is_found_out() {
    check_found(&sweeps_with(Planted::SameBoot, &["one tool"]), &["I3"]);
}

/// Whether a second process gets into a session that a first one has open.
fn second_gets_in(before: impl FnOnce(&Engine, &piton_core::ids::SessionId)) -> Result<(), EngineError> {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path());
    let settings = || Settings::new(Arc::new(Recorded::parse("{\"text\":\"hello\"}").unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = engine.create(folder.path(), settings()).await.unwrap();
        first.prompt("say something").await.unwrap();
        before(&engine, first.id());
        let second = engine.resume(first.id(), settings()).await;
        // What the second has written, the first must not write over, lock or no lock.
        if second.is_ok() {
            let fenced = first.prompt("still there?").await.unwrap_err();
            assert!(matches!(&fenced, EngineError::Broken(e) if matches!(**e, StoreError::Fenced { .. })), "{fenced}");
        }
        second.map(drop)
    })
}

#[test]
fn of_two_processes_only_the_first_gets_in() {
    let refused = second_gets_in(|_, _| {}).unwrap_err();
    assert!(matches!(refused, EngineError::Journal(StoreError::Busy { .. })), "{refused}");
    assert!(refused.to_string().contains("in use by another Piton"), "{refused}");
}

#[test]
fn without_the_lock_two_get_in_and_the_first_is_fenced_off() {
    second_gets_in(|engine, id| std::fs::remove_file(engine.session_dir(id).lock()).unwrap()).unwrap();
}
