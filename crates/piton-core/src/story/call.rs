//! What a call is about, read off its name and its input: the one place that knows tools by name, for journals in which
//! nothing better is recorded.

use super::block::{CallBlock, CallStage, Caller};
use super::written::{PATHS, Written, named};
use crate::call::{Access, CallInput, CallKind, Outcome, Planned, Status};
use crate::ids::CallId;
use crate::message::ToolCall;
use serde_json::Value;

impl CallBlock {
    /// A call as the model made it.
    pub(super) fn of(call: &ToolCall) -> Self {
        let mut block = Self::writing(call.id.clone(), &call.name);
        block.stage = CallStage::Ready;
        block.takes(call.input.clone());
        block
    }

    /// A call whose arguments are still being written.
    pub(super) fn writing(call: CallId, tool: &str) -> Self {
        Self {
            call,
            tool: tool.to_owned(),
            caller: Caller::Model,
            kind: kind(tool),
            about: String::new(),
            places: Vec::new(),
            diff: None,
            input: CallInput::Json(Value::Null),
            verdict: None,
            judged: None,
            started_ms: None,
            child: None,
            sampled: Vec::new(),
            stage: CallStage::Writing(String::new()),
        }
    }

    /// What its arguments say so far, while the model writes them; `None` where nobody can tell yet.
    pub fn written(&self) -> Option<Written> {
        match &self.stage {
            CallStage::Writing(raw) => Written::of(self.kind, raw),
            CallStage::Ready | CallStage::Running(_) | CallStage::Settled(_) => None,
        }
    }

    /// The input it runs with.
    pub(super) fn takes(&mut self, input: CallInput) {
        self.about = about(&input);
        let path = input.value().and_then(|input| PATHS.iter().find_map(|name| input.get(name)?.as_str()));
        self.places = path.map(str::to_owned).into_iter().collect();
        let content =
            input.value().filter(|_| self.kind == CallKind::Edit).and_then(|input| input.get("content")?.as_str());
        self.diff = content.map(|content| content.lines().map(|line| format!("+{line}\n")).collect());
        self.input = input;
    }

    /// What its tool says of it, which counts from here on.
    pub(super) fn plans(&mut self, plan: &Planned) {
        (self.kind, self.about) = (plan.kind, plan.title.clone());
        self.places = plan.accesses.iter().filter_map(Access::path).map(str::to_owned).collect();
    }

    /// What came of it.
    pub(super) fn settle(&mut self, outcome: Outcome) {
        if let Some(input) = outcome.changed_input().filter(|input| self.input.value() != Some(input)) {
            self.takes(CallInput::Json(input.clone()));
        }
        // An edit answers with its title and what is to be said of it, and the change below.
        let change = outcome.text.find("\n@@ ").map(|at| &outcome.text[at + 1..]);
        if let Some(change) = change.filter(|_| self.kind == CallKind::Edit && outcome.status == Status::Ok) {
            self.diff = Some(change.to_owned());
        }
        self.stage = CallStage::Settled(outcome);
    }
}

/// The command, the path, the pattern, or all of the input.
fn about(input: &CallInput) -> String {
    let CallInput::Json(input) = input else { return "(broken arguments)".to_owned() };
    named(input).map_or_else(|| input.to_string(), str::to_owned)
}

fn kind(tool: &str) -> CallKind {
    match tool.to_lowercase().as_str() {
        "read" | "view" | "history" => CallKind::Read,
        "glob" | "grep" | "list" | "ls" => CallKind::Search,
        "edit" | "write" | "patch" | "apply_patch" | "multi_edit" => CallKind::Edit,
        "bash" | "shell" => CallKind::Execute,
        _ => CallKind::Other,
    }
}
