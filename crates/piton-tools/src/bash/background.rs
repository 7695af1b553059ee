//! A command in the background: its call has its outcome as soon as it runs. From then on it is a task of the session, see
//! [`piton_core::task`].

use super::Input;
use super::report::{line, outcome};
use crate::executor::{Background, CommandEnd, CommandSpec, Executor, ExecutorError, ExitRecord, Started};
use crate::limits::{BACKGROUND_MOMENT, ENDED_OUTPUT_CHARS};
use crate::tool::ToolContext;
use piton_core::call::{Outcome, Status, TaskBegan, TaskNews};
use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use serde_json::json;

/// Starts it. One that ends at once is told of like any other.
pub(super) async fn start(input: &Input, order: &CommandSpec, cx: &ToolContext) -> Outcome {
    let most = cx.limits.background_most;
    if cx.tasks.commands().count() >= most {
        return Outcome::failed(format!(
            "bash: {most} commands run in the background already, and no more may: end one with bash_kill. {}",
            listed(cx)
        ));
    }
    let background = Background { most, unattended_ms: cx.limits.background_unattended_ms, moment: BACKGROUND_MOMENT };
    match cx.executor.start(&cx.call, order, &background, &cx.cancel).await {
        Ok(Started::Running) => running(input, cx).await,
        Ok(Started::Over(record)) => super::report(Ok(record), &input.command, cx).await,
        Err(error) => super::report(Err(error), &input.command, cx).await,
    }
}

/// Finds what came of one that another process was about to start.
pub(super) async fn found(input: &Input, cx: &ToolContext) -> Outcome {
    match cx.executor.look(&cx.call, cx.boot).await {
        Ok(None) => running(input, cx).await,
        Ok(Some(record)) => super::report(Ok(record), &input.command, cx).await,
        Err(error) => super::report(Err(error), &input.command, cx).await,
    }
}

/// One that was waited for, until somebody left it running.
pub(super) async fn left(input: &Input, cx: &ToolContext) -> Outcome {
    goes_on(input, cx, "The user sent this command to the background, where it goes on").await
}

async fn running(input: &Input, cx: &ToolContext) -> Outcome {
    goes_on(input, cx, "Runs in the background").await
}

async fn goes_on(input: &Input, cx: &ToolContext, how: &str) -> Outcome {
    let output = cx.executor.output_from(&cx.call, 0, cx.limits.output_chars, &cx.firewall).await;
    let mut text = format!("{how} as {}. bash_output reads it, bash_kill ends it.", cx.call);
    match output.text.trim_end_matches('\n') {
        "" => text.push_str(" No output yet."),
        said => text.push_str(&format!(" Output so far:\n{said}")),
    }
    let began = TaskBegan { command: input.command.clone(), notify: input.notify == Some(true), subagent: None };
    let news = TaskNews { task: cx.call.clone(), began: Some(began), read_to: output.bytes, is_over: false };
    let title = format!("bash {} (in the background: {})", line(&input.command), cx.call);
    Outcome::ok(text).titled(title).with(json!({"output_path": output.path})).about(news)
}

/// What came of a command in the background, by whoever looked after it: of its output only the end.
pub async fn ended(
    task: &CallId,
    command: &str,
    record: Result<ExitRecord, ExecutorError>,
    (executor, firewall): (&dyn Executor, &Firewall),
) -> Outcome {
    match record {
        Ok(record) => {
            let output = executor.output(task, ENDED_OUTPUT_CHARS, firewall).await;
            let is_stopped = record.status == CommandEnd::Cancelled;
            outcome(&record, &output, command, is_stopped)
        }
        Err(error) => Outcome::new(Status::Interrupted, format!("[interrupted] {error}")),
    }
}

/// The commands that run, for a model that has lost track of them.
pub(crate) fn listed(cx: &ToolContext) -> String {
    let running: Vec<String> =
        cx.tasks.commands().map(|task| format!("{} ({})", task.id, line(&task.command))).collect();
    if running.is_empty() { "None runs.".to_owned() } else { format!("These run: {}.", running.join(", ")) }
}
