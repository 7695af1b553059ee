//! What a process gives up for good, and with it all that it starts: capabilities, new privileges, what Landlock and seccomp
//! know, and more of the machine than its limits.

use crate::error::SandboxError;
use crate::granted::{self, JudgesSockets, LandlockError};
use crate::plan::Plan;
use crate::reach::{Backend, Limits, Reach};
use crate::seccomp::{self, Sockets};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, capabilities, remove_capability_from_bounding_set,
    set_capabilities_secure_bits, set_no_new_privs,
};
use std::io;

/// What is put on besides mounts and namespaces. In this order: each needs what the next takes away.
pub(crate) fn besides_mounts(plan: &Plan) -> Result<(), SandboxError> {
    limit(plan.reach()).map_err(layer("limits"))?;
    no_privileges().map_err(layer("capabilities"))?;
    granted::mounts_again(plan).map_err(landlock)?;
    seccomp::apply(Sockets::OfOwnNetwork)
}

/// What is put on where there is nothing else: the kernel must know all that this stands on.
pub(crate) fn alone(plan: &Plan) -> Result<(), SandboxError> {
    limit(plan.reach()).map_err(layer("limits"))?;
    if capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETPCAP)) {
        no_privileges().map_err(layer("capabilities"))?;
    } else {
        // Whoever may not give up what others could win may not win it either.
        crate::namespaces::drop_capabilities().map_err(layer("capabilities"))?;
        set_no_new_privs(true).map_err(|error| layer("capabilities")(error.into()))?;
    }
    match granted::alone(plan).map_err(landlock)? {
        JudgesSockets::Yes => seccomp::apply(Sockets::AtPaths),
        JudgesSockets::No => seccomp::apply(Sockets::None),
    }
}

fn layer(layer: &'static str) -> impl FnOnce(io::Error) -> SandboxError {
    move |error| SandboxError::Layer { layer, error: error.to_string() }
}

fn landlock(error: LandlockError) -> SandboxError {
    layer("Landlock")(io::Error::other(error))
}

fn limit(reach: &Reach) -> io::Result<()> {
    let Limits { processes, memory_bytes, file_bytes } = reach.limits;
    let of = |most: Option<u64>| Rlimit { current: most, maximum: most };
    setrlimit(Resource::Core, of(Some(0)))?;
    let others = match reach.backend {
        Backend::Namespaces => 0,
        // Those of the same user outside count, too.
        Backend::Landlock => tasks_of_machine()?,
    };
    let processes = processes.map(|most| most.saturating_add(others));
    for (resource, most) in [(Resource::Nproc, processes), (Resource::As, memory_bytes), (Resource::Fsize, file_bytes)]
    {
        if most.is_some() {
            setrlimit(resource, of(most))?;
        }
    }
    Ok(())
}

/// How many processes and threads there are, of all users: `0.20 0.18 0.12 1/80 11206`.
fn tasks_of_machine() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let tasks = text.split([' ', '/']).nth(4).and_then(|count| count.parse().ok());
    tasks.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/loadavg reads otherwise than known"))
}

fn no_privileges() -> io::Result<()> {
    // Root is a user like any other from here on.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(bits)?;
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not have.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    crate::namespaces::drop_capabilities()?;
    Ok(set_no_new_privs(true)?)
}
