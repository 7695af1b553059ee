//! The one place that starts processes.
//!
//! Whatever Piton runs (a shell command of the model, a hook, a check, the user's key command or editor, git) is a
//! [`Spawn`]: a program with its arguments, its whole environment, its folder, and whose command it is. `clippy.toml`
//! forbids `Command::new` everywhere else, so a sandbox has one place to attach to. How long a process may run, and who
//! ends what it leaves behind, is here, too. What a process is for is not known here.

use crate::network::{self, Outlet};
use piton_http::egress::Egress;
use piton_sandbox::{Plan, Reach, Write};
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::OwnedReadHalf;
use tokio::task::JoinHandle;

/// A whole environment: a process sees these variables and no others.
pub type Env = Arc<BTreeMap<OsString, OsString>>;

/// A process that is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The program and its arguments. A name without a slash is looked for in the environment's `PATH`, in absolute folders
    /// only: with `.` or nothing in it, a repository would bring its own `bash`.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Env,
    /// The folder it starts in; relative to Piton's own.
    pub cwd: PathBuf,
    /// How it is confined.
    pub confinement: Confinement,
}

/// How a process is confined, by whose command it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// The user's own: the hooks and key commands of the user's configuration, the editor, git on our snapshots.
    User,
    /// The model's, or code that the model may have written (shell commands, checks, hooks of a repository), with all the user
    /// may do.
    Model,
    /// The same, in a sandbox.
    Sandbox(Arc<Confined>),
}

/// What a sandbox is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    /// What it shows.
    pub reach: Reach,
    /// The program of ours that makes it, and becomes its first process.
    pub by: RunnerCommand,
    /// The hosts that are open to it: some exactly where its reach has a proxy.
    pub egress: Option<Arc<Egress>>,
}

impl Confinement {
    /// The same, in which nothing of the workspace can be changed.
    #[must_use]
    pub fn reading(self) -> Self {
        match self {
            Self::User | Self::Model => self,
            Self::Sandbox(confined) => {
                let mut confined = Arc::unwrap_or_clone(confined);
                confined.reach.write = Write::Nothing;
                Self::Sandbox(Arc::new(confined))
            }
        }
    }

    /// The same, in which this folder can be changed, too.
    #[must_use]
    pub fn keeping(self, folder: &Path) -> Self {
        match self {
            Self::User | Self::Model => self,
            Self::Sandbox(confined) => {
                let mut confined = Arc::unwrap_or_clone(confined);
                confined.reach.keep.push(folder.to_path_buf());
                Self::Sandbox(Arc::new(confined))
            }
        }
    }
}

/// How to start a program of ours that makes sandboxes and runs commands: this program, these arguments, and then what it is
/// to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// What comes first, for example `runner`.
    pub args: Vec<OsString>,
}

impl RunnerCommand {
    /// The whole of it, to do this.
    pub fn to<'w>(&'w self, words: impl IntoIterator<Item = &'w OsStr>) -> Vec<OsString> {
        let own = [self.program.as_os_str()].into_iter().chain(self.args.iter().map(OsString::as_os_str));
        own.chain(words).map(OsStr::to_owned).collect()
    }
}

/// The word by which a program of ours is asked to run one command in a sandbox, and nothing else.
pub const CONFINE: &str = "sandbox-confine";

/// How a line begins, behind `piton: `, that tells what a sandbox has moved away of what its command left.
pub(crate) const OF_SANDBOX: &str = "sandbox: ";

/// What a sandbox has moved away, a sentence each: taken out of what was written to the standard error of its command.
pub fn moved_away(stderr: &mut String) -> Vec<String> {
    let told = |line: &str| Some(line.strip_prefix("piton: ")?.strip_prefix(OF_SANDBOX)?.to_owned());
    let moved = stderr.lines().filter_map(told).collect();
    *stderr = stderr.split_inclusive('\n').filter(|line| told(line).is_none()).collect();
    moved
}

/// Which process group a process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Ours: it may talk to the terminal, and what the terminal sends to us, it gets, too.
    Ours,
    /// One of its own, so that it can be ended with all that it started.
    Own,
}

/// Where the standard streams of a process lead.
#[derive(Debug)]
pub struct Streams {
    /// What it reads.
    pub stdin: Stdio,
    /// What it writes.
    pub stdout: Stdio,
    /// What it complains about.
    pub stderr: Stdio,
}

impl Streams {
    /// Ours: for a program that a person talks to.
    pub fn inherited() -> Self {
        Self { stdin: Stdio::inherit(), stdout: Stdio::inherit(), stderr: Stdio::inherit() }
    }

    /// Nothing to read, and both outputs caught.
    pub fn caught() -> Self {
        Self { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() }
    }
}

impl Spawn {
    /// A program with its arguments.
    pub fn new<Word: Into<OsString>>(
        argv: impl IntoIterator<Item = Word>,
        env: &Env,
        cwd: impl Into<PathBuf>,
        confinement: Confinement,
    ) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { argv, env: Arc::clone(env), cwd: cwd.into(), confinement }
    }

    /// A script for `sh`.
    pub fn shell(script: &str, env: &Env, cwd: impl Into<PathBuf>, confinement: Confinement) -> Self {
        Self::new(["sh", "-c", script], env, cwd, confinement)
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.env).insert(name.into(), value.into());
        self
    }

    /// Starts it. The caller waits for its end. To a confined one no host is open: there is nobody here to open them.
    pub fn start(&self, group: Group, streams: Streams) -> io::Result<Child> {
        self.command(group, streams, None)?.spawn()
    }

    /// Starts it on the runtime, which collects it. It is not ended when the handle is dropped.
    pub fn start_async(&self, group: Group, streams: Streams) -> io::Result<tokio::process::Child> {
        tokio::process::Command::from(self.command(group, streams, None)?).spawn()
    }

    /// The same with the hosts that are open to it, for as long as the answer is kept.
    pub fn start_open(&self, group: Group, streams: Streams) -> io::Result<(tokio::process::Child, Option<Outlet>)> {
        let (streams, opened) = self.opened(streams)?;
        let child = self.start_async(group, streams)?;
        Ok((child, opened.map(Opened::serve)))
    }

    /// Where hosts are open to a confined command, its sandbox needs the standard input, of which the command gets nothing.
    fn opened(&self, streams: Streams) -> io::Result<(Streams, Option<Opened>)> {
        let Confinement::Sandbox(confined) = &self.confinement else { return Ok((streams, None)) };
        let Some(egress) = &confined.egress else { return Ok((streams, None)) };
        let (stdin, hears, _tells) = network::channel(None)?;
        Ok((Streams { stdin, ..streams }, Some(Opened { egress: Arc::clone(egress), hears })))
    }

    /// Starts it in a process group of its own, tells it `input`, and keeps this end of what it writes.
    pub fn run(&self, input: Option<Vec<u8>>, keep: Keep) -> io::Result<Running> {
        // A sandbox has another use for its own standard input.
        let (input, confined) = match self.confinement {
            Confinement::Sandbox(_) => (None, input),
            Confinement::User | Confinement::Model => (input, None),
        };
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let (streams, opened) = self.opened(Streams { stdin, ..Streams::caught() })?;
        let command = self.command(Group::Own, streams, confined.as_deref())?;
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn()?;
        let outlet = opened.map(Opened::serve);
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let stdin = child.stdin.take();
        let feeding = tokio::spawn(async move {
            if let Some((mut stdin, input)) = stdin.zip(input) {
                // Who does not want to know need not read it.
                let _ = stdin.write_all(&input).await;
            }
        });
        let (stdout, stderr) = (Caught::read(child.stdout.take(), keep), Caught::read(child.stderr.take(), keep));
        Ok(Running { child, group, feeding, stdout, stderr, outlet })
    }

    /// Whether its program is there.
    pub(crate) fn finds_its_program(&self) -> bool {
        self.argv.first().is_some_and(|program| self.found(program).is_ok())
    }

    /// Where the program is.
    fn found(&self, program: &OsStr) -> io::Result<PathBuf> {
        if program.as_encoded_bytes().contains(&b'/') {
            return Ok(program.into());
        }
        let path = self.env.get(OsStr::new("PATH")).map_or(OsStr::new("/usr/bin:/bin"), OsString::as_os_str);
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let is_program = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
        folders.map(|folder| folder.join(program)).find(is_program).ok_or_else(|| {
            let name = program.to_string_lossy();
            io::Error::new(io::ErrorKind::NotFound, format!("{name} is in none of the absolute folders of PATH"))
        })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    fn command(&self, group: Group, streams: Streams, input: Option<&[u8]>) -> io::Result<Command> {
        let Some((program, arguments)) = self.argv.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no command"));
        };
        let mut command = match &self.confinement {
            Confinement::User | Confinement::Model => {
                let mut command = Command::new(self.found(program)?);
                // What it is called by is what it was called by: shells and busybox go by it.
                command.arg0(program).args(arguments);
                command
            }
            Confinement::Sandbox(confined) => {
                let plan = Plan::of(&confined.reach).hand_over()?;
                input.map_or(Ok(()), |input| Plan::hand_over_input(&plan, input))?;
                let words = [OsStr::new(CONFINE), plan.as_os_str()];
                let words = confined.by.to(words.into_iter().chain(self.argv.iter().map(OsString::as_os_str)));
                let mut command = Command::new(&confined.by.program);
                command.args(&words[1..]);
                command
            }
        };
        command.current_dir(&self.cwd).env_clear().envs(self.env.iter());
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        match group {
            Group::Ours => {}
            Group::Own => {
                command.process_group(0);
            }
        }
        Ok(command)
    }
}

/// The hosts that are to be open to a command, and where its sandbox hands its socket over.
struct Opened {
    egress: Arc<Egress>,
    hears: OwnedReadHalf,
}

impl Opened {
    fn serve(self) -> Outlet {
        Outlet::start(self.egress, self.hears)
    }
}

/// All that a process writes; `None` if it did not end in time and was killed.
pub fn output_within(limit: Duration, child: Child) -> io::Result<Option<Output>> {
    let process = Pid::from_child(&child);
    let (told, heard) = std::sync::mpsc::channel();
    let waits = std::thread::Builder::new().spawn(move || told.send(child.wait_with_output()));
    if let Err(error) = waits {
        // An error means that it is gone after all.
        let _ = kill_process(process, Signal::KILL);
        return Err(error);
    }
    if let Ok(output) = heard.recv_timeout(limit) {
        return output.map(Some);
    }
    // An error means that it is gone after all.
    let _ = kill_process(process, Signal::KILL);
    Ok(None)
}

/// A process under way, which does not outlive this, nor does anything in its process group.
#[derive(Debug)]
pub struct Running {
    child: tokio::process::Child,
    group: Option<Pid>,
    feeding: JoinHandle<()>,
    stdout: Caught,
    stderr: Caught,
    outlet: Option<Outlet>,
}

impl Running {
    /// Waits for its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// What it has written, standard output first; behind its errors stands what it was refused of the network. Whatever else is
    /// in its group is ended then.
    pub async fn output(mut self) -> (String, String) {
        let (stdout, mut stderr) = (self.stdout.text().await, self.stderr.text().await);
        for said in self.outlet.as_ref().map(Outlet::refused).unwrap_or_default() {
            stderr.push_str(&format!("piton: {said}\n"));
        }
        (stdout, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.feeding.abort();
        if let Some(group) = self.group {
            // Gone is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Which end of a long output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its beginning.
    First,
    /// Its end.
    Last,
}

/// Bytes of what a process writes that are kept; the rest is thrown away.
pub(crate) const KEPT_BYTES: usize = 1 << 20;
/// How long a process's output is awaited when it has ended: something it started may hold the pipe for ever.
const AFTER_ITS_END: Duration = Duration::from_millis(200);

/// What a process writes, as it writes it.
#[derive(Debug)]
struct Caught {
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Caught {
    fn read(pipe: Option<impl AsyncRead + Unpin + Send + 'static>, keep: Keep) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let reading = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut piece = vec![0; 64 << 10];
            while let Ok(read @ 1..) = pipe.read(&mut piece).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..read]);
                match keep {
                    Keep::First => kept.truncate(KEPT_BYTES),
                    Keep::Last if kept.len() > 2 * KEPT_BYTES => {
                        let surplus = kept.len() - KEPT_BYTES;
                        kept.drain(..surplus);
                    }
                    Keep::Last => {}
                }
            }
        });
        Self { bytes, reading }
    }

    /// All of it, once the process has ended.
    async fn text(&mut self) -> String {
        if tokio::time::timeout(AFTER_ITS_END, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Spawn {
        let env = Env::from(BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "1".into())]));
        Spawn::shell(text, &env, "/", Confinement::User)
    }

    #[test]
    fn a_process_sees_its_own_environment_and_nothing_of_ours() {
        let child =
            script("env | grep -v ^PWD= | grep -v ^_= | sort").with("B", "2").start(Group::Own, Streams::caught());
        let output = child.unwrap().wait_with_output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        let seen: Vec<&str> =
            seen.lines().filter(|line| !line.starts_with("SHLVL=") && !line.starts_with("OLDPWD=")).collect();
        assert_eq!(seen, ["A=1", "B=2", "PATH=/usr/bin:/bin"]);
    }

    #[test]
    fn no_program_comes_from_a_folder_that_is_not_absolute() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for name in ["sh", "only-here"] {
            let file = folder.path().join(name);
            std::fs::write(&file, "#!/bin/sh\necho taken\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let started = |name: &str, path: &str| {
            let env = Env::from(BTreeMap::from([("PATH".into(), path.into())]));
            let spawn = Spawn::new([name, "-c", "echo ours"], &env, folder.path(), Confinement::Model);
            Ok::<_, io::Error>(spawn.start(Group::Own, Streams::caught())?.wait_with_output()?.stdout)
        };
        for path in [".:/usr/bin:/bin", ":/usr/bin:/bin", "/usr/bin:/bin:", "x/..:/usr/bin:/bin"] {
            assert_eq!(started("sh", path).unwrap(), b"ours\n", "{path}");
            assert_eq!(started("only-here", path).unwrap_err().kind(), io::ErrorKind::NotFound, "{path}");
        }
        let named = format!("{}:/usr/bin:/bin", folder.path().display());
        assert_eq!(started("sh", &named).unwrap(), b"taken\n", "whom a person names, is taken");
    }

    #[test]
    fn a_command_that_never_ends_is_stopped() {
        let caught = |text: &str| script(text).start(Group::Ours, Streams::caught()).unwrap();
        assert!(output_within(Duration::from_millis(200), caught("exec sleep 60")).unwrap().is_none());
        assert_eq!(output_within(Duration::from_secs(60), caught("echo key")).unwrap().unwrap().stdout, b"key\n");
    }

    #[tokio::test]
    async fn what_a_process_leaves_in_its_group_does_not_outlive_it() {
        let mut running = script("cat; sleep 60 & echo $! >&2").run(Some(b"told".to_vec()), Keep::First).unwrap();
        assert!(running.wait().await.unwrap().success());
        let (said, left) = running.output().await;
        assert_eq!(said, "told");
        let stat = format!("/proc/{}/stat", left.trim());
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    }
}
