//! What `write`, `edit` and `apply_patch` share: resolve the file, check that the model has read its current content, and
//! change it exactly once. [`apply_all`] is the one way in which tools change files. What became of changes that a crash cut
//! off is found out in [`settle`]; what runs on changed files, in [`after`].

mod after;
mod settle;

use crate::diff::{Diff, diff, unified};
use crate::files::{Files, Found, Replacement, Stamp};
use crate::ledger::{FileState, hash_of};
use crate::limits::TRACKED_BYTES;
use crate::paths;
use crate::read::{is_binary, is_utf16};
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use piton_core::question::QuestionBlock;
use piton_core::secrets::{Firewall, NotRestored, View};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub(crate) use after::after_edit;
pub(crate) use settle::{Settled, settled};

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
    /// By what it is taken for unchanged since it was read.
    stamp: Option<Stamp>,
    /// Its rights, where there is one.
    pub(crate) rights: Option<u32>,
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

/// A change that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct Change<'c> {
    pub(crate) target: &'c EditTarget,
    /// `None`: the file is removed.
    pub(crate) content: Option<&'c [u8]>,
    /// The rights of the file that moves here.
    pub(crate) rights: Option<u32>,
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
    let (stamp, rights) = (files.stamp(&real), files.rights(&real));
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
        Some(Found::File { bytes }) => read_now(&real, bytes, files).map_err(failed)?,
    };
    let mut secrets = firewall.view(now.content());
    if let CurrentFile::File { content, raw, .. } = &mut now
        && secrets.has_secrets()
    {
        *raw = Some(std::mem::replace(content, std::mem::take(&mut secrets.content)));
    }
    Ok(EditTarget { path: real, shown, now, secrets, stamp, rights })
}

/// `bytes`: as many as it had a moment ago.
fn read_now(path: &Path, bytes: u64, files: &dyn Files) -> io::Result<CurrentFile> {
    // One more, so that its end is seen without more room.
    let mut content = Vec::with_capacity(usize::try_from(bytes.min(TRACKED_BYTES) + 1).unwrap_or_default());
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
        // To read it would not help.
        FileState::Never if is_binary(content) => {
            let kind = if is_utf16(content) {
                "UTF-16 text; convert it first (iconv -f UTF-16 -t UTF-8)"
            } else {
                "a binary file"
            };
            format!("{tool}: {shown} is {kind}. Change it with a command.")
        }
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

/// Refuses to remove what somebody has changed since the model saw it; what it never saw may go.
pub(crate) fn check_unchanged(tool: &str, target: &EditTarget, cx: &ToolContext) -> Result<(), Outcome> {
    match &target.now {
        CurrentFile::File { hash, .. } if cx.ledger.compare(&target.path, hash) != FileState::Never => {
            check_seen(tool, target, cx)
        }
        CurrentFile::File { .. } | CurrentFile::Absent => Ok(()),
    }
}

/// The change that would be made, for a person to judge.
pub(crate) fn preview(target: &EditTarget, content: &[u8]) -> QuestionBlock {
    QuestionBlock::Diff { path: target.shown.clone(), unified: unified(target.now.content(), content) }
}

/// Makes a change.
pub(crate) fn apply(tool: &str, target: &EditTarget, content: &[u8], cx: &ToolContext) -> Result<Changed, Outcome> {
    let mut made = apply_all(tool, &[Change { target, content: Some(content), rights: None }], &[], cx)?;
    made.pop().ok_or_else(|| Outcome::failed(format!("{tool}: nothing was to be changed")))
}

/// Makes changes in their order, all of them or none: what was made is taken back if another cannot be made. Every change
/// that a tool makes of files goes through here. `done`: what of this call was made in a process that is gone.
pub(crate) fn apply_all(
    tool: &str,
    changes: &[Change<'_>],
    done: &[Replacement],
    cx: &ToolContext,
) -> Result<Vec<Changed>, Outcome> {
    let failed = |change: &Change<'_>, error: &io::Error, rest: &str| {
        let what = if change.content.is_some() { "written" } else { "removed" };
        Outcome::failed(format!("{tool}: {} could not be {what}: {error}{rest}", change.target.shown))
    };
    let contents = changes.iter().map(|change| change.on_disk(tool)).collect::<Result<Vec<_>, _>>()?;
    let contents: Vec<Option<&[u8]>> = contents.iter().map(Option::as_deref).collect();
    let both = || changes.iter().zip(&contents);
    let replacements: Vec<Replacement> = both().map(|(change, content)| change.replacement(*content)).collect();
    let others: Vec<u64> = changes.iter().map(|change| cx.files.other_names(&change.target.path)).collect();
    if let Some(Change { target, .. }) = changes.iter().find(|change| !change.target.is_as_it_was(&*cx.files)) {
        let text = format!("{tool}: {} has changed just now. Nothing was written: read it again.", target.shown);
        return Err(Outcome::failed(text));
    }
    if let Some(first) = changes.first() {
        cx.files.begin(&cx.call, &[done, &replacements].concat()).map_err(|error| failed(first, &error, ""))?;
    }
    for (number, ((change, content), replacement)) in both().zip(&replacements).enumerate() {
        if let Err(error) = cx.files.put(&cx.call, replacement, *content) {
            // The one that failed may have happened all the same.
            let rest = take_back(&changes[..=number], &replacements[..=number], cx);
            return Err(failed(change, &error, &rest));
        }
    }
    let made = both().zip(&replacements).zip(others);
    Ok(made.map(|(((change, content), made), others)| change.made(made, *content, others, cx)).collect())
}

/// Takes back what was made, the last first, but for what somebody else has changed since. What is to be said of it.
fn take_back(changes: &[Change<'_>], made: &[Replacement], cx: &ToolContext) -> String {
    let (mut is_back, mut left, mut changed) = (false, Vec::new(), Vec::new());
    for (change, made) in changes.iter().zip(made).rev() {
        let Replacement { path, before, after, rights: _ } = made.clone();
        let shown = change.target.shown.as_str();
        match hash_now(&path, &*cx.files) {
            // It never happened.
            Ok(now) if now == before => continue,
            Ok(now) if now == after => {}
            Ok(_) => {
                changed.push(shown);
                continue;
            }
            Err(_) => {
                left.push(shown);
                continue;
            }
        }
        let back = Replacement { path, before: after, after: before, rights: change.target.rights };
        let content = matches!(change.target.now, CurrentFile::File { .. }).then(|| change.target.now.raw());
        match cx.files.put(&cx.call, &back, content) {
            Ok(()) => is_back = true,
            Err(_) => left.push(shown),
        }
    }
    let left = (!left.is_empty()).then(|| format!("not {}: look at it", left.join(", ")));
    let changed = (!changed.is_empty())
        .then(|| format!("not {}, which somebody else has changed meanwhile and which stays so", changed.join(", ")));
    let but: Vec<String> = left.into_iter().chain(changed).collect();
    match (is_back, but.is_empty()) {
        (false, true) => String::new(),
        (true, true) => ". What was already changed was taken back: all files are as they were.".to_owned(),
        (_, false) => format!(". What was already changed was taken back, but {}.", but.join("; ")),
    }
}

/// A file as a program has left it.
pub(crate) struct Content {
    pub(crate) raw: Vec<u8>,
    /// Without its secrets.
    pub(crate) seen: Vec<u8>,
    pub(crate) hash: String,
}

/// What is in a file now, which must be one of a reasonable size.
pub(crate) fn content_now(path: &Path, cx: &ToolContext) -> io::Result<Content> {
    let raw = match cx.files.look(path)? {
        Some(Found::File { bytes }) if bytes <= TRACKED_BYTES => match read_now(path, bytes, &*cx.files)? {
            CurrentFile::File { content, .. } => content,
            CurrentFile::Absent => Vec::new(),
        },
        _ => return Err(io::Error::other("it is no regular file of a reasonable size any more")),
    };
    let view = cx.firewall.view(&raw);
    let seen = if view.has_secrets() { view.content } else { raw.clone() };
    Ok(Content { hash: hash_of(&raw), raw, seen })
}

/// The hash of what is at a path; `None`: there is nothing.
fn hash_now(path: &Path, files: &dyn Files) -> io::Result<Option<String>> {
    match files.look(path)? {
        None => Ok(None),
        Some(Found::File { .. }) => {
            let mut content = Vec::new();
            files.open(path)?.take(TRACKED_BYTES + 1).read_to_end(&mut content)?;
            Ok(Some(hash_of(&content)))
        }
        Some(Found::Folder | Found::Other) => Err(io::Error::other("it is no regular file any more")),
    }
}

impl EditTarget {
    /// Whether nothing shows that the file was changed since it was read here.
    fn is_as_it_was(&self, files: &dyn Files) -> bool {
        match (&self.now, self.stamp) {
            (CurrentFile::Absent, _) => matches!(files.look(&self.path), Ok(None)),
            (CurrentFile::File { .. }, Some(stamp)) => files.stamp(&self.path) == Some(stamp),
            (CurrentFile::File { .. }, None) => true,
        }
    }
}

impl Change<'_> {
    /// What goes to the disk: with the secrets that the file has.
    fn on_disk(&self, tool: &str) -> Result<Option<Cow<'_, [u8]>>, Outcome> {
        self.content.map(|content| self.target.with_secrets(tool, content)).transpose()
    }

    fn replacement(&self, content: Option<&[u8]>) -> Replacement {
        let EditTarget { path, now, .. } = self.target;
        let (before, after) = (now.hash().map(ToOwned::to_owned), content.map(hash_of));
        Replacement { path: path.clone(), before, after, rights: self.rights.filter(|_| content.is_some()) }
    }

    /// Remembers what the model now knows, and says what was done.
    fn made(&self, made: &Replacement, content: Option<&[u8]>, others: u64, cx: &ToolContext) -> Changed {
        note(made, content.unwrap_or_default(), cx);
        let diff = diff(self.target.now.content(), self.content.unwrap_or_default());
        let mut metadata = facts(made);
        metadata["added"] = json!(diff.added);
        metadata["removed"] = json!(diff.removed);
        let note = match others {
            0 => String::new(),
            1 => "(The file has another name, a hard link: that still has the old content.)\n".to_owned(),
            _ => format!("(The file has {others} other names, hard links: they still have the old content.)\n"),
        };
        Changed { diff, note, metadata }
    }
}

/// The model knows what a file has become by this.
fn note(made: &Replacement, content: &[u8], cx: &ToolContext) {
    match &made.after {
        Some(hash) => cx.ledger.note(&made.path, hash, Some(content)),
        None => cx.ledger.removed(&made.path),
    }
}

/// What programs are told of a change.
pub(crate) fn facts(change: &Replacement) -> Value {
    json!({"path": change.path, "before": change.before, "after": change.after, "hash": change.after})
}
