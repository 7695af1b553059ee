//! Running a call, or settling one that another process began: from its start on record to its outcome.
//!
//! After a restart a call that had begun is not begun again: its tool says what became of it. A cancel asks the tool to stop
//! and waits for its outcome, but not for ever: a tool that hangs is abandoned after a grace, which is an outcome. A panic is
//! an outcome, too: the call has failed.

use super::Done;
use piton_core::call::{CallInput, Outcome, Resume, Status, Touches};
use piton_core::hidden;
use piton_core::ids::CallId;
use piton_core::message::ToolCall;
use piton_core::truncate::OutputCut;
use piton_tools::limits::{ABANDON_GRACE, ABANDON_LOOK_GRACE};
use piton_tools::private;
use piton_tools::snapshot::Snapshots;
use piton_tools::tool::{Tool, ToolContext, abandoned, interrupted};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Who started a call.
pub(crate) enum Start {
    /// This process: it is run.
    Here,
    /// Another one: it is settled as its effects say. What it may have changed shows beside the workspace before it.
    Elsewhere { resume: Resume, before: Option<(Arc<Snapshots>, String)> },
}

pub(super) async fn run(
    call: &ToolCall,
    tool: Arc<dyn Tool>,
    context: &ToolContext,
    cut: OutputCut,
    start: Start,
) -> Outcome {
    let began = Instant::now();
    let input = match &call.input {
        CallInput::Json(value) => value.clone(),
        CallInput::Invalid { .. } => serde_json::Value::Null,
    };
    let work = async {
        match &start {
            Start::Here | Start::Elsewhere { resume: Resume::Rerun, .. } => tool.run(input, context).await,
            Start::Elsewhere { resume: Resume::Verify | Resume::Keyed | Resume::Reattach, .. } => {
                tool.settle(input, context).await
            }
            Start::Elsewhere { resume: Resume::Never, .. } => interrupted(),
        }
    };
    let mut outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        touches = grace_after(&context.cancel, &*tool) => abandoned(touches),
    };
    if let (Status::Interrupted, Start::Elsewhere { before: Some((store, tree)), .. }) = (outcome.status, start) {
        let changed = tokio::task::spawn_blocking(move || changed_since(&store, &tree)).await;
        outcome.text.push_str(&changed.unwrap_or_default());
    }
    if outcome.duration_ms == 0 {
        outcome.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    cap(&mut outcome, cut, context);
    outcome
}

/// Ends when a call that was asked to stop need not be waited for any longer. Answers what it may have changed.
async fn grace_after(cancel: &CancellationToken, tool: &dyn Tool) -> Touches {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    cancel.cancelled().await;
    let touches = tool.spec().effects.touches;
    let grace = if touches == Touches::Nothing { ABANDON_LOOK_GRACE } else { ABANDON_GRACE };
    // The real clock, not tokio's: a process takes its time even where a test's clock stands still.
    let asked = Instant::now();
    while asked.elapsed() < grace {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    touches
}

/// Which files are not as they were before the step of a call whose end nobody saw; empty where that cannot be said.
fn changed_since(store: &Snapshots, before: &str) -> String {
    /// More would not help the model.
    const MOST: usize = 40;
    let changes = before.parse().ok().and_then(|before| store.diff(before, store.take().ok()?.id).ok());
    let Some(changes) = changes else { return String::new() };
    if changes.is_empty() {
        return "\nNo file has changed since just before it began.".to_owned();
    }
    let mut text = "\nFiles that have changed since just before it began:".to_owned();
    for change in changes.iter().take(MOST) {
        let name = hidden::visible_name(&change.path.to_string_lossy());
        text.push_str(&format!("\n- {name} ({})", change.kind));
    }
    if let Some(more) = changes.len().checked_sub(MOST).filter(|more| *more > 0) {
        text.push_str(&format!("\n- and {more} more"));
    }
    text
}

/// Cuts what a tool did not cut itself; the whole text stays in the session's folder.
pub(super) fn cap(outcome: &mut Outcome, cut: OutputCut, context: &ToolContext) {
    // A tool that keeps its whole output elsewhere has cut what it returns; notices may have come on top.
    if outcome.metadata.get("output_path").is_some() {
        return;
    }
    let Some(mut text) = cut.cut(&outcome.text) else { return };
    let path = context.calls_dir.join(format!("{}.full", context.call));
    let kept = private::make_folder(&context.calls_dir).and_then(|()| private::write(&path, outcome.text.as_bytes()));
    if kept.is_ok() {
        text.push_str(&format!("\n[full output: {}]", path.display()));
        if !outcome.metadata.is_object() {
            outcome.metadata = json!({});
        }
        outcome.metadata["output_path"] = json!(path);
    }
    outcome.text = text;
}

/// It panicked: that must not take the session with it.
pub(super) fn broken(call: &CallId, why: &str) -> Done {
    let outcome = Outcome::new(Status::Failed, format!("The tool failed inside Piton: {why}."));
    Done::Settled { call: call.clone(), outcome, hooked: None }
}
