//! Commands in the background: started, read, ended, and gone with their session, however that ends.

use crate::stage::{Ran, Stage, is_alive, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;

fn background(command: &str) -> Value {
    json!({"tools": [{"name": "bash", "args": {"command": command, "background": true}}]})
}

fn tool(name: &str, args: impl Into<Value>) -> Value {
    let args: Value = args.into();
    json!({"tools": [{"name": name, "args": args}]})
}

/// A foreground command that waits for a file.
fn wait_for(file: &str) -> Value {
    tool("bash", json!({"command": format!("touch waits; until [ -e {file} ]; do sleep 0.02; done")}))
}

fn text(outcome: &Value) -> &str {
    outcome["text"].as_str().unwrap()
}

fn ended(stage: &Stage) -> Vec<Value> {
    stage.journal().into_iter().filter(|event| event["type"] == "task_ended").collect()
}

/// The processes that have this word among their arguments.
fn with_word(word: &str) -> Vec<u32> {
    let of = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let has = |pid: &u32| of(*pid).split(|byte| *byte == 0).any(|argument| argument == word.as_bytes());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_alive(*pid)).filter(has).collect()
}

/// A number of seconds for `sleep` that no other test uses.
fn long(test: u32) -> String {
    format!("{}.{}", 6_000 + test, std::process::id())
}

#[test]
fn a_command_in_the_background_is_read_and_ended_and_its_call_does_not_wait() {
    let word = long(1);
    let server = format!("echo up; until [ -e go ]; do sleep 0.02; done; echo more; sleep {word}");
    let stage = Stage::new(json!([
        background(&server),
        tool("bash", json!({"command": "touch go"})),
        tool("bash_output", json!({"id": "c1_0", "wait_ms": 60000})),
        tool("bash_output", json!({"id": "c1_0", "since": 0})),
        tool("bash_output", json!({"id": "c9_9"})),
        tool("bash_kill", json!({"id": "c1_0"})),
        tool("bash_kill", json!({"id": "c1_0"})),
        tool("bash_output", json!({"id": "c1_0"})),
        {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    let outcomes = ran.outcomes();
    assert_eq!(
        text(&outcomes[0]),
        "Runs in the background as c1_0. bash_output reads it, bash_kill ends it. Output so far:\nup"
    );
    assert_eq!(text(&outcomes[2]), "more\n[c1_0 runs; 8 bytes so far]");
    assert_eq!(text(&outcomes[3]), "up\nmore\n[c1_0 runs; 8 bytes so far]");
    assert!(text(&outcomes[4]).contains("no command `c9_9` was left running in this session. These run: c1_0 ("));
    assert!(text(&outcomes[5]).starts_with("[c1_0 is over: cancelled, "), "{}", outcomes[5]);
    assert!(text(&outcomes[6]).starts_with("[c1_0 was over already: cancelled, "), "{}", outcomes[6]);
    assert!(text(&outcomes[7]).starts_with("(no new output)\n[c1_0 is over: "), "{}", outcomes[7]);
    assert_eq!(ended(&stage).len(), 1, "its end is on record once");
    assert_eq!(with_word(&word), Vec::<u32>::new());
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(!told.contains("The background command"), "the model has read it, and is not told again");
    let shown = Ran::of(stage.piton(&["session", "show", "last"])).expect_code(0);
    shown.expect_stdout(&["[background command c1_0 is over: bash echo up; until"]);
}

#[test]
fn a_command_that_ends_at_once_is_told_of_like_any_other() {
    let stage = Stage::new(json!([background("echo no such port; exit 3"), {"text": "done"}]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!((text(&ran.outcomes()[0]), ended(&stage).len()), ("no such port\nexit code 3", 0));
}

#[test]
fn an_end_is_told_with_the_next_step_behind_all_that_was_sent() {
    let stage = Stage::new(json!([
        background("until [ -e go ]; do sleep 0.02; done; echo last words; exit 3"),
        tool("bash", json!({"command": "touch go; sleep 1"})),
        tool("bash", json!({"command": "true"})),
        {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.all("task_ended").len(), 1);
    let requests = stage.provider.requests();
    let said = |at: usize| serde_json::to_string(&requests[at].body["messages"]).unwrap();
    let told = (0..4).filter(|at| said(*at).contains("The background command c1_0 is over")).collect::<Vec<_>>();
    assert!(told.contains(&3) && !told.contains(&1), "{told:?}");
    let last = requests[3].body["messages"].as_array().unwrap();
    let texts: Vec<String> = last.iter().map(Value::to_string).filter(|message| message.contains("is over")).collect();
    assert_eq!(texts.len(), 1, "it is told once");
    assert!(texts[0].contains("exit 3") && texts[0].contains("last words"), "{texts:?}");
    for (earlier, later) in [(1, 2), (2, 3)] {
        let before = requests[earlier].body["messages"].as_array().unwrap();
        assert_eq!(&requests[later].body["messages"].as_array().unwrap()[..before.len()], &before[..]);
    }
}

#[test]
fn what_runs_in_the_background_ends_with_the_session_which_says_so() {
    let word = long(2);
    // The second ignores the polite signal, the third leaves its parents.
    let stage = Stage::new(json!([
        {"tools": [
            {"name": "bash", "args": {"command": format!("sleep {word}"), "background": true}},
            {"name": "bash", "args": {"command": format!("trap '' TERM; sleep {word} & wait"), "background": true}},
            {"name": "bash", "args": {"command": format!("setsid sleep {word} & sleep {word}"), "background": true}},
        ]},
        {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(with_word(&word), Vec::<u32>::new());
    assert_eq!(ran.result()["end"], "completed");
    let ran = ran.expect_said(&["background command c1_0 ended with the session", "c1_1", "c1_2"]);
    assert!(ran.outcomes().iter().all(|outcome| outcome["status"] == "ok"));
    let statuses: Vec<Value> = ended(&stage).iter().map(|event| event["outcome"]["status"].clone()).collect();
    assert_eq!(statuses, ["cancelled", "cancelled", "cancelled"]);
}

#[test]
fn what_its_sandbox_moved_away_is_told_where_it_ends_with_the_session() {
    let stage = Stage::new(json!([
        background("echo x > .envrc; echo made > there; sleep 600"),
        wait_for("there"),
        {"text": "done", "repeat": true},
    ]));
    // Made while the other runs, and looked at when the first of them ends.
    let ran = stage.run(&["--sandbox", "workspace-write", "go"]).expect_code(0);
    assert!(!stage.workspace.has(".envrc"));
    assert!(text(&ran.outcomes()[1]).contains("[sandbox: .envrc was made or changed"), "{:?}", ran.outcomes());

    let stage = Stage::new(json!([
        background("until [ -e there ]; do sleep 0.02; done; echo x > .envrc; sleep 600"),
        {"text": "done", "repeat": true},
    ]));
    let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
    let mut command = stage.run_command(&["--sandbox", "workspace-write", "--input-format", "stream-json", "go"]);
    let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::piped()).spawn().unwrap();
    until("the turn is over", || stage.printed().contains("turn_ended"));
    stage.workspace.write("there", "");
    until("it is made", || stage.workspace.has(".envrc"));
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(!stage.workspace.has(".envrc"));
    let outcome = &ended(&stage)[0]["outcome"];
    assert!(outcome["metadata"]["undone"][0].as_str().unwrap().starts_with(".envrc was made"), "{outcome}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sandbox: .envrc was made or changed"), "{said}");
}

#[test]
fn a_command_in_the_background_survives_a_killed_piton_and_is_found_by_the_next() {
    let word = long(3);
    let server = format!("echo up; until [ -e go ]; do sleep 0.02; done; echo more; sleep {word}");
    let stage = Stage::new(json!([
        background(&server),
        wait_for("go"),
        tool("bash_output", json!({"id": "c1_0", "wait_ms": 60000})),
        {"text": "done", "repeat": true},
    ]));
    let mut child = stage.start(&["go"]);
    until("the foreground waits", || stage.workspace.has("waits"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    until("the command goes on", || !with_word(&word).is_empty());
    let ran = stage.run(&["--continue", "go on"]).expect_code(0);
    let read = ran.outcomes().into_iter().find(|outcome| text(outcome).contains("c1_0 runs")).unwrap();
    assert!(text(&read).starts_with("more\n"), "{read}");
    assert_eq!(ended(&stage).len(), 1);
    assert_eq!(with_word(&word), Vec::<u32>::new(), "it ends with the session that goes on");
    stage.run(&["--continue", "and again"]).expect_code(0);
    assert_eq!(ended(&stage).len(), 1, "its end is on record once");
}

#[test]
fn an_end_that_no_piton_saw_is_recorded_once_by_the_next() {
    let stage = Stage::new(json!([
        background("until [ -e go ]; do sleep 0.02; done; echo bye; exit 5"), wait_for("never"),
        {"text": "done", "repeat": true},
    ]));
    let mut child = stage.start(&["go"]);
    until("the foreground waits", || stage.workspace.has("waits"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let exit = stage.session_dir().join("calls/c1_0.exit");
    until("it is over", || exit.exists());
    stage.workspace.write("never", "");
    for _ in 0..2 {
        stage.run(&["--continue", "go on"]).expect_code(0);
        let ended = ended(&stage);
        assert_eq!((ended.len(), &ended[0]["outcome"]["metadata"]["exit_code"]), (1, &json!(5)), "{ended:?}");
    }
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert_eq!(told.matches("The background command c1_0 is over").count(), 1);
}

#[test]
fn nobody_has_to_look_for_it_when_no_piton_comes_back() {
    let word = long(4);
    let stage = Stage::new(json!([background(&format!("sleep {word}")), wait_for("never"), {"text": "done"}]))
        .with_config("\n[tools]\nbackground_unattended = 1.5\nbash_timeout = 2\n");
    let mut child = stage.start(&["go"]);
    until("the foreground waits", || stage.workspace.has("waits"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(!with_word(&word).is_empty(), "it goes on for a while");
    until("it is ended", || with_word(&word).is_empty());
    let exit = stage.session_dir().join("calls/c1_0.exit");
    until("that is on record", || {
        std::fs::read_to_string(&exit).is_ok_and(|exit| exit.contains("was not open any more"))
    });
}

#[test]
fn a_person_lists_keeps_and_ends_them() {
    let word = long(5);
    let stage =
        Stage::new(json!([background(&format!("sleep {word}")), wait_for("go"), {"text": "done", "repeat": true}]));
    let mut child = stage.start(&["go"]);
    until("the foreground waits", || stage.workspace.has("waits"));
    let session = |args: &[&str]| Ran::of(stage.piton(&[&["session"], args].concat()));
    session(&["processes", "last"]).expect_code(0).expect_stdout(&["c1_0  running  sleep "]);
    session(&["processes", "last", "--keep", "c9_9"]).expect_code(1).expect_said(&["no command `c9_9`"]);
    session(&["processes", "last", "--keep", "c1_0"]).expect_code(0).expect_stdout(&["c1_0  running, kept  sleep "]);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    assert!(!with_word(&word).is_empty() && ended(&stage).is_empty(), "it goes on without its session");
    let listed = session(&["processes", "last", "--json"]).expect_code(0);
    let listed: Value = serde_json::from_str(listed.stdout.trim()).unwrap();
    assert_eq!((&listed["task"], &listed["running"], &listed["kept"]), (&json!("c1_0"), &json!(true), &json!(true)));
    stage.run(&["--continue", "still there?"]).expect_code(0);
    assert!(!with_word(&word).is_empty(), "nor does the next process end it");
    session(&["kill", "last", "all"]).expect_code(0).expect_said(&["c1_0 ended"]);
    assert_eq!(with_word(&word), Vec::<u32>::new());
    session(&["kill", "last", "c1_0"]).expect_code(0).expect_said(&["c1_0 was over already"]);
    stage.run(&["--continue", "and now?"]).expect_code(0);
    assert_eq!(ended(&stage).len(), 1);
    session(&["processes", "last"]).expect_code(0).expect_stdout(&["c1_0  cancelled, "]);
}

#[test]
fn a_flood_of_them_stays_bounded() {
    let word = long(6);
    let calls: Vec<Value> = (0..20)
        .map(|_| json!({"name": "bash", "args": {"command": format!("sleep {word}"), "background": true}}))
        .collect();
    let stage = Stage::new(json!([{"tools": calls}, {"tools": calls}, {"text": "done"}]))
        .with_config("\n[tools]\nbackground_max = 3\n");
    let ran = stage.run(&["go"]).expect_code(0);
    let (started, refused): (Vec<Value>, Vec<Value>) =
        ran.outcomes().into_iter().partition(|outcome| outcome["status"] == "ok");
    assert_eq!((started.len(), refused.len()), (3, 37));
    assert!(refused.iter().all(|outcome| text(outcome).contains("3 commands run in the background already")));
    assert_eq!(with_word(&word), Vec::<u32>::new());
}

#[test]
fn endless_output_is_capped_and_still_read() {
    let stage = Stage::new(json!([
        background("echo first; head -c 1000000000 /dev/zero | tr '\\0' 'x'; echo; echo last"),
        tool("bash_output", json!({"id": "c1_0", "wait_ms": 100})),
        {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.outcomes().iter().all(|outcome| text(outcome).len() < 70_000));
    let kept = std::fs::metadata(stage.session_dir().join("calls/c1_0.out")).unwrap().len();
    assert!(kept <= 66 << 20, "{kept}");
}

#[test]
fn an_end_that_the_model_wants_to_be_told_of_wakes_a_session_that_stays_open_and_no_other() {
    let script = |gate: &str| {
        json!([
            {"tools": [{"name": "bash", "args": {
                "command": format!("until [ -e {gate} ]; do sleep 0.02; done; echo built"), "background": true, "notify": true,
            }}]},
            {"text": "waiting"},
            {"text": "it is built"},
            {"text": "unasked", "repeat": true},
        ])
    };
    let stage = Stage::new(script("go"));
    let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
    let mut command = stage.run_command(&["--input-format", "stream-json", "build it"]);
    let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.flush().unwrap();
    let turns = || stage.printed().matches(r#""type":"turn_ended""#).count();
    until("the first turn is over", || turns() == 1);
    stage.workspace.write("go", "");
    until("the end of the command wakes another", || turns() == 2);
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("The background command c1_0 is over") && told.contains("built"), "{told}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(turns(), 2, "it wakes one turn");
    drop(input);
    assert!(child.wait().unwrap().success());

    let stage = Stage::new(script("never"));
    let ran = stage.run(&["build it"]).expect_code(0);
    assert_eq!(ran.all("turn_ended").len(), 1, "who waits for one answer gets one");
    ran.expect_said(&["background command c1_0 ended with the session"]);
}

#[test]
fn an_end_in_the_middle_of_an_undo_wakes_the_model_when_it_is_done() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {
            "command": "until [ -e go ]; do sleep 0.02; done; echo built", "background": true, "notify": true,
        }}]},
        {"text": "waiting"},
        tool("write", json!({"path": "made", "content": "x"})),
        {"text": "made"},
        {"text": "it is built", "repeat": true},
    ]));
    let mut talk = Talk::new(&stage, &["build it"]);
    until("the first turn is over", || talk.count("turn_ended") == 1);
    talk.say(r#"{"do":"prompt","text":"make it"}"#);
    until("the second turn is over", || talk.count("turn_ended") == 2);
    talk.say(r#"{"do":"plan","direction":"undo","turns":1,"scope":"both"}"#);
    until("it is planned", || talk.count("planned") == 1);
    let planned = talk.lines().into_iter().find(|line| line["type"] == "planned").unwrap();
    // Whoever compares files with snapshots waits for this.
    let mut stores = std::fs::read_dir(stage.home.path().join("data/snapshots")).unwrap();
    let held = std::fs::File::open(stores.next().unwrap().unwrap().path().join("lock")).unwrap();
    held.lock().unwrap();
    talk.say(json!({"do": "rewind", "rewind": planned["rewind"]}));
    stage.workspace.write("go", "");
    until("the command is over", || ended(&stage).len() == 1);
    assert_eq!(talk.count("turn_started"), 2, "no turn begins under an undo");
    drop(held);
    until("the model is told", || talk.count("turn_ended") == 3);
    assert!(!stage.workspace.has("made"));
    let kinds: Vec<Value> = stage.journal().into_iter().map(|event| event["type"].clone()).collect();
    let at = |kind: &str| kinds.iter().rposition(|of| of == kind).unwrap();
    assert!(at("rewind_finished") < at("turn_started"), "{kinds:?}");
    assert_eq!(talk.end(), 0);
}

#[test]
fn undo_takes_back_what_such_a_command_has_changed_while_the_turn_went_on() {
    let stage = Stage::new(json!([
        background("until [ -e go ]; do sleep 0.02; done; echo late > late; sleep 600"),
        tool("bash", json!({"command": "echo x > go; until [ -s late ]; do sleep 0.02; done"})),
        {"text": "done"},
    ]))
    .with_files([("kept", "kept")]);
    stage.run(&["go"]).expect_code(0);
    assert!(stage.workspace.has("late"));
    Ran::of(stage.piton(&["undo"])).expect_code(0);
    assert!(!stage.workspace.has("late") && !stage.workspace.has("go") && stage.workspace.has("kept"));
}

#[test]
fn undo_names_what_a_kept_command_has_changed_since_its_turn_and_leaves_it() {
    let stage = Stage::new(json!([
        background("echo one > file; touch ready; until [ -e go ]; do sleep 0.02; done; echo two > file; sleep 600"),
        wait_for("ready"),
        wait_for("close"),
        {"text": "done"},
    ]));
    let mut child = stage.start(&["go"]);
    until("it has written", || stage.workspace.has("ready"));
    let session = |args: &[&str]| Ran::of(stage.piton(&[&["session"], args].concat()));
    until("it is on record", || session(&["processes", "last"]).stdout.contains("c1_0"));
    session(&["processes", "last", "--keep", "c1_0"]).expect_code(0);
    stage.workspace.write("close", "");
    assert!(child.wait().unwrap().success());
    stage.workspace.write("go", "");
    until("it has written again", || stage.workspace.read("file") == "two\n");
    let undone = Ran::of(stage.piton(&["undo"]));
    assert!(undone.code != 0 && undone.stderr.contains("file"), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(stage.workspace.read("file"), "two\n");
    session(&["kill", "last", "all"]).expect_code(0);
}

/// Asks the server on this port, which may still be about to start.
fn ask(port: u16) -> Value {
    let script = format!(
        "readlink /proc/self/ns/net; for i in $(seq 200); do curl -sS --noproxy '*' http://localhost:{port}/page && exit; \
         sleep 0.05; done; exit 9"
    );
    tool("bash", json!({"command": script}))
}

#[test]
fn a_server_in_the_background_is_reached_by_later_calls_within_the_sandbox_and_by_nobody_outside() {
    let serve = |port: u16| format!("exec python3 -m http.server {port} --bind 127.0.0.1");
    let (first, second) = (31_777, 31_778);
    let stage = Stage::new(json!([
        {"tools": [
            {"name": "bash", "args": {"command": serve(first), "background": true}},
            {"name": "bash", "args": {"command": serve(second), "background": true}},
        ]},
        ask(first),
        ask(second),
        tool("bash", json!({"command": "touch outside; until [ -e go ]; do sleep 0.02; done"})),
        tool("bash_kill", json!({"id": "c1_0"})),
        ask(second),
        tool("bash", json!({"command": format!("curl -sS --noproxy '*' http://localhost:{first}/page")})),
        {"text": "done"},
    ]))
    .with_files([("page", "it is served")]);
    let mut child = stage.start(&["go"]);
    until("both have answered", || stage.workspace.has("outside"));
    for port in [first, second] {
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it is the sandbox's own network");
    }
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    let settled: Vec<Value> = stage.journal().into_iter().filter(|event| event["type"] == "call_settled").collect();
    let texts: Vec<&str> = settled.iter().map(|event| text(&event["outcome"])).collect();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    for at in [2, 3, 6] {
        assert!(texts[at].ends_with("it is served"), "{texts:?}");
        assert!(!texts[at].contains(own.to_str().unwrap()), "it is in a sandbox: {texts:?}");
    }
    assert!(texts[7].contains("curl: (7)"), "{texts:?}");
}

#[test]
fn a_server_is_reached_again_when_piton_was_killed_in_between() {
    let stage = Stage::new(json!([
        background("exec python3 -m http.server 31779 --bind 127.0.0.1"),
        ask(31_779),
        wait_for("go"),
        ask(31_779),
        {"text": "done"},
    ]))
    .with_files([("page", "it is served")]);
    let mut child = stage.start(&["go"]);
    until("the foreground waits", || stage.workspace.has("waits"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue", "go on"]).expect_code(0);
    let outcomes = ran.outcomes();
    assert!(text(outcomes.last().unwrap()).ends_with("it is served"), "{outcomes:?}");
}

#[test]
fn processes_without_end_in_the_background_leave_room_for_other_calls() {
    let word = long(7);
    let stage = Stage::new(json!([
        background(&format!("bomb() {{ sleep {word} & bomb; }}; bomb 2>/dev/null; for i in $(seq 5000); do sleep {word} & done; wait")),
        tool("bash", json!({"command": "sleep 1; echo still here | cat | cat"})),
        {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(text(&ran.outcomes()[1]), "still here");
    assert_eq!(with_word(&word), Vec::<u32>::new());
}
