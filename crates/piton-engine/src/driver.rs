//! The driver: the mechanical half of the loop. The other half, which decides, is [`piton_core::turn`].
//!
//! ```text
//! loop {
//!     drop jobs that are no longer wanted      (their last words are recorded)
//!     record what is due                       (a step starts, a call starts, a turn ends, …)
//!     take up jobs that are wanted and missing (some come to events at once)
//!     begin what may begin before the commit   (the request to the model is under way while the disk works)
//!     commit                                   one transaction, on disk before anything below
//!     publish                                  listeners hear only what is durable
//!     start what was taken up                  (run a tool, wait, …)
//!     wait for something to happen             (a job's end, a request)
//!     record it
//! }
//! ```
//!
//! Everything that acts on the world is a job, started only after the events that want it are committed. Only the model is
//! asked before: that can be repeated, and nobody hears a word of its reply until the commit is done. Resuming is
//! the same loop over a session folded from its journal: a call whose start is on record but was not started here is
//! settled instead of run.
//!
//! This module must not know: which provider, which tool, which front end.

mod asked;
mod carried;
mod commands;
mod filling;
mod for_turn;
mod line;
mod planning;
mod recorder;
mod recovery;
mod rewind;
mod servers;
mod spans;
mod tasks;
mod unqueue;
mod watch;

use self::line::Line;
use self::recorder::Recorder;
use self::watch::Watch;
use crate::bus::Bus;
use crate::clock::World;
use crate::context::{Notes, remember_given};
use crate::delegate::Nursery;
use crate::error::{CompactError, EngineError};
use crate::family::Kin;
use crate::hosts::Hosts;
use crate::inbox::{Asked, Asker, Askers, Requests, WeakInbox};
use crate::jobs::{
    End, Frames, JobContext, Jobs, Key, Memory, STOPPED, Services, SessionTree, SideJob, Step, awaits_subagent,
    compacted, goodbye, show, take_up, watched, window_learned, with_reminders,
};
use crate::prompt::Prompts;
use crate::settings::Settings;
use crate::store::{Log, StoreError, Stored};
use piton_core::budget::Used;
use piton_core::call::Delegated;
use piton_core::client::{Closed, Live, Report, Request};
use piton_core::event::{Canceller, Event, Record, Subject};
use piton_core::ids::SessionId;
use piton_core::limits::TITLE_GRACE_MS;
use piton_core::message::Usage;
use piton_core::secrets::Firewall;
use piton_core::turn::{Gate, Job, State};
use piton_tools::ledger::FileLedger;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often everything else that is ready gets its turn before a commit: enough for a request to leave on a connection
/// that is open, or to a server of this machine.
const TURNS_TO_ASK: usize = 3;
/// The longest that leaving a session waits for a fork that a client of another process wants.
const FORK_GRACE: Duration = Duration::from_secs(10);

/// What a driver is made from.
pub(crate) struct Setup {
    pub(crate) world: World,
    pub(crate) stored: Stored,
    pub(crate) log: Box<dyn Log>,
    pub(crate) folded: Folded,
    /// What is recorded already and not yet durable.
    pub(crate) staged: Vec<Arc<Record>>,
    pub(crate) settings: Settings,
    pub(crate) firewall: Firewall,
    pub(crate) bus: Bus,
    pub(crate) requests: Requests,
    /// The way back to this driver, for calls that run.
    pub(crate) inbox: WeakInbox,
    pub(crate) nursery: Arc<dyn Nursery>,
    pub(crate) kin: Kin,
}

/// What a session's journal was folded into.
pub(crate) struct Folded {
    pub(crate) session: State,
    pub(crate) prompts: Prompts,
    pub(crate) notes: Notes,
    pub(crate) ledger: Arc<FileLedger>,
}

/// Drives one session.
pub(crate) struct Driver {
    /// The fold of everything recorded.
    session: State,
    stage: Stage,
    recorder: Recorder,
    jobs: Jobs,
    services: Services,
    memory: Memory,
    requests: Requests,
    /// Who waits for an answer.
    askers: Askers,
    /// What was asked and is done in its order.
    line: Line,
    /// Connections of commands that wait for a word.
    hosts: Hosts,
    /// How the turns to come are run, where that was changed while one is under way.
    next_settings: Option<Settings>,
    watch: Watch,
}

/// Whether the driver starts anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It does.
    Open,
    /// Not until a client says so.
    Paused,
    /// No turn any more, and it leaves when the one under way is over.
    Closing,
}

impl Driver {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup {
            world,
            stored,
            log,
            folded: Folded { session, prompts, notes, ledger },
            staged,
            settings,
            firewall,
            bus,
            requests,
            inbox,
            nursery,
            kin,
        } = setup;
        // What it has used so far is known to all of its family before anybody of them goes on.
        kin.begin(stored.id(), session.used(), session.policy());
        let granted = kin.hear_grants();
        let (tree, workspace) = (SessionTree { nursery, kin, granted }, Path::new(session.workspace()));
        let (asks, hosts) = Hosts::new();
        let services = Services::new(settings, world, stored, ledger, (firewall, bus, inbox, asks), tree, workspace);
        Self {
            memory: Memory::new(prompts, notes, &services.settings, &session),
            services,
            recorder: Recorder::new(log, staged),
            watch: Watch::new(&session),
            session,
            stage: Stage::Open,
            jobs: Jobs::new(),
            requests,
            askers: Askers::default(),
            line: Line::new(),
            hosts,
            next_settings: None,
        }
    }

    /// Drives until the session is closed or its journal cannot be written any more.
    pub(crate) async fn run(&mut self, first: (Request, Asker)) {
        self.recorder.begin();
        if let Err(error) = self.drive(first).await {
            self.break_off(&error);
        }
    }

    /// Nothing moves before the first request, so that what it says can join what was cut off. `None` where the session
    /// is left before anything was asked.
    pub(crate) async fn first_request(&mut self) -> Option<(Request, Asker)> {
        loop {
            match self.requests.next().await? {
                Asked::Close => return None,
                Asked::LeaveWhenAnswered => self.leave_when_answered(),
                Asked::Request(request, asker) => return Some((request, asker)),
                Asked::HandOver(done) => {
                    // Nothing has begun that could be lost.
                    let _ = done.send(());
                }
                // No call runs yet.
                Asked::Record(..) | Asked::Afford(..) => {}
            }
        }
    }

    /// The journal cannot be written: nothing may act any more, since nothing more can be recorded.
    fn break_off(&mut self, error: &Arc<StoreError>) {
        self.jobs.stop_all();
        self.askers.break_off(error);
        let others = self.line.take_askers().into_iter().chain(self.requests.take_askers());
        others.for_each(|asker| asker.refuse(EngineError::Broken(Arc::clone(error))));
        // Whoever hears that nothing more comes can have heard why.
        self.services.bus.live(Live::Broken { error: error.to_string() });
        self.services.bus.close(Closed::Broken { error: error.to_string() });
    }

    async fn drive(&mut self, (request, asker): (Request, Asker)) -> Result<(), Arc<StoreError>> {
        if let Err(error) = self.recover().await.map_err(Arc::new) {
            asker.refuse(EngineError::Broken(Arc::clone(&error)));
            return Err(error);
        }
        self.record_agent();
        self.obey(request, asker);
        loop {
            // All that was said so far, before anything acts on the half of it.
            while let Some(asked) = self.requests.waiting() {
                self.take_request(asked);
            }
            self.record_shared_grants();
            self.move_up();
            self.drop_unwanted();
            self.record_due();
            // What has ended beside the turn may be told now that this is over.
            while self.wake() {
                self.record_due();
            }
            self.begin_ahead().await;
            self.commit().await?;
            self.start_ready();
            self.lend_place();
            self.start_servers();
            self.answer_waiters();
            self.hand_over();
            self.hosts.tell_durable();
            let is_busy = self.session.is_in_turn()
                || self.session.shell().is_open()
                || self.is_rewinding()
                || self.jobs.has_side(SideJob::Watch);
            if self.stage == Stage::Closing && !is_busy {
                return Ok(());
            }
            tokio::select! {
                // `None`: the last handle was dropped. Whoever leaves hears what concerns that which still runs.
                asked = self.requests.next(), if self.stage != Stage::Closing || !self.requests.is_closed() => {
                    self.take_request(asked.unwrap_or(Asked::Close));
                }
                (key, end) = self.jobs.next() => self.take_end(&key, end).await?,
                ask = self.hosts.next() => self.host_wanted(ask),
                // Who is gone will not answer.
                () = self.services.bus.somebody_left() => {}
                // A question may be answered by that. The sender lives as long as the family.
                _ = self.services.tree.granted.changed() => {}
            }
        }
    }

    /// What jobs are given.
    fn context(&mut self) -> JobContext<'_> {
        JobContext { session: &self.session, services: &self.services, memory: &mut self.memory }
    }

    fn pause(&mut self, paused: bool) {
        let stage = match self.stage {
            Stage::Closing => Stage::Closing,
            Stage::Open | Stage::Paused if paused => Stage::Paused,
            Stage::Open | Stage::Paused => Stage::Open,
        };
        if self.stage != stage {
            self.stage = stage;
            self.services.bus.live(Live::Paused { paused });
            self.services.tree.nursery.ask_all(&if paused { Request::Pause {} } else { Request::Continue {} });
        }
    }

    /// A turn that is only about to start is started and ended: who waits for it hears how it went. What was said before
    /// this starts none: it is held like all that a turn has not taken up, or not heard where hooks still look at it.
    fn cancel(&mut self, by: Canceller) {
        self.pause(false);
        self.drop_unheard();
        if self.session.is_compacting_at_rest() {
            self.record(Event::CancelRequested { by: by.clone() });
            self.drop_unwanted();
            self.askers.compacted(&Err(CompactError::Failed(STOPPED.to_owned())));
        }
        if !self.session.is_in_turn() {
            let start = self.start_to_stop();
            self.record_all(start.into_iter().flatten());
        }
        if self.session.is_in_turn() || self.session.shell().is_open() {
            self.record(Event::CancelRequested { by });
        }
    }

    /// Records how a job ended.
    async fn take_end(&mut self, key: &Key, end: End) -> Result<(), StoreError> {
        let events = end(&mut self.context());
        match key {
            Key::Side(SideJob::Line) => self.moved_up(events).await?,
            Key::Side(SideJob::Start) | Key::Turn(Job::Pass(Gate::Opened)) => self.begun(events),
            Key::Turn(_) | Key::Side(_) => self.record_all(events),
        }
        let learned = window_learned(&self.context());
        self.record_all(learned);
        Ok(())
    }

    fn record_all(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.record(event));
    }

    fn record(&mut self, mut event: Event) {
        if let Event::StepFinished { .. } = event {
            let watched = watched(&self.context());
            self.record_all(watched);
        }
        // The one place that everything passes before it is kept, shown or sent.
        self.services.firewall.event(&mut event);
        self.bill_child(&mut event);
        let approval = self.plan_approved(&event);
        let record = self.recorder.stage(event, self.services.world.now_ms());
        self.jobs.forget_ready();
        let child = match &record.event {
            Event::CallSettled { call, .. } | Event::TaskEnded { task: call, .. } => self.session.child(call).cloned(),
            _ => None,
        };
        self.session.apply(&record);
        self.memory.prompts.hear(&record);
        self.memory.notes.hear(&record);
        self.memory.servers.hear(&record);
        let (session, services, frames) = (&self.session, &self.services, &self.memory.frames);
        if !services.hooks.is_empty() {
            self.watch.note(&record, session, &services.hooks, || services.hook_context(session, frames));
        }
        match &record.event {
            Event::ContextGiven { items } => items.iter().for_each(|item| remember_given(item, &services.ledger)),
            Event::DeadlinePassed {} => self.pause(false),
            Event::HooksRan { call: Some(call), stopped: Some(reason), .. } => self.line.stopped_by_hook(call, reason),
            Event::RewindFinished { .. } => self.memory.entries.forget(),
            Event::ApprovalGiven { subject: Subject::Host { call, host }, decision, .. } => {
                self.hosts.answered(call, host, decision.is_yes());
            }
            Event::StepFinished { .. } if self.session.awaited_subagents() > 0 => {
                let subagents = self.session.awaited_subagents();
                self.services.bus.live(Live::SubagentsAwaited { subagents });
            }
            Event::CallSettled { call, outcome } => {
                self.hosts.over(call);
                self.line.ran(call, outcome);
                self.askers.ran(call, outcome);
                self.leave_if_answered();
            }
            event @ (Event::CompactionFinished { .. } | Event::CompactionFailed { .. }) => {
                self.askers.compacted(&compacted(event));
                if let Event::CompactionFinished { .. } = event {
                    self.offer_used_tools();
                    self.memory.entries.forget();
                }
            }
            _ => {}
        }
        self.settle_carried(&record.event);
        self.count(&record.event, child.as_ref());
        if let Some(approval) = approval {
            self.leave_plan(approval);
        }
        if let Some(report) = Report::of(&self.session, &record.event) {
            self.turn_ended(&report);
            self.settle_settings();
        }
    }

    /// What a person has allowed a subagent for the rest of the session is on record at the root: there it is found after a
    /// restart, listed and revoked.
    fn record_shared_grants(&mut self) {
        for (from, grants) in self.services.tree.kin.take_unrecorded_grants() {
            self.record(Event::GrantsShared { from, grants });
        }
    }

    /// Tells the session's family what it has used and what a person allowed, where that has changed; `child` has answered the call that is settled.
    fn count(&self, event: &Event, child: Option<&SessionId>) {
        let (kin, session) = (&self.services.tree.kin, &self.session);
        match event {
            Event::TurnStarted { policy, .. } | Event::TurnResumed { policy, .. } => {
                kin.begin(session.id(), session.used(), policy);
                kin.grants(session.id(), session.grants());
            }
            Event::ApprovalGiven { .. } | Event::GrantsRevoked { .. } | Event::GrantsShared { .. } => {
                kin.grants(session.id(), session.grants());
            }
            Event::MessageFinished { .. }
            | Event::MessageCut { .. }
            | Event::ModelFailed { .. }
            | Event::ServerSampled { .. }
            | Event::CompactionFinished { .. }
            | Event::CompactionFailed { .. } => {
                kin.uses(session.id(), session.used());
            }
            // Whatever the outcome says of it, its call is over; unless it works on in the background.
            Event::CallSettled { .. } | Event::TaskEnded { .. } => {
                if let Some(child) = child.filter(|child| !session.children().any(|open| open == *child)) {
                    kin.uses(session.id(), session.used());
                    kin.forget(child);
                }
            }
            _ => {}
        }
    }

    /// A call that was given up says nothing of what its subagent has used; its caller pays for that all the same.
    fn bill_child(&self, event: &mut Event) {
        let (Event::CallSettled { call, outcome } | Event::TaskEnded { task: call, outcome }) = event else { return };
        // Where it works on in the background, its end will say it.
        if outcome.delegated.is_some() || outcome.task.is_some() {
            return;
        }
        let Some(child) = self.session.child(call) else { return };
        outcome.delegated = self.services.tree.kin.known_of(child).map(|Used { turn: at_most, steps, .. }| {
            let (usage, session) = (Usage::default(), child.clone());
            Box::new(Delegated { session, usage, cost_micros: None, unpriced_calls: 0, steps, at_most })
        });
    }

    /// What was changed meanwhile holds from here on.
    fn settle_settings(&mut self) {
        let Some(settings) = self.next_settings.take() else { return self.offer_anew() };
        self.go_by(settings);
    }

    /// Goes by these settings from here on, but for what a turn under way has begun with.
    fn go_by(&mut self, settings: Settings) {
        let before = self.services.settings.own_servers.clone();
        self.services.take(settings);
        self.memory.frames = Frames::of(&self.services.settings, &self.session);
        self.leave_servers(before);
    }

    /// Offers the model what the permission mode offers by now.
    fn offer_anew(&mut self) {
        let settings = &self.services.settings;
        if settings.offered() != self.memory.frames.own().tools {
            self.memory.frames = Frames::of(settings, &self.session);
        }
    }

    fn drop_unwanted(&mut self) {
        for cut in self.jobs.keep_only(&self.session.wanted()) {
            let events = cut(&mut self.context());
            self.record_all(events);
        }
    }

    fn record_due(&mut self) {
        while self.stage != Stage::Paused {
            let events = match self.session.due(self.services.world.now_ms()) {
                Some(due) => with_reminders(due, &mut self.context()),
                None => match self.take_up_missing() {
                    Some(events) => events,
                    None => return,
                },
            };
            self.record_all(events);
        }
    }

    /// Takes up what is wanted and not under way, until one comes to events at once.
    fn take_up_missing(&mut self) -> Option<Vec<Event>> {
        let mut wanted = self.session.wanted();
        // What waits for a snapshot that is there at once becomes durable together with it.
        wanted.sort_by_key(|job| !matches!(job, Job::Snapshot(_)));
        let span = self.recorder.span();
        for job in wanted {
            if self.jobs.has(&job) || (matches!(job, Job::StartTurn) && self.stage == Stage::Closing) {
                continue;
            }
            let step = match job {
                Job::StartTurn => span.in_scope(|| self.start_turn()),
                _ => span.in_scope(|| take_up(&job, &mut self.context())),
            };
            match step {
                Step::Record(events) => return Some(events),
                Step::Start(task) => self.jobs.put_ready(Key::Turn(job), task),
                Step::Wait => {}
            }
        }
        None
    }

    /// Begins what may begin before the commit. Where hooks may have a word, they come first; and what nobody can have again,
    /// a person's words and a reply that was paid for, is durable before anything else.
    async fn begin_ahead(&mut self) {
        if !self.recorder.holds_only_repeatable() || !self.services.hooks.is_empty() || self.is_held() {
            return;
        }
        if self.recorder.span().in_scope(|| self.jobs.begin_ahead()) {
            for _ in 0..TURNS_TO_ASK {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Whether nothing new is started: a client wants it so, or hooks watch.
    fn is_held(&self) -> bool {
        self.stage == Stage::Paused || self.jobs.has_side(SideJob::Watch)
    }

    /// Starts what was taken up, now that all that led to it is durable. While hooks watch, nothing new is started; a call
    /// that shall stop is.
    fn start_ready(&mut self) {
        if !self.jobs.has_side(SideJob::Watch) {
            let watched = self.watch.take();
            if !watched.is_empty() {
                let task = show(watched, &self.context());
                self.jobs.put_ready(Key::Side(SideJob::Watch), task);
            }
        }
        let is_held = self.is_held();
        let may_start =
            |key: &Key| !is_held || matches!(key, Key::Side(_) | Key::Turn(Job::StopTool(_) | Job::WatchTask(_)));
        self.recorder.span().in_scope(|| self.jobs.start(may_start));
        let wanted = self.session.wanted();
        wanted.iter().filter(|job| matches!(job, Job::StopTool(_))).for_each(|job| self.jobs.stop(job));
    }

    /// While subagents of its own work and nothing else is done here, others of the family may work in its place.
    fn lend_place(&self) {
        let waits = self.jobs.any_running(|job| awaits_subagent(job, &self.session));
        self.services.tree.kin.waits(waits);
    }

    /// Makes everything recorded durable, then tells the listeners.
    async fn commit(&mut self) -> Result<(), StoreError> {
        self.recorder.commit(&self.services.bus, &self.session).await
    }

    /// Closes the journal in good order.
    pub(crate) async fn leave(mut self) {
        self.askers.leave();
        if let Some(title) = self.jobs.last(SideJob::Title, Duration::from_millis(TITLE_GRACE_MS)).await {
            let events = title(&mut self.context());
            self.record_all(events);
        }
        while self.jobs.last(SideJob::Fork, FORK_GRACE).await.is_some() {}
        self.end_tasks().await;
        if !self.services.hooks.is_empty() {
            if self.session.is_used_here() {
                goodbye(&self.context()).await;
            }
            let watched = watched(&self.context());
            self.record_all(watched);
        }
        let Self { recorder, services, session, memory, .. } = self;
        recorder.close(&services.bus, &session, services.world.now_ms()).await;
        memory.servers_run.close(&services).await;
        services.bus.close(Closed::Left);
    }
}
