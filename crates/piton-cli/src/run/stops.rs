//! The signals that mean "stop", and how a run that heard them is left.

use crate::failure::{Context, Result};
use crate::out::report;
use piton_core::event::TurnEnd;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the waiting line moves.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The signals that mean "stop".
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// The last that came.
    came: Option<Stop>,
}

/// A signal that came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// Whether it, or one before it, came from outside (SIGTERM, SIGHUP) rather than from the keyboard.
    pub(crate) by_term: bool,
    /// Whether the terminal is gone (SIGHUP).
    pub(crate) is_hang_up: bool,
    /// Whether one came before it: the second time is meant, and nothing is waited for any more.
    pub(crate) is_again: bool,
}

/// How a run ended.
pub(crate) struct Over {
    pub(crate) code: u8,
    /// Whether a signal came while it was being left.
    pub(crate) is_in_haste: bool,
}

impl Stops {
    pub(crate) fn listen() -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
            came: None,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Stop {
        let (by_term, is_hang_up) = tokio::select! {
            _ = self.interrupt.recv() => (false, false),
            _ = self.terminate.recv() => (true, false),
            _ = self.hang_up.recv() => (true, true),
        };
        let by_term = by_term || self.came.is_some_and(|before| before.by_term);
        let stop = Stop { by_term, is_hang_up, is_again: self.came.is_some() };
        *self.came.insert(stop)
    }

    /// Does what is left to do when all is told and on record, until the first signal: nobody need wait for hooks, a
    /// title or a collector then. The signal, if one came.
    pub(crate) async fn unless_stopped(&mut self, leaving: impl Future<Output = ()>) -> Option<Stop> {
        tokio::select! {
            biased;
            stop = self.next() => Some(stop),
            () = leaving => None,
        }
    }
}

impl Stop {
    /// The exit code of whoever was stopped by it.
    pub(crate) fn code(self) -> u8 {
        if self.by_term { report::EXIT_TERMINATED } else { report::exit_code(TurnEnd::Canceled) }
    }
}

impl Over {
    pub(crate) fn with(code: u8) -> Self {
        Self { code, is_in_haste: false }
    }

    /// With what became of [`Stops::unless_stopped`].
    pub(crate) fn left(code: u8, stopped: Option<Stop>) -> Self {
        let by_term = stopped.is_some_and(|stop| stop.by_term);
        Self { code: if by_term { report::EXIT_TERMINATED } else { code }, is_in_haste: stopped.is_some() }
    }

    /// At once: it was told to stop twice.
    pub(crate) fn at_once(stop: Stop) -> Self {
        Self { code: stop.code(), is_in_haste: true }
    }
}
