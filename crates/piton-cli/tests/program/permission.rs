//! `piton permission check`: what an attacker found in the judge of commands, each beside a twin that is as it should be.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

/// What the judge says of a command by these rules, without a sandbox.
fn check(stage: &Stage, flags: &[&str], command: &str) -> Value {
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
