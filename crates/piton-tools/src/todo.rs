//! `todo`: replaces the list of todos that the model keeps for longer work. The list is the session's
//! ([`piton_core::todo`]): this tool checks it, and what follows from its outcome is recorded with that.

use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::ToolContext;
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Beside, CallKind, Effects, Outcome, Planned, Resume, Touches};
use piton_core::hidden;
use piton_core::message::ToolCall;
use piton_core::question::QuestionBlock;
use piton_core::todo::{self, TodoItem, TodoStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Todo;

const NAME: &str = todo::TOOL;

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    #[serde(alias = "todos")]
    items: Vec<Item>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Item {
    #[serde(alias = "content")]
    text: String,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ItemStatus {
    #[default]
    Pending,
    InProgress,
    #[serde(alias = "completed")]
    Done,
    #[serde(alias = "cancelled", alias = "canceled")]
    Dropped,
}

#[async_trait]
impl TypedTool for Todo {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Replaces your list of todos, for work of several steps. One is in_progress.";
    /// Two lists of one reply follow each other in its order, and a list that says "done" waits for what was done.
    const EFFECTS: Effects = Effects { resume: Resume::Rerun, beside: Beside::Alone, touches: Touches::Session };

    fn planned(&self, input: Input, _look: &Look) -> Result<Plan, Outcome> {
        let items = items(input)?;
        let title = todo::summary(&items);
        let text: Vec<String> = items.iter().map(TodoItem::to_string).collect();
        let question = QuestionDraft::new(move || {
            ("Replace the list of todos?".to_owned(), vec![QuestionBlock::Text { text: text.join("\n") }])
        });
        Ok(Plan::of(Planned { kind: CallKind::Other, title, accesses: Vec::new() }, question))
    }

    async fn act(&self, input: Input, _cx: &ToolContext) -> Outcome {
        match items(input) {
            Ok(items) => {
                let summary = todo::summary(&items);
                let title = format!("{NAME} {summary}");
                Outcome::ok(format!("{summary}.")).titled(title).with(json!({ NAME: items }))
            }
            Err(refused) => refused,
        }
    }
}

/// The list that a call asks for; nothing where it makes no sense, or is of another tool.
pub fn asked_for(call: &ToolCall) -> Vec<TodoItem> {
    let input = call.input.value().filter(|_| call.name == NAME);
    let input = input.and_then(|input| serde_json::from_value::<Input>(input.clone()).ok());
    input.and_then(|input| items(input).ok()).unwrap_or_default()
}

/// The list that is meant, each text on one line of characters that show.
fn items(input: Input) -> Result<Vec<TodoItem>, Outcome> {
    let item = |Item { text, status }: Item| {
        let (text, _) = hidden::strip(&text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let status = match status {
            ItemStatus::Pending => TodoStatus::Pending,
            ItemStatus::InProgress => TodoStatus::InProgress,
            ItemStatus::Done => TodoStatus::Done,
            ItemStatus::Dropped => TodoStatus::Dropped,
        };
        TodoItem { text: hidden::visible_line(&text), status }
    };
    let items: Vec<TodoItem> = input.items.into_iter().map(item).collect();
    match todo::fault(&items) {
        Some(fault) => Err(Outcome::failed(format!("{NAME}: {fault}. The list is as it was."))),
        None => Ok(items),
    }
}
