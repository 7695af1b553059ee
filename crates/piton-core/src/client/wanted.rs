//! What a session wants of its clients: the way of the requests that an agent makes of its client in the Agent Client
//! Protocol. An approval is the first kind.
//!
//! ```text
//!   Published::Wanted ──► every client that listens
//!        Request::Answer ◄── one of them: the first durable answer counts
//!   Published::Withdrawn ──► the others, also where no answer is wanted any more
//! ```
//!
//! Who comes late is told of everything that is still wanted. Another kind is a variant of [`Want`], and its answer one
//! of [`crate::client::Request`].

use crate::event::Subject;
use crate::question::{Decision, Question};
use serde::{Deserialize, Serialize};

/// Something that the session cannot go on without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Names it, until it is withdrawn.
    pub subject: Subject,
    /// What it is.
    #[serde(flatten)]
    pub want: Want,
}

/// The kinds of things that clients can give.
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
    /// [`Question::shown`] of the question that was answered. Where another question is open under the same name by
    /// now, the answer is refused; without this, it counts for whichever is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

impl Wanted {
    /// The question, where an approval is wanted.
    pub fn question(&self) -> Option<&Question> {
        let Want::Approval(question) = &self.want;
        Some(question)
    }

    /// An answer to exactly this.
    pub fn answer(&self, decision: Decision) -> Answer {
        let shown = self.question().map(|question| question.shown.clone());
        Answer { subject: self.subject.clone(), decision, shown }
    }
}

impl Answer {
    /// An answer to whichever question is open under this name.
    pub fn unseen(subject: Subject, decision: Decision) -> Self {
        Self { subject, decision, shown: None }
    }
}
