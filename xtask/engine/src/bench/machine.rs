//! What was measured on, and when.

use anyhow::{Context, ensure};
use std::process::Command;

/// The machine in a few words each: what, and its value.
pub(super) fn facts(profile: &str) -> anyhow::Result<Vec<(&'static str, String)>> {
    let cores = std::thread::available_parallelism()?.to_string();
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_string_lossy();
    Ok(vec![
        ("Cores", cores),
        ("CPU", cpu_model()?),
        ("Kernel", std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned()),
        ("File system", said_by("stat", &["--file-system", "--format=%T", &folder])?),
        ("Commit", said_by("git", &["describe", "--always", "--dirty"])?),
        ("Profile", profile.to_owned()),
    ])
}

/// The date here.
pub(crate) fn today() -> anyhow::Result<String> {
    said_by("date", &["+%F"])
}

fn cpu_model() -> anyhow::Result<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    Ok(line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned())
}

fn said_by(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(args).output().with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} {} failed", args.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
