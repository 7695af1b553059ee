//! A data folder with a workspace, models that play a list, and a tool that waits: what tests of sessions begin with.

#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part; a test that cannot go on fails")]

use async_trait::async_trait;
use piton_core::call::{Effects, Outcome, Status, ToolSpec};
use piton_core::permission::Action;
use piton_engine::engine::{Engine, Handle, Settings};
use piton_models::recorded::Recorded;
use piton_tools::tool::{Tool, ToolContext};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::sync::Notify;

/// A data folder and a workspace.
pub(crate) struct Home {
    pub(crate) data: TempDir,
    pub(crate) workspace: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn engine(&self) -> Engine {
        Engine::open(self.data.path())
    }

    /// The workspace by its real name.
    pub(crate) fn folder(&self) -> PathBuf {
        self.workspace.path().canonicalize().unwrap()
    }

    pub(crate) async fn create(&self, settings: Settings) -> Handle {
        self.engine().create(&self.folder(), settings).await.unwrap()
    }
}

/// A model that gives these replies, one after the other.
pub(crate) fn recorded(lines: &[Value]) -> Recorded {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Recorded::parse(&text).unwrap()
}

/// Settings with that model, which ask nobody.
pub(crate) fn cassette(lines: &[Value]) -> Settings {
    let mut settings = Settings::new(Arc::new(recorded(lines)));
    settings.policy.permission.push("*", Action::Allow);
    settings
}

/// A reply that calls a tool.
pub(crate) fn call(name: &str, input: &Value) -> Value {
    json!({"calls": [{"name": name, "input": input}]})
}

/// A reply of words.
pub(crate) fn says(text: &str) -> Value {
    json!({"text": text})
}

/// A tool that waits until it is let go, and counts how often it ran.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) began: Notify,
    pub(crate) go: Notify,
    pub(crate) runs: AtomicUsize,
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "gate".into(), description: "Waits.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, _input: Value, cx: &ToolContext) -> Outcome {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.began.notify_one();
        tokio::select! {
            () = self.go.notified() => Outcome::ok("through"),
            () = cx.cancel.cancelled() => Outcome::new(Status::Cancelled, "stopped"),
        }
    }
}

/// The built-in tools and such a one.
pub(crate) fn with_gate(mut settings: Settings) -> (Settings, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    settings.tools = ToolSet::builtin().with(gate.clone());
    (settings, gate)
}
