//! May this call run? A pure function of the rules and of what the call will access; tools do not ask.
//!
//! Rules name a tool. Rules that look into a command, a path or a host belong here too and nowhere else: a judgement
//! sees them already ([`Ask::accesses`]).

use crate::call::Access;
use crate::ids::TimeMs;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

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

/// What a session does with calls that its rules would ask about: the one word for how freely it works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// A person is asked.
    #[default]
    Ask,
    /// Changes to files of the workspace run, and a person is asked about the rest.
    AcceptEdits,
    /// Everything runs that no rule forbids.
    Auto,
    /// Only what changes nothing runs. The rest is refused, whatever rules and answers allow.
    Plan,
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
    /// The folder that the session works in.
    pub workspace: &'a str,
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

/// Why a word is not a permission mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission mode: expected ask, accept-edits, auto or plan")]
pub struct NotAPermissionMode(pub String);

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
        let by_default = if ask.changes_nothing() { Action::Allow } else { Action::Ask };
        let action = rule.as_ref().map_or(by_default, |rule| rule.action);
        let allowed = Rule { tool: ask.tool.to_owned(), action: Action::Allow };
        Judgement { action, rule, remember: Self(vec![allowed]) }
    }

    /// What these rules, what was granted, and the mode say of a call. A grant answers the question that it was given to: it
    /// lifts no ban, and a rule that somebody has set since asks again. Nor does a mode lift a ban.
    pub fn judge_in(&self, mode: PermissionMode, grants: &[Grant], ask: &Ask<'_>) -> Judgement {
        let judged = self.judge(ask);
        let answers = |grant: &&Grant| grant.rule.matches(ask.tool) && grant.asked_by == judged.rule;
        let judged = match grants.iter().find(answers) {
            Some(grant) if judged.action == Action::Ask => {
                Judgement { action: grant.rule.action, rule: Some(grant.rule.clone()), ..judged }
            }
            _ => judged,
        };
        let settled = Judgement { action: mode.settle(judged.action, ask), ..judged };
        match settled.action {
            // What lets a kind of calls run does not let one out of the sandbox: a person does, each time.
            Action::Allow | Action::Ask if ask.leaves_sandbox() => {
                Judgement { action: Action::Ask, remember: Self::default(), ..settled }
            }
            Action::Allow | Action::Ask | Action::Deny => settled,
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

impl PermissionMode {
    /// All of them, from the one that asks most.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::AcceptEdits, Self::Auto];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Auto => "auto",
            Self::Plan => "plan",
        }
    }

    /// What it makes of what the rules say.
    fn settle(self, action: Action, ask: &Ask<'_>) -> Action {
        match (self, action) {
            (_, Action::Deny) => Action::Deny,
            (Self::Plan, _) if !ask.changes_nothing() => Action::Deny,
            (Self::Auto, Action::Ask) => Action::Allow,
            (Self::AcceptEdits, Action::Ask) if ask.stays_in_workspace() => Action::Allow,
            (Self::Ask | Self::AcceptEdits | Self::Auto | Self::Plan, action) => action,
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PermissionMode {
    type Err = NotAPermissionMode;

    fn from_str(word: &str) -> Result<Self, NotAPermissionMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == word).ok_or_else(|| NotAPermissionMode(word.to_owned()))
    }
}

impl Ask<'_> {
    /// Whether it runs outside the session's sandbox.
    pub fn leaves_sandbox(&self) -> bool {
        self.accesses.iter().any(|access| matches!(access, Access::Unsandboxed(_)))
    }

    fn changes_nothing(&self) -> bool {
        self.accesses.iter().all(|access| matches!(access, Access::Read(_)))
    }

    /// Whether it only reads and writes files, all of them below the workspace as their paths are spelled.
    fn stays_in_workspace(&self) -> bool {
        let workspace = Path::new(self.workspace);
        let is_below = |path: &str| {
            let path = Path::new(path);
            // What git runs, and what a repository tells Piton, is more than an edit.
            let is_plain = |part: Component<'_>| match part {
                Component::ParentDir => false,
                Component::Normal(name) => ![".git", ".piton"].iter().any(|own| name.eq_ignore_ascii_case(own)),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => true,
            };
            let below = path.strip_prefix(workspace);
            below.is_ok_and(|below| below.components().all(is_plain))
        };
        let is_file = |access: &Access| matches!(access, Access::Read(path) | Access::Write(path) if is_below(path));
        workspace.is_absolute() && !self.accesses.is_empty() && self.accesses.iter().all(is_file)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn action(rules: &Rules, tool: &str, access: Access) -> Action {
        rules.judge(&Ask { tool, accesses: &[access], workspace: "/w" }).action
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
        assert_eq!(rules.judge(&Ask { tool: "todo", accesses: &[], workspace: "/w" }).action, Action::Allow);
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
        let ask = Ask { tool: "bash", accesses: &[Access::Run("make".into())], workspace: "/w" };
        let grant =
            |asked_by| [Grant { rule: Rule { tool: "bash".into(), action: Action::Allow }, asked_by, at_ms: 0 }];
        let rules = |action| {
            let mut rules = Rules::default();
            rules.push("bash", action);
            rules
        };
        let asks = rules(Action::Ask);
        let by_default = grant(None);
        assert_eq!(Rules::default().judge_in(PermissionMode::Ask, &by_default, &ask).action, Action::Allow);
        assert_eq!(
            asks.judge_in(PermissionMode::Ask, &by_default, &ask).action,
            Action::Ask,
            "somebody wants to be asked since"
        );
        assert_eq!(rules(Action::Deny).judge_in(PermissionMode::Ask, &by_default, &ask).action, Action::Deny);
        assert_eq!(
            asks.judge_in(PermissionMode::Ask, &grant(asks.0.last().cloned()), &ask).action,
            Action::Allow,
            "the rule it was given under"
        );
        let other = Ask { tool: "edit", accesses: &[Access::Write("/a".into())], workspace: "/w" };
        assert_eq!(Rules::default().judge_in(PermissionMode::Ask, &by_default, &other).action, Action::Ask);
    }

    #[test]
    fn a_mode_answers_what_the_rules_would_ask_and_lifts_no_ban() {
        let mut rules = Rules::default();
        rules.push("fetch", Action::Deny);
        rules.push("edit", Action::Ask);
        let judged = |mode, tool, access: Access| {
            rules.judge_in(mode, &[], &Ask { tool, accesses: &[access], workspace: "/w" }).action
        };
        let row = |mode| {
            [
                judged(mode, "read", Access::Read("/w/a".into())),
                judged(mode, "edit", Access::Write("/w/a".into())),
                judged(mode, "edit", Access::Write("/w/../etc/passwd".into())),
                judged(mode, "edit", Access::Write("/wide/a".into())),
                judged(mode, "bash", Access::Run("make".into())),
                judged(mode, "other", Access::Use("other".into())),
                judged(mode, "fetch", Access::Reach("example.com".into())),
            ]
        };
        use Action::{Allow, Ask as A, Deny};
        assert_eq!(row(PermissionMode::Ask), [Allow, A, A, A, A, A, Deny]);
        assert_eq!(row(PermissionMode::AcceptEdits), [Allow, Allow, A, A, A, A, Deny]);
        assert_eq!(row(PermissionMode::Auto), [Allow, Allow, Allow, Allow, Allow, Allow, Deny]);
        assert_eq!(row(PermissionMode::Plan), [Allow, Deny, Deny, Deny, Deny, Deny, Deny]);
    }

    #[test]
    fn what_git_runs_is_more_than_an_edit() {
        for path in ["/w/.git/hooks/pre-commit", "/w/sub/.GIT/config", "/w/.piton/config.toml"] {
            let ask = Ask { tool: "write", accesses: &[Access::Write(path.into())], workspace: "/w" };
            assert_eq!(Rules::default().judge_in(PermissionMode::AcceptEdits, &[], &ask).action, Action::Ask, "{path}");
        }
    }

    #[test]
    fn plan_refuses_what_rules_and_answers_allow() {
        let mut rules = Rules::default();
        rules.push("bash", Action::Allow);
        let ask = Ask { tool: "bash", accesses: &[Access::Run("make".into())], workspace: "/w" };
        assert_eq!(rules.judge_in(PermissionMode::Plan, &[], &ask).action, Action::Deny);
    }

    #[test]
    fn only_a_person_lets_a_call_out_of_the_sandbox_and_only_this_one() {
        let accesses = [Access::Run("make".into()), Access::Unsandboxed("it needs the network".into())];
        let ask = Ask { tool: "bash", accesses: &accesses, workspace: "/w" };
        let rules = Rules(vec![Rule { tool: "bash".into(), action: Action::Allow }]);
        let grants = [Grant { rule: rules.0[0].clone(), asked_by: None, at_ms: 0 }];
        for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
            for (rules, grants) in [(&rules, &[][..]), (&Rules::default(), &grants)] {
                let judged = rules.judge_in(mode, grants, &ask);
                assert_eq!((judged.action, judged.remember.is_empty()), (Action::Ask, true), "{mode}");
            }
        }
        let forbids = Rules(vec![Rule { tool: "bash".into(), action: Action::Deny }]);
        assert_eq!(forbids.judge_in(PermissionMode::Auto, &[], &ask).action, Action::Deny);
        assert_eq!(Rules::default().judge_in(PermissionMode::Plan, &[], &ask).action, Action::Deny);
    }

    #[test]
    fn a_mode_is_one_of_four_words() {
        for mode in PermissionMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
        assert!("yolo".parse::<PermissionMode>().unwrap_err().to_string().contains("accept-edits"));
    }

    #[test]
    fn always_would_allow_the_tool() {
        let mut rules = Rules::default();
        let ask = Ask { tool: "bash", accesses: &[Access::Run("make".into())], workspace: "/w" };
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
