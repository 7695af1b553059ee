//! Notices: what the user should know about the assembled settings. The library collects them; the front end shows them.

use std::error::Error;
use std::fmt;

/// One thing to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(String);

impl Notice {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    words
}
