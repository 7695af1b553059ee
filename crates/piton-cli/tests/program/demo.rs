//! `piton demo`: the newcomer's first minute.

use crate::stage::{Ran, Stage, bare};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

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

#[test]
fn without_cargo_the_demo_says_what_is_missing_and_does_nothing() {
    let stage = Stage::new(json!([]));
    let dir = stage.workspace.path().join("sample");
    let demo = |script: Option<&str>| {
        let bin = stage.home.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        if let Some(script) = script {
            std::fs::write(bin.join("cargo"), format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(bin.join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = bare(&stage.home.path());
        command.args(["demo", "--dir", dir.to_str().unwrap()]);
        // Of the machine's own folders none that could have a cargo.
        let sh = std::fs::canonicalize("/bin/sh").unwrap();
        let _ = std::os::unix::fs::symlink(sh, bin.join("sh"));
        command.env("PATH", &bin);
        Ran::of(command).expect_code(1)
    };
    demo(None).expect_said(&["the demo needs cargo", "not installed, or not in PATH", "Nothing was done", "rustup.rs"]);
    demo(Some("echo 'error: no default toolchain is set.' >&2; exit 1"))
        .expect_said(&["cannot be run: error: no default toolchain is set. Nothing was done"]);
    assert!(!dir.exists());
    // It starts, and cannot build: then nothing is known of the fix.
    let ran = demo(Some("[ \"$1\" = --version ] || { echo 'error: linker `cc` not found' >&2; exit 101; }"));
    ran.expect_said(&["cannot run the tests here, so nothing is known of the fix: error: linker `cc` not found"]);
}
