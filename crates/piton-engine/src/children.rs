//! The sessions of subagents that are at work for one session: each is opened, told what to do once, listened to, and left.
//!
//! ```text
//!   call ──► open or make ──► prompt (an id of the call's: it is never heard twice) ──► its turn ends ──► outcome
//!                    │                                   │
//!                    └─ what it wants and does ──────────┴──► whoever hears the caller
//! ```
//!
//! After a crash the same way is gone again: a session that was cut off goes on, one that is over has its report on record, one that
//! was never made is made.

use crate::agents::stricter;
use crate::control::Awaited;
use crate::delegate::{self, Nursery, Opens, Order};
use crate::error::EngineError;
use crate::family::DEPTH;
use crate::handle::{Asking, Handle};
use crate::settings::Settings;
use crate::store::StoreError;
use crate::worktree::{Kept, Worktree};
use async_trait::async_trait;
use piton_core::budget::Used;
use piton_core::call::{Delegated, Outcome, REFUSED, Status};
use piton_core::client::{Live, Prompt, Published, Report, Request, Want, Wanted};
use piton_core::configure::Configure;
use piton_core::ending::Why;
use piton_core::event::{Event, Record, Subject, TurnEnd};
use piton_core::hidden;
use piton_core::ids::{CallId, SessionId};
use piton_core::message::Role;
use piton_core::permission::PermissionMode;
use piton_core::question::QuestionBlock;
use piton_core::turn::State;
use piton_tools::executor::OutputSink;
use piton_tools::host::Subordinates;
use piton_tools::subagent::NAME;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether somebody is there who can answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is looked whether one in the background has begun here.
const BEGINS_WITHIN: Duration = Duration::from_millis(10);

/// Those that are at work in this process, and what was said to all of them: it holds for those that begin later, too.
#[derive(Default)]
struct AtWorkHere {
    /// Each with the mode of its own agent.
    sessions: HashMap<SessionId, (Handle, Option<PermissionMode>)>,
    mode: Option<PermissionMode>,
    is_paused: bool,
}

/// The subagents of one session that are at work here.
pub(crate) struct Children {
    sessions: Arc<dyn Opens>,
    at_work: Mutex<AtWorkHere>,
    /// Those in the background that this process has had at work, by the calls that began them.
    background: Mutex<HashMap<CallId, InBackground>>,
}

/// One in the background.
struct InBackground {
    stop: CancellationToken,
    over: watch::Receiver<Option<Outcome>>,
}

/// One of them, until this is dropped.
struct AtWork<'c> {
    children: &'c Children,
    order: &'c Order,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.children.lock().sessions.remove(&self.order.child);
        self.order.bus.child_wants(&self.order.child, Vec::new());
    }
}

impl Children {
    pub(crate) fn of(sessions: Arc<dyn Opens>) -> Self {
        Self { sessions, at_work: Mutex::default(), background: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, AtWorkHere> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an open session answer. `None`: it was stopped before it had heard anything.
    async fn answer(
        &self,
        handle: &Handle,
        order: &Order,
        stop: &CancellationToken,
        output: &OutputSink,
    ) -> Result<Option<Report>, EngineError> {
        let message = order.message();
        // Told to stop, it hears nothing new.
        if stop.is_cancelled() && !Awaited::after(&handle.records().await?, Some(message.clone())).is_heard() {
            return Ok(None);
        }
        // An `@` in what a model writes refers to nothing.
        let prompt = Prompt {
            beside: Some(order.prompt.clone()),
            message: Some(message.clone()),
            wait: true,
            ..Prompt::default()
        };
        let mut heard = handle.subscribe(handle.opened_at());
        heard.attend(order.bus.is_attended());
        let said = async {
            match handle.say(prompt).await {
                Ok(said) => said.ended().await,
                Err(error) => Err(error),
            }
        };
        tokio::pin!(said);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let (mut is_stopped, mut is_heard) = (false, true);
        let report = loop {
            tokio::select! {
                // In this order: what is said is said before it is stopped.
                biased;
                report = &mut said => break report,
                () = stop.cancelled(), if !is_stopped => {
                    is_stopped = true;
                    // Its turn ends by that; what it comes to is heard above.
                    drop(handle.cancel());
                }
                published = heard.next(), if is_heard => match published {
                    Ok(Some(published)) => tell(&published, order, output),
                    // Nobody hears what it asks any more, so nobody can answer.
                    Ok(None) | Err(_) => {
                        is_heard = false;
                        heard.attend(false);
                    }
                },
                _ = looks.tick(), if is_heard => heard.attend(order.bus.is_attended()),
            }
        };
        match report {
            // It was over before it was asked: it is on record how.
            Err(EngineError::AtRest) => Ok(Awaited::ended(&handle.records().await?, &message)),
            Err(EngineError::NotBegun(report)) => Ok(Some(*report)),
            report => report.map(Some),
        }
    }
}

/// Tells whoever hears the caller what its subagent wants and does.
fn tell(published: &Published, order: &Order, output: &OutputSink) {
    match published {
        Published::Now(now) => order.bus.child_wants(&order.child, marked(now.wanted.clone(), order)),
        Published::Wanted(wanted) => order.bus.wants_more(marked(vec![wanted.clone()], order)),
        Published::Withdrawn(subject) => order.bus.no_longer_wants(&of_child(subject.clone(), order)),
        Published::Recorded(record) => {
            if let Event::CallRequested { plan: Some(plan), .. } = &record.event {
                output.push(&format!("{}\n", plan.title));
            }
        }
        _ => {}
    }
}

fn of_child(subject: Subject, order: &Order) -> Subject {
    Subject::Child { session: order.child.clone(), subject: Box::new(subject) }
}

/// What a subagent wants, with its name on it.
fn marked(wanted: Vec<Wanted>, order: &Order) -> Vec<Wanted> {
    let mark = |Wanted { subject, want }: Wanted| {
        let Want::Approval(mut question) = want else { return Wanted { subject: of_child(subject, order), want } };
        let text = format!("Asked by the subagent {} ({}).", order.agent, order.title);
        question.body.insert(0, QuestionBlock::Note { text });
        Wanted { subject: of_child(subject, order), want: Want::Approval(question) }
    };
    wanted.into_iter().map(mark).collect()
}

#[async_trait]
impl Nursery for Children {
    async fn serve(&self, order: &Order, stop: &CancellationToken, output: &OutputSink) -> Outcome {
        let mut outcome = self.come_to(order, stop, output).await;
        let records = self.sessions.records(&order.child).await;
        outcome.delegated = used(&records, order);
        // One whose journal could not be written goes on in the next process, in its worktree.
        let worktree = self.isolated(order, &records).filter(|_| !State::fold(&records).is_in_turn());
        if let Some(kept) = left_behind(worktree).await {
            outcome.text.push_str(&kept.words());
            if let Some(facts) = outcome.metadata.as_object_mut() {
                let Kept { path, branch, files } = kept;
                facts.insert("worktree".to_owned(), json!({"path": path, "branch": branch, "files": files}));
            }
        }
        let unfinished = unfinished(&outcome).map(|end| format!(" (not finished: {end})")).unwrap_or_default();
        outcome.titled(format!("{NAME} {}: {}{unfinished}", order.agent, order.title))
    }

    async fn attend(&self, task: &CallId, order: &Order, stop: &CancellationToken) -> Outcome {
        let (ended, over) = watch::channel(None);
        let known = InBackground { stop: stop.clone(), over };
        self.background.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), known);
        let mut outcome = self.serve(order, stop, &OutputSink::none()).await;
        if !outcome.metadata.is_object() {
            outcome.metadata = json!({"session": order.child, "agent": order.agent});
        }
        // Whoever waits for it is told here, and everybody else by the event.
        drop(ended.send(Some(Outcome { delegated: None, ..outcome.clone() })));
        outcome
    }

    fn subordinates(self: Arc<Self>) -> Arc<dyn Subordinates> {
        self
    }

    fn ask(&self, child: &SessionId, request: Request) -> Option<Asking> {
        self.lock().sessions.get(child).map(|(handle, _)| handle.ask(request))
    }

    fn ask_towards(&self, session: &SessionId, request: Request) -> Vec<Asking> {
        let at_work = self.lock();
        let through = Request::Subagent { session: session.clone(), request: Box::new(request) };
        if let Some((handle, _)) = at_work.sessions.get(session) {
            return vec![handle.ask(through)];
        }
        at_work.sessions.values().map(|(handle, _)| handle.ask(through.clone())).collect()
    }

    fn ask_all(&self, request: &Request) {
        let mut here = self.lock();
        match request {
            Request::Configure(Configure { mode: Some(mode), .. }) => here.mode = Some(*mode),
            Request::Pause {} => here.is_paused = true,
            Request::Continue {} => here.is_paused = false,
            _ => {}
        }
        for (handle, own) in here.sessions.values() {
            drop(handle.ask(narrowed(request, *own)));
        }
    }

    async fn used(&self, children: Vec<SessionId>) -> Vec<(SessionId, Used)> {
        let (mut open, mut all) = (children, Vec::new());
        while let Some(child) = open.pop() {
            let records = self.sessions.records(&child).await;
            if !records.is_empty() {
                let state = State::fold(&records);
                open.extend(state.children().cloned());
                all.push((child, state.used()));
            }
        }
        all
    }
}

#[async_trait]
impl Subordinates for Children {
    async fn so_far(&self, session: &SessionId) -> String {
        so_far(session, &State::fold(&self.sessions.records(session).await))
    }

    async fn over(&self, task: &CallId) -> Outcome {
        let mut over = self.known(task, |known| known.over.clone()).await;
        loop {
            if let Some(outcome) = over.borrow_and_update().clone() {
                return outcome;
            }
            if over.changed().await.is_err() {
                return Outcome::new(Status::Interrupted, "[interrupted] Piton lost sight of this subagent.");
            }
        }
    }

    async fn stop(&self, task: &CallId) {
        self.known(task, |known| known.stop.cancel()).await;
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").finish_non_exhaustive()
    }
}

/// How far a subagent is, for the model that has left it at work.
fn so_far(session: &SessionId, state: &State) -> String {
    let said = state.transcript().filter(|message| message.role == Role::Assistant).map(|message| message.prose());
    let said = said.filter(|words| !words.trim().is_empty()).last();
    let spent = state.spent();
    let (steps, calls) = (plural(spent.steps, "step"), plural(spent.calls, "call"));
    let said = said.map_or_else(|| "It has said nothing yet.".to_owned(), |words| format!("It said last:\n{words}"));
    let (said, _) = hidden::strip(&said);
    format!("[{session} is at work: {steps} and {calls} done, {} tokens used]\n{said}", spent.usage.total())
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl Children {
    /// Its worktree, where it works in one, or shall.
    fn isolated(&self, order: &Order, records: &[Record]) -> Option<Worktree> {
        let worktree = self.sessions.worktree(order);
        let is_isolated = match records.first().map(|record| &record.event) {
            Some(Event::SessionStarted { workspace, .. }) => worktree.holds(Path::new(workspace)),
            _ => order.worktree && !order.goes_on,
        };
        is_isolated.then_some(worktree)
    }

    /// Something of one in the background, once it is at work here: after a restart that takes a moment.
    async fn known<T>(&self, task: &CallId, of: impl Fn(&InBackground) -> T) -> T {
        loop {
            let found = self.background.lock().unwrap_or_else(PoisonError::into_inner).get(task).map(&of);
            match found {
                Some(found) => return found,
                None => tokio::time::sleep(BEGINS_WITHIN).await,
            }
        }
    }

    /// It is at work here. What all were told while it waited for its place, it is told first.
    fn enters(&self, order: &Order, handle: &Handle, own: Option<PermissionMode>) {
        let mut here = self.lock();
        if let Some(mode) = here.mode.filter(|mode| *mode != order.caller.mode) {
            let changed = Configure { mode: Some(mode), ..Configure::default() };
            drop(handle.ask(narrowed(&Request::Configure(changed), own)));
        }
        if here.is_paused {
            drop(handle.ask(Request::Pause {}));
        }
        here.sessions.insert(order.child.clone(), (handle.clone(), own));
        order.bus.live(Live::ChildOpened {
            session: order.child.clone(),
            call: order.parent.call.clone().unwrap_or_else(|| CallId::from("")),
            agent: order.agent.clone(),
            title: order.title.clone(),
        });
    }

    async fn come_to(&self, order: &Order, stop: &CancellationToken, output: &OutputSink) -> Outcome {
        let _begun = order.kin.begin_work(stop).await;
        // What is over is over, by whichever settings.
        let records = self.sessions.records(&order.child).await;
        if let Some(report) = Awaited::ended(&records, &order.message()) {
            return match self.sessions.make_durable(order).await {
                Ok(()) => outcome(&report, order),
                Err(error) => cannot_be_opened(order, &error.into()),
            };
        }
        let isolated = self.isolated(order, &records);
        let is_at_work = isolated.is_some() && State::fold(&records).is_in_turn();
        let made = async { Ok((settings(order).await?, workspace(isolated.clone(), is_at_work, stop).await?)) };
        let (mut settings, note, place, refused) = match made.await {
            Ok(((settings, note), place)) => (settings, note, place, None),
            // Whatever is under way in there is ended by its caller's.
            Err(why) => (order.caller.settings.clone(), None, None, Some(why)),
        };
        if let Some(note) = &note {
            output.push(&format!("{note}\n"));
        }
        if let Some(place) = &place {
            isolate(&mut settings, order, place);
        }
        let stop = if refused.is_some() { &stopped() } else { stop };
        // Told to stop, it is only opened where there is something to stop.
        let place = place.unwrap_or_else(|| order.workspace.clone());
        let handle = match self.sessions.open(order, &place, settings, !stop.is_cancelled()).await {
            Ok(handle) => handle,
            Err(EngineError::Journal(StoreError::NotFound { .. })) if !order.goes_on => {
                return not_begun(order, refused);
            }
            Err(error) => return cannot_be_opened(order, &error),
        };
        let own = order.run_by.as_ref().and_then(|agent| agent.mode);
        self.enters(order, &handle, own);
        let at_work = AtWork { children: self, order };
        let report = self.answer(&handle, order, stop, output).await;
        drop(at_work);
        handle.close().await;
        let mut outcome = match report {
            Ok(Some(report)) => outcome(&report, order),
            Ok(None) => not_begun(order, refused.clone()),
            Err(error) => Outcome::failed(format!(
                "The subagent cannot go on: {error}. What it did is kept in its session.{}",
                task_id(order)
            )),
        };
        if let Some(note) = note {
            outcome.text.push_str(&format!("\n[{note}]"));
        }
        if let Some(why) = refused {
            outcome.status = Status::Failed;
            outcome.text.push_str(&format!("\n[it was stopped: {why}]"));
        }
        outcome
    }
}

/// A request to all, as one hears it whose own agent has this mode.
fn narrowed(request: &Request, own: Option<PermissionMode>) -> Request {
    let mut request = request.clone();
    if let Request::Configure(Configure { mode: Some(mode), .. }) = &mut request {
        *mode = own.map_or(*mode, |own| stricter(own, *mode));
    }
    request
}

/// The folder of its worktree, made where it is not there yet, unless it has begun to work there. One that is told to stop makes none.
async fn workspace(
    worktree: Option<Worktree>,
    is_at_work: bool,
    stop: &CancellationToken,
) -> Result<Option<PathBuf>, String> {
    let Some(worktree) = worktree.filter(|_| !stop.is_cancelled()) else { return Ok(None) };
    let open = move || if is_at_work { worktree.open_again() } else { worktree.open() };
    let made = tokio::task::spawn_blocking(move || open().map(Some)).await;
    made.unwrap_or_else(|error| Err(error.to_string()))
}

/// What of its worktree is kept when it is over.
async fn left_behind(worktree: Option<Worktree>) -> Option<Kept> {
    let worktree = worktree?;
    tokio::task::spawn_blocking(move || worktree.close()).await.ok().flatten()
}

/// It works in this folder instead of its caller's, of which the snapshots are.
fn isolate(settings: &mut Settings, order: &Order, place: &Path) {
    settings.snapshots = None;
    let (theirs, own) = (order.workspace.to_string_lossy(), place.to_string_lossy());
    settings.environment_note = settings.environment_note.take().map(|note| {
        let note = note.replace(&*theirs, &own);
        format!("{note}\nThis is a git worktree of your own, on a branch of its own. Leave the repository in {theirs} alone.")
    });
}

/// How its session is run. The model may have to be looked for, with its key.
async fn settings(order: &Order) -> Result<(Settings, Option<String>), String> {
    let Some(agent) = order.run_by.clone() else { return Err(format!("there is no agent {} here", order.agent)) };
    let (caller, model, may_call) = (order.caller.clone(), order.model.clone(), order.kin.depth < DEPTH);
    let made = tokio::task::spawn_blocking(move || delegate::settings(&agent, caller, model.as_deref(), may_call));
    made.await.map_err(|error| error.to_string())
}

fn stopped() -> CancellationToken {
    let stop = CancellationToken::new();
    stop.cancel();
    stop
}

fn cannot_be_opened(order: &Order, error: &EngineError) -> Outcome {
    Outcome::failed(format!("The subagent's session {} cannot be opened: {error}.", order.child))
}

fn not_begun(order: &Order, refused: Option<String>) -> Outcome {
    match refused {
        Some(why) => Outcome::failed(format!("The subagent {} was not started: {why}.", order.agent)),
        None => Outcome::new(Status::Cancelled, "Cancelled before the subagent began."),
    }
}

/// What it used for this call, where it began to answer it.
fn used(records: &[Record], order: &Order) -> Option<Box<Delegated>> {
    let state = State::fold(records);
    if !state.has_answered(&order.message()) && !state.is_in_turn() {
        return None;
    }
    let spent = state.spent();
    Some(Box::new(Delegated {
        session: order.child.clone(),
        usage: spent.usage,
        cost_micros: spent.cost_micros,
        unpriced_calls: spent.unpriced_calls,
        steps: state.used().steps,
        at_most: state.used().turn,
    }))
}

/// Its last words, and how it ended where that is not how it should.
fn outcome(report: &Report, order: &Order) -> Outcome {
    // Its caller's model reads it, and so do people.
    let (words, _) = hidden::strip(if report.result.is_empty() { &report.text } else { &report.result });
    let words = if words.trim().is_empty() { "[it said nothing]" } else { words.trim_end() };
    let status = match report.end {
        TurnEnd::Completed => Status::Ok,
        TurnEnd::Canceled => Status::Cancelled,
        TurnEnd::Budget if report.why == Some(Why::Time) => Status::TimedOut,
        _ => Status::Failed,
    };
    let mut text = words.to_owned();
    if report.end != TurnEnd::Completed {
        let detail = report.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        let end = words_of(&json!(report.end));
        text.push_str(&format!("\n\n[the subagent did not finish: {end}{detail}]"));
    }
    text.push_str(&task_id(order));
    let mut metadata = json!({"session": order.child, "agent": order.agent, "end": report.end});
    if report.end == TurnEnd::ToolDenied {
        metadata[REFUSED] = json!(report.detail);
    }
    Outcome::new(status, text).with(metadata)
}

/// How a subagent's turn ended that answered this, where it was not completed.
fn unfinished(outcome: &Outcome) -> Option<String> {
    let end = outcome.metadata.get("end")?;
    (*end != json!(TurnEnd::Completed)).then(|| words_of(end))
}

fn words_of(end: &Value) -> String {
    end.as_str().unwrap_or_default().replace('_', " ")
}

fn task_id(order: &Order) -> String {
    format!("\n\n[task_id: {}]", order.child)
}
