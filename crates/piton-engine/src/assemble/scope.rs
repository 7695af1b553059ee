//! Where a session looks for entries, and what of it counts in this run.

use super::machine::Machine;
use super::plugins::Plugins;
use super::trouble::Trouble;
use crate::agents::file::Read;
use crate::config::Config;
use crate::config::trust::{Item, Kind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where entries are looked for.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The machine.
    pub machine: Machine,
    /// The workspace.
    pub workspace: PathBuf,
    /// What this run trusts beside what the user does.
    pub trusted: Vec<Item>,
    /// The plugins, as they were when the session began.
    pub plugins: Arc<Plugins>,
    /// The agents that a flag describes.
    pub agents: Vec<Read>,
    claude: [bool; 4],
    opencode: [bool; 4],
}

/// Whose folders and files an entry lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Piton's own, or those that several programs share.
    Ours,
    /// Claude Code's.
    Claude,
    /// OpenCode's.
    OpenCode,
}

impl Scope {
    /// What this configuration reads in this workspace. `folders` are plugins that a flag names.
    pub fn new(
        machine: &Machine,
        workspace: &Path,
        config: &Config,
        trusted: &[Item],
        folders: &[PathBuf],
    ) -> Result<Self, Trouble> {
        let (claude, opencode) = (&config.claude, &config.opencode);
        let plugins = Plugins::look(machine, workspace, folders, trusted, claude.plugins.unwrap_or(true))?;
        let on = |said: [Option<bool>; 4]| said.map(|said| said.unwrap_or(true));
        Ok(Self {
            machine: machine.clone(),
            workspace: workspace.to_owned(),
            trusted: trusted.to_vec(),
            plugins: Arc::new(plugins),
            agents: Vec::new(),
            claude: on([claude.agents, claude.skills, claude.commands, claude.mcp]),
            opencode: on([opencode.agents, opencode.skills, opencode.commands, opencode.mcp]),
        })
    }

    /// The same with agents that a flag describes.
    #[must_use]
    pub fn with_agents(self, agents: Vec<Read>) -> Self {
        Self { agents, ..self }
    }

    /// The same in another workspace.
    #[must_use]
    pub fn in_workspace(self, workspace: &Path) -> Self {
        Self { workspace: workspace.to_owned(), ..self }
    }

    /// Whether entries of a kind are read from there.
    pub(super) fn reads(&self, kind: Kind, program: Program) -> bool {
        let at = match kind {
            Kind::Agent => 0,
            Kind::Skill => 1,
            Kind::Command => 2,
            Kind::Server => 3,
            Kind::Settings | Kind::Hooks | Kind::Plugin => return true,
        };
        match program {
            Program::Ours => true,
            Program::Claude => self.claude[at],
            Program::OpenCode => self.opencode[at],
        }
    }
}

impl Program {
    /// Whose folder this is.
    pub(super) fn of(folder: &str) -> Self {
        match folder {
            _ if folder.contains(".claude") => Self::Claude,
            _ if folder.contains("opencode") => Self::OpenCode,
            _ => Self::Ours,
        }
    }
}
