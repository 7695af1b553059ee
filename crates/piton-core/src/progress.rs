//! Is the model going round in circles? The same call with the same input and the same result, again and again.

use crate::call::{CallInput, Outcome, Status};
use crate::limits::NO_PROGRESS_REPEATS;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};

/// When repetition counts as no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoProgress {
    /// The number of identical calls in a row; 0 turns the check off.
    pub repeats: u32,
    /// What must be identical.
    pub compare: Compare,
    /// What to do then.
    #[serde(default)]
    pub then: Stuck,
}

/// What to do about a model that goes round in circles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stuck {
    /// Ask a person; if nobody is there, end the turn.
    #[default]
    Ask,
    /// End the turn.
    End,
}

/// What must be equal for two calls to count as identical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Tool and input, compared as JSON text. OpenCode's and Pulse's rule.
    Input,
    /// Tool, input and outcome: polling something that changes is progress.
    InputAndResult,
}

impl Default for NoProgress {
    fn default() -> Self {
        Self { repeats: NO_PROGRESS_REPEATS, compare: Compare::InputAndResult, then: Stuck::Ask }
    }
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
            CallInput::Json(value) => {
                // Cannot fail: it only hashes.
                let _ = write!(Hashed(&mut hasher), "{value}");
            }
            CallInput::Invalid { raw, .. } => raw.hash(&mut hasher),
        }
        if let (Compare::InputAndResult, Some(outcome)) = (compare, outcome) {
            outcome.status.is_error().hash(&mut hasher);
            without_marks_of_its_own(outcome).hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// Hashes what is written: many calls are compared when a long session is opened, and their inputs as text would be thrown
/// away at once.
struct Hashed<'h>(&'h mut DefaultHasher);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The key of an outcome's metadata that holds what its text says of how often the same was read.
pub const REPEAT_NOTE: &str = "repeat_note";

/// What the model reads of a result but for what no second call can repeat: the name of the file that has the output in
/// full, how often it was read, and how long it took until its time was up.
fn without_marks_of_its_own(outcome: &Outcome) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(outcome.text.as_str());
    if let Some(path) = outcome.metadata["output_path"].as_str().filter(|path| !path.is_empty()) {
        text = text.replace(path, "").into();
    }
    if let Some(note) = outcome.metadata[REPEAT_NOTE].as_str()
        && let Some(answer) = text.strip_suffix(note)
    {
        text = answer.to_owned().into();
    }
    if outcome.status == Status::TimedOut {
        let (seconds, tenths) = (outcome.duration_ms / 1_000, outcome.duration_ms % 1_000 / 100);
        text = text.replace(&format!("timed out after {seconds}.{tenths} s"), "timed out").into();
    }
    text
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

    #[test]
    fn the_file_of_an_output_and_the_time_it_took_do_not_make_it_another() {
        let seen = |outcome: &Outcome| {
            Seen::new(Compare::InputAndResult, "bash", &CallInput::Json(json!({"c": "seq 20000"})), Some(outcome))
        };
        let cut = |call: &str, numbers: &str| {
            let path = format!("/s/calls/{call}.full");
            Outcome::ok(format!("{numbers} … 20000\n[full output: {path}]")).with(json!({"output_path": path}))
        };
        assert_eq!(seen(&cut("c1_0", "1 2 3")), seen(&cut("c2_0", "1 2 3")));
        assert_ne!(seen(&cut("c1_0", "1 2 3")), seen(&cut("c2_0", "1 2 4")));
        let again = |times: u32| {
            let note = format!(" (read {times} times)");
            Outcome::ok(format!("1: one{note}")).with(json!({REPEAT_NOTE: note}))
        };
        assert_eq!(seen(&again(2)), seen(&again(3)));
        assert_eq!(seen(&again(2)), seen(&Outcome::ok("1: one")));
        let late = |duration_ms: u64, said: &str| Outcome {
            duration_ms,
            ..Outcome::new(
                Status::TimedOut,
                format!("{said}\ntimed out after 2.{} s: ended", duration_ms % 1_000 / 100),
            )
        };
        assert_eq!(seen(&late(2_004, "")), seen(&late(2_131, "")));
        assert_ne!(seen(&late(2_004, "")), seen(&late(2_131, "more")));
    }
}
