//! Changing a file exactly once, and showing what changed. Shared by `write` and `edit`.
//!
//! Before the content is replaced, an intent (`BASE.intent`: path, hash before, hash after) is on disk. A process that
//! finds the intent of a dead one compares it with the file: after means done, before means not done, and anything else
//! is somebody else's work, which is left alone.

use crate::atomic;
use crate::ledger::{Known, hash};
use crate::runner::{file, sync_folder};
use crate::tool::ToolContext;
use piton_core::call::{Outcome, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Lines of a diff that are shown.
const DIFF_LINES: usize = 60;

/// What is about to be done, on disk before it is.
#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    path: PathBuf,
    /// The hash of the content before; `None` where there was no file.
    before: Option<String>,
    /// The hash of the content after.
    after: String,
}

/// What a dead process left of a change.
pub(crate) enum Left {
    /// Nothing was done: do it.
    Nothing,
    /// All was done, or it must not be done: this is the outcome.
    Outcome(Outcome),
}

/// A file as it is now: its real place and content, `None` where there is none. Refuses what is not a plain file.
pub(crate) fn current(path: &Path) -> Result<(PathBuf, Option<Vec<u8>>), Outcome> {
    let refuse = |why: String| Outcome::failed(format!("{}: {why}", path.display()));
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((path.to_path_buf(), None)),
        Err(error) => return Err(refuse(error.to_string())),
    };
    let meta = std::fs::metadata(&real).map_err(|error| refuse(error.to_string()))?;
    if !meta.is_file() {
        return Err(refuse("it is not a regular file".to_owned()));
    }
    let content = std::fs::read(&real).map_err(|error| refuse(error.to_string()))?;
    Ok((real, Some(content)))
}

/// Refuses a file that the model has not read, or that changed since.
pub(crate) fn check_known(context: &ToolContext, path: &Path, content: &[u8]) -> Result<(), Outcome> {
    let shown = context.shown(path);
    match context.files.compare(path, content) {
        Known::Same => Ok(()),
        Known::Unseen => Err(Outcome::failed(format!("{shown} was not changed: read it first, so that you know what is there."))),
        Known::Changed(old) => {
            let diff = match old {
                Some(old) => format!(" What changed:\n{}", diff(&shown, &old, content)),
                None => String::new(),
            };
            Err(Outcome::failed(format!(
                "{shown} was not changed: it is no longer as you last saw it. Read it again, then make your change.{diff}"
            )))
        }
    }
}

/// Puts new content in place, exactly once.
pub(crate) fn apply(context: &ToolContext, path: &Path, before: Option<&[u8]>, after: &[u8]) -> Result<Outcome, Outcome> {
    let shown = context.shown(path);
    let failed = |error: std::io::Error| Outcome::failed(format!("{shown} was not changed: {error}"));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let intent = Intent { path: path.to_path_buf(), before: before.map(hash), after: hash(after) };
    declare(&context.base(), &intent).map_err(failed)?;
    atomic::replace(path, after).map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    let new_hash = context.files.note(&path, after);
    let (added, removed) = count(before.unwrap_or_default(), after);
    Ok(Outcome::ok(String::new()).with(json!({
        "path": path,
        "before": intent.before,
        "after": intent.after,
        "hash": new_hash,
        "added": added,
        "removed": removed,
    })))
}

/// What became of a change whose process died.
pub(crate) fn left_of(context: &ToolContext) -> Left {
    let path = file(&context.base(), "intent");
    let Ok(bytes) = std::fs::read(&path) else { return Left::Nothing };
    let Ok(intent) = serde_json::from_slice::<Intent>(&bytes) else { return Left::Nothing };
    let now = std::fs::read(&intent.path).ok();
    let now_hash = now.as_deref().map(hash);
    let shown = context.shown(&intent.path);
    if now_hash.as_deref() == Some(&intent.after) {
        context.files.note(&intent.path, now.as_deref().unwrap_or_default());
        let text = format!("{shown} was changed as asked, before Piton was stopped; it was not changed again.");
        let metadata = json!({"path": intent.path, "before": intent.before, "after": intent.after, "hash": intent.after});
        return Left::Outcome(Outcome::ok(text).titled(format!("{shown} (before the stop)")).with(metadata));
    }
    if now_hash == intent.before {
        return Left::Nothing;
    }
    let text = format!(
        "[interrupted] Piton was stopped while it changed {shown}, and the file is now neither as it was before \
         ({}) nor as it should have become ({}). Somebody else changed it: read it again.",
        intent.before.as_deref().unwrap_or("no file"),
        intent.after,
    );
    Left::Outcome(Outcome::new(Status::Interrupted, text))
}

/// A short unified diff, cut to what is worth reading.
pub(crate) fn diff(name: &str, before: &[u8], after: &[u8]) -> String {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::from_lines(&*before, &*after);
    let text = diff.unified_diff().context_radius(2).header(name, name).to_string();
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(DIFF_LINES) {
        None | Some(0) => text,
        Some(more) => format!("{}\n[… {more} more lines of diff]\n", lines[..DIFF_LINES].join("\n")),
    }
}

fn count(before: &[u8], after: &[u8]) -> (usize, usize) {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::from_lines(&*before, &*after);
    let of = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (of(ChangeTag::Insert), of(ChangeTag::Delete))
}

fn declare(base: &Path, intent: &Intent) -> std::io::Result<()> {
    let path = file(base, "intent");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut out = std::fs::File::create(&path)?;
    out.write_all(&serde_json::to_vec(intent)?)?;
    out.sync_all()?;
    sync_folder(&path)
}
