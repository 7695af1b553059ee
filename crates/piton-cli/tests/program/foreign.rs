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
    assert!(ran.stderr.contains("things of this repository are ignored"), "{}", ran.stderr);
    let doctor = Ran::of(stage.piton(&["doctor"])).stdout;
    for words in ["reviewer.md (agent", "git/changes.md (command", "release/SKILL.md (skill", "settings.json (hooks"] {
        assert!(doctor.contains(words), "{words}: {doctor}");
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
    let listed = |stage: &Stage| Ran::of(stage.piton(&["permission", "list"])).expect_code(0).stdout;
    assert!(!listed(&stage).contains("ls *"), "nobody asked for what that file allows");
    let stage = stage.with_config("[claude]\npermissions = true\n");
    assert!(listed(&stage).contains("ls *"));
    assert_eq!(check(&stage, "ls -l").0, 0);
    // Among equals what Piton's own configuration says counts.
    let stage = stage.with_config("[claude]\npermissions = true\n[permission]\n\"bash(ls *)\" = \"deny\"\n");
    assert_eq!(check(&stage, "ls -l").0, 3);
}

/// What a repository set up for OpenCode says in its configuration.
const OPENCODE: [(&str, &str); 3] = [
    (".git/HEAD", "ref: refs/heads/main\n"),
    (
        "opencode.jsonc",
        r#"{
            // Agents and commands
            "$schema": "https://opencode.ai/config.json",
            "agent": {
                "writer": {"description": "Writes manuals", "mode": "subagent", "prompt": "{file:./prompts/writer.txt}", "tools": {"bash": false}},
                "wrong": {"permission": {"bash": "maybe"}},
            },
            "command": {
                "make": {"template": "Make $1 of $2. !`echo from $1`", "description": "Makes it"},
                "bad": {"description": "no template"}, /* the last */
            },
        }"#,
    ),
    ("prompts/writer.txt", "You are the WRITER.\n"),
];

#[test]
fn agents_and_commands_of_opencodes_configuration_are_entries_like_files() {
    let script = json!([
        task("writer", "write the manual"),
        {"of": "write the manual", "text": "Written."},
        {"text": "done", "repeat": true},
    ]);
    let stage = Stage::new(script).with_files(OPENCODE);
    stage.run(&["go"]).expect_said(&[
        "2 things of this repository are ignored",
        "opencode.jsonc is left out: permission: bash",
        "opencode.jsonc is left out: template: a text is wanted",
    ]);
    assert!(!first_request(&stage).contains("Writes manuals"));
    let stage = Stage::new(json!([
        task("writer", "write the manual"),
        {"of": "write the manual", "text": "Written."},
        {"text": "done", "repeat": true},
    ]))
    .with_files(OPENCODE);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_said(&[
        "opencode.jsonc#agent/writer, an agent says",
        "You are the WRITER",
        "opencode.jsonc#command/make",
    ]);
    stage.run(&["/make bread rye"]).expect_code(0);
    let sent = first_request(&stage);
    assert!(sent.contains("Make bread of rye. from bread") && sent.contains("Writes manuals"), "{sent}");
    let bodies: Vec<String> = stage.provider.requests().iter().map(|request| request.body.to_string()).collect();
    let childs = bodies.iter().find(|body| body.contains("You are the WRITER.")).unwrap();
    assert!(!childs.contains("\"name\":\"bash\""), "{childs}");
    // A file that it refers to is trusted with it, and so is each by itself.
    stage.workspace.write("prompts/writer.txt", "You are another.");
    stage.run(&["go"]).expect_code(0).expect_said(&["1 thing of this repository is ignored"]);
    // Whoever wants none of it says so.
    let stage = stage.with_config("[opencode]\nagents = false\n");
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(!ran.stderr.contains("ignored"), "{}", ran.stderr);
    Ran::of(stage.piton(&["command", "list"])).expect_stdout(&["/make", "in force"]);
    let stage = stage.with_config("[opencode]\ncommands = false\n");
    Ran::of(stage.piton(&["command", "list"])).expect_stdout(&["There are no commands"]);
}

#[test]
fn permissions_of_opencode_hold_where_they_are_asked_for() {
    let check = |stage: &Stage, command: &str| {
        let ran = Ran::of(stage.piton(&["permission", "check", "--mode", "auto", "--", command]));
        (ran.code, ran.stdout + &ran.stderr)
    };
    let listed = |stage: &Stage| {
        let ran = Ran::of(stage.piton(&["permission", "list"])).expect_code(0);
        ran.stdout + &ran.stderr
    };
    let theirs = r#"{"permission": {"bash": {"npm *": "deny", "ls *": "allow"}, "edit": "ask"}}"#;
    let stage = Stage::new(json!([])).with_files([(".git/HEAD", "ref: refs/heads/main\n"), ("opencode.json", theirs)]);
    let own =
        r#"{"permission": {"bash": {"git push *": "deny", "make all": "allow"}, "grep": {"x*": "ask"}, /* all */ }}"#;
    stage.home.write(".config/opencode/opencode.jsonc", own);
    assert!(!listed(&stage).contains("opencode"), "nobody asked for them");
    assert_eq!((check(&stage, "npm ci").0, check(&stage, "git push").0), (0, 0));
    let stage = stage.with_config("[opencode]\npermissions = true\n");
    let told = listed(&stage);
    assert!(told.contains("deny  bash(npm *)") && told.contains("ask   Edit"), "{told}");
    assert!(told.contains("allow bash(make all)") && !told.contains("ls *"), "a repository allows nothing: {told}");
    assert!(told.contains("cannot be translated: grep(x*)") && told.contains("ask   grep"), "{told}");
    assert_eq!((check(&stage, "npm ci").0, check(&stage, "git push origin main").0), (3, 3));
    let call = json!({"tools": [{"name": "bash", "args": {"command": "npm ci"}}]});
    let mut stage = stage;
    stage.provider = piton_testkit::FakeProvider::start(json!([call, {"text": "done"}]));
    let ran = stage.run(&["go"]);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("bash(npm *)"), "{:?}", ran.outcomes());
    // Among equals what Piton's own configuration says counts.
    let stage = stage.with_config("[opencode]\npermissions = true\n[permission]\n\"bash(make all)\" = \"deny\"\n");
    assert_eq!(check(&stage, "make all").0, 3);
}

#[test]
fn what_comes_second_is_named_where_that_is_asked_for() {
    let agent = |words: &str| format!("---\nname: reviewer\ndescription: {words}\n---\nx");
    let stage = Stage::new(json!([])).with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".piton/agents/a.md", agent("First").as_str()),
        (".claude/agents/b.md", agent("Second").as_str()),
    ]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let listed = Ran::of(stage.piton(&["agent"])).expect_code(0).stdout;
    assert!(listed.contains("First") && !listed.contains("Second"), "{listed}");
    Ran::of(stage.piton(&["agent", "list", "--all"])).expect_code(0).expect_stdout(&["First", "Second", "shadowed"]);
    let doctor = Ran::of(stage.piton(&["doctor"])).stdout;
    let row = doctor.lines().find(|line| line.starts_with("shadowed")).unwrap_or_else(|| panic!("{doctor}"));
    assert!(row.contains(".claude/agents/b.md, by ") && row.ends_with(".piton/agents/a.md"), "{row}");
    let stage = stage.with_config("[claude]\nagents = false\n");
    let listed = Ran::of(stage.piton(&["agent", "list", "--all"])).expect_code(0).stdout;
    assert!(!listed.contains("Second"), "{listed}");
}

#[test]
fn what_is_too_large_or_no_yaml_is_left_out_and_the_rest_works() {
    let aliases = format!("---\na: &a [x]\nb: [{}]\n---\nx", "*a, ".repeat(200_000));
    let nested = format!("---\n{}---\nx", (0..100_000).map(|at| format!("k{at}: &k{at} x\n")).collect::<String>());
    let large = "x".repeat(10 << 20);
    let long = format!("---\nname: {}\n---\nx", "n".repeat(10_000));
    let hidden = "---\ndescription: \"a\\u001b[2Jb\\u202ec\"\n---\nx";
    let odd = "---\nname: odd\ntools: NoSuchTool\nmodel: nowhere/at-all\ndescription: Odd one\n---\nx";
    let stage = Stage::new(json!([{"text": "ok"}])).with_files([
        (".piton/agents/aliases.md", aliases.as_str()),
        (".piton/agents/nested.md", nested.as_str()),
        (".piton/agents/large.md", &large),
        (".piton/agents/long.md", &long),
        (".piton/agents/hidden.md", hidden),
        (".piton/agents/odd.md", odd),
        (".piton/commands/self.md", "Do /self again, by @.piton/commands/self.md"),
        (".piton/skills/one/SKILL.md", "---\nname: one\ndescription: One\n---\nSee ../one/SKILL.md"),
    ]);
    let link = stage.workspace.path().join(".piton/skills/round");
    std::os::unix::fs::symlink("round", &link).unwrap();
    let ran = stage.run(&["--trust", "/self"]).expect_code(0).expect_said(&[
        "aliases.md is left out",
        "large.md is left out: it cannot be read: it is too large",
        "long.md is left out",
        "skills/round/SKILL.md is left out",
    ]);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']) && !ran.stderr.contains(&"n".repeat(1_000)), "{}", ran.stderr);
    let sent = first_request(&stage);
    assert!(sent.contains("Odd one") && sent.contains("- one: One"), "{sent}");
    assert!(!sent.contains("u202e") && !sent.contains("u001b"), "{sent}");
    assert_eq!(sent.matches("Do /self again").count(), 2, "the prompt and the file, and no further");
}

#[test]
fn commands_of_claude_code_and_servers_of_opencode_are_read_until_somebody_wants_none_of_them() {
    let servers = r#"{"mcp": {"theirs": {"type": "local", "command": ["x"]}}}"#;
    let stage = Stage::new(json!([])).with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".claude/commands/theirs.md", "Do it."),
        (".piton/commands/own.md", "Do it."),
        ("opencode.json", servers),
    ]);
    let listed = |stage: &Stage, what: &str| {
        let ran = Ran::of(stage.piton(&[what, "list"])).expect_code(0);
        ran.stdout + &ran.stderr
    };
    assert!(listed(&stage, "command").contains("/theirs") && listed(&stage, "mcp").contains("theirs"));
    let stage = stage.with_config("[claude]\ncommands = false\n");
    let commands = listed(&stage, "command");
    assert!(!commands.contains("/theirs") && commands.contains("/own"), "{commands}");
    assert!(listed(&stage, "mcp").contains("theirs"), "each is a switch of its own");
    let stage = stage.with_config("[opencode]\nmcp = false\n");
    assert!(!listed(&stage, "mcp").contains("theirs"), "{}", listed(&stage, "mcp"));
    assert!(listed(&stage, "command").contains("/theirs"));
}
