//! The writer's side: starts a runner for a call, passes on what the command writes, and stops it when it should stop.

use super::RunSpec;
use super::background::LookedAfter;
use super::files::CallFiles;
use super::main::SHARES;
use super::output::{self, Tail};
use super::processes::this_process;
use super::settle::{Settled, running, settle_from, settle_once};
use super::typing;
use crate::executor::{
    Background, Boot, CommandOutput, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord, Started,
};
use crate::limits::{LIVE_EVERY, RUNNER_GRACE, STOPPING_EVERY};
use crate::network::{self, Outlet};
use crate::private;
use crate::spawn::{Confined, Confinement, Env, Group, RunnerCommand, Spawn, Streams};
use async_trait::async_trait;
use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use piton_sandbox::{Backend, Plan, Reach, SharedNetwork};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdout};
use tokio::sync::oneshot;
use tokio::sync::watch::Sender;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The runners of one session. Starting a process takes longer than most commands, so a runner whose call is over is kept
/// at hand for the next one: it waits for its orders on stdin, and goes away when that is closed, however its session ends.
#[derive(Debug)]
pub struct Runners {
    /// `None`: what was run elsewhere can be settled, and nothing be run.
    command: Option<RunnerCommand>,
    calls_dir: PathBuf,
    spare: Mutex<Option<Spare>>,
    looked_after: LookedAfter,
    /// The network of the commands in the background, as long as some run.
    shared: Mutex<Option<Arc<SharedNetwork>>>,
    /// What the commands that run now were shown, each as long as its runner is there.
    at_work: Arc<Mutex<Vec<Weak<Plan>>>>,
    /// Held while a command in the background is started whose network others are to have.
    starting: tokio::sync::Mutex<()>,
}

/// The runner of the next call.
#[derive(Debug)]
enum Spare {
    /// It waits for its orders.
    AtHand(Box<Runner>),
    /// It is being started, or will be in a moment.
    Starting(Launch),
}

/// A runner on its way.
#[derive(Debug)]
struct Launch {
    runner: JoinHandle<Result<Runner, ExecutorError>>,
    /// Told that somebody waits for it. Dropped before it begins, it is not begun.
    hurry: oneshot::Sender<()>,
}

impl Launch {
    async fn now(self) -> Option<Runner> {
        // It has begun by itself.
        let _ = self.hurry.send(());
        self.runner.await.ok().and_then(Result::ok)
    }
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
    plan: Option<Arc<Plan>>,
    /// The network of that, where it is that of others.
    shared: Option<Arc<SharedNetwork>>,
}

/// How long a command has the machine to itself before the sandbox of the next one is made.
const HEAD_START: Duration = Duration::from_millis(20);
/// How long what follows a command has it: its result goes to the model meanwhile.
const RESULT_FIRST: Duration = Duration::from_millis(4);

/// By this line a runner says that a command runs which is left running.
const STARTED: &str = "started";

fn leaving() -> ExecutorError {
    ExecutorError::NotStarted("the runner was not started: Piton is leaving".into())
}

/// The sandbox of a command; `None`: it has none.
fn confined(confinement: &Confinement) -> Option<&Confined> {
    match confinement {
        Confinement::User | Confinement::Model => None,
        Confinement::Sandbox(confined) => Some(confined),
    }
}

/// What a command is shown: beside those that run already.
fn planned(reach: &Reach, at_work: &Mutex<Vec<Weak<Plan>>>) -> Plan {
    let others: Vec<Arc<Plan>> = {
        let at_work = at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.iter().filter_map(Weak::upgrade).collect()
    };
    Plan::of(reach).beside(others.iter().map(|plan| &**plan))
}

/// What a runner is told of a call.
fn spec(call: &CallId, order: &CommandSpec) -> Result<RunSpec, ExecutorError> {
    let Spawn { argv, cwd, .. } = &order.spawn;
    let words = argv.iter().map(|word| word.to_str().map(ToOwned::to_owned));
    let argv = words.collect::<Option<_>>().ok_or(ExecutorError::NotStarted("the command is not UTF-8".into()))?;
    Ok(RunSpec {
        call: call.clone(),
        argv,
        cwd: cwd.clone(),
        timeout_ms: order.timeout_ms,
        spool_bytes: order.spool_bytes,
        terminal: order.terminal,
        typing_ms: order.typing_ms,
        unattended_ms: None,
    })
}

impl Runners {
    /// Runners for the calls whose files lie in this folder. Starts nothing yet.
    pub fn new(command: Option<RunnerCommand>, calls_dir: PathBuf) -> Self {
        Self {
            command,
            calls_dir,
            spare: Mutex::new(None),
            looked_after: LookedAfter::default(),
            shared: Mutex::default(),
            at_work: Arc::default(),
            starting: tokio::sync::Mutex::default(),
        }
    }

    async fn take(&self, env: &Env, reach: Option<&Reach>) -> Result<Runner, ExecutorError> {
        let spare = self.lock().take();
        let spare = match spare {
            Some(Spare::AtHand(runner)) => Some(*runner),
            // A failure that lasts will be this call's own.
            Some(Spare::Starting(launch)) => launch.now().await,
            None => None,
        };
        if let Some(runner) = spare.and_then(|spare| spare.if_fit_for(env, reach, self.shared(reach).as_ref())) {
            return Ok(runner);
        }
        let Launch { runner, hurry: _hurry } = self.launch(env, reach, Duration::ZERO)?;
        runner.await.unwrap_or_else(|_| Err(leaving()))
    }

    /// Keeps a runner for the next call, if there is none.
    fn put_by(&self, runner: Runner) {
        let mut spare = self.lock();
        match *spare {
            None => *spare = Some(Spare::AtHand(Box::new(runner))),
            Some(_) => runner.dismiss(),
        }
    }

    /// Starts one for the next call in a sandbox, if there is none; nobody waits for it. A sandbox serves one call, and without this that
    /// call would make its own.
    fn start_next(&self, order: &Spawn, after: Duration) {
        if let Some(confined) = confined(&order.confinement) {
            self.start_spare(&order.env, Some(&confined.reach), after);
        }
    }

    fn start_spare(&self, env: &Env, reach: Option<&Reach>, after: Duration) {
        let mut spare = self.lock();
        if spare.is_none() {
            *spare = self.launch(env, reach, after).ok().map(Spare::Starting);
        }
    }

    /// Starts one beside whatever else is to be done, after so long or when somebody waits for it: the plan of a sandbox takes looking
    /// through a workspace.
    fn launch(&self, env: &Env, reach: Option<&Reach>, after: Duration) -> Result<Launch, ExecutorError> {
        let command = self.command.clone().ok_or(ExecutorError::None)?;
        let (calls_dir, env, reach) = (self.calls_dir.clone(), Arc::clone(env), reach.cloned());
        let shared = self.shared(reach.as_ref());
        let at_work = Arc::clone(&self.at_work);
        let start = move || {
            let plan = reach.as_ref().map(|reach| planned(reach, &at_work));
            Runner::start(&command, &calls_dir, &env, plan, shared)
        };
        let (hurry, hurried) = oneshot::channel();
        let runner = if after.is_zero() {
            tokio::task::spawn_blocking(start)
        } else {
            tokio::spawn(async move {
                tokio::select! {
                    told = hurried => told.map_err(|_| leaving())?,
                    () = tokio::time::sleep(after) => {}
                }
                tokio::task::spawn_blocking(start).await.unwrap_or_else(|_| Err(leaving()))
            })
        };
        Ok(Launch { runner, hurry })
    }

    /// The network that a sandbox is to have: where commands in the background run, theirs, so that it reaches their servers.
    fn shared(&self, reach: Option<&Reach>) -> Option<Arc<SharedNetwork>> {
        if reach?.backend != Backend::Namespaces {
            return None;
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.looked_after.is_any() {
            *shared = None;
        }
        shared.clone()
    }

    /// From here on calls have the network of this runner's command. Where it cannot be had they do not reach its servers.
    fn share(&self, runner: Option<Pid>) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_none() {
            *shared = runner.and_then(|runner| SharedNetwork::of(runner).ok().flatten()).map(Arc::new);
        }
    }

    fn files(&self, call: &CallId) -> CallFiles {
        CallFiles::new(&self.calls_dir.join(call.as_str()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Spare>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a runner begin, and opens to it the hosts that it may reach.
    async fn order(&self, spec: &RunSpec, order: &Spawn) -> Result<(Runner, Option<Outlet>), ExecutorError> {
        let confined = confined(&order.confinement);
        let (env, reach) = (&order.env, confined.map(|confined| &confined.reach));
        let mut runner = self.take(env, reach).await?;
        if let Some(plan) = &runner.plan {
            let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
            at_work.retain(|plan| plan.strong_count() > 0);
            at_work.push(Arc::downgrade(plan));
        }
        let egress = confined.and_then(|confined| confined.egress.clone());
        let outlet = egress.zip(runner.handed.take()).map(|(egress, handed)| Outlet::start(egress, handed));
        // A runner that was not told all does nothing, and one that took its claim did hear everything: the files say
        // which.
        let _ = runner.tell(spec).await;
        Ok((runner, outlet))
    }

    /// Has a runner begin a command that is left running. Answers when that runs for so long, or what came of it before.
    async fn begin(
        &self,
        spec: &RunSpec,
        order: &CommandSpec,
        moment: Duration,
        stop: &CancellationToken,
        tells: Sender<Option<Option<ExitRecord>>>,
    ) -> Result<Option<Started>, ExecutorError> {
        let mut starting = Some(self.starting.lock().await);
        let (mut runner, outlet) = self.order(spec, &order.spawn).await?;
        self.start_next(&order.spawn, Duration::ZERO);
        runner.process.kept = Some(self.files(&spec.call).kept());
        let mut until = None;
        loop {
            let is_time = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let word = tokio::select! {
                word = runner.ends.next_line() => word,
                () = is_time => break,
                () = stop.cancelled(), if until.is_none() => {
                    runner.process.signal(Signal::TERM);
                    until = Some(tokio::time::Instant::now() + RUNNER_GRACE);
                    continue;
                }
            };
            match word {
                Ok(Some(word)) if word == STARTED => {
                    self.share(runner.process.id());
                    starting = None;
                    until = Some(tokio::time::Instant::now() + moment);
                }
                word => {
                    let record = runner.heard(word, outlet);
                    let _ = tells.send(Some(record.clone()));
                    return Ok(record.map(Started::Over));
                }
            }
        }
        drop(starting);
        tokio::spawn(async move {
            let word = runner.ends.next_line().await;
            // Nobody may look after it any more.
            let _ = tells.send(Some(runner.heard(word, outlet)));
        });
        Ok(Some(Started::Running))
    }

    /// Makes of a command that is waited for one that is left running; `None` where that cannot be.
    fn leave(&self, call: &CallId, watch: &CommandWatch) -> Option<Sender<Option<Option<ExitRecord>>>> {
        let background = watch.leave.background?;
        // Its runner reads that when its time is up.
        self.files(call).leave(&background).ok()?;
        let tells = self.looked_after.enter(call, background.most);
        if tells.is_none() {
            self.files(call).stay();
        }
        tells
    }

    /// Waits for the runner's word, not for a timer: a person waits for the answer. `None`: it could not tell.
    async fn run_to_its_end(
        &self,
        spec: &RunSpec,
        order: &Spawn,
        tail: &mut Tail,
        watch: &CommandWatch,
    ) -> Result<Option<ExitRecord>, ExecutorError> {
        let (mut runner, outlet) = self.order(spec, order).await?;
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        let mut asked_at: Option<Instant> = None;
        let mut stays = false;
        // To make a sandbox takes more than a short command does, and would hold it up.
        let head_start = tokio::time::sleep(HEAD_START);
        tokio::pin!(head_start);
        let mut has_next = false;
        let end = loop {
            tokio::select! {
                end = runner.ends.next_line() => break end,
                () = &mut head_start, if !has_next => {
                    self.start_next(order, Duration::ZERO);
                    has_next = true;
                }
                () = watch.leave.now.cancelled(), if asked_at.is_none() && !stays => {
                    match self.leave(&spec.call, watch) {
                        Some(tells) => {
                            runner.process.kept = Some(self.files(&spec.call).kept());
                            self.share(runner.process.id());
                            tokio::spawn(async move {
                                let word = runner.ends.next_line().await;
                                // Nobody may look after it any more.
                                let _ = tells.send(Some(runner.heard(word, outlet)));
                            });
                            return Err(ExecutorError::Left);
                        }
                        None => stays = true,
                    }
                }
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
        if !has_next {
            self.start_next(order, RESULT_FIRST);
        }
        // An error is as good as an end; the files tell the rest.
        let mut record = end.ok().flatten().and_then(|line| serde_json::from_str::<ExitRecord>(&line).ok());
        if let Some((record, outlet)) = record.as_mut().zip(outlet) {
            record.refused = outlet.refused();
        }
        // One that was asked to stop may hear of it only now.
        if record.is_some() && asked_at.is_none() && !spec.terminal && confined(&order.confinement).is_none() {
            self.put_by(runner);
        } else {
            runner.dismiss();
        }
        Ok(record)
    }
}

#[async_trait]
impl Executor for Runners {
    fn expect(&self, env: &Env, confinement: &Confinement) {
        self.start_spare(env, confined(confinement).map(|confined| &confined.reach), Duration::ZERO);
    }

    async fn run(&self, call: &CallId, order: &CommandSpec, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let spec = spec(call, order)?;
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

    async fn start(
        &self,
        call: &CallId,
        order: &CommandSpec,
        background: &Background,
        stop: &CancellationToken,
    ) -> Result<Started, ExecutorError> {
        let spec = RunSpec { unattended_ms: Some(background.unattended_ms), ..spec(call, order)? };
        let Some(tells) = self.looked_after.enter(call, background.most) else {
            let text = format!("{} commands run in the background already, and no more may: end one", background.most);
            return Err(ExecutorError::NotStarted(text));
        };
        let begun = self.begin(&spec, order, background.moment, stop, tells).await;
        if !matches!(begun, Ok(Some(Started::Running))) {
            self.looked_after.forget(call);
        }
        match begun? {
            Some(started) => Ok(started),
            // It could not tell; the files can. It may be somebody else's, and run.
            None => Ok(self.look(call, Boot::Current).await?.map_or(Started::Running, Started::Over)),
        }
    }

    async fn look(&self, call: &CallId, boot: Boot) -> Result<Option<ExitRecord>, ExecutorError> {
        let base = self.files(call).base().to_owned();
        let look = tokio::task::spawn_blocking(move || settle_once(&base, boot)).await;
        match look.map_err(io::Error::other).and_then(|look| look).map_err(ExecutorError::Unknown)? {
            Settled::Over(record) => Ok(Some(record)),
            Settled::Running(_) => Ok(None),
        }
    }

    async fn attend(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let mut known = None;
        let _tells = match self.looked_after.get(call) {
            Some(mut over) => {
                tokio::select! {
                    told = over.wait_for(Option::is_some) => known = told.ok().and_then(|told| told.clone().flatten()),
                    () = watch.stop.cancelled() => {}
                }
                None
            }
            None => {
                if let Some(us) = this_process() {
                    // Without it, the command is taken for one that nobody looks after.
                    let _ = self.files(call).own(&us);
                }
                let tells = self.looked_after.enter(call, usize::MAX);
                self.share(running(self.files(call).base()).and_then(|claim| Pid::from_raw(claim.pid)));
                tells
            }
        };
        let record = match known {
            // Its runner says how it ended before it writes that down. Nobody is to find it running after this.
            Some(record) => {
                while let Ok(None) = self.look(call, boot).await {
                    tokio::time::sleep(STOPPING_EVERY).await;
                }
                Ok(record)
            }
            None => self.settle(call, boot, watch).await,
        };
        self.looked_after.forget(call);
        record
    }

    async fn output_from(&self, call: &CallId, from: u64, max_chars: usize, firewall: &Firewall) -> CommandOutput {
        output::output_from(&self.files(call), from, max_chars, firewall)
    }

    fn type_into(&self, call: &CallId, keys: &[u8]) -> io::Result<bool> {
        typing::type_into(&self.files(call), keys)
    }

    fn is_kept(&self, call: &CallId) -> bool {
        self.files(call).is_kept()
    }

    async fn settle(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        let files = self.files(call);
        private::make_folder(&self.calls_dir).map_err(ExecutorError::Unknown)?;
        let tail = Tail::new(&files, &watch.output);
        settle_from(&files, boot, tail, &watch.stop).await.map_err(ExecutorError::Unknown)
    }

    async fn output(&self, call: &CallId, max_chars: usize, firewall: &Firewall) -> CommandOutput {
        let (files, firewall) = (self.files(call), firewall.clone());
        let path = files.out();
        let read = tokio::task::spawn_blocking(move || output::output(&files, max_chars, &firewall)).await;
        read.unwrap_or_else(|_| {
            let text = "[the output cannot be read: taking secrets out of it failed]".to_owned();
            CommandOutput { text, path, bytes: u64::MAX }
        })
    }
}

impl Runner {
    /// May block its thread. To be called on the runtime.
    fn start(
        runner: &RunnerCommand,
        calls_dir: &Path,
        env: &Env,
        plan: Option<Plan>,
        shared: Option<Arc<SharedNetwork>>,
    ) -> Result<Self, ExecutorError> {
        let failed = |error: io::Error| {
            ExecutorError::NotStarted(format!("the runner {} cannot be started: {error}", runner.program.display()))
        };
        let no_sandbox =
            |error: io::Error| ExecutorError::NotStarted(format!("the sandbox's own folder cannot be made: {error}"));
        let told = plan.as_ref().map(Plan::hand_over).transpose().map_err(no_sandbox)?;
        let shares = shared.as_ref().map(|_| OsStr::new(SHARES));
        let told = told.as_ref().map(|file| file.as_os_str());
        let argv = runner.to([calls_dir.as_os_str()].into_iter().chain(told).chain(shares));
        // The runner is ours; what it makes for its command, it is told with the plan.
        let spawn = Spawn::new(argv, env, ".", Confinement::User);
        let (stdin, hears, tells) = network::channel(shared.as_deref()).map_err(failed)?;
        let streams = Streams { stdin, stdout: Stdio::piped(), stderr: Stdio::null() };
        let started = private::make_folder(calls_dir).and_then(|()| spawn.start_async(Group::Ours, streams));
        started.and_then(|child| Self::new(child, (hears, tells), env, (plan, shared))).map_err(failed)
    }

    fn new(
        mut child: Child,
        (hears, orders): (OwnedReadHalf, OwnedWriteHalf),
        env: &Env,
        (plan, shared): (Option<Plan>, Option<Arc<SharedNetwork>>),
    ) -> io::Result<Self> {
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no pipe"))?;
        let (process, ends) =
            (Process { child: Some(child), is_at_work: false, kept: None }, BufReader::new(stdout).lines());
        let (env, plan) = (Arc::clone(env), plan.map(Arc::new));
        Ok(Self { process, orders, handed: Some(hears), ends, env, plan, shared })
    }

    /// What its word about a command's end says, where it is one; it is of no more use.
    fn heard(mut self, word: io::Result<Option<String>>, outlet: Option<Outlet>) -> Option<ExitRecord> {
        self.process.is_at_work = false;
        let mut record = word.ok().flatten().and_then(|line| serde_json::from_str::<ExitRecord>(&line).ok());
        if let Some((record, outlet)) = record.as_mut().zip(outlet) {
            record.refused = outlet.refused();
        }
        self.dismiss();
        record
    }

    /// Itself, if it lives, and can run a command in this environment and this sandbox, now.
    fn if_fit_for(mut self, env: &Env, reach: Option<&Reach>, shared: Option<&Arc<SharedNetwork>>) -> Option<Self> {
        // What a network has that nobody else is in any more, does no harm.
        let network_fits = shared.is_none_or(|shared| self.shared.as_ref().is_some_and(|own| Arc::ptr_eq(own, shared)));
        let sandbox_fits = match (&self.plan, reach) {
            (Some(plan), Some(reach)) => plan.is_for(reach) && plan.is_true(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let lives = self.process.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if lives && sandbox_fits && network_fits && self.env == *env {
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
    /// The file that says that a person wants its command to go on.
    kept: Option<PathBuf>,
}

impl Process {
    /// `None` once its end is known.
    fn id(&self) -> Option<Pid> {
        let id = self.child.as_ref().and_then(Child::id);
        id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    /// Has no effect once the process's end is known: its id may then be another's.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.id() {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_at_work && !self.kept.as_ref().is_some_and(|kept| kept.exists()) {
            self.signal(Signal::TERM);
        }
    }
}
