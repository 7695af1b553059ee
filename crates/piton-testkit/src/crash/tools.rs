//! The tools of the crashing machine, one per class: `act` is opaque and runs under a claim, `write` and `read` are the
//! product's own with points around them.

use super::machine::Machine;
use super::tree;
use async_trait::async_trait;
use piton_core::call::{Effects, Outcome, Status, ToolSpec};
use piton_tools::backend::{Backend, Local};
use piton_tools::executor::{CommandEnd, CommandWatch, Executor, ExitRecord};
use piton_tools::files::Files;
use piton_tools::plan::{Look, Plan};
use piton_tools::runner::{Act, Claim};
use piton_tools::spawn::Confinement;
use piton_tools::tool::{Tool, ToolContext};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Whether the rule of the claim is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Kept,
    /// A negative control: a runner acts without the claim.
    NoClaim,
    /// A negative control: a call without a result is run again, as most agents do.
    RunAgain,
}

/// Runners at work or on their way, in the order they were started. They outlive the process.
#[derive(Debug, Default, Clone)]
pub(super) struct Runners(Arc<Mutex<Vec<Arc<Mutex<Runner>>>>>);

impl Runners {
    pub(super) fn push(&self, runner: Arc<Mutex<Runner>>) {
        lock(&self.0).push(runner);
    }

    /// All of them; none are left.
    pub(super) fn take(&self) -> Vec<Arc<Mutex<Runner>>> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// This machine, as far as `act` has to know it: where the claims of the session's calls lie.
#[derive(Debug, Default)]
pub(super) struct Claims(OnceLock<PathBuf>);

impl Backend for Claims {
    fn executor(&self, calls: &Path) -> Arc<dyn Executor> {
        // A harness serves one session.
        let _ = self.0.set(calls.to_path_buf());
        Local::default().executor(calls)
    }

    fn files(&self, calls: &Path, confinement: &Confinement) -> Arc<dyn Files> {
        Local::default().files(calls, confinement)
    }
}

pub(super) fn tools(machine: &Arc<Machine>, runners: &Runners, rule: Rule, claims: &Arc<Claims>) -> ToolSet {
    let builtin = ToolSet::builtin();
    let (machine, runners, claims) = (machine.clone(), runners.clone(), claims.clone());
    let mut tools = ToolSet::empty().with(Arc::new(Acting { machine: machine.clone(), runners, rule, claims }));
    for name in ["read", "write"] {
        if let Some(inner) = builtin.get(name) {
            tools = tools.with(Arc::new(Pointed { machine: machine.clone(), inner }));
        }
    }
    tools
}

/// How far a runner has come.
#[derive(Debug)]
enum Progress {
    /// It knows what to do.
    Told,
    /// The claim is its own; `None` where it goes on without.
    Claimed(Option<Act>),
    /// It has done it.
    Acted(Option<Act>),
    /// It has said how it ended, or that it is none of its business.
    Over,
}

/// The process beside Piton that does one act. It lives on when Piton is killed, if the harness lets it.
#[derive(Debug)]
pub(super) struct Runner {
    base: PathBuf,
    line: String,
    /// The workspace that it makes something else of.
    remakes: Option<PathBuf>,
    rule: Rule,
    progress: Progress,
    end: CommandEnd,
}

impl Runner {
    /// The next thing that it does; `false` when there is none.
    pub(super) fn go_on(&mut self, machine: &Machine) -> bool {
        self.progress = match std::mem::replace(&mut self.progress, Progress::Over) {
            Progress::Told => match (Act::claim(&self.base, simulated()), self.rule) {
                (Ok(Some(act)), _) => Progress::Claimed(Some(act)),
                (Ok(None), Rule::Kept) => Progress::Over,
                (Ok(None), Rule::NoClaim | Rule::RunAgain) => Progress::Claimed(None),
                (Err(error), _) => {
                    machine.accuse(format!("harness: no claim for {}: {error}", self.line));
                    Progress::Over
                }
            },
            Progress::Claimed(act) => {
                machine.leave_line(&self.line);
                self.remakes.as_deref().into_iter().for_each(tree::remake);
                Progress::Acted(act)
            }
            Progress::Acted(act) => {
                let record = ExitRecord { code: Some(0), ..ExitRecord::of(self.end) };
                if let Some(Err(error)) = act.map(|act| act.ended(&record)) {
                    machine.accuse(format!("harness: no exit record for {}: {error}", self.line));
                }
                Progress::Over
            }
            Progress::Over => return false,
        };
        true
    }

    /// Whether its claim is still to come.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self.progress, Progress::Told)
    }
}

/// What a power cut leaves of the marks of all calls, none of which a runner syncs.
pub(super) fn lose_marks(calls: &Path, dice: &mut fastrand::Rng) -> std::io::Result<()> {
    let Ok(files) = std::fs::read_dir(calls) else { return Ok(()) };
    let mut files = files.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let is_mark = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "claim" || kind == "exit");
    files.iter().filter(is_mark).try_for_each(|mark| forget(mark, dice))
}

/// What a power cut may leave of a file that was not synced: all, nothing, only the name, zeros, or the half of it.
fn forget(path: &Path, dice: &mut fastrand::Rng) -> std::io::Result<()> {
    let Ok(content) = std::fs::read(path) else { return Ok(()) };
    match dice.usize(0..5) {
        0 => Ok(()),
        1 => std::fs::remove_file(path),
        2 => std::fs::write(path, b""),
        3 => std::fs::write(path, &content[..content.len() / 2]),
        _ => std::fs::write(path, vec![0; content.len()]),
    }
}

/// A process of a boot that is over: nothing of it is ever looked for.
fn simulated() -> Claim {
    Claim { pid: i32::MAX, start_ticks: 0, boot_id: "simulated".to_owned(), pid_namespace: String::new(), file: None }
}

/// Leaves a line in the ledger, once. With `wait` it goes on until it is cancelled; with `remake` it changes the workspace.
struct Acting {
    machine: Arc<Machine>,
    runners: Runners,
    rule: Rule,
    claims: Arc<Claims>,
}

#[async_trait]
impl Tool for Acting {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {"line": {"type": "string"}, "wait": {"type": "boolean"}, "remake": {"type": "boolean"}}});
        ToolSpec { name: "act".into(), description: "Leaves a line.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let machine = &self.machine;
        machine.point().await;
        let Some(calls) = self.claims.0.get() else { return Outcome::failed("the session has no executor") };
        if let Err(error) = std::fs::create_dir_all(calls) {
            return Outcome::failed(error.to_string());
        }
        let line = input["line"].as_str().unwrap_or_default().to_owned();
        let base = calls.join(cx.call.as_str());
        let remakes = (input["remake"] == true).then(|| cx.workspace.clone());
        let runner = Runner { base, line, remakes, rule: self.rule, progress: Progress::Told, end: CommandEnd::Exited };
        let runner = Arc::new(Mutex::new(runner));
        self.runners.push(runner.clone());
        loop {
            machine.point().await;
            // Others may act in between.
            tokio::task::yield_now().await;
            if machine.is_off() {
                continue;
            }
            if input["wait"] == true && matches!(lock(&runner).progress, Progress::Acted(_)) {
                cx.cancel.cancelled().await;
                lock(&runner).end = CommandEnd::Cancelled;
            }
            if !lock(&runner).go_on(machine) {
                break;
            }
        }
        // It says so on its stdout too: its record need not be read.
        let runner = lock(&runner);
        match runner.end {
            CommandEnd::Cancelled => Outcome::new(Status::Cancelled, "stopped"),
            _ => Outcome::ok(runner.line.clone()),
        }
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        match self.rule {
            Rule::Kept | Rule::NoClaim => {
                let watch =
                    CommandWatch { output: cx.output.clone(), stop: cx.cancel.clone(), ..CommandWatch::default() };
                cx.executor
                    .settle(&cx.call, cx.boot, &watch)
                    .await
                    .map_or_else(|error| Outcome::failed(error.to_string()), |record| told(record.status))
            }
            Rule::RunAgain => self.run(input, cx).await,
        }
    }
}

/// What the end of an act says.
fn told(end: CommandEnd) -> Outcome {
    let status = match end {
        CommandEnd::Exited => Status::Ok,
        CommandEnd::Cancelled => Status::Cancelled,
        CommandEnd::Interrupted => Status::Interrupted,
        CommandEnd::NotStarted => Status::NotStarted,
        CommandEnd::Signaled | CommandEnd::SpawnFailed | CommandEnd::TimedOut => Status::Failed,
    };
    Outcome::new(status, "settled")
}

/// A tool of the product with a point before and after it.
struct Pointed {
    machine: Arc<Machine>,
    inner: Arc<dyn Tool>,
}

#[async_trait]
impl Tool for Pointed {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    fn canonical(&self, input: Value) -> Value {
        self.inner.canonical(input)
    }

    fn plan(&self, input: &Value, look: &Look) -> Result<Plan, Outcome> {
        self.inner.plan(input, look)
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        self.machine.point().await;
        let outcome = self.inner.run(input, cx).await;
        self.machine.point().await;
        outcome
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        self.machine.point().await;
        let outcome = self.inner.settle(input, cx).await;
        self.machine.point().await;
        outcome
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
