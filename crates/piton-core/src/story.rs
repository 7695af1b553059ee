//! The story of a session: what happened, as blocks that a person can look at. The one view model: the terminal, exports,
//! traces, bills and whatever comes draw its blocks, and none of them folds events for itself.
//!
//! ```text
//!   records ───┐
//!              ├──► Story::hear ──► [Change] ──► a face draws the difference
//!   fragments ─┘         └────────► blocks() ──► a renderer draws all of it
//! ```
//!
//! A record makes or changes blocks for good. A fragment only fills in a block until its record is there, and is forgotten
//! then: records alone, and records with any of the fragments between them, give the same blocks once nothing is under
//! way. What an undo took back stays, and is marked.
//!
//! A block stands where what it shows *began* ([`Order`]): words that a person said while the model was replying stand
//! behind that reply.
//!
//! This module must not know: how anything is drawn, and how a session goes on (that is [`crate::turn`]).

mod block;
mod call;
mod fold;
mod live;
mod written;
#[cfg(test)]
mod tests;

use crate::branch::Path;
use crate::cache::CacheLedger;
use crate::client::Published;
use crate::event::{Delivery, Record, Subject};
use crate::ids::{CallId, MessageId, Seq, TimeMs};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use block::{
    Block, BlockId, Body, CallBlock, CallStage, Caller, CompactionBlock, CompactionEnd, LostTry, ModelBlock,
    ModelState, Order, RewindState, SampledCall, SessionBlock, WordsState,
};
pub use written::Written;

/// A session as blocks.
#[derive(Debug, Clone)]
pub struct Story {
    blocks: BTreeMap<Order, Arc<Block>>,
    places: HashMap<BlockId, Order>,
    ledger: CacheLedger,
    /// Where a rewind has moved the head: the event of each, and the one it was moved to.
    moves: Vec<(Seq, Seq)>,
    /// The newest record.
    seq: Seq,
    at_ms: TimeMs,
    turn: u32,
    in_turn: bool,
    model: String,
    /// What was said and no step has read, in order.
    waiting: Vec<(MessageId, Delivery)>,
    step: Option<OpenStep>,
    compaction: Option<BlockId>,
    rewind: Option<BlockId>,
    /// Calls that have begun and are not settled.
    running: Vec<CallId>,
    /// Of the user's own commands, those that are not settled.
    own: Vec<CallId>,
    /// Questions that are open.
    asked: Vec<Subject>,
    /// Blocks of the reply that streams, which its record will confirm or replace.
    streamed: Vec<BlockId>,
}

/// The step under way.
#[derive(Debug, Clone)]
struct OpenStep {
    step: u32,
    /// How often the model was asked in it, this time included, whichever model that was.
    tried: u32,
    /// The attempt as events count it.
    attempt: u32,
    /// Where the reply stands: behind what led to the question.
    anchor: Seq,
    asking: Asking,
}

/// Whether a reply may stream in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The model is asked.
    Now,
    /// It gave no reply, and may be asked again.
    Failed,
    /// It has replied, or was cut off.
    Over,
}

/// What has changed, for a face that keeps what it has drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A block is new, or another one than it was.
    Put(Arc<Block>),
    /// Text was added to a block, which is otherwise as it was.
    Grow {
        /// Which block.
        id: BlockId,
        /// To which of its texts.
        field: Field,
        /// What was added.
        text: String,
    },
    /// A block came to nothing: what only fragments had made, a question to the model without an answer, the beginning of
    /// an undo that is over, a message that was taken out of the queue.
    Drop(BlockId),
}

/// A text that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Words or thoughts.
    Text,
    /// A call's arguments, as the model writes them.
    Input,
    /// What a running call prints.
    Output,
}

impl Default for Story {
    fn default() -> Self {
        let session = Arc::new(Block::of_session());
        Self {
            places: HashMap::from([(session.id.clone(), session.order)]),
            blocks: BTreeMap::from([(session.order, session)]),
            ledger: CacheLedger::default(),
            moves: Vec::new(),
            seq: 0,
            at_ms: 0,
            turn: 0,
            in_turn: false,
            model: String::new(),
            waiting: Vec::new(),
            step: None,
            compaction: None,
            rewind: None,
            running: Vec::new(),
            own: Vec::new(),
            asked: Vec::new(),
            streamed: Vec::new(),
        }
    }
}

impl Story {
    /// The story of these records, the first of the session on.
    pub fn of(records: &[Record]) -> Self {
        let mut story = Self::default();
        for record in records {
            story.record(record);
        }
        story
    }

    /// Hears one thing and says what is different now.
    pub fn hear(&mut self, published: &Published) -> Vec<Change> {
        match published {
            Published::Recorded(record) => self.record(record),
            Published::Live(live) => self.live(live),
            Published::Now(now) => self.now(now),
            // Questions stand in the records, too.
            Published::CaughtUp
            | Published::Missed { .. }
            | Published::Wanted(_)
            | Published::Withdrawn(_)
            | Published::Closed(_) => Vec::new(),
        }
    }

    /// All blocks in order, those that were taken back included.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        self.blocks.values()
    }

    /// One of them.
    pub fn block(&self, id: &BlockId) -> Option<&Block> {
        self.blocks.get(self.places.get(id)?).map(|block| &**block)
    }

    /// A call.
    pub fn call(&self, call: &CallId) -> Option<&CallBlock> {
        match &self.block(&BlockId::Call(call.clone()))?.body {
            Body::Call(call) => Some(call),
            _ => None,
        }
    }

    /// What is known of the session as a whole.
    pub fn session(&self) -> &SessionBlock {
        match self.block(&BlockId::Session).map(|block| &block.body) {
            Some(Body::Session(session)) => session,
            _ => unreachable!("a story begins with the session's block"),
        }
    }

    /// What the session has cost so far, where not all records of its past are heard.
    pub fn set_cost(&mut self, cost_micros: Option<u64>) {
        let block = self.places.get(&BlockId::Session).and_then(|order| self.blocks.get_mut(order));
        if let Some(Body::Session(session)) = block.map(|block| &mut Arc::make_mut(block).body) {
            session.cost_micros = cost_micros;
        }
    }

    /// Lets go of every block but the session's, and of what is under way: for a face that has drawn them and never looks
    /// back. Later records change none of them any more.
    pub fn forget(&mut self) {
        let running = self.running.iter().chain(&self.own).map(|call| BlockId::Call(call.clone()));
        let asked = self.step.iter().filter(|step| step.asking == Asking::Now).map(OpenStep::model_id);
        let open: Vec<BlockId> = [BlockId::Session]
            .into_iter()
            .chain(running.chain(asked))
            .chain(self.compaction.iter().chain(&self.rewind).chain(&self.streamed).cloned())
            .chain(self.waiting.iter().map(|(message, _)| BlockId::User(message.clone())))
            .collect();
        self.places.retain(|id, _| open.contains(id));
        let kept: Vec<Order> = self.places.values().copied().collect();
        self.blocks.retain(|order, _| kept.contains(order));
    }

    /// Whether a command of the user's own has no result yet.
    pub fn runs_of_user(&self) -> bool {
        !self.own.is_empty()
    }

    /// Puts a block where it belongs, in the place of the one that had its id.
    fn put(&mut self, block: Block, changes: &mut Vec<Change>) {
        let block = Arc::new(block);
        let before = self.places.insert(block.id.clone(), block.order);
        if let Some(before) = before.filter(|before| self.blocks.get(before).is_some_and(|there| there.id == block.id))
        {
            self.blocks.remove(&before);
        }
        self.blocks.insert(block.order, Arc::clone(&block));
        changes.push(Change::Put(block));
    }

    /// Changes a block, if there is one of this id; `at` is the record that changes it.
    fn change(&mut self, id: &BlockId, at: &Record, changes: &mut Vec<Change>, change: impl FnOnce(&mut Body)) {
        let Some(block) = self.places.get(id).and_then(|order| self.blocks.get_mut(order)) else { return };
        let changed = Arc::make_mut(block);
        change(&mut changed.body);
        (changed.changed_seq, changed.changed_ms) = (at.seq, at.at_ms);
        changes.push(Change::Put(Arc::clone(block)));
    }

    fn drop_block(&mut self, id: &BlockId, changes: &mut Vec<Change>) {
        if let Some(order) = self.places.remove(id) {
            self.blocks.remove(&order);
            changes.push(Change::Drop(id.clone()));
        }
    }

    /// Marks what a rewind took back, and takes the mark from what it brought back.
    fn mark(&mut self, changes: &mut Vec<Change>) {
        let path = Path::with_moves(&self.moves);
        let mut kept: Vec<Order> = Vec::new();
        for (order, block) in &self.blocks {
            match &block.body {
                // Where and how the session works is so whatever was taken back.
                Body::Session(_) | Body::Moved { .. } | Body::Configured { .. } | Body::TaskEnd { .. } => continue,
                _ if !path.contains(block.seq) => continue,
                // What the turn had answered was said before it began, and is taken back with it.
                Body::Rewind { rewind, state: RewindState::Finished { .. } } if rewind.to.is_some() => {
                    let beside = |order: &&Order| self.blocks[*order].is_beside_prompt();
                    let first = kept.len() - kept.iter().rev().take_while(beside).count();
                    let of_prompt = |order: &Order| self.blocks[order].is_of_prompt();
                    let stays: Vec<Order> = kept.drain(first..).filter(|order| !of_prompt(order)).collect();
                    kept.extend(stays);
                }
                _ => {}
            }
            kept.push(*order);
        }
        for (order, block) in &mut self.blocks {
            let stays = matches!(
                block.body,
                Body::Session(_) | Body::Moved { .. } | Body::Configured { .. } | Body::TaskEnd { .. }
            );
            let taken_back = !stays && kept.binary_search(order).is_err();
            if block.taken_back != taken_back {
                Arc::make_mut(block).taken_back = taken_back;
                changes.push(Change::Put(Arc::clone(block)));
            }
        }
    }
}
