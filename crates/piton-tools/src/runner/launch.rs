//! The writer's side: starts a runner for a call, passes on what the command writes, and stops it when it should stop.

use super::files::CallFiles;
use super::report::Tail;
use super::settle::settle_from;
use super::{RunSpec, RunnerCommand};
use crate::limits::{LIVE_EVERY, RUNNER_GRACE};
use crate::tool::ToolContext;
use piton_core::call::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Runs the context's call, once and for all. Dropped half-way, it asks the runner to stop the command. `command` is
/// only for the words.
pub async fn launch(spec: &RunSpec, command: &str, cx: &ToolContext) -> Outcome {
    let Some(runner) = &cx.runner else {
        return Outcome::failed("bash: no runner configured, so shell commands cannot be run here");
    };
    if cx.cancel.is_cancelled() {
        return crate::tool::cancelled();
    }
    let files = CallFiles::new(&cx.calls_dir.join(cx.call.as_str()));
    let mut tail = Tail::new(&files, &cx.output);
    if let Err(error) = run_to_its_end(runner, spec, &files, &mut tail, cx).await {
        return Outcome::failed(format!("bash: the runner {} cannot be started: {error}", runner.program.display()));
    }
    // Usually the exit record lies there. Otherwise the files say what is the matter.
    settle_from(&files, tail, command, cx).await
}

/// Waits for the runner's word, not for a timer: a person waits for the answer.
async fn run_to_its_end(
    runner: &RunnerCommand,
    spec: &RunSpec,
    files: &CallFiles,
    tail: &mut Tail,
    cx: &ToolContext,
) -> io::Result<()> {
    std::fs::create_dir_all(&cx.calls_dir)?;
    let mut command = Command::new(&runner.program);
    command.args(&runner.args).arg(files.base()).env_clear().envs(cx.env.iter());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running { child: Some(command.spawn()?) };
    // A runner that was not told all does nothing, and one that took its claim did hear everything: the files say which.
    let _ = running.tell(spec).await;
    let mut ticks = tokio::time::interval(LIVE_EVERY);
    let mut asked_at: Option<Instant> = None;
    let mut done = running.done();
    loop {
        tokio::select! {
            () = &mut done => break,
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
    }
    running.leave();
    Ok(())
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

    /// Waits until the exit record is there, or the runner is gone: either closes its stdout.
    fn done(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take());
        Box::pin(async move {
            let Some(mut stdout) = stdout else { return };
            let mut byte = [0];
            // An error is as good as an end; the files tell the rest.
            while matches!(stdout.read(&mut byte).await, Ok(count) if count > 0) {}
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
