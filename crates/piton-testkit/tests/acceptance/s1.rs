//! Document S1: the loop kernel of Pulse Coder.

use super::*;

/// S1-010 S1-061 S1-063 S2-020 S2-022: the third error of the run is the last; waits double from two seconds.
#[test]
fn s1_010_the_third_error_ends_the_run() {
    let ran = Lab::new("pulse", vec![fails(429)]).run();
    assert_eq!((ran.requests.len(), ran.waits()), (3, vec![2_000, 4_000]));
    assert_eq!(&*ran.report().result, "Failed after 3 errors: upstream 429");
}

/// S1-013: errors are counted over the run; success in between does not reset them.
#[test]
fn s1_013_success_does_not_reset_the_count() {
    let mut lines = rounds(2);
    lines.insert(0, fails(500));
    lines.insert(2, fails(502));
    lines.push(fails(503));
    let ran = Lab::new("pulse", lines).run();
    assert_eq!((ran.requests.len(), ran.waits()), (5, vec![2_000, 4_000]));
    assert_eq!(&*ran.report().result, "Failed after 3 errors: upstream 503");
}

/// S1-011 S1-051 S1-052 S2-019: at the limit of steps the run ends with the document's sentence, or the text so far.
#[test]
fn s1_052_at_the_limit_of_steps_the_sentence_or_the_text_is_returned() {
    let limit = |settings: &mut Settings| settings.policy.steps.max = Some(3);
    let ran = Lab::new("pulse", rounds(9)).change(limit).run();
    assert_eq!((ran.end(), ran.requests.len(), ran.outcomes().len()), (TurnEnd::MaxSteps, 3, 3));
    assert_eq!(&*ran.report().result, "Max steps reached, task may be incomplete.");
    let mut lines = rounds(2);
    lines.push(calls("so far", &[("echo", json!({"last": true}))]));
    let ran = Lab::new("pulse", lines).change(limit).run();
    assert_eq!(&*ran.report().result, "so far");
}

/// S1-011: near the limit the model is told so, and nothing of tools that it keeps to the end.
#[test]
fn s1_011_near_the_limit_the_model_is_told() {
    let ran = Lab::new("pulse", rounds(20)).change(|settings| settings.policy.steps.max = Some(12)).run();
    assert_eq!((ran.requests.len(), ran.outcomes().len()), (12, 12), "the last step has its tools");
    assert_eq!(ran.told(7), "5 steps of this turn are left, this one included.");
}

/// S1-050 S2-017: the text is returned, or the sentence where there is none.
#[test]
fn s1_050_an_answer_without_text_is_a_completed_task() {
    for (text, returned) in [("done", "done"), ("", "Task completed.")] {
        let ran = Lab::new("pulse", vec![says(text)]).run();
        assert_eq!((ran.end(), &*ran.report().result), (TurnEnd::Completed, returned));
    }
}

/// S1-054 S1-055 S1-056: every way to finish has its answer, and those that are no success are none to programs either.
#[test]
fn s1_055_every_way_to_finish_has_its_answer() {
    for (text, finish, end, returned) in [
        ("part", FinishReason::ContentFilter, TurnEnd::ContentFilter, "part"),
        ("", FinishReason::Error, TurnEnd::ApiError, "Task failed."),
        ("ok", FinishReason::Other, TurnEnd::Completed, "ok"),
    ] {
        let ran = Lab::new("pulse", vec![finishes(text, finish)]).run();
        assert_eq!((ran.end(), &*ran.report().result), (end, returned));
    }
}

/// S1-060: a cancel returns the document's sentence.
#[test]
fn s1_060_a_cancel_returns_the_sentence() {
    let ran = Lab::new("pulse", vec![hangs("half")]).run();
    assert_eq!((ran.end(), &*ran.report().result), (TurnEnd::Canceled, "Request aborted."));
}

/// S1-062 S1-064 S2-021 S2-023 S2-053: four statuses are tried again, every other error is returned at once.
#[test]
fn s1_062_four_statuses_are_tried_again_and_no_others() {
    for status in [429, 500, 502, 503] {
        let ran = Lab::new("pulse", vec![fails(status), says("ok")]).run();
        assert_eq!((ran.requests.len(), &*ran.report().result), (2, "ok"), "{status}");
    }
    for status in [400, 401, 403, 404, 408, 413, 504] {
        let ran = Lab::new("pulse", vec![fails(status), says("never")]).run();
        assert_eq!(
            (ran.requests.len(), ran.report().result.clone()),
            (1, format!("Error: upstream {status}").into()),
            "{status}"
        );
    }
}

/// S1-072: in the default preset an error without a status goes by its kind; here it is final.
#[test]
fn s1_072_an_error_without_a_status_goes_by_its_kind() {
    let lines = || vec![breaks(ModelErrorKind::RateLimited), says("ok")];
    assert_eq!(Lab::new("piton", lines()).run().requests.len(), 2);
    assert_eq!(&*Lab::new("pulse", lines()).run().report().result, "Error: it broke");
}

/// S1-040 S1-041 S1-042 S1-043 S1-044 S1-046: text, call, result, step and reply are events, in this order.
#[test]
fn s1_046_the_run_is_a_stream_of_events() {
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("pulse", lines).run();
    let want = [
        "step_started",
        "message_finished",
        "call_requested",
        "call_started",
        "call_settled",
        "step_finished",
        "step_started",
        "message_finished",
        "step_finished",
        "turn_ended",
    ];
    let kinds = ran.kinds();
    assert_eq!(kinds[kinds.len() - want.len()..], want);
    assert!(!ran.played.deltas().is_empty());
}

/// S1-073: the limit of a turn begins anew with each prompt, and there is one of turns beside it.
#[test]
fn s1_073_steps_of_a_turn_and_turns_of_a_session_have_limits_of_their_own() {
    let lines = vec![says("one"), says("two"), says("three")];
    let ran = Lab::new("pulse", lines)
        .prompts(&["a", "b", "c"])
        .change(|settings| (settings.policy.steps.max, settings.policy.steps.max_turns) = (Some(1), Some(2)))
        .run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::MaxTurns, 2));
}

/// S1-083: a limit on wall-clock time ends the run by its own name, with the history kept.
#[test]
fn s1_083_time_is_a_budget_too() {
    let forever = Line { end: Some(Err(refusal(Some(429), "slow down"))), deltas: vec![] };
    let ran = Lab::new("piton", vec![forever]).change(|settings| settings.policy.budget.wall_clock_ms = Some(1)).run();
    assert_eq!(ran.end(), TurnEnd::Budget);
    assert_eq!(ran.played.transcript()[0].prose(), "go");
}
