//! An older database becomes a current one, or stays what it was.

use super::*;
use crate::store::sqlite::schema::Projections;

const NEW_COLUMN: &str = "ALTER TABLE session ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'";

/// The list of migrations of a Piton that has one more.
fn and_then(sql: &'static str, projections: Projections) -> [Migration; 2] {
    [MIGRATIONS[0], Migration { sql, projections }]
}

fn version(conn: &Connection) -> u32 {
    conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
}

fn value(journal: &Journal, column: &str) -> String {
    journal.conn.query_row(&format!("SELECT {column} FROM session"), [], |row| row.get(0)).expect("a session")
}

#[test]
fn opening_an_older_session_upgrades_it_and_keeps_its_events() {
    for place in [Place::closed(small_session()), Place::killed(small_session())] {
        let before = place.events();
        let newer = and_then(NEW_COLUMN, Projections::Keep);
        let (mut journal, records) = open_with(&place.dir, &newer).expect("an older session");
        assert_eq!(version(&journal.conn), 2);
        assert_eq!(value(&journal, "mood"), "calm");
        assert_eq!(events_of(records)[..before.len()], before);
        append(&mut journal, vec![said("on the new tables")]);
        drop(journal);
        assert!(matches!(place.open(), Err(StoreError::Newer { found: 2, ours: 1 })), "there is no way back");
    }
}

#[test]
fn the_older_database_stays_beside_it_as_a_session_of_its_own() {
    for place in [Place::closed(small_session()), Place::killed(small_session())] {
        let before = place.events();
        let newer = and_then(NEW_COLUMN, Projections::Keep);
        drop(open_with(&place.dir, &newer).expect("an older session"));
        let copy = place.dir.root().join("journal.db.v1.bak");
        assert!(!copy.with_added_extension("tmp").exists());

        let restored = Place::new();
        fs::create_dir_all(restored.dir.root()).expect("a folder");
        fs::copy(copy, restored.dir.journal_db()).expect("a file");
        assert_eq!(version(&restored.behind_the_back()), 1);
        assert_eq!(restored.events(), before);
        assert_eq!(verify(&restored.dir).expect("readable"), CheckResult::Sound { events: before.len() as u64 });
        restored.open().expect("a session of this version");
    }
}

#[test]
fn a_session_that_is_not_older_is_not_copied() {
    let place = Place::closed(small_session());
    drop(place.open().expect("a session of this version"));
    assert_eq!(place.bytes().keys().collect::<Vec<_>>(), ["journal.db"]);
}

#[test]
fn a_migration_says_whether_the_projections_are_made_again() {
    for (projections, title) in [(Projections::Rebuild, "one"), (Projections::Keep, "stale")] {
        let place = Place::closed(small_session());
        let newer = and_then("UPDATE session SET title = 'stale'", projections);
        let (journal, _) = open_with(&place.dir, &newer).expect("an older session");
        assert_eq!(value(&journal, "title"), title);
    }
}

#[test]
fn projections_are_made_again_on_the_new_tables_from_large_events_too() {
    let place = Place::closed(vec![started(), said(&"large ".repeat(20_000))]);
    let newer = and_then("DELETE FROM part; DELETE FROM message; UPDATE session SET title = ''", Projections::Rebuild);
    let (journal, _) = open_with(&place.dir, &newer).expect("an older session");
    assert_eq!(value(&journal, "title"), "large ".repeat(14)[..80]);
    assert_eq!(dump(&journal.conn, "message").len(), 1);
}

#[test]
fn a_migration_that_fails_leaves_the_database_as_it_was() {
    for place in [Place::closed(small_session()), Place::killed(small_session())] {
        let (before, db) = (place.events(), fs::read(place.dir.journal_db()).expect("a file"));
        let newer =
            and_then("UPDATE session SET title = 'half-way'; ALTER TABLE nowhere RENAME TO x", Projections::Keep);
        for _ in 0..2 {
            assert!(open_with(&place.dir, &newer).is_err());
        }
        assert!(fs::read(place.dir.journal_db()).expect("a file") == db);
        assert_eq!(place.events(), before);
        let (journal, _) = place.open().expect("a session of this version");
        assert_eq!((version(&journal.conn), value(&journal, "title")), (1, "one".to_owned()));
    }
}
