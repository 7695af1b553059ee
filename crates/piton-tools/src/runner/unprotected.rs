//! Watches over what a sandbox protects while its command runs. A program outside can replace such a file, git for one, and the kernel
//! takes the mount that protected it away with the old one: from then on the command can change it.

use piton_sandbox::Sandbox;
use std::time::{Duration, Instant};

/// How often to look. It costs a few microseconds.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(super) struct Unprotected {
    look_at: Instant,
    said: Vec<String>,
}

impl Unprotected {
    pub(super) fn watch() -> Self {
        Self { look_at: Instant::now() + LOOK_EVERY, said: Vec::new() }
    }

    /// When to look next.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Looks, if it is time, and undoes what the command has made of it.
    pub(super) fn look_if_due(&mut self, sandbox: &Sandbox) {
        let now = Instant::now();
        if self.look_at <= now {
            self.said.extend(sandbox.inspect_replaced());
            self.look_at = now + LOOK_EVERY;
        }
    }

    /// What was done, a sentence each.
    pub(super) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}
