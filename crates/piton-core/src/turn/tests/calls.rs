//! Tool calls: their order, questions about them, refusals, and a cancel while they run.

use super::*;
use crate::call::Delegated;

#[test]
fn a_call_belongs_to_the_writer_that_started_it() {
    let mut bench = Bench::with(Policy::piton());
    bench.happen(Event::WriterOpened { epoch: 1, pid: 1, boot_id: None });
    bench.policy.permission.push("*", Action::Allow);
    bench.say("go");
    bench.calls(&["read"]);
    let id = CallId::from("c1_0");
    assert!(bench.session.is_started_here(&id));
    bench.happen(Event::WriterOpened { epoch: 2, pid: 2, boot_id: None });
    assert!(!bench.session.is_started_here(&id));
    assert_eq!(bench.wanted(), "run(c1_0)", "it is settled by whoever goes on");
}

#[test]
fn a_call_belongs_to_the_boot_in_which_its_start_was_recorded() {
    let opened = |epoch, boot: Option<&str>| Event::WriterOpened { epoch, pid: 1, boot_id: boot.map(str::to_owned) };
    let started_in_this_boot = |first, then: &[Option<&str>]| {
        let mut bench = Bench::with(Policy::piton());
        bench.happen(opened(1, first));
        bench.policy.permission.push("*", Action::Allow);
        bench.say("go");
        bench.calls(&["bash"]);
        (2..).zip(then).for_each(|(epoch, boot)| bench.happen(opened(epoch, *boot)));
        bench.session.is_started_in_this_boot(&CallId::from("c1_0"))
    };
    assert!(started_in_this_boot(None, &[]), "this process has started it");
    assert!(started_in_this_boot(Some("one"), &[Some("one"), Some("one")]));
    assert!(!started_in_this_boot(Some("one"), &[Some("two")]));
    assert!(!started_in_this_boot(Some("one"), &[Some("two"), Some("one")]), "ids are made anew, but who knows");
    assert!(!started_in_this_boot(Some("one"), &[Some("two"), Some("two")]));
    assert!(!started_in_this_boot(None, &[None]), "what is not known is taken for another");
    assert!(!started_in_this_boot(None, &[Some("one")]));
}

#[test]
fn results_stand_in_the_order_of_the_calls_whatever_order_they_came_in() {
    check(
        |b| {
            b.say("look");
            b.calls(&["read", "grep", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0) run(c1_1) run(c1_2)");
            b.finish("c1_2");
            b.finish("c1_0");
            b.finish("c1_1");
            b.answer("done");
        },
        expect![[r#"
            user       look
            assistant  read#c1_0 grep#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            assistant  done
            end        completed
        "#]],
    );
}

#[test]
fn no_more_than_sixteen_calls_run_side_by_side() {
    let mut bench = Bench::with(Policy::piton());
    bench.policy.permission.push("*", Action::Allow);
    bench.policy.calls.max_per_step = 1_000;
    bench.say("look");
    bench.calls(&["read"; 40]);
    let running = |bench: &Bench| bench.wanted().matches("run(").count();
    assert_eq!(running(&bench), 16);
    for call in 0..40 {
        bench.finish(&format!("c1_{call}"));
        assert_eq!(running(&bench), (39 - call).min(16), "the next takes the place of one that ended");
    }
}

#[test]
fn a_write_waits_for_the_calls_before_it_and_holds_up_those_after_it() {
    check(
        |b| {
            b.say("fix");
            b.calls(&["read", "edit", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0)");
            b.finish("c1_0");
            assert_eq!(b.wanted(), "run(c1_1)");
            b.finish("c1_1");
            assert_eq!(b.wanted(), "run(c1_2)");
        },
        expect![[r#"
            user       fix
            assistant  read#c1_0 edit#c1_1 bash#c1_2
            running_tools run(c1_2)
        "#]],
    );
}

#[test]
fn cancelling_keeps_what_finished_and_answers_the_rest() {
    check(
        |b| {
            b.say("go");
            b.calls(&["read", "bash", "edit"]);
            b.finish("c1_0");
            b.cancel();
            assert_eq!(b.wanted(), "stop(c1_1)");
            b.finish_with("c1_1", Outcome::new(Status::Cancelled, "stopped after 2 s"));
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1 edit#c1_2
            result     #c1_0 ok
            result     #c1_1 cancelled
            result     #c1_2 cancelled
            end        canceled
        "#]],
    );
}

#[test]
fn a_person_approves_or_denies_and_one_approval_may_last_for_the_session() {
    let mut policy = Policy::piton();
    policy.permission.push("read", Action::Allow);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash", "web", "bash"]);
            assert!(b.wanted().contains("ask"));
            b.approve(Subject::Call(CallId::from("c1_0")), Decision::ApproveForSession);
            b.approve(Subject::Call(CallId::from("c1_1")), Decision::Deny(Some("use the docs".into())));
            b.approve(Subject::Call(CallId::from("c1_2")), Decision::Approve);
            b.finish("c1_0");
            b.finish("c1_2");
            b.calls(&["bash"]);
            assert_eq!(b.wanted(), "run(c2_0)");
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0 web#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 denied
            result     #c1_2 ok
            assistant  bash#c2_0
            running_tools run(c2_0)
        "#]],
    );
}

#[test]
fn with_nobody_to_ask_the_model_may_finish_but_the_turn_does_not_count_as_completed() {
    let mut policy = Policy::piton();
    policy.permission.push("read", Action::Allow);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash"]);
            b.approve(Subject::Call(CallId::from("c1_0")), Decision::Unattended);
            b.answer("I would have run it");
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0
            result     #c1_0 denied
            assistant  I would have run it
            end        tool_denied: bash needs approval, and no terminal is attached
        "#]],
    );
}

#[test]
fn three_refusals_in_a_row_end_the_turn() {
    let mut policy = Policy::piton();
    policy.permission.push("bash", Action::Deny);
    check_with(
        policy,
        |b| {
            b.say("go");
            b.calls(&["bash", "bash"]);
            b.calls(&["bash"]);
        },
        &expect![[r#"
            user       go
            assistant  bash#c1_0 bash#c1_1
            result     #c1_0 denied
            result     #c1_1 denied
            assistant  bash#c2_0
            result     #c2_0 denied
            end        tool_denied: 3 calls in a row were refused
        "#]],
    );
}

#[test]
fn always_answers_questions_and_lifts_no_ban() {
    let mut b = Bench::with(Policy::piton());
    b.say("go");
    b.calls(&["bash"]);
    b.approve(Subject::Call(CallId::from("c1_0")), Decision::ApproveForSession);
    assert_eq!(action(&b.session, "bash"), Action::Allow);
    let mut policy = b.policy.clone();
    policy.permission.push("bash", Action::Deny);
    b.happen(Event::TurnResumed {
        model: "fake/model".into(),
        fallbacks: vec![],
        policy: Box::new(policy),
        this_turn_only: false,
    });
    assert_eq!(action(&b.session, "bash"), Action::Deny);
}

#[test]
fn what_a_subagent_used_for_a_call_counts_as_used_by_its_turn_and_whose_session_it_was_is_known() {
    let mut policy = Policy::piton();
    policy.permission.push("*", Action::Allow);
    policy.budget.tokens = Some(1_000);
    let mut bench = Bench::with(policy);
    bench.say("go");
    bench.calls(&["task"]);
    let call = CallId::from("c1_0");
    assert_eq!(bench.session.child(&call), None);
    bench.happen(Event::Delegated { call: call.clone(), child: "ses_1".into(), agent: "general".into() });
    assert_eq!(bench.session.child(&call), Some(&"ses_1".into()));
    assert_eq!(bench.session.delegated_in_turn(), 1);
    assert!(bench.wanted().contains("run(c1_0)"), "it goes on being wanted: {}", bench.wanted());
    let (used, paid) = (bench.session.used().turn.tokens, bench.session.used().session.cost_micros.unwrap_or(0));
    let spent_before = *bench.session.spent();
    let delegated = Delegated {
        session: "ses_1".into(),
        usage: Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() },
        cost_micros: Some(7),
        unpriced_calls: 2,
        steps: 3,
        at_most: Bound { tokens: 1_000, cost_micros: Some(9) },
    };
    let outcome = Outcome { delegated: Some(Box::new(delegated)), ..Outcome::ok("done") };
    bench.happen(Event::CallSettled { call, outcome });
    assert_eq!(bench.session.used().turn.tokens, used + 1_000);
    assert_eq!(bench.session.used().session.cost_micros, Some(paid + 9));
    let spent = bench.session.spent();
    assert_eq!(spent.usage.input_tokens, spent_before.usage.input_tokens + 900);
    assert_eq!(spent.cost_micros, Some(spent_before.cost_micros.unwrap_or(0) + 7));
    assert_eq!(spent.unpriced_calls, spent_before.unpriced_calls + 2);
    assert!(!bench.wanted().contains("call_model"), "the budget is used up: {}", bench.wanted());
    assert_eq!(State::fold(&bench.log), bench.session);
}
