//! Waiting for the turn that answers a prompt, from the records alone: they tell whoever the writer is, and also when
//! it has left.

use piton_core::client::Report;
use piton_core::event::Record;
use piton_core::ids::{MessageId, Seq};
use piton_core::turn::State;

/// A session that somebody else runs, and what is waited for in it.
pub struct Awaited {
    session: State,
    last: Seq,
    message: Option<MessageId>,
}

impl Awaited {
    /// Waits, after these records, for the end of the turn that answers this message; of any turn, without one.
    pub fn after(records: &[Record], message: Option<MessageId>) -> Self {
        let last = records.last().map_or(0, |record| record.seq);
        Self { session: State::fold(records), last, message }
    }

    /// The report of the turn that answered this message, if it is over.
    pub fn ended(records: &[Record], message: &MessageId) -> Option<Report> {
        let mut awaited = Self::after(&[], Some(message.clone()));
        records.iter().find_map(|record| awaited.hear(record))
    }

    /// Takes the next record in. Answers with the report of the turn, when that is over.
    pub fn hear(&mut self, record: &Record) -> Option<Report> {
        // After a cut a record may come twice.
        if record.seq <= self.last {
            return None;
        }
        self.last = record.seq;
        self.session.apply(record);
        let report = Report::of(&self.session, &record.event)?;
        self.message.as_ref().is_none_or(|message| self.session.has_answered(message)).then_some(report)
    }

    /// Whether the message is in the journal.
    pub fn is_heard(&self) -> bool {
        self.message.as_ref().is_some_and(|message| self.session.has_heard(message))
    }

    /// The session as far as it is known.
    pub fn session(&self) -> &State {
        &self.session
    }

    /// The position of the next record.
    pub fn next_seq(&self) -> Seq {
        self.last + 1
    }
}
