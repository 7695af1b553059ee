//! What is under way, each under its key, so that wishes and work can be compared.

use crate::bus::Bus;
use crate::clock::World;
use crate::compaction::Summarised;
use crate::driver::Hooked;
use crate::hooks::{Gated, HookContext, Hooks, Ran, Sight};
use crate::judge::Judged;
use crate::partial::Partial;
use futures_util::StreamExt;
use piton_core::call::{Outcome, Resume, Status};
use piton_core::client::Live;
use piton_core::event::{Event, Moment, Subject};
use piton_core::hook::HookPoint;
use piton_core::ids::{CallId, TimeMs};
use piton_core::message::{Part, ToolCall};
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply};
use piton_core::truncate::OutputCut;
use piton_core::turn::{Gate, Job};
use piton_models::model::ModelStream;
use piton_tools::snapshot::{Snapshot, Snapshots};
use piton_tools::tool::{Tool, ToolContext, interrupted};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// After so much silence of the model the listeners are told, and again after each such span.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// What makes two jobs the same job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobKey {
    /// Asking the model.
    Model { step: u32, attempt: u32 },
    /// Waiting out a back-off.
    Wait { step: u32, until_ms: TimeMs },
    /// Watching the wall clock.
    Deadline { at_ms: TimeMs },
    /// Running, settling or stopping a call.
    Tool(CallId),
    /// Putting the workspace down.
    Snapshot,
    /// Asking for a summary.
    Compact,
    /// A question.
    Ask(Subject),
    /// Letting rules and hooks see a call.
    Judge(CallId),
    /// Letting hooks see what comes next.
    Pass(Gate),
    /// Letting hooks see what somebody says.
    Vet,
    /// Letting hooks see what happened.
    Watch,
    /// Anything that takes no time.
    Instant,
}

/// What a model says, and who hears it.
pub(crate) struct Said {
    partial: Arc<Mutex<Partial>>,
    bus: Bus,
    hooks: Option<(Hooks, Arc<HookContext>)>,
}

impl Said {
    pub(crate) fn new(partial: Partial, bus: Bus) -> Self {
        Self { partial: Arc::new(Mutex::new(partial)), bus, hooks: None }
    }

    /// With hooks that see it piece by piece.
    pub(crate) fn seen_by(self, hooks: &Hooks, cx: Arc<HookContext>) -> Self {
        Self { hooks: Some((hooks.clone(), cx)), ..self }
    }
}

/// What hooks see of a piece, if they want to.
fn sight(delta: &Delta, hooks: &Hooks) -> Option<Sight> {
    let sight = match delta {
        Delta::Text { text } => Sight::Text(text.clone()),
        Delta::Reasoning { text } => Sight::Reasoning(text.clone()),
        Delta::CallBegan { .. } | Delta::CallInput { .. } => return None,
    };
    hooks.want(sight.point()).then_some(sight)
}

/// How a job ended.
pub(crate) enum Done {
    /// The model replied.
    Replied { attempt: u32, reply: Box<Reply>, first_ms: Option<u64> },
    /// The model did not reply.
    ModelFailed { attempt: u32, error: ModelError, abandoned: Vec<Part> },
    /// A back-off is over.
    BackoffPassed { step: u32 },
    /// The time is up.
    DeadlinePassed,
    /// The workspace was put down, or why not.
    Snapshot { moment: Moment, taken: Result<Snapshot, String>, took: Duration },
    /// A summary was made, or why not.
    Summarised(Result<Box<Summarised>, String>),
    /// A call has its outcome; what hooks did to it, where they were asked.
    Settled { call: CallId, outcome: Outcome, hooked: Option<Box<Gated>> },
    /// Hooks have run.
    Hooked(Box<Hooked>),
    /// A call was judged, and the question about it is worded.
    Judged(Vec<Event>),
}

/// A call of a model that was cut off.
pub(crate) enum Cut {
    /// A reply, and what had streamed of it.
    Reply(Vec<Part>),
    /// A summary.
    Summary,
}

/// The jobs under way.
pub(crate) struct Jobs {
    world: World,
    tasks: JoinSet<Done>,
    running: Vec<Running>,
}

struct Running {
    key: JobKey,
    handle: AbortHandle,
    /// What the model has said so far.
    said: Option<Arc<Mutex<Partial>>>,
    /// How to make a tool stop.
    cancel: Option<CancellationToken>,
}

impl JobKey {
    /// The key of a wanted job.
    pub(crate) fn of(job: &Job) -> Self {
        match job {
            Job::CallModel { step, attempt } => Self::Model { step: *step, attempt: *attempt },
            Job::Wait { step, until_ms } => Self::Wait { step: *step, until_ms: *until_ms },
            Job::WatchDeadline { at_ms } => Self::Deadline { at_ms: *at_ms },
            Job::RunTool(call) | Job::StopTool(call) => Self::Tool(call.id.clone()),
            Job::AskApproval(subject) => Self::Ask(subject.clone()),
            Job::Snapshot(_) => Self::Snapshot,
            Job::Compact(_) => Self::Compact,
            Job::JudgeCall(call) => Self::Judge(call.id.clone()),
            Job::Pass(gate) => Self::Pass(gate.clone()),
            Job::StartTurn | Job::SwitchModel { .. } => Self::Instant,
        }
    }

    /// Whether it goes on whatever the session wants.
    fn is_beside_the_turn(&self) -> bool {
        matches!(self, Self::Vet | Self::Watch)
    }
}

impl Jobs {
    pub(crate) fn new(world: World) -> Self {
        Self { world, tasks: JoinSet::new(), running: Vec::new() }
    }

    pub(crate) fn is_running(&self, key: &JobKey) -> bool {
        self.running.iter().any(|running| running.key == *key)
    }

    /// Drops every job that is not wanted. Returns the calls of a model that were cut off by this.
    pub(crate) fn keep_only(&mut self, wanted: &[JobKey]) -> Vec<Cut> {
        let mut cut = Vec::new();
        self.running.retain(|running| {
            let keep = wanted.contains(&running.key) || running.key.is_beside_the_turn();
            if !keep {
                running.handle.abort();
                match (&running.key, &running.said) {
                    (JobKey::Compact, _) => cut.push(Cut::Summary),
                    (_, Some(said)) => cut.push(Cut::Reply(lock(said).parts())),
                    (_, None) => {}
                }
            }
            keep
        });
        cut
    }

    /// Asks a running tool to stop; its outcome still comes.
    pub(crate) fn cancel(&self, key: &JobKey) {
        for running in self.running.iter().filter(|running| running.key == *key) {
            running.cancel.iter().for_each(CancellationToken::cancel);
        }
    }

    /// Drops the hooks that see what somebody says.
    pub(crate) fn drop_hooks(&mut self) {
        self.running.retain(|running| {
            let is_dropped = running.key == JobKey::Vet;
            if is_dropped {
                running.handle.abort();
            }
            !is_dropped
        });
    }

    /// Stops everything at once. Shell commands are ended by their runners, which still write down how.
    pub(crate) fn stop_all(&mut self) {
        self.running.clear();
        self.tasks.abort_all();
    }

    /// The end of the next job to end. Waits for ever when there is none.
    pub(crate) async fn next(&mut self) -> Done {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            // A job that was dropped a moment ago may still have ended: nobody wants its word any more.
            let Some(at) = self.running.iter().position(|running| running.handle.id() == id) else { continue };
            let running = self.running.swap_remove(at);
            match ended {
                Ok((_, done)) => return done,
                Err(error) => {
                    if let Some(done) = broken(&running.key, &error) {
                        return done;
                    }
                }
            }
        }
    }

    /// Asks the model.
    pub(crate) fn call_model(&mut self, step: u32, attempt: u32, stream: ModelStream, said: Said) {
        let partial = Arc::clone(&said.partial);
        let task = listen(step, attempt, stream, said);
        let span = tracing::info_span!(target: "piton", "model_call", step, attempt);
        let handle = self.tasks.spawn(task.instrument(span));
        self.running.push(Running { key: JobKey::Model { step, attempt }, handle, said: Some(partial), cancel: None });
    }

    /// Asks hooks.
    pub(crate) fn hook(&mut self, key: JobKey, work: impl Future<Output = Hooked> + Send + 'static) {
        let work = async move { Done::Hooked(Box::new(work.await)) };
        let handle = self.tasks.spawn(work.in_current_span());
        self.running.push(Running { key, handle, said: None, cancel: None });
    }

    /// Words the question about a call that was judged.
    pub(crate) fn judge(&mut self, call: CallId, judged: Judged) {
        let handle = self.tasks.spawn(async move { Done::Judged(judged.ask().await) });
        self.running.push(Running { key: JobKey::Judge(call), handle, said: None, cancel: None });
    }

    /// Waits until a point in time.
    pub(crate) fn wait(&mut self, step: u32, until_ms: TimeMs) {
        let world = self.world.clone();
        let handle = self.tasks.spawn(async move {
            world.sleep_until(until_ms).await;
            Done::BackoffPassed { step }
        });
        self.running.push(Running { key: JobKey::Wait { step, until_ms }, handle, said: None, cancel: None });
    }

    /// Watches the wall clock.
    pub(crate) fn watch_deadline(&mut self, at_ms: TimeMs) {
        let world = self.world.clone();
        let handle = self.tasks.spawn(async move {
            world.sleep_until(at_ms).await;
            Done::DeadlinePassed
        });
        self.running.push(Running { key: JobKey::Deadline { at_ms }, handle, said: None, cancel: None });
    }

    /// Puts the workspace down.
    pub(crate) fn take_snapshot(&mut self, moment: Moment, store: Option<Arc<Snapshots>>) {
        let handle = self.tasks.spawn_blocking(move || snapshot(moment, store.as_deref()));
        self.running.push(Running { key: JobKey::Snapshot, handle, said: None, cancel: None });
    }

    /// Asks for a summary.
    pub(crate) fn summarise(&mut self, asking: impl Future<Output = Option<Summarised>> + Send + 'static) {
        let work = async move {
            let nobody = || "nobody was there to be asked".to_owned();
            Done::Summarised(asking.await.map(Box::new).ok_or_else(nobody))
        };
        let handle =
            self.tasks.spawn(work.instrument(tracing::info_span!(target: "piton", "model_call", summary = true)));
        self.running.push(Running { key: JobKey::Compact, handle, said: None, cancel: None });
    }

    /// Runs a call; one that was started by another process is settled instead.
    pub(crate) fn run_tool(
        &mut self,
        call: Arc<ToolCall>,
        tool: Arc<dyn Tool>,
        context: ToolContext,
        cut: OutputCut,
        start: Start,
        hooks: Option<(Hooks, Arc<HookContext>)>,
    ) {
        let key = JobKey::Tool(call.id.clone());
        let cancel = context.cancel.clone();
        let span = tracing::info_span!(target: "piton", "tool_call", call = call.id.as_str(), tool = call.name);
        let work = async move {
            let outcome = run(&call, tool, &context, cut, start).await;
            let seen = async {
                let (hooks, cx) = hooks?;
                Some(hooks.after_tool(&cx, &call, outcome.clone(), Ran::Begun).await)
            };
            // Who stops the turn does not wait for hooks: the outcome is as the tool left it.
            let seen = context.cancel.run_until_cancelled(seen).await.flatten();
            let (hooked, outcome) = match seen {
                Some((gated, mut changed)) => {
                    cap(&mut changed, cut, &context);
                    (Some(Box::new(gated)), changed)
                }
                None => (None, outcome),
            };
            Done::Settled { call: call.id.clone(), outcome, hooked }
        };
        let handle = self.tasks.spawn(work.instrument(span));
        self.running.push(Running { key, handle, said: None, cancel: Some(cancel) });
    }
}

/// Puts the workspace down, here and now.
pub(crate) fn snapshot(moment: Moment, store: Option<&Snapshots>) -> Done {
    let began = Instant::now();
    let taken = match store {
        Some(store) => store.take().map_err(|error| error.to_string()),
        None => Err("this Piton keeps no snapshots".to_owned()),
    };
    Done::Snapshot { moment, taken, took: began.elapsed() }
}

/// Who started a call.
pub(crate) enum Start {
    /// This process: it is run.
    Here,
    /// Another one: it is settled as its effects say. What it may have changed shows beside the workspace before it.
    Elsewhere { resume: Resume, before: Option<(Arc<Snapshots>, String)> },
}

/// Listens to a model until it has replied or failed.
async fn listen(step: u32, attempt: u32, stream: ModelStream, said: Said) -> Done {
    let chunks = Chunks::default();
    match &said.hooks {
        Some((hooks, _)) if hooks.want(HookPoint::Chunk) => {
            let pieces = chunks.clone();
            let sink = move |chunk: &str| lock(&pieces).push(chunk.to_owned());
            piton_models::chunks::seen_by(Arc::new(sink), listen_to(step, attempt, stream, said, chunks)).await
        }
        _ => listen_to(step, attempt, stream, said, chunks).await,
    }
}

/// Raw pieces of an answer that hooks have not seen yet.
type Chunks = Arc<Mutex<Vec<String>>>;

async fn listen_to(step: u32, attempt: u32, mut stream: ModelStream, said: Said, chunks: Chunks) -> Done {
    let Said { partial: said, bus, hooks } = said;
    let request: Arc<str> = format!("req_{step}_{attempt}").into();
    let asked = Instant::now();
    let mut heard = asked;
    let mut first_ms = None;
    let mut silent_until = heard + SILENCE;
    loop {
        let wake = lock(&said).flush_at().map_or(silent_until, |flush| flush.min(silent_until));
        let event = tokio::time::timeout_at(wake.into(), stream.next()).await;
        if lock(&said).flush_at().is_some_and(|at| at <= Instant::now()) {
            lock(&said).flush();
        }
        if let Some((hooks, cx)) = &hooks {
            let new = std::mem::take(&mut *lock(&chunks));
            for chunk in new {
                hooks.see(cx, Sight::Chunk { request: Arc::clone(&request), chunk }).await;
            }
        }
        match event {
            Ok(Some(Ok(ModelEvent::Delta(delta)))) => {
                lock(&said).add(&delta);
                let sight = hooks.as_ref().and_then(|(hooks, _)| sight(&delta, hooks));
                bus.live(Live::ModelDelta { step, attempt, delta });
                if let (Some((hooks, cx)), Some(sight)) = (&hooks, sight) {
                    hooks.see(cx, sight).await;
                }
                heard = Instant::now();
                first_ms.get_or_insert_with(|| u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX));
                silent_until = heard + SILENCE;
            }
            Ok(Some(Ok(ModelEvent::Done(reply)))) => return Done::Replied { attempt, reply, first_ms },
            Ok(Some(Err(error))) => return failed(attempt, error, &said),
            Ok(None) => {
                let error = ModelError::new(ModelErrorKind::CutStream, "the model's stream ended without an end");
                return failed(attempt, error, &said);
            }
            Err(_) if Instant::now() >= silent_until => {
                let silent_ms = u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX);
                bus.live(Live::ModelSilent { step, silent_ms });
                silent_until += SILENCE;
            }
            Err(_) => {}
        }
    }
}

fn failed(attempt: u32, error: ModelError, said: &Mutex<Partial>) -> Done {
    Done::ModelFailed { attempt, error, abandoned: lock(said).parts() }
}

async fn run(call: &ToolCall, tool: Arc<dyn Tool>, context: &ToolContext, cut: OutputCut, start: Start) -> Outcome {
    let began = Instant::now();
    let input = match &call.input {
        piton_core::call::CallInput::Json(value) => value.clone(),
        piton_core::call::CallInput::Invalid { .. } => serde_json::Value::Null,
    };
    let mut outcome = match &start {
        Start::Here | Start::Elsewhere { resume: Resume::Rerun, .. } => tool.run(input, context).await,
        Start::Elsewhere { resume: Resume::Verify | Resume::Keyed | Resume::Reattach, .. } => {
            tool.settle(input, context).await
        }
        Start::Elsewhere { resume: Resume::Never, .. } => interrupted(),
    };
    if let (Status::Interrupted, Start::Elsewhere { before: Some((store, tree)), .. }) = (outcome.status, start) {
        let changed = tokio::task::spawn_blocking(move || changed_since(&store, &tree)).await;
        outcome.text.push_str(&changed.unwrap_or_default());
    }
    if outcome.duration_ms == 0 {
        outcome.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    cap(&mut outcome, cut, context);
    outcome
}

/// Which files are not as they were before the step of a call whose end nobody saw; empty where that cannot be said.
fn changed_since(store: &Snapshots, before: &str) -> String {
    /// More would not help the model.
    const MOST: usize = 40;
    let changes = before.parse().ok().and_then(|before| store.diff(before, store.take().ok()?.id).ok());
    let Some(changes) = changes else { return String::new() };
    if changes.is_empty() {
        return "\nNo file has changed since just before it began.".to_owned();
    }
    let mut text = "\nFiles that have changed since just before it began:".to_owned();
    for change in changes.iter().take(MOST) {
        text.push_str(&format!("\n- {} ({})", change.path.display(), change.kind));
    }
    if let Some(more) = changes.len().checked_sub(MOST).filter(|more| *more > 0) {
        text.push_str(&format!("\n- and {more} more"));
    }
    text
}

/// Cuts what a tool did not cut itself; the whole text stays in the session's folder.
fn cap(outcome: &mut Outcome, cut: OutputCut, context: &ToolContext) {
    // A tool that keeps its whole output elsewhere has cut what it returns; notices may have come on top.
    if outcome.metadata.get("output_path").is_some() {
        return;
    }
    let Some(mut text) = cut.cut(&outcome.text) else { return };
    let path = context.calls_dir.join(format!("{}.full", context.call));
    let kept = std::fs::create_dir_all(&context.calls_dir).and_then(|()| std::fs::write(&path, &outcome.text));
    if kept.is_ok() {
        text.push_str(&format!("\n[full output: {}]", path.display()));
        if !outcome.metadata.is_object() {
            outcome.metadata = json!({});
        }
        outcome.metadata["output_path"] = json!(path);
    }
    outcome.text = text;
}

/// A job that ended without a word: a tool or a model that panicked must not take the session with it.
fn broken(key: &JobKey, error: &JoinError) -> Option<Done> {
    let why = if error.is_panic() { "it panicked; this is a bug" } else { "it was aborted" };
    match key {
        JobKey::Tool(call) => {
            let outcome = Outcome::new(Status::Failed, format!("The tool failed inside Piton: {why}."));
            Some(Done::Settled { call: call.clone(), outcome, hooked: None })
        }
        JobKey::Model { attempt, .. } => {
            let error =
                ModelError::new(ModelErrorKind::Malformed, format!("the provider's answer could not be read: {why}"));
            Some(Done::ModelFailed { attempt: *attempt, error, abandoned: Vec::new() })
        }
        JobKey::Snapshot => {
            // Which of the two it was does not matter: nothing was put down.
            Some(Done::Snapshot { moment: Moment::Before, taken: Err(why.to_owned()), took: Duration::MAX })
        }
        JobKey::Compact => Some(Done::Summarised(Err(format!("the provider's answer could not be read: {why}")))),
        JobKey::Wait { .. }
        | JobKey::Deadline { .. }
        | JobKey::Ask(_)
        | JobKey::Judge(_)
        | JobKey::Pass(_)
        | JobKey::Vet
        | JobKey::Watch
        | JobKey::Instant => None,
    }
}

fn lock<T>(said: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
