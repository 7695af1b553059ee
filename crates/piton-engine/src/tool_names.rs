//! The tools of other agents: which of ours is meant by their names, in lists and in rules of what is allowed.

use crate::permission::read_rule;
use piton_core::permission::Action;
use piton_core::server_tool;

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

/// Piton's own tools that lists of tools name.
const OURS: [&str; 23] = [
    "apply_patch",
    "ask_user",
    "bash",
    "bash_kill",
    "bash_output",
    "edit",
    "exit_plan",
    "glob",
    "grep",
    "history",
    "list",
    "read",
    "skill",
    "task",
    "task_output",
    "task_stop",
    "todo",
    "web_fetch",
    "web_search",
    "write",
    server_tool::SEARCH,
    server_tool::CALL,
    server_tool::READ,
];

/// Whether this is one of Piton's own tools, or may be one of a server.
pub(crate) fn is_known(name: &str) -> bool {
    OURS.contains(&name) || name.starts_with(server_tool::PREFIX)
}

/// What a tool of `allowed-tools` is as rules. `None`: nothing that is allowed here; all tools at once are not.
pub(crate) fn allowed(said: &str) -> Option<Vec<String>> {
    let names = match said.contains('(') || ["Read", "Edit", "read", "edit"].contains(&said) {
        true => vec![said.to_owned()],
        false => ours(said),
    };
    let rule = |name: &String| read_rule(name, Action::Allow).ok().filter(|rule| !rule.tool.contains('*'));
    names.iter().map(|name| rule(name).map(|rule| rule.to_string())).collect()
}
