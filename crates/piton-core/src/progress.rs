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

/// How the newest calls go round in circles, if they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circle {
    /// One call, again and again.
    One,
    /// Two calls by turns.
    Two,
}

/// Whether the newest calls are `repeats` identical ones in a row, or as many identical pairs. Pairs count only where
/// results are compared: to edit and test by turns is work, as long as something else comes of it.
pub fn circle(rule: NoProgress, calls: &[Seen]) -> Option<Circle> {
    let repeats = rule.repeats as usize;
    let repeats_after = |period: usize| {
        let span = repeats * period;
        calls.len() >= span && {
            let newest = &calls[calls.len() - span..];
            newest.iter().zip(&newest[period..]).all(|(one, later)| one == later)
        }
    };
    match rule.compare {
        _ if repeats == 0 => None,
        _ if repeats_after(1) => Some(Circle::One),
        Compare::InputAndResult if repeats > 1 && repeats_after(2) => Some(Circle::Two),
        Compare::Input | Compare::InputAndResult => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(calls: &[(&str, &str)], compare: Compare) -> Option<Circle> {
        let seen = |(input, result): &(&str, &str)| {
            Seen::new(compare, "bash", &CallInput::Json(json!({ "c": input })), Some(&Outcome::ok(*result)))
        };
        circle(NoProgress { repeats: 3, compare, then: Stuck::Ask }, &calls.iter().map(seen).collect::<Vec<_>>())
    }

    #[test]
    fn one_call_or_two_by_turns_are_a_circle_unless_something_else_comes_of_them() {
        let all = Compare::InputAndResult;
        let (a, b) = (("a", "1"), ("b", "2"));
        assert_eq!(seen(&[b, a, a, a], all), Some(Circle::One));
        assert_eq!(seen(&[a, b, a, b, a, b], all), Some(Circle::Two));
        assert_eq!(seen(&[b, a, b, a, b], all), None);
        assert_eq!(seen(&[a, b, a, b, ("a", "other"), b], all), None);
        assert_eq!(seen(&[a, b, a, b, a, b], Compare::Input), None);
        assert_eq!(seen(&[a, ("a", "2"), ("a", "3")], Compare::Input), Some(Circle::One));
    }
}
