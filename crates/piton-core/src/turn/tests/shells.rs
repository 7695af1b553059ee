//! Commands that the user runs themselves: beside every turn, one at a time, each at most once; and what the model reads of them.

use super::*;

pub(super) fn user_ran(call: &str, turn: Option<u32>) -> Event {
    let (call, command) = (CallId::from(call), "make".to_owned());
    Event::UserRan { call, command, keep_from_model: false, turn, snapshot: false, message: None, terminal: false }
}

fn bench() -> Bench {
    let mut policy = Policy::piton();
    policy.permission.push("*", Action::Allow);
    Bench::with(policy)
}

/// The user types a command, which is put before a snapshot where that is said.
fn run(bench: &mut Bench, command: &str, snapshot: bool) -> CallId {
    let event = bench.session.user_ran(command.to_owned(), false, snapshot, None, false);
    let Event::UserRan { call, .. } = event.clone() else { panic!("another event") };
    bench.happen(event);
    call
}

fn tree(name: &str, moment: Moment) -> Event {
    Event::SnapshotTaken { step: 0, moment, tree: Some(name.into()), notices: vec![] }
}

/// All that the model reads, on one line.
fn read_by_the_model(bench: &Bench) -> String {
    let texts = bench.session.transcript().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Text { text, .. } | Part::Note { text, .. } => Some(text.replace('\n', "⏎")),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" | ")
}

#[test]
fn what_a_template_has_run_is_known_until_its_message_is_said() {
    let mut bench = bench();
    let message = MessageId::from("m1");
    let ran = |bench: &Bench, message: &str| {
        let message = MessageId::from(message);
        let ran = bench.session.shell().ran_for(&message);
        ran.map(|ran| (ran.command.clone(), ran.outcome.as_ref().map(|outcome| outcome.status))).collect::<Vec<_>>()
    };
    let one = |of: Option<Status>| ("one".to_owned(), of);
    for (status, known) in [(Status::Cancelled, vec![]), (Status::Ok, vec![one(Some(Status::Ok))])] {
        let event = bench.session.user_ran("one".to_owned(), false, false, Some(message.clone()), false);
        let Event::UserRan { call, .. } = event.clone() else { panic!("another event") };
        bench.happen(event);
        assert_eq!(ran(&bench, "m1"), [one(None)], "it runs");
        bench.happen(Event::CallSettled { call, outcome: Outcome::new(status, "") });
        assert_eq!(ran(&bench, "m1"), known);
    }
    assert_eq!(ran(&bench, "m2"), []);
    let said = Event::UserSpoke {
        message,
        parts: vec![Part::text("said")],
        delivery: Delivery::FollowUp,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    };
    bench.happen(said);
    assert_eq!(ran(&bench, "m1"), []);
}

#[test]
fn at_rest_it_starts_at_once_and_stands_before_the_next_prompt() {
    let mut bench = bench();
    let call = run(&mut bench, "git status", false);
    assert_eq!((bench.wanted().as_str(), bench.session.is_in_turn()), ("run(u1)", false));
    bench.finish_with(call.as_str(), Outcome::ok("clean"));
    assert_eq!(bench.wanted(), "");
    bench.say("and now?");
    expect!["The user ran this command themselves, in the workspace:⏎$ git status⏎clean | and now?"]
        .assert_eq(&read_by_the_model(&bench));
}

#[test]
fn in_a_turn_it_runs_beside_it_and_is_told_with_the_next_step() {
    let mut bench = bench();
    bench.say("go");
    assert_eq!(bench.wanted(), "call_model(1, 1)");
    let call = run(&mut bench, "make", false);
    assert_eq!(bench.wanted(), "call_model(1, 1) run(u1)");
    bench.calls(&["bash"]);
    assert_eq!(bench.wanted(), "run(c1_0) run(u1)", "neither waits for the other");
    bench.finish_with(call.as_str(), Outcome::failed("no rule"));
    assert!(!read_by_the_model(&bench).contains("no rule"), "not in the middle of a step");
    bench.finish("c1_0");
    assert!(read_by_the_model(&bench).ends_with("$ make⏎no rule"));
    bench.answer("done");
    check_invariants(&bench.session, &bench.log);
}

#[test]
fn what_is_kept_from_the_model_is_never_told() {
    let mut bench = bench();
    bench.happen(bench.session.user_ran("pass show mail".into(), true, false, None, false));
    bench.finish_with("u1", Outcome::ok("hunter2"));
    bench.say("hello");
    assert_eq!(read_by_the_model(&bench), "hello");
}

#[test]
fn they_run_one_after_the_other_in_the_order_in_which_they_were_typed() {
    let mut bench = bench();
    let (one, two) = (run(&mut bench, "one", false), run(&mut bench, "two", false));
    assert_eq!(bench.wanted(), "run(u1)");
    bench.finish_with(one.as_str(), Outcome::ok("1"));
    assert_eq!(bench.wanted(), "run(u2)");
    bench.finish_with(two.as_str(), Outcome::ok("2"));
    bench.finish_with(two.as_str(), Outcome::ok("a second result"));
    assert_eq!(bench.wanted(), "");
    assert!(!read_by_the_model(&bench).contains("second"));
}

#[test]
fn a_cancel_stops_the_one_that_runs_and_answers_those_that_wait() {
    let mut bench = bench();
    run(&mut bench, "sleep 9", false);
    run(&mut bench, "echo never", false);
    bench.cancel();
    assert_eq!(bench.wanted(), "stop(u1)");
    let waits = bench
        .log
        .iter()
        .find(|record| matches!(&record.event, Event::CallSettled { call, .. } if *call == "u2".into()));
    let Some(Event::CallSettled { outcome, .. }) = waits.map(|record| &record.event) else {
        panic!("it has no answer")
    };
    assert_eq!(outcome.status, Status::Cancelled);
    bench.finish_with("u1", Outcome::new(Status::Cancelled, "stopped"));
    assert_eq!((bench.wanted().as_str(), bench.session.shell().is_open()), ("", false));
}

#[test]
fn in_a_turn_a_cancel_stops_both() {
    let mut bench = bench();
    bench.say("go");
    run(&mut bench, "sleep 9", false);
    bench.cancel();
    assert_eq!(bench.wanted(), "stop(u1)");
    assert!(!bench.session.is_in_turn(), "the turn does not wait for it");
}

#[test]
fn another_process_settles_what_has_begun_and_starts_nothing_that_has_not() {
    let mut bench = bench();
    let (first, second) = (run(&mut bench, "first", false), run(&mut bench, "second", false));
    assert!(bench.session.is_started_here(&first));
    bench.happen(Event::WriterOpened { epoch: 7, pid: 2, boot_id: None });
    assert!(!bench.session.is_started_here(&first), "it was started in the epoch before");
    assert_eq!(bench.wanted(), "run(u1)", "whoever takes it up finds out what became of it");
    let status = bench.log.iter().find_map(|record| match &record.event {
        Event::CallSettled { call, outcome } if *call == second => Some(outcome.status),
        _ => None,
    });
    assert_eq!(status, Some(Status::Interrupted));
    assert_eq!(State::fold(&bench.log), bench.session);
}

#[test]
fn between_turns_the_workspace_is_put_down_before_and_after_and_the_command_is_taken_back_alone() {
    let mut bench = bench();
    bench.say("go");
    bench.answer("done");
    let call = run(&mut bench, "rm a", true);
    assert_eq!(bench.wanted(), "snapshot(Before)");
    bench.happen(tree("before", Moment::Before));
    assert_eq!(bench.wanted(), "run(u1)");
    bench.finish_with(call.as_str(), Outcome::ok(""));
    assert_eq!(bench.wanted(), "snapshot(After)");
    bench.happen(tree("after", Moment::After));
    assert_eq!(bench.wanted(), "");
    bench.say("what is left?");
    bench.answer("nothing");
    let spans = branch::turns(&bench.log);
    let shown: Vec<_> = spans.iter().map(|span| (span.turn, span.follows, span.prompt.as_str())).collect();
    assert_eq!(shown, [(1, None, "go"), (2, Some(1), "!rm a"), (3, Some(2), "what is left?")]);
    let files = spans[1].files.as_ref().expect("it was put down");
    assert_eq!((files.before.as_deref(), files.after.as_deref()), (Some("before"), Some("after")));
    assert!(spans[1].end.is_some());
    bench.happen(moved(&bench.session, Direction::Undo, spans[1].started - 1));
    assert!(!read_by_the_model(&bench).contains("rm a"), "what was taken back is not told");
}

#[test]
fn what_still_runs_when_a_turn_starts_is_taken_back_with_it() {
    let mut bench = bench();
    run(&mut bench, "make watch", true);
    bench.happen(tree("before", Moment::Before));
    bench.say("go");
    bench.calls(&["read"]);
    bench.finish("c1_0");
    bench.answer("done");
    assert!(
        bench.wanted().starts_with("snapshot(After)"),
        "the turn is sealed for what runs beside it: {}",
        bench.wanted()
    );
    bench.happen(tree("sealed", Moment::After));
    assert!(!bench.session.is_in_turn());
    bench.finish_with("u1", Outcome::ok(""));
    assert_eq!(bench.wanted(), "snapshot(After)", "it changed more since");
    bench.happen(tree("last", Moment::After));
    let spans = branch::turns(&bench.log);
    let shown: Vec<_> = spans.iter().map(|span| (span.turn, span.prompt.as_str())).collect();
    assert_eq!(shown, [(2, "!make watch\ngo")]);
    let files = spans[0].files.as_ref().expect("it was put down");
    assert_eq!((files.before.as_deref(), files.after.as_deref()), (Some("before"), Some("last")));
}

#[test]
fn in_a_turn_without_a_snapshot_it_brings_one() {
    let mut bench = bench();
    bench.policy.snapshots = true;
    bench.say("go");
    run(&mut bench, "rm a", true);
    assert_eq!(bench.wanted(), "call_model(1, 1) snapshot(Before)");
    bench.happen(tree("before", Moment::Before));
    assert_eq!(bench.wanted(), "call_model(1, 1) run(u1)");
    bench.finish_with("u1", Outcome::ok(""));
    bench.answer("done");
    assert_eq!(bench.wanted(), "snapshot(After)", "the turn is sealed");
    run(&mut bench, "echo late", true);
    assert_eq!(bench.wanted(), "snapshot(After)", "half of it would be in the snapshot");
    bench.happen(tree("after", Moment::After));
    assert_eq!(bench.wanted(), "run(u2)", "the workspace before it is that before the turn");
    bench.finish_with("u2", Outcome::ok(""));
    bench.happen(tree("later", Moment::After));
    let files = branch::turns(&bench.log).remove(0).files.expect("it was put down");
    assert_eq!((files.before.as_deref(), files.after.as_deref()), (Some("before"), Some("later")));
}

#[test]
fn a_number_of_a_command_is_no_turn_for_the_limit_on_turns() {
    let mut bench = bench();
    bench.policy.steps.max_turns = Some(1);
    let call = run(&mut bench, "make", false);
    bench.finish_with(call.as_str(), Outcome::ok(""));
    bench.say("go");
    assert_eq!((bench.session.turn(), bench.wanted().as_str()), (2, "call_model(1, 1)"));
}

/// Each thing that can happen to a command, by how far it is: what is wanted then.
#[test]
fn the_table_of_a_command() {
    let settled = || Event::CallSettled { call: "u1".into(), outcome: Outcome::ok("x") };
    let began = || vec![bench().session.user_ran("make".into(), false, true, None, false)];
    let and = |more: Vec<Event>| began().into_iter().chain(more).collect::<Vec<_>>();
    let start = || Event::CallStarted { call: "u1".into() };
    let states = [
        ("before its snapshot", began()),
        ("ready", and(vec![tree("a", Moment::Before)])),
        ("running", and(vec![tree("a", Moment::Before), start()])),
        ("stopping", and(vec![tree("a", Moment::Before), start(), Event::CancelRequested { by: Canceller::User }])),
        ("settled", and(vec![tree("a", Moment::Before), start(), settled()])),
        ("sealed", and(vec![tree("a", Moment::Before), start(), settled(), tree("b", Moment::After)])),
    ];
    let happens = [
        ("nothing", None),
        ("snapshot", Some(tree("c", Moment::Before))),
        ("started", Some(start())),
        ("settled", Some(settled())),
        ("canceled", Some(Event::CancelRequested { by: Canceller::User })),
        ("another process", Some(Event::WriterOpened { epoch: 9, pid: 1, boot_id: None })),
        ("journal damaged", Some(Event::EventLost {})),
    ];
    let mut table = String::new();
    for (state, events) in &states {
        writeln!(table, "{state}").expect("a string");
        for (name, event) in &happens {
            let mut bench = bench();
            events.iter().chain(event).cloned().for_each(|event| bench.record(event));
            let due = bench.session.due(0).map(|event| event.kind());
            let wanted = [due.unwrap_or_default(), &bench.wanted()].join(" ");
            writeln!(table, "    {name:<16} {}", wanted.trim()).expect("a string");
        }
    }
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    expect![[r#"
        before its snapshot
            nothing          snapshot(Before)
            snapshot         call_started
            started          run(u1)
            settled
            canceled         call_settled
            another process  call_settled
            journal damaged
        ready
            nothing          call_started
            snapshot         call_started
            started          run(u1)
            settled          snapshot(After)
            canceled         call_settled
            another process  call_settled
            journal damaged
        running
            nothing          run(u1)
            snapshot         run(u1)
            started          run(u1)
            settled          snapshot(After)
            canceled         stop(u1)
            another process  run(u1)
            journal damaged
        stopping
            nothing          stop(u1)
            snapshot         stop(u1)
            started          stop(u1)
            settled          snapshot(After)
            canceled         stop(u1)
            another process  stop(u1)
            journal damaged
        settled
            nothing          snapshot(After)
            snapshot         snapshot(After)
            started          snapshot(After)
            settled          snapshot(After)
            canceled         snapshot(After)
            another process  snapshot(After)
            journal damaged
        sealed
            nothing
            snapshot
            started
            settled
            canceled
            another process
            journal damaged
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}
