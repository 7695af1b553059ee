//! Asking the model: its stream is heard out, shown as it comes, and kept aside so that a crash loses little of it.
//!
//! After a restart the call is on record as failed (`interrupted`), with what was kept of the answer, and made again. A cancel
//! cuts it: what had streamed is recorded ([`piton_core::event::Event::MessageCut`]). A panic counts as an answer that
//! cannot be read.

use super::{Done, SILENCE, lock};
use crate::bus::Bus;
use crate::hooks::{HookContext, Hooks, Sight};
use crate::partial::Partial;
use futures_util::StreamExt;
use piton_core::client::Live;
use piton_core::hook::HookPoint;
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent};
use piton_models::model::ModelStream;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a model says, and who hears it.
pub(crate) struct Said {
    pub(super) partial: Arc<Mutex<Partial>>,
    bus: Bus,
    hooks: Option<(Hooks, Arc<HookContext>)>,
    /// Cancelled once it is durable that the model is asked: nobody hears a word before.
    recorded: Option<CancellationToken>,
}

impl Said {
    pub(crate) fn new(partial: Partial, bus: Bus) -> Self {
        Self { partial: Arc::new(Mutex::new(partial)), bus, hooks: None, recorded: None }
    }

    /// Held back until this is cancelled.
    pub(crate) fn held_until(self, recorded: CancellationToken) -> Self {
        Self { recorded: Some(recorded), ..self }
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

/// Listens to a model until it has replied or failed.
pub(super) async fn listen(step: u32, attempt: u32, stream: ModelStream, said: Said) -> Done {
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
    let Said { partial: said, bus, hooks, recorded } = said;
    let request: Arc<str> = format!("req_{step}_{attempt}").into();
    let asked = Instant::now();
    let mut heard = asked;
    let mut first_ms = None;
    let mut silent_until = heard + SILENCE;
    loop {
        let wake = lock(&said).flush_at().map_or(silent_until, |flush| flush.min(silent_until));
        let event = tokio::time::timeout_at(wake, stream.next()).await;
        if let Some(recorded) = &recorded {
            recorded.cancelled().await;
        }
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
    if error.kind == ModelErrorKind::Endless {
        lock(said).keep_beginning();
    }
    Done::ModelFailed { attempt, error, abandoned: lock(said).parts() }
}

/// It panicked: that must not take the session with it.
pub(super) fn broken(attempt: u32, why: &str) -> Done {
    let error = ModelError::new(ModelErrorKind::Malformed, format!("the provider's answer could not be read: {why}"));
    Done::ModelFailed { attempt, error, abandoned: Vec::new() }
}
