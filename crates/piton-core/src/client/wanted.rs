//! What a session wants from its clients, like the requests that an agent sends to its client in the Agent Client
//! Protocol. An approval is the first kind.
//!
//! ```text
//!   Published::Wanted ──► every client that listens
//!        Request::Answer ◄── one of them: the first durable answer counts
//!   Published::Withdrawn ──► the others, also if no answer is wanted any more
//! ```
//!
//! A client that connects late gets everything that is still wanted. To add a kind, add a variant to [`Want`], and one for its
//! answer to [`crate::client::Request`].

use crate::event::Subject;
use crate::question::{Decision, Question};
use serde::{Deserialize, Serialize};

/// Something that the session cannot go on without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Identifies it until it is withdrawn.
    pub subject: Subject,
    /// What it is.
    #[serde(flatten)]
    pub want: Want,
}

/// What clients can provide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Want {
    /// A person's answer to this question.
    Approval(Box<Question>),
}

/// An answer to an open question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Which question.
    pub subject: Subject,
    /// The answer.
    pub decision: Decision,
    /// [`Question::shown`] of the answered question. If another question is open under the same subject by now, the answer
    /// is refused. Without this field, the answer counts for whichever question is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

impl Wanted {
    /// The question, if an approval is wanted.
    pub fn question(&self) -> Option<&Question> {
        let Want::Approval(question) = &self.want;
        Some(question)
    }

    /// An answer to exactly this question.
    pub fn answer(&self, decision: Decision) -> Answer {
        let shown = self.question().map(|question| question.shown.clone());
        Answer { subject: self.subject.clone(), decision, shown }
    }
}

impl Answer {
    /// An answer to whichever question is open under this subject.
    pub fn unseen(subject: Subject, decision: Decision) -> Self {
        Self { subject, decision, shown: None }
    }
}
