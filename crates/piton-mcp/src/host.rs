//! What servers may ask of us while they are connected: roots, a person's answer, a model's answer; and what they tell us:
//! progress, log messages, changed lists.

#![expect(deprecated, reason = "roots, sampling and logging are, and servers of the legacy era use them")]

use crate::surroundings::Surroundings;
use crate::text;
use piton_core::secrets::{Depth, Firewall};
use piton_tools::executor::OutputSink;
use piton_tools::servers::{Elicitation, ElicitationAnswer, ServerClient};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, Implementation, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestId, Root,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use url::Url;

/// Bytes of what a server says to a person.
const MOST_MESSAGE_BYTES: usize = 4_096;
/// Characters of a line of progress.
const MOST_PROGRESS_CHARS: usize = 500;
/// Lines of progress of one call that are shown; a server may tell of it without end.
const MOST_PROGRESS: usize = 10_000;
/// Characters of a log message.
const MOST_LOG_CHARS: usize = 500;
/// Log messages of one connection that are kept.
const MOST_LOGGED: usize = 1_000;

/// Our side of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    server: String,
    root: Option<Url>,
    calls: Calls,
    lists: Arc<Notify>,
    firewall: Firewall,
    logged: Arc<AtomicUsize>,
}

/// The calls that are under way with a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Arc<Running>>>>);

/// A call that is under way.
#[derive(Debug)]
pub(crate) struct Running {
    client: Arc<dyn ServerClient>,
    output: OutputSink,
    sent: Mutex<Option<(RequestId, ProgressToken)>>,
    /// How often it told of its progress.
    told: AtomicUsize,
}

/// A call that is under way for as long as this is kept.
#[derive(Debug)]
pub(crate) struct UnderWay {
    calls: Calls,
    running: Arc<Running>,
}

impl Calls {
    pub(crate) fn begin(&self, client: Arc<dyn ServerClient>, output: OutputSink) -> UnderWay {
        let running = Arc::new(Running { client, output, sent: Mutex::new(None), told: AtomicUsize::new(0) });
        self.lock().push(Arc::clone(&running));
        UnderWay { calls: self.clone(), running }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a request of the server belongs to: the one that it says, else the newest.
    fn asking(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<Running>> {
        let calls = self.lock();
        let named = match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => calls.iter().find(|running| running.is_request(id)),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        named.or_else(|| calls.last()).cloned()
    }

    fn of_token(&self, token: &ProgressToken) -> Option<Arc<Running>> {
        self.lock().iter().find(|running| running.has_token(token)).cloned()
    }
}

impl Running {
    fn sent(&self) -> std::sync::MutexGuard<'_, Option<(RequestId, ProgressToken)>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_request(&self, id: &RequestId) -> bool {
        self.sent().as_ref().is_some_and(|(own, _)| own == id)
    }

    fn has_token(&self, token: &ProgressToken) -> bool {
        self.sent().as_ref().is_some_and(|(_, own)| own == token)
    }
}

impl UnderWay {
    /// The request that is under way for it now.
    pub(crate) fn note_sent(&self, id: RequestId, token: ProgressToken) {
        *self.running.sent() = Some((id, token));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.lock().retain(|running| !Arc::ptr_eq(running, &self.running));
    }
}

impl Host {
    /// `lists` is notified when the server says that what it offers has changed.
    pub(crate) fn new(server: &str, around: &Surroundings, calls: Calls, lists: Arc<Notify>) -> Self {
        let (root, firewall) = (Url::from_file_path(&around.workspace).ok(), around.firewall.clone());
        Self { server: server.to_owned(), root, calls, lists, firewall, logged: Arc::default() }
    }

    pub(crate) fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(self.root.iter().map(|root| Root::new(root.as_str()).with_name("workspace")).collect())
    }

    /// Puts a question to whoever answers for a call.
    pub(crate) async fn elicit(&self, client: &dyn ServerClient, asked: ElicitRequestParams) -> ElicitResult {
        let (elicitation, schema) = match asked {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
                let message = text::words(&message, MOST_MESSAGE_BYTES);
                (Elicitation::Form { message, schema: schema.clone() }, Some(schema))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                let is_web = Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
                if !is_web || url.chars().any(piton_core::hidden::is_hidden) {
                    return ElicitResult::new(ElicitationAction::Decline);
                }
                (Elicitation::Url { message: text::words(&message, MOST_MESSAGE_BYTES), url }, None)
            }
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        match client.elicit(&self.server, elicitation).await {
            Some(ElicitationAnswer::Accept(values)) => {
                let accepted = ElicitResult::new(ElicitationAction::Accept);
                match schema {
                    Some(schema) => accepted.with_content(with_defaults(values, &schema)),
                    None => accepted,
                }
            }
            Some(ElicitationAnswer::Cancel) => ElicitResult::new(ElicitationAction::Cancel),
            Some(ElicitationAnswer::Decline) | None => ElicitResult::new(ElicitationAction::Decline),
        }
    }

    /// Asks a model, for whoever answers for a call.
    pub(crate) async fn sample(
        &self,
        client: &dyn ServerClient,
        asked: &CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: String| ErrorData::new(rmcp::model::ErrorCode(-1), why, None);
        let request = serde_json::to_value(asked).map_err(|error| refused(error.to_string()))?;
        let answer = client.sample(&self.server, request).await.map_err(refused)?;
        serde_json::from_value(answer).map_err(|error| refused(format!("the answer is no message: {error}")))
    }
}

/// The values of a form with the defaults of its schema where there are none.
fn with_defaults(values: Value, schema: &Value) -> Value {
    let mut values = match values {
        Value::Object(values) => values,
        _ => serde_json::Map::new(),
    };
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !values.contains_key(name)) {
            values.insert(name.clone(), default.clone());
        }
    }
    Value::Object(values)
}

/// What we can do for servers, as JSON, since the types of it are another's.
fn capabilities() -> ClientCapabilities {
    let said = json!({
        "roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}},
        "extensions": {rmcp::model::TASKS_EXTENSION_ID: {}},
    });
    serde_json::from_value(said).unwrap_or_default()
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("piton", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities(), us)
            .with_protocol_version(rmcp::model::ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.calls.asking(context.extensions.get()) {
            Some(running) => Ok(self.elicit(&*running.client, request).await),
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        match self.calls.asking(context.extensions.get()) {
            Some(running) => self.sample(&*running.client, &params).await,
            None => Err(ErrorData::new(rmcp::model::ErrorCode(-1), "no call is under way", None)),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let Some(running) = self.calls.of_token(&params.progress_token) else { return };
        if running.told.fetch_add(1, Relaxed) >= MOST_PROGRESS {
            return;
        }
        let share = match params.total {
            Some(total) => format!("{} of {total}", params.progress),
            None => params.progress.to_string(),
        };
        let said = params.message.map(|message| format!(": {message}")).unwrap_or_default();
        running.output.push(&format!("{}\n", text::line(&format!("{share}{said}"), MOST_PROGRESS_CHARS)));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let before = self.logged.fetch_add(1, Relaxed);
        if before >= MOST_LOGGED {
            return;
        }
        let said = match &params.data {
            Value::String(text) => text::line(text, MOST_LOG_CHARS),
            other => text::line(&other.to_string(), MOST_LOG_CHARS),
        };
        let said = self.firewall.cleaned(&said, Depth::Known);
        let server = self.server.as_str();
        if before + 1 == MOST_LOGGED {
            tracing::info!(server, "its log messages go on, and are no longer kept");
        }
        match params.level {
            LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice => tracing::debug!(server, "says: {said}"),
            _ => tracing::info!(server, "says: {said}"),
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.lists.notify_one();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.lists.notify_one();
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.lists.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_can_do_is_said() {
        let capabilities = capabilities();
        assert!(capabilities.supports_tasks() && capabilities.roots.is_some());
        let sampling = capabilities.sampling.unwrap();
        assert!(sampling.tools.is_none() && sampling.context.is_none(), "who is told of them may use them");
        assert!(capabilities.elicitation.is_some_and(|asks| asks.form.is_some() && asks.url.is_some()));
    }

    #[test]
    fn defaults_are_filled_in() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": 2}, "c": {}}});
        assert_eq!(with_defaults(json!({"b": 3}), &schema), json!({"b": 3, "a": 1}));
    }
}
