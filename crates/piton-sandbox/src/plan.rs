//! Which mounts follow from a [`Reach`] on this machine, in the order in which they are made.

use crate::around;
use crate::mount::{Access, Mount, Source};
use crate::named;
use crate::open::open_as_named;
use crate::reach::{Backend, Reach, Write};
use crate::search::{Kind, Limit, Mark, search};
use crate::split::Split;
use crate::tables;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many plans this process has handed over.
static HANDED: AtomicU64 = AtomicU64::new(0);

/// All that a command sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What stands where; what is below another comes after it.
    pub mounts: Vec<Mount>,
    /// What it was made of.
    reach: Reach,
    /// What was found at each path that decided something.
    found: Vec<(PathBuf, Option<Identity>)>,
    /// Folders of which each entry was looked at, and a hash of the names.
    listed: Vec<(PathBuf, u64)>,
    /// Inodes of the folders of the workspace that were searched for repositories and protected names; `None`: a limit ended
    /// the search before all were.
    searched: Option<Vec<u64>>,
    /// The git folder outside of the workspace that git in it works with: of the repository around it, of the one of which it is a
    /// linked worktree, or its own as a submodule.
    common: Option<PathBuf>,
    /// Files that a configuration of git includes and a command could make, and links on the way to them.
    included: Vec<PathBuf>,
    /// What was there and may be the making of another command, which still runs.
    meanwhile: Vec<PathBuf>,
}

/// Which file or folder something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    is_folder: bool,
    is_link: bool,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino(), is_folder: meta.is_dir(), is_link: meta.is_symlink() })
    }
}

impl Plan {
    /// Looks at the machine.
    pub fn of(reach: &Reach) -> Self {
        let mut plan = Self {
            mounts: Vec::new(),
            reach: reach.clone(),
            found: Vec::new(),
            listed: Vec::new(),
            searched: None,
            common: None,
            included: Vec::new(),
            meanwhile: Vec::new(),
        };
        plan.system();
        plan.home();
        plan.programs();
        plan.workspace();
        for path in &reach.read {
            plan.machine(path, false);
        }
        for path in &reach.keep {
            plan.machine(path, reach.write == Write::Workspace);
        }
        // Last, since the later of two at the same place is seen.
        let theirs = plan.mounts.iter().filter_map(|mount| tables::home_of(&mount.at));
        let homes: BTreeSet<&Path> = theirs.chain([reach.home.as_path()]).collect();
        let credentials: Vec<PathBuf> = homes.into_iter().flat_map(tables::credentials).collect();
        plan.hide(&credentials);
        plan.hide(&reach.hidden);
        match reach.backend {
            Backend::Namespaces => {}
            Backend::Landlock => plan.grant(),
        }
        // What is mounted over a folder hides what was mounted in it before.
        plan.mounts.sort_by_key(|mount| mount.at.components().count());
        plan
    }

    /// The same beside commands that run already: what was not there when these began, one of them may have made, and whoever ends
    /// first has it moved away.
    #[must_use]
    pub fn beside<'p>(mut self, others: impl IntoIterator<Item = &'p Self>) -> Self {
        for other in others {
            let absent = other.found.iter().filter(|(_, identity)| identity.is_none()).map(|(path, _)| path);
            let is_new = |path: &&PathBuf| self.found.iter().any(|(found, now)| found == *path && now.is_some());
            let new: Vec<PathBuf> = absent.chain(&other.meanwhile).filter(is_new).cloned().collect();
            self.meanwhile.extend(new);
        }
        self
    }

    /// Whether all is still where it was found. What is asked next must be asked of a plan that is true.
    pub fn is_true(&self) -> bool {
        self.found.iter().all(|(path, identity)| Identity::of(path) == *identity)
            && self.listed.iter().all(|(folder, names)| names_in(folder) == *names)
    }

    /// Whether it was made for this reach.
    pub fn is_for(&self, reach: &Reach) -> bool {
        self.reach == *reach
    }

    /// Whether what is at a path is not of the command's making: a mount kept it from changes, or it is a link that is the same.
    pub(crate) fn is_unchanged(&self, path: &Path) -> bool {
        if self.meanwhile.iter().any(|made| made == path) {
            return false;
        }
        let before = self.found.iter().find_map(|(found, identity)| identity.filter(|_| found == path));
        before.is_some_and(|before| !before.is_link || Identity::of(path) == Some(before))
    }

    /// What is mounted so that a command cannot change it, where it could have made something: in the workspace, and in the git folder
    /// outside of it.
    pub(crate) fn protected(&self) -> impl Iterator<Item = &Path> {
        let workspace = self.reach.workspace.as_path();
        let roots = [Some(workspace), self.common.as_deref()];
        let is_within = move |path: &Path| roots.iter().flatten().any(|root| path.starts_with(root) && path != *root);
        self.mounts.iter().filter_map(move |mount| match &mount.source {
            Source::Machine { from, write: false } if *from == mount.at && is_within(from) => Some(from.as_path()),
            _ => None,
        })
    }

    /// Whether something else is at a path than when the machine was looked at.
    pub(crate) fn is_other(&self, path: &Path) -> bool {
        let before = self.found.iter().find_map(|(found, identity)| identity.filter(|_| found == path));
        before.is_some_and(|before| Identity::of(path) != Some(before))
    }

    /// The folders that were searched, where all were.
    pub(crate) fn searched(&self) -> Option<&[u64]> {
        self.searched.as_deref()
    }

    /// When the session's own folders were made; `None` where the file system does not tell.
    pub(crate) fn session_began(&self) -> Option<Mark> {
        let since = born(&self.reach.private)?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((i64::try_from(since.as_secs()).ok()?, since.subsec_nanos().into()))
    }

    /// The git folder outside of the workspace that git in it works with.
    pub(crate) fn common(&self) -> Option<&Path> {
        self.common.as_deref()
    }

    /// Files in a folder that a configuration of git includes.
    pub(crate) fn included(&self, folder: &Path) -> Vec<&Path> {
        self.included.iter().filter_map(|path| path.strip_prefix(folder).ok()).collect()
    }

    /// Where on the machine something lies that the sandbox shows at a path.
    pub fn on_machine(&self, path: &Path) -> PathBuf {
        let shows = |mount: &&Mount| path.starts_with(&mount.at);
        match self.mounts.iter().rfind(shows) {
            Some(Mount { at, source: Source::Machine { from, .. } }) => {
                // What joins nothing gets a slash, and is a folder then.
                let below = path.strip_prefix(at).ok().filter(|below| !below.as_os_str().is_empty());
                below.map_or_else(|| from.clone(), |below| from.join(below))
            }
            _ => path.to_path_buf(),
        }
    }

    /// What the sandbox allows with something that lies at a path of the machine. The path is real: without links.
    pub fn access(&self, path: &Path) -> Access {
        let place = |mount: &Mount| match &mount.source {
            Source::Machine { from, write } => Some((from.clone(), if *write { Access::Write } else { Access::Read })),
            // What a command has written to one is elsewhere.
            Source::Cache { from } => Some((from.clone(), Access::Read)),
            Source::EmptyFolder | Source::EmptyFile => Some((mount.at.clone(), Access::None)),
            // What is new in the workspace is made there by Piton's own tools alone.
            Source::Names if mount.at.starts_with(&self.reach.workspace) => {
                let access = if self.reach.write == Write::Workspace { Access::Write } else { Access::Read };
                Some((mount.at.clone(), access))
            }
            Source::Names => Some((mount.at.clone(), if mount.at == path { Access::Read } else { Access::None })),
            Source::Link(_) | Source::Processes | Source::Devices => None,
        };
        let holds = |(from, _): &(PathBuf, Access)| path.starts_with(from);
        let nearest =
            self.mounts.iter().filter_map(place).filter(holds).max_by_key(|(from, _)| from.components().count());
        match nearest.map_or(Access::None, |(_, access)| access) {
            Access::None => Access::None,
            Access::Read | Access::Write if self.is_protected(path) => {
                let is_approved =
                    self.reach.write == Write::Workspace && self.reach.approved.iter().any(|it| it == path);
                if is_approved { Access::Write } else { Access::Read }
            }
            access => access,
        }
    }

    /// Whether something in the workspace, or in the git folder outside of it, is protected, also where it is not there yet. Not
    /// every file system tells large letters from small ones.
    fn is_protected(&self, path: &Path) -> bool {
        if self.common.as_ref().is_some_and(|common| path.starts_with(common)) {
            return true;
        }
        let Ok(below) = path.strip_prefix(&self.reach.workspace) else { return false };
        let below = below.to_string_lossy().to_lowercase();
        let is_at = |name: &str| below == name || below.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        let is_at_top = tables::PROTECTED_AT_TOP.iter().any(|name| is_at(name));
        let below = format!("/{below}/");
        tables::PROTECTED.iter().any(|name| below.contains(&format!("/{name}/")))
            || below.contains("/.git/")
            || is_at_top
            || self.included.iter().any(|included| included == path)
    }

    /// Writes it where whoever makes its sandbox [takes](Plan::taken) it: a command line is too short for a large one.
    pub fn hand_over(&self) -> io::Result<PathBuf> {
        self.reach.make_private()?;
        let text = serde_json::to_vec(self)?;
        loop {
            // Nobody else is to write it, so its name need not be secret.
            let file = self.reach.private.join(format!("plan-{}-{}", std::process::id(), HANDED.fetch_add(1, Relaxed)));
            match fs::File::options().write(true).create_new(true).mode(0o600).open(&file) {
                Ok(mut open) => return open.write_all(&text).map(|()| file),
                // Of a process that had our number, and was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// One that was handed over in a file, which goes.
    pub fn taken(file: &Path) -> io::Result<Self> {
        let text = fs::read(file)?;
        fs::remove_file(file)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Hands over, beside a plan that was handed over, what the command reads from its standard input.
    pub fn hand_over_input(plan: &Path, input: &[u8]) -> io::Result<()> {
        let mut open = fs::File::options().write(true).create_new(true).mode(0o600).open(input_beside(plan))?;
        open.write_all(input)
    }

    /// The input that was handed over beside a plan, whose file goes; `None`: there is none.
    pub fn taken_input(plan: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = input_beside(plan);
        match fs::read(&file) {
            Ok(input) => fs::remove_file(file).map(|()| Some(input)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What it was made for.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    fn put(&mut self, at: impl Into<PathBuf>, source: Source) {
        self.mounts.push(Mount { at: at.into(), source });
    }

    /// Looks at a path, and remembers what was there.
    fn look(&mut self, path: &Path) -> Option<Identity> {
        let identity = Identity::of(path);
        self.found.push((path.to_path_buf(), identity));
        identity
    }

    /// Shows what is at a path, at the same path; nothing where nothing is.
    fn machine(&mut self, path: &Path, write: bool) {
        // Of most there is nothing, which one look says.
        let Some(from) = fs::symlink_metadata(path).ok().and_then(|_| fs::canonicalize(path).ok()) else { return };
        if from.parent().is_some() && self.look(&from).is_some() {
            self.put(from.clone(), Source::Machine { from, write });
        }
    }

    fn system(&mut self) {
        for path in tables::SYSTEM.iter().map(Path::new) {
            match fs::read_link(path) {
                Ok(link) => self.put(path, Source::Link(link)),
                Err(_) => self.machine(path, false),
            }
        }
        for path in tables::SYSTEM_SECRETS.iter().map(Path::new) {
            self.cover(path);
        }
        self.put("/proc", Source::Processes);
        self.put("/dev", Source::Devices);
        let tmp = self.reach.private.join("tmp");
        for at in ["/tmp", "/var/tmp"] {
            self.put(at, Source::Machine { from: tmp.clone(), write: true });
        }
        self.put("/run", Source::EmptyFolder);
    }

    /// An empty thing of the same kind over what is there.
    fn cover(&mut self, path: &Path) {
        let source = match self.look(path) {
            Some(Identity { is_folder: true, .. }) => Source::EmptyFolder,
            Some(_) => Source::EmptyFile,
            None => return,
        };
        self.put(path, source);
    }

    /// A home of the command's own, with the user's toolchains and caches.
    fn home(&mut self) {
        let home = self.reach.home.clone();
        if home.starts_with(&self.reach.workspace) {
            return;
        }
        let own = self.reach.private.join("home");
        self.put(home.clone(), Source::Machine { from: own, write: true });
        for name in tables::TOOLCHAINS {
            self.machine(&home.join(name), false);
        }
        for name in tables::CACHES {
            let from = home.join(name);
            if from.is_dir() && self.look(&from).is_some() {
                self.put(from.clone(), Source::Cache { from });
            }
        }
    }

    /// The folders of `PATH`, and beside a `bin` what belongs to it.
    fn programs(&mut self) {
        let mut folders = BTreeSet::new();
        for folder in self.reach.path.clone() {
            let Ok(folder) = fs::canonicalize(&folder) else { continue };
            let above = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bin"));
            // In `~/.cargo` and its like are keys, too.
            let home = &self.reach.home;
            let is_dotted =
                |above: &Path| above.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let is_too_much = |above: &&Path| {
                home.starts_with(above) || is_dotted(above) || above.parent().is_none_or(|two| two == home)
            };
            // A toolchain is whole where it is known, whosever home it lies in.
            let known = folder.ancestors().find(|above| tables::TOOLCHAINS.iter().any(|name| above.ends_with(name)));
            let folder = known.or_else(|| above.filter(|above| !is_too_much(above))).unwrap_or(&folder);
            folders.insert(folder.to_path_buf());
        }
        for folder in folders {
            // A workspace's own programs are there with the workspace.
            if !folder.starts_with(&self.reach.workspace) && !self.is_shown(&folder) {
                self.machine(&folder, false);
            }
        }
    }

    /// Whether a mount for reading shows a path already.
    fn is_shown(&self, path: &Path) -> bool {
        let shows = |mount: &&Mount| matches!(mount.source, Source::Machine { write: false, .. });
        self.mounts.iter().filter(shows).any(|mount| path.starts_with(&mount.at))
    }

    fn workspace(&mut self) {
        let workspace = self.reach.workspace.clone();
        let write = self.reach.write == Write::Workspace;
        self.machine(&workspace, write);
        let dot_git = workspace.join(".git");
        match self.look(&dot_git) {
            None => self.around(&workspace),
            // It leads out of the workspace, where it is not shown, or to a folder in it, which is compared afterwards.
            Some(Identity { is_link: true, .. }) => {}
            Some(Identity { is_folder: true, .. }) => {
                if write {
                    self.git(&dot_git);
                    self.named(&dot_git, &workspace);
                }
            }
            Some(_) => self.git_file(&dot_git),
        }
        if !write {
            return;
        }
        for name in tables::PROTECTED.iter().chain(tables::PROTECTED_AT_TOP) {
            self.protect(&workspace.join(name), &workspace);
        }
        // By it git takes a folder itself for a repository.
        self.look(&workspace.join("HEAD"));
        self.below(&workspace);
    }

    /// The repository that a workspace without one of its own lies in, where git looks for it. Its tree is there to be read, so that
    /// git finds what is tracked. One whose tree is the home, or holds it, is not shown.
    fn around(&mut self, workspace: &Path) {
        for folder in workspace.ancestors().skip(1) {
            // What is shown otherwise, such as `/tmp`, stays as it is.
            if self.reach.home.starts_with(folder) || self.mounts.iter().any(|mount| mount.at == folder) {
                return;
            }
            let dot_git = folder.join(".git");
            let Some(identity) = self.look(&dot_git) else { continue };
            if !identity.is_link {
                self.machine(folder, false);
                let own = if identity.is_folder { Some(dot_git.clone()) } else { named_by(&dot_git) };
                if identity.is_folder {
                    self.outside(&dot_git, folder);
                } else {
                    self.git_file(&dot_git);
                }
                let index = own.unwrap_or_default().join("index");
                for path in around::untracked_secrets(folder, workspace, &index) {
                    self.cover(&path);
                }
            }
            return;
        }
    }

    /// What lies deeper than the top. What this session has made itself is looked at afterwards alone, so that it can be removed;
    /// and Landlock could only refuse whatever is new in each folder above it.
    fn below(&mut self, workspace: &Path) {
        /// Things that are mounted: each costs a command some 50 microseconds. What is beyond is looked at afterwards.
        const MOST_MOUNTED: usize = 48;
        let Ok(root) = open_as_named(workspace) else { return };
        let search = search(&root, workspace, None, Limit::SHORT);
        self.searched = (!search.is_cut).then_some(search.folders);
        if self.reach.backend == Backend::Landlock {
            return;
        }
        for found in search.found.into_iter().take(MOST_MOUNTED) {
            let path = workspace.join(&found.path);
            match found.kind {
                Kind::Protected if self.is_older(&path) => self.protect(&path, workspace),
                Kind::Git if self.is_older(&path) => {
                    for name in tables::GIT {
                        self.protect(&path.join(name), workspace);
                    }
                    self.named(&path, path.parent().filter(|_| path.ends_with(".git")).unwrap_or(&path));
                    for kind in ["worktrees", "modules"] {
                        self.repositories_in(&path.join(kind), workspace, 0);
                    }
                }
                Kind::Protected | Kind::Git | Kind::GitLink | Kind::Unreadable => {}
            }
        }
    }

    /// Whether something was there before the session was; also where the file system does not tell.
    fn is_older(&self, path: &Path) -> bool {
        born(&self.reach.private).is_none_or(|since| born(path).is_none_or(|born| born <= since))
    }

    /// What a repository's configuration, or the user's, names in the workspace or in the git folder: a folder of hooks, and
    /// configurations that it includes.
    fn named(&mut self, folder: &Path, tree: &Path) {
        let home = self.reach.home.clone();
        let own = ["config", "config.worktree"].map(|name| folder.join(name));
        let theirs = [".gitconfig", ".config/git/config"].map(|name| home.join(name));
        let configs = named::with_included(&[own, theirs].concat(), &home);
        for config in &configs {
            for hooks in named::hooks(config, tree, &home) {
                self.protect_named(&hooks, folder);
            }
        }
        // The user's own may be a link into the workspace.
        self.include(&configs[2..], folder);
    }

    /// What the configuration of a submodule, or of a linked worktree, includes.
    fn included_by(&mut self, folder: &Path) {
        let own = ["config", "config.worktree"].map(|name| folder.join(name));
        let configs = named::with_included(&own, &self.reach.home);
        self.include(&configs[own.len()..], folder);
    }

    fn include(&mut self, configs: &[PathBuf], folder: &Path) {
        for config in configs {
            let roots = [self.reach.workspace.clone(), folder.to_path_buf()];
            let is_within = |path: &Path| roots.iter().any(|root| path.starts_with(root) && path != root);
            // What lies behind a link is included as well, and so is what the link leads to next.
            let link = config.ancestors().filter(|path| is_within(path) && path.is_symlink()).last();
            let real = fs::canonicalize(config).ok();
            for path in [Some(config.as_path()), link, real.as_deref()].into_iter().flatten() {
                if is_within(path) && !self.included.iter().any(|included| included == path) {
                    self.included.push(path.to_path_buf());
                    self.protect_named(path, folder);
                }
            }
        }
    }

    /// Keeps what is named from changes, in the workspace or in a git folder.
    fn protect_named(&mut self, path: &Path, folder: &Path) {
        let roots = [self.reach.workspace.clone(), folder.to_path_buf()];
        if let Some(root) = roots.iter().find(|root| path.starts_with(root) && path != root.as_path()) {
            self.protect(path, root);
        }
    }

    /// Keeps what exists below `root` from changes. Each folder on the way is a mount of its own, since such a one cannot be
    /// renamed. Through a link another file would be changed, which is protected where it lies, or out of reach; the link
    /// itself can be replaced, and is compared when the command has ended.
    fn protect(&mut self, path: &Path, root: &Path) {
        let Some(identity) = self.look(path) else { return };
        if identity.is_link {
            return;
        }
        let mut above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_path_buf).collect();
        above.retain(|folder| folder.starts_with(root) && !self.mounts.iter().any(|mount| mount.at == *folder));
        for folder in above.into_iter().rev() {
            // Nothing is mounted below a link.
            if self.look(&folder).is_none_or(|identity| !identity.is_folder) {
                return;
            }
            self.put(folder.clone(), Source::Machine { from: folder, write: true });
        }
        self.put(path, Source::Machine { from: path.to_path_buf(), write: false });
    }

    /// A git folder: commits, branches, rebases and stashes are made in it; by what git runs and where it writes it is not
    /// changed.
    fn git(&mut self, folder: &Path) {
        self.put(folder, Source::Machine { from: folder.to_path_buf(), write: true });
        for name in tables::GIT {
            self.protect(&folder.join(name), folder);
        }
        for kind in ["worktrees", "modules"] {
            self.repositories_in(&folder.join(kind), folder, 0);
        }
    }

    /// Worktrees and submodules. Those are named by their path, folders included.
    fn repositories_in(&mut self, folder: &Path, root: &Path, depth: usize) {
        /// Deeper than names of submodules go.
        const DEEPEST: usize = 8;
        if depth == DEEPEST || self.look(folder).is_none_or(|identity| !identity.is_folder) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // A plan is text, and a name that is none is no submodule's.
            if path.to_str().is_none() || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            // What the session has made can be removed again.
            if self.is_older(&path) {
                for name in tables::GIT {
                    self.protect(&path.join(name), root);
                }
                self.included_by(&path);
            }
            // Submodules of a linked worktree, and of a submodule, lie in its own folder.
            let inner = if path.join("HEAD").exists() { path.join("modules") } else { path };
            self.repositories_in(&inner, root, depth + 1);
        }
    }

    /// The folder of a linked worktree, or of a submodule, is a file that says where its git folder lies: outside of the workspace.
    fn git_file(&mut self, dot_git: &Path) {
        self.put(dot_git, Source::Machine { from: dot_git.to_path_buf(), write: false });
        let (Some(own), Some(tree)) = (named_by(dot_git), dot_git.parent()) else { return };
        // Only what git itself would have made is believed: the repository's own folder, two above, which says the same.
        let back = small_text(&own.join("gitdir"));
        let is_answered = fs::canonicalize(back.trim()).is_ok_and(|back| back == *dot_git);
        let common = own.parent().filter(|above| above.ends_with("worktrees")).and_then(Path::parent);
        match common.filter(|_| is_answered) {
            Some(common) => self.outside(common, tree),
            None if is_of_submodule(&own, tree) => self.outside(&own, tree),
            None => {}
        }
    }

    /// A git folder outside of the workspace, with which git in this tree works.
    fn outside(&mut self, folder: &Path, tree: &Path) {
        self.look(folder);
        if self.reach.write == Write::Nothing {
            self.put(folder, Source::Machine { from: folder.to_path_buf(), write: false });
            return;
        }
        self.git(folder);
        self.named(folder, tree);
        self.common = Some(folder.to_path_buf());
    }

    /// In the place of mounts stands what is granted where it lies on the machine. A git folder is only read: what of it must
    /// not be changed can be made anew in a folder that may be.
    fn grant(&mut self) {
        let Reach { workspace, private, keep, .. } = self.reach.clone();
        let is_kept = |path: &Path| keep.iter().any(|kept| fs::canonicalize(kept).is_ok_and(|kept| kept == path));
        let planned = std::mem::take(&mut self.mounts);
        let less: Vec<_> = planned.iter().filter_map(|mount| lesser(mount, &workspace)).collect();
        let mut split = Split { less: &less, folders: Vec::new(), mounts: Vec::new() };
        for mount in planned {
            match mount.source {
                Source::Machine { from, write } if from == workspace => split.grant(from, write),
                // The session's own folders, wherever they lie.
                Source::Machine { from, write: true } if from.starts_with(&private) => split.grant(from, true),
                Source::Machine { from, write: true } if is_kept(&from) => split.grant(from, true),
                // Is granted with the workspace.
                Source::Machine { from, .. } if from.starts_with(&workspace) => {}
                Source::Machine { from, .. } | Source::Cache { from } => split.grant(from, false),
                Source::EmptyFolder | Source::EmptyFile | Source::Processes | Source::Devices => {
                    split.mounts.push(mount);
                }
                Source::Link(_) | Source::Names => {}
            }
        }
        self.listed = split.folders.into_iter().map(|folder| (folder.clone(), names_in(&folder))).collect();
        self.mounts = split.mounts;
    }

    /// What lies in something shown, and must not be.
    fn hide(&mut self, paths: &[PathBuf]) {
        for path in paths {
            let Ok(path) = fs::canonicalize(path) else { continue };
            // Whoever keeps secrets above the workspace has not hidden the workspace by that.
            if self.reach.workspace.starts_with(&path) || self.reach.home.starts_with(&path) {
                continue;
            }
            let shown = self.mounts.iter().any(|mount| match &mount.source {
                Source::Machine { from, .. } | Source::Cache { from, .. } => {
                    *from == mount.at && path.starts_with(from) && !from.starts_with(&path)
                }
                Source::Link(_)
                | Source::EmptyFolder
                | Source::EmptyFile
                | Source::Processes
                | Source::Devices
                | Source::Names => false,
            });
            if shown {
                self.cover(&path);
            }
        }
    }
}

/// Where the input of a command is, whose plan is in this file.
fn input_beside(plan: &Path) -> PathBuf {
    plan.with_extension("input")
}

/// Of what is mounted over something else: where it lies, and what may be done with it.
fn lesser(mount: &Mount, workspace: &Path) -> Option<(PathBuf, Access)> {
    let is_git = mount.at.file_name().is_some_and(|name| name == ".git");
    match &mount.source {
        Source::EmptyFolder | Source::EmptyFile => Some((mount.at.clone(), Access::None)),
        Source::Machine { from, write } if from != workspace && from.starts_with(workspace) && (!write || is_git) => {
            Some((from.clone(), Access::Read))
        }
        _ => None,
    }
}

/// A hash of the names in a folder, for this program.
fn names_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names: BTreeSet<_> = entries.map(|entry| entry.file_name()).collect();
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}

/// The text of a small regular file; empty where there is none.
fn small_text(path: &Path) -> String {
    /// More than a path has.
    const MOST_BYTES: u64 = 8_192;
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES);
    if is_file { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Whether a git folder is that of a submodule with this tree: it lies where the repository around the tree keeps those, and names
/// the tree.
fn is_of_submodule(folder: &Path, tree: &Path) -> bool {
    let around = folder.ancestors().skip(1).filter(|above| above.ends_with("modules")).find_map(tree_of_modules);
    let names_it = |named: String| fs::canonicalize(folder.join(named)).is_ok_and(|named| named == tree);
    around.is_some_and(|around| tree.starts_with(&around) && tree != around)
        && named::work_trees(&folder.join("config")).into_iter().any(names_it)
}

/// The tree whose submodules' git folders lie in this one: of a repository, or of a linked worktree, where both name each other.
fn tree_of_modules(modules: &Path) -> Option<PathBuf> {
    let folder = modules.parent()?;
    if folder.ends_with(".git") {
        return folder.parent().map(Path::to_path_buf);
    }
    folder.parent().filter(|above| above.ends_with(".git/worktrees"))?;
    let dot_git = fs::canonicalize(small_text(&folder.join("gitdir")).trim()).ok()?;
    (named_by(&dot_git)? == folder).then(|| dot_git.parent().map(Path::to_path_buf)).flatten()
}

/// The git folder that a file in its place names.
fn named_by(dot_git: &Path) -> Option<PathBuf> {
    let text = small_text(dot_git);
    fs::canonicalize(dot_git.parent()?.join(text.strip_prefix("gitdir:")?.trim())).ok()
}

/// When something was made; not every file system knows.
fn born(path: &Path) -> Option<std::time::SystemTime> {
    fs::symlink_metadata(path).ok()?.created().ok()
}

/// Whether a path is one that a plan can hold: absolute, and without `.` and `..`.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::reach::{Limits, Network};

    #[test]
    fn what_is_granted_alone_is_split_where_something_is_less() {
        let folder = tempfile::tempdir().unwrap();
        let reach = Reach { backend: Backend::Landlock, ..reach(folder.path()) };
        let within = |name: &str| reach.workspace.join(name);
        for name in ["src", ".husky/_", ".husky/other"] {
            fs::create_dir_all(within(name)).unwrap();
        }
        std::os::unix::fs::symlink("/etc", within("link")).unwrap();
        let plan = Plan::of(&reach);
        let can_write = |name: &str| matches!(at(&plan, &within(name)), Some(Source::Machine { write: true, .. }));
        let can_read = |name: &str| matches!(at(&plan, &within(name)), Some(Source::Machine { write: false, .. }));
        assert!(can_write("src") && can_write(".husky/other"), "{plan:#?}");
        assert!(can_read(".git") && can_read(".husky/_"), "{plan:#?}");
        assert_eq!(at(&plan, &reach.workspace), Some(&Source::Names));
        assert_eq!(at(&plan, &within("link")), None, "what a link leads to is granted where it lies");
        assert_eq!(
            at(&plan, &reach.private.join("home")),
            Some(&Source::Machine { from: reach.private.join("home"), write: true })
        );
        assert!(at(&plan, &reach.home).is_none() && at(&plan, Path::new("/etc/shadow")) != Some(&Source::Names));
        // Piton's own tools make what is new, but for what is protected.
        assert_eq!(plan.access(&within("new")), Access::Write);
        assert_eq!(plan.access(&within(".vscode")), Access::Read);
        assert_eq!(plan.access(Path::new("/etc/shadow")), Access::None);
        assert!(plan.is_true());
        fs::create_dir(within("new")).unwrap();
        assert!(!plan.is_true(), "what is new is not granted yet");
    }

    fn reach(root: &Path) -> Reach {
        for folder in ["home/.ssh", "home/w/.git/hooks", "home/.cargo/registry", "home/bin", "private"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("home/w/.git/config"), "").unwrap();
        let root = fs::canonicalize(root).unwrap();
        Reach {
            backend: Backend::Namespaces,
            workspace: root.join("home/w"),
            write: Write::Workspace,
            home: root.join("home"),
            private: root.join("private"),
            path: vec![root.join("home/bin")],
            read: Vec::new(),
            keep: Vec::new(),
            hidden: Vec::new(),
            carried: Vec::new(),
            approved: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
        }
    }

    fn at<'p>(plan: &'p Plan, path: &Path) -> Option<&'p Source> {
        plan.mounts.iter().rev().find(|mount| mount.at == path).map(|mount| &mount.source)
    }

    #[test]
    fn of_a_home_toolchains_and_caches_are_there_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach(folder.path());
        let plan = Plan::of(&reach);
        let home = &reach.home;
        assert!(
            matches!(at(&plan, home), Some(Source::Machine { from, write: true }) if *from == reach.private.join("home"))
        );
        assert!(matches!(at(&plan, &home.join("bin")), Some(Source::Machine { write: false, .. })));
        assert!(matches!(at(&plan, &home.join(".cargo/registry")), Some(Source::Cache { .. })));
        assert_eq!(at(&plan, &home.join(".ssh")), None);
    }

    #[test]
    fn what_runs_code_later_cannot_be_changed_and_its_folder_not_be_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach(folder.path());
        let plan = Plan::of(&reach);
        let git = reach.workspace.join(".git");
        assert!(matches!(at(&plan, &git), Some(Source::Machine { write: true, .. })));
        for name in ["config", "hooks"] {
            assert!(matches!(at(&plan, &git.join(name)), Some(Source::Machine { write: false, .. })), "{name}");
        }
    }

    #[test]
    fn a_plan_is_no_longer_true_when_what_it_stands_on_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach(folder.path());
        let plan = Plan::of(&reach);
        assert!(plan.is_true() && plan.is_for(&reach));
        fs::create_dir(reach.workspace.join(".vscode")).unwrap();
        assert!(!plan.is_true(), "what was absent is there");
        let plan = Plan::of(&reach);
        assert!(matches!(at(&plan, &reach.workspace.join(".vscode")), Some(Source::Machine { write: false, .. })));
        fs::rename(reach.workspace.join(".git"), reach.workspace.join("old")).unwrap();
        fs::create_dir(reach.workspace.join(".git")).unwrap();
        assert!(!plan.is_true(), "another folder has its name");
    }

    #[test]
    fn what_came_while_another_command_runs_is_nobodys_yet() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach(folder.path());
        let running = Plan::of(&reach);
        let made = reach.workspace.join(".envrc");
        fs::write(&made, "x").unwrap();
        assert!(Plan::of(&reach).is_unchanged(&made), "alone it would be the user's");
        let beside = Plan::of(&reach).beside([&running]);
        assert!(!beside.is_unchanged(&made) && beside.is_true());
        assert!(!Plan::of(&reach).beside([&beside]).is_unchanged(&made), "the first may have ended");
        assert!(beside.is_unchanged(&reach.workspace.join(".git/config")), "what was there before stays");
    }

    #[test]
    fn what_a_plugin_keeps_can_be_changed_and_what_lies_beside_it_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("home/.local/share/piton/plugins/of-repositories/x");
        fs::create_dir_all(&data).unwrap();
        let data = fs::canonicalize(data).unwrap();
        for backend in Backend::ALL {
            let reach = Reach { backend, keep: vec![data.clone()], ..reach(folder.path()) };
            let plan = Plan::of(&reach);
            assert_eq!(plan.access(&data.join("a")), Access::Write, "{backend:?}");
            assert_eq!(plan.access(&data.parent().unwrap().join("y")), Access::None, "{backend:?}");
            let plan = Plan::of(&Reach { write: Write::Nothing, ..reach });
            assert_eq!(plan.access(&data.join("a")), Access::Read, "{backend:?}");
        }
    }

    #[test]
    fn a_workspace_that_is_the_home_shows_no_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach(folder.path());
        let plan = Plan::of(&Reach { workspace: reach.home.clone(), ..reach.clone() });
        assert_eq!(at(&plan, &reach.home.join(".ssh")), Some(&Source::EmptyFolder));
    }
}
