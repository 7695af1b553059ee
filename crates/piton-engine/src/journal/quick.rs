//! The events of which a long session has thousands, decoded by the kind that stands beside the body. Serde reads an
//! internally tagged enum by way of a copy of everything in it, since the tag could come last; where the tag is known
//! beforehand, that is half of the time. What is not here is read that way, and a test holds both to the same result.

use piton_core::budget::Bound;
use piton_core::cache::Prompt;
use piton_core::call::{Outcome, ToolClass};
use piton_core::event::{Event, StepKind, Verdict};
use piton_core::ids::CallId;
use piton_core::model::Reply;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct StepStarted {
    step: u32,
    kind: StepKind,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Deserialize)]
struct MessageFinished {
    step: u32,
    attempt: u32,
    reply: Reply,
    #[serde(default)]
    cost_micros: Option<u64>,
    #[serde(default)]
    at_most: Option<Bound>,
    #[serde(default)]
    prompt: Option<Box<Prompt>>,
}

#[derive(Deserialize)]
struct CallRequested {
    call: CallId,
    #[serde(default)]
    input: Option<Value>,
    class: ToolClass,
    verdict: Verdict,
}

#[derive(Deserialize)]
struct CallStarted {
    call: CallId,
}

#[derive(Deserialize)]
struct CallSettled {
    call: CallId,
    outcome: Outcome,
}

#[derive(Deserialize)]
struct StepFinished {
    step: u32,
}

/// The event of this kind with this body.
pub(super) fn event(kind: &str, body: &str) -> serde_json::Result<Event> {
    Ok(match kind {
        "step_started" => {
            let StepStarted { step, kind, note } = serde_json::from_str(body)?;
            Event::StepStarted { step, kind, note }
        }
        "message_finished" => {
            let MessageFinished { step, attempt, reply, cost_micros, at_most, prompt } = serde_json::from_str(body)?;
            Event::MessageFinished { step, attempt, reply, cost_micros, at_most, prompt }
        }
        "call_requested" => {
            let CallRequested { call, input, class, verdict } = serde_json::from_str(body)?;
            Event::CallRequested { call, input, class, verdict }
        }
        "call_started" => {
            let CallStarted { call } = serde_json::from_str(body)?;
            Event::CallStarted { call }
        }
        "call_settled" => {
            let CallSettled { call, outcome } = serde_json::from_str(body)?;
            Event::CallSettled { call, outcome }
        }
        "step_finished" => {
            let StepFinished { step } = serde_json::from_str(body)?;
            Event::StepFinished { step }
        }
        _ => serde_json::from_str(body)?,
    })
}
