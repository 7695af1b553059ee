//! What a client changes of how a session is run while it is open ([`crate::client::Request::Configure`]): the model, the
//! permission mode, the tools. A turn keeps what it began with; the change holds from the next one on.

use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name that stands for every tool.
pub const EVERY_TOOL: &str = "*";

/// What is changed. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    /// The models to ask, as `provider/name`; `a/x,b/y` asks b/y where a/x gives no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The names of the tools that the model is offered; `*` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// Who changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangedBy {
    /// A person, at whatever client.
    User,
}

impl Configure {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was changed later.
    pub fn change(&mut self, later: &Self) {
        let Self { model, mode, tools } = later;
        self.model = model.clone().or(self.model.take());
        self.mode = mode.or(self.mode);
        self.tools = tools.clone().or(self.tools.take());
    }

    /// It in words, a piece for each thing that is changed: `model a/x`.
    pub fn words(&self) -> Vec<String> {
        let model = self.model.as_ref().map(|model| format!("model {model}"));
        let mode = self.mode.map(|mode| format!("permission mode {mode}"));
        let tools = self.tools.as_ref().map(|tools| match tools.as_slice() {
            [] => "no tools".to_owned(),
            tools if is_every(tools) => "all tools".to_owned(),
            tools => format!("tools {}", tools.join(", ")),
        });
        model.into_iter().chain(mode).chain(tools).collect()
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
        let mut all = Configure { model: Some("a/x".into()), mode: Some(PermissionMode::Plan), tools: None };
        all.change(&Configure { model: Some("b/y".into()), ..Configure::default() });
        all.change(&Configure { tools: Some(vec!["read".into()]), ..Configure::default() });
        assert_eq!(all.words(), ["model b/y", "permission mode plan", "tools read"]);
        let every = Configure { tools: Some(vec![EVERY_TOOL.into()]), ..Configure::default() };
        assert_eq!(every.to_string(), "all tools");
        assert!(Configure::default().is_empty() && !every.is_empty());
    }
}
