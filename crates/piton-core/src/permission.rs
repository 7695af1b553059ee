//! May this call run? A pure function of the rules and the call; tools do not ask.
//!
//! This slice knows rules per tool. Rules that look into a command or a path, and the sandbox behind them, belong
//! here too and nowhere else.

use crate::call::ToolClass;
use serde::{Deserialize, Serialize};

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Run it.
    Allow,
    /// Ask the person first; where nobody can be asked, refuse.
    Ask,
    /// Refuse it.
    Deny,
}

/// One rule: what to do with calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// A tool's name, or `*` for every tool.
    pub tool: String,
    /// What to do.
    pub action: Action,
}

/// Rules in order; the last that matches wins. Where none does, reading is allowed and the rest is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Rule>);

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission rule: expected a tool name such as `bash`, or `*` for every tool")]
pub struct NotARule(pub String);

impl Rules {
    /// Adds a rule that wins over those before it.
    pub fn push(&mut self, tool: impl Into<String>, action: Action) {
        self.0.push(Rule { tool: tool.into(), action });
    }

    /// What these rules say of a call.
    pub fn judge(&self, tool: &str, class: ToolClass) -> Action {
        let said = self.0.iter().rev().find(|rule| rule.tool == "*" || rule.tool == tool);
        said.map_or(default_action(class), |rule| rule.action)
    }
}

impl Rule {
    /// Reads `tool` or `*` as said on a command line.
    pub fn parse(text: &str, action: Action) -> Result<Self, NotARule> {
        let name = text.trim();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if name == "*" || is_name { Ok(Self { tool: name.to_owned(), action }) } else { Err(NotARule(text.to_owned())) }
    }
}

fn default_action(class: ToolClass) -> Action {
    match class {
        ToolClass::Read => Action::Allow,
        ToolClass::Write | ToolClass::Opaque => Action::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_reading_is_allowed_and_the_rest_is_asked() {
        let rules = Rules::default();
        assert_eq!(rules.judge("read", ToolClass::Read), Action::Allow);
        assert_eq!(rules.judge("edit", ToolClass::Write), Action::Ask);
        assert_eq!(rules.judge("bash", ToolClass::Opaque), Action::Ask);
    }

    #[test]
    fn the_last_rule_that_matches_wins() {
        let mut rules = Rules::default();
        rules.push("*", Action::Allow);
        rules.push("bash", Action::Deny);
        assert_eq!(rules.judge("edit", ToolClass::Write), Action::Allow);
        assert_eq!(rules.judge("bash", ToolClass::Opaque), Action::Deny);
        rules.push("*", Action::Ask);
        assert_eq!(rules.judge("read", ToolClass::Read), Action::Ask);
    }

    #[test]
    fn a_rule_is_a_tool_name_or_a_star() {
        assert!(Rule::parse(" bash ", Action::Allow).is_ok());
        assert!(Rule::parse("*", Action::Allow).is_ok());
        assert!(Rule::parse("bash(git *)", Action::Allow).is_err());
        assert!(Rule::parse("", Action::Allow).is_err());
    }
}
