//! Plugins: added from a folder and from a git repository, enabled by settings of Claude Code, given by a flag; pinned, asked about again
//! when they change, and inert where the user does not trust them.

use crate::mcp::SERVER;
use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A plugin with one of everything.
const TOOLS: [(&str, &str); 7] = [
    (
        ".claude-plugin/plugin.json",
        r#"{"name": "tools", "version": "1.2.0", "description": "Helps", "commands": ["./more"], "color": "red"}"#,
    ),
    ("agents/deep/helper.md", "---\ndescription: Helps with it\nskills: release\n---\nYou are the HELPER."),
    (
        "commands/git/changes.md",
        "---\ndescription: What changed\n---\nChanged: $0 by !`cat \"${CLAUDE_PLUGIN_ROOT}/word.txt\"`",
    ),
    ("more/extra.md", "EXTRA"),
    (
        "skills/release/SKILL.md",
        "---\nname: release\ndescription: How releases are made\n---\nRELEASE from ${CLAUDE_PLUGIN_ROOT}",
    ),
    (
        "hooks/hooks.json",
        r#"{"description": "x", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
            "command": "cat \"${CLAUDE_PLUGIN_ROOT}/word.txt\" > hooked; echo data > \"$CLAUDE_PLUGIN_DATA/kept\""}]}]}}"#,
    ),
    ("word.txt", "the word"),
];

/// A folder of the user's, outside of the workspace.
fn home(stage: &Stage, folder: &str) -> String {
    stage.home.path().join(folder).to_str().unwrap().to_owned()
}

fn answers() -> Value {
    json!([{"tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "ok", "repeat": true}])
}

/// Puts the plugin below a folder of the workspace.
fn with_tools(stage: Stage, folder: &str) -> Stage {
    TOOLS.iter().for_each(|(name, text)| stage.workspace.write(format!("{folder}/{name}"), text));
    stage
}

/// Puts the plugin below a folder of the user's.
fn with_own_tools(stage: Stage, folder: &str) -> Stage {
    TOOLS.iter().for_each(|(name, text)| stage.home.write(format!("{folder}/{name}"), text));
    stage
}

fn first(stage: &Stage) -> String {
    stage.provider.requests()[0].body.to_string()
}

fn last(stage: &Stage) -> String {
    stage.provider.requests().last().unwrap().body.to_string()
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "args": {"command": command}})
}

fn git(folder: &Path, args: &[&str]) {
    let settings = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"];
    let run = Command::new("git").args(settings).args(args).current_dir(folder).output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_plugin_of_a_folder_is_shown_added_and_used_by_its_name() {
    let stage = with_own_tools(Stage::new(answers()), "made");
    Ran::of(stage.piton(&["plugin", "list"])).expect_code(0).expect_stdout(&["There are no plugins"]);
    Ran::of(stage.piton(&["plugin", "add", &home(&stage, "made")])).expect_code(1).expect_said(&[
        "1 agent, 1 skill, 2 commands, hooks",
        "cat \\\"${CLAUDE_PLUGIN_ROOT}/word.txt\\\" > hooked",
        "file \"word.txt\", 8 bytes, BLAKE3",
        "no terminal to ask on",
    ]);
    assert!(!stage.home.has("data/plugins.json"), "what was not agreed to is nowhere");
    Ran::of(stage.piton(&["plugin", "add", &home(&stage, "made"), "--yes"]))
        .expect_code(0)
        .expect_said(&["tools is added"]);
    Ran::of(stage.piton(&["plugin", "list"])).expect_code(0).expect_stdout(&["tools                in force"]);
    Ran::of(stage.piton(&["plugin", "show", "tools"])).expect_code(0).expect_stdout(&["1.2.0", "not read     color"]);
    Ran::of(stage.piton(&["agent"])).expect_code(0).expect_stdout(&["tools:helper"]);
    Ran::of(stage.piton(&["command", "extra"])).expect_code(0).expect_stdout(&["/tools:extra"]);
    let ran = stage.run(&["--sandbox", "off", "/tools:git:changes one two"]).expect_code(0);
    let sent = first(&stage);
    for words in ["Changed: one by the word", "tools:helper", "Helps with it", "tools:release", "How releases are made"]
    {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert_eq!(stage.workspace.read("hooked"), "the word", "{}", ran.stderr);
    assert_eq!(stage.home.read("data/plugins/data/tools/kept"), "data\n");
    // Its agent is given its skill, and that has its folder.
    stage.run(&["--agent", "tools:helper", "go"]).expect_code(0);
    let sent = last(&stage);
    assert!(sent.contains("You are the HELPER.") && sent.contains("RELEASE from /"), "{sent}");
    assert!(!sent.contains("${CLAUDE_PLUGIN_ROOT}"), "{sent}");
    // What was copied counts, not what becomes of the folder.
    stage.home.write("made/word.txt", "another");
    Ran::of(stage.piton(&["plugin", "disable", "tools"])).expect_code(0);
    stage.run(&["go"]).expect_code(0);
    assert!(!last(&stage).contains("tools:helper"));
    Ran::of(stage.piton(&["plugin", "enable", "tools"])).expect_code(0);
    Ran::of(stage.piton(&["plugin", "update", "tools"])).expect_code(1).expect_said(&[
        "-the word",
        "+another",
        "no terminal to ask on",
    ]);
    stage.run(&["--sandbox", "off", "/changes one"]).expect_code(0);
    assert!(last(&stage).contains("by the word"), "not agreed to, not used: {}", last(&stage));
    Ran::of(stage.piton(&["plugin", "update", "tools", "--yes"])).expect_code(0).expect_said(&["is updated"]);
    Ran::of(stage.piton(&["plugin", "update", "tools", "--yes"])).expect_code(0).expect_said(&["is as it was"]);
    stage.run(&["--sandbox", "off", "/changes one"]).expect_code(0);
    assert!(last(&stage).contains("by another"), "{}", last(&stage));
    // In the sandbox, too, its files can be read and those beside it cannot.
    let copies = home(&stage, "data/plugins/installed");
    let script = json!([
        {"tools": [bash(&format!("cat {copies}/tools-*/word.txt")), bash(&format!("cat {}", home(&stage, "data/plugins.json")))]},
        {"text": "ok"},
    ]);
    let other = Stage { provider: piton_testkit::fake_provider::FakeProvider::start(script), ..stage };
    let ran = other.run(&["go"]);
    let outcomes = ran.outcomes();
    assert!(outcomes[0]["text"].as_str().unwrap().contains("another"), "{outcomes:?}");
    assert!(!outcomes[1]["text"].as_str().unwrap().contains("\"hash\""), "{outcomes:?}");
    let stage = other;
    Ran::of(stage.piton(&["plugin", "remove", "tools"])).expect_code(0);
    Ran::of(stage.piton(&["plugin", "list"])).expect_stdout(&["There are no plugins"]);
    Ran::of(stage.piton(&["plugin", "remove", "tools"])).expect_code(1).expect_said(&["no plugin that you added"]);
}

#[test]
fn hooks_of_a_plugin_that_is_gone_fail_once_and_refuse_nothing() {
    let replies = json!([
        {"tools": [{"name": "bash", "args": {"command": "sh gone.sh"}}]},
        {"tools": [{"name": "bash", "args": {"command": "echo one > one"}}]},
        {"tools": [{"name": "bash", "args": {"command": "echo two > two"}}]},
        {"text": "done"},
    ]);
    let hooks = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
        "command": "sh -c 'test -e \"$CLAUDE_PLUGIN_ROOT/guard\" || exit 2'"}]}]}}"#;
    let stage = Stage::new(replies);
    stage.home.write("guard/.claude-plugin/plugin.json", r#"{"name": "guard"}"#);
    stage.home.write("guard/hooks/hooks.json", hooks);
    stage.home.write("guard/guard", "");
    stage.workspace.write("gone.sh", "rm -r \"$GUARD\"\n");
    let folder = home(&stage, "guard");
    let mut command =
        stage.run_command(&["--sandbox", "off", "--plugin-dir", &folder, "--set", "keys_for_tools=[\"GUARD\"]", "go"]);
    command.env("GUARD", &folder);
    let ran = Ran::of(command).expect_code(0);
    assert!(stage.workspace.has("one") && stage.workspace.has("two"), "{}", ran.stdout);
    let failed: Vec<Value> =
        (ran.all("hooks_ran").into_iter()).filter(|event| event.to_string().contains("its plugin is gone")).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
}

#[test]
fn a_copy_that_somebody_changes_is_not_used() {
    let stage = with_own_tools(Stage::new(answers()), "made");
    Ran::of(stage.piton(&["plugin", "add", &home(&stage, "made"), "--yes"])).expect_code(0);
    let installed = stage.home.path().join("data/plugins/installed");
    let copy = std::fs::read_dir(installed).unwrap().next().unwrap().unwrap().path();
    std::fs::write(copy.join("hooks/run.sh"), "rm -r x").unwrap();
    let ran = stage.run(&["go"]).expect_code(0).expect_said(&["tools", "its files are not those that you added"]);
    assert!(!first(&stage).contains("tools:helper") && !stage.workspace.has("hooked"), "{}", ran.stderr);
    Ran::of(stage.piton(&["plugin", "list"])).expect_stdout(&["cannot be used"]);
    Ran::of(stage.piton(&["plugin", "update", "tools", "--yes"])).expect_code(0);
    Ran::of(stage.piton(&["plugin", "list"])).expect_stdout(&["in force"]);
}

#[test]
fn a_git_repository_is_cloned_without_its_hooks_and_pinned() {
    let stage = with_own_tools(Stage::new(answers()), "origin");
    let origin = stage.home.path().join("origin");
    git(&origin, &["init", "-q"]);
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-q", "-m", "one"]);
    git(&origin, &["tag", "v1"]);
    stage.home.write("origin/word.txt", "second");
    git(&origin, &["commit", "-q", "-a", "-m", "two"]);
    // A template of the user's would bring hooks along.
    stage.home.write("template/hooks/post-checkout", "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    let hook = stage.home.path().join("template/hooks/post-checkout");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    stage
        .home
        .write(".gitconfig", format!("[init]\n\ttemplateDir = {}\n", stage.home.path().join("template").display()));
    let url = format!("file://{}", origin.display());
    Ran::of(stage.piton(&["plugin", "add", &format!("{url}#v1"), "--yes"])).expect_code(0).expect_said(&["Of commit"]);
    assert!(!stage.home.has("ran"), "no hook of git's ran");
    Ran::of(stage.piton(&["plugin", "add", &format!("{url}#nowhere"), "--yes"]))
        .expect_code(1)
        .expect_said(&["no branch, tag or commit `nowhere`"]);
    stage.run(&["--sandbox", "off", "/changes one"]).expect_code(0);
    assert!(last(&stage).contains("by the word"), "{}", last(&stage));
    git(&origin, &["tag", "-f", "v1"]);
    Ran::of(stage.piton(&["plugin", "update", "tools", "--yes"])).expect_code(0).expect_said(&["-the word", "+second"]);
    let listed = Ran::of(stage.piton(&["plugin", "list", "--json"])).expect_code(0).events().remove(0);
    assert!(listed["from"].as_str().unwrap().starts_with(&format!("{url}#v1 at ")), "{listed}");
    let left = std::fs::read_dir(stage.home.path().join("data/plugins")).unwrap().count();
    assert_eq!(left, 2, "clones and copies that are no longer wanted are gone");
}

#[test]
fn a_plugin_of_a_marketplace_in_a_git_repository_is_added_by_its_name() {
    let stage = with_own_tools(Stage::new(answers()), "market/plugins/tools");
    let market = json!({"name": "here", "owner": {"name": "x"}, "plugins": [
        {"name": "tools", "source": "./plugins/tools"}, {"name": "out", "source": "../elsewhere"},
    ]});
    stage.home.write("market/.claude-plugin/marketplace.json", market.to_string());
    let market = stage.home.path().join("market");
    git(&market, &["init", "-q"]);
    git(&market, &["add", "."]);
    git(&market, &["commit", "-q", "-m", "one"]);
    let url = format!("file://{}", market.display());
    let add = |name: &str| Ran::of(stage.piton(&["plugin", "add", &url, name, "--yes"]));
    add("nowhere").expect_code(1).expect_said(&["nowhere"]);
    add("out").expect_code(1).expect_said(&["out"]);
    add("tools").expect_code(0).expect_said(&["Of commit", "tools is added"]);
    let listed = Ran::of(stage.piton(&["plugin", "list", "--json"])).expect_code(0).events().remove(0);
    assert!(listed["from"].as_str().unwrap().contains(&url), "{listed}");
    stage.run(&["--sandbox", "off", "/tools:git:changes one"]).expect_code(0);
    assert!(last(&stage).contains("by the word"), "{}", last(&stage));
    // An update looks into the marketplace again.
    stage.home.write("market/plugins/tools/word.txt", "second");
    git(&market, &["commit", "-q", "-a", "-m", "two"]);
    Ran::of(stage.piton(&["plugin", "update", "tools", "--yes"])).expect_code(0).expect_said(&["-the word", "+second"]);
}

/// A repository whose settings enable a plugin of a marketplace that lies in it, and others that do not.
fn repository(script: Value) -> Stage {
    let settings = json!({
        "enabledPlugins": {"tools@here": true, "off@here": false, "far@there": true, "lost@nowhere": true, "away@here": true},
        "extraKnownMarketplaces": {
            "here": {"source": {"source": "directory", "path": "./market"}},
            "there": {"source": {"source": "github", "repo": "o/r", "ref": "v2"}},
        },
    });
    let market = json!({"name": "here", "owner": {"name": "x"}, "plugins": [
        {"name": "tools", "source": "./plugins/tools"}, {"name": "off", "source": "./plugins/off"},
        {"name": "away", "source": {"source": "url", "url": "https://example.org/away.git"}},
    ]});
    let (settings, market) = (settings.to_string(), market.to_string());
    let stage = Stage::new(script).with_files([
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".claude/settings.json", settings.as_str()),
        ("market/.claude-plugin/marketplace.json", market.as_str()),
    ]);
    with_tools(stage, "market/plugins/tools")
}

#[test]
fn plugins_that_a_repository_enables_are_named_until_they_are_trusted_and_never_fetched() {
    let stage = repository(answers()).with_config("[claude]\nhooks = true\n");
    let named = [
        "1 thing of this repository is ignored until you approve it: piton trust",
        "`piton plugin add https://github.com/o/r.git#v2 far` fetches it",
        "`piton plugin add https://example.org/away.git` fetches it",
        "lost@nowhere, which is not here: no settings say where the marketplace nowhere is",
    ];
    stage.run(&["go"]).expect_code(0).expect_said(&named);
    assert!(!first(&stage).contains("tools:helper") && !stage.workspace.has("hooked"));
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0).expect_said(&["plugin.json, a plugin says", "word.txt"]);
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(!ran.stderr.contains("ignored"), "{}", ran.stderr);
    assert!(last(&stage).contains("tools:helper"), "{}", last(&stage));
    Ran::of(stage.piton(&["plugin", "list"]))
        .expect_code(0)
        .expect_stdout(&["tools                in force", "not here"]);
    // Any of its files that changes takes it out of force.
    stage.workspace.write("market/plugins/tools/word.txt", "changed");
    let asked = stage.provider.requests().len();
    stage.run(&["go"]).expect_code(0).expect_said(&["1 thing of this repository is ignored"]);
    assert!(!stage.provider.requests()[asked].body.to_string().contains("tools:helper"));
    // For one run all of it counts, and its hooks run where the user lets such hooks run.
    stage.run(&["--trust", "go"]).expect_code(0);
    let stage = repository(answers());
    stage.run(&["--trust", "go"]).expect_code(0).expect_said(&["its hooks are run only with [claude] hooks = true"]);
    assert!(first(&stage).contains("tools:helper") && !stage.workspace.has("hooked"));
    let stage = repository(answers()).with_config("[claude]\nhooks = true\n");
    stage.run(&["--trust", "--sandbox", "off", "go"]).expect_code(0);
    assert_eq!(stage.workspace.read("hooked"), "the word");
    // The model rewrites what a trusted hook would run: it runs no more.
    let rewrite =
        json!({"tools": [{"name": "bash", "args": {"command": "echo mine > market/plugins/tools/word.txt"}}]});
    let stage = repository(json!([rewrite, answers()[0], {"text": "ok"}])).with_config("[claude]\nhooks = true\n");
    let ran = stage.run(&["--trust", "--sandbox", "off", "go"]).expect_code(0);
    // It ran before the change, and not after it.
    let failed = |event: &Value| event.to_string().contains("the plugin has changed since it was trusted");
    assert_eq!(ran.all("hooks_ran").iter().filter(|event| failed(event)).count(), 1, "{}", ran.stdout);
    assert_eq!(stage.workspace.read("hooked"), "the word");
    // Who wants none of it says so.
    let stage = repository(answers()).with_config("[claude]\nplugins = false\n");
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(!ran.stderr.contains("plugin"), "{}", ran.stderr);
}

#[test]
fn in_the_sandbox_a_repositorys_plugin_keeps_its_own_data_and_nobody_elses() {
    let stage = repository(answers()).with_config("[claude]\nhooks = true\n");
    // What a plugin of the user's with its name has kept, which hooks outside of the sandbox may run.
    stage.home.write("data/plugins/data/tools/kept", "the user's");
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command":
        "echo data > \"$CLAUDE_PLUGIN_DATA/kept\" && echo \"$CLAUDE_PLUGIN_DATA\" > where; \
         echo x > \"$CLAUDE_PLUGIN_DATA/../beside\" 2> /dev/null; \
         cat \"$HOME/data/plugins/data/tools/kept\" 2> /dev/null || echo hidden > theirs"}]}]}});
    stage.workspace.write("market/plugins/tools/hooks/hooks.json", hooks.to_string());
    let ran = stage.run(&["--trust", "--sandbox", "workspace-write", "go"]).expect_code(0);
    assert_eq!(ran.outcomes()[0]["status"], "ok", "{}", ran.stdout);
    let data = stage.workspace.read("where");
    let data = Path::new(data.trim());
    assert_eq!(std::fs::read_to_string(data.join("kept")).unwrap(), "data\n");
    assert!(data.starts_with(stage.home.path().join("data/plugins/of-repositories")), "{}", data.display());
    // What lies around that folder in the sandbox is the session's own.
    assert!(stage.workspace.has("theirs"), "{}", ran.stdout);
    assert!(!data.parent().unwrap().join("beside").exists());
    assert_eq!(stage.home.read("data/plugins/data/tools/kept"), "the user's");
    // What it has kept it finds again, and where nothing may be changed it changes nothing.
    std::fs::write(data.join("kept"), "earlier\n").unwrap();
    let ran = stage.run(&["--trust", "--sandbox", "read-only", "go"]);
    assert_eq!(std::fs::read_to_string(data.join("kept")).unwrap(), "earlier\n", "{}", ran.stdout);
}

/// A server of the plugin, which keeps a log.
fn with_server(stage: &Stage, write: impl Fn(&str, &str)) {
    let log = stage.workspace.path().join("log");
    // In the sandbox there is no home, in which a version manager may have another Python.
    let server = json!({"mcpServers": {"db": {
        "command": "/usr/bin/python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py", "${NAME:-echo}"], "env": {"SERVER_LOG": log},
    }}});
    write(".mcp.json", &server.to_string());
    write("server.py", &format!("import os\nroot = os.environ['CLAUDE_PLUGIN_ROOT']\n{SERVER}"));
}

fn calls_server() -> Value {
    json!([{"tools": [{"name": "mcp__plugin_tools_db__echo", "args": {"text": "x"}}]}, {"text": "ok", "repeat": true}])
}

#[test]
fn the_servers_of_a_repositorys_plugin_are_connected_once_it_is_trusted() {
    let stage = repository(calls_server());
    with_server(&stage, |name, text| stage.workspace.write(format!("market/plugins/tools/{name}"), text));
    let ran = stage.run(&["go"]).expect_said(&["1 thing of this repository is ignored"]);
    assert!(!stage.workspace.has("log"), "nothing was started");
    assert!(!first(&stage).contains("plugin_tools_db"), "{}", first(&stage));
    assert_eq!(ran.outcomes()[0]["status"], "failed", "{:?}", ran.outcomes());
    Ran::of(stage.piton(&["mcp", "list"])).expect_stdout(&["There are no MCP servers"]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0).expect_said(&["Its MCP servers:", "server.py"]);
    Ran::of(stage.piton(&["mcp", "list"])).expect_stdout(&["plugin_tools_db      in force", "(sandboxed, no network)"]);
    let stage = Stage { provider: piton_testkit::FakeProvider::start(calls_server()), ..stage };
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.outcomes()[0]["text"], "You said x.", "{}", ran.stderr);
    assert_eq!(ran.all("opened")[0]["servers"][0]["name"], "plugin_tools_db");
    // A rule that Claude Code would read so holds.
    let stage = Stage { provider: piton_testkit::FakeProvider::start(calls_server()), ..stage };
    let ran = stage.run(&["--deny", "mcp__plugin_tools_db", "go"]);
    assert_eq!(ran.outcomes()[0]["status"], "denied", "{:?}", ran.outcomes());
    assert_eq!(stage.workspace.read("log").matches("called").count(), 1);
}

#[test]
fn the_servers_of_your_own_plugins_run_as_your_own_do() {
    let stage = with_own_tools(Stage::new(calls_server()), "made");
    with_server(&stage, |name, text| stage.home.write(format!("made/{name}"), text));
    let ran = stage.run(&["--plugin-dir", &home(&stage, "made"), "go"]).expect_code(0);
    assert_eq!(ran.outcomes()[0]["text"], "You said x.", "{}", ran.stderr);
    // One of the same name in a file of the user's comes first.
    stage.home.write("mcp.json", r#"{"mcpServers": {"plugin_tools_db": {"command": "no-such-program"}}}"#);
    Ran::of(stage.piton(&["plugin", "add", &home(&stage, "made"), "--yes"])).expect_code(0);
    Ran::of(stage.piton(&["mcp", "list", "--all"]))
        .expect_stdout(&["no-such-program", "plugin_tools_db      shadowed"]);
    stage.home.write("mcp.json", r#"{"disabled": ["plugin_tools_db"]}"#);
    Ran::of(stage.piton(&["mcp", "list"])).expect_stdout(&["plugin_tools_db      disabled"]);
    // What makes no sense costs the servers alone.
    stage.home.write("made/.mcp.json", "{");
    stage
        .run(&["--plugin-dir", &home(&stage, "made"), "go"])
        .expect_code(0)
        .expect_said(&["the MCP servers of", "are left out: it is not valid JSON"]);
}

#[test]
fn plugins_of_your_own_settings_need_no_trust() {
    let stage = with_own_tools(Stage::new(answers()), "market/tools");
    let root = stage.home.path().join("market");
    stage.home.write(
        "market/.claude-plugin/marketplace.json",
        r#"{"name": "mine", "plugins": [{"name": "tools", "source": "./tools"}]}"#,
    );
    let known = json!({"mine": {"source": {"source": "github", "repo": "o/r"}, "installLocation": root}});
    stage.home.write(".claude/plugins/known_marketplaces.json", known.to_string());
    stage.home.write(".claude/settings.json", r#"{"enabledPlugins": {"tools@mine": true}}"#);
    stage.run(&["go"]).expect_code(0);
    assert!(first(&stage).contains("tools:helper"), "{}", first(&stage));
    // A repository may do without it.
    stage.workspace.write(".claude/settings.json", r#"{"enabledPlugins": {"tools@mine": false}}"#);
    stage.run(&["go"]).expect_code(0);
    assert!(!last(&stage).contains("tools:helper"), "{}", last(&stage));
}

#[test]
fn a_flag_gives_a_plugin_and_agents_for_one_run() {
    let stage = with_own_tools(Stage::new(answers()), "made");
    let agents = json!({
        "reviewer": {"description": "Reviews", "prompt": "You are the REVIEWER.", "tools": ["Read"], "model": "inherit"},
        "tools:helper": {"description": "Another", "prompt": "x"},
    });
    let agents = agents.to_string();
    let flags =
        ["--plugin-dir", &home(&stage, "made"), "--agents", &agents, "--sandbox", "off", "--agent", "reviewer", "go"];
    let ran = stage.run(&flags);
    let sent = first(&stage);
    assert!(sent.contains("You are the REVIEWER."), "{sent} {}", ran.stderr);
    let stage = with_own_tools(Stage::new(answers()), "made");
    stage.run(&["--plugin-dir", &home(&stage, "made"), "--agents", &agents, "--sandbox", "off", "go"]).expect_code(0);
    let sent = first(&stage);
    assert!(sent.contains("Another") && !sent.contains("Helps with it"), "a flag comes first: {sent}");
    assert_eq!(stage.workspace.read("hooked"), "the word");
    stage.run(&["go"]).expect_code(0);
    assert!(!last(&stage).contains("tools:release"));
    for (json, words) in
        [("[", "--agents: it is not valid JSON"), (r#"{"x": {"maxTurns": 0}}"#, "--agents: x: maxTurns")]
    {
        stage.run(&["--agents", json, "go"]).expect_said(&[words]);
    }
    stage.run(&["--plugin-dir", "nowhere", "go"]).expect_code(1).expect_said(&["--plugin-dir nowhere"]);
}

#[test]
fn what_is_wrong_with_a_plugin_is_named_and_the_rest_works() {
    let stage = Stage::new(answers());
    let broken = [
        (".claude-plugin/plugin.json", r#"{"name": "odd"}"#),
        ("agents/good.md", "---\ndescription: Good one\n---\nx"),
        ("agents/bad.md", "---\npermissionMode: wild\n---\nx"),
        ("commands/\u{1b}[2Jx.md", "x"),
        ("hooks/hooks.json", "{"),
    ];
    for (name, text) in broken {
        stage.home.write(format!("odd/{name}"), text);
    }
    let folder = stage.home.path().join("odd");
    std::os::unix::fs::symlink("/etc/passwd", folder.join("agents/link.md")).unwrap();
    let ran = stage.run(&["--plugin-dir", &home(&stage, "odd"), "go"]).expect_code(0).expect_said(&[
        "bad.md is left out: line 2: permissionMode: `wild` is none",
        "link.md is left out: it is a link",
        "the plugin odd: no hooks of it are run",
    ]);
    assert!(!ran.stderr.contains("\u{1b}[2J"), "{}", ran.stderr);
    assert!(first(&stage).contains("odd:good"), "{}", first(&stage));
    let checked = Ran::of(stage.piton(&["plugin", "validate", &home(&stage, "odd")])).expect_code(1);
    checked.expect_said(&["agents/bad.md: line 2", "agents/link.md: it is a link", "hooks: "]);
    // A link that leads out is not copied.
    Ran::of(stage.piton(&["plugin", "add", &home(&stage, "odd"), "--yes"]))
        .expect_code(1)
        .expect_said(&["the link agents/link.md leads out of the plugin"]);
    stage.home.write("odd/.claude-plugin/plugin.json", r#"{"name": "a:b"}"#);
    stage
        .run(&["--plugin-dir", &home(&stage, "odd"), "go"])
        .expect_code(0)
        .expect_said(&["`a:b` is not a valid plugin name"]);
}
