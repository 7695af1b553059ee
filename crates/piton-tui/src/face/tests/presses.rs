//! Keys that belong together, keys that are offered, and what stands on the screen of a session that is gone on with.

use super::golden::{called, hear, settled};
use super::*;
use piton_core::call::{BackgroundAgent, Outcome, TaskBegan, TaskNews};
use serde_json::{Value, json};

#[test]
fn only_two_escapes_in_a_row_open_the_tree_of_turns() {
    let rewind = Effect::Command { name: "rewind".to_owned(), words: String::new() };
    let mut seat = Seat::new(80, 24);
    assert_eq!(seat.key(KeyCode::Esc), []);
    seat.types("hi");
    seat.control('u');
    assert_eq!(seat.key(KeyCode::Esc), [], "keys came between the two");
    assert_eq!(seat.key(KeyCode::Esc), [rewind]);
    assert_eq!(seat.control('c'), []);
    seat.tell(Input::Paste("words".to_owned()));
    seat.control('c');
    assert_eq!(seat.control('c'), [], "that one clears the prompt, and this one is the first of two");
}

#[test]
fn the_prompt_of_the_first_turn_that_is_shown_is_shown_as_well() {
    for turns in [2, 4] {
        let mut told = Told::default();
        for turn in 1..=turns {
            told.turn(&format!("question {turn}"), &format!("answer {turn}"), std::iter::empty());
        }
        told.all.push(Published::CaughtUp);
        let mut seat = Seat::new(80, 40);
        seat.tell(Input::Session { id: "ses_1".to_owned() });
        told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
        let screen = seat.screen();
        for turn in 1..=turns {
            let is_shown = turn + 2 > turns;
            assert_eq!(screen.contains(&format!("› question {turn}")), is_shown, "{turn} of {turns}: {screen}");
            assert_eq!(screen.contains(&format!("answer {turn}")), is_shown, "{turn} of {turns}: {screen}");
        }
    }
}

#[test]
fn a_message_that_was_queued_in_a_turn_from_before_is_shown_where_it_is_read() {
    let mut told = Told::default();
    told.turn("question 1", "answer 1", std::iter::empty());
    told.turn("question 2", "answer 2", std::iter::empty());
    // It was said while the first turn ran.
    let message = MessageId::from("queued");
    let (parts, delivery) = (vec![Part::text("queued")], Delivery::FollowUp);
    told.record(Event::UserSpoke {
        message,
        parts,
        delivery,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    let said = told.all.pop().unwrap();
    told.all.insert(3, said);
    told.all.push(Published::CaughtUp);
    let mut seat = Seat::new(80, 40);
    seat.tell(Input::Session { id: "ses_1".to_owned() });
    told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
    assert!(seat.screen().contains("queued"), "{}", seat.screen());
}

#[test]
fn the_first_prompt_of_a_session_is_one_of_its_prompts() {
    let mut seat = Seat::new(80, 24);
    let entry = |text: &str, session: &str| Entry {
        text: text.to_owned(),
        pastes: Vec::new(),
        session: session.to_owned(),
        folder: String::new(),
        time_ms: 1,
    };
    seat.tell(Input::History(vec![entry("of nobody", ""), entry("of another", "ses_other")]));
    assert_eq!(seat.control('r'), []);
    assert!(seat.screen().contains("Prompts of this folder"), "there is no session yet: {}", seat.screen());
    seat.key(KeyCode::Esc);
    seat.types("the first");
    let effects = seat.key(KeyCode::Enter);
    assert!(matches!(&effects[..], [Effect::Say { .. }, Effect::Remember(_)]), "kept with its session: {effects:?}");
    seat.tell(Input::Session { id: String::new() });
    let session =
        Event::SessionStarted { session: "ses_mine".into(), workspace: "/w".into(), version: "0".into(), parent: None };
    let mut told = Told::default();
    told.record(session);
    hear(&mut seat, told);
    seat.control('r');
    let screen = seat.screen();
    assert!(screen.contains("Prompts of this session") && screen.contains("the first"), "{screen}");
    assert!(!screen.contains("of nobody") && !screen.contains("of another"), "{screen}");
    for scope in ["of this folder", "of all folders", "of this session"] {
        seat.control('r');
        assert!(seat.screen().contains(&format!("Prompts {scope}")), "{}", seat.screen());
    }
}

/// A seat at which a call is asked about.
fn asked_about(tool: &str, input: Value) -> Seat {
    let mut told = Told::default();
    told.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
    called(&mut told, 1, &[(tool, input)]);
    told.all.pop();
    let mut seat = Seat::new(80, 24);
    hear(&mut seat, told);
    seat.tell(Input::Heard(Box::new(wanted("what it is"))));
    seat.waits(0);
    seat.waits(GUARD);
    seat
}

#[test]
fn only_what_can_be_changed_before_it_runs_is_offered_to_be_changed() {
    let mut seat = asked_about("bash", json!({"command": "rm x"}));
    assert!(seat.screen().contains("e edit"), "{}", seat.screen());
    seat.key(KeyCode::Char('e'));
    assert!(seat.screen().contains("Enter: run it with this command"), "{}", seat.screen());
    let mut seat = asked_about("edit", json!({"path": "a", "old_string": "b", "new_string": "c"}));
    assert!(seat.screen().contains("y yes") && !seat.screen().contains("e edit"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Char('e')), []);
    assert!(seat.screen().contains("› e"), "a key that means nothing here is typed: {}", seat.screen());
}

#[test]
fn details_are_those_of_the_running_call_and_then_the_transcript() {
    let transcript = Effect::Command { name: "transcript".to_owned(), words: String::new() };
    let mut told = Told::default();
    told.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
    called(&mut told, 1, &[("bash", json!({"command": "cargo test"}))]);
    let (call, text) = (CallId::from("c1_0"), "line one\nline two\n".to_owned());
    told.all.push(Published::Live(Arc::new(Live::ToolOutput { call, text })));
    let mut seat = Seat::new(80, 24);
    hear(&mut seat, told);
    let page = |seat: &mut Seat| {
        let rows = seat.face.page().expect("a page is shown");
        rows.iter().map(|row| format!("{row}\n")).collect::<String>()
    };
    seat.control('o');
    let shown = page(&mut seat);
    assert!(shown.contains("the running call") && shown.contains("line one\nline two"), "{shown}");
    assert_eq!(seat.control('o'), [transcript]);
    let mut told = Told { seq: 100, ..Told::default() };
    settled(&mut told, "c1_0", Outcome::ok("all passed").titled("bash cargo test (exit 0)"));
    hear(&mut seat, told);
    seat.control('o');
    let shown = page(&mut seat);
    assert!(shown.contains("the last call") && shown.contains("all passed"), "{shown}");
}

#[test]
fn subagents_in_the_background_stand_in_the_tail_while_they_work() {
    let mut seat = Seat::new(60, 24);
    let mut told = Told::default();
    for number in 0..6 {
        let call = CallId(format!("c1_{number}"));
        let subagent = BackgroundAgent {
            session: "ses_child".into(),
            goes_on: false,
            agent: "reviewer".to_owned(),
            title: format!("look at part {number}"),
            prompt: String::new(),
            model: None,
            worktree: false,
        };
        let (command, subagent) = ("reviewer".to_owned(), Some(Box::new(subagent)));
        let began = Some(TaskBegan { command, notify: true, subagent });
        let mut outcome = Outcome::ok("it works");
        outcome.task = Some(Box::new(TaskNews { task: call.clone(), began, read_to: 0, is_over: false }));
        told.record(Event::CallSettled { call, outcome });
    }
    hear(&mut seat, told);
    seat.now_ms = 1_062_000;
    let screen = seat.screen();
    assert!(screen.contains("⇢ reviewer  look at part 0 · 1 min\n"), "{screen}");
    assert!(screen.contains("part 3") && !screen.contains("part 4"), "{screen}");
    assert!(screen.contains("… 2 more agents (Ctrl-T)") && screen.contains(" · 6 agents · "), "{screen}");
    assert!(seat.face.moves(), "their time goes on");
    let mut told = Told { seq: 100, ..Told::default() };
    for number in 0..6 {
        told.record(Event::TaskEnded { task: CallId(format!("c1_{number}")), outcome: Outcome::ok("done") });
    }
    hear(&mut seat, told);
    assert!(!seat.screen().contains("agents"), "{}", seat.screen());
    assert!(!seat.face.moves());
}

#[test]
fn a_path_that_is_pasted_into_the_prompt_is_looked_at_and_stands_there_meanwhile() {
    let mut seat = Seat::new(80, 24);
    let effects = seat.tell(Input::Paste("'/a/b c.png' ".to_owned()));
    let [Effect::Dropped(files)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((files.len(), files[0].path.as_path()), (1, std::path::Path::new("/a/b c.png")));
    assert!(seat.screen().contains("› '/a/b c.png'"), "{}", seat.screen());
    let picture = Picture { name: "b c.png".to_owned(), media_type: "image/png".to_owned(), bytes: vec![1] };
    seat.tell(Input::Dropped(files[0].text.clone(), picture));
    assert!(seat.screen().contains("› [Picture 1]"), "{}", seat.screen());
    assert_eq!(seat.tell(Input::Paste("words".to_owned())), []);
    // Words to a question name no pictures.
    seat.tell(Input::Heard(Box::new(wanted("rm"))));
    seat.waits(0);
    seat.waits(2_000);
    seat.key(KeyCode::Tab);
    assert_eq!(seat.tell(Input::Paste("/a.png".to_owned())), []);
}

#[test]
fn presses_in_a_row_go_on_from_each_other_whatever_is_told_of_the_first_meanwhile() {
    let mut seat = Seat::new(80, 24);
    let told = |seat: &mut Seat, mode| {
        let facts = Facts { mode, ..seat.face.facts.clone().unwrap() };
        seat.tell(Input::Facts(facts));
    };
    let mut pressed = Vec::new();
    for _ in 0..4 {
        pressed.extend(seat.key(KeyCode::BackTab));
        // The first press is only carried out now.
        told(&mut seat, PermissionMode::AcceptEdits);
        seat.waits(GUARD);
    }
    use PermissionMode::{AcceptEdits, Ask, Auto, Plan};
    assert_eq!(pressed, [AcceptEdits, Plan, Auto, Ask].map(Effect::Mode));
    assert!(seat.screen().contains("accept-edits · "), "what holds is shown: {}", seat.screen());
    // Some time later, it goes on from what holds.
    seat.waits(5_000);
    assert_eq!(seat.key(KeyCode::BackTab), [Effect::Mode(Plan)]);
}
