//! Ordinary work, which the sandbox must not disturb and nobody may be asked about: builds, tests, git, packages without a network,
//! servers, debuggers. The calls are in `ordinary/*.cases`, one session for each file, run with `--yes` and in `accept-edits`.
//!
//! A case is a command, from the first column on, and indented lines below it: `| text` goes on with the command, `= text` has to
//! be in what it prints, `code N` is its exit code where that is not 0, and `! program` says what it needs. What a machine does not
//! have is left out, and counted aloud.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FILES: &[(&str, &str)] = &[
    ("shell", include_str!("ordinary/shell.cases")),
    ("git", include_str!("ordinary/git.cases")),
    ("c", include_str!("ordinary/c.cases")),
    ("rust", include_str!("ordinary/rust.cases")),
    ("python", include_str!("ordinary/python.cases")),
    ("node", include_str!("ordinary/node.cases")),
    ("servers", include_str!("ordinary/servers.cases")),
    ("tools", include_str!("ordinary/tools.cases")),
];

/// What a workspace has when a session begins.
const WORKSPACE: &[(&str, &str)] = &[
    ("README.md", "a workspace\n"),
    ("Cargo.toml", "[package]\nname = \"a_crate\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    (
        "src/lib.rs",
        "/// Doubles.\npub fn double(x: i32) -> i32 {\n    2 * x\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
         fn doubles() {\n        assert_eq!(super::double(2), 4);\n    }\n}\n",
    ),
    ("app.py", "def double(x):\n    return 2 * x\n\nif __name__ == '__main__':\n    print('app says', double(2))\n"),
    (
        "test_app.py",
        "import unittest\nfrom app import double\n\nclass Doubles(unittest.TestCase):\n    def test(self):\n        \
         self.assertEqual(double(2), 4)\n",
    ),
    (
        "package.json",
        "{\"name\": \"a-package\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node --test\", \
         \"hello\": \"echo hello from a script\"}}\n",
    ),
    ("index.js", "exports.double = (x) => 2 * x;\nconsole.log('index says', exports.double(2));\n"),
    (
        "test/index.test.js",
        "const { test } = require('node:test');\nconst { double } = require('../index.js');\n\
         test('doubles', () => require('node:assert').equal(double(2), 4));\n",
    ),
];

/// One call.
struct Case {
    line: usize,
    command: String,
    says: Vec<String>,
    needs: Vec<String>,
    code: i64,
}

fn cases(file: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (at, line) in file.lines().enumerate() {
        let Some(more) = line.strip_prefix("  ") else {
            if !line.is_empty() && !line.starts_with("# ") {
                let command = line.to_owned();
                cases.push(Case { line: at + 1, command, says: Vec::new(), needs: Vec::new(), code: 0 });
            }
            continue;
        };
        let case = cases.last_mut().expect("a command comes first");
        match more.split_once(' ') {
            Some(("|", text)) => write!(case.command, "\n{text}").unwrap(),
            Some(("=", text)) => case.says.push(text.to_owned()),
            Some(("!", program)) => case.needs.push(program.to_owned()),
            Some(("code", code)) => case.code = code.parse().unwrap(),
            _ => panic!("line {}: {line}", at + 1),
        }
    }
    cases
}

/// Whether a machine has a program, which works.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A workspace with a commit in it, and a person who has a name.
fn stage(calls: impl Iterator<Item = Value>) -> Stage {
    let stage = Stage::new(calls.chain([json!({"text": "done"})]).collect()).with_files(WORKSPACE.iter().copied());
    stage.home.write(".gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n");
    let (home, workspace) = (stage.home.path(), stage.workspace.path());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(args).current_dir(&workspace).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
        assert!(git.status().unwrap().success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    stage
}

/// What is wrong with the outcome of a case.
fn wrong(case: &Case, outcome: &Value) -> Option<String> {
    let text = outcome["text"].as_str().unwrap_or_default();
    let is_code = outcome["metadata"]["exit_code"].as_i64() == Some(case.code);
    let is_said = case.says.iter().all(|said| text.contains(said.as_str()));
    (!is_code || !is_said).then(|| format!("line {}: {}\n{outcome}\n", case.line, case.command))
}

/// Runs a file's calls as one session.
#[expect(clippy::print_stdout, reason = "what a machine cannot run is counted aloud")]
fn session(name: &str, mode: &[&str]) {
    /// A file has up to ninety calls, some of which build something, and machines are loaded.
    const PATIENCE: Duration = Duration::from_secs(600);
    let file = FILES.iter().find_map(|(file, text)| (*file == name).then_some(*text)).unwrap();
    let (cases, absent): (Vec<Case>, Vec<Case>) =
        cases(file).into_iter().partition(|case| case.needs.iter().all(|program| has(program)));
    for case in &absent {
        println!("{name}: line {} needs {:?}, which this machine has not", case.line, case.needs);
    }
    let stage = stage(cases.iter().map(|case| json!({"tools": [{"name": "bash", "args": {"command": case.command}}]})));
    let flags = ["run", "--format", "stream-json", "--model", "openai-chat/test-model", "--max-steps", "1000"];
    let backend = ["--sandbox", "workspace-write", "--set", "sandbox.backend=namespaces"];
    let ran = Ran::within(stage.piton(&[&flags[..], &backend, mode, &["go"]].concat()), PATIENCE);
    let outcomes: Vec<Value> = ran.all("call_settled").iter().map(|event| event["outcome"].clone()).collect();
    let asked = ran.all("approval_asked").len();
    println!("{name}: {} calls, {} left out, {asked} questions", outcomes.len(), absent.len());
    let wrong: Vec<String> = cases.iter().zip(&outcomes).filter_map(|(case, outcome)| wrong(case, outcome)).collect();
    assert!(wrong.is_empty(), "{} of {name} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((outcomes.len(), asked), (cases.len(), 0), "{}", ran.stderr);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!is_littered(&stage.workspace.path()), "{name}: something empty was left");
}

/// Whether an empty file stands where something protected would.
fn is_littered(workspace: &Path) -> bool {
    [".claude", ".vscode", ".envrc", ".mcp.json", ".bashrc"].iter().any(|name| workspace.join(name).exists())
}

macro_rules! sessions {
    ($($name:ident: $file:literal),*) => {
        mod with_yes {
            $(#[test] fn $name() { super::session($file, &["--yes"]); })*
        }
        mod in_accept_edits {
            $(#[test] fn $name() { super::session($file, &["--mode", "accept-edits"]); })*
        }
    };
}

sessions!(
    shell: "shell",
    git: "git",
    programs_in_c: "c",
    rust: "rust",
    python: "python",
    node: "node",
    servers: "servers",
    other_tools: "tools"
);

#[test]
fn there_are_at_least_three_hundred() {
    assert!(FILES.iter().map(|(_, text)| cases(text).len()).sum::<usize>() >= 300);
}
