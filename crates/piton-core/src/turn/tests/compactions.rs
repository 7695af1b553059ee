//! Room in the context: who makes it, when, and what stays.

use super::*;

#[test]
fn a_full_context_is_compacted_before_the_step_and_a_failed_try_does_not_stop_the_work() {
    check(
        |b| {
            b.compact_at = Some(100);
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            assert_eq!(b.wanted(), "compact(Ordinary)");
            let upto_seq = b.log.len() as Seq;
            b.happen(Event::CompactionFinished {
                trigger: Trigger::Ordinary,
                upto_seq,
                summary: "what happened so far".into(),
                tokens_before: 110,
                tokens_after: 20,
                note: None,
                asked: None,
            });
            b.calls(&["read"]);
            b.finish("c2_0");
            b.happen(Event::CompactionFailed {
                trigger: Trigger::Ordinary,
                why: None,
                error: "no".into(),
                asked: None,
            });
            b.answer("done");
        },
        expect![[r#"
            user       [what happened so far…]
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn a_conversation_that_does_not_fit_is_compacted_and_asked_again_or_ends_there() {
    check(
        |b| {
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
            assert_eq!(b.wanted(), "compact(Forced)");
            b.happen(Event::CompactionFinished {
                trigger: Trigger::Forced,
                upto_seq: 0,
                summary: "an empty conversation".into(),
                tokens_before: 110,
                tokens_after: 20,
                note: None,
                asked: None,
            });
            b.fail(1, ModelErrorKind::WindowExceeded);
            b.happen(Event::CompactionFailed {
                trigger: Trigger::Forced,
                why: None,
                error: "nothing left to drop".into(),
                asked: None,
            });
        },
        expect![[r#"
            user       [an empty conversatio…]
            user       go
            end        context_limit: nothing left to drop
        "#]],
    );
}

#[test]
fn a_compaction_that_frees_too_little_ends_the_turn_and_says_so() {
    check(
        |b| {
            b.compact_at = Some(100);
            b.say("go");
            b.calls(&["read"]);
            b.finish("c1_0");
            let upto_seq = b.log.len() as Seq;
            b.happen(finished(Trigger::Ordinary, upto_seq, 110, 105));
        },
        expect![[r#"
            user       [what happened so far…]
            end        context_limit: compaction freed too little: about 105 of 110 tokens remain
        "#]],
    );
}

#[test]
fn a_pruned_output_names_the_event_that_has_it_and_the_turn_goes_on() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(100);
    b.say("go");
    b.calls(&["read"]);
    b.finish("c1_0");
    let calls = vec![CallId::from("c1_0")];
    b.happen(Event::ContextPruned { calls, to_bytes: None, tokens_before: 110, tokens_after: 20, suffices: true });
    assert_eq!(b.session.phase_name(), "calling_model");
    let settled = b.log.iter().find(|record| matches!(record.event, Event::CallSettled { .. })).expect("it settled");
    let result = b.session.transcript().last().expect("a result").parts[0].clone();
    let Part::ToolResult { outcome, .. } = result else { panic!("not a result") };
    assert!(outcome.text.contains(&format!("event {} of the journal", settled.seq)), "{}", outcome.text);
    assert!(b.session.context().is_pruned(&CallId::from("c1_0")));
    assert_eq!(b.session, State::fold(&b.log), "a fold makes the same of it");
}

#[test]
fn without_automatic_compaction_a_conversation_that_does_not_fit_ends_the_turn() {
    let mut policy = Policy::piton();
    policy.compaction.rules.auto = false;
    check_with(
        policy,
        |b| {
            b.say("go");
            b.fail(1, ModelErrorKind::WindowExceeded);
        },
        &expect![[r#"
            user       go
            end        context_limit: WindowExceeded
        "#]],
    );
}

#[test]
fn where_a_person_alone_makes_room_a_full_context_ends_the_turn_but_not_by_the_rules_of_other_loops() {
    let mut policy = Policy::piton();
    policy.compaction.rules.auto = false;
    let full = |b: &mut Bench| {
        b.compact_at = Some(100);
        b.say("go");
        b.calls(&["read"]);
        b.finish("c1_0");
    };
    check_with(
        policy,
        full,
        &expect![[r#"
            user       go
            assistant  read#c1_0
            result     #c1_0 ok
            end        context_limit: about 121 tokens are in the context, it counts as full from 100 on, and [compaction] auto is off
        "#]],
    );
    // S0-018: a long history, and no request for a summary.
    let mut policy = Policy::preset("neovate").expect("one of the presets");
    policy.compaction.rules.auto = false;
    let mut bench = Bench::with(policy);
    full(&mut bench);
    assert_eq!(bench.session.phase_name(), "calling_model");
}

#[test]
fn the_limits_hold_after_room_was_made() {
    for wrapped_up in [true, false] {
        let mut policy = Policy::piton();
        policy.steps.max = Some(2);
        let mut b = Bench::with(policy);
        b.say("go");
        b.calls(&["read"]);
        b.finish("c1_0");
        if !wrapped_up {
            // What has the last step be an ordinary one: the limit is lowered by whoever goes on.
            b.happen(Event::TurnResumed {
                model: "fake/model".into(),
                fallbacks: vec![],
                policy: Box::new(Policy {
                    steps: StepPolicy { max: Some(1), ..StepPolicy::default() },
                    ..Policy::piton()
                }),
                this_turn_only: false,
            });
        }
        b.happen(Event::WindowLearned { compact_at_tokens: 100 });
        b.reply(cut_reply("to sum "));
        let ended =
            matches!(b.log.last().map(|record| &record.event), Some(Event::TurnEnded { end: TurnEnd::MaxSteps, .. }));
        assert!(ended, "{}", b.show());
    }
    let mut b = Bench::with(Policy { steps: StepPolicy { max: Some(2), ..StepPolicy::default() }, ..Policy::piton() });
    b.compact_at = Some(100);
    b.say("go");
    b.reply(cut_reply("half of "));
    assert_eq!(b.wanted(), "compact(Forced)");
    let upto_seq = b.log.len() as Seq;
    b.happen(finished(Trigger::Forced, upto_seq, 110, 20));
    assert_eq!(b.session.step_kind(), StepKind::WrapUp, "the last step is one without tools after a compaction too");
}

#[test]
fn a_summary_that_was_paid_for_is_taken_though_words_came_meanwhile() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    let upto_seq = b.log.len() as Seq;
    b.record(Event::UserSpoke {
        message: "m9".into(),
        parts: vec![Part::text("two")],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(b.session.context().summary(), Some(("what happened so far", upto_seq)));
    assert_eq!(b.session.transcript().len(), 2, "the summary and the new words");
}

#[test]
fn of_an_output_that_is_too_long_beginning_and_end_stay() {
    let mut b = Bench::with(Policy::piton());
    b.compact_at = Some(100);
    b.say("go");
    b.calls(&["read"]);
    b.finish_with("c1_0", Outcome::ok(format!("first {} last", "ä".repeat(5_000))));
    let calls = vec![CallId::from("c1_0")];
    b.happen(Event::ContextPruned { calls, to_bytes: Some(99), tokens_before: 110, tokens_after: 20, suffices: true });
    let result = b.session.transcript().last().expect("a result").parts[0].clone();
    let Part::ToolResult { outcome, .. } = result else { panic!("not a result") };
    assert!(outcome.text.starts_with("first ä") && outcome.text.ends_with("ä last"), "{}", outcome.text);
    assert!(outcome.text.contains("`history` with seq") && outcome.text.len() < 400, "{}", outcome.text);
    let call = CallId::from("c1_0");
    assert!(b.session.context().is_clipped(&call) && !b.session.context().is_pruned(&call));
    assert_eq!(b.session, State::fold(&b.log), "a fold makes the same of it");
}

#[test]
fn between_turns_a_person_may_compact_and_change_the_summary() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    let upto_seq = b.log.len() as Seq;
    b.happen(finished(Trigger::Ordinary, upto_seq, 110, 20));
    assert_eq!(b.session.transcript().len(), 2, "nobody asked for this one");
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(
        (b.session.transcript().len(), b.session.context().summary()),
        (1, Some(("what happened so far", upto_seq)))
    );
    b.happen(Event::CompactionFinished {
        trigger: Trigger::Edited,
        upto_seq,
        summary: "shorter".to_owned(),
        tokens_before: 20,
        tokens_after: 20,
        note: None,
        asked: None,
    });
    assert_eq!(b.session.context().summary(), Some(("shorter", upto_seq)));
    assert_eq!(b.session.context().dropped(0).words, [(2, "one".to_owned())], "what the user said is not forgotten");
    b.say("two");
    assert_eq!(b.session.phase_name(), "calling_model");
}

#[test]
fn a_summary_knows_the_files_of_calls_as_their_tools_planned_them() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.reply(reply(vec![call("edit"), call("grep")], FinishReason::ToolCalls));
    let planned = |id: &str, kind, access| Event::CallRequested {
        call: id.into(),
        input: Some(json!({})),
        author: Author::Model,
        effects: Effects::READ,
        verdict: Verdict::Allow,
        plan: Some(Box::new(Planned { kind, title: "it".into(), accesses: vec![access] })),
        judged: None,
    };
    b.happen(planned("c1_0", CallKind::Edit, Access::Write("/w/src/a.rs".into())));
    b.happen(planned("c1_1", CallKind::Search, Access::Read("/w".into())));
    let files = b.session.context().dropped(2).files;
    let named: Vec<_> = files.iter().map(|(path, used)| (path.as_str(), used.changed)).collect();
    assert_eq!(named, [("src/a.rs", true)]);
}

#[test]
fn what_is_kept_never_begins_with_a_result() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.calls(&["read"]);
    let upto_seq = b.log.iter().find(|record| matches!(record.event, Event::MessageFinished { .. })).expect("it").seq;
    b.finish("c1_0");
    b.answer("first");
    b.happen(finished(Trigger::Asked, upto_seq, 110, 20));
    assert_eq!(malformed(b.session.transcript().map(|message| &**message)), None);
    assert_eq!(b.session.transcript().len(), 2, "the summary and the answer");
}

#[test]
fn a_compaction_that_a_person_wants_between_turns_is_a_phase_and_words_come_behind_it() {
    let begun = || {
        let mut bench = Bench::with(Policy::piton());
        bench.say("one");
        bench.answer("first");
        bench.record(Event::CompactionStarted { trigger: Trigger::Asked, focus: Some("the API".into()), lost: None });
        assert_eq!((bench.session.phase_name(), bench.session.is_in_turn()), ("before_compaction", false));
        bench.record(passed(&Gate::BeforeCompaction(Trigger::Asked)));
        assert_eq!((bench.session.phase_name(), bench.session.focus()), ("compacting", Some("the API")));
        bench
    };
    let speak = |bench: &mut Bench| {
        let (message, parts) = (MessageId::from("m9"), vec![Part::text("two")]);
        bench.record(Event::UserSpoke {
            message,
            parts,
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    };
    let upto = |bench: &Bench| bench.session.entries().last().expect("an entry").seq;
    let mut bench = begun();
    speak(&mut bench);
    assert_eq!(bench.session.phase_name(), "compacting", "the turn waits for it");
    let at = upto(&bench);
    bench.record(finished(Trigger::Asked, at, 110, 20));
    assert_eq!((bench.session.phase_name(), bench.session.focus()), ("due", None));
    assert!(bench.session.context().summary().is_some());

    let mut silent = begun();
    silent.record(Event::CompactionFailed { trigger: Trigger::Asked, why: None, error: "x".into(), asked: None });
    assert_eq!(silent.session.phase_name(), "idle");

    let mut stopped = begun();
    speak(&mut stopped);
    stopped.record(Event::CancelRequested { by: Canceller::User });
    assert_eq!(stopped.session.phase_name(), "due", "its turn is still to be begun, and to be cancelled");

    let mut lost = begun();
    lost.record(Event::WriterOpened { epoch: 2, pid: 1, boot_id: None });
    assert_eq!(lost.session.phase_name(), "idle", "nobody waits for it any more");
}
