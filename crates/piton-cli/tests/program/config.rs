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
fn the_permission_mode_is_that_of_a_flag_else_of_a_variable_else_of_the_file() {
    for (args, variable, expected) in
        [(&["--mode", "auto"][..], "accept-edits", "auto"), (&[], "accept-edits", "accept-edits"), (&[], "", "plan")]
    {
        let stage = stage();
        stage.home.write("config.toml", "permission_mode = \"plan\"\n");
        let mut command = stage
            .piton(&[&["run", "--model", "openai-chat/test-model", "go", "--format", "stream-json"], args].concat());
        command.env("PITON_PERMISSION_MODE", variable);
        let ran = Ran::of(command);
        assert_eq!(ran.all("turn_started").pop().expect(&ran.stderr)["policy"]["permission_mode"], expected);
    }
}

#[test]
fn what_a_repository_says_counts_once_it_is_trusted_and_until_it_is_changed() {
    let stage = stage().with_config("[limits]\nmax_steps = 3\n");
    stage.workspace.write(PROJECT, "[limits]\nmax_steps = 2\n");
    let ran = stage.run(&["go"]).expect_code(4).expect_said(&["is not in force", "piton trust"]);
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
    let edit = |editor: &str| {
        let mut command = stage.piton(&["config", "edit"]);
        command.env("EDITOR", editor);
        Ran::of(command)
    };
    let mut nobody = stage.piton(&["config", "edit"]);
    nobody.env_remove("EDITOR").env_remove("VISUAL");
    Ran::of(nobody).expect_code(1).expect_said(&["no editor", "$EDITOR"]);
    edit("nosuch --wait").expect_code(1).expect_said(&["`nosuch --wait` is not there"]);
    let mut first = stage.piton(&["config", "edit"]);
    std::fs::remove_file(stage.home.path().join("config.toml")).unwrap();
    first.env("EDITOR", "grep -q settings");
    Ran::of(first).expect_code(0).expect_said(&["is valid"]);
    edit("grep -q settings").expect_code(0).expect_said(&["is valid"]);
    edit("sed -i 's/^# model/modle/'").expect_code(1).expect_said(&["modle", "kept as you wrote it"]);
    assert!(stage.home.read("config.toml").contains("modle"));
    edit("false").expect_code(1).expect_said(&["the editor `false` ended"]);
}

/// A workspace with a repository in it whose configuration is trusted.
fn trusting(text: &str) -> Stage {
    let stage = stage();
    stage.workspace.write(PROJECT, text);
    stage.workspace.write(".git/HEAD", "");
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(0);
    stage
}

#[test]
fn no_file_of_a_repository_turns_a_trusted_one_off() {
    let stage = trusting("[limits]\nmax_steps = 2\n[permission]\nbash = \"deny\"\n");
    for hiding in [&[".piton/config.toml"][..], &[".git/HEAD"], &[".piton/config.toml", ".git/HEAD"]] {
        std::fs::remove_dir_all(stage.workspace.path().join("sub")).unwrap_or_default();
        hiding.iter().for_each(|file| stage.workspace.write(format!("sub/{file}"), ""));
        let mut command = stage.piton(&["config", "show", "--origin"]);
        command.current_dir(stage.workspace.path().join("sub"));
        let shown = Ran::of(command).expect_code(0).stdout;
        assert!(shown.contains("permission.bash = \"deny\"") && shown.contains("max_steps = 2"), "{hiding:?}: {shown}");
    }
    stage.run(&["-C", "sub", "go"]).expect_said(&["sub/.piton/config.toml is not in force"]);
    assert_eq!(max_steps(&stage), 2);
}

#[test]
fn a_run_that_nobody_watches_does_not_begin_without_the_rules_that_were_trusted() {
    let stage = trusting("[permission]\nbash = \"deny\"\n");
    stage.workspace.write(PROJECT, "[permission]\nbash = \"allow\"\n");
    let words = ["has been changed since you trusted it", "nothing was started", "piton trust"];
    stage.run(&["go"]).expect_code(1).expect_said(&words);
    std::fs::remove_file(stage.workspace.path().join(PROJECT)).unwrap();
    stage.run(&["go"]).expect_code(1).expect_said(&["is gone", "nothing was started", "piton trust --revoke"]);
    assert!(stage.provider.requests().is_empty());
    let path = Ran::of(stage.piton(&["config", "path"])).expect_code(0).stdout;
    assert!(path.contains("changed since it was trusted"), "{path}");
    Ran::of(stage.piton(&["config", "untrust"])).expect_code(0);
    stage.run(&["go"]).expect_code(7);
}

#[test]
fn a_repository_that_is_not_trusted_stops_nobody() {
    let stage = Stage::new(json!([{"text": "Done.", "repeat": true}])).with_config("[claude]\nhooks = true\n");
    std::fs::create_dir_all(stage.workspace.path().join(".piton")).unwrap();
    std::fs::write(stage.workspace.path().join(PROJECT), [0xff, 0xfe]).unwrap();
    for broken in [&b"{"[..], &[0xff, 0xfe], &[b' '; 2 << 20]] {
        std::fs::create_dir_all(stage.workspace.path().join(".claude")).unwrap();
        std::fs::write(stage.workspace.path().join(".claude/settings.json"), broken).unwrap();
        stage.run(&["go"]).expect_code(0).expect_said(&["is not in force", "settings.json", "no hooks of it are run"]);
    }
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(1).expect_said(&["is not text"]);
}

#[test]
fn what_is_trusted_has_to_work() {
    let stage = stage();
    for (text, words) in [
        ("[permission]\nbash = \"alow\"\n", "alow"),
        ("[providers.openai]\nbase_url = \"http://h\"\n", "only your own configuration may"),
        ("[retry]\nfirst_wait = 40\n", "is longer than longest_wait"),
    ] {
        stage.workspace.write(PROJECT, text);
        for args in [&["config", "trust", "--yes"][..], &["config", "check"], &["config", "check", PROJECT]] {
            Ran::of(stage.piton(args)).expect_code(1).expect_said(&[words]);
        }
    }
    // With what the user says besides, it does.
    stage.home.write("config.toml", "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://h\"\n");
    stage.workspace.write(PROJECT, "model = \"mine/m\"\n");
    Ran::of(stage.piton(&["config", "check", PROJECT])).expect_code(0);
    Ran::of(stage.piton(&["config", "trust", "--yes"])).expect_code(0);
}

#[test]
fn piton_runs_where_a_hook_of_piton_started_it_and_where_others_have_such_variables() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    let mut command = stage.run_command(&["go"]);
    command.env("PITON_PROJECT_DIR", "/x").env("PITON_VERSION", "1.2.3").env("PITON_BUILD_HOST", "ci");
    let ran = Ran::of(command).expect_code(0);
    assert_eq!(ran.stderr.matches("PITON_BUILD_HOST is no setting").count(), 1, "{}", ran.stderr);
    let mut command = stage.run_command(&["go"]);
    command.env("PITON_MAX_STEPS", "3");
    Ran::of(command).expect_code(1).expect_said(&["PITON_MAX_STEPS", "`max_steps` in [limits]"]);
}

#[test]
fn a_time_that_no_clock_has_is_a_mistake_and_no_crash() {
    let stage = stage().with_config("[check]\ncommands = [\"true\"]\ntimeout = 1e20\n");
    stage.run(&["go"]).expect_code(1).expect_said(&["config.toml", "line 6: timeout in [check]", "31536000"]);
}

#[test]
fn any_key_can_be_set_by_flag_and_a_mistake_there_is_code_2() {
    let stage = stage().with_config("[limits]\nmax_steps = 9\n");
    let mut command = stage.run_command(&["--set", "limits.max_steps=2", "--set", "limits.tool_output=500"]);
    command.arg("go").env("PITON_LIMITS__MAX_STEPS", "5");
    Ran::of(command).expect_code(4);
    assert_eq!(max_steps(&stage), 2);
    let started = stage.journal().into_iter().find(|event| event["type"] == "turn_started").unwrap();
    assert_eq!(started["policy"]["output_cut"], json!({"head_tail": {"max_chars": 500}}));
    let shown =
        Ran::of(stage.piton(&["config", "show", "--origin", "--set", "limits.max_turns=3"])).expect_code(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("limits.max_turns = 3")).expect(&shown);
    assert!(line.ends_with("# --set limits.max_turns"), "{line}");
    for (args, words) in [
        (&["--set", "limits.max_stps=3"][..], "did you mean `max_steps`?"),
        (&["--set", "nonsense"], "KEY=VALUE"),
        (&["--max-cost", "0"], "0.000001"),
        (&["--temperature", "9"], "from 0 to 2"),
        (&["--preset", "pulze"], "did you mean `pulse`?"),
    ] {
        stage.run(&[args, &["go"]].concat()).expect_code(2).expect_said(&[words]);
    }
}

#[test]
fn flags_are_settings_like_others_and_said_to_be() {
    let stage =
        stage().with_config("[limits]\nmax_steps = 9\n[check]\ncommands = [\"true\"]\n[permission]\nbash = \"deny\"\n");
    let flags = ["--max-steps", "3", "--max-cost", "0.5", "--check", "make", "--allow", "*", "--deny", "edit"];
    let flags = [&flags[..], &["--model", "openai/m", "--effort", "low", "--temperature", "0.5"]].concat();
    let shown = Ran::of(stage.piton(&[&["config", "show", "--origin"], &flags[..]].concat())).expect_code(0).stdout;
    for (set, by) in [
        ("limits.max_steps = 3 ", "--max-steps"),
        ("limits.max_cost = 0.5 ", "--max-cost"),
        ("check.commands = [\"true\", \"make\"] ", "--check"),
        ("permission.\"*\" = \"allow\" ", "--allow"),
        ("permission.edit = \"deny\" ", "--deny"),
        ("model = \"openai/m\" ", "--model"),
        ("answers.effort = \"low\" ", "--effort"),
        ("answers.temperature = 0.5 ", "--temperature"),
    ] {
        let line = shown.lines().find(|line| line.starts_with(set)).expect(&shown);
        assert!(line.ends_with(&format!("# {by}")), "{line}");
    }
    assert!(!shown.contains("permission.bash"), "a rule for all tools wins over those before it: {shown}");
}

#[test]
fn the_limit_that_was_hit_is_the_one_to_raise() {
    let said = |set: &str| {
        let stage = stage();
        let mut command = stage.piton(&["run", "--yes", "--model", "openai-chat/m", "--set", set, "go"]);
        command.current_dir(stage.workspace.path());
        Ran::of(command).expect_code(4).stderr
    };
    assert!(said("limits.max_replies=1").contains("--set limits.max_replies=N"));
    assert!(said("limits.max_steps=1").contains("--max-steps N"));
}

#[test]
fn a_configuration_that_is_named_has_to_be_there() {
    let stage = stage();
    let mut command = stage.run_command(&["go"]);
    command.env("PITON_CONFIG", "/no/such/file.toml");
    Ran::of(command).expect_code(1).expect_said(&["/no/such/file.toml", "PITON_CONFIG"]);
}

#[test]
fn hooks_that_are_not_read_cannot_be_trusted_unnoticed() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    stage.run(&["--trust-hooks", "go"]).expect_code(0).expect_said(&["--trust-hooks", "claude.hooks=true"]);
}

#[test]
fn what_is_known_of_a_model_can_be_configured() {
    let stage = Stage::new(json!([{"text": "Done.", "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}]));
    let stage =
        stage.with_config("[models.\"openai-chat/test-model\"]\nwindow = 64000\nprice = {input = 1, output = 2}\n");
    stage.run(&["--max-cost", "1", "go"]).expect_code(0);
    let context =
        Ran::of(stage.piton(&["context", "--json", "--model", "openai-chat/test-model"])).expect_code(0).stdout;
    let context: Value = serde_json::from_str(&context).unwrap();
    assert_eq!(context["window_tokens"], 64000);
}

#[test]
fn a_provider_of_ones_own_is_named_among_the_known_ones() {
    let stage = stage().with_config("[providers.werkstatt]\nprotocol = \"chat\"\nbase_url = \"http://127.0.0.1:9\"\n");
    let mut command = stage.piton(&["run", "--model", "werkstat/m", "go"]);
    command.current_dir(stage.workspace.path());
    let said = ["--model is not valid", "did you mean `werkstatt`?", "`piton models` lists them"];
    Ran::of(command).expect_code(2).expect_said(&said);
}

#[test]
fn passwords_and_what_goes_into_requests_are_not_shown() {
    let config =
        "[http]\nproxy = \"http://me:s3cret@proxy.example:3128\"\n[options.extra_body]\napi_key = \"s3cret\"\nn = 7\n";
    let stage = stage().with_config(config);
    let shown = Ran::of(stage.piton(&["config", "show"])).expect_code(0).stdout;
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("http.proxy = \"http://me:…@proxy.example:3128\""), "{shown}");
    assert!(shown.contains("options.extra_body.api_key = \"…\"") && shown.contains("extra_body.n = 7"), "{shown}");
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
