//! `piton auth`: where keys are kept, in which order they are found, and that none of them ever shows.

use crate::stage::{Ran, Stage, until};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// A keyring in a file, by the program that asks the real one.
const KEYRING: &str = "#!/bin/sh\nkept=\"$KEYRING_FILE\"\ncase \"$1\" in\n\
    store) cat >\"$kept\" ;;\nlookup) cat \"$kept\" 2>/dev/null ;;\nclear) rm \"$kept\" ;;\nesac\n";

fn stage() -> Stage {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]));
    let config = format!(
        "[providers.openai]\nbase_url = \"{url}/v1\"\n[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\nkey_command = \"printf sk-by-command\"\n",
        url = stage.provider.url()
    );
    stage.with_config(&config)
}

/// Piton without any key in its environment.
fn piton(stage: &Stage, args: &[&str]) -> Command {
    let mut command = stage.piton(args);
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"] {
        command.env_remove(name);
    }
    command
}

fn login(mut command: Command, key: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who refuses at once may be gone by now, and reads nothing.
    drop(writeln!(child.stdin.take().unwrap(), "{key}"));
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn of_keys_that_are_kept_at_once_none_is_lost() {
    let stage = stage();
    let names = ["openai", "anthropic", "openrouter", "groq", "mistral", "deepseek", "xai", "mine"];
    let mut children: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = piton(&stage, &["auth", "login", "--file", name]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        writeln!(child.stdin.take().unwrap(), "sk-secret").unwrap();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let kept: serde_json::Value = serde_json::from_str(&stage.home.read("data/keys.json")).unwrap();
    assert!(names.iter().all(|name| kept.get(name).is_some()), "{kept}");
}

/// The authorization of the newest request of `piton run`.
fn authorization(stage: &Stage, mut command: Command) -> String {
    command.stdin(Stdio::null());
    Ran::of(command).expect_code(0);
    stage.provider.requests().last().unwrap().header("authorization").unwrap_or_default().to_owned()
}

fn ask(model: &str) -> [&str; 5] {
    ["run", "--yes", "--model", model, "go"]
}

#[test]
fn without_a_keyring_a_key_is_kept_in_a_file_of_its_own_and_that_is_said() {
    let stage = stage();
    let ran = login(piton(&stage, &["auth", "login", "openai"]), "sk-secret-1").expect_code(0);
    assert!(ran.stdout.contains("keys.json") && ran.stdout.contains("not encrypted"), "{}", ran.stdout);
    let file = stage.home.path().join("data/keys.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(authorization(&stage, piton(&stage, &ask("openai/m"))), "Bearer sk-secret-1");
    let list = Ran::of(piton(&stage, &["auth", "list"])).expect_code(0);
    assert_eq!(list.stdout, "openai             keys.json\nmine               key_command\n");
    Ran::of(piton(&stage, &["auth", "logout", "openai"])).expect_code(0);
    Ran::of(piton(&stage, &["auth", "logout", "openai"])).expect_code(1).expect_said(&["no key for openai"]);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("sk-secret-1"));
}

#[test]
fn a_keyring_takes_it_where_there_is_one_and_is_asked_only_for_what_is_in_it() {
    let stage = stage();
    stage.home.write("bin/secret-tool", KEYRING);
    let program = stage.home.path().join("bin/secret-tool");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", stage.home.path().join("bin").display());
    let with_keyring = |args: &[&str]| {
        let mut command = piton(&stage, args);
        command.env("PATH", &path).env("KEYRING_FILE", stage.home.path().join("kept"));
        command
    };
    let ran = login(with_keyring(&["auth", "login", "openai"]), "sk-secret-2").expect_code(0);
    assert!(ran.stdout.contains("in the keyring"), "{}", ran.stdout);
    assert!(!stage.home.read("data/keys.json").contains("sk-secret-2"));
    assert_eq!(authorization(&stage, with_keyring(&ask("openai/m"))), "Bearer sk-secret-2");
    // What is kept elsewhere is no longer there.
    login(with_keyring(&["auth", "login", "--file", "openai"]), "sk-secret-5").expect_code(0);
    assert!(!stage.home.path().join("kept").exists(), "no key is left that nobody knows of");
    login(with_keyring(&["auth", "login", "openai"]), "sk-secret-2").expect_code(0);
    // From here on it would fail, if it were asked.
    stage.home.write("bin/secret-tool", "#!/bin/sh\necho asked >&2; exit 1\n");
    let mut keyed = with_keyring(&ask("openai/m"));
    keyed.env("OPENAI_API_KEY", "sk-env");
    assert_eq!(authorization(&stage, keyed), "Bearer sk-env");
    assert_eq!(authorization(&stage, with_keyring(&ask("mine/m"))), "Bearer sk-by-command");
    let words = ["the keyring does not give the key of openai", "asked", "piton auth login openai"];
    Ran::of(with_keyring(&ask("openai/m"))).expect_code(1).expect_said(&words);
    let ran = login(with_keyring(&["auth", "login", "openai"]), "sk-secret-3").expect_code(0);
    ran.expect_said(&["may still be in the keyring"]);
    assert_eq!(authorization(&stage, with_keyring(&ask("openai/m"))), "Bearer sk-secret-3", "the file is the fallback");
}

#[test]
fn the_environment_comes_before_what_is_kept_and_that_before_a_command() {
    let stage = stage();
    assert_eq!(authorization(&stage, piton(&stage, &ask("mine/m"))), "Bearer sk-by-command");
    login(piton(&stage, &["auth", "login", "mine"]), "sk-kept").expect_code(0);
    assert_eq!(authorization(&stage, piton(&stage, &ask("mine/m"))), "Bearer sk-kept");
    let mut command = piton(&stage, &["auth", "login", "openai"]);
    command.env("OPENAI_API_KEY", "sk-env");
    login(command, "sk-other").expect_code(0).expect_said(&["OPENAI_API_KEY is set"]);
}

#[test]
fn a_key_is_in_no_output_no_journal_and_no_tool() {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "env"}}]},
        {"status": 401, "body": {"error": {"message": "Incorrect API key provided: sk-secret-4"}}}]);
    let stage = Stage::new(script);
    let config = format!("[providers.openai]\nbase_url = \"{}/v1\"\n", stage.provider.url());
    let stage = stage.with_config(&config);
    login(piton(&stage, &["auth", "login", "openai"]), "sk-secret-4").expect_code(0);
    let ran = Ran::of(piton(&stage, &["run", "--yes", "--format", "stream-json", "--model", "openai/m", "go"]));
    let ran = ran.expect_code(10);
    let doctor = Ran::of(piton(&stage, &["doctor"]));
    assert!(doctor.stdout.contains("openai: in keys.json"), "{}", doctor.stdout);
    let models = Ran::of(piton(&stage, &["models"])).expect_code(0).expect_said(&["openai: key from keys.json"]);
    for text in [&ran.stdout, &ran.stderr, &doctor.stdout, &models.stdout, &models.stderr] {
        assert!(!text.contains("sk-secret-4"), "{text}");
    }
    for entry in std::fs::read_dir(stage.session_dir()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(11).any(|window| window == b"sk-secret-4"), "{}", path.display());
    }
}

#[test]
fn who_is_not_let_in_hears_which_key_it_was() {
    let refusal = json!({"status": 401, "body": {"error": {"message": "no"}}, "repeat": true});
    let stage = Stage::new(json!([refusal]));
    let url = stage.provider.url();
    let config = format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\nkey_variable = \"MINE\"\n");
    let stage = stage.with_config(&config);
    let nothing =
        "no key was sent: MINE, its key_variable, is not set; set it, or keep a key with `piton auth login mine`";
    Ran::of(piton(&stage, &ask("mine/m"))).expect_code(10).expect_said(&[nothing]);
    login(piton(&stage, &["auth", "login", "mine"]), "sk-secret").expect_code(0);
    Ran::of(piton(&stage, &ask("mine/m"))).expect_code(10).expect_said(&["the key is from keys.json: replace it"]);
    let mut command = piton(&stage, &ask("mine/m"));
    command.env("MINE", "sk-other");
    Ran::of(command).expect_code(10).expect_said(&["the key is from MINE, which comes before a kept key"]);
}

#[test]
fn a_key_that_has_ended_is_had_again_from_its_command_and_asked_with_once() {
    let refusal = json!({"status": 401, "body": {"error": {"message": "expired"}}});
    let stage = Stage::new(json!([refusal, {"text": "ok"}, refusal, refusal]));
    let url = stage.provider.url();
    let config = |command: &str| {
        format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\nkey_command = \"{command}\"\n")
    };
    // It prints another key each time.
    let count = stage.home.path().join("count");
    let stage = stage.with_config(&config(&format!("echo x >>{0}; echo sk-$(wc -l <{0})", count.display())));
    Ran::of(piton(&stage, &ask("mine/m"))).expect_code(0);
    let keys: Vec<String> =
        stage.provider.requests().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
    // Another refusal is not followed by a third request, and neither key is shown.
    let ran = Ran::of(piton(&stage, &ask("mine/m"))).expect_code(10);
    assert_eq!(stage.provider.requests().len(), 4);
    assert!(!ran.stderr.contains("sk-") && ran.stderr.contains("key_command"), "{}", ran.stderr);
}

#[test]
fn a_key_that_stays_the_same_is_not_tried_twice() {
    let refusal = json!({"status": 401, "body": {"error": {"message": "no"}}, "repeat": true});
    let stage = Stage::new(json!([refusal]));
    let url = stage.provider.url();
    let config = format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\nkey_command = \"echo sk\"\n");
    let stage = stage.with_config(&config);
    Ran::of(piton(&stage, &ask("mine/m"))).expect_code(10);
    assert_eq!(stage.provider.requests().len(), 1);
}

/// `vllm --api-key`: the advice that a refusal gives can be followed.
#[test]
fn a_server_of_this_machine_is_sent_the_key_that_was_kept_for_it_and_no_other() {
    let stage = Stage::new(json!([{"status": 401, "body": {"error": {"message": "no"}}}, {"text": "ok"}]));
    let config = format!("[providers.vllm]\nbase_url = \"{}/v1\"\n", stage.provider.url());
    let stage = stage.with_config(&config);
    let advice = "keep one with `piton auth login vllm`";
    Ran::of(piton(&stage, &ask("vllm/m"))).expect_code(10).expect_said(&[advice]);
    login(piton(&stage, &["auth", "login", "vllm"]), "sk-local").expect_code(0);
    assert_eq!(authorization(&stage, piton(&stage, &ask("vllm/m"))), "Bearer sk-local");
}

#[test]
fn what_is_wrong_with_a_key_or_its_file_is_said() {
    let stage = stage();
    let said = |args: &[&str], key: &str| login(piton(&stage, args), key).expect_code(1);
    said(&["auth", "login", "opnai"], "k").expect_said(&["opnai", "did you mean openai"]);
    said(&["auth", "login", "openai"], "  ").expect_said(&["no key was given"]);
    said(&["auth", "login", "openai"], "export OPENAI_API_KEY=sk").expect_said(&["not a key"]);
    Ran::of(piton(&stage, &["run", "--model", "anthropic/m", "go"]))
        .expect_code(1)
        .expect_said(&["ANTHROPIC_API_KEY", "piton auth login anthropic"]);
    said(&["auth", "login", "mistral"], "k\u{e9}").expect_said(&["not a key"]);
    login(piton(&stage, &["auth", "login", "openai"]), "sk-1").expect_code(0);
    let file = stage.home.path().join("data/keys.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    Ran::of(piton(&stage, &ask("openai/m"))).expect_code(1).expect_said(&["chmod 600", "keys.json"]);
    std::fs::write(&file, "sk-secret garbage").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ran = Ran::of(piton(&stage, &ask("openai/m"))).expect_code(1).expect_said(&["damaged"]);
    assert!(!ran.stderr.contains("sk-secret"), "{}", ran.stderr);
}

/// Everything that a run printed and left on disk.
fn everything(stage: &Stage, ran: &Ran) -> Vec<u8> {
    let mut all = [ran.stdout.as_bytes(), ran.stderr.as_bytes()].concat();
    for entry in std::fs::read_dir(stage.session_dir()).unwrap() {
        all.extend(std::fs::read(entry.unwrap().path()).unwrap_or_default());
    }
    all
}

fn run_at(stage: &Stage, config: &str, envs: &[(&str, &str)], model: &str) -> Ran {
    stage.home.write("config.toml", config.replace("URL", &stage.provider.url()));
    let mut command = piton(stage, &["run", "--yes", "--format=stream-json", "--model", model, "go"]);
    command.envs(envs.iter().copied());
    Ran::of(command)
}

#[test]
fn a_key_that_a_provider_quotes_is_hidden_wherever_it_came_from_and_wherever_it_is_quoted() {
    const KEY: &str = "sk-ant-SECRETSECRETSECRETSECRETSECRETSECRET";
    let known = "[providers.openai]\nbase_url = \"URL/v1\"\n";
    let by_header = "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"URL/v1\"\n\
                     [providers.mine.options]\nheaders = { authorization = \"Bearer KEY\" }\n";
    let refused = |words: String| json!([{ "status": 401, "body": { "error": { "message": words } } }]);
    let in_stream = json!([{ "text": "hi", "sse_error": { "message": format!("{} {KEY}", "x".repeat(275)) } }]);
    let garbled = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"hi\"}}}}]}}\n\ndata: {{\"debug\":\"{KEY}\n\n\
        data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n"
    );
    let cases = [
        (refused(format!("wrong key: {KEY}")), known, "openai/m"),
        // Cut in the middle of it.
        (refused(format!("{} {KEY} is not valid", "x ".repeat(140))), known, "openai/m"),
        (refused(format!("wrong key: {KEY}")), by_header, "mine/m"),
        (in_stream, known, "openai/m"),
        (json!([{ "status": 200, "body": garbled }]), known, "openai/m"),
    ];
    for (script, config, model) in cases {
        let stage = Stage::new(script.clone());
        let config = format!("[retry]\ntimes = 0\n{}", config.replace("KEY", KEY));
        let ran = run_at(&stage, &config, &[("OPENAI_API_KEY", KEY)], model);
        assert!(ran.stdout.contains("[key]"), "{script}: {}", ran.stdout);
        let all = everything(&stage, &ran);
        assert!(!all.windows(12).any(|window| window == &KEY.as_bytes()[..12]), "{script}: {}", ran.stdout);
    }
}

#[test]
fn the_key_in_use_and_those_of_others_are_kept_from_commands() {
    let prints =
        json!([{ "tools": [{ "name": "bash", "args": { "command": "echo ${#GITHUB_TOKEN}" } }] }, { "text": "ok" }]);
    let output = |config: &str, model: &str| {
        let stage = Stage::new(prints.clone());
        let ran = run_at(&stage, config, &[("GITHUB_TOKEN", "ghp_secret"), ("OPENAI_API_KEY", "sk-1")], model);
        ran.outcomes()[0]["text"].as_str().unwrap().trim() == "ghp_secret".len().to_string()
    };
    let servers = "[providers.github]\nbase_url = \"URL/v1\"\n[providers.openai]\nbase_url = \"URL/v1\"\n";
    assert!(!output(servers, "github/m"), "it is the key of the model");
    assert!(!output(servers, "openai/m"), "it is on no list");
    let granted = format!("keys_for_tools = [\"GITHUB_TOKEN\"]\n{servers}");
    assert!(output(&granted, "github/m") && output(&granted, "openai/m"));
    let compactor = format!("[compaction]\nmodel = \"github/m\"\n{servers}");
    assert!(!output(&compactor, "openai/m"), "it is the key of who sums up");
    // A command that prints a key sees no other.
    let stage = Stage::new(json!([{ "text": "ok" }]));
    let file = stage.home.path().join("seen");
    let config = format!(
        "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"URL/v1\"\nkey_command = \"env > {}; echo sk-by-command\"\n",
        file.display()
    );
    run_at(&stage, &config, &[("OPENAI_API_KEY", "sk-1"), ("VAULT_ADDR", "here")], "mine/m").expect_code(0);
    let seen = std::fs::read_to_string(file).unwrap();
    assert!(seen.contains("VAULT_ADDR") && !seen.contains("sk-1"), "{seen}");
}

/// A server that refuses every key, and its address.
fn refusing() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
                asked.push(byte[0]);
            }
            let body = r#"{"error":{"message":"Incorrect API key provided"}}"#;
            let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn a_key_that_the_provider_refuses_is_not_stored_unless_the_person_insists() {
    let stage = Stage::new(json!([]));
    let stage = stage.with_config(&format!("[providers.openai]\nbase_url = \"{}\"\n", refusing()));
    let ran = login(piton(&stage, &["auth", "login", "openai"]), "sk-wrong").expect_code(1);
    assert!(ran.stderr.contains("openai refuses the key: ") && ran.stderr.contains("Incorrect API key"), "{ran:?}");
    assert!(ran.stderr.contains("nothing was stored") && !ran.stderr.contains("sk-wrong"), "{ran:?}");
    Ran::of(piton(&stage, &["auth", "list"])).expect_said(&["no keys found"]);
    let mut person = stage.terminal_behind("unset OPENAI_API_KEY OPENAI_BASE_URL; ", &["auth", "login", "openai"]);
    until("it asks", || person.screen().contains("key for openai"));
    person.type_line("sk-wrong");
    until("it asks again", || person.screen().contains("store it anyway? y/N"));
    person.type_line("y");
    assert_eq!(person.end(), 0);
    assert!(stage.home.read("data/keys.json").contains("sk-wrong"));
    login(piton(&stage, &["auth", "login", "--unchecked", "openai"]), "sk-other").expect_code(0);
    assert!(stage.home.read("data/keys.json").contains("sk-other"));
}

#[test]
fn a_key_is_checked_where_the_provider_answers_and_kept_unchecked_where_it_does_not() {
    let stage = stage();
    let ran = login(piton(&stage, &["auth", "login", "openai"]), "sk-right").expect_code(0);
    assert!(ran.stderr.contains("openai accepts the key"), "{ran:?}");
    // Nobody listens there.
    let config = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let stage = Stage::new(json!([])).with_config(config);
    let ran = login(piton(&stage, &["auth", "login", "openai"]), "sk-unknown").expect_code(0);
    assert!(ran.stderr.contains("note: the key is unchecked: "), "{ran:?}");
    assert!(stage.home.read("data/keys.json").contains("sk-unknown"));
}
