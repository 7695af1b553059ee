//! The writer's side: starts a runner for a call, passes on what the command writes, and stops it when it should stop.

use super::files::{CallFiles, ExitRecord};
use super::report::{self, Tail};
use super::settle::settle_from;
use super::{RunSpec, RunnerCommand};
use crate::limits::{LIVE_EVERY, RUNNER_GRACE};
use crate::spawn::{Confinement, Env, Group, Spawn, Streams};
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

/// The runners of one session. Starting a process takes longer than most commands, so one runner is kept at hand from
/// the first call on: it waits for its orders on stdin, and goes away when that is closed, however its session ends.
#[derive(Debug)]
pub struct Runners {
    command: RunnerCommand,
    calls_dir: PathBuf,
    env: Env,
    spare: Mutex<Option<Child>>,
}

impl Runners {
    /// Runners for the calls whose files lie in this folder; `env` is their whole environment, and the commands'.
    /// Starts nothing yet.
    pub fn new(command: RunnerCommand, calls_dir: PathBuf, env: Env) -> Self {
        Self { command, calls_dir, env, spare: Mutex::new(None) }
    }

    fn take(&self) -> io::Result<Child> {
        let spare = self.lock().take();
        match spare.and_then(|mut child| matches!(child.try_wait(), Ok(None)).then_some(child)) {
            Some(child) => Ok(child),
            None => self.start(),
        }
    }

    /// Puts another runner by, if there is none. Without one the next call starts its own.
    fn restock(&self) {
        let mut spare = self.lock();
        if spare.is_none() {
            *spare = self.start().ok();
        }
    }

    fn start(&self) -> io::Result<Child> {
        std::fs::create_dir_all(&self.calls_dir)?;
        let RunnerCommand { program, args } = &self.command;
        let words = [program.as_os_str()].into_iter().chain(args.iter().map(OsString::as_os_str));
        let argv = words.chain([self.calls_dir.as_os_str()]);
        // The runner is ours; how its command is confined, it is told with the call.
        let spawn = Spawn::new(argv, &self.env, ".", Confinement::User);
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::null() };
        spawn.start_async(Group::Ours, streams)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the context's call, once and for all. Dropped half-way, it asks the runner to stop the command. `command` is
/// only for the words.
pub async fn launch(spec: &RunSpec, command: &str, cx: &ToolContext) -> Outcome {
    let Some(runners) = &cx.runners else {
        return Outcome::failed("bash: no runner configured, so shell commands cannot be run here");
    };
    if cx.cancel.is_cancelled() {
        return crate::tool::cancelled();
    }
    let files = CallFiles::new(&cx.calls_dir.join(cx.call.as_str()));
    let mut tail = Tail::new(&files, &cx.output);
    match run_to_its_end(runners, spec, &mut tail, cx).await {
        Ok(Some(record)) => {
            tail.follow();
            report::outcome(&record, &files, command, cx)
        }
        // It could not tell; the files can.
        Ok(None) => settle_from(&files, tail, command, cx).await,
        Err(error) => {
            let program = runners.command.program.display();
            Outcome::failed(format!("bash: the runner {program} cannot be started: {error}"))
        }
    }
}

/// Waits for the runner's word, not for a timer: a person waits for the answer.
async fn run_to_its_end(
    runners: &Runners,
    spec: &RunSpec,
    tail: &mut Tail,
    cx: &ToolContext,
) -> io::Result<Option<ExitRecord>> {
    let mut running = Running { child: Some(runners.take()?) };
    // A runner that was not told all does nothing, and one that took its claim did hear everything: the files say which.
    let _ = running.tell(spec).await;
    // Now there is time for it: the command runs.
    runners.restock();
    let mut ticks = tokio::time::interval(LIVE_EVERY);
    let mut asked_at: Option<Instant> = None;
    let mut last_word = running.last_word();
    let record = loop {
        tokio::select! {
            record = &mut last_word => break record,
            () = cx.cancel.cancelled(), if asked_at.is_none() => {
                running.signal(Signal::TERM);
                asked_at = Some(Instant::now());
            }
            _ = ticks.tick(), if asked_at.is_some() || cx.output.wanted() => {
                tail.follow();
                // The real clock: see `settle`.
                if asked_at.is_some_and(|at| at.elapsed() >= RUNNER_GRACE) {
                    running.signal(Signal::KILL);
                }
            }
        }
    };
    running.leave();
    Ok(record)
}

/// A runner that is ours to stop.
struct Running {
    /// `None` once it has nothing more to do for us.
    child: Option<Child>,
}

impl Running {
    async fn tell(&mut self, spec: &RunSpec) -> io::Result<()> {
        let Some(mut stdin) = self.child.as_mut().and_then(|child| child.stdin.take()) else { return Ok(()) };
        stdin.write_all(&serde_json::to_vec(spec)?).await
    }

    /// Waits until the runner has said how the call ended, or is gone: either closes its stdout.
    fn last_word(&mut self) -> Pin<Box<dyn Future<Output = Option<ExitRecord>> + Send>> {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take());
        Box::pin(async move {
            let mut said = Vec::new();
            // An error is as good as an end; the files tell the rest.
            let _ = stdout?.read_to_end(&mut said).await;
            serde_json::from_slice(&said).ok()
        })
    }

    /// Has no effect once the runner's end is known: its id may then be another's.
    fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().and_then(Child::id);
        if let Some(pid) = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Lets the runner end by itself, and collects it when it has.
    fn leave(&mut self) {
        if let Some(mut child) = self.child.take() {
            tokio::spawn(async move { child.wait().await });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}
