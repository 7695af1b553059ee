//! Dropping snapshots that nobody will go back to: those of removed sessions, and of sessions that were left alone for
//! long. Whatever a journal that cannot be read may need is not known, so then nothing is dropped.

use crate::engine::Engine;
use crate::store::StoreError;
use crate::store::sqlite::index::{IndexError, Query};
use crate::store::sqlite::{self, SessionDir};
use piton_core::event::{Event, Restore};
use piton_core::ids::TimeMs;
use piton_tools::private;
use piton_tools::snapshot::{SnapshotError, Snapshots, TreeId};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long the snapshots of a session are kept after it was last worked on, in milliseconds: thirty days. Feature work
/// comes back within weeks; after a month, what was undone would be somebody else's work.
pub const SNAPSHOTS_KEPT_MS: u64 = 30 * 24 * 3_600_000;
/// How often a workspace's snapshots are looked through.
pub const PRUNED_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Why nothing was dropped.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The sessions could not be listed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A session could not be read.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The store could not be pruned.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The note of when this was done last could not be written.
    #[error("cannot record when snapshots were last pruned")]
    Note(#[source] std::io::Error),
}

impl Engine {
    /// Drops what is not needed any more of a workspace's snapshots, and what is left of sessions that never came to be,
    /// unless that was done within the last day. Whether it was done.
    pub fn prune_snapshots(
        &self,
        workspace: &Path,
        snapshots: &Snapshots,
        now_ms: TimeMs,
    ) -> Result<bool, UpkeepError> {
        let note = self.snapshots_dir(workspace).with_extension("pruned");
        let age = std::fs::metadata(&note).and_then(|note| note.modified()).ok();
        let age = age.and_then(|pruned| SystemTime::now().duration_since(pruned).ok());
        if age.is_some_and(|age| age < PRUNED_EVERY) {
            return Ok(false);
        }
        let index = self.index()?;
        if !index.unreadable().is_empty() {
            return Ok(false);
        }
        let mut kept = BTreeSet::new();
        // Those of subagents, too, wherever they work below it.
        let query = Query { project: Some(workspace.to_owned()), with_children: true, ..Query::default() };
        for session in index.select(&query)?.into_iter().filter(|session| Path::new(&session.workspace) == workspace) {
            if session.updated_ms.saturating_add(SNAPSHOTS_KEPT_MS) >= now_ms {
                kept.extend(trees(&self.session_dir(&session.id))?);
            }
        }
        // A session that was moved, imported or left alone for long names some that are not in this store.
        let kept: Vec<TreeId> = snapshots.known(kept.iter().filter_map(|tree| tree.parse().ok()))?;
        snapshots.prune(&kept)?;
        private::write(&note, b"").map_err(UpkeepError::Note)?;
        sqlite::sweep(self.data_dir());
        Ok(true)
    }
}

/// Every state of the workspace that a session's journal names.
fn trees(dir: &SessionDir) -> Result<Vec<String>, StoreError> {
    let mut trees = Vec::new();
    for record in sqlite::of_kinds(dir, &["snapshot_taken", "rewind_started", "rewind_finished"])? {
        match record.event {
            Event::SnapshotTaken { tree, .. } => trees.extend(tree),
            Event::RewindStarted { was, .. } => trees.push(was),
            Event::RewindFinished { back: Some(Restore { from, to }), .. } => trees.extend([from, to]),
            _ => {}
        }
    }
    Ok(trees)
}
