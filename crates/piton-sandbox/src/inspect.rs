//! What a command has left by which a program outside would run something, or write elsewhere, later. What was there before is
//! mounted so that it cannot be changed; what was not is looked at when all of the command is dead. It is taken out of the
//! workspace, kept beside the session's own folders, and told.

//!
//! Whatever lies there may be a link: nothing is followed, and what is moved is reached through its open folder.

use crate::plan::Plan;
use crate::tables;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, renameat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Moves it out. Answers with what was done about it, a sentence each.
pub(crate) fn inspect(plan: &Plan) -> Vec<String> {
    let workspace = &plan.reach().workspace;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = openat2(CWD, workspace, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else { return Vec::new() };
    let mut inspection = Inspection { plan, root, said: Vec::new() };
    for name in tables::PROTECTED {
        inspection.unless_unchanged(Path::new(name), "other programs run or believe what is in it");
    }
    inspection.repository();
    inspection.said
}

struct Inspection<'p> {
    plan: &'p Plan,
    root: OwnedFd,
    said: Vec<String>,
}

/// Deeper than names of submodules go.
const DEEPEST: usize = 8;

impl Inspection<'_> {
    /// A folder of the workspace, reached through no link; `None`: there is none.
    fn folder(&self, path: &Path) -> Option<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, path, flags, Mode::empty(), strict).ok()
    }

    /// What is at a path, in its folder; the last part may be a link.
    fn look<'a>(&self, path: &'a Path) -> Option<(OwnedFd, &'a OsStr, FileType)> {
        let (folder, name) = (self.folder(path.parent()?)?, path.file_name()?);
        let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((folder, name, FileType::from_raw_mode(found.st_mode)))
    }

    fn names(&self, path: &Path) -> Vec<PathBuf> {
        let entries = self.folder(path).and_then(|folder| Dir::read_from(folder).ok()).into_iter().flatten().flatten();
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        names.filter(|name| name != "." && name != "..").map(|name| path.join(name)).collect()
    }

    /// Moves away what was not there before, or was something else.
    fn unless_unchanged(&mut self, path: &Path, why: &str) {
        if self.look(path).is_some() && !self.plan.is_unchanged(&self.plan.reach().workspace.join(path)) {
            self.move_out(path, why);
        }
    }

    /// Moves something out of the workspace; answers whether it is gone.
    fn move_out(&mut self, path: &Path, why: &str) -> bool {
        let moved = match self.look(path) {
            Some((folder, name, _)) => self.quarantine(&folder, name),
            None => return true,
        };
        let is_gone = moved.is_ok();
        let shown = path.display();
        self.said.push(match moved {
            Ok(kept) => format!(
                "{shown} was made or changed while the command ran, and moved away: {why}. It is kept in {kept}"
            ),
            Err(error) => {
                format!("{shown} could not be moved away: {error}. Check it before you go on in this folder: {why}")
            }
        });
        is_gone
    }

    fn quarantine(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<String> {
        let at = self.plan.reach().private.join("quarantine");
        DirBuilder::new().recursive(true).mode(0o700).create(&at)?;
        let shown = name.to_string_lossy();
        let free =
            (0..).map(|number: u32| format!("{number}-{shown}")).find(|name| at.join(name).symlink_metadata().is_err());
        let kept = at.join(free.unwrap_or_default());
        match renameat(folder, name, CWD, &kept) {
            // On another file system it stays beside where it was, by a name that nothing believes.
            Err(Errno::XDEV) => {
                let other = format!("{shown}.quarantined-by-piton");
                renameat(folder, name, folder, &other)?;
                Ok(other)
            }
            other => Ok(other.map(|()| kept.display().to_string())?),
        }
    }

    /// The repository at the top of the workspace.
    fn repository(&mut self) {
        let is_bare = ["HEAD", "objects", "refs"].iter().all(|name| self.look(Path::new(name)).is_some());
        if is_bare {
            self.unless_unchanged(Path::new("HEAD"), "git takes the folder itself for a repository by it");
        }
        let dot_git = Path::new(".git");
        match self.look(dot_git) {
            Some((_, _, FileType::Directory)) => self.git(dot_git),
            Some(_) => self.unless_unchanged(dot_git, "git goes by what it points to"),
            None => {}
        }
    }

    fn git(&mut self, folder: &Path) {
        let elsewhere = "git goes by the configuration of the folder that it names";
        self.unless_unchanged(&folder.join("commondir"), elsewhere);
        self.settings(folder);
        for name in ["worktrees", "modules"] {
            let below = folder.join(name);
            match self.look(&below) {
                Some((_, _, FileType::Directory)) => self.repositories_in(&below, 0),
                Some(_) => self.unless_unchanged(&below, "git goes by what it points to"),
                None => {}
            }
        }
    }

    /// Submodules are named by their path, folders included.
    fn repositories_in(&mut self, folder: &Path, depth: usize) {
        if self.folder(folder).is_none() {
            self.move_out(folder, "it cannot be read, and git goes by what is in it");
            return;
        }
        for path in self.names(folder) {
            match self.look(&path) {
                Some((_, _, FileType::Directory)) if depth < DEEPEST => {
                    self.settings(&path);
                    if self.look(&path.join("commondir")).is_some()
                        && self.text(&path.join("commondir")).trim_end() != "../.."
                    {
                        self.unless_unchanged(
                            &path.join("commondir"),
                            "git goes by the configuration of the folder that it names",
                        );
                    }
                    if self.look(&path.join("HEAD")).is_none() {
                        self.repositories_in(&path, depth + 1);
                    }
                }
                Some((_, _, FileType::RegularFile)) | None => {}
                Some(_) => self.unless_unchanged(&path, "git goes by what it points to"),
            }
        }
    }

    /// By what git runs programs.
    fn settings(&mut self, folder: &Path) {
        self.unless_unchanged(&folder.join("config.worktree"), "git runs the programs that it names");
        for name in ["remotes", "branches"] {
            let path = folder.join(name);
            if !self.names(&path).is_empty() {
                self.unless_unchanged(&path, "git asks what it names");
            }
        }
        self.hooks(&folder.join("hooks"));
        self.config(&folder.join("config"));
    }

    /// Samples are never run.
    fn hooks(&mut self, folder: &Path) {
        if self.plan.is_unchanged(&self.plan.reach().workspace.join(folder)) {
            return;
        }
        match self.look(folder) {
            None => {}
            Some((_, _, FileType::Directory)) if self.folder(folder).is_none() => {
                self.move_out(folder, "git runs what is in it, and it cannot be read");
            }
            Some((_, _, FileType::Directory)) => {
                for path in self.names(folder) {
                    let is_file = matches!(self.look(&path), Some((_, _, FileType::RegularFile)));
                    if !is_file || path.extension().is_none_or(|end| end != "sample") {
                        self.move_out(&path, "git runs it");
                    }
                }
            }
            Some(_) => drop(self.move_out(folder, "git runs what is in it")),
        }
    }

    /// The text of a small file that is no link; empty where there is none.
    fn text(&self, path: &Path) -> String {
        let read = || -> Option<String> {
            let (folder, name, kind) = self.look(path)?;
            if kind != FileType::RegularFile {
                return None;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut text = String::new();
            File::from(openat(&folder, name, flags, Mode::empty()).ok()?)
                .take(MOST_BYTES)
                .read_to_string(&mut text)
                .ok()?;
            Some(text)
        };
        read().unwrap_or_default()
    }

    /// Of a configuration that was made while the command ran, what cannot run a program or lead elsewhere stays.
    fn config(&mut self, path: &Path) {
        if self.look(path).is_none() || self.plan.is_unchanged(&self.plan.reach().workspace.join(path)) {
            return;
        }
        let text = self.text(path);
        let harmless = harmless(&text);
        if !text.is_empty() && harmless == text {
            return;
        }
        if !self.move_out(path, "git runs the programs that it names, or asks elsewhere") {
            return;
        }
        let written = || -> io::Result<()> {
            let folder = path.parent().and_then(|folder| self.folder(folder)).ok_or(io::ErrorKind::NotFound)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&folder, path.file_name().unwrap_or_default(), flags, Mode::from_raw_mode(0o644))?;
            File::from(file).write_all(harmless.as_bytes())
        };
        if let Err(error) = written() {
            self.said.push(format!("the harmless part of {} could not be written back: {error}", path.display()));
        }
    }
}

/// More than any configuration of a repository has.
const MOST_BYTES: u64 = 1 << 20;

/// What a section may say: it names nothing that is run, and no other place.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
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
        ],
    ),
    ("user", &["name", "email"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("branch", &["remote", "merge", "rebase", "description"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote"]),
    ("merge", &["conflictstyle", "ff", "stat", "renamelimit"]),
    ("rebase", &["autosquash", "autostash"]),
    ("color", &["ui"]),
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
    (is_plain && HARMLESS.iter().any(|(known, _)| *known == name)).then_some(name)
}

fn is_harmless(section: &str, line: &str) -> bool {
    let (key, value) = line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
    let key = key.to_lowercase();
    let is_known = HARMLESS.iter().any(|(known, keys)| *known == section && keys.contains(&key.as_str()));
    // A branch may name a folder, or a program, as its remote.
    let leads_elsewhere = section == "branch" && key == "remote" && value.contains(['/', ':']);
    is_known && !leads_elsewhere && !value.ends_with('\\')
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
            "[gc]\n\trecentObjectsHook = path\n",
            "[color]\n\tpager = path\n",
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
