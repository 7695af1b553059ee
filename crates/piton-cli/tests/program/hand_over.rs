//! A conversation that is left while its turn works: the turn goes on in a process without a terminal.

use crate::chat::{A_WHILE, seat, shown, wait_for};
use crate::stage::{Stage, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::json;
use std::thread::sleep;

/// Leaves the turn to the background, asked about by this key.
fn leave(person: &mut crate::stage::Terminal, key: &str) {
    person.type_keys(key);
    wait_for(person, "leave it to the background");
    sleep(A_WHILE);
    person.type_keys("background\r");
    assert_eq!(person.end(), 0, "{}", shown(person));
}

/// The process in the background, as the conversation named it.
fn successor(screen: &str) -> u32 {
    screen.split("(process ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap()
}

fn events(stage: &Stage, kind: &str) -> usize {
    stage.journal().iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn a_command_goes_on_and_who_attaches_sees_the_turn_end() {
    let command = "echo x >> began; until test -e go; do sleep 0.05; done; echo went-$((40+2))";
    let script = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "It went."}]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    until("it runs", || stage.workspace.has("began"));
    leave(&mut person, "\u{4}");
    let screen = shown(&person);
    assert!(screen.contains("goes on in the background") && screen.contains("piton --attach"), "{screen}");
    let pid = successor(&screen);
    until("the other process has the turn", || events(&stage, "turn_resumed") == 1);
    assert!(is_alive(pid));
    // It has no terminal that could hang up.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    let mut again = seat(&stage, &["--attach", "last"]);
    wait_for(&again, &format!("run by process {pid}"));
    stage.workspace.write("go", "");
    wait_for(&again, "It went.");
    wait_for(&again, "2 steps");
    until("the other process has left", || !is_alive(pid));
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
    assert_eq!(stage.workspace.read("began"), "x\n", "it ran once");
    assert_eq!(stage.provider.requests().len(), 2);
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("went-42")));
}

#[test]
fn a_slash_command_whose_template_still_runs_is_on_record_before_the_turn_is_left() {
    let stage = Stage::new(json!([{"text": "Deployed it."}]));
    let template = "Deploy what is ready: !`echo x >> ran; until test -e go; do sleep 0.05; done; echo all-of-it`";
    stage.home.write(".claude/commands/deploy.md", template);
    let mut person = seat(&stage, &["--yes"]);
    wait_for(&person, "? keys");
    person.type_keys("/deploy\r");
    until("its template runs", || stage.workspace.has("ran"));
    person.type_keys("\u{4}");
    wait_for(&person, "leave it to the background");
    sleep(A_WHILE);
    person.type_keys("background\r");
    sleep(A_WHILE);
    assert_eq!(events(&stage, "user_spoke"), 0);
    stage.workspace.write("go", "");
    assert_eq!(person.end(), 0, "{}", shown(&person));
    until("it is answered", || events(&stage, "turn_ended") == 1);
    assert_eq!(stage.workspace.read("ran"), "x\n", "it ran once");
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("all-of-it")));
}

#[test]
fn the_filters_of_a_repository_run_in_a_sandbox_where_another_process_has_the_session() {
    let stage = Stage::new(json!([{"stall": 60, "text": "never"}])).with_files([("text", "before\n")]);
    let mark = stage.home.path().join("ran-outside");
    let filter = format!("touch '{}'; cat", mark.display());
    for args in [
        &["init", "-q"][..],
        &["add", "text"],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        &["config", "filter.x.clean", &filter],
    ] {
        let git = std::process::Command::new("git").args(args).current_dir(stage.workspace.path()).status();
        assert!(git.unwrap().success());
    }
    stage.workspace.write(".gitattributes", "* filter=x\n");
    stage.workspace.write("text", "after, and of another length\n");
    let mut writer = stage.start(&["wait for it"]);
    until("the model is asked", || !stage.provider.requests().is_empty());
    let mut person = seat(&stage, &["--attach", "last"]);
    wait_for(&person, &format!("run by process {}", writer.id()));
    person.type_keys("/diff git\r");
    wait_for(&person, "against git · 1 hunk in 1 file");
    assert!(!mark.exists());
    kill(writer.id(), Signal::KILL);
    writer.wait().unwrap();
}

#[test]
fn a_reply_that_streams_is_waited_for_and_what_was_queued_is_answered() {
    let slow = json!({"text": "word ".repeat(400), "delta_chars": 5, "delay_ms": 20});
    let stage = Stage::new(json!([slow, {"text": "That, too."}]));
    let mut person = seat(&stage, &["go on and on"]);
    wait_for(&person, "word word");
    person.type_keys("and then this\u{1b}\r");
    wait_for(&person, "next turn: and then this");
    // No command runs that Ctrl-B could move.
    leave(&mut person, "\u{2}");
    let pid = successor(&shown(&person));
    until("both turns are over", || !is_alive(pid));
    assert_eq!(events(&stage, "turn_ended"), 2);
    assert_eq!(
        (events(&stage, "model_failed"), stage.provider.requests().len()),
        (0, 2),
        "no reply was asked for twice"
    );
}

#[test]
fn a_question_waits_until_somebody_attaches_in_the_mode_that_held() {
    let touch = json!({"tools": [{"name": "bash", "args": {"command": "touch made"}}]});
    let stage = Stage::new(json!([touch, {"text": "Done."}]));
    let mut person = seat(&stage, &["--yes", "--sandbox", "off"]);
    wait_for(&person, "? keys");
    // Auto, and then ask.
    person.type_keys("\u{1b}[Z");
    until("it asks from now on", || person.screen().contains("ask · test-model"));
    person.type_keys("make it\r");
    wait_for(&person, "Run this command?");
    sleep(A_WHILE);
    leave(&mut person, "\u{4}");
    let pid = successor(&shown(&person));
    until("the other process has the turn", || events(&stage, "turn_resumed") == 1);
    let mut again = seat(&stage, &["--attach", "last"]);
    wait_for(&again, "Run this command?");
    assert!(!stage.workspace.has("made"));
    sleep(A_WHILE);
    again.type_keys("y");
    wait_for(&again, "Done.");
    until("the other process has left", || !is_alive(pid));
    assert!(stage.workspace.has("made"));
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
}

#[test]
fn a_kill_of_the_process_in_the_background_loses_nothing() {
    let command = "echo x >> began; until test -e go; do sleep 0.05; done";
    let script = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "It went."}]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    until("it runs", || stage.workspace.has("began"));
    leave(&mut person, "\u{4}");
    let pid = successor(&shown(&person));
    until("the other process has the turn", || events(&stage, "turn_resumed") == 1);
    kill(pid, Signal::KILL);
    until("it is gone", || !is_alive(pid));
    stage.workspace.write("go", "");
    stage.run(&["--continue"]).expect_code(0);
    assert_eq!(stage.workspace.read("began"), "x\n", "it ran once");
}
