//! The agents of a session: those of the project, as far as the user trusts them, the user's own, and those that are built in.

use super::entries::{self, At, Entry, Files, Places};
use super::machine::Machine;
use super::notice::Notice;
use super::trouble::Trouble;
use crate::agents::file::{self, Read};
use crate::agents::{Agent, Agents};
use crate::config::trust::{Item, Kind};
use std::path::Path;

/// An agent that was found, and whether it counts.
pub type Found = entries::Found<Read>;

impl Entry for Read {
    const PLACES: Places = Places {
        kind: Kind::Agent,
        of_repository: &[
            ".piton/agents",
            ".agents/agents",
            ".claude/agents",
            ".opencode/agents",
            ".opencode/agent",
            ".piton/agent",
        ],
        beside_config: &["agents"],
        of_home: &[".agents/agents", ".claude/agents", ".config/opencode/agents", ".config/opencode/agent"],
        files: Files::Markdown,
    };

    fn read(at: &At, text: &str) -> Result<Self, String> {
        file::read(&at.file, text)
    }

    fn name(&self) -> &str {
        &self.agent.name
    }
}

/// All agents that there are for a session in this workspace, in the order in which they count. `trusted` is what this run trusts beside
/// what the user does.
pub fn look(machine: &Machine, workspace: &Path, trusted: &[Item]) -> Result<Vec<Found>, Trouble> {
    let built_in = Agents::built_in();
    let built_in = built_in.iter().map(|agent| Read { agent: Agent::clone(agent), unknown: Vec::new() });
    entries::look(machine, workspace, trusted, built_in)
}

/// Those that count. What does not, though it came with the repository, is named.
pub fn of_session(
    machine: &Machine,
    workspace: &Path,
    trusted: &[Item],
    notices: &mut Vec<Notice>,
) -> Result<Agents, Trouble> {
    let all = entries::in_force(look(machine, workspace, trusted)?, notices);
    Ok(all.into_iter().fold(Agents::built_in(), |agents, read| agents.with(read.agent)))
}
