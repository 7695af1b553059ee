//! `bash`: runs a shell command, at most once, under a runner. What a shell does nobody can check, so a call that had
//! begun is never repeated (see [`crate::runner`]).

use crate::input::lenient;
use crate::plan::{Draft, Look, Plan};
use crate::runner::{self, RunSpec};
use crate::tool::ToolContext;
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Access, Effects, Kind, Outcome};
use piton_core::question::Block;
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
}

impl Input {
    fn check(&self) -> Result<(), Outcome> {
        if self.command.trim().is_empty() {
            return Err(Outcome::failed("bash: field `command` is empty"));
        }
        if self.command.contains('\0') {
            return Err(Outcome::failed("bash: field `command` holds a NUL character, which no command can"));
        }
        Ok(())
    }
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Runs a shell command in the workspace and returns its output (stdout and stderr together) and exit code. Each \
         call is a new shell: no state is kept, stdin is empty. Long output is cut in the middle; the whole is kept in a \
         file. Background processes are ended when the command ends. Prefer read, grep, glob, edit and write for files.";
    const EFFECTS: Effects = Effects::OPAQUE;

    fn planned(&self, input: Input, _: &Look) -> Result<Plan, Outcome> {
        input.check()?;
        let command = input.command;
        let shown = Block::Command { command: command.clone() };
        let question = Draft::new(|| ("Run this command?".to_owned(), vec![shown]));
        Ok(Plan::new(Kind::Execute, command.clone(), Access::Run(command), question))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        if let Err(outcome) = input.check() {
            return outcome;
        }
        let asked_ms = input.timeout.filter(|ms| *ms > 0).unwrap_or(cx.limits.bash_default_ms);
        let spec = RunSpec {
            call: cx.call.clone(),
            argv: vec!["bash".to_owned(), "-c".to_owned(), input.command.clone()],
            cwd: cx.workspace.clone(),
            timeout_ms: asked_ms.min(cx.limits.bash_max_ms),
            spool_bytes: cx.limits.spool_bytes,
        };
        runner::launch(&spec, &input.command, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        runner::settle(&input.command, cx).await
    }
}
