//! How the answers of models are made, as agents, commands and people say it.

use piton_core::effort::Effort;

/// How a model's answers are made, as far as a client or an agent says so.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// The reasoning effort.
    pub effort: Option<Effort>,
    /// The temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// The share of the likeliest tokens that is drawn from, 0 to 1.
    pub top_p: Option<f64>,
}

impl Sampling {
    /// This effort, and nothing else.
    pub fn effort(effort: Option<Effort>) -> Self {
        Self { effort, ..Self::default() }
    }

    /// The same with another effort where this has none.
    pub(crate) fn or_effort(self, effort: Option<Effort>) -> Self {
        Self { effort: self.effort.or(effort), ..self }
    }
}
