//! Tools as the loop sees them: what a tool declares, what a call carries, what came of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a tool declares about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls it by: `[a-z][a-z0-9_]*`.
    pub name: String,
    /// What the model is told, in one short paragraph.
    pub description: String,
    /// JSON Schema of the input, an object schema.
    pub schema: Value,
    /// What may be done with a call that was cut off.
    pub class: ToolClass,
}

/// What a call of this tool does to the world, hence what resuming may do with one that had begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Reads only: run again freely; runs beside anything but writes.
    Read,
    /// Writes what can be checked afterwards (a file by its hash): done exactly once. Runs alone.
    Write,
    /// Anything else (a shell): never run a second time. Runs beside other calls, but not beside writes.
    Opaque,
}

/// The arguments of a call, parsed once at the edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallInput {
    /// A JSON object, ready for the tool to check.
    Json(Value),
    /// What the model sent is not a JSON object. Never run; the model is told.
    Invalid {
        /// The text as it came, cut to something readable.
        raw: String,
        /// What is wrong with it.
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

    /// The arguments, where they are an object.
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

/// The fact that says what a call was run with, where hooks or a person changed it.
const CHANGED_INPUT: &str = "changed_input";

/// What came of a tool call. A failed tool is not an error of the loop: it is an outcome the model reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What the model reads. Already cut to the output limit, and valid UTF-8 without control characters.
    pub text: String,
    /// One short line for people: `read src/lib.rs (120 lines)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Facts for programs: exit code, file hashes, where the full output lies. An object, or null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// How long it ran, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool did what was asked. A command that ran and returned non-zero is `Failed`.
    Ok,
    /// The tool ran and reported a failure, or its input was not acceptable.
    Failed,
    /// It was stopped at its time limit.
    TimedOut,
    /// It was refused: by a rule, by a person, or because nobody was there to ask.
    Denied,
    /// The turn was cancelled before or while it ran.
    Cancelled,
    /// It had begun and its end was not seen: outcome unknown, never run again.
    Interrupted,
    /// It was recorded as begun but provably never ran.
    NotStarted,
}

impl Status {
    /// True for everything the model should read as an error.
    pub fn is_error(self) -> bool {
        self != Self::Ok
    }
}

impl Outcome {
    /// The tool did what was asked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    /// The tool could not do what was asked; `text` tells the model why and what to try.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Status::Failed, text)
    }

    /// An outcome of this status.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), title: String::new(), metadata: Value::Null, duration_ms: 0 }
    }

    /// With a line for people.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// What the call was run with, where that is not what the model wrote.
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

    /// With facts for programs (a JSON object).
    pub fn with(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }
}
