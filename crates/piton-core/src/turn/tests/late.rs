//! What comes twice, or when it is too late, changes nothing; what is too much is answered and not run.

use super::*;

#[test]
fn an_outcome_that_comes_twice_counts_once() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "grep"]);
            b.finish("c1_0");
            b.finish_with("c1_0", Outcome::failed("too late"));
            assert_eq!(b.wanted(), "run(c1_1)");
            b.finish("c1_1");
            b.finish_with("c1_1", Outcome::failed("too late"));
            b.answer("done");
            assert_eq!(b.session.spent().calls, 2);
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 grep#c1_1
            result     #c1_0 ok
            result     #c1_1 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn calls_beyond_the_most_are_answered_and_not_run() {
    let mut policy = Policy::piton();
    policy.calls.max_per_step = 2;
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["read", "read", "read"]);
            assert_eq!(b.wanted(), "run(c1_0) run(c1_1)");
            b.finish("c1_0");
            b.finish("c1_1");
            assert_eq!(b.session.spent().calls, 2, "the third is answered, and no tool ran for it");
        },
        &expect![[r#"
            user       go
            assistant  read#c1_0 read#c1_1 read#c1_2
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 failed
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn replies_that_are_cut_again_and_again_end_the_turn() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    let cut = || reply(vec![Part::text("and")], FinishReason::Length);
    for step in 1..=crate::limits::MAX_CUT_REPLIES {
        bench.reply(cut());
        assert_eq!(bench.wanted(), format!("call_model({}, 1)", step + 1));
    }
    bench.reply(cut());
    assert!(
        bench
            .show()
            .ends_with("end        context_limit: the model's replies were cut at its output limit again and again\n")
    );
    // A whole reply in between begins the count anew.
    bench.say("go on");
    for _ in 0..crate::limits::MAX_CUT_REPLIES {
        bench.reply(cut());
    }
    bench.calls(&["read"]);
    bench.finish(&format!("c{}_0", bench.session.step()));
    assert_eq!(bench.session.phase_name(), "calling_model");
}

#[test]
fn the_next_model_of_the_chain_has_failures_of_its_own() {
    let mut policy = Policy::piton();
    (policy.retry.usual.per_turn, policy.retry.usual.backoff_by) = (Some(2), crate::retry::BackoffBy::Turn);
    let mut bench = Bench::with(policy);
    bench.fallbacks = vec!["other/model".to_owned()];
    bench.say("go");
    bench.fail(1, ModelErrorKind::Overloaded);
    bench.happen(Event::BackoffPassed { step: 1 });
    bench.fail(2, ModelErrorKind::Overloaded);
    assert_eq!((bench.session.model(), bench.session.phase_name()), ("other/model", "calling_model"));
    bench.fail(1, ModelErrorKind::Overloaded);
    assert_eq!(bench.wanted(), "wait(2000)", "its first failure is its first");
}
