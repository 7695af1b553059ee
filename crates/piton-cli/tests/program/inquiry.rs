//! `ask_user`: what the model asks reaches a person wherever they are, is answered once, and is on record.

use crate::stage::{Ran, Stage, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Stdio;

fn ask(questions: &Value) -> Value {
    json!({"tools": [{"name": "ask_user", "args": {"questions": questions}}]})
}

fn which() -> Value {
    json!({"question": "Which database?", "options": ["Postgres", "SQLite"], "default": "SQLite"})
}

/// What the model read last.
fn told(stage: &Stage) -> String {
    stage.last_messages().last().unwrap()["content"].as_str().unwrap().to_owned()
}

fn tools(stage: &Stage) -> String {
    stage.provider.requests()[0].body["tools"].to_string()
}

#[test]
fn a_person_at_a_terminal_answers_by_number_and_in_words() {
    let stage = Stage::new(json!([
        ask(&json!([which(), {"question": "Why\u{1b}[2K that?", "header": "Reason"}])),
        {"text": "Good."},
    ]));
    // `--yes` lets calls pass, and answers for nobody.
    let mut person = stage.terminal(&["run", "--yes", "--model", "openai-chat/test-model", "set it up"]);
    until("it asks", || person.screen().contains("1-2, or your own words (Enter: SQLite)"));
    assert!(person.screen().contains("The model asks (1 of 2)"), "{}", person.screen());
    person.type_line("3");
    until("the slip is told", || person.screen().contains("the options are 1 to 2"));
    person.type_line("1");
    until("it asks on", || person.screen().contains("Your answer (Enter: no answer)"));
    person.type_line("it is what we run");
    assert_eq!(person.end(), 0);
    assert_eq!(told(&stage), "The user answered.\n\nWhich database?\n→ Postgres\n\nWhy[2K that?\n→ it is what we run");
    let given: Vec<Value> = stage.journal().into_iter().filter(|event| event["type"] == "approval_given").collect();
    assert_eq!(given.len(), 1);
    assert_eq!(given[0]["decision"], json!({"answered": [["Postgres"], ["it is what we run"]]}));
    assert_eq!(given[0]["by"], "user");
    assert!(!stage.journal().iter().any(|event| event["type"] == "call_started"), "no tool ran");
    let trace = Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0);
    trace.expect_stdout(&["answered by a person"]);
}

#[test]
fn a_program_answers_and_what_is_no_answer_changes_nothing() {
    let hook = "[[hooks.PermissionRequest]]\ncommand = \"echo '{\\\"hookSpecificOutput\\\":{\\\"decision\\\":{\\\"behavior\\\":\\\"allow\\\"}}}'\"\n";
    let several = json!({"question": "Which tables?", "options": ["a", "b"], "several": true});
    let stage = Stage::new(json!([ask(&json!([which(), several])), {"text": "ok"}])).with_config(hook);
    let mut talk = Talk::new(&stage, &["go"]);
    until("it asks, whatever a hook lets pass", || talk.count("wanted") == 1);
    let wanted = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    assert_eq!(wanted["approval"]["inquiry"]["questions"][0]["options"][1]["label"], "SQLite", "{wanted}");
    assert!(tools(&stage).contains("ask_user"));
    let (subject, shown) = (&wanted["subject"], &wanted["approval"]["shown"]);
    let mut say = |decision: Value| {
        talk.say(json!({"do": "answer", "subject": subject, "decision": decision, "shown": shown}));
    };
    say(json!({"answered": [["a", "b"], []]}));
    say(json!({"answered": [[], [], ["c"]]}));
    say(json!({"answered": [["x".repeat(10_001)]]}));
    say(json!({"approve_changed": {}}));
    say(json!("expired"));
    until("all are passed over", || talk.count("input_error") == 5);
    assert_eq!(talk.count("approval_given"), 0);
    talk.say(json!({"do": "answer", "subject": subject, "decision": {"answered": [["neither\u{202e}"], ["b", "a"]]}}));
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert_eq!(told(&stage), "The user answered.\n\nWhich database?\n→ neither\n\nWhich tables?\n→ b; a");
}

#[test]
fn another_process_answers_over_the_socket() {
    let stage = Stage::new(json!([ask(&json!([which()])), {"text": "ok"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    until("it can be reached", || stage.session_dir().join("control.sock").exists());
    stage.home.write("lines", r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"answered":[["Postgres"]]}}"#);
    let mut other = stage.run_command(&["--input-format", "stream-json", "--continue"]);
    other.stdin(std::fs::File::open(stage.home.path().join("lines")).unwrap());
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    other.wait().unwrap();
    assert!(told(&stage).ends_with("→ Postgres"), "{}", told(&stage));
}

#[test]
fn a_question_outlives_a_killed_process_and_is_asked_again_by_whoever_goes_on() {
    let stage = Stage::new(json!([ask(&json!([which()])), {"text": "ok"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    kill(talk.child.id(), Signal::KILL);
    talk.child.wait().unwrap();
    let mut talk = Talk::new(&stage, &["--continue"]);
    until("it asks again", || talk.count("approval_asked") == 1 && talk.count("wanted") > 0);
    talk.say(r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"answered":[["Postgres"]]}}"#);
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert!(told(&stage).ends_with("→ Postgres"), "{}", told(&stage));
}

#[test]
fn where_nobody_goes_on_who_could_answer_the_default_counts() {
    let stage = Stage::new(json!([ask(&json!([which()])), {"text": "ok"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    kill(talk.child.id(), Signal::KILL);
    talk.child.wait().unwrap();
    let ran = stage.run(&["--continue"]).expect_code(0);
    assert_eq!(ran.end(), "completed");
    assert_eq!(told(&stage), "Nobody is there to answer.\n\nWhich database?\n→ SQLite (the default)");
}

#[test]
fn the_end_of_the_input_and_the_end_of_the_time_are_answers_of_nobody() {
    let timed = json!({"tools": [{"name": "ask_user", "args": {"questions": [{"question": "Go on?"}], "seconds": 1}}]});
    let stage = Stage::new(json!([timed, ask(&json!([{"question": "And now?"}])), {"text": "ok"}]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the time is over, and it asks the next", || talk.count("approval_asked") == 2);
    assert!(told(&stage).starts_with("Nobody answered within 1 s."), "{}", told(&stage));
    let expired = talk.lines().into_iter().find(|line| line["type"] == "approval_given").unwrap();
    assert_eq!((&expired["decision"], &expired["by"]), (&json!("expired"), &json!("nobody")));
    assert_eq!(talk.end(), 0, "a question without an answer is no refused call");
    assert!(told(&stage).starts_with("Nobody is there to answer.\n\nAnd now?\n→ (no answer)"), "{}", told(&stage));
    assert!(told(&stage).contains("decide yourself"), "{}", told(&stage));
}

#[test]
fn a_run_without_a_person_does_not_offer_it_and_answers_it_all_the_same() {
    let stage = Stage::new(json!([ask(&json!([which()])), {"text": "ok"}]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(!tools(&stage).contains("ask_user"));
    assert_eq!((ran.end().as_str(), &ran.outcomes()[0]["status"]), ("completed", &json!("ok")));
    let denied =
        Stage::new(json!([ask(&json!([which()])), {"text": "ok"}])).with_config("[permission]\nask_user = \"deny\"\n");
    let mut talk = Talk::new(&denied, &["go"]);
    until("it is over", || talk.count("result") == 1);
    talk.end();
    assert!(!tools(&denied).contains("ask_user"));
    assert_eq!(talk.count("approval_asked"), 0);
    assert!(told(&denied).contains("a rule forbids ask_user"), "{}", told(&denied));
}

#[test]
fn what_cannot_be_asked_is_refused_in_words_the_model_can_act_on() {
    let stage = Stage::new(json!([
        ask(&json!([])),
        ask(&json!(vec![which(); 100])),
        ask(&json!([{"question": "x".repeat(10_000)}])),
        ask(&json!([{"question": "a", "options": ["", "b"]}])),
        ask(&json!([{"question": "a", "options": ["b", {"label": "c", "description": "d"}], "default": "e"}])),
        ask(&json!([{"options": ["b"]}])),
        {"text": "ok"},
    ]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("it is over", || talk.count("result") == 1);
    assert_eq!((talk.end(), talk.count("approval_asked")), (0, 0));
    let settled = talk.lines().into_iter().filter(|line| line["type"] == "call_settled");
    let words: Vec<String> = settled.map(|line| line["outcome"]["text"].as_str().unwrap().to_owned()).collect();
    let wants =
        ["no question", "at most 10", "at most 2000", "options[0] is empty", "none of the options", "`question`"];
    for (text, want) in words.iter().zip(wants) {
        assert!(text.contains(want), "{want}: {text}");
    }
    assert_eq!(words.len(), 6);
}
