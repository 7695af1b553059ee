//! `piton run` against the server, and what it printed.

use super::server::LocalServer;
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where runs take place.
pub(super) struct Stage<'s> {
    binary: PathBuf,
    home: PathBuf,
    workspace: PathBuf,
    pub(super) server: &'s LocalServer,
}

/// What a run that is over has printed.
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) events: Vec<Value>,
}

/// The most a run may take, in seconds: a slow machine reads a prompt in one or two minutes.
const MOST_SECONDS: &str = "600";

impl<'s> Stage<'s> {
    /// A workspace with a file in it, and a configuration that names the server three times.
    pub(super) fn new(binary: PathBuf, dir: &Path, server: &'s LocalServer) -> anyhow::Result<Self> {
        let (home, workspace) = (dir.join("home"), dir.join("workspace"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&workspace)?;
        std::fs::write(workspace.join("main.py"), "print(1)\n")?;
        let table = |name: &str, protocol: &str| {
            format!("[providers.{name}]\nprotocol = \"{protocol}\"\nbase_url = \"{}\"\n", server.url)
        };
        let tables = [table("chat", "chat"), table("responses", "responses"), table("messages", "anthropic")];
        std::fs::write(home.join("config.toml"), tables.concat())?;
        Ok(Self { binary, home, workspace, server })
    }

    /// Starts a run over one of the three, with the task on standard input.
    fn start(&self, provider: &str, args: &[&str], task: &str) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.binary);
        command.args(["run", "--yes", "--format", "stream-json", "--max-time", MOST_SECONDS]);
        command.args(["--model", &format!("{provider}/smollm2")]).args(args).arg("-").current_dir(&self.workspace);
        command.env("PITON_DATA_DIR", self.home.join("data")).env("PITON_CONFIG", self.home.join("config.toml"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        child.stdin.take().context("its standard input is a pipe")?.write_all(task.as_bytes())?;
        Ok(child)
    }

    /// Runs to the end.
    pub(super) fn run(&self, provider: &str, args: &[&str], task: &str) -> anyhow::Result<Ran> {
        self.watch(provider, args, task, |_| false)
    }

    /// Runs to the end, with Ctrl-C at the first event that is the one.
    pub(super) fn interrupt(
        &self,
        provider: &str,
        task: &str,
        is_it: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<Ran> {
        self.watch(provider, &[], task, is_it)
    }

    fn watch(
        &self,
        provider: &str,
        args: &[&str],
        task: &str,
        mut is_it: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<Ran> {
        let mut child = self.start(provider, args, task)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process has an id")?;
        let mut is_interrupted = false;
        let mut events: Vec<Value> = Vec::new();
        for line in BufReader::new(child.stdout.take().context("its standard output is a pipe")?).lines() {
            let event = serde_json::from_str(&line?)?;
            if !is_interrupted && is_it(&event) {
                is_interrupted = true;
                kill_process(pid, Signal::INT)?;
            }
            events.push(event);
        }
        let code = child.wait()?.code().context("piton was killed")?;
        ensure!(events.last().is_some_and(|event| event["exit_code"] == code), "the last line knows the exit code");
        Ok(Ran { code, events })
    }
}

impl Ran {
    /// The events of one type.
    pub(super) fn all<'r>(&'r self, kind: &'r str) -> impl Iterator<Item = &'r Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }

    /// The pieces in which prose streamed.
    pub(super) fn pieces(&self) -> Vec<&str> {
        let deltas = self.all("model_delta").filter(|event| event["delta"]["type"] == "text");
        deltas.filter_map(|event| event["delta"]["text"].as_str()).collect()
    }

    /// Prompt tokens of each step, and how many of them the server had cached.
    pub(super) fn prompts(&self) -> Vec<(u64, u64)> {
        let number = |event: &Value, key: &str| event["reply"]["usage"][key].as_u64().unwrap_or_default();
        let read = |event| (number(event, "input_tokens"), number(event, "cache_read_tokens"));
        self.all("message_finished").map(read).collect()
    }

    /// The last line.
    pub(super) fn result(&self) -> &Value {
        self.events.last().unwrap_or(&Value::Null)
    }
}
