//! What people and machines get wrong: each a clear message, a code other than 0, and nothing lost.

use crate::stage::{Ran, Stage, bare};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;

fn stage() -> Stage {
    Stage::new(json!([{"text": "ok", "repeat": true}]))
}

fn run_with_model(stage: &Stage, model: &str) -> Ran {
    Ran::of(stage.piton(&["run", "--yes", "--model", model, "go"]))
}

#[test]
fn a_task_needs_no_command_and_a_model_no_provider_that_the_catalogue_knows() {
    for name in ["sonnet", "claude-sonnet-4-5"] {
        let stage = Stage::speaking("anthropic", json!([{"text": "done"}]));
        let ran = Ran::of(stage.piton(&["-p", "fix the test", "--model", name])).expect_code(0);
        assert_eq!(ran.stdout, "done\n");
        ran.expect_said(&[&format!("{name} is anthropic/claude-sonnet-")]);
        let model = stage.provider.requests()[0].body["model"].as_str().unwrap().to_owned();
        assert!(model.starts_with("claude-sonnet-") && !model.contains("202"), "{model}");
    }
}

#[test]
fn a_name_that_may_be_a_mistake_is_sent_to_nobody() {
    for (name, meant) in [
        ("mini", "Did you mean "),
        ("claude-sonnet", "Did you mean anthropic/claude-sonnet-"),
        ("claude-sonet-4-5", "Did you mean claude-sonnet-4-5?"),
        ("antropic", "Did you mean anthropic?"),
    ] {
        let stage = Stage::speaking("anthropic", json!([]));
        Ran::of(stage.piton(&["-p", "fix the test", "--model", name])).expect_code(1).expect_said(&[meant]);
        assert!(stage.provider.requests().is_empty());
    }
}

#[test]
fn a_short_name_fetches_the_key_of_the_provider_that_is_asked_only() {
    let stage = Stage::speaking("anthropic", json!([{"text": "done"}]));
    let ran = stage.home.path().join("ran");
    let command = format!("echo x >>{}; echo sk-1", ran.display());
    // Both know the model, and come after the one whose key is in the environment.
    let more: String =
        ["openrouter", "vercel"].map(|name| format!("[providers.{name}]\nkey_command = \"{command}\"\n")).concat();
    let stage = stage.with_config(&more);
    Ran::of(stage.piton(&["run", "--yes", "--model", "sonnet", "go"])).expect_code(0);
    assert!(!ran.exists(), "a command for another provider's key was run");
}

#[test]
fn the_words_of_other_agents_cost_nothing() {
    for (words, ours) in
        [(&["--yolo", "fix the test"][..], "--yes"), (&["login"], "piton auth login"), (&["rum"], "piton run \"rum\"")]
    {
        let stage = stage();
        Ran::of(stage.piton(words)).expect_code(2).expect_said(&[ours]);
        assert_eq!(stage.provider.requests().len(), 0);
    }
}

#[test]
fn a_session_is_named_by_its_place_in_every_command() {
    for command in ["cancel", "pause", "continue", "follow", "repair", "restore"] {
        let ran = Ran::of(stage().piton(&["session", command, "-2"]));
        assert!(!ran.stderr.contains("unexpected argument"), "{command}: {}", ran.stderr);
        assert_eq!(ran.code, 1, "{command}: {}", ran.stderr);
    }
}

#[test]
fn an_unknown_provider_is_named_with_the_known_ones() {
    run_with_model(&stage(), "openia/gpt").expect_code(2).expect_said(&[
        "openia",
        "did you mean `openai`",
        "piton models",
    ]);
    run_with_model(&stage(), "openia").expect_code(1).expect_said(&["openia", "openai", "anthropic", "piton models"]);
}

#[test]
fn a_provider_without_a_model_is_told_so() {
    run_with_model(&stage(), "openai-chat/").expect_code(2).expect_said(&["model"]);
}

#[test]
fn an_unknown_model_is_one_line_and_one_request() {
    let stage =
        Stage::new(json!([{"status": 404, "body": {"error": {"message": "The model `gpt-0` does not exist"}}}]));
    run_with_model(&stage, "openai-chat/gpt-0").expect_code(10).expect_said(&["gpt-0", "does not exist"]);
    assert_eq!(stage.provider.requests().len(), 1);
}

#[test]
fn a_missing_key_says_which_variable() {
    let stage = stage();
    let mut command = stage.piton(&["run", "--model", "anthropic/claude-x", "go"]);
    command.env_remove("ANTHROPIC_API_KEY").env_remove("ANTHROPIC_BASE_URL");
    Ran::of(command).expect_code(1).expect_said(&["ANTHROPIC_API_KEY", "piton demo"]);
}

#[test]
fn a_wrong_key_is_one_line_without_a_retry_and_without_the_key() {
    let stage = Stage::new(
        json!([{"status": 401, "body": {"error": {"message": "Incorrect API key provided: sk-test-openai"}}}]),
    );
    let ran = run_with_model(&stage, "openai-chat/m").expect_code(10).expect_said(&["key"]);
    assert!(!ran.stderr.contains("sk-test-openai"), "{}", ran.stderr);
    assert_eq!(stage.provider.requests().len(), 1);
}

#[test]
fn without_any_model_the_choices_are_named() {
    // Servers that listen on this machine while the test runs are none of its business.
    let elsewhere = ["ollama", "ollama-native", "lmstudio", "llamacpp", "vllm"];
    let config = elsewhere.map(|name| format!("[providers.{name}]\nbase_url = \"http://127.0.0.1:9\"\n")).concat();
    let stage = stage().with_config(&config);
    let mut command = bare(&stage.home.path());
    command.current_dir(stage.workspace.path()).args(["run", "go"]);
    Ran::of(command).expect_code(1).expect_said(&[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "ollama",
        "piton demo",
    ]);
}

#[test]
fn the_only_model_of_a_named_server_is_asked_and_of_several_they_are_named() {
    let elsewhere = ["ollama", "ollama-native", "lmstudio", "llamacpp", "vllm"];
    let config = elsewhere.map(|name| format!("[providers.{name}]\nbase_url = \"http://127.0.0.1:9\"\n")).concat();
    let stage = Stage::new(json!([{"text": "done", "repeat": true}])).with_config(&config);
    let run = |server: &str| {
        let mut command = bare(&stage.home.path());
        command.current_dir(stage.workspace.path()).args(["run", "go"]).env("OPENAI_BASE_URL", server);
        Ran::of(command)
    };
    run(&format!("{}/v1", stage.provider.url())).expect_code(0);
    let requests = stage.provider.requests();
    let asked = requests.iter().filter(|request| request.method == "POST").count();
    assert_eq!(asked, 1, "{requests:?}");
    let several = serve_once(r#"{"data": [{"id": "one"}, {"id": "other"}]}"#);
    run(&several).expect_code(1).expect_said(&["openai-chat/one, openai-chat/other", "--model openai-chat/one"]);
    // With a key as well: the default model of OpenAI is not theirs.
    let mut command = bare(&stage.home.path());
    command.current_dir(stage.workspace.path()).args(["run", "go"]).env("OPENAI_API_KEY", "sk-1");
    Ran::of({
        command.env("OPENAI_BASE_URL", format!("{}/v1", stage.provider.url()));
        command
    })
    .expect_code(0);
    let asked = stage.provider.requests().into_iter().rfind(|request| request.method == "POST").unwrap();
    assert!(!asked.body.to_string().contains("gpt-5.4"), "{}", asked.body["model"]);
    run("http://127.0.0.1:9/v1").expect_code(1).expect_said(&["does not list its models", "OPENAI_BASE_URL"]);
}

/// A server that gives one answer, whatever is asked.
fn serve_once(body: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    format!("http://{address}/v1")
}

#[test]
fn a_mistake_of_the_command_line_is_told_to_programs_too() {
    for args in [
        &["run", "--format", "json", "--bogus"][..],
        &["run", "--format", "json", "--max-steps", "x", "hi"],
        &["--format=stream-json", "--mode", "foo", "hi"],
    ] {
        let ran = Ran::of(stage().piton(args)).expect_code(2);
        let told = ran.events();
        assert_eq!((told.len(), &told[0]["kind"], &told[0]["exit_code"]), (1, &json!("usage"), &json!(2)), "{args:?}");
        assert!(!told[0]["error"].as_str().unwrap().contains("Usage") && !ran.stderr.is_empty(), "{told:?}");
    }
}

#[test]
fn a_file_of_servers_that_is_not_there_is_an_error() {
    let stage = stage();
    stage.run(&["--mcp-config", "/nowhere.json", "go"]).expect_code(1).expect_said(&["--mcp-config /nowhere.json"]);
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn an_empty_task_is_not_sent() {
    for prompt in ["", "  \n "] {
        let stage = stage();
        stage.run(&[prompt]).expect_code(1).expect_said(&["task is empty"]);
        assert!(stage.provider.requests().is_empty());
    }
}

#[test]
fn a_folder_that_is_not_there_or_not_a_folder_is_named() {
    let stage = stage();
    stage.workspace.write("file", "");
    stage.run(&["--cwd", "nowhere", "go"]).expect_code(1).expect_said(&["nowhere"]);
    stage.run(&["--cwd", "file", "go"]).expect_code(1).expect_said(&["not a folder"]);
}

#[test]
fn a_command_line_that_makes_no_sense_is_code_2() {
    let stage = stage();
    Ran::of(stage.piton(&["run", "--max-steps", "many", "go"])).expect_code(2).expect_said(&["--max-steps"]);
    Ran::of(stage.piton(&["rum"])).expect_code(2).expect_said(&["rum"]);
}

#[test]
fn a_configuration_that_is_garbage_is_named_with_its_line() {
    let stage = stage().with_config("modle = 3\n");
    stage.run(&["go"]).expect_code(1).expect_said(&["config.toml", "modle"]);
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let stage = stage();
    stage.home.write("occupied", "a file where a folder should be");
    let mut command = stage.run_command(&["go"]);
    command.env("PITON_DATA_DIR", stage.home.path().join("occupied"));
    Ran::of(command).expect_code(1).expect_said(&["occupied", "PITON_DATA_DIR"]);
    assert!(stage.provider.requests().is_empty(), "nothing is asked that could not be recorded");
}

#[test]
fn a_tool_the_model_invented_is_answered_with_the_real_ones() {
    let stage = Stage::new(json!([{"tools": [{"name": "str_replace_editor", "args": {}}]}, {"text": "ok"}]));
    stage.run(&["go"]).expect_code(0);
    let told = stage.last_messages()[3]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("str_replace_editor") && told.contains("edit") && told.contains("bash"), "{told}");
}

#[test]
fn a_file_that_is_not_text_does_not_stop_the_turn() {
    let stage = Stage::new(
        json!([{"tools": [{"name": "read", "args": {"path": "latin"}}, {"name": "read", "args": {"path": "binary"}}]}, {"text": "ok"}]),
    );
    stage.workspace.write("latin", b"caf\xe9\n");
    stage.workspace.write("binary", [0_u8, 1, 2, 3, 0, 255]);
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("caf"));
    assert!(ran.outcomes()[1]["text"].as_str().unwrap().contains("binary"), "{}", ran.outcomes()[1]);
}

#[test]
fn a_session_that_is_not_there_or_not_the_only_one() {
    let stage = stage();
    stage.run(&["--continue", "go"]).expect_code(1).expect_said(&["no session"]);
    stage.run(&["--resume", "ses_nope", "go"]).expect_code(1).expect_said(&["ses_nope", "piton session list"]);
    stage.run(&["go"]).expect_code(0);
    stage.run(&["go"]).expect_code(0);
    stage.run(&["--resume", "ses_", "go"]).expect_code(1).expect_said(&["2 sessions"]);
}

#[test]
fn a_damaged_or_newer_journal_is_left_as_it_is() {
    let stage = stage();
    stage.run(&["go"]).expect_code(0);
    let db = stage.session_dir().join("journal.db");
    let sound = std::fs::read(&db).unwrap();
    let garbage = vec![b'x'; 8192];
    let mut newer = sound.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    for (bytes, word) in [(&garbage, "damaged"), (&newer, "newer Piton")] {
        std::fs::write(&db, bytes).unwrap();
        let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
        stage.run(&["--resume", &id, "go"]).expect_code(1).expect_said(&[word]);
        assert!(std::fs::read(&db).unwrap() == *bytes, "not a byte was changed");
        Ran::of(stage.piton(&["session", "list"])).expect_code(0).expect_said(&[word]);
    }
    std::fs::write(&db, sound).unwrap();
    stage.run(&["--continue", "go"]).expect_code(0);
}

#[test]
fn a_cassette_that_is_not_one_is_named_with_its_line() {
    let stage = stage();
    stage.workspace.write("bad.jsonl", "{\"cassette\":1}\n{\"text\":\n");
    run_with_model(&stage, "recorded/bad.jsonl").expect_code(1).expect_said(&["bad.jsonl", "line 2"]);
    run_with_model(&stage, "recorded/none.jsonl").expect_code(1).expect_said(&["none.jsonl"]);
}

#[test]
fn a_limit_in_dollars_that_cannot_be_kept_is_not_accepted() {
    let stage = stage();
    stage.run(&["--max-cost=1", "go"]).expect_code(1).expect_said(&["price", "--max-tokens"]);
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn what_a_model_says_cannot_draw_on_the_terminal() {
    let stage = Stage::new(json!([{"text": "hi\u{1b}[2K\rho"}]));
    let ran = Ran::of(stage.piton(&["run", "--model", "openai-chat/m", "go"])).expect_code(0);
    assert_eq!(ran.stdout, "hi\\u{1b}[2K\\u{d}ho\n");
}

#[test]
fn a_rule_for_a_tool_that_does_not_exist_is_remarked_upon() {
    stage().run(&["--deny", "no_such_tool", "go"]).expect_code(0).expect_said(&["no_such_tool", "--deny"]);
    // Servers bring tools of their own, and which is not known here.
    let ran = stage().run(&["--allow", "mcp__words", "go"]).expect_code(0);
    assert!(!ran.stderr.contains("mcp__words"), "{}", ran.stderr);
    let stage = stage().with_config("[permission]\nbsh = \"allow\"\n");
    let ran = stage.run(&["go"]).expect_code(0).expect_said(&["config.toml", "permission.bsh", "did you mean `bash`"]);
    assert_eq!(ran.stderr.matches("permission.bsh").count(), 1, "said once: {}", ran.stderr);
}

#[test]
fn a_damaged_session_that_may_be_the_newest_is_not_passed_over() {
    let stage = stage();
    stage.run(&["older"]).expect_code(0);
    let older = stage.session_dir();
    let newer = older.with_file_name("ses_ffffffff");
    std::fs::create_dir(&newer).unwrap();
    std::fs::write(newer.join("journal.db"), "garbage".repeat(1000)).unwrap();
    stage.run(&["--continue", "go"]).expect_code(1).expect_said(&["ses_ffffffff", "--resume"]);
    let id = older.file_name().unwrap().to_str().unwrap();
    stage.run(&["--resume", id, "go"]).expect_code(0);
}

#[test]
fn a_session_cannot_be_moved_to_another_folder() {
    let stage = stage();
    stage.run(&["go"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let elsewhere = stage.home.path();
    let elsewhere = elsewhere.to_str().unwrap();
    stage.run(&["--cwd", elsewhere, "--resume", &id, "go"]).expect_code(1).expect_said(&["works in", "--cwd"]);
    let mut command = stage.run_command(&["--resume", &id, "go"]);
    command.current_dir(elsewhere);
    Ran::of(command).expect_code(0).expect_said(&["working in", stage.workspace.path().to_str().unwrap()]);
}

#[test]
fn completions_survive_a_reader_that_is_gone_and_a_disk_that_is_full() {
    let stage = Stage::new(json!([]));
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        let line = line.replace("PITON", &format!("{:?}", stage.piton(&[]).get_program()));
        command.args(["-c", &line]).env("HOME", stage.home.path());
        Ran::of(command)
    };
    shell("{ PITON completions zsh; echo $? >&2; } | true").expect_said(&["0\n"]);
    shell("PITON completions zsh > /dev/full").expect_code(1).expect_said(&["could not be written"]);
}

#[test]
fn what_is_piped_in_must_be_text_that_the_model_can_read() {
    let stage = Stage::new(json!([]));
    let more_than_most_models_read = "word ".repeat(300_000).into_bytes();
    for (input, words) in [
        (vec![0u8, 159, 146, 150, 0, 255], "is not text"),
        (vec![b'a'; 11 << 20], "more than 10 MB"),
        (more_than_most_models_read, "how much openai-chat/test-model reads is not known"),
    ] {
        stage.home.write("stdin", input);
        let mut command = stage.run_command(&["what is this?"]);
        command.stdin(std::fs::File::open(stage.home.path().join("stdin")).unwrap());
        Ran::of(command).expect_code(1).expect_said(&[words, "Nothing was sent"]);
    }
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn a_failure_before_the_turn_is_told_to_programs_with_its_kind() {
    for (args, kind, code) in [(["--model", "openia/x"], "usage", 2), (["--model", "modle"], "model", 1)] {
        for format in ["json", "stream-json"] {
            let line = [&["run", "--format", format], &args[..], &["go"]].concat();
            let ran = Ran::of(stage().piton(&line)).expect_code(code);
            let last = ran.stdout.lines().last().unwrap();
            let told: serde_json::Value = serde_json::from_str(last).unwrap();
            assert_eq!((&told["type"], &told["kind"]), (&json!("error"), &json!(kind)));
            assert_eq!(told["exit_code"], code);
        }
    }
}
