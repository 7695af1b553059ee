//! Command hooks, checks and answers by a schema, as their users meet them.

use crate::stage::{Ran, Stage, descendants, until};
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
        "its output is not JSON and was ignored: all fine",
        "failed: exit code 3: no such linter",
        "it took longer than 0.2 s; it is not run again",
    ] {
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
    }
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
    let said = run(&[]);
    assert!(
        said.contains("1 hook of")
            && said.contains("settings.json")
            && said.contains("touch ran")
            && said.contains("--trust-hooks"),
        "{said}"
    );
    assert!(!stage.workspace.has("ran"));
    run(&["--trust-hooks"]);
    assert!(stage.workspace.has("ran"));
    std::fs::remove_file(stage.workspace.path().join("ran")).unwrap();
    run(&[]);
    assert!(stage.workspace.has("ran"), "it is remembered");
    stage.workspace.write(".claude/settings.json", settings("touch other"));
    assert!(run(&[]).contains("do not trust them as they are"));
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
    assert!(ran.stderr.contains("`exit 7` does not pass yet (exit code 7)"), "{}", ran.stderr);
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

#[test]
fn a_prompt_that_was_refused_asked_no_model() {
    let config = "[[hooks.UserPromptSubmit]]\ncommand = \"cat >/dev/null; echo not today >&2; exit 2\"\n";
    let stage = Stage::new(json!([])).with_config(config);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(11);
    assert!(ran.stderr.contains("no model was asked · ses_") && !ran.stderr.contains("0 steps"), "{}", ran.stderr);
}
