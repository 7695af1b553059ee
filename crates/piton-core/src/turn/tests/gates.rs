//! Where hooks may change what comes next, and what they tell the model.

use super::*;

#[test]
fn hooks_are_asked_before_a_turn_ends_and_may_send_the_model_back() {
    let mut bench = Bench::with(Policy { hooks: gated([HookPoint::Stop]), ..Policy::piton() });
    bench.say("go");
    bench.answer("done");
    assert_eq!(bench.session.phase_name(), "checking");
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::End { step: 1 })]);
    bench.happen(asked(Some("ci"), None));
    assert_eq!((bench.session.phase_name(), bench.session.times_sent_back("ci")), ("calling_model", 1));
    let last = bench.session.transcript().last().expect("a note").parts.clone();
    assert_eq!(last, [Part::note("not yet")]);
    bench.answer("done now");
    bench.happen(asked(None, None));
    assert_eq!(bench.session.phase_name(), "idle");
    assert_eq!(bench.session.evidence().len(), 1);
    assert_eq!(State::fold(&bench.log), bench.session);

    // What the user says meanwhile goes first, and then they are asked again.
    bench.say("more");
    bench.answer("done");
    bench.say("wait");
    assert_eq!(bench.session.phase_name(), "calling_model");
    bench.happen(asked(None, None));
    assert_eq!(bench.session.phase_name(), "calling_model", "an answer that comes too late changes nothing");
    bench.answer("done");
    bench.happen(asked(None, Some("it will never pass")));
    let Some(Event::TurnEnded { end, detail, .. }) = bench.log.last().map(|record| &record.event) else {
        panic!("the turn is over")
    };
    assert_eq!((*end, detail.as_deref()), (TurnEnd::HookStopped, Some("it will never pass")));
}

#[test]
fn a_call_waits_at_each_of_its_gates() {
    let hooks = gated([HookPoint::BeforeTool, HookPoint::Approval, HookPoint::AfterTool]);
    let mut bench = Bench::with(Policy { hooks, ..Policy::piton() });
    let (id, subject) = (CallId::from("c1_0"), Subject::Call(CallId::from("c1_0")));
    let before_tool = Gate::BeforeTool(id.clone());
    bench.say("go");
    bench.reply(reply(vec![call("bash")], FinishReason::ToolCalls));
    assert_eq!(bench.session.wanted(), [Job::Pass(before_tool.clone())]);
    let judged = |verdict| Event::CallRequested {
        call: id.clone(),
        input: None,
        author: Author::Model,
        effects: Effects::OPAQUE,
        verdict,
        plan: None,
        judged: None,
    };
    bench.happen(judged(Verdict::Allow));
    assert_eq!(bench.session.wanted(), [Job::Pass(before_tool.clone())], "no rule overtakes the hooks");
    let mut event = passed(&before_tool);
    if let Event::HooksRan { input, verdict, .. } = &mut event {
        (*input, *verdict) = (Some(json!({"of": "a hook"})), Some(HookVerdict::Ask("hmm".into())));
    }
    bench.happen(event);
    assert!(
        matches!(&bench.session.wanted()[..], [Job::JudgeCall(call)] if call.input.value() == Some(&json!({"of": "a hook"})))
    );
    assert_eq!(bench.session.hook_verdict(&id), Some(&HookVerdict::Ask("hmm".into())));
    bench.happen(judged(Verdict::AskFirst("hmm".into())));
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::Question(subject.clone()))]);
    assert!(bench.session.question(&subject).is_some(), "a person may answer before the hooks have");
    bench.happen(passed(&Gate::Question(subject.clone())));
    assert_eq!(bench.session.wanted(), [Job::AskApproval(subject.clone())]);
    bench.approve(subject, Decision::Deny(None));
    assert_eq!(bench.session.wanted(), [Job::Pass(Gate::AfterTool(id.clone()))]);
    assert_eq!(bench.session.unrun(&id).map(|outcome| outcome.status), Some(crate::call::Status::Denied));
    assert_eq!(State::fold(&bench.log), bench.session);
    let mut canceled = bench.session.clone();
    canceled.apply(&Record { seq: 99, at_ms: 0, event: Event::CancelRequested { by: Canceller::User } });
    assert_eq!(canceled.wanted(), [], "a cancel does not wait for hooks");
    bench.happen(passed(&Gate::AfterTool(id)));
    assert_eq!(bench.session.phase_name(), "calling_model");
}

#[test]
fn what_hooks_tell_the_model_waits_until_every_call_is_answered() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.calls(&["read", "read"]);
    let mut ran = asked(None, None);
    if let Event::HooksRan { point, notes, .. } = &mut ran {
        (*point, *notes) = (HookPoint::AfterTool, vec!["mind the style".to_owned()]);
    }
    bench.happen(ran);
    bench.finish("c1_0");
    bench.finish("c1_1");
    let messages: Vec<_> = bench.session.transcript().map(|message| (**message).clone()).collect();
    assert_eq!(malformed(&messages), None);
    assert_eq!(messages.last().map(|last| last.parts.clone()), Some(vec![Part::note("mind the style")]));
}

#[test]
fn a_hook_stops_the_turn_under_its_own_name() {
    check(
        |b| {
            b.say("go");
            b.happen(Event::CancelRequested { by: Canceller::Hook("not on a Friday".into()) });
        },
        expect![[r#"
            user       go
            end        hook_stopped: not on a Friday
        "#]],
    );
}

#[test]
fn each_process_runs_the_hooks_at_a_sessions_start_before_its_first_turn_moves() {
    let mut b = Bench::with(Policy { hooks: gated([HookPoint::SessionStart]), ..Policy::piton() });
    b.policy.permission.push("*", Action::Allow);
    b.say("go");
    assert_eq!((b.session.phase_name(), b.wanted()), ("opening", "pass(Opened)".to_owned()));
    b.happen(passed(&Gate::Opened));
    b.calls(&["bash", "edit"]);
    assert_eq!(b.wanted(), "run(c1_0)");

    // Another process goes on. Nothing is settled, judged or asked before its hooks have run.
    let resumed = Event::TurnResumed {
        model: "fake/model".into(),
        fallbacks: vec![],
        policy: Box::new(b.policy.clone()),
        this_turn_only: false,
    };
    b.record(Event::WriterOpened { epoch: 2, pid: 2, boot_id: None });
    b.happen(resumed.clone());
    assert_eq!((b.session.phase_name(), b.wanted()), ("opening", "pass(Opened)".to_owned()));
    let mut canceled = b.session.clone();
    canceled.apply(&Record { seq: 99, at_ms: 0, event: Event::CancelRequested { by: Canceller::User } });
    assert_eq!(
        canceled.wanted(),
        [Job::StopTool(Arc::clone(b.session.open_call(&"c1_0".into()).expect("it is open")))]
    );
    // It is killed, too, and the third has no such hooks.
    b.record(Event::WriterOpened { epoch: 3, pid: 3, boot_id: None });
    let mut without = b.session.clone();
    let policy = Box::new(Policy { hooks: gated([]), ..b.policy.clone() });
    let event = Event::TurnResumed { model: "fake/model".into(), fallbacks: vec![], policy, this_turn_only: false };
    without.apply(&Record { seq: 99, at_ms: 0, event });
    assert_eq!(without.wanted().iter().map(show_job).collect::<Vec<_>>(), ["run(c1_0)", "judge(c1_1)"]);
    b.happen(resumed);
    b.happen(passed(&Gate::Opened));
    assert_eq!(b.wanted(), "run(c1_0) judge(c1_1)");
    b.judge();
    b.finish("c1_0");
    b.finish("c1_1");
    b.answer("done");
    // Once in a process.
    b.say("more");
    assert_eq!(b.session.phase_name(), "calling_model");
    assert_eq!(State::fold(&b.log), b.session);
}

#[test]
fn another_mode_judges_what_was_let_pass_and_has_not_begun_and_leaves_open_questions() {
    let hooks = gated([HookPoint::BeforeTool]);
    let mut bench = Bench::with(Policy { hooks, ..Policy::piton() });
    let ids = ["c1_0", "c1_1", "c1_2"].map(CallId::from);
    bench.say("go");
    bench.reply(reply(vec![call("edit"), call("edit"), call("edit")], FinishReason::ToolCalls));
    for id in &ids {
        bench.happen(passed(&Gate::BeforeTool(id.clone())));
    }
    bench.happen(Event::requested(ids[0].clone(), Effects::WRITE, Verdict::Allow));
    bench.happen(Event::requested(ids[1].clone(), Effects::WRITE, Verdict::Allow));
    bench.happen(Event::requested(ids[2].clone(), Effects::WRITE, Verdict::Ask));
    if bench.wanted().starts_with("snapshot") {
        bench.happen(snapshot(Moment::Before));
    }
    let (open, running) = (format!("ask({:?})", Subject::Call(ids[2].clone())), "run(c1_0)");
    assert!(bench.wanted().contains(&open) && bench.wanted().contains(running), "{}", bench.wanted());
    let changed = Configure { mode: Some(PermissionMode::Plan), ..Configure::default() };
    let before = bench.session.clone();
    bench.happen(Event::SettingsChanged { changed: changed.clone(), by: ChangedBy::User, at_once: false });
    assert_eq!(bench.session.wanted(), before.wanted(), "in older journals a turn kept its mode");
    bench.happen(Event::SettingsChanged { changed: changed.clone(), by: ChangedBy::User, at_once: true });
    let wanted = bench.wanted();
    assert!(wanted.contains("judge(c1_1)"), "the second had not begun: {wanted}");
    assert!(wanted.contains(&open) && wanted.contains(running), "{wanted}");
    bench.happen(Event::SettingsChanged { changed, by: ChangedBy::User, at_once: true });
    bench.happen(Event::requested(ids[1].clone(), Effects::WRITE, Verdict::Deny("in plan".into())));
    assert_eq!(bench.session.policy().mode, PermissionMode::Plan);
    check_invariants(&bench.session, &bench.log);
}
