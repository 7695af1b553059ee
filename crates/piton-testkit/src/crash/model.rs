//! The simulated model: which answer is next is told by the conversation, so that it neither knows nor cares who crashed.

use super::machine::Machine;
use super::scenario::Answer;
use futures_util::stream;
use piton_core::call::CallInput;
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{Delta, ModelError, ModelEvent, Reply, Request};
use piton_core::turn;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use std::sync::Arc;

pub(super) struct Simulated {
    pub(super) machine: Arc<Machine>,
    pub(super) answers: Vec<Answer>,
    /// Those of subagents, by what they are told.
    pub(super) of_subagents: Vec<(&'static str, Vec<Answer>)>,
}

/// What every reply costs, so that the bill can be added up.
pub(super) const USAGE: Usage =
    Usage { input_tokens: 1_000, output_tokens: 100, cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0 };

impl Model for Simulated {
    fn name(&self) -> &str {
        "simulated/model"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        Some(Price { input: 1.0, output: 10.0, cache_read: 0.0, cache_write: 0.0, long: None })
    }

    fn stream(&self, request: Request) -> ModelStream {
        let messages = request.messages.iter().map(AsRef::as_ref);
        if let Some(fault) = turn::malformed(messages) {
            self.machine.accuse(format!("I2: the model is asked with a malformed conversation: {fault}"));
        }
        let events = self.events(&request.messages);
        let mut state = self.machine.state();
        let syncs = state.syncs;
        state.syncs_when_asked.push(syncs);
        drop(state);
        let machine = self.machine.clone();
        Box::pin(stream::unfold((events.into_iter(), machine), |(mut events, machine)| async move {
            machine.point().await;
            events.next().map(|event| (event, (events, machine)))
        }))
    }
}

impl Simulated {
    fn events(&self, messages: &[Arc<Message>]) -> Vec<Result<ModelEvent, ModelError>> {
        let step = messages.iter().filter(|message| message.role == Role::Assistant).count() + summed_up(messages);
        if messages.last().is_some_and(|last| notes(last).any(|note| note.contains("Write the summary"))) {
            let answer = Answer { text: format!("{DONE}{step}"), ..Answer::default() };
            return vec![Ok(done(&answer))];
        }
        let answers = self.answers_to(messages);
        let Some(answer) = answers.get(step) else {
            self.machine.accuse(format!("the model is asked for step {step} of {}", answers.len()));
            return vec![Ok(done(&Answer::default()))];
        };
        let delta = Ok(ModelEvent::Delta(Delta::Text { text: answer.text.clone() }));
        let mut state = self.machine.state();
        let failed = state.failures.entry(step).or_default();
        match answer.error.filter(|_| *failed < answer.failures) {
            Some(kind) => {
                *failed += 1;
                vec![delta, Err(ModelError::new(kind, "busy"))]
            }
            None => vec![delta, Ok(done(answer))],
        }
    }
}

impl Simulated {
    /// What whoever is asked here answers: a subagent knows what it is told, and nothing else.
    fn answers_to(&self, messages: &[Arc<Message>]) -> &[Answer] {
        let is_told = |told: &str| {
            messages.first().is_some_and(|first| {
                first.parts.iter().any(|part| match part {
                    Part::Text { text, .. } | Part::Note { text, .. } => text.contains(told),
                    _ => false,
                })
            })
        };
        let of_one = self.of_subagents.iter().find(|(told, _)| is_told(told));
        of_one.map_or(&self.answers, |(_, answers)| answers)
    }
}

/// How a summary of the simulated model says how many steps it stands for.
const DONE: &str = "steps done: ";

/// The steps that a summary stands for.
fn summed_up(messages: &[Arc<Message>]) -> usize {
    let said = messages.iter().flat_map(|message| notes(message)).find_map(|note| note.split_once(DONE));
    said.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn notes(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Note { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

fn done(answer: &Answer) -> ModelEvent {
    let call = |(name, input): &(&str, serde_json::Value)| {
        Part::ToolCall(ToolCall {
            id: CallId::from(""),
            provider_id: None,
            name: (*name).to_owned(),
            spelling: None,
            input: CallInput::Json(input.clone()),
            opaque: None,
        })
    };
    let parts: Vec<Part> = std::iter::once(Part::text(&answer.text)).chain(answer.calls.iter().map(call)).collect();
    let finish = if answer.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let reply = Reply { usage: USAGE, ..Reply::new(parts, finish) };
    ModelEvent::Done(Box::new(reply))
}
