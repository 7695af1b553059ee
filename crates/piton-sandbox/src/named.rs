//! What configurations of git name elsewhere: folders of hooks, and files that they include. They are read as text, and whatever
//! might say it counts, whichever condition it stands under.

use crate::carried::{git_lines, git_value};
use crate::open::plainly;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// More than any configuration has, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Files that are followed; git itself goes ten deep.
const MOST_FILES: usize = 64;

/// The configurations that these include, one through another, and they themselves. Those that are not there yet are named as well.
pub(crate) fn with_included(configs: &[PathBuf], home: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = configs.to_vec();
    let mut seen: BTreeSet<PathBuf> = all.iter().cloned().collect();
    let mut at = 0;
    while let Some(config) = all.get(at).filter(|_| at < MOST_FILES).cloned() {
        let beside = config.parent().unwrap_or(Path::new("/"));
        for path in values(&text(&config), "path").iter().filter_map(|path| place(path, beside, home)) {
            if seen.insert(path.clone()) {
                all.push(path);
            }
        }
        at += 1;
    }
    all
}

/// The folders of hooks that a configuration names, in a work tree.
pub(crate) fn hooks(config: &Path, tree: &Path, home: &Path) -> Vec<PathBuf> {
    values(&text(config), "hookspath").iter().filter_map(|path| place(path, tree, home)).collect()
}

/// The work trees that a configuration names, as they stand in it.
pub(crate) fn work_trees(config: &Path) -> Vec<String> {
    values(&text(config), "worktree")
}

/// What is said of a key, wherever its name stands: it may be on the line of its section, and in a condition of one.
fn values(text: &str, key: &str) -> Vec<String> {
    let mut said = Vec::new();
    for line in git_lines(text) {
        // Letters keep their places.
        let lower = line.to_ascii_lowercase();
        for (at, _) in lower.match_indices(key) {
            let is_whole = !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            if let Some(value) = line[at + key.len()..].trim_start().strip_prefix('=').filter(|_| is_whole) {
                said.push(git_value(value));
            }
        }
    }
    said.retain(|value| !value.is_empty());
    said
}

fn place(named: &str, beside: &Path, home: &Path) -> Option<PathBuf> {
    let whole = named.strip_prefix("~/").map_or_else(|| beside.join(named), |below| home.join(below));
    // A plan is text.
    whole.to_str().filter(|path| !path.contains('\0'))?;
    Some(plainly(&whole))
}

/// The text of a configuration; empty where there is none, or none that git would read.
fn text(config: &Path) -> String {
    let is_file = fs::metadata(config).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES);
    let bytes = if is_file { fs::read(config).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn whatever_might_be_included_is_named_one_file_through_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("w")).unwrap();
        fs::write(
            at("config"),
            "[include] PATH = w/one ; more\n[includeIf \"gitdir:/path/x/\"]\n\tpath = \"w/t\\\nwo\"\n\tpath = ~/mine\n",
        )
        .unwrap();
        fs::write(at("w/one"), "[include]\n\tpath = ../config\n\tpath = three\n[core]\n\thooksPath = tools\n").unwrap();
        let all = with_included(&[at("config")], &at("home"));
        assert_eq!(all, [at("config"), at("w/one"), at("w/two"), at("home/mine"), at("w/three")]);
        assert_eq!(hooks(&at("w/one"), &at("tree"), &at("home")), [at("tree/tools")]);
    }
}
