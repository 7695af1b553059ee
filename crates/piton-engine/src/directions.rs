//! What the front matter of a command, or of a skill that a person starts, says of how its words are carried out: by which
//! model, effort and agent in the turn that they start, or by a subagent. Whether these are there is found out in
//! [`crate::directed`].

use piton_core::effort::Effort;
use piton_core::hidden;

/// What a command or skill says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directions {
    /// The model.
    pub model: Option<String>,
    /// The model's reasoning effort.
    pub effort: Option<Effort>,
    /// The agent.
    pub agent: Option<String>,
    /// Whether that works in a session of its own; unsaid, if it can only be called.
    pub subtask: Option<bool>,
}

impl Directions {
    /// It in words, a piece for each thing that is said: `model a/x`.
    pub fn words(&self) -> Vec<String> {
        let Self { model, effort, agent, subtask } = self;
        let said = |what: &str, name: &str| format!("{what} {}", hidden::visible_line(name));
        let model = model.as_ref().map(|model| said("model", model));
        let effort = effort.map(|effort| format!("effort {effort}"));
        let agent = agent.as_ref().map(|agent| said("agent", agent));
        let subtask = subtask.map(|subtask| if subtask { "as a subagent" } else { "not as a subagent" }.to_owned());
        agent.into_iter().chain(model).chain(effort).chain(subtask).collect()
    }

    /// A model as a file names it: `inherit` is the session's own.
    pub(crate) fn model(name: String) -> Option<String> {
        Some(name).filter(|name| name != "inherit")
    }
}
