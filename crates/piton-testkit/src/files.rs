//! What every [`Files`] keeps, as one suite; and [`Memory`], which keeps it without a disk.

use piton_core::ids::CallId;
use piton_tools::files::{Files, Found, Next, Replacement, Stamp, Visit};
use piton_tools::ignored::Rules;
use piton_tools::ledger::hash_of;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a test says before a path is looked at.
pub type BeforeLook = dyn Fn(&Path) -> io::Result<()> + Send + Sync;
/// What a test says before a file is put; it is told its new content.
pub type BeforePut = dyn Fn(&Replacement, Option<&[u8]>) -> io::Result<()> + Send + Sync;

/// Files as others keep them, where a test has a say in some of what is done with them.
pub struct Through {
    /// Who keeps them.
    pub files: Arc<dyn Files>,
    /// Called before each look.
    pub look: Box<BeforeLook>,
    /// Called before each file is put.
    pub put: Box<BeforePut>,
}

impl Through {
    /// Says nothing yet.
    pub fn new(files: Arc<dyn Files>) -> Self {
        Self { files, look: Box::new(|_| Ok(())), put: Box::new(|_, _| Ok(())) }
    }
}

impl Files for Through {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.real(path)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        (self.look)(path)?;
        self.files.look(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.files.open(path)
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.files.stamp(path)
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        self.files.list(folder, most)
    }

    fn walk(&self, folder: &Path, visit: &mut Visit<'_>) {
        self.files.walk(folder, visit);
    }

    fn rights(&self, path: &Path) -> Option<u32> {
        self.files.rights(path)
    }

    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()> {
        self.files.begin(call, changes)
    }

    fn put(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        (self.put)(change, content)?;
        self.files.put(call, change, content)
    }

    fn begun(&self, call: &CallId) -> Vec<Replacement> {
        self.files.begun(call)
    }
}

/// Runs the whole suite in an empty folder. `restarted`: the same files, seen by the next process of the session. Panics
/// at the first promise that is not kept, and names it.
pub fn conforms(files: &dyn Files, restarted: &dyn Files, folder: &Path) {
    let (path, call) = (folder.join("a/b.txt"), CallId("c1_0".to_owned()));
    assert_eq!(files.look(&path).unwrap(), None, "nothing is there");
    assert_eq!(files.real(&folder.join("a/../a/./b.txt")).unwrap(), path, "a file that is not there has a name, too");
    assert_eq!(files.open(&path).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound), "and no content");
    assert_eq!(files.begun(&call), [], "nothing was begun");

    let first = change(&path, None, b"one\n");
    files.replace(&call, &first, b"one\n").unwrap();
    assert_eq!(content(files, &path), b"one\n", "a new file, with the folder that it needs");
    assert_eq!(files.look(&path).unwrap(), Some(Found::File { bytes: 4 }), "a file of four bytes");
    assert_eq!(files.look(&folder.join("a")).unwrap(), Some(Found::Folder), "in a folder");
    assert_eq!(restarted.begun(&call), [first], "what a call began is known to the next process");

    let second = change(&path, Some(b"one\n"), b"two, and longer\n");
    files.replace(&CallId("c1_1".to_owned()), &second, b"two, and longer\n").unwrap();
    assert_eq!(content(restarted, &path), b"two, and longer\n", "the new content in the place of the old, all of it");
    assert_eq!(Some(hash_of(&content(files, &path))), second.after, "whose hash tells that the change happened");
    assert_eq!(restarted.begun(&CallId("c1_1".to_owned())), [second], "each call has its own");

    let aside = folder.join("c");
    files.replace(&CallId("c1_2".to_owned()), &change(&aside, None, b""), b"").unwrap();
    let mut listed = files.list(folder, 10).unwrap();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("a".to_owned(), Found::Folder), ("c".to_owned(), Found::File { bytes: 0 })];
    assert_eq!(listed, expected, "what is in a folder, and nothing that a change left behind");
    assert_eq!(files.list(folder, 1).unwrap().len(), 1, "no more than asked for");
    several(files, restarted, folder);
    walks(files, folder);
    stamps(files, folder);
    let on_a_folder = change(&folder.join("a"), None, b"no");
    files.replace(&CallId("c1_3".to_owned()), &on_a_folder, b"no").expect_err("a folder is no file");
    assert_eq!(content(files, &path), b"two, and longer\n", "a change that fails changes nothing");
}

/// Changes of several files by one call, one of which is removed.
fn several(files: &dyn Files, restarted: &dyn Files, folder: &Path) {
    let (call, one, two) = (CallId("several".to_owned()), folder.join("several/one"), folder.join("several/two"));
    files.replace(&CallId("several_0".to_owned()), &change(&one, None, b"1"), b"1").unwrap();
    let gone = Replacement { path: one.clone(), before: Some(hash_of(b"1")), after: None, rights: None };
    let changes = [change(&two, None, b"2"), gone];
    files.begin(&call, &changes).unwrap();
    assert_eq!(files.look(&two).unwrap(), None, "what is begun is not done");
    assert_eq!(restarted.begun(&call), changes, "but known to the next process, in its order");
    files.put(&call, &changes[0], Some(b"2")).unwrap();
    files.put(&call, &changes[1], None).unwrap();
    assert_eq!((content(restarted, &two), files.look(&one).unwrap()), (b"2".to_vec(), None), "one comes, one goes");
    files.put(&call, &changes[1], None).expect("what is gone is gone");
}

/// What a walk comes by, in which order, and how it is led.
fn walks(files: &dyn Files, folder: &Path) {
    let root = folder.join("walk");
    let put = |name: &str, text: &str| {
        let path = root.join(name);
        let call = CallId(format!("walk_{}", name.replace('/', "_")));
        files.replace(&call, &change(&path, None, text.as_bytes()), text.as_bytes()).unwrap();
    };
    for (name, text) in [
        ("z.txt", "z"),
        ("a/deep/er.txt", "er"),
        ("a/one.log", "ignored"),
        ("a/two.txt", "two"),
        ("made/large.txt", "ignored"),
        (".hidden", "seen"),
        (".gitignore", "*.log\n/made/\n"),
        ("a/.gitignore", "!kept.log\n"),
        ("a/kept.log", "kept"),
        ("b/.ignore", "only.txt\n"),
        ("b/only.txt", "ignored"),
        (".git/config", "never seen"),
    ] {
        put(name, text);
    }
    let walked = |lead: &dyn Fn(&str) -> Next| {
        let mut seen = Vec::new();
        files.walk(&root, &mut |entry| {
            let (path, found) = entry.unwrap();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let next = lead(&name);
            seen.push(if found == Found::Folder { format!("{name}/") } else { name });
            next
        });
        seen.join(" ")
    };
    assert_eq!(
        walked(&|_| Next::GoOn),
        ".gitignore .hidden a/ a/.gitignore a/deep/ a/deep/er.txt a/kept.log a/two.txt b/ b/.ignore z.txt",
        "by name, each folder before what is in it, without git's own and what is ignored"
    );
    let led = |name: &str| if name == "a" { Next::PassOver } else { Next::GoOn };
    assert_eq!(walked(&led), ".gitignore .hidden a/ b/ b/.ignore z.txt", "not into what is passed over");
    let led = |name: &str| if name == "a/deep" { Next::Stop } else { Next::GoOn };
    assert_eq!(walked(&led), ".gitignore .hidden a/ a/.gitignore a/deep/", "no further than wanted");
    let mut seen = Vec::new();
    files.walk(&root.join("a/deep"), &mut |entry| {
        seen.push(entry.unwrap().0.to_path_buf());
        Next::GoOn
    });
    assert_eq!(seen, [root.join("a/deep/er.txt")], "a folder below, with the rules above it");
    seen.clear();
    files.walk(&root.join("a"), &mut |entry| {
        seen.push(entry.unwrap().0.to_path_buf());
        Next::PassOver
    });
    assert!(!seen.contains(&root.join("a/one.log")) && seen.contains(&root.join("a/kept.log")), "{seen:?}");
    let mut errors = 0;
    files.walk(&root.join("nothing"), &mut |entry| {
        errors += usize::from(entry.is_err());
        Next::GoOn
    });
    assert_eq!(errors, 1, "a folder that is not there cannot be read");
}

/// By what a file is taken for unchanged, and what is read of one.
fn stamps(files: &dyn Files, folder: &Path) {
    let path = folder.join("stamp");
    assert_eq!(files.stamp(&path), None, "nothing has no stamp");
    files.replace(&CallId("stamp_0".to_owned()), &change(&path, None, b"12345678"), b"12345678").unwrap();
    let first = files.stamp(&path).unwrap();
    assert_eq!(files.stamp(&path), Some(first), "the same file, the same stamp");
    let part = files.beginning(&path, 4).unwrap();
    assert_eq!(
        (part.bytes.as_slice(), part.size, part.is_whole()),
        (b"1234".as_slice(), 8, false),
        "no more than wanted"
    );
    assert!(files.beginning(&path, 8).unwrap().is_whole());
    let call = CallId("stamp_1".to_owned());
    files.replace(&call, &change(&path, Some(b"12345678"), b"another"), b"another").unwrap();
    assert_ne!(files.stamp(&path), Some(first), "another content, another stamp");
    assert!(files.beginning(folder, 4).is_err() && files.beginning(&folder.join("nothing"), 4).is_err());
}

fn change(path: &Path, before: Option<&[u8]>, after: &[u8]) -> Replacement {
    Replacement { path: path.to_path_buf(), before: before.map(hash_of), after: Some(hash_of(after)), rights: None }
}

fn content(files: &dyn Files, path: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    files.open(path).unwrap().read_to_end(&mut content).unwrap();
    content
}

/// Files without a disk, links or devices, as an editor's buffers are.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Kept>);

#[derive(Debug, Default, Clone)]
struct Kept {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// How often each was changed.
    versions: HashMap<PathBuf, u128>,
    begun: HashMap<CallId, Vec<Replacement>>,
}

impl Memory {
    /// Puts a file there.
    pub fn put(&self, path: &Path, content: &[u8]) {
        self.kept().put(path, content);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn put(&mut self, path: &Path, content: &[u8]) {
        self.files.insert(path.to_path_buf(), content.to_vec());
        *self.versions.entry(path.to_path_buf()).or_default() += 1;
    }

    /// What lies in a folder, by name.
    fn names(&self, folder: &Path) -> Vec<(PathBuf, Found)> {
        let below = self.files.keys().filter_map(|file| file.strip_prefix(folder).ok()?.components().next());
        let names: BTreeSet<PathBuf> = below.map(|name| folder.join(name)).collect();
        names.into_iter().filter_map(|path| Some((path.clone(), self.look(&path)?))).collect()
    }

    /// With what the files of patterns in a folder say: git's, and those of searches.
    fn rules(&self, (git, search): (Rules, Rules), folder: &Path) -> (Rules, Rules) {
        let patterns = |name: &str| self.files.get(&folder.join(name)).map_or(&[][..], Vec::as_slice);
        (git.and(folder, patterns(".gitignore")), search.and(folder, patterns(".ignore")))
    }

    /// Whether the walk goes on behind the folder.
    fn walk(&self, folder: &Path, rules: &(Rules, Rules), visit: &mut Visit<'_>) -> bool {
        for (path, found) in self.names(folder) {
            let is_folder = found == Found::Folder;
            let is_ignored = rules.0.ignore(&path, is_folder) || rules.1.ignore(&path, is_folder);
            if is_ignored || path.ends_with(".git") {
                continue;
            }
            let goes_on = match visit(Ok((&path, found))) {
                Next::GoOn if is_folder => self.walk(&path, &self.rules(rules.clone(), &path), visit),
                Next::GoOn | Next::PassOver => true,
                Next::Stop => false,
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn look(&self, path: &Path) -> Option<Found> {
        match self.files.get(path) {
            Some(content) => Some(Found::File { bytes: content.len() as u64 }),
            None => self.files.keys().any(|file| file.starts_with(path)).then_some(Found::Folder),
        }
    }
}

impl Files for Memory {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(real.pop()),
                Component::Normal(_) | Component::RootDir | Component::Prefix(_) => real.push(part),
            }
        }
        Ok(real)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        Ok(self.kept().look(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let content = self.kept().files.get(path).cloned();
        Ok(Box::new(Cursor::new(content.ok_or(io::ErrorKind::NotFound)?)))
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        let names = self.kept().names(folder).into_iter().take(most);
        let named = |(path, found): (PathBuf, Found)| Some((path.file_name()?.to_string_lossy().into_owned(), found));
        Ok(names.filter_map(named).collect())
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let kept = self.kept();
        Some(Stamp { bytes: kept.files.get(path)?.len() as u64, version: *kept.versions.get(path)? })
    }

    fn walk(&self, folder: &Path, visit: &mut Visit<'_>) {
        // Whoever visits may look at files meanwhile.
        let kept = self.kept().clone();
        if kept.look(folder) != Some(Found::Folder) {
            visit(Err(io::ErrorKind::NotFound.into()));
            return;
        }
        let mut above: Vec<&Path> = folder.ancestors().collect();
        above.reverse();
        let rules = above.into_iter().fold(Default::default(), |rules, folder| kept.rules(rules, folder));
        kept.walk(folder, &rules, visit);
    }

    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()> {
        self.kept().begun.insert(call.clone(), changes.to_vec());
        Ok(())
    }

    fn put(&self, _: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        let mut kept = self.kept();
        if kept.look(&change.path) == Some(Found::Folder) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        match content {
            Some(content) => kept.put(&change.path, content),
            None => drop(kept.files.remove(&change.path)),
        }
        Ok(())
    }

    fn begun(&self, call: &CallId) -> Vec<Replacement> {
        self.kept().begun.get(call).cloned().unwrap_or_default()
    }
}
