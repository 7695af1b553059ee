//! What is under way, each under its key, so that wishes and work can be compared. What a job does, and what a restart, a
//! panic and a cancel mean to it, is told in its own file.

mod gate;
mod judge;
mod model;
mod snapshot;
mod tool;

pub(crate) use self::gate::{Bench as AtGate, Passed, pass};
pub(crate) use self::judge::{Bench as AtJudging, Hooked as SaidByHooks, Judged, judge};
pub(crate) use self::model::Said;
pub(crate) use self::snapshot::take as take_snapshot;
pub(crate) use self::tool::Start;

use self::model::listen;
use crate::clock::World;
use crate::compaction::Summarised;
use crate::driver::Hooked;
use crate::hooks::{Gated, HookContext, Hooks, Ran};
use crate::partial::Partial;
use piton_core::call::Outcome;
use piton_core::event::{Event, Moment, Subject};
use piton_core::ids::{CallId, TimeMs};
use piton_core::message::{Part, ToolCall};
use piton_core::model::{ModelError, Reply};
use piton_core::truncate::OutputCut;
use piton_core::turn::{Gate, Job};
use piton_models::model::ModelStream;
use piton_tools::snapshot::{Snapshot, Snapshots};
use piton_tools::tool::{Tool, ToolContext};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
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
        let handle = self.tasks.spawn_blocking(move || snapshot::take(moment, store.as_deref()));
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
            let outcome = tool::run(&call, tool, &context, cut, start).await;
            let seen = async {
                let (hooks, cx) = hooks?;
                Some(hooks.after_tool(&cx, &call, outcome.clone(), Ran::Begun).await)
            };
            // Who stops the turn does not wait for hooks: the outcome is as the tool left it.
            let seen = context.cancel.run_until_cancelled(seen).await.flatten();
            let (hooked, outcome) = match seen {
                Some((gated, mut changed)) => {
                    tool::cap(&mut changed, cut, &context);
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

/// A job that ended without a word: a tool or a model that panicked must not take the session with it.
fn broken(key: &JobKey, error: &JoinError) -> Option<Done> {
    let why = if error.is_panic() { "it panicked; this is a bug" } else { "it was aborted" };
    match key {
        JobKey::Tool(call) => Some(tool::broken(call, why)),
        JobKey::Model { attempt, .. } => Some(model::broken(*attempt, why)),
        JobKey::Snapshot => Some(snapshot::broken(why)),
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
