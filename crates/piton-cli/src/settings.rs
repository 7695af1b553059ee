//! What the library assembles from files, variables and flags, with its notices printed, whatever comes of it.

use crate::out::print;
use crate::surroundings::Surroundings;
use piton_engine::assemble::{self, AssembleError, Notice, Wishes, sources};
use piton_engine::config::Config;
use piton_engine::config::layers::Flag;
use piton_engine::engine::Settings;
use std::path::Path;

/// The configuration for everything that is not about one workspace.
pub(crate) fn of_user(around: &Surroundings) -> Result<Config, AssembleError> {
    told(|notices| sources::of_user(&around.machine, notices))
}

/// The configuration that holds in a workspace.
pub(crate) fn of_workspace(around: &Surroundings, workspace: &Path, flags: &[Flag]) -> Result<Config, AssembleError> {
    told(|notices| sources::of_workspace(&around.machine, workspace, flags, notices))
}

/// The settings of a session.
pub(crate) async fn of_session(
    around: &Surroundings,
    workspace: &Path,
    wishes: &Wishes,
) -> Result<Settings, AssembleError> {
    let mut notices = Vec::new();
    let settings = assemble::settings(&around.machine, workspace, wishes, &mut notices).await;
    print::notices(&notices);
    settings
}

fn told<T>(read: impl FnOnce(&mut Vec<Notice>) -> T) -> T {
    let mut notices = Vec::new();
    let read = read(&mut notices);
    print::notices(&notices);
    read
}
