//! How much of the screen the tail takes, with everything in it that can be, on screens of every height.

use super::golden::{called, hear};
use super::panel::at_work;
use super::*;
use crate::picker::Purpose;
use piton_core::todo::TodoStatus;
use serde_json::json;

/// The smallest screen for which it holds.
const LOWEST: usize = 6;

/// A turn at work, with a long output, subagents, todos on the screen, and so many messages that wait.
fn crowded(rows: usize, waiting: usize) -> Seat {
    let mut seat = at_work();
    seat.tell(Input::Resize(80, rows));
    let mut told = Told { seq: 500, ..Told::default() };
    let todo = |number: usize| TodoItem { text: format!("todo {number}"), status: TodoStatus::Pending };
    told.record(Event::Todo { items: (0..12).map(todo).collect() });
    called(&mut told, 4, &[("bash", json!({"command": "make"}))]);
    let (call, text) = (CallId::from("c4_0"), "a line of output\n".repeat(100));
    told.all.push(Published::Live(Arc::new(Live::ToolOutput { call, text })));
    for number in 1..=waiting {
        told.record(Event::UserSpoke {
            message: MessageId(format!("w{number}")),
            parts: vec![Part::text(format!("message {number}"))],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    }
    hear(&mut seat, told);
    seat.face.shows_panel = true;
    seat.screen();
    seat
}

/// The rows of the tail, after a check that they are two thirds of the screen at most.
fn tail(seat: &mut Seat, rows: usize, what: &str) -> String {
    let frame = seat.face.frame(seat.now_ms);
    let tail: Vec<String> = frame.tail.iter().map(ToString::to_string).collect();
    let shown = tail.join("\n");
    assert!(tail.len() <= rows * 2 / 3, "{what}: {} of {rows} rows:\n{shown}", tail.len());
    let row = frame.cursor.map_or(0, |(row, _)| row);
    assert!(row < tail.len(), "{what}: the cursor is in it");
    shown
}

#[test]
fn the_tail_is_two_thirds_of_the_screen_at_most_whatever_is_in_it() {
    for rows in LOWEST..60 {
        let mut seat = crowded(rows, 30);
        let shown = tail(&mut seat, rows, "a turn at work");
        assert!(shown.contains('›') && shown.contains("a line of output"), "{rows} rows:\n{shown}");
        seat.tell(Input::Status(vec!["one".to_owned(), "two".to_owned(), "three".to_owned()]));
        let long = (0..9).map(|number| format!("line {number}\n")).collect();
        seat.tell(Input::Paste(long));
        let shown = tail(&mut seat, rows, "a long prompt");
        assert!(shown.contains("a line of output") && shown.contains("ask · one"), "{rows} rows:\n{shown}");
        seat.control('c');
        seat.types("/");
        (0..7).for_each(|_| drop(seat.key(KeyCode::Down)));
        let shown = tail(&mut seat, rows, "a menu");
        assert!(rows < 9 || shown.contains('▸'), "what is chosen is seen, {rows} rows:\n{shown}");
        seat.control('c');
        let item =
            |number: usize| Item { label: format!("row {number}"), detail: String::new(), value: number.to_string() };
        seat.tell(Input::Choose {
            purpose: Purpose::Model,
            title: "Ask".to_owned(),
            items: (0..40).map(item).collect(),
        });
        seat.waits(2 * GUARD);
        (0..20).for_each(|_| drop(seat.key(KeyCode::Down)));
        let shown = tail(&mut seat, rows, "a list");
        assert!(shown.contains("▸ row 20"), "{rows} rows:\n{shown}");
    }
}

#[test]
fn of_many_messages_that_wait_the_first_are_shown_and_how_many_more() {
    let mut seat = crowded(40, 30);
    let shown = seat.screen();
    let waiting: Vec<&str> = shown.lines().filter(|row| row.contains('↳')).map(str::trim).collect();
    expect![[r#"
        ↳ at the next step: message 1
        ↳ at the next step: message 2
        ↳ at the next step: message 3
        ↳ at the next step: message 4
        ↳ and 26 more wait   Alt-↑ takes the last back"#]]
    .assert_eq(&waiting.join("\n"));
    assert!(crowded(40, 5).screen().contains("message 5   Alt-↑ takes it back"));
}

#[test]
fn a_question_is_seen_whole_where_the_screen_has_room_for_it() {
    for rows in LOWEST..40 {
        let mut seat = crowded(rows, 30);
        let command: String = (0..12).map(|number| format!("echo {number}\n")).collect();
        seat.tell(Input::Heard(Box::new(wanted(command.trim()))));
        let frame = seat.face.frame(seat.now_ms);
        let shown: String = frame.tail.iter().map(|row| format!("{row}\n")).collect();
        assert!(frame.tail.len() <= rows.max(8), "{rows}:\n{shown}");
        // Its frame, the choices, and the prompt with its rule and the status stand around it.
        let is_whole = (0..12).all(|number| shown.contains(&format!("echo {number}\n")));
        assert_eq!(is_whole, rows >= 20, "{rows}:\n{shown}");
    }
}
