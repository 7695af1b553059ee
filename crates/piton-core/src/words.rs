//! The sentences in which a turn's end is told. Three of the documents fix them to the letter; the others leave them to us.

use crate::ending::{TurnEnd, Why};
use crate::message::joined;
use crate::policy::{Policy, Wording};
use std::borrow::Cow;

/// What Neovate tells model and caller of a call that was refused.
const NEOVATE_DENIED: &str = "Error: Tool execution was denied by user.";

/// What Pulse returns of a run that was stopped.
const PULSE_ABORTED: &str = "Request aborted.";

impl Wording {
    /// A model that gave no reply: the provider's words, the failures of the turn so far, and how many there may be.
    /// The count comes before the kind: an error that is hopeless anyway and also one too many is told as one too many.
    pub fn model_error(self, said: &str, failures: u32, most: Option<u32>) -> String {
        match (self, most) {
            (Self::Piton | Self::Neovate, _) => said.to_owned(),
            (Self::Pulse, Some(most)) if failures >= most => format!("Failed after {failures} errors: {said}"),
            (Self::Pulse, _) => format!("Error: {said}"),
        }
    }

    /// A call that was refused, as the model reads it.
    pub fn denied(self, own: String) -> String {
        match self {
            Self::Neovate => NEOVATE_DENIED.to_owned(),
            Self::Piton | Self::Pulse => own,
        }
    }

    /// Why a turn ended: the words for its end, where the document fixes them, else our own.
    pub fn ending(self, end: TurnEnd, why: Option<Why>, policy: &Policy, own: Option<String>) -> Option<String> {
        let is_model_error = why == Some(Why::ModelError);
        let said = match (self, end) {
            (Self::Neovate, TurnEnd::Canceled) => "Operation was canceled".to_owned(),
            (Self::Neovate, TurnEnd::MaxSteps) => {
                format!("Maximum turns ({}) exceeded", policy.steps.max.unwrap_or_default())
            }
            (Self::Neovate, TurnEnd::ToolDenied) => NEOVATE_DENIED.to_owned(),
            (Self::Pulse, TurnEnd::Canceled) => PULSE_ABORTED.to_owned(),
            (Self::Pulse, TurnEnd::NoProgress) => "[Warning] Doom loop detected, aborting...".to_owned(),
            (Self::Pulse, TurnEnd::MaxSteps) => "Max steps reached, task may be incomplete.".to_owned(),
            (Self::Pulse, TurnEnd::ContentFilter) => "Content filtered.".to_owned(),
            (Self::Pulse, TurnEnd::ContextLimit) if !is_model_error => "Context limit reached.".to_owned(),
            (Self::Pulse, TurnEnd::ApiError) if !is_model_error => "Task failed.".to_owned(),
            (Self::Pulse, TurnEnd::Completed) if own.is_some() => "Context limit reached.".to_owned(),
            _ => return own,
        };
        Some(said)
    }

    /// What of a reply that was cut and went on, in pieces, the loop of the document returns.
    pub fn returned<'t>(self, pieces: &'t [Cow<'_, str>]) -> Cow<'t, str> {
        match self {
            Self::Piton | Self::Neovate => joined(pieces.iter().map(|piece| &**piece)),
            // It knows single replies only.
            Self::Pulse => pieces.last().map(|last| Cow::Borrowed(&**last)).unwrap_or_default(),
        }
    }

    /// What the loop of the document returns: the model's last words, or the sentence that stands for them.
    pub fn result<'t>(self, end: TurnEnd, why: Option<Why>, detail: Option<&'t str>, text: &'t str) -> Cow<'t, str> {
        let detail = detail.unwrap_or_default();
        let by_text = match (self, end) {
            (Self::Piton, _) | (Self::Neovate, TurnEnd::Completed) => return text.into(),
            (Self::Pulse, TurnEnd::NoProgress) => return PULSE_ABORTED.into(),
            (Self::Neovate, _) | (Self::Pulse, TurnEnd::Canceled) => return detail.into(),
            (Self::Pulse, TurnEnd::ApiError | TurnEnd::ContextLimit) => why != Some(Why::ModelError),
            (Self::Pulse, _) => true,
        };
        match (by_text && !text.is_empty(), detail) {
            (true, _) => text.into(),
            (false, "") => "Task completed.".into(),
            (false, detail) => detail.into(),
        }
    }
}
