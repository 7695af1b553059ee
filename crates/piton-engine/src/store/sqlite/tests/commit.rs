//! What is durable, and who may make it so.

use super::*;

#[test]
fn what_was_committed_comes_back_equal_followed_by_the_new_writer() {
    let place = Place::new();
    let mut committed = append(&mut place.create(vec![started()]), eventful_session().split_off(1));
    committed.insert(0, Record { seq: 1, at_ms: 1, event: started() });
    let (mut journal, records) = place.open().expect("a sound session");
    committed.push(Record { seq: committed.len() as Seq + 1, at_ms: 50, event: opened(2) });
    assert_eq!(records, committed);
    assert_eq!(journal.durable_seq(), records.len() as Seq);
    let next = append(&mut journal, vec![said("go on")]);
    assert_eq!(journal.read(next[0].seq, 10).expect("a sound journal"), next);
}

#[test]
fn every_opening_is_an_epoch_of_its_own() {
    let place = Place::closed(vec![started()]);
    drop(place.open().expect("a sound session"));
    drop(place.open().expect("a sound session"));
    assert_eq!(place.events(), [started(), Event::WriterClosed {}, opened(2), opened(3)]);
}

#[test]
fn what_is_only_staged_is_lost_with_the_writer() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    assert_eq!(journal.stage(2, said("not yet")).seq, 2);
    assert_eq!(journal.durable_seq(), 1);
    drop(journal);
    assert_eq!(place.events(), [started()]);
}

#[test]
fn what_is_committed_survives_a_kill() {
    let place = Place::new();
    kill(place.create(small_session()));
    assert!(fs::metadata(place.wal()).expect("a log").len() > 0, "nothing was tidied up");
    let (_, records) = place.open().expect("a sound session");
    let mut expected = small_session();
    expected.push(opened(2));
    assert_eq!(events_of(records), expected);
}

#[test]
fn a_commit_that_fails_on_its_last_event_writes_none_of_them() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    let guard = "CREATE TEMP TRIGGER guard BEFORE INSERT ON main.event WHEN NEW.seq = 4 \
                 BEGIN SELECT raise(ABORT, 'not this one'); END";
    journal.conn.execute_batch(guard).expect("a trigger");
    for text in ["one", "two", "three"] {
        journal.stage(2, said(text));
    }
    let error = journal.commit().expect_err("the last event is refused");
    assert_eq!(
        error.to_string(),
        format!("{} could not be read or written; everything up to event 1 is safe", db(&place))
    );
    assert_eq!((journal.durable_seq(), place.events()), (1, vec![started()]));

    journal.conn.execute_batch("DROP TRIGGER guard").expect("a trigger");
    journal.commit().expect("nothing in the way");
    assert_eq!(place.events(), [started(), said("one"), said("two"), said("three")]);
    assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 4 });
}

fn db(place: &Place) -> String {
    place.dir.journal_db().display().to_string()
}

#[test]
fn a_session_that_never_committed_does_not_exist() {
    let place = Place::new();
    let journal = Journal::create(&place.dir, opening()).expect("a new session");
    assert_eq!(journal.read(1, 10).expect("nothing to read"), []);
    assert_eq!(journal.summary().expect("nothing to read"), None);
    drop(journal);
    assert!(matches!(place.open(), Err(StoreError::NotFound { .. })));
    assert_eq!(read_session(&place.dir).expect("nothing to read"), []);
    assert!(matches!(summary(&place.dir), Err(StoreError::NotFound { .. })));
    assert_eq!(verify(&place.dir).expect("nothing to check"), CheckResult::Sound { events: 0 });
}

#[test]
fn a_folder_without_a_session_is_left_alone() {
    let place = Place::new();
    assert!(matches!(place.open(), Err(StoreError::NotFound { .. })));
    assert!(matches!(read_session(&place.dir), Err(StoreError::NotFound { .. })));
    fs::create_dir_all(place.dir.root()).expect("a folder");
    assert!(matches!(place.open(), Err(StoreError::NotFound { .. })));
    assert_eq!(fs::read_dir(place.dir.root()).expect("a folder").count(), 0);
}

#[test]
fn a_session_is_not_created_twice() {
    let place = Place::closed(small_session());
    let before = place.bytes();
    assert!(Journal::create(&place.dir, opening()).is_err());
    assert_eq!(place.bytes(), before);
}

#[test]
fn a_second_writer_is_told_who_the_first_is_and_waits_for_its_end() {
    let place = Place::new();
    let first = place.create(vec![started()]);
    assert!(is_held(&place.dir));
    let second = Opening { pid: 1234, ..opening() };
    assert!(
        matches!(Journal::open(&place.dir, second), Err(StoreError::Busy { holder }) if holder == Holder(Some(format!("process {PID}"))))
    );
    drop(first);
    assert!(!is_held(&place.dir));
    assert_eq!(events_of(place.open().expect("a free session").1), [started(), opened(2)]);
}

#[test]
fn looking_whether_a_session_is_held_keeps_nobody_from_opening_it() {
    let place = Place::closed(vec![started()]);
    let opened_enough = std::sync::atomic::AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !opened_enough.load(std::sync::atomic::Ordering::Relaxed) {
                is_held(&place.dir);
            }
        });
        let busy = (0..300).filter(|_| Lock::take(&place.dir.lock(), PID).is_err()).count();
        opened_enough.store(true, std::sync::atomic::Ordering::Relaxed);
        busy
    });
    assert_eq!(busy, 0, "nobody else ever wanted to write");
}

#[test]
fn a_writer_that_slept_through_losing_the_lock_is_fenced_and_writes_nothing() {
    let place = Place::new();
    let mut sleeper = place.create(vec![started()]);
    // As a file system does that forgets locks.
    fs::remove_file(place.dir.lock()).expect("a lock file");
    let (mut heir, _) = place.open().expect("nobody seems to be there");
    append(&mut heir, vec![said("mine")]);

    sleeper.stage(9, said("late"));
    let error = sleeper.commit().expect_err("somebody else writes now");
    assert!(matches!(error, StoreError::Fenced { kept: Kept(1) }), "{error}");
    assert!(matches!(sleeper.commit(), Err(StoreError::Fenced { .. })), "and for good");
    assert!(matches!(sleeper.rebuild_projections(), Err(StoreError::Fenced { .. })));
    sleeper.close(10);

    append(&mut heir, vec![said("still mine")]);
    assert_eq!(place.events(), [started(), opened(2), said("mine"), said("still mine")]);
    assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 4 });
}

#[test]
fn closing_commits_what_is_staged_and_folds_the_log_into_the_database() {
    let place = Place::new();
    let mut journal = place.create(vec![started()]);
    journal.stage(2, said("last words"));
    journal.close(3);
    assert!(!place.wal().exists());
    assert_eq!(place.events(), [started(), said("last words"), Event::WriterClosed {}]);
    assert_eq!(read_session(&place.dir).expect("readable")[2].at_ms, 3);
}

#[test]
fn the_next_writer_folds_the_log_that_a_killed_one_left() {
    let place = Place::killed(small_session());
    place.open().expect("a sound session").0.close(100);
    assert!(!place.wal().exists());
    assert_eq!(place.events().len(), 9);
}

#[test]
fn closing_loses_nothing_when_a_reader_is_in_the_way() {
    let place = Place::new();
    let journal = place.create(vec![started()]);
    let reader = place.behind_the_back();
    let count = || reader.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, u32>(0)).expect("a number");
    let view = reader.unchecked_transaction().expect("a view");
    assert_eq!(count(), 1);
    journal.close(3);
    assert_eq!(count(), 1, "its view does not change");
    drop(view);
    assert_eq!(count(), 2);
    drop(reader);
    assert_eq!(place.events(), [started(), Event::WriterClosed {}]);
}

#[test]
fn closing_a_session_without_events_leaves_it_without() {
    let place = Place::new();
    Journal::create(&place.dir, opening()).expect("a new session").close(1);
    assert_eq!(place.events(), []);
    assert!(matches!(place.open(), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_journal_in_memory_keeps_its_events_while_it_lives() {
    let mut journal = Journal::in_memory();
    append(&mut journal, eventful_session());
    assert_eq!(events_of(journal.read(1, usize::MAX).expect("readable")), eventful_session());
}
