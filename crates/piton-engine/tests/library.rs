//! Sessions as things: named, thrown away and brought back, taken in, repaired. Real journals in a folder of their own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::{Home, call, cassette, says};
use piton_core::event::{Event, Record};
use piton_core::ids::SessionId;
use piton_core::turn;
use piton_engine::engine::Settings;
use piton_engine::export::json;
use piton_engine::library::{self, LibraryError};
use piton_engine::store::sqlite;
use piton_engine::store::{CheckResult, StoreError};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// What these tests do with the sessions of a home.
trait Sessions {
    async fn session(&self) -> SessionId;
    fn records(&self, id: &SessionId) -> Vec<Record>;
    fn files(&self, id: &SessionId) -> BTreeMap<String, Vec<u8>>;
    fn tamper(&self, id: &SessionId, sql: &str);
}

impl Sessions for Home {
    /// A session of three turns, each with a call and an answer.
    async fn session(&self) -> SessionId {
        std::fs::write(self.workspace.path().join("a.txt"), "alpha\n").unwrap();
        let session = self.engine().create(self.workspace.path(), settings(3)).await.unwrap();
        for turn in 1..=3 {
            session.prompt(&format!("question {turn}")).await.unwrap();
        }
        let id = session.id().clone();
        session.close().await;
        id
    }

    fn records(&self, id: &SessionId) -> Vec<Record> {
        sqlite::read_session(&self.engine().session_dir(id)).unwrap()
    }

    fn files(&self, id: &SessionId) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.engine().session_dir(id).root()).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_name() != "lock" && entry.path().is_file());
        files.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
    }

    /// Changes the events behind the journal's back.
    fn tamper(&self, id: &SessionId, sql: &str) {
        let conn = rusqlite::Connection::open(self.engine().session_dir(id).journal_db()).unwrap();
        conn.execute_batch(
            "DROP TRIGGER event_is_never_changed; DROP TRIGGER event_is_never_deleted; PRAGMA foreign_keys=OFF;",
        )
        .unwrap();
        conn.execute_batch(sql).unwrap();
    }
}

fn settings(turns: usize) -> Settings {
    let pair =
        |turn: usize| [call("grep", &json!({"pattern": format!("alpha|{turn}")})), says(&format!("answer {turn}"))];
    let lines: Vec<_> = (1..=turns).flat_map(pair).collect();
    cassette(&lines)
}

fn transcript(records: &[Record]) -> String {
    let session = turn::State::fold(records);
    assert_eq!(turn::malformed(session.transcript().map(|message| &**message)), None);
    session.transcript().map(|message| message.prose()).filter(|prose| !prose.is_empty()).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn a_title_is_given_and_taken_back() {
    let home = Home::new();
    let (engine, id) = (home.engine(), home.session().await);
    let title = || sqlite::summary(&engine.session_dir(&id)).unwrap().title;
    let touched = sqlite::summary(&engine.session_dir(&id)).unwrap().updated_ms;
    assert_eq!(title(), "question 1");
    engine.rename(&id, "The alpha hunt").await.unwrap();
    assert_eq!(title(), "The alpha hunt");
    assert_eq!(sqlite::summary(&engine.session_dir(&id)).unwrap().updated_ms, touched, "naming is not working on it");
    engine.rename(&id, "").await.unwrap();
    assert_eq!(title(), "question 1");
}

#[tokio::test]
async fn what_is_thrown_away_comes_back_as_it_was() {
    let home = Home::new();
    let (engine, id) = (home.engine(), home.session().await);
    let before = home.files(&id);
    engine.throw_away(&id).await.unwrap();
    assert_eq!(engine.index().unwrap().count().unwrap(), 0);
    assert_eq!(library::trash(&engine).unwrap().list(None, 9).unwrap()[0].id, id);
    assert!(matches!(engine.throw_away(&id).await, Err(LibraryError::Journal(StoreError::NotFound { .. }))));
    engine.bring_back(&id).await.unwrap();
    assert_eq!(home.files(&id), before);
    assert_eq!(engine.index().unwrap().count().unwrap(), 1);
    engine.throw_away(&id).await.unwrap();
    library::destroy(&engine, &id).unwrap();
    assert_eq!(library::trash(&engine).unwrap().count().unwrap(), 0);
}

#[tokio::test]
async fn a_session_that_is_open_is_left_alone() {
    let home = Home::new();
    let (engine, id) = (home.engine(), home.session().await);
    let open = engine.resume(&id, settings(1)).await.unwrap();
    for refused in
        [engine.throw_away(&id).await.map(drop), engine.rename(&id, "x").await, engine.repair(&id).await.map(drop)]
    {
        assert!(matches!(refused, Err(LibraryError::Journal(StoreError::Busy { .. }))), "{refused:?}");
    }
    open.close().await;
    engine.throw_away(&id).await.unwrap();
}

#[tokio::test]
async fn an_export_is_taken_in_with_the_same_events_and_can_be_gone_on_with() {
    let home = Home::new();
    let id = home.session().await;
    let records = home.records(&id);
    let text = json::write(&records, "t", 0).unwrap();

    let elsewhere = Home::new();
    let taken = elsewhere.engine().take_in(json::read(&text).unwrap()).await.unwrap();
    assert_eq!(taken, id, "the id is free there");
    assert_eq!(elsewhere.records(&taken), records);
    let verdict = sqlite::verify(&elsewhere.engine().session_dir(&taken)).unwrap();
    assert_eq!(verdict, CheckResult::Sound { events: records.len() as u64 });
    let session = elsewhere.engine().resume(&taken, settings(1)).await.unwrap();
    assert_eq!(session.prompt("question 4").await.unwrap().turn, 4);
    session.close().await;

    let again = home.engine().take_in(json::read(&text).unwrap()).await.unwrap();
    assert_ne!(again, id, "here it is not");
    let copy = home.records(&again);
    assert_eq!(copy[1..], records[1..]);
    let Event::SessionStarted { session, parent: Some(parent), .. } = &copy[0].event else { panic!("{copy:?}") };
    assert_eq!((session, &parent.session), (&again, &id));
}

#[tokio::test]
async fn a_sound_session_is_repaired_to_the_same() {
    let home = Home::new();
    let id = home.session().await;
    let repaired = home.engine().repair(&id).await.unwrap();
    assert!(repaired.salvage.lost.is_empty() && repaired.salvage.altered.is_empty());
    assert_eq!(home.records(&repaired.id)[1..], home.records(&id)[1..]);
}

#[tokio::test]
async fn what_can_be_read_around_a_hole_becomes_a_new_session() {
    let home = Home::new();
    let id = home.session().await;
    let records = home.records(&id);
    let reply = |turn: usize| {
        let replies = records.iter().filter(|record| matches!(record.event, Event::MessageFinished { .. }));
        replies.map(|record| record.seq).nth(2 * turn - 2).unwrap()
    };
    home.tamper(
        &id,
        &format!(
            "DELETE FROM event WHERE seq = {}; UPDATE event SET body = '{{' WHERE seq = {}",
            reply(2),
            reply(2) + 1
        ),
    );
    let before = home.files(&id);
    let repaired = home.engine().repair(&id).await.unwrap();
    assert_eq!(home.files(&id), before, "not a byte of the damaged one is touched");
    assert_eq!(repaired.salvage.lost, [reply(2), reply(2) + 1]);

    let mended = home.records(&repaired.id);
    assert_eq!(mended.len(), records.len(), "every place is kept");
    assert_eq!(transcript(&mended), "question 1, answer 1, question 2, question 3, answer 3");
    let session = home.engine().resume(&repaired.id, settings(3)).await.unwrap();
    let report = session.prompt("question 4").await.unwrap();
    assert_eq!((report.turn, &*report.text), (4, "answer 3"));
    let ids = home.records(&repaired.id).into_iter().filter_map(|record| match record.event {
        Event::CallStarted { call } => Some(call),
        _ => None,
    });
    let (ids, mut unique): (Vec<_>, Vec<_>) = ids.map(|id| (id.clone(), id)).unzip();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "no two calls have one name: {ids:?}");
    session.close().await;
}

#[tokio::test]
async fn an_event_that_was_altered_is_named_and_taken_as_it_is() {
    let home = Home::new();
    let id = home.session().await;
    home.tamper(&id, "UPDATE event SET body = replace(body, 'question 2', 'question X') WHERE kind = 'user_spoke'");
    let repaired = home.engine().repair(&id).await.unwrap();
    assert_eq!((repaired.salvage.lost.len(), repaired.salvage.altered.len()), (0, 1));
    assert!(transcript(&home.records(&repaired.id)).contains("question X"));
}

#[tokio::test]
async fn a_torn_page_costs_what_lay_on_it() {
    let home = Home::new();
    let id = home.session().await;
    let db = home.engine().session_dir(&id).journal_db();
    let mut bytes = std::fs::read(&db).unwrap();
    let at = bytes.windows(8).rposition(|window| window == b"answer 2").unwrap() / 4096 * 4096;
    bytes[at..at + 4096].fill(0xAA);
    std::fs::write(&db, &bytes).unwrap();
    let repaired = home.engine().repair(&id).await.unwrap();
    assert!(!repaired.salvage.lost.is_empty());
    assert!(std::fs::read(&db).unwrap() == bytes);
    transcript(&home.records(&repaired.id));
    home.engine().resume(&repaired.id, settings(1)).await.unwrap().close().await;
}

#[tokio::test]
async fn of_garbage_nothing_is_left_and_nothing_is_made() {
    let home = Home::new();
    let id = home.session().await;
    std::fs::write(home.engine().session_dir(&id).journal_db(), "garbage".repeat(2000)).unwrap();
    assert!(matches!(home.engine().repair(&id).await, Err(LibraryError::NothingLeft { .. })));
    let left: Vec<_> = std::fs::read_dir(home.data.path().join("sessions")).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert!(
        !std::fs::read_dir(home.data.path())
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("repair") })
    );
}

#[tokio::test]
async fn a_call_that_had_begun_is_not_begun_again_by_a_copy() {
    let home = Home::new();
    let id = home.session().await;
    let records = home.records(&id);
    let begun = records.iter().rposition(|record| matches!(record.event, Event::CallStarted { .. })).unwrap();
    let taken = home.engine().take_in(records[..=begun].to_vec()).await.unwrap();
    let copy = home.records(&taken);
    assert!(matches!(copy.last().unwrap().event, Event::EventLost {}));
    let session = turn::State::fold(&copy);
    assert!(session.is_at_rest() && session.wanted().is_empty());
    assert!(transcript(&copy).contains("question 3"));
}

#[tokio::test]
async fn a_session_goes_on_in_another_folder_and_its_model_is_told() {
    let home = Home::new();
    let id = home.session().await;
    let new = tempfile::tempdir().unwrap();
    let mut with_note = settings(1);
    with_note.environment_note = Some("You are elsewhere now.".to_owned());
    let session = home.engine().resume_in(&id, Some(new.path()), with_note).await.unwrap();
    assert_eq!(session.workspace(), new.path());
    session.prompt("where are we?").await.unwrap();
    session.close().await;
    let records = home.records(&id);
    assert_eq!(turn::State::fold(&records).workspace(), new.path().to_str().unwrap());
    let told = format!("{:?}", records.last_chunk::<20>().unwrap());
    assert!(told.contains("You are elsewhere now."), "{told}");
    let listed = home.engine().index().unwrap();
    assert_eq!(listed.newest(new.path()).unwrap(), Some(id));
    assert_eq!(listed.newest(Path::new(home.workspace.path())).unwrap(), None);
}
