//! What is said, from the inbox to the record: one after the other where hooks have to see it first.

use super::{Driver, Stage};
use crate::error::EngineError;
use crate::hooks::SessionStart;
use crate::inbox::Asker;
use crate::jobs::{Beside, Key, UserMessage, hear, vet};
use piton_core::client::Report;
use piton_core::event::{Event, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use std::collections::VecDeque;

/// Something said, and who waits for its answer.
pub(super) struct NewPrompt {
    pub(super) message: UserMessage,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// What is said and not on record yet.
pub(super) struct PromptQueue {
    start_hooks: StartHooks,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    id: MessageId,
    /// `None` while hooks see it.
    message: Option<UserMessage>,
    wait: bool,
    asker: Asker,
}

/// How far the hooks at a session's start are in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartHooks {
    /// Nobody has spoken or gone on: the session is only looked after, and neither starts nor ends for hooks.
    Unused,
    /// They have yet to run.
    Due,
    /// They are running.
    Running,
    /// They have run.
    Done,
}

impl PromptQueue {
    pub(super) fn new() -> Self {
        Self { start_hooks: StartHooks::Unused, waiting: VecDeque::new() }
    }

    /// How many prompts hooks have yet to see, or are looking at.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether anything was said, or gone on with.
    pub(super) fn is_used(&self) -> bool {
        self.start_hooks != StartHooks::Unused
    }

    /// Whoever waits for words that are not on record, which nobody hears any more.
    pub(super) fn take_askers(&mut self) -> Vec<Asker> {
        self.waiting.drain(..).map(|prompt| prompt.asker).collect()
    }

    /// Whether somebody of this process waits for his words to be heard.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|prompt| prompt.asker.is_local())
    }

    fn begin(&mut self) {
        if self.start_hooks == StartHooks::Unused {
            self.start_hooks = StartHooks::Due;
        }
    }
}

impl Driver {
    /// Takes notice that a turn is gone on with; hooks may have to see that the session has begun.
    pub(super) fn goes_on(&mut self) {
        self.prompts.begin();
        if self.is_to_be_vetted() {
            self.vet_next();
        }
    }

    /// Hears what somebody says; hooks may have to see it first.
    pub(super) async fn speak(&mut self, prompt: NewPrompt) {
        self.prompts.begin();
        let NewPrompt { message, wait, asker } = prompt;
        let id = message.id.clone();
        if self.is_to_be_vetted() {
            self.prompts.waiting.push_back(Waiting { id, message: Some(message), wait, asker });
            return self.vet_next();
        }
        let cx = self.context();
        match hear(message, &cx).await {
            Ok(events) => {
                self.record_all(events);
                self.askers.wait_for_answer(id, self.recorder.last_seq(), wait, asker);
            }
            Err(error) => asker.refuse(error),
        }
    }

    /// Whether hooks want to see what is said before it is on record. Words do not overtake others.
    fn is_to_be_vetted(&self) -> bool {
        let hooks = &self.services.hooks;
        let begins = self.prompts.start_hooks == StartHooks::Due && hooks.want(HookPoint::SessionStart);
        begins || hooks.want(HookPoint::Prompt) || !self.prompts.waiting.is_empty()
    }

    /// Lets hooks see that the session has begun, and what is said next.
    fn vet_next(&mut self) {
        if self.jobs.has_beside(Beside::Prompt) {
            return;
        }
        let is_resumed = self.session.transcript().len() > 0;
        let how = if is_resumed { SessionStart::Resumed } else { SessionStart::New };
        let start = (self.prompts.start_hooks == StartHooks::Due).then_some(how);
        if start.is_some() {
            self.prompts.start_hooks = StartHooks::Running;
        }
        let next = self.prompts.waiting.front_mut();
        let prompt = next.and_then(|next| Some((next.message.take()?, next.asker.clone())));
        let task = vet(start, prompt, &self.context());
        self.jobs.put_ready(Key::Beside(Beside::Prompt), task);
    }

    /// Hooks have seen what was to be seen: puts on record what they let pass.
    pub(super) fn vetted(&mut self, mut events: Vec<Event>) {
        if self.prompts.start_hooks == StartHooks::Running {
            self.prompts.start_hooks = StartHooks::Done;
        }
        let prompt = self.prompts.waiting.pop_front_if(|prompt| prompt.message.is_none());
        let is_heard = matches!(events.last(), Some(Event::UserSpoke { .. }));
        // It was sent twice while hooks looked at the first.
        events.retain(|event| !matches!(event, Event::UserSpoke { message, .. } if self.session.has_heard(message)));
        self.record_all(events);
        if let Some(Waiting { id, wait, asker, .. }) = prompt.filter(|_| is_heard) {
            self.askers.wait_for_answer(id, self.recorder.last_seq(), wait, asker);
        }
        if !self.prompts.waiting.is_empty() {
            self.vet_next();
        }
    }

    /// Drops the hooks that somebody waits for. What they have not let pass is not put on record: who said it is told, or
    /// says it to the next writer where this one leaves.
    pub(super) fn drop_unheard(&mut self) {
        self.jobs.drop_beside(Beside::Prompt);
        if self.prompts.start_hooks == StartHooks::Running {
            self.prompts.start_hooks = StartHooks::Due;
        }
        let policy = &self.services.settings.policy;
        let own = "it was stopped before hooks had let pass what was said; that is not on record".to_owned();
        let why = policy.replies.words.ending(TurnEnd::Canceled, None, policy, Some(own)).unwrap_or_default();
        let result = policy.replies.words.result(TurnEnd::Canceled, None, Some(&why), "");
        for prompt in self.prompts.waiting.drain(..).filter(|_| self.stage != Stage::Closing) {
            let report = Report::not_begun(TurnEnd::Canceled, why.clone());
            let report = Box::new(Report { result: result.clone(), ..report });
            prompt.asker.refuse(EngineError::NotBegun(report));
        }
    }
}
