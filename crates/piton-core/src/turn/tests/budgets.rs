//! Tokens, money and time: what ends a turn, and what counts.

use super::*;

#[test]
fn a_token_budget_ends_the_turn_before_the_next_tool_call() {
    let budget = Budget { tokens: Some(200), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            b.calls(&["read"]);
        },
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            assistant  read#c2_0
            result     #c2_0 cancelled
            end        budget: 220 of 200 tokens used
        "#]],
    );
}

#[test]
fn a_call_that_the_budget_may_not_cover_is_not_made() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            assert_eq!(b.wanted(), "call_model(2, 1)");
            b.happen(Event::BudgetShort {
                step: 2,
                why: None,
                detail: "the next call can cost $1, and $0.5 is left".into(),
            });
        },
        expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            end        budget: the next call can cost $1, and $0.5 is left
        "#]],
    );
}

#[test]
fn a_failed_attempt_counts_with_the_worst_it_can_have_cost() {
    let budget = Budget { cost_micros: Some(1_000), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            let error = ModelError::new(ModelErrorKind::CutStream, "cut");
            let mut event = b.session.failed(1, error, Usage::default(), vec![], 0, 0);
            if let Event::ModelFailed { at_most, .. } = &mut event {
                *at_most = Some(Bound { tokens: 700, cost_micros: Some(995) });
            }
            b.happen(event);
            b.happen(Event::BackoffPassed { step: 1 });
            assert_eq!(b.session.used().turn, Bound { tokens: 700, cost_micros: Some(995) });
            b.calls(&["read"]);
            assert_eq!(b.session.spent().cost_micros, Some(10), "what is known is told apart from what may be");
            assert_eq!(b.session.spent().unpriced_calls, 1);
        },
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 cancelled
            end        budget: $0.0010 of $0.0010 spent
        "#]],
    );
}

#[test]
fn the_wall_clock_stops_running_tools() {
    let budget = Budget { wall_clock_ms: Some(5_000), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            assert_eq!(b.wanted(), "run(c1_0) deadline(5000)");
            b.happen(Event::DeadlinePassed {});
            assert_eq!(b.wanted(), "stop(c1_0)");
            b.finish_with("c1_0", Outcome::new(Status::Cancelled, "stopped"));
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 cancelled
            end        budget: the time budget of 5 s is used up
        "#]],
    );
}

#[test]
fn what_we_cut_off_ourselves_counts_with_the_worst_it_can_have_cost() {
    let most = Bound { tokens: 900, cost_micros: Some(70) };
    let mut b = Bench::with(Policy::piton());
    b.say("go");
    b.record(Event::CancelRequested { by: Canceller::User });
    b.happen(Event::MessageCut { step: 1, parts: vec![], at_most: Some(most) });
    assert_eq!((b.session.used().turn, b.session.spent().unpriced_calls), (most, 1));
    assert_eq!(b.session.transcript().len(), 1, "it had said nothing");
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(1);
    b.say("go");
    assert_eq!(b.wanted(), "compact(Ordinary)");
    b.record(Event::CancelRequested { by: Canceller::User });
    let asked = crate::event::SummaryCall {
        model: "fake/model".into(),
        attempts: 1,
        usage: Usage::default(),
        cost_micros: None,
        at_most: Some(most),
        prompt: None,
    };
    let (trigger, error) = (Trigger::Ordinary, "it was stopped".to_owned());
    b.happen(Event::CompactionFailed { trigger, why: None, error, asked: Some(Box::new(asked)) });
    assert_eq!(b.session.used().turn, most);
    assert_eq!(b.session.used().session, most);
}

#[test]
fn a_session_that_has_spent_its_budget_asks_no_model_in_any_turn() {
    let budget = Budget { session_cost_micros: Some(30), ..Budget::default() };
    check_with(
        Policy { budget, ..Policy::piton() },
        |b| {
            b.say("one");
            b.answer("first");
            // A title and a turn that was taken back were paid for, too.
            let (model, usage) = ("fake/small".to_owned(), Usage::default());
            b.happen(Event::TitleGiven {
                title: String::new(),
                by: TitledBy::Model {
                    model,
                    usage,
                    cost_micros: None,
                    at_most: Some(Bound { tokens: 1, cost_micros: Some(5) }),
                },
            });
            b.say("two");
            b.answer("second");
            let to = Some(b.log.iter().find(|record| matches!(record.event, Event::TurnEnded { .. })).unwrap().seq + 1);
            let rewind = Rewind { direction: Direction::Undo, turns: 1, to, files: vec![], overwrite: false };
            b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
            assert_eq!(b.session.used().session, Bound { tokens: 221, cost_micros: Some(25) });
            b.say("three");
            b.calls(&["read"]);
            b.say("four");
        },
        &expect![[r#"
            user       one
            assistant  first
            user       three
            assistant  read#c3_0
            result     #c3_0 cancelled
            user       four
            end        budget: $0.0000 of $0.0000 spent in this session
        "#]],
    );
}
