//! Prompts from before, in a file that all sessions share. They are kept as a session keeps them: without secrets.

use super::Chat;
use piton_core::secrets::{Depth, Firewall};
use piton_tui::face::Input;
use piton_tui::history::{self, Entry};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Prompts on their way to the file.
pub(super) struct Recall {
    file: PathBuf,
    /// `None`: it is not known yet what is secret here.
    firewall: Option<Firewall>,
    /// Those that were said before that was known.
    waiting: Vec<Entry>,
}

impl Recall {
    /// What is kept in this data folder.
    pub(super) fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("prompts.jsonl"), firewall: None, waiting: Vec::new() }
    }

    /// From here on it is known what is secret.
    pub(super) fn know(&mut self, firewall: Firewall) {
        for entry in std::mem::take(&mut self.waiting) {
            self.keep(firewall.clone(), entry);
        }
        self.firewall = Some(firewall);
    }

    /// Keeps a prompt for later sessions. Nothing depends on it.
    fn remember(&mut self, entry: Entry) {
        match self.firewall.clone() {
            Some(firewall) => self.keep(firewall, entry),
            None => self.waiting.push(entry),
        }
    }

    fn keep(&self, firewall: Firewall, entry: Entry) {
        let path = self.file.clone();
        drop(tokio::task::spawn_blocking(move || {
            let entry = without_secrets(entry, &firewall);
            if let Err(error) = history::append(&path, &entry) {
                tracing::warn!("a prompt was not kept in {}: {error}", path.display());
            }
        }));
    }
}

impl Chat<'_> {
    /// Reads the prompts from before, for the face.
    pub(super) async fn recall(&self) {
        let path = self.recall.file.clone();
        if let Ok(entries) = tokio::task::spawn_blocking(move || history::load(&path)).await {
            self.terminal.tell(Input::History(entries));
        }
    }

    pub(super) fn remember(&mut self, mut entry: Entry) {
        // The prompt that began the session was sent before that had an id.
        if let Some(id) = self.place.resumed().filter(|_| entry.session.is_empty()) {
            id.as_str().clone_into(&mut entry.session);
        }
        self.recall.remember(entry);
    }
}

fn without_secrets(entry: Entry, firewall: &Firewall) -> Entry {
    match firewall.cleaned(&entry.text, Depth::Everything) {
        Cow::Borrowed(_) => entry,
        // Where pastes began is not known any more.
        Cow::Owned(text) => Entry { text, pastes: Vec::new(), ..entry },
    }
}
