//! `glob`: finds files by name, newest first.

use crate::limits::GLOB_PATHS;
use crate::paths;
use crate::plan::{Look, Plan};
use crate::search::{self, PathPattern};
use crate::tool::{ToolContext, blocking, cancelled};
use crate::typed::TypedTool;
use crate::walk;
use async_trait::async_trait;
use ignore::WalkState;
use piton_core::call::{Effects, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Glob;

const NAME: &str = "glob";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// For example `**/*.rs` or `src/*.{ts,tsx}`
    pattern: String,
    /// Folder to search; default the workspace
    path: Option<String>,
}

#[async_trait]
impl TypedTool for Glob {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Finds files by name pattern, newest first. Files ignored by git are left out.";
    const EFFECTS: Effects = Effects::READ;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        Ok(search::plan("Look for these files?", input.pattern, input.path.as_deref(), look))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        blocking(cx, move |cx| glob(&input, cx)).await
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
        let text = format!(
            "No file below {} matches. Files ignored by git are not searched.",
            paths::shown(&root, &cx.workspace)
        );
        return Ok(Outcome::ok(text).titled(title).with(metadata));
    }
    let shown = newest.kept.into_sorted_vec();
    let mut lines: Vec<String> = shown.iter().map(|(_, path)| paths::shown(path, &cx.workspace)).collect();
    if total > lines.len() {
        lines.push(format!("({} more files; narrow the pattern or the path)", total - lines.len()));
    }
    Ok(Outcome::ok(lines.join("\n")).titled(title).with(metadata))
}

fn newest(root: &Path, pattern: &PathPattern, cx: &ToolContext) -> Newest {
    let newest = Mutex::new(Newest::default());
    walk::parallel(root).run(|| {
        Box::new(|entry| {
            if cx.cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // What cannot be read is not there.
            let Ok(entry) = entry else { return WalkState::Continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink());
            // What the session's files do not reach is not there either.
            if is_file && pattern.matches(entry.path(), root) && cx.files.real(entry.path()).is_ok() {
                let modified =
                    entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
                newest.lock().unwrap_or_else(PoisonError::into_inner).add(modified, entry.into_path());
            }
            WalkState::Continue
        })
    });
    newest.into_inner().unwrap_or_else(PoisonError::into_inner)
}
