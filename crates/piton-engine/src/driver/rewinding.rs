//! The driver's part in taking turns back, and bringing them back: files first, then the head.

use super::Driver;
use crate::context::Notes;
use crate::journal::JournalError;
use crate::rewind::{self, RewindError, Rewound};
use piton_core::event::{Event, Restore, Rewind};
use piton_core::turn::Session;
use piton_tools::snapshot::Snapshots;
use std::sync::Arc;

impl Driver {
    /// Does a rewind that was cut off, before anything else: files and words must not be at different places.
    pub(super) async fn finish_rewind(&mut self) -> Result<(), JournalError> {
        let Some((rewind, was)) = self.session.rewinding() else { return Ok(()) };
        let (rewind, was) = (rewind.clone(), was.to_owned());
        // Who can do nothing about it (no store of snapshots) leaves it to the next.
        drop(self.rewind(rewind, Some(was)).await?);
        Ok(())
    }

    /// Brings files and head to where a rewind wants them. `was`: the workspace before, where a cut rewind has noted it.
    pub(super) async fn rewind(
        &mut self,
        rewind: Rewind,
        was: Option<String>,
    ) -> Result<Result<Rewound, RewindError>, JournalError> {
        let (mut files, mut back) = (Vec::new(), None);
        if !rewind.files.is_empty() {
            let Some(snapshots) = self.settings.snapshots.clone() else { return Ok(Err(RewindError::NoStore)) };
            let look =
                |snapshots: Arc<Snapshots>| async move { blocking(move || Ok(snapshots.take()?.id.to_string())).await };
            let was = match was {
                Some(was) => was,
                None => match look(snapshots.clone()).await {
                    Ok(was) => {
                        self.record(Event::RewindStarted { rewind: rewind.clone(), was: was.clone() });
                        self.commit().await?;
                        was
                    }
                    Err(error) => return Ok(Err(error)),
                },
            };
            let (store, way) = (snapshots.clone(), rewind.clone());
            files = match blocking(move || rewind::restore(&store, &way, false)).await {
                Ok(files) => files,
                Err(error) => return Ok(Err(error)),
            };
            back = look(snapshots).await.ok().map(|now| Restore { from: now, to: was });
        }
        let left = rewind::left(&rewind, &files);
        let is_moved = rewind.to.is_some();
        self.record(Event::RewindFinished { rewind, left, back });
        self.commit().await?;
        if is_moved {
            let records = self.records()?;
            self.session = Session::fold(&records);
            self.notes = Notes::fold(&records, &self.ledger);
        }
        Ok(Ok(Rewound { files }))
    }
}

/// Work that waits for the disk, on a thread where that holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RewindError> + Send + 'static,
) -> Result<T, RewindError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RewindError::Closed))
}
