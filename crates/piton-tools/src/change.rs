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
use piton_core::secrets::{Firewall, NotRestored, View};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file that is to change.
#[derive(Debug)]
pub(crate) struct EditTarget {
    /// Through all links.
    pub(crate) path: PathBuf,
    /// For people.
    pub(crate) shown: String,
    /// As it is, without its secrets: as the model sees it, and all that is compared with what the model writes. So no edit
    /// tells whether a guess is a piece of a secret.
    pub(crate) now: CurrentFile,
    /// What its placeholders stand for.
    secrets: View,
}

/// A file as it is.
#[derive(Debug)]
pub(crate) enum CurrentFile {
    Absent,
    /// `raw` is its content to the byte, where that is another than the one without secrets; `hash` is of that.
    File {
        content: Vec<u8>,
        raw: Option<Vec<u8>>,
        hash: String,
    },
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

    /// What is on the disk.
    pub(crate) fn raw(&self) -> &[u8] {
        match self {
            Self::File { raw: Some(raw), .. } => raw,
            Self::Absent | Self::File { raw: None, .. } => self.content(),
        }
    }

    fn hash(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::File { hash, .. } => Some(hash),
        }
    }
}

impl EditTarget {
    /// A new content as it goes to the disk: with the values of this file's placeholders. Those of other files stand for
    /// nothing here, and one that is cut in two for nothing at all.
    pub(crate) fn with_secrets<'c>(&self, tool: &str, content: &'c [u8]) -> Result<Cow<'c, [u8]>, Outcome> {
        let shown = &self.shown;
        match self.secrets.restored(content) {
            Ok(restored) if restored == content => Ok(Cow::Borrowed(content)),
            Ok(restored) => Ok(Cow::Owned(restored)),
            Err(NotRestored::Foreign(placeholder)) => Err(Outcome::failed(format!(
                "{tool}: {placeholder} stands for a secret that is not in {shown}, and its value is put back only where it was. \
                 Leave it out: have the program read it from its file or its environment, or ask the user to put it there. \
                 Nothing was written."
            ))),
            Err(NotRestored::Cut) => Err(Outcome::failed(format!(
                "{tool}: the change cuts a placeholder of {shown} (‹secret:…›) in two. Replace it whole, or leave it as it is. \
                 Nothing was written."
            ))),
        }
    }

    /// A text of the model's with this file's spelling of its placeholders.
    pub(crate) fn spelled<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.spelled(text)
    }
}

/// Finds the file a model means. Refuses what is not a plain file of a reasonable size.
pub(crate) fn target(
    tool: &str,
    raw: &str,
    workspace: &Path,
    files: &dyn Files,
    firewall: &Firewall,
) -> Result<EditTarget, Outcome> {
    let path = paths::resolve(tool, raw, workspace)?;
    let failed = |error: io::Error| Outcome::failed(format!("{tool}: {}: {error}", paths::shown(&path, workspace)));
    let real = files.real(&path).map_err(failed)?;
    let shown = paths::shown(&real, workspace);
    let mut now = match files.look(&real).map_err(failed)? {
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
    let mut secrets = firewall.view(now.content());
    if let CurrentFile::File { content, raw, .. } = &mut now
        && secrets.has_secrets()
    {
        *raw = Some(std::mem::replace(content, std::mem::take(&mut secrets.content)));
    }
    Ok(EditTarget { path: real, shown, now, secrets })
}

fn read_now(path: &Path, files: &dyn Files) -> io::Result<CurrentFile> {
    let mut content = Vec::new();
    files.open(path)?.take(TRACKED_BYTES + 1).read_to_end(&mut content)?;
    let hash = hash_of(&content);
    Ok(CurrentFile::File { content, raw: None, hash })
}

/// Refuses to change what the model has not seen as it is now.
pub(crate) fn check_seen(tool: &str, target: &EditTarget, cx: &ToolContext) -> Result<(), Outcome> {
    let CurrentFile::File { hash, .. } = &target.now else { return Ok(()) };
    let content = target.now.raw();
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
    let content_on_disk = target.with_secrets(tool, content)?;
    let after = hash_of(&content_on_disk);
    let before = target.now.hash().map(ToOwned::to_owned);
    let change = Replacement { path: target.path.clone(), before, after };
    let others = cx.files.other_names(&target.path);
    cx.files
        .replace(&cx.call, &change, &content_on_disk)
        .map_err(|error| Outcome::failed(format!("{tool}: {} could not be written: {error}", target.shown)))?;
    cx.ledger.note(&target.path, &change.after, Some(&content_on_disk));
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
