//! One run of the binary: started into an empty world, its model played by a script.

use super::launch::{Report, monotonic};
use anyhow::{Context, ensure};
use piton_testkit::{FakeProvider, SeenRequest, TempWorkspace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a binary found out about the sandboxes of this machine, which it does once a boot: later runs find it in their fresh data
/// folders.
static TRIED: LazyLock<Mutex<HashMap<PathBuf, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// What was seen of a run.
pub(super) struct Run {
    /// By the kernel.
    pub(super) report: Report,
    /// By the model, in order.
    pub(super) requests: Vec<SeenRequest>,
}

impl Run {
    /// From each answer's end to the next request.
    pub(super) fn gaps(&self) -> Vec<Duration> {
        let pairs = self.requests.windows(2);
        pairs.filter_map(|pair| Some(pair[1].arrived.saturating_duration_since(pair[0].answered?))).collect()
    }

    /// From the start of the process to its first request.
    pub(super) fn first_request_after(&self) -> Duration {
        // The report's time is from another process.
        let age = monotonic().saturating_sub(self.report.started);
        age.saturating_sub(self.requests[0].arrived.elapsed())
    }
}

/// Plays the script until its command says that it has started (it makes a file of that name), presses Ctrl-C, and
/// answers with the time until the last process of the run was gone.
pub(super) fn cancelled_after(binary: &Path, script: &Value) -> anyhow::Result<Duration> {
    let provider = FakeProvider::start(script.clone());
    let (workspace, home) = (TempWorkspace::new(), TempWorkspace::new());
    give_tried(binary, &home.path())?;
    let mut launcher = launcher(binary, &provider, &workspace, &home)?.spawn().context("cannot start the launcher")?;
    let patience = Instant::now() + Duration::from_secs(30);
    while !workspace.has("started") {
        ensure!(Instant::now() < patience, "the command was never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", launcher.id()))?;
    let pid = children.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let pressed = Instant::now();
    kill_process(pid.context("the launcher has started nothing")?, Signal::INT)?;
    // It waits for everything that Piton leaves behind.
    launcher.wait()?;
    Ok(pressed.elapsed())
}

/// Plays the script once. The run must end well, and with as many requests as the script has answers.
pub(super) fn play(binary: &Path, script: &Value) -> anyhow::Result<Run> {
    play_with(binary, script, &[])
}

/// The same with more flags.
pub(super) fn play_with(binary: &Path, script: &Value, flags: &[&str]) -> anyhow::Result<Run> {
    play_at_home(binary, script, flags, &|_| ())
}

/// The same with something at home before.
pub(super) fn play_at_home(
    binary: &Path,
    script: &Value,
    flags: &[&str],
    prepare: &dyn Fn(&TempWorkspace),
) -> anyhow::Result<Run> {
    let (run, said) = attempt_with(binary, script, (flags, false), prepare)?;
    ensure!(run.report.succeeded, "piton failed:\n{said}");
    let answers = script.as_array().map_or(0, Vec::len);
    ensure!(
        run.requests.len() == answers,
        "{} requests came where {answers} were expected:\n{said}",
        run.requests.len()
    );
    Ok(run)
}

/// Plays the script once, whatever becomes of it: the run, and what it said to people.
pub(super) fn attempt(binary: &Path, script: &Value) -> anyhow::Result<(Run, String)> {
    attempt_with(binary, script, (&[], false), &|_| ())
}

/// Plays the script once as the first run since the machine was started.
pub(super) fn play_first(binary: &Path, script: &Value) -> anyhow::Result<Run> {
    let (run, said) = attempt_with(binary, script, (&[], true), &|_| ())?;
    ensure!(run.report.succeeded, "piton failed:\n{said}");
    Ok(run)
}

fn give_tried(binary: &Path, home: &Path) -> anyhow::Result<()> {
    let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(tried) = tried.get(binary) else { return Ok(()) };
    let data = home.join("data");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&data)?;
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(data.join("sandbox.json"))?;
    Ok(file.write_all(tried)?)
}

fn keep_tried(binary: &Path, home: &Path) {
    // An older binary has none.
    if let Ok(tried) = std::fs::read(home.join("data/sandbox.json")) {
        TRIED.lock().unwrap_or_else(PoisonError::into_inner).insert(binary.to_owned(), tried);
    }
}

fn attempt_with(
    binary: &Path,
    script: &Value,
    (flags, is_first): (&[&str], bool),
    prepare: &dyn Fn(&TempWorkspace),
) -> anyhow::Result<(Run, String)> {
    let provider = FakeProvider::start(script.clone());
    let (workspace, home) = (TempWorkspace::new(), TempWorkspace::new());
    prepare(&home);
    // What was just written would be written out by the first sync of the run.
    rustix::fs::syncfs(File::open(home.path())?)?;
    if !is_first {
        give_tried(binary, &home.path())?;
    }
    launcher(binary, &provider, &workspace, &home)?.args(flags).status().context("cannot start the launcher")?;
    let said = std::fs::read_to_string(home.path().join("stderr")).unwrap_or_default();
    let report = std::fs::read_to_string(home.path().join("report")).ok().and_then(|text| Report::parse(&text));
    let report = report.with_context(|| format!("the launcher reports nothing:\n{said}"))?;
    keep_tried(binary, &home.path());
    Ok((Run { report, requests: provider.requests() }, said))
}

/// The launcher with the binary in a world of its own; it writes `report` and `stderr` at home.
fn launcher(
    binary: &Path,
    provider: &FakeProvider,
    workspace: &TempWorkspace,
    home: &TempWorkspace,
) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--launch"]).arg(home.path().join("report")).arg(binary);
    command.args(["run", "do it", "--model", "openai-chat/test", "--yes", "--max-steps", "1000"]);
    command.current_dir(workspace.path()).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home.path());
    let config = home.path().join("config.toml");
    File::create(&config)?;
    command.env("PITON_DATA_DIR", home.path().join("data")).env("PITON_CONFIG", config);
    command.env("OPENAI_BASE_URL", format!("{}/v1", provider.url())).env("OPENAI_API_KEY", "sk-test");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(home.path().join("stderr"))?);
    Ok(command)
}
