//! What runs on the files of a change when it is made: formatters and diagnostics.
//!
//! They run code that the model wrote, and configuration that comes with the repository, so they are held to what the model's commands
//! are held to. What a formatter made of a file, and what diagnostics say, is told with the outcome of the change. A formatter that
//! fails is no failure of the change: that is made.

use super::content_now;
use crate::after_edit::{AfterEdit, Does};
use crate::diff::diff;
use crate::spawn::{Keep, Spawn, moved_away};
use crate::tool::{ToolContext, tell_moved};
use piton_core::call::{Outcome, Status};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one of them may take.
const MOST_TIME: Duration = Duration::from_secs(30);
/// Files of one change that they run on. A patch of more is no work of a person's.
const MOST_FILES: usize = 20;
/// Characters of what one says that the model reads.
const MOST_CHARS: usize = 4_000;

/// Runs what is to run on the files of a change, and adds to its outcome what came of that.
pub(crate) async fn after_edit(mut outcome: Outcome, cx: &ToolContext) -> Outcome {
    if outcome.status != Status::Ok || cx.after_edits.is_empty() {
        return outcome;
    }
    for path in changed(&outcome).into_iter().take(MOST_FILES) {
        // Diagnostics are of the file as it stays.
        for does in [Does::Format, Does::Diagnose] {
            let meant = |rule: &&AfterEdit| rule.does == does && rule.is_for(&path, &cx.workspace);
            for rule in cx.after_edits.iter().filter(meant) {
                let said = match does {
                    Does::Format => format(rule, &path, &mut outcome, cx).await,
                    Does::Diagnose => diagnose(rule, &path, &mut outcome, cx).await,
                };
                if let Some(said) = said {
                    outcome.text = format!("{}\n{said}", outcome.text.trim_end());
                }
            }
        }
    }
    outcome
}

/// What a formatter made of a file; `None`: nothing.
async fn format(rule: &AfterEdit, path: &Path, outcome: &mut Outcome, cx: &ToolContext) -> Option<String> {
    let before = content_now(path, cx).ok()?;
    let ran = run(rule, path, outcome, cx).await;
    // It may have changed the file and failed.
    let after = content_now(path, cx).ok()?;
    let failed = match ran {
        Ok((true, _)) => String::new(),
        Ok((false, said)) => format!("The formatter {} failed:\n{said}\n", rule.name()),
        Err(error) => format!("The formatter {} did not run to its end: {error}\n", rule.name()),
    };
    if after.hash == before.hash {
        return Some(failed).filter(|failed| !failed.is_empty());
    }
    cx.ledger.note(path, &after.hash, Some(&after.raw));
    set_hash(&mut outcome.metadata, path, &after.hash);
    let diff = diff(&before.seen, &after.seen);
    Some(format!("{failed}The formatter {} has changed the file further:\n{}", rule.name(), diff.text))
}

/// What diagnostics say of a file; `None`: nothing.
async fn diagnose(rule: &AfterEdit, path: &Path, outcome: &mut Outcome, cx: &ToolContext) -> Option<String> {
    match run(rule, path, outcome, cx).await {
        Ok((_, said)) if said.is_empty() => None,
        Ok((_, said)) => Some(format!("{} says of it now:\n{said}", rule.name())),
        Err(error) => Some(format!("{} did not run to its end: {error}", rule.name())),
    }
}

/// The files that a change has made or changed.
fn changed(outcome: &Outcome) -> Vec<PathBuf> {
    let is_made = |facts: &&Value| facts.get("after").is_some_and(Value::is_string);
    let path = |facts: &Value| facts.get("path").and_then(Value::as_str).map(PathBuf::from);
    facts(&outcome.metadata).into_iter().filter(is_made).filter_map(path).collect()
}

fn facts(metadata: &Value) -> Vec<&Value> {
    match metadata.get("files").and_then(Value::as_array) {
        Some(files) => files.iter().collect(),
        None => vec![metadata],
    }
}

/// What programs are told that the file is now.
fn set_hash(metadata: &mut Value, path: &Path, hash: &str) {
    let set = |facts: &mut Value| {
        if facts["path"].as_str().is_some_and(|of| Path::new(of) == path) {
            for key in ["after", "hash"] {
                facts[key] = hash.into();
            }
        }
    };
    match metadata.get_mut("files").and_then(Value::as_array_mut) {
        Some(files) => files.iter_mut().for_each(set),
        None => set(metadata),
    }
}

/// Runs one on a file. Answers whether it succeeded, and what it said. What its sandbox moved away is told with the outcome.
async fn run(rule: &AfterEdit, path: &Path, outcome: &mut Outcome, cx: &ToolContext) -> io::Result<(bool, String)> {
    let spawn = Spawn::shell(&rule.script(path), &cx.env, &cx.workspace, cx.confinement.clone());
    let mut running = spawn.run(None, Keep::First)?;
    let ended = tokio::select! {
        ended = running.wait() => ended?.success(),
        () = cx.cancel.cancelled() => return Err(io::Error::other("it was cancelled")),
        () = tokio::time::sleep(MOST_TIME) => {
            return Err(io::Error::other(format!("it was ended after {} s", MOST_TIME.as_secs())));
        }
    };
    let (said, mut complained) = running.output().await;
    tell_moved(outcome, moved_away(&mut complained));
    let said = [said.trim(), complained.trim()].join("\n");
    Ok((ended, said.trim().chars().take(MOST_CHARS).collect()))
}
