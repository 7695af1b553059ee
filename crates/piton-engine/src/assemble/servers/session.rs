//! The servers of a session: those that count, with what their client needs of this machine.

use super::super::machine::Machine;
use super::super::notice::Notice;
use super::super::secrets;
use super::super::server;
use super::super::trouble::Trouble;
use super::{Origin, in_agent, in_force, look};
use crate::agents::{Agent, OpenServers};
use crate::assemble::scope::Scope;
use crate::config::Config;
use crate::firewall;
use piton_mcp::{Client, Surroundings};
use piton_tools::private;
use piton_tools::servers::Servers;
use piton_tools::spawn::Confinement;
use std::path::Path;
use std::sync::Arc;

/// In the data folder: what Piton keeps of servers.
const FOLDER: &str = "mcp";

/// The servers of a session; none where none counts.
pub(in super::super) fn of_session(
    scope: &Scope,
    flags: &[String],
    config: &Config,
    confinement: &Confinement,
    notices: &mut Vec<Notice>,
) -> Result<Option<Arc<dyn Servers>>, Trouble> {
    let all = look(scope, flags)?;
    if all.iter().any(|found| matches!(found.origin, Origin::Plugin { .. })) {
        make_data_folders(scope, notices);
    }
    let entries = in_force(all, notices);
    if entries.is_empty() {
        return Ok(None);
    }
    let surroundings = surroundings(&scope.machine, &scope.workspace, config, confinement.clone())?;
    Ok(Some(Arc::new(Client::new(entries, surroundings))))
}

/// Opens the servers that an agent's file has; none where it has none.
pub(in super::super) fn of_agent(
    agent: &Agent,
    scope: &Scope,
    config: &Config,
    confinement: &Confinement,
    notices: &mut Vec<Notice>,
) -> Result<Option<OpenServers>, Trouble> {
    let entries = in_force(in_agent(agent, scope), notices);
    if entries.is_empty() {
        return Ok(None);
    }
    let surroundings = surroundings(&scope.machine, &scope.workspace, config, confinement.clone())?;
    Ok(Some(Arc::new(move || Arc::new(Client::new(entries.clone(), surroundings.clone())))))
}

/// The folders in which plugins with servers keep what outlives an update.
fn make_data_folders(scope: &Scope, notices: &mut Vec<Notice>) {
    for (plugin, _) in scope.plugins.in_force().filter(|(plugin, _)| matches!(plugin.servers(), Ok(Some(_)))) {
        if let Err(error) = private::make_folder(&plugin.data) {
            let (name, folder) = (plugin.name(), plugin.data.display());
            notices.push(Notice::new(format!("the plugin {name}: its folder {folder} cannot be made: {error}")));
        }
    }
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
        firewall: firewall::of_machine(&machine.data_dir, &secrets::known(config, machine)),
    })
}
