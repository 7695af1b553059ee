//! What a reply leads to: the end of the turn, another step, or one limit of it.

use super::*;

#[test]
fn a_plain_answer_completes_the_turn() {
    check(
        |b| {
            b.say("hi");
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
fn an_empty_answer_is_asked_again_twice_and_then_an_error() {
    check(
        |b| {
            b.say("hi");
            for attempt in 1..=3 {
                let event = b.session.replied(attempt, reply(vec![], FinishReason::Stop), None, 0, 0);
                b.happen(event);
                b.happen(Event::BackoffPassed { step: 1 });
            }
            assert_eq!(b.session.spent().usage.input_tokens, 300, "empty answers are billed too");
        },
        expect![[r#"
            user       hi
            end        api_error: the model sent an empty answer
        "#]],
    );
}

#[test]
fn the_last_step_wraps_up_and_runs_no_tools() {
    let policy = Policy { steps: StepPolicy { max: Some(2), ..StepPolicy::default() }, ..Policy::piton() };
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            b.finish("c1_0");
            assert_eq!(b.session.step_kind(), StepKind::WrapUp);
            b.calls(&["bash"]);
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 ok
            user       [This is the last ste…]
            assistant  bash#c2_0
            result     #c2_0 cancelled
            end        max_steps: the limit on steps, 2, is reached
        "#]],
    );
}

#[test]
fn broken_arguments_are_answered_and_never_run() {
    check(
        |b| {
            b.say("go");
            let broken = Part::ToolCall(ToolCall {
                id: CallId::from(""),
                provider_id: None,
                name: "read".into(),
                spelling: None,
                input: CallInput::parse("{\"path\": "),
                opaque: None,
            });
            b.reply(reply(vec![broken, call("read")], FinishReason::ToolCalls));
            assert_eq!(b.wanted(), "judge(c1_1)");
            b.judge();
            b.finish("c1_1");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 read#c1_1
            result     #c1_0 failed
            result     #c1_1 ok
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn a_reply_cut_at_the_limit_goes_on_and_its_last_call_is_not_run() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![call("read"), call("bash")], FinishReason::Length));
            b.judge();
            b.finish("c1_0");
            b.reply(reply(vec![Part::text("half a")], FinishReason::Length));
            b.answer("nd the rest");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1
            result     #c1_0 ok
            result     #c1_1 failed
            assistant  half a
            user       [Your last reply was …]
            assistant  nd the rest
            end        completed
        "#]],
    );
}

#[test]
fn a_paused_reply_goes_on_where_it_was_in_a_step_of_its_own_but_not_for_ever() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![Part::text("let me ")], FinishReason::Paused));
            b.answer("see");
        },
        expect![[r#"
            user       go
            assistant  let me 
            assistant  see
            end        completed
        "#]],
    );
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    for _ in 0..=MAX_PAUSED_REPLIES {
        bench.reply(reply(vec![Part::text("hm")], FinishReason::Paused));
    }
    assert!(bench.show().ends_with("end        api_error: the provider paused its reply again and again\n"));
}

#[test]
fn the_same_call_with_the_same_result_three_times_asks_and_without_an_answer_ends() {
    check(
        |b| {
            b.say("go");
            for step in 1..=3 {
                b.calls(&["read"]);
                b.finish_with(&format!("c{step}_0"), Outcome::ok("same"));
            }
            assert_eq!(b.wanted(), "ask(GoOn(c3_0))");
            b.approve(Subject::GoOn(CallId::from("c3_0")), Decision::Unattended);
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  read#c3_0
            result     #c3_0 ok
            end        no_progress: the same call with the same result 3 times in a row
        "#]],
    );
}

#[test]
fn the_same_call_many_times_in_one_reply_is_one_try() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "read", "read", "read"]);
            for call in 0..4 {
                b.finish_with(&format!("c1_{call}"), Outcome::ok("same"));
            }
            assert_eq!(b.wanted(), "call_model(2, 1)");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 read#c1_1 read#c1_2 read#c1_3
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            result     #c1_3 ok
            calling_model call_model(2, 1)
        "#]],
    );
}

#[test]
fn polling_something_that_changes_is_progress() {
    check(
        |b| {
            b.say("go");
            for step in 1..=4 {
                b.calls(&["read"]);
                b.finish_with(&format!("c{step}_0"), Outcome::ok(format!("line {step}")));
            }
            assert_eq!(b.wanted(), "call_model(5, 1)");
            b.answer("done");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  read#c3_0
            result     #c3_0 ok
            assistant  read#c4_0
            result     #c4_0 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn steps_and_turns_count_on_from_what_is_on_record() {
    let mut bench = Bench::with(Policy::piton());
    bench.record(said("go"));
    let turn = |turn| Event::TurnStarted {
        turn,
        model: "m".into(),
        fallbacks: vec![],
        policy: Box::new(Policy::piton()),
        compact_at_tokens: None,
        this_turn_only: false,
    };
    bench.record(turn(4));
    bench.record(Event::StepStarted { step: 17, kind: StepKind::Ordinary, note: None });
    assert_eq!((bench.session.turn(), bench.session.step()), (4, 17));
    bench.calls(&["read"]);
    assert_eq!(bench.wanted(), "run(c17_0)", "no call is named like one of the lost steps");
}

#[test]
fn a_cut_reply_that_is_the_answer_is_checked_like_any_other() {
    let mut bench = Bench::with(Policy {
        hooks: gated([HookPoint::Stop]),
        ..Policy::preset("etcode").expect("one of the presets")
    });
    bench.say("go");
    bench.reply(cut_reply("half of"));
    assert_eq!(bench.session.phase_name(), "checking");
    bench.happen(asked(Some("ci"), None));
    bench.reply(cut_reply("half of it"));
    bench.happen(asked(None, None));
    let Some(Event::TurnEnded { end, detail, .. }) = bench.log.last().map(|record| &record.event) else {
        panic!("the turn is over")
    };
    let detail = detail.as_deref().unwrap_or_default();
    assert_eq!((*end, detail), (TurnEnd::Completed, "the reply was cut at the model's output limit"));
}

#[test]
fn a_filtered_reply_ends_the_turn_and_its_calls_are_answered() {
    check(
        |b| {
            b.say("go");
            b.reply(reply(vec![Part::text("well"), call("bash")], FinishReason::ContentFilter));
        },
        expect![[r#"
            user       go
            assistant  well bash#c1_0
            result     #c1_0 cancelled
            end        content_filter: the provider stopped the reply (content_filter)
        "#]],
    );
}

#[test]
fn beyond_the_limit_of_turns_nothing_is_asked() {
    check_with(
        Policy { steps: StepPolicy { max_turns: Some(0), ..StepPolicy::default() }, ..Policy::piton() },
        |b| b.say("go"),
        &expect![[r#"
            user       go
            end        max_turns: the session's limit of 0 turns is reached
        "#]],
    );
}
