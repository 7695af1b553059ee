//! The same two marks for an act of this very process: a tool that is opaque but has no command to hand to a runner.
//!
//! ```text
//!   Act::claim ── None ──▶ somebody has settled the call: do nothing
//!       │
//!   the act
//!       │
//!   Act::ended ──▶ the exit record; who dies before it leaves an interrupted call
//! ```

use super::files::{CallFiles, Claim, ClaimedBy, Durably, HeldClaim};
use crate::executor::ExitRecord;
use std::io;
use std::path::Path;

/// A call whose claim is ours. Dropped before [`Act::ended`], it is found *interrupted* by whoever settles it.
#[derive(Debug)]
pub struct Act {
    files: CallFiles,
    held: HeldClaim,
}

impl Act {
    /// Takes the claim of the call whose files begin with `base`. `None` if it was taken before, by whomever: then the act
    /// must not be done.
    pub fn claim(base: &Path, by: Claim) -> io::Result<Option<Self>> {
        let files = CallFiles::new(base);
        let held = files.take_claim(&ClaimedBy::Runner(by))?;
        Ok(held.map(|held| Self { files, held }))
    }

    /// Says how it ended. Not synced: the caller's own record is, and a power cut before that leaves an interrupted call.
    pub fn ended(self, record: &ExitRecord) -> io::Result<()> {
        self.files.write_exit(record, &self.held, Durably::No)
    }
}
