//! The client: all servers of a session, behind the port that tools and the engine know.

use crate::call::{self, Asking, Called, Polled};
use crate::connect::Connector;
use crate::entry::Entry;
use crate::guard::Guards;
use crate::keep::Keep;
use crate::results;
use crate::server::{Link, Managed, Patience, Shared, needs_login};
use crate::surroundings::Surroundings;
use crate::text;
use crate::words;
use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_tools::servers::{
    Completed, Elicitation, ElicitationAnswer, Server, ServerCall, ServerClient, ServerContent, ServerContext, Servers,
};
use piton_tools::tool::interrupted;
use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, GetPromptRequest, GetPromptRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, Reference, ServerResult,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Servers that start at a time.
const STARTS: usize = 8;
/// How long completions may take: somebody is typing.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
/// Completions that are shown.
const MOST_COMPLETIONS: usize = 100;
/// How often a task whose connection was lost is looked for anew.
const TASK_TRIES: u32 = 5;

/// The MCP servers of a session. Dropped, it closes them; [`Servers::close`] also waits for that.
pub struct Client {
    servers: BTreeMap<String, Arc<Managed>>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.over.cancel();
    }
}

impl Client {
    /// One that has started nothing yet. Of two entries of one name the first is taken.
    pub fn new(entries: Vec<Entry>, surroundings: Surroundings) -> Self {
        let (around, guards) = (Arc::new(surroundings), Guards::default());
        let shared = Arc::new(Shared {
            keep: Keep::new(&around.folder),
            changes: watch::Sender::new(0),
            starts: Semaphore::new(STARTS),
            over: CancellationToken::new(),
        });
        let mut servers = BTreeMap::new();
        for entry in entries {
            around.know(&entry);
            let connector =
                Connector { entry: Arc::new(entry.clone()), around: Arc::clone(&around), guards: Arc::clone(&guards) };
            servers
                .entry(entry.name.clone())
                .or_insert_with(|| Arc::new(Managed::new(entry, connector, Arc::clone(&shared))));
        }
        Self { servers, shared }
    }

    /// Accepts the tools of a server as they are now, once it is ready. Answers how many had changed.
    pub async fn accept(&self, server: &str) -> Result<usize, String> {
        self.linked(server).await?;
        self.managed(server)?.accept()
    }

    pub(crate) fn managed(&self, server: &str) -> Result<&Arc<Managed>, String> {
        self.servers.get(server).ok_or_else(|| {
            let known: Vec<&str> = self.servers.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("There is no MCP server {}. There are: {known}.", text::line(server, 64))
        })
    }

    async fn linked(&self, server: &str) -> Result<Link, String> {
        self.managed(server)?.ready(Patience::Waits).await
    }

    /// Why a tool is not called.
    fn refusal(&self, managed: &Managed, call: &ServerCall) -> Option<Outcome> {
        let (server, tool) = (&call.server, text::line(&call.tool, 120));
        match managed.is_accepted(&call.tool) {
            None => Some(Outcome::failed(format!("The MCP server {server} has no tool {tool}."))),
            Some(true) => None,
            Some(false) => Some(Outcome::new(
                piton_core::call::Status::Denied,
                format!(
                    "Not called: the user has not accepted the description and schema that {tool} of the MCP server {server} \
                     has now. `piton mcp show {server}` shows the difference, `piton mcp accept {server}` accepts it."
                ),
            )),
        }
    }

    async fn run(&self, call: &ServerCall, cx: &ServerContext) -> Outcome {
        let managed = match self.managed(&call.server) {
            Ok(managed) => managed,
            Err(why) => return Outcome::failed(why),
        };
        let ready = tokio::select! {
            ready = managed.ready(Patience::Waits) => ready,
            () = cx.cancel.cancelled() => return Outcome::new(piton_core::call::Status::Cancelled, "Cancelled. It was not called."),
        };
        let link = match ready {
            Ok(link) => link,
            Err(why) => return Outcome::failed(format!("{why} It was not called.")),
        };
        if let Some(refused) = self.refusal(managed, call) {
            return refused;
        }
        let under_way = managed.calls.begin(Arc::clone(&cx.client), cx.output.clone());
        let traceparent = cx.client.traceparent();
        let asking = Asking { traceparent: traceparent.as_deref(), ..asking(&link, managed, &cx.cancel) };
        match call::call(&asking, call, cx, &under_way).await {
            Called::Result(result) => self.finished(managed, call, &result),
            Called::Ended(outcome) => outcome,
            Called::Expired => {
                managed.expire(&link).await;
                Outcome::failed(format!(
                    "The session with {} had ended (HTTP 404): it should not have run this call, and the call was not sent again. \
                     The next call opens a new session.",
                    call.server
                ))
            }
            Called::NeedsLogin(missing) => {
                managed.locked_out(missing.as_deref()).await;
                let missing = missing.map(|scopes| format!(" It wants more scopes: {}.", text::line(&scopes, 200)));
                Outcome::failed(format!(
                    "{}{} It was not called.",
                    needs_login(&call.server),
                    missing.unwrap_or_default()
                ))
            }
            Called::Task(handle) => match cx.client.task_begun(&handle).await {
                Ok(()) => self.wait_for_task(managed, link, call, &handle, cx).await,
                Err(error) => {
                    let mut outcome = interrupted();
                    outcome.text.push_str(&format!(
                        "\nThe server goes on with it as a task, whose handle could not be recorded: {error}"
                    ));
                    outcome
                }
            },
        }
    }

    fn finished(&self, managed: &Managed, call: &ServerCall, result: &Value) -> Outcome {
        let manifest = managed.manifest();
        let output = manifest.catalogue.tool(&call.tool).and_then(|tool| tool.output.as_ref());
        call::finish(call, result, output, &self.shared.keep)
    }

    /// Looks at a task until it is over; over a new connection where one is lost, since looking changes nothing.
    async fn wait_for_task(
        &self,
        managed: &Arc<Managed>,
        mut link: Link,
        call: &ServerCall,
        handle: &Value,
        cx: &ServerContext,
    ) -> Outcome {
        let mut why = String::new();
        for _ in 0..TASK_TRIES {
            let _under_way = managed.calls.begin(Arc::clone(&cx.client), cx.output.clone());
            let asking = asking(&link, managed, &cx.cancel);
            why = match call::poll(&asking, handle, cx, |result| self.finished(managed, call, result)).await {
                Polled::Over(outcome) => return outcome,
                Polled::Lost { why, is_expired } => {
                    if is_expired {
                        managed.expire(&link).await;
                    }
                    why
                }
            };
            let again = tokio::select! {
                again = managed.ready(Patience::Insists) => again,
                () = cx.cancel.cancelled() => return call::cancelled(),
            };
            link = match again {
                Ok(link) => link,
                Err(more) => {
                    why = more;
                    break;
                }
            };
        }
        let mut outcome = interrupted();
        outcome.text.push_str(&format!("\nThe server went on with it as a task, and can no longer be asked: {why}"));
        outcome
    }

    async fn look(
        &self,
        server: &str,
        request: impl Fn(Option<BTreeMap<String, Value>>, Option<String>) -> ClientRequest,
    ) -> Result<Value, String> {
        let (mut link, managed) = (self.linked(server).await?, self.managed(server)?);
        let never = CancellationToken::new();
        let mut answer = asking(&link, managed, &never).ask_on(&request, &Nobody, None).await;
        if let Err(call::Failure::Service(error)) = &answer
            && words::is_expired(error)
        {
            // Looking changes nothing.
            managed.expire(&link).await;
            link = self.linked(server).await?;
            answer = asking(&link, managed, &never).ask_on(&request, &Nobody, None).await;
        }
        match answer {
            Ok(answer) => Ok(call::as_json(answer)),
            Err(call::Failure::Cancelled) => Err("It was cancelled.".to_owned()),
            Err(call::Failure::Service(error))
                if error.is_authorization_required() || error.auth_challenge().is_some() =>
            {
                managed.locked_out(None).await;
                Err(needs_login(server))
            }
            Err(call::Failure::Service(error)) => {
                Err(format!("The MCP server {server} gave no answer: {}.", managed.words().asking(&error)))
            }
        }
    }
}

fn asking<'a>(link: &'a Link, managed: &'a Managed, cancel: &'a CancellationToken) -> Asking<'a> {
    let (timeout, words) = (managed.entry.call_timeout, managed.words());
    Asking { peer: &link.peer, host: &link.host, timeout, cancel, words, traceparent: None }
}

#[async_trait]
impl Servers for Client {
    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        drop(tokio::task::spawn_blocking(move || shared.keep.sweep()));
        for managed in self.servers.values() {
            let managed = Arc::clone(managed);
            tokio::spawn(async move {
                // Its state says what came of it.
                let _ = managed.ready(Patience::Waits).await;
            });
        }
    }

    fn servers(&self) -> Vec<Server> {
        self.servers.values().map(|managed| managed.shown()).collect()
    }

    fn secrets(&self) -> Vec<(String, String)> {
        self.servers.values().flat_map(|managed| managed.entry.secrets()).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    async fn ready(&self, server: &str) -> Result<(), String> {
        self.linked(server).await.map(drop)
    }

    async fn call(&self, call: ServerCall, cx: ServerContext) -> Outcome {
        let mut outcome = self.run(&call, &cx).await;
        if outcome.title.is_empty() {
            outcome.title = results::title(&call.server, &call.tool);
        }
        outcome
    }

    async fn resume_task(&self, server: &str, handle: Value, cx: ServerContext) -> Outcome {
        let tool = handle.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
        let call = ServerCall { server: server.to_owned(), tool, arguments: Value::Null };
        let managed = match self.managed(server) {
            Ok(managed) => managed,
            Err(why) => return lost(&why),
        };
        let ready = tokio::select! {
            ready = managed.ready(Patience::Waits) => ready,
            () = cx.cancel.cancelled() => return lost("the user stopped it before its server was there"),
        };
        match ready {
            Ok(link) => self.wait_for_task(managed, link, &call, &handle, &cx).await,
            Err(why) => lost(&why),
        }
    }

    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Vec<(String, String)>,
    ) -> Result<ServerContent, String> {
        let arguments: Map<String, Value> =
            arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let result = self.look(server, |responses, state| {
            let mut params = GetPromptRequestParams::new(prompt);
            params.arguments = (!arguments.is_empty()).then(|| arguments.clone());
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        });
        Ok(results::prompt(&result.await?, &self.shared.keep))
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<ServerContent, String> {
        let result = self.look(server, |responses, state| {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        });
        Ok(results::resource(&result.await?, &self.shared.keep))
    }

    async fn complete(&self, of: Completed, argument: &str, beginning: &str) -> Vec<String> {
        let (server, of) = match of {
            Completed::Prompt(server, prompt) => (server, Reference::for_prompt(prompt)),
            Completed::Template(server, template) => (server, Reference::for_resource(template)),
        };
        // Nobody waits for a server while typing.
        let Ok(managed) = self.managed(&server) else { return Vec::new() };
        let Some(link) = managed.link() else { return Vec::new() };
        let params = CompleteRequestParams::new(of, ArgumentInfo::new(argument, beginning));
        let never = CancellationToken::new();
        let asking = Asking { timeout: COMPLETION_TIMEOUT, ..asking(&link, managed, &never) };
        match asking.ask(ClientRequest::CompleteRequest(CompleteRequest::new(params)), None).await {
            Ok(ServerResult::CompleteResult(result)) => {
                let values = result.completion.values.into_iter().take(MOST_COMPLETIONS);
                values.map(|value| text::line(&value, 500)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn close(&self) {
        self.shared.over.cancel();
        for managed in self.servers.values() {
            managed.given_up().await;
            managed.close().await;
        }
    }
}

fn lost(why: &str) -> Outcome {
    let mut outcome = interrupted();
    outcome.text.push_str(&format!("\nThe server went on with it as a task, and cannot be asked: {why}"));
    outcome
}

/// Who answers where no call is under way: nobody.
#[derive(Debug)]
struct Nobody;

#[async_trait]
impl ServerClient for Nobody {
    async fn elicit(&self, _server: &str, _elicitation: Elicitation) -> Option<ElicitationAnswer> {
        None
    }

    async fn sample(&self, _server: &str, _request: Value) -> Result<Value, String> {
        Err("nobody answers here".to_owned())
    }

    async fn task_begun(&self, _handle: &Value) -> Result<(), String> {
        Ok(())
    }
}
