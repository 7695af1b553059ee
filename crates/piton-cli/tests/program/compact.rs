//! Room is made between turns: by `piton session compact`, and by `/compact` typed as a task.

use crate::stage::{Ran, Stage};
use serde_json::json;

fn piton(stage: &Stage, args: &[&str]) -> Ran {
    Ran::of(stage.piton(args))
}

#[test]
fn a_conversation_is_summed_up_shown_changed_and_gone_on_with() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"text": answer}, {"text": "## Next step\nthe changelog"}, {"text": answer}, {"text": "## Next step\nthe docs"}
    ]));
    piton(&stage, &["run", "--yes", "never touch the schema"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let done = piton(&stage, &["session", "compact", &id, "--focus", "the API"]).expect_code(0);
    assert!(done.stdout.contains("never touch the schema") && done.stdout.contains("the changelog"), "{}", done.stdout);
    let asked = stage.provider.requests()[1].body.to_string();
    assert!(asked.contains("dwell on this: the API"), "{asked}");
    let shown = piton(&stage, &["session", "compact", &id, "--show"]).expect_code(0);
    assert_eq!(shown.stdout, done.stdout);

    piton(&stage, &["run", "--yes", "--continue", "go on"]).expect_code(0);
    let sent = stage.provider.requests()[2].body.to_string();
    assert!(sent.contains("This conversation was compacted") && !sent.contains("as you wish as you"), "{sent}");
    let typed = piton(&stage, &["run", "--yes", "--continue", "/compact the docs"]).expect_code(0);
    assert!(typed.stdout.contains("never touch the schema") && typed.stdout.contains("the docs"), "{}", typed.stdout);
    let bill = piton(&stage, &["session", "cost", &id]).expect_code(0);
    assert!(bill.stdout.contains("\nsummary  "), "{}", bill.stdout);
    let story = piton(&stage, &["session", "show", &id]).expect_code(0);
    assert!(story.stdout.contains("[the model knows what was before by this summary]"), "{}", story.stdout);
}

#[test]
fn a_run_says_that_a_summary_is_asked_for_what_went_wrong_and_what_was_gained() {
    let overflow = json!({"status": 400, "body": {"error": {
        "code": "context_length_exceeded", "type": "invalid_request_error",
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."}}});
    let busy = json!({"status": 503, "body": {"error": {"message": "too many at once"}}});
    let long = "as you wish ".repeat(300);
    let stage = Stage::new(json!([
        {"text": long}, {"text": long}, overflow, busy, {"text": "## Next step\ngo on"}, {"text": "Done."},
    ]));
    stage.run(&["never touch the schema"]).expect_code(0);
    stage.run(&["--continue", "and the docs"]).expect_code(0);
    let model = ["run", "--yes", "--model", "openai-chat/test-model"];
    let ran = piton(&stage, &[&model[..], &["--continue", "go on"]].concat()).expect_code(0);
    let said: Vec<&str> = ran.stderr.lines().collect();
    let at =
        |words: &str| said.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {said:?}"));
    let told = [
        at("asking for a summary…"),
        at("; retry 1 in 0.0 s"),
        at("made room in the context: older messages summed up, about "),
    ];
    assert!(told.is_sorted() && said[told[1]].contains("too many at once"), "{said:?}");
    assert!(said[told[2]].contains(" tokens instead of "), "{said:?}");
    assert_eq!(said.iter().filter(|line| line.contains("asking for a summary")).count(), 1, "{said:?}");
    assert_eq!(ran.stdout.trim(), "Done.", "what is said of it is no part of the answer");
}

#[test]
fn what_cannot_be_compacted_is_said_and_nothing_changes() {
    let stage = Stage::new(json!([{"text": "well"}]));
    let ran = piton(&stage, &["run", "/compact"]).expect_code(1);
    assert!(ran.stderr.contains("--continue"), "{}", ran.stderr);
    piton(&stage, &["run", "--yes", "hello"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let ran = piton(&stage, &["session", "compact", &id, "--show"]).expect_code(1);
    assert!(ran.stderr.contains("was never compacted"), "{}", ran.stderr);
    stage.workspace.write("empty.md", "");
    let ran = piton(&stage, &["session", "compact", &id, "--summary", "empty.md"]).expect_code(1);
    assert!(ran.stderr.contains("is empty"), "{}", ran.stderr);
}

#[test]
fn a_summary_is_edited_in_a_file_of_ones_own_and_what_was_written_is_not_lost() {
    let answer = "as you wish ".repeat(300);
    let stage = Stage::new(json!([{"text": answer}, {"text": "## Next step\nthe changelog"}]));
    piton(&stage, &["run", "--yes", "never touch the schema"]).expect_code(0);
    let edit = |editor: &str| {
        let mut command = stage.piton(&["session", "compact", "last", "--edit"]);
        Ran::of({
            command.env("EDITOR", editor).env("TMPDIR", stage.home.path());
            command
        })
    };
    let files = || {
        let names = std::fs::read_dir(stage.home.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("piton-summary")).count()
    };
    edit("nosuch").expect_code(1).expect_said(&["`nosuch` is not there", "nothing was asked or changed"]);
    assert_eq!(stage.provider.requests().len(), 1, "nothing was paid for");

    let said = edit("false").expect_code(1).stderr;
    assert!(said.contains("is in force unchanged") && !said.contains("was not compacted"), "{said}");
    assert_eq!((files(), stage.provider.requests().len()), (0, 2));
    let script = stage.home.path().join("editor.sh");
    std::fs::write(&script, "stat -c %a \"$1\" > \"$HOME/mode\"; echo 'my own words' > \"$1\"; exit $2").unwrap();
    let with = |code: u8| format!("f() {{ sh {} \"$1\" {code}; }}; f", script.display());
    let said = edit(&with(1)).expect_code(1).stderr;
    assert!(said.contains("what you wrote is kept in") && files() == 1, "{said}");
    assert_eq!(stage.home.read("mode").trim(), "600");
    let done = edit(&with(0)).expect_code(0);
    assert!(done.stdout.contains("my own words") && files() == 1, "{}", done.stdout);
}
