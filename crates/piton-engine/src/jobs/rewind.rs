//! Taking turns back, and bringing them back: files first, then the head. It is done at rest, in two halves, since the
//! first has to be durable before a file changes.
//!
//! After a restart the second half is done again, before anything else: files and words must not be at different places.
//! Where it cannot be done it is given up ([`Event::RewindAbandoned`]): whatever moves next would be lost if it were done
//! later. A cancel waits for it. A panic counts as files that cannot be restored.

use super::JobContext;
use crate::rewind::{self, RewindError};
use piton_core::event::{Event, Restore, Rewind};
use piton_core::turn::Rewinding;
use piton_tools::snapshot::Restored;
use std::path::Path;

/// What became of a rewind.
pub(crate) struct RewindEnd {
    /// What is recorded of it.
    pub(crate) event: Event,
    pub(crate) files: Result<Restored, RewindError>,
}

/// What is recorded first: that it begins, or, where no file is concerned, that it is done.
pub(crate) async fn begin_rewind(rewind: Rewind, cx: &JobContext<'_>) -> Result<Event, RewindError> {
    if rewind.files.is_empty() {
        return Ok(finished(rewind, &Restored::default(), None));
    }
    let snapshots = cx.services.settings.snapshots.clone().ok_or(RewindError::NoStore)?;
    let way = rewind.clone();
    let look = move || {
        let touches = rewind::touched(&rewind::foresee(&snapshots, &way)?);
        Ok((snapshots.take()?.id.to_string(), touches))
    };
    let (was, touches) = rewind::blocking(look).await?;
    Ok(Event::RewindStarted { rewind, was, touches })
}

/// Brings the files of a rewind that is on record as begun to where they shall be.
pub(crate) async fn finish_rewind(rewinding: Rewinding, cx: &JobContext<'_>) -> RewindEnd {
    let Rewinding { rewind, was, touches } = rewinding;
    let snapshots = &cx.services.settings.snapshots;
    let (store, way, began) = (snapshots.clone(), rewind.clone(), was.clone());
    let restore = move || {
        let store = store.ok_or(RewindError::NoStore)?;
        let files = rewind::restore(&store, &way, &began)?;
        let now = store.take().ok().map(|now| now.id.to_string());
        Ok((files, now))
    };
    match rewind::blocking(restore).await {
        Ok((files, now)) => {
            let back = now.map(|from| Restore { from, to: was });
            RewindEnd { event: finished(rewind, &files, back), files: Ok(files) }
        }
        Err(error) => {
            if let Some(snapshots) = snapshots {
                snapshots.clear(touches.paths.iter().map(Path::new));
            }
            let event = Event::RewindAbandoned { rewind, error: rewind::in_words(&error), touches };
            RewindEnd { event, files: Err(RewindError::Abandoned(Box::new(error))) }
        }
    }
}

fn finished(rewind: Rewind, files: &Restored, back: Option<Restore>) -> Event {
    let left = rewind::left(&rewind, files);
    Event::RewindFinished { rewind, left, back }
}
