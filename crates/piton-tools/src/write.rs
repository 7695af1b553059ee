//! `write`: puts a whole file in place, new or instead of one the model has read.

use crate::change::{self, Now};
use crate::input::{parse_input, schema_of};
use crate::tool::{Tool, ToolContext, blocking};
use async_trait::async_trait;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Write;

const NAME: &str = "write";

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The file
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// The whole content
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description: "Writes a whole file and creates missing folders. A file that exists must have been read \
                          before; to change part of it, use edit."
                .to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Write,
        }
    }

    fn sure_to_fail(&self, input: &Value) -> Option<Outcome> {
        parse_input::<Input>(NAME, input).err()
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        match parse_input(NAME, &input) {
            Ok(input) => blocking(cx, move |cx| write(&input, cx).unwrap_or_else(|refused| refused)).await,
            Err(outcome) => outcome,
        }
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        match change::settled(NAME, cx) {
            Some(outcome) => outcome,
            None => self.run(input, cx).await,
        }
    }
}

fn write(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let target = change::target(NAME, &input.path, cx)?;
    let content = input.content.as_bytes();
    if let Now::File { content: now, hash } = &target.now
        && now == content
    {
        cx.files.note(&target.path, hash, Some(content));
        let text = format!("{} already has exactly this content; nothing was written", target.shown);
        let title = format!("write {} (unchanged)", target.shown);
        return Ok(Outcome::ok(text).titled(title).with(json!({"path": target.path, "hash": hash})));
    }
    change::check_seen(NAME, &target, cx)?;
    let changed = change::apply(NAME, &target, content, cx)?;
    let size = format!("{} lines, {} bytes", input.content.lines().count(), content.len());
    let done = match target.now {
        Now::Absent => "created",
        Now::File { .. } => "wrote",
    };
    let title = format!("write {} (+{} −{})", target.shown, changed.diff.added, changed.diff.removed);
    Ok(Outcome::ok(format!("{done} {} ({size})", target.shown)).titled(title).with(changed.metadata))
}
