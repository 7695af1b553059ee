//! A server as a process of its own: how it is started, what becomes of its complaints, and how it ends.

use crate::entry::Entry;
use crate::guard::{Guards, MARK};
use crate::surroundings::Surroundings;
use crate::text;
use piton_http::egress::{Egress, HostRule};
use piton_sandbox::Network;
use piton_tools::network::Outlet;
use piton_tools::private;
use piton_tools::runner::kill_marked;
use piton_tools::spawn::{Confined, Confinement, Env, Group, Spawn, Streams};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout};

/// The folder of the folders of sandboxes.
pub(crate) const PRIVATE: &str = "private";
/// How long a server has to end by itself when its input is closed.
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// How long the first process of a sandbox has to open the server's input.
const OPENING: Duration = Duration::from_secs(30);
/// How often that is looked at.
const OPENING_EVERY: Duration = Duration::from_millis(20);
/// Characters of one complaint.
const MOST_LINE_CHARS: usize = 500;
/// Complaints of one process that are logged; a server may write without end.
const MOST_LINES: usize = 1_000;
/// Complaints that are kept, for whoever is told why it ended.
const LAST_LINES: usize = 5;

/// Variables of the user's environment that every server gets.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
];
/// Beginnings of more of them.
const VARIABLES_THAT_BEGIN: &[&str] = &["LC_", "XDG_"];

/// A server's process. Dropped, it is killed with all that is in its group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Owned,
    complaints: Complaints,
    /// What its sandbox has outside.
    _sandbox: Option<Outside>,
}

/// What a sandbox has outside: the hosts that are open to it, and its folder, which goes with it.
#[derive(Debug)]
struct Outside {
    _outlet: Option<Outlet>,
    _private: Private,
}

/// The folder of one sandbox. A locked file beside it says that somebody uses it.
#[derive(Debug)]
struct Private {
    folder: PathBuf,
    _lock: File,
}

/// Where a sandbox keeps what was moved out of the workspace.
const QUARANTINE: &str = "quarantine";

impl Private {
    const LOCK: &str = "lock";

    /// One that is nobody else's.
    fn new(all: &Path, server: &str) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}-{server}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        private::make_folder(all)?;
        let lock = private::append(&all.join(format!("{name}.{}", Self::LOCK)))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder: all.join(name), _lock: lock })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What an inspection has moved there may be a person's, made while the server ran.
        if !keep_quarantine(&self.folder) {
            return;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_file(self.folder.with_added_extension(Self::LOCK));
    }
}

/// Moves what was moved out of the workspace to where it is kept; answers whether nothing of it is left.
fn keep_quarantine(folder: &Path) -> bool {
    let found: Vec<PathBuf> =
        std::fs::read_dir(folder.join(QUARANTINE)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let (Some(first), Some(name)) = (found.first(), folder.file_name()) else { return true };
    // A number of a process comes again, and what an earlier one left is not replaced.
    let all = folder.with_file_name(QUARANTINE);
    let free = |number: &u32| !all.join(format!("{number}-{}", name.display())).exists();
    let number = (0..).find(free).unwrap_or_default();
    let kept = all.join(format!("{number}-{}", name.display()));
    let moved = private::make_folder(&kept).is_ok()
        && found.iter().all(|path| path.file_name().is_some_and(|name| std::fs::rename(path, kept.join(name)).is_ok()));
    tracing::warn!(target: "piton", first = %first.display(), kept = %kept.display(), moved, "moved out of the workspace");
    moved
}

/// The folder that an unconfined server starts in.
fn of_its_own(around: &Surroundings, server: &str) -> io::Result<PathBuf> {
    let name: String = server.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let folder = around.folder.join("started-in").join(name);
    private::make_folder(&folder)?;
    Ok(folder)
}

/// Removes the folders of sandboxes whose Piton has ended before it could.
pub(crate) fn sweep(all: &Path) {
    for found in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let lock = found.path();
        if lock.extension() != Some(OsStr::new(Private::LOCK)) {
            continue;
        }
        let Ok(held) = private::append(&lock) else { continue };
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            drop(Private { folder: lock.with_extension(""), _lock: held });
        }
    }
}

/// What a process reads.
pub(crate) type Input = Box<dyn AsyncWrite + Send + Unpin>;

impl Process {
    /// Starts the server of an entry; the answer is the process, what it reads and what it writes.
    pub(crate) async fn start(
        command: &Command<'_>,
        around: &Surroundings,
        guards: &Guards,
    ) -> io::Result<(Self, Input, ChildStdout)> {
        let Command { entry, program, args, env, cwd } = command;
        let argv = [OsString::from(program)].into_iter().chain(args.iter().map(OsString::from));
        let cwd = match cwd {
            Some(cwd) => (*cwd).clone(),
            None if entry.net.is_some() => around.workspace.clone(),
            // `npx` and `python -m` look for programs where they are started, and the workspace may hold anybody's.
            None => of_its_own(around, &entry.name)?,
        };
        let spawn = Spawn::new(argv, &environment(&around.env, env), &cwd, Confinement::User);
        let mark = guards.next_mark();
        let spawn = spawn.with("PITON_PROJECT_DIR", &around.workspace).with(MARK, &mark);
        let started = match (&entry.net, &around.confinement) {
            (Some(hosts), Confinement::Sandbox(confined)) => {
                confined_child(spawn, entry, hosts, confined, around, guards).await?
            }
            (Some(_), Confinement::Model) => plain_child(&Spawn { confinement: Confinement::Model, ..spawn }, guards)?,
            (Some(_), Confinement::User) | (None, _) => plain_child(&spawn, guards)?,
        };
        let Started { mut child, mut group, input, sandbox } = started;
        group.mark = Some(mark);
        let complaints = Complaints::of(&entry.name, command.secrets());
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(complaints.clone().read(stderr));
        }
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Self { child, group, complaints, _sandbox: sandbox }, input, output))
    }

    /// Waits for a process whose input is closed, kills it where it takes too long, and whatever it leaves behind.
    pub(crate) async fn end(mut self) -> End {
        let status = tokio::time::timeout(LAST_MOMENTS, self.child.wait()).await;
        self.group.kill();
        let status = match status {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = self.child.wait().await;
                None
            }
        };
        End { status, complaints: self.complaints.last() }
    }
}

/// A process group that does not outlive this.
#[derive(Debug)]
struct Owned {
    group: Option<Pid>,
    /// That of its processes, whichever group they are in.
    mark: Option<String>,
    guards: Guards,
}

impl Owned {
    fn of(child: &Child, guards: &Guards) -> io::Result<Self> {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let owned = Self { group, mark: None, guards: Arc::clone(guards) };
        group.map_or(Ok(()), |group| guards.began(group))?;
        Ok(owned)
    }

    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // Gone is as good.
            let _ = kill_process_group(group, Signal::KILL);
            self.mark.iter().for_each(|mark| kill_marked(&format!("{MARK}={mark}")));
            self.guards.ended(group);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What was started.
struct Started {
    child: Child,
    group: Owned,
    input: Input,
    sandbox: Option<Outside>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Nothing: it had to be killed.
    status: Option<ExitStatus>,
    complaints: String,
}

impl End {
    /// In words: `exited with code 1: cannot find module …`.
    pub(crate) fn words(&self) -> String {
        let how = match self.status {
            Some(status) => match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
                (Some(code), _) => format!("its process exited with code {code}"),
                (None, Some(signal)) => format!("its process was ended by signal {signal}"),
                (None, None) => "its process ended".to_owned(),
            },
            None => "its process closed its output and was killed".to_owned(),
        };
        match self.complaints.is_empty() {
            true => how,
            false => format!("{how}: {}", self.complaints),
        }
    }
}

/// What is started.
pub(crate) struct Command<'e> {
    pub(crate) entry: &'e Entry,
    pub(crate) program: &'e str,
    pub(crate) args: &'e [String],
    pub(crate) env: &'e BTreeMap<String, String>,
    pub(crate) cwd: Option<&'e PathBuf>,
}

impl Command<'_> {
    /// What may be a key among what it is told, and has no place in a log.
    fn secrets(&self) -> Vec<String> {
        /// Shorter ones are words.
        const SECRET_CHARS: usize = 8;
        let named = self.entry.secrets().into_iter().map(|(_, value)| value);
        let all = named.chain(self.env.values().cloned()).filter(|value| value.len() >= SECRET_CHARS);
        let mut all: Vec<String> = all.collect();
        // One may begin another.
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        all
    }
}

fn plain_child(spawn: &Spawn, guards: &Guards) -> io::Result<Started> {
    let streams = Streams { stdin: Stdio::piped(), ..Streams::caught() };
    let mut child = spawn.start_async(Group::Own, streams)?;
    let group = Owned::of(&child, guards)?;
    let input = Box::new(child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?);
    Ok(Started { child, group, input, sandbox: None })
}

/// A sandbox has its standard input for itself, so that the server reads from a named pipe in the folder that is its `/tmp`.
async fn confined_child(
    spawn: Spawn,
    entry: &Entry,
    hosts: &[String],
    confined: &Confined,
    around: &Surroundings,
    guards: &Guards,
) -> io::Result<Started> {
    let mut confined = confined.clone();
    let private = Private::new(&around.folder.join(PRIVATE), &entry.name)?;
    confined.reach.private = private.folder.clone();
    confined.reach.make_private()?;
    let rules = hosts.iter().map(|host| HostRule::parse(host)).collect::<Result<Vec<_>, _>>();
    let rules = rules.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    (confined.reach.network, confined.egress) = match rules.is_empty() {
        true => (Network::None, None),
        false => (Network::Proxy, Some(Arc::new(Egress::new(rules)))),
    };
    let fifo = private.folder.join("tmp").join("mcp-input");
    make_fifo(&fifo)?;
    let inside = match confined.reach.backend {
        piton_sandbox::Backend::Namespaces => PathBuf::from("/tmp/mcp-input"),
        piton_sandbox::Backend::Landlock => fifo.clone(),
    };
    let words = ["sh", "-c", r#"exec "$@" <"$0""#].map(OsString::from);
    let argv = words.into_iter().chain([inside.into_os_string()]).chain(spawn.argv).collect();
    let spawn = Spawn { argv, confinement: Confinement::Sandbox(Arc::new(confined)), ..spawn };
    let streams = Streams { stdin: Stdio::null(), ..Streams::caught() };
    let (mut child, outlet) = spawn.start_open(Group::Own, streams)?;
    let group = Owned::of(&child, guards)?;
    let outside = Outside { _outlet: outlet, _private: private };
    let input = opened(&fifo, &mut child).await;
    // Whoever has it open needs its name no longer.
    let _ = std::fs::remove_file(&fifo);
    Ok(Started { child, group, input: Box::new(input?), sandbox: Some(outside) })
}

fn make_fifo(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::make_folder(folder)?;
    }
    let _ = std::fs::remove_file(path);
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// The writing end of a named pipe, once somebody reads from it.
async fn opened(fifo: &Path, child: &mut Child) -> io::Result<pipe::Sender> {
    let deadline = tokio::time::Instant::now() + OPENING;
    loop {
        match pipe::OpenOptions::new().open_sender(fifo) {
            Ok(sender) => return Ok(sender),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        if child.try_wait()?.is_some() || tokio::time::Instant::now() > deadline {
            let mut said = String::new();
            if let Some(stderr) = &mut child.stderr {
                let _ = tokio::time::timeout(OPENING_EVERY, stderr.take(4_096).read_to_string(&mut said)).await;
            }
            return Err(io::Error::other(format!("its sandbox did not start: {}", text::line(said.trim(), 300))));
        }
        tokio::time::sleep(OPENING_EVERY).await;
    }
}

/// Of the user's environment what every server gets, and what its entry says.
fn environment(all: &BTreeMap<OsString, OsString>, own: &BTreeMap<String, String>) -> Env {
    let is_for_all = |name: &OsStr| {
        let name = name.to_string_lossy();
        VARIABLES.contains(&&*name) || VARIABLES_THAT_BEGIN.iter().any(|beginning| name.starts_with(beginning))
    };
    let for_all = all.iter().filter(|(name, _)| is_for_all(name)).map(|(name, value)| (name.clone(), value.clone()));
    Env::new(for_all.chain(own.iter().map(|(name, value)| (name.into(), value.into()))).collect())
}

/// What a process complains about: logged, cut, and without what may be a key.
#[derive(Debug, Clone)]
struct Complaints {
    server: String,
    secrets: Arc<[String]>,
    last: Arc<Mutex<VecDeque<String>>>,
}

impl Complaints {
    fn of(server: &str, secrets: Vec<String>) -> Self {
        Self { server: server.to_owned(), secrets: secrets.into(), last: Arc::default() }
    }

    fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }

    /// Reads to the end, whatever comes: a full pipe would hold the server up.
    async fn read(self, stderr: ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let (mut line, mut lines) = (Vec::new(), 0_usize);
        loop {
            let (taken, is_end) = match stderr.fill_buf().await {
                Ok([]) | Err(_) => break,
                Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                    Some(end) => {
                        line.extend_from_slice(&bytes[..end]);
                        (end + 1, true)
                    }
                    None => {
                        line.extend_from_slice(bytes);
                        (bytes.len(), false)
                    }
                },
            };
            stderr.consume(taken);
            line.truncate(4 * MOST_LINE_CHARS);
            if is_end {
                self.take(&line, lines);
                lines = lines.saturating_add(1);
                line.clear();
            }
        }
        self.take(&line, lines);
    }

    fn take(&self, line: &[u8], before: usize) {
        let mut line = String::from_utf8_lossy(line).into_owned();
        for secret in self.secrets.iter() {
            line = line.replace(secret, "…");
        }
        let line = text::line(line.trim(), MOST_LINE_CHARS);
        if line.is_empty() {
            return;
        }
        match before {
            0..MOST_LINES => tracing::debug!(server = self.server, "stderr: {line}"),
            MOST_LINES => tracing::debug!(server = self.server, "stderr: it goes on, and is no longer logged"),
            _ => {}
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(text::line(&line, 200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_out_of_the_workspace_outlives_the_sandbox_and_replaces_nothing() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("7-0-s");
        for text in ["mine", "another"] {
            std::fs::create_dir_all(folder.join(QUARANTINE)).unwrap();
            std::fs::write(folder.join(QUARANTINE).join("0-.envrc"), text).unwrap();
            drop(Private { folder: folder.clone(), _lock: private::append(&all.path().join("7-0-s.lock")).unwrap() });
            assert!(!folder.exists());
        }
        let kept =
            |number: u32| std::fs::read_to_string(all.path().join(format!("quarantine/{number}-7-0-s/0-.envrc")));
        assert_eq!((kept(0).unwrap().as_str(), kept(1).unwrap().as_str()), ("mine", "another"));
    }

    #[test]
    fn each_sandbox_has_a_folder_of_its_own_and_what_is_left_of_the_dead_is_swept() {
        let all = tempfile::tempdir().unwrap();
        let there = || std::fs::read_dir(all.path()).unwrap().count();
        let make = || {
            let made = Private::new(all.path(), "a.b").unwrap();
            std::fs::create_dir(&made.folder).unwrap();
            made
        };
        let (old, new) = (make(), make());
        drop(old);
        assert!(new.folder.exists(), "it goes with its own process");
        sweep(all.path());
        assert!(new.folder.exists() && there() == 2);
        // As after a kill: the kernel has closed the file, and nobody has removed anything.
        let killed = std::mem::ManuallyDrop::new(new);
        flock(&killed._lock, FlockOperation::Unlock).unwrap();
        sweep(all.path());
        assert!(!killed.folder.exists() && there() == 0);
    }
}
