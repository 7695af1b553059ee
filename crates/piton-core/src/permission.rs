//! Decides whether a call may run: a pure function of the rules, the mode, the session's reach, and what the call will access.
//! Tools do not ask for permission themselves.
//!
//! A call's verdict is the strictest of the verdicts on its parts: each simple command of a script, each path that it reads or
//! writes, each host. For each part, the most specific matching rule of the user's voice decides. Other voices can only be
//! stricter, except for parts that no rule of the user matches. If no rule matches a part, the mode decides ([`PermissionMode`]).

mod files;
mod pattern;
mod rule;
mod scope;

pub use rule::{NET, NotARule, Rule, Voice, use_of};

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
    /// Ask a person first; refuse if nobody can be asked.
    Ask,
    /// Refuse it.
    Deny,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Its name in files and in the journal.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// The permission mode: decides about the parts of a call that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Ask a person.
    #[default]
    Ask,
    /// Run changes to files in the workspace, and commands in a sandbox; ask a person about the rest.
    AcceptEdits,
    /// Run everything that no rule forbids and that stays in the sandbox.
    Auto,
    /// Run only what changes nothing. Refuse the rest, whatever rules and answers allow.
    Plan,
}

/// Rules, in order. Among the rules of one voice that match a part of a call, the most specific counts; between equals, the later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Rule>);

/// What a session's calls may reach without a question. Recorded with each turn. Paths are absolute, with links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The user's home.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// Folders that may be read besides the workspace; if empty, everything may be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Keys, histories and Piton's own files: no call may access them, whatever rules and answers say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
    /// Hosts that the user has opened, for commands or for a tool: `example.org`, `*.example.org`, `example.org:8443`. Piton asks about
    /// any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Names in the workspace that other programs run or believe, in small letters: `.vscode` at any depth, `/.bashrc` at the top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
}

impl Reach {
    /// Whether the sandbox protects what lies at a path. Not every file system tells large letters from small ones.
    pub fn protects(&self, workspace: &str, path: &str) -> bool {
        let Ok(below) = Path::new(path).strip_prefix(workspace) else { return false };
        let below = format!("/{}/", below.to_string_lossy().to_lowercase());
        self.protected.iter().any(|name| match name.starts_with('/') {
            true => below.starts_with(&format!("{name}/")),
            false => below.contains(&format!("/{name}/")),
        })
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a person has allowed for the rest of a session, by answering a question with "always".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What is allowed.
    pub rule: Rule,
    /// The rule that made Piton ask; `None` if no rule matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Rule>,
    /// When the person answered.
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

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What to do.
    pub action: Action,
    /// The rule that decided; `None` if none matched.
    pub rule: Option<Rule>,
    /// The rules that "always" would add; empty if Piton asks each time, or if no rule can cover the call.
    pub remember: Rules,
    /// Whether only a person can allow it, and only once.
    pub is_asked_each_time: bool,
    /// Whether no rule and no mode would allow it, either.
    pub is_for_person: bool,
    /// The decision on each part; for a call without parts, the one on the whole call.
    pub parts: Vec<PartJudged>,
}

/// The depth of the deepest of these folders in which the path lies, or may lie where it is a pattern; 0 if none is.
fn depth(path: &str, folders: &[String]) -> usize {
    let is_pattern = path.contains(['*', '?', '[']);
    deepest(folders, |folder| Path::new(path).starts_with(folder) || is_pattern && pattern::may_lie_at(path, folder))
}

/// The same for those in which all lies that the path stands for.
fn sure_depth(path: &str, folders: &[String]) -> usize {
    deepest(folders, |folder| Path::new(path).starts_with(folder))
}

fn deepest(folders: &[String], holds: impl Fn(&str) -> bool) -> usize {
    let held = folders.iter().filter(|folder| holds(folder));
    held.map(|folder| Path::new(folder).components().count()).max().unwrap_or_default()
}

impl Judgement {
    /// The same of a call that a person makes: it is what they want, and no rule was asked for it.
    #[must_use]
    pub fn asked_by_name(self) -> Self {
        let why = "a person asked the agent by its name".to_owned();
        let said = |part: PartJudged| PartJudged { action: Action::Allow, rule: None, why: why.clone(), ..part };
        let parts = self.parts.into_iter().map(said).collect();
        let (action, rule, remember) = (Action::Allow, None, Rules::default());
        Self { action, rule, remember, is_asked_each_time: false, is_for_person: false, parts }
    }
}

/// The recorded decision on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The mode in effect.
    pub mode: PermissionMode,
    /// Whether commands ran in a sandbox.
    #[serde(default, skip_serializing_if = "is_false")]
    pub confined: bool,
    /// Whether a person alone can allow it, each time: no rule and no mode does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each_time: bool,
    /// The judgement of each part.
    pub parts: Vec<PartSaid>,
}

/// The recorded decision on one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSaid {
    /// The part.
    pub part: String,
    /// What to do with it.
    pub action: Action,
    /// The rule that decided, with its voice and layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The reason, if no rule decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Judged {
    /// The record of these decisions, made in this mode.
    pub fn of(judgement: &Judgement, mode: PermissionMode, confined: bool) -> Self {
        let said = |part: &PartJudged| PartSaid {
            part: part.named(),
            action: part.action,
            rule: part.rule.clone(),
            why: if part.rule.is_some() { String::new() } else { part.why.clone() },
        };
        let parts = judgement.parts.iter().map(said).collect();
        Self { mode, confined, each_time: judgement.is_for_person, parts }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The decision on one part of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartJudged {
    /// The part; `None` for the call as a whole.
    pub access: Option<Access>,
    /// What to do with it.
    pub action: Action,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The reason for people, if no rule decided.
    pub why: String,
}

/// Why a name is not a permission mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission mode: expected ask, accept-edits, auto or plan")]
pub struct NotAPermissionMode(pub String);

/// The classes of parts that the modes distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Changes nothing that matters, and reads within the session's reach.
    Free,
    /// Reads anything else.
    ReadElsewhere,
    /// Writes in the workspace.
    Edit,
    /// A command whose arguments show that it changes nothing.
    Harmless,
    /// Any other command.
    Command,
    /// A read or write of a confined command that is known only when it runs.
    SomePath,
    /// A command whose effects cannot be analyzed.
    Unknowable,
    /// Anything else that may change something: files elsewhere, an open host, a tool that does not declare its accesses.
    Other,
    /// A host that no rule opens, for one of Piton's own tools.
    NewHost,
    /// Writes elsewhere, by a tool of Piton's own that no sandbox holds.
    WriteElsewhere,
    /// Writes a lock file, by a tool of Piton's own.
    Lock,
    /// Files that make something run later, or that something relies on: git's folder, Piton's own.
    Protected,
    /// Outside the sandbox.
    Unconfined,
    /// Keys and Piton's own files.
    Never,
}

/// What to do with a part, from lenient to strict.
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
        let Reach { read, never, .. } = ask.reach;
        match access {
            // The kernel keeps a confined command in the sandbox, where another file may have that name, and Piton's own
            // tools keep themselves in it.
            Access::Read(_) if ask.is_confined && !ask.leaves_sandbox() => Self::Free,
            // A command that writes through its arguments is judged as a command; a redirection is judged as a write.
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
                if ask.reach.protects(ask.workspace, path) {
                    Self::Protected
                } else if ask.is_below_workspace(path) {
                    ask.edited(path)
                } else {
                    Self::Other
                }
            }
            Access::Read(path) if depth(path, never) > sure_depth(path, read) => Self::Never,
            Access::Write(path) if depth(path, never) > 0 => Self::Never,
            // `rm -rf ~/.config`, `tar xf x -C ~`: they lie in it.
            Access::Write(path) if never.iter().any(|kept| Path::new(kept).starts_with(path)) => Self::Protected,
            Access::Read(path) => {
                let is_known = read.is_empty() || sure_depth(path, read) > 0 || ask.is_below_workspace(path);
                if is_known { Self::Free } else { Self::ReadElsewhere }
            }
            // Where reads are held to something, writes are.
            Access::Write(path) if !ask.is_below_workspace(path) && !ask.has_commands() && !read.is_empty() => {
                Self::WriteElsewhere
            }
            Access::Write(path) if !ask.is_below_workspace(path) => Self::Other,
            Access::Write(path) if ask.is_protected(path) => Self::Protected,
            Access::Write(_) if ask.has_commands() => Self::Free,
            Access::Write(path) => ask.edited(path),
            Access::Command(part)
                if !ask.is_of_confined_command() && part.may_open.iter().any(|path| depth(path, never) > 0) =>
            {
                Self::Never
            }
            Access::Command(part) if part.is_harmless => Self::Harmless,
            Access::Command(_) | Access::Run(_) => Self::Command,
            Access::SomePath(_) if ask.is_of_confined_command() => Self::SomePath,
            Access::SomePath(_) | Access::Unknowable(_) => Self::Unknowable,
            Access::Unsandboxed(_) => Self::Unconfined,
            // Each call of a subagent is judged by these rules or stricter ones.
            Access::Spawn => Self::Free,
            Access::Use(used) if rule::named(used).is_some() => Self::Free,
            // Without a sandbox, a command may reach any other host as well.
            Access::Reach(host) if !ask.has_commands() && !ask.is_open(host) => Self::NewHost,
            Access::Reach(_) | Access::Use(_) => Self::Other,
        }
    }

    /// The decision if no rule matches.
    fn by_mode(self, mode: PermissionMode, is_confined: bool) -> Want {
        use PermissionMode::{AcceptEdits, Ask, Auto, Plan};
        match (self, mode) {
            (Self::Never, _) => Want::Refuse,
            (Self::Free | Self::SomePath, _) => Want::Run,
            (Self::Harmless, _) if is_confined => Want::Run,
            (_, Plan) => Want::Refuse,
            (Self::Protected | Self::Unconfined, Ask | AcceptEdits | Auto) => Want::AskEachTime,
            (Self::ReadElsewhere | Self::WriteElsewhere | Self::NewHost, Ask | AcceptEdits | Auto) => Want::Ask,
            (_, Auto) | (Self::Edit, AcceptEdits) => Want::Run,
            (Self::Command | Self::Unknowable, AcceptEdits) if is_confined => Want::Run,
            (Self::Unknowable, Ask | AcceptEdits) => Want::AskEachTime,
            (Self::Edit | Self::Lock | Self::Harmless | Self::Command | Self::Other, Ask | AcceptEdits) => Want::Ask,
        }
    }

    fn why(self, mode: PermissionMode, is_confined: bool) -> String {
        let place = if is_confined { "in the sandbox" } else { "with all your rights" };
        match self {
            Self::Free if is_confined => "as far as the sandbox lets it".to_owned(),
            Self::Free => "within what the session reaches".to_owned(),
            Self::ReadElsewhere => "it reads outside of the workspace".to_owned(),
            Self::WriteElsewhere => "it writes outside of the workspace".to_owned(),
            Self::Lock => format!("it changes a lock file, which package managers write; mode {mode}"),
            Self::Edit => format!("it changes a file of the workspace; mode {mode}"),
            Self::Harmless => format!("it changes nothing; {place}"),
            Self::Command => format!("a command, {place}; mode {mode}"),
            Self::SomePath => "which file is known only when it runs; the sandbox holds it".to_owned(),
            Self::Unknowable => format!("it cannot be checked; {place}; mode {mode}"),
            Self::Other => format!("no rule covers it; mode {mode}"),
            Self::NewHost => "this host is not allowed yet".to_owned(),
            Self::Protected => "other programs run or trust this file".to_owned(),
            Self::Unconfined => "it would run with all your rights".to_owned(),
            Self::Never => "keys, histories and Piton's own files are for no call".to_owned(),
        }
    }
}

/// Words as somebody may have typed them: in quotes, where the shell would take one for several or for something else.
fn typed(words: &[String]) -> String {
    let is_one =
        |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"`;|&<>()".contains(c));
    let typed = |word: &String| {
        if is_one(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    words.iter().map(typed).collect::<Vec<_>>().join(" ")
}

impl PartJudged {
    /// A short description of the part.
    pub fn named(&self) -> String {
        match &self.access {
            None => "it".to_owned(),
            Some(Access::Read(path)) => format!("reading {path}"),
            Some(Access::Write(path)) => format!("writing {path}"),
            Some(Access::Run(script)) => format!("`{script}`"),
            Some(Access::Command(part)) if part.words.is_empty() => "a line that runs no program".to_owned(),
            Some(Access::Command(part)) => format!("`{}`", typed(&part.words)),
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
    /// Adds a user's rule for all calls of a tool.
    pub fn push(&mut self, tool: impl Into<String>, action: Action) {
        self.0.push(Rule::of(tool, action));
    }

    /// The rules about hosts. A rule for all tools is not one of them: it neither opens nor closes hosts for commands.
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

    /// Whether they forbid a call of `task` or `skill` that names this agent or skill.
    pub fn forbid_use(&self, tool: &str, name: &str) -> bool {
        let (accesses, reach) = ([use_of(tool, name)], Reach::default());
        let ask = Ask { tool, accesses: &accesses, workspace: "", is_confined: true, reach: &reach };
        self.judge(&ask).action == Action::Deny
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Judges a call in the mode [`PermissionMode::Ask`], without grants.
    pub fn judge(&self, ask: &Ask<'_>) -> Judgement {
        self.judge_in(PermissionMode::Ask, &[], ask)
    }

    /// Judges a call by these rules, the grants and the mode. A grant answers only the question that it was given to: it does
    /// not lift a `deny`, and a rule that was added since asks again. A mode does not lift a `deny` either.
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
        let is_for_person = is_asked_each_time
            && ask.accesses.iter().any(|access| matches!(Class::of(ask, access), Class::Protected | Class::Unconfined));
        Judgement { action: strictest.into(), rule, remember, is_asked_each_time, is_for_person, parts }
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
        let rule = self.strictest(ask, access);
        let action = rule.map(|rule| rule.action);
        let want = match (class, action) {
            (Class::Never, _) | (_, Some(Action::Deny)) => Want::Refuse,
            (Class::Protected | Class::Unconfined, _) => by_mode,
            (Class::Unknowable | Class::SomePath, _) => {
                let is_file = matches!(access, Some(Access::SomePath(_)));
                let is_unheld = !ask.is_of_confined_command() && !ask.reach.never.is_empty();
                return (self.of_unknowable((is_file, is_unheld), by_mode, (mode, action)), rule.cloned());
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

    /// The rule that counts of those of all voices: the strictest; the user's, where others say the same. So what another voice allows
    /// counts where the user says nothing, and what it forbids or wants to be asked about counts always.
    fn strictest(&self, ask: &Ask<'_>, access: Option<&Access>) -> Option<&Rule> {
        let said = Voice::ALL.into_iter().filter_map(|voice| {
            let rule = self.most_particular(voice, ask, access)?;
            (voice.may_allow() || rule.action != Action::Allow).then_some(rule)
        });
        said.reduce(|first, other| if strictness(other.action) > strictness(first.action) { other } else { first })
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
    fn of_unknowable(
        &self,
        (is_file, is_unheld): (bool, bool),
        by_mode: Want,
        (mode, action): (PermissionMode, Option<Action>),
    ) -> Want {
        let is_about = |rule: &&Rule| !is_file || rule.is_about_files();
        let forbids = |rule: &Rule| rule.action == Action::Deny && rule.pattern.is_some();
        // No sandbox holds it back from keys either.
        let forbids_some = self.0.iter().filter(is_about).any(forbids) || is_file && is_unheld;
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
        // Whoever is called by name is judged by that.
        let has_name =
            self.accesses.iter().any(|access| matches!(access, Access::Use(used) if rule::named(used).is_some()));
        let is_judged = |access: &&Access| match access {
            Access::Run(_) => !has_parts,
            Access::Spawn => !has_name,
            _ => true,
        };
        let parts: Vec<_> = self.accesses.iter().filter(is_judged).map(Some).collect();
        if parts.is_empty() { vec![None] } else { parts }
    }

    /// The tool whose rules are about a part of it: what a skill's commands access is judged as in a call of their own.
    fn tool_of(&self, access: &Access) -> &'a str {
        let is_of_command = self.tool == rule::SKILL && self.has_commands() && !matches!(access, Access::Use(_));
        if is_of_command { rule::BASH } else { self.tool }
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

    /// What a change of a file in the workspace by one of Piton's own tools is.
    fn edited(&self, path: &str) -> Class {
        let below = path.strip_prefix(self.workspace).unwrap_or(path);
        if files::is_of_ci(below) {
            Class::Protected
        } else if files::is_lock(path) {
            Class::Lock
        } else {
            Class::Edit
        }
    }

    /// Whether what git runs, what a repository tells Piton, or what the sandbox would protect lies there.
    fn is_protected(&self, path: &str) -> bool {
        if self.reach.protects(self.workspace, path) {
            return true;
        }
        let is_own = |part: Component<'_>| match part {
            Component::Normal(name) => [".git", ".piton"].iter().any(|own| name.eq_ignore_ascii_case(own)),
            _ => false,
        };
        Path::new(path).strip_prefix(self.workspace).is_ok_and(|below| below.components().any(is_own))
    }
}

#[cfg(test)]
mod tests;
