//! `piton session …` as a person uses it.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// A session of one turn with a command.
fn used() -> Stage {
    let script = json!([
        {"tools": [{"name": "bash", "args": {"command": "seq 1 30"}}]},
        {"text": "The answer."},
        {"text": "Later.", "repeat": true},
    ]);
    let stage = Stage::new(script);
    stage.run(&["say hi, please"]).expect_code(0);
    stage
}

fn ids(stage: &Stage) -> Vec<String> {
    let list = Ran::of(stage.piton(&["session", "list", "--json"])).expect_code(0);
    list.events().into_iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

fn session(stage: &Stage, args: &[&str]) -> Ran {
    Ran::of(stage.piton(&[&["session"], args].concat()))
}

#[test]
fn a_session_is_named_by_id_prefix_title_or_place() {
    let stage = used();
    stage.run(&["second task"]).expect_code(0);
    let all = ids(&stage);
    for name in [&all[1], &all[1][4..], "say hi", "SAY HI, PLEASE", "-2"] {
        let show = session(&stage, &["show", name]).expect_code(0);
        assert!(show.stdout.starts_with(&all[1]), "{name}: {}", show.stdout);
    }
    assert!(session(&stage, &["show", "last"]).expect_code(0).stdout.contains("second task"));
    session(&stage, &["show", "ses_"]).expect_code(1).expect_said(&[
        "2 sessions",
        "second task",
        "say hi",
        "Use a longer id",
    ]);
    session(&stage, &["show", "-7"]).expect_code(1).expect_said(&["has 2 sessions", "-7"]);
    session(&stage, &["show", "nonsense"]).expect_code(1).expect_said(&["nonsense", "session list"]);
    stage.run(&["--resume", "-2", "on with the first"]).expect_code(0);
    assert_eq!(ids(&stage)[0], all[1], "it is the newest now");
}

#[test]
fn lists_are_of_this_folder_unless_all_are_asked_for() {
    let stage = used();
    let elsewhere = stage.home.path();
    let run = |args: &[&str]| {
        let mut command = stage.piton(&[&["session", "list"], args].concat());
        command.current_dir(&elsewhere);
        Ran::of(command).expect_code(0)
    };
    assert_eq!(run(&[]).stdout, "");
    run(&[]).expect_said(&["1 session elsewhere", "--all"]);
    assert!(run(&["--all"]).stdout.contains("say hi, please"));
    assert!(run(&["--project", stage.workspace.path().to_str().unwrap()]).stdout.contains("say hi, please"));
    assert!(run(&["--all", "--search", "HI please"]).stdout.contains("say hi"));
    run(&["--all", "--search", "unicorns"]).expect_said(&["no matching session"]);
    assert!(run(&["--all", "--since", "1h"]).stdout.contains("say hi"));
    run(&["--all", "--since", "2999-01-01"]).expect_said(&["no matching session"]);
    Ran::of(stage.piton(&["session", "list", "--since", "soon"])).expect_code(1).expect_said(&["soon", "2026-11-01"]);
}

#[test]
fn show_shortens_output_unless_all_of_it_is_asked_for() {
    let stage = used();
    let short = session(&stage, &["show", "last"]).stdout;
    assert!(short.contains("│ 1\n") && short.contains("more lines (--full"), "{short}");
    assert!(!short.contains("│ 15\n"), "{short}");
    let full = session(&stage, &["show", "last", "--full"]).stdout;
    assert!(full.contains("│ 15\n") && !full.contains("--full"), "{full}");
}

#[test]
fn rename_gives_a_title_that_lists_and_names() {
    let stage = used();
    session(&stage, &["rename", "last", "  Counting\n up "]).expect_code(0);
    assert!(session(&stage, &["list"]).stdout.contains("Counting up"));
    session(&stage, &["show", "counting up"]).expect_code(0);
    session(&stage, &["rename", "last", ""]).expect_code(0);
    assert!(session(&stage, &["list"]).stdout.contains("say hi, please"));
}

#[test]
fn an_export_in_json_is_imported_with_the_same_events() {
    let stage = used();
    let events = stage.journal();
    session(&stage, &["export", "last", "-o", "out.json"]).expect_code(0).expect_said(&["out.json"]);
    let text = stage.workspace.read("out.json");

    let other = Stage::new(json!([{"text": "ok", "repeat": true}]));
    other.workspace.write("in.json", &text);
    let import = session(&other, &["import", "in.json"]).expect_code(0);
    assert_eq!(other.journal(), events);
    let id = import.stdout.trim();
    assert!(session(&other, &["verify", id]).expect_code(0).stdout.contains("every one in its place"));
    let again = session(&other, &["import", "in.json"]).expect_code(0);
    assert_ne!(again.stdout.trim(), id, "an id that is taken is not taken again");

    other.workspace.write("changed.json", text.replace("say hi", "say no"));
    session(&other, &["import", "changed.json"]).expect_code(1).expect_said(&["changed.json", "was modified"]);
    other.workspace.write("cut.json", &text[..text.len() / 2]);
    session(&other, &["import", "cut.json"]).expect_code(1).expect_said(&["cut.json", "truncated"]);
    other.workspace.write("other.json", "{\"a\": 1}");
    session(&other, &["import", "other.json"]).expect_code(1).expect_said(&["not an export"]);
    session(&other, &["import", "none.json"]).expect_code(1).expect_said(&["none.json"]);
}

#[test]
fn exports_leave_secrets_out_unless_told() {
    let script = json!([
        {"tools": [{"name": "bash", "args": {"command": "echo token ghp_9fK2mQ7xTz4LwB1vRn8YcD3sHj6GpA5eUo0i"}}]},
        {"text": "Your key is sk-test-openai, I think.", "repeat": true},
    ]);
    let stage = Stage::new(script);
    stage.run(&["--no-redact", "go"]).expect_code(0);
    for format in ["md", "html", "json"] {
        let export = session(&stage, &["export", "last", "--format", format]).expect_code(0);
        assert!(!export.stdout.contains("ghp_9fK2") && !export.stdout.contains("sk-test-openai"), "{}", export.stdout);
        assert!(export.stdout.contains("[redacted]") && export.stderr.contains("left out"), "{}", export.stderr);
    }
    let kept = session(&stage, &["export", "last", "--format", "md", "--no-redact"]).expect_code(0);
    assert!(kept.stdout.contains("ghp_9fK2") && kept.stdout.contains("sk-test-openai"));
}

#[test]
fn an_export_keeps_the_path_of_the_folder_that_the_shell_is_in() {
    let stage = Stage::new(json!([{"text": "done", "repeat": true}]));
    let folder = stage.workspace.path().canonicalize().unwrap();
    let said = format!("look into {}", folder.display());
    stage.run(&[&said]).expect_code(0);
    let mut export = stage.piton(&["session", "export", "last", "--format", "md"]);
    export.env("PWD", &folder).env("OLDPWD", &folder).env("SIGNING_KEY", &folder);
    let export = Ran::of(export).expect_code(0);
    assert!(export.stdout.contains(&said), "{}", export.stdout);
}

#[test]
fn exports_leave_out_keys_wherever_they_are_kept() {
    let script = json!([{"text": "They are kept-in-a-file-1 and printed-by-a-command-2.", "repeat": true}]);
    let stage = Stage::new(script).with_config(
        "[providers.groq]\nkey_command = \"echo printed-by-a-command-2\"\n[providers.xai]\nkey_command = \"false\"\n",
    );
    let mut login = stage.piton(&["auth", "login", "--file", "--unchecked", "mistral"]);
    let key = stage.home.path().join("key");
    std::fs::write(&key, "kept-in-a-file-1").unwrap();
    login.stdin(std::fs::File::open(&key).unwrap());
    Ran::of(login).expect_code(0);
    stage.run(&["go"]).expect_code(0);
    let export = session(&stage, &["export", "last", "--format", "md"]).expect_code(0);
    let text = &export.stdout;
    assert!(!text.contains("kept-in-a-file-1") && !text.contains("printed-by-a-command-2"), "{text}");
    assert!(export.stderr.contains("the key of xai is not looked for"), "{}", export.stderr);
}

#[test]
fn rm_restore_and_the_trash() {
    let stage = used();
    let id = ids(&stage).remove(0);
    session(&stage, &["rm", "last"]).expect_code(0).expect_said(&["trash", "restore"]);
    assert!(ids(&stage).is_empty());
    session(&stage, &["show", &id]).expect_code(1).expect_said(&["session trash"]);
    assert!(session(&stage, &["trash"]).expect_code(0).stdout.contains("say hi, please"));
    session(&stage, &["restore", &id]).expect_code(0);
    assert_eq!(ids(&stage), [id.as_str()]);
    session(&stage, &["restore", &id]).expect_code(1).expect_said(&["not in the trash"]);
    session(&stage, &["rm", &id]).expect_code(0);
    session(&stage, &["trash", "--empty"]).expect_code(0).expect_said(&["1 session", "freed"]);
    assert_eq!(session(&stage, &["trash"]).stdout, "");
    session(&stage, &["restore", &id]).expect_code(1);
}

#[test]
fn what_is_no_session_is_named_and_removed_and_restored_like_one_and_disturbs_no_other() {
    let stage = used();
    let sessions = stage.home.path().join("data/sessions");
    let [garbage, empty, lock] = ["ses_0garbage", "ses_0empty", "ses_0lock"];
    for id in [garbage, empty, lock] {
        std::fs::create_dir(sessions.join(id)).unwrap();
    }
    let bytes: Vec<u8> = (0..5_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(sessions.join(garbage).join("journal.db"), &bytes).unwrap();
    std::fs::write(sessions.join(lock).join("lock"), "99999\n").unwrap();
    let listed = session(&stage, &["list"]).expect_code(0).expect_said(&["ses_0garbage cannot be read", "is damaged"]);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    session(&stage, &["prune", "--keep", "0", "--recent"])
        .expect_code(0)
        .expect_said(&["ses_0garbage cannot be read and stays", "1 session "]);
    session(&stage, &["restore", "say hi, please"]).expect_code(0);
    for id in [garbage, empty, lock] {
        session(&stage, &["show", id]).expect_code(1).expect_said(&[id]);
        session(&stage, &["rm", id]).expect_code(0).expect_said(&["is in the trash"]);
    }
    let said = ["ses_0garbage cannot be read", "ses_0empty has no journal", "ses_0lock has no journal"];
    session(&stage, &["trash"]).expect_code(0).expect_said(&said);
    session(&stage, &["restore", garbage]).expect_code(0).expect_said(&["ses_0garbage is back"]);
    assert_eq!(std::fs::read(sessions.join(garbage).join("journal.db")).unwrap(), bytes, "it is as it was");
    session(&stage, &["trash", "--empty"]).expect_code(0).expect_said(&["2 sessions removed for good"]);
    assert_eq!(std::fs::read_dir(stage.home.path().join("data/trash")).unwrap().flatten().count(), 0);
    session(&stage, &["rm", garbage]).expect_code(0);
    assert_eq!(ids(&stage).len(), 1, "and the one that is one is there");
}

#[test]
fn prune_spares_what_was_touched_today_and_says_what_would_go() {
    let stage = used();
    stage.run(&["second task"]).expect_code(0);
    session(&stage, &["prune", "--keep", "0"])
        .expect_code(0)
        .expect_said(&["0 sessions", "2 sessions of the last day"]);
    let dry = session(&stage, &["prune", "--keep", "1", "--recent", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.contains("say hi") && !dry.stdout.contains("second"), "{}", dry.stdout);
    assert_eq!(ids(&stage).len(), 2);
    session(&stage, &["prune", "--keep", "1", "--recent"]).expect_code(0).expect_said(&["1 session", "trash --empty"]);
    assert_eq!(ids(&stage).len(), 1);
    session(&stage, &["prune"]).expect_code(2);
    session(&stage, &["prune", "--older-than", "soon"]).expect_code(1).expect_said(&["soon", "30d"]);
    session(&stage, &["prune", "--larger-than", "big"]).expect_code(1).expect_said(&["big", "200MB"]);
}

#[test]
fn a_damaged_session_is_repaired_into_a_new_one() {
    let stage = used();
    let id = ids(&stage).remove(0);
    let db = stage.session_dir().join("journal.db");
    let mut bytes = std::fs::read(&db).unwrap();
    // It stands in the event, in the tables that follow from it, and perhaps in what is left of a page that was split.
    let all: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"The answer.")).collect();
    assert!(!all.is_empty());
    all.into_iter().for_each(|at| bytes[at] = 0xff);
    std::fs::write(&db, &bytes).unwrap();
    let verify = session(&stage, &["verify", &id]).expect_code(1);
    assert!(verify.stdout.contains(&format!("piton session repair {id}")), "{}", verify.stdout);
    let repair = session(&stage, &["repair", &id]).expect_code(0).expect_said(&["stays as it is", "lost:", "--resume"]);
    assert!(std::fs::read(&db).unwrap() == bytes);
    let mended = repair.stdout.trim();
    session(&stage, &["verify", mended]).expect_code(0);
    stage.run(&["--resume", mended, "go on"]).expect_code(0);
}

#[test]
fn a_session_whose_folder_is_gone_goes_on_elsewhere_when_told() {
    let stage = used();
    let id = ids(&stage).remove(0);
    let (old, new) = (stage.workspace.path(), stage.home.path().join("moved"));
    let resumed = |more: &[&str]| {
        let mut command = stage.run_command(&[&["--resume", &id], more].concat());
        command.current_dir(stage.home.path());
        command
    };
    let (plain, moved) = (resumed(&["go"]), resumed(&["go", "--cwd", new.to_str().unwrap()]));
    let again = resumed(&["and again"]);
    std::fs::rename(&old, &new).unwrap();
    Ran::of(plain).expect_code(1).expect_said(&["moved or is gone", "--cwd DIR"]);
    Ran::of(moved).expect_code(0).expect_said(&["from here on"]);
    let told = stage.last_messages();
    assert!(told.last().unwrap().to_string().contains(new.to_str().unwrap()), "{told:?}");
    Ran::of(again).expect_code(0).expect_said(&["working in", "moved"]);
    std::fs::rename(new, old).unwrap();
}

#[test]
fn without_a_terminal_nobody_is_asked_which_session() {
    used().run(&["go", "--resume"]).expect_code(1).expect_said(&["which session", "--resume last"]);
}

#[test]
fn a_title_is_made_by_the_small_model_only_where_one_is_configured() {
    let titles = || -> Vec<Value> {
        let stage = Stage::new(
            json!([{"text": "Hello there."}, {"text": "\"Greeting the agent\"\n"}, {"text": "x", "repeat": true}]),
        )
        .with_config("[titles]\nmodel = \"openai-chat/small\"\n");
        stage.run(&["say hello"]).expect_code(0);
        assert_eq!(stage.provider.requests().len(), 2, "one for the answer, one for the title");
        let asked = &stage.provider.requests()[1].body;
        assert_eq!(asked["model"], "small");
        assert!(session(&stage, &["list"]).stdout.contains("Greeting the agent"));
        stage.run(&["--continue", "again"]).expect_code(0);
        assert_eq!(stage.provider.requests().len(), 3, "a title is made once");
        stage.journal()
    };
    let given: Vec<Value> = titles().into_iter().filter(|event| event["type"] == "title_given").collect();
    assert_eq!((given.len(), &given[0]["title"]), (1, &json!("Greeting the agent")));

    let stage = Stage::new(json!([{"text": "Hello there.", "repeat": true}]));
    stage.run(&["say hello"]).expect_code(0);
    assert_eq!(stage.provider.requests().len(), 1);
    assert!(session(&stage, &["list"]).stdout.contains("say hello"));
}

/// A run with a small model for titles, which has a price; and what the session cost.
fn titled(answer: &Value, read_tokens: u64, args: &[&str]) -> (Stage, Value) {
    let usage = json!({"input": read_tokens, "output": 2});
    let stage = Stage::new(json!([{"text": "Hello.", "usage": usage}, answer]));
    let config = "[titles]\nmodel = \"openai-chat/small\"\n[models.\"openai-chat/small\"]\nprice = { input = 1.0, output = 2.0 }\n\
        [models.\"openai-chat/test-model\"]\nprice = { input = 1.0, output = 2.0 }\n";
    let stage = stage.with_config(config);
    stage.run(&[&["say hello"], args].concat()).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let cost = Ran::of(stage.piton(&["session", "cost", "--json", &id])).expect_code(0).stdout;
    (stage, serde_json::from_str(&cost).unwrap())
}

#[test]
fn what_a_title_took_is_told_also_where_none_came_of_it() {
    let counted = json!({"text": " \n", "usage": {"input": 300, "output": 40}});
    let (stage, cost) = titled(&counted, 10, &[]);
    assert_eq!(cost["title"]["cost_micros"], 380, "{cost}");
    assert!(session(&stage, &["list"]).stdout.contains("say hello"), "the first prompt's words stay");
    // Cut; and not there when the session is left.
    for answer in [json!({"text": "Greeting the", "end_early": true}), json!({"text": "Late", "stall": 30})] {
        let (stage, cost) = titled(&answer, 10, &[]);
        let title = &cost["title"];
        assert_eq!((&title["unpriced_calls"], &title["cost_micros"]), (&json!(1), &Value::Null), "{cost}");
        assert!(cost["title"]["at_most"]["cost_micros"].as_u64().unwrap() > 2_000, "{cost}");
        assert!(session(&stage, &["list"]).stdout.contains("say hello"));
    }
    // Refused: nothing to pay for.
    assert_eq!(titled(&json!({"status": 500, "body": {}}), 10, &[]).1["title"], Value::Null);
}

#[test]
fn no_title_is_asked_for_that_the_budget_could_not_pay() {
    let asked = |budget: &str, read_tokens: u64| {
        let (stage, _) = titled(&json!({"text": "Greeting"}), read_tokens, &[budget]);
        stage.provider.requests().len()
    };
    assert_eq!((asked("--max-cost=1", 10), asked("--max-tokens=1000000", 10)), (2, 2));
    // What the answer leaves does not pay for it.
    assert_eq!((asked("--max-cost=1", 998_000), asked("--max-tokens=1000000", 998_000)), (1, 1));
}

#[test]
fn a_title_that_cannot_be_made_changes_nothing() {
    let stage = Stage::new(json!([{"text": "Hello."}, {"status": 500, "body": {}, "repeat": true}]))
        .with_config("[titles]\nmodel = \"openai-chat/small\"\n");
    stage.run(&["say hello"]).expect_code(0);
    assert_eq!(stage.provider.requests().len(), 2, "it is not tried again");
    assert!(session(&stage, &["list"]).stdout.contains("say hello"));
    let stage = stage.with_config("[titles]\nmodel = \"nobody/small\"\n");
    stage.run(&["again"]).expect_code(1).expect_said(&["[titles]", "nobody"]);
}

#[test]
fn a_command_that_wants_a_session_offers_a_choice_at_a_terminal_and_names_the_list_elsewhere() {
    let stage = Stage::new(json!([{"text": "one"}, {"text": "two"}]));
    stage.run(&["the first thing"]).expect_code(0);
    stage.run(&["the second thing"]).expect_code(0);
    for command in ["show", "cost", "trace", "tree", "fork", "export", "verify", "compact", "follow", "pause", "cancel"]
    {
        let ran = session(&stage, &[command]).expect_code(2).expect_said(&["which session?", "piton session list"]);
        assert_eq!(ran.stdout, "", "{command}");
    }
    // Newest first, so that 2 is the older one.
    let said = at_terminal(&stage, 80, "session show", Some("2\n"));
    assert!(said.contains("Which one? A number, words to search for, or q:"), "{said}");
    assert!(said.contains("you: the first thing"), "{said}");
}

#[test]
fn a_session_chosen_at_a_terminal_is_asked_for_its_next_prompt() {
    let stage = Stage::new(json!([{"text": "one"}, {"text": "two"}]));
    stage.run(&["the first thing"]).expect_code(0);
    let said = at_terminal(&stage, 80, "run --model openai-chat/m -r", Some("1\nthe second thing\n"));
    assert!(said.contains("Nothing to continue: its last turn is finished. What next?"), "{said}");
    assert!(said.contains("two") && stage.last_messages().iter().any(|m| m.to_string().contains("the second thing")));
}

/// What a terminal of so many columns shows of a command. `script` of util-linux is the terminal.
fn at_terminal(stage: &Stage, columns: u32, command: &str, typed: Option<&str>) -> String {
    let piton = stage.piton(&[]);
    let line = format!("stty cols {columns}; {} {command}", piton.get_program().to_str().unwrap());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(stage.workspace.path());
    script.env_clear().envs(piton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script(1)");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(typed.unwrap_or_default().as_bytes()).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn a_narrow_terminal_gets_a_list_that_fits() {
    let stage = Stage::new(json!([{"text": "one"}]));
    stage.run(&["find out why the calculation of interest is sometimes wrong by a cent"]).expect_code(0);
    let lines = |columns| -> Vec<String> {
        let said = at_terminal(&stage, columns, "session list", None);
        said.lines().map(|line| line.trim_end().to_owned()).collect()
    };
    let narrow = lines(40);
    assert!(narrow.iter().all(|line| line.chars().count() <= 40), "{narrow:?}");
    assert_eq!(narrow[1..], ["  completed, 1 turn", "  find out why the calculation of…"]);
    let usual = lines(80);
    assert_eq!(usual.len(), 2, "{usual:?}");
    assert_eq!(usual[1], "  find out why the calculation of interest is sometimes wrong by a cent");
    assert_eq!(lines(120).len(), 1);
}

/// The same command in a process whose files are everybody's unless it says otherwise.
fn open_to_all(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    shell
}

#[test]
fn what_piton_keeps_is_its_owners_alone_whatever_the_umask() {
    let script = json!([
        {"tools": [
            {"name": "bash", "args": {"command": "echo two > kept.txt; mkdir shared"}},
            {"name": "write", "args": {"path": "made.txt", "content": "made\n"}},
        ]},
        {"text": "done"},
        {"text": "half of it", "stall_mid": 60},
    ]);
    let stage = Stage::new(script).with_files([("kept.txt", "one\n"), (".piton/config.toml", "")]);
    let tape = stage.home.path().join("tape");
    let model = ["--model", "openai-chat/m"];
    let run = ["run", "--yes", "--record", tape.to_str().unwrap(), "change it"];
    let piton = |args: &[&str]| Ran::of(open_to_all(&stage.piton(args)));
    piton(&[&run[..], &model].concat()).expect_code(0);
    piton(&["undo"]).expect_code(0);
    piton(&["redo"]).expect_code(0);
    let fork = piton(&["session", "fork", "last"]).expect_code(0).stdout;
    piton(&["session", "export", "last", "--format", "json", "-o", "export.json"]).expect_code(0);
    piton(&["session", "rm", fork.trim()]).expect_code(0);
    piton(&["session", "import", "export.json"]).expect_code(0);
    piton(&["config", "trust", "--yes"]).expect_code(0);
    // Killed while an answer comes in: what there is of it is kept, too.
    let mut command = open_to_all(&stage.piton(&[&["run", "--resume", "-2", "more"][..], &model].concat()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kept = || piton_testkit::state(&stage.home.path().join("data"));
    crate::stage::until("a part is kept", || kept().keys().any(|path| path.ends_with("partial")));
    let open: Vec<_> = kept().into_iter().filter(|(_, line)| !is_private(line)).map(|(path, _)| path).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open, Vec::<std::path::PathBuf>::new());
    let made = kept();
    for name in ["HEAD", "config", "cache", "journal.db", "trust.json"] {
        assert!(made.keys().any(|path| path.ends_with(name)), "{name} is not among {:?}", made.keys());
    }
    assert!(made.keys().any(|path| path.extension().is_some_and(|name| name == "intent")), "{:?}", made.keys());
    assert!(is_private(&piton_testkit::state(&stage.home.path())[&std::path::PathBuf::from("tape")]));
    let workspace = piton_testkit::state(&stage.workspace.path());
    assert!(
        workspace[std::path::Path::new("made.txt")].starts_with("file 666 "),
        "what it makes for others is as they say"
    );
}

/// Nothing for anybody but the owner.
fn is_private(line: &str) -> bool {
    let mode = line.split(' ').nth(1).unwrap_or_default();
    mode.ends_with("00") && mode.len() == 3
}

/// A session that was killed while its first answer came in: all that is on record lies in the log beside the database.
fn killed() -> Stage {
    let stage = Stage::new(json!([{"text": "half of it", "stall_mid": 60}, {"text": "Now.", "repeat": true}]));
    let mut child = stage.start(&["the task"]);
    crate::stage::until("it is asked", || stage.provider.requests().len() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    stage
}

#[test]
fn a_journal_that_lost_its_log_is_not_called_sound() {
    let stage = killed();
    let sound = session(&stage, &["verify", "last"]).expect_code(0);
    assert!(sound.stdout.contains("every one in its place"), "{}", sound.stdout);
    let id = ids(&stage).remove(0);
    std::fs::remove_file(stage.session_dir().join("journal.db-wal")).unwrap();
    let lost = session(&stage, &["verify", &id]).expect_code(1);
    assert!(lost.stdout.contains("no events") && lost.stdout.contains("journal.db-wal"), "{}", lost.stdout);
}

#[test]
fn what_a_repair_says_to_go_on_with_works_also_where_the_first_turn_was_cut() {
    let stage = killed();
    let repaired = session(&stage, &["repair", "last"]).expect_code(0);
    let hint = repaired.stderr.lines().find_map(|line| line.strip_prefix("go on with:  piton ")).unwrap();
    let words: Vec<&str> = hint.split_whitespace().map(|word| word.trim_matches('"')).collect();
    let [run, resume, id, said] = words[..] else { panic!("{hint}") };
    let with_words = Ran::of(stage.piton(&[run, "--model", "openai-chat/m", resume, id, said]));
    assert_eq!(with_words.expect_code(0).stdout.trim(), "Now.");

    let stage = killed();
    let without = Ran::of(stage.piton(&["run", "--model", "openai-chat/m", "--resume", "last"]));
    assert_eq!(without.expect_code(0).stdout.trim(), "Now.");
    let said = json!(stage.last_messages()).to_string();
    assert!(said.contains("the task"), "{said}");
}

#[test]
fn a_sound_session_is_not_repaired() {
    let stage = Stage::new(json!([{"text": "Done."}]));
    stage.run(&["go"]).expect_code(0);
    let ran = Ran::of(stage.piton(&["session", "repair", "last"]))
        .expect_code(0)
        .expect_said(&["is sound", "Nothing was done"]);
    assert_eq!(ran.stdout, "", "no new session");
    stage.session_dir();
}
