//! Which program a word names. Only the machine knows; it answers through a port.

/// Answers which program stands behind a word where a program's name is expected. An implementation looks on a `PATH`
/// without relative entries and without the workspace, follows links, and must not change its answers while a command is read.
pub trait Programs {
    /// Every name by which the program is known beside the word itself, for example `rm` for `/bin/rm` and for a link
    /// to it. Empty where there is no such program.
    fn names(&self, word: &str) -> Vec<String>;

    /// The value that a variable of the environment has before the command runs, where it has one; `PWD` is the folder it runs in.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether no name of a file or folder below this one has blanks, quotes or backslashes in it, or begins with a dash: each is one
    /// word to `xargs`, and no option.
    fn has_plain_names(&self, _folder: &str) -> bool {
        false
    }
}

/// Knows no machine: a word without a folder is itself, and a path into one of the system's folders of programs is its last part.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByName;

/// Where the system keeps its programs.
const SYSTEM_FOLDERS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"];

impl Programs for ByName {
    fn names(&self, word: &str) -> Vec<String> {
        match word.rsplit_once('/') {
            Some((folder, name)) if SYSTEM_FOLDERS.contains(&folder) => vec![name.to_string()],
            Some(_) | None => Vec::new(),
        }
    }

    fn has_plain_names(&self, _folder: &str) -> bool {
        true
    }
}
