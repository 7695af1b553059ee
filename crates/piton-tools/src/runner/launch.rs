//! The writer's side: starts a runner, watches its output, passes on a cancel, and reads how it ended.

use super::settle::{Settled, read_exit};
use super::{RunSpec, file, kill};
use crate::tool::{OutputSink, ToolContext};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// How often new output is looked for.
pub(super) const TAIL_EVERY: Duration = Duration::from_millis(25);
/// Time a runner gets to end its command after it was told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(4);
/// Live output passed on, in bytes. More than this nobody watches; all of it is in the file.
const LIVE_BYTES: u64 = 1024 * 1024;

/// How to start a runner: the file names of the call are added as the last argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, for example `runner`.
    pub args: Vec<OsString>,
}

/// Starts a runner for this call and waits for its end. Dropping the future tells the runner to stop its command.
pub async fn launch(spec: &RunSpec, base: &Path, context: &ToolContext) -> std::io::Result<Settled> {
    let Some(runner) = &context.runner else {
        return Err(std::io::Error::other("no runner is configured, so shell commands cannot be run"));
    };
    let mut child = spawn(runner, base, &context.env)?;
    let mut guard = StopOnDrop { pid: child.id().and_then(|pid| i32::try_from(pid).ok()) };
    let order = serde_json::to_vec(spec)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&order).await?;
        stdin.shutdown().await?;
    }
    let mut tail = Tail::new(file(base, "out"), context.output.clone());
    watch(&mut child, &mut tail, context).await?;
    guard.pid = None;
    tail.pass_on();
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        // What a runner says is a line or two.
        drop(stderr.take(4096).read_to_string(&mut words).await);
    }
    match read_exit(base)? {
        Some(exit) => Ok(Settled::Ended(exit)),
        None if file(base, "claim").exists() => super::settle(base, &context.output, &context.cancel).await,
        None if words.is_empty() => Err(std::io::Error::other("the runner ended without doing anything")),
        None => Err(std::io::Error::other(words.trim().to_owned())),
    }
}

fn spawn(runner: &RunnerCommand, base: &Path, env: &BTreeMap<OsString, OsString>) -> std::io::Result<Child> {
    let mut command = Command::new(&runner.program);
    command.args(&runner.args).arg(base).env_clear().envs(env);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|error| {
        std::io::Error::new(error.kind(), format!("the runner {} could not be started: {error}", runner.program.display()))
    })
}

/// Waits for the runner's end.
async fn watch(child: &mut Child, tail: &mut Tail, context: &ToolContext) -> std::io::Result<()> {
    let mut looks = tokio::time::interval_at(tokio::time::Instant::now() + TAIL_EVERY, TAIL_EVERY);
    loop {
        tokio::select! {
            biased;
            ended = child.wait() => return ended.map(drop),
            () = context.cancel.cancelled() => break,
            _ = looks.tick() => tail.pass_on(),
        }
    }
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        kill::send(pid, Signal::TERM);
    }
    match tokio::time::timeout(STOP_WITHIN, child.wait()).await {
        Ok(ended) => ended.map(drop),
        Err(_) => child.kill().await,
    }
}

/// Tells the runner to stop when nobody waits for it any more.
struct StopOnDrop {
    pid: Option<i32>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            kill::send(pid, Signal::TERM);
        }
    }
}

/// Passes a growing file on as readable text.
pub(super) struct Tail {
    path: PathBuf,
    output: OutputSink,
    file: Option<std::fs::File>,
    offset: u64,
    /// Bytes of a character that is not complete yet.
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn new(path: PathBuf, output: OutputSink) -> Self {
        Self { path, output, file: None, offset: 0, rest: Vec::new() }
    }

    /// Passes on what is new. A file that cannot be read is no reason to fail: the whole output is read at the end.
    pub(super) fn pass_on(&mut self) {
        if self.offset < LIVE_BYTES && let Some(bytes) = self.read() {
            self.offset += bytes.len() as u64;
            self.rest.extend(bytes);
            let whole = whole_characters(&self.rest);
            let text = crate::text::readable(&self.rest[..whole]);
            self.rest.drain(..whole);
            if !text.is_empty() {
                self.output.push(&text);
            }
        }
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(std::fs::File::open(&self.path).ok()?),
        };
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut bytes = Vec::new();
        file.take(64 * 1024).read_to_end(&mut bytes).ok()?;
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// How many bytes from the beginning end with a whole character.
fn whole_characters(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    for at in (from..bytes.len()).rev() {
        let needs = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if bytes.len() - at < needs { at } else { bytes.len() };
    }
    bytes.len()
}
