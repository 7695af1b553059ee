//! The driver's part in making room: it starts what [`crate::compaction`] has prepared and records what came of it.

use super::{Command, Driver};
use crate::compaction::{self, CompactError, Compacted, How, Next, Summarised, Task};
use crate::jobs::JobKey;
use crate::journal::JournalError;
use piton_core::event::{Asked, Event, Trigger};
use piton_core::message::Usage;
use piton_core::turn::Job;
use std::sync::Arc;

impl Driver {
    /// Weighs a compaction that is about to be made: the event, if there is something to record instead.
    pub(super) fn weigh_compaction(&mut self) -> Option<Event> {
        // Hooks see it first.
        if self.is_to_be_announced() { None } else { self.prepare_compaction() }
    }

    fn prepare_compaction(&mut self) -> Option<Event> {
        if self.compaction.is_some() || self.jobs.is_running(&JobKey::Compact) {
            return None;
        }
        let trigger = self.wanted_compaction()?;
        let model = Arc::clone(self.model());
        match compaction::next(&self.session, &self.frame, &self.settings, &model, trigger, None) {
            Next::Record(event) => Some(*event),
            Next::Ask(mut task) => match self.permit(&mut task) {
                Ok(()) => {
                    self.compaction = Some(task);
                    None
                }
                Err(detail) => Some(Event::BudgetShort { step: self.session.step(), detail }),
            },
        }
    }

    fn wanted_compaction(&self) -> Option<Trigger> {
        self.session.wanted().into_iter().find_map(|job| match job {
            Job::Compact(trigger) => Some(trigger),
            _ => None,
        })
    }

    /// Measures the request for a summary, and keeps it to what the budget of its turn leaves.
    fn permit(&mut self, task: &mut Task) -> Result<(), String> {
        let model = Arc::clone(&task.model);
        let (is_own, messages) = (task.is_own_prefix, task.request().messages.clone());
        let most = task.request().max_output_tokens;
        let permitted = self.prompts.permit_summary(&self.session, &self.frame, &*model, &messages, most, is_own)?;
        task.at_most = permitted.at_most;
        task.cap(permitted.most);
        Ok(())
    }

    /// Starts what was prepared.
    pub(super) fn start_compaction(&mut self) {
        if let Some(task) = self.compaction.take() {
            self.jobs.summarise(compaction::summarise(*task));
        }
    }

    /// What came of it, as an event.
    pub(super) fn summarised(&mut self, done: Result<Box<Summarised>, String>) -> Event {
        match done {
            Ok(done) => {
                let own = done.is_own_prefix && done.said.is_ok();
                let prompt = self.prompts.complete_summary(&done.usage, &*done.model).filter(|_| own);
                done.event(prompt.map(Box::new))
            }
            Err(error) => {
                let trigger = self.wanted_compaction().unwrap_or(Trigger::Ordinary);
                Event::CompactionFailed { trigger, error, asked: None }
            }
        }
    }

    /// A compaction that a killed process was at is made again; what it may have used is not forgotten.
    pub(super) fn recover_compaction(&mut self) {
        let Some(trigger) = self.wanted_compaction() else { return };
        let weighed = self.prepare_compaction();
        let lost = self.compaction.take().map(|task| task.at_most);
        if let (None, Some(lost)) = (weighed, lost) {
            self.record(Event::CompactionStarted { trigger, focus: None, lost: Some(lost) });
        }
    }

    /// Makes room between turns, because a person wants it.
    pub(super) async fn compact_at_rest(&mut self, how: How) -> Result<Result<Compacted, CompactError>, JournalError> {
        let is_empty = match &how {
            How::Write { summary } | How::Replace { summary } => summary.trim().is_empty(),
            How::Ask { .. } => false,
        };
        if is_empty {
            return Ok(Err(CompactError::Empty));
        }
        // Nobody is obeyed before this is durable: what was paid for must not be lost to words that came meanwhile.
        let mut later = Vec::new();
        let event = match how {
            How::Write { summary } => {
                compaction::written(&self.session, &self.frame, &self.settings, &summary).ok_or(CompactError::Nothing)
            }
            How::Replace { summary } => {
                let event = compaction::replaced(&self.session, &self.frame, &self.settings, &summary);
                event.ok_or(CompactError::NoSummary)
            }
            How::Ask { focus } => self.ask_at_rest(focus, &mut later).await?,
        };
        if let Ok(event) = &event {
            self.record(event.clone());
            self.commit().await?;
        }
        for command in later {
            self.obey(command).await;
        }
        Ok(event.and_then(|event| match event {
            Event::CompactionFinished { summary, upto_seq, tokens_before, tokens_after, .. } => {
                Ok(Compacted { summary, upto_seq, tokens_before, tokens_after })
            }
            Event::CompactionFailed { error, .. } => Err(CompactError::Failed(error)),
            _ => Err(CompactError::Nothing),
        }))
    }

    /// The event that asking for a summary ends in, and the commands that came meanwhile.
    async fn ask_at_rest(
        &mut self,
        focus: Option<String>,
        later: &mut Vec<Command>,
    ) -> Result<Result<Event, CompactError>, JournalError> {
        let model = Arc::clone(&self.settings.model);
        let trigger = Trigger::Asked;
        let next = compaction::next(&self.session, &self.frame, &self.settings, &model, trigger, focus.as_deref());
        let mut task = match next {
            Next::Ask(task) => task,
            Next::Record(_) => return Ok(Err(CompactError::Nothing)),
        };
        // Of no turn, and of no turn's budget.
        if let Err(detail) = self.permit(&mut task) {
            return Ok(Err(CompactError::Failed(detail)));
        }
        if self.is_to_be_announced() {
            let (hooks, cx) = (self.hooks.clone(), self.hook_context());
            let gated = hooks.before_compaction(&cx, false).await;
            let stopped = gated.stopped.clone();
            self.record_hooks(gated);
            if let Some(why) = stopped {
                return Ok(Err(CompactError::Failed(why)));
            }
        }
        let (model, at_most) = (Arc::clone(&task.model), task.at_most);
        self.record(Event::CompactionStarted { trigger, focus, lost: None });
        self.commit().await?;
        let asking = compaction::summarise(*task);
        tokio::pin!(asking);
        let done = loop {
            tokio::select! {
                done = &mut asking => break Some(done),
                command = self.inbox.recv() => match command {
                    None | Some(Command::Cancel(_) | Command::Stop { .. }) => break None,
                    Some(Command::Close) => {
                        later.push(Command::Close);
                        break None;
                    }
                    Some(command) => later.push(command),
                },
            }
        };
        let event = match done {
            Some(done) => self.summarised(Ok(Box::new(done))),
            None => {
                let asked = Asked {
                    model: model.name().to_owned(),
                    attempts: 1,
                    usage: Usage::default(),
                    cost_micros: None,
                    at_most: Some(at_most),
                    prompt: None,
                };
                let error = "it was stopped".to_owned();
                Event::CompactionFailed { trigger, error, asked: Some(Box::new(asked)) }
            }
        };
        Ok(Ok(event))
    }

    /// Notes how much the model reads, where it became known only now.
    pub(super) fn learn_window(&mut self) {
        if self.session.is_in_turn() && self.session.room().full_at_tokens().is_none() {
            let known = self.full_at(self.session.model());
            known.into_iter().for_each(|compact_at_tokens| self.record(Event::WindowLearned { compact_at_tokens }));
        }
    }

    /// From how many tokens on the context of the model is full.
    pub(super) fn full_at(&self, name: &str) -> Option<u64> {
        let chain = std::iter::once(&self.settings.model).chain(&self.settings.fallbacks);
        let model = chain.into_iter().find(|model| model.name() == name)?;
        compaction::full_at(&self.settings.policy.compaction, &**model)
    }
}
