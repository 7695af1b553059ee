//! The tables that follow from the events.

use super::*;
use piton_core::configure::Configure;
use piton_core::event::{ChangedBy, Direction, Rewind};
use piton_core::ids::Seq;
use piton_core::todo::{TodoItem, TodoStatus};
use rusqlite::types::Value as Cell;

const TABLES: [&str; 5] = ["session", "message", "part", "todo", "usage"];

fn dump_all(journal: &Journal) -> Vec<(&'static str, Vec<Vec<Cell>>)> {
    TABLES.map(|table| (table, dump(&journal.conn, table))).into()
}

/// What a column says, for each row in order.
fn column(journal: &Journal, sql: &str) -> Vec<String> {
    let mut statement = journal.conn.prepare(sql).expect("SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("text")
}

#[test]
fn an_event_is_the_same_whether_its_kind_is_known_beforehand_or_not() {
    for event in eventful_session() {
        let body = serde_json::to_string(&event).expect("JSON");
        assert_eq!(crate::store::sqlite::quick::event(event.kind(), &body).expect("our own"), event);
        assert_eq!(serde_json::from_str::<Event>(&body).expect("our own"), event);
    }
}

#[test]
fn made_again_from_the_events_they_are_what_they_were() {
    let place = Place::new();
    let mut journal = place.create(eventful_session());
    append(&mut journal, vec![said(&"long ".repeat(20_000))]);
    let live = dump_all(&journal);
    for table in ["session", "message", "part", "usage"] {
        assert!(live.iter().any(|(name, rows)| *name == table && !rows.is_empty()), "{table} is in use");
    }
    let harm = "UPDATE session SET title = 'x', turns = 9, cost_micros = 9, status = 'idle', last_end = NULL; \
                DELETE FROM part WHERE type = 'text'; UPDATE message SET text = ''; DELETE FROM usage; \
                INSERT INTO todo VALUES (1, 'x', 'x');";
    journal.conn.execute_batch(harm).expect("SQL");
    assert_ne!(dump_all(&journal), live);
    journal.rebuild_projections().expect("sound events");
    assert_eq!(dump_all(&journal), live);
    journal.rebuild_projections().expect("sound events");
    assert_eq!(dump_all(&journal), live, "as often as one likes");
}

#[test]
fn they_are_the_same_whether_events_come_one_by_one_or_together() {
    let mut together = Journal::in_memory();
    append(&mut together, eventful_session());
    let mut one_by_one = Journal::in_memory();
    for (at_ms, event) in (1..).zip(eventful_session()) {
        one_by_one.stage(at_ms, event);
        one_by_one.commit().expect("memory");
    }
    assert_eq!(dump_all(&one_by_one), dump_all(&together));
}

#[test]
fn messages_are_listed_with_who_spoke_and_how_it_came_out() {
    let mut journal = Journal::in_memory();
    append(&mut journal, eventful_session());
    let list = column(&journal, "SELECT role || ' ' || state || ': ' || text FROM message ORDER BY seq");
    let expected = [
        "user finished: fix the\n  tests, please",
        "assistant abandoned: I will",
        "assistant finished: Reading. ",
        "user finished: ",
        "assistant finished: ",
        "assistant interrupted: So ",
    ];
    assert_eq!(list, expected);
}

#[test]
fn a_call_is_followed_from_the_request_to_its_outcome() {
    let mut journal = Journal::in_memory();
    let mut seen = Vec::new();
    for (at_ms, event) in (1..).zip(eventful_session()) {
        journal.stage(at_ms, event);
        journal.commit().expect("memory");
        let sql = "SELECT call || ' ' || status FROM part WHERE status IS NOT NULL ORDER BY call";
        for status in column(&journal, sql) {
            if !seen.contains(&status) {
                seen.push(status);
            }
        }
    }
    let expected = [
        "c1_0 requested",
        "c1_1 requested",
        "c1_1 awaiting_approval",
        "c1_0 running",
        "c1_1 denied",
        "c1_0 ok",
        "c1_1 failed",
        "c2_0 requested",
        "c2_0 awaiting_approval",
        "c2_0 running",
    ];
    assert_eq!(seen, expected);
    assert_eq!(column(&journal, "SELECT cast(settled AS TEXT) FROM part WHERE settled IS NOT NULL"), ["14", "15"]);
}

#[test]
fn what_is_too_large_to_be_kept_twice_is_left_to_the_event() {
    let mut journal = Journal::in_memory();
    append(&mut journal, vec![started(), said("small"), said(&"x".repeat(70_000))]);
    let kept = column(&journal, "SELECT seq || (CASE WHEN data IS NULL THEN ' event' ELSE ' row' END) FROM part");
    assert_eq!(kept, ["2 row", "3 event"]);
}

#[test]
fn a_small_session_at_a_glance() {
    let place = Place::new();
    let mut journal = place.create(eventful_session());
    let expected = Summary {
        id: SessionId::from("ses_1"),
        workspace: "/w".to_owned(),
        version: "0.1".to_owned(),
        title: "fix the tests, please".to_owned(),
        model: Some("fake/model".to_owned()),
        created_ms: 1,
        // The writer's leaving does not count.
        updated_ms: eventful_session().len() as TimeMs - 1,
        turns: 1,
        steps: 3,
        cost_micros: Some(1518),
        unpriced_calls: 3,
        status: Activity::Idle,
        last_end: Some(TurnEnd::Canceled),
        parent: None,
    };
    assert_eq!(journal.summary().expect("readable"), Some(expected.clone()));
    assert_eq!(summary(&place.dir).expect("readable"), expected);

    let (model, policy) = ("fake/other".to_owned(), Box::new(Policy::piton()));
    let again = Event::TurnStarted {
        turn: 2,
        model: model.clone(),
        fallbacks: vec![],
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    };
    journal.stage(500, again);
    journal.commit().expect("room on the disk");
    let running = Summary { status: Activity::Running, turns: 2, model: Some(model), updated_ms: 500, ..expected };
    assert_eq!(summary(&place.dir).expect("readable"), running);
}

#[test]
fn a_title_is_the_beginning_of_the_first_prompt_that_has_words() {
    let mut journal = Journal::in_memory();
    let image = Part::Image { media_type: "image/png".to_owned(), data: "AA==".to_owned() };
    let (message, delivery) = (MessageId::from("msg_0"), Delivery::Steer);
    append(
        &mut journal,
        vec![
            started(),
            Event::UserSpoke {
                message,
                parts: vec![image],
                delivery,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            },
        ],
    );
    let title = |journal: &Journal| journal.summary().expect("readable").expect("a session").title;
    assert_eq!(title(&journal), "");
    append(&mut journal, vec![said(&"äöü ".repeat(100)), said("later")]);
    assert_eq!(title(&journal), "äöü ".repeat(20));
}

#[test]
fn a_session_that_was_forked_says_from_where() {
    let parent =
        Some(piton_core::event::Origin { session: SessionId::from("ses_0"), seq: 12, call: Some("c1_0".into()) });
    let Event::SessionStarted { session, workspace, version, .. } = started() else { panic!("the first event") };
    let place = Place::closed(vec![Event::SessionStarted { session, workspace, version, parent: parent.clone() }]);
    assert_eq!(summary(&place.dir).expect("readable").parent, parent);
}

#[test]
fn what_a_call_cost_stands_beside_the_model_that_was_asked_whatever_the_session_is_switched_to() {
    let turn = |model: &str| Event::TurnStarted {
        turn: 1,
        model: model.to_owned(),
        fallbacks: vec!["b/second".to_owned()],
        policy: Box::new(Policy::piton()),
        compact_at_tokens: None,
        this_turn_only: false,
    };
    let replied = |step| Event::replied(step, reply(vec![Part::text("so")]));
    let changed = Configure { model: Some("c/third".to_owned()), ..Configure::default() };
    let reason = "overloaded".to_owned();
    let switched = Event::ModelSwitched { step: 2, model: "b/second".to_owned(), reason, compact_at_tokens: None };
    let place = Place::new();
    let mut journal = place.create(vec![started(), turn("a/first")]);
    append(&mut journal, vec![Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false }, replied(1)]);
    append(&mut journal, vec![switched, replied(2)]);
    append(&mut journal, vec![turn("c/third"), replied(3)]);
    let models = ["a/first", "b/second", "c/third"];
    assert_eq!(column(&journal, "SELECT model FROM usage ORDER BY seq"), models);
    journal.rebuild_projections().expect("sound events");
    assert_eq!(column(&journal, "SELECT model FROM usage ORDER BY seq"), models);
}

#[test]
fn the_todos_are_those_of_the_branch_at_the_head() {
    let list = |texts: &[&str]| {
        let item = |text: &&str| TodoItem { text: (*text).to_owned(), status: TodoStatus::Done };
        Event::Todo { items: texts.iter().map(item).collect() }
    };
    let moved = |to: Seq| {
        let rewind = Rewind { direction: Direction::Undo, turns: 1, to: Some(to), files: vec![], overwrite: false };
        Event::RewindFinished { rewind, left: vec![], back: None }
    };
    let todos = |journal: &Journal| column(journal, "SELECT content || ' ' || status FROM todo ORDER BY position");
    let place = Place::new();
    let mut journal = place.create(vec![started(), list(&["a", "b"]), list(&["c"])]);
    assert_eq!(todos(&journal), ["c done"]);
    append(&mut journal, vec![moved(2)]);
    assert_eq!(todos(&journal), ["a done", "b done"]);
    append(&mut journal, vec![list(&["d"]), moved(1)]);
    assert!(todos(&journal).is_empty());
    // The undo is undone: the head is where the list was that followed the first undo.
    append(&mut journal, vec![moved(5)]);
    assert_eq!(todos(&journal), ["d done"]);
    journal.rebuild_projections().expect("sound events");
    assert_eq!(todos(&journal), ["d done"]);
}
