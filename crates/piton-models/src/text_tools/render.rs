//! The way to the model: tools as a section of the system prompt, the calls and results of the history as text.
//!
//! Everything is decided front to back from what is there, so a longer conversation never changes its beginning, and a
//! provider's prompt cache holds.

use super::Calls;
use crate::history::sent_input;
use piton_core::call::{Outcome, ToolSpec};
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// What the model is taught to write. Whatever it writes then is understood all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Speech {
    /// `<use_tool>`: plain enough for a model that was never trained on calls.
    #[default]
    UseTool,
    /// `<tool_call>` with JSON: what most models were trained on.
    Hermes,
}

impl Speech {
    /// A request that needs no tools: what it held of them is text now.
    pub(super) fn request(self, request: Request, calls: Calls) -> Request {
        let prompt = self.prompt(&request.tools, calls);
        let system = [request.system.as_str(), &prompt].into_iter().filter(|text| !text.is_empty());
        Request {
            system: system.collect::<Vec<_>>().join("\n\n"),
            tools: Arc::from([]),
            messages: self.messages(&request.messages),
            ..request
        }
    }

    /// The section of the system prompt that offers the tools. Without tools there is none.
    pub fn prompt(self, tools: &[ToolSpec], calls: Calls) -> String {
        if tools.is_empty() {
            return String::new();
        }
        let example = self.call("tool_name", &json!({ "argument": "value" }));
        let number = match calls {
            Calls::All => "Make several calls in one message only if none needs the result of another.",
            Calls::FirstOnly => "Make one call per message: what you write after it is dropped.",
        };
        let results = match self {
            Self::UseTool => "<function_results>",
            Self::Hermes => "<tool_response>",
        };
        let list = match self {
            Self::UseTool => tools.iter().map(described).collect::<Vec<_>>().join("\n\n"),
            Self::Hermes => {
                format!("<tools>\n{}\n</tools>", tools.iter().map(signature).collect::<Vec<_>>().join("\n"))
            }
        };
        format!(
            "# Tools\n\nYou have the tools listed below. To use one, write a call in exactly this form, outside of code \
             blocks:\n\n{example}\n\nThe arguments are one JSON object that fits the tool's schema. {number} Then end \
             your message: the result comes in the next one, in {results}. Never write a result yourself. A message \
             without a call is your answer to the user.\n\n{list}"
        )
    }

    /// A call as the model would have written it.
    pub(super) fn call(self, name: &str, input: &Value) -> String {
        match self {
            Self::UseTool => {
                format!("<use_tool>\n<tool_name>{name}</tool_name>\n<arguments>\n{input}\n</arguments>\n</use_tool>")
            }
            Self::Hermes => {
                format!("<tool_call>\n{}\n</tool_call>", json!({ "name": name, "arguments": input }))
            }
        }
    }

    /// What came of a call, as the model reads it.
    fn result(self, tool: &str, call: Option<&ToolCall>, outcome: &Outcome) -> String {
        let text = &outcome.text;
        match self {
            Self::UseTool => {
                let written = || call.map_or_else(|| json!({}), |call| sent_input(&call.input));
                let input = outcome.changed_input().cloned().unwrap_or_else(written);
                format!("[{tool} for {input:#}] result: \n<function_results>\n{text}\n</function_results>")
            }
            Self::Hermes => format!("<tool_response>\n{text}\n</tool_response>"),
        }
    }

    /// Results speak in the user's place. What the user says right after them joins them: many templates want the user
    /// and the model to take turns.
    fn messages(self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let calls = messages.iter().flat_map(|message| message.calls()).map(|call| (&call.id, call)).collect();
        let mut all: Vec<Arc<Message>> = Vec::new();
        let mut are_results_last = false;
        for message in messages {
            let parts = self.parts(message, &calls);
            match (message.role, all.last_mut()) {
                (Role::User | Role::Tool, Some(last)) if are_results_last => {
                    let last = Arc::make_mut(last);
                    last.parts = joined(last.parts.drain(..).chain(parts));
                }
                (Role::Tool, _) => {
                    let parts = joined(parts);
                    all.push(Arc::new(Message {
                        id: None,
                        role: Role::User,
                        parts,
                        interrupted: message.interrupted,
                        model: None,
                    }));
                    are_results_last = true;
                }
                (Role::User | Role::Assistant, _) => {
                    all.push(Arc::new(Message { parts, ..(**message).clone() }));
                    are_results_last = false;
                }
            }
        }
        all
    }

    /// The message's parts with its calls and results as text, neighbouring prose and calls joined.
    fn parts(self, message: &Message, calls: &HashMap<&CallId, &ToolCall>) -> Vec<Part> {
        let mut parts = Vec::new();
        for part in &message.parts {
            match part {
                Part::ToolCall(call) => {
                    let text = self.call(call.spelling(), &sent_input(&call.input));
                    match parts.last_mut() {
                        Some(Part::Text { text: before, .. }) => {
                            let gap = if before.ends_with(char::is_whitespace) { "" } else { "\n" };
                            let _ = write!(before, "{gap}{text}");
                        }
                        Some(_) | None => parts.push(Part::text(text)),
                    }
                }
                Part::ToolResult { call, tool, outcome } => {
                    parts.push(Part::text(self.result(tool, calls.get(call).copied(), outcome)));
                }
                Part::Text { .. } | Part::Reasoning { .. } | Part::Note { .. } | Part::Image { .. } => {
                    parts.push(part.clone());
                }
            }
        }
        parts
    }
}

/// Text next to text becomes one, so that the message goes out as a plain string.
fn joined(parts: impl IntoIterator<Item = Part>) -> Vec<Part> {
    let mut all = Vec::new();
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Part::Text { text, .. }), Part::Text { text: more, .. } | Part::Note { text: more, .. }) => {
                let _ = write!(text, "\n\n{more}");
            }
            (_, part) => all.push(part),
        }
    }
    all
}

fn described(tool: &ToolSpec) -> String {
    format!("## {}\n\n{}\n\nArguments: {}", tool.name, tool.description, tool.schema)
}

fn signature(tool: &ToolSpec) -> String {
    let ToolSpec { name, description, schema, effects: _ } = tool;
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
        .to_string()
}
