//! Asking the model: its stream is heard out, shown as it comes, and kept aside so that a crash loses little of it.
//!
//! After a restart the call is on record as failed (`interrupted`), with what was kept of the answer, and made again. A cancel
//! cuts it: what had streamed is recorded ([`piton_core::event::Event::MessageCut`]). A panic counts as an answer that
//! cannot be read.

use super::{JobContext, Step, Task};
use crate::bus::Bus;
use crate::family::Kin;
use crate::firewall::clean_frame;
use crate::hooks::{HookContext, Hooks, WatchedEvent};
use crate::partial::{self, Partial};
use crate::prompt::Permit;
use futures_util::StreamExt;
use piton_core::budget::Short;
use piton_core::client::Live;
use piton_core::event::Event;
use piton_core::hook::HookPoint;
use piton_core::limits::{STREAM_SILENT_MS, STREAMED_BYTES};
use piton_core::message::Part;
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply};
use piton_core::request;
use piton_core::secrets::{Depth, Firewall, TextStream};
use piton_core::subtask;
use piton_models::model::ModelStream;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

const SILENCE: Duration = Duration::from_millis(STREAM_SILENT_MS);
/// In the session's scratch folder: the reply in the making.
const PARTIAL: &str = "partial";

/// What a model says, and who hears it.
struct Said {
    partial: Arc<Mutex<Partial>>,
    bus: Bus,
    hooks: Option<(Hooks, Arc<HookContext>)>,
    /// Cancelled once it is durable that the model is asked: nobody hears a word before.
    recorded: CancellationToken,
    streams: DeltaStreams,
}

/// Takes secrets out of a reply in the making. The model sees none, but what it guesses or is told elsewhere may be one.
struct DeltaStreams {
    firewall: Firewall,
    text: TextStream,
    reasoning: TextStream,
    /// Of each call's arguments.
    inputs: BTreeMap<usize, TextStream>,
}

impl DeltaStreams {
    fn new(firewall: Firewall) -> Self {
        let stream = || firewall.stream(Depth::Known);
        Self { text: stream(), reasoning: stream(), inputs: BTreeMap::new(), firewall }
    }

    /// The same without secrets; `None` while all of it is held back.
    fn push(&mut self, delta: Delta) -> Option<Delta> {
        let cleaned = match delta {
            Delta::Text { text } => Delta::Text { text: self.text.push(&text) },
            Delta::Reasoning { text } => Delta::Reasoning { text: self.reasoning.push(&text) },
            Delta::CallInput { index, json } => {
                let stream = self.inputs.entry(index).or_insert_with(|| self.firewall.stream(Depth::Known));
                Delta::CallInput { index, json: stream.push(&json) }
            }
            began @ Delta::CallBegan { .. } => return Some(began),
        };
        (cleaned.bytes() > 0).then_some(cleaned)
    }

    /// What was held back at the end.
    fn finish(&mut self) -> impl Iterator<Item = Delta> {
        let text = Delta::Text { text: self.text.finish() };
        let reasoning = Delta::Reasoning { text: self.reasoning.finish() };
        let inputs =
            self.inputs.iter_mut().map(|(index, stream)| Delta::CallInput { index: *index, json: stream.finish() });
        [reasoning, text].into_iter().chain(inputs.collect::<Vec<_>>()).filter(|delta| delta.bytes() > 0)
    }
}

/// What came of asking.
enum Answer {
    Replied { reply: Box<Reply>, first_ms: Option<u64> },
    Failed { error: ModelError, abandoned: Vec<Part> },
}

/// Asks the model, where the budget covers that. Where the user has subagents work first, the step makes their calls instead.
pub(super) fn take_up(step: u32, attempt: u32, cx: &mut JobContext<'_>) -> Step {
    if let subtasks @ [_, ..] = cx.session.subtasks() {
        let world = &cx.services.world;
        let replied = cx.session.replied(attempt, subtask::reply(subtasks), None, world.now_ms(), world.roll());
        return Step::Record(vec![replied]);
    }
    let kin = cx.services.tree.kin.clone();
    let most = match estimate(cx, &kin) {
        Permit::Granted(most) => most,
        Permit::Short(Short { why, detail }) => {
            return Step::Record(vec![Event::BudgetShort { step, why: Some(why), detail }]);
        }
    };
    let model = cx.model();
    let name = model.name().split_once('/').map_or(model.name(), |(_, name)| name);
    let mut request = request::build(cx.session, cx.frame(), name);
    request.max_output_tokens = most;
    request::without_pictures(&mut request, model.limits().images);
    clean_frame(&mut request, &cx.services.firewall);
    let partial = Arc::new(Mutex::new(Partial::new(step, attempt, Some(partial_file(cx)))));
    let (hooks, recorded) = (&cx.services.hooks, CancellationToken::new());
    let said = Said {
        partial: Arc::clone(&partial),
        bus: cx.services.bus.clone(),
        hooks: (!hooks.is_empty()).then(|| (hooks.clone(), cx.hook_context())),
        recorded: recorded.clone(),
        streams: DeltaStreams::new(cx.services.firewall.clone()),
    };
    let span = tracing::info_span!(target: "piton", "model_call", step, attempt);
    let work = async move {
        let _at_work = kin.at_work().await;
        listen(step, attempt, model.stream(request), said).await
    };
    let task = Task::new(work.instrument(span), move |answer, cx| vec![answered(attempt, answer, cx)]);
    let task = task.held_until(recorded).when_cut(move |cx| cut(&partial, cx).into_iter().collect());
    Step::Start(task.when_broken(move |why, cx| {
        let why = format!("the provider's answer could not be read: {why}");
        let error = ModelError::new(ModelErrorKind::Malformed, why);
        vec![answered(attempt, Answer::Failed { error, abandoned: Vec::new() }, cx)]
    }))
}

/// Measures the next call, and checks it against the budget of its turn.
fn estimate(cx: &mut JobContext<'_>, kin: &Kin) -> Permit {
    let (model, frame) = (cx.model(), cx.frame().clone());
    cx.memory.prompts.permit(cx.session, &frame, &*model, kin)
}

fn partial_file(cx: &JobContext<'_>) -> PathBuf {
    cx.services.stored.scratch().join(PARTIAL)
}

/// The event that a call ended in.
fn answered(attempt: u32, answer: Answer, cx: &mut JobContext<'_>) -> Event {
    let world = &cx.services.world;
    let mut event = match answer {
        Answer::Replied { mut reply, first_ms } => {
            cx.services.settings.tools.name_calls(&mut reply.parts);
            let mut event = cx.session.replied(attempt, *reply, None, world.now_ms(), world.roll());
            if let Event::MessageFinished { first_ms: first, .. } = &mut event {
                *first = first_ms;
            }
            event
        }
        Answer::Failed { mut error, abandoned } => {
            let usage = error.usage.take().map(|usage| *usage).unwrap_or_default();
            cx.session.failed(attempt, error, usage, abandoned, world.now_ms(), world.roll())
        }
    };
    let model = cx.model();
    cx.memory.prompts.complete(&mut event, &*model);
    event
}

/// It may be billed, and nobody will say for how much.
fn cut(partial: &Mutex<Partial>, cx: &mut JobContext<'_>) -> Option<Event> {
    let (parts, at_most) = (lock(partial).parts(), cx.memory.prompts.cut());
    (!parts.is_empty() || at_most.is_some()).then(|| Event::MessageCut { step: cx.session.step(), parts, at_most })
}

/// What a killed process asked is what would be asked here by the rules that it had.
pub(super) fn measure_lost(cx: &mut JobContext<'_>) {
    if !cx.session.subtasks().is_empty() {
        return;
    }
    // Whatever others have used meanwhile: it was asked, and may be billed.
    drop(estimate(cx, &Kin::default()));
}

/// A killed process was asking: that has failed.
pub(super) fn recover(step: u32, attempt: u32, cx: &mut JobContext<'_>) -> Vec<Event> {
    if !cx.session.subtasks().is_empty() {
        return Vec::new();
    }
    let abandoned = partial::recover(&partial_file(cx), step, attempt);
    let error = ModelError::new(ModelErrorKind::Interrupted, "Piton was stopped while the model was asked");
    vec![answered(attempt, Answer::Failed { error, abandoned }, cx)]
}

/// How much the model reads, where that became known only now.
pub(crate) fn window_learned(cx: &JobContext<'_>) -> Option<Event> {
    let is_unknown = cx.session.is_in_turn() && cx.session.context().full_at_tokens().is_none();
    let known = is_unknown.then(|| cx.full_at(cx.session.model())).flatten();
    known.map(|compact_at_tokens| Event::WindowLearned { compact_at_tokens })
}

/// The same where another model goes on, perhaps, or by other rules: what its window is counts from here on.
pub(crate) fn window_changed(cx: &JobContext<'_>) -> Option<Event> {
    let known = cx.full_at(cx.session.model()).filter(|known| cx.session.context().full_at_tokens() != Some(*known));
    known.map(|compact_at_tokens| Event::WindowLearned { compact_at_tokens })
}

/// What hooks see of a piece, if they want to.
fn watched(delta: &Delta, hooks: &Hooks) -> Option<WatchedEvent> {
    let watched = match delta {
        Delta::Text { text } => WatchedEvent::Text(text.clone()),
        Delta::Reasoning { text } => WatchedEvent::Reasoning(text.clone()),
        Delta::CallBegan { .. } | Delta::CallInput { .. } => return None,
    };
    hooks.want(watched.point()).then_some(watched)
}

/// Listens to a model until it has replied or failed.
async fn listen(step: u32, attempt: u32, stream: ModelStream, said: Said) -> Answer {
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

async fn listen_to(step: u32, attempt: u32, mut stream: ModelStream, said: Said, chunks: Chunks) -> Answer {
    let Said { partial: said, bus, hooks, recorded, mut streams } = said;
    let request: Arc<str> = format!("req_{step}_{attempt}").into();
    let asked = Instant::now();
    let mut heard = asked;
    let mut first_ms = None;
    let mut silent_until = heard + SILENCE;
    let mut told_bytes: usize = 0;
    loop {
        let wake = lock(&said).flush_at().map_or(silent_until, |flush| flush.min(silent_until));
        let event = tokio::time::timeout_at(wake, stream.next()).await;
        recorded.cancelled().await;
        if lock(&said).flush_at().is_some_and(|at| at <= Instant::now()) {
            lock(&said).flush();
        }
        if let Some((hooks, cx)) = &hooks {
            let new = std::mem::take(&mut *lock(&chunks));
            for chunk in new {
                hooks.see(cx, WatchedEvent::Chunk { request: Arc::clone(&request), chunk }).await;
            }
        }
        match event {
            Ok(Some(Ok(ModelEvent::Delta(delta)))) => {
                told_bytes = told_bytes.saturating_add(delta.bytes());
                if told_bytes <= STREAMED_BYTES
                    && let Some(delta) = streams.push(delta)
                {
                    lock(&said).add(&delta);
                    let watched = hooks.as_ref().and_then(|(hooks, _)| watched(&delta, hooks));
                    bus.live(Live::ModelDelta { step, attempt, delta });
                    if let (Some((hooks, cx)), Some(watched)) = (&hooks, watched) {
                        hooks.see(cx, watched).await;
                    }
                }
                heard = Instant::now();
                first_ms.get_or_insert_with(|| u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX));
                silent_until = heard + SILENCE;
            }
            Ok(Some(Ok(ModelEvent::Done(reply)))) => {
                streams.finish().for_each(|delta| bus.live(Live::ModelDelta { step, attempt, delta }));
                return Answer::Replied { reply, first_ms };
            }
            Ok(Some(Err(error))) => {
                streams.finish().for_each(|delta| lock(&said).add(&delta));
                return failed(error, &said);
            }
            Ok(None) => {
                let error = ModelError::new(ModelErrorKind::CutStream, "the model's stream ended without an end");
                return failed(error, &said);
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

fn failed(error: ModelError, said: &Mutex<Partial>) -> Answer {
    if error.kind == ModelErrorKind::Endless {
        lock(said).keep_beginning();
    }
    Answer::Failed { error, abandoned: lock(said).parts() }
}

fn lock<T>(said: &Mutex<T>) -> MutexGuard<'_, T> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
