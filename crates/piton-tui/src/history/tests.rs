//! Walks, searches, and files that other processes write too.

use super::*;
use std::io::Write;

fn entry(text: &str, session: &str, folder: &str) -> Entry {
    let (session, folder) = (session.to_owned(), folder.to_owned());
    Entry { text: text.to_owned(), pastes: Vec::new(), session, folder, time_ms: 7 }
}

fn history() -> History {
    let entries = vec![
        entry("old fix", "s0", "/a"),
        entry("elsewhere", "s1", "/b"),
        entry("Fix the Test", "s2", "/a"),
        entry("old fix", "s2", "/a"),
        entry("docs", "s2", "/a"),
    ];
    History::new("s2", "/a", entries)
}

#[test]
fn up_and_down_walk_the_folder_and_keep_drafts() {
    let mut history = history();
    assert_eq!(history.down("draft"), None);
    assert_eq!(history.up("draft").as_deref(), Some("docs"));
    assert_eq!(history.up("docs!").as_deref(), Some("old fix"));
    assert_eq!(history.up("old fix").as_deref(), Some("Fix the Test"));
    assert_eq!(history.up("Fix the Test"), None);
    assert_eq!(history.down("Fix the Test").as_deref(), Some("old fix"));
    assert_eq!(history.down("old fix").as_deref(), Some("docs!"));
    assert_eq!(history.down("docs!").as_deref(), Some("draft"));
    assert_eq!(history.down("draft"), None);
    assert_eq!(history.up("other draft").as_deref(), Some("docs!"));
    assert!(history.add("docs!", Vec::new(), 8).is_some());
    assert_eq!(history.up("").as_deref(), Some("docs!"));
    assert_eq!(history.up("docs!").as_deref(), Some("docs"));
}

#[test]
fn a_draft_that_is_the_newest_entry_is_not_a_step() {
    assert_eq!(history().up("docs").as_deref(), Some("old fix"));
}

#[test]
fn a_search_finds_words_newest_first_in_its_scope() {
    let history = history();
    let found = |needle, scope| -> Vec<_> {
        history.search(needle, scope).into_iter().map(|entry| (entry.text.clone(), entry.session.clone())).collect()
    };
    let of = |text: &str, session: &str| (text.to_owned(), session.to_owned());
    assert_eq!(found("fix", Scope::Folder), [of("old fix", "s2"), of("Fix the Test", "s2")]);
    assert_eq!(found("test fix", Scope::All), [of("Fix the Test", "s2")]);
    assert_eq!(found("Fix", Scope::All), [of("Fix the Test", "s2")]);
    assert_eq!(found("else", Scope::Session), []);
    assert_eq!(found("else", Scope::All), [of("elsewhere", "s1")]);
    assert_eq!(found("", Scope::Session).len(), 3);
}

#[test]
fn blanks_and_repetitions_are_not_added() {
    let mut history = history();
    assert_eq!(history.add("  \n", Vec::new(), 8), None);
    assert_eq!(history.add("docs", Vec::new(), 8), None);
    assert_eq!(history.add("new", Vec::new(), 8), Some(Entry { time_ms: 8, ..entry("new", "s2", "/a") }));
}

#[test]
fn what_was_sent_before_the_disk_answered_is_kept_once() {
    let mut history = History::new("s", "/a", Vec::new());
    let early = history.add("early", Vec::new(), 8).unwrap();
    history.add("earlier than read", Vec::new(), 9);
    history.extend(vec![entry("old", "s0", "/a"), early]);
    let texts: Vec<_> = history.search("", Scope::All).iter().map(|entry| entry.text.clone()).collect();
    assert_eq!(texts, ["earlier than read", "early", "old"]);
}

#[test]
fn entries_come_back_from_disk_and_damaged_lines_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.jsonl");
    assert_eq!(load(&path), []);
    append(&path, &entry("one\n\"two\" \u{1b}", "s", "/a")).unwrap();
    // A process died while it wrote.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"\xff\xfe{}\n[1]\n{\"text\": \"hal").unwrap();
    let three = Entry { pastes: vec![0..1, 2..4], ..entry("three", "s", "/a") };
    append(&path, &three).unwrap();
    append(&path, &entry(&"x".repeat(100_000), "s", "/a")).unwrap();
    assert_eq!(load(&path), [entry("one\n\"two\" \u{1b}", "s", "/a"), three]);
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_and_a_disk_that_refuses_is_no_panic() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.jsonl");
    append(&path, &entry("one", "s", "/a")).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(append(&folder.path().join("none/prompts.jsonl"), &entry("one", "s", "/a")).is_err());
    assert_eq!(load(folder.path()), []);
}

#[test]
fn a_file_that_grew_too_long_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.jsonl");
    let line = |number: usize| format!("{{\"text\":\"{number}\",\"session\":\"s\",\"folder\":\"/a\",\"time_ms\":7}}\n");
    std::fs::write(&path, (0..11_999).map(line).collect::<String>()).unwrap();
    assert_eq!(load(&path).len(), MOST_ENTRIES);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 11_999);
    append(&path, &entry("last", "s", "/a")).unwrap();
    let entries = load(&path);
    assert_eq!((entries.len(), entries[0].text.as_str()), (MOST_ENTRIES, "2000"));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), MOST_ENTRIES);
}

#[test]
fn processes_that_append_and_rewrite_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.jsonl");
    std::fs::write(&path, "{}\n".repeat(12_500)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for number in 0..50 {
                    append(path, &entry(&format!("{writer}-{number}"), "s", "/a")).unwrap();
                    if number == 20 {
                        load(path);
                    }
                }
            });
        }
    });
    let mut texts: Vec<_> = load(&path).into_iter().map(|entry| entry.text).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 200);
}
