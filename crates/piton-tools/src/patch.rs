//! `apply_patch`: changes, makes, moves and removes files by one patch, all of it or nothing.
//!
//! The patch is read ([`parse`]), made in memory ([`stage`]), checked, and only then written. A crash in between leaves
//! some files changed: the files' hashes tell which, and what is missing is made when the session goes on.

mod fit;
mod parse;
mod stage;

use crate::change::{self, Change, CurrentFile, Settled};
use crate::files::Replacement;
use crate::ledger::hash_of;
use crate::paths;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, blocking};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome};
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stage::{Staged, Staging, stage};
use std::path::PathBuf;

pub use fit::{Fitted, How, Told, Unfit, WhyUnfit, fit};
pub use parse::{BadPatch, Chunk, FilePatch, Line, parse};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct ApplyPatch;

/// Its name.
pub const NAME: &str = "apply_patch";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// From *** Begin Patch to *** End Patch
    #[serde(alias = "input", alias = "patchText", alias = "patch_text")]
    patch: String,
}

#[async_trait]
impl TypedTool for ApplyPatch {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Changes files, all or none: *** Update File: PATH (with *** Move to: PATH), *** Add File: PATH, \
         *** Delete File: PATH; @@ and a line above each place, lines with blank, - or +.";
    const EFFECTS: Effects = Effects::WRITE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        let patch = read(&input)?;
        let paths: Vec<&str> = patch.iter().flat_map(|file| [Some(file.path()), file.to()]).flatten().collect();
        let mut accesses: Vec<Access> = Vec::new();
        // Of what a patch changes the model sees lines, and the whole of what it moves.
        let read = patch.iter().filter(|file| matches!(file, FilePatch::Update { .. }));
        let read: Vec<Access> = read.map(|file| look.read(file.path())).collect();
        for access in paths.iter().map(|path| look.write(path)).chain(read) {
            if !accesses.contains(&access) {
                accesses.push(access);
            }
        }
        let names: Vec<String> = patch.iter().map(|file| look.shown(file.path())).collect();
        let title = listed(&names);
        let about = format!("Patch {title}?");
        let look = look.clone();
        let question = QuestionDraft::new(move || (about, preview(&input.patch, &patch, &look)));
        let mut accesses = accesses.into_iter();
        let Some(first) = accesses.next() else { return Err(empty()) };
        Ok(Plan::new(CallKind::Edit, title, first, question).and_all(accesses))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        change::after_edit(blocking(cx, move |cx| patch(&input, cx)).await, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        match change::settled(NAME, cx) {
            Settled::Outcome(outcome) => change::after_edit(outcome, cx).await,
            Settled::Open => self.act(input, cx).await,
            Settled::Half { done, open } => {
                change::after_edit(blocking(cx, move |cx| finish(&input, &done, &open, cx)).await, cx).await
            }
        }
    }
}

/// The files of the patch; at least one.
fn read(input: &Input) -> Result<Vec<FilePatch>, Outcome> {
    let patch = parse(&input.patch).map_err(|BadPatch { line, what }| {
        Outcome::failed(format!("apply_patch: line {line} of the patch: {what} Nothing was written."))
    })?;
    if patch.is_empty() { Err(empty()) } else { Ok(patch) }
}

fn empty() -> Outcome {
    Outcome::failed("apply_patch: the patch changes no file")
}

/// `a, b and 3 more`.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Every file as the patch would change it; where it does not fit, why, and the patch.
fn preview(text: &str, patch: &[FilePatch], look: &Look) -> Vec<QuestionBlock> {
    match stage(NAME, patch, (&look.workspace, &*look.files, &look.firewall), &[]) {
        Ok(staged) => staged.files.iter().flat_map(shown).collect(),
        Err(refused) => {
            let unified = text.lines().map(|line| format!("{line}\n")).collect();
            let path = listed(&patch.iter().map(|file| look.shown(file.path())).collect::<Vec<_>>());
            vec![QuestionBlock::Text { text: refused.text }, QuestionBlock::Diff { path, unified }]
        }
    }
}

fn shown(file: &Staging) -> Vec<QuestionBlock> {
    let name = &file.target.shown;
    let words = match (&file.content, &file.to, &file.from) {
        (None, Some(to), _) => Some(format!("Move {name} to {to}:")),
        (None, None, _) => Some(format!("Delete {name}:")),
        (Some(_), _, Some(from)) => Some(format!("{name}, from {from}:")),
        (Some(_), _, None) => None,
    };
    let diff = change::preview(&file.target, file.content.as_deref().unwrap_or_default());
    words.map(|text| QuestionBlock::Text { text }).into_iter().chain([diff]).collect()
}

fn patch(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let staged = stage(NAME, &read(input)?, (&cx.workspace, &*cx.files, &cx.firewall), &[])?;
    for file in staged.files.iter().filter(|file| file.is_overwritten) {
        change::check_seen(NAME, &file.target, cx)?;
    }
    for file in staged.files.iter().filter(|file| file.is_deleted()) {
        change::check_unchanged(NAME, &file.target, cx)?;
    }
    if staged.files.is_empty() {
        return Ok(Outcome::ok("apply_patch: the files are already as the patch would make them; nothing was written"));
    }
    write(&staged, &[], cx)
}

/// Writes what is staged, of which a part was `done` in a process that is gone.
fn write(Staged { files, told }: &Staged, done: &[Replacement], cx: &ToolContext) -> Result<Outcome, Outcome> {
    let changes: Vec<Change<'_>> = files
        .iter()
        .map(|file| Change { target: &file.target, content: file.content.as_deref(), rights: file.rights })
        .collect();
    let made = change::apply_all(NAME, &changes, done, cx)?;
    let (mut text, mut facts) = (told.clone(), done.iter().map(change::facts).collect::<Vec<_>>());
    for (file, changed) in files.iter().zip(made) {
        let name = &file.target.shown;
        let (what, from) = match (&file.target.now, &file.content) {
            (_, None) => ("deleted", file.to.as_ref().map(|to| format!(" (moved to {to})"))),
            (CurrentFile::Absent, Some(_)) => {
                ("created", file.from.as_ref().map(|from| format!(" (moved from {from})")))
            }
            (CurrentFile::File { .. }, Some(_)) => ("edited", None),
        };
        let size = format!("+{} −{}", changed.diff.added, changed.diff.removed);
        text.push_str(&format!("{what} {name}{} ({size})\n{}", from.unwrap_or_default(), changed.note));
        // What a file held that goes is known to whoever removes it.
        if file.content.is_some() {
            text.push_str(&changed.diff.text);
        }
        facts.push(changed.metadata);
    }
    let names: Vec<String> = files.iter().map(|file| file.target.shown.clone()).collect();
    let sum = |key: &str| facts.iter().filter_map(|fact| fact[key].as_u64()).sum::<u64>();
    let title = format!("patch {} (+{} −{})", listed(&names), sum("added"), sum("removed"));
    let facts = match facts.len() {
        1 => facts.pop().unwrap_or(Value::Null),
        _ => json!({"files": facts}),
    };
    Ok(Outcome::ok(text.trim_end()).titled(title).with(facts))
}

/// Makes what a crash left open.
fn finish(input: &Input, done: &[Replacement], open: &[Replacement], cx: &ToolContext) -> Result<Outcome, Outcome> {
    let names = |changes: &[Replacement]| {
        changes.iter().map(|change| paths::shown(&change.path, &cx.workspace)).collect::<Vec<_>>().join(", ")
    };
    let paths: Vec<PathBuf> = done.iter().map(|change| change.path.clone()).collect();
    let mut staged = stage(NAME, &read(input)?, (&cx.workspace, &*cx.files, &cx.firewall), &paths)?;
    // What moved has only its old name left to lose.
    staged.files.retain(|file| open.iter().any(|change| change.path == file.target.path));
    let is_it = |change: &Replacement| {
        let file = staged.files.iter().find(|file| file.target.path == change.path);
        let on_disk = |file: &Staging| {
            let content = file.content.as_deref()?;
            file.target.with_secrets(NAME, content).ok().map(|content| hash_of(&content))
        };
        file.is_some_and(|file| on_disk(file) == change.after)
    };
    if !open.iter().all(is_it) {
        let text = format!(
            "apply_patch: conflict after an interruption: {} had been written, {} had not, and can no longer be as the patch \
             meant. Nothing was written now. Read them again before you change them.",
            names(done),
            names(open)
        );
        return Err(Outcome::failed(text));
    }
    let mut outcome = write(&staged, done, cx)?;
    outcome.text =
        format!("({} had been written before an interruption; the rest is now.)\n{}", names(done), outcome.text);
    Ok(outcome)
}
