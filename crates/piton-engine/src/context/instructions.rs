//! Instruction files: what a person or a project wants to be kept to, in words, as `AGENTS.md` and its like say it.
//!
//! Of each folder one file counts, the first of [`NAMES`], and beside it the [rules](super::rules) of Claude Code and a
//! `CLAUDE.local.md`: the person's own (`~/.claude`, then Piton's), then from the repository's root down to the working folder. Those
//! further down are read when a file beside or below them is touched. A file may import others
//! (`@docs/style.md`), four hops far. A repository's files may lead to nothing outside of it, by link or by import:
//! whoever wrote them need not be the person whose home this is.

use super::files;
use super::rules::{self, Rule, Rules};
use piton_core::event::{Given, GivenKind};
use piton_core::imports::{MAX_HOPS, imports, without_block_comments};
use piton_core::limits::{INSTRUCTION_FILE_BYTES, INSTRUCTIONS_BYTES};
use piton_core::reference::Reference;
use piton_core::{hidden, template, tokens};
use piton_tools::files::{Files, Found};
use piton_tools::ledger::hash_of;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

/// What a file of instructions is called; of several in one folder the first counts.
pub const NAMES: [&str; 5] = ["AGENTS.md", "PITON.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md"];

/// What a person keeps beside a folder's file, for themselves; read after that.
const LOCAL: [&str; 1] = ["CLAUDE.local.md"];

/// What counts of `~/.claude`.
const CLAUDE: [&str; 1] = ["CLAUDE.md"];

/// A file to read, what it may not lead out of, and what is to be said of it in any case.
type Place<'a> = (PathBuf, &'a Boundary, Option<String>);

/// Where instructions are looked for besides the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The folder of the person's own file.
    pub global_dir: Option<PathBuf>,
    /// What `~` means in an import of that file.
    pub home: Option<PathBuf>,
    /// The window of the model that reads them, where it is known: they fill a quarter of it at most.
    pub window_tokens: Option<u64>,
}

/// A file of instructions as the model gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file, with links resolved where it could be read.
    pub path: PathBuf,
    /// Its name for people and models: relative to the workspace where it lies there.
    pub shown: String,
    /// Its text as far as it is used; empty if it is not.
    pub text: String,
    /// The hash of the file, where all of it is in the text.
    pub hash: Option<String>,
    /// What is to be said of it: it was cut, it was not read.
    pub notice: Option<String>,
    /// The file that imports it.
    pub imported_by: Option<String>,
}

impl Piece {
    /// What is recorded of it.
    pub fn given(&self) -> Given {
        Given {
            kind: GivenKind::Instructions,
            path: Some(self.path.to_string_lossy().into_owned()),
            hash: self.hash.clone(),
            tokens: tokens::estimate(&self.text),
            bytes: self.text.len(),
            notice: self.notice.as_ref().map(|notice| format!("{}: {notice}", self.shown)),
        }
    }
}

impl Instructions {
    /// What holds in a workspace from the beginning.
    pub fn at_start(&self, workspace: &Path, files: &dyn Files) -> Vec<Piece> {
        let root = root(workspace, files);
        let mut folders: Vec<&Path> = workspace.ancestors().take_while(|dir| dir.starts_with(&root)).collect();
        folders.reverse();
        let (own, project) = (Boundary::own(self, files), Boundary::repository(root.clone()));
        let mut places = Vec::new();
        if let Some(home) = &self.home {
            places.extend(first_of(&home.join(".claude"), &CLAUDE, &own, files));
            places.extend(rules_of(home, &own, files));
        }
        places.extend(self.global_dir.iter().filter_map(|dir| first_of(dir, &NAMES, &own, files)));
        places.extend(folders.into_iter().flat_map(|dir| in_folder(dir, &project, files)));
        self.read(places, workspace, files, &HashSet::new(), 0)
    }

    /// What holds in these folders of the workspace besides, and for files that were touched, without the files that are known.
    /// `used`: how many bytes of instructions the model has already.
    pub(crate) fn further_down(
        &self,
        (folders, touched, rules): (&[PathBuf], &[PathBuf], &mut Rules),
        workspace: &Path,
        files: &dyn Files,
        (known, used): (&HashSet<PathBuf>, usize),
    ) -> Vec<Piece> {
        let root = root(workspace, files);
        let (own, project) = (Boundary::own(self, files), Boundary::repository(root.clone()));
        let mut named: BTreeMap<PathBuf, &Boundary> = BTreeMap::new();
        for file in touched {
            let mut look = |folder: &Path, base: &Path, boundary| {
                let found = rules.for_file(file, (folder, base), files, |real| Boundary::holds(boundary, real));
                named.extend(found.into_iter().map(|path| (path, boundary)));
            };
            self.home.iter().for_each(|home| look(home, &root, &own));
            let folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(&root));
            folders.for_each(|folder| look(folder, folder, &project));
        }
        let mut places: Vec<Place<'_>> = named.into_iter().map(|(path, boundary)| (path, boundary, None)).collect();
        places.extend(folders.iter().flat_map(|dir| in_folder(dir, &project, files)));
        self.read(places, workspace, files, known, used)
    }

    /// The files of these places, outermost first.
    fn read(
        &self,
        places: Vec<Place<'_>>,
        workspace: &Path,
        files: &dyn Files,
        known: &HashSet<PathBuf>,
        used: usize,
    ) -> Vec<Piece> {
        // A token is some four bytes, and a quarter of the window is theirs.
        let window = self.window_tokens.and_then(|tokens| usize::try_from(tokens).ok());
        let most = window.map_or(INSTRUCTIONS_BYTES, |bytes| bytes.min(INSTRUCTIONS_BYTES));
        let room = most.saturating_sub(used);
        let mut reader =
            InstructionReader { workspace, files, home: self.home.as_deref(), seen: known.clone(), most, room };
        let mut pieces = Vec::new();
        // The nearest counts most, so it is the last that room is taken from.
        for (path, boundary, said) in places.into_iter().rev() {
            let mut piece = reader.read(&path, boundary, None);
            if let (Some(piece), Some(said)) = (&mut piece, &said) {
                note(piece, said);
            }
            pieces.push((piece, boundary));
        }
        pieces.reverse();
        let mut all = Vec::new();
        for (piece, boundary) in pieces {
            let Some(piece) = piece else { continue };
            let at = all.len();
            all.push(piece);
            reader.import(at, boundary, &mut all);
        }
        all
    }
}

/// A folder's own file, its rules, and the file that a person keeps beside it.
fn in_folder<'a>(dir: &Path, boundary: &'a Boundary, files: &dyn Files) -> Vec<Place<'a>> {
    let own = first_of(dir, &NAMES, boundary, files).into_iter();
    own.chain(rules_of(dir, boundary, files)).chain(first_of(dir, &LOCAL, boundary, files)).collect()
}

/// The first of these names that is there.
fn first_of<'a>(dir: &Path, names: &[&str], boundary: &'a Boundary, files: &dyn Files) -> Option<Place<'a>> {
    let mut named = names.iter().map(|name| dir.join(name));
    Some((named.find(|path| is_there(files, path))?, boundary, None))
}

/// The rules in a folder that hold for all files.
fn rules_of<'a>(dir: &Path, boundary: &'a Boundary, files: &dyn Files) -> Vec<Place<'a>> {
    let all = rules::of_folder(dir, files, |real| boundary.holds(real));
    all.into_iter().filter(Rule::is_for_all).map(|rule| (rule.path, boundary, rule.mistake)).collect()
}

/// The repository that a folder lies in, or the folder itself.
fn root(workspace: &Path, files: &dyn Files) -> PathBuf {
    let has_repository = |folder: &&Path| matches!(files.look(&folder.join(".git")), Ok(Some(_)));
    workspace.ancestors().find(has_repository).unwrap_or(workspace).to_path_buf()
}

/// Whether there is something that is no folder. What cannot be read says so when it is tried.
fn is_there(files: &dyn Files, path: &Path) -> bool {
    match files.look(path) {
        Ok(Some(Found::File { .. } | Found::Other)) | Err(_) => true,
        Ok(Some(Found::Folder)) => false,
        // A link that leads nowhere is there and says so.
        Ok(None) => files.real(path).is_ok_and(|real| real != path),
    }
}

/// What a file of instructions and its imports may not lead out of.
struct Boundary {
    within: Vec<PathBuf>,
    /// What that is called.
    name: &'static str,
    /// Whether the file itself must lie there too, wherever a link leads: whoever wrote it may be anybody.
    holds_the_file: bool,
}

impl Boundary {
    fn repository(root: PathBuf) -> Self {
        Self { within: vec![root], name: "the repository", holds_the_file: true }
    }

    /// Of the person's own file: home, and the folder that it lies in.
    fn own(instructions: &Instructions, files: &dyn Files) -> Self {
        let dirs = instructions.home.iter().chain(&instructions.global_dir);
        let real = dirs.clone().filter_map(|dir| files.real(dir).ok());
        Self { within: dirs.cloned().chain(real).collect(), name: "your home", holds_the_file: false }
    }

    fn holds(&self, path: &Path) -> bool {
        self.within.iter().any(|dir| path.starts_with(dir))
    }
}

/// Where files are read, each once, until the room is used up.
struct InstructionReader<'a> {
    workspace: &'a Path,
    files: &'a dyn Files,
    home: Option<&'a Path>,
    seen: HashSet<PathBuf>,
    /// Bytes that all of them may have, and what is left of that.
    most: usize,
    room: usize,
}

impl InstructionReader<'_> {
    /// A file as a piece; `None` if it was read before or says nothing.
    fn read(&mut self, path: &Path, boundary: &Boundary, imported_by: Option<&str>) -> Option<Piece> {
        let shown = files::shown(path, self.workspace);
        let piece = |path: &Path, text: String, hash, notice| {
            Some(Piece {
                path: path.to_path_buf(),
                shown: shown.clone(),
                text,
                hash,
                notice,
                imported_by: imported_by.map(str::to_owned),
            })
        };
        let refused = |why: String| piece(path, String::new(), None, Some(format!("not used: {why}")));
        let real = match self.files.real(path) {
            Ok(real) => real,
            Err(error) => return refused(files::why(&error)),
        };
        if !self.seen.insert(real.clone()) {
            return None;
        }
        if (boundary.holds_the_file || imported_by.is_some()) && !boundary.holds(&real) {
            return refused(format!("it leads out of {}", boundary.name));
        }
        if self.room == 0 {
            return refused(format!("all instructions together may have {} bytes", self.most));
        }
        let most = INSTRUCTION_FILE_BYTES.min(self.room);
        let file = match self.files.beginning(&real, most) {
            Ok(file) if file.is_binary() => return refused("it is not text".to_owned()),
            Ok(file) => file,
            Err(error) => return refused(files::why(&error)),
        };
        let whole = file.text();
        let whole = if rules::is_rule(path) { template::body(&whole) } else { &whole };
        let said = if is_of_claude(path) { without_block_comments(whole) } else { Cow::Borrowed(whole) };
        let (text, hidden) = hidden::strip(&said);
        let mut text = text.trim().to_owned();
        let mut notices = Vec::new();
        if !file.is_whole() {
            // To the end of a line, where there is one.
            text.truncate(text.rfind('\n').unwrap_or(text.len()));
            let said = format!("cut to its first {} of {} bytes", text.len(), file.size);
            text.push_str(&format!("\n[{said}; read {shown} for the rest]"));
            notices.push(said);
        }
        if hidden > 0 {
            notices.push(format!("{hidden} hidden characters were taken out"));
        }
        self.room = self.room.saturating_sub(text.len());
        let is_as_it_is = file.is_whole() && hidden == 0 && matches!(said, Cow::Borrowed(_));
        let hash = is_as_it_is.then(|| hash_of(&file.bytes));
        let notice = (!notices.is_empty()).then(|| notices.join("; "));
        if text.is_empty() && notice.is_none() { None } else { piece(&real, text, hash, notice) }
    }

    /// Adds what a piece imports, and what that imports, behind it.
    fn import(&mut self, at: usize, boundary: &Boundary, all: &mut Vec<Piece>) {
        // The nearest first, so that none is taken for farther away than it is.
        let mut open = VecDeque::from([(at, 0)]);
        while let Some((at, hops)) = open.pop_front() {
            let (path, shown) = (all[at].path.clone(), all[at].shown.clone());
            for reference in imports(&all[at].text) {
                match self.meant(&path, &reference, boundary) {
                    Meant::Nothing => {}
                    Meant::Missing => note(&mut all[at], &format!("imports {}, which is not there", reference.path)),
                    Meant::Outside => {
                        note(
                            &mut all[at],
                            &format!("imports {}, which lies outside {}", reference.path, boundary.name),
                        );
                    }
                    Meant::File(file) if self.has_read(&file) => {}
                    Meant::File(_) if hops == MAX_HOPS => {
                        note(&mut all[at], &format!("imports {} more than {MAX_HOPS} hops away", reference.path));
                    }
                    Meant::File(file) => {
                        if let Some(piece) = self.read(&file, boundary, Some(&shown)) {
                            all.push(piece);
                            open.push_back((all.len() - 1, hops + 1));
                        }
                    }
                }
            }
        }
    }

    fn has_read(&self, file: &Path) -> bool {
        self.files.real(file).is_ok_and(|real| self.seen.contains(&real))
    }

    /// The file that an import names.
    fn meant(&self, from: &Path, reference: &Reference, boundary: &Boundary) -> Meant {
        let base = from.parent().unwrap_or(from);
        let path = |path: &str| match (path.strip_prefix("~/"), self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => base.join(path),
        };
        let readings: Vec<PathBuf> = reference.readings().iter().map(|reading| path(&reading.path)).collect();
        // What lies outside is not even looked at: whether it is there is nobody's business.
        let is_inside = |path: &PathBuf| boundary.holds(&files::plain(path));
        if !readings.iter().any(is_inside) {
            let named = Path::new(&reference.path);
            let names_file = named.extension().is_some() || reference.path.starts_with("~/");
            let leads_away = named.starts_with("..") || files::begins_with_a_folder(named);
            return if names_file || leads_away { Meant::Outside } else { Meant::Nothing };
        }
        match readings.into_iter().filter(is_inside).find(|path| is_there(self.files, path)) {
            Some(file) => Meant::File(file),
            // `@someone` is no import that went wrong.
            None if reference.readings().iter().any(|reading| reading.path.ends_with(".md")) => Meant::Missing,
            None => Meant::Nothing,
        }
    }
}

/// Whether a file is written for Claude Code, which does not tell the model its comments.
fn is_of_claude(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (name.starts_with("CLAUDE.") && name.ends_with(".md")) || rules::is_rule(path)
}

/// What an import comes to.
enum Meant {
    File(PathBuf),
    Missing,
    Outside,
    Nothing,
}

fn note(piece: &mut Piece, what: &str) {
    let notice = piece.notice.get_or_insert_default();
    if !notice.is_empty() {
        notice.push_str("; ");
    }
    notice.push_str(what);
}

/// The note that holds these files; `None` where they say nothing.
pub fn instructions_note(pieces: &[Piece], opening: &str) -> Option<String> {
    let mut text = format!("<instructions>\n{opening}\n");
    let mut is_empty = true;
    for piece in pieces.iter().filter(|piece| !piece.text.is_empty()) {
        let by = piece.imported_by.as_ref().map_or(String::new(), |by| format!(" imported_by=\"{by}\""));
        text.push_str(&format!("\n<file path=\"{}\"{by}>\n{}\n</file>\n", piece.shown, piece.text));
        is_empty = false;
    }
    text.push_str("</instructions>");
    (!is_empty).then_some(text)
}

#[cfg(test)]
mod tests;
