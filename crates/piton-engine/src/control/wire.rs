//! What is said at the socket: one JSON object per line. Records and live fragments go by as in `--format stream-json`.

use crate::engine::TurnReport;
use piton_core::event::{Delivery, Subject};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_core::question::Decision;
use serde::{Deserialize, Serialize};

/// The version of this vocabulary. It rises when an older client could misread a newer writer.
pub const PROTOCOL: u32 = 1;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// To hear everything from this position of the journal on.
    Follow {
        /// The first position; 1 is the beginning.
        #[serde(default = "beginning")]
        from: Seq,
    },
    /// To say something in the session.
    Prompt {
        /// What is said.
        text: String,
        /// What comes with it and is not searched for references: text that was piped in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beside: Option<String>,
        /// When the model reads it.
        #[serde(default)]
        delivery: When,
        /// The client's id for it. Who repeats one, because no answer came, is not heard twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Whether to tell when the turn that answers it is over.
        #[serde(default)]
        wait: bool,
    },
    /// To stop the turn under way. Answered when it is over.
    Cancel {},
    /// To finish the call that runs, and start nothing new.
    Pause {},
    /// To go on.
    Continue {},
    /// To make room in the context, between turns: a summary takes the place of all but the newest steps. Answered when
    /// it is made.
    Compact {
        /// What the summary shall dwell on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
    },
    /// To answer an open question. One that is no longer open stays as it was answered.
    Answer {
        /// The question.
        subject: Subject,
        /// The answer.
        decision: Decision,
    },
}

/// When the model shall hear what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At the next step.
    #[default]
    Steer,
    /// After the turn, as a turn of its own.
    FollowUp,
    /// At once: the turn under way is stopped for it.
    Interrupt,
}

impl When {
    /// How it is delivered, once what it interrupts is stopped.
    pub fn delivery(self) -> Delivery {
        match self {
            Self::Steer | Self::Interrupt => Delivery::Steer,
            Self::FollowUp => Delivery::FollowUp,
        }
    }
}

/// What the writer says besides records and live fragments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// The first line of every connection.
    Hello {
        /// The version of the vocabulary that is spoken here.
        protocol: u32,
        /// Whose writer this is.
        session: SessionId,
        /// The process.
        pid: u32,
    },
    /// To a follower: what was there before is told, from here on it is told as it happens. Of a reply that was under
    /// way the beginning was missed; it comes again, whole, with its record.
    CaughtUp {},
    /// A prompt is in the journal.
    Accepted {
        /// Which.
        message: MessageId,
    },
    /// The turn that was waited for, or cancelled, is over.
    Ended {
        /// The prompt that it answers; none where it was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// How it went.
        #[serde(flatten)]
        report: TurnReport,
    },
    /// An answer, a pause or its end was passed on.
    Noted {},
    /// Room was made in the context.
    Compacted {
        /// The last event that the summary stands for.
        upto_seq: Seq,
        /// Tokens of the context before, roughly.
        tokens_before: u64,
        /// Tokens of the context now, roughly.
        tokens_after: u64,
    },
    /// There is no turn to stop, or to wait for.
    AtRest {},
    /// A request could not be understood or was refused, or nothing more can be done in this session.
    Refused {
        /// The prompt that was refused, where it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Why, in words.
        error: String,
    },
}

fn beginning() -> Seq {
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_needs_no_more_words_than_it_has_something_to_say() {
        let read = |value| serde_json::from_value::<Request>(value).unwrap();
        assert_eq!(read(json!({"do": "follow"})), Request::Follow { from: 1 });
        let prompt =
            Request::Prompt { text: "hi".into(), beside: None, delivery: When::Steer, message: None, wait: false };
        assert_eq!(read(json!({"do": "prompt", "text": "hi"})), prompt);
        assert_eq!(read(json!({"do": "cancel"})), Request::Cancel {});
        let answer = json!({"do": "answer", "subject": {"call": "c1_0"}, "decision": "approve"});
        let subject = Subject::Call("c1_0".into());
        assert_eq!(read(answer), Request::Answer { subject, decision: Decision::Approve });
    }
}
