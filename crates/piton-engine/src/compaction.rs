//! Making room in the context: what is pruned, what is summed up, and who is asked for the summary. What it means for
//! the conversation is in [`piton_core::compact`] and the turn machine; here it is carried out.
//!
//! The model is asked with the very request that the next step would send, and one message more: the provider has all
//! of it in its cache. Only where that does not fit (the provider has said so, or a smaller model is asked) is the
//! conversation shortened first.

mod shorten;
#[cfg(test)]
mod tests;

use crate::engine::Settings;
use crate::journal::JournalError;
use crate::prompt;
use futures_util::StreamExt;
use piton_core::budget::Bound;
use piton_core::call::Outcome;
use piton_core::compact::{self, Compaction, Dropped, Family, Keep, Output, Plan, WithoutSummary, of_message};
use piton_core::event::{Event, Trigger};
use piton_core::ids::{CallId, Seq};
use piton_core::limits::Policy;
use piton_core::message::{FinishReason, Message, Part, Role, Usage, prose};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::request::{self, Frame};
use piton_core::retry;
use piton_core::turn::Session;
use piton_models::model::Model;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Called when a summary has taken the place of a conversation, with the workspace. What it returns is told to the
/// model beside the summary: instructions and skills in force, read anew.
pub type AfterCompaction = Arc<dyn Fn(&Path) -> Option<String> + Send + Sync>;

/// What of a full context may be left when pruning alone has made room, in percent: with more, the next step would be
/// full again.
const PRUNED_MOST_PERCENT: u64 = 80;

/// How a person makes room between turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Ask the model for a summary, one that dwells on something where that is said.
    Ask {
        /// What it shall dwell on.
        focus: Option<String>,
    },
    /// Take this text for the model's part of it.
    Write {
        /// The text.
        summary: String,
    },
    /// Change the whole summary that there is.
    Replace {
        /// The whole of it, as the model shall read it.
        summary: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The whole summary, as the model reads it.
    pub summary: String,
    /// The last event that it stands for.
    pub upto_seq: Seq,
    /// Tokens of the context before, roughly.
    pub tokens_before: u64,
    /// Tokens of the context now, roughly.
    pub tokens_after: u64,
}

/// Why no room was made.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// A turn is under way, or was cut off.
    #[error("a turn is under way: room is made between turns, or by itself when the context is full")]
    MidTurn,
    /// There is nothing to sum up.
    #[error("there is nothing to sum up: the conversation is as short as it can be")]
    Nothing,
    /// There is no summary to change.
    #[error("the conversation has no summary yet that could be changed")]
    NoSummary,
    /// The text for it is empty.
    #[error("the summary is empty; the conversation stays as it is")]
    Empty,
    /// The model made none.
    #[error("no summary could be made, and the conversation stays as it is: {0}")]
    Failed(String),
    /// The journal could not be written; nothing more is done in the session. It can be resumed.
    #[error(transparent)]
    Broken(Arc<JournalError>),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
}

/// What is to be done about a full context.
pub(crate) enum Next {
    /// Record this: outputs are pruned, or nothing can be done.
    Record(Box<Event>),
    /// Ask for a summary.
    Ask(Box<Task>),
}

/// A summary to be asked for.
pub(crate) struct Task {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) sketch: Sketch,
    /// The request as it is, and shorter ones for where that does not fit; the first is tried first.
    requests: Vec<Request>,
    /// Whether the first of them begins as the session's own requests do.
    pub(crate) is_own_prefix: bool,
    retry: retry::RetryPolicy,
    /// What one call can use at most.
    pub(crate) at_most: Bound,
}

/// All of a compaction but the model's words.
pub(crate) struct Sketch {
    trigger: Trigger,
    dropped: Dropped,
    words_tokens: u64,
    family: Family,
    without_summary: WithoutSummary,
    tokens_before: u64,
    /// Tokens of what stays: frame, newest steps.
    tokens_kept: u64,
    note: Option<String>,
}

/// What came of asking.
pub(crate) struct Summarised {
    pub(crate) sketch: Sketch,
    pub(crate) said: Result<String, String>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) attempts: u32,
    pub(crate) usage: Usage,
    pub(crate) cost_micros: Option<u64>,
    pub(crate) at_most: Option<Bound>,
    /// Whether it was the first request, the one that the cache knows, and no other.
    pub(crate) is_own_prefix: bool,
}

/// The rules by which room is made: of the turn under way, or those that a new one would have.
pub(crate) fn rules(session: &Session, settings: &Settings) -> Compaction {
    let policy: &Policy = if session.is_in_turn() { session.policy() } else { &settings.policy };
    policy.compaction.clone()
}

/// What system prompt and tools take, roughly.
pub(crate) fn frame_tokens(frame: &Frame, model: &str) -> u64 {
    let family = Family::of(model);
    let tools = frame.tools.iter().map(|tool| {
        family.of_bytes(tool.name.len() + tool.description.len()) + compact::of_value(family, &tool.schema)
    });
    family.of_bytes(frame.system.len()) + tools.sum::<u64>()
}

/// From how many tokens on the context of a model counts as full.
pub(crate) fn full_at(rules: &Compaction, model: &dyn Model) -> Option<u64> {
    let limits = model.limits();
    let output = limits.max_output_tokens.map(u64::from);
    rules.full_at(compact::Window { context: limits.window_tokens, input: None, output })
}

/// The context, measured.
struct Measured<'a> {
    session: &'a Session,
    rules: Compaction,
    family: Family,
    /// Tokens of each message by our own estimate.
    sizes: Vec<u64>,
    frame: u64,
    used: u64,
    /// By how much the provider counts more than we do.
    scale: f64,
    /// Tokens that the context has room for.
    room: u64,
}

impl<'a> Measured<'a> {
    fn of(session: &'a Session, frame: &Frame, model: &dyn Model, rules: Compaction, trigger: Trigger) -> Self {
        let family = Family::of(model.name());
        let sizes: Vec<u64> = session.entries().iter().map(|entry| of_message(family, &entry.message)).collect();
        let frame = frame_tokens(frame, model.name());
        let estimate = frame + sizes.iter().sum::<u64>();
        let used = session.room().used_tokens().max(1);
        let scale = (used as f64 / estimate.max(1) as f64).clamp(0.5, 3.0);
        let full_at = session.room().full_at_tokens().or_else(|| full_at(&rules, model)).unwrap_or(used);
        let room = match trigger {
            Trigger::Ordinary => full_at,
            // It does not fit, whatever we thought of the window.
            Trigger::Forced => full_at.min(used * 2 / 3),
            Trigger::Asked | Trigger::Edited => full_at.min(used),
        };
        Self { session, rules, family, sizes, frame, used, scale, room }
    }

    fn scaled(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.scale) as u64
    }

    /// Calls whose outputs go, and the tokens that this frees.
    fn prunable(&self) -> (Vec<CallId>, u64) {
        let room = self.session.room();
        let (mut turns_since, mut outputs, mut calls) = (0, Vec::new(), Vec::new());
        for entry in self.session.entries().iter().rev() {
            for part in entry.message.parts.iter().rev() {
                let Part::ToolResult { call, tool, outcome } = part else { continue };
                let Outcome { status, text, .. } = outcome;
                let pruned = room.is_pruned(call);
                let tokens = self.scaled(self.family.of_bytes(text.len()));
                outputs.push(Output { tool, tokens, turns_since, failed: status.is_error(), pruned });
                calls.push((call, tokens));
            }
            turns_since += u32::from(entry.message.role == Role::User && entry.message.id.is_some());
        }
        /// What a stub takes.
        const STUB_TOKENS: u64 = 50;
        let chosen = compact::select(&self.rules.prune, outputs);
        let freed = chosen.iter().map(|place| calls[*place].1.saturating_sub(STUB_TOKENS)).sum();
        (chosen.iter().map(|place| calls[*place].0.clone()).collect(), freed)
    }

    /// How much is summed up.
    fn plan(&self, trigger: Trigger) -> Option<Plan> {
        let entries = self.session.entries();
        let begins_turn = |message: &Message| message.role == Role::User && message.id.is_some();
        let by_tokens = |most: u64| {
            let may_begin = |place: usize| {
                let is_new_event = place == 0 || entries[place - 1].seq < entries[place].seq;
                entries[place].message.role != Role::Tool && is_new_event
            };
            let most = (most as f64 / self.scale) as u64;
            compact::by_tokens(&self.sizes, may_begin, most)
        };
        let plan = match self.rules.keep {
            Keep::Turns { turns, .. } => {
                let begins: Vec<bool> = entries.iter().map(|entry| begins_turn(&entry.message)).collect();
                compact::by_turns(&begins, turns, trigger != Trigger::Ordinary).or_else(|| by_tokens(self.room / 4))
            }
            Keep::Tokens { .. } | Keep::Nothing => {
                let kept = self.rules.kept_tokens(self.room);
                by_tokens(if trigger == Trigger::Asked { kept.min(self.used / 4) } else { kept })
            }
        };
        plan.filter(|plan| self.frees_something(*plan))
    }

    /// A summary of nothing but a summary says nothing new, and one of words that it repeats is no shorter.
    fn frees_something(&self, plan: Plan) -> bool {
        let has_summary = usize::from(self.session.room().summary().is_some());
        let going = has_summary..plan.summed_up;
        let words = &self.session.entries()[..plan.summed_up];
        let is_repeated = words.iter().skip(has_summary).all(|entry| entry.message.role == Role::User)
            && self.sizes[..plan.summed_up].iter().skip(has_summary).sum::<u64>() <= self.rules.user_words(self.room);
        !going.is_empty() && !is_repeated
    }

    fn sketch(&self, trigger: Trigger, plan: Plan, settings: &Settings) -> Sketch {
        let kept: u64 = self.sizes[plan.summed_up..].iter().sum();
        let note = note(self.session, settings);
        let noted = note.as_ref().map_or(0, |note| self.family.of_bytes(note.len()));
        Sketch {
            trigger,
            dropped: self.session.room().dropped(plan.summed_up),
            words_tokens: self.rules.user_words(self.room),
            family: self.family,
            without_summary: self.rules.without_summary,
            tokens_before: self.used,
            tokens_kept: self.scaled(self.frame + kept + noted),
            note,
        }
    }
}

/// What the embedder wants told anew after a compaction. Where it is and which instructions hold, the model hears at
/// the next step, from [`crate::context`].
fn note(session: &Session, settings: &Settings) -> Option<String> {
    settings.after_compaction.as_ref().and_then(|after| after(Path::new(session.workspace())))
}

/// What is to be done now that room is needed.
pub(crate) fn next(
    session: &Session,
    frame: &Frame,
    settings: &Settings,
    model: &Arc<dyn Model>,
    trigger: Trigger,
    focus: Option<&str>,
) -> Next {
    let measured = Measured::of(session, frame, &**model, rules(session, settings), trigger);
    if let Some(event) = prune(&measured, trigger) {
        return Next::Record(Box::new(event));
    }
    let Some(plan) = measured.plan(trigger) else {
        let error = "there is nothing left to sum up: the newest step alone fills the window. Start a new session, or \
                     take a model with a larger window";
        let failed = Event::CompactionFailed { trigger, error: error.to_owned(), asked: None };
        return Next::Record(Box::new(failed));
    };
    let smaller = settings.compaction_model.as_ref().filter(|model| fits(&***model, measured.used));
    let is_own_prefix = smaller.is_none();
    let model = Arc::clone(smaller.unwrap_or(model));
    let room = model.limits().window_tokens.unwrap_or(measured.room);
    let mut whole = request::build_for(session, frame, model.name());
    whole.may_call = true;
    whole.max_output_tokens = Some(measured.rules.summary(room));
    let last = Part::Note { text: compact::instruction(focus) };
    let requests = shorten::requests(&whole, &last, measured.family, measured.used, trigger == Trigger::Forced);
    let retry = session.policy().retry.clone();
    let sketch = measured.sketch(trigger, plan, settings);
    let at_most = Bound::default();
    Next::Ask(Box::new(Task { model, sketch, requests, is_own_prefix, retry, at_most }))
}

/// The outputs that go, if that makes room enough, or room for the request for a summary.
fn prune(measured: &Measured<'_>, trigger: Trigger) -> Option<Event> {
    if matches!(trigger, Trigger::Asked | Trigger::Edited) {
        return None;
    }
    let (calls, freed) = measured.prunable();
    let tokens_after = measured.used.saturating_sub(freed);
    let full_at = measured.session.room().full_at_tokens().unwrap_or(measured.used);
    let suffices = tokens_after <= full_at.min(measured.used) * PRUNED_MOST_PERCENT / 100;
    // What does not suffice would cost the cache, and the summary all the same.
    let helps = suffices || trigger == Trigger::Forced;
    let tokens_before = measured.used;
    (!calls.is_empty() && helps).then_some(Event::ContextPruned { calls, tokens_before, tokens_after, suffices })
}

fn fits(model: &dyn Model, tokens: u64) -> bool {
    model.limits().window_tokens.is_none_or(|window| tokens.saturating_add(tokens / 10) < window)
}

/// What a person has written stands for the conversation so far. `None` where there is nothing to sum up.
pub(crate) fn written(session: &Session, frame: &Frame, settings: &Settings, summary: &str) -> Option<Event> {
    let model = &*settings.model;
    let measured = Measured::of(session, frame, model, rules(session, settings), Trigger::Asked);
    let sketch = measured.sketch(Trigger::Asked, measured.plan(Trigger::Asked)?, settings);
    Some(sketch.finished(summary, None))
}

/// The whole summary is another one from here on. `None` where there is none.
pub(crate) fn replaced(session: &Session, frame: &Frame, settings: &Settings, summary: &str) -> Option<Event> {
    let measured = Measured::of(session, frame, &*settings.model, rules(session, settings), Trigger::Edited);
    let (before, upto_seq) = session.room().summary()?;
    let tokens = |text: &str| measured.scaled(measured.family.of_bytes(text.len()));
    let tokens_after = measured.used.saturating_sub(tokens(before)).saturating_add(tokens(summary));
    Some(Event::CompactionFinished {
        trigger: Trigger::Edited,
        upto_seq,
        summary: summary.to_owned(),
        tokens_before: measured.used,
        tokens_after,
        note: note(session, settings),
        asked: None,
    })
}

impl Sketch {
    /// The event that the model's words, or a person's, complete. A text that is a whole summary is taken as it is.
    pub(crate) fn finished(self, said: &str, asked: Option<Box<piton_core::event::Asked>>) -> Event {
        let summary = match said.trim_start().starts_with(compact::MARK) {
            true => said.trim().to_owned(),
            false => compact::text(&self.dropped, said, self.words_tokens, self.family),
        };
        let tokens_after = self.tokens_kept + self.family.of_bytes(summary.len());
        Event::CompactionFinished {
            trigger: self.trigger,
            upto_seq: self.dropped.upto,
            summary,
            tokens_before: self.tokens_before,
            tokens_after,
            note: self.note,
            asked,
        }
    }
}

impl Task {
    /// The request that is tried first.
    pub(crate) fn request(&mut self) -> &mut Request {
        &mut self.requests[0]
    }

    /// Keeps the reply of all requests to what a budget leaves.
    pub(crate) fn cap(&mut self, most: Option<u32>) {
        for request in &mut self.requests {
            request.max_output_tokens = request.max_output_tokens.into_iter().chain(most).min();
        }
    }
}

impl Summarised {
    /// The event that it ends in.
    pub(crate) fn event(self, prompt: Option<Box<piton_core::cache::Prompt>>) -> Event {
        let asked = Some(Box::new(piton_core::event::Asked {
            model: self.model.name().to_owned(),
            attempts: self.attempts,
            usage: self.usage,
            cost_micros: self.cost_micros,
            at_most: self.at_most,
            prompt,
        }));
        match self.said {
            Ok(said) => self.sketch.finished(&said, asked),
            Err(error) => Event::CompactionFailed { trigger: self.sketch.trigger, error, asked },
        }
    }
}

/// Asks for a summary, again where the provider fails or the model does something else.
pub(crate) async fn summarise(task: Task) -> Summarised {
    let Task { model, sketch, requests, is_own_prefix, retry, at_most } = task;
    let mut requests = requests.into_iter();
    let first = requests.next();
    let mut done = Summarised {
        sketch,
        said: Err("the conversation does not fit the model's window".to_owned()),
        model,
        attempts: 0,
        usage: Usage::default(),
        cost_micros: None,
        at_most: None,
        is_own_prefix,
    };
    let Some(mut request) = first else { return done };
    let (mut failures, mut oddities) = (0, 0);
    loop {
        done.attempts += 1;
        match ask(&*done.model, request.clone()).await {
            Ok(reply) => {
                done.count(&reply.usage, reply.is_counted(), at_most);
                let Err(why) = taken(&reply) else {
                    done.said = taken(&reply);
                    return done;
                };
                oddities += 1;
                if oddities > 1 {
                    done.said = done.sketch.without(&why);
                    return done;
                }
                // Some providers keep messages apart by this, so it is not said at once.
                (request.may_call, done.is_own_prefix) = (false, false);
            }
            Err(error) => {
                if error.kind.may_be_billed() {
                    done.count(&Usage::default(), false, at_most);
                }
                let shorter = if error.kind == ModelErrorKind::WindowExceeded { requests.next() } else { None };
                if let Some(shorter) = shorter {
                    (request, done.is_own_prefix) = (shorter, false);
                    continue;
                }
                failures += 1;
                let Some(wait_ms) = retry::wait_ms(&retry, &error, failures, failures, fastrand::u64(0..=1000)) else {
                    done.said = Err(error.message);
                    return done;
                };
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
        }
    }
}

impl Summarised {
    fn count(&mut self, usage: &Usage, is_counted: bool, at_most: Bound) {
        self.usage.add(usage);
        if !is_counted {
            self.at_most.get_or_insert_default().add(&at_most);
        }
        if let Some(cost) = prompt::cost(&*self.model, usage, is_counted) {
            *self.cost_micros.get_or_insert(0) += cost;
        }
    }
}

impl Sketch {
    fn without(&self, why: &str) -> Result<String, String> {
        match self.without_summary {
            WithoutSummary::Fail => Err(format!("asked for a summary twice, {why}")),
            WithoutSummary::OwnWords => Ok(format!("(No summary of the rest could be had: {why}.)")),
        }
    }
}

/// The model's words, if they are what was asked for.
fn taken(reply: &Reply) -> Result<String, String> {
    let text = prose(&reply.parts);
    let calls = reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    match reply.finish {
        FinishReason::ContentFilter => Err("the provider's filter stopped it".to_owned()),
        FinishReason::Error => Err("the provider ended it with an error".to_owned()),
        _ if calls => Err("the model called tools instead".to_owned()),
        _ if text.trim().is_empty() => Err("the model said nothing".to_owned()),
        FinishReason::Length => Ok(format!("{}\n[The summary was cut here, at its longest.]", text.trim())),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Paused | FinishReason::Other => {
            Ok(text.trim().to_owned())
        }
    }
}

async fn ask(model: &dyn Model, request: Request) -> Result<Reply, ModelError> {
    let mut stream = model.stream(request);
    while let Some(event) = stream.next().await {
        if let ModelEvent::Done(reply) = event? {
            return Ok(*reply);
        }
    }
    Err(ModelError::new(ModelErrorKind::CutStream, "the model's stream ended without an end"))
}
