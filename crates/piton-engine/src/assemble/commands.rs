//! The slash commands of a machine: those of the repository, as far as the user trusts them, and the user's own.

use super::entries::{self, At, Entry, Files, Found, Places, State};
use super::notice::Notice;
use super::scope::Scope;
use super::trouble::Trouble;
use super::{servers, skills};
use crate::commands::{Command, CommandError, Commands, Expanded, is_name};
use crate::config::trust::Kind;
use crate::plugins::PartKind;
use crate::skills::Skills;
use piton_core::server_tool;
use piton_core::template::{Piece, Places as WordPlaces};
use piton_tools::servers::Servers;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

impl Entry for Command {
    const PLACES: Places = Places {
        kind: Kind::Command,
        of_repository: &[
            ".piton/commands",
            ".piton/command",
            ".agents/commands",
            ".claude/commands",
            ".claude/command",
            ".opencode/commands",
            ".opencode/command",
        ],
        beside_config: &["commands", "command"],
        of_home: &[".agents/commands", ".claude/commands", ".config/opencode/commands", ".config/opencode/command"],
        files: Files::Markdown,
        tables: &["command"],
        of_plugin: PartKind::Commands,
    };

    fn read(at: &At, text: &str) -> Result<Self, String> {
        let Some(name) = &at.part else { return Self::read(&at.folder, &at.file, text) };
        let said: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::of_table(&at.file, name, &said)
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// A plugin's are written for Claude Code, wherever they lie.
    fn of_plugin(mut self, plugin: &str) -> Self {
        self.name = format!("{plugin}:{}", self.name);
        self.places =
            WordPlaces { names: std::mem::take(&mut self.places.names), ..WordPlaces::of_claude(&self.template) };
        self
    }
}

/// The commands of a session, looked up anew each time one is said: a file that was changed counts as it is.
struct OfMachine {
    /// Where.
    scope: Scope,
    /// Those that were in force at first.
    names: Vec<String>,
    /// Skills are said like them.
    skills: Arc<Skills>,
    /// So are the prompts of servers.
    servers: Option<Arc<dyn Servers>>,
}

impl Commands for OfMachine {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn find(&self, name: &str, workspace: &Path) -> Result<(), CommandError> {
        // A server that only a flag names is in no file.
        let is_theirs = |servers: &Arc<dyn Servers>| {
            let of = server_tool::server_of(name);
            of.is_some_and(|of| servers.servers().iter().any(|server| server.name == of))
        };
        match self.servers.as_ref().is_some_and(is_theirs) {
            true => Ok(()),
            false => is_there(name, &self.scope.clone().in_workspace(workspace), &[]),
        }
    }

    fn expand(&self, name: &str, words: &str, workspace: &Path) -> Result<Expanded, CommandError> {
        if !is_name(name) {
            return Err(CommandError::Name(name.to_owned()));
        }
        if let Some(said) = self.servers.as_ref().and_then(|servers| servers::prompt(servers, name, words)) {
            return said;
        }
        let all = look(&self.scope.clone().in_workspace(workspace));
        let all = all.map_err(|error| CommandError::Trust(error.to_string()))?;
        match (choose(name, &all), self.skills.prompt(name, words)) {
            (Ok(command), _) => command.expand(words),
            // What does not count takes no name away.
            (
                Err(CommandError::Missing { .. } | CommandError::Untrusted { .. } | CommandError::Broken { .. }),
                Some(skill),
            ) => Ok(skill),
            // Words about a file, and no command: `/tmp is full`.
            (Err(CommandError::Missing { .. }), None) if Path::new("/").join(name).exists() => {
                let said = format!("/{name} {words}").trim_end().to_owned();
                Ok(Expanded::of(vec![Piece::Text(said)]))
            }
            (Err(CommandError::Missing { name, mut known }), None) => {
                known.extend(self.skills.for_people().map(|skill| skill.name().to_owned()));
                Err(CommandError::Missing { name, known })
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// All commands that there are for a session, in the order in which they count.
pub fn look(scope: &Scope) -> Result<Vec<Found<Command>>, Trouble> {
    entries::look(scope, [])
}

/// The commands of a session. Those that do not count, though the repository brings them along, are named.
pub(super) fn of_session(
    scope: &Scope,
    (skills, servers): (&Arc<Skills>, Option<Arc<dyn Servers>>),
    notices: &mut Vec<Notice>,
) -> Result<Arc<dyn Commands>, Trouble> {
    let names = entries::in_force(look(scope)?, notices).into_iter().map(|command| command.name).collect();
    Ok(Arc::new(OfMachine { scope: scope.clone(), names, skills: Arc::clone(skills), servers }))
}

/// Whether somebody has written a command or a skill that this name could mean, trusted or not; or it is a prompt of a server, of which
/// `mcp_config` may name more ([`super::Wishes::mcp_config`]).
pub fn is_there(name: &str, scope: &Scope, mcp_config: &[String]) -> Result<(), CommandError> {
    if !is_name(name) {
        return Err(CommandError::Name(name.to_owned()));
    }
    let unknown = |error: Trouble| CommandError::Trust(error.to_string());
    // Which prompts a server has, it says when it is asked.
    if let Some(server) = server_tool::server_of(name) {
        let servers = servers::look(scope, mcp_config).map_err(unknown)?;
        if servers.iter().any(|found| found.name == server) {
            return Ok(());
        }
    }
    let all = look(scope).map_err(unknown)?;
    let (name, mut known) = match choose(name, &all) {
        // A run may trust it.
        Err(CommandError::Untrusted { .. }) | Ok(_) => return Ok(()),
        Err(CommandError::Missing { name, known }) => (name, known),
        Err(error) => return Err(error),
    };
    let skills = skills::look(scope).map_err(unknown)?.into_iter().filter_map(|found| found.read.ok());
    known.extend(skills.filter(|read| read.skill.is_for_people).map(|read| read.skill.name().to_owned()));
    match known.contains(&name) {
        true => Ok(()),
        false => Err(CommandError::Missing { name, known }),
    }
}

/// The one of this name; else the only one whose name ends so.
fn choose<'a>(name: &str, all: &'a [Found<Command>]) -> Result<&'a Command, CommandError> {
    let in_force =
        || all.iter().filter(|found| found.state == State::InForce).filter_map(|found| found.read.as_ref().ok());
    if let Some(command) = in_force().find(|command| command.name == name) {
        return Ok(command);
    }
    let short: Vec<&Command> = in_force().filter(|command| command.short() == name).collect();
    match &short[..] {
        [command] => return Ok(command),
        [] => {}
        several => {
            let known = several.iter().map(|command| command.name.clone()).collect();
            return Err(CommandError::Several { name: name.to_owned(), known });
        }
    }
    let is_meant = |found: &&Found<Command>| match &found.read {
        Ok(command) => command.name == name || command.short() == name,
        Err(_) => found.file().and_then(Path::file_stem).is_some_and(|stem| stem == name),
    };
    let file = |found: &Found<Command>| found.file().unwrap_or(Path::new("")).to_owned();
    match all.iter().find(is_meant) {
        Some(found @ Found { read: Err(why), .. }) => Err(CommandError::Broken { file: file(found), why: why.clone() }),
        Some(found) => Err(CommandError::Untrusted { file: file(found) }),
        None => {
            let mut known: Vec<String> = in_force().map(|command| command.name.clone()).collect();
            known.sort();
            Err(CommandError::Missing { name: name.to_owned(), known })
        }
    }
}
