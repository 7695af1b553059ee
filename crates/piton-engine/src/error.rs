//! Why a session could not be opened, or a request not be obeyed.

use crate::compaction::CompactError;
use crate::journal::JournalError;
use crate::rewind::RewindError;
use piton_core::client::Report;
use piton_core::event::{Decision, Subject};
use std::sync::Arc;

/// Why a session could not be opened or driven.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal could not be written while the session ran; nothing more is done in it. It can be resumed.
    #[error(transparent)]
    Broken(Arc<JournalError>),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
    /// A hook refused what was said. It is not on record.
    #[error("{}: {reason}", if hook.is_empty() { "the prompt was refused".to_owned() } else { format!("the hook {hook} refused the prompt") })]
    PromptRefused {
        /// Its name.
        hook: String,
        /// What it says.
        reason: String,
    },
    /// There is no turn to go on with.
    #[error("the session is at rest: there is no turn to go on with")]
    AtRest,
    /// The prompt was cancelled before hooks accepted it. Nothing was recorded.
    #[error("{}", .0.detail.as_deref().unwrap_or("the prompt was cancelled before hooks accepted it; nothing was recorded"))]
    NotBegun(Box<Report>),
    /// The question is not open: it was never asked, or has its answer.
    #[error("this question is not open")]
    NotOpen {
        /// Which question.
        subject: Subject,
        /// The answer that counts, where one was given.
        given: Option<Decision>,
    },
    /// This session does not know such a request.
    #[error("the session does not know this request: {0}")]
    Unknown(String),
    /// No turn was taken back or brought back.
    #[error(transparent)]
    Rewind(#[from] RewindError),
    /// No room was made.
    #[error(transparent)]
    Compact(#[from] CompactError),
}

impl From<EngineError> for CompactError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Compact(error) => error,
            EngineError::Broken(error) => Self::Broken(error),
            _ => Self::Closed,
        }
    }
}

impl From<EngineError> for RewindError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rewind(error) => error,
            EngineError::Broken(error) => Self::Broken(error),
            _ => Self::Closed,
        }
    }
}
