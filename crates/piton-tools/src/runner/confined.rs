//! A command in a sandbox, from the side of whoever waits for it.

use super::processes::{descendants, kill};
use super::unprotected;
use crate::limits::SWEEP_TIME;
use crate::network;
use crate::spawn::{Confinement, Env, Group, OF_SANDBOX, Spawn, Streams};
use piton_sandbox::{Backend, Ended, FIRST, Order, Plan, Sandbox, SandboxError, SharedNetwork, send_descriptor};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// There is no sandbox here: `EX_UNAVAILABLE` of `sysexits.h`.
pub const NO_SANDBOX: i32 = 69;
/// As a shell says that there is no such program.
const NOT_FOUND: i32 = 127;
/// As a shell says that a program cannot be run.
const NOT_RUN: i32 = 126;
/// As a shell tells of a signal.
const SIGNALED: i32 = 128;
/// How much longer a large workspace is looked through when the command has ended; whoever waits for a hook or a formatter feels it.
const SEARCH_TIME: Duration = Duration::from_secs(2);
/// How often to look whether all are dead.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Makes the sandbox that the plan in a file says. What is in it writes to `output`, or where we write.
pub(super) fn prepare(
    plan: &OsStr,
    shared: Option<&SharedNetwork>,
    env: &Env,
    output: impl Fn() -> io::Result<(Stdio, Stdio)>,
) -> Result<Sandbox, SandboxError> {
    let plan = Plan::taken(Path::new(plan)).map_err(SandboxError::First)?;
    Sandbox::prepare(plan, shared, |stdin| {
        let (stdout, stderr) = output()?;
        Spawn::new(us(), env, ".", Confinement::User).start(Group::Ours, Streams { stdin, stdout, stderr })
    })
}

/// How we were started, to be the first process of a sandbox: in front of what we are to do stands what makes us a runner.
fn us() -> Vec<OsString> {
    let own = own_words();
    ["/proc/self/exe".into()].into_iter().chain(own).chain([FIRST.into()]).collect()
}

#[expect(clippy::disallowed_methods, reason = "a runner starts itself once more, as it was started")]
fn own_words() -> Option<OsString> {
    std::env::args_os().nth(1).filter(|word| word == "runner")
}

/// Starts an order where this process is, the first of its sandbox; its output goes where ours does.
pub(super) fn start_here(order: &Order, backend: Backend, terminal: Option<OwnedFd>) -> io::Result<Child> {
    let group = match backend {
        // Our group is the one that a terminal of ours listens to.
        Backend::Namespaces if terminal.is_some() => Group::Ours,
        Backend::Namespaces => Group::Own,
        // So that it ends with us where somebody ends ours.
        Backend::Landlock => Group::Ours,
    };
    match terminal {
        Some(terminal) => start(order, group, of_terminal(&terminal)?),
        None => {
            let stdin = order.input.as_deref().map_or_else(|| Ok(Stdio::null()), told)?;
            start(order, group, Streams { stdin, stdout: Stdio::inherit(), stderr: Stdio::inherit() })
        }
    }
}

/// A standard input that says this, and then ends. However long it is, nobody has to write it while it is read.
fn told(input: &[u8]) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(input)?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

/// The streams of a command in a terminal.
pub(super) fn of_terminal(terminal: &OwnedFd) -> io::Result<Streams> {
    let end = || terminal.try_clone().map(Stdio::from);
    Ok(Streams { stdin: end()?, stdout: end()?, stderr: end()? })
}

/// The streams of one that has nothing to read.
pub(super) fn unheard(stdout: Stdio, stderr: Stdio) -> Streams {
    Streams { stdin: Stdio::null(), stdout, stderr }
}

/// Starts an order. Where `bash` is not installed, `sh` takes its place.
pub(super) fn start(order: &Order, group: Group, streams: Streams) -> io::Result<Child> {
    let env = Env::new(order.env.iter().cloned().collect());
    let mut spawn = Spawn::new(&order.argv, &env, &order.cwd, Confinement::User);
    if spawn.argv.first().is_some_and(|name| name == "bash") && !spawn.finds_its_program() {
        spawn.argv[0] = "sh".into();
    }
    spawn.start(group, streams)
}

/// What is to run.
pub(super) fn order(argv: Vec<OsString>, env: &Env, cwd: &Path) -> Order {
    let env = env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Order { argv, env, cwd: cwd.to_path_buf(), terminal: false, input: None }
}

/// Starts an order in a sandbox, when that is ready. Where it has a proxy, whoever waits for us gets its socket, and the command
/// is told where it is. Answers with the outer end of its terminal, where it gets one.
pub(super) fn start_confined(sandbox: &Sandbox, mut order: Order) -> Result<Option<OwnedFd>, SandboxError> {
    let socket = sandbox.wait_until_ready()?;
    if let Some(socket) = socket {
        let socket = TcpListener::from(socket);
        let port = socket.local_addr().map_err(SandboxError::Proxy)?.port();
        match send_descriptor(rustix::stdio::stdin(), socket.as_fd()) {
            // Whoever opens hosts is gone: to the command none is open.
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
            other => other.map_err(SandboxError::Proxy)?,
        }
        let told: BTreeMap<_, _> = order.env.into_iter().chain(network::variables(port)).collect();
        order.env = told.into_iter().collect();
    }
    sandbox.start(order).map_err(SandboxError::First)
}

/// Kills whatever descends from us, and collects it. With its first process all of a process namespace is dead; elsewhere what has
/// lost its parents comes to us.
fn end_what_is_left() {
    while rustix::process::wait(WaitOptions::NOHANG).is_ok() {
        for process in descendants(getpid().as_raw_pid()) {
            kill(&process, Signal::KILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Runs a command in a sandbox, where we are, and answers as it did.
pub(super) fn confine(plan: &OsStr, argv: &[OsString], env: &Env) -> i32 {
    let complain = |text: &str| {
        // Where nobody reads it, the code says it.
        let _ = io::Write::write_all(&mut io::stderr(), format!("piton: {text}\n").as_bytes());
    };
    // Whoever loses its parent becomes our child.
    let _ = set_child_subreaper(Some(getpid()));
    let run = || -> Result<Option<Ended>, SandboxError> {
        let input = Plan::taken_input(Path::new(plan)).map_err(SandboxError::First)?;
        let sandbox = prepare(plan, None, env, || Ok((Stdio::inherit(), Stdio::inherit())))?;
        let cwd = std::fs::canonicalize(".").map_err(SandboxError::First)?;
        start_confined(&sandbox, Order { input, ..order(argv.to_vec(), env, &cwd) })?;
        let say = |said: String| complain(&format!("{OF_SANDBOX}{said}"));
        while !sandbox.ends_within(unprotected::LOOK_EVERY) {
            sandbox.inspect_replaced().into_iter().for_each(say);
        }
        let ended = sandbox.ended().map_err(SandboxError::First)?;
        sandbox.kill();
        sandbox.wait_for_death(SWEEP_TIME);
        end_what_is_left();
        let undone = sandbox.inspect().into_iter().chain(sandbox.finish(SEARCH_TIME));
        undone.for_each(say);
        Ok(ended.map(|end| end.how))
    };
    match run() {
        Ok(Some(Ended::Exited(code))) => code,
        Ok(Some(Ended::Signaled(signal))) => SIGNALED + signal,
        Ok(Some(Ended::NotStarted { not_found, error })) => {
            complain(&error);
            if not_found { NOT_FOUND } else { NOT_RUN }
        }
        Ok(None) => {
            complain("the sandbox ended before its command");
            NO_SANDBOX
        }
        Err(error) => {
            complain(&error.to_string());
            NO_SANDBOX
        }
    }
}
