//! HTTP with server-sent events, the transport of 2024-11-05: one stream from the server, whose first event says where messages to
//! it are posted. rmcp speaks it no longer.

use crate::error::ConnectError;
use crate::words::Words;
use piton_http::sse::SseDecoder;
use piton_http::{Answer, HeaderMap, HeaderName, HeaderValue, Http, HttpError, StatusCode, Url};
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::HttpStatusError;
use rmcp::transport::{AuthorizationManager, Transport};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The largest event that is read.
const MOST_EVENT_BYTES: usize = 16 << 20;
/// How long the stream may be silent: servers need not say anything.
const SILENCE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How long the server has to say where messages go.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer to a message, which says nothing.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// A connection.
pub(crate) struct Sse {
    http: Arc<Http>,
    headers: HeaderMap,
    tokens: Option<Arc<AuthorizationManager>>,
    endpoint: Url,
    stream: Stream,
}

struct Stream {
    answer: Option<Answer>,
    decoder: SseDecoder,
    /// What has come and was not taken yet: kind and data of events.
    waiting: VecDeque<(String, String)>,
}

impl Sse {
    /// Opens the stream, and waits for the address that messages go to.
    pub(crate) async fn open(
        url: &Url,
        headers: &HashMap<HeaderName, HeaderValue>,
        words: &Words<'_>,
        tokens: Option<AuthorizationManager>,
    ) -> Result<Self, ConnectError> {
        let failed = |error: HttpError| ConnectError::Failed(words.below(&error));
        let http = Arc::new(Http::new(words.http.clone()));
        let headers: HeaderMap = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let tokens = tokens.map(Arc::new);
        let asked = authorized(headers.clone(), tokens.as_deref()).await;
        let mut asked = asked.map_err(|error| match error {
            AuthError::AuthorizationRequired => ConnectError::NeedsLogin(None),
            error => ConnectError::Failed(words.login(&error)),
        })?;
        asked.insert("accept", HeaderValue::from_static("text/event-stream"));
        let answer = http.get(url, asked).await.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(ConnectError::NeedsLogin(None)),
            status => return Err(ConnectError::Failed(words.status(status.as_u16(), None))),
        }
        let mut stream = Stream { answer: Some(answer), decoder: SseDecoder::new(), waiting: VecDeque::new() };
        let endpoint = tokio::time::timeout(ENDPOINT_TIMEOUT, async {
            while let Some((kind, data)) = stream.next().await {
                if kind == "endpoint" {
                    return url.join(data.trim()).ok();
                }
            }
            None
        });
        let endpoint = endpoint.await.ok().flatten();
        // What we send has keys in it: it goes to the address that was given, and nowhere else.
        let endpoint = endpoint.filter(|endpoint| endpoint.origin() == url.origin());
        let endpoint = endpoint.ok_or_else(|| {
            ConnectError::Failed("it did not say where messages go, or said another server".to_owned())
        })?;
        Ok(Self { http, headers, tokens, endpoint, stream })
    }
}

/// These headers, and the token that is good now.
async fn authorized(mut headers: HeaderMap, tokens: Option<&AuthorizationManager>) -> Result<HeaderMap, AuthError> {
    if let Some(tokens) = tokens {
        let token = format!("Bearer {}", tokens.get_access_token().await?);
        let mut value = HeaderValue::try_from(token).map_err(|error| AuthError::InternalError(error.to_string()))?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    Ok(headers)
}

impl Stream {
    /// The next event; nothing at the end. May be dropped while it waits.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let piece = self.answer.as_mut()?.chunk_within(SILENCE).await;
            match piece {
                Ok(Some(bytes)) => {
                    let events = self.decoder.push(&bytes);
                    self.waiting.extend(events.into_iter().map(|event| (event.event, event.data)));
                }
                Ok(None) | Err(_) => self.answer = None,
            }
            if self.decoder.pending_bytes() > MOST_EVENT_BYTES {
                self.answer = None;
            }
        }
    }
}

impl Transport<RoleClient> for Sse {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (http, endpoint, mut headers) = (Arc::clone(&self.http), self.endpoint.clone(), self.headers.clone());
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let tokens = self.tokens.clone();
        async move {
            let headers = authorized(headers, tokens.as_deref()).await.map_err(io::Error::other)?;
            let body = serde_json::to_vec(&item)?;
            let answer = http.post(&endpoint, headers, body).await.map_err(io::Error::other)?;
            let status = answer.status();
            let _ = answer.whole(MOST_ANSWER_BYTES).await;
            match status.is_success() {
                true => Ok(()),
                false => Err(io::Error::other(HttpStatusError::new(status.as_u16(), None))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let (kind, data) = self.stream.next().await?;
            if !matches!(kind.as_str(), "message" | "") {
                continue;
            }
            match serde_json::from_str::<ServerJsonRpcMessage>(&data) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "a message of an MCP server that is none was passed over"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.stream.answer = None;
        Ok(())
    }
}
