//! The scripted scenarios of other agents, under their presets. `cargo xtask cases` plays other ones of the same kind.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_testkit::scenarios::{WAITS, neovate, opencode, pulse};
use serde_json::Value;

/// Plays a suite: so many of its cases pass, so many wait for something that is not there yet, and none fails.
fn play(suite: &str, judge: fn(&Value) -> Result<(), String>, passed: usize, waiting: usize) {
    let path = format!("{}/../../tests/cases/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let table: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut counts, mut failed) = ((0, 0), Vec::new());
    for case in table["cases"].as_array().unwrap() {
        match judge(case) {
            Ok(()) => counts.0 += 1,
            Err(why) if why.starts_with(WAITS) => counts.1 += 1,
            Err(why) => failed.push(format!("{}: {why}", case["name"])),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(counts, (passed, waiting), "passed, and waiting");
}

#[test]
fn neovates_loop() {
    play("neovate/loop_scenarios", neovate::judge, 20, 0);
}

#[test]
fn pulses_loop() {
    play("pulse/loop_outcomes", pulse::judge, 30, 0);
}

#[test]
fn opencodes_loop() {
    play("opencode/loop_scenarios", opencode::judge, 22, 10);
}
