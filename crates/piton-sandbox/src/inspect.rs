//! What a command has left by which a program outside would run something, or write elsewhere, later. What was there before is
//! mounted so that it cannot be changed; what was not is looked at when all of the command is dead. It is taken out of the
//! workspace, kept beside the session's own folders, and told.

use crate::plan::Plan;
use crate::tables;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Takes it out. Answers with what was done about it, a sentence each.
pub(crate) fn inspect(plan: &Plan) -> Vec<String> {
    let mut inspection = Inspection { plan, said: Vec::new() };
    let workspace = &plan.reach().workspace;
    for name in tables::PROTECTED {
        inspection.unless_it_was_there(&workspace.join(name), "another program believes or runs it");
    }
    let dot_git = workspace.join(".git");
    if dot_git.is_dir() {
        inspection.git(&dot_git);
    }
    inspection.said
}

struct Inspection<'p> {
    plan: &'p Plan,
    said: Vec<String>,
}

impl Inspection<'_> {
    /// Takes a path out of the workspace that was not there before.
    fn unless_it_was_there(&mut self, path: &Path, why: &str) {
        if !self.plan.was_there(path) && fs::symlink_metadata(path).is_ok() {
            self.take_out(path, why);
        }
    }

    fn take_out(&mut self, path: &Path, why: &str) {
        let shown = path.strip_prefix(&self.plan.reach().workspace).unwrap_or(path).display();
        let kept = self.kept_at(path);
        match kept.and_then(|kept| fs::rename(path, &kept).map(|()| kept)) {
            Ok(kept) => self
                .said
                .push(format!("{shown} was taken out of the workspace, since {why}; it is kept in {}", kept.display())),
            Err(error) => {
                self.said.push(format!("{shown} should not stay, since {why}, and cannot be taken out: {error}"));
            }
        }
    }

    /// A free name for it where the session keeps such things.
    fn kept_at(&self, path: &Path) -> io::Result<PathBuf> {
        let folder = self.plan.reach().private.join("taken-out");
        fs::create_dir_all(&folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let free = (0..)
            .map(|number| folder.join(format!("{number}-{name}")))
            .find(|path| fs::symlink_metadata(path).is_err());
        free.ok_or_else(|| io::Error::other("no name is free"))
    }

    fn git(&mut self, folder: &Path) {
        self.hooks(&folder.join("hooks"));
        self.unless_it_was_there(&folder.join("commondir"), "by it git takes another folder's configuration");
        self.unless_it_was_there(&folder.join("config.worktree"), "by it git runs programs");
        self.config(&folder.join("config"));
        for kind in ["worktrees", "modules"] {
            for entry in fs::read_dir(folder.join(kind)).into_iter().flatten().flatten() {
                let path = entry.path();
                self.unless_it_was_there(&path.join("config.worktree"), "by it git runs programs");
                self.hooks(&path.join("hooks"));
                self.config(&path.join("config"));
                let common = fs::read_to_string(path.join("commondir")).unwrap_or_default();
                if !common.is_empty() && common.trim_end() != "../.." {
                    self.unless_it_was_there(&path.join("commondir"), "by it git takes another folder's configuration");
                }
            }
        }
    }

    /// Samples are never run.
    fn hooks(&mut self, folder: &Path) {
        if self.plan.was_there(folder) {
            return;
        }
        if fs::symlink_metadata(folder).is_ok_and(|meta| !meta.is_dir()) {
            return self.take_out(folder, "git runs what is in it");
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_sample = path.extension().is_some_and(|end| end == "sample") && !entry.path().is_symlink();
            if !is_sample {
                self.take_out(&path, "git runs it");
            }
        }
    }

    /// Of a configuration that a command has made, what cannot run a program or lead elsewhere stays.
    fn config(&mut self, path: &Path) {
        let Ok(meta) = fs::symlink_metadata(path) else { return };
        if self.plan.was_there(path) {
            return;
        }
        let text = if meta.is_file() && meta.len() < MOST_BYTES { fs::read_to_string(path).ok() } else { None };
        let Some(text) = text else { return self.take_out(path, "it is no configuration of git") };
        let harmless = harmless(&text);
        if harmless == text {
            return;
        }
        self.take_out(path, "git runs programs that it names, or asks elsewhere");
        if let Err(error) = fs::write(path, harmless) {
            self.said.push(format!("what is harmless of it cannot be written back: {error}"));
        }
    }
}

/// More than any configuration of a repository has.
const MOST_BYTES: u64 = 1 << 20;

/// Sections that name nothing which is run or asked.
const SECTIONS: &[&str] = &[
    "core",
    "user",
    "author",
    "committer",
    "init",
    "branch",
    "extensions",
    "pull",
    "push",
    "merge",
    "rebase",
    "color",
    "gc",
];
/// Of `core` only these: the rest names programs and files.
const CORE: &[&str] = &[
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
    "autocrlf",
    "eol",
    "safecrlf",
    "quotepath",
];

/// The lines that say nothing else. Only the plainest form of a line is taken: what git would read in another way is left out.
fn harmless(text: &str) -> String {
    let mut kept = String::new();
    let mut section: Option<String> = None;
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        let stays = if let Some(inner) = words.strip_prefix('[') {
            section = inner.strip_suffix(']').and_then(section_of);
            section.is_some()
        } else if words.is_empty() || words.starts_with(['#', ';']) {
            true
        } else {
            section.as_deref().is_some_and(|section| is_harmless(section, words))
        };
        if stays {
            kept.push_str(line);
        }
    }
    kept
}

fn section_of(inner: &str) -> Option<String> {
    let name = inner.split([' ', '\t', '.']).next().unwrap_or_default().to_lowercase();
    let is_plain = !inner.contains([']', '[', '\\', '#', ';']);
    (is_plain && SECTIONS.contains(&name.as_str())).then_some(name)
}

fn is_harmless(section: &str, line: &str) -> bool {
    let (key, value) = line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
    let key = key.to_lowercase();
    let is_plain = !value.ends_with('\\') && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_plain
        && match section {
            "core" => CORE.contains(&key.as_str()),
            // A branch may name a folder as its remote.
            "branch" => {
                ["remote", "merge", "rebase", "description"].contains(&key.as_str()) && !value.contains(['/', ':'])
                    || key == "merge"
            }
            "merge" => ["conflictstyle", "ff", "stat", "renamelimit"].contains(&key.as_str()),
            "extensions" => key == "objectformat" || key == "refstorage",
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_configuration_only_plain_and_harmless_lines_stay() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = A\n";
        assert_eq!(harmless(fresh), fresh);
        for evil in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core] fsmonitor = touch x\n",
            "[CORE]\n\tHooksPath = x\n",
            "[alias]\n\tst = !x\n",
            "[include]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[branch \"m\"]\n\tremote = ext::sh -c x\n",
            "[user]\n\tname = a\\\n[core]\\\n\tfsmonitor = x\n",
            "[core]\n\tbare = \\\nfsmonitor = x\n",
            "[diff]\n\texternal = x\n",
            "[merge \"x\"]\n\tdriver = x\n",
            "[extensions]\n\tworktreeconfig = true\n",
            "[gpg]\n\tprogram = x\n",
        ] {
            let kept = harmless(evil);
            for word in [
                "fsmonitor",
                "HooksPath",
                "!x",
                "path",
                "clean",
                "ext::",
                "external",
                "driver",
                "worktreeconfig",
                "program",
            ] {
                assert!(!kept.contains(word), "{evil:?} leaves {kept:?}");
            }
        }
    }
}
