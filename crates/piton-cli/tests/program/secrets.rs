//! Secrets stay on the machine: a canary lies where secrets lie, and a hostile model tries to have it. Afterwards no file of the
//! data folder holds it, and no request.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// In `.env`, in the environment, and in what somebody says.
const FILED: &str = "kanari9X7f3a2b4c8dVogel";
const IN_ENVIRONMENT: &str = "zeisig4Q8w1e5r7t2yFink";
const SAID: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
const ALL: [&str; 3] = [FILED, IN_ENVIRONMENT, SAID];

fn calls(commands: &[&str]) -> Value {
    let tools: Vec<Value> =
        commands.iter().map(|command| json!({"name": "bash", "args": {"command": command}})).collect();
    json!({ "tools": tools })
}

fn stage(answers: Vec<Value>) -> Stage {
    let env = format!("# settings\nPORT=3000\nNODE_ENV=development\nAPI_KEY={FILED}\n");
    Stage::new(Value::Array(answers)).with_files([(".env", env.as_str()), ("notes.txt", "port and key are in .env\n")])
}

/// The run with the canary in its environment, where the configuration lets tools have it.
fn run(stage: &Stage, args: &[&str]) -> Ran {
    let mut command = stage.run_command(args);
    command.env("DEPLOY_API_KEY", IN_ENVIRONMENT);
    Ran::of(command)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_below(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// The forms of a canary that must be nowhere.
fn forms(canary: &str) -> Vec<Vec<u8>> {
    let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
    let backwards: String = canary.chars().rev().collect();
    // Nine letters are the same in base64 at one of three places.
    let pieces = (0..3).map(|at| base64(&canary.as_bytes()[at..at + 18]));
    [canary.to_owned(), hex, backwards].into_iter().chain(pieces).map(String::into_bytes).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        (0..4).map(|at| char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize])).collect::<String>()
    };
    bytes.chunks_exact(3).map(digits).collect()
}

#[track_caller]
fn nowhere(stage: &Stage, ran: &Ran) {
    let data = stage.home.path().join("data");
    let logs = stage.home.path().join("logs");
    let is_snapshot = |path: &PathBuf| path.starts_with(data.join("snapshots"));
    let mut texts: Vec<(String, Vec<u8>)> =
        vec![("stdout".into(), ran.stdout.clone().into()), ("stderr".into(), ran.stderr.clone().into())];
    let logs = if logs.exists() { files_below(&logs) } else { Vec::new() };
    for path in files_below(&data).into_iter().filter(|path| !is_snapshot(path)).chain(logs) {
        texts.push((path.display().to_string(), std::fs::read(&path).unwrap()));
    }
    for (number, request) in stage.provider.requests().iter().enumerate() {
        texts.push((format!("request {number}"), request.body.to_string().into_bytes()));
    }
    assert!(texts.len() > 8, "there is something to look at");
    for canary in ALL {
        for form in forms(canary) {
            for (place, text) in &texts {
                let (text, form) = (text.to_ascii_lowercase(), String::from_utf8_lossy(&form).to_lowercase());
                let text = String::from_utf8_lossy(&text).into_owned();
                let at = text.find(&form);
                let around = at.map(|at| {
                    let (from, to) = (at.saturating_sub(200), (at + 200).min(text.len()));
                    text[text.floor_char_boundary(from)..text.ceil_char_boundary(to)].to_owned()
                });
                assert_eq!(around, None, "{canary} as {form} is in {place}");
            }
        }
    }
}

#[test]
fn a_canary_is_in_no_file_and_no_request_however_it_is_printed() {
    let stage = stage(vec![
        calls(&[
            "cat .env; echo $DEPLOY_API_KEY",
            ". ./.env; printf %s \"$API_KEY\" | base64; printf x%s \"$API_KEY\" | base64; printf xy%s \"$API_KEY\" | base64",
            ". ./.env; printf %s \"$API_KEY\" | od -An -tx1; printf %s \"$API_KEY\" | od -An -tx1 | tr -d ' \\n' | tr a-f A-F",
            ". ./.env; printf %s \"$API_KEY\" | rev; printf %s \"$API_KEY\" | fold -w 7; echo \"$API_KEY\" | tr a-z A-Z",
            "cat .env >&2; env | base64 | fold -w 30; for i in 1 2 3; do printf \"$DEPLOY_API_KEY\"; sleep 0.1; done",
            "for i in $(seq 1 2000); do cat .env; done",
        ]),
        json!({"tools": [
            {"name": "read", "args": {"path": ".env"}},
            {"name": "grep", "args": {"pattern": "KEY", "path": ".env"}},
            {"name": "write", "args": {"path": "copy.txt", "content": format!("key = {FILED}\n")}},
            {"name": "bash", "args": {"command": format!("echo {FILED}")}},
        ]}),
        json!({"text": format!("It is {FILED}."), "delta_chars": 3}),
    ]);
    stage.home.write("config.toml", "keys_for_tools = [\"DEPLOY_API_KEY\"]\n");
    let said = format!("My token is {SAID}. What is in @.env?");
    let log = stage.home.path().join("logs/piton.log");
    std::fs::create_dir(log.parent().unwrap()).unwrap();
    let logs = ["--log-file", log.to_str().unwrap(), "--debug", "requests"];
    let ran = run(&stage, &[&logs[..], &[&said]].concat()).expect_code(0);
    nowhere(&stage, &ran);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("‹secret:API_KEY:") && logged.contains("My token is"), "the log has the bodies: {logged}");
    let outcomes = ran.outcomes();
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome["text"].to_string().contains("PORT=3000\\nNODE_ENV=development\\nAPI_KEY=‹secret:")),
        "{outcomes:?}"
    );
    // The long output was cut, and can be read where it is said to be.
    let path = outcomes.iter().find_map(|outcome| {
        Some(outcome["metadata"]["output_path"].as_str()?.to_owned())
            .filter(|_| outcome["text"].to_string().contains("full output"))
    });
    let whole = std::fs::read_to_string(path.expect("a long output")).unwrap();
    assert_eq!(whole.matches("‹secret:API_KEY:").count(), 2_000);
    for args in [&[][..], &["--json"], &["--lanes"], &["--otlp", "-"]] {
        let trace = Ran::of(stage.piton(&[&["session", "trace", "last"], args].concat())).expect_code(0);
        assert!(trace.stdout.contains("bash"), "{args:?}: {}", trace.stdout);
        nowhere(&stage, &trace);
    }
}

#[test]
fn what_is_no_secret_passes_as_it_is() {
    let words = "commit 3f786850e387550fdab836ed7e6dc881de23001b\npassword: ***\nlet token = parse_token(x);\nsha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\n";
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": "cat words.txt"}}, {"name": "bash", "args": {"command": "echo PORT=$PORT"}}]},
        {"text": "done"}
    ]))
    .with_files([("words.txt", words), (".env", "PORT=3000\n")]);
    let ran = run(&stage, &["look at @words.txt"]).expect_code(0);
    let outcomes = ran.outcomes();
    assert_eq!(outcomes[0]["text"].as_str().unwrap().trim_end(), words.trim_end());
    assert!(!stage.last_messages().iter().any(|message| message.to_string().contains("‹secret:")));
}

#[test]
fn the_same_value_has_the_same_placeholder_in_every_session_of_a_machine() {
    let stage = stage(vec![calls(&["cat .env"]), json!({"text": "one"}), calls(&["cat .env"]), json!({"text": "two"})]);
    let placeholder = |ran: &Ran| {
        let text = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
        text.split_once("‹secret:").unwrap().1.split_once('›').unwrap().0.to_owned()
    };
    let (one, two) = (run(&stage, &["go"]).expect_code(0), run(&stage, &["go"]).expect_code(0));
    assert_eq!(placeholder(&one), placeholder(&two));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(stage.home.path().join("data/secret.key")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_keeps_its_secrets_when_the_model_changes_it_and_they_go_nowhere_else() {
    let placeholder = |stage: &Stage| {
        let ran = run(stage, &["look"]).expect_code(0);
        let text = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
        format!("‹secret:{}›", text.split_once("‹secret:").unwrap().1.split_once('›').unwrap().0)
    };
    let first = stage(vec![calls(&["cat .env"]), json!({"text": "ok"})]);
    let key = placeholder(&first);
    // The same machine, hence the same placeholder.
    let edit = |path: &str, old: &str, new: &str| json!({"name": "edit", "args": {"path": path, "old_string": old, "new_string": new}});
    let write = |path: &str, content: &str| json!({"name": "write", "args": {"path": path, "content": content}});
    let second = Stage::new(json!([
        {"tools": [{"name": "read", "args": {"path": ".env"}}, {"name": "read", "args": {"path": "notes.txt"}}]},
        {"tools": [edit(".env", &format!("API_KEY={key}"), &format!("DEBUG=1\nAPI_KEY={key}"))]},
        {"tools": [edit(".env", "API_KEY=kanari9X", "API_KEY=")]},
        {"tools": [edit(".env", &key[..key.len() - 5], "x")]},
        {"tools": [edit("notes.txt", "port", &format!("{key} port"))]},
        {"tools": [write("copy.txt", &format!("key = {key}\n"))]},
        {"tools": [write(".env", &format!("PORT=3001\nAPI_KEY={key}\n"))]},
        {"text": "done"}
    ]));
    let env = format!("PORT=3000\nAPI_KEY={FILED}\n");
    let second = second.with_files([(".env", env.as_str()), ("notes.txt", "port and key are in .env\n")]);
    std::fs::create_dir_all(second.home.path().join("data")).unwrap();
    std::fs::copy(first.home.path().join("data/secret.key"), second.home.path().join("data/secret.key")).unwrap();
    let ran = run(&second, &["change"]).expect_code(0);
    let told: Vec<String> = ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect();
    assert!(told[2].starts_with("edited .env"), "{told:#?}");
    assert!(told[3].contains("was not found"), "a guess is no piece of the file: {}", told[3]);
    assert!(told[4].contains("in two"), "{}", told[4]);
    assert!(told[5].contains("not in notes.txt") && told[6].contains("not in copy.txt"), "{told:#?}");
    assert_eq!(second.workspace.read(".env"), format!("PORT=3001\nAPI_KEY={FILED}\n"), "{told:#?}");
    assert_eq!(second.workspace.read("notes.txt"), "port and key are in .env\n");
    assert!(!second.workspace.path().join("copy.txt").exists());
    nowhere(&second, &ran);
}

/// What a patch does to a file is held to the same as an edit.
#[test]
fn a_patch_puts_a_secret_back_where_the_file_had_it_and_moves_it_nowhere() {
    let config = "\n[tools]\napply_patch = \"always\"\n";
    let first = stage(vec![calls(&["cat .env"]), json!({"text": "ok"})]);
    let told = run(&first, &["look"]).expect_code(0).outcomes()[0]["text"].as_str().unwrap().to_owned();
    let key = told.lines().find_map(|line| line.strip_prefix("API_KEY=")).unwrap().to_owned();
    assert!(key.starts_with("‹secret:API_KEY:"), "{told}");
    let patch = |body: &str| {
        let patch = format!("*** Begin Patch\n{body}\n*** End Patch\n");
        json!({"tools": [{"name": "apply_patch", "args": {"patch": patch}}]})
    };
    let fine = format!("*** Update File: .env\n@@\n PORT=3000\n-API_KEY={key}\n+DEBUG=1\n+API_KEY={key}");
    let second = Stage::new(json!([
        {"tools": [{"name": "read", "args": {"path": ".env"}}, {"name": "read", "args": {"path": "notes.txt"}}]},
        // Into a file that is there, a new one, by a move of the whole file, and beside a change that is fine.
        patch(&format!("*** Update File: notes.txt\n@@\n-port and key are in .env\n+the key is {key}")),
        patch(&format!("*** Add File: copy.txt\n+key = {key}")),
        patch(&format!("*** Update File: .env\n*** Move to: moved.txt\n@@\n-PORT=3000\n+PORT=3001\n API_KEY={key}")),
        patch(&format!("{fine}\n*** Add File: copy.txt\n+key = {key}")),
        patch(&fine),
        {"text": "done"}
    ]));
    let env = format!("PORT=3000\nAPI_KEY={FILED}\n");
    let second = second.with_files([(".env", env.as_str()), ("notes.txt", "port and key are in .env\n")]);
    let second = second.with_config(config);
    std::fs::create_dir_all(second.home.path().join("data")).unwrap();
    std::fs::copy(first.home.path().join("data/secret.key"), second.home.path().join("data/secret.key")).unwrap();
    let ran = run(&second, &["change"]).expect_code(0);
    let told: Vec<String> = ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect();
    for (at, file) in [(2, "notes.txt"), (3, "copy.txt"), (4, "moved.txt"), (5, "copy.txt")] {
        assert!(told[at].contains(&format!("that is not in {file}")), "{at}: {told:#?}");
        assert!(told[at].contains("Nothing was written"), "{at}: {told:#?}");
    }
    assert_eq!(second.workspace.read(".env"), format!("PORT=3000\nDEBUG=1\nAPI_KEY={FILED}\n"), "{told:#?}");
    assert_eq!(second.workspace.read("notes.txt"), "port and key are in .env\n");
    assert!(!second.workspace.has("copy.txt") && !second.workspace.has("moved.txt"));
    nowhere(&second, &ran);
}

#[test]
fn a_run_that_leaves_secrets_in_says_so_and_so_does_its_journal() {
    let stage = stage(vec![calls(&["cat .env"]), json!({"text": "ok"})]);
    let ran = run(&stage, &["--no-redact", "go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].to_string().contains(FILED));
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("--no-redact: secrets are not taken out"), "{said}");
    let started = |journal: &[Value]| journal.iter().find(|event| event["type"] == "turn_started").unwrap().clone();
    assert_eq!(started(&stage.journal())["policy"]["unredacted"], true);
    let usual = super::secrets::stage(vec![json!({"text": "ok"})]);
    run(&usual, &["go"]).expect_code(0);
    assert_eq!(started(&usual.journal())["policy"].get("unredacted"), None);
}

#[test]
fn what_is_imported_is_cleaned_whoever_wrote_it() {
    let stage = stage(vec![calls(&["cat .env"]), json!({"text": "ok"})]);
    run(&stage, &["--no-redact", &format!("go, with {SAID}")]).expect_code(0);
    let file = stage.workspace.path().join("raw.json");
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let export = ["session", "export", &id, "--no-redact", "-o", file.to_str().unwrap()];
    Ran::of(stage.piton(&export)).expect_code(0);
    let raw = std::fs::read_to_string(&file).unwrap();
    assert!(raw.contains(SAID) && raw.contains(FILED), "there is something to take out");
    let taken = Ran::of(stage.piton(&["session", "import", file.to_str().unwrap()])).expect_code(0);
    assert!(taken.stderr.contains("left out: [redacted]"), "{}", taken.stderr);
    let folder = stage.home.path().join("data/sessions").join(taken.stdout.trim());
    let kept: Vec<Vec<u8>> = files_below(&folder).iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!kept.is_empty());
    for canary in [SAID, FILED] {
        let has = |bytes: &Vec<u8>| bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!kept.iter().any(has), "{canary}");
    }
}

#[test]
fn commands_get_no_more_of_the_environment_than_is_listed() {
    let print = "env | cut -d= -f1 | sort | tr '\\n' ' '";
    let stage = stage(vec![calls(&[print]), json!({"text": "ok"})]);
    let mut command = stage.run_command(&["go"]);
    let inherited = [
        "SSH_AUTH_SOCK",
        "LD_LIBRARY_PATH",
        "GIT_SSH_COMMAND",
        "NODE_OPTIONS",
        "DB_PASSWORD",
        "GITHUB_TOKEN",
        "PROMPT_COMMAND",
        "NVM_DIR",
        "LC_TIME",
        "no_proxy",
    ];
    command.envs(inherited.map(|name| (name, "/nowhere")));
    let outcome = Ran::of(command).expect_code(0).outcomes().remove(0);
    let seen: Vec<&str> = outcome["text"].as_str().unwrap().split_whitespace().collect();
    let passed: Vec<&&str> = inherited.iter().filter(|name| seen.contains(name)).collect();
    assert_eq!(passed, [&"NVM_DIR", &"LC_TIME", &"no_proxy"], "{seen:?}");
    assert!(seen.contains(&"PATH") && seen.contains(&"HOME"));
}

#[test]
fn a_command_with_a_placeholder_is_refused_in_words() {
    let stage = stage(vec![calls(&["curl -H 'X: ‹secret:API_KEY:ab12›' localhost"]), json!({"text": "ok"})]);
    let outcome = run(&stage, &["go"]).expect_code(0).outcomes().remove(0);
    assert!(outcome["text"].as_str().unwrap().contains("stands for a secret"), "{outcome}");
}

/// What a repository says of its skills stands in the words of a tool, before the conversation.
#[test]
fn a_known_secret_in_the_words_of_a_skill_is_in_no_request() {
    let canary = "c4naryQ7zXw2Lm9TbK5vR1";
    let stage = Stage::new(json!([{"text": "ok"}]));
    stage.workspace.write(".env", format!("SERVICE_TOKEN={canary}\n"));
    stage.workspace.write(
        ".claude/skills/deploy/SKILL.md",
        format!("---\nname: deploy\ndescription: Deploys with {canary} at hand\n---\nDeploy it."),
    );
    stage.run(&["--trust", "go"]).expect_code(0);
    let sent = stage.provider.requests()[0].body.to_string();
    assert!(sent.contains("Deploys with") && !sent.contains(canary), "{sent}");
}
