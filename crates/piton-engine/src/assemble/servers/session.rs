//! The servers of a session: those that count, with what their client needs of this machine.

use super::super::machine::Machine;
use super::super::notice::Notice;
use super::super::server;
use super::super::trouble::Trouble;
use super::{in_force, look};
use crate::config::Config;
use crate::config::trust::Item;
use piton_mcp::{Client, Surroundings};
use piton_tools::servers::Servers;
use piton_tools::spawn::Confinement;
use std::path::Path;
use std::sync::Arc;

/// In the data folder: what Piton keeps of servers.
const FOLDER: &str = "mcp";

/// The servers of a session; none where none counts.
pub(in super::super) fn of_session(
    (machine, workspace): (&Machine, &Path),
    (trusted, flags): (&[Item], &[String]),
    config: &Config,
    confinement: impl FnOnce() -> Confinement,
    notices: &mut Vec<Notice>,
) -> Result<Option<Arc<dyn Servers>>, Trouble> {
    let entries = in_force(look(machine, workspace, trusted, flags)?, notices);
    if entries.is_empty() {
        return Ok(None);
    }
    let surroundings = surroundings(machine, workspace, config, confinement())?;
    Ok(Some(Arc::new(Client::new(entries, surroundings))))
}

/// What a client of servers needs of this machine. `confinement` holds those that run in the sandbox.
pub fn surroundings(
    machine: &Machine,
    workspace: &Path,
    config: &Config,
    confinement: Confinement,
) -> Result<Surroundings, Trouble> {
    Ok(Surroundings {
        folder: machine.data_dir.join(FOLDER),
        env: machine.vars.clone(),
        workspace: workspace.to_owned(),
        http: server::http_options(server::WEB, config, machine)?,
        confinement,
    })
}
