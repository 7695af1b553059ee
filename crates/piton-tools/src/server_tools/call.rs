//! One tool of a server: waits for the server, calls it once, and never again.

use super::{Resolved, resolve};
use crate::plan::{Look, Plan, QuestionDraft};
use crate::servers::{Pin, ServerCall, ServerContext, ServerState, ServerTool, Servers};
use crate::tool::{Tool, ToolContext, cancelled, interrupted};
use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome, ToolSpec};
use piton_core::event::Event;
use piton_core::hidden;
use piton_core::question::QuestionBlock;
use piton_core::server_tool::SEARCH;
use serde_json::{Value, json};
use std::sync::Arc;

/// Characters of a server's own words in a question.
const SHOWN_CHARS: usize = 200;
/// Characters of a call's title.
const TITLE_CHARS: usize = 200;
/// Events of a journal that are read at once.
const PAGE: usize = 500;

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct OneTool {
    servers: Arc<dyn Servers>,
    server: String,
    name: String,
    /// What its server says of it, where that is known yet.
    known: Option<ServerTool>,
}

impl OneTool {
    pub(crate) fn new(servers: Arc<dyn Servers>, server: String, name: String, known: Option<ServerTool>) -> Self {
        Self { servers, server, name, known }
    }

    /// Why a call of it is sure to fail.
    fn fault(&self) -> Option<Outcome> {
        match &self.known {
            Some(ServerTool { pin: Pin::Changed { .. }, .. }) => Some(self.changed()),
            Some(_) => None,
            None => {
                let servers = self.servers.servers();
                let server = servers.iter().find(|server| server.name == self.server)?;
                (server.state == ServerState::Ready).then(|| self.missing())
            }
        }
    }

    fn changed(&self) -> Outcome {
        let server = &self.server;
        Outcome::failed(format!(
            "The call was not run: what the server {server} says of {} has changed since the user accepted it. They can see the \
             difference with `piton mcp show {server}` and accept it with `piton mcp accept {server}`. Tell them, and go on without it.",
            self.name
        ))
    }

    fn missing(&self) -> Outcome {
        Outcome::failed(format!(
            "The call was not run: the server {} has no tool {}. Find the right one with {SEARCH}.",
            self.server, self.name
        ))
    }

    /// Calls it, once its server is ready.
    async fn call(&self, input: Value, cx: &ToolContext) -> Outcome {
        // By now it is known what the server really has.
        let servers = self.servers.servers();
        let (server, tool) = match resolve(&self.name, &servers) {
            Some(Resolved::Known(server, tool)) if server.name == self.server => (server, tool),
            Some(Resolved::Known(..) | Resolved::OfServer(_)) | None => return self.missing(),
        };
        if tool.pin != Pin::Same {
            return self.changed();
        }
        let call = ServerCall { server: server.name.clone(), tool: tool.own_name.clone(), arguments: input };
        self.servers.call(call, context(cx)).await
    }
}

/// What a server's call is given of a tool's.
fn context(cx: &ToolContext) -> ServerContext {
    ServerContext { cancel: cx.cancel.clone(), output: cx.output.clone(), client: Arc::clone(&cx.server_client) }
}

#[async_trait]
impl Tool for OneTool {
    fn spec(&self) -> ToolSpec {
        let (description, schema) = match &self.known {
            Some(tool) => (tool.description.clone(), tool.schema.clone()),
            None => (String::new(), json!({"type": "object"})),
        };
        // What a server says of its tools is not believed: any of them may do anything.
        ToolSpec { name: self.name.clone(), description, schema, effects: Effects::OPAQUE }
    }

    fn plan(&self, input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let json = if input.is_null() { "{}".to_owned() } else { input.to_string() };
        let title: String = hidden::visible_line(&json).chars().take(TITLE_CHARS).collect();
        let (name, server, says) = (self.name.clone(), self.server.clone(), self.known.as_ref().map(says));
        let question = QuestionDraft::new(move || {
            let says = says.filter(|says| !says.is_empty());
            let text = says.map(|says| format!("The server {server} says of it: {says}"));
            let note = text.map(|text| QuestionBlock::Note { text });
            (format!("Call {name}?"), std::iter::once(QuestionBlock::Json { json }).chain(note).collect())
        });
        Ok(Plan::new(CallKind::Other, title, Access::Use(self.name.clone()), question))
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let ready = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return cancelled(),
            ready = self.servers.ready(&self.server) => ready,
        };
        match ready {
            Ok(()) => self.call(if input.is_null() { json!({}) } else { input }, cx).await,
            Err(why) => Outcome::failed(format!("The call was not run: {why}")),
        }
    }

    /// A call that was under way is never made again. Only the handle of a task, where one is on record, leads to its outcome.
    async fn settle(&self, _input: Value, cx: &ToolContext) -> Outcome {
        match handle(cx).await {
            Some(handle) => self.servers.resume_task(&self.server, handle, context(cx)).await,
            None => interrupted(),
        }
    }
}

/// The handle of the task that this call began.
async fn handle(cx: &ToolContext) -> Option<Value> {
    let (mut from, mut found) = (1, None);
    loop {
        let page = cx.host.read(from, PAGE).await.ok()?;
        let Some(last) = page.last() else { return found };
        from = last.seq + 1;
        for record in page {
            match record.event {
                Event::ServerTask { call, handle } if call == cx.call => found = Some(handle),
                _ => {}
            }
        }
    }
}

/// The beginning of what a server says of a tool, on one line.
fn says(tool: &ServerTool) -> String {
    let words = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text: String = hidden::visible_line(&words).chars().take(SHOWN_CHARS).collect();
    if text.len() < words.len() {
        text.push('…');
    }
    text
}
