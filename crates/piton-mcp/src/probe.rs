//! Finds out in a second which era of the protocol a server speaks.
//!
//! A legacy server should refuse `server/discover`; some ignore it. Then this transport answers in the server's place, and the
//! handshake goes on as with a server that refuses. An answer that comes later is not passed on. Where the handshake fails then, the
//! server is asked once more, with all the time that it has to start: one that starts slowly may be a modern one after all.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
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
    may_be_modern: Arc<AtomicBool>,
}

impl<T> Probe<T> {
    /// `may_be_modern` is set when the server did not answer in time: it may be a modern one after all, and is for sure where
    /// its answer comes late.
    pub(crate) fn new(inner: T, limit: Duration, may_be_modern: Arc<AtomicBool>) -> Self {
        Self { inner, limit, asked: None, given_up: None, may_be_modern }
    }

    fn give_up(&mut self) {
        if let Some((id, _)) = self.asked.take() {
            self.given_up = Some(id);
            self.may_be_modern.store(true, Relaxed);
        }
    }

    /// Whether this is the answer to what nobody waits for any longer.
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        id.is_some() && id == self.given_up.as_ref()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Probe<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &item {
            match &request.request {
                ClientRequest::DiscoverRequest(_) => {
                    self.asked = Some((request.id.clone(), Instant::now() + self.limit));
                }
                // Somebody above has less patience.
                ClientRequest::InitializeRequest(_) => self.give_up(),
                _ => {}
            }
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
                        self.give_up();
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
