//! Entries: what people keep as files for an agent, such as agents, skills and commands. Here is where they are looked for, in which
//! order they count, and whether the user trusts those that came with a repository. What is in a file, its [`Entry`] knows.
//!
//! Of several of one name the first counts: the folders of the repository, nearest first, then the user's own. Piton's folders come
//! before those of other programs. What is not trusted takes no name away from what is. Those of plugins come last, as `plugin:name`.

use super::machine::Machine;
use super::notice::Notice;
use super::opencode;
use super::scope::{Program, Scope};
use super::trouble::{Context, Trouble};
use crate::config::trust::{Item, Kind, Standing, Trust, repository};
use crate::plugins::PartKind;
use piton_core::hidden;
use piton_tools::regular::{self, Beginning, SETTINGS_BYTES};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::Builder;

/// The most files that are looked at below one folder, and how deep it is looked.
const MOST_FILES: usize = 500;
const DEPTH: usize = 5;

/// Bytes that all files of a kind may come to at a start, with what lies beside them and is covered by trust. Nobody reads so much;
/// a repository that nobody trusts yet must not keep a session from starting.
const MOST_BYTES: usize = 64 << 20;

/// So many files of a folder are worth a thread, and the bytes of a file that is read there: before anybody counts what all have.
const MANY_FILES: usize = 64;
const MOST_THREADS: usize = 4;
const SMALL_BYTES: usize = 64 << 10;

/// Bytes that may still be read.
pub struct Left(usize);

impl Left {
    fn all() -> Self {
        Self(MOST_BYTES)
    }

    /// No more than these at once. Fails where none are left.
    pub(super) fn at_most(&self, most: usize) -> Result<usize, String> {
        match self.0 {
            0 => Err(format!("it was not read: those before it come to {} MB", MOST_BYTES >> 20)),
            left => Ok(most.min(left)),
        }
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }

    /// The text of a file.
    fn text(&mut self, file: &Path) -> Result<String, String> {
        self.at_most(SETTINGS_BYTES)?;
        let text = regular::text(file, SETTINGS_BYTES).map_err(|error| format!("it cannot be read: {error}"))?;
        self.take(text.len());
        Ok(text)
    }
}

/// Something that a file holds.
pub trait Entry: Sized + Send {
    /// What it is and where it lies.
    const PLACES: Places;

    /// Reads one. The error says what is wrong, and in which line where that is known.
    fn read(at: &At, text: &str) -> Result<Self, String>;

    /// What it is called by.
    fn name(&self) -> &str;

    /// The same from a plugin, whose name it carries.
    #[must_use]
    fn of_plugin(self, plugin: &str) -> Self;

    /// What trust in it covers, where that is more than the text of its file. It is shown to whoever is asked for trust.
    fn covers<'a>(_at: &At, text: &'a str, _left: &mut Left) -> Result<Cow<'a, str>, String> {
        Ok(Cow::Borrowed(text))
    }
}

/// Where entries of a kind lie. The first folder comes first.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// As what they are trusted.
    pub kind: Kind,
    /// Below each folder of a repository.
    pub of_repository: &'static [&'static str],
    /// Beside the user's configuration.
    pub beside_config: &'static [&'static str],
    /// Below the user's home.
    pub of_home: &'static [&'static str],
    /// Which files there.
    pub files: Files,
    /// Which tables of OpenCode's configuration hold some.
    pub tables: &'static [&'static str],
    /// What they are in a plugin.
    pub of_plugin: PartKind,
}

/// Which files hold an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// All that are Markdown. Folders that are links are not followed.
    Markdown,
    /// Those of this name, each in a folder of its own, which may be a link. What lies below that is part of it.
    Named(&'static str),
}

/// Where an entry was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// One of the [places](Places), as a whole path.
    pub folder: PathBuf,
    /// The file, somewhere below.
    pub file: PathBuf,
    /// The name by which a table in that file has it, where it is not the whole file.
    pub part: Option<String>,
}

impl At {
    /// It, as a list of what is trusted names it.
    fn listed(&self, kind: Kind) -> PathBuf {
        match &self.part {
            None => self.file.clone(),
            Some(name) => format!("{}#{}/{name}", self.file.display(), kind.words(1)).into(),
        }
    }
}

/// A place where an entry is, and what stands there.
struct Candidate<E> {
    at: At,
    text: Result<String, String>,
    /// The entry, where its text was read already.
    read: Option<Result<E, String>>,
}

impl<E: Entry> Candidate<E> {
    /// Those that are files below a folder; last what of it is left out.
    fn of_files(folder: &Path, below: Below, left: &mut Left) -> Vec<Self> {
        let left_out = below.left_out().map(|(file, why)| {
            let at = At { folder: folder.to_owned(), file, part: None };
            Self { at, text: Err(why), read: None }
        });
        let left_out: Vec<Self> = left_out.collect();
        let files = below.files;
        let at = |file: Listed| (At { folder: folder.to_owned(), file: file.path, part: None }, file.is_regular);
        let all: Vec<(At, bool)> = files.into_iter().map(at).collect();
        let early = side_by_side(&all, |(at, is_regular)| is_regular.then(|| early(at)).flatten());
        let candidate = |((at, _), early): ((At, bool), Early<E>)| match early {
            Some((text, read)) if left.at_most(text.len()).is_ok() => {
                left.take(text.len());
                Self { at, text: Ok(text), read: Some(read) }
            }
            _ => Self { text: left.text(&at.file), at, read: None },
        };
        all.into_iter().zip(early).map(candidate).chain(left_out).collect()
    }

    /// What it is called in a list of trust, and all that trust covers.
    fn item(&self, left: &mut Left) -> Trustable {
        item::<E>(&self.at, self.text.as_ref().map_err(Clone::clone)?, left)
    }

    fn read(self) -> (At, Result<E, String>) {
        let Self { at, text, read } = self;
        let read = text.and_then(|text| read.unwrap_or_else(|| E::read(&at, &text)));
        (at, read)
    }
}

/// The text of a small file and what it holds; `None`: it is none, or cannot be read.
type Early<E> = Option<(String, Result<E, String>)>;

fn early<E: Entry>(at: &At) -> Early<E> {
    let small = regular::listed(&at.file, SMALL_BYTES).ok().filter(Beginning::is_whole)?;
    let text = String::from_utf8(small.bytes).ok()?;
    let read = E::read(at, &text);
    Some((text, read))
}

/// What comes of each, in order; of many, in parts that threads do side by side.
fn side_by_side<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let parts = all.len().div_ceil(MANY_FILES).clamp(1, MOST_THREADS);
    let (mine, theirs) = all.split_at(all.len().div_ceil(parts));
    let part = &|part: &[T]| part.iter().map(&work).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let parts = theirs.chunks(mine.len().max(1));
        let threads: Vec<_> =
            parts.map(|theirs| (theirs, Builder::new().spawn_scoped(scope, move || part(theirs)))).collect();
        let mut done = part(mine);
        for (theirs, thread) in threads {
            // Where there is no thread to be had, or none came back, it is done here.
            let one = thread.ok().and_then(|thread| thread.join().ok());
            done.extend(one.unwrap_or_else(|| part(theirs)));
        }
        done
    })
}

/// An entry that was found, and whether it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<E> {
    /// Where it is from; nothing for one that is built in.
    pub at: Option<At>,
    /// The entry; or why it is none.
    pub read: Result<E, String>,
    /// Whether it counts.
    pub state: State,
}

impl<E> Found<E> {
    /// Its file; none where it is built in.
    pub fn file(&self) -> Option<&Path> {
        self.at.as_ref().map(|at| at.file.as_path())
    }
}

/// Whether an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It does.
    InForce,
    /// Another of its name comes before it.
    Shadowed,
    /// It came with the repository, and the user does not trust it as it is.
    Untrusted,
    /// Its file makes no sense.
    Broken,
}

impl State {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Shadowed => "shadowed",
            Self::Untrusted => "not trusted",
            Self::Broken => "cannot be used",
        }
    }
}

/// All entries that there are for a session, in the order in which they count; last those that are built in.
pub fn look<E: Entry>(scope: &Scope, built_in: impl IntoIterator<Item = E>) -> Result<Vec<Found<E>>, Trouble> {
    let (mut all, mut names, mut left) = (Vec::new(), BTreeSet::new(), Left::all());
    let reads = |program| scope.reads(E::PLACES.kind, program);
    let of_repository = of_repository::<E>(&scope.workspace, &reads, &mut left);
    if !of_repository.is_empty() {
        let trust = Trust::in_folder(&scope.machine.data_dir);
        let what = || format!("the trust of {} cannot be looked up", E::PLACES.kind.words(2));
        let standing = trust.standings().with_context(what)?;
        for candidate in of_repository {
            let item = candidate.item(&mut left);
            let (at, read) = candidate.read();
            let (read, counts) = match (read, item) {
                (Ok(entry), Ok((item, _))) => {
                    (Ok(entry), scope.trusted.contains(&item) || standing(&item) == Standing::Trusted)
                }
                (Err(why), Ok(_)) | (_, Err(why)) => (Err(why), true),
            };
            all.push(found(Some(at), read, counts, &mut names));
        }
    }
    for candidate in of_user::<E>(&scope.machine, &reads, &mut left) {
        let (at, read) = candidate.read();
        all.push(found(Some(at), read, true, &mut names));
    }
    for (plugin, _) in scope.plugins.in_force() {
        for (folder, file) in plugin.entry_files(E::PLACES.of_plugin) {
            let at = At { folder, file, part: None };
            let read = plugin.text(&at.file).and_then(|text| E::read(&at, &text));
            all.push(found(Some(at), read.map(|entry| entry.of_plugin(plugin.name())), true, &mut names));
        }
    }
    all.extend(built_in.into_iter().map(|entry| found(None, Ok(entry), true, &mut names)));
    Ok(all)
}

fn found<E: Entry>(at: Option<At>, read: Result<E, String>, counts: bool, names: &mut BTreeSet<String>) -> Found<E> {
    let state = match &read {
        Err(_) => State::Broken,
        Ok(_) if !counts => State::Untrusted,
        Ok(entry) if names.insert(entry.name().to_owned()) => State::InForce,
        Ok(_) => State::Shadowed,
    };
    Found { at, read, state }
}

/// Those that count. What does not, though it came with the repository, is counted in a notice.
pub fn in_force<E: Entry>(all: Vec<Found<E>>, notices: &mut Vec<Notice>) -> Vec<E> {
    let (mut entries, mut untrusted) = (Vec::new(), 0);
    for Found { at, read, state } in all {
        match (state, read) {
            (State::InForce, Ok(entry)) => entries.push(entry),
            (State::Untrusted, Ok(_)) => untrusted += 1,
            (State::Broken, Err(why)) => {
                let (kind, file) = (E::PLACES.kind.words(1), at.map(|at| at.file).unwrap_or_default());
                let file = hidden::visible_line(&file.display().to_string());
                notices.push(Notice::new(format!("the {kind} of {file} is left out: {why}")));
            }
            _ => {}
        }
    }
    if untrusted > 0 {
        notices.push(Notice::Ignored(untrusted));
    }
    entries
}

/// Something to trust, and all that trust in it covers; or why there is no trust in it.
pub(super) type Trustable = Result<(Item, String), String>;

/// What came with the repository, as something to trust, each with its file.
pub(super) fn brought<E: Entry>(workspace: &Path) -> Vec<(PathBuf, Trustable)> {
    let mut left = Left::all();
    let found = of_repository::<E>(workspace, &|_| true, &mut left);
    let read = |candidate: Candidate<E>| (candidate.at.listed(E::PLACES.kind), candidate.item(&mut left));
    found.into_iter().map(read).collect()
}

fn item<E: Entry>(at: &At, text: &str, left: &mut Left) -> Trustable {
    let covered = E::covers(at, text, left)?;
    Ok((Item::new(E::PLACES.kind, &at.listed(E::PLACES.kind), covered.as_bytes()), covered.into_owned()))
}

/// Those of the repository, nearest folder first.
fn of_repository<E: Entry>(workspace: &Path, reads: &dyn Fn(Program) -> bool, left: &mut Left) -> Vec<Candidate<E>> {
    let root = repository(workspace);
    let mut all = Vec::new();
    for folder in workspace.ancestors().take_while(|folder| folder.starts_with(root)) {
        of_folders::<E>(folder, E::PLACES.of_repository, reads, left, &mut all);
        of_tables::<E>(folder, &opencode::OF_REPOSITORY, reads, &mut all);
    }
    all
}

/// The user's own.
fn of_user<E: Entry>(machine: &Machine, reads: &dyn Fn(Program) -> bool, left: &mut Left) -> Vec<Candidate<E>> {
    let mut all = Vec::new();
    if let Some(folder) = machine.config_file.parent() {
        of_folders::<E>(folder, E::PLACES.beside_config, reads, left, &mut all);
    }
    if let Some(home) = machine.var("HOME").map(Path::new) {
        of_folders::<E>(home, E::PLACES.of_home, reads, left, &mut all);
        of_tables::<E>(home, &opencode::OF_HOME, reads, &mut all);
    }
    all
}

fn of_folders<E: Entry>(
    below: &Path,
    names: &[&str],
    reads: &dyn Fn(Program) -> bool,
    left: &mut Left,
    all: &mut Vec<Candidate<E>>,
) {
    for folder in names.iter().filter(|name| reads(Program::of(name))).map(|name| below.join(name)) {
        all.extend(Candidate::of_files(&folder, Below::of(&folder, E::PLACES.files), left));
    }
}

/// Those in OpenCode's configuration.
fn of_tables<E: Entry>(below: &Path, names: &[&str], reads: &dyn Fn(Program) -> bool, all: &mut Vec<Candidate<E>>) {
    if E::PLACES.tables.is_empty() || !reads(Program::OpenCode) {
        return;
    }
    for file in names.iter().map(|name| below.join(name)) {
        let at = |part| At { folder: below.to_owned(), file: file.clone(), part };
        // A repository names files of its own, and none of the user's.
        let within = (names == opencode::OF_REPOSITORY).then_some(below);
        match opencode::entries(&file, E::PLACES.tables, within) {
            None => {}
            Some(Ok(entries)) => {
                all.extend(entries.into_iter().map(|(name, text)| Candidate { at: at(Some(name)), text, read: None }));
            }
            Some(Err(why)) => all.push(Candidate { at: at(None), text: Err(why), read: None }),
        }
    }
}

/// A file as a listing has it.
struct Listed {
    path: PathBuf,
    /// Whether it is one, and no link to one.
    is_regular: bool,
}

/// What lies below a folder, by name, and the first of what is too much or too deep to be looked at.
#[derive(Default)]
struct Below {
    files: Vec<Listed>,
    beyond: Option<PathBuf>,
    too_deep: Option<PathBuf>,
}

impl Below {
    fn of(folder: &Path, which: Files) -> Self {
        let mut below = Self::default();
        below.look(folder, which, DEPTH);
        below
    }

    fn look(&mut self, folder: &Path, which: Files, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<(PathBuf, fs::FileType)> =
            entries.flatten().filter_map(|entry| Some((entry.path(), entry.file_type().ok()?))).collect();
        paths.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, kind) in paths {
            if self.beyond.is_some() {
                return;
            }
            match which {
                Files::Markdown if kind.is_dir() => self.descend(&path, which, depth),
                Files::Markdown if is_markdown(&path) => self.add(path, kind.is_file()),
                Files::Named(name) if kind.is_dir() || kind.is_symlink() => {
                    let file = path.join(name);
                    let looked_at = fs::symlink_metadata(&file);
                    let is_regular = looked_at.as_ref().is_ok_and(fs::Metadata::is_file);
                    match looked_at {
                        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                            if kind.is_dir() {
                                self.descend(&path, which, depth);
                            }
                        }
                        // One that cannot be reached, such as a link to itself, is named by whoever reads it.
                        Ok(_) | Err(_) => self.add(file, is_regular),
                    }
                }
                Files::Markdown | Files::Named(_) => {}
            }
        }
    }

    fn add(&mut self, path: PathBuf, is_regular: bool) {
        if self.files.len() < MOST_FILES {
            self.files.push(Listed { path, is_regular });
        } else {
            self.beyond = Some(path);
        }
    }

    fn descend(&mut self, folder: &Path, which: Files, depth: usize) {
        if depth > 0 {
            self.look(folder, which, depth - 1);
        } else if self.too_deep.is_none() && holds_some(folder, which) {
            self.too_deep = Some(folder.to_owned());
        }
    }

    /// What is left out, each with why.
    fn left_out(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let beyond = self.beyond.clone().map(|file| {
            (
                file,
                format!(
                    "only the first {MOST_FILES} files below a folder are read, so this one and those after it are not"
                ),
            )
        });
        let too_deep = self.too_deep.clone().map(|folder| {
            (
                folder,
                format!(
                    "nothing is read that lies more than {DEPTH} folders deep, here and elsewhere in the same place"
                ),
            )
        });
        beyond.into_iter().chain(too_deep)
    }
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "md")
}

/// Whether something that counts elsewhere lies in this folder itself.
fn holds_some(folder: &Path, which: Files) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| match which {
        Files::Markdown => is_markdown(&entry.path()),
        Files::Named(name) => entry.path().join(name).is_file(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::tree::Tree;
    use crate::config::Config;
    use std::os::unix::fs::symlink;

    /// A thing of which a file holds the name, in a folder that counts.
    #[derive(Debug, PartialEq)]
    struct Thing(String);

    impl Entry for Thing {
        const PLACES: Places = Places {
            kind: Kind::Agent,
            of_repository: &[".piton/things", ".other/things"],
            beside_config: &["things"],
            of_home: &[".other/things"],
            files: Files::Named("THING.md"),
            tables: &[],
            of_plugin: PartKind::Agents,
        };

        fn read(_at: &At, text: &str) -> Result<Self, String> {
            let name = text.trim();
            if name.is_empty() { Err("it has no name".to_owned()) } else { Ok(Self(name.to_owned())) }
        }

        fn name(&self) -> &str {
            &self.0
        }

        fn of_plugin(self, plugin: &str) -> Self {
            Self(format!("{plugin}:{}", self.0))
        }
    }

    impl Tree {
        fn scope(&self, workspace: &str) -> Scope {
            Scope::new(&self.machine(), &self.path(workspace), &Config::default(), &[], &[]).expect("plugins")
        }

        /// What is found in `repo/sub`, each with its state.
        fn things(&self, built_in: &[&str]) -> Vec<String> {
            let built_in = built_in.iter().map(|name| Thing((*name).to_owned()));
            let all = look::<Thing>(&self.scope("repo/sub"), built_in).expect("a list");
            let said = |found: &Found<Thing>| {
                let name = found.read.as_ref().map_or("?", |thing| thing.name());
                let file = found.file().and_then(|file| file.strip_prefix(self.0.path()).ok());
                format!("{name} {} {}", found.state.word(), file.map_or("-".into(), |file| file.display().to_string()))
            };
            all.iter().map(said).collect()
        }
    }

    #[test]
    fn what_is_nearer_and_trusted_counts_and_the_users_own_before_what_is_built_in() {
        let tree = Tree::with(&[
            ("repo/sub/.other/things/a/THING.md", "one"),
            ("repo/.piton/things/a/THING.md", "one"),
            (".piton/things/outside/THING.md", "outside"),
            ("config/things/b/THING.md", "two"),
            ("home/.other/things/b/THING.md", "two"),
            ("home/.other/things/none/THING.md", ""),
        ]);
        let before = tree.things(&["two", "three"]);
        assert_eq!(
            before,
            [
                "one not trusted repo/sub/.other/things/a/THING.md",
                "one not trusted repo/.piton/things/a/THING.md",
                "two in force config/things/b/THING.md",
                "two shadowed home/.other/things/b/THING.md",
                "? cannot be used home/.other/things/none/THING.md",
                "two shadowed -",
                "three in force -",
            ]
        );
        let trust = Trust::in_folder(&tree.path("data"));
        let (_, far) = brought::<Thing>(&tree.path("repo/sub")).remove(1);
        let (item, text) = far.expect("read");
        trust.give(&item, text.as_bytes()).expect("written");
        let after = tree.things(&[]);
        assert_eq!(after[1], "one in force repo/.piton/things/a/THING.md", "what is not trusted hides nothing");
    }

    #[test]
    fn links_are_followed_once_and_those_that_loop_or_lead_nowhere_are_told() {
        let tree = Tree::with(&[("config/things/deep/er/THING.md", "deep"), ("elsewhere/THING.md", "linked")]);
        symlink(tree.path("elsewhere"), tree.path("config/things/link")).expect("a link");
        symlink(tree.path("config/things"), tree.path("config/things/round")).expect("a link");
        fs::create_dir_all(tree.path("config/things/self")).expect("made");
        symlink("THING.md", tree.path("config/things/self/THING.md")).expect("a link");
        symlink("loop", tree.path("config/things/loop")).expect("a link");
        symlink("nowhere", tree.path("config/things/gone")).expect("a link");
        assert_eq!(
            tree.things(&[]),
            [
                "deep in force config/things/deep/er/THING.md",
                "linked in force config/things/link/THING.md",
                "? cannot be used config/things/loop/THING.md",
                "? cannot be used config/things/self/THING.md",
            ]
        );
    }

    #[test]
    fn many_are_read_side_by_side_and_stand_in_their_order() {
        let large = "y".repeat(SMALL_BYTES + 1);
        let text = |at: usize| match at {
            7 => String::new(),
            50 => large.clone(),
            _ => format!("thing {}", at % 90),
        };
        let files: Vec<(String, String)> =
            (0..100).map(|at| (format!("config/things/{at:02}/THING.md"), text(at))).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let tree = Tree::with(&files);
        std::fs::write(tree.path("config/things/60/THING.md"), b"\xff").expect("written");
        let expected: Vec<String> = (0..100)
            .map(|at| match at {
                7 | 60 => format!("? cannot be used config/things/{at:02}/THING.md"),
                50 => format!("{large} in force config/things/50/THING.md"),
                90..=99 if at != 97 => format!("thing {} shadowed config/things/{at}/THING.md", at - 90),
                _ => format!("thing {} in force config/things/{at:02}/THING.md", at % 90),
            })
            .collect();
        assert_eq!(tree.things(&[]), expected);
    }

    #[test]
    fn files_beyond_what_anybody_reads_are_named_and_not_read() {
        let big = "x".repeat(SETTINGS_BYTES);
        let names: Vec<String> = (0..70).map(|at| format!("config/things/{at:02}/THING.md")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), big.as_str())).collect();
        let tree = Tree::with(&files);
        let all = look::<Thing>(&tree.scope("repo"), []).expect("a list");
        let words = |found: &Found<Thing>| found.read.as_ref().err().cloned();
        let unread: Vec<String> = all.iter().filter_map(words).collect();
        assert_eq!((all.len(), unread.len()), (70, 6));
        assert_eq!(unread[0], "it was not read: those before it come to 64 MB");
    }

    #[test]
    fn files_beyond_the_most_of_a_folder_or_too_deep_in_it_are_named() {
        let names: Vec<String> = (0..MOST_FILES + 3).map(|at| format!("config/things/a/{at:03}/THING.md")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
        let tree = Tree::with(&files);
        let all = look::<Thing>(&tree.scope("repo"), []).expect("a list");
        assert_eq!(all.len(), MOST_FILES + 1);
        let mut notices = Vec::new();
        assert_eq!(in_force(all, &mut notices).len(), MOST_FILES);
        let said = |notices: &[Notice]| notices.iter().map(Notice::to_string).collect::<Vec<_>>().join("\n");
        let beyond = said(&notices);
        assert!(beyond.contains("a/500/THING.md is left out: only the first 500 files below a folder"), "{beyond}");
        let tree = Tree::with(&[
            ("config/things/1/2/3/4/5/6/THING.md", "deepest"),
            ("config/things/1/2/3/4/5/6b/7/THING.md", "too deep"),
            ("config/things/2/2/3/4/5/6/7/THING.md", "too deep, too"),
            ("config/things/3/2/3/4/5/6/7/other.md", "of no interest"),
        ]);
        let mut notices = Vec::new();
        let in_force = in_force(look::<Thing>(&tree.scope("repo"), []).expect("a list"), &mut notices);
        assert_eq!(in_force, [Thing("deepest".into())]);
        let deep = said(&notices);
        assert!(deep.contains("5/6b is left out: nothing is read that lies more than 5 folders deep"), "{deep}");
        assert_eq!(notices.len(), 1, "{deep}");
    }

    #[test]
    fn one_notice_counts_what_is_ignored() {
        let tree = Tree::with(&[("repo/.piton/things/a/THING.md", "a"), ("repo/.piton/things/b/THING.md", "b")]);
        let all = look::<Thing>(&tree.scope("repo"), []).expect("a list");
        let mut notices = vec![Notice::Ignored(1)];
        assert!(in_force(all, &mut notices).is_empty());
        notices.push(Notice::new("more"));
        assert_eq!(Notice::merged(&notices), [Notice::new("more"), Notice::Ignored(3)]);
    }
}
