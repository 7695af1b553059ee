//! `!cmd` in a conversation, and the same verb from outside.

use crate::chat::{seat, wait_for};
use crate::stage::{Ran, Stage, descendants, kill, until};
use serde_json::{Value, json};

/// All that the model was sent with its newest request.
fn told(stage: &Stage) -> String {
    serde_json::to_string(&stage.last_messages()).unwrap()
}

fn of_kind(stage: &Stage, kind: &str) -> Vec<Value> {
    stage.journal().into_iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_command_of_ones_own_runs_before_any_word_and_stands_before_the_model_at_its_next_request() {
    let stage = Stage::new(json!([{"text": "I see."}]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("!echo made-$((40+2)); touch made\r");
    wait_for(&person, "│ made-42");
    person.type_keys("!!echo secret-$((50+1))\r");
    wait_for(&person, "│ secret-51");
    wait_for(&person, "kept from the model");
    assert!(stage.provider.requests().is_empty(), "no model was asked");
    person.type_keys("what do you see?\r");
    wait_for(&person, "I see.");
    wait_for(&person, "1 step");
    let told = told(&stage);
    assert!(told.contains("echo made-$((40+2))") && told.contains("made-42"), "{told}");
    assert!(!told.contains("secret-"), "{told}");
    assert!(stage.workspace.path().join("made").exists());
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert_eq!(of_kind(&stage, "user_ran").len(), 2);
}

#[test]
fn beside_a_turn_it_runs_at_once_and_the_next_step_reads_it() {
    let slow = json!({"tools": [{"name": "bash", "args": {"command": "until test -e go; do sleep 0.05; done"}}]});
    let stage = Stage::new(json!([slow, {"text": "It went."}]));
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    wait_for(&person, "until test -e go");
    person.type_keys("!touch go; echo went-$((60+1))\r");
    wait_for(&person, "│ went-61");
    wait_for(&person, "It went.");
    wait_for(&person, "2 steps");
    assert!(told(&stage).contains("went-61"), "{}", told(&stage));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn escape_stops_it_with_all_that_it_started() {
    let stage = Stage::new(json!([]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("!echo began; sleep 1000\r");
    wait_for(&person, "│ began");
    let sleeps = || {
        descendants(person.pid()).iter().any(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("sleep\u{0}1000"))
        })
    };
    until("it sleeps", sleeps);
    person.type_keys("\u{1b}");
    wait_for(&person, "cancelled");
    let sleeps = || {
        descendants(person.pid()).iter().any(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("sleep\u{0}1000"))
        })
    };
    until("nothing of it is left", || !sleeps());
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn an_undo_takes_back_what_it_did_alone_and_a_rule_that_forbids_holds() {
    let stage = Stage::new(json!([{"text": "Hi."}])).with_files([("kept", "before\n")]);
    let stage = stage.with_config("[permission]\n\"bash(shutdown *)\" = \"deny\"\n");
    let mut person = seat(&stage, &["hello there"]);
    wait_for(&person, "1 step");
    person.type_keys("!shutdown now\r");
    wait_for(&person, "forbids");
    // The words come back, and are not sent again by chance.
    wait_for(&person, "! !shutdown now");
    person.type_keys("\u{3}");
    person.type_keys("!echo after > kept; touch new; echo d\u{6f}ne-$((1+1))\r");
    wait_for(&person, "│ done-2");
    assert_eq!(stage.workspace.read("kept"), "after\n");
    person.type_keys("/undo\r");
    wait_for(&person, "taken back");
    assert_eq!(stage.workspace.read("kept"), "before\n");
    assert!(!stage.workspace.path().join("new").exists());
    wait_for(&person, "! !echo after > kept");
    person.type_keys("\u{3}");
    person.type_keys("/redo\r");
    wait_for(&person, "brought back");
    assert_eq!(stage.workspace.read("kept"), "after\n");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn killed_with_piton_it_is_not_run_again_and_its_end_is_found() {
    let stage = Stage::new(json!([{"text": "So it was."}]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("!echo once >> log; echo began; sleep 2; echo over-$((3+4))\r");
    wait_for(&person, "│ began");
    let pids = descendants(person.pid());
    let is_face =
        |pid: &&u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("--model"));
    let face = pids.iter().rfind(is_face).copied().unwrap();
    kill(face, rustix::process::Signal::KILL);
    person.end();
    let ran = Ran::of(stage.run_command(&["--continue", "what became of it?"])).expect_code(0);
    assert_eq!(stage.workspace.read("log"), "once\n", "{ran:?}");
    let settled = of_kind(&stage, "call_settled");
    assert_eq!(settled.len(), 1, "{settled:?}");
    assert_eq!(settled[0]["call"], "u1");
    assert!(settled[0]["outcome"]["text"].as_str().unwrap().contains("over-7"), "{settled:?}");
}

#[test]
fn from_outside_it_is_run_by_the_process_that_has_the_session() {
    let long = json!({"text": "word ".repeat(200), "delta_chars": 5, "delay_ms": 20});
    let stage = Stage::new(json!([long]));
    let mut run = stage.start(&["go on"]);
    until("it speaks", || stage.printed().contains("model_delta"));
    let ran = Ran::of(stage.piton(&["session", "shell", "last", "echo out-$((7+1)); exit 3"]));
    assert_eq!((ran.code, ran.stdout.contains("out-8")), (1, true), "{ran:?}");
    let json = Ran::of(stage.piton(&["session", "shell", "--private", "--json", "last", "pwd"])).expect_code(0);
    let line: Value = serde_json::from_str(json.stdout.trim()).unwrap();
    assert_eq!((line["type"].as_str(), line["call"].as_str()), (Some("ran"), Some("u2")), "{line}");
    run.wait().unwrap();
    let shells = of_kind(&stage, "user_ran");
    assert_eq!(shells[1]["keep_from_model"], true);
    let idle = Ran::of(stage.piton(&["session", "shell", "last", "true"]));
    assert!(idle.code != 0 && idle.stderr.contains("is not running"), "{idle:?}");
}

#[test]
fn a_program_runs_one_by_a_line_of_stream_json() {
    let stage = Stage::new(json!([{"text": "Hi."}]));
    let mut command = stage.run_command(&["--input-format", "stream-json"]);
    let lines = "{\"do\":\"prompt\",\"text\":\"hi\"}\n{\"do\":\"shell\",\"command\":\"echo said-$((1+2))\",\"keep_from_model\":false}\n";
    let input = stage.home.path().join("lines");
    std::fs::write(&input, lines).unwrap();
    command.stdin(std::fs::File::open(&input).unwrap());
    let ran = Ran::of(command).expect_code(0);
    let line = ran.events().into_iter().find(|line| line["type"] == "ran").unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(line["outcome"]["text"], "said-3", "{line}");
}

#[test]
fn ctrl_b_sends_what_runs_to_the_background_and_the_turn_goes_on() {
    let waits = json!({"tools": [{"name": "bash", "args": {"command": "echo began; until test -e go; do sleep 0.05; done; echo over"}}]});
    let stage = Stage::new(json!([waits, {"text": "It goes on without me."}]));
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    wait_for(&person, "│ began");
    person.type_keys("\u{2}");
    wait_for(&person, "It goes on without me.");
    wait_for(&person, "2 steps");
    assert!(told(&stage).contains("sent this command to the background"), "{}", told(&stage));
    stage.workspace.write("go", "");
    wait_for(&person, "background command c1_0 is over");
    person.type_keys("\u{2}");
    wait_for(&person, "nothing runs that could go");
    // One's own goes there, too.
    person.type_keys("!until test -e more; do sleep 0.05; done\r");
    wait_for(&person, "! until test -e more");
    until("it runs", || of_kind(&stage, "call_started").len() == 2);
    person.type_keys("\u{2}");
    until("its call is settled", || of_kind(&stage, "call_settled").len() == 2);
    stage.workspace.write("more", "");
    wait_for(&person, "background command u1 is over");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}
