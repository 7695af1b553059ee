//! A model behind an address: request encoded, bytes read, answer decoded, as one stream.
//!
//! ```text
//!  Ask ──headers──▶ Read ──bytes──▶ Read … ──end──▶ Ended
//!    └─ refused, unreachable, stalled ─────────────▶ Ended (with an error)
//! ```
//!
//! A failure below HTTP after the model gave its reason to stop is no failure: the answer is whole.

use crate::errors;
use crate::model::{Model, ModelLimits, ModelStream, Price};
use crate::options;
use crate::protocol::Progress;
use crate::server::{ModelServer, Wire};
use crate::window::Window;
use crate::wire::{self, ResponseBody};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_http::Answer;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A model behind an address.
pub(crate) struct RemoteModel {
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) wire: Wire,
    pub(crate) server: Arc<ModelServer>,
    /// What is known of it, with the longest reply that is asked for.
    pub(crate) limits: ModelLimits,
    /// What the server itself says of its window; `None` where somebody else has said it, or the server does not.
    pub(crate) window: Option<Arc<Window>>,
    pub(crate) price: Option<Price>,
    /// The longest answer, where the request does not say.
    pub(crate) max_output: Option<u32>,
    /// What options add to every body.
    pub(crate) extra: Arc<Map<String, Value>>,
}

impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { window_tokens: self.window_tokens(), ..self.limits }
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    fn secrets(&self) -> Vec<String> {
        self.server.keys()
    }

    fn stream(&self, mut request: Request) -> ModelStream {
        if request.model.is_empty() {
            request.model.clone_from(&self.model);
        }
        let cap = request.max_output_tokens;
        request.max_output_tokens = [cap, self.max_output].into_iter().flatten().min();
        let flow = Flow {
            server: Arc::clone(&self.server),
            wire: self.wire.reading(self.window_tokens()),
            extra: Arc::clone(&self.extra),
            cap,
            window: self.window.clone(),
            request,
            phase: Phase::Ask,
            ready: VecDeque::new(),
        };
        Box::pin(futures_util::stream::unfold(flow, Flow::next))
    }
}

impl RemoteModel {
    fn window_tokens(&self) -> Option<u64> {
        self.window.as_ref().and_then(|window| window.tokens()).or(self.limits.window_tokens)
    }

    /// The longest reply that is asked for where nobody caps it: by the options, their `extra_body`, or the protocol.
    pub(crate) fn longest_reply(&self) -> Option<u32> {
        let request = Request { max_output_tokens: self.max_output, ..Request::default() };
        options::longest_reply(&self.wire.body(&request, &self.extra))
    }
}

/// A request under way.
struct Flow {
    server: Arc<ModelServer>,
    wire: Wire,
    extra: Arc<Map<String, Value>>,
    /// The most tokens of the reply that whoever asks allows, whatever the options say.
    cap: Option<u32>,
    window: Option<Arc<Window>>,
    request: Request,
    phase: Phase,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
}

enum Phase {
    Ask,
    Read(Box<Reading>),
    Ended,
}

/// An answer under way.
struct Reading {
    answer: Answer,
    body: ResponseBody,
    /// When the answer last said something: its keep-alives do not count.
    said_at: Instant,
    /// When the answer became whole but for its counts: nobody waits long for these, keep-alives or not. None again where
    /// the model speaks on.
    finished_at: Option<Instant>,
}

impl Flow {
    async fn next(mut self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some((item, self));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ask => self.ask().await,
                Phase::Read(reading) => self.read(reading).await,
                Phase::Ended => return None,
            };
            match step {
                Ok(phase) => self.phase = phase,
                Err(error) => self.ready.push_back(Err(self.server.without_secrets(error))),
            }
        }
    }

    async fn ask(&mut self) -> Result<Phase, ModelError> {
        let url = self.wire.address(&self.server.url, &self.request.model);
        let mut body = self.wire.body(&self.request, &self.extra);
        self.server.refused.leave_out(&mut body, &self.extra);
        if let Some(cap) = self.cap {
            options::keep_within(&mut body, cap);
        }
        let json = body.to_string().into_bytes();
        let answer = self.server.post(&url, json).await?;
        if let Some(window) = self.window.take().filter(|window| window.is_to_be_asked()) {
            let (server, model) = (Arc::clone(&self.server), self.request.model.clone());
            tokio::spawn(async move { window.ask(&server, &model).await });
        }
        let body = ResponseBody::new(wire::protocol(self.wire.protocol()));
        let said_at = Instant::now();
        Ok(Phase::Read(Box::new(Reading { answer, body, said_at, finished_at: None })))
    }

    /// Reads once. The end of the body, however it comes, is the end of the answer.
    async fn read(&mut self, mut reading: Box<Reading>) -> Result<Phase, ModelError> {
        let stall = self.server.http.stall();
        let patience = reading.finished_at.map_or(stall, |at| stall.min(AFTERTHOUGHT).saturating_sub(at.elapsed()));
        let cut = match reading.answer.chunk_within(patience).await {
            Ok(Some(bytes)) => {
                self.server.log("answer", &bytes);
                self.hear(&mut reading, &bytes)?;
                if reading.body.progress() != Progress::Complete {
                    return Ok(Phase::Read(reading));
                }
                reading.answer.drain().await;
                None
            }
            Ok(None) => None,
            Err(error) => Some(errors::from_http(error)),
        };
        let mut body = reading.body;
        if let Some(error) = cut.filter(|_| body.progress() == Progress::Speaking) {
            return Err(error);
        }
        let (deltas, reply) = body.finish()?;
        self.ready.extend(deltas.into_iter().map(|delta| Ok(ModelEvent::Delta(delta))));
        let mut reply = meant(reply)?;
        reply.usage.bound_cached();
        let secrets = self.server.secrets();
        reply.warnings.iter_mut().for_each(|warning| *warning = secrets.hide(warning));
        self.ready.push_back(Ok(ModelEvent::Done(Box::new(reply))));
        Ok(Phase::Ended)
    }

    /// Takes bytes in, and hands on what they say.
    fn hear(&mut self, reading: &mut Reading, bytes: &[u8]) -> Result<(), ModelError> {
        let deltas = reading.body.push(bytes)?;
        if !deltas.is_empty() {
            reading.said_at = Instant::now();
        }
        self.ready.extend(deltas.into_iter().map(|delta| Ok(ModelEvent::Delta(delta))));
        match reading.body.progress() {
            Progress::Speaking if reading.said_at.elapsed() > self.server.http.keep_alive() => {
                Err(only_keep_alives(self.server.http.keep_alive()))
            }
            Progress::Complete => Ok(()),
            Progress::Speaking => {
                reading.finished_at = None;
                Ok(())
            }
            Progress::Finished => {
                reading.finished_at.get_or_insert_with(Instant::now);
                Ok(())
            }
        }
    }
}

/// The reply, unless the provider says of it that the model made a call that nobody could read: that is asked again, and
/// paid for.
fn meant(reply: Reply) -> Result<Reply, ModelError> {
    let raw = reply.finish_raw.as_deref().unwrap_or_default();
    if !["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"].contains(&raw) {
        return Ok(reply);
    }
    let words = format!("the provider ended the answer as unusable ({raw})");
    let usage = reply.is_counted().then(|| Box::new(reply.usage));
    Err(ModelError { usage, ..ModelError::new(ModelErrorKind::Malformed, words) })
}

fn only_keep_alives(limit: Duration) -> ModelError {
    let seconds = limit.as_secs_f64();
    ModelError::new(ModelErrorKind::Stalled, format!("the provider sent nothing but keep-alives for {seconds} s"))
}

/// How long to wait for the counts and the end of an answer that is whole, from its reason to stop on: some servers never
/// close.
const AFTERTHOUGHT: Duration = Duration::from_secs(5);
