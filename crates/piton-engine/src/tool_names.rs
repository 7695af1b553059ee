//! Names of other agents: which of our tools is meant by theirs, in lists and in rules of what is allowed, and which of our agents.

use piton_core::permission::{Action, Rule};
use piton_tools::subagent::GENERAL;

/// The names by which a tool of other agents is ours; nothing for one that has no counterpart.
pub(crate) fn ours(name: &str) -> Vec<String> {
    let bare = name.split('(').next().unwrap_or(name).trim();
    let names: &[&str] = match bare {
        "Bash" | "bash" | "BashOutput" | "KillShell" | "KillBash" => &["bash", "bash_output", "bash_kill"],
        "Read" | "NotebookRead" | "read" => &["read"],
        "Write" | "write" => &["write", "apply_patch"],
        "Edit" | "MultiEdit" | "NotebookEdit" | "edit" | "patch" | "multiedit" => &["edit", "apply_patch"],
        "Grep" | "grep" => &["grep"],
        "Glob" | "glob" => &["glob"],
        "LS" | "list" | "ls" => &["list"],
        "Task" | "Agent" | "task" => &["task", "task_output", "task_stop"],
        "TaskOutput" | "AgentOutputTool" => &["task_output"],
        "TaskStop" => &["task_stop"],
        "TodoWrite" | "TodoRead" | "todowrite" | "todoread" | "todo" => &["todo"],
        "WebFetch" | "webfetch" | "web_fetch" => &["web_fetch"],
        "WebSearch" | "websearch" | "web_search" => &["web_search"],
        "AskUserQuestion" | "question" | "ask_user" => &["ask_user"],
        "Skill" | "skill" => &["skill"],
        "ExitPlanMode" | "plan_exit" | "exit_plan" => &["exit_plan"],
        "" => &[],
        other => return vec![other.to_owned()],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Agents that come with Claude Code have other names there.
pub(crate) fn our_agent(name: &str) -> String {
    match name {
        "Explore" => "explore".to_owned(),
        "general-purpose" => GENERAL.to_owned(),
        other => other.to_owned(),
    }
}

/// What a tool of `allowed-tools` is as rules. `None`: nothing that is allowed here; all tools at once are not.
pub(crate) fn allowed(said: &str) -> Option<Vec<String>> {
    let names = match said.contains('(') || ["Read", "Edit", "read", "edit"].contains(&said) {
        true => vec![said.to_owned()],
        false => ours(said),
    };
    let rule = |name: &String| Rule::parse(name, Action::Allow).ok().filter(|rule| !rule.tool.contains('*'));
    names.iter().map(|name| rule(name).map(|rule| rule.to_string())).collect()
}
