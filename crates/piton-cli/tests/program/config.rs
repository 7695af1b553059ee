//! The layers of the configuration, from files and variables down to what a run does, and `piton config`.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

const PROJECT: &str = ".piton/config.toml";

fn stage() -> Stage {
    let calls = json!({"tools": [{"name": "bash", "args": {"command": "echo once more"}}]});
    Stage::new(json!([calls, calls, calls, {"text": "Enough."}]))
}

fn max_steps(stage: &Stage) -> Value {
    let events = stage.journal();
    let started = events.iter().find(|event| event["type"] == "turn_started").unwrap();
    started["policy"]["max_steps"].clone()
}

#[test]
fn flags_win_over_variables_and_those_over_files() {
    for (args, variable, expected) in [(&["--max-steps", "1"][..], "2", 1), (&[], "2", 2), (&[], "", 3)] {
        let stage = stage().with_config("[limits]\nmax_steps = 3\n");
        let mut command = stage.run_command(args);
        command.arg("go").env("PITON_LIMITS__MAX_STEPS", variable);
        Ran::of(command).expect_code(4);
        assert_eq!(max_steps(&stage), expected);
    }
}

#[test]
fn what_a_repository_says_counts_once_it_is_trusted_and_until_it_is_changed() {
    let stage = stage().with_config("[limits]\nmax_steps = 3\n");
    stage.workspace.write(PROJECT, "[limits]\nmax_steps = 2\n");
    let ran = stage.run(&["go"]).expect_code(4).expect_said(&["is not in force", "piton config trust"]);
    assert!(ran.stderr.contains(PROJECT), "{}", ran.stderr);
    assert_eq!(max_steps(&stage), 3);

    Ran::of(stage.piton(&["config", "trust"])).expect_code(1).expect_said(&["max_steps = 2", "--yes"]);
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(0).expect_said(&["max_steps = 2", "in force"]);
    let shown = Ran::of(stage.piton(&["config", "show", "--origin"])).expect_code(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("limits.max_steps = 2")).expect(&shown);
    assert!(line.ends_with(PROJECT), "{line}");

    // The agent, or whoever wrote this, cannot put it in force.
    stage.workspace.write(PROJECT, "[limits]\nmax_steps = 2\n[permission]\nbash = \"allow\"\n");
    let shown = Ran::of(stage.piton(&["config", "show"])).expect_code(0);
    assert!(shown.stdout.contains("limits.max_steps = 3") && shown.stderr.contains("not in force"), "{shown:?}");
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(0);
    Ran::of(stage.piton(&["config", "untrust"])).expect_code(0).expect_said(&["not in force any more"]);
    let shown = Ran::of(stage.piton(&["config", "show"])).expect_code(0).stdout;
    assert!(shown.contains("limits.max_steps = 3"), "{shown}");
}

#[test]
fn a_repository_cannot_send_keys_elsewhere_even_if_it_is_trusted() {
    let stage = stage();
    stage.workspace.write(PROJECT, "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let words = ["providers.openai.base_url", "only your own configuration"];
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(1).expect_said(&words);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let stage = stage().with_config("[limits]\nmax_stps = 3\n");
    Ran::of(stage.piton(&["config", "check"]))
        .expect_code(1)
        .expect_said(&["config.toml", "did you mean `max_steps`?"]);
    let stage = self::stage();
    let mut command = stage.piton(&["config", "check"]);
    command.env("PITON_MODLE", "a/b");
    Ran::of(command).expect_code(1).expect_said(&["PITON_MODLE", "did you mean `model`?"]);
    stage.workspace.write("new.toml", "version = 2\nsomething = \"new\"\n");
    let words = ["new.toml", "format 2", "newer Piton"];
    Ran::of(stage.piton(&["config", "check", "new.toml"])).expect_code(1).expect_said(&words);
    stage.workspace.write("limits.toml", "[retry]\nfirst_wait = 9\nlongest_wait = 1\n");
    let words = ["limits.toml", "longer than longest_wait"];
    Ran::of(stage.piton(&["config", "check", "limits.toml"])).expect_code(1).expect_said(&words);
    Ran::of(stage.piton(&["config", "check"])).expect_code(0);
}

#[test]
fn an_editor_opens_the_file_and_what_came_of_it_is_checked() {
    let stage = stage();
    std::fs::remove_file(stage.home.path().join("config.toml")).unwrap();
    let edit = |editor: &str| {
        let mut command = stage.piton(&["config", "edit"]);
        command.env("EDITOR", editor);
        Ran::of(command)
    };
    edit("grep -q settings").expect_code(0).expect_said(&["is valid"]);
    edit("sed -i 's/^# model/modle/'").expect_code(1).expect_said(&["modle", "kept as you wrote it"]);
    assert!(stage.home.read("config.toml").contains("modle"));
    edit("false").expect_code(1).expect_said(&["the editor `false` ended"]);
}

#[test]
fn headers_which_may_be_keys_are_not_shown() {
    let stage = stage().with_config("[options.headers]\nx-key = \"secret\"\n");
    let shown = Ran::of(stage.piton(&["config", "show", "--origin"])).expect_code(0).stdout;
    assert!(shown.contains("options.headers.x-key = \"…\"") && !shown.contains("secret"), "{shown}");
}

#[test]
fn the_schema_is_a_schema_that_knows_every_key() {
    let stage = stage();
    let printed = Ran::of(stage.piton(&["config", "schema"])).expect_code(0).stdout;
    let schema: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for key in ["model", "limits", "retry", "http", "providers", "options", "models", "permission", "titles"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
}
