//! Commands in the background: watched whatever the turn does, over once, told once.

use super::*;

/// The call that started a command has its outcome, and the command goes on.
pub(super) fn background(call: &CallId, notify: bool) -> Event {
    let began = Some(TaskBegan { command: "serve".into(), notify });
    let news = TaskNews { task: call.clone(), began, read_to: 0, is_over: false };
    Event::CallSettled { call: call.clone(), outcome: Outcome::ok("it runs").about(news) }
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
