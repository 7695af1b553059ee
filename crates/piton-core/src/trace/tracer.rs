//! Reads the trace off the events of a session, from the first on. At most one record is open at a time; what happens
//! joins it, until something that it cannot contain closes it.

use super::{
    AskResult, Asked, CallTrace, Cause, HookTrace, Input, Next, OutsideTrace, Piece, Refused, RoomTrace, StepTrace,
    SummaryAsked, TitleTrace, Trace,
};
use crate::cache::{CacheLedger, Reading};
use crate::event::{
    Asked as AskedForSummary, Canceller, Delivery, Event, Record, Subject, TitledBy, Trigger, TurnEnd, Verdict,
};
use crate::hook::{HookPoint, HookRun};
use crate::ids::{CallId, TimeMs};
use crate::message::{FinishReason, Usage};
use crate::prompt::{Prompt, Segment};

/// The trace of a whole journal.
pub fn trace(records: &[Record]) -> Vec<Trace> {
    let mut tracer = Tracer::default();
    records.iter().for_each(|record| tracer.apply(record));
    tracer.close(Next::Open);
    tracer.done.sort_by_key(Trace::seq);
    tracer.done
}

#[derive(Debug, Default)]
struct Tracer {
    ledger: CacheLedger,
    done: Vec<Trace>,
    open: Option<Trace>,
    turn: u32,
    model: String,
    /// When the model was asked last.
    asked_ms: TimeMs,
    turn_ended_ms: TimeMs,
    /// The questions that are open, and when they were asked.
    questions: Vec<(Subject, TimeMs)>,
    stopped_by: Option<Canceller>,
    /// The hook that sent the model back to work in this step.
    sent_back: Option<String>,
}

impl Tracer {
    fn apply(&mut self, record: &Record) {
        let reading = self.ledger.apply(record);
        let at_ms = record.at_ms;
        self.close_before(&record.event);
        match &record.event {
            Event::TurnStarted { turn, model, .. } => {
                (self.turn, self.stopped_by) = (*turn, None);
                self.model.clone_from(model);
            }
            Event::TurnResumed { model, .. } | Event::ModelSwitched { model, .. } => {
                self.model.clone_from(model);
                self.asked_ms = at_ms;
            }
            Event::StepStarted { .. } => self.step_started(record),
            Event::HooksRan { .. } => self.hooks_ran(record),
            Event::BackoffPassed { .. } => self.backoff_passed(at_ms),
            Event::CompactionStarted { .. }
            | Event::ContextPruned { .. }
            | Event::CompactionFinished { .. }
            | Event::CompactionFailed { .. } => {
                self.about_room(record, reading);
                self.asked_ms = at_ms;
            }
            Event::CancelRequested { by } => self.stopped_by = Some(by.clone()),
            Event::MessageFinished { .. } | Event::ModelFailed { .. } | Event::MessageCut { .. } => {
                self.model_answered(record, reading);
            }
            Event::TurnEnded { .. } => {
                self.turn_ended_ms = at_ms;
                return self.turn_ended(record);
            }
            Event::TitleGiven { by: TitledBy::Model { model, usage, cost_micros, .. }, .. } => {
                self.done.push(Trace::Title(TitleTrace {
                    seq: record.seq,
                    turn: self.turn,
                    model: model.clone(),
                    at_ms: self.turn_ended_ms,
                    took_ms: at_ms.saturating_sub(self.turn_ended_ms),
                    usage: *usage,
                    cost_micros: *cost_micros,
                }));
                return;
            }
            event => self.within_a_step(event, at_ms),
        }
        match &mut self.open {
            Some(Trace::Step(step)) => step.ended_ms = at_ms,
            Some(Trace::Room(room)) if !room.is_over() => room.ended_ms = at_ms,
            Some(Trace::Room(_) | Trace::Outside(_) | Trace::Title(_)) | None => {}
        }
    }

    /// Closes what this event follows.
    fn close_before(&mut self, event: &Event) {
        match event {
            Event::StepStarted { kind, .. } => {
                let cause = self.cause();
                self.close(Next::Step { kind: *kind, cause });
            }
            Event::CompactionStarted { trigger, .. } if self.ends_for_room(*trigger) => {
                self.close(Next::Compaction { trigger: *trigger });
            }
            Event::RewindFinished { .. } | Event::TurnStarted { .. } => self.close(Next::Open),
            _ => {}
        }
    }

    /// Whether making room ends what is open. Forced, it is part of the step, for the same step asks again; one that was
    /// cut off begins again.
    fn ends_for_room(&mut self, trigger: Trigger) -> bool {
        let is_within = trigger == Trigger::Forced && matches!(self.open, Some(Trace::Step(_)));
        !is_within && self.room().is_none_or(|room| room.is_over())
    }

    fn close(&mut self, followed: Next) {
        self.sent_back = None;
        match self.open.take() {
            Some(Trace::Step(step)) => self.done.push(Trace::Step(Box::new(StepTrace { next: followed, ..*step }))),
            Some(Trace::Room(room)) => {
                let next = Some(followed).filter(|_| !room.is_last());
                self.done.push(Trace::Room(Box::new(RoomTrace { next, ..*room })));
            }
            Some(outside) => self.done.push(outside),
            None => {}
        }
    }

    /// Why the step that begins now follows what is open.
    fn cause(&self) -> Cause {
        if let Some(hook) = &self.sent_back {
            return Cause::SentBack(hook.clone());
        }
        let Some(Trace::Step(step)) = &self.open else { return Cause::Room };
        if !step.calls.is_empty() {
            return Cause::Results;
        }
        let finish = step.asked.last().and_then(|asked| match &asked.result {
            AskResult::Replied { finish, .. } => Some(*finish),
            AskResult::Failed { .. } | AskResult::Cut => None,
        });
        match finish {
            Some(FinishReason::Length) => Cause::Cut,
            Some(FinishReason::Paused) => Cause::Paused,
            Some(FinishReason::Other) if !step.spoke => Cause::Unclear,
            // Nothing else makes an answer go on.
            _ => Cause::Spoke,
        }
    }

    fn turn_ended(&mut self, record: &Record) {
        let Event::TurnEnded { end, detail, .. } = &record.event else { return };
        let next = match self.stopped_by.take() {
            Some(by) if *end == TurnEnd::Canceled => Next::Stopped { by },
            _ => Next::Ended { end: *end, detail: detail.clone() },
        };
        if let Some(Trace::Step(_) | Trace::Room(_)) = &self.open {
            return self.close(next);
        }
        let outside = self.outside(record);
        outside.next = Some(next);
        self.close(Next::Open);
    }

    fn step_started(&mut self, record: &Record) {
        let Event::StepStarted { step, kind, .. } = &record.event else { return };
        self.asked_ms = record.at_ms;
        self.open = Some(Trace::Step(Box::new(StepTrace {
            seq: record.seq,
            turn: self.turn,
            step: *step,
            kind: *kind,
            began_ms: record.at_ms,
            ended_ms: record.at_ms,
            input: None,
            asked: Vec::new(),
            rooms: Vec::new(),
            snapshot_ms: None,
            calls: Vec::new(),
            hooks: Vec::new(),
            next: Next::Open,
            spoke: false,
        })));
    }

    /// The record of what belongs to no step, opened where it is not.
    fn outside(&mut self, record: &Record) -> &mut OutsideTrace {
        if !matches!(self.open, Some(Trace::Outside(_))) {
            self.close(Next::Open);
        }
        let (seq, turn, at_ms) = (record.seq, self.turn, record.at_ms);
        let new = OutsideTrace { seq, turn, began_ms: at_ms, ended_ms: at_ms, hooks: Vec::new(), next: None };
        match self.open.get_or_insert(Trace::Outside(new)) {
            Trace::Outside(outside) => {
                (outside.turn, outside.ended_ms) = (turn, at_ms);
                outside
            }
            Trace::Step(_) | Trace::Room(_) | Trace::Title(_) => unreachable!("what is open was closed above"),
        }
    }

    fn hooks_ran(&mut self, record: &Record) {
        let Event::HooksRan { point, call, runs, sent_back, .. } = &record.event else { return };
        if *point == HookPoint::BeforeModel {
            self.asked_ms = record.at_ms;
        }
        if sent_back.is_some() {
            self.sent_back.clone_from(sent_back);
        }
        let told: Vec<HookTrace> = runs.iter().map(|run| HookTrace::of(run, *point, call.as_ref())).collect();
        match &mut self.open {
            Some(Trace::Step(step)) => match step.rooms.last_mut().filter(|room| !room.is_over()) {
                Some(room) => room.hooks.extend(told),
                None => step.hooks.extend(told),
            },
            Some(Trace::Room(room)) if *point == HookPoint::Compacted || !room.is_last() => room.hooks.extend(told),
            _ if told.is_empty() => {}
            Some(Trace::Room(_) | Trace::Outside(_) | Trace::Title(_)) | None => {
                let took_ms = told.iter().map(|run| run.duration_ms).sum();
                let outside = self.outside(record);
                outside.began_ms = outside.began_ms.min(record.at_ms.saturating_sub(took_ms));
                outside.hooks.extend(told);
            }
        }
    }

    fn backoff_passed(&mut self, at_ms: TimeMs) {
        if let Some(Trace::Step(step)) = &mut self.open
            && let Some(Asked { at_ms: began, took_ms, result, .. }) = step.asked.last_mut()
            && let AskResult::Failed { waited_ms, .. } = result
        {
            *waited_ms = Some(at_ms.saturating_sub(*began + *took_ms));
        }
        self.asked_ms = at_ms;
    }

    /// Room in the making, or the room that was made last in what is open.
    fn room(&mut self) -> Option<&mut RoomTrace> {
        match &mut self.open {
            Some(Trace::Step(step)) => step.rooms.last_mut(),
            Some(Trace::Room(room)) => Some(room),
            Some(Trace::Outside(_) | Trace::Title(_)) | None => None,
        }
    }

    fn about_room(&mut self, record: &Record, reading: Option<Reading>) {
        let trigger = match &record.event {
            Event::CompactionStarted { trigger, .. }
            | Event::CompactionFinished { trigger, .. }
            | Event::CompactionFailed { trigger, .. } => *trigger,
            _ => Trigger::Ordinary,
        };
        let room = self.room_under_way(record, trigger);
        match &record.event {
            Event::CompactionStarted { lost: Some(_), .. } => room.lost_tries += 1,
            Event::ContextPruned { calls, tokens_before, tokens_after, suffices, .. } => {
                room.pruned_calls += calls.len();
                room.tokens = suffices.then_some((*tokens_before, *tokens_after));
            }
            Event::CompactionFinished { asked, tokens_before, tokens_after, .. } => {
                room.tokens = Some((*tokens_before, *tokens_after));
                room.asked = asked.as_deref().map(|asked| SummaryAsked::of(asked, room, record, reading));
            }
            Event::CompactionFailed { error, asked, .. } => {
                room.error = Some(error.clone());
                room.asked = asked.as_deref().map(|asked| SummaryAsked::of(asked, room, record, reading));
            }
            _ => {}
        }
        room.ended_ms = record.at_ms;
    }

    /// The room that this event is about, begun where it is not: old sessions, and people who write a summary, do not say
    /// that they begin.
    fn room_under_way(&mut self, record: &Record, trigger: Trigger) -> &mut RoomTrace {
        if self.room().is_none_or(|room| room.is_over()) {
            let new = RoomTrace {
                seq: record.seq,
                turn: self.turn,
                trigger,
                began_ms: record.at_ms,
                ended_ms: record.at_ms,
                pruned_calls: 0,
                asked: None,
                lost_tries: 0,
                tokens: None,
                error: None,
                hooks: Vec::new(),
                next: None,
            };
            match &mut self.open {
                Some(Trace::Step(step)) => step.rooms.push(new),
                _ => {
                    self.close(Next::Open);
                    self.open = Some(Trace::Room(Box::new(new)));
                }
            }
        }
        self.room().expect("it is open, or was opened above")
    }

    fn model_answered(&mut self, record: &Record, reading: Option<Reading>) {
        let Some(Trace::Step(step)) = &mut self.open else { return };
        let mut asked = Asked {
            seq: record.seq,
            model: self.model.clone(),
            attempt: 1,
            at_ms: self.asked_ms,
            took_ms: record.at_ms.saturating_sub(self.asked_ms),
            first_ms: None,
            result: AskResult::Cut,
            usage: Usage::default(),
            cost_micros: None,
            response_id: None,
        };
        match &record.event {
            Event::MessageFinished { attempt, reply, cost_micros, prompt, first_ms, .. } => {
                (asked.attempt, asked.first_ms, asked.cost_micros) = (*attempt, *first_ms, *cost_micros);
                asked.usage = reply.usage;
                asked.response_id.clone_from(&reply.response_id);
                asked.result = AskResult::Replied { finish: reply.finish, raw: reply.finish_raw.clone() };
                step.input = prompt.as_deref().map(|prompt| Input::of(prompt, reading));
                step.calls = reply.parts.iter().filter_map(CallTrace::of).collect();
            }
            Event::ModelFailed { attempt, error, usage, cost_micros, prompt, .. } => {
                (asked.attempt, asked.usage, asked.cost_micros) = (*attempt, *usage, *cost_micros);
                let (kind, message) = (error.kind, error.message.clone());
                asked.result = AskResult::Failed { kind, message, waited_ms: None };
                step.input = prompt.as_deref().map(|prompt| Input::of(prompt, None));
            }
            _ => {}
        }
        step.asked.push(asked);
        // Asked again, without a wait, by the next model of a chain or after room was made.
        self.asked_ms = record.at_ms;
    }

    fn within_a_step(&mut self, event: &Event, at_ms: TimeMs) {
        let Some(Trace::Step(step)) = &mut self.open else { return };
        match event {
            Event::UserSpoke { delivery: Delivery::Steer, .. } => step.spoke = true,
            Event::SnapshotTaken { .. } => {
                // It is asked for when the event before is on record, whichever that is.
                *step.snapshot_ms.get_or_insert(0) += at_ms.saturating_sub(step.ended_ms);
            }
            Event::ApprovalAsked { subject, .. } => self.questions.push((subject.clone(), at_ms)),
            Event::ApprovalGiven { subject, decision, .. } => {
                let asked = self.questions.iter().find(|(about, _)| about == subject).map(|(_, at_ms)| *at_ms);
                if let (Subject::Call(call), Some(asked_ms)) = (subject, asked)
                    && let Some(call) = step.call(call)
                {
                    call.approval = Some((decision.clone(), at_ms.saturating_sub(asked_ms)));
                }
                self.questions.retain(|(about, _)| about != subject);
            }
            Event::CallRequested { call, verdict, .. } => {
                let refused = match verdict {
                    Verdict::Allow | Verdict::Ask | Verdict::AskFirst(_) => None,
                    Verdict::Deny(_) => Some(Refused::Rule),
                    Verdict::Refuse(_) => Some(step.refused_by(call).map_or(Refused::Piton, Refused::Hook)),
                };
                if let Some(call) = step.call(call) {
                    call.refused = refused;
                }
            }
            Event::CallStarted { call } => {
                if let Some(call) = step.call(call) {
                    call.started_ms = Some(at_ms);
                }
            }
            Event::CallSettled { call, outcome } => {
                if let Some(call) = step.call(call) {
                    (call.status, call.took_ms) = (Some(outcome.status), outcome.duration_ms);
                    call.output_chars = outcome.text.chars().count();
                    call.title.clone_from(&outcome.title);
                }
            }
            _ => {}
        }
    }
}

impl StepTrace {
    /// The hook that was asked about this call last, before it was refused.
    fn refused_by(&self, call: &CallId) -> Option<String> {
        let about = |run: &&HookTrace| run.point == HookPoint::BeforeTool && run.call.as_ref() == Some(call);
        self.hooks.iter().rev().find(about).map(|run| run.hook.clone())
    }
}

impl SummaryAsked {
    fn of(asked: &AskedForSummary, room: &RoomTrace, record: &Record, reading: Option<Reading>) -> Self {
        Self {
            seq: record.seq,
            model: asked.model.clone(),
            attempts: asked.attempts,
            at_ms: room.ended_ms,
            took_ms: record.at_ms.saturating_sub(room.ended_ms),
            replied: matches!(record.event, Event::CompactionFinished { .. }),
            usage: asked.usage,
            cost_micros: asked.cost_micros,
            input: asked.prompt.as_deref().map(|prompt| Input::of(prompt, reading)),
        }
    }
}

impl Input {
    fn of(prompt: &Prompt, cache: Option<Reading>) -> Self {
        Self { kept: prompt.kept, new: prompt.new.iter().map(Piece::of).collect(), cache }
    }
}

impl Piece {
    fn of(segment: &Segment) -> Self {
        Self { kind: segment.kind, hash: format!("{:016x}", segment.hash), at_most_tokens: segment.bytes }
    }
}

impl HookTrace {
    /// Of hooks that watch it is told together, at a point of its own each.
    fn of(run: &HookRun, point: HookPoint, call: Option<&CallId>) -> Self {
        Self {
            hook: run.hook.clone(),
            point: run.point.unwrap_or(point),
            call: call.cloned(),
            times: run.times,
            duration_ms: run.duration_ms,
            end: run.end,
            detail: run.detail.clone(),
            did: run.did.clone(),
        }
    }
}
