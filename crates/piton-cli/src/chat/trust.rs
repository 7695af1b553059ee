//! `/trust`: what the repository brings along, each thing trusted or not by a key.

use super::Chat;
use crate::commands::trust::{readable, sensible};
use crate::failure::{Result, bail};
use crate::out::{print, view};
use piton_engine::assemble::brought::{self, BroughtItem};
use piton_engine::config::trust::{Kind, Standing, Trust};
use piton_tui::face::Input;
use piton_tui::trust::{self, Brought};

impl Chat<'_> {
    /// Shows it.
    pub(super) fn trust(&self) {
        match self.brought() {
            Ok(items) => self.terminal.tell(Input::Trust(items)),
            Err(error) => self.fail(&error),
        }
    }

    /// Trusts one thing in the form that was shown, or takes that back.
    pub(super) fn trust_one(&self, shown: &Brought, wanted: bool) {
        if let Err(error) = self.give_trust(shown, wanted) {
            self.fail(&error);
        }
        self.offer_commands();
        match self.brought() {
            Ok(items) => self.terminal.tell(Input::TrustAgain(items)),
            Err(error) => self.fail(&error),
        }
    }

    fn give_trust(&self, shown: &Brought, wanted: bool) -> Result<()> {
        let machine = &self.around.machine;
        let found = brought::Brought::look(machine, self.folder())?;
        let mut items = found.items.iter();
        let Some(BroughtItem { item, text, .. }) = items.find(|found| print::path(&found.item.path) == shown.path)
        else {
            bail!("{} is not there any more", shown.path);
        };
        let list = Trust::in_folder(&machine.data_dir);
        if !wanted {
            list.take_back(&item.path)?;
            return Ok(());
        }
        if item.hash != shown.hash {
            bail!("{} has changed since it was shown: read it again", shown.path);
        }
        if item.kind == Kind::Settings {
            sensible(&item.path, self.around)?;
        }
        list.give(item, text.as_bytes())?;
        Ok(())
    }

    fn brought(&self) -> Result<Vec<Brought>> {
        let found = brought::Brought::look(&self.around.machine, self.folder())?;
        let unreadable = found.unreadable.iter().map(|(path, why)| Brought {
            kind: "file".to_owned(),
            path: print::path(path),
            hash: String::new(),
            standing: trust::Standing::Unreadable,
            does: String::new(),
            text: why.clone(),
        });
        Ok(found.items.iter().map(item).chain(unreadable).collect())
    }
}

fn item(found: &BroughtItem) -> Brought {
    let BroughtItem { item, text, standing, before } = found;
    let now = readable(item, text);
    let (standing, text) = match (standing, before) {
        (Standing::Trusted, _) => (trust::Standing::Trusted, now),
        (Standing::Changed, Some(before)) => (trust::Standing::Changed, view::unified(&readable(item, before), &now)),
        (Standing::Changed, None) => (trust::Standing::Changed, now),
        (Standing::Unknown, _) => (trust::Standing::Unknown, now),
    };
    let does = match item.kind {
        Kind::Settings => "Settings: they can allow commands without a question and choose models and servers.",
        Kind::Hooks => "Hooks: their commands run as you, if [claude] hooks = true is in your configuration.",
        Kind::Agent => "An agent: its text instructs the model, and it can have tools and permissions of its own.",
        Kind::Command => "A slash command: its text goes to the model, and its !`…` lines run when you use it.",
        Kind::Skill => "A skill: its text and the files beside it instruct the model.",
        Kind::Server => "An MCP server: Piton starts its command, or connects to its address, and offers its tools.",
        Kind::Plugin => "A plugin: its skills, commands, agents, hooks and servers count together.",
    };
    Brought {
        kind: item.kind.words(1).to_owned(),
        path: print::path(&item.path),
        hash: item.hash.clone(),
        standing,
        does: does.to_owned(),
        text,
    }
}
