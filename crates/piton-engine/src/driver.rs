//! The driver: the mechanical half of the loop. The other half, which decides, is [`piton_core::turn`].
//!
//! ```text
//! loop {
//!     drop jobs that are no longer wanted      (their last words are recorded)
//!     record what is due                       (a step starts, a call starts, a turn ends, …)
//!     ask the model, if that is wanted         (the request is under way while the disk works)
//!     commit                                   one transaction, on disk before anything below
//!     publish                                  listeners hear only what is durable
//!     start jobs that are wanted and missing   (run a tool, wait, …)
//!     wait for something to happen             (a job's end, a command)
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
mod frames;
mod given;
mod hooked;
mod rewinding;
mod room;
mod spans;
mod watch;

pub(crate) use self::hooked::Hooked;

use self::frames::Frames;
use self::hooked::Gates;
use self::spans::Spans;
use self::watch::Watch;
use crate::bus::Bus;
use crate::clock::World;
use crate::compaction::{self, SharedBill, Task};
use crate::context::Notes;
use crate::engine::{Attendance, Settings};
use crate::hooks::{Gated, Hooks};
use crate::inbox::{Asked, Asker, Askers, Requests};
use crate::jobs::{AtJudging, Cut, Done, JobKey, Jobs, Judged, Said, SaidByHooks, Start, judge, take_snapshot};
use crate::partial;
use crate::prompt::{self, Permit, Prompts};
use crate::store::{Log, StoreError, Stored};
use crate::titles::Titling;
use async_trait::async_trait;
use piton_core::budget::Short;
use piton_core::call::{Outcome, Resume, Status};
use piton_core::client::{Closed, Live, Report, Request};
use piton_core::event::{Answerer, Canceller, Event, Moment, Record, Subject, Trigger};
use piton_core::hidden;
use piton_core::hook::HookPoint;
use piton_core::ids::{CallId, Seq};
use piton_core::message::{ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind};
use piton_core::permission::{Action, Ask};
use piton_core::policy::{HookPolicy, Policy};
use piton_core::question::Decision;
use piton_core::request::{self, Frame};
use piton_core::turn::{Job, State};
use piton_models::model::Model;
use piton_tools::disk::Disk;
use piton_tools::executor::{Executor, OutputSink};
use piton_tools::files::Files;
use piton_tools::host::Host;
use piton_tools::ledger::FileLedger;
use piton_tools::runner::Runners;
use piton_tools::snapshot::Snapshot;
use piton_tools::tool::ToolContext;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// In the session's scratch folder: claims, outputs and exit records of calls.
const CALLS: &str = "calls";
/// And the reply in the making.
const PARTIAL: &str = "partial";
/// How often everything else that is ready gets its turn before a commit: enough for a request to leave on a connection
/// that is open, or to a server of this machine.
const TURNS_TO_ASK: usize = 3;

/// What a driver is made from.
pub(crate) struct Setup {
    pub(crate) world: World,
    pub(crate) stored: Stored,
    pub(crate) log: Box<dyn Log>,
    pub(crate) session: State,
    /// What is recorded already and not yet durable.
    pub(crate) staged: Vec<Arc<Record>>,
    pub(crate) prompts: Prompts,
    pub(crate) notes: Notes,
    pub(crate) settings: Settings,
    pub(crate) ledger: Arc<FileLedger>,
    pub(crate) bus: Bus,
    pub(crate) requests: Requests,
}

/// Drives one session.
pub(crate) struct Driver {
    world: World,
    stored: Stored,
    /// The folder of what belongs to the session only while it runs here.
    scratch: PathBuf,
    log: Option<Box<dyn Log>>,
    session: State,
    settings: Settings,
    frames: Frames,
    watch: Watch,
    ledger: Arc<FileLedger>,
    executor: Arc<dyn Executor>,
    files: Arc<dyn Files>,
    bus: Bus,
    requests: Requests,
    askers: Askers,
    jobs: Jobs,
    prompts: Prompts,
    /// A summary that is about to be asked for.
    compaction: Option<Box<Task>>,
    /// What asking for one has used so far, and why it is made.
    summary_bill: Option<(Trigger, SharedBill)>,
    notes: Notes,
    /// The most tokens that the reply of the next call may have.
    reply_cap: Option<u32>,
    /// Recorded but not yet committed, hence not yet published.
    staged: Vec<Arc<Record>>,
    titling: Titling,
    closing: bool,
    hooks: Hooks,
    gates: Gates,
    /// Nothing new is started.
    is_paused: bool,
    /// How long the last snapshot took: a short one is taken without a way to another thread and back.
    snapshot_took: Duration,
    /// What the log is told in.
    spans: Spans,
}

impl Driver {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { world, stored, log, session, staged, prompts, notes, settings, ledger, bus, requests } = setup;
        let scratch = stored.scratch();
        let frame = Frame {
            system: settings.system.clone(),
            tools: prompt::offered(&settings),
            // The provider's own default: the model's limit is seldom wanted, and counts against the window.
            max_output_tokens: None,
        };
        let mut hooks = Hooks::new(&settings.hooks);
        let lost = hooked::inherit(&mut hooks, &session, &settings.env);
        let files = Arc::new(Disk::new(scratch.join(CALLS)));
        let executor = Arc::new(Runners::new(settings.runner.clone(), scratch.join(CALLS)));
        Self {
            gates: Gates::new(&session, lost),
            watch: Watch::new(&session),
            frames: Frames::new(frame, &session),
            hooks,
            is_paused: false,
            stored,
            scratch,
            executor,
            files,
            log: Some(log),
            session,
            settings,
            ledger,
            bus,
            requests,
            askers: Askers::default(),
            jobs: Jobs::new(world.clone()),
            world,
            prompts,
            compaction: None,
            summary_bill: None,
            notes,
            reply_cap: None,
            staged,
            titling: Titling::default(),
            closing: false,
            snapshot_took: Duration::MAX,
            spans: Spans::begin(),
        }
    }

    /// Drives until the session is closed or its journal cannot be written any more.
    pub(crate) async fn run(&mut self, first: (Request, Asker)) {
        self.spans = Spans::begin();
        self.staged.iter().for_each(|record| log(record));
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
                Asked::LeaveWhenAnswered => self.askers.leave_when_answered(),
                Asked::Request(request, asker) => return Some((request, asker)),
            }
        }
    }

    /// The journal cannot be written: nothing may act any more, since nothing more can be recorded.
    fn break_off(&mut self, error: &Arc<StoreError>) {
        self.jobs.stop_all();
        self.titling = Titling::default();
        self.bus.live(Live::Broken { error: error.to_string() });
        self.bus.close(Closed::Broken { error: error.to_string() });
        self.askers.break_off(error);
    }

    async fn drive(&mut self, (request, asker): (Request, Asker)) -> Result<(), Arc<StoreError>> {
        self.finish_rewind().await?;
        self.recover();
        if matches!(request, Request::GoOn {}) {
            self.goes_on();
        }
        self.obey(request, asker).await;
        loop {
            // All that was said so far, before anything acts on the half of it.
            while let Some(asked) = self.requests.waiting() {
                self.take_up(asked).await;
            }
            if !self.requests.has_errand() {
                self.hear_accepted().await;
            }
            self.drop_unwanted();
            self.record_due();
            let recorded = self.ask_ahead().await;
            self.commit().await?;
            recorded.cancel();
            self.show_sights();
            let span = self.spans.now().clone();
            span.in_scope(|| self.start_missing());
            self.answer_waiters();
            if self.requests.has_errand() {
                self.run_errand().await?;
                // Somebody may have spoken meanwhile.
                continue;
            }
            if self.closing && !self.session.is_in_turn() && !self.is_being_watched() {
                return Ok(());
            }
            tokio::select! {
                // `None`: the last handle was dropped.
                asked = self.requests.next(), if !self.closing => self.take_up(asked.unwrap_or(Asked::Close)).await,
                done = self.jobs.next() => self.take(done),
                title = self.titling.next() => self.record(title),
                // Who is gone will not answer.
                () = self.bus.somebody_left() => {}
            }
        }
    }

    /// Takes over what a killed process left: its turn goes on by our rules, and what only that process could have
    /// ended is ended.
    fn recover(&mut self) {
        // By the rules it had: what its process asked when it was killed is what would be asked here.
        if self.session.wanted().iter().any(|job| matches!(job, Job::CallModel { .. })) {
            drop(self.weigh(self.session.step()));
        }
        if self.session.is_in_turn() {
            let (model, fallbacks) = (self.settings.model.name().to_owned(), self.settings.fallback_names());
            self.spans.begin_turn(self.session.turn());
            self.record(Event::TurnResumed { model, fallbacks, policy: Box::new(self.policy()) });
            if let Some(reason) = self.gates.lost.take() {
                self.record(Event::CancelRequested { by: Canceller::Hook(reason) });
            }
            self.measure_window();
        }
        self.recover_compaction();
        let asked = self.session.wanted().into_iter().find_map(|job| match job {
            Job::CallModel { step, attempt } => Some((step, attempt)),
            _ => None,
        });
        if let Some((step, attempt)) = asked {
            let abandoned = partial::recover(&self.scratch.join(PARTIAL), step, attempt);
            let error = ModelError::new(ModelErrorKind::Interrupted, "Piton was stopped while the model was asked");
            let mut event = self.session.failed(
                attempt,
                error,
                Usage::default(),
                abandoned,
                self.world.now_ms(),
                self.world.roll(),
            );
            let model = Arc::clone(self.model());
            self.prompts.complete(&mut event, &*model);
            self.record(event);
        }
    }

    /// Every event that is durable.
    async fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.stored.records().await
    }

    fn pause(&mut self, paused: bool) {
        if self.is_paused != paused {
            self.is_paused = paused;
            self.bus.live(Live::Paused { paused });
        }
    }

    /// A turn that is only about to start is started and ended: who waits for it hears how it went. What was said before
    /// this starts none: it is held like all that a turn has not taken up, or not heard where hooks still look at it.
    async fn cancel(&mut self, by: Canceller) {
        self.pause(false);
        self.hear_accepted().await;
        self.drop_unheard();
        if !self.session.is_in_turn()
            && !self.session.is_at_rest()
            && let Some(start) = self.instant_job()
        {
            self.record(start);
        }
        if self.session.is_in_turn() {
            self.record(Event::CancelRequested { by });
        }
    }

    /// Turns a job's end into the event it is.
    fn take(&mut self, done: Done) {
        let mut event = match done {
            Done::Replied { attempt, mut reply, first_ms } => {
                self.settings.tools.name_calls(&mut reply.parts);
                let mut event = self.session.replied(attempt, *reply, None, self.world.now_ms(), self.world.roll());
                if let Event::MessageFinished { first_ms: first, .. } = &mut event {
                    *first = first_ms;
                }
                event
            }
            Done::ModelFailed { attempt, mut error, abandoned } => {
                let usage = error.usage.take().map(|usage| *usage).unwrap_or_default();
                self.session.failed(attempt, error, usage, abandoned, self.world.now_ms(), self.world.roll())
            }
            Done::BackoffPassed { step } => Event::BackoffPassed { step },
            Done::DeadlinePassed => {
                self.pause(false);
                Event::DeadlinePassed {}
            }
            Done::Settled { call, outcome, hooked } => {
                hooked.into_iter().for_each(|gated| self.record_hooks(*gated));
                Event::CallSettled { call, outcome }
            }
            Done::Hooked(hooked) => return self.take_hooked(*hooked),
            Done::Judged(events) => return events.into_iter().for_each(|event| self.record(event)),
            Done::Snapshot { moment, taken, took } => self.snapshot_taken(moment, taken, took),
            Done::Summarised(done) => self.summarised(done),
        };
        if let Event::MessageFinished { .. } | Event::ModelFailed { .. } = event {
            let model = Arc::clone(self.model());
            self.prompts.complete(&mut event, &*model);
        }
        self.record(event);
        self.learn_window();
    }

    /// The position of the next event; `None` once the session was left.
    fn next_seq(&self) -> Option<Seq> {
        self.log.as_ref().map(|log| log.head() + self.staged.len() as Seq + 1)
    }

    fn record(&mut self, event: Event) {
        if let Event::StepFinished { .. } = event {
            self.record_watched();
        }
        let Some(seq) = self.next_seq() else { return };
        let record = Arc::new(Record { seq, at_ms: self.world.now_ms(), event });
        self.spans.open(&record.event);
        self.spans.now().in_scope(|| log(&record));
        self.spans.close(&record.event);
        self.session.apply(&record);
        self.prompts.hear(&record);
        if !self.hooks.is_empty() {
            let cx = || hooked::context(&self.session, &self.settings, &self.scratch, self.frames.own());
            self.watch.note(&record, &self.session, &self.hooks, cx);
        }
        self.notes.hear(&record);
        if let Some(report) = Report::of(&self.session, &record.event) {
            self.turn_ended(&report);
            self.hooks.disinherit();
            self.titling.turn_ended(&self.session, report.end, self.settings.titles.as_ref());
        }
        self.staged.push(record);
    }

    fn drop_unwanted(&mut self) {
        let wanted: Vec<JobKey> = self.session.wanted().iter().map(JobKey::of).collect();
        for cut in self.jobs.keep_only(&wanted) {
            let event = match cut {
                Cut::Reply(parts) => {
                    // It may be billed, and nobody will say for how much.
                    let at_most = self.prompts.cut();
                    if parts.is_empty() && at_most.is_none() {
                        continue;
                    }
                    Event::MessageCut { step: self.session.step(), parts, at_most }
                }
                Cut::Summary => self.summary_cut("it was stopped".to_owned()),
            };
            self.record(event);
        }
    }

    fn record_due(&mut self) {
        /// Nobody notices a wait of this length.
        const SHORT: Duration = Duration::from_millis(5);
        while !self.is_paused {
            if !self.settings.shares_runtime && self.snapshot_took <= SHORT {
                self.snapshot_at_once();
            }
            if let Some(event) = self.session.due(self.world.now_ms()) {
                let event = self.with_reminders(event);
                self.record(event);
            } else if let Some(event) = self.instant_job() {
                self.record(event);
            } else if let Some(event) = self.weigh_call().or_else(|| self.weigh_compaction()) {
                self.record(event);
            } else {
                return;
            }
        }
    }

    /// Takes a wanted snapshot here and now, which spares a commit: what it waits for becomes durable together with it.
    fn snapshot_at_once(&mut self) {
        let moment = self.session.wanted().into_iter().find_map(|job| match job {
            Job::Snapshot(moment) => Some(moment),
            _ => None,
        });
        let Some(moment) = moment.filter(|_| !self.jobs.is_running(&JobKey::Snapshot)) else { return };
        let done = take_snapshot(moment, self.settings.snapshots.as_deref());
        self.take(done);
    }

    fn snapshot_taken(&mut self, moment: Moment, taken: Result<Snapshot, String>, took: Duration) -> Event {
        self.snapshot_took = took;
        let (tree, notices) = match taken {
            Ok(snapshot) => (
                Some(snapshot.id.to_string()),
                snapshot
                    .notices
                    .iter()
                    .map(|notice| {
                        let name = hidden::visible_name(&notice.path.to_string_lossy());
                        format!("{name} is not covered: {}", notice.why)
                    })
                    .collect(),
            ),
            Err(error) => (None, vec![format!("no snapshot could be made: {error}")]),
        };
        Event::SnapshotTaken { step: self.session.step(), moment, tree, notices }
    }

    /// Weighs a model call that is about to be made: the event, if the budget does not cover it.
    fn weigh_call(&mut self) -> Option<Event> {
        let mut wanted = self.session.wanted().into_iter().filter(|job| !self.jobs.is_running(&JobKey::of(job)));
        let step = wanted.find_map(|job| match job {
            Job::CallModel { step, .. } => Some(step),
            _ => None,
        })?;
        self.weigh(step)
    }

    fn weigh(&mut self, step: u32) -> Option<Event> {
        let (model, frame) = (Arc::clone(self.model()), self.frame().clone());
        match self.prompts.permit(&self.session, &frame, &*model) {
            Permit::Granted(most) => {
                self.reply_cap = most;
                None
            }
            Permit::Short(Short { why, detail }) => Some(Event::BudgetShort { step, why: Some(why), detail }),
        }
    }

    /// A wanted job that takes no time: its event.
    fn instant_job(&self) -> Option<Event> {
        self.session.wanted().into_iter().find_map(|job| match job {
            Job::StartTurn if self.closing => None,
            Job::StartTurn => Some(Event::TurnStarted {
                turn: self.session.turn() + 1,
                model: self.settings.model.name().to_owned(),
                fallbacks: self.settings.fallback_names(),
                policy: Box::new(self.policy()),
                compact_at_tokens: self.full_at(self.settings.model.name()),
            }),
            Job::SwitchModel { reason } => {
                let model = self.session.fallbacks().next()?.to_owned();
                let compact_at_tokens = self.full_at(&model);
                Some(Event::ModelSwitched { step: self.session.step(), model, reason, compact_at_tokens })
            }
            Job::Pass(gate) if self.hooks.want(gate.point()) => None,
            Job::Pass(gate) => Some(Gated::nothing_at(&gate).event(self.session.step())),
            Job::JudgeCall(call) => self.judge(&call).at_once(),
            Job::AskApproval(subject) => self.answer_without_asking(subject),
            Job::RunTool(call) | Job::StopTool(call) if self.settings.tools.get(&call.name).is_none() => {
                let text = format!(
                    "[interrupted] This call was started by a Piton that had the tool {}; this one has not.",
                    call.name
                );
                Some(Event::CallSettled { call: call.id.clone(), outcome: Outcome::new(Status::Interrupted, text) })
            }
            Job::Snapshot(_)
            | Job::Compact(_)
            | Job::CallModel { .. }
            | Job::Wait { .. }
            | Job::WatchDeadline { .. }
            | Job::RunTool(_)
            | Job::StopTool(_) => None,
        })
    }

    /// The answer to a question that nobody need be asked: the rules have changed since it was put (the user said
    /// "always", or resumed with other flags), or nobody is there.
    fn answer_without_asking(&self, subject: Subject) -> Option<Event> {
        let is_allowed = |id: &CallId| {
            let (call, plan) = (self.session.open_call(id)?, self.session.plan(id)?);
            let ask = Ask { tool: &call.name, accesses: &plan.accesses };
            Some(self.session.judge(&ask).action == Action::Allow)
        };
        let (decision, by) = match &subject {
            Subject::Call(id) if !self.session.is_asked_by_hook(id) && is_allowed(id) == Some(true) => {
                (Decision::Approve, Answerer::Rules)
            }
            _ if !self.is_attended() => (Decision::Unattended, Answerer::Nobody),
            Subject::Call(_) | Subject::GoOn(_) => return None,
        };
        Some(Event::ApprovalGiven { subject, decision, by: Some(by) })
    }

    /// Whether somebody can be asked.
    fn is_attended(&self) -> bool {
        self.settings.attendance == Attendance::Attended || self.bus.is_attended()
    }

    /// An answer as it is recorded: an input that comes with it, in the tool's own field names.
    fn approval(&self, subject: Subject, mut decision: Decision, by: Answerer) -> Event {
        if let (Decision::ApproveChanged(input), Subject::Call(id)) = (&mut decision, &subject)
            && let Some((_, tool)) = self.session.open_call(id).and_then(|call| self.settings.tools.find(&call.name))
        {
            *input = tool.canonical(input.take());
        }
        let by = if decision == Decision::Unattended { Answerer::Nobody } else { by };
        Event::ApprovalGiven { subject, decision, by: Some(by) }
    }

    /// What rules and hooks say of a call.
    fn judge(&self, call: &ToolCall) -> Judged {
        let (session, tools, frame) = (&self.session, &self.settings.tools, self.frame());
        let hooked = SaidByHooks {
            input: session.changed_input(&call.id).cloned(),
            verdict: session.hook_verdict(&call.id).cloned(),
        };
        let call = tools.understand(call);
        let is_taken_away = self.frames.is_taken_away(&call.name, session);
        judge(&call, hooked, &AtJudging { session, tools, files: &self.files, frame, is_taken_away })
    }

    fn start_missing(&mut self) {
        let is_held = self.is_being_watched() || self.is_paused;
        for job in self.session.wanted() {
            let key = JobKey::of(&job);
            if !matches!(job, Job::StopTool(_)) && (is_held || self.jobs.is_running(&key)) {
                continue;
            }
            match job {
                Job::Pass(gate) => self.pass(&gate),
                Job::StopTool(call) => {
                    if !self.jobs.is_running(&key) {
                        self.start_tool(&call);
                    }
                    self.jobs.cancel(&key);
                }
                Job::CallModel { step, attempt } => self.call_model(step, attempt, None),
                Job::Wait { step, until_ms } => self.jobs.wait(step, until_ms),
                Job::WatchDeadline { at_ms } => self.jobs.watch_deadline(at_ms),
                Job::RunTool(call) => self.start_tool(&call),
                Job::Snapshot(moment) => self.jobs.take_snapshot(moment, self.settings.snapshots.clone()),
                Job::Compact(_) => self.start_compaction(),
                Job::JudgeCall(call) => self.jobs.judge(call.id.clone(), self.judge(&call)),
                Job::StartTurn | Job::SwitchModel { .. } | Job::AskApproval(_) => {}
            }
        }
    }

    /// The rules of a turn that starts or goes on here.
    fn policy(&self) -> Policy {
        let hooks = HookPolicy { gates: self.hooks.gates(), demands: self.hooks.demands() };
        let mut policy = Policy { snapshots: self.settings.snapshots.is_some(), hooks, ..self.settings.policy.clone() };
        policy.compaction.rules.frame_tokens = compaction::frame_tokens(self.frames.own(), self.settings.model.name());
        policy
    }

    /// The model whose turn it is.
    fn model(&self) -> &Arc<dyn Model> {
        let name = self.session.model();
        self.settings.fallbacks.iter().find(|model| model.name() == name).unwrap_or(&self.settings.model)
    }

    /// Asks the model that is wanted by what is about to be committed. Nobody hears what it says before the token is
    /// cancelled. Where hooks may have a word, they come first.
    async fn ask_ahead(&mut self) -> CancellationToken {
        let recorded = CancellationToken::new();
        if self.staged.is_empty() || !self.hooks.is_empty() || self.is_paused || self.is_being_watched() {
            return recorded;
        }
        let asks = |job: &Job| match job {
            Job::CallModel { step, attempt } if !self.jobs.is_running(&JobKey::of(job)) => Some((*step, *attempt)),
            _ => None,
        };
        if let Some((step, attempt)) = self.session.wanted().iter().find_map(asks) {
            let span = self.spans.now().clone();
            span.in_scope(|| self.call_model(step, attempt, Some(recorded.clone())));
            for _ in 0..TURNS_TO_ASK {
                tokio::task::yield_now().await;
            }
        }
        recorded
    }

    fn call_model(&mut self, step: u32, attempt: u32, recorded: Option<CancellationToken>) {
        let model = self.model().clone();
        let name = model.name().split_once('/').map_or(model.name(), |(_, name)| name).to_owned();
        let mut request = request::build(&self.session, self.frame(), &name);
        request.max_output_tokens = self.reply_cap;
        let said = Said::new(partial::Partial::new(step, attempt, Some(self.scratch.join(PARTIAL))), self.bus.clone());
        let said = if self.hooks.is_empty() { said } else { said.seen_by(&self.hooks, self.hook_context()) };
        let said = recorded.into_iter().fold(said, Said::held_until);
        self.jobs.call_model(step, attempt, model.stream(request), said);
    }

    fn start_tool(&mut self, call: &Arc<ToolCall>) {
        let Some(tool) = self.settings.tools.get(&call.name) else { return };
        let context = ToolContext {
            call: call.id.clone(),
            workspace: Path::new(self.session.workspace()).to_path_buf(),
            host: Arc::new(self.stored.clone()),
            calls_dir: self.scratch.join(CALLS),
            executor: Arc::clone(&self.executor),
            output: self.output_sink(&call.id),
            cancel: CancellationToken::new(),
            ledger: self.ledger.clone(),
            files: Arc::clone(&self.files),
            env: self.settings.env.clone(),
            limits: self.settings.tool_limits.clone(),
        };
        let start = if self.session.is_started_here(&call.id) {
            Start::Here
        } else {
            let before = self.session.snapshot().map(str::to_owned);
            let resume = self.session.effects(&call.id).map_or(Resume::Never, |effects| effects.resume);
            Start::Elsewhere { resume, before: self.settings.snapshots.clone().zip(before) }
        };
        let cut = self.session.policy().calls.output_cut;
        let hooks = self.hooks.want(HookPoint::AfterTool).then(|| (self.hooks.clone(), self.hook_context()));
        self.jobs.run_tool(call.clone(), tool, context, cut, start, hooks);
    }

    fn output_sink(&self, call: &CallId) -> OutputSink {
        let (bus, call) = (self.bus.clone(), call.clone());
        OutputSink::new(move |text: &str| bus.live(Live::ToolOutput { call: call.clone(), text: text.to_owned() }))
    }

    /// Makes everything recorded durable, then tells the listeners.
    async fn commit(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        if let Some(log) = &mut self.log {
            log.append(&self.staged).await?;
        }
        self.bus.recorded(self.staged.drain(..), &self.session);
        Ok(())
    }

    /// Closes the journal in good order.
    pub(crate) async fn leave(mut self) {
        self.askers.leave();
        if let Some(title) = self.titling.last().await {
            self.record(title);
        }
        if !self.hooks.is_empty() {
            self.say_goodbye().await;
        }
        if let Some(seq) = self.next_seq().filter(|seq| *seq > 1) {
            let event = Event::WriterClosed {};
            self.staged.push(Arc::new(Record { seq, at_ms: self.world.now_ms(), event }));
        }
        // Best effort: what was committed before is safe in any case.
        if self.commit().await.is_ok()
            && let Some(log) = self.log.take()
        {
            log.close().await;
        }
        self.bus.close(Closed::Left);
    }
}

#[async_trait]
impl Host for Stored {
    async fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, String> {
        Stored::read(self, from, max).await.map_err(|error| error.to_string())
    }
}

/// Of what is on record the log has the kind only.
fn log(record: &Record) {
    tracing::debug!(target: "piton::journal", seq = record.seq, "{}", record.event.kind());
}
