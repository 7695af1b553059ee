//! The cache ledger: what of each request the provider's prompt cache could have known, what it says it read, and what
//! became of the difference.
//!
//! A request is a row of segments: the system prompt with the tools, then each message. Within a session a request only
//! adds segments to the one before, so that the provider can read all of that from its cache. Whoever asks measures the
//! segments and has [`CacheLedger::compare`] say what is new of them; that is recorded with the reply. The fold of these
//! records is the ledger again, in the process that asks as in one that looks at the session later.
//!
//! This module must not know: how a segment is hashed, any wire format, prices.

use crate::event::{Event, Record, StepKind};
use crate::ids::{Seq, TimeMs};
use crate::message::Usage;
use crate::prompt::{PromptContents, Segment, SegmentKind};
use serde::Serialize;

/// Tokens that need not be read from a cache before it counts as a miss: providers keep whole blocks, up to this size,
/// and estimates are rough.
pub const ROUGHNESS_TOKENS: u64 = 1_024;

/// Tokens that providers add to a prompt of their own accord, such as instructions on how to call tools.
const HIDDEN_TOKENS: u64 = 1_000;

/// The newest request that was answered, and what has happened since.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CacheLedger {
    sent: Vec<Segment>,
    input_tokens: u64,
    model: String,
    replied_ms: TimeMs,
    now: Now,
}

/// What is known of the request under way.
#[derive(Debug, Clone, Default, PartialEq)]
struct Now {
    model: String,
    asked_ms: TimeMs,
    compacted: bool,
    rewound: bool,
    other_agent: bool,
    forbids_calls: bool,
}

/// A request and what the provider's cache did for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// Where its reply is recorded.
    pub seq: Seq,
    /// Its step; 0 for a call that made a summary.
    pub step: u32,
    /// `provider/model`.
    pub model: String,
    /// All its tokens, as the provider counted them.
    pub input_tokens: u64,
    /// Of these, what could be read from the cache.
    pub predicted_tokens: u64,
    /// Of these, what was read from the cache, as the provider says.
    pub reported_tokens: u64,
    /// What the difference cost, where the price is known.
    pub lost_micros: Option<u64>,
    /// Why there is a difference, where there is one.
    pub miss: Option<Miss>,
}

/// Why the cache was not read as far as the request before reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Miss {
    /// Another model was asked.
    ModelChanged,
    /// Older messages were replaced by a summary.
    Compacted,
    /// Turns were taken back, or brought back.
    Rewound,
    /// Another agent runs the session, or its mode offers other tools.
    AgentChanged,
    /// This segment was another one than before: ours, whatever the reason.
    PrefixChanged {
        /// Its place in the request, from 0.
        segment: usize,
        /// What it is.
        kind: SegmentKind,
    },
    /// The last step forbids calls, and some providers keep messages apart by that.
    CallsForbidden,
    /// The request began as the one before, and the provider had not kept that: it expired, was evicted, or the request
    /// came to another machine.
    NotKept {
        /// How long after the reply before.
        idle_ms: u64,
    },
}

impl CacheLedger {
    /// The ledger of a session so far.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut ledger = Self::default();
        for record in records {
            ledger.apply(record);
        }
        ledger
    }

    /// What is new of a request. What it lost is not known yet.
    pub fn compare(&self, segments: &[Segment]) -> PromptContents {
        let kept = self.kept(segments);
        PromptContents {
            kept,
            new: segments[kept..].to_vec(),
            predicted_tokens: if kept == self.sent.len() {
                self.input_tokens
            } else {
                portion(self.input_tokens, weight(&self.sent[..kept]), weight(&self.sent))
            },
            lost_micros: None,
        }
    }

    /// The most tokens a request can have: what the provider counted last time, and a token for each byte since.
    pub fn most_tokens(&self, segments: &[Segment]) -> u64 {
        let all = weight(segments).saturating_add(HIDDEN_TOKENS);
        let kept = self.kept(segments);
        if self.input_tokens == 0 || kept < self.sent.len() {
            return all;
        }
        all.min(self.input_tokens.saturating_add(weight(&segments[kept..])))
    }

    /// Tokens of the request before that had to be read anew.
    pub fn lost_tokens(&self, usage: &Usage) -> u64 {
        let lost = self.input_tokens.min(usage.input_tokens).saturating_sub(usage.cache_read_tokens);
        if lost >= ROUGHNESS_TOKENS { lost } else { 0 }
    }

    /// Takes an event in. A reply makes an entry.
    pub fn apply(&mut self, record: &Record) -> Option<Reading> {
        match &record.event {
            Event::TurnStarted { model, .. }
            | Event::TurnResumed { model, .. }
            | Event::ModelSwitched { model, .. } => self.now.model.clone_from(model),
            Event::StepStarted { kind, .. } => {
                (self.now.asked_ms, self.now.forbids_calls) = (record.at_ms, *kind == StepKind::WrapUp);
            }
            Event::SettingsChanged { changed, .. } => {
                self.now.other_agent |= changed.agent.is_some() || changed.mode.is_some();
            }
            Event::BackoffPassed { .. } => self.now.asked_ms = record.at_ms,
            Event::ContextPruned { .. } => self.now.compacted = true,
            Event::CompactionFinished { asked, .. } => {
                let own = asked.as_deref().filter(|asked| asked.model == self.now.model);
                let reading = own.and_then(|asked| {
                    let prompt = asked.prompt.as_deref()?;
                    Some(self.replied(record, 0, &asked.usage, prompt))
                });
                self.now.compacted = true;
                return reading;
            }
            Event::RewindFinished { rewind, .. } => self.now.rewound |= rewind.to.is_some(),
            Event::MessageFinished { step, reply, prompt: Some(prompt), .. } => {
                return Some(self.replied(record, *step, &reply.usage, prompt));
            }
            _ => {}
        }
        None
    }

    fn replied(&mut self, record: &Record, step: u32, usage: &Usage, prompt: &PromptContents) -> Reading {
        let reading = Reading {
            seq: record.seq,
            step,
            model: self.now.model.clone(),
            input_tokens: usage.input_tokens,
            predicted_tokens: prompt.predicted_tokens,
            reported_tokens: usage.cache_read_tokens,
            lost_micros: prompt.lost_micros,
            miss: (self.lost_tokens(usage) > 0).then(|| self.miss(prompt)),
        };
        self.sent.truncate(prompt.kept);
        self.sent.extend(&prompt.new);
        self.input_tokens = usage.input_tokens;
        self.model.clone_from(&self.now.model);
        self.replied_ms = record.at_ms;
        (self.now.compacted, self.now.rewound) = (false, false);
        // In a turn it waits for the next.
        self.now.other_agent &= prompt.kept > 0;
        reading
    }

    fn miss(&self, prompt: &PromptContents) -> Miss {
        let idle_ms = self.now.asked_ms.saturating_sub(self.replied_ms);
        match self.sent.get(prompt.kept) {
            Some(_) if self.model != self.now.model => Miss::ModelChanged,
            Some(_) if self.now.compacted => Miss::Compacted,
            Some(_) if self.now.rewound => Miss::Rewound,
            Some(changed) if self.now.other_agent && changed.kind == SegmentKind::Frame => Miss::AgentChanged,
            Some(changed) => Miss::PrefixChanged { segment: prompt.kept, kind: changed.kind },
            None if self.now.forbids_calls => Miss::CallsForbidden,
            None => Miss::NotKept { idle_ms },
        }
    }

    fn kept(&self, segments: &[Segment]) -> usize {
        self.sent.iter().zip(segments).take_while(|(before, now)| before == now).count()
    }
}

fn weight(segments: &[Segment]) -> u64 {
    segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.bytes))
}

/// The part of these tokens that falls on `some` of `all`.
fn portion(tokens: u64, some: u64, all: u64) -> u64 {
    if all == 0 { 0 } else { (tokens as f64 * some as f64 / all as f64) as u64 }
}

#[cfg(test)]
mod tests;
