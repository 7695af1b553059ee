//! A skill as a file: `SKILL.md` in a folder of its own. The fields are those of agentskills.io and those that Claude Code adds.
//!
//! What is known and wrong leaves the skill out. A field that nobody knows is passed over and named, and so is a name that others
//! might not take: whoever wrote it for another program shall be able to use it here. How it should be, [`super::validate`] says.

use super::{Fork, Skill};
use crate::directions::Directions;
use crate::front_matter::{self, effort, line, list, located, truth, word};
use crate::tool_names::allowed;
use piton_core::hidden;
use piton_core::template;
use piton_tools::skill;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The file.
pub const FILE: &str = "SKILL.md";

/// Characters of a name, of a description, and of another field.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 1_536;
const FIELD_CHARS: usize = 500;
/// The most names of words, and of fields about it.
const MOST: usize = 50;

/// A skill that was read, and what of its file means nothing here.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// It.
    pub skill: Skill,
    /// Those fields.
    pub unknown: Vec<String>,
}

/// What is put together from several fields.
#[derive(Default)]
struct Parts {
    name: Option<String>,
    description: String,
    when: String,
    paths: Vec<String>,
    arguments: Vec<String>,
    allowed: Vec<String>,
    is_not_for_model: bool,
    is_fork: bool,
    fork: Fork,
}

/// Reads a skill. The error says what is wrong, and in which line where that is known.
pub fn read(path: &Path, text: &str) -> Result<Read, String> {
    let fields = front_matter::fields(text)?;
    let folder = path.parent().unwrap_or(path);
    let folder_name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut skill = Skill { file: path.to_owned(), is_for_people: true, ..Skill::default() };
    let (mut parts, mut unknown) = (Parts::default(), Vec::new());
    for (field, value) in &fields {
        if !known(field, value, &mut skill, &mut parts).map_err(|why| located(text, field, &why))? {
            unknown.push(line(field, NAME_CHARS));
        }
    }
    let mut allows = Vec::new();
    for said in &parts.allowed {
        match allowed(said) {
            Some(rules) => allows.extend(rules),
            None => unknown.push(format!("{} of allowed-tools", line(said, NAME_CHARS))),
        }
    }
    let name = parts.name.unwrap_or_else(|| folder_name.clone());
    if !is_name(&name) {
        let shown = hidden::visible_line(&name.chars().take(NAME_CHARS).collect::<String>());
        let why = format!("`{shown}` is not a valid name: up to {NAME_CHARS} letters, digits, - _ . and : are allowed");
        return Err(located(text, "name", &why));
    }
    if name != folder_name {
        unknown.push(format!("the name of its folder, {}, which is not its own", line(&folder_name, NAME_CHARS)));
    }
    let (body, hidden_chars) = hidden::strip(template::body(text.strip_prefix('\u{feff}').unwrap_or(text)));
    if hidden_chars > 0 {
        unknown.push(format!("{hidden_chars} hidden characters, which are taken out"));
    }
    let body = body.trim().to_owned();
    if parts.description.is_empty() {
        let first = body.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
        parts.description = line(first.unwrap_or_default(), DESCRIPTION_CHARS);
    }
    if parts.description.is_empty() {
        return Err("it has neither a description nor words".to_owned());
    }
    let paths = if parts.paths.is_empty() { String::new() } else { format!("For {}", parts.paths.join(", ")) };
    let said = [parts.description, parts.when, paths].into_iter().filter(|part| !part.is_empty());
    if parts.is_fork {
        skill.fork = Some(parts.fork);
    } else {
        let Fork { agent, model, effort } = parts.fork;
        skill.directions = Directions { model: model.and_then(Directions::model), effort, agent, subtask: None };
    }
    skill.given = Arc::new(skill::Skill {
        name,
        description: line(&said.collect::<Vec<_>>().join(" "), DESCRIPTION_CHARS),
        body,
        arguments: parts.arguments,
        is_claude: folder.components().any(|part| part.as_os_str() == ".claude"),
        folder: folder.to_owned(),
        is_for_model: !parts.is_not_for_model,
        allows,
        is_fork: parts.is_fork,
    });
    Ok(Read { skill, unknown })
}

/// Takes in a field, if it is one that is known.
fn known(field: &str, value: &Value, skill: &mut Skill, parts: &mut Parts) -> Result<bool, String> {
    let short = |most| Ok::<_, String>(line(&word(field, value)?, most));
    match field {
        "name" => parts.name = Some(word(field, value)?),
        "description" => parts.description = short(DESCRIPTION_CHARS)?,
        "when_to_use" | "when-to-use" => parts.when = short(DESCRIPTION_CHARS)?,
        "license" => skill.license = Some(short(FIELD_CHARS)?),
        "compatibility" => skill.compatibility = Some(short(FIELD_CHARS)?),
        "metadata" => {
            let Value::Object(fields) = value else { return Err("metadata: a list of fields is wanted".to_owned()) };
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pairs = fields.iter().take(MOST);
            skill.metadata =
                pairs.map(|(key, value)| (line(key, NAME_CHARS), line(&text(value), FIELD_CHARS))).collect();
        }
        "allowed-tools" | "allowed_tools" => {
            parts.allowed = list(field, value)?.into_iter().take(MOST).collect();
        }
        "argument-hint" => skill.argument_hint = Some(hint(value)),
        "arguments" => parts.arguments = arguments(field, value)?,
        "disable-model-invocation" => parts.is_not_for_model = truth(field, value)?,
        "user-invocable" => skill.is_for_people = truth(field, value)?,
        "model" => parts.fork.model = Some(word(field, value)?),
        "effort" => parts.fork.effort = Some(effort(field, value)?),
        "context" => match word(field, value)?.as_str() {
            "fork" => parts.is_fork = true,
            "inline" => {}
            other => return Err(format!("context: `{}` is none: fork, inline", line(other, NAME_CHARS))),
        },
        "agent" => parts.fork.agent = Some(word(field, value)?),
        "paths" => parts.paths = list(field, value)?.iter().take(MOST).map(|path| line(path, FIELD_CHARS)).collect(),
        "version" | "author" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    !name.is_empty() && name.chars().count() <= NAME_CHARS && name.chars().all(fits)
}

/// `[file] [type]` is written without quotes, too, which is a list to YAML.
fn hint(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    };
    line(&text, FIELD_CHARS)
}

fn arguments(field: &str, value: &Value) -> Result<Vec<String>, String> {
    let names = list(field, value)?;
    let is_name = |name: &String| {
        name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
            && name.starts_with(|c: char| !c.is_ascii_digit())
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("arguments: `{}` is no name for a word", line(name, NAME_CHARS))),
        None => Ok(names.into_iter().take(MOST).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(text: &str) -> Result<Read, String> {
        read(Path::new("/w/.claude/skills/pdf/SKILL.md"), text)
    }

    #[test]
    fn a_skill_of_agentskills_io_is_read() {
        let text = "---\nname: pdf\ndescription: Reads PDF files. Use when: forms come up\nlicense: MIT\ncompatibility: needs \
                    poppler\nmetadata:\n  author: example\n  version: 1.0\nallowed-tools: Bash(pdftotext:*) Read\n---\n\n# PDF\n\nDo it.\n";
        let Read { skill, unknown } = skill(text).unwrap();
        let given = &skill.given;
        assert_eq!(
            (given.name.as_str(), given.description.as_str()),
            ("pdf", "Reads PDF files. Use when: forms come up")
        );
        assert_eq!((given.body.as_str(), given.folder.to_str()), ("# PDF\n\nDo it.", Some("/w/.claude/skills/pdf")));
        assert_eq!((skill.license.as_deref(), skill.compatibility.as_deref()), (Some("MIT"), Some("needs poppler")));
        assert_eq!(skill.metadata["author"], "example");
        assert_eq!(given.allows, ["bash(pdftotext:*)", "Read"]);
        assert!(given.is_for_model && skill.is_for_people && skill.fork.is_none() && unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn the_fields_of_claude_code_are_read() {
        let text = "---\ndescription: Ships it\nwhen_to_use: After a release was tagged\nargument-hint: [target] [version]\n\
                    arguments: target version\ndisable-model-invocation: true\nuser-invocable: true\nmodel: sonnet\neffort: high\n\
                    context: fork\nagent: Explore\npaths: src/**/*.rs, docs/*\nhooks: {}\n---\nShip $version to $target.";
        let text = text.replace("[target] [version]", "\"[target] [version]\"");
        let Read { skill, unknown } = skill(&text).unwrap();
        assert_eq!(skill.name(), "pdf", "without a name, the folder's");
        assert_eq!(skill.given.description, "Ships it After a release was tagged For src/**/*.rs, docs/*");
        assert_eq!(skill.given.filled("prod 1.2"), "Ship 1.2 to prod.");
        assert!(!skill.given.is_for_model && skill.is_for_people);
        let fork = skill.fork.unwrap();
        assert_eq!(
            (fork.agent(), fork.model.as_deref(), fork.effort),
            ("Explore", Some("sonnet"), Some(piton_core::effort::Effort::High))
        );
        assert_eq!(unknown, ["hooks"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_nothing_raw_gets_through() {
        for (text, words) in [
            ("---\nname: [\n---\nx", "not valid YAML"),
            ("---\nname: x\nno end", "no end"),
            ("---\ndescription: x\nname: \"a b\"\n---\nx", "line 3: `a b` is not a valid name"),
            (
                "---\nname: pdf\ndescription: x\nuser-invocable: perhaps\n---\nx",
                "line 4: user-invocable: true or false",
            ),
            ("---\ncontext: spoon\n---\nx", "line 2: context: `spoon` is none: fork, inline"),
            ("---\neffort: enormous\n---\nx", "line 2: effort"),
            ("---\narguments: \"$a\"\n---\nx", "is no name for a word"),
            ("---\nmetadata: x\n---\nx", "a list of fields is wanted"),
            ("---\nname: pdf\n---\n\n", "neither a description nor words"),
        ] {
            let error = skill(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        let Read { skill: found, unknown } =
            skill("---\ndescription: \"a\\u001b[2Jb\\u202ec\"\n---\nx\u{1b}[2J\u{202e}y").unwrap();
        assert!(!found.given.description.contains(['\u{1b}', '\u{202e}']), "{:?}", found.given.description);
        assert_eq!(
            (found.given.body.as_str(), unknown),
            ("x[2Jy", vec!["2 hidden characters, which are taken out".to_owned()])
        );
        let long = format!("---\ndescription: {}\n---\nx", "y".repeat(10_000));
        assert_eq!(skill(&long).unwrap().skill.given.description.chars().count(), DESCRIPTION_CHARS);
        let other = skill("---\nname: other\n---\nFirst line.\n").unwrap();
        assert_eq!((other.skill.given.description.as_str(), other.unknown.len()), ("First line.", 1));
    }
}
