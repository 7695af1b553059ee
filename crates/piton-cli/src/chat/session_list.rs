//! The sessions to choose from: those of this folder or of all, renamed, thrown away and looked at in the list.

use super::{Chat, home_short};
use crate::commands::sessions::said;
use crate::failure::Result;
use crate::out::view;
use piton_core::ids::SessionId;
use piton_engine::store::sqlite::index::Query;
use piton_tui::face::{Deed, Input};
use piton_tui::picker::{Item, Purpose};
use std::path::Path;

/// Sessions that are offered to go on with.
const MOST_SESSIONS: usize = 200;

impl Chat<'_> {
    pub(super) fn pick_session(&mut self) {
        let found = self.sessions();
        match found {
            Ok(items) if items.is_empty() => self.note("there is no other session"),
            Ok(items) => {
                let title = if self.lists_all { "Go on with (all folders)" } else { "Go on with" }.to_owned();
                self.terminal.tell(Input::Choose { purpose: Purpose::Session, title, items });
            }
            Err(error) => self.fail(&error),
        }
    }

    /// The sessions that a prompt may refer to, for the face. Where they cannot be listed, `/sessions` says why.
    pub(super) fn offer_sessions(&self) {
        self.terminal.tell(Input::Sessions(self.sessions().unwrap_or_default()));
    }

    fn sessions(&self) -> Result<Vec<Item>> {
        let index = self.engine.index()?;
        let project = (!self.lists_all).then(|| self.folder().to_owned());
        let mut query = Query { project, limit: Some(MOST_SESSIONS), ..Query::default() };
        let mut found = index.select(&query)?;
        if found.is_empty() {
            query.project = None;
            found = index.select(&query)?;
        }
        let this = self.place.resumed();
        // Where sessions of several folders are listed, each says its own, so that words narrow them to one.
        let shows_folder = query.project.is_none();
        let item = |session: piton_engine::store::Summary| Item {
            label: if session.title.is_empty() { "(nothing said)".to_owned() } else { session.title.clone() },
            detail: format!(
                "{} · {} · {}{}",
                said::when(session.updated_ms),
                view::plural(session.turns.into(), "turn"),
                session.model.as_deref().unwrap_or("no model"),
                match shows_folder {
                    true => format!(" · {}", home_short(Path::new(&session.workspace), self.around)),
                    false => String::new(),
                }
            ),
            value: session.id.to_string(),
        };
        Ok(found.into_iter().filter(|session| this != Some(&session.id)).map(item).collect())
    }

    /// Does what is wanted of a session in the list. The list stays open.
    pub(super) async fn session_deed(&mut self, deed: Deed) {
        match deed {
            Deed::Rename(id, title) => self.told_by(&["session", "rename", &id, &title]).await,
            Deed::Trash(id) if self.place.resumed() == Some(&SessionId::from(id.as_str())) => {
                self.note("this session is open here; /new first");
            }
            Deed::Trash(id) => self.told_by(&["session", "rm", &id]).await,
            Deed::Show(id) => {
                let text = self.printed(&["session", "show", &id]).await;
                let title = "what was said in it".to_owned();
                self.terminal.tell(Input::Page { title, text, at_end: true });
            }
            Deed::OtherFolders => {
                self.lists_all = !self.lists_all;
                self.pick_session();
            }
        }
    }

    /// Does what a command of Piton does, and notes what it prints.
    pub(super) async fn told_by(&mut self, argv: &[&str]) {
        let said = self.printed(argv).await;
        if !said.trim().is_empty() {
            self.note(said);
        }
    }
}
