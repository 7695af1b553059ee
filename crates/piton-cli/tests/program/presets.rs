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
        .with_files([(".opencode/command/fix.md", "---\nagent: build\n---\nFix $1 in $2, now !`echo ran`")]);
    let ran = stage.run(&["--trust", "--command", "fix", "'the bug' a.txt and b.txt"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(stage.last_messages().last().unwrap().to_string().contains("Fix the bug in a.txt and b.txt, now ran"));
    let ran = stage.run(&["--command", "fxi", "x"]);
    assert!(ran.code == 1 && ran.stderr.contains("unknown command `fxi`"), "{}", ran.stderr);
    let ran = stage.run(&["--command", "../fix", "x"]);
    assert!(ran.code == 1 && ran.stderr.contains("command name"), "{}", ran.stderr);
}

#[test]
fn a_preset_of_ones_own_is_a_file_beside_the_configuration() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}])).with_config("[limits]\nmax_turns = 9\n");
    let mine = "preset = \"opencode\"\n[limits]\nmax_steps = 7\nmax_turns = 3\n[retry]\non = { statuses = [418] }\n\
                [loop]\nwords = \"neovate\"\nlast_step = \"plain\"\n";
    stage.home.write("mine.toml", mine);
    stage.run(&["--preset", "mine.toml", "go"]).expect_code(0);
    let started = stage.journal().into_iter().find(|event| event["type"] == "turn_started").unwrap();
    let policy = &started["policy"];
    assert_eq!((policy["preset"].as_str(), policy["on_unknown"].as_str()), (Some("opencode"), Some("go_on")));
    assert_eq!((policy["max_steps"].as_u64(), policy["max_turns"].as_u64()), (Some(7), Some(9)), "your own file wins");
    assert_eq!((policy["words"].as_str(), policy["last_step"].as_str()), (Some("neovate"), Some("plain")));
    assert_eq!(policy["retry"]["on"], json!({"statuses": [418]}));
    let shown = Ran::of(stage.piton(&["config", "show", "--origin", "--set", "preset=mine.toml"]));
    assert!(shown.stdout.contains("mine.toml"), "{}", shown.stdout);
    let none = stage.run(&["--preset", "none.toml", "go"]);
    none.expect_said(&["cannot read the preset", "none.toml"]);
    stage.home.write("odd.toml", "preset = \"mine.toml\"\n");
    stage.run(&["--preset", "odd.toml", "go"]).expect_said(&["odd.toml", "one of Piton's own"]);
}

#[test]
fn opencodes_model_is_told_of_fields_by_the_names_it_knows() {
    let edit = json!({"filePath": "a.txt", "oldString": "alpha", "newString": "omega"});
    let script = json!([
        {"tools": [{"name": "read", "args": {"filePath": "a.txt"}}]},
        {"tools": [{"name": "edit", "args": edit}]},
        {"text": "done"},
    ]);
    let stage = Stage::new(script).with_files([("a.txt", "alpha\n")]);
    stage.run(&["--preset", "opencode", "go"]).expect_code(0);
    assert_eq!(stage.workspace.read("a.txt"), "omega\n");
    let body = stage.provider.requests()[0].body.clone();
    let fields = |name: &str| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["function"]["name"] == name).unwrap();
        let properties = tool["function"]["parameters"]["properties"].as_object().unwrap();
        let mut names: Vec<String> = properties.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(fields("edit"), ["edits", "filePath", "newString", "oldString", "replaceAll"]);
    assert!(fields("read").contains(&"filePath".to_owned()) && fields("write").contains(&"filePath".to_owned()));
    assert!(fields("grep").contains(&"path".to_owned()) && fields("grep").contains(&"include".to_owned()));
    let edit = body["tools"].to_string();
    assert!(edit.contains("oldString must name") && !edit.contains("old_string"), "{edit}");
}
