//! What stops a turn, in every moment of it: a cancel, the clock, a limit; and what is on record of the time it took.

use super::*;

/// A turn that a model has been asked in, by rules that allow everything.
fn under_way(policy: Policy) -> Bench {
    let mut policy = policy;
    policy.permission.push("*", Action::Allow);
    let mut bench = Bench::with(policy);
    bench.say("go");
    bench
}

/// How the last turn ended.
fn end_of(bench: &Bench) -> (TurnEnd, Spent) {
    let ended = bench.log.iter().rev().find_map(|record| match &record.event {
        Event::TurnEnded { end, spent, .. } => Some((*end, *spent)),
        _ => None,
    });
    ended.expect("the turn is over")
}

fn timed(wall_clock_ms: u64) -> Policy {
    Policy { budget: Budget { wall_clock_ms: Some(wall_clock_ms), ..Budget::default() }, ..Policy::piton() }
}

#[test]
fn a_cancel_in_a_wait_ends_it() {
    let mut bench = under_way(Policy::piton());
    bench.fail(1, ModelErrorKind::Overloaded);
    assert_eq!((bench.session.phase_name(), bench.wanted().as_str()), ("backing_off", "wait(2000)"));
    bench.cancel();
    assert_eq!((bench.wanted().as_str(), end_of(&bench).0), ("", TurnEnd::Canceled));
    // The wait that nobody wants any more changes nothing.
    bench.happen(Event::BackoffPassed { step: 1 });
    assert_eq!((bench.session.phase_name(), bench.wanted().as_str()), ("idle", ""));
}

#[test]
fn a_cancel_between_rounds_is_heard_before_the_next_request() {
    let mut bench = under_way(Policy::piton());
    bench.calls(&["read"]);
    bench.record(Event::CallSettled { call: CallId::from("c1_0"), outcome: Outcome::ok("read") });
    assert_eq!(bench.session.phase_name(), "step_over");
    bench.record(Event::CancelRequested { by: Canceller::User });
    bench.settle_down();
    assert_eq!(end_of(&bench).0, TurnEnd::Canceled);
    assert_eq!((bench.session.step(), bench.session.phase_name()), (1, "idle"), "no second step");

    // The same when the step is on record as done, and the next is not begun.
    let mut bench = under_way(Policy::piton());
    bench.calls(&["read"]);
    bench.record(Event::CallSettled { call: CallId::from("c1_0"), outcome: Outcome::ok("read") });
    bench.record(Event::StepFinished { step: 1 });
    assert_eq!(bench.session.phase_name(), "next_step");
    bench.cancel();
    assert_eq!((end_of(&bench).0, bench.session.step()), (TurnEnd::Canceled, 1));
}

#[test]
fn a_cancel_that_comes_after_the_last_answer_is_a_cancel() {
    let mut bench = under_way(Policy::piton());
    let answer = bench.session.replied(1, reply(vec![Part::text("done")], FinishReason::Stop), None, 0, 0);
    bench.record(answer);
    assert_eq!(bench.session.phase_name(), "step_over");
    bench.cancel();
    assert_eq!(end_of(&bench).0, TurnEnd::Canceled);
}

#[test]
fn the_first_reason_to_stop_is_the_one() {
    let mut bench = under_way(timed(5_000));
    bench.calls(&["bash"]);
    bench.cancel();
    bench.happen(Event::DeadlinePassed {});
    assert_eq!(bench.wanted(), "stop(c1_0)", "no clock is watched any more");
    bench.finish_with("c1_0", Outcome::new(Status::Cancelled, "stopped"));
    assert_eq!(end_of(&bench).0, TurnEnd::Canceled);
}

#[test]
fn the_clock_runs_while_the_model_speaks_while_a_tool_runs_and_in_a_wait() {
    for phase in ["calling_model", "running_tools", "backing_off"] {
        let mut bench = under_way(timed(2_000));
        match phase {
            "running_tools" => bench.calls(&["bash"]),
            "backing_off" => bench.fail(1, ModelErrorKind::Overloaded),
            _ => {}
        }
        assert_eq!(bench.session.phase_name(), phase);
        assert!(bench.wanted().contains("deadline(2000)"), "{phase}: {}", bench.wanted());
        bench.now_ms = 2_000;
        bench.happen(Event::DeadlinePassed {});
        if phase == "running_tools" {
            bench.finish_with("c1_0", Outcome::new(Status::Cancelled, "stopped"));
        }
        let (end, spent) = end_of(&bench);
        assert_eq!((end, spent.duration_ms), (TurnEnd::Budget, 2_000), "{phase}");
    }
}

#[test]
fn who_resumes_a_turn_has_the_time_that_is_left_of_its_budget() {
    let opened = |epoch| Event::WriterOpened { epoch, pid: 1, boot_id: None };
    let resumed = |bench: &Bench| Event::TurnResumed {
        model: "fake/model".into(),
        fallbacks: vec![],
        policy: Box::new(bench.policy.clone()),
        this_turn_only: false,
    };
    let mut bench = under_way(timed(5_000));
    bench.now_ms = 1_500;
    bench.calls(&["bash", "bash"]);
    bench.now_ms = 2_000;
    bench.finish("c1_0");
    // It is killed, and a day passes.
    bench.now_ms = 86_400_000;
    bench.happen(opened(2));
    assert_eq!(bench.wanted(), "run(c1_1)", "the clock stands until the turn is resumed");
    bench.now_ms += 700;
    bench.happen(resumed(&bench));
    assert_eq!(bench.wanted(), format!("run(c1_1) deadline({})", bench.now_ms + 3_000));
    // And again.
    bench.now_ms += 1_000;
    bench.finish("c1_1");
    bench.now_ms = 2 * 86_400_000;
    bench.happen(opened(3));
    bench.happen(resumed(&bench));
    assert_eq!(bench.wanted(), format!("call_model(2, 1) deadline({})", bench.now_ms + 2_000));
    assert_eq!(bench.session.time_used_ms(bench.now_ms + 500), 3_500);
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn the_clock_begins_with_the_turn_and_not_with_the_session() {
    let mut bench = under_way(timed(2_000));
    bench.answer("one");
    bench.now_ms = 60_000;
    bench.say("more");
    assert_eq!(bench.wanted(), "call_model(2, 1) deadline(62000)");
}

#[test]
fn a_turn_has_the_time_it_took_on_record() {
    let mut bench = under_way(Policy::piton());
    bench.now_ms = 1_500;
    bench.calls(&["read"]);
    bench.now_ms = 4_000;
    bench.finish("c1_0");
    bench.now_ms = 7_250;
    bench.answer("done");
    assert_eq!(end_of(&bench).1.duration_ms, 7_250);
    // The next one has its own.
    bench.now_ms = 10_000;
    bench.say("more");
    bench.now_ms = 10_400;
    bench.answer("done");
    let (_, spent) = end_of(&bench);
    assert_eq!((spent.duration_ms, spent.steps, spent.calls), (400, 1, 0));
}

#[test]
fn a_reply_that_was_cut_does_not_go_on_over_the_budget() {
    let budget = Budget { tokens: Some(150), ..Budget::default() };
    let mut bench = under_way(Policy { budget, ..Policy::piton() });
    bench.reply(reply(vec![Part::text("half of")], FinishReason::Length));
    assert_eq!(bench.session.phase_name(), "calling_model", "110 of 150 tokens are used");
    let cut = bench.session.replied(1, reply(vec![Part::text("it")], FinishReason::Length), None, 0, 0);
    bench.happen(cut);
    assert_eq!((end_of(&bench).0, bench.session.step()), (TurnEnd::Budget, 2));
}
