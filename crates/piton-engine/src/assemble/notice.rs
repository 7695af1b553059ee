//! Notices: what the user should know about the assembled settings. The library collects them; the front end shows them.

use std::error::Error;
use std::fmt;

/// One thing to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// In these words.
    Told(String),
    /// So many things of the repository are ignored, since the user has not approved their current version.
    Ignored(usize),
}

impl Notice {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Told(text.into())
    }

    /// The same notices with what is ignored in one of them, the last.
    pub fn merged(notices: &[Self]) -> Vec<Self> {
        let told = notices.iter().filter(|notice| matches!(notice, Self::Told(_))).cloned();
        let ignored = notices.iter().map(|notice| match notice {
            Self::Told(_) => 0,
            Self::Ignored(count) => *count,
        });
        let ignored: usize = ignored.sum();
        told.chain((ignored > 0).then_some(Self::Ignored(ignored))).collect()
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told(text) => f.write_str(text),
            Self::Ignored(1) => f.write_str("1 thing of this repository is ignored until you approve it: piton trust"),
            Self::Ignored(count) => {
                write!(f, "{count} things of this repository are ignored until you approve them: piton trust")
            }
        }
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
