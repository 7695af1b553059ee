//! `write`: creates a file, or replaces one that the model has read.

use crate::change::{self, CurrentFile, Settled};
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, blocking};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{CallKind, Effects, Outcome};
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Write;

const NAME: &str = "write";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The file
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// The whole content
    content: String,
}

#[async_trait]
impl TypedTool for Write {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Writes a whole file and creates missing folders. A file that exists must have been read \
         before; to change part of it, use edit.";
    const EFFECTS: Effects = Effects::WRITE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        let (access, title, look) = (look.write(&input.path), look.shown(&input.path), look.clone());
        let question = QuestionDraft::new(move || preview(&input, &look));
        Ok(Plan::new(CallKind::Edit, title, access, question))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        change::after_edit(blocking(cx, move |cx| write(&input, cx)).await, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        match change::settled(NAME, cx) {
            Settled::Outcome(outcome) => change::after_edit(outcome, cx).await,
            // A single change is made or not.
            Settled::Open | Settled::Half { .. } => self.act(input, cx).await,
        }
    }
}

/// The question, and the change as it would be now.
fn preview(input: &Input, look: &Look) -> (String, Vec<QuestionBlock>) {
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().count();
    let new = input.content.as_bytes();
    match change::target(NAME, &input.path, &look.workspace, &*look.files, &look.firewall) {
        Ok(target) => {
            let title = match &target.now {
                CurrentFile::Absent => format!("Create {}?", target.shown),
                CurrentFile::File { content, .. } => {
                    format!("Overwrite {} ({} → {} lines)?", target.shown, lines(content), lines(new))
                }
            };
            (title, vec![change::preview(&target, new)])
        }
        Err(refused) => {
            let unified = input.content.lines().map(|line| format!("+{line}\n")).collect();
            let diff = QuestionBlock::Diff { path: input.path.clone(), unified };
            (format!("Write {}?", input.path), vec![QuestionBlock::Text { text: refused.text }, diff])
        }
    }
}

fn write(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let target = change::target(NAME, &input.path, &cx.workspace, &*cx.files, &cx.firewall)?;
    let content = target.spelled(&input.content);
    let content = content.as_bytes();
    if let CurrentFile::File { content: now, hash, .. } = &target.now
        && now == content
    {
        cx.ledger.note(&target.path, hash, Some(target.now.raw()));
        let text = format!("{} already has exactly this content; nothing was written", target.shown);
        let title = format!("write {} (unchanged)", target.shown);
        return Ok(Outcome::ok(text).titled(title).with(json!({"path": target.path, "hash": hash})));
    }
    change::check_seen(NAME, &target, cx)?;
    let changed = change::apply(NAME, &target, content, cx)?;
    let size = format!("{} lines, {} bytes", input.content.lines().count(), content.len());
    let done = match target.now {
        CurrentFile::Absent => "created",
        CurrentFile::File { .. } => "wrote",
    };
    let title = format!("write {} (+{} −{})", target.shown, changed.diff.added, changed.diff.removed);
    let text = format!("{done} {} ({size})\n{}", target.shown, changed.note);
    Ok(Outcome::ok(text.trim_end()).titled(title).with(changed.metadata))
}
