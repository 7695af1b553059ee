//! `bash`: a shell command, carried out by a runner at most once.

use crate::input::number;
use crate::runner::{self, Exit, ExitStatus, RunSpec, Settled};
use crate::text::readable;
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use piton_core::call::{Outcome, Status, ToolClass, ToolSpec};
use piton_core::truncate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The tool.
pub(crate) struct Bash;

#[derive(Deserialize, JsonSchema)]
struct Input {
    command: String,
    /// Milliseconds (120000, at most 600000)
    #[serde(default, alias = "timeout_ms", deserialize_with = "number")]
    #[schemars(default)]
    timeout: Option<u64>,
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bash".to_owned(),
            description: "Run a shell command in the workspace. Nothing can be typed into it; it and all it started end \
                          when the shell exits or the time is up. A long output is cut in the middle and kept in a file."
                .to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Opaque,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let input: Input = match parse_input("bash", input) {
            Ok(input) => input,
            Err(refusal) => return refusal,
        };
        if input.command.trim().is_empty() {
            return Outcome::failed("bash was not run: the command is empty.");
        }
        let limits = &context.limits;
        let timeout_ms = input.timeout.filter(|ms| *ms > 0).unwrap_or(limits.bash_default_ms).min(limits.bash_max_ms);
        let spec = RunSpec {
            argv: vec![shell().to_owned(), "-c".to_owned(), input.command.clone()],
            cwd: context.workspace.clone(),
            timeout_ms,
            spool_bytes: limits.spool_bytes,
        };
        let base = context.base();
        if let Err(error) = std::fs::create_dir_all(&context.calls_dir) {
            return Outcome::failed(format!("bash was not run: {} cannot be created: {error}", context.calls_dir.display()));
        }
        match runner::launch(&spec, &base, context).await {
            Ok(settled) => outcome(&settled, &base, context),
            Err(error) => Outcome::failed(format!("bash was not run: {error}")),
        }
    }

    async fn settle(&self, _: Value, context: &ToolContext) -> Outcome {
        let base = context.base();
        match runner::settle(&base, &context.output, &context.cancel).await {
            Ok(settled) => outcome(&settled, &base, context),
            Err(error) => Outcome::new(
                Status::Interrupted,
                format!("[interrupted] What became of this command cannot be read ({error}). It was not run again."),
            ),
        }
    }
}

fn shell() -> &'static str {
    if Path::new("/bin/bash").exists() || Path::new("/usr/bin/bash").exists() { "bash" } else { "sh" }
}

/// What the model reads of a command.
fn outcome(settled: &Settled, base: &Path, context: &ToolContext) -> Outcome {
    match settled {
        Settled::Ended(exit) => ended(exit, base, context),
        Settled::NotStarted => Outcome::new(
            Status::NotStarted,
            "[not started] Piton was stopped before this command ran. It had no effect; call it again if it is still \
             wanted.",
        ),
        Settled::Interrupted { at_most_ms } => {
            let output = Output::read(base, context.limits.output_chars);
            let text = format!(
                "[interrupted] This command was started once, was cut off within {}, and was not run again. It may have \
                 had partial effects: check before you rely on it. Captured output ({} bytes):\n{}",
                seconds(*at_most_ms),
                output.bytes,
                output.text,
            );
            Outcome::new(Status::Interrupted, text).with(json!({"output_path": output.path(base)}))
        }
    }
}

fn ended(exit: &Exit, base: &Path, context: &ToolContext) -> Outcome {
    let output = Output::read(base, context.limits.output_chars);
    let mut text = output.text.trim_end_matches('\n').to_owned();
    let mut add = |line: String| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
    };
    let (status, short) = match (exit.status, exit.code, exit.signal) {
        (ExitStatus::Exited, Some(0), _) => (Status::Ok, String::new()),
        (ExitStatus::Exited, code, _) => {
            let code = code.unwrap_or(-1);
            add(format!("[exit code {code}]"));
            (Status::Failed, format!("exit {code}, "))
        }
        (ExitStatus::Signaled, _, signal) => {
            add(format!("[ended by signal {}]", signal.unwrap_or_default()));
            (Status::Failed, format!("signal {}, ", signal.unwrap_or_default()))
        }
        (ExitStatus::TimedOut, ..) => {
            add(format!("[timed out after {}: the command and all it had started were ended]", seconds(exit.duration_ms)));
            (Status::TimedOut, "timed out, ".to_owned())
        }
        (ExitStatus::Cancelled, ..) => {
            add(format!("[cancelled after {}: the command had begun and was ended; it may have had partial effects]", seconds(exit.duration_ms)));
            (Status::Cancelled, "cancelled, ".to_owned())
        }
        (ExitStatus::SpawnFailed | ExitStatus::NotStarted, ..) => (Status::Failed, "not run, ".to_owned()),
    };
    if exit.left_behind > 0 {
        add(format!("[{} background processes were ended when the command finished]", exit.left_behind));
    }
    exit.error.iter().for_each(|error| add(format!("[{error}]")));
    if text.is_empty() {
        text.push_str("(no output)");
    }
    let mut outcome = Outcome::new(status, text).titled(format!("({short}{})", seconds(exit.duration_ms)));
    outcome.duration_ms = exit.duration_ms;
    outcome.metadata = json!({
        "exit_code": exit.code,
        "signal": exit.signal,
        "output_bytes": exit.output_bytes,
        "output_path": output.path(base),
        "left_behind": exit.left_behind,
    });
    outcome
}

/// A command's output as far as it is shown.
struct Output {
    text: String,
    bytes: u64,
}

impl Output {
    /// Reads no more of the file than can be shown.
    fn read(base: &Path, most_chars: usize) -> Self {
        let path = runner::file(base, "out");
        let Ok(mut file) = File::open(&path) else { return Self { text: String::new(), bytes: 0 } };
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        // Four bytes a character at the most, and as much again for escapes that are taken out.
        let window = (most_chars * 8) as u64;
        let text = if bytes <= window {
            let cut = truncate::head_tail(&readable(&piece(&mut file, 0, bytes)), most_chars);
            let full = if cut.removed_chars > 0 { full_output(&path, bytes) } else { String::new() };
            format!("{}{full}", cut.text)
        } else {
            let half = most_chars / 2;
            let head: String = readable(&piece(&mut file, 0, window / 2)).chars().take(half).collect();
            let end = readable(&piece(&mut file, bytes - window / 2, window / 2));
            let tail: String = end.chars().skip(end.chars().count().saturating_sub(half)).collect();
            let shown = (head.len() + tail.len()) as u64;
            let cut = bytes.saturating_sub(shown);
            format!("{head}\n\n... [truncated about {cut} bytes] ...\n\n{tail}{}", full_output(&path, bytes))
        };
        Self { text, bytes }
    }

    fn path(&self, base: &Path) -> Value {
        if self.bytes == 0 { Value::Null } else { json!(runner::file(base, "out")) }
    }
}

fn full_output(path: &Path, bytes: u64) -> String {
    format!("\n[full output, {bytes} bytes: read or grep {}]", path.display())
}

fn piece(file: &mut File, from: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read is not shown; the file is named in any case.
    drop(file.seek(SeekFrom::Start(from)).and_then(|_| file.take(length).read_to_end(&mut bytes)));
    bytes
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}
