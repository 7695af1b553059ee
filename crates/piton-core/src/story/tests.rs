//! The story as specifications: what happened in, a line for each block out; and what holds whatever happens.

use super::*;
use crate::call::{CallInput, Effects, Outcome};
use crate::client::Live;
use crate::event::{
    Author, Canceller, ChangedBy, Configure, Direction, Event, Rewind, Spent, StepKind, Subject,
    SummaryCall as ForSummary, Trigger, TurnEnd, Verdict,
};
use crate::message::{FinishReason, Part, ToolCall, Usage};
use crate::model::{Delta, ModelError, ModelErrorKind, Reply};
use crate::policy::Policy;
use crate::question::Decision;
use expect_test::{Expect, expect};
use serde_json::json;

/// The blocks of a session in which this happened, one event every 10 ms: a line each.
fn check(events: Vec<Event>, lines: &Expect) {
    let story = Story::of(&records(events));
    let text: String = story.blocks().map(|block| format!("{}\n", line(block))).collect();
    lines.assert_eq(&text);
}

fn line(block: &Block) -> String {
    let what = match &block.body {
        Body::Session(session) => {
            let SessionBlock { model, cost_micros, turns, steps, busy, .. } = &**session;
            format!("{model} {turns} turns {steps} steps cost {cost_micros:?} busy {busy}")
        }
        Body::User { text, waiting, .. } => format!("user {text:?}{}", if *waiting { " waits" } else { "" }),
        Body::Note { text } => format!("note {text:?}"),
        Body::Turn { model, .. } => format!("turn by {model}"),
        Body::Step { finished, .. } => format!("step finished {finished}"),
        Body::Model(model) => format!("{} attempt {} {}", model.model, model.attempt, state(&model.state)),
        Body::Words { text, state } => format!("words {text:?} {state:?}"),
        Body::Thought { text, state } => format!("thought {text:?} {state:?}"),
        Body::Call(call) => {
            let stage = match &call.stage {
                CallStage::Settled(outcome) => format!("{:?}", outcome.status),
                stage => format!("{stage:?}"),
            };
            format!("{:?} {} {:?} {stage}", call.kind, call.tool, call.about)
        }
        Body::Question { answer, .. } => format!("question {answer:?}"),
        Body::Compaction(compaction) => {
            format!("compaction {:?} between turns {}", compaction.end, compaction.between_turns)
        }
        Body::Pruned { calls, suffices, .. } => format!("pruned {calls} suffices {suffices}"),
        Body::Switched { from, model, .. } => format!("switched from {from} to {model}"),
        Body::Rewind { rewind, state } => format!("{:?} {state:?}", rewind.direction),
        Body::Stopping { by } => format!("stopping by {by:?}"),
        Body::Lost { events } => format!("lost {events}"),
        Body::TurnEnd { end, .. } => format!("end {end:?}"),
        other => format!("{other:?}"),
    };
    format!("{}{} {what}", if block.taken_back { "~" } else { "" }, block.id)
}

fn state(state: &ModelState) -> String {
    match state {
        ModelState::Asked => "is asked".to_owned(),
        ModelState::Replied { finish, .. } => format!("{finish:?}"),
        ModelState::Failed { error, .. } => format!("failed: {error}"),
        ModelState::Cut => "cut".to_owned(),
    }
}

fn records(events: Vec<Event>) -> Vec<Record> {
    let record = |(at, event)| Record { seq: at as Seq + 1, at_ms: (at as TimeMs + 1) * 10, event };
    events.into_iter().enumerate().map(record).collect()
}

fn user(text: &str, delivery: Delivery) -> Event {
    Event::UserSpoke {
        message: text.into(),
        parts: vec![Part::text(text)],
        delivery,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

fn turn(turn: u32) -> Event {
    let policy = Box::new(Policy::piton());
    Event::TurnStarted {
        turn,
        model: "p/m".into(),
        fallbacks: vec![],
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    }
}

fn step(step: u32) -> Event {
    Event::StepStarted { step, kind: StepKind::Ordinary, note: None }
}

fn reply(step: u32, attempt: u32, parts: Vec<Part>) -> Event {
    let finish = FinishReason::Stop;
    let (finish_raw, response_id, warnings) = (None, None, vec![]);
    let reply = Reply { parts, finish, finish_raw, usage: Usage::default(), response_id, warnings };
    let (at_most, prompt, first_ms) = (None, None, None);
    Event::MessageFinished { step, attempt, reply, cost_micros: Some(5), at_most, prompt, first_ms }
}

fn failed(step: u32, attempt: u32, said: &str, retry_at_ms: Option<TimeMs>) -> Event {
    Event::ModelFailed {
        step,
        attempt,
        error: ModelError::new(ModelErrorKind::Server, "500"),
        usage: Usage::default(),
        cost_micros: None,
        at_most: None,
        prompt: None,
        abandoned: vec![Part::text(said)],
        retry_at_ms,
    }
}

fn calls(id: &str, command: &str) -> Part {
    let input = CallInput::Json(json!({"command": command}));
    Part::ToolCall(ToolCall {
        id: id.into(),
        provider_id: None,
        name: "bash".into(),
        spelling: None,
        input,
        opaque: None,
    })
}

fn requested(call: &str, input: Option<serde_json::Value>) -> Event {
    Event::CallRequested {
        call: call.into(),
        input,
        author: Author::Hook,
        effects: Effects::OPAQUE,
        verdict: Verdict::Ask,
        plan: None,
        judged: None,
    }
}

fn settled(call: &str) -> Event {
    Event::CallSettled { call: call.into(), outcome: Outcome::ok("out") }
}

fn ended(turn: u32, end: TurnEnd) -> Event {
    Event::TurnEnded { turn, end, why: None, detail: None, spent: Spent::default() }
}

fn rewound(direction: Direction, to: Seq) -> Event {
    let rewind = Rewind { direction, turns: 1, to: Some(to), files: vec![], overwrite: false };
    Event::RewindFinished { rewind, left: vec![], back: None }
}

fn compacted(trigger: Trigger, asked: bool) -> Event {
    let asked = asked.then(|| {
        let (cost_micros, at_most, prompt) = (Some(7), None, None);
        Box::new(ForSummary { model: "p/s".into(), attempts: 1, usage: Usage::default(), cost_micros, at_most, prompt })
    });
    let (summary, tokens_before, tokens_after, note) = ("so far".to_owned(), 900, 90, None);
    Event::CompactionFinished { trigger, upto_seq: 1, summary, tokens_before, tokens_after, note, asked }
}

#[test]
fn a_turn_is_told_in_the_order_in_which_things_began() {
    let question = Subject::Call("c1_0".into());
    check(
        vec![
            user("list", Delivery::Steer),
            turn(1),
            step(1),
            user("and count", Delivery::Steer),
            user("later", Delivery::FollowUp),
            reply(1, 1, vec![Part::text("I look."), calls("c1_0", "ls")]),
            requested("c1_0", Some(json!({"command": "ls -a"}))),
            Event::ApprovalAsked { subject: question.clone(), question: None },
            Event::approval(question, Decision::Approve),
            Event::CallStarted { call: "c1_0".into() },
            settled("c1_0"),
            Event::StepFinished { step: 1 },
            step(2),
            reply(2, 1, vec![Part::text("One.")]),
            ended(1, TurnEnd::Completed),
        ],
        &expect![[r#"
            session p/m 1 turns 2 steps cost Some(10) busy true
            list user "list"
            t1 turn by p/m
            s1 step finished true
            s1.1.0 words "I look." Whole
            c1_0 Execute bash "ls -a" Ok
            s1.1 p/m attempt 1 Stop
            and count user "and count"
            later user "later" waits
            q.c1_0 question Some(Approve)
            s2 step finished false
            s2.1.0 words "One." Whole
            s2.1 p/m attempt 1 Stop
            t1.end end Completed
        "#]],
    );
}

#[test]
fn attempts_and_models_that_fail_keep_their_names_apart() {
    let switched =
        Event::ModelSwitched { step: 1, model: "p/other".into(), reason: "500".into(), compact_at_tokens: None };
    check(
        vec![
            turn(1),
            step(1),
            failed(1, 1, "half", Some(50)),
            Event::BackoffPassed { step: 1 },
            failed(1, 2, "", None),
            switched,
            reply(1, 1, vec![Part::text("whole")]),
            ended(1, TurnEnd::Completed),
        ],
        &expect![[r#"
            session p/other 1 turns 1 steps cost Some(5) busy false
            t1 turn by p/m
            s1 step finished false
            s1.1.0 words "half" Abandoned
            s1.1 p/m attempt 1 failed: 500
            s1.2 p/m attempt 2 failed: 500
            k6 switched from p/m to p/other
            s1.3.0 words "whole" Whole
            s1.3 p/other attempt 1 Stop
            t1.end end Completed
        "#]],
    );
}

#[test]
fn what_an_undo_takes_back_is_marked_and_a_redo_takes_the_mark_away() {
    let said = |text: &str, number: u32| {
        vec![
            user(text, Delivery::Steer),
            turn(number),
            step(number),
            reply(number, 1, vec![Part::text("done")]),
            ended(number, TurnEnd::Completed),
        ]
    };
    let two: Vec<Event> = said("one", 1).into_iter().chain(said("two", 2)).collect();
    let undone: Vec<Event> = two.into_iter().chain([rewound(Direction::Undo, 6)]).collect();
    check(
        undone.clone(),
        &expect![[r#"
            session p/m 2 turns 2 steps cost Some(10) busy false
            one user "one"
            t1 turn by p/m
            s1 step finished false
            s1.1.0 words "done" Whole
            s1.1 p/m attempt 1 Stop
            t1.end end Completed
            ~two user "two"
            ~t2 turn by p/m
            ~s2 step finished false
            ~s2.1.0 words "done" Whole
            ~s2.1 p/m attempt 1 Stop
            ~t2.end end Completed
            k11 Undo Finished { left: [] }
        "#]],
    );
    let redone = Story::of(&records(undone.into_iter().chain([rewound(Direction::Redo, 10)]).collect()));
    let back: Vec<String> =
        redone.blocks().filter(|block| block.taken_back).map(|block| block.id.to_string()).collect();
    assert_eq!(back, ["k11"], "the undo itself was taken back");
}

#[test]
fn room_is_one_block_from_its_beginning_to_its_end() {
    let started = |lost| Event::CompactionStarted { trigger: Trigger::Ordinary, focus: None, lost };
    let pruned = |suffices| Event::ContextPruned {
        calls: vec!["c1_0".into()],
        to_bytes: None,
        tokens_before: 9,
        tokens_after: 8,
        suffices,
    };
    check(
        vec![
            turn(1),
            started(None),
            pruned(false),
            started(Some(crate::budget::Bound::default())),
            compacted(Trigger::Ordinary, true),
            started(None),
            pruned(true),
            ended(1, TurnEnd::Completed),
            compacted(Trigger::Edited, false),
            Event::EventLost {},
            Event::EventLost {},
        ],
        &expect![[r#"
            session p/m 1 turns 0 steps cost Some(7) busy false
            t1 turn by p/m
            k2 compaction Some(Summary { text: "so far", tokens: (900, 90) }) between turns false
            k3.1 pruned 1 suffices false
            k6 compaction Some(Pruned) between turns false
            k7.1 pruned 1 suffices true
            t1.end end Completed
            k9 compaction Some(Summary { text: "so far", tokens: (900, 90) }) between turns true
            k10 lost 2
        "#]],
    );
}

#[test]
fn fragments_fill_in_what_their_record_confirms() {
    let mut face = Face::default();
    let live = |delta| Live::ModelDelta { step: 1, attempt: 1, delta };
    let text = |text: &str| live(Delta::Text { text: text.to_owned() });
    let before = records(vec![turn(1), step(1)]);
    before.iter().for_each(|record| face.hear_record(record));
    for fragment in [
        live(Delta::Reasoning { text: "hm".into() }),
        text("I "),
        text("look."),
        live(Delta::CallBegan { index: 0, name: "bash".into() }),
        live(Delta::CallInput { index: 0, json: "{\"comm".into() }),
    ] {
        face.hear_live(fragment);
    }
    let streaming: Vec<String> = face.blocks().into_iter().skip(3).map(|block| line(block)).collect();
    expect![[r#"
        [
            "s1.1.0 thought \"hm\" Streaming",
            "s1.1.1 words \"I look.\" Streaming",
            "c1_0 Execute bash \"\" Writing(\"{\\\"comm\")",
            "s1.1 p/m attempt 1 is asked",
        ]
    "#]]
    .assert_debug_eq(&streaming);
    let event = reply(1, 1, vec![Part::text("I look."), calls("c1_0", "ls")]);
    face.hear_record(&Record { seq: 3, at_ms: 30, event });
    let whole: Vec<String> = face.blocks().into_iter().skip(3).map(|block| line(block)).collect();
    expect![[r#"
        [
            "s1.1.0 words \"I look.\" Whole",
            "c1_0 Execute bash \"ls\" Ready",
            "s1.1 p/m attempt 1 Stop",
        ]
    "#]]
    .assert_debug_eq(&whole);
}

/// A face that knows the changes alone.
struct Face {
    story: Story,
    shown: HashMap<BlockId, Arc<Block>>,
}

impl Default for Face {
    fn default() -> Self {
        let story = Story::default();
        let shown = story.blocks().map(|block| (block.id.clone(), Arc::clone(block))).collect();
        Self { story, shown }
    }
}

impl Face {
    fn blocks(&self) -> Vec<&Arc<Block>> {
        let mut blocks: Vec<&Arc<Block>> = self.shown.values().collect();
        blocks.sort_by_key(|block| block.order);
        blocks
    }

    fn hear_record(&mut self, record: &Record) {
        let published = Published::Recorded(Arc::new(record.clone()));
        self.hear(&published);
    }

    fn hear_live(&mut self, live: Live) {
        self.hear(&Published::Live(Arc::new(live)));
    }

    fn hear(&mut self, published: &Published) {
        for change in self.story.hear(published) {
            match change {
                Change::Put(block) => drop(self.shown.insert(block.id.clone(), block)),
                Change::Grow { id, field, text } => {
                    let block = self.shown.get_mut(&id).expect("it was put");
                    match (&mut Arc::make_mut(block).body, field) {
                        (Body::Words { text: grows, .. } | Body::Thought { text: grows, .. }, Field::Text) => {
                            grows.push_str(&text);
                        }
                        (Body::Call(call), Field::Input | Field::Output) => match &mut call.stage {
                            CallStage::Writing(grows) | CallStage::Running(grows) => grows.push_str(&text),
                            stage => panic!("{stage:?} does not grow"),
                        },
                        (body, field) => panic!("{field:?} of {body:?} does not grow"),
                    }
                }
                Change::Drop(id) => drop(self.shown.remove(&id).expect("it was put")),
            }
        }
    }
}

/// Anything that may happen, in an order that no machine keeps: a story must stand what a damaged journal holds.
fn any_event(dice: &mut fastrand::Rng) -> Event {
    let (step_now, attempt) = (dice.u32(1..4), dice.u32(1..3));
    let call = format!("c{}_{}", dice.u32(1..4), dice.u32(0..2));
    let subject = Subject::Call(call.as_str().into());
    let trigger = if dice.bool() { Trigger::Ordinary } else { Trigger::Asked };
    match dice.u32(0..24) {
        22 => Event::MessageUnqueued { message: format!("m{}", dice.u32(0..6)).as_str().into() },
        0 => user(&format!("m{}", dice.u32(0..6)), if dice.bool() { Delivery::Steer } else { Delivery::FollowUp }),
        1 => turn(dice.u32(1..4)),
        2..6 => step(step_now),
        6..9 => reply(step_now, attempt, vec![Part::text("said"), calls(&format!("c{step_now}_0"), "ls")]),
        9 => failed(step_now, attempt, "half", dice.bool().then_some(9)),
        10 => Event::BackoffPassed { step: step_now },
        11 => Event::ModelSwitched { step: step_now, model: "p/x".into(), reason: "r".into(), compact_at_tokens: None },
        12 => Event::MessageCut { step: step_now, parts: vec![Part::text("cut")], at_most: None },
        13 => requested(&call, dice.bool().then(|| json!({"command": "changed"}))),
        14 => Event::ApprovalAsked { subject, question: None },
        15 => Event::approval(subject, Decision::Approve),
        16 => Event::CallStarted { call: call.as_str().into() },
        17 => settled(&call),
        18 if dice.bool() => Event::CompactionStarted { trigger, focus: None, lost: None },
        18 => compacted(trigger, dice.bool()),
        19 if dice.bool() => rewound(Direction::Undo, dice.u64(0..30)),
        19 => Event::EventLost {},
        20 => Event::CancelRequested { by: Canceller::User },
        21 => {
            let changed = Configure { model: Some("p/z".into()), ..Configure::default() };
            Event::SettingsChanged { changed, by: ChangedBy::User, at_once: dice.bool() }
        }
        _ => ended(dice.u32(1..4), TurnEnd::Completed),
    }
}

fn any_fragment(dice: &mut fastrand::Rng) -> Live {
    let (step, attempt, index, text) = (dice.u32(1..4), dice.u32(1..3), dice.usize(0..2), "piece ".to_owned());
    let delta = match dice.u32(0..5) {
        0 => Delta::Reasoning { text },
        1 | 2 => Delta::Text { text },
        3 => Delta::CallBegan { index, name: "bash".into() },
        _ => Delta::CallInput { index, json: text },
    };
    match dice.u32(0..4) {
        0 => Live::ToolOutput { call: format!("c{step}_{index}").as_str().into(), text: "out ".into() },
        _ => Live::ModelDelta { step, attempt, delta },
    }
}

#[test]
fn fragments_leave_no_trace_at_rest_and_a_face_that_hears_changes_has_the_same_blocks() {
    for seed in 0..3_000 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut events: Vec<Event> = (0..dice.usize(1..40)).map(|_| any_event(&mut dice)).collect();
        events.push(ended(4, TurnEnd::Completed));
        let records = records(events);
        let (mut alone, mut face) = (Story::default(), Face::default());
        for record in &records {
            while dice.u32(0..3) > 0 {
                face.hear_live(any_fragment(&mut dice));
            }
            alone.record(record);
            face.hear_record(record);
            let same = face.story.blocks().eq(face.blocks());
            assert!(same, "seed {seed}, after {}: a face that hears changes shows something else", record.seq);
        }
        let lines = |story: &Story| story.blocks().map(|block| format!("{block:?}")).collect::<Vec<_>>();
        assert_eq!(lines(&alone), lines(&face.story), "seed {seed}");
    }
}
