//! Events on their way back: beside a live writer, after a dead one, small, large, and to the last bit.

use super::*;
use crate::store;
use piton_core::turn::State;

#[test]
fn a_reader_beside_a_live_writer_sees_what_is_committed_and_never_what_is_staged() {
    let place = Place::new();
    let mut journal = Journal::create(&place.dir, opening()).expect("a new session");
    let reader = Reader::open(&place.dir).expect("a folder");
    journal.stage(1, started());
    assert_eq!(reader.read(1, 10).expect("readable"), []);
    assert!(matches!(reader.summary(), Err(StoreError::NotFound { .. })));
    journal.commit().expect("room on the disk");
    assert_eq!(events_of(reader.read(1, 10).expect("readable")), [started()]);

    journal.stage(2, said("hello"));
    assert_eq!(reader.read(2, 10).expect("readable"), []);
    assert_eq!(reader.summary().expect("readable").title, "");
    journal.commit().expect("room on the disk");
    assert_eq!(reader.read(2, 10).expect("readable").len(), 1);
    assert_eq!(reader.summary().expect("readable").title, "hello");
}

#[test]
fn reading_begins_and_ends_where_it_is_asked_to() {
    let place = Place::new();
    let journal = place.create(small_session());
    let positions = |records: Vec<Record>| records.iter().map(|record| record.seq).collect::<Vec<_>>();
    for (from, max, expected) in
        [(0, 2, vec![1, 2]), (2, 2, vec![2, 3]), (4, 9, vec![4, 5]), (6, 9, vec![]), (1, 0, vec![])]
    {
        assert_eq!(positions(journal.read(from, max).expect("readable")), expected);
        let reader = Reader::open(&place.dir).expect("a session");
        assert_eq!(positions(reader.read(from, max).expect("readable")), expected);
    }
    assert_eq!(
        positions(Reader::open(&place.dir).and_then(|reader| reader.read(5, usize::MAX)).expect("readable")),
        [5]
    );
}

#[test]
fn a_closed_session_is_read_without_leaving_a_trace() {
    let place = Place::closed(small_session());
    let before = place.bytes();
    assert_eq!(place.events().len(), 6);
    assert!(place.bytes() == before);
    assert!(place.open().is_ok());
}

#[test]
fn a_killed_session_is_read_without_being_tidied_up() {
    let place = Place::killed(small_session());
    let before = place.bytes();
    assert_eq!(place.events().len(), 7);
    assert_eq!(verify(&place.dir).expect("readable"), CheckResult::Sound { events: 7 });
    assert!(place.bytes() == before);
}

#[test]
fn a_closed_session_can_be_read_where_no_file_can_be_made() {
    let place = Place::closed(small_session());
    // A folder that may not be written would do it too, but not for root.
    let shared_memory = place.dir.journal_db().with_file_name("journal.db-shm");
    std::os::unix::fs::symlink("/nowhere/at/all", shared_memory).expect("a link");
    assert_eq!(place.events().len(), 6);
    assert_eq!(summary(&place.dir).expect("readable").title, "one");
}

#[test]
fn names_that_mean_something_in_a_uri_are_only_names() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let dir = SessionDir::new(&temp.path().join("50% of #1? yes & no"), &SessionId::from("ses_1"));
    let mut journal = Journal::create(&dir, opening()).expect("a new session");
    append(&mut journal, small_session());
    journal.close(9);
    let shared_memory = dir.journal_db().with_file_name("journal.db-shm");
    std::os::unix::fs::symlink("/nowhere/at/all", shared_memory).expect("a link");
    assert_eq!(read_session(&dir).expect("readable").len(), 6);
}

#[test]
fn a_large_event_lies_in_a_blob_and_comes_back_equal() {
    let large = said(&"ü".repeat(40_000));
    let place = Place::closed(vec![started(), large.clone(), said("small")]);
    assert_eq!(place.events()[1], large);
    assert_eq!(blobs(&place).len(), 1);
    let body: String =
        place.behind_the_back().query_row("SELECT body FROM event WHERE seq = 2", [], |row| row.get(0)).expect("a row");
    assert_eq!(
        body,
        format!(r#"{{"blob":"{}","bytes":{}}}"#, blobs(&place)[0], serde_json::to_string(&large).expect("JSON").len())
    );
}

#[test]
fn the_same_content_twice_is_one_blob() {
    let large = said(&"x".repeat(70_000));
    let place = Place::closed(vec![started(), large.clone(), large.clone(), said(&"y".repeat(70_000))]);
    assert_eq!(blobs(&place).len(), 2);
    assert_eq!(place.events()[1..3], [large.clone(), large]);
}

#[test]
fn the_limit_for_a_blob_is_64_kib_of_json() {
    let frame = serde_json::to_string(&said("")).expect("JSON").len();
    let at_the_limit = said(&"x".repeat(64 * 1024 - frame));
    let place = Place::closed(vec![started(), at_the_limit]);
    assert!(!place.dir.blobs().exists());
    let above = said(&"x".repeat(64 * 1024 - frame + 1));
    assert_eq!(blobs(&Place::closed(vec![started(), above])).len(), 1);
}

#[test]
fn a_missing_blob_is_damage_with_the_name_of_the_file() {
    let place = Place::closed(vec![started(), said(&"x".repeat(70_000))]);
    let blob = place.dir.blobs().join(&blobs(&place)[0]);
    fs::remove_file(&blob).expect("a file");
    let error = read_session(&place.dir).expect_err("an event is gone");
    assert_eq!(error.to_string(), format!("{} is damaged: the file is missing; the file is unchanged", blob.display()));
}

#[test]
fn a_number_in_the_input_of_a_call_comes_back_to_the_last_bit() {
    let mut bits = 1u64;
    let mut floats = vec![0.1 + 0.2, -0.0, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e23, 123_456_789.123_456_79];
    while floats.len() < 2000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        floats.extend(Some(f64::from_bits(bits)).filter(|float| float.is_finite()));
    }
    let reply = reply(vec![call("c1_0", "measure", json!({ "floats": floats, "large": u64::MAX, "small": i64::MIN }))]);
    let event = Event::replied(1, reply);
    let mut journal = Journal::in_memory();
    append(&mut journal, vec![started(), event.clone()]);
    let read = journal.read(2, 1).expect("readable").remove(0).event;
    // Text, since -0.0 and 0.0 are equal as numbers.
    assert_eq!(format!("{read:?}"), format!("{event:?}"));
}

fn blobs(place: &Place) -> Vec<String> {
    let files = fs::read_dir(place.dir.blobs()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    files.map(|name| name.into_string().expect("a hash")).collect()
}

/// A session of several pages, as many threads decode them.
fn long_session() -> Vec<Event> {
    [started()].into_iter().chain((0..2000).map(|number| said(&format!("number {number}")))).collect()
}

#[test]
fn a_long_session_is_read_in_order_and_from_anywhere() {
    let place = Place::closed(long_session());
    let mut expected = long_session();
    expected.push(Event::WriterClosed {});
    assert!(place.events() == expected);
    let late = Reader::open(&place.dir).expect("readable").read(1500, 400).expect("readable");
    assert!(late.iter().zip(1500..).all(|(record, seq)| record.seq == seq) && late.len() == 400);
    let mut visited = Vec::new();
    let journal = Journal::open_each(&place.dir, opening(), |record| visited.push(record.seq)).expect("sound");
    assert!(visited == (1..=journal.durable_seq()).collect::<Vec<_>>());
}

#[test]
fn harm_far_into_a_long_session_is_damage_and_not_an_end() {
    for harm in [
        "DELETE FROM event WHERE seq = 1700",
        "UPDATE event SET body = '{' WHERE seq = 1700",
        "UPDATE event SET body = '{\"type\":\"no_such\"}' WHERE seq = 1999",
        "UPDATE event SET hash = zeroblob(3) WHERE seq = 700",
    ] {
        let place = Place::closed(long_session());
        place.tamper(harm);
        assert!(matches!(read_session(&place.dir), Err(StoreError::Damaged { .. })), "{harm}");
    }
}

/// What is kept beside a session: the positions it heard, each with whether it counts.
#[derive(Default)]
struct Heard(Vec<(Seq, bool)>);

impl Fold for Heard {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn hear(&mut self, record: &Record, counts: bool) {
        self.0.push((record.seq, counts));
    }
}

#[tokio::test]
async fn whoever_resumes_a_session_hears_every_event_once_and_which_of_them_were_taken_back() {
    let back = Rewind { direction: Direction::Undo, turns: 1, to: Some(1), files: vec![], overwrite: false };
    let back = Event::RewindFinished { rewind: back, left: vec![], back: None };
    for (events, gone) in [(small_session(), vec![]), ([small_session(), vec![back]].concat(), vec![2, 3, 4, 5])] {
        let place = Place::closed(events);
        let written = read_session(&place.dir).expect("readable");
        let mut heard = Heard::default();
        let resumed = store::resume(&place.store(), &SessionId::from("ses_1"), opening(), &mut heard).await;
        let (_log, session) = resumed.expect("a sound session");
        let all = read_session(&place.dir).expect("readable");
        assert_eq!(all.len(), written.len() + 1, "and that it was opened");
        assert_eq!(heard.0, all.iter().map(|record| (record.seq, !gone.contains(&record.seq))).collect::<Vec<_>>());
        assert_eq!(session, State::fold(&all));
    }
}
