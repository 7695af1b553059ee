//! Undo and redo between turns. Each half of a rewind is a job at the front of the line, and is durable before what follows it.

use super::Driver;
use super::line::Waiting;
use crate::context::Notes;
use crate::error::{EngineError, RewindError};
use crate::inbox::Asker;
use crate::jobs::{Frames, Key, Rewinds, SideJob, begin_rewind, finish_rewind};
use crate::store::StoreError;
use piton_core::client::{Reply, Rewound};
use piton_core::event::{Event, Rewind};
use piton_core::turn::State;

impl Driver {
    /// Whether a rewind is on record that has no end there yet. Nothing stops it.
    pub(super) fn is_rewinding(&self) -> bool {
        self.session.rewinding().is_some()
    }

    /// Starts the half of the rewind at the front that comes next. Returns where its outcome arrives.
    pub(super) fn start_rewind(&mut self, rewind: Rewind) -> Rewinds {
        let (task, arriving) = match self.session.rewinding().cloned() {
            None => begin_rewind(rewind, &self.context()),
            Some(rewinding) => finish_rewind(rewinding, &self.context()),
        };
        self.jobs.put_ready(Key::Side(SideJob::Line), task);
        arriving
    }

    /// A half of the rewind at the front is done.
    pub(super) async fn rewind_moved(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        for event in events {
            self.end_rewind(event).await?;
        }
        if self.is_rewinding() {
            return Ok(());
        }
        if let Some(Waiting::Rewind { arriving, asker, .. }) = self.line.pop() {
            let done = arriving.and_then(|mut arriving| arriving.try_recv().ok());
            let files = done.unwrap_or(Err(RewindError::Closed));
            asker.answer(files.map(|files| Reply::Rewound(Rewound { files })).map_err(EngineError::from));
        }
        Ok(())
    }

    /// Makes a half of a rewind durable; where it has moved the head, goes on from there.
    pub(super) async fn end_rewind(&mut self, event: Event) -> Result<(), StoreError> {
        let is_moved = matches!(&event, Event::RewindFinished { rewind, .. } if rewind.to.is_some());
        self.record(event);
        self.commit().await?;
        if is_moved {
            let records = self.services.stored.records().await?;
            self.session = State::fold(&records);
            self.watch.rewound(&self.session);
            self.memory.frames = Frames::of(&self.services.settings, &self.session);
            self.memory.notes = Notes::fold(&records, &self.services.ledger);
        }
        Ok(())
    }

    /// Refuses a rewind or a look at one where a turn is under way, or about to be.
    pub(super) fn queue_rewind(&mut self, waiting: Waiting, asker: &Asker) {
        let is_at_rest = self.session.is_at_rest() && self.line.prompts() == 0;
        match self.session.shell().is_open() {
            _ if !is_at_rest => asker.refuse(RewindError::MidTurn),
            true => asker.refuse(RewindError::Shell),
            false => self.queue(waiting),
        }
    }
}
