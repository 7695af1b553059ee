//! May this call run? A pure function of the rules, the mode, what the session reaches, and what the call will access; tools do
//! not ask.
//!
//! A call's verdict is the strictest of its parts: each simple command of a script, each path that it reads or writes, each host.
//! Of each part the user's voice says what holds, by the most particular rule that matches; other voices can only be stricter,
//! but where the user says nothing. What no rule speaks of, the mode settles ([`PermissionMode`]).

mod pattern;
mod rule;
mod scope;

pub use rule::{NotARule, Rule, Voice};

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

impl Action {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Its word, as in files and in the journal.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// How freely a session works: what becomes of what its rules do not speak of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// A person is asked.
    #[default]
    Ask,
    /// Changes to files of the workspace run, and commands in a sandbox; a person is asked about the rest.
    AcceptEdits,
    /// Everything runs that no rule forbids and that does not leave the sandbox.
    Auto,
    /// Only what changes nothing runs. The rest is refused, whatever rules and answers allow.
    Plan,
}

/// Rules in order. Of those of one voice that match a part of a call the most particular counts, among equals the later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Rule>);

/// What a session's calls reach without anybody being asked. Recorded with each turn. Absolute paths without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The user's home.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// What may be read besides the workspace; nothing here: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Keys, histories, and Piton's own files: for no call, whatever rules and answers say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
}

impl Reach {
    /// Whether nothing is said of it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

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
    /// Whether commands run in a sandbox.
    pub is_confined: bool,
    /// What the session reaches.
    pub reach: &'a Reach,
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What to do.
    pub action: Action,
    /// The rule that says so; `None` where none matched.
    pub rule: Option<Rule>,
    /// The rules that "always" would add; none where it is asked each time, or where no rule can be written that covers it.
    pub remember: Rules,
    /// Whether it is for a person alone to allow, and only this once.
    pub is_asked_each_time: bool,
    /// What was said of each part, the whole first where it has none.
    pub parts: Vec<PartJudged>,
}

/// What the rules said of a call, as it is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The mode that held.
    pub mode: PermissionMode,
    /// Whether commands ran in a sandbox.
    #[serde(default, skip_serializing_if = "is_false")]
    pub confined: bool,
    /// What was said of each part.
    pub parts: Vec<PartSaid>,
}

/// What was said of one part, in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSaid {
    /// The part.
    pub part: String,
    /// What to do with it.
    pub action: Action,
    /// The rule that says so, with its voice and layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Why, where no rule says so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Judged {
    /// A judgement in this mode.
    pub fn of(judgement: &Judgement, mode: PermissionMode, confined: bool) -> Self {
        let said = |part: &PartJudged| PartSaid {
            part: part.named(),
            action: part.action,
            rule: part.rule.clone(),
            why: if part.rule.is_some() { String::new() } else { part.why.clone() },
        };
        Self { mode, confined, parts: judgement.parts.iter().map(said).collect() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What was said of one part of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartJudged {
    /// The part; `None`: the call as a whole.
    pub access: Option<Access>,
    /// What to do with it.
    pub action: Action,
    /// The rule that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Why, where no rule says so, for people.
    pub why: String,
}

/// Why a word is not a permission mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission mode: expected ask, accept-edits, auto or plan")]
pub struct NotAPermissionMode(pub String);

/// What a part of a call is to the modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Changes nothing that matters, and reads what the session reaches.
    Free,
    /// Reads something else.
    ReadElsewhere,
    /// Writes in the workspace.
    Edit,
    /// A command that is known to change nothing, by its arguments.
    Harmless,
    /// Any other command.
    Command,
    /// What a confined command reads or writes, where that is known only when it runs.
    SomePath,
    /// A command of which nobody can know what it does.
    Unknowable,
    /// Something else that may change something: files elsewhere, a host, a tool that does not say.
    Other,
    /// By what is there, something runs later or is believed: git's folder, Piton's own.
    Protected,
    /// Outside of the sandbox.
    Unconfined,
    /// Keys and Piton's own files.
    Never,
}

/// What becomes of a part, the more lenient first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    Run,
    Ask,
    AskEachTime,
    Refuse,
}

impl From<Want> for Action {
    fn from(want: Want) -> Self {
        match want {
            Want::Run => Self::Allow,
            Want::Ask | Want::AskEachTime => Self::Ask,
            Want::Refuse => Self::Deny,
        }
    }
}

impl Class {
    fn of(ask: &Ask<'_>, access: &Access) -> Self {
        // How deep the deepest of these folders is that holds a path; 0: none does.
        let depth = |path: &str, roots: &[String]| {
            let depth = |root: &String| Path::new(path).starts_with(root).then(|| Path::new(root).components().count());
            roots.iter().filter_map(depth).max().unwrap_or_default()
        };
        let Reach { read, never, .. } = ask.reach;
        match access {
            // The kernel holds a confined command to the sandbox, in which another file may have that name, and Piton's own
            // tools hold themselves to it.
            Access::Read(_) if ask.is_confined && !ask.leaves_sandbox() => Self::Free,
            // The command that writes by its arguments is judged itself; a redirection is a write of its own.
            Access::Write(path) if ask.is_redirection(path) => {
                if ask.is_of_confined_command() {
                    Self::Edit
                } else if depth(path, never) > 0 {
                    Self::Never
                } else if ask.is_protected(path) {
                    Self::Protected
                } else {
                    Self::Edit
                }
            }
            Access::Write(_) | Access::Reach(_) if ask.is_of_confined_command() => Self::Free,
            Access::Write(path) if ask.is_confined && !ask.leaves_sandbox() => {
                if ask.is_below_workspace(path) {
                    Self::Edit
                } else {
                    Self::Other
                }
            }
            Access::Read(path) if depth(path, never) > depth(path, read) => Self::Never,
            Access::Write(path) if depth(path, never) > 0 => Self::Never,
            Access::Read(path) => {
                let is_known = read.is_empty() || depth(path, read) > 0 || ask.is_below_workspace(path);
                if is_known { Self::Free } else { Self::ReadElsewhere }
            }
            Access::Write(path) if !ask.is_below_workspace(path) => Self::Other,
            Access::Write(path) if ask.is_protected(path) => Self::Protected,
            Access::Write(_) if ask.has_commands() => Self::Free,
            Access::Write(_) => Self::Edit,
            Access::Command(part) if part.is_harmless => Self::Harmless,
            Access::Command(_) | Access::Run(_) => Self::Command,
            Access::SomePath(_) if ask.is_of_confined_command() => Self::SomePath,
            Access::SomePath(_) | Access::Unknowable(_) => Self::Unknowable,
            Access::Unsandboxed(_) => Self::Unconfined,
            Access::Reach(_) | Access::Spawn | Access::Use(_) => Self::Other,
        }
    }

    /// What becomes of it where no rule speaks of it.
    fn by_mode(self, mode: PermissionMode, is_confined: bool) -> Want {
        use PermissionMode::{AcceptEdits, Ask, Auto, Plan};
        match (self, mode) {
            (Self::Never, _) => Want::Refuse,
            (Self::Free | Self::SomePath, _) => Want::Run,
            (Self::Harmless, _) if is_confined => Want::Run,
            (_, Plan) => Want::Refuse,
            (Self::Protected | Self::Unconfined, Ask | AcceptEdits | Auto) => Want::AskEachTime,
            (Self::ReadElsewhere, Ask | AcceptEdits | Auto) => Want::Ask,
            (_, Auto) | (Self::Edit, AcceptEdits) => Want::Run,
            (Self::Command | Self::Unknowable, AcceptEdits) if is_confined => Want::Run,
            (Self::Unknowable, Ask | AcceptEdits) => Want::AskEachTime,
            (Self::Edit | Self::Harmless | Self::Command | Self::Other, Ask | AcceptEdits) => Want::Ask,
        }
    }

    fn why(self, mode: PermissionMode, is_confined: bool) -> String {
        let place = if is_confined { "in the sandbox" } else { "with all your rights" };
        match self {
            Self::Free if is_confined => "as far as the sandbox lets it".to_owned(),
            Self::Free => "within what the session reaches".to_owned(),
            Self::ReadElsewhere => "it reads outside of the workspace".to_owned(),
            Self::Edit => format!("it changes a file of the workspace; mode {mode}"),
            Self::Harmless => format!("it changes nothing; {place}"),
            Self::Command => format!("a command, {place}; mode {mode}"),
            Self::SomePath => "which file is known only when it runs; the sandbox holds it".to_owned(),
            Self::Unknowable => format!("what it does cannot be known from its text; {place}; mode {mode}"),
            Self::Other => format!("no rule speaks of it; mode {mode}"),
            Self::Protected => "what is there is run or believed by other programs".to_owned(),
            Self::Unconfined => "it leaves the sandbox".to_owned(),
            Self::Never => "keys, histories and Piton's own files are for no call".to_owned(),
        }
    }
}

impl PartJudged {
    /// The part in a few words.
    pub fn named(&self) -> String {
        match &self.access {
            None => "it".to_owned(),
            Some(Access::Read(path)) => format!("reading {path}"),
            Some(Access::Write(path)) => format!("writing {path}"),
            Some(Access::Run(script)) => format!("`{script}`"),
            Some(Access::Command(part)) => format!("`{}`", part.words.join(" ")),
            Some(Access::SomePath(path)) => format!("the file `{path}`"),
            Some(Access::Unknowable(what)) => what.clone(),
            Some(Access::Reach(host)) => format!("reaching {host}"),
            Some(Access::Spawn) => "starting a subagent".to_owned(),
            Some(Access::Use(tool)) => tool.clone(),
            Some(Access::Unsandboxed(_)) => "leaving the sandbox".to_owned(),
        }
    }
}

impl Rules {
    /// Adds a rule of the user's for all calls of a tool.
    pub fn push(&mut self, tool: impl Into<String>, action: Action) {
        self.0.push(Rule::of(tool, action));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What these rules say of a call in the mode [`PermissionMode::Ask`], without anything granted.
    pub fn judge(&self, ask: &Ask<'_>) -> Judgement {
        self.judge_in(PermissionMode::Ask, &[], ask)
    }

    /// What these rules, what was granted, and the mode say of a call. A grant answers the question that it was given to: it
    /// lifts no ban, and a rule that somebody has set since asks again. Nor does a mode lift a ban.
    pub fn judge_in(&self, mode: PermissionMode, grants: &[Grant], ask: &Ask<'_>) -> Judgement {
        let mut wanted = Vec::new();
        let mut parts = Vec::new();
        for access in ask.judged() {
            let (want, rule) = self.judge_part(mode, grants, ask, access);
            let class = access.map_or(Class::Free, |access| Class::of(ask, access));
            let why = class.why(mode, ask.is_confined);
            parts.push(PartJudged { access: access.cloned(), action: want.into(), rule: rule.clone(), why });
            wanted.push((want, rule, access));
        }
        let strictest = wanted.iter().map(|(want, ..)| *want).max().unwrap_or(Want::Run);
        let rule = wanted.iter().find(|(want, ..)| *want == strictest).and_then(|(_, rule, _)| rule.clone());
        let mut remember = Rules::default();
        if strictest == Want::Ask {
            for (_, _, access) in wanted.iter().filter(|(want, ..)| *want == Want::Ask) {
                let narrowest = access
                    .map_or_else(|| Some(Rule::of(ask.tool, Action::Allow)), |access| scope::narrowest(ask, access));
                match narrowest {
                    Some(rule) if remember.0.contains(&rule) => {}
                    Some(rule) => remember.0.push(rule),
                    // "Always" to a part of it would not answer the next question.
                    None => {
                        remember = Rules::default();
                        break;
                    }
                }
            }
        }
        let is_asked_each_time = strictest == Want::AskEachTime;
        Judgement { action: strictest.into(), rule, remember, is_asked_each_time, parts }
    }

    fn judge_part(
        &self,
        mode: PermissionMode,
        grants: &[Grant],
        ask: &Ask<'_>,
        access: Option<&Access>,
    ) -> (Want, Option<Rule>) {
        let class = access.map_or(Class::Free, |access| Class::of(ask, access));
        let by_mode = class.by_mode(mode, ask.is_confined);
        let users = self.most_particular(Voice::User, ask, access);
        let others = self.most_particular(Voice::Repository, ask, access);
        // What others allow counts where the user says nothing; what they want to be stricter, always.
        let rule = match (users, others) {
            (Some(user), Some(other)) if strictness(other.action) > strictness(user.action) => Some(other),
            (Some(user), _) => Some(user),
            (None, other) => other,
        };
        let action = rule.map(|rule| rule.action);
        let want = match (class, action) {
            (Class::Never, _) | (_, Some(Action::Deny)) => Want::Refuse,
            (Class::Protected | Class::Unconfined, _) => by_mode,
            (Class::Unknowable | Class::SomePath, _) => {
                return (self.of_unknowable(by_mode, mode, action), rule.cloned());
            }
            (_, Some(Action::Ask)) if mode == PermissionMode::Plan => by_mode.max(Want::Ask),
            (_, _) if mode == PermissionMode::Plan => by_mode,
            (_, Some(Action::Allow)) => Want::Run,
            (_, Some(Action::Ask)) if mode == PermissionMode::Auto => by_mode,
            (_, Some(Action::Ask)) => Want::Ask,
            (_, None) => by_mode,
        };
        let is_answered = want == Want::Ask
            && grants.iter().any(|grant| {
                grant.asked_by.as_ref() == rule
                    && access.map_or(grant.rule.covers(ask.tool), |access| grant.rule.matches(ask, access))
            });
        // What no rule decided was not decided by one that merely matches.
        let deciding = rule.filter(|_| want != by_mode || action.is_some_and(|action| action == want.into()));
        if is_answered { (Want::Run, deciding.cloned()) } else { (want, deciding.cloned()) }
    }

    /// The rule that asked the question to which a person has answered with this rule.
    pub fn asked_by(&self, mode: PermissionMode, ask: &Ask<'_>, granted: &Rule) -> Option<Rule> {
        let asked = self.judge_in(mode, &[], ask).parts.into_iter().filter(|part| part.action == Action::Ask);
        let covers = |part: &PartJudged| match &part.access {
            Some(access) => granted.matches(ask, access),
            None => granted.covers(ask.tool),
        };
        asked.into_iter().find(covers).and_then(|part| part.rule)
    }

    /// It may be just what a rule forbids.
    fn of_unknowable(&self, by_mode: Want, mode: PermissionMode, action: Option<Action>) -> Want {
        let forbids_some = self.0.iter().any(|rule| rule.action == Action::Deny && rule.pattern.is_some());
        match (mode, action) {
            (PermissionMode::Auto, _) if forbids_some => Want::Refuse,
            (PermissionMode::Ask | PermissionMode::AcceptEdits, Some(Action::Ask)) => Want::AskEachTime,
            _ if forbids_some => by_mode.max(Want::AskEachTime),
            _ => by_mode,
        }
    }

    /// Whether these rules forbid a tool, whatever its calls would access.
    pub fn forbid(&self, tool: &str) -> bool {
        let rule = |voice| {
            let covering = self.0.iter().filter(|rule| rule.voice == voice && rule.covers(tool));
            covering.max_by_key(|rule| rule.particularity())
        };
        // A pattern that allows something of it is more particular.
        let is_opened =
            self.0.iter().any(|rule| rule.names(tool) && rule.pattern.is_some() && rule.action != Action::Deny);
        let denies = |rule: &Rule| rule.action == Action::Deny;
        !is_opened && Voice::ALL.into_iter().filter_map(rule).any(denies)
    }

    /// The rule of a voice that counts for a part of a call.
    fn most_particular(&self, voice: Voice, ask: &Ask<'_>, access: Option<&Access>) -> Option<&Rule> {
        let matches = |rule: &&Rule| {
            rule.voice == voice && access.map_or_else(|| rule.covers(ask.tool), |access| rule.matches(ask, access))
        };
        // Among equals the last.
        let chosen = self.0.iter().filter(matches).max_by_key(|rule| rule.particularity())?;
        // What forbids by a pattern is only lifted by a finer word on the same.
        let forbids = |rule: &&Rule| rule.action == Action::Deny && rule.pattern.is_some();
        let forbidding = self.0.iter().filter(matches).filter(forbids).find(|rule| !chosen.refines(rule, ask));
        Some(forbidding.unwrap_or(chosen))
    }
}

fn strictness(action: Action) -> Want {
    match action {
        Action::Allow => Want::Run,
        Action::Ask => Want::Ask,
        Action::Deny => Want::Refuse,
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

impl<'a> Ask<'a> {
    /// The parts that are judged. A script is judged by what it is made of, where that is known.
    fn judged(&self) -> Vec<Option<&'a Access>> {
        let has_parts = self.accesses.iter().any(|access| matches!(access, Access::Command(_) | Access::Unknowable(_)));
        let is_judged = |access: &&Access| !(has_parts && matches!(access, Access::Run(_)));
        let parts: Vec<_> = self.accesses.iter().filter(is_judged).map(Some).collect();
        if parts.is_empty() { vec![None] } else { parts }
    }

    fn has_commands(&self) -> bool {
        self.accesses.iter().any(|access| matches!(access, Access::Run(_) | Access::Command(_) | Access::Unknowable(_)))
    }

    /// Whether what it accesses is held to the sandbox by the kernel.
    fn is_of_confined_command(&self) -> bool {
        self.is_confined && self.has_commands() && !self.leaves_sandbox()
    }

    fn leaves_sandbox(&self) -> bool {
        self.accesses.iter().any(|access| matches!(access, Access::Unsandboxed(_)))
    }

    /// Whether a command writes this file of the workspace, but by no argument of its own.
    fn is_redirection(&self, path: &str) -> bool {
        let by_argument = |access: &Access| match access {
            Access::Command(part) => part.writes.iter().any(|written| written == path),
            _ => false,
        };
        self.has_commands() && self.is_below_workspace(path) && !self.accesses.iter().any(by_argument)
    }

    /// Whether a path lies in the workspace.
    fn is_below_workspace(&self, path: &str) -> bool {
        let below = Path::new(path).strip_prefix(self.workspace);
        let is_plain = |below: &Path| !below.components().any(|part| part == Component::ParentDir);
        Path::new(self.workspace).is_absolute() && below.is_ok_and(is_plain)
    }

    /// Whether what git runs, or what a repository tells Piton, lies there.
    fn is_protected(&self, path: &str) -> bool {
        let is_own = |part: Component<'_>| match part {
            Component::Normal(name) => [".git", ".piton"].iter().any(|own| name.eq_ignore_ascii_case(own)),
            _ => false,
        };
        Path::new(path).strip_prefix(self.workspace).is_ok_and(|below| below.components().any(is_own))
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CommandPart;

    /// A call in `/w`, without a sandbox, where nothing is said of what is reached.
    fn ask<'a>(tool: &'a str, accesses: &'a [Access]) -> Ask<'a> {
        static NOTHING_SAID: Reach = Reach { home: String::new(), read: Vec::new(), never: Vec::new() };
        Ask { tool, accesses, workspace: "/w", is_confined: false, reach: &NOTHING_SAID }
    }

    fn action(rules: &Rules, tool: &str, access: Access) -> Action {
        rules.judge(&ask(tool, &[access])).action
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
        assert_eq!(rules.judge(&ask("todo", &[])).action, Action::Allow);
    }

    #[test]
    fn the_most_particular_rule_wins_and_among_equals_the_last() {
        let mut rules = Rules::default();
        rules.push("*", Action::Allow);
        rules.push("bash", Action::Deny);
        assert_eq!((editing(&rules), running(&rules)), (Action::Allow, Action::Deny));
        assert!(rules.forbid("bash") && !rules.forbid("edit"));
        rules.push("*", Action::Ask);
        assert_eq!((reading(&rules), running(&rules)), (Action::Ask, Action::Deny));
        rules.push("bash", Action::Ask);
        assert!(!rules.forbid("bash"));
    }

    #[test]
    fn a_grant_answers_the_question_it_was_given_to_and_no_other() {
        let makes = [Access::Run("make".into())];
        let ask = ask("bash", &makes);
        let grant = |asked_by| [Grant { rule: Rule::of("bash", Action::Allow), asked_by, at_ms: 0 }];
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
        let writes = [Access::Write("/a".into())];
        let other = Ask { tool: "edit", accesses: &writes, ..ask };
        assert_eq!(Rules::default().judge_in(PermissionMode::Ask, &by_default, &other).action, Action::Ask);
    }

    #[test]
    fn a_mode_answers_what_the_rules_would_ask_and_lifts_no_ban() {
        let mut rules = Rules::default();
        rules.push("fetch", Action::Deny);
        rules.push("edit", Action::Ask);
        let asked = rules.judge_in(PermissionMode::AcceptEdits, &[], &ask("edit", &[Access::Write("/w/a".into())]));
        assert_eq!(asked.action, Action::Ask, "who wants to be asked is asked");
        rules.0.pop();
        let judged = |mode, tool, access: Access| rules.judge_in(mode, &[], &ask(tool, &[access])).action;
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
            let writes = [Access::Write(path.into())];
            let ask = ask("write", &writes);
            assert_eq!(Rules::default().judge_in(PermissionMode::AcceptEdits, &[], &ask).action, Action::Ask, "{path}");
        }
    }

    #[test]
    fn plan_refuses_what_rules_and_answers_allow() {
        let mut rules = Rules::default();
        rules.push("bash", Action::Allow);
        let makes = [Access::Run("make".into())];
        let ask = ask("bash", &makes);
        assert_eq!(rules.judge_in(PermissionMode::Plan, &[], &ask).action, Action::Deny);
    }

    #[test]
    fn only_a_person_lets_a_call_out_of_the_sandbox_and_only_this_one() {
        let accesses = [Access::Run("make".into()), Access::Unsandboxed("it needs the network".into())];
        let ask = Ask { is_confined: true, ..ask("bash", &accesses) };
        let rules = Rules(vec![Rule::of("bash", Action::Allow)]);
        let grants = [Grant { rule: rules.0[0].clone(), asked_by: None, at_ms: 0 }];
        for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
            for (rules, grants) in [(&rules, &[][..]), (&Rules::default(), &grants)] {
                let judged = rules.judge_in(mode, grants, &ask);
                assert_eq!((judged.action, judged.remember.is_empty()), (Action::Ask, true), "{mode}");
            }
        }
        let forbids = Rules(vec![Rule::of("bash", Action::Deny)]);
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
        let makes = [Access::Run("make".into())];
        let ask = ask("bash", &makes);
        let judged = rules.judge(&ask);
        assert_eq!((judged.action, judged.rule), (Action::Ask, None));
        rules.0.extend(judged.remember.0);
        assert_eq!(rules.judge(&ask).action, Action::Allow);
    }

    fn command(words: &str) -> Access {
        let words = words.split(' ').map(ToOwned::to_owned).collect();
        Access::Command(Box::new(CommandPart { words, ..CommandPart::default() }))
    }

    fn rules(of: &[(&str, Action)]) -> Rules {
        Rules(of.iter().map(|(text, action)| Rule::parse(text, *action).unwrap()).collect())
    }

    #[test]
    fn a_script_is_as_allowed_as_the_strictest_of_its_commands() {
        let rules =
            rules(&[("bash(git *)", Action::Allow), ("bash(git push *)", Action::Ask), ("bash(rm *)", Action::Deny)]);
        let judged = |parts: &[Access]| rules.judge(&ask("bash", parts)).action;
        assert_eq!(judged(&[Access::Run("git status".into()), command("git status")]), Action::Allow);
        assert_eq!(judged(&[command("git status"), command("make")]), Action::Ask);
        assert_eq!(judged(&[command("git status"), command("git push origin")]), Action::Ask);
        assert_eq!(judged(&[command("git status"), command("rm -rf x"), command("make")]), Action::Deny);
        let code = Access::Command(Box::new(CommandPart {
            words: vec!["python3".into(), "-c".into(), "x".into()],
            code: Some("os.system('rm -rf x')".into()),
            ..CommandPart::default()
        }));
        assert_eq!(judged(&[code]), Action::Deny, "code that mentions what is forbidden");
    }

    #[test]
    fn in_a_sandbox_commands_run_where_edits_are_accepted_and_the_harmless_always() {
        let judged = |mode, is_confined, access: Access| {
            Rules::default().judge_in(mode, &[], &Ask { is_confined, ..ask("bash", &[access]) }).action
        };
        let harmless = || {
            Access::Command(Box::new(CommandPart {
                words: vec!["ls".into()],
                is_harmless: true,
                ..CommandPart::default()
            }))
        };
        let row = |access: &dyn Fn() -> Access, is_confined| {
            PermissionMode::ALL.map(|mode| judged(mode, is_confined, access()))
        };
        use Action::{Allow, Ask as A, Deny};
        // Plan, ask, accept-edits, auto.
        assert_eq!(row(&harmless, true), [Allow, Allow, Allow, Allow]);
        assert_eq!(row(&harmless, false), [Deny, A, A, Allow]);
        assert_eq!(row(&|| command("make"), true), [Deny, A, Allow, Allow]);
        assert_eq!(row(&|| command("make"), false), [Deny, A, A, Allow]);
        assert_eq!(row(&|| Access::Unknowable("$x".into()), true), [Deny, A, Allow, Allow]);
        assert_eq!(row(&|| Access::Unknowable("$x".into()), false), [Deny, A, A, Allow]);
    }

    #[test]
    fn what_cannot_be_known_is_never_allowed_by_a_rule_nor_past_one_that_forbids() {
        let unknowable = [Access::Unknowable("$x".into())];
        let of = |rules: &Rules, mode, is_confined| {
            let judged = rules.judge_in(mode, &[], &Ask { is_confined, ..ask("bash", &unknowable) });
            (judged.action, judged.remember.is_empty())
        };
        let allows = rules(&[("bash", Action::Allow)]);
        assert_eq!(of(&allows, PermissionMode::Ask, false), (Action::Ask, true));
        let forbids = rules(&[("bash(rm *)", Action::Deny), ("bash", Action::Allow)]);
        assert_eq!(of(&forbids, PermissionMode::AcceptEdits, true), (Action::Ask, true));
        assert_eq!(of(&forbids, PermissionMode::Auto, true).0, Action::Deny);
    }

    #[test]
    fn another_voice_can_only_be_stricter_but_where_the_user_says_nothing() {
        let both = |user: &[(&str, Action)], repository: &[(&str, Action)]| {
            let theirs = rules(repository).0.into_iter().map(|rule| Rule { voice: Voice::Repository, ..rule });
            let all = Rules(rules(user).0.into_iter().chain(theirs).collect());
            all.judge(&ask("bash", &[command("git push")])).action
        };
        assert_eq!(both(&[("bash", Action::Deny)], &[("bash(git push)", Action::Allow)]), Action::Deny);
        assert_eq!(both(&[("bash", Action::Ask)], &[("bash(git push)", Action::Allow)]), Action::Ask);
        assert_eq!(both(&[], &[("bash(git push)", Action::Allow)]), Action::Allow);
        assert_eq!(both(&[("bash(git push)", Action::Allow)], &[("bash", Action::Deny)]), Action::Deny);
        assert_eq!(both(&[("bash(git push)", Action::Allow)], &[("*", Action::Ask)]), Action::Ask);
    }

    #[test]
    fn always_covers_the_parts_that_asked_and_no_more() {
        let rules = rules(&[("bash(cargo test *)", Action::Allow)]);
        let judged =
            rules.judge(&ask("bash", &[command("cargo test -q"), command("git log -1"), command("git log -2")]));
        let always: Vec<String> = judged.remember.0.iter().map(ToString::to_string).collect();
        assert_eq!(always, ["bash(git log *)"]);
        let grant = Grant { rule: judged.remember.0[0].clone(), asked_by: None, at_ms: 0 };
        let later = |words: &str| {
            rules.judge_in(PermissionMode::Ask, std::slice::from_ref(&grant), &ask("bash", &[command(words)])).action
        };
        assert_eq!((later("git log"), later("git push")), (Action::Allow, Action::Ask));
        let edits = |path: &str| rules.judge(&ask("edit", &[Access::Write(path.into())])).remember.0[0].to_string();
        assert_eq!((edits("/w/src/a"), edits("/x/y/a")), ("edit(./**)".to_owned(), "edit(/x/y/**)".to_owned()));
    }

    #[test]
    fn keys_and_pitons_own_files_are_for_no_call() {
        let reach = Reach {
            home: "/home/me".into(),
            read: vec!["/usr".into(), "/home/me/piton/sessions".into()],
            never: vec!["/home/me/.ssh".into(), "/home/me/piton".into()],
        };
        let all = rules(&[("*", Action::Allow)]);
        let of = |rules: &Rules, access: Access| {
            let asked = Ask { reach: &reach, ..ask("any", std::slice::from_ref(&access)) };
            rules.judge_in(PermissionMode::Auto, &[], &asked).action
        };
        assert_eq!(of(&all, Access::Read("/home/me/.ssh/id".into())), Action::Deny);
        assert_eq!(of(&all, Access::Write("/home/me/piton/sessions/s/journal".into())), Action::Deny);
        assert_eq!(of(&all, Access::Read("/home/me/piton/sessions/s/calls/c.out".into())), Action::Allow);
        let none = Rules::default();
        assert_eq!(of(&none, Access::Read("/usr/bin/env".into())), Action::Allow);
        assert_eq!(of(&none, Access::Read("/home/me/other/a".into())), Action::Ask);
    }

    #[test]
    fn what_forbids_by_a_pattern_is_lifted_only_by_a_finer_word_on_the_same() {
        let judged = |of: &[(&str, Action)], access: Access| {
            rules(of).judge_in(PermissionMode::Auto, &[], &ask("bash", &[access])).action
        };
        let sudo = || {
            Access::Command(Box::new(CommandPart {
                words: vec!["rm".into(), "x".into()],
                through: vec!["sudo".into()],
                ..CommandPart::default()
            }))
        };
        let no_rm = ("bash(rm *)", Action::Deny);
        assert_eq!(judged(&[no_rm, ("bash(sudo *)", Action::Allow)], sudo()), Action::Deny);
        assert_eq!(judged(&[no_rm, ("bash(rm x)", Action::Allow)], command("rm x")), Action::Allow);
        let secret = || Access::Read("/w/.env".into());
        assert_eq!(judged(&[("Read(.env)", Action::Deny), ("Read(/w/**)", Action::Allow)], secret()), Action::Deny);
        let folder = || Access::Write("/w/secret".into());
        assert_eq!(judged(&[("Edit(secret/**)", Action::Deny)], folder()), Action::Deny);
        let open = || Access::SomePath("$f".into());
        assert_eq!(judged(&[("Edit(secret/**)", Action::Deny)], open()), Action::Deny);
    }

    #[test]
    fn a_wish_to_be_asked_makes_nothing_more_lenient() {
        let reach = Reach { read: vec!["/usr".into()], ..Reach::default() };
        let wishes = rules(&[("Read", Action::Ask)]);
        let read = [Access::Read("/elsewhere/a".into())];
        let asked = Ask { reach: &reach, ..ask("read", &read) };
        assert_eq!(wishes.judge_in(PermissionMode::Auto, &[], &asked).action, Action::Ask);
        let inside = [Access::Read("/w/a".into())];
        assert_eq!(wishes.judge_in(PermissionMode::Plan, &[], &ask("read", &inside)).action, Action::Ask);
    }
}
