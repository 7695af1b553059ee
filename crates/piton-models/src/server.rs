//! The server at an address: who is let in and how, what is sent to it and what its refusals teach.
//!
//! It must not know how a reply is read.

use crate::anthropic;
use crate::chat::{self, Dialect};
use crate::credentials::Outgoing;
use crate::errors::{self, HttpRefusal};
use crate::gemini;
use crate::ollama;
use crate::options;
use crate::pass::{Pass, Passes};
use crate::protocol::WireProtocol;
use crate::responses;
use crate::secrets::Secrets;
use piton_core::model::{ModelError, ModelErrorKind, Request};
use piton_core::secrets::is_secret_name;
use piton_http::error::{address, redirected};
use piton_http::{Answer, HeaderMap, HeaderName, HeaderValue, Http, HttpError, Url};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

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
    pub(crate) fn protocol(self) -> WireProtocol {
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
    pub(crate) fn reading(self, window_tokens: Option<u64>) -> Self {
        match self {
            Self::Ollama { window_tokens: _ } => Self::Ollama { window_tokens },
            Self::Chat(_) | Self::Responses | Self::Gemini | Self::Anthropic { max_tokens: _ } => self,
        }
    }

    /// The body that asks this, with what the options add to it.
    pub(crate) fn body(self, request: &Request, extra: &Map<String, Value>) -> Value {
        let mut body = self.encode(request);
        options::merge(&mut body, Value::Object(extra.clone()));
        if let Self::Anthropic { max_tokens: _ } = self {
            anthropic::without_late_thoughts(&mut body);
        }
        body
    }

    /// Where this model is asked; only Gemini names it in the address.
    pub(crate) fn address(self, url: &Url, model: &str) -> Url {
        let mut url = url.clone();
        if self == Self::Gemini {
            let name = model.strip_prefix("models/").unwrap_or(model);
            url.set_path(&format!("{}/{name}:streamGenerateContent", url.path()));
            url.set_query(Some("alt=sse"));
        }
        url
    }
}

/// Where requests go, and with which key.
pub(crate) struct ModelServer {
    pub(crate) http: Http,
    pub(crate) url: Url,
    pub(crate) wire: Wire,
    pub(crate) passes: Passes,
    /// The header for the key, where it is not the protocol's.
    pub(crate) key_header: Option<&'static str>,
    /// What a person who is not let in should know of the key.
    pub(crate) key_said: String,
    /// What a person who reaches nobody should know of the address.
    pub(crate) address_said: Option<String>,
    /// Headers that somebody added. They win over ours.
    pub(crate) headers: HeaderMap,
    /// What it has refused to be told.
    pub(crate) refused: RefusedMembers,
}

/// The members that make an answer better or cheaper and that not every compatible server takes. One that is refused by name
/// is left out from then on; the loop asks again.
#[derive(Debug, Default)]
pub(crate) struct RefusedMembers([AtomicBool; OPTIONAL.len()]);

const OPTIONAL: [&str; 2] = ["stream_options", "prompt_cache_key"];

impl RefusedMembers {
    /// Learns from a refusal; gives the member that it is about, where that is news.
    fn learn(&self, status: u16, body: &str) -> Option<&'static str> {
        let news = |(name, refused): &(&&'static str, &AtomicBool)| {
            body.contains(**name) && !refused.swap(true, Ordering::Relaxed)
        };
        let is_about_members = matches!(status, 400 | 422);
        OPTIONAL.iter().zip(&self.0).filter(|_| is_about_members).find(news).map(|(name, _)| *name)
    }

    /// Takes out of a body what was refused, unless somebody asked for it.
    pub(crate) fn leave_out(&self, body: &mut Value, asked: &Map<String, Value>) {
        for (name, refused) in OPTIONAL.iter().zip(&self.0) {
            if let Some(body) =
                body.as_object_mut().filter(|_| refused.load(Ordering::Relaxed) && !asked.contains_key(*name))
            {
                body.shift_remove(*name);
            }
        }
    }
}

/// The longest list of models there is, OpenRouter's, has a few megabytes.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

impl ModelServer {
    /// Asks, and waits for the headers of an answer. Anything but 200 is an error. Who is not let in asks once again if
    /// there is another key by now.
    pub(crate) async fn post(&self, url: &Url, json: Vec<u8>) -> Result<Answer, ModelError> {
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
        self.accepted(self.http.post(url, headers, json).await.map_err(|error| self.not_reached(error))?).await
    }

    fn not_reached(&self, error: HttpError) -> ModelError {
        let is_reached = !matches!(error, HttpError::NotListening(_));
        let mut error = errors::from_http(error);
        let more = self.address_said.iter().filter(|_| !is_reached);
        error.message.extend(more.map(|more| format!("; {more}")));
        error
    }

    /// Tells whoever debugs what goes over the wire, without keys.
    pub(crate) fn log(&self, what: &str, bytes: &[u8]) {
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
        let answer = self.accepted(self.http.get(url, headers).await.map_err(|error| self.not_reached(error))?).await?;
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
        let refusal = HttpRefusal { status: status.as_u16(), headers: &headers, body: &body };
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

    pub(crate) fn without_secrets(&self, mut error: ModelError) -> ModelError {
        error.message = self.secrets().hide(&error.message);
        error
    }

    /// Keys, and what stands in for them, wherever they are said: in headers named like a secret, too.
    pub(crate) fn keys(&self) -> Vec<String> {
        let is_secret = |name: &str| name == "authorization" || name == "cookie" || is_secret_name(name);
        let headers = self.headers.iter().filter(|(name, _)| is_secret(name.as_str()));
        let values = headers.filter_map(|(_, value)| value.to_str().ok());
        let bare = values.map(|value| value.split_once(' ').map_or(value, |(_, bare)| bare).to_owned());
        self.passes.secrets().into_iter().chain(bare).chain(self.url.password().map(str::to_owned)).collect()
    }

    /// Everything by which somebody is let in here.
    pub(crate) fn secrets(&self) -> Secrets {
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
