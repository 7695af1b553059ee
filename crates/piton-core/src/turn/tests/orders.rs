//! The transition table: each event in each phase. And 100,000 random orders of events.

use super::shells::user_ran;
use super::tasks::{background, subagent};
use super::*;

/// One session in each phase, by the shortest way there.
fn one_of_each_phase() -> Vec<Bench> {
    let allow = || {
        let mut policy = Policy::piton();
        policy.permission.push("*", Action::Allow);
        Bench::with(policy)
    };
    let speak = |b: &mut Bench| {
        let parts = vec![Part::text("go")];
        b.record(Event::UserSpoke {
            message: MessageId::from("m"),
            parts,
            delivery: Delivery::FollowUp,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    };
    let mut all = vec![allow()];
    for (wanted, steps) in [
        ("held", 0),
        ("due", 0),
        ("opening", 1),
        ("next_step", 1),
        ("before_model", 2),
        ("calling_model", 2),
        ("backing_off", 2),
        ("given_up", 2),
        ("running_tools", 2),
        ("step_over", 2),
        ("stuck", 3),
        ("asking_to_go_on", 3),
        ("compaction_needed", 2),
        ("before_compaction", 2),
        ("compacting", 2),
        ("compacted", 2),
        ("awaiting_subagents", 2),
        ("checking", 2),
        ("sealing", 2),
        ("ending", 2),
    ] {
        let mut b = allow();
        if wanted == "stuck" || wanted == "asking_to_go_on" {
            b.policy.stuck.repeats = 1;
        }
        let gate = match wanted {
            "before_model" => Some(HookPoint::BeforeModel),
            "before_compaction" => Some(HookPoint::BeforeCompaction),
            "opening" | "compacted" => Some(HookPoint::SessionStart),
            "checking" => Some(HookPoint::Stop),
            _ => None,
        };
        b.policy.hooks.gates = Gates::of(gate);
        b.policy.snapshots = wanted == "sealing";
        b.policy.waits_for_subagents = wanted == "awaiting_subagents";
        speak(&mut b);
        if steps >= 1 {
            let policy = Box::new(b.policy.clone());
            let fallbacks = if wanted == "given_up" { vec!["m2".to_owned()] } else { vec![] };
            b.record(Event::TurnStarted {
                turn: 1,
                model: "m".into(),
                fallbacks,
                policy,
                compact_at_tokens: None,
                this_turn_only: false,
            });
        }
        if steps >= 2 {
            b.record(passed(&Gate::Opened));
            b.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
        }
        match wanted {
            "held" => b.record(Event::CancelRequested { by: Canceller::User }),
            "backing_off" => {
                let error = ModelError::new(ModelErrorKind::Server, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
            }
            "given_up" => {
                let error = ModelError::new(ModelErrorKind::QuotaSpent, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
            }
            "running_tools" => {
                b.record(b.session.replied(1, reply(vec![call("bash")], FinishReason::ToolCalls), None, 0, 0));
            }
            "step_over" => b.record(b.session.replied(1, reply(vec![Part::text("x")], FinishReason::Stop), None, 0, 0)),
            "awaiting_subagents" => {
                b.calls(&["task"]);
                b.happen(subagent(&call_id_of_first()));
                b.record(b.session.replied(1, reply(vec![Part::text("x")], FinishReason::Stop), None, 0, 0));
                b.record(Event::StepFinished { step: 2 });
            }
            "checking" => {
                b.record(b.session.replied(1, reply(vec![Part::text("x")], FinishReason::Stop), None, 0, 0));
                b.record(Event::StepFinished { step: 1 });
            }
            "stuck" | "asking_to_go_on" => {
                b.record(b.session.replied(1, reply(vec![call("read")], FinishReason::ToolCalls), None, 0, 0));
                let id = CallId::from("c1_0");
                b.record(Event::requested(id.clone(), Effects::READ, Verdict::Refuse("no".into())));
                b.record(Event::CallSettled { call: id.clone(), outcome: Outcome::failed("no") });
                b.record(Event::StepFinished { step: 1 });
                if wanted == "asking_to_go_on" {
                    b.record(Event::ApprovalAsked { subject: Subject::GoOn(id), question: None });
                }
            }
            "compaction_needed" | "before_compaction" | "compacting" | "compacted" => {
                let error = ModelError::new(ModelErrorKind::WindowExceeded, "x");
                b.record(b.session.failed(1, error, Usage::default(), vec![], 0, 0));
                if wanted != "compaction_needed" {
                    b.record(Event::CompactionStarted { trigger: Trigger::Forced, focus: None, lost: None });
                }
                if wanted == "compacted" {
                    b.record(finished(Trigger::Forced, 0, 110, 20));
                }
            }
            "sealing" => {
                b.record(b.session.replied(1, reply(vec![call("bash")], FinishReason::ToolCalls), None, 0, 0));
                b.record(snapshot(Moment::Before));
                b.settle_down();
                b.cancel();
            }
            "ending" => b.record(Event::CancelRequested { by: Canceller::User }),
            _ => {}
        }
        assert_eq!(b.session.phase_name(), wanted);
        all.push(b);
    }
    all
}

fn call_id_of_first() -> CallId {
    CallId::from("c1_0")
}

fn sampled() -> Sampled {
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    let (model, prompt, answer) = ("p/m".into(), "user: x".into(), "y".into());
    Sampled { model, prompt, answer, usage, cost_micros: Some(1), at_most: None, took_ms: 7 }
}

fn plan_mode() -> Configure {
    Configure { mode: Some(PermissionMode::Plan), ..Configure::default() }
}

/// One event of every kind, all about the first step's first call.
fn one_of_each_event() -> Vec<Event> {
    let call_id = CallId::from("c1_0");
    vec![
        Event::WriterOpened { epoch: 2, pid: 1, boot_id: None },
        Event::WriterClosed {},
        Event::UserSpoke {
            message: MessageId::from("new"),
            parts: vec![Part::text("x")],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        },
        Event::MessageUnqueued { message: MessageId::from("m") },
        Event::MessageMoved { message: MessageId::from("m"), before: None },
        Event::TurnStarted {
            turn: 1,
            model: "m".into(),
            fallbacks: vec![],
            policy: Box::new(Policy::piton()),
            compact_at_tokens: None,
            this_turn_only: false,
        },
        Event::TurnResumed {
            model: "m".into(),
            fallbacks: vec![],
            policy: Box::new(Policy::piton()),
            this_turn_only: false,
        },
        Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None },
        Event::MessageFinished {
            first_ms: None,
            step: 1,
            attempt: 1,
            reply: reply(vec![Part::text("x")], FinishReason::Stop),
            cost_micros: None,
            at_most: None,
            prompt: None,
        },
        Event::ModelFailed {
            step: 1,
            attempt: 1,
            error: ModelError::new(ModelErrorKind::Server, "x"),
            usage: Usage::default(),
            cost_micros: None,
            at_most: None,
            prompt: None,
            abandoned: vec![],
            retry_at_ms: Some(1),
        },
        Event::ModelSwitched { step: 1, model: "m2".into(), reason: "x".into(), compact_at_tokens: None },
        Event::BackoffPassed { step: 1 },
        Event::MessageCut { step: 1, parts: vec![Part::text("x")], at_most: None },
        Event::requested(call_id.clone(), Effects::READ, Verdict::Deny("x".into())),
        Event::ApprovalAsked { subject: Subject::Call(call_id.clone()), question: None },
        Event::ApprovalAsked { subject: Subject::GoOn(call_id.clone()), question: None },
        Event::approval(Subject::Call(call_id.clone()), Decision::Approve),
        Event::approval(Subject::GoOn(call_id.clone()), Decision::Approve),
        snapshot(Moment::Before),
        Event::RewindStarted { rewind: files_only(Direction::Undo), was: "w".into(), touches: Touched::default() },
        Event::RewindFinished { rewind: files_only(Direction::Undo), left: vec![], back: None },
        abandoned(files_only(Direction::Undo)),
        Event::CallStarted { call: call_id.clone() },
        Event::ServerTask { call: call_id.clone(), handle: json!({"task": "t1"}) },
        Event::ServerSampled { call: call_id.clone(), server: "s".into(), sampled: Box::new(sampled()) },
        Event::Delegated { call: call_id.clone(), child: "ses_1".into(), agent: "general".into() },
        Event::CallSettled { call: call_id, outcome: Outcome::ok("x") },
        Event::TaskEnded { task: call_id_of_first(), outcome: Outcome::ok("x") },
        user_ran("u1", None),
        asked(None, None),
        asked(Some("ci"), None),
        passed(&Gate::Opened),
        passed(&Gate::BeforeModel { step: 1, attempt: 1 }),
        passed(&Gate::BeforeTool(call_id_of_first())),
        passed(&Gate::Question(Subject::GoOn(call_id_of_first()))),
        passed(&Gate::AfterTool(call_id_of_first())),
        passed(&Gate::BeforeCompaction(Trigger::Forced)),
        Event::StepFinished { step: 1 },
        Event::CompactionStarted { trigger: Trigger::Forced, focus: None, lost: None },
        Event::CompactionStarted { trigger: Trigger::Asked, focus: None, lost: None },
        Event::WindowLearned { compact_at_tokens: 100 },
        Event::ContextPruned {
            calls: vec![call_id_of_first()],
            to_bytes: None,
            tokens_before: 2,
            tokens_after: 1,
            suffices: true,
        },
        Event::CompactionFinished {
            trigger: Trigger::Forced,
            upto_seq: 0,
            summary: "s".into(),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        },
        Event::CompactionFailed { trigger: Trigger::Forced, why: None, error: "x".into(), asked: None },
        Event::CancelRequested { by: Canceller::User },
        Event::DeadlinePassed {},
        Event::BudgetShort { step: 1, why: None, detail: "it is short".into() },
        Event::TitleGiven { title: "x".into(), by: TitledBy::User },
        Event::SettingsChanged { changed: plan_mode(), by: ChangedBy::User, at_once: true },
        Event::WorkspaceMoved { workspace: "/v".into() },
        Event::EventLost {},
        Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent: Spent::default() },
    ]
}

#[test]
fn the_transition_table() {
    let mut table = String::new();
    for bench in one_of_each_phase() {
        let from = bench.session.phase_name();
        writeln!(table, "{from}").expect("a string");
        for event in one_of_each_event() {
            let kind = match &event {
                Event::ApprovalAsked { subject: Subject::GoOn(_), .. } => "approval_asked(go_on)",
                Event::ApprovalGiven { subject: Subject::GoOn(_), .. } => "approval_given(go_on)",
                Event::CompactionStarted { trigger: Trigger::Asked, .. } => "compaction_started(asked)",
                Event::HooksRan { sent_back: Some(_), .. } => "hooks_ran(sent_back)",
                Event::HooksRan { point, .. } => &format!("hooks_ran({point:?})"),
                other => other.kind(),
            };
            let mut session = bench.session.clone();
            session.apply(&Record { seq: 99, at_ms: 0, event });
            if session.phase != bench.session.phase {
                writeln!(table, "    {kind:<24} -> {}", session.phase_name()).expect("a string");
            }
        }
    }
    expect_test::expect_file!["../transitions.txt"].assert_eq(&table);
}

/// What the world could do next, drawn at random: mostly what is wanted, sometimes anything at all.
fn random_event(bench: &Bench, dice: &mut fastrand::Rng) -> Event {
    if dice.u8(..10) < 3 {
        let events = one_of_each_event();
        return match dice.usize(..=events.len() + 3) {
            0 => speech(bench, dice),
            1 => unqueued(bench, dice),
            2 | 3 => bench.session.user_ran("make".into(), dice.bool(), dice.bool(), None, false),
            at => events[at - 4].clone(),
        };
    }
    let wanted = bench.session.wanted();
    let Some(job) = dice.choice(wanted) else { return speech(bench, dice) };
    match job {
        Job::StartTurn => Event::TurnStarted {
            turn: bench.session.turn() + 1,
            model: "m".into(),
            fallbacks: vec!["m2".to_owned(); dice.usize(..3)],
            policy: Box::new(bench.policy.clone()),
            compact_at_tokens: dice.bool().then_some(100),
            this_turn_only: false,
        },
        Job::CallModel { attempt, .. } => random_reply(bench, attempt, dice),
        Job::SwitchModel { reason } => switch(&bench.session, reason),
        Job::Wait { step, .. } => Event::BackoffPassed { step },
        Job::WatchDeadline { .. } => Event::DeadlinePassed {},
        Job::JudgeCall(call) => Event::CallRequested {
            call: call.id.clone(),
            input: dice.bool().then(|| json!({"changed": true})),
            author: dice.choice([Author::Model, Author::Hook]).expect("two"),
            effects: dice.choice([Effects::READ, Effects::WRITE, Effects::OPAQUE]).expect("three"),
            plan: None,
            judged: None,
            verdict: dice
                .choice([
                    Verdict::Allow,
                    Verdict::Ask,
                    Verdict::AskFirst("a".into()),
                    Verdict::Deny("d".into()),
                    Verdict::Refuse("r".into()),
                ])
                .expect("four"),
        },
        Job::AskApproval(subject) => {
            let answers = [
                Decision::Approve,
                Decision::ApproveForSession,
                Decision::Deny(None),
                Decision::Answered(vec![vec!["words".into()]]),
                Decision::Unattended,
            ];
            Event::approval(subject, dice.choice(answers).expect("five"))
        }
        Job::AwaitAnswer { subject, .. } => Event::approval(subject, Decision::Expired),
        Job::WatchTask(task) => Event::TaskEnded { task, outcome: Outcome::ok("over") },
        Job::RunTool(call) if dice.u8(..4) == 0 => background(&call.id, dice.bool()),
        Job::RunTool(call) if dice.u8(..4) == 0 => subagent(&call.id),
        Job::RunTool(call) | Job::StopTool(call) => {
            Event::CallSettled { call: call.id.clone(), outcome: Outcome::ok(format!("{}", dice.u8(..2))) }
        }
        Job::Snapshot(moment) => snapshot(moment),
        Job::Compact(_) if dice.u8(..3) == 0 => {
            let calls = vec![call_id_of_first()];
            Event::ContextPruned { calls, to_bytes: None, tokens_before: 2, tokens_after: 1, suffices: dice.bool() }
        }
        Job::Pass(gate) => random_pass(&gate, dice),
        Job::Compact(found) if dice.bool() => {
            let trigger = dice.choice([found, Trigger::Forced]).expect("two");
            Event::CompactionFailed { trigger, why: None, error: "e".into(), asked: None }
        }
        Job::Compact(trigger) => Event::CompactionFinished {
            trigger,
            upto_seq: bench.log.len() as Seq,
            summary: "a summary of the above".into(),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        },
    }
}

fn random_pass(gate: &Gate, dice: &mut fastrand::Rng) -> Event {
    let mut event = passed(gate);
    if let Event::HooksRan { notes, system, input, verdict, sent_back, stopped, .. } = &mut event {
        notes.extend(dice.bool().then(|| "a note of a hook".to_owned()));
        *system = dice.bool().then(|| "another prompt".to_owned());
        *stopped = (dice.u8(..8) == 0).then(|| "never".to_owned());
        *sent_back = (matches!(gate, Gate::End { .. }) && dice.bool()).then(|| "ci".to_owned());
        if let Gate::BeforeTool(_) = gate {
            *input = dice.bool().then(|| json!({"wrapped": true}));
            *verdict = dice.bool().then_some(HookVerdict::Ask("hmm".to_owned()));
        }
    }
    event
}

fn speech(bench: &Bench, dice: &mut fastrand::Rng) -> Event {
    let message = MessageId(format!("m{}", bench.log.len()));
    let delivery = if dice.bool() { Delivery::Steer } else { Delivery::FollowUp };
    Event::UserSpoke {
        message,
        parts: vec![Part::text("x")],
        delivery,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

/// Somebody takes back what waits, if anything does, as the driver lets them.
fn unqueued(bench: &Bench, dice: &mut fastrand::Rng) -> Event {
    let waiting = bench.session.waiting().filter_map(|(message, _)| message.id.clone());
    match dice.choice(waiting.collect::<Vec<_>>()) {
        Some(message) if dice.bool() => Event::MessageUnqueued { message },
        Some(message) => Event::MessageMoved { message, before: None },
        None => speech(bench, dice),
    }
}

fn random_reply(bench: &Bench, attempt: u32, dice: &mut fastrand::Rng) -> Event {
    use ModelErrorKind::{Auth, ContentFilter, EmptyReply, RateLimited, WindowExceeded};
    if dice.u8(..4) == 0 {
        let kind = dice.choice([Auth, ContentFilter, EmptyReply, RateLimited, WindowExceeded]).expect("five");
        return bench.session.failed(attempt, ModelError::new(kind, "x"), Usage::default(), vec![], 0, 500);
    }
    let finish = dice
        .choice([
            FinishReason::Stop,
            FinishReason::ToolCalls,
            FinishReason::ToolCalls,
            FinishReason::Length,
            FinishReason::ContentFilter,
            FinishReason::Error,
            FinishReason::Other,
            FinishReason::Paused,
        ])
        .expect("eight");
    let mut parts = vec![Part::text("x")];
    for _ in 0..dice.usize(..5) {
        parts.push(match dice.u8(..6) {
            0 => Part::ToolCall(ToolCall {
                id: CallId::from("dup"),
                provider_id: Some("same".into()),
                name: "read".into(),
                spelling: None,
                input: CallInput::parse("{"),
                opaque: None,
            }),
            _ => call(dice.choice(["read", "bash", "edit"]).expect("three")),
        });
    }
    bench.session.replied(attempt, reply(parts, finish), Some(1), 0, 500)
}

/// Runs the session to its rest, answering everything; a turn must always end.
fn run_to_rest(bench: &mut Bench, dice: &mut fastrand::Rng) {
    for _ in 0..5_000 {
        bench.settle_down();
        if bench.session.is_at_rest() && !bench.session.shell().is_open() && !bench.session.shell().is_unsealed() {
            return;
        }
        let event = loop {
            let event = random_event(bench, dice);
            if !matches!(event, Event::UserSpoke { .. }) {
                break event;
            }
        };
        bench.record(event);
    }
    panic!("the turn does not end: {}", bench.session.phase_name());
}

#[test]
fn one_hundred_thousand_random_orders_keep_every_invariant() {
    for seed in 0..100_000_u64 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut policy = Policy::piton();
        policy.steps.max = Some(dice.u32(1..6));
        policy.calls.max_per_step = dice.usize(1..5);
        policy.retry.usual.per_call = Some(dice.u32(..3));
        policy.stuck.repeats = dice.u32(..4);
        policy.snapshots = dice.bool();
        policy.waits_for_subagents = dice.bool();
        let gates = [
            HookPoint::SessionStart,
            HookPoint::BeforeModel,
            HookPoint::BeforeTool,
            HookPoint::Approval,
            HookPoint::AfterTool,
            HookPoint::BeforeCompaction,
            HookPoint::Stop,
        ];
        policy.hooks.gates = Gates::of(gates.into_iter().filter(|_| dice.bool()));
        policy.budget.tokens = dice.bool().then_some(250);
        policy.budget.wall_clock_ms = dice.bool().then_some(1_000);
        let mut bench = Bench::with(policy);
        for _ in 0..dice.usize(4..24) {
            let event = random_event(&bench, &mut dice);
            bench.record(event);
            if dice.bool() {
                bench.settle_down();
            }
        }
        check_invariants(&bench.session, &bench.log);
        run_to_rest(&mut bench, &mut dice);
        check_invariants(&bench.session, &bench.log);
        // A `TurnStarted` that came at the wrong time started no turn, and is no place to go back to.
        let before = |span: &branch::TurnSpan| State::fold(&bench.log[..span.started as usize - 1]);
        let is_rest = |span: &branch::TurnSpan| {
            bench.session.is_at_rest() && !before(span).is_in_turn() && !before(span).is_compacting_at_rest()
        };
        if let Some(span) = dice.choice(branch::turns(&bench.log)).filter(is_rest) {
            bench.record(moved(&bench.session, Direction::Undo, span.started - 1));
            check_invariants(&bench.session, &bench.log);
        }
        bench.say("and now");
        assert!(bench.session.is_in_turn(), "seed {seed}: a session at rest did not take up a new message");
    }
}
