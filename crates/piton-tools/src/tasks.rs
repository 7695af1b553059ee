//! `bash_output` and `bash_kill`: what a model does with a command that it has left running. Both touch the session alone.

use crate::bash::{ending, line, listed, outcome};
use crate::executor::{Boot, CommandWatch, ExecutorError, ExitRecord};
use crate::input::lenient;
use crate::limits::OUTPUT_WAIT;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, cancelled};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Beside, CallKind, Effects, Outcome, Planned, Resume, TaskNews, Touches};
use piton_core::ids::CallId;
use piton_core::task::Task;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reading what was read, and ending what is over, are the same again.
const EFFECTS: Effects = Effects { resume: Resume::Rerun, beside: Beside::NoWrites, touches: Touches::Session };

/// The tool that reads.
#[derive(Debug, Clone, Copy)]
pub struct BashOutput;

/// The tool that ends.
#[derive(Debug, Clone, Copy)]
pub struct BashKill;

/// What the model sends to read.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Read {
    #[serde(alias = "bash_id", alias = "task_id", alias = "shell_id")]
    id: String,
    #[serde(default, deserialize_with = "lenient::count")]
    since: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    wait_ms: Option<u64>,
}

/// What the model sends to end one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kill {
    #[serde(alias = "bash_id", alias = "task_id", alias = "shell_id")]
    id: String,
}

#[async_trait]
impl TypedTool for BashOutput {
    type Input = Read;
    const NAME: &'static str = "bash_output";
    const DESCRIPTION: &'static str = "Reads a background command's output.";
    const EFFECTS: Effects = EFFECTS;

    fn planned(&self, input: Read, _: &Look) -> Result<Plan, Outcome> {
        Ok(plan(input.id, "Read the output of this command?"))
    }

    async fn act(&self, input: Read, cx: &ToolContext) -> Outcome {
        let task = match find(Self::NAME, &input.id, cx) {
            Ok(task) => task,
            Err(outcome) => return outcome,
        };
        let from = input.since.unwrap_or(task.read_to);
        let wait = Duration::from_millis(input.wait_ms.unwrap_or_default()).min(OUTPUT_WAIT);
        if !wait.is_zero() {
            let more = tokio::time::timeout(wait, more(task, from, cx));
            if cx.cancel.run_until_cancelled(more).await.is_none() {
                return cancelled();
            }
        }
        let record = match look(task, cx).await {
            Ok(record) => record,
            Err(error) => return Outcome::failed(format!("{}: {error}", Self::NAME)),
        };
        let output = cx.executor.output_from(&task.id, from, cx.limits.output_chars, &cx.firewall).await;
        let read_to = output.bytes.max(from);
        let state = match &record {
            Some(record) => format!("[{} is over: {}]", task.id, ending(record)),
            None if read_to > cx.limits.spool_bytes => {
                format!("[{} runs; only the end of what comes is kept, and read when it is over]", task.id)
            }
            None => format!("[{} runs; {read_to} bytes so far]", task.id),
        };
        let text = match output.text.trim_end_matches('\n') {
            "" => format!("(no new output)\n{state}"),
            text => format!("{text}\n{state}"),
        };
        let news = TaskNews { task: task.id.clone(), began: None, read_to, is_over: record.is_some() };
        let title = format!("{} {} {}", Self::NAME, task.id, line(&task.command));
        Outcome::ok(text).titled(title).with(serde_json::json!({"output_path": output.path})).about(news)
    }
}

#[async_trait]
impl TypedTool for BashKill {
    type Input = Kill;
    const NAME: &'static str = "bash_kill";
    const DESCRIPTION: &'static str = "Ends a background command.";
    const EFFECTS: Effects = EFFECTS;

    fn planned(&self, input: Kill, _: &Look) -> Result<Plan, Outcome> {
        Ok(plan(input.id, "End this command?"))
    }

    async fn act(&self, input: Kill, cx: &ToolContext) -> Outcome {
        let task = match find(Self::NAME, &input.id, cx) {
            Ok(task) => task,
            Err(outcome) => return outcome,
        };
        // Its end may be known a moment before it stands in the journal.
        let was_over = task.outcome.is_some() || matches!(look(task, cx).await, Ok(Some(_)));
        let watch = CommandWatch::default();
        watch.stop.cancel();
        let record = match cx.executor.settle(&task.id, boot(task), &watch).await {
            Ok(record) => record,
            Err(error) => return Outcome::failed(format!("{}: {error}", Self::NAME)),
        };
        let output = cx.executor.output_from(&task.id, task.read_to, cx.limits.output_chars, &cx.firewall).await;
        let ended = outcome(&record, &output, &task.command, true);
        let said = if was_over { "was over already" } else { "is over" };
        let news = TaskNews { task: task.id.clone(), began: None, read_to: output.bytes, is_over: true };
        let title = format!("{} {} {}", Self::NAME, task.id, line(&task.command));
        Outcome::ok(format!("[{} {said}: {}]\n{}", task.id, ending(&record), ended.text)).titled(title).about(news)
    }
}

fn plan(id: String, question: &'static str) -> Plan {
    let planned = Planned { kind: CallKind::Other, title: id, accesses: Vec::new() };
    let question = QuestionDraft::new(move || (question.to_owned(), Vec::new()));
    Plan::of(planned, question)
}

/// The task that a model means.
fn find<'c>(tool: &str, id: &str, cx: &'c ToolContext) -> Result<&'c Task, Outcome> {
    let task = cx.tasks.find(&CallId::from(id.trim())).filter(|task| task.subagent.is_none());
    task.ok_or_else(|| {
        let id = piton_core::hidden::visible_line(id);
        Outcome::failed(format!("{tool}: no command `{id}` was left running in this session. {}", listed(cx)))
    })
}

async fn look(task: &Task, cx: &ToolContext) -> Result<Option<ExitRecord>, ExecutorError> {
    cx.executor.look(&task.id, boot(task)).await
}

fn boot(task: &Task) -> Boot {
    if task.is_of_this_boot { Boot::Current } else { Boot::Earlier }
}

/// Waits for output behind this byte, or the end.
async fn more(task: &Task, from: u64, cx: &ToolContext) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    loop {
        let is_more = cx.executor.output_from(&task.id, from, 0, &cx.firewall).await.bytes > from;
        if is_more || !matches!(look(task, cx).await, Ok(None)) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
