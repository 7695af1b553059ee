//! Where commands run: the port behind `bash`.
//!
//! An executor runs the command of a call at most once, whoever asks and however often, and knows what came of it, also
//! for somebody who was not there when it was started. [`crate::runner::Runners`] does it on this machine; an editor's
//! terminal or a daemon elsewhere can stand in. `piton_testkit::executor` holds what every one of them must keep. What a
//! command is for, and the words for how it ended, are the tool's.

use crate::spawn::{Confinement, Env, Spawn};
use async_trait::async_trait;
use piton_core::ids::CallId;
use piton_core::secrets::{Depth, Firewall, TextStream};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs the commands of one session.
#[async_trait]
pub trait Executor: Send + Sync {
    /// A command will be run soon, in this environment and so confined: what it takes may be made ready meanwhile. Called on the
    /// runtime. It may come to nothing.
    fn expect(&self, _env: &Env, _confinement: &Confinement) {}

    /// Runs a call's command and waits for its end. Whoever loses the race for a call finds what came of the winner's
    /// command. Once `watch.stop` is cancelled, the command is ended with all it started. Once `watch.leave` is, it goes on as if
    /// it had been [started](Executor::start) so, where that is possible: then this is [`ExecutorError::Left`]. Dropped half-way,
    /// it asks the command to stop.
    async fn run(&self, call: &CallId, order: &CommandSpec, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError>;

    /// Finds what came of a call that began in a process that is gone. A command that still runs is waited for, and
    /// stopped as by [`Executor::run`]; one that never ran never will from here on. Every later look finds the same. After
    /// a restart of the machine, a command of which nothing is left may have run: it is interrupted.
    async fn settle(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError>;

    /// Starts a call's command and leaves it running, beside whatever else runs: it is over when it ends by itself, when its
    /// time is up, or when somebody who settles it stops it. Waits for `moment` in case it ends at once. At most `most` commands
    /// run so at a time. Dropped half-way, it asks the command to stop.
    async fn start(
        &self,
        _call: &CallId,
        _order: &CommandSpec,
        _background: &Background,
        _stop: &CancellationToken,
    ) -> Result<Started, ExecutorError> {
        Err(ExecutorError::NotStarted("commands cannot be left running here".to_owned()))
    }

    /// What came of a command that was left running; `None` while it runs.
    async fn look(&self, _call: &CallId, _boot: Boot) -> Result<Option<ExitRecord>, ExecutorError> {
        Err(ExecutorError::NotStarted("commands cannot be left running here".to_owned()))
    }

    /// Looks after a command that was left running, whoever started it, until it is over; stops it as [`Executor::run`] does.
    async fn attend(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        self.settle(call, boot, watch).await
    }

    /// What such a command has written from this byte on, clean, without secrets, and cut as by [`Executor::output`]. While it runs,
    /// a word whose end is not there yet is left for later: it may be the beginning of a secret.
    async fn output_from(&self, call: &CallId, _from: u64, max_chars: usize, firewall: &Firewall) -> CommandOutput {
        self.output(call, max_chars, firewall).await
    }

    /// Types this into the terminal of a call's command. Answers whether that runs and has a terminal. Does not block.
    fn type_into(&self, _call: &CallId, _keys: &[u8]) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether a person wants such a command to go on when its session is closed.
    fn is_kept(&self, _call: &CallId) -> bool {
        false
    }

    /// What the call's command has written, for the model to read: cut to its beginning and end where it is longer than
    /// so many characters. Secrets are taken out before it is cut, and out of what is kept of it.
    async fn output(&self, call: &CallId, max_chars: usize, firewall: &Firewall) -> CommandOutput;
}

/// A command, and what it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command. Where `bash` is not installed, `sh` takes its place.
    pub spawn: Spawn,
    /// How long it may run, in milliseconds.
    pub timeout_ms: u64,
    /// Bytes of its output kept from the beginning; after that only the end is kept.
    pub spool_bytes: u64,
    /// Whether it gets a terminal of its own.
    pub terminal: bool,
    /// How long that waits for somebody to type before it is at the end of input, in milliseconds; `None`: it is at once.
    pub typing_ms: Option<u64>,
}

/// What is so of a command that is left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Background {
    /// How many of them run at a time, this one included.
    pub most: usize,
    /// How long it goes on where no process has its session open, in milliseconds.
    pub unattended_ms: u64,
    /// How long to wait in case it ends at once.
    pub moment: Duration,
}

/// What became of a command that was to be left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// It runs.
    Running,
    /// It has ended in the meantime.
    Over(ExitRecord),
}

/// In which boot of the machine a call's start was recorded, as seen by who settles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// In the one that is up: whatever was written since is there, synced or not.
    Current,
    /// In an earlier one, or that is not known: what was not synced may be lost.
    Earlier,
}

/// Whoever waits for a command.
#[derive(Debug, Clone, Default)]
pub struct CommandWatch {
    /// Where its output goes as it comes.
    pub output: OutputSink,
    /// Cancelled when it is to stop.
    pub stop: CancellationToken,
    /// Cancelled when nobody waits for it any longer, and it is to go on as one that was left running.
    pub leave: Leave,
}

/// How a command that somebody waits for becomes one that is left running.
#[derive(Debug, Clone, Default)]
pub struct Leave {
    /// Cancelled when it is to.
    pub now: CancellationToken,
    /// What is so of it from then on; `None`: it stays as it is.
    pub background: Option<LeftRunning>,
}

/// What is so of a command that was left running half-way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftRunning {
    /// How many commands run so at a time, this one included.
    pub most: usize,
    /// How long it may run in all, in milliseconds.
    pub timeout_ms: u64,
    /// How long it goes on where no process has its session open, in milliseconds.
    pub unattended_ms: u64,
}

/// What a command has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The text, clean and cut.
    pub text: String,
    /// Where all of it is kept.
    pub path: PathBuf,
    /// How many bytes of it were kept, before secrets were taken out. Of output from some byte on: how far it was read.
    pub bytes: u64,
}

/// Why nothing is known of a command.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// No command can be run here. Nothing happened.
    #[error("no runner is configured: shell commands are unavailable")]
    None,
    /// This one cannot be run. Nothing happened.
    #[error("{0}")]
    NotStarted(String),
    /// It goes on, as one that was left running: whoever waited for it does not any longer.
    #[error("the command was left running")]
    Left,
    /// Something may have happened.
    #[error("cannot read how this call ended: {0}")]
    Unknown(#[source] io::Error),
}

/// How a call ended, in the words of whoever saw it end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How it ended.
    pub status: CommandEnd,
    /// The exit code, if the command exited.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(default)]
    pub signal: Option<i32>,
    /// How long it ran, in milliseconds; for an interrupted one, until its last sign of life.
    #[serde(default)]
    pub duration_ms: u64,
    /// Bytes it wrote, those not kept included.
    #[serde(default)]
    pub output_bytes: u64,
    /// Bytes of it that should be in the output file.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Processes that were still there when the command ended by itself, and were killed.
    #[serde(default)]
    pub left_behind: u32,
    /// What the command has left that the sandbox took away again, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
    /// What it wanted of the network and was refused, a sentence each. Known to who waited for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Whether it ran in a sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_confined: bool,
    /// What a person typed into its terminal while that showed it: not what was typed for a password.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// What went wrong besides: why it could not be started, why output is missing, why it was interrupted.
    #[serde(default)]
    pub error: Option<String>,
}

/// The ways a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    /// The command exited by itself.
    Exited,
    /// A signal ended it that the executor did not send.
    Signaled,
    /// Its time was up.
    TimedOut,
    /// The executor was asked to stop it.
    Cancelled,
    /// It could not be started.
    SpawnFailed,
    /// Whoever ran it died: what the command did is not known. Written by a settler.
    Interrupted,
    /// It never ran and never will. Written by a settler in the boot in which the call was started.
    NotStarted,
}

impl ExitRecord {
    /// A record of this end and nothing else.
    pub fn of(status: CommandEnd) -> Self {
        Self {
            status,
            code: None,
            signal: None,
            duration_ms: 0,
            output_bytes: 0,
            kept_bytes: 0,
            left_behind: 0,
            undone: Vec::new(),
            refused: Vec::new(),
            is_confined: false,
            typed: String::new(),
            error: None,
        }
    }
}

/// Where a call's output goes while it is under way: best effort, for people who watch. The outcome repeats it.
#[derive(Clone, Default)]
pub struct OutputSink {
    listener: Option<Arc<Listener>>,
    /// What takes secrets out on the way.
    stream: Option<Arc<Mutex<TextStream>>>,
}

type Listener = dyn Fn(&str) + Send + Sync;

impl OutputSink {
    /// Hands each piece of output to `listener`, which must not block.
    pub fn new(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), stream: None }
    }

    /// The same, without secrets: what may be the beginning of one is held back until it is known.
    pub fn cleaned(firewall: &Firewall, listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let stream = (!firewall.is_off()).then(|| Arc::new(Mutex::new(firewall.stream(Depth::Everything))));
        Self { stream, ..Self::new(listener) }
    }

    /// Nobody watches.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether somebody watches.
    pub fn wanted(&self) -> bool {
        self.listener.is_some()
    }

    /// Passes on a piece of clean text.
    pub fn push(&self, text: &str) {
        match &self.stream {
            Some(stream) => self.tell(&lock(stream).push(text)),
            None => self.tell(text),
        }
    }

    /// Nothing more comes: passes on what was held back.
    pub fn finish(&self) {
        if let Some(stream) = &self.stream {
            self.tell(&lock(stream).finish());
        }
    }

    fn tell(&self, text: &str) {
        if let Some(listener) = self.listener.as_ref().filter(|_| !text.is_empty()) {
            listener(text);
        }
    }
}

fn lock(stream: &Mutex<TextStream>) -> MutexGuard<'_, TextStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for OutputSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSink").field(&self.wanted()).finish()
    }
}
