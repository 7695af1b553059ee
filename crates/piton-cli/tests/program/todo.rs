//! The model's list of todos: kept in the journal, shown everywhere, and told again when it is forgotten.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

fn todo(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = items.iter().map(|(text, status)| json!({"text": text, "status": status})).collect();
    json!({"tools": [{"name": "todo", "args": {"items": items}}]})
}

fn piton(stage: &Stage, args: &[&str]) -> Ran {
    Ran::of(stage.piton(args))
}

/// What the model was told in a request, all of it.
fn told(stage: &Stage, request: usize) -> String {
    stage.provider.requests()[request].body["messages"].to_string()
}

#[test]
fn the_list_is_recorded_shown_and_exported() {
    let stage = Stage::new(json!([
        todo(&[("read the code", "done"), ("fix \u{1b}[31mit\u{202e}", "in_progress"), ("test", "pending")]),
        todo(&[("read the code", "done"), ("fix it", "done"), ("test", "dropped")]),
        {"text": "all done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    let lines = ran.all("todo");
    assert_eq!(lines.len(), 2, "a line for each list");
    assert_eq!(lines[1]["items"][2], json!({"text": "test", "status": "dropped"}));
    assert_eq!(lines[0]["items"][1]["text"], "fix [31mit", "{}", lines[0]);
    assert_eq!(ran.outcomes()[0]["text"], "1 of 3 done: fix [31mit.");
    assert_eq!(ran.end(), "completed");
    assert_eq!(stage.provider.requests().len(), 3, "nothing is open: no reminder");
    let shown = piton(&stage, &["session", "show", "last"]).expect_code(0);
    shown.expect_stdout(&["    [x] read the code\n    [x] fix it\n    [-] test\n"]);
    let markdown = piton(&stage, &["session", "export", "last", "--format", "md"]).expect_code(0);
    markdown.expect_stdout(&["- [x] fix it\n- [x] ~~test~~\n"]);
    let html = piton(&stage, &["session", "export", "last", "--format", "html"]).expect_code(0);
    html.expect_stdout(&["<pre class=\"todo\">[x] read the code\n[x] fix it\n[-] test\n</pre>"]);
}

#[test]
fn a_list_that_cannot_be_is_refused_in_words_and_changes_nothing() {
    let stage = Stage::new(json!([
        todo(&[("a", "in_progress"), ("b", "in_progress")]),
        todo(&[("a", "started")]),
        todo(&[("", "pending")]),
        {"text": "ok"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.all("todo").is_empty());
    let words: Vec<String> = ran.outcomes().iter().map(|outcome| outcome["text"].to_string()).collect();
    assert!(words[0].contains("2 items are in_progress; at most one may be"), "{words:?}");
    assert!(words[1].contains("items[0].status") && words[1].contains("in_progress"), "{words:?}");
    assert!(words[2].contains("an item has no text"), "{words:?}");
}

#[test]
fn a_turn_with_open_items_is_sent_back_once_and_the_beginning_of_the_conversation_stays_as_it_was() {
    let stage = Stage::new(json!([
        todo(&[("fix", "in_progress"), ("test", "pending")]),
        {"text": "done, I think"},
        {"text": "the tests have to wait"},
        {"text": "hello"},
        {"text": "still waiting"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!((stage.provider.requests().len(), ran.end().as_str()), (3, "completed"));
    let reminder = stage.last_messages().last().unwrap().to_string();
    assert!(reminder.contains("about to end") && reminder.contains("[>] fix\\n[ ] test"), "{reminder}");
    let given: Vec<Value> = ran.all("context_given");
    assert!(given.iter().any(|event| event["items"][0]["kind"] == "todo"), "{given:?}");
    let messages = |request: usize| stage.provider.requests()[request].body["messages"].as_array().unwrap().clone();
    let (before, after) = (messages(1), messages(2));
    assert_eq!(after[..before.len()], before[..], "only appended to");
    stage.run(&["-c", "hi"]).expect_code(0);
    assert_eq!(stage.provider.requests().len(), 5, "once more in another turn");
}

#[test]
fn the_list_outlives_a_resume_and_an_undo_takes_it_back() {
    let stage = Stage::new(json!([
        todo(&[("one", "done")]), {"text": "a"},
        todo(&[("one", "done"), ("two", "done")]), {"text": "b"},
    ]));
    stage.run(&["first"]).expect_code(0);
    stage.run(&["-c", "second"]).expect_code(0);
    piton(&stage, &["undo"]).expect_code(0);
    let shown = piton(&stage, &["session", "show", "last"]).expect_code(0);
    assert!(shown.stdout.contains("[x] one") && !shown.stdout.contains("[x] two"), "{}", shown.stdout);
    piton(&stage, &["redo"]).expect_code(0);
    piton(&stage, &["session", "show", "last"]).expect_code(0).expect_stdout(&["[x] one\n    [x] two\n"]);
}

#[test]
fn after_a_compaction_the_list_is_told_again() {
    let stage = Stage::new(json!([
        todo(&[("one", "done"), ("two", "dropped")]), {"text": "as you wish ".repeat(300)},
        {"text": "## Next step\nthe summary"},
        {"text": "b"},
    ]));
    stage.run(&["first"]).expect_code(0);
    piton(&stage, &["session", "compact", "last"]).expect_code(0);
    stage.run(&["-c", "go on"]).expect_code(0);
    let last = stage.provider.requests().len() - 1;
    assert!(told(&stage, last).contains("Your todos as they are now:\\n[x] one\\n[-] two"), "{}", told(&stage, last));
}

#[test]
fn a_terminal_shows_the_list_and_the_fork_of_a_session_has_it() {
    let stage = Stage::new(json!([
        todo(&[("look", "done"), ("fix", "in_progress")]), {"text": "a"}, {"text": "b"},
        {"text": "c"}, {"text": "d"},
    ]));
    let model = "openai-chat/test-model";
    let ran = piton(&stage, &["run", "--yes", "--model", model, "go"]).expect_code(0);
    ran.expect_said(&["[x] look\n", "[>] fix\n", "reminded of its todos"]);
    let fork = piton(&stage, &["session", "fork", "last"]).expect_code(0).stdout.trim().to_owned();
    Ran::of(stage.run_command(&["--resume", &fork, "more"])).expect_code(0);
    assert!(told(&stage, 4).contains("about to end"), "the fork's list is open: {}", told(&stage, 4));
}
