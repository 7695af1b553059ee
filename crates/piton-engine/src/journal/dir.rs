//! Where a session's files lie. Only names: nothing here touches the disk.

use piton_core::ids::SessionId;
use std::path::{Path, PathBuf};

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

    /// The session whose folder this is; `None` where there is none.
    pub(crate) fn at(root: &Path) -> Option<Self> {
        let dir = Self { root: root.to_owned() };
        dir.journal_db().is_file().then_some(dir)
    }

    /// The session that the folder is named for.
    pub(crate) fn id(&self) -> SessionId {
        SessionId(self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// The folder of another session, beside this one.
    pub(crate) fn beside(&self, session: &SessionId) -> Self {
        Self { root: self.root.with_file_name(session.as_str()) }
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
