//! `bash`: runs a shell command, at most once, under a runner. What a shell does nobody can check, so a call that had
//! begun is never repeated (see [`crate::runner`]).

use crate::input::{lenient, parse_input, schema_of};
use crate::runner::{self, RunSpec};
use crate::spawn::Confinement;
use crate::tool::{Tool, ToolContext};
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
        let spec = RunSpec {
            call: cx.call.clone(),
            argv: vec!["bash".to_owned(), "-c".to_owned(), input.command.clone()],
            cwd: cx.workspace.clone(),
            confinement: Confinement::Model,
            timeout_ms: asked_ms.min(cx.limits.bash_max_ms),
            spool_bytes: cx.limits.spool_bytes,
        };
        runner::launch(&spec, &input.command, cx).await
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        // A call whose input cannot be read never started a runner: the files say so, whatever the words.
        let command = parse_input::<Input>(NAME, &input).map(|input| input.command).unwrap_or_default();
        runner::settle(&command, cx).await
    }
}
