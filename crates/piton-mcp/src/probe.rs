//! Finds out in a second which era of the protocol a server speaks.
//!
//! A legacy server should refuse `server/discover`; some ignore it. Then this transport answers in the server's place, and the
//! handshake goes on as with a server that refuses. An answer that comes later is not passed on, but remembered: a server that
//! starts slowly may be a modern one after all.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A transport that answers for a server that is silent.
pub(crate) struct Probe<T> {
    inner: T,
    limit: Duration,
    asked: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
    is_modern: Arc<AtomicBool>,
}

impl<T> Probe<T> {
    /// `is_modern` is set when the server turns out to be a modern one after all.
    pub(crate) fn new(inner: T, limit: Duration, is_modern: Arc<AtomicBool>) -> Self {
        Self { inner, limit, asked: None, given_up: None, is_modern }
    }

    /// Whether this is the answer to what nobody waits for any longer.
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        if id.is_none() || id != self.given_up.as_ref() {
            return false;
        }
        if let ServerJsonRpcMessage::Response(response) = message
            && matches!(response.result, ServerResult::DiscoverResult(_))
        {
            self.is_modern.store(true, Relaxed);
        }
        true
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Probe<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.asked = Some((request.id.clone(), Instant::now() + self.limit));
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match &self.asked {
                None => self.inner.receive().await?,
                Some((id, until)) => match timeout_at(*until, self.inner.receive()).await {
                    Ok(message) => message?,
                    Err(_) => {
                        let id = id.clone();
                        (self.asked, self.given_up) = (None, Some(id.clone()));
                        let silent = ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "no answer", None);
                        return Some(ServerJsonRpcMessage::error(silent, Some(id)));
                    }
                },
            };
            if self.is_late(&message) {
                continue;
            }
            if matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)) {
                self.asked = None;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
