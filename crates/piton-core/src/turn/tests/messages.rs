//! What the user says, and when the model hears it.

use super::*;

#[test]
fn cancelling_while_the_model_speaks_keeps_its_words_marked() {
    check(
        |b| {
            b.say("go");
            b.record(Event::CancelRequested { by: Canceller::User });
            assert_eq!(b.wanted(), "");
            b.happen(Event::MessageCut { step: 1, parts: vec![Part::text("partial")], at_most: None });
        },
        expect![[r#"
            user       go
            assistant  partial (interrupted)
            end        canceled
        "#]],
    );
}

#[test]
fn steering_joins_at_the_next_step_and_a_follow_up_waits_for_the_turns_end() {
    check(
        |b| {
            b.say("go");
            b.speak("later", Delivery::FollowUp);
            b.speak("also this", Delivery::Steer);
            b.calls(&["read"]);
            b.finish("c1_0");
            b.answer("first");
            b.answer("second");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            user       also this
            assistant  first
            user       later
            assistant  second
            end        completed
        "#]],
    );
}

#[test]
fn steering_that_arrives_with_the_last_answer_is_still_answered_in_the_same_turn() {
    check(
        |b| {
            b.say("go");
            b.record(Event::UserSpoke {
                message: MessageId::from("late"),
                parts: vec![Part::text("wait, also")],
                delivery: Delivery::Steer,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            });
            b.answer("first");
            b.answer("second");
            assert_eq!(b.session.turn(), 1);
        },
        expect![[r#"
            user       go
            assistant  first
            user       wait, also
            assistant  second
            end        completed
        "#]],
    );
}

#[test]
fn messages_that_waited_when_a_turn_was_cancelled_wait_for_the_next_word() {
    check(
        |b| {
            b.say("go");
            b.speak("later", Delivery::FollowUp);
            b.cancel();
            assert_eq!(b.session.phase_name(), "held");
            b.say("now");
            b.answer("ok");
        },
        expect![[r#"
            user       go
            user       later
            user       now
            assistant  ok
            end        completed
        "#]],
    );
}

#[test]
fn a_repeated_message_is_heard_once() {
    check(
        |b| {
            for _ in 0..2 {
                let message = MessageId::from("same");
                b.happen(Event::UserSpoke {
                    message,
                    parts: vec![Part::text("hi")],
                    delivery: Delivery::Steer,
                    typed: None,
                    allows: Vec::new(),
                    for_turn: None,
                    subtask: None,
                });
            }
            b.answer("hello");
        },
        expect![[r#"
            user       hi
            assistant  hello
            end        completed
        "#]],
    );
}

#[test]
fn a_session_has_the_title_and_the_folder_it_was_given_last() {
    let mut bench = Bench::with(Policy::piton());
    assert!(bench.session.is_new_here());
    bench.record(said("go"));
    assert!(!bench.session.is_new_here());
    for title in ["one", "two"] {
        bench.record(Event::TitleGiven { title: title.into(), by: TitledBy::User });
    }
    // A model that found none.
    let model = TitledBy::Model { model: "p/m".into(), usage: Usage::default(), cost_micros: None, at_most: None };
    bench.record(Event::TitleGiven { title: String::new(), by: model });
    assert_eq!(bench.session.title(), Some("two"));
    bench.record(Event::TitleGiven { title: String::new(), by: TitledBy::User });
    assert_eq!(bench.session.title(), None);
    bench.record(Event::WorkspaceMoved { workspace: "/elsewhere".into() });
    assert_eq!(bench.session.workspace(), "/elsewhere");
    assert!(bench.session.is_new_here(), "the model must be told of the new place");
}

#[test]
fn what_waits_for_a_turn_of_its_own_does_not_fill_this_one() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(2_000);
    b.say("go");
    b.speak(&"later ".repeat(5_000), Delivery::FollowUp);
    b.calls(&["read"]);
    b.finish("c1_0");
    assert_eq!(b.session.phase_name(), "calling_model");
    b.calls(&["read"]);
    b.say(&"now ".repeat(5_000));
    b.finish("c2_0");
    assert_eq!(b.wanted(), "compact(Ordinary)", "steering is part of the next request");
    assert!(b.session.context().held_tokens() < 1_000 && b.session.context().used_tokens() > 2_000);
}

fn unqueue(message: &str) -> Event {
    Event::MessageUnqueued { message: MessageId::from(message) }
}

fn speak_as(bench: &mut Bench, id: &str, delivery: Delivery) {
    bench.happen(Event::UserSpoke {
        message: MessageId::from(id),
        parts: vec![Part::text(id)],
        delivery,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
}

#[test]
fn what_is_taken_out_of_the_queue_is_never_read_and_what_was_read_stays() {
    check(
        |b| {
            b.say("go");
            speak_as(b, "steer", Delivery::Steer);
            speak_as(b, "other", Delivery::Steer);
            speak_as(b, "later", Delivery::FollowUp);
            b.happen(unqueue("steer"));
            b.happen(unqueue("later"));
            assert!(b.session.was_unqueued(&MessageId::from("steer")));
            b.calls(&["read"]);
            b.finish("c1_0");
            assert!(!b.session.may_unqueue(&MessageId::from("other")), "a step has read it");
            b.happen(unqueue("other"));
            b.answer("done");
            assert_eq!(branch::turns(&b.log).len(), 1);
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            user       other
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn a_cancelled_turns_queue_can_be_taken_back_and_the_session_is_idle_then() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    speak_as(&mut bench, "one", Delivery::Steer);
    speak_as(&mut bench, "two", Delivery::FollowUp);
    bench.cancel();
    assert_eq!(bench.session.phase_name(), "held");
    bench.happen(unqueue("one"));
    assert_eq!(bench.session.phase_name(), "held");
    bench.happen(unqueue("two"));
    assert_eq!(bench.session.phase_name(), "idle");
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn a_step_that_starts_because_of_a_message_keeps_it() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    speak_as(&mut bench, "also", Delivery::Steer);
    let answered = bench.session.replied(1, reply(vec![Part::text("done")], FinishReason::Stop), None, 0, 0);
    bench.record(answered);
    bench.record(Event::StepFinished { step: 1 });
    assert_eq!(bench.session.phase_name(), "next_step");
    assert!(!bench.session.may_unqueue(&MessageId::from("also")), "the model would answer its own answer");
    bench.record(unqueue("also"));
    assert_eq!(bench.session.waiting().count(), 1);
    bench.record(Event::UserSpoke {
        message: MessageId::from("more"),
        parts: vec![Part::text("more")],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    assert!(bench.session.may_unqueue(&MessageId::from("also")), "another one is there to be answered");
    bench.cancel();
    assert_eq!(bench.session.waiting().count(), 2, "a stopped turn reads neither");
    bench.happen(unqueue("also"));
    bench.happen(unqueue("more"));
    assert_eq!(bench.session.phase_name(), "idle");
}

fn hooks_ran_at_start(note: &str) -> Event {
    Event::HooksRan {
        step: 0,
        point: HookPoint::SessionStart,
        call: None,
        runs: vec![],
        notes: vec![note.into()],
        system: None,
        tools: None,
        input: None,
        verdict: None,
        sent_back: None,
        stopped: None,
    }
}

#[test]
fn the_first_message_that_is_taken_back_leaves_the_folder_untold() {
    let mut bench = Bench::with(Policy::piton());
    bench.record(hooks_ran_at_start("a hook at the start says so"));
    bench.record(said("first"));
    assert!(!bench.session.is_new_here());
    bench.record(unqueue("m"));
    assert!(bench.session.is_new_here(), "the next message tells it");
    assert_eq!(bench.session.phase_name(), "idle");
    bench.happen(Event::UserSpoke {
        message: MessageId::from("n"),
        parts: vec![Part::text("second")],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    expect![[r#"
        user       [a hook at the start …] second
        calling_model call_model(1, 1)
    "#]]
    .assert_eq(&bench.show());
}

#[test]
fn what_is_told_at_the_start_stands_before_whatever_comes_first_by_then() {
    let told = |id: &str, parts: &[&str]| Event::UserSpoke {
        message: MessageId::from(id),
        parts: parts.iter().map(|note| Part::note(*note)).chain([Part::text(id)]).collect(),
        delivery: Delivery::FollowUp,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    };
    let begin = || {
        let mut bench = Bench::with(Policy::piton());
        bench.record(hooks_ran_at_start("a hook"));
        bench.record(told("first", &["the folder"]));
        ["second", "third"].iter().for_each(|id| bench.record(told(id, &[])));
        bench
    };
    let waiting = |bench: &Bench| -> Vec<String> {
        let show = |message: &Message| {
            let part = |part: &Part| match part {
                Part::Note { text, .. } => format!("[{text}]"),
                Part::Text { text, .. } => text.clone(),
                _ => "?".into(),
            };
            message.parts.iter().map(part).collect::<Vec<_>>().join(" ")
        };
        bench.session.waiting().map(|(message, _)| show(message)).collect()
    };
    let moved = |message: &str, before: Option<&str>| Event::MessageMoved {
        message: MessageId::from(message),
        before: before.map(MessageId::from),
    };

    let mut bench = begin();
    bench.record(unqueue("first"));
    assert_eq!(waiting(&bench), ["[a hook] [the folder] second", "third"]);
    assert!(!bench.session.is_new_here(), "it is told with the second");
    bench.record(moved("second", None));
    assert_eq!(waiting(&bench), ["[a hook] [the folder] third", "second"]);
    bench.record(unqueue("third"));
    bench.record(unqueue("second"));
    assert!(bench.session.is_new_here(), "nobody is left to tell it");

    let mut bench = begin();
    bench.record(moved("third", Some("first")));
    assert_eq!(waiting(&bench), ["[a hook] [the folder] third", "first", "second"]);
    bench.record(moved("second", Some("first")));
    assert_eq!(waiting(&bench), ["[a hook] [the folder] third", "second", "first"]);
}

#[test]
fn what_waits_is_read_in_the_order_that_it_was_moved_to_and_all_steering_in_one_step() {
    let moved = |message: &str, before: Option<&str>| Event::MessageMoved {
        message: MessageId::from(message),
        before: before.map(MessageId::from),
    };
    check(
        |b| {
            b.say("go");
            ["one", "two", "three"].iter().for_each(|id| speak_as(b, id, Delivery::Steer));
            speak_as(b, "later", Delivery::FollowUp);
            speak_as(b, "first", Delivery::FollowUp);
            b.happen(moved("three", Some("one")));
            b.happen(moved("one", None));
            b.happen(moved("first", Some("later")));
            // What nobody said, and what was read, moves nothing.
            b.happen(moved("never", Some("one")));
            b.happen(moved("go", None));
            let waiting: Vec<String> = b.session.waiting().map(|(message, _)| message.prose()).collect();
            assert_eq!(waiting, ["three", "two", "first", "later", "one"]);
            b.calls(&["read"]);
            b.finish("c1_0");
            b.answer("done");
            b.answer("also done");
            b.answer("all done");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            user       three
            user       two
            user       one
            assistant  done
            user       first
            assistant  also done
            user       later
            assistant  all done
            end        completed
        "#]],
    );
}

#[test]
fn steps_of_subagents_that_are_over_count_for_the_limit() {
    let mut policy = Policy::piton();
    policy.steps.max = Some(4);
    let mut b = Bench::with(policy);
    b.say("go");
    b.calls(&["read"]);
    let call = CallId::from("c1_0");
    let delegated = Delegated {
        session: "ses_1".into(),
        usage: Usage::default(),
        cost_micros: None,
        unpriced_calls: 0,
        steps: 2,
        at_most: Bound::default(),
    };
    assert_eq!(b.session.used().steps, 1);
    b.happen(Event::CallSettled {
        call,
        outcome: Outcome { delegated: Some(Box::new(delegated)), ..Outcome::ok("done") },
    });
    assert_eq!(b.session.used().steps, 4, "its own two, and those of the subagent");
    b.calls(&["read"]);
    b.finish("c2_0");
    let ends = b.log.iter().filter_map(|record| match &record.event {
        Event::TurnEnded { end, .. } => Some(*end),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [TurnEnd::MaxSteps]);
}
