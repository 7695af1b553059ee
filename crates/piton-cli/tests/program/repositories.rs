//! Whole repositories as other agents have them, in `tests/repositories`, run as they stand and without anybody there: what the model
//! is sent, what runs, and what is named, before and after the user trusts them.

use crate::mcp::SERVER;
use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A stage whose workspace is a copy of that repository, with a server of its tools.
fn repository(name: &str, script: Value) -> Stage {
    let stage = Stage::new(script);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/repositories").join(name);
    copy(&from, &stage.workspace.path());
    stage.workspace.write("tools/words.py", SERVER);
    stage.workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    stage.with_config("[claude]\nhooks = true\n")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn bodies(stage: &Stage) -> Vec<String> {
    stage.provider.requests().iter().map(|request| request.body.to_string()).collect()
}

fn task(agent: &str, prompt: &str) -> Value {
    json!({"name": "task", "args": {"description": "a part", "prompt": prompt, "subagent_type": agent}})
}

fn calls(calls: &[Value]) -> Value {
    json!({ "tools": calls })
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "args": {"command": command}})
}

fn read(path: &str) -> Value {
    json!({"name": "read", "args": {"path": path}})
}

fn echo() -> Value {
    json!({"name": "mcp__words__echo", "args": {"text": "x"}})
}

fn skill(name: &str) -> Value {
    json!({"name": "skill", "args": {"name": name, "arguments": "v2"}})
}

fn all_in(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

fn none_in(text: &str, words: &[&str]) {
    for word in words {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn untrusted_a_repository_for_claude_code_runs_nothing_and_forbids_what_it_forbids() {
    let stage = repository(
        "claude-code",
        json!([calls(&[bash("true"), read(".env"), bash("curl example.org"), echo()]), {"text": "done", "repeat": true}]),
    );
    let ran = stage.run(&["go"]);
    all_in(&ran.stderr, &["8 things of this repository are ignored until you approve them: piton trust"]);
    all_in(
        &Ran::of(stage.piton(&["doctor"])).stdout,
        &[
            "reviewer.md (agent",
            "git/changes.md (command",
            "release/SKILL.md (skill",
            ".mcp.json#",
            "(plugin",
            "(hooks",
        ],
    );
    let first = &bodies(&stage)[0];
    all_in(first, &["Be brief.", "Prices are whole cents."]);
    none_in(
        first,
        &["Reviews code", "How a release is made", "How tests are run", "How notes are taken", "tool_search"],
    );
    let status: Vec<Value> = ran.outcomes().iter().map(|outcome| outcome["status"].clone()).collect();
    assert_eq!(status, ["ok", "denied", "denied", "failed"], "{:?}", ran.outcomes());
    assert!(!stage.workspace.has("hooked"), "no hook ran");
    stage.run(&["/git:changes tests"]).expect_code(1).expect_said(&["you have not approved its current version"]);
    none_in(&bodies(&stage).concat(), &["hunter2", "rule one"]);
}

#[test]
fn trusted_a_repository_for_claude_code_runs_as_it_stands() {
    let stage = repository(
        "claude-code",
        json!([
            calls(&[task("reviewer", "look at the prices")]),
            {"of": "look at the prices", "text": "They are fine."},
            calls(&[skill("release"), skill("notes:noting"), bash("touch ran"), echo(), read(".env")]),
            {"text": "done", "repeat": true},
        ]),
    );
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let ran = stage.run(&["/git:changes the prices"]);
    assert!(!ran.stderr.contains("is ignored"), "{}", ran.stderr);
    let bodies = bodies(&stage);
    all_in(
        &bodies[0],
        &[
            "Files here: price.py",
            "rule one: no floats",
            "Focus on the prices.",
            "- reviewer: Reviews code for mistakes. Use it when: code was changed",
            "How a release is made",
            "How tests are run",
            "- notes:noting: How notes are taken",
        ],
    );
    none_in(&bodies[0], &["RELEASE:", "You are the REVIEWER"]);
    let reviewer = bodies.iter().find(|body| body.contains("You are the REVIEWER.")).unwrap();
    all_in(reviewer, &["\"grep\"", "Prices are whole cents."]);
    none_in(reviewer, &["\"bash\""]);
    let outcomes = ran.outcomes();
    let text = |at: usize| outcomes[at]["text"].as_str().unwrap();
    all_in(text(0), &["They are fine."]);
    all_in(text(1), &["RELEASE: run scripts/tag.sh with v2", "scripts/tag.sh"]);
    all_in(text(2), &["NOTING in ", "tools/market/notes"]);
    assert_eq!((text(4), &outcomes[5]["status"]), ("You said x.", &json!("denied")), "{outcomes:?}");
    assert!(stage.workspace.has("ran"));
    // For the command of the template, and for the model's.
    let hooked = stage.workspace.read("hooked");
    assert_eq!((hooked.matches("settings").count(), hooked.matches("plugin").count()), (2, 2), "{hooked}");
    stage.run(&["/fix 12 high"]).expect_code(0);
    all_in(self::bodies(&stage).last().unwrap(), &["Fix issue 12 with priority high."]);
    none_in(&self::bodies(&stage).concat(), &["hunter2"]);
}

#[test]
fn untrusted_a_repository_for_opencode_runs_nothing_and_every_thing_is_named() {
    let stage = repository("opencode", json!([calls(&[echo()]), {"text": "done", "repeat": true}]));
    let ran = stage.run(&["go"]);
    all_in(&ran.stderr, &["8 things of this repository are ignored until you approve them: piton trust"]);
    all_in(
        &Ran::of(stage.piton(&["doctor"])).stdout,
        &["docs", "planner", "sub/make", "greet", "release", "testing", "noting", "(MCP server"],
    );
    let first = &bodies(&stage)[0];
    all_in(first, &["Be brief."]);
    none_in(
        first,
        &["Writes manuals", "Plans the work", "How a release is made", "How notes are taken", "tool_search"],
    );
    assert_eq!(ran.outcomes()[0]["status"], "failed");
    stage.run(&["/greet Ann"]).expect_code(1).expect_said(&["you have not approved its current version"]);
}

#[test]
fn trusted_a_repository_for_opencode_runs_as_it_stands() {
    let stage = repository(
        "opencode",
        json!([
            calls(&[task("docs", "write the manual"), task("planner", "plan the work")]),
            {"of": "write the manual", "tools": [bash("touch childs")]},
            {"of": "write the manual", "text": "Written."},
            {"of": "plan the work", "text": "Planned."},
            calls(&[skill("release"), echo()]),
            {"text": "done", "repeat": true},
        ]),
    );
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let ran = stage.run(&["/make bread 'rye and water'"]).expect_code(0);
    let bodies = bodies(&stage);
    all_in(
        &bodies[0],
        &[
            "Make bread of rye and water. Here is price.py",
            "rule one: no floats",
            "- docs: Writes manuals",
            "- planner: Plans the work",
            "How a release is made",
            "How tests are run",
            "How notes are taken",
        ],
    );
    let of = |words: &str| bodies.iter().find(|body| body.contains(words)).unwrap();
    none_in(of("You are the PLANNER."), &["\"name\":\"bash\"", "\"name\":\"write\""]);
    all_in(of("You are the WRITER."), &["\"name\":\"write\""]);
    assert!(!stage.workspace.has("childs"), "its agent may run no commands");
    let outcomes = ran.outcomes();
    all_in(
        &outcomes.iter().map(|outcome| outcome["text"].as_str().unwrap()).collect::<String>(),
        &["Written.", "Planned.", "RELEASE STEPS", "You said x."],
    );
    stage.run(&["/greet Ann"]).expect_code(0);
    all_in(self::bodies(&stage).last().unwrap(), &["Greet Ann kindly."]);
}
