//! The scripted scenarios of other agents, under their presets. `cargo xtask cases` plays other ones of the same kind.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_testkit::scenarios::{WAITS, neovate, opencode, pulse};
use serde_json::Value;

fn play(suite: &str, judge: fn(&Value) -> Result<(), String>, least: usize) {
    let path = format!("{}/../../tests/cases/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let table: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut passed, mut failed) = (0, Vec::new());
    for case in table["cases"].as_array().unwrap() {
        match judge(case) {
            Ok(()) => passed += 1,
            Err(why) if why.starts_with(WAITS) => {}
            Err(why) => failed.push(format!("{}: {why}", case["name"])),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed >= least, "only {passed} were played");
}

#[test]
fn neovates_loop() {
    play("neovate/loop_scenarios", neovate::judge, 18);
}

#[test]
fn pulses_loop() {
    play("pulse/loop_outcomes", pulse::judge, 23);
}

#[test]
fn opencodes_loop() {
    play("opencode/loop_scenarios", opencode::judge, 17);
}
