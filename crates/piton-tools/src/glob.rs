//! `glob`: finds files by name, the newest first.

use crate::input::{parse_input, schema_of};
use crate::limits::GLOB_PATHS;
use crate::paths;
use crate::search::{self, PathPattern};
use crate::tool::{Tool, ToolContext, blocking, cancelled};
use async_trait::async_trait;
use ignore::WalkState;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Glob;

const NAME: &str = "glob";

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// For example `**/*.rs` or `src/*.{ts,tsx}`
    pattern: String,
    /// Folder to search; default the workspace
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description: "Finds files by name pattern, newest first. Files ignored by git are left out.".to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Read,
        }
    }

    fn sure_to_fail(&self, input: &Value) -> Option<Outcome> {
        parse_input::<Input>(NAME, input).err()
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        match parse_input(NAME, &input) {
            Ok(input) => blocking(cx, move |cx| glob(&input, cx).unwrap_or_else(|refused| refused)).await,
            Err(outcome) => outcome,
        }
    }
}

/// The newest files seen so far, and how many there were.
#[derive(Default)]
struct Newest {
    /// Newest first, then by path; the heap's top is the one to drop.
    kept: BinaryHeap<(Reverse<SystemTime>, PathBuf)>,
    total: usize,
}

impl Newest {
    fn add(&mut self, modified: SystemTime, path: PathBuf) {
        self.total += 1;
        self.kept.push((Reverse(modified), path));
        if self.kept.len() > GLOB_PATHS {
            self.kept.pop();
        }
    }
}

fn glob(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let root = search::root(NAME, input.path.as_deref(), cx)?;
    let pattern = PathPattern::new(NAME, &input.pattern, &root)?;
    let newest = newest(&root, &pattern, cx);
    if cx.cancel.is_cancelled() {
        return Err(cancelled());
    }
    let total = newest.total;
    let title =
        format!("glob {} ({total} {})", paths::clean_name(&input.pattern), if total == 1 { "file" } else { "files" });
    let metadata = json!({"files": total});
    if total == 0 {
        let text = format!("No file below {} matches. Files ignored by git are not searched.", paths::shown(&root, cx));
        return Ok(Outcome::ok(text).titled(title).with(metadata));
    }
    let shown = newest.kept.into_sorted_vec();
    let mut lines: Vec<String> = shown.iter().map(|(_, path)| paths::shown(path, cx)).collect();
    if total > lines.len() {
        lines.push(format!("({} more files; narrow the pattern or the path)", total - lines.len()));
    }
    Ok(Outcome::ok(lines.join("\n")).titled(title).with(metadata))
}

fn newest(root: &Path, pattern: &PathPattern, cx: &ToolContext) -> Newest {
    let newest = Mutex::new(Newest::default());
    search::walk(root).run(|| {
        Box::new(|entry| {
            if cx.cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // What cannot be read is not there.
            let Ok(entry) = entry else { return WalkState::Continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink());
            if is_file && pattern.matches(entry.path(), root) {
                let modified =
                    entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
                newest.lock().unwrap_or_else(PoisonError::into_inner).add(modified, entry.into_path());
            }
            WalkState::Continue
        })
    });
    newest.into_inner().unwrap_or_else(PoisonError::into_inner)
}
