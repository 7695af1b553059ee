//! `bash`: runs a shell command, at most once, wherever the session runs its commands. What a shell does nobody can
//! check, so a call that had begun is never repeated (see [`crate::executor`]).

mod report;

use crate::executor::{ExecutorError, ExitRecord, Order, Watch};
use crate::input::{lenient, parse_input, schema_of};
use crate::spawn::{Confinement, Spawn};
use crate::tool::{Tool, ToolContext, cancelled};
use async_trait::async_trait;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Bash;

const NAME: &str = "bash";

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The command line or script
    command: String,
    /// Milliseconds; default 120000, at most 600000
    #[serde(default, alias = "timeout_ms", deserialize_with = "lenient::count")]
    timeout: Option<u64>,
}

impl Input {
    fn read(input: &Value) -> Result<Self, Outcome> {
        let input: Self = parse_input(NAME, input)?;
        if input.command.trim().is_empty() {
            return Err(Outcome::failed("bash: field `command` is empty"));
        }
        if input.command.contains('\0') {
            return Err(Outcome::failed("bash: field `command` holds a NUL character, which no command can"));
        }
        Ok(input)
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description:
                "Runs a shell command in the workspace and returns its output (stdout and stderr together) and \
                          exit code. Each call is a new shell: no state is kept, stdin is empty. Long output is cut in \
                          the middle; the whole is kept in a file. Background processes are ended when the command \
                          ends. Prefer read, grep, glob, edit and write for files."
                    .to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Opaque,
        }
    }

    fn sure_to_fail(&self, input: &Value) -> Option<Outcome> {
        Input::read(input).err()
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let input = match Input::read(&input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let asked_ms = input.timeout.filter(|ms| *ms > 0).unwrap_or(cx.limits.bash_default_ms);
        if cx.cancel.is_cancelled() {
            return cancelled();
        }
        let order = Order {
            spawn: Spawn::new(["bash", "-c", &input.command], &cx.env, &cx.workspace, Confinement::Model),
            timeout_ms: asked_ms.min(cx.limits.bash_max_ms),
            spool_bytes: cx.limits.spool_bytes,
        };
        let ended = cx.executor.run(&cx.call, &order, &watch(cx)).await;
        report(ended, &input.command, cx).await
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        // A call whose input cannot be read never started a runner: the files say so, whatever the words.
        let command = parse_input::<Input>(NAME, &input).map(|input| input.command).unwrap_or_default();
        let ended = cx.executor.settle(&cx.call, &watch(cx)).await;
        report(ended, &command, cx).await
    }
}

fn watch(cx: &ToolContext) -> Watch {
    Watch { output: cx.output.clone(), stop: cx.cancel.clone() }
}

async fn report(ended: Result<ExitRecord, ExecutorError>, command: &str, cx: &ToolContext) -> Outcome {
    match ended {
        Ok(record) => {
            let output = cx.executor.output(&cx.call, cx.limits.output_chars).await;
            report::outcome(&record, &output, command, cx.cancel.is_cancelled())
        }
        Err(error) => Outcome::failed(format!("{NAME}: {error}")),
    }
}
