//! What clients say to a session and hear from it: one list of verbs for all of them, in this process or in another.
//!
//! ```text
//!   Request ──► whoever runs the session ──► Reply
//!                        └──► Published: records as they become durable, live fragments between them
//! ```
//!
//! Plain data, which goes over a socket as it is. Nothing here knows who runs the session, and how it is reached.

use crate::event::{Decision, Delivery, Event, Record, Spent, Subject, TurnEnd};
use crate::ids::{CallId, MessageId, Seq, SessionId};
use crate::message::{Message, Part, Role};
use crate::model::Delta;
use crate::turn::{self, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The key of a structured answer in a turn's evidence.
pub const STRUCTURED: &str = "structured";

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
        /// When the model shall hear it.
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
        report: Report,
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

/// Something a listener hears.
#[derive(Debug, Clone)]
pub enum Published {
    /// An event that is durable in the journal.
    Recorded(Arc<Record>),
    /// A fragment. Not in the journal.
    Live(Arc<Live>),
}

/// A fragment of something under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Live {
    /// The model is speaking.
    ModelDelta {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1: fragments of an attempt that fails are abandoned.
        attempt: u32,
        /// The new piece.
        delta: Delta,
    },
    /// The model has been silent for this long.
    ModelSilent {
        /// The session's step.
        step: u32,
        /// Milliseconds since its last sign of life.
        silent_ms: u64,
    },
    /// A model is asked for a summary of the conversation.
    SummaryAsked {
        /// `provider/model`.
        model: String,
        /// How often it was asked by now, this time included.
        attempt: u32,
    },
    /// It gave none.
    SummaryFailed {
        /// `provider/model`.
        model: String,
        /// Which attempt.
        attempt: u32,
        /// Why.
        error: String,
        /// When it is asked again, in milliseconds; `None`: not at all.
        retry_ms: Option<u64>,
    },
    /// A running tool has output.
    ToolOutput {
        /// Which call.
        call: CallId,
        /// The new piece, readable text.
        text: String,
    },
    /// The session was paused, or goes on: what runs is finished, and nothing new is started meanwhile.
    Paused {
        /// Which of the two.
        paused: bool,
    },
    /// The session cannot go on: its journal cannot be written. What is recorded is safe.
    Broken {
        /// What went wrong and what was kept.
        error: String,
    },
}

/// How a turn went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts the session's turns from 1; 0 where none began: hooks had not let pass what was said.
    pub turn: u32,
    /// Why it ended.
    pub end: TurnEnd,
    /// More words about why.
    pub detail: Option<String>,
    /// What it used.
    pub spent: Spent,
    /// The model's last words; empty if it said none.
    pub text: String,
    /// Whether it left the workspace other than it found it: then `piton undo` takes that back.
    #[serde(default)]
    pub changed_files: bool,
    /// The checks that were run last before it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// The answer as a schema wanted it, where one was given and it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
    /// What the loop of the preset returns: those words, or the sentence that stands for them where the preset has one.
    #[serde(default)]
    pub result: String,
}

impl Report {
    /// The report for who said something that no turn began for.
    pub fn not_begun(end: TurnEnd, why: impl Into<String>) -> Self {
        Self {
            turn: 0,
            end,
            detail: Some(why.into()),
            spent: Spent::default(),
            text: String::new(),
            changed_files: false,
            checks: Vec::new(),
            structured: None,
            result: String::new(),
        }
    }

    /// The report of the turn that just ended, where this is the event that ended it; the session has applied it.
    pub fn of(session: &State, event: &Event) -> Option<Self> {
        let Event::TurnEnded { turn, end, detail, spent } = event else { return None };
        let replies = last_replies(session);
        let text = replies.concat();
        let evidence = || session.evidence().iter().filter_map(|run| run.evidence.as_ref());
        let checks = evidence().filter_map(CheckRun::of).collect();
        let structured = evidence().find_map(|found| found.get(STRUCTURED)).cloned().map(Box::new);
        let returned = session.policy().replies.words.returned(&replies);
        let result = session.policy().replies.words.result(*end, detail.as_deref(), &returned);
        let (turn, end, detail, spent) = (*turn, *end, detail.clone(), *spent);
        let changed_files = session.changed_files();
        Some(Self { turn, end, detail, spent, text, changed_files, checks, structured, result })
    }
}

/// How a check went: the evidence in the journal, and in a turn's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The command.
    pub check: String,
    /// Whether it passed.
    pub passed: bool,
    /// Its exit code; none where it was killed or took too long.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Which round this was, from 1.
    pub round: usize,
    /// The end of its output.
    pub output: String,
}

impl CheckRun {
    /// The check behind a piece of evidence, if it is one.
    pub fn of(evidence: &Value) -> Option<Self> {
        serde_json::from_value(evidence.clone()).ok()
    }
}

/// What the model said last, if it spoke after the user did. A reply that was cut and continued is one.
pub fn last_words(session: &State) -> String {
    last_replies(session).concat()
}

/// The same in the pieces that it came in.
fn last_replies(session: &State) -> Vec<String> {
    let messages: Vec<&Arc<Message>> = session.transcript().collect();
    let mut backwards = messages.iter().rev().skip_while(|message| message.role == Role::Tool).peekable();
    let goes_on = |message: &Message| {
        message.parts.iter().any(|part| matches!(part, Part::Note { text } if [turn::CONTINUE_NOTE, turn::UNKNOWN_NOTE].iter().any(|note| text.contains(note))))
    };
    let mut replies = Vec::new();
    while let Some(reply) = backwards.next_if(|message| message.role == Role::Assistant) {
        replies.insert(0, reply.prose());
        // Between the pieces stand notes of ours, which have no id.
        let mut is_continued = false;
        while let Some(note) = backwards.next_if(|message| message.role == Role::User && message.id.is_none()) {
            is_continued |= goes_on(note);
        }
        if !is_continued {
            break;
        }
    }
    replies
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
