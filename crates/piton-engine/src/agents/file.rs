//! An agent as a file: Markdown whose front matter says what it is, and whose body is its words. The fields are those that Claude
//! Code and OpenCode have, with the names of their tools.
//!
//! A field that nobody knows is passed over and named; one that is known and wrong leaves the agent out.

use super::Agent;
use crate::front_matter::{self, effort, line, list, located, truth, word};
use crate::hooks::HookTable;
use crate::permission::read_rule;
use crate::tool_names::{is_known, ours};
use piton_core::hidden;
use piton_core::permission::{Action, PermissionMode, Rule, Rules};
use piton_core::template;
use serde_json::{Map, Value};
use std::path::Path;

/// Characters of a name, and of a description.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 1_000;

/// An agent that was read, and the fields of its file that mean nothing here.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// It.
    pub agent: Agent,
    /// Those fields.
    pub unknown: Vec<String>,
}

/// Reads an agent. The error says what is wrong, and in which line where that is known.
pub fn read(path: &Path, text: &str) -> Result<Read, String> {
    let fields = front_matter::fields(text)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    of_fields(path, (&stem, template::body(text).trim()), &fields, text)
        .map_err(|(field, why)| located(text, &field, &why))
}

/// Reads one that stands in a table by its name, with its words as `prompt`.
pub fn of_table(path: &Path, name: &str, said: &Value) -> Result<Read, String> {
    let Value::Object(fields) = said else { return Err("a list of fields is wanted".to_owned()) };
    let mut fields = fields.clone();
    let prompt = match fields.remove("prompt") {
        Some(Value::String(prompt)) => prompt,
        Some(_) => return Err("prompt: a text is wanted".to_owned()),
        None => String::new(),
    };
    of_fields(path, (name, prompt.trim()), &fields, &said.to_string()).map_err(|(_, why)| why)
}

/// The error names the field that is wrong.
fn of_fields(
    path: &Path,
    (name, prompt): (&str, &str),
    fields: &Map<String, Value>,
    text: &str,
) -> Result<Read, (String, String)> {
    let mut agent = Agent {
        name: name.to_owned(),
        prompt: prompt.to_owned(),
        is_subagent: true,
        is_primary: true,
        file: Some(path.to_owned()),
        hash: Some(blake3::hash(text.as_bytes()).to_hex().to_string()),
        ..Agent::default()
    };
    let mut unknown = Vec::new();
    for (field, value) in fields {
        known(field, value, &mut agent, &mut unknown).map_err(|why| (field.clone(), why))?;
    }
    let is_name = |name: &str| {
        let fits = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
        !name.is_empty() && name.chars().count() <= NAME_CHARS && name.chars().all(fits)
    };
    if !is_name(&agent.name) {
        let name = hidden::visible_line(&agent.name.chars().take(NAME_CHARS).collect::<String>());
        let why = format!("`{name}` is not a valid name: up to {NAME_CHARS} letters, digits, - _ . and : are allowed");
        return Err(("name".to_owned(), why));
    }
    if agent.description.is_empty() {
        agent.description = line(agent.prompt.lines().next().unwrap_or_default(), DESCRIPTION_CHARS);
    }
    Ok(Read { agent, unknown })
}

/// Takes in a field, or names it where it means nothing here.
fn known(field: &str, value: &Value, agent: &mut Agent, unknown: &mut Vec<String>) -> Result<(), String> {
    match field {
        "name" => agent.name = word(field, value)?,
        "description" => agent.description = line(&word(field, value)?, DESCRIPTION_CHARS),
        "tools" => {
            tools(value, agent)?;
            let in_brackets = list(field, value).unwrap_or_default().into_iter().filter(|name| name.contains('('));
            unknown.extend(in_brackets.map(|name| format!("the pattern of {}", line(&name, NAME_CHARS))));
            let missing = agent.tools.iter().flatten().filter(|name| !is_known(name));
            unknown.extend(missing.map(|name| format!("the tool {}", line(name, NAME_CHARS))));
        }
        "disallowedTools" | "disallowed-tools" => {
            for name in list(field, value)? {
                match forbidden(&name) {
                    Some(rule) => agent.rules.0.push(rule),
                    None => agent.without.extend(ours(&name)),
                }
            }
        }
        "permission" => permission(value, &mut agent.rules)?,
        "permissionMode" => agent.mode = mode(&word(field, value)?)?,
        "model" => agent.model = Some(word(field, value)?),
        "effort" | "variant" | "reasoningEffort" => agent.effort = Some(effort(field, value)?),
        "temperature" => agent.temperature = Some(number(field, value, 2.0)?),
        "top_p" | "topP" => agent.top_p = Some(number(field, value, 1.0)?),
        "initialPrompt" => agent.initial_prompt = Some(word(field, value)?).filter(|prompt| !prompt.is_empty()),
        "maxTurns" | "steps" | "max_steps" => {
            let most = value.as_u64().and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
            agent.max_steps = Some(most.ok_or_else(|| format!("{field}: a number from 1 on is wanted"))?);
        }
        "mode" => match word(field, value)?.as_str() {
            "primary" => agent.is_subagent = false,
            "subagent" => agent.is_primary = false,
            "all" => {}
            other => {
                let known = "`primary`, `subagent` and `all`";
                return Err(format!("mode: `{}` is not known, only {known}", line(other, NAME_CHARS)));
            }
        },
        "hidden" => agent.is_subagent &= !truth(field, value)?,
        "disable" => {
            let is_disabled = truth(field, value)?;
            agent.is_subagent &= !is_disabled;
            agent.is_primary &= !is_disabled;
        }
        "background" => agent.background = truth(field, value)?,
        "isolation" => match word(field, value)?.as_str() {
            "worktree" => agent.worktree = true,
            other => return Err(format!("isolation: `{}` is not known, only `worktree`", line(other, NAME_CHARS))),
        },
        "skills" => agent.skills = list(field, value)?,
        "hooks" => agent.hooks = hooks(value, unknown)?,
        "mcpServers" => servers(value, agent)?,
        "color" | "colour" | "license" | "metadata" | "version" | "author" => {}
        other => unknown.push(line(other, NAME_CHARS)),
    }
    Ok(())
}

/// A number from 0 to this.
fn number(field: &str, value: &Value, most: f64) -> Result<f64, String> {
    let number = value.as_f64().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("{field}: a number from 0 to {most} is wanted"))
}

/// As in settings of Claude Code. What of them cannot be run is named.
fn hooks(value: &Value, unknown: &mut Vec<String>) -> Result<HookTable, String> {
    let wrong = |why: String| format!("hooks: {}", hidden::visible_line(&why));
    let table: HookTable = serde_json::from_value(value.clone()).map_err(|error| wrong(error.to_string()))?;
    let read = table.read(false).map_err(|error| wrong(error.to_string()))?;
    let events = read.unknown_events.into_iter().map(|event| format!("hooks of {}", line(&event, NAME_CHARS)));
    unknown.extend(events.chain(read.notices.iter().map(|notice| hidden::visible_line(notice))));
    Ok(table)
}

/// Names of servers of the session, and servers of its own; a list of both, or a table of the latter.
fn servers(value: &Value, agent: &mut Agent) -> Result<(), String> {
    let all = match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    for said in all {
        match said {
            Value::String(name) => agent.named_servers.push(name.clone()),
            Value::Object(own) => agent.servers.extend(own.clone()),
            _ => return Err("mcpServers: names and entries of servers are wanted".to_owned()),
        }
    }
    Ok(())
}

/// What of a tool an agent must not do: `Bash(rm:*)`.
fn forbidden(name: &str) -> Option<Rule> {
    read_rule(name, Action::Deny).ok().filter(|rule| rule.pattern.is_some())
}

/// A list, one text with commas, or whether each is there.
fn tools(value: &Value, agent: &mut Agent) -> Result<(), String> {
    if let Value::Object(each) = value {
        for (name, is_there) in each {
            match truth(&format!("tools: {}", line(name, NAME_CHARS)), is_there)? {
                true => {}
                false if name == "*" => agent.tools = Some(agent.tools.take().unwrap_or_default()),
                false => agent.without.extend(ours(name)),
            }
        }
        if let Some(tools) = &mut agent.tools {
            let named = each.iter().filter(|(name, is_there)| truth(name, is_there) == Ok(true));
            tools.extend(named.flat_map(|(name, _)| ours(name)));
        }
        return Ok(());
    }
    let named = list("tools", value)?;
    if !named.iter().any(|name| name == "*") {
        agent.tools = Some(named.iter().flat_map(|name| ours(name)).collect());
    }
    Ok(())
}

/// OpenCode's: a tool, or a tool's patterns, and what becomes of it.
fn permission(value: &Value, rules: &mut Rules) -> Result<(), String> {
    let Value::Object(tools) = value else { return Err("permission: a list of tools is wanted".to_owned()) };
    let mut add = |rule: String, action: &Value| {
        let action = match action.as_str() {
            Some("allow") => return Ok(()), // It allows no more than its caller may.
            Some("ask") => Action::Ask,
            Some("deny") => Action::Deny,
            _ => return Err(format!("permission: {}: allow, ask or deny is wanted", line(&rule, NAME_CHARS))),
        };
        rules.0.push(read_rule(&rule, action).map_err(|error| format!("permission: {error}"))?);
        Ok(())
    };
    for (tool, said) in tools {
        // A pattern is one of the tool itself, not of those that come with it.
        let both = ours(tool);
        let most = if said.is_object() { 1 } else { both.len() };
        for tool in both.into_iter().take(most) {
            match said {
                Value::Object(patterns) => {
                    for (pattern, action) in patterns {
                        add(if pattern == "*" { tool.clone() } else { format!("{tool}({pattern})") }, action)?;
                    }
                }
                action => add(tool, action)?,
            }
        }
    }
    Ok(())
}

fn mode(word: &str) -> Result<Option<PermissionMode>, String> {
    Ok(match word {
        "plan" => Some(PermissionMode::Plan),
        "default" | "ask" | "manual" | "dontAsk" => Some(PermissionMode::Ask),
        "acceptEdits" | "accept-edits" => Some(PermissionMode::AcceptEdits),
        // As much as its caller, and no more.
        "auto" | "bypassPermissions" => None,
        _ => {
            return Err(format!(
                "permissionMode: `{}` is none: plan, default, acceptEdits, auto",
                line(word, NAME_CHARS)
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> Result<Read, String> {
        read(Path::new("/w/.claude/agents/reviewer.md"), text)
    }

    #[test]
    fn an_agent_of_claude_code_is_read() {
        let text = "---\nname: code-reviewer\ndescription: Use it when: code was changed. PROACTIVELY\ntools: Read, Grep, \
                    Bash(git diff:*)\nmodel: sonnet\npermissionMode: plan\nmaxTurns: 12\ncolor: red\nmemory: user\n---\n\
                    You review.\n\nBe short.\n";
        let Read { agent, unknown } = agent(text).unwrap();
        assert_eq!(agent.name, "code-reviewer");
        assert_eq!(agent.description, "Use it when: code was changed. PROACTIVELY");
        let tools = agent.tools.unwrap();
        assert_eq!(tools, ["read", "grep", "bash", "bash_output", "bash_kill"]);
        assert_eq!(
            (agent.model.as_deref(), agent.mode, agent.max_steps),
            (Some("sonnet"), Some(PermissionMode::Plan), Some(12))
        );
        assert_eq!(agent.prompt, "You review.\n\nBe short.");
        assert!(agent.is_subagent);
        assert_eq!(unknown, ["the pattern of Bash(git diff:*)", "memory"]);
    }

    #[test]
    fn a_pattern_that_is_disallowed_is_a_rule_and_a_tool_that_there_is_not_is_named() {
        let text = "---\ntools: Read, Frobnicate, mcp__db__query\ndisallowedTools: Bash(rm:*), Write\n---\nx";
        let Read { agent, unknown } = agent(text).unwrap();
        assert_eq!(agent.rules.0.iter().map(ToString::to_string).collect::<Vec<_>>(), ["bash(rm:*)"]);
        assert_eq!(
            (agent.rules.0[0].action, &agent.without[..]),
            (Action::Deny, &["write".into(), "apply_patch".into()][..])
        );
        assert_eq!(unknown, ["the tool Frobnicate"]);
    }

    #[test]
    fn an_agent_of_opencode_is_read() {
        let text = "---\ndescription: Reviews\nmode: subagent\ntools:\n  write: false\n  edit: false\npermission:\n  bash:\n    \
                    \"*\": ask\n    \"git diff\": allow\n    \"rm *\": deny\n  webfetch: deny\n---\nYou review.\n";
        let Read { agent, unknown } = agent(text).unwrap();
        assert_eq!((agent.name.as_str(), agent.tools), ("reviewer", None));
        assert_eq!(agent.without, ["write", "apply_patch", "edit", "apply_patch"]);
        let rules: Vec<String> = agent.rules.0.iter().map(|rule| format!("{} {rule}", rule.action.word())).collect();
        assert!(
            rules.contains(&"deny bash(rm *)".to_owned()) && rules.contains(&"deny web_fetch".to_owned()),
            "{rules:?}"
        );
        assert!(rules.iter().all(|rule| !rule.starts_with("allow")), "{rules:?}");
        assert!(unknown.is_empty());
        assert!(!self::agent("---\nmode: primary\n---\nx").unwrap().agent.is_subagent);
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_raw_gets_through() {
        for (text, words) in [
            ("---\nname: [\n---\nx", "not valid YAML"),
            ("---\nname: x\nno end", "no end"),
            ("---\n- a\n- b\n---\nx", "not a list of fields"),
            ("---\nname: \"a b\"\n---\nx", "is not a valid name"),
            ("---\nmaxTurns: 0\n---\nx", "from 1 on"),
            ("---\nmaxTurns: many\n---\nx", "from 1 on"),
            ("---\ntemperature: hot\n---\nx", "temperature: a number from 0 to 2 is wanted"),
            ("---\ntop_p: 1.5\n---\nx", "top_p: a number from 0 to 1 is wanted"),
            ("---\npermissionMode: wild\n---\nx", "is none"),
            ("---\nname: x\nmode: subagnet\n---\nx", "line 3: mode: `subagnet` is not known, only `primary`"),
            ("---\nmode: [all]\n---\nx", "mode"),
            ("---\nisolation: container\n---\nx", "isolation: `container` is not known"),
            ("---\npermission:\n  bash: maybe\n---\nx", "allow, ask or deny"),
            ("---\ntools:\n  bash: perhaps\n---\nx", "true or false"),
            ("---\neffort: enormous\n---\nx", "is none"),
        ] {
            let error = agent(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        let read = agent("---\ndescription: \"a\\u001b[2Jb\\u202ec\"\n---\nx").unwrap();
        assert!(!read.agent.description.contains(['\u{1b}', '\u{202e}']), "{:?}", read.agent.description);
        let long = format!("---\ndescription: {}\n---\nx", "y".repeat(10_000));
        assert_eq!(agent(&long).unwrap().agent.description.chars().count(), DESCRIPTION_CHARS);
        let bomb = format!(
            "---\na: &a [x]\n{}---\nx",
            (0..100).map(|at| format!("b{at}: [{}]\n", "*a, ".repeat(10_000))).collect::<String>()
        );
        assert!(agent(&bomb).is_err(), "aliases without end are refused");
    }

    #[test]
    fn without_front_matter_the_file_is_all_words() {
        let Read { agent, .. } = agent("Reviews code.\n\nIt is strict.").unwrap();
        assert_eq!((agent.name.as_str(), agent.description.as_str()), ("reviewer", "Reviews code."));
        assert_eq!(agent.prompt, "Reviews code.\n\nIt is strict.");
    }
}
