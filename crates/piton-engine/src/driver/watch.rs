//! What hooks that only watch are shown: everything durable that they want to see, in order. What they do changes nothing of
//! the turn, which is why this stands beside the machine and not in it.

use crate::hooks::{HookContext, Hooks, ModelAnswer, StepDone, TurnDone, WatchedEvent};
use crate::jobs::WatchedEvents;
use piton_core::client::last_words;
use piton_core::event::{Event, Record};
use piton_core::hook::HookPoint;
use piton_core::message::{Part, Role};
use piton_core::turn::State;
use std::sync::Arc;

/// What was seen to happen, and what of it hooks have yet to see.
pub(crate) struct Watch {
    unseen: WatchedEvents,
    /// Messages of the transcript that were noted.
    messages: usize,
    step: StepDone,
}

impl Watch {
    pub(crate) fn new(session: &State) -> Self {
        let messages = session.transcript().len();
        Self { unseen: Vec::new(), messages, step: StepDone::default() }
    }

    /// The head has moved. What is in the transcript there is not new.
    pub(crate) fn rewound(&mut self, session: &State) {
        self.messages = session.transcript().len();
    }

    /// What hooks have yet to see.
    pub(crate) fn take(&mut self) -> WatchedEvents {
        std::mem::take(&mut self.unseen)
    }

    /// Notes what of this hooks want to see, once it is durable. The session has applied it.
    pub(crate) fn note(
        &mut self,
        record: &Record,
        session: &State,
        hooks: &Hooks,
        cx: impl FnOnce() -> Arc<HookContext>,
    ) {
        let want = |point| hooks.want(point);
        let mut watched = Vec::new();
        match &record.event {
            // A step that goes on here has no other beginning that hooks could make something of.
            Event::StepStarted { .. } | Event::TurnResumed { .. } => {
                self.step = StepDone { started_ms: record.at_ms, ..StepDone::default() };
            }
            Event::MessageFinished { attempt, reply, .. } => {
                self.step.usage = reply.usage;
                if want(HookPoint::AfterModel) {
                    let answer = ModelAnswer { attempt: *attempt, result: Ok(reply.clone()) };
                    watched.push(WatchedEvent::Answer(Box::new(answer)));
                }
            }
            Event::ModelFailed { attempt, error, .. } => {
                let answer = ModelAnswer { attempt: *attempt, result: Err(error.clone()) };
                watched.push(WatchedEvent::Answer(Box::new(answer)));
            }
            Event::StepFinished { .. } => {
                watched.push(WatchedEvent::Step(StepDone { ended_ms: record.at_ms, ..self.step }));
            }
            Event::CompactionFinished { trigger, summary, .. } => {
                watched.push(WatchedEvent::Compacted { trigger: *trigger, summary: summary.clone() });
            }
            Event::TurnEnded { end, detail, spent, .. } if want(HookPoint::Turn) => {
                let (ended_ms, text) = (record.at_ms, last_words(session));
                let started_ms = ended_ms.saturating_sub(spent.duration_ms);
                let (end, detail, spent) = (*end, detail.clone(), *spent);
                watched.push(WatchedEvent::Turn(Box::new(TurnDone { end, detail, spent, started_ms, ended_ms, text })));
            }
            _ => {}
        }
        let len = session.transcript().len();
        let from = self.messages.min(len);
        self.messages = len;
        let new = session.transcript().skip(from).filter(|message| message.role != Role::User);
        watched.extend(new.map(|message| WatchedEvent::Message(Arc::clone(message))));
        if let Event::MessageFinished { reply, .. } = &record.event {
            let calls = reply.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some(WatchedEvent::ToolUse(Box::new(call.clone()))),
                Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
                Part::Note { .. } | Part::Image { .. } => None,
            });
            watched.extend(calls);
        }
        watched.retain(|watched| want(watched.point()));
        if !watched.is_empty() {
            let cx = cx();
            self.unseen.extend(watched.into_iter().map(|watched| (Arc::clone(&cx), watched)));
        }
    }
}
