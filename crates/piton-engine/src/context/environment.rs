//! The environment section of the first message: folder, repository, operating system, date, and a listing.

use super::files;
use piton_tools::disk::Disk;
use piton_tools::files::{Files, Found, Next};
use piton_tools::regular;
use std::path::{Path, PathBuf};

/// Entries of the working folder that are named.
const NAMED: usize = 60;
/// Entries of the working folder that are looked at.
const LOOKED_AT: usize = 2_000;

/// The note in front of a session's first message. The day is given by the caller: libraries read no clock.
pub fn environment_note(workspace: &Path, today: &str) -> String {
    let git = match (workspace.ancestors().find(|dir| dir.join(".git").exists()), branch(workspace)) {
        (None, _) => "no".to_owned(),
        (Some(root), branch) => {
            let on = branch.map_or(String::new(), |branch| format!(", {branch}"));
            let at = if root == workspace { String::new() } else { format!(", its root is {}", files::line(root)) };
            format!("yes{on}{at}")
        }
    };
    let here = entries(workspace).map_or(String::new(), |names| format!("\nHere: {names}"));
    format!(
        "Working folder: {}\nGit repository: {git}\nSystem: {} ({})\nToday: {today}{here}",
        files::line(workspace),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// What the repository's HEAD is, in words.
fn branch(workspace: &Path) -> Option<String> {
    /// A name is shorter.
    const MOST_BYTES: usize = 4_096;
    let git = workspace.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists())?;
    let dir = if git.is_dir() {
        git
    } else {
        // A work tree or a submodule: a file that says where the folder is.
        let text = regular::beginning(&git, MOST_BYTES).ok()?.text();
        let dir = PathBuf::from(text.trim().strip_prefix("gitdir:")?.trim());
        if dir.is_absolute() { dir } else { git.parent()?.join(dir) }
    };
    let head = regular::beginning(&dir.join("HEAD"), MOST_BYTES).ok()?.text();
    let head = files::line(Path::new(head.trim()));
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(format!("on branch {branch}")),
        None => {
            head.get(..10).filter(|id| id.bytes().all(|b| b.is_ascii_hexdigit())).map(|id| format!("detached at {id}"))
        }
    }
}

/// The names in the working folder that git does not ignore.
fn entries(workspace: &Path) -> Option<String> {
    let mut names = Vec::new();
    Disk::to_read().walk(workspace, &mut |entry| {
        if let Ok((path, found)) = entry {
            let name = files::line(Path::new(path.file_name().unwrap_or_default()));
            names.push(format!("{name}{}", if found == Found::Folder { "/" } else { "" }));
        }
        if names.len() < LOOKED_AT { Next::PassOver } else { Next::Stop }
    });
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_note_says_what_lies_here_and_on_which_branch() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join(".git")).expect("a folder");
        fs::create_dir_all(root.join("src/deep")).expect("a folder");
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/feature/x\n").expect("a file");
        fs::write(root.join(".gitignore"), "*.log\n").expect("a file");
        fs::write(root.join("a.log"), "").expect("a file");
        fs::write(root.join("odd\nname"), "").expect("a file");
        let note = environment_note(root, "2026-11-21");
        assert!(note.contains("Git repository: yes, on branch feature/x\n"), "{note}");
        assert!(note.ends_with("Today: 2026-11-21\nHere: .gitignore odd\\nname src/"), "{note}");
        fs::write(root.join(".git/HEAD"), "0123456789abcdef0123456789abcdef01234567\n").expect("a file");
        let below = environment_note(&root.join("src"), "2026-11-21");
        assert!(below.contains("yes, detached at 0123456789, its root is "), "{below}");
        fs::remove_dir_all(root.join(".git")).expect("removed");
        assert!(
            environment_note(&root.join("src/deep"), "d")
                .ends_with("Git repository: no\nSystem: linux (x86_64)\nToday: d")
                || cfg!(not(all(target_os = "linux", target_arch = "x86_64")))
        );
    }

    #[test]
    fn files_of_patterns_that_never_end_are_not_read() {
        for place in [".gitignore", ".ignore", ".git/info/exclude"] {
            let folder = tempfile::tempdir().expect("a folder");
            let (root, path) = (folder.path(), folder.path().join(place));
            fs::create_dir_all(root.join(".git/info")).expect("a folder");
            fs::create_dir_all(root.join(".git/objects")).expect("a folder");
            fs::write(root.join("a"), "").expect("a file");
            std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
            assert!(environment_note(root, "d").ends_with(" a") || environment_note(root, "d").ends_with(": a"));
            fs::remove_file(&path).expect("removed");
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
            assert!(environment_note(root, "d").contains("Here: "), "{place}");
        }
    }

    #[test]
    fn a_crowded_folder_is_named_in_part() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..100 {
            fs::write(folder.path().join(format!("f{number:03}")), "").expect("a file");
        }
        let note = environment_note(folder.path(), "d");
        assert!(note.ends_with("f059 and 40 more"), "{note}");
    }
}
