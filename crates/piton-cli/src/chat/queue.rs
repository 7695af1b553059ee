//! Messages that wait, by who sent them. What this person sent comes back into their prompt, whoever stopped the turn; what another
//! client sent does not, and is told.
//!
//! ```text
//!   Esc here ──► cancel, unqueue ──► own words: into the prompt     others': a line here, an error for their sender
//!   a stop elsewhere ──► own prompt ends canceled, or is taken back ──► into the prompt, with a line that says why
//! ```

use super::{About, Chat};
use piton_core::client::{Request, Unqueued};
use piton_core::event::{Event, Record};
use piton_core::ids::MessageId;
use piton_core::message;
use piton_engine::engine::EngineError;
use piton_tui::face::Input;
use std::collections::HashSet;

/// What is known of the messages of a session since it is open here.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Sent from here.
    own: HashSet<MessageId>,
    /// Sent by another client.
    others: HashSet<MessageId>,
    /// How many requests to take messages back are not answered yet.
    taking_back: usize,
    /// Messages from here that were refused meanwhile, and why: taken back from here, or by somebody else.
    refused: Vec<(MessageId, String, String)>,
}

impl Queue {
    /// This message is sent from here.
    pub(super) fn says(&mut self, message: MessageId) {
        self.own.insert(message);
    }

    /// Takes notice of who sent a message that is recorded now.
    pub(super) fn hear(&mut self, record: &Record) {
        if let Event::UserSpoke { message, .. } = &record.event
            && !self.own.contains(message)
        {
            self.others.insert(message.clone());
        }
    }
}

impl Chat<'_> {
    /// Takes messages back: the one that was named, or all that wait, because the turn is stopped.
    pub(super) fn take_back(&mut self, message: Option<MessageId>) {
        if self.open.is_some() {
            self.queue.taking_back += 1;
            let about = About::TakenBack { is_named: message.is_some() };
            self.ask(Request::Unqueue { message }, about);
        }
    }

    /// What was asked to be taken back is.
    pub(super) fn taken_back(&mut self, messages: &[Unqueued], is_named: bool) {
        self.queue.taking_back = self.queue.taking_back.saturating_sub(1);
        let refused = &mut self.queue.refused;
        refused.retain(|(id, ..)| !messages.iter().any(|taken| taken.message == *id));
        let words = |taken: &Unqueued| message::prose(&taken.parts).into_owned();
        let is_own = |taken: &&Unqueued| is_named || !self.queue.others.contains(&taken.message);
        let own: Vec<String> = messages.iter().filter(is_own).map(words).collect();
        self.terminal.tell(Input::PutBack(own.join("\n")));
        for taken in messages.iter().filter(|taken| !is_own(taken)) {
            self.warn(format!("not sent to the model, since the turn was stopped: {}", words(taken)));
            self.note("another client had sent that; it was told");
        }
        self.give_back_refused();
    }

    /// Nothing could be taken back.
    pub(super) fn not_taken_back(&mut self, error: &EngineError) {
        self.queue.taking_back = self.queue.taking_back.saturating_sub(1);
        if !matches!(error, EngineError::AtRest) {
            self.warn(error.to_string());
        }
        self.give_back_refused();
    }

    /// A message from here was refused. While messages are being taken back from here, that may be why.
    pub(super) fn refused(&mut self, message: MessageId, words: String, why: String) {
        self.queue.refused.push((message, words, why));
        self.give_back_refused();
    }

    fn give_back_refused(&mut self) {
        if self.queue.taking_back > 0 {
            return;
        }
        for (_, words, why) in std::mem::take(&mut self.queue.refused) {
            self.warn(why);
            self.terminal.tell(Input::PutBack(words));
        }
    }

    /// The turn that a message from here waited for was stopped. If no step has read the message, it would wait for the next prompt,
    /// whoever sends that.
    pub(super) fn stopped(&mut self, message: MessageId) {
        self.ask(Request::Unqueue { message: Some(message) }, About::Stopped);
    }

    /// It had not been read.
    pub(super) fn stopped_before_read(&mut self, messages: &[Unqueued]) {
        for taken in messages {
            self.note("the turn was stopped before your message was read: it is in the prompt again");
            self.terminal.tell(Input::PutBack(message::prose(&taken.parts).into_owned()));
        }
    }
}
