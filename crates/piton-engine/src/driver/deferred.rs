//! What clients ask for that needs the session at rest, and reads the journal or touches files. Whatever is asked meanwhile
//! waits in the inbox.

use super::Driver;
use super::watch::Watch;
use crate::context::Notes;
use crate::error::{EngineError, RewindError};
use crate::jobs::{self, Frames, RewindEnd};
use crate::rewind;
use crate::store::StoreError;
use piton_core::client::{Reply, Request, Rewound};
use piton_core::event::{Event, Rewind};
use piton_core::turn::State;
use piton_tools::snapshot::Restored;
use std::sync::Arc;

impl Driver {
    /// Does what was asked for at rest.
    pub(super) async fn run_deferred(&mut self) -> Result<(), Arc<StoreError>> {
        let Some((request, asker)) = self.requests.take_deferred() else { return Ok(()) };
        let done = match request {
            Request::Plan { direction, turns, scope } => {
                let records = self.services.stored.records().await?;
                let (session, snapshots) = (self.session.clone(), self.services.settings.snapshots.clone());
                let plan = move || rewind::plan(&records, &session, snapshots.as_deref(), direction, turns, scope);
                let plan = rewind::blocking(plan).await.map(Box::new);
                Ok(plan.map(Reply::Planned).map_err(EngineError::from))
            }
            Request::Rewind { rewind } => {
                self.rewind(rewind).await.map(|done| done.map(Reply::Rewound).map_err(EngineError::from))
            }
            _ => return Ok(()),
        };
        let done = done.map_err(Arc::new);
        let failed = done.as_ref().err().map(Arc::clone);
        asker.answer(done.unwrap_or_else(|error| Err(EngineError::Broken(error))));
        failed.map_or(Ok(()), Err)
    }

    /// Brings files and head to where a rewind wants them.
    async fn rewind(&mut self, rewind: Rewind) -> Result<Result<Rewound, RewindError>, StoreError> {
        let begun = match jobs::begin_rewind(rewind, &self.context()).await {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        self.end_rewind(begun).await?;
        let Some(rewinding) = self.session.rewinding().cloned() else {
            return Ok(Ok(Rewound { files: Restored::default() }));
        };
        let RewindEnd { event, files } = jobs::finish_rewind(rewinding, &self.context()).await;
        self.end_rewind(event).await?;
        Ok(files.map(|files| Rewound { files }))
    }

    /// Makes a half of a rewind durable; where it has moved the head, goes on from there.
    pub(super) async fn end_rewind(&mut self, event: Event) -> Result<(), StoreError> {
        let is_moved = matches!(&event, Event::RewindFinished { rewind, .. } if rewind.to.is_some());
        self.record(event);
        self.commit().await?;
        if is_moved {
            let records = self.services.stored.records().await?;
            self.session = State::fold(&records);
            self.watch = Watch::new(&self.session);
            self.memory.frames = Frames::of(&self.services.settings, &self.session);
            self.memory.notes = Notes::fold(&records, &self.services.ledger);
        }
        Ok(())
    }
}
