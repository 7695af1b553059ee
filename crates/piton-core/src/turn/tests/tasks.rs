//! Commands in the background: watched whatever the turn does, over once, told once.

use super::*;

/// The call that started a command has its outcome, and the command goes on.
pub(super) fn background(call: &CallId, notify: bool) -> Event {
    let began = Some(TaskBegan { command: "serve".into(), notify, subagent: None });
    let news = TaskNews { task: call.clone(), began, read_to: 0, is_over: false };
    Event::CallSettled { call: call.clone(), outcome: Outcome::ok("it runs").about(news) }
}

/// The same with a subagent.
pub(super) fn subagent(call: &CallId) -> Event {
    let agent = BackgroundAgent {
        session: SessionId(format!("ses_of_{call}")),
        goes_on: false,
        agent: "general".into(),
        title: "a part".into(),
        prompt: "do it".into(),
        model: None,
        worktree: false,
    };
    let began = Some(TaskBegan { command: "general: a part".into(), notify: true, subagent: Some(Box::new(agent)) });
    let news = TaskNews { task: call.clone(), began, read_to: 0, is_over: false };
    Event::CallSettled { call: call.clone(), outcome: Outcome::ok("it works").about(news) }
}

fn ended(task: &CallId, text: &str) -> Event {
    Event::TaskEnded { task: task.clone(), outcome: Outcome::ok(text) }
}

/// A session whose model has started a command in the background, in a step that is over.
fn with_task() -> (Bench, CallId) {
    let mut policy = Policy::piton();
    policy.permission.push("*", Action::Allow);
    let mut bench = Bench::with(policy);
    bench.say("go");
    bench.calls(&["bash"]);
    let id = CallId::from("c1_0");
    bench.happen(background(&id, false));
    (bench, id)
}

fn untold(bench: &Bench) -> Vec<CallId> {
    bench.session.tasks().untold().map(|task| task.id.clone()).collect()
}

#[test]
fn a_task_is_watched_in_and_between_turns_until_it_is_over() {
    let (mut bench, id) = with_task();
    assert_eq!(bench.wanted(), "call_model(2, 1) watch(c1_0)");
    bench.answer("done");
    assert!(!bench.session.is_in_turn());
    assert_eq!(bench.wanted(), "watch(c1_0)");
    bench.happen(Event::WriterOpened { epoch: 2, pid: 2, boot_id: None });
    assert_eq!(bench.wanted(), "watch(c1_0)", "whoever opens the session next watches it");
    bench.happen(ended(&id, "first"));
    bench.happen(ended(&id, "second"));
    assert_eq!(bench.wanted(), "");
    let task = bench.session.tasks().find(&id).unwrap();
    assert_eq!(task.outcome.as_ref().unwrap().text, "first", "it ended once");
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn its_end_is_told_with_the_next_step_and_not_again() {
    let (mut bench, id) = with_task();
    bench.happen(ended(&id, "over"));
    assert_eq!(untold(&bench), std::slice::from_ref(&id), "the step under way has begun without it");
    bench.answer("done");
    assert_eq!(untold(&bench), [id]);
    bench.say("and?");
    assert_eq!(untold(&bench), []);
}

#[test]
fn an_end_that_the_model_has_read_is_not_told() {
    let (mut bench, id) = with_task();
    bench.calls(&["read"]);
    bench.happen(ended(&id, "over"));
    let news = TaskNews { task: id.clone(), began: None, read_to: 7, is_over: true };
    bench.happen(Event::CallSettled { call: "c2_0".into(), outcome: Outcome::ok("over").about(news) });
    assert_eq!(untold(&bench), []);
    assert_eq!(bench.session.tasks().find(&id).unwrap().read_to, 7);
}

#[test]
fn an_undo_ends_no_task_and_the_other_branch_is_told_nothing_of_it() {
    let (mut bench, id) = with_task();
    bench.answer("done");
    let first = branch::turns(&bench.log)[0].started - 1;
    bench.happen(moved(&bench.session, Direction::Undo, first));
    assert_eq!(bench.wanted(), "watch(c1_0)");
    bench.happen(ended(&id, "over"));
    assert_eq!((bench.wanted().as_str(), untold(&bench)), ("", vec![]));
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn of_tasks_that_are_over_the_newest_are_kept() {
    let mut tasks = crate::task::Tasks::default();
    for n in 0..200_u64 {
        let id = CallId(format!("c{n}_0"));
        for event in [background(&id, false), ended(&id, "over")] {
            tasks.hear(&Record { seq: n, at_ms: 0, event });
        }
    }
    assert_eq!(tasks.all().len(), 64);
    assert_eq!(tasks.all().last().unwrap().id.as_str(), "c199_0");
}

/// What a subagent used, as the end of it says.
fn used(tokens: u64) -> Outcome {
    let usage = Usage { input_tokens: tokens, ..Usage::default() };
    let at_most = Bound { tokens, cost_micros: None };
    let session = SessionId::from("ses_of_c1_0");
    let delegated = Delegated { session, usage, cost_micros: None, unpriced_calls: 1, steps: 0, at_most };
    Outcome { delegated: Some(Box::new(delegated)), ..Outcome::ok("found") }
}

/// A session whose model has left two subagents at work, in a turn that waits for them or does not.
fn with_subagents(waits: bool) -> Bench {
    let mut policy = Policy::piton();
    policy.permission.push("*", Action::Allow);
    policy.waits_for_subagents = waits;
    let mut bench = Bench::with(policy);
    bench.say("go");
    bench.calls(&["task", "task"]);
    bench.happen(subagent(&"c1_0".into()));
    bench.happen(subagent(&"c1_1".into()));
    bench
}

#[test]
fn a_turn_that_waits_for_its_subagents_tells_the_model_of_all_of_them_in_one_step() {
    let mut bench = with_subagents(true);
    bench.answer("they are at work");
    assert_eq!((bench.session.phase_name(), bench.session.awaited_subagents()), ("awaiting_subagents", 2));
    assert_eq!(bench.wanted(), "watch(c1_0) watch(c1_1)");
    assert_eq!(bench.session.children().count(), 2);
    let before = (bench.session.spent().usage.input_tokens, bench.session.used().turn.tokens);
    bench.happen(Event::TaskEnded { task: "c1_1".into(), outcome: used(40) });
    assert_eq!((bench.session.phase_name(), bench.session.awaited_subagents()), ("awaiting_subagents", 1));
    bench.happen(Event::TaskEnded { task: "c1_0".into(), outcome: used(2) });
    assert_eq!(bench.wanted(), "call_model(3, 1)", "the model is told");
    let after = (bench.session.spent().usage.input_tokens, bench.session.used().turn.tokens);
    assert_eq!(after, (before.0 + 42, before.1 + 42));
    bench.answer("both are done");
    assert!(!bench.session.is_in_turn());
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn a_turn_that_waits_for_subagents_can_be_cancelled_and_spoken_to_and_leaves_them_at_work() {
    let mut bench = with_subagents(true);
    bench.answer("they are at work");
    bench.say("what do they do?");
    assert_eq!(bench.wanted(), "call_model(3, 1) watch(c1_0) watch(c1_1)");
    bench.answer("I do not know");
    assert_eq!(bench.session.phase_name(), "awaiting_subagents");
    bench.happen(Event::CancelRequested { by: Canceller::User });
    assert!(!bench.session.is_in_turn());
    assert_eq!(bench.wanted(), "watch(c1_0) watch(c1_1)");
}

#[test]
fn a_turn_that_does_not_wait_ends_and_what_its_subagents_use_after_it_is_on_the_bill() {
    let mut bench = with_subagents(false);
    bench.answer("they are at work");
    assert!(!bench.session.is_in_turn());
    let before = bench.session.used();
    bench.happen(Event::TaskEnded { task: "c1_0".into(), outcome: used(40) });
    assert_eq!(untold(&bench), [CallId::from("c1_0")]);
    let after = bench.session.used();
    assert_eq!((after.turn.tokens, after.session.tokens), (before.turn.tokens, before.session.tokens + 40));
    assert_eq!(bench.session.child(&"c1_0".into()), None);
    assert_eq!(bench.session.child(&"c1_1".into()), Some(&"ses_of_c1_1".into()));
}

#[test]
fn a_turn_that_is_resumed_by_somebody_who_stays_does_not_wait_any_longer() {
    let mut bench = with_subagents(true);
    bench.answer("they are at work");
    let policy = Box::new(Policy { waits_for_subagents: false, ..bench.policy.clone() });
    bench.happen(Event::TurnResumed { model: "fake/model".into(), fallbacks: vec![], policy, this_turn_only: false });
    assert!(!bench.session.is_in_turn());
    assert_eq!(bench.wanted(), "watch(c1_0) watch(c1_1)");
}
