//! A command hook as configured: the event it runs at, what it matches, and the command.

use piton_core::hook::HookPoint;
use regex::Regex;
use std::time::Duration;

/// One command of the configuration.
#[derive(Debug, Clone)]
pub struct Handler {
    pub(super) event: HookEvent,
    pub(super) matcher: Matcher,
    /// As in `Bash(git *)`: only for such calls.
    pub(super) condition: Option<String>,
    pub(super) command: String,
    /// Given: the command is a program, and no shell is needed.
    pub(super) args: Option<Vec<String>>,
    pub(super) timeout: Duration,
    /// Nobody waits for it.
    pub(super) is_async: bool,
    /// It runs once in a session.
    pub(super) is_once: bool,
    pub(super) is_required: bool,
    /// It runs in the session's sandbox, where there is one.
    pub(super) is_confined: bool,
}

impl Handler {
    /// Whether the two are one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.event, format!("{:?}", it.matcher), it.condition.clone(), it.command.clone());
        key(self) == key(other) && self.args == other.args
    }

    /// The same with places filled, where no shell does it.
    #[must_use]
    pub fn filled(mut self, fill: impl Fn(&str) -> String) -> Self {
        if let Some(args) = &mut self.args {
            self.command = fill(&self.command);
            args.iter_mut().for_each(|arg| *arg = fill(arg));
        }
        self
    }

    /// This, as it holds in an agent's file: there `Stop` is the end of the agent's work, also where another called it.
    pub fn of_agent(self) -> Vec<Self> {
        let called = (self.event == HookEvent::Stop).then(|| Self {
            event: HookEvent::SubagentStop,
            matcher: Matcher::All,
            ..self.clone()
        });
        std::iter::once(self).chain(called).collect()
    }

    /// This, as it came with a repository: what it runs, the model can write.
    #[must_use]
    pub fn confined(self) -> Self {
        Self { is_confined: true, ..self }
    }

    /// The event and the command, in one line.
    pub fn summary(&self) -> String {
        let args = self.args.as_ref().map(|args| format!(" {}", args.join(" "))).unwrap_or_default();
        beginning(&format!("{} {}{args}", self.event.name(), self.command))
    }
}

/// The events of hooks: what they are called, where they run, and what their matcher is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    Notification,
    PostToolUse,
    PostToolUseFailure,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    TaskCreated,
    TaskCompleted,
    PreCompact,
    PostCompact,
    SessionEnd,
    BeforeModel,
    AfterModel,
    Message,
    ToolUse,
    Step,
    TurnEnd,
}

impl HookEvent {
    pub(super) const ALL: [(&'static str, Self, HookPoint); 22] = [
        ("SessionStart", Self::SessionStart, HookPoint::SessionStart),
        ("UserPromptSubmit", Self::UserPromptSubmit, HookPoint::Prompt),
        ("PreToolUse", Self::PreToolUse, HookPoint::BeforeTool),
        ("PermissionRequest", Self::PermissionRequest, HookPoint::Approval),
        ("Notification", Self::Notification, HookPoint::Approval),
        ("PostToolUse", Self::PostToolUse, HookPoint::AfterTool),
        ("PostToolUseFailure", Self::PostToolUseFailure, HookPoint::AfterTool),
        ("Stop", Self::Stop, HookPoint::Stop),
        ("StopFailure", Self::StopFailure, HookPoint::Turn),
        ("SubagentStart", Self::SubagentStart, HookPoint::SessionStart),
        ("SubagentStop", Self::SubagentStop, HookPoint::Stop),
        ("TaskCreated", Self::TaskCreated, HookPoint::BeforeTool),
        ("TaskCompleted", Self::TaskCompleted, HookPoint::BeforeTool),
        ("PreCompact", Self::PreCompact, HookPoint::BeforeCompaction),
        ("PostCompact", Self::PostCompact, HookPoint::Compacted),
        ("SessionEnd", Self::SessionEnd, HookPoint::SessionEnd),
        // Our own; the pieces that stream by are left to code: a process for each would be slower than the model.
        ("BeforeModel", Self::BeforeModel, HookPoint::BeforeModel),
        ("AfterModel", Self::AfterModel, HookPoint::AfterModel),
        ("Message", Self::Message, HookPoint::Message),
        ("ToolUse", Self::ToolUse, HookPoint::ToolUse),
        ("Step", Self::Step, HookPoint::Step),
        ("TurnEnd", Self::TurnEnd, HookPoint::Turn),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, event, _)| *event)
    }

    /// Whether it occurs in the session of a subagent, or in any other.
    pub(super) fn occurs(self, is_subagent: bool) -> bool {
        match self {
            Self::SubagentStart | Self::SubagentStop => is_subagent,
            // Nobody speaks to a subagent but its caller, and these say that a person's session begins or has an answer.
            Self::SessionStart | Self::UserPromptSubmit | Self::Stop | Self::SessionEnd => !is_subagent,
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::Notification
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::StopFailure
            | Self::TaskCreated
            | Self::TaskCompleted
            | Self::PreCompact
            | Self::PostCompact
            | Self::BeforeModel
            | Self::AfterModel
            | Self::Message
            | Self::ToolUse
            | Self::Step
            | Self::TurnEnd => true,
        }
    }

    fn row(self) -> (&'static str, Self, HookPoint) {
        // Every event is in the table.
        Self::ALL.into_iter().find(|(_, event, _)| *event == self).unwrap_or(Self::ALL[0])
    }

    pub(super) fn name(self) -> &'static str {
        self.row().0
    }

    pub(super) fn point(self) -> HookPoint {
        self.row().2
    }
}

/// What a hook is for: a tool's name, the reason of a session's start, and so on.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Everything.
    All,
    /// One of these names.
    Names(Vec<String>),
    /// Whatever this is found in.
    Pattern(Regex),
}

impl Matcher {
    /// Reads one: nothing and `*` are everything; letters, digits, `_`, `-`, `,` and `|` are names; anything else is a
    /// regular expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
        match text.trim() {
            "" | "*" => Ok(Self::All),
            names if names.chars().all(is_name) => {
                Ok(Self::Names(names.split(['|', ',']).map(|name| name.trim().to_owned()).collect()))
            }
            pattern => Regex::new(pattern)
                .map(Self::Pattern)
                .map_err(|_| format!("the matcher `{pattern}` is neither a list of names nor a regular expression")),
        }
    }

    /// Whether it is for any of these names of one thing.
    pub fn is_for(&self, names: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Names(mine) => mine.iter().any(|mine| names.contains(&mine.as_str())),
            Self::Pattern(pattern) => names.iter().any(|name| pattern.is_match(name)),
        }
    }
}

/// Enough of a text to recognise it, on one line.
pub(super) fn beginning(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_names_or_a_pattern() {
        let is_for = |matcher: &str, names: &[&str]| Matcher::parse(matcher).expect("sound").is_for(names);
        assert!(is_for("", &["Bash"]) && is_for("*", &["Bash"]));
        assert!(is_for("Edit|Write", &["Write", "write"]) && !is_for("Edit|Write", &["NotebookEdit"]));
        assert!(is_for("bash", &["Bash", "bash"]));
        assert!(is_for("mcp__.*", &["mcp__memory__read"]) && !is_for("^Read$", &["ReadMany"]));
        assert!(Matcher::parse("(").is_err());
    }
}
