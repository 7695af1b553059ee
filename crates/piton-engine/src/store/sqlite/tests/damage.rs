//! Files that are not what they should be: reported, and left byte for byte as they are.

use super::*;

/// Whether nobody gets in, for a reason that fits, and nothing changes.
fn check_refused(place: &Place, what: &str, fits: fn(&StoreError) -> bool) {
    let before = place.bytes();
    let refusals = [
        ("open", place.open().map(drop)),
        ("read_session", read_session(&place.dir).map(drop)),
        ("open again", place.open().map(drop)),
    ];
    for (act, refusal) in refusals {
        let error = refusal.expect_err(&format!("{act}: {what}"));
        assert!(fits(&error), "{act}: {what}: {error}");
    }
    assert!(place.bytes() == before, "{what}: the files were changed");
}

fn is_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { .. })
}

#[test]
fn a_file_full_of_garbage_is_damaged() {
    let garbage: [&[u8]; 4] = [b"x", &[0; 100], &[0; 8192], &b"not a database, but long enough".repeat(1000)];
    for bytes in garbage {
        let place = Place::closed(small_session());
        fs::write(place.dir.journal_db(), bytes).expect("a file");
        check_refused(&place, &format!("{} bytes of garbage", bytes.len()), is_damaged);
    }
}

#[test]
fn a_database_that_was_cut_off_is_damaged_wherever_the_cut_is() {
    let len = Place::closed(eventful_session()).bytes()["journal.db"].len();
    for size in [0, 1, 16, 99, 100, 512, 4095, 4096, 4097, 8192, len / 2, len - 4096, len - 2000, len - 1] {
        let place = Place::closed(eventful_session());
        cut(&place.dir.journal_db(), size);
        check_refused(&place, &format!("cut to {size} of {len} bytes"), is_damaged);
    }
}

#[test]
fn an_emptied_database_does_not_cost_the_log_beside_it() {
    let place = Place::killed(small_session());
    cut(&place.dir.journal_db(), 0);
    check_refused(&place, "emptied, with a log", is_damaged);
    assert!(place.bytes()["journal.db-wal"].len() > 4096);
}

/// What a power cut may leave of a database that was never synced.
const LOST: [(&str, Option<usize>); 4] =
    [("gone", None), ("emptied", Some(0)), ("cut short", Some(100)), ("zeros", Some(4096))];

fn lose(db: &Path, left: Option<usize>) {
    match left {
        None => fs::remove_file(db).expect("a database"),
        Some(len) => fs::write(db, vec![0; len]).expect("a file"),
    }
}

#[test]
fn a_new_session_is_whole_in_its_log_alone() {
    for (what, left) in LOST {
        let place = Place::new();
        kill(place.create(eventful_session()));
        lose(&place.dir.journal_db(), left);
        assert_eq!(place.events(), eventful_session(), "{what}: read");

        let place = Place::new();
        kill(place.create(eventful_session()));
        lose(&place.dir.journal_db(), left);
        let (journal, records) = place.open().expect(what);
        let mut expected = eventful_session();
        expected.push(opened(2));
        assert_eq!(events_of(records), expected, "{what}: opened");
        journal.close(99);
        expected.push(Event::WriterClosed {});
        assert_eq!(place.events(), expected, "{what}: closed");
        let events = expected.len() as u64;
        assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events });
    }
}

#[test]
fn a_lost_database_is_not_made_up_from_a_log_that_has_only_a_part_of_it() {
    for (what, left) in LOST {
        // Its log was folded in once: what lies there now is what came later.
        let place = Place::killed(eventful_session());
        lose(&place.dir.journal_db(), left);
        let fits = |error: &StoreError| matches!(error, StoreError::Damaged { .. } | StoreError::NotFound { .. });
        check_refused(&place, what, fits);
        assert!(!unborn::is_unborn(&place.dir), "{what}: what is in the log is not thrown away");
    }
}

#[test]
fn of_a_new_session_a_torn_log_keeps_whole_commits_or_nothing() {
    let place = Place::new();
    let mut journal = place.create(small_session());
    append(&mut journal, vec![said("more")]);
    kill(journal);
    let log = fs::read(place.wal()).expect("a log");
    let mut whole = small_session();
    let earlier = whole.clone();
    whole.push(said("more"));
    let mut seen = Vec::new();
    for len in (0..=log.len()).step_by(509).chain([log.len()]) {
        let place = Place::new();
        fs::create_dir_all(place.dir.root()).expect("a folder");
        fs::write(place.wal(), &log[..len]).expect("a file");
        match read_session(&place.dir) {
            Ok(records) => seen.push(events_of(records)),
            Err(error) => assert!(matches!(error, StoreError::NotFound { .. }), "{len}: {error}"),
        }
    }
    seen.dedup();
    assert_eq!(seen, [vec![], earlier, whole], "the tables alone, then commit by commit");
    for hostile in [vec![0xff; 40], log[..32].to_vec(), [&log[..8], &[0xff; 4096][..]].concat()] {
        let place = Place::new();
        fs::create_dir_all(place.dir.root()).expect("a folder");
        fs::write(place.wal(), hostile).expect("a file");
        assert!(matches!(read_session(&place.dir), Err(StoreError::NotFound { .. })));
    }
}

#[test]
fn a_log_that_was_cut_off_costs_its_last_commits_and_nothing_before_them() {
    let place = Place::killed(small_session());
    let len = fs::metadata(place.wal()).expect("a log").len();
    cut(&place.wal(), usize::try_from(len - 1).expect("a small log"));
    let mut expected = small_session();
    expected.pop();
    expected.extend([Event::WriterClosed {}, opened(2)]);
    assert_eq!(place.events(), expected);
    assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 6 });
}

#[test]
fn a_database_of_another_application_is_not_touched() {
    let of_another = [
        "CREATE TABLE cookies (name TEXT); INSERT INTO cookies VALUES ('session')",
        "PRAGMA journal_mode=WAL; PRAGMA application_id=7; PRAGMA user_version=1; CREATE TABLE event (seq INTEGER)",
        "PRAGMA user_version=1",
    ];
    for sql in of_another {
        let place = Place::new();
        fs::create_dir_all(place.dir.root()).expect("a folder");
        place.behind_the_back().execute_batch(sql).expect("SQL");
        check_refused(&place, sql, is_damaged);
    }
}

#[test]
fn harm_among_the_events_is_noticed_on_opening() {
    let harms = [
        "DELETE FROM event WHERE seq = 1",
        "DELETE FROM event WHERE seq = 3",
        "DELETE FROM event WHERE seq > 4",
        "UPDATE event SET body = '{}' WHERE seq = 2",
        "UPDATE event SET at_ms = -1 WHERE seq = 2",
        "UPDATE event SET hash = zeroblob(3) WHERE seq = 2",
        "UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE seq = 2",
    ];
    for sql in harms {
        for place in [Place::closed(small_session()), Place::killed(small_session())] {
            place.tamper(sql);
            let before = place.bytes();
            let error = place.open().map(drop).expect_err(sql);
            assert!(is_damaged(&error), "{sql}: {error}");
            assert!(place.bytes() == before, "{sql}: the files were changed");
        }
    }
}

#[test]
fn the_words_say_what_is_damaged_and_that_it_is_still_there() {
    let place = Place::closed(small_session());
    place.tamper("DELETE FROM event WHERE seq = 3");
    let db = place.dir.journal_db();
    let words = place.open().map(drop).expect_err("a gap").to_string();
    assert_eq!(words, format!("{} is damaged: event 3 is missing; the file is unchanged", db.display()));
}

#[test]
fn tables_of_a_newer_piton_are_left_to_it() {
    for place in [Place::closed(small_session()), Place::killed(small_session())] {
        place.behind_the_back().execute_batch("PRAGMA user_version = 2").expect("SQL");
        let is_newer = |error: &_| matches!(error, StoreError::Newer { found: 2, ours: 1 });
        check_refused(&place, "tables of version 2", is_newer);
    }
}

#[test]
fn an_event_of_a_newer_piton_is_left_to_it() {
    for place in [Place::closed(small_session()), Place::killed(small_session())] {
        place.tamper("UPDATE event SET v = 5 WHERE seq = 3");
        let is_newer = |error: &_| matches!(error, StoreError::Newer { found: 5, ours: 4 });
        check_refused(&place, "an event of version 5", is_newer);
    }
}

#[test]
fn an_event_names_the_oldest_version_that_knows_it() {
    let place = Place::closed(eventful_session());
    let journal = place.open().expect("a sound session").0;
    let sql = "SELECT DISTINCT kind FROM event WHERE v = 2 ORDER BY seq";
    let kinds: Vec<String> = dump_column(&journal.conn, sql);
    assert_eq!(kinds, ["budget_short", "title_given", "event_lost", "workspace_moved"]);
    let kinds: Vec<String> = dump_column(&journal.conn, "SELECT DISTINCT kind FROM event WHERE v = 3");
    assert_eq!(kinds, ["hooks_ran", "context_given"]);
    let kinds: Vec<String> = dump_column(&journal.conn, "SELECT DISTINCT kind FROM event WHERE v = 4");
    assert_eq!(kinds, ["call_requested"]);
}

fn dump_column(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("text")
}

fn cut(path: &Path, size: usize) {
    let file = fs::File::options().write(true).open(path).expect("a file");
    file.set_len(size as u64).expect("a shorter file");
}
