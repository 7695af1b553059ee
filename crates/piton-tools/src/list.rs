//! `list`: what is in a folder, as a tree with sizes. What `.gitignore` and `.ignore` files ignore is left out, and so is
//! `.git`. However large the folder is, the answer is small: what there is too much of is counted.

use crate::files::{Found, Next};
use crate::input::lenient;
use crate::limits::{TREE_DEPTH, TREE_ENTRIES, TREE_LOOKS};
use crate::paths;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, blocking, cancelled, counted};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{CallKind, Effects, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct List;

const NAME: &str = "list";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    #[serde(default, alias = "folder", alias = "directory")]
    path: Option<String>,
    /// Default 3
    #[serde(default, deserialize_with = "lenient::count")]
    depth: Option<u64>,
}

#[async_trait]
impl TypedTool for List {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Shows a folder as a tree with sizes, without ignored files.";
    const EFFECTS: Effects = Effects::READ;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        let path = input.path.as_deref().unwrap_or(".");
        let title = look.shown(path);
        let about = format!("List {title}?");
        Ok(Plan::new(CallKind::Search, title, look.read(path), QuestionDraft::new(|| (about, Vec::new()))))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        blocking(cx, move |cx| {
            let question = format!("list {:?} {:?}", input.path, input.depth);
            Ok(counted(list(&input, cx)?, &question, cx))
        })
        .await
    }
}

/// A folder as it was found.
#[derive(Debug, Default)]
struct Folder {
    /// By name: its size, or what is in it.
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    File(u64),
    Folder(Folder),
    /// A link that leads out, a device, a pipe.
    Other,
}

/// What a walk finds.
struct Walked {
    root: Folder,
    files: usize,
    bytes: u64,
    is_cut: bool,
    errors: usize,
}

fn list(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let path = paths::resolve(NAME, input.path.as_deref().unwrap_or("."), &cx.workspace)?;
    let failed = |error: &dyn std::fmt::Display| {
        Outcome::failed(format!("list: {}: {error}", paths::shown(&path, &cx.workspace)))
    };
    let real = cx.files.real(&path).map_err(|error| failed(&error))?;
    match cx.files.look(&real).map_err(|error| failed(&error))? {
        Some(Found::Folder) => {}
        Some(Found::File { .. }) => return Err(failed(&"it is a file; use read")),
        Some(Found::Other) => return Err(failed(&"it is not a folder (a device, pipe or socket)")),
        None => return Err(failed(&"it does not exist")),
    }
    let Some(walked) = walk(&real, cx) else { return Err(cancelled()) };
    let depth =
        input.depth.filter(|depth| *depth > 0).map_or(TREE_DEPTH, |depth| usize::try_from(depth).unwrap_or(usize::MAX));
    // Deeper levels are left out until it fits, so that the upper ones are whole.
    let depth =
        (1..=depth.min(TREE_LOOKS)).take_while(|depth| *depth == 1 || walked.root.count(*depth) <= TREE_ENTRIES).last();
    let (mut lines, mut left_out) = (Vec::new(), 0);
    walked.root.draw(depth.unwrap_or(1), "", &mut lines, &mut left_out);
    let shown = paths::shown(&real, &cx.workspace);
    let total = format!("{} files, {}", walked.files, size(walked.bytes));
    let mut text = format!("{shown}/ ({total}{})\n{}", if walked.is_cut { ", and more" } else { "" }, lines.join("\n"));
    if left_out > 0 {
        text.push_str(&format!("\n({left_out} more entries; use glob, or list a folder below)"));
    }
    if walked.is_cut {
        text.push_str(&format!("\n(not all of it was looked at: it has more than {TREE_LOOKS} entries)"));
    }
    if walked.errors > 0 {
        text.push_str(&format!("\n({} folders could not be read)", walked.errors));
    }
    Ok(Outcome::ok(text.trim_end()).titled(format!("list {shown} ({total})")))
}

/// Everything below a folder, up to a number of entries; `None`: cancelled.
fn walk(root: &Path, cx: &ToolContext) -> Option<Walked> {
    let mut walked = Walked { root: Folder::default(), files: 0, bytes: 0, is_cut: false, errors: 0 };
    let mut looks = 0;
    cx.files.walk(root, &mut |entry| {
        looks += 1;
        if looks > TREE_LOOKS || cx.cancel.is_cancelled() {
            walked.is_cut = true;
            return Next::Stop;
        }
        let Ok((path, found)) = entry else {
            walked.errors += 1;
            return Next::GoOn;
        };
        let entry = match found {
            Found::File { bytes } => {
                (walked.files, walked.bytes) = (walked.files + 1, walked.bytes.saturating_add(bytes));
                Entry::File(bytes)
            }
            Found::Folder => Entry::Folder(Folder::default()),
            Found::Other => Entry::Other,
        };
        if let Ok(inside) = path.strip_prefix(root) {
            walked.root.put(inside, entry);
        }
        Next::GoOn
    });
    (!cx.cancel.is_cancelled()).then_some(walked)
}

impl Folder {
    fn put(&mut self, inside: &Path, entry: Entry) {
        let mut names: Vec<String> = inside.iter().map(|name| paths::clean_name(&name.to_string_lossy())).collect();
        let Some(last) = names.pop() else { return };
        let mut folder = self;
        for name in names {
            let entry = folder.entries.entry(name).or_insert_with(|| Entry::Folder(Self::default()));
            let Entry::Folder(inner) = entry else { return };
            folder = inner;
        }
        folder.entries.insert(last, entry);
    }

    /// Lines of a drawing of this depth.
    fn count(&self, depth: usize) -> usize {
        let inner = |entry: &Entry| match entry {
            Entry::Folder(folder) if depth > 1 => folder.count(depth - 1),
            Entry::Folder(_) | Entry::File(_) | Entry::Other => 0,
        };
        self.entries.values().map(|entry| 1 + inner(entry)).sum()
    }

    /// Files and bytes in it, however deep.
    fn total(&self) -> (usize, u64) {
        self.entries.values().fold((0, 0), |(files, bytes), entry| match entry {
            Entry::File(size) => (files + 1, bytes.saturating_add(*size)),
            Entry::Folder(folder) => {
                let (more, size) = folder.total();
                (files + more, bytes.saturating_add(size))
            }
            Entry::Other => (files, bytes),
        })
    }

    /// Folders first, each by name.
    fn draw(&self, depth: usize, indent: &str, lines: &mut Vec<String>, left_out: &mut usize) {
        let is_folder = |entry: &&(&String, &Entry)| matches!(entry.1, Entry::Folder(_));
        let all: Vec<(&String, &Entry)> = self.entries.iter().collect();
        let (folders, files): (Vec<_>, Vec<_>) = all.iter().partition(is_folder);
        for (name, entry) in folders.into_iter().chain(files) {
            if lines.len() >= TREE_ENTRIES {
                *left_out += 1;
                continue;
            }
            match entry {
                Entry::File(bytes) => lines.push(format!("{indent}{name} {}", size(*bytes))),
                Entry::Other => lines.push(format!("{indent}{name} (no file)")),
                Entry::Folder(folder) if depth > 1 || folder.entries.is_empty() => {
                    lines.push(format!("{indent}{name}/"));
                    folder.draw(depth.saturating_sub(1), &format!("{indent}  "), lines, left_out);
                }
                Entry::Folder(folder) => {
                    let (files, bytes) = folder.total();
                    lines.push(format!("{indent}{name}/ ({files} files, {})", size(bytes)));
                }
            }
        }
    }
}

/// `512`, `1.5K`, `20M`: bytes, and what is larger.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes < 10 * unit => format!("{:.1}{name}", bytes as f64 / unit as f64),
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}
