//! One writer, many readers: what other processes see of a session that runs, say in it and stop of it.

use crate::stage::{Ran, Stage, descendants, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A command that runs until the test lets it go on.
const GATE: &str = "echo begun; touch started; until [ -e go ]; do sleep 0.02; done; echo through";

/// One call that waits at the gate, and then an answer.
fn gated() -> Stage {
    Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "done", "repeat": true}]))
}

/// Starts the gated run and waits until it stands at the gate and can be reached.
fn at_the_gate(stage: &Stage) -> Child {
    let child = stage.start(&["go"]);
    until("the command runs", || stage.workspace.has("started"));
    until("it can be reached", || stage.session_dir().join("control.sock").exists());
    child
}

fn id(stage: &Stage) -> String {
    stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned()
}

/// A process that goes on beside the test.
struct Beside {
    child: Child,
    folder: tempfile::TempDir,
}

fn start(mut command: Command) -> Beside {
    let folder = tempfile::tempdir().unwrap();
    let file = |name| File::create(folder.path().join(name)).unwrap();
    Beside { child: command.stdout(file("out")).stderr(file("err")).spawn().unwrap(), folder }
}

/// The same, once it has reached the writer.
fn start_beside_the_writer(command: Command) -> Beside {
    let started = start(command);
    until("it has reached the writer", || started.printed("err").contains("is run by process"));
    started
}

impl Beside {
    fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn end(mut self) -> Ran {
        let code = self.child.wait().unwrap().code().unwrap();
        Ran { code, stdout: self.printed("out"), stderr: self.printed("err") }
    }
}

fn follow(stage: &Stage) -> Command {
    stage.piton(&["session", "follow", "--format", "stream-json", &id(stage)])
}

fn records(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line.get("seq").is_some()).cloned().collect()
}

fn user_messages(stage: &Stage) -> Vec<String> {
    let said = stage.journal().into_iter().filter(|event| event["type"] == "user_spoke");
    said.map(|event| event["parts"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned()).collect()
}

/// A line to the writer, spoken by hand.
struct Line(BufReader<UnixStream>);

impl Line {
    fn open(stage: &Stage) -> Self {
        let mut line = Self::strange(stage);
        line.say(&json!({"do": "hello", "protocol": 2}));
        line
    }

    /// One that has not said which protocol it speaks.
    fn strange(stage: &Stage) -> Self {
        Self(BufReader::new(UnixStream::connect(stage.session_dir().join("control.sock")).unwrap()))
    }

    fn say(&mut self, request: &Value) {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    /// The next line of this type; `None` when the line is cut.
    fn hear(&mut self, kind: &str) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let value: Value = serde_json::from_str(&line).unwrap();
            if value["type"] == kind {
                return Some(value);
            }
        }
    }
}

#[test]
fn a_follower_hears_every_record_once_and_the_output_as_it_comes() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let follower = start_beside_the_writer(follow(&stage));
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    let followed = follower.end().expect_code(0);
    assert_eq!(records(&followed.events()), stage.journal());
    followed.expect_said(&[&format!("is run by process {}", child.id()), "has left"]);
    let later = Ran::of(follow(&stage)).expect_code(0);
    assert_eq!(records(&later.events()), stage.journal());
    later.expect_said(&["is not running", "this is all there is"]);
    let some = Ran::of(stage.piton(&["session", "follow", "--format", "stream-json", "--from", "4", &id(&stage)]));
    assert_eq!(records(&some.events()), stage.journal()[3..]);
}

#[test]
fn a_follower_hears_what_a_command_prints_while_it_runs() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::open(&stage);
    line.say(&json!({"do": "follow"}));
    line.hear("caught_up").unwrap();
    stage.workspace.write("go", "");
    until("the rest is heard", || line.hear("tool_output").unwrap()["text"].as_str().unwrap().ends_with("through\n"));
    assert!(child.wait().unwrap().success());
    assert!(line.hear("writer_closed").is_some() || line.hear("anything").is_none(), "then the line ends");
}

#[test]
fn a_person_follows_in_words() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let follower = start_beside_the_writer(stage.piton(&["session", "follow", &id(&stage)]));
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    let followed = follower.end().expect_code(0);
    assert_eq!(followed.stdout, "done\n");
    followed.expect_said(&["» go", "✓ bash", "2 steps", "has left"]);
}

#[test]
fn a_prompt_from_another_process_joins_the_turn_and_both_hear_how_it_ends() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let second = start(stage.run_command(&["--continue", "and be kind"]));
    let third = start(stage.run_command(&["--continue", "and be quick"]));
    until("both are heard", || user_messages(&stage).len() == 3);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    let (second, third) = (second.end().expect_code(0), third.end().expect_code(0));
    let own: Value = serde_json::from_str(stage.printed().lines().last().unwrap()).unwrap();
    assert_eq!((second.result(), third.result()), (own.clone(), own), "one turn, three reports");
    let last = Value::from(stage.last_messages()).to_string();
    assert!(last.contains("and be kind") && last.contains("and be quick"), "{last}");
    second.expect_said(&[&format!("is run by process {}", child.id()), "your prompt is sent there"]);
}

#[test]
fn without_a_prompt_the_turn_under_way_is_watched_to_its_end() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let second = start_beside_the_writer(stage.run_command(&["--resume", &id(&stage)]));
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(second.end().expect_code(0).result()["text"], "done");
}

#[test]
fn a_follow_up_that_is_not_answered_when_the_writer_leaves_waits_for_the_next_one() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::open(&stage);
    assert_eq!(line.hear("hello").unwrap()["pid"], child.id());
    let prompt = json!({"do": "prompt", "text": "then this", "delivery": "follow_up", "message": "m1", "wait": true});
    line.say(&prompt);
    assert_eq!(line.hear("accepted").unwrap()["message"], "m1");
    line.say(&prompt);
    assert_eq!(line.hear("accepted").unwrap()["message"], "m1", "who asks twice is not heard twice");
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success(), "the first run ends with its own turn");
    assert!(line.hear("ended").is_none());
    assert_eq!(user_messages(&stage), ["go", "then this"]);
    assert!(!stage.last_messages().last().unwrap().to_string().contains("then this"));
    stage.run(&["--continue"]).expect_code(0);
    assert!(stage.last_messages().last().unwrap().to_string().contains("then this"));
    assert_eq!(user_messages(&stage), ["go", "then this"], "it was queued, and nothing else was said");
}

#[test]
fn a_client_of_an_older_protocol_is_told_what_to_do() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::strange(&stage);
    line.say(&json!({"do": "prompt", "text": "me too"}));
    let error = line.hear("refused").unwrap()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("protocol 2") && error.contains("same version"), "{error}");
    assert!(line.hear("accepted").is_none(), "and is shown out");
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(user_messages(&stage), ["go"]);
}

#[test]
fn who_comes_late_hears_what_is_under_way() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::open(&stage);
    line.say(&json!({"do": "follow", "from": 1000}));
    let now = line.hear("now").unwrap();
    assert_eq!((&now["phase"], &now["turn"], &now["paused"]), (&json!("tools"), &json!(1), &json!(false)));
    line.hear("caught_up").unwrap();
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_that_waits_is_told_the_end_of_its_turn() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::open(&stage);
    line.say(&json!({"do": "prompt", "text": "me too", "message": "m1", "wait": true}));
    line.hear("accepted").unwrap();
    stage.workspace.write("go", "");
    let ended = line.hear("ended").unwrap();
    assert_eq!((&ended["message"], &ended["end"], &ended["text"]), (&json!("m1"), &json!("completed"), &json!("done")));
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_understood_is_refused_and_the_line_goes_on() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut line = Line::open(&stage);
    line.say(&json!({"do": "dance"}));
    assert!(line.hear("refused").unwrap()["error"].as_str().unwrap().contains("dance"));
    line.say(&json!({"id": 7, "do": "answer", "subject": {"call": "c1_0"}, "decision": "approve"}));
    assert_eq!(line.hear("not_open").unwrap()["re"], 7, "an answer that does not count says so");
    let mode = std::fs::metadata(stage.session_dir().join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else comes in");
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    assert!(!stage.session_dir().join("control.sock").exists(), "it is taken away");
}

#[test]
fn a_session_is_cancelled_from_another_process() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let tree = descendants(child.id());
    let cancel = || Ran::of(stage.piton(&["session", "cancel", &id(&stage)])).expect_code(0);
    assert_eq!(cancel().stdout, format!("stopped turn 1 of {}\n", &id(&stage)[..20]));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("its processes are gone", || !tree.iter().any(|pid| is_alive(*pid)));
    cancel().expect_said(&["nothing to stop: ses_"]);
}

#[test]
fn ctrl_c_in_the_second_process_only_stops_the_watching() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let second = start(stage.run_command(&["--continue", "and be kind"]));
    until("it is heard", || user_messages(&stage).len() == 2);
    kill(second.child.id(), Signal::INT);
    second.end().expect_code(130).expect_said(&["no longer watching", "piton session cancel"]);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    assert!(Value::from(stage.last_messages()).to_string().contains("and be kind"));
}

#[test]
fn a_writer_that_is_killed_is_reported_by_everyone_who_waits() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let follower = start_beside_the_writer(follow(&stage));
    let second = start(stage.run_command(&["--continue", "and be kind"]));
    until("it is heard", || user_messages(&stage).len() == 2);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let pid = format!("(process {})", child.id());
    second.end().expect_code(1).expect_said(&[&pid, "in the middle of a turn", "what you said is kept", "--resume"]);
    follower.end().expect_code(1).expect_said(&[&pid, "in the middle of a turn"]);
    assert!(stage.session_dir().join("control.sock").exists(), "a killed process takes nothing away");
    let cut = Ran::of(follow(&stage)).expect_code(0);
    cut.expect_said(&["is not running", "cut off in the middle of a turn", "--resume"]);

    let mut again = stage.start(&["--continue"]);
    until("the session is open again", || stage.printed().contains("turn_resumed"));
    let follower = start_beside_the_writer(follow(&stage));
    stage.workspace.write("go", "");
    assert!(again.wait().unwrap().success());
    assert_eq!(records(&follower.end().expect_code(0).events()), stage.journal(), "the dead one's socket was replaced");
}

#[test]
fn a_joined_run_that_is_killed_leaves_what_it_said_and_nothing_else() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    let mut second = start(stage.run_command(&["--continue", "and be kind"]));
    until("it is heard", || user_messages(&stage).len() == 2);
    let third = start_beside_the_writer(stage.piton(&["run", "--continue"]));
    kill(second.child.id(), Signal::KILL);
    second.child.wait().unwrap();
    let fourth = start(stage.run_command(&["--continue", "and be quick"]));
    until("the writer hears others as before", || user_messages(&stage).len() == 3);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    third.end().expect_code(0).expect_stdout(&["done"]);
    assert_eq!(fourth.end().expect_code(0).result()["text"], "done");
    assert_eq!(user_messages(&stage), ["go", "and be kind", "and be quick"]);
    assert!(Value::from(stage.last_messages()).to_string().contains("and be kind"));
}

#[test]
fn a_person_who_joins_is_asked_and_nobody_once_that_run_is_killed() {
    let write = |path: &str| json!({"tools": [{"name": "write", "args": {"path": path, "content": "x"}}]});
    let gate = json!({"tools": [{"name": "bash", "args": {"command": GATE}}]});
    let script = json!([gate, write("a"), write("b"), {"text": "one of two"}]);
    let stage = Stage::new(script).with_config("[permission]\nbash = \"allow\"\nwrite = \"ask\"\n");
    let writer = stage.piton(&["run", "--format", "stream-json", "--model", "openai-chat/m", "go"]);
    let writer = start(writer);
    until("the command runs", || stage.workspace.has("started"));
    until("it can be reached", || stage.session_dir().join("control.sock").exists());
    let mut person = stage.terminal(&["run", "--continue"]);
    until("it has reached the writer", || person.screen().contains("is run by process"));
    stage.workspace.write("go", "");
    let asked = || person.screen().matches("[y]es, [a]lways write").count();
    until("the person is asked", || asked() == 1);
    assert!(!stage.workspace.has("a"), "nothing is written before the answer");
    person.type_line("y");
    until("the person is asked again", || {
        stage.workspace.has("a") && person.screen().matches("[y]es, [a]lways write").count() == 2
    });
    descendants(person.pid()).into_iter().for_each(|pid| kill(pid, Signal::KILL));
    let ran = writer.end().expect_code(3);
    assert_eq!(ran.end(), "tool_denied");
    assert!(!stage.workspace.has("b"));
    assert_eq!((ran.all("wanted").len(), ran.all("withdrawn").len()), (2, 2));
    let given: Vec<Value> = ran.all("approval_given").iter().map(|given| given["by"].clone()).collect();
    assert_eq!(given, ["user", "nobody"]);
}

#[test]
fn a_command_that_outlived_its_writer_is_heard_live_by_the_next_one() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let mut again = stage.start(&["--continue"]);
    until("what it has printed is heard", || stage.printed().contains(r#""text":"begun\n""#));
    assert!(!stage.printed().contains("call_settled"), "it still runs");
    stage.workspace.write("go", "");
    assert!(again.wait().unwrap().success());
    let printed = stage.printed();
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let heard = lines.iter().filter(|line| line["type"] == "tool_output").map(|line| line["text"].as_str().unwrap());
    assert_eq!(heard.collect::<String>(), "begun\nthrough\n", "each byte once");
}

#[test]
fn a_data_folder_of_any_length_can_be_reached() {
    let stage = gated();
    let deep = stage.home.path().join("d".repeat(120)).join("e".repeat(120));
    let at = |mut command: Command| {
        command.env("PITON_DATA_DIR", &deep);
        command
    };
    let mut child = at(stage.run_command(&["go"])).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the command runs", || stage.workspace.has("started"));
    let sessions: Vec<_> = std::fs::read_dir(deep.join("sessions")).unwrap().collect();
    let id = sessions[0].as_ref().unwrap().file_name().into_string().unwrap();
    let cancelled = Ran::of(at(stage.piton(&["session", "cancel", &id]))).expect_code(0);
    assert!(cancelled.stdout.contains("stopped turn 1"), "{}", cancelled.stderr);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn whoever_speaks_while_the_writer_leaves_is_answered_all_the_same() {
    let stage = Stage::new(json!([{"text": "hello", "repeat": true}]));
    stage.run(&["first"]).expect_code(0);
    for round in 0..6 {
        let runs: Vec<Beside> =
            (0..3).map(|number| start(stage.run_command(&["--continue", &format!("word {round}.{number}")]))).collect();
        for run in runs {
            let ran = run.end();
            assert_eq!((ran.code, ran.result()["text"].as_str()), (0, Some("hello")), "{}", ran.stderr);
        }
    }
    let mut said = user_messages(&stage);
    said.sort();
    let expected = (0..6).flat_map(|round| (0..3).map(move |number| format!("word {round}.{number}")));
    assert_eq!(said, ["first".to_owned()].into_iter().chain(expected).collect::<Vec<_>>(), "each once");
    let verified = Ran::of(stage.piton(&["session", "verify", &id(&stage)])).expect_code(0);
    assert!(verified.stdout.contains("every one in its place"));
}

#[test]
fn a_list_says_which_session_runs() {
    let stage = gated();
    let mut child = at_the_gate(&stage);
    Ran::of(stage.piton(&["session", "list"])).expect_code(0).expect_stdout(&["running"]);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());
    Ran::of(stage.piton(&["session", "list"])).expect_code(0).expect_stdout(&["completed"]);
    let none = Stage::new(json!([]));
    Ran::of(none.piton(&["session", "show", "last"])).expect_code(1).expect_said(&[" has no session yet"]);
}

#[test]
fn model_mode_tools_and_title_are_changed_beside_the_process_that_runs_the_session() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "done"},
        {"tools": [{"name": "write", "args": {"path": "a.txt", "content": "x"}}]}, {"text": "planned", "repeat": true},
    ]));
    let mut child = at_the_gate(&stage);
    let id = id(&stage);
    let session = |args: &[&str]| Ran::of(stage.piton(&[&["session"], args].concat()));
    let later = "the turn under way keeps its models and tools";
    session(&["model", &id, "openai-chat/other"]).expect_code(0).expect_said(&["model openai-chat/other", later]);
    session(&["mode", &id, "plan"]).expect_code(0).expect_said(&["from the next step on: permission mode plan"]);
    session(&["effort", &id, "hihg"]).expect_code(2).expect_said(&["hihg"]);
    session(&["tools", &id, "read", "bash", "write"]).expect_code(0).expect_said(&["tools read, bash, write", later]);
    session(&["model", &id, "nobody/other"]).expect_code(1).expect_said(&["the model was not changed", "nobody"]);
    session(&["tools", &id, "wriet"]).expect_code(1).expect_said(&["there is no tool `wriet`"]);
    session(&["rename", &id, "At the gate"]).expect_code(0).expect_said(&["renamed"]);
    stage.workspace.write("go", "");
    assert!(child.wait().unwrap().success());

    // It is kept by who resumes without flags.
    let resumed = Ran::of(stage.piton(&["run", "--resume", &id, "write it", "--format", "stream-json"]));
    let turn = resumed.expect_code(0).all("turn_started").pop().unwrap();
    assert_eq!((&turn["model"], &turn["policy"]["permission_mode"]), (&json!("openai-chat/other"), &json!("plan")));
    assert!(!stage.workspace.has("a.txt"), "in plan nothing is written");
    let body = stage.provider.requests().pop().unwrap().body;
    let tools: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!((body["model"].as_str(), tools), (Some("other"), vec!["bash", "exit_plan", "read", "write"]));
    assert!(stage.journal().iter().any(|event| event["title"] == "At the gate"));

    // Flags say otherwise for one run, and a change at rest is kept, too.
    let flagged = Ran::of(stage.piton(&["run", "--resume", &id, "--yes", "again", "--format", "stream-json"]));
    assert_eq!(flagged.expect_code(0).all("turn_started").pop().unwrap()["policy"]["permission_mode"], "auto");
    session(&["mode", &id, "accept-edits"]).expect_code(0).expect_said(&["permission mode accept-edits"]);
    let shown = Ran::of(stage.piton(&["session", "show", &id])).expect_code(0);
    shown.expect_stdout(&["[from the next turn on: permission mode accept-edits]"]);
    let resumed = Ran::of(stage.piton(&["run", "--resume", &id, "once more", "--format", "stream-json"]));
    assert_eq!(resumed.all("turn_started").pop().unwrap()["policy"]["permission_mode"], "accept-edits");
    let set = ["run", "--resume", &id, "--set", "permission_mode=plan", "and again", "--format", "stream-json"];
    assert_eq!(Ran::of(stage.piton(&set)).all("turn_started").pop().unwrap()["policy"]["permission_mode"], "plan");
    session(&["model", &id, "nobody/other"]).expect_code(2);
}

#[test]
fn turns_are_taken_back_and_brought_back_by_the_process_that_runs_the_session() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "write", "args": {"path": "a.txt", "content": "x"}}]}, {"text": "written"},
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "done"},
    ]));
    let log = File::create(stage.home.path().join("stdout")).unwrap();
    let mut command = stage.run_command(&["write it", "--input-format", "stream-json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().unwrap();
    until("the turn is over", || stage.printed().contains("\"result\""));
    Ran::of(stage.piton(&["undo"])).expect_code(0).expect_said(&["undoing 1 turn", "done"]);
    assert!(!stage.workspace.has("a.txt"));
    Ran::of(stage.piton(&["redo"])).expect_code(0).expect_said(&["redoing 1 turn"]);
    assert!(stage.workspace.has("a.txt"));
    writeln!(child.stdin.as_ref().unwrap(), "{}", json!({"do": "prompt", "text": "go on"})).unwrap();
    until("the command runs", || stage.workspace.has("started"));
    Ran::of(stage.piton(&["undo"]))
        .expect_code(1)
        .expect_said(&["a turn is under way in process", "piton session cancel"]);
    stage.workspace.write("go", "");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Connects to the session's own socket, says a prompt and hears what comes of it.
const SPEAKS: &str = r#"
import glob, json, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(glob.glob(sys.argv[1] + "/data/sessions/*/control.sock")[0])
try:
    for ask in [{"do": "hello", "protocol": 2}, {"do": "prompt", "text": "by the command"}]:
        line.sendall((json.dumps(ask) + "\n").encode())
except OSError:
    pass
try:
    for heard in line.makefile():
        print(heard)
except ConnectionResetError:
    pass
"#;

#[test]
fn a_command_does_not_speak_for_the_user_where_there_is_no_sandbox() {
    let speak = |prefix: &str| {
        let mut stage = Stage::new(json!([]));
        let home = stage.home.path().display().to_string();
        let command =
            format!("{prefix} python3 speak.py {home} && touch started; until [ -e go ]; do sleep 0.02; done");
        let call = json!({"tools": [{"name": "bash", "args": {"command": command}}]});
        stage.provider = piton_testkit::FakeProvider::start(json!([call, {"text": "done", "repeat": true}]));
        stage.with_files([("speak.py", SPEAKS)])
    };
    for prefix in ["", "setsid -w", "env -i PATH=/usr/bin:/bin"] {
        let stage = speak(prefix);
        let mut child = stage.start(&["--sandbox", "off", "go"]);
        until("it has been answered", || stage.workspace.has("started"));
        // The user's own process is heard.
        let mut line = Line::open(&stage);
        line.say(&json!({"do": "prompt", "text": "by the user", "message": "m1"}));
        assert_eq!(line.hear("accepted").unwrap()["message"], "m1");
        stage.workspace.write("go", "");
        assert!(child.wait().unwrap().success());
        let journal = stage.journal();
        let told = journal.iter().find(|event| event["type"] == "call_settled").unwrap()["outcome"]["text"].to_string();
        assert!(told.contains("commands may not speak for the user"), "{prefix}: {told}");
        let said = user_messages(&stage);
        assert!(said.iter().any(|said| said == "by the user"), "{prefix}: {said:?}");
        assert!(!said.iter().any(|said| said == "by the command"), "{prefix}: {said:?}");
    }
}
