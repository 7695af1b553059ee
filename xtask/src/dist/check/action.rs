//! The script of the GitHub Action, run as GitHub would run it, with a recording in the place of a model.

use crate::dist::tools::{output, write};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::Command;

/// What the model says: it writes a file, changes one, and answers in two lines.
const CASSETTE: &str = r#"{"cassette":1,"about":"writes a file and changes another"}
{"text":"I write it.","calls":[{"name":"write","input":{"path":"new.txt","content":"new\n"}},{"name":"read","input":{"path":"old.txt"}}]}
{"calls":[{"name":"edit","input":{"path":"old.txt","old_string":"old","new_string":"changed"}}]}
{"text":"Two files changed.\nDone."}
"#;

/// The outputs are the answer and a patch of exactly what the run has changed.
pub(super) fn check(dir: &Path, piton: &Path) -> anyhow::Result<()> {
    let repository = dir.join("repository");
    write(&repository.join("old.txt"), "old\n")?;
    write(&dir.join("cassette.jsonl"), CASSETTE)?;
    write(&dir.join("config.toml"), "")?;
    let git = |words: &[&str]| output(Command::new("git").current_dir(&repository).args(words));
    git(&["init", "--quiet"])?;
    git(&["add", "."])?;
    git(&["-c", "user.name=check", "-c", "user.email=check@localhost", "commit", "--quiet", "--message", "old"])?;
    // Of an earlier step of the job: not the run's, so not in its patch.
    write(&repository.join("earlier.txt"), "earlier\n")?;
    let index = git(&["ls-files", "--stage"])?;

    let run = |allow: &str, prompt: &str| {
        let mut sh = Command::new("sh");
        sh.arg(std::path::absolute("packaging/action.sh")?).current_dir(&repository);
        sh.env("RUNNER_TEMP", dir).env("GITHUB_OUTPUT", dir.join("outputs"));
        sh.env("PITON_DATA_DIR", dir.join("data")).env("PITON_CONFIG", dir.join("config.toml"));
        sh.env("INPUT_MODEL", format!("recorded/{}", dir.join("cassette.jsonl").display()));
        sh.env("INPUT_PROMPT", prompt).env("INPUT_BUDGET", "0.50").env("INPUT_ALLOW", allow).env("INPUT_PITON", piton);
        let out = sh.output().context("cannot run sh")?;
        let outputs = std::fs::read_to_string(dir.join("outputs"))?;
        std::fs::remove_file(dir.join("outputs"))?;
        anyhow::Ok((out, outputs))
    };

    // What is not allowed is refused, and the step fails as the run did.
    let (out, outputs) = run("read", "--help; touch injected")?;
    ensure!(out.status.code() == Some(3), "nothing was allowed: {}", String::from_utf8_lossy(&out.stderr));
    ensure!(value(&outputs, "exit-code").as_deref() == Some("3"), "exit code 3 is an output: {outputs}");
    ensure!(value(&outputs, "patch").as_deref() == Some(""), "nothing changed: {outputs}");
    ensure!(!repository.join("injected").exists(), "a prompt is never run");

    let (out, outputs) = run("edit,write", "Change it.")?;
    ensure!(out.status.success(), "the action failed: {}", String::from_utf8_lossy(&out.stderr));
    let comment = value(&outputs, "comment").context("a comment")?;
    ensure!(comment.contains("Two files changed.\nDone."), "the comment is the answer: {comment:?}");
    let patch = value(&outputs, "patch").context("a patch")?;
    ensure!(!patch.contains("earlier.txt"), "the patch is of the run alone: {patch}");
    ensure!(git(&["ls-files", "--stage"])? == index, "the job's index was changed");
    let clone = dir.join("clone");
    output(Command::new("git").args(["clone", "--quiet"]).arg(&repository).arg(&clone))?;
    write(&dir.join("output.patch"), patch)?;
    output(Command::new("git").current_dir(&clone).arg("apply").arg(dir.join("output.patch")))?;
    for (name, content) in [("new.txt", "new\n"), ("old.txt", "changed\n")] {
        ensure!(std::fs::read_to_string(clone.join(name))? == content, "the patch does not bring {name}");
    }
    println!("the action's script has passed");
    Ok(())
}

/// An output, as GitHub reads the file.
fn value(outputs: &str, name: &str) -> Option<String> {
    let mut lines = outputs.lines();
    while let Some(line) = lines.next() {
        if let Some(value) = line.strip_prefix(&format!("{name}=")) {
            return Some(value.to_owned());
        }
        if let Some(end) = line.strip_prefix(&format!("{name}<<")) {
            let value: Vec<&str> = lines.take_while(|line| *line != end).collect();
            return Some(value.join("\n"));
        }
    }
    None
}
