//! The examples in `examples/`, as a person would use them.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn example(name: &str) -> String {
    fs::read_to_string(examples().join(name)).unwrap()
}

/// Every file of the examples.
fn all(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { all(&path) } else { vec![path] }).collect()
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "args": {"command": command}})
}

#[test]
fn each_is_under_60_lines() {
    for file in all(&examples()) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < 60, "{}: {lines}", file.display());
    }
}

#[test]
fn the_agent_the_skill_and_the_command_run() {
    let script = json!([
        {"tools": [{"name": "skill", "args": {"name": "changelog", "arguments": "1.2"}}]},
        {"tools": [bash("python3 .piton/skills/changelog/scripts/entries.py CHANGELOG.md"), bash("git push origin")]},
        {"text": "done"},
    ]);
    let stage = Stage::new(script).with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- It is faster.\n\n## 1.1\n\n- It is slower.\n"),
        ("sub/one.txt", "1"),
        (".piton/agents/reviewer.md", &example("agents/reviewer.md")),
        (".piton/commands/changes.md", &example("commands/changes.md")),
        (".piton/skills/changelog/SKILL.md", &example("skills/changelog/SKILL.md")),
        (".piton/skills/changelog/scripts/entries.py", &example("skills/changelog/scripts/entries.py")),
    ]);
    let ran = stage.run(&["--trust", "--agent", "build", "/changes sub"]);
    let first = stage.provider.requests()[0].body.to_string();
    assert!(first.contains("Sum up these changes") && first.contains("one.txt"), "{first}");
    let outcomes = ran.outcomes();
    let text = |at: usize| outcomes[at]["text"].as_str().unwrap();
    assert!(text(0).contains("Write the changelog entry of version 1.2."), "{}", text(0));
    assert!(text(1).contains("- It is faster.") && !text(1).contains("slower"), "{}", text(1));
    // The agent, who runs the session, may not push.
    let stage = Stage::new(json!([{"tools": [bash("git push origin")]}, {"text": "done"}]))
        .with_files([(".piton/agents/reviewer.md", example("agents/reviewer.md").as_str())]);
    let ran = stage.run(&["--trust", "--agent", "reviewer", "look"]);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("bash(git push*) forbids"), "{:?}", ran.outcomes());
    assert!(stage.provider.requests()[0].body.to_string().contains("You review changes."));
}

/// A folder with a `node` that runs TypeScript, whichever Node there is: `tsx`, from npm, installed once.
fn node_of_today(stage: &Stage) -> PathBuf {
    const TSX: &str = "4.20.6";
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tsx-{TSX}"));
    let mut install = Command::new("sh");
    install.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../piton-mcp/tests/npm.sh")).arg(&installed);
    install.arg(format!("tsx@{TSX}"));
    Ran::within(install, Duration::from_secs(600)).expect_code(0);
    let tsx = installed.join("node_modules/tsx/dist/cli.mjs");
    let node = which("node");
    stage.home.write("bin/node", format!("#!/bin/sh\nexec {} {} \"$@\"\n", node.display(), tsx.display()));
    let own = stage.home.path().join("bin");
    fs::set_permissions(own.join("node"), fs::Permissions::from_mode(0o755)).unwrap();
    own
}

fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists()).unwrap()
}

#[test]
fn the_plugins_are_sound_and_their_hooks_run() {
    let stage = Stage::new(json!([
        {"tools": [bash("rm -rf build"), {"name": "write", "args": {"path": "a.txt", "content": "a"}}]},
        {"text": "done"},
        {"text": "Both."},
    ]));
    let market = examples().canonicalize().unwrap().join("plugins");
    let market = market.to_str().unwrap();
    Ran::of(stage.piton(&["plugin", "validate", market])).expect_code(0).expect_stdout(&["so are its 2 plugins"]);
    for name in ["guard", "notes"] {
        Ran::of(stage.piton(&["plugin", "add", market, name, "--yes"])).expect_code(0);
    }
    let own = node_of_today(&stage);
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let mut run = stage.run_command(&["go"]);
    run.env("PATH", path);
    let ran = Ran::of(run);
    let outcomes = ran.outcomes();
    assert!(outcomes[0]["text"].as_str().unwrap().contains("guard: delete files one by one"), "{outcomes:?}");
    assert!(stage.workspace.has("a.txt"));
    let sent = stage.provider.requests()[1].body.to_string();
    assert!(sent.contains("1 files are on the list of changed files."), "{sent}");
    let noted = stage.home.read("data/plugins/data/notes/changed.txt");
    assert!(noted.ends_with("/a.txt\n"), "{noted}");
    stage.run(&["--sandbox", "off", "/notes:changed please"]).expect_code(0);
    let sent = stage.provider.requests()[2].body.to_string();
    assert!(sent.contains("/a.txt") && sent.contains("Say which of them belong together. please"), "{sent}");
}
