//! The list of sessions as specifications: it follows what lies on the disk, and finds what was meant.

use super::*;
use crate::store::Opening;
use crate::store::sqlite::Journal;
use piton_core::event::{Delivery, Event, TitledBy};
use piton_core::ids::MessageId;
use piton_core::message::Part;
use std::time::SystemTime;

fn opening(now_ms: u64) -> Opening {
    Opening { pid: 1, boot_id: None, now_ms, shares_runtime: false }
}

/// A session as a killed process leaves it: committed, not closed.
fn session(data: &Path, id: &str, workspace: &str, at_ms: u64) {
    let dir = SessionDir::new(&data.join("sessions"), &SessionId(id.to_owned()));
    let mut journal = Journal::create(&dir, opening(at_ms)).expect("a new session");
    let started = Event::SessionStarted {
        session: SessionId(id.to_owned()),
        workspace: workspace.to_owned(),
        version: "0".to_owned(),
        parent: None,
    };
    journal.stage(at_ms, started);
    journal.commit().expect("room on the disk");
}

fn ids(index: &Index, workspace: Option<&str>) -> Vec<String> {
    let list = index.list(workspace.map(Path::new), usize::MAX).expect("a sound index");
    list.into_iter().map(|summary| summary.id.to_string()).collect()
}

#[test]
fn sessions_are_found_on_disk_newest_first_and_by_workspace() {
    let data = tempfile::tempdir().expect("a folder");
    assert!(ids(&Index::open(data.path()).expect("no sessions"), None).is_empty());
    session(data.path(), "ses_a", "/one", 10);
    session(data.path(), "ses_b", "/two", 20);
    session(data.path(), "ses_c", "/one", 30);
    let index = Index::open(data.path()).expect("three sessions");
    assert_eq!(ids(&index, None), ["ses_c", "ses_b", "ses_a"]);
    assert_eq!(ids(&index, Some("/one")), ["ses_c", "ses_a"]);
    assert_eq!(index.newest(Path::new("/two")).expect("sound"), Some(SessionId("ses_b".to_owned())));
    assert_eq!(index.newest(Path::new("/three")).expect("sound"), None);
}

#[test]
fn what_changes_on_disk_changes_in_the_list() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/one", 10);
    session(data.path(), "ses_b", "/one", 20);
    drop(Index::open(data.path()).expect("two sessions"));
    let dir = SessionDir::new(&data.path().join("sessions"), &SessionId("ses_a".to_owned()));
    let (mut journal, _) = Journal::open(&dir, opening(30)).expect("a session");
    let (message, parts) = (MessageId("msg_1".to_owned()), vec![Part::text("hello there")]);
    journal.stage(
        40,
        Event::UserSpoke {
            message,
            parts,
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        },
    );
    journal.commit().expect("room on the disk");
    fs::remove_dir_all(data.path().join("sessions/ses_b")).expect("a folder");
    let index = Index::open(data.path()).expect("one session");
    assert_eq!(ids(&index, None), ["ses_a"]);
    assert_eq!(index.list(None, 1).expect("sound")[0].title, "hello there");
}

#[test]
fn a_session_that_was_closed_is_looked_at_again_when_it_has_a_writer() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/one", 10);
    opened(data.path(), "ses_a", 20).close(20);
    let title = || Index::open(data.path()).expect("one session").list(None, 1).expect("sound")[0].title.clone();
    assert_eq!(title(), "");
    let mut journal = opened(data.path(), "ses_a", 30);
    assert_eq!(title(), "", "it has a writer, who has said nothing");
    for text in ["first", "second"] {
        journal.stage(40, titled(text));
        journal.commit().expect("room on the disk");
        assert_eq!(title(), text);
    }
    journal.close(50);
    assert_eq!(title(), "second");
}

#[test]
fn a_damaged_index_is_moved_aside_and_made_again() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/one", 10);
    for garbage in [b"not a database at all, but long enough to look like one".repeat(40), vec![0; 5000]] {
        fs::write(data.path().join("index.db"), garbage).expect("a file");
        assert_eq!(ids(&Index::open(data.path()).expect("made again"), None), ["ses_a"]);
        assert!(data.path().join("index.db.damaged").exists());
    }
}

#[test]
fn an_id_may_be_shortened_as_long_as_it_is_the_only_one() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_ab1", "/", 1);
    session(data.path(), "ses_ab2", "/", 2);
    let index = Index::open(data.path()).expect("two sessions");
    assert_eq!(index.find("ses_ab1").expect("one").as_str(), "ses_ab1");
    assert_eq!(index.find("ab2").expect("one").as_str(), "ses_ab2");
    assert!(matches!(index.find("ses_a"), Err(IndexError::Ambiguous { found, .. }) if found.len() == 2));
    assert!(matches!(index.find("ses_b"), Err(IndexError::NoSuch { .. })));
}

#[test]
fn a_session_that_cannot_be_read_is_named_and_does_not_hide_the_others() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/", 1);
    session(data.path(), "ses_b", "/", 2);
    fs::write(data.path().join("sessions/ses_b/journal.db"), b"garbage".repeat(1000)).expect("a file");
    let index = Index::open(data.path()).expect("one session");
    assert_eq!(ids(&index, None), ["ses_a"]);
    assert!(matches!(index.unreadable(), [(id, StoreError::Damaged { .. })] if id.as_str() == "ses_b"));
    assert_eq!(index.find("ses_b").expect("it lies there").as_str(), "ses_b");
}

#[test]
fn a_file_that_was_made_and_never_written_is_no_session_and_one_that_was_emptied_is_named() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/", 1);
    let empty = data.path().join("sessions/ses_b");
    fs::create_dir(&empty).expect("a folder");
    for file in ["lock", "journal.db", "journal.db-wal"] {
        fs::write(empty.join(file), "").expect("a file");
    }
    let index = Index::open(data.path()).expect("one session");
    assert_eq!((ids(&index, None), index.unreadable().len()), (vec!["ses_a".to_owned()], 0));
    // What commands wrote lies beside it: it was a session.
    fs::create_dir(empty.join("calls")).expect("a folder");
    let index = Index::open(data.path()).expect("one session");
    assert!(matches!(index.unreadable(), [(id, StoreError::Damaged { .. })] if id.as_str() == "ses_b"));
}

fn opened(data: &Path, id: &str, now_ms: u64) -> Journal {
    let dir = SessionDir::new(&data.join("sessions"), &SessionId(id.to_owned()));
    Journal::open(&dir, opening(now_ms)).expect("a session").0
}

fn happened(data: &Path, id: &str, at_ms: u64, event: Event) {
    let mut journal = opened(data, id, at_ms);
    journal.stage(at_ms, event);
    journal.commit().expect("room on the disk");
}

fn said(text: &str) -> Event {
    let (message, parts) = (MessageId("msg_1".to_owned()), vec![Part::text(text)]);
    Event::UserSpoke {
        message,
        parts,
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

fn titled(title: &str) -> Event {
    Event::TitleGiven { title: title.to_owned(), by: TitledBy::User }
}

#[test]
fn a_query_names_a_folder_and_what_lies_below_it_words_and_a_time() {
    let data = tempfile::tempdir().expect("a folder");
    for (id, workspace, at_ms, text) in
        [("ses_a", "/p", 10, "Fix the Tests"), ("ses_b", "/p/sub", 20, "tests again"), ("ses_c", "/pq", 30, "docs")]
    {
        session(data.path(), id, workspace, at_ms);
        happened(data.path(), id, at_ms, said(text));
    }
    let index = Index::open(data.path()).expect("three sessions");
    let found = |query: Query| -> Vec<String> {
        index.select(&query).expect("sound").into_iter().map(|summary| summary.id.0).collect()
    };
    let project = |path: &str| Some(PathBuf::from(path));
    assert_eq!(found(Query::default()), ["ses_c", "ses_b", "ses_a"]);
    assert_eq!(found(Query { project: project("/p"), ..Query::default() }), ["ses_b", "ses_a"]);
    assert_eq!(found(Query { project: project("/"), limit: Some(2), ..Query::default() }), ["ses_c", "ses_b"]);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(found(Query { words: words(&["TESTS"]), ..Query::default() }), ["ses_b", "ses_a"]);
    assert_eq!(found(Query { words: words(&["tests", "fix"]), ..Query::default() }), ["ses_a"]);
    assert!(found(Query { words: words(&["100%"]), ..Query::default() }).is_empty());
    assert_eq!(found(Query { since_ms: Some(20), ..Query::default() }), ["ses_c", "ses_b"]);
}

#[test]
fn a_session_is_meant_by_its_place_its_id_or_its_title() {
    let data = tempfile::tempdir().expect("a folder");
    for (id, workspace, at_ms) in [("ses_a1", "/p", 10), ("ses_b2", "/p", 20), ("ses_c3", "/q", 30)] {
        session(data.path(), id, workspace, at_ms);
        happened(data.path(), id, at_ms, said("the same words"));
    }
    happened(data.path(), "ses_a1", 40, titled("Parser rework"));
    let index = Index::open(data.path()).expect("three sessions");
    let named = |name: &str| index.named(name, Path::new("/p"));
    for (name, id) in [
        ("last", "ses_b2"),
        ("-1", "ses_b2"),
        ("-2", "ses_a1"),
        ("c", "ses_c3"),
        ("parser REWORK", "ses_a1"),
        ("rework", "ses_a1"),
    ] {
        assert_eq!(named(name).expect(name).as_str(), id, "{name}");
    }
    assert!(matches!(named("-3"), Err(IndexError::TooFew { place: 3, there_are: 2, .. })));
    assert!(matches!(named("same words"), Err(IndexError::Ambiguous { found, .. }) if found.len() == 2));
    assert!(matches!(named("nonsense"), Err(IndexError::NoSuch { .. })));
    assert!(matches!(named(""), Err(IndexError::NoSuch { .. })));
}

#[test]
fn an_index_of_an_older_piton_is_made_again() {
    let data = tempfile::tempdir().expect("a folder");
    session(data.path(), "ses_a", "/one", 10);
    let older = Connection::open(data.path().join("index.db")).expect("a database");
    older
        .execute_batch("CREATE TABLE session (id TEXT PRIMARY KEY, stamp TEXT, summary TEXT); INSERT INTO session VALUES ('ses_x', '', '')")
        .expect("SQL");
    drop(older);
    assert_eq!(ids(&Index::open(data.path()).expect("made again"), None), ["ses_a"]);
}

#[test]
fn a_list_that_cannot_be_had_says_what_the_caller_can_do() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("sessions"), "").expect("a file");
    let error = Index::open(folder.path()).expect_err("that is no folder");
    assert!(matches!(&error, IndexError::Store(StoreError::Io { at, .. }) if at.ends_with("sessions")), "{error:?}");

    let full = IndexError::from(Fault::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None)));
    assert!(matches!(&full, IndexError::Store(StoreError::Full { .. })), "{full:?}");
}

/// More sessions than are looked at each time: the first is old enough to be left alone.
fn many_closed_sessions() -> tempfile::TempDir {
    let data = tempfile::tempdir().expect("a folder");
    for number in 0..SOME as u64 {
        let id = format!("ses_{number:03}");
        session(data.path(), &id, "/", number + 1);
        opened(data.path(), &id, number + 1).close(number + 1);
    }
    data
}

const OLDEST: &str = "ses_000";
const SOME: usize = NEWEST + 2;

/// As if no session had come or gone for long.
fn settle(data: &Path) {
    let then = SystemTime::now() - Duration::from_secs(60);
    fs::File::open(data.join("sessions")).and_then(|folder| folder.set_modified(then)).expect("a folder");
}

fn in_boot(data: &Path, boot: &str) -> Index {
    Index::in_boot(data, Some(boot)).expect("a list")
}

/// The title of the oldest session in the list, if it is there.
fn oldest(data: &Path) -> Option<String> {
    let all = in_boot(data, "one").list(None, usize::MAX).expect("sound");
    all.into_iter().find(|summary| summary.id.as_str() == OLDEST).map(|summary| summary.title)
}

#[test]
fn a_sealed_session_is_left_alone_in_this_boot_and_the_newest_are_looked_at_all_the_same() {
    let data = many_closed_sessions();
    let damage =
        |id: &str| fs::write(data.path().join("sessions").join(id).join("journal.db"), "garbage").expect("a file");
    in_boot(data.path(), "one");
    damage(OLDEST);
    for settled in [false, true, true] {
        if settled {
            settle(data.path());
        }
        let index = in_boot(data.path(), "one");
        assert_eq!((index.count().expect("sound"), index.unreadable().len()), (SOME, 0), "nobody has looked");
    }
    let newest = format!("ses_{:03}", SOME - 1);
    damage(&newest);
    for _ in 0..2 {
        let index = in_boot(data.path(), "one");
        let unreadable: Vec<&str> = index.unreadable().iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(unreadable, [newest.as_str()], "each time");
    }
    for boot in [Some("two"), None] {
        let index = Index::in_boot(data.path(), boot).expect("a list");
        assert_eq!((index.count().expect("sound"), index.unreadable().len()), (SOME - 2, 2), "no seal counts");
    }
}

#[test]
fn whatever_becomes_of_a_sealed_session_the_list_says_so() {
    for settled in [false, true] {
        let data = many_closed_sessions();
        let (sessions, elsewhere) = (data.path().join("sessions"), data.path().join("elsewhere"));
        let settle = || {
            if settled {
                settle(data.path());
            }
        };
        let check = |title: Option<&str>, what: &str| {
            for look in ["first", "second"] {
                settle();
                assert_eq!(oldest(data.path()).as_deref(), title, "{what}, {look} look, settled: {settled}");
            }
        };
        check(Some(""), "as it was made");
        happened(data.path(), OLDEST, 1, titled("killed"));
        check(Some("killed"), "its writer was killed");

        let mut writer = opened(data.path(), OLDEST, 1);
        check(Some("killed"), "it has a writer");
        for title in ["live", "still live"] {
            writer.stage(1, titled(title));
            writer.commit().expect("room on the disk");
            check(Some(title), "its writer is at work");
        }
        writer.stage(1, titled("closed"));
        writer.close(1);
        check(Some("closed"), "its writer has left");
        let mut writer = opened(data.path(), OLDEST, 1);
        writer.stage(1, titled("again"));
        writer.close(1);
        check(Some("again"), "opened and closed between two looks");

        fs::rename(sessions.join(OLDEST), &elsewhere).expect("a folder");
        check(None, "it was moved away");
        session(data.path(), OLDEST, "/", 1);
        happened(data.path(), OLDEST, 1, titled("another"));
        check(Some("another"), "another one was put in its place");
        let copy = sessions.join("ses_copy");
        fs::create_dir(&copy).expect("a folder");
        fs::copy(elsewhere.join("journal.db"), copy.join("journal.db")).expect("a copy");
        settle();
        let index = in_boot(data.path(), "one");
        let copied = index.list(None, usize::MAX).expect("sound").into_iter().find(|one| one.id.as_str() == "ses_copy");
        assert_eq!(copied.expect("it is listed under its own name").title, "again");
        assert_eq!(oldest(data.path()).as_deref(), Some("another"), "a copy is another session");
    }
}

#[test]
fn a_broken_seal_outlives_a_list_that_was_cut_off_and_one_that_cannot_be_kept() {
    let data = many_closed_sessions();
    in_boot(data.path(), "one");
    happened(data.path(), OLDEST, 1, titled("changed"));
    // A list in memory, as where the index cannot be written, has no business with seals.
    Index::in_boot(data.path(), None).expect("a list");
    let index = in_boot(data.path(), "one");
    assert_eq!(oldest(data.path()).as_deref(), Some("changed"));
    happened(data.path(), OLDEST, 1, titled("once more"));
    // It dies when it has noted that.
    index.note_broken_seals().expect("sound");
    assert_eq!(seal::broken(&data.path().join("sessions")).expect("a folder").len(), 0);
    drop(index);
    settle(data.path());
    assert_eq!(oldest(data.path()).as_deref(), Some("once more"));
}
