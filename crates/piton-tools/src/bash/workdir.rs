//! The folder that a command starts in: below the workspace, wherever a link leads.

use crate::plan::Look;
use piton_core::call::{Access, Outcome};
use piton_core::hidden;
use std::path::{Path, PathBuf};

/// The folder that a model wrote, through all links; refused where it is not below the workspace.
pub(super) fn planned(raw: &str, look: &Look) -> Result<PathBuf, Outcome> {
    check(raw)?;
    let Access::Read(real) = look.read(raw) else { return Ok(look.workspace.clone()) };
    within(PathBuf::from(real), raw, &look.workspace)
}

/// The same when the command starts: a link may lead elsewhere by now.
pub(super) fn now(raw: Option<&str>, workspace: &Path) -> Result<PathBuf, Outcome> {
    let Some(raw) = raw else { return Ok(workspace.to_path_buf()) };
    check(raw)?;
    let real = workspace.join(raw).canonicalize();
    let real = real.map_err(|error| refused(raw, &format!("cannot be used: {error}")))?;
    let folder = within(real, raw, workspace)?;
    if folder.is_dir() { Ok(folder) } else { Err(refused(raw, "is no folder")) }
}

fn check(raw: &str) -> Result<(), Outcome> {
    if raw.contains('\0') {
        return Err(Outcome::failed("bash: field `workdir` holds a NUL character, which no path can"));
    }
    Ok(())
}

fn within(real: PathBuf, raw: &str, workspace: &Path) -> Result<PathBuf, Outcome> {
    if real.starts_with(workspace) {
        return Ok(real);
    }
    let real = hidden::visible_line(&real.to_string_lossy());
    Err(refused(raw, &format!("is {real}, which is not below the workspace {}", workspace.display())))
}

fn refused(raw: &str, why: &str) -> Outcome {
    Outcome::failed(format!("bash: workdir `{}` {why}. Nothing ran.", hidden::visible_line(raw)))
}
