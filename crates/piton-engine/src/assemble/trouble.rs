//! Failures of the outside world (a file, a program, the keyring) that a caller can only report.

use std::error::Error;

/// What failed, in words, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Trouble {
    what: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Trouble {
    /// Trouble without a cause of its own.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }
}

/// Says what was tried when something failed or is missing.
pub(crate) trait Context<T> {
    /// With these words.
    fn context(self, what: impl Into<String>) -> Result<T, Trouble>;

    /// With words that are only made where they are needed.
    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, Trouble>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T, Trouble> {
        self.map_err(|error| Trouble { what: what.into(), source: Some(error.into()) })
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, Trouble> {
        self.map_err(|error| Trouble { what: what().into(), source: Some(error.into()) })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Into<String>) -> Result<T, Trouble> {
        self.ok_or_else(|| Trouble::new(what))
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, Trouble> {
        self.ok_or_else(|| Trouble::new(what()))
    }
}

/// Fails with these words unless the condition holds.
pub(crate) fn ensure<W: Into<String>>(holds: bool, what: impl FnOnce() -> W) -> Result<(), Trouble> {
    if holds { Ok(()) } else { Err(Trouble::new(what())) }
}
