//! `session`, `models`, `doctor`, `completions`, `--help`.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

fn used() -> Stage {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "echo hi"}}]}, {"text": "The answer."}]);
    let stage = Stage::new(script);
    stage.run(&["say hi, please"]).expect_code(0);
    stage
}

fn id_of(stage: &Stage) -> String {
    stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn session_list_show_verify_and_rm() {
    let stage = used();
    let id = id_of(&stage);
    let list = Ran::of(stage.piton(&["session", "list"])).expect_code(0);
    for word in [&id[..20], "completed", "1 turn", "say hi, please"] {
        assert!(list.stdout.contains(word), "{word}: {}", list.stdout);
    }
    let show = Ran::of(stage.piton(&["session", "show", &id[4..20]])).expect_code(0);
    for word in ["you: say hi, please", "→ bash echo hi", "← bash ok", "piton: The answer."] {
        assert!(show.stdout.contains(word), "{word}: {}", show.stdout);
    }
    let verify = Ran::of(stage.piton(&["session", "verify", &id])).expect_code(0);
    assert!(verify.stdout.contains("every one in its place"), "{}", verify.stdout);
    Ran::of(stage.piton(&["session", "rm", &id])).expect_code(0);
    let list = Ran::of(stage.piton(&["session", "list", "--json"])).expect_code(0);
    assert_eq!(list.stdout, "");
    Ran::of(stage.piton(&["session", "show", &id])).expect_code(1).expect_said(&["no session"]);
}

#[test]
fn session_list_is_machine_readable() {
    let stage = used();
    let list = Ran::of(stage.piton(&["session", "list", "--json"])).expect_code(0);
    let session: Value = list.events().remove(0);
    assert_eq!(session["id"], id_of(&stage));
    assert_eq!(session["workspace"], stage.workspace.path().to_str().unwrap());
    assert_eq!((&session["steps"], &session["last_end"]), (&json!(2), &json!("completed")));
}

#[test]
fn verify_finds_what_was_changed_by_hand() {
    let stage = used();
    let db = stage.session_dir().join("journal.db");
    let bytes = std::fs::read(&db).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 7).filter(|at| &bytes[*at..at + 7] == b"echo hi").collect();
    assert!(!places.is_empty());
    let mut changed = bytes;
    places.iter().for_each(|at| changed[*at..at + 7].copy_from_slice(b"echo ho"));
    std::fs::write(&db, changed).unwrap();
    let ran = Ran::of(stage.piton(&["session", "verify", &id_of(&stage)])).expect_code(1);
    assert!(ran.stdout.contains("is not what was written"), "{}", ran.stdout);
}

#[test]
fn models_lists_what_the_provider_lists() {
    let stage = used();
    let ran = Ran::of(stage.piton(&["models", "--json"])).expect_code(0);
    let names: Vec<Value> = ran.events().into_iter().map(|model| model["model"].clone()).collect();
    assert!(names.contains(&json!("openai-chat/fake-model")), "{names:?}");
}

#[test]
fn doctor_names_keys_and_never_shows_them() {
    let stage = used();
    let ran = Ran::of(stage.piton(&["doctor"])).expect_code(0);
    for word in ["OPENAI_API_KEY is set", "ANTHROPIC_API_KEY is set", "1 in ", "config.toml"] {
        assert!(ran.stdout.contains(word), "{word}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("sk-test"), "{}", ran.stdout);
}

#[test]
fn doctor_names_the_models_of_a_server_of_ones_own() {
    let stage = Stage::new(json!([]));
    let url = stage.provider.url();
    let doctor = |stage: &Stage, vars: &[(&str, &str)]| {
        let mut command = stage.piton(&["doctor"]);
        command.env_remove("OPENAI_API_KEY").env_remove("ANTHROPIC_API_KEY").env_remove("OPENAI_BASE_URL");
        command.env_remove("ANTHROPIC_BASE_URL").envs(vars.iter().copied());
        Ran::of(command)
    };
    let by_variable = doctor(&stage, &[("OPENAI_BASE_URL", &format!("{url}/v1"))]).expect_code(0);
    let said = by_variable.stdout.matches("1 model at ").count();
    assert_eq!(said, 1, "{}", by_variable.stdout);
    assert!(by_variable.stdout.contains(": fake-model"), "{}", by_variable.stdout);
    let config = format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\n");
    let stage = stage.with_config(&config);
    doctor(&stage, &[]).expect_code(0).expect_stdout(&["mine       1 model at ", ": fake-model"]);
    let nobody = "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let stage = stage.with_config(nobody);
    doctor(&stage, &[]).expect_code(1).expect_stdout(&["mine       no list of models from http://127.0.0.1:9/v1: "]);
}

#[test]
fn doctor_finds_a_data_folder_that_cannot_be_written_and_what_of_claude_is_not_used() {
    let stage = used().with_files([
        (".claude/output-styles/terse.md", "Terse."),
        (".claude/settings.json", r#"{"permissions": {"allow": ["Bash"]}, "hooks": {}}"#),
    ]);
    let ran = Ran::of(stage.piton(&["doctor"])).expect_code(0);
    let unused = "/.claude/output-styles (output styles); .claude/settings.json (hooks, permissions.allow)";
    let line = ran.stdout.lines().find(|line| line.starts_with("claude ")).unwrap_or_default();
    assert!(line.contains("not used in ") && line.ends_with(&unused[1..]), "{}", ran.stdout);
    // Hooks that are used, but for those of an event that there is only there.
    let stage = stage.with_config("[claude]\nhooks = true\n");
    let hooks = r#"{"hooks": {"Stop": [], "TeammateIdle": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#;
    stage.workspace.write(".claude/settings.json", hooks);
    Ran::of(stage.piton(&["doctor"]))
        .expect_code(0)
        .expect_stdout(&[".claude/settings.json (hooks of TeammateIdle: no such event here)"]);
    let ran = stage.run(&["--trust-hooks", "go"]);
    assert!(!ran.stderr.contains("TeammateIdle"), "it is not said at every run: {}", ran.stderr);
    let mut command = stage.piton(&["doctor"]);
    command.env("PITON_DATA_DIR", "/proc/none");
    Ran::of(command).expect_code(1).expect_stdout(&["data       /proc/none cannot be written: "]);
}

#[test]
fn there_is_a_manual_page_for_every_command_that_help_names() {
    let stage = Stage::new(json!([]));
    let page = Ran::of(stage.piton(&["man"])).expect_code(0).stdout;
    assert!(page.contains(".TH piton 1") && page.contains("piton\\-run(1)"), "{page}");
    let dir = stage.home.path().join("man");
    Ran::of(stage.piton(&["man", "--out", dir.to_str().unwrap()])).expect_code(0);
    let help = Ran::of(stage.piton(&["--help"])).expect_code(0).stdout;
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let named = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in named.filter_map(|line| line.split_whitespace().next()).filter(|command| *command != "help") {
        let page = std::fs::read_to_string(dir.join(format!("piton-{command}.1"))).expect(command);
        assert!(page.contains("SYNOPSIS"), "{page}");
    }
    let run = stage.home.read("man/piton-run.1");
    assert!(run.contains("max\\-cost") && stage.home.read("man/piton-session-list.1").contains("search"), "{run}");
    // A hidden command has no page, and a folder that cannot be written is an error.
    assert!(!dir.join("piton-man.1").exists());
    stage.home.write("file", "");
    let file = stage.home.path().join("file");
    Ran::of(stage.piton(&["man", "--out", file.to_str().unwrap()]))
        .expect_code(1)
        .expect_said(&["cannot write manual"]);
}

#[test]
fn completions_and_help_are_there() {
    let stage = Stage::new(json!([]));
    for shell in ["bash", "zsh", "fish"] {
        let ran = Ran::of(stage.piton(&["completions", shell])).expect_code(0);
        assert!(ran.stdout.contains("piton") && ran.stdout.contains("doctor"), "{shell}");
    }
    let help = Ran::of(stage.piton(&["run", "--help"])).expect_code(0).stdout;
    for flag in [
        "--model",
        "--yes",
        "--allow",
        "--cwd",
        "--max-steps",
        "--continue",
        "--resume",
        "--format",
        "--record",
        "--quiet",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
}
