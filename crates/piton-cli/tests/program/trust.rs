//! What a repository brings along counts once it is trusted: for good, for one run, or exactly as it was reviewed.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

const PROJECT: &str = ".piton/config.toml";
const HOOKS: &str = ".claude/settings.json";

fn hooks(command: &str) -> String {
    json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}}).to_string()
}

/// A repository with a limit of one step and a hook that leaves a file.
fn stage() -> Stage {
    let call = json!({"tools": [{"name": "bash", "args": {"command": "true"}}], "repeat": true});
    let stage = Stage::new(json!([call])).with_config("[claude]\nhooks = true\n[limits]\nmax_steps = 3\n");
    stage.workspace.write(".git/HEAD", "");
    stage.workspace.write(PROJECT, "[limits]\nmax_steps = 1\n");
    stage.workspace.write(HOOKS, hooks("touch ran"));
    stage
}

/// How many steps a run was allowed, and whether the hook ran.
fn ran_as(stage: &Stage, args: &[&str]) -> (u64, bool) {
    let ran = stage.run(&[args, &["go"]].concat()).expect_code(4);
    let started = ran.all("turn_started").pop().unwrap();
    let has_run = std::fs::remove_file(stage.workspace.path().join("ran")).is_ok();
    (started["policy"]["max_steps"].as_u64().unwrap(), has_run)
}

fn listed(stage: &Stage) -> Value {
    let json = Ran::of(stage.piton(&["trust", "--json"])).expect_code(0).stdout;
    serde_json::from_str(&json).unwrap()
}

#[test]
fn one_run_trusts_whatever_is_there_and_the_next_does_not() {
    let stage = stage();
    assert_eq!(ran_as(&stage, &[]), (3, false));
    assert_eq!(ran_as(&stage, &["--trust"]), (1, true));
    assert_eq!(ran_as(&stage, &[]), (3, false), "nothing is remembered");
    // Also of what was trusted in another form, though nobody watches.
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    stage.workspace.write(PROJECT, "[limits]\nmax_steps = 2\n");
    stage.run(&["go"]).expect_code(1).expect_said(&["has been changed since you trusted it", "nothing was started"]);
    assert_eq!(ran_as(&stage, &["--trust"]), (2, true));
}

#[test]
fn a_hash_trusts_what_was_reviewed_wherever_it_lies_and_nothing_else() {
    let (here, there) = (stage(), stage());
    let hash = listed(&here)["hash"].as_str().unwrap().to_owned();
    assert_eq!(listed(&there)["hash"], hash, "another checkout");
    let trust = format!("--trust={hash}");
    assert_eq!(ran_as(&there, &[&trust]), (1, true));

    let asked = there.provider.requests().len();
    there.workspace.write(HOOKS, hooks("touch other"));
    let words = ["has the hash", "settings.json", "nothing was started", "piton trust"];
    there.run(&[&trust, "go"]).expect_code(1).expect_said(&words);
    there.workspace.write(HOOKS, hooks("touch ran"));
    there.workspace.write(".claude/settings.local.json", hooks("touch more"));
    there.run(&[&trust, "go"]).expect_code(1).expect_said(&["settings.local.json", "nothing was started"]);
    // What cannot be read is in no hash.
    std::fs::write(there.workspace.path().join(".claude/settings.local.json"), [0xff]).unwrap();
    there
        .run(&[&trust, "go"])
        .expect_code(1)
        .expect_said(&["settings.local.json cannot be read", "nothing was started"]);
    assert_eq!(there.provider.requests().len(), asked);
    std::fs::remove_file(there.workspace.path().join(".claude/settings.local.json")).unwrap();
    assert_eq!(ran_as(&there, &[&trust]), (1, true));
    // In no other form of the word.
    for word in ["--trust=", "--trust=abc", "--trust=*"] {
        here.run(&[word, "go"]).expect_code(2).expect_said(&["64 hexadecimal digits"]);
    }
    here.run(&[&format!("--trust={}", "0".repeat(64)), "go"]).expect_code(1).expect_said(&["nothing was started"]);
}

#[test]
fn all_of_it_is_shown_at_once_and_later_the_difference() {
    let stage = stage();
    let words = ["max_steps = 1", "touch ran", "The hash of all of it", "no terminal to ask on", "--yes"];
    Ran::of(stage.piton(&["trust"])).expect_code(1).expect_said(&words);
    assert_eq!(ran_as(&stage, &[]), (3, false));
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(0).expect_said(&["Trusted"]);
    assert_eq!(ran_as(&stage, &[]), (1, true));
    Ran::of(stage.piton(&["trust"])).expect_code(0).expect_said(&["in force already"]);

    stage.workspace.write(HOOKS, hooks("touch ran; curl evil.example"));
    let shown = Ran::of(stage.piton(&["trust"])).expect_code(1).stderr;
    let words = [
        "config.toml is trusted as it is",
        "has been changed",
        "-          \"command\": \"touch ran\"",
        "evil.example",
    ];
    assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
    assert!(!shown.contains("max_steps"), "what is trusted is not shown again: {shown}");
    let standings: Vec<Value> =
        listed(&stage)["items"].as_array().unwrap().iter().map(|item| item["standing"].clone()).collect();
    assert_eq!(standings, ["trusted", "changed"]);

    Ran::of(stage.piton(&["trust", "--revoke"]))
        .expect_code(0)
        .expect_said(&["config.toml is not in force any more", "settings.json is not"]);
    assert_eq!(ran_as(&stage, &[]), (3, false));
}

#[test]
fn where_nothing_is_brought_along_that_is_said() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    Ran::of(stage.piton(&["trust"])).expect_code(1).expect_said(&["there are no hooks"]);
    Ran::of(stage.piton(&["trust", "--revoke"])).expect_code(1).expect_said(&["there are no hooks"]);
    stage.run(&["--trust", "go"]).expect_code(0);
}

#[test]
fn one_thing_is_trusted_by_its_name_or_path_and_the_rest_stays_as_it_was() {
    let stage = stage();
    stage.workspace.write(".claude/agents/rev.md", "---\nname: reviewer\n---\nReview.");
    stage.workspace.write(".piton/agents/other.md", "Do.");
    stage.workspace.write(".claude/commands/git/pr.md", "Open it.");
    stage.workspace.write(".claude/skills/forms/SKILL.md", "---\nname: forms\ndescription: x\n---\nFill.");
    stage.workspace.write(".mcp.json", r#"{"mcpServers": {"db": {"command": "db"}, "forms": {"command": "f"}}}"#);
    let trust = |args: &[&str]| Ran::of(stage.piton(&[&["trust"], args].concat()));
    let trusted = || -> Vec<String> {
        let items = listed(&stage)["items"].as_array().unwrap().clone();
        let ours = items.iter().filter(|item| item["standing"] == "trusted");
        ours.map(|item| item["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    trust(&["nothing", "--yes"]).expect_code(1).expect_said(&["there is nothing called `nothing` here to trust"]);
    trust(&["forms", "--yes"]).expect_code(1).expect_said(&[
        "several things are called `forms`",
        "SKILL.md",
        ".mcp.json#forms",
    ]);
    assert!(trusted().is_empty());
    let said = trust(&["reviewer"]).expect_code(1).expect_said(&["Review.", "no terminal to ask on"]);
    assert!(!said.stderr.contains("The hash of all of it") && !said.stderr.contains("Do."), "{}", said.stderr);
    trust(&["reviewer", "db", "/git:pr", "--yes"]).expect_code(0);
    assert_eq!(trusted(), ["rev.md", "pr.md", ".mcp.json#db"]);
    trust(&[".claude/skills/forms/SKILL.md", "--yes"]).expect_code(0);
    assert_eq!(trusted().len(), 4);
    trust(&["reviewer", "--revoke"]).expect_code(0).expect_said(&["is not in force any more"]);
    assert_eq!(trusted(), ["SKILL.md", "pr.md", ".mcp.json#db"]);
}

#[test]
fn the_doctor_names_what_is_not_trusted_and_servers_that_another_comes_before() {
    let stage = stage();
    stage.workspace.write(".claude/agents/rev.md", "Review.");
    stage.workspace.write(".claude/commands/pr.md", "Open it.");
    stage.workspace.write(".claude/skills/forms/SKILL.md", "---\ndescription: x\n---\nFill.");
    let entry = |command: &str| json!({"mcpServers": {"db": {"command": command}}}).to_string();
    stage.home.write("mcp.json", entry("mine"));
    stage.workspace.write(".mcp.json", entry("theirs"));
    let doctor = || Ran::of(stage.piton(&["doctor"])).stdout;
    let said = doctor();
    for words in ["rev.md (agent;", "pr.md (command;", "SKILL.md (skill;", ".mcp.json#db (MCP server;"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("shadowed"), "what is not trusted hides nothing: {said}");
    Ran::of(stage.piton(&["trust", "db", "--yes"])).expect_code(0);
    let said = doctor();
    assert!(said.contains("shadowed   the MCP server db of"), "{said}");
    // Each source can be switched off.
    let servers = || Ran::of(stage.piton(&["mcp", "list"])).stdout;
    assert!(servers().contains(".mcp.json"), "{}", servers());
    let stage = stage.with_config("[claude]\nmcp = false\n");
    let listed = Ran::of(stage.piton(&["mcp", "list"])).stdout;
    assert!(!listed.contains(".mcp.json") && listed.contains("mcp.json"), "{listed}");
}
