//! The sandbox of a session's commands: what was chosen, and whether this machine can make one.
//!
//! Whether it can is tried with a real command, once per boot and binary: the kernel's settings alone do not tell, since a
//! container may forbid what they allow. That it could is only believed to spare the trial. The runner starts nothing without its
//! sandbox, whatever is written here.

use super::bubblewrap::why_not_bubblewrap;
use super::error::AssembleError;
use super::machine::Machine;
use super::notice::Notice;
use super::wishes::Wishes;
use crate::config::{BackendChoice, Config, OpenHost};
use crate::settings::{SandboxSettings, Settings};
use piton_core::permission::{self, Action, PermissionMode};
use piton_core::policy::{Policy, SandboxMode};
use piton_http::egress::{Egress, HostRule};
use piton_http::page::PageAddress;
use piton_sandbox::{Backend, Limits, Write, carried};
use piton_tools::runner::RunnerCommand;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams, output_within};
use piton_tools::{private, regular};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is chosen where nothing is said.
const DEFAULT: SandboxMode = SandboxMode::WorkspaceWrite;
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
    policy.reach = reach(config, machine);
    let chosen = config.sandbox.mode.unwrap_or(DEFAULT);
    let Some(write) = write(chosen) else {
        if !config.sandbox.net.is_empty() {
            notices.push(Notice::new("hosts are opened (--net, [sandbox] net), and there is no sandbox: all are open"));
        }
        return Ok(None);
    };
    for folder in config.sandbox.read.iter().filter(|folder| !folder.exists()) {
        notices.push(Notice::new(format!(
            "{} of [sandbox] read does not exist; nothing is shown there",
            folder.display()
        )));
    }
    match available(machine, config.sandbox.backend.unwrap_or_default()) {
        Ok(Available { backend, without }) => {
            policy.sandbox = chosen;
            policy.sandbox_backend = Some(backend.word().to_owned());
            notices.extend(without.map(|why| Notice::new(weaker(&why))));
            let settings = self::chosen(machine, config, write, backend);
            match &settings.egress {
                Some(egress) => policy.net = egress.rules().iter().map(ToString::to_string).collect(),
                None => notices.extend(unopened(config).map(Notice::new)),
            }
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

/// Confines the commands of a session by the defaults, in a sandbox that can be made here.
pub fn confine(settings: &mut Settings, machine: &Machine, backend: Backend) {
    let config = Config::default();
    settings.policy.reach = reach(&config, machine);
    settings.policy.sandbox = DEFAULT;
    settings.policy.sandbox_backend = Some(backend.word().to_owned());
    settings.sandbox = write(DEFAULT).map(|write| chosen(machine, &config, write, backend));
}

/// What calls reach without being asked about, as far as it is there.
pub fn reach(config: &Config, machine: &Machine) -> permission::Reach {
    let home = home(machine);
    // Also where they are made later: who writes the configuration first says what it allows.
    let own = [&machine.data_dir, &machine.config_file].map(|path| real(path));
    let there = |paths: Vec<PathBuf>| -> Vec<String> {
        let real = paths.into_iter().filter_map(|path| fs::canonicalize(path).ok());
        real.filter_map(|path| path.into_os_string().into_string().ok()).collect()
    };
    let read = [config.sandbox.read.clone(), piton_sandbox::readable(&home)];
    let own = own.into_iter().filter_map(|path| path.into_os_string().into_string().ok());
    permission::Reach {
        read: there(read.concat()),
        never: own.chain(there(piton_sandbox::secret(&home))).collect(),
        home: home.to_string_lossy().into_owned(),
        hosts: config.sandbox.net.iter().map(|OpenHost(rule)| rule.to_string()).chain(searched(config)).collect(),
        protected: piton_sandbox::protected().collect(),
    }
}

/// A path by its real name, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let rest = |above: &Path| path.strip_prefix(above).unwrap_or(path).to_owned();
    found.map_or_else(|| path.to_owned(), |(above, real)| if above == path { real } else { real.join(rest(above)) })
}

/// The host of the search endpoint. The user named it, so that it is not a new one.
fn searched(config: &Config) -> Option<String> {
    PageAddress::parse(&config.tools.web_search.as_ref()?.url).ok().map(|address| address.host())
}

fn write(mode: SandboxMode) -> Option<Write> {
    match mode {
        SandboxMode::Off => None,
        SandboxMode::WorkspaceWrite => Some(Write::Workspace),
        SandboxMode::ReadOnly => Some(Write::Nothing),
    }
}

fn chosen(machine: &Machine, config: &Config, write: Write, backend: Backend) -> SandboxSettings {
    let home = home(machine);
    let config_home = machine.var("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    SandboxSettings {
        backend,
        write,
        carried: carried(&home, &config_home, machine.var("GIT_CONFIG_GLOBAL").map(Path::new)),
        home,
        read: [config.sandbox.read.clone(), toolchains(machine)]
            .concat()
            .iter()
            .filter_map(|folder| fs::canonicalize(folder).ok())
            .collect(),
        hidden: vec![machine.data_dir.clone(), machine.config_file.clone()],
        limits: limits(config),
        egress: egress(config, backend),
        by: runner(machine),
    }
}

/// Where the environment says that toolchains are: commands are told so, and find them there. Those in the home are shown anyway, and of
/// `CARGO_HOME` only its packages: there are keys in it, too. A folder that holds the home, or Piton's own data, is none.
fn toolchains(machine: &Machine) -> Vec<PathBuf> {
    const WHOLE: [&str; 9] = [
        "RUSTUP_HOME",
        "NVM_DIR",
        "PYENV_ROOT",
        "RBENV_ROOT",
        "GOROOT",
        "JAVA_HOME",
        "SDKMAN_DIR",
        "VOLTA_HOME",
        "ASDF_DATA_DIR",
    ];
    const OF_CARGO: [&str; 2] = ["registry", "git"];
    let home = home(machine);
    let named = |name: &&str| machine.var(name).map(PathBuf::from);
    let of_cargo = named(&"CARGO_HOME").into_iter().flat_map(|cargo| OF_CARGO.map(|name| cargo.join(name)));
    let all = WHOLE.iter().filter_map(named).chain(of_cargo);
    let is_apart = |folder: &PathBuf| {
        let holds = [&home, &machine.data_dir, &machine.config_file].into_iter().any(|own| own.starts_with(folder));
        // The system is shown.
        let is_elsewhere = !folder.starts_with(&home) && !folder.starts_with("/usr");
        folder.is_absolute() && folder.is_dir() && is_elsewhere && !holds
    };
    all.filter(is_apart).collect()
}

/// The hosts that are open; `None`: none is.
fn egress(config: &Config, backend: Backend) -> Option<Arc<Egress>> {
    let rules: Vec<HostRule> = config.sandbox.net.iter().map(|OpenHost(rule)| rule.clone()).collect();
    match backend {
        Backend::Namespaces => (!rules.is_empty()).then(|| Arc::new(Egress::new(rules))),
        Backend::Landlock => None,
    }
}

/// What is said of hosts that were to be open where none can be.
pub fn unopened(config: &Config) -> Option<&'static str> {
    (!config.sandbox.net.is_empty()).then_some(
        "hosts cannot be opened here (--net, [sandbox] net): Landlock alone leaves commands without any network",
    )
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

/// What holds commands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// The strongest of those that were wanted.
    pub backend: Backend,
    /// Why there is no stronger one.
    pub without: Option<String>,
}

/// Which sandbox can be made here; if none, why.
pub fn available(machine: &Machine, choice: BackendChoice) -> Result<Available, String> {
    let here = Here::now(machine);
    let file = machine.data_dir.join("sandbox.json");
    let known = regular::whole(&file, regular::SETTINGS_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Known>(&bytes).ok())
        .filter(|known| here.as_ref() == Some(&known.here));
    if let Some(Known { backend, without, .. }) = known {
        match choice {
            BackendChoice::Auto => return Ok(Available { backend, without }),
            BackendChoice::Only(wanted) if wanted == backend => return Ok(Available { backend, without: None }),
            BackendChoice::Only(_) | BackendChoice::Bubblewrap => {}
        }
    }
    let found = find(machine, choice)?;
    if let (Some(here), BackendChoice::Auto) = (here, choice) {
        let known = Known { here, backend: found.backend, without: found.without.clone() };
        // Without it the next start tries again.
        let _ = private::make_folder(&machine.data_dir)
            .and_then(|()| private::write(&file, &serde_json::to_vec(&known).unwrap_or_default()));
    }
    Ok(found)
}

/// Tries one after the other.
fn find(machine: &Machine, choice: BackendChoice) -> Result<Available, String> {
    if choice == BackendChoice::Bubblewrap {
        return Err(why_not_bubblewrap(machine));
    }
    let mut without: Vec<String> = Vec::new();
    for backend in choice.candidates() {
        match try_out(machine, backend) {
            Ok(()) => return Ok(Available { backend, without: without.into_iter().next() }),
            Err(why) => without.push(why),
        }
    }
    Err(without.join("; "))
}

/// What a trial told, and where that is so.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    here: Here,
    backend: Backend,
    without: Option<String>,
}

/// What the answer of a trial depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Here {
    boot: String,
    user: u32,
    /// What the kernel lets whom do: the settings that are known, and our capabilities.
    rights: Vec<Option<String>>,
    program: PathBuf,
    inode: u64,
    changed: i64,
}

/// What keeps users from namespaces: where it is set, the value that does, and the one that does not.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
];

fn setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

/// The command that lets a user make namespaces, where one is known.
fn mend() -> Option<String> {
    let (name, _, good) = SETTINGS.iter().find(|(name, bad, _)| setting(name).as_deref() == Some(bad))?;
    Some(format!("sudo sysctl {name}={good}"))
}

impl Here {
    fn now(machine: &Machine) -> Option<Self> {
        let program = fs::metadata(&machine.exe).ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let capabilities = status.lines().find(|line| line.starts_with("CapEff:")).map(ToOwned::to_owned);
        Some(Self {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?,
            user: rustix::process::getuid().as_raw(),
            rights: SETTINGS.iter().map(|(name, ..)| setting(name)).chain([capabilities]).collect(),
            program: machine.exe.clone(),
            inode: program.ino(),
            changed: program.ctime(),
        })
    }
}

/// One line on what is weaker than it could be, and how to mend it.
fn weaker(why: &str) -> String {
    let mend = mend().map_or_else(String::new, |command| format!("; `{command}` mends it"));
    format!(
        "the sandbox is Landlock alone, which is weaker: no sockets, .git is read-only, nothing new at the top of a repository \
         ({why}{mend})"
    )
}

/// What is needed to run a command in a sandbox by hand: in this workspace, with a home and a `/tmp` in the folder `private`.
pub fn by_hand(
    machine: &Machine,
    config: &Config,
    (mode, backend): (SandboxMode, Backend),
    workspace: &Path,
    private: PathBuf,
) -> Confinement {
    let Some(write) = write(mode) else { return Confinement::Model };
    let path = OsStr::new(machine.var("PATH").unwrap_or_default());
    let settings = chosen(machine, config, write, backend);
    let egress = settings.egress.clone();
    settings.confinement(workspace, private, path, [], egress)
}

fn try_out(machine: &Machine, backend: Backend) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let workspace = folder.path().join("workspace");
    let made = fs::create_dir(&workspace).and_then(|()| fs::canonicalize(&workspace));
    let workspace = made.map_err(|error| error.to_string())?;
    let wanted = (SandboxMode::WorkspaceWrite, backend);
    let confinement = by_hand(machine, &Config::default(), wanted, &workspace, folder.path().join("private"));
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
