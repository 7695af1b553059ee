//! Permission rules in the program: where they come from, what older configuration means, and what of them the audit shows.

use crate::permission::check;
use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

/// One reply that reads a file, edits it and runs a command.
fn three_calls() -> Value {
    json!([{"tools": [
        {"name": "read", "args": {"path": "a.txt"}},
        {"name": "edit", "args": {"path": "a.txt", "old_string": "one", "new_string": "two"}},
        {"name": "bash", "args": {"command": "touch made"}},
    ]}, {"text": "Done."}])
}

/// `[permission]`, flags, and what becomes of reading, editing and a command where nobody can be asked.
type Older = (&'static str, &'static [&'static str], [&'static str; 3]);

const OLDER: &[Older] = &[
    ("", &[], ["allow", "ask", "ask"]),
    ("", &["--yes"], ["allow", "allow", "allow"]),
    ("bash = \"allow\"", &[], ["allow", "ask", "allow"]),
    ("bash = \"ask\"", &["--yes"], ["allow", "allow", "allow"]),
    ("edit = \"allow\"", &[], ["allow", "allow", "ask"]),
    ("edit = \"deny\"", &[], ["allow", "deny", "ask"]),
    ("edit = \"deny\"", &["--yes"], ["allow", "deny", "allow"]),
    ("\"*\" = \"ask\"", &[], ["ask", "ask", "ask"]),
    ("\"*\" = \"allow\"", &[], ["allow", "allow", "allow"]),
    ("\"*\" = \"deny\"\nread = \"allow\"", &[], ["allow", "deny", "deny"]),
    ("\"*\" = \"allow\"\nbash = \"deny\"", &["--yes"], ["allow", "allow", "deny"]),
    ("", &["--allow", "bash"], ["allow", "ask", "allow"]),
    ("", &["--deny", "bash"], ["allow", "ask", "deny"]),
    ("", &["--yes", "--deny", "bash"], ["allow", "allow", "deny"]),
    ("bash = \"deny\"", &["--allow", "bash"], ["allow", "ask", "allow"]),
    ("bash = \"allow\"", &["--deny", "bash"], ["allow", "ask", "deny"]),
    ("bash = \"deny\"\nedit = \"ask\"", &["--allow", "*"], ["allow", "allow", "allow"]),
    ("bash = \"allow\"", &["--deny", "*", "--allow", "read"], ["allow", "deny", "deny"]),
];

#[test]
fn older_configuration_means_what_it_meant() {
    for (table, flags, expected) in OLDER {
        let stage = Stage::new(three_calls()).with_files([("a.txt", "one\n")]);
        let stage = stage.with_config(&format!("\n[permission]\n{table}\n"));
        let run = ["run", "--sandbox", "off", "--model", "openai-chat/test-model", "--format", "stream-json", "go"];
        let ran = Ran::of(stage.piton(&[&run[..], flags].concat()));
        let mut requested = ran.all("call_requested");
        requested.sort_by_key(|event| event["call"].to_string());
        let verdict = |event: &Value| match &event["verdict"] {
            Value::String(word) => word.clone(),
            table => table.as_object().unwrap().keys().next().unwrap().clone(),
        };
        let verdicts: Vec<String> = requested.iter().map(verdict).collect();
        assert_eq!(verdicts, expected, "{table} {flags:?}: {}", ran.stderr);
        // And so it was done.
        let changed = stage.workspace.read("a.txt") == "two\n";
        assert_eq!((changed, stage.workspace.has("made")), (expected[1] == "allow", expected[2] == "allow"), "{table}");
    }
}

#[test]
fn a_preset_of_ones_own_forbids_always_and_allows_only_where_the_user_says_nothing() {
    let stage = Stage::new(json!([]));
    let preset =
        "preset = \"pulse\"\n[permission]\n\"bash(touch *)\" = \"allow\"\n\"bash(rm *)\" = \"deny\"\nread = \"ask\"\n";
    stage.home.write("careful.toml", preset);
    let flags = |more: &'static [&'static str]| [&["--set", "preset=careful.toml", "--mode", "ask"][..], more].concat();
    for (command, more, expected) in [
        ("touch a", &[][..], "allow"),
        ("touch a", &["--ask", "bash"], "ask"),
        ("touch a", &["--ask", "*"], "ask"),
        ("touch a", &["--deny", "bash"], "deny"),
        ("rm a", &[], "deny"),
        ("rm a", &["--allow", "bash(rm *)"], "deny"),
        ("rm a", &["--allow", "*"], "deny"),
    ] {
        let said = check(&stage, &flags(more), command);
        assert_eq!(said["action"], expected, "{command} {more:?}: {said}");
    }
    let said = check(&stage, &flags(&[]), "rm a");
    let rule = &said["parts"].as_array().unwrap().iter().find(|part| part["action"] == "deny").unwrap()["rule"];
    assert_eq!(rule["voice"], "preset", "{said}");
    assert!(rule["layer"].as_str().unwrap().ends_with("careful.toml"), "{said}");
    stage.home.write("config.toml", "preset = \"careful.toml\"\n");
    let listed = Ran::of(stage.piton(&["permission", "list"])).expect_code(0).stdout;
    assert!(listed.lines().any(|line| line.contains("bash(rm *)") && line.ends_with("the preset's")), "{listed}");
}

/// A repository's finer word does not lift what the agent at work must not do.
#[test]
fn what_an_agent_must_not_do_no_repository_allows() {
    let call = json!({"tools": [{"name": "bash", "args": {"command": "touch made"}}]});
    for (bans, status) in [("permission:\n  bash: deny\n", "denied"), ("", "ok")] {
        let agent = format!("---\nname: careful\ndescription: Careful\n{bans}---\nBe careful.\n");
        let stage = Stage::new(json!([call, {"text": "Done."}])).with_files([
            (".claude/agents/careful.md", agent.as_str()),
            (".piton/config.toml", "[permission]\n\"bash(touch *)\" = \"allow\"\n"),
        ]);
        let run = ["run", "--mode", "ask", "--sandbox", "off", "--trust", "--agent", "careful"];
        let model = ["--model", "openai-chat/test-model", "--format", "stream-json", "go"];
        let ran = Ran::of(stage.piton(&[&run[..], &model].concat()));
        let outcomes = ran.outcomes();
        assert_eq!(outcomes[0]["status"], status, "{bans}: {outcomes:?} {}", ran.stderr);
        assert_eq!(stage.workspace.has("made"), status == "ok", "{bans}");
    }
}

#[test]
fn a_host_is_the_same_in_every_spelling() {
    let stage = Stage::new(json!([]));
    for rule in ["net(domain:bücher.example)", "net(domain:xn--bcher-kva.example)", "WebFetch(domain:*.EXAMPLE)"] {
        for (command, expected) in [
            ("curl https://bücher.example/x", "deny"),
            ("curl https://BÜCHER.example.:443/x", "deny"),
            ("curl https://b%C3%BCcher.example", "deny"),
            ("curl https://xn--bcher-kva.example", "deny"),
            ("H=bücher.example; curl \"https://$H\"", "deny"),
            ("> f; H=bücher.example; curl \"https://$H\"", "deny"),
            ("curl https://bucher.test", "allow"),
            ("echo bücher.example", "allow"),
        ] {
            let said = check(&stage, &["--deny", rule, "--mode", "auto"], command);
            assert_eq!(said["action"], expected, "{rule}: {command}: {said}");
        }
    }
    // So is the host that a tool of Piton's own would reach, in a rule that opens it.
    for (rule, code) in [("net(domain:döcs.test)", 0), ("net(domain:docs.test)", 3)] {
        let fetch =
            json!([{"tools": [{"name": "web_fetch", "args": {"url": "http://döcs.test/x"}}]}, {"text": "Done."}]);
        let ran = Stage::new(fetch).run(&["--allow", rule, "go"]);
        let verdict = ran.all("call_requested")[0]["verdict"].clone();
        assert_eq!((verdict == "allow", ran.code), (code == 0, code), "{rule}: {verdict} {}", ran.stderr);
    }
}

/// Lines that run no program, and what "always" to them adds.
#[test]
fn always_is_never_the_whole_of_bash() {
    let stage = Stage::new(json!([]));
    for command in ["x=1", "> f", "x=1 > f", "# only a comment", "> $f", "> /dev/tcp/h.test/80", "PATH=.", "[[ -f x ]]"]
    {
        for flags in [&["--mode", "ask"][..], &["--mode", "ask", "--ask", "bash"]] {
            let said = check(&stage, flags, command);
            assert_eq!((&said["action"], &said["always"]), (&json!("ask"), &json!([])), "{flags:?} {command}: {said}");
        }
        // Whoever allows every command has allowed these; what they write is another matter.
        let said = check(&stage, &["--mode", "ask", "--allow", "bash", "--allow", "Edit(f)"], command);
        let is_known = !["PATH=.", "> $f"].contains(&command);
        assert_eq!(said["action"], if is_known { "allow" } else { "ask" }, "{command}: {said}");
    }
    let said = check(&stage, &["--mode", "ask"], "touch a; x=1 > f");
    assert_eq!(said["always"], json!(["bash(touch *)", "Edit(./f)"]), "{said}");
}

#[test]
fn the_audit_shows_who_said_it_where_it_stands_and_what_was_in_reach() {
    let call = json!({"tools": [
        {"name": "bash", "args": {"command": "touch a"}},
        {"name": "bash", "args": {"command": "rm b"}},
    ]});
    let stage = Stage::new(json!([call, {"text": "Done."}]))
        .with_files([("seen/x", ""), (".piton/config.toml", "[permission]\n\"bash(rm *)\" = \"deny\"\n")]);
    let seen = stage.workspace.path().join("seen").canonicalize().unwrap().display().to_string();
    let stage = stage.with_config(&format!("\n[sandbox]\nread = [{seen:?}]\nnet = [\"open.test\"]\n"));
    stage.run(&["--trust", "--sandbox", "off", "--allow", "bash(touch *)", "go"]);
    let audit = ["session", "show", "--audit", "last"];
    let text = Ran::of(stage.piton(&audit)).expect_code(0).stdout;
    let line = |words: &str| {
        let found = text.lines().find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {text}")).trim().to_owned()
    };
    assert_eq!(line("`touch a`"), "allow `touch a`  (by the rule bash(touch *) of --allow, user)");
    let denied = line("`rm b`");
    assert!(denied.starts_with("deny  `rm b`  (by the rule bash(rm *) of "), "{denied}");
    assert!(denied.ends_with(".piton/config.toml, repository)"), "{denied}");
    assert!(line("reads ").starts_with("reads     the workspace, ") && line("reads ").contains(&seen), "{text}");
    assert_eq!(line("hosts "), "hosts     open.test");
    let data = stage.home.path().canonicalize().unwrap().join("data").display().to_string();
    assert!(line("never ").contains(&data) && line("protected ").contains(".vscode"), "{text}");
    assert_eq!(text.matches(" reach\n").count(), 1, "once, since it stays the same: {text}");

    let entries = Ran::of(stage.piton(&[&audit[..], &["--json"]].concat())).expect_code(0).events();
    let of = |command: &str| {
        let found = entries.iter().find(|entry| entry["title"] == command);
        found.unwrap_or_else(|| panic!("{command}: {entries:?}"))
    };
    let rule = |command: &str| {
        let parts = of(command)["judged"]["parts"].as_array().unwrap();
        let own = parts.iter().find(|part| part["part"] == format!("`{command}`"));
        own.unwrap_or_else(|| panic!("{parts:?}"))["rule"].clone()
    };
    let (allowed, denied) = (rule("touch a"), rule("rm b"));
    assert_eq!((&allowed["layer"], &denied["voice"]), (&json!("--allow"), &json!("repository")));
    assert!(denied["layer"].as_str().unwrap().ends_with(".piton/config.toml"), "{denied}");
    let reach = &of("touch a")["reach"];
    assert!(reach["read"].as_array().unwrap().contains(&json!(seen)), "{reach}");
    assert_eq!(reach["hosts"], json!(["open.test"]));
}
