//! `piton demo`: the newcomer's first minute.

use crate::stage::{Ran, Stage, bare};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn the_demo_turns_a_red_test_green_and_says_what_it_did() {
    let stage = Stage::new(json!([]));
    let dir = stage.workspace.path().join("sample");
    let mut command = bare(&stage.home.path());
    command.args(["demo", "--dir", dir.to_str().unwrap()]);
    let ran = Ran::of(command).expect_code(0);
    let ran = ran.expect_said(&[
        "A sample project in Rust",
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

/// The demo on a machine that has only these programs besides a shell.
fn demo_with(stage: &Stage, programs: &[(&str, &str)]) -> Command {
    let bin = stage.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for shell in ["sh", "bash"] {
        let real = std::fs::canonicalize(format!("/bin/{shell}")).unwrap();
        std::os::unix::fs::symlink(real, bin.join(shell)).unwrap();
    }
    for (name, script) in programs {
        std::fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = bare(&stage.home.path());
    command.args(["demo", "--dir", stage.workspace.path().join("sample").to_str().unwrap()]).env("PATH", &bin);
    command
}

/// This machine's Python, as a script that runs it.
fn python() -> String {
    let mut ask = Command::new("python3");
    ask.args(["-c", "import sys; print(sys.executable)"]);
    format!("exec {} \"$@\"", Ran::of(ask).expect_code(0).stdout.trim())
}

#[test]
fn without_rust_the_demo_shows_a_project_in_python() {
    let python = python();
    let broken: [&[(&str, &str)]; 3] = [
        &[("python3", &python)],
        // A rustup without a toolchain, and a toolchain without a linker.
        &[("python3", &python), ("cargo", "exit 1"), ("cc", "exit 0")],
        &[("python3", &python), ("cargo", "exit 0")],
    ];
    for programs in broken {
        let stage = Stage::new(json!([]));
        let ran = Ran::of(demo_with(&stage, programs)).expect_code(0).expect_said(&[
            "A sample project in Python",
            "✗ bash python3 -B -m unittest",
            "AssertionError: 999 != 1000",
            "✓ edit split_the_bill.py",
            "✓ bash python3 -B -m unittest",
            "+    share, left_over = divmod(total_cents, people)",
            "4 passed, 0 failed",
        ]);
        assert!(ran.stdout.contains("Fixed."), "{}", ran.stdout);
        assert!(stage.workspace.read("sample/split_the_bill.py").contains("left_over"));
    }
}

#[test]
fn without_rust_and_python_the_demo_shows_a_project_in_shell() {
    // The second has a Python without its library.
    for programs in [&[][..], &[("python3", "exit 1")]] {
        let stage = Stage::new(json!([]));
        let ran = Ran::of(demo_with(&stage, programs)).expect_code(0).expect_said(&[
            "A sample project in shell",
            "✗ bash sh test.sh",
            "not ok 2 - the shares add up to the bill: 999 instead of 1000",
            "✓ edit split.sh",
            "✓ bash sh test.sh",
            "+    left_over=$(($1 % $2))",
            "4 passed, 0 failed",
        ]);
        assert!(ran.stdout.contains("Fixed."), "{}", ran.stdout);
        assert!(stage.workspace.read("sample/split.sh").contains("left_over"));
        let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
        let undo = stage.piton(&["undo", "--session", &id]);
        Ran::of(undo).expect_code(0);
        assert!(!stage.workspace.read("sample/split.sh").contains("left_over"), "the demo can be taken back");
    }
}

#[test]
fn the_demo_does_not_say_fixed_of_tests_that_did_not_run() {
    let stage = Stage::new(json!([]));
    let cargo = "[ \"$1\" = --version ] || { echo 'error: no such subcommand: `test`' >&2; exit 101; }";
    Ran::of(demo_with(&stage, &[("cargo", cargo), ("cc", "exit 0")]))
        .expect_code(1)
        .expect_said(&["cannot run the tests here, so the fix is untested: error: no such subcommand: `test`"]);
}
