//! `--input-format stream-json`: a program speaks with a session while it works.

use crate::stage::{Ran, Stage, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A command that runs until the test lets it go on.
const GATE: &str = "touch started; until [ -e go ]; do sleep 0.02; done; echo through";

/// A run whose standard input is ours.
pub(crate) struct Talk<'s> {
    stage: &'s Stage,
    pub(crate) child: Child,
    input: Option<ChildStdin>,
}

impl<'s> Talk<'s> {
    pub(crate) fn new(stage: &'s Stage, args: &[&str]) -> Self {
        Self::of(stage, stage.run_command(&[&["--input-format", "stream-json"], args].concat()))
    }

    /// One in which a person answers.
    pub(crate) fn asking(stage: &'s Stage, args: &[&str]) -> Self {
        let mut command = stage.piton(&["run", "--format", "stream-json", "--model", "openai-chat/m"]);
        command.args(["--input-format", "stream-json"]).args(args);
        Self::of(stage, command)
    }

    pub(crate) fn of(stage: &'s Stage, mut command: Command) -> Self {
        let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take();
        Self { stage, child, input }
    }

    pub(crate) fn say(&mut self, line: impl std::fmt::Display) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stage.printed().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.lines().iter().filter(|line| line["type"] == kind).count()
    }

    pub(crate) fn killed(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn end(&mut self) -> i32 {
        self.input = None;
        self.child.wait().unwrap().code().unwrap()
    }

    pub(crate) fn results(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let results = self.lines().into_iter().filter(|line| line["type"] == "result");
        results.map(|result| (text(&result["end"]), text(&result["text"]))).collect()
    }
}

fn pair(end: &str, text: &str) -> (String, String) {
    (end.to_owned(), text.to_owned())
}

#[test]
fn it_steers_and_queues_and_each_turn_has_its_result() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "steered"}, {"text": "followed up"},
    ]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the command runs", || stage.workspace.has("started"));
    talk.say(r#"{"do":"prompt","text":"and then this","delivery":"follow_up"}"#);
    talk.say("this is not JSON");
    talk.say(r#"{"type":"user","message":{"role":"user","content":"the other way"}}"#);
    until("all is heard", || talk.count("user_spoke") == 3);
    stage.workspace.write("go", "");
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.results(), [pair("completed", "steered"), pair("completed", "followed up")]);
    let errors: Vec<Value> = talk.lines().into_iter().filter(|line| line["type"] == "input_error").collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["line"], 2);
    let asked = stage.provider.requests();
    assert!(asked[1].body["messages"].to_string().contains("the other way"));
    assert!(!asked[1].body["messages"].to_string().contains("and then this"));
}

#[test]
fn an_interrupt_stops_the_turn_and_begins_the_next() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "as you like"}]));
    let mut talk = Talk::new(&stage, &[]);
    talk.say(r#"{"do":"prompt","text":"go"}"#);
    until("the command runs", || stage.workspace.has("started"));
    talk.say(r#"{"do":"prompt","text":"no, wait","delivery":"interrupt"}"#);
    until("it is answered", || talk.count("result") == 2);
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.results(), [pair("canceled", ""), pair("completed", "as you like")]);
}

#[test]
fn questions_are_answered_from_there_and_by_nobody_when_it_ends() {
    let script = json!([
        {"tools": [{"name": "write", "args": {"path": "a", "content": "x"}}]},
        {"tools": [{"name": "write", "args": {"path": "b", "content": "x"}}]},
        {"text": "one of two"},
    ]);
    let stage = Stage::new(script).with_config("[permission]\nwrite = \"ask\"\n");
    let mut talk = Talk::asking(&stage, &["go"]);
    until("it asks", || talk.count("approval_asked") == 1);
    talk.say(r#"{"do":"answer","subject":{"call":"c9_9"},"decision":"approve"}"#);
    talk.say(r#"{"do":"answer","subject":{"call":"c1_0"},"decision":"approve","shown":"something else"}"#);
    until("both are passed over", || talk.count("input_error") == 2);
    assert!(!stage.workspace.has("a"), "an answer to another question approves nothing");
    let wanted = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    let (subject, shown) = (&wanted["subject"], &wanted["approval"]["shown"]);
    talk.say(json!({"do": "answer", "subject": subject, "decision": "approve", "shown": shown}));
    until("it asks again", || talk.count("approval_asked") == 2);
    assert_eq!(talk.count("input_error"), 2);
    assert_eq!(talk.end(), 3);
    assert_eq!(talk.results(), [pair("tool_denied", "one of two")]);
    assert!(stage.workspace.has("a") && !stage.workspace.has("b"));
}

#[test]
fn a_hooks_question_is_put_whatever_the_rules_say_and_its_change_is_made_once() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": "echo real"}}]}, {"text": "Done."}]));
    let wraps = "command=$(sed 's/.*\"command\":\"\\([^\"]*\\)\".*/\\1/'); printf \
                 '{\"hookSpecificOutput\":{\"permissionDecision\":\"ask\",\"permissionDecisionReason\":\"hmm\",\
                 \"updatedInput\":{\"command\":\"echo wrapped; %s\"}}}' \"$command\"\n";
    stage.home.write("wrap.sh", wraps);
    let script = stage.home.path().join("wrap.sh");
    let stage = stage.with_config(&format!("[[hooks.PreToolUse]]\ncommand = \"sh {}\"\n", script.display()));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it asks", || talk.count("approval_asked") == 1);
    crate::stage::kill(talk.child.id(), rustix::process::Signal::KILL);
    talk.child.wait().unwrap();
    let mut talk = Talk::new(&stage, &["--continue"]);
    until("it asks again", || talk.count("approval_asked") == 1);
    talk.say(r#"{"do":"answer","subject":{"call":"c1_0"},"decision":"approve"}"#);
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    let requested: Vec<Value> = stage.journal().into_iter().filter(|event| event["type"] == "call_requested").collect();
    let inputs: Vec<&Value> = requested.iter().map(|event| &event["input"]["command"]).collect();
    assert_eq!(inputs, ["echo wrapped; echo real"; 2]);
    assert_eq!(requested[1]["verdict"], json!({"ask_first": "hmm"}));
}

/// Runs with these bytes on standard input.
fn fed(stage: &Stage, args: &[&str], input: &[u8]) -> Ran {
    stage.home.write("stdin", input);
    let mut command = stage.run_command(&[&["--input-format", "stream-json"], args].concat());
    command.stdin(std::fs::File::open(stage.home.path().join("stdin")).unwrap());
    Ran::of(command)
}

#[test]
fn where_another_process_runs_the_session_every_line_goes_there() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "heard you"}, {"text": "and that"},
    ]));
    let log = std::fs::File::create(stage.home.path().join("first")).unwrap();
    let mut first = stage.run_command(&["go"]).stdout(log).stderr(Stdio::null()).spawn().unwrap();
    until("the command runs", || stage.workspace.has("started"));
    until("it can be reached", || stage.session_dir().join("control.sock").exists());
    let mut talk = Talk::new(&stage, &["--continue"]);
    talk.say("this is not JSON");
    talk.say(r#"{"do":"prompt","text":"the other way"}"#);
    talk.say(r#"{"do":"answer","subject":{"call":"c9_9"},"decision":"approve"}"#);
    until("it is heard", || talk.count("user_spoke") == 1 && talk.count("input_error") == 2);
    stage.workspace.write("go", "");
    until("it is answered", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.results(), [pair("completed", "heard you")]);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let asked = stage.provider.requests();
    assert!(asked[1].body["messages"].to_string().contains("the other way"), "{asked:?}");
}

#[test]
fn a_cancel_reaches_the_process_that_runs_the_session() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "not any more"}]));
    let mut first = stage.run_command(&["go"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the command runs", || stage.workspace.has("started"));
    until("it can be reached", || stage.session_dir().join("control.sock").exists());
    let ran = fed(&stage, &["--continue"], b"{\"do\":\"cancel\"}\n");
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(ran.result()["end"], "canceled");
    assert_eq!(first.wait().unwrap().code(), Some(130));
}

#[test]
fn what_another_process_runs_takes_no_checks_from_there() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "done"}]));
    stage.workspace.write("schema.json", "{}");
    let mut first = stage.run_command(&["go"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the command runs", || stage.workspace.has("started"));
    for (flag, value) in [("--check", "false"), ("--output-schema", "schema.json")] {
        let ran = fed(&stage, &["--continue", flag, value], b"{\"do\":\"prompt\",\"text\":\"say it\"}\n");
        ran.expect_code(1).expect_said(&[&format!("{flag} cannot be added"), "nothing was said there"]);
    }
    stage.workspace.write("go", "");
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert!(!stage.journal().iter().any(|event| event.to_string().contains("say it")));
}

#[test]
fn where_nothing_is_said_there_is_no_session_and_it_is_an_error() {
    for input in ["", "\n\n", "hello\n", "{\"do\":\"cancel\"}\n", "{\"do\":\"prompt\",\"text\":\"/compact\"}\n"] {
        let stage = Stage::new(json!([]));
        let ran = fed(&stage, &[], input.as_bytes());
        assert_eq!(ran.code, 1, "{input:?}: {ran:?}");
        let result = ran.all("result").pop().unwrap();
        assert_eq!((&result["end"], &result["exit_code"]), (&Value::Null, &json!(1)), "{input:?}");
        assert!(ran.stderr.contains("the task is empty"), "{ran:?}");
        assert_eq!(ran.all("input_error").len(), usize::from(!input.trim().is_empty()), "{input:?}");
        let sessions = std::fs::read_dir(stage.home.path().join("data/sessions")).map_or(0, Iterator::count);
        assert_eq!(sessions, 0, "{input:?}");
    }
}

#[test]
fn a_line_without_end_is_refused_and_the_next_is_heard() {
    let stage = Stage::new(json!([{"text": "yes"}]));
    let mut input = format!("{{\"do\":\"prompt\",\"text\":\"{}\"}}\n", "x".repeat(17 << 20)).into_bytes();
    input.extend(b"{\"do\":\"prompt\",\"text\":\"short\"}\n");
    let ran = fed(&stage, &[], &input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let errors = ran.all("input_error");
    assert!(errors[0]["error"].as_str().unwrap().contains("longer than 16 MB"), "{errors:?}");
    assert_eq!(ran.result()["text"], "yes");
}

#[test]
fn it_pauses_and_goes_on_and_makes_room() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": answer}, {"text": "## Next step\nthe docs"},
    ]));
    let mut talk = Talk::new(&stage, &[]);
    talk.say(r#"{"do":"prompt","text":"go"}"#);
    until("the command runs", || stage.workspace.has("started"));
    talk.say(r#"{"do":"pause"}"#);
    until("it is paused", || talk.count("paused") == 1);
    stage.workspace.write("go", "");
    talk.say(r#"{"do":"prompt","text":"/compact the docs"}"#);
    talk.say(r#"{"do":"continue"}"#);
    until("room was made", || talk.count("compaction_finished") == 1);
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.count("user_spoke"), 1, "the command is nothing that is said");
    assert!(stage.provider.requests()[2].body.to_string().contains("dwell on this: the docs"));
}

#[test]
fn what_else_is_asked_for_is_answered_with_a_line() {
    let stage = Stage::new(json!([{"text": "done"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it is at rest", || talk.count("result") == 1);
    talk.say(r#"{"do":"rename","title":"Tests"}"#);
    talk.say(r#"{"do":"look"}"#);
    talk.say(r#"{"do":"plan","direction":"redo","turns":1,"scope":"both"}"#);
    until("all is answered", || talk.count("seen") == 1 && talk.count("input_error") == 1);
    assert_eq!((talk.end(), talk.count("renamed"), talk.count("result")), (1, 1, 1), "nothing is there to bring back");
    assert!(stage.journal().iter().any(|event| event["title"] == "Tests"));
}

#[test]
fn compact_typed_beside_the_process_that_runs_the_session_makes_room_there() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"text": answer}, {"text": "## Next step\nthe docs"},
        {"tools": [{"name": "bash", "args": {"command": GATE}}]}, {"text": "done"},
    ]));
    let mut talk = Talk::new(&stage, &["never touch the schema"]);
    until("it is at rest", || talk.count("result") == 1);
    let typed = |args: &[&str]| Ran::of(stage.piton(&[args, &["/compact the docs"]].concat()));
    let run = ["run", "--continue", "--model", "openai-chat/other"];
    let done = typed(&run).expect_code(0);
    let writer = format!("is run by process {}: it is compacted there", talk.child.id());
    done.expect_said(&[&writer, "tokens instead of"]).expect_stdout(&["never touch the schema", "the docs"]);
    let asked = stage.provider.requests()[1].body.clone();
    assert_eq!(asked["model"], "test-model", "it is the writer that asks, under its rules");
    assert!(asked.to_string().contains("dwell on this: the docs"), "{asked}");

    talk.say(r#"{"do":"prompt","text":"go"}"#);
    until("the command runs", || stage.workspace.has("started"));
    typed(&run).expect_code(1).expect_said(&["was not compacted", "a turn is under way"]);
    stage.workspace.write("go", "");
    assert_eq!(talk.end(), 0);
    assert_eq!((talk.count("compaction_finished"), talk.count("user_spoke")), (1, 2));
}

#[test]
fn the_result_has_the_exit_code_of_a_process_that_was_terminated() {
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": GATE}}]}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the command runs", || stage.workspace.has("started"));
    kill(talk.child.id(), Signal::TERM);
    assert_eq!(talk.child.wait().unwrap().code(), Some(143));
    let results: Vec<Value> = talk.lines().into_iter().filter(|line| line["type"] == "result").collect();
    assert_eq!((&results[0]["end"], &results[0]["exit_code"]), (&json!("canceled"), &json!(143)));
    talk.input = None;
}

#[test]
fn who_pipes_something_in_is_asked_at_the_terminal_and_can_see_all_of_it() {
    let content: String = (1..=60).map(|line| format!("line {line}\n")).collect();
    let stage = Stage::new(json!([
        {"text": "I **write**.", "tools": [{"name": "write", "args": {"path": "a.txt", "content": content}}]},
        {"text": "# Done\n\nAll of it."},
    ]));
    let pager = format!("cp \"$1\" {}; true", stage.home.path().join("seen").display());
    let before = format!("echo 'piped words' | PAGER='f() {{ {pager}; }}; f' ");
    let mut terminal = stage.terminal_behind(&before, &["run", "--mode", "ask", "--model", "openai-chat/m", "make it"]);
    until("it asks", || terminal.screen().contains("[v]iew all"));
    assert!(terminal.screen().contains("… 21 more lines …"), "{}", terminal.screen());
    terminal.type_line("v");
    until("the pager has it", || stage.home.has("seen") && terminal.screen().matches("[v]iew all").count() == 2);
    assert!(stage.home.read("seen").contains("+line 30"), "{}", stage.home.read("seen"));
    terminal.type_line("y");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    assert_eq!(stage.workspace.read("a.txt"), content);
    let screen = terminal.screen();
    assert!(screen.contains("I write.") && screen.contains("\nDone\r\n\r\nAll of it."), "{screen}");
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("piped words")));
}
