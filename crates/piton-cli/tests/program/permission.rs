//! `piton permission check`: what an attacker found in the judge of commands, each beside a twin that is as it should be.

use crate::stage::{Ran, Stage, until};
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Child, Stdio};

/// What the judge says of a command by these rules, without a sandbox.
pub(crate) fn check(stage: &Stage, flags: &[&str], command: &str) -> Value {
    let mut args = vec!["permission", "check", "--json", "--sandbox", "off"];
    args.extend(flags);
    args.extend(["--", command]);
    let ran = Ran::of(stage.piton(&args));
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{command}: {}{}", ran.stdout, ran.stderr))
}

/// Flags, then commands with what becomes of each.
type Tries = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const TRIES: &[Tries] = &[
    (
        &["--allow", "Bash(find *)", "--mode", "ask"],
        &[("find . -name x", "allow"), ("find . -exec touch made ;", "ask"), ("find . -delete", "ask")],
    ),
    (
        &["--allow", "Bash(tar *)", "--mode", "ask"],
        &[
            ("tar xf a.tar", "allow"),
            ("tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='touch made' .", "ask"),
            ("tar -I 'touch made' -cf a.tar .", "ask"),
        ],
    ),
    (
        &["--allow", "Bash(git *)", "--mode", "ask"],
        &[("git fetch", "allow"), ("git -c core.pager='touch made' log", "ask"), ("git p", "ask")],
    ),
    (
        &["--allow", "Bash(echo *)", "--mode", "ask"],
        &[("echo hi", "allow"), ("echo hi > made", "ask"), ("echo hi > .git/config", "ask")],
    ),
    (&["--allow", "Bash(xargs *)", "--mode", "ask"], &[("xargs touch made", "ask")]),
    (
        &["--deny", "Bash(git push *)", "--mode", "auto"],
        &[
            ("git status", "allow"),
            ("git --no-pager log", "allow"),
            ("git -C . push", "deny"),
            ("git --no-pager push", "deny"),
            ("git -c a.b=c push", "deny"),
        ],
    ),
    (
        &[
            "--deny",
            "Bash(npm publish *)",
            "--deny",
            "Bash(docker run *)",
            "--deny",
            "Bash(kubectl delete *)",
            "--mode",
            "auto",
        ],
        &[
            ("npm --tag x publish", "deny"),
            ("npm test", "allow"),
            ("docker -H x run y", "deny"),
            ("docker ps", "allow"),
            ("kubectl -n x delete pod y", "deny"),
            ("kubectl get pods", "allow"),
        ],
    ),
    (
        &["--deny", "Read(.env)", "--mode", "auto"],
        &[
            ("cat a", "allow"),
            ("cat .e*", "deny"),
            ("source .env", "deny"),
            ("git diff --no-index .env /dev/null", "deny"),
            ("python3 -c 'print(open(\".env\").read())'", "deny"),
            ("python3 -c 'print(1)'", "allow"),
            ("find . -name .env -exec cat {} +", "deny"),
            ("find . -name .env", "allow"),
            ("grep -r x .", "deny"),
            ("grep -r --include='*.rs' x .", "allow"),
            ("cp -r . /tmp/x", "deny"),
            ("find . | xargs cat", "deny"),
            ("cat \"$f\"", "deny"),
            ("cp a b", "allow"),
            ("tar c .", "deny"),
        ],
    ),
    (
        &["--deny", "Read(.env)", "--mode", "accept-edits", "--allow", "bash"],
        &[("grep -r x .", "ask"), ("rg x", "allow")],
    ),
    (
        &["--deny", "Bash(rm *)", "--mode", "auto"],
        &[
            ("nix shell -c rm x", "deny"),
            ("nix shell -c ls", "allow"),
            ("git grep -O'rm x' y", "deny"),
            ("git grep y", "allow"),
            ("ed <<< '!rm x'", "deny"),
            ("ed <<< p", "allow"),
            ("sqlite3 db <<< '.shell rm x'", "deny"),
            // Which files these read is not known, and the ban is on no file.
            ("find . -name '*.rs' -exec grep x {} +", "allow"),
            ("for f in *; do wc -l \"$f\"; done", "allow"),
            ("find . | xargs rm", "deny"),
            ("for c in rm ls; do $c x; done", "deny"),
        ],
    ),
    (
        &["--deny", "write(secret/**)", "--mode", "auto"],
        &[
            ("tar xf a.tar -C secret", "deny"),
            ("wget -Osecret/a http://localhost", "deny"),
            ("cp -tsecret a", "deny"),
            ("git checkout -- secret/a", "deny"),
            ("cp secret/a b", "allow"),
        ],
    ),
    (
        &["--deny", "Bash(rm *)", "--ask", "Bash(sudo *)", "--mode", "auto"],
        &[("sudo rm x", "deny"), ("make -f - <<'E'\nall:\n\trm x\nE", "deny"), ("sudo ls", "allow")],
    ),
];

#[test]
fn pitons_own_search_passes_over_what_may_not_be_read() {
    let search = json!([{"tools": [{"name": "grep", "args": {"pattern": "canary"}}]}, {"text": "Done."}]);
    for (flags, files) in [(&["--deny", "Read(hidden.txt)"][..], 1), (&[], 2)] {
        let stage = Stage::new(search.clone()).with_files([("hidden.txt", "canary-7"), ("a.txt", "canary-8")]);
        let outcome = stage.run(&[flags, &["go"]].concat()).expect_code(0).outcomes()[0].clone();
        let text = outcome["text"].as_str().unwrap();
        assert!(text.contains("canary-8") && text.contains("canary-7") == (files == 2), "{flags:?}: {text}");
        assert_eq!(outcome["metadata"]["files"], files, "{outcome}");
    }
}

/// Commands that would read, copy, move or change what lies in Piton's data folder, each in another spelling. `sub` is `out` below `data`.
fn ways_to((data, sub): (&str, &str), (out, journal): (&str, &str), name: &str) -> Vec<String> {
    let ways = [
        format!("cat {out}"),
        format!("cat < {out}"),
        format!("cat {data}/sessions/*/calls/*.out"),
        format!("cat {data}/s*/{name}/c*/*"),
        format!("cd {data} && cat {sub}"),
        format!("cd {data}; head -1 {sub}"),
        format!("(cd {data}/sessions && grep -r canary .)"),
        format!("pushd {data}/sessions; tac {name}/calls/*"),
        format!("env -C {data} cat {sub}"),
        format!("git -C {data} diff --no-index /dev/null {sub}"),
        format!("d={data}; cat $d/{sub}"),
        format!("cat \"{data}\"'/{sub}'"),
        format!("cat {data}/../data/{sub}"),
        format!("cat {data}/./sessions//{name}/calls/*"),
        format!("cat {data}/{{trust.json,{sub}}}"),
        "cat link".to_owned(),
        format!("grep -r canary {data}"),
        format!("find {data} -name '*.out' -exec cat {{}} +"),
        format!("find {data} -name '*.out' | xargs cat"),
        format!("cat $(find {data} -name '*.out')"),
        format!("cp {out} here"),
        format!("cp -r {data} here"),
        format!("mv {data} here"),
        format!("ln {out} here"),
        format!("ln -s {data} here && cat here/{sub}"),
        format!("tar cf - {data}"),
        format!("tar cf - -C {data} ."),
        format!("tar cf here.tar --directory={data} sessions"),
        format!("dd if={out}"),
        format!("sqlite3 {journal} .dump"),
        format!("python3 -c 'print(open(\"{out}\").read())'"),
        format!("python3 -c 'import shutil; shutil.copy(\"{out}\", \"here\")'"),
        format!("perl -pe 1 {out}"),
        format!("awk 1 {out}"),
        format!("sed -n p {out}"),
        format!("curl -s file://{out}"),
        format!("rsync -a {data} here"),
        format!("scp {out} here"),
        format!("diff /dev/null {out}"),
        format!("bash -c 'cat {out}'"),
        format!("xargs cat <<< {out}"),
        format!("echo {out} | xargs cat"),
        format!("while read -r f; do cat \"$f\"; done <<< {out}"),
        format!("for f in {data}/sessions/*; do cat $f/calls/*; done"),
        format!("rm -rf {data}/sessions"),
        format!("truncate -s 0 {journal}"),
        format!("echo x > {data}/trust.json"),
        format!("sqlite3 {journal} 'delete from events'"),
        "cat \"$PITON_DATA_DIR\"/sessions/*/calls/*".to_owned(),
        format!("less {out} | cat"),
        format!("vim -es -c 'r {out}' -c 'w here' -c q!"),
    ];
    ways.into()
}

/// Without a sandbox, nothing of Piton's data folder is for a tool, but what this session's own commands have printed.
#[test]
fn what_other_sessions_and_piton_keep_is_out_of_every_tools_reach() {
    let long = json!({"tools": [{"name": "bash", "args": {"command": "echo canary-of-another; seq 1 60000"}}]});
    let first = Stage::new(json!([long.clone(), {"text": "Done."}]));
    first.run(&["--sandbox", "off", "go"]).expect_code(0);
    let session = first.session_dir();
    let out = std::fs::read_dir(session.join("calls")).unwrap().flatten().map(|entry| entry.path());
    let out =
        out.into_iter().find(|path| path.extension().is_some_and(|end| end == "out")).expect("its output is kept");
    let home = first.home.path();
    let (out, journal, data) = (
        out.display().to_string(),
        session.join("journal.db").display().to_string(),
        home.join("data").display().to_string(),
    );
    let name = session.file_name().unwrap().to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(&out, first.workspace.path().join("link")).unwrap();
    let sub = out.strip_prefix(&format!("{data}/")).unwrap().to_owned();
    let mut tries: Vec<Value> = [&out, &journal, &format!("{data}/trust.json"), &format!("{data}/secret.key"), "link"]
        .map(|path| json!({"name": "read", "args": {"path": path}}))
        .into();
    tries.extend(
        [&data, &format!("{data}/sessions"), &out]
            .map(|path| json!({"name": "grep", "args": {"pattern": "canary", "path": path}})),
    );
    tries.push(json!({"name": "glob", "args": {"pattern": "**/*.out", "path": data}}));
    tries.push(json!({"name": "list", "args": {"path": session}}));
    tries.push(json!({"name": "write", "args": {"path": format!("{data}/trust.json"), "content": "{}"}}));
    tries.push(json!({"name": "edit", "args": {"path": out, "old": "canary", "new": "x"}}));
    let commands = ways_to((&data, &sub), (&out, &journal), &name);
    let count = tries.len() + commands.len();
    tries.extend(commands.into_iter().map(|command| json!({"name": "bash", "args": {"command": command}})));
    // In one step: a turn in which one step after the other is refused ends early.
    let script = [json!({"tools": tries}), json!({"text": "Done."})];
    let mut second = first;
    second.provider = piton_testkit::FakeProvider::start(json!(script));
    let ran = second.run(&["--sandbox", "off", "again"]);
    let outcomes = ran.outcomes();
    assert_eq!(outcomes.len(), count, "{}", ran.stderr);
    let got = |outcome: &&Value| outcome["text"].as_str().unwrap_or_default().contains("canary-of-another");
    let got: Vec<_> = outcomes.iter().filter(got).collect();
    assert!(got.is_empty(), "{got:#?}");
    let through: Vec<_> = outcomes.iter().zip(&tries).filter(|(outcome, _)| outcome["status"] == "ok").collect();
    assert!(through.is_empty(), "{through:#?}");
    assert!(!second.workspace.has("here") && std::path::Path::new(&out).exists());
    assert!(std::fs::read_to_string(&out).unwrap().contains("canary-of-another"));
    // What its own commands have printed it reads again.
    let read = json!({"tools": [{"name": "bash", "args": {"command": format!("ls -d {}", second.workspace.path().display())}}]});
    second.provider = piton_testkit::FakeProvider::start(json!([long, read, {"text": "Done."}]));
    let ran = second.run(&["--sandbox", "off", "third"]).expect_code(0);
    let told = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    let own = told.split_whitespace().find(|word| word.contains("/calls/")).unwrap_or_else(|| panic!("{told}"));
    let own = own.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
    let reads = [
        json!({"name": "read", "args": {"path": own}}),
        json!({"name": "bash", "args": {"command": format!("head -1 {own}")}}),
    ];
    second.provider = piton_testkit::FakeProvider::start(json!([{"tools": reads}, {"text": "Done."}]));
    let ran = second.run(&["-c", "--sandbox", "off", "go on"]).expect_code(0);
    assert!(
        ran.outcomes().iter().all(|outcome| outcome["text"].as_str().unwrap().contains("canary")),
        "{:?}",
        ran.outcomes()
    );
}

#[test]
fn what_an_attacker_found_in_the_judge_is_mended() {
    let stage = Stage::new(json!([]));
    let mut wrong = Vec::new();
    for (flags, tries) in TRIES {
        for (command, expected) in *tries {
            let said = check(&stage, flags, command);
            if said["action"] != *expected {
                wrong.push(format!("{flags:?} {command}: {} instead of {expected}: {}", said["action"], said["parts"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// S2-062.
#[test]
fn what_deletes_or_publishes_is_asked_about_where_nothing_is_said() {
    let stage = Stage::new(json!([]));
    for command in
        ["rm -rf build", "git push", "git push --force origin main", "git reset --hard", "sudo ls", "npm publish"]
    {
        let said = check(&stage, &["--mode", "ask"], command);
        assert_eq!(said["action"], "ask", "{command}: {said}");
        // Whoever allows something else has not allowed this.
        let said = check(&stage, &["--mode", "ask", "--allow", "Bash(git status *)"], command);
        assert_eq!(said["action"], "ask", "{command}: {said}");
    }
    let said = check(&stage, &["--mode", "ask", "--allow", "Bash(git status *)"], "git status --short");
    assert_eq!(said["action"], "allow", "{said}");
}

#[test]
fn always_to_a_redirection_is_a_rule_for_files() {
    let stage = Stage::new(json!([]));
    let said = check(&stage, &["--allow", "Bash(echo *)", "--mode", "ask"], "echo hi > src/made");
    assert_eq!(said["always"], json!(["Edit(./src/**)"]));
    let said = check(&stage, &["--mode", "ask"], "echo hi > .git/config");
    assert_eq!(
        (&said["action"], &said["always"]),
        (&json!("ask"), &json!([])),
        "nothing is offered for what is protected"
    );
}

/// A run in mode `ask` without a sandbox, whose questions the test answers.
struct Asked<'s> {
    stage: &'s Stage,
    child: Child,
}

impl<'s> Asked<'s> {
    fn start(stage: &'s Stage) -> Self {
        Self::start_in("ask", stage)
    }

    fn start_in(mode: &str, stage: &'s Stage) -> Self {
        let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
        let run = ["run", "--mode", mode, "--sandbox", "off", "--model", "openai-chat/m", "--format", "stream-json"];
        let mut command = stage.piton(&[&run[..], &["--input-format", "stream-json", "go"]].concat());
        let child = command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().unwrap();
        Self { stage, child }
    }

    /// The lines of this kind.
    fn of(&self, kind: &str) -> Vec<Value> {
        let printed = self.stage.printed();
        let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == kind).collect()
    }

    /// Waits for a question, and gives it.
    fn question(&self, number: usize) -> Value {
        until("it asks", || self.of("approval_asked").len() == number);
        self.of("approval_asked").pop().unwrap()["question"].clone()
    }

    fn answer(&mut self, decision: &Value) {
        let answer = json!({"do": "answer", "subject": {"call": "c1_0"}, "decision": decision});
        writeln!(self.child.stdin.as_mut().unwrap(), "{answer}").unwrap();
    }

    fn end(mut self) -> i32 {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

/// What a question says about something.
fn facts(question: &Value, about: &str) -> String {
    let blocks = question["body"].as_array().unwrap().iter();
    let facts = blocks.filter_map(|block| block["facts"].as_array()).flatten();
    let texts: Vec<&str> =
        facts.filter(|fact| fact["about"] == about).filter_map(|fact| fact["text"].as_str()).collect();
    texts.join("; ")
}

#[test]
fn a_yes_is_to_what_was_shown_and_not_to_what_a_link_was_turned_to() {
    let write = json!([{"tools": [{"name": "write", "args": {"path": "link/a", "content": "x"}}]}, {"text": "Done."}]);
    for swapped in [true, false] {
        let stage = Stage::new(write.clone()).with_files([("safe/there", "")]);
        let outside = stage.home.path().join("elsewhere");
        std::fs::create_dir(&outside).unwrap();
        let link = stage.workspace.path().join("link");
        symlink("safe", &link).unwrap();
        let mut asked = Asked::start(&stage);
        let question = asked.question(1);
        assert!(facts(&question, "link").contains("safe/a"), "the real path is shown: {question}");
        if swapped {
            std::fs::remove_file(&link).unwrap();
            symlink(&outside, &link).unwrap();
        }
        asked.answer(&json!("approve"));
        if swapped {
            let again = asked.question(2);
            assert!(facts(&again, "link").contains("elsewhere/a"), "{again}");
            assert_ne!(again["shown"], question["shown"]);
            assert!(
                !outside.join("a").exists() && !stage.workspace.has("safe/a"),
                "nothing was written by the first yes"
            );
            let voided = asked.of("approval_voided");
            assert!(voided[0]["why"].as_str().unwrap().contains("elsewhere"), "{voided:?}");
            asked.answer(&json!({"deny": null}));
        }
        asked.end();
        assert!(!outside.join("a").exists());
        assert_eq!(stage.workspace.has("safe/a"), !swapped);
    }
}

#[test]
fn a_yes_is_to_the_file_that_was_there() {
    let write = json!([{"tools": [{"name": "bash", "args": {"command": "echo x > a"}}]}, {"text": "Done."}]);
    let stage = Stage::new(write).with_files([("a", "first")]);
    let mut asked = Asked::start(&stage);
    asked.question(1);
    stage.workspace.write("a", "another");
    asked.answer(&json!("approve"));
    asked.question(2);
    assert_eq!(stage.workspace.read("a"), "another", "it has not run");
    asked.answer(&json!("approve"));
    until("it runs", || stage.workspace.read("a") == "x\n");
    assert_eq!(asked.end(), 0);
}

#[test]
fn a_question_says_what_asks_where_it_runs_and_by_which_rule() {
    let command = "ls && touch 'made\u{200b}'";
    let bash = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "Done."}]);
    let stage = Stage::new(bash).with_config("[permission]\n\"bash(touch *)\" = \"ask\"\n");
    let mut asked = Asked::start(&stage);
    let question = asked.question(1);
    let rule = facts(&question, "asked");
    assert!(rule.contains("by the rule bash(touch *)") && rule.contains("config.toml"), "{rule}");
    assert!(facts(&question, "folder").contains(stage.workspace.path().to_str().unwrap()));
    assert_eq!((facts(&question, "place").as_str(), facts(&question, "hidden").contains("200b")), ("unconfined", true));
    let block = &question["body"][0];
    let marked: Vec<&str> = block["marks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mark| {
            let at = |key: &str| usize::try_from(mark[key].as_u64().unwrap()).unwrap();
            &command[at("from")..at("to")]
        })
        .collect();
    assert!(marked.iter().any(|text| text.contains("touch")), "{marked:?}");
    asked.answer(&json!({"deny": null}));
    asked.end();
}

#[test]
fn a_new_host_is_asked_about_whatever_the_mode() {
    let fetch = json!([{"tools": [{"name": "web_fetch", "args": {"url": "http://docs.test/x"}}]}, {"text": "Done."}]);
    for mode in ["ask", "accept-edits", "auto"] {
        let stage = Stage::new(fetch.clone());
        let mut asked = Asked::start_in(mode, &stage);
        let question = asked.question(1);
        assert!(facts(&question, "asked").contains("reaching docs.test"), "{mode}: {question}");
        let lasting: Vec<&str> = question["choices"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|choice| choice["grants"][0]["pattern"] == "domain:docs.test")
            .filter_map(|choice| choice["name"].as_str())
            .collect();
        assert_eq!(lasting, ["always", "folder", "everywhere"], "{mode}: {question}");
        asked.answer(&json!({"deny": null}));
        asked.end();
    }
}

#[test]
fn what_is_allowed_for_a_folder_holds_there_until_it_is_taken_back() {
    let bash =
        json!([{"tools": [{"name": "bash", "args": {"command": "touch made"}}]}, {"text": "Done.", "repeat": true}]);
    let stage = Stage::new(bash.clone());
    let mut asked = Asked::start(&stage);
    let question = asked.question(1);
    let names: Vec<&str> =
        question["choices"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["yes", "always", "folder", "everywhere", "no"]);
    asked.answer(&json!({"approve_lasting": "folder"}));
    assert_eq!(asked.end(), 0);
    let file = stage.home.path().join("data/allowed.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = Ran::of(stage.piton(&["permission", "list"])).expect_code(0).stdout;
    assert!(listed.contains("bash(touch *)") && listed.contains("allowed for"), "{listed}");
    let becomes = || check(&stage, &["--mode", "ask"], "touch made")["action"].clone();
    assert_eq!(
        (becomes(), check(&stage, &["--mode", "ask", "--deny", "*"], "touch made")["action"].clone()),
        (json!("allow"), json!("deny"))
    );
    let shown = Ran::of(stage.piton(&["session", "show", "--audit", "last"])).expect_code(0).stdout;
    assert!(shown.contains("ask   `touch made`") && shown.contains("shown ") && shown.contains("by user"), "{shown}");
    Ran::of(stage.piton(&["permission", "revoke", "bash(touch *)"]))
        .expect_code(0)
        .expect_said(&["bash(touch *) is asked about again"]);
    assert_eq!(becomes(), "ask");
    std::fs::write(&file, "{").unwrap();
    let ran = Ran::of(stage.piton(&["permission", "check", "--sandbox", "off", "--mode", "ask", "--", "touch made"]));
    ran.expect_code(3).expect_said(&["allowed.json", "nothing on it is allowed"]);
}
