//! May this call run? A pure function of the rules and of what the call will access; tools do not ask.
//!
//! Rules name a tool. Rules that look into a command, a path or a host belong here too and nowhere else: a judgement
//! sees them already ([`Ask::accesses`]).

use crate::call::Access;
use crate::ids::TimeMs;
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

/// What a person has allowed for the rest of a session, by answering a question with "always".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is allowed.
    pub rule: Rule,
    /// The rule that made it a question; `None` where no rule matched.
    pub asked_by: Option<Rule>,
    /// When it was given.
    pub at_ms: TimeMs,
}

/// A call that wants to run.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The tool's name, ours and not the model's spelling.
    pub tool: &'a str,
    /// What the call will access.
    pub accesses: &'a [Access],
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What to do.
    pub action: Action,
    /// The rule that says so; `None` where none matched.
    pub rule: Option<Rule>,
    /// The rules that "always" would add.
    pub remember: Rules,
}

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission rule: expected a tool name such as `bash`, or `*` for every tool")]
pub struct NotARule(pub String);

impl Rules {
    /// Adds a rule that wins over those before it.
    pub fn push(&mut self, tool: impl Into<String>, action: Action) {
        self.0.push(Rule { tool: tool.into(), action });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What these rules say of a call.
    pub fn judge(&self, ask: &Ask<'_>) -> Judgement {
        let rule = self.of(ask.tool).cloned();
        let action = rule.as_ref().map_or(default_action(ask.accesses), |rule| rule.action);
        let allowed = Rule { tool: ask.tool.to_owned(), action: Action::Allow };
        Judgement { action, rule, remember: Self(vec![allowed]) }
    }

    /// What these rules and what was granted say of a call. A grant answers the question that it was given to: it lifts no
    /// ban, and a rule that somebody has set since asks again.
    pub fn judge_with(&self, grants: &[Grant], ask: &Ask<'_>) -> Judgement {
        let judged = self.judge(ask);
        let answers = |grant: &&Grant| grant.rule.matches(ask.tool) && grant.asked_by == judged.rule;
        match grants.iter().find(answers) {
            Some(grant) if judged.action == Action::Ask => {
                Judgement { action: grant.rule.action, rule: Some(grant.rule.clone()), ..judged }
            }
            _ => judged,
        }
    }

    /// Whether these rules forbid a tool, whatever its calls would access.
    pub fn forbid(&self, tool: &str) -> bool {
        self.of(tool).is_some_and(|rule| rule.action == Action::Deny)
    }

    /// The rule that counts for this tool.
    fn of(&self, tool: &str) -> Option<&Rule> {
        self.0.iter().rev().find(|rule| rule.matches(tool))
    }
}

impl Rule {
    /// Whether it is about this tool.
    pub fn matches(&self, tool: &str) -> bool {
        self.tool == "*" || self.tool == tool
    }

    /// Reads `tool` or `*` as said on a command line.
    pub fn parse(text: &str, action: Action) -> Result<Self, NotARule> {
        let name = text.trim();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if name == "*" || is_name { Ok(Self { tool: name.to_owned(), action }) } else { Err(NotARule(text.to_owned())) }
    }
}

fn default_action(accesses: &[Access]) -> Action {
    let reads = |access: &Access| matches!(access, Access::Read(_));
    if accesses.iter().all(reads) { Action::Allow } else { Action::Ask }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(rules: &Rules, tool: &str, access: Access) -> Action {
        rules.judge(&Ask { tool, accesses: &[access] }).action
    }

    fn reading(rules: &Rules) -> Action {
        action(rules, "read", Access::Read("/w/a".into()))
    }

    fn editing(rules: &Rules) -> Action {
        action(rules, "edit", Access::Write("/w/a".into()))
    }

    fn running(rules: &Rules) -> Action {
        action(rules, "bash", Access::Run("make".into()))
    }

    #[test]
    fn without_rules_reading_is_allowed_and_the_rest_is_asked() {
        let rules = Rules::default();
        assert_eq!((reading(&rules), editing(&rules), running(&rules)), (Action::Allow, Action::Ask, Action::Ask));
        assert_eq!(action(&rules, "fetch", Access::Reach("example.com".into())), Action::Ask);
        assert_eq!(rules.judge(&Ask { tool: "todo", accesses: &[] }).action, Action::Allow);
    }

    #[test]
    fn the_last_rule_that_matches_wins() {
        let mut rules = Rules::default();
        rules.push("*", Action::Allow);
        rules.push("bash", Action::Deny);
        assert_eq!((editing(&rules), running(&rules)), (Action::Allow, Action::Deny));
        assert!(rules.forbid("bash") && !rules.forbid("edit"));
        rules.push("*", Action::Ask);
        assert_eq!(reading(&rules), Action::Ask);
        assert!(!rules.forbid("bash"));
    }

    #[test]
    fn a_grant_answers_the_question_it_was_given_to_and_no_other() {
        let ask = Ask { tool: "bash", accesses: &[Access::Run("make".into())] };
        let grant =
            |asked_by| [Grant { rule: Rule { tool: "bash".into(), action: Action::Allow }, asked_by, at_ms: 0 }];
        let rules = |action| {
            let mut rules = Rules::default();
            rules.push("bash", action);
            rules
        };
        let asks = rules(Action::Ask);
        let by_default = grant(None);
        assert_eq!(Rules::default().judge_with(&by_default, &ask).action, Action::Allow);
        assert_eq!(asks.judge_with(&by_default, &ask).action, Action::Ask, "somebody wants to be asked since");
        assert_eq!(rules(Action::Deny).judge_with(&by_default, &ask).action, Action::Deny);
        assert_eq!(
            asks.judge_with(&grant(asks.0.last().cloned()), &ask).action,
            Action::Allow,
            "the rule it was given under"
        );
        let other = Ask { tool: "edit", accesses: &[Access::Write("/a".into())] };
        assert_eq!(Rules::default().judge_with(&by_default, &other).action, Action::Ask);
    }

    #[test]
    fn always_would_allow_the_tool() {
        let mut rules = Rules::default();
        let ask = Ask { tool: "bash", accesses: &[Access::Run("make".into())] };
        let judged = rules.judge(&ask);
        assert_eq!((judged.action, judged.rule), (Action::Ask, None));
        rules.0.extend(judged.remember.0);
        assert_eq!(rules.judge(&ask).action, Action::Allow);
    }

    #[test]
    fn a_rule_is_a_tool_name_or_a_star() {
        assert!(Rule::parse(" bash ", Action::Allow).is_ok());
        assert!(Rule::parse("*", Action::Allow).is_ok());
        assert!(Rule::parse("bash(git *)", Action::Allow).is_err());
        assert!(Rule::parse("", Action::Allow).is_err());
    }
}
