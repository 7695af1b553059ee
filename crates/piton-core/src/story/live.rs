//! What fragments do to the story: they fill in blocks ahead of the record that will confirm or replace them.

use super::block::{Block, BlockId, Body, CallBlock, CallStage, Order, PARTS, WordsState};
use super::{Asking, Change, Field, OpenStep, Story};
use crate::client::{Live, Now};
use crate::ids::CallId;
use crate::message::{Part, ToolCall};
use crate::model::Delta;
use std::sync::Arc;

/// A part of a reply that is shown.
pub(super) enum Said<'p> {
    Words(&'p str, WordsState),
    Thought(&'p str, WordsState),
    Call(&'p ToolCall),
}

impl<'p> Said<'p> {
    /// What of this part is shown, if anything is. Of an attempt that failed, only its words are.
    pub(super) fn of(part: &'p Part, state: WordsState) -> Option<Self> {
        match part {
            Part::Text { text, .. } if !text.trim().is_empty() => Some(Self::Words(text, state)),
            Part::Reasoning { text, .. } if !text.trim().is_empty() && state != WordsState::Abandoned => {
                Some(Self::Thought(text, state))
            }
            Part::ToolCall(call) => Some(Self::Call(call)),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::ToolResult { .. }
            | Part::Note { .. }
            | Part::Image { .. } => None,
        }
    }

    pub(super) fn id(&self, open: &OpenStep, part: u32) -> BlockId {
        match self {
            Self::Call(call) => BlockId::Call(call.id.clone()),
            Self::Words(..) | Self::Thought(..) => BlockId::Words { step: open.step, tried: open.tried, part },
        }
    }

    pub(super) fn body(self) -> Body {
        match self {
            Self::Words(text, state) => Body::Words { text: text.to_owned(), state },
            Self::Thought(text, state) => Body::Thought { text: text.to_owned(), state },
            Self::Call(call) => Body::Call(Box::new(CallBlock::of(call))),
        }
    }
}

impl OpenStep {
    /// Where a part of the reply stands.
    pub(super) fn order(&self, part: u32) -> Order {
        Order { seq: self.anchor, part: PARTS + part }
    }

    /// The block of the question to the model: behind its reply.
    pub(super) fn model_order(&self) -> Order {
        Order { seq: self.anchor, part: u32::MAX }
    }

    pub(super) fn model_id(&self) -> BlockId {
        BlockId::Model { step: self.step, tried: self.tried }
    }
}

impl Story {
    /// Hears a fragment and says what is different now.
    pub(super) fn live(&mut self, live: &Live) -> Vec<Change> {
        let mut changes = Vec::new();
        match live {
            Live::ModelDelta { step, attempt, delta } => self.streams(*step, *attempt, delta, &mut changes),
            Live::ToolOutput { call, text } => self.prints(call, text, &mut changes),
            // What keeps a reply waiting is no part of the story.
            _ => {}
        }
        changes
    }

    /// What streamed by until now and is in no record, whole, in the place of the fragments that were heard.
    pub(super) fn now(&mut self, now: &Now) -> Vec<Change> {
        let mut changes = Vec::new();
        self.drop_fragments(&mut changes);
        now.partial.iter().for_each(|live| changes.extend(self.live(live)));
        changes
    }

    /// Forgets what only fragments have told, the output of running calls included.
    pub(super) fn drop_fragments(&mut self, changes: &mut Vec<Change>) {
        self.drop_streamed(changes);
        self.drop_outputs(|_| true, changes);
    }

    /// Forgets what running calls have printed, by whether they are the user's own.
    pub(super) fn drop_outputs(&mut self, is_meant: impl Fn(bool) -> bool, changes: &mut Vec<Change>) {
        for call in self.running.iter().filter(|call| is_meant(self.own.contains(call))) {
            let place = self.places.get(&BlockId::Call(call.clone()));
            let Some(block) = place.and_then(|order| self.blocks.get_mut(order)) else { continue };
            if let Body::Call(call) = &mut Arc::make_mut(block).body
                && let CallStage::Running(output) = &mut call.stage
                && !output.is_empty()
            {
                output.clear();
                changes.push(Change::Put(Arc::clone(block)));
            }
        }
    }

    pub(super) fn drop_streamed(&mut self, changes: &mut Vec<Change>) {
        for id in std::mem::take(&mut self.streamed) {
            self.drop_block(&id, changes);
        }
    }

    fn streams(&mut self, step: u32, attempt: u32, delta: &Delta, changes: &mut Vec<Change>) {
        let of_reply = |open: &&OpenStep| open.step == step && open.attempt <= attempt && open.asking == Asking::Now;
        // A late one, of a reply that is on record or abandoned.
        let Some(open) = self.step.as_ref().filter(of_reply).cloned() else { return };
        let part = self.streamed.len() as u32;
        match delta {
            Delta::Text { text } | Delta::Reasoning { text } => {
                let is_words = matches!(delta, Delta::Text { .. });
                let id = match self.streaming(is_words) {
                    Some(id) => id,
                    None => {
                        let (text, state) = (String::new(), WordsState::Streaming);
                        let body = if is_words { Body::Words { text, state } } else { Body::Thought { text, state } };
                        let id = BlockId::Words { step, tried: open.tried, part };
                        if self.places.contains_key(&id) {
                            return;
                        }
                        self.stream(id, open.order(part), body, changes)
                    }
                };
                self.grow(&id, Field::Text, text, changes);
            }
            Delta::CallBegan { index, name } => {
                let call = CallId(format!("c{step}_{index}"));
                let id = BlockId::Call(call.clone());
                if !self.places.contains_key(&id) {
                    let body = Body::Call(Box::new(CallBlock::writing(call, name)));
                    self.stream(id, open.order(part), body, changes);
                }
            }
            Delta::CallInput { index, json } => {
                self.grow(&BlockId::Call(CallId(format!("c{step}_{index}"))), Field::Input, json, changes);
            }
        }
    }

    /// The block that words, or thoughts, go on in: the newest that streams, if it is of that kind.
    fn streaming(&self, is_words: bool) -> Option<BlockId> {
        let id = self.streamed.last()?;
        match &self.block(id)?.body {
            Body::Words { .. } if is_words => Some(id.clone()),
            Body::Thought { .. } if !is_words => Some(id.clone()),
            _ => None,
        }
    }

    fn stream(&mut self, id: BlockId, order: Order, body: Body, changes: &mut Vec<Change>) -> BlockId {
        let (seq, at_ms) = (self.seq, self.at_ms);
        let (changed_seq, changed_ms, turn) = (seq, at_ms, self.turn);
        self.streamed.push(id.clone());
        self.put(
            Block { id: id.clone(), order, seq, at_ms, changed_seq, changed_ms, turn, taken_back: false, body },
            changes,
        );
        id
    }

    fn prints(&mut self, call: &CallId, text: &str, changes: &mut Vec<Change>) {
        if self.running.contains(call) {
            self.grow(&BlockId::Call(call.clone()), Field::Output, text, changes);
        }
    }

    /// Adds to a text, where the block has it and it still grows.
    fn grow(&mut self, id: &BlockId, field: Field, more: &str, changes: &mut Vec<Change>) {
        let Some(block) = self.places.get(id).and_then(|order| self.blocks.get_mut(order)) else { return };
        let grows = match (&mut Arc::make_mut(block).body, field) {
            (Body::Words { text, state } | Body::Thought { text, state }, Field::Text) => {
                (*state == WordsState::Streaming).then_some(text)
            }
            (Body::Call(call), Field::Input) => match &mut call.stage {
                CallStage::Writing(input) => Some(input),
                _ => None,
            },
            (Body::Call(call), Field::Output) => match &mut call.stage {
                CallStage::Running(output) => Some(output),
                _ => None,
            },
            _ => None,
        };
        if let Some(grows) = grows {
            grows.push_str(more);
            changes.push(Change::Grow { id: id.clone(), field, text: more.to_owned() });
        }
    }
}
