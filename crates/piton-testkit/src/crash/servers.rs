//! An MCP server on the crashing machine: what its tools do is left behind, whether Piton hears of it or not.

use super::machine::Machine;
use crate::servers::played_tool;
use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_tools::servers::{Completed, Server, ServerCall, ServerContent, ServerContext, ServerState, Servers};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// The server's name.
pub(super) const NAME: &str = "machine";
/// What it does at once, and what it goes on with as a task.
pub(super) const TOOLS: [&str; 2] = ["mcp__machine__act", "mcp__machine__task"];

/// The server.
#[derive(Debug)]
pub(super) struct OnMachine {
    machine: Arc<Machine>,
    changes: watch::Sender<u64>,
}

impl OnMachine {
    pub(super) fn new(machine: Arc<Machine>) -> Arc<Self> {
        Arc::new(Self { machine, changes: watch::channel(0).0 })
    }
}

#[async_trait]
impl Servers for OnMachine {
    fn start(&self) {}

    fn servers(&self) -> Vec<Server> {
        vec![Server {
            name: NAME.to_owned(),
            state: ServerState::Ready,
            instructions: String::new(),
            tools: ["act", "task"].map(|tool| played_tool(NAME, tool, "")).into(),
            prompts: Arc::new([]),
            resources: Arc::new([]),
            always_load: false,
            problems: Arc::new([]),
        }]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn ready(&self, _server: &str) -> Result<(), String> {
        self.machine.point().await;
        Ok(())
    }

    async fn call(&self, call: ServerCall, cx: ServerContext) -> Outcome {
        let line = call.arguments["line"].as_str().unwrap_or_default().to_owned();
        self.machine.point().await;
        self.machine.leave_line(&line);
        self.machine.point().await;
        if call.tool == "task"
            && let Err(why) = cx.client.task_begun(&json!({ "line": line })).await
        {
            // Nobody knows what becomes of it.
            return Outcome::new(piton_core::call::Status::Interrupted, why);
        }
        self.machine.point().await;
        Outcome::ok(line)
    }

    async fn resume_task(&self, _server: &str, handle: Value, _cx: ServerContext) -> Outcome {
        self.machine.point().await;
        Outcome::ok(handle["line"].as_str().unwrap_or_default())
    }

    async fn prompt(&self, _: &str, _: &str, _: Vec<(String, String)>) -> Result<ServerContent, String> {
        Err("it has no prompts".to_owned())
    }

    async fn read_resource(&self, _: &str, _: &str) -> Result<ServerContent, String> {
        Err("it has no resources".to_owned())
    }

    async fn complete(&self, _: Completed, _: &str, _: &str) -> Vec<String> {
        Vec::new()
    }

    async fn close(&self) {}
}
