//! Requests with a token that several processes renew.
//!
//! Some issuers end the old token when they give a new one. A request that was on its way with the old one is refused then: it
//! goes out again with the one that another process has put in its place. Only a token that is still the one on the disk is
//! renewed here, and once. Each further try is because of a renewal by another, so that they come to an end. A request that is
//! refused with 401 was not worked on.

use crate::tokens::Tokens;
use futures_util::stream::BoxStream;
use piton_http::{Client, HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// How often one request goes out: more than there are sessions that renew a token meanwhile.
const MOST_TRIES: usize = 20;

/// What rmcp speaks HTTP with.
#[derive(Clone)]
pub(crate) struct Renewing {
    client: Client,
    manager: Arc<Mutex<AuthorizationManager>>,
    tokens: Tokens,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type ClientError = <Client as StreamableHttpClient>::Error;
type Answered<T> = Result<T, StreamableHttpError<ClientError>>;

impl Renewing {
    pub(crate) fn new(client: Client, manager: AuthorizationManager, tokens: Tokens) -> Self {
        Self { client, manager: Arc::new(Mutex::new(manager)), tokens }
    }

    async fn authorized<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Answered<T>
    where
        F: Future<Output = Answered<T>>,
    {
        let token = self.manager.lock().await.get_access_token().await;
        let mut token = match token {
            Ok(token) => Some(token),
            // The server says what it wants.
            Err(AuthError::AuthorizationRequired) => None,
            Err(error) => return Err(error.into()),
        };
        let mut has_renewed = false;
        let mut answer = send(token.clone()).await;
        for _ in 1..MOST_TRIES {
            let (Err(StreamableHttpError::AuthRequired(_)), Some(sent)) = (&answer, &token) else { return answer };
            if self.tokens.access_token().as_ref() == Some(sent) {
                if std::mem::replace(&mut has_renewed, true) {
                    return answer;
                }
                match self.manager.lock().await.refresh_token().await {
                    Ok(_) => {}
                    Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => return answer,
                    Err(error) => return Err(error.into()),
                }
            }
            token = self.tokens.access_token();
            if token.is_none() {
                return answer;
            }
            answer = send(token.clone()).await;
        }
        answer
    }
}

impl StreamableHttpClient for Renewing {
    type Error = ClientError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
    ) -> Answered<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, None, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Answered<StreamableHttpPostResponse> {
        self.authorized(|token| {
            let (uri, message, session) = (Arc::clone(&uri), message.clone(), session.clone());
            let (client, headers, limits) = (&self.client, headers.clone(), limits);
            client.post_message_with_response_limits(uri, message, session, token, headers, limits)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Answered<()> {
        self.authorized(|token| {
            self.client.delete_session(Arc::clone(&uri), Arc::clone(&session), token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
    ) -> Answered<BoxStream<'static, Result<Sse, SseError>>> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, None, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Answered<BoxStream<'static, Result<Sse, SseError>>> {
        self.authorized(|token| {
            let (uri, session) = (Arc::clone(&uri), session.clone());
            let (client, last_event, headers) = (&self.client, last_event.clone(), headers.clone());
            client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most)
        })
        .await
    }
}
