//! What each record does to the story.

use super::block::{
    Block, BlockId, Body, CallBlock, CallStage, Caller, CompactionBlock, CompactionEnd, LostTry, ModelBlock,
    ModelState, Order, RewindState, SampledCall, SessionBlock, WordsState,
};
use super::live::Said;
use super::{Asking, Change, OpenStep, Story};
use crate::branch::moved_to;
use crate::cache::Reading;
use crate::call::CallInput;
use crate::event::{Delivery, Event, Record, Sampled, StepKind, Subject, SummaryCall, TitledBy, Trigger, TurnEnd};
use crate::hook::HookPoint;
use crate::ids::{CallId, MessageId};
use crate::message::{Part, prose};
use crate::shell::user_call;

impl Story {
    /// Hears a record and says what is different now. One that was heard before changes nothing.
    pub fn record(&mut self, record: &Record) -> Vec<Change> {
        if record.seq <= self.seq {
            return Vec::new();
        }
        let reading = self.ledger.apply(record);
        let since_ms = record.at_ms.saturating_sub(std::mem::replace(&mut self.at_ms, record.at_ms));
        self.seq = record.seq;
        let mut changes = Vec::new();
        self.of_session(record, &mut changes);
        self.of_turn(record, &mut changes);
        self.of_model(record, reading.as_ref(), &mut changes);
        self.of_calls(record, since_ms, &mut changes);
        self.of_compaction(record, reading, &mut changes);
        self.of_rewind(record, &mut changes);
        changes
    }

    /// A block of this record's own.
    fn add(&mut self, id: BlockId, part: u32, body: Body, record: &Record, changes: &mut Vec<Change>) {
        let order = Order { seq: record.seq, part };
        self.put(self.block_at(id, order, body, record), changes);
    }

    /// A block of this record's that has no other name.
    fn mark_at(&mut self, part: u32, body: Body, record: &Record, changes: &mut Vec<Change>) -> BlockId {
        let id = BlockId::Mark { seq: record.seq, part };
        self.add(id.clone(), part, body, record, changes);
        id
    }

    fn block_at(&self, id: BlockId, order: Order, body: Body, record: &Record) -> Block {
        let (seq, at_ms) = (record.seq, record.at_ms);
        Block { id, order, seq, at_ms, changed_seq: seq, changed_ms: at_ms, turn: self.turn, taken_back: false, body }
    }

    /// The session as a whole, and what lies beside its turns.
    fn of_session(&mut self, record: &Record, changes: &mut Vec<Change>) {
        let event = &record.event;
        match event {
            Event::UserSpoke { message, parts, delivery, typed, .. } => {
                let text = typed.clone().unwrap_or_else(|| prose(parts).into_owned());
                self.spoke(record, message, parts, text, *delivery, changes);
            }
            Event::MessageUnqueued { message } => self.unqueued(record, message, changes),
            Event::MessageMoved { message, before } => self.moved(message, before.as_ref()),
            Event::ContextGiven { items } => {
                self.mark_at(0, Body::Given { items: items.clone() }, record, changes);
            }
            Event::HooksRan { point, call, runs, sent_back, .. } => {
                let (call, runs, sent_back) = (call.clone(), runs.clone(), sent_back.clone());
                self.mark_at(0, Body::Hooks { point: *point, call, runs, sent_back }, record, changes);
            }
            Event::TitleGiven { title, by } => {
                self.mark_at(0, Body::Title { title: title.clone(), by: by.clone() }, record, changes);
            }
            Event::Todo { items } => {
                self.mark_at(0, Body::Todo { items: items.clone() }, record, changes);
            }
            Event::WorkspaceMoved { workspace } => {
                self.mark_at(0, Body::Moved { workspace: workspace.clone() }, record, changes);
            }
            Event::SettingsChanged { changed, by, at_once } => {
                let body = Body::Configured { changed: changed.clone(), by: *by, at_once: *at_once };
                self.mark_at(0, body, record, changes);
            }
            Event::TaskEnded { task, outcome } => {
                let body = Body::TaskEnd { task: task.clone(), outcome: Box::new(outcome.clone()) };
                self.mark_at(0, body, record, changes);
            }
            Event::EventLost {} => self.lost(record, changes),
            _ => {}
        }
        let cost = cost_of(event);
        self.session_changed(record, changes, |session| {
            if let Some(cost) = cost {
                *session.cost_micros.get_or_insert(0) += cost;
            }
            match event {
                Event::SessionStarted { session: id, workspace, .. } => {
                    (session.id, session.workspace) = (id.to_string(), workspace.clone());
                    session.started_ms = record.at_ms;
                }
                Event::TitleGiven { title, by } if by.names(title) => session.title.clone_from(title),
                Event::WorkspaceMoved { workspace } => session.workspace.clone_from(workspace),
                Event::TurnStarted { turn, model, .. } => {
                    (session.turns, session.busy) = (session.turns.max(*turn), true);
                    session.model.clone_from(model);
                }
                Event::TurnResumed { model, .. } | Event::ModelSwitched { model, .. } => {
                    session.model.clone_from(model);
                }
                Event::StepStarted { step, .. } => session.steps = session.steps.max(*step),
                _ => {}
            }
        });
    }

    fn session_changed(&mut self, record: &Record, changes: &mut Vec<Change>, change: impl FnOnce(&mut SessionBlock)) {
        let before = self.session();
        let mut after = before.clone();
        change(&mut after);
        if *before != after {
            self.change(&BlockId::Session, record, changes, |body| *body = Body::Session(Box::new(after)));
        }
    }

    fn spoke(
        &mut self,
        record: &Record,
        message: &MessageId,
        parts: &[Part],
        text: String,
        delivery: Delivery,
        changes: &mut Vec<Change>,
    ) {
        let id = BlockId::User(message.clone());
        // Who repeats a message is not heard twice.
        if self.block(&id).is_some() {
            return;
        }
        let notes = parts.iter().filter_map(|part| match part {
            Part::Note { text, .. } => Some(text),
            _ => None,
        });
        let mut own = 0;
        for text in notes {
            self.mark_at(own, Body::Note { text: text.clone() }, record, changes);
            own += 1;
        }
        let images = parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
        let body = Body::User { text, images, delivery, waiting: true };
        self.add(id, own, body, record, changes);
        self.waiting.push((message.clone(), delivery));
        self.session_changed(record, changes, |session| session.busy = true);
    }

    /// Somebody took it back before it was read: as if it had never been said.
    fn unqueued(&mut self, record: &Record, message: &MessageId, changes: &mut Vec<Change>) {
        let Some(place) = self.waiting.iter().position(|(waiting, _)| waiting == message) else { return };
        self.waiting.remove(place);
        let id = BlockId::User(message.clone());
        if let Some(Order { seq, part: own }) = self.block(&id).map(|block| block.order) {
            (0..own).for_each(|part| self.drop_block(&BlockId::Mark { seq, part }, changes));
        }
        self.drop_block(&id, changes);
        if self.waiting.is_empty() && !self.in_turn {
            self.session_changed(record, changes, |session| session.busy = false);
        }
    }

    /// It is read before this one, or last.
    fn moved(&mut self, message: &MessageId, before: Option<&MessageId>) {
        let place_of =
            |waiting: &[(MessageId, Delivery)], id: &MessageId| waiting.iter().position(|(own, _)| own == id);
        let Some(place) = place_of(&self.waiting, message) else { return };
        let moved = self.waiting.remove(place);
        let place = before.and_then(|before| place_of(&self.waiting, before)).unwrap_or(self.waiting.len());
        self.waiting.insert(place, moved);
    }

    /// A step or a turn has read these.
    fn heard(&mut self, messages: &[MessageId], record: &Record, changes: &mut Vec<Change>) {
        for message in messages {
            self.change(&BlockId::User(message.clone()), record, changes, |body| {
                if let Body::User { waiting, .. } = body {
                    *waiting = false;
                }
            });
        }
    }

    /// What was under way is over, and nobody knows how.
    fn lost(&mut self, record: &Record, changes: &mut Vec<Change>) {
        self.own.clear();
        self.rest(changes);
        let was_in_turn = std::mem::take(&mut self.in_turn);
        self.step = None;
        let last = self.blocks.values().next_back().filter(|last| matches!(last.body, Body::Lost { .. }));
        match last.map(|last| last.id.clone()) {
            Some(last) => self.change(&last, record, changes, |body| {
                if let Body::Lost { events } = body {
                    *events += 1;
                }
            }),
            None => drop(self.mark_at(0, Body::Lost { events: 1 }, record, changes)),
        }
        if was_in_turn {
            self.session_changed(record, changes, |session| session.busy = false);
        }
    }

    /// Turns and steps.
    fn of_turn(&mut self, record: &Record, changes: &mut Vec<Change>) {
        match &record.event {
            Event::TurnStarted { turn, model, .. } => {
                (self.turn, self.in_turn, self.step) = (*turn, true, None);
                self.model.clone_from(model);
                let body = Body::Turn { turn: *turn, model: model.clone() };
                self.add(BlockId::Turn(*turn), 0, body, record, changes);
                if !self.waiting.is_empty() {
                    let (first, _) = self.waiting.remove(0);
                    self.heard(&[first], record, changes);
                }
            }
            Event::TurnResumed { model, .. } => {
                self.model.clone_from(model);
                if self.is_asking() {
                    self.ask(record, changes);
                }
            }
            Event::StepStarted { step, kind, note } => {
                self.step_started(record, *step, *kind, note.as_deref(), changes);
            }
            Event::StepFinished { step } => self.change(&BlockId::Step(*step), record, changes, |body| {
                if let Body::Step { finished, .. } = body {
                    *finished = true;
                }
            }),
            Event::CancelRequested { by } => {
                self.mark_at(0, Body::Stopping { by: by.clone() }, record, changes);
            }
            Event::TurnEnded { turn, end, detail, spent, .. } => {
                self.rest(changes);
                (self.step, self.in_turn) = (None, false);
                self.withdraw(record, changes, |_| true);
                let (end, detail, spent) = (*end, detail.clone(), *spent);
                let body = Body::TurnEnd { turn: *turn, end, detail, spent };
                self.add(BlockId::TurnEnd(*turn), 0, body, record, changes);
                let goes_on = end == TurnEnd::Completed && !self.waiting.is_empty();
                self.session_changed(record, changes, |session| session.busy = goes_on);
            }
            _ => {}
        }
    }

    fn step_started(
        &mut self,
        record: &Record,
        step: u32,
        kind: StepKind,
        note: Option<&str>,
        changes: &mut Vec<Change>,
    ) {
        self.rest(changes);
        self.add(BlockId::Step(step), 0, Body::Step { step, kind, finished: false }, record, changes);
        if let Some(note) = note {
            self.mark_at(1, Body::Note { text: note.to_owned() }, record, changes);
        }
        let (steering, later) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, delivery)| *delivery == Delivery::Steer);
        self.waiting = later;
        let steering: Vec<(MessageId, Delivery)> = steering;
        let heard: Vec<MessageId> = steering.into_iter().map(|(message, _)| message).collect();
        self.heard(&heard, record, changes);
        self.step = Some(OpenStep { step, tried: 0, attempt: 0, anchor: record.seq, asking: Asking::Failed });
        self.ask(record, changes);
    }

    fn is_asking(&self) -> bool {
        self.step.as_ref().is_some_and(|step| step.asking == Asking::Now)
    }

    /// The model is asked, or asked again, in the step under way; its reply stands behind this record.
    fn ask(&mut self, record: &Record, changes: &mut Vec<Change>) {
        self.drop_streamed(changes);
        let Some(open) = self.step.as_mut().filter(|open| open.asking != Asking::Over) else { return };
        if open.asking == Asking::Failed {
            open.tried += 1;
        }
        open.attempt = match &record.event {
            Event::BackoffPassed { .. } => open.attempt + 1,
            _ if open.asking == Asking::Now => open.attempt,
            _ => 1,
        };
        (open.anchor, open.asking) = (record.seq, Asking::Now);
        let (id, order) = (open.model_id(), open.model_order());
        let block = ModelBlock::new(open.step, open.attempt, &self.model, record.at_ms, ModelState::Asked);
        self.put(self.block_at(id, order, Body::Model(Box::new(block)), record), changes);
    }

    /// Nothing streams and nothing runs any more; a question to the model that got no answer is forgotten.
    fn rest(&mut self, changes: &mut Vec<Change>) {
        self.drop_streamed(changes);
        self.drop_outputs(|own| !own, changes);
        if let Some(open) = self.step.as_mut().filter(|open| open.asking == Asking::Now) {
            open.asking = Asking::Over;
            let id = open.model_id();
            self.drop_block(&id, changes);
        }
        // What the user runs goes on beside every turn.
        self.running.retain(|call| self.own.contains(call));
        self.compaction = None;
    }

    /// What the model was asked, and what it said.
    fn of_model(&mut self, record: &Record, reading: Option<&Reading>, changes: &mut Vec<Change>) {
        match &record.event {
            Event::MessageFinished { step, attempt, reply, cost_micros, at_most, prompt, first_ms, .. } => {
                let state = ModelState::Replied {
                    finish: reply.finish,
                    raw: reply.finish_raw.clone(),
                    response_id: reply.response_id.clone(),
                    warnings: reply.warnings.clone(),
                };
                let block = ModelBlock {
                    usage: reply.usage,
                    cost_micros: *cost_micros,
                    at_most: *at_most,
                    first_ms: *first_ms,
                    prompt: prompt.clone(),
                    cache: reading.cloned(),
                    ..self.answered(*step, *attempt, state)
                };
                self.reply(record, &reply.parts, WordsState::Whole, block, changes);
            }
            Event::ModelFailed {
                step,
                attempt,
                error,
                usage,
                cost_micros,
                at_most,
                prompt,
                abandoned,
                retry_at_ms,
                ..
            } => {
                let (error, retry_at_ms) = (error.clone(), *retry_at_ms);
                let block = ModelBlock {
                    usage: *usage,
                    cost_micros: *cost_micros,
                    at_most: *at_most,
                    prompt: prompt.clone(),
                    ..self.answered(*step, *attempt, ModelState::Failed { error, retry_at_ms, waited_to_ms: None })
                };
                self.reply(record, abandoned, WordsState::Abandoned, block, changes);
            }
            Event::MessageCut { step, parts, at_most } => {
                let attempt = self.step.as_ref().map_or(1, |open| open.attempt);
                let block = ModelBlock { at_most: *at_most, ..self.answered(*step, attempt, ModelState::Cut) };
                self.reply(record, parts, WordsState::Cut, block, changes);
            }
            Event::BackoffPassed { .. } => {
                if let Some(last) =
                    self.step.as_ref().filter(|step| step.asking == Asking::Failed).map(OpenStep::model_id)
                {
                    self.change(&last, record, changes, |body| {
                        if let Body::Model(model) = body
                            && let ModelState::Failed { waited_to_ms, .. } = &mut model.state
                        {
                            *waited_to_ms = Some(record.at_ms);
                        }
                    });
                }
                self.ask(record, changes);
            }
            Event::ModelSwitched { model, reason, .. } => {
                let (from, reason) = (std::mem::replace(&mut self.model, model.clone()), reason.clone());
                self.mark_at(0, Body::Switched { from, model: model.clone(), reason }, record, changes);
                self.ask(record, changes);
            }
            Event::HooksRan { point: HookPoint::BeforeModel, .. } if self.is_asking() => self.ask(record, changes),
            _ => {}
        }
    }

    /// The block of an answer that has come.
    fn answered(&self, step: u32, attempt: u32, state: ModelState) -> ModelBlock {
        let asked = self.step.as_ref().and_then(|open| match &self.block(&open.model_id())?.body {
            Body::Model(model) => Some(model.asked_ms),
            _ => None,
        });
        let asked_ms = asked.unwrap_or(self.at_ms);
        ModelBlock { asked_ms, ..ModelBlock::new(step, attempt, &self.model, self.at_ms, state) }
    }

    /// What a reply says and calls, in the place of what of it has streamed.
    fn reply(
        &mut self,
        record: &Record,
        parts: &[Part],
        state: WordsState,
        model: ModelBlock,
        changes: &mut Vec<Change>,
    ) {
        // An answer is to what is asked now; one that nobody asked for is told all the same.
        if !self.is_asking() {
            self.rest(changes);
            let (step, attempt) = (model.step, model.attempt);
            let again = self.step.as_ref().filter(|open| open.step == step).map(|open| open.tried + 1);
            let tried = again.unwrap_or(attempt);
            self.step = Some(OpenStep { step, tried, attempt, anchor: record.seq, asking: Asking::Now });
        }
        let Some(open) = self.step.as_mut() else { return };
        open.asking = if matches!(model.state, ModelState::Failed { .. }) { Asking::Failed } else { Asking::Over };
        open.attempt = model.attempt;
        let open = open.clone();
        let shown = parts.iter().filter_map(|part| Said::of(part, state));
        let shown: Vec<(BlockId, Order, Body)> =
            (0..).zip(shown).map(|(part, said)| (said.id(&open, part), open.order(part), said.body())).collect();
        let streamed = std::mem::take(&mut self.streamed).into_iter();
        let in_vain: Vec<BlockId> = streamed.filter(|id| shown.iter().all(|(shown, ..)| shown != id)).collect();
        in_vain.iter().for_each(|id| self.drop_block(id, changes));
        for (id, order, body) in shown {
            self.put(self.block_at(id, order, body, record), changes);
        }
        let model = ModelBlock { step: open.step, ..model };
        self.put(self.block_at(open.model_id(), open.model_order(), Body::Model(Box::new(model)), record), changes);
    }

    /// Calls, the questions about them, and the snapshots before them.
    fn of_calls(&mut self, record: &Record, since_ms: u64, changes: &mut Vec<Change>) {
        match &record.event {
            Event::UserRan { call, command, keep_from_model, terminal, .. } => {
                let caller = if *keep_from_model { Caller::UserAlone } else { Caller::User };
                self.own.push(call.clone());
                let block = CallBlock { caller, ..CallBlock::of(&user_call(call, command, *terminal)) };
                self.add(BlockId::Call(call.clone()), 0, Body::Call(Box::new(block)), record, changes);
            }
            Event::CallRequested { call, input, verdict, plan, judged, .. } => {
                self.call_changed(call, record, changes, |call| {
                    (call.verdict, call.judged) = (Some(verdict.clone()), judged.clone());
                    if let Some(input) = input {
                        call.takes(CallInput::Json(input.clone()));
                    }
                    plan.iter().for_each(|plan| call.plans(plan));
                });
            }
            Event::CallStarted { call } => {
                self.running.push(call.clone());
                self.call_changed(call, record, changes, |call| {
                    (call.started_ms, call.stage) = (Some(record.at_ms), CallStage::Running(String::new()));
                });
            }
            Event::Delegated { call, child, .. } => {
                self.call_changed(call, record, changes, |call| call.child = Some(child.clone()));
            }
            Event::ServerSampled { call, sampled, .. } => {
                let (seq, ended_ms, sampled) = (record.seq, record.at_ms, Sampled::clone(sampled));
                self.call_changed(call, record, changes, |call| {
                    call.sampled.push(SampledCall { seq, ended_ms, sampled });
                });
            }
            Event::CallSettled { call, outcome } => {
                self.running.retain(|running| running != call);
                self.own.retain(|running| running != call);
                self.withdraw(record, changes, |asked| asked.call() == call);
                self.call_changed(call, record, changes, |call| call.settle(outcome.clone()));
            }
            Event::ApprovalAsked { subject, question } => {
                self.asked.push(subject.clone());
                let (subject, question) = (subject.clone(), question.clone());
                let body = Body::Question { subject: subject.clone(), question, answer: None, withdrawn: false };
                self.add(BlockId::Question(subject), 0, body, record, changes);
            }
            Event::ApprovalGiven { subject, decision, .. } => {
                self.asked.retain(|asked| asked != subject);
                self.change(&BlockId::Question(subject.clone()), record, changes, |body| {
                    if let Body::Question { answer, .. } = body {
                        *answer = Some(decision.clone());
                    }
                });
            }
            Event::SnapshotTaken { moment, notices, .. } => {
                let body = Body::Snapshot { moment: *moment, notices: notices.clone(), took_ms: since_ms };
                self.mark_at(0, body, record, changes);
            }
            _ => {}
        }
    }

    /// Withdraws open questions.
    fn withdraw(&mut self, record: &Record, changes: &mut Vec<Change>, is_meant: impl Fn(&Subject) -> bool) {
        let (over, open) = std::mem::take(&mut self.asked).into_iter().partition(is_meant);
        self.asked = open;
        let over: Vec<Subject> = over;
        for subject in over {
            self.change(&BlockId::Question(subject), record, changes, |body| {
                if let Body::Question { withdrawn, .. } = body {
                    *withdrawn = true;
                }
            });
        }
    }

    fn call_changed(
        &mut self,
        call: &CallId,
        record: &Record,
        changes: &mut Vec<Change>,
        change: impl FnOnce(&mut CallBlock),
    ) {
        self.change(&BlockId::Call(call.clone()), record, changes, |body| {
            if let Body::Call(call) = body {
                change(call);
            }
        });
    }

    /// A compaction.
    fn of_compaction(&mut self, record: &Record, reading: Option<Reading>, changes: &mut Vec<Change>) {
        match &record.event {
            Event::CompactionStarted { trigger, lost, .. } => {
                let lost = lost.map(|at_most| LostTry { seq: record.seq, model: self.model.clone(), at_most });
                self.compact(record, *trigger, changes, |compaction| {
                    compaction.asked_ms = record.at_ms;
                    compaction.lost.extend(lost);
                });
            }
            Event::HooksRan { .. } => {
                let Some(id) = self.compaction.clone() else { return };
                return self.compaction_changed(&id, record, changes, |compaction| compaction.asked_ms = record.at_ms);
            }
            Event::ContextPruned { calls, to_bytes, tokens_before, tokens_after, suffices } => {
                let tokens = (*tokens_before, *tokens_after);
                let body = Body::Pruned { calls: calls.len(), to_bytes: *to_bytes, tokens, suffices: *suffices };
                self.mark_at(1, body, record, changes);
                if let Some(id) = self.compaction.clone() {
                    self.compaction = self.compaction.take().filter(|_| !suffices);
                    self.compaction_changed(&id, record, changes, |compaction| {
                        (compaction.asked_ms, compaction.end) =
                            (record.at_ms, suffices.then_some(CompactionEnd::Pruned));
                    });
                }
            }
            Event::CompactionFinished { trigger, summary, tokens_before, tokens_after, asked, .. } => {
                let end = CompactionEnd::Summary { text: summary.clone(), tokens: (*tokens_before, *tokens_after) };
                self.compacted(record, *trigger, end, asked.clone(), reading, changes);
            }
            Event::CompactionFailed { trigger, error, asked, .. } => {
                let end = CompactionEnd::Failed { error: error.clone() };
                self.compacted(record, *trigger, end, asked.clone(), reading, changes);
            }
            _ => return,
        }
        self.ask(record, changes);
    }

    fn compacted(
        &mut self,
        record: &Record,
        trigger: Trigger,
        end: CompactionEnd,
        asked: Option<Box<SummaryCall>>,
        cache: Option<Reading>,
        changes: &mut Vec<Change>,
    ) {
        self.compact(record, trigger, changes, |compaction| {
            (compaction.end, compaction.asked, compaction.cache) = (Some(end), asked, cache);
        });
        self.compaction = None;
    }

    /// Changes the block of the compaction under way, begun where it is not: old sessions, and people who write a summary,
    /// do not say that they begin.
    fn compact(
        &mut self,
        record: &Record,
        trigger: Trigger,
        changes: &mut Vec<Change>,
        change: impl FnOnce(&mut CompactionBlock),
    ) {
        let id = self.compaction.clone().unwrap_or_else(|| {
            let between_turns = !self.in_turn;
            let (asked_ms, lost) = (record.at_ms, Vec::new());
            let compaction =
                CompactionBlock { trigger, between_turns, end: None, lost, asked: None, asked_ms, cache: None };
            self.mark_at(0, Body::Compaction(Box::new(compaction)), record, changes)
        });
        self.compaction = Some(id.clone());
        self.compaction_changed(&id, record, changes, change);
    }

    fn compaction_changed(
        &mut self,
        id: &BlockId,
        record: &Record,
        changes: &mut Vec<Change>,
        change: impl FnOnce(&mut CompactionBlock),
    ) {
        self.change(id, record, changes, |body| {
            if let Body::Compaction(compaction) = body {
                change(compaction);
            }
        });
    }

    /// Turns that are taken back or brought back.
    fn of_rewind(&mut self, record: &Record, changes: &mut Vec<Change>) {
        let (rewind, state) = match &record.event {
            Event::RewindStarted { rewind, .. } => (rewind, RewindState::Started),
            Event::RewindFinished { rewind, left, .. } => (rewind, RewindState::Finished { left: left.clone() }),
            Event::RewindAbandoned { rewind, error, touches } => {
                (rewind, RewindState::Abandoned { error: error.clone(), touches: touches.clone() })
            }
            // Whether a rewind came to its end is not known.
            Event::EventLost {} | Event::TurnStarted { .. } => return self.rewind = None,
            _ => return,
        };
        let is_started = state == RewindState::Started;
        // Done, it stands where it was done: what follows the new head.
        if let Some(started) = self.rewind.take() {
            self.drop_block(&started, changes);
        }
        let id = self.mark_at(0, Body::Rewind { rewind: rewind.clone(), state }, record, changes);
        if is_started {
            self.rewind = Some(id);
        }
        if let Some(to) = moved_to(&record.event) {
            self.moves.push((record.seq, to));
            self.mark(changes);
            self.waiting = self.queue();
        }
        if let Event::RewindFinished { .. } = record.event {
            self.session_changed(record, changes, |session| session.busy = false);
        }
    }

    /// What waits to be read, of what was not taken back.
    fn queue(&self) -> Vec<(MessageId, Delivery)> {
        let waits = |block: &Block| match (&block.id, &block.body) {
            (BlockId::User(message), Body::User { delivery, waiting: true, .. }) if !block.taken_back => {
                Some((message.clone(), *delivery))
            }
            _ => None,
        };
        self.blocks().filter_map(|block| waits(block)).collect()
    }
}

/// What an event says that something cost.
fn cost_of(event: &Event) -> Option<u64> {
    match event {
        Event::MessageFinished { cost_micros, .. }
        | Event::ModelFailed { cost_micros, .. }
        | Event::TitleGiven { by: TitledBy::Model { cost_micros, .. }, .. } => *cost_micros,
        Event::CompactionFinished { asked: Some(asked), .. } | Event::CompactionFailed { asked: Some(asked), .. } => {
            asked.cost_micros
        }
        Event::ServerSampled { sampled, .. } => sampled.cost_micros,
        Event::CallSettled { outcome, .. } | Event::TaskEnded { outcome, .. } => {
            outcome.delegated.as_ref().and_then(|delegated| delegated.cost_micros)
        }
        _ => None,
    }
}
