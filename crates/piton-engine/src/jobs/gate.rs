//! Passing a gate: the hooks that stand there are asked, and what they did is recorded ([`Event::HooksRan`]), with what
//! follows from it at once: an answer, an outcome, a compaction that is refused.
//!
//! After a restart the turn waits at the same gate, and the hooks of whoever goes on are asked. A cancel drops them: the
//! machine has left the gate. A hook that panics is caught where hooks are run.

use super::{JobContext, Step, Task, approval};
use crate::hooks::{Gated, ModelCall, Ran, SessionStart};
use piton_core::client::last_words;
use piton_core::event::{Answerer, Event};
use piton_core::ids::CallId;
use piton_core::message::{Message, ToolCall};
use piton_core::question::Decision;
use piton_core::request::Frame;
use piton_core::secrets::Depth;
use piton_core::shell;
use piton_core::turn::{Gate, State};
use std::borrow::Cow;
use std::sync::Arc;

/// Lets hooks see what comes next. Where none is concerned, or there is nothing that they could be shown, they have passed.
pub(super) fn take_up(gate: &Gate, cx: &JobContext<'_>) -> Step {
    let task = if cx.want(gate.point()) { task(gate.clone(), cx) } else { None };
    match task {
        Some(task) => Step::Start(task),
        None => Step::Record(vec![Gated::nothing_at(gate).event(cx.session.step())]),
    }
}

/// Runs the hooks at a session's start, for a session that starts or is resumed here. Before a prompt no turn wants this.
pub(crate) fn begin(cx: &JobContext<'_>) -> Task {
    let is_resumed = cx.session.transcript().len() > 0;
    let how = if is_resumed { SessionStart::Resumed } else { SessionStart::New };
    let (hooks, at) = (cx.services.hooks.clone(), cx.hook_context());
    Task::new(async move { hooks.session_start(&at, how).await }, |gated, cx| passed(gated, None, cx))
}

/// Lets hooks see a command of a template before it runs. No turn wants this.
pub(crate) fn show_command(call: &CallId, command: &str, cx: &JobContext<'_>) -> Task {
    let (hooks, at) = (cx.services.hooks.clone(), cx.hook_context());
    let call = shell::user_call(call, command, false);
    Task::new(async move { hooks.before_tool(&at, &call).await }, |gated, cx| passed(gated, None, cx))
}

fn task(gate: Gate, cx: &JobContext<'_>) -> Option<Task> {
    let (session, hooks, at) = (cx.session, cx.services.hooks.clone(), cx.hook_context());
    let task = match gate {
        Gate::Opened => begin(cx),
        Gate::Compacted { .. } => {
            Task::new(async move { hooks.session_start(&at, SessionStart::Compacted).await }, |gated, cx| {
                passed(gated, None, cx)
            })
        }
        Gate::BeforeModel { attempt, .. } => {
            let messages: Arc<[Arc<Message>]> = session.transcript().cloned().collect();
            let Frame { system, tools, .. } = cx.memory.frames.own().clone();
            let call = ModelCall { attempt, system, tools, messages };
            Task::new(async move { hooks.before_model(&at, call).await }, |(gated, mut call), cx| {
                // It is sent, also where it is no other than before.
                if let Cow::Owned(cleaned) = cx.services.firewall.cleaned(&call.system, Depth::Everything) {
                    call.system = cleaned.into();
                }
                let event = cx.memory.frames.take(cx.session, gated, call);
                std::iter::once(event).chain(cx.suspicions()).collect()
            })
        }
        Gate::BeforeTool(id) => {
            let call = cx.services.settings.tools.understand(&*find(session, &id)?);
            Task::new(async move { hooks.before_tool(&at, &call).await }, |gated, cx| passed(gated, None, cx))
        }
        Gate::Question(subject) => {
            let id = subject.call();
            let call = find(session, id)?;
            let about = subject.clone();
            Task::new(async move { hooks.approval(&at, &about, &call).await }, move |(gated, decision), cx| {
                let decision = decision.filter(|_| gated.stopped.is_none());
                // A hook lets calls pass; what a person is asked it does not know.
                let is_inquiry = cx.session.question(&subject).is_some_and(|question| question.inquiry.is_some());
                let decision = decision.filter(|decision| !is_inquiry || matches!(decision, Decision::Deny(_)));
                let answer = decision.map(|decision| approval::answer(subject, decision, Answerer::Hook, cx));
                passed(gated, answer, cx)
            })
        }
        Gate::AfterTool(id) => {
            let (call, outcome) = find(session, &id).zip(session.unrun(&id).cloned())?;
            Task::new(
                async move { hooks.after_tool(&at, &call, outcome, Ran::Never).await },
                move |(gated, outcome), cx| passed(gated, Some(Event::CallSettled { call: id, outcome }), cx),
            )
        }
        Gate::BeforeCompaction(trigger) => {
            Task::new(async move { hooks.before_compaction(&at, trigger).await }, move |(gated, refused), cx| {
                // A turn that must end says so; whoever wants a summary at rest is told.
                let stopped = gated.stopped.clone().filter(|_| cx.session.is_compacting_at_rest());
                let refused =
                    stopped.or(refused).map(|error| Event::CompactionFailed { trigger, why: None, error, asked: None });
                passed(gated, refused, cx)
            })
        }
        Gate::End { .. } => {
            let (session, text) = (session.clone(), last_words(session));
            Task::new(async move { hooks.stop(&at, &text, |hook| session.times_sent_back(hook)).await }, |gated, cx| {
                passed(gated, None, cx)
            })
        }
    };
    Some(task)
}

/// What hooks did, and what follows from it at once.
fn passed(gated: Gated, then: Option<Event>, cx: &JobContext<'_>) -> Vec<Event> {
    std::iter::once(gated.event(cx.session.step())).chain(then).chain(cx.suspicions()).collect()
}

/// A call of the newest reply.
fn find(session: &State, id: &CallId) -> Option<Arc<ToolCall>> {
    let in_transcript = || {
        let messages: Vec<_> = session.transcript().collect();
        messages.iter().rev().find_map(|message| message.calls().find(|call| call.id == *id).cloned()).map(Arc::new)
    };
    session.open_call(id).cloned().or_else(in_transcript)
}
