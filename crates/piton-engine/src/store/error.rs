//! Errors of a store, one variant per reaction of the caller.

use piton_core::ids::{Seq, SessionId};
use std::fmt;

/// Why a store could not do what was asked. One variant per thing the caller does about it. `at` names the file or the
/// table, for people.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process is the writer: follow it, or try again later.
    #[error("the session is in use by another Piton{holder}")]
    Busy {
        /// That process, where it has said who it is.
        holder: Holder,
    },
    /// Another process became the writer while this one was not looking: stop, and do nothing more for this session.
    #[error("another Piton has taken over the session; {kept}")]
    Fenced {
        /// What is safe.
        kept: Kept,
    },
    /// These events do not stand behind the last durable one: a mistake of the caller. None of them was written.
    #[error("event {seq} is out of order; {kept}")]
    Misplaced {
        /// The first of them.
        seq: Seq,
        /// What is safe.
        kept: Kept,
    },
    /// There is no such session.
    #[error("there is no session {at}")]
    NotFound {
        /// Where it was looked for.
        at: String,
    },
    /// There is a session of this id already.
    #[error("session {id} already exists; nothing was changed")]
    Taken {
        /// That id.
        id: SessionId,
    },
    /// What is stored is not what it should be. Nothing was changed; it can be repaired, or forked up to the damage.
    #[error("{at} is damaged: {why}; the file is unchanged")]
    Damaged {
        /// What is damaged.
        at: String,
        /// What is wrong with it.
        why: String,
    },
    /// A newer Piton wrote this: use that one.
    #[error("the session was written by a newer Piton (format {found}, this one knows {ours}); it is unchanged")]
    Newer {
        /// The version that was found.
        found: u32,
        /// The newest version this Piton knows.
        ours: u32,
    },
    /// The disk or the quota is full: make room, then append again.
    #[error("no space left to write {at}; {kept}")]
    Full {
        /// What could not grow.
        at: String,
        /// What is safe.
        kept: Kept,
    },
    /// It may not be written.
    #[error("{at} may not be written; {kept}")]
    ReadOnly {
        /// What may not be written.
        at: String,
        /// What is safe.
        kept: Kept,
    },
    /// The place knows no locks, so two processes could write the same session: keep sessions elsewhere.
    #[error(
        "the file system of {at} cannot lock files, and without a lock two Pitons could write the same session; nothing was changed"
    )]
    NoLocks {
        /// What should be locked.
        at: String,
    },
    /// Anything else between us and what is stored: try again.
    #[error("{at} could not be read or written; {kept}")]
    Io {
        /// What was read or written.
        at: String,
        /// What is safe.
        kept: Kept,
        /// What the system or the database said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// For what went wrong around the store rather than in it, such as a thread that could not be had.
    pub fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Io { at: "the journal".to_owned(), kept: Kept(0), source: source.into() }
    }
}

/// Who has a session open, in its own words where it has said any: `process 4711`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder(pub Option<String>);

impl fmt::Display for Holder {
    /// In brackets, behind "another Piton".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// The last event known to be durable; 0 when there is none, or when nothing was being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept(pub Seq);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("nothing was changed"),
            seq => write!(f, "everything up to event {seq} is safe"),
        }
    }
}
