//! The rows of the field's list of attacks, each with the test that makes the attempt through the binary; and the rows that rules,
//! configuration and trust answer, tried here, each beside work of the same kind that must be done.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// Where each row is tried. Those that name `TRIES` are in each column of [`crate::attacks`].
const ROWS: &[(u8, &str, &str)] = &[
    (1, "attacks.rs", "TRIES"),
    (2, "attacks.rs", "TRIES"),
    (3, "attacks.rs", "TRIES"),
    (4, "rows.rs", "a_ban_holds_behind_any_number_of_other_commands"),
    (5, "attacks.rs", "TRIES"),
    (6, "attacks.rs", "TRIES"),
    (7, "attacks.rs", "TRIES"),
    (8, "attacks.rs", "TRIES"),
    (9, "attacks.rs", "TRIES"),
    (10, "attacks.rs", "TRIES"),
    (11, "permission.rs", "a_yes_is_to_what_was_shown_and_not_to_what_a_link_was_turned_to"),
    (12, "rows.rs", "a_patch_reaches_no_more_than_the_workspace"),
    (13, "attacks.rs", "TRIES"),
    (14, "attacks.rs", "TRIES"),
    (15, "attacks.rs", "TRIES"),
    (16, "attacks.rs", "TRIES"),
    (17, "attacks.rs", "TRIES"),
    (18, "attacks.rs", "TRIES"),
    (19, "attacks.rs", "TRIES"),
    (20, "attacks.rs", "TRIES"),
    (22, "rows.rs", "nothing_of_a_repository_is_run_or_asked_before_the_model_runs_it"),
    (23, "trust.rs", "one_run_trusts_whatever_is_there_and_the_next_does_not"),
    (24, "trust.rs", "all_of_it_is_shown_at_once_and_later_the_difference"),
    (25, "attacks.rs", "TRIES"),
    (26, "rows.rs", "variables_of_a_repository_are_not_pitons"),
    (27, "config.rs", "a_repository_cannot_send_keys_elsewhere_even_if_it_is_trusted"),
    (28, "trust.rs", "a_hash_trusts_what_was_reviewed_wherever_it_lies_and_nothing_else"),
    (29, "rows.rs", "nothing_of_a_repository_is_run_or_asked_before_the_model_runs_it"),
    (30, "hostile.rs", "a_repository_brings_no_shell_of_its_own"),
    (37, "bad_input.rs", "what_a_model_says_cannot_draw_on_the_terminal"),
    (38, "permission.rs", "a_question_says_what_asks_where_it_runs_and_by_which_rule"),
    (41, "rows.rs", "an_empty_list_of_hosts_opens_none"),
    (
        42,
        "network.rs",
        "whatever_a_command_says_to_the_proxy_it_reaches_listed_hosts_at_public_addresses_and_nothing_else",
    ),
    (44, "attacks.rs", "TRIES"),
    (45, "attacks.rs", "TRIES"),
    (46, "attacks.rs", "TRIES"),
    (47, "attacks.rs", "TRIES"),
    (48, "attacks.rs", "TRIES"),
    (49, "attacks.rs", "TRIES"),
    (50, "web.rs", "this_machine_and_its_network_are_out_of_reach_whatever_is_allowed"),
    (51, "rows.rs", "a_program_that_runs_another_hides_it_from_no_ban"),
    (52, "attacks.rs", "TRIES"),
    (53, "rows.rs", "what_is_no_command_is_not_allowed_by_that"),
    (54, "rows.rs", "a_rule_covers_each_part_or_nothing"),
    (55, "foreign.rs", "what_a_repository_wants_asked_lifts_no_ban_of_yours"),
    (56, "secrets.rs", "a_file_keeps_its_secrets_when_the_model_changes_it_and_they_go_nowhere_else"),
    (57, "secrets.rs", "a_file_keeps_its_secrets_when_the_model_changes_it_and_they_go_nowhere_else"),
    (58, "secrets.rs", "a_canary_is_in_no_file_and_no_request_however_it_is_printed"),
    (59, "sandbox.rs", "where_none_can_be_made_nothing_is_started"),
    (60, "bad_input.rs", "what_a_model_says_cannot_draw_on_the_terminal"),
];

/// Rows that are about what Piton does not have or cannot defend, and why no test tries them.
const NOT_TRIED: &[(u8, &str)] = &[
    (21, "Piton clones nothing; a clone of the model's is a command in the sandbox"),
    (31, "no links start it"),
    (32, "it serves no TCP; the control socket is tried in attacks.rs, row 32"),
    (33, "it serves no TCP"),
    (34, "it serves no TCP"),
    (35, "it has no pages"),
    (36, "nothing is loaded where text is drawn"),
    (39, "descriptions of MCP tools: the tests of servers"),
    (40, "MCP servers: the tests of servers"),
    (43, "an open host can be a drop box: docs/sandbox.md says so"),
];

const FILES: &[(&str, &str)] = &[
    ("attacks.rs", include_str!("attacks.rs")),
    ("bad_input.rs", include_str!("bad_input.rs")),
    ("config.rs", include_str!("config.rs")),
    ("foreign.rs", include_str!("foreign.rs")),
    ("hostile.rs", include_str!("hostile.rs")),
    ("network.rs", include_str!("network.rs")),
    ("permission.rs", include_str!("permission.rs")),
    ("rows.rs", include_str!("rows.rs")),
    ("sandbox.rs", include_str!("sandbox.rs")),
    ("secrets.rs", include_str!("secrets.rs")),
    ("trust.rs", include_str!("trust.rs")),
    ("web.rs", include_str!("web.rs")),
];

#[test]
fn every_row_of_the_list_is_tried_or_says_why_not() {
    const LAST: u8 = 60;
    for row in 1..=LAST {
        let tried: Vec<_> = ROWS.iter().filter(|(number, ..)| *number == row).collect();
        let is_excused = NOT_TRIED.iter().any(|(number, _)| *number == row);
        assert!(tried.is_empty() == is_excused, "row {row} is tried, or says why not");
        for (_, file, test) in tried {
            let (_, text) = FILES.iter().find(|(name, _)| name == file).unwrap();
            let named = if *test == "TRIES" { format!("({row}, ") } else { format!("#[test]\nfn {test}()") };
            // A longer try stands on lines of its own.
            let is_there = text.contains(&named) || text.contains(&format!("        {row},\n"));
            assert!(is_there, "row {row}: {file} has no {named}");
        }
    }
}

/// What becomes of a command by these rules.
fn check(stage: &Stage, flags: &[&str], command: &str) -> String {
    let args = [&["permission", "check", "--json", "--sandbox", "off"], flags, &["--", command]].concat();
    let ran = Ran::of(stage.piton(&args));
    let said: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{command}: {}", ran.stderr));
    said["action"].as_str().unwrap().to_owned()
}

#[test]
fn a_ban_holds_behind_any_number_of_other_commands() {
    let stage = Stage::new(json!([]));
    let flags = ["--deny", "Bash(rm *)", "--allow", "bash", "--mode", "auto"];
    for before in [1, 49, 50, 51, 200, 1_000] {
        let many = "true; ".repeat(before);
        assert_ne!(check(&stage, &flags, &format!("{many}rm x")), "allow", "{before}");
        let nested = format!("{}rm x{}", "( ".repeat(before), " )".repeat(before));
        assert_ne!(check(&stage, &flags, &nested), "allow", "{before} deep");
    }
    assert_eq!(check(&stage, &flags, &format!("{}ls x", "true; ".repeat(200))), "allow");
}

#[test]
fn a_program_that_runs_another_hides_it_from_no_ban() {
    let stage = Stage::new(json!([]));
    let flags = ["--deny", "Bash(rm *)", "--mode", "auto"];
    for wrapper in ["nice -n 5", "xargs -n 1", "stdbuf -oL", "unknown-wrapper -x", "setsid -w", "doas -u me", "chrt 1"]
    {
        assert_ne!(check(&stage, &flags, &format!("{wrapper} rm x")), "allow", "{wrapper}");
    }
    for wrapper in ["nice -n 5", "stdbuf -oL", "setsid -w"] {
        assert_eq!(check(&stage, &flags, &format!("{wrapper} ls x")), "allow", "{wrapper}");
    }
    // Unconfined, what `xargs` adds may be any file. The sandbox holds it.
    assert_ne!(check(&stage, &flags, "xargs -n 1 ls x"), "allow");
}

#[test]
fn what_is_no_command_is_not_allowed_by_that() {
    let stage = Stage::new(json!([]));
    let flags = ["--allow", "Bash(ls *)", "--mode", "ask"];
    for odd in ["--", "-- rm x", "''", "\"\" x", "\\", "$(true) x", "!"] {
        assert_ne!(check(&stage, &flags, odd), "allow", "{odd}");
    }
    assert_eq!(check(&stage, &flags, "ls x"), "allow");
}

#[test]
fn a_rule_covers_each_part_or_nothing() {
    let stage = Stage::new(json!([]));
    let flags = ["--allow", "Bash(git status *)", "--mode", "ask"];
    for line in [
        "git status && touch x",
        "git status; touch x",
        "git status | tee x",
        "touch x & git status",
        "git status\ntouch x",
    ] {
        assert_eq!(check(&stage, &flags, line), "ask", "{line}");
    }
    assert_eq!(check(&stage, &flags, "git status && git status -s"), "allow");
}

#[test]
fn a_patch_reaches_no_more_than_the_workspace() {
    let patch = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    let call = |text: String| json!({"tools": [{"name": "apply_patch", "args": {"patch": text}}]});
    let stage = Stage::new(json!([]));
    let out = stage.home.path().join("made");
    let mut stage = stage;
    let own = format!("../{}", stage.home.path().file_name().unwrap().to_str().unwrap());
    let tries = [
        out.to_str().unwrap().to_owned(),
        format!("{own}/made"),
        "sub/../../made-by-a-patch".into(),
        ".git/hooks/x".into(),
    ];
    let replies = tries.iter().map(|path| call(patch(path))).chain([call(patch("sub/made")), json!({"text": "done"})]);
    stage.provider = piton_testkit::FakeProvider::start(replies.collect());
    stage.workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    let ran = stage.run(&["--sandbox", "workspace-write", "--set", "tools.apply_patch=always", "go"]).expect_code(3);
    let done: Vec<bool> = ran.all("call_settled").iter().map(|event| event["outcome"]["status"] == "ok").collect();
    // A path in the home is one in the session's own.
    assert_eq!(done[2..], [false, false, true], "{}", ran.stdout);
    assert!(!out.exists() && !stage.workspace.path().join("../made-by-a-patch").exists());
    assert!(!stage.workspace.path().join(".git/hooks/x").exists());
    assert_eq!(stage.workspace.read("sub/made"), "x\n");
}

#[test]
fn variables_of_a_repository_are_not_pitons() {
    let stage = Stage::new(json!([{"text": "done"}]));
    let other = stage.home.path().join("other");
    let text = format!(
        "PITON_DATA_DIR={0}\nPITON_CONFIG={0}/config.toml\nXDG_CONFIG_HOME={0}\nOPENAI_BASE_URL=http://127.0.0.1:1/v1\n\
         OPENAI_API_KEY=sk-of-the-repository\nHTTP_PROXY=http://127.0.0.1:1\n",
        other.display()
    );
    for name in [".env", ".env.local", ".envrc"] {
        stage.workspace.write(name, &text);
    }
    stage.run(&["go"]).expect_code(0);
    assert_eq!(stage.provider.requests().len(), 1, "the user's provider is asked");
    assert!(!other.exists() && stage.session_dir().exists());
}

#[test]
fn nothing_of_a_repository_is_run_or_asked_before_the_model_runs_it() {
    let runs = json!({"tools": [{"name": "bash", "args": {"command": "npm --version"}}]});
    let stage = Stage::new(json!([{"text": "done"}, runs, {"text": "done"}]));
    // Whatever one of these is run for is told, and it runs what a repository has for it.
    let (tools, told) = (stage.home.path().join("tools"), stage.home.path().join("told"));
    std::fs::create_dir(&tools).unwrap();
    for name in
        ["npm", "yarn", "pnpm", "node", "cargo", "python3", "pip", "go", "make", "direnv", "mise", "gh", "hg", "git"]
    {
        let file = tools.join(name);
        std::fs::write(&file, format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", told.display())).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", "[core]\n\tfsmonitor = touch by-git\n\tpager = touch by-git\n[user]\n\temail = a@b\n"),
        (".yarnrc.yml", "yarnPath: ./taken.js\n"),
        ("package.json", "{\"packageManager\": \"yarn@9\", \"scripts\": {\"preinstall\": \"touch by-npm\"}}"),
        (".mise.toml", "[tasks.x]\nrun = \"touch by-mise\"\n"),
    ] {
        stage.workspace.write(name, text);
    }
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let run = || {
        let mut command = stage.run_command(&["--sandbox", "off", "go"]);
        command.env("PATH", &path);
        Ran::of(command).expect_code(0)
    };
    run();
    assert_eq!(std::fs::read_to_string(&told).unwrap_or_default(), "");
    run();
    assert_eq!(std::fs::read_to_string(&told).unwrap_or_default(), "npm --version\n", "the model runs it");
    assert!(!stage.workspace.path().join("by-git").exists());
}

#[test]
fn an_empty_list_of_hosts_opens_none() {
    // Piton's own way out is there, and lets nothing through.
    let tries = "curl -sf -m 5 http://93.184.215.14/ || exec 3<>/dev/tcp/93.184.215.14/80";
    let reply = json!({"tools": [{"name": "bash", "args": {"command": tries}}]});
    let stage = Stage::new(json!([reply, {"text": "done"}])).with_config("[sandbox]\nnet = []\n[permission]\n");
    let ran = stage.run(&["go"]).expect_code(0);
    let outcome = &ran.outcomes()[0];
    assert!(outcome["status"] == "failed" || outcome["metadata"]["exit_code"] != 0, "{outcome}");
    assert_eq!(stage.journal().iter().filter(|event| event["type"] == "approval_asked").count(), 0);
}
