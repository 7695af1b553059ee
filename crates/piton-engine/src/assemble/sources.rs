//! The configuration of a machine in its layers: the user's file, that of the repository if it is trusted, variables, flags.

use super::brought::RunTrusted;
use super::error::AssembleError;
use super::machine::Machine;
use super::notice::Notice;
use super::trouble::{Context, Trouble};
use super::wishes::Wishes;
use crate::config::Config;
use crate::config::layers::{Flag, KeyOrigin, Layered, Layers, NO_SETTINGS, VARIABLE_PREFIX};
use crate::config::trust::{Found, ProjectFile, Trust, TrustError};
use crate::context::Instructions;
use piton_tools::regular;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What the user says, in file and environment: for everything that is not about one workspace.
pub fn of_user(machine: &Machine, notices: &mut Vec<Notice>) -> Result<Config, AssembleError> {
    Ok(noted(layered(machine, None, &[])?, notices).config)
}

/// What holds in a workspace, with what flags set. What its repository says counts if the user trusts it; if not, there is
/// a notice.
pub fn of_workspace(
    machine: &Machine,
    workspace: &Path,
    flags: &[Flag],
    notices: &mut Vec<Notice>,
) -> Result<Config, AssembleError> {
    of_found(machine, &found(machine, workspace)?, flags, notices)
}

fn of_found(
    machine: &Machine,
    found: &Found,
    flags: &[Flag],
    notices: &mut Vec<Notice>,
) -> Result<Config, AssembleError> {
    notices.extend(remarks(found));
    Ok(noted(layered(machine, found.in_force.as_ref(), flags)?, notices).config)
}

/// The same for a session. If nobody sees notices, a session without the rules that were trusted does not even begin.
pub(super) fn of_session(
    machine: &Machine,
    workspace: &Path,
    wishes: &Wishes,
    trusted: Option<&RunTrusted>,
    notices: &mut Vec<Notice>,
) -> Result<Config, AssembleError> {
    let found = match trusted {
        None => found(machine, workspace)?,
        // Whatever stands on the list: of the repository this is in force, and above it what is trusted.
        Some(RunTrusted { settings: Some(settings), .. }) => {
            Found { in_force: Some(settings.clone()), ..Found::default() }
        }
        Some(RunTrusted { settings: None, .. }) => found(machine, workspace)?,
    };
    if !wishes.is_watched
        && let Some(path) = &found.changed
    {
        return Err(AssembleError::Changed(changed(path, "nothing was started, since nobody is there to see this")));
    }
    of_found(machine, &found, &wishes.flags, notices)
}

/// What the files of repositories come to in a folder.
pub fn found(machine: &Machine, workspace: &Path) -> Result<Found, TrustError> {
    Trust::in_folder(&machine.data_dir).look(workspace)
}

/// What a person should know about them.
pub fn remarks(found: &Found) -> Vec<Notice> {
    let unknown = found.unknown.first().map(|path| {
        format!(
            "{} is not in force: you have not trusted it in its current form; piton trust shows it and asks",
            path.display()
        )
    });
    let changed = found.changed.as_deref().map(|path| changed(path, "none of its settings, rules and limits hold"));
    unknown.into_iter().chain(changed).map(Notice::new).collect()
}

fn changed(path: &Path, what: &str) -> String {
    let folder = path.parent().and_then(Path::parent).unwrap_or(path).display();
    let state = if path.exists() { "has been changed since you trusted it" } else { "was trusted by you and is gone" };
    format!(
        "{} {state} and is not in force: {what}. Review it; then, in {folder}, trust its current form with \
         piton trust, or forget it with piton trust --revoke",
        path.display()
    )
}

/// All layers, and who said what.
pub fn layered(machine: &Machine, project: Option<&ProjectFile>, flags: &[Flag]) -> Result<Layered, AssembleError> {
    let mut layers = of_files(machine, project)?;
    for (name, value) in &machine.vars {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
        if NO_SETTINGS.contains(&name) {
            continue;
        }
        let value = value.to_str().with_context(|| format!("the environment variable {name} is not text"))?;
        layers.add_variables([(name, value)])?;
    }
    flags.iter().try_for_each(|flag| layers.add_flag(flag))?;
    if let Some(named) = layers.own_preset() {
        let folder = machine.config_file.parent().unwrap_or(Path::new(""));
        let path = folder.join(named);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read the preset {}", path.display()))?;
        layers.add_own_preset(path, &text)?;
    }
    Ok(layers.merge()?)
}

/// The user's own file, and over it that of a repository.
pub fn of_files(machine: &Machine, project: Option<&ProjectFile>) -> Result<Layers, AssembleError> {
    let mut layers = Layers::default();
    let file = &machine.config_file;
    match regular::text(file, regular::SETTINGS_BYTES) {
        Ok(text) => layers.add_file(KeyOrigin::User(file.clone()), &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound && !machine.config_is_named => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = "which PITON_CONFIG names; `piton config edit` creates one";
            return Err(Trouble::new(format!("there is no {}, {what}", file.display())).into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display()))?,
    }
    if let Some(file) = project {
        let text = file.text().with_context(|| format!("{} is not text", file.path.display()))?;
        layers.add_file(KeyOrigin::Project(file.path.clone()), text)?;
    }
    Ok(layers)
}

fn noted(layered: Layered, notices: &mut Vec<Notice>) -> Layered {
    notices.extend(layered.notes.iter().map(Notice::new));
    layered
}

/// Where instruction files are looked for, unless the configuration says that none are read.
pub fn instructions(config: &Config, machine: &Machine) -> Option<Instructions> {
    config.context.instructions.unwrap_or(true).then(|| Instructions {
        global_dir: machine.config_file.parent().map(Path::to_path_buf),
        home: machine.var("HOME").map(PathBuf::from),
        window_tokens: None,
    })
}
