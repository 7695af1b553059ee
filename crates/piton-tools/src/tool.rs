//! What a tool is, what it is given, and the one list of the tools that come with Piton.
//!
//! A tool turns an input into an [`Outcome`]. Whether the call may run at all was decided before it gets here, and
//! what it may touch is confined elsewhere: nothing in this crate asks a person or reads a rule.

use crate::bash::Bash;
use crate::edit::Edit;
use crate::glob::Glob;
use crate::grep::Grep;
use crate::host::Host;
use crate::ledger::FileLedger;
use crate::read::Read;
use crate::runner::Runners;
use crate::write::Write;
use async_trait::async_trait;
use piton_core::call::{Outcome, Status, ToolClass, ToolSpec};
use piton_core::ids::CallId;
use piton_core::limits::{BASH_DEFAULT_MS, BASH_MAX_MS, TOOL_OUTPUT_CHARS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Something the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model and the loop are told about it. Must be the same at every call.
    fn spec(&self) -> ToolSpec;

    /// The outcome of a call that is sure to fail with this input, told without doing anything: nobody is asked about
    /// such a call.
    fn sure_to_fail(&self, input: &Value) -> Option<Outcome> {
        let _ = input;
        None
    }

    /// Runs a call that never began. Called once per call, after its start was recorded. Must not panic on a bad
    /// input: a bad input is an outcome that says what was expected.
    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome;

    /// Finds the outcome of a call that had begun in a process that is gone. Must not repeat an effect that may have
    /// happened. Unless the tool knows better: what only reads is run again, anything else is interrupted.
    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        match self.spec().class {
            ToolClass::Read => self.run(input, cx).await,
            ToolClass::Write | ToolClass::Opaque => Outcome::new(
                Status::Interrupted,
                "[interrupted] This call was started once and its end was not seen. It was not run again. It may have \
                 had all, part or none of its effects: check before you repeat it.",
            ),
        }
    }
}

/// What a call is given besides its input.
#[derive(Clone)]
pub struct ToolContext {
    /// The call's id: the name of its files in `calls_dir`.
    pub call: CallId,
    /// The canonical working directory; relative paths are relative to it.
    pub workspace: PathBuf,
    /// The session that the call is in.
    pub host: Arc<dyn Host>,
    /// Where claims, outputs, intents and exit records of this session's calls lie.
    pub calls_dir: PathBuf,
    /// The session's runners. Without them, shell commands fail.
    pub runners: Option<Arc<Runners>>,
    /// Where output goes while a call is under way.
    pub output: OutputSink,
    /// Asks the call to stop. It still answers.
    pub cancel: CancellationToken,
    /// Which files the model has seen, in which state.
    pub files: Arc<FileLedger>,
    /// The whole environment of a subprocess. The caller has left out what no tool should see.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// How much of everything.
    pub limits: ToolLimits,
}

/// What one call may use. The numbers of the tools that only look are in [`crate::limits`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Characters of a command's output that the model reads; head and tail, the rest stays in a file.
    pub output_chars: usize,
    /// Time of a shell command that names none, in milliseconds.
    pub bash_default_ms: u64,
    /// The most time a shell command may name, in milliseconds.
    pub bash_max_ms: u64,
    /// Bytes of a command's output kept from its beginning; after that only the end is kept.
    pub spool_bytes: u64,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            output_chars: TOOL_OUTPUT_CHARS,
            bash_default_ms: BASH_DEFAULT_MS,
            bash_max_ms: BASH_MAX_MS,
            spool_bytes: crate::limits::SPOOL_BYTES,
        }
    }
}

/// Where a call's output goes while it is under way: best effort, for people who watch. The outcome repeats it.
#[derive(Clone, Default)]
pub struct OutputSink(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl OutputSink {
    /// Hands each piece of output to `listener`, which must not block.
    pub fn new(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Nobody watches.
    pub fn none() -> Self {
        Self(None)
    }

    /// Whether somebody watches.
    pub fn wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Passes on a piece of clean text.
    pub fn push(&self, text: &str) {
        if let Some(listener) = self.0.as_ref().filter(|_| !text.is_empty()) {
            listener(text);
        }
    }
}

impl fmt::Debug for OutputSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSink").field(&self.wanted()).finish()
    }
}

/// The tools of a session, sorted by name.
#[derive(Clone)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
    specs: Arc<[ToolSpec]>,
}

impl ToolSet {
    /// The tools that come with Piton. This is the only list of them.
    pub fn builtin() -> Self {
        Self::of([
            Arc::new(Bash) as Arc<dyn Tool>,
            Arc::new(Edit),
            Arc::new(Glob),
            Arc::new(Grep),
            Arc::new(Read),
            Arc::new(Write),
        ])
    }

    /// No tools at all.
    pub fn empty() -> Self {
        Self::of([])
    }

    /// These tools and one more; it replaces one of the same name.
    pub fn with(self, tool: Arc<dyn Tool>) -> Self {
        let name = tool.spec().name;
        Self::of(self.tools.into_iter().filter(|other| other.spec().name != name).chain([tool]))
    }

    /// The tool of this name; `READ` and `Read` mean `read` where there is no such tool.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let exact = self.specs.binary_search_by(|spec| spec.name.as_str().cmp(name)).ok();
        let at = exact.or_else(|| self.specs.iter().position(|spec| spec.name.eq_ignore_ascii_case(name)))?;
        self.tools.get(at).cloned()
    }

    /// What the tools declare, sorted by name: the same bytes at every step, so that providers can cache them.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut both: Vec<_> = tools.into_iter().map(|tool| (tool.spec(), tool)).collect();
        both.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let (specs, tools): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        Self { tools, specs: specs.into() }
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.specs.iter().map(|spec| &spec.name)).finish()
    }
}

/// Does a tool's file work on a thread that may block. A panic is an outcome, not the end of the session.
pub(crate) async fn blocking(cx: &ToolContext, work: impl FnOnce(&ToolContext) -> Outcome + Send + 'static) -> Outcome {
    if cx.cancel.is_cancelled() {
        return cancelled();
    }
    let context = cx.clone();
    match tokio::task::spawn_blocking(move || work(&context)).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Outcome::failed("the tool panicked; this is a bug in Piton"),
        Err(_) => cancelled(),
    }
}

/// The call was cancelled and had no effect.
pub(crate) fn cancelled() -> Outcome {
    Outcome::new(Status::Cancelled, "Cancelled.")
}
