//! What one rule does: the tables in `tests/rules`. An allow lets nothing more through than was meant, and a deny stops each spelling of
//! what it names; beside each way around it stands a twin that is as it should be.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use piton_shell::{ByName, CommandPattern, read};
use std::path::PathBuf;

/// Pattern, what is expected, and the command.
fn table(name: &str) -> Vec<(CommandPattern, bool, String)> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rules").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [pattern, expected, command, reason] = columns[..] else { panic!("{line}: four columns") };
        assert!(!reason.trim().is_empty() && ["yes", "no"].contains(&expected), "{line}");
        (CommandPattern::parse(pattern).unwrap(), expected == "yes", command.replace('⏎', "\n").replace('→', "\t"))
    });
    rows.collect()
}

#[test]
fn an_allow_lets_nothing_else_through() {
    let table = table("allowed.txt");
    let twins = table.iter().filter(|(_, allowed, _)| *allowed).count();
    assert!(table.len() >= 130 && twins >= 35, "{} cases, {twins} twins", table.len());
    let wrong = table.iter().filter(|(pattern, expected, command)| {
        let reading = read(command, &ByName);
        let permits = |part: &piton_shell::Part| pattern.permits(part);
        (reading.unknowable.is_empty() && reading.parts.iter().all(permits)) != *expected
    });
    let wrong: Vec<_> = wrong.map(shown).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_deny_stops_each_spelling() {
    let table = table("denied.txt");
    assert!(table.len() >= 60, "{} cases", table.len());
    let wrong = table.iter().filter(|(pattern, expected, command)| {
        let reading = read(command, &ByName);
        let program = pattern.as_str().split(' ').next().unwrap();
        let stopped = !reading.unknowable.is_empty()
            || reading.parts.iter().any(|part| pattern.could_match(part) || part.mentions(program));
        stopped != *expected
    });
    let wrong: Vec<_> = wrong.map(shown).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_are_seen_wherever_they_are_named() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rules/files.txt");
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for line in std::fs::read_to_string(file).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [command, reads, writes, _reason] = columns[..] else { panic!("{line}: four columns") };
        let reading = read(command, &ByName);
        let all = |files: fn(&piton_shell::Part) -> &Vec<String>| {
            let all: Vec<&str> = reading.parts.iter().flat_map(files).map(String::as_str).collect();
            if all.is_empty() { "-".to_owned() } else { all.join(" ") }
        };
        let found = (all(|part| &part.reads), all(|part| &part.writes));
        if found != (reads.to_owned(), writes.to_owned()) {
            wrong.push(format!("{command}: reads {} writes {}, not {reads} and {writes}", found.0, found.1));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cases >= 90, "{cases} cases");
}

#[test]
fn folders_that_are_opened_whole_are_seen() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rules/below.txt");
    let mut wrong = Vec::new();
    for line in std::fs::read_to_string(file).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [command, folders, _reason] = columns[..] else { panic!("{line}: three columns") };
        let reading = read(command, &ByName);
        let below = reading.parts.iter().flat_map(|part| &part.below).map(|below| {
            let names: String = below.names.iter().map(|name| format!("/{name}")).collect();
            format!("{}{}{names}", if below.hidden { "+" } else { "" }, below.folder)
        });
        let found = below.collect::<Vec<_>>().join(" ");
        let expected = if folders == "-" { "" } else { folders };
        if found != expected {
            wrong.push(format!("{command}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn shown((pattern, expected, command): &(CommandPattern, bool, String)) -> String {
    let reading = read(command, &ByName);
    let part = |part: &piton_shell::Part| format!("{:?} through {:?} risky {:?}", part.words, part.through, part.risky);
    let parts: Vec<String> = reading.parts.iter().map(part).collect();
    format!("{}: {command}: not {expected}: {parts:?} {:?}", pattern.as_str(), reading.unknowable)
}
