//! What was left out of an answer because nobody could read it, and whether the answer is one without it.

use piton_core::message::Part;
use piton_core::model::{ModelError, ModelErrorKind, Reply};

/// The gaps of one answer so far.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    count: usize,
    /// One line for each of the first few.
    warnings: Vec<String>,
}

impl Gaps {
    /// An event was left out. An answer that consists of such events is none.
    pub(crate) fn note(&mut self, why: &str) -> Result<(), ModelError> {
        /// An answer with more is not being spoken in this protocol.
        const MOST: usize = 100;
        /// More would say the same once more.
        const TOLD: usize = 3;
        self.count += 1;
        if self.warnings.len() < TOLD {
            self.warnings.push(format!("an event of the answer could not be read and was left out: {why}"));
        }
        if self.count > MOST { Err(self.unreadable()) } else { Ok(()) }
    }

    /// The answer with its warnings, if it ended well without what was left out.
    pub(crate) fn judge(mut self, answer: Result<Reply, ModelError>) -> Result<Reply, ModelError> {
        if self.count == 0 {
            return answer;
        }
        let Ok(mut reply) = answer else { return Err(self.unreadable()) };
        if !ended_well(&reply) {
            return Err(self.unreadable());
        }
        let untold = self.count - self.warnings.len();
        if untold > 0 {
            self.warnings.push(format!("{untold} more events of the answer could not be read and were left out"));
        }
        reply.warnings.append(&mut self.warnings);
        Ok(reply)
    }

    fn unreadable(&self) -> ModelError {
        let first = self.warnings.first().map(String::as_str).unwrap_or_default();
        ModelError::new(ModelErrorKind::Malformed, format!("the answer is damaged: {first}"))
    }
}

/// Whether there is an answer, its reason to stop was seen, and the calls that it speaks of are there.
fn ended_well(reply: &Reply) -> bool {
    let Some(raw) = reply.finish_raw.as_deref() else { return false };
    let wants_calls = ["tool_calls", "tool_use", "function_call"].contains(&raw);
    let says = |part: &Part| match part {
        Part::Text { text, .. } => !wants_calls && !text.trim().is_empty(),
        Part::ToolCall(_) => true,
        Part::Reasoning { .. } | Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => false,
    };
    reply.parts.iter().any(says)
}
