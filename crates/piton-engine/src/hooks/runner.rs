//! Runs hooks: one after the other, each within its time and on a task of its own, so that none can take the session
//! with it. This module knows no driver and no journal; what it did comes back as a [`Gated`].

use super::{
    CallChange, CompactionChange, Hook, HookContext, HookResult, HookVerdict, ModelAnswer, ModelCall, ModelChange,
    OutcomeChange, Points, PromptChange, SessionStart, StepDone, Stop, StopChange, TurnDone, Words,
};
use piton_core::call::{CallInput, Outcome};
use piton_core::event::{Event, Subject, Trigger};
use piton_core::hook::{Demand, Gates, HookEnd, HookPoint, HookRun};
use piton_core::ids::CallId;
use piton_core::message::{Message, ToolCall};
use piton_core::question::Decision;
use piton_core::turn::Gate;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::Instrument;

/// Points at which hooks may change what comes next in a turn.
const GATES: [HookPoint; 7] = [
    HookPoint::SessionStart,
    HookPoint::BeforeModel,
    HookPoint::BeforeTool,
    HookPoint::Approval,
    HookPoint::AfterTool,
    HookPoint::BeforeCompaction,
    HookPoint::Stop,
];

/// Failures in a row after which a hook is not run again.
const MOST_FAILURES: u32 = 3;

/// The hooks of one session, as one process runs them.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    entries: Arc<[Arc<Entry>]>,
    points: Points,
    watched: Arc<Mutex<Watched>>,
}

struct Entry {
    hook: Arc<dyn Hook>,
    /// It is there for the turn that another process began, and no longer.
    is_inherited: bool,
    is_suspended: AtomicBool,
    failures: AtomicU32,
}

/// What hooks did that nobody waits for, until it is on record.
#[derive(Default)]
struct Watched {
    runs: Vec<HookRun>,
    stopped: Option<String>,
}

/// What of it goes on record.
pub(crate) struct Suspicions {
    pub(crate) runs: Vec<HookRun>,
    pub(crate) stopped: Option<String>,
}

/// Whether a call that has its outcome was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It was, or was begun.
    Begun,
    /// No tool ever saw it: it was refused, or asked for wrongly.
    Never,
}

/// What hooks did at one point.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    pub(crate) point: HookPoint,
    pub(crate) call: Option<CallId>,
    pub(crate) runs: Vec<HookRun>,
    pub(crate) notes: Vec<String>,
    pub(crate) stopped: Option<String>,
    pub(crate) sent_back: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) verdict: Option<HookVerdict>,
}

impl Gated {
    pub(crate) fn new(point: HookPoint) -> Self {
        let (runs, notes) = (Vec::new(), Vec::new());
        Self { point, call: None, runs, notes, stopped: None, sent_back: None, input: None, verdict: None }
    }

    /// No hook was concerned.
    pub(crate) fn nothing_at(gate: &Gate) -> Self {
        Self { call: gate.call().cloned(), ..Self::new(gate.point()) }
    }

    /// The event of it.
    pub(crate) fn event(self, step: u32) -> Event {
        let Self { point, call, runs, notes, stopped, sent_back, input, verdict } = self;
        Event::HooksRan {
            step,
            point,
            call,
            runs,
            notes,
            system: None,
            tools: None,
            input,
            verdict,
            sent_back,
            stopped,
        }
    }

    fn did(&mut self, what: &str) {
        if let Some(run) = self.runs.last_mut() {
            run.did.push(what.to_owned());
        }
    }

    fn take(&mut self, words: Words) {
        let Words { notes, remark, stop } = words;
        if !notes.is_empty() {
            self.did("told the model something");
        }
        if stop.is_some() {
            self.did("stopped the turn");
        }
        if let (Some(run), Some(remark)) = (self.runs.last_mut(), remark) {
            run.detail = Some(remark);
        }
        self.notes.extend(notes);
        self.stopped = self.stopped.take().or(stop);
    }
}

/// A task that ends when nobody waits for it any more.
struct OwnTask<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for OwnTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Hooks {
    pub(crate) fn new(hooks: &[Arc<dyn Hook>]) -> Self {
        Self::of(hooks.iter().map(|hook| Entry::new(hook, false)).collect(), Arc::default())
    }

    fn of(entries: Arc<[Arc<Entry>]>, watched: Arc<Mutex<Watched>>) -> Self {
        let points = entries.iter().fold(Points::NONE, |points, entry| points.and(entry.hook.points()));
        Self { entries, points, watched }
    }

    /// Goes by these from here on. What is known of one that stays is kept.
    pub(crate) fn renew(&mut self, hooks: &[Arc<dyn Hook>]) {
        let known = |hook: &Arc<dyn Hook>| self.entries.iter().find(|entry| Arc::ptr_eq(&entry.hook, hook)).cloned();
        let own = hooks.iter().map(|hook| known(hook).unwrap_or_else(|| Entry::new(hook, false)));
        let inherited = self.entries.iter().filter(|entry| entry.is_inherited).cloned();
        *self = Self::of(own.chain(inherited).collect(), Arc::clone(&self.watched));
    }

    /// With these besides, for the turn that another process began. Where one of our own has the name, that one counts.
    pub(crate) fn inherit(&mut self, hooks: &[Arc<dyn Hook>]) {
        let is_new = |hook: &&Arc<dyn Hook>| self.entries.iter().all(|own| own.hook.name() != hook.name());
        let more: Vec<Arc<Entry>> = hooks.iter().filter(is_new).map(|hook| Entry::new(hook, true)).collect();
        *self = Self::of(self.entries.iter().cloned().chain(more).collect(), Arc::clone(&self.watched));
    }

    /// That turn is over.
    pub(crate) fn disinherit(&mut self) {
        if self.entries.iter().any(|entry| entry.is_inherited) {
            let own = self.entries.iter().filter(|entry| !entry.is_inherited).cloned().collect();
            *self = Self::of(own, Arc::clone(&self.watched));
        }
    }

    /// The points at which a turn waits for them.
    pub(crate) fn gates(&self) -> Gates {
        Gates::of(GATES.into_iter().filter(|point| self.want(*point)))
    }

    /// What is recorded of them with a turn.
    pub(crate) fn demands(&self) -> Vec<Demand> {
        self.entries.iter().filter_map(|entry| entry.hook.demand()).collect()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether any hook is to be asked at this point.
    pub(crate) fn want(&self, point: HookPoint) -> bool {
        self.points.contains(point) && self.entries.iter().any(|entry| entry.is_for(point))
    }

    fn at(&self, point: HookPoint) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|entry| &**entry).filter(move |entry| entry.is_for(point))
    }

    fn about(&self, point: HookPoint, tool: &str) -> impl Iterator<Item = &Entry> {
        let tool = tool.to_owned();
        self.at(point).filter(move |entry| entry.hook.concerns(&tool))
    }

    pub(crate) async fn session_start(&self, cx: &Arc<HookContext>, start: SessionStart) -> Gated {
        let mut gated = Gated::new(HookPoint::SessionStart);
        for entry in self.at(gated.point) {
            let cx = Arc::clone(cx);
            let asked = move |hook: Arc<dyn Hook>| async move { hook.on_session_start(&cx, start).await };
            if let Some(words) = entry.ask(&mut gated, asked).await {
                gated.take(words);
            }
        }
        gated
    }

    /// The second value: who refuses the prompt, and why.
    pub(crate) async fn prompt(&self, cx: &Arc<HookContext>, text: &str) -> (Gated, Option<(String, String)>) {
        let mut gated = Gated::new(HookPoint::Prompt);
        for entry in self.at(gated.point) {
            let (cx, text) = (Arc::clone(cx), text.to_owned());
            let asked = move |hook: Arc<dyn Hook>| async move { hook.on_prompt(&cx, &text).await };
            let Some(PromptChange { refuse, words }) = entry.ask(&mut gated, asked).await else { continue };
            let refuse = refuse.or(words.stop.clone());
            gated.take(Words { stop: None, ..words });
            if let Some(reason) = refuse {
                gated.did("refused the prompt");
                return (gated, Some((entry.hook.name().to_owned(), reason)));
            }
        }
        let required = gated.stopped.take().map(|reason| (String::new(), reason));
        (gated, required)
    }

    /// The call as the hooks leave it.
    pub(crate) async fn before_model(&self, cx: &Arc<HookContext>, mut call: ModelCall) -> (Gated, ModelCall) {
        let mut gated = Gated::new(HookPoint::BeforeModel);
        for entry in self.at(gated.point) {
            let (cx, seen) = (Arc::clone(cx), call.clone());
            let asked = move |hook: Arc<dyn Hook>| async move { hook.before_model_call(&cx, &seen).await };
            let Some(ModelChange { system, tools, words }) = entry.ask(&mut gated, asked).await else { continue };
            gated.take(words);
            if let Some(system) = system.filter(|system| **system != *call.system) {
                gated.did("changed the system prompt");
                call.system = system.into();
            }
            if let Some(mut tools) = tools.filter(|tools| **tools != *call.tools) {
                gated.did("changed the tools");
                tools.sort_by(|one, other| one.name.cmp(&other.name));
                call.tools = tools.into();
            }
        }
        (gated, call)
    }

    /// With the input as the hooks leave it, if they changed it, and the strictest verdict of theirs.
    pub(crate) async fn before_tool(&self, cx: &Arc<HookContext>, call: &ToolCall) -> Gated {
        let mut gated = Gated::new(HookPoint::BeforeTool);
        gated.call = Some(call.id.clone());
        let mut call = call.clone();
        for entry in self.about(gated.point, &call.name) {
            let (cx, seen) = (Arc::clone(cx), call.clone());
            let asked = move |hook: Arc<dyn Hook>| async move { hook.before_tool_call(&cx, &seen).await };
            let Some(CallChange { input, verdict: said, words }) = entry.ask(&mut gated, asked).await else { continue };
            gated.take(words);
            match input.map(CallInput::from_value) {
                Some(input @ CallInput::Json(_)) if input != call.input => {
                    gated.did("changed the input");
                    if let CallInput::Json(value) = &input {
                        gated.input = Some(value.clone());
                    }
                    call.input = input;
                }
                Some(CallInput::Invalid { .. }) => gated.did("gave an input that is no JSON object, which was ignored"),
                Some(CallInput::Json(_)) | None => {}
            }
            match &said {
                Some(HookVerdict::Allow) => gated.did("allowed the call"),
                Some(HookVerdict::Ask(reason)) => {
                    gated.did("wants a person to be asked");
                    if let Some(run) = gated.runs.last_mut().filter(|_| !reason.is_empty()) {
                        run.detail.get_or_insert_with(|| reason.clone());
                    }
                }
                Some(HookVerdict::Refuse(_)) => gated.did("refused the call"),
                None => {}
            }
            gated.verdict = gated.verdict.take().max(said);
            if matches!(gated.verdict, Some(HookVerdict::Refuse(_))) {
                break;
            }
        }
        gated
    }

    pub(crate) async fn approval(
        &self,
        cx: &Arc<HookContext>,
        subject: &Subject,
        call: &ToolCall,
    ) -> (Gated, Option<Decision>) {
        let mut gated = Gated::new(HookPoint::Approval);
        gated.call = Some(call.id.clone());
        for entry in self.about(gated.point, &call.name) {
            let (cx, subject, call) = (Arc::clone(cx), subject.clone(), call.clone());
            let asked = move |hook: Arc<dyn Hook>| async move { hook.on_approval(&cx, &subject, &call).await };
            if let Some(Some(decision)) = entry.ask(&mut gated, asked).await {
                gated.did("answered the question");
                return (gated, Some(decision));
            }
        }
        (gated, None)
    }

    /// The outcome as the hooks leave it.
    pub(crate) async fn after_tool(
        &self,
        cx: &Arc<HookContext>,
        call: &ToolCall,
        mut outcome: Outcome,
        ran: Ran,
    ) -> (Gated, Outcome) {
        let mut gated = Gated::new(HookPoint::AfterTool);
        gated.call = Some(call.id.clone());
        for entry in self.about(gated.point, &call.name) {
            if ran == Ran::Never && !entry.hook.sees_unrun_calls() {
                continue;
            }
            let (cx, call, seen) = (Arc::clone(cx), call.clone(), outcome.clone());
            let asked = move |hook: Arc<dyn Hook>| async move { hook.after_tool_call(&cx, &call, &seen).await };
            let Some(OutcomeChange { outcome: changed, words }) = entry.ask(&mut gated, asked).await else { continue };
            gated.take(words);
            if let Some(changed) = changed.filter(|changed| *changed != outcome) {
                gated.did("changed the outcome");
                outcome = changed;
            }
        }
        (gated, outcome)
    }

    /// Whether the turn may end. `rounds` tells how often a hook has sent the model back already.
    pub(crate) async fn stop(&self, cx: &Arc<HookContext>, text: &str, rounds: impl Fn(&str) -> usize) -> Gated {
        let mut gated = Gated::new(HookPoint::Stop);
        for entry in self.at(gated.point) {
            let rounds = rounds(entry.hook.name());
            let (cx, stop) = (Arc::clone(cx), Stop { text: text.to_owned(), rounds });
            let asked = move |hook: Arc<dyn Hook>| async move { hook.on_stop(&cx, &stop).await };
            let Some(StopChange { send_back, evidence, words }) = entry.ask(&mut gated, asked).await else { continue };
            let remark = words.remark.clone();
            gated.take(words);
            if let Some(run) = gated.runs.last_mut() {
                run.evidence = evidence;
            }
            let Some(reason) = send_back.filter(|_| gated.stopped.is_none()) else { continue };
            if rounds >= entry.hook.stop_rounds() {
                gated.did("gave up");
                gated.stopped = Some(gave_up(&*entry.hook, remark, &reason, rounds));
                return gated;
            }
            gated.did("sent the model back to work");
            gated.notes.push(reason);
            gated.sent_back = Some(entry.hook.name().to_owned());
            return gated;
        }
        gated
    }

    /// The second value: why there shall be none.
    pub(crate) async fn before_compaction(&self, cx: &Arc<HookContext>, trigger: Trigger) -> (Gated, Option<String>) {
        let mut gated = Gated::new(HookPoint::BeforeCompaction);
        for entry in self.at(gated.point) {
            let cx = Arc::clone(cx);
            let asked = move |hook: Arc<dyn Hook>| async move { hook.before_compaction(&cx, trigger).await };
            let Some(CompactionChange { refuse, words }) = entry.ask(&mut gated, asked).await else { continue };
            gated.take(words);
            if let Some(reason) = refuse {
                gated.did("refused the compaction");
                return (gated, Some(format!("the hook {} refused the compaction: {reason}", entry.hook.name())));
            }
        }
        (gated, None)
    }
}

/// Something to watch.
#[derive(Debug, Clone)]
pub(crate) enum WatchedEvent {
    Chunk { request: Arc<str>, chunk: String },
    Text(String),
    Reasoning(String),
    Answer(Box<ModelAnswer>),
    Message(Arc<Message>),
    ToolUse(Box<ToolCall>),
    Step(StepDone),
    Turn(Box<TurnDone>),
    Compacted { trigger: Trigger, summary: String },
    SessionEnd,
}

impl WatchedEvent {
    pub(crate) fn point(&self) -> HookPoint {
        match self {
            Self::Chunk { .. } => HookPoint::Chunk,
            Self::Text(_) => HookPoint::TextDelta,
            Self::Reasoning(_) => HookPoint::Reasoning,
            Self::Answer(_) => HookPoint::AfterModel,
            Self::Message(_) => HookPoint::Message,
            Self::ToolUse(_) => HookPoint::ToolUse,
            Self::Step(_) => HookPoint::Step,
            Self::Turn(_) => HookPoint::Turn,
            Self::Compacted { .. } => HookPoint::Compacted,
            Self::SessionEnd => HookPoint::SessionEnd,
        }
    }

    async fn show(self, hook: Arc<dyn Hook>, cx: Arc<HookContext>) -> HookResult {
        match self {
            Self::Chunk { request, chunk } => hook.on_chunk(&cx, &request, &chunk).await,
            Self::Text(text) => hook.on_text_delta(&cx, &text).await,
            Self::Reasoning(text) => hook.on_reasoning(&cx, &text).await,
            Self::Answer(answer) => hook.after_model_call(&cx, &answer).await,
            Self::Message(message) => hook.on_message(&cx, &message).await,
            Self::ToolUse(call) => hook.on_tool_use(&cx, &call).await,
            Self::Step(step) => hook.on_step(&cx, &step).await,
            Self::Turn(turn) => hook.on_turn(&cx, &turn).await,
            Self::Compacted { trigger, summary } => hook.on_compacted(&cx, trigger, &summary).await,
            Self::SessionEnd => hook.on_session_end(&cx).await,
        }
    }
}

impl Hooks {
    /// Shows something to every hook that wants to see it, in order.
    pub(crate) async fn see(&self, cx: &Arc<HookContext>, watched: WatchedEvent) {
        let mut gated = Gated::new(watched.point());
        for entry in self.at(gated.point) {
            let (cx, watched) = (Arc::clone(cx), watched.clone());
            entry.ask(&mut gated, move |hook| watched.show(hook, cx)).await;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for mut run in gated.runs {
            run.point = Some(gated.point);
            let same = |other: &&mut HookRun| (&other.hook, other.point, other.end) == (&run.hook, run.point, run.end);
            match watched.runs.iter_mut().find(same).filter(|_| run.end == HookEnd::Ok) {
                Some(other) => {
                    other.times += 1;
                    other.duration_ms += run.duration_ms;
                }
                None => watched.runs.push(run),
            }
        }
        watched.stopped = watched.stopped.take().or(gated.stopped);
    }

    /// What went wrong with hooks that watch, since this was asked last.
    pub(crate) fn suspicions(&self) -> Option<Suspicions> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.runs.iter().all(|run| run.end == HookEnd::Ok) {
            return None;
        }
        let (runs, rest) = std::mem::take(&mut watched.runs).into_iter().partition(|run| run.end != HookEnd::Ok);
        watched.runs = rest;
        Some(Suspicions { runs, stopped: watched.stopped.take() })
    }

    /// What hooks that watch have run since this was asked last, with what one of them stops the turn for.
    pub(crate) fn watched(&self) -> Suspicions {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Watched { runs, stopped } = std::mem::take(&mut *watched);
        Suspicions { runs, stopped }
    }
}

impl Entry {
    fn new(hook: &Arc<dyn Hook>, is_inherited: bool) -> Arc<Self> {
        let (is_suspended, failures) = (AtomicBool::new(false), AtomicU32::new(0));
        Arc::new(Self { hook: Arc::clone(hook), is_inherited, is_suspended, failures })
    }

    fn is_for(&self, point: HookPoint) -> bool {
        self.hook.points().contains(point) && !self.is_suspended.load(Ordering::Relaxed)
    }

    /// Asks the hook within its time, and notes how that went. `None`: it is as if it had not run.
    async fn ask<T, F>(&self, gated: &mut Gated, asked: impl FnOnce(Arc<dyn Hook>) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = HookResult<T>> + Send + 'static,
    {
        if gated.stopped.is_some() {
            return None;
        }
        let (began, limit) = (Instant::now(), self.hook.timeout());
        let span = tracing::info_span!(target: "piton", "hook", name = self.hook.name(), point = ?gated.point);
        let mut task = OwnTask(tokio::spawn(asked(Arc::clone(&self.hook)).instrument(span)));
        let answer = tokio::time::timeout(limit, &mut task.0).await;
        let mut run = HookRun::new(self.hook.name(), milliseconds(began.elapsed()));
        let (end, why) = match answer {
            Ok(Ok(Ok(change))) => {
                self.failures.store(0, Ordering::Relaxed);
                gated.runs.push(run);
                return Some(change);
            }
            Ok(Ok(Err(error))) => (HookEnd::Failed, error.0),
            Ok(Err(panic)) if panic.is_panic() => (HookEnd::Panicked, "it panicked".to_owned()),
            Ok(Err(_)) => (HookEnd::Failed, "it was aborted".to_owned()),
            Err(_) => (HookEnd::TimedOut, format!("it took longer than {} s", limit.as_secs_f64())),
        };
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let gives_up = end == HookEnd::TimedOut || failures >= MOST_FAILURES;
        let mut detail = why;
        if self.hook.required() {
            gated.stopped = Some(format!("the required hook {} could not run: {detail}", self.hook.name()));
        } else if gives_up && !self.is_suspended.swap(true, Ordering::Relaxed) {
            detail.push_str("; it is not run again in this session, until the session is opened anew");
        }
        (run.end, run.detail) = (end, Some(detail));
        gated.runs.push(run);
        None
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Why the model was not sent back once more.
fn gave_up(hook: &dyn Hook, remark: Option<String>, reason: &str, rounds: usize) -> String {
    let times = if rounds == 1 { "once".to_owned() } else { format!("{rounds} times") };
    let said = match (hook.demand(), remark) {
        (Some(Demand::Check { .. }), Some(remark)) => format!("{} {remark}", hook.name()),
        _ => format!("{}: {}", hook.name(), reason.lines().next().unwrap_or_default().trim_end_matches('.')),
    };
    format!("{said} (the model was sent back {times})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Check;

    fn check(command: &str, rounds: usize) -> Arc<dyn Hook> {
        Arc::new(Check::new(command, Arc::default()).within(None, Some(rounds)))
    }

    #[test]
    fn what_a_turn_brings_along_is_there_once_and_until_it_is_over() {
        let demanded = |hooks: &Hooks| {
            let demand = |demand| match demand {
                Demand::Check { command, rounds, .. } => format!("{command} {rounds}"),
                Demand::Answer { schema } => schema.to_string(),
            };
            hooks.demands().into_iter().map(demand).collect::<Vec<_>>()
        };
        let mut hooks = Hooks::new(&[check("own", 1)]);
        hooks.inherit(&[check("own", 5), check("theirs", 2)]);
        assert_eq!(demanded(&hooks), ["own 1", "theirs 2"]);
        hooks.disinherit();
        assert_eq!(demanded(&hooks), ["own 1"]);
    }
}
