//! What a full check finds, after somebody got past the guards.

use super::*;
use crate::store::sqlite::rows::Sheet;

fn verdict(place: &Place) -> CheckResult {
    verify(&place.dir).expect("a journal that can be checked")
}

#[test]
fn an_honest_journal_is_sound_closed_killed_or_live() {
    assert_eq!(verdict(&Place::closed(small_session())), CheckResult::Sound { events: 6 });
    assert_eq!(verdict(&Place::killed(small_session())), CheckResult::Sound { events: 7 });
    let place = Place::new();
    let mut live = place.create(eventful_session());
    live.stage(100, said("only staged"));
    assert_eq!(verdict(&place), CheckResult::Sound { events: eventful_session().len() as u64 });
}

#[test]
fn the_guards_keep_events_from_being_changed_by_mistake() {
    let place = Place::closed(small_session());
    for sql in ["UPDATE event SET body = '{}'", "DELETE FROM event WHERE seq = 3"] {
        let error = place.behind_the_back().execute_batch(sql).expect_err("a guard");
        assert!(error.to_string().starts_with("events are never"), "{error}");
    }
}

#[test]
fn a_change_in_the_rows_is_found_where_it_is() {
    let cases = [
        ("an edited body", "UPDATE event SET body = replace(body, 'two', 'ten') WHERE seq = 3", 3, Flaw::Changed),
        ("another time", "UPDATE event SET at_ms = at_ms + 1 WHERE seq = 2", 2, Flaw::Changed),
        ("another epoch", "UPDATE event SET epoch = 7 WHERE seq = 4", 4, Flaw::Changed),
        ("another kind", "UPDATE event SET kind = 'step_started' WHERE seq = 5", 5, Flaw::Changed),
        ("another version", "UPDATE event SET v = 0 WHERE seq = 1", 1, Flaw::Changed),
        ("another hash", "UPDATE event SET hash = zeroblob(32) WHERE seq = 2", 2, Flaw::Changed),
        ("half a hash", "UPDATE event SET hash = zeroblob(16) WHERE seq = 2", 2, Flaw::Changed),
        ("a time that is none", "UPDATE event SET at_ms = -1 WHERE seq = 4", 4, Flaw::Changed),
        ("a body that is not text", "UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE seq = 3", 3, Flaw::Changed),
        ("a deleted row", "DELETE FROM event WHERE seq = 3", 3, Flaw::Missing),
        ("a deleted first row", "DELETE FROM event WHERE seq = 1", 1, Flaw::Missing),
        ("a cut tail", "DELETE FROM event WHERE seq > 4", 5, Flaw::Missing),
        ("no rows at all", "DELETE FROM event", 1, Flaw::Missing),
        (
            "swapped rows",
            "UPDATE event SET seq = 100 WHERE seq = 2; UPDATE event SET seq = 2 WHERE seq = 3; \
             UPDATE event SET seq = 3 WHERE seq = 100",
            2,
            Flaw::Changed,
        ),
        (
            "a repeated row",
            "INSERT INTO event SELECT 7, epoch, at_ms, kind, v, body, hash FROM event WHERE seq = 6",
            7,
            Flaw::Changed,
        ),
    ];
    for (what, sql, seq, flaw) in cases {
        let place = Place::closed(small_session());
        place.tamper(sql);
        assert_eq!(verdict(&place), CheckResult::Bad { seq, flaw }, "{what}");
    }
}

/// Adds a row that is sealed as it should be.
fn add_row(place: &Place, body: &str) {
    let conn = place.behind_the_back();
    let head = rows::head(&conn).expect("a last row");
    let (seq, body) = (head.seq + 1, body.to_owned());
    let sheet = Sheet { seq, epoch: 1, at_ms: 1, kind: "user_spoke".to_owned(), v: 1, body };
    rows::insert(&conn, head, &sheet).expect("a new row");
}

#[test]
fn a_well_sealed_row_that_no_writer_has_accounted_for_is_found() {
    let place = Place::closed(small_session());
    add_row(&place, &serde_json::to_string(&said("psst")).expect("JSON"));
    assert_eq!(verdict(&place), CheckResult::Bad { seq: 7, flaw: Flaw::Changed });
    assert!(matches!(place.open(), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_row_that_was_forged_and_sealed_anew_does_not_fit_the_one_behind_it() {
    let place = Place::closed(small_session());
    place.tamper("UPDATE event SET body = replace(body, 'two', 'ten') WHERE seq = 3");
    let conn = place.behind_the_back();
    let mut before = [0; 32];
    rows::each_from(&conn, 2, 2, |sheet, stored| {
        let seal = sheet.hash(&before);
        before = stored;
        if sheet.seq == 3 {
            conn.execute("UPDATE event SET hash = ? WHERE seq = 3", [seal])?;
        }
        Ok(())
    })
    .expect("two rows");
    assert_eq!(verdict(&place), CheckResult::Bad { seq: 4, flaw: Flaw::Changed });
}

#[test]
fn an_event_that_cannot_be_understood_is_found_although_it_is_as_it_was_written() {
    let place = Place::closed(small_session());
    add_row(&place, r#"{"type":"dreamt"}"#);
    place.tamper("UPDATE writer SET last_seq = 7");
    assert_eq!(verdict(&place), CheckResult::Bad { seq: 7, flaw: Flaw::Unreadable });
}

#[test]
fn a_journal_that_forgot_who_writes_it_is_damaged() {
    for sql in ["DELETE FROM writer", "DROP TABLE writer", "UPDATE writer SET last_seq = -1"] {
        let place = Place::closed(small_session());
        place.tamper(sql);
        assert!(matches!(verify(&place.dir), Err(StoreError::Damaged { .. })), "{sql}");
        assert!(matches!(place.open(), Err(StoreError::Damaged { .. })), "{sql}");
    }
}

#[test]
fn a_changed_a_cut_and_a_missing_blob_are_found() {
    type Harm = fn(&Path);
    let harms: [Harm; 3] = [
        |blob| fs::write(blob, fs::read_to_string(blob).expect("JSON").replacen('x', "y", 1)).expect("a file"),
        |blob| fs::write(blob, "").expect("a file"),
        |blob| fs::remove_file(blob).expect("a file"),
    ];
    for harm in harms {
        let place = Place::closed(vec![started(), said("small"), said(&"x".repeat(70_000)), said("small")]);
        assert_eq!(verdict(&place), CheckResult::Sound { events: 5 });
        let mut blobs = fs::read_dir(place.dir.blobs()).expect("a folder");
        harm(&blobs.next().expect("one blob").expect("an entry").path());
        assert_eq!(verdict(&place), CheckResult::Bad { seq: 3, flaw: Flaw::Blob });
    }
}
