//! Which files of a repository the user trusts. Trust covers the exact content: any change revokes it.
//!
//! A repository's configuration can allow commands and run hooks, and an agent can write it. So what is trusted is a
//! path *and* the hash of what was read there, and what is used are the very bytes that were hashed. Nothing else of a
//! file is looked at before: one that nobody trusts may be no text at all.
//!
//! It can forbid commands, too, and an agent can be told by a repository to get rid of that. So no file that is not
//! trusted hides one that is, wherever it lies; and one that was trusted and is changed or gone is never passed over in
//! silence.

use crate::list_file::{ListFile, Lock};
use piton_tools::private;
use piton_tools::regular;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where a repository has its configuration, below its root.
pub const PROJECT_FILE: &str = ".piton/config.toml";
/// The largest file that is read before anybody trusts it, in bytes. No configuration is nearly as long.
pub const PROJECT_FILE_BYTES: usize = regular::SETTINGS_BYTES;

/// What the files of repositories come to in a folder.
#[derive(Debug, Default)]
pub struct Found {
    /// The nearest file that is trusted as it is. It holds in its folder and everywhere below.
    pub in_force: Option<ProjectFile>,
    /// The nearest one that was trusted once and is now changed, or gone, unless the one in force is nearer.
    pub changed: Option<PathBuf>,
    /// Those of the repository that nobody has trusted, unless the one in force is nearer. The nearest comes first.
    pub unknown: Vec<PathBuf>,
}

/// A file and what was read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A configuration file.
    Settings,
    /// The hooks in a settings file of Claude Code's.
    Hooks,
    /// A file that describes an agent.
    Agent,
    /// A slash command.
    Command,
    /// A skill, with the files beside it.
    Skill,
    /// An MCP server: one entry of a file of them.
    Server,
    /// A plugin, with all its files.
    Plugin,
}

impl Kind {
    /// So many of it, in words.
    pub fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Settings, _) => "settings",
            (Self::Hooks, _) => "hooks",
            (Self::Agent, 1) => "agent",
            (Self::Agent, _) => "agents",
            (Self::Command, 1) => "command",
            (Self::Command, _) => "commands",
            (Self::Skill, 1) => "skill",
            (Self::Skill, _) => "skills",
            (Self::Server, 1) => "MCP server",
            (Self::Server, _) => "MCP servers",
            (Self::Plugin, 1) => "plugin",
            (Self::Plugin, _) => "plugins",
        }
    }
}

/// One thing that a repository brings along, in its current form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The file it stands in; of a server, with `#` and its name.
    pub path: PathBuf,
    /// The BLAKE3 hash of what counts of it, in hexadecimal.
    pub hash: String,
}

impl Item {
    /// What this file holds of that kind.
    pub fn new(kind: Kind, path: &Path, contents: &[u8]) -> Self {
        Self { kind, path: path.to_owned(), hash: blake3::hash(contents).to_hex().to_string() }
    }

    /// As it stands in the list. Settings have their hash alone there, as Piton 0.1 wrote it.
    fn listed(&self) -> String {
        match self.kind {
            Kind::Settings => self.hash.clone(),
            Kind::Hooks => format!("hooks:{}", self.hash),
            Kind::Agent => format!("agent:{}", self.hash),
            Kind::Command => format!("command:{}", self.hash),
            Kind::Skill => format!("skill:{}", self.hash),
            Kind::Server => format!("server:{}", self.hash),
            Kind::Plugin => format!("plugin:{}", self.hash),
        }
    }

    /// Whether this is what was listed. Piton 0.1 wrote hooks down without their kind, under files that have no settings.
    fn is(&self, listed: &str) -> bool {
        listed == self.listed() || self.kind == Kind::Hooks && listed == self.hash
    }
}

/// How the user stands to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Trusted, as it is.
    Trusted,
    /// Trusted once, with other contents.
    Changed,
    /// Never trusted.
    Unknown,
}

/// What of a repository counts in one run, though the user need not have trusted it for good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RunTrust {
    /// Nothing.
    #[default]
    None,
    /// Whatever is there.
    All,
    /// Whatever is there, if all of it has this hash ([`Brought::hash`](crate::assemble::brought::Brought::hash)). Otherwise nothing is started.
    Exactly(String),
}

/// The list of what is trusted, in the user's data folder.
#[derive(Debug)]
pub struct Trust {
    file: ListFile,
}

/// Why the list could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the list of trusted files, {file}, {what}", file = file.display())]
pub struct TrustError {
    /// The list.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    /// Each file with [what is trusted of it](Item::listed).
    trusted: BTreeMap<PathBuf, String>,
}

impl Trust {
    /// The list in this data folder. There need not be one yet.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { file: ListFile::new(data_dir.join("trust.json")) }
    }

    /// What counted of an item when it was trusted last; `None` where that is not known.
    pub fn text_before(&self, item: &Item) -> Result<Option<String>, TrustError> {
        let list = self.read()?;
        let Some(listed) = list.trusted.get(&item.path) else { return Ok(None) };
        let hash = listed.rsplit(':').next().unwrap_or(listed);
        // Only to show a difference: without it, all of the item is shown.
        let bytes = regular::whole(&self.texts().join(hash), PROJECT_FILE_BYTES).ok();
        let bytes = bytes.filter(|bytes| blake3::hash(bytes).to_hex().as_str() == hash);
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Where the texts of what was trusted are kept, by their hashes.
    fn texts(&self) -> PathBuf {
        self.file.path().with_file_name("trusted")
    }

    /// Whether the user trusts an item in its current form, or did in another.
    pub fn standing(&self, item: &Item) -> Result<Standing, TrustError> {
        Ok(self.read()?.standing(item))
    }

    /// The same for many: the list is read once.
    pub fn standings(&self) -> Result<impl Fn(&Item) -> Standing, TrustError> {
        let list = self.read()?;
        Ok(move |item: &Item| list.standing(item))
    }

    /// What holds in a folder. Whatever the user has trusted holds there if it lies in the folder or above it, through
    /// every border: a `.git` takes a moment to make. Other files are only noticed, and only those of the repository: up
    /// to the folder that has `.git`, and without one in the folder itself.
    pub fn look(&self, workspace: &Path) -> Result<Found, TrustError> {
        let list = self.read()?;
        let root = repository(workspace);
        let mut found = Found::default();
        for dir in workspace.ancestors() {
            let path = dir.join(PROJECT_FILE);
            match list.trusted.get(&path) {
                None if path.is_file() && dir.starts_with(root) => found.unknown.push(path),
                None => {}
                Some(_) => match ProjectFile::read(&path) {
                    Ok(file) if list.standing(&file.item()) == Standing::Trusted => {
                        found.in_force = Some(file);
                        break;
                    }
                    Ok(_) | Err(_) => found.changed = found.changed.or(Some(path)),
                },
            }
        }
        Ok(found)
    }

    /// From now on the user trusts this; `contents` is what counts of it.
    pub fn give(&self, item: &Item, contents: &[u8]) -> Result<(), TrustError> {
        let lock = self.file.lock().map_err(|what| self.error(what))?;
        let mut list = self.read()?;
        // It serves to show what was changed, later: without it all is shown.
        let _ =
            private::make_folder(&self.texts()).and_then(|()| private::write(&self.texts().join(&item.hash), contents));
        list.trusted.insert(item.path.clone(), item.listed());
        self.write(&list, &lock)
    }

    /// From now on the user does not. Whether this changes anything.
    pub fn take_back(&self, path: &Path) -> Result<bool, TrustError> {
        let lock = self.file.lock().map_err(|what| self.error(what))?;
        let mut list = self.read()?;
        let had = list.trusted.remove(path).is_some();
        if had {
            self.write(&list, &lock)?;
        }
        Ok(had)
    }

    fn read(&self) -> Result<List, TrustError> {
        let Some(bytes) = self.file.bytes().map_err(|what| self.error(what))? else { return Ok(List::default()) };
        serde_json::from_slice(&bytes).map_err(|error| {
            self.error(format!("cannot be understood ({error}). Remove it, and trust again what should be trusted"))
        })
    }

    fn write(&self, list: &List, lock: &Lock) -> Result<(), TrustError> {
        self.file.write(list, lock).map_err(|what| self.error(what))
    }

    fn error(&self, what: String) -> TrustError {
        TrustError { file: self.file.path().to_owned(), what }
    }
}

/// The folder of the repository around a workspace; the workspace where there is none.
pub fn repository(workspace: &Path) -> &Path {
    workspace.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(workspace)
}

impl List {
    fn standing(&self, item: &Item) -> Standing {
        match self.trusted.get(&item.path) {
            Some(listed) if item.is(listed) => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }
}

impl ProjectFile {
    /// As something to trust.
    pub fn item(&self) -> Item {
        Item::new(Kind::Settings, &self.path, &self.bytes)
    }

    /// Reads one, whatever is in it, if it is not too long to be one.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = regular::whole(path, PROJECT_FILE_BYTES)?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// What is in it, as text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn item(path: &Path, contents: &[u8]) -> Item {
        Item::new(Kind::Settings, path, contents)
    }

    #[test]
    fn a_file_is_trusted_as_it_is_and_not_after_a_change() {
        let dir = tempfile::tempdir().expect("a folder");
        let (trust, path) = (Trust::in_folder(&dir.path().join("data")), dir.path().join("config.toml"));
        let standing = |path: &Path, contents| trust.standing(&item(path, contents)).expect("read");
        assert_eq!(standing(&path, b"a"), Standing::Unknown);
        trust.give(&item(&path, b"a"), b"a").expect("written");
        assert_eq!(standing(&path, b"a"), Standing::Trusted);
        assert_eq!(standing(&path, b"b"), Standing::Changed);
        assert_eq!(standing(&dir.path().join("other.toml"), b"a"), Standing::Unknown, "another file, the same words");
        let before = |contents| trust.text_before(&item(&path, contents)).expect("read");
        assert_eq!((before(b"a").as_deref(), before(b"b").as_deref()), (Some("a"), Some("a")));
        assert!(trust.take_back(&path).expect("written"));
        assert_eq!((standing(&path, b"a"), before(b"a")), (Standing::Unknown, None));
        assert!(!trust.take_back(&path).expect("read"));
    }

    #[test]
    fn an_item_is_trusted_as_what_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let (trust, path) = (Trust::in_folder(dir.path()), dir.path().join("settings.json"));
        let hooks = Item::new(Kind::Hooks, &path, b"a");
        trust.give(&hooks, b"a").expect("written");
        assert_eq!(trust.standing(&hooks).expect("read"), Standing::Trusted);
        assert_ne!(trust.standing(&item(&path, b"a")).expect("read"), Standing::Trusted, "no settings were trusted");
        // As Piton 0.1 wrote it.
        let list = serde_json::json!({"trusted": {path.to_str().expect("text"): hooks.hash}});
        fs::write(dir.path().join("trust.json"), list.to_string()).expect("written");
        assert_eq!(trust.standing(&hooks).expect("read"), Standing::Trusted);
    }

    #[test]
    fn a_list_that_cannot_be_understood_trusts_nothing_and_is_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("trust.json"), "{").expect("written");
        let trust = Trust::in_folder(dir.path());
        assert!(trust.standing(&item(Path::new("x"), b"a")).is_err());
        assert!(trust.give(&item(Path::new("x"), b"a"), b"a").is_err());
        assert_eq!(fs::read(dir.path().join("trust.json")).expect("still there"), b"{");
    }

    /// A folder with files of this name below it, each with its own contents, and what is found in one.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn with(files: &[&str]) -> Self {
            let tree = Self(tempfile::tempdir().expect("a folder"));
            files.iter().for_each(|below| drop(tree.write(below, below)));
            tree
        }

        fn path(&self, below: &str) -> PathBuf {
            self.0.path().join(below)
        }

        fn write(&self, below: &str, text: &str) -> PathBuf {
            let file = self.path(below).join(PROJECT_FILE);
            fs::create_dir_all(file.parent().expect("below a folder")).expect("made");
            fs::write(&file, text).expect("written");
            file
        }

        fn trust(&self) -> Trust {
            Trust::in_folder(&self.path("data"))
        }

        fn give(&self, below: &str) -> PathBuf {
            let file = ProjectFile::read(&self.path(below).join(PROJECT_FILE)).expect("read");
            self.trust().give(&file.item(), &file.bytes).expect("written");
            file.path
        }

        fn look(&self, below: &str) -> Found {
            fs::create_dir_all(self.path(below)).expect("made");
            self.trust().look(&self.path(below)).expect("a list")
        }
    }

    fn in_force(found: &Found) -> Option<&Path> {
        found.in_force.as_ref().map(|file| file.path.as_path())
    }

    #[test]
    fn files_of_the_repository_are_noticed_and_none_outside_of_it() {
        let tree = Tree::with(&["", "repo"]);
        let root = tree.path("repo").join(PROJECT_FILE);
        assert!(tree.look("repo/a/b").unknown.is_empty(), "without a repository only the folder itself is looked at");
        fs::create_dir(tree.path("repo/.git")).expect("made");
        assert_eq!(tree.look("repo/a/b").unknown, std::slice::from_ref(&root));
        let nearer = tree.write("repo/a", "");
        assert_eq!(tree.look("repo/a/b").unknown, [nearer.clone(), root]);
        tree.give("repo/a");
        let found = tree.look("repo/a/b");
        assert!(in_force(&found) == Some(&nearer) && found.unknown.is_empty(), "{found:?}");
    }

    #[test]
    fn nothing_that_is_not_trusted_hides_a_file_that_is() {
        let tree = Tree::with(&["repo"]);
        fs::create_dir(tree.path("repo/.git")).expect("made");
        let root = tree.give("repo");
        let nearer = tree.write("repo/sub", "");
        let found = tree.look("repo/sub");
        assert_eq!((in_force(&found), &found.unknown), (Some(root.as_path()), &vec![nearer]));
        // A repository within the repository.
        fs::create_dir(tree.path("repo/sub/.git")).expect("made");
        assert_eq!(in_force(&tree.look("repo/sub/a")), Some(root.as_path()));
        // One that is nearer and trusted wins.
        let nearer = tree.give("repo/sub");
        assert_eq!(in_force(&tree.look("repo/sub/a")), Some(nearer.as_path()));
    }

    #[test]
    fn a_trusted_file_that_is_changed_or_gone_is_noticed() {
        let tree = Tree::with(&["repo"]);
        let root = tree.give("repo");
        tree.write("repo", "other");
        let found = tree.look("repo/sub");
        assert_eq!((in_force(&found), &found.changed, found.unknown.len()), (None, &Some(root.clone()), 0));
        fs::remove_file(&root).expect("removed");
        assert_eq!(tree.look("repo/sub").changed, Some(root.clone()));
        // What is trusted nearer by holds without it.
        let nearer = tree.write("repo/sub", "");
        tree.give("repo/sub");
        let found = tree.look("repo/sub");
        assert_eq!((in_force(&found), &found.changed), (Some(nearer.as_path()), &None));
        assert!(tree.trust().take_back(&root).expect("written"));
        assert_eq!(tree.look("repo").changed, None);
    }

    #[test]
    fn a_file_may_be_anything_before_it_is_trusted() {
        let tree = Tree::with(&["repo"]);
        let file = tree.path("repo").join(PROJECT_FILE);
        fs::write(&file, [0xff, 0xfe]).expect("written");
        assert_eq!(tree.look("repo").unknown, std::slice::from_ref(&file));
        fs::write(&file, vec![b'#'; PROJECT_FILE_BYTES + 1]).expect("written");
        assert_eq!(tree.look("repo").unknown, std::slice::from_ref(&file));
        assert!(ProjectFile::read(&file).is_err());
    }

    #[test]
    fn what_is_trusted_at_the_same_time_is_all_on_the_list() {
        let dir = tempfile::tempdir().expect("a folder");
        let files: Vec<PathBuf> = (0..32).map(|n| PathBuf::from(format!("/{n}"))).collect();
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(|| Trust::in_folder(dir.path()).give(&item(file, b"a"), b"a").expect("written"));
            }
        });
        let trust = Trust::in_folder(dir.path());
        assert!(files.iter().all(|file| trust.standing(&item(file, b"a")).expect("read") == Standing::Trusted));
    }
}
