//! The events of which a long session has thousands, decoded by the kind that stands beside the body. Serde reads an
//! internally tagged enum by way of a copy of everything in it, since the tag could come last; where that is known
//! beforehand, or a part is read as one struct of all fields, it takes half of the time.
//!
//! Nothing here may know less than the types themselves: a field that is not listed makes the whole event be read in
//! serde's own way, and a test holds both to the same result.

use piton_core::budget::Bound;
use piton_core::call::{Beside, CallInput, Effects, Outcome, Planned, Resume, Touches};
use piton_core::event::{Author, Event, StepKind, Verdict};
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::Reply;
use piton_core::permission::Judged;
use piton_core::prompt::PromptContents;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepStarted {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    step: u32,
    kind: StepKind,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFinished {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    step: u32,
    attempt: u32,
    reply: QuickReply,
    #[serde(default)]
    cost_micros: Option<u64>,
    #[serde(default)]
    at_most: Option<Bound>,
    #[serde(default)]
    prompt: Option<Box<PromptContents>>,
    #[serde(default)]
    first_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRequested {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    call: CallId,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default = "Author::of_older_inputs")]
    author: Author,
    effects: QuickEffects,
    verdict: Verdict,
    #[serde(default)]
    plan: Option<Box<Planned>>,
    #[serde(default)]
    judged: Option<Box<Judged>>,
}

/// Journals before version 4 have one word in its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickEffects {
    resume: Resume,
    beside: Beside,
    touches: Touches,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallStarted {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    call: CallId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSettled {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    call: CallId,
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFinished {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    step: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickReply {
    parts: Vec<QuickPart>,
    finish: FinishReason,
    #[serde(default)]
    finish_raw: Option<String>,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    response_id: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// What a model's reply consists of, each with its own fields among these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickPart {
    r#type: PartType,
    text: Option<String>,
    opaque: Option<Value>,
    id: Option<CallId>,
    provider_id: Option<String>,
    name: Option<String>,
    spelling: Option<String>,
    input: Option<CallInput>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartType {
    Text,
    Reasoning,
    ToolCall,
}

/// The event of this kind with this body.
pub(super) fn event(kind: &str, body: &str) -> serde_json::Result<Event> {
    match quickly(kind, body) {
        Some(event) => Ok(event),
        None => serde_json::from_str(body),
    }
}

/// `None` where there is no quick way.
fn quickly(kind: &str, body: &str) -> Option<Event> {
    Some(match kind {
        "step_started" => {
            let StepStarted { step, kind, note, .. } = serde_json::from_str(body).ok()?;
            Event::StepStarted { step, kind, note }
        }
        "message_finished" => {
            let MessageFinished { step, attempt, reply, cost_micros, at_most, prompt, first_ms, .. } =
                serde_json::from_str(body).ok()?;
            Event::MessageFinished { step, attempt, reply: reply.whole()?, cost_micros, at_most, prompt, first_ms }
        }
        "call_requested" => {
            let CallRequested { call, input, author, effects, verdict, plan, judged, .. } =
                serde_json::from_str(body).ok()?;
            let QuickEffects { resume, beside, touches } = effects;
            let effects = Effects { resume, beside, touches };
            Event::CallRequested { call, input, author, effects, verdict, plan, judged }
        }
        "call_started" => {
            let CallStarted { call, .. } = serde_json::from_str(body).ok()?;
            Event::CallStarted { call }
        }
        "call_settled" => {
            let CallSettled { call, outcome, .. } = serde_json::from_str(body).ok()?;
            Event::CallSettled { call, outcome }
        }
        "step_finished" => {
            let StepFinished { step, .. } = serde_json::from_str(body).ok()?;
            Event::StepFinished { step }
        }
        _ => return None,
    })
}

impl QuickReply {
    fn whole(self) -> Option<Reply> {
        let Self { parts: quick, finish, finish_raw, usage, response_id, warnings } = self;
        // `collect` would keep the room of the other vector, which is larger.
        let mut parts = Vec::with_capacity(quick.len());
        for part in quick {
            parts.push(part.whole()?);
        }
        Some(Reply { parts, finish, finish_raw, usage, response_id, warnings })
    }
}

impl QuickPart {
    /// `None` where a field is missing, or one of another type is there.
    fn whole(self) -> Option<Part> {
        let Self { r#type, text, opaque, id, provider_id, name, spelling, input } = self;
        match (r#type, text, id, name, input, provider_id) {
            (PartType::Text, Some(text), None, None, None, None) => Some(Part::Text { text, opaque }),
            (PartType::Reasoning, Some(text), None, None, None, None) => Some(Part::Reasoning { text, opaque }),
            (PartType::ToolCall, None, Some(id), Some(name), Some(input), provider_id) => {
                Some(Part::ToolCall(ToolCall { id, provider_id, name, spelling, input, opaque }))
            }
            _ => None,
        }
    }
}
