//! Where a session's files lie. Only names: nothing here touches the disk.

use crate::store::Store;
use piton_core::ids::SessionId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDir {
    root: PathBuf,
}

impl SessionDir {
    /// The folder of this session among all sessions. The id is one of ours (`ses_…`), never a path.
    pub fn new(sessions_root: &Path, session: &SessionId) -> Self {
        Self { root: sessions_root.join(session.as_str()) }
    }

    /// The folder of a session that this store keeps on disk.
    pub fn of(store: &Arc<dyn Store>, session: &SessionId) -> Self {
        Self { root: store.scratch(session) }
    }

    /// The session whose folder this is; `None` where there is none.
    pub(crate) fn at(root: &Path) -> Option<Self> {
        let dir = Self { root: root.to_owned() };
        dir.journal_db().is_file().then_some(dir)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database of events and projections.
    pub fn journal_db(&self) -> PathBuf {
        self.root.join("journal.db")
    }

    /// The file whose lock makes a process the writer.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The socket at which the writer listens to other processes.
    pub fn control_sock(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// Claims, outputs and exit records of tool calls. May not exist.
    pub fn calls(&self) -> PathBuf {
        self.root.join("calls")
    }

    /// Bodies of events that are too large for the database, by their BLAKE3 hash. May not exist.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// What has streamed of a reply in the making, for a reader after a crash. May not exist.
    pub fn partial(&self) -> PathBuf {
        self.root.join("partial")
    }
}
