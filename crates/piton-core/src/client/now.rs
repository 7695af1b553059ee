//! The current state of a session: what a client that connects late needs besides the records.

use super::{Live, Want, Wanted};
use crate::event::Event;
use crate::ids::{MessageId, Seq};
use crate::model::Delta;
use crate::turn::{Job, State};
use serde::{Deserialize, Serialize};

/// How many bytes of the end of a running tool's output are kept for clients that connect late.
const TAIL_BYTES: usize = 32 << 10;

/// A session at one position of its journal: its durable state, and the fragments that are streaming at the moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Now {
    /// The last record that it takes into account.
    pub seq: Seq,
    /// The turn in progress, or the last one.
    pub turn: u32,
    /// The session's step.
    pub step: u32,
    /// What the session is doing.
    pub phase: Stage,
    /// What has streamed and is in no record yet: the reply so far with the arguments of its calls, and the end of each running
    /// tool's output. Each entry is complete, and clients handle it like any other fragment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Live>,
    /// What it wants from its clients: questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<Wanted>,
    /// Messages that no turn has taken up yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<MessageId>,
    /// Whether the session is paused and starts nothing new.
    #[serde(default)]
    pub paused: bool,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// No turn is in progress.
    #[default]
    AtRest,
    /// The model is replying.
    Model,
    /// The model call will be retried after a wait.
    BackingOff,
    /// Tools run.
    Tools,
    /// A question waits for a person.
    Asking,
    /// The conversation is being compacted.
    Compacting,
    /// Something else of a turn, such as its beginning or its hooks.
    Working,
}

impl Now {
    /// The state as of the last record.
    pub fn of(state: &State, seq: Seq) -> Self {
        let wanted = state.wanted();
        let of_clients = wanted.iter().filter_map(|job| match job {
            Job::AskApproval(subject) => {
                let want = Want::Approval(Box::new(state.question(subject)?));
                Some(Wanted { subject: subject.clone(), want })
            }
            _ => None,
        });
        Self {
            seq,
            turn: state.turn(),
            step: state.step(),
            phase: Stage::of(state, &wanted),
            partial: Vec::new(),
            wanted: of_clients.collect(),
            queue: state.waiting().filter_map(|(message, _)| message.id.clone()).collect(),
            paused: false,
        }
    }

    /// Replaces an older state, and keeps those of its fragments that no record has superseded.
    pub fn after(self, older: Self) -> Self {
        Self { partial: older.partial, paused: older.paused, ..self }
    }

    /// Adds a fragment.
    pub fn hear(&mut self, live: &Live) {
        match live {
            Live::Paused { paused } => self.paused = *paused,
            Live::ModelDelta { delta, .. } => {
                // Inputs of several calls may come in turns; words belong to the last there are.
                let most = if matches!(delta, Delta::CallInput { .. }) { usize::MAX } else { 1 };
                let of_model = |so_far: &&mut Live| matches!(so_far, Live::ModelDelta { .. });
                let grown = self.partial.iter_mut().rev().filter(of_model).take(most).any(|so_far| so_far.grow(live));
                self.partial.extend((!grown).then(|| live.clone()));
            }
            Live::ToolOutput { .. } => {
                let grown = self.partial.iter_mut().any(|so_far| so_far.grow(live));
                self.partial.extend((!grown).then(|| live.clone()));
            }
            _ => {}
        }
    }

    /// Drops the fragments that a record supersedes.
    pub fn supersede(&mut self, event: &Event) {
        match event {
            Event::MessageFinished { .. } | Event::ModelFailed { .. } | Event::MessageCut { .. } => {
                self.partial.retain(|live| !matches!(live, Live::ModelDelta { .. }));
            }
            Event::CallSettled { call, .. } => {
                self.partial.retain(|live| !matches!(live, Live::ToolOutput { call: of, .. } if of == call));
            }
            // What the user runs themselves goes on.
            Event::TurnEnded { .. } => self.partial.retain(|live| matches!(live, Live::ToolOutput { .. })),
            _ => {}
        }
    }
}

impl Stage {
    fn of(state: &State, wanted: &[Job]) -> Self {
        let is = |what: fn(&Job) -> bool| wanted.iter().any(what);
        if state.is_at_rest() {
            Self::AtRest
        } else if is(|job| matches!(job, Job::AskApproval(_))) {
            Self::Asking
        } else if is(|job| matches!(job, Job::RunTool(_) | Job::StopTool(_))) {
            Self::Tools
        } else if is(|job| matches!(job, Job::CallModel { .. })) {
            Self::Model
        } else if is(|job| matches!(job, Job::Wait { .. })) {
            Self::BackingOff
        } else if is(|job| matches!(job, Job::Compact(_))) {
            Self::Compacting
        } else {
            Self::Working
        }
    }
}

impl Live {
    /// Appends the next fragment, if it belongs to the same thing. Returns whether it does.
    fn grow(&mut self, next: &Live) -> bool {
        match (self, next) {
            (Self::ToolOutput { call, text }, Self::ToolOutput { call: of, text: more }) if call == of => {
                text.push_str(more);
                if let Some(over) = text.len().checked_sub(TAIL_BYTES) {
                    let from = text.ceil_char_boundary(over);
                    text.drain(..from);
                }
                true
            }
            (
                Self::ModelDelta { step, attempt, delta },
                Self::ModelDelta { step: of_step, attempt: of_attempt, delta: more },
            ) if (&*step, &*attempt) == (of_step, of_attempt) => match (delta, more) {
                (Delta::Text { text }, Delta::Text { text: more })
                | (Delta::Reasoning { text }, Delta::Reasoning { text: more }) => {
                    text.push_str(more);
                    true
                }
                (Delta::CallInput { index, json }, Delta::CallInput { index: of, json: more }) if index == of => {
                    json.push_str(more);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(delta: Delta) -> Live {
        Live::ModelDelta { step: 1, attempt: 1, delta }
    }

    #[test]
    fn a_reply_that_streams_is_kept_whole_until_its_record_supersedes_it() {
        let mut now = Now::default();
        let text = |text: &str| delta(Delta::Text { text: text.into() });
        let input = |json: &str| delta(Delta::CallInput { index: 0, json: json.into() });
        let thought = |text: &str| delta(Delta::Reasoning { text: text.into() });
        for live in
            [text("Hm."), thought("So"), thought("."), text("Let "), text("me see."), input("{\"pa"), input("th\":1}")]
        {
            now.hear(&live);
        }
        let output = |text: &str| Live::ToolOutput { call: "c1_0".into(), text: text.into() };
        now.hear(&output("one\n"));
        now.hear(&output("two\n"));
        assert_eq!(
            now.partial,
            [text("Hm."), thought("So."), text("Let me see."), input("{\"path\":1}"), output("one\ntwo\n")]
        );
        now.supersede(&Event::MessageCut { step: 1, parts: vec![], at_most: None });
        assert_eq!(now.partial, [output("one\ntwo\n")], "the tool still runs");
    }

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let mut now = Now::default();
        for _ in 0..3 {
            now.hear(&Live::ToolOutput { call: "c1_0".into(), text: "é".repeat(TAIL_BYTES / 2) });
        }
        now.hear(&Live::ToolOutput { call: "c1_0".into(), text: "end".into() });
        let [Live::ToolOutput { text, .. }] = &now.partial[..] else { panic!("{:?}", now.partial.len()) };
        assert!(text.len() <= TAIL_BYTES && text.ends_with("éend"));
    }
}
