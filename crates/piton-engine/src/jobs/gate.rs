//! Passing a gate: the hooks that stand there are asked, and what they did is recorded ([`Event::HooksRan`]), with what
//! follows from it at once: an answer, an outcome, a compaction that is refused.
//!
//! After a restart the turn waits at the same gate, and the hooks of whoever goes on are asked. A cancel drops them: the
//! machine has left the gate. A hook that panics is caught where hooks are run.

use crate::hooks::{Gated, HookContext, Hooks, ModelCall, Ran, SessionStart};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use piton_core::client::last_words;
use piton_core::event::{Answerer, Event, Subject};
use piton_core::ids::CallId;
use piton_core::message::{Message, ToolCall};
use piton_core::request::Frame;
use piton_core::turn::{Gate, State};
use piton_tools::toolset::ToolSet;
use std::sync::Arc;

/// What came of it.
#[expect(clippy::large_enum_variant, reason = "it is boxed on its way")]
pub(crate) enum Passed {
    /// A model call as the hooks leave it.
    Model(Gated, ModelCall),
    /// What is recorded, in order.
    Events(Vec<Event>),
}

/// What is known at a gate.
pub(crate) struct Bench<'a> {
    pub(crate) session: &'a State,
    pub(crate) tools: &'a ToolSet,
    /// The frame that hooks have not seen.
    pub(crate) frame: &'a Frame,
    pub(crate) hooks: &'a Hooks,
}

/// Asks the hooks. `None` where there is nothing that they could be shown.
pub(crate) fn pass(gate: &Gate, bench: &Bench<'_>, cx: Arc<HookContext>) -> Option<BoxFuture<'static, Passed>> {
    let (session, hooks, step) = (bench.session, bench.hooks.clone(), bench.session.step());
    let work = match gate.clone() {
        Gate::Compacted { .. } => {
            async move { Passed::Events(vec![hooks.session_start(&cx, SessionStart::Compacted).await.event(step)]) }
                .boxed()
        }
        Gate::BeforeModel { attempt, .. } => {
            let messages: Arc<[Arc<Message>]> = session.transcript().cloned().collect();
            let Frame { system, tools, .. } = bench.frame.clone();
            let call = ModelCall { attempt, system, tools, messages };
            async move {
                let (gated, call) = hooks.before_model(&cx, call).await;
                Passed::Model(gated, call)
            }
            .boxed()
        }
        Gate::BeforeTool(id) => {
            let call = bench.tools.understand(&*find(session, &id)?);
            async move { Passed::Events(vec![hooks.before_tool(&cx, &call).await.event(step)]) }.boxed()
        }
        Gate::Question(subject) => {
            let (Subject::Call(id) | Subject::GoOn(id)) = &subject;
            let call = find(session, id)?;
            async move {
                let (gated, decision) = hooks.approval(&cx, &subject, &call).await;
                let decision = decision.filter(|_| gated.stopped.is_none());
                let answer = decision.map(|decision| {
                    let by = Some(Answerer::Hook);
                    Event::ApprovalGiven { subject, decision, by }
                });
                Passed::Events(std::iter::once(gated.event(step)).chain(answer).collect())
            }
            .boxed()
        }
        Gate::AfterTool(id) => {
            let (call, outcome) = find(session, &id).zip(session.unrun(&id).cloned())?;
            async move {
                let (gated, outcome) = hooks.after_tool(&cx, &call, outcome, Ran::Never).await;
                Passed::Events(vec![gated.event(step), Event::CallSettled { call: id, outcome }])
            }
            .boxed()
        }
        Gate::BeforeCompaction(trigger) => async move {
            let (gated, refused) = hooks.before_compaction(&cx, trigger).await;
            let refused = refused.map(|error| Event::CompactionFailed { trigger, why: None, error, asked: None });
            Passed::Events(std::iter::once(gated.event(step)).chain(refused).collect())
        }
        .boxed(),
        Gate::End { .. } => {
            let (session, text) = (session.clone(), last_words(session));
            async move {
                let gated = hooks.stop(&cx, &text, |hook| session.times_sent_back(hook)).await;
                Passed::Events(vec![gated.event(step)])
            }
            .boxed()
        }
    };
    Some(work)
}

/// A call of the newest reply.
fn find(session: &State, id: &CallId) -> Option<Arc<ToolCall>> {
    let in_transcript = || {
        let messages: Vec<_> = session.transcript().collect();
        messages.iter().rev().find_map(|message| message.calls().find(|call| call.id == *id).cloned()).map(Arc::new)
    };
    session.open_call(id).cloned().or_else(in_transcript)
}
