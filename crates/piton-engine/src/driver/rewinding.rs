//! The driver's part in taking turns back, and bringing them back: files first, then the head.

use super::Driver;
use crate::context::Notes;
use crate::rewind::{self, RewindError};
use crate::store::StoreError;
use piton_core::client::Rewound;
use piton_core::event::{Event, Restore, Rewind};
use piton_core::turn::{Rewinding, State};
use piton_tools::snapshot::Restored;
use std::path::Path;

impl Driver {
    /// Does a rewind that was cut off, before anything else: files and words must not be at different places. One that
    /// cannot be done is ended as it is: whatever moves next would be lost if it were done later.
    pub(super) async fn finish_rewind(&mut self) -> Result<(), StoreError> {
        let Some(rewinding) = self.session.rewinding().cloned() else { return Ok(()) };
        // What came of it is on record.
        drop(self.bring_back(rewinding).await?);
        Ok(())
    }

    /// Brings files and head to where a rewind wants them.
    pub(super) async fn rewind(&mut self, rewind: Rewind) -> Result<Result<Rewound, RewindError>, StoreError> {
        if rewind.files.is_empty() {
            return self.rewound(rewind, Restored::default(), None).await.map(Ok);
        }
        let Some(snapshots) = self.settings.snapshots.clone() else { return Ok(Err(RewindError::NoStore)) };
        let way = rewind.clone();
        let look = move || {
            let touches = rewind::touched(&rewind::foresee(&snapshots, &way)?);
            Ok((snapshots.take()?.id.to_string(), touches))
        };
        let (was, touches) = match blocking(look).await {
            Ok(seen) => seen,
            Err(error) => return Ok(Err(error)),
        };
        self.record(Event::RewindStarted { rewind: rewind.clone(), was: was.clone(), touches: touches.clone() });
        self.commit().await?;
        self.bring_back(Rewinding { rewind, was, touches }).await
    }

    /// Brings the files of a rewind that is on record as begun to where they shall be, and ends it.
    async fn bring_back(&mut self, rewinding: Rewinding) -> Result<Result<Rewound, RewindError>, StoreError> {
        let Rewinding { rewind, was, touches } = rewinding;
        let (store, way, began) = (self.settings.snapshots.clone(), rewind.clone(), was.clone());
        let restore = move || {
            let store = store.ok_or(RewindError::NoStore)?;
            let files = rewind::restore(&store, &way, &began)?;
            let now = store.take().ok().map(|now| now.id.to_string());
            Ok((files, now))
        };
        match blocking(restore).await {
            Ok((files, now)) => {
                let back = now.map(|from| Restore { from, to: was });
                self.rewound(rewind, files, back).await.map(Ok)
            }
            Err(error) => {
                if let Some(snapshots) = &self.settings.snapshots {
                    snapshots.clear(touches.paths.iter().map(Path::new));
                }
                self.record(Event::RewindAbandoned { rewind, error: rewind::in_words(&error), touches });
                self.commit().await?;
                Ok(Err(RewindError::Abandoned(Box::new(error))))
            }
        }
    }

    /// Moves the head, and goes on from there.
    async fn rewound(&mut self, rewind: Rewind, files: Restored, back: Option<Restore>) -> Result<Rewound, StoreError> {
        let left = rewind::left(&rewind, &files);
        let is_moved = rewind.to.is_some();
        self.record(Event::RewindFinished { rewind, left, back });
        self.commit().await?;
        if is_moved {
            let records = self.records().await?;
            self.session = State::fold(&records);
            self.notes = Notes::fold(&records, &self.ledger);
        }
        Ok(Rewound { files })
    }
}

/// Work that waits for the disk, on a thread where that holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RewindError> + Send + 'static,
) -> Result<T, RewindError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RewindError::Closed))
}
