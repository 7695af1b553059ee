//! Journals that earlier versions of Piton left, in `journals/<version>/`: each must open, go on and leave the machine.
//! They are never made again. A new version adds a folder: what `piton demo` leaves when it is over, and when it is
//! killed while a command runs.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_core::event::{Event, Record, TurnEnd};
use piton_core::ids::SessionId;
use piton_core::permission::Action;
use piton_core::story::Story;
use piton_core::turn;
use piton_engine::engine::{Engine, Resumed, Settings};
use piton_engine::export::{html, json, markdown};
use piton_engine::store::CheckResult;
use piton_engine::store::sqlite;
use piton_engine::store::sqlite::SessionDir;
use piton_models::recorded::Recorded;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every journal in the tree: its version, how it was left, and its folder.
fn journals() -> Vec<(String, String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let below = |dir: &Path| -> Vec<PathBuf> { dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect() };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let versions = below(&root).into_iter();
    let all =
        versions.flat_map(|version| below(&version).into_iter().map(move |dir| (name(&version), name(&dir), dir)));
    let all: Vec<_> = all.collect();
    assert!(all.len() >= 2, "{all:?}");
    all
}

/// The journal as a session of its own, in a fresh data folder.
fn laid_out(from: &Path) -> (tempfile::TempDir, Engine, SessionId) {
    let (data, id) = (tempfile::tempdir().unwrap(), SessionId::from("ses_older"));
    let engine = Engine::open(data.path());
    let root = engine.session_dir(&id).root().to_owned();
    std::fs::create_dir_all(&root).unwrap();
    for file in from.read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), root.join(file.file_name())).unwrap();
    }
    (data, engine, id)
}

/// Answers whatever is asked, however many replies there were before.
fn settings() -> Settings {
    let lines = vec![serde_json::json!({"text": "Still here."}).to_string(); 20];
    let mut settings = Settings::new(Arc::new(Recorded::parse(&lines.join("\n")).unwrap()));
    settings.policy.permission.push("*", Action::Allow);
    settings
}

fn check_read(records: &[Record], left: &str) {
    let session = turn::State::fold(records);
    assert_eq!(session.is_at_rest(), left == "closed");
    assert!(session.transcript().next().unwrap().prose().contains("The tests fail"));
    assert!(records.iter().any(|record| matches!(record.event, Event::CallStarted { .. })));
}

#[test]
fn every_older_journal_is_read_listed_and_found_sound() {
    for (version, left, from) in journals() {
        let (_data, engine, id) = laid_out(&from);
        let dir = engine.session_dir(&id);
        let records = sqlite::read_session(&dir).unwrap();
        check_read(&records, &left);
        assert_eq!(
            sqlite::verify(&dir).unwrap(),
            CheckResult::Sound { events: records.len() as u64 },
            "{version} {left}"
        );
        assert_eq!(sqlite::summary(&dir).unwrap().version, version);
        assert_eq!(engine.index().unwrap().count().unwrap(), 1);
    }
}

#[tokio::test]
async fn every_older_journal_can_be_gone_on_with() {
    for (version, left, from) in journals() {
        let (_data, engine, id) = laid_out(&from);
        let before = sqlite::read_session(&engine.session_dir(&id)).unwrap();
        let session = engine.resume(&id, settings()).await.unwrap();
        let resumed = if left == "closed" { Resumed::AtRest } else { Resumed::MidTurn };
        assert_eq!(session.resumed(), resumed);
        let report = session.prompt("and now?").await.unwrap();
        assert_eq!((report.end, &*report.text), (TurnEnd::Completed, "Still here."), "{version} {left}");
        let dir = SessionDir::of(session.store(), session.id());
        session.close().await;
        let after = sqlite::read_session(&dir).unwrap();
        assert_eq!(after[..before.len()], before, "what was there stays as it was");
        assert!(matches!(sqlite::verify(&dir).unwrap(), CheckResult::Sound { .. }));
    }
}

#[tokio::test]
async fn every_older_journal_is_exported_and_taken_in_again() {
    for (_, left, from) in journals() {
        let (_data, engine, id) = laid_out(&from);
        let records = sqlite::read_session(&engine.session_dir(&id)).unwrap();
        let (story, title) = (Story::of(&records), "An older one");
        let when = |at: u64| at.to_string();
        for text in [html::write(&story, title, &when), markdown::write(&story, title, &when)] {
            assert!(text.contains("An older one") && text.contains("cargo test"));
        }
        let text = json::write(&records, "An older one", 0).unwrap();
        let other = tempfile::tempdir().unwrap();
        let elsewhere = Engine::open(other.path());
        let taken = elsewhere.take_in(json::read(&text).unwrap()).await.unwrap();
        let copy = sqlite::read_session(&elsewhere.session_dir(&taken)).unwrap();
        assert_eq!(copy[..records.len()], records);
        let added = copy.len() - records.len();
        assert_eq!(
            added,
            usize::from(left == "killed"),
            "of the command that was running there, nothing is known here"
        );
    }
}
