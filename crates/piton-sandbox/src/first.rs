//! The first process of a sandbox: puts on all layers, starts the one command, collects whoever dies, and says how the command
//! ended. It is confined as the command is.

use crate::channel::{End, Ended, Order, Setup, receive, send, send_with};
use crate::error::SandboxError;
use crate::plan::Plan;
use crate::reach::{Backend, Network, PROXY_PORT};
use crate::terminal::Terminal;
use crate::{layers, mounts, namespaces};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, ioctl_tiocsctty, set_dumpable_behavior,
    set_parent_process_death_signal, setsid, wait,
};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

/// The word by which a program of ours is asked to be the first process of a sandbox.
pub const FIRST: &str = "sandbox-first";

/// Its whole life; the answer is its exit code. Its stdin is the channel to the runner, its output the command's. `start` starts a
/// command with this process's output, or in that terminal. Call it first thing in `main`, before any thread is started.
pub fn first_main(start: impl FnOnce(&Order, Backend, Option<OwnedFd>) -> io::Result<Child>) -> i32 {
    // If the runner is gone already, the channel says so.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return 1;
    }
    let Ok(stdin) = io::stdin().as_fd().try_clone_to_owned() else { return 1 };
    let channel = UnixStream::from(stdin);
    let Ok(Some(plan)) = receive::<Plan>(&channel) else { return 1 };
    let backend = plan.reach().backend;
    match backend {
        Backend::Namespaces => {
            // Without a terminal that could be read or written to. Fails only if it has none already.
            let _ = setsid();
        }
        // Whoever ends our process group is to end all of it: no kernel does that for us. The terminal is not granted.
        Backend::Landlock => {}
    }
    let socket = match confine(&plan) {
        Ok(socket) => socket,
        Err(error) => {
            // Nobody hears it where the runner is gone.
            let _ = send(&channel, &Setup::Failed(error.to_string()));
            return 1;
        }
    };
    if send_with(&channel, &Setup::Ready, socket.as_ref().map(AsFd::as_fd)).is_err() {
        return 1;
    }
    drop(socket);
    let Ok(Some(order)) = receive::<Order>(&channel) else { return 1 };
    let terminal = match order.terminal.then(|| terminal(&channel)).transpose() {
        Ok(terminal) => terminal,
        Err(error) => {
            let _ = send(&channel, &Setup::Failed(error.to_string()));
            return 1;
        }
    };
    let ended = match start(&order, backend, terminal) {
        Ok(child) => {
            let ended = let_go_of_output().and_then(|()| collect(&child));
            ended.unwrap_or_else(|error| Ended::NotStarted { not_found: false, error: error.to_string() })
        }
        Err(error) => {
            Ended::NotStarted { not_found: error.kind() == io::ErrorKind::NotFound, error: error.to_string() }
        }
    };
    let is_alone = backend == Backend::Namespaces && has_no_children();
    if send(&channel, &End { how: ended, is_alone }).is_err() {
        return 1;
    }
    // What the command left behind goes on until the runner has had a look at it, and ends with us.
    while let Ok(_) | Err(rustix::io::Errno::INTR) = wait(WaitOptions::empty()) {}
    // Until then the runner may still be reading.
    let _ = receive::<Order>(&channel);
    0
}

/// Puts on all layers. The answer is the socket that is to be handed out: whoever accepts at it is outside, and it is of our
/// network, which it was made in.
fn confine(plan: &Plan) -> Result<Option<TcpListener>, SandboxError> {
    let layer = |layer: &'static str| move |error: io::Error| SandboxError::Layer { layer, error: error.to_string() };
    let socket = match plan.reach().backend {
        Backend::Namespaces => {
            namespaces::enter_others().map_err(layer("namespaces"))?;
            let socket = proxy_socket(plan.reach().network).map_err(layer("the proxy's socket"))?;
            mounts::enter(plan).map_err(|error| layer("mounts")(io::Error::other(error)))?;
            layers::besides_mounts(plan)?;
            socket
        }
        // There is no network to make one in.
        Backend::Landlock => {
            layers::alone(plan)?;
            None
        }
    };
    // The command is of the same user: it must not look into us.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| layer("the first process")(error.into()))?;
    Ok(socket)
}

/// Makes a terminal, which is the one of all that are started here, and hands its other end out.
fn terminal(channel: &UnixStream) -> io::Result<OwnedFd> {
    let Terminal { outside, inside } = Terminal::open()?;
    ioctl_tiocsctty(&inside)?;
    send_with(channel, &Setup::Ready, Some(outside.as_fd()))?;
    Ok(inside)
}

fn proxy_socket(network: Network) -> io::Result<Option<TcpListener>> {
    match network {
        Network::None => Ok(None),
        Network::Proxy => match TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)) {
            // Another sandbox has the same network, and was faster.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(Some)
            }
            bound => bound.map(Some),
        },
    }
}

/// The command has its own ends of it; with ours open nobody would see that it has closed them.
fn let_go_of_output() -> io::Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(rustix::stdio::dup2_stderr(&nowhere)?)
}

/// Collects whoever dies until the command has.
fn collect(child: &Child) -> io::Result<Ended> {
    let command = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == command => return Ok(how(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Collects whoever is dead. Answers whether no child is left, alive or dead.
fn has_no_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(error) => return error == rustix::io::Errno::CHILD,
        }
    }
}

fn how(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, Some(signal)) => Ended::Signaled(signal),
        (None, None) => Ended::NotStarted { not_found: false, error: "it ended in no way that is known".to_owned() },
    }
}
