//! `bash`: runs a shell command, at most once, in the session's executor. The effects of a shell command cannot be checked,
//! so a call that has started is never repeated (see [`crate::executor`]).

mod parts;
mod report;
mod script;
mod stopped;
mod workdir;

use self::script::SCRIPT_BYTES;
use crate::executor::{CommandSpec, CommandWatch, ExecutorError, ExitRecord};
use crate::input::lenient;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::spawn::Spawn;
use crate::tool::{ToolContext, cancelled};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome};
use piton_core::hidden;
use piton_core::question::QuestionBlock;
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
    /// Folder below the workspace
    #[serde(default, alias = "cwd")]
    workdir: Option<String>,
    /// Only where the sandbox stopped this command and the task needs it: why it has to run outside. The user is asked
    #[serde(default)]
    outside_sandbox: Option<String>,
}

impl Input {
    fn check(&self) -> Result<(), Outcome> {
        if self.command.trim().is_empty() {
            return Err(Outcome::failed("bash: field `command` is empty"));
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
         file. Background processes are ended when the command ends. Prefer read, grep, glob, edit and write for files.";
    const EFFECTS: Effects = Effects::OPAQUE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        input.check()?;
        let workdir = input.workdir.as_deref().map(|raw| workdir::planned(raw, look)).transpose()?;
        let Input { command, outside_sandbox, .. } = input;
        let mut shown = vec![QuestionBlock::Command { command: command.clone(), marks: Vec::new() }];
        if let Some(workdir) = &workdir {
            let text = format!("In the folder {}.", hidden::visible_line(&workdir.to_string_lossy()));
            shown.push(QuestionBlock::Note { text });
        }
        let access = Access::Run(command.clone());
        let parts = parts::accesses(&command, workdir.as_deref().unwrap_or(&look.workspace), look);
        let Some(reason) = outside_sandbox.filter(|reason| look.is_confined && !reason.trim().is_empty()) else {
            let question = QuestionDraft::new(|| ("Run this command?".to_owned(), shown));
            return Ok(Plan::new(CallKind::Execute, command, access, question).and_places(parts));
        };
        let text = format!("With all your rights, files and network. The model's reason: {}", reason.trim());
        shown.push(QuestionBlock::Note { text });
        let question = QuestionDraft::new(|| ("Run this command outside the sandbox?".to_owned(), shown));
        Ok(Plan::new(CallKind::Execute, command, access, question).and_places(parts).and(Access::Unsandboxed(reason)))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        if let Err(outcome) = input.check() {
            return outcome;
        }
        let asked_ms = input.timeout.filter(|ms| *ms > 0).unwrap_or(cx.limits.bash_default_ms);
        if cx.cancel.is_cancelled() {
            return cancelled();
        }
        let cwd = match workdir::now(input.workdir.as_deref(), &cx.workspace) {
            Ok(cwd) => cwd,
            Err(outcome) => return outcome,
        };
        let order = CommandSpec {
            spawn: Spawn::new(script::command_line(&input.command), &cx.env, cwd, cx.confinement.clone()),
            timeout_ms: asked_ms.min(cx.limits.bash_max_ms),
            spool_bytes: cx.limits.spool_bytes,
        };
        let ended = cx.executor.run(&cx.call, &order, &watch(cx)).await;
        report(ended, &input.command, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        let ended = cx.executor.settle(&cx.call, cx.boot, &watch(cx)).await;
        report(ended, &input.command, cx).await
    }
}

fn watch(cx: &ToolContext) -> CommandWatch {
    CommandWatch { output: cx.output.clone(), stop: cx.cancel.clone() }
}

async fn report(ended: Result<ExitRecord, ExecutorError>, command: &str, cx: &ToolContext) -> Outcome {
    match ended {
        Ok(record) => {
            let output = cx.executor.output(&cx.call, cx.limits.output_chars).await;
            report::outcome(&record, &output, command, cx.cancel.is_cancelled())
        }
        Err(error) => Outcome::failed(format!("bash: {error}")),
    }
}
