//! The jobs under way, each under its key, so that wishes and work can be compared. Which jobs there are is not known here.

use super::JobContext;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use piton_core::event::Event;
use piton_core::ids::CallId;
use piton_core::turn::Job;
use std::time::Duration;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The events that a job ends in, by what the session is by then.
pub(crate) type End = Box<dyn FnOnce(&mut JobContext<'_>) -> Vec<Event> + Send>;
/// The same for one that panicked, which is told in words.
type Broken = Box<dyn FnOnce(&str, &mut JobContext<'_>) -> Vec<Event> + Send>;

/// What is said of a job that panicked.
pub(super) const PANICKED: &str = "it panicked; this is a bug";

/// Work that takes time, and what is recorded of it however it ends.
pub(crate) struct Task {
    work: BoxFuture<'static, End>,
    cut: End,
    broken: Broken,
    stop: Option<CancellationToken>,
    leave: Option<CancellationToken>,
    recorded: Option<CancellationToken>,
}

/// What makes two jobs the same job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    /// What the turn wants.
    Turn(Job),
    /// What goes on whatever the turn wants.
    Side(SideJob),
}

/// A job that no turn wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideJob {
    /// Letting hooks see that the session has begun.
    Start,
    /// What is at the front of the requests that keep their order: letting in what somebody says, opening models, or a rewind.
    Line,
    /// Letting hooks see what happened.
    Watch,
    /// Naming the session.
    Title,
    /// Making another session of it.
    Fork,
    /// Finding out what became of a question that is not open.
    Find,
}

impl SideJob {
    /// Whether this process may end in the middle of it: nobody misses what it had not finished.
    fn may_be_abandoned(self) -> bool {
        match self {
            Self::Title => true,
            Self::Start | Self::Line | Self::Watch | Self::Fork | Self::Find => false,
        }
    }
}

/// The jobs under way.
pub(crate) struct Jobs {
    tasks: JoinSet<End>,
    running: Vec<Running>,
    /// What was taken up, until it is started.
    ready: Vec<(Key, Task)>,
}

struct Running {
    key: Key,
    handle: AbortHandle,
    cut: End,
    broken: Broken,
    stop: Option<CancellationToken>,
    leave: Option<CancellationToken>,
    recorded: Option<CancellationToken>,
}

impl Task {
    /// Work, and the events that follow from what it comes to. Cut off or broken it leaves no event, and is taken up again
    /// where it is still wanted.
    pub(crate) fn new<T: Send + 'static>(
        work: impl Future<Output = T> + Send + 'static,
        ended: impl FnOnce(T, &mut JobContext<'_>) -> Vec<Event> + Send + 'static,
    ) -> Self {
        let work = async move {
            let done = work.await;
            let end: End = Box::new(move |cx| ended(done, cx));
            end
        };
        let work = work.boxed();
        Self {
            work,
            cut: Box::new(|_| Vec::new()),
            broken: Box::new(|_, _| Vec::new()),
            stop: None,
            leave: None,
            recorded: None,
        }
    }

    /// What is recorded where it is no longer wanted.
    pub(crate) fn when_cut(self, cut: impl FnOnce(&mut JobContext<'_>) -> Vec<Event> + Send + 'static) -> Self {
        Self { cut: Box::new(cut), ..self }
    }

    /// What is recorded where it panics.
    pub(crate) fn when_broken(
        self,
        broken: impl FnOnce(&str, &mut JobContext<'_>) -> Vec<Event> + Send + 'static,
    ) -> Self {
        Self { broken: Box::new(broken), ..self }
    }

    /// How to ask it to stop; it still ends.
    pub(crate) fn stopped_by(self, stop: CancellationToken) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// How to ask it to let what it waits for go on without it; it still ends.
    pub(crate) fn left_by(self, leave: CancellationToken) -> Self {
        Self { leave: Some(leave), ..self }
    }

    /// It may begin before what led to it is durable, and keeps what comes of it to itself until this is cancelled.
    pub(crate) fn held_until(self, recorded: CancellationToken) -> Self {
        Self { recorded: Some(recorded), ..self }
    }
}

impl Key {
    pub(crate) fn is(&self, job: &Job) -> bool {
        matches!(self, Self::Turn(own) if own.is_same_work(job))
    }
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), running: Vec::new(), ready: Vec::new() }
    }

    /// Whether it is under way, or about to be.
    pub(crate) fn has(&self, job: &Job) -> bool {
        self.ready.iter().any(|(key, _)| key.is(job)) || self.running.iter().any(|running| running.key.is(job))
    }

    /// The same for one beside the turn.
    pub(crate) fn has_side(&self, job: SideJob) -> bool {
        let key = Key::Side(job);
        self.ready.iter().any(|(ready, _)| *ready == key) || self.running.iter().any(|running| running.key == key)
    }

    /// Whether one of those that the turn wants is under way and like this.
    pub(crate) fn any_running(&self, is_meant: impl Fn(&Job) -> bool) -> bool {
        self.running.iter().any(|running| matches!(&running.key, Key::Turn(job) if is_meant(job)))
    }

    /// Keeps a task until [`Jobs::start`].
    pub(crate) fn put_ready(&mut self, key: Key, task: Task) {
        self.ready.push((key, task));
    }

    /// Something happened: what is ready for the turn is of before, and has to be taken up again.
    pub(crate) fn forget_ready(&mut self) {
        self.ready.retain(|(key, _)| matches!(key, Key::Side(_)));
    }

    /// Begins what is ready and may begin before the commit. Whether there was anything.
    pub(crate) fn begin_ahead(&mut self) -> bool {
        let before = self.running.len();
        self.spawn(|_, task| task.recorded.is_some());
        self.running.len() > before
    }

    /// Starts what is ready and may be started: everything that led to it is durable.
    pub(crate) fn start(&mut self, may_start: impl Fn(&Key) -> bool) {
        self.spawn(|key, _| may_start(key));
        self.running.iter().filter_map(|running| running.recorded.as_ref()).for_each(CancellationToken::cancel);
    }

    fn spawn(&mut self, is_chosen: impl Fn(&Key, &Task) -> bool) {
        for (key, task) in self.ready.extract_if(.., |(key, task)| is_chosen(key, task)) {
            let Task { work, cut, broken, stop, leave, recorded } = task;
            let handle = self.tasks.spawn(work.in_current_span());
            self.running.push(Running { key, handle, cut, broken, stop, leave, recorded });
        }
    }

    /// Drops every job that the turn does not want. Returns what is to be recorded of it.
    pub(crate) fn keep_only(&mut self, wanted: &[Job]) -> Vec<End> {
        self.drop_where(|key| matches!(key, Key::Turn(_)) && !wanted.iter().any(|job| key.is(job)))
    }

    /// Drops a job beside the turn.
    pub(crate) fn drop_side(&mut self, job: SideJob) -> Vec<End> {
        self.drop_where(|key| *key == Key::Side(job))
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&Key) -> bool) -> Vec<End> {
        self.ready.retain(|(key, _)| !is_dropped(key));
        let dropped = self.running.extract_if(.., |running| is_dropped(&running.key));
        dropped
            .map(|running| {
                running.handle.abort();
                running.cut
            })
            .collect()
    }

    /// Asks a running job to stop; its end still comes.
    pub(crate) fn stop(&self, job: &Job) {
        let running = self.running.iter().filter(|running| running.key.is(job));
        running.filter_map(|running| running.stop.as_ref()).for_each(CancellationToken::cancel);
    }

    /// Asks what runs, and can, to let its commands go on without it: the calls that were asked.
    pub(crate) fn leave(&self, is_meant: impl Fn(&CallId) -> bool) -> Vec<CallId> {
        let asked = self.running.iter().filter_map(|running| match (&running.key, &running.leave) {
            (Key::Turn(Job::RunTool(call)), Some(leave)) if is_meant(&call.id) => {
                leave.cancel();
                Some(call.id.clone())
            }
            _ => None,
        });
        asked.collect()
    }

    /// Whether this process may end in the middle of everything that is under way; `of_turn` says it of what the turn wants.
    pub(crate) fn may_be_abandoned(&self, of_turn: impl Fn(&Job) -> bool) -> bool {
        self.running.iter().all(|running| match &running.key {
            Key::Turn(job) => of_turn(job),
            Key::Side(job) => job.may_be_abandoned(),
        })
    }

    /// Stops everything at once. Shell commands are ended by their runners, which still write down how.
    pub(crate) fn stop_all(&mut self) {
        self.ready.clear();
        self.running.clear();
        self.tasks.abort_all();
    }

    /// The end of the next job to end. Waits for ever when there is none.
    pub(crate) async fn next(&mut self) -> (Key, End) {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
            // A job that was dropped a moment ago may still have ended: nobody wants its word any more.
            if let Some(end) = self.ended(ended) {
                return end;
            }
        }
    }

    /// The end of a job beside the turn, if it is under way; cut off after this time.
    pub(crate) async fn last(&mut self, job: SideJob, within: Duration) -> Option<End> {
        if !self.has_side(job) {
            return None;
        }
        let waiting = async {
            loop {
                let (key, end) = self.next().await;
                if key == Key::Side(job) {
                    return end;
                }
            }
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(end) => Some(end),
            Err(_) => self.drop_side(job).pop(),
        }
    }

    fn ended(&mut self, ended: Result<(Id, End), JoinError>) -> Option<(Key, End)> {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let at = self.running.iter().position(|running| running.handle.id() == id)?;
        let Running { key, broken, .. } = self.running.swap_remove(at);
        Some(match ended {
            Ok((_, end)) => (key, end),
            // It must not take the session with it.
            Err(error) => {
                let why = if error.is_panic() { PANICKED } else { "it was aborted" };
                (key, Box::new(move |cx: &mut JobContext<'_>| broken(why, cx)))
            }
        })
    }
}
