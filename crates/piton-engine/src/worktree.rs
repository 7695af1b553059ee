//! Git worktrees of subagents: a checkout below the data folder, on a branch of its own, so that what one changes is in nobody's way.
//! One in which nothing changed is removed when its subagent is over; any other is kept and named.
//!
//! ```text
//!   worktrees/ses_…/tree    the checkout, on the branch piton/…
//!   worktrees/ses_…/base    the commit it was made of, and the folder in it; written last, so that half a worktree is made anew
//! ```

use piton_core::ids::SessionId;
use piton_tools::private;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Changed files that are named.
const NAMED: usize = 20;

/// The worktree of a subagent, whether or not it is there.
#[derive(Debug, Clone)]
pub(crate) struct Worktree {
    folder: PathBuf,
    /// The folder that its caller works in.
    of: PathBuf,
    branch: String,
    env: Env,
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
    /// That of this session, whose caller works in `of`; git is run with `env`.
    pub(crate) fn new(data_dir: &Path, session: &SessionId, of: &Path, env: Env) -> Self {
        let name = session.as_str();
        let branch = format!("piton/{}", name.strip_prefix("ses_").unwrap_or(name));
        Self { folder: data_dir.join("worktrees").join(name), of: of.to_path_buf(), branch, env }
    }

    /// Whether a session that works in this folder works in it.
    pub(crate) fn holds(&self, workspace: &Path) -> bool {
        workspace.starts_with(&self.folder)
    }

    /// Makes it where it never was, and answers the folder to work in; otherwise why there is none. Blocks its thread.
    pub(crate) fn open(&self) -> Result<PathBuf, String> {
        let (tree, branch) = (self.tree(), &self.branch);
        if let Some((_, prefix)) = self.base() {
            return match tree.join(".git").exists() {
                true => Ok(tree.join(prefix)),
                false => Err(format!(
                    "its worktree {} is gone; what was committed in it is on the branch {branch}, if that is there",
                    tree.display()
                )),
            };
        }
        let here = self.of.as_path();
        let prefix = self.git(here, &["rev-parse", "--show-prefix"]).map_err(|said| {
            format!("`isolation: worktree` needs a git repository, and {} is in none ({said})", here.display())
        })?;
        let base = self.git(here, &["rev-parse", "--verify", "HEAD^{commit}"]).map_err(|said| {
            format!("`isolation: worktree` needs a commit, and this repository has none yet ({said})")
        })?;
        // Of a process that was killed while it made it: nobody has worked in it.
        self.remove();
        private::make_folder(&self.folder).map_err(|error| format!("its worktree cannot be made: {error}"))?;
        let path = tree.to_string_lossy();
        self.git(here, &["worktree", "add", "--quiet", "-b", branch, &path, &base])
            .map_err(|said| format!("its worktree cannot be made: {said}"))?;
        private::write(&self.folder.join("base"), format!("{base}\n{prefix}").as_bytes())
            .map_err(|error| format!("its worktree cannot be made: {error}"))?;
        Ok(tree.join(prefix))
    }

    /// Removes it where nothing was changed in it; otherwise answers what there is. Blocks its thread.
    pub(crate) fn close(&self) -> Option<Kept> {
        let (base, _) = self.base()?;
        let tree = self.tree();
        let kept = |files| Some(Kept { path: tree.clone(), branch: self.branch.clone(), files });
        let uncommitted = self.git(&tree, &["status", "--porcelain", "--no-renames", "--untracked-files=all", "-z"]);
        let committed = self.git(&tree, &["diff", "--name-only", "--no-renames", "-z", &base, "HEAD"]);
        let is_at_base = self.git(&tree, &["rev-parse", "HEAD"]).is_ok_and(|head| head == base);
        let (Ok(uncommitted), Ok(committed)) = (uncommitted, committed) else {
            // What cannot be looked at is not known to be empty.
            return tree.exists().then(|| kept(Vec::new())).flatten();
        };
        let uncommitted = uncommitted.split('\0').filter_map(|line| line.get(3..));
        let files: BTreeSet<&str> = uncommitted.chain(committed.split('\0')).filter(|name| !name.is_empty()).collect();
        if !files.is_empty() || !is_at_base {
            return kept(files.into_iter().map(str::to_owned).collect());
        }
        self.remove();
        None
    }

    /// Removes all of it.
    fn remove(&self) {
        let tree = self.tree();
        // Without the mark it is made anew, whatever of it is left.
        let _ = fs::remove_file(self.folder.join("base"));
        let _ = self.git(&self.of, &["worktree", "remove", "--force", "--force", &tree.to_string_lossy()]);
        let _ = fs::remove_dir_all(&self.folder);
        let _ = self.git(&self.of, &["worktree", "prune"]);
        let _ = self.git(&self.of, &["branch", "--quiet", "-D", &self.branch]);
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The commit that it was made of, and the folder in it that its caller works in.
    fn base(&self) -> Option<(String, String)> {
        let text = fs::read_to_string(self.folder.join("base")).ok()?;
        let (base, prefix) = text.split_once('\n')?;
        Some((base.to_owned(), prefix.to_owned()))
    }

    /// What git answers; otherwise the first line of its complaint. It runs nothing that the repository names.
    fn git(&self, at: &Path, words: &[&str]) -> Result<String, String> {
        const PLAIN: [&str; 7] =
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];
        let spawn = Spawn::new(PLAIN.iter().chain(words).copied(), &self.env, at, Confinement::User);
        let spawn = spawn.with("GIT_TERMINAL_PROMPT", "0").with("LC_ALL", "C");
        let child = spawn.start(Group::Own, Streams::caught()).map_err(|error| error.to_string())?;
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said.lines().next().unwrap_or("git failed").to_owned())
    }
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
