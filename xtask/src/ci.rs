//! `cargo xtask ci`: exactly what the CI runs.

use crate::{cargo, dist, engine, events, rows, tests_run, tidy};
use anyhow::ensure;
use std::time::Instant;

/// The lints.
pub(crate) const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

type Check = fn() -> anyhow::Result<()>;

/// Every check by what it is, the short ones first.
const CHECKS: &[(&str, Check)] = &[
    ("the code is formatted", || cargo(&["fmt", "--all", "--check"])),
    ("the house rules", tidy::tidy),
    ("docs/events.md is what the code says", events::check),
    ("the lints", || cargo(CLIPPY)),
    // The tests start the real binary.
    ("everything builds", || cargo(&["build", "--workspace", "--bins", "--examples"])),
    ("the tests build", || cargo(&["test", "--workspace", "--no-run"])),
    ("the tests, and what docs/dev/audit says of them", tests),
    ("the examples", || {
        let example = |name| cargo(&["run", "--package", "piton-engine", "--example", name]);
        ["minimal", "custom_tool"].into_iter().try_for_each(example)
    }),
    ("packages, installed", || dist::dist(&["--check"])),
    ("docs that are made from code, and the cases", || engine(&["check"])),
];

/// Runs every check, stopping at the first that fails.
pub(crate) fn ci() -> anyhow::Result<()> {
    let began = Instant::now();
    for (number, (what, check)) in (1..).zip(CHECKS) {
        let started = Instant::now();
        println!("[{number}/{}] {what}", CHECKS.len());
        check()?;
        println!("[{number}/{}] {what}: {} s", CHECKS.len(), started.elapsed().as_secs());
    }
    println!("all checks passed in {} s", began.elapsed().as_secs());
    Ok(())
}

fn tests() -> anyhow::Result<()> {
    let ended = tests_run::run(None)?;
    let failed: Vec<String> = ended.iter().filter(|ended| ended.word() != "ok").map(ToString::to_string).collect();
    ensure!(failed.is_empty(), "{} tests did not pass:\n  {}", failed.len(), failed.join("\n  "));
    cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    rows::check_run(&ended)
}
