//! Slash commands: prompts that people keep in files and run by name. Skills can be run like commands.
//!
//! [`crate::settings::Settings::commands`] provides them; the driver expands one when a prompt names it.

use crate::directions::Directions;
use crate::front_matter::{effort, fields, line, list, located, truth, word};
use crate::spelling::did_you_mean;
use crate::tool_names::allowed;
use piton_core::call::Picture;
use piton_core::hidden;
use piton_core::template::{self, Piece, Places};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The maximum length of a description or an argument hint, in characters.
const DESCRIPTION_CHARS: usize = 1_000;
const HINT_CHARS: usize = 100;

/// The maximum length of a name, in characters.
const NAME_CHARS: usize = 128;

/// Finds commands by their names.
pub trait Commands: Send + Sync {
    /// The commands that were in force when the session was opened, by name.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Fails if nothing has this name; a command that the user does not trust is found. No server is asked for its prompts.
    /// May block its thread.
    fn find(&self, name: &str, workspace: &Path) -> Result<(), CommandError>;

    /// Expands the template of this command with the given words, for a session in this workspace. May block its
    /// thread.
    fn expand(&self, name: &str, words: &str, workspace: &Path) -> Result<Expanded, CommandError>;
}

/// An expanded command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The prompt, with the shell commands whose output it includes.
    pub pieces: Vec<Piece>,
    /// Pictures that belong to it.
    pub pictures: Vec<Picture>,
    /// What it allows until the end of the turn that reads it, as rules.
    pub allows: Vec<String>,
    /// How it is carried out.
    pub directions: Directions,
    /// Its file, if it has one.
    pub file: PathBuf,
}

impl Expanded {
    /// A prompt that allows nothing and is carried out like any other.
    pub fn of(pieces: Vec<Piece>) -> Self {
        let (pictures, allows) = (Vec::new(), Vec::new());
        Self { pieces, pictures, allows, directions: Directions::default(), file: PathBuf::new() }
    }
}

/// Why a command cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The name is not a valid command name.
    #[error("`{0}` is not a valid command name: letters, digits, - _ . and : are allowed")]
    Name(String),
    /// There is no such command.
    #[error("unknown command `{name}`; `piton command` lists commands{}", did_you_mean(name, known.iter().map(String::as_str)))]
    Missing {
        /// The given name.
        name: String,
        /// The existing commands.
        known: Vec<String>,
    },
    /// It belongs to the repository, and the user does not trust its present version.
    #[error(
        "{} is ignored: you have not approved its current version. `piton trust` shows it and asks; `--trust` approves it for one run",
        file.display()
    )]
    Untrusted {
        /// Its file.
        file: PathBuf,
    },
    /// Its file is malformed.
    #[error("{} cannot be used: {why}", file.display())]
    Broken {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Several names end in this one.
    #[error("`{name}` is the end of several names: {}", known.join(", "))]
    Several {
        /// The given name.
        name: String,
        /// Their full names.
        known: Vec<String>,
    },
    /// Its file is empty.
    #[error("{} is empty", file.display())]
    Empty {
        /// Its file.
        file: PathBuf,
    },
    /// An MCP server did not return this prompt.
    #[error("{0}")]
    Server(String),
    /// The list of trusted items cannot be read.
    #[error("{0}")]
    Trust(String),
    /// An agent cannot be asked.
    #[error("{0}")]
    Agent(String),
    /// This session has no commands.
    #[error("this session knows no commands")]
    NoCommands,
}

/// Whether this can be the name of a command.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    name.starts_with(char::is_alphanumeric) && name.chars().count() <= NAME_CHARS && name.chars().all(fits)
}

/// A command in a file: Markdown with front matter, and the template as its body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Command {
    /// Its name: the path of its file below the commands folder, with `:` in place of `/`.
    pub name: String,
    /// Its description, for people.
    pub description: String,
    /// Its argument hint.
    pub hint: String,
    /// The prompt, with placeholders.
    pub template: String,
    /// How the placeholders are numbered.
    pub places: Places,
    /// What it allows until the end of its turn, as rules.
    pub allows: Vec<String>,
    /// How it is carried out.
    pub directions: Directions,
    /// The fields of its file that Piton ignores.
    pub unknown: Vec<String>,
    /// Its file.
    pub file: PathBuf,
}

impl Command {
    /// Reads a command below a commands folder. The error says what is wrong, with the line if known.
    pub fn read(folder: &Path, file: &Path, text: &str) -> Result<Self, String> {
        let (text, _) = hidden::strip(text);
        let (text, template) = (&*text, template::body(&text));
        let is_claude = folder.components().any(|part| part.as_os_str() == ".claude");
        let places = if is_claude { Places::of_claude(template) } else { Places::default() };
        let mut command = Self {
            name: name(folder, file)?,
            template: template.to_owned(),
            places,
            file: file.to_owned(),
            ..Self::default()
        };
        for (field, value) in &fields(text)? {
            command.known(field, value).map_err(|why| located(text, field, &why))?;
        }
        command.describe();
        Ok(command)
    }

    /// Reads a field, or notes that it is ignored.
    fn known(&mut self, field: &str, value: &Value) -> Result<(), String> {
        match field {
            "description" => self.description = line(&word(field, value)?, DESCRIPTION_CHARS),
            "argument-hint" => self.hint = hint(field, value)?,
            "arguments" => {
                self.places.names =
                    list(field, value)?.iter().map(|name| name.trim_matches(['<', '>']).to_owned()).collect();
            }
            "allowed-tools" | "allowed_tools" => {
                for said in list(field, value)? {
                    match allowed(&said) {
                        Some(rules) => self.allows.extend(rules),
                        None => self.unknown.push(format!("{} of allowed-tools", line(&said, HINT_CHARS))),
                    }
                }
            }
            "model" => self.directions.model = Directions::model(word(field, value)?),
            "effort" | "variant" => self.directions.effort = Some(effort(field, value)?),
            "agent" => self.directions.agent = Some(word(field, value)?),
            "subtask" => self.directions.subtask = Some(truth(field, value)?),
            "context" => match word(field, value)?.as_str() {
                "fork" => self.directions.subtask = Some(true),
                "inline" => {}
                other => return Err(format!("context: `{}` is none: fork, inline", line(other, HINT_CHARS))),
            },
            other => self.unknown.push(line(other, HINT_CHARS)),
        }
        Ok(())
    }

    /// Without a description, the first line serves as one.
    fn describe(&mut self) {
        if self.description.is_empty() {
            let first = self.template.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            self.description = line(first.trim_start_matches('#'), DESCRIPTION_CHARS);
        }
    }

    /// Reads a command from a table entry with a `template`.
    pub fn of_table(file: &Path, called: &str, said: &Value) -> Result<Self, String> {
        let Value::Object(fields) = said else { return Err("a list of fields is wanted".to_owned()) };
        let Some(template) = fields.get("template").and_then(Value::as_str) else {
            return Err("template: a text is wanted".to_owned());
        };
        let (template, _) = hidden::strip(template);
        let mut command = Self {
            name: name(Path::new(""), Path::new(&format!("{called}.md")))?,
            template: template.into_owned(),
            file: file.to_owned(),
            ..Self::default()
        };
        for (field, value) in fields.iter().filter(|(field, _)| *field != "template") {
            command.known(field, value)?;
        }
        command.describe();
        Ok(command)
    }

    /// Its template, expanded with these words.
    pub fn expand(&self, words: &str) -> Result<Expanded, CommandError> {
        let pieces = template::pieces(&self.template, words, &self.places);
        if pieces.is_empty() {
            return Err(CommandError::Empty { file: self.file.clone() });
        }
        Ok(Expanded {
            allows: self.allows.clone(),
            directions: self.directions.clone(),
            file: self.file.clone(),
            ..Expanded::of(pieces)
        })
    }

    /// Its name without the folders.
    pub fn short(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or(&self.name)
    }
}

/// `a/b.md` is `a:b`.
fn name(folder: &Path, file: &Path) -> Result<String, String> {
    let below = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let name = below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(":");
    match is_name(&name) {
        true => Ok(name),
        false => Err(format!(
            "`{}` is not a valid command name: up to {NAME_CHARS} letters, digits, - _ and . are allowed",
            line(&name, NAME_CHARS)
        )),
    }
}

/// `[issue] [branch]` is a list to YAML.
fn hint(field: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::Array(items) => {
            let items: Result<Vec<String>, String> = items.iter().map(|item| word(field, item)).collect();
            items?.iter().map(|item| format!("[{item}]")).collect::<Vec<_>>().join(" ")
        }
        value => word(field, value)?,
    };
    Ok(line(&text, HINT_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, text: &str) -> Result<Command, String> {
        let (folder, below) = file.split_once("commands/").unwrap();
        let folder = PathBuf::from(format!("/w/{folder}commands"));
        Command::read(&folder, &folder.join(below), text)
    }

    fn said(command: &Command, words: &str) -> String {
        match &command.expand(words).unwrap().pieces[..] {
            [Piece::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_is_called_by_its_path() {
        let command = read(".claude/commands/git/pr.md", "# Make a PR\n\nDo it.").unwrap();
        assert_eq!((command.name.as_str(), command.short()), ("git:pr", "pr"));
        assert_eq!(command.description, "Make a PR");
        assert!(read(".piton/commands/a b.md", "x").unwrap_err().contains("`a b` is not a valid command name"));
        assert!(read(".piton/commands/.md", "x").is_err());
    }

    #[test]
    fn its_front_matter_says_what_it_is_and_how_places_count() {
        let text = "---\ndescription: Fix: an issue\nargument-hint: [issue] [branch]\narguments: issue branch\n\
                    color: red\n---\nFix $issue on $branch, $0.";
        let command = read(".claude/commands/fix.md", text).unwrap();
        assert_eq!(
            (command.description.as_str(), command.unknown.as_slice()),
            ("Fix: an issue", &["color".to_owned()][..])
        );
        assert!(command.hint.contains("issue"), "{}", command.hint);
        assert_eq!(said(&command, "12 main"), "Fix 12 on main, 12.");
        let command = read(".opencode/commands/fix.md", "Fix $1, $0").unwrap();
        assert_eq!(said(&command, "12 main"), "Fix 12 main, $0", "elsewhere $0 is no place, and the last takes all");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(read(".piton/commands/x.md", "---\ndescription: [\n---\nx").unwrap_err().contains("not valid YAML"));
        let empty = read(".piton/commands/x.md", "---\ndescription: x\n---\n").unwrap();
        assert_eq!(empty.expand(""), Err(CommandError::Empty { file: "/w/.piton/commands/x.md".into() }));
        let missing = CommandError::Missing { name: "reviw".into(), known: vec!["review".into(), "pr".into()] };
        let said = "unknown command `reviw`; `piton command` lists commands; did you mean `review`?";
        assert_eq!(missing.to_string(), said);
    }
}
