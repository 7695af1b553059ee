//! What a command has left by which a program outside would run something, or write elsewhere, later. What was there before is
//! mounted so that it cannot be changed; what was not is looked at when all of the command is dead. It is taken out of the
//! workspace, kept beside the session's own folders, and told.
//!
//! What was mounted can have been replaced by a program outside, and been changed then (`replaced.rs`).
//!
//! Whatever lies there may be a link: nothing is followed, and what is moved is reached through its open folder.

mod replaced;

pub(crate) use self::replaced::Before;
use crate::open::{names, open_as_named, open_below, plainly};
use crate::owed::{self, Owed};
use crate::plan::Plan;
use crate::search::{Came, Earlier, Found, Kind, Limit, Mark, changed_at, search};
use crate::tables;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, renameat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Moves out what has changed since `began`, when the command was started. Answers with what was done about it, a sentence each.
/// Deep in a large workspace it does not look at everything, which [`finish`] makes up for.
pub(crate) fn inspect(plan: &Plan, began: Mark, before: &Before) -> Vec<String> {
    let Some(mut inspection) = Inspection::of(plan, &plan.reach().workspace, began) else { return Vec::new() };
    inspection.replaced(before);
    inspection.tell_replaced(before);
    for name in tables::PROTECTED.iter().chain(tables::PROTECTED_AT_TOP) {
        inspection.unless_unchanged(Path::new(name), BELIEVED);
    }
    inspection.repository();
    if inspection.below(Limit::SHORT) == Extent::Cut && Owed::of(plan.reach(), began).write().is_err() {
        inspection.said.push(TOO_LARGE.to_owned());
    }
    inspection.included();
    let (mut said, mut moved) = (inspection.said, inspection.moved);
    // Of a linked worktree the git folder lies elsewhere, and can be written to as well.
    if let Some(mut common) = plan.common().and_then(|common| Inspection::of(plan, common, began)) {
        common.replaced(before);
        common.git(Path::new(""));
        common.included();
        said.append(&mut common.said);
        moved.append(&mut common.moved);
    }
    said.extend(moved_meanwhile(plan, began, &moved));
    said.extend(owed::to_tell(plan.reach()));
    said
}

/// The same of what git goes by and was replaced, while the command still runs.
pub(crate) fn inspect_replaced(plan: &Plan, began: Mark, before: &Before) -> Vec<String> {
    let roots = [Some(plan.reach().workspace.as_path()), plan.common()];
    let inspections = roots.into_iter().flatten().filter_map(|root| Inspection::of(plan, root, began));
    let said = inspections.map(|mut inspection| {
        inspection.replaced(before);
        inspection.said
    });
    said.flatten().collect()
}

/// Looks at everything, within that time if it is told one, where the inspection of the command that began then could not. It makes
/// up as well for earlier commands of which that is still owed. Answers with what was done, a sentence each.
pub(crate) fn finish(plan: &Plan, began: Mark, at_most: Option<Duration>) -> Vec<String> {
    let own = Owed::of(plan.reach(), began);
    if !own.is_written() {
        return Vec::new();
    }
    let Ok(_alone) = owed::alone(plan.reach()) else { return vec![TOO_LARGE.to_owned()] };
    let owed = Owed::all(plan.reach());
    // Another may have done it meanwhile.
    let Some(since) = owed.iter().map(|owed| owed.began).min().filter(|_| own.is_written()) else { return Vec::new() };
    let Some(mut inspection) = Inspection::of(plan, &plan.reach().workspace, since) else { return Vec::new() };
    match inspection.below(Limit::within(at_most)) {
        Extent::Whole => owed.into_iter().for_each(Owed::settle),
        Extent::Cut => inspection.said.push(TOO_LARGE.to_owned()),
    }
    inspection.said
}

/// The same where nobody waits for it any more: told when the next command has ended.
pub(crate) fn finish_later(plan: &Plan, began: Mark) {
    let said = finish(plan, began, None);
    // What was moved away is in its place, told or not.
    let _ = owed::tell_later(plan.reach(), &said);
}

/// What is said where a search was cut and nothing makes up for it at once.
const TOO_LARGE: &str = "the workspace is too large to be looked through: what was made deep in it by which git or an editor runs \
                         something has not been looked for, and will be when the next command has ended";

/// How much of the workspace was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Cut,
}

/// Why something protected does not stay.
const BELIEVED: &str = "other programs run or believe what is in it";
/// Why what leads git elsewhere does not.
const LEADS: &str = "git goes by what it points to";

/// The folder beside the session's own in which it is kept.
const QUARANTINE: &str = "quarantine";

/// Removes a folder that was private to a sandbox, except for what was moved away into it: that may be the user's own.
pub fn clear(private: &Path) -> io::Result<()> {
    for entry in fs::read_dir(private)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == QUARANTINE => {}
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    match fs::remove_dir(private) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

/// What other inspections have moved away since `began`: of commands that ran at the same time, any may have made it.
fn moved_meanwhile(plan: &Plan, began: Mark, own: &[PathBuf]) -> Vec<String> {
    let at = plan.reach().private.join(QUARANTINE);
    let folder = open_as_named(&at).ok().and_then(|folder| open_below(&folder, Path::new("")));
    let Some(folder) = folder else { return Vec::new() };
    let is_new = |name: &OsStr| changed_at(&folder, name).is_some_and(|changed| changed >= began);
    let others = names(&folder).into_iter().map(|(name, _)| name).filter(|name| is_new(name));
    let others = others.map(|name| at.join(name)).filter(|kept| !own.contains(kept));
    let told = others.map(|kept| {
        let shown = kept.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shown = shown.split_once('-').map_or(shown.as_str(), |(_, name)| name);
        let when = "was made or changed while the command ran, and moved away when another command ended";
        format!("{shown} {when}. It is kept in {}", kept.display())
    });
    told.collect()
}

struct Inspection<'p> {
    plan: &'p Plan,
    root: OwnedFd,
    /// Where `root` lies on the machine.
    base: PathBuf,
    began: Mark,
    /// When the session's own folders were made.
    session: Mark,
    /// How what is looked at now is judged.
    by: By,
    said: Vec<String>,
    /// Where what was moved away is kept.
    moved: Vec<PathBuf>,
}

/// How something is told from what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The plan has it, or it is new.
    Plan,
    /// Unless the plan has it: by the time when it was changed.
    Time,
    /// The same, since the session is there.
    Session,
}

/// Deeper than names of submodules go.
const DEEPEST: usize = 8;
/// Entries of one protected folder or git folder that are looked at.
const MOST_ENTRIES: usize = 20_000;

impl<'p> Inspection<'p> {
    fn of(plan: &'p Plan, base: &Path, began: Mark) -> Option<Self> {
        let root = open_as_named(base).ok()?;
        let session = plan.session_began().unwrap_or(began);
        let (said, moved) = (Vec::new(), Vec::new());
        Some(Self { plan, root, base: base.to_path_buf(), began, session, by: By::Plan, said, moved })
    }

    /// A folder, reached through no link; `None`: there is none.
    fn folder(&self, path: &Path) -> Option<OwnedFd> {
        open_below(&self.root, path)
    }

    /// What is at a path, in its folder; the last part may be a link.
    fn look<'a>(&self, path: &'a Path) -> Option<(OwnedFd, &'a OsStr, FileType)> {
        let (folder, name) = (self.folder(path.parent()?)?, path.file_name()?);
        let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((folder, name, FileType::from_raw_mode(found.st_mode)))
    }

    fn names(&self, path: &Path) -> Vec<PathBuf> {
        let names = self.folder(path).map(|folder| names(&folder)).unwrap_or_default();
        names.into_iter().map(|(name, _)| path.join(name)).collect()
    }

    /// Whether something is as it was when the command began.
    fn is_unchanged(&self, path: &Path) -> bool {
        self.plan.is_unchanged(&self.base.join(path)) || self.by != By::Plan && !self.has_changed(path)
    }

    /// Whether anything in it was changed, or came to its name, since the command began, or the session.
    fn has_changed(&self, path: &Path) -> bool {
        let since = if self.by == By::Session { self.session.min(self.began) } else { self.began };
        let mut next = vec![path.to_path_buf()];
        let mut entries = 0;
        while let Some(path) = next.pop() {
            entries += 1;
            let Some((folder, name, kind)) = self.look(&path) else { continue };
            if entries > MOST_ENTRIES || changed_at(&folder, name).is_none_or(|changed| changed >= since) {
                return true;
            }
            if kind == FileType::Directory {
                next.extend(self.names(&path));
            }
        }
        false
    }

    /// Moves away what was not there before, or was something else.
    fn unless_unchanged(&mut self, path: &Path, why: &str) {
        if self.look(path).is_some() && !self.is_unchanged(path) {
            self.move_out(path, why);
        }
    }

    /// What a configuration of git includes, which a command cannot change itself.
    fn included(&mut self) {
        for path in self.plan.included(&self.base) {
            self.unless_unchanged(path, "git takes its settings from it, and runs the programs that they name");
        }
    }

    /// Whatever lies deeper than the top.
    fn below(&mut self, limit: Limit) -> Extent {
        let folders: HashSet<u64> = self.plan.searched().into_iter().flatten().copied().collect();
        // Where not every folder was seen before, one that was not seen need not be new.
        let earlier = self.plan.searched().map(|_| Earlier { folders: &folders, began: self.began });
        let search = search(&self.root, &self.base, earlier, limit);
        let git_folders: Vec<PathBuf> =
            search.found.iter().filter(|found| found.kind == Kind::Git).map(|found| found.path.clone()).collect();
        for Found { path, kind, came } in search.found {
            self.by = match came {
                Came::No => By::Time,
                Came::Perhaps => By::Session,
                Came::Yes => By::Plan,
            };
            match kind {
                Kind::Protected => self.unless_unchanged(&path, BELIEVED),
                Kind::Git => self.git(&path),
                Kind::GitLink if self.is_of_known(&path, &git_folders) => {}
                Kind::GitLink => self.unless_unchanged(&path, LEADS),
                Kind::Unreadable => self.unless_unchanged(&path, "it cannot be read, and may hold what git goes by"),
            }
        }
        self.by = By::Plan;
        if search.is_cut { Extent::Cut } else { Extent::Whole }
    }

    /// Whether a file names the git folder of a worktree or a submodule that is looked at, too.
    fn is_of_known(&self, path: &Path, git_folders: &[PathBuf]) -> bool {
        let text = self.text(path);
        let Some(named) = text.strip_prefix("gitdir:").map(|named| Path::new(named.trim())) else { return false };
        let named = plainly(&self.base.join(path.parent().unwrap_or(Path::new(""))).join(named));
        let top = self.base.join(".git");
        let known = git_folders.iter().map(|folder| self.base.join(folder)).chain([top]);
        known.chain(self.plan.common().map(Path::to_path_buf)).any(|known| {
            let Ok(below) = named.strip_prefix(&known) else { return false };
            let mut parts = below.components().map(Component::as_os_str);
            let is_looked_at = parts.next().is_some_and(|kind| kind == "worktrees" || kind == "modules");
            let names: Vec<&OsStr> = parts.collect();
            is_looked_at && names.len() <= DEEPEST && !names.iter().any(|name| is_inner(Some(name)))
        })
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

    fn quarantine(&mut self, folder: &OwnedFd, name: &OsStr) -> io::Result<String> {
        let at = self.plan.reach().private.join(QUARANTINE);
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
            other => {
                other?;
                let shown = kept.display().to_string();
                self.moved.push(kept);
                Ok(shown)
            }
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
            Some(_) => self.unless_unchanged(dot_git, LEADS),
            None => {}
        }
    }

    fn git(&mut self, folder: &Path) {
        let elsewhere = "git goes by the configuration of the folder that it names";
        self.unless_unchanged(&folder.join("commondir"), elsewhere);
        self.settings(folder);
        self.within(folder);
        for name in ["worktrees", "modules"] {
            let below = folder.join(name);
            match self.look(&below) {
                Some((_, _, FileType::Directory)) => self.repositories_in(&below, 0),
                Some(_) => self.unless_unchanged(&below, LEADS),
                None => {}
            }
        }
        self.unseen_worktrees(&folder.join("worktrees"));
    }

    /// Says which worktrees the command has added where a sandbox shows a folder of its own: git outside finds nothing there.
    fn unseen_worktrees(&mut self, folder: &Path) {
        for own in self.names(folder) {
            let names_it = own.join("gitdir");
            let text = self.text(&names_it);
            let dot_git = plainly(&self.base.join(&own).join(text.trim_end()));
            let Some(tree) = dot_git.parent().filter(|_| !text.is_empty()) else { continue };
            if fs::symlink_metadata(tree).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
                && self.has_changed(&names_it)
            {
                self.said.push(format!(
                    "the worktree {} is outside the workspace, and only there for commands in the sandbox of this session: what is in \
                     it is lost with the session, except for its commits. Remove it, and add it in the workspace, or outside the \
                     sandbox",
                    tree.display()
                ));
            }
        }
    }

    /// Submodules are named by their path, folders included.
    fn repositories_in(&mut self, folder: &Path, depth: usize) {
        if self.folder(folder).is_none() {
            self.move_out(folder, "it cannot be read, and git goes by what is in it");
            return;
        }
        let is_one = self.look(&folder.join("HEAD")).is_some();
        for path in self.names(folder) {
            match self.look(&path) {
                Some((_, _, FileType::Directory)) if is_one && is_inner(path.file_name()) => {}
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
                    // A submodule of a submodule lies in that one's folder, and so may anything that only looks like one.
                    self.repositories_in(&path, depth + 1);
                }
                Some((_, _, FileType::RegularFile)) | None => {}
                Some(_) => self.unless_unchanged(&path, LEADS),
            }
        }
    }

    /// What else of a git folder leads git to another place, or has it run something: none of it can be mounted, since git makes
    /// and replaces it itself.
    fn within(&mut self, folder: &Path) {
        let by = self.by;
        if by == By::Plan && self.plan.is_unchanged(&self.base.join(folder)) {
            self.by = By::Time;
        }
        let mut next = vec![folder.to_path_buf()];
        let mut entries = 0;
        while let Some(path) = next.pop() {
            let Some(open) = self.folder(&path) else { continue };
            for (name, kind) in names(&open) {
                entries += 1;
                let path = path.join(&name);
                match kind {
                    FileType::Symlink => self.unless_unchanged(&path, "git writes where it leads"),
                    // Objects are many, and by none of them git goes elsewhere; their folders are looked at.
                    FileType::Directory if entries < MOST_ENTRIES && !is_full_of_objects(&path) => next.push(path),
                    FileType::RegularFile if name == "git-rebase-todo" || path.ends_with("sequencer/todo") => {
                        self.todo(&path);
                    }
                    FileType::RegularFile if path.ends_with("rebase-merge/strategy") => self.strategy(&path),
                    FileType::RegularFile if path.ends_with("sequencer/opts") => self.options(&path),
                    FileType::RegularFile if path.ends_with("info/alternates") => self.alternates(&path),
                    _ => {}
                }
            }
        }
        self.by = by;
    }

    /// A rebase in progress goes on, without what it would have run.
    fn todo(&mut self, path: &Path) {
        let text = self.text(path);
        let runs = |line: &&str| matches!(line.split_whitespace().next(), Some("exec" | "x"));
        if text.lines().any(|line| runs(&line)) && !self.is_unchanged(path) {
            let kept: String = text.split_inclusive('\n').filter(|line| !runs(line)).collect();
            self.replace(path, &kept, "`git rebase --continue` runs its exec lines; the rebase goes on without them");
        }
    }

    /// Any other name is that of a program.
    fn strategy(&mut self, path: &Path) {
        if !STRATEGIES.contains(&self.text(path).trim()) {
            self.unless_unchanged(path, "git runs the program that it names");
        }
    }

    /// How a cherry-pick in progress goes on.
    fn options(&mut self, path: &Path) {
        let text = self.text(path);
        let settings = text.lines().filter_map(|line| line.split_once('='));
        let named = settings.filter(|(key, _)| key.trim().eq_ignore_ascii_case("strategy"));
        if named.map(|(_, value)| value.trim().trim_matches('"')).any(|named| !STRATEGIES.contains(&named)) {
            self.unless_unchanged(path, "git runs the program that it names");
        }
    }

    /// Where git reads objects, too; and a push would send them.
    fn alternates(&mut self, path: &Path) {
        let text = self.text(path);
        let objects = self.base.join(path.parent().and_then(Path::parent).unwrap_or(Path::new("")));
        let is_within = |line: &str| {
            let named = plainly(&objects.join(line.trim()));
            named.starts_with(&self.plan.reach().workspace) || named.starts_with(&self.base)
        };
        if text.is_empty() || !text.lines().all(is_within) {
            self.unless_unchanged(path, "git reads objects where it points to");
        }
    }

    /// By what git runs programs.
    fn settings(&mut self, folder: &Path) {
        self.unless_unchanged(&folder.join("config.worktree"), "git runs the programs that it names");
        self.unless_unchanged(&folder.join("info/attributes"), "git runs the filters that it names");
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
        if !self.is_unchanged(folder) {
            self.hooks_in(folder);
        }
    }

    fn hooks_in(&mut self, folder: &Path) {
        match self.look(folder) {
            None => {}
            Some((_, _, FileType::Directory)) if self.folder(folder).is_none() => {
                self.move_out(folder, "git runs what is in it, and it cannot be read");
            }
            Some((_, _, FileType::Directory)) => {
                for path in self.names(folder) {
                    let is_file = matches!(self.look(&path), Some((_, _, FileType::RegularFile)));
                    let is_sample = is_file && path.extension().is_some_and(|end| end == "sample");
                    let is_new = self.by == By::Plan || self.has_changed(&path);
                    if is_new && !is_sample {
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
        if self.look(path).is_some() && !self.is_unchanged(path) {
            self.config_beside(path, "");
        }
    }

    /// The same where some of it was there before.
    fn config_beside(&mut self, path: &Path, before: &str) {
        let text = self.text(path);
        let harmless = harmless_beside(&text, before);
        if !text.is_empty() && harmless == text {
            return;
        }
        self.replace(path, &harmless, "git runs the programs that it names, or asks elsewhere");
    }

    /// Moves a file out, and writes what of it is harmless in its place.
    fn replace(&mut self, path: &Path, harmless: &str, why: &str) {
        if !self.move_out(path, why) {
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

/// The strategies of a merge that are git's own.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// A folder of a git folder in which no other lies: files in it have any names, and none of them is a configuration.
fn is_inner(name: Option<&OsStr>) -> bool {
    ["objects", "refs", "logs", "info", "hooks", "lfs", "rr-cache"].iter().any(|inner| name == Some(OsStr::new(inner)))
}

/// A folder of loose objects or of packs.
fn is_full_of_objects(path: &Path) -> bool {
    let is_in_objects = path.parent().is_some_and(|above| above.ends_with("objects"));
    // A branch may be called so as well.
    let is_ref = path.components().any(|part| ["refs", "logs"].iter().any(|name| part.as_os_str() == *name));
    is_in_objects && !is_ref && path.file_name().is_some_and(|name| name != "info")
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
    ("remote", &["url", "pushurl", "fetch", "tagopt", "prune"]),
    ("submodule", &["url", "active"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote"]),
    ("merge", &["conflictstyle", "ff", "stat", "renamelimit"]),
    ("rebase", &["autosquash", "autostash"]),
    ("color", &["ui"]),
];

/// The lines that say nothing else, and those that stood in the same section before. Only the plainest form of a line is taken: what git
/// would read in another way is left out.
fn harmless_beside(text: &str, before: &str) -> String {
    let known: HashSet<(&str, &str)> = in_sections(before).map(|(section, line)| (section, line.trim())).collect();
    let mut kept = String::new();
    let mut section: Option<String> = None;
    for (at, line) in in_sections(text) {
        let words = line.trim();
        let stays = if let Some(inner) = words.strip_prefix('[') {
            section = inner.strip_suffix(']').and_then(section_of);
            section.is_some() || known.contains(&(at, words))
        } else if known.contains(&(at, words)) || words.is_empty() || words.starts_with(['#', ';']) {
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

/// Its lines, each with the line that its section begins with.
fn in_sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_inclusive('\n').scan("", |section, line| {
        let words = line.trim();
        if words.starts_with('[') {
            *section = words;
        }
        Some((*section, line))
    })
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
    let is_meant = match (section, key.as_str()) {
        // A branch may name a folder, or a program, as its remote.
        ("branch", "remote") => !value.contains(['/', ':']),
        ("remote" | "submodule", "url" | "pushurl") => is_address(value),
        _ => true,
    };
    is_known && is_meant && !value.ends_with('\\')
}

/// Whether git goes to an address by itself, without a program that the address names: `ext::…` is a command, and `x::…` and
/// `x://…` start `git-remote-x`.
fn is_address(value: &str) -> bool {
    const SCHEMES: [&str; 6] = ["https", "http", "ssh", "git", "file", "git+ssh"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:@+%=,".contains(c);
    if value.is_empty() || value.contains("::") || !value.chars().all(is_plain) {
        return false;
    }
    let rest = match value.split_once("://") {
        Some((scheme, rest)) if SCHEMES.contains(&scheme) => rest,
        Some(_) => return false,
        None => value,
    };
    // The name of a host, or of a path, that ssh would take for an option.
    !rest.split(['/', ':', '@']).any(|part| part.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_configuration_only_plain_and_harmless_lines_stay() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = A\n";
        assert_eq!(harmless_beside(fresh, ""), fresh);
        let cloned = "[remote \"origin\"]\n\turl = https://me@example.org/a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                      [remote \"two\"]\n\turl = git@example.org:a/b.git\n[remote \"three\"]\n\turl = /srv/a.git\n\
                      [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[submodule \"m\"]\n\tactive = true\n";
        assert_eq!(harmless_beside(cloned, ""), cloned);
        for evil in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core] fsmonitor = touch x\n",
            "[CORE]\n\tHooksPath = x\n",
            "[alias]\n\tst = !x\n",
            "[include]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\turl = ext::x\n",
            "[remote \"o\"]\n\tpushurl = ext::x\n",
            "[remote \"o\"]\n\turl = ext://x\n",
            "[remote \"o\"]\n\turl = \"ext::x\"\n",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y\n",
            "[remote \"o\"]\n\tvcs = ext\n",
            "[remote \"o\"]\n\tuploadpack = program\n",
            "[submodule \"m\"]\n\tupdate = !x\n",
            "[url \"ext::x\"]\n\tinsteadOf = https://a\n",
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
            let kept = harmless_beside(evil, "");
            for word in [
                "fsmonitor",
                "HooksPath",
                "!x",
                "path",
                "clean",
                "ext:",
                "vcs",
                "Proxy",
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
