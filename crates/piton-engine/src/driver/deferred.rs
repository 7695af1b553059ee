//! What clients ask for that takes its time and needs the session at rest: it reads the journal, touches files, or asks a
//! model. Meanwhile all that is asked is put off.

use super::Driver;
use super::watch::Watch;
use crate::compaction;
use crate::context::Notes;
use crate::error::{CompactError, EngineError, RewindError};
use crate::jobs::{self, AtRest, BeforeSummary, RewindEnd};
use crate::rewind;
use crate::store::StoreError;
use piton_core::client::{Compact, Compacted, Reply, Request, Rewound};
use piton_core::event::{Event, Rewind, Trigger};
use piton_core::hook::HookPoint;
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
            Request::Compact(compact) => {
                let done = self.compact(compact).await;
                done.map(|done| done.map(Reply::Compacted).map_err(EngineError::from))
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
            self.memory.notes = Notes::fold(&records, &self.services.ledger);
        }
        Ok(())
    }

    /// Makes room because a person wants it.
    async fn compact(&mut self, wanted: Compact) -> Result<Result<Compacted, CompactError>, StoreError> {
        let events = match jobs::summary_at_rest(&wanted, &mut self.context()) {
            Ok(AtRest::Record(event)) => vec![*event],
            Ok(AtRest::Ask(asked)) => match self.ask_for_summary(*asked, wanted.focus).await? {
                Ok(events) => events,
                Err(refused) => return Ok(Err(refused)),
            },
            Err(why) => return Ok(Err(why)),
        };
        let done = events.last().map_or(Err(CompactError::Nothing), jobs::compacted);
        // Nobody is obeyed before this is durable: what was paid for must not be lost to words that came meanwhile.
        self.record_all(events);
        self.commit().await?;
        Ok(done)
    }

    /// The events that asking for a summary ends in, or why nobody was asked.
    async fn ask_for_summary(
        &mut self,
        asked: compaction::Task,
        focus: Option<String>,
    ) -> Result<Result<Vec<Event>, CompactError>, StoreError> {
        if self.services.hooks.want(HookPoint::BeforeCompaction) {
            let seen = jobs::before_summary(&self.context());
            let Some(BeforeSummary { gated, refused }) = self.requests.unless_stopped(seen).await else {
                return Ok(Err(CompactError::Failed(jobs::STOPPED.to_owned())));
            };
            let ran = self.context().ran(gated);
            self.record_all(ran);
            if let Some(why) = refused {
                return Ok(Err(CompactError::Failed(why)));
            }
        }
        self.record(Event::CompactionStarted { trigger: Trigger::Asked, focus, lost: None });
        self.commit().await?;
        let (work, cut) = jobs::summary_task(Trigger::Asked, asked, &self.context()).into_parts();
        let end = self.requests.unless_stopped(work).await.unwrap_or(cut);
        Ok(Ok(end(&mut self.context())))
    }
}
