//! What `write` and `edit` share: resolve the file, check that the model has read its current content, and change it
//! exactly once. After a crash the hash of the file tells whether the change happened.

use crate::diff::{Diff, diff, unified};
use crate::files::{Files, Found, Replacement};
use crate::ledger::{FileState, hash_of};
use crate::limits::TRACKED_BYTES;
use crate::paths;
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use piton_core::question::QuestionBlock;
use serde_json::{Value, json};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file that is to change.
#[derive(Debug)]
pub(crate) struct EditTarget {
    /// Through all links.
    pub(crate) path: PathBuf,
    /// For people.
    pub(crate) shown: String,
    /// As it is.
    pub(crate) now: CurrentFile,
}

/// A file as it is.
#[derive(Debug)]
pub(crate) enum CurrentFile {
    Absent,
    File { content: Vec<u8>, hash: String },
}

/// A change that was made.
pub(crate) struct Changed {
    pub(crate) diff: Diff,
    /// What else there is to tell the model, as whole lines.
    pub(crate) note: String,
    pub(crate) metadata: Value,
}

impl CurrentFile {
    pub(crate) fn content(&self) -> &[u8] {
        match self {
            Self::Absent => &[],
            Self::File { content, .. } => content,
        }
    }

    fn hash(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::File { hash, .. } => Some(hash),
        }
    }
}

/// Finds the file a model means. Refuses what is not a plain file of a reasonable size.
pub(crate) fn target(tool: &str, raw: &str, workspace: &Path, files: &dyn Files) -> Result<EditTarget, Outcome> {
    let path = paths::resolve(tool, raw, workspace)?;
    let failed = |error: io::Error| Outcome::failed(format!("{tool}: {}: {error}", paths::shown(&path, workspace)));
    let real = files.real(&path).map_err(failed)?;
    let shown = paths::shown(&real, workspace);
    let now = match files.look(&real).map_err(failed)? {
        None => CurrentFile::Absent,
        Some(Found::Folder) => return Err(Outcome::failed(format!("{tool}: {shown} is a directory"))),
        Some(Found::Other) => {
            return Err(Outcome::failed(format!("{tool}: {shown} is not a regular file (a device, pipe or socket)")));
        }
        Some(Found::File { bytes }) if bytes > TRACKED_BYTES => {
            let text = format!("{tool}: {shown} is larger than {} MiB; change it with a command", TRACKED_BYTES >> 20);
            return Err(Outcome::failed(text));
        }
        Some(Found::File { .. }) => read_now(&real, files).map_err(failed)?,
    };
    Ok(EditTarget { path: real, shown, now })
}

fn read_now(path: &Path, files: &dyn Files) -> io::Result<CurrentFile> {
    let mut content = Vec::new();
    files.open(path)?.take(TRACKED_BYTES + 1).read_to_end(&mut content)?;
    let hash = hash_of(&content);
    Ok(CurrentFile::File { content, hash })
}

/// Refuses to change what the model has not seen as it is now.
pub(crate) fn check_seen(tool: &str, target: &EditTarget, cx: &ToolContext) -> Result<(), Outcome> {
    let CurrentFile::File { content, hash } = &target.now else { return Ok(()) };
    let shown = &target.shown;
    let refused = match cx.ledger.compare(&target.path, hash) {
        FileState::AsItIs => return Ok(()),
        FileState::Never => {
            format!("{tool}: {shown} exists and was not read in this session. Read it first, then {tool} again.")
        }
        FileState::Changed { before: None } => {
            format!("{tool}: {shown} was changed since you read it. Read it again, then {tool} again.")
        }
        FileState::Changed { before: Some(before) } => {
            let diff = diff(&before, content);
            // Now it knows, unless not all of it was shown.
            let next = match diff.is_cut {
                true => "Read it again, then",
                false => {
                    cx.ledger.note(&target.path, hash, Some(content));
                    "Take this into account, then"
                }
            };
            format!(
                "{tool}: {shown} was changed since you read it:\n{}{next} {tool} again. Nothing was written.",
                diff.text
            )
        }
    };
    Err(Outcome::failed(refused))
}

/// The change that would be made, for a person to judge.
pub(crate) fn preview(target: &EditTarget, content: &[u8]) -> QuestionBlock {
    QuestionBlock::Diff { path: target.shown.clone(), unified: unified(target.now.content(), content) }
}

/// Makes the change.
pub(crate) fn apply(tool: &str, target: &EditTarget, content: &[u8], cx: &ToolContext) -> Result<Changed, Outcome> {
    let after = hash_of(content);
    let before = target.now.hash().map(ToOwned::to_owned);
    let change = Replacement { path: target.path.clone(), before, after };
    let others = cx.files.other_names(&target.path);
    cx.files
        .replace(&cx.call, &change, content)
        .map_err(|error| Outcome::failed(format!("{tool}: {} could not be written: {error}", target.shown)))?;
    cx.ledger.note(&target.path, &change.after, Some(content));
    let diff = diff(target.now.content(), content);
    let mut metadata = facts(&change);
    metadata["added"] = json!(diff.added);
    metadata["removed"] = json!(diff.removed);
    let note = match others {
        0 => String::new(),
        1 => "(The file has another name, a hard link: that still has the old content.)\n".to_owned(),
        _ => format!("(The file has {others} other names, hard links: they still have the old content.)\n"),
    };
    Ok(Changed { diff, note, metadata })
}

/// What came of a change that had begun before a crash; `None` if it did not happen, so that it is to be made now.
pub(crate) fn settled(tool: &str, cx: &ToolContext) -> Option<Outcome> {
    let change = cx.files.begun(&cx.call)?;
    let shown = paths::shown(&change.path, &cx.workspace);
    let now = match cx.files.look(&change.path) {
        Ok(None) => Ok(CurrentFile::Absent),
        Ok(Some(Found::File { .. })) => read_now(&change.path, &*cx.files),
        Ok(Some(Found::Folder | Found::Other)) => Err(io::Error::other("it is no regular file any more")),
        Err(error) => Err(error),
    };
    let now = match now {
        Ok(now) => now,
        Err(error) => {
            return Some(Outcome::failed(format!("{tool}: whether {shown} was written cannot be told: {error}")));
        }
    };
    if now.hash() == Some(&change.after) {
        cx.ledger.note(&change.path, &change.after, Some(now.content()));
        let text = format!("{tool}: already applied before the interruption: {shown} is as intended.");
        return Some(Outcome::ok(text).titled(format!("{tool} {shown} (already applied)")).with(facts(&change)));
    }
    if now.hash() == change.before.as_deref() {
        return None;
    }
    let text = format!(
        "{tool}: conflict after an interruption: {shown} is neither as it was before the change (hash {}) nor as it was to \
         be (hash {}); it now has hash {}. Nothing was written now. Read it again before you change it.",
        change.before.as_deref().unwrap_or("none: no file"),
        change.after,
        now.hash().unwrap_or("none: no file"),
    );
    Some(Outcome::failed(text).titled(format!("{tool} {shown} (conflict)")))
}

fn facts(change: &Replacement) -> Value {
    json!({"path": change.path, "before": change.before, "after": change.after, "hash": change.after})
}
