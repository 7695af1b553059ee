//! Command hooks, checks and answers by a schema, as their users meet them.

use crate::stage::{Ran, Stage, descendants, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Puts a script into the test's home and returns the command that runs it.
fn script(stage: &Stage, name: &str, text: &str) -> String {
    stage.home.write(name, text);
    format!("sh {}", stage.home.path().join(name).display())
}

fn hooks_of(stage: &Stage) -> Vec<Value> {
    stage.journal().into_iter().filter(|event| event["type"] == "hooks_ran").collect()
}

fn says(messages: &[Value], words: &str) -> bool {
    json!(messages).to_string().contains(words)
}

/// Writes a file, looks at it with a shell, answers.
fn work() -> Value {
    json!([
        {"tools": [{"name": "write", "args": {"path": "a.txt", "content": "hello\n"}}]},
        {"tools": [{"name": "bash", "args": {"command": "rm -rf build; cat a.txt"}}]},
        {"text": "Done."},
    ])
}

#[test]
fn a_script_written_for_claude_code_refuses_with_exit_code_2() {
    let stage = Stage::new(work());
    let guard = script(
        &stage,
        "guard.sh",
        "input=$(cat)\nprintf '%s\\n' \"$input\" >> \"$CLAUDE_PROJECT_DIR/seen\"\n\
         case \"$input\" in *'\"tool_name\":\"Bash\"'*'rm -rf'*) echo 'rm -rf is not allowed here' >&2; exit 2;; esac\n",
    );
    let stage = stage.with_config(&format!("[[hooks.PreToolUse]]\nmatcher = \"Bash|Write\"\ncommand = \"{guard}\"\n"));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.outcomes()[1]["status"], "failed");
    assert!(says(&stage.last_messages(), "rm -rf is not allowed here"));
    let seen = stage.workspace.read("seen");
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = stage.workspace.path().canonicalize().unwrap().join("a.txt");
    assert_eq!(seen[0]["tool_input"], json!({"file_path": path, "content": "hello\n"}));
    assert_eq!((&seen[0]["hook_event_name"], &seen[0]["tool_name"]), (&json!("PreToolUse"), &json!("Write")));
    assert_eq!(seen[1]["tool_input"]["command"], "rm -rf build; cat a.txt");
    assert!(seen[1]["session_id"].as_str().unwrap().starts_with("ses_") && seen[1]["cwd"].is_string());
}

#[test]
fn hooks_of_a_repository_run_in_the_sandbox_and_those_of_a_user_where_they_say_so() {
    let lint = "cat > lint.json\necho x > .envrc\ntouch \"$HOME/escaped\"\n";
    let stage = Stage::new(json!([
        {"tools": [{"name": "write", "args": {"path": "scripts/lint.sh", "content": lint}}]},
        {"tools": [{"name": "bash", "args": {"command": "true"}}]},
        {"text": "Done."},
    ]));
    let stage = stage.with_config(
        "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"touch $HOME/own\"\n\
         [[hooks.UserPromptSubmit]]\ncommand = \"cat > boxed.json; touch $HOME/boxed\"\nsandbox = true\n",
    );
    stage.workspace.write(
        ".piton/config.toml",
        "[[hooks.PostToolUse]]\nmatcher = \"Bash\"\nhooks = [{command = \"sh scripts/lint.sh\", sandbox = false}]\n",
    );
    stage.run(&["--sandbox", "workspace-write", "--trust", "go"]).expect_code(0);
    let input = |name: &str| -> Value { serde_json::from_str(&stage.workspace.read(name)).unwrap() };
    assert_eq!(input("lint.json")["tool_name"], "Bash");
    assert_eq!(input("boxed.json")["prompt"], "go");
    assert!(stage.home.has("own") && !stage.home.has("boxed") && !stage.home.has("escaped"));
    assert!(!stage.workspace.has(".envrc"));
    let told = json!(hooks_of(&stage)).to_string();
    assert!(told.contains("sandbox: .envrc was made or changed"), "{told}");
}

#[test]
fn answers_in_json_change_inputs_and_add_context() {
    let stage = Stage::new(work());
    let rewrite = script(
        &stage,
        "rewrite.sh",
        r#"cat >/dev/null; echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"file_path":"b.txt","content":"bye"},"additionalContext":"files are called b here"}}'"#,
    );
    let context = script(&stage, "context.sh", "cat >/dev/null; echo 'the build server is down today'");
    let stage = stage.with_config(&format!(
        "[[hooks.PreToolUse]]\nmatcher = \"write\"\ncommand = \"{rewrite}\"\n[[hooks.UserPromptSubmit]]\ncommand = \"{context}\"\n"
    ));
    stage.run(&["go"]).expect_code(0);
    assert_eq!(stage.workspace.read("b.txt"), "bye");
    assert!(!stage.workspace.has("a.txt"));
    assert!(says(&stage.last_messages(), "files are called b here"));
    assert!(says(&stage.provider.requests()[0].body["messages"].as_array().unwrap()[..], "the build server is down"));
    let requested: Vec<Value> = stage.journal().into_iter().filter(|event| event["type"] == "call_requested").collect();
    assert_eq!(requested[0]["input"], json!({"path": "b.txt", "content": "bye"}));
}

#[test]
fn a_hook_that_waits_for_edits_sees_each_file_of_a_patch_and_can_refuse_it_for_one() {
    let patch = |files: &str| json!({"tools": [{"name": "apply_patch", "args": {"patch": format!("*** Begin Patch\n{files}*** End Patch\n")}}]});
    let stage = Stage::new(json!([
        patch("*** Update File: a.txt\n*** Move to: sub/b.txt\n@@\n-one\n+1\n*** Add File: c.txt\n+c\n"),
        patch("*** Add File: d.txt\n+d\n*** Add File: .env\n+KEY=1\n"),
        {"text": "done"},
    ]));
    let stage = stage.with_files([("a.txt", "one\n")]);
    let sees = script(&stage, "sees.sh", "tr -d '\\n' >> seen; echo >> seen");
    let guard = script(&stage, "guard.sh", "case $(cat) in *'/.env\"'[,}]*) echo 'not that file' >&2; exit 2;; esac");
    let all = script(&stage, "all.sh", "tr -d '\\n' >> all; echo >> all");
    let only = script(&stage, "only.sh", "cat >/dev/null; touch only");
    let stage = stage.with_config(&format!(
        "[tools]\napply_patch = \"always\"\n[[hooks.PostToolUse]]\nmatcher = \"Edit|Write\"\ncommand = \"{sees}\"\n\
         [[hooks.PreToolUse]]\ncommand = \"{all}\"\n[[hooks.PreToolUse]]\nmatcher = \"^Write$\"\ncommand = \"{guard}\"\n\
         [[hooks.PreToolUse]]\nmatcher = \"Edit\"\nif = \"Edit(*/nowhere/*)\"\ncommand = \"{only}\"\n"
    ));
    let ran = stage.run(&["go"]).expect_code(0);
    let read = |name: &str| -> Vec<Value> {
        stage.workspace.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let root = stage.workspace.path().canonicalize().unwrap();
    let paths = |names: &[&str]| json!(names.iter().map(|name| root.join(name)).collect::<Vec<_>>());
    let seen = read("seen");
    let each: Vec<Value> = seen.iter().map(|input| input["tool_input"]["file_path"].clone()).collect();
    assert_eq!(json!(each), paths(&["a.txt", "sub/b.txt", "c.txt"]));
    assert_eq!(seen[0]["tool_name"], "apply_patch");
    assert_eq!(seen[0]["tool_input"]["file_paths"], paths(&["a.txt", "sub/b.txt", "c.txt"]));
    let all = read("all");
    assert_eq!(all.len(), 2, "who waits for everything sees each call once: {all:?}");
    assert_eq!(all[1]["tool_input"]["file_paths"], paths(&["d.txt", ".env"]));
    assert!(all[1]["tool_input"]["file_path"].is_null());
    let outcomes = ran.outcomes();
    assert_eq!((&outcomes[0]["status"], &outcomes[1]["status"]), (&json!("ok"), &json!("failed")), "{outcomes:?}");
    assert!(outcomes[1]["text"].as_str().unwrap().contains("not that file"), "{outcomes:?}");
    assert!(!stage.workspace.has("d.txt") && !stage.workspace.has(".env"), "all or nothing");
    assert!(!stage.workspace.has("only"), "its condition holds for none of the files");
}

#[test]
fn what_is_wrong_with_a_hook_is_said_and_the_work_goes_on() {
    let stage = Stage::new(work());
    let garbled = script(&stage, "garbled.sh", "cat >/dev/null; echo '{\"decision\": '");
    let plain = script(&stage, "plain.sh", "echo all fine");
    let fails = script(&stage, "fails.sh", "echo no such linter >&2; exit 3");
    let stage = stage.with_config(&format!(
        "[[hooks.PostToolUse]]\nmatcher = \"Write\"\nhooks = [{{command = \"{garbled}\"}}, {{command = \"{plain}\"}}, \
         {{command = \"{fails}\"}}, {{command = \"sleep 600\", timeout = 0.2}}]\n"
    ));
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(0);
    for words in [
        "its output begins like JSON but cannot be read",
        "failed: exit code 3: no such linter",
        "it took longer than 0.2 s; it is not run again",
    ] {
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("all fine"), "what a hook prints is for it alone\n{}", ran.stderr);
    let ends: Vec<Value> =
        hooks_of(&stage)[0]["runs"].as_array().unwrap().iter().map(|run| run["end"].clone()).collect();
    assert_eq!(ends, ["failed", "ok", "failed", "timed_out"]);
}

#[test]
fn a_hook_has_no_keys_and_leaves_no_process() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let env = script(&stage, "env.sh", "cat >/dev/null; env > seen; (sleep 600 & echo $! > pid); sleep 600");
    let stage = stage.with_config(&format!("[[hooks.Stop]]\ncommand = \"{env}\"\ntimeout = 0.5\n"));
    stage.run(&["go"]).expect_code(0);
    let seen = stage.workspace.read("seen");
    assert!(seen.contains("PATH=") && !seen.contains("sk-test"), "{seen}");
    let pid: u32 = stage.workspace.read("pid").trim().parse().unwrap();
    until("what it started is gone", || !crate::stage::is_alive(pid));
}

#[test]
fn a_prompt_that_a_hook_refuses_is_never_sent() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let filter =
        script(&stage, "filter.sh", "grep -q hunter2 && { echo 'there is a password in it' >&2; exit 2; }; exit 0");
    let stage = stage.with_config(&format!("[[hooks.UserPromptSubmit]]\ncommand = \"{filter}\"\n"));
    let ran = stage.run(&["log in with hunter2"]).expect_code(11);
    assert_eq!(ran.end(), "hook_stopped");
    assert!(ran.result()["detail"].as_str().unwrap().contains("there is a password in it"));
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn hooks_of_a_repository_run_only_where_they_are_trusted_as_they_are() {
    let settings =
        |command: &str| json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}).to_string();
    let stage = Stage::new(json!([{"text": "Done.", "repeat": true}])).with_config("[claude]\nhooks = true\n");
    stage.workspace.write(".claude/settings.json", settings("touch ran"));
    let run = |more: &[&str]| {
        let args = [&["run", "--yes", "--model", "openai-chat/m"], more, &["go"]].concat();
        Ran::of(stage.piton(&args)).expect_code(0).stderr
    };
    let ignored = "note: 1 thing of this repository is ignored until you approve it: piton trust\n";
    assert!(run(&[]).contains(ignored));
    Ran::of(stage.piton(&["doctor"])).expect_stdout(&["ignored: .claude/settings.json (hooks; `piton trust` shows"]);
    assert!(!stage.workspace.has("ran"));
    run(&["--trust-hooks"]);
    assert!(stage.workspace.has("ran"));
    std::fs::remove_file(stage.workspace.path().join("ran")).unwrap();
    run(&[]);
    assert!(stage.workspace.has("ran"), "it is remembered");
    stage.workspace.write(".claude/settings.json", settings("touch other"));
    assert!(run(&[]).contains(ignored));
    assert!(!stage.workspace.has("other"));
}

#[test]
fn the_users_own_settings_of_claude_code_need_no_trust() {
    let stage = Stage::new(json!([{"text": "Done."}])).with_config("[claude]\nhooks = true\n");
    let settings = json!({"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [
        {"type": "command", "command": "echo use tabs"}, {"type": "http", "url": "http://localhost:1"}]}]}});
    stage.home.write(".claude/settings.json", settings.to_string());
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(0);
    assert!(ran.stderr.contains("hooks of the type `http` are not known here"), "{}", ran.stderr);
    assert!(says(&stage.last_messages(), "use tabs"));
}

#[test]
fn a_check_must_pass_before_the_turn_is_completed() {
    let stage = Stage::new(json!([
        {"text": "Done."},
        {"tools": [{"name": "write", "args": {"path": "ok", "content": ""}}]},
        {"text": "Now it is."},
    ]));
    let check = "echo looking for ok; test -e ok";
    let ran = stage.run(&["--check", check, "make it ok"]).expect_code(0);
    assert_eq!((ran.end().as_str(), &ran.result()["text"]), ("completed", &json!("Now it is.")));
    let checks = ran.result()["checks"].clone();
    assert_eq!(
        (&checks[0]["check"], &checks[0]["passed"], &checks[0]["round"]),
        (&json!(check), &json!(true), &json!(2))
    );
    let asked = stage.provider.requests()[1].body["messages"].clone();
    assert!(
        asked.to_string().contains("does not pass yet (exit code 1)") && asked.to_string().contains("looking for ok")
    );
    let evidence: Vec<Value> = hooks_of(&stage).iter().map(|event| event["runs"][0]["evidence"].clone()).collect();
    assert_eq!(evidence.len(), 2);
    assert_eq!((&evidence[0]["exit_code"], &evidence[0]["output"]), (&json!(1), &json!("looking for ok")));
    assert_eq!(evidence[1]["exit_code"], 0);
}

#[test]
fn a_check_that_never_passes_ends_the_turn_with_a_code_of_its_own() {
    let stage = Stage::new(json!([{"text": "Done.", "repeat": true}]))
        .with_config("[check]\ncommands = [\"exit 7\"]\nrounds = 2\n");
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(11);
    assert_eq!(stage.provider.requests().len(), 3);
    assert!(ran.stderr.contains("✗ check `exit 7` failed: exit code 7"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Not finished: check `exit 7` failed: exit code 7 (the model"), "{}", ran.stderr);
    assert!(ran.stderr.contains("sent back 2 times"), "{}", ran.stderr);
}

#[test]
fn a_check_that_runs_when_the_turn_is_cancelled_is_killed() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let mut child = stage.start(&["--check", "touch began; sleep 600", "go"]);
    until("the check runs", || stage.workspace.has("began"));
    let family = descendants(child.id());
    crate::stage::kill(child.id(), rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("its processes are gone", || family.iter().all(|pid| !crate::stage::is_alive(*pid)));
}

/// An answer must have a number.
const SCHEMA: &str =
    r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": false}"#;

#[test]
fn an_answer_is_repaired_until_the_schema_accepts_it() {
    let stage =
        Stage::new(json!([{"text": "It is three."}, {"text": "{\"n\": \"3\"}"}, {"text": "```json\n{\"n\": 3}\n```"}]));
    stage.workspace.write("schema.json", SCHEMA);
    let ran = stage.run(&["--output-schema", "schema.json", "count"]).expect_code(0);
    assert_eq!(ran.result()["structured"], json!({"n": 3}));
    let asked = stage.provider.requests();
    assert!(says(asked[0].body["messages"].as_array().unwrap(), "JSON Schema accepts"));
    assert!(says(asked[1].body["messages"].as_array().unwrap(), "It is not JSON"));
    assert!(says(asked[2].body["messages"].as_array().unwrap(), "- /n: "));
}

#[test]
fn an_answer_that_never_fits_is_a_failure_and_a_bad_schema_asks_nobody() {
    let stage = Stage::new(json!([{"text": "three", "repeat": true}]));
    stage.workspace.write("schema.json", SCHEMA);
    let ran = stage.run(&["--output-schema", "schema.json", "count"]).expect_code(11);
    assert_eq!((ran.end().as_str(), stage.provider.requests().len()), ("hook_stopped", 3));
    assert!(ran.result()["detail"].as_str().unwrap().contains("does not satisfy the schema"));
    assert!(ran.result().get("structured").is_none());
    for bad in ["{", r#"{"type": "objekt"}"#, r##"{"$ref": "#/nowhere"}"##] {
        stage.workspace.write("bad.json", bad);
        let ran = stage.run(&["--output-schema", "bad.json", "count"]).expect_code(1);
        assert!(ran.stderr.contains("bad.json"), "{}", ran.stderr);
    }
    assert_eq!(stage.provider.requests().len(), 3);
}

#[test]
fn a_mistake_in_the_configuration_is_answered_with_the_right_word() {
    let stage = Stage::new(json!([])).with_config("[[hooks.PreTolUse]]\ncommand = \"x\"\n");
    let ran = stage.run(&["go"]).expect_code(1);
    assert!(ran.stderr.contains("did you mean `PreToolUse`?"), "{}", ran.stderr);
}

/// A hook that wants a person to be asked about every shell command.
const ASK: &str = r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"hmm"}}'"#;

fn config(event: &str, command: &str) -> String {
    format!("[[hooks.{event}]]\ncommand = '''{command}'''\n")
}

#[test]
fn what_a_hook_wants_a_person_to_be_asked_no_rule_allows() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "touch ran"}}]}, {"text": "Pity."}]))
        .with_config(&config("PreToolUse", ASK));
    let ran = Ran::of(stage.piton(&["run", "--yes", "--allow", "bash", "--model", "openai-chat/m", "go"]));
    let ran = ran.expect_code(3);
    assert!(ran.stderr.contains("wants a person to be asked: hmm"), "{}", ran.stderr);
    assert!(!stage.workspace.has("ran"));
    let requested = stage.journal().into_iter().find(|event| event["type"] == "call_requested").unwrap();
    assert_eq!(requested["verdict"], json!({"ask_first": "hmm"}));
}

#[test]
fn at_a_terminal_the_hooks_reason_stands_beside_its_question() {
    let reasons =
        [("hmm", "A hook wants you to be asked: hmm"), ("", "A hook wants you to be asked, and gave no reason.")];
    for (reason, told) in reasons {
        let call = json!([{"tools": [{"name": "bash", "args": {"command": "touch ran"}}]}, {"text": "Done."}]);
        let stage = Stage::new(call).with_config(&config("PreToolUse", &ASK.replace("hmm", reason)));
        let mut terminal = stage.terminal(&["run", "--yes", "--model", "openai-chat/m", "go"]);
        until("the question is on the screen", || terminal.screen().contains("[y]es, [n]o"));
        let screen = terminal.screen();
        assert!(screen.contains("Run this command?") && screen.contains("touch ran"), "{screen}");
        assert!(screen.find(told) < screen.find("[y]es") && screen.contains(told), "{screen}");
        assert!(!stage.workspace.has("ran"), "nothing runs before the answer");
        terminal.type_line("y");
        assert_eq!(terminal.end(), 0, "{}", terminal.screen());
        assert!(stage.workspace.has("ran"));
    }
}

#[test]
fn a_person_is_shown_the_input_that_a_hook_made_and_that_input_runs() {
    let call = json!([{"tools": [{"name": "bash", "args": {"command": "echo harmless"}}]}, {"text": "Done."}]);
    let changes = r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":{"command":"echo CHANGED > proof"}}}'"#;
    let stage = Stage::new(call).with_config(&config("PreToolUse", changes));
    let mut terminal = stage.terminal(&["run", "--yes", "--model", "openai-chat/m", "go"]);
    until("the question is on the screen", || terminal.screen().contains("[y]es, [n]o"));
    let screen = terminal.screen();
    assert!(screen.contains("echo CHANGED > proof") && !screen.contains("harmless"), "{screen}");
    terminal.type_line("y");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    assert_eq!(stage.workspace.read("proof"), "CHANGED\n");
    let journal = stage.journal();
    let of = |kind: &str| journal.iter().find(|event| event["type"] == kind).unwrap().clone();
    let (requested, asked) = (of("call_requested"), of("approval_asked"));
    assert_eq!(requested["input"], json!({"command": "echo CHANGED > proof"}));
    assert_eq!(asked["question"]["body"][0], json!({"type": "command", "command": "echo CHANGED > proof"}));
}

#[test]
fn a_guard_sees_a_tool_however_the_model_spells_it_and_its_fields() {
    for (matcher, name) in [("Bash", "BASH"), ("bash", "Bash"), ("Bash", "bash")] {
        let call = json!([{"tools": [{"name": name, "args": {"command": "touch ran"}}]}, {"text": "Pity."}]);
        let guard = format!("[[hooks.PreToolUse]]\nmatcher = \"{matcher}\"\nrequired = true\ncommand = \"exit 2\"\n");
        let stage = Stage::new(call).with_config(&guard);
        let ran = stage.run(&["go"]).expect_code(0);
        assert_eq!(ran.outcomes()[0]["status"], "failed", "{matcher} {name}");
        assert!(!stage.workspace.has("ran"), "{matcher} {name}");
        let sent = stage.provider.requests()[1].body["messages"].to_string();
        assert!(sent.contains(&format!("\"name\":\"{name}\"")), "the model reads what it wrote: {sent}");
    }
    let call = json!([{"tools": [{"name": "Write", "args": {"filePath": ".env", "content": "x"}}]}, {"text": "Pity."}]);
    let guard = r#"case "$(cat)" in *'"file_path":"'*'.env"'*) exit 2;; esac"#;
    let stage = Stage::new(call).with_config(&config("PreToolUse", guard));
    stage.run(&["go"]).expect_code(0);
    assert!(!stage.workspace.has(".env"));
}

#[test]
fn always_holds_however_the_model_spells_the_tool() {
    let call = |name: &str, command: &str| json!({"tools": [{"name": name, "args": {"command": command}}]});
    let stage = Stage::new(json!([call("Bash", "touch one"), call("Bash", "touch two"), {"text": "Done."}]));
    let mut terminal = stage.terminal(&["run", "--mode", "ask", "--model", "openai-chat/m", "go"]);
    until("the question is on the screen", || terminal.screen().contains("[a]lways bash(touch *)"));
    terminal.type_line("a");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    assert!(stage.workspace.has("one") && stage.workspace.has("two"));
    let asked = stage.journal().into_iter().filter(|event| event["type"] == "approval_asked").count();
    assert_eq!(asked, 1);
}

#[test]
fn always_ends_with_the_session_with_a_later_rule_and_when_it_is_withdrawn() {
    let call = |command: &str| json!({"tools": [{"name": "bash", "args": {"command": command}}]});
    let says = |text: &str| json!({"text": text});
    let stage = Stage::new(json!([
        call("touch one"),
        says("One."),
        call("touch two"),
        says("Two."),
        call("touch three"),
        says("No."),
        call("touch four"),
        says("No."),
        call("touch five"),
        says("No."),
    ]));
    let mut terminal = stage.terminal(&["run", "--mode", "ask", "--model", "openai-chat/m", "go"]);
    until("the question says what always covers", || {
        terminal.screen().contains("[a]lways bash(touch *) (in this session)")
    });
    terminal.type_line("a");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    let headless = |args: &[&str]| Ran::of(stage.piton(&[&["run", "--model", "openai-chat/m", "go"], args].concat()));
    headless(&["--continue"]).expect_code(0).expect_said(&["bash(touch *) is allowed in this session since 20"]);
    assert!(stage.workspace.has("two"), "it holds in this session");
    headless(&["--continue", "--set", "permission.bash=ask"]).expect_code(3);
    let first = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let fork = Ran::of(stage.piton(&["session", "fork", "last"])).expect_code(0).stdout.trim().to_owned();
    headless(&["--resume", &fork]).expect_code(3);
    Ran::of(stage.piton(&["permission", "list", &fork]))
        .expect_code(0)
        .expect_said(&["no tool is allowed with \"always\""]);
    let listed = Ran::of(stage.piton(&["permission", "list", &first])).expect_code(0).stdout;
    assert!(listed.starts_with("allow bash(touch *) ") && listed.contains("since 20"), "{listed}");
    Ran::of(stage.piton(&["permission", "revoke", "edit", "--session", &first])).expect_code(1).expect_said(&["edit"]);
    Ran::of(stage.piton(&["permission", "revoke", "bash", "--session", &first])).expect_code(0).expect_said(&["bash"]);
    headless(&["--resume", &first]).expect_code(3);
    let left: Vec<bool> = ["three", "four", "five"].map(|name| stage.workspace.has(name)).to_vec();
    assert_eq!(left, [false, false, false]);
}

#[test]
fn a_turn_that_was_cut_off_still_has_to_come_to_what_it_had_to() {
    let gate = "touch began; until [ -e go ]; do sleep 0.02; done";
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": gate}}]}, {"text": "Done.", "repeat": true},
    ]));
    stage.workspace.write("schema.json", SCHEMA);
    let mut child = stage.start(&["--check", "false", "--output-schema", "schema.json", "go"]);
    until("it works", || stage.workspace.has("began"));
    crate::stage::kill(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue"]).expect_code(11);
    assert_eq!(ran.end(), "hook_stopped");
    assert!(ran.result()["detail"].as_str().unwrap().contains("It is not JSON"), "{}", ran.result());
    let told = stage.provider.requests()[0].body["messages"].to_string().matches("JSON Schema accepts").count();
    assert_eq!(told, 1);
    // The next turn is another matter.
    assert_eq!(stage.run(&["--continue", "and now?"]).expect_code(0).end(), "completed");
}

#[test]
fn a_check_of_a_turn_that_was_cut_off_is_run_beside_those_of_who_goes_on() {
    let gate = "touch began; until [ -e go ]; do sleep 0.02; done";
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": gate}}]}, {"text": "Done.", "repeat": true},
    ]));
    let mut child = stage.start(&["--check", "test -e go", "go"]);
    until("it works", || stage.workspace.has("began"));
    let refused = stage.run(&["--continue", "--check", "true", "hurry"]).expect_code(1);
    assert!(refused.stderr.contains("--check cannot be added"), "{}", refused.stderr);
    crate::stage::kill(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue", "--check", "true"]).expect_code(0);
    let checks: Vec<Value> =
        ran.result()["checks"].as_array().unwrap().iter().map(|check| check["check"].clone()).collect();
    assert_eq!(checks, ["true", "test -e go"]);
}

/// A hook that writes down its process and stands there.
const STANDS: &str = "echo $$ > pid; exec sleep 600";

/// Waits until that hook runs: its process.
fn standing(stage: &Stage) -> u32 {
    let pid = || std::fs::read_to_string(stage.workspace.path().join("pid")).ok()?.trim().parse().ok();
    until("the hook runs", || pid().is_some());
    pid().unwrap()
}

#[test]
fn ctrl_c_ends_the_hooks_that_it_meets() {
    for event in ["PostToolUse", "UserPromptSubmit"] {
        let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "Done."}]))
            .with_config(&format!("{}timeout = 600\n", config(event, STANDS)));
        let mut child = stage.start(&["go"]);
        let hook = standing(&stage);
        kill(child.id(), Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{event}: {}", stage.printed());
        until("the hook is gone", || !is_alive(hook));
        let result: Value = serde_json::from_str(stage.printed().lines().last().unwrap()).unwrap();
        assert_eq!((&result["end"], &result["exit_code"]), (&json!("canceled"), &json!(130)), "{event}");
    }
}

#[test]
fn a_signal_while_the_session_is_left_ends_the_waiting() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 0)] {
        let stage = Stage::new(json!([{"text": "Done."}])).with_config(&config("SessionEnd", STANDS));
        let mut child = stage.start(&["go"]);
        let hook = standing(&stage);
        kill(child.id(), signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        until("the hook is gone", || !is_alive(hook));
        let last = stage.journal().pop().unwrap();
        assert_eq!(last["type"], "turn_ended", "nobody waited for the hook's end, and nothing is lost");
    }
}

#[test]
fn a_hook_for_the_sessions_end_needs_no_other_hook() {
    let stage = Stage::new(json!([{"text": "Done."}])).with_config(&config("SessionEnd", "cat > ended"));
    stage.run(&["go"]).expect_code(0);
    let said: Value = serde_json::from_str(&stage.workspace.read("ended")).unwrap();
    assert_eq!((&said["hook_event_name"], &said["reason"]), (&json!("SessionEnd"), &json!("other")));
    assert_eq!(said["permission_mode"], "bypassPermissions");
}

/// Writes down what a hook is told, one line each.
const LOG: &str = "cat >> log";

fn logged(stage: &Stage) -> Vec<Value> {
    stage.workspace.read("log").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn commands_see_the_points_that_code_sees() {
    let events = ["SessionStart", "BeforeModel", "AfterModel", "Message", "ToolUse", "PostToolUse", "Step", "TurnEnd"];
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "Done."}]))
        .with_config(&events.map(|event| config(event, LOG)).concat());
    stage.run(&["go"]).expect_code(0);
    let log = logged(&stage);
    let names: Vec<&str> = log.iter().filter_map(|said| said["hook_event_name"].as_str()).collect();
    let step = ["BeforeModel", "AfterModel", "Message", "ToolUse", "PostToolUse", "Message", "Step"];
    let answer = ["BeforeModel", "AfterModel", "Message", "Step", "TurnEnd"];
    assert_eq!(names, [&["SessionStart"][..], &step, &answer].concat());
    let of = |name: &str| log.iter().find(|said| said["hook_event_name"] == name).unwrap();
    assert_eq!(of("SessionStart")["model"], "openai-chat/test-model");
    assert_eq!(of("ToolUse")["tool_input"]["command"], "true");
    assert_eq!(of("PostToolUse")["tool_response"]["stdout"], "", "what says that there is none is not output");
    assert_eq!(
        (&of("TurnEnd")["end"], &of("TurnEnd")["last_assistant_message"]),
        (&json!("completed"), &json!("Done."))
    );
    assert!(of("Step")["ended_ms"].as_u64() >= of("Step")["started_ms"].as_u64());
}

#[test]
fn a_call_that_was_never_run_is_no_failure_of_a_tool() {
    let guard = "grep -q forbidden && { echo 'not that one' >&2; exit 2; } || true";
    let bash = |command: &str| json!({"name": "bash", "args": {"command": command}});
    let unknown = json!({"name": "nothing", "args": {}});
    let stage = Stage::new(json!([{"tools": [bash("echo forbidden"), unknown, bash("exit 3")]}, {"text": "Done."}]));
    let after = config("PostToolUse", LOG) + &config("PostToolUseFailure", LOG);
    let stage = stage.with_config(&(config("PreToolUse", guard) + &after));
    let ran = stage.run(&["go"]).expect_code(0);
    let statuses: Vec<Value> = ran.outcomes().into_iter().map(|outcome| outcome["status"].clone()).collect();
    assert_eq!(statuses, ["failed", "failed", "failed"]);
    let log = logged(&stage);
    let told = log.iter().map(|said| (&said["hook_event_name"], &said["tool_input"]["command"]));
    assert_eq!(told.collect::<Vec<_>>(), [(&json!("PostToolUseFailure"), &json!("exit 3"))]);
}

#[test]
fn a_tool_that_a_hook_took_away_stays_away_when_the_process_is_killed() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "touch ran"}}]}, {"text": "Done."}]))
        .with_config(&format!(
            "{}{}",
            config("BeforeModel", r#"echo '{"hookSpecificOutput":{"tools":["read"]}}'"#),
            config("PreToolUse", "touch judged; sleep 600"),
        ));
    let mut child = stage.start(&["go"]);
    until("the call is judged", || stage.workspace.has("judged"));
    let family = descendants(child.id());
    crate::stage::kill(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    family.into_iter().for_each(|pid| crate::stage::kill(pid, rustix::process::Signal::KILL));
    let tools = stage.provider.requests()[0].body["tools"].as_array().unwrap().len();
    assert_eq!(tools, 1);
    let stage = stage.with_config("");
    let ran = stage.run(&["--continue"]).expect_code(0);
    assert!(!stage.workspace.has("ran"));
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("Tool bash not found. The tools are: read."));
    assert!(stage.provider.requests()[1].body["tools"].as_array().unwrap().len() > 1, "the next step is ours");
}

#[test]
fn a_compaction_is_seen_and_can_be_refused() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"text": answer}, {"text": "## Next step\nthe changelog"}, {"text": "well"},
    ]));
    Ran::of(stage.piton(&["run", "--yes", "never touch the schema"])).expect_code(0);
    let compact = |stage: &Stage| Ran::of(stage.piton(&["run", "--yes", "--continue", "/compact"]));
    let refuses = "[[hooks.PreCompact]]\nmatcher = \"manual\"\ncommand = \"echo not now >&2; exit 2\"\n";
    let stage = stage.with_config(refuses);
    let ran = compact(&stage).expect_code(1);
    assert!(ran.stderr.contains("refused the compaction: not now"), "{}", ran.stderr);
    assert_eq!(stage.provider.requests().len(), 1, "nobody was asked for a summary");
    let watches = ["PreCompact", "PostCompact", "SessionStart"].map(|event| config(event, LOG)).concat();
    let stage = stage.with_config(&watches);
    compact(&stage).expect_code(0);
    let log = logged(&stage);
    let seen: Vec<_> = log.iter().map(|said| (said["hook_event_name"].clone(), said["trigger"].clone())).collect();
    assert_eq!(seen, [(json!("PreCompact"), json!("manual")), (json!("PostCompact"), json!("manual"))]);
}

#[test]
fn a_compaction_within_a_turn_is_seen_before_and_after_and_may_be_refused() {
    let overflow = json!({"status": 400, "body": {"error": {
        "code": "context_length_exceeded", "type": "invalid_request_error",
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."}}});
    let long = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"text": long}, {"text": long}, overflow, overflow, {"text": "## Next step\ngo on"}, {"text": "Done."},
    ]));
    stage.run(&["never touch the schema"]).expect_code(0);
    stage.run(&["--continue", "and the docs"]).expect_code(0);
    let stage = stage.with_config(&config("PreCompact", "echo not now >&2; exit 2"));
    let ran = stage.run(&["--continue", "go on"]).expect_code(8);
    assert_eq!(ran.end(), "context_limit");
    assert!(ran.result()["detail"].as_str().unwrap().contains("refused the compaction: not now"), "{}", ran.result());
    let stage =
        stage.with_config(&["PreCompact", "PostCompact", "SessionStart"].map(|event| config(event, LOG)).concat());
    stage.run(&["--continue", "now?"]).expect_code(0);
    let seen: Vec<String> = logged(&stage)
        .iter()
        .map(|said| {
            let more = if said["trigger"].is_null() { &said["source"] } else { &said["trigger"] };
            format!("{} {}", said["hook_event_name"].as_str().unwrap(), more.as_str().unwrap())
        })
        .collect();
    assert_eq!(seen, ["SessionStart resume", "PreCompact auto", "PostCompact auto", "SessionStart compact"]);
}

#[test]
fn a_prompt_that_was_refused_asked_no_model() {
    let config = "[[hooks.UserPromptSubmit]]\ncommand = \"cat >/dev/null; echo not today >&2; exit 2\"\n";
    let stage = Stage::new(json!([])).with_config(config);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(11);
    assert!(ran.stderr.contains("no model was asked · ses_") && !ran.stderr.contains("0 steps"), "{}", ran.stderr);
}

#[test]
fn hooks_hear_of_each_todo_that_is_added_or_done_and_can_refuse_it() {
    let todo = |items: Value| json!({"tools": [{"name": "todo", "args": {"items": items}}]});
    let stage = Stage::new(json!([
        todo(json!([{"text": "write tests", "status": "in_progress"}, {"text": "deploy"}])),
        todo(json!([{"text": "write tests", "status": "in_progress"}])),
        todo(json!([{"text": "write tests", "status": "done"}, {"text": "read", "status": "done"}])),
        todo(json!([{"text": "write tests", "status": "done"}, {"text": "read", "status": "done"}])),
        {"text": "done"},
    ]));
    stage.home.write("created.sh", "input=$(cat); printf '%s\\n' \"$input\" >> created; case \"$input\" in *deploy*) echo 'not today' >&2; exit 2;; esac\n");
    let script = stage.home.path().join("created.sh");
    let hooks = format!(
        "[[hooks.TaskCreated]]\ncommand = \"sh {}\"\n[[hooks.TaskCompleted]]\ncommand = \"cat >> completed; echo >> completed\"\n",
        script.display()
    );
    let stage = stage.with_config(&hooks);
    let ran = stage.run(&["go"]).expect_code(0);
    let outcomes = ran.outcomes();
    assert_eq!(outcomes[0]["status"], "failed", "{outcomes:?}");
    assert!(outcomes[0]["text"].as_str().unwrap().contains("\"deploy\" cannot be added: not today"), "{outcomes:?}");
    assert_eq!([1, 2, 3].map(|at: usize| outcomes[at]["status"].clone()), [json!("ok"), json!("ok"), json!("ok")]);
    let subjects = |name: &str| {
        let heard = stage.workspace.read(name);
        let heard =
            heard.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str::<Value>(line).unwrap());
        heard
            .map(|input| {
                format!("{} {} {}", input["hook_event_name"], input["task_id"], input["task_subject"]).replace('"', "")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        subjects("created"),
        ["TaskCreated 1 write tests", "TaskCreated 2 deploy", "TaskCreated 1 write tests", "TaskCreated 2 read"]
    );
    assert_eq!(subjects("completed"), ["TaskCompleted 1 write tests", "TaskCompleted 2 read"], "each once");
}
