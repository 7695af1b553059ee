//! Compacts the context as [`crate::compaction`] plans it: checks the cost against the budget, and asks a model for the summary.
//!
//! After a restart the summary is asked for again; what the first asking may have used is on record
//! ([`Event::CompactionStarted`]). A cancel or a panic ends it as failed, with what it used. Between turns a person may want
//! it, too; then a restart ends it, since nobody waits for it any more who had asked for it.

use super::{JobContext, Step, Task};
use crate::compaction::{self, CompactError, Next, Progress, SharedBill, Summarised};
use crate::firewall::clean_frame;
use piton_core::budget::Short;
use piton_core::client::{Compact, Compacted};
use piton_core::event::{Event, Trigger, Why};
use std::sync::Arc;
use tracing::Instrument;

/// Why a compaction ends that a cancel cut off, or a client.
pub(crate) const STOPPED: &str = "it was stopped";

/// Prunes outputs, or asks for a summary.
pub(super) fn take_up(trigger: Trigger, cx: &mut JobContext<'_>) -> Step {
    if cx.session.is_compacting_at_rest() {
        return match next_at_rest(cx.session.focus(), cx) {
            Ok(asked) => Step::Start(summary_task(trigger, *measured(asked, cx), cx)),
            Err(why) => {
                let error = why.to_string();
                Step::Record(vec![Event::CompactionFailed { trigger, why: None, error, asked: None }])
            }
        };
    }
    match next(trigger, cx) {
        Next::Record(event) => Step::Record(vec![*event]),
        Next::Cannot(why) => Step::Record(vec![failed(trigger, why, cx)]),
        Next::Ask(asked) => match asked.estimate() {
            Ok(_) => Step::Start(summary_task(trigger, *asked, cx)),
            Err(Short { why, detail }) => {
                Step::Record(vec![Event::BudgetShort { step: cx.session.step(), why: Some(why), detail }])
            }
        },
    }
}

/// Asks for a summary.
fn summary_task(trigger: Trigger, asked: compaction::Task, cx: &JobContext<'_>) -> Task {
    let (cut_bill, broken_bill) = (Arc::clone(&asked.bill), Arc::clone(&asked.bill));
    let bill = Arc::clone(&asked.bill);
    let progress = Progress {
        world: cx.services.world.clone(),
        bus: cx.services.bus.clone(),
        step: cx.session.step(),
        session: cx.session.id().clone(),
        kin: cx.services.tree.kin.clone(),
    };
    let span = tracing::info_span!(target: "piton", "model_call", summary = true);
    let work = async move {
        let _at_work = progress.kin.clone().at_work().await;
        compaction::summarise(asked, progress).await
    };
    let task = Task::new(work.instrument(span), move |done, cx| match done {
        Some(done) => vec![summarised(done, cx)],
        None => vec![stopped(trigger, "nobody was there to be asked".to_owned(), &bill, cx)],
    });
    let task = task.when_cut(move |cx| vec![stopped(trigger, STOPPED.to_owned(), &cut_bill, cx)]);
    task.when_broken(move |why, cx| {
        let why = format!("the provider's answer could not be read: {why}");
        vec![stopped(trigger, why, &broken_bill, cx)]
    })
}

/// What is to be done, its requests measured.
fn next(trigger: Trigger, cx: &mut JobContext<'_>) -> Next {
    let model = cx.model();
    match compaction::next(cx.session, cx.frame(), &cx.services.settings, &model, trigger, None) {
        Next::Ask(asked) => Next::Ask(measured(asked, cx)),
        next => next,
    }
}

fn measured(mut asked: Box<compaction::Task>, cx: &mut JobContext<'_>) -> Box<compaction::Task> {
    let frame = cx.frame().clone();
    let prompts = &mut cx.memory.prompts;
    for asking in &mut asked.askings {
        for tried in &mut asking.tries {
            clean_frame(&mut tried.request, &cx.services.firewall);
            let (messages, is_own) = (&tried.request.messages, tried.is_own_prefix);
            tried.estimate = prompts.estimate_summary(cx.session, &frame, &*asking.model, messages, is_own);
        }
    }
    asked
}

fn failed(trigger: Trigger, why: CompactError, cx: &JobContext<'_>) -> Event {
    let (why, error) = match why {
        CompactError::Nothing => {
            (Some(Why::NothingToSumUp), "only the newest step is left, and it cannot be summarized".to_owned())
        }
        CompactError::Failed(error) => (None, error),
        other => (None, other.to_string()),
    };
    let trigger = if another_may_read_more(cx) { Trigger::Forced } else { trigger };
    Event::CompactionFailed { trigger, why, error, asked: None }
}

/// Whether the conversation is more than the model reads, and another one is there to be asked. By our own count: where
/// there is no other, the provider may judge; where there is, it is not sent to a server that might cut it silently.
fn another_may_read_more(cx: &JobContext<'_>) -> bool {
    let window = cx.model().limits().window_tokens;
    let is_too_long = window.is_some_and(|window| cx.session.context().used_tokens() > window);
    is_too_long && cx.session.fallbacks().next().is_some()
}

fn summarised(done: Summarised, cx: &mut JobContext<'_>) -> Event {
    let own = done.is_own_prefix && done.said.is_ok();
    let prompt = cx.memory.prompts.complete_summary(&done.usage(), &*done.model).filter(|_| own);
    done.event(prompt.map(Box::new))
}

/// It came to no end; what it may have used is not forgotten.
fn stopped(trigger: Trigger, error: String, bill: &SharedBill, cx: &mut JobContext<'_>) -> Event {
    cx.memory.prompts.cut();
    compaction::stopped(trigger, error, bill)
}

/// A killed process was at it.
pub(super) fn recover(trigger: Trigger, cx: &mut JobContext<'_>) -> Vec<Event> {
    match next(trigger, cx) {
        Next::Record(_) | Next::Cannot(_) => Vec::new(),
        Next::Ask(asked) => {
            let lost = asked.estimate().ok();
            lost.into_iter().map(|lost| Event::CompactionStarted { trigger, focus: None, lost: Some(lost) }).collect()
        }
    }
}

/// What a compaction comes to that a person wants between turns.
pub(crate) enum AtRest {
    /// This event.
    Record(Box<Event>),
    /// A model is asked.
    Ask,
}

/// Works out what a person wants: a summary of theirs in the place of the conversation, or of the one before, or one that a
/// model is asked for.
pub(crate) fn summary_at_rest(wanted: &Compact, cx: &JobContext<'_>) -> Result<AtRest, CompactError> {
    let (session, frame, settings) = (cx.session, cx.frame(), &cx.services.settings);
    let event = match &wanted.summary {
        Some(summary) if summary.trim().is_empty() => return Err(CompactError::Empty),
        Some(summary) if wanted.replace => {
            compaction::replaced(session, frame, settings, summary).ok_or(CompactError::NoSummary)?
        }
        Some(summary) => compaction::written(session, frame, settings, summary).ok_or(CompactError::Nothing)?,
        None => return next_at_rest(wanted.focus.as_deref(), cx).map(|_| AtRest::Ask),
    };
    Ok(AtRest::Record(Box::new(event)))
}

/// The summary that a person wants, by the model of the turns to come.
fn next_at_rest(focus: Option<&str>, cx: &JobContext<'_>) -> Result<Box<compaction::Task>, CompactError> {
    let settings = &cx.services.settings;
    match compaction::next(cx.session, cx.frame(), settings, &settings.model, Trigger::Asked, focus) {
        Next::Ask(asked) => Ok(asked),
        Next::Record(_) => Err(CompactError::Nothing),
        Next::Cannot(why) => Err(why),
    }
}

/// What it came to, for whoever wanted it.
pub(crate) fn compacted(event: &Event) -> Result<Compacted, CompactError> {
    match event {
        Event::CompactionFinished { summary, upto_seq, tokens_before, tokens_after, .. } => Ok(Compacted {
            summary: summary.clone(),
            upto_seq: *upto_seq,
            tokens_before: *tokens_before,
            tokens_after: *tokens_after,
        }),
        Event::CompactionFailed { error, .. } => Err(CompactError::Failed(error.clone())),
        _ => Err(CompactError::Nothing),
    }
}
