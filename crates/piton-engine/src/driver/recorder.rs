//! The one way into the journal: numbers events, keeps them until they are durable, and tells the listeners then.

use super::spans::Spans;
use crate::bus::Bus;
use crate::store::{Log, StoreError};
use piton_core::event::{Event, Record};
use piton_core::ids::{Seq, TimeMs};
use piton_core::turn::State;
use std::sync::Arc;
use tracing::Span;

pub(super) struct Recorder {
    log: Box<dyn Log>,
    /// Recorded but not yet committed, hence not yet published.
    staged: Vec<Arc<Record>>,
    /// What the log for developers is told in.
    spans: Spans,
}

impl Recorder {
    pub(super) fn new(log: Box<dyn Log>, staged: Vec<Arc<Record>>) -> Self {
        Self { log, staged, spans: Spans::begin() }
    }

    /// From here on, in the span that we are in.
    pub(super) fn begin(&mut self) {
        self.spans = Spans::begin();
        self.staged.iter().for_each(|record| log(record));
    }

    /// The turn that was under way goes on.
    pub(super) fn resume_turn(&mut self, turn: u32) {
        self.spans.begin_turn(turn);
    }

    /// The innermost span.
    pub(super) fn span(&self) -> Span {
        self.spans.now().clone()
    }

    /// Gives an event its place.
    pub(super) fn stage(&mut self, event: Event, at_ms: TimeMs) -> Arc<Record> {
        let seq = self.last_seq() + 1;
        let record = Arc::new(Record { seq, at_ms, event });
        self.spans.open(&record.event);
        self.spans.now().in_scope(|| log(&record));
        self.spans.close(&record.event);
        self.staged.push(Arc::clone(&record));
        record
    }

    /// Whether there is something to make durable, and all of it could be had again.
    pub(super) fn holds_only_repeatable(&self) -> bool {
        let is_unique = |record: &Arc<Record>| {
            matches!(
                record.event,
                Event::UserSpoke { .. }
                    | Event::UserRan { .. }
                    | Event::MessageUnqueued { .. }
                    | Event::MessageMoved { .. }
                    | Event::ApprovalGiven { .. }
                    | Event::MessageFinished { .. }
                    | Event::MessageCut { .. }
                    | Event::ModelFailed { .. }
                    | Event::ServerSampled { .. }
                    | Event::CompactionFinished { .. }
                    | Event::CompactionFailed { .. }
            )
        };
        !self.staged.is_empty() && !self.staged.iter().any(is_unique)
    }

    /// The place of the last event.
    pub(super) fn last_seq(&self) -> Seq {
        self.log.head() + self.staged.len() as Seq
    }

    /// Makes everything recorded durable, then tells the listeners.
    pub(super) async fn commit(&mut self, bus: &Bus, session: &State) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.log.append(&self.staged).await?;
        bus.recorded(self.staged.drain(..), session);
        Ok(())
    }

    /// Leaves the journal in good order.
    pub(super) async fn close(mut self, bus: &Bus, session: &State, at_ms: TimeMs) {
        if self.last_seq() > 0 {
            self.stage(Event::WriterClosed {}, at_ms);
        }
        // Best effort: what was committed before is safe in any case.
        if self.log.close(&self.staged).await.is_ok() {
            bus.recorded(self.staged.drain(..), session);
        }
    }
}

/// Of what is on record the log has the kind only.
fn log(record: &Record) {
    tracing::debug!(target: "piton::journal", seq = record.seq, "{}", record.event.kind());
}
