//! Taking turns back, and bringing them back: files first, then the head. It is done at rest, in two halves, since the
//! first has to be durable before a file changes.
//!
//! After a restart the second half is done again, before anything else: files and words must not be at different places.
//! Where it cannot be done it is given up ([`Event::RewindAbandoned`]): whatever moves next would be lost if it were done
//! later. A cancel drops the first half, and waits for the second. A panic counts as files that cannot be restored.

use super::{JobContext, Task};
use crate::rewind::{self, RewindError};
use piton_core::event::{Event, Restore, Rewind};
use piton_core::turn::Rewinding;
use piton_tools::snapshot::{Restored, Snapshots};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where it arrives what came of a rewind, by the end of its last half.
pub(crate) type Rewinds = oneshot::Receiver<Result<Restored, RewindError>>;

/// What became of a rewind.
pub(crate) struct RewindEnd {
    /// What is recorded of it.
    pub(crate) event: Event,
    pub(crate) files: Result<Restored, RewindError>,
}

/// The first half, with what is recorded first: that it begins, or, where no file is concerned, that it is done.
pub(crate) fn begin_rewind(rewind: Rewind, cx: &JobContext<'_>) -> (Task, Rewinds) {
    let (done, arriving) = oneshot::channel();
    let snapshots = cx.services.settings.snapshots.clone();
    let ended = |begun: Result<Event, RewindError>, _: &mut JobContext<'_>| {
        let (event, files) = match begun {
            Ok(event @ Event::RewindStarted { .. }) => return vec![event],
            Ok(event) => (Some(event), Ok(Restored::default())),
            Err(error) => (None, Err(error)),
        };
        // Whoever waited for it may have left.
        drop(done.send(files));
        event.into_iter().collect()
    };
    (Task::new(begun(rewind, snapshots), ended), arriving)
}

/// The second half of a rewind that is on record as begun.
pub(crate) fn finish_rewind(rewinding: Rewinding, cx: &JobContext<'_>) -> (Task, Rewinds) {
    let (done, arriving) = oneshot::channel();
    let Rewinding { rewind, touches, .. } = rewinding.clone();
    let task = Task::new(finished_files(rewinding, cx), |RewindEnd { event, files }, _| {
        drop(done.send(files));
        vec![event]
    });
    let broken = move |why: &str, _: &mut JobContext<'_>| {
        vec![Event::RewindAbandoned { rewind, error: why.to_owned(), touches }]
    };
    (task.when_broken(broken), arriving)
}

async fn begun(rewind: Rewind, snapshots: Option<Arc<Snapshots>>) -> Result<Event, RewindError> {
    if rewind.files.is_empty() {
        return Ok(finished(rewind, &Restored::default(), None));
    }
    let snapshots = snapshots.ok_or(RewindError::NoStore)?;
    let way = rewind.clone();
    let look = move || {
        let touches = rewind::touched(&rewind::foresee(&snapshots, &way)?);
        Ok((snapshots.take()?.id.to_string(), touches))
    };
    let (was, touches) = rewind::blocking(look).await?;
    Ok(Event::RewindStarted { rewind, was, touches })
}

/// Brings the files of a rewind that is on record as begun to where they shall be.
pub(crate) fn finished_files(
    rewinding: Rewinding,
    cx: &JobContext<'_>,
) -> impl Future<Output = RewindEnd> + Send + use<> {
    restored(rewinding, cx.services.settings.snapshots.clone())
}

async fn restored(rewinding: Rewinding, snapshots: Option<Arc<Snapshots>>) -> RewindEnd {
    let Rewinding { rewind, was, touches } = rewinding;
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
