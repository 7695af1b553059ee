//! What a command of the user's has a subagent do, or what they ask one by its name: a call of [`TOOL`] that the user makes. It is a step of the turn like any other,
//! judged, run and settled as a call of the model's, except that no model is asked for it. The model reads its outcome in the
//! step after it.

use crate::call::CallInput;
use crate::ids::CallId;
use crate::message::{FinishReason, Part, ToolCall};
use crate::model::Reply;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool that calls subagents.
pub const TOOL: &str = "task";

/// What the model reads in place of the command's words, which only the subagent gets.
pub const TOLD: &str = "The following tool was executed by the user";

/// What it reads after the outcome.
pub(crate) const GO_ON: &str = "Summarize the task tool output above and continue with your task.";

/// Work for a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtask {
    /// The agent.
    pub agent: String,
    /// The work in a few words.
    pub description: String,
    /// What the agent is told.
    pub prompt: String,
    /// The model, if it is not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether a person asked the agent by its name (`@agent words`): then no rule for [`TOOL`] keeps it from working.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_name: bool,
}

/// The reply that calls these, in the place of a model's.
pub fn reply(subtasks: &[Subtask]) -> Reply {
    Reply::new(subtasks.iter().map(|subtask| Part::ToolCall(subtask.call())).collect(), FinishReason::ToolCalls)
}

impl Subtask {
    /// Its call; the id is given where the reply is recorded.
    fn call(&self) -> ToolCall {
        let Self { agent, description, prompt, model, by_name: _ } = self;
        let mut input = json!({"description": description, "prompt": prompt, "subagent_type": agent});
        if let Some(model) = model {
            input["model"] = json!(model);
        }
        let input = CallInput::from_value(input);
        ToolCall { id: CallId::from(""), provider_id: None, name: TOOL.to_owned(), spelling: None, input, opaque: None }
    }
}
