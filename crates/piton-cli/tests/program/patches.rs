//! `apply_patch` in the program: which models get it, and that its changes are asked about and taken back like any other.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

const PATCH: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: new/b.txt\n+b\n*** Delete File: c.txt\n\
                     *** Update File: d.txt\n*** Move to: e.txt\n@@\n-four\n+4\n*** End Patch\n";

fn stage() -> Stage {
    let call = json!({"tools": [{"name": "apply_patch", "args": {"patch": PATCH}}]});
    let stage = Stage::new(json!([call, {"text": "done"}, {"text": "more"}]));
    stage.with_files([("a.txt", "one\n"), ("c.txt", "three\n"), ("d.txt", "four\n")])
}

/// The names of the tools in a request.
fn told(stage: &Stage, request: usize) -> Vec<String> {
    let tools = stage.provider.requests()[request].body["tools"].clone();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_model_that_was_trained_on_patches_is_told_of_them_and_an_undo_takes_one_back() {
    let stage = stage();
    let run = ["run", "--yes", "--format", "stream-json", "--model", "openai-chat/gpt-5.4", "go"];
    let ran = Ran::of(stage.piton(&run)).expect_code(0);
    let tools = told(&stage, 0);
    assert!(tools.contains(&"apply_patch".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool == "edit" || tool == "write"), "{tools:?}");
    assert_eq!(ran.outcomes()[0]["status"], "ok", "{:?}", ran.outcomes());
    let read = |name: &str| stage.workspace.read(name);
    assert_eq!((read("a.txt"), read("new/b.txt"), read("e.txt")), ("1\n".into(), "b\n".into(), "4\n".into()));
    assert!(!stage.workspace.has("c.txt") && !stage.workspace.has("d.txt"));
    Ran::of(stage.piton(&["undo"])).expect_code(0);
    assert_eq!((read("a.txt"), read("c.txt"), read("d.txt")), ("one\n".into(), "three\n".into(), "four\n".into()));
    assert!(!stage.workspace.has("new/b.txt") && !stage.workspace.has("e.txt"));
}

#[test]
fn other_models_are_told_of_edits_unless_the_configuration_says_otherwise() {
    let usual = stage();
    usual.run(&["go"]).expect_code(0);
    let tools = told(&usual, 0);
    assert!(tools.contains(&"edit".to_owned()) && !tools.contains(&"apply_patch".to_owned()), "{tools:?}");
    let always = stage().with_config("\n[tools]\napply_patch = \"always\"\n");
    always.run(&["go"]).expect_code(0);
    assert!(told(&always, 0).contains(&"apply_patch".to_owned()));
}

#[test]
fn a_rule_that_forbids_writing_forbids_patches() {
    for rule in ["write", "edit", "Edit(/**)", "apply_patch"] {
        let stage = stage();
        let ran = stage.run(&["--deny", rule, "go"]);
        assert_eq!(ran.outcomes()[0]["status"], "denied", "{rule}: {:?}", ran.outcomes());
        assert_eq!(stage.workspace.read("a.txt"), "one\n", "{rule}");
    }
}

#[test]
fn a_question_shows_what_becomes_of_every_file() {
    let stage = stage();
    let mut terminal = stage.terminal(&["run", "--mode", "ask", "--model", "openai-chat/gpt-5.4", "go"]);
    crate::stage::until("it asks", || terminal.screen().contains("Patch a.txt, new/b.txt, c.txt and 1 more?"));
    let screen = terminal.screen();
    for line in ["-one", "+1", "+b", "Delete c.txt", "-three", "Move d.txt to e.txt", "+4"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    terminal.type_line("n");
    terminal.end();
    assert_eq!(stage.workspace.read("a.txt"), "one\n");
}
