//! The time a turn was under way, over all processes that worked on it: what its budget of time counts.

use crate::ids::TimeMs;

/// Told by the records alone. A killed process does not say when it ended, so its time ends with its last record, and the
/// time until another process resumes the turn does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// What earlier processes used.
    before_ms: u64,
    /// Since when this process has the turn, and its last record. `None`: it was not resumed yet.
    running: Option<(TimeMs, TimeMs)>,
}

impl Clock {
    pub(super) fn started(now_ms: TimeMs) -> Self {
        Self { before_ms: 0, running: Some((now_ms, now_ms)) }
    }

    /// The process that has the turn recorded something.
    pub(super) fn hear(&mut self, at_ms: TimeMs) {
        if let Some((_, last_ms)) = &mut self.running {
            *last_ms = at_ms.max(*last_ms);
        }
    }

    /// The process that had the turn is gone.
    pub(super) fn stop(&mut self) {
        if let Some((from_ms, last_ms)) = self.running.take() {
            self.before_ms = self.before_ms.saturating_add(last_ms.saturating_sub(from_ms));
        }
    }

    /// Another process resumes the turn.
    pub(super) fn resume(&mut self, now_ms: TimeMs) {
        self.stop();
        self.running = Some((now_ms, now_ms));
    }

    pub(super) fn used_ms(&self, now_ms: TimeMs) -> u64 {
        let here = self.running.map_or(0, |(from_ms, _)| now_ms.saturating_sub(from_ms));
        self.before_ms.saturating_add(here)
    }

    /// When this much is used. `None`: the clock stands.
    pub(super) fn deadline_ms(&self, most_ms: u64) -> Option<TimeMs> {
        let (from_ms, _) = self.running?;
        Some(from_ms.saturating_add(most_ms.saturating_sub(self.before_ms)))
    }
}
