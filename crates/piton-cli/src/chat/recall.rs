//! Prompts from before, in a file that all sessions share.

use super::Chat;
use piton_tui::face::Input;
use piton_tui::history::{self, Entry};
use std::path::PathBuf;

impl Chat<'_> {
    /// Reads the prompts from before, for the face.
    pub(super) async fn recall(&self) {
        let path = self.history_file();
        if let Ok(entries) = tokio::task::spawn_blocking(move || history::load(&path)).await {
            self.terminal.tell(Input::History(entries));
        }
    }

    /// Keeps a prompt for later sessions. Nothing depends on it.
    pub(super) fn remember(&self, mut entry: Entry) {
        // The prompt that began the session was sent before that had an id.
        if let Some(id) = self.place.resumed().filter(|_| entry.session.is_empty()) {
            id.as_str().clone_into(&mut entry.session);
        }
        let path = self.history_file();
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = history::append(&path, &entry) {
                tracing::warn!("a prompt was not kept in {}: {error}", path.display());
            }
        }));
    }

    fn history_file(&self) -> PathBuf {
        self.around.machine.data_dir.join("prompts.jsonl")
    }
}
