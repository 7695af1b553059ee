//! The `permission` block of OpenCode's configuration, where the user asks for it (`[opencode] permissions = true`): what the user's own file
//! says counts as if it stood in Piton's; of a repository's, what forbids or asks.
//!
//! There the last pattern that matches counts, here the most particular one. So a pattern that a later one covers is left out, and one that
//! allows something in whose middle anything may stand is not taken where a later one forbids or asks. What cannot be said here is named.

use super::jsonc;
use super::machine::Machine;
use super::notice::Notice;
use super::opencode::{OF_HOME, OF_REPOSITORY};
use crate::config::Config;
use crate::config::trust::repository;
use crate::permission::read_rule;
use crate::tool_names::ours;
use piton_core::hidden;
use piton_core::permission::{Action, Rule, Rules, Voice};
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Rules that a notice names.
const MOST_NAMED: usize = 5;

/// Adds them to the rules of a session, before what the configuration says: among equals the last counts.
pub(super) fn add_to(
    rules: &mut Rules,
    config: &Config,
    machine: &Machine,
    workspace: &Path,
    notices: &mut Vec<Notice>,
) {
    if config.opencode.permissions != Some(true) {
        return;
    }
    let root = repository(workspace);
    let folders: Vec<&Path> = workspace.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    let of_repository = folders.iter().flat_map(|folder| OF_REPOSITORY.map(|name| (folder.join(name), false)));
    let home = machine.var("HOME").map(PathBuf::from);
    let of_user = home.into_iter().flat_map(|home| OF_HOME.map(|name| (home.join(name), true)));
    let mut theirs = Vec::new();
    for (file, is_users) in of_repository.chain(of_user) {
        let shown = hidden::visible_line(&file.display().to_string());
        match block(&file) {
            Ok(Some(said)) => {
                let read = Translation::of(&said, is_users);
                let layer = |rule| Rule { layer: Some(file.display().to_string()), ..rule };
                theirs.extend(read.rules.into_iter().map(layer));
                notices.extend(named(&shown, read.left_out));
            }
            Ok(None) => {}
            Err(why) => notices.push(Notice::new(format!("no permissions are taken of {shown}: {why}"))),
        }
    }
    rules.0.splice(0..0, theirs);
}

/// The block of a file; `None` where there is no file, or no block in it.
fn block(file: &Path) -> Result<Option<Value>, String> {
    let text = match regular::text(file, SETTINGS_BYTES) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    let mut said = jsonc::parse(&text)?;
    Ok(said.get_mut("permission").map(Value::take))
}

fn named(file: &str, mut left_out: Vec<String>) -> Option<Notice> {
    let more = left_out.len().saturating_sub(MOST_NAMED);
    left_out.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!left_out.is_empty()).then(|| {
        Notice::new(format!(
            "{file}: these permissions cannot be translated: {}{more}. One that forbids or asks counts for the whole tool",
            left_out.join(", ")
        ))
    })
}

/// What a block comes to.
#[derive(Debug, Default)]
struct Translation {
    rules: Vec<Rule>,
    /// What could not be said here.
    left_out: Vec<String>,
    is_users: bool,
}

impl Translation {
    fn of(said: &Value, is_users: bool) -> Self {
        let mut read = Self { is_users, ..Self::default() };
        match said {
            Value::Object(tools) => tools.iter().for_each(|(tool, said)| read.tool(tool, said)),
            // For everything at once.
            said => read.tool("*", said),
        }
        read
    }

    fn tool(&mut self, tool: &str, said: &Value) {
        let Value::Object(patterns) = said else {
            match action(said) {
                Some(action) => self.whole(tool, action),
                None => self.cannot(tool, &said.to_string()),
            }
            return;
        };
        let all: Vec<(&str, Option<Action>)> =
            patterns.iter().map(|(pattern, said)| (pattern.as_str(), action(said))).collect();
        for (at, (pattern, action)) in all.iter().enumerate() {
            let Some(action) = *action else {
                self.cannot(tool, pattern);
                continue;
            };
            let later = &all[at + 1..];
            let is_covered = later.iter().any(|(other, _)| covers(other, pattern));
            let is_in_doubt = action == Action::Allow
                && pattern.trim_end_matches('*').contains('*')
                && later.iter().any(|(_, other)| *other != Some(Action::Allow));
            match (is_covered, is_in_doubt) {
                (true, _) => {}
                (false, true) => self.cannot(tool, pattern),
                (false, false) if *pattern == "*" => self.whole(tool, action),
                (false, false) => self.with_pattern(tool, pattern, action),
            }
        }
    }

    fn cannot(&mut self, tool: &str, pattern: &str) {
        self.left_out.push(hidden::visible_line(&format!("{tool}({pattern})")));
    }

    /// A rule for a tool, whatever its call.
    fn whole(&mut self, tool: &str, action: Action) {
        match tool {
            // There as here a person is asked about what lies elsewhere.
            "external_directory" if action == Action::Ask => {}
            // Nothing here is called so: what is not there needs no ban.
            "codesearch" | "lsp" | "doom_loop" if action != Action::Ask => {}
            "external_directory" | "codesearch" | "lsp" | "doom_loop" => self.cannot(tool, "*"),
            "read" if action != Action::Allow => self.add("Read", action),
            "edit" | "write" | "patch" | "multiedit" => self.add("Edit", action),
            tool => match (tool, tool.strip_suffix("_*")) {
                ("*", _) => self.add("*", action),
                // The tools of a server.
                (_, Some(server)) if !server.contains('*') => self.add(&format!("mcp__{server}__*"), action),
                _ => ours(tool).iter().for_each(|tool| self.add(tool, action)),
            },
        }
    }

    fn with_pattern(&mut self, tool: &str, pattern: &str, action: Action) {
        let rule = match tool {
            "bash" => Some(format!("bash({pattern})")),
            "read" => Some(format!("Read({})", path(pattern, action))),
            "edit" | "write" | "patch" | "multiedit" => Some(format!("Edit({})", path(pattern, action))),
            "list" => Some(format!("list({})", path(pattern, action))),
            // Whoever may look there need not be asked about it.
            "external_directory" if action == Action::Allow => Some(format!("Read({})", path(pattern, action))),
            "external_directory" if action == Action::Ask => return,
            "webfetch" => host(pattern).map(|host| format!("net(domain:{host})")),
            "task" => Some(format!("task({pattern})")),
            "skill" => Some(format!("skill({pattern})")),
            _ => None,
        };
        match rule.as_deref().filter(|rule| read_rule(rule, action).is_ok()) {
            Some(rule) => self.add(rule, action),
            None => {
                self.cannot(tool, pattern);
                if action != Action::Allow {
                    self.whole(tool, action);
                }
            }
        }
    }

    fn add(&mut self, rule: &str, action: Action) {
        // What a repository allows, the user has not.
        if action == Action::Allow && !self.is_users {
            return;
        }
        let voice = if self.is_users { Voice::User } else { Voice::Narrowing };
        match read_rule(rule, action) {
            Ok(rule) => self.rules.push(Rule { voice, ..rule }),
            Err(_) => self.left_out.push(hidden::visible_line(rule)),
        }
    }
}

fn action(said: &Value) -> Option<Action> {
    Action::ALL.into_iter().find(|action| said.as_str() == Some(action.word()))
}

/// Whether whatever one pattern names, the other names, too: `git *` covers `git push *`.
fn covers(pattern: &str, other: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = other.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            let Some(at) = rest.find(before) else { return false };
            rest = &rest[at + before.len()..];
        }
    }
    last.map_or(rest.is_empty(), |end| rest.ends_with(end))
}

/// A pattern of paths. There a star stands for folders, too; what allows becomes no wider by that.
fn path(pattern: &str, action: Action) -> String {
    let home = pattern.strip_prefix("$HOME").map(|rest| format!("~{rest}"));
    let pattern = home.as_deref().unwrap_or(pattern);
    let parts: Vec<&str> = pattern.split('/').collect();
    let last = parts.len() - 1;
    let part = |(at, part): (usize, &&str)| match *part {
        "*" if at == last || action != Action::Allow => "**".to_owned(),
        // Of one without folders the name counts wherever it lies.
        part if part.contains('*') && at == last && last > 0 && action != Action::Allow => format!("**/{part}"),
        part => part.to_owned(),
    };
    parts.iter().enumerate().map(part).collect::<Vec<_>>().join("/")
}

/// The host of a pattern of addresses that names all of it.
fn host(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix("https://").or_else(|| pattern.strip_prefix("http://")).unwrap_or(pattern);
    let host = rest.strip_suffix("/*").or_else(|| rest.strip_suffix('*')).unwrap_or(rest).trim_end_matches('/');
    let host = host.trim_start_matches("*://");
    (!host.is_empty() && !host.contains('/')).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(is_users: bool, json: &str) -> (Vec<String>, Vec<String>) {
        let read = Translation::of(&jsonc::parse(json).unwrap(), is_users);
        (read.rules.iter().map(|rule| format!("{} {rule}", rule.action.word())).collect(), read.left_out)
    }

    #[test]
    fn what_it_says_of_tools_and_patterns_is_said_here() {
        let json = r#"{
            "*": "ask", // everything
            "bash": {"*": "ask", "git *": "allow", "git push *": "deny"},
            "edit": {"*": "deny", "docs/*.md": "allow"},
            "read": {"*": "allow", "*.env": "deny", "config/*/key": "deny", "$HOME/.aws/*": "deny"},
            "webfetch": {"https://evil.test/*": "deny"},
            "task": {"critic": "deny"}, "skill": "ask", "todowrite": "allow", "db_*": "deny",
            "external_directory": {"~/other/*": "allow"}, "doom_loop": "deny",
        }"#;
        let (rules, left_out) = read(true, json);
        let expected = [
            "ask *",
            "ask bash",
            "ask bash_output",
            "ask bash_kill",
            "allow bash(git *)",
            "deny bash(git push *)",
            "deny Edit",
            "allow Edit(docs/*.md)",
            "allow read",
            "deny Read(*.env)",
            "deny Read(config/**/key)",
            "deny Read(~/.aws/**)",
            "deny net(domain:evil.test)",
            "deny task(critic)",
            "ask skill",
            "allow todo",
            "deny mcp__db__*",
            "allow Read(~/other/**)",
        ];
        assert_eq!(rules, expected);
        assert_eq!(left_out, Vec::<String>::new());
        // Of a repository what narrows.
        let (rules, _) = read(false, json);
        assert!(rules.iter().all(|rule| !rule.starts_with("allow")) && rules.contains(&"deny Edit".to_owned()));
        assert_eq!(read(true, r#""allow""#).0, ["allow *"]);
    }

    #[test]
    fn the_last_that_matches_counts_there_and_none_becomes_wider_here() {
        let (rules, left_out) = read(true, r#"{"bash": {"git *": "allow", "rm *": "deny", "*": "deny"}}"#);
        assert_eq!(rules, ["deny bash", "deny bash_output", "deny bash_kill"]);
        assert_eq!(left_out, Vec::<String>::new());
        let (rules, left_out) = read(true, r#"{"bash": {"git * --force": "allow", "git push *": "deny"}}"#);
        assert_eq!(
            (rules, left_out),
            (vec!["deny bash(git push *)".to_owned()], vec!["bash(git * --force)".to_owned()])
        );
        let (rules, _) = read(true, r#"{"bash": {"git push *": "allow", "git *": "ask"}}"#);
        assert_eq!(rules, ["ask bash(git *)"]);
        for (one, other, expected) in [
            ("git *", "git push *", true),
            ("git push *", "git *", false),
            ("*", "x", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("x", "x", true),
        ] {
            assert_eq!(covers(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_named_and_narrows_the_whole_tool() {
        let json = r#"{"grep": {"secret*": "deny"}, "webfetch": {"https://a.test/x/*": "ask", "https://b.test/y/*": "allow"},
                       "bash": {"x": "maybe"}, "external_directory": "deny", "lsp": "ask"}"#;
        let (rules, left_out) = read(true, json);
        assert_eq!(rules, ["deny grep", "ask web_fetch"]);
        let expected = [
            "grep(secret*)",
            "webfetch(https://a.test/x/*)",
            "webfetch(https://b.test/y/*)",
            "bash(x)",
            "external_directory(*)",
            "lsp(*)",
        ];
        assert_eq!(left_out, expected);
        let notice = named("f", left_out).unwrap().to_string();
        assert!(notice.contains("grep(secret*)") && notice.contains("and 1 more"), "{notice}");
    }
}
