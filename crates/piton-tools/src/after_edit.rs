//! Formatters and diagnostics of the user's configuration: which command is for which files. When they run is not known here.

use globset::{GlobBuilder, GlobMatcher};
use std::path::Path;

/// Stands in a command for the file.
pub const FILE: &str = "{file}";

/// What a command does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// It changes the file.
    Format,
    /// It says what is wrong with it.
    Diagnose,
}

/// A command that runs on files.
#[derive(Debug, Clone)]
pub struct AfterEdit {
    files: GlobMatcher,
    command: String,
    pub(crate) does: Does,
}

/// Why there is no such command.
#[derive(Debug, thiserror::Error)]
pub enum NoAfterEdit {
    /// Its pattern is none.
    #[error("is not a pattern of files: {0}")]
    Pattern(#[from] globset::Error),
    /// It does not say where the file belongs.
    #[error("must have {FILE} where the path of the file belongs")]
    NoFile,
}

impl AfterEdit {
    /// A shell command for files of this pattern: a name (`*.rs`) at any depth, or a path from the workspace on (`web/**/*.ts`).
    pub fn new(pattern: &str, command: &str, does: Does) -> Result<Self, NoAfterEdit> {
        if !command.contains(FILE) {
            return Err(NoAfterEdit::NoFile);
        }
        let pattern = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
        let files = GlobBuilder::new(&pattern).literal_separator(true).build()?.compile_matcher();
        Ok(Self { files, command: command.to_owned(), does })
    }

    /// Whether a file is one of its.
    pub(crate) fn is_for(&self, path: &Path, workspace: &Path) -> bool {
        path.strip_prefix(workspace).is_ok_and(|below| self.files.is_match(below))
    }

    /// Its first word, for people and the model.
    pub(crate) fn name(&self) -> &str {
        self.command.split_whitespace().next().unwrap_or_default()
    }

    /// The script that runs it on a file.
    pub(crate) fn script(&self, path: &Path) -> String {
        let quoted = format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
        self.command.replace(FILE, &quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_at_any_depth_and_a_path_in_its_place() {
        let is_for = |pattern: &str, path: &str| {
            let rule = AfterEdit::new(pattern, "x {file}", Does::Format).unwrap();
            rule.is_for(Path::new(path), Path::new("/w"))
        };
        assert!(is_for("*.rs", "/w/a.rs") && is_for("*.rs", "/w/b/c/a.rs") && !is_for("*.rs", "/v/a.rs"));
        assert!(is_for("web/**/*.ts", "/w/web/a/b.ts") && !is_for("web/*.ts", "/w/web/a/b.ts"));
    }

    #[test]
    fn a_file_is_one_word_whatever_it_is_called() {
        let rule = AfterEdit::new("*", "fmt {file} && lint {file}", Does::Format).unwrap();
        assert_eq!(rule.script(Path::new("/w/a'; rm b")), r"fmt '/w/a'\''; rm b' && lint '/w/a'\''; rm b'");
        assert!(matches!(AfterEdit::new("*", "fmt", Does::Format), Err(NoAfterEdit::NoFile)));
        assert!(matches!(AfterEdit::new("[", "fmt {file}", Does::Format), Err(NoAfterEdit::Pattern(_))));
    }
}
