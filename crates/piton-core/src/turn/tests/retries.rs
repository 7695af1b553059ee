//! Model calls that fail: made again, or made to the next model of the chain.

use super::*;

#[test]
fn a_failed_call_of_the_model_is_made_again_after_a_wait() {
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Overloaded);
            assert_eq!(b.wanted(), "wait(2000)");
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.wanted(), "call_model(1, 2)");
            b.fail(2, ModelErrorKind::CutStream);
            assert_eq!(b.wanted(), "wait(4000)");
            b.happen(Event::BackoffPassed { step: 1 });
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
fn what_the_user_says_during_a_wait_is_part_of_the_next_attempt() {
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Overloaded);
            b.say("in German, please");
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.wanted(), "call_model(2, 1)");
            b.answer("hallo");
        },
        expect![[r#"
            user       hi
            user       in German, please
            assistant  hallo
            end        completed
        "#]],
    );
}

#[test]
fn retries_are_bounded_and_hopeless_errors_are_not_retried() {
    check(
        |b| {
            b.say("hi");
            for attempt in 1..=6 {
                b.fail(attempt, ModelErrorKind::Network);
                b.happen(Event::BackoffPassed { step: 1 });
            }
        },
        expect![[r#"
            user       hi
            end        api_error: Network
        "#]],
    );
    check(
        |b| {
            b.say("hi");
            b.fail(1, ModelErrorKind::Auth);
        },
        expect![[r#"
            user       hi
            end        api_error: Auth
        "#]],
    );
}

#[test]
fn an_unusable_answer_is_asked_again_however_often_the_provider_was_overloaded_before() {
    use ModelErrorKind::{EmptyReply, Malformed, Overloaded};
    let retries = |kinds: &[ModelErrorKind]| {
        let mut b = Bench::with(Policy::piton());
        b.say("go");
        let after = (1..).zip(kinds).map(|(attempt, kind)| {
            b.fail(attempt, *kind);
            if b.session.wanted().is_empty() {
                return false;
            }
            b.happen(Event::BackoffPassed { step: 1 });
            true
        });
        after.collect::<Vec<_>>()
    };
    assert_eq!(retries(&[Overloaded, Overloaded, Overloaded, Malformed, EmptyReply]), [true; 5]);
    assert_eq!(retries(&[Malformed, Overloaded, EmptyReply, Malformed]), [true, true, true, false]);
    assert_eq!(retries(&[EmptyReply, EmptyReply, Malformed]), [true, true, false]);
}

#[test]
fn where_a_model_gives_no_reply_the_next_of_the_chain_is_asked_for_the_rest_of_the_turn() {
    check(
        |b| {
            b.policy.retry.usual.per_call = Some(1);
            b.fallbacks = vec!["fake/second".into(), "fake/third".into()];
            b.say("go");
            b.fail(1, ModelErrorKind::Overloaded);
            b.happen(Event::BackoffPassed { step: 1 });
            b.fail(2, ModelErrorKind::Overloaded);
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.fail(1, ModelErrorKind::Auth);
            assert_eq!(b.session.model(), "fake/third");
            b.calls(&["read"]);
            b.finish("c1_0");
            b.answer("done");
            b.say("and now");
            assert_eq!(b.session.model(), "fake/model", "the next turn begins with the first again");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  done
            user       and now
            calling_model call_model(3, 1)
        "#]],
    );
}

#[test]
fn where_no_room_can_be_made_for_one_model_the_next_of_the_chain_is_asked() {
    let no_room = |trigger| Event::CompactionFailed { trigger, why: None, error: "nothing left".into(), asked: None };
    check(
        |b| {
            b.fallbacks = vec!["fake/second".into(), "fake/third".into()];
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
            assert_eq!(b.wanted(), "compact(Forced)", "room is made where it can be");
            b.happen(no_room(Trigger::Forced));
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(no_room(Trigger::Forced));
            assert_eq!(b.session.model(), "fake/third");
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(no_room(Trigger::Forced));
        },
        expect![[r#"
            user       go
            end        context_limit: nothing left
        "#]],
    );
    check(
        |b| {
            (b.compact_at, b.fallbacks) = (Some(1), vec!["fake/second".into()]);
            b.say("go");
            assert_eq!(b.wanted(), "compact(Ordinary)", "before the first step");
            b.happen(no_room(Trigger::Forced));
            assert_eq!((b.session.model(), b.wanted().as_str()), ("fake/second", "call_model(1, 1)"));
            b.answer("done");
        },
        expect![[r#"
            user       go
            assistant  done
            end        completed
        "#]],
    );
    let mut by_hand = Policy::piton();
    by_hand.compaction.rules.auto = false;
    check_with(
        by_hand,
        |b| {
            (b.compact_at, b.fallbacks) = (Some(1), vec!["fake/second".into()]);
            b.say("go");
            assert_eq!(b.session.model(), "fake/second");
            b.fail(1, ModelErrorKind::WindowExceeded);
        },
        &expect![[r#"
            user       go
            end        context_limit: WindowExceeded
        "#]],
    );
}

#[test]
fn what_is_wrong_with_the_conversation_is_not_tried_on_another_model() {
    for kind in [ModelErrorKind::ContentFilter, ModelErrorKind::InvalidRequest] {
        let mut b = Bench::with(Policy::piton());
        b.fallbacks = vec!["fake/second".into()];
        b.say("go");
        b.fail(1, kind);
        assert!(b.session.is_at_rest(), "{kind:?}");
    }
}
