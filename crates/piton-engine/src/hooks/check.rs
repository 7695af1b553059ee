//! A check: a command that must pass before a turn may end `completed`. Where it fails, the model gets the end of its
//! output and goes on, a few times; then the turn ends `hook_stopped`.

use super::{Hook, HookContext, HookError, HookResult, Points, Stop, StopChange, Words};
use async_trait::async_trait;
use piton_core::call::undone_line;
use piton_core::client::CheckRun;
use piton_core::hook::{Demand, HookPoint};
use piton_tools::runner::NO_SANDBOX;
use piton_tools::spawn::{Env, Keep, Spawn, moved_away};
use serde_json::json;
use std::time::{Duration, Instant};

/// Characters at the end of a failing check's output that the model reads.
const TAIL_CHARS: usize = 4_000;
/// How often a check sends the model back, unless it says otherwise.
pub const ROUNDS: usize = 3;
/// The time of a check that names none: a whole test suite may take it.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// A command that must pass.
#[derive(Clone)]
pub struct Check {
    name: String,
    command: String,
    env: Env,
    timeout: Duration,
    rounds: usize,
}

impl Check {
    /// A check by a command for `sh`, with this environment and nothing else in it.
    pub fn new(command: &str, env: Env) -> Self {
        let name = format!("check `{command}`");
        Self { name, command: command.to_owned(), env, timeout: TIMEOUT, rounds: ROUNDS }
    }

    /// With other limits: its time, and how often it sends the model back.
    #[must_use]
    pub fn within(self, timeout: Option<Duration>, rounds: Option<usize>) -> Self {
        Self { timeout: timeout.unwrap_or(self.timeout), rounds: rounds.unwrap_or(self.rounds), ..self }
    }

    /// Runs it. Answers also with what its sandbox moved away.
    async fn run(&self, cx: &HookContext, round: usize) -> HookResult<(CheckRun, Vec<String>)> {
        let began = Instant::now();
        // One pipe for both, so that their lines stay in order.
        let script = format!("exec 2>&1\n{}", self.command);
        let running = Spawn::shell(&script, &self.env, &cx.workspace, cx.confinement.clone()).run(None, Keep::Last);
        let mut running = running.map_err(|error| HookError(format!("it cannot be started: {error}")))?;
        let status = tokio::time::timeout(self.timeout, running.wait()).await;
        let code = match status {
            Ok(status) => status?.code(),
            Err(_) => None,
        };
        let (mut text, mut of_sandbox) = running.output().await;
        let moved = moved_away(&mut of_sandbox);
        // The script's own errors are in its output: what is here is from whoever made its sandbox.
        if code == Some(NO_SANDBOX) && text.is_empty() && !of_sandbox.is_empty() {
            return Err(HookError(of_sandbox));
        }
        text.push_str(&of_sandbox);
        let mut output = tail(&text);
        for said in &moved {
            output.push_str(&format!("\n{}", undone_line(said)));
        }
        if began.elapsed() >= self.timeout {
            output.push_str(&format!("\n[it was stopped after {} s]", self.timeout.as_secs_f64()));
        }
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let check = self.command.clone();
        Ok((CheckRun { check, passed: code == Some(0), exit_code: code, duration_ms, round, output }, moved))
    }
}

/// The end of an output, from the beginning of a line.
fn tail(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect();
    let text = text.trim_end();
    let Some(more) = text.chars().count().checked_sub(TAIL_CHARS).filter(|more| *more > 0) else {
        return text.to_owned();
    };
    let kept: String = text.chars().skip(more).collect();
    let from = kept.find('\n').map_or(0, |at| at + 1);
    format!("[… {} more characters before this]\n{}", more + kept[..from].chars().count(), &kept[from..])
}

#[async_trait]
impl Hook for Check {
    fn name(&self) -> &str {
        &self.name
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::Stop])
    }

    fn required(&self) -> bool {
        true
    }

    fn timeout(&self) -> Duration {
        // Its own watch is the one that counts, and leaves evidence.
        self.timeout + Duration::from_secs(5)
    }

    fn stop_rounds(&self) -> usize {
        self.rounds
    }

    fn demand(&self) -> Option<Demand> {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        Some(Demand::Check { command: self.command.clone(), timeout_ms, rounds: self.rounds })
    }

    async fn on_stop(&self, cx: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        let (run, moved) = self.run(cx, stop.rounds + 1).await?;
        let how = match run.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "it did not end by itself".to_owned(),
        };
        let send_back = (!run.passed).then(|| {
            format!(
                "`{}` does not pass yet ({how}).\nThe task is not done before it does. The end of its output:\n\
                 <output>\n{}\n</output>\nFind out why, put it right, and finish. If it cannot be put right, say why.",
                self.command, run.output
            )
        });
        let mut remark = if run.passed { "passed".to_owned() } else { format!("failed: {how}") };
        for said in &moved {
            remark.push_str(&format!("; sandbox: {said}"));
        }
        let words = Words { remark: Some(remark), ..Words::default() };
        Ok(StopChange { send_back, evidence: Some(json!(run)), words })
    }
}
