//! The tables in `tests/cases`: what a command is taken for, and why. Columns, with tabs between: verdict, command, parts, reason.
//!
//! Verdicts: `safe` (known to change nothing), `unsafe`, `unknowable` (with what was found among the parts). In a command `⏎` is an
//! end of line, `→` a tab and `\u{…}` any other character that is not seen; parts are words with blanks between, and stand between `‖`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use piton_shell::{ByName, Reading, read};
use std::fmt::Write;
use std::path::PathBuf;

fn tables() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap())).collect()
}

/// The command that a column stands for.
fn decoded(column: &str) -> String {
    let mut pieces = column.split("\\u{");
    let mut text = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (code, rest) = piece.split_once('}').unwrap();
        text.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32).unwrap());
        text.push_str(rest);
    }
    text.replace('⏎', "\n").replace('→', "\t")
}

fn verdict(reading: &Reading) -> &'static str {
    match (reading.unknowable.is_empty(), reading.changes_nothing()) {
        (false, _) => "unknowable",
        (true, true) => "safe",
        (true, false) => "unsafe",
    }
}

fn parts(reading: &Reading) -> String {
    let part = |part: &piton_shell::Part| match (part.words.is_empty(), part.writes.first()) {
        (true, Some(path)) => format!("> {path}"),
        _ => part.words.join(" "),
    };
    let all: Vec<String> = reading.parts.iter().map(part).collect();
    all.join(" ‖ ").replace('\n', "⏎").replace('\t', "→")
}

#[test]
fn every_command_of_the_tables_is_taken_for_what_it_is() {
    let update = option_env!("UPDATE_CASES").is_some();
    let (mut faults, mut cases, mut safe, mut reasons) = (String::new(), 0, 0, 0);
    for (file, text) in tables() {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                lines.push(line.to_string());
                continue;
            }
            let columns: Vec<&str> = line.split('\t').collect();
            let [expected, command, words, reason] = columns[..] else { panic!("{file}:{}: four columns", number + 1) };
            let reading = read(&decoded(command), &ByName);
            let (found, found_words) = (verdict(&reading), parts(&reading));
            lines.push(format!("{expected}\t{command}\t{found_words}\t{reason}"));
            if found != expected || (found_words != words && !update) {
                writeln!(
                    faults,
                    "{}: {command}\n  is {found}: {found_words}\n  not {expected}: {words}\n  {:?}",
                    number + 1,
                    reading.unknowable
                )
                .unwrap();
            }
            cases += 1;
            safe += usize::from(expected == "safe");
            reasons += usize::from(!reason.trim().is_empty());
        }
        if update {
            std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(cases >= 600, "{cases} cases");
    assert!(safe >= 150, "{safe} safe ones");
    assert_eq!(reasons, cases, "each has its reason");
}
