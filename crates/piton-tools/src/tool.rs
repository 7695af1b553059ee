//! The trait of a tool, and the context it runs in.
//!
//! A tool turns an input into an [`Outcome`]. Whether the call may run at all was decided before it gets here, and
//! what it may touch is confined elsewhere: nothing in this crate asks a person or reads a rule.

use crate::after_edit::AfterEdit;
use crate::executor::{Boot, Executor, OutputSink};
use crate::files::Files;
use crate::host::{Delegate, Host, Subordinates};
use crate::ledger::FileLedger;
use crate::plan::{Look, Plan};
use crate::servers::ServerClient;
use crate::spawn::Confinement;
use async_trait::async_trait;
use piton_core::call::{Access, Outcome, Status, ToolSpec, Touches, UNDONE, undone_line};
use piton_core::ids::{CallId, SessionId};
use piton_core::limits::{
    BACKGROUND_MAX_MS, BACKGROUND_MOST, BACKGROUND_UNATTENDED_MS, BASH_DEFAULT_MS, BASH_MAX_MS, TOOL_OUTPUT_CHARS,
};
use piton_core::progress::REPEAT_NOTE;
use piton_core::secrets::Firewall;
use piton_core::task::Tasks;
use piton_core::truncate::OutputCut;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Something the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model and the loop are told about it. Must be the same at every call.
    fn spec(&self) -> ToolSpec;

    /// The same input with the tool's own field names, as everyone except the model sees it.
    fn canonical(&self, input: Value) -> Value {
        input
    }

    /// What a call with this input will access, and the question about it; or the outcome of a call that is certain to
    /// fail, which needs no question. The loop itself calls this before every call, so it must neither block nor access
    /// the disk. Whatever the question needs from the disk waits until it is worded ([`QuestionDraft`](crate::plan::QuestionDraft)).
    fn plan(&self, input: &Value, look: &Look) -> Result<Plan, Outcome> {
        let _ = look;
        Ok(Plan::unknown(&self.spec(), input))
    }

    /// Runs a call that has not started. Called once per call, after its start was recorded. Must not panic on bad
    /// input: the outcome then says what was expected. Must not block its thread, and must answer soon after
    /// `cx.cancel` is cancelled; otherwise the call is abandoned, and its thread with it.
    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome;

    /// Finds the outcome of a call that another, dead process had started, if its effects say to ask the
    /// tool ([`Resume`](piton_core::call::Resume)). Must not repeat an effect that may have happened.
    async fn settle(&self, _input: Value, _cx: &ToolContext) -> Outcome {
        interrupted()
    }
}

/// What a call is given besides its input.
#[derive(Clone)]
pub struct ToolContext {
    /// The session of the call.
    pub session: SessionId,
    /// The call's id, unique in the session.
    pub call: CallId,
    /// What it may access: what its plan says, by which it was judged.
    pub accesses: Arc<[Access]>,
    /// The canonical working directory; relative paths are relative to it.
    pub workspace: PathBuf,
    /// When its start was recorded; needed to settle it.
    pub boot: Boot,
    /// The session of the call.
    pub host: Arc<dyn Host>,
    /// Hands the call to a subagent, if a subagent is to answer it.
    pub delegate: Option<Arc<dyn Delegate>>,
    /// Who answers what an MCP server asks while a call of its tool runs.
    pub server_client: Arc<dyn ServerClient>,
    /// Its subagents in the background; none where there can be none.
    pub subordinates: Option<Arc<dyn Subordinates>>,
    /// Runs shell commands.
    pub executor: Arc<dyn Executor>,
    /// The session's background commands and subagents.
    pub tasks: Arc<Tasks>,
    /// Where output goes while a call is under way.
    pub output: OutputSink,
    /// Asks the call to stop. It still answers.
    pub cancel: CancellationToken,
    /// Cancelled when a person wants the call to continue in the background. Only `bash` can do that.
    pub leave: CancellationToken,
    /// Which files the model has seen, in which state.
    pub ledger: Arc<FileLedger>,
    /// The files that it reads and changes.
    pub files: Arc<dyn Files>,
    /// How the model's commands are confined.
    pub confinement: Confinement,
    /// The complete environment of a subprocess. The caller has removed what no tool should see.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// Redacts secrets in what is stored, shown and sent.
    pub firewall: Firewall,
    /// What runs on files that the call has changed.
    pub after_edits: Arc<[AfterEdit]>,
    /// How much of everything.
    pub limits: ToolLimits,
    /// How to truncate an output that is too long for the model. A tool that can say where it stopped stops earlier.
    pub output_cut: OutputCut,
}

/// What one call may use. The limits of read-only tools are in [`crate::limits`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Characters of a command's output that the model reads; head and tail, the rest stays in a file.
    pub output_chars: usize,
    /// The default time limit of a shell command, in milliseconds.
    pub bash_default_ms: u64,
    /// The longest time limit that a shell command may ask for, in milliseconds.
    pub bash_max_ms: u64,
    /// Background commands at a time.
    pub background_most: usize,
    /// The time limit of each, in milliseconds.
    pub background_max_ms: u64,
    /// How long one keeps running while no process has its session open, in milliseconds.
    pub background_unattended_ms: u64,
    /// Bytes of a command's output kept from its beginning; after that only the end is kept.
    pub spool_bytes: u64,
    /// How long a command's terminal waits for a person to type before it is at the end of input, in milliseconds; `None`: nobody would.
    pub typing_ms: Option<u64>,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            output_chars: TOOL_OUTPUT_CHARS,
            bash_default_ms: BASH_DEFAULT_MS,
            bash_max_ms: BASH_MAX_MS,
            background_most: BACKGROUND_MOST,
            background_max_ms: BACKGROUND_MAX_MS,
            background_unattended_ms: BACKGROUND_UNATTENDED_MS,
            spool_bytes: crate::limits::SPOOL_BYTES,
            typing_ms: None,
        }
    }
}

/// Does a tool's file work on a thread that may block. A panic is an outcome, not the end of the session.
pub(crate) async fn blocking(
    cx: &ToolContext,
    work: impl FnOnce(&ToolContext) -> Result<Outcome, Outcome> + Send + 'static,
) -> Outcome {
    if cx.cancel.is_cancelled() {
        return cancelled();
    }
    let context = cx.clone();
    match tokio::task::spawn_blocking(move || work(&context)).await {
        Ok(Ok(outcome) | Err(outcome)) => outcome,
        Err(error) if error.is_panic() => Outcome::failed("the tool panicked; this is a bug in Piton"),
        Err(_) => cancelled(),
    }
}

/// Tells what a sandbox has moved away as with the outcome of a command.
pub(crate) fn tell_moved(outcome: &mut Outcome, moved: Vec<String>) {
    for said in moved {
        outcome.text = format!("{}\n{}", outcome.text.trim_end(), undone_line(&said));
        let undone = outcome.metadata.as_object_mut().map(|facts| facts.entry(UNDONE).or_insert_with(|| json!([])));
        if let Some(undone) = undone.and_then(Value::as_array_mut) {
            undone.push(said.into());
        }
    }
}

/// Tells a model that looks at the same thing again that nothing has changed, and how often it has looked.
pub(crate) fn counted(mut outcome: Outcome, question: &str, cx: &ToolContext) -> Outcome {
    let times = cx.ledger.times_answered(question, &outcome.text);
    if times > 1 {
        let note = format!("\n(You have already seen this: nothing has changed. Times read: {times}.)");
        outcome.text.push_str(&note);
        outcome.metadata[REPEAT_NOTE] = note.into();
    }
    outcome
}

/// The call had begun and nobody knows how it ended.
pub fn interrupted() -> Outcome {
    Outcome::new(
        Status::Interrupted,
        "[interrupted] This call was started once and its end was not seen. It was not run again. It may have had all, \
         part or none of its effects: check before you repeat it.",
    )
}

/// The call was cancelled and went on: whoever waited for it does so no more.
pub fn abandoned(touches: Touches) -> Outcome {
    let text = "It did not stop when it was asked to and was abandoned.";
    match touches {
        Touches::Nothing => Outcome::new(Status::Cancelled, format!("Cancelled. {text} It changes nothing.")),
        Touches::Session | Touches::Workspace | Touches::World => Outcome::new(
            Status::Interrupted,
            format!(
                "[interrupted] {text} Its effect is unknown: it may have had all, part or none of it, and may still go on. \
                 Check before you repeat it."
            ),
        ),
    }
}

/// The call was cancelled and had no effect.
pub(crate) fn cancelled() -> Outcome {
    Outcome::new(Status::Cancelled, "Cancelled.")
}
