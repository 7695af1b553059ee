//! `bash`: runs a shell command, at most once, in the session's executor. The effects of a shell command cannot be checked,
//! so a call that has started is never repeated (see [`crate::executor`]).

mod background;
mod parts;
mod report;
mod script;
mod stopped;
mod workdir;

pub use self::background::ended;
pub(crate) use self::background::listed;
pub(crate) use self::report::{ending, line, outcome};
use self::script::SCRIPT_BYTES;
use crate::executor::{CommandSpec, CommandWatch, ExecutorError, ExitRecord, Leave, LeftRunning};
use crate::input::lenient;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::spawn::Spawn;
use crate::tool::{ToolContext, cancelled};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome};
use piton_core::hidden;
use piton_core::question::QuestionBlock;
use piton_core::secrets::placeholders;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Bash;

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The command line or script
    command: String,
    /// Milliseconds; default 120000, at most 600000
    #[serde(default, alias = "timeout_ms", deserialize_with = "lenient::count")]
    timeout: Option<u64>,
    #[serde(default, alias = "cwd")]
    workdir: Option<String>,
    /// Returns an id; notify tells its end
    #[serde(default, alias = "run_in_background", deserialize_with = "lenient::flag")]
    background: Option<bool>,
    #[serde(default, deserialize_with = "lenient::flag")]
    notify: Option<bool>,
    #[serde(default, alias = "tty", deserialize_with = "lenient::flag")]
    pty: Option<bool>,
    /// Only where the sandbox stopped this command and the task needs it: why it has to run outside. The user is asked
    #[serde(default)]
    outside_sandbox: Option<String>,
}

impl Input {
    fn is_background(&self) -> bool {
        self.background == Some(true)
    }

    fn check(&self) -> Result<(), Outcome> {
        if self.command.trim().is_empty() {
            return Err(Outcome::failed("bash: field `command` is empty"));
        }
        if let Some(placeholder) = placeholders(&self.command).first() {
            return Err(Outcome::failed(format!(
                "bash: {} stands for a secret that you do not see, and commands do not get it from you. Let the program read it \
                 where it is: from its file, or from its environment.",
                placeholder.text
            )));
        }
        if self.command.contains('\0') {
            return Err(Outcome::failed("bash: field `command` holds a NUL character, which no command can"));
        }
        if self.command.len() > SCRIPT_BYTES {
            return Err(Outcome::failed(format!(
                "bash: field `command` is {} bytes long, and at most {SCRIPT_BYTES} are taken: write the script to a file and run that",
                self.command.len()
            )));
        }
        Ok(())
    }
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Runs a shell command in the workspace and returns its output (stdout and stderr together) and exit code. Each \
         call is a new shell: no state is kept, stdin is empty. Calls of one reply run side by side: join with && what must be \
         in order. Long output is cut in the middle; the whole is kept in a \
         file. What it leaves running is ended with it: use background. Prefer read, grep, glob, edit and write for files.";
    const EFFECTS: Effects = Effects::OPAQUE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        input.check()?;
        let workdir = input.workdir.as_deref().map(|raw| workdir::planned(raw, look)).transpose()?;
        let how = if input.is_background() { " in the background" } else { "" };
        let Input { command, outside_sandbox, .. } = input;
        let reason = outside_sandbox.filter(|reason| look.is_confined && !reason.trim().is_empty());
        // Outside, paths lead where they lead on the machine: not into the sandbox's own home.
        let outside = reason.is_some().then(|| look.outside());
        let look = outside.as_ref().unwrap_or(look);
        let mut shown = vec![QuestionBlock::Command { command: command.clone(), marks: Vec::new() }];
        if let Some(workdir) = &workdir {
            let text = format!("In the folder {}.", hidden::visible_line(&workdir.to_string_lossy()));
            shown.push(QuestionBlock::Note { text });
        }
        let access = Access::Run(command.clone());
        let parts = parts::accesses(&command, workdir.as_deref().unwrap_or(&look.workspace), look);
        let Some(reason) = reason else {
            let question = QuestionDraft::new(move || (format!("Run this command{how}?"), shown));
            return Ok(Plan::new(CallKind::Execute, command, access, question).and_places(parts));
        };
        shown.push(QuestionBlock::Note { text: "With all your rights, files and network.".to_owned() });
        shown.push(QuestionBlock::Note { text: format!("The model's own words: {}", quoted(&reason)) });
        let question = QuestionDraft::new(move || (format!("Run this command outside the sandbox{how}?"), shown));
        Ok(Plan::new(CallKind::Execute, command, access, question).and_places(parts).and(Access::Unsandboxed(reason)))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        if let Err(outcome) = input.check() {
            return outcome;
        }
        if cx.cancel.is_cancelled() {
            return cancelled();
        }
        let cwd = match workdir::now(input.workdir.as_deref(), &cx.workspace) {
            Ok(cwd) => cwd,
            Err(outcome) => return outcome,
        };
        let asked_ms = input.timeout.filter(|ms| *ms > 0);
        let timeout_ms = match input.is_background() {
            true => asked_ms.unwrap_or(u64::MAX).min(cx.limits.background_max_ms),
            false => asked_ms.unwrap_or(cx.limits.bash_default_ms).min(cx.limits.bash_max_ms),
        };
        let order = CommandSpec {
            spawn: Spawn::new(script::command_line(&input.command), &cx.env, cwd, cx.confinement.clone()),
            timeout_ms,
            spool_bytes: cx.limits.spool_bytes,
            terminal: input.pty == Some(true),
            typing_ms: cx.limits.typing_ms,
        };
        if input.is_background() {
            return background::start(&input, &order, cx).await;
        }
        let ended = cx.executor.run(&cx.call, &order, &watch(cx)).await;
        if let Err(ExecutorError::Left) = ended {
            return background::left(&input, cx).await;
        }
        report(ended, &input.command, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        if input.is_background() {
            return background::found(&input, cx).await;
        }
        let ended = cx.executor.settle(&cx.call, cx.boot, &watch(cx)).await;
        report(ended, &input.command, cx).await
    }
}

/// The model's words as such: on one line, of a length that leaves room for the rest, and nothing behind them that could be ours.
fn quoted(words: &str) -> String {
    const MOST_CHARS: usize = 600;
    let line = hidden::visible_line(words.trim()).replace('"', "'");
    let more = if line.chars().count() > MOST_CHARS { "…" } else { "" };
    format!("\"{}{more}\"", line.chars().take(MOST_CHARS).collect::<String>())
}

fn watch(cx: &ToolContext) -> CommandWatch {
    let background = LeftRunning {
        most: cx.limits.background_most,
        timeout_ms: cx.limits.background_max_ms,
        unattended_ms: cx.limits.background_unattended_ms,
    };
    let leave = Leave { now: cx.leave.clone(), background: Some(background) };
    CommandWatch { output: cx.output.clone(), stop: cx.cancel.clone(), leave }
}

async fn report(ended: Result<ExitRecord, ExecutorError>, command: &str, cx: &ToolContext) -> Outcome {
    match ended {
        Ok(record) => {
            let output = cx.executor.output(&cx.call, cx.limits.output_chars, &cx.firewall).await;
            report::outcome(&record, &output, command, cx.cancel.is_cancelled())
        }
        Err(error) => Outcome::failed(format!("bash: {error}")),
    }
}
