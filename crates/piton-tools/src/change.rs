//! What `write` and `edit` have in common: which file is meant and how it is now, whether the model may change it, and
//! the change itself, exactly once.
//!
//! Before a change an intent is written to the session's folder: the hash of the file as it was and as it is to be.
//! After a crash the file's own hash tells whether the change happened.

use crate::atomic;
use crate::diff::{Diff, diff, unified};
use crate::ledger::{Seen, hash_of};
use crate::limits::TRACKED_BYTES;
use crate::paths;
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use piton_core::question::Block;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The file that is to change.
#[derive(Debug)]
pub(crate) struct Target {
    /// Through all links.
    pub(crate) path: PathBuf,
    /// For people.
    pub(crate) shown: String,
    /// As it is.
    pub(crate) now: Now,
}

/// A file as it is.
#[derive(Debug)]
pub(crate) enum Now {
    Absent,
    File { content: Vec<u8>, hash: String },
}

/// A change that was made.
pub(crate) struct Changed {
    pub(crate) diff: Diff,
    pub(crate) metadata: Value,
}

/// What is about to happen to a file.
#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    path: PathBuf,
    before: Option<String>,
    after: String,
}

impl Now {
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
pub(crate) fn target(tool: &str, raw: &str, workspace: &Path) -> Result<Target, Outcome> {
    let path = paths::resolve(tool, raw, workspace)?;
    let failed = |error: io::Error| Outcome::failed(format!("{tool}: {}: {error}", paths::shown(&path, workspace)));
    let real = paths::real(&path).map_err(failed)?;
    let shown = paths::shown(&real, workspace);
    let now = match fs::metadata(&real) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Now::Absent,
        Err(error) => return Err(failed(error)),
        Ok(meta) if meta.is_dir() => return Err(Outcome::failed(format!("{tool}: {shown} is a directory"))),
        Ok(meta) if !meta.is_file() => {
            return Err(Outcome::failed(format!("{tool}: {shown} is not a regular file (a device, pipe or socket)")));
        }
        Ok(meta) if meta.len() > TRACKED_BYTES => {
            let text = format!("{tool}: {shown} is larger than {} MiB; change it with a command", TRACKED_BYTES >> 20);
            return Err(Outcome::failed(text));
        }
        Ok(_) => read_now(&real).map_err(failed)?,
    };
    Ok(Target { path: real, shown, now })
}

fn read_now(path: &Path) -> io::Result<Now> {
    let mut content = Vec::new();
    File::open(path)?.take(TRACKED_BYTES + 1).read_to_end(&mut content)?;
    let hash = hash_of(&content);
    Ok(Now::File { content, hash })
}

/// Refuses to change what the model has not seen as it is now.
pub(crate) fn check_seen(tool: &str, target: &Target, cx: &ToolContext) -> Result<(), Outcome> {
    let Now::File { content, hash } = &target.now else { return Ok(()) };
    let shown = &target.shown;
    let refused = match cx.files.compare(&target.path, hash) {
        Seen::AsItIs => return Ok(()),
        Seen::Never => {
            format!("{tool}: {shown} exists and was not read in this session. Read it first, then {tool} again.")
        }
        Seen::Changed { before: None } => {
            format!("{tool}: {shown} was changed since you read it. Read it again, then {tool} again.")
        }
        Seen::Changed { before: Some(before) } => {
            let diff = diff(&before, content);
            // Now it knows, unless not all of it was shown.
            let next = match diff.is_cut {
                true => "Read it again, then",
                false => {
                    cx.files.note(&target.path, hash, Some(content));
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
pub(crate) fn preview(target: &Target, content: &[u8]) -> Block {
    Block::Diff { path: target.shown.clone(), unified: unified(target.now.content(), content) }
}

/// Makes the change.
pub(crate) fn apply(tool: &str, target: &Target, content: &[u8], cx: &ToolContext) -> Result<Changed, Outcome> {
    let after = hash_of(content);
    let before = target.now.hash().map(ToOwned::to_owned);
    let intent = Intent { path: target.path.clone(), before, after };
    let made = || -> io::Result<()> {
        if let Some(folder) = target.path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_intent(&intent, cx)?;
        atomic::replace(&target.path, content, &key(cx))
    };
    made().map_err(|error| Outcome::failed(format!("{tool}: {} could not be written: {error}", target.shown)))?;
    cx.files.note(&target.path, &intent.after, Some(content));
    let diff = diff(target.now.content(), content);
    let mut metadata = facts(&intent);
    metadata["added"] = json!(diff.added);
    metadata["removed"] = json!(diff.removed);
    Ok(Changed { diff, metadata })
}

/// What came of a change that had begun before a crash; `None` if it did not happen, so that it is to be made now.
pub(crate) fn settled(tool: &str, cx: &ToolContext) -> Option<Outcome> {
    // An intent that is missing or cut short was never durable, and the change comes after that.
    let intent: Intent = serde_json::from_slice(&fs::read(intent_path(cx)).ok()?).ok()?;
    let shown = paths::shown(&intent.path, &cx.workspace);
    let now = match fs::metadata(&intent.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Now::Absent),
        Ok(meta) if meta.is_file() => read_now(&intent.path),
        Ok(_) => Err(io::Error::other("it is no regular file any more")),
        Err(error) => Err(error),
    };
    // What an attempt left is in nobody's interest; if it stays, the change itself is none the worse.
    let _ = atomic::clear(&intent.path, &key(cx));
    let now = match now {
        Ok(now) => now,
        Err(error) => {
            return Some(Outcome::failed(format!("{tool}: whether {shown} was written cannot be told: {error}")));
        }
    };
    if now.hash() == Some(&intent.after) {
        cx.files.note(&intent.path, &intent.after, Some(now.content()));
        let text = format!("{tool}: already applied before the interruption: {shown} is as intended.");
        return Some(Outcome::ok(text).titled(format!("{tool} {shown} (already applied)")).with(facts(&intent)));
    }
    if now.hash() == intent.before.as_deref() {
        return None;
    }
    let text = format!(
        "{tool}: conflict after an interruption: {shown} is neither as it was before the change (hash {}) nor as it was to \
         be (hash {}); it now has hash {}. Nothing was written now. Read it again before you change it.",
        intent.before.as_deref().unwrap_or("none: no file"),
        intent.after,
        now.hash().unwrap_or("none: no file"),
    );
    Some(Outcome::failed(text).titled(format!("{tool} {shown} (conflict)")))
}

fn facts(intent: &Intent) -> Value {
    json!({"path": intent.path, "before": intent.before, "after": intent.after, "hash": intent.after})
}

fn write_intent(intent: &Intent, cx: &ToolContext) -> io::Result<()> {
    fs::create_dir_all(&cx.calls_dir)?;
    let mut file = File::create(intent_path(cx))?;
    file.write_all(&serde_json::to_vec(intent)?)?;
    file.sync_all()?;
    File::open(&cx.calls_dir)?.sync_all()
}

fn intent_path(cx: &ToolContext) -> PathBuf {
    cx.calls_dir.join(format!("{}.intent", cx.call))
}

/// Names this call among all sessions: call ids alone repeat.
fn key(cx: &ToolContext) -> String {
    let mut key = hash_of(intent_path(cx).as_os_str().as_encoded_bytes());
    key.truncate(12);
    key
}
