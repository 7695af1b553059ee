//! Compaction: which outputs are pruned, what is summarized, and which model writes the summary. Its effect on the
//! conversation is in [`piton_core::compact`] and the turn machine.
//!
//! The model is asked with the very request that the next step would send, and one message more: the provider has all
//! of it in its cache. Only where that does not fit (the provider has said so, or a smaller model is asked) is the
//! conversation shortened first.

mod asking;
mod shorten;
#[cfg(test)]
mod tests;

pub(crate) use self::asking::{Progress, SharedBill, Summarised, Task, stopped, summarise};

use self::asking::{Asking, Try};
pub use crate::error::CompactError;
pub use crate::settings::AfterCompaction;

use crate::prompt::CostEstimate;
use crate::settings::Settings;
use piton_core::call::Outcome;
use piton_core::compact::{
    self, Compaction, CompactionPlan, Dropped, Family, KeepRecent, Made, PrunableOutput, WithoutSummary, of_message,
};
use piton_core::event::{Event, SummaryCall, Trigger};
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role};
use piton_core::policy::Policy;
use piton_core::request::{self, Frame};
use piton_core::skill;
use piton_core::turn::State;
use piton_models::model::Model;
use std::path::Path;
use std::sync::Arc;

/// What of a full context may be left when pruning alone has made room, in percent: with more, the next step would be
/// full again.
const PRUNED_MOST_PERCENT: u64 = 80;
/// What of the room the newest step may take, in percent: the summary stands beside it. Outputs that are longer are
/// clipped.
const NEWEST_MOST_PERCENT: u64 = 50;
/// What of the room the skills may take that are put back, in percent.
const SKILLS_MOST_PERCENT: u64 = 25;
/// Bytes of an output that stay in any case.
const CLIPPED_LEAST_BYTES: u64 = 1_000;

/// What is to be done about a full context.
pub(crate) enum Next {
    /// Record this: outputs are pruned.
    Record(Box<Event>),
    /// Ask for a summary.
    Ask(Box<Task>),
    /// Nothing can be done.
    Cannot(CompactError),
}

/// All of a compaction but the model's words.
pub(crate) struct Sketch {
    trigger: Trigger,
    dropped: Dropped,
    words_tokens: u64,
    family: Family,
    rules: Compaction,
    /// How much the model reads, where anybody knows.
    window_tokens: Option<u64>,
    tokens_before: u64,
    /// Tokens of what stays: frame, newest steps.
    tokens_kept: u64,
    note: Option<String>,
}

/// The rules of compaction: of the turn under way, or of the next one.
pub(crate) fn rules(session: &State, settings: &Settings) -> Compaction {
    let policy: &Policy = if session.is_in_turn() { session.policy() } else { &settings.policy };
    policy.compaction.rules.clone()
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
    rules.full_at(compact::ModelWindow { context: limits.window_tokens, input: None, output })
}

/// The context, measured.
struct Measured<'a> {
    session: &'a State,
    rules: Compaction,
    family: Family,
    /// Tokens of each message by our own estimate.
    sizes: Vec<u64>,
    frame: u64,
    used: u64,
    /// Tokens of what joins the conversation with the next step.
    joining: u64,
    window_tokens: Option<u64>,
    /// By how much the provider counts more than we do.
    scale: f64,
    /// Tokens that the context has room for.
    room: u64,
}

impl<'a> Measured<'a> {
    fn of(session: &'a State, frame: &Frame, model: &dyn Model, rules: Compaction, trigger: Trigger) -> Self {
        let family = Family::of(model.name());
        let sizes: Vec<u64> = session.entries().iter().map(|entry| of_message(family, &entry.message)).collect();
        let frame = frame_tokens(frame, model.name());
        let estimate = frame + sizes.iter().sum::<u64>();
        // A server that counts less than half of what is there does not count at all.
        let used = session.context().held_tokens().max(estimate / 2).max(1);
        let joining = session.context().used_tokens().saturating_sub(used);
        let scale = (used as f64 / estimate.max(1) as f64).clamp(0.5, 3.0);
        let full_at = session.context().full_at_tokens().or_else(|| full_at(&rules, model)).unwrap_or(used);
        let room = match trigger {
            Trigger::Ordinary => full_at,
            // It does not fit, whatever we thought of the window.
            Trigger::Forced => full_at.min(used * 2 / 3),
            Trigger::Asked | Trigger::Edited => full_at.min(used),
        };
        let window_tokens = model.limits().window_tokens;
        Self { session, rules, family, sizes, frame, used, joining, window_tokens, scale, room }
    }

    fn scaled(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.scale) as u64
    }

    /// Calls whose outputs go, and the tokens that this frees.
    fn prunable(&self) -> (Vec<CallId>, u64) {
        let room = self.session.context();
        let (mut turns_since, mut outputs, mut calls) = (0, Vec::new(), Vec::new());
        for entry in self.session.entries().iter().rev() {
            for part in entry.message.parts.iter().rev() {
                let Part::ToolResult { call, tool, outcome } = part else { continue };
                let Outcome { status, text, .. } = outcome;
                let pruned = room.is_pruned(call);
                let tokens = self.scaled(self.family.of_bytes(text.len()));
                outputs.push(PrunableOutput { tool, tokens, turns_since, failed: status.is_error(), pruned });
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
    fn plan(&self, trigger: Trigger) -> Option<CompactionPlan> {
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
            KeepRecent::Turns { turns, .. } => {
                let begins: Vec<bool> = entries.iter().map(|entry| begins_turn(&entry.message)).collect();
                compact::by_turns(&begins, turns, trigger != Trigger::Ordinary).or_else(|| by_tokens(self.room / 4))
            }
            KeepRecent::Tokens { .. } | KeepRecent::Nothing => {
                let kept = self.rules.kept_tokens(self.room);
                by_tokens(if trigger == Trigger::Asked { kept.min(self.used / 4) } else { kept })
            }
        };
        // A summary of nothing but a summary says nothing new, and one of words that it repeats is no shorter.
        let has_summary = usize::from(self.session.context().summary().is_some());
        let is_new =
            |plan: &CompactionPlan| plan.summed_up > has_summary && !self.is_repeated(has_summary..plan.summed_up);
        let plan = plan.filter(is_new)?;
        let unread = self.unread(trigger);
        // What leaves no room beside it cannot be spared, or room is never made; but the next model of a chain may read it.
        let must_fit = self.session.fallbacks().next().is_none();
        if must_fit && self.newest(unread) > self.newest_most() + self.newest_most() / 4 {
            return Some(plan);
        }
        let spared = CompactionPlan { summed_up: plan.summed_up.min(unread) };
        match is_new(&spared) {
            true => Some(spared),
            // It does not fit, and there is nothing else.
            false => Some(plan).filter(|_| must_fit && trigger == Trigger::Forced),
        }
    }

    /// Tokens of the messages from here on.
    fn newest(&self, from: usize) -> u64 {
        self.scaled(self.sizes[from..].iter().sum())
    }

    /// The most that they may have, so that a summary has room beside them.
    fn newest_most(&self) -> u64 {
        self.room.saturating_sub(self.scaled(self.frame)) * NEWEST_MOST_PERCENT / 100
    }

    /// Whether these messages are words of the user that a summary has word for word.
    fn is_repeated(&self, going: std::ops::Range<usize>) -> bool {
        let words = &self.session.entries()[going.clone()];
        let tokens: u64 = self.sizes[going].iter().sum();
        words.iter().all(|entry| entry.message.role == Role::User) && tokens <= self.rules.user_words(self.room)
    }

    /// From which message on nothing may be summed up. Between turns there is nothing that the model must still read, and
    /// by some rules the summary is all.
    fn unread(&self, trigger: Trigger) -> usize {
        let entries = self.session.entries();
        match (trigger, self.rules.keep) {
            (Trigger::Asked | Trigger::Edited, _) | (_, KeepRecent::Nothing) => entries.len(),
            _ => compact::unread(entries.iter().map(|entry| &*entry.message)),
        }
    }

    /// Outputs that the model has not read yet and that are too long for it to read them beside a summary: their calls,
    /// how many bytes of each may stay, and the tokens that this frees.
    fn too_long(&self, trigger: Trigger) -> Option<(Vec<CallId>, u64, u64)> {
        let from = self.unread(trigger);
        let newest = &self.session.entries()[from..];
        let room = self.session.context();
        let outputs = newest.iter().flat_map(|entry| &entry.message.parts).filter_map(|part| match part {
            Part::ToolResult { call, outcome, .. } if !room.is_pruned(call) && !room.is_clipped(call) => {
                Some((call, outcome.text.len() as u64))
            }
            _ => None,
        });
        let outputs: Vec<(&CallId, u64)> = outputs.collect();
        let tokens = |bytes: u64| self.scaled(self.family.of_bytes(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let bytes: u64 = outputs.iter().map(|(_, bytes)| bytes).sum();
        let (all, most) = (self.newest(from), self.newest_most());
        if all <= most || bytes == 0 {
            return None;
        }
        let may_stay = most.saturating_sub(all.saturating_sub(tokens(bytes)));
        let may_stay = u128::from(bytes) * u128::from(may_stay) / u128::from(tokens(bytes).max(1));
        let sizes = outputs.iter().map(|(_, bytes)| *bytes).collect();
        let each = compact::evenly(sizes, u64::try_from(may_stay).unwrap_or(u64::MAX)).max(CLIPPED_LEAST_BYTES);
        let longer: Vec<&(&CallId, u64)> = outputs.iter().filter(|(_, bytes)| *bytes > each * 11 / 10).collect();
        let freed = longer.iter().map(|(_, bytes)| tokens(bytes - each)).sum();
        (!longer.is_empty()).then(|| (longer.iter().map(|(call, _)| (*call).clone()).collect(), each, freed))
    }

    /// Whether freeing this many tokens suffices.
    fn suffices(&self, freed: u64) -> bool {
        let full_at = self.session.context().full_at_tokens().unwrap_or(self.used);
        let tokens_after = self.used.saturating_sub(freed) + self.joining;
        tokens_after <= full_at.min(self.used) * PRUNED_MOST_PERCENT / 100
    }

    fn pruned(&self, calls: Vec<CallId>, to_bytes: Option<u64>, freed: u64) -> Event {
        let (tokens_before, tokens_after) = (self.used, self.used.saturating_sub(freed));
        Event::ContextPruned { calls, to_bytes, tokens_before, tokens_after, suffices: self.suffices(freed) }
    }

    fn sketch(&self, trigger: Trigger, plan: CompactionPlan, settings: &Settings) -> Sketch {
        let kept: u64 = self.sizes[plan.summed_up..].iter().sum();
        let dropped = self.session.context().dropped(plan.summed_up);
        let note = note(self.session, settings, &dropped, self.room, self.family);
        let noted = note.as_ref().map_or(0, |note| self.family.of_bytes(note.len()));
        Sketch {
            trigger,
            dropped,
            words_tokens: self.rules.user_words(self.room),
            family: self.family,
            rules: self.rules.clone(),
            window_tokens: self.window_tokens,
            tokens_before: self.used,
            tokens_kept: self.scaled(self.frame + kept + noted),
            note,
        }
    }
}

/// What is told anew after a compaction: what the embedder wants, and the skills that the model was given. Where it is and which
/// instructions hold, the model hears at the next step, from [`crate::context`].
fn note(session: &State, settings: &Settings, dropped: &Dropped, room: u64, family: Family) -> Option<String> {
    let own = settings.after_compaction.as_ref().and_then(|after| after(Path::new(session.workspace())));
    let skills = skill::put_back(&dropped.skills, room * SKILLS_MOST_PERCENT / 100, family);
    let parts: Vec<String> = own.into_iter().chain(skills).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// What to do now that the context is full.
pub(crate) fn next(
    session: &State,
    frame: &Frame,
    settings: &Settings,
    model: &Arc<dyn Model>,
    trigger: Trigger,
    focus: Option<&str>,
) -> Next {
    let measured = Measured::of(session, frame, &**model, rules(session, settings), trigger);
    if let Some(event) = prune(&measured, trigger).or_else(|| clip(&measured, trigger)) {
        return Next::Record(Box::new(event));
    }
    let Some(plan) = measured.plan(trigger) else { return Next::Cannot(CompactError::Nothing) };
    let is_another = |other: &&Arc<dyn Model>| other.name() != model.name() && fits(&***other, measured.used);
    let smaller = settings.compaction_model.as_ref().filter(is_another);
    let models = smaller.into_iter().map(|other| (other, false)).chain([(model, true)]);
    let askings = models.map(|(model, is_own)| asking(&measured, frame, model, is_own, trigger, focus));
    let askings: Vec<Asking> = askings.collect();
    if askings.iter().all(|asking| asking.tries.is_empty()) {
        let (used, window) = (measured.used, model.limits().window_tokens.unwrap_or_default());
        let why = format!(
            "about {used} tokens cannot be made short enough for a request to {}, which reads {window}",
            model.name()
        );
        return Next::Cannot(CompactError::Failed(why));
    }
    let is_in_turn = session.is_in_turn();
    Next::Ask(Box::new(Task {
        sketch: measured.sketch(trigger, plan, settings),
        askings: askings.into_iter().filter(|asking| !asking.tries.is_empty()).collect(),
        // Of no turn is of no turn's budget.
        is_in_turn,
        budget: if is_in_turn { session.policy().budget } else { settings.policy.budget.of_session() },
        used: session.used(),
        bill: SharedBill::default(),
    }))
}

/// What this model is asked with.
fn asking(
    measured: &Measured<'_>,
    frame: &Frame,
    model: &Arc<dyn Model>,
    is_own: bool,
    trigger: Trigger,
    focus: Option<&str>,
) -> Asking {
    let limits = model.limits();
    let mut whole = request::build_for(measured.session, frame, model.name());
    whole.may_call = true;
    request::without_pictures(&mut whole, limits.images);
    let longest = measured.rules.summary(limits.window_tokens.unwrap_or(measured.room));
    let longest = limits.max_output_tokens.map_or(longest, |most| longest.min(most));
    whole.max_output_tokens = Some(longest);
    let last = Part::note(compact::instruction(focus));
    let taken = measured.scaled(measured.frame) + u64::from(longest);
    // By our own count, as the sizes are.
    let own = |tokens: u64| (tokens as f64 / measured.scale) as u64;
    let room = shorten::Capacity {
        family: measured.family,
        used: own(measured.used),
        most: limits.window_tokens.map(|window| own(window.saturating_sub(taken))),
    };
    let requests = shorten::requests(&whole, &last, &room, trigger == Trigger::Forced);
    let tries = requests.into_iter().map(|(request, is_whole)| Try {
        request,
        is_own_prefix: is_whole && is_own,
        estimate: CostEstimate::default(),
    });
    let retry = measured.session.policy().retry.of_model(model.name()).clone();
    Asking { model: Arc::clone(model), tries: tries.collect(), retry }
}

/// The outputs that go, if that makes room enough, or room for the request for a summary.
fn prune(measured: &Measured<'_>, trigger: Trigger) -> Option<Event> {
    if matches!(trigger, Trigger::Asked | Trigger::Edited) {
        return None;
    }
    let (calls, freed) = measured.prunable();
    // What does not suffice would cost the cache, and the summary all the same.
    let helps = measured.suffices(freed) || trigger == Trigger::Forced;
    (!calls.is_empty() && helps).then(|| measured.pruned(calls, None, freed))
}

/// The newest outputs, cut to what the model can read of them.
fn clip(measured: &Measured<'_>, trigger: Trigger) -> Option<Event> {
    let (calls, to_bytes, freed) = measured.too_long(trigger)?;
    Some(measured.pruned(calls, Some(to_bytes), freed))
}

fn fits(model: &dyn Model, tokens: u64) -> bool {
    model.limits().window_tokens.is_none_or(|window| tokens.saturating_add(tokens / 10) < window)
}

/// What a person has written stands for the conversation so far. `None` where there is nothing to sum up.
pub(crate) fn written(session: &State, frame: &Frame, settings: &Settings, summary: &str) -> Option<Event> {
    let model = &*settings.model;
    let measured = Measured::of(session, frame, model, rules(session, settings), Trigger::Asked);
    let sketch = measured.sketch(Trigger::Asked, measured.plan(Trigger::Asked)?, settings);
    // A text that is a whole summary, as it is shown, is taken as it is.
    Some(match summary.trim_start().starts_with(compact::MARK) {
        true => sketch.with(summary.trim().to_owned(), None),
        false => sketch.finished(summary, None),
    })
}

/// The whole summary is another one from here on. `None` where there is none.
pub(crate) fn replaced(session: &State, frame: &Frame, settings: &Settings, summary: &str) -> Option<Event> {
    let measured = Measured::of(session, frame, &*settings.model, rules(session, settings), Trigger::Edited);
    let (before, upto_seq) = session.context().summary()?;
    let tokens = |text: &str| measured.scaled(measured.family.of_bytes(text.len()));
    let tokens_after = measured.used.saturating_sub(tokens(before)).saturating_add(tokens(summary));
    Some(Event::CompactionFinished {
        trigger: Trigger::Edited,
        upto_seq,
        summary: summary.to_owned(),
        tokens_before: measured.used,
        tokens_after,
        note: note(session, settings, &session.context().dropped(0), measured.room, measured.family),
        asked: None,
    })
}

impl Sketch {
    /// The event that the model's words, or a person's, complete.
    fn finished(self, said: &str, asked: Option<Box<SummaryCall>>) -> Event {
        let with = |said: &str| compact::text(&self.dropped, said, self.words_tokens, self.family);
        let summary = with(said);
        let tokens = self.tokens_kept + self.family.of_bytes(summary.len());
        let summary = match self.made(false, tokens) {
            Made::Summary => summary,
            Made::TooLarge | Made::Nothing => with("(The summary of the rest was too long for the room there is.)"),
        };
        self.with(summary, asked)
    }

    /// What the rules make of the model's part.
    fn made(&self, is_empty: bool, tokens: u64) -> Made {
        self.rules.made(self.window_tokens, self.trigger != Trigger::Ordinary, is_empty, tokens)
    }

    /// What stands for the model's part where it gave none, if anything does.
    fn without(&self, why: &str) -> Result<String, String> {
        match self.rules.without_summary {
            WithoutSummary::Fail => Err(why.to_owned()),
            WithoutSummary::OwnWords => Ok(format!("(No summary of the rest could be had: {why}.)")),
        }
    }

    /// The event of this whole summary.
    fn with(self, summary: String, asked: Option<Box<SummaryCall>>) -> Event {
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
