//! What another process, or another hour, finds.

use super::*;

#[test]
fn who_goes_on_with_a_turn_has_rules_of_their_own() {
    check(
        |b| {
            b.policy.permission.push("*", Action::Allow);
            b.say("go");
            // The write waits behind the command, allowed by the rules so far.
            b.calls(&["bash", "edit"]);
            let mut policy = b.policy.clone();
            policy.permission.push("edit", Action::Deny);
            b.policy = policy.clone();
            b.happen(Event::TurnResumed {
                model: "fake/other".into(),
                fallbacks: vec![],
                policy: Box::new(policy),
                this_turn_only: false,
            });
            assert_eq!(b.wanted(), "run(c1_0) judge(c1_1)");
            b.judge();
            b.finish_with("c1_0", Outcome::ok("done"));
        },
        expect![[r#"
            user       go
            assistant  bash#c1_0 edit#c1_1
            result     #c1_0 ok
            result     #c1_1 denied
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn a_clock_that_was_set_back_does_not_lengthen_a_wait() {
    const HOUR_MS: TimeMs = 3_600_000;
    let mut b = Bench::with(Policy::piton());
    b.now_ms = HOUR_MS;
    b.say("go");
    b.fail(1, ModelErrorKind::Overloaded);
    assert_eq!(b.wanted(), format!("wait({})", HOUR_MS + 2_000));
    b.now_ms = 5;
    b.happen(Event::TurnResumed {
        model: "fake/model".into(),
        fallbacks: vec![],
        policy: Box::new(b.policy.clone()),
        this_turn_only: false,
    });
    assert_eq!(b.wanted(), "wait(2005)");
}

#[test]
fn a_lost_event_ends_what_was_under_way_and_answers_its_calls() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "bash"]);
            b.finish("c1_0");
            b.happen(Event::EventLost {});
            assert_eq!(b.wanted(), "", "nothing of it goes on");
            b.finish("c1_1");
            b.answer("too late to be understood");
            b.say("and now?");
            b.answer("fine");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1
            result     #c1_0 ok
            result     #c1_1 interrupted
            user       and now?
            assistant  fine
            end        completed
        "#]],
    );
}
