//! The writer's side: starts a runner for a call, passes on what the command writes, and stops it when it should stop.

use super::files::CallFiles;
use super::output::{self, Tail};
use super::settle::settle_from;
use super::{RunSpec, RunnerCommand};
use crate::executor::{CommandOutput, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord};
use crate::limits::{LIVE_EVERY, RUNNER_GRACE};
use crate::private;
use crate::spawn::{Confinement, Env, Group, Spawn, Streams};
use async_trait::async_trait;
use piton_core::ids::CallId;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

/// The runners of one session. Starting a process takes longer than most commands, so one runner is kept at hand from
/// the first call on: it waits for its orders on stdin, and goes away when that is closed, however its session ends.
#[derive(Debug)]
pub struct Runners {
    /// `None`: what was run elsewhere can be settled, and nothing be run.
    command: Option<RunnerCommand>,
    calls_dir: PathBuf,
    spare: Mutex<Option<Spare>>,
}

/// A runner without a call, and the environment that it was started in: its command's.
#[derive(Debug)]
struct Spare {
    child: Child,
    env: Env,
}

impl Runners {
    /// Runners for the calls whose files lie in this folder. Starts nothing yet.
    pub fn new(command: Option<RunnerCommand>, calls_dir: PathBuf) -> Self {
        Self { command, calls_dir, spare: Mutex::new(None) }
    }

    fn take(&self, env: &Env) -> Result<Child, ExecutorError> {
        let spare = self.lock().take().filter(|spare| spare.env == *env);
        match spare.and_then(|mut spare| matches!(spare.child.try_wait(), Ok(None)).then_some(spare.child)) {
            Some(child) => Ok(child),
            None => self.start(env),
        }
    }

    /// Puts another runner by, if there is none. Without one the next call starts its own.
    fn restock(&self, env: &Env) {
        let mut spare = self.lock();
        if spare.is_none() {
            *spare = self.start(env).ok().map(|child| Spare { child, env: Arc::clone(env) });
        }
    }

    fn start(&self, env: &Env) -> Result<Child, ExecutorError> {
        let RunnerCommand { program, args } = self.command.as_ref().ok_or(ExecutorError::None)?;
        let words = [program.as_os_str()].into_iter().chain(args.iter().map(OsString::as_os_str));
        let argv = words.chain([self.calls_dir.as_os_str()]);
        // The runner is ours; how its command is confined, it is told with the call.
        let spawn = Spawn::new(argv, env, ".", Confinement::User);
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::null() };
        let started = private::make_folder(&self.calls_dir).and_then(|()| spawn.start_async(Group::Ours, streams));
        started.map_err(|error| {
            ExecutorError::NotStarted(format!("the runner {} cannot be started: {error}", program.display()))
        })
    }

    fn files(&self, call: &CallId) -> CallFiles {
        CallFiles::new(&self.calls_dir.join(call.as_str()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Spare>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the runner's word, not for a timer: a person waits for the answer. `None`: it could not tell.
    async fn run_to_its_end(
        &self,
        spec: &RunSpec,
        env: &Env,
        tail: &mut Tail,
        watch: &CommandWatch,
    ) -> Result<Option<ExitRecord>, ExecutorError> {
        let mut running = Running { child: Some(self.take(env)?) };
        // A runner that was not told all does nothing, and one that took its claim did hear everything: the files say
        // which.
        let _ = running.tell(spec).await;
        // Now there is time for it: the command runs.
        self.restock(env);
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        let mut asked_at: Option<Instant> = None;
        let mut last_word = running.last_word();
        let record = loop {
            tokio::select! {
                record = &mut last_word => break record,
                () = watch.stop.cancelled(), if asked_at.is_none() => {
                    running.signal(Signal::TERM);
                    asked_at = Some(Instant::now());
                }
                _ = ticks.tick(), if asked_at.is_some() || watch.output.wanted() => {
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
}

#[async_trait]
impl Executor for Runners {
    async fn run(&self, call: &CallId, order: &CommandSpec, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let Spawn { argv, env, cwd, confinement } = &order.spawn;
        let words = argv.iter().map(|word| word.to_str().map(ToOwned::to_owned));
        let argv = words.collect::<Option<_>>().ok_or(ExecutorError::NotStarted("the command is not UTF-8".into()))?;
        let spec = RunSpec {
            call: call.clone(),
            argv,
            cwd: cwd.clone(),
            confinement: *confinement,
            timeout_ms: order.timeout_ms,
            spool_bytes: order.spool_bytes,
        };
        let files = self.files(call);
        let mut tail = Tail::new(&files, &watch.output);
        match self.run_to_its_end(&spec, env, &mut tail, watch).await? {
            Some(record) => {
                tail.follow();
                Ok(record)
            }
            // It could not tell; the files can.
            None => settle_from(&files, tail, &watch.stop).await.map_err(ExecutorError::Unknown),
        }
    }

    async fn settle(&self, call: &CallId, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let files = self.files(call);
        private::make_folder(&self.calls_dir).map_err(ExecutorError::Unknown)?;
        let tail = Tail::new(&files, &watch.output);
        settle_from(&files, tail, &watch.stop).await.map_err(ExecutorError::Unknown)
    }

    async fn output(&self, call: &CallId, max_chars: usize) -> CommandOutput {
        output::output(&self.files(call), max_chars)
    }
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
