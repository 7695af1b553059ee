//! One rule: `bash`, `bash(git push *)`, `Edit(src/**)`, `net(domain:example.org)`, `mcp__server__*`, `*`.

use super::pattern::{Pattern, Places};
use super::{Action, Ask};
use crate::call::{Access, CommandPart};
use crate::server_tool;
use piton_shell::Below;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What to do with some calls. Two are equal that say the same, wherever they stand.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// A tool's name; one that ends with `*`; `*` for every tool; `Read` or `Edit` for every one that reads or changes files;
    /// `net` for every one that talks to hosts.
    pub tool: String,
    /// What of its calls, as it was written between brackets; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What to do.
    pub action: Action,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Voice::is_user")]
    pub voice: Voice,
    /// Where it stands, for people: a file, a flag, an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let Self { tool, pattern, action, voice, layer: _ } = self;
        (tool, pattern, action, voice) == (&other.tool, &other.pattern, &other.action, &other.voice)
    }
}

impl Eq for Rule {}

/// Who says what may run. What the user allows is allowed; what anybody forbids or wants to be asked about counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Voice {
    /// The user: files, variables and flags of theirs, and what they answered.
    #[default]
    User,
    /// What came with the repository. It allows only what the user says nothing about.
    Repository,
    /// A preset in a file. Like the repository, it allows only what the user says nothing about.
    Preset,
    /// The agent that does the session's work, for its own calls. It only forbids and asks.
    Agent,
    /// What nobody needs to trust, since it only forbids and asks: it lifts no word of another voice.
    Narrowing,
}

impl Voice {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::User, Self::Repository, Self::Preset, Self::Agent, Self::Narrowing];

    /// Whether what it allows counts where the user says nothing about it.
    pub(super) fn may_allow(self) -> bool {
        match self {
            Self::User | Self::Repository | Self::Preset => true,
            Self::Agent | Self::Narrowing => false,
        }
    }

    fn is_user(&self) -> bool {
        *self == Self::User
    }
}

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a permission rule: expected a tool (`bash`, `mcp__server__*`, `*`), with what of it in brackets if not all: \
     `bash(git push *)`, `Edit(src/**)`, `net(domain:example.org)`"
)]
pub struct NotARule(pub String);

/// How particular a rule is; the more particular of two counts.
pub(super) type Particularity = (u8, usize, bool);

/// The tool that runs commands.
pub(super) const BASH: &str = "bash";
/// The tool that calls agents.
const TASK: &str = "task";
/// The tool that gives skills.
pub(super) const SKILL: &str = "skill";
const EDIT: &str = "Edit";
const READ: &str = "Read";
/// The name by which rules are about hosts, whatever connects to them.
pub const NET: &str = "net";
/// Tools whose rules with a path are about the file, by whatever tool it is changed or read, where they forbid or ask.
const EDITING: &[&str] = &[EDIT, "edit", "write", "apply_patch"];
const READING: &[&str] = &[READ, "read"];

impl Rule {
    /// A rule of the user's for all calls of a tool.
    pub fn of(tool: impl Into<String>, action: Action) -> Self {
        Self { tool: tool.into(), pattern: None, action, voice: Voice::User, layer: None }
    }

    /// Reads a rule as it stands in a file or on a command line.
    pub fn parse(text: &str, action: Action) -> Result<Self, NotARule> {
        let wrong = || NotARule(text.to_owned());
        let text = text.trim();
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool.trim_end(), Some(rest.strip_suffix(')').ok_or_else(wrong)?.trim())),
            None => (text, None),
        };
        let stem = tool.strip_suffix('*').unwrap_or(tool);
        // The name of a server as its file has it may have other characters.
        let is_of_server = stem.starts_with(server_tool::PREFIX);
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let is_name = stem.chars().all(|c| fits(c) || is_of_server && !c.is_control() && !"*),".contains(c));
        if tool.is_empty() || !is_name {
            return Err(wrong());
        }
        // As Claude Code calls them.
        let tool = match tool {
            "Bash" => BASH,
            "Write" => "write",
            "WebFetch" => "web_fetch",
            "WebSearch" => "web_search",
            "Task" | "Agent" => TASK,
            "Skill" => SKILL,
            tool => tool,
        };
        let pattern = pattern.filter(|pattern| *pattern != "*").map(ToOwned::to_owned);
        let rule = Self { tool: tool.to_owned(), pattern, action, voice: Voice::User, layer: None };
        rule.read_pattern().map_err(|_| wrong())?;
        Ok(rule)
    }

    fn read_pattern(&self) -> Result<Option<Pattern>, NotARule> {
        let Some(text) = &self.pattern else { return Ok(None) };
        let pattern = match self.tool.as_str() {
            BASH => Pattern::command(text),
            EDIT | READ | "read" | "write" | "edit" | "apply_patch" | "grep" | "glob" | "list" => Pattern::path(text),
            NET | "web_fetch" if text.starts_with("domain:") => Pattern::host(text),
            TASK | SKILL => Pattern::name(text),
            _ => None,
        };
        pattern.map(Some).ok_or_else(|| NotARule(self.to_string()))
    }

    pub(super) fn particularity(&self) -> Particularity {
        let pattern = self.read_pattern().ok().flatten();
        match pattern {
            Some(pattern) => {
                let (literal, is_exact) = pattern.particularity();
                (3, literal, is_exact)
            }
            None if self.tool == "*" => (0, 0, false),
            None if self.tool.ends_with('*') => (1, self.tool.len(), false),
            None if server_tool::is_server(&self.tool) => (1, self.tool.len() + "__*".len(), false),
            None => (2, 0, false),
        }
    }

    /// Whether it is about this tool, as far as its name says. What holds an edit or a write back holds back a patch, which
    /// does the work of both.
    pub fn names(&self, tool: &str) -> bool {
        let is_stricter = self.action != Action::Allow && matches!(self.tool.as_str(), "edit" | "write");
        if is_stricter && tool == "apply_patch" {
            return true;
        }
        match self.action {
            Action::Allow => server_tool::is_meant(&self.tool, tool),
            Action::Ask | Action::Deny => server_tool::may_be_meant(&self.tool, tool),
        }
    }

    /// Whether a person means it by this: its tool, or all of it.
    pub fn is_called(&self, name: &str) -> bool {
        self.tool == name || self.to_string() == name
    }

    /// Whether what stands in its brackets may be files: not commands, not hosts.
    pub(super) fn is_about_files(&self) -> bool {
        !matches!(self.tool.as_str(), BASH | "net" | "web_fetch" | TASK | SKILL)
    }

    /// Whether it is about all calls of this tool.
    pub fn covers(&self, tool: &str) -> bool {
        self.names(tool) && self.pattern.is_none()
    }

    /// Whether another rule with a pattern says something about what this one's covers: then this is the finer word on it.
    pub(super) fn refines(&self, other: &Self, ask: &Ask<'_>) -> bool {
        let Some(text) = &self.pattern else { return false };
        let stem = text.trim_end_matches(['*', ' ', ':', '/']);
        let access = match self.tool.as_str() {
            BASH => Access::Command(Box::new(CommandPart {
                words: stem.split_whitespace().map(ToOwned::to_owned).collect(),
                ..CommandPart::default()
            })),
            NET | "web_fetch" => Access::Reach(stem.trim_start_matches("domain:").to_owned()),
            TASK | SKILL => use_of(&self.tool, stem),
            _ => {
                let root = if stem.starts_with("~/") { &ask.reach.home } else { ask.workspace };
                let path = Path::new(root).join(stem.trim_start_matches("~/").trim_start_matches("./"));
                Access::Read(path.to_string_lossy().into_owned())
            }
        };
        // By kind it may be a rule for reading or for writing.
        let is_read = Self { action: Action::Ask, ..other.clone() };
        let as_write = access.path().map(|path| Access::Write(path.to_owned()));
        is_read.matches(ask, &access) || as_write.is_some_and(|access| is_read.matches(ask, &access))
    }

    /// Whether it forbids a file that may lie below one of these folders, or wants to be asked about it.
    pub(super) fn may_be_opened(&self, ask: &Ask<'_>, below: &[Below]) -> bool {
        let is_about_reading = self.action != Action::Allow && READING.contains(&self.tool.as_str());
        let Some(pattern) = self.read_pattern().ok().flatten().filter(|_| is_about_reading) else { return false };
        let places = Places { workspace: ask.workspace, home: &ask.reach.home };
        below.iter().any(|below| pattern.could_be_opened(below, places))
    }

    /// Whether it is about this part of a call.
    pub(super) fn matches(&self, ask: &Ask<'_>, access: &Access) -> bool {
        // Who forbids a file forbids it to every tool; who allows it, allows it to the tool that is named.
        let of_all = self.action != Action::Allow && self.pattern.is_some();
        let is_one_of = |tools: &[&str]| tools.contains(&self.tool.as_str());
        let by_kind = match access {
            Access::Write(_) => self.tool == EDIT || of_all && is_one_of(EDITING),
            Access::Read(_) => self.tool == READ || of_all && is_one_of(READING),
            Access::Reach(_) => self.tool == NET || of_all && self.tool == "web_fetch",
            Access::Command(_) => {
                let is_about_hosts = self.action == Action::Deny && is_one_of(&[NET, "web_fetch"]);
                of_all && (is_one_of(EDITING) || is_one_of(READING) || is_about_hosts)
            }
            // What a tool uses in the name of another, such as a server.
            Access::Use(used) => self.names(used),
            _ => false,
        };
        if !by_kind && !self.names(ask.tool_of(access)) {
            return false;
        }
        let Ok(pattern) = self.read_pattern() else { return false };
        let Some(pattern) = pattern else { return true };
        let places = Places { workspace: ask.workspace, home: &ask.reach.home };
        match access {
            Access::Command(part) if matches!(pattern, Pattern::Path(_)) => {
                let opens = |path: &String| match is_open(path) {
                    true => pattern.could_concern(path, places),
                    false => pattern.concerns(path, places),
                };
                part.may_open.iter().any(opens)
            }
            // Any program may talk to a host that is mentioned, by options and code that no table knows.
            Access::Command(part) if matches!(pattern, Pattern::Host(_)) => {
                !part.is_harmless && part.may_reach.iter().any(|host| pattern.could_match_host(host))
            }
            Access::Command(part) => {
                let code = part.code.as_deref().unwrap_or_default();
                let mentions = |program: &str| piton_shell::names_program(code, program);
                pattern.matches_command(part, self.action)
                    || self.action == Action::Deny && pattern.program().is_some_and(mentions)
            }
            Access::Read(path) if of_all && is_open(path) => pattern.could_concern(path, places),
            Access::Write(path) if of_all && is_open(path) => {
                pattern.could_concern(path, places) || pattern.could_lie_below(path, places)
            }
            Access::Write(path) if self.action == Action::Deny && pattern.lies_below(path, places) => true,
            Access::Read(path) if of_all => pattern.concerns(path, places),
            Access::Read(path) | Access::Write(path) => pattern.matches_path(path, places),
            Access::Reach(host) => pattern.matches_host(host),
            Access::Use(used) => {
                named(used).is_some_and(|(tool, name)| tool == self.tool && pattern.matches_name(name))
            }
            Access::Run(_) | Access::SomePath(_) | Access::Unknowable(_) | Access::Spawn | Access::Unsandboxed(_) => {
                false
            }
        }
    }
}

/// What a call of `task` or `skill` uses: the tool, and the agent or the skill that it names.
pub fn use_of(tool: &str, name: &str) -> Access {
    Access::Use(format!("{tool}({name})"))
}

/// The two parts of [`use_of`].
pub(super) fn named(used: &str) -> Option<(&str, &str)> {
    let (tool, name) = used.strip_suffix(')')?.split_once('(')?;
    matches!(tool, TASK | SKILL).then_some((tool, name))
}

/// Whether a path of a command has wildcards in it.
fn is_open(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => f.pad(&format!("{}({pattern})", self.tool)),
            None => f.pad(&self.tool),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_tool_and_what_of_it() {
        for text in ["bash", "*", "mcp__db__*", "bash(git push *)", "Edit(src/**)", "net(domain:*.example.org)"] {
            assert_eq!(Rule::parse(&format!(" {text} "), Action::Allow).unwrap().to_string(), text);
        }
        assert_eq!(Rule::parse("Bash(*)", Action::Allow), Ok(Rule::of("bash", Action::Allow)));
        for odd in ["", "()", "bash(", "bash)", "a b", "bash()", "net(example.org)", "edit(../x)", "other(x)"] {
            assert!(Rule::parse(odd, Action::Allow).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_more_it_says_the_more_particular_it_is() {
        let all =
            ["*", "mcp__*", "mcp__db__*", "bash", "bash(*git*)", "bash(git *)", "bash(git push *)", "bash(git push)"];
        let of = |text: &str| Rule::parse(text, Action::Ask).unwrap().particularity();
        assert!(all.is_sorted_by_key(|text| of(text)), "{:?}", all.map(of));
    }
}
