//! Taking messages out of the queue that no step has read: those on record, and those that hooks have yet to let in.

use super::Driver;
use super::line::{Said, Waiting};
use crate::error::{EngineError, UnqueueError};
use crate::inbox::Asker;
use crate::jobs::SideJob;
use piton_core::client::{Reply, Unqueued};
use piton_core::event::Event;
use piton_core::ids::MessageId;
use piton_core::message::{Message, Part, said};

impl Driver {
    /// Takes one message back, or all that somebody said; whoever waits for its answer is told.
    pub(super) fn unqueue(&mut self, message: Option<&MessageId>, asker: Asker) {
        let mut messages = self.unqueue_recorded(message);
        messages.extend(self.unqueue_unheard(message));
        if let (Some(message), []) = (message, &messages[..]) {
            return asker.refuse(self.why_not_queued(message));
        }
        let ids: Vec<MessageId> = messages.iter().map(|taken| taken.message.clone()).collect();
        self.askers.taken_back(&ids);
        if self.session.is_at_rest() {
            self.askers.at_rest();
        }
        self.askers.tell_when_durable(asker, Reply::Unqueued { messages });
        self.move_up();
        self.leave_if_answered();
    }

    /// Gives a message another place.
    pub(super) fn move_queued(&mut self, message: MessageId, before: Option<MessageId>, asker: Asker) {
        let unknown = [Some(&message), before.as_ref()].into_iter().flatten().find(|id| !self.is_queued(id)).cloned();
        if let Some(unknown) = unknown {
            return asker.refuse(self.why_not_queued(&unknown));
        }
        self.record(Event::MessageMoved { message, before });
        self.askers.tell_when_durable(asker, Reply::Moved { seq: self.recorder.last_seq() });
    }

    /// Why no other message can take the place of this one. One that was taken back already has left none.
    pub(super) fn why_not_replaced(&self, message: &MessageId) -> Option<UnqueueError> {
        let is_there = self.session.was_unqueued(message) || self.session.may_unqueue(message);
        (!is_there).then(|| self.why_not_queued(message))
    }

    /// Puts on record what was said, in the place of the message that it replaces: only now that hooks have let it in is that one taken
    /// back. Where a step has read it meanwhile, what was said is refused.
    pub(super) fn hear_said(&mut self, said: Said, mut events: Vec<Event>) {
        let Said { id, replaces, wait, asker } = said;
        if let Some(error) = replaces.as_ref().and_then(|replaced| self.why_not_replaced(replaced)) {
            // That hooks have seen it stays true.
            events.retain(|event| matches!(event, Event::HooksRan { .. }));
            self.record_all(events);
            asker.refuse(error);
            return self.leave_if_answered();
        }
        self.record_all(events);
        let seq = self.recorder.last_seq();
        // Only then: what is told at the session's start goes over to what still waits.
        let before = replaces.and_then(|replaced| self.take_back(&replaced));
        if let Some(before) = before.filter(|before| *before != id && self.is_queued(before) && self.is_queued(&id)) {
            self.record(Event::MessageMoved { message: id.clone(), before: Some(before) });
        }
        self.askers.wait_for_answer(id, seq, wait, asker);
    }

    /// Takes back a message that is replaced: which one stands behind it.
    fn take_back(&mut self, message: &MessageId) -> Option<MessageId> {
        if self.session.was_unqueued(message) {
            return None;
        }
        let mut after = self.session.waiting().filter_map(|(waiting, _)| waiting.id.clone());
        let next = after.by_ref().find(|id| id == message).and_then(|_| after.next());
        drop(after);
        self.record(Event::MessageUnqueued { message: message.clone() });
        self.askers.taken_back(std::slice::from_ref(message));
        next
    }

    fn is_queued(&self, message: &MessageId) -> bool {
        self.session.waiting().any(|(waiting, _)| waiting.id.as_ref() == Some(message))
    }

    /// Those that are on record. What Piton itself says stays.
    fn unqueue_recorded(&mut self, wanted: Option<&MessageId>) -> Vec<Unqueued> {
        let is_wanted = |message: &Message| match wanted {
            Some(wanted) => message.id.as_ref() == Some(wanted),
            None => !said(&message.parts).is_empty(),
        };
        let waiting = self.session.waiting().filter(|(message, _)| is_wanted(message));
        let found = waiting.filter_map(|(message, delivery)| {
            let parts = said(&message.parts);
            let typed = message.id.as_ref().and_then(|id| self.session.typed(id));
            let parts = match typed {
                Some(typed) => {
                    let rest = parts.iter().skip(1).cloned();
                    std::iter::once(Part::text(typed)).chain(rest).collect()
                }
                None => parts.to_vec(),
            };
            Some(Unqueued { message: message.id.clone()?, parts, delivery, seq: None })
        });
        let mut taken: Vec<Unqueued> = found.collect();
        taken.retain_mut(|one| {
            let may = self.session.may_unqueue(&one.message);
            if may {
                self.record(Event::MessageUnqueued { message: one.message.clone() });
                one.seq = Some(self.recorder.last_seq());
            }
            may
        });
        taken
    }

    /// Those that hooks look at, or for which something is read.
    fn unqueue_unheard(&mut self, wanted: Option<&MessageId>) -> Vec<Unqueued> {
        let mut taken = Vec::new();
        for waiting in self.line.take_prompts(wanted) {
            let Waiting::Prompt { message, progress, asker, .. } = waiting else { continue };
            if progress.has_job() {
                self.jobs.drop_side(SideJob::Line);
            }
            asker.refuse(EngineError::TakenBack);
            let (parts, delivery) = (said(&message.as_said()).to_vec(), message.delivery);
            taken.push(Unqueued { message: message.id, parts, delivery, seq: None });
        }
        taken
    }

    fn why_not_queued(&self, message: &MessageId) -> UnqueueError {
        if self.line.runs_for(message) {
            UnqueueError::Filling
        } else if self.session.was_unqueued(message) {
            UnqueueError::TakenBack
        } else if self.session.waiting().any(|(waiting, _)| waiting.id.as_ref() == Some(message)) {
            UnqueueError::NextStep
        } else if self.session.has_heard(message) {
            UnqueueError::Read
        } else {
            UnqueueError::Unknown
        }
    }
}
