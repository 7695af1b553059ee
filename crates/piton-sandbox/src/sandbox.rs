//! The runner's side: prepares a sandbox, starts a command in it, and hears how it ended.

use crate::channel::{End, Order, Setup, receive, receive_with, send};
use crate::error::SandboxError;
use crate::home;
use crate::inspect::{Before, finish, finish_later, inspect, inspect_replaced};
use crate::mount::Source;
use crate::namespaces::{self, SharedNetwork};
use crate::plan::Plan;
use crate::reach::{Backend, Network, Reach, Write};
use crate::search::{self, Mark};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A sandbox that waits for its one command, or runs it. Dropped, it and all in it is killed.
#[derive(Debug)]
pub struct Sandbox {
    first: Child,
    /// Its first process, whatever becomes of its id.
    handle: OwnedFd,
    channel: UnixStream,
    plan: Plan,
    /// When the command was started, and what protected files said then.
    began: OnceLock<(Mark, Before)>,
}

impl Sandbox {
    /// What holds its command.
    pub fn backend(&self) -> Backend {
        self.plan.reach().backend
    }

    /// Makes one. `start` starts a program of ours that calls [`crate::first_main`], with this as its standard input; where its
    /// output goes, the command's goes. With `shared` it has that network, where there are namespaces. Call it in a process with one thread, and once.
    pub fn prepare(
        plan: Plan,
        shared: Option<&SharedNetwork>,
        start: impl FnOnce(Stdio) -> io::Result<Child>,
    ) -> Result<Self, SandboxError> {
        plan.reach().make_private().map_err(SandboxError::First)?;
        match plan.reach().backend {
            Backend::Namespaces => namespaces::enter_user(shared)?,
            Backend::Landlock => link_home(&plan).map_err(SandboxError::First)?,
        }
        let begin = || -> io::Result<Self> {
            let (channel, theirs) = UnixStream::pair()?;
            let mut first = start(OwnedFd::from(theirs).into())?;
            let handle = first_process(&first).and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
            let handle = handle.inspect_err(|_| drop(first.kill()))?;
            // What we have in a user namespace of our own. Without one they are the user's, who needs them to end a command.
            if plan.reach().backend == Backend::Namespaces {
                namespaces::drop_capabilities()?;
            }
            let sandbox = Self { first, handle, channel, plan, began: OnceLock::new() };
            send(&sandbox.channel, &sandbox.plan)?;
            Ok(sandbox)
        };
        begin().map_err(SandboxError::First)
    }

    /// Waits until all its layers hold. The answer is the socket by which it reaches the network, where its reach has one: it
    /// listens, nobody else has it, and once it is closed every connection to it is refused.
    pub fn wait_until_ready(&self) -> Result<Option<OwnedFd>, SandboxError> {
        let broken = |what: &str| Err(SandboxError::First(io::Error::other(what.to_owned())));
        match receive_with(&self.channel).map_err(SandboxError::First)? {
            Some((Setup::Ready, socket)) => match (self.plan.reach().network, socket) {
                (Network::None, _) => Ok(None),
                (Network::Proxy, Some(socket)) => Ok(Some(socket)),
                (Network::Proxy, None) => broken("its socket for the network did not come"),
            },
            Some((Setup::Failed(error), _)) => broken(&error),
            None => broken("its first process ended before it was ready"),
        }
    }

    /// Starts the command. Its home, `/tmp` and the like are what its environment says. Answers with the outer end of its terminal,
    /// where it gets one.
    pub fn start(&self, mut order: Order) -> io::Result<Option<OwnedFd>> {
        self.plan.reach().settle(&mut order.env);
        let _ = self.began.set((search::now(), Before::of(&self.plan)));
        if order.terminal && self.backend() == Backend::Landlock {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "there is no terminal where Landlock alone holds"));
        }
        send(&self.channel, &order)?;
        if !order.terminal {
            return Ok(None);
        }
        match receive_with(&self.channel)? {
            Some((Setup::Ready, Some(terminal))) => Ok(Some(terminal)),
            Some((Setup::Failed(error), _)) => Err(io::Error::other(format!("its terminal cannot be made: {error}"))),
            Some((Setup::Ready, None)) | None => Err(io::Error::other("its terminal did not come")),
        }
    }

    /// Whether, after at most this long, [`Sandbox::ended`] has something to tell.
    pub fn ends_within(&self, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Waits for how it ended; `None`: the sandbox ended first.
    pub fn ended(&self) -> io::Result<Option<End>> {
        receive(&self.channel)
    }

    /// Takes out of the workspace what the command has left there by which a program outside would run something later. To be
    /// called when nothing of the command lives. Answers with what was done, a sentence each.
    pub fn inspect(&self) -> Vec<String> {
        match (self.plan.reach().write, self.began.get()) {
            (Write::Workspace, Some((began, before))) => inspect(&self.plan, *began, before),
            (Write::Workspace, None) | (Write::Nothing, _) => Vec::new(),
        }
    }

    /// The same, while the command runs, of what a program outside has replaced: with a file that is replaced the kernel takes the mount
    /// away that kept it from changes.
    pub fn inspect_replaced(&self) -> Vec<String> {
        match (self.plan.reach().write, self.began.get()) {
            (Write::Workspace, Some((began, before))) => inspect_replaced(&self.plan, *began, before),
            (Write::Workspace, None) | (Write::Nothing, _) => Vec::new(),
        }
    }

    /// Goes on, within that time, where the workspace was too large for [`Sandbox::inspect`] to look through all of it. Answers as that does.
    pub fn finish(&self, at_most: Duration) -> Vec<String> {
        self.began.get().map_or_else(Vec::new, |(began, _)| finish(&self.plan, *began, Some(at_most)))
    }

    /// The same when nobody waits any more, as long as it takes: what is done is told when the session's next command has ended.
    pub fn finish_later(&self) {
        if let Some((began, _)) = self.began.get() {
            finish_later(&self.plan, *began);
        }
    }

    /// The id of its first process.
    pub fn first(&self) -> Option<Pid> {
        first_process(&self.first).ok()
    }

    /// Kills its first process. The kernel ends all of a process namespace with that; where there is none, the caller ends
    /// what else lives.
    pub fn kill(&self) {
        // Gone is as good.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Waits until its first process is dead, at most this long.
    pub fn wait_for_death(&self, at_most: Duration) {
        let timeout = Timespec::try_from(at_most).ok();
        // Interrupted by a signal, the caller looks again.
        let _ = poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], timeout.as_ref());
    }
}

fn first_process(first: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(first.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the first process has no id"))
}

/// In the command's own home: links to the toolchains and caches of the user's, where nothing can be mounted. A command may have
/// put something in the way, which is not followed and stays.
fn link_home(plan: &Plan) -> io::Result<()> {
    let Reach { home: users, private, workspace, .. } = plan.reach();
    let own = home::open(&private.join("home"))?;
    for mount in &plan.mounts {
        let Source::Machine { from, write: false } = &mount.source else { continue };
        let Ok(below) = from.strip_prefix(users) else { continue };
        if !from.starts_with(workspace) && !from.starts_with(private) {
            // It is a comfort; what stands there instead is the command's own making.
            let _ = home::link(&own, below, from);
        }
    }
    Ok(())
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill();
    }
}

impl AsFd for Sandbox {
    /// Readable when [`Sandbox::ended`] has something to tell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
