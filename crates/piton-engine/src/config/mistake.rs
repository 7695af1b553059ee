//! Errors in a configuration, for the person who wrote it: which key, in which line, what it must be, and the nearest
//! known word.

use crate::spelling::{did_you_mean, nearest};
use piton_core::preset::PRESETS;
use std::fmt;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// The format of configuration files that this version of Piton knows.
pub const FORMAT: u32 = 1;

/// The way to a key, from the top.
pub type KeyPath = Vec<String>;

/// A key at the top, with the keys in it where it is a table.
pub(super) type Section = (String, Vec<String>);

/// A value that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The keys that it is about: the one at fault, and those that it contradicts.
    pub keys: Vec<KeyPath>,
    what: String,
}

/// Why a text is not a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not TOML of this shape. Names line and field.
    #[error("{0}")]
    Shape(String),
    /// It is in a format that a later version of Piton has made.
    #[error(
        "it is in format {found}, made for a newer Piton; this one knows {FORMAT}. Update Piton, or take `version` and what is \
         new out of it"
    )]
    Newer {
        /// The format it says it has.
        found: i64,
    },
    /// A value makes no sense.
    #[error("{}{mistake}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Value {
        /// Where it is, in a file.
        line: Option<usize>,
        /// What is wrong.
        mistake: Mistake,
    },
}

/// A word that names no preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{said}`; there are {}{}", names().join(", "), did_you_mean(said, names()))]
pub struct NoPreset {
    /// The word.
    pub said: String,
}

fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

impl Mistake {
    /// `what` is said of the key: "must be a number above 0".
    pub(super) fn new<K: Into<String>>(way: impl IntoIterator<Item = K>, what: impl fmt::Display) -> Self {
        let way: KeyPath = way.into_iter().map(Into::into).collect();
        Self { what: format!("{} {what}", subject(&way)), keys: vec![way] }
    }

    /// The same, where the key contradicts another one.
    pub(super) fn against<K: Into<String>>(mut self, way: impl IntoIterator<Item = K>) -> Self {
        self.keys.push(way.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A key as people speak of it.
fn subject(way: &[String]) -> String {
    match way {
        [] => String::new(),
        [key] => key.clone(),
        [table, name] if table == "models" => format!("[models.{name:?}]"),
        [table, _] if table == "providers" => format!("[{}]", dotted(way)),
        [table @ .., key] => format!("{} in [{}]", dotted(std::slice::from_ref(key)), dotted(table)),
    }
}

/// A key in full, as TOML writes it.
pub(super) fn dotted(way: &[String]) -> String {
    let is_bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let keys: Vec<String> = way
        .iter()
        .map(|key| if !key.is_empty() && is_bare(key) { key.clone() } else { Value::from(key.clone()).to_string() })
        .collect();
    keys.join(".")
}

impl ConfigError {
    /// Whether a value of this key, which has no table, is at fault.
    pub fn is_about(&self, key: &str) -> bool {
        match self {
            Self::Value { mistake, .. } => mistake.keys.first().is_some_and(|way| *way == [key]),
            Self::Shape(_) | Self::Newer { .. } => false,
        }
    }

    pub(super) fn of(mistake: Mistake, text: Option<&str>) -> Self {
        let line = text.zip(mistake.keys.first()).and_then(|(text, way)| line_of(text, way));
        Self::Value { line, mistake }
    }

    pub(super) fn shape(error: &toml::de::Error, keys: &[Section]) -> Self {
        let message = error.message();
        let hint = meant(message, keys).map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
        let said = error.to_string();
        // The message stands at the end, behind the line that is shown.
        let shown = said.trim_end().strip_suffix(message).map(|place| format!("{place}{}", plain(message)));
        let shown = shown.unwrap_or_else(|| said.replacen(message, &plain(message), 1));
        let shown = if shown.ends_with('\n') { shown } else { format!("{shown}\n") };
        Self::Shape(format!("{shown}{hint}").trim_end().to_owned())
    }
}

/// The line of a file that a key stands in.
pub(super) fn line_of(text: &str, way: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for key in way {
        let Some((said, value)) = table.iter().find(|(said, _)| said.get_ref() == key) else { break };
        found = Some(said.span().start);
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    found.and_then(|at| text.get(..at)).map(|before| before.matches('\n').count() + 1)
}

/// Whether a text that cannot be read says of itself that it is for a newer version, in whatever syntax that has.
pub(super) fn newer(text: &str) -> Option<ConfigError> {
    let before_tables = text.lines().map(str::trim).take_while(|line| !line.starts_with('['));
    let version =
        before_tables.filter_map(|line| line.strip_prefix("version")?.trim_start().strip_prefix('=')).next()?;
    let version = version.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    let found = version.parse::<i64>().ok().filter(|found| *found > i64::from(FORMAT))?;
    Some(ConfigError::Newer { found })
}

/// What TOML's reader says, without the names of Rust's types.
fn plain(message: &str) -> String {
    let Some((said, wanted)) = message.rsplit_once(", expected ").filter(|(said, _)| said.starts_with("invalid "))
    else {
        return message.to_owned();
    };
    let said = match said.strip_prefix("invalid type: ") {
        Some("sequence") => "invalid type: a list",
        Some("map") => "invalid type: a table",
        Some(_) | None => said,
    };
    let wanted = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        struct_name if struct_name.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{}, expected {wanted}", said.replace("floating point", "number"))
}

/// The word that was meant, in a message of the form "unknown field `modle`, expected one of `model`, `limits`": one of
/// those, or else one that stands elsewhere.
fn meant(message: &str, keys: &[Section]) -> Option<String> {
    let mut words = message.split('`').skip(1).step_by(2);
    let said = words.next()?;
    let is_near = nearest(said, words).map(|word| format!("`{word}`"));
    let is_key = message.starts_with("unknown field");
    is_near.or_else(|| elsewhere(said, keys).filter(|_| is_key))
}

/// The key of a table that is most like a word.
fn elsewhere(said: &str, keys: &[Section]) -> Option<String> {
    let inner = keys.iter().flat_map(|(section, keys)| keys.iter().map(move |key| (key.as_str(), section.as_str())));
    let word = nearest(said, inner.clone().map(|(key, _)| key))?;
    inner.into_iter().find(|(key, _)| *key == word).map(|(key, section)| format!("`{key}` in [{section}]"))
}
