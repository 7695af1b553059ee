//! One call of a tool, or one request for a prompt or a resource: sent once, with the server's questions answered in between, and
//! every end of it told as it is.
//!
//! A server of the modern era asks by an answer that says what it needs; the same request goes out again with what was asked for.
//! That is the protocol's own way to go on, not a second call: the server has said that the first did nothing yet.

use crate::error::missing_scope;
use crate::host::{Host, UnderWay};
use crate::results;
use crate::text;
use crate::words::{self, Words};
use piton_core::call::{Outcome, Status};
use piton_tools::servers::{ServerCall, ServerClient, ServerContext};
use piton_tools::tool::interrupted;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, CancelledNotificationParam,
    ClientRequest, DetailedTask, ErrorData, GetTaskParams, GetTaskRequest, InputRequest, InputRequests, InputResponses,
    RequestId, RequestMetaObject, ServerResult, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a server may ask for something within one request.
const MOST_ROUNDS: usize = 10;
/// How long to wait before a task is looked at again, if the server does not say; and what it may say.
const POLL: Duration = Duration::from_secs(1);
const POLL_LEAST: Duration = Duration::from_millis(100);
const POLL_MOST: Duration = Duration::from_secs(60);
/// How often a call's time may pass in all, whatever progress its server tells of.
const MOST_TIMES: u32 = 30;
/// How long a request that only looks may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// How a request ended that was not answered.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Somebody stopped it, and the server was told.
    Cancelled,
    /// The connection, or the server.
    Service(ServiceError),
}

/// A request and who waits for it.
pub(crate) struct Asking<'a> {
    pub(crate) peer: &'a Peer<RoleClient>,
    pub(crate) host: &'a Host,
    pub(crate) timeout: Duration,
    pub(crate) cancel: &'a CancellationToken,
    /// Says what went wrong.
    pub(crate) words: Words<'a>,
    /// Its place in a trace, where it has one.
    pub(crate) traceparent: Option<&'a str>,
}

impl Asking<'_> {
    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(
        &self,
        request: ClientRequest,
        under_way: Option<&UnderWay>,
    ) -> Result<ServerResult, Failure> {
        let mut options = PeerRequestOptions::with_timeout(self.timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(self.timeout.saturating_mul(MOST_TIMES));
        if let Some(traceparent) = self.traceparent {
            let mut meta = RequestMetaObject::default();
            meta.set_traceparent(traceparent);
            options = options.with_meta(meta);
        }
        let handle = self.peer.send_request_with_option(request, options).await.map_err(Failure::Service)?;
        let id = handle.id.clone();
        let mut unanswered = Unanswered { peer: self.peer.clone(), id: Some(id.clone()) };
        if let Some(under_way) = under_way {
            under_way.note_sent(id.clone(), handle.progress_token.clone());
        }
        let answer = tokio::select! {
            answer = handle.await_response() => answer.map_err(Failure::Service),
            () = self.cancel.cancelled() => {
                tell_stopped(self.peer, id).await;
                Err(Failure::Cancelled)
            }
        };
        unanswered.id = None;
        answer
    }

    /// Sends a request, and again with what the server asks for, until it answers.
    pub(crate) async fn ask_on(
        &self,
        request: impl Fn(Option<InputResponses>, Option<String>) -> ClientRequest,
        client: &dyn ServerClient,
        under_way: Option<&UnderWay>,
    ) -> Result<ServerResult, Failure> {
        let (mut responses, mut state) = (None, None);
        for round in 0..MOST_ROUNDS {
            match self.ask(request(responses.take(), state.take()), under_way).await? {
                ServerResult::InputRequiredResult(wanted) => {
                    let asked = wanted.input_requests.unwrap_or_default();
                    if asked.is_empty() {
                        // It only wants to be asked again: not at once, for ever.
                        tokio::time::sleep(Duration::from_millis(50 << round.min(6))).await;
                    }
                    let answers = self.answered(asked, client).await?;
                    (responses, state) = ((!answers.is_empty()).then_some(answers), wanted.request_state);
                }
                answer => return Ok(answer),
            }
        }
        Err(Failure::Service(ServiceError::InputRequiredRoundsExceeded { max_rounds: MOST_ROUNDS }))
    }

    /// What the server wants to know, one after the other, as a person is asked.
    async fn answered(&self, asked: InputRequests, client: &dyn ServerClient) -> Result<InputResponses, Failure> {
        let mut answers = InputResponses::new();
        for (key, request) in asked {
            let answer = tokio::select! {
                answer = self.answer(request, client) => answer.map_err(|error| Failure::Service(ServiceError::McpError(error)))?,
                () = self.cancel.cancelled() => return Err(Failure::Cancelled),
            };
            answers.insert(key, answer);
        }
        Ok(answers)
    }

    async fn answer(&self, request: InputRequest, client: &dyn ServerClient) -> Result<Value, ErrorData> {
        let answer = match request {
            InputRequest::Elicitation(asked) => serde_json::to_value(self.host.elicit(client, asked.params).await),
            InputRequest::CreateMessage(asked) => serde_json::to_value(self.host.sample(client, &asked.params).await?),
            InputRequest::ListRoots(_) => serde_json::to_value(self.host.roots()),
            _ => return Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "not known here", None)),
        };
        answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// A request that nobody may wait for any longer. Dropped without an answer, the server is told.
struct Unanswered {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            let peer = self.peer.clone();
            runtime.spawn(async move { tell_stopped(&peer, id).await });
        }
    }
}

/// Tells a server that a request was stopped; it may be gone already.
async fn tell_stopped(peer: &Peer<RoleClient>, id: RequestId) {
    let told = CancelledNotificationParam::new(Some(id), Some("the user stopped it".to_owned()));
    let _ = tokio::time::timeout(Duration::from_secs(1), peer.notify_cancelled(told)).await;
}

/// What came of a call, before it is an outcome.
pub(crate) enum Called {
    /// The tool's result, as JSON.
    Result(Value),
    /// The server goes on with it, under this handle.
    Task(Value),
    /// It ended otherwise.
    Ended(Outcome),
    /// The server no longer knows the session, and has done nothing.
    Expired,
    /// The server wants somebody to log in; the scopes that are missing, where it says so.
    NeedsLogin(Option<String>),
}

/// Calls a tool.
pub(crate) async fn call(asking: &Asking<'_>, call: &ServerCall, cx: &ServerContext, under_way: &UnderWay) -> Called {
    let arguments = match &call.arguments {
        Value::Object(arguments) => arguments.clone(),
        _ => Map::new(),
    };
    let request = |responses, state| {
        let mut params = CallToolRequestParams::new(call.tool.clone()).with_arguments(arguments.clone());
        (params.input_responses, params.request_state) = (responses, state);
        ClientRequest::CallToolRequest(CallToolRequest::new(params))
    };
    match asking.ask_on(request, &*cx.client, Some(under_way)).await {
        Ok(ServerResult::CreateTaskResult(created)) => Called::Task(json!({
            "server": call.server, "tool": call.tool, "task": created.task.task_id,
            "poll_ms": created.task.poll_interval_ms,
        })),
        Ok(answer) => Called::Result(as_json(answer)),
        Err(failure) => ended(failure, call, asking, cx).await,
    }
}

/// An answer as it stands on the wire.
pub(crate) fn as_json(answer: ServerResult) -> Value {
    match answer {
        ServerResult::CustomResult(custom) => custom.0,
        known => serde_json::to_value(known).unwrap_or_default(),
    }
}

/// A person has to open an address before this can be done (2025-11-25).
const URL_ELICITATION_REQUIRED: i32 = -32_042;

async fn ended(failure: Failure, call: &ServerCall, asking: &Asking<'_>, cx: &ServerContext) -> Called {
    let error = match failure {
        Failure::Cancelled => return Called::Ended(cancelled()),
        Failure::Service(error) => error,
    };
    // What a server says is its own business; what the transport says is not.
    let is_of_transport = matches!(error, ServiceError::TransportSend(_));
    if is_of_transport
        && (error.is_authorization_required() || error.auth_challenge().is_some() || words::is_rejected(&error))
    {
        return Called::NeedsLogin(missing_scope(error.auth_challenge()));
    }
    if words::is_expired(&error) {
        return Called::Expired;
    }
    if let ServiceError::McpError(asked) = &error
        && asked.code.0 == URL_ELICITATION_REQUIRED
    {
        return Called::Ended(opened(asked, asking, cx).await);
    }
    Called::Ended(failed(&error, &call.server, asking))
}

/// Asks a person to open the addresses that an error names.
async fn opened(asked: &ErrorData, asking: &Asking<'_>, cx: &ServerContext) -> Outcome {
    let listed = asked.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
    let mut is_accepted = listed.is_some_and(|listed| !listed.is_empty());
    for elicitation in listed.into_iter().flatten() {
        let Ok(asked) = serde_json::from_value(elicitation.clone()) else {
            is_accepted = false;
            continue;
        };
        let answer = asking.host.elicit(&*cx.client, asked).await;
        is_accepted &= answer.action == rmcp::model::ElicitationAction::Accept;
    }
    Outcome::failed(match is_accepted {
        true => "The server wanted an address to be opened first, which the user has done. Call the tool again.",
        false => "The server wants an address to be opened first, which the user has not done.",
    })
}

/// What an error of a request means for its call.
fn failed(error: &ServiceError, server: &str, asking: &Asking<'_>) -> Outcome {
    match error {
        ServiceError::McpError(said) => Outcome::failed(format!(
            "{server} answered with an error: {} ({})",
            text::words(&said.message, 4_000),
            said.code.0
        )),
        ServiceError::Timeout { timeout } => Outcome::new(
            Status::TimedOut,
            format!(
                "{server} gave no result {}. It was told to stop; it may have done its work in part or whole.",
                match *timeout > asking.timeout {
                    true => format!("within {} s, the most that a call may take", timeout.as_secs()),
                    false => format!("and no sign of life for {} s", asking.timeout.as_secs()),
                }
            ),
        ),
        ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. } => {
            Outcome::failed(format!("{server} gave no result: {}.", asking.words.asking(error)))
        }
        // Whether it was heard is not known.
        _ => {
            let mut outcome = interrupted();
            outcome.text.push_str(&format!("\nNo answer came from {server}: {}.", asking.words.asking(error)));
            outcome
        }
    }
}

pub(crate) fn cancelled() -> Outcome {
    Outcome::new(
        Status::Cancelled,
        "Cancelled. The server was told to stop; it may have done its work in part or whole.",
    )
}

/// What became of a task when it was looked at.
pub(crate) enum Polled {
    /// It has ended.
    Over(Outcome),
    /// The connection was lost; the task may go on.
    Lost {
        why: String,
        /// The server no longer knows the session.
        is_expired: bool,
    },
}

/// Looks at a task until it is over.
pub(crate) async fn poll(
    asking: &Asking<'_>,
    handle: &Value,
    cx: &ServerContext,
    finish: impl Fn(&Value) -> Outcome,
) -> Polled {
    let id = handle.get("task").and_then(Value::as_str).unwrap_or_default();
    let asking = Asking { timeout: LOOK_TIMEOUT, ..*asking };
    let mut pause = pause(handle.get("poll_ms").and_then(Value::as_u64));
    let mut said = String::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cx.cancel.cancelled() => return Polled::Over(stop(&asking, id).await),
        }
        let look = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id)));
        let DetailedTask { task, payload, .. } = match asking.ask(look, None).await {
            Ok(ServerResult::GetTaskResult(looked)) => looked.task,
            Ok(_) => return Polled::Over(Outcome::failed("The server answered with what is no task.")),
            Err(Failure::Cancelled) => return Polled::Over(stop(&asking, id).await),
            Err(Failure::Service(ServiceError::McpError(error))) => {
                return Polled::Over(Outcome::failed(format!(
                    "The server does not know the task any longer: {}",
                    text::line(&error.message, 400)
                )));
            }
            Err(Failure::Service(error)) => {
                return Polled::Lost { why: asking.words.asking(&error), is_expired: words::is_expired(&error) };
            }
        };
        let words = text::line(task.status_message.as_deref().unwrap_or_default(), 500);
        if words != said && !words.is_empty() {
            cx.output.push(&format!("{words}\n"));
            said = words;
        }
        if let Some(outcome) = match payload {
            TaskPayload::Completed { result } => Some(finish(&Value::Object(result))),
            TaskPayload::Failed { error } => Some(Outcome::failed(task_error(&error))),
            TaskPayload::Cancelled => Some(Outcome::new(Status::Cancelled, "The task was cancelled.")),
            TaskPayload::InputRequired { input_requests } => answer_task(&asking, id, input_requests, cx).await,
            _ => None,
        } {
            return Polled::Over(outcome);
        }
        pause = self::pause(task.poll_interval_ms);
    }
}

fn pause(said_ms: Option<u64>) -> Duration {
    said_ms.map_or(POLL, Duration::from_millis).clamp(POLL_LEAST, POLL_MOST)
}

fn task_error(error: &Map<String, Value>) -> String {
    let words = error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
    format!("The task failed: {}", text::words(words, 4_000))
}

/// Answers what a task asks; an outcome where that ends the call.
async fn answer_task(asking: &Asking<'_>, id: &str, asked: InputRequests, cx: &ServerContext) -> Option<Outcome> {
    let answers = match asking.answered(asked, &*cx.client).await {
        Ok(answers) => answers,
        Err(Failure::Cancelled) => return Some(stop(asking, id).await),
        Err(Failure::Service(error)) => {
            return Some(Outcome::failed(format!(
                "The task asked for something that could not be had: {}",
                asking.words.asking(&error)
            )));
        }
    };
    let update = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(UpdateTaskParams::new(id, answers)));
    // Whether it was heard shows at the next look.
    let _ = asking.ask(update, None).await;
    None
}

/// Tells the server to stop a task.
async fn stop(asking: &Asking<'_>, id: &str) -> Outcome {
    let never = CancellationToken::new();
    let asking = Asking { cancel: &never, timeout: Duration::from_secs(2), ..*asking };
    let cancel = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
    let _ = asking.ask(cancel, None).await;
    cancelled()
}

/// A tool's result as an outcome.
pub(crate) fn finish(call: &ServerCall, result: &Value, output: Option<&Value>, keep: &crate::keep::Keep) -> Outcome {
    let looks_like_one = ["content", "structuredContent", "isError"].iter().any(|field| result.get(field).is_some());
    let is_empty =
        result.as_object().is_some_and(|fields| fields.keys().all(|name| name == "_meta" || name == "resultType"));
    match looks_like_one || is_empty {
        true => results::outcome(&call.server, &call.tool, result, output, keep),
        false => Outcome::failed(format!("{} answered with what is no result of a tool.", call.server)),
    }
}
