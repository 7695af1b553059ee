//! `task`: has a subagent do a part of the work in a session of its own, whose last words are the outcome.
//!
//! With `background` the outcome is that it is at work. [`TaskOutput`] says how far it is, or how it ended; [`TaskStop`] stops it.
//!
//! The engine makes that session and runs it ([`Delegate`](crate::host::Delegate)); whether it has to be made, goes on or is over already, it
//! finds out itself. So running the call and settling it are the same.

use crate::input::{lenient, parse_input, schema_of};
use crate::limits::SUBAGENT_WAIT;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{Tool, ToolContext, cancelled, interrupted};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{
    Access, BackgroundAgent, Beside, CallKind, Effects, Outcome, Planned, Resume, TaskNews, ToolSpec, Touches,
};
use piton_core::hidden;
use piton_core::ids::{CallId, SessionId};
use piton_core::permission::use_of;
use piton_core::question::QuestionBlock;
use piton_core::task::Task;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The name the model calls it by.
pub const NAME: &str = "task";

/// The tools for those in the background.
pub const OUTPUT: &str = TaskOutput::NAME;
/// The one of these that stops one.
pub const STOP: &str = TaskStop::NAME;

/// Who is meant where nobody is named.
pub const GENERAL: &str = "general";

/// The agent of ours that is called by a name of Claude Code's.
pub fn ours(name: &str) -> &str {
    match name {
        "general-purpose" => GENERAL,
        // Its `Plan` looks things up for a plan and changes nothing.
        "Explore" | "Plan" => "explore",
        other => other,
    }
}

/// What it changes, the subagent's own calls change. It waits for no command, and none waits for it.
pub(crate) const EFFECTS: Effects =
    Effects { resume: Resume::Reattach, beside: Beside::NoWrites, touches: Touches::World };

/// Characters of a title.
const TITLE_CHARS: usize = 80;

/// Bytes that all descriptions of agents may have in that of the tool; the rest are there by name.
const DESCRIPTIONS_BYTES: usize = 2_000;

/// The tool.
#[derive(Debug, Clone)]
pub struct Subagents {
    /// Name and description of everybody who can be called.
    agents: Vec<(String, String)>,
}

/// What the model sends.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The work in a few words
    pub description: String,
    /// All it has to know: it sees nothing of this conversation
    pub prompt: String,
    /// Which agent
    #[serde(alias = "agent", skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// Goes on with an earlier call: its task_id
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Another model
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Return at once; you are told of its end
    #[serde(
        default,
        alias = "run_in_background",
        deserialize_with = "lenient::flag",
        skip_serializing_if = "Option::is_none"
    )]
    pub background: Option<bool>,
    /// `worktree`: in a git worktree of its own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub isolation: Option<Isolation>,
}

/// Where a subagent works, if not beside its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In a git worktree.
    Worktree,
}

impl Input {
    /// Reads what the model sent.
    pub fn read(input: &Value) -> Result<Self, Outcome> {
        let mut input: Self = parse_input(NAME, input)?;
        let named = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.trim().is_empty());
        for field in [&mut input.subagent_type, &mut input.task_id, &mut input.model] {
            if !named(field) {
                *field = None;
            }
        }
        if input.prompt.trim().is_empty() {
            return Err(Outcome::failed("task: the prompt is empty. Say in it what the subagent shall do."));
        }
        Ok(input)
    }

    /// The agent that is called.
    pub fn agent(&self) -> &str {
        self.subagent_type.as_deref().unwrap_or(GENERAL)
    }

    /// The session whose conversation goes on.
    pub fn session(&self) -> Option<SessionId> {
        self.task_id.as_deref().map(|id| SessionId::from(id.trim()))
    }

    /// The work in one line that shows.
    pub fn title(&self) -> String {
        let line = hidden::visible_line(&self.description.split_whitespace().collect::<Vec<_>>().join(" "));
        line.chars().take(TITLE_CHARS).collect()
    }
}

impl Subagents {
    /// The tool that calls these, each with what it is for.
    pub fn new(agents: Vec<(String, String)>) -> Self {
        Self { agents }
    }

    fn described(&self) -> String {
        let mut text =
            "Has a subagent do part of the work and return its last words. Several calls in one reply run side by side. Agents:"
                .to_owned();
        let (mut left, mut unnamed) = (DESCRIPTIONS_BYTES, Vec::new());
        for (name, description) in &self.agents {
            let line = format!("\n- {name}: {description}");
            match left.checked_sub(line.len()) {
                Some(rest) => {
                    left = rest;
                    text.push_str(&line);
                }
                None => unnamed.push(name.as_str()),
            }
        }
        if !unnamed.is_empty() {
            let _ = write!(text, "\n- and {}", unnamed.join(", "));
        }
        text
    }

    fn has(&self, agent: &str) -> bool {
        self.agents.iter().any(|(name, _)| name == agent)
    }

    /// What the model sent, with our own name of the agent where it has another's.
    fn read(&self, input: &Value) -> Result<Input, Outcome> {
        let mut input = Input::read(input)?;
        let own = ours(input.agent());
        if !self.has(input.agent()) && self.has(own) {
            input.subagent_type = Some(own.to_owned());
        }
        Ok(input)
    }

    fn check(&self, input: &Value) -> Result<Input, Outcome> {
        let input = self.read(input)?;
        if self.has(input.agent()) {
            return Ok(input);
        }
        let names: Vec<&str> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
        let named = hidden::visible_line(input.agent());
        Err(Outcome::failed(format!("task: there is no agent {named}. The agents are: {}.", names.join(", "))))
    }
}

#[async_trait]
impl Tool for Subagents {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description: self.described(),
            schema: schema_of::<Input>(),
            effects: EFFECTS,
        }
    }

    fn canonical(&self, input: Value) -> Value {
        let Ok(read) = self.read(&input) else { return input };
        serde_json::to_value(read).unwrap_or(input)
    }

    fn plan(&self, input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        let input = self.check(input)?;
        let used = use_of(NAME, input.agent());
        let title = format!("{}: {}", hidden::visible_line(input.agent()), input.title());
        let (asked, prompt) = (title.clone(), input.prompt);
        let question = QuestionDraft::new(move || {
            (format!("Start the subagent {asked}?"), vec![QuestionBlock::Text { text: prompt }])
        });
        Ok(Plan::new(CallKind::Other, title, Access::Spawn, question).and(used))
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        match self.check(&input) {
            Ok(_) => self.settle(input, cx).await,
            Err(refused) => refused,
        }
    }

    async fn settle(&self, _input: Value, cx: &ToolContext) -> Outcome {
        answered(cx).await
    }
}

/// What a subagent's session comes to that answers this call.
pub(crate) async fn answered(cx: &ToolContext) -> Outcome {
    match &cx.delegate {
        Some(delegate) => delegate.delegate(&cx.cancel, &cx.output).await,
        None => interrupted(),
    }
}

/// Looking at one, and stopping one that is over, are the same again.
const LOOKS: Effects = Effects { resume: Resume::Rerun, beside: Beside::NoWrites, touches: Touches::Session };

/// Says how far a subagent in the background is, or how it ended.
#[derive(Debug, Clone, Copy)]
pub struct TaskOutput;

/// Stops a subagent in the background.
#[derive(Debug, Clone, Copy)]
pub struct TaskStop;

/// What the model sends to look at one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookAt {
    #[serde(alias = "id")]
    task_id: String,
    /// Wait at most this long for its end
    #[serde(default, alias = "timeout", deserialize_with = "lenient::count")]
    wait_ms: Option<u64>,
}

/// What the model sends to stop one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    #[serde(alias = "id", alias = "shell_id")]
    task_id: String,
}

#[async_trait]
impl TypedTool for TaskOutput {
    type Input = LookAt;
    const NAME: &'static str = "task_output";
    const DESCRIPTION: &'static str = "What a background subagent has said so far.";
    const EFFECTS: Effects = LOOKS;

    fn planned(&self, input: LookAt, _: &Look) -> Result<Plan, Outcome> {
        Ok(planned(input.task_id, "Look at this subagent?"))
    }

    async fn act(&self, input: LookAt, cx: &ToolContext) -> Outcome {
        let (task, subagent) = match left_at_work(Self::NAME, &input.task_id, cx) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let wait = Duration::from_millis(input.wait_ms.unwrap_or_default()).min(SUBAGENT_WAIT);
        let ended = async {
            match (&task.outcome, &cx.subordinates) {
                (Some(outcome), _) => Some(outcome.clone()),
                (None, Some(subordinates)) => tokio::time::timeout(wait, subordinates.over(&task.id)).await.ok(),
                (None, None) => None,
            }
        };
        match cx.cancel.run_until_cancelled(ended).await {
            None => cancelled(),
            Some(Some(ended)) => told(Self::NAME, task, subagent, &ended, "is over"),
            Some(None) => {
                let text = match &cx.subordinates {
                    Some(subordinates) => subordinates.so_far(&subagent.session).await,
                    None => String::new(),
                };
                let news = TaskNews { task: task.id.clone(), began: None, read_to: 0, is_over: false };
                Outcome::ok(text).titled(format!("{} {}", Self::NAME, task.command)).about(news)
            }
        }
    }
}

#[async_trait]
impl TypedTool for TaskStop {
    type Input = Stop;
    const NAME: &'static str = "task_stop";
    const DESCRIPTION: &'static str = "Stops a background subagent.";
    const EFFECTS: Effects = LOOKS;

    fn planned(&self, input: Stop, _: &Look) -> Result<Plan, Outcome> {
        Ok(planned(input.task_id, "Stop this subagent?"))
    }

    async fn act(&self, input: Stop, cx: &ToolContext) -> Outcome {
        let (task, subagent) = match left_at_work(Self::NAME, &input.task_id, cx) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        if let Some(outcome) = &task.outcome {
            return told(Self::NAME, task, subagent, outcome, "was over already");
        }
        let Some(subordinates) = &cx.subordinates else { return interrupted() };
        let stopped = async {
            subordinates.stop(&task.id).await;
            subordinates.over(&task.id).await
        };
        match cx.cancel.run_until_cancelled(stopped).await {
            Some(ended) => told(Self::NAME, task, subagent, &ended, "is over"),
            None => cancelled(),
        }
    }
}

fn planned(id: String, question: &'static str) -> Plan {
    let planned = Planned { kind: CallKind::Other, title: id, accesses: Vec::new() };
    Plan::of(planned, QuestionDraft::new(move || (question.to_owned(), Vec::new())))
}

/// How one ended that the model has asked about: it need not be told of that again.
fn told(tool: &str, task: &Task, subagent: &BackgroundAgent, ended: &Outcome, how: &str) -> Outcome {
    let news = TaskNews { task: task.id.clone(), began: None, read_to: 0, is_over: true };
    let text = format!("[the subagent {} {how}]\n{}", subagent.agent, ended.text);
    Outcome::ok(text).titled(format!("{tool} {}", task.command)).about(news)
}

/// The subagent that a model means: by its session, or by the call that began it.
fn left_at_work<'c>(tool: &str, id: &str, cx: &'c ToolContext) -> Result<(&'c Task, &'c BackgroundAgent), Outcome> {
    let id = id.trim();
    let task = cx.tasks.find_subagent(&SessionId::from(id)).or_else(|| cx.tasks.find(&CallId::from(id)));
    task.and_then(|task| Some((task, task.subagent.as_deref()?))).ok_or_else(|| {
        let working = cx.tasks.subagents_at_work().map(|(task, own)| format!("{} ({})", own.session, task.command));
        let working = match working.collect::<Vec<_>>() {
            none if none.is_empty() => "None is at work.".to_owned(),
            some => format!("These are at work: {}.", some.join(", ")),
        };
        let id = hidden::visible_line(id);
        Outcome::failed(format!("{tool}: no subagent `{id}` was left at work in this session. {working}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn descriptions_beyond_the_limit_are_left_out_and_their_names_are_not() {
        let long = |name: &str| (name.to_owned(), "x".repeat(900));
        let tool = Subagents::new(vec![long("one"), long("two"), long("three"), long("four")]);
        let text = tool.described();
        assert!(text.contains("- one: x") && text.contains("- two: x"));
        assert!(text.ends_with("\n- and three, four"), "{}", &text[text.len() - 40..]);
    }

    #[test]
    fn a_call_is_read_as_other_agents_write_it_and_a_wrong_one_is_told_what_there_is() {
        let tool = Subagents::new(vec![("general".into(), "anything".into()), ("explore".into(), "reads".into())]);
        let input = tool.check(&json!({"description": "look", "prompt": "where?", "agent": "explore"})).unwrap();
        assert_eq!(input.agent(), "explore");
        let input = tool.check(&json!({"description": "do", "prompt": "it", "subagent_type": ""})).unwrap();
        assert_eq!(input.agent(), GENERAL);
        let refused = |input: Value| tool.check(&input).unwrap_err().text;
        let text = refused(json!({"description": "x", "prompt": "y", "subagent_type": "expl\u{1b}[2J"}));
        assert!(text.contains("general, explore") && !text.contains('\u{1b}'), "{text}");
        assert!(refused(json!({"description": "x", "prompt": "  "})).contains("the prompt is empty"));
        assert!(refused(json!({"description": "x"})).contains("prompt"));
    }
}
