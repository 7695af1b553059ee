//! The sandbox of a session's commands: what was chosen, and whether this machine can make one.
//!
//! Whether it can is tried with a real command, once per boot and binary: the kernel's settings alone do not tell, since a
//! container may forbid what they allow. That it could is only believed to spare the trial. The runner starts nothing without its
//! sandbox, whatever is written here.

use super::environment;
use super::error::AssembleError;
use super::machine::Machine;
use super::notice::Notice;
use super::wishes::Wishes;
use crate::config::{Config, OpenHost};
use crate::settings::{SandboxSettings, network};
use piton_core::permission::{Action, PermissionMode};
use piton_core::policy::{Policy, SandboxMode};
use piton_http::egress::{Egress, HostRule};
use piton_sandbox::{Limits, Reach, Write};
use piton_tools::runner::RunnerCommand;
use piton_tools::spawn::{Confined, Confinement, Env, Group, Spawn, Streams, output_within};
use piton_tools::{private, regular};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is chosen where nothing is said.
const DEFAULT: SandboxMode = SandboxMode::Off;
/// How long a trial may take. It takes a hundredth of that.
const TRIAL: Duration = Duration::from_secs(5);

/// What the commands of a session can reach, as recorded with its turns and as made. Where there can be none, and it was not
/// switched off, every command is asked about, or nothing is started where nobody is there to be asked.
pub(super) fn settings(
    config: &Config,
    machine: &Machine,
    wishes: &Wishes,
    policy: &mut Policy,
    notices: &mut Vec<Notice>,
) -> Result<Option<SandboxSettings>, AssembleError> {
    let chosen = config.sandbox.mode.unwrap_or(DEFAULT);
    let Some(write) = write(chosen) else {
        if !config.sandbox.net.is_empty() {
            notices.push(Notice::new("hosts are opened (--net, [sandbox] net), and there is no sandbox: all are open"));
        }
        return Ok(None);
    };
    let settings = self::chosen(machine, config, write);
    for folder in config.sandbox.read.iter().filter(|folder| !folder.exists()) {
        notices.push(Notice::new(format!(
            "{} of [sandbox] read does not exist; nothing is shown there",
            folder.display()
        )));
    }
    match available(machine) {
        Ok(()) => {
            policy.sandbox = chosen;
            policy.net = config.sandbox.net.iter().map(|OpenHost(rule)| rule.to_string()).collect();
            Ok(Some(settings))
        }
        Err(why) if !wishes.is_watched || policy.mode == PermissionMode::Auto || !config.check.commands.is_empty() => {
            Err(AssembleError::NoSandbox { why })
        }
        Err(why) => {
            if !policy.permission.forbid("bash") {
                policy.permission.push("bash", Action::Ask);
            }
            notices.push(Notice::new(format!(
                "no sandbox can be made here ({why}): every command is asked about, and runs with your rights; --sandbox off \
                 ends this message"
            )));
            Ok(None)
        }
    }
}

fn write(mode: SandboxMode) -> Option<Write> {
    match mode {
        SandboxMode::Off => None,
        SandboxMode::WorkspaceWrite => Some(Write::Workspace),
        SandboxMode::ReadOnly => Some(Write::Nothing),
    }
}

fn chosen(machine: &Machine, config: &Config, write: Write) -> SandboxSettings {
    SandboxSettings {
        write,
        home: home(machine),
        read: config.sandbox.read.iter().filter_map(|folder| fs::canonicalize(folder).ok()).collect(),
        hidden: vec![machine.data_dir.clone(), machine.config_file.clone()],
        limits: limits(config),
        egress: egress(config),
    }
}

/// The hosts that are open; `None`: none is.
fn egress(config: &Config) -> Option<Arc<Egress>> {
    let rules: Vec<HostRule> = config.sandbox.net.iter().map(|OpenHost(rule)| rule.clone()).collect();
    (!rules.is_empty()).then(|| Arc::new(Egress::new(rules)))
}

/// The user's home, by its real name.
fn home(machine: &Machine) -> PathBuf {
    let said = machine.var("HOME").map_or_else(|| PathBuf::from("/home"), PathBuf::from);
    fs::canonicalize(&said).unwrap_or(said)
}

fn limits(config: &Config) -> Limits {
    const MEGABYTE: u64 = 1 << 20;
    let default = Limits::default();
    let bytes = |megabytes: Option<u64>| megabytes.map(|count| count.saturating_mul(MEGABYTE));
    Limits {
        processes: config.sandbox.processes.or(default.processes),
        memory_bytes: bytes(config.sandbox.memory_mb).or(default.memory_bytes),
        file_bytes: bytes(config.sandbox.file_mb).or(default.file_bytes),
    }
}

/// What a sandbox changes in the environment of its commands: what they look for is elsewhere in it.
pub fn changed(env: &mut environment::Variables, home: &Path) {
    let mut set = |name: &str, value: OsString| drop(env.insert(name.into(), value));
    set("HOME", home.into());
    set("TMPDIR", "/tmp".into());
    // Nobody else's files can be made in it, and an archive must not fail for that.
    if rustix::process::getuid().is_root() {
        set("TAR_OPTIONS", "--no-same-owner".into());
    }
}

/// Whether a sandbox can be made here; if not, why.
pub fn available(machine: &Machine) -> Result<(), String> {
    let now = Tried::now(machine);
    let file = machine.data_dir.join("sandbox.json");
    let known = regular::whole(&file, regular::SETTINGS_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Tried>(&bytes).ok());
    if now.is_some() && known == now {
        return Ok(());
    }
    try_out(machine)?;
    if let Some(now) = now {
        // Without it the next start tries again.
        let _ = private::make_folder(&machine.data_dir)
            .and_then(|()| private::write(&file, &serde_json::to_vec(&now).unwrap_or_default()));
    }
    Ok(())
}

/// What a trial that went well is good for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tried {
    boot: String,
    user: u32,
    program: PathBuf,
    inode: u64,
    changed: i64,
}

impl Tried {
    fn now(machine: &Machine) -> Option<Self> {
        let program = fs::metadata(&machine.exe).ok()?;
        Some(Self {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?,
            user: rustix::process::getuid().as_raw(),
            program: machine.exe.clone(),
            inode: program.ino(),
            changed: program.ctime(),
        })
    }
}

/// What is needed to run a command in a sandbox by hand: in this workspace, with a home and a `/tmp` in the folder `private`.
pub fn by_hand(
    machine: &Machine,
    config: &Config,
    mode: SandboxMode,
    workspace: &Path,
    private: PathBuf,
) -> Confinement {
    let Some(write) = write(mode) else { return Confinement::Model };
    let SandboxSettings { home, read, hidden, limits, egress, .. } = chosen(machine, config, write);
    let path = std::env::split_paths(machine.var("PATH").unwrap_or_default()).filter(|folder| folder.is_absolute());
    let reach = Reach {
        workspace: workspace.to_path_buf(),
        write,
        home,
        private,
        path: path.collect(),
        read,
        hidden,
        limits,
        network: network(egress.as_deref()),
    };
    Confinement::Sandbox(Arc::new(Confined { reach, by: runner(machine), egress }))
}

fn try_out(machine: &Machine) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let workspace = folder.path().join("workspace");
    let made = fs::create_dir(&workspace).and_then(|()| fs::canonicalize(&workspace));
    let workspace = made.map_err(|error| error.to_string())?;
    let confinement =
        by_hand(machine, &Config::default(), SandboxMode::WorkspaceWrite, &workspace, folder.path().join("private"));
    let env = Env::new([("PATH".into(), "/usr/bin:/bin".into())].into());
    let spawn = Spawn::new(["true"], &env, &workspace, confinement);
    let child = spawn.start(Group::Own, Streams::caught()).map_err(|error| error.to_string())?;
    match output_within(TRIAL, child).map_err(|error| error.to_string())? {
        Some(output) if output.status.success() => Ok(()),
        Some(output) => Err(said(&output.stderr)),
        None => Err("a trial did not end in time".to_owned()),
    }
}

/// What a runner said of its trouble, without who says it.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().last().unwrap_or("a trial failed without a word");
    line.strip_prefix("piton: ").unwrap_or(line).to_owned()
}

/// How this program is started as a runner.
pub(super) fn runner(machine: &Machine) -> RunnerCommand {
    RunnerCommand { program: machine.exe.clone(), args: vec![OsString::from("runner")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_runner_says_the_reason_is_told() {
        assert_eq!(said(b"noise\npiton: no namespaces\n"), "no namespaces");
        assert_eq!(said(b""), "a trial failed without a word");
    }
}
