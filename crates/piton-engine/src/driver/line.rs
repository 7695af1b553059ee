//! Requests that take their time and keep their order: what is said, what is changed for the turns to come, and summaries that
//! a person wants between turns. Each is done when it is at the front; what has no order among them, such as a cancel or an
//! answer, passes them by.

use super::carried::Carried;
use super::filling::Filling;
use super::{Driver, Stage};
use crate::error::{CompactError, ConfigureError, EngineError, RewindError};
use crate::inbox::Asker;
use crate::jobs::{
    AtRest, Expanding, Key, Opening, Rewinds, STOPPED, SideJob, UserMessage, begin, hear, open_models, plan,
    summary_at_rest, vet,
};
use crate::settings::{OpenedModels, Settings};
use crate::store::StoreError;
use piton_core::client::{Compact, Configure, Configured, Reply, Report, Request, Scope};
use piton_core::configure::{BUILD, PLAN, is_every};
use piton_core::event::{ChangedBy, Direction, Event, Rewind, Trigger, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use piton_core::permission::PermissionMode;
use std::collections::VecDeque;

/// Something said, and who waits for its answer.
pub(super) struct NewPrompt {
    pub(super) message: UserMessage,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// The same, once it can be put on record.
pub(super) struct Said {
    pub(super) id: MessageId,
    /// The message whose place it takes.
    pub(super) replaces: Option<MessageId>,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// What is not done yet, in its order.
pub(super) struct Line {
    waiting: VecDeque<Waiting>,
    /// Questions of an earlier process that are still to be asked again, with the answers that wait for them.
    pub(super) carried: Carried,
}

pub(super) enum Waiting {
    Prompt {
        message: UserMessage,
        progress: Progress,
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

/// How far a prompt is.
pub(super) enum Progress {
    /// It was said.
    Said,
    /// Its command is looked for, which arrives here.
    Expanding(Expanding),
    /// Its command was found: what its template runs is run.
    Filling(Box<Filling>),
    /// Hooks see it, or what it refers to is read.
    Vetting,
}

impl Progress {
    /// Whether a job is at it.
    pub(super) fn has_job(&self) -> bool {
        match self {
            Self::Expanding(_) | Self::Vetting => true,
            Self::Filling(filling) => filling.is_seen_by_hooks(),
            Self::Said => false,
        }
    }
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
        Self { waiting: VecDeque::new(), carried: Carried::default() }
    }

    /// What is at the front.
    pub(super) fn front(&mut self) -> Option<&mut Waiting> {
        self.waiting.front_mut()
    }

    /// Takes out what is at the front.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// How many prompts are not on record yet.
    pub(super) fn prompts(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.is_prompt()).count()
    }

    /// Whether a rewind is wanted that is not done yet.
    pub(super) fn rewinds(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting, Waiting::Rewind { .. }))
    }

    /// Takes out the prompt of this id, or all prompts.
    pub(super) fn take_prompts(&mut self, id: Option<&MessageId>) -> Vec<Waiting> {
        let is_meant = |waiting: &Waiting| match waiting {
            // What it runs would run for nobody.
            Waiting::Prompt { progress: Progress::Filling(filling), .. } if filling.is_running() => false,
            Waiting::Prompt { message, .. } => id.is_none_or(|id| message.id == *id),
            _ => false,
        };
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(is_meant);
        self.waiting = kept;
        taken.into()
    }

    /// Whether a command runs for the prompt of this id.
    pub(super) fn runs_for(&self, id: &MessageId) -> bool {
        self.waiting.iter().any(|waiting| match waiting {
            Waiting::Prompt { message, progress: Progress::Filling(_), .. } => message.id == *id,
            _ => false,
        })
    }

    /// Whoever waits for what nobody does any more.
    pub(super) fn take_askers(&mut self) -> Vec<Asker> {
        let waiting = self.waiting.drain(..).map(|waiting| waiting.asker().clone());
        waiting.chain(self.carried.take_askers()).collect()
    }

    /// Whether a client of this process waits.
    pub(super) fn is_awaited(&self) -> bool {
        // What a command has run must not run again for whoever says it to the next writer.
        let is_filled = |message: &UserMessage| message.called.as_ref().is_some_and(|called| called.text.is_some());
        self.waiting.iter().any(|waiting| match waiting {
            Waiting::Prompt { progress: Progress::Filling(_), .. } => true,
            Waiting::Prompt { message, asker, .. } => asker.is_local() || is_filled(message),
            waiting => waiting.asker().is_local(),
        })
    }
}

impl Driver {
    /// Hears what somebody says: at once, where no hook has to see it first and nothing has to be read for it.
    pub(super) fn speak(&mut self, prompt: NewPrompt) {
        let NewPrompt { message, wait, asker } = prompt;
        let said = Said { id: message.id.clone(), replaces: message.replaces.clone(), wait, asker };
        let has_to_wait = message.command().is_some()
            || self.awaits_start_hooks()
            || self.services.hooks.want(HookPoint::Prompt)
            || !self.line.waiting.is_empty();
        let heard = if has_to_wait { Err(message) } else { hear(message, &self.context()) };
        match heard {
            Ok(events) => self.hear_said(said, events),
            Err(message) => self.queue(Waiting::Prompt { message, progress: Progress::Said, wait, asker: said.asker }),
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

    /// Changes how the session is run, once what was asked before is done. A permission mode alone waits for nothing but
    /// other changes: whoever sets it means the next call.
    pub(super) fn configure(&mut self, changed: Configure, asker: Asker) {
        let changed = Configure { mode_before: None, ..changed };
        if let Err(error) = self.check_change(&changed) {
            return asker.refuse(error);
        }
        let only_mode = Configure { mode: changed.mode, ..Configure::default() };
        let is_mode = changed == only_mode;
        let changed = self.with_agent(changed);
        let is_mode = is_mode && self.services.settings.opens_for(&changed).is_none();
        let has_changes = self.line.waiting.iter().any(|waiting| matches!(waiting, Waiting::Change { .. }));
        if is_mode && !has_changes {
            return self.change(changed, None, Vec::new(), asker);
        }
        self.queue(Waiting::Change { changed, opening: None, asker });
    }

    /// A change with what it means for the session's agent: who plans is left with the mode `plan`, and an agent brings its mode.
    pub(super) fn with_agent(&self, mut changed: Configure) -> Configure {
        let settings = self.settings_to_come();
        let leaves_plan = changed.mode.is_some_and(|mode| mode != PermissionMode::Plan) && settings.agent.name == PLAN;
        if leaves_plan && changed.agent.is_none() {
            changed.agent = Some(BUILD.to_owned());
        }
        settings.with_agents(changed)
    }

    fn check_change(&self, changed: &Configure) -> Result<(), ConfigureError> {
        let settings = &self.services.settings;
        if changed.is_empty() {
            return Err(ConfigureError::Nothing);
        }
        let opens = changed.model.is_some() || changed.effort.is_some();
        if opens && settings.model_source.is_none() {
            return Err(ConfigureError::NoSource);
        }
        if let Some(agent) = &changed.agent {
            settings.agents.of_session(agent).map_err(ConfigureError::NoSuchAgent)?;
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
                Some(Waiting::Prompt { message, .. }) if message.command().is_some() => {
                    if !self.fill() {
                        return;
                    }
                }
                Some(Waiting::Prompt { message, progress, asker, .. }) => {
                    *progress = Progress::Vetting;
                    let (message, asker) = (message.clone(), asker.clone());
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
                    let settings = self.next_settings.as_ref().unwrap_or(&self.services.settings);
                    if let (Some((names, answers)), Some(source)) = (settings.opens_for(changed), source) {
                        let (task, arriving) = open_models(names, answers, source);
                        *opening = Some(arriving);
                        return self.jobs.put_ready(Key::Side(SideJob::Line), task);
                    }
                    if let Some(Waiting::Change { changed, asker, .. }) = self.line.waiting.pop_front() {
                        self.change(changed, None, Vec::new(), asker);
                    }
                }
                Some(Waiting::Plan { asker, .. } | Waiting::Rewind { asker, .. }) if !self.session.is_at_rest() => {
                    asker.refuse(RewindError::MidTurn);
                    self.line.waiting.pop_front();
                }
                // A command came between.
                Some(Waiting::Plan { asker, .. } | Waiting::Rewind { asker, .. })
                    if self.session.shell().is_open() && self.session.rewinding().is_none() =>
                {
                    asker.refuse(RewindError::Shell);
                    self.line.waiting.pop_front();
                }
                // The snapshot after it is taken; with it this is looked at again.
                Some(Waiting::Plan { .. } | Waiting::Rewind { .. }) if self.session.shell().is_unsealed() => return,
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
        if self.expanded() || self.hooks_saw_command(&mut events) {
            self.move_up();
            return Ok(());
        }
        let is_done = |waiting: &mut Waiting| match waiting {
            Waiting::Prompt { progress, .. } => progress.has_job(),
            Waiting::Change { opening, .. } => opening.is_some(),
            Waiting::Plan { .. } => true,
            Waiting::Compact { .. } | Waiting::Rewind { .. } => false,
        };
        let done = self.line.waiting.pop_front_if(is_done);
        let is_heard = matches!(events.last(), Some(Event::UserSpoke { .. }));
        // It was sent twice while hooks looked at the first.
        events.retain(|event| !matches!(event, Event::UserSpoke { message, .. } if self.session.has_heard(message)));
        if !is_heard {
            self.record_all(std::mem::take(&mut events));
        }
        match done {
            Some(Waiting::Prompt { message: UserMessage { id, replaces, .. }, wait, asker, .. }) if is_heard => {
                self.hear_said(Said { id, replaces, wait, asker }, events);
            }
            Some(Waiting::Change { changed, opening, asker }) => {
                let opened = opening.and_then(|mut opening| opening.try_recv().ok());
                match opened.unwrap_or_else(|| Err("it was aborted".to_owned())) {
                    Ok(opened) => self.change(changed, Some(opened), Vec::new(), asker),
                    // An agent's model is a wish; a person's is not.
                    Err(why) if changed.agent.is_some() && changed.model.is_none() && changed.effort.is_none() => {
                        let notice = format!("the model of agent {} is unavailable: {why}", changed.agent());
                        self.change(changed, None, vec![notice], asker);
                    }
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

    /// Puts a change on record. A turn under way goes by what it can of it, and keeps the models, tools and agent it began with.
    fn change(
        &mut self,
        mut changed: Configure,
        mut opened: Option<OpenedModels>,
        mut notices: Vec<String>,
        asker: Asker,
    ) {
        notices.extend(opened.as_mut().map(|opened| std::mem::take(&mut opened.notices)).unwrap_or_default());
        match opened.as_mut() {
            Some(opened) if changed.model.is_some() => changed.model = Some(opened.names()),
            // Only the effort is another one.
            Some(opened) if changed.agent.is_none() => opened.keep_surroundings(),
            Some(_) | None => {}
        }
        changed.mode_before = self.settings_to_come().displaced_by(&changed);
        let (at_once, after_turn) = self.apply_change(&changed, opened);
        self.record(Event::SettingsChanged { changed: changed.clone(), by: ChangedBy::User, at_once });
        let configured = Configured { seq: self.recorder.last_seq(), changed, at_once, after_turn, notices };
        self.askers.tell_when_durable(asker, Reply::Configured(configured));
    }

    /// What holds from the next turn on.
    pub(super) fn settings_to_come(&self) -> &Settings {
        self.next_settings.as_ref().unwrap_or(&self.services.settings)
    }

    /// Goes by a change from here on: whether a turn under way takes some of it, and whether some of it waits for that turn's end.
    pub(super) fn apply_change(&mut self, changed: &Configure, opened: Option<OpenedModels>) -> (bool, bool) {
        let in_turn = self.session.is_in_turn();
        // Models that wait for the turn's end are what an effort was said of.
        let is_pending = in_turn && self.next_settings.is_some();
        let displaced = self.settings_to_come().displaced_by(changed);
        let (now, later) = changed.split();
        // Those in the background work between turns, too.
        if let Some(mode) = now.mode {
            let changed = Configure { mode: Some(mode), ..Configure::default() };
            self.services.tree.nursery.ask_all(&Request::Configure(changed));
        }
        if in_turn {
            let mut settings = self.services.settings.clone();
            let is_effort = changed.model.is_none() && changed.agent.is_none();
            let for_now = opened.clone().filter(|_| is_effort && !is_pending);
            settings.configure(&Configure { effort: now.effort.filter(|_| !is_pending), ..now.clone() }, for_now);
            settings.displaced.mode = displaced;
            let begins_to_plan = settings.plans() && !self.services.settings.plans();
            self.services.take(settings);
            // Its tool is there at once. When it is over, the turn keeps it: another beginning would be paid anew.
            if begins_to_plan {
                self.offer_anew();
            }
        }
        let after_turn = in_turn && (!later.is_empty() || (is_pending && now.effort.is_some()));
        if !in_turn || after_turn || is_pending {
            let mut settings = self.next_settings.take().unwrap_or_else(|| self.services.settings.clone());
            settings.configure(changed, opened);
            settings.displaced.mode = displaced;
            self.next_settings = Some(settings);
        }
        if !in_turn {
            self.settle_settings();
        }
        (in_turn && !now.is_empty(), after_turn)
    }

    /// Puts on record who the session is run by, where that is another agent than before, or its file is another one.
    pub(super) fn record_agent(&mut self) {
        // What a command asks is asked of its turn alone.
        let settings = self.settings_to_come();
        let (agent, had) = (&settings.agent, self.session.configured());
        let is_known = had.agent() == agent.name && (had.agent_hash == agent.hash || had.agent.is_none());
        if !is_known {
            let (name, agent_hash, mode_before) = (agent.name.clone(), agent.hash.clone(), settings.displaced.mode);
            let changed = Configure { agent: Some(name), agent_hash, mode_before, ..Configure::default() };
            self.record(Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false });
        }
    }

    /// Drops what was said and not let pass by hooks, and summaries and rewinds that were not begun. It is not put on record: who said it is told, or says it to the next
    /// writer where this one leaves.
    pub(super) fn drop_unheard(&mut self) {
        let begun = self.line.waiting.pop_front_if(|_| self.session.rewinding().is_some());
        if begun.is_none() && !matches!(self.line.waiting.front(), Some(Waiting::Change { .. })) {
            self.jobs.drop_side(SideJob::Line);
        }
        let policy = &self.services.settings.policy;
        let is_filling = |waiting: &Waiting| matches!(waiting, Waiting::Prompt { progress: Progress::Filling(_), .. });
        let own = match self.line.waiting.iter().any(is_filling) {
            true => "canceled before the message was accepted; the commands it ran are recorded".to_owned(),
            false => "canceled before the message was accepted; nothing was recorded".to_owned(),
        };
        let why = policy.replies.words.ending(TurnEnd::Canceled, None, policy, Some(own)).unwrap_or_default();
        let result = policy.replies.words.result(TurnEnd::Canceled, None, Some(&why), "");
        let is_change = |waiting: &Waiting| matches!(waiting, Waiting::Change { .. });
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = self.line.waiting.drain(..).partition(is_change);
        self.line.waiting = begun.into_iter().chain(kept).collect();
        for waiting in dropped.iter().filter(|_| self.stage != Stage::Closing) {
            let report = Report::not_begun(TurnEnd::Canceled, why.clone());
            let report = Box::new(Report { result: result.as_ref().into(), ..report });
            match waiting {
                Waiting::Prompt { asker, .. } => asker.refuse(EngineError::NotBegun(report)),
                Waiting::Compact { asker, .. } => asker.refuse(CompactError::Failed(STOPPED.to_owned())),
                Waiting::Plan { asker, .. } | Waiting::Rewind { asker, .. } => asker.refuse(RewindError::Stopped),
                Waiting::Change { .. } => {}
            }
        }
    }
}
