//! `piton session processes` and `kill`: the commands that a session has left running, whether or not a piton has it open.

use crate::failure::{Context, Result, bail};
use crate::out::view;
use piton_core::ids::{CallId, SessionId};
use piton_core::task::{Task, Tasks};
use piton_engine::engine::Engine;
use piton_tools::runner;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// The most that ending a command takes: its grace, and that of its runner.
const END_WITHIN: Duration = Duration::from_secs(6);

/// One of them as it is now.
struct Found<'t> {
    task: &'t Task,
    files: PathBuf,
    /// The process that looks after it, while it runs.
    runner: Option<i32>,
}

impl<'t> Found<'t> {
    fn of(engine: &Engine, id: &SessionId, task: &'t Task) -> Self {
        let files = engine.task_files(id, &task.id);
        let runner = runner::running(&files).map(|claim| claim.pid);
        Self { task, files, runner }
    }

    /// In a few words.
    fn state(&self) -> String {
        match (&self.runner, &self.task.outcome) {
            (Some(_), _) if runner::is_kept(&self.files) => "running, kept".to_owned(),
            (Some(_), _) => "running".to_owned(),
            (None, Some(outcome)) => {
                let end = outcome.title.rsplit_once(" (").map(|(_, end)| end.trim_end_matches(')').to_owned());
                end.unwrap_or_else(|| "over".to_owned())
            }
            (None, None) => "over; its end is recorded when the session is next opened".to_owned(),
        }
    }

    fn line(&self) -> String {
        let command = view::first_line(&self.task.command);
        format!("{}  {}  {}\n", self.task.id, self.state(), command)
    }

    fn json(&self) -> String {
        let Task { id, command, started_ms, outcome, .. } = self.task;
        let value = json!({
            "task": id,
            "command": command,
            "running": self.runner.is_some(),
            "kept": self.runner.is_some() && runner::is_kept(&self.files),
            "started_ms": started_ms,
            "status": outcome.as_ref().map(|outcome| outcome.status),
            "exit_code": outcome.as_ref().and_then(|outcome| outcome.metadata.get("exit_code").cloned()),
            "output": self.files.with_extension("out"),
        });
        format!("{value}\n")
    }
}

/// Lists them, after some were marked to go on or not.
pub(super) async fn list(
    engine: &Engine,
    id: &SessionId,
    keep: &[String],
    release: &[String],
    json: bool,
) -> Result<()> {
    let tasks = engine.tasks(id).await?;
    for (names, wanted) in [(keep, true), (release, false)] {
        for task in named(&tasks, names, id)? {
            let found = Found::of(engine, id, task);
            if found.runner.is_none() {
                bail!("{} is over: there is nothing to keep", task.id);
            }
            runner::keep(&found.files, wanted).with_context(|| format!("cannot mark {}", task.id))?;
        }
    }
    let mut commands = tasks.all().iter().filter(|task| task.subagent.is_none()).peekable();
    if commands.peek().is_none() && !json {
        view::write_stderr("no command was left running in this session\n");
    }
    for task in commands {
        let found = Found::of(engine, id, task);
        view::write_stdout(&if json { found.json() } else { found.line() });
    }
    Ok(())
}

/// Ends some. The exit code: 1 where one did not end.
pub(super) async fn kill(engine: &Engine, id: &SessionId, names: &[String], json: bool) -> Result<u8> {
    let tasks = engine.tasks(id).await?;
    let meant: Vec<&Task> = match names {
        [all] if all == "all" => tasks.commands().collect(),
        names => named(&tasks, names, id)?,
    };
    let mut code = 0;
    for task in meant {
        let found = Found::of(engine, id, task);
        let was_running = found.runner.is_some();
        let files = found.files.clone();
        let is_over = tokio::task::spawn_blocking(move || runner::end(&files, END_WITHIN)).await.unwrap_or(false);
        if !is_over {
            code = 1;
        }
        if json {
            view::write_stdout(&Found::of(engine, id, task).json());
        } else {
            let word = match (is_over, was_running) {
                (true, true) => "ended",
                (true, false) => "was over already",
                (false, _) => "did not end within 6 seconds; its processes may hang in the kernel",
            };
            view::write_stderr(&format!("{} {word}\n", task.id));
        }
    }
    Ok(code)
}

fn named<'t>(tasks: &'t Tasks, names: &[String], id: &SessionId) -> Result<Vec<&'t Task>> {
    let mut found = Vec::new();
    for name in names {
        let task = tasks.find(&CallId::from(name.as_str())).filter(|task| task.subagent.is_none());
        let Some(task) = task else {
            bail!("no command `{}` was left running in {id}; see piton session processes {id}", view::clean(name));
        };
        found.push(task);
    }
    Ok(found)
}
