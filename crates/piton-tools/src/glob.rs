//! `glob`: files by name.

use crate::search;
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use piton_core::call::{Outcome, Status, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::time::SystemTime;

/// Paths that are shown.
const MOST: usize = 200;

/// The tool.
pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// For example `src/**/*.rs`
    pattern: String,
    /// Folder to look in
    #[serde(default)]
    #[schemars(default)]
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description: "Find files by name, newest first. Leaves out what .gitignore does.".to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Read,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let context = context.clone();
        crate::tool::on_a_thread(move || glob(input, &context).unwrap_or_else(|refusal| refusal)).await
    }
}

fn glob(input: Value, context: &ToolContext) -> Result<Outcome, Outcome> {
    let Input { pattern, path } = parse_input("glob", input)?;
    let root = path.map_or(context.workspace.clone(), |path| context.path(&path));
    if !root.is_dir() {
        return Err(Outcome::failed(format!("{} is not a folder.", context.shown(&root))));
    }
    let matcher = search::matcher(&pattern)?;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in search::walk(&root).flatten() {
        if context.cancel.is_cancelled() {
            return Err(Outcome::new(Status::Cancelled, "stopped before all files were looked at"));
        }
        let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if entry.file_type().is_some_and(|kind| !kind.is_dir()) && matcher.is_match(below) {
            let changed = entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((changed, entry.into_path()));
        }
    }
    found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let count = found.len();
    let mut lines: Vec<String> = found.iter().take(MOST).map(|(_, path)| context.shown(path)).collect();
    if count > MOST {
        lines.push(format!("(and {} more; narrow the pattern)", count - MOST));
    }
    let text = if lines.is_empty() { "no file matches".to_owned() } else { lines.join("\n") };
    Ok(Outcome::ok(text).titled(format!("{pattern} ({count} files)")))
}
