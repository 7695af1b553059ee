//! Commands: prompts that are kept in files, to be given again with other words.

use crate::out::view;
use anyhow::Context;
use piton_core::template;
use piton_engine::config::nearest;
use std::path::{Path, PathBuf};

/// Where they lie, in every folder from the working one up.
const FOLDERS: [&str; 6] = [
    ".piton/commands",
    ".piton/command",
    ".opencode/commands",
    ".opencode/command",
    ".claude/commands",
    ".claude/command",
];

/// The task that a command makes of these words.
pub(crate) fn prompt(name: &str, words: &str, workspace: &Path) -> anyhow::Result<String> {
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) && !name.starts_with('.');
    anyhow::ensure!(is_name, "`{name}` is no name of a command: letters, digits, - and _ are");
    let path = find(name, workspace).with_context(|| missing(name, workspace))?;
    let file = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let template = template::body(&file);
    for command in template::shell_commands(template) {
        view::write_stderr(&format!(
            "note: `{}` in {} is not run; the model sees it\n",
            view::clean(command),
            path.display()
        ));
    }
    let task = template::expand(template, words);
    anyhow::ensure!(!task.is_empty(), "{} says nothing", path.display());
    for file in template::files(&task).into_iter().filter(|file| !file.is_empty() && file.contains(['.', '/'])) {
        if !workspace.join(file).exists() {
            view::write_stderr(&format!("note: {} names {}, which is not there\n", path.display(), view::clean(file)));
        }
    }
    Ok(task)
}

fn find(name: &str, workspace: &Path) -> Option<PathBuf> {
    folders(workspace).map(|folder| folder.join(format!("{name}.md"))).find(|path| path.is_file())
}

fn folders(workspace: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    workspace.ancestors().flat_map(|folder| FOLDERS.iter().map(move |name| folder.join(name)))
}

/// What there is instead.
fn missing(name: &str, workspace: &Path) -> String {
    let mut known: Vec<String> = folders(workspace)
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
        .collect();
    known.sort();
    known.dedup();
    let meant = nearest(name, known.iter().map(String::as_str)).map(|word| format!("; did you mean `{word}`?"));
    let list = if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
    format!("there is no command `{name}` in {} or above it: {list}{}", FOLDERS[0], meant.unwrap_or_default())
}
