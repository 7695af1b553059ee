//! `piton demo`: the newcomer's first minute.

use crate::stage::{Ran, Stage, bare};
use serde_json::json;

#[test]
fn the_demo_turns_a_red_test_green_and_says_what_it_did() {
    let stage = Stage::new(json!([]));
    let dir = stage.workspace.path().join("sample");
    let mut command = bare(&stage.home.path());
    command.args(["demo", "--dir", dir.to_str().unwrap()]);
    let ran = Ran::of(command).expect_code(0);
    let ran = ran.expect_said(&[
        "The model is a recording",
        "✗ bash cargo test",
        "✓ edit src/lib.rs",
        "✓ bash cargo test",
        "-    (0..people).map(|_| share).collect()",
        "4 passed, 0 failed",
        "journal.db",
    ]);
    assert!(ran.stdout.contains("Fixed."), "{}", ran.stdout);
    assert!(stage.workspace.read("sample/src/lib.rs").contains("left_over"));
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let show = Ran::of(stage.piton(&["session", "show", &id])).expect_code(0);
    assert!(show.stdout.contains("← bash failed"), "the test was really red: {}", show.stdout);
}

#[test]
fn the_demo_does_not_write_over_what_is_there() {
    let stage = Stage::new(json!([])).with_files([("Cargo.toml", "mine")]);
    let mut command = bare(&stage.home.path());
    command.args(["demo", "--dir", stage.workspace.path().to_str().unwrap()]);
    Ran::of(command).expect_code(1).expect_said(&["exists already"]);
    assert_eq!(stage.workspace.read("Cargo.toml"), "mine");
}
