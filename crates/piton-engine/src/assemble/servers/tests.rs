//! Entries of files: which count, what a mistake costs, what other programs' words mean.

use super::*;
use crate::assemble::tree::Tree;
use crate::config::Config;
use piton_mcp::entry::{Login, Transport};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

impl Tree {
    fn found(&self, flags: &[&str]) -> Vec<FoundServer> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (machine, workspace) = (self.machine(), self.path("repo/sub"));
        let scope = Scope::new(&machine, &workspace, &Config::default(), &[], &[]).expect("a scope");
        look(&scope, &flags).expect("a list")
    }

    /// What is found in `repo/sub`: name, state, and where it stands or why it cannot be used.
    fn servers(&self, flags: &[&str]) -> Vec<String> {
        let root = format!("{}/", self.0.path().display());
        let said = |found: &FoundServer| {
            let why = found.entry.as_ref().err().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{} {} {}{why}", found.name, found.state.word(), found.place().replace(&root, ""))
        };
        self.found(flags).iter().map(said).collect()
    }

    /// The user's own servers, as entries.
    fn own(text: &str) -> BTreeMap<String, Entry> {
        let tree = Self::with(&[("config/mcp.json", text)]);
        let mut notices = Vec::new();
        let entries = in_force(tree.found(&[]), &mut notices);
        assert!(notices.is_empty(), "{notices:?}");
        entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect()
    }
}

#[test]
fn flags_count_before_what_is_trusted_of_the_repository_and_that_before_the_users_own() {
    let tree = Tree::with(&[
        ("repo/sub/.mcp.json", r#"{"mcpServers": {"one": {"command": "a"}, "two": {"command": "a"}}}"#),
        ("repo/.piton/mcp.json", "{\n  \"mcpServers\": {\n    \"two\": {\"command\": \"b\"}\n  }\n}"),
        (
            "repo/opencode.jsonc",
            "{ // mine\n\"mcp\": {\"three\": {\"type\": \"local\", \"command\": [\"c\", \"d\"]}, \"x\": {\"enabled\": false}}}",
        ),
        (".mcp.json", r#"{"mcpServers": {"outside": {"command": "a"}}}"#),
        ("config/mcp.json", r#"{"mcpServers": {"two": {"command": "own"}}, "disabled": ["four"]}"#),
        (
            "home/.claude.json",
            r#"{"mcpServers": {"four": {"url": "https://x.example"}, "two": {"command": "x"}}, "projects": {"REPO": {"mcpServers": {"five": {"command": "x"}}}}}"#,
        ),
    ]);
    let claude = tree.path("home/.claude.json");
    let text = fs::read_to_string(&claude).expect("read").replace("REPO", &tree.path("repo").display().to_string());
    fs::write(&claude, text).expect("written");
    let before = tree.servers(&[r#"{"mcpServers": {"one": {"command": "flag"}}}"#]);
    assert_eq!(
        before,
        [
            "one in force --mcp-config",
            "one not trusted repo/sub/.mcp.json:1",
            "two not trusted repo/sub/.mcp.json:1",
            "two not trusted repo/.piton/mcp.json:3",
            "three not trusted repo/opencode.jsonc:2",
            "two in force config/mcp.json:1",
            "five in force home/.claude.json:1",
            "four disabled home/.claude.json:1",
            "two shadowed home/.claude.json:1",
        ]
    );
    let trust = Trust::in_folder(&tree.path("data"));
    for (_, read) in brought(&tree.path("repo/sub")) {
        let (item, text) = read.expect("read");
        if item.path.ends_with(".piton/mcp.json#two") {
            trust.give(&item, text.as_bytes()).expect("written");
        }
    }
    let after = tree.servers(&[]);
    assert!(after.contains(&"two in force repo/.piton/mcp.json:3".to_owned()), "{after:?}");
    assert!(after.contains(&"two shadowed config/mcp.json:1".to_owned()), "{after:?}");
    fs::write(tree.path("repo/.piton/mcp.json"), r#"{"mcpServers": {"two": {"command": "b", "args": ["-x"]}}}"#)
        .unwrap();
    let changed = tree.servers(&[]);
    assert!(changed.contains(&"two not trusted repo/.piton/mcp.json:1".to_owned()), "{changed:?}");
    assert!(changed.contains(&"two in force config/mcp.json:1".to_owned()), "{changed:?}");
}

#[test]
fn a_mistake_costs_its_own_entry_and_is_told_with_its_line() {
    let tree = Tree::with(&[
        (
            "config/mcp.json",
            "{\"mcpServers\": {\n\"a\": {\"command\": \"${NOPE}\"},\n\"b\": {\"type\": \"htp\", \"url\": \"https://x\"},\n\
             \"c\": {},\n\"d\": 7,\n\"e\": {\"command\": \"e\", \"args\": \"-x\"},\n\"f\": {\"url\": \"x.example\"},\n\
             \"g\": {\"command\": \"g\", \"timeout\": 0},\n\"good\": {\"command\": \"g\", \"env\": {\"A\": \"${KEY}\", \"B\": 1}}}}",
        ),
        ("repo/.mcp.json", "{\n\"mcpServers\": [}"),
        (
            "repo/sub/.mcp.json",
            r#"{"mcpServers": {"h": {"command": "h", "sandbox": false}, "i": {"command": "${NOPE}"}}}"#,
        ),
    ]);
    let lines = tree.servers(&[]);
    assert_eq!(
        lines,
        [
            "h cannot be used repo/sub/.mcp.json:1: `sandbox` is false, and a server of a repository runs in the sandbox; configure it as your own",
            "i not trusted repo/sub/.mcp.json:1",
            " cannot be used repo/.mcp.json: it is not valid JSON: expected value at line 2 column 16",
            "a cannot be used config/mcp.json:2: the variable NOPE is not set",
            "b cannot be used config/mcp.json:3: its type is `htp`; stdio, http and sse are known; did you mean `http`?",
            "c cannot be used config/mcp.json:4: it has neither a `command` nor a `url`",
            "d cannot be used config/mcp.json:5: it is not an object",
            "e cannot be used config/mcp.json:6: `args` is not a list of texts",
            "f cannot be used config/mcp.json:7: `x.example` is not an address: http:// or https:// is missing",
            "g cannot be used config/mcp.json:8: `timeout` is 0; it is in milliseconds, from 1 to 86400000",
            "good in force config/mcp.json:9",
        ]
    );
    let mut notices = Vec::new();
    assert_eq!(in_force(tree.found(&[]), &mut notices).len(), 1);
    let told: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|told| told.contains("the MCP server a of")
            && told.ends_with("mcp.json:2 is left out: the variable NOPE is not set")),
        "{told:?}"
    );
    assert_eq!(notices.last(), Some(&Notice::Ignored(1)));
}

#[test]
fn what_an_entry_says_is_taken_from_each_programs_words() {
    let entries = Tree::own(
        r#"{"mcpServers": {
            "web": {"type": "streamableHttp", "url": "https://x.example/${KEY}", "headers": {"Authorization": "Bearer ${KEY}"},
                    "oauth": {"clientId": "me", "scope": "read write", "callbackPort": 8123}, "alwaysLoad": true},
            "old": {"type": "sse", "url": "http://x.example/sse"},
            "my server__x": {"command": "s", "args": ["${NOPE:-d}"], "timeout": 5000, "startTimeout": 1000, "tools": ["a"], "cwd": "/w"},
            "boxed": {"command": "s", "sandbox": true}
        }}"#,
    );
    let web = &entries["web"];
    let login = Login {
        client_id: Some("me".into()),
        client_secret: None,
        scopes: vec!["read".into(), "write".into()],
        callback_port: 8123,
    };
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer k-1".to_owned())]);
    assert_eq!(web.transport, Transport::Http { url: "https://x.example/k-1".into(), headers, login });
    assert!(web.always_load && matches!(entries["old"].transport, Transport::Sse { .. }));
    let mine = &entries["my_server_x"];
    let Transport::Stdio { command, args, env, cwd } = &mine.transport else { panic!("{mine:?}") };
    assert_eq!((command.as_str(), args.as_slice(), env.len()), ("s", &["d".to_owned()][..], 0));
    assert_eq!((cwd.as_deref(), mine.tools.as_deref()), (Some(Path::new("/w")), Some(&["a".to_owned()][..])));
    assert_eq!((mine.call_timeout, mine.start_timeout), (Duration::from_secs(5), Duration::from_secs(1)));
    assert_eq!((&mine.net, &entries["boxed"].net), (&None, &Some(Vec::new())));
}

#[test]
fn of_what_is_added_at_once_nothing_is_lost() {
    let tree = Tree::with(&[]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let tree = &tree;
            scope.spawn(move || {
                let mut own = OwnFile::to_change(&tree.machine()).unwrap();
                std::thread::yield_now();
                own.add(&format!("s{number}"), serde_json::json!({"command": "x"}), false).unwrap();
                own.write().unwrap();
            });
        }
    });
    assert_eq!(tree.servers(&[]).len(), 8);
}

#[test]
fn the_users_own_file_keeps_what_is_not_changed() {
    let tree =
        Tree::with(&[("config/mcp.json", r#"{"mcpServers": {"a": {"command": "x", "note": 1}}, "other": true}"#)]);
    let mut own = OwnFile::to_change(&tree.machine()).unwrap();
    assert!(own.add("a", Value::Null, false).unwrap_err().contains("there is a server a"));
    assert!(own.add("a b", Value::Null, false).unwrap_err().contains("`a_b` is"));
    own.add("b", serde_json::json!({"command": "y"}), false).unwrap();
    assert!(own.switch("a", false) && !own.switch("a", false));
    own.write().unwrap();
    drop(own);
    let text = fs::read_to_string(tree.path("config/mcp.json")).unwrap();
    let whole: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        whole,
        serde_json::json!({"mcpServers": {"a": {"command": "x", "note": 1}, "b": {"command": "y"}}, "other": true, "disabled": ["a"]})
    );
    let mut own = OwnFile::to_change(&tree.machine()).unwrap();
    assert!(own.remove("b") && !own.remove("b") && own.switch("a", true));
    own.write().unwrap();
    drop(own);
    assert_eq!(tree.servers(&[]), ["a in force config/mcp.json:3"]);
    fs::write(tree.path("config/mcp.json"), "{ // mine\n}").unwrap();
    assert!(OwnFile::to_change(&tree.machine()).unwrap().write().unwrap_err().to_string().contains("comments"));
}

#[test]
fn of_a_file_of_a_hundred_thousand_servers_the_first_are_looked_at() {
    let all: Vec<String> = (0..95_000).map(|at| format!("\"s{at}\":{{}}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", all.join(","));
    let source = Source { said: None, ..Source::said("x.json", Path::new("/")) };
    let read = entries_of(&text, &source).expect("read").expect("servers");
    assert_eq!((read.len(), read[199].name.as_str(), read[199].line), (MOST_IN_FILE, "s199", Some(1)));
}

#[test]
fn servers_whose_names_come_to_the_same_are_told_apart_by_whoever_wrote_them() {
    let text = r#"{"mcpServers": {"a__b": {"command": "x"}, "a_b": {"command": "y"}, "my server": {"command": "x"}, "my-server": {"command": "y"}}}"#;
    let tree = Tree::with(&[("config/mcp.json", text)]);
    let expected = [
        "a_b in force config/mcp.json:1",
        "a_b cannot be used config/mcp.json:1: in the names of tools it would be called a_b, as `a__b` of PLACE is; rename one of them",
        "my_server in force config/mcp.json:1",
        "my-server in force config/mcp.json:1",
    ];
    let place = format!("{}:1", tree.path("config/mcp.json").display());
    assert_eq!(tree.servers(&[]), expected.map(|line| line.replace("PLACE", &place)));
}
