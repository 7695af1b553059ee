//! Rules of Claude Code: `.claude/rules/**/*.md` of a folder. Each is a file of instructions, for all files or only for those that
//! `paths` in its front matter names.

use crate::front_matter;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use piton_core::limits::INSTRUCTION_FILE_BYTES;
use piton_tools::files::{Files, Found};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FOLDER: &str = ".claude/rules";
/// Rules of one folder that are looked at.
const MOST: usize = 100;
/// What may lie in a folder of rules.
const MOST_NAMES: usize = 1_000;
/// Folders below each other in which they are looked for.
const DEPTH: usize = 4;

/// A rule that was found.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Its file.
    pub(super) path: PathBuf,
    /// What is wrong with its front matter, if anything is: it holds for all files then.
    pub(super) mistake: Option<String>,
    /// For which files, if not for all.
    only: Option<GlobSet>,
}

impl Rule {
    fn read(path: PathBuf, text: &str) -> Self {
        match only(text) {
            Ok(only) => Self { path, mistake: None, only },
            Err(why) => Self { path, mistake: Some(format!("applied to all files: {why}")), only: None },
        }
    }

    /// Whether it holds whatever file is worked on.
    pub(super) fn is_for_all(&self) -> bool {
        self.only.is_none()
    }

    /// Whether it holds for a file, by its path from the folder that the patterns start from. It holds for itself: who had it has to
    /// get it again when it was summed up.
    fn is_for(&self, file: &Path, base: &Path) -> bool {
        let is_named = |only: &GlobSet| file.strip_prefix(base).is_ok_and(|below| only.is_match(below));
        self.path == file || self.only.as_ref().is_some_and(is_named)
    }
}

/// The patterns in the front matter; `None`: for all files.
fn only(text: &str) -> Result<Option<GlobSet>, String> {
    let fields = front_matter::fields(text)?;
    let Some(said) = fields.get("paths") else { return Ok(None) };
    let patterns = front_matter::list("paths", said)?;
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in &patterns {
        let pattern = pattern.trim_start_matches("./");
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| front_matter::line(&format!("paths: {error}"), 200))?);
    }
    set.build().map(Some).map_err(|error| front_matter::line(&format!("paths: {error}"), 200))
}

/// Whether a file is a rule: it begins with what is not for the model.
pub(super) fn is_rule(path: &Path) -> bool {
    path.ancestors().skip(1).any(|folder| folder.ends_with(FOLDER))
}

/// The rules of a folder, by path. What lies elsewhere, by a link, is not looked into here: whoever reads it says so.
pub(super) fn of_folder(folder: &Path, files: &dyn Files, is_inside: impl Fn(&Path) -> bool) -> Vec<Rule> {
    let mut paths = Vec::new();
    below(&folder.join(FOLDER), DEPTH, files, &mut paths);
    paths.sort();
    let rule = |path: PathBuf| {
        let is_here = files.real(&path).is_ok_and(|real| is_inside(&real));
        let file = is_here.then(|| files.beginning(&path, INSTRUCTION_FILE_BYTES).ok()).flatten();
        Rule::read(path, &file.map(|file| file.text()).unwrap_or_default())
    };
    paths.into_iter().map(rule).collect()
}

fn below(folder: &Path, depth: usize, files: &dyn Files, found: &mut Vec<PathBuf>) {
    let mut names = files.list(folder, MOST_NAMES).unwrap_or_default();
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, kind) in names {
        let path = folder.join(&name);
        match kind {
            Found::Folder if depth > 0 => below(&path, depth - 1, files, found),
            Found::File { .. } | Found::Other if name.ends_with(".md") && found.len() < MOST => found.push(path),
            Found::Folder | Found::File { .. } | Found::Other => {}
        }
    }
}

/// The rules of folders, each looked through once.
#[derive(Debug, Default)]
pub(crate) struct Rules(BTreeMap<PathBuf, Vec<Rule>>);

impl Rules {
    /// The files of those that hold only for some files, this one among them. `base`: where their patterns start from.
    pub(super) fn for_file(
        &mut self,
        file: &Path,
        (folder, base): (&Path, &Path),
        files: &dyn Files,
        is_inside: impl Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let known = self.0.entry(folder.to_path_buf()).or_insert_with(|| of_folder(folder, files, is_inside));
        let holds = |rule: &&Rule| !rule.is_for_all() && rule.is_for(file, base);
        known.iter().filter(holds).map(|rule| rule.path.clone()).collect()
    }
}
