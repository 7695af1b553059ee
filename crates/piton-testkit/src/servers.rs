//! MCP servers that are played: each does as its part says, and counts what was asked of it.

use async_trait::async_trait;
use piton_core::call::{Outcome, Picture, Status};
use piton_tools::servers::{
    Completed, Elicitation, ElicitationAnswer, Pin, Server, ServerCall, ServerContent, ServerContext, ServerPrompt,
    ServerResource, ServerState, ServerTool, Servers,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What a played server does.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its tools, once it is ready; before that they are known only where `is_known` says so.
    pub tools: Vec<ServerTool>,
    /// Whether its tools are known before it was ever started.
    pub is_known: bool,
    /// What becomes of it when it is started.
    pub start: Start,
    /// What its entry says about the first request.
    pub always_load: bool,
    /// What it says about itself.
    pub instructions: String,
    /// Its prompts.
    pub prompts: Vec<ServerPrompt>,
    /// Its resources, with what each holds.
    pub resources: Vec<(ServerResource, String)>,
    /// What of it is left out.
    pub problems: Vec<String>,
}

/// What becomes of a server that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It is ready at once.
    Ready,
    /// It never answers.
    Hangs,
    /// It fails with these words.
    Fails(String),
}

impl Part {
    /// A server that becomes ready with these tools, each of which has no description.
    pub fn ready<'t>(name: &str, tools: impl IntoIterator<Item = &'t str>) -> Self {
        Self {
            name: name.to_owned(),
            tools: tools.into_iter().map(|tool| played_tool(name, tool, "")).collect(),
            is_known: false,
            problems: Vec::new(),
            start: Start::Ready,
            always_load: false,
            instructions: String::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
        }
    }

    /// A server that never answers.
    pub fn hanging(name: &str) -> Self {
        Self { start: Start::Hangs, ..Self::ready(name, []) }
    }

    /// A server that cannot be started.
    pub fn failing(name: &str, why: &str) -> Self {
        Self { start: Start::Fails(why.to_owned()), ..Self::ready(name, []) }
    }

    /// The same, of which something is left out.
    #[must_use]
    pub fn without(self, problem: &str) -> Self {
        Self { problems: vec![problem.to_owned()], ..self }
    }

    /// The same, whose tools are known from the last time.
    #[must_use]
    pub fn known(self) -> Self {
        Self { is_known: true, ..self }
    }
}

/// A tool of a server that takes a text.
pub fn played_tool(server: &str, tool: &str, description: &str) -> ServerTool {
    ServerTool {
        name: format!("mcp__{server}__{tool}"),
        own_name: tool.to_owned(),
        title: String::new(),
        description: description.to_owned(),
        schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        pin: Pin::Same,
    }
}

/// The servers of a play.
#[derive(Debug)]
pub struct PlayedServers {
    parts: Mutex<BTreeMap<String, (Part, ServerState)>>,
    changes: watch::Sender<u64>,
    log: Mutex<Vec<String>>,
    /// What their tools ask a person for before they answer.
    asks: Mutex<Option<Elicitation>>,
    /// What they ask a model for.
    samples: Mutex<Option<Value>>,
}

impl PlayedServers {
    /// These servers; none was started.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Arc<Self> {
        let parts = parts.into_iter().map(|part| (part.name.clone(), (part, ServerState::Known))).collect();
        let (changes, _) = watch::channel(0);
        Arc::new(Self {
            parts: Mutex::new(parts),
            changes,
            log: Mutex::default(),
            asks: Mutex::default(),
            samples: Mutex::default(),
        })
    }

    /// All that was asked of them, in order: `start`, `call db query {…}`, `close`, …
    pub fn log(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    /// A server is another one from here on.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Part, &mut ServerState)) {
        if let Some((part, state)) = lock(&self.parts).get_mut(name) {
            change(part, state);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// From here on every call asks this first.
    pub fn ask(&self, elicitation: Elicitation) {
        *lock(&self.asks) = Some(elicitation);
    }

    /// From here on every call has a model asked this first, and says what the answer is.
    pub fn sample(&self, request: Value) {
        *lock(&self.samples) = Some(request);
    }

    fn note(&self, what: impl Into<String>) {
        lock(&self.log).push(what.into());
    }

    fn start_one(&self, name: &str) {
        self.change(name, |part, state| {
            if *state == ServerState::Known {
                *state = match &part.start {
                    Start::Ready => ServerState::Ready,
                    Start::Hangs => ServerState::Starting,
                    Start::Fails(why) => ServerState::Failed { why: why.clone(), retry_in_s: None },
                };
            }
        });
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Servers for PlayedServers {
    fn start(&self) {
        self.note("start");
        let names: Vec<String> = lock(&self.parts).keys().cloned().collect();
        names.iter().for_each(|name| self.start_one(name));
    }

    fn servers(&self) -> Vec<Server> {
        let parts = lock(&self.parts);
        let server = |(part, state): &(Part, ServerState)| {
            let tools = if part.is_known || *state == ServerState::Ready { part.tools.clone() } else { Vec::new() };
            Server {
                name: part.name.clone(),
                state: state.clone(),
                instructions: part.instructions.clone(),
                tools: tools.into(),
                prompts: part.prompts.clone().into(),
                resources: part.resources.iter().map(|(resource, _)| resource.clone()).collect(),
                always_load: part.always_load,
                problems: part.problems.clone().into(),
            }
        };
        parts.values().map(server).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn ready(&self, server: &str) -> Result<(), String> {
        self.start_one(server);
        let mut changes = self.changes.subscribe();
        loop {
            let state = lock(&self.parts).get(server).map(|(_, state)| state.clone());
            match state {
                None => return Err(format!("there is no server {server}")),
                Some(ServerState::Ready) => return Ok(()),
                Some(ServerState::Failed { why, .. }) => {
                    return Err(format!("the server {server} cannot be used: {why}"));
                }
                Some(ServerState::NeedsLogin) => return Err(format!("log in with `piton mcp login {server}`")),
                Some(ServerState::Known | ServerState::Starting) => {}
            }
            if changes.changed().await.is_err() {
                return Err("the play is over".to_owned());
            }
        }
    }

    async fn call(&self, call: ServerCall, cx: ServerContext) -> Outcome {
        let ServerCall { server, tool, arguments } = call;
        self.note(format!("call {server} {tool} {arguments}"));
        let asks = lock(&self.asks).clone();
        if let (Some(elicitation), "nags") = (&asks, tool.as_str()) {
            for _ in 0..20 {
                let answer = cx.client.elicit(&server, elicitation.clone()).await;
                self.note(if matches!(answer, Some(ElicitationAnswer::Accept(_))) { "accepted" } else { "declined" });
            }
            return Outcome::ok("It has asked 20 times.");
        }
        let answer = match asks {
            Some(elicitation) => match cx.client.elicit(&server, elicitation).await {
                Some(ElicitationAnswer::Accept(values)) => format!(" The person said {values}."),
                Some(ElicitationAnswer::Decline) => " The person declined.".to_owned(),
                Some(ElicitationAnswer::Cancel) => " The person cancelled.".to_owned(),
                None => " Nobody was there.".to_owned(),
            },
            None => String::new(),
        };
        let samples = lock(&self.samples).clone();
        let answer = match samples {
            Some(request) => match cx.client.sample(&server, request).await {
                Ok(message) => format!("{answer} The model said {}.", message["content"]["text"]),
                Err(why) => format!("{answer} No model was asked: {why}."),
            },
            None => answer,
        };
        if tool == "hang" {
            cx.cancel.cancelled().await;
            return Outcome::new(Status::Cancelled, "Cancelled.");
        }
        if tool == "task" {
            let handle = json!({"task": "t1"});
            if let Err(why) = cx.client.task_begun(&handle).await {
                return Outcome::failed(why);
            }
            self.note("polls t1");
        }
        Outcome::ok(format!("{server} did {tool} with {arguments}.{answer}"))
    }

    async fn resume_task(&self, server: &str, handle: Value, _cx: ServerContext) -> Outcome {
        self.note(format!("resume {server} {handle}"));
        Outcome::ok(format!("{server} has finished {handle}."))
    }

    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Vec<(String, String)>,
    ) -> Result<ServerContent, String> {
        self.note(format!("prompt {server} {prompt} {arguments:?}"));
        let given: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let pictures = vec![Picture { media_type: "image/png".to_owned(), data: "AA==".to_owned() }];
        Ok(ServerContent { text: format!("The prompt {prompt} with {}.", given.join(" ")), pictures })
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<ServerContent, String> {
        self.note(format!("read {server} {uri}"));
        let parts = lock(&self.parts);
        let (part, _) = parts.get(server).ok_or("no such server")?;
        let found = part.resources.iter().find(|(resource, _)| resource.uri == uri);
        let text = found.map(|(_, text)| text.clone()).ok_or_else(|| format!("{server} has no resource {uri}"))?;
        Ok(ServerContent { text, pictures: Vec::new() })
    }

    async fn complete(&self, _of: Completed, _argument: &str, _beginning: &str) -> Vec<String> {
        Vec::new()
    }

    async fn close(&self) {
        self.note("close");
    }
}
