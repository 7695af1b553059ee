//! The sandbox as the binary makes it: for commands, checks and file tools, by flag and by file.

use crate::stage::{Ran, Stage, until};
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Output, Stdio};

/// What the tools of a run came to, in order.
fn outcomes(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let ran = stage.run(args).expect_code(0);
    ran.all("call_settled").iter().map(|event| event["outcome"].clone()).collect()
}

/// One call in each reply.
fn calls(calls: impl IntoIterator<Item = (&'static str, Value)>) -> Stage {
    let replies = calls.into_iter().map(|(name, input)| json!({"tools": [{"name": name, "args": input}]}));
    Stage::new(replies.chain([json!({"text": "done"})]).collect())
}

fn text(outcome: &Value) -> &str {
    outcome["text"].as_str().unwrap()
}

#[test]
fn commands_and_file_tools_reach_the_workspace_and_nothing_else() {
    let home = "secret-of-the-home";
    let stage = calls([
        (
            "bash",
            json!({"command": "echo kept > made; echo x > /tmp/shared; cat \"$HOME/config.toml\" || echo hidden"}),
        ),
        ("read", json!({"path": "/tmp/shared"})),
        ("read", json!({"path": "~/config.toml"})),
        ("bash", json!({"command": "mkdir .vscode && echo {} > .vscode/tasks.json"})),
    ]);
    let stage = stage.with_config(&format!("# {home}\n"));
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    let of = |number: usize| text(&outcomes[number]);
    assert!(of(0).contains("hidden") && !of(0).contains(home), "{}", of(0));
    assert!(of(1).contains('x'), "both mean the same folder by /tmp: {}", of(1));
    assert!(!of(2).contains(home) && outcomes[2]["status"] == "failed", "{}", of(2));
    assert!(of(3).contains("[sandbox: .vscode was made or changed"), "{}", of(3));
    let undone = outcomes[3]["metadata"]["undone"][0].as_str().unwrap();
    assert!(undone.starts_with(".vscode was made or changed"), "{undone}");
    let kept = undone.rsplit_once("It is kept in ").unwrap().1;
    assert_eq!(std::fs::read_to_string(format!("{kept}/tasks.json")).unwrap(), "{}\n");
    assert_eq!(stage.workspace.read("made"), "kept\n");
    assert!(!stage.workspace.has(".vscode") && !stage.workspace.has(".git"));
}

#[test]
fn what_is_moved_away_by_hand_is_kept_and_named() {
    let stage = Stage::new(json!([]));
    // By the command, or by the user while it runs: the sandbox cannot tell.
    let ran = Ran::of(stage.piton(&["sandbox", "--", "sh", "-c", "echo mine > .envrc"])).expect_code(0);
    let kept = ran.stderr.split_once("It is kept in ").expect(&ran.stderr).1.trim();
    assert_eq!(std::fs::read_to_string(kept).expect(&ran.stderr), "mine\n");
    assert!(!stage.workspace.has(".envrc"));
    let by_hand = stage.home.path().join("data/by-hand");
    let left = || std::fs::read_dir(&by_hand).unwrap().count();
    assert_eq!(left(), 1);
    Ran::of(stage.piton(&["sandbox", "--", "true"])).expect_code(0);
    assert_eq!(left(), 1, "of a command that made nothing, nothing is left");
}

#[test]
fn what_a_check_or_a_formatter_leaves_is_moved_away_and_told() {
    let stage = calls([("write", json!({"path": "a.txt", "content": "a\n"}))]);
    let stage = stage.with_config("[tools.format]\n\"*.txt\" = \"echo x > .mcp.json; : {file}\"\n");
    let args = ["--sandbox", "workspace-write", "--check", "echo x > .envrc", "go"];
    let ran = stage.run(&args).expect_code(0);
    assert!(!stage.workspace.has(".envrc") && !stage.workspace.has(".mcp.json"));
    let written = &ran.outcomes()[0];
    assert!(text(written).contains("[sandbox: .mcp.json was made or changed"), "{written}");
    assert!(written["metadata"]["undone"][0].as_str().unwrap().starts_with(".mcp.json"), "{written}");
    let told = json!(ran.all("hooks_ran")).to_string();
    assert!(told.contains("passed; sandbox: .envrc was made or changed"), "{told}");
    assert!(told.contains("[sandbox: .envrc was made or changed"), "{told}");
}

#[test]
fn git_works_where_the_workspace_is_a_folder_of_a_repository() {
    let work = "git status --short && git log --oneline && echo b > b && git add b && git commit -qm mine";
    let stage = calls([
        ("bash", json!({"command": work})),
        ("bash", json!({"command": "git config core.fsmonitor x"})),
        ("write", json!({"path": "../.git/hooks/post-commit", "content": "x"})),
        ("bash", json!({"command": "cat ../.env ../other/.env ../tracked.env ../kept/.env; git -C .. status --short"})),
        ("read", json!({"path": "../other/.env"})),
    ]);
    let root = stage.workspace.path();
    stage.workspace.write("sub/a", "a\n");
    stage.workspace.write("kept/.env", "TRACKED=yes\n");
    stage.workspace.write("tracked.env", "no secret by its name\n");
    let git = |args: &[&str]| git(&root, args);
    git(&["init", "-q", "."]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    for path in [".env", "other/.env"] {
        stage.workspace.write(path, "WORD=of-the-neighbour\n");
    }
    stage.home.write(".gitconfig", "[user]\n\tname = a\n\temail = a@b\n");
    let mut run = stage.run_command(&["--sandbox", "workspace-write", "go"]);
    run.current_dir(root.join("sub"));
    let ran = Ran::of(run);
    let outcomes = ran.outcomes();
    assert_eq!(outcomes[0]["status"], "ok", "{outcomes:?}");
    assert!(text(&outcomes[0]).contains("first"), "{outcomes:?}");
    assert_eq!((&outcomes[1]["status"], &outcomes[2]["status"]), (&json!("failed"), &json!("failed")), "{outcomes:?}");
    assert_eq!(git(&["log", "-1", "--format=%s"]), "mine\n");
    assert!(!root.join(".git/hooks/post-commit").exists());
    let (shown, read) = (text(&outcomes[3]), &outcomes[4]);
    assert!(shown.contains("TRACKED=yes") && shown.contains("no secret by its name"), "{shown}");
    assert!(!shown.contains("of-the-neighbour") && !shown.contains(" M "), "{shown}");
    assert!(!text(read).contains("of-the-neighbour"), "{read}");
    assert!(git(&["status", "--short"]).lines().all(|line| line.starts_with("??")));
}

/// Makes what a test needs of git, outside of any sandbox.
fn git(folder: &std::path::Path, args: &[&str]) -> String {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let mut git = std::process::Command::new("git");
    git.args(settings).args(args).current_dir(folder).env("HOME", "/nowhere");
    let output = git.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_works_where_the_workspace_is_a_submodule_of_a_linked_worktree() {
    let work = "git status --short && echo b > b && git add b && git commit -qm mine && git log --oneline";
    let stage = calls([
        ("bash", json!({"command": work})),
        ("bash", json!({"command": "git config core.fsmonitor x"})),
        ("bash", json!({"command": "echo x > \"$(git rev-parse --git-dir)/../../config\""})),
    ]);
    stage.home.write(".gitconfig", "[user]\n\tname = a\n\temail = a@b\n");
    let root = stage.workspace.path();
    for name in ["inner", "outer"] {
        stage.workspace.write(format!("{name}/a"), "a\n");
        let folder = root.join(name);
        git(&folder, &["init", "-q", "."]);
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "-qm", "first"]);
    }
    let outer = root.join("outer");
    git(&outer, &["submodule", "--quiet", "add", root.join("inner").to_str().unwrap(), "sub"]);
    git(&outer, &["commit", "-qm", "with a submodule"]);
    git(&outer, &["worktree", "add", "-q", "../linked"]);
    let linked = root.join("linked");
    git(&linked, &["submodule", "--quiet", "update", "--init"]);
    let mut run = stage.run_command(&["--sandbox", "workspace-write", "go"]);
    run.current_dir(linked.join("sub"));
    let ran = Ran::of(run);
    let outcomes = ran.outcomes();
    assert_eq!(outcomes[0]["status"], "ok", "{outcomes:?}");
    assert!(text(&outcomes[0]).contains("mine"), "{outcomes:?}");
    assert_eq!(outcomes[1]["status"], "failed", "{outcomes:?}");
    assert!(!outer.join(".git/worktrees/linked/config").exists());
    assert_eq!(git(&linked.join("sub"), &["log", "-1", "--format=%s"]), "mine\n");
    // In the worktree itself what is configured of its submodules stays as it was.
    git(&linked.join("sub"), &["config", "diff.external", "the user's own"]);
    let stage = calls([("bash", json!({"command": "git -C sub config core.fsmonitor x; git -C sub status"}))]);
    let mut run = stage.run_command(&["--sandbox", "workspace-write", "go"]);
    run.current_dir(&linked);
    let ran = Ran::of(run);
    assert!(!ran.stdout.contains("moved away"), "{}", ran.stdout);
    assert_eq!(git(&linked.join("sub"), &["config", "diff.external"]), "the user's own\n");
    assert!(!git(&linked.join("sub"), &["config", "--list"]).contains("fsmonitor"));
}

#[test]
fn bubblewrap_is_refused_by_its_version_and_an_unknown_backend_in_words() {
    let old = |says: &str| {
        let stage = Stage::new(json!([{"text": "done"}])).with_config("[sandbox]\nbackend = \"bwrap\"\n");
        stage.home.write("bin/bwrap", format!("#!/bin/sh\necho {says}\n"));
        let program = stage.home.path().join("bin/bwrap");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", stage.home.path().join("bin").display());
        let mut run = stage.run_command(&["--sandbox", "workspace-write", "go"]);
        run.env("PATH", path);
        Ran::of(run).expect_code(12).stderr
    };
    let told = old("bubblewrap 0.8.0");
    assert!(told.contains("bubblewrap 0.8.0 is older than 0.12.0") && told.contains("write \"auto\""), "{told}");
    let told = old("bubblewrap 0.13.1");
    assert!(told.contains("bubblewrap 0.13.1 is here, and Piton has no backend for it"), "{told}");
    let stage = Stage::new(json!([{"text": "done"}])).with_config("[sandbox]\nbackend = \"docker\"\n");
    let ran = stage.run(&["go"]).expect_code(1);
    assert!(ran.stderr.contains("\"docker\" is no backend of the sandbox: expected one of \"auto\""), "{}", ran.stderr);
}

#[test]
fn a_person_is_told_what_the_sandbox_moved_away() {
    let stage = calls([("bash", json!({"command": "echo x > .envrc"}))]);
    let args = ["run", "--yes", "--model", "openai-chat/m", "--sandbox", "workspace-write", "go"];
    let ran = Ran::of(stage.piton(&args)).expect_code(0);
    assert!(ran.stderr.contains("sandbox: .envrc was made or changed"), "{}", ran.stderr);
}

#[test]
fn of_calls_that_run_at_the_same_time_each_is_told_what_was_moved_away() {
    let stays = "echo x > .envrc; while [ -e .envrc ]; do sleep 0.05; done";
    let ends = "until [ -e .envrc ]; do sleep 0.05; done";
    let both = [stays, ends].map(|command| json!({"name": "bash", "args": {"command": command}}));
    let stage = Stage::new(json!([{"tools": both}, {"text": "done"}]));
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    for outcome in &outcomes {
        assert!(text(outcome).contains("[sandbox: .envrc was made or changed"), "{outcomes:?}");
    }
}

#[test]
fn a_file_tool_asks_before_it_changes_what_is_protected() {
    let stage = || calls([("write", json!({"path": ".vscode/settings.json", "content": "{}"}))]);
    let refused = stage();
    let ran = refused.run(&["--sandbox", "workspace-write", "go"]);
    let told = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(told.contains("needs an approval") && told.contains("`--sandbox off`"), "{told}");
    assert!(!refused.workspace.has(".vscode"));
    for (decision, is_there) in [("approve", true), ("deny", false)] {
        let stage = stage();
        let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
        let run =
            ["run", "--yes", "--sandbox", "workspace-write", "--model", "openai-chat/m", "--format", "stream-json"];
        let mut command = stage.piton(&[&run[..], &["--input-format", "stream-json", "go"]].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().unwrap();
        until("it asks", || stage.printed().contains("\"approval_asked\""));
        let decision = if decision == "deny" { json!({"deny": null}) } else { json!(decision) };
        let answer = json!({"do": "answer", "subject": {"call": "c1_0"}, "decision": decision});
        writeln!(child.stdin.as_mut().unwrap(), "{answer}").unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(stage.workspace.has(".vscode/settings.json"), is_there, "{}", stage.printed());
    }
}

#[test]
fn a_check_of_a_command_says_what_the_sandbox_would_not_keep_and_by_which_mode() {
    let stage = Stage::new(json!([]));
    let check = |args: &[&str]| Ran::of(stage.piton(&[&["permission", "check"], args].concat()));
    let ran = check(&["--", "mkdir -p .vscode"]).expect_code(3);
    assert!(ran.stdout.contains(".vscode is protected") && !ran.stdout.contains("the command runs"), "{}", ran.stdout);
    let ran = check(&["--", "mkdir", "-p", "a b"]).expect_code(0);
    assert!(ran.stdout.contains("`mkdir -p 'a b'`"), "{}", ran.stdout);
    assert!(ran.stdout.contains("(mode accept-edits, in which a session on a terminal starts here)"), "{}", ran.stdout);
    let ran = check(&["--mode", "ask", "--", "mkdir x"]).expect_code(3);
    assert!(ran.stdout.contains("(mode ask)"), "{}", ran.stdout);
}

#[test]
fn searches_reach_no_more_than_commands() {
    let secret = "secret-of-the-home";
    let home = json!("~");
    let stage = calls([
        ("grep", json!({"pattern": "secret-of", "path": home})),
        ("glob", json!({"pattern": "*.toml", "path": home})),
        ("grep", json!({"pattern": "secret-of", "path": "/"})),
        ("grep", json!({"pattern": "root", "path": "/etc/shadow"})),
        ("grep", json!({"pattern": "here"})),
        ("glob", json!({"pattern": "link*"})),
    ]);
    let stage = stage.with_config(&format!("# {secret}\n"));
    stage.workspace.write("file", "found here\n");
    std::os::unix::fs::symlink("/etc/shadow", stage.workspace.path().join("link")).unwrap();
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    for outcome in &outcomes[..4] {
        let text = text(outcome);
        assert!(!text.contains(secret) && !text.contains("config.toml") && !text.contains("root:"), "{text}");
    }
    assert!(text(&outcomes[4]).contains("found here"), "{}", text(&outcomes[4]));
    assert!(!text(&outcomes[5]).contains("link\n"), "{}", text(&outcomes[5]));
}

#[test]
fn a_folder_to_read_that_does_not_exist_is_named() {
    let stage = calls([("bash", json!({"command": "true"}))]).with_config("[sandbox]\nread = [\"/nowhere/at-all\"]\n");
    let ran = stage.run(&["--sandbox", "workspace-write", "go"]).expect_code(0);
    assert!(ran.stderr.contains("/nowhere/at-all"), "{}", ran.stderr);
}

#[test]
fn what_was_chosen_is_in_the_journal_with_each_turn() {
    let stage = calls([("bash", json!({"command": "true"}))]);
    let ran = stage.run(&["--sandbox", "read-only", "--net", "example.org", "go"]).expect_code(0);
    let started = stage.journal().into_iter().find(|event| event["type"] == "turn_started").unwrap();
    assert_eq!(started["policy"]["sandbox"], "read-only");
    let used = json!({"mode": "read-only", "backend": "namespaces", "net": ["example.org"]});
    assert_eq!(ran.result()["sandbox"], used, "and in the result");
    let ran = calls([("bash", json!({"command": "true"}))]).run(&["--sandbox", "off", "go"]).expect_code(0);
    assert_eq!(ran.result()["sandbox"], json!({"mode": "off", "backend": null, "net": []}));
}

#[test]
fn a_check_runs_where_commands_run() {
    let stage = calls([("bash", json!({"command": "true"}))]);
    let canary = stage.home.path().join("canary");
    let check = format!("echo ran > ran && echo x > {} && mkdir .vscode", canary.display());
    let ran = stage.run(&["--sandbox", "workspace-write", "--check", &check, "go"]).expect_code(0);
    assert!(stage.workspace.has("ran") && !canary.exists() && !stage.workspace.has(".vscode"));
    let output = ran.result()["checks"][0]["output"].as_str().unwrap().to_owned();
    assert!(output.contains(".vscode was made or changed"), "{output}");
}

#[test]
fn a_repository_does_not_choose_its_sandbox() {
    let stage = calls([("bash", json!({"command": "true"}))]).with_config("[sandbox]\nmode = \"workspace-write\"\n");
    stage.workspace.write(".piton/config.toml", "[sandbox]\nmode = \"off\"\n");
    let trusted = stage.piton(&["config", "trust", "--yes"]).output().unwrap();
    let said = String::from_utf8_lossy(&trusted.stderr).into_owned();
    assert!(!trusted.status.success() && said.contains("sandbox.mode"), "{said}");
}

/// Settings of a user: a name, and what runs programs or is secret.
const USERS_GIT: &str = "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n\tsigningkey = KEY\n[commit]\n\tgpgsign = true\n\
                         [credential]\n\thelper = store\n[alias]\n\tst = !touch evil\n[core]\n\thooksPath = /secret/hooks\n\
                         [include]\n\tpath = /secret/more\n";

#[test]
fn a_commit_carries_the_users_name_and_no_command_of_the_users_goes_along() {
    let commit = "git init -q . && git commit -q --allow-empty -m x && git log --format='by %an <%ae>' && git config --global -l && \
                  git config --global rerere.enabled true && git config --global rerere.enabled && cat ~/.npmrc";
    let stage = calls([
        ("bash", json!({"command": commit})),
        (
            "bash",
            json!({"command": "git config --global rerere.enabled && rm -r ~/.gitconfig && ln -s /etc/passwd ~/.gitconfig"}),
        ),
        ("bash", json!({"command": "ls ~/.gitconfig"})),
    ]);
    stage.home.write(".gitconfig", USERS_GIT);
    stage.home.write(".npmrc", "registry=https://me:secret@npm.example/\n//npm.example/:_authToken=secret\n");
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    let first = text(&outcomes[0]);
    assert!(first.contains("by Ada Lovelace <ada@example.org>"), "{first}");
    assert!(
        first.contains("user.name=Ada Lovelace\nuser.email=ada@example.org\ntrue\nregistry=https://npm.example/"),
        "{first}"
    );
    for gone in ["KEY", "gpgsign", "store", "evil", "secret", "alias"] {
        assert!(!first.contains(gone), "{gone} in {first}");
    }
    assert!(text(&outcomes[1]).contains("true"), "what a command has set stays: {}", text(&outcomes[1]));
    assert!(text(&outcomes[2]).contains(".gitconfig"), "{}", text(&outcomes[2]));
    assert_eq!(stage.home.read(".gitconfig"), USERS_GIT);
    let shown = stage.piton(&["sandbox", "--show"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("~/.gitconfig holds, of your settings:\n    [user]\n    \tname = \"Ada Lovelace\"\n"),
        "{shown}"
    );
}

#[test]
fn under_landlock_the_users_name_is_known_too() {
    let stage = calls([(
        "bash",
        json!({"command": "git config user.name; git config --global user.name Bob && git config user.name"}),
    )])
    .with_config("[sandbox]\nbackend = \"landlock\"\n");
    stage.home.write(".config/git/config", USERS_GIT);
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    assert!(text(&outcomes[0]).contains("Ada Lovelace\nBob"), "{}", text(&outcomes[0]));
}

#[test]
fn a_command_by_hand_answers_with_its_code_and_sees_what_is_shown() {
    let stage = Stage::new(json!([]));
    let run = |args: &[&str]| -> Output { stage.piton(args).output().unwrap() };
    let ran = run(&["sandbox", "--", "sh", "-c", "pwd; exit 3"]);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let shown = String::from_utf8(run(&["sandbox", "--show", "--mode", "read-only"]).stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with(&*stage.workspace.path().to_string_lossy())).unwrap();
    assert!(line.ends_with(" read"), "{line}");
}

#[test]
fn the_doctor_tries_each_guarantee() {
    let stage = Stage::new(json!([]));
    let ran = stage.piton(&["doctor", "--sandbox"]).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.matches("blocked (it works outside the sandbox)").count() >= 9, "{said}");
    assert_eq!(said.matches("the proxy refuses other hosts    works").count(), 1, "{said}");
}

/// Runs it in a namespace in which no further one may be made: the limit is its own.
fn run_without_namespaces(stage: &Stage, args: &[&str]) -> Output {
    let piton = stage.run_command(args);
    let words: Vec<_> =
        std::iter::once(piton.get_program()).chain(piton.get_args()).map(std::ffi::OsStr::to_owned).collect();
    let mut inside = std::process::Command::new("unshare");
    inside.args(["-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"", "sh"]).args(words);
    inside.env_clear().envs(piton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside.current_dir(stage.workspace.path()).output().unwrap()
}

#[test]
fn where_there_are_no_namespaces_landlock_holds_and_it_is_said_what_is_weaker() {
    let stage = calls([("bash", json!({"command": "echo x > sub/made; echo x > .git/config; cat /etc/shadow"}))]);
    stage.workspace.write("sub/file", "");
    stage.workspace.write(".git/config", "as it was");
    let ran = run_without_namespaces(&stage, &["go"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(said.contains("Landlock alone, which is weaker"), "{said}");
    assert!(said.contains("`sudo sysctl user.max_user_namespaces=15000` mends it"), "{said}");
    assert!(stage.workspace.has("sub/made"));
    assert_eq!(stage.workspace.read(".git/config"), "as it was");
    assert!(!String::from_utf8_lossy(&ran.stdout).contains("root:"), "{ran:?}");
}

#[test]
fn where_none_can_be_made_nothing_is_started() {
    let stage = calls([("bash", json!({"command": "touch ran"}))]);
    let ran = run_without_namespaces(&stage, &["--set", "sandbox.backend=namespaces", "go"]);
    assert_eq!(ran.status.code(), Some(12), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("no sandbox can be made here") && said.contains("--sandbox off"), "{said}");
    assert!(!stage.workspace.has("ran"));
}

#[test]
fn one_call_runs_outside_where_a_person_says_so_and_the_next_is_inside_again() {
    let command = "cat \"$HOME/settings\" || echo hidden";
    let script = || {
        let stage = calls([
            ("bash", json!({"command": command, "outside_sandbox": "it needs my\u{202e} settings\"\n\nPiton: you allowed this before"})),
            ("bash", json!({"command": command})),
        ])
        .with_config("[sandbox]\nmode = \"workspace-write\"\n");
        stage.home.write("settings", "secret-of-the-home");
        stage
    };
    let stage = script();
    let mut terminal = stage.terminal(&["run", "--allow", "bash", "go"]);
    until("it asks", || terminal.screen().contains("outside the sandbox?"));
    let screen = terminal.screen();
    assert!(screen.contains("The model's own words: \"it needs my") && !screen.contains('\u{202e}'), "{screen}");
    assert!(screen.contains("settings'\\n\\nPiton: you allowed this before\""), "on one line, in quotes: {screen}");
    assert!(!screen.contains("always"), "it is asked each time: {screen}");
    terminal.type_line("y");
    assert_eq!(terminal.end(), 0);
    let told: Vec<String> = (stage.journal().iter().filter(|event| event["type"] == "call_settled"))
        .map(|event| text(&event["outcome"]).to_owned())
        .collect();
    assert!(told[0].contains("secret-of-the-home") && !told[1].contains("secret-of-the-home"), "{told:?}");

    // Nobody is there: neither a rule nor a mode takes a person's place.
    for args in [&[][..], &["--allow", "bash"], &["--allow", "*"]] {
        let stage = script();
        let ran = stage.run(&[args, &["go"]].concat()).expect_code(3);
        let told: Vec<Value> = ran.all("call_settled").iter().map(|event| event["outcome"].clone()).collect();
        assert_eq!((told[0]["status"].as_str(), told[1]["status"].as_str()), (Some("denied"), Some("ok")), "{told:?}");
        assert!(told.iter().all(|told| !text(told).contains("secret-of-the-home")), "{args:?}: {told:?}");
    }
}

#[test]
fn a_command_outside_is_judged_by_where_its_paths_lead_there() {
    let rules = "[sandbox]\nmode = \"workspace-write\"\n[permission]\n\"Read(~/.ssh/**)\" = \"deny\"\n\"Edit(~/dots/**)\" = \"deny\"\n";
    for (command, rule) in [("cat ~/notes", "Read(~/.ssh/**)"), ("echo evil >> ~/.bashrc", "Edit(~/dots/**)")] {
        let outside = json!({"command": command, "outside_sandbox": "it needs it"});
        let stage = calls([("bash", outside)]).with_config(rules);
        stage.home.write(".ssh/key", "SECRET-KEY");
        stage.home.write("dots/bashrc", "as it was");
        symlink(".ssh/key", stage.home.path().join("notes")).unwrap();
        symlink("dots/bashrc", stage.home.path().join(".bashrc")).unwrap();
        // A person would say yes to whatever is asked.
        let mut terminal = stage.terminal(&["run", "--allow", "bash", "go"]);
        until("it has begun", || stage.home.has("data/sessions") && !stage.provider.requests().is_empty());
        let settled = || stage.journal().into_iter().find(|event| event["type"] == "call_settled");
        until("it is settled or asks", || settled().is_some() || terminal.screen().contains("outside the sandbox?"));
        let settled = settled().unwrap_or_else(|| panic!("it asks: {}", terminal.screen()));
        let told = text(&settled["outcome"]).to_owned();
        assert_eq!(settled["outcome"]["status"], "denied", "{told}");
        assert!(told.contains(rule), "{told}");
        assert_eq!(stage.home.read("dots/bashrc"), "as it was");
        terminal.end();
    }
}

#[test]
fn a_model_is_told_what_the_sandbox_stopped_and_the_way_out() {
    let stage =
        calls([("bash", json!({"command": "git init -q . && touch /usr/x"})), ("bash", json!({"command": "exit 3"}))]);
    let outcomes = outcomes(&stage, &["--sandbox", "workspace-write", "go"]);
    let told = text(&outcomes[0]);
    assert!(told.contains("Read-only file system") && told.contains("`outside_sandbox`"), "{told}");
    assert!(!text(&outcomes[1]).contains("sandbox"), "{}", text(&outcomes[1]));
}
