//! May this call run? A pure function of the rules, the mode, what the session reaches, and what the call will access; tools do
//! not ask.
//!
//! A call's verdict is the strictest of its parts: each simple command of a script, each path that it reads or writes, each host.
//! Of each part the user's voice says what holds, by the most particular rule that matches; other voices can only be stricter,
//! but where the user says nothing. What no rule speaks of, the mode settles ([`PermissionMode`]).

mod pattern;
mod rule;
mod scope;

pub use rule::{NET, NotARule, Rule, Voice};

use crate::call::Access;
use crate::ids::TimeMs;
use crate::server_tool;
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
    /// Hosts that the user opened, to commands or to a tool: `example.org`, `*.example.org`, `example.org:8443`. Any other is new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
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
    /// The judgement of each part.
    pub parts: Vec<PartSaid>,
}

/// The judgement of one part, in a few words.
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
    /// Something else that may change something: files elsewhere, an open host, a tool that does not say.
    Other,
    /// A host that nobody has opened, for a tool of Piton's own.
    NewHost,
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
            // What a subagent does is judged call by call, by these rules or stricter ones.
            Access::Spawn => Self::Free,
            // Of a command that no sandbox holds nothing can be known: it may reach any other host as well.
            Access::Reach(host) if !ask.has_commands() && !ask.is_open(host) => Self::NewHost,
            Access::Reach(_) | Access::Use(_) => Self::Other,
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
            (Self::ReadElsewhere | Self::NewHost, Ask | AcceptEdits | Auto) => Want::Ask,
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
            Self::NewHost => "nobody has opened this host".to_owned(),
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

    /// Those that are about hosts. Who allows all tools has opened no host to commands, and who forbids all has closed none.
    #[must_use]
    pub fn about_hosts(&self) -> Self {
        let is_about = |rule: &&Rule| rule.tool == NET || rule.pattern.is_some() && rule.action != Action::Allow;
        Self(self.0.iter().filter(is_about).cloned().collect())
    }

    /// What they say about a server that wants to ask a model, by the name of [`server_tool::sampling`]. Only rules with such a name
    /// count: who lets tools run has not agreed to pay for model calls.
    pub fn of_sampling(&self, name: &str) -> Option<Action> {
        let is_about = |rule: &&Rule| rule.tool.starts_with(server_tool::SAMPLING);
        let about = Self(self.0.iter().filter(is_about).cloned().collect());
        let (accesses, reach) = ([Access::Use(name.to_owned())], Reach::default());
        let judged =
            about.judge(&Ask { tool: name, accesses: &accesses, workspace: "", is_confined: true, reach: &reach });
        judged.rule.map(|_| judged.action)
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
            let (mut want, mut rule) = self.judge_part(mode, grants, ask, access);
            let class = access.map_or(Class::Free, |access| Class::of(ask, access));
            let mut why = class.why(mode, ask.is_confined);
            if let Some((stricter, by)) = self.opened_below(mode, ask, access).filter(|(stricter, _)| *stricter > want)
            {
                (want, rule, why) = (stricter, None, by);
            }
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
        let narrowing = self.most_particular(Voice::Narrowing, ask, access).filter(|rule| rule.action != Action::Allow);
        let rule = match (rule, narrowing) {
            (Some(rule), Some(narrowing)) if strictness(narrowing.action) <= strictness(rule.action) => Some(rule),
            (rule, narrowing) => narrowing.or(rule),
        };
        let action = rule.map(|rule| rule.action);
        let want = match (class, action) {
            (Class::Never, _) | (_, Some(Action::Deny)) => Want::Refuse,
            (Class::Protected | Class::Unconfined, _) => by_mode,
            (Class::Unknowable | Class::SomePath, _) => {
                let is_file = matches!(access, Some(Access::SomePath(_)));
                return (self.of_unknowable(is_file, by_mode, (mode, action)), rule.cloned());
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

    /// What becomes of a command that opens all that lies below a folder, where a rule is about something that may lie there, or keys
    /// do; and why. Which files those are is known to nobody before it runs.
    fn opened_below(&self, mode: PermissionMode, ask: &Ask<'_>, access: Option<&Access>) -> Option<(Want, String)> {
        let Some(Access::Command(part)) = access else { return None };
        let first = part.below.first()?;
        let rules = || self.0.iter().filter(|rule| rule.may_be_opened(ask, &part.below));
        let forbids = rules().find(|rule| rule.action == Action::Deny);
        // What is asked for is not asked in the mode that asks nothing.
        let found = forbids.or_else(|| rules().next().filter(|_| mode != PermissionMode::Auto));
        let is_kept = |path: &String| part.below.iter().any(|below| Path::new(path).starts_with(&below.folder));
        let why = match found {
            Some(rule) => {
                let from = rule.layer.as_ref().map(|from| format!(" of {from}")).unwrap_or_default();
                format!("it opens whatever lies below {}, past the rule {rule}{from}", first.folder)
            }
            None if !ask.is_of_confined_command() && ask.reach.never.iter().any(is_kept) => {
                format!("it opens whatever lies below {}, and keys or Piton's own files do", first.folder)
            }
            None => return None,
        };
        Some((if mode == PermissionMode::Auto { Want::Refuse } else { Want::AskEachTime }, why))
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

    /// It may be just what a rule forbids: of a file that is not known, what is said of files; of a command, whatever is.
    fn of_unknowable(&self, is_file: bool, by_mode: Want, (mode, action): (PermissionMode, Option<Action>)) -> Want {
        let is_about = |rule: &&Rule| !is_file || rule.is_about_files();
        let forbids = |rule: &Rule| rule.action == Action::Deny && rule.pattern.is_some();
        let forbids_some = self.0.iter().filter(is_about).any(forbids);
        match (mode, action) {
            (PermissionMode::Auto, _) if forbids_some => Want::Refuse,
            (PermissionMode::Ask | PermissionMode::AcceptEdits, Some(Action::Ask)) => Want::AskEachTime,
            _ if forbids_some => by_mode.max(Want::AskEachTime),
            _ => by_mode,
        }
    }

    /// Whether a search passes over a file, by its real path: a rule forbids to read it, or wants to be asked about just that; or it is
    /// for no call.
    pub fn withhold(&self, mode: PermissionMode, ask: &Ask<'_>, path: &str) -> bool {
        let access = Access::Read(path.to_owned());
        let withholds = |rule: &Rule| match rule.action {
            Action::Deny => true,
            Action::Ask => rule.pattern.is_some() && mode != PermissionMode::Auto,
            Action::Allow => false,
        };
        let by_rule = |voice| self.most_particular(voice, ask, Some(&access)).is_some_and(withholds);
        Class::of(ask, &access) == Class::Never || Voice::ALL.into_iter().any(by_rule)
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

    /// Whether the user opened a host: one without a port is for the ports of the web.
    fn is_open(&self, host: &str) -> bool {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let opens = |open: &String| (open.contains(':') || !has_port) && pattern::is_host(open, host);
        self.reach.hosts.iter().any(opens)
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
mod tests;
