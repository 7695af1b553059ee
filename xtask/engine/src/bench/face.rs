//! The terminal interface, measured from outside through a pseudo-terminal by `xtask/terminal/measure.py`, which measures other
//! agents in the same way.

use super::measures::{Measure, Row, Stage, Unit};
use anyhow::{Context, ensure};
use piton_testkit::TempWorkspace;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// All of them by name.
pub(super) const MEASURES: &[(&str, Measure)] =
    &[("face", face), ("face_long", long), ("face_files", files), ("face_resume", resume)];

/// How long nothing happens in `face`, in seconds.
const IDLE_SECONDS: &str = "60";
/// Files of the folder in `face_files`.
const FILES: &str = "500000";

/// Start, echo, silence, and streaming.
fn face(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let told = measured(stage, &["--idle", IDLE_SECONDS, "--also", "escape"], None, &[])?;
    let row = |what, unit, path: &[&str]| Ok::<_, anyhow::Error>(Row::of("face", what, unit, [number(&told, path)?]));
    let ms = Unit::Milliseconds;
    Ok(vec![
        row("`piton` → first paint; keys are taken from then on", ms, &["first_byte_ms"])?.at_most(30.0),
        row("`piton` → status line complete", ms, &["prompt_ms"])?,
        row("key → echo, idle, p50", ms, &["echo_idle_ms", "p50"])?,
        row("key → echo, idle, p99", ms, &["echo_idle_ms", "p99"])?.at_most(8.0),
        row("key → echo while text streams, 200 pieces a second, p50", ms, &["echo_streaming_ms", "p50"])?,
        row("the same, p99", ms, &["echo_streaming_ms", "p99"])?.at_most(8.0),
        row("idle for 60 s: bytes written", Unit::Bytes, &["idle_bytes"])?.at_most(0.0),
        row("the same: processor, of a core in a hundred", Unit::Number, &["idle_cpu_percent"])?.at_most(0.0),
        row("bytes written for a byte of text", Unit::Times, &["bytes_per_byte_of_text"])?.at_most(2.0),
        row("frames a second meanwhile", Unit::Number, &["frames_per_second"])?.at_most(60.0),
        row("Esc → the command's process is gone, p50", ms, &["escape_gone_ms", "p50"])?,
        row("the same, p99", ms, &["escape_gone_ms", "p99"])?.at_most(100.0),
        row("memory (PSS) at the prompt", Unit::Megabytes, &["pss_mb_prompt"])?.at_most(40.0),
    ])
}

/// Behind ten megabytes of transcript.
fn long(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let told = measured(stage, &["--idle", "1", "--also", "long,resize"], None, &[])?;
    let row =
        |what, unit, path: &[&str]| Ok::<_, anyhow::Error>(Row::of("face_long", what, unit, [number(&told, path)?]));
    let ms = Unit::Milliseconds;
    Ok(vec![
        row("10 MB of text, told and drawn", Unit::Seconds, &["long_seconds"])?,
        row("key → echo behind it, p50", ms, &["echo_long_ms", "p50"])?,
        row("the same, p99", ms, &["echo_long_ms", "p99"])?.at_most(8.0),
        row("memory (PSS) behind it", Unit::Megabytes, &["pss_mb_long"])?.at_most(60.0),
        row("another size → the last byte drawn for it, p99", ms, &["resize_ms", "p99"])?.at_most(50.0),
    ])
}

/// What an `@` finds in a large folder.
fn files(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let told = measured(stage, &["--files", FILES], None, &[])?;
    let row = |what, path: &[&str]| {
        Ok::<_, anyhow::Error>(Row::of("face_files", what, Unit::Milliseconds, [number(&told, path)?]))
    };
    Ok(vec![
        row("`@` and a word in 500,000 files → first hit, right after the start", &["first_hit_at_once_ms"])?
            .at_most(50.0),
        row("the same, once the folder was read", &["first_hit_read_ms"])?.at_most(50.0),
    ])
}

/// A long session is gone on with.
fn resume(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let data = tempfile::tempdir()?;
    stage.session_sizes("open", data.path())?;
    let mut sessions = std::fs::read_dir(data.path().join("sessions")).context("no session was made")?;
    let id = sessions.next().context("no session was made")??.file_name().to_string_lossy().into_owned();
    let told = measured(stage, &["--start"], Some(data.path()), &["--resume", &id])?;
    let row = |what, path: &[&str]| {
        Ok::<_, anyhow::Error>(Row::of("face_resume", what, Unit::Milliseconds, [number(&told, path)?]))
    };
    Ok(vec![
        row("a session of 10,000 steps resumed → first paint, which takes keys", &["first_byte_ms", "p50"])?
            .at_most(150.0),
        row("the same → the end of the session is shown", &["prompt_ms", "p50"])?,
    ])
}

/// What the script says of the binary, in a world of its own.
fn measured(stage: &Stage, words: &[&str], data: Option<&Path>, flags: &[&str]) -> anyhow::Result<Value> {
    let (workspace, home) = (TempWorkspace::new(), TempWorkspace::new());
    let script = stage.root().join("xtask/terminal/measure.py");
    home.write("config.toml", "");
    let mut command = Command::new("python3");
    command.arg(script).args(words).arg("--").arg(stage.binary());
    command.args(["--model", "openai-chat/m", "--yes", "--sandbox", "off"]).args(flags);
    command.current_dir(workspace.path()).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home.path()).env("TMPDIR", std::env::temp_dir());
    let data = data.map_or_else(|| home.path().join("data"), Path::to_owned);
    command.env("PITON_DATA_DIR", data).env("PITON_CONFIG", home.path().join("config.toml"));
    let output = command.output().context("python3 is needed to measure the terminal interface")?;
    let error = || String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "measure.py {}: {}", words.join(" "), error());
    serde_json::from_slice(&output.stdout).with_context(|| format!("measure.py printed no JSON: {}", error()))
}

fn number(told: &Value, path: &[&str]) -> anyhow::Result<f64> {
    let found = path.iter().try_fold(told, |value, name| value.get(name)).and_then(Value::as_f64);
    found.with_context(|| format!("measure.py says nothing of {}", path.join(".")))
}
