//! Is the model going round in circles? The same call with the same input and the same result, again and again.

use crate::call::{CallInput, Outcome};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};

/// When repetition counts as no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoProgress {
    /// So many identical calls in a row; 0 switches the check off.
    pub repeats: u32,
    /// What must be identical.
    pub compare: Compare,
    /// What is done about it.
    #[serde(default)]
    pub then: Stuck,
}

/// What is done about a model that goes round in circles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stuck {
    /// A person is asked; where nobody is there, the turn ends.
    #[default]
    Ask,
    /// The turn ends.
    End,
}

/// What makes two calls identical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Tool and input, compared as JSON text. OpenCode's and Pulse's rule.
    Input,
    /// Tool, input and what came of it: polling something that changes is progress.
    InputAndResult,
}

/// What is remembered of one settled call. Equal values mean identical calls (64-bit hashes of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// Remembers a call.
    pub fn new(compare: Compare, tool: &str, input: &CallInput, outcome: Option<&Outcome>) -> Self {
        let mut hasher = DefaultHasher::new();
        tool.hash(&mut hasher);
        match input {
            CallInput::Json(value) => value.to_string().hash(&mut hasher),
            CallInput::Invalid { raw, .. } => raw.hash(&mut hasher),
        }
        if let (Compare::InputAndResult, Some(outcome)) = (compare, outcome) {
            outcome.status.is_error().hash(&mut hasher);
            outcome.text.hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// Whether the newest calls are `repeats` identical ones in a row.
pub fn is_stuck(rule: NoProgress, calls: &[Seen]) -> bool {
    let repeats = rule.repeats as usize;
    repeats > 0 && calls.len() >= repeats && calls[calls.len() - repeats..].windows(2).all(|pair| pair[0] == pair[1])
}
