//! Every action of the table of keys, in every context that it has a key in: it does something there.

use super::golden::{called, hear, settled};
use super::*;
use crate::keys::tests::events;
use crate::keys::{Context, Keys};
use crate::picker::Purpose;
use piton_core::call::Outcome;
use serde_json::json;

/// The key that nothing is bound to, until a test does.
const KEY: &str = "<F20>";

/// All that a key can change: what is on the screen, where one is in it, and what the next keys would do.
fn state(seat: &mut Seat) -> String {
    let page = seat.face.page().map(|rows| rows.iter().map(|row| format!("{row}\n")).collect::<String>());
    let typed = seat.face.asked_mut().and_then(Asked::typing).map(|prompt| (prompt.text(), prompt.cursor()));
    let prompt = (seat.face.prompt.text(), seat.face.prompt.cursor());
    let (screen, into) = (seat.screen(), &seat.face.typed_into);
    format!("{page:?}\n{typed:?}\n{prompt:?}\n{into:?}\n{screen}")
}

fn press(seat: &mut Seat, keys: &str) -> Vec<Effect> {
    events(keys).into_iter().flat_map(|key| seat.tell(Input::Key(key))).collect()
}

/// A seat whose keys are these, with a session that has a call behind it.
fn seated(toml: &str) -> Seat {
    let (keys, mistakes) = Keys::read(toml);
    assert_eq!(mistakes, [""; 0], "{toml}");
    let mut told = Told::default();
    told.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
    called(&mut told, 1, &[("bash", json!({"command": "true"}))]);
    settled(&mut told, "c1_0", Outcome::ok("done").titled("bash true (exit 0)"));
    let mut seat = Seat::new(80, 24);
    seat.face = seat.face.with_keys(keys);
    hear(&mut seat, told);
    seat.tell(Input::History(vec![Entry {
        text: "said before".to_owned(),
        pastes: Vec::new(),
        session: String::new(),
        folder: String::new(),
        time_ms: 1,
    }]));
    let todo = TodoItem { text: "look".to_owned(), status: piton_core::todo::TodoStatus::Pending };
    seat.face.todos = vec![todo];
    seat.waits(2 * GUARD);
    seat
}

fn list(seat: &mut Seat, purpose: Purpose) {
    let item = |number: usize| Item {
        label: format!("{number} one two three"),
        detail: String::new(),
        value: number.to_string(),
    };
    let title = "Choose".to_owned();
    seat.tell(Input::Choose { purpose, title, items: (10..50).map(item).collect() });
    seat.waits(2 * GUARD);
    press(seat, "one two");
}

/// What is there before the key: something that it can act upon.
fn prepare(context: Context, action: Action, seat: &mut Seat) {
    match context {
        Context::Prompt => press(seat, "one two<Ctrl-J>three four<Ctrl-J>five six<Up><Alt-B>"),
        Context::Question => {
            let which = InquiryQuestion {
                question: "Which?".to_owned(),
                default: vec!["One".to_owned()],
                ..Default::default()
            };
            seat.tell(match action {
                Action::Send => inquired(vec![which]),
                _ => Input::Heard(Box::new(wanted("rm -rf target"))),
            });
            seat.waits(0);
            seat.waits(2 * GUARD);
            Vec::new()
        }
        Context::List => {
            list(
                seat,
                if matches!(action, Action::Rename | Action::Trash) { Purpose::Session } else { Purpose::Model },
            );
            press(seat, "<Alt-B>")
        }
        Context::Pager => {
            let text = (0..200).map(|number| format!("line {number}\n")).collect();
            seat.tell(Input::Page { title: "a page".to_owned(), text, at_end: false });
            seat.screen();
            seat.face.page();
            press(seat, "<PageDown>")
        }
    };
    match (context, action) {
        (Context::Prompt, Action::Escape | Action::Leave | Action::Up | Action::Down | Action::Complete) => {
            press(seat, "<Ctrl-C>");
            match action {
                Action::Complete => drop(press(seat, "/he")),
                Action::Down => drop(press(seat, "<Up>")),
                _ => {}
            }
        }
        (Context::Prompt, Action::TakeBack) => {
            let message = MessageId::from("queued");
            let (parts, delivery) = (vec![Part::text("queued")], Delivery::FollowUp);
            let mut told = Told { seq: 100, ..Told::default() };
            told.record(Event::UserSpoke {
                message,
                parts,
                delivery,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            });
            hear(seat, told);
        }
        (Context::List, Action::HistorySearch) => {
            press(seat, "<Esc><Ctrl-R>");
        }
        (Context::List, Action::Up | Action::PageUp) => drop(press(seat, "<PageDown><PageDown>")),
        (_, Action::Yank) => drop(press(seat, "<Ctrl-W>")),
        (_, Action::YankPop) => drop(press(seat, "<Ctrl-W><Right><Alt-D><Ctrl-Y>")),
        (_, Action::Undo) => drop(press(seat, "x")),
        (_, Action::Redo) => drop(press(seat, "x<Ctrl-/>")),
        (Context::List, Action::Delete | Action::KillWordForward | Action::Right | Action::WordRight) => {
            press(seat, "<Home>");
        }
        _ => {}
    }
    // Rows that became final, and a hint that the next key takes away.
    seat.face.hint = None;
    seat.screen();
}

#[test]
fn every_action_does_something_in_every_context_that_has_a_key_for_it() {
    let all = Context::ALL
        .into_iter()
        .flat_map(|context| crate::keys::tests::rows_of(context).map(move |row| (context, row)));
    let mut idle = Vec::new();
    for (context, (name, action)) in all {
        // The section that is named for the context has its effect there.
        let section = crate::keys::tests::name_of(context);
        let mut seat = seated(&format!("[{section}]\n{name} = [{:?}]\n", KEY.trim_matches(['<', '>'])));
        // The keys that it is prepared with may be those that are bound anew.
        let keys = std::mem::take(&mut seat.face.keys);
        prepare(context, action, &mut seat);
        seat.face.keys = keys;
        let before = state(&mut seat);
        let effects = press(&mut seat, KEY);
        if effects.is_empty() && state(&mut seat) == before {
            idle.push(format!("{section}: {name}"));
        }
    }
    assert_eq!(idle, [""; 0]);
}

#[test]
fn a_key_that_nothing_is_bound_to_does_nothing_anywhere() {
    for context in Context::ALL {
        let mut seat = seated("");
        prepare(context, Action::Send, &mut seat);
        let before = state(&mut seat);
        assert_eq!(press(&mut seat, KEY), [], "{context:?}");
        assert_eq!(state(&mut seat), before, "{context:?}");
    }
}

#[test]
fn what_is_taken_from_a_key_in_a_question_is_not_done_by_it_in_the_prompt_below() {
    let mut seat = seated("[question]\ncycle-mode = []\ncomplete = \"F20\"\n");
    prepare(Context::Question, Action::CycleMode, &mut seat);
    let before = state(&mut seat);
    assert_eq!(press(&mut seat, "<Shift-Tab><Tab>"), []);
    assert_eq!(state(&mut seat), before);
    seat.waits(2 * GUARD);
    press(&mut seat, KEY);
    assert!(seat.screen().contains("Enter: no, with these words"), "{}", seat.screen());
    press(&mut seat, "<Esc>");
    // What is no key of questions is the prompt's.
    press(&mut seat, "ab<Left>c");
    assert_eq!((seat.face.prompt.text(), seat.face.prompt.cursor()), ("acb".to_owned(), 2));
}

#[test]
fn what_is_typed_in_a_list_is_edited_as_a_line() {
    let mut seat = Seat::new(60, 24);
    list(&mut seat, Purpose::Model);
    press(&mut seat, "<Ctrl-U>three 1<Ctrl-A>one <End>9");
    expect![[r#"
         Choose  one three 19  ↑↓ choose · type to narrow · Enter · …
         ▸ 19 one two three
         ask · model · ? keys
        cursor Some((0, 20))
    "#]]
    .assert_eq(&seat.screen());
    press(&mut seat, "<Ctrl-W><Ctrl-W><Ctrl-Y>");
    assert!(seat.screen().contains("Choose  one three 19"), "{}", seat.screen());
    press(&mut seat, "<Down><Left>");
    assert_eq!(seat.screen().matches('▸').count(), 1);
}

#[test]
fn the_keys_of_a_page_are_shown_above_it_and_it_is_there_again() {
    for opened in [Input::Rewind(Vec::new()), Input::Review(crate::review::Source::Turn, Vec::new())] {
        let mut seat = Seat::new(80, 24);
        seat.tell(opened);
        seat.waits(2 * GUARD);
        let below = seat.face.page().expect("it is shown");
        press(&mut seat, "?");
        let shown = seat.face.page().expect("the keys are").iter().map(ToString::to_string).collect::<String>();
        assert!(shown.contains("KEYS ON A PAGE") && shown.contains("Page down"), "{shown}");
        press(&mut seat, "q");
        assert_eq!(seat.face.page(), Some(below));
    }
    let mut seat = Seat::new(80, 24);
    seat.tell(Input::Page { title: "t".to_owned(), text: "some words\n".repeat(90) + "needle\n", at_end: false });
    assert!(seat.face.page().is_some());
    press(&mut seat, "/needl<Left>x<Backspace><End>e<Enter>");
    let shown = seat.face.page().expect("a page").iter().map(ToString::to_string).collect::<String>();
    assert!(shown.contains("needle"), "{shown}");
    // A letter with Ctrl is not the letter.
    press(&mut seat, "g<Ctrl-N>");
    let shown = seat.face.page().expect("a page").last().map(ToString::to_string).unwrap_or_default();
    assert!(shown.contains("2–"), "Ctrl-N is a row down, and not the next hit: {shown}");
}
