//! What a command would do, as accesses that rules see.

use crate::files::Found;
use crate::plan::Look;
use piton_core::call::{Access, CommandPart};
use piton_http::egress::host;
use piton_shell::{Effect, Part, Programs, UnknowableKind};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The commands of a script that starts in the folder `cwd`, what they read and write, the hosts they name, and what of it
/// cannot be known.
pub(super) fn accesses(command: &str, cwd: &Path, look: &Look) -> Vec<(Access, Option<Range<usize>>)> {
    let programs = OnPath::of(cwd, look);
    let reading = piton_shell::read(command, &programs);
    let unknowable = reading.unknowable.into_iter().map(|found| {
        let access = Access::Unknowable(format!("`{}`: {}", found.text, why(found.what)));
        (access, Some(found.span))
    });
    let mut accesses: Vec<(Access, Option<Range<usize>>)> = unknowable.collect();
    let mut seen: HashSet<_> = accesses.iter().cloned().collect();
    // Commands name the same path many times; each is looked up once.
    let mut patterns: HashMap<String, String> = HashMap::new();
    let mut pattern = |path: &str| match patterns.get(path) {
        Some(found) => found.clone(),
        None => {
            let found = look.pattern(&from(cwd, path));
            patterns.insert(path.to_owned(), found.clone());
            found
        }
    };
    for part in reading.parts {
        let mut add = |access| {
            let found = (access, Some(part.span.clone()));
            if seen.insert(found.clone()) {
                accesses.push(found);
            }
        };
        part.reads.iter().for_each(|path| add(Access::Read(pattern(path))));
        part.writes.iter().for_each(|path| add(Access::Write(pattern(path))));
        part.unresolved_paths.iter().for_each(|path| add(Access::SomePath(path.clone())));
        part.hosts.iter().for_each(|host| add(Access::Reach(host::spelled(host))));
        if !is_redirection(&part) || does_more_than_it_names(&part) {
            let mut part = CommandPart::from(part.clone());
            part.writes = part.writes.iter().map(|path| pattern(path)).collect();
            part.may_reach = part.may_reach.iter().map(|host| host::spelled(host)).collect();
            part.may_open = part.may_open.iter().map(|path| pattern(path)).collect();
            part.below.retain_mut(|below| {
                below.folder = pattern(&below.folder);
                // Nothing lies below a file; it is among what is read.
                !matches!(look.files.look(Path::new(&below.folder)), Ok(Some(Found::File { .. })))
            });
            // Another program by a known one's name: only a rule that names it so is about it.
            if let Some(word) = part.words.first().filter(|word| programs.is_another(word)).cloned() {
                part.is_harmless = false;
                part.risky.push(word);
            }
            add(Access::Command(Box::new(part)));
        }
    }
    let is_judged = |(access, _): &(Access, _)| matches!(access, Access::Command(_) | Access::Unknowable(_));
    if !accesses.iter().any(is_judged) {
        // Assignments, comments, redirections: the shell itself is all that runs. What it writes is named by itself.
        let shell = CommandPart { is_harmless: true, ..CommandPart::default() };
        accesses.push((Access::Command(Box::new(shell)), Some(0..command.len())));
    }
    accesses
}

/// The path as it is meant from this folder.
fn from<'p>(cwd: &Path, path: &'p str) -> Cow<'p, str> {
    if path == "~" || path.starts_with('/') || path.starts_with("~/") {
        return Cow::Borrowed(path);
    }
    cwd.join(path).to_string_lossy().into_owned().into()
}

fn is_redirection(part: &Part) -> bool {
    part.words.is_empty()
}

/// Whether a redirection does something besides writing the files that it names: it talks to a host (`> /dev/tcp/x/80`), or writes
/// a file that is known only when it runs.
fn does_more_than_it_names(part: &Part) -> bool {
    let is_named = !part.writes.is_empty() && part.unresolved_paths.is_empty() && part.hosts.is_empty();
    part.effect != Effect::ChangesNothing && !is_named
}

fn why(kind: UnknowableKind) -> &'static str {
    match kind {
        UnknowableKind::Program => "which program runs is known only at run time",
        UnknowableKind::Code => "it runs code that is not in the command",
        UnknowableKind::Shadow => "it gives a known program's name to something else",
        UnknowableKind::Environment => "it sets a variable that changes what programs do",
        UnknowableKind::Runner => "an unknown program may run the one that it names",
        UnknowableKind::Encoding => "it is not UTF-8",
        UnknowableKind::Hidden => "it contains invisible characters",
        UnknowableKind::Syntax => "Piton does not know this corner of the shell's grammar",
        UnknowableKind::TooLarge => "it is too long or too deep to be read",
    }
}

/// The programs of this machine, on the absolute folders of the `PATH` that commands get, without the workspace's.
struct OnPath<'l> {
    folders: Vec<PathBuf>,
    cwd: PathBuf,
    look: &'l Look,
}

/// So many names below a folder are looked at.
const MOST_NAMES: usize = 20_000;

/// Whether a name is one word to `xargs`, and no option.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "'\"\\".contains(c))
}

impl<'l> OnPath<'l> {
    fn of(cwd: &Path, look: &'l Look) -> Self {
        let path = look.env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
        let folders = std::env::split_paths(path);
        let folders = folders.filter(|folder| folder.is_absolute() && !folder.starts_with(&look.workspace));
        Self { folders: folders.collect(), cwd: cwd.to_path_buf(), look }
    }
}

impl OnPath<'_> {
    /// Whether a word with a path in it is not the program that is found by its name alone.
    fn is_another(&self, word: &str) -> bool {
        let Some((_, name)) = word.rsplit_once('/') else { return false };
        let real = |file: PathBuf| file.canonicalize().ok();
        let by_name = self.folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()).and_then(real);
        by_name.is_none() || real(self.cwd.join(word)) != by_name
    }

    /// The names of the programs that are this very file, by hard links.
    fn linked(&self, file: &Path) -> Vec<String> {
        let is_there = |folder: &PathBuf| Some(folder.as_path()) == file.parent();
        let Some(own) = file.metadata().ok().filter(|own| own.nlink() > 1 && !self.folders.iter().any(is_there)) else {
            return Vec::new();
        };
        let entries = self.folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        let same = entries.filter(|entry| entry.ino() == own.ino());
        let same = same.filter(|entry| entry.metadata().is_ok_and(|other| other.dev() == own.dev()));
        same.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Programs for OnPath<'_> {
    fn names(&self, word: &str) -> Vec<String> {
        let file = if word.contains('/') {
            Some(self.cwd.join(word))
        } else {
            self.folders.iter().map(|folder| folder.join(word)).find(|file| file.is_file())
        };
        let real = file.and_then(|file| file.canonicalize().ok());
        let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(ToOwned::to_owned);
        let names = [word.contains('/').then(|| name(Path::new(word))).flatten(), real.as_deref().and_then(name)];
        let linked = real.filter(|_| word.contains('/')).map(|real| self.linked(&real)).unwrap_or_default();
        names.into_iter().flatten().chain(linked).filter(|name| name != word).collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        if name == "PWD" {
            return Some(self.cwd.to_string_lossy().into_owned());
        }
        self.look.env.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned())
    }

    fn has_plain_names(&self, folder: &str) -> bool {
        let mut left = MOST_NAMES;
        let mut folders = vec![self.cwd.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().into_iter().flatten() {
                let Ok(entry) = entry else { return false };
                let name = entry.file_name();
                left = left.saturating_sub(1);
                if left == 0 || !name.to_str().is_some_and(is_plain) {
                    return false;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                }
            }
        }
        true
    }
}
