//! What is said, from the inbox to the record: one after the other where hooks have to see it first.

use super::{Driver, Stage};
use crate::error::EngineError;
use crate::hooks::SessionStart;
use crate::inbox::Asker;
use crate::jobs::{Beside, Heard, Key, hear, vet};
use piton_core::client::Report;
use piton_core::event::{Event, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use std::collections::VecDeque;

/// Something said, and who waits for its answer.
pub(super) struct Speech {
    pub(super) heard: Heard,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// What is said and not on record yet.
pub(super) struct Speeches {
    visit: Visit,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    message: MessageId,
    /// `None` while hooks see it.
    heard: Option<Heard>,
    wait: bool,
    asker: Asker,
}

/// What this process does with the session, as far as hooks are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// Nobody has spoken or gone on: it is only looked after, and has no beginning or end.
    LookedAfter,
    /// It is used, and hooks have yet to see that it begins.
    Used,
    /// They are seeing it.
    Beginning,
    /// They have seen it.
    Begun,
}

impl Speeches {
    pub(super) fn new() -> Self {
        Self { visit: Visit::LookedAfter, waiting: VecDeque::new() }
    }

    /// Whether anything was said, or gone on with.
    pub(super) fn is_used(&self) -> bool {
        self.visit != Visit::LookedAfter
    }

    /// Whether somebody of this process waits for his words to be heard.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|speech| speech.asker.is_local())
    }

    fn begin(&mut self) {
        if self.visit == Visit::LookedAfter {
            self.visit = Visit::Used;
        }
    }
}

impl Driver {
    /// Takes notice that a turn is gone on with; hooks may have to see that the session has begun.
    pub(super) fn goes_on(&mut self) {
        self.speeches.begin();
        if self.is_to_be_vetted() {
            self.vet_next();
        }
    }

    /// Hears what somebody says; hooks may have to see it first.
    pub(super) async fn speak(&mut self, speech: Speech) {
        self.speeches.begin();
        let Speech { heard, wait, asker } = speech;
        let message = heard.message.clone();
        if self.is_to_be_vetted() {
            self.speeches.waiting.push_back(Waiting { message, heard: Some(heard), wait, asker });
            return self.vet_next();
        }
        let cx = self.context();
        match hear(heard, &cx).await {
            Ok(events) => {
                self.record_all(events);
                self.askers.wait_for_answer(message, self.recorder.last_seq(), wait, asker);
            }
            Err(error) => asker.refuse(error),
        }
    }

    /// Whether hooks want to see what is said before it is on record. Words do not overtake others.
    fn is_to_be_vetted(&self) -> bool {
        let hooks = &self.services.hooks;
        let begins = self.speeches.visit == Visit::Used && hooks.want(HookPoint::SessionStart);
        begins || hooks.want(HookPoint::Prompt) || !self.speeches.waiting.is_empty()
    }

    /// Lets hooks see that the session has begun, and what is said next.
    fn vet_next(&mut self) {
        if self.jobs.has_beside(Beside::Prompt) {
            return;
        }
        let is_resumed = self.session.transcript().len() > 0;
        let how = if is_resumed { SessionStart::Resumed } else { SessionStart::New };
        let start = (self.speeches.visit == Visit::Used).then_some(how);
        if start.is_some() {
            self.speeches.visit = Visit::Beginning;
        }
        let next = self.speeches.waiting.front_mut();
        let speech = next.and_then(|next| Some((next.heard.take()?, next.asker.clone())));
        let task = vet(start, speech, &self.context());
        self.jobs.put_ready(Key::Beside(Beside::Prompt), task);
    }

    /// Hooks have seen what was to be seen: puts on record what they let pass.
    pub(super) fn vetted(&mut self, events: Vec<Event>) {
        if self.speeches.visit == Visit::Beginning {
            self.speeches.visit = Visit::Begun;
        }
        let speech = self.speeches.waiting.pop_front_if(|speech| speech.heard.is_none());
        let is_heard = matches!(events.last(), Some(Event::UserSpoke { .. }));
        self.record_all(events);
        if let Some(Waiting { message, wait, asker, .. }) = speech.filter(|_| is_heard) {
            self.askers.wait_for_answer(message, self.recorder.last_seq(), wait, asker);
        }
        if !self.speeches.waiting.is_empty() {
            self.vet_next();
        }
    }

    /// Drops the hooks that somebody waits for. What they have not let pass is not put on record: who said it is told, or
    /// says it to the next writer where this one leaves.
    pub(super) fn drop_unheard(&mut self) {
        self.jobs.drop_beside(Beside::Prompt);
        if self.speeches.visit == Visit::Beginning {
            self.speeches.visit = Visit::Used;
        }
        let policy = &self.services.settings.policy;
        let own = "it was stopped before hooks had let pass what was said; that is not on record".to_owned();
        let why = policy.replies.words.ending(TurnEnd::Canceled, None, policy, Some(own)).unwrap_or_default();
        let result = policy.replies.words.result(TurnEnd::Canceled, None, Some(&why), "");
        for speech in self.speeches.waiting.drain(..).filter(|_| self.stage != Stage::Closing) {
            let report = Report::not_begun(TurnEnd::Canceled, why.clone());
            let report = Box::new(Report { result: result.clone(), ..report });
            speech.asker.refuse(EngineError::NotBegun(report));
        }
    }
}
