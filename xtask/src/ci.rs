//! `cargo xtask ci`: exactly what the CI runs.

use crate::{cargo, dist, engine, events, rows, tests_run, tidy};
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The lints.
pub(crate) const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

type Check = fn() -> anyhow::Result<()>;

/// Every check by what it is, the short ones first.
const CHECKS: &[(&str, Check)] = &[
    ("room on the disk", room),
    ("the code is formatted", || cargo(&["fmt", "--all", "--check"])),
    ("the house rules", tidy::tidy),
    ("docs/events.md is what the code says, docs/control.md has every verb", events::check),
    ("the lints", || cargo(CLIPPY)),
    // The tests start the real binary.
    ("what the tests need of the system", needs),
    // Programs, examples and tests at once: two calls of cargo would each wait for their own longest crate.
    ("everything builds", || cargo(&["build", "--workspace", "--all-targets"])),
    ("the tests, and what docs/dev/audit says of them", tests),
    ("the examples", examples),
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

/// Free gigabytes that all of it is given from nothing. The tests of the six largest crates took 8 with incremental builds, packages take 2.
const ROOM_GB: u64 = 16;

/// A disk that fills up fails whatever writes last, half an hour later, in words of its own.
fn room() -> anyhow::Result<()> {
    let target = target_dir();
    // From what a session before has left, less is built anew.
    if target.join("debug/deps").exists() {
        return Ok(());
    }
    let folder = if target.exists() { target } else { PathBuf::from(".") };
    let output = Command::new("df").arg("-Pk").arg(&folder).output().context("cannot run df")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let free_kb = text.lines().nth(1).and_then(|row| row.split_whitespace().nth(3)?.parse::<u64>().ok());
    let free_gb = free_kb.with_context(|| format!("df says nothing of {}: {text}", folder.display()))? / 1_000_000;
    ensure!(
        free_gb >= ROOM_GB,
        "{free_gb} GB are free in {}, and the checks need {ROOM_GB}; `cargo clean` in other checkouts makes room",
        folder.display()
    );
    Ok(())
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

/// Programs that tests start: how each is asked whether it is there, and its package. In the first the terminal interface is looked at,
/// the second reads PDFs.
const NEEDED: [(&[&str], &str); 2] = [(&["tmux", "-V"], "tmux"), (&["pdftotext", "-v"], "poppler-utils")];

/// Installs what the tests start and a machine may lack.
fn needs() -> anyhow::Result<()> {
    let is_there =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success());
    let missing: Vec<&str> = NEEDED.iter().filter(|(words, _)| !is_there(words)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // Who is not root may have sudo.
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let (program, before): (&str, &[&str]) = if is_root { ("apt-get", &[]) } else { ("sudo", &["-n", "apt-get"]) };
    let apt = |words: &[&str]| {
        Command::new(program).args(before).args(words).env("DEBIAN_FRONTEND", "noninteractive").status()
    };
    let _ = apt(&["update", "-q"]);
    let installed = apt(&[&["install", "-q", "-y", "--no-install-recommends"], &missing[..]].concat());
    let missing = missing.join(" ");
    ensure!(
        installed.is_ok_and(|status| status.success()),
        "the tests need {missing}, which could not be installed; install it: apt-get install {missing}"
    );
    Ok(())
}

/// As they were built with everything else: `cargo run --package` would build them, and what they need, with other
/// features.
fn examples() -> anyhow::Result<()> {
    let target = target_dir();
    for name in ["minimal", "custom_tool"] {
        let status = Command::new(target.join("debug/examples").join(name)).status();
        ensure!(
            status.with_context(|| format!("cannot run the example {name}"))?.success(),
            "the example {name} failed"
        );
    }
    Ok(())
}

fn tests() -> anyhow::Result<()> {
    let ended = tests_run::run(None)?;
    let failed: Vec<String> = ended.iter().filter(|ended| ended.word() != "ok").map(ToString::to_string).collect();
    ensure!(failed.is_empty(), "{} tests did not pass:\n  {}", failed.len(), failed.join("\n  "));
    // After the documentation's, of which there may be none: whoever reads the log takes the last count for the whole.
    cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    println!("{} passed, 0 failed", ended.len());
    for unsteady in ended.iter().filter(|ended| ended.is_unsteady) {
        println!("UNSTEADY: {unsteady} alone, and failed beside others. What it said is above.");
    }
    rows::check_run(&ended)
}
