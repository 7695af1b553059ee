//! Whether anybody looks after a command in the background: the Piton that started it, whose end closes our standard input, or
//! one that has opened the session since and left its name.

use super::files::CallFiles;
use super::processes::lives;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// How often to look, once whoever started the command is gone.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Who looks after a command.
pub(super) struct Attended {
    files: CallFiles,
    patience: Duration,
    /// Whoever started it is gone.
    is_orphan: bool,
    /// Since when nobody looks after it.
    alone_since: Option<Instant>,
}

impl Attended {
    pub(super) fn new(files: &CallFiles, unattended_ms: u64) -> Self {
        let patience = Duration::from_millis(unattended_ms);
        Self { files: files.clone(), patience, is_orphan: false, alone_since: None }
    }

    /// Whether it was left alone for too long. Called every [`LOOK_EVERY`].
    pub(super) fn is_abandoned(&mut self, now: Instant) -> bool {
        self.is_orphan |= is_closed();
        let is_alone =
            self.is_orphan && !self.files.is_kept() && !self.files.owned_by().is_some_and(|owner| lives(&owner));
        self.alone_since = if is_alone { self.alone_since.or(Some(now)) } else { None };
        self.alone_since.is_some_and(|since| now.duration_since(since) >= self.patience)
    }
}

/// Whoever gives us orders says nothing while a command runs, so what can be read is the end.
fn is_closed() -> bool {
    let stdin = rustix::stdio::stdin();
    let at_once = Timespec::try_from(Duration::ZERO).ok();
    poll(&mut [PollFd::new(&stdin, PollFlags::IN)], at_once.as_ref()).is_ok_and(|ready| ready > 0)
}
