//! Landlock: which files a process and all that it starts may open, and how.
//!
//! Under namespaces it holds what the mounts hold once more. Where there are none it is all there is: the kernel can only allow,
//! so in the place of a folder in which something is less than the rest stands what is in it ([`crate::split`]).

use crate::mount::{Mount, Source};
use crate::open::open_as_named;
use crate::plan::Plan;
use crate::tables;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The newest Landlock that is asked for; of an older kernel's all that it has.
const NEWEST: ABI = ABI::V9;
/// What has to be there where nothing else is: without it files are cut to nothing.
const OLDEST: ABI = ABI::V3;

/// Why Landlock does not hold.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LandlockError {
    #[error(transparent)]
    Ruleset(#[from] RulesetError),
    #[error("{} cannot be opened: {error}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        error: Errno,
    },
}

/// Under namespaces: what may be changed, and nobody outside to signal or to speak with. The paths are the sandbox's own.
pub(crate) fn mounts_again(plan: &Plan) -> Result<(), LandlockError> {
    // Who may connect to a socket at a path is the mounts' matter.
    let all = AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::ResolveUnix);
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    let mut ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?.create()?;
    ruleset = allow(ruleset, Path::new("/"), AccessFs::from_read(NEWEST))?;
    for mount in &plan.mounts {
        ruleset = match mount.source {
            Source::Machine { write: true, .. } | Source::Cache { .. } | Source::Processes => {
                allow(ruleset, &mount.at, all)?
            }
            // The kernel opens a message queue by a mount of its own, so that none of the folders above it is asked.
            Source::Devices => allow(allow(ruleset, &mount.at, all)?, &mount.at.join("mqueue"), all)?,
            Source::Machine { write: false, .. }
            | Source::Link(_)
            | Source::EmptyFolder
            | Source::EmptyFile
            | Source::Names => ruleset,
        };
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Whether the kernel judges who connects to a Unix socket at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JudgesSockets {
    Yes,
    No,
}

/// All that is granted, where nothing else holds. The paths are the machine's.
pub(crate) fn alone(plan: &Plan) -> Result<JudgesSockets, LandlockError> {
    let all = AccessFs::from_all(NEWEST);
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(OLDEST))?.set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.handle_access(all)?.handle_access(AccessNet::from_all(NEWEST))?;
    let mut ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?.create()?;
    for Mount { at, source } in &plan.mounts {
        ruleset = match source {
            Source::Machine { write: true, .. } => allow(ruleset, at, all)?,
            Source::Machine { write: false, .. } | Source::Cache { .. } | Source::Processes => {
                allow(ruleset, at, AccessFs::from_read(NEWEST))?
            }
            Source::Names => allow(ruleset, at, AccessFs::ReadDir.into())?,
            Source::Devices => {
                let use_it = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
                let devices = tables::DEVICES.iter().map(|name| at.join(name));
                devices.into_iter().try_fold(ruleset, |ruleset, device| allow(ruleset, &device, use_it))?
            }
            Source::Link(_) | Source::EmptyFolder | Source::EmptyFile => ruleset,
        };
    }
    let status = ruleset.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V9 => JudgesSockets::Yes,
        _ => JudgesSockets::No,
    })
}

/// What lies at a path now, through no link: whoever puts one there has not widened what is allowed.
fn allow(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, LandlockError> {
    let open = match open_as_named(path) {
        Ok(open) => open,
        // What is not there, or is a link now, is not granted.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(ruleset),
        Err(error) => return Err(LandlockError::Open { path: path.to_path_buf(), error }),
    };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    Ok(ruleset.add_rule(PathBeneath::new(open, access))?)
}
