//! The driver's part in making room: it starts what [`crate::compaction`] has prepared and records what came of it.

use super::Driver;
use crate::compaction::{self, CompactError, Next, SharedBill, Summarised, Task, Told};
use crate::jobs::JobKey;
use crate::store::StoreError;
use piton_core::budget::Short;
use piton_core::client::{Compact, Compacted};
use piton_core::event::{Event, Trigger, Why};
use piton_core::hook::HookPoint;
use piton_core::turn::Job;
use std::sync::Arc;

impl Driver {
    /// Weighs a compaction that is about to be made: the event, if there is something to record instead.
    pub(super) fn weigh_compaction(&mut self) -> Option<Event> {
        if self.compaction.is_some() || self.jobs.is_running(&JobKey::Compact) {
            return None;
        }
        let trigger = self.wanted_compaction()?;
        let model = Arc::clone(self.model());
        match compaction::next(&self.session, self.frame(), &self.settings, &model, trigger, None) {
            Next::Record(event) => Some(*event),
            Next::Cannot(why) => {
                let (why, error) = match why {
                    CompactError::Nothing => (
                        Some(Why::NothingToSumUp),
                        "the newest step alone fills the window, and nothing is left to sum up".to_owned(),
                    ),
                    CompactError::Failed(error) => (None, error),
                    other => (None, other.to_string()),
                };
                let trigger = if self.another_may_read_more() { Trigger::Forced } else { trigger };
                Some(Event::CompactionFailed { trigger, why, error, asked: None })
            }
            Next::Ask(task) => {
                let task = self.weighed(task);
                match task.weigh() {
                    Ok(_) => {
                        self.compaction = Some(task);
                        None
                    }
                    Err(Short { why, detail }) => {
                        Some(Event::BudgetShort { step: self.session.step(), why: Some(why), detail })
                    }
                }
            }
        }
    }

    /// Whether the conversation is more than the model reads, and another one is there to be asked. By our own count: where
    /// there is no other, the provider may judge; where there is, it is not sent to a server that might cut it silently.
    fn another_may_read_more(&self) -> bool {
        let window = self.model().limits().window_tokens;
        let is_too_long = window.is_some_and(|window| self.session.context().used_tokens() > window);
        is_too_long && self.session.fallbacks().next().is_some()
    }

    pub(super) fn wanted_compaction(&self) -> Option<Trigger> {
        self.session.wanted().into_iter().find_map(|job| match job {
            Job::Compact(trigger) => Some(trigger),
            _ => None,
        })
    }

    /// Measures the requests for a summary.
    fn weighed(&mut self, mut task: Box<Task>) -> Box<Task> {
        let frame = self.frame().clone();
        for asking in &mut task.askings {
            for tried in &mut asking.tries {
                let (messages, is_own) = (&tried.request.messages, tried.is_own_prefix);
                tried.weight = self.prompts.weigh_summary(&self.session, &frame, &*asking.model, messages, is_own);
            }
        }
        task
    }

    /// Starts what was prepared.
    pub(super) fn start_compaction(&mut self) {
        if let Some(task) = self.compaction.take() {
            let trigger = self.wanted_compaction().unwrap_or(Trigger::Ordinary);
            let asking = self.asking(trigger, *task);
            self.jobs.summarise(asking);
        }
    }

    fn asking(
        &mut self,
        trigger: Trigger,
        task: Task,
    ) -> impl Future<Output = Option<Summarised>> + Send + use<> + 'static {
        self.summary_bill = Some((trigger, Arc::clone(&task.bill)));
        compaction::summarise(
            task,
            Told { world: self.world.clone(), bus: self.bus.clone(), step: self.session.step() },
        )
    }

    /// What came of it, as an event.
    pub(super) fn summarised(&mut self, done: Result<Box<Summarised>, String>) -> Event {
        match done {
            Ok(done) => {
                self.summary_bill = None;
                let own = done.is_own_prefix && done.said.is_ok();
                let prompt = self.prompts.complete_summary(&done.usage(), &*done.model).filter(|_| own);
                done.event(prompt.map(Box::new))
            }
            Err(error) => self.summary_cut(error),
        }
    }

    /// Asking for a summary was cut off; what it may have used is not forgotten.
    pub(super) fn summary_cut(&mut self, error: String) -> Event {
        self.prompts.cut();
        let (trigger, bill) = self.summary_bill.take().unwrap_or((Trigger::Ordinary, SharedBill::default()));
        compaction::stopped(trigger, error, &bill)
    }

    /// A compaction that a killed process was at is made again; what it may have used is not forgotten.
    pub(super) fn recover_compaction(&mut self) {
        let Some(trigger) = self.wanted_compaction() else { return };
        let weighed = self.weigh_compaction();
        let lost = self.compaction.take().and_then(|task| task.weigh().ok());
        if let (None, Some(lost)) = (weighed, lost) {
            self.record(Event::CompactionStarted { trigger, focus: None, lost: Some(lost) });
        }
    }

    /// Makes room between turns, because a person wants it.
    pub(super) async fn compact_at_rest(
        &mut self,
        Compact { focus, summary, replace }: Compact,
    ) -> Result<Result<Compacted, CompactError>, StoreError> {
        if summary.as_ref().is_some_and(|summary| summary.trim().is_empty()) {
            return Ok(Err(CompactError::Empty));
        }
        // Nobody is obeyed before this is durable: what was paid for must not be lost to words that came meanwhile.
        let event = match summary {
            Some(summary) if replace => {
                let event = compaction::replaced(&self.session, self.frame(), &self.settings, &summary);
                event.ok_or(CompactError::NoSummary)
            }
            Some(summary) => {
                compaction::written(&self.session, self.frame(), &self.settings, &summary).ok_or(CompactError::Nothing)
            }
            None => self.ask_at_rest(focus).await?,
        };
        if let Ok(event) = &event {
            self.record(event.clone());
            self.commit().await?;
        }
        Ok(event.and_then(|event| match event {
            Event::CompactionFinished { summary, upto_seq, tokens_before, tokens_after, .. } => {
                Ok(Compacted { summary, upto_seq, tokens_before, tokens_after })
            }
            Event::CompactionFailed { error, .. } => Err(CompactError::Failed(error)),
            _ => Err(CompactError::Nothing),
        }))
    }

    /// The event that asking for a summary ends in.
    async fn ask_at_rest(&mut self, focus: Option<String>) -> Result<Result<Event, CompactError>, StoreError> {
        /// What is told where somebody wanted it so.
        const STOPPED: &str = "it was stopped";
        let model = Arc::clone(&self.settings.model);
        let trigger = Trigger::Asked;
        let next = compaction::next(&self.session, self.frame(), &self.settings, &model, trigger, focus.as_deref());
        let task = match next {
            Next::Ask(task) => self.weighed(task),
            Next::Record(_) => return Ok(Err(CompactError::Nothing)),
            Next::Cannot(why) => return Ok(Err(why)),
        };
        if self.hooks.want(HookPoint::BeforeCompaction) {
            let (hooks, cx) = (self.hooks.clone(), self.hook_context());
            let Some((gated, refused)) = self.requests.unless_stopped(hooks.before_compaction(&cx, trigger)).await
            else {
                return Ok(Err(CompactError::Failed(STOPPED.to_owned())));
            };
            let stopped = gated.stopped.clone();
            self.record_hooks(gated);
            if let Some(why) = stopped.or(refused) {
                return Ok(Err(CompactError::Failed(why)));
            }
        }
        self.record(Event::CompactionStarted { trigger, focus, lost: None });
        self.commit().await?;
        let asking = self.asking(trigger, *task);
        let event = match self.requests.unless_stopped(asking).await {
            Some(Some(done)) => self.summarised(Ok(Box::new(done))),
            Some(None) | None => self.summary_cut(STOPPED.to_owned()),
        };
        Ok(Ok(event))
    }

    /// Notes how much the model reads, where it became known only now.
    pub(super) fn learn_window(&mut self) {
        if self.session.is_in_turn() && self.session.context().full_at_tokens().is_none() {
            let known = self.full_at(self.session.model());
            known.into_iter().for_each(|compact_at_tokens| self.record(Event::WindowLearned { compact_at_tokens }));
        }
    }

    /// Another model goes on, perhaps, or by other rules: what its window is counts from here on.
    pub(super) fn measure_window(&mut self) {
        let known = self.full_at(self.session.model());
        if let Some(compact_at_tokens) = known.filter(|known| self.session.context().full_at_tokens() != Some(*known)) {
            self.record(Event::WindowLearned { compact_at_tokens });
        }
    }

    /// From how many tokens on the context of the model is full.
    pub(super) fn full_at(&self, name: &str) -> Option<u64> {
        let chain = std::iter::once(&self.settings.model).chain(&self.settings.fallbacks);
        let model = chain.into_iter().find(|model| model.name() == name)?;
        compaction::full_at(&self.settings.policy.compaction.rules, &**model)
    }
}
