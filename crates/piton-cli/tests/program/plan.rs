//! Plan mode: the model finds out and plans, a person decides about the plan, and the session goes on as they say.

use crate::chat::{A_WHILE, seat, shown, wait_for};
use crate::stage::{Ran, Stage, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

const PLAN: &str = "# Fix the parser\n\n1. Read **lex.rs**\n2. Write a test";

fn exit_plan() -> Value {
    json!({"tools": [{"name": "exit_plan", "args": {"plan": PLAN}}]})
}

fn write(path: &str) -> Value {
    json!({"tools": [{"name": "write", "args": {"path": path, "content": "x\n"}}]})
}

/// A stage whose workspace is a repository with nothing in it that could be trusted or not.
fn in_repository(stage: Stage) -> Stage {
    assert!(Command::new("git").args(["init", "-q"]).current_dir(stage.workspace.path()).status().unwrap().success());
    stage
}

fn offers(stage: &Stage, request: usize) -> bool {
    stage.provider.requests()[request].body["tools"].to_string().contains("exit_plan")
}

fn messages(stage: &Stage, request: usize) -> String {
    stage.provider.requests()[request].body["messages"].to_string()
}

/// What the model read last.
fn told(stage: &Stage) -> String {
    stage.last_messages().iter().rev().find(|message| message["role"] == "tool").unwrap()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The plans that are kept below a folder.
fn plans(stage: &Stage) -> Vec<String> {
    let Ok(found) = std::fs::read_dir(stage.workspace.path().join(".piton/plans")) else { return Vec::new() };
    found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn changes(journal: &[Value]) -> Vec<Value> {
    journal.iter().filter(|event| event["type"] == "settings_changed").map(|event| event["changed"].clone()).collect()
}

#[test]
fn a_plan_is_approved_by_a_program_and_the_session_builds_by_the_mode_that_was_chosen() {
    let stage =
        in_repository(Stage::new(json!([write("early.txt"), exit_plan(), write("late.txt"), {"text": "Done."}])));
    let mut talk = Talk::new(&stage, &["--agent", "plan", "fix it"]);
    until("it asks", || talk.count("wanted") == 1);
    assert!(offers(&stage, 0) && messages(&stage, 0).contains("Plan mode is on"));
    assert_eq!(messages(&stage, 1).matches("Plan mode is on").count(), 1, "once a turn");
    assert!(!stage.workspace.has("early.txt"));
    let wanted = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    let inquiry = &wanted["approval"]["inquiry"];
    assert_eq!(inquiry["plan"]["text"], PLAN);
    let [kept] = &plans(&stage)[..] else { panic!("one file: {:?}", plans(&stage)) };
    assert!(kept.ends_with("-fix-the-parser.md"), "{kept}");
    assert_eq!(inquiry["plan"]["file"], format!(".piton/plans/{kept}"));
    assert_eq!(stage.workspace.read(format!(".piton/plans/{kept}")), format!("{PLAN}\n"));
    let chosen = inquiry["questions"][0]["options"][1]["label"].clone();
    talk.say(json!({"do": "answer", "subject": wanted["subject"], "decision": {"answered": [[chosen]]}}));
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert!(stage.workspace.has("late.txt") && !stage.workspace.has("early.txt"));
    let read = messages(&stage, 2);
    assert!(read.contains("The user approved of the plan.") && read.contains(kept.as_str()), "{read}");
    assert!(!read.contains("Plan mode is off: you may"), "it is said once");
    let journal = stage.journal();
    let last = changes(&journal).pop().unwrap();
    assert_eq!((&last["mode"], &last["agent"]), (&json!("accept-edits"), &json!("build")));
    assert_eq!(talk.lines().iter().filter(|line| line["type"] == "agent_changed").count(), 2);
    let at = |kind: &str| journal.iter().rposition(|event| event["type"] == kind).unwrap();
    assert_eq!(at("approval_given") + 1, at("settings_changed"), "the answer and the mode are one transaction");
    // Whoever resumes it builds, too, and is offered no way out of a mode that is over.
    let model = ["run", "--format", "stream-json", "--model", "openai-chat/test-model", "--continue", "and on"];
    let ran = Ran::of(stage.piton(&model));
    assert_eq!(ran.all("opened")[0]["agent"], "build");
    assert!(
        ran.all("turn_started").iter().all(|turn| turn["policy"]["permission_mode"] == "accept-edits"),
        "{}",
        ran.stdout
    );
    assert!(!offers(&stage, stage.provider.requests().len() - 1));
}

#[test]
fn words_send_it_back_and_the_mode_stays() {
    let stage = in_repository(Stage::new(json!([exit_plan(), write("early.txt"), {"text": "Hm."}])));
    let mut talk = Talk::new(&stage, &["--agent", "plan", "fix it"]);
    until("it asks", || talk.count("wanted") == 1);
    talk.say(r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"answered":[["no tests, please"]]}}"#);
    until("it is over", || talk.count("result") == 1);
    talk.end();
    assert!(messages(&stage, 1).contains("The user sends the plan back: no tests, please"));
    assert!(!stage.workspace.has("early.txt") && told(&stage).contains("permission mode plan"), "{}", told(&stage));
    assert_eq!(changes(&stage.journal()).len(), 1, "only that it plans");
}

#[test]
fn headless_it_is_approved_where_everything_is_let_pass_and_refused_elsewhere() {
    let script = json!([exit_plan(), write("late.txt"), {"text": "Done."}]);
    let stage = Stage::new(script.clone());
    let ran = stage.run(&["--agent", "plan", "fix it"]).expect_code(0);
    assert!(stage.workspace.has("late.txt"), "{}", ran.stdout);
    assert!(messages(&stage, 1).contains("The plan is approved."));
    let given = ran.all("approval_given").remove(0);
    assert_eq!((&given["decision"], &given["by"]), (&json!("approve"), &json!("rules")));
    assert_eq!(changes(&stage.journal()).pop().unwrap()["mode"], "auto");
    // It is no repository: the plan is in the session's folder.
    assert!(plans(&stage).is_empty() && !stage.workspace.has(".piton"));
    let read = messages(&stage, 1);
    let kept = read.split("kept in ").nth(1).unwrap().split(".md.").next().unwrap();
    let kept = std::fs::read_to_string(format!("{kept}.md")).unwrap();
    assert_eq!(kept, format!("{PLAN}\n"));

    let stage = Stage::new(script);
    let model = ["run", "--format", "stream-json", "--model", "openai-chat/test-model", "--mode", "plan", "fix it"];
    Ran::of(stage.piton(&model));
    assert!(messages(&stage, 1).contains("nobody is there to decide about it"), "{}", messages(&stage, 1));
    assert!(!stage.workspace.has("late.txt"));
    assert!(changes(&stage.journal()).is_empty());
}

#[test]
fn an_untrusted_repository_gets_no_file() {
    let agent = "---\nname: x\n---\nx\n";
    let stage =
        in_repository(Stage::new(json!([exit_plan(), {"text": "Done."}]))).with_files([(".claude/agents/x.md", agent)]);
    stage.run(&["--agent", "plan", "fix it"]).expect_code(0);
    assert!(plans(&stage).is_empty());
    assert!(messages(&stage, 1).contains("The plan is kept in /"), "{}", messages(&stage, 1));
}

#[test]
fn a_question_about_a_plan_outlives_a_killed_process() {
    let stage = in_repository(Stage::new(json!([exit_plan(), write("late.txt"), {"text": "Done."}])));
    let mut talk = Talk::new(&stage, &["--agent", "plan", "fix it"]);
    until("it asks", || talk.count("wanted") == 1);
    kill(talk.child.id(), Signal::KILL);
    talk.child.wait().unwrap();
    let mut talk = Talk::new(&stage, &["--continue"]);
    // Whether it is answered before the turn goes on, or after it was asked anew: the answer counts.
    until("it shows the question", || talk.count("wanted") > 0);
    assert_eq!(plans(&stage).len(), 1, "it is the same plan");
    talk.say(r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"answered":[["Go on, and make edits without asking"]]}}"#);
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert!(stage.workspace.has("late.txt"));
}

#[test]
fn what_an_approved_plan_leads_back_to_outlives_a_killed_process() {
    let stage = Stage::new(json!([{"text": "one"}, exit_plan(), {"text": "Done."}]));
    let config = stage.home.read("config.toml");
    stage.home.write("config.toml", format!("permission_mode = \"accept-edits\"\n{config}"));
    let stage = in_repository(stage);
    let mut talk = Talk::new(&stage, &["go"]);
    until("the first turn is over", || talk.count("result") == 1);
    talk.say(r#"{"do":"configure","mode":"ask"}"#);
    talk.say(r#"{"do":"configure","agent":"plan"}"#);
    talk.say(r#"{"do":"prompt","text":"plan it"}"#);
    until("it asks", || talk.count("wanted") == 1);
    kill(talk.child.id(), Signal::KILL);
    talk.child.wait().unwrap();
    let mut talk = Talk::new(&stage, &["--continue"]);
    until("it shows the question", || talk.count("wanted") > 0);
    let wanted = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    let as_before = &wanted["approval"]["inquiry"]["questions"][0]["options"][0]["label"];
    talk.say(json!({"do": "answer", "subject": wanted["subject"], "decision": {"answered": [[as_before]]}}));
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    let changes = changes(&stage.journal());
    let modes: Vec<&Value> = changes.iter().map(|changed| &changed["mode"]).filter(|mode| !mode.is_null()).collect();
    assert_eq!(modes, ["ask", "plan", "ask"], "{changes:?}");
    assert_eq!(changes[changes.len() - 2]["mode_before"], "ask", "{changes:?}");
}

#[test]
fn the_mode_is_the_plan_mode_however_it_is_set_and_the_model_hears_when_it_is_over() {
    let stage = Stage::new(json!([{"text": "one"}, {"text": "two"}, exit_plan(), {"text": "three"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the first turn is over", || talk.count("result") == 1);
    talk.say(r#"{"do":"configure","mode":"plan"}"#);
    talk.say(r#"{"do":"prompt","text":"plan it"}"#);
    until("the second turn is over", || talk.count("result") == 2);
    talk.say(r#"{"do":"configure","mode":"auto"}"#);
    talk.say(r#"{"do":"prompt","text":"do it"}"#);
    until("the third turn is over", || talk.count("result") == 3);
    assert_eq!(talk.end(), 0);
    assert_eq!([0, 1, 2].map(|at| offers(&stage, at)), [false, true, false]);
    assert!(!messages(&stage, 0).contains("Plan mode"));
    assert!(messages(&stage, 1).contains("Plan mode is on"));
    assert!(messages(&stage, 2).contains("Plan mode is off: you may change things again"));
    assert!(told(&stage).contains("This session is not in plan mode"), "{}", told(&stage));
    // What was sent is not changed: the beginning of the conversation is the same in all of them.
    let first =
        |at: usize| stage.provider.requests()[at].body["messages"].as_array().unwrap()[..3.min(at + 2)].to_vec();
    assert_eq!(first(1)[..2], first(2)[..2]);
}

#[test]
fn an_agent_that_only_reads_has_nothing_to_ask_for() {
    let reader = "---\nname: reader\npermissionMode: plan\n---\nYou read.\n";
    let stage = Stage::new(json!([{"text": "ok"}])).with_files([(".piton/agents/reader.md", reader)]);
    stage.run(&["--trust", "--agent", "reader", "look"]).expect_code(0);
    assert!(!offers(&stage, 0) && !messages(&stage, 0).contains("Plan mode is on"));
}

#[test]
fn at_a_terminal_the_plan_is_read_and_answered_by_a_number() {
    let stage = Stage::new(json!([exit_plan(), {"text": "Off I go."}]));
    let mut person = stage.terminal(&["run", "--agent", "plan", "--model", "openai-chat/test-model", "fix it"]);
    until("it asks", || person.screen().contains("1-2, or your own words"));
    let screen = person.screen();
    assert!(screen.contains("Write a test") && screen.contains("1 Go on, and ask about each change"), "{screen}");
    person.type_line("1");
    assert_eq!(person.end(), 0);
    assert!(told(&stage).contains("the user is asked about changes"), "{}", told(&stage));
}

#[test]
fn in_a_conversation_the_plan_is_drawn_and_the_status_line_has_the_mode_that_was_chosen() {
    let stage = in_repository(Stage::new(json!([exit_plan(), {"text": "Off I go."}])));
    let mut person = seat(&stage, &["--agent", "plan"]);
    wait_for(&person, "? keys");
    until("it plans", || person.screen().contains("plan · test-model"));
    person.type_keys("fix it\r");
    wait_for(&person, "1-2 choose");
    let all = shown(&person);
    let asked: Vec<&str> = all.lines().filter(|line| line.starts_with(['╭', '│', '╰'])).collect();
    let asked = asked.join("\n");
    // Drawn, and not as it was written.
    assert!(asked.contains("Fix the parser") && !asked.contains("# Fix") && !asked.contains("**lex.rs**"), "{asked}");
    assert!(asked.contains("kept in .piton/plans/") && asked.contains("v all of it"), "{asked}");
    std::thread::sleep(A_WHILE);
    person.type_keys("2");
    wait_for(&person, "Off I go.");
    until("the mode is shown", || person.screen().contains("accept-edits · test-model"));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_plan_is_edited_and_what_is_approved_is_what_was_edited_then() {
    let stage = in_repository(Stage::new(json!([exit_plan(), {"text": "Off I go."}])));
    stage.home.write("editor", "#!/bin/sh\nsed -i 's/Write a test/Write two tests/' \"$1\"\n");
    let before = format!("stty rows 24 cols 90; export EDITOR='sh {}/editor'; ", stage.home.path().display());
    let line = ["--model", "openai-chat/test-model", "--agent", "plan"];
    let mut person = stage.terminal_behind(&before, &[&line[..], &["fix it"]].concat());
    wait_for(&person, "e edit it");
    std::thread::sleep(A_WHILE);
    // From its page, too.
    person.type_keys("v");
    wait_for(&person, "e edits it");
    person.type_keys("e");
    wait_for(&person, "Write two tests");
    wait_for(&person, "1-2 choose");
    // It outlives a kill.
    let is_face = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.starts_with(b"sh"));
    crate::stage::descendants(person.pid()).into_iter().filter(is_face).for_each(|pid| kill(pid, Signal::KILL));
    drop(person);
    let mut person = stage.terminal_behind(&before, &[&line[..], &["-c"]].concat());
    wait_for(&person, "Write two tests");
    assert!(
        !stage.journal().iter().any(|event| event["type"] == "settings_changed" && event["changed"]["mode"] == "ask")
    );
    std::thread::sleep(A_WHILE);
    person.type_keys("1");
    wait_for(&person, "Off I go.");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert_eq!(plans(&stage).len(), 2, "a file of its own: {:?}", plans(&stage));
    let told = told(&stage);
    assert!(
        told.contains("The user approved") && told.contains("The plan was changed after you proposed it."),
        "{told}"
    );
    assert!(told.contains("2. Write two tests") && !told.contains("Write a test"), "{told}");
}

#[test]
fn a_harmless_command_changes_nothing_while_it_is_planned_whatever_its_program_does() {
    let list = json!({"tools": [{"name": "bash", "args": {"command": "ls"}}]});
    let stage = Stage::new(json!([list, {"text": "Seen."}, list, {"text": "Seen."}]));
    let ls = stage.home.path().join("bin/ls");
    stage.home.write("bin/ls", "#!/bin/sh\n/bin/touch written && echo wrote\n/bin/touch /tmp/x && echo has-a-tmp\n");
    assert!(Command::new("chmod").arg("+x").arg(&ls).status().unwrap().success());
    let run = |mode: &str| {
        let mut piton =
            stage.piton(&["run", "--format", "stream-json", "--model", "openai-chat/test-model", "--mode", mode, "go"]);
        piton.env("PATH", format!("{}/bin:{}", stage.home.path().display(), std::env::var("PATH").unwrap()));
        Ran::of(piton).expect_code(0)
    };
    let ran = run("plan");
    let text = ran.outcomes()[0]["text"].to_string();
    assert!(text.contains("Read-only file system") && text.contains("has-a-tmp"), "{text}");
    assert!(!stage.workspace.has("written"));
    // Its twin: the same command where nobody plans.
    let ran = run("ask");
    assert!(ran.outcomes()[0]["text"].to_string().contains("wrote"), "{}", ran.stdout);
    assert!(stage.workspace.has("written"));
}
