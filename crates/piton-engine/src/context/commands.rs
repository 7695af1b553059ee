//! Slash commands: prompt templates kept in files.
//!
//! They are found here for every client. A command is text that a person picks by name: nothing in its file runs or grants
//! anything, so its place needs no trust. Whatever shall take effect of one beyond its text has to ask
//! [`Trust`](crate::config::trust::Trust) here first.

use crate::spelling::nearest;
use piton_core::template;
use piton_tools::regular;
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

/// What a command comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The prompt.
    pub prompt: String,
    /// What a person should know about it.
    pub notes: Vec<String>,
}

/// Why a command gives no prompt.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It cannot be the name of one.
    #[error("`{name}` is not a command name: use letters, digits, - and _")]
    Name {
        /// What was said.
        name: String,
    },
    /// There is none of this name.
    #[error("there is no command `{name}` in {} or above it: {list}{meant}", FOLDERS[0])]
    Missing {
        /// What was said.
        name: String,
        /// Those that there are, in words.
        list: String,
        /// The one that may be meant, in words.
        meant: String,
    },
    /// Its file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing is in its file.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The prompt that a command makes of these words.
pub fn prompt(name: &str, words: &str, workspace: &Path) -> Result<Expanded, CommandError> {
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) && !name.starts_with('.');
    if !is_name {
        return Err(CommandError::Name { name: name.to_owned() });
    }
    let found = folders(workspace).map(|folder| folder.join(format!("{name}.md"))).find(|path| path.is_file());
    let path = found.ok_or_else(|| missing(name, workspace))?;
    let file = match regular::text(&path, regular::SETTINGS_BYTES) {
        Ok(file) => file,
        Err(source) => return Err(CommandError::Unreadable { path, source }),
    };
    let template = template::body(&file);
    let shell = template::shell_commands(template).into_iter();
    let mut notes: Vec<String> =
        shell.map(|command| format!("`{command}` in {} is not run; the model sees it", path.display())).collect();
    let prompt = template::expand(template, words);
    if prompt.is_empty() {
        return Err(CommandError::Empty { path });
    }
    let named = template::files(&prompt).into_iter();
    let gone = named.filter(|file| !file.is_empty() && file.contains(['.', '/']) && !workspace.join(file).exists());
    notes.extend(gone.map(|file| format!("{} names {file}, which is not there", path.display())));
    Ok(Expanded { prompt, notes })
}

fn folders(workspace: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    workspace.ancestors().flat_map(|folder| FOLDERS.iter().map(move |name| folder.join(name)))
}

/// What there is instead.
fn missing(name: &str, workspace: &Path) -> CommandError {
    let mut known: Vec<String> = folders(workspace)
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
        .collect();
    known.sort();
    known.dedup();
    let meant = nearest(name, known.iter().map(String::as_str)).map(|word| format!("; did you mean `{word}`?"));
    let list = if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
    CommandError::Missing { name: name.to_owned(), list, meant: meant.unwrap_or_default() }
}
