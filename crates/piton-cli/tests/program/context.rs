//! What goes to the model besides words and results: references, instructions, reminders; and `piton context`.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

/// All that a request says, as one text.
fn said(request: &Value) -> String {
    request["messages"].to_string()
}

fn requests(stage: &Stage) -> Vec<String> {
    stage.provider.requests().iter().map(|request| said(&request.body)).collect()
}

#[test]
fn what_a_message_refers_to_is_read_once_and_stays_as_it_was() {
    let script = json!([
        {"tools": [{"name": "edit", "args": {"path": "a.txt", "old_string": "alpha", "new_string": "omega"}}]},
        {"text": "done"},
        {"text": "again"},
    ]);
    let stage = Stage::new(script).with_files([("a.txt", "alpha\nbeta\n"), ("b/c.txt", "gamma")]);
    let ran = stage.run(&["change @a.txt, see @b and @b/missing.txt"]).expect_code(0);
    assert_eq!(ran.outcomes()[0]["status"], "ok", "what was referred to need not be read again: {}", ran.outcomes()[0]);
    let first = "<path>a.txt</path>\\n        <metadata>Complete file (2 lines)</metadata>\\n        \
                 <content><![CDATA[alpha\\nbeta]]></content>";
    let sent = requests(&stage);
    assert!(sent.iter().all(|request| request.matches(first).count() == 1), "{sent:?}");
    assert!(sent[0].contains("<![CDATA[gamma]]>") && sent[0].contains("@b/missing.txt: there is no such file"));
    let given = ran.all("context_given")[0]["items"].clone();
    let notices: Vec<&Value> = given.as_array().unwrap().iter().map(|item| &item["notice"]).collect();
    assert!(notices.iter().any(|notice| notice.as_str().is_some_and(|text| text.contains("b/missing.txt"))), "{given}");
    stage.workspace.write("b/c.txt", "changed meanwhile");
    stage.run(&["--continue", "and now?"]).expect_code(0);
    let sent = requests(&stage);
    assert!(sent[2].starts_with(sent[1].trim_end_matches(']')), "what was sent stays, byte by byte");
    assert!(sent[2].contains("have changed on the disk since you last saw them") && sent[2].contains("- b/c.txt"));
}

/// A folder that may not be opened, until this is dropped.
struct Shut(std::path::PathBuf);

impl Shut {
    fn new(path: std::path::PathBuf) -> Self {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        Self(path)
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_said_and_what_is_beside_it_is_read() {
    let files = [("b/c.txt", "gamma"), ("b/shut/d.txt", "delta"), ("all/shut/e.txt", "epsilon")];
    let stage = Stage::new(json!([{"text": "ok"}])).with_files(files);
    let _shut = ["b/shut", "all"].map(|folder| Shut::new(stage.workspace.path().join(folder)));
    let run = stage.run_command(&["see @b and @all"]);
    let ran = Ran::of(Stage::without_power(&run)).expect_code(0);
    let sent = requests(&stage).remove(0);
    assert!(sent.contains("<![CDATA[gamma]]>") && !sent.contains("delta") && !sent.contains("epsilon"), "{sent}");
    let given = ran.all("context_given")[0]["items"].clone();
    for told in ["@b: 1 folder in it cannot be read", "@all: it may not be read (permission denied)"] {
        assert!(sent.contains(told), "{told}: {sent}");
        let is_it = |item: &Value| item["notice"].as_str().is_some_and(|notice| notice.contains(told));
        assert!(given.as_array().unwrap().iter().any(is_it), "{told}: {given}");
    }
}

#[test]
fn what_is_piped_in_refers_to_nothing() {
    let stage = Stage::new(json!([{"text": "ok"}])).with_files([("secret.txt", "hidden words")]);
    let mut command = stage.run_command(&["sum this up"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"an issue that says @secret.txt\n").unwrap();
    assert!(child.wait().unwrap().success());
    let sent = requests(&stage).remove(0);
    assert!(sent.contains("an issue that says @secret.txt") && !sent.contains("hidden words"), "{sent}");
}

#[test]
fn instructions_come_first_and_those_of_a_folder_when_it_is_touched() {
    let script = || {
        json!([
            {"tools": [{"name": "read", "args": {"path": "deep/x.txt"}}]},
            {"tools": [{"name": "read", "args": {"path": "deep/y.txt"}}]},
            {"text": "done"},
        ])
    };
    let files = [
        ("AGENTS.md", "Use tabs. @style.md"),
        ("style.md", "No semicolons."),
        ("CLAUDE.md", "not this"),
        ("deep/CLAUDE.md", "Deep rules\u{202e}."),
        ("deep/x.txt", "x"),
        ("deep/y.txt", "y"),
        (".claude/rules/all.md", "For all."),
        (".claude/rules/y.md", "---\npaths: \"**/y.*\"\n---\nOnly for y."),
        (".claude/rules/rs.md", "---\npaths: \"**/*.rs\"\n---\nOnly for Rust."),
    ];
    let stage = Stage::new(script()).with_files(files);
    stage.home.write("PITON.md", "Mine.");
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(0);
    assert!(ran.stderr.contains("deep/CLAUDE.md: 1 hidden characters were taken out"), "{}", ran.stderr);
    let sent = requests(&stage);
    for (words, counts) in [
        ("Mine.", [1, 1, 1]),
        ("Use tabs.", [1, 1, 1]),
        ("No semicolons.", [1, 1, 1]),
        ("Deep rules.", [0, 1, 1]),
        ("For all.", [1, 1, 1]),
        ("Only for y.", [0, 0, 1]),
        ("Only for Rust.", [0, 0, 0]),
        ("paths:", [0, 0, 0]),
        ("not this", [0, 0, 0]),
    ] {
        let found: Vec<usize> = sent.iter().map(|request| request.matches(words).count()).collect();
        assert_eq!(found, counts, "{words}");
    }
    let order =
        ["Working folder", "Mine.", "Use tabs.", "No semicolons.", "\"go\""].map(|words| sent[0].find(words).unwrap());
    assert!(order.is_sorted(), "{order:?}");
    assert!(sent[1].starts_with(sent[0].trim_end_matches(']')), "nothing that was sent is changed");

    let without = Stage::new(script()).with_files(files);
    without.run(&["--no-instructions", "go"]).expect_code(0);
    assert!(requests(&without).iter().all(|request| !request.contains("Use tabs") && !request.contains("Deep rules")));
    let off = Stage::new(script()).with_files(files).with_config("[context]\ninstructions = false\n");
    off.run(&["go"]).expect_code(0);
    assert!(requests(&off).iter().all(|request| !request.contains("Use tabs")));
}

#[test]
fn a_file_that_changed_is_told_of_once() {
    let script = json!([
        {"tools": [{"name": "read", "args": {"path": "a.txt"}}]},
        {"tools": [{"name": "bash", "args": {"command": "echo two > a.txt"}}]},
        {"tools": [{"name": "bash", "args": {"command": "true"}}]},
        {"text": "done"},
    ]);
    let stage = Stage::new(script).with_files([("a.txt", "one\n")]);
    stage.run(&["go"]).expect_code(0);
    let told: Vec<usize> =
        requests(&stage).iter().map(|request| request.matches("have changed on the disk").count()).collect();
    assert_eq!(told, [0, 0, 1, 1]);
}

#[test]
fn a_budget_that_is_nearly_spent_is_said_to_be() {
    let step = |command: &str| json!({"tools": [{"name": "bash", "args": {"command": command}}], "usage": {"input": 5_000, "output": 39_000}});
    let script = json!([step("true"), step("echo 2"), {"text": "done", "usage": {"input": 10, "output": 1}}]);
    let stage = Stage::new(script);
    stage.run(&["--max-tokens", "100000", "go"]);
    let told: Vec<usize> =
        requests(&stage).iter().map(|request| request.matches("budget of this turn is nearly spent").count()).collect();
    assert_eq!(told, [0, 0, 1]);
}

#[test]
fn the_context_is_shown_piece_by_piece() {
    let stage = Stage::new(json!([])).with_files([("AGENTS.md", "Use tabs. @gone.md"), ("a.txt", "alpha")]);
    let ran = Ran::of(stage.piton(&["context", "--model", "anthropic/claude-sonnet-4-5", "see @a.txt"])).expect_code(0);
    let ran = ran.expect_stdout(&[
        "system prompt, version",
        "tool bash",
        "tool history",
        "environment",
        "AGENTS.md",
        "files that it refers to",
        "% of the",
    ]);
    assert!(ran.stdout.contains("! imports gone.md, which is not there"), "{}", ran.stdout);
    let json = Ran::of(stage.piton(&["context", "--json", "--full"])).expect_code(0).events().remove(0);
    let pieces = json["pieces"].as_array().unwrap();
    let sum: u64 = pieces.iter().map(|piece| piece["tokens"].as_u64().unwrap()).sum();
    assert_eq!(json["tokens"], sum);
    let own = pieces.iter().find(|piece| piece["kind"] == "instructions").unwrap();
    assert_eq!(own["file"], stage.workspace.path().canonicalize().unwrap().join("AGENTS.md").to_str().unwrap());
    assert!(own["text"].as_str().unwrap().contains("Use tabs."));
    let fixed: u64 = pieces
        .iter()
        .filter(|piece| piece["kind"] == "system" || piece["kind"] == "tool")
        .map(|piece| piece["bytes"].as_u64().unwrap())
        .sum();
    assert!(fixed < 8_192, "system prompt and tools have {fixed} bytes");
    let none = Ran::of(stage.piton(&["context", "--no-instructions"])).expect_code(0);
    assert!(!none.stdout.contains("AGENTS.md"));
}

#[test]
fn the_pieces_are_those_of_the_preset_and_the_permissions() {
    let stage = Stage::new(json!([{"text": "ok"}])).with_files([("a.txt", "alpha")]);
    stage.home.write("config.toml", "preset = \"neovate\"\n[permission]\nbash = \"deny\"\n");
    let ran = Ran::of(stage.piton(&["context", "--json", "--full", "see @a.txt and @nowhere/x.txt"])).expect_code(0);
    let pieces = ran.events().remove(0)["pieces"].clone();
    let pieces = pieces.as_array().unwrap();
    assert!(pieces.iter().all(|piece| piece["kind"] != "tool"), "the tools of this preset are text: {pieces:?}");
    let system = pieces[0]["text"].as_str().unwrap();
    stage.run(&["see @a.txt and @nowhere/x.txt"]).expect_code(0);
    let request = stage.provider.requests().remove(0).body;
    assert_eq!(request["messages"][0]["content"], system, "to the letter");
    assert!(!system.contains("bash"), "{system}");
    let names: Vec<&Value> = pieces.iter().map(|piece| &piece["name"]).collect();
    assert_eq!(names.iter().filter(|name| **name == "files that it refers to").count(), 1, "{names:?}");
}

#[test]
fn a_file_that_is_read_again_unchanged_is_told_by_the_result_alone() {
    let read = json!({"tools": [{"name": "read", "args": {"path": "a.txt"}}]});
    let other = |path: &str| json!({"tools": [{"name": "read", "args": {"path": path}}]});
    let stage = Stage::new(json!([read, other("b.txt"), read, other("c.txt"), read, {"text": "done"}])).with_files([
        ("a.txt", "one\n"),
        ("b.txt", "two\n"),
        ("c.txt", "three\n"),
    ]);
    let ran = stage.run(&["go"]).expect_code(0);
    let results: Vec<String> =
        ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect();
    let counts =
        ["2", "3"].map(|count| results.iter().filter(|text| text.contains(&format!("Times read: {count}."))).count());
    assert_eq!(counts, [1, 1], "{results:?}");
    // No reminder says it a second time.
    let last = stage.last_messages();
    assert!(
        last.iter().rev().take_while(|message| message["role"] != "assistant").all(|message| message["role"] == "tool")
    );
    assert!(
        ran.all("context_given").iter().all(|given| !given.to_string().contains("a.txt")),
        "{:?}",
        ran.all("context_given")
    );
}
