//! What the documents say of time: what is told while it happens, what a cancel or a clock cuts short, how long it took.
//! Time is the runtime's, which skips every wait, so that a minute here takes no time and is still a minute.

use super::*;
use async_trait::async_trait;
use futures_util::StreamExt;
use piton_core::call::{Effects, Status, ToolSpec};
use piton_core::client::Live;
use piton_core::model::{Delta, ModelEvent};
use piton_engine::hooks::{HookContext, HookResult, ModelCall, ModelChange};
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use piton_tools::tool::{Tool, ToolContext};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// What happened, in order, each with the seconds since the first of it.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    began: Option<Instant>,
    lines: Vec<(u64, String)>,
}

impl Diary {
    fn note(&self, what: &str) {
        let mut diary = self.0.lock().unwrap();
        let since = diary.began.get_or_insert_with(Instant::now).elapsed().as_secs();
        diary.lines.push((since, what.to_owned()));
    }

    fn read(&self) -> Vec<(u64, String)> {
        self.0.lock().unwrap().lines.clone()
    }
}

/// A model that lets so much time pass before each piece of its reply, the end included.
struct Slow {
    model: Arc<dyn Model>,
    pause: Duration,
    diary: Diary,
}

impl Model for Slow {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let (pause, diary) = (self.pause, self.diary.clone());
        diary.note("asked");
        let slowly = self.model.stream(request).then(move |event| {
            let diary = diary.clone();
            async move {
                tokio::time::sleep(pause).await;
                if let Ok(ModelEvent::Delta(Delta::Text { text } | Delta::Reasoning { text })) = &event {
                    diary.note(&format!("sent {text}"));
                }
                event
            }
        });
        Box::pin(slowly)
    }
}

impl Lab {
    /// The model says each piece so many seconds after the one before.
    fn slow(self, seconds: u64, diary: &Diary) -> Self {
        let (pause, diary) = (Duration::from_secs(seconds), diary.clone());
        self.change(move |settings| {
            let (model, diary) = (settings.model.clone(), diary.clone());
            settings.model = Arc::new(Slow { model, pause, diary });
        })
    }
}

/// A reply of reasoning and of two pieces of text.
fn two_pieces() -> Line {
    let mut line = Line::reply(&["Hel".into(), "lo".into()], Vec::new(), FinishReason::Stop, used(1, 1));
    line.deltas.insert(0, Delta::Reasoning { text: "hm".into() });
    line
}

/// S0-001 S0-005 S0-113 S2-001 S2-051 S3-052: every piece is told when it comes, before the next one is sent.
#[test]
fn s0_001_every_piece_is_told_before_the_next_is_sent() {
    for preset in ["neovate", "coder-mvp", "etcode"] {
        let diary = Diary::default();
        let listening = diary.clone();
        let ran = Lab::new(preset, vec![two_pieces()])
            .slow(2, &diary)
            .heard(move |_, published| {
                if let Published::Live(live) = published
                    && let Live::ModelDelta { delta: Delta::Text { text } | Delta::Reasoning { text }, .. } = &**live
                {
                    listening.note(&format!("heard {text}"));
                }
            })
            .run();
        let want = [
            (0, "asked"),
            (2, "sent hm"),
            (2, "heard hm"),
            (4, "sent Hel"),
            (4, "heard Hel"),
            (6, "sent lo"),
            (6, "heard lo"),
        ];
        assert_eq!(diary.read(), want.map(|(at, what)| (at, what.to_owned())), "{preset}");
        assert_eq!(&*ran.report().text, "Hello");
    }
}

/// Lets so much time pass.
struct Sleeper(Duration);

#[async_trait]
impl Tool for Sleeper {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "sleep".into(), description: "Sleeps.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, _: Value, context: &ToolContext) -> Outcome {
        tokio::select! {
            () = tokio::time::sleep(self.0) => Outcome::ok("slept"),
            () = context.cancel.cancelled() => Outcome::new(Status::Cancelled, "woken"),
        }
    }
}

fn sleeper(seconds: u64) -> ToolSet {
    ToolSet::empty().with(Arc::new(Sleeper(Duration::from_secs(seconds))))
}

/// S0-028 S0-032 S0-097 S3-083 S3-085: a run, a reply and a call have the time that they took on record.
#[test]
fn s0_032_a_run_a_reply_and_a_call_have_their_times() {
    let ran = Lab::new("etcode", vec![calls("", &[("sleep", json!({}))]), says("done")])
        .tools(sleeper(5))
        .slow(3, &Diary::default())
        .run();
    let records = ran.records();
    let at = |kind: &str, number: usize| {
        records.iter().filter(|record| record.event.kind() == kind).nth(number).unwrap().at_ms
    };
    let seconds = |from: u64, to: u64| (to - from + 500) / 1000;
    assert_eq!(seconds(at("step_started", 0), at("message_finished", 0)), 3, "one piece: the end");
    assert_eq!(seconds(at("call_started", 0), at("call_settled", 0)), 5);
    assert_eq!(seconds(at("step_started", 1), at("message_finished", 1)), 6, "a piece of text, and the end");
    assert_eq!((ran.report().spent.duration_ms + 500) / 1000, 14);
    assert_eq!(seconds(at("turn_started", 0), at("turn_ended", 0)), 14);
}

/// S2-025 S1-060 S0-004: a wait between retries is cut short by a cancel, in which moment it may come.
#[test]
fn s2_025_a_cancel_ends_a_wait_at_once() {
    for (preset, said) in [("coder-mvp", "Request aborted."), ("pulse", "Request aborted."), ("etcode", "")] {
        let ran = Lab::new(preset, vec![fails(503), says("never")])
            .change(|settings| settings.policy.retry.usual.first_ms = 30_000)
            .cancelled_on("model_failed")
            .run();
        let report = ran.report();
        assert_eq!((report.end, &*report.result, ran.requests.len()), (TurnEnd::Canceled, said, 1), "{preset}");
        assert_eq!(ran.waits(), [30_000]);
        assert!(report.spent.duration_ms < 1_000, "{} ms of 30 s", report.spent.duration_ms);
    }
}

/// Stops the session before its second request, and takes its time over it.
#[derive(Default)]
struct StopBetween(OnceLock<Handle>);

#[async_trait]
impl Hook for StopBetween {
    fn name(&self) -> &str {
        "stop between"
    }

    async fn before_model_call(&self, cx: &HookContext, _: &ModelCall) -> HookResult<ModelChange> {
        if cx.step == 2 {
            self.0.get().iter().for_each(|session| drop(session.cancel()));
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Ok(ModelChange::default())
    }
}

/// S3-020 S0-004 S0-040: a cancel between two rounds is heard: no further request is made, and the session is usable.
#[test]
fn s3_020_a_cancel_between_rounds_makes_no_further_request() {
    for preset in ["etcode", "neovate"] {
        let stop = Arc::new(StopBetween::default());
        let known = stop.clone();
        let round = if preset == "neovate" { says(&use_tool("echo", &json!({}))) } else { rounds(1).remove(0) };
        let ran = Lab::new(preset, vec![round, says("never")])
            .hook(stop)
            .heard(move |session, _| drop(known.0.set(session.clone())))
            .run();
        assert_eq!((ran.end(), ran.requests.len(), ran.outcomes().len()), (TurnEnd::Canceled, 1, 1), "{preset}");
        let state = piton_core::turn::State::fold(&ran.records());
        assert!(state.is_at_rest(), "{}", state.phase_name());
    }
}

/// S1-083: a limit of two seconds ends a run with a slow model after two seconds, under its own name.
#[test]
fn s1_083_the_clock_ends_a_run_with_a_slow_model() {
    let limit = |settings: &mut Settings| settings.policy.budget.wall_clock_ms = Some(2_000);
    for (lab, requests) in [
        (Lab::new("piton", vec![says("late")]).slow(60, &Diary::default()), 1),
        (Lab::new("piton", vec![calls("", &[("sleep", json!({}))])]).tools(sleeper(60)), 1),
        (Lab::new("piton", vec![fails(503)]).change(|settings| settings.policy.retry.usual.first_ms = 600_000), 1),
    ] {
        let ran = lab.change(limit).run();
        let spent = ran.report().spent.duration_ms;
        assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Budget, requests));
        assert!((2_000..3_000).contains(&spent), "{spent} ms");
        assert_eq!(ran.played.transcript()[0].prose(), "go", "the history is kept");
    }
}

/// N0-02: with ten retries and no cap, the waits of newer Neovate; a cancel ends one, and an empty answer counts.
#[test]
fn n0_02_retries_as_settings_ask_for_them() {
    let newer = |settings: &mut Settings| {
        let retry = &mut settings.policy.retry.usual;
        (retry.per_call, retry.first_ms, retry.cap_ms) = (Some(10), 1_000, u64::MAX);
        (retry.cap_answered_ms, retry.jitter) = (u64::MAX, piton_core::retry::Jitter::None);
        settings.policy.replies.on_empty = piton_core::policy::OnEmpty::AskAgain;
    };
    let ran = Lab::new("neovate", vec![fails(503), fails(503), says("ok")]).change(newer).run();
    assert_eq!((&*ran.report().result, ran.waits()), ("ok", vec![1_000, 2_000]));
    let ran = Lab::new("neovate", vec![fails(503)]).change(newer).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::ApiError, 11));
    assert_eq!(ran.waits(), (0..10).map(|retry| 1_000 << retry).collect::<Vec<u64>>());
    let ran = Lab::new("neovate", vec![says(""), says("ok")]).change(newer).run();
    assert_eq!((&*ran.report().result, ran.waits()), ("ok", vec![1_000]));
    let ran = Lab::new("neovate", vec![fails(503), says("never")]).change(newer).cancelled_on("model_failed").run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Canceled, 1));
}
