//! The port to MCP servers: what a session sees of them, and what it can ask of them.
//!
//! `piton-mcp` implements it; the tools (`tool_search`, `call_tool`, `read_resource`) and the engine use servers only through
//! [`Servers`]. This module must not know: transports, the protocol's messages, authorization, where entries come from.
//!
//! Every text in here comes from a server and is untrusted. An implementation has already cut it to size and replaced control
//! and invisible characters.

pub mod joined;

use crate::executor::OutputSink;
use async_trait::async_trait;
use piton_core::call::Outcome;
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The MCP servers of a session.
#[async_trait]
pub trait Servers: Debug + Send + Sync {
    /// Starts every enabled server in the background and returns at once. Called once, after the first request has left.
    fn start(&self);

    /// All servers as they are known now, sorted by name. Never waits: before a server answers, its tools are those of the
    /// manifest that it left last time.
    fn servers(&self) -> Vec<Server>;

    /// What of their entries is secret, each with a name: a server may say it back. Never waits.
    fn secrets(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A number that grows whenever [`Servers::servers`] would answer differently.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Starts this server if need be and waits until it is ready. The error says why it is not, and what to do, for the model
    /// and for people.
    async fn ready(&self, server: &str) -> Result<(), String>;

    /// Calls a tool once, after [`Servers::ready`]. Never calls it a second time, whatever happens to the connection: a call
    /// whose answer was lost is an outcome with the status `interrupted`.
    async fn call(&self, call: ServerCall, cx: ServerContext) -> Outcome;

    /// Goes on polling a task whose handle an earlier process recorded (`io.modelcontextprotocol/tasks`).
    async fn resume_task(&self, server: &str, handle: Value, cx: ServerContext) -> Outcome;

    /// The text of a prompt, its arguments filled in.
    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Vec<(String, String)>,
    ) -> Result<ServerContent, String>;

    /// What a resource holds.
    async fn read_resource(&self, server: &str, uri: &str) -> Result<ServerContent, String>;

    /// Completions of the beginning of an argument of a prompt, or of a resource template.
    async fn complete(&self, of: Completed, argument: &str, beginning: &str) -> Vec<String>;

    /// Stops all servers and their processes: closes their input, waits two seconds, then kills their process groups.
    async fn close(&self);
}

/// One server as it is known now.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name in the configuration: `[A-Za-z0-9_-]`, at most 64 characters.
    pub name: String,
    /// What it is doing.
    pub state: ServerState,
    /// What it says about its own use, cut to 2,000 characters; empty if it says nothing.
    pub instructions: String,
    /// Its tools, in an order that stays the same.
    pub tools: Arc<[ServerTool]>,
    /// Its prompts, in an order that stays the same.
    pub prompts: Arc<[ServerPrompt]>,
    /// Its resources and resource templates, in an order that stays the same.
    pub resources: Arc<[ServerResource]>,
    /// Whether its tools stand in the first request instead of behind `tool_search`.
    pub always_load: bool,
    /// What of it was left out, and why, a sentence each, for people: a tool whose schema is not one, a name that is there twice.
    pub problems: Arc<[String]>,
}

/// What a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// Not started yet; what is known of it is from its last manifest, if there is one.
    Known,
    /// It has been started and has not answered yet.
    Starting,
    /// It answers.
    Ready,
    /// It does not answer.
    Failed {
        /// Why, for people: `exited with code 1: cannot find module …`.
        why: String,
        /// In how many seconds it is tried again; nothing: it is not.
        retry_in_s: Option<u64>,
    },
    /// It wants the user to log in: `piton mcp login NAME`.
    NeedsLogin,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTool {
    /// The name that models, rules and hooks know it by: `mcp__server__tool`, at most 64 characters of `[A-Za-z0-9_-]`. Where
    /// characters were replaced or cut, it ends in a hash of the server's own name for it. Unique among all servers.
    pub name: String,
    /// The server's own name for it.
    pub own_name: String,
    /// A title for people; empty if there is none.
    pub title: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input, an object schema, as the server sent it.
    pub schema: Value,
    /// Whether the user has accepted this description and schema.
    pub pin: Pin,
}

/// Whether a tool is what the user knows it as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// It is as it was when it was first seen or last accepted.
    Same,
    /// Its description or schema has changed since; calls are refused until the user accepts the difference.
    Changed {
        /// The difference, as a unified diff.
        diff: String,
    },
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// The server's name for it.
    pub name: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Its arguments: name, description, and whether it is required.
    pub arguments: Vec<(String, String, bool)>,
}

/// A resource, or a template of resources, of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerResource {
    /// Its address, or the template of addresses (`file:///{path}`).
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is; may be empty.
    pub description: String,
    /// Whether `uri` is a template.
    pub is_template: bool,
}

/// A call of a server's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerCall {
    /// The server.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// The input, an object.
    pub arguments: Value,
}

/// What a call is given besides its input.
#[derive(Clone)]
pub struct ServerContext {
    /// Asks the call to stop. The server is told, and the call answers `cancelled`.
    pub cancel: CancellationToken,
    /// Where progress messages go, one line each.
    pub output: OutputSink,
    /// Who answers what the server asks while the call runs.
    pub client: Arc<dyn ServerClient>,
}

/// Who answers what a server asks while a call runs.
#[async_trait]
pub trait ServerClient: Debug + Send + Sync {
    /// Asks a person. `None`: nobody is there, which declines.
    async fn elicit(&self, server: &str, elicitation: Elicitation) -> Option<ElicitationAnswer>;

    /// Asks a model, after a person or a rule has allowed it. The error is told to the server.
    async fn sample(&self, server: &str, request: Value) -> Result<Value, String>;

    /// The call in the trace that its session is sent as, in the form of the header `traceparent`; `None`: it is sent nowhere.
    fn traceparent(&self) -> Option<String> {
        None
    }

    /// Records the handle of a task before it is polled, so that a later process can go on polling it.
    async fn task_begun(&self, handle: &Value) -> Result<(), String>;
}

/// Nobody answers: what is asked is declined, and nothing is recorded.
#[derive(Debug, Clone, Copy)]
pub struct NoClient;

#[async_trait]
impl ServerClient for NoClient {
    async fn elicit(&self, _server: &str, _elicitation: Elicitation) -> Option<ElicitationAnswer> {
        None
    }

    async fn sample(&self, _server: &str, _request: Value) -> Result<Value, String> {
        Err("this client does not sample models for servers".to_owned())
    }

    async fn task_begun(&self, _handle: &Value) -> Result<(), String> {
        Err("no task can be kept here".to_owned())
    }
}

/// What a server asks a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicitation {
    /// Values for a form.
    Form {
        /// What it says.
        message: String,
        /// JSON Schema of the answer: an object of strings, numbers, booleans and enums.
        schema: Value,
    },
    /// To open an address. It is shown whole and never opened unasked.
    Url {
        /// What it says.
        message: String,
        /// The address.
        url: String,
    },
}

/// How a person answered.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// With these values; for an address, `null`: the person has opened it.
    Accept(Value),
    /// They said no.
    Decline,
    /// They closed the question, or the turn was stopped.
    Cancel,
}

/// What a prompt or a resource holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerContent {
    /// All texts, joined. What cannot be text is named in words (`[audio/wav, 12 kB, kept at …]`).
    pub text: String,
    /// Pictures.
    pub pictures: Vec<piton_core::call::Picture>,
}

/// What an argument is completed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completed {
    /// A prompt of a server: server, prompt.
    Prompt(String, String),
    /// A resource template of a server: server, template.
    Template(String, String),
}
