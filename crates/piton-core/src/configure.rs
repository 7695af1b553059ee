//! What a client changes of how a session is run while it is open ([`crate::client::Request::Configure`]): the model, the
//! permission mode, the effort, the tools, the agent.
//!
//! Mode and effort hold from the next step on, and for calls that have not begun; a turn keeps the models, the tools and the agent that
//! it began with, and with another model its effort waits for the next turn, too.

use crate::effort::Effort;
use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name that stands for every tool.
pub const EVERY_TOOL: &str = "*";

/// The new values. A setting that is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    /// The model, as `provider/name`; `a/x,b/y` falls back to b/y if a/x gives no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The names of the tools that the model gets; `*` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The agent that runs the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A hash of that agent's file, if it has one. Only Piton sets it, in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_hash: Option<String>,
    /// The permission mode that the agent's own mode replaced, and that comes back when the agent's ends. Only Piton sets it, in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<PermissionMode>,
}

/// The default agent of a session.
pub const BUILD: &str = "build";
/// The agent that plans: its session is in the permission mode `plan`.
pub const PLAN: &str = "plan";

/// Who changed the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangedBy {
    /// A person, at any client.
    User,
}

impl Configure {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was changed later.
    pub fn change(&mut self, later: &Self) {
        let Self { model, mode, effort, tools, agent, agent_hash, mode_before } = later;
        self.model = model.clone().or(self.model.take());
        self.mode = mode.or(self.mode);
        self.effort = effort.or(self.effort);
        self.tools = tools.clone().or(self.tools.take());
        if agent.is_some() {
            (self.agent, self.agent_hash) = (agent.clone(), agent_hash.clone());
        }
        if agent.is_some() || mode.is_some() {
            self.mode_before = *mode_before;
        }
    }

    /// The agent, by name.
    pub fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or(BUILD)
    }

    /// It in words, a piece for each thing that is changed: `model a/x`.
    pub fn words(&self) -> Vec<String> {
        let model = self.model.as_ref().map(|model| format!("model {model}"));
        let mode = self.mode.map(|mode| format!("permission mode {mode}"));
        let effort = self.effort.map(|effort| format!("effort {effort}"));
        let tools = self.tools.as_ref().map(|tools| match tools.as_slice() {
            [] => "no tools".to_owned(),
            tools if is_every(tools) => "all tools".to_owned(),
            tools => format!("tools {}", tools.join(", ")),
        });
        let agent = self.agent.as_ref().map(|agent| format!("agent {agent}"));
        agent.into_iter().chain(model).chain(mode).chain(effort).chain(tools).collect()
    }

    /// Splits it into the part that applies in a turn in progress, and the part that waits for the next turn.
    pub fn split(&self) -> (Self, Self) {
        let waits = self.model.is_some() || self.agent.is_some();
        let now = Self { mode: self.mode, effort: self.effort.filter(|_| !waits), ..Self::default() };
        (now.clone(), Self { mode: None, effort: self.effort.filter(|_| waits), ..self.clone() })
    }

    /// It with when it holds: `from the next step on: permission mode plan`. `at_once`: a turn was under way that takes what
    /// it can of it.
    pub fn with_when(&self, at_once: bool) -> String {
        let (now, later) = if at_once { self.split() } else { (Self::default(), self.clone()) };
        let said = |when: &str, what: &Self| (!what.is_empty()).then(|| format!("from the next {when} on: {what}"));
        let all: Vec<String> = said("step", &now).into_iter().chain(said("turn", &later)).collect();
        all.join("; ")
    }
}

impl fmt::Display for Configure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(", "))
    }
}

/// Whether these names stand for every tool.
pub fn is_every(tools: &[String]) -> bool {
    tools.iter().any(|tool| tool == EVERY_TOOL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_change_wins_where_it_says_something() {
        let mut all = Configure { model: Some("a/x".into()), mode: Some(PermissionMode::Plan), ..Configure::default() };
        all.change(&Configure { model: Some("b/y".into()), ..Configure::default() });
        all.change(&Configure { tools: Some(vec!["read".into()]), ..Configure::default() });
        assert_eq!(all.words(), ["model b/y", "permission mode plan", "tools read"]);
        let of = |agent: &str, hash: Option<&str>| Configure {
            agent: Some(agent.into()),
            agent_hash: hash.map(str::to_owned),
            ..Configure::default()
        };
        assert_eq!(all.agent(), "build");
        all.change(&of("reviewer", Some("1f")));
        all.change(&Configure { effort: Some(Effort::Low), ..Configure::default() });
        assert_eq!((all.agent(), all.agent_hash.as_deref()), ("reviewer", Some("1f")));
        all.change(&of("build", None));
        assert_eq!((all.words()[0].as_str(), &all.agent_hash), ("agent build", &None), "its hash is not another's");
        let every = Configure { tools: Some(vec![EVERY_TOOL.into()]), ..Configure::default() };
        assert_eq!(every.to_string(), "all tools");
        assert!(Configure::default().is_empty() && !every.is_empty());
    }

    #[test]
    fn mode_and_effort_hold_at_once_and_an_effort_for_another_model_with_it() {
        let (mode, effort) = (Some(PermissionMode::Plan), Some(Effort::High));
        let both = Configure { mode, effort, tools: Some(vec![]), ..Configure::default() };
        assert_eq!(
            both.with_when(true),
            "from the next step on: permission mode plan, effort high; from the next turn on: no tools"
        );
        assert_eq!(both.with_when(false), "from the next turn on: permission mode plan, effort high, no tools");
        let model = Configure { model: Some("a/x".into()), effort, ..Configure::default() };
        assert_eq!(model.with_when(true), "from the next turn on: model a/x, effort high");
    }
}
