//! A disk that is full, a place that cannot be written, and a commit that is tried again.

use super::*;

/// Lets the database grow by this many pages and no further.
fn allow_pages(journal: &Journal, more: i64) {
    let now: i64 = journal.conn.pragma_query_value(None, "page_count", |row| row.get(0)).expect("a number");
    let sql = format!("PRAGMA max_page_count = {}", now + more);
    journal.conn.query_row(&sql, [], |_| Ok(())).expect("a new limit");
}

#[test]
fn on_a_full_disk_everything_staged_stays_staged_until_there_is_room() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    allow_pages(&journal, 2);
    let large = "x".repeat(20_000);
    let mut staged = vec![journal.stage(2, said("small")), journal.stage(3, said(&large))];
    for _ in 0..2 {
        let error = journal.commit().expect_err("no room");
        assert!(matches!(error, StoreError::Full { kept: Kept(1), .. }), "{error}");
        assert_eq!(journal.durable_seq(), 1);
        assert_eq!(place.events(), [started()]);
    }
    staged.push(journal.stage(4, said("meanwhile")));
    assert_eq!(staged[2].seq, 4);

    allow_pages(&journal, 1000);
    journal.commit().expect("room again");
    assert_eq!(
        Reader::open(&place.dir).and_then(|reader| reader.read(2, usize::MAX)).expect("readable"),
        staged.into_iter().map(Arc::unwrap_or_clone).collect::<Vec<_>>()
    );
    assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 4 });
    assert_eq!(dump(&journal.conn, "message").len(), 3, "each is shown once");
}

#[tokio::test]
async fn an_append_that_found_no_room_is_handed_in_again_and_writes_each_event_once() {
    for shares_runtime in [false, true] {
        let place = Place::new();
        let mut log = SqliteLog::new(place.create(vec![started()]), shares_runtime);
        let more = |log: &SqliteLog, pages| allow_pages(lock(&log.journal).as_ref().expect("an open journal"), pages);
        more(&log, 2);
        let texts = ["small", &"x".repeat(20_000), &"y".repeat(70_000), "meanwhile"];
        let record = |(seq, text): (Seq, &str)| Arc::new(Record { seq, at_ms: seq, event: said(text) });
        let staged = (2..).zip(texts).map(record).collect::<Vec<_>>();
        for _ in 0..2 {
            let error = log.append(&staged[..3]).await.expect_err("no room");
            assert!(matches!(error, StoreError::Full { kept: Kept(1), .. }), "{error}");
            assert_eq!((log.head(), place.events()), (1, vec![started()]), "all of them or none");
        }
        more(&log, 1000);
        log.append(&staged).await.expect("room again");
        assert_eq!(log.head(), 5);
        assert_eq!(place.events(), [vec![started()], texts.map(said).to_vec()].concat());
        assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 5 });
    }
}

#[test]
fn a_session_whose_first_commit_finds_no_room_begins_when_there_is_some() {
    let place = Place::new();
    let mut journal = Journal::create(&place.dir, opening()).expect("a new session");
    allow_pages(&journal, 1);
    // The tables are there: only what needs room of its own finds none.
    let Event::SessionStarted { session, version, parent, .. } = started() else { panic!("it starts a session") };
    let started = Event::SessionStarted { session, workspace: "/w".repeat(10_000), version, parent };
    journal.stage(1, started.clone());
    let error = journal.commit().expect_err("no room");
    assert_eq!(error.to_string(), format!("no space left to write {}; nothing was changed", db(&place)));
    assert_eq!(place.events(), []);
    allow_pages(&journal, 1000);
    journal.commit().expect("room again");
    assert_eq!(place.events(), [started]);
}

#[test]
fn a_database_that_may_not_be_written_says_so_and_keeps_what_is_staged() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    journal.conn.execute_batch("PRAGMA query_only = ON").expect("a setting SQLite knows");
    journal.stage(2, said("not yet"));
    let error = journal.commit().expect_err("it is read-only");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert_eq!(error.to_string(), format!("{} may not be written; everything up to event 1 is safe", db(&place)));
    journal.conn.execute_batch("PRAGMA query_only = OFF").expect("a setting SQLite knows");
    journal.commit().expect("it is writable");
    assert_eq!(place.events(), [started(), said("not yet")]);
}

#[test]
fn a_file_where_the_sessions_should_be_is_named() {
    let place = Place::new();
    let sessions = place.temp.path().join("sessions");
    fs::write(&sessions, "in the way").expect("a file");
    let error = Journal::create(&place.dir, opening()).expect_err("no folder");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert_eq!(error.to_string(), format!("{} could not be read or written; nothing was changed", sessions.display()));
    assert!(std::error::Error::source(&error).is_some(), "and the system's own words are kept");
}

#[test]
fn a_lock_file_that_cannot_be_opened_is_named() {
    let place = Place::closed(small_session());
    fs::remove_file(place.dir.lock()).expect("a file");
    fs::create_dir(place.dir.lock()).expect("a folder in its place");
    let before = place.bytes();
    let error = place.open().map(drop).expect_err("no lock");
    let lock = place.dir.lock();
    assert_eq!(error.to_string(), format!("{} could not be read or written; nothing was changed", lock.display()));
    assert!(place.bytes() == before);
}

#[test]
fn a_blob_that_cannot_be_written_keeps_its_event_staged() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    fs::write(place.dir.blobs(), "in the way").expect("a file");
    journal.stage(2, said(&"x".repeat(70_000)));
    let error = journal.commit().expect_err("no folder for blobs");
    assert!(error.to_string().contains("blobs"), "{error}");
    assert_eq!(place.events(), [started()]);
    fs::remove_file(place.dir.blobs()).expect("a file");
    journal.commit().expect("nothing in the way");
    assert_eq!(place.events(), [started(), said(&"x".repeat(70_000))]);
}

fn db(place: &Place) -> String {
    place.dir.journal_db().display().to_string()
}
