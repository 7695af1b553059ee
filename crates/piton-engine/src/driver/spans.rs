//! The spans of the log: `session:turn:step`, with a span for each call of a model, each tool and each hook within them, and
//! `compaction` where the context is compacted. Where nobody keeps a log they cost next to nothing.

use piton_core::event::Event;
use tracing::{Span, info_span};

/// Those that are open, outermost first.
#[derive(Debug)]
pub(super) struct Spans {
    session: Span,
    turn: Option<Span>,
    step: Option<Span>,
    compaction: Option<Span>,
}

impl Spans {
    /// Only the one that we are in.
    pub(super) fn begin() -> Self {
        Self { session: Span::current(), turn: None, step: None, compaction: None }
    }

    /// The innermost.
    pub(super) fn now(&self) -> &Span {
        self.compaction.as_ref().or(self.step.as_ref()).or(self.turn.as_ref()).unwrap_or(&self.session)
    }

    /// Opens what begins with this event.
    pub(super) fn open(&mut self, event: &Event) {
        match event {
            Event::TurnStarted { turn, .. } => self.begin_turn(*turn),
            Event::StepStarted { step, .. } => {
                self.step = None;
                self.step = Some(info_span!(target: "piton", parent: self.now(), "step", step));
            }
            Event::CompactionStarted { trigger, .. } => {
                self.compaction = None;
                self.compaction = Some(info_span!(target: "piton", parent: self.now(), "compaction", ?trigger));
            }
            _ => {}
        }
    }

    /// A turn begins, or goes on.
    pub(super) fn begin_turn(&mut self, turn: u32) {
        (self.compaction, self.step, self.turn) = (None, None, None);
        self.turn = Some(info_span!(target: "piton", parent: &self.session, "turn", turn));
    }

    /// Closes what ends with this event.
    pub(super) fn close(&mut self, event: &Event) {
        match event {
            Event::CompactionFinished { .. }
            | Event::CompactionFailed { .. }
            | Event::ContextPruned { suffices: true, .. } => self.compaction = None,
            Event::TurnEnded { .. } => (self.compaction, self.step, self.turn) = (None, None, None),
            _ => {}
        }
    }
}
