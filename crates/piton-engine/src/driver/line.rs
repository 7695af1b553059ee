//! Requests that take their time and keep their order: what is said, what is changed for the turns to come, and summaries that
//! a person wants between turns. Each is done when it is at the front; what has no order among them, such as a cancel or an
//! answer, passes them by.

use super::{Driver, Stage};
use crate::error::{CompactError, ConfigureError, EngineError, RewindError};
use crate::inbox::Asker;
use crate::jobs::{
    AtRest, Key, Opening, Rewinds, STOPPED, SideJob, UserMessage, begin, hear, open_models, plan, summary_at_rest, vet,
};
use crate::settings::OpenedModels;
use crate::store::StoreError;
use piton_core::client::{Compact, Configure, Configured, Reply, Report, Scope};
use piton_core::configure::is_every;
use piton_core::event::{ChangedBy, Direction, Event, Rewind, Trigger, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use std::collections::VecDeque;

/// Something said, and who waits for its answer.
pub(super) struct NewPrompt {
    pub(super) message: UserMessage,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// What is not done yet, in its order.
pub(super) struct Line {
    waiting: VecDeque<Waiting>,
}

pub(super) enum Waiting {
    Prompt {
        id: MessageId,
        /// `None` while hooks see it, or what it refers to is read.
        message: Option<UserMessage>,
        wait: bool,
        asker: Asker,
    },
    Compact {
        wanted: Compact,
        asker: Asker,
    },
    Change {
        changed: Configure,
        /// Where its models arrive, once they are being opened.
        opening: Option<Opening>,
        asker: Asker,
    },
    /// A look at what a rewind would do.
    Plan {
        direction: Direction,
        turns: u32,
        scope: Scope,
        asker: Asker,
    },
    Rewind {
        rewind: Rewind,
        /// Where its outcome arrives, once a half of it is under way.
        arriving: Option<Rewinds>,
        asker: Asker,
    },
}

impl Waiting {
    fn asker(&self) -> &Asker {
        match self {
            Self::Prompt { asker, .. }
            | Self::Compact { asker, .. }
            | Self::Change { asker, .. }
            | Self::Plan { asker, .. }
            | Self::Rewind { asker, .. } => asker,
        }
    }

    fn is_prompt(&self) -> bool {
        matches!(self, Self::Prompt { .. })
    }
}

impl Line {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new() }
    }

    /// Takes out what is at the front.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// How many prompts are not on record yet.
    pub(super) fn prompts(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.is_prompt()).count()
    }

    /// Whoever waits for what nobody does any more.
    pub(super) fn take_askers(&mut self) -> Vec<Asker> {
        self.waiting.drain(..).map(|waiting| waiting.asker().clone()).collect()
    }

    /// Whether a client of this process waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.asker().is_local())
    }
}

impl Driver {
    /// Hears what somebody says: at once, where no hook has to see it first and nothing has to be read for it.
    pub(super) fn speak(&mut self, prompt: NewPrompt) {
        let NewPrompt { message, wait, asker } = prompt;
        let id = message.id.clone();
        let has_to_wait =
            self.awaits_start_hooks() || self.services.hooks.want(HookPoint::Prompt) || !self.line.waiting.is_empty();
        let heard = if has_to_wait { Err(message) } else { hear(message, &self.context()) };
        match heard {
            Ok(events) => {
                self.record_all(events);
                self.askers.wait_for_answer(id, self.recorder.last_seq(), wait, asker);
            }
            Err(message) => self.queue(Waiting::Prompt { id, message: Some(message), wait, asker }),
        }
    }

    /// Makes room because a person wants it, between turns.
    pub(super) fn compact(&mut self, wanted: Compact, asker: Asker) {
        let is_between_turns = self.session.is_at_rest() || self.session.is_compacting_at_rest();
        if !is_between_turns
            || self.line.prompts() > 0
            || self.session.waiting().any(|_| self.session.is_compacting_at_rest())
        {
            return asker.refuse(CompactError::MidTurn);
        }
        self.queue(Waiting::Compact { wanted, asker });
    }

    /// Puts a request behind those that keep their order with it.
    pub(super) fn queue(&mut self, waiting: Waiting) {
        self.line.waiting.push_back(waiting);
        self.move_up();
    }

    /// Changes how the turns to come are run, once what was asked before is done.
    pub(super) fn configure(&mut self, changed: Configure, asker: Asker) {
        if let Err(error) = self.check_change(&changed) {
            return asker.refuse(error);
        }
        self.queue(Waiting::Change { changed, opening: None, asker });
    }

    fn check_change(&self, changed: &Configure) -> Result<(), ConfigureError> {
        let settings = &self.services.settings;
        if changed.is_empty() {
            return Err(ConfigureError::Nothing);
        }
        if changed.model.is_some() && settings.model_source.is_none() {
            return Err(ConfigureError::NoSource);
        }
        let named = changed.tools.iter().filter(|tools| !is_every(tools)).flatten();
        let specs = settings.tools.specs();
        let is_unknown = |name: &&String| !specs.iter().any(|spec| spec.name == **name);
        match named.into_iter().find(is_unknown) {
            Some(name) => {
                let known: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
                Err(ConfigureError::NoSuchTool { name: name.clone(), known: known.join(", ") })
            }
            None => Ok(()),
        }
    }

    /// Whether the hooks at a session's start have yet to run in this process. A turn that is under way or about to start
    /// runs them itself ([`piton_core::turn::Gate::Opened`]).
    fn awaits_start_hooks(&self) -> bool {
        !self.session.is_begun_here() && self.services.hooks.want(HookPoint::SessionStart)
    }

    fn run_start_hooks(&mut self) {
        let is_between_turns = self.session.is_at_rest() || self.session.is_compacting_at_rest();
        if is_between_turns && !self.jobs.has_side(SideJob::Start) {
            let task = begin(&self.context());
            self.jobs.put_ready(Key::Side(SideJob::Start), task);
        }
    }

    /// The hooks at a session's start have run. Where they stop it, the prompt that waited for them is refused.
    pub(super) fn begun(&mut self, events: Vec<Event>) {
        let stopped = events.iter().find_map(|event| match event {
            Event::HooksRan { stopped, .. } => stopped.clone(),
            _ => None,
        });
        self.record_all(events);
        if let Some(reason) = stopped
            && let Some(prompt) = self.line.waiting.pop_front_if(|waiting| waiting.is_prompt())
        {
            prompt.asker().refuse(EngineError::PromptRefused { hook: String::new(), reason });
            self.leave_if_answered();
        }
    }

    /// Does what is at the front, as far as it takes no time.
    pub(super) fn move_up(&mut self) {
        while !self.jobs.has_side(SideJob::Line) {
            let awaits_start_hooks = self.awaits_start_hooks();
            match self.line.waiting.front_mut() {
                None => return,
                Some(Waiting::Prompt { .. }) if awaits_start_hooks => return self.run_start_hooks(),
                Some(Waiting::Prompt { message, asker, .. }) => {
                    let Some(message) = message.take() else { return };
                    let asker = asker.clone();
                    let task = vet(message, asker, &self.context());
                    return self.jobs.put_ready(Key::Side(SideJob::Line), task);
                }
                Some(Waiting::Compact { .. }) if self.session.is_compacting_at_rest() => return,
                Some(Waiting::Compact { .. }) => {
                    if let Some(Waiting::Compact { wanted, asker }) = self.line.waiting.pop_front() {
                        self.start_compaction(&wanted, asker);
                    }
                }
                Some(Waiting::Change { changed, opening, .. }) => {
                    let source = self.services.settings.model_source.clone();
                    if let (Some(names), Some(source)) = (&changed.model, source) {
                        let (task, arriving) = open_models(names.clone(), source);
                        *opening = Some(arriving);
                        return self.jobs.put_ready(Key::Side(SideJob::Line), task);
                    }
                    if let Some(Waiting::Change { changed, asker, .. }) = self.line.waiting.pop_front() {
                        self.change(changed, None, asker);
                    }
                }
                Some(Waiting::Plan { asker, .. } | Waiting::Rewind { asker, .. }) if !self.session.is_at_rest() => {
                    asker.refuse(RewindError::MidTurn);
                    self.line.waiting.pop_front();
                }
                Some(Waiting::Plan { direction, turns, scope, asker }) => {
                    let (direction, turns, scope, asker) = (*direction, *turns, *scope, asker.clone());
                    let task = plan(direction, turns, scope, asker, &self.context());
                    return self.jobs.put_ready(Key::Side(SideJob::Line), task);
                }
                Some(Waiting::Rewind { rewind, .. }) => {
                    let rewind = rewind.clone();
                    let started = self.start_rewind(rewind);
                    if let Some(Waiting::Rewind { arriving, .. }) = self.line.waiting.front_mut() {
                        *arriving = Some(started);
                    }
                    return;
                }
            }
        }
    }

    fn start_compaction(&mut self, wanted: &Compact, asker: Asker) {
        match summary_at_rest(wanted, &self.context()) {
            Ok(AtRest::Record(event)) => {
                self.askers.wait_for_compaction(asker);
                self.record(*event);
            }
            Ok(AtRest::Ask) => {
                self.askers.wait_for_compaction(asker);
                let focus = wanted.focus.clone();
                self.record(Event::CompactionStarted { trigger: Trigger::Asked, focus, lost: None });
            }
            Err(why) => asker.refuse(why),
        }
    }

    /// What was at the front is done: puts on record what comes of it.
    pub(super) async fn moved_up(&mut self, mut events: Vec<Event>) -> Result<(), StoreError> {
        if let Some(Waiting::Rewind { .. }) = self.line.waiting.front() {
            self.rewind_moved(events).await?;
            self.leave_if_answered();
            self.move_up();
            return Ok(());
        }
        let is_done = |waiting: &mut Waiting| match waiting {
            Waiting::Prompt { message, .. } => message.is_none(),
            Waiting::Change { opening, .. } => opening.is_some(),
            Waiting::Plan { .. } => true,
            Waiting::Compact { .. } | Waiting::Rewind { .. } => false,
        };
        let done = self.line.waiting.pop_front_if(is_done);
        let is_heard = matches!(events.last(), Some(Event::UserSpoke { .. }));
        // It was sent twice while hooks looked at the first.
        events.retain(|event| !matches!(event, Event::UserSpoke { message, .. } if self.session.has_heard(message)));
        self.record_all(events);
        match done {
            Some(Waiting::Prompt { id, wait, asker, .. }) if is_heard => {
                self.askers.wait_for_answer(id, self.recorder.last_seq(), wait, asker);
            }
            Some(Waiting::Change { changed, opening, asker }) => {
                let opened = opening.and_then(|mut opening| opening.try_recv().ok());
                match opened.unwrap_or_else(|| Err("it was aborted".to_owned())) {
                    Ok(opened) => self.change(changed, Some(opened), asker),
                    Err(why) => asker.refuse(ConfigureError::Model(why)),
                }
                self.leave_if_answered();
            }
            Some(Waiting::Prompt { .. } | Waiting::Plan { .. }) => self.leave_if_answered(),
            Some(Waiting::Compact { .. } | Waiting::Rewind { .. }) | None => {}
        }
        self.move_up();
        Ok(())
    }

    /// Puts a change on record. A turn under way keeps what it began with.
    fn change(&mut self, mut changed: Configure, mut opened: Option<OpenedModels>, asker: Asker) {
        changed.model = opened.as_ref().map(OpenedModels::names);
        let notices = opened.as_mut().map(|opened| std::mem::take(&mut opened.notices)).unwrap_or_default();
        let mut settings = self.next_settings.take().unwrap_or_else(|| self.services.settings.clone());
        settings.configure(&changed, opened);
        self.next_settings = Some(settings);
        let after_turn = self.session.is_in_turn();
        if !after_turn {
            self.settle_settings();
        }
        self.record(Event::SettingsChanged { changed: changed.clone(), by: ChangedBy::User });
        let configured = Configured { seq: self.recorder.last_seq(), changed, after_turn, notices };
        self.askers.tell_when_durable(asker, Reply::Configured(configured));
    }

    /// Drops what was said and not let pass by hooks, and summaries and rewinds that were not begun. It is not put on record: who said it is told, or says it to the next
    /// writer where this one leaves.
    pub(super) fn drop_unheard(&mut self) {
        let begun = self.line.waiting.pop_front_if(|_| self.session.rewinding().is_some());
        if begun.is_none() && !matches!(self.line.waiting.front(), Some(Waiting::Change { .. })) {
            self.jobs.drop_side(SideJob::Line);
        }
        let policy = &self.services.settings.policy;
        let own = "canceled before the message was accepted; nothing of it was recorded".to_owned();
        let why = policy.replies.words.ending(TurnEnd::Canceled, None, policy, Some(own)).unwrap_or_default();
        let result = policy.replies.words.result(TurnEnd::Canceled, None, Some(&why), "");
        let is_change = |waiting: &Waiting| matches!(waiting, Waiting::Change { .. });
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = self.line.waiting.drain(..).partition(is_change);
        self.line.waiting = begun.into_iter().chain(kept).collect();
        for waiting in dropped.iter().filter(|_| self.stage != Stage::Closing) {
            let report = Report::not_begun(TurnEnd::Canceled, why.clone());
            let report = Box::new(Report { result: result.clone(), ..report });
            match waiting {
                Waiting::Prompt { asker, .. } => asker.refuse(EngineError::NotBegun(report)),
                Waiting::Compact { asker, .. } => asker.refuse(CompactError::Failed(STOPPED.to_owned())),
                Waiting::Plan { asker, .. } | Waiting::Rewind { asker, .. } => asker.refuse(RewindError::Stopped),
                Waiting::Change { .. } => {}
            }
        }
    }
}
