//! Tools as the loop sees them: what a tool declares, what a call carries, what came of it.

use crate::budget::Bound;
use crate::ids::{CallId, SessionId};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a tool declares about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls it by: `[a-z][a-z0-9_]*`.
    pub name: String,
    /// The description for the model, in one short paragraph.
    pub description: String,
    /// JSON Schema of the input, an object schema.
    pub schema: Value,
    /// The effects of its calls on the world and on other calls.
    pub effects: Effects,
}

/// The effects of a call. They are recorded with the call ([`crate::event::Event::CallRequested`]) and read only from
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedEffects")]
pub struct Effects {
    /// How resuming treats a call that had started.
    pub resume: Resume,
    /// Which calls may run at the same time.
    pub beside: Beside,
    /// What it may change; decides whether the workspace needs a snapshot first.
    pub touches: Touches,
}

/// How resuming treats a call that had started and whose end is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// Run it again: it changes nothing.
    Rerun,
    /// Ask the tool, which checks whether the change was made, and makes it if not.
    Verify,
    /// Ask the tool, which repeats the request under the same idempotency key.
    Keyed,
    /// Ask the tool, which collects the outcome of the process that has outlived Piton.
    Reattach,
    /// Settle it as interrupted.
    Never,
}

/// Which other calls of a step may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// Every other call.
    Any,
    /// Every other call except those that run alone.
    NoWrites,
    /// Only calls that may run beside any other: it waits for the calls before it and delays the calls after it.
    Alone,
}

/// What a call may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touches {
    /// Nothing.
    Nothing,
    /// The session's own state.
    Session,
    /// Files of the workspace.
    Workspace,
    /// Anything, the workspace included.
    World,
}

impl Effects {
    /// Only reads.
    pub const READ: Self = Self { resume: Resume::Rerun, beside: Beside::NoWrites, touches: Touches::Nothing };
    /// Writes files, and can tell afterwards whether it did (by a hash).
    pub const WRITE: Self = Self { resume: Resume::Verify, beside: Beside::Alone, touches: Touches::Workspace };
    /// May do anything, like a shell.
    pub const OPAQUE: Self = Self { resume: Resume::Reattach, beside: Beside::NoWrites, touches: Touches::World };

    /// Whether a snapshot of the workspace has to come first.
    pub fn need_snapshot(self) -> bool {
        self.touches >= Touches::Workspace
    }
}

impl Beside {
    /// Whether the two may run at the same time.
    pub fn may_run_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) | (Self::NoWrites, Self::NoWrites) => true,
            (Self::Alone, _) | (_, Self::Alone) => false,
        }
    }
}

/// Effects as journals hold them; those before version 4 hold one word for all three.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedEffects {
    Class(Class),
    Effects { resume: Resume, beside: Beside, touches: Touches },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Read,
    Write,
    Opaque,
}

impl From<RecordedEffects> for Effects {
    fn from(recorded: RecordedEffects) -> Self {
        match recorded {
            RecordedEffects::Class(Class::Read) => Self::READ,
            RecordedEffects::Class(Class::Write) => Self::WRITE,
            RecordedEffects::Class(Class::Opaque) => Self::OPAQUE,
            RecordedEffects::Effects { resume, beside, touches } => Self { resume, beside, touches },
        }
    }
}

/// A tool's description of a call before it runs: how people see it, and what it will access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The kind of call.
    pub kind: CallKind,
    /// Its subject: the command, the path, the pattern.
    pub title: String,
    /// What it will access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<Access>,
}

/// The kind of a call, for views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Reads a file.
    Read,
    /// Changes a file; views show the change.
    Edit,
    /// Looks for files or text.
    Search,
    /// Runs a command; views show what it printed.
    Execute,
    /// Reads from the network.
    Fetch,
    /// Anything else.
    Other,
}

/// One thing that a call will access. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads a file, or a folder with everything below it.
    Read(String),
    /// Writes a file.
    Write(String),
    /// Runs a shell script.
    Run(String),
    /// Runs a simple command of that script.
    Command(Box<CommandPart>),
    /// Reads or writes a file that is known only when the script runs; the text is its word in the script.
    SomePath(String),
    /// Does something in that script that its text does not reveal; the text names the part and the reason.
    Unknowable(String),
    /// Talks to a host.
    Reach(String),
    /// Starts a subagent.
    Spawn,
    /// Uses a tool that does not declare its accesses.
    Use(String),
    /// Runs outside the session's sandbox; the text is the model's reason.
    Unsandboxed(String),
}

impl Access {
    /// The file or folder, if it is one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read(path) | Self::Write(path) => Some(path),
            Self::Run(_)
            | Self::Command(_)
            | Self::SomePath(_)
            | Self::Unknowable(_)
            | Self::Reach(_)
            | Self::Spawn
            | Self::Use(_)
            | Self::Unsandboxed(_) => None,
        }
    }
}

/// A simple command of a script, as the shell would run it; see [`piton_shell::Part`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommandPart {
    /// Program and arguments, without quotes and escapes.
    pub words: Vec<String>,
    /// Other names of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The wrappers that run it, with arguments, outermost first: `sudo -u bob`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// The positions of words that are known only when it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<usize>,
    /// Words that make it do something beyond its purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risky: Vec<String>,
    /// Whether its arguments show that it changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_harmless: bool,
    /// Code for an interpreter among its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Names that may be hosts, anywhere in the script; on the first command that changes something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_reach: Vec<String>,
    /// Files that it writes because of its arguments, without redirections. A rule that allows the command allows these
    /// too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Files that it may open, as absolute paths: from words whose role is not known, or from its code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_open: Vec<String>,
    /// Folders below which it opens everything: `folder`, an absolute path; `names`, if limited to these; `hidden`, whether hidden files are included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<piton_shell::Below>,
}

impl CommandPart {
    /// As patterns match it.
    pub fn read(&self) -> piton_shell::Part {
        let own = self.words.first().cloned();
        piton_shell::Part {
            words: self.words.clone(),
            names: own.into_iter().chain(self.names.iter().cloned()).collect(),
            text: String::new(),
            span: 0..0,
            effect: piton_shell::Effect::Unknown,
            reads: Vec::new(),
            writes: Vec::new(),
            own_writes: Vec::new(),
            may_open: Vec::new(),
            below: Vec::new(),
            unresolved_paths: Vec::new(),
            hosts: Vec::new(),
            through: self.through.clone(),
            risky: self.risky.clone(),
            unresolved: self.unresolved.clone(),
            code: self.code.clone(),
            may_reach: self.may_reach.clone(),
        }
    }
}

impl From<piton_shell::Part> for CommandPart {
    fn from(part: piton_shell::Part) -> Self {
        let is_harmless = part.effect == piton_shell::Effect::ChangesNothing;
        let piton_shell::Part { words, names, through, unresolved, risky, code, own_writes, may_open, .. } = part;
        let names = names.into_iter().filter(|name| words.first() != Some(name)).collect();
        Self {
            words,
            names,
            through,
            unresolved,
            risky,
            is_harmless,
            code,
            may_reach: part.may_reach,
            writes: own_writes,
            may_open,
            below: part.below,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The arguments of a call, parsed once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallInput {
    /// A JSON object, ready for the tool to check.
    Json(Value),
    /// The model sent something other than a JSON object. The call never runs, and the model is told why.
    Invalid {
        /// The text as it came, shortened if necessary.
        raw: String,
        /// The error.
        error: String,
    },
}

impl CallInput {
    /// Reads the arguments as a provider sends them: a JSON object in text. Empty text and `null` are `{}`; text
    /// that holds a JSON string holding an object is unwrapped once (some servers encode twice).
    pub fn parse(raw: &str) -> Self {
        if raw.trim().is_empty() {
            return Self::Json(Value::Object(Map::new()));
        }
        match serde_json::from_str::<Value>(raw) {
            Ok(Value::String(inner)) if inner.trim_start().starts_with('{') => Self::parse(&inner),
            Ok(value) => Self::from_value(value),
            Err(error) => Self::invalid(raw, &format!("not valid JSON: {error}")),
        }
    }

    /// Takes arguments that came as a JSON value rather than as text.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(_) => Self::Json(value),
            Value::Null => Self::Json(Value::Object(Map::new())),
            other => Self::invalid(&other.to_string(), "expected a JSON object"),
        }
    }

    /// The arguments, if they are an object.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Invalid { .. } => None,
        }
    }

    /// These arguments, of which a piece may have been lost on the way: never run, whatever they look like.
    #[must_use]
    pub fn doubtful(self) -> Self {
        match self {
            Self::Json(value) => {
                Self::invalid(&value.to_string(), "a piece of the answer was lost on the way, and may be missing here")
            }
            Self::Invalid { .. } => self,
        }
    }

    fn invalid(raw: &str, error: &str) -> Self {
        /// Enough to see what went wrong, little enough not to flood the journal.
        const SHOWN_CHARS: usize = 2_000;
        Self::Invalid { raw: raw.chars().take(SHOWN_CHARS).collect(), error: error.to_owned() }
    }
}

/// The fact that says what the sandbox took away.
pub const UNDONE: &str = "undone";

/// How the model reads what the sandbox took away.
pub fn undone_line(said: &str) -> String {
    format!("[sandbox: {said}]")
}

/// The fact that says what a call was run with, where hooks or a person changed it.
const CHANGED_INPUT: &str = "changed_input";

/// The result of a tool call. A failed tool is not an error of the loop: it is an outcome that the model reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The text for the model, already cut to the output limit; valid UTF-8 without control characters.
    pub text: String,
    /// One short line for people: `read src/lib.rs (120 lines)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Facts for programs, such as exit code, file hashes and the path of the full output. An object, or null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// How long it ran, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The background command or subagent that it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskNews>>,
    /// Pictures for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
    /// The usage of the subagent that carried out the call, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<Box<Delegated>>,
}

/// The field of an outcome's metadata that says why a subagent did not finish whose calls were refused.
pub const REFUSED: &str = "refused";

/// The usage of a subagent for one call, including the subagents that it has called. It counts toward the turn of the
/// call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// Its session.
    pub session: SessionId,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Money, in millionths of a US dollar; `None` when no call had a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Model calls whose cost is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u32,
    /// Steps of its turn, with those of the subagents that it called.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u32,
    /// The most that it can have used: the known usage, plus the worst case of the rest.
    pub at_most: Bound,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What an outcome says about a background command or subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNews {
    /// Which.
    pub task: CallId,
    /// This call started it, and it was still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<TaskBegan>,
    /// How many bytes of its output the model has read, from the beginning.
    #[serde(default)]
    pub read_to: u64,
    /// Whether this outcome tells the model that it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_over: bool,
}

/// The start of a background command or subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBegan {
    /// The command.
    pub command: String,
    /// Whether to tell the model when it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    /// The subagent, if it is a subagent and not a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Box<BackgroundAgent>>,
}

/// A background subagent: everything needed to start or continue it after the turn of its call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundAgent {
    /// Its session.
    pub session: SessionId,
    /// Whether that session existed before the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// The agent's name.
    pub agent: String,
    /// The work in a few words.
    pub title: String,
    /// Its prompt.
    pub prompt: String,
    /// The model that the call names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it works in a git worktree of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
}

/// A picture from a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// For example `image/png`.
    pub media_type: String,
    /// Base64 without line breaks.
    pub data: String,
}

/// A file that a call read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFact<'o> {
    /// It, absolute.
    pub path: &'o str,
    /// The hash of its content, if known.
    pub hash: Option<&'o str>,
    /// Whether the call removed it.
    pub is_gone: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool succeeded. A command that ran and returned non-zero is `Failed`.
    Ok,
    /// The tool ran and reported a failure, or its input was not acceptable.
    Failed,
    /// Piton stopped it at its time limit.
    TimedOut,
    /// A rule or a person refused it, or nobody was there to ask.
    Denied,
    /// The turn was cancelled before or while it ran.
    Cancelled,
    /// It had started and its end is unknown; it never runs again.
    Interrupted,
    /// Its start is recorded, but it provably never ran.
    NotStarted,
}

impl Status {
    /// True for everything the model should read as an error.
    pub fn is_error(self) -> bool {
        self != Self::Ok
    }
}

/// The text of a command that printed nothing and has nothing else to say.
pub const NO_OUTPUT: &str = "(no output)";

/// How the text of a command names its exit code.
pub fn exit_line(code: i64) -> String {
    format!("exit code {code}")
}

impl Outcome {
    /// The tool succeeded.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    /// The tool could not do what was asked; `text` tells the model why and what to try.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Status::Failed, text)
    }

    /// An outcome of this status.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            title: String::new(),
            metadata: Value::Null,
            duration_ms: 0,
            task: None,
            pictures: Vec::new(),
            delegated: None,
        }
    }

    /// The line of the text that names the exit code of a failed command. People read the code in the title.
    pub fn exit_line(&self) -> Option<String> {
        let code = self.metadata.get("exit_code")?.as_i64()?;
        (code != 0).then(|| exit_line(code))
    }

    /// With a line for people.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// About this command in the background.
    pub fn about(mut self, news: TaskNews) -> Self {
        self.task = Some(Box::new(news));
        self
    }

    /// The files that it read or changed.
    pub fn files(&self) -> impl Iterator<Item = FileFact<'_>> {
        let several = self.metadata.get("files").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        several.iter().chain([&self.metadata]).filter_map(|facts| {
            let hash = facts.get("hash").and_then(Value::as_str);
            let is_gone = facts.get("after").is_some_and(Value::is_null);
            Some(FileFact { path: facts.get("path")?.as_str()?, hash, is_gone })
        })
    }

    /// What the sandbox took away of what was made while the call ran, a sentence each.
    pub fn undone(&self) -> impl Iterator<Item = &str> {
        self.metadata.get(UNDONE).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The text without the lines that say what the sandbox took away.
    pub fn text_without_undone(&self) -> String {
        let is_told = |line: &&str| !self.undone().any(|said| undone_line(said) == *line);
        self.text.lines().filter(is_told).collect::<Vec<_>>().join("\n")
    }

    /// The input that the call ran with, if it is not the model's.
    pub fn changed_input(&self) -> Option<&Value> {
        self.metadata.get(CHANGED_INPUT)
    }

    /// Keeps what the call was run with.
    pub(crate) fn note_input(&mut self, input: Value) {
        match &mut self.metadata {
            Value::Object(facts) => drop(facts.insert(CHANGED_INPUT.to_owned(), input)),
            other => *other = Value::Object(Map::from_iter([(CHANGED_INPUT.to_owned(), input)])),
        }
    }

    /// With a picture.
    pub fn showing(mut self, picture: Picture) -> Self {
        self.pictures.push(picture);
        self
    }

    /// With facts for programs (a JSON object).
    pub fn with(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }
}
