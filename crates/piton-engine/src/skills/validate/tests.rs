//! Verdicts on the fixtures, beside those of the reference.

use super::*;
use std::collections::BTreeMap;

/// The fixtures, and what the reference said of each.
fn recorded() -> (PathBuf, BTreeMap<String, bool>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/skills");
    let table = fs::read_to_string(root.join("README.md")).expect("a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let verdicts = rows.filter(|(_, verdict)| ["valid", "invalid"].contains(verdict));
    (root, verdicts.map(|(name, verdict)| (name.to_owned(), verdict == "valid")).collect())
}

#[test]
fn every_verdict_is_that_of_the_reference() {
    let (root, recorded) = recorded();
    let folders = fs::read_dir(&root).expect("fixtures").flatten().filter(|entry| entry.path().is_dir());
    let found: BTreeMap<String, Vec<String>> =
        folders.map(|entry| (entry.file_name().to_string_lossy().into_owned(), check(&entry.path()))).collect();
    assert!(found.keys().eq(recorded.keys()), "each fixture has a verdict");
    for (name, faults) in found {
        assert_eq!(faults.is_empty(), recorded[&name], "{name}: {faults:?}");
    }
}

#[test]
fn a_skill_is_checked_by_its_folder_and_by_its_file_and_faults_are_named() {
    let (root, _) = recorded();
    assert!(check(&root.join("least/SKILL.md")).is_empty() && check(&root.join("lower/skill.md")).is_empty());
    let faults = |name: &str| check(&root.join(name)).join("\n");
    assert_eq!(faults("brackets"), "line 4: lists and fields in brackets are not taken here");
    assert_eq!(faults("other-name"), "name: it is not that of its folder, other-name");
    assert!(
        faults("fields-of-claude").starts_with("there are no such fields: when_to_use, argument-hint; there are name")
    );
    assert_eq!(faults("nowhere"), "it is not there");
    assert_eq!(faults("README.md"), "it is neither a folder nor a SKILL.md");
}
