//! Git worktrees of subagents: a checkout below the data folder, on a branch of its own, so that what one changes is in nobody's way.
//! One in which nothing changed is removed when its subagent is over; any other is kept and named.
//!
//! ```text
//!   worktrees/ses_…/ses_…   the checkout, on the branch piton/…
//!   worktrees/ses_…/private what a sandbox of git keeps
//!   worktrees/ses_…/base    the commit it was made of, and the folder in it; written last, so that half a worktree is made anew
//!   worktrees/.lock         who makes or removes one holds it: git takes another's half a worktree for a broken repository
//! ```
//!
//! Git calls a worktree by its last name, so what a killed git has left of it in the repository is found, and known to be ours.

use crate::settings::{SandboxSettings, Settings};
use piton_core::ids::SessionId;
use piton_tools::private;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams, output_within};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Changed files that are named.
const NAMED: usize = 20;

/// The longest that git may take: a checkout of a large repository on a slow disk.
const GIT_TIME: Duration = Duration::from_secs(10 * 60);

/// In the folder of one that is whole.
const MARK: &str = "base";

/// How often a worktree is tried to be made, and how long after a failure.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The worktree of a subagent, whether or not it is there.
#[derive(Debug, Clone)]
pub(crate) struct Worktree {
    folder: PathBuf,
    /// The folder that its caller works in.
    of: PathBuf,
    branch: String,
    env: Env,
    /// How git is run in the checkout: as the subagent's own commands are, since what it left there can have git run programs.
    confinement: Confinement,
}

/// A worktree that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its branch.
    pub(crate) branch: String,
    /// What differs in it from the commit that it was made of.
    pub(crate) files: Vec<String>,
}

impl Worktree {
    /// That of this session, whose caller works in `of` and is run with these settings.
    pub(crate) fn new(data_dir: &Path, session: &SessionId, of: &Path, settings: &Settings) -> Self {
        let name = session.as_str();
        let branch = format!("piton/{}", name.strip_prefix("ses_").unwrap_or(name));
        let folder = data_dir.join("worktrees").join(name);
        let path = settings.env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
        let confined =
            |sandbox: &SandboxSettings| sandbox.confinement(&folder.join(name), folder.join("private"), path, [], None);
        let confinement = settings.sandbox.as_ref().map_or(Confinement::Model, confined);
        let env = Arc::clone(&settings.env);
        Self { of: of.to_path_buf(), branch, env, confinement, folder }
    }

    /// Whether a session that works in this folder works in it.
    pub(crate) fn holds(&self, workspace: &Path) -> bool {
        workspace.starts_with(&self.folder)
    }

    /// Makes it where it never was, and answers the folder to work in; otherwise why there is none. Blocks its thread.
    pub(crate) fn open(&self) -> Result<PathBuf, String> {
        if self.base().is_some() {
            return self.open_again();
        }
        let here = self.of.as_path();
        let prefix = self.git(here, &["rev-parse", "--show-prefix"]).map_err(|said| {
            format!("`isolation: worktree` needs a git repository, and {} is in none ({said})", here.display())
        })?;
        let base = self.git(here, &["rev-parse", "--verify", "HEAD^{commit}"]).map_err(|said| {
            format!("`isolation: worktree` needs a commit, and this repository has none yet ({said})")
        })?;
        let failed = |said: String| format!("its worktree cannot be made: {said}");
        let unmade = |error: io::Error| format!("its worktree cannot be made: {error}");
        let _alone = self.alone().map_err(unmade)?;
        let mut tries = 1;
        loop {
            // Of a process that was killed while it made it: nobody has worked in it.
            if self.folder.exists() {
                self.remove();
            } else {
                self.forget_unmarked();
            }
            private::make_folder(&self.folder).map_err(unmade)?;
            match self.check_out(&base) {
                Ok(()) => break,
                // Its git may still be at work, or somebody's who makes one of their own.
                Err(_) if tries < TRIES => {
                    tries += 1;
                    thread::sleep(TRY_AGAIN);
                }
                Err(said) => return Err(failed(said)),
            }
        }
        // Durable before anybody works in it: without it the worktree counts as never made.
        private::write_durably(&self.mark(), format!("{base}\n{prefix}").as_bytes()).map_err(unmade)?;
        Ok(self.tree().join(prefix))
    }

    fn check_out(&self, base: &str) -> Result<(), String> {
        let (tree, branch) = (self.tree(), &self.branch);
        let path = tree.to_string_lossy();
        // Nothing is checked out by that: what a checkout runs is for the sandbox. `-B`, since the branch is there where a git that
        // was killed has left a lock by which it cannot be deleted.
        self.git(&self.of, &["worktree", "add", "--quiet", "--no-checkout", "-B", branch, &path, base])?;
        self.git_inside(&["reset", "--quiet", "--hard"])?;
        Ok(())
    }

    /// Until it is dropped no other Piton makes or removes a worktree.
    fn alone(&self) -> io::Result<File> {
        let all = self.folder.parent().unwrap_or(&self.folder);
        private::make_folder(all)?;
        let lock = File::options().create(true).append(true).open(all.join(".lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The folder to work in of one that was made before. Blocks its thread.
    pub(crate) fn open_again(&self) -> Result<PathBuf, String> {
        let (tree, branch) = (self.tree(), &self.branch);
        match self.base() {
            Some((_, prefix)) if tree.join(".git").exists() => Ok(tree.join(prefix)),
            _ => Err(format!(
                "its worktree {} is gone; what was committed in it is on the branch {branch}, if that is there",
                tree.display()
            )),
        }
    }

    /// Removes it where nothing was changed in it; otherwise answers what there is. Blocks its thread.
    pub(crate) fn close(&self) -> Option<Kept> {
        if is_unmarked(&self.folder) {
            // Whoever removed it was killed half-way; or made it, and nobody has worked in it.
            self.remove_alone();
            return None;
        }
        let (base, _) = self.base()?;
        let tree = self.tree();
        let kept = |files| Some(Kept { path: tree.clone(), branch: self.branch.clone(), files });
        // What git ignores is somebody's work, too: a report, a build that was asked for.
        let status = ["status", "--porcelain", "--no-renames", "--untracked-files=all", "--ignored", "-z"];
        let uncommitted = self.git_inside(&status);
        let committed = self.git_inside(&["diff", "--name-only", "--no-renames", "-z", &base, "HEAD"]);
        let is_at_base = self.git_inside(&["rev-parse", "HEAD"]).is_ok_and(|head| head == base);
        let (Ok(uncommitted), Ok(committed)) = (uncommitted, committed) else {
            // What cannot be looked at is not known to be empty.
            return tree.exists().then(|| kept(Vec::new())).flatten();
        };
        let uncommitted = uncommitted.split('\0').filter_map(|line| line.get(3..));
        let files: BTreeSet<&str> = uncommitted.chain(committed.split('\0')).filter(|name| !name.is_empty()).collect();
        if !files.is_empty() || !is_at_base {
            return kept(files.into_iter().map(str::to_owned).collect());
        }
        self.remove_alone();
        None
    }

    fn remove_alone(&self) {
        // Where there is no lock, git's own have to do.
        let _alone = self.alone();
        self.remove();
    }

    /// Removes all of it. Whatever kills this half-way leaves a folder without the mark, of which the rest is removed later.
    fn remove(&self) {
        let _ = fs::remove_file(self.mark());
        let _ = fs::remove_dir_all(self.tree());
        self.forget_unmarked();
        let _ = self.git(&self.of, &["branch", "--quiet", "-D", &self.branch]);
        // Last: where it is gone, the branch may be all that a person has kept of it.
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Has the repository forget those of ours that are not whole, this one included: git says of half a worktree only that it is broken,
    /// and goes by none of the others then.
    fn forget_unmarked(&self) {
        let Ok(common) = self.git(&self.of, &["rev-parse", "--git-common-dir"]) else { return };
        let common = self.of.join(common);
        // Nobody but us changes this branch now.
        let _ = fs::remove_file(common.join(format!("refs/heads/{}.lock", self.branch)));
        let known = common.join("worktrees");
        for entry in fs::read_dir(&known).into_iter().flatten().flatten() {
            let ours = self.folder.with_file_name(entry.file_name());
            if is_unmarked(&ours) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        // As git does: only where it was the last.
        let _ = fs::remove_dir(known);
    }

    fn mark(&self) -> PathBuf {
        self.folder.join(MARK)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join(self.folder.file_name().unwrap_or_default())
    }

    /// The commit that it was made of, and the folder in it that its caller works in.
    fn base(&self) -> Option<(String, String)> {
        let text = fs::read_to_string(self.mark()).ok()?;
        let (base, prefix) = text.split_once('\n')?;
        Some((base.to_owned(), prefix.to_owned()))
    }

    /// What git answers in the checkout, or the first line of its complaint.
    fn git_inside(&self, words: &[&str]) -> Result<String, String> {
        self.run(&self.tree(), words, self.confinement.clone())
    }

    /// The same in the folder of its caller, for words by which git reads no file of the work tree: it runs no program then.
    fn git(&self, at: &Path, words: &[&str]) -> Result<String, String> {
        self.run(at, words, Confinement::User)
    }

    fn run(&self, at: &Path, words: &[&str], confinement: Confinement) -> Result<String, String> {
        const PLAIN: [&str; 7] =
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];
        let spawn = Spawn::new(PLAIN.iter().chain(words).copied(), &self.env, at, confinement);
        let spawn = spawn.with("GIT_TERMINAL_PROMPT", "0").with("LC_ALL", "C");
        let child = spawn.start(Group::Own, Streams::caught()).map_err(|error| error.to_string())?;
        let output = output_within(GIT_TIME, child).map_err(|error| error.to_string())?;
        let output = output.ok_or_else(|| format!("git took more than {} minutes", GIT_TIME.as_secs() / 60))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said.lines().next().unwrap_or("git failed").to_owned())
    }
}

/// Whether something of a worktree is there without the mark that it is whole.
fn is_unmarked(folder: &Path) -> bool {
    folder.exists() && matches!(folder.join(MARK).try_exists(), Ok(false))
}

impl Kept {
    /// It, for whoever reads the subagent's answer.
    pub(crate) fn words(&self) -> String {
        let Self { path, branch, files } = self;
        let mut named = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if let Some(more) = files.len().checked_sub(NAMED).filter(|more| *more > 0) {
            named.push_str(&format!(" and {more} more"));
        }
        let changed = if named.is_empty() { "no file differs".to_owned() } else { format!("changed: {named}") };
        format!("\n[worktree: {} on branch {branch}; {changed}]", path.display())
    }
}
