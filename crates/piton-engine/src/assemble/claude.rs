//! The permission rules in the settings of Claude Code. What forbids or asks counts at once, the repository's too: it can only narrow
//! what the model may do ([`Voice::Narrowing`]), so it needs no trust. What allows counts of the user's own file alone, where the user asked for that,
//! before what the configuration says: among equals the last counts.

use super::machine::Machine;
use super::notice::{Notice, chain};
use super::trouble::{Context, Trouble};
use crate::config::Config;
use crate::config::trust::{ProjectFile, repository};
use crate::permission::read_rule;
use crate::tool_names::ours;
use piton_core::hidden;
use piton_core::permission::{Action, Rule, Rules, Voice};
use piton_tools::subagent;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Below a folder of a repository.
const OF_REPOSITORY: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// Below the user's home.
const OF_USER: &str = ".claude/settings.json";

/// Rules that a notice names.
const MOST_NAMED: usize = 5;

/// What is read of a file.
#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(default)]
    permissions: Permissions,
}

#[derive(Debug, Default, Deserialize)]
struct Permissions {
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
}

/// Adds them to the rules of a session. A file that makes no sense is named.
pub(super) fn add_to(
    rules: &mut Rules,
    config: &Config,
    machine: &Machine,
    workspace: &Path,
    notices: &mut Vec<Notice>,
) {
    if config.claude.permissions == Some(false) {
        return;
    }
    let widens = config.claude.permissions == Some(true);
    let root = repository(workspace);
    let folders = workspace.ancestors().take_while(|folder| folder.starts_with(root));
    let of_repository =
        folders.flat_map(|folder| OF_REPOSITORY.map(|name| (folder.join(name), folder.to_owned(), false)));
    let home = machine.var("HOME").map(PathBuf::from);
    let of_user = home.map(|home| (home.join(OF_USER), home.join(".claude"), true));
    let mut theirs = Vec::new();
    for (file, folder, is_users) in of_repository.chain(of_user) {
        match settings(&file) {
            Ok(Some(settings)) => {
                let source = Source { folder: &folder, workspace, file: &file, is_users, widens };
                notices.extend(source.add(&settings.permissions, &mut theirs));
            }
            Ok(None) => {}
            Err(error) => notices.push(Notice::new(format!("no permissions are taken of it: {}", chain(&error)))),
        }
    }
    rules.0.splice(0..0, theirs);
}

fn settings(file: &Path) -> Result<Option<Settings>, Trouble> {
    let bytes = match ProjectFile::read(file) {
        Ok(file) => file.bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    serde_json::from_slice(&bytes).map(Some).with_context(|| file.display().to_string())
}

/// Where rules stand.
struct Source<'a> {
    /// What `/x` is relative to in them.
    folder: &'a Path,
    workspace: &'a Path,
    file: &'a Path,
    is_users: bool,
    /// Whether the user has asked for what their own file allows.
    widens: bool,
}

impl Source<'_> {
    fn add(&self, said: &Permissions, rules: &mut Vec<Rule>) -> Option<Notice> {
        let mut odd = Vec::new();
        let narrower = said.deny.iter().map(|text| (text, Action::Deny));
        let narrower = narrower.chain(said.ask.iter().map(|text| (text, Action::Ask)));
        let wider = said.allow.iter().filter(|_| self.is_users && self.widens).map(|text| (text, Action::Allow));
        for (text, action) in narrower.chain(wider) {
            match self.rules(text, action) {
                Ok(read) => rules.extend(read),
                Err(whole) => {
                    odd.push(hidden::visible_line(text));
                    rules.extend(whole);
                }
            }
        }
        let more = odd.len().saturating_sub(MOST_NAMED);
        odd.truncate(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!odd.is_empty()).then(|| {
            Notice::new(format!(
                "{}: what these rules have in brackets is not understood here: {}{more}. One that forbids or asks counts for the whole tool",
                hidden::visible_line(&self.file.display().to_string()),
                odd.join(", ")
            ))
        })
    }

    /// The rules that one is here. Where its brackets mean nothing: those of the whole tool, of one that allows none.
    fn rules(&self, text: &str, action: Action) -> Result<Vec<Rule>, Vec<Rule>> {
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool.trim(), rest.trim_end().strip_suffix(')').map(str::trim)),
            None => (text.trim(), None),
        };
        let is_whole = !text.contains('(');
        let tools: Vec<String> = match tool {
            // Rules for every tool that reads or changes files.
            "Read" | "NotebookRead" => vec!["Read".to_owned()],
            "Edit" | "MultiEdit" | "NotebookEdit" | "Write" => vec!["Edit".to_owned()],
            "WebFetch" => vec!["net".to_owned()],
            "Agent" => ours("Task"),
            tool => ours(tool),
        };
        let with = |tool: &str, pattern: Option<&str>| {
            let text = pattern.map_or(tool.to_owned(), |pattern| format!("{tool}({pattern})"));
            let rule = read_rule(&text, action).ok()?;
            // Of the user's own file as if it stood here; of a repository's it lifts nobody's word.
            let voice = if self.is_users { Voice::User } else { Voice::Narrowing };
            Some(Rule { voice, layer: Some(self.file.display().to_string()), ..rule })
        };
        let whole = || tools.iter().filter_map(|tool| with(tool, None)).collect::<Vec<_>>();
        if is_whole {
            let read = whole();
            return if read.is_empty() { Err(read) } else { Ok(read) };
        }
        let read = pattern.zip(tools.first()).and_then(|(pattern, tool)| {
            let pattern = match tool.as_str() {
                "Read" | "Edit" => self.path(pattern),
                "task" => subagent::ours(pattern).to_owned(),
                // With words or without: it is the same skill.
                "skill" => [":*", " *"].iter().find_map(|any| pattern.strip_suffix(any)).unwrap_or(pattern).to_owned(),
                _ => pattern.to_owned(),
            };
            with(tool, Some(&pattern))
        });
        match read {
            Some(rule) => Ok(vec![rule]),
            None if action == Action::Allow => Err(Vec::new()),
            None => Err(whole()),
        }
    }

    /// A pattern of paths as it is written here: `//abs` is `/abs`, `/below` lies below the folder of the settings, `./x` and `x` below
    /// the workspace or anywhere.
    fn path(&self, pattern: &str) -> String {
        if let Some(absolute) = pattern.strip_prefix("//") {
            return format!("/{absolute}");
        }
        let below = |rest: &str| self.folder.join(rest).display().to_string();
        match pattern.strip_prefix('/') {
            Some(rest) => below(rest),
            None if pattern.starts_with('~') => pattern.to_owned(),
            None => {
                let rest = pattern.strip_prefix("./").unwrap_or(pattern);
                let is_here = self.is_users || self.folder == self.workspace;
                if rest.trim_end_matches('/').contains('/') && !is_here { below(rest) } else { rest.to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(is_users: bool, json: &str) -> (Vec<String>, Option<Notice>) {
        let settings: Settings = serde_json::from_str(json).unwrap();
        let mut rules = Vec::new();
        let source = Source {
            folder: Path::new("/r"),
            workspace: Path::new("/r/sub"),
            file: Path::new("/r/.claude/settings.json"),
            is_users,
            widens: true,
        };
        let notice = source.add(&settings.permissions, &mut rules);
        (rules.iter().map(|rule| format!("{} {rule}", rule.action.word())).collect(), notice)
    }

    #[test]
    fn what_narrows_is_taken_and_what_widens_of_the_users_own_file() {
        let json = r#"{"permissions": {"allow": ["Bash(npm run test:*)", "Read"], "ask": ["Bash(git push *)"],
                       "deny": ["Read(./.env)", "Read(./secrets/**)", "Edit(/lib/x)", "Read(//etc/shadow)", "Read(~/.ssh/**)",
                       "WebFetch(domain:example.com)", "WebSearch", "Grep", "mcp__x__y"]}, "model": "opus"}"#;
        let (rules, notice) = read(false, json);
        let expected = [
            "deny Read(.env)",
            "deny Read(/r/secrets/**)",
            "deny Edit(/r/lib/x)",
            "deny Read(/etc/shadow)",
            "deny Read(~/.ssh/**)",
            "deny net(domain:example.com)",
            "deny web_search",
            "deny grep",
            "deny mcp__x__y",
            "ask bash(git push *)",
        ];
        assert_eq!(rules, expected);
        assert_eq!(notice, None);
        let (rules, _) = read(true, json);
        assert!(rules.contains(&"deny Read(secrets/**)".to_owned()), "{rules:?}");
        assert!(rules.ends_with(&["allow bash(npm run test:*)".to_owned(), "allow Read".to_owned()]), "{rules:?}");
    }

    #[test]
    fn what_is_not_understood_narrows_the_whole_tool_and_is_named() {
        let json = r#"{"permissions": {"deny": ["Agent(model:opus)", "Skill(\u001b[2Jx *)"], "allow": ["Task(x y)"]}}"#;
        let (rules, notice) = read(true, json);
        assert_eq!(rules, ["deny task", "deny task_output", "deny task_stop", "deny skill"]);
        let notice = notice.unwrap().to_string();
        assert!(
            notice.contains("Agent(model:opus)") && !notice.contains('\u{1b}') && notice.contains("Task(x y)"),
            "{notice}"
        );
        let json = r#"{"permissions": {"deny": ["Agent(Explore)", "Task(critic)", "Skill(deploy *)", "Skill(db-*)"]}}"#;
        let (rules, notice) = read(false, json);
        assert_eq!(rules, ["deny task(explore)", "deny task(critic)", "deny skill(deploy)", "deny skill(db-*)"]);
        assert_eq!(notice, None);
        assert!(serde_json::from_str::<Settings>(r#"{"permissions": {"deny": "all"}}"#).is_err());
    }
}
