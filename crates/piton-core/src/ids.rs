//! Identifiers. All are made outside the core (it has no clock and no randomness) and sort by creation.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

id!(
    /// One durable conversation: `ses_` and a UUID v7 in hex, so ids sort by creation.
    SessionId
);
impl SessionId {
    /// Whether it is one of Piton's, and may name a folder: `ses_`, then letters and digits.
    pub fn is_sound(&self) -> bool {
        let rest = self.0.strip_prefix("ses_").unwrap_or_default();
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }
}

id!(
    /// One user message, unique within its session; a client that repeats one is not heard twice.
    MessageId
);
id!(
    /// One tool call, unique within its session whatever the provider sent: `c<step>_<position>`.
    /// It is also the file name of the call's claim, output and exit record.
    CallId
);

impl MessageId {
    /// What a subagent is told by this call of this session: the same whenever it is told again, so that it is heard once.
    pub fn of_call(session: &SessionId, call: &str) -> Self {
        Self(format!("msg_{session}_{call}"))
    }
}

/// A position in a session's journal. The first event is 1; there are no gaps.
pub type Seq = u64;

/// Milliseconds since the Unix epoch, as read by whoever appends the event.
pub type TimeMs = u64;
