//! What the terminal shows, as specifications: what happened in, what is written out.

use super::screen::Piece;
use super::*;
use expect_test::{Expect, expect};
use piton_core::call::{CallInput, Effects, Outcome};
use piton_core::client::Now;
use piton_core::event::{Delivery, Event, Given, GivenKind, Spent, StepKind, TurnEnd, Verdict};
use piton_core::message::{FinishReason, ToolCall, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply};
use piton_core::permission::PermissionMode;
use piton_core::policy::Policy;
use serde_json::json;
use std::sync::Arc;

/// What is written for this, on a terminal that streams: prose behind `out`, lines beside it behind `err`.
fn check(heard: Vec<Heard>, written: &Expect) {
    check_looking(Look::default(), heard, written);
}

fn check_looking(look: Look, heard: Vec<Heard>, written: &Expect) {
    let mut view = TextView { streams: true, ..TextView::new(look) };
    let (mut text, mut seq) = (String::new(), 0);
    for heard in heard {
        view.draw(&match heard {
            Heard::Event(event) => {
                seq += 1;
                Published::Recorded(Arc::new(Record { seq, at_ms: seq * 100, event }))
            }
            Heard::Live(live) => Published::Live(Arc::new(live)),
            Heard::Now(words) => {
                let delta = Delta::Text { text: words.to_owned() };
                let partial = vec![Live::ModelDelta { step: 1, attempt: 1, delta }];
                Published::Now(Box::new(Now { seq, turn: 1, step: 1, partial, ..Now::default() }))
            }
        });
        for piece in view.screen.take() {
            let (name, piece) = match &piece {
                Piece::Out(piece) => ("out", piece),
                Piece::Err(piece) => ("err", piece),
            };
            let plain = anstream::adapter::strip_str(piece).to_string();
            text.push_str(&format!("{name} {}\n", plain.trim_end_matches('\n').replace('\n', "⏎")));
        }
    }
    written.assert_eq(&text);
}

enum Heard {
    Event(Event),
    Live(Live),
    /// Where the session is, for somebody who joins late or was too slow: the reply so far.
    Now(&'static str),
}

fn turn() -> Heard {
    turn_by(Policy::piton())
}

fn turn_by(policy: Policy) -> Heard {
    let policy = Box::new(policy);
    let (turn, model) = (1, "p/m".to_owned());
    Heard::Event(Event::TurnStarted {
        turn,
        model,
        fallbacks: vec![],
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    })
}

fn step(step: u32) -> Heard {
    Heard::Event(Event::StepStarted { step, kind: StepKind::Ordinary, note: None })
}

fn text(text: &str) -> Heard {
    Heard::Live(Live::ModelDelta { step: 1, attempt: 1, delta: Delta::Text { text: text.to_owned() } })
}

fn reply(step: u32, parts: Vec<Part>, warnings: Vec<String>) -> Heard {
    let (finish, finish_raw, usage, response_id) = (FinishReason::Stop, None, Usage::default(), None);
    let reply = Reply { parts, finish, finish_raw, usage, response_id, warnings };
    let (cost_micros, at_most, prompt, first_ms) = (None, None, None, None);
    Heard::Event(Event::MessageFinished { step, attempt: 1, reply, cost_micros, at_most, prompt, first_ms })
}

fn calls(tool: &str, input: serde_json::Value) -> Part {
    let (id, name, input) = ("c1_0".into(), tool.to_owned(), CallInput::Json(input));
    Part::ToolCall(ToolCall { id, provider_id: None, name, spelling: None, input, opaque: None })
}

fn settled(outcome: Outcome) -> Vec<Heard> {
    let (call, effects, verdict) = ("c1_0".into(), Effects::OPAQUE, Verdict::Allow);
    [
        Event::requested(call, effects, verdict),
        Event::CallStarted { call: "c1_0".into() },
        Event::CallSettled { call: "c1_0".into(), outcome },
    ]
    .map(Heard::Event)
    .into()
}

fn ended() -> Heard {
    let (end, detail, spent) = (TurnEnd::Completed, None, Spent::default());
    Heard::Event(Event::TurnEnded { turn: 1, end, why: None, detail, spent })
}

#[test]
fn prose_streams_and_a_call_has_one_line() {
    let mut heard = vec![turn(), step(1), text("I "), text("look.")];
    heard.push(reply(1, vec![Part::text("I look."), calls("bash", json!({"command": "make\ncheck"}))], vec![]));
    let failed = Outcome::failed("one\n\ntwo\nexit code 2").titled("bash make (exit code 2)");
    heard.extend(settled(failed.with(json!({"exit_code": 2}))));
    heard.extend([step(2), reply(2, vec![Part::text("It\nfails.\n")], vec!["an event was left out".into()]), ended()]);
    check(
        heard,
        &expect![[r#"
            out I 
            out look.
            out 
            err ✗ bash make (exit code 2)
            err   │ one
            err   │ two
            out It⏎fails.
            err an event was left out
        "#]],
    );
}

#[test]
fn the_first_line_says_that_commands_are_unconfined_where_there_is_no_sandbox() {
    let introduced = |sandbox, written: &Expect| {
        let look = Look { animates: true, ..Look::default() };
        let policy = Policy { sandbox, mode: PermissionMode::Auto, ..Policy::piton() };
        check_looking(look, vec![turn_by(policy)], written);
    };
    introduced(
        SandboxMode::Off,
        &expect![[r#"
        err p/m · commands unconfined: no sandbox · mode auto
    "#]],
    );
    introduced(
        SandboxMode::WorkspaceWrite,
        &expect![[r#"
        err p/m · sandbox workspace-write · mode auto
    "#]],
    );
}

#[test]
fn who_was_too_slow_reads_no_word_twice_and_who_joins_late_reads_all_of_them() {
    let rest = || [text(" and left"), reply(1, vec![Part::text("I look around and left")], vec![]), ended()];
    let slow = [turn(), step(1), text("I "), Heard::Now("I look around")];
    check(
        slow.into_iter().chain(rest()).collect(),
        &expect![[r#"
            out I 
            out look around
            out  and left
            out 
        "#]],
    );
    let late = [turn(), step(1), Heard::Now("I look around")];
    check(
        late.into_iter().chain(rest()).collect(),
        &expect![[r#"
            out I look around
            out  and left
            out 
        "#]],
    );
}

#[test]
fn what_was_not_told_as_it_came_is_told_with_the_whole_reply() {
    let heard =
        vec![turn(), step(1), text("The end "), reply(1, vec![Part::text("The end was lost.")], vec![]), ended()];
    check(
        heard,
        &expect![[r#"
            out The end 
            out was lost.
            out 
        "#]],
    );
}

#[test]
fn an_edit_and_a_call_that_was_not_run_say_what_they_are_about() {
    let edit = || reply(1, vec![calls("edit", json!({"path": "a.rs"}))], vec![]);
    let denied = Outcome::new(Status::Denied, "The user said no.\nTry less.");
    let heard = |outcome| [turn(), step(1), edit()].into_iter().chain(settled(outcome)).collect();
    check(
        heard(Outcome::ok("edited a.rs (+1 −1)\n@@").titled("edit a.rs (+1 −1)")),
        &expect![[r#"
        err ✓ edit a.rs (+1 −1)
    "#]],
    );
    check(
        heard(denied),
        &expect![[r#"
            err ✗ edit a.rs: The user said no.
        "#]],
    );
}

#[test]
fn words_of_an_attempt_that_fails_are_abandoned_and_nothing_is_shown_twice() {
    let failed = Event::ModelFailed {
        step: 1,
        attempt: 1,
        error: ModelError::new(ModelErrorKind::CutStream, "the stream ended"),
        usage: Usage::default(),
        cost_micros: None,
        at_most: None,
        prompt: None,
        abandoned: vec![Part::text("Half")],
        retry_at_ms: Some(1_800),
    };
    let (model, reason) = ("p/other".to_owned(), "overloaded".to_owned());
    let switched = Event::ModelSwitched { step: 1, model, reason, compact_at_tokens: None };
    check(
        vec![
            turn(),
            step(1),
            text("Half"),
            Heard::Event(failed),
            Heard::Event(Event::BackoffPassed { step: 1 }),
            Heard::Event(switched),
            reply(1, vec![Part::text("Whole.")], vec![]),
            ended(),
        ],
        &expect![[r#"
            out Half
            out 
            err the stream ended (the text above is abandoned); retry 1 in 1.5 s
            err p/m gave no reply (overloaded); asking p/other
            out Whole.
            out 
        "#]],
    );
}

#[test]
fn room_hooks_and_what_was_given_have_a_line_each() {
    let started = Event::CompactionStarted { trigger: Trigger::Ordinary, focus: None, lost: None };
    let asked = Live::SummaryAsked { model: "p/m".into(), attempt: 1 };
    let finished = Event::CompactionFinished {
        trigger: Trigger::Ordinary,
        upto_seq: 1,
        summary: "s".into(),
        tokens_before: 90_000,
        tokens_after: 9_000,
        note: None,
        asked: None,
    };
    let pruned = |to_bytes| Event::ContextPruned {
        calls: vec!["c1_0".into(), "c2_0".into()],
        to_bytes,
        tokens_before: 90_000,
        tokens_after: 80_000,
        suffices: false,
    };
    let mut run = HookRun::new("fmt", 12);
    run.did = vec!["changed the input".into()];
    let point = piton_core::hook::HookPoint::BeforeTool;
    let (call, notes, system, tools, sent_back, stopped) = (None, vec![], None, None, None, None);
    let hooks = Event::HooksRan {
        step: 1,
        point,
        call,
        runs: vec![run],
        notes,
        system,
        tools,
        input: None,
        verdict: None,
        sent_back,
        stopped,
    };
    let given = Given { path: Some("/w/AGENTS.md".into()), ..Given::new(GivenKind::Instructions, 9) };
    let spoke = Event::UserSpoke {
        message: "m".into(),
        parts: vec![Part::text("go")],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    };
    check(
        vec![
            Heard::Event(Event::ContextGiven { items: vec![given] }),
            Heard::Event(spoke),
            turn(),
            Heard::Event(started),
            Heard::Event(pruned(None)),
            Heard::Event(pruned(Some(512))),
            Heard::Live(asked),
            Heard::Event(finished),
            Heard::Event(hooks),
            Heard::Live(Live::Paused { paused: true }),
        ],
        &expect![[r#"
            err instructions: /w/AGENTS.md
            err made room in the context: 2 old outputs cleared, about 80,000 tokens instead of 90,000
            err made room in the context: 2 outputs cut, about 80,000 tokens instead of 90,000
            err asking for a summary…
            err made room in the context: older messages summed up, about 9,000 tokens instead of 90,000
            err hook fmt: changed the input
            err paused: running calls finish first
        "#]],
    );
}

#[test]
fn what_a_command_prints_is_shown_as_it_comes_where_that_is_wanted() {
    let output = |text: &str| Heard::Live(Live::ToolOutput { call: "c1_0".into(), text: text.to_owned() });
    let outcome = Outcome::failed("one\ntwo\nexit code 2").titled("bash make (exit code 2)");
    let [requested, started, ended] = settled(outcome).try_into().unwrap_or_else(|_| unreachable!("three events"));
    let mut heard = vec![turn(), step(1), reply(1, vec![calls("bash", json!({"command": "make"}))], vec![])];
    heard.extend([requested, started, output("one\ntw"), output("o"), ended]);
    check_looking(
        Look { verbose: true, ..Look::default() },
        heard,
        &expect![[r#"
            err   │ one
            err ✗ bash make (exit code 2)
            err   │ two
        "#]],
    );
}

#[test]
fn prose_on_a_terminal_is_drawn_block_by_block_and_nothing_stands_there_twice() {
    let look = Look { renders: true, ..Look::default() };
    let heard = vec![
        turn(),
        step(1),
        text("# Plan\n\nI **lo"),
        text("ok** at\nit.\n\n- on"),
        Heard::Live(Live::SnapshotSlow {}),
        text("e"),
        reply(1, vec![Part::text("# Plan\n\nI **look** at\nit.\n\n- one")], vec![]),
        ended(),
    ];
    check_looking(
        look,
        heard,
        &expect![[r#"
            out Plan
            out ⏎I look at it.
            err taking a snapshot for undo…
            out ⏎• one
        "#]],
    );
}

#[test]
fn a_quiet_run_says_what_was_not_attached() {
    let missing = Given { notice: Some("@a.png was not attached".into()), ..Given::new(GivenKind::Reference, 0) };
    let file = Given { path: Some("/w/AGENTS.md".into()), ..Given::new(GivenKind::Instructions, 9) };
    check_looking(
        Look { quiet: true, ..Look::default() },
        vec![Heard::Event(Event::ContextGiven { items: vec![missing, file] })],
        &expect![[r#"
            err @a.png was not attached
        "#]],
    );
}
