//! The writer's side: starts a runner for a call, passes on what the command writes, and stops it when it should stop.

use super::RunSpec;
use super::files::CallFiles;
use super::output::{self, Tail};
use super::settle::settle_from;
use crate::executor::{Boot, CommandOutput, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord};
use crate::limits::{LIVE_EVERY, RUNNER_GRACE};
use crate::network::{self, Outlet};
use crate::private;
use crate::spawn::{Confined, Confinement, Env, Group, RunnerCommand, Spawn, Streams};
use async_trait::async_trait;
use piton_core::ids::CallId;
use piton_sandbox::{Plan, Reach};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinHandle;

/// The runners of one session. Starting a process takes longer than most commands, so a runner whose call is over is kept
/// at hand for the next one: it waits for its orders on stdin, and goes away when that is closed, however its session ends.
#[derive(Debug)]
pub struct Runners {
    /// `None`: what was run elsewhere can be settled, and nothing be run.
    command: Option<RunnerCommand>,
    calls_dir: PathBuf,
    spare: Mutex<Option<Spare>>,
}

/// The runner of the next call.
#[derive(Debug)]
enum Spare {
    /// It waits for its orders.
    AtHand(Box<Runner>),
    /// It is being started.
    Starting(JoinHandle<Result<Runner, ExecutorError>>),
}

/// A runner process, which serves one call after the other.
#[derive(Debug)]
struct Runner {
    process: Process,
    orders: OwnedWriteHalf,
    /// Where it hands over the socket of its sandbox's network; `None` once somebody waits there.
    handed: Option<OwnedReadHalf>,
    /// How each call ended, a line each.
    ends: Lines<BufReader<ChildStdout>>,
    /// What it was started in: its commands' environment.
    env: Env,
    /// The sandbox that it has made for its one command.
    plan: Option<Plan>,
}

/// The sandbox of a command; `None`: it has none.
fn confined(confinement: &Confinement) -> Option<&Confined> {
    match confinement {
        Confinement::User | Confinement::Model => None,
        Confinement::Sandbox(confined) => Some(confined),
    }
}

impl Runners {
    /// Runners for the calls whose files lie in this folder. Starts nothing yet.
    pub fn new(command: Option<RunnerCommand>, calls_dir: PathBuf) -> Self {
        Self { command, calls_dir, spare: Mutex::new(None) }
    }

    async fn take(&self, env: &Env, reach: Option<&Reach>) -> Result<Runner, ExecutorError> {
        let spare = self.lock().take();
        let spare = match spare {
            Some(Spare::AtHand(runner)) => Some(*runner),
            // A failure that lasts will be this call's own.
            Some(Spare::Starting(start)) => start.await.ok().and_then(Result::ok),
            None => None,
        };
        if let Some(runner) = spare.and_then(|spare| spare.if_fit_for(env, reach)) {
            return Ok(runner);
        }
        let started = self.start(env, reach)?.await;
        started
            .unwrap_or_else(|_| Err(ExecutorError::NotStarted("the runner was not started: Piton is leaving".into())))
    }

    /// Keeps a runner for the next call, if there is none.
    fn put_by(&self, runner: Runner) {
        let mut spare = self.lock();
        match *spare {
            None => *spare = Some(Spare::AtHand(Box::new(runner))),
            Some(_) => runner.dismiss(),
        }
    }

    /// Starts one for the next call, if there is none; nobody waits for it.
    fn start_next(&self, env: &Env, reach: Option<&Reach>) {
        let mut spare = self.lock();
        if spare.is_none() {
            *spare = self.start(env, reach).ok().map(Spare::Starting);
        }
    }

    /// Starts one beside whatever else is to be done: the plan of a sandbox takes looking through a workspace.
    fn start(
        &self,
        env: &Env,
        reach: Option<&Reach>,
    ) -> Result<JoinHandle<Result<Runner, ExecutorError>>, ExecutorError> {
        let command = self.command.clone().ok_or(ExecutorError::None)?;
        let (calls_dir, env, reach) = (self.calls_dir.clone(), Arc::clone(env), reach.cloned());
        Ok(tokio::task::spawn_blocking(move || Runner::start(&command, &calls_dir, &env, reach.as_ref())))
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
        order: &Spawn,
        tail: &mut Tail,
        watch: &CommandWatch,
    ) -> Result<Option<ExitRecord>, ExecutorError> {
        let confined = confined(&order.confinement);
        let (env, reach) = (&order.env, confined.map(|confined| &confined.reach));
        let mut runner = self.take(env, reach).await?;
        let egress = confined.and_then(|confined| confined.egress.clone());
        let outlet = egress.zip(runner.handed.take()).map(|(egress, handed)| Outlet::start(egress, handed));
        // A runner that was not told all does nothing, and one that took its claim did hear everything: the files say
        // which.
        let _ = runner.tell(spec).await;
        if reach.is_some() {
            // It serves one call. Now there is time for the next: the command runs. Without it that call starts its own.
            self.start_next(env, reach);
        }
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        let mut asked_at: Option<Instant> = None;
        let end = loop {
            tokio::select! {
                end = runner.ends.next_line() => break end,
                () = watch.stop.cancelled(), if asked_at.is_none() => {
                    runner.process.signal(Signal::TERM);
                    asked_at = Some(Instant::now());
                }
                _ = ticks.tick(), if asked_at.is_some() || watch.output.wanted() => {
                    tail.follow();
                    // The real clock: see `settle`.
                    if asked_at.is_some_and(|at| at.elapsed() >= RUNNER_GRACE) {
                        runner.process.signal(Signal::KILL);
                    }
                }
            }
        };
        runner.process.is_at_work = false;
        // An error is as good as an end; the files tell the rest.
        let mut record = end.ok().flatten().and_then(|line| serde_json::from_str::<ExitRecord>(&line).ok());
        if let Some((record, outlet)) = record.as_mut().zip(outlet) {
            record.refused = outlet.refused();
        }
        // One that was asked to stop may hear of it only now.
        if record.is_some() && asked_at.is_none() && reach.is_none() {
            self.put_by(runner);
        } else {
            runner.dismiss();
        }
        Ok(record)
    }
}

#[async_trait]
impl Executor for Runners {
    async fn run(&self, call: &CallId, order: &CommandSpec, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let Spawn { argv, cwd, .. } = &order.spawn;
        let words = argv.iter().map(|word| word.to_str().map(ToOwned::to_owned));
        let argv = words.collect::<Option<_>>().ok_or(ExecutorError::NotStarted("the command is not UTF-8".into()))?;
        let spec = RunSpec {
            call: call.clone(),
            argv,
            cwd: cwd.clone(),
            timeout_ms: order.timeout_ms,
            spool_bytes: order.spool_bytes,
        };
        let files = self.files(call);
        let mut tail = Tail::new(&files, &watch.output);
        match self.run_to_its_end(&spec, &order.spawn, &mut tail, watch).await? {
            Some(record) => {
                tail.follow();
                Ok(record)
            }
            // It could not tell; the files can.
            None => settle_from(&files, Boot::Current, tail, &watch.stop).await.map_err(ExecutorError::Unknown),
        }
    }

    async fn settle(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let files = self.files(call);
        private::make_folder(&self.calls_dir).map_err(ExecutorError::Unknown)?;
        let tail = Tail::new(&files, &watch.output);
        settle_from(&files, boot, tail, &watch.stop).await.map_err(ExecutorError::Unknown)
    }

    async fn output(&self, call: &CallId, max_chars: usize) -> CommandOutput {
        output::output(&self.files(call), max_chars)
    }
}

impl Runner {
    /// May block its thread. To be called on the runtime.
    fn start(
        runner: &RunnerCommand,
        calls_dir: &Path,
        env: &Env,
        reach: Option<&Reach>,
    ) -> Result<Self, ExecutorError> {
        let failed = |error: io::Error| {
            ExecutorError::NotStarted(format!("the runner {} cannot be started: {error}", runner.program.display()))
        };
        let plan = reach.map(Plan::of);
        let no_sandbox =
            |error: io::Error| ExecutorError::NotStarted(format!("the sandbox's own folder cannot be made: {error}"));
        let told = plan.as_ref().map(Plan::hand_over).transpose().map_err(no_sandbox)?;
        let argv = runner.to([calls_dir.as_os_str()].into_iter().chain(told.as_ref().map(|file| file.as_os_str())));
        // The runner is ours; what it makes for its command, it is told with the plan.
        let spawn = Spawn::new(argv, env, ".", Confinement::User);
        let (stdin, hears, tells) = network::channel().map_err(failed)?;
        let streams = Streams { stdin, stdout: Stdio::piped(), stderr: Stdio::null() };
        let started = private::make_folder(calls_dir).and_then(|()| spawn.start_async(Group::Ours, streams));
        started.and_then(|child| Self::new(child, (hears, tells), env, plan)).map_err(failed)
    }

    fn new(
        mut child: Child,
        (hears, orders): (OwnedReadHalf, OwnedWriteHalf),
        env: &Env,
        plan: Option<Plan>,
    ) -> io::Result<Self> {
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no pipe"))?;
        let (process, ends) = (Process { child: Some(child), is_at_work: false }, BufReader::new(stdout).lines());
        Ok(Self { process, orders, handed: Some(hears), ends, env: Arc::clone(env), plan })
    }

    /// Itself, if it lives, and can run a command in this environment and this sandbox, now.
    fn if_fit_for(mut self, env: &Env, reach: Option<&Reach>) -> Option<Self> {
        let sandbox_fits = match (&self.plan, reach) {
            (Some(plan), Some(reach)) => plan.is_for(reach) && plan.is_true(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let lives = self.process.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if lives && sandbox_fits && self.env == *env {
            return Some(self);
        }
        self.dismiss();
        None
    }

    async fn tell(&mut self, spec: &RunSpec) -> io::Result<()> {
        self.process.is_at_work = true;
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        self.orders.write_all(&line).await
    }

    /// Lets it end by itself, and collects it when it has.
    fn dismiss(mut self) {
        drop((self.orders, self.handed));
        if let Some(mut child) = self.process.child.take() {
            tokio::spawn(async move { child.wait().await });
        }
    }
}

/// A runner's process. Dropped while it is at work, it is asked to stop.
#[derive(Debug)]
struct Process {
    /// `None` once it has nothing more to do for us.
    child: Option<Child>,
    is_at_work: bool,
}

impl Process {
    /// Has no effect once the process's end is known: its id may then be another's.
    fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().and_then(Child::id);
        if let Some(pid) = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_at_work {
            self.signal(Signal::TERM);
        }
    }
}
