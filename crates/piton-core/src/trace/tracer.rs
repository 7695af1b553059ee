//! Reads the trace off the blocks of a story. At most one record is open at a time; what happens joins it, until
//! something that it cannot contain closes it.

use super::{
    AskResult, CallTrace, Cause, CompactionTrace, HookTrace, InputPart, ModelCall, ModelInput, Next, OutsideTrace,
    RefusedBy, SampledTrace, StepTrace, SummaryAsked, TitleTrace, Trace,
};
use crate::cache::Reading;
use crate::event::{Canceller, Delivery, StepKind, Subject, TitledBy, Trigger, TurnEnd, Verdict};
use crate::hook::{HookPoint, HookRun};
use crate::ids::{CallId, Seq, TimeMs};
use crate::message::FinishReason;
use crate::prompt::{PromptContents, Segment};
use crate::story::{
    Block, Body, CallBlock, CallStage, Caller, CompactionBlock, CompactionEnd, ModelBlock, ModelState, RewindState,
    SampledCall, Story,
};

/// The trace of a whole session, what was taken back included.
pub fn trace(story: &Story) -> Vec<Trace> {
    let mut tracer = Tracer::default();
    story.blocks().for_each(|block| tracer.hear(block));
    tracer.close(Next::Open);
    tracer.done.sort_by_key(Trace::seq);
    tracer.done
}

#[derive(Debug, Default)]
struct Tracer {
    done: Vec<Trace>,
    open: Option<Trace>,
    turn_ended_ms: TimeMs,
    stopped_by: Option<Canceller>,
    /// The hook that sent the model back to work in this step.
    sent_back: Option<String>,
    /// Where the compaction that began last was made, or was last worked at.
    room_upto: Seq,
}

impl Tracer {
    fn hear(&mut self, block: &Block) {
        match &block.body {
            Body::Turn { .. } => {
                self.close(Next::Open);
                self.stopped_by = None;
            }
            Body::Rewind { state: RewindState::Finished { .. }, .. } => self.close(Next::Open),
            Body::Step { step, kind, .. } => self.step_started(block, *step, *kind),
            Body::Model(model) => self.model_answered(block, model),
            Body::Hooks { point, call, runs, sent_back } => {
                self.hooks_ran(block, *point, call.as_ref(), runs, sent_back.as_ref());
            }
            Body::Compaction(compaction) => self.compacted(block, compaction),
            Body::Pruned { calls, tokens, suffices, .. } => self.pruned(block, *calls, suffices.then_some(*tokens)),
            Body::Stopping { by } => self.stopped_by = Some(by.clone()),
            Body::TurnEnd { end, detail, .. } => {
                self.turn_ended_ms = block.at_ms;
                return self.turn_ended(block, *end, detail.clone());
            }
            Body::Title { by: TitledBy::Model { model, usage, cost_micros, .. }, .. } => {
                return self.done.push(Trace::Title(TitleTrace {
                    seq: block.seq,
                    turn: block.turn,
                    model: model.clone(),
                    at_ms: self.turn_ended_ms,
                    took_ms: block.at_ms.saturating_sub(self.turn_ended_ms),
                    usage: *usage,
                    cost_micros: *cost_micros,
                }));
            }
            body => self.within_a_step(block, body),
        }
        // What was said is read later, and belongs to when it was said.
        let upto_ms = if let Body::User { .. } = block.body { block.at_ms } else { block.changed_ms };
        if let Some(Trace::Step(step)) = &mut self.open {
            step.ended_ms = step.ended_ms.max(upto_ms);
        }
    }

    fn close(&mut self, followed: Next) {
        self.sent_back = None;
        match self.open.take() {
            Some(Trace::Step(step)) => self.done.push(Trace::Step(Box::new(StepTrace { next: followed, ..*step }))),
            Some(Trace::Compaction(compaction)) => {
                let next = Some(followed).filter(|_| !compaction.is_last());
                self.done.push(Trace::Compaction(Box::new(CompactionTrace { next, ..*compaction })));
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
        let Some(Trace::Step(step)) = &self.open else { return Cause::Compacted };
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

    fn turn_ended(&mut self, block: &Block, end: TurnEnd, detail: Option<String>) {
        let next = match self.stopped_by.take() {
            Some(by) if end == TurnEnd::Canceled => Next::Stopped { by },
            _ => Next::Ended { end, detail },
        };
        if let Some(Trace::Step(_) | Trace::Compaction(_)) = &self.open {
            return self.close(next);
        }
        self.outside(block).next = Some(next);
        self.close(Next::Open);
    }

    fn step_started(&mut self, block: &Block, step: u32, kind: StepKind) {
        let cause = self.cause();
        self.close(Next::Step { kind, cause });
        self.open = Some(Trace::Step(Box::new(StepTrace {
            seq: block.seq,
            turn: block.turn,
            step,
            kind,
            began_ms: block.at_ms,
            ended_ms: block.at_ms,
            input: None,
            asked: Vec::new(),
            compactions: Vec::new(),
            snapshot_ms: None,
            calls: Vec::new(),
            hooks: Vec::new(),
            next: Next::Open,
            spoke: false,
        })));
    }

    /// The record of what belongs to no step, opened where it is not.
    fn outside(&mut self, block: &Block) -> &mut OutsideTrace {
        if !matches!(self.open, Some(Trace::Outside(_))) {
            self.close(Next::Open);
        }
        let (seq, turn, at_ms) = (block.seq, block.turn, block.at_ms);
        let new = OutsideTrace { seq, turn, began_ms: at_ms, ended_ms: at_ms, hooks: Vec::new(), next: None };
        match self.open.get_or_insert(Trace::Outside(new)) {
            Trace::Outside(outside) => {
                (outside.turn, outside.ended_ms) = (turn, at_ms);
                outside
            }
            Trace::Step(_) | Trace::Compaction(_) | Trace::Title(_) => unreachable!("what is open was closed above"),
        }
    }

    fn hooks_ran(
        &mut self,
        block: &Block,
        point: HookPoint,
        call: Option<&CallId>,
        runs: &[HookRun],
        sent_back: Option<&String>,
    ) {
        if let Some(hook) = sent_back {
            self.sent_back = Some(hook.clone());
        }
        let told: Vec<HookTrace> = runs.iter().map(|run| HookTrace::of(run, point, call)).collect();
        let is_of_compaction = block.seq < self.room_upto;
        match &mut self.open {
            Some(Trace::Step(step)) => match step.compactions.last_mut().filter(|_| is_of_compaction) {
                Some(compaction) => compaction.hooks.extend(told),
                None => {
                    told.iter().for_each(|run| step.note_refusal(run));
                    step.hooks.extend(told);
                }
            },
            Some(Trace::Compaction(compaction))
                if is_of_compaction || point == HookPoint::Compacted || !compaction.is_last() =>
            {
                compaction.hooks.extend(told);
            }
            _ if told.is_empty() => {}
            Some(Trace::Compaction(_) | Trace::Outside(_) | Trace::Title(_)) | None => {
                let took_ms = told.iter().map(|run| run.duration_ms).sum();
                let outside = self.outside(block);
                outside.began_ms = outside.began_ms.min(block.at_ms.saturating_sub(took_ms));
                outside.hooks.extend(told);
            }
        }
    }

    /// A compaction ends what is open; forced, it is part of the step, for the same step asks again.
    fn compacted(&mut self, block: &Block, compaction: &CompactionBlock) {
        let trace = CompactionTrace::of(block, compaction);
        self.room_upto = block.changed_seq;
        match &mut self.open {
            Some(Trace::Step(step)) if compaction.trigger == Trigger::Forced => step.compactions.push(trace),
            _ => {
                self.close(Next::Compaction { trigger: compaction.trigger });
                self.open = Some(Trace::Compaction(Box::new(trace)));
            }
        }
    }

    fn pruned(&mut self, block: &Block, calls: usize, tokens: Option<(u64, u64)>) {
        let compaction = match &mut self.open {
            Some(Trace::Step(step)) => step.compactions.last_mut(),
            Some(Trace::Compaction(compaction)) => Some(&mut **compaction),
            Some(Trace::Outside(_) | Trace::Title(_)) | None => None,
        };
        if let Some(compaction) = compaction {
            compaction.pruned_calls += calls;
            compaction.tokens = compaction.tokens.or(tokens);
            compaction.ended_ms = compaction.ended_ms.max(block.at_ms);
        }
    }

    fn model_answered(&mut self, block: &Block, model: &ModelBlock) {
        let Some(Trace::Step(step)) = &mut self.open else { return };
        let mut response = None;
        let input = |cache| model.prompt.as_deref().map(|prompt| ModelInput::of(prompt, cache));
        let result = match &model.state {
            ModelState::Asked => return,
            ModelState::Replied { finish, raw, response_id, .. } => {
                response.clone_from(response_id);
                step.input = input(model.cache.clone());
                AskResult::Replied { finish: *finish, raw: raw.clone() }
            }
            ModelState::Failed { error, waited_to_ms, .. } => {
                step.input = input(None);
                let waited_ms = waited_to_ms.map(|to_ms| to_ms.saturating_sub(model.answered_ms));
                AskResult::Failed { kind: error.kind, message: error.message.clone(), waited_ms }
            }
            ModelState::Cut => AskResult::Cut,
        };
        step.asked.push(ModelCall {
            seq: block.seq,
            model: model.model.clone(),
            attempt: model.attempt,
            at_ms: model.asked_ms,
            took_ms: model.answered_ms.saturating_sub(model.asked_ms),
            first_ms: model.first_ms,
            result,
            usage: model.usage,
            cost_micros: model.cost_micros,
            response_id: response,
        });
    }

    fn within_a_step(&mut self, block: &Block, body: &Body) {
        let Some(Trace::Step(step)) = &mut self.open else { return };
        match body {
            Body::User { delivery: Delivery::Steer, .. } => step.spoke = true,
            Body::Snapshot { took_ms, .. } => *step.snapshot_ms.get_or_insert(0) += took_ms,
            Body::Call(call) => step.calls.extend(CallTrace::of(call)),
            Body::Question { subject: Subject::Call(call), answer: Some(answer), .. } => {
                let waited_ms = block.changed_ms.saturating_sub(block.at_ms);
                if let Some(call) = step.call(call) {
                    call.approval = Some((answer.clone(), waited_ms));
                }
            }
            _ => {}
        }
    }
}

impl StepTrace {
    /// A hook that was asked about a call last is who refused it.
    fn note_refusal(&mut self, run: &HookTrace) {
        let about = run.call.as_ref().filter(|_| run.point == HookPoint::BeforeTool);
        if let Some(call) = about.and_then(|call| self.call(call))
            && let Some(refused @ (RefusedBy::Piton | RefusedBy::Hook(_))) = &mut call.refused
        {
            *refused = RefusedBy::Hook(run.hook.clone());
        }
    }
}

impl SampledTrace {
    fn of(call: &SampledCall) -> Self {
        let SampledCall { seq, ended_ms, sampled } = call;
        Self {
            seq: *seq,
            model: sampled.model.clone(),
            at_ms: ended_ms.saturating_sub(sampled.took_ms),
            took_ms: sampled.took_ms,
            replied: !sampled.answer.is_empty(),
            usage: sampled.usage,
            cost_micros: sampled.cost_micros,
        }
    }
}

impl CallTrace {
    /// `None` for one that the model is still writing.
    fn of(call: &CallBlock) -> Option<Self> {
        let outcome = match &call.stage {
            CallStage::Writing(_) => return None,
            // What the user runs is no part of a step.
            _ if call.caller != Caller::Model => return None,
            CallStage::Ready | CallStage::Running(_) => None,
            CallStage::Settled(outcome) => Some(outcome),
        };
        Some(Self {
            call: call.call.clone(),
            tool: call.tool.clone(),
            started_ms: call.started_ms,
            took_ms: outcome.map_or(0, |outcome| outcome.duration_ms),
            approval: None,
            verdict: call.verdict.clone(),
            judged: call.judged.clone(),
            refused: call.verdict.as_ref().and_then(|verdict| match verdict {
                Verdict::Allow | Verdict::Ask | Verdict::AskFirst(_) => None,
                Verdict::Deny(_) => Some(RefusedBy::Rule),
                Verdict::Refuse(_) => Some(RefusedBy::Piton),
            }),
            status: outcome.map(|outcome| outcome.status),
            title: outcome.map(|outcome| outcome.title.clone()).unwrap_or_default(),
            output_chars: outcome.map_or(0, |outcome| outcome.text.chars().count()),
            sampled: call.sampled.iter().map(SampledTrace::of).collect(),
        })
    }
}

impl CompactionTrace {
    fn of(block: &Block, compaction: &CompactionBlock) -> Self {
        let (tokens, error) = match &compaction.end {
            Some(CompactionEnd::Summary { tokens, .. }) => (Some(*tokens), None),
            Some(CompactionEnd::Failed { error }) => (None, Some(error.clone())),
            Some(CompactionEnd::Pruned) | None => (None, None),
        };
        let asked = compaction.asked.as_deref().map(|asked| SummaryAsked {
            seq: block.changed_seq,
            model: asked.model.clone(),
            attempts: asked.attempts,
            at_ms: compaction.asked_ms,
            took_ms: block.changed_ms.saturating_sub(compaction.asked_ms),
            replied: tokens.is_some(),
            usage: asked.usage,
            cost_micros: asked.cost_micros,
            input: asked.prompt.as_deref().map(|prompt| ModelInput::of(prompt, compaction.cache.clone())),
        });
        Self {
            seq: block.seq,
            turn: block.turn,
            trigger: compaction.trigger,
            began_ms: block.at_ms,
            ended_ms: block.changed_ms,
            pruned_calls: 0,
            asked,
            lost_tries: u32::try_from(compaction.lost.len()).unwrap_or(u32::MAX),
            tokens,
            error,
            hooks: Vec::new(),
            next: None,
        }
    }
}

impl ModelInput {
    fn of(prompt: &PromptContents, cache: Option<Reading>) -> Self {
        Self { kept: prompt.kept, new: prompt.new.iter().map(InputPart::of).collect(), cache }
    }
}

impl InputPart {
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
