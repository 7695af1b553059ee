//! What a process gives up for good, and with it all that it starts: capabilities, new privileges, what Landlock and seccomp
//! know, and more of the machine than its limits.

use crate::error::SandboxError;
use crate::reach::Limits;
use crate::{
    plan::{Plan, Source},
    seccomp,
};
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, remove_capability_from_bounding_set, set_capabilities_secure_bits,
    set_no_new_privs,
};
use std::io;
use std::path::Path;

/// The newest Landlock that is asked for; of an older kernel's all that it has.
const LANDLOCK: ABI = ABI::V7;

/// In this order: each needs what the next takes away.
pub(crate) fn apply(plan: &Plan) -> Result<(), SandboxError> {
    limit(&plan.reach().limits).map_err(layer("limits"))?;
    no_privileges().map_err(layer("capabilities"))?;
    landlock(plan)?;
    seccomp::apply()
}

fn layer(layer: &'static str) -> impl FnOnce(io::Error) -> SandboxError {
    move |error| SandboxError::Layer { layer, error: error.to_string() }
}

fn limit(limits: &Limits) -> io::Result<()> {
    let of = |most: Option<u64>| Rlimit { current: most, maximum: most };
    setrlimit(Resource::Core, of(Some(0)))?;
    for (resource, most) in
        [(Resource::Nproc, limits.processes), (Resource::As, limits.memory_bytes), (Resource::Fsize, limits.file_bytes)]
    {
        if most.is_some() {
            setrlimit(resource, of(most))?;
        }
    }
    Ok(())
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

/// The same once more, by another part of the kernel: what may be changed, and nobody outside to signal or to speak with.
fn landlock(plan: &Plan) -> Result<(), SandboxError> {
    let failed = |error: &dyn std::fmt::Display| SandboxError::Layer { layer: "Landlock", error: error.to_string() };
    let all = AccessFs::from_all(LANDLOCK);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|ruleset| ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(|error| failed(&error))?;
    let writable = plan.mounts.iter().filter(|mount| match mount.source {
        Source::Machine { write, .. } => write,
        Source::Cache { .. } | Source::Devices | Source::Processes => true,
        Source::Link(_) | Source::EmptyFolder | Source::EmptyFile => false,
    });
    let mut ruleset = ruleset
        .add_rule(PathBeneath::new(PathFd::new("/").map_err(|error| failed(&error))?, AccessFs::from_read(LANDLOCK)))
        .map_err(|error| failed(&error))?;
    for mount in writable {
        let at: &Path = &mount.at;
        let access = if at.is_dir() { all } else { AccessFs::from_file(LANDLOCK) };
        let open = PathFd::new(at).map_err(|error| failed(&error))?;
        ruleset = ruleset.add_rule(PathBeneath::new(open, access)).map_err(|error| failed(&error))?;
    }
    ruleset.restrict_self().map_err(|error| failed(&error))?;
    Ok(())
}
