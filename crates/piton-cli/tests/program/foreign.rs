//! Repositories that are set up for other agents, as they stand: what is taken of them, what the model is sent, and what runs before
//! anybody trusts them, which is nothing.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

/// What a repository set up for Claude Code has.
const CLAUDE: [(&str, &str); 9] = [
    (".git/HEAD", "ref: refs/heads/main\n"),
    ("CLAUDE.md", "Instructions: be brief."),
    (".env", "KEY=hunter2hunter2\n"),
    (
        ".claude/settings.json",
        r#"{"permissions": {"allow": ["Bash(touch *)"], "deny": ["Read(./.env)", "Bash(curl:*)"], "ask": ["Bash(git push:*)"]},
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "touch hooked"}]}]}}"#,
    ),
    (
        ".claude/agents/quality/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews code\ntools: Read, Grep\n---\nYou are the REVIEWER.",
    ),
    (
        ".claude/commands/git/changes.md",
        "---\ndescription: What changed\nallowed-tools: Bash(git:*)\n---\nChanged: !`ls sub`\nRules: @rules.txt\nFocus: $ARGUMENTS",
    ),
    (
        ".claude/skills/release/SKILL.md",
        "---\nname: release\ndescription: How releases are made\n---\nRELEASE STEPS for $ARGUMENTS",
    ),
    ("rules.txt", "rule one"),
    ("sub/file.txt", "x"),
];

fn first_request(stage: &Stage) -> String {
    stage.provider.requests()[0].body.to_string()
}

fn task(agent: &str, prompt: &str) -> Value {
    json!({"tools": [{"name": "task", "args": {"description": "review", "prompt": prompt, "subagent_type": agent}}]})
}

fn calls(commands: &[Value]) -> Value {
    json!({ "tools": commands })
}

#[test]
fn a_repository_set_up_for_claude_code_runs_as_it_stands_once_it_is_trusted() {
    let stage = Stage::new(json!([
        task("reviewer", "look at the parser"),
        {"of": "look at the parser", "text": "It is fine."},
        calls(&[json!({"name": "skill", "args": {"name": "release", "arguments": "v2"}}),
                json!({"name": "bash", "args": {"command": "touch ran"}}),
                json!({"name": "read", "args": {"path": ".env"}}),
                json!({"name": "bash", "args": {"command": "cat .env"}}),
                json!({"name": "bash", "args": {"command": "curl example.org"}})]),
        {"text": "done"},
    ]))
    .with_files(CLAUDE)
    .with_config("[claude]\nhooks = true\n");
    let ran = stage.run(&["--trust", "/git:changes tests"]);
    assert_eq!(ran.end(), "tool_denied", "a refusal that nobody can lift ends the turn: {}", ran.stderr);
    let sent = first_request(&stage);
    for words in [
        "Instructions: be brief.",
        "Changed: file.txt",
        "rule one",
        "Focus: tests",
        "reviewer",
        "How releases are made",
    ] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert!(!sent.contains("RELEASE STEPS") && !sent.contains("You are the REVIEWER"), "only what they are for");
    let requests = stage.provider.requests();
    let childs = requests
        .iter()
        .map(|request| request.body.to_string())
        .find(|body| body.contains("You are the REVIEWER"))
        .unwrap();
    assert!(!childs.contains("\"bash\"") && childs.contains("\"grep\""), "it has its own tools: {childs}");
    let outcomes = ran.outcomes();
    let text = |at: usize| outcomes[at]["text"].as_str().unwrap();
    assert!(text(0).contains("It is fine."), "{}", text(0));
    assert!(text(1).contains("RELEASE STEPS for v2"), "{}", text(1));
    assert!(stage.workspace.has("ran") && stage.workspace.has("hooked"), "calls run, and their hooks");
    for outcome in &outcomes[3..=5] {
        assert!(!outcome["text"].as_str().unwrap().contains("hunter2"), "{outcome}");
        assert_eq!(outcome["status"], "denied", "{outcome}");
    }
    assert!(text(3).contains("the rule Read(.env) forbids"), "{}", text(3));
}

#[test]
fn untrusted_nothing_of_it_runs_every_thing_is_named_and_what_it_forbids_is_forbidden() {
    let stage = Stage::new(json!([
        calls(&[json!({"name": "bash", "args": {"command": "true"}}), json!({"name": "read", "args": {"path": ".env"}})]),
        {"text": "done"},
    ]))
    .with_files(CLAUDE)
    .with_config("[claude]\nhooks = true\n");
    let ran = stage.run(&["go"]);
    for words in ["reviewer", "git:changes", "release", "1 hook of "] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let sent = first_request(&stage);
    assert!(!sent.contains("Reviews code") && !sent.contains("How releases are made"), "{sent}");
    assert!(!stage.workspace.has("hooked"));
    assert_eq!((&ran.outcomes()[0]["status"], &ran.outcomes()[1]["status"]), (&json!("ok"), &json!("denied")));
    // A repository allows nothing by them.
    let stage =
        Stage::new(json!([calls(&[json!({"name": "bash", "args": {"command": "touch ran"}})]), {"text": "done"}]))
            .with_files(CLAUDE);
    let mut command =
        stage.piton(&["run", "--model", "openai-chat/m", "--mode", "ask", "--sandbox", "off", "--trust", "go"]);
    command.stdin(std::process::Stdio::null());
    Ran::of(command).expect_code(3);
    assert!(!stage.workspace.has("ran"));
    let listed = Ran::of(stage.piton(&["permission", "list"])).expect_code(0).stdout;
    assert!(listed.contains("deny  Read(.env)") && listed.contains(".claude/settings.json"), "{listed}");
    assert!(!listed.contains("touch"), "{listed}");
    let checked = Ran::of(stage.piton(&["permission", "check", "git push origin main"])).expect_code(3).stdout;
    assert!(checked.contains("bash(git push:*)"), "{checked}");
    let doctor = Ran::of(stage.piton(&["doctor"])).expect_code(0).stdout;
    assert!(doctor.contains("permissions.allow"), "{doctor}");
    // Who does not want them says so.
    let stage = stage.with_config("[claude]\npermissions = false\n");
    let listed = Ran::of(stage.piton(&["permission", "list"])).expect_code(0).stdout;
    assert!(!listed.contains("Read(.env)"), "{listed}");
}

#[test]
fn a_repository_set_up_for_opencode_runs_as_it_stands_once_it_is_trusted() {
    let stage = Stage::new(json!([
        task("docs", "write the manual"),
        {"of": "write the manual", "tools": [{"name": "bash", "args": {"command": "touch childs"}}]},
        {"of": "write the manual", "text": "Written."},
        {"text": "done"},
    ]))
    .with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("AGENTS.md", "Instructions: be brief."),
        (
            ".opencode/agent/docs.md",
            "---\ndescription: Writes manuals\nmode: subagent\ntools:\n  write: false\npermission:\n  bash:\n    \"*\": deny\n---\nYou are the WRITER.",
        ),
        (".opencode/command/sub/make.md", "---\ndescription: Make it\nagent: build\n---\nMake $1 of $2. !`echo from $1`"),
        (".opencode/skill/tests/SKILL.md", "---\nname: tests\ndescription: How tests are run\n---\nRun them."),
    ]);
    let ran = stage.run(&["--trust", "/make bread 'rye and water' slowly"]).expect_code(0);
    let sent = first_request(&stage);
    for words in [
        "Instructions: be brief.",
        "Make bread of rye and water slowly. from bread",
        "Writes manuals",
        "How tests are run",
    ] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("Written."), "{:?}", ran.outcomes());
    assert!(!stage.workspace.has("childs"), "its agent may run no commands");
    let requests = stage.provider.requests();
    let childs = requests
        .iter()
        .map(|request| request.body.to_string())
        .find(|body| body.contains("You are the WRITER"))
        .unwrap();
    assert!(!childs.contains("\"name\":\"write\""), "{childs}");
}

#[test]
fn what_a_repository_wants_asked_lifts_no_ban_of_yours() {
    let check = |stage: &Stage, command: &str| {
        let ran = Ran::of(stage.piton(&["permission", "check", "--mode", "auto", "--", command]));
        (ran.code, ran.stdout)
    };
    let stage = Stage::new(json!([])).with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        (
            ".claude/settings.json",
            r#"{"permissions": {"ask": ["Bash(git push origin *)", "Bash(npm run *)"], "deny": ["Bash(make *)"]}}"#,
        ),
    ]);
    let theirs = r#"{"permissions": {"deny": ["Bash(git push *)"], "allow": ["Bash(ls *)", "Bash(make all)"]}}"#;
    stage.home.write(".claude/settings.json", theirs);
    let (code, told) = check(&stage, "git push origin main");
    assert!(code == 3 && told.contains("git push *"), "{told}");
    let (code, told) = check(&stage, "make all");
    assert!(code == 3 && told.contains("make *"), "what a repository forbids, nobody else's yes lifts: {told}");
    assert_eq!(check(&stage, "ls -l").0, 0);
    // Among equals what Piton's own configuration says counts.
    let stage = stage.with_config("[permission]\n\"bash(ls *)\" = \"deny\"\n");
    assert_eq!(check(&stage, "ls -l").0, 3);
}
