//! The part of the machine that compacts: when the context counts as full, and how the events about it take effect.
//! Which messages go is planned elsewhere ([`crate::compact`]).

use super::Phase;
use super::batch::Batch;
use super::context::{Context, Touched, TranscriptEntry};
use super::work::{AfterCompaction, Ending, Work, short};
use crate::call::{Access, CallKind};
use crate::compact::{Dropped, Full, clip, cut_at, of_message, stub};
use crate::event::{Delivery, Event, Trigger, TurnEnd};
use crate::ids::{CallId, Seq, TimeMs};
use crate::message::{Message, NoteKind, Part, Role, Usage};
use crate::skill::{self, GivenSkill};
use std::collections::HashSet;
use std::sync::Arc;

/// How full the context is, and what a summary would have to say.
#[derive(Debug, Clone, Copy)]
pub struct ContextUsage<'a> {
    work: &'a Work,
}

impl<'a> ContextUsage<'a> {
    pub(super) fn of(work: &'a Work) -> Self {
        Self { work }
    }

    /// Tokens of the next request, by the provider's last count and an estimate of what was added since.
    pub fn used_tokens(&self) -> u64 {
        self.work.used_tokens()
    }

    /// From how many on the context counts as full, in the turn under way or the last one.
    pub fn full_at_tokens(&self) -> Option<u64> {
        self.work.turn.compact_at_tokens
    }

    /// The summary that the transcript begins with, and the last event that it stands for.
    pub fn summary(&self) -> Option<(&'a str, Seq)> {
        let upto = self.work.context.summed_up_to;
        let first = self.work.transcript.first().filter(|entry| upto > 0 && entry.seq == upto)?;
        match first.message.parts.first() {
            Some(Part::Note { kind: NoteKind::Summary, text }) => Some((text, upto)),
            _ => None,
        }
    }

    /// Those of them that are in the conversation already: without what the next step adds.
    pub fn held_tokens(&self) -> u64 {
        self.work.held_tokens()
    }

    /// Whether the output of this call was pruned.
    pub fn is_pruned(&self, call: &CallId) -> bool {
        self.work.context.pruned.contains(call)
    }

    /// Whether only beginning and end of the output of this call are left.
    pub fn is_clipped(&self, call: &CallId) -> bool {
        self.work.context.clipped.contains(call)
    }

    /// What a summary must not forget that stands for the first `count` messages.
    pub fn dropped(&self, count: usize) -> Dropped {
        let going = &self.work.transcript[..count];
        let mut all = Context {
            words: self.work.context.words.clone(),
            files: self.work.context.files.clone(),
            spoken: self.work.context.spoken.clone(),
            touched: self.work.context.touched.clone(),
            skills: self.work.context.skills.clone(),
            pruned: self.work.context.pruned.clone(),
            clipped: self.work.context.clipped.clone(),
            ..Context::default()
        };
        all.remember(going);
        let kept = self.work.transcript[count..].iter().flat_map(|entry| &entry.message.parts);
        let kept: HashSet<String> = kept.filter_map(GivenSkill::of).map(|given| given.name).collect();
        Dropped {
            words: all.words.iter().map(|entry| (entry.seq, entry.message.prose())).collect(),
            files: all.files.into_iter().collect(),
            skills: all.skills.into_iter().filter(|given| !kept.contains(&given.name)).collect(),
            upto: going.last().map_or(0, |entry| entry.seq),
        }
    }
}

impl Work {
    /// Notes which files a call is about, where its result is recorded, and what it allows.
    pub(super) fn note_call(&mut self, event: &Event, batch: &Batch, seq: Seq, at_ms: TimeMs) {
        match event {
            // One of the user's own.
            Event::CallSettled { call, .. } if batch.call(call).is_none() => {}
            Event::CallRequested { call, plan: Some(plan), .. }
                if matches!(plan.kind, CallKind::Read | CallKind::Edit) =>
            {
                let paths = plan.accesses.iter().filter_map(Access::path).map(|path| self.shown(path)).collect();
                self.context.touched.insert(call.clone(), Touched { paths, changed: plan.kind == CallKind::Edit });
            }
            Event::CallSettled { call, outcome } => {
                self.context.results.insert(call.clone(), seq);
                let tool = batch.call(call).map_or("", |call| &call.name);
                self.turn.grants.extend(skill::granted(tool, outcome, at_ms));
                self.tasks.read(outcome);
                // Journals before version 4 name the file in what came of the call.
                if let Some(path) = outcome.metadata["path"].as_str() {
                    let (paths, changed) = (vec![self.shown(path)], outcome.metadata.get("after").is_some());
                    self.context.touched.entry(call.clone()).or_insert(Touched { paths, changed });
                }
            }
            _ => {}
        }
    }

    /// A path relative to the workspace, where it lies in it.
    fn shown(&self, path: &str) -> String {
        let inside = path.strip_prefix(&self.workspace).and_then(|rest| rest.strip_prefix('/'));
        inside.unwrap_or(path).to_owned()
    }

    /// What the next request takes. A follow-up is for another turn.
    pub(super) fn used_tokens(&self) -> u64 {
        let family = self.turn.family;
        let joining = self.waiting.iter().filter(|waiting| waiting.delivery == Delivery::Steer);
        let joining: u64 = joining.map(|waiting| of_message(family, &waiting.message)).sum();
        self.held_tokens().saturating_add(joining)
    }

    /// What the conversation takes as it is.
    fn held_tokens(&self) -> u64 {
        let frame = if self.context.is_counted { 0 } else { self.turn.policy.compaction.rules.frame_tokens };
        self.context.tokens.saturating_add(frame)
    }

    /// Whether this turn may compact once more.
    pub(super) fn may_compact(&self) -> bool {
        self.turn.policy.compaction.rules.auto && self.turn.compactions < self.turn.policy.compaction.max
    }

    /// Whether the context is full and has to be compacted before anything else.
    pub(super) fn is_full(&self) -> bool {
        self.may_compact() && self.turn.compact_at_tokens.is_some_and(|at| self.used_tokens() >= at)
    }

    /// Whether the newest reply was cut because the prompt left no tokens for it.
    pub(super) fn is_cut_by_window(&self, usage: &Usage) -> bool {
        let prompt = if usage.input_tokens > 0 { usage.input_tokens } else { self.used_tokens() };
        prompt >= cut_at(&self.turn.model, self.turn.compact_at_tokens)
    }

    /// The end of a turn whose context is full where only a person may compact. The documents of other loops send what
    /// they have, and let the provider judge.
    pub(super) fn full_by_hand(&self) -> Option<Ending> {
        let rules = &self.turn.policy.compaction.rules;
        let is_by_hand = !rules.auto && matches!(rules.full, Full::Reserve { .. });
        let at = self.turn.compact_at_tokens.filter(|at| is_by_hand && self.used_tokens() >= *at)?;
        let used = self.used_tokens();
        let detail = format!(
            "about {used} tokens are in the context, it counts as full from {at} on, and [compaction] auto is off"
        );
        Some(Ending::new(TurnEnd::ContextLimit, detail))
    }

    /// It became known how much the model reads.
    pub(super) fn learn(&mut self, phase: Phase, compact_at_tokens: u64) -> Phase {
        self.turn.compact_at_tokens = Some(compact_at_tokens);
        phase
    }

    /// The next model of the chain is asked, once the conversation fits it.
    pub(super) fn switched(&mut self, model: &str, compact_at_tokens: Option<u64>, then: AfterCompaction) -> Phase {
        self.turn.switch(model, compact_at_tokens);
        match then {
            _ if self.is_full() => Phase::CompactionNeeded(Trigger::Ordinary, then),
            AfterCompaction::AskAgain => self.ask_again(1),
            AfterCompaction::StartStep(_) | AfterCompaction::Rest => self.resume_after_compaction(then),
        }
    }

    /// Between turns, a person has had the conversation summed up.
    pub(super) fn sum_up(&mut self, phase: Phase, event: &Event) -> Phase {
        if matches!(event, Event::CompactionFinished { trigger: Trigger::Asked | Trigger::Edited, .. }) {
            self.summarised(event);
        }
        phase
    }

    /// Between turns, a person wants the conversation summed up by a model.
    pub(super) fn start_compaction_at_rest(&mut self, trigger: Trigger, focus: Option<&String>) -> Phase {
        self.focus = focus.cloned();
        // Whether this process has hooks is not on record here.
        Phase::BeforeCompaction(trigger, AfterCompaction::Rest)
    }

    /// Takes an event of a compaction between turns. It is no part of a turn's budget.
    pub(super) fn take_compaction_at_rest(&mut self, phase: Phase, event: &Event) -> Phase {
        match event {
            Event::CompactionFinished { .. } => {
                self.summarised(event);
                self.rest()
            }
            Event::CompactionFailed { .. } => self.rest(),
            _ => phase,
        }
    }

    /// Takes an event of the compaction under way.
    pub(super) fn take_compaction(&mut self, trigger: Trigger, then: AfterCompaction, event: &Event) -> Phase {
        self.turn.pay(event);
        match event {
            Event::ContextPruned { calls, to_bytes, tokens_after, suffices, .. } => {
                self.prune(calls, *to_bytes);
                self.context.tokens = *tokens_after;
                if *suffices { self.resume_after_compaction(then) } else { Phase::Compacting(trigger, then) }
            }
            Event::CompactionFinished { tokens_before, tokens_after, .. } => {
                self.turn.compactions += 1;
                self.summarised(event);
                match self.freed_too_little(*tokens_before, *tokens_after) {
                    Some(detail) => self.end_or_switch(Ending::new(TurnEnd::ContextLimit, detail), then),
                    None => self.resume_after_compaction(then),
                }
            }
            Event::CompactionFailed { why, error, trigger: found, .. } => {
                self.turn.compactions += 1;
                // That there is no way without it may be found out on the way.
                match trigger == Trigger::Forced || *found == Trigger::Forced {
                    true => self.end_or_switch(Ending { why: *why, ..Ending::new(TurnEnd::ContextLimit, error) }, then),
                    false => self.resume_after_compaction(then),
                }
            }
            Event::BudgetShort { why, detail, .. } => self.end(short(*why, detail)),
            _ => Phase::Compacting(trigger, then),
        }
    }

    fn freed_too_little(&self, before: u64, after: u64) -> Option<String> {
        let least = u64::from(self.turn.policy.compaction.rules.least_freed_percent);
        let is_early = self.turn.policy.compaction.rules.full.is_early();
        let is_full = !is_early && self.turn.compact_at_tokens.is_some_and(|at| after >= at);
        let freed = before.saturating_sub(after);
        let too_little = u128::from(freed) * 100 < u128::from(before) * u128::from(least);
        (is_full || too_little).then(|| format!("compaction freed too little: about {after} of {before} tokens remain"))
    }

    /// A summary stands for the messages up to a place. What is kept never begins with a result: its call would be gone.
    pub(super) fn summarised(&mut self, event: &Event) {
        let Event::CompactionFinished { trigger, upto_seq, summary, tokens_after, note, .. } = event else { return };
        self.untold = Some(*trigger);
        let after = self.transcript.iter().position(|entry| entry.seq > *upto_seq).unwrap_or(self.transcript.len());
        let kept = self.transcript[after..].iter().take_while(|entry| entry.message.role == Role::Tool).count() + after;
        let mut parts = vec![Part::Note { kind: NoteKind::Summary, text: summary.clone() }];
        parts.extend(note.clone().map(Part::note));
        let message = Arc::new(Message::new(Role::User, parts));
        let going: Vec<TranscriptEntry> =
            self.transcript.splice(..kept, [TranscriptEntry { seq: *upto_seq, message }]).collect();
        self.context.remember(&going);
        (self.context.tokens, self.context.summed_up_to) = (*tokens_after, *upto_seq);
        // What has no results here any more needs no place to name.
        let calls: HashSet<&CallId> =
            self.transcript.iter().flat_map(|entry| entry.message.calls()).map(|call| &call.id).collect();
        self.context.results.retain(|call, _| calls.contains(call));
        self.context.touched.retain(|call, _| calls.contains(call));
        self.context.pruned.retain(|call| calls.contains(call));
        self.context.clipped.retain(|call| calls.contains(call));
    }

    fn prune(&mut self, calls: &[CallId], to_bytes: Option<u64>) {
        for entry in &mut self.transcript {
            let is_meant = |part: &Part| matches!(part, Part::ToolResult { call, .. } if calls.contains(call));
            if !entry.message.parts.iter().any(is_meant) {
                continue;
            }
            let mut message = Message::clone(&entry.message);
            // The pictures of a result go with it.
            let mut is_of_meant = false;
            message.parts.retain(|part| {
                let is_picture = matches!(part, Part::Image { .. });
                is_of_meant = if is_picture { is_of_meant } else { is_meant(part) };
                !(is_picture && is_of_meant)
            });
            for part in &mut message.parts {
                if let Part::ToolResult { call, tool, outcome } = part
                    && calls.contains(call)
                {
                    let seq = self.context.results.get(call).copied().unwrap_or(entry.seq);
                    let (text, gone) = match to_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)) {
                        Some(bytes) => (clip(&outcome.text, bytes, seq), &mut self.context.clipped),
                        None => (stub(tool, outcome.text.len(), seq), &mut self.context.pruned),
                    };
                    outcome.text = text;
                    gone.insert(call.clone());
                }
            }
            entry.message = Arc::new(message);
        }
    }
}
