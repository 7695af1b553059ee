//! The trace as specifications: what happened in, a line for each record out.

use super::*;
use crate::call::{CallInput, Effects};
use crate::event::{Delivery, Event, Record, Spent, SummaryCall as ForSummary, TitledBy, Verdict};
use crate::hook::HookRun;
use crate::message::{Part, ToolCall};
use crate::model::{ModelError, Reply};
use crate::policy::Policy;
use crate::story::Story;
use expect_test::{Expect, expect};
use serde_json::json;

/// The trace of a session in which this happened, one event every 10 ms: a line for each record.
fn check(events: Vec<Event>, lines: &Expect) {
    let mut text = String::new();
    for trace in of(events) {
        let (from, to) = (trace.seq(), trace.turn());
        let line = match trace {
            Trace::Step(step) => {
                let (asked, compactions) = (step.asked.len(), step.compactions.len());
                format!(
                    "step {} asked {asked} compactions {compactions} hooks {}: {:?}",
                    step.step,
                    step.hooks.len(),
                    step.next
                )
            }
            Trace::Compaction(compaction) => {
                let asked =
                    compaction.asked.map(|asked| format!("{} in, took {} ms", asked.usage.input_tokens, asked.took_ms));
                let asked = asked.unwrap_or_default();
                format!(
                    "compaction {asked} tokens {:?} error {:?}: {:?}",
                    compaction.tokens, compaction.error, compaction.next
                )
            }
            Trace::Outside(outside) => {
                let hooks: Vec<_> = outside.hooks.iter().map(|run| format!("{} {:?}", run.hook, run.point)).collect();
                format!("outside {}: {:?}", hooks.join(", "), outside.next)
            }
            Trace::Title(title) => format!("title by {} in {} ms", title.model, title.took_ms),
        };
        text.push_str(&format!("{from} turn {to} {line}\n"));
    }
    lines.assert_eq(&text);
}

fn of(events: Vec<Event>) -> Vec<Trace> {
    let record = |(at, event)| Record { seq: at as Seq + 1, at_ms: (at as TimeMs + 1) * 10, event };
    trace(&Story::of(&events.into_iter().enumerate().map(record).collect::<Vec<Record>>()))
}

fn turn() -> Event {
    let policy = Box::new(Policy::piton());
    Event::TurnStarted {
        turn: 1,
        model: "p/m".into(),
        fallbacks: Vec::new(),
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    }
}

fn step(step: u32) -> Event {
    step_of(step, StepKind::Ordinary)
}

fn step_of(step: u32, kind: StepKind) -> Event {
    Event::StepStarted { step, kind, note: None }
}

fn reply(parts: Vec<Part>, finish: FinishReason) -> Event {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    let reply = Reply { usage, ..Reply::new(parts, finish) };
    let (cost_micros, at_most, prompt, first_ms) = (Some(10), None, None, None);
    Event::MessageFinished { step: 1, attempt: 1, reply, cost_micros, at_most, prompt, first_ms }
}

fn said(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

fn ended(end: TurnEnd) -> Event {
    Event::TurnEnded { turn: 1, end, why: None, detail: None, spent: Spent::default() }
}

fn hooks(point: HookPoint, hook: &str, call: Option<&str>, sent_back: Option<&str>) -> Event {
    let sent_back = sent_back.map(str::to_owned);
    let (notes, call) = (Vec::new(), call.map(CallId::from));
    let runs = vec![HookRun::new(hook, 5)];
    Event::HooksRan {
        step: 0,
        point,
        call,
        runs,
        notes,
        system: None,
        tools: None,
        input: None,
        verdict: None,
        sent_back,
        stopped: None,
    }
}

fn asked() -> Option<Box<ForSummary>> {
    let usage = Usage { input_tokens: 900, output_tokens: 90, ..Usage::default() };
    let (cost_micros, at_most, prompt) = (Some(7), None, None);
    Some(Box::new(ForSummary { model: "p/small".into(), attempts: 1, usage, cost_micros, at_most, prompt }))
}

fn begun(trigger: Trigger) -> Event {
    Event::CompactionStarted { trigger, focus: None, lost: None }
}

fn compacted(trigger: Trigger) -> Event {
    let (summary, tokens_before, tokens_after) = ("s".to_owned(), 900, 90);
    Event::CompactionFinished { trigger, upto_seq: 1, summary, tokens_before, tokens_after, note: None, asked: asked() }
}

#[test]
fn a_step_says_why_the_next_one_follows() {
    let call = ToolCall {
        id: "c1_0".into(),
        provider_id: None,
        name: "bash".into(),
        spelling: None,
        input: CallInput::Json(json!({})),
        opaque: None,
    };
    let parts = said("aside");
    let spoke = Event::UserSpoke {
        message: "m".into(),
        parts,
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    };
    check(
        vec![
            turn(),
            step(1),
            reply(vec![Part::ToolCall(call)], FinishReason::ToolCalls),
            step(2),
            reply(said("a"), FinishReason::Length),
            step_of(3, StepKind::Continue),
            reply(said("b"), FinishReason::Other),
            step_of(4, StepKind::Continue),
            reply(said("c"), FinishReason::Paused),
            step(5),
            reply(said("done"), FinishReason::Stop),
            hooks(HookPoint::Stop, "check 1", None, Some("check 1")),
            step(6),
            spoke,
            reply(said("done again"), FinishReason::Stop),
            step(7),
            reply(said("really"), FinishReason::Stop),
            ended(TurnEnd::Completed),
        ],
        &expect![[r#"
            2 turn 1 step 1 asked 1 compactions 0 hooks 0: Step { kind: Ordinary, cause: Results }
            4 turn 1 step 2 asked 1 compactions 0 hooks 0: Step { kind: Continue, cause: Cut }
            6 turn 1 step 3 asked 1 compactions 0 hooks 0: Step { kind: Continue, cause: Unclear }
            8 turn 1 step 4 asked 1 compactions 0 hooks 0: Step { kind: Ordinary, cause: Paused }
            10 turn 1 step 5 asked 1 compactions 0 hooks 1: Step { kind: Ordinary, cause: SentBack("check 1") }
            13 turn 1 step 6 asked 1 compactions 0 hooks 0: Step { kind: Ordinary, cause: Spoke }
            16 turn 1 step 7 asked 1 compactions 0 hooks 0: Ended { end: Completed, detail: None }
        "#]],
    );
}

#[test]
fn summaries_hooks_outside_of_steps_and_titles_have_records_of_their_own() {
    let failed =
        Event::CompactionFailed { trigger: Trigger::Ordinary, why: None, error: "empty".into(), asked: asked() };
    let by = TitledBy::Model { model: "p/small".into(), usage: Usage::default(), cost_micros: None, at_most: None };
    check(
        vec![
            hooks(HookPoint::SessionStart, "one", None, None),
            hooks(HookPoint::Prompt, "two", None, None),
            turn(),
            step(1),
            reply(said("a"), FinishReason::Length),
            begun(Trigger::Forced),
            compacted(Trigger::Forced),
            step_of(2, StepKind::Continue),
            reply(said("b"), FinishReason::Stop),
            begun(Trigger::Ordinary),
            compacted(Trigger::Ordinary),
            step(3),
            reply(said("b"), FinishReason::Stop),
            begun(Trigger::Ordinary),
            hooks(HookPoint::BeforeCompaction, "three", None, None),
            failed,
            ended(TurnEnd::ContextLimit),
            Event::TitleGiven { title: "t".into(), by },
            compacted(Trigger::Edited),
            hooks(HookPoint::SessionEnd, "four", None, None),
        ],
        &expect![[r#"
            1 turn 0 outside one SessionStart, two Prompt: None
            4 turn 1 step 1 asked 1 compactions 1 hooks 0: Step { kind: Continue, cause: Cut }
            8 turn 1 step 2 asked 1 compactions 0 hooks 0: Compaction { trigger: Ordinary }
            10 turn 1 compaction 900 in, took 10 ms tokens Some((900, 90)) error None: Some(Step { kind: Ordinary, cause: Compacted })
            12 turn 1 step 3 asked 1 compactions 0 hooks 0: Compaction { trigger: Ordinary }
            14 turn 1 compaction 900 in, took 10 ms tokens None error Some("empty"): Some(Ended { end: ContextLimit, detail: None })
            18 turn 1 title by p/small in 10 ms
            19 turn 1 compaction 900 in, took 0 ms tokens Some((900, 90)) error None: None
            20 turn 1 outside four SessionEnd: None
        "#]],
    );
}

#[test]
fn a_turn_without_a_step_says_why_it_was_over() {
    check(
        vec![turn(), ended(TurnEnd::MaxTurns)],
        &expect![[r#"
            2 turn 1 outside : Some(Ended { end: MaxTurns, detail: None })
        "#]],
    );
}

#[test]
fn a_call_says_who_refused_it_and_a_failed_attempt_what_it_was_sent() {
    let call = |id: &str| {
        let (id, input) = (id.into(), CallInput::Json(json!({})));
        Part::ToolCall(ToolCall { id, provider_id: None, name: "bash".into(), spelling: None, input, opaque: None })
    };
    let judged = |id: &str, verdict| Event::requested(id.into(), Effects::OPAQUE, verdict);
    let segment = crate::prompt::Segment { kind: SegmentKind::User, hash: 0xab, bytes: 68 };
    let prompt = crate::prompt::PromptContents { kept: 3, new: vec![segment], predicted_tokens: 0, lost_micros: None };
    let failed = Event::ModelFailed {
        step: 2,
        attempt: 1,
        error: ModelError::new(ModelErrorKind::Auth, "no"),
        usage: Usage::default(),
        cost_micros: None,
        at_most: None,
        prompt: Some(Box::new(prompt)),
        abandoned: vec![],
        retry_at_ms: None,
    };
    let all = of(vec![
        turn(),
        step(1),
        reply(vec![call("c1_0"), call("c1_1"), call("c1_2")], FinishReason::ToolCalls),
        hooks(HookPoint::BeforeTool, "guard", Some("c1_0"), None),
        judged("c1_0", Verdict::Refuse("no".into())),
        judged("c1_1", Verdict::Deny("no".into())),
        judged("c1_2", Verdict::Refuse("no such tool".into())),
        step(2),
        failed,
        ended(TurnEnd::ApiError),
    ]);
    let all: Vec<serde_json::Value> = all.iter().map(|trace| serde_json::to_value(trace).unwrap()).collect();
    let refused: Vec<&serde_json::Value> =
        all[0]["calls"].as_array().unwrap().iter().map(|call| &call["refused"]).collect();
    assert_eq!(refused, [&json!({"by": "hook", "name": "guard"}), &json!({"by": "rule"}), &json!({"by": "piton"})]);
    assert_eq!(all[0]["calls"][1]["verdict"], json!({"deny": "no"}));
    assert_eq!(all[0]["trace"], "step");
    let sent = json!({"kept": 3, "new": [{"kind": "user", "hash": "00000000000000ab", "at_most_tokens": 68}]});
    assert_eq!(all[1]["input"], sent);
}
