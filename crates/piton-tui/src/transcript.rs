//! What happened in a session, as rows: those that are final go to the scrollback once, in order; the rest is drawn anew
//! with every frame.
//!
//! A row becomes final with its block, and a block when all before it are: of what streams, the lines that can never
//! change. What a block looks like is in [`crate::blocks`].

use crate::blocks::{self, Sketch};
use crate::markdown::Flow;
use crate::theme::Theme;
use piton_core::call::{CallKind, Status};
use piton_core::client::Published;
use piton_core::event::{Delivery, Subject};
use piton_core::ids::CallId;
use piton_core::story::{Block, BlockId, Body, Caller, Change, Field, Story, WordsState};
use ratatui_core::text::Line;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Turns of a resumed session that are shown again.
const TURNS_SHOWN: u32 = 2;

/// Blocks whose rows are final that are kept within a turn: an undo marks them, nothing else looks at them.
const MOST_DONE: usize = 400;

/// Answers that are kept to be copied, and their bytes.
const MOST_ANSWERS: usize = 50;
const MOST_ANSWER_BYTES: usize = 1 << 20;

/// The rows of a session.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    story: Story,
    /// Blocks whose rows are final.
    done: HashSet<BlockId>,
    /// Words that stream, with what of them the flow has been given.
    flows: HashMap<BlockId, Streamed>,
    /// Whether what is told happened before somebody looked.
    catches_up: bool,
    /// Whether the turn was interrupted with the process that ran it, and nothing has resumed it yet.
    is_interrupted: bool,
    /// The newest block of which not all is shown: a call that is settled, or a long message.
    last_folded: Option<Arc<Block>>,
    /// What the model said, the newest last.
    last_words: VecDeque<String>,
    /// What undo does not cover, as far as it was said.
    noticed: Vec<String>,
}

#[derive(Debug, Default)]
struct Streamed {
    flow: Flow,
    given: String,
    /// Whether anything of it is final: then it is set off already.
    has_begun: bool,
}

impl Streamed {
    /// That is the text, all of it so far. Where pieces of it were missed, what is final already stays.
    fn is(&mut self, text: &str) {
        if let Some(more) = text.strip_prefix(self.given.as_str()) {
            self.flow.push(more);
        } else if !self.has_begun {
            self.flow = Flow::default();
            self.flow.push(text);
        } else {
            let same = self.given.char_indices().zip(text.chars()).find(|((_, given), is)| given != is);
            let same = same.map_or(self.given.len().min(text.len()), |((at, _), _)| at);
            self.flow.push(text.get(same..).unwrap_or_default());
        }
        text.clone_into(&mut self.given);
    }
}

impl Transcript {
    /// The rows of a session whose records are still to come; of those from before, only the last turns are shown.
    pub(crate) fn new() -> Self {
        Self { catches_up: true, ..Self::default() }
    }

    /// What is known of the session.
    pub(crate) fn story(&self) -> &Story {
        &self.story
    }

    /// What was under way is not: the process that ran it is gone.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Whether the turn waits to be resumed.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Whether a turn or a command of the person's runs.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_interrupted && (self.story.session().busy || self.story.runs_of_user())
    }

    /// What the session has cost so far, told or not.
    pub(crate) fn spent(&mut self, cost_micros: Option<u64>) {
        self.story.set_cost(cost_micros);
    }

    /// The newest call that is settled, or the message behind it, if that is long.
    pub(crate) fn last_folded(&self) -> Option<&Arc<Block>> {
        self.last_folded.as_ref()
    }

    /// What the model said last.
    pub(crate) fn last_words(&self) -> &str {
        self.words_back(1).unwrap_or_default()
    }

    /// What it said so many answers ago; 1 is the last.
    pub(crate) fn words_back(&self, number: usize) -> Option<&str> {
        self.last_words.iter().rev().nth(number.checked_sub(1)?).map(String::as_str)
    }

    /// Takes notice of what happened.
    pub(crate) fn hear(&mut self, published: &Published) {
        match published {
            Published::CaughtUp => self.caught_up(),
            // Whoever runs the session now has resumed it.
            Published::Recorded(_) if !self.catches_up => self.is_interrupted = false,
            _ => {}
        }
        for change in self.story.hear(published) {
            match change {
                Change::Put(block) => self.put(&block),
                // What is from before is read when it is known which of it is shown.
                Change::Grow { .. } if self.catches_up => {}
                Change::Grow { id, field: Field::Text, text } => {
                    // Before the first fragment there is an empty block, or one that a late listener was told of.
                    let streamed = self.flows.entry(id).or_default();
                    streamed.flow.push(&text);
                    streamed.given.push_str(&text);
                }
                Change::Grow { .. } => {}
                Change::Drop(id) => {
                    self.flows.remove(&id);
                    self.done.remove(&id);
                }
            }
        }
    }

    fn put(&mut self, block: &Arc<Block>) {
        match &block.body {
            Body::Words { text, state } if !self.done.contains(&block.id) => {
                if *state == WordsState::Whole {
                    self.keep_words(text);
                }
                if !self.catches_up {
                    self.flows.entry(block.id.clone()).or_default().is(text);
                }
            }
            Body::Call(call) if call.outcome().is_some() => self.last_folded = Some(Arc::clone(block)),
            Body::User { text, .. } if blocks::is_long(text) => self.last_folded = Some(Arc::clone(block)),
            _ => {}
        }
    }

    /// Keeps an answer for those who want a copy. What is heard again is kept once.
    fn keep_words(&mut self, text: &str) {
        if self.last_words.back().is_some_and(|last| last == text) || text.is_empty() {
            return;
        }
        self.last_words.push_back(text.to_owned());
        let bytes = |words: &VecDeque<String>| words.iter().map(String::len).sum::<usize>();
        while self.last_words.len() > 1
            && (self.last_words.len() > MOST_ANSWERS || bytes(&self.last_words) > MOST_ANSWER_BYTES)
        {
            self.last_words.pop_front();
        }
    }

    /// Nothing from before is shown but the last turns.
    fn caught_up(&mut self) {
        if !std::mem::take(&mut self.catches_up) {
            return;
        }
        let turns = self.story.session().turns;
        let is_old = |block: &&Arc<Block>| block.turn + TURNS_SHOWN <= turns;
        let old: Vec<BlockId> = self.story.blocks().filter(is_old).map(|block| block.id.clone()).collect();
        self.done.extend(old);
        let open: Vec<Arc<Block>> =
            self.story.blocks().filter(|block| !self.done.contains(&block.id)).map(Arc::clone).collect();
        open.iter().for_each(|block| self.put(block));
    }

    /// The rows that are final by now and were not before.
    pub(crate) fn commit(&mut self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        if self.catches_up {
            return rows;
        }
        let sketch = Sketch { columns, theme, folds: true, typed_into: None };
        let open: Vec<Arc<Block>> =
            self.story.blocks().filter(|block| !self.done.contains(&block.id)).map(Arc::clone).collect();
        let mut rest = open.iter().peekable();
        while let Some(block) = rest.next() {
            if matches!(block.body, Body::User { waiting: true, .. }) || runs_beside(block) {
                continue;
            }
            if is_look(block) {
                let mut looks = vec![block];
                while let Some(next) = rest.next_if(|next| is_look(next)) {
                    looks.push(next);
                }
                // More of them may come to stand in the same line.
                if rest.peek().is_some_and(|next| is_open_look(next)) {
                    break;
                }
                rows.extend(sketch.looks(&looks));
                self.done.extend(looks.iter().map(|look| look.id.clone()));
                continue;
            }
            if let Body::Words { state, .. } = &block.body {
                let is_over = *state != WordsState::Streaming;
                self.commit_words(block, is_over, &sketch, &mut rows);
                if !is_over {
                    break;
                }
                continue;
            }
            if !is_final(block) {
                break;
            }
            if let Body::Snapshot { notices, .. } = &block.body {
                let new: Vec<String> =
                    notices.iter().filter(|notice| !self.noticed.contains(notice)).cloned().collect();
                rows.extend(sketch.notices(&new));
                self.noticed.extend(new);
            } else {
                rows.extend(sketch.block(block));
            }
            self.done.insert(block.id.clone());
        }
        let is_over = |block: &Arc<Block>| matches!(block.body, Body::TurnEnd { .. } | Body::Rewind { .. });
        let is_turn_over = open.iter().any(|block| is_over(block) && self.done.contains(&block.id));
        if is_turn_over || (self.done.len() > MOST_DONE && self.waiting().is_empty()) {
            self.forget();
        }
        rows
    }

    fn commit_words(&mut self, block: &Block, is_over: bool, sketch: &Sketch<'_>, rows: &mut Vec<Line<'static>>) {
        let streamed = self.flows.entry(block.id.clone()).or_default();
        if is_over {
            streamed.flow.finish();
        }
        let closed = streamed.flow.closed(sketch.columns, sketch.theme);
        if !closed.is_empty() && !std::mem::replace(&mut streamed.has_begun, true) {
            rows.push(Line::default());
        }
        rows.extend(closed);
        if is_over {
            if let Body::Words { state, .. } = &block.body {
                rows.extend(sketch.words_end(*state));
            }
            self.flows.remove(&block.id);
            self.done.insert(block.id.clone());
        }
    }

    /// What was drawn is the terminal's; nothing here looks back to it.
    fn forget(&mut self) {
        self.story.forget();
        let Self { story, done, flows, .. } = self;
        done.retain(|id| story.block(id).is_some());
        flows.retain(|id, _| story.block(id).is_some());
    }

    /// The rows of what may still change, without what waits to be heard.
    pub(crate) fn open(
        &self,
        columns: usize,
        theme: &Theme,
        (spinner, typed_into): (char, Option<&CallId>),
        now_ms: u64,
    ) -> Vec<Line<'static>> {
        let sketch = Sketch { columns, theme, folds: true, typed_into };
        let mut rows = Vec::new();
        let is_open = |block: &&Arc<Block>| !self.done.contains(&block.id) && !self.catches_up;
        for block in self.story.blocks().filter(is_open) {
            match &block.body {
                Body::User { .. } => {}
                Body::Words { .. } => {
                    let Some(streamed) = self.flows.get(&block.id) else { continue };
                    let open = streamed.flow.open(columns, theme);
                    if !open.is_empty() && !streamed.has_begun {
                        rows.push(Line::default());
                    }
                    rows.extend(open);
                }
                // Who waits sees that something comes.
                Body::Model(_) if !rows.is_empty() => {}
                _ if is_final(block) && !is_look(block) => rows.extend(sketch.block(block)),
                _ if self.is_interrupted => rows.extend(sketch.interrupted(block)),
                _ => rows.extend(sketch.live(block, spinner, now_ms)),
            }
        }
        rows
    }

    /// What was said and is not read yet, in the order in which the model will read it: what steers comes before turns to come.
    pub(crate) fn waiting(&self) -> Vec<&Block> {
        let blocks = self.story.blocks().map(|block| &**block);
        let mut waiting: Vec<&Block> =
            blocks.filter(|block| matches!(block.body, Body::User { waiting: true, .. })).collect();
        waiting.sort_by_key(|block| matches!(block.body, Body::User { delivery: Delivery::FollowUp, .. }));
        waiting
    }

    /// What the call that is asked about would run with.
    pub(crate) fn input_of(&self, subject: &Subject) -> Option<Value> {
        match subject {
            Subject::Call(call) | Subject::GoOn(call) => self.story.call(call)?.input.value().cloned(),
            // Of a host there is nothing to change; a subagent's is on record where it is asked.
            Subject::Host { .. } | Subject::Child { .. } | Subject::Elicited { .. } => None,
        }
    }
}

/// Whether a block will stay as it is, but for an undo.
fn is_final(block: &Block) -> bool {
    match &block.body {
        Body::User { waiting, .. } => !waiting,
        Body::Words { state, .. } | Body::Thought { state, .. } => *state != WordsState::Streaming,
        Body::Call(call) => call.outcome().is_some(),
        Body::Question { answer, withdrawn, .. } => answer.is_some() || *withdrawn,
        Body::Model(model) => blocks::is_answered(model),
        Body::Compaction(compaction) => compaction.end.is_some(),
        Body::Rewind { state, .. } => blocks::is_over(state),
        // What they hold changes nothing that is shown.
        Body::Session(_) | Body::Step { .. } | Body::Turn { .. } => true,
        _ => true,
    }
}

/// A command of the person's own that is not over: what comes behind it does not wait for it.
fn runs_beside(block: &Block) -> bool {
    matches!(&block.body, Body::Call(call) if call.caller != Caller::Model && call.outcome().is_none())
}

/// A call that only looked at something, and did.
fn is_look(block: &Block) -> bool {
    matches!(&block.body, Body::Call(call) if looks(call.kind)
        && call.outcome().is_some_and(|outcome| outcome.status == Status::Ok))
}

fn is_open_look(block: &Block) -> bool {
    matches!(&block.body, Body::Call(call) if looks(call.kind) && call.outcome().is_none())
}

fn looks(kind: CallKind) -> bool {
    matches!(kind, CallKind::Read | CallKind::Search)
}
