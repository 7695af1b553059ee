//! The model's list of todos: what it outlives, and how it keeps a turn from its end.

use super::*;
use crate::event::{Given, GivenKind};
use crate::todo::{TodoItem, TodoStatus};

fn list(status: TodoStatus) -> Event {
    Event::Todo { items: vec![TodoItem { text: "test it".into(), status }] }
}

/// The model sets its list by a call.
fn sets(b: &mut Bench, status: TodoStatus) {
    b.calls(&["todo"]);
    let call = CallId(format!("c{}_0", b.session.step()));
    b.record(Event::CallSettled { call, outcome: Outcome::ok("listed") });
    b.happen(list(status));
}

fn shown(b: &Bench) -> Vec<String> {
    b.session.todo().items().iter().map(ToString::to_string).collect()
}

#[test]
fn a_turn_that_would_end_with_open_todos_is_kept_from_it_once() {
    check(
        |b| {
            b.say("go");
            sets(b, TodoStatus::Pending);
            b.answer("that is all");
            let reminder = b.session.todo().reminder(false);
            assert_eq!(reminder, None, "the step has begun: the driver has said it at its beginning");
            assert_eq!(b.wanted(), "call_model(3, 1)");
            b.answer("really");
        },
        expect![[r#"
            user       go
            assistant  todo#c1_0
            result     #c1_0 ok
            assistant  that is all
            assistant  really
            end        completed
        "#]],
    );
}

#[test]
fn the_next_turn_is_kept_once_again_and_a_list_that_is_done_keeps_none() {
    let mut b = Bench::with(Policy::piton());
    b.policy.permission.push("*", Action::Allow);
    b.say("go");
    sets(&mut b, TodoStatus::InProgress);
    b.answer("a");
    b.answer("b");
    assert!(!b.session.is_in_turn());
    b.say("and?");
    b.answer("c");
    assert!(b.session.is_in_turn(), "the list is still open");
    sets(&mut b, TodoStatus::Dropped);
    b.answer("d");
    assert!(!b.session.is_in_turn());
    b.say("thanks");
    b.answer("e");
    assert!(!b.session.is_in_turn(), "nothing is open");
    check_invariants(&b.session, &b.log);
}

#[test]
fn what_is_said_before_a_recalled_step_names_the_items() {
    let mut b = Bench::with(Policy::piton());
    b.policy.permission.push("*", Action::Allow);
    b.say("go");
    sets(&mut b, TodoStatus::Pending);
    let event = b.session.replied(1, reply(vec![Part::text("done")], FinishReason::Stop), None, 0, 0);
    b.record(event);
    b.record(Event::StepFinished { step: 2 });
    let reminder = b.session.todo().reminder(false).expect("the model is to be told");
    assert!(reminder.starts_with("The turn was about to end") && reminder.contains("\n[ ] test it\n"), "{reminder}");
    assert_eq!(State::fold(&b.log).todo().reminder(false), Some(reminder), "a restart knows it, too");
}

#[test]
fn a_limit_that_leaves_no_step_ends_the_turn_all_the_same() {
    for (steps, budget) in [(Some(2), None), (Some(3), None), (None, Some(150))] {
        let mut policy = Policy::piton();
        policy.steps.max = steps;
        policy.budget.tokens = budget;
        policy.permission.push("*", Action::Allow);
        let mut b = Bench::with(policy);
        b.say("go");
        sets(&mut b, TodoStatus::Pending);
        if b.session.is_in_turn() {
            b.answer("done");
        }
        let end = b.log.iter().find_map(|record| match &record.event {
            Event::TurnEnded { end, .. } => Some(*end),
            _ => None,
        });
        assert!(end.is_some(), "{steps:?} {budget:?}: it goes on");
        assert_eq!(end == Some(TurnEnd::Completed), steps != Some(2), "{steps:?} {budget:?}: {end:?}");
    }
}

#[test]
fn an_undo_takes_the_list_back_and_a_redo_brings_it_back() {
    let mut b = Bench::with(Policy::piton());
    b.policy.permission.push("*", Action::Allow);
    b.say("one");
    sets(&mut b, TodoStatus::Done);
    b.answer("a");
    b.say("two");
    sets(&mut b, TodoStatus::Dropped);
    b.answer("b");
    assert_eq!(shown(&b), ["[-] test it"]);
    let started: Vec<Seq> = branch::turns(&b.log).iter().map(|span| span.started).collect();
    b.happen(moved(&b.session, Direction::Undo, started[1] - 1));
    assert_eq!(shown(&b), ["[x] test it"]);
    let rewind = b.session.redo().expect("something to bring back");
    b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
    assert_eq!(shown(&b), ["[-] test it"]);
    b.happen(moved(&b.session, Direction::Undo, started[0] - 1));
    assert!(shown(&b).is_empty());
    check_invariants(&b.session, &b.log);
}

#[test]
fn a_reminder_is_not_repeated_before_as_many_steps_have_passed_again() {
    let mut b = Bench::with(Policy::piton());
    b.policy.permission.push("*", Action::Allow);
    b.say("go");
    sets(&mut b, TodoStatus::Pending);
    let work = |b: &mut Bench| {
        let input = json!({"of": b.session.step()});
        b.reply(reply(vec![call_with("read", input)], FinishReason::ToolCalls));
        b.judge();
        let call = format!("c{}_0", b.session.step());
        b.finish(&call);
    };
    (2..=10).for_each(|_| work(&mut b));
    // The step after the change has begun: with it these are ten.
    let reminder = b.session.todo().reminder(false).expect("ten steps without a change");
    assert!(reminder.contains("10 steps"), "{reminder}");
    b.record(Event::ContextGiven { items: vec![Given::of(GivenKind::Todo, &reminder)] });
    assert_eq!(b.session.todo().reminder(false), None);
    (0..9).for_each(|_| work(&mut b));
    assert_eq!(b.session.todo().reminder(false), None);
    work(&mut b);
    assert!(b.session.todo().reminder(false).is_some());
}
