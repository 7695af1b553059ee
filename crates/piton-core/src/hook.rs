//! Hooks, as the journal tells of them: where they ran, how that went, and what they did. What a hook is, and how one is
//! run, is the engine's business (`piton_engine::hooks`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The points of the loop at which hooks run, in the order of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// The session was opened: a new one, or a resumed one.
    SessionStart,
    /// A prompt arrived that is not recorded yet.
    Prompt,
    /// A model call is about to start.
    BeforeModel,
    /// A raw chunk of the model's answer arrived, as the server sent it.
    Chunk,
    /// A fragment of prose arrived.
    TextDelta,
    /// A fragment of reasoning arrived.
    Reasoning,
    /// The model has replied, or has failed to.
    AfterModel,
    /// A message of the model or of its tools joined the transcript.
    Message,
    /// The model wants to use a tool.
    ToolUse,
    /// A call is about to be judged by the rules.
    BeforeTool,
    /// A person was asked a question; the turn waits for the answer.
    Approval,
    /// A call has an outcome that is not recorded yet.
    AfterTool,
    /// A step is over.
    Step,
    /// The model has finished: may the turn end?
    Stop,
    /// A turn is over.
    Turn,
    /// The conversation is about to be compacted.
    BeforeCompaction,
    /// The conversation was compacted.
    Compacted,
    /// The session is closing.
    SessionEnd,
}

/// The points at which hooks are asked before the loop goes on. Recorded with the turn, so that its fold waits for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedGates")]
pub struct Gates(Vec<HookPoint>);

/// Gates as journals have them: 0.1.0 knew the one at the turn's end only.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedGates {
    Points(Vec<HookPoint>),
    Stop(bool),
}

impl From<RecordedGates> for Gates {
    fn from(recorded: RecordedGates) -> Self {
        match recorded {
            RecordedGates::Points(points) => Self(points),
            RecordedGates::Stop(is_there) => Self::of(is_there.then_some(HookPoint::Stop)),
        }
    }
}

impl Gates {
    /// Gates at these points.
    pub fn of(points: impl IntoIterator<Item = HookPoint>) -> Self {
        Self(points.into_iter().collect())
    }

    /// Whether hooks are asked here.
    pub fn has(&self, point: HookPoint) -> bool {
        self.0.contains(&point)
    }

    /// Whether hooks are asked nowhere.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A hook's verdict on a call, from lenient to strict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookVerdict {
    /// No question is needed. A rule can still deny the call.
    Allow,
    /// Ask a person, whatever the rules say; the text tells the person why, and may be empty.
    Ask(String),
    /// Do not run it; the text tells the model why.
    Refuse(String),
}

/// What must hold before a turn may end `completed`: on record with the turn, so that it holds in whatever process the
/// turn ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// A command passes.
    Check {
        /// For `sh`, in the workspace.
        command: String,
        /// Its time, in milliseconds.
        timeout_ms: u64,
        /// How often it sends the model back to work.
        rounds: usize,
    },
    /// The model's last words are JSON that this JSON Schema accepts.
    Answer {
        /// The schema.
        schema: Value,
    },
}

/// One run of one hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookRun {
    /// The hook's name.
    pub hook: String,
    /// Where it ran, if that differs from the record's point: hooks that only watch are recorded together at the end of
    /// the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<HookPoint>,
    /// How often it ran.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
    /// The total time, in milliseconds.
    pub duration_ms: u64,
    /// How it ended.
    pub end: HookEnd,
    /// Details: what went wrong, or the hook's message to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it did, in phrases such as `changed the input`; empty if nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub did: Vec<String>,
    /// Its findings for programs: an object, such as the result of a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Value>,
}

/// How a hook's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEnd {
    /// It ran normally.
    Ok,
    /// It failed, or its answer could not be read. It has no effect.
    Failed,
    /// It took too long. It has no effect.
    TimedOut,
    /// It panicked. It has no effect.
    Panicked,
}

impl HookRun {
    /// A run that did nothing.
    pub fn new(hook: &str, duration_ms: u64) -> Self {
        let (detail, evidence) = (None, None);
        let end = HookEnd::Ok;
        Self { hook: hook.to_owned(), point: None, times: 1, duration_ms, end, detail, did: Vec::new(), evidence }
    }
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_once(times: &u32) -> bool {
    *times == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::policy::{HookPolicy, Policy};

    #[test]
    fn gates_are_for_a_piton_that_waits_at_them_and_0_1_0_knew_one() {
        let policy = |gates: Gates| Policy { hooks: HookPolicy { gates, demands: vec![] }, ..Policy::piton() };
        let text = |policy: &Policy| serde_json::to_value(policy).unwrap_or_default();
        let gates = Gates::of([HookPoint::BeforeTool, HookPoint::Stop]);
        let mut recorded = text(&policy(gates.clone()));
        assert_eq!(recorded["gates"], serde_json::json!(["before_tool", "stop"]));
        assert_eq!(serde_json::from_value::<Policy>(recorded.clone()).ok(), Some(policy(gates.clone())));
        recorded.as_object_mut().map(|object| object.remove("gates"));
        recorded["stop_hooks"] = true.into();
        let of_0_1_0 = serde_json::from_value::<Policy>(recorded).ok();
        assert_eq!(of_0_1_0, Some(policy(Gates::of([HookPoint::Stop]))));
        assert_eq!(text(&policy(Gates::default())).get("gates"), None);
        let policy = Box::new(policy(gates));
        assert_eq!(
            Event::TurnResumed { model: "a/b".into(), fallbacks: vec![], policy, this_turn_only: false }.since(),
            4
        );
    }

    #[test]
    fn a_turn_with_demands_is_not_for_a_piton_that_knows_of_none() {
        let resumed = |demands: Vec<Demand>| {
            let policy = Box::new(Policy { hooks: HookPolicy { demands, ..HookPolicy::default() }, ..Policy::piton() });
            Event::TurnResumed { model: "a/b".into(), fallbacks: vec![], policy, this_turn_only: false }
        };
        assert_eq!(resumed(vec![]).since(), 1);
        let check = Demand::Check { command: "true".into(), timeout_ms: 1, rounds: 2 };
        let event = resumed(vec![check, Demand::Answer { schema: Value::Bool(true) }]);
        assert_eq!(event.since(), 3);
        let text = serde_json::to_string(&event).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Event>(&text).ok(), Some(event));
    }
}
