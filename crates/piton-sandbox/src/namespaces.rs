//! Namespaces, and what can be set only in them.

use crate::channel::{receive_descriptor, send_descriptor};
use crate::error::SandboxError;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use rustix::process::{Pid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The network of a sandbox, for others that are to reach its servers and be reached by them: with this, it goes on being there.
#[derive(Debug)]
pub struct SharedNetwork {
    /// The user namespace that owns it, or one in that.
    user: OwnedFd,
    network: OwnedFd,
}

impl SharedNetwork {
    /// That of a process that has prepared a sandbox; `None`: it has the network that we have.
    pub fn of(process: Pid) -> io::Result<Option<Self>> {
        let file = |name: &str| format!("/proc/{}/ns/{name}", process.as_raw_pid());
        let network = file("net");
        if fs::read_link(&network)? == fs::read_link("/proc/self/ns/net")? {
            return Ok(None);
        }
        Ok(Some(Self { user: fs::File::open(file("user"))?.into(), network: fs::File::open(network)?.into() }))
    }

    /// Hands it over to whoever calls [`SharedNetwork::receive`] at the other end of a socket.
    pub fn send(&self, to: impl AsFd) -> io::Result<()> {
        send_descriptor(&to, self.user.as_fd())?;
        send_descriptor(to, self.network.as_fd())
    }

    /// Takes it; `None`: the other side is gone.
    pub fn receive(from: impl AsFd) -> io::Result<Option<Self>> {
        let Some(user) = receive_descriptor(&from)? else { return Ok(None) };
        Ok(receive_descriptor(from)?.map(|network| Self { user, network }))
    }
}

/// Puts this process into a user namespace and a network of its own, or into the network of others, and its next child into a
/// process namespace of its own, whose first process it becomes. It must have one thread.
pub(crate) fn enter_user(shared: Option<&SharedNetwork>) -> Result<(), SandboxError> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let own = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID;
    let enter = || -> io::Result<()> {
        let Some(shared) = shared else { return Ok(unshare(own | CloneFlags::CLONE_NEWNET)?) };
        setns(&shared.user, CloneFlags::CLONE_NEWUSER)?;
        setns(&shared.network, CloneFlags::CLONE_NEWNET)?;
        // Within that user namespace one of its own again: limits of processes count for each alone.
        Ok(unshare(own)?)
    };
    enter().map_err(SandboxError::Namespaces)?;
    let set = || -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1\n"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1\n"))?;
        // For the first process: a program that is started loses what is not in all of these.
        let mut sets = capabilities(None)?;
        sets.inheritable = sets.permitted;
        set_capabilities(None, sets)?;
        for capability in sets.permitted.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
        if shared.is_none() { loopback_up() } else { Ok(()) }
    };
    set().map_err(SandboxError::Namespaces)
}

/// What the runner itself gives up again, once its child is started.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Puts this process into namespaces of its own for mounts, IPC, the host's name and cgroups.
pub(crate) fn enter_others() -> io::Result<()> {
    let flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWCGROUP;
    Ok(unshare(flags)?)
}

/// Switches `lo` on, where servers of a test listen.
fn loopback_up() -> io::Result<()> {
    /// Of `linux/rtnetlink.h` and `linux/if.h`.
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const IFF_UP: u32 = 1;
    /// `lo` is the first of every network namespace.
    const LOOPBACK: i32 = 1;
    const BYTES: u32 = 32;
    // Without a number it is the protocol of routes and devices.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::with_capacity(32);
    message.extend_from_slice(&BYTES.to_ne_bytes());
    message.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port: nobody waits for an answer.
    message.extend_from_slice(&[0; 8]);
    // Family, padding and type: any.
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(&LOOPBACK.to_ne_bytes());
    message.extend_from_slice(&IFF_UP.to_ne_bytes());
    message.extend_from_slice(&IFF_UP.to_ne_bytes());
    send(&socket, &message, SendFlags::empty())?;
    Ok(())
}
