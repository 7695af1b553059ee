//! Which ignored files a snapshot covers nevertheless: a `.env` is covered, `node_modules` is not.

use crate::limits::{
    SNAPSHOT_IGNORED_BYTES, SNAPSHOT_IGNORED_ENTRIES, SNAPSHOT_IGNORED_LOOKS, SNAPSHOT_IGNORED_TOTAL_BYTES,
};

/// What may still be covered of all that is ignored. Spent in the order of the paths, so that the same workspace always
/// comes out the same.
#[derive(Debug)]
pub(super) struct Budget {
    looks: usize,
    bytes: u64,
}

/// What one ignored file or folder may use, and has.
#[derive(Debug)]
pub(super) struct Share<'b> {
    budget: &'b mut Budget,
    entries: usize,
    bytes: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { looks: SNAPSHOT_IGNORED_LOOKS, bytes: SNAPSHOT_IGNORED_TOTAL_BYTES }
    }

    pub(super) fn share(&mut self) -> Share<'_> {
        Share { budget: self, entries: 0, bytes: 0 }
    }
}

impl Share<'_> {
    /// Looks at another entry of this size; false if that is too much.
    #[must_use]
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let left = self.budget.looks > 0;
        self.budget.looks = self.budget.looks.saturating_sub(1);
        left && self.entries <= SNAPSHOT_IGNORED_ENTRIES
            && self.bytes <= SNAPSHOT_IGNORED_BYTES
            && self.bytes <= self.budget.bytes
    }

    /// It is covered.
    pub(super) fn keep(self) {
        self.budget.bytes -= self.bytes;
    }
}
