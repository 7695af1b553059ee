//! `write`: a whole file.

use crate::change::{self, Left};
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The tool.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
struct Input {
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".to_owned(),
            description: "Create a file, or replace all of one you have read. Folders are created. To change part of a \
                          file use edit."
                .to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Write,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let context = context.clone();
        let work = move || write(input, &context).unwrap_or_else(|refusal| refusal);
        crate::tool::on_a_thread(work).await
    }

    async fn settle(&self, input: Value, context: &ToolContext) -> Outcome {
        match change::left_of(context) {
            Left::Nothing => self.run(input, context).await,
            Left::Outcome(outcome) => outcome,
        }
    }
}

fn write(input: Value, context: &ToolContext) -> Result<Outcome, Outcome> {
    let Input { path, content } = parse_input("write", input)?;
    let (real, before) = change::current(&context.path(&path))?;
    if let Some(before) = &before {
        change::check_known(context, &real, before)?;
    }
    let mut outcome = change::apply(context, &real, before.as_deref(), content.as_bytes())?;
    let shown = context.shown(&real);
    let lines = content.lines().count();
    let verb = if before.is_some() { "replaced" } else { "created" };
    outcome.text = format!("{verb} {shown} ({lines} lines, {} bytes)", content.len());
    outcome.title = format!("{shown} ({verb}, {lines} lines)");
    Ok(outcome)
}
