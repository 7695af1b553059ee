//! When calls in text are spoken, taught or only looked for: what people say of it, and what it means for one model.

use super::{Calls, FoundTools, Notation, Options, Showing, Speech, TextDialect, TextTools, detect};
use crate::model::Model;
use piton_core::policy::{CallsTaken, Policy, ToolsBy};
use serde::Deserialize;
use std::str::FromStr;
use std::sync::Arc;

/// What is done about calls in a model's text. Written as the approach's name, with `:first` behind it if no call but
/// a reply's first counts, and with `:relaxed` if arguments that are nearly JSON are read as what they plainly mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Mode {
    /// How.
    pub approach: Approach,
    /// How many calls of a reply count.
    pub calls: Calls,
    /// How exactly arguments must be JSON.
    pub notation: Notation,
    /// What is shown of the prose before the reply is whole; only presets ask for anything else than all of it.
    pub showing: Showing,
}

/// How a model comes to its calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Approach {
    /// By what is known of the model: one that has no calls is taught `<use_tool>`; one of a family that writes calls
    /// as text is looked through where its server is somebody's own and may not parse them; any other is left alone.
    #[default]
    Auto,
    /// The server does it all.
    Off,
    /// The model is told of the tools in its prompt, and reads and writes calls as text.
    Taught(Speech),
    /// The server is told of the tools, and calls that it leaves in the text are found there. `None`: in any dialect.
    Found(Option<TextDialect>),
}

/// What a model's server does about calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsRead {
    /// It is a service, which reads the calls of its models: what it hands on as text is meant as text.
    Surely,
    /// It is somebody's own, and set up as it may be.
    Perhaps,
}

/// Every approach that has a name, in the order in which people are told of them.
const NAMES: [(&str, Approach); 12] = [
    ("auto", Approach::Auto),
    ("off", Approach::Off),
    ("use_tool", Approach::Taught(Speech::UseTool)),
    ("hermes", Approach::Taught(Speech::Hermes)),
    ("look", Approach::Found(None)),
    ("qwen_coder", Approach::Found(Some(TextDialect::QwenCoder))),
    ("glm", Approach::Found(Some(TextDialect::Glm))),
    ("kimi", Approach::Found(Some(TextDialect::Kimi))),
    ("deepseek", Approach::Found(Some(TextDialect::DeepSeek))),
    ("mistral", Approach::Found(Some(TextDialect::Mistral))),
    ("llama", Approach::Found(Some(TextDialect::Llama))),
    ("harmony", Approach::Found(Some(TextDialect::Harmony))),
];

/// What stands behind the name where only the first call counts.
const FIRST: &str = ":first";
/// What stands behind the name where arguments need not be JSON to the letter.
const RELAXED: &str = ":relaxed";

/// A word that names no approach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no way to call tools in text; there are {known}, each also with {FIRST} or {RELAXED} behind it")]
pub struct NotAMode {
    word: String,
    known: String,
}

impl FromStr for Mode {
    type Err = NotAMode;

    fn from_str(text: &str) -> Result<Self, NotAMode> {
        let (word, notation) = match text.strip_suffix(RELAXED) {
            Some(word) => (word, Notation::Relaxed),
            None => (text, Notation::Json),
        };
        let (word, calls) = match word.strip_suffix(FIRST) {
            Some(word) => (word, Calls::FirstOnly),
            None => (word, Calls::All),
        };
        let known = || NAMES.map(|(name, _)| name).join(", ");
        let (_, approach) = NAMES
            .into_iter()
            .find(|(name, _)| *name == word)
            .ok_or_else(|| NotAMode { word: text.to_owned(), known: known() })?;
        Ok(Self { approach, calls, notation, showing: Showing::AtOnce })
    }
}

impl TryFrom<String> for Mode {
    type Error = NotAMode;

    fn try_from(text: String) -> Result<Self, NotAMode> {
        text.parse()
    }
}

impl Mode {
    /// What it is written like, as a regular expression.
    pub fn pattern() -> String {
        format!("^({})({FIRST})?({RELAXED})?$", NAMES.map(|(name, _)| name).join("|"))
    }

    /// What the rules of a turn ask for, where they do: a preset may speak in text whatever the model can.
    pub fn of_policy(policy: &Policy) -> Option<Self> {
        let calls = match policy.calls.taken {
            CallsTaken::All => Calls::All,
            CallsTaken::First => Calls::FirstOnly,
        };
        match policy.calls.tools_by {
            ToolsBy::Model => None,
            ToolsBy::Text => {
                let approach = Approach::Taught(Speech::UseTool);
                Some(Self { approach, calls, notation: Notation::Relaxed, showing: Showing::Buffered })
            }
        }
    }

    /// The model as it is to be asked. `has_tools` is what the catalogue knows of it, and `read` whether its server reads
    /// its calls.
    pub fn around(self, model: Arc<dyn Model>, name: &str, has_tools: Option<bool>, read: CallsRead) -> Arc<dyn Model> {
        let approach = match self.approach {
            Approach::Auto => known(name, has_tools, read),
            said @ (Approach::Off | Approach::Taught(_) | Approach::Found(_)) => said,
        };
        let options = Options { calls: self.calls, notation: self.notation, showing: self.showing };
        match approach {
            Approach::Auto | Approach::Off => model,
            Approach::Taught(speech) => Arc::new(TextTools::new(model).teaching(speech).with(options)),
            Approach::Found(dialect) => Arc::new(FoundTools::new(model, dialect, options)),
        }
    }
}

/// What is best for a model of which nothing was said.
fn known(name: &str, has_tools: Option<bool>, read: CallsRead) -> Approach {
    match (has_tools, read, detect(name)) {
        (Some(false), _, _) => Approach::Taught(Speech::UseTool),
        (Some(true) | None, CallsRead::Perhaps, Some(dialect)) => Approach::Found(Some(dialect)),
        (Some(true) | None, CallsRead::Surely, _) | (Some(true) | None, CallsRead::Perhaps, None) => Approach::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(text: &str) -> Result<Mode, String> {
        text.parse().map_err(|error: NotAMode| error.to_string())
    }

    #[test]
    fn a_mode_is_written_as_its_name() {
        for (name, approach) in NAMES {
            let plain = Mode { approach, ..Mode::default() };
            assert_eq!(mode(name), Ok(plain));
            assert_eq!(mode(&format!("{name}{FIRST}")), Ok(Mode { calls: Calls::FirstOnly, ..plain }));
            let relaxed = Mode { calls: Calls::FirstOnly, notation: Notation::Relaxed, ..plain };
            assert_eq!(mode(&format!("{name}{FIRST}{RELAXED}")), Ok(relaxed));
        }
        let error = mode("xml").expect_err("no name of ours");
        assert!(error.contains("\"xml\"") && error.contains("use_tool, hermes"), "{error}");
    }

    #[test]
    fn what_is_known_of_a_model_decides_where_nothing_is_said() {
        assert_eq!(known("gemma-2-27b-it", Some(false), CallsRead::Perhaps), Approach::Taught(Speech::UseTool));
        assert_eq!(known("hermes-4-70b", Some(false), CallsRead::Perhaps), Approach::Taught(Speech::UseTool));
        assert_eq!(known("qwen3:4b", None, CallsRead::Perhaps), Approach::Found(Some(TextDialect::Hermes)));
        assert_eq!(known("kimi-k2", Some(true), CallsRead::Perhaps), Approach::Found(Some(TextDialect::Kimi)));
        assert_eq!(known("kimi-k2", Some(true), CallsRead::Surely), Approach::Off);
        assert_eq!(known("gemma-2-27b-it", Some(false), CallsRead::Surely), Approach::Taught(Speech::UseTool));
        assert_eq!(known("gpt-5.4", Some(true), CallsRead::Perhaps), Approach::Off);
        assert_eq!(known("some-model", None, CallsRead::Perhaps), Approach::Off);
    }
}
