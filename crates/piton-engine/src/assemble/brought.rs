//! What a repository brings along that grants or runs something: its configuration, the hooks in its settings of Claude
//! Code, its agents, skills, commands, plugins and MCP servers. It is inert until the user trusts it: for good, each item in its current form ([`Trust`]), or for one run.
//!
//! Instruction files are not in it: they are text, and grant nothing.

use super::entries;
use super::error::AssembleError;
use super::hooks;
use super::machine::Machine;
use super::notice::chain;
use super::{plugins, servers};
use crate::agents;
use crate::commands::Command;
use crate::config::trust::{Item, Kind, PROJECT_FILE, ProjectFile, RunTrust, Standing, Trust, TrustError, repository};
use crate::skills;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// All that a repository brings along.
#[derive(Debug)]
pub struct Brought {
    /// Below this folder: that of the repository, or the workspace where there is none.
    pub root: PathBuf,
    /// What can be trusted; settings nearest to the workspace first, then hooks.
    pub items: Vec<BroughtItem>,
    /// Files that cannot be read, and why: they can be trusted in no form.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// One thing that a repository brings along.
#[derive(Debug)]
pub struct BroughtItem {
    /// What it is.
    pub item: Item,
    /// What counts of it, as text.
    pub text: String,
    /// How the user stands to it.
    pub standing: Standing,
    /// What counted of it when the user trusted it last, where that is known.
    pub before: Option<String>,
}

impl BroughtItem {
    /// The names by which a person may mean it: that of its file or folder, the one that it gives itself, and of a server the entry's.
    pub fn names(&self) -> Vec<String> {
        let path = &self.item.path;
        let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let (outer, own) = match self.item.kind {
            Kind::Agent => (stem(), agents::file::read(path, &self.text).map(|read| read.agent.name).ok()),
            Kind::Command => (stem(), command_name(path)),
            Kind::Skill => {
                let own = skills::file::read(path, &self.text).map(|read| read.skill.name().to_owned());
                (path.parent().and_then(last), own.ok())
            }
            Kind::Server => (path.to_string_lossy().rsplit_once('#').map(|(_, name)| name.to_owned()), None),
            Kind::Settings | Kind::Hooks | Kind::Plugin => (last(path), None),
        };
        let mut names: Vec<String> = own.into_iter().chain(outer).collect();
        names.dedup();
        names
    }

    /// Whether a person means it by this: by a name, or by the end of its path.
    pub fn is_meant(&self, said: &str) -> bool {
        let wanted = said.trim_start_matches("./");
        self.item.path.ends_with(wanted) || self.names().iter().any(|name| name == said.trim_start_matches('/'))
    }
}

/// `a/b.md` of a folder of commands is `a:b`.
fn command_name(path: &Path) -> Option<String> {
    let is_folder = |folder: &&Path| folder.ends_with("commands") || folder.ends_with("command");
    let folder = path.ancestors().skip(1).find(is_folder)?;
    Some(Command::read(folder, path, "x").ok()?.name)
}

impl Brought {
    /// What is there for a session in this workspace.
    pub fn look(machine: &Machine, workspace: &Path) -> Result<Self, TrustError> {
        let (trust, root) = (Trust::in_folder(&machine.data_dir), repository(workspace));
        let mut brought = Self { root: root.to_owned(), items: Vec::new(), unreadable: Vec::new() };
        for folder in workspace.ancestors().take_while(|folder| folder.starts_with(root)) {
            let path = folder.join(PROJECT_FILE);
            let read = match ProjectFile::read(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                Err(error) => Err(error.to_string()),
                Ok(file) => match file.text() {
                    Some(text) => Ok((file.item(), text.to_owned())),
                    None => Err("it is not text".to_owned()),
                },
            };
            brought.add(path, read, &trust)?;
        }
        for name in hooks::OF_REPOSITORY {
            let path = workspace.join(name);
            let read = match hooks::settings(&path) {
                Ok(Some(settings)) => Ok((settings.item(&path), settings.shown())),
                Ok(None) => continue,
                Err(error) => Err(chain(&error)),
            };
            if !matches!(&read, Ok((_, text)) if text.is_empty()) {
                brought.add(path, read, &trust)?;
            }
        }
        let agents = entries::brought::<agents::file::Read>(workspace).into_iter();
        let skills = entries::brought::<skills::file::Read>(workspace);
        let entries = agents.chain(skills).chain(entries::brought::<Command>(workspace));
        for (path, read) in entries.chain(plugins::brought(machine, workspace)) {
            brought.add(path, read, &trust)?;
        }
        for (path, read) in servers::brought(workspace) {
            brought.add(path, read, &trust)?;
        }
        Ok(brought)
    }

    fn add(&mut self, path: PathBuf, read: Result<(Item, String), String>, trust: &Trust) -> Result<(), TrustError> {
        match read {
            Ok((item, text)) => {
                let (standing, before) = (trust.standing(&item)?, trust.text_before(&item)?);
                self.items.push(BroughtItem { item, text, standing, before });
            }
            Err(why) => self.unreadable.push((path, why)),
        }
        Ok(())
    }

    /// A BLAKE3 hash in hexadecimal over every item: its kind, its path in the repository and its contents. The same in every
    /// checkout of it.
    pub fn hash(&self) -> String {
        let mut lines: Vec<String> = self
            .items
            .iter()
            .map(|BroughtItem { item, .. }| {
                let below = item.path.strip_prefix(&self.root).unwrap_or(&item.path);
                // A path may hold whatever separates lines.
                format!("{:?} {:?} {}", item.kind, below, item.hash)
            })
            .collect();
        lines.sort();
        blake3::hash(lines.join("\n").as_bytes()).to_hex().to_string()
    }

    /// What counts in a run that trusts it so.
    pub(super) fn for_run(self, wanted: &RunTrust) -> Result<RunTrusted, AssembleError> {
        if let RunTrust::Exactly(hash) = wanted {
            self.check(hash)?;
        }
        let settings = self.items.iter().find(|brought| brought.item.kind == Kind::Settings);
        let settings = settings
            .map(|brought| ProjectFile { path: brought.item.path.clone(), bytes: brought.text.clone().into_bytes() });
        Ok(RunTrusted { settings, items: self.items.into_iter().map(|brought| brought.item).collect() })
    }

    fn check(&self, wanted: &str) -> Result<(), AssembleError> {
        let refused = |why: String| {
            Err(AssembleError::Changed(format!(
                "{why}; nothing was started. `piton trust` shows what this repository brings along, and the hash of all of it"
            )))
        };
        if let Some((path, why)) = self.unreadable.first() {
            return refused(format!("{} cannot be read ({why}), so --trust={wanted} cannot cover it", path.display()));
        }
        let hash = self.hash();
        if hash == wanted {
            return Ok(());
        }
        let mut text = format!("what this repository brings along has the hash {hash}, and not {wanted}:");
        for BroughtItem { item, .. } in &self.items {
            let _ = write!(text, "\n  {}", item.path.display());
        }
        refused(text)
    }
}

/// What a run trusts, as it was read.
#[derive(Debug, Default)]
pub(super) struct RunTrusted {
    /// The configuration that is in force.
    pub(super) settings: Option<ProjectFile>,
    /// Everything.
    pub(super) items: Vec<Item>,
}

impl RunTrusted {
    /// What a run in this workspace trusts; nothing where that was not asked for.
    pub(super) fn of(machine: &Machine, workspace: &Path, wanted: &RunTrust) -> Result<Option<Self>, AssembleError> {
        match wanted {
            RunTrust::None => Ok(None),
            RunTrust::All | RunTrust::Exactly(_) => Brought::look(machine, workspace)?.for_run(wanted).map(Some),
        }
    }
}
