//! Every text of an event, with who speaks in it. The matches name each field: a new one does not compile until somebody
//! has said whether it is a text.

use crate::call::{Access, BackgroundAgent, CallInput, CommandPart, Outcome, Planned};
use crate::event::{Canceller, Event, Given, Sampled, Touched, Trigger, Verdict};
use crate::hook::{Demand, HookRun, HookVerdict};
use crate::inquiry::planning::ProposedPlan;
use crate::inquiry::{Inquiry, InquiryOption, InquiryQuestion};
use crate::message::{Part, ToolCall};
use crate::model::{ModelError, Reply};
use crate::permission::{Judged, PartSaid};
use crate::policy::Policy;
use crate::question::{Choice, Decision, Fact, Question, QuestionBlock};
use crate::subtask::Subtask;
use crate::todo::TodoItem;
use serde_json::{Map, Value};

/// Who speaks in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The model, or what repeats its words to the letter because they are run: only what is known is taken out.
    Model,
    /// Anybody else.
    World,
}

use Voice::{Model, World};

/// Whoever sees each text: who speaks, the name of the field if it has one that tells, the text.
pub(super) type See<'s> = dyn FnMut(Voice, Option<&str>, &mut String) + 's;

impl Event {
    /// Shows each text of the event, to be changed.
    pub(super) fn each_text(&mut self, see: &mut See<'_>) {
        match self {
            Self::SessionStarted { session: _, workspace: _, version: _, parent: _ }
            | Self::WriterOpened { epoch: _, pid: _, boot_id: _ }
            | Self::WriterClosed {}
            | Self::BackoffPassed { step: _ }
            | Self::CallStarted { call: _ }
            | Self::StepFinished { step: _ }
            | Self::WindowLearned { compact_at_tokens: _ }
            | Self::DeadlinePassed {}
            | Self::CancelRequested { by: Canceller::User }
            | Self::GrantsRevoked { tools: _ }
            | Self::GrantsShared { from: _, grants: _ }
            | Self::MessageUnqueued { message: _ }
            | Self::MessageMoved { message: _, before: _ }
            | Self::Delegated { call: _, child: _, agent: _ }
            | Self::ServerTask { call: _, handle: _ }
            | Self::SettingsChanged { changed: _, by: _, at_once: _ }
            | Self::WorkspaceMoved { workspace: _ }
            | Self::EventLost {}
            | Self::ContextPruned { calls: _, to_bytes: _, tokens_before: _, tokens_after: _, suffices: _ } => {}
            Self::ApprovalVoided { subject: _, why } => see(World, None, why),
            Self::Todo { items } => each(items.iter_mut().map(todo), World, see),
            Self::ContextGiven { items } => items.iter_mut().for_each(|item| given(item, see)),
            Self::TurnStarted { turn: _, model: _, fallbacks: _, policy, compact_at_tokens: _, this_turn_only: _ }
            | Self::TurnResumed { model: _, fallbacks: _, policy, this_turn_only: _ } => demands(policy, see),
            Self::StepStarted { step: _, kind: _, note } => each(note, World, see),
            Self::SnapshotTaken { step: _, moment: _, tree: _, notices } => each(notices, World, see),
            Self::CallSettled { call: _, outcome } | Self::TaskEnded { task: _, outcome } => of_outcome(outcome, see),
            Self::CancelRequested { by: Canceller::Hook(reason) } => see(World, None, reason),
            Self::BudgetShort { step: _, why: _, detail } => see(World, None, detail),
            Self::TurnEnded { turn: _, end: _, why: _, detail, spent: _ } => each(detail, World, see),
            Self::TitleGiven { title, by: _ } => see(World, None, title),
            Self::UserSpoke { .. }
            | Self::UserRan { .. }
            | Self::RewindStarted { .. }
            | Self::RewindFinished { .. }
            | Self::RewindAbandoned { .. } => self.each_text_of_user(see),
            Self::MessageFinished { .. }
            | Self::ModelFailed { .. }
            | Self::ModelSwitched { .. }
            | Self::MessageCut { .. }
            | Self::CompactionFinished { .. } => self.each_text_of_model(see),
            Self::CallRequested { .. }
            | Self::ApprovalAsked { .. }
            | Self::ApprovalGiven { .. }
            | Self::ServerSampled { .. }
            | Self::HooksRan { .. } => {
                self.each_text_of_call(see);
            }
            Self::CompactionStarted { trigger: _, focus, lost: _ } => each(focus, World, see),
            Self::CompactionFailed { trigger: _, why: _, error, asked: _ } => see(World, None, error),
        }
    }

    fn each_text_of_user(&mut self, see: &mut See<'_>) {
        match self {
            Self::UserSpoke { message: _, parts, delivery: _, typed, allows, for_turn: _, subtask } => {
                each_part(parts, World, see);
                if let Some(subtask) = subtask {
                    let Subtask { agent: _, description, prompt, model: _, by_name: _ } = &mut **subtask;
                    see(World, None, description);
                    see(World, None, prompt);
                }
                each(typed, World, see);
                each(allows, World, see);
            }
            Self::UserRan { call: _, command, keep_from_model: _, turn: _, snapshot: _, message: _, terminal: _ } => {
                see(Model, None, command);
            }
            Self::RewindStarted { rewind: _, was: _, touches } => touched(touches, see),
            Self::RewindFinished { rewind: _, left, back: _ } => each(left, Model, see),
            Self::RewindAbandoned { rewind: _, error, touches } => {
                see(World, None, error);
                touched(touches, see);
            }
            _ => {}
        }
    }

    fn each_text_of_model(&mut self, see: &mut See<'_>) {
        match self {
            Self::CompactionFinished {
                trigger,
                upto_seq: _,
                summary,
                tokens_before: _,
                tokens_after: _,
                note,
                asked: _,
            } => {
                let voice = match trigger {
                    Trigger::Ordinary | Trigger::Forced | Trigger::Asked => Model,
                    Trigger::Edited => World,
                };
                see(voice, None, summary);
                each(note, World, see);
            }
            Self::MessageFinished {
                step: _,
                attempt: _,
                reply,
                cost_micros: _,
                at_most: _,
                prompt: _,
                first_ms: _,
            } => {
                let Reply { parts, finish: _, finish_raw: _, usage: _, response_id: _, warnings } = reply;
                each_part(parts, Model, see);
                each(warnings, World, see);
            }
            Self::ModelFailed {
                step: _,
                attempt: _,
                error,
                usage: _,
                cost_micros: _,
                at_most: _,
                prompt: _,
                abandoned,
                retry_at_ms: _,
            } => {
                let ModelError { kind: _, message, status: _, retry_after_ms: _, should_retry: _, usage: _ } = error;
                see(World, None, message);
                each_part(abandoned, Model, see);
            }
            Self::ModelSwitched { step: _, model: _, reason, compact_at_tokens: _ } => see(World, None, reason),
            Self::MessageCut { step: _, parts, at_most: _ } => each_part(parts, Model, see),
            _ => {}
        }
    }

    fn each_text_of_call(&mut self, see: &mut See<'_>) {
        match self {
            Self::ServerSampled { call: _, server: _, sampled } => {
                let Sampled { model: _, prompt, answer, usage: _, cost_micros: _, at_most: _, took_ms: _ } =
                    &mut **sampled;
                see(World, None, prompt);
                see(Model, None, answer);
            }
            Self::CallRequested { call: _, input, author: _, effects: _, verdict, plan, judged } => {
                judged.iter_mut().for_each(|judged| of_judged(judged, see));
                input.iter_mut().for_each(|input| each_text_of(input, Model, see));
                of_verdict(verdict, see);
                plan.iter_mut().for_each(|plan| planned(plan, see));
            }
            Self::ApprovalAsked { subject: _, question } => {
                question.iter_mut().for_each(|question| asked(question, see));
            }
            Self::ApprovalGiven { subject: _, decision, by: _ } => decided(decision, see),
            Self::HooksRan {
                step: _,
                point: _,
                call: _,
                runs,
                notes,
                system,
                tools: _,
                input,
                verdict,
                sent_back,
                stopped,
            } => {
                runs.iter_mut().for_each(|run| of_run(run, see));
                each(notes, World, see);
                each(system, World, see);
                input.iter_mut().for_each(|input| each_text_of(input, Model, see));
                verdict.iter_mut().for_each(|verdict| match verdict {
                    HookVerdict::Allow => {}
                    HookVerdict::Ask(text) | HookVerdict::Refuse(text) => see(World, None, text),
                });
                each(sent_back, World, see);
                each(stopped, World, see);
            }
            _ => {}
        }
    }
}

fn todo(TodoItem { text, status: _ }: &mut TodoItem) -> &mut String {
    text
}

fn each<'t>(texts: impl IntoIterator<Item = &'t mut String>, voice: Voice, see: &mut See<'_>) {
    texts.into_iter().for_each(|text| see(voice, None, text));
}

/// Every text of these parts.
pub(super) fn each_part(parts: &mut [Part], voice: Voice, see: &mut See<'_>) {
    for part in parts {
        match part {
            // What a provider attached is replayed to the letter. It saw no more than we sent.
            Part::Text { text, opaque: _ } | Part::Reasoning { text, opaque: _ } | Part::Note { kind: _, text } => {
                see(voice, None, text);
            }
            Part::ToolCall(call) => {
                let ToolCall { id: _, provider_id: _, name, spelling, input, opaque: _ } = call;
                see(Model, None, name);
                each(spelling, Model, see);
                match input {
                    CallInput::Json(value) => each_text_of(value, Model, see),
                    CallInput::Invalid { raw, error } => {
                        see(Model, None, raw);
                        see(Model, None, error);
                    }
                }
            }
            Part::ToolResult { call: _, tool: _, outcome } => of_outcome(outcome, see),
            Part::Image { media_type: _, data: _ } => {}
        }
    }
}

/// Every text of an outcome.
pub(super) fn of_outcome(outcome: &mut Outcome, see: &mut See<'_>) {
    let Outcome { status: _, text, title, metadata, duration_ms: _, task, pictures: _, delegated: _ } = outcome;
    if let Some(began) = task.as_mut().and_then(|news| news.began.as_mut()) {
        see(Model, None, &mut began.command);
        if let Some(subagent) = &mut began.subagent {
            let BackgroundAgent { session: _, goes_on: _, agent: _, title, prompt, model: _, worktree: _ } =
                &mut **subagent;
            see(Model, None, title);
            see(Model, None, prompt);
        }
    }
    see(World, None, text);
    see(World, None, title);
    each_text_of(metadata, World, see);
}

fn of_verdict(verdict: &mut Verdict, see: &mut See<'_>) {
    match verdict {
        Verdict::Allow | Verdict::Ask => {}
        Verdict::AskFirst(text) | Verdict::Deny(text) | Verdict::Refuse(text) => see(World, None, text),
    }
}

fn of_judged(judged: &mut Judged, see: &mut See<'_>) {
    let Judged { mode: _, confined: _, each_time: _, parts } = judged;
    for PartSaid { part, action: _, rule: _, why } in parts {
        see(Model, None, part);
        see(World, None, why);
    }
}

fn planned(plan: &mut Planned, see: &mut See<'_>) {
    let Planned { kind: _, title, accesses } = plan;
    see(Model, None, title);
    for access in accesses {
        match access {
            Access::Read(text)
            | Access::Write(text)
            | Access::Run(text)
            | Access::SomePath(text)
            | Access::Unknowable(text)
            | Access::Reach(text)
            | Access::Use(text)
            | Access::Unsandboxed(text) => see(Model, None, text),
            Access::Command(part) => {
                let CommandPart {
                    words,
                    names,
                    through,
                    unresolved: _,
                    risky,
                    is_harmless: _,
                    code,
                    may_reach,
                    writes: _,
                    may_open: _,
                    below: _,
                } = &mut **part;
                [words, names, through, risky, may_reach].into_iter().for_each(|texts| each(texts, Model, see));
                each(code, Model, see);
            }
            Access::Spawn => {}
        }
    }
}

fn asked(question: &mut Question, see: &mut See<'_>) {
    let Question { title, body, choices, shown: _, bound: _, inquiry } = question;
    inquiry.iter_mut().for_each(|inquiry| inquired(inquiry, see));
    see(World, None, title);
    for block in body {
        match block {
            QuestionBlock::Text { text } | QuestionBlock::Note { text } => see(World, None, text),
            // What a person says yes to is shown as it will run.
            QuestionBlock::Command { command, marks } => {
                let before = command.clone();
                see(Model, None, command);
                if *command != before {
                    marks.clear();
                }
            }
            QuestionBlock::Facts { facts } => {
                facts.iter_mut().for_each(|Fact { about: _, text }| see(World, None, text));
            }
            QuestionBlock::Json { json } => see(Model, None, json),
            QuestionBlock::Diff { path: _, unified } => see(World, None, unified),
        }
    }
    for Choice { name: _, label, decision, grants: _ } in choices {
        see(Model, None, label);
        decided(decision, see);
    }
}

fn inquired(inquiry: &mut Inquiry, see: &mut See<'_>) {
    let Inquiry { questions, seconds: _, plan } = inquiry;
    for ProposedPlan { text, file, changed: _ } in plan.iter_mut().map(|plan| &mut **plan) {
        see(World, None, text);
        file.iter_mut().for_each(|file| see(World, None, file));
    }
    for InquiryQuestion { header, question, options, several: _, default } in questions {
        see(World, None, header);
        see(World, None, question);
        for InquiryOption { label, description } in options {
            see(World, None, label);
            see(World, None, description);
        }
        each(default, World, see);
    }
}

fn decided(decision: &mut Decision, see: &mut See<'_>) {
    match decision {
        Decision::Approve
        | Decision::ApproveForSession
        | Decision::ApproveLasting(_)
        | Decision::Unattended
        | Decision::Expired => {}
        Decision::Answered(answers) => each(answers.iter_mut().flatten(), World, see),
        Decision::ApproveChanged(input) => each_text_of(input, Model, see),
        Decision::Deny(words) => each(words, World, see),
    }
}

fn of_run(run: &mut HookRun, see: &mut See<'_>) {
    let HookRun { hook: _, point: _, times: _, duration_ms: _, end: _, detail, did, evidence } = run;
    each(detail, World, see);
    each(did, World, see);
    each_evidence(evidence, see);
}

fn each_evidence(evidence: &mut Option<Value>, see: &mut See<'_>) {
    evidence.iter_mut().for_each(|evidence| each_text_of(evidence, World, see));
}

fn given(item: &mut Given, see: &mut See<'_>) {
    // The path is what the file is known by from here on.
    let Given { kind: _, path: _, hash: _, tokens: _, bytes: _, notice } = item;
    each(notice, World, see);
}

fn touched(touches: &mut Touched, see: &mut See<'_>) {
    let Touched { paths, more: _ } = touches;
    each(paths, Model, see);
}

fn demands(policy: &mut Policy, see: &mut See<'_>) {
    for demand in &mut policy.hooks.demands {
        match demand {
            Demand::Check { command, timeout_ms: _, rounds: _ } => see(World, None, command),
            Demand::Answer { schema: _ } => {}
        }
    }
}

/// Every text of a JSON value, names included, to be changed.
pub(super) fn each_text_of(value: &mut Value, voice: Voice, see: &mut See<'_>) {
    match value {
        Value::String(text) => see(voice, None, text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text_of(item, voice, see)),
        Value::Object(fields) => {
            let all = std::mem::take(fields);
            let mut changed = Map::with_capacity(all.len());
            for (mut name, mut field) in all {
                see(voice, None, &mut name);
                match &mut field {
                    Value::String(text) => see(voice, Some(&name), text),
                    other => each_text_of(other, voice, see),
                }
                changed.insert(name, field);
            }
            *fields = changed;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
