//! What the model is told of skills and agents whose files change while a session is open. It goes by them as they were.

use piton_core::turn::State;
use std::fmt;
use std::sync::Arc;

/// Looks for skills and agents that are not as they were when the session was opened: a line for each. May read many files.
#[derive(Clone)]
pub struct EntriesChanged(Arc<dyn Fn() -> Vec<String> + Send + Sync>);

impl EntriesChanged {
    /// Looks so.
    pub fn new(look: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl fmt::Debug for EntriesChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntriesChanged").finish_non_exhaustive()
    }
}

/// What the model was told in this process.
#[derive(Debug, Default)]
pub(crate) struct EntryNotes {
    /// The turn in which it was looked last.
    turn: Option<u32>,
    told: Vec<String>,
}

impl EntryNotes {
    /// The model may not know any more what it was told.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }

    /// What it is to be told now: looked for once in a turn, and not in the first of a process, which begins with what there is.
    pub(crate) fn news(&mut self, changed: &EntriesChanged, session: &State) -> Option<String> {
        let before = self.turn.replace(session.turn());
        if before.is_none_or(|before| before == session.turn()) {
            return None;
        }
        let changes = (changed.0)();
        if changes.is_empty() || changes == self.told {
            return None;
        }
        let lines: Vec<String> = changes.iter().map(|line| format!("- {line}")).collect();
        self.told = changes;
        Some(format!(
            "Skills or agents have changed on the disk. This session goes by them as they were when it was opened; a file can be read \
             as it is now:\n{}",
            lines.join("\n")
        ))
    }
}
