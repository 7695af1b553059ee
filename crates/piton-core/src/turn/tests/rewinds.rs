//! Turns that are taken back and brought back, and the snapshots that this takes.

use super::*;

#[test]
fn the_workspace_is_put_down_before_a_step_changes_it_and_when_the_turn_is_over() {
    check(
        |b| {
            b.policy.snapshots = true;
            b.policy.permission.push("*", Action::Allow);
            b.say("go");
            b.calls(&["read", "bash", "bash"]);
            assert_eq!(b.wanted(), "run(c1_0) snapshot(Before)", "what only reads need not wait");
            b.happen(snapshot(Moment::Before));
            assert_eq!(b.wanted(), "run(c1_0) run(c1_1) run(c1_2)");
            for call in ["c1_0", "c1_1", "c1_2"] {
                b.finish(call);
            }
            b.calls(&["read"]);
            b.finish("c2_0");
            b.answer("done");
            assert_eq!(b.wanted(), "snapshot(After)");
            b.happen(snapshot(Moment::After));
            b.say("what is in it?");
            b.calls(&["read"]);
            b.finish("c4_0");
            b.answer("nothing");
        },
        expect![[r#"
            user       go
            assistant  read#c1_0 bash#c1_1 bash#c1_2
            result     #c1_0 ok
            result     #c1_1 ok
            result     #c1_2 ok
            assistant  read#c2_0
            result     #c2_0 ok
            assistant  done
            user       what is in it?
            assistant  read#c4_0
            result     #c4_0 ok
            assistant  nothing
            end        completed
        "#]],
    );
}

#[test]
fn a_turn_that_was_taken_back_leaves_no_trace_in_the_conversation_and_can_be_brought_back() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            b.say("two");
            b.answer("second");
            let started: Vec<Seq> = branch::turns(&b.log).iter().map(|span| span.started).collect();
            b.happen(moved(&b.session, Direction::Undo, started[1] - 1));
            assert_eq!(b.session.transcript().len(), 2);
            b.happen(moved(&b.session, Direction::Undo, started[0] - 1));
            assert_eq!((b.session.transcript().len(), b.session.turn()), (0, 2), "its number stays given out");
            for left in [1, 0] {
                let rewind = b.session.redo().expect("something to bring back");
                b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
                assert_eq!(b.session.redo().map_or(0, |_| 1), left);
            }
            assert_eq!(b.session.transcript().len(), 4);
            b.happen(moved(&b.session, Direction::Undo, started[1] - 1));
            b.say("another two");
            assert_eq!(b.session.redo(), None, "who goes on has let go of what was taken back");
            b.answer("third");
            let follows: Vec<_> =
                branch::turns(&b.log).iter().map(|span| (span.turn, span.follows, span.on_path)).collect();
            assert_eq!(follows, [(1, None, true), (2, Some(1), false), (3, Some(1), true)]);
        },
        expect![[r#"
            user       one
            assistant  first
            user       another two
            assistant  third
            end        completed
        "#]],
    );
}

#[test]
fn what_waited_when_a_turn_was_taken_back_waits_again_when_it_is_brought_back() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.speak("later", Delivery::FollowUp);
    b.cancel();
    let waiting = |b: &Bench| b.session.waiting().map(|(message, _)| message.prose()).collect::<Vec<_>>();
    assert_eq!((b.session.phase_name(), waiting(&b)), ("held", vec!["later".to_owned()]));
    let started = branch::turns(&b.log)[0].started;
    b.happen(moved(&b.session, Direction::Undo, started - 1));
    assert_eq!((b.session.phase_name(), waiting(&b)), ("idle", vec![]));
    let rewind = b.session.redo().expect("something to bring back");
    b.happen(Event::RewindFinished { rewind, left: vec![], back: None });
    assert_eq!((b.session.phase_name(), waiting(&b)), ("held", vec!["later".to_owned()]));
    b.say("next");
    b.answer("done");
    b.answer("that, too");
    let said: Vec<String> = b.session.transcript().map(|message| message.prose()).collect();
    assert!(said.contains(&"later".to_owned()) && waiting(&b).is_empty(), "{said:?}");
}

#[test]
fn a_compaction_is_taken_back_with_its_turn() {
    let mut b = Bench::with(Policy::piton());
    b.say("one");
    b.answer("first");
    b.compact_at = Some(1);
    b.say("two");
    let upto_seq = b.log.len() as Seq;
    b.happen(Event::CompactionFinished {
        trigger: Trigger::Ordinary,
        upto_seq,
        summary: "they said one".into(),
        tokens_before: 2,
        tokens_after: 0,
        note: None,
        asked: None,
    });
    b.answer("second");
    assert!(b.session.is_at_rest() && b.session.transcript().len() == 2, "a summary and an answer");
    let second = branch::turns(&b.log)[1].started;
    b.happen(moved(&b.session, Direction::Undo, second - 1));
    assert_eq!(b.session.transcript().map(|message| message.prose()).collect::<Vec<_>>(), ["one", "first"]);
}

#[test]
fn the_model_is_told_of_files_that_were_taken_back_without_the_words() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            b.happen(Event::RewindStarted {
                rewind: files_only(Direction::Undo),
                was: "w".into(),
                touches: Touched::default(),
            });
            assert!(b.session.rewinding().is_some());
            b.happen(Event::RewindFinished { rewind: files_only(Direction::Undo), left: vec![], back: None });
            assert!(b.session.rewinding().is_none());
        },
        expect![[r#"
            user       one
            assistant  first
            user       [The user took back a…]
            end        completed
        "#]],
    );
}

#[test]
fn a_title_and_a_folder_hold_on_every_branch_and_the_model_is_told_of_the_folder_again() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    bench.record(Event::TitleGiven { title: "mine".into(), by: TitledBy::User });
    bench.record(Event::WorkspaceMoved { workspace: "/elsewhere".into() });
    bench.say("here");
    bench.answer("there");
    assert!(!bench.session.is_new_here());
    let start = bench.log.iter().find(|record| matches!(record.event, Event::TurnStarted { turn: 1, .. }));
    let to = start.map(|record| record.seq - 1);
    let rewind = Rewind { direction: Direction::Undo, turns: 2, to, files: vec![], overwrite: false };
    bench.record(Event::RewindFinished { rewind, left: vec![], back: None });
    let folded = State::fold(&bench.log);
    assert_eq!((folded.title(), folded.workspace()), (Some("mine"), "/elsewhere"));
    assert_eq!(folded.transcript().len(), 0);
    assert!(folded.is_new_here(), "what told the model of it was taken back");
}

#[test]
fn where_the_end_of_a_rewind_is_lost_it_is_not_done_again() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    let files = vec![Restore { from: "a".into(), to: "b".into() }];
    let rewind = Rewind { direction: Direction::Undo, turns: 1, to: Some(2), files, overwrite: false };
    bench.record(Event::RewindStarted { rewind, was: "c".into(), touches: Touched::default() });
    assert!(bench.session.rewinding().is_some());
    bench.record(Event::EventLost {});
    assert_eq!(bench.session.rewinding(), None);
}

#[test]
fn a_rewind_that_is_given_up_leaves_the_conversation_and_tells_the_model() {
    check(
        |b| {
            b.say("one");
            b.answer("first");
            let rewind = Rewind { to: Some(2), ..files_only(Direction::Undo) };
            b.happen(Event::RewindStarted { rewind: rewind.clone(), was: "w".into(), touches: Touched::default() });
            b.happen(abandoned(rewind));
            assert!(b.session.rewinding().is_none() && b.session.redo().is_none() && b.session.is_at_rest());
            let told = format!("{:?}", b.session.transcript().last());
            assert!(told.contains("take back the last turn") && told.contains("(no snapshot)"), "{told}");
        },
        expect![[r#"
            user       one
            assistant  first
            user       [The user wanted to t…]
            end        completed
        "#]],
    );
}

#[test]
fn who_goes_on_has_let_go_of_a_rewind_that_was_cut_off() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("go");
    bench.answer("fine");
    let rewind = files_only(Direction::Undo);
    bench.record(Event::RewindStarted { rewind, was: "c".into(), touches: Touched::default() });
    bench.say("more");
    assert_eq!(bench.session.rewinding(), None, "to do it now would take back what was said since");
}

#[test]
fn what_clients_changed_of_how_the_session_is_run_outlives_a_rewind() {
    let mut bench = Bench::with(Policy::piton());
    bench.say("one");
    bench.answer("first");
    let changed = Configure { model: Some("b/y".into()), ..Configure::default() };
    bench.happen(Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false });
    let changed = Configure { mode: Some(PermissionMode::Plan), ..Configure::default() };
    bench.happen(Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false });
    bench.happen(moved(&bench.session, Direction::Undo, 1));
    assert_eq!(bench.session.configured().words(), ["model b/y", "permission mode plan"]);
    assert_eq!(State::fold(&bench.log).configured(), bench.session.configured());
}
