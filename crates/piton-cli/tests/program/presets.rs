//! Presets from the outside: they are listed, chosen by flag and file, recorded, and do as they say.

use crate::stage::{Ran, Stage};
use serde_json::json;

#[test]
fn presets_are_listed_with_numbers_units_and_rows() {
    let stage = Stage::new(json!([]));
    let all = Ran::of(stage.piton(&["presets"]));
    for name in ["piton: ", "neovate: ", "pulse: ", "coder-mvp: ", "etcode: ", "opencode: "] {
        assert!(all.stdout.contains(name), "{}", all.stdout);
    }
    let one = Ran::of(stage.piton(&["presets", "coder-mvp"])).stdout;
    assert!(
        one.contains("25 (model replies a turn)") && one.contains("S2-003") && !one.contains("500 (model"),
        "{one}"
    );
    let whole = Ran::of(stage.piton(&["presets", "etcode", "--json"])).stdout;
    let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["policy"]["retry"]["first_ms"], 1_000);
    let none = Ran::of(stage.piton(&["presets", "nope"]));
    assert!(none.code == 1 && none.stderr.contains("there are piton, neovate"), "{}", none.stderr);
}

#[test]
fn a_preset_is_chosen_by_flag_or_file_recorded_and_may_be_changed() {
    let call = json!({"tools": [{"name": "glob", "args": {"pattern": "*"}}], "repeat": true});
    let stage = Stage::new(json!([call])).with_config("").with_files([("a.txt", "a")]);
    stage.home.write("config.toml", "preset = \"pulse\"\n[limits]\nmax_repeats = 0\n");
    let ran = stage.run(&["--max-steps", "2", "go"]);
    let result = ran.events().pop().unwrap();
    assert_eq!(
        (result["end"].as_str(), result["result"].as_str()),
        (Some("max_steps"), Some("Max steps reached, task may be incomplete."))
    );
    let started = stage.journal().into_iter().find(|event| event["type"] == "turn_started").unwrap();
    assert_eq!(
        (started["policy"]["preset"].as_str(), started["policy"]["max_steps"].as_u64()),
        (Some("pulse"), Some(2))
    );
}

#[test]
fn neovates_model_is_spoken_to_in_text() {
    let call = "<use_tool>\n<tool_name>read</tool_name>\n<arguments>\n{path: 'a.txt'}\n</arguments>\n</use_tool>";
    let stage = Stage::new(json!([{ "text": format!("Reading. {call}{call}") }, {"text": "alpha it is"}]))
        .with_files([("a.txt", "alpha")]);
    let ran = stage.run(&["--preset", "neovate", "go"]);
    let result = ran.events().pop().unwrap();
    assert_eq!((result["result"].as_str(), result["spent"]["calls"].as_u64()), (Some("alpha it is"), Some(1)));
    assert!(stage.provider.requests()[0].body.get("tools").is_none(), "the provider is told of no tools");
    let words = stage.last_messages().last().unwrap().to_string();
    assert!(words.contains("<function_results>") && words.contains("alpha"), "{words}");
}

#[test]
fn a_command_is_a_task_with_words_in_it() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]))
        .with_files([(".opencode/command/fix.md", "---\nagent: build\n---\nFix $1 in $2, now !`touch ran`")]);
    let ran = stage.run(&["--command", "fix", "'the bug' a.txt and b.txt"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(stage.last_messages().last().unwrap().to_string().contains("Fix the bug in a.txt and b.txt, now"));
    assert!(ran.stderr.contains("is not run") && !stage.workspace.has("ran"), "{}", ran.stderr);
    let ran = stage.run(&["--command", "fxi", "x"]);
    assert!(ran.code == 1 && ran.stderr.contains("there are fix"), "{}", ran.stderr);
    let ran = stage.run(&["--command", "../fix", "x"]);
    assert!(ran.code == 1 && ran.stderr.contains("command name"), "{}", ran.stderr);
}
