//! A model behind an address: request encoded, bytes read, answer decoded, as one stream.
//!
//! ```text
//!  Ask ──headers──▶ Read ──bytes──▶ Read … ──end──▶ Ended
//!    └─ refused, unreachable, stalled ─────────────▶ Ended (with an error)
//! ```
//!
//! A failure below HTTP after the model gave its reason to stop is no failure: the answer is whole.

use crate::anthropic;
use crate::chat::{self, Dialect};
use crate::credentials::Outgoing;
use crate::errors::{self, Refusal};
use crate::gemini;
use crate::model::{Model, ModelLimits, ModelStream, Price};
use crate::ollama;
use crate::options;
use crate::pass::{Pass, Passes};
use crate::provider::WireProtocol;
use crate::responses;
use crate::secrets::Secrets;
use crate::window::Window;
use crate::wire::{self, Body, Progress};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_http::error::{address, redirected};
use piton_http::{Answer, HeaderMap, HeaderName, HeaderValue, Http, Url};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// How to talk to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat(Dialect),
    Responses,
    Gemini,
    Ollama { window_tokens: Option<u64> },
    Anthropic { max_tokens: u32 },
}

impl Wire {
    fn protocol(self) -> WireProtocol {
        match self {
            Self::Chat(_) => WireProtocol::Chat,
            Self::Responses => WireProtocol::Responses,
            Self::Anthropic { max_tokens: _ } => WireProtocol::Anthropic,
            Self::Gemini => WireProtocol::Gemini,
            Self::Ollama { window_tokens: _ } => WireProtocol::Ollama,
        }
    }

    fn encode(self, request: &Request) -> Value {
        match self {
            Self::Chat(dialect) => chat::encode(request, dialect),
            Self::Responses => responses::encode(request),
            Self::Anthropic { max_tokens } => anthropic::encode(request, max_tokens),
            Self::Gemini => gemini::encode(request),
            Self::Ollama { window_tokens } => ollama::encode(request, window_tokens),
        }
    }

    /// The same for a model of which now is known how much it reads.
    fn reading(self, window_tokens: Option<u64>) -> Self {
        match self {
            Self::Ollama { window_tokens: _ } => Self::Ollama { window_tokens },
            Self::Chat(_) | Self::Responses | Self::Gemini | Self::Anthropic { max_tokens: _ } => self,
        }
    }

    /// The body that asks this, with what the options add to it.
    fn body(self, request: &Request, extra: &Map<String, Value>) -> Value {
        let mut body = self.encode(request);
        options::merge(&mut body, Value::Object(extra.clone()));
        if let Self::Anthropic { max_tokens: _ } = self {
            anthropic::without_late_thoughts(&mut body);
        }
        body
    }

    /// Where this model is asked; only Gemini names it in the address.
    fn address(self, url: &Url, model: &str) -> Url {
        let mut url = url.clone();
        if self == Self::Gemini {
            let name = model.strip_prefix("models/").unwrap_or(model);
            url.set_path(&format!("{}/{name}:streamGenerateContent", url.path()));
            url.set_query(Some("alt=sse"));
        }
        url
    }
}

/// A model behind an address.
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) wire: Wire,
    pub(crate) server: Arc<Server>,
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

/// Where requests go, and with which key.
pub(crate) struct Server {
    pub(crate) http: Http,
    pub(crate) url: Url,
    pub(crate) wire: Wire,
    pub(crate) passes: Passes,
    /// The header for the key, where it is not the protocol's.
    pub(crate) key_header: Option<&'static str>,
    /// What a person who is not let in should know of the key.
    pub(crate) key_said: String,
    /// Headers that somebody added. They win over ours.
    pub(crate) headers: HeaderMap,
    /// What it has refused to be told.
    pub(crate) refused: Refused,
}

/// The members that make an answer better or cheaper and that not every compatible server takes. One that is refused by name
/// is left out from then on; the loop asks again.
#[derive(Debug, Default)]
pub(crate) struct Refused([AtomicBool; OPTIONAL.len()]);

const OPTIONAL: [&str; 2] = ["stream_options", "prompt_cache_key"];

impl Refused {
    /// Learns from a refusal; gives the member that it is about, where that is news.
    fn learn(&self, status: u16, body: &str) -> Option<&'static str> {
        let news = |(name, refused): &(&&'static str, &AtomicBool)| {
            body.contains(**name) && !refused.swap(true, Ordering::Relaxed)
        };
        let is_about_members = matches!(status, 400 | 422);
        OPTIONAL.iter().zip(&self.0).filter(|_| is_about_members).find(news).map(|(name, _)| *name)
    }

    /// Takes out of a body what was refused, unless somebody asked for it.
    fn leave_out(&self, body: &mut Value, asked: &Map<String, Value>) {
        for (name, refused) in OPTIONAL.iter().zip(&self.0) {
            if let Some(body) =
                body.as_object_mut().filter(|_| refused.load(Ordering::Relaxed) && !asked.contains_key(*name))
            {
                body.shift_remove(*name);
            }
        }
    }
}

impl Model for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { window_tokens: self.window_tokens(), ..self.limits }
    }

    fn price(&self) -> Option<Price> {
        self.price
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

impl Remote {
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
    server: Arc<Server>,
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
    Read(Reading),
    Ended,
}

/// An answer under way.
struct Reading {
    answer: Box<Answer>,
    body: Body,
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
        let body = Body::new(wire::protocol(self.wire.protocol()));
        let said_at = Instant::now();
        Ok(Phase::Read(Reading { answer: Box::new(answer), body, said_at, finished_at: None }))
    }

    /// Reads once. The end of the body, however it comes, is the end of the answer.
    async fn read(&mut self, mut reading: Reading) -> Result<Phase, ModelError> {
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

/// The longest list of models there is, OpenRouter's, has a few megabytes.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

impl Server {
    /// Asks, and waits for the headers of an answer. Anything but 200 is an error. Who is not let in asks once again if
    /// there is another key by now.
    async fn post(&self, url: &Url, json: Vec<u8>) -> Result<Answer, ModelError> {
        let again = self.passes.can_be_renewed().then(|| json.clone());
        let pass = self.passes.now();
        match (self.post_with(&pass, url, json).await, again) {
            (Err(error), Some(json)) if error.kind == ModelErrorKind::Auth && self.passes.renewed(&pass).await => {
                self.post_with(&self.passes.now(), url, json).await
            }
            (answer, _) => answer,
        }
    }

    async fn post_with(&self, pass: &Pass, url: &Url, json: Vec<u8>) -> Result<Answer, ModelError> {
        self.log(&format!("POST {url}"), &json);
        let headers = self.headers(pass, Outgoing { method: "POST", url, body: &json }).await?;
        self.accepted(self.http.post(url, headers, json).await.map_err(errors::from_http)?).await
    }

    /// Tells whoever debugs what goes over the wire, without keys.
    fn log(&self, what: &str, bytes: &[u8]) {
        if tracing::enabled!(target: "piton::requests", tracing::Level::DEBUG) {
            let secrets = self.secrets();
            let (what, body) = (secrets.hide(what), secrets.hide(&String::from_utf8_lossy(bytes)));
            // On lines of its own and as it is: as a field it would be escaped.
            tracing::debug!(target: "piton::requests", "{what}, {} bytes:\n{body}", bytes.len());
        }
    }

    /// Asks for a JSON document, such as a list of models.
    pub(crate) async fn get(&self, url: &Url) -> Result<Vec<u8>, ModelError> {
        let headers = self.headers(&self.passes.now(), Outgoing { method: "GET", url, body: &[] }).await;
        let headers = headers.map_err(|error| self.without_secrets(error))?;
        let answer = self.accepted(self.http.get(url, headers).await.map_err(errors::from_http)?).await?;
        answer.whole(MAX_DOCUMENT_BYTES).await.map_err(errors::from_http)
    }

    /// The same where something has to be said first.
    pub(crate) async fn post_whole(&self, url: &Url, body: &Value) -> Result<Vec<u8>, ModelError> {
        let answer = self.post(url, body.to_string().into_bytes()).await?;
        answer.whole(MAX_DOCUMENT_BYTES).await.map_err(errors::from_http)
    }

    async fn accepted(&self, answer: Answer) -> Result<Answer, ModelError> {
        let status = answer.status();
        tracing::debug!(target: "piton::requests", status = status.as_u16(), "answered");
        if status.is_success() {
            return Ok(answer);
        }
        let headers = answer.headers().clone();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default())).collect();
        // Before anything is cut: half a key is not recognised any more.
        let body = self.secrets().hide(&refusal_text(answer).await);
        self.log("refusal", body.as_bytes());
        let refusal = Refusal { status: status.as_u16(), headers: &headers, body: &body };
        let mut error = errors::from_response(&refusal, SystemTime::now());
        error.message = format!("{}: {}", address(&self.url), error.message);
        let refused = self.refused.learn(status.as_u16(), &body);
        if refused.is_some() {
            // What is sent next is another request, so there is nothing to wait for.
            (error.should_retry, error.retry_after_ms) = (Some(true), Some(1));
        }
        let more = match error.kind {
            _ if let Some(name) = refused => Some(format!("{name} is left out from now on")),
            ModelErrorKind::Auth => Some(self.key_said.clone()),
            _ if status.is_redirection() => headers.iter().find(|(name, _)| *name == "location").map(|(_, place)| {
                format!("it points to {}, and redirects are not followed", redirected(&self.url, place))
            }),
            _ if errors::takes_no_tools(&body) => Some("it may do with --text-tools use_tool".to_owned()),
            _ => None,
        };
        error.message.extend(more.map(|more| format!("; {more}")));
        Err(self.without_secrets(error))
    }

    /// Everything that goes with a request. A key that was given goes before the account's credentials, and theirs before
    /// all other headers.
    async fn headers(&self, pass: &Pass, request: Outgoing<'_>) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("text/event-stream, application/json"));
        let (name, value) = match self.wire {
            Wire::Chat(_) | Wire::Responses | Wire::Ollama { window_tokens: _ } => {
                ("authorization", pass.key.as_ref().map(|key| format!("Bearer {key}")))
            }
            Wire::Anthropic { max_tokens: _ } => {
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
                ("x-api-key", pass.key.clone())
            }
            Wire::Gemini => ("x-goog-api-key", pass.key.clone()),
        };
        let (name, value) = self.key_header.map_or((name, value), |name| (name, pass.key.clone()));
        if let Some(value) = value {
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| ModelError::new(ModelErrorKind::Auth, "the key has characters that no key has"))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.extend(self.headers.clone());
        if let Some(credentials) = pass.credentials.as_ref().filter(|_| pass.key.is_none()) {
            headers.extend(credentials.headers(request, &self.http).await?);
        }
        Ok(headers)
    }

    fn without_secrets(&self, mut error: ModelError) -> ModelError {
        error.message = self.secrets().hide(&error.message);
        error
    }

    /// Everything by which somebody is let in here.
    fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        self.passes.secrets().iter().for_each(|secret| secrets.add(secret));
        self.headers.values().filter_map(|value| value.to_str().ok()).for_each(|value| secrets.add_header(value));
        self.url.password().into_iter().for_each(|password| secrets.add(password));
        self.url.query_pairs().for_each(|(_, value)| secrets.add_header(&value));
        secrets
    }
}

/// What the server says about its refusal. That it is slow to say or breaks off changes nothing.
async fn refusal_text(mut answer: Answer) -> String {
    const MAX_BYTES: usize = 64 << 10;
    let mut text = Vec::new();
    while text.len() < MAX_BYTES {
        let Ok(Some(bytes)) = answer.chunk().await else { break };
        text.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&text).into_owned()
}
