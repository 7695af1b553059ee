//! What came of the changes that a call had begun before a crash: the hashes of the files tell.

use super::{CurrentFile, facts, note, read_now};
use crate::files::{Found, Replacement};
use crate::paths;
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use serde_json::{Value, json};
use std::io;

/// What came of them.
pub(crate) enum Settled {
    /// They were not begun, or none was made: they are to be made now.
    Open,
    /// Some were made.
    Half {
        /// These.
        done: Vec<Replacement>,
        /// Not these.
        open: Vec<Replacement>,
    },
    /// It is known what the call came to.
    Outcome(Outcome),
}

/// Looks at the files that a call had begun to change.
pub(crate) fn settled(tool: &str, cx: &ToolContext) -> Settled {
    let (mut done, mut open) = (Vec::new(), Vec::new());
    for change in cx.files.begun(&cx.call) {
        let shown = paths::shown(&change.path, &cx.workspace);
        let now = match now(&change, cx) {
            Ok(now) => now,
            Err(error) => {
                let text = format!("{tool}: whether {shown} was written cannot be told: {error}");
                return Settled::Outcome(Outcome::failed(text));
            }
        };
        if now.hash() == change.after.as_deref() {
            note(&change, now.content(), cx);
            done.push(change);
        } else if now.hash() == change.before.as_deref() {
            open.push(change);
        } else {
            return Settled::Outcome(conflict(tool, &change, &shown, &now));
        }
    }
    match (done.is_empty(), open.is_empty()) {
        (true, _) => Settled::Open,
        (false, true) => Settled::Outcome(already(tool, &done, cx)),
        (false, false) => Settled::Half { done, open },
    }
}

fn now(change: &Replacement, cx: &ToolContext) -> io::Result<CurrentFile> {
    match cx.files.look(&change.path)? {
        None => Ok(CurrentFile::Absent),
        Some(Found::File { bytes }) => read_now(&change.path, bytes, &*cx.files),
        Some(Found::Folder | Found::Other) => Err(io::Error::other("it is no regular file any more")),
    }
}

fn already(tool: &str, done: &[Replacement], cx: &ToolContext) -> Outcome {
    let names: Vec<String> = done.iter().map(|change| paths::shown(&change.path, &cx.workspace)).collect();
    let (names, verb) = (names.join(", "), if done.len() == 1 { "is" } else { "are" });
    let text = format!("{tool}: already applied before the interruption: {names} {verb} as intended.");
    Outcome::ok(text).titled(format!("{tool} {names} (already applied)")).with(all_facts(done))
}

/// The facts of one change, or of several.
fn all_facts(changes: &[Replacement]) -> Value {
    match changes {
        [change] => facts(change),
        changes => json!({"files": changes.iter().map(facts).collect::<Vec<_>>()}),
    }
}

fn conflict(tool: &str, change: &Replacement, shown: &str, now: &CurrentFile) -> Outcome {
    let hash = |hash: Option<&str>| hash.unwrap_or("none: no file").to_owned();
    let text = format!(
        "{tool}: conflict after an interruption: {shown} is neither as it was before the change (hash {}) nor as it was to \
         be (hash {}); it now has hash {}. Nothing was written now. Read it again before you change it.",
        hash(change.before.as_deref()),
        hash(change.after.as_deref()),
        hash(now.hash()),
    );
    Outcome::failed(text).titled(format!("{tool} {shown} (conflict)"))
}
