//! Commands in the background on the crashing machine. The tools that start, read and end them are the product's own, and so is
//! the session's watch over them; simulated is only the process that runs one: see [`super::tools::Runner`].

use super::machine::Machine;
use super::tools::{Rule, Runner, Runners, lock};
use async_trait::async_trait;
use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use piton_tools::executor::{
    Background, Boot, CommandEnd, CommandOutput, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord,
    Started,
};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a command begins with that goes on until somebody stops it.
pub(super) const STAYS: &str = "stay";

/// What runs commands on the machine.
pub(super) struct Commands {
    pub(super) machine: Arc<Machine>,
    pub(super) runners: Runners,
    pub(super) rule: Rule,
    /// Where the marks of calls lie.
    pub(super) calls: PathBuf,
    /// Who reads the marks.
    pub(super) marks: Arc<dyn Executor>,
}

impl Commands {
    fn base(&self, call: &CallId) -> PathBuf {
        self.calls.join(call.as_str())
    }

    /// Follows the process of a call to its end, if it is one of this machine's; stops it when that is asked for.
    async fn follow(&self, call: &CallId, stop: &CancellationToken) {
        let Some(runner) = self.runners.find(&self.base(call)) else { return };
        loop {
            self.machine.point().await;
            tokio::task::yield_now().await;
            if self.machine.is_off() {
                continue;
            }
            if lock(&runner).stays() {
                stop.cancelled().await;
                lock(&runner).stop();
            }
            if !lock(&runner).go_on(&self.machine) {
                return;
            }
        }
    }
}

#[async_trait]
impl Executor for Commands {
    async fn run(&self, _: &CallId, _: &CommandSpec, _: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        Err(ExecutorError::NotStarted("here commands run in the background".to_owned()))
    }

    async fn settle(&self, call: &CallId, boot: Boot, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        self.follow(call, &watch.stop).await;
        self.machine.point().await;
        if self.rule == Rule::BlindWatch {
            // A negative control: who looks after it does not look.
            return Ok(ExitRecord { code: Some(0), ..ExitRecord::of(CommandEnd::Exited) });
        }
        self.marks.settle(call, boot, watch).await
    }

    async fn start(
        &self,
        call: &CallId,
        order: &CommandSpec,
        _: &Background,
        _: &CancellationToken,
    ) -> Result<Started, ExecutorError> {
        self.machine.point().await;
        std::fs::create_dir_all(&self.calls).map_err(ExecutorError::Unknown)?;
        let line = order.spawn.argv.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let runner = Runner::of_command(self.base(call), line, self.rule);
        self.runners.push(Arc::clone(&runner));
        self.machine.point().await;
        lock(&runner).go_on(&self.machine);
        self.machine.point().await;
        Ok(match self.look(call, Boot::Current).await? {
            Some(record) => Started::Over(record),
            None => Started::Running,
        })
    }

    async fn look(&self, call: &CallId, boot: Boot) -> Result<Option<ExitRecord>, ExecutorError> {
        self.machine.point().await;
        if self.rule == Rule::RunAgain && self.runners.find(&self.base(call)).is_none() {
            // A negative control: a command of which nothing is left is started anew.
            let base = self.base(call);
            if let Some(line) = self.runners.line_of(&base) {
                let runner = Runner::of_command(base, line, self.rule);
                while lock(&runner).go_on(&self.machine) {}
            }
        }
        if self.runners.find(&self.base(call)).is_some() {
            return Ok(None);
        }
        self.marks.look(call, boot).await
    }

    async fn output(&self, call: &CallId, max_chars: usize, firewall: &Firewall) -> CommandOutput {
        self.marks.output(call, max_chars, firewall).await
    }

    async fn output_from(&self, call: &CallId, from: u64, max_chars: usize, firewall: &Firewall) -> CommandOutput {
        self.marks.output_from(call, from, max_chars, firewall).await
    }
}
